"""Exports of trail records as files: detection, splitting, events and summary (docs/formats/goldengate.md §8).

Events: ``table_version`` is ``schema.table@1``. ``transaction_id`` is that of the tokens or of ``xid``; a FORMATXML
transaction without one is ``~<file_index>:<offset>``. ``headers`` has every field and token by its own name, and
``csn``, ``xid`` and ``TransInd`` (0 first, 1 middle, 2 last, 3 only) if the record or its transaction has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import text_array
from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.message_files import SPLIT_SIZE, Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import EVERYTHING, Field, Recognition, Wanted
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate_export.json import decode_messages, has_literals, json_fields, message_counts
from cdcwb.formats.goldengate_export.records import (
    Batch,
    Location,
    Names,
    Number,
    ToUtc,
    events_of,
    names_of,
    position_of,
    times_of,
)
from cdcwb.formats.goldengate_export.xml import TOKEN, XmlReader, boundaries, xml_fields
from cdcwb.formats.json_values import MARK
from cdcwb.formats.requests import select
from cdcwb.formats.source import is_remote
from cdcwb.words import plural

__all__ = [
    "OPTIONS", "ColumnFacts", "Number", "Summary", "ToUtc", "fields", "parts", "probe", "read",
    "read_messages", "recognise", "record_at", "scan", "scan_messages",
]  # fmt: skip


_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?([eE][+-]?[0-9]+)?\Z")
_KINDS: Final = {bool: "boolean", int: "number", Number: "number"}
_LONG: Final = 18
_MOST: Final = 38  # digits of a decimal


@dataclass(slots=True)
class ColumnFacts:
    """The types of all values of a column: kinds are ``text``, ``number`` and ``boolean``. ``whole`` and ``fraction``
    are the maximum digits of numbers before and after the point, ``exponent``: one of them has an exponent."""

    kinds: set[str] = field(default_factory=set)
    whole: int = 0
    fraction: int = 0
    exponent: bool = False

    def add(self, other: ColumnFacts) -> None:
        """Merges the types of other values of the column."""
        self.kinds |= other.kinds
        self.whole, self.fraction = max(self.whole, other.whole), max(self.fraction, other.fraction)
        self.exponent |= other.exponent

    @property
    def kind(self) -> str:
        """``number``, ``boolean``, or ``text`` for everything else."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else "text"

    @property
    def arrow_type(self) -> pa.DataType:
        """Numbers as int64, else as decimals, with exponents as float64; truth values; all else as text."""
        if self.kind == "boolean":
            return pa.bool_()
        if self.kind != "number":
            return pa.string()
        if self.exponent:
            return pa.float64()
        if not self.fraction and self.whole <= _LONG:
            return pa.int64()
        digits = self.whole + self.fraction
        return pa.decimal128(digits, self.fraction) if digits <= _MOST else pa.string()

    def take(self, values: Sequence[Any], typed: bool) -> None:
        """Adds values. Those of JSON are ``typed``; texts of XML are numbers if all of them are."""
        types = set(map(type, values)) - {type(None)}
        numbers: set[str] = set()
        if typed:
            self.kinds |= {_KINDS.get(one, "text") for one in types}
            if int in types:
                integers = [value for value in values if value.__class__ is int]
                numbers = {str(min(integers)), str(max(integers))}
            if Number in types:
                numbers |= {value for value in values if value.__class__ is Number}
        elif types and self.kinds != {"text"}:
            numbers = set(values) - {None}
            if not all(map(_NUMBER.match, numbers)):
                numbers = set()
            self.kinds.add("number" if numbers else "text")
        for whole, fraction, exponent in (found.groups("") for found in map(_NUMBER.match, numbers) if found):
            self.whole, self.fraction = max(self.whole, len(whole)), max(self.fraction, len(fraction))
            self.exponent |= exponent != ""


@dataclass(slots=True)
class TableFacts:
    """One table: its ``columns`` in order of appearance, its key columns (None: unknown), and the number of its
    records."""

    names: Names
    columns: dict[str, ColumnFacts] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    records: int = 0

    def column(self, name: str) -> ColumnFacts:
        """The column of this name."""
        return self.columns.setdefault(name, ColumnFacts())

    def add(self, other: TableFacts) -> None:
        """Merges the facts of another stretch about the table."""
        for name, facts in other.columns.items():
            self.column(name).add(facts)
        self.keys = self.keys if self.keys is not None else other.keys
        self.records += other.records


@dataclass(slots=True)
class Summary:
    """The summary of a stretch of an export. ``tables`` by label. ``first`` and ``last`` are the lowest and the highest
    position, None without any. ``records`` counts changes, ``timed`` those with a printed time, ``zoned`` those whose
    time has a zone of its own. ``malformed``: location, length and sentence of the first malformed stretch. ``bounds``:
    those of a part of an Avro container.
    """

    tables: dict[str, TableFacts] = field(default_factory=dict)
    first: str | None = None
    last: str | None = None
    records: int = 0
    timed: int = 0
    zoned: int = 0
    malformed: tuple[int, int, str] | None = None
    bounds: message_files.Bounds | None = None

    def add(self, other: Summary) -> None:
        """Merges the summary of a later stretch."""
        for label, table in other.tables.items():
            self.tables.setdefault(label, TableFacts(table.names)).add(table)
        for position in (other.first, other.last):
            self.see(position)
        self.records += other.records
        self.timed += other.timed
        self.zoned += other.zoned
        self.malformed = self.malformed or other.malformed

    def see(self, position: str | None) -> None:
        """Adds a position."""
        if position is not None:
            self.first = position if self.first is None else min(self.first, position)
            self.last = position if self.last is None else max(self.last, position)

    def take(self, batch: Batch) -> None:
        """Adds complete records, and the first malformed item."""
        records = [one.record for one in batch.items if one.record is not None and one.record.complete]
        self.records += sum(one.is_change for one in records)
        if self.malformed is None:
            found = next(((at, one.wrong[1]) for at, one in enumerate(batch.items) if one.wrong is not None), None)
            if found is not None:
                at, sentence = found
                self.malformed = batch.offset[at].as_py(), batch.length[at].as_py(), sentence
        images: dict[tuple[Names, tuple[str, ...]], list[Any]] = {}
        for record in records:
            self.see(position_of(record, {}))
            names = names_of(record.table)
            if names.label is None or record.operation is None:
                continue
            table = self.tables.setdefault(names.label, TableFacts(names))
            table.records += record.is_change
            table.keys = table.keys or (tuple(record.keys) if record.keys else None)
            for part in ("after", "before"):
                image = record.image(part, with_missing=True)
                if image:
                    images.setdefault((names, tuple(image)), []).extend(image.values())
        for (names, columns), values in images.items():
            table = self.tables[names.label or ""]
            for at, name in enumerate(columns):
                table.column(name).take(values[at :: len(columns)], batch.typed)
        times = times_of(text_array([record.text("time") for record in records]), None)
        self.timed += times.printed
        self.zoned += times.zoned


OPTIONS: Final[dict[str, str]] = dict(message_files.OPTIONS)
"""The description of every option of exports: those of the containers of messages."""

_HEAD: Final = 1 << 16
_MESSAGES: Final = 64
_BATCHES: Final = 64  # of so many messages, until one has a message
_ENOUGH: Final = 1 << 20  # bytes that are unpacked to recognise a compressed file
_NEAR: Final = 1 << 20  # bytes before a record that are read to find it
_DECLARED: Final = re.compile(rb"<\?xml[^<>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"'][^<>]*>")
_LITERALS: Final = "literals"  # setting: the messages are in Python bytes literals
_SEAM: Final = re.compile(rb"\}[ \t]*\{")


# --- what a file is ---------------------------------------------------------------------------------------------------


def recognise(path: str, options: Mapping[str, Any]) -> Recognition:
    """The confidence that a file is an export, from its beginning. Never raises for its content."""
    try:
        file = probe(path, options, _ENOUGH)
        if file.kind == "xml":
            return Recognition(0.98, [f"{path}: {file.evidence}"], "xml")
        good, looked = _first(file)
    except CaptureError as reason:
        return Recognition(0.0, [str(reason)])
    if not good:
        return Recognition(0.0, ["no message of GoldenGate's was found"])
    evidence = f"{path}: {good} of the first {looked} messages are GoldenGate's"
    return Recognition(0.97 if 2 * good >= looked else 0.7, [file.evidence, evidence], file.kind)


def probe(path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
    """Detects what a file is; ``limit``: bytes of a compressed file that are unpacked, None: all. An XML file is a
    container of the kind ``xml``, whose setting ``encoding`` is the one that it declares. Raises CaptureError for a
    file that cannot be read, OptionError for an unusable option."""
    with open_source(path, "binary", limit) as source:
        head = source.read(0, _HEAD).tobytes()
        found = _xml(head)
        if found is not None:
            declared = _DECLARED.search(head)
            settings = {} if declared is None else {"encoding": declared[1].decode("ascii")}
            return Container(
                path, "xml", "byte", source.size, compression=source.compression, problem=source.problem,
                settings=settings, evidence=found,
            )  # fmt: skip
    given = {name: value for name, value in options.items() if name in OPTIONS}
    kind = str(given.get("container") or "auto")
    if kind in ("auto", "lines") and _in_literals(head):
        one = detect.probe(path, {"container": "lines", "encoding": "text"}, limit)
        evidence = "lines of Python bytes literals with JSON objects"
        return replace(one, settings={"encoding": "text", _LITERALS: "true"}, evidence=evidence)
    one = detect.probe(path, given, limit)
    return one if kind != "auto" or not _SEAM.search(head) else _with_joined(one, given, head, limit)


def _xml(head: bytes) -> str | None:
    """Why a file is an XML export; None if it is not one."""
    if head.removeprefix(MARK).lstrip()[:1] == b"{":
        return None
    for token in TOKEN.finditer(head):
        if token[2] is None or token[1]:
            continue
        names = {name for name in (b"table", b"type", b"timestamp") if re.search(rb"\s%s\s*=" % name, token[0])}
        if token[2] == b"transaction" and b"timestamp" in names:
            return "a transaction element with a timestamp, as FORMATXML writes it"
        if token[2] == b"dbupdate" and {b"table", b"type"} <= names:
            return "a dbupdate element with a table and a type, as FORMATXML writes it"
        if token[2] == b"operation" and {b"table", b"type"} <= names:
            return "an operation element with a table and a type"
    return None


def _with_joined(found: Container, given: Mapping[str, Any], head: bytes, limit: int | None) -> Container:
    """The container of a file with several objects per line: the first of them may have been mistaken for a key, or the
    text before them for no part of the lines."""
    if found.kind == "lines" and "fields" in found.settings:
        evidence = "lines of consecutive JSON objects"
        bare = replace(found, settings={"encoding": "text"}, evidence=evidence)
        good, looked = _first(bare)
        return bare if good == looked > 0 else found
    if found.kind == "documents" and head.removeprefix(MARK).lstrip()[:1] != b"{":
        lines = detect.probe(found.path, {**given, "container": "lines"}, limit)
        good, looked = _first(lines)
        return lines if 2 * good > looked else found
    return found


def _in_literals(head: bytes) -> bool:
    """Whether the lines of a file's beginning have more literals than objects."""
    if not has_literals(head):
        return False
    lines = head.split(b"\n")
    plain = sum(line.lstrip()[:1] == b"{" for line in lines)
    return sum(map(has_literals, lines)) > plain


def _first(file: Container) -> tuple[int, int]:
    """The number of GoldenGate messages among a file's first messages, and the number of examined ones."""
    for start, stop in message_files.parts(file)[:1]:
        for messages in islice(message_files.read(file, start, stop, _MESSAGES, _ENOUGH), _BATCHES):
            valid, count = message_counts(messages, _LITERALS in file.settings)
            if count:
                return valid, count
    return 0, 0


# --- reading ----------------------------------------------------------------------------------------------------------


def parts(file: Container, split_size: int = SPLIT_SIZE) -> list[tuple[int, int]]:
    """Ranges ``[start, stop)`` of a file, in its unit, that can be read separately; together they are the complete
    file. XML is split at the start of an operation or a transaction, which needs a pass over the complete file; a
    remote file is not split."""
    if file.kind != "xml":
        return message_files.parts(file, split_size)
    if file.compression is not None or file.size <= split_size or is_remote(file.path):
        return [(0, file.size)] if file.size else []
    with open_source(file.path, "binary", size=file.size) as source:
        starts = boundaries(memoryview(source.mapped()), split_size)  # type: ignore[arg-type,unused-ignore]
        return list(zip(starts, [*starts[1:], source.length], strict=True))


def _batches(file: Container, file_index: int, start: int, stop: int) -> Iterator[Batch]:
    """The decoded records of a part in its order."""
    if file.kind != "xml":
        for messages in message_files.read(file, start, stop):
            yield decode_messages(messages, _LITERALS in file.settings)
        return
    with open_source(file.path, "binary", size=file.size) as source:
        view = memoryview(source.view(start, stop))  # type: ignore[arg-type,unused-ignore]
        yield from XmlReader(view, file_index, file.settings.get("encoding")).batches(start, stop)


def scan(file: Container, start: int, stop: int) -> Summary:
    """The summary of a part: tables with their columns, counts and positions."""
    summary = Summary()
    for batch in _batches(file, 0, start, stop):
        summary.take(batch)
    if file.kind == "avro":
        summary.bounds = message_files.bounds_of(file, start, stop)
    return summary


def scan_messages(batches: Iterable[Messages]) -> Summary:
    """The summary of messages."""
    summary = Summary()
    for messages in batches:
        summary.take(decode_messages(messages, False))
    return summary


def read(
    file: Container, file_index: int, start: int, stop: int, to_utc: ToUtc | None, wanted: Wanted = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The events of a part in its order, as batches of :data:`cdcwb.model.EVENTS`."""
    for batch in _batches(file, file_index, start, stop):
        yield from select(events_of(batch, (file.path, file_index, file.unit), to_utc, wanted), wanted)


def read_messages(
    messages: Messages, location: Location, to_utc: ToUtc | None, wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """The events of some messages of one partition."""
    return select(events_of(decode_messages(messages, False), location, to_utc, wanted), wanted)


def record_at(file: Container, file_index: int, offset: int, to_utc: ToUtc | None) -> tuple[bytes, dict[str, Any]]:
    """The record at ``offset`` (in the file's unit): its bytes, and its event as a row. An event of a transaction that
    is longer than a batch may lack facts from later records. Raises CaptureError if the file ends before it.
    """
    if file.kind != "xml":
        found = decode_messages(message_files.locate(file, offset), _LITERALS in file.settings)
        rows = events_of(found, (file.path, file_index, file.unit), to_utc, EVERYTHING).to_pylist()
        row: dict[str, Any] = next(one for one in rows if offset < one["offset"] + max(one["length"], 1))
        return row["raw"] or b"", row
    if not 0 <= offset < file.size:
        raise CaptureError(f"the file has {plural(file.size, 'byte')}", path=file.path, offset=offset)
    with open_source(file.path, "binary", size=file.size) as source:
        view = memoryview(source.mapped())  # type: ignore[arg-type,unused-ignore]
        start = max(one for one in boundaries(view, _NEAR) if one <= offset)
    for events in read(file, file_index, start, file.size, to_utc):
        last = events.num_rows - 1
        if offset < events.column("offset")[last].as_py() + events.column("length")[last].as_py():
            ends = pc.add(events.column("offset"), events.column("length"))
            at = pc.sum(pc.less_equal(ends, offset)).as_py() or 0
            row = events.slice(at, 1).to_pylist()[0]
            return row["raw"] or b"", row
    raise CaptureError("the file became shorter while it was read", path=file.path, offset=offset)


def fields(record: bytes, kind: str) -> Field:
    """The tree of one record's bytes; ``kind`` is that of its file."""
    return xml_fields(record) if kind == "xml" else json_fields(record)
