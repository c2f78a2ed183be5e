"""``events`` of many clean records at once, as Arrow columns: headers, images and what is the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints, big_endian_32
from cdcwb.formats.gbase8s.headers import ROWS, Headers, signed_32
from cdcwb.formats.gbase8s.images import RowImages, size_words
from cdcwb.formats.gbase8s.records import RECORD_TYPES
from cdcwb.formats.gbase8s.text import from_matrix, hex_digits, integers

__all__ = ["TextPool", "header_map", "image_maps", "names_of", "positions", "times"]

_EARLIEST: Final = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
_LATEST: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
_COMMON: Final = ("header_size", "payload_size", "packetization_scheme", "record_number")


class _MapBuilder:
    """Maps of text to text for ``count`` records, filled group by group and put in record order at the end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.entries = np.zeros(count, dtype=np.int64)
        self.present = np.zeros(count, dtype=bool)
        self.names: dict[str, int] = {}
        self.values = TextPool()
        self._groups: list[tuple[Ints, list[int], list[Ints]]] = []

    def group(self, records: Ints, names: list[str], values: list[Ints]) -> None:
        """Records that all have these keys; ``values`` holds, for each key, the records' indices into the pool."""
        self.present[records] = True
        self.entries[records] = len(names)
        self._groups.append((records, [self.names.setdefault(name, len(self.names)) for name in names], values))

    def build(self) -> pa.Array:
        offsets = np.zeros(self.count + 1, dtype=np.int64)
        np.cumsum(self.entries, out=offsets[1:])
        keys = np.empty(int(offsets[-1]), dtype=np.int64)
        values = np.empty(int(offsets[-1]), dtype=np.int64)
        for records, names, columns in self._groups:
            first = offsets[records]
            for slot, (name, column) in enumerate(zip(names, columns, strict=True)):
                keys[first + slot] = name
                values[first + slot] = column
        mask = np.append(~self.present, False)
        name_texts = pa.array(list(self.names), pa.string())
        return pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32), mask=mask), name_texts.take(pa.array(keys)), self.values.gather(values)
        )


def names_of(number: Ints) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Record type, kind and operation of each record number."""
    known = sorted(RECORD_TYPES)
    index = pa.array(np.searchsorted(np.array(known), number))
    types = [RECORD_TYPES[number] for number in known]
    return (
        pa.array([kind.name for kind in types], pa.string()).take(index),
        pa.array([str(kind.kind) for kind in types], pa.string()).take(index),
        pa.array([None if kind.operation is None else str(kind.operation) for kind in types], pa.string()).take(index),
    )


def positions(sequence: npt.NDArray[np.uint64], null: Bools | None = None) -> pa.Array:
    """Sequence numbers as 16 upper-case hexadecimal digits."""
    matrix = sequence.astype(">u8").view(np.uint8).reshape(-1, 8)
    return from_matrix(hex_digits(matrix, upper=True), 0, 16, null)


def times(buffer: Bytes, headers: Headers) -> tuple[Ints, Bools, Bools]:
    """Begin and commit times: Unix seconds, whether the record has one, and whether it lies outside the years 1 to
    9999."""
    has = (headers.number == 1) | (headers.number == 2)
    seconds = np.zeros(len(headers.start), dtype=np.int64)
    at = headers.start[has] + 28
    high, low = big_endian_32(buffer, at).astype(np.uint64), big_endian_32(buffer, at + 4).astype(np.uint64)
    seconds[has] = ((high << np.uint64(32)) | low).view(np.int64)
    return seconds, has, has & ((seconds < _EARLIEST) | (seconds > _LATEST))


@dataclass(frozen=True, slots=True)
class _Slots:
    """Where the header values of the records stand in the pool: arrays over the records."""

    header_size: Ints
    payload_size: Ints
    scheme: Ints
    number: Ints
    sequence: Ints
    transaction: Ints
    label: Ints
    zero: Ints


def header_map(buffer: Bytes, headers: Headers, position: pa.Array, seconds: Ints, byte_order: str) -> pa.Array:
    """``events.headers`` of clean records: every header field by its own name (§2).

    ``position`` is the text of each sequence number, ``seconds`` the time of begins and commits.
    """
    count = len(headers.start)
    build = _MapBuilder(count)
    pool = build.values
    each = np.arange(count, dtype=np.int64)
    one = np.zeros(count, dtype=np.int64)
    slots = _Slots(
        header_size=pool.add(integers(headers.header_size)) + each,
        payload_size=pool.add(integers(headers.payload_size)) + each,
        scheme=pool.add(pa.array(["66"])) + one,
        number=pool.add(integers(np.arange(256))) + headers.number,
        sequence=pool.add(position) + each,
        transaction=pool.add(integers(headers.transaction)) + each,
        label=pool.add(integers(headers.label)) + each,
        zero=pool.add(pa.array(["0"])) + one,
    )
    for number in np.unique(headers.number):
        records = np.flatnonzero(headers.number == number)
        if number in ROWS:
            _row_headers(build, slots, buffer, headers, records, byte_order)
            continue
        names = [name for _, _, name, _ in RECORD_TYPES[int(number)].fields]
        values: list[Ints] = []
        for name in names:
            if name == "sequence_number":
                values.append(slots.sequence[records])
            elif name == "transaction_id":
                values.append(slots.transaction[records])
            elif name == "user_data":
                values.append(slots.label[records])
            elif name in ("start_time", "commit_time"):
                values.append(pool.add(integers(seconds[records])) + np.arange(len(records)))
            else:  # user_id
                uid = signed_32(buffer, headers.start[records] + 36)
                values.append(pool.add(integers(uid)) + np.arange(len(records)))
        build.group(records, [*_COMMON, *names], [*_common(slots, records), *values])
    return build.build()


def _common(slots: _Slots, records: Ints) -> list[Ints]:
    return [slots.header_size[records], slots.payload_size[records], slots.scheme[records], slots.number[records]]


def _row_headers(
    build: _MapBuilder, slots: _Slots, buffer: Bytes, headers: Headers, records: Ints, byte_order: str
) -> None:
    counts = (headers.header_size[records] - 36) // 4
    for count in np.unique(counts):
        some = records[counts == count]
        names = [*_COMMON, "sequence_number", "transaction_id", "user_data", "flags"]
        values = [
            *_common(slots, some),
            slots.sequence[some],
            slots.transaction[some],
            slots.label[some],
            slots.zero[some],
        ]
        if count:
            words = size_words(buffer, headers.start[some], int(count), byte_order)
            texts = [integers(words[:, column]) for column in range(int(count))]
            joined = texts[0] if count == 1 else pc.binary_join_element_wise(*texts, " ")
            names.append("variable_sizes")
            values.append(build.values.add(joined) + np.arange(len(some)))
        build.group(some, names, values)


def image_maps(images: list[RowImages], before: Bools, after: Bools) -> tuple[pa.Array, pa.Array]:
    """``before`` and ``after`` of the records that the masks run over; null where a mask is false.

    ``rows`` of each image are indices of those records, -1 for rows that are not among them.
    """
    builders = [(_MapBuilder(len(before)), before), (_MapBuilder(len(after)), after)]
    pool = builders[0][0].values
    builders[1][0].values = pool
    for image in images:
        first = [pool.add(column.text()) for column in image.columns]
        for build, chosen in builders:
            local = np.flatnonzero((image.rows >= 0) & chosen[image.rows])
            if len(local):
                build.group(image.rows[local], image.names, [base + local for base in first])
    return builders[0][0].build(), builders[1][0].build()
