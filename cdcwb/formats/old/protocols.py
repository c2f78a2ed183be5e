"""What formats that are not yet on the engine do in their own ways: the adapter between them and what reads captures.
It goes with the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from cdcwb.formats.dissector import Format, Pairing, Wanted

__all__ = ["WHOLE", "Halved", "Halving", "Joining", "halved_of"]


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
    (:mod:`cdcwb.formats.old.delivered`)."""

    def halved(self, plan: Any, split: int) -> Halved:
        """The locations of the halves of a split."""
        ...


WHOLE: Final = Halved(befores=False)
"""A split without halves of updates."""


def halved_of(form: Format, plan: Any = None, split: int | None = None) -> Halved:
    """How the halves of updates in a split are paired; ``split`` None: in events of which none is a before half, or
    whose halves are paired elsewhere."""
    if form.pairing is Pairing.TRANSACTION:
        return Halved(befores=split is not None, consecutive=True)
    return form.halved(plan, split) if isinstance(form, Halving) and split is not None else WHOLE


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
