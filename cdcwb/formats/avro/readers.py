"""Readers of Avro types: each moves the cursors of many values over one field, and returns an Arrow array. Rows that
are not ``present`` (None: all are) lack the field: their cursors do not move, and their values are null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import gather
from cdcwb.formats.avro.cursors import Bools, Cursors, Ints
from cdcwb.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Recursive,
    Selection,
    Union,
    arrow_field,
)
from cdcwb.formats.avro.text import RANGES, check_uuid

__all__ = ["RecordReader", "null_inside"]


# --- columns ----------------------------------------------------------------------------------------------------------

_SIGN: Final = np.int64(63)


def bitmap(valid: Bools | None) -> Any:
    """A validity bitmap, None if all are valid."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed_width(kind: pa.DataType, values: Any, valid: Bools | None) -> pa.Array:
    """An array over the memory of a numpy array."""
    return pa.Array.from_buffers(kind, len(values), [bitmap(valid), pa.py_buffer(values)])


def struct_of(kind: pa.StructType, children: list[pa.Array], count: int, valid: Bools | None) -> pa.Array:
    """A struct of ``count`` rows, also without fields."""
    return pa.Array.from_buffers(kind, count, [bitmap(valid)], children=children)


def null_inside(array: pa.Array) -> pa.Array:
    """The same values, with everything inside a null struct null as well."""
    kind = array.type
    if pa.types.is_struct(kind):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        children = [null_inside(child) for child in array.flatten()]
        return struct_of(kind, children, len(array), None if valid.all() else valid)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = null_inside(array.values)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[inner])
    return array


def not_utf8(texts: pa.StringArray) -> Bools | None:
    """A mask of texts that are not UTF-8; None if all are. ``texts`` begins at the beginning of its buffers."""
    data = texts.buffers()[2]
    count = len(texts)
    if data is None or count == 0:
        return None
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32, count=count + 1)
    size = int(offsets[-1])
    if size == 0 or np.frombuffer(data, dtype=np.uint8, count=size).max() < 0x80:
        return None
    try:
        texts.validate(full=True)
        return None
    except pa.ArrowInvalid:
        raw = data.to_pybytes()
        ends = offsets.tolist()
        return np.array([_broken(raw[a:b]) for a, b in pairwise(ends)])


def _broken(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def decimals(cursors: Cursors, start: Ints, end: Ints, limbs: int) -> tuple[Ints, Bools | None]:
    """Big-endian numbers as little-endian words of 64 bits, a row of ``limbs`` for each; and a mask of those that need
    more. No bytes are 0. A number is read from its end, eight bytes at a time, and its sign is extended.
    """
    length = end - start
    longest = int(length.max(initial=0))
    numbers: Ints = np.empty((len(start), limbs), dtype=np.int64)
    for limb in range(limbs):
        if limb and longest <= 8 * limb:
            numbers[:, limb] = numbers[:, limb - 1] >> _SIGN
            continue
        there = np.clip(length - 8 * limb, 0, 8)
        unused = 64 - 8 * there
        word: Ints = cursors.words[end - 8 * (limb + 1)].byteswap().view(np.int64)
        word <<= unused  # by 64: 0
        word >>= unused
        if limb:
            word = np.where(there == 0, numbers[:, limb - 1] >> _SIGN, word)
        numbers[:, limb] = word
    return numbers, (length > 8 * limbs if longest > 8 * limbs else None)


def too_many_digits(numbers: Ints, precision: int) -> Bools | None:
    """A mask of the numbers from :func:`decimals` with more than ``precision`` digits; None if there are none."""
    most = 10**precision - 1
    low, sign = numbers[:, 0], numbers[:, 0] >> _SIGN
    if all(np.array_equal(numbers[:, limb], sign) for limb in range(1, numbers.shape[1])):
        if most >= 1 << 63 or (low.min(initial=0) >= -most and low.max(initial=0) <= most):
            return None
        outside: Bools = (low < -most) | (low > most)
        return outside
    found: Bools = _compare(numbers, most) | ~(_compare(numbers, -most - 1))
    return found if found.any() else None


def _compare(numbers: Ints, limit: int) -> Bools:
    """A mask of the numbers greater than ``limit``."""
    limbs = numbers.shape[1]
    words = (limit % (1 << (64 * limbs))).to_bytes(8 * limbs, "little")
    greater = np.zeros(len(numbers), dtype=np.bool_)
    equal = np.ones(len(numbers), dtype=np.bool_)
    for limb in reversed(range(limbs)):
        part = words[8 * limb : 8 * limb + 8]
        if limb == limbs - 1:  # the sign is in the highest
            theirs, other = numbers[:, limb], np.frombuffer(part, dtype="<i8")[0]
        else:
            theirs, other = numbers[:, limb].view(np.uint64), np.frombuffer(part, dtype="<u8")[0]
        greater |= equal & (theirs > other)
        equal &= theirs == other
    return greater


# --- compound ---------------------------------------------------------------------------------------------------------


class Compound(ABC):
    """A reader that gets only present rows: the others are left out, or parked if they are few."""

    type: pa.DataType

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """See :class:`cdcwb.formats.avro.readers.Reader`."""
        if present is None:
            return self.read_all(cursors)
        rows = np.flatnonzero(present)
        if 2 * len(rows) >= len(cursors):
            away = cursors.send_away(~present)
            found = self.read_all(cursors)
            cursors.bring_back(away)
            return found
        part = cursors.part(rows)
        found = self.read_all(part)
        cursors.join(part, rows)
        places = np.zeros(len(cursors), dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return found.take(pa.array(places, mask=~present))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """See :class:`cdcwb.formats.avro.readers.Reader`."""
        if present is None:
            self.skip_all(cursors)
            return
        rows = np.flatnonzero(present)
        part = cursors.part(rows)
        self.skip_all(part)
        cursors.join(part, rows)

    @abstractmethod
    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""

    @abstractmethod
    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows."""


# --- leaves -----------------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """Reads or skips one field of many rows."""

    type: pa.DataType

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """The next value of each row; moves the cursors after it. Null if the row is not present or not live."""
        ...

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """Moves the cursors after the next value."""
        ...


def leaf(node: Node) -> Reader:
    """The reader of a type with one value."""
    if isinstance(node, Enum):
        return _Symbols(node)
    if isinstance(node, Fixed):
        return _decimal(node, _Fixed(node.arrow, node.size)) if node.logical else _Fixed(node.arrow, node.size)
    assert isinstance(node, Primitive)
    if node.kind in ("int", "long"):
        return _Whole(node)
    if node.kind in ("float", "double"):
        return _Float(node.arrow)
    if node.kind in ("bytes", "string"):
        runs = _Runs(node.arrow)
        return _decimal(node, runs) if node.logical == "decimal" else _Uuid() if node.logical else runs
    return _Boolean() if node.kind == "boolean" else _Null()


def _valid(cursors: Cursors, present: Bools | None) -> Bools | None:
    return cursors.live if present is None else present


class _Null:
    type = pa.null()

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        return pa.nulls(len(cursors))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        pass


class _Boolean:
    type = pa.bool_()

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        values = cursors.bytes(present)
        if values.max(initial=0) > 1:
            cursors.fail(values > 1)
        valid = bitmap(_valid(cursors, present))
        packed = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(self.type, len(values), [valid, packed])

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        cursors.move(1, present)


class _Whole:
    """Numbers, dates and times: varints in some range."""

    def __init__(self, node: Primitive) -> None:
        self.type = node.arrow
        self._range = RANGES.get(node.logical or node.kind)
        self._width = np.int32 if node.kind == "int" else np.int64

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        numbers = cursors.numbers(present)
        if self._range is not None:
            least, most = self._range
            if numbers.min(initial=0) < least or numbers.max(initial=0) > most:
                cursors.fail((numbers < least) | (numbers > most))
        return fixed_width(self.type, numbers.astype(self._width, copy=False), _valid(cursors, present))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        cursors.skip_numbers(present)


class _Float:
    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self._size = kind.bit_width // 8

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        words = cursors.words[cursors.move(self._size, present)]
        values: Any = words if self._size == 8 else words.astype(np.uint32)  # the lower half
        return fixed_width(self.type, values, _valid(cursors, present))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        cursors.move(self._size, present)


class _Symbols:
    """The symbols of an enum by their numbers."""

    type = pa.string()

    def __init__(self, node: Enum) -> None:
        self._count = len(node.symbols)
        self._symbols = pa.array(node.symbols, self.type)

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        numbers = cursors.numbers(present)
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= self._count:
            out = (numbers < 0) | (numbers >= self._count)
            cursors.fail(out if present is None else out & present)
            numbers = np.where(out, 0, numbers)
        if not self._count:
            return pa.nulls(len(cursors), self.type)
        places = fixed_width(pa.int64(), numbers, _valid(cursors, present))
        return self._symbols.take(places)

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        cursors.skip_numbers(present)


class _Runs:
    """Texts and bytes with their lengths."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind

    def places(self, cursors: Cursors, present: Bools | None) -> tuple[Ints, Ints]:
        """The start and end of the values."""
        return cursors.spans(present)

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        start, end = self.places(cursors, present)
        found = gather(self.type, cursors.buffer, start, end, self._valid(cursors, present))
        if self.type == pa.string():
            broken = not_utf8(found)
            if broken is not None:
                cursors.fail(broken)
        return found

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        self.places(cursors, present)

    def _valid(self, cursors: Cursors, present: Bools | None) -> Bools | None:
        return _valid(cursors, present)


class Keys(_Runs):
    """Keys of maps: texts, which must not be null in Arrow, even in a bad row."""

    def __init__(self) -> None:
        super().__init__(pa.string())

    def _valid(self, cursors: Cursors, present: Bools | None) -> Bools | None:
        return None


class _Fixed(_Runs):
    """Bytes of one length."""

    def __init__(self, kind: pa.DataType, size: int) -> None:
        super().__init__(kind)
        self._size = size

    def places(self, cursors: Cursors, present: Bools | None) -> tuple[Ints, Ints]:
        return cursors.fixed(self._size, present)


_UUID: Final = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"


class _Uuid(_Runs):
    """Texts that are a UUID in any form that Python reads."""

    def __init__(self) -> None:
        super().__init__(pa.string())

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        found = super().read(cursors, present)
        usual = pc.match_substring_regex(found, _UUID).fill_null(True)
        rare = ~usual.to_numpy(zero_copy_only=False)
        if cursors.live is not None:  # without invalid texts
            rare &= cursors.live
        if rare.any():
            wrong = np.zeros(len(cursors), dtype=np.bool_)
            for row in np.flatnonzero(rare):
                wrong[row] = check_uuid(found[int(row)].as_py()) is not None
            cursors.fail(wrong)
        return found


class _Decimal:
    """Decimals from big-endian numbers."""

    def __init__(self, node: Primitive | Fixed, runs: _Runs) -> None:
        self.type = node.arrow
        self._runs = runs
        self._precision = node.precision
        self._limbs = self.type.bit_width // 64

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        start, end = self._runs.places(cursors, present)
        numbers, longer = decimals(cursors, start, end, self._limbs)
        if longer is not None:
            cursors.hand_over(longer)
            numbers[longer] = 0
        beyond = too_many_digits(numbers, self._precision)
        if beyond is not None:
            cursors.fail(beyond)
        return fixed_width(self.type, numbers, _valid(cursors, present))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        self._runs.skip(cursors, present)


def _decimal(node: Primitive | Fixed, runs: _Runs) -> Reader:
    return ByHand(node.arrow, runs) if node.arrow == pa.string() else _Decimal(node, runs)


class ByHand:
    """Leaves every row with such a field to the slow path. ``skipper`` skips the field; None: skipping is left to the
    slow path too."""

    def __init__(self, kind: pa.DataType, skipper: Reader | None = None) -> None:
        self.type = kind
        self._skipper = skipper

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """Leaves the rows to the slow path."""
        cursors.hand_over(np.ones(len(cursors), dtype=np.bool_) if present is None else present)
        return pa.nulls(len(cursors), self.type)

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """Skips the field, or leaves the rows to the slow path."""
        if self._skipper is None:
            self.read(cursors, present)
        else:
            self._skipper.skip(cursors, present)


# --- blocks -----------------------------------------------------------------------------------------------------------

_FEW: Final = 24
"""The number of rows below which reading them one by one is cheaper than another step over all."""

_STEPS: Final = 16
"""The number of items up to which no row is left to the slow path."""

_CHUNKS: Final = 256
"""Steps whose items are combined, since the overhead of small arrays exceeds their content."""


class Items(Compound):
    """Items in blocks: reads the next item of all rows that have one, repeatedly."""

    def __init__(self, kind: pa.DataType, items: Reader, least: int) -> None:
        self.type = kind
        self._items = items
        self._least = least

    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""
        valid = cursors.live
        chunks, rows = self._each(cursors, self._items.read)
        return self._build(cursors, chunks, rows, valid)

    def _build(self, cursors: Cursors, chunks: list[pa.Array], rows: list[Ints], valid: Bools | None) -> pa.Array:
        owners = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        items = pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._items.type)
        if len(chunks) > 1:
            items = items.take(pa.array(np.argsort(owners, kind="stable")))
        offsets = np.zeros(len(cursors) + 1, dtype=np.int32)
        np.cumsum(np.bincount(owners, minlength=len(cursors)), out=offsets[1:])
        buffers = [bitmap(valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self.type, len(cursors), buffers, children=[items])

    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows. The size of a block is ignored, since it may be wrong."""
        self._each(cursors, None)

    def _each(
        self, cursors: Cursors, read: Callable[[Cursors, Bools | None], pa.Array] | None
    ) -> tuple[list[pa.Array], list[Ints]]:
        """The first items of all rows, the second, …, and the rows that have them; None: skips them."""
        chunks: list[pa.Array] = []
        owners: list[Ints] = []
        left, stop = self._block(cursors)
        rows = np.flatnonzero(left)
        left, stop = left[rows], stop[rows]
        part = cursors.part(rows)
        step = 0
        while len(rows):
            if step >= _STEPS and len(rows) < _FEW:
                part.hand_over(np.ones(len(rows), dtype=np.bool_))
                cursors.join(part, rows)
                break
            if read is None:
                self._items.skip(part, None)
            else:
                chunks.append(read(part, None))
                owners.append(rows)
                if step % _CHUNKS == _CHUNKS - 1:
                    chunks[-_CHUNKS:] = [pa.concat_arrays(chunks[-_CHUNKS:])]
                    owners[-_CHUNKS:] = [np.concatenate(owners[-_CHUNKS:])]
            step += 1
            left -= 1
            ended = np.flatnonzero(left == 0)
            if len(ended):
                few = part.part(ended)
                if read is not None:
                    wrong = (stop[ended] >= 0) & (stop[ended] != few.at)
                    if wrong.any():
                        few.fail(wrong)
                left[ended], stop[ended] = self._block(few)
                part.join(few, ended)
            stay = left > 0 if part.live is None else (left > 0) & part.live
            if not stay.all():
                cursors.join(part, rows)
                rows, left, stop = rows[stay], left[stay], stop[stay]
                part = cursors.part(rows)
        return chunks, owners

    def _block(self, cursors: Cursors) -> tuple[Ints, Ints]:
        """The number of items of the next block of each row, and its end (-1: not given)."""
        counts = cursors.numbers()
        stop = np.full(len(counts), -1, dtype=np.int64)
        if counts.min(initial=0) < 0:
            rows = np.flatnonzero(counts < 0)
            few = cursors.part(rows)
            sizes = few.numbers()
            stop[rows] = few.at + np.clip(sizes, -1, len(few.buffer))
            cursors.join(few, rows)
            counts[rows] *= -1
        most = (cursors.end - cursors.at) // max(self._least, 1)
        too_many = (counts < 0) | (counts > most)
        if self._least == 0:
            cursors.hand_over(counts != 0)
        elif too_many.any():
            cursors.fail(too_many)
        return (counts if cursors.live is None else np.where(cursors.live, counts, 0)), stop


class Entries(Items):
    """Keys and values in blocks. The last value of a repeated key is valid: such rows are left to the slow path."""

    def _build(self, cursors: Cursors, chunks: list[pa.Array], rows: list[Ints], valid: Bools | None) -> pa.Array:
        if len(chunks) > 1:
            owners = np.concatenate(rows)
            keys = pa.concat_arrays([chunk.field(0) for chunk in chunks]).dictionary_encode()
            codes = keys.indices.fill_null(0).to_numpy().astype(np.int64)
            pairs, counts = np.unique(owners * max(len(keys.dictionary), 1) + codes, return_counts=True)
            if len(pairs) < len(owners):
                repeated = np.zeros(len(cursors), dtype=np.bool_)
                repeated[pairs[counts > 1] // len(keys.dictionary)] = True
                cursors.hand_over(repeated)
        return super()._build(cursors, chunks, rows, valid)


# --- nested -----------------------------------------------------------------------------------------------------------


def reader(node: Node, wanted: Selection | None = None) -> Reader:
    """The reader of a type; ``wanted``: the requested fields of its record, None: all."""
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
    """Consecutive fields; those that are not requested are skipped."""

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
    """The requested fields of a record (None: all)."""

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
        """A mask of rows with a value (None: all), and their number."""
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
        """The member of each row; -1 without one, or if the row is not active."""
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
