"""The changes, transactions and problems of an index that are selected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property, lru_cache, reduce
from operator import and_, or_
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.filtering import COMPARED
from cdcwb.filters import SHORT, as_flags, compared
from cdcwb.index.changes import Changes
from cdcwb.index.columns import NO_TIME, Bools, Codes, Column, Ints, Texts
from cdcwb.index.selection import Selection
from cdcwb.times import micros

_KEPT: Final = 24  # fields and values whose masks are cached
_LEAST, _MOST = np.iinfo(np.int64).min + 1, np.iinfo(np.int64).max
TIME: Final = ("time_from", "time_to", "without_time")

_OF_TRANSACTIONS: Final = {"outcomes", "users", "transactions"}
"""The fields that transactions themselves have, too."""

_FACETS: Final = {name: COMPARED[name][0] for name in ("tables", "operations", "outcomes", "users", "columns")}
_SEARCHED: Final = ("table", "user", "changed_columns", "transaction", "position")


class Selected:
    """The selected changes, transactions and problems. After a step of the selection only changed fields are evaluated
    again."""

    def __init__(self, changes: Changes, selection: Selection) -> None:
        self.changes = changes
        self.selection = selection
        self._remembered = lru_cache(maxsize=_KEPT)(self._fit)

    def by(self, chosen: Mapping[str, Any]) -> Selected:
        """What a selection of these fields selects."""
        other = copy(self)
        other.selection = Selection(**chosen)
        return other

    @cached_property
    def _columns(self) -> dict[str, Codes]:
        """The columns of changes that filters compare."""
        changes, transactions = self.changes, self.changes.transactions
        texts = {name: pa.array(changes.texts[name], pa.string()) for name in ("table", "operation", "outcome")}
        return {
            **{name: Codes(changes.codes[name], known, SHORT.get(name)) for name, known in texts.items()},
            "user": Codes(changes.users, pa.array(transactions.texts["user"], pa.string())),
            "changed_columns": Codes(changes.set, pa.array(changes.sets, pa.list_(pa.string()))),
            "transaction": Codes(changes.transaction, transactions.rows["transaction_id"]),
        }

    @cached_property
    def _of_transactions(self) -> dict[str, Column]:
        transactions = self.changes.transactions
        return {
            **{name: Codes(codes, pa.array(transactions.texts[name])) for name, codes in transactions.codes.items()},
            "transaction": Texts(transactions.rows["transaction_id"]),
        }

    def mask(self, skip: Iterable[str] = ()) -> Bools:
        """The mask of selected changes; the fields ``skip`` are ignored."""
        chosen = self.selection.chosen(skip)
        time = (chosen.pop("time_from", None), chosen.pop("time_to", None), chosen.pop("without_time", False))
        masks = [self._remembered(name, value) for name, value in chosen.items()]
        if time[0] is not None or time[1] is not None:
            masks.append(self._remembered("time", time))
        return reduce(and_, masks) if masks else np.ones(len(self.changes), np.bool_)

    def transactions(self) -> Ints:
        """The transactions that are open at a selected time and have a change that fits the other fields. If only
        times, outcomes, users and transactions are selected, transactions without changes are included."""
        transactions = self.changes.transactions
        chosen = self.selection.chosen()
        first, end = _range(chosen)
        fits = np.ones(len(transactions), np.bool_)
        if (first, end) != (_LEAST, _MOST):
            without_time = ~transactions.has_time if chosen.get("without_time") else False
            fits = transactions.open_in(first, end) | without_time
        if others := chosen.keys() - {*TIME}:
            numbers = self.changes.transaction[self.mask(TIME)]
            has_change = np.bincount(numbers[numbers >= 0], minlength=len(transactions)) > 0
            fits &= has_change | self._fit_themselves(chosen) if others <= _OF_TRANSACTIONS else has_change
        return np.flatnonzero(fits)

    def _fit_themselves(self, chosen: Mapping[str, Any]) -> Bools:
        """Whether the fields that are those of a transaction itself fit each, also one without changes."""
        fits = np.ones(len(self.changes.transactions), np.bool_)
        for name in _OF_TRANSACTIONS & chosen.keys():
            column, sign = COMPARED[name]
            fits &= self._of_transactions[column].compare(sign, chosen[name])
        return fits

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """The values of a field, and the number of selected changes with each, most first; the selection of the field
        itself is ignored. Fields: tables, operations, outcomes, users, columns."""
        numbers, columns = self._combinations
        chosen, counts_of = self.selection.chosen(), {}
        times = np.bincount(numbers[self.mask(_FACETS)], minlength=len(columns["table"].codes))
        fits = {name: columns[of].compare("in", chosen[name]) for name, of in _FACETS.items() if name in chosen}
        for name, column in _FACETS.items():
            codes, texts = columns[column].codes, columns[column].texts.to_pylist()
            mask = reduce(and_, (one for field, one in fits.items() if field != name), codes >= 0)
            totals = np.bincount(codes[mask], times[mask], minlength=len(texts)).astype(np.int64).tolist()
            if name == "columns":
                counts: Counter[str] = Counter()
                for names, total in zip(texts, totals, strict=True):
                    counts.update(dict.fromkeys(names, total) if total else {})
                texts, totals = list(counts), list(counts.values())
            counts_of[name] = sorted(zip(texts, totals, strict=True), key=lambda item: (-item[1], item[0]))
        return counts_of

    @cached_property
    def _combinations(self) -> tuple[Ints, dict[str, Codes]]:
        """The number of the combination of values that each change has in the fields of :meth:`facets`, and the
        columns of the combinations."""
        numbers = np.zeros(len(self.changes), np.int64)
        columns = [self._columns[name] for name in _FACETS.values()]
        for column in columns:
            numbers = _numbered(numbers * (len(column.texts) + 1) + column.codes + 1)
        rows = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        rows[numbers] = np.arange(len(numbers))  # one of each combination
        of_rows = [Codes(column.codes[rows], column.texts, column.short) for column in columns]
        return numbers, dict(zip(_FACETS.values(), of_rows, strict=True))

    def problems(self) -> list[dict[str, Any]]:
        """The problems of selected transactions and records; if everything is selected, all problems. A record is
        selected if it is that of a selected change, or has a selected time and table. Rows of the index: row, severity,
        code, sentence …"""
        records, chosen = self.changes.record_index, self.selection.chosen()
        rows: list[dict[str, Any]] = records.problem_list
        if not chosen or not rows:
            return rows
        row = np.array([problem["row"] for problem in rows])
        ids, tables = (pa.array([p[name] for p in rows], pa.string()) for name in ("transaction_id", "table"))
        of_changes = np.append(self.changes.record[self.mask()], _MOST)
        fits = of_changes[np.searchsorted(of_changes, row)] == row
        is_named = compared(tables, "in", chosen["tables"], SHORT["table"]) if "tables" in chosen else True
        known = self.changes.transactions.rows["transaction_id"].take(pa.array(self.transactions()))
        fits |= as_flags(pc.is_in(ids, known)) & (is_named | as_flags(tables.is_null()))
        if chosen.keys() <= {*TIME, "tables"}:  # the others are those of changes
            first, end = _range(chosen)
            at = np.append(records.columns["time"].values, NO_TIME)[row]  # type: ignore[attr-defined]
            fits |= is_named & ((at >= first) & (at < end) if (first, end) != (_LEAST, _MOST) else True)
        return [problem for problem, is_selected in zip(rows, fits.tolist(), strict=True) if is_selected]

    def _fit(self, name: str, value: Any) -> Bools:
        """Whether a field with a value fits each change."""
        if name == "time":
            first, end = _range({"time_from": value[0], "time_to": value[1]})
            at, timed = self.changes.at, self.changes.timed
            fits = at < end if first == _LEAST else at >= first if end == _MOST else (at >= first) & (at < end)
            return fits | ~timed if value[2] else fits & timed
        if name == "text":
            pattern = f"(?i){re.escape(value)}"
            return reduce(or_, (self._compared(column, "matches", pattern) for column in _SEARCHED))
        return self._compared(*COMPARED[name], value)

    def _compared(self, column: str, sign: str, value: Any) -> Bools:
        """Whether a comparison with a column holds for each change. The position is that of its record; a change
        without a record has none."""
        if column != "position":
            return self._columns[column].compare(sign, value)
        positions = self.changes.record_index.columns.get(column)
        if not isinstance(positions, Texts):
            return np.zeros(len(self.changes), np.bool_)
        return np.append(positions.compare(sign, value), False)[self.changes.record]  # -1 selects the last


def _numbered(values: Ints) -> Ints:
    """Equal numbers from 0 for equal values."""
    return np.asarray(pa.array(values).dictionary_encode().indices).astype(np.int64)


def _range(chosen: Mapping[str, Any]) -> tuple[int, int]:
    """The selected times, from the first until before the second, in microseconds since 1970 UTC."""
    first, end = chosen.get("time_from"), chosen.get("time_to")
    return _LEAST if first is None else micros(first), _MOST if end is None else micros(end)
