"""Which transaction a record belongs to (docs/formats/gbase8s.md §6.2).

Transactions interleave, and their ids are used again. A transaction is named by its id and the position of its begin,
``39@0000000B01746018``; without a begin by the position of its first record, ``39@~0000000B01746050``. What is open at
the end of one run of records is handed to the next as a dictionary of id -> name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["TransactionSummary", "assign", "fold", "summarize"]

Ints = npt.NDArray[np.int64]

_BEGIN: Final = 1
_COMMIT: Final = 2
_ROLLBACK: Final = 3


@dataclass(slots=True)
class TransactionSummary:
    """What a run of records does to the open transactions, without knowing which were open before it.

    ``ended``: ids that are closed after it. ``opened``: id -> name of those it leaves open and whose begin (or first
    record after an end) it holds. ``touched``: id -> position of the first record, for those it leaves open and whose
    first record here is no begin: they belong to what was open before, or start there.
    """

    ended: list[int] = field(default_factory=list)
    opened: dict[int, str] = field(default_factory=dict)
    touched: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Groups:
    """Records sorted by id, cut into transactions; all arrays run over the groups but ``order`` and ``group_of``."""

    order: Ints  # places of the records, sorted by (id, place)
    group_of: Ints  # group of each sorted record
    first: Ints  # place of the first record
    number: Ints  # id
    begins: npt.NDArray[np.bool_]  # the first record is a BEGINTX
    leads: npt.NDArray[np.bool_]  # is the first group of its id
    ends: npt.NDArray[np.bool_]  # the last record is a COMMTX or RBTX
    trails: npt.NDArray[np.bool_]  # is the last group of its id


def _groups(types: Ints, numbers: Ints) -> _Groups:
    count = len(types)
    both = np.sort(numbers << 32 | np.arange(count))  # several times as fast as a stable argsort of the ids
    order, number = both & 0xFFFFFFFF, both >> 32
    kind = types[order]
    is_end = (kind == _COMMIT) | (kind == _ROLLBACK)
    new_id = np.ones(count, dtype=bool)
    new_id[1:] = number[1:] != number[:-1]
    starts = new_id | (kind == _BEGIN)
    starts[1:] |= is_end[:-1]
    at = np.flatnonzero(starts)
    last = np.append(at[1:], count) - 1
    trails = np.ones(len(at), dtype=bool)
    trails[:-1] = new_id[at[1:]]
    return _Groups(
        order, np.cumsum(starts) - 1, order[at], number[at], kind[at] == _BEGIN, new_id[at], is_end[last], trails
    )


def assign(
    types: Ints, numbers: Ints, positions: npt.NDArray[np.uint64], open_before: dict[int, str]
) -> tuple[list[str], Ints]:
    """The transaction of each record: (names, index into them per record). ``open_before`` is brought up to date.

    ``types`` are record numbers, ``numbers`` transaction ids, ``positions`` sequence numbers; all in capture order and
    only for records that belong to a transaction.
    """
    if len(types) == 0:
        return [], np.empty(0, dtype=np.int64)
    groups = _groups(types, numbers)
    numbers_of = groups.number.tolist()
    marks = np.where(groups.begins, "@", "@~").tolist()
    names = [
        f"{number}{mark}{position:016X}"
        for number, mark, position in zip(numbers_of, marks, positions[groups.first].tolist(), strict=True)
    ]
    for group in np.flatnonzero(groups.leads & ~groups.begins).tolist():
        names[group] = open_before.get(numbers_of[group], names[group])
    for group in np.flatnonzero(groups.trails).tolist():
        if groups.ends[group]:
            open_before.pop(numbers_of[group], None)
        else:
            open_before[numbers_of[group]] = names[group]
    index = np.empty(len(types), dtype=np.int64)
    index[groups.order] = groups.group_of
    return names, index


def summarize(types: Ints, numbers: Ints, positions: npt.NDArray[np.uint64]) -> TransactionSummary:
    """What these records do to the open transactions; arguments as in :func:`assign`."""
    summary = TransactionSummary()
    if len(types) == 0:
        return summary
    groups = _groups(types, numbers)
    for group in np.flatnonzero(groups.trails):
        number = int(groups.number[group])
        position = f"{int(positions[groups.first[group]]):016X}"
        if groups.ends[group]:
            summary.ended.append(number)
        elif groups.begins[group]:
            summary.opened[number] = f"{number}@{position}"
        elif groups.leads[group]:
            summary.touched[number] = position
        else:
            summary.opened[number] = f"{number}@~{position}"
    return summary


def fold(open_before: dict[int, str], summary: TransactionSummary) -> dict[int, str]:
    """What is open after a run of records, given what was open before it and the run's summary."""
    after = dict(open_before)
    for number in summary.ended:
        after.pop(number, None)
    after.update(summary.opened)
    for number, position in summary.touched.items():
        after.setdefault(number, f"{number}@~{position}")
    return after


def merge(first: TransactionSummary, then: TransactionSummary) -> TransactionSummary:
    """The summary of two runs of records, one behind the other."""
    merged = TransactionSummary(list(first.ended), dict(first.opened), dict(first.touched))
    closed = set(merged.ended)
    for number in then.ended:
        merged.opened.pop(number, None)
        merged.touched.pop(number, None)
        closed.add(number)
    for number, name in then.opened.items():
        merged.touched.pop(number, None)
        closed.discard(number)
        merged.opened[number] = name
    for number, position in then.touched.items():
        if number in merged.opened or number in merged.touched:
            continue
        if number in closed:  # ended in the first run, so nothing that was open before goes on
            closed.discard(number)
            merged.opened[number] = f"{number}@~{position}"
        else:
            merged.touched[number] = position
    merged.ended = sorted(closed)
    return merged
