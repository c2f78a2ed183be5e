"""What formats that are not yet on the engine do in their own ways: the adapter between them and what reads captures.
It goes with the last of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from cdcwb.formats.dissector import Format, Pairing, Wanted

__all__ = ["Halved", "Halving", "Joining", "Trailing", "reads_trail"]


def reads_trail(form: Format) -> bool:
    """Whether the stream of a format is a trail."""
    return form.pairing is Pairing.TRANSACTION and not form.commits


@runtime_checkable
class Trailing(Protocol):
    """A format of committed work whose transactions are consecutive in a trail, and whose changes are assembled in its
    splits (:mod:`cdcwb.formats.old.trail`)."""

    def in_splits(self, plan: Any) -> bool:
        """Whether its changes can be assembled in the splits."""
        ...

    def is_one(self, plan: Any) -> bool:
        """Whether the capture is one trail."""
        ...

    def shared(self, plan: Any) -> Sequence[frozenset[str]]:
        """The transactions of each split that other splits have too."""
        ...


@dataclass(frozen=True, slots=True)
class Halved:
    """The locations of halves of updates that are paired by position. ``befores``: whether the split has before halves.
    ``shared``: ranges of positions, first and last, in order, that several splits of the same table in files of one
    folder have, so that the halves of an update may be in two of them."""

    befores: bool = True
    shared: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class Halving(Protocol):
    """A format whose halves of updates are paired by position, in its splits if these share no position
    (:mod:`cdcwb.formats.old.delivered`)."""

    def halved(self, plan: Any, split: int) -> Halved:
        """The locations of the halves of a split."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A format whose rows of one statement are consecutive, and are joined in its splits."""

    def joins(self, plan: Any) -> bool:
        """Whether the rows of each statement in this capture are close enough to be joined in splits."""
        ...

    def read_changes(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The changes that begin in a split, as batches of :data:`cdcwb.model.CHANGES`."""
        ...

    def read_checked(self, plan: Any, split: int, wanted: Wanted) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What one pass over a split shows: ``checked``, the events with problems, including those that need other
        rows; and ``spellings``, the first event of each spelling of a table's key."""
        ...

    def read_checked_rows(self, read: Any, wanted: Wanted) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The same of events in any order, which ``read`` reads, without the problems that need other rows."""
        ...

    def key_spellings(self, rows: pa.Table) -> pa.RecordBatch:
        """The events with the problem of a key that is written in several ways, from the ``spellings`` of all
        splits."""
        ...
