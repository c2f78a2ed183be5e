"""What a field of a record is in a filter: a header (``transaction``), or a value of its row (``after.state``)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from cdcwb.explore.copying import Change
from cdcwb.explore.filters import NUMBER, column_name, quoted, value_name
from cdcwb.explore.records import Record
from cdcwb.explore.suggest import clause
from cdcwb.explore.values import times
from cdcwb.formats.base import Field
from cdcwb.index.columns import NO_TIME, Column, Times

__all__ = ["Term", "image_of", "term_of_field", "term_of_value"]

Term = tuple[str, str]
"""The clause that keeps a value, and the one that keeps all others."""

_HEADERS: Final = {
    "sequence_number": "position",
    "change_sequence": "position",
    "logcsn": "csn",
    "tranid": "transaction",
    "timestamp": "time",
    "event_time": "time",
    "io_time": "time",
    "start_time": "time",
    "commit_time": "time",
    "record_number": "type",
    "iotype": "type",
    "event_type": "type",
    "change_oper": "type",
}
"""The sources' own names of header fields, as words of lower case."""

_ALIKE: Final = ("transaction", "position", "commit_position", "table", "csn")
_OF_LOG: Final = {"old_value": "before", "new_value": "after"}
_COMPUTED: Final = ("outcome", "user", "mark", "row")  # of no field, or slow to make


def image_of(image: str, record: Record, change: Change | None) -> Mapping[str, str | None]:
    """An image (before, after or key) of a record, or of the change that it is a half of; empty where there is none."""
    return record.event[image] or (None if change is None else getattr(change, image)) or {}


def term_of_value(
    image: str, name: str, change: Change | None, record: Record, kinds: Mapping[str, str]
) -> Term | None:
    """The clauses of a column of an image (before, after or key) of a record, or of the change that it is a half of;
    None where it has no value there that a filter can name."""
    own = image_of(image, record, change)
    if name not in own:
        return None
    literal = _literal(own[name], kinds.get(f"{image}.{name}", "any"))
    column = value_name(image, name, kinds)
    return None if literal is None else (f"{column} == {literal}", f"{column} != {literal}")


def term_of_field(number: int, record: Record, columns: Mapping[str, Column], kinds: Mapping[str, str]) -> Term | None:
    """The clauses of a field by its number in byte order, the record itself being 0, or of what it is a part of; None
    where it is nothing that a filter knows."""
    path: list[Field] = []
    for node in _path(record.field, number):
        path.append(node)
        if node.value is None and node.children:
            continue
        value = _of_image(path, record)
        if value is not None:
            return term_of_value(*value, None, record, kinds)
        header = _of_header(node, record.row, columns)
        if header is not None:
            return clause(*header), clause(*header, True)
    return None


def _path(root: Field, number: int) -> list[Field]:
    """A field and those that it is a part of, from the outside in."""
    left = number

    def down(node: Field) -> list[Field]:
        nonlocal left
        if not left:
            return [node]
        left -= 1
        for child in node.children:
            found = down(child)
            if found:
                return [node, *found]
        return []

    return down(root)


def _of_image(path: list[Field], record: Record) -> tuple[str, str] | None:
    """The image and the column that a field is the value of."""
    field = path[-1]
    is_before = any("before" in f"{one.name} {one.meaning}".lower() for one in path)
    for image in ("before", "after", "key") if is_before else ("after", "before", "key"):
        values = record.event[image] or {}
        if _OF_LOG.get(field.name) == image and list(values.values()) == [field.value]:
            return image, str(next(iter(values)))
        if field.name in values and values[field.name] == field.value:
            return image, field.name
    return None


def _of_header(field: Field, row: int, columns: Mapping[str, Column]) -> tuple[str, Any] | None:
    """The column of the index that a field is the source's name or the text of, with its value."""
    if not field.value:
        return None
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[ -]", "_", field.name).lower().removeprefix("header__")
    name = _HEADERS.get(words) or column_name(words)
    if name in columns and name not in _COMPUTED:
        value = columns[name].value(row)
        if value is not None and (columns[name].kind != "number" or str(value) == field.value):
            return name, value
    return next(
        ((name, field.value) for name in _ALIKE if name in columns and columns[name].value(row) == field.value), None
    )


def _literal(value: str | None, kind: str) -> str | None:
    """A value as it is written in a filter; None where it is not one of its column's kind."""
    if value is None:
        return "null"
    if kind == "number":
        return value.strip() if re.fullmatch(NUMBER, value.strip()) else None
    if kind == "time":
        found = times(pa.array([value]))
        time: dt.datetime | None = None if found[0] == NO_TIME else Times(found).value(0)
        return None if time is None else quoted(time.replace(tzinfo=None).isoformat())
    return quoted(value)
