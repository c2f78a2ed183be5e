"""Compiles the kernels of the formats, by reading a small capture of each, so that nobody waits for it later."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cdcwb_synth as synth
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.base import EVERYTHING, TableRequest
from cdcwb.formats.files import list_files


def warm(name: str, folder: Path) -> None:
    """Reads the events and one table of a small capture."""
    made = synth.generate(name, changes=40, seed=1, to=folder)
    form = get_format(name)
    paths = list_files(str(made / "capture"))
    plan = form.plan(paths, {}, lambda function, tasks: [function(task) for task in tasks])
    for split in range(len(plan.splits)):
        tables: set[str] = set()
        for batch in form.read(plan, split, EVERYTHING):
            tables.update(name for name in batch.column("table_name").to_pylist() if name)
        for table in sorted(tables)[:1]:
            for _ in form.read_table(plan, split, TableRequest(table)):
                pass


def main() -> None:
    """All formats; one that cannot be read costs compiling at the first use, no more."""
    for name in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                warm(name, Path(folder) / name)
            except Exception as reason:
                sys.stderr.write(f"kernels of {name} are compiled at the first use: {reason}\n")


if __name__ == "__main__":
    main()
