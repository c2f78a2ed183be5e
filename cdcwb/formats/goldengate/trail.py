"""Raw, unencrypted trail files: records by the lengths that they have on disk (docs/formats/goldengate.md §11).

A record is a token G that holds tokens; the token Z at its end repeats its length. Bytes that do not check out are
gaps; reading resumes at the next record that checks out completely. Written from public facts and from the bytes that
Logdump prints: no complete real trail was available.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import bytes_of, content_of, gather
from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate import layout
from cdcwb.formats.goldengate.contents import TrailToken, file_header, user_pairs, walk_tokens
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.layout import MISSING, Order
from cdcwb.formats.goldengate.lines import parse
from cdcwb.formats.goldengate.plan import Bodies
from cdcwb.formats.goldengate.records import (
    FILE_HEADER,
    TOKENS_TRUNCATED,
    RecordSettings,
    Tokens,
    TrailRecords,
    check_values,
    header_numbers,
)
from cdcwb.formats.goldengate.tree import PrintedBytes, Tree, header_token, token_area, user_area
from cdcwb.formats.kernels import Bools, Bytes, Ints
from cdcwb.formats.records import Stream, UnparsedReason
from cdcwb.model import Problem

_F, _G, _Z = b"FGZ"
_PARTS: Final = b"HDTU"
_H, _D, _T, _U = range(4)
_HEAD: Final = 4  # id, info, length of a token
_LEAST: Final = 2 * _HEAD
_MOST: Final = 1 << 16  # a record is shorter
_REPAIR: Final = 3
_NOT_FILLED: Final = (
    f"expected a header token H of at least {layout.GHDR_FIXED} bytes and tokens that fill the record to its Z"
)


class _Frames(NamedTuple):
    """``n`` records whose length leads to a token Z with the same length. ``start``, ``size``: bytes of the buffer;
    ``is_big``: byte order of lengths; ``span`` [4, n, 2]: the contents of H, D, T and U, empty for those that are not
    there; ``cut``: where their tokens end; ``whole``: the tokens fill the record, and the first one is a header."""

    start: Ints
    size: Ints
    is_big: Bools
    span: Ints
    cut: Ints
    whole: Bools

    def of(self, some: Ints) -> _Frames:
        """Some of them."""
        span = self.span[:, some]
        return _Frames(self.start[some], self.size[some], self.is_big[some], span, self.cut[some], self.whole[some])


def _u16(data: Bytes, at: Ints, is_big: Bools | bool) -> Ints:
    first, second = data[at].astype(np.int64), data[at + 1].astype(np.int64)
    return np.where(is_big, first << 8 | second, second << 8 | first)


def _frames(data: Bytes, begins: Ints) -> _Frames:
    """The records that seem to begin at any byte G, or with F at the beginning of a file; big-endian lengths are
    preferred where both orders fit. ``begins``: the bytes at which files begin."""
    able = np.flatnonzero(data[: max(len(data) - _LEAST + 1, 0)] == _G)
    heads = begins[begins <= len(data) - _LEAST]
    able = np.union1d(able, heads[data[heads] == _F])
    limit = np.append(begins, len(data))[np.searchsorted(begins, able, side="right")]
    both = []
    for order in (True, False):
        size = _u16(data, able + 2, order)
        end = np.minimum(able + size, len(data))
        fits = (size >= _LEAST) & (able + size <= limit) & (data[end - 4] == _Z)
        fits &= (data[end - 2] == data[able + 2]) & (data[end - 1] == data[able + 3])
        both.append((able[fits], size[fits], np.full(np.count_nonzero(fits), order)))
    at, size, is_big = (np.concatenate(one) for one in zip(*both, strict=True))
    end = at + size - _HEAD
    span, cut = np.zeros((len(_PARTS), len(at), 2), np.int64), at + _HEAD
    for part, letter in enumerate(_PARTS):
        rows = np.flatnonzero((cut + _HEAD <= end) & (data[np.minimum(cut, end)] == letter))
        first = cut[rows] + _HEAD
        cut[rows] = first + _u16(data, cut[rows] + 2, is_big[rows])
        span[part, rows] = np.stack([first, np.minimum(cut[rows], end[rows])], axis=1)
    header = span[_H, :, 1] - span[_H, :, 0]
    found = _Frames(at, size, is_big, span, cut, (data[at] == _F) | ((cut == end) & (header >= layout.GHDR_FIXED)))
    rows = np.lexsort([~is_big, ~found.whole, at])
    return found.of(rows[np.append(True, np.diff(at[rows]) > 0)[: len(rows)]])


def valid_frames(head: bytes) -> tuple[int, Order]:
    """How many records of the first bytes of a trail file check out, and the byte order of most of their lengths."""
    found = _frames(np.frombuffer(head, np.uint8), np.zeros(1, np.int64))
    is_big = found.is_big[found.whole]
    return len(is_big), "big" if 2 * np.count_nonzero(is_big) >= len(is_big) else "little"


def _walk(data: Bytes, size: int, begins: Ints, is_end: bool) -> tuple[_Frames, Ints, dict[int, UnparsedReason]]:
    """The records that begin before ``size``, the end of each with the repair records that follow it, and why bytes are
    not a record, by the first of them. ``is_end``: the last file ends with ``data``, otherwise there are at least
    64 KiB after ``size``."""
    found = _frames(data, begins)
    starts, ends, whole = found.start.tolist(), (found.start + found.size).tolist(), found.whole.tolist()
    repairs = ((data[found.start] == _G) & (data[found.start + 1] == _REPAIR)).tolist()
    rows: list[int] = []
    reach: list[int] = []
    gaps: dict[int, UnparsedReason] = {}
    firsts, edges = frozenset(begins.tolist()), [*begins.tolist(), len(data)]
    good = [*found.start[found.whole].tolist(), len(data)]
    at, row, is_big = 0, 0, True
    while at < (len(data) if is_end else size):
        is_first = at in firsts
        row = bisect_left(starts, at, row)
        there = row < len(starts) and starts[row] == at
        if there and whole[row] and repairs[row]:
            gaps[at] = UnparsedReason(None, "repair record (info 3), which has no change")
            at = ends[row]
            if reach and not is_first:
                reach[-1] = at
        elif there and whole[row]:
            rows.append(row)
            is_big, at = bool(found.is_big[row]), ends[row]
            reach.append(at)
        elif there:
            gaps[at] = UnparsedReason(Problem.MALFORMED, _NOT_FILLED)
            at = ends[row]
        else:
            stop = edges[bisect_right(edges, at)]
            then = min(good[bisect_left(good, at)], stop)
            if not is_end and then >= size:
                break
            gaps[at] = _reason(data[at:stop], is_big and not is_first)
            at = then
    return found.of(np.array(rows, np.int64)), np.array(reach, np.int64), gaps


def _reason(data: Bytes, is_big: bool) -> UnparsedReason:
    """Why no record begins with these bytes, the rest of a file."""
    size = int.from_bytes(data[2:4].tobytes(), "big" if is_big else "little")
    if data[0] == _G and max(size, _LEAST) > len(data):
        sentence = f"expected a record of {max(size, _LEAST)} bytes, found {len(data)} to the end of the file"
        return UnparsedReason(Problem.TRUNCATED, sentence)
    joined = "; files that were joined have to be given one by one" if data[0] == _F else ""
    found = data[:_LEAST].tobytes().hex(" ")
    sentence = f"expected a record: G, its length, the tokens that fill it, and Z with the length again; found {found}"
    return UnparsedReason(Problem.MALFORMED, sentence + joined)


def read_frames(stream: Stream, at: int, size: int, reading: RecordSettings) -> tuple[TrailRecords, bool]:
    """The records of ``[at, at + size)``, and whether the stream ends with them; those that begin later belong to the
    next bytes. ``at``: the beginning of a record, or any byte from which on one is searched. Never raises."""
    data = stream.read(at, at + size + _MOST)
    is_end = at + len(data) == stream.length
    begins = np.array(stream.starts[:-1])
    begins = np.unique(begins[(begins >= at) & (begins < at + len(data))]) - at
    frames, reach, gaps = _walk(data, size, begins, is_end)
    index = np.searchsorted(stream.starts, at + frames.start, side="right") - 1
    records = _records(data, frames, at + frames.start - np.array(stream.starts)[index])
    records.total, records.gaps = reach - frames.start, gaps
    for row in np.unique(np.searchsorted(frames.start, begins)).tolist():  # the first record of each file
        if row < len(frames.start) and not _is_named(records, row):
            records.trail[row] = stream.files[int(index[row])].path
    records.relate(reading)
    return records, is_end


def _is_named(records: TrailRecords, row: int) -> bool:
    """Whether the first record of a file is a header that gives its name or number."""
    fields = file_header(records.data(row)) if records.shape[row] == FILE_HEADER else {}
    return "FileSeqno" in fields or "FileName" in fields


def _records(data: Bytes, frames: _Frames, rba: Ints) -> TrailRecords:
    """Records in arrays. ``rba``: their offsets in the trail file."""
    count, (h, d, t, u) = len(frames.start), frames.span
    is_file = data[frames.start] == _F
    d = np.where(is_file[:, None], np.stack([frames.start + _HEAD, frames.start + frames.size - _HEAD], axis=1), d)
    values, julian = np.full((count, len(layout.HEADER)), MISSING), np.full(count, MISSING)
    named, index, order = np.zeros(count, np.bool_), np.full(count, MISSING), frames.is_big.copy()
    rows = np.flatnonzero(~is_file)
    if len(rows):
        is_big, julian[rows], numbers = header_numbers(bytes_of(data, h[rows, 0], layout.GHDR_FIXED))
        for name, found in numbers.items():
            values[rows, layout.HEADER.index(name)] = found
        order[rows] = np.where(julian[rows] == MISSING, order[rows], is_big)
        by_index = (numbers["Partition"] & layout.BY_INDEX > 0) & (numbers["Partition"] != MISSING)
        named[rows] = ~by_index & (numbers["IOType"] != layout.METADATA)
        tail = by_index & (h[rows, 1] - h[rows, 0] >= layout.GHDR_FIXED + 2)
        index[rows[tail]] = _u16(data, h[rows[tail], 0] + layout.GHDR_FIXED, order[rows[tail]])
        index[index == 0] = MISSING
        values[index != MISSING, layout.HEADER.index("TDR index")] = index[index != MISSING]
    io = values[:, layout.HEADER.index("IOType")]
    types = pa.array([*layout.TYPE_NAMES, "FileHeader"]).cast(pa.binary())
    records = TrailRecords(replace(parse(data[:0]), source=data), frames.start, frames.start + frames.size)
    records.shape[is_file] = FILE_HEADER
    records.values, records.length, records.rba, records.name_index = values, d[:, 1] - d[:, 0], rba, index
    records.julian, records.total, records.io_time = julian, frames.size, _times(julian)
    records.operation = types.take(pa.array(np.where(is_file, 256, io), mask=~is_file & (io < 0)))
    records.name = _names(data, h, named)
    records.body, records.body_at = content_of(gather(pa.binary(), data, d[:, 0], d[:, 1], None))
    for row in np.flatnonzero(u[:, 1] > u[:, 0]).tolist():
        records.user_tokens[row] = user_pairs(data[u[row, 0] : u[row, 1]].tobytes())
    _add_tokens(records, data, t, order)
    _check(records, ~is_file)
    return records


def _times(julian: Ints) -> pa.Array:
    """IO Time as text in UTC; null without one."""
    moments = pa.array(julian, pa.timestamp("us"), mask=julian == MISSING)
    return pc.strftime(moments, format="%Y-%m-%dT%H:%M:%SZ").cast(pa.binary())


def _names(data: Bytes, header: Ints, named: Bools) -> pa.Array:
    """The names of tables at the end of headers, up to a zero byte."""
    texts = gather(pa.binary(), data, np.minimum(header[:, 0] + layout.GHDR_FIXED, header[:, 1]), header[:, 1], named)
    coded = texts.dictionary_encode()
    names = [name.partition(b"\0")[0] for name in coded.dictionary.to_pylist()]
    return pa.array(names, pa.binary()).take(coded.indices)


def _add_tokens(records: TrailRecords, data: Bytes, area: Ints, is_big: Bools) -> None:
    """The tokens in areas of id, info, length and value."""
    rows: list[tuple[int, TrailToken]] = []
    missing = np.zeros(len(records), np.int64)
    for row in np.flatnonzero(area[:, 1] > area[:, 0]).tolist():
        order: Order = "big" if is_big[row] else "little"
        tokens, missing[row] = walk_tokens(data[area[row, 0] : area[row, 1]].tobytes(), order)
        rows += [(row, one) for one in tokens]
    records.fault(missing > 0, TOKENS_TRUNCATED, missing, code=Problem.TRUNCATED)
    records.tokens = Tokens.of(rows)


def _check(records: TrailRecords, is_record: Bools) -> None:
    """The problems of headers."""
    size, length = records.column("RecLength"), records.length
    said = "the header has no plausible time in either byte order: its numbers are not known"
    records.fault(is_record & (records.julian == MISSING), said)
    wrong = is_record & (size != MISSING) & (size != length)
    records.fault(wrong, "RecLength is {}, token D has length {}", size, length, name="RecLength")
    check_values(records, is_record)
    records.faults.sort(key=lambda one: one.record)


# --- one record -------------------------------------------------------------------------------------------------------


def dissect_frame(record: bytes, definition: Definition | None, bodies: Bodies, reading: RecordSettings) -> Field:
    """The field tree of a record that checks out. Children cover their node without holes, in byte order."""
    data = np.frombuffer(record, np.uint8)
    frames = _frames(data, np.zeros(1, np.int64))
    records = _records(data, frames, np.zeros(len(frames.start), np.int64))
    records.relate(reading)
    tree, is_big, is_file = Tree(record, records, definition, bodies, reading), bool(frames.is_big[0]), record[0] == _F
    end = len(record) - _HEAD
    fields = [_token(tree.text, 0, len(record), [], is_big), _token(tree.text, end, len(record), [], is_big)]
    if is_file:
        fields += tree.data(_part(record, _HEAD, end))
    for part, of_part in enumerate((header_token, tree.data, token_area, user_area)):
        start, stop = frames.span[part, 0].tolist()
        if start:
            fields.append(_token(tree.text, start - _HEAD, stop, of_part(_part(record, start, stop)), is_big))
    gap = ("head", "id, info and length of the group") if is_file else ("unknown", "bytes that are not known")
    return _named_gaps(tree.text.field(tree.name, 0, len(record), None, tree.meaning, children=fields), *gap)


def _part(record: bytes, start: int, stop: int) -> PrintedBytes:
    """Bytes ``[start, stop)`` of a record as they are."""
    return PrintedBytes(record, record[start:stop], range(start, stop + 1), 1)


def _token(text: PrintedBytes, at: int, stop: int, inner: Iterable[Field], is_big: bool) -> Field:
    """The field of a token of the record; of G and F only their first bytes."""
    letter, order = chr(text.record[at]), "big" if is_big else "little"
    end = at + _HEAD if letter in "GF" else stop
    size = int.from_bytes(text.record[at + 2 : at + 4], "big" if is_big else "little")
    meaning = layout.HEADER_TOKENS.get(letter, "the file header with its trailer token")
    head = [
        text.field("token id", at, at + 1, letter, f"x{text.record[at]:02x}"),
        text.field("info", at + 1, at + 2, f"x{text.record[at + 1]:02x}", "not known"),
        text.field("length", at + 2, at + 4, str(size), f"{order}-endian, in bytes"),
    ]
    return text.field(letter, at, end, str(size), meaning, children=[*head, *inner])


def _named_gaps(node: Field, name: str, meaning: str) -> Field:
    """The same tree, with this name and meaning for bytes between fields."""
    if node.quiet:
        return Field(name, node.offset, node.length, node.raw, node.raw.hex(), meaning)
    return replace(node, children=tuple(_named_gaps(one, name, meaning) for one in node.children))
