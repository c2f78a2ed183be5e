"""One record on demand: its bytes, its fields, and what ``events`` says of it; no Spark.

A record whose file is there is read at its place and dissected by its format. One of a table of rows, or of a saved
capture whose files are gone, is what the saved events hold: its tree is made of the columns of the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.explore.halves import half_of
from cdcwb.formats import get_format
from cdcwb.formats.base import Field
from cdcwb.formats.partition_files import holding
from cdcwb.index.source import Source
from cdcwb.model import EVENTS
from cdcwb.words import plural

__all__ = ["MAPS", "Record", "Records"]

MAPS: Final = ("key", "before", "after", "headers")
_OF_INDEX: Final = {
    "kind": "kind",
    "operation": "operation",
    "record_type": "type",
    "schema_name": "schema",
    "table_version": "version",
    "transaction_id": "transaction",
    "event_no": "event_no",
    "position": "position",
    "commit_position": "commit_position",
    "changed_at": "time",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``event`` has the columns of :data:`cdcwb.model.EVENTS`, maps as dictionaries; ``data`` are its
    bytes, None where it has none; ``field`` is their tree, whose offsets count from the record's start."""

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

    def __init__(self, source: Source) -> None:
        self._source = source
        self._index = source.index
        self.read = lru_cache(maxsize=64)(self._read)

    def _read(self, row: int) -> Record:
        """The record of that number. A place that cannot be read gives a record that says why."""
        entry = self._index.file_of(row)
        path = Path(holding(str(entry["file"]), self._index.number("offset", row)))
        try:
            if path.is_file():
                return self._dissected(row, path)
            reason = f"{path} no longer exists" if self._source.events else f"there is no file {path}"
        except CaptureError as error:
            reason = str(error)
        if self._source.events:
            return self._from_events(row, reason)
        return Record(row, self._told(row), None, Field("record", 0, 0, b"", None, reason), reason)

    def half(self, record: Record) -> Record | None:
        """The other half of an update that was captured as two records."""
        other = half_of(self._index, record.row)
        return None if other is None else self.read(other)

    # --- from the file ------------------------------------------------------------------------------------------------

    def _dissected(self, row: int, path: Path) -> Record:
        offset = self._index.number("offset", row)
        found = get_format(self._index.format).inspect(str(path), offset, self._source.options)
        event = self._told(row)
        for name, value in found.event.items():
            if name in event and (event[name] is None or name in MAPS) and value is not None:
                event[name] = dict(value) if name in MAPS else value
        if found.event.get("problems"):
            event["problems"] = found.event["problems"]
        event["raw"] = found.record
        if found.offset != offset:
            raise CaptureError(f"has changed: a record begins at {found.offset}", path=str(path), offset=offset)
        has_bytes = bool(found.record) or found.length == 0
        return Record(row, event, found.record if has_bytes else None, found.field, found.note)

    def _told(self, row: int) -> dict[str, Any]:
        """What the index says of a record, as an event."""
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
        event["problems"] = [{"code": one["code"], "detail": one["sentence"]} for one in problems] or None
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
    with pq.ParquetFile(path) as file:
        return file.read_row_group(number)


def _event_at(path: Path, row: int) -> dict[str, Any]:
    with pq.ParquetFile(path) as file:
        metadata, number = file.metadata, 0
        while row >= metadata.row_group(number).num_rows:
            row -= metadata.row_group(number).num_rows
            number += 1
    table = _row_group(path, number).slice(row, 1)
    time = table.schema.get_field_index("changed_at")
    if time >= 0:
        table = table.set_column(time, "changed_at", pc.cast(table["changed_at"], EVENTS.field("changed_at").type))
    (found,) = table.to_pylist()
    return dict(found)


def _tree(event: dict[str, Any]) -> Field:
    """A tree of the columns of an event; it holds no bytes."""
    children = []
    for name in EVENTS.names:
        value = event[name]
        if value is None or name == "raw":
            continue
        if name in MAPS:
            inner = tuple(_leaf(str(key), item, "NULL" if item is None else "") for key, item in value.items())
            children.append(Field(name, 0, 0, b"", None, plural(len(inner), "column"), inner))
        elif name == "problems":
            inner = tuple(Field(one["code"], 0, 0, b"", one["detail"], problem=one["code"]) for one in value)
            children.append(Field(name, 0, 0, b"", None, plural(len(inner), "problem"), inner))
        else:
            children.append(_leaf(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value), ""))
    return Field(str(event["record_type"] or event["kind"]), 0, 0, b"", None, "", tuple(children))


def _leaf(name: str, value: str | None, meaning: str) -> Field:
    return Field(name, 0, 0, b"", value, meaning)
