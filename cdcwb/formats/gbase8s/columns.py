"""Whole columns of row images at a time (docs/formats/gbase8s.md §4).

Each decoder takes the bytes of one column of many rows and gives a :class:`Decoded`: text as ``events`` shows it, a
typed array as ``Capture.table`` gives it, and ``odd``, true for the rows whose bytes are not plainly a value of the
type. Odd rows are decoded again one by one (``dissect``), which knows every rare form and says what is wrong; their
slots here are not used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, from_matrix, hex_digits, integers, slices
from cdcwb.formats.gbase8s.decoded import Decoded
from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints, big_endian_16
from cdcwb.formats.gbase8s.packed_columns import decode_clock, decode_decimal
from cdcwb.formats.gbase8s.schema import Column, ColumnKind

__all__ = ["decode_fixed", "decode_variable"]

_DAY_ZERO: Final = 25568  # days from 1899-12-31 to 1970-01-01
_FIRST_DAY: Final = -719162  # 0001-01-01, in days from 1970-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_SPACE: Final = 0x20
_LOB_PREFIX: Final = 4


def decode_fixed(column: Column, matrix: Bytes, charset: str) -> Decoded:
    """A fixed-length column; ``matrix`` has a row of ``column.size`` bytes for each row image."""
    if column.kind == ColumnKind.CHAR:
        return _char(matrix, charset)
    if column.kind == ColumnKind.DECIMAL:
        return decode_decimal(column, matrix)
    if column.kind in (ColumnKind.DATETIME, ColumnKind.INTERVAL):
        return decode_clock(column, matrix)
    return _PLAIN[column.kind](matrix)


def _big_endian(matrix: Bytes, kind: str) -> npt.NDArray[np.generic]:
    """Each row of bytes as one big-endian number of the given numpy kind."""
    return np.ascontiguousarray(matrix).view(">" + kind)[:, 0]


def _none(count: int) -> Bools:
    return np.zeros(count, dtype=bool)


def _whole(values: Ints, null: Bools, odd: Bools, kind: pa.DataType) -> Decoded:
    return Decoded(odd, lambda: integers(values, null), lambda: pc.cast(pa.array(values, mask=null), kind, safe=False))


def _smallint(matrix: Bytes) -> Decoded:
    """Two bytes; NULL is 8000 (§4.1)."""
    values = _big_endian(matrix, "i2").astype(np.int64)
    return _whole(values, values == -(2**15), _none(len(values)), pa.int16())


def _integer(matrix: Bytes) -> Decoded:
    """Four bytes; NULL is 80000000 (§4.1)."""
    values = _big_endian(matrix, "i4").astype(np.int64)
    return _whole(values, values == -(2**31), _none(len(values)), pa.int32())


def _bigint(matrix: Bytes) -> Decoded:
    """Eight bytes; NULL is 8000000000000000 (§4.1)."""
    values = _big_endian(matrix, "i8").astype(np.int64)
    return _whole(values, values == np.iinfo(np.int64).min, _none(len(values)), pa.int64())


def _int8(matrix: Bytes) -> Decoded:
    """Ten bytes: sign (1, -1; 0 is NULL), low word, high word (§4.1)."""
    sign = _big_endian(matrix[:, 0:2], "i2").astype(np.int64)
    low = _big_endian(matrix[:, 2:6], "u4").astype(np.int64)
    high = _big_endian(matrix[:, 6:10], "u4").astype(np.int64)
    null = (sign == 0) & (low == 0) & (high == 0)
    odd = ~null & ((np.abs(sign) != 1) | (high >= 2**31))
    values = np.where(odd, 0, sign) * ((np.where(odd, 0, high) << 32) | low)
    return _whole(values, null, odd, pa.int64())


def _date(matrix: Bytes) -> Decoded:
    """Four bytes: days since 1899-12-31; NULL is 80000000 (§4.1)."""
    days = _big_endian(matrix, "i4").astype(np.int64)
    null = days == -(2**31)
    days = days - _DAY_ZERO
    odd = ~null & ((days < _FIRST_DAY) | (days > _LAST_DAY))
    dates = pa.array(np.where(odd | null, 0, days).astype(np.int32), mask=null).cast(pa.date32())
    return Decoded(odd, lambda: pc.cast(dates, pa.string()), lambda: dates)


def _float(size: int) -> Callable[[Bytes], Decoded]:
    def decode(matrix: Bytes) -> Decoded:
        """IEEE 754, big-endian; NULL is all bits set (§4.1)."""
        values = _big_endian(matrix, f"f{size}").astype(f"f{size}")
        null = np.all(matrix == 0xFF, axis=1)
        array = pa.array(values, mask=null)
        return Decoded(_none(len(null)), lambda: pc.cast(array, pa.string()), lambda: array)

    return decode


def _boolean(matrix: Bytes) -> Decoded:
    """Two bytes: 1 where NULL, then 0 or 1 (§4.1)."""
    null = (matrix == [1, 0]).all(axis=1)
    odd = ~null & ((matrix[:, 0] != 0) | (matrix[:, 1] > 1))
    index = pa.array(matrix[:, 1] & 1, mask=null)
    return Decoded(odd, lambda: pa.array(["false", "true"]).take(index), lambda: pa.array(matrix[:, 1] == 1, mask=null))


def _lob(matrix: Bytes) -> Decoded:
    """76 bytes: a prefix and the locator, zeroed for NULL; the content is not in the stream (§4.1)."""
    null = (matrix[:, _LOB_PREFIX:] == [0]).all(axis=1)
    width = matrix.shape[1]
    start = np.arange(len(null), dtype=np.int64) * width
    flat = np.ascontiguousarray(matrix).reshape(-1)
    return Decoded(
        _none(len(null)),
        lambda: from_matrix(hex_digits(matrix), 0, 2 * width, null),
        lambda: slices(flat, start, start + width, null),
    )


_PLAIN: Final[dict[ColumnKind, Callable[[Bytes], Decoded]]] = {
    ColumnKind.SMALLINT: _smallint,
    ColumnKind.INTEGER: _integer,
    ColumnKind.BIGINT: _bigint,
    ColumnKind.INT8: _int8,
    ColumnKind.DATE: _date,
    ColumnKind.FLOAT: _float(8),
    ColumnKind.SMALLFLOAT: _float(4),
    ColumnKind.BOOLEAN: _boolean,
    ColumnKind.LOB: _lob,
}


# --- text -------------------------------------------------------------------------------------------------------------


def _char(matrix: Bytes, charset: str) -> Decoded:
    """Padded with spaces; NULL begins with 00 (§4.1)."""
    count, width = matrix.shape
    null: Bools = matrix[:, 0] == 0 if width else _none(count)
    padded = matrix[:, ::-1] == _SPACE
    trailing = (
        np.where(padded.all(axis=1), width, np.argmin(padded, axis=1)) if width else np.zeros(count, dtype=np.int64)
    )
    start = np.arange(count, dtype=np.int64) * width
    flat = np.ascontiguousarray(matrix).reshape(-1)
    return _encoded(slices(flat, start, start + width - trailing, null), charset)


def decode_variable(column: Column, buffer: Bytes, start: Ints, end: Ints, prefix_width: int, charset: str) -> Decoded:
    """A variable-length column; its bytes in row i are ``buffer[start[i]:end[i]]``, length prefix included (§4.2).

    ``start`` must not fall from row to row.
    """
    size = end - start
    lvarchar = column.kind == ColumnKind.LVARCHAR
    prefix = 2 if lvarchar else prefix_width
    least = 3 if lvarchar else prefix
    odd = size < least
    at = np.where(odd, 0, start)
    length = big_endian_16(buffer, at) if prefix == 2 else buffer[at].astype(np.int64)
    odd |= length + prefix != size
    if lvarchar:
        flag = buffer[np.where(odd, 0, start + prefix)]
        null = (length == 1) & (flag == 1)
        odd |= ~null & (flag != 0)
        stop = end - ((size > 3) & (buffer[np.maximum(end, 1) - 1] == 0))
        begin = start + 3
    else:
        null = _none(len(size))
        single = np.flatnonzero(~odd & (length == 1))
        null[single] = buffer[start[single] + prefix] == 0
        stop, begin = end, start + prefix
    if odd.any():
        stop, begin = np.where(odd, start, stop), np.where(odd, start, begin)
    decoded = _encoded(slices(buffer, begin, stop, null | odd), charset)
    return Decoded(odd | decoded.odd, decoded.text, decoded.typed)


def _encoded(raw: pa.Array, charset: str) -> Decoded:
    """Bytes in a character set as text; what the set does not hold is odd."""
    codec = charset.lower().replace("_", "-")
    text = None
    if codec in _ASCII_BASED and _is_ascii(raw):
        text = as_text(raw)
    elif codec in _UTF_8:
        with suppress(pa.ArrowInvalid):
            text = pc.cast(raw, pa.string())
    if text is not None:
        return Decoded(_none(len(raw)), lambda: text, lambda: text)
    unique = raw.dictionary_encode()
    texts: list[str | None] = []
    for value in unique.dictionary:
        try:
            texts.append(value.as_py().decode(charset))
        except UnicodeDecodeError:
            texts.append(None)
    bad = pa.array([text is None for text in texts], pa.bool_())
    odd = bad.take(unique.indices).fill_null(False).to_numpy(zero_copy_only=False)
    decoded = pa.array(texts, pa.string()).take(unique.indices)
    return Decoded(odd, lambda: decoded, lambda: decoded)


_UTF_8: Final = frozenset(["utf-8", "utf8"])
_ASCII_BASED: Final = _UTF_8 | frozenset(
    [
        "ascii",
        "gbk",
        "gb2312",
        "gb18030",
        "cp936",
        "big5",
        "iso-8859-1",
        "iso8859-1",
        "latin-1",
        "latin1",
        "iso-8859-15",
        "cp1252",
    ]
)
"""Character sets in which a byte below 80 that follows no other byte is ASCII."""


def _is_ascii(raw: pa.Array) -> bool:
    _, places, data = raw.buffers()
    if data is None:
        return True
    offsets = np.frombuffer(places, dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
    used = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return len(used) == 0 or int(used.max()) < 0x80
