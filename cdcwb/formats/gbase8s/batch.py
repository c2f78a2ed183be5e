"""``events`` of many clean records at once, as Arrow columns: headers, images and what is the same for all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.maps import MapBuilder, TextPool
from cdcwb.formats.arrays.texts import from_matrix, hex_digits, integers
from cdcwb.formats.gbase8s.distinct import distinct
from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints
from cdcwb.formats.gbase8s.headers import Headers, signed_32
from cdcwb.formats.gbase8s.images import RowImages, size_words
from cdcwb.formats.gbase8s.records import COMMON_FIELDS, RECORD_TYPES, SCHEME, SIZE_WORD

__all__ = ["header_map", "image_maps", "names_of", "positions", "times"]

_EARLIEST: Final = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
_LATEST: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


_TYPES: Final = list(RECORD_TYPES.values())
_TYPE_OF: Final = np.zeros(256, dtype=np.int64)
for _place, _type in enumerate(_TYPES):
    _TYPE_OF[_type.number] = _place


def names_of(number: Ints) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Record type, kind and operation of each record number; all must be known."""
    index = pa.array(_TYPE_OF[number])
    operations = [None if kind.operation is None else str(kind.operation) for kind in _TYPES]
    return (
        pa.array([kind.name for kind in _TYPES], pa.string()).take(index),
        pa.array([str(kind.kind) for kind in _TYPES], pa.string()).take(index),
        pa.array(operations, pa.string()).take(index),
    )


def positions(sequence: npt.NDArray[np.uint64], null: Bools | None = None) -> pa.Array:
    """Sequence numbers as 16 upper-case hexadecimal digits."""
    matrix = sequence.astype(">u8").view(np.uint8).reshape(-1, 8)
    return from_matrix(hex_digits(matrix, upper=True), 0, 16, null)


def times(headers: Headers) -> tuple[Bools, Bools]:
    """Whether each record has a time, and whether that lies outside the years 1 to 9999."""
    timed = (headers.number == 1) | (headers.number == 2)
    return timed, (headers.seconds < _EARLIEST) | (headers.seconds > _LATEST)


_FIELDS: Final = (*(field.name for field in COMMON_FIELDS), "sequence_number", "transaction_id", "user_data", "flags")


def header_map(buffer: Bytes, headers: Headers, position: pa.Array, byte_order: str) -> pa.Array:
    """``events.headers`` of clean records: every header field by its own name (docs/formats/gbase8s.md §2);
    ``position`` is the text of each sequence number."""
    count = len(headers.start)
    pool = TextPool()
    build = MapBuilder(count, pool)
    # where the values stand in the pool: a row for each record; every type has the first so many of these fields
    places = np.empty((count, len(_FIELDS)), dtype=np.int32)
    places[:, 0] = pool.add_integers(headers.header_size)
    places[:, 1] = pool.add_integers(headers.payload_size)
    places[:, 2] = SCHEME
    places[:, 3] = headers.number
    places[:, 4] = pool.add(position)
    places[:, 5] = pool.add_integers(headers.transaction)
    places[:, 6] = pool.add_integers(headers.label)
    places[:, 7] = 0  # flags
    words = (headers.header_size - 36) // SIZE_WORD
    shapes, shape = distinct(np.where(headers.row, words << 8 | 40, headers.number))
    for place, both in enumerate(shapes.tolist()):
        records = np.flatnonzero(shape == place)
        number, words_each = both & 0xFF, both >> 8
        names = [field.name for field in (*COMMON_FIELDS, *RECORD_TYPES[number].fields)]
        shared = sum(name in _FIELDS for name in names)
        values: list[npt.NDArray[np.integer]] = [places[records, :shared]]
        if number in (1, 2):
            values.append(pool.add_integers(headers.seconds[records])[:, None])
        if number == 1:
            values.append(pool.add_integers(signed_32(buffer, headers.start[records] + 36))[:, None])
        if words_each:
            names.append("variable_sizes")
            sizes = size_words(buffer, headers.start[records], words_each, byte_order)
            values.append(_joined_words(pool, sizes)[:, None])
        build.group(records, names, np.concatenate(values, axis=1))
    return build.build()


def _joined_words(pool: TextPool, words: Ints) -> Ints:
    """Where the size words of each record stand in the pool, joined by a space."""
    if words.shape[1] == 1:
        return pool.add_integers(words[:, 0])
    texts = [integers(words[:, column]) for column in range(words.shape[1])]
    return pool.add(pc.binary_join_element_wise(*texts, " "))


def image_maps(images: list[RowImages], before: Bools, after: Bools) -> tuple[pa.Array, pa.Array]:
    """``before`` and ``after`` of the records that the masks run over; null where a mask is false.

    ``rows`` of each image are indices of those records, -1 for rows that are not among them.
    """
    pool = TextPool()
    builders = [(MapBuilder(len(before), pool), before), (MapBuilder(len(after), pool), after)]
    for image in images:
        first = np.array([pool.add(column.text())[:1] for column in image.columns]).reshape(1, -1)
        for build, chosen in builders:
            local = np.flatnonzero((image.rows >= 0) & chosen[image.rows])
            if len(local):
                build.group(image.rows[local], image.names, first + local[:, None])
    return builders[0][0].build(), builders[1][0].build()
