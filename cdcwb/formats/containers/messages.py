"""Messages as arrays, and the segments of a file that they are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import slices
from cdcwb.formats.json_values import decode_json
from cdcwb.formats.kernels import Bytes, Ints
from cdcwb.model import Kind, Problem
from cdcwb.words import unique_names, visible

MESSAGE: Final = 0
"""A message, or a row; a message without a value is a tombstone."""
FILLER: Final = 1
"""Bytes that are known to carry nothing: blank lines, the last line of a consumer."""
MALFORMED: Final = 2
"""Bytes that are not a message."""
TRUNCATED: Final = 3
"""Bytes of a message that ends with the file."""
NOTE: Final = 4
"""Text between messages that is neither a comment nor of a consumer or a shell."""

NOT_MESSAGES: Final = {
    FILLER: (Kind.FILLER, None),
    NOTE: (Kind.FILLER, Problem.NOTE),
    MALFORMED: (Kind.MALFORMED, Problem.MALFORMED),
    TRUNCATED: (Kind.MALFORMED, Problem.TRUNCATED),
}
"""The event and the problem of each state but that of a message."""

FACTS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type")
"""What containers may state about every message; a record header is the fact ``header.<name>``."""
HEADER: Final = "header."

BATCH: Final = 8192
"""Maximum messages of a batch."""
BYTES: Final = 32 << 20
"""Bytes of a batch, unless a single message is longer."""
LONGEST: Final = 64 << 20
"""Maximum bytes of a message or a row; Kafka's own limit is 1 MB unless it was raised."""
PIECE: Final = 1 << 20
"""Damage is reported in pieces of at most so many bytes."""

_ARRAYS: Final = ("offset", "length", "state", "value", "key", "source")
_Item = TypeVar("_Item")
_MOST_HEADERS: Final = 256  # header names of one batch that get a column of their own
_REST: Final = "header"
_EPOCH: Final = datetime(1970, 1, 1)
_LAST_INSTANT: Final = 253_402_300_799_999  # the last millisecond of the year 9999


@dataclass(frozen=True, slots=True)
class Messages:
    """Neighbouring segments of a container, in order, and the messages in them.

    ``offset`` and ``length`` are the place of each in the container's unit (bytes of the decompressed file, or row
    number and 1); the lengths of all segments of a file add up to its size. ``state`` is :data:`MESSAGE`,
    :data:`FILLER`, :data:`NOTE`, :data:`MALFORMED` or :data:`TRUNCATED`; ``reasons`` has for each of the others, by
    index, what they are, or what was expected and found. ``value`` is null for a tombstone and for what is not a
    message, ``key`` if there is none. ``source`` is the segment as it is in the file; for rows the value. ``facts``
    are the columns of :data:`FACTS` and ``header.<name>``, null where nothing is known.
    """

    offset: Ints
    length: Ints
    state: Bytes
    reasons: dict[int, str]
    value: pa.BinaryArray
    key: pa.BinaryArray
    source: pa.BinaryArray
    facts: dict[str, pa.StringArray]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def raw(self) -> pa.BinaryArray:
        """The bytes of each event: the value of a message, and what is not one as it is in the file."""
        is_message = self.state == MESSAGE
        return self.value if is_message.all() else pc.if_else(pa.array(is_message), self.value, self.source)

    @classmethod
    def of_rows(cls, number: Ints, value: pa.BinaryArray, reasons: dict[int, str] | None = None) -> Messages:
        """Rows whose values are messages, if there are no ``reasons`` why they cannot be read; without keys and
        facts."""
        count = len(number)
        state, none = np.full(count, MALFORMED if reasons else MESSAGE, np.uint8), pa.nulls(count, pa.binary())
        facts = dict.fromkeys(FACTS, pa.nulls(count, pa.string()))
        length = np.ones(count, np.int64)
        return cls(number, length, state, reasons or {}, none if reasons else value, none, value, facts)

    def head(self, count: int) -> Messages:
        """The first segments, at most so many."""
        arrays = {name: getattr(self, name)[:count] for name in _ARRAYS}
        reasons = {at: reason for at, reason in self.reasons.items() if at < count}
        return Messages(**arrays, reasons=reasons, facts={name: texts[:count] for name, texts in self.facts.items()})

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
    arrays: dict[str, Any] = {}
    for name in _ARRAYS:
        some = [getattr(one, name) for one in batches]
        arrays[name] = np.concatenate(some) if isinstance(some[0], np.ndarray) else pa.concat_arrays(some)
    return Messages(**arrays, reasons=reasons, facts=facts)


def batched(
    items: Iterable[_Item], most: int, size_of: Callable[[_Item], tuple[int, int]], like: Callable[[_Item], Any] = type
) -> Iterator[list[_Item]]:
    """Neighbouring items together: at most so many rows and about :data:`BYTES` bytes, as ``size_of`` gives them, for
    all of which ``like`` gives the same; but at least one item."""
    for _, some in groupby(items, like):
        waiting: list[_Item] = []
        count = size = 0
        for item in some:
            rows, length = size_of(item)
            if waiting and (count + rows > most or size + length > BYTES):
                yield waiting
                waiting, count, size = [], 0, 0
            waiting.append(item)
            count, size = count + rows, size + length
        yield waiting


# --- segments ---------------------------------------------------------------------------------------------------------


class ParsedSegment(NamedTuple):
    """What one segment holds: its state, value, key and facts, and the reason if it is not a message."""

    state: int
    value: bytes | None
    key: bytes | None = None
    facts: Mapping[str, str | None] = {}
    reason: str | None = None


Segment = tuple[int, int, ParsedSegment]
"""Where some bytes of a file start and end, and what they hold."""


class Chunk(NamedTuple):
    """Adjacent segments, and the buffer from byte ``base`` of the file on that has all of their bytes."""

    base: int
    buffer: Bytes
    segments: list[Segment]


def damage(start: int, end: int, reason: str, state: int = MALFORMED) -> Iterator[Segment]:
    """Bytes that are not a message, as segments of at most :data:`PIECE` bytes."""
    for first in range(start, end, PIECE):
        yield first, min(first + PIECE, end), ParsedSegment(state, None, None, {}, reason)


def batches_of(chunks: Iterable[Chunk], batch: int) -> Iterator[Messages]:
    """The segments as batches of at most ``batch``, and of about :data:`BYTES` bytes."""
    for base, buffer, segments in chunks:
        first, count = 0, len(segments)
        while first < count:
            stop, most = min(first + batch, count), segments[first][0] + BYTES
            if segments[stop - 1][1] > most:
                stop = next((at for at in range(first + 1, stop) if segments[at][1] > most), stop)
            yield _messages(base, buffer, segments[first:stop])
            first = stop


def _messages(base: int, buffer: Bytes, segments: Sequence[Segment]) -> Messages:
    starts, ends, parsed = zip(*segments, strict=True)
    states, values, keys, facts, reasons = zip(*parsed, strict=True)
    start, end = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    return Messages(
        start,
        end - start,
        np.array(states, dtype=np.uint8),
        {} if not any(reasons) else {at: reason for at, reason in enumerate(reasons) if reason is not None},
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()),
        slices(buffer, start - base, end - base),
        fact_columns(facts),
    )


# --- facts ------------------------------------------------------------------------------------------------------------


def fact_columns(facts: Sequence[Mapping[str, str | None]]) -> dict[str, pa.StringArray]:
    """The facts of many segments as columns.

    Only so many headers get columns of their own; the others of a row are together as ``header`` (name=value, one
    after the other), so that a capture with a name per message does not need a column per message.
    """
    if not any(facts):
        return dict.fromkeys(FACTS, pa.nulls(len(facts), pa.string()))
    merged: dict[str, str | None] = dict.fromkeys(FACTS)
    for row in facts:
        merged.update(row)
    names = list(merged)
    shown, others = names[: len(FACTS) + _MOST_HEADERS], set(names[len(FACTS) + _MOST_HEADERS :])
    columns = {name: [row.get(name) for row in facts] for name in shown}
    if others:
        rests = ([f"{name.removeprefix(HEADER)}={row[name]}" for name in row if name in others] for row in facts)
        columns[_REST] = [", ".join(rest) or None for rest in rests]
    return {name: pa.array(texts, pa.string()) for name, texts in columns.items()}


def header_facts(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """Headers as facts; a name that repeats gets ``#2``, ``#3``."""
    listed = list(pairs)
    names = unique_names(f"{HEADER}{name}" for name, _ in listed)
    return {name: value for name, (_, value) in zip(names, listed, strict=True)}


def key_texts(keys: pa.BinaryArray) -> pa.StringArray:
    """Message keys as text, others as lower-case hex."""
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
    return key.decode() if is_utf8(key) and min(key, default=32) > 8 else key.hex()


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(data: bytes) -> str:
    r"""Captured bytes as text that loses nothing: UTF-8, and ``\xff`` for any other byte."""
    return data.decode("utf-8", "backslashreplace")


def shown(data: bytes) -> str:
    """The beginning of captured bytes, for sentences."""
    return f"'{visible(data[:48].decode('utf-8', 'replace'), 40)}'"


def time_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as ``2023-03-21T21:34:19.511Z``; before 1970 and after the year 9999 the number."""
    if not 0 <= milliseconds <= _LAST_INSTANT:
        return str(milliseconds)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()


# --- values in Avro's JSON encoding -----------------------------------------------------------------------------------

AVRO_JSON: Final = "avro-json"
"""The encoding of values that a tool decoded from Avro and printed in Avro's JSON encoding (docs/formats/qlik-kafka.md
§9). In it a value of a union is an object of one field, the name of its type, and bytes are texts of a character for
each byte."""

_TYPES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "array", "map"})
_FULL_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z", re.ASCII)
_DEEPEST: Final = 3


def is_avro_json(values: Iterable[bytes | None]) -> bool:
    """Whether most of these JSON texts show the encoding: a record is in its full name, or a number in ``long``."""
    there = [value for value in values if value is not None]
    return 2 * sum(_shows(value) for value in there) > len(there)


def _shows(value: bytes) -> bool:
    try:
        return _has_branch(msgspec.json.decode(value), _DEEPEST)
    except (ValueError, RecursionError):
        return False


def _has_branch(value: Any, depth: int) -> bool:
    if not isinstance(value, dict):
        return False
    if len(value) == 1:
        ((name, inner),) = value.items()
        if (name == "long" and inner.__class__ is int) or (isinstance(inner, dict) and _FULL_NAME.match(name)):
            return True
    return depth > 0 and any(_has_branch(one, depth - 1) for one in value.values())


def decoded(messages: Messages) -> Messages:
    """The messages with values and keys as JSON without the types of unions, in which bytes are hexadecimal digits.
    What is not a JSON object stays as it is."""
    values = [value and _without_branches(value) for value in messages.value.to_pylist()]
    keys = [key and _without_branches(key) for key in messages.key.to_pylist()]
    return replace(messages, value=pa.array(values, pa.binary()), key=pa.array(keys, pa.binary()))


def _without_branches(value: bytes) -> bytes:
    try:
        return msgspec.json.encode(_plain(decode_json(value))) if value.lstrip()[:1] == b"{" else value
    except (ValueError, RecursionError):
        return value


def _plain(value: Any) -> Any:
    """The value with what is in its fields or items without the types of unions."""
    if isinstance(value, dict):
        return {name: _unwrapped(one) for name, one in value.items()}
    return [_unwrapped(one) for one in value] if isinstance(value, list) else value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "bytes" and isinstance(inner, str) and max(inner, default="") < "\u0100":
            return inner.encode("latin-1").hex()
        if name in _TYPES or _FULL_NAME.match(name):
            return _plain(inner)
    return _plain(value)
