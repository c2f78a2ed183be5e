"""What differs between two versions of a table, and whether a reader of one can read rows of the other.

Nothing here asks Spark: versions are rows of :data:`cdcwb.model.TABLE_VERSIONS`. What only the rows tell (that a column
goes on under another name) is handed in as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cdcwb.analysis.avro_types import avro_type, reads
from cdcwb.model import Severity
from cdcwb.words import joined

__all__ = ["Compatibility", "Difference", "Rule", "candidates", "compatibility", "differences"]

Column = Mapping[str, Any]
Continues = Callable[[str, str], str | None]
"""Of an old and a new column's name: why the second goes on where the first ends, in a sentence; None where it does
not."""


class Rule(StrEnum):
    """What can differ between two versions."""

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
    """One difference: ``column`` is the new name, or the old one of a column that is gone; None where it is about all.
    ``old`` and ``new`` are in words, None where there is nothing. ``evidence`` says why it is taken for what it is."""

    rule: Rule
    severity: Severity
    column: str | None
    old: str | None
    new: str | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Why a reader cannot read, by Avro's rules: ``backward``, one of the new version rows of the old; ``forward``, one
    of the old version rows of the new. Empty where it can."""

    backward: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """full, backward, forward or none."""
        if not self.backward:
            return "backward" if self.forward else "full"
        return "none" if self.forward else "forward"


_SIZES: Final = ("length", "precision", "scale")


def candidates(old: Sequence[Column], new: Sequence[Column]) -> list[tuple[str, str]]:
    """Pairs of a column that is gone and one that is new which may be one column under two names: at the same place
    among the columns that stay, and of the same type."""
    gone, come = _apart(old, new)
    kept = {column["name"] for column in old} & {column["name"] for column in new}
    places = {name: _neighbours(old, name, kept) for name in gone}
    return [
        (name, other)
        for name in gone
        for other in come
        if places[name] == _neighbours(new, other, kept) and _type_of(gone[name]) == _type_of(come[other])
    ]


def differences(old: Sequence[Column], new: Sequence[Column], continues: Continues | None = None) -> list[Difference]:
    """What differs, the columns in their new order, then what is gone, then what concerns the table."""
    gone, come = _apart(old, new)
    renamed: dict[str, tuple[str, str]] = {}
    for name, other in candidates(old, new):
        why = continues(name, other) if continues is not None else None
        if why is not None and other not in renamed and name not in {one for one, _ in renamed.values()}:
            renamed[other] = (name, why)
    former = {other: name for other, (name, _) in renamed.items()}
    by_name = {column["name"]: column for column in old}
    found: list[Difference] = []
    for column in new:
        name = column["name"]
        if name in renamed:
            before, why = renamed[name]
            found.append(Difference(Rule.RENAMED, Severity.WARNING, name, before, name, why))
        elif name in come:
            nullable = column.get("nullable")
            severity = Severity.WARNING if nullable is False else Severity.INFO
            found.append(Difference(Rule.ADDED, severity, name, None, _described(column), "not among the old columns"))
            continue
        found += _changed(by_name[former.get(name, name)], column)
    for name, column in gone.items():
        if name not in former.values():
            why = "not among the new columns"
            found.append(Difference(Rule.DROPPED, Severity.WARNING, name, _described(column), None, why))
    return found + _of_table(old, new, former)


def _apart(old: Sequence[Column], new: Sequence[Column]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns that are gone, and those that are new, by name."""
    before, after = {one["name"]: one for one in old}, {one["name"]: one for one in new}
    return {n: c for n, c in before.items() if n not in after}, {n: c for n, c in after.items() if n not in before}


def _neighbours(columns: Sequence[Column], name: str, kept: set[str]) -> tuple[str | None, str | None]:
    """The columns on either side that are in both versions."""
    names = [column["name"] for column in columns]
    at = names.index(name)
    before = next((one for one in reversed(names[:at]) if one in kept), None)
    return before, next((one for one in names[at + 1 :] if one in kept), None)


def _type_of(column: Column) -> tuple[Any, ...]:
    return (column.get("type"), *(column.get(size) for size in _SIZES))


def _described(column: Column) -> str:
    text = str(column.get("type") or "type not known")
    if "(" not in text:
        sizes = [column.get(name) for name in ("precision", "scale")]
        if sizes[0] is not None:
            text += f"({', '.join(str(one) for one in sizes if one is not None)})"
        elif column.get("length") is not None:
            text += f", {column['length']} bytes"
    return text if column.get("nullable") is not False else f"{text}, not null"


def _changed(old: Column, new: Column) -> list[Difference]:
    """What differs between a column and itself."""
    name, found = new["name"], []
    if old.get("type") != new.get("type") and (old.get("type") is None) == (new.get("type") is None):
        before, after = avro_type(old), avro_type(new)
        why = reads(after, before) if before is not None and after is not None else None
        same_kind = before is not None and after is not None and why is None
        severity = Severity.INFO if same_kind else Severity.ERROR
        evidence = why or ("every old value is one of the new type" if same_kind else "a type that has no mapping")
        found.append(Difference(Rule.RETYPED, severity, name, _described(old), _described(new), evidence))
    elif any(_differ(old.get(size), new.get(size)) for size in _SIZES):
        narrower = [
            size
            for size in _SIZES
            if _differ(old.get(size), new.get(size)) and (new[size] < old[size] or size == "scale")
        ]
        severity = Severity.WARNING if narrower else Severity.INFO
        evidence = f"{joined(narrower)} no longer the same" if narrower else "wider than before"
        found.append(Difference(Rule.RESIZED, severity, name, _described(old), _described(new), evidence))
    if _differ(old.get("nullable"), new.get("nullable")):
        severity = Severity.INFO if new["nullable"] else Severity.WARNING
        words = {True: "may be NULL", False: "never NULL"}
        found.append(
            Difference(
                *(Rule.NULLABILITY, severity, name, words[old["nullable"]], words[new["nullable"]]),
                "as the two versions say",
            )
        )
    return found


def _differ(old: Any, new: Any) -> bool:
    """Do both say something, and not the same?"""
    return old is not None and new is not None and old != new


def _of_table(old: Sequence[Column], new: Sequence[Column], former: Mapping[str, str]) -> list[Difference]:
    found = []
    after = [former.get(column["name"], column["name"]) for column in new]
    before = [column["name"] for column in old]
    stay = [name for name in before if name in set(after)]
    now = [name for name in after if name in set(before)]
    if stay != now:
        moved = [name for name, other in zip(stay, now, strict=True) if name != other]
        old_text, new_text = ", ".join(stay), ", ".join(now)
        why = f"other places: {joined(moved[:8])}"
        found.append(Difference(Rule.REORDERED, Severity.WARNING, None, old_text, new_text, why))
    old_key, new_key = _key(old, {}), _key(new, former)
    if old_key != new_key and old_key and new_key:
        texts = "+".join(old_key), "+".join(new_key)
        found.append(Difference(Rule.KEY, Severity.ERROR, None, *texts, "as the two versions say"))
    return found


def _key(columns: Sequence[Column], former: Mapping[str, str]) -> list[str]:
    keyed = sorted((c["key_position"], former.get(c["name"], c["name"])) for c in columns if c.get("key_position"))
    return [name for _, name in keyed]


def compatibility(
    old: Sequence[Column], new: Sequence[Column], former: Mapping[str, str] | None = None
) -> Compatibility:
    """Whether Avro would let a reader of one version read rows of the other.

    A column that may be NULL, or of which nothing says so, is a union with null whose default is null; another has no
    default. ``former`` maps new names to old ones that the reader knows as aliases; a renamed column without an alias
    is one that is gone and one that is new.
    """
    aliases = dict(former or {})
    before: dict[str, Column] = {column["name"]: column for column in old}
    after: dict[str, Column] = {aliases.get(str(one["name"]), str(one["name"])): one for one in new}
    return Compatibility(_obstacles(after, before), _obstacles(before, after))


def _obstacles(reader: Mapping[str, Column], writer: Mapping[str, Column]) -> list[str]:
    found = []
    for name, column in reader.items():
        label = column["name"]
        if name not in writer:
            if column.get("nullable") is False:
                found.append(f"{label}: the reader's column has no default, and the writer has no such column")
            continue
        mine, theirs = avro_type(column), avro_type(writer[name])
        why = reads(mine, theirs) if mine is not None and theirs is not None else None
        if (mine is None) != (theirs is None) or (mine is None and column.get("type") != writer[name].get("type")):
            why = f"{writer[name].get('type')} and {column.get('type')} are not both types that have a mapping"
        if why is not None:
            found.append(f"{label}: {why}")
        if column.get("nullable") is False and writer[name].get("nullable") is not False:
            found.append(f"{label}: the writer may have written NULL, which the reader has no place for")
    return found
