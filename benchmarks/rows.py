"""Rows of text decoded by cdcwb and by pandas, DuckDB and polars, in one process and on one core:
``python -m benchmarks.rows [--changes N] [--rounds N] [FORMAT …]``.

Each tool reads the same files of a capture that ``cdcwb synth`` makes. cdcwb decodes all columns of ``events``: times,
masks, keys, headers, both images, the bytes of each record. The others infer the types of columns, and parse times and
masks. DuckDB and polars are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import cdcwb_synth as synth
from benchmarks.captures import CACHE
from benchmarks.measure import in_turn, on_one_core, ratio
from cdcwb.formats.dissector import EVERYTHING, run_here

__all__ = ["FORMATS", "main", "works"]

_SEED: Final = 20250323
FORMATS: Final = {
    "qlik-change-table": ("**/*__ct/*.csv", "header__timestamp", "header__change_mask"),
    "idm-event-log": ("*.csv", "event_time", None),
    "sqlserver-ct": ("*.csv", None, "__$update_mask"),
}
"""By format: its files, the column with times, and that with masks as hexadecimal digits."""

Work = Callable[[], int]


def _capture(name: str, changes: int) -> Path:
    folder = CACHE / f"default-{name}-{changes}"
    if not (folder / "synth.json").exists():
        synth.generate(name, changes=changes, seed=_SEED, to=folder, overwrite=True)
    return folder / "capture"


def works(name: str, changes: int) -> dict[str, Work]:
    """What reads all rows of a capture, by tool."""
    from cdcwb.formats import named_format
    from cdcwb.formats.files import list_files

    capture = _capture(name, changes)
    pattern, time, mask = FORMATS[name]
    files = [str(file) for file in sorted(capture.glob(pattern))]
    paths = list_files(str(capture))
    form = named_format(paths, name, {})
    plan: Any = form.plan(paths, {}, run_here)

    def cdcwb_rows() -> int:
        return sum(batch.num_rows for split in range(len(plan.splits)) for batch in form.read(plan, split, EVERYTHING))

    def pandas_rows() -> int:
        import pandas as pd

        count = 0
        for file in files:
            rows = pd.read_csv(file, parse_dates=[time] if time else False, dtype={mask: "string"} if mask else None)
            if mask:
                rows[mask] = rows[mask].map(lambda digits: int(digits, 16), na_action="ignore")
            count += len(rows)
        return count

    def duckdb_rows() -> int:
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        columns = f"* REPLACE (unhex(replace(\"{mask}\", '0x', '')) AS \"{mask}\")" if mask else "*"
        types = f", types = {{'{mask}': 'VARCHAR'}}" if mask else ""
        count = 0
        for file in files:
            source = f"read_csv('{file}', header = true, sample_size = -1{types})"
            count += len(connection.sql(f"SELECT {columns} FROM {source}").to_arrow_table())
        return count

    def polars_rows() -> int:
        import polars as pl

        count = 0
        for file in files:
            rows = pl.read_csv(file, schema_overrides=dict.fromkeys(filter(None, (time, mask)), pl.String),
                               infer_schema_length=None)  # fmt: skip
            if time:
                rows = rows.with_columns(pl.col(time).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False))
            if mask:
                rows = rows.with_columns(pl.col(mask).str.strip_prefix("0x").str.decode("hex", strict=False))
            count += len(rows)
        return count

    found = {"cdcwb": cdcwb_rows, "pandas": pandas_rows}
    others = {"duckdb": duckdb_rows, "polars": polars_rows}
    return found | {tool: work for tool, work in others.items() if find_spec(tool)}


def _table(name: str, changes: int, rounds: int) -> Iterator[str]:
    tools = works(name, changes)
    taken = in_turn(tools, rounds)
    for tool, seconds in taken.items():
        times = ratio(seconds, taken["cdcwb"])
        yield f"| {name} | {tool} | {tools[tool]():,} | {statistics.median(seconds):.2f} | {times:.2f} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description="rows of text, by several tools")
    parser.add_argument("--changes", type=int, default=200_000, help="of each capture (default: 200,000)")
    parser.add_argument("--rounds", type=int, default=5, help="of all tools in turn (default: 5)")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"default: {', '.join(FORMATS)}")
    options = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    print("| format | read by | rows | processor s | times cdcwb's |")
    print("| --- | --- | ---: | ---: | ---: |")
    with on_one_core():
        for name in options.formats or FORMATS:
            for row in _table(name, options.changes, options.rounds):
                print(row, flush=True)


if __name__ == "__main__":
    main()
