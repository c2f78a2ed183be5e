"""Questions about what is selected, answered from the local index in milliseconds: what :mod:`cdcwb.analysis.contents`,
``transactions``, ``concurrency`` and ``masks`` ask of Spark about all of a capture. Answers are small.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.analysis.transactions import bin_width
from cdcwb.index.changes import Changes, Transactions
from cdcwb.index.columns import NO_TIME, micros
from cdcwb.index.selected import TIME, Selected
from cdcwb.model import Operation
from cdcwb.time_axis import TimeAxis, fences

__all__ = [
    "Bins",
    "changed_columns",
    "changed_over_time",
    "facets",
    "longest",
    "open_at_once",
    "over_time",
    "sets_of",
    "tables",
    "time_of",
    "together",
    "transaction_overview",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000
_MOST_PAIRED: Final = 64
_FACETS: Final = {"tables": "table", "operations": "operation", "outcomes": "outcome"}

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Record = dict[str, Any]


def time_of(micros_: int) -> datetime:
    """The time that is so many microseconds after 1970."""
    return _EPOCH + int(micros_) * _MICROSECOND


def facets(selected: Selected) -> dict[str, list[tuple[str, int]]]:
    """The values that a field can have, and how many changes are selected with each when the field itself lets
    everything through; most first. Fields: tables, operations, outcomes, users, columns."""
    changes = selected.changes
    found = {}
    for name, column in _FACETS.items():
        found[name] = _counted(changes, changes.codes[column], changes.texts[column], selected.mask([name]))
    users = changes.transactions.texts["user"]
    found["users"] = _counted(changes, changes.users, users, selected.mask(["users"]))
    columns: Counter[str] = Counter()
    for code, number in _by_code(changes, changes.set, selected.mask(["columns"])).items():
        for name in changes.sets[code]:
            columns[name] += number
    found["columns"] = sorted(columns.items(), key=lambda one: (-one[1], one[0]))
    return found


def _tally(changes: Changes, codes: npt.NDArray[Any], mask: Bools, least: int = 0) -> Ints:
    """How many changes each code has, -1 aside."""
    times = changes.weights(mask)
    return np.bincount(codes[mask] + 1, weights=times, minlength=least + 1)[1:].astype(np.int64)


def _counted(changes: Changes, codes: npt.NDArray[Any], texts: list[str], mask: Bools) -> list[tuple[str, int]]:
    numbers = _tally(changes, codes, mask, len(texts))
    return sorted(zip(texts, numbers.tolist(), strict=True), key=lambda one: (-one[1], one[0]))


def _tallied(keys: Ints, times: Ints | None) -> tuple[Ints, Ints]:
    """The different numbers, and how often each occurs (``times`` for each): what ``np.unique`` gives, without sorting
    where they are near each other."""
    least, most = (int(keys.min()), int(keys.max())) if len(keys) else (0, 0)
    if most - least > 4 * len(keys) + 1000:
        found, places = np.unique(keys, return_inverse=True)
        return found, np.bincount(places, weights=times).astype(np.int64)
    numbers = np.bincount(keys - least, weights=times)
    there = np.flatnonzero(numbers)
    return there + least, numbers[there].astype(np.int64)


def _by_code(changes: Changes, codes: npt.NDArray[Any], mask: Bools) -> dict[int, int]:
    numbers = _tally(changes, codes, mask)
    return {int(code): int(numbers[code]) for code in np.flatnonzero(numbers)}


@dataclass(frozen=True, slots=True)
class Bins:
    """Changes by time: ``rows`` (``began_at``, ``operation``, ``changes``; only what is not zero), bins of
    ``width_us`` microseconds, and the ``axis``; ``without_time``: selected changes without a time, their own or their
    commit's."""

    rows: list[Record] = field(default_factory=list)
    width_us: int = 1
    axis: TimeAxis | None = None
    without_time: int = 0


def over_time(selected: Selected, bins: int = 120) -> Bins:
    """What was done when, whatever times are selected: the picture in which they are chosen."""
    changes, mask = selected.changes, selected.mask(TIME)
    timed = mask & changes.timed
    without = changes.number(mask & ~changes.timed)
    axis = _axis(changes.at[timed])
    if axis is None:
        return Bins(without_time=without)
    start = micros(axis.first)
    width = _width(changes, micros(axis.last) - start, bins)
    start -= start % (width if width < _DAY else changes.width_us or 1)
    number = (changes.at[timed] - start) // width
    texts = changes.texts["operation"]
    keys, counts = _tallied(
        number * (len(texts) + 1) + changes.codes["operation"][timed] + 1,
        changes.weights(timed),
    )
    rows = [
        {
            "began_at": time_of(start + int(key) // (len(texts) + 1) * width),
            "operation": [*texts, "not given"][int(key) % (len(texts) + 1) - 1],
            "changes": int(number),
        }
        for key, number in zip(keys, counts, strict=True)
    ]
    return Bins(rows, width, axis, without)


def _width(changes: Changes, span_us: int, bins: int) -> int:
    """A round width in microseconds for at most so many bins, which holds a whole number of those that are counted."""
    width = bin_width(span_us, bins, changes.width_us or 1)
    while changes.width_us and width % changes.width_us:
        width = bin_width(span_us, bins, width + 1)
    return width


def _axis(times: Ints) -> TimeAxis | None:
    """The axis for times, as :func:`cdcwb.time_axis.axis_of` for many of them."""
    if not len(times):
        return None
    rank = len(times) + 3
    places = [rank // 4 - 1, (3 * len(times) + 3) // 4 - 1]
    least, most = int(times.min()), int(times.max())
    found = None
    if most - least > 86_400_000_000:
        lower, upper = (int(one) for one in np.partition(times, places)[places])
        found = fences(lower, upper, least, most)
    low, high = found or (least, most)
    inside = times[(times >= low) & (times <= high)]
    return TimeAxis(time_of(inside.min()), time_of(inside.max()), int((times < low).sum()), int((times > high).sum()))


# --- transactions -----------------------------------------------------------------------------------------------------


def transaction_overview(transactions: Transactions, numbers: Ints) -> Record:
    """Figures of some transactions: ``transactions``, by outcome, ``unfinished``, ``longest_us`` and ``longest`` (its
    id; None where no duration is known), ``without_time``."""
    outcomes = transactions.texts["outcome"]
    counts = np.bincount(transactions.codes["outcome"][numbers] + 1, minlength=len(outcomes) + 1)[1:]
    lasted = transactions.lasted[numbers]
    first = int(numbers[int(lasted.argmax())]) if len(numbers) and lasted.max() != NO_TIME else None
    no_time = (transactions.began[numbers] == NO_TIME) & (transactions.ended[numbers] == NO_TIME)
    return {
        "transactions": len(numbers),
        **{f"transactions_{name}": int(number) for name, number in zip(outcomes, counts, strict=True)},
        "transactions_unfinished": int(transactions.is_unfinished[numbers].sum()),
        "transactions_without_time": int(no_time.sum()),
        "longest_us": None if first is None else int(transactions.lasted[first]),
        "longest": None if first is None else transactions.rows["transaction_id"][first].as_py(),
    }


def longest(
    transactions: Transactions, numbers: Ints, limit: int, window: tuple[datetime, datetime] | None = None
) -> Ints:
    """The ``limit`` longest of some transactions, longest first; those of no known duration come last, more bytes
    first. ``window``: only what reaches into it."""
    if window is not None:
        low, high = map(micros, window)
        began, ended = transactions.began[numbers], transactions.ended[numbers]
        start = np.where(began == NO_TIME, ended, began)
        is_open = transactions.is_open[numbers] & (ended == NO_TIME)
        end = np.where(is_open, high, np.where(ended == NO_TIME, start, ended))
        numbers = numbers[(start != NO_TIME) & (start <= high) & (end >= low)]
    lasted, size = transactions.lasted[numbers], transactions.bytes[numbers]
    if len(numbers) > 4 * limit:  # sorting millions for hundreds would be most of the time
        least = np.partition(lasted, len(lasted) - limit)[len(lasted) - limit]
        keep = lasted >= least
        numbers, lasted, size = numbers[keep], lasted[keep], size[keep]
    return numbers[np.lexsort((numbers, -size, -np.maximum(lasted, -(1 << 62))))][:limit]


def open_at_once(transactions: Transactions, numbers: Ints, points: int = 400) -> tuple[list[Record], int, Any, bool]:
    """How many transactions are open at once: steps (``at``, ``open``) in the order of time, the most, when it is
    reached first, and whether each step is one begin or end. One that begins and ends at the same time is open at no
    time; one whose begin is not known is left out, an open one is open until the capture ends."""
    began, lasted = transactions.began[numbers], transactions.lasted[numbers]
    known = lasted > 0
    begins, ends = began[known], began[known] + lasted[known]
    if not len(begins):
        return [], 0, None, True
    times, place = np.unique(np.concatenate([begins, ends]), return_inverse=True)
    steps = np.zeros(len(times), np.int64)
    np.add.at(steps, place[: len(begins)], 1)
    np.add.at(steps, place[len(begins) :], -1)
    level = np.cumsum(steps)
    most = int(level.max())
    at = time_of(times[int(level.argmax())])
    if len(times) <= points:
        rows = [{"at": time_of(time), "open": int(one)} for time, one in zip(times, level, strict=True)]
        return rows, most, at, True
    width = -(-(int(times[-1]) - int(times[0]) + 1) // points)
    edges = np.flatnonzero(np.diff((times - times[0]) // width, prepend=-1))
    tops = np.maximum.reduceat(level, edges)
    rows = [{"at": time_of(times[edge]), "open": int(top)} for edge, top in zip(edges, tops, strict=True)]
    return [*rows, {"at": time_of(times[-1]), "open": int(level[-1])}], most, at, False


# --- tables and columns -----------------------------------------------------------------------------------------------


def tables(changes: Changes, mask: Bools) -> list[Record]:
    """A row for each table with selected changes: ``table``, ``changes``, ``operations`` (pairs of operation and
    number), ``first_time``, ``last_time``, ``record`` (of its first change); most changed first."""
    texts, operations = changes.texts["table"], changes.texts["operation"]
    rows = []
    chosen = np.flatnonzero(mask)
    codes = changes.codes["table"][chosen]
    order = np.argsort(codes, kind="stable")
    for part in np.split(chosen[order], np.flatnonzero(np.diff(codes[order])) + 1) if len(chosen) else []:
        times = changes.at[part]
        known = times != NO_TIME
        mine = _mask_of(part, len(mask))
        done = _by_code(changes, changes.codes["operation"], mine)
        rows.append(
            {
                "table": texts[changes.codes["table"][part[0]]],
                "changes": changes.number(mine),
                "operations": [(operations[code], number) for code, number in done.items()],
                "first_time": time_of(times[known].min()) if known.any() else None,
                "last_time": time_of(changes.last_at[part][known].max()) if known.any() else None,
                "record": int(changes.record[part[0]]),
            }
        )
    return sorted(rows, key=lambda row: (-row["changes"], row["table"]))


def _mask_of(rows: Ints, size: int) -> Bools:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def updates(changes: Changes, mask: Bools) -> Bools:
    """The selected updates."""
    texts = changes.texts["operation"]
    if Operation.UPDATE not in texts:
        return np.zeros(len(mask), np.bool_)
    return mask & (changes.codes["operation"] == texts.index(Operation.UPDATE))


def sets_of(changes: Changes, mask: Bools) -> dict[str, dict[int, int]]:
    """How many selected updates of each table changed which set of columns: by table, the code of the set (-1: not
    known) and the number."""
    chosen = updates(changes, mask)
    size = len(changes.sets) + 1
    keys, counts = _tallied(
        changes.codes["table"][chosen].astype(np.int64) * size + changes.set[chosen] + 1,
        changes.weights(chosen),
    )
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for key, number in zip(keys.tolist(), counts.tolist(), strict=True):
        found[changes.texts["table"][key // size]][key % size - 1] = number
    return dict(sorted(found.items(), key=lambda one: (-sum(one[1].values()), one[0])))


def changed_columns(changes: Changes, mask: Bools) -> list[Record]:
    """A row for each column that a selected update changed: ``table``, ``column``, ``updates`` (of the table, of which
    it is known what changed), ``changed``, ``share`` (from 0 to 1); tables with most updates first, then most changed
    first."""
    rows = []
    for table, sets in sets_of(changes, mask).items():
        known = sum(number for code, number in sets.items() if code >= 0)
        changed: Counter[str] = Counter()
        for code, number in sets.items():
            for name in changes.sets[code] if code >= 0 else ():
                changed[name] += number
        for name, number in sorted(changed.items(), key=lambda one: (-one[1], one[0])):
            rows.append({"table": table, "column": name, "updates": known, "changed": number, "share": number / known})
    return rows


def first_of_sets(changes: Changes, mask: Bools) -> dict[str, dict[int, int]]:
    """The record of the first selected update of each table that changed a set of columns: by table and the code of the
    set, of the sets that are known."""
    rows = np.flatnonzero(updates(changes, mask) & (changes.set >= 0))[::-1]
    size = max(1, len(changes.sets))
    first = np.full(len(changes.texts["table"]) * size, -1, np.int64)
    first[changes.codes["table"][rows].astype(np.int64) * size + changes.set[rows]] = changes.record[rows]
    found: dict[str, dict[int, int]] = defaultdict(dict)  # the last to be written was the first update
    for key in np.flatnonzero(first >= 0).tolist():
        found[changes.texts["table"][key // size]][key % size] = int(first[key])
    return found


def changed_over_time(
    changes: Changes, mask: Bools, bins: int = 60
) -> tuple[dict[str, list[Record]], int, TimeAxis | None]:
    """How often each column was changed when, by table: ``column``, ``bin`` (0 begins at the first time of the axis),
    ``began_at``, ``changed``; the width of a bin in microseconds, and the axis. Tables with most updates first."""
    chosen = updates(changes, mask) & changes.timed & (changes.set >= 0)
    axis = _axis(changes.at[chosen])
    if axis is None:
        return {}, 1, None
    start = micros(axis.first)
    start -= start % (changes.width_us or 1)
    width = _width(changes, micros(axis.last) - start, bins)
    number = (changes.at[chosen] - start) // width
    size = len(changes.sets)
    group = changes.codes["table"][chosen].astype(np.int64) * size + changes.set[chosen]
    low = int(number.min())
    span = int(number.max()) - low + 1
    keys, counts = _tallied(group * span + number - low, changes.weights(chosen))
    cells: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for key, times in zip(keys.tolist(), counts.tolist(), strict=True):
        table, code = divmod(key // span, size)
        for name in changes.sets[code]:
            cells[changes.texts["table"][table]][name, key % span + low] += times
    ordered = [name for name in sets_of(changes, mask) if name in cells]
    return (
        {
            table: [
                {"column": name, "bin": at, "began_at": time_of(start + at * width), "changed": times}
                for (name, at), times in sorted(cells[table].items())
            ]
            for table in ordered
        },
        width,
        axis,
    )


def together(changes: Changes, mask: Bools, limit: int = 200) -> list[Record]:
    """Which columns change in the same update, as :func:`cdcwb.analysis.masks.together`."""
    rows: list[Record] = []
    for table, sets in sets_of(changes, mask).items():
        single: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for code, number in sets.items():
            names = sorted(set(changes.sets[code])) if code >= 0 else []
            for name in names:
                single[name] += number
            for pair in combinations(names[:_MOST_PAIRED], 2):
                pairs[pair] += number
        for (one, other), number in pairs.items():
            either = single[one] + single[other] - number
            rows.append(
                {
                    "table": table,
                    "column": one,
                    "other": other,
                    "together": number,
                    "column_changed": single[one],
                    "other_changed": single[other],
                    "likeness": number / either,
                }
            )
    rows.sort(key=lambda row: (-row["together"], row["table"], row["column"], row["other"]))
    return sorted(rows[:limit], key=lambda row: (row["table"], -row["together"], row["column"], row["other"]))
