"""Compiles the kernels of the formats ahead of use, by reading a small capture of each:
``python -m cdcwb.cli.kernels``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import cdcwb_synth as synth
from cdcwb.formats import choose, get_format
from cdcwb.formats.dissector import EVERYTHING, TableRequest
from cdcwb.formats.files import list_files
from cdcwb.formats.kernels import forget_unused
from cdcwb.machine import cores
from cdcwb.opening import open_small

_OTHERWISE: Final = {"gbase8s": ({"split_size": "4096"}, {"buffer_size": "4096"})}
"""Options with which a small capture needs the kernels of large files and of read buffers."""


_CHANGES: Final = 400
"""Enough for files whose format is not detected with uncompiled kernels."""


def _warm(name: str, folder: Path) -> None:
    """Detects the format of a capture and reads its changes, its events and one table, and again with a few bytes of
    each file missing."""
    made = synth.generate(name, changes=_CHANGES, seed=1, to=folder)
    paths = list_files(str(made / "capture"))
    choose(paths, "auto", {})
    if (capture := open_small(str(made / "capture"), name)) is not None:
        capture.table("changes")
    for options in ({}, *_OTHERWISE.get(name, ())):
        _read(name, paths, options)
    for path in map(Path, paths):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] + content[len(content) // 2 + 7 :])
    _read(name, paths, {})


def _read(name: str, paths: list[str], options: Mapping[str, str]) -> None:
    form = get_format(name)
    plan = form.plan(paths, options, lambda function, tasks: [function(task) for task in tasks])
    for split in range(len(plan.splits)):
        tables: set[str] = set()
        for batch in form.read(plan, split, EVERYTHING):
            names = zip(batch.column("operation").to_pylist(), batch.column("table_name").to_pylist(), strict=True)
            tables.update(name for operation, name in names if operation and name)
        for table in sorted(tables)[:1]:
            for _ in form.read_table(plan, split, TableRequest(table)):
                pass


def _compile(name: str) -> str | None:
    """Compiles the kernels of a format; why it could not be read, or None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _warm(name, Path(folder) / name)
        except Exception as reason:
            return str(reason)
    return None


def main() -> bool:
    """All formats, on all processors; were they all read? The kernels of one that cannot be are compiled at the first
    use."""
    forget_unused()
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        names = synth.FORMATS
        reasons = dict(zip(names, pool.map(_compile, names), strict=True))
    failed = {name: reason for name, reason in reasons.items() if reason is not None}
    for name, reason in failed.items():
        sys.stderr.write(f"kernels of {name} are compiled at the first use: {reason}\n")
    return not failed


if __name__ == "__main__":
    sys.exit(not main())
