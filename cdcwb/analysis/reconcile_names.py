"""Names in two captures that are compared: are the rules about any, what cannot be compared, whose key is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from cdcwb.analysis.alike import Rules
from cdcwb.formats.options import nearest
from cdcwb.spark.known import KeyedBy, Known
from cdcwb.words import count, joined

INFER: Final = "let it be inferred from at least 20 inserted rows with --infer-keys (in Python infer_keys=True)"
"""What to do where no key is named."""

__all__ = ["INFER", "borrowed", "check_names", "told"]


def check_names(rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]) -> list[str]:
    """What is wrong with the names in ``rules``, given what two captures have: a sentence each."""
    wrong = []
    columns = [_column_names(side) for side in (source, target)]
    for side, names, tables, title in (
        ("source", list(rules.tables), source, "tables"),
        ("target", list(rules.tables.values()), target, "tables"),
    ):
        wrong += [_unknown(title, side, "table", name, list(tables)) for name in names if name not in tables]
    wrong += [
        _unknown("columns", "source", "column", name, columns[0]) for name in rules.columns if name not in columns[0]
    ]
    wrong += [
        _unknown("columns", "target", "column", name, columns[1])
        for name in rules.columns.values()
        if name not in columns[1]
    ]
    wrong += [_unknown("types", "source", "column", name, columns[0]) for name in rules.types if name not in columns[0]]
    mapped = {rules.table(name) for name in source}
    if source and target and not mapped & set(target) and not wrong:
        here, there = ", ".join(source), ", ".join(target)
        hint = nearest(min(mapped), list(target))
        wrong.append(f"rules, tables: the source has {here}, the target {there}, and none is in both.{hint}")
    return wrong


def _column_names(tables: Mapping[str, Known]) -> dict[str, None]:
    """The columns of all tables, each alone and behind its table's name."""
    plain = [name for one in tables.values() for name in one.columns]
    return dict.fromkeys([*plain, *(f"{one.table}.{name}" for one in tables.values() for name in one.columns)])


def _unknown(rule: str, side: str, what: str, name: str, known: Sequence[str] | Mapping[str, None]) -> str:
    there = list(known)
    more = f" There are: {', '.join(there)}." if len(there) <= 30 else ""
    return f"rules, {rule}: the {side} has no {what} {name!r}.{nearest(name, there)}{more}"


def told(rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]) -> list[str]:
    """What cannot be compared, a sentence each: tables and columns that one side has alone, keys that are unlike."""
    notes = []
    for name, one in source.items():
        other = target.get(rules.table(name))
        if other is None:
            notes.append(
                f"The target has no change of {name}; its changes with a key in the source: {count(one.keyed)}."
            )
            continue
        if not one.keyed and not other.keyed:
            notes.append(
                f"{name}: neither capture has a key, so no change is compared. Name it with the reader option "
                f"keys={name}:column+column, or {INFER}."
            )
        mapped = [tuple(sorted(rules.column(name, column).casefold() for column in key)) for key in one.keys]
        theirs = [tuple(sorted(column.casefold() for column in key)) for key in other.keys]
        if mapped and theirs and not set(mapped) & set(theirs):
            keys = [joined(["+".join(key) for key in side.keys], "or") for side in (one, other)]
            notes.append(f"{name}: the source's key is {keys[0]}, the target's {keys[1]}, so no change can be matched.")
        lacking = [column for column in one.columns if rules.column(name, column) not in other.columns]
        if lacking:
            is_are = "is" if len(lacking) == 1 else "are"
            notes.append(f"{name}: {joined(lacking)} {is_are} in no change of the target and compared with nothing.")
    mapped_tables = {rules.table(name) for name in source}
    for name, one in target.items():
        if name not in mapped_tables:
            notes.append(
                f"The source has no change of {name}; its changes with a key in the target: {count(one.keyed)}."
            )
    return notes


def borrowed(
    rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]
) -> tuple[tuple[dict[str, Known], dict[str, Known]], tuple[dict[str, KeyedBy], dict[str, KeyedBy]], list[str]]:
    """A table that has no key on one side takes the other's, if there is one: both sides as they are then, the keys
    that were taken, and a sentence about each."""
    sides, keys, notes = (dict(source), dict(target)), (dict[str, KeyedBy](), dict[str, KeyedBy]()), list[str]()
    for name, one in source.items():
        other = target.get(rules.table(name))
        if other is None or bool(one.keyed) == bool(other.keyed):
            continue
        lender, borrower, side = (other, one, 0) if other.keyed else (one, other, 1)
        if len(lender.keys) != 1:
            continue
        if side == 0:
            theirs = {rules.column(name, column).casefold(): column for column in one.columns}
        else:
            theirs = {column.casefold(): column for column in other.columns}
        wanted = [column if side == 0 else rules.column(name, column) for column in lender.keys[0]]
        found = tuple(theirs[column.casefold()] for column in wanted if column.casefold() in theirs)
        if len(found) == len(wanted):
            keys[side][borrower.table] = found
            sides[side][borrower.table] = replace(borrower, keyed=borrower.changes, keys=(tuple(sorted(found)),))
            which = ("source", "target") if side == 0 else ("target", "source")
            notes.append(f"{name}: the {which[0]} names no key; the {which[1]}'s is taken: {joined(found)}.")
    return sides, keys, notes
