"""What is read of one split: its events, its part of a table, or rows that have to be compared with those of other
splits. This process, other processes of the machine, and the tasks of Spark read it in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.errors import MalformedRecordError
from cdcwb.formats.changes import Named, Read, finished
from cdcwb.formats.delivered import (
    ENDS,
    read_delivered,
    read_elsewhere,
    read_ends,
    read_ends_here,
    read_with_ends,
)
from cdcwb.formats.dissector import Assembling, Format, Joining, Plan, Wanted
from cdcwb.formats.findings import find
from cdcwb.formats.halves import Halving, halved_of
from cdcwb.formats.summaries import PARTS, read_parts

__all__ = ["SplitPart", "part_of_changes"]

_DELIVERED: Final = {
    "delivered": read_delivered,
    "elsewhere": read_elsewhere,
    "ends": read_ends,
    "counted": read_parts,
}
_SCHEMAS: Final = {
    "changes": model.CHANGES,
    "delivered": model.CHANGES,
    "ended": model.CHANGES,
    "joined": model.CHANGES,
    "ends": ENDS,
    "transactions": model.TRANSACTIONS,
    "counted": PARTS,
}
_OF_MALFORMED: Final = ("problems", "file", "offset")


def part_of_changes(form: Format) -> str:
    """The name of the part that has the changes of a split."""
    if isinstance(form, Assembling):
        return "changes"
    if isinstance(form, Joining):
        return "joined"
    return "delivered" if isinstance(form, Halving) else "ended"  # change tables do not mark the end of a transaction


@dataclass(frozen=True, slots=True)
class SplitPart:
    """What is read of a split. ``name``:

    - ``events``, or ``columns`` of them (None: all);
    - the ``changes`` that begin in it, or its ``transactions`` (:class:`cdcwb.formats.dissector.Assembling`);
    - the changes that are ``joined`` from neighbouring rows (:class:`cdcwb.formats.dissector.Joining`);
    - the changes that it has ``delivered``, or with the ends of their transactions (``ended``), the halves of updates
      whose other half may be ``elsewhere``, the ``ends`` of transactions, all transactions with their ``ends_here``, or
      their ``counted`` numbers (:mod:`cdcwb.formats.delivered`);
    - its ``findings``, which are ``unassembled`` if its changes are not assembled in it
      (:mod:`cdcwb.formats.findings`).

    ``images``, ``mode`` and ``keys`` are the options that all formats share.
    """

    name: str = "events"
    images: bool = True
    mode: str = "PERMISSIVE"
    columns: Sequence[str] | None = None
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The schema of its rows, if all have the same."""
        return _SCHEMAS.get(self.name, model.EVENTS)

    def read(
        self, form: Format, plan: Plan, split: int | None, read: Read, ends: Sequence[pa.RecordBatch] = ()
    ) -> Named:
        """Its batches, with their names. ``split`` is None for rows of a DataFrame; ``read`` reads the events; ``ends``
        are those in other splits. Raises MalformedRecordError in mode FAILFAST."""
        stops = self.mode == "FAILFAST"
        columns = self.columns
        needed = None if columns is None else frozenset([*columns, "kind", *(_OF_MALFORMED if stops else ())])
        wanted = Wanted(images=self.images, drop_malformed=self.mode == "DROPMALFORMED", columns=needed)
        checked = partial(_checked, read) if stops else read
        name = self.name
        if name in ("findings", "unassembled"):
            events = read if isinstance(form, Joining) else checked
            return find(form, plan, split if name == "findings" else None, events, wanted)
        if name == "ends_here":
            found = read_ends_here(checked, wanted, split or 0, halved_of(form, plan, split or 0))
            return ((name, batch) for batch in found)
        if name == "transactions" and isinstance(form, Assembling):
            return form.read_transactions(plan, split or 0, wanted, checked)
        batches = self._batches(form, plan, split or 0, checked, wanted, ends)
        if self.schema is model.CHANGES:
            batches = (finished(batch, self.keys, form.compressed_updates) for batch in batches)
        return ((name, batch) for batch in batches)

    def _batches(
        self, form: Format, plan: Plan, split: int, read: Read, wanted: Wanted, ends: Sequence[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        if self.name == "joined" and isinstance(form, Joining):
            return form.read_changes(plan, split, wanted)
        if self.name == "changes" and isinstance(form, Assembling):
            return form.read_changes(plan, split, wanted, read)
        if self.name == "ended":
            return read_with_ends(read, wanted, ends, halved_of(form, plan, split))
        if self.name in _DELIVERED:
            return _DELIVERED[self.name](read, wanted, halved_of(form, plan, split))
        return read(wanted)


def _checked(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Events up to the first malformed one, for which it raises MalformedRecordError."""
    if wanted.columns is not None:
        wanted = replace(wanted, columns=wanted.columns | {"kind", *_OF_MALFORMED})
    for batch in read(wanted):
        kinds = batch["kind"].to_pylist()
        if model.Kind.MALFORMED in kinds:
            row: dict[str, Any] = batch.slice(kinds.index(model.Kind.MALFORMED), 1).to_pylist()[0]
            raise MalformedRecordError(row["problems"][0]["detail"], path=row["file"], offset=row["offset"])
        yield batch
