"""Writes a capture of a described workload, and the truth about it."""

from __future__ import annotations

import difflib
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from cdcwb.errors import CaptureError, OptionError
from cdcwb.synth.gbase8s import Encoder
from cdcwb.synth.options import Options
from cdcwb.synth.shapes import write_files
from cdcwb.synth.stream import Stream
from cdcwb.synth.truth import Truth
from cdcwb.synth.truth_files import write_truth
from cdcwb.synth.workload import Workload

__all__ = ["FORMATS", "generate"]

FORMATS: Final = ("gbase8s",)
"""Formats that can be generated."""

_PARTS: Final = ("capture", "truth", "labels.json", "synth.json")


def generate(
    format: str,
    *,
    changes: int,
    seed: int,
    to: str | Path,
    on_progress: Callable[[int, int], None] | None = None,
    **options: object,
) -> Path:
    """Write a capture of ``changes`` logical changes under ``to`` and return ``to``.

    format: ``gbase8s``.
    changes: exactly how many changes there are, those that are undone or rolled back included. An update is one change
        and two records; begins, ends and table schemas come on top (about 1.6 records for each change by default).
    seed: the same seed, number of changes and options give the same bytes.
    to: a folder; it is made. It gets

        capture/              the files of the capture truth/                changes.parquet, transactions.parquet,
        table_versions.parquet in the columns of cdcwb.model labels.json           the tables' names by their labels,
        as the reader option ``labels`` takes them synth.json            how it was made, and how many bytes, records
        and changes it has

    on_progress: called now and then with (changes done, changes in all).
    options: see :data:`cdcwb.synth.OPTIONS` and :class:`cdcwb.synth.Options`, which say what each means.

    Everything appears at once, when it is complete. Raises OptionError for an unknown option (naming the nearest
    match) or an unusable value, CaptureError where ``to`` already holds a capture (unless ``overwrite``).
    """
    if format not in FORMATS:
        near = difflib.get_close_matches(format, FORMATS, 1, 0.3)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(FORMATS)}"
        raise OptionError(f"format {format!r} cannot be generated; {hint}")
    if type(changes) is not int or changes < 0:
        raise OptionError(f"the number of changes is a whole number from 0 on, not {changes!r}")
    if type(seed) is not int:
        raise OptionError(f"the seed is a whole number, not {seed!r}")
    chosen = Options.parse(options)
    target = Path(to)
    if target.exists() and not target.is_dir():
        raise CaptureError("is no folder", path=str(target))
    there = [name for name in _PARTS if (target / name).exists()]
    if there and not chosen.overwrite:
        raise CaptureError(f"already holds {there[0]}; choose another folder or set overwrite", path=str(target))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".synth-", dir=target) as place:
        made = Path(place)
        _write(format, changes, seed, chosen, made, on_progress)
        for name in _PARTS:
            if name in there:
                _remove(target / name)
            (made / name).rename(target / name)
    return target


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write(
    format: str, changes: int, seed: int, options: Options, folder: Path, on_progress: Callable[[int, int], None] | None
) -> None:
    workload = Workload(options, changes, seed)
    with closing(Stream(folder / "stream")) as stream, closing(Truth(format, folder)) as truth:
        encoder = Encoder(options, seed, stream, truth)
        for number, event in enumerate(workload.events()):
            encoder.write(event)
            if on_progress is not None and number % 20_000 == 0:
                on_progress(truth.changes, changes)
        encoder.finish()
        stream.close()
        for name in ("capture", "truth"):
            (folder / name).mkdir()
        places = write_files(stream.path, stream.starts, options, seed, folder / "capture")
        write_truth(folder / "truth", truth, places, stream.owners)
    if on_progress is not None:
        on_progress(changes, changes)
    labels = {str(v.table.label): f"{v.table.schema}.{v.table.name}" for v in workload.first}
    _json(folder / "labels.json", labels)
    _json(
        folder / "synth.json",
        {
            "format": format,
            "changes": changes,
            "seed": seed,
            "options": asdict(options),
            "files": places.files,
            "records": len(stream),
            "record_bytes": stream.size,
            "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
            "transactions": pq.read_metadata(folder / "truth" / "transactions.parquet").num_rows,
        },
    )


def _json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
