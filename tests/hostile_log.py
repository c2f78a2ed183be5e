"""A small event log whose every text is HTML that would run or load something."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["RUNS", "write_hostile_log"]

RUNS = "<script>document.title='owned'</script>\"'><img src=x onerror=\"document.title='owned'\">"

_COLUMNS = (
    *("record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name"),
    *("column_name", "old_value", "new_value"),
)
_QUOTED = '"' + RUNS.replace('"', '\\"') + '"'
_LOG = (
    ("1", "idu=1", "N", "1", "2026-11-09 07:15:02", "", "usr", "fname", "", RUNS),
    ("2", "idu=1", "N", "2", "2026-11-09 07:15:03", "drv", "usr", "fname", RUNS, "John"),
    ("3", "idu=1", "N", "2", "2026-11-09 07:15:04", RUNS, "usr", "fname", "Jack", RUNS),
    ("4", f"idu={_QUOTED}", "N", "4", "2026-11-09 07:15:05", "", RUNS, "", "", ""),
    ("5", RUNS, "N", "4", RUNS, "", RUNS, RUNS, "", ""),
    ("6", "idu=2", RUNS, "6", "2026-11-09 07:15:06", "", "usr", "", "", ""),
    ("7", "idu=2", "N", "6", "2026-11-09 07:15:06", "", "usr", "", "", ""),
    ("8", "idu= 2", "N", "3", "2027-11-09 07:15:06", "", "usr", RUNS, "", RUNS),
)
"""Record 2 is the driver's own (drv), 3 contradicts it, 4 is published, 5 is no key, 6 has no status, 7 asks a table,
and 8, of a key in another spelling, lies a year ahead."""


def write_hostile_log(folder: Path) -> Path:
    """The log as a CSV file, in a folder of a hostile name below this one."""
    place = folder / "log <b>&'"
    place.mkdir()
    with (place / "eventlog.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        writer.writerows(_LOG)
    return place
