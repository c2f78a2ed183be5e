"""Describes files that no format reads: known file types by their signatures, and a sentence for all others. The
signatures are those of each type's specification, as in the ``file`` command. Types that a format reads (gzip, zstd,
Parquet, Avro containers, Excel workbooks) are not among them.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from typing import Final, NamedTuple

from cdcwb.formats.files import open_source
from cdcwb.formats.source import info_of, open_file
from cdcwb.words import joined, plural, visible

__all__ = ["describe", "foreign_type", "known_text"]

_HEAD: Final = 1 << 16
_MOST_NAMES: Final = 12
_SHOWN: Final = 60  # characters of a name

_UNPACK: Final = "; unpack it and name the files in it, or their folder"
_DECOMPRESS: Final = ", which is not supported; decompress it first (gzip and zstd are supported)"
_EXPORT: Final = "; export the change table or event log from it as CSV or Parquet"
_NO_CAPTURE: Final = ", not a capture of change data"
_SAVE_AS: Final = "; save the table as .xlsx or CSV"


class _Type(NamedTuple):
    """A file type: the pattern of its first bytes, its name, and advice."""

    pattern: re.Pattern[bytes]
    name: str
    advice: str


def _type(pattern: bytes, name: str, advice: str) -> _Type:
    return _Type(re.compile(pattern, re.DOTALL), name, advice)


_TYPES: Final = (
    _type(rb"%PDF-", "a PDF document", _NO_CAPTURE),
    _type(rb"%!PS", "a PostScript document", _NO_CAPTURE),
    _type(rb"\{\\rtf", "an RTF document", _NO_CAPTURE),
    _type(rb"\xd0\xcf\x11\xe0", "an Office file of the old binary form, or one with a password", _SAVE_AS),
    _type(rb"\x89PNG\r\n\x1a\n", "a PNG image", _NO_CAPTURE),
    _type(rb"\xff\xd8\xff[\xc0-\xef]", "a JPEG image", _NO_CAPTURE),
    _type(rb"GIF8[79]a", "a GIF image", _NO_CAPTURE),
    _type(rb"II\*\0|MM\0\*", "a TIFF image", _NO_CAPTURE),
    _type(rb"RIFF.{4}WEBP", "a WebP image", _NO_CAPTURE),
    _type(rb".{257}ustar[\0 ]", "a tar archive", _UNPACK),
    _type(rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    _type(rb"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    _type(rb"PK\x05\x06", "an empty ZIP archive", _NO_CAPTURE),
    _type(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "a file compressed with bzip2", _DECOMPRESS),
    _type(rb"\xfd7zXZ\0", "a file compressed with xz", _DECOMPRESS),
    _type(rb"LZIP\x01", "a file compressed with lzip", _DECOMPRESS),
    _type(rb"\x04\x22\x4d\x18", "a file compressed with LZ4", _DECOMPRESS),
    _type(rb"\xff\x06\0\0sNaPpY", "a file compressed with Snappy", _DECOMPRESS),
    _type(rb"SQLite format 3\0", "an SQLite database", _EXPORT),
    _type(rb"PGDMP", "a PostgreSQL dump in the custom format", "; turn it into SQL with pg_restore --inserts --file"),
    _type(rb"\xfebin", "a MySQL binary log", ", which is not supported"),
    _type(rb"ORC(?=[^\n]{0,64}\0)", "an ORC file", "; save it as Parquet"),
    _type(rb"ARROW1\0\0", "an Arrow file", "; save it as Parquet"),
    _type(rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x0a\x0d\x0d\x0a", "a capture of network packets", _NO_CAPTURE),
    _type(rb"\x7fELF|MZ.{58}.{2}\0\0.*?PE\0\0|\xcf\xfa\xed\xfe", "an executable program", _NO_CAPTURE),
    _type(rb"\xca\xfe\xba\xbe", "a Java class", _NO_CAPTURE),
    _type(rb"\xac\xed\0\x05", "serialized Java objects", _NO_CAPTURE),
)
"""Types that no format reads."""

_IN_ZIP: Final = (
    ("word/", "a Word document", _NO_CAPTURE),
    ("ppt/", "a PowerPoint presentation", _NO_CAPTURE),
    ("content.xml", "an OpenDocument file", _SAVE_AS),
    ("META-INF/MANIFEST.MF", "a Java archive", _NO_CAPTURE),
)
"""ZIP archives that are documents of their own, by a name in them."""

_WORKBOOK: Final = "xl/"

_TEXTS: Final = (
    _type(rb"(?i)\s*(?:<!doctype html|<html\b)", "an HTML page", _NO_CAPTURE),
    _type(
        rb"\s*(?:(?:<\?xml.*?\?>|<!--.*?-->|<!DOCTYPE.*?>)\s*)*"
        rb"<(?:nds|input|output|(?:add|modify|delete|rename) class-name)\b",
        "an XDS document",
        ", which cdcwb writes but does not read; export the event log table that it was made from",
    ),
    _type(
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
    source = open_source(path, "binary", _HEAD)
    try:
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
    finally:
        source.close()


def _by_signature(path: str | None, head: bytes) -> str | None:
    """The sentence for a type that no format reads. ``path``: of a file that is not compressed."""
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    return next((f"this is {one.name}{one.advice}" for one in _TYPES if one.pattern.match(head)), None)


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
    head = _head(path)
    return next((f"this is {one.name}{one.advice}" for one in _TEXTS if one.pattern.match(head)), None)


def _head(path: str) -> bytes:
    source = open_source(path, "binary", _HEAD)
    try:
        return source.read(0, _HEAD).tobytes()
    finally:
        source.close()


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
    from cdcwb.formats import messages

    try:
        schema = json.loads(messages.probe(path, {}).schema or "{}")
    except (ValueError, RecursionError) as wrong:
        return f"no format reads this file: its Avro schema is not JSON: {visible(str(wrong), 200)}"
    fields = schema.get("fields") if isinstance(schema, dict) else None
    named = [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []
    return _columns("Avro container", "fields", [str(one.get("name")) for one in named])


def _table(path: str) -> str | None:
    from cdcwb.formats.tabular.probing import probe_file

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
