"""Halves of updates that belong together, and those that may be in two splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array
from cdcwb.formats.dissector import Format, Pairing
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.model import Kind


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
