"""The settings of a publication: those of the driver, and those of its documents."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.idm_event_log.decode import xml_unfit
from cdcwb.formats.moments import moment
from cdcwb.formats.source import is_file
from cdcwb.times import micros
from cdcwb.words import visible
from cdcwb.xds.document import TYPES, Verb

CYCLE: Final = "cycle"
LOG: Final = "log"

SETTINGS: Final[dict[str, str]] = {
    "driver_user": "database user of the driver; its own changes are not published (none)",
    "allow_loopback": "publish what the driver's user changed: true, false (false)",
    "future_events": "order by event_time and let rows with a later one wait: true, false (false)",
    "as_of": "time up to which rows are due, with future_events: ISO 8601, UTC where it has no offset (now)",
    "batch_size": "events a document, 1 to 128 (1)",
    "query_limit": "rows a polling cycle (10000)",
    "precedence": "query-back rows take precedence within a polling cycle or the whole log: cycle, log (cycle)",
    "type5": "what type 5, insert row (query-back), becomes: add, modify (add)",
    "schema": "schema in associations, where table_name has none",
    "class_names": "class names of tables: table=Class,…; else the table's own name",
    "types": f"value types of columns: column=octet,… or table.column:octet; {', '.join(TYPES)} (string)",
}
"""The description of every setting."""

_REFUSED: Final = "structured"
_NO_LIMIT: Final = (1 << 63) - 1  # rows: more than any log has


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings, checked if they come from :meth:`parse`. ``driver_user`` None: unknown, so no row counts as the
    driver's own. ``as_of``: a time with an offset; None: no row waits. ``types``: ``column`` or ``table.column`` in
    lower case -> one of :data:`cdcwb.xds.document.TYPES`. ``binary``: ``table.column`` in lower case of columns that
    are bytes in a snapshot.
    """

    driver_user: str | None = None
    allow_loopback: bool = False
    future_events: bool = False
    as_of: dt.datetime | None = None
    batch_size: int = 1
    query_limit: int = 10_000
    precedence: str = CYCLE
    type5: str = Verb.ADD
    schema: str | None = None
    class_names: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    binary: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Settings:
        """Checked settings from names and values; None and empty values are ignored. Raises OptionError with the
        expected and the actual value.
        """
        opt.check_names(given, SETTINGS, "publication")
        values = {name: value for name, value in given.items() if value is not None and value != ""}
        future = "future_events" in values and opt.as_bool("future_events", values["future_events"])
        if "as_of" in values and not future:
            raise OptionError("option as_of: rows wait for their event_time only with future_events=true")
        batch_size = opt.as_whole("batch_size", values.get("batch_size", 1), 1)
        if batch_size > 128:
            raise OptionError(f"option batch_size: expected 1 to 128 events a document, found {batch_size}")
        return cls(
            driver_user=_text(values, "driver_user"),
            allow_loopback="allow_loopback" in values and opt.as_bool("allow_loopback", values["allow_loopback"]),
            future_events=future,
            as_of=_time(values.get("as_of")) if future else None,
            batch_size=batch_size,
            query_limit=min(opt.as_whole("query_limit", values.get("query_limit", 10_000), 1), _NO_LIMIT),
            precedence=opt.as_choice("precedence", values.get("precedence", CYCLE), (CYCLE, LOG)),
            type5=opt.as_choice("type5", values.get("type5", "add"), ("add", "modify")),
            schema=_fit("schema", str(values["schema"])) if "schema" in values else None,
            class_names=_class_names(values.get("class_names")),
            types=_types(values.get("types")),
        )

    @property
    def as_of_us(self) -> int | None:
        """``as_of`` in µs since 1970 UTC."""
        return None if self.as_of is None else micros(self.as_of)

    def with_binary(self, columns: frozenset[str]) -> Settings:
        """These settings, with the columns that are bytes in a snapshot."""
        return replace(self, binary=self.binary | columns) if columns - self.binary else self

    def verb_of(self, event_type: int) -> Verb:
        """The operation of a row of this type on its object (docs/formats/idm-event-log.md §3.3)."""
        if event_type == 4:
            return Verb.DELETE
        if event_type == 5:
            return Verb(self.type5)
        return Verb.ADD if event_type in (1, 7) else Verb.MODIFY

    def class_of(self, table_name: str) -> str:
        """The class name of a table, set for its name as written, with its schema or without."""
        *_, table = names = self._names(table_name)
        return next((self.class_names[name] for name in names if name in self.class_names), table)

    def type_of(self, table_name: str, column: str) -> str:
        """The type of a column's values: set for ``schema.table.column``, ``table.column`` or ``column``
        (case-insensitive), else octet for bytes, else string."""
        names = [f"{name}.{column}".lower() for name in self._names(table_name)]
        default = "octet" if names[-1] in self.binary else "string"
        return next((self.types[name] for name in (*names, column.lower()) if name in self.types), default)

    def _names(self, table_name: str) -> tuple[str, str, str]:
        """A table's name as written, with the schema of tables without one, and without its schema."""
        schema, table = split_table(table_name)
        return table_name, f"{schema or self.schema}.{table}", table


def split_table(table_name: str) -> tuple[str | None, str]:
    """Schema and table: the parts before and after the last dot. None: no dot, or one part is empty."""
    schema, _, table = table_name.rpartition(".")
    return (schema, table) if schema and table else (None, table_name)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    return str(values[name]) if name in values else None


def _fit(option: str, text: str) -> str:
    if xml_unfit(pa.array([text], pa.string()))[0]:
        raise OptionError(f"option {option}: {visible(text)!r} holds a character that XML 1.0 cannot hold")
    return text


def _time(value: Any) -> dt.datetime:
    if value is None:
        return dt.datetime.now(dt.UTC)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    text = str(value).strip()
    time = moment(f"{text}T00:00:00" if len(text) == 10 else text)
    if time is None:
        raise OptionError(f"option as_of: expected a time like 2026-12-01T00:00:00Z, found {str(value)!r}")
    return time


def _class_names(value: Any) -> dict[str, str]:
    names = opt.as_names("class_names", value)
    empty = [table for table, name in names.items() if not name]
    if empty:
        raise OptionError(f"option class_names: table {empty[0]!r} is given an empty name")
    return {table: _fit("class_names", name) for table, name in names.items()}


def _types(value: Any) -> dict[str, str]:
    """``a:octet,b.c:int``, ``a=octet,b.c=int``, a JSON file or a dictionary."""
    if isinstance(value, str) and not value.lstrip().startswith("{") and not is_file(value):
        value = ",".join(part if "=" in part else "=".join(part.rsplit(":", 1)) for part in value.split(","))
    types: dict[str, str] = {}
    for column, name in opt.as_names("types", value).items():
        if name.lower() == _REFUSED:
            why = "since a column has one value and no components"
            raise OptionError(f"option types: column {column!r} cannot be structured, {why}")
        types[column.lower()] = opt.as_choice("types", name, TYPES)
    return types
