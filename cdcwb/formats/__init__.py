"""The formats by name, and what can be told of a capture without Spark: what it is (:func:`identify`) and one record of
it (:func:`inspect`)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

from cdcwb.errors import UnknownFormatError
from cdcwb.formats.base import Format, Inspection, Recognition, RowFormat
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.options import nearest

__all__ = ["FORMATS", "Identification", "choose", "choose_rows", "get_format", "identify", "inspect"]

FORMATS: Final = {
    "gbase8s": ("cdcwb.formats.gbase8s.format", "GBase8s"),
    "goldengate": ("cdcwb.formats.goldengate.format", "GoldenGate"),
    "qlik-kafka": ("cdcwb.formats.qlik_kafka.format", "QlikKafka"),
    "qlik-change-table": ("cdcwb.formats.qlik_change_table.format", "QlikChangeTable"),
    "idm-event-log": ("cdcwb.formats.idm_event_log.format", "IdmEventLog"),
}
"""Format name -> module and class."""

_SURE: Final = 0.5
_ALMOST: Final = 0.9
_CERTAIN: Final = 0.95
_MOST_FOLDERS: Final = 20  # that are looked into, and named
_HEAD: Final = 1 << 16

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Identification:
    """What a capture is. ``confidence`` from 0 to 1; ``bytes`` as the files lie on disk. ``advice``: lines to copy,
    where it cannot be read as it is."""

    format: str
    shape: str
    compression: str | None
    confidence: float
    evidence: list[str]
    files: int
    bytes: int
    advice: tuple[str, ...] = ()


def get_format(name: str) -> Format:
    """The format of that name. Raises UnknownFormatError naming those there are and the nearest."""
    if name not in FORMATS:
        raise UnknownFormatError(
            f"there is no format {name!r}.{nearest(name, FORMATS)} There are: auto, {', '.join(FORMATS)}."
        )
    module, cls = FORMATS[name]
    made: Format = getattr(importlib.import_module(module), cls)()
    return made


def choose(paths: Sequence[str], name: str, options: Mapping[str, Any]) -> tuple[Format, Recognition]:
    """The format of the files: the named one, or with ``auto`` the one that is surest. Raises UnknownFormatError, also
    for a folder of several captures of different formats, which it names."""
    if name != "auto":
        return get_format(name), Recognition(1.0, ["given as an option"])
    _refuse_several(paths, options)
    best = _surest(paths, options)
    if isinstance(best, list):
        looked = "; ".join(f"{fmt.name}: {' '.join(recognition.evidence)}" for fmt, recognition in best)
        more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
        raise UnknownFormatError(f"no format recognises this capture{more} ({looked})", path=paths[0])
    return best


def _surest(
    paths: Sequence[str], options: Mapping[str, Any]
) -> tuple[Format, Recognition] | list[tuple[Format, Recognition]]:
    """The format that is surest of the files; where none is sure, what each says."""
    found: list[tuple[Format, Recognition]] = []
    for fmt in map(get_format, FORMATS):
        found.append((fmt, _recognise(fmt, paths, options)))
        if found[-1][1].confidence >= _CERTAIN:
            break  # to ask the others could only take time
    best = max(found, key=lambda pair: pair[1].confidence)
    return found if best[1].confidence < _SURE else best


def _refuse_several(paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raises UnknownFormatError where the folders that the files are in hold captures of different formats.

    A capture may have many folders, one for each table, and looking into all of them takes time: as long as their files
    end alike, they are taken for one.
    """
    base = os.path.commonpath(paths) if len(paths) > 1 else ""
    folders: dict[str, list[str]] = {}
    for path in paths if base else ():
        folder, below, _ = path[len(base.rstrip("/")) + 1 :].partition("/")
        if below:
            folders.setdefault(folder, []).append(path)
    endings = {Path(files[0]).suffix: files for files in reversed(folders.values())}
    if len(endings) < 2 or len({_format_of(files, options) for files in endings.values()} - {None}) < 2:
        return
    formats = {folder: _format_of(files, options) for folder, files in list(folders.items())[:_MOST_FOLDERS]}
    named = [f"{folder} ({format})" for folder, format in formats.items() if format is not None]
    raise UnknownFormatError(
        f"there are several captures of different formats in this folder, name one of them: {', '.join(named)}",
        path=base,
    )


def _format_of(paths: Sequence[str], options: Mapping[str, Any]) -> str | None:
    """The name of the format that is all but certain of the files; None where there is none."""
    best = _surest(paths, options)
    return None if isinstance(best, list) or best[1].confidence < _ALMOST else best[0].name


def _recognise(fmt: Format, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
    """What a format says of files; files that it cannot even look at are not its own."""
    try:
        return fmt.recognise(paths, options)
    except UnknownFormatError as reason:
        return Recognition(0.0, [reason.message])


def choose_rows(schema: pa.Schema, name: str, options: Mapping[str, Any]) -> tuple[RowFormat, Recognition]:
    """The format of a table with these columns: the named one, or with ``auto`` the surest. Raises UnknownFormatError
    where none is sure, or the named one is never a table."""
    formats = [fmt for fmt in map(get_format, FORMATS if name == "auto" else (name,)) if hasattr(fmt, "plan_rows")]
    if not formats:
        raise UnknownFormatError(f"a capture of the format {name} is never a table of rows")
    made = [cast(RowFormat, fmt) for fmt in formats]
    if name != "auto":
        return made[0], Recognition(1.0, ["given as an option"])
    found = [(fmt, fmt.recognise_rows(schema)) for fmt in made]
    best = max(found, key=lambda pair: pair[1].confidence)
    if best[1].confidence < _SURE:
        looked = "; ".join(f"{fmt.name}: {' '.join(recognition.evidence)}" for fmt, recognition in found)
        raise UnknownFormatError(f"no format recognises these columns ({looked})")
    return best


def identify(path: Paths, format: str = "auto", **options: Any) -> Identification:
    """What a file, a folder or several of them hold, from their first bytes; no JVM is started.

    Raises CaptureError for paths that cannot be read and UnknownFormatError where no format is sure.
    """
    files = list_files(path)
    fmt, recognition = choose(files, format, options)
    shape = str(options.get("shape", "auto")) if recognition.shape is None else "binary"
    source = open_source(files[0], shape, limit=_HEAD)
    try:
        shape, compression = recognition.shape or source.shape, source.compression
    finally:
        source.close()
    size = sum(Path(file).stat().st_size for file in files)
    evidence, refusal = list(recognition.evidence), recognition.refusal
    if refusal is not None:
        evidence.append(refusal.message)
    advice = refusal.advice if refusal is not None else ()
    return Identification(fmt.name, shape, compression, recognition.confidence, evidence, len(files), size, advice)


def inspect(path: str | os.PathLike[str], offset: int, format: str = "auto", **options: Any) -> Inspection:
    """The record that holds ``offset`` of the decompressed file, taken apart; no JVM is started.

    Raises CaptureError where the file does not reach that far or is not recognised.
    """
    files = list_files(path)
    if len(files) != 1:
        raise UnknownFormatError(f"one file is wanted, {len(files)} were found", path=os.fspath(path))
    fmt, _ = choose(files, format, options)
    return fmt.inspect(files[0], offset, options)
