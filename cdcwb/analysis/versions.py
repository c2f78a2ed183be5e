"""Differences between two versions of a table, and whether a reader of one can read rows of the other.

Versions are the columns of rows of :data:`cdcwb.model.TABLE_VERSIONS`. Evidence that a column was renamed is passed as
an argument.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from cdcwb.model import Severity
from cdcwb.words import joined

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
_SIDE: Final = 8  # columns between two retained ones of which every pair is a candidate


def candidates(old: Sequence[Column], new: Sequence[Column]) -> list[tuple[str, str]]:
    """Pairs of a removed and an added column that may be one renamed column: after the same retained column, and of
    the same type. Of many, only those in the same order."""
    before, after = _by_name(old), _by_name(new)
    gaps = [_gaps(names, before.keys() & after.keys()) for names in (before, after)]
    pairs = []
    for gap, removed in gaps[0].items():
        added = gaps[1].get(gap, [])
        few = max(len(removed), len(added)) <= _SIDE
        pairs += [(n, other) for n in removed for other in added] if few else list(zip(removed, added, strict=False))
    return [pair for pair in pairs if _type_of(before[pair[0]]) == _type_of(after[pair[1]])]


def _gaps(names: Iterable[str], retained: Iterable[str]) -> dict[str, list[str]]:
    """The columns that are not retained, by the retained column before them."""
    gaps: dict[str, list[str]] = {}
    last = ""
    for is_retained, run in groupby(names, {*retained}.__contains__):
        columns = list(run)
        if is_retained:
            last = columns[-1]
        else:
            gaps[last] = columns
    return gaps


def _by_name(columns: Iterable[Column]) -> dict[str, Column]:
    return {str(column["name"]): column for column in columns}


def _type_of(column: Column) -> tuple[Any, ...]:
    return (column.get("type"), *(column.get(size) for size in _SIZES))


def _pairs(
    old: Iterable[Column], new: Iterable[Column], former: Mapping[str, str]
) -> list[tuple[Column | None, Column | None]]:
    """The columns of two versions: new ones in their order, each with the old column that it continues, then dropped
    ones. ``former`` maps new names to old ones."""
    before = _by_name(old)
    pairs = [(before.pop(former.get(name, name), None), column) for name, column in _by_name(new).items()]
    return [*pairs, *((column, None) for column in before.values())]


def differences(old: Sequence[Column], new: Sequence[Column], continuing: Continuing | None = None) -> list[Difference]:
    """The differences: columns in their new order, then dropped ones, then those of the table. Only ``continuing``
    columns are renamed, each once."""
    before, after = _by_name(old), _by_name(new)
    renamed: dict[str, str] = {}
    for name, other in continuing or ():
        is_free = other not in renamed and name not in renamed.values()
        if is_free and name in before.keys() - after.keys() and other in after.keys() - before.keys():
            renamed[other] = name
    result: list[Difference] = []
    for was, now in _pairs(old, new, renamed):
        if was is None and now is not None:
            severity = Severity.WARNING if now.get("nullable") is False else Severity.INFO
            why = "not among the old columns"
            result.append(Difference(Rule.ADDED, severity, now["name"], None, described(now), why))
        elif was is not None and now is None:
            why = "not among the new columns"
            result.append(Difference(Rule.DROPPED, Severity.WARNING, was["name"], described(was), None, why))
        elif was is not None and now is not None:
            names = (was["name"], now["name"])
            if continuing and names[0] != names[1]:
                result.append(Difference(Rule.RENAMED, Severity.WARNING, names[1], *names, continuing[names]))
            result += _changed(was, now)
    return result + _of_table(old, new, renamed)


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


_SIZED: Final = re.compile(r"\([0-9, ]*\)")
"""The sizes in a type, which are compared separately."""


def _changed(old: Column, new: Column) -> list[Difference]:
    """The differences between two definitions of a column; what one of them does not give is none."""
    name, both = new["name"], (described(old), described(new))
    changed, types = [], [str(column.get("type") or "") for column in (old, new)]
    kinds = [_SIZED.sub("", kind).strip().casefold() for kind in types]
    sizes = [size for size in _SIZES if _differ(old, new, size)]
    if all(types) and kinds[0] != kinds[1]:
        before, after = avro_type(old), avro_type(new)
        why = holds(after, before) if before is not None and after is not None else "a type that has no mapping"
        severity = Severity.INFO if why is None else Severity.ERROR
        changed.append(Difference(Rule.RETYPED, severity, name, *both, why or "every old value is one of the new type"))
    elif sizes or (all(types) and types[0] != types[1]):
        narrower = [size for size in sizes if new[size] < old[size] or size == "scale"]
        why = f"{joined(narrower)} no longer the same" if narrower else "wider than before"
        severity = Severity.WARNING if narrower or not sizes else Severity.INFO
        why = why if sizes else "its size, as the type gives it"
        changed.append(Difference(Rule.RESIZED, severity, name, *both, why))
    if _differ(old, new, "nullable"):
        severity = Severity.INFO if new["nullable"] else Severity.WARNING
        was, now = ("may be NULL" if column["nullable"] else "never NULL" for column in (old, new))
        changed.append(Difference(Rule.NULLABILITY, severity, name, was, now, "by the two versions"))
    return changed


def _differ(old: Column, new: Column, fact: str) -> bool:
    """Whether both columns give a fact and it differs."""
    return None not in (old.get(fact), new.get(fact)) and old[fact] != new[fact]


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
    """The columns that both have, by their old names, in the order of each, and those with another ordinal among
    them."""
    before, after = list(_by_name(old)), [former.get(name, name) for name in _by_name(new)]
    stay, now = [name for name in before if name in {*after}], [name for name in after if name in {*before}]
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
    backward = [why for writer, reader in _pairs(old, new, former or {}) for why in _obstacles(reader, writer)]
    forward = [why for writer, reader in _pairs(new, old, {}) for why in _obstacles(reader, writer)]
    return Compatibility(backward, forward)


def _obstacles(reader: Column | None, writer: Column | None) -> Iterator[str]:
    """Why a reader's column cannot be read from that of a writer."""
    if reader is None:
        return
    name, has_default = reader["name"], reader.get("nullable") is not False
    if writer is None:
        if not has_default:
            yield f"{name}: the reader's column has no default, and the writer has no such column"
        return
    read, written = avro_type(reader), avro_type(writer)
    if read is not None and written is not None:
        why = reads(read, written)
    else:
        types = writer.get("type"), reader.get("type")
        is_same = read is written and types[0] == types[1]
        why = None if is_same else f"{types[0]} and {types[1]} are not both types that have a mapping"
    if why is not None:
        yield f"{name}: {why}"
    if not has_default and writer.get("nullable") is not False:
        yield f"{name}: the writer may have written NULL, which the reader does not allow"


def former_names(changed: Iterable[Difference]) -> dict[str, str]:
    """By the new name of each column that was renamed: its old one."""
    return {str(difference.new): str(difference.old) for difference in changed if difference.rule is Rule.RENAMED}


def side_by_side(
    old: Sequence[Column], new: Sequence[Column], changed: Sequence[Difference]
) -> Iterator[dict[str, Any]]:
    """Two versions column by column, in the new order, dropped columns last: ``place``, ``name`` and ``kind`` (type,
    size, NULL) before as ``old_…`` and after as ``new_…``, None without such a column, and ``differs``: the difference
    in words, empty without one."""
    former = former_names(changed)
    differs: dict[str | None, list[str]] = defaultdict(list)
    for difference in changed:
        differs[difference.column].append(difference.rule.heading.removeprefix("column "))
    _, _, moved = _order(old, new, former)
    keys = [_key(old, {}), _key(new, former)]
    ordinals = [{name: number for number, name in enumerate(_by_name(side), 1)} for side in (old, new)]
    for both in _pairs(old, new, former):
        names = [None if column is None else str(column["name"]) for column in both]
        places = [(key.index(names[0]) if names[0] in key else None) for key in keys]
        row: dict[str, Any] = {}
        for side, name, column, ordinal in zip(("old", "new"), names, both, ordinals, strict=True):
            kind = None if column is None else described(column)
            row |= {f"{side}_place": ordinal.get(name or ""), f"{side}_name": name, f"{side}_kind": kind}
        words = [*differs[names[1] or names[0]], *["place"] * (names[0] in moved)]
        words += ["key"] * (all(keys) and None not in names and places[0] != places[1])
        yield row | {"differs": ", ".join(words)}


# --- avro types -------------------------------------------------------------------------------------------------------

_AVRO: Final = {
    "int": "smallint int integer serial tinyint int1 int2 int4 int16 int32 uint1 uint2 uint8 uint16",
    "long": "bigint bigserial serial8 int8 int64 uint4 uint32 long",
    "float": "real smallfloat real4 float32 halffloat",
    "double": "float double real8 float64",
    "decimal": "decimal numeric money number decimal128 decimal256 uint64",
    "string": "char nchar varchar nvarchar lvarchar text string wstring clob nclob varchar2 nvarchar2 large_string "
    "xml json interval",
    "bytes": "blob byte bytes binary varbinary raw large_binary image",
    "boolean": "boolean bool bit",
    "date (int)": "date date32",
    "time-micros (long)": "time time64 time32",
    "timestamp-micros (long)": "datetime timestamp",
}
_TYPES: Final = {name: avro for avro, names in _AVRO.items() for name in names.split()} | {"double precision": "double"}
_SHAPE: Final = re.compile(r"^(?:\d+ )?([a-z][a-z0-9_]*(?: precision)?)\s*(.*)$")
_DECIMAL: Final = re.compile(r"decimal\((\?|\d+),(\?|-?\d+)\)")


def avro_type(column: Mapping[str, Any]) -> str | None:
    """The Avro type of a column of :data:`cdcwb.model.COLUMN`: a primitive type, a logical one with its primitive type,
    or ``decimal(precision,scale)``, with ``?`` for what the source does not give. None if its type is unknown or
    missing."""
    match = _SHAPE.match(str(column.get("type") or "").strip().lower())
    if match is None:
        return None
    name, rest = match[1], match[2]
    if name == "datetime" and rest and "year to" not in rest:
        return "string"  # a part of a time, such as hour to second
    if _TYPES.get(name) == "decimal":
        digits = ("?" if column.get(size) is None else str(column[size]) for size in ("precision", "scale"))
        return f"decimal({','.join(digits)})"
    return _TYPES.get(name)


_PROMOTED: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def reads(reader: str, writer: str) -> str | None:
    """Why a reader of one type cannot read data written with another, by Avro's rules; None if it can."""
    if reader == writer or reader in _PROMOTED.get(writer, ()):
        return None
    why, both = f"{writer} cannot be read as {reader}", [_DECIMAL.fullmatch(kind) for kind in (reader, writer)]
    if both[0] is None or both[1] is None:
        return why
    unequal = [name for n, name in enumerate(("precision", "scale"), 1) if both[0][n] != both[1][n]]
    return f"{why}: {' and '.join(unequal)} of decimals have to be the same"


def holds(new: str, old: str) -> str | None:
    """Why the new type does not hold every value of the old one; None if it does. Unlike for a reader of Avro, a
    decimal may get more digits before and after the point."""
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or after is None:
        return reads(new, old)
    if "?" in (before[1], after[1]):
        return None if old == new else f"{old} may not fit {new}"
    scales = [0 if kind[2] == "?" else int(kind[2]) for kind in (before, after)]
    fits = int(after[1]) - scales[1] >= int(before[1]) - scales[0] and scales[1] >= scales[0]
    return None if fits else f"{new} has fewer digits than {old}, before or after the decimal point"
