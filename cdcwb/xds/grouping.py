"""Polling cycles, events and documents: which rows go together, and their numbers
(docs/formats/idm-event-log.md §4.3, §4.6, §4.7).

Numbers run through the whole log. Where rows are numbered part by part, :func:`span_of` sums up a part, and
:meth:`Carry.after` says with which :class:`Carry` the part behind it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.xds.rows import NUMBERS
from cdcwb.xds.settings import Settings
from cdcwb.xds.vectors import Bools, Ints, codes, flags, numbers

__all__ = ["START", "Carry", "Group", "Span", "add_cycles", "number_events", "span_of", "with_cycles"]


@dataclass(frozen=True, slots=True)
class Group:
    """What rows of one event have in common."""

    table_name: str
    table_key: str
    verb: str
    cycle: int


@dataclass(frozen=True, slots=True)
class Span:
    """Some published rows that follow each other. ``events``: how many events of each polling cycle begin in them, as
    pairs of cycle and number, if an event begins with the first row."""

    first: Group
    last: Group
    events: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Carry:
    """Where numbering stands: events and documents so far, the group of the last row (None: no row yet), and how many
    events its polling cycle has so far."""

    event: int = 0
    document: int = 0
    group: Group | None = None
    in_cycle: int = 0

    def after(self, span: Span | None, settings: Settings) -> Carry:
        """Where numbering stands behind these rows; None: there are none."""
        if span is None:
            return self
        event, document, in_cycle = self.event, self.document, self.in_cycle
        cycle = self.group.cycle if self.group is not None else None
        for place, (here, begun) in enumerate(span.events):
            new = begun - (1 if place == 0 and span.first == self.group else 0)
            before = in_cycle if here == cycle else 0
            document += _documents(before + new, settings) - _documents(before, settings)
            event, in_cycle, cycle = event + new, before + new, here
        return Carry(event, document, span.last, in_cycle)


START: Final = Carry()
"""Before the first row."""


def _documents(events: int, settings: Settings) -> int:
    return -(-events // settings.batch_size)


def with_cycles(rows: pa.Table, settings: Settings, first: int = 0) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.CYCLE` to rows in processing order, before which ``first`` others are
    polled."""
    polled = flags(rows["polled"])
    return add_cycles(rows, np.cumsum(polled) - 1 + first, polled, settings)


def add_cycles(rows: pa.Table, ordinal: Ints, polled: Bools, settings: Settings) -> pa.Table:
    """Adds the columns from the place of each polled row among all polled rows, from 0."""
    rows = rows.append_column("ordinal", pa.array(ordinal, mask=~polled))
    return rows.append_column("cycle", pa.array(ordinal // settings.query_limit, mask=~polled))


def number_events(rows: pa.Table, settings: Settings, carry: Carry = START) -> tuple[pa.Table, Carry]:
    """Adds the columns of :data:`cdcwb.xds.rows.NUMBERS` to published rows in processing order; and where numbering
    stands behind them. Rows that follow each other and are of one object, verb and cycle are one event; a document
    has up to ``batch_size`` events and ends with its cycle."""
    if rows.num_rows == 0:
        empty = pa.array([], pa.int64())
        return _with(rows, empty, empty), carry
    begins = _begins(rows)
    begins[0] = _group(rows, 0) != carry.group
    cycle = numbers(rows["cycle"])
    event = np.cumsum(begins) + carry.event
    # how many events of its cycle begin up to each row
    new_cycle = np.flatnonzero(np.append(True, cycle[1:] != cycle[:-1]))
    before = event[new_cycle] - begins[new_cycle]
    if carry.group is not None and carry.group.cycle == cycle[0]:
        before[0] -= carry.in_cycle
    in_cycle = event - np.repeat(before, np.diff(np.append(new_cycle, len(cycle))))
    opens = begins & ((in_cycle - 1) % settings.batch_size == 0)
    document = np.cumsum(opens) + carry.document
    behind = Carry(int(event[-1]), int(document[-1]), _group(rows, -1), int(in_cycle[-1]))
    return _with(rows, pa.array(event), pa.array(document)), behind


def span_of(rows: pa.Table) -> Span | None:
    """The same rows summed up, without their numbers; None: there are none."""
    if rows.num_rows == 0:
        return None
    cycle = numbers(rows["cycle"])[_begins(rows)]
    there, count = np.unique(cycle, return_counts=True)
    events = tuple(zip(there.tolist(), count.tolist(), strict=True))
    return Span(_group(rows, 0), _group(rows, -1), events)


def _begins(rows: pa.Table) -> Bools:
    """Does an event begin with the row? The first row counts as one that begins."""
    group = codes(rows["table_name"], rows["table_key"])
    verb = codes(rows["verb"])
    cycle = numbers(rows["cycle"])
    begins = np.ones(rows.num_rows, dtype=np.bool_)
    begins[1:] = (group[1:] != group[:-1]) | (verb[1:] != verb[:-1]) | (cycle[1:] != cycle[:-1])
    return begins


def _group(rows: pa.Table, place: int) -> Group:
    row = rows.num_rows + place if place < 0 else place
    return Group(*(rows[name][row].as_py() for name in ("table_name", "table_key", "verb", "cycle")))


def _with(rows: pa.Table, event: pa.Array, document: pa.Array) -> pa.Table:
    for name, values in zip(NUMBERS.names, (event, document), strict=True):
        rows = rows.append_column(name, pc.cast(values, pa.int64()))
    return rows
