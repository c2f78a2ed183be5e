"""Exports as files: what one is, where it can be cut, and its events, summary and typed rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats import messages as containers
from cdcwb.formats.base import EVERYTHING, Recognition, TableRequest, Wanted
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.goldengate.exports.events import ToUtc, typed_rows
from cdcwb.formats.goldengate.exports.json_messages import (
    events_of_messages,
    has_literals,
    message_counts,
    summarise_messages,
)
from cdcwb.formats.goldengate.exports.summary import Summary
from cdcwb.formats.goldengate.exports.xml_framing import TOKEN, boundaries
from cdcwb.formats.goldengate.exports.xml_records import XmlReader
from cdcwb.formats.json_values import MARK
from cdcwb.formats.messages import Container, Messages
from cdcwb.formats.messages.container import SPLIT_SIZE
from cdcwb.formats.selecting import select
from cdcwb.words import plural

__all__ = [
    "OPTIONS",
    "ExportFile",
    "Settings",
    "parts",
    "probe",
    "read",
    "read_messages",
    "read_table",
    "recognise",
    "record_at",
    "scan",
    "scan_messages",
]

OPTIONS: Final[dict[str, str]] = dict(containers.OPTIONS)
"""Every option of exports and what it means: those of the containers that messages come in."""

_HEAD: Final = 1 << 16
_MESSAGES: Final = 64
_ENOUGH: Final = 1 << 20  # bytes that are unpacked to recognise a compressed file
_NEAR: Final = 1 << 20  # bytes before a record that are read to find it
_DECLARED: Final = re.compile(rb"<\?xml[^<>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"'][^<>]*>")
_SEAM: Final = re.compile(rb"\}[ \t]*\{")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Settings:
    """How exports are read. ``to_utc``: printed times to UTC (None: their zone is not known, so ``changed_at`` is null
    unless a zone stands in the text)."""

    to_utc: ToUtc | None = None


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file with an export.

    ``kind`` is json or xml. ``unit`` says what places count: ``byte`` of the decompressed file, or ``row`` (``count``
    of them; None where bytes count). ``size``: bytes of the decompressed file; ``problem``: what is wrong with the file
    as such; ``evidence``: why it is an export, in a sentence. JSON: ``container`` holds the messages; ``literals``:
    they stand in Python bytes literals. XML: ``encoding`` is the one the file declares, None where it declares none.
    """

    path: str
    kind: str
    size: int
    unit: str = "byte"
    count: int | None = None
    compression: str | None = None
    problem: str | None = None
    evidence: str = ""
    container: Container | None = None
    literals: bool = False
    encoding: str | None = None

    @property
    def shape(self) -> str:
        """What holds the records, in a word."""
        return self.container.kind if self.container is not None else "xml"

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ExportFile:
        """The file that :meth:`to_dict` gave."""
        held = raw.get("container")
        return cls(**{**raw, "container": None if held is None else Container.from_dict(held)})


# --- what a file is ---------------------------------------------------------------------------------------------------


def recognise(path: str, options: Mapping[str, Any]) -> Recognition:
    """How sure it is that a file is an export, from its beginning. Never raises for what is in the file."""
    try:
        source = open_source(path, "binary", _ENOUGH)
        try:
            head = source.read(0, _HEAD).tobytes()
        finally:
            source.close()
        found = _xml(head)
        if found is not None:
            return Recognition(0.98, [f"{path}: {found}"], "xml")
        container, literals = _container(path, options, head, _ENOUGH)
        good, looked = _first(container, literals)
    except CaptureError as reason:
        return Recognition(0.0, [str(reason)])
    if not good:
        return Recognition(0.0, ["no message of GoldenGate's was found"])
    evidence = f"{path}: {good} of the first {looked} messages are GoldenGate's"
    return Recognition(0.97 if 2 * good >= looked else 0.7, [container.evidence, evidence], container.kind)


def _xml(head: bytes) -> str | None:
    """Why a file is an XML export; None where it is none."""
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


def _container(path: str, options: Mapping[str, Any], head: bytes, limit: int | None = None) -> tuple[Container, bool]:
    """What holds the messages of a file, and whether they stand in bytes literals."""
    given = {name: value for name, value in options.items() if name in OPTIONS}
    if str(given.get("container", "auto")) in ("auto", "lines", "") and _in_literals(head):
        found = containers.probe(path, {"container": "lines", "encoding": "text"}, limit)
        evidence = "lines of Python bytes literals with JSON objects"
        return replace(found, settings={"encoding": "text"}, evidence=evidence), True
    found = containers.probe(path, given, limit)
    if str(given.get("container", "auto")) in ("auto", "") and _SEAM.search(head):
        return _with_joined(found, given, head, limit), False
    return found, False


def _with_joined(found: Container, given: Mapping[str, Any], head: bytes, limit: int | None) -> Container:
    """The container of a file in whose lines objects stand one behind the other: the first of them may have been taken
    for a key, or what stands before them for no part of the lines."""
    if found.kind == "lines" and "fields" in found.settings:
        evidence = "lines of consecutive JSON objects"
        bare = replace(found, settings={"encoding": "text"}, evidence=evidence)
        good, looked = _first(bare, False)
        return bare if good == looked > 0 else found
    if found.kind == "documents" and head.removeprefix(MARK).lstrip()[:1] != b"{":
        lines = containers.probe(found.path, {**given, "container": "lines"}, limit)
        good, looked = _first(lines, False)
        return lines if 2 * good > looked else found
    return found


def _in_literals(head: bytes) -> bool:
    """Do the lines of a file's beginning hold more literals than objects of their own?"""
    if not has_literals(head):
        return False
    lines = head.split(b"\n")
    plain = sum(line.lstrip()[:1] == b"{" for line in lines)
    return sum(map(has_literals, lines)) > plain


def _first(container: Container, literals: bool) -> tuple[int, int]:
    """How many of a file's first messages are GoldenGate's, and how many were looked at."""
    for start, stop in containers.parts(container)[:1]:
        for messages in containers.read(container, start, stop, _MESSAGES, _ENOUGH):
            valid, count = message_counts(messages, literals)
            if count:
                return valid, count
    return 0, 0


def probe(path: str, options: Mapping[str, Any]) -> ExportFile:
    """What one file is. Raises CaptureError for a file that cannot be read, OptionError for an option that cannot be
    used."""
    source = open_source(path, "binary")
    try:
        head = source.read(0, _HEAD).tobytes()
        found = _xml(head)
        if found is not None:
            declared = _DECLARED.search(head)
            encoding = None if declared is None else declared[1].decode("ascii")
            evidence = f"{found}; its encoding is {encoding or 'not declared'}"
            return ExportFile(
                path,
                "xml",
                source.size,
                compression=source.compression,
                problem=source.problem,
                evidence=evidence,
                encoding=encoding,
            )
    finally:
        source.close()
    container, literals = _container(path, options, head)
    return ExportFile(
        path,
        "json",
        container.size,
        container.unit,
        container.count,
        container.compression,
        container.problem,
        container.evidence,
        container,
        literals,
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def parts(file: ExportFile, split_size: int = SPLIT_SIZE) -> list[tuple[int, int]]:
    """Runs ``[start, stop)`` of a file, in its unit, that can be read apart; together they are all of it. XML is cut
    where an operation or a transaction begins, which takes a look at the whole file."""
    if file.container is not None:
        return containers.parts(file.container, split_size)
    if file.compression is not None or file.size <= split_size:
        return [(0, file.size)] if file.size else []
    source = open_source(file.path, "binary")
    try:
        starts = boundaries(_view(source), split_size)
        return list(zip(starts, [*starts[1:], source.length], strict=True))
    finally:
        source.close()


def _view(source: Source) -> memoryview:
    return memoryview(source.read(0, source.length))  # type: ignore[arg-type,unused-ignore]


def scan(file: ExportFile, start: int, stop: int) -> Summary:
    """What is in a part: tables with their columns, counts and positions."""
    if file.container is not None:
        return scan_messages(containers.read(file.container, start, stop), file.literals)
    summary = Summary()
    source = open_source(file.path, "binary")
    try:
        reader = XmlReader(_view(source), (file.path, 0, file.unit), file.encoding)
        for found in reader.batches(start, stop):
            reader.summarise(found, stop, summary)
    finally:
        source.close()
    return summary


def scan_messages(batches: Iterable[Messages], literals: bool = False) -> Summary:
    """What is in messages, which are in bytes ``literals`` or as they are."""
    summary = Summary()
    for messages in batches:
        summarise_messages(messages, literals, summary)
    return summary


def read(
    file: ExportFile, file_index: int, start: int, stop: int, settings: Settings, wanted: Wanted = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The events of a part in its order, as batches of :data:`cdcwb.model.EVENTS`."""
    place = (file.path, file_index, file.unit)
    if file.container is not None:
        for messages in containers.read(file.container, start, stop):
            yield from read_messages(messages, place, settings, wanted, file.literals)
        return
    source = open_source(file.path, "binary")
    try:
        reader = XmlReader(_view(source), place, file.encoding)
        for found in reader.batches(start, stop):
            yield from select(reader.events(found, stop, settings.to_utc, wanted), wanted)
    finally:
        source.close()


def read_messages(
    messages: Messages, place: tuple[str, int, str], settings: Settings, wanted: Wanted, literals: bool = False
) -> Iterator[pa.RecordBatch]:
    """The events of some messages of one file or partition; ``place``: it, its index and the unit of places."""
    return select(events_of_messages(messages, place, settings.to_utc, wanted, literals), wanted)


def read_table(
    file: ExportFile,
    file_index: int,
    start: int,
    stop: int,
    settings: Settings,
    request: TableRequest,
    types: Mapping[str, pa.DataType],
) -> Iterator[pa.RecordBatch]:
    """The rows of one table in a part, with the columns of ``types`` (those of :attr:`TableFacts.arrow_types` that are
    asked for), as :func:`cdcwb.formats.requests.request_schema` lays them out."""
    wanted = Wanted(kinds=frozenset({"change", "before", "after"}), tables=frozenset({request.name}))
    for events in read(file, file_index, start, stop, settings, wanted):
        yield typed_rows(events, request, types)


def record_at(file: ExportFile, file_index: int, offset: int, settings: Settings) -> tuple[bytes, dict[str, Any]]:
    """The record that holds ``offset`` (in the file's unit): its bytes, and its event as a row.

    An event of a transaction that is longer than a batch may lack what later records say of it. Raises CaptureError
    where the file ends before.
    """
    if file.container is not None:
        found = containers.locate(file.container, offset)
        events = events_of_messages(
            found, (file.path, file_index, file.unit), settings.to_utc, EVERYTHING, file.literals
        )
        rows = events.to_pylist()
        row: dict[str, Any] = next(one for one in rows if offset < one["offset"] + max(one["length"], 1))
        return row["raw"] or b"", row
    if not 0 <= offset < file.size:
        raise CaptureError(f"the file has {plural(file.size, 'byte')}", path=file.path, offset=offset)
    start = max(one for one, _ in [(0, 0), *parts(file, _NEAR)] if one <= offset)
    for events in read(file, file_index, start, file.size, settings):
        last = events.num_rows - 1
        if offset < events.column("offset")[last].as_py() + events.column("length")[last].as_py():
            ends = pc.add(events.column("offset"), events.column("length"))
            at = pc.sum(pc.less_equal(ends, offset)).as_py() or 0
            row = events.slice(at, 1).to_pylist()[0]
            return row["raw"] or b"", row
    raise CaptureError("the file became shorter while it was read", path=file.path, offset=offset)
