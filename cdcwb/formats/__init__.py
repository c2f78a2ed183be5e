"""The formats by name, and functions without Spark: the format of a capture (:func:`identify`) and one of its records
(:func:`inspect`)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import OptionError, UnknownFormatError
from cdcwb.formats.detect import (
    WRITTEN,
    Contents,
    contents_of,
    describe,
    foreign_type,
    known_text,
    likely_first,
    recognise,
)
from cdcwb.formats.dissector import FORMATS, Format, Inspection, Recognition, RowFormat, formats_named, get_format
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.kernels import interpreted
from cdcwb.formats.options import MODES, as_bool, as_choice, check_names, inflate_limit_of, parse_keys
from cdcwb.formats.source import allow_inflation, info_of, is_file
from cdcwb.words import plural

__all__ = [
    "FORMATS",
    "Common",
    "Contents",
    "Identification",
    "check_options",
    "choose",
    "choose_rows",
    "examine",
    "get_format",
    "identified",
    "identify",
    "inspect",
    "named_format",
    "row_format",
]

_SURE: Final = 0.5
_CERTAIN: Final = 0.95
_HEAD: Final = 1 << 16
_FEW: Final = 1 << 18

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Identification:
    """The detected format of a capture. ``confidence`` from 0 to 1: that the files are of the format, given as an
    option or not; ``bytes`` on disk. ``advice``: commands to copy, if it cannot be read as it is."""

    format: str
    shape: str
    compression: str | None
    confidence: float
    evidence: list[str]
    files: int
    bytes: int
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Common:
    """The options that all formats share: ``keys`` by table, ``images``, ``mode``."""

    keys: dict[str, list[str]]
    images: bool
    mode: str


def choose(
    paths: Sequence[str], name: str, options: Mapping[str, Any], contents: Contents | None = None
) -> tuple[Format, Recognition]:
    """The format of the files, with its evidence: the named one, or with ``auto`` the detected one. ``contents``: the
    detected formats of the files, if known already. Raises UnknownFormatError, which describes the files, if no format
    is recognised, and for files of different formats, with the command that opens those of each; OptionError for an
    option that no format has.
    """
    allow_inflation(paths, inflate_limit_of(options))
    if name != "auto":
        fmt = named_format(paths, name, options, contents)
        seen = recognise(fmt, (contents.recognised if contents is not None else []) or paths, options)
        return fmt, replace(seen, evidence=["given as an option", *seen.evidence])
    if contents is None and len(paths) > 1:
        contents = contents_of(paths, options)
    if contents is not None:
        if contents.is_mixed:
            raise contents.refusal()
        for shown in contents.groups.keys() - {WRITTEN}:
            fmt, seen = get_format(shown), recognise(get_format(shown), contents.recognised, options)
            return fmt, replace(seen, evidence=[*seen.evidence, *contents.doubts(shown)])
        paths = contents.capture_files
    reasons = list(takewhile(lambda reason: reason is not None, map(foreign_type, paths)))
    if len(reasons) == len(paths):
        raise _refusal(paths, str(reasons[0]), options)
    best = _surest(paths, options)
    if isinstance(best, list):
        known = known_text(paths[0])
        evidence = [f"  {fmt.name}: {' '.join(recognition.evidence)}" for fmt, recognition in best]
        raise _refusal(paths, known or describe(paths[0]), options, [] if known else evidence)
    return best


def named_format(
    paths: Sequence[str], name: str, options: Mapping[str, Any], contents: Contents | None = None
) -> Format:
    """The format of files that are opened under a format's name: this format, unless the name is an alias of another
    one too, and the files are of that. Raises UnknownFormatError for an unknown name, and for files of both formats.
    """
    names = formats_named(name)
    if len(names) > 1:
        contents = contents or contents_of(paths, options, name)
        groups = [one for one in contents.groups if one in names]
        if len(groups) > 1:
            raise contents.refusal()
        named = groups or sorted(names, key=lambda one: -recognise(get_format(one), paths, options).confidence)
        name = named[0]
    return get_format(name)


def _refusal(
    paths: Sequence[str], reason: str, options: Mapping[str, Any], details: Sequence[str] = ()
) -> UnknownFormatError:
    """Why files are not a capture. Raises OptionError for an option that no format has, since it may be the cause."""
    _check_known(options)
    more = f"; nor is any of {plural(len(paths) - 1, 'more file')} a capture" if len(paths) > 1 else ""
    return UnknownFormatError(reason + more, path=paths[0], advice=tuple(details))


def _check_known(options: Mapping[str, Any]) -> None:
    """Raises OptionError for an option that no format has, or with a value that none accepts."""
    formats = [get_format(name) for name in FORMATS]
    check_names(options, {name for fmt in formats for name in fmt.options}, "any format")
    for name, value in options.items():
        wrong: list[OptionError] = []
        for fmt in (fmt for fmt in formats if name in fmt.options):
            try:
                check_options(fmt, {name: value})
            except OptionError as reason:
                wrong.append(reason)
            else:
                break
        else:
            raise wrong[0]


def check_options(fmt: Format, options: Mapping[str, Any]) -> Common:
    """The parsed options that all formats share; those of the format are checked too. Raises OptionError for an unknown
    option and for an unusable value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    fmt.check_options(given)
    inflate_limit_of(given)
    return Common(
        parse_keys(given.get("keys")),
        as_bool("images", given.get("images", True)),
        as_choice("mode", given.get("mode", "PERMISSIVE"), MODES),
    )


def _surest(
    paths: Sequence[str], options: Mapping[str, Any]
) -> tuple[Format, Recognition] | list[tuple[Format, Recognition]]:
    """The format with the highest confidence; the evidence of each if none is confident."""
    found: list[tuple[Format, Recognition]] = []
    for fmt in map(get_format, likely_first(paths[0])):
        found.append((fmt, recognise(fmt, paths, options)))
        if found[-1][1].confidence >= _CERTAIN:
            break  # no other format can have a higher confidence
    found.sort(key=lambda pair: list(FORMATS).index(pair[0].name))
    best = max(found, key=lambda pair: pair[1].confidence)
    return found if best[1].confidence < _SURE else best


def choose_rows(schema: pa.Schema, name: str, options: Mapping[str, Any]) -> tuple[RowFormat, Recognition]:
    """The format of a table with these columns: the named one, or with ``auto`` that with the highest confidence.
    Raises UnknownFormatError if none is confident, or the named one is never a table."""
    if name != "auto":
        return row_format(name), Recognition(1.0, ["given as an option"])
    made = [fmt for fmt in map(get_format, FORMATS) if isinstance(fmt, RowFormat)]
    found = [(fmt, fmt.recognise_rows(schema)) for fmt in made]
    best = max(found, key=lambda pair: pair[1].confidence)
    if best[1].confidence < _SURE:
        looked = "; ".join(f"{fmt.name}: {' '.join(recognition.evidence)}" for fmt, recognition in found)
        raise UnknownFormatError(f"no format recognises these columns ({looked})")
    return best


def row_format(name: str) -> RowFormat:
    """The format of a table of rows that is opened under a format's name. Raises UnknownFormatError if it is never a
    table of rows."""
    for fmt in map(get_format, formats_named(name)):
        if isinstance(fmt, RowFormat):
            return fmt
    raise UnknownFormatError(f"the format {name} has no tables of rows")


def identify(path: Paths, format: str = "auto", **options: Any) -> Identification:
    """Detects the format of a file, a folder or several of them, from the beginning of each file; no JVM is started.
    Raises CaptureError for paths that cannot be read, UnknownFormatError if no format is confident, the named one does
    not recognise the files, or they have different formats (see :func:`examine`), and OptionError for an option that
    the format does not have.
    """
    return identified(examine(path, format, **options), format, **options)


def _named(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call; a registry that they name may be asked."""
    if "registry" not in options:
        return options
    from cdcwb.formats.containers.registry import without_login

    return without_login(options)


def examine(path: Paths, format: str = "auto", **options: Any) -> Contents:
    """Detects the format of each file of a capture, or of a folder with several captures, from its beginning;
    ``format``: only this one is tried. No JVM is started. Raises CaptureError for paths that cannot be read."""
    files, options = list_files(path), _named(options)
    with _quickly(files, _HEAD):
        return contents_of(files, options, format)


def identified(contents: Contents, format: str = "auto", **options: Any) -> Identification:
    """Like :func:`identify`, for files that were examined already."""
    files, options = [one.file for one in contents.files], _named(options)
    with _quickly(files, _HEAD):
        fmt, recognition = choose(files, format, options, contents)
    check_options(fmt, options)
    if recognition.confidence < _SURE or isinstance(recognition.refusal, OptionError):
        raise recognition.refusal or _unlike(files, fmt, recognition)
    with open_source(files[0], "binary", limit=_HEAD) as source:
        compression = source.compression
    size = sum(info_of(file).size for file in files)
    evidence, refusal = list(recognition.evidence), recognition.refusal
    if format != "auto":
        evidence += contents.doubts(fmt.name)
    if refusal is not None:
        evidence.append(refusal.message)
    advice = refusal.advice if refusal is not None else ()
    shape = recognition.shape or "unknown"
    return Identification(fmt.name, shape, compression, recognition.confidence, evidence, len(files), size, advice)


def _unlike(files: Sequence[str], fmt: Format, recognition: Recognition) -> UnknownFormatError:
    """Why files are not of the format given as an option."""
    known = foreign_type(files[0]) or known_text(files[0])
    reasons = "; ".join(recognition.evidence[1:])
    sentence = (
        known or f"this does not look like {fmt.name}: {reasons}; give another format, or none to try all of them"
    )
    return UnknownFormatError(sentence, path=files[0])


def inspect(path: str | os.PathLike[str], offset: int, format: str = "auto", **options: Any) -> Inspection:
    """Dissects the record at ``offset`` of the decompressed file; no JVM is started. Raises CaptureError if the file is
    shorter or is not recognised.
    """
    files, options = list_files(path), _named(options)
    if len(files) != 1:
        raise UnknownFormatError(f"expected one file, found {len(files)}", path=os.fspath(path))
    with _quickly(files):
        fmt, recognition = choose(files, format, options)
        check_options(fmt, options)
        if recognition.refusal is not None:
            raise recognition.refusal
        return fmt.inspect(files[0], offset, options)


def _quickly(files: Sequence[str], most: int = sys.maxsize) -> contextlib.AbstractContextManager[None]:
    """Runs kernels uncompiled if that is faster than loading them: if files have few bytes, of each at most
    ``most``."""
    size = sum(min(info_of(file).size, most) for file in files if is_file(file))
    return interpreted() if size <= _FEW else contextlib.nullcontext()
