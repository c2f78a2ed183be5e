"""JSON data messages of one shape, read column by column (docs/formats/qlik-kafka.md).

The first message of a batch is parsed. Every other one that has its bytes between the values is cut at the same marks,
with numpy and without a Python object per value; each value is checked to be one. What does not fit, or holds an
escaped character, is left to :mod:`json_rows`, and what is read here is read the same there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.maps import Ints
from cdcwb.formats.arrays.texts import as_text, slices
from cdcwb.formats.json_values import as_text as text_of
from cdcwb.formats.qlik_kafka.json_rows import Images, Place, belonging, rows_of, schema_id_of
from cdcwb.formats.qlik_kafka.json_shape import MARK, WORD, Shape, shape_of
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions, table_of
from cdcwb.formats.qlik_kafka.names import TableName, places_in
from cdcwb.formats.qlik_kafka.rows import Bools, Image, Rows

__all__ = ["Alike", "find_alike", "read_alike"]

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

_LEAST: Final = 16  # messages that are worth the making of a shape
_MOST_FAILED: Final = 8  # messages without others like them, before no more are asked; more where many have some
_LONGEST: Final = 64  # of a number that is not digits alone; what is longer is parsed
_BLOCK: Final = 512  # messages that are compared together: their numbers stay in the processor's cache
_RECENT: Final = 4  # shapes that are tried first
_QUOTE, _ESCAPE, _ZERO, _BLANK = b'"'[0], b"\\"[0], b"0"[0], 0x20
_NUMBER: Final = r"^(-?[1-9][0-9]{0,17}|(-?(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)))$"


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text.ljust(WORD, b"\0"), "little"))


_ZEROS, _SIXES, _HIGH = _word(b"0" * WORD), _word(b"\x06" * WORD), _word(b"\xf0" * WORD)
_FIRST: Final = np.array([(1 << 8 * size) - 1 for size in range(WORD)] + [(1 << 64) - 1], dtype=np.uint64)
_NULL, _TRUE, _FALSE = _word(b"null"), _word(b"true"), _word(b"false")

_recent: Final[deque[Shape]] = deque(maxlen=_RECENT)


@dataclass(slots=True)
class Alike:
    """Messages of one shape: which of the values they are, and where in ``buffer`` the text of each value begins and
    ends (a row for each message); null values are marked."""

    shape: Shape
    index: Ints
    buffer: Bytes
    start: Offsets
    end: Offsets
    null: Bools

    def texts(self, places: Sequence[int] | int) -> pa.StringArray:
        """The texts of some values, message after message."""
        start, end = self.start[:, places].reshape(-1), self.end[:, places].reshape(-1)
        return as_text(slices(self.buffer, start, end, self.null[:, places].reshape(-1)))

    def take(self, chosen: Ints) -> Alike:
        """Some of the messages."""
        return Alike(
            self.shape, self.index[chosen], self.buffer, self.start[chosen], self.end[chosen], self.null[chosen]
        )


def read_alike(
    values: pa.BinaryArray, index: Ints, settings: Settings, versions: Versions, place: Place, images: Images
) -> tuple[list[Rows], Bools]:
    """The rows of those JSON values that can be read by columns, and which these are. ``index`` says which messages of
    their batch the values are. Without ``images`` the rows have none."""
    read = np.zeros(len(values), dtype=np.bool_)
    rows = []
    for alike in find_alike(values):
        for table, part in _by_table(alike, index, settings, versions, place):
            read[part.index] = True
            rows.append(_rows(part, index, table, versions, images))
    return rows, read


def _by_table(
    alike: Alike, index: Ints, settings: Settings, versions: Versions, place: Place
) -> Iterator[tuple[TableName | None, Alike]]:
    """Messages of one shape by the table that is named in or around them; those whose metadata names it together. None
    where a value of the row names it."""
    one, keys = alike.shape.document, alike.shape.keys
    if schema_id_of(one) in versions.by_schema_id:
        yield None, alike
        return
    places = places_in(one.body, one.headers, keys[2] or keys[3] or (), place.known, settings.places)
    if not places:
        yield None, alike
        return
    if "column" in places:
        return
    members: dict[TableName, list[int]] = {}
    for row, number in enumerate(index[alike.index].tolist()):
        facts, key = place(number)
        members.setdefault(table_of(settings, one.body, one.headers, None, facts, key, places), []).append(row)
    for table, chosen in members.items():
        yield table, alike.take(np.array(chosen))


def _rows(alike: Alike, index: Ints, table: TableName | None, versions: Versions, images: Images) -> Rows:
    shape, count = alike.shape, len(alike.index)
    one, keys = shape.document, shape.keys
    shared = [text_of(value) for value in (*one.outer.values(), *one.headers.values())]
    headers = [
        pa.repeat(pa.scalar(text, pa.string()), count) if at is None else alike.texts(at)
        for at, text in zip(shape.headers, shared, strict=True)
    ]
    data, before = (
        None if names is None or not images else Image(names, count, texts=alike.texts(places))
        for names, places in ((keys[2], shape.data), (keys[3], shape.before))
    )
    belongs = belonging(one, keys, table, versions)
    return rows_of(index[alike.index], one.record_type, belongs, keys, headers, data, before)


def find_alike(values: pa.BinaryArray) -> Iterator[Alike]:
    """Groups of messages that have one shape, among JSON values none of which is null. Each is in one group at most.

    The shapes of the batches before are tried first: most batches have them again."""
    if len(values) < _LEAST:
        return
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return  # rare, and whose fault it is has to be found out one by one anyway
    batch = _Batch(values)
    found = [alike for shape in tuple(_recent) if (alike := batch.having(shape)) is not None]
    failed = many = 0
    while failed < _MOST_FAILED + many and (first := batch.next()) is not None:
        shape = shape_of(batch.text(first))
        batch.open[first] = False
        alike = None if shape is None else batch.having(shape, first)
        if alike is not None:
            found.append(alike)
        if shape is not None and alike is not None and len(alike.index) >= _LEAST:
            _recent.appendleft(shape)
            many += 1
        else:
            failed += 1
    yield from batch.checked(found)


class _Batch:
    """The texts of a batch, one behind the other, and the marks in them."""

    def __init__(self, values: pa.BinaryArray) -> None:
        _, edges, data = values.buffers()
        offsets = np.frombuffer(edges, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        self.buffer = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
        self.edges = offsets - offsets[0]
        self.words = np.ndarray((len(self.buffer) - WORD + 1,), dtype="<u8", buffer=self.buffer, strides=(1,))
        self.open = np.ones(len(values), dtype=np.bool_)  # which messages have no group, and no odd character
        self.quotes = np.zeros(len(values), dtype=np.int64)  # as many as a message of its shape and kinds has
        self.all_quotes = 0
        self.at = 0
        self.marks = np.concatenate([self._look(first) for first in range(0, len(values), _BLOCK)])
        self.first = np.searchsorted(self.marks, self.edges)
        self.count = np.diff(self.first)

    def _look(self, first: int) -> Ints:
        """The marks in some messages. Counts quotes; closes messages with an escaped or a control character."""
        edges = self.edges[first : first + _BLOCK + 1]
        begin = int(edges[0])
        piece = self.buffer[begin : int(edges[-1])]
        if not len(piece):
            return np.empty(0, dtype=np.int64)
        quote = piece == _QUOTE
        self.all_quotes += int(np.count_nonzero(quote))
        quote[:-1] &= piece[1:] == MARK[1]
        quote[-1] = False
        odd = piece == _ESCAPE
        if piece.min() < _BLANK:
            odd |= piece < _BLANK
        if odd.any():
            self.open[np.searchsorted(self.edges, np.flatnonzero(odd) + begin, "right") - 1] = False
        return np.flatnonzero(quote) + begin

    def next(self) -> int | None:
        """The first message that has no group yet; None where too few are left to look for others like it."""
        left = np.flatnonzero(self.open[self.at :])
        if len(left) < _LEAST:
            return None
        self.at += int(left[0])
        return self.at

    def text(self, message: int) -> bytes:
        """The text of one message."""
        return self.buffer[self.edges[message] : self.edges[message + 1]].tobytes()

    def word_at(self, place: Ints) -> Words:
        """The eight bytes from each place on; zeros behind the end. The greatest places are in the last row."""
        last = len(self.words) - 1
        if place.size and int(place[-1].max()) > last:
            beyond = np.maximum(place - last, 0)
            found: Words = np.right_shift(self.words[place - beyond], (8 * beyond).astype(np.uint64))
            return found
        there: Words = self.words[place]
        return there

    def having(self, shape: Shape, first: int | None = None) -> Alike | None:
        """The messages that have the shape, if any do: they are open no longer. ``first`` is the one that the shape was
        made from, and no message before it has the shape."""
        likely = self.open & (self.count == shape.marks)
        if first is not None:
            likely[:first] = False
            likely[first] = True
        candidates = np.flatnonzero(likely)
        if not len(candidates):
            return None
        index = np.empty_like(candidates)
        start, end = np.empty((2, len(candidates), len(shape.mark)), dtype=np.int32)
        null = np.empty(start.shape, dtype=np.bool_)
        count = 0
        for begin in range(0, len(candidates), _BLOCK):
            good, *places = self._matching(shape, candidates[begin : begin + _BLOCK])
            here = slice(count, count + len(good))
            index[here], start[here], end[here], null[here], self.quotes[good] = good, *places
            count += len(good)
        if not count:
            return None
        index = index[:count]
        self.open[index] = False
        return Alike(shape, index, self.buffer, start[:count], end[:count], null[:count])

    def _matching(self, shape: Shape, index: Ints) -> tuple[Ints, Ints, Ints, Bools, Ints]:
        """Those of some messages that have the shape; begins and ends of their values, which are null, and how many
        quotes there are without those inside of values."""
        width = len(shape.mark)
        start = np.empty((len(index), width + 1), dtype=np.int64)
        start[:, :-1] = self.marks[self.first[index][:, None] + shape.mark]
        start[:, :-1] += shape.gap
        start[:, -1] = self.edges[index + 1]
        stop = start - shape.lengths  # where the text before each value begins
        good = (stop[:, 0] == self.edges[index]) & (stop[:, 1:] > start[:, :-1]).all(axis=1)
        if not good.all():
            index, start, stop = index[good], start[good], stop[good]
        places = start[:, shape.of]
        places -= shape.back
        differs = self.word_at(places)
        differs ^= shape.words
        differs &= shape.masks
        good = ~differs.any(axis=1)
        begin, end = np.ascontiguousarray(start[:, :-1]), np.ascontiguousarray(stop[:, 1:])
        quoted = self.buffer[begin] == _QUOTE
        good &= ~(quoted & ((self.buffer[end - 1] != _QUOTE) | (end - begin < 2))).any(axis=1)
        null = np.zeros_like(quoted)
        others = np.flatnonzero(~quoted)
        is_null, is_value = self._scalars(begin.reshape(-1)[others], end.reshape(-1)[others])
        null.reshape(-1)[others] = is_null
        good[others[~is_value] // width] = False
        begin += quoted
        end -= quoted
        quotes = shape.quotes + 2 * quoted.sum(axis=1)
        if good.all():
            return index, begin, end, null, quotes
        return index[good], begin[good], end[good], null[good], quotes[good]

    def _scalars(self, start: Ints, end: Ints) -> tuple[Bools, Bools]:
        """Which runs are ``null``, and which are a value without quotes at all."""
        size = end - start
        word = self.word_at(start) & _FIRST[np.minimum(size, WORD)]
        null = (word == _NULL) & (size == len("null"))
        good = _digits(word, np.minimum(size, WORD)) & (size <= 2 * WORD)
        longer = np.flatnonzero(good & (size > WORD))
        if len(longer):
            rest = size[longer] - WORD
            good[longer] = _digits(self.word_at(start[longer] + WORD) & _FIRST[rest], rest)
        good &= (size == 1) | ((word & np.uint64(0xFF)) != _ZERO)  # a number has no zero before it
        good |= null | ((word == _TRUE) & (size == len("true"))) | ((word == _FALSE) & (size == len("false")))
        rest = np.flatnonzero(~good & (size <= _LONGEST))
        if len(rest):
            texts = slices(self.buffer, start[rest], end[rest])
            good[rest] = pc.match_substring_regex(as_text(texts), _NUMBER).to_numpy(zero_copy_only=False)
        return null, good

    def checked(self, found: list[Alike]) -> Iterator[Alike]:
        """The groups without messages that have a quote inside of a value."""
        rest = np.flatnonzero(self.quotes == 0).tolist()
        if self.all_quotes - sum(self.text(message).count(b'"') for message in rest) == self.quotes.sum():
            yield from found
            return
        for alike in found:
            counts = [self.text(message).count(b'"') for message in alike.index.tolist()]
            chosen = np.flatnonzero(np.array(counts) == self.quotes[alike.index])
            if len(chosen):
                yield alike.take(chosen)


def _digits(word: Words, size: Ints) -> Bools:
    """Which words begin with so many digits, and then have zeros."""
    filled = word | (_ZEROS & ~_FIRST[size])
    found: Bools = ((filled & _HIGH) == _ZEROS) & (((filled + _SIXES) & _HIGH) == _ZEROS)
    return found
