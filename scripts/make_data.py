"""Makes the small captures in ``data/``, the same bytes every time: ``python scripts/make_data.py``.

``--to FOLDER`` writes them elsewhere (a test compares the two).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from cdcwb.synth import generate

DATA = Path(__file__).resolve().parent.parent / "data"

NOISE_BYTES = 41
"""Bytes that are no record, put between two records of the second file: what a recorder with a bug leaves behind."""

STORY: dict[str, Any] = {
    "changes": 360,
    "seed": 20260211,
    "start": "2026-02-03T08:00:00Z",
    "tables": 4,
    "all_types_share": 0.02,
    "rate": 3.0,
    "concurrency": 5,
    "transaction_size": 5.0,
    "schema_changes": 2,
    "schema_kinds": "add,rename",
    "refresh_rows": 8,
    "truncates": 1,
    "clock_back": 1,
    "clock_back_seconds": 6.0,
}
"""What happens in the shop, told once over Kafka and once in change tables."""

UNKNOWN_TABLE = "stock_move"
"""The table of the event log whose contents nobody exported."""

REFUSED = (
    "TASK_NAME,TABLE_OWNER,TABLE_NAME,ERROR_TIME,STATEMENT,ERROR\n"
    'shop-load,shop,orders,2026-02-03 08:01:15.102000,"UPDATE ""shop"".""orders"" SET ""state"" = \'PACKED\' '
    'WHERE ""order_id"" = 32","no row was affected: the order is not in the target"\n'
)
"""The control table ``attrep_apply_exceptions``: a change that the target refused."""


def make_gbase8s(to: Path) -> None:
    """``gbase8s/`` (three files that continue one stream) and ``gbase8s.labels.json``."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "gbase8s",
            changes=900,
            seed=20250323,
            to=Path(place) / "made",
            files=3,
            cut_records=True,
            rate=3.0,
            concurrency=6,
            transaction_size=7.0,
            rollback_share=0.08,
            all_types_share=0.03,
            schema_changes=1,
            truncates=1,
            errors=1,
            reversed_updates=0.01,
        )
        rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
        places = [row["offset"] for row in rows if row["file_index"] == 1 and row["operation"] == "INSERT"]
        damaged = made / "capture" / "stream-2.bin"
        data, at = damaged.read_bytes(), places[len(places) // 2]
        damaged.write_bytes(data[:at] + Random(1).randbytes(NOISE_BYTES) + data[at:])
        _replace(made / "capture", to / "gbase8s")
        shutil.copyfile(made / "labels.json", to / "gbase8s.labels.json")


def make_kafka(to: Path) -> None:
    """``qlik-kafka/``: what a console consumer printed of ten partitions, one message lost and one line cut off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "qlik-kafka",
            to=Path(place) / "made",
            metadata="late",
            container="console",
            console_parts="timestamp,partition,offset,key",
            partitions=2,
            tombstone_share=0.06,
            duplicate_share=0.004,
            **STORY,
        )
        files = sorted((made / "capture").iterdir())
        rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
        lost = next(row for row in rows if row["event_no"] == 3 and not row["last_in_transaction"])
        for path in files:
            data = path.read_bytes()
            if path.name == Path(lost["file"]).name:
                data = data[: lost["offset"]] + data[lost["offset"] + lost["length"] :]
            if path is files[-1]:
                last = data.rindex(b"\n", 0, -1) + 1
                data = data[: (last + len(data)) // 2]
            path.write_bytes(data)
        _replace(made / "capture", to / "qlik-kafka")


def make_change_tables(to: Path) -> None:
    """``qlik-change-table/``: the folders of a file target, with the control tables."""
    with tempfile.TemporaryDirectory() as place:
        made = generate("qlik-change-table", to=Path(place) / "made", unknown_times=0.01, **STORY)
        refused = made / "capture" / "attrep_apply_exceptions"
        refused.mkdir()
        (refused / "20260203-080115102.csv").write_text(REFUSED, encoding="utf-8")
        _replace(made / "capture", to / "qlik-change-table")


def make_goldengate(to: Path) -> None:
    """``goldengate/``: Logdump's text of three trail files; a record is missing, one came twice, the end is cut."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "goldengate",
            to=Path(place) / "made",
            changes=160,
            seed=20260714,
            start="2026-07-14T06:30:00Z",
            tables=3,
            all_types=False,
            rate=2.0,
            concurrency=4,
            transaction_size=4.0,
            schema_changes=1,
            schema_kinds="add",
            truncates=1,
            trail="./dirdat/lt",
            trail_files=3,
            first_sequence=41,
            capture_files="trail",
            zone="Europe/Berlin",
            restarts=1,
            abends=1,
            prompts=0.05,
            lobs=False,
            null_share=0.1,
        )
        rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
        inside = [dict(row["headers"])["TransInd"] == "1" for row in rows]
        _, second, third = sorted((made / "capture").iterdir())
        lost = next(row for row, is_inside in zip(rows, inside, strict=True) if is_inside and row["file_index"] == 1)
        data = second.read_bytes()
        second.write_bytes(data[: lost["offset"]] + data[lost["offset"] + lost["length"] :])
        twice = [row for row in rows if row["file_index"] == 2][2]
        data = third.read_bytes()
        again = data[twice["offset"] : twice["offset"] + twice["length"]]
        data = data[: twice["offset"]] + again + data[twice["offset"] :]
        third.write_bytes(data[: data.rindex(b"Partition x0c   G") + 60])
        _replace(made / "capture", to / "goldengate")


def make_event_log(to: Path) -> None:
    """``idm-event-log/``: rows that triggers logged, and ``idm-event-log.snapshot/``: what the tables held then, of all
    of them but one. The last row is cut off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "idm-event-log",
            to=Path(place) / "made",
            changes=270,
            seed=20261296,
            start="2026-11-09T07:15:00Z",
            tables=5,
            rate=0.5,
            concurrency=4,
            transaction_size=3.0,
            rows_before=6,
            update_share=0.35,
            delete_share=0.2,
            null_share=0.12,
            special_keys=0.12,
            special_values=0.12,
            loopback_share=0.06,
            processed_share=0.06,
            odd_status_share=0.01,
            future_share=0.04,
            damaged_share=0.015,
            spelling_share=0.04,
            interleaved_share=0.05,
        )
        (log,) = (made / "capture").iterdir()
        data = log.read_bytes()
        log.write_bytes(data[: data.rindex(b",", 0, data.rindex(b",") - 3)])
        _replace(made / "capture", to / "idm-event-log")
        (made / "truth" / "snapshot" / f"{UNKNOWN_TABLE}.csv").unlink()
        _replace(made / "truth" / "snapshot", to / "idm-event-log.snapshot")


def _replace(made: Path, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(made, folder)


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=DATA, help="folder to write into")
    to: Path = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    make_gbase8s(to)
    make_kafka(to)
    make_change_tables(to)
    make_goldengate(to)
    make_event_log(to)


if __name__ == "__main__":
    main()
