"""The tables of an export: what a first pass finds in events, and versions from that
(docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from cdcwb.formats.arrays import label
from cdcwb.formats.columns import TableColumn, TableVersion
from cdcwb.formats.goldengate_export.events import times_of
from cdcwb.formats.messages.connect import plain
from cdcwb.model import Kind

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?([eE][+-]?[0-9]+)?\Z")
_KINDS: Final = {bool: "boolean", int: "number", msgspec.Raw: "number"}


class Facts(NamedTuple):
    """The types of all values of a column. ``kind`` is ``text``, ``number`` or ``boolean``; None without a value that
    is not NULL. ``whole`` and ``fraction`` are the most digits of numbers before and after the point, ``exponent``: one
    of them has an exponent."""

    kind: str | None = None
    whole: int = 0
    fraction: int = 0
    exponent: bool = False

    @classmethod
    def of(cls, values: Sequence[Any], typed: bool) -> Facts:
        """Those of some values. Those of JSON are ``typed``; texts of XML are numbers if all of them are."""
        there = [value for value in values if value is not None]
        kinds = {_KINDS.get(one, "text") for one in set(map(type, there))} if typed else {"number"}
        if not there or kinds != {"number"}:
            return cls(None if not there else kinds.pop() if len(kinds) == 1 else "text")
        found = [_NUMBER.match(text) for text in set(map(plain, there))]
        if not all(found):
            return cls("text")
        whole, fraction, exponent = zip(*(one.groups("") for one in found if one), strict=True)
        return cls("number", max(map(len, whole)), max(map(len, fraction)), any(exponent))

    def merged(self, other: Facts) -> Facts:
        """Those of these values and others."""
        kinds = {self.kind, other.kind} - {None}
        kind = kinds.pop() if len(kinds) == 1 else "text" if kinds else None
        return Facts(kind, *map(max, self[1:], other[1:]))  # type: ignore[arg-type]

    @property
    def arrow_type(self) -> pa.DataType:
        """Numbers as int64, else as decimals, with exponents as float64; truth values; all else as text."""
        if self.kind != "number":
            return pa.bool_() if self.kind == "boolean" else pa.string()
        if self.exponent:
            return pa.float64()
        if not self.fraction and self.whole <= 18:
            return pa.int64()
        digits = self.whole + self.fraction
        return pa.decimal128(digits, self.fraction) if digits <= 38 else pa.string()


Table = tuple[str | None, str]
"""Schema and name."""


@dataclass(slots=True)
class FirstPass:
    """What a first pass finds: the columns and the key columns of each table, the number of changes, the paths of files
    with times that have no zone, and why the first malformed event is one."""

    columns: dict[Table, dict[str, Facts]] = field(default_factory=dict)
    keys: dict[Table, Sequence[str]] = field(default_factory=dict)
    records: int = 0
    unzoned: dict[str, None] = field(default_factory=dict)
    malformed: str | None = None

    def merge(self, other: FirstPass) -> None:
        """Adds what was found in a later stretch."""
        for table, columns in other.columns.items():
            self.add(table, columns)
        self.keys = other.keys | self.keys
        self.records += other.records
        self.unzoned |= other.unzoned
        self.malformed = self.malformed or other.malformed

    def add(self, table: Table, columns: Mapping[str, Facts]) -> None:
        """Adds the types of further values of columns of a table."""
        known = self.columns.setdefault(table, {})
        for name, facts in columns.items():
            known[name] = known.get(name, Facts()).merged(facts)

    def take(self, path: str, events: Sequence[Mapping[str, Any]]) -> None:
        """Adds events of a file."""
        images: dict[tuple[Any, ...], list[Any]] = {}
        for event in events:
            if event["kind"] == Kind.MALFORMED:
                self.malformed = self.malformed or event["problems"][0]["detail"]
            if "images" not in event:
                continue
            self.records += event["kind"] != Kind.SCHEMA
            table = event["schema_name"], event["table_name"]
            if table[1] is None or (event["operation"] is None and event["kind"] != Kind.SCHEMA):
                continue
            self.add(table, {})
            if event["keys"]:
                self.keys.setdefault(table, event["keys"])
            for image in event["images"]:
                images.setdefault((table, event["typed"], *image), []).extend(image.values())
        for (table, typed, *names), values in images.items():
            self.add(table, {name: Facts.of(values[at :: len(names)], typed) for at, name in enumerate(names)})
        if path not in self.unzoned and times_of([event.get("time") for event in events], None).lacking:
            self.unzoned[path] = None


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table. ``types``: the types of the values of each column."""

    types: dict[str, pa.DataType] = field(default_factory=dict)


def versions_from(found: FirstPass) -> list[Version]:
    """The versions of tables, from the columns and the values of their records."""
    made: list[Version] = []
    for (schema, table), facts in found.columns.items():
        keys = {name: at for at, name in enumerate(found.keys.get((schema, table), ()), 1)}
        columns = [
            TableColumn(at, name, one.kind or "text", key_position=keys.get(name))
            for at, (name, one) in enumerate(facts.items(), 1)
        ]
        types = {name: one.arrow_type for name, one in facts.items()}
        name = f"{label(schema, table)}@1"
        made.append(Version(name, schema, table, columns, "inferred", types=types))
    return made
