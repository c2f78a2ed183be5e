"""Assembles changes and transactions in their split, for a stream with begins and ends. A transaction that crosses no
border of splits is complete in one split: the halves of updates, the end and its time, and undoing records are all in
it. A reader reads the headers of its split first, then decodes it once, and yields rows of :data:`cdcwb.model.CHANGES`.
The plan (:class:`cdcwb.formats.base.Assembling`) has the transactions that cross a border; they are few, and are
assembled in Spark (:mod:`cdcwb.spark.assemble`) by the same rules (docs/formats/gbase8s.md §6).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.base import OF_CHANGES, Wanted
from cdcwb.formats.bitmask import disagreement
from cdcwb.formats.requests import select, with_problems, without
from cdcwb.model import ChangeSource, Completeness, Kind, Operation, Outcome, Problem

__all__ = [
    "CHANGES",
    "Became",
    "Halves",
    "Read",
    "assembled",
    "distinct",
    "finished",
    "halves_of",
    "joined",
    "labels",
    "open_ones",
    "paired",
    "read_changes",
    "read_checked",
    "read_crossing",
    "read_transactions",
    "spliced",
    "with_columns",
    "wrong_halves",
]

Read = Callable[[Wanted], Iterator[pa.RecordBatch]]
"""Reads the events of a split."""

Reader = Callable[[Read, Wanted, frozenset[str]], Iterator[pa.RecordBatch]]
"""Reads the changes of a split, without those of some transactions."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CHANGES: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
"""The kinds of events that changes are made of."""

_NARROW: Final = (
    *("offset", "length", "kind", "operation", "position", "transaction_id", "changed_at"),
    *("schema_name", "table_name"),
)
_NARROW_ROWS: Final = pa.schema([*(model.EVENTS.field(name) for name in _NARROW), ("user", pa.string())])
_OUTCOMES: Final = pa.array([str(Outcome.COMMITTED), str(Outcome.ROLLED_BACK), str(Outcome.OPEN)])
_OPEN: Final = 2
_UNDONE: Final = pa.array([str(Outcome.UNDONE)])


def _narrow(batch: pa.RecordBatch, users: bool) -> pa.RecordBatch:
    """The columns of headers that are read; with ``users``, the user of each transaction."""
    columns = batch.select(list(_NARROW)).columns
    user = pa.nulls(batch.num_rows, pa.string())
    if users:
        begins = np.flatnonzero(pc.equal(batch["kind"], str(Kind.BEGIN)).to_numpy(zero_copy_only=False))
        texts = pc.map_lookup(batch["headers"].take(pa.array(begins)), "user_id", "first")
        place = np.full(batch.num_rows, -1, np.int64)
        place[begins] = np.arange(len(begins))
        user = texts.take(pa.array(place, mask=place < 0))
    return pa.RecordBatch.from_arrays([*columns, user], schema=_NARROW_ROWS)


@dataclass(frozen=True, slots=True)
class Halves:
    """For each change event: ``partner``, the number of the other half of its update, -1 for none; ``alone``: whether
    it is a half without the other one. ``ordered``: whether halves are paired by their order; then an after half that
    precedes its before half is reported."""

    partner: Ints
    alone: Bools
    ordered: bool = True


class _Headers:
    """The headers of a split. Events are those of transactions that cross no border. ``number``: the index of their
    transaction in ``names``; ``change``: a mask of events of changes. ``crosses``: for all events of changes of the
    split, whether their transaction crosses a border.
    """

    def __init__(self, events: pa.Table, crosses: Bools) -> None:
        self.crosses = crosses
        self.events = events.combine_chunks()
        named = pc.fill_null(self.column("transaction_id"), "").dictionary_encode()
        self.names: pa.Array = named.dictionary
        self.number: Ints = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.change = np.flatnonzero(self.are(*CHANGES))

    @classmethod
    def read(cls, read: Read, wanted: Wanted, crossing: frozenset[str], users: bool = False) -> _Headers:
        """Those of a split; with ``users``, the user of each transaction."""
        narrow = replace(wanted, images=False, columns=frozenset([*_NARROW, *(["headers"] if users else [])]))
        return cls.of(pa.Table.from_batches([_narrow(batch, users) for batch in read(narrow)], _NARROW_ROWS), crossing)

    @classmethod
    def of(cls, events: pa.Table, crossing: frozenset[str], unnamed: bool = False) -> _Headers:
        """Those among the narrow rows of a split; with ``unnamed``, also those in no transaction."""
        of_changes = pc.is_in(events["kind"], pa.array(CHANGES))
        crosses = pc.is_in(events["transaction_id"], pa.array(sorted(crossing), pa.string()))
        kept = pc.and_not(pc.or_(pc.is_valid(events["transaction_id"]), pa.scalar(unnamed)), crosses)
        return cls(events.filter(kept), crosses.filter(of_changes).to_numpy())

    def column(self, name: str) -> pa.Array:
        """One of their columns."""
        chunks = self.events[name].chunks
        return chunks[0] if chunks else pa.array([], self.events[name].type)

    def are(self, *kinds: str) -> Bools:
        """A mask of events of these kinds."""
        found = pc.is_in(self.column("kind"), pa.array([str(kind) for kind in kinds]))
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def last(self, rows: Bools) -> pa.Array:
        """The last of these rows of each transaction; null for none."""
        found = np.full(len(self.names), -1, np.int64)
        places = np.flatnonzero(rows)
        found[self.number[places]] = places
        return pa.array(found, mask=found < 0)

    def first(self, rows: Bools) -> pa.Array:
        """The first of these rows of each transaction; null for none."""
        found = np.full(len(self.names), -1, np.int64)
        places = np.flatnonzero(rows)[::-1]
        found[self.number[places]] = places
        return pa.array(found, mask=found < 0)

    def outcomes(self) -> Ints:
        """The outcome of each transaction, as an index in ``_OUTCOMES``."""
        begins, commits, rolls_back = (
            np.bincount(self.number[self.are(kind)], minlength=len(self.names)) > 0
            for kind in (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK)
        )
        return np.where(begins & commits, 0, np.where(begins & rolls_back, 1, 2))

    def halves(self) -> Halves:
        """Consecutive halves of one transaction and table that alternate, with no other change of that table between
        them, are a run. They are paired from its start; in a run of odd length that begins with an after half the first
        one remains alone."""
        change = self.change
        count = len(change)
        tables = [self.column(name).dictionary_encode().indices for name in ("schema_name", "table_name")]
        group = [pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)[change] for codes in tables]
        order = np.lexsort((np.arange(count), group[1], group[0], self.number[change]))
        after, half = self.are(Kind.AFTER)[change][order], self.are(Kind.BEFORE, Kind.AFTER)[change][order]
        starts = np.ones(count, np.bool_)
        starts[1:] = ~half[1:] | ~half[:-1] | (after[1:] == after[:-1])
        for values in (self.number[change], *group):
            starts[1:] |= values[order][1:] != values[order][:-1]
        begin = np.flatnonzero(starts)
        size = np.diff(np.append(begin, count))
        run = np.cumsum(starts) - 1
        skipped = (after[begin] & (size % 2 == 1)).astype(np.int64)
        place = np.arange(count) - begin[run] - skipped[run]
        first = half & (place >= 0) & (place % 2 == 0) & (place + skipped[run] + 1 < size[run])
        second = half & (place >= 0) & (place % 2 == 1)
        partner = np.full(count, -1, np.int64)
        at = np.flatnonzero(first)
        partner[order[at]], partner[order[at + 1]] = order[at + 1], order[at]
        alone = np.zeros(count, np.bool_)
        alone[order] = half & ~first & ~second
        return Halves(partner, alone)

    def undone(self) -> Bools:
        """A mask of changes that a later undo reverts: one with their position, or a lower one."""
        found = np.zeros(len(self.change), np.bool_)
        undoes = self.are(Kind.UNDO)
        wanted = np.unique(self.number[undoes])
        some = np.flatnonzero(np.isin(self.number, wanted))
        some = some[np.argsort(self.number[some], kind="stable")]
        ranks = pc.rank(self.column("position").take(pa.array(some)), tiebreaker="dense").to_numpy().astype(np.int64)
        ends = np.searchsorted(self.number[some], wanted[1:])
        for mine, rank in zip(np.split(some, ends), np.split(ranks, ends), strict=True) if len(some) else ():
            lowest = np.where(undoes[mine], rank, len(some) + 1)[::-1]
            later = np.append(np.minimum.accumulate(lowest)[::-1][1:], len(some) + 1)
            at = np.searchsorted(self.change, mine)
            is_change = (at < len(self.change)) & (self.change[np.minimum(at, len(self.change) - 1)] == mine)
            found[at[is_change]] = (later <= rank)[is_change]
        return found


def read_changes(read: Read, wanted: Wanted, crossing: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """The changes of a split, without those of the transactions ``crossing``, in the order of the last of their
    records, as batches of :data:`cdcwb.model.CHANGES`. ``read`` reads the events of the split."""
    headers = _Headers.read(read, wanted, crossing)
    if not len(headers.change):
        return
    halves, became = headers.halves(), Became.of(headers)
    offsets = headers.column("offset").to_numpy()[headers.change]
    first = 0  # of the changes that are decoded next
    seen = 0  # of all changes of the split
    waiting: pa.RecordBatch | None = None
    places = np.empty(0, np.int64)
    for batch in read(replace(wanted, kinds=frozenset(CHANGES), columns=frozenset(OF_CHANGES))):
        mine = ~headers.crosses[seen : seen + batch.num_rows]
        seen += batch.num_rows
        rows = batch if mine.all() else batch.filter(pa.array(mine))
        end = first + rows.num_rows
        if not np.array_equal(rows["offset"].to_numpy(), offsets[first:end]):
            raise RuntimeError("the headers and the values of a split are of different records")
        places = np.append(places, np.arange(first, end))
        rows = rows if waiting is None else joined(waiting, rows)
        partner = halves.partner[places]
        done = np.flatnonzero(partner < places)
        if len(done):
            other = np.where(partner[done] >= 0, np.searchsorted(places, partner[done]), -1)
            yield assembled(rows, done, other, halves, became, places[done])
        waits = np.flatnonzero(partner >= end)
        waiting, places, first = rows.take(pa.array(waits)), places[waits], end


def read_checked(
    read: Read, wanted: Wanted, crossing: frozenset[str], take: Reader = read_changes, trail: bool = False
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What one pass over a split shows, as names and batches. Without those of the transactions ``crossing``:
    ``checked``, the events with problems, and changes with problems of their halves, as batches of
    :data:`cdcwb.model.EVENTS`; ``open``, the transactions without begin or end (:data:`cdcwb.model.TRANSACTIONS`).
    ``events``: those of ``crossing``, without images. ``take`` reads the changes. Of a ``trail`` changes may be in no
    transaction, and only ``checked`` is read."""
    narrow = []
    across = pa.array(sorted(crossing), pa.string())
    columns = None if wanted.columns is None else wanted.columns.union(_NARROW, OF_CHANGES if crossing else ())
    for batch in read(replace(wanted, drop_malformed=False, columns=columns)):
        yield "checked", with_problems(batch)
        narrow.append(_narrow(batch, False))
        if crossing and not trail:
            rows = without(batch.filter(pc.is_in(batch["transaction_id"], across)), "before", "after", "raw")
            yield from (("events", some) for some in select(rows, wanted))
    headers = _Headers.of(pa.Table.from_batches(narrow, _NARROW_ROWS), crossing, trail)
    halves = headers.halves()
    is_reordered = headers.are(Kind.BEFORE)[headers.change] & (halves.partner >= 0)
    is_reordered &= halves.partner < np.arange(len(headers.change))
    if halves.alone.any() or is_reordered.any():  # rare enough to read the split once more
        for changes in take(read, replace(wanted, images=False), crossing):
            yield "checked", wrong_halves(changes)
    if not trail:
        is_open = pa.array((headers.outcomes() == _OPEN)[headers.number])
        yield "open", _transactions(_Headers(headers.events.filter(is_open), headers.crosses))


def wrong_halves(changes: pa.RecordBatch) -> pa.RecordBatch:
    """The changes whose halves contradict each other or are missing, as events with only these problems."""
    rows = with_problems(changes)
    codes = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)
    wrong = [[one for one in mine if one["code"] in codes] or None for mine in rows["problems"].to_pylist()]
    names = rows.schema.names
    columns = [
        rows[field.name] if field.name in names else pa.nulls(rows.num_rows, field.type) for field in model.EVENTS
    ]
    columns[model.EVENTS.get_field_index("problems")] = pa.array(wrong, model.EVENTS.field("problems").type)
    found = pa.RecordBatch.from_arrays(columns, schema=model.EVENTS)
    return with_problems(found)


def paired(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The changes of committed work, from all their events of a split in capture order, in the order of the last of
    their records. They lack the facts from the end of their transaction."""
    halves = halves_of(pa.Table.from_batches([_narrow(rows, False)]))
    done = np.flatnonzero(halves.partner < np.arange(rows.num_rows))
    return assembled(rows, done, halves.partner[done], halves, Became.delivered(rows), done)


def halves_of(events: pa.Table) -> Halves:
    """The halves of updates among events, some of which may be in no transaction."""
    return _Headers(events, np.empty(0, np.bool_)).halves()


def joined(first: pa.RecordBatch, then: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of two batches in one. Older pyarrow concatenates only tables, and has no batch for an empty one."""
    both = pa.Table.from_batches([first, then]).combine_chunks().to_batches()
    return both[0] if both else then


def read_crossing(read: Read, wanted: Wanted, crossing: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """The events of the transactions ``crossing`` in a split, as batches of :data:`cdcwb.model.EVENTS`."""
    if crossing:
        yield from read(replace(wanted, transactions=crossing))


def read_transactions(read: Read, wanted: Wanted, crossing: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """The transactions of a split, without those ``crossing``, in the order of their first records, as batches of
    :data:`cdcwb.model.TRANSACTIONS`."""
    yield _transactions(_Headers.read(read, wanted, crossing, users=True))


def _transactions(headers: _Headers) -> pa.RecordBatch:
    """The transactions of some headers, in the order of their first records."""
    begins = headers.first(headers.are(Kind.BEGIN))
    ends = headers.last(headers.are(Kind.COMMIT, Kind.ROLLBACK))
    completeness = pc.if_else(pc.is_valid(ends), str(Completeness.COMPLETE), str(Completeness.NO_END))
    completeness = pc.if_else(pc.is_valid(begins), completeness, str(Completeness.NO_BEGIN))
    counts, tables = _touched(headers)
    position, at = headers.column("position"), headers.column("changed_at")
    sizes = np.bincount(headers.number, weights=headers.column("length").to_numpy(), minlength=len(headers.names))
    columns = {
        "transaction_id": headers.names,
        "begin_position": position.take(begins),
        "end_position": position.take(ends),
        "began_at": at.take(begins),
        "ended_at": at.take(ends),
        "outcome": _OUTCOMES.take(pa.array(headers.outcomes())),
        "completeness": completeness,
        "changes": counts,
        "tables": tables,
        "bytes": pa.array(sizes.astype(np.int64)),
        "user": headers.column("user").take(begins),
    }
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in model.TRANSACTIONS], schema=model.TRANSACTIONS
    )


def open_ones(transactions: pa.RecordBatch) -> list[dict[str, Any]]:
    """The transactions whose begin or end is missing, as rows of :data:`cdcwb.model.PROBLEMS`."""
    found = []
    for row in transactions.filter(pc.equal(transactions["outcome"], str(Outcome.OPEN))).to_pylist():
        no_begin = row["completeness"] == Completeness.NO_BEGIN
        code = Problem.NO_BEGIN if no_begin else Problem.OPEN_TRANSACTION
        said = {
            "severity": str(code.severity),
            "code": str(code),
            "sentence": f"the {'begin' if no_begin else 'end'} of this transaction is not in the capture",
            "transaction_id": row["transaction_id"],
            "table": row["tables"][0] if len(row["tables"]) == 1 else None,
        }
        found.append(said)
    return found


def _touched(headers: _Headers) -> tuple[pa.Array, pa.Array]:
    """For each transaction the number of changes by operation, and the tables, both in name order."""
    halves = headers.halves()
    rows = headers.change[(halves.partner < np.arange(len(headers.change)))]
    operation = headers.column("operation").take(pa.array(rows))
    known = np.asarray(pc.is_valid(operation).to_numpy(zero_copy_only=False))
    rows, operation = rows[known], operation.filter(pa.array(known))
    label = labels(*(headers.column(name).take(pa.array(rows)) for name in ("schema_name", "table_name")))
    number = headers.number[rows]
    texts, offsets, times = distinct(number, operation, len(headers.names))
    counts = pa.MapArray.from_arrays(offsets, texts, pa.array(times))
    named = np.asarray(pc.is_valid(label).to_numpy(zero_copy_only=False))
    texts, offsets, _ = distinct(number[named], label.filter(pa.array(named)), len(headers.names))
    return counts, pa.ListArray.from_arrays(offsets, texts)


def labels(schemas: pa.Array, tables: pa.Array) -> pa.Array:
    """``schema.table``, or ``table`` without a schema; null without a table."""
    return pc.coalesce(pc.binary_join_element_wise(schemas, tables, "."), tables)


def distinct(number: Ints, texts: pa.Array, count: int, weights: Ints | None = None) -> tuple[pa.Array, pa.Array, Ints]:
    """The distinct texts of each of ``count`` groups in name order, as texts and offsets; and the count of each, or the
    sum of its ``weights``."""
    coded = texts.dictionary_encode()
    ranks = np.argsort(np.argsort(np.array(coded.dictionary.to_pylist(), object), kind="stable"), kind="stable")
    sorted_texts = coded.dictionary.take(pc.sort_indices(coded.dictionary))
    size = max(1, len(sorted_texts))
    keys, place, times = np.unique(
        number * size + ranks[coded.indices.to_numpy()], return_inverse=True, return_counts=True
    )
    if weights is not None:
        times = np.zeros(len(keys), np.int64)
        np.add.at(times, place, weights)
    ends = np.searchsorted(keys, np.arange(count + 1) * size)
    return sorted_texts.take(pa.array(keys % size)), pa.array(ends.astype(np.int32)), times


@dataclass(frozen=True, slots=True)
class Became:
    """The outcome of each change."""

    outcome: pa.Array
    commit_position: pa.Array
    committed_at: pa.Array

    @classmethod
    def of(cls, headers: _Headers) -> Became:
        """For the changes among headers."""
        number = headers.number[headers.change]
        outcome = _OUTCOMES.take(pa.array(headers.outcomes()[number]))
        undone = headers.undone()
        if undone.any():
            outcome = pc.if_else(pa.array(undone), _UNDONE[0], outcome)
        commit = headers.last(headers.are(Kind.COMMIT)).take(pa.array(number))
        return cls(outcome, headers.column("position").take(commit), headers.column("changed_at").take(commit))

    @classmethod
    def delivered(cls, rows: pa.RecordBatch, committed_at: pa.Array | None = None) -> Became:
        """For the changes of committed work whose last records are these, as far as known. A full load (REFRESH) is in
        no transaction. ``committed_at``: null if unknown, None: unknown for all."""
        loaded = pc.fill_null(pc.equal(rows["operation"], str(Operation.REFRESH)), True)
        outcome = pc.if_else(loaded, pa.scalar(None, pa.string()), str(Outcome.COMMITTED))
        times = pa.nulls(rows.num_rows, model.CHANGES.field("committed_at").type)
        return cls(outcome, pa.nulls(rows.num_rows, pa.string()), times if committed_at is None else committed_at)


# --- changes ----------------------------------------------------------------------------------------------------------


def assembled(
    rows: pa.RecordBatch, done: Ints, other: Ints, halves: Halves, became: Became, places: Ints
) -> pa.RecordBatch:
    """The changes whose last records are the rows ``done``, and whose other halves are the rows ``other``, -1 for
    none; ``places`` are the numbers of ``done`` among the changes."""
    kind = rows["kind"].take(pa.array(done))
    turned = (other >= 0) & pc.equal(kind, str(Kind.BEFORE)).to_numpy(zero_copy_only=False)
    # the row of a change is that of its after half
    of, pair = np.where(turned, other, done), np.where(turned, done, other)
    taken = pa.array(of)
    columns: dict[str, pa.Array] = {
        name: rows[name].take(taken) for name in model.CHANGES.names if name in rows.schema.names
    }
    columns["before"] = rows["before"].take(pa.array(np.where(pair >= 0, pair, of)))
    columns["kind"] = pc.if_else(pa.array(halves.alone[places]), kind, str(Kind.CHANGE))
    columns["problems"] = _problems(rows, of, pair, turned & halves.ordered, halves.alone[places])
    first, second = (other, done) if halves.ordered else (pair, of)
    columns["source_events"] = _source_events(rows, second, first)
    columns["problems"] = _with_disagreements(columns, pair >= 0)
    columns["changed_columns"], columns["change_source"] = _changed(columns)
    at = pa.array(np.where(turned, halves.partner[places], places))
    columns["outcome"] = became.outcome.take(at)
    columns["commit_position"] = became.commit_position.take(at)
    columns["committed_at"] = became.committed_at.take(at)
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in model.CHANGES], schema=model.CHANGES
    )


def _source_events(rows: pa.RecordBatch, done: Ints, other: Ints) -> pa.Array:
    joined = other >= 0
    offsets = np.concatenate([[0], np.cumsum(1 + joined)])
    of = np.empty(int(offsets[-1]), np.int64)
    of[offsets[1:] - 1] = done
    of[offsets[:-1][joined]] = other[joined]
    taken = pa.array(of)
    fields = [rows[field.name].take(taken).cast(field.type) for field in model.SOURCE_EVENT]
    places = pa.StructArray.from_arrays(fields, fields=list(model.SOURCE_EVENT))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), places)


def _problems(rows: pa.RecordBatch, of: Ints, pair: Ints, turned: Bools, alone: Bools) -> pa.Array:
    """The problems of the before half, those of the change's own record, and those of the pair."""
    problems = rows["problems"]
    if problems.null_count == len(problems) and not turned.any() and not alone.any():
        return pa.nulls(len(of), problems.type)
    found = problems.to_pylist()
    kinds = rows["kind"].to_pylist()
    all_of_them = []
    for one, two, is_turned, is_alone in zip(of, pair, turned, alone, strict=True):
        mine = [*((found[two] or ()) if two >= 0 else ()), *(found[one] or ())]
        if is_turned:
            text = "the after half precedes the before half"
            mine.append({"code": str(Problem.REORDERED_UPDATE), "detail": text})
        if is_alone:
            lacks = Kind.AFTER if kinds[one] == Kind.BEFORE else Kind.BEFORE
            mine.append({"code": str(Problem.UPDATE_HALF), "detail": f"the {lacks} half is missing"})
        all_of_them.append(mine or None)
    return pa.array(all_of_them, problems.type)


def _with_disagreements(columns: dict[str, pa.Array], whole: Bools) -> pa.Array:
    """The problems, with those of masks that contradict the two halves of an update."""
    problems = columns["problems"]
    both = pc.and_(columns["before"].is_valid(), columns["after"].is_valid())
    asked = pc.and_(pc.and_(both, columns["changed_columns"].is_valid()), pa.array(whole))
    asked = pc.and_(asked, pc.fill_null(pc.equal(columns["operation"], str(Operation.UPDATE)), False))
    rows = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
    if not len(rows):
        return problems
    by_mask = columns["changed_columns"].take(pa.array(rows))
    by_images = _differing(columns["before"], columns["after"], rows)
    odd: dict[int, str] = {}
    for row, mask, images in zip(rows.tolist(), by_mask.to_pylist(), by_images.to_pylist(), strict=True):
        if set(mask) != set(images):
            odd[row] = disagreement(_without(mask, images), _without(images, mask))
    if not odd:
        return problems
    found = problems.to_pylist()
    for row, sentence in odd.items():
        found[row] = [*(found[row] or ()), {"code": str(Problem.MASK_IMAGES), "detail": sentence}]
    return pa.array(found, problems.type)


def _without(names: list[str], others: list[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name not in others))


def _changed(columns: dict[str, pa.Array]) -> tuple[pa.Array, pa.Array]:
    """The changed columns, and their source: the mask, else the images of an update."""
    masked = columns["changed_columns"].is_valid()
    update = pc.fill_null(pc.equal(columns["operation"], str(Operation.UPDATE)), False)
    both = pc.and_(columns["before"].is_valid(), columns["after"].is_valid())
    compared = pc.and_(pc.and_(update, both), pc.invert(masked))
    source = pc.if_else(compared, str(ChangeSource.IMAGES), pa.scalar(None, pa.string()))
    source = pc.if_else(masked, str(ChangeSource.MASK), source)
    rows = np.flatnonzero(compared.to_numpy(zero_copy_only=False))
    if not len(rows):
        return columns["changed_columns"], source
    return spliced(columns["changed_columns"], rows, _differing(columns["before"], columns["after"], rows)), source


def _differing(before: pa.MapArray, after: pa.MapArray, rows: Ints) -> pa.Array:
    """For some rows, the names in the after images whose values differ from the before images; a missing name counts as
    null."""
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    there = _found(before, rows[row], entry - after.offsets.to_numpy()[rows[row]], names)
    old = before.items.take(pa.array(there, mask=there < 0))
    return _lists(names, ~_same(old, values), ends)


def _entries(maps: pa.MapArray, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """The entries of the maps of some rows: for each entry the number of its row and its own number, and for each row
    the cumulative number of entries."""
    offsets = maps.offsets.to_numpy()
    count = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(count)
    row = np.repeat(np.arange(len(rows)), count)
    return row, np.arange(len(row)) - np.repeat(ends - count, count) + np.repeat(offsets[rows], count), ends


def _found(maps: pa.MapArray, row: Ints, place: Ints, names: pa.Array) -> Ints:
    """For each name the entry of its row's map with that name, -1 for none. It is mostly at the same ``place``."""
    offsets, valid = maps.offsets.to_numpy(), maps.is_valid().to_numpy(zero_copy_only=False)
    there = offsets[row] + place
    fits = (there < offsets[row + 1]) & valid[row]
    alike = pc.equal(maps.keys.take(pa.array(there, mask=~fits)), names)
    found = np.where(pc.fill_null(alike, False).to_numpy(zero_copy_only=False), there, -1)
    rest = np.flatnonzero((found < 0) & valid[row])
    if len(rest):
        some, entry_row = np.unique(row[rest], return_inverse=True)
        of, entry, _ = _entries(maps, some)
        both = pa.concat_arrays([maps.keys.take(pa.array(entry)), names.take(pa.array(rest))]).dictionary_encode()
        size = len(both.dictionary)
        first, then = np.split(both.indices.to_numpy().astype(np.int64), [len(entry)])
        order = np.argsort(of * size + first, kind="stable")
        known, wanted = (of * size + first)[order], entry_row * size + then
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        found[rest] = np.where(known[at] == wanted, entry[order[at]], -1) if len(known) else -1
    return found


def _same(one: pa.Array, other: pa.Array) -> Bools:
    """A mask of values that are equal, or both null."""
    equal = pc.fill_null(pc.equal(one, other), False)
    found: Bools = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other))).to_numpy(zero_copy_only=False)
    return found


def _lists(names: pa.Array, chosen: Bools, ends: Ints) -> pa.Array:
    """The chosen names of each row as lists."""
    offsets = np.concatenate([[0], np.cumsum(chosen)])[np.concatenate([[0], ends])]
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names.filter(pa.array(chosen)))


def spliced(column: pa.Array, rows: Ints, values: pa.Array) -> pa.Array:
    """A column with new values in some rows."""
    place = np.arange(len(column))
    place[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, values.cast(column.type)]).take(pa.array(place))


# --- what options and the source's rules add --------------------------------------------------------------------------


def with_columns(changes: pa.RecordBatch, known: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Changes with some columns replaced."""
    columns = [
        known[field.name].cast(field.type) if field.name in known else changes[field.name] for field in model.CHANGES
    ]
    return pa.RecordBatch.from_arrays(columns, schema=model.CHANGES)


def finished(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]], compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the keys that the option ``keys`` names (columns by ``schema.table``), and with the columns that
    updates of the record types ``compressed`` wrote."""
    return _with_written_columns(_with_keys(changes, keys), compressed)


def _with_keys(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]]) -> pa.RecordBatch:
    """Keys from the after image, else the before image, null if neither has all of their columns."""
    names = labels(changes["schema_name"], changes["table_name"])
    for table, columns in keys.items():
        named = pc.or_kleene(pc.equal(names, table), pc.equal(changes["table_name"], table))
        rows = np.flatnonzero(pc.fill_null(named, False).to_numpy(zero_copy_only=False))
        if not len(rows):
            continue
        after, before = changes["after"].take(pa.array(rows)), changes["before"].take(pa.array(rows))
        last = after.is_valid().to_numpy(zero_copy_only=False)
        image = pa.concat_arrays([after, before]).take(pa.array(np.arange(len(rows)) + np.where(last, 0, len(rows))))
        row, entry, _ = _entries(image, np.arange(len(rows)))
        of_key = pc.is_in(image.keys.take(pa.array(entry)), pa.array(columns)).to_numpy(zero_copy_only=False)
        count = np.bincount(row[of_key], minlength=len(rows))
        complete = count == len(set(columns))
        kept = pa.array(entry[of_key & complete[row]])
        offsets = np.concatenate([[0], np.cumsum(np.where(complete, count, 0))])
        nulls = np.append(~complete, False)
        found = pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32), mask=nulls), image.keys.take(kept), image.items.take(kept)
        )
        changes = with_columns(changes, {"key": spliced(changes["key"], rows, found)})
    return changes


def _with_written_columns(changes: pa.RecordBatch, compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the columns that updates of the record types ``compressed`` wrote: those of the after image, without
    those with the same value in the before image, and without key columns that no before image has, since they only
    identify the row (docs/formats/goldengate.md §4.5). The source is ``log`` if any of them was not compared."""
    is_update = pc.equal(changes["operation"], str(Operation.UPDATE))
    rule = pc.and_(pc.is_in(changes["record_type"], pa.array(sorted(compressed), pa.string())), is_update)
    rows = np.flatnonzero(
        pc.fill_null(pc.and_(rule, changes["after"].is_valid()), False).to_numpy(zero_copy_only=False)
    )
    if not len(rows):
        return changes
    before, after = changes["before"], changes["after"]
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    place = entry - after.offsets.to_numpy()[rows[row]]
    there = _found(before, rows[row], place, names)
    same = _same(before.items.take(pa.array(there, mask=there < 0)), values)
    written = np.where(there >= 0, ~same, _found(changes["key"], rows[row], place, names) < 0)
    unseen = np.bincount(row[written & (there < 0)], minlength=len(rows)) > 0
    unseen |= before.is_null().to_numpy(zero_copy_only=False)[rows]
    source = pc.if_else(pa.array(unseen), str(ChangeSource.LOG), str(ChangeSource.IMAGES))
    known = {
        "changed_columns": spliced(changes["changed_columns"], rows, _lists(names, written, ends)),
        "change_source": spliced(changes["change_source"], rows, source),
    }
    return with_columns(changes, known)
