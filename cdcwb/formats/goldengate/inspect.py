"""One record of a Logdump text, found by its place, without reading all of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError
from cdcwb.formats.base import Field, Inspection
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.body import Order
from cdcwb.formats.goldengate.definition_text import parse_metadata
from cdcwb.formats.goldengate.definitions import Definition, Reference, split_name
from cdcwb.formats.goldengate.dissect import dissect
from cdcwb.formats.goldengate.facts import io_type_of
from cdcwb.formats.goldengate.format import export_settings
from cdcwb.formats.goldengate.plan import Plan
from cdcwb.formats.goldengate.planning import Options, make_plan
from cdcwb.formats.goldengate.probing import probe
from cdcwb.formats.goldengate.reader import read_split
from cdcwb.formats.goldengate.records import Printed, Shape
from cdcwb.formats.goldengate.scan import boundary, split_text
from cdcwb.model import Kind
from cdcwb.words import plural

__all__ = ["inspect_record"]

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
        record, row = exports.record_at(file, 0, offset, export_settings(given.settings))
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
