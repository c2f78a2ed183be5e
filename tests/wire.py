"""Records of a GBase 8s stream made by hand, for tests that need to say exactly what stands where.

Every function gives the bytes of one record; integers are big-endian, size words little-endian unless said otherwise.
Nothing here is shared with the decoders or with ``cdcwb_synth``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = [
    "LABEL",
    "LOG",
    "TIME",
    "begin",
    "commit",
    "discard",
    "error",
    "goods",
    "insert",
    "record",
    "rollback",
    "row",
    "schema",
    "sequence",
    "timeout",
    "truncate",
    "varchar",
]

LABEL = 131
LOG = 0x0C << 32  # log file 12
TIME = 1_750_000_000  # 2025-06-15T15:06:40Z


def record(number: int, header: bytes = b"", payload: bytes = b"") -> bytes:
    """Any record: ``header`` is what stands behind the sixteen common bytes."""
    return struct.pack(">4I", 16 + len(header), len(payload), 66, number) + header + payload


def sequence(place: int) -> int:
    """A sequence number in log file 12."""
    return LOG | place


def begin(transaction: int, place: int, at: int = TIME, user: int = 2044) -> bytes:
    return record(1, struct.pack(">Qiqi", sequence(place), transaction, at, user))


def commit(transaction: int, place: int, at: int = TIME) -> bytes:
    return record(2, struct.pack(">Qiq", sequence(place), transaction, at))


def rollback(transaction: int, place: int) -> bytes:
    return record(3, struct.pack(">Qi", sequence(place), transaction))


def discard(transaction: int, place: int) -> bytes:
    return record(62, struct.pack(">Qi", sequence(place), transaction))


def truncate(transaction: int, place: int, label: int = LABEL) -> bytes:
    return record(119, struct.pack(">Qii", sequence(place), transaction, label))


def timeout(place: int = 0) -> bytes:
    return record(201, struct.pack(">Q", place and sequence(place)))


def error(code: int, flags: int = 0) -> bytes:
    return record(202, struct.pack(">Ii", flags, code))


def schema(text: str, fixed_bytes: int, fixed: int, variable: int, label: int = LABEL, charset: str = "utf-8") -> bytes:
    return record(200, struct.pack(">iIIII", label, 0, fixed_bytes, fixed, variable), text.encode(charset) + b"\0")


def row(
    number: int,
    transaction: int,
    place: int,
    fixed: bytes,
    variable: Sequence[bytes] = (),
    *,
    label: int = LABEL,
    order: str = "<",
    extra: bytes = b"",
) -> bytes:
    """INSERT 40, DELETE 41, UPDBEF 42 or UPDAFT 43. ``extra``: header bytes behind the size words."""
    words = struct.pack(f"{order}{len(variable)}I", *map(len, variable))
    header = struct.pack(">QiiI", sequence(place), transaction, label, 0) + words + extra
    return record(number, header, fixed + b"".join(variable))


def varchar(text: str | bytes, width: int = 2) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return len(data).to_bytes(width, "big") + data


def goods(label: int = LABEL) -> bytes:
    """The schema of the table that :func:`insert` fills: a number and a text."""
    return schema("n integer, goods varchar(40,0)", 4, 1, 1, label)


def insert(transaction: int, place: int, n: int, text: str | bytes, label: int = LABEL, number: int = 40) -> bytes:
    return row(number, transaction, place, struct.pack(">i", n), [varchar(text)], label=label)
