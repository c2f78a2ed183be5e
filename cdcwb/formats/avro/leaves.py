"""Readers of fields that hold one value: the next value of every row becomes an Arrow array.

What a reader takes for granted: rows that are not ``present`` (None: all are) have no such field, and their cursors
stay where they are; their values are null.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import gather
from cdcwb.formats.avro.columns import bitmap, decimals, fixed_width, not_utf8, too_many_digits
from cdcwb.formats.avro.cursors import Bools, Cursors, Ints
from cdcwb.formats.avro.nodes import Enum, Fixed, Node, Primitive
from cdcwb.formats.avro.values import RANGES, check_uuid

__all__ = ["ByHand", "Keys", "Reader", "leaf"]


class Reader(Protocol):
    """Reads or skips one field of many rows."""

    type: pa.DataType

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """The next value of each row; the cursors are behind it. Null where the row is not present or not live."""
        ...

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """Moves the cursors behind the next value."""
        ...


def leaf(node: Node) -> Reader:
    """The reader of a type that holds one value."""
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
    """Texts and bytes behind their lengths."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind

    def places(self, cursors: Cursors, present: Bools | None) -> tuple[Ints, Ints]:
        """Where the values start and end."""
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
    """Keys of maps: texts, of which Arrow takes none that is null, not even in a row that is bad."""

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
        if cursors.live is not None:  # without those that are no texts
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
    """What is left to the slow path: every row that has such a field. ``skipper`` skips it, None: that is slow too."""

    def __init__(self, kind: pa.DataType, skipper: Reader | None = None) -> None:
        self.type = kind
        self._skipper = skipper

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """Hands over the rows."""
        cursors.hand_over(np.ones(len(cursors), dtype=np.bool_) if present is None else present)
        return pa.nulls(len(cursors), self.type)

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """Skips the field, or hands over the rows."""
        if self._skipper is None:
            self.read(cursors, present)
        else:
            self._skipper.skip(cursors, present)
