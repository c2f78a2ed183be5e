"""Messages as arrays, and where segments of a file are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.model import Kind, Problem
from cdcwb.words import visible

__all__ = [
    "BYTES",
    "FACTS",
    "FILLER",
    "HEADER",
    "LONGEST",
    "MALFORMED",
    "MESSAGE",
    "NOTE",
    "NOT_MESSAGES",
    "PIECE",
    "TRUNCATED",
    "Bools",
    "Bytes",
    "Found",
    "Ints",
    "Messages",
    "Parsed",
    "Segments",
    "fact_columns",
    "instants",
    "joined",
    "key_texts",
    "merged",
    "pieces",
    "shown",
    "text_of",
    "time_text",
]


# --- batch ------------------------------------------------------------------------------------------------------------

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.uint8]

MESSAGE: Final = 0
"""A message; one without a value is a tombstone."""
FILLER: Final = 1
"""Bytes that are known to carry nothing: blank lines, what a consumer says at its end."""
MALFORMED: Final = 2
"""Bytes that cannot be understood."""
TRUNCATED: Final = 3
"""Bytes of a message that the file's end cuts off."""
NOTE: Final = 4
"""Text between messages that is neither a comment nor said by a consumer or a shell."""

FACTS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type")
"""What containers may say of every message; a record header is the fact ``header.<name>``."""

HEADER: Final = "header."
_REST: Final = "header"

_MOST_HEADERS: Final = 256  # header names of one batch that get a column of their own
_EPOCH: Final = datetime(1970, 1, 1)
_LAST_INSTANT: Final = 253_402_300_799_999  # the last millisecond of the year 9999


@dataclass(frozen=True, slots=True)
class Messages:
    """Neighbouring segments of a container, in order, and the messages in them.

    ``offset`` and ``length`` are the place of each in the container's unit (bytes of the decompressed file, or row
    number and 1); the lengths of all segments of a file add up to its size. ``state`` is :data:`MESSAGE`,
    :data:`FILLER`, :data:`NOTE`, :data:`MALFORMED` or :data:`TRUNCATED`; ``reasons`` says of the others, by index,
    what they are, or what was expected and found. ``value`` is null for a tombstone and for what is not a message,
    ``key`` where there is none.
    ``source`` is the segment as it stands in the file; for rows the value. ``facts`` are the columns of :data:`FACTS`
    and ``header.<name>``, null where nothing is known.
    """

    offset: Ints
    length: Ints
    state: States
    reasons: dict[int, str]
    value: pa.BinaryArray
    key: pa.BinaryArray
    source: pa.BinaryArray
    facts: dict[str, pa.StringArray]

    def __len__(self) -> int:
        return len(self.offset)

    def cut_off(self, number: int) -> str:
        """That the JSON message of this number is cut off, and where."""
        end = int(self.offset[number] + self.length[number])
        place = f"offset {end}"
        if len(self.source[number].as_py() or b"") != self.length[number]:  # a row, or a piece of a message
            place = f"byte {len(self.value[number].as_py() or b'')} of the message"
        return f"the JSON message is cut off at {place}; only its complete fields are shown"

    def cuts(self, number: int, places: Sequence[int]) -> list[int]:
        """Where in the file the parts of a message begin, and its end: at ``places``, bytes of its value, if the value
        is in the file as it is, else in proportion to their lengths."""
        begin, length = int(self.offset[number]), int(self.length[number])
        value, source = self.value[number].as_py(), self.source[number].as_py() or b""
        at = source.rfind(value) if len(source) == length else -1
        inner = [begin + (at + place if at >= 0 else place * length // len(value)) for place in places]
        return [begin, *inner, begin + length]


def joined(batches: Sequence[Messages]) -> Messages:
    """The messages of several batches, which may be of different files, as one batch."""
    if len(batches) == 1:
        return batches[0]
    reasons: dict[int, str] = {}
    before = 0
    for one in batches:
        reasons |= {before + at: reason for at, reason in one.reasons.items()}
        before += len(one)
    facts = {
        name: pa.concat_arrays([one.facts.get(name, pa.nulls(len(one), pa.string())) for one in batches])
        for name in dict.fromkeys(name for one in batches for name in one.facts)
    }
    return Messages(
        np.concatenate([one.offset for one in batches]),
        np.concatenate([one.length for one in batches]),
        np.concatenate([one.state for one in batches]),
        reasons,
        pa.concat_arrays([one.value for one in batches]),
        pa.concat_arrays([one.key for one in batches]),
        pa.concat_arrays([one.source for one in batches]),
        facts,
    )


NOT_MESSAGES: Final = {
    FILLER: (Kind.FILLER, None),
    NOTE: (Kind.FILLER, Problem.NOTE),
    MALFORMED: (Kind.MALFORMED, Problem.MALFORMED),
    TRUNCATED: (Kind.MALFORMED, Problem.TRUNCATED),
}
"""The event and the problem of each state of what is no message."""


def key_texts(keys: pa.BinaryArray) -> pa.StringArray:
    """Message keys as text, those that are none as lower-case hex."""
    if keys.null_count == len(keys):
        return pa.nulls(len(keys), pa.string())
    try:
        texts = keys.cast(pa.string())
        if not pc.any(pc.match_substring_regex(texts, "[\\x00-\\x08]")).as_py():
            return texts
    except pa.ArrowInvalid:
        pass
    return pa.array([None if key is None else _key_text(key) for key in keys.to_pylist()], pa.string())


def _key_text(key: bytes) -> str:
    try:
        return key.hex() if min(key, default=32) < 9 else key.decode()
    except UnicodeDecodeError:
        return key.hex()


class Parsed(NamedTuple):
    """One segment, taken apart: its state, value, key and facts, and why it is no message."""

    state: int
    value: bytes | None
    key: bytes | None = None
    facts: Mapping[str, str | None] = {}
    reason: str | None = None


def text_of(data: bytes) -> str:
    r"""Captured bytes as text that loses nothing: UTF-8, and ``\xff`` for a byte that is none."""
    return data.decode("utf-8", "backslashreplace")


def shown(data: bytes) -> str:
    """The beginning of captured bytes, for sentences."""
    return f"'{visible(data[:48].decode('utf-8', 'replace'), 40)}'"


def time_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as ``2023-03-21T21:34:19.511Z``; before 1970 and beyond the year 9999 the number."""
    if not 0 <= milliseconds <= _LAST_INSTANT:
        return str(milliseconds)
    return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"


def instants(milliseconds: Ints, null: Bools) -> pa.StringArray:
    """The texts of :func:`time_text` for many; null where ``null`` is true."""
    odd = ((milliseconds < 0) | (milliseconds > _LAST_INSTANT)) & ~null
    times = pa.array(np.where(odd | null, 0, milliseconds)).cast(pa.timestamp("ms"))
    texts = pc.binary_replace_slice(pc.cast(times, pa.string()).view(pa.binary()), 10, 11, b"T").view(pa.string())
    texts = pc.binary_join_element_wise(texts, "Z", "")
    if odd.any():
        texts = pc.if_else(pa.array(odd), pc.cast(pa.array(milliseconds), pa.string()), texts)
    return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), texts) if null.any() else texts


def merged(array: pa.Array | None, where: Bools, items: Iterable[bytes | str | None], kind: pa.DataType) -> pa.Array:
    """The array with the places where ``where`` is true taken from ``items``; None is an array of nulls."""
    if not where.any():
        return pa.nulls(len(where), kind) if array is None else array
    given = pa.array(items, kind)
    if len(given) == len(where):
        return given
    return pc.replace_with_mask(pa.nulls(len(where), kind) if array is None else array, pa.array(where), given)


def fact_columns(facts: Sequence[Mapping[str, str | None]]) -> dict[str, list[str | None]]:
    """The facts of many segments as columns.

    Only so many headers get columns of their own; the others of a row stand together as ``header`` (name=value, one
    behind the other), so that a capture with a name per message does not need a column per message.
    """
    columns: dict[str, list[str | None]] = {name: [None] * len(facts) for name in FACTS}
    for at, row in enumerate(facts):
        rest: list[str] = []
        for name, value in row.items():
            column = columns.get(name)
            if column is None and len(columns) < len(FACTS) + _MOST_HEADERS:
                column = columns[name] = [None] * len(facts)
            if column is not None:
                column[at] = value
            else:
                rest.append(f"{name.removeprefix(HEADER)}={value}")
        if rest:
            columns.setdefault(_REST, [None] * len(facts))[at] = ", ".join(rest)
    return columns


# --- segments ---------------------------------------------------------------------------------------------------------

BYTES: Final = 32 << 20
"""Bytes of a batch, unless a single message is longer."""

LONGEST: Final = 64 << 20
"""A message that is longer is taken for damage; Kafka's own limit is 1 MB unless somebody raised it."""

PIECE: Final = 1 << 20
"""Damage is reported in pieces of at most this many bytes."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Neighbouring segments of a file, in order, without holes; all places count bytes from its start.

    ``[start, end)`` is the segment, ``[first, last)`` what is read in it: a line without its end, a document, a value.
    ``[lead, lead_end)`` stands before that in the same segment: the properties in front of a document, or the key;
    ``lead`` is -1 where there is none. ``null`` is true for a value that is null. ``reasons`` is by index.
    """

    start: Ints
    end: Ints
    first: Ints
    last: Ints
    state: States
    reasons: dict[int, str]
    lead: Ints
    lead_end: Ints
    null: Bools

    def __len__(self) -> int:
        return len(self.start)

    def part(self, begin: int, stop: int) -> Segments:
        """The segments with the indices ``[begin, stop)``."""
        return Segments(
            self.start[begin:stop],
            self.end[begin:stop],
            self.first[begin:stop],
            self.last[begin:stop],
            self.state[begin:stop],
            {at - begin: reason for at, reason in self.reasons.items() if begin <= at < stop},
            self.lead[begin:stop],
            self.lead_end[begin:stop],
            self.null[begin:stop],
        )

    def cut(self, batch: int) -> Iterator[Segments]:
        """The same segments in runs of at most ``batch``, and of about :data:`BYTES` bytes."""
        begin = 0
        while begin < len(self):
            full = int(np.searchsorted(self.end, self.start[begin] + BYTES, side="right"))
            stop = min(max(full, begin + 1), begin + batch, len(self))
            yield self.part(begin, stop)
            begin = stop


@dataclass(slots=True)
class Found:
    """Segments as they are found, one behind the other."""

    rows: list[tuple[int, int, int, int, int, int, int, bool]] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

    def message(
        self, start: int, end: int, first: int, last: int, lead: int = -1, lead_end: int = -1, null: bool = False
    ) -> None:
        """A segment that holds a message."""
        self.rows.append((start, end, first, last, MESSAGE, lead, lead_end, null))

    def filler(self, start: int, end: int, reason: str, state: int = FILLER) -> None:
        """Bytes that carry nothing; ``state``: FILLER or NOTE."""
        self.reasons[len(self.rows)] = reason
        self.rows.append((start, end, start, end, state, -1, -1, False))

    def malformed(self, start: int, end: int, reason: str, state: int = MALFORMED) -> None:
        """Bytes that are not a message, in pieces; ``state``: MALFORMED or TRUNCATED."""
        for first in range(start, end, PIECE):
            self.reasons[len(self.rows)] = reason
            last = min(first + PIECE, end)
            self.rows.append((first, last, first, last, state, -1, -1, False))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bytes(self) -> int:
        """How many bytes they span."""
        return self.rows[-1][1] - self.rows[0][0] if self.rows else 0

    def take(self) -> Segments:
        """What was found so far; it begins anew."""
        table = np.array(self.rows, dtype=np.int64).reshape(len(self.rows), 8)
        start, end, first, last, state, lead, lead_end, null = (np.ascontiguousarray(table[:, n]) for n in range(8))
        reasons = self.reasons
        self.rows, self.reasons = [], {}
        return Segments(start, end, first, last, state.astype(np.uint8), reasons, lead, lead_end, null.astype(np.bool_))


def pieces(start: int, end: int, reason: str) -> Iterator[Segments]:
    """A stretch of damage as segments, some at a time."""
    step = 64 * PIECE
    for first in range(start, end, step):
        found = Found()
        found.malformed(first, min(first + step, end), reason)
        yield found.take()
