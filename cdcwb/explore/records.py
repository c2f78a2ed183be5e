"""Single records on demand: their bytes, their fields, and their columns of ``events``; no Spark.

A record whose file exists is read at its offset and dissected by its format. A record of a table of rows, or of a saved
capture whose files no longer exist, comes from the saved events: its tree consists of the columns of the event.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError, OptionError
from cdcwb.filters import ALIASES, number_of
from cdcwb.formats import get_format
from cdcwb.formats.dissector import Field
from cdcwb.formats.options import nearest
from cdcwb.index.changes import TooManyChangesError
from cdcwb.index.columns import Numbers, Texts, Times
from cdcwb.index.record_index import RecordIndex
from cdcwb.index.source import IndexedCapture
from cdcwb.model import EVENTS, Kind
from cdcwb.stored import group_sizes, read_rows
from cdcwb.times import parse_time
from cdcwb.words import joined, plural, visible

MAPS: Final = ("key", "before", "after", "headers")
_OF_INDEX: Final = {
    **{name: name for name in ("kind", "operation", "event_no", "position", "commit_position")},
    "record_type": "type",
    "schema_name": "schema",
    "table_version": "version",
    "transaction_id": "transaction",
    "changed_at": "time",
}
"""The columns of events that the index has, and their names there."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``event`` has the columns of :data:`cdcwb.model.EVENTS`, maps as dictionaries; ``data`` are its
    bytes, None without bytes; ``field`` is their tree, whose offsets are relative to the record."""

    row: int
    event: dict[str, Any]
    data: bytes | None
    field: Field
    note: str

    @property
    def label(self) -> str | None:
        """``schema.table``, or ``table``."""
        names = [name for name in (self.event["schema_name"], self.event["table_name"]) if name]
        return ".".join(names) or None


class Records:
    """The records of a source by their numbers."""

    def __init__(self, source: IndexedCapture) -> None:
        self._source = source
        self._index = source.index
        self.read = lru_cache(maxsize=64)(self._read)

    def _read(self, row: int) -> Record:
        """The record with a number. If it cannot be read, the record has the reason."""
        entry = self._index.file_of(row)
        path = Path(str(entry["file"]))
        try:
            if path.is_file():
                return self._dissected(row, path)
            reason = f"{path} no longer exists" if self._source.events else f"there is no file {path}"
        except CaptureError as error:
            reason = str(error)
        if self._source.events:
            return self._from_events(row, reason)
        return Record(row, self._event_of_index(row), None, Field("record", 0, 0, b"", None, reason), reason)

    def half(self, record: Record) -> Record | None:
        """The other half of an update in two records; None also if there are too many changes for an index of them."""
        if record.event["kind"] not in (Kind.BEFORE, Kind.AFTER):
            return None
        try:
            rows, others = self._source.changes.halves
        except TooManyChangesError:
            return None
        at = int(np.searchsorted(rows, record.row))
        return self.read(int(others[at])) if at < len(rows) and rows[at] == record.row else None

    # --- from the file ------------------------------------------------------------------------------------------------

    def _dissected(self, row: int, path: Path) -> Record:
        offset = self._index.number("offset", row)
        dissection = get_format(self._index.format).inspect(str(path), offset, self._source.options)
        number = row - self._index.first_at(row)
        found = dissection.events[number] if number < len(dissection.events) else dissection.event
        event = self._event_of_index(row)
        if dissection.file != str(path):
            note = f"continues the record at offset {dissection.offset} of {dissection.file}"
            return Record(row, event, dissection.record, dissection.field, note)
        for name, value in found.items():
            if name in event and (event[name] is None or name in MAPS) and value is not None:
                event[name] = dict(value) if name in MAPS else value
        if found.get("problems") or len(dissection.events) > 1:
            event["problems"] = found.get("problems")
        begin = found.get("offset", dissection.offset)  # a message may have several rows
        if begin != offset:
            raise CaptureError(f"has changed: a record begins at {begin}", path=str(path), offset=offset)
        event["raw"] = found.get("raw", dissection.record or None)
        has_bytes = bool(dissection.record) or dissection.length == 0
        return Record(row, event, dissection.record if has_bytes else None, dissection.field, dissection.note)

    def _event_of_index(self, row: int) -> dict[str, Any]:
        """The columns of the index for a record, as an event."""
        event: dict[str, Any] = dict.fromkeys(EVENTS.names)
        columns = self._index.columns
        for name, column in _OF_INDEX.items():
            if column in columns:
                event[name] = columns[column].value(row)
        label, schema = columns["table"].value(row), event["schema_name"]
        event["table_name"] = label.removeprefix(f"{schema}.") if label is not None and schema else label
        event["format"] = self._index.format
        event["file"] = str(self._index.file_of(row)["file"])
        event |= {name: self._index.number(name, row) for name in ("file_index", "offset", "length")}
        event["offset_unit"] = self._index.unit_of(row)
        problems = self._index.problems_of(row)
        event["problems"] = [{"code": problem["code"], "detail": problem["sentence"]} for problem in problems] or None
        return event

    # --- from the saved events ----------------------------------------------------------------------------------------

    def _from_events(self, row: int, reason: str) -> Record:
        part = self._source.events[self._index.number("part", row)]
        saved = _event_at(part, self._index.number("part_row", row))
        event = {name: saved.get(name) for name in EVENTS.names}
        event |= {name: None if (pairs := saved.get(name)) is None else dict(pairs) for name in MAPS}
        data = event["raw"]
        return Record(row, event, data, _tree(event), f"from the saved events: {reason}")


@lru_cache(maxsize=2)
def _row_group(path: Path, number: int) -> pa.Table:
    return pa.Table.from_batches(read_rows(path, EVENTS, groups=[number]), pa.schema(EVENTS))


def _event_at(path: Path, row: int) -> dict[str, Any]:
    for number, size in enumerate(group_sizes(path)):
        if row < size:
            return dict(_row_group(path, number).slice(row, 1).to_pylist()[0])
        row -= size
    raise CaptureError("has fewer rows than it had", path=str(path))


def _tree(event: dict[str, Any]) -> Field:
    """A tree of the columns of an event, without bytes."""
    children = []
    for name in EVENTS.names:
        value = event[name]
        if value is None or name == "raw":
            continue
        if name in MAPS:
            inner = tuple(_leaf(str(key), item, "NULL" if item is None else "") for key, item in value.items())
            children.append(Field(name, 0, 0, b"", None, plural(len(inner), "column"), inner))
        elif name == "problems":
            inner = tuple(Field(p["code"], 0, 0, b"", p["detail"], problem=p["code"]) for p in value)
            children.append(Field(name, 0, 0, b"", None, plural(len(inner), "problem"), inner))
        else:
            children.append(_leaf(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value), ""))
    return Field(str(event["record_type"] or event["kind"]), 0, 0, b"", None, "", tuple(children))


def _leaf(name: str, value: str | None, meaning: str) -> Field:
    return Field(name, 0, 0, b"", value, meaning)


# --- locations --------------------------------------------------------------------------------------------------------

_WANTED: Final = ("record", "offset", "position", "commit_position", "csn", "record_id", "time", "transaction")
_ALONE: Final = ("position", "commit_position", "csn", "record_id", "transaction")


def places(index: RecordIndex) -> list[str]:
    """The kinds of locations in this capture: names of columns, and the sources' own names of them."""
    known = [name for name in _WANTED if name in index.columns]
    return known + [alias for alias in ("lsn", "change_seq") if ALIASES[alias] in known]


def find(index: RecordIndex, text: str, near: int) -> int:
    """The record of a text: ``offset 0x1F40`` (in the file of the record ``near``, or ``stream-2.bin offset 8000``),
    ``record 17``, ``position 0000000B03FE0050``, ``time 2025-03-23T10:57:19Z`` (the first at or after it), or a value
    alone, which is searched as position, CSN, record_id, transaction, time and record number.

    If several records have the value, the result is the first after ``near``, else the first of all. For a position
    without a record it is the next higher one. Raises OptionError that lists the kinds of locations.
    """
    words = text.split()
    if not words:
        raise OptionError(f"expected a target, such as {joined(places(index)[:3], 'or')} and its value")
    lower = words[0].lower().rstrip(":=")
    name = ALIASES.get(lower, lower)
    if len(words) == 3 and words[1].lower() == "offset":
        return _offset(index, words[2], _file(index, words[0]))
    if name == "offset" and len(words) == 2:
        return _offset(index, words[1], index.number("file_index", near))
    if name in _WANTED and len(words) >= 2:
        if name not in index.columns:
            raise OptionError(f"no record of this capture has a {name}. There are: {', '.join(places(index))}.")
        return _in_column(index, name, " ".join(words[1:]), near)
    if len(words) == 1 or _as_time(text) is not None:
        return _anywhere(index, text.strip(), near)
    raise OptionError(
        f"'{visible(words[0])}' is not something to go to.{nearest(lower, places(index))} "
        f"There are: {', '.join(places(index))}."
    )


def _anywhere(index: RecordIndex, value: str, near: int) -> int:
    for name in _ALONE:
        column = index.columns.get(name)
        row = None if column is None else _equal(column, value, near)
        if row is not None:
            return row
    if _as_time(value) is not None and re.search(r"[-:]", value):
        return _in_column(index, "time", value, near)
    if value.isdecimal() and 1 <= _integer(value) <= index.records:
        return _integer(value) - 1
    if "position" in index.columns and re.fullmatch(r"[0-9A-Fa-f.:]+", value):
        return _in_column(index, "position", value, near)
    raise OptionError(f"no record has '{visible(value)}' as {joined(places(index), 'or')}")


def _in_column(index: RecordIndex, name: str, value: str, near: int) -> int:
    column = index.columns[name]
    if name == "record":
        number = _integer(value)
        if not 1 <= number <= index.records:
            raise OptionError(f"there are {index.records:,} records, no record {number:,}")
        return number - 1
    if isinstance(column, Times):
        time = _as_time(value)
        if time is None:
            raise OptionError(f"expected a time such as 2025-03-23T10:57:19Z, found '{visible(value)}'")
        return _next_higher(column, time, f"no record has a time at or after {value}")
    row = _equal(column, value, near)
    if row is not None:
        return row
    if name in ("position", "commit_position") or isinstance(column, Numbers):
        bound: Any = _integer(value) if isinstance(column, Numbers) else _padded(column, value)
        return _next_higher(column, bound, f"no record has a {name} of {visible(value)} or higher")
    raise OptionError(f"no record has the {name} '{visible(value)}'")


def _equal(column: Any, value: str, near: int) -> int | None:
    if isinstance(column, Numbers):
        spellings: tuple[Any, ...] = (int,) if re.fullmatch(r"\d{1,18}", value) else ()
    else:
        spellings = str, partial(_padded, column) if isinstance(column, Texts) else str.upper
    found = (np.flatnonzero(column.compare("==", spelled(value))) for spelled in spellings)
    rows = next(filter(len, found), None)
    if rows is None:
        return None
    later = int(np.searchsorted(rows, near, side="right"))
    return int(rows[later if later < len(rows) else 0])


def _padded(column: Any, value: str) -> str:
    """A position in the capture's notation: upper case, with leading zeros."""
    first = column.values.drop_null()[:1].to_pylist()
    return value.upper().zfill(len(first[0])) if first and value.isalnum() else value.upper()


def _next_higher(column: Any, bound: Any, otherwise: str) -> int:
    """The first record of those with the lowest value that is at least the bound."""
    rows = np.flatnonzero(column.compare(">=", bound))
    if not len(rows):
        raise OptionError(otherwise)
    if isinstance(column, Numbers):
        return int(rows[int(np.argmin(column.values[rows]))])
    lowest = column.value(int(rows[0]))  # fast path: positions ascend
    lower = rows[column.compare("<", lowest)[rows]]
    if not len(lower):
        return int(rows[0])
    values = column.values.take(pa.array(lower))
    return int(lower[pc.index(values, pc.min(values)).as_py()])


def _offset(index: RecordIndex, text: str, file: int) -> int:
    offset = _integer(text)
    row = index.at(file, offset)
    if row is None:
        raise OptionError(f"no record begins before offset {offset:,}")
    return row


def _file(index: RecordIndex, name: str) -> int:
    names = [re.split(r"[/\\]", str(entry["file"]))[-1] for entry in index.files]
    for entry, short in zip(index.files, names, strict=True):
        if name in (str(entry["file"]), short):
            return int(entry["file_index"])
    raise OptionError(f"the capture has no file '{visible(name)}'.{nearest(name, names)}")


def _integer(text: str) -> int:
    number = number_of(text.replace(",", ""), is_whole=True)
    if number is None:
        raise OptionError(f"expected a whole number, found '{visible(text)}'")
    return int(number)


def _as_time(text: str) -> dt.datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
