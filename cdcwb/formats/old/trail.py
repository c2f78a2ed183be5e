"""Assembles changes in their split, for a trail: a stream of committed work without begins and ends, in which the
records of a transaction are consecutive and some records are in no transaction (docs/formats/goldengate.md §5.6 and
§6). Halves of updates are paired by their order. Fragments are among the source events of the change that they
continue. A record may undo an earlier change of its transaction. What other splits know of transactions in several ones
is read before (:mod:`cdcwb.formats.old.sections`); those with undo records, or with fragments that may be apart from
their change, are assembled from the rows of all splits, by the same function (:mod:`cdcwb.formats.old.assembler`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import as_array, labels
from cdcwb.formats.changes import CHANGES, Became, Named, Read, assembled, files_changed, joined, spliced, with_columns
from cdcwb.formats.dissector import OF_CHANGES, Wanted
from cdcwb.formats.old.delivered import read_ends, read_with_ends
from cdcwb.formats.old.headers import (
    LOCATION,
    NARROW,
    NO_PATCH,
    Headers,
    Patch,
    location,
    locations,
    narrow,
)
from cdcwb.formats.old.sections import APART, sections_of
from cdcwb.formats.old.summaries import OF_ENDS, OF_PARTS, read_parts
from cdcwb.formats.requests import having, select, with_problems
from cdcwb.formats.trail import Change, outcomes
from cdcwb.model import Kind, Problem

__all__ = ["read_apart", "read_trail", "read_trail_changes", "read_trail_checked", "read_trail_sections"]

Ints = npt.NDArray[np.int64]

_KINDS: Final = frozenset((*CHANGES, str(Kind.FRAGMENT)))
_OF_FRAGMENTS: Final = ("transaction_id", "headers", *(field.name for field in model.SOURCE_EVENT))


def read_trail_changes(read: Read, wanted: Wanted, patch: Patch = NO_PATCH) -> Iterator[pa.RecordBatch]:
    """The changes that begin in a split, without those of the transactions ``patch.apart``, in the order of the last of
    their records, as a batch of :data:`cdcwb.model.CHANGES`. Like those of
    :func:`cdcwb.formats.old.delivered.read_delivered`, they lack the facts from the end of their transaction. Without
    images, undone changes are not found."""
    needed = replace(wanted, kinds=_KINDS, columns=frozenset(OF_CHANGES))
    batches = (_without(batch, patch.apart) for batch in read(needed))
    events, fragments = _divided(batches, model.EVENTS.names)
    for rows in events.combine_chunks().to_batches():
        yield _with_outcomes(_with_fragments(_paired(rows, wanted, patch), rows, fragments))


def read_trail(read: Read, wanted: Wanted, patch: Patch = NO_PATCH) -> Iterator[pa.RecordBatch]:
    """The same with the facts from the end of their transactions, for a capture of one trail: another one may have
    the same transactions in any of its splits."""
    return read_with_ends(read, wanted, lambda events: read_trail_changes(events, wanted, patch), patch, trail=True)


def _without(rows: pa.RecordBatch, names: pa.Array) -> pa.RecordBatch:
    """The rows that are not of these transactions."""
    return rows.filter(pc.invert(pc.is_in(rows["transaction_id"], names))) if len(names) else rows


def _divided(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The events of changes with these columns, and the fragments."""
    events, fragments = [], []
    for rows in batches:
        fragments.append(rows.select(list(_OF_FRAGMENTS)).filter(pc.equal(rows["kind"], str(Kind.FRAGMENT))))
        events.append(rows.select(list(columns)).filter(pc.is_in(rows["kind"], pa.array(CHANGES))))
    of_events, of_fragments = (pa.schema(map(model.EVENTS.field, names)) for names in (columns, _OF_FRAGMENTS))
    return pa.Table.from_batches(events, of_events), pa.Table.from_batches(fragments, of_fragments)


def read_trail_sections(read: Read, wanted: Wanted, split: int, shared: frozenset[str]) -> Named:
    """The sections of the transactions ``shared`` with other splits (:mod:`cdcwb.formats.old.sections`), their ``ends``
    (:data:`cdcwb.formats.old.delivered.ENDS`), and those that need all of their rows together (``apart``): with a
    record that undoes another one, which is found by its images, or with a fragment whose change may be in another
    split."""
    if not shared:
        return
    columns = (*dict.fromkeys((*NARROW.names[:-1], *OF_ENDS, "headers", "problems")),)
    found = [*read(replace(wanted, images=False, transactions=shared, columns=frozenset(columns)))]
    sections, runs = sections_of(Headers(pa.Table.from_batches([narrow(rows, False) for rows in found], NARROW)), split)
    yield from (("sections", sections), ("runs", runs))
    yield from (("ends", rows) for rows in read_ends(lambda _: iter(found), wanted, trail=True))
    events, fragments = _divided(found, columns)
    inside = pa.array([], pa.string())
    for rows in events.combine_chunks().to_batches():
        yield "apart", rows.filter(_undoes(rows["headers"])).select(APART.names)
        waiting = runs.filter(pc.greater(runs["head"], 0))  # the change of these may begin in an earlier split
        inside = _names(rows).filter(pa.array(~np.isin(locations(rows), locations(waiting))))
    lost = fragments.filter(pc.invert(pc.is_in(_continued(fragments), inside))).select(APART.names)
    yield from (("apart", rows) for rows in lost.to_batches())


def read_trail_checked(read: Read, wanted: Wanted, patch: Patch = NO_PATCH) -> Named:
    """What one pass over a split shows: ``checked``, the events with problems; ``changes``, if halves of updates may
    have problems; ``parts`` of transactions (:mod:`cdcwb.formats.old.summaries`); and the events of the transactions
    ``patch.apart``, without images, which are read once more."""
    columns = [*dict.fromkeys((*NARROW.names[:-1], *OF_PARTS, "headers"))]
    needed = None if wanted.columns is None else wanted.columns.union(columns)
    found: list[pa.RecordBatch] = []
    for batch in read(replace(wanted, drop_malformed=False, columns=needed)):
        yield "checked", with_problems(batch)
        found.extend(select(batch.select(columns), wanted))
    headers = pa.Table.from_batches([narrow(_without(batch, patch.apart), False) for batch in found], NARROW)
    wanted = replace(wanted, images=False, columns=frozenset(OF_CHANGES))
    if _wrongly_halved(Headers(headers, patch)):  # rare enough to read the split once more
        for changes in read_trail_changes(read, wanted, patch):
            yield "changes", changes
    yield from (("parts", rows) for rows in read_parts(lambda _: iter(found), wanted, trail=True, patch=patch))
    yield from (("apart", rows) for rows in read_apart(read, wanted, patch))


def read_apart(read: Read, wanted: Wanted, patch: Patch) -> Iterator[pa.RecordBatch]:
    """The events of the transactions ``patch.apart`` in a split, as batches of :data:`cdcwb.model.EVENTS`."""
    if len(patch.apart):
        yield from read(replace(wanted, transactions=frozenset(patch.apart.to_pylist())))


# --- halves of updates ----------------------------------------------------------------------------------------------


def _wrongly_halved(headers: Headers) -> bool:
    """Whether a half of an update lacks the other one, or an after half precedes its before half."""
    halves, count = headers.halves(), len(headers.change)
    precedes = headers.are(Kind.AFTER)[headers.change] & (halves.partner[:count] > np.arange(count))
    return bool(halves.alone.any() or precedes.any())


def _paired(rows: pa.RecordBatch, wanted: Wanted, patch: Patch = NO_PATCH) -> pa.RecordBatch:
    """The changes of committed work that begin in a split, from all their events of it in capture order, in the order
    of the last of their records. They lack the facts from the end of their transaction."""
    headers = Headers(pa.Table.from_batches([narrow(rows, False)]), patch)
    halves = headers.halves()
    for later in _later_halves(headers, wanted):
        rows = joined(rows, later)
    done = np.flatnonzero((halves.partner < np.arange(rows.num_rows)) & ~halves.earlier)
    return assembled(rows, done, halves.partner[done], halves, Became.delivered(rows), done)


def _later_halves(headers: Headers, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The halves in later splits that belong to those of this one, in the order of ``headers.later``."""
    later = headers.later
    if not later.num_rows:
        return
    read = headers.patch.read
    assert read is not None
    places, splits = locations(later), later["other_split"].to_numpy()
    found = []
    for split in np.unique(splits).tolist():
        left = places[splits == split]
        names = later["transaction_id"].filter(pa.array(splits == split)).to_pylist()
        needed = replace(wanted, kinds=frozenset(CHANGES), columns=frozenset(OF_CHANGES), transactions=frozenset(names))
        for rows in read(split, needed):
            here = np.isin(locations(rows), left)
            found.append(rows.filter(pa.array(here)))
            left = np.setdiff1d(left, locations(found[-1]))
            if not len(left):
                break
        else:
            raise files_changed()
    (rows,) = pa.Table.from_batches(found).combine_chunks().to_batches()
    order = np.argsort(locations(rows))
    yield rows.take(pa.array(order[np.searchsorted(locations(rows), places, sorter=order)]))


# --- fragments --------------------------------------------------------------------------------------------------------


def _with_fragments(changes: pa.RecordBatch, events: pa.RecordBatch, fragments: pa.Table) -> pa.RecordBatch:
    """Changes with the fragments that continue their ``events`` among their source events. A fragment names the event
    in the header ``continues``: by position, or by ``file_index:offset`` if an event has no position or that of a
    different preceding one."""
    continued = _continued(fragments)
    if continued.null_count == len(continued):
        return changes
    names = _names(events)
    heads = np.flatnonzero(as_array(pc.is_in(names, continued.drop_null())))
    by_name: dict[str, list[dict[str, int]]] = defaultdict(list)
    places = fragments.select(list(_OF_FRAGMENTS[2:])).to_pylist()
    for name, place in zip(continued.to_pylist(), places, strict=True):
        if name is not None:
            by_name[name].append(place)
    number = locations(events)[heads]
    of_head = dict(zip(number.tolist(), names.take(pa.array(heads)).to_pylist(), strict=True))
    sources = changes["source_events"]
    of = pc.list_parent_indices(sources).to_numpy()
    at = np.unique(of[np.isin(locations(pc.list_flatten(sources)), number)])
    more = [
        [one for event in mine for one in (event, *by_name.get(of_head.get(location(**event), ""), ()))]
        for mine in sources.take(pa.array(at)).to_pylist()
    ]
    return with_columns(changes, {"source_events": spliced(sources, at, pa.array(more, sources.type))})


def _continued(fragments: pa.Table) -> pa.ChunkedArray:
    """The names of the events that fragments continue."""
    return _named(fragments["transaction_id"], pc.map_lookup(fragments["headers"], "continues", "first"))


def _names(events: pa.RecordBatch) -> pa.Array:
    """The names by which fragments refer to events."""
    location = pc.binary_join_element_wise(*(events[name].cast(pa.string()) for name in LOCATION), ":")
    again = pa.array(having(events["problems"], Problem.SAME_POSITION))
    return _named(events["transaction_id"], pc.if_else(again, location, pc.coalesce(events["position"], location)))


def _named(transactions: pa.Array, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.fill_null(transactions, ""), names, "\0")


# --- undo -------------------------------------------------------------------------------------------------------------

_FLAG: Final = "UndoFlag"
"""The header that is 1 if a record undoes an earlier one."""


def _with_outcomes(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Changes with the outcomes of those that undo others or are undone."""
    undoes = _undoes(changes["headers"])
    undoing = changes["transaction_id"].filter(undoes).drop_null()
    if not len(undoing):
        return changes
    at = np.flatnonzero(as_array(pc.is_in(changes["transaction_id"], undoing)))
    some = changes.take(pa.array(at))
    tables, flags = labels(some["schema_name"], some["table_name"]).to_pylist(), undoes.take(pa.array(at)).to_pylist()
    images = ("key", "before", "after")
    rows = some.select(["transaction_id", *LOCATION, "position", "operation", *images]).to_pylist()
    each: dict[str, list[Change]] = defaultdict(list)
    for number, row, table, flag in zip(at.tolist(), rows, tables, flags, strict=True):
        maps = {name: None if row[name] is None else dict(row[name]) for name in images}
        each[row["transaction_id"]].append({**row, **maps, "table": table, "undoes": flag, "number": number})
    found: dict[int, str] = {}
    for mine in each.values():
        mine.sort(key=lambda one: (one["position"] is None, one["position"], one["file_index"], one["offset"]))
        found |= {mine[index]["number"]: outcome for index, outcome in outcomes(mine).items()}
    numbers = np.array(list(found))
    outcome = spliced(changes["outcome"], numbers, pa.array(found.values(), pa.string()))
    return with_columns(changes, {"outcome": outcome})


def _undoes(headers: pa.MapArray) -> pa.Array:
    """Whether records undo earlier ones."""
    return pc.fill_null(pc.equal(pc.map_lookup(headers, _FLAG, "first"), "1"), False)
