"""The format ``goldengate``: Oracle GoldenGate trail records as Logdump text, and JSON and XML exports
(docs/formats/goldengate.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.base import (
    BaseFormat,
    Field,
    Inspection,
    Pairing,
    Recognition,
    RunRows,
    TableRequest,
    Wanted,
)
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.decode import Order, Printed, Shape
from cdcwb.formats.goldengate.decode.definitions import Definition, Reference, parse_metadata, split_name
from cdcwb.formats.goldengate.decode.printed import boundary, split_text
from cdcwb.formats.goldengate.events import FORMAT, read_split
from cdcwb.formats.goldengate.layout import COMPRESSED, IO_TYPES, io_type_of, is_raw_trail
from cdcwb.formats.goldengate.plan import LOGDUMP, OPTIONS, Options, Plan, Settings, pieces_of
from cdcwb.formats.goldengate.plan.planning import make_plan, make_row_plan
from cdcwb.formats.goldengate.plan.scanning import HEAD, is_logdump, probe, refusal
from cdcwb.formats.goldengate.table import column_types, typed_rows, typed_schema, wanted_for
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.formats.messages.rows import OF_TABLES, by_partition
from cdcwb.formats.moments import parse_zone, to_utc
from cdcwb.model import Kind
from cdcwb.words import plural

__all__ = ["GoldenGate"]


_Text = npt.NDArray[np.uint8]
_WHOLE: Final = 256 << 20  # so large may a file be for all of it to be looked at
_BEHIND: Final = 1 << 16
_BEFORE: Final = 1 << 16
_NEAR: Final = 256 << 20  # bytes that are looked through for what a record needs
_HEADER: Final = 1 << 13  # a Metadata record's lines before its text are shorter
_LONGEST: Final = 1 << 20  # so long may a definition be
_CHUNK: Final = 16 << 20
_FILLER: Final = "lines that belong to no record"
_UNDEFINED: Final = "no definition of its table was found: columns are named by their index, value types are inferred"
_DEFINITION: Final = b"Definition for table"
_END: Final = b"End of definition"
_REFERENCE: Final = b"(Ref TDR Index:"


def inspect_record(path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
    """The record, or the run of filler, that holds ``offset`` of the decompressed file; of a table of rows, the row.

    In a file that is not too large the event is the one of ``events``, and names and types are those in force there;
    in a larger one they are of the definition before the record, and the event says what its text says. Raises
    CaptureError where the file ends before ``offset``.
    """
    given = replace(Options.parse(options), mode="PERMISSIVE", images=True)
    entry = probe(([path], given))[0]
    if entry.export is not None:
        file = exports.ExportFile.from_dict(entry.export)
        record, row = exports.record_at(file, 0, offset, to_utc_of(given.settings))
        field = exports.fields(record, entry.kind)
        return Inspection(path, row["offset"], row["length"], record, field, _there(row), "")
    if not 0 <= offset < entry.size:
        raise CaptureError(f"the file has {plural(entry.size, 'byte')}", path=path, offset=offset)
    return _planned(path, offset, given) if entry.size <= _WHOLE else _alone(path, offset, given)


def _there(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an event has, without the columns that are null."""
    return {name: value for name, value in row.items() if value is not None}


def _planned(path: str, offset: int, options: Options) -> Inspection:
    plan = make_plan([path], options)
    row = _row_at(plan, offset)
    start, length = row["offset"], row["length"]
    source = open_source(path, "binary")
    try:
        record = source.read(start, start + length).tobytes()
    finally:
        source.close()
    version = next((one for one in plan.versions if one.key == row["table_version"]), None)
    definition = version.definition if version is not None else None
    # a record that was printed before is filler among events, but a record all the same
    is_filler = row["kind"] == Kind.FILLER and row["record_type"] is None
    entry = plan.files[0]
    field = _field(
        record, is_filler, definition, _order(entry.byte_order), options.charset, entry.nullable, entry.order_known
    )
    if definition is not None and version is not None:
        note = f"decoded with table version {version.key} of {_label(definition)} ({version.origin})"
    else:
        note = _FILLER if is_filler else _UNDEFINED if row["before"] or row["after"] else ""
    return Inspection(path, start, length, record, field, _there(row), note)


def _order(name: str | None) -> Order | None:
    return "big" if name == "big" else "little" if name == "little" else None


def _row_at(plan: Plan, offset: int) -> dict[str, Any]:
    for part in plan.parts:
        if not part.start <= offset < part.stop:
            continue
        for events in read_split(plan, [part]):
            start = events.column("offset").to_numpy()
            holds = (start <= offset) & (offset < start + events.column("length").to_numpy())
            if holds.any():
                row: dict[str, Any] = events.slice(int(holds.argmax()), 1).to_pylist()[0]
                return row
    raise CaptureError("no record was found there", path=plan.files[0].path, offset=offset)


def _alone(path: str, offset: int, options: Options) -> Inspection:
    source = open_source(path, "binary")
    try:
        text = source.read(0, source.length)
        printed = _piece(text, offset)
        record = text[printed.start : printed.stop].tobytes()
        definition = _definition(text, printed)
        del text
    finally:
        source.close()
    is_filler = printed.shape is Shape.FILLER
    field = _field(record, is_filler, definition, _order(options.byte_order), options.charset, options.nullable_from)
    return Inspection(
        path, printed.start, len(record), record, field, _there(_told(printed)), _note(printed, definition)
    )


def _piece(text: _Text, offset: int) -> Printed:
    """The piece of the text that holds a place, read between two places where records begin."""
    reach = _BEFORE
    start = boundary(text, max(offset - reach, 0))
    while start > offset:
        reach *= 8
        start = boundary(text, max(offset - reach, 0))
    stop = boundary(text, min(offset + _BEHIND, text.size))
    pieces = split_text(text[start:stop].tobytes(), start)
    return next(piece for piece in pieces if piece.start <= offset < piece.stop)


def _field(
    record: bytes,
    is_filler: bool,
    definition: Definition | None,
    order: Order | None,
    charset: str,
    nullable: int | None = None,
    order_known: bool = True,
) -> Field:
    if is_filler:
        return Field("filler", 0, len(record), record, None, _FILLER)
    return dissect(record, definition, order, charset, nullable, order_known)


def _definition(text: _Text, printed: Printed) -> Definition | None:
    """The last definition before a record that has the index of its table, or else its name."""
    if printed.name_index < 0 and not printed.name:
        return None
    named = None
    for index, found in _definitions_before(text, printed.start):
        same_name = bool(printed.name) and split_name(printed.name or "") == (found.schema, found.table)
        if index == printed.name_index >= 0 and (same_name or not printed.name):
            return found
        if same_name and named is None:
            named = found
    return named if named is not None or not printed.name else _referred(text, printed.start, printed.name)


def _referred(text: _Text, stop: int, name: str) -> Definition | None:
    """The definition that the last reference of a table before a place points to, under the table's own name."""
    for at in _places_before(text, stop, _REFERENCE):
        first = boundary(text, max(at - _HEADER, 0))
        for piece in reversed(split_text(text[first : min(at + _HEADER, stop)].tobytes(), first)):
            found = parse_metadata(piece.text) if piece.text is not None else None
            if isinstance(found, Reference) and (found.schema, found.table) == split_name(name):
                before = (one for index, one in _definitions_before(text, at) if index == found.index)
                referred = next(before, None)
                return None if referred is None else replace(referred, schema=found.schema, table=found.table)
    return None


def _definitions_before(text: _Text, stop: int) -> Iterator[tuple[int, Definition]]:
    """The definitions in Metadata records before a place with the indexes of their tables, the last one first."""
    for at in _places_before(text, stop, _DEFINITION):
        there = text[max(at - _HEADER, 0) : min(at + _LONGEST, stop)].tobytes()
        close = there.find(_END, min(at, _HEADER))
        for piece in reversed(split_text(there if close < 0 else there[: close + len(_END)])):
            found = parse_metadata(piece.text) if piece.text is not None else None
            if isinstance(found, Definition):
                yield piece.values.get("TDR index", -1), found
                break


def _places_before(text: _Text, stop: int, what: bytes) -> Iterator[int]:
    """Where some words begin before a place, the last one first."""
    lowest = max(stop - _NEAR, 0)
    while stop > lowest:
        low = max(stop - _CHUNK, lowest)
        window = text[low : stop + len(what) - 1].tobytes()
        at = window.rfind(what)
        while at >= 0:
            yield low + at
            at = window.rfind(what, 0, at + len(what) - 1)
        stop = low


def _told(printed: Printed) -> dict[str, Any]:
    """What the text of a piece says, where no event is given."""
    kind = printed.shape.name.lower() if printed.shape in (Shape.FILLER, Shape.MALFORMED) else "record"
    number = printed.values.get("IOType")
    if number is None and printed.operation is not None:
        number = io_type_of(printed.operation)
    schema, table = split_name(printed.name) if printed.name else (None, None)
    problems = [{"code": str(code), "detail": sentence} for code, sentence in printed.problems]
    return {
        "format": "goldengate",
        "kind": kind,
        "record_type": printed.operation,
        "io_type": number,
        "schema_name": schema,
        "table_name": table,
        "problems": problems or None,
    }


def _label(definition: Definition) -> str:
    return definition.table if definition.schema is None else f"{definition.schema}.{definition.table}"


def _note(printed: Printed, definition: Definition | None) -> str:
    if printed.shape is Shape.FILLER:
        return _FILLER
    if definition is not None:
        return f"decoded with the definition of {_label(definition)} that precedes it in the file"
    return _UNDEFINED if printed.body is not None and printed.shape is Shape.RECORD and printed.name else ""


_FILES: Final = 8
RAW_TRAIL: Final = "raw trail"


class GoldenGate(BaseFormat):
    """Reads Oracle GoldenGate trail records: Logdump text, and JSON and XML exports (docs/formats/goldengate.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.TRANSACTION
    compressed_updates = frozenset(IO_TYPES[number].name for number in COMPRESSED)
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        Options.parse(options).beside()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
        given = {name: value for name, value in options.items() if name in exports.OPTIONS}
        reasons: list[str] = []
        for path in paths[:_FILES]:
            try:
                head = _head(path)
            except CaptureError as reason:
                reasons.append(str(reason))
                continue
            if is_raw_trail(head):
                return Recognition(1.0, [f"{path}: the signature of a trail's file header"], RAW_TRAIL, refusal(path))
            found = is_logdump(head)
            if found is not None:
                return Recognition(0.98, [f"{path}: {found}"], LOGDUMP)
            export = exports.recognise(path, given)
            if export.confidence > 0:
                return export
            reasons += export.evidence
        return Recognition(0.0, reasons[:1] or ["no record of a trail was found"])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`~cdcwb.formats.goldengate.plan.planning.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        if plan.is_rows:
            return []
        return [
            {
                "file": one.path,
                "file_index": index,
                "size": one.size,
                "shape": one.kind if one.export is None else exports.ExportFile.from_dict(one.export).shape,
                "compression": one.compression,
                "problem": one.problem,
            }
            for index, one in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split; see :func:`~cdcwb.formats.goldengate.events.read_split`."""
        parts = plan.splits[split]
        if plan.files[parts[0].file].export is None:
            yield from read_split(plan, parts, wanted)
            return
        utc = to_utc_of(plan.settings)
        for part in parts:
            file = exports.ExportFile.from_dict(plan.files[part.file].export or {})
            yield from exports.read(file, part.file, part.start, part.stop, utc, wanted)

    def in_splits(self, plan: Plan) -> bool:
        """Not where records are continued by fragments or undo others, where a half of an update without a transaction
        waits at a border, and where exports, which have no order of their own, are in several splits."""
        if plan.facts["fragments"] or plan.facts["undo_records"]:
            return False
        stretches = (stretch for part in plan.parts for stretch in part.stretches)
        ordered = all(entry.export is None for entry in plan.files)
        return len(plan.splits) < 2 or (ordered and not any(one.half and one.before is None for one in stretches))

    def shared(self, plan: Plan) -> list[frozenset[str]]:
        """See :class:`cdcwb.formats.base.Trailing`."""
        each = [
            {end.name for part in parts for one in part.stretches for end in (one.before, one.after) if end is not None}
            for parts in plan.splits
        ]
        splits = Counter(chain.from_iterable(each))
        return [frozenset(name for name in names if splits[name] > 1) for names in each]

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns, whose values are JSON."""
        utc, name = to_utc_of(plan.settings), plan.files[0].path
        for batch in batches:
            for messages, place in by_partition(batch, plan.partitions, name):
                yield from exports.read_messages(messages, place, utc, wanted)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`~cdcwb.formats.goldengate.table.typed_rows`."""
        types = column_types(plan, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        types = column_types(plan, request)
        return typed_rows(self.read_rows(plan, batches, wanted_for(request)), request, types)

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :func:`inspect_record`."""
        return inspect_record(path, offset, options)


def _head(path: str) -> bytes:
    source = open_source(path, "binary", limit=HEAD)
    try:
        return source.read(0, HEAD).tobytes()
    finally:
        source.close()


def to_utc_of(settings: Settings) -> exports.ToUtc | None:
    """How printed times of JSON and XML files become UTC; None where their zone is not known."""
    return None if settings.time_zone is None else partial(to_utc, zone=parse_zone(settings.time_zone))
