"""Readers of records and unions, and which reader a type has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdcwb.formats.avro.blocks import Entries, Items
from cdcwb.formats.avro.columns import struct_of
from cdcwb.formats.avro.compound import Compound
from cdcwb.formats.avro.cursors import Bools, Cursors, Ints
from cdcwb.formats.avro.leaves import ByHand, Keys, Reader, leaf
from cdcwb.formats.avro.nodes import Array, Map, Node, Record, Recursive, Union, arrow_field
from cdcwb.formats.avro.selection import Selection

__all__ = ["RecordReader", "reader"]


def reader(node: Node, wanted: Selection | None = None) -> Reader:
    """The reader of a type; ``wanted``: the fields of the record that it is, or may be, None: all."""
    if isinstance(node, Record):
        return RecordReader(node, wanted)
    if isinstance(node, Union):
        return _union(node, wanted)
    if isinstance(node, Array):
        return Items(node.arrow, reader(node.items), node.items.least)
    if isinstance(node, Map):
        return Entries(node.arrow, _Entry(node), 1 + node.values.least)
    if isinstance(node, Recursive):
        return ByHand(node.arrow)
    return leaf(node)


class _Fields(Compound):
    """Fields one behind the other; those that are not wanted are skipped."""

    def __init__(self, kind: pa.StructType, steps: list[tuple[Reader, bool]]) -> None:
        self.type = kind
        self._steps = steps

    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""
        valid = cursors.live
        children = []
        for one, is_wanted in self._steps:
            if is_wanted:
                children.append(one.read(cursors, None))
            else:
                one.skip(cursors, None)
        return struct_of(self.type, children, len(cursors), valid)

    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows."""
        for one, _ in self._steps:
            one.skip(cursors, None)


class RecordReader(_Fields):
    """The fields of a record that are wanted (None: all)."""

    def __init__(self, node: Record, wanted: Selection | None) -> None:
        steps: list[tuple[Reader, bool]] = []
        fields = []
        for name, inner in node.fields.items():
            if wanted is None or name in wanted:
                one = reader(inner, None if wanted is None else wanted[name])
                fields.append(arrow_field(name, inner).with_type(one.type))
                steps.append((one, True))
            else:
                steps.append((reader(inner), False))
        super().__init__(pa.struct(fields), steps)


class _Entry(_Fields):
    """Key and value of a map."""

    def __init__(self, node: Map) -> None:
        kind = pa.struct([node.arrow.key_field, node.arrow.item_field])
        super().__init__(kind, [(Keys(), True), (reader(node.values), True)])


# --- unions -----------------------------------------------------------------------------------------------------------


def _union(node: Union, wanted: Selection | None) -> Reader:
    members = [reader(member, wanted if isinstance(member, Record) else None) for member in node.members]
    if len(members) == 2 and node.places.count(None) == 1:
        null_at = node.places.index(None)
        return _Nullable(members[1 - null_at], null_at)
    return _Union(node, members)


class _Nullable(Compound):
    """Null or one other type."""

    def __init__(self, inner: Reader, null_at: int) -> None:
        self.type = inner.type
        self._inner = inner
        self._null_at = null_at

    def _present(self, cursors: Cursors) -> tuple[Bools | None, int]:
        """Which rows have a value (None: all), and how many."""
        indexes = cursors.indexes()
        if self._null_at:
            indexes ^= 1
        present = indexes.view(np.bool_)
        if cursors.live is not None:
            present &= cursors.live
        count = int(np.count_nonzero(present))
        return (None if count == len(present) else present), count

    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""
        present, count = self._present(cursors)
        if present is not None and count == 0:
            return pa.nulls(len(cursors), self.type)
        return self._inner.read(cursors, present)

    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows."""
        present, count = self._present(cursors)
        if count:
            self._inner.skip(cursors, present)


class _Union(Compound):
    """One of any types."""

    def __init__(self, node: Union, members: list[Reader]) -> None:
        self._members = members
        self._places = node.places
        self._several = node.several
        self.type = node.arrow
        others = [member for member, place in zip(members, node.places, strict=True) if place is not None]
        if not node.several and others:
            self.type = others[0].type

    def _present(self, cursors: Cursors) -> Ints:
        """The member of each row; -1 where there is none, or the row does not take part."""
        numbers = cursors.numbers()
        wrong = (numbers < 0) | (numbers >= len(self._members))
        if wrong.any():
            cursors.fail(wrong)
        return numbers if cursors.live is None else np.where(cursors.live, numbers, -1)

    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""
        count = len(cursors)
        numbers = self._present(cursors)
        children = []
        null = np.ones(count, dtype=np.bool_)
        for number, (member, place) in enumerate(zip(self._members, self._places, strict=True)):
            if place is None:
                continue
            present = numbers == number
            null &= ~present
            if present.any():
                children.append(member.read(cursors, None if present.all() else present))
            else:
                children.append(pa.nulls(count, member.type))
        if self._several:
            return struct_of(self.type, children, count, ~null if null.any() else None)
        return children[0] if children else pa.nulls(count, self.type)

    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows."""
        numbers = self._present(cursors)
        for number, (member, place) in enumerate(zip(self._members, self._places, strict=True)):
            present = numbers == number
            if place is not None and present.any():
                member.skip(cursors, None if present.all() else present)
