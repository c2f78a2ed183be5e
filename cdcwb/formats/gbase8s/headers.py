"""The headers of many records at once (docs/formats/gbase8s.md §1.1, §2). All numbers are big-endian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints, big_endian_32, big_endian_64

__all__ = ["ROWS", "Headers", "read_headers"]

ROWS: Final = (40, 41, 42, 43)
"""Record numbers of INSERT, DELETE, UPDBEF and UPDAFT."""

_LEAST_HEADER: Final = {1: 40, 2: 36, 3: 28, 40: 36, 41: 36, 42: 36, 43: 36, 62: 28, 119: 32, 200: 36, 201: 24, 202: 24}
_LEAST: Final = np.zeros(256, dtype=np.int64)
for _number, _size in _LEAST_HEADER.items():
    _LEAST[_number] = _size
_SEQUENCED: Final = np.isin(np.arange(256), [1, 2, 3, *ROWS, 62, 119, 201])
_TRANSACTIONAL: Final = np.isin(np.arange(256), [1, 2, 3, *ROWS, 62, 119])
_IS_ROW: Final = np.isin(np.arange(256), ROWS)


@dataclass(frozen=True, slots=True)
class Headers:
    """Header fields of records, an array each, in capture order. What a record does not have is 0.

    ``known``: a record number of the fact sheet with at least its header. ``number`` is 0 where it is not known.
    ``label``: of row records, TRUNCATE and TABSCHEM. ``seconds``: the times of BEGINTX and COMMTX.
    """

    start: Ints
    end: Ints
    header_size: Ints
    payload_size: Ints
    number: Ints
    known: Bools
    sequenced: Bools
    transactional: Bools
    row: Bools
    sequence: npt.NDArray[np.uint64]
    transaction: Ints
    label: Ints
    seconds: Ints

    def take(self, records: Ints) -> Headers:
        """The headers of these records only."""
        if len(records) == len(self.start):
            return self
        return Headers(*(getattr(self, name)[records] for name in Headers.__slots__))


def signed_32(buffer: Bytes, at: Ints) -> Ints:
    """The signed big-endian 32-bit words at the given places."""
    return big_endian_32(buffer, at).astype(np.uint32).view(np.int32).astype(np.int64)


def read_headers(buffer: Bytes, start: Ints, end: Ints) -> Headers:
    """The headers of the records ``buffer[start:end]``; every record must have its 16 common bytes."""
    size = big_endian_32(buffer, start)
    payload = big_endian_32(buffer, start + 4)
    number = big_endian_32(buffer, start + 12)
    small = np.where(number < 256, number, 0)
    known = (_LEAST[small] > 0) & (size >= _LEAST[small]) & (end - start >= _LEAST[small])
    small = np.where(known, small, 0)
    sequenced, transactional, row = _SEQUENCED[small], _TRANSACTIONAL[small], _IS_ROW[small]
    count = len(start)
    sequence = np.zeros(count, dtype=np.uint64)
    at = start[sequenced]
    sequence[sequenced] = big_endian_64(buffer, at + 16)
    transaction = np.zeros(count, dtype=np.int64)
    transaction[transactional] = signed_32(buffer, start[transactional] + 24)
    label = np.zeros(count, dtype=np.int64)
    labelled = row | (small == 119)
    label[labelled] = signed_32(buffer, start[labelled] + 28)
    schema = small == 200
    label[schema] = signed_32(buffer, start[schema] + 16)
    seconds = np.zeros(count, dtype=np.int64)
    timed = (small == 1) | (small == 2)
    seconds[timed] = big_endian_64(buffer, start[timed] + 28).view(np.int64)
    return Headers(
        start, end, size, payload, small, known, sequenced, transactional, row, sequence, transaction, label, seconds
    )
