"""Changes from events: halves of updates that belong together, and those that may be in two splits; the halves of an
update as one row, its images and masks, its problems; and what options, the source's rules and the end of its
transaction add."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import are_named, as_array, columns_in, filled, labels
from cdcwb.formats.bitmask import disagreement
from cdcwb.formats.dissector import Format, Pairing
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.model import ChangeSource, Kind, Operation, Outcome, Problem

# --- halves of updates ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halved:
    """How the halves of updates in a split are paired. ``befores``: whether it has before halves. ``shared``: ranges of
    positions, first and last, in order, that several splits of the same table in files of one folder have, so that the
    halves of an update may be in two of them. ``consecutive``: an after half directly follows its before half, whatever
    their positions are; and the header TransInd shows the first and last record of a transaction, as in GoldenGate's
    trails."""

    befores: bool = True
    shared: tuple[tuple[str, str], ...] = ()
    consecutive: bool = False


@runtime_checkable
class Halving(Protocol):
    """A format whose halves of updates are paired by position, in its splits if these share no position
    (:mod:`cdcwb.formats.delivered`)."""

    def halved(self, plan: Any, split: int) -> Halved:
        """The locations of the halves of a split."""


WHOLE: Final = Halved(befores=False)
"""A split without halves of updates."""

ANYWHERE: Final = Halved(shared=(("", "\U0010ffff"),))
"""Rows whose halves of updates may be in any others."""


def halved_of(form: Format, plan: Any = None, split: int | None = None) -> Halved:
    """How the halves of updates in a split are paired; ``split`` None: those of rows of a DataFrame."""
    if form.pairing is Pairing.TRANSACTION:
        return Halved(befores=split is not None, consecutive=True)
    if not isinstance(form, Halving):
        return WHOLE
    return ANYWHERE if split is None else form.halved(plan, split)


HALVES: Final = (str(Kind.BEFORE), str(Kind.AFTER))
"""The kinds of events that are halves."""


def overlaps(ranges: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The intersections of two or more ranges of texts, as disjoint ranges with inclusive ends."""
    steps = sorted((text, last) for pair in ranges for last, text in enumerate(pair))
    found: list[tuple[str, str]] = []
    open_ones, since = 0, ""
    for text, last in steps:
        if last:
            open_ones -= 1
            if open_ones == 1:
                found.append((since, text))
        else:
            open_ones += 1
            if open_ones == 2:
                since = text
    return tuple(found)


def elsewhere(rows: pa.RecordBatch | pa.Table, halved: Halved) -> Bools:
    """A mask of halves of updates whose other half may be in another split."""
    half = pc.and_(pc.is_in(rows["kind"], pa.array(HALVES)), pc.is_valid(rows["position"]))
    found = as_array(half).copy()
    at = np.flatnonzero(found)
    if not halved.shared or not len(at):
        return np.zeros(rows.num_rows, np.bool_)
    position = rows["position"].take(pa.array(at)).to_numpy(zero_copy_only=False)
    firsts, lasts = (np.array(texts, object) for texts in zip(*halved.shared, strict=True))
    place = np.searchsorted(lasts, position)
    inside = place < len(lasts)
    inside[inside] = firsts[place[inside]] <= position[inside]
    found[at] = inside
    return found


def partners(rows: pa.RecordBatch | pa.Table, halved: Halved) -> tuple[Ints, Bools]:
    """For each row the number of the other half of its update, -1 for none: at one position of one table, in files of
    one folder, the first before half is paired with the first after half, the second with the second; consecutive
    halves with each other. Also a mask of halves that have another one, or may have it in later rows."""
    if halved.consecutive:
        return _neighbours(rows)
    half = as_array(pc.and_(pc.is_in(rows["kind"], pa.array(HALVES)), pc.is_valid(rows["position"])))
    at = np.flatnonzero(half)
    partner = np.full(rows.num_rows, -1, np.int64)
    codes = pc.rank(rows["position"].take(pa.array(at)), tiebreaker="dense").to_numpy().astype(np.int64)
    for other in _tables(rows, at):
        codes = np.unique(codes * (other.max(initial=0) + 1) + other, return_inverse=True)[1]
    after = as_array(pc.equal(rows["kind"].take(pa.array(at)), str(Kind.AFTER))).astype(np.int64)
    group = 2 * codes + after
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    rank = np.empty(len(at), np.int64)
    rank[order] = np.arange(len(at)) - np.repeat(starts, np.diff(np.append(starts, len(at))))
    name = codes * (len(at) + 1) + rank
    befores, afters = np.flatnonzero(after == 0), np.flatnonzero(after)
    _, one, two = np.intersect1d(name[befores], name[afters], assume_unique=True, return_indices=True)
    one, two = at[befores[one]], at[afters[two]]
    partner[one], partner[two] = two, one
    return partner, half


def _neighbours(rows: pa.RecordBatch | pa.Table) -> tuple[Ints, Bools]:
    before, after = (as_array(pc.equal(rows["kind"], kind)) for kind in HALVES)
    partner = np.full(rows.num_rows, -1, np.int64)
    first = np.flatnonzero(before[:-1] & after[1:])
    partner[first], partner[first + 1] = first + 1, first
    waits = partner >= 0
    waits[-1:] |= before[-1:]
    return partner, waits


def _tables(rows: pa.RecordBatch | pa.Table, at: Ints) -> Iterator[Ints]:
    """Codes for the folders, schemas and tables of some rows, from the existing columns."""
    for name in ("file", "schema_name", "table_name"):
        if name in rows.schema.names:
            values = rows[name].take(pa.array(at))
            coded = (values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values).dictionary_encode()
            texts = [text.rpartition("/")[0] if name == "file" else text for text in coded.dictionary.to_pylist()]
            numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), start=1)}
            found = np.array([*(numbers[text] for text in texts), 0])  # the last for null
            yield found[pc.fill_null(coded.indices, len(texts)).to_numpy(zero_copy_only=False)]


def locations(events: pa.RecordBatch | pa.StructArray) -> Ints:
    """A number for the location of each event."""
    names = ("file_index", "offset")
    fields = (events.field(name) if isinstance(events, pa.StructArray) else events[name] for name in names)
    index, offset = (field.to_numpy().astype(np.int64) for field in fields)
    found: Ints = (index << 44) + offset
    return found


ONLY_ASSEMBLED: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)
"""Problems of changes that none of their events has. A mask is compared with both images here if they are in two
events; if they are in one, the format has compared them."""


@dataclass(frozen=True, slots=True)
class Halves:
    """For each change event: ``partner``, the number of the other half of its update, -1 for none; ``alone``: whether
    it is a half without the other one; ``earlier``: whether the other half is in an earlier split, which yields their
    change. Other halves in later splits are numbered after all events of the split; ``later`` are their transactions
    and tables. ``ordered``: whether halves are paired by their order; then an after half that precedes its before half
    is reported."""

    partner: Ints
    alone: Bools
    earlier: Bools
    ordered: bool = True
    later: Sequence[tuple[str, str | None, str | None]] = ()


@dataclass(frozen=True, slots=True)
class Became:
    """The outcome of each change, unless it is undone: by an undo record that follows its first record, with its
    position or a lower one. ``undo``: the lowest position of these; null for none."""

    outcome: pa.Array
    commit_position: pa.Array
    committed_at: pa.Array
    undo: pa.Array

    @classmethod
    def delivered(cls, operations: pa.Array, committed_at: pa.Array) -> Became:
        """For the changes of committed work with these operations, as far as known. A full load (REFRESH) is in no
        transaction."""
        loaded = pc.fill_null(pc.equal(operations, str(Operation.REFRESH)), True)
        outcome, none = pa.repeat(str(Outcome.COMMITTED), len(operations)), pa.nulls(len(operations), pa.string())
        return cls(pc.if_else(loaded, none, outcome), none, committed_at, none)


def joined(first: pa.RecordBatch, then: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of two batches in one. Older pyarrow concatenates only tables."""
    if not first.num_rows or not then.num_rows:
        return first if first.num_rows else then
    (both,) = pa.Table.from_batches([first, then]).combine_chunks().to_batches()
    return both


# --- changes ----------------------------------------------------------------------------------------------------------


def assembled(
    rows: pa.RecordBatch, done: Ints, other: Ints, halves: Halves, became: Became, places: Ints
) -> pa.RecordBatch:
    """The changes whose last records are the rows ``done``, and whose other halves are the rows ``other``, -1 for
    none; ``places`` are the numbers of ``done`` among the changes."""
    kind = rows["kind"].take(pa.array(done))
    turned = (other >= 0) & as_array(pc.equal(kind, str(Kind.BEFORE)))
    # the row of a change is that of its after half
    of, pair = np.where(turned, other, done), np.where(turned, done, other)
    taken = pa.array(of)
    columns = {name: _take(rows[name], taken) for name in model.CHANGES.names if name in rows.schema.names}
    columns["before"] = _take(rows["before"], pa.array(np.where(pair >= 0, pair, of)))
    columns["kind"] = pc.if_else(pa.array(halves.alone[places]), kind, str(Kind.CHANGE))
    columns["problems"] = _problems(rows, of, pair, turned & halves.ordered, halves.alone[places])
    first, second = (other, done) if halves.ordered else (pair, of)
    columns["source_events"] = _source_events(rows, second, first)
    columns["problems"] = _with_disagreements(columns, pair >= 0)
    columns["changed_columns"], columns["change_source"] = _changed(columns)
    partner = halves.partner[places]
    at = pa.array(np.where(partner >= 0, np.minimum(partner, places), places))  # that of the first half
    is_undone = pc.fill_null(pc.less_equal(became.undo.take(at), columns["position"]), False)
    columns["outcome"] = pc.if_else(is_undone, str(Outcome.UNDONE), became.outcome.take(at))
    columns["commit_position"] = became.commit_position.take(at)
    columns["committed_at"] = became.committed_at.take(at)
    return filled(model.CHANGES, columns, len(done))


def _take(column: pa.Array, rows: pa.Array) -> pa.Array:
    """Some rows of a column, which often has only nulls."""
    return pa.nulls(len(rows), column.type) if column.null_count == len(column) else column.take(rows)


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
    asked = pc.and_(pc.and_(_comparable(columns), columns["changed_columns"].is_valid()), pa.array(whole))
    asked = pc.and_(asked, pc.equal(columns["operation"], str(Operation.UPDATE)))
    rows = np.flatnonzero(as_array(asked))
    if not len(rows):
        return problems
    by_mask = columns["changed_columns"].take(pa.array(rows))
    by_images = _differing(columns["before"], columns["after"], rows)
    both_lists = zip(rows.tolist(), by_mask.to_pylist(), by_images.to_pylist(), strict=True)
    odd = [(row, mask, images) for row, mask, images in both_lists if set(mask) != set(images)]
    found = problems.to_pylist() if odd else []
    for row, mask, images in odd:
        sentence = disagreement(_without(mask, images), _without(images, mask))
        found[row] = [*(found[row] or ()), {"code": str(Problem.MASK_IMAGES), "detail": sentence}]
    return pa.array(found, problems.type) if odd else problems


def _without(names: list[str], others: list[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name not in others))


def _changed(columns: dict[str, pa.Array]) -> tuple[pa.Array, pa.Array]:
    """The changed columns, and their source: the mask, else the images of an update."""
    masked = columns["changed_columns"].is_valid()
    update = pc.fill_null(pc.equal(columns["operation"], str(Operation.UPDATE)), False)
    compared = pc.and_(pc.and_(update, _comparable(columns)), pc.invert(masked))
    source = pc.if_else(compared, str(ChangeSource.IMAGES), pa.scalar(None, pa.string()))
    source = pc.if_else(masked, str(ChangeSource.MASK), source)
    rows = np.flatnonzero(as_array(compared))
    if not len(rows):
        return columns["changed_columns"], source
    return spliced(columns["changed_columns"], rows, _differing(columns["before"], columns["after"], rows)), source


def _comparable(columns: dict[str, pa.Array]) -> pa.Array:
    """Whether both images have columns; those of a row without a table schema have none."""
    images = (columns["before"], columns["after"])
    before, after = (as_array(maps.is_valid()) & (np.diff(maps.offsets) > 0) for maps in images)
    return pa.array(before & after)


def _differing(before: pa.MapArray, after: pa.MapArray, rows: Ints) -> pa.Array:
    """For some rows, the names in the after images whose values differ from the before images; a missing name counts as
    null."""
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    there = _found(before, rows[row], entry - after.offsets.to_numpy()[rows[row]], names)
    old = before.items.take(pa.array(there, mask=there < 0))
    return _lists(names, ~are_same(old, values), ends)


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
    offsets, valid = maps.offsets.to_numpy(), as_array(maps.is_valid())
    there = offsets[row] + place
    fits = (there < offsets[row + 1]) & valid[row]
    alike = pc.equal(maps.keys.take(pa.array(there, mask=~fits)), names)
    found = np.where(as_array(alike), there, -1)
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


def are_same(one: pa.Array, other: pa.Array) -> Bools:
    """A mask of values that are equal, or both null."""
    return as_array(pc.equal(one, other)) | as_array(pc.and_(pc.is_null(one), pc.is_null(other)))


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


def with_columns(changes: pa.RecordBatch, known: dict[str, pa.Array]) -> pa.RecordBatch:
    """Changes with some columns replaced."""
    return filled(model.CHANGES, columns_in(changes) | known, changes.num_rows)


def finished(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]], compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the keys that the option ``keys`` names (columns by ``schema.table``), and with the columns that
    updates of the record types ``compressed`` wrote."""
    return _with_written_columns(_with_keys(changes, keys), compressed)


def _with_keys(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]]) -> pa.RecordBatch:
    """Keys from the after image, else the before image, null if neither has all of their columns."""
    names = labels(changes["schema_name"], changes["table_name"])
    for table, columns in keys.items():
        rows = np.flatnonzero(as_array(are_named(names, [table])))
        if not len(rows):
            continue
        after, before = changes["after"].take(pa.array(rows)), changes["before"].take(pa.array(rows))
        last = as_array(after.is_valid())
        image = pa.concat_arrays([after, before]).take(pa.array(np.arange(len(rows)) + np.where(last, 0, len(rows))))
        row, entry, _ = _entries(image, np.arange(len(rows)))
        of_key = as_array(pc.is_in(image.keys.take(pa.array(entry)), pa.array(columns)))
        count = np.bincount(row[of_key], minlength=len(rows))
        complete = count == len(set(columns))
        kept = pa.array(entry[of_key & complete[row]])
        offsets = np.concatenate([[0], np.cumsum(np.where(complete, count, 0))])
        nulls = np.append(~complete, False)
        edges = pa.array(offsets.astype(np.int32), mask=nulls)
        found = pa.MapArray.from_arrays(edges, image.keys.take(kept), image.items.take(kept))
        changes = with_columns(changes, {"key": spliced(changes["key"], rows, found)})
    return changes


def _with_written_columns(changes: pa.RecordBatch, compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the columns that updates of the record types ``compressed`` wrote: those of the after image, without
    those with the same value in the before image, and without key columns that no before image has, since they only
    identify the row (docs/formats/goldengate.md §4.5). The source is ``log`` if any of them was not compared."""
    is_update = pc.equal(changes["operation"], str(Operation.UPDATE))
    rule = pc.and_(pc.is_in(changes["record_type"], pa.array(sorted(compressed), pa.string())), is_update)
    rows = np.flatnonzero(as_array(pc.and_(rule, changes["after"].is_valid())))
    if not len(rows):
        return changes
    before, after = changes["before"], changes["after"]
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    place = entry - after.offsets.to_numpy()[rows[row]]
    there = _found(before, rows[row], place, names)
    same = are_same(before.items.take(pa.array(there, mask=there < 0)), values)
    written = np.where(there >= 0, ~same, _found(changes["key"], rows[row], place, names) < 0)
    unseen = np.bincount(row[written & (there < 0)], minlength=len(rows)) > 0
    unseen |= as_array(before.is_null())[rows]
    source = pc.if_else(pa.array(unseen), str(ChangeSource.LOG), str(ChangeSource.IMAGES))
    known = {
        "changed_columns": spliced(changes["changed_columns"], rows, _lists(names, written, ends)),
        "change_source": spliced(changes["change_source"], rows, source),
    }
    return with_columns(changes, known)
