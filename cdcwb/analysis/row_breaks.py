"""The breaks of rows: changes that contradict what those of their row before them left (``docs/continuity.md``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import Bools, Ints
from cdcwb.analysis.row_versions import (
    DELETE,
    INSERT,
    OPERATIONS,
    REFRESH,
    ROW,
    UPDATE,
    VALUE_BITS,
    VERSIONS,
    last_positions,
    log_order,
)
from cdcwb.dataset import Batches, Rows, joined, run_starts
from cdcwb.filters import as_flags
from cdcwb.model import CHANGES
from cdcwb.words import Described


class Break(Described):
    """How a change contradicts the changes of its row before it."""

    GAP = "gap", "a version of the row is missing between two changes"
    STALE = "stale", "an older version of the row arrives after a newer one"
    REPEAT = "repeat", "the same change arrives again"
    REVIVED = "revived", "an UPDATE follows the DELETE of the row"
    PHANTOM = "phantom", "a DELETE follows the DELETE of the row"
    LATE = "late", "changes of the row arrive in another order than that of their commits"


RECORD: Final = tuple((name, CHANGES.field(name).type) for name in ("operation", "position", "file_index", "offset"))
"""The columns of the record of a break; those of the earlier record begin with ``earlier_``."""

FOUND: Final = pa.schema(
    [
        *(("table", pa.string()), ("row_key", pa.string()), ("kind", pa.string())),
        *(("at", CHANGES.field("changed_at").type), *RECORD),
        *((f"earlier_{name}", kind) for name, kind in RECORD),
        *(("distance", pa.int64()), ("columns", pa.list_(pa.int64())), ("number", pa.int64())),
    ]
)
"""Breaks with the hashes of their ``columns``. Rows with other kinds (:data:`COUNTS`) have a ``number``."""

COUNTS: Final = ("rows", "changes", "compared", "keyless")
_WINDOW: Final = 1 << 16  # changes of one row that are put in order together
_REMEMBERED: Final = 4096  # changes and versions of a row that are recognised when they come again
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)


def breaks_of(versions: Rows) -> Rows:
    """The breaks of rows, and the counts of tables (:data:`FOUND`), from :data:`VERSIONS`."""
    return versions.by_key(ROW, ["file_index", "offset", "part"], _find_breaks, FOUND)


class _Change(NamedTuple):
    """A change of a row: its ``number`` in the batch, its ``rank`` in the log, the sums of its images' hashes."""

    number: int
    operation: int
    epoch: int
    rank: int
    has_position: bool
    origin: int
    before: list[int] | None
    after: list[int] | None
    sums: tuple[int, int]
    record: dict[str, Any]


class _Contradiction(NamedTuple):
    kind: Break
    change: _Change
    earlier: _Change | None
    columns: list[int]
    distance: int | None = None

    @property
    def found(self) -> dict[str, Any]:
        """The break as a row of :data:`FOUND`."""
        earlier = {f"earlier_{name}": self.earlier.record[name] for name, _ in RECORD} if self.earlier else {}
        own = {"kind": str(self.kind), "distance": self.distance, "columns": self.columns}
        return {**self.change.record, **earlier, **own}


class _RowState:
    """What the changes of a row up to now left of it. ``exists`` is None as long as nothing is known of it."""

    def __init__(self, is_truncated: bool) -> None:
        self.values: dict[int, int] = {}
        self.exists: bool | None = False if is_truncated else None
        self.last: _Change | None = None
        self.epoch = 0
        self._versions: dict[int, None] = {}
        self._seen: dict[Any, _Change] = {}

    def follow(self, change: _Change) -> _Contradiction | None:
        """What contradicts the row in its next change, which is then known, too."""
        is_read = change.operation == REFRESH
        if is_read and self.last is not None and self.last.record["file_index"] != change.record["file_index"]:
            return None  # files of a full load are in no order with those of changes
        if change.epoch > self.epoch and self.exists:
            self.exists, self.values = False, {}
        self.epoch = change.epoch
        image = change.after if change.operation in (INSERT, REFRESH) else change.before
        pairs = [(pair >> 32, pair & VALUE_BITS) for pair in image or ()]
        differing = [column for column, value in pairs if self.values.get(column, value) != value]
        signature = (change.operation, *change.sums, change.origin)
        first = self._seen.get((signature, change.rank)) if change.has_position else None
        kind = None if first is not None else self._kind(change, image, differing)
        if kind is not None:
            first = self._seen.get(signature)
        if first is not None:
            kind = Break.REPEAT
        earlier = self.last if first is None else first
        if kind not in (Break.REPEAT, Break.STALE):
            self._apply(change)
        for key in (signature, (signature, change.rank)):
            self._seen.setdefault(key, change)
        _forget(self._seen, 2 * _REMEMBERED)
        return None if kind is None else _Contradiction(kind, change, earlier, differing)

    def _kind(self, change: _Change, image: list[int] | None, differing: list[int]) -> Break | None:
        if self.exists is None or (self.last is None and change.operation == REFRESH):
            return None
        is_known = change.sums[1] in self._versions
        if change.operation == INSERT:
            has_common = any(pair >> 32 in self.values for pair in image or ())
            return Break.GAP if self.exists and has_common else None
        if not self.exists:
            of_deleted = {UPDATE: Break.REVIVED, DELETE: Break.PHANTOM}
            return of_deleted.get(change.operation, Break.STALE if is_known else Break.GAP)
        if not differing:
            return None
        is_unordered = change.operation == REFRESH or not change.has_position
        return Break.STALE if is_known and is_unordered and change.operation != DELETE else Break.GAP

    def _apply(self, change: _Change) -> None:
        is_known = any(pair >> 32 in self.values for pair in change.after or ())
        is_more = change.operation == UPDATE or (change.operation == INSERT and self.exists and not is_known)
        if change.after is None or not is_more:
            self.values = {}
        for image in (change.before, change.after):
            self.values.update((pair >> 32, pair & VALUE_BITS) for pair in image or ())
        self.exists = change.operation != DELETE
        self.last = change
        if change.after is not None:
            self._versions[change.sums[1]] = None
            _forget(self._versions, _REMEMBERED)


def _forget(known: dict[Any, Any], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]


_States = dict[tuple[str, str], tuple[_RowState, _RowState]]
"""What is known of a row in the order of the capture and in that of commits."""


def _find_breaks(batches: Batches) -> Batches:
    """The breaks of rows and the counts of tables, from the changes of each row in capture order."""
    rest = joined([], VERSIONS)
    states: _States = {}  # of the row that the last batch ended with, if it had many changes
    for batch in batches:
        rows = joined([rest, batch], VERSIONS)
        last = int(run_starts(rows, ROW)[-1])
        end = rows.num_rows if rows.num_rows - last > _WINDOW else last
        states = yield from _of_rows(rows.slice(0, end), states, end != last)
        rest = rows.slice(end)
    yield from _of_rows(rest, states, False)


def _of_rows(rows: pa.RecordBatch, states: _States, is_continued: bool) -> Any:
    """The breaks of rows and the counts; returns the states of the last row if it ``is_continued``."""
    starts = run_starts(rows, ROW)
    if not len(starts):
        return states
    sizes = np.diff(np.append(starts, rows.num_rows))
    keyed = as_flags(rows["row_key"].is_valid())
    suspicious = np.logical_or.reduceat(_suspicious(rows, starts) & keyed, starts)
    suspicious[0] |= (rows["table"][0].as_py(), rows["row_key"][0].as_py()) in states
    suspicious[-1] |= is_continued and bool(keyed[-1])
    found: list[dict[str, Any]] = []
    last: _States = {}
    for key, changes in _changes(rows.filter(pa.array(np.repeat(suspicious, sizes)))):
        of_row = states.get(key) or (_RowState(changes[0].epoch > 0), _RowState(changes[0].epoch > 0))
        last = {key: of_row}
        found += [{"table": key[0], "row_key": key[1], **one.found} for one in _contradictions(changes, *of_row)]
    yield pa.RecordBatch.from_pylist([*found, *_counts(rows, starts, sizes, keyed)], FOUND)
    return last if is_continued else {}


def _changes(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], list[_Change]]]:
    """The changes of each row, with its table and key."""
    starts = run_starts(rows, ROW)
    if not len(starts):
        return
    rank, has_position = log_order(rows, starts)
    names = ("operation", "epoch", "origin", "before", "after")
    operations, epochs, origins, before, after = (rows[name].to_pylist() for name in names)
    records = [
        row | {"operation": str(OPERATIONS[row["operation"]])}
        for row in rows.select([*(name for name, _ in RECORD), "at"]).to_pylist()
    ]
    sums = zip(*(_sums(rows[name]).tolist() for name in ("before", "after")), strict=True)
    ranked = (range(len(rank)), operations, epochs, rank.tolist(), has_position.tolist())
    changes = [_Change(*one) for one in zip(*ranked, origins, before, after, sums, records, strict=True)]
    keys = [rows[name].take(pa.array(starts)).to_pylist() for name in ("table", "row_key")]
    for key, start, end in zip(zip(*keys, strict=True), starts, np.append(starts[1:], rows.num_rows), strict=True):
        yield key, changes[start:end]


def _contradictions(changes: list[_Change], arriving: _RowState, committing: _RowState) -> Iterator[_Contradiction]:
    """The breaks of a row. If only the order of arrival or only that of commits shows breaks, changes are late."""
    in_log = sorted(changes, key=lambda change: change.rank)
    by_arrival = {change.number: one for change in changes if (one := arriving.follow(change)) is not None}
    by_log = by_arrival
    if in_log == changes:
        for name, value in vars(arriving).items():
            setattr(committing, name, value.copy() if isinstance(value, dict) else value)
    else:
        by_log = {change.number: one for change in in_log if (one := committing.follow(change)) is not None}
    in_both = by_arrival.keys() & by_log.keys()
    yield from (by_log[number] for number in sorted(in_both))
    if by_arrival.keys() == by_log.keys():
        return
    highest = changes[0]
    for change in changes:
        if change.rank >= highest.rank:
            highest = change
        elif change.number not in in_both:
            distance = sum(other.rank > change.rank for other in changes if other.number < change.number)
            yield _Contradiction(Break.LATE, change, highest, [], distance)


def _counts(rows: pa.RecordBatch, starts: Ints, sizes: Ints, keyed: Bools) -> list[dict[str, Any]]:
    """The rows, changes, comparisons and changes without a key of each table."""
    is_keyed = keyed[starts]
    weights = np.where(keyed, np.asarray(pc.fill_null(rows["part"], 0)) == 0, np.asarray(rows["origin"]))
    changes = np.add.reduceat(weights, starts, dtype=np.int64)
    numbers = (is_keyed, changes, np.where(is_keyed, sizes - 1, 0), np.where(is_keyed, 0, changes))
    columns = {name: values.astype(np.int64) for name, values in zip(COUNTS, numbers, strict=True)}
    table = pa.table({"table": rows["table"].take(pa.array(starts)), **columns})
    summed = table.group_by("table", use_threads=False).aggregate([(name, "sum") for name in COUNTS]).to_pylist()
    return [{"table": row["table"], "kind": name, "number": row[f"{name}_sum"]} for row in summed for name in COUNTS]


def _sums(images: pa.ListArray) -> Ints:
    """The sum of the hashes of each image; -1 without an image."""
    mixed = np.asarray(images.values).view(np.uint64) * _MIXER
    mixed = (mixed ^ mixed >> np.uint64(32)) * _MIXER  # else columns that swap their values would have the same sum
    sums = np.append(0, np.cumsum(mixed.view(np.int64)))[np.asarray(images.offsets)]
    return np.where(as_flags(images.is_valid()), np.diff(sums), -1)


def _suspicious(rows: pa.RecordBatch, starts: Ints) -> Bools:
    """The changes that need a closer look because the change before them alone does not explain them."""
    operation, epoch = np.asarray(rows["operation"]), np.asarray(rows["epoch"])
    before, after = (_sums(rows[name]) for name in ("before", "after"))
    is_first = np.zeros(rows.num_rows, np.bool_)
    is_first[starts] = True
    previous = np.append(-1, operation[:-1])
    image = np.where(operation == REFRESH, after, before)
    is_same = (image == np.append(-1, after[:-1])) | (image == -1)
    others = np.flatnonzero(~is_same & ~is_first & (operation != INSERT))
    if len(others):
        is_same[others] = _included(rows, others, operation[others] == REFRESH)
    is_explained = np.where(operation == INSERT, previous == DELETE, (previous != DELETE) & is_same)
    is_back, is_at_one = _steps(rows, starts)
    is_again = is_at_one & np.append(False, before[1:] == before[:-1])
    is_other = is_back | np.append(False, epoch[1:] != epoch[:-1])
    return np.where(is_first, epoch > 0, ~is_explained | is_again | is_other)


def _steps(rows: pa.RecordBatch, starts: Ints) -> tuple[Bools, Bools]:
    """Whether the position of each change is below that of the last one before it in its row, and whether it is the
    same."""
    last, _ = last_positions(rows, starts)
    is_back, is_same = np.zeros((2, rows.num_rows), np.bool_)
    later = np.flatnonzero((last[1:] != last[:-1]) & (last[1:] >= 0) & (last[:-1] >= 0)) + 1
    is_less, is_equal = pa.repeat(False, len(later)), pa.repeat(True, len(later))
    for name in ("commit", "position"):
        texts = pc.fill_null(rows[name], "")
        own, earlier = texts.take(pa.array(later)), texts.take(pa.array(last[later - 1]))
        is_less = pc.or_(is_less, pc.and_(is_equal, pc.less(own, earlier)))
        is_equal = pc.and_(is_equal, pc.equal(own, earlier))
    is_back[later], is_same[later] = as_flags(is_less), as_flags(is_equal)
    return is_back, is_same


def _included(rows: pa.RecordBatch, numbers: Ints, is_read: Bools) -> Bools:
    """Whether each hash of the image of some changes is one of the after image of the change before."""
    at = pa.array(numbers)
    image = pc.if_else(pa.array(is_read), rows["after"].take(at), rows["before"].take(at))
    known, asked = (
        pa.table({"row": pc.list_parent_indices(lists), "hash": pc.list_flatten(lists)})
        for lists in (rows["after"].take(pa.array(numbers - 1)), image)
    )
    unknown = asked.join(known, ["row", "hash"], join_type="left anti")["row"]
    result: Bools = np.bincount(np.asarray(unknown), minlength=len(numbers)) == 0
    return result
