"""Detects what files are: the format of each file of a capture, so that files of different formats are not read as one,
and the type of files that no format reads, by the signatures of each type's specification, as in the ``file`` command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.errors import UnknownFormatError
from cdcwb.formats.dissector import FORMATS, Format, Recognition, formats_named, get_format, side_files
from cdcwb.formats.files import compression_of, open_source
from cdcwb.formats.options import inflate_limit_of
from cdcwb.formats.source import allow_inflation, common_folder, folders_of, info_of, open_file
from cdcwb.words import joined, plural, visible

# --- files that no format reads ---------------------------------------------------------------------------------------


_HEAD: Final = 1 << 16
_MOST_NAMES: Final = 12
_SHOWN: Final = 60  # characters of a name

_UNPACK: Final = "; unpack it and name the files in it, or their folder"
_DECOMPRESS: Final = ", which is not supported; decompress it first (gzip and zstd are supported)"
_EXPORT: Final = "; export the change table or event log from it as CSV or Parquet"
_NO_CAPTURE: Final = ", not a capture of change data"
_SAVE_AS: Final = "; save the table as .xlsx or CSV"


_TYPES: Final = (
    (rb"%PDF-", "a PDF document", _NO_CAPTURE),
    (rb"%!PS", "a PostScript document", _NO_CAPTURE),
    (rb"\{\\rtf", "an RTF document", _NO_CAPTURE),
    (rb"\xd0\xcf\x11\xe0", "an Office file of the old binary form, or one with a password", _SAVE_AS),
    (rb"\x89PNG\r\n\x1a\n", "a PNG image", _NO_CAPTURE),
    (rb"\xff\xd8\xff[\xc0-\xef]", "a JPEG image", _NO_CAPTURE),
    (rb"GIF8[79]a", "a GIF image", _NO_CAPTURE),
    (rb"II\*\0|MM\0\*", "a TIFF image", _NO_CAPTURE),
    (rb"RIFF.{4}WEBP", "a WebP image", _NO_CAPTURE),
    (rb".{257}ustar[\0 ]", "a tar archive", _UNPACK),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (rb"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (rb"PK\x05\x06", "an empty ZIP archive", _NO_CAPTURE),
    (rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd", "a compressed file", "; decompress it once"),
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "a text in UTF-32", "; save it in UTF-8"),
    (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "a file compressed with bzip2", _DECOMPRESS),
    (rb"\xfd7zXZ\0", "a file compressed with xz", _DECOMPRESS),
    (rb"LZIP\x01", "a file compressed with lzip", _DECOMPRESS),
    (rb"\x04\x22\x4d\x18", "a file compressed with LZ4", _DECOMPRESS),
    (rb"\xff\x06\0\0sNaPpY", "a file compressed with Snappy", _DECOMPRESS),
    (rb"SQLite format 3\0", "an SQLite database", _EXPORT),
    (rb"PGDMP", "a PostgreSQL dump in the custom format", "; turn it into SQL with pg_restore --inserts --file"),
    (rb"\xfebin", "a MySQL binary log", ", which is not supported"),
    (rb"ORC(?=[^\n]{0,64}\0)", "an ORC file", "; save it as Parquet"),
    (rb"ARROW1\0\0", "an Arrow file", "; save it as Parquet"),
    (rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x0a\x0d\x0d\x0a", "a capture of network packets", _NO_CAPTURE),
    (rb"\x7fELF|MZ.{58}.{2}\0\0.*?PE\0\0|\xcf\xfa\xed\xfe", "an executable program", _NO_CAPTURE),
    (rb"\xca\xfe\xba\xbe", "a Java class", _NO_CAPTURE),
    (rb"\xac\xed\0\x05", "serialized Java objects", _NO_CAPTURE),
)
"""Types that no format reads: the pattern of their first bytes, their name, and advice."""

_IN_ZIP: Final = (
    ("word/", "a Word document", _NO_CAPTURE),
    ("ppt/", "a PowerPoint presentation", _NO_CAPTURE),
    ("content.xml", "an OpenDocument file", _SAVE_AS),
    ("META-INF/MANIFEST.MF", "a Java archive", _NO_CAPTURE),
)
"""ZIP archives that are documents of their own, by a name in them."""

_WORKBOOK: Final = "xl/"

_TEXTS: Final = (
    (rb"(?i)\s*(?:<!doctype html|<html\b)", "an HTML page", _NO_CAPTURE),
    (
        (
            rb"\s*(?:(?:<\?xml.*?\?>|<!--.*?-->|<!DOCTYPE.*?>)\s*)*"
            rb"<(?:nds|input|output|(?:add|modify|delete|rename) class-name)\b"
        ),
        "an XDS document",
        ", which cdcwb writes but does not read; export the event log table that it was made from",
    ),
    (
        rb"(?m).*?^(?:GGS tokens:|TokenID \w|TKN-\w+ +: |Data filters are |   Records/Trans |Total Data Bytes )",
        "output of Logdump without a record header",
        "; log the records themselves, with `ghdr on` and `detail data`",
    ),
)
"""Well-known texts without records of any format."""


def foreign_type(path: str) -> str | None:
    """One sentence about a file of a type that no format reads, with advice; None for any other. Examines the first
    bytes, in gzip and zstd those of the content. Raises CaptureError for a file that cannot be read.
    """
    if info_of(path).size == 0:
        return "the file is empty (0 bytes)"
    with open_source(path, "binary", _HEAD) as source:
        head = source.read(0, _HEAD).tobytes()
        if head and source.length < _HEAD:
            for blank, what in ((b"\0", "zero bytes"), (None, "white space")):
                if not head.strip(blank):
                    return f"the file holds only {what}"
        if source.compression is None:
            return _by_signature(path, head)
        inside = _by_signature(None, head)
        if inside is not None:
            return inside.replace("this is ", f"this is {source.compression} data that holds ", 1)
        if not head:
            return source.problem or f"the {source.compression} file is empty: nothing is compressed in it"
        return None


def _by_signature(path: str | None, head: bytes) -> str | None:
    """The sentence for a type that no format reads. ``path``: of a file that is not compressed."""
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    return _matching_type(head, _TYPES)


def _matching_type(head: bytes, types: Iterable[tuple[bytes, str, str]]) -> str | None:
    """The sentence for the first of these types that bytes begin like."""
    return next((f"this is {name}{advice}" for like, name, advice in types if re.match(like, head, re.DOTALL)), None)


def _zip(path: str | None) -> str | None:
    """The sentence for a ZIP archive; None for an Excel workbook."""
    if path is None:
        return f"this is a ZIP archive{_UNPACK}"
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return "this is a ZIP archive that is damaged or cut off; fetch it again"
    if any(name.startswith(_WORKBOOK) for name in names):
        return None
    for begin, what, advice in _IN_ZIP:
        if any(name.startswith(begin) for name in names):
            return f"this is {what}{advice}"
    return f"this is a ZIP archive with {plural(len(names), 'file')}{_UNPACK}"


def known_text(path: str) -> str | None:
    """One sentence about a well-known text without records of any format, with advice; None for any other.

    Raises CaptureError for a file that cannot be read.
    """
    return _matching_type(_head(path), _TEXTS)


def _head(path: str) -> bytes:
    with open_source(path, "binary", _HEAD) as source:
        return source.read(0, _HEAD).tobytes()


def describe(path: str) -> str:
    """One sentence about a file that no format recognises, from its beginning.

    Raises CaptureError for a file that cannot be read.
    """
    head = _head(path)
    found = _avro(path, head) or _table(path)
    if found is not None:
        return found
    what = "binary file" if b"\0" in head else "text file"
    return f"no format recognises this {what}; if it is a capture, name its format"


def _avro(path: str, head: bytes) -> str | None:
    if not head.startswith(b"Obj\x01"):
        return None
    from cdcwb.formats.containers import detect

    try:
        schema = json.loads(detect.probe(path, {}, _HEAD).schema or "{}")
    except (ValueError, RecursionError) as wrong:
        return f"no format reads this file: its Avro schema is not JSON: {visible(str(wrong), 200)}"
    fields = schema.get("fields") if isinstance(schema, dict) else None
    named = [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []
    return _columns("Avro container", "fields", [str(one.get("name")) for one in named])


def _table(path: str) -> str | None:
    from cdcwb.formats.containers.table_probe import probe_file

    found = probe_file(path, limit=1)
    titles = {"parquet": "Parquet file", "excel": "Excel workbook", "json": "JSON file", "csv": "delimited text file"}
    if found.kind == "broken":
        return f"no format reads this file: {found.problem}"
    if found.kind not in titles or found.names is None or (found.kind == "csv" and found.width < 2):
        return None
    return _columns(titles[found.kind], "keys" if found.kind == "json" else "columns", found.names)


def _columns(what: str, parts: str, names: Sequence[str]) -> str:
    shown = [visible(name, _SHOWN) for name in names[:_MOST_NAMES]]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(shown) + more if more else joined(shown)
    return f"no format recognises the {parts} of this {what}: {listed or 'it has none'}"


# --- files of a capture -----------------------------------------------------------------------------------------------


WRITTEN: Final = "cdcwb"
"""Used instead of a format for Parquet files with the columns of a table of :data:`cdcwb.model.TABLES`: output of
``save`` and ``export``, which is not a capture."""

_ALMOST: Final = 0.9
_CERTAIN: Final = 0.95
_MOST_ARGUMENTS: Final = 20  # of a command
_MOST_NAMED: Final = 3  # files, in a sentence
_MOST_ALIKE: Final = 8  # files of a series with equal beginnings that are examined closely
_FIRST: Final = 64  # bytes
_FIRST_WORDS: Final = 1 << 14  # bytes
_CONTAINERS: Final = (b"PAR1", b"PK", b"Obj\1")
_NUMBERS: Final = re.compile(rb"[0-9]+")
_LETTERS: Final = re.compile(rb"[A-Za-z_]+")
_DIGITS: Final = re.compile(r"\d+")
_DESCRIPTION: Final = "cdcwb.json"  # of a saved capture


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The detected format of one file. ``format``: its format, :data:`WRITTEN`, or None if neither its content nor its
    neighbours show one. ``confidence``: that of its content, from 0 to 1; less than 0.9 if the format is that of its
    neighbours. ``side``: it describes other files of that format (table names, a ``.dfm``), and has no records."""

    file: str
    format: str | None
    confidence: float
    evidence: str
    side: bool = False

    @property
    def recognised(self) -> bool:
        """Whether its content shows the format."""
        return self.confidence >= _ALMOST


@dataclass(frozen=True)
class Contents:
    """The files of a capture, or of a folder with several captures, with their formats."""

    files: tuple[FileFormat, ...]

    @cached_property
    def base(self) -> str:
        """The file, or the folder that all files are below."""
        paths = [one.file for one in self.files]
        return paths[0] if len(paths) == 1 else common_folder(paths)

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The capture files of each format that the content of a file shows, in the order of the files."""
        certain = dict.fromkeys(one.format for one in self.files if one.recognised and not one.side)
        return {
            name: [one.file for one in self.files if one.format == name and not one.side] for name in certain if name
        }

    @property
    def is_mixed(self) -> bool:
        """Whether the files have different formats."""
        return len(self.groups) > 1

    @property
    def capture_files(self) -> list[str]:
        """The files without those that describe others; all of them if there are no others."""
        return [one.file for one in self.files if not one.side] or [one.file for one in self.files]

    @property
    def recognised(self) -> list[str]:
        """The files whose content shows their format."""
        return [one.file for one in self.files if one.recognised and not one.side]

    @cached_property
    def unknown(self) -> list[str]:
        """The files that no format recognises, unless they are read with the files of one."""
        return [one.file for one in self.files if one.format is None]

    def command(self, format: str) -> str:
        """The command that opens the files of one format; a line for each saved capture, none for other tables."""
        if format == WRITTEN:
            return "\n".join(f"cdcwb summary {shlex.quote(folder)}" for folder in self._saved)
        arguments = self._arguments(format)
        left = len(arguments) - _MOST_ARGUMENTS
        shown = [*arguments[:_MOST_ARGUMENTS], *([f"… # and {left} more"] if left > 0 else [])]
        return f"cdcwb summary {' '.join(shown)}"

    def doubts(self, format: str) -> list[str]:
        """A sentence about the files that are read as this format although their content does not show it, if any."""
        doubtful = [one.file for one in self.files if not one.recognised]
        return [f"{_are_not_recognised(doubtful, self.base)} but read as {format}"] if doubtful else []

    def refusal(self) -> UnknownFormatError:
        """Why files of different formats are not opened together, and how to open each of them."""
        named = [f"{name_of(name)} ({plural(len(files), 'file')})" for name, files in self.groups.items()]
        rest = f"; {_are_not_recognised(self.unknown, self.base)}" if self.unknown else ""
        commands = {name: self.command(name) for name in self.groups}
        return UnknownFormatError(
            f"the files are of different formats: {joined(named)}{rest}. Open those of one format, or name the format "
            "that all of them are to be read as (--format NAME, format=):",
            path=self.base,
            advice=tuple(line for command in commands.values() for line in command.splitlines()),
        )

    def rows(self) -> list[tuple[str, int, FileFormat]]:
        """The files for a table, those of one series as one: a name below the folder (with ``*`` for the digits, where
        there are several), their number, and the format of the first one."""
        series: dict[tuple[Any, ...], list[FileFormat]] = {}
        for one in self.files:
            series.setdefault((series_of(one.file), one.format, one.side, one.recognised), []).append(one)
        out = []
        for (pattern, *_), some in series.items():
            name = pattern if len(some) > 1 else some[0].file
            out.append((os.path.relpath(name, self.base) if name != self.base else name, len(some), some[0]))
        return out

    @property
    def _saved(self) -> list[str]:
        return [folder for one in self.files if (folder := _saved_folder(one.file)) is not None]

    def _arguments(self, format: str) -> list[str]:
        """The fewest folders, patterns and files that are exactly the files of one format, for a shell."""
        there = {place for one in self.files for place in (one.file, *_folders(one.file, self.base))}
        return _patterns(self.places(format), there)

    def places(self, format: str) -> list[str]:
        """The fewest folders and files that are exactly the files of one format, with those that describe them."""
        others = [one.file for one in self.files if one.format != format]
        shared = {folder for path in others for folder in _folders(path, self.base)}  # with files of other formats
        around = ((*reversed(_folders(path, self.base)), path) for path in self.groups[format])  # the outermost first
        return list(dict.fromkeys(next(place for place in places if place not in shared) for places in around))


def contents_of(paths: Sequence[str], options: Mapping[str, Any], name: str = "auto") -> Contents:
    """Detects the format of each file, from its beginning; ``name``: only the formats of this name are tried. A file
    whose content shows no format (the rest of a record that began in the preceding file, damage, a full load without
    header columns) has the format of the files whose names differ only in digits, else that of the innermost folder
    around it whose files have one format. Of many files with similar names and equal beginnings the first few are
    examined closely.
    """
    names = likely_first(paths[0]) if name == "auto" else formats_named(name)
    sides: dict[str, str] | None = None
    saved = {folder for path in paths if (folder := _saved_folder(path)) is not None}
    found: list[FileFormat] = []
    alike: dict[tuple[str, bytes], list[FileFormat]] = {}
    for path in paths:
        folder = next((one for one in folders_of(path) if one in saved), None) if saved else None
        if folder is not None:
            found.append(FileFormat(path, WRITTEN, 1.0, f"part of the capture saved in {folder}"))
            continue
        if sides is not None and path in sides:
            found.append(_describing(path, sides[path]))
            continue
        like = alike.setdefault((series_of(path), _beginning(path)), [])
        if len(like) >= _MOST_ALIKE and like[0].recognised:
            found.append(replace(like[0], file=path, evidence=f"begins like {like[0].file}"))
            continue
        one = _file_format(path, names, options)
        if sides is None and not (one.format in FORMATS.early and one.confidence >= _CERTAIN):
            sides = side_files(paths)  # imports all formats
            if path in sides:
                found.append(_describing(path, sides[path]))
                continue
        found.append(one)
        like.append(one)
        names.sort(key=lambda name: name != found[-1].format)  # the next file mostly has the same one
    return Contents(tuple(_with_neighbours(found)))


def _describing(path: str, format: str) -> FileFormat:
    return FileFormat(path, format, 1.0, f"describes other files ({format})", side=True)


def likely_first(path: str) -> list[str]:
    """The names of all formats, those whose words a file begins with first, but after early ones of other packages. If
    one is certain, those that follow are not asked, nor imported. Raises CaptureError for a file that cannot be read.
    """
    head = _head(path)[:_FIRST_WORDS]
    likely = {name for word, name in FORMATS.words.items() if word.encode() in head}
    others = {name for name in FORMATS.early if not FORMATS[name].value.startswith("cdcwb.")}
    return sorted(FORMATS, key=lambda name: (name not in others, name not in likely))


def series_of(path: str) -> str:
    """The path with a star for the digits of the file's name: ``stream-*.bin``."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + _DIGITS.sub("*", name)


def name_of(format: str) -> str:
    """A format in a sentence."""
    return "tables that cdcwb wrote" if format == WRITTEN else format


def _beginning(path: str) -> bytes:
    """The first bytes of a file, with one letter or digit for each run of them; for a container only the path, so that
    it is unique."""
    with open_file(path) as file:
        head = file.read(_FIRST)
    if head.startswith(_CONTAINERS) or compression_of(head) is not None:
        return path.encode("utf-8", "surrogateescape")
    return _LETTERS.sub(b"a", _NUMBERS.sub(b"9", head))


def _file_format(path: str, names: Sequence[str], options: Mapping[str, Any]) -> FileFormat:
    foreign = foreign_type(path)
    if foreign is not None:
        return FileFormat(path, None, 0.0, foreign)
    table = _written_table(path)
    if table is not None:
        return FileFormat(path, WRITTEN, 1.0, f"the columns of the table {table}, as cdcwb writes it")
    best = Recognition(0.0, [])
    name = None
    for one in names:
        found = recognise(get_format(one), [path], options)
        if found.confidence > best.confidence:
            best, name = found, one
        if best.confidence >= _CERTAIN:
            break  # no other format can have a higher confidence
    return FileFormat(path, name if best.confidence >= _ALMOST else None, best.confidence, "; ".join(best.evidence))


def _saved_folder(path: str) -> str | None:
    """The folder of a saved capture, by the path of its description."""
    return folders_of(path)[0] if Path(path).name == _DESCRIPTION else None


def _written_table(path: str) -> str | None:
    """The table of the model in a Parquet file, None for any other file."""
    with open_file(path) as file:
        if file.read(4) != b"PAR1":
            return None
    try:
        with open_file(path) as file:
            names = set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return None
    return next((table for table, schema in model.TABLES.items() if names.issuperset(schema.names)), None)


def _with_neighbours(files: Sequence[FileFormat]) -> list[FileFormat]:
    formats: dict[str, set[str]] = {}  # by series and folder
    base = Contents(tuple(files)).base
    for one in files:
        for place in [series_of(one.file), *_folders(one.file, base)] if not one.side else []:
            formats.setdefault(place, set()).update([] if one.format is None else [one.format])
    out = []
    for one in files:
        around = (formats.get(place) for place in (series_of(one.file), *_folders(one.file, base)))
        first = next(filter(None, around), set()) if one.format is None else set()
        if len(first) == 1:
            evidence = "; ".join(filter(None, ("the files around it", one.evidence)))
            one = replace(one, format=next(iter(first)), evidence=evidence)
        out.append(one)
    return out


def _folders(path: str, base: str) -> list[str]:
    """The folders of a file, the innermost first, up to ``base``."""
    parents = folders_of(path)
    return parents[: parents.index(base) + 1] if base in parents else []


def _are_not_recognised(paths: Sequence[str], base: str) -> str:
    shown = [os.path.relpath(path, base) if path != base else path for path in paths[:_MOST_NAMED]]
    more = [f"{len(paths) - _MOST_NAMED} more"] if len(paths) > _MOST_NAMED else []
    verb = "is" if len(paths) == 1 else "are"
    return f"{joined([*shown, *more])} {verb} not recognised"


def _patterns(places: Sequence[str], there: Collection[str]) -> list[str]:
    """Paths for a shell. Three or more in a folder that differ only in digits, or (if many remain) have a common end,
    are one pattern, if it matches nothing else that is ``there``."""
    short = _shortened(places, there, series_of)
    if len(short) > _MOST_ARGUMENTS // 2:
        short = _shortened(short, there, lambda place: f"{folders_of(place)[0]}/*{Path(place).suffix}")
    return ["*".join(shlex.quote(part) if part else "" for part in place.split("*")) for place in short]


def _shortened(places: Sequence[str], there: Collection[str], pattern_of: Callable[[str], str]) -> list[str]:
    alike: dict[str, list[str]] = {}
    for place in places:
        alike.setdefault(pattern_of(place), []).append(place)
    out: list[str] = []
    for pattern, some in alike.items():
        meant = {path for one in some for path in _matching(one, there)} if len(some) > 2 else set()
        out += [pattern] if meant and set(_matching(pattern, there)) == meant else some
    return out


def _matching(pattern: str, paths: Collection[str]) -> Iterable[str]:
    if "*" not in pattern:
        return [pattern]
    wanted = re.compile("[^/]*".join(map(re.escape, pattern.split("*"))))
    return filter(wanted.fullmatch, paths)


def recognise(fmt: Format, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
    """The recognition of files by a format; confidence 0 for files that it cannot read."""
    allow_inflation(paths, inflate_limit_of(options))
    try:
        return fmt.recognise(paths, options)
    except UnknownFormatError as reason:
        return Recognition(0.0, [reason.message])
