"""The changes, transactions and problems of an index that are selected."""

from __future__ import annotations

import datetime as dt
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.index.changes import Changes
from cdcwb.index.columns import Bools, Ints, Texts
from cdcwb.index.selection import Selection
from cdcwb.times import micros

__all__ = ["TIME", "Selected"]

_KEPT: Final = 24  # fields and values whose masks are cached
TIME: Final = ("time_from", "time_to", "without_time")

_OWN: Final = {"outcomes": "outcome", "users": "user", "transactions": "transaction_id"}
"""The fields that are columns of transactions, too."""

_FACETS: Final = {"tables": "table", "operations": "operation", "outcomes": "outcome"}


class Selected:
    """The selected changes, transactions and problems. After a step of the selection only changed fields are evaluated
    again."""

    def __init__(self, changes: Changes, selection: Selection) -> None:
        self.changes = changes
        self.selection = selection
        self._fits: OrderedDict[Any, Bools] = OrderedDict()

    def mask(self, skip: Iterable[str] = ()) -> Bools:
        """The mask of selected changes; the fields ``skip`` are ignored."""
        chosen = self.selection.chosen(skip)
        time = (chosen.pop("time_from", None), chosen.pop("time_to", None), chosen.pop("without_time", False))
        masks = [self._remembered(name, value) for name, value in chosen.items()]
        if time[0] is not None or time[1] is not None:
            masks.append(self._remembered("time", time))
        return reduce(and_, masks) if masks else np.ones(len(self.changes), np.bool_)

    def transactions(self, skip: Iterable[str] = ()) -> Ints:
        """The transactions that are open at a selected time and have a change that fits the other fields; the fields
        ``skip`` are ignored. If only times, outcomes, users and transactions are selected, transactions without changes
        are included."""
        transactions = self.changes.transactions
        chosen = self.selection.chosen(skip)
        fits = self._in_range(chosen)
        if others := chosen.keys() - {*TIME}:
            numbers = self.changes.transaction[self.mask([*skip, *TIME])]
            has_change = np.bincount(numbers[numbers >= 0], minlength=len(transactions)) > 0
            fits &= has_change | self._fit_themselves(chosen) if others <= {*_OWN} else has_change
        return np.flatnonzero(fits)

    def _fit_themselves(self, chosen: dict[str, Any]) -> Bools:
        """Whether the fields that are those of a transaction itself fit each, also one without changes."""
        transactions = self.changes.transactions
        fits = np.ones(len(transactions), np.bool_)
        for name, column in _OWN.items():
            if name in chosen and column in transactions.codes:
                fits &= transactions.are(column, *chosen[name])
            elif name in chosen:
                ids = pa.array(chosen[name], pa.string())
                fits &= np.asarray(pc.is_in(transactions.rows[column].cast(pa.string()), ids))
        return fits

    def _in_range(self, chosen: dict[str, Any]) -> Bools:
        """Whether each transaction is open at a selected time."""
        transactions = self.changes.transactions
        first, end = chosen.get("time_from"), chosen.get("time_to")
        if first is None and end is None:
            return np.ones(len(transactions), np.bool_)
        limits = np.iinfo(np.int64)
        fits = transactions.open_in(
            limits.min if first is None else micros(first), limits.max if end is None else micros(end)
        )
        return fits | ~transactions.has_time if chosen.get("without_time") else fits

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """The values of a field, and the number of selected changes with each, most first; the selection of the field
        itself is ignored. Fields: tables, operations, outcomes, users, columns."""
        changes, users = self.changes, self.changes.transactions.texts["user"]
        fields = {name: (changes.codes[column], changes.texts[column]) for name, column in _FACETS.items()}
        counts_of = {}
        for name, (codes, texts) in (fields | {"users": (changes.users, users)}).items():
            mask = self.mask([name]) & (codes >= 0)
            numbers = np.bincount(codes[mask], minlength=len(texts)).tolist()
            counts_of[name] = sorted(zip(texts, numbers, strict=True), key=lambda item: (-item[1], item[0]))
        mask = self.mask(["columns"]) & (changes.set >= 0)
        times = np.bincount(changes.set[mask], minlength=len(changes.sets))
        columns: Counter[str] = Counter()
        for code in np.flatnonzero(times).tolist():
            for name in changes.sets[code]:
                columns[name] += int(times[code])
        counts_of["columns"] = sorted(columns.items(), key=lambda item: (-item[1], item[0]))
        return counts_of

    def problems(self) -> list[dict[str, Any]]:
        """The problems of selected transactions and records; if everything is selected, all problems. A record is
        selected if it is that of a selected change, or has a selected time and table. Rows of the index: row, severity,
        code, sentence …"""
        index, changes = self.changes.record_index, self.changes
        rows: list[dict[str, Any]] = index.problem_list
        if not self.selection.chosen():
            return rows
        mask = self.mask()
        ids = changes.transactions.rows["transaction_id"].take(pa.array(self.transactions())).to_pylist()
        known = set(ids)
        records = changes.record[mask]
        at = np.searchsorted(records, [p["row"] for p in rows])
        present = [int(i) < len(records) and records[i] == p["row"] for i, p in zip(at, rows, strict=True)]
        return [
            p
            for p, is_there in zip(rows, present, strict=True)
            if is_there or (p["transaction_id"] in known and self._is_of_tables(p)) or self._fits_itself(p)
        ]

    def _is_of_tables(self, problem: dict[str, Any]) -> bool:
        """Whether a problem is about a selected table, or about none."""
        table, tables = problem["table"], self.selection.tables
        return table is None or not tables or table in tables or any(table.endswith(f".{name}") for name in tables)

    def _fits_itself(self, problem: dict[str, Any]) -> bool:
        """Whether a problem is about a selected table and a record with a selected time."""
        chosen = self.selection.chosen()
        if not chosen.keys() <= {*TIME, "tables"}:  # the others are those of changes
            return False
        if "tables" in chosen and (problem["table"] is None or not self._is_of_tables(problem)):
            return False
        first, last = chosen.get("time_from"), chosen.get("time_to")
        if not (first or last):
            return True
        time = None if problem["row"] < 0 else self.changes.record_index.row(problem["row"], ["time"])["time"]
        return time is not None and (first is None or time >= first) and (last is None or time < last)

    def _remembered(self, name: str, value: Any) -> Bools:
        if (name, value) not in self._fits:
            self._fits[name, value] = self._fit(name, value)
            while len(self._fits) > _KEPT:
                self._fits.popitem(last=False)
        self._fits.move_to_end((name, value))
        return self._fits[name, value]

    def _fit(self, name: str, value: Any) -> Bools:
        changes = self.changes
        if name == "time":
            return self._in_time(*value)
        if name == "tables":
            names = changes.texts["table"]
            chosen = [text in value or text.partition(".")[2] in value for text in names]
            return _of_codes(changes.codes["table"], chosen)
        if name in ("operations", "outcomes"):
            field = name[:-1]
            return _of_codes(changes.codes[field], [text in value for text in changes.texts[field]])
        if name == "users":
            return _of_codes(changes.users, [text in value for text in changes.transactions.texts["user"]])
        if name == "columns":
            return _of_codes(changes.set, [not set(value).isdisjoint(members) for members in changes.sets])
        if name == "transactions":
            ids = changes.transactions.rows["transaction_id"]
            return _of_codes(changes.transaction, pc.is_in(ids, pa.array(value, ids.type)).to_pylist())
        if name == "text":
            return self._with_text(value)
        positions = changes.record_index.columns.get("position")
        if positions is None:
            return np.zeros(len(changes), np.bool_)
        return self._of_records(positions.compare(">=" if name == "position_from" else "<=", value))

    def _of_records(self, records: Bools) -> Bools:
        """Whether the record of each change is among some records; a change without a record never is."""
        mask: Bools = np.append(records, False)[self.changes.record]  # -1 selects the last
        return mask

    def _in_time(self, first: dt.datetime | None, last: dt.datetime | None, without_time: bool) -> Bools:
        at = self.changes.at
        fits = np.ones(len(at), np.bool_) if last is None else at < micros(last)
        if first is not None:
            fits &= at >= micros(first)
        return fits | ~self.changes.timed if without_time else fits & self.changes.timed

    def _with_text(self, text: str) -> Bools:
        changes, low = self.changes, text.lower()
        mask = _of_codes(changes.codes["table"], [low in table.lower() for table in changes.texts["table"]])
        mask |= _of_codes(changes.users, [low in user.lower() for user in changes.transactions.texts["user"]])
        mask |= _of_codes(changes.set, [any(low in name.lower() for name in names) for names in changes.sets])
        ids = changes.transactions.rows["transaction_id"]
        mask |= _of_codes(changes.transaction, pc.match_substring(ids, low, ignore_case=True).to_pylist())
        positions = changes.record_index.columns.get("position")
        if isinstance(positions, Texts):
            matches = pc.match_substring(positions.values, low, ignore_case=True).fill_null(False)
            mask |= self._of_records(matches.to_numpy(zero_copy_only=False))
        return mask


def _of_codes(codes: npt.NDArray[Any], chosen: list[bool]) -> Bools:
    """The rows whose code is selected; -1 never is."""
    table = np.array([*chosen, False], np.bool_)
    return np.asarray(table[codes])
