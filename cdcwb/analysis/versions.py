"""Differences between two versions of a table, and whether a reader of one can read rows of the other.

This module does not use Spark: versions are rows of :data:`cdcwb.model.TABLE_VERSIONS`. Evidence from rows (that a
column was renamed) is passed as an argument.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cdcwb.model import Severity
from cdcwb.words import joined

__all__ = [
    "AvroType",
    "Compatibility",
    "Difference",
    "Rule",
    "avro_type",
    "candidates",
    "compatibility",
    "described",
    "differences",
    "former_names",
    "holds",
    "reads",
    "side_by_side",
]


Column = Mapping[str, Any]
Continuing = Mapping[tuple[str, str], str]
"""Evidence that a new column continues an old one, by old and new name; best evidence first."""


class Rule(StrEnum):
    """The kinds of differences between two versions."""

    ADDED = "column_added"
    DROPPED = "column_dropped"
    RENAMED = "column_renamed"
    RETYPED = "column_retyped"
    RESIZED = "column_resized"
    REORDERED = "columns_reordered"
    KEY = "key_changed"
    NULLABILITY = "nullability_changed"
    MISALIGNED = "values_misaligned"

    @property
    def heading(self) -> str:
        """A few words for tables and legends."""
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: ``column`` is the new name, or the old name of a dropped column; None for the table itself.
    ``old`` and ``new`` are in words, None if absent. ``evidence`` explains the classification."""

    rule: Rule
    severity: Severity
    column: str | None
    old: str | None
    new: str | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Why a reader cannot read, by Avro's rules: ``backward``, a reader of the new version rows of the old;
    ``forward``, a reader of the old version rows of the new. Empty if it can."""

    backward: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """full, backward, forward or none."""
        if not self.backward:
            return "backward" if self.forward else "full"
        return "none" if self.forward else "forward"


_SIZES: Final = ("length", "precision", "scale")
_SIDE: Final = 8  # columns removed from one gap, and added to it, of which every pair is a candidate


def candidates(old: Sequence[Column], new: Sequence[Column]) -> list[tuple[str, str]]:
    """Pairs of a removed and an added column that may be one renamed column: in the same gap between retained columns,
    and of the same type. If many were removed from one gap, only the pairs at the same distance from its begin or its
    end."""
    removed, added = _apart(old, new)
    retained = {column["name"] for column in old} & {column["name"] for column in new}
    new_gaps = _gaps(new, retained)
    pairs = []
    for number, names in _gaps(old, retained).items():
        additions = new_gaps.get(number, [])
        few = len(names) <= _SIDE and len(additions) <= _SIDE
        for at, name in enumerate(names):
            places = range(len(additions)) if few else sorted({at, len(additions) - len(names) + at})
            near = [additions[number] for number in places if 0 <= number < len(additions)]
            pairs += [(name, other) for other in near if _type_of(removed[name]) == _type_of(added[other])]
    return pairs


def _gaps(columns: Sequence[Column], retained: set[str]) -> dict[tuple[str | None, str | None], list[str]]:
    """The columns that are not retained, by the retained columns on either side."""
    gaps: dict[tuple[str | None, str | None], list[str]] = {}
    before: str | None = None
    gap: list[str] = []
    for name in (*(column["name"] for column in columns), None):
        if name is not None and name not in retained:
            gap.append(name)
            continue
        if gap:
            gaps[before, name] = gap
        before, gap = name, []
    return gaps


def differences(old: Sequence[Column], new: Sequence[Column], continuing: Continuing | None = None) -> list[Difference]:
    """The differences: columns in their new order, then dropped ones, then those of the table. Only ``continuing``
    columns are renamed, each once."""
    removed, added = _apart(old, new)
    renamed: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for (name, other), why in (continuing or {}).items():
        if name in removed and other in added and name not in taken and other not in renamed:
            renamed[other] = (name, why)
            taken.add(name)
    former = {other: name for other, (name, _) in renamed.items()}
    by_name = {column["name"]: column for column in old}
    result: list[Difference] = []
    for column in new:
        name = column["name"]
        if name in renamed:
            before, why = renamed[name]
            result.append(Difference(Rule.RENAMED, Severity.WARNING, name, before, name, why))
        elif name in added:
            nullable = column.get("nullable")
            severity = Severity.WARNING if nullable is False else Severity.INFO
            result.append(Difference(Rule.ADDED, severity, name, None, described(column), "not among the old columns"))
            continue
        result += _changed(by_name[former.get(name, name)], column)
    for name, column in removed.items():
        if name not in taken:
            why = "not among the new columns"
            result.append(Difference(Rule.DROPPED, Severity.WARNING, name, described(column), None, why))
    return result + _of_table(old, new, former)


def _apart(old: Sequence[Column], new: Sequence[Column]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The removed columns, and the added ones, by name."""
    before, after = {column["name"]: column for column in old}, {column["name"]: column for column in new}
    return {n: c for n, c in before.items() if n not in after}, {n: c for n, c in after.items() if n not in before}


def _type_of(column: Column) -> tuple[Any, ...]:
    return (column.get("type"), *(column.get(size) for size in _SIZES))


def described(column: Column) -> str:
    """Type, size and nullability, in words."""
    text = str(column.get("type") or "type not known")
    if "(" not in text:
        sizes = [column.get(name) for name in ("precision", "scale")]
        if sizes[0] is not None:
            text += f"({', '.join(str(size) for size in sizes if size is not None)})"
        elif column.get("length") is not None:
            text += f", {column['length']} bytes"
    return text if column.get("nullable") is not False else f"{text}, not null"


def _changed(old: Column, new: Column) -> list[Difference]:
    """The differences between two definitions of a column."""
    name, both = new["name"], (described(old), described(new))
    types = [column.get("type") for column in (old, new)]
    changed, kinds = [], [_SIZED.sub("", str(kind)).strip().casefold() for kind in types]
    sizes = [size for size in _SIZES if _differ(old.get(size), new.get(size))]
    if None not in types and kinds[0] != kinds[1]:
        before, after = avro_type(old), avro_type(new)
        why = holds(after, before) if before is not None and after is not None else "a type that has no mapping"
        severity = Severity.INFO if why is None else Severity.ERROR
        changed.append(Difference(Rule.RETYPED, severity, name, *both, why or "every old value is one of the new type"))
    elif sizes or (None not in types and types[0] != types[1]):
        narrower = [size for size in sizes if new[size] < old[size] or size == "scale"]
        why = f"{joined(narrower)} no longer the same" if narrower else "wider than before"
        severity = Severity.WARNING if narrower or not sizes else Severity.INFO
        why = why if sizes else "its size, as the type gives it"
        changed.append(Difference(Rule.RESIZED, severity, name, *both, why))
    if _differ(old.get("nullable"), new.get("nullable")):
        severity = Severity.INFO if new["nullable"] else Severity.WARNING
        was, now = ("may be NULL" if column["nullable"] else "never NULL" for column in (old, new))
        changed.append(Difference(Rule.NULLABILITY, severity, name, was, now, "by the two versions"))
    return changed


_SIZED: Final = re.compile(r"\([0-9, ]*\)")
"""The sizes in a type, which are compared separately."""


def _differ(old: Any, new: Any) -> bool:
    """Whether both values are known and differ."""
    return old is not None and new is not None and old != new


def _of_table(old: Sequence[Column], new: Sequence[Column], former: Mapping[str, str]) -> list[Difference]:
    changed = []
    stay, now, moved = _order(old, new, former)
    if moved:
        why = f"other ordinals: {joined(moved[:8])}" + (f" and {len(moved) - 8} more" if len(moved) > 8 else "")
        changed.append(Difference(Rule.REORDERED, Severity.WARNING, None, ", ".join(stay), ", ".join(now), why))
    keys = _key(old, {}), _key(new, former)
    if all(keys) and keys[0] != keys[1]:
        before, after = ("+".join(key) for key in keys)
        changed.append(Difference(Rule.KEY, Severity.ERROR, None, before, after, "by the two versions"))
    return changed


def _order(
    old: Sequence[Column], new: Sequence[Column], former: Mapping[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """The columns that both have, by their old names, in the order of each, and those with another ordinal among them;
    a name that a version has twice counts once."""
    before = dict.fromkeys(column["name"] for column in old)
    after = dict.fromkeys(former.get(column["name"], column["name"]) for column in new)
    stay, now = [name for name in before if name in after], [name for name in after if name in before]
    return stay, now, [name for name, other in zip(stay, now, strict=True) if name != other]


def _key(columns: Sequence[Column], former: Mapping[str, str]) -> list[str]:
    keyed = sorted((c["key_position"], former.get(c["name"], c["name"])) for c in columns if c.get("key_position"))
    return [name for _, name in keyed]


def compatibility(
    old: Sequence[Column], new: Sequence[Column], former: Mapping[str, str] | None = None
) -> Compatibility:
    """Compatibility by Avro's rules between readers of one version and rows of the other.

    A nullable column, or one of unknown nullability, is a union with null whose default is null; other columns have no
    default. ``former`` maps new names to old ones, which a reader of the new version knows as aliases. A reader of the
    old version does not know the new name, so it misses the column.
    """
    before: dict[str, Column] = {str(column["name"]): column for column in old}
    after: dict[str, Column] = {str(column["name"]): column for column in new}
    known = {(former or {}).get(name, name): column for name, column in after.items()}
    return Compatibility(_obstacles(known, before), _obstacles(before, after))


def _obstacles(reader: Mapping[str, Column], writer: Mapping[str, Column]) -> list[str]:
    obstacles = []
    for name, column in reader.items():
        label, other = column["name"], writer.get(name)
        if other is None:
            if column.get("nullable") is False:
                obstacles.append(f"{label}: the reader's column has no default, and the writer has no such column")
            continue
        read, written = avro_type(column), avro_type(other)
        if read is not None and written is not None:
            why = reads(read, written)
        else:
            is_same = read is written and column.get("type") == other.get("type")
            both = f"{other.get('type')} and {column.get('type')}"
            why = None if is_same else f"{both} are not both types that have a mapping"
        if why is not None:
            obstacles.append(f"{label}: {why}")
        if column.get("nullable") is False and other.get("nullable") is not False:
            obstacles.append(f"{label}: the writer may have written NULL, which the reader does not allow")
    return obstacles


def former_names(changed: Iterable[Difference]) -> dict[str, str]:
    """By the new name of each column that was renamed: its old one."""
    return {str(difference.new): str(difference.old) for difference in changed if difference.rule is Rule.RENAMED}


def side_by_side(
    old: Sequence[Column], new: Sequence[Column], changed: Sequence[Difference]
) -> Iterator[dict[str, Any]]:
    """Two versions column by column, in the new order, each dropped column after its old predecessor: ``place``,
    ``name`` and ``kind`` (type, size, NULL) before as ``old_…`` and after as ``new_…``, None without such a column, and
    ``differs``: the difference in words, empty without one."""
    former = former_names(changed)
    before = {str(column["name"]): (number, column) for number, column in enumerate(old, 1)}
    after = [(former.get(str(column["name"]), str(column["name"])), column) for column in new]
    stays, last = {name for name, _ in after}, ""
    dropped: dict[str, list[str]] = defaultdict(list)
    for name in before:
        last = name if name in stays else last
        dropped[last] += [] if name in stays else [name]
    differs: dict[str | None, list[str]] = defaultdict(list)
    for difference in changed:
        differs[difference.column].append(difference.rule.heading.removeprefix("column "))
    _, _, moved = _order(old, new, former)
    keys = [{name: number for number, name in enumerate(key)} for key in (_key(old, {}), _key(new, former))]

    def gone(name: str) -> Iterator[dict[str, Any]]:
        return (_pair(before[other], (None, {}), differs[other]) for other in dropped.pop(name, ()))

    yield from gone("")
    for number, (name, column) in enumerate(after, 1):
        words = [*differs[str(column["name"])], *["place"] * (name in moved)]
        words += ["key"] * (all(keys) and keys[0].get(name) != keys[1].get(name))
        yield _pair(before.get(name, (None, {})), (number, column), words)
        yield from gone(name)


def _pair(old: tuple[int | None, Column], new: tuple[int | None, Column], differs: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for side, (number, column) in (("old", old), ("new", new)):
        kind = None if number is None else described(column)
        row |= {f"{side}_place": number, f"{side}_name": column.get("name"), f"{side}_kind": kind}
    return row | {"differs": ", ".join(differs)}


# --- avro types -------------------------------------------------------------------------------------------------------


class AvroType(NamedTuple):
    """``name``: a primitive type of Avro. ``logical``: its logical type, or empty. ``precision`` and ``scale`` are
    those of a decimal; None if the source does not give them."""

    name: str
    logical: str = ""
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.logical == _DECIMAL:
            digits = ",".join("?" if digit is None else str(digit) for digit in (self.precision, self.scale))
            return f"decimal({digits})"
        return f"{self.logical} ({self.name})" if self.logical else self.name


_INT, _LONG, _FLOAT, _DOUBLE = AvroType("int"), AvroType("long"), AvroType("float"), AvroType("double")
_STRING, _BYTES, _BOOLEAN = AvroType("string"), AvroType("bytes"), AvroType("boolean")
_DATE, _TIME = AvroType("int", "date"), AvroType("long", "time-micros")
_TIMESTAMP = AvroType("long", "timestamp-micros")
_DECIMAL: Final = "decimal"
_DECIMALS = AvroType("bytes", _DECIMAL)

_TYPES: Final[dict[str, AvroType]] = {
    **dict.fromkeys(("smallint", "int", "integer", "serial", "tinyint", "int1", "int2", "int4", "int32"), _INT),
    **dict.fromkeys(("uint1", "uint2", "int16", "uint8", "uint16"), _INT),
    **dict.fromkeys(("bigint", "bigserial", "serial8", "int8", "int64", "uint4", "uint32", "long"), _LONG),
    **dict.fromkeys(("real", "smallfloat", "real4", "float32", "halffloat"), _FLOAT),
    **dict.fromkeys(("float", "double", "double precision", "real8", "float64"), _DOUBLE),
    **dict.fromkeys(
        ("decimal", "numeric", "money", "number", "decimal128", "decimal256", "uint64"), AvroType("bytes", _DECIMAL)
    ),
    **dict.fromkeys(("char", "nchar", "varchar", "nvarchar", "lvarchar", "text", "string", "wstring"), _STRING),
    **dict.fromkeys(("clob", "nclob", "varchar2", "nvarchar2", "large_string", "xml", "json", "interval"), _STRING),
    **dict.fromkeys(("blob", "byte", "bytes", "binary", "varbinary", "raw", "large_binary", "image"), _BYTES),
    **dict.fromkeys(("boolean", "bool", "bit"), _BOOLEAN),
    **dict.fromkeys(("date", "date32"), _DATE),
    **dict.fromkeys(("time", "time64", "time32"), _TIME),
    **dict.fromkeys(("datetime", "timestamp"), _TIMESTAMP),
}
_SHAPE: Final = re.compile(r"^(?:\d+ )?([a-z][a-z0-9_]*(?: precision)?)\s*(.*)$")


def avro_type(column: Mapping[str, Any]) -> AvroType | None:
    """The Avro type of a column of :data:`cdcwb.model.COLUMN`; None if its type is unknown or missing."""
    match = _SHAPE.match(str(column.get("type") or "").strip().lower())
    if match is None:
        return None
    name, rest = match[1], match[2]
    if name == "datetime" and rest and "year to" not in rest:
        return _STRING  # a part of a time, such as hour to second
    mapped = _TYPES.get(name)
    if mapped is not None and mapped.logical == _DECIMAL:
        return mapped._replace(precision=column.get("precision"), scale=column.get("scale"))
    return mapped


_PROMOTED: Final = {
    "int": {"int", "long", "float", "double"},
    "long": {"long", "float", "double"},
    "float": {"float", "double"},
    "string": {"string", "bytes"},
    "bytes": {"bytes", "string"},
}


def reads(reader: AvroType, writer: AvroType) -> str | None:
    """Why a reader of one type cannot read data written with another, by Avro's rules; None if it can."""
    if reader.logical != writer.logical:
        return f"{writer} cannot be read as {reader}"
    if reader.logical == _DECIMAL:
        differ = [name for name in ("precision", "scale") if getattr(reader, name) != getattr(writer, name)]
        both = f"{' and '.join(differ)} of decimals have to be the same" if differ else ""
        return f"{writer} cannot be read as {reader}: {both}" if differ else None
    if reader.name == writer.name or reader.name in _PROMOTED.get(writer.name, ()):
        return None
    return f"{writer} cannot be read as {reader}"


def holds(new: AvroType, old: AvroType) -> str | None:
    """Why the new type does not hold every value of the old one; None if it does. Unlike for a reader of Avro, a
    decimal may get more digits before and after the point."""
    if old.logical != _DECIMAL or new.logical != _DECIMAL:
        return reads(new, old)
    if None in (old.precision, new.precision):
        return None if (old.precision, old.scale) == (new.precision, new.scale) else f"{old} may not fit {new}"
    digits, fraction = (old.precision or 0) - (old.scale or 0), old.scale or 0
    fits = (new.precision or 0) - (new.scale or 0) >= digits and (new.scale or 0) >= fraction
    return None if fits else f"{new} has fewer digits than {old}, before or after the decimal point"
