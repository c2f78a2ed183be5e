"""Which table a message is about, where its metadata does not say (docs/formats/qlik-kafka.md §10).

The name may stand in several places. They are asked in a fixed order, and the place that answered is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

__all__ = ["NOBODY", "PLACES", "TABLE_COLUMNS", "TableName", "from_namespace", "name_of", "places_in", "split_name"]

PLACES: Final = ("message", "headers", "record_headers", "column", "topic", "key", "none")
"""Where a table's name may stand, in the order in which the places are asked."""

_TABLE_COLUMNS: Final = ("__table", "tableName", "table_name", "__table_name")
_SCHEMA_COLUMNS: Final = ("__schema", "__database", "schemaName", "schema_name", "__owner")
TABLE_COLUMNS: Final = frozenset({*_TABLE_COLUMNS, *_SCHEMA_COLUMNS})
"""Columns of a row that may name its table."""

_NAME: Final = re.compile(r"[^\W\d][\w$#-]*(\.[^\W\d][\w$#-]*)*")
_NAMESPACE: Final = "com.attunity.queue.msg."


class TableName(NamedTuple):
    """A table by its names, and the place that told them (of :data:`PLACES`, or ``namespace``)."""

    schema: str | None
    table: str | None
    place: str

    @property
    def label(self) -> str:
        """``schema.table``, ``table``, or ``unnamed``."""
        if self.table is None:
            return "unnamed"
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


NOBODY: Final = TableName(None, None, "none")


def name_of(
    message: Mapping[str, Any],
    headers: Mapping[str, Any],
    row: Mapping[str, Any],
    facts: Mapping[str, str | None],
    key: bytes | None,
    places: Sequence[str],
    alone: bool = True,
) -> TableName:
    """The name of a message's table from the first of the ``places`` that has one.

    ``message`` is the data message, ``headers`` its headers, ``row`` the values of its row, ``facts`` what the
    container says (``topic``, ``header.…``), ``key`` the message key, of which a name without a schema counts only if
    ``alone`` is false: it is rather the key of a row.
    """
    for place in places:
        found: tuple[Any, Any] = (None, None)
        if place == "message":
            found = (message.get("schema"), message.get("table"))
        elif place == "headers":
            found = (headers.get("schema"), headers.get("table"))
        elif place == "record_headers":
            found = (facts.get("header.schema"), facts.get("header.table"))
        elif place == "column":
            found = (_first(row, _SCHEMA_COLUMNS), _first(row, _TABLE_COLUMNS))
        elif place == "topic":
            found = split_name(facts.get("topic"))
        elif place == "key" and key is not None:
            found = split_name(_key_text(key))
            if found[0] is None and alone:
                continue
        if isinstance(found[1], str) and found[1]:
            schema = found[0] if isinstance(found[0], str) and found[0] else None
            return TableName(schema, found[1], place)
    return NOBODY


def places_in(
    message: Iterable[str], headers: Iterable[str], row: Iterable[str], facts: Iterable[str], places: Sequence[str]
) -> tuple[str, ...]:
    """Those of the ``places`` that may have a name, by the keys of a message, its headers and its row, and the facts
    that the container has (``key`` among them)."""
    known = {
        "message": "table" in message,
        "headers": "table" in headers,
        "record_headers": "header.table" in facts,
        "column": not set(_TABLE_COLUMNS).isdisjoint(row),
        "topic": "topic" in facts,
        "key": "key" in facts,
    }
    return tuple(place for place in places if known.get(place))


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _key_text(key: bytes) -> str | None:
    try:
        return key.decode().strip('"')
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4096)
def split_name(name: str | None) -> tuple[str | None, str | None]:
    """``schema.table`` -> its parts; the last two of more, no schema of one; nothing of a text that is no name."""
    if name is None or not _NAME.fullmatch(name):
        return None, None
    parts = name.split(".")
    return (parts[-2] if len(parts) > 1 else None), parts[-1]


def from_namespace(namespace: str | None) -> TableName:
    """The table that an Avro namespace names: ``com.attunity.queue.msg.<task>.<schema>.<table>``."""
    if not namespace or not namespace.startswith(_NAMESPACE):
        return NOBODY
    parts = namespace.removeprefix(_NAMESPACE).split(".")
    if len(parts) < 2:
        return NOBODY
    return TableName(parts[-2] if len(parts) > 2 else None, parts[-1], "namespace")
