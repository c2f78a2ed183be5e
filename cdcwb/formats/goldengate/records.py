"""Records of Logdump text: what the lines of each print, in arrays over the records of a text
(docs/formats/goldengate.md §2, §3.3, §3.8, §5.7 and §5.8). A contradiction is a problem with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Bools, Bytes, Ints, as_array, bytes_of, slices
from cdcwb.formats.goldengate.contents import HEADER, MISSING, NOT_A_TIME, Order, TrailToken, user_pairs, walk_tokens
from cdcwb.formats.goldengate.layout import (
    GHDR,
    GHDR_FIXED,
    GHDR_TIME,
    IMAGE_LETTERS,
    IO_TYPES,
    JULIAN_EPOCH_US,
    are_before_images,
    io_type_of,
)
from cdcwb.formats.goldengate.lines import LABEL, LABELS, Fields, Lines, Role, numbers, printed
from cdcwb.formats.moments import EARLIEST
from cdcwb.formats.records import UnparsedReason
from cdcwb.model import Problem

__all__ = [
    "FIELD", "FILE_HEADER", "MALFORMED", "NOT_COMPLETE", "NO_COLUMNS", "NO_RECORD", "RECORD", "TOKENS_TRUNCATED",
    "Columns", "Fault", "Tokens", "TrailRecords", "add_faults", "check_indicator", "decode", "header_numbers",
    "header_values", "text_of",
]  # fmt: skip


RECORD, FILE_HEADER, MALFORMED, NO_RECORD = range(4)
"""The shapes of records: a record, the header of a trail file, lines of a record with neither a complete header block
nor a record line, and a rule alone."""

_DIGITS: Final = 18  # of a number at most; an RBA has ten
_COUNTS: Final = ("RecLength", "IOType", "OrigNode", "SyskeyLen", "RecCount")
"""Printed as decimal and hex; of the others the printed character is decoration."""
_LETTERS: Final = ("Hdr-Ind", "BeforeAfter", "FormatType", "Continued")
_FIELD: Final = (
    rf"(?i)^ *(?P<label>{LABEL}) *: *(?P<value>.*?) *(?:\(x(?P<hex>[0-9a-f]{{1,15}})\))?(?P<rest> +{LABEL} *:.*)?$"
)
FIELD: Final = re.compile(_FIELD.encode())
"""The first field of a line of the header block, and the rest of the line."""
_TIME: Final = (
    r"^(?P<date>\d{4}[/-]\d\d[/-]\d\d)[ T]+(?P<time>\d\d:\d\d:\d\d)"
    r"(?:\.(?P<first>\d{1,3})(?:\.?(?P<then>\d{1,3}))?)?$"
)
_LENGTH: Final = r"Len(?:gth)? +(?P<length>\d{1,18}) *(?:\(0?x(?P<hex>[0-9a-fA-F]{1,15})\))?"
_FRAGMENT: Final = r"(?i)lob +fragment +(?P<number>\d{1,18}) +of +(?P<all>\d{1,18})"
_NUMBER: Final = {name: at for at, name in enumerate(HEADER)}
_BLOCK: Final = tuple(name for name in HEADER if name not in ("AuditRBA", "DDR index", "TDR index"))
_NULL: Final = pa.scalar(None, pa.binary())
_IO_TIME: Final = "(?i)^IO +Time$"
_QUARTER_HOUR_US: Final = 15 * 60 * 10**6
_ZONES_US: Final = 15 * 3600 * 10**6  # no zone is further from UTC than this
_METADATA: Final = 170
_OUR_DAYS: Final = (JULIAN_EPOCH_US, JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_YEARS: Final = (JULIAN_EPOCH_US - 10**9 * 86400 * 10, JULIAN_EPOCH_US + 10**6 * 86400 * 366 * 230)


class Columns(NamedTuple):
    """The lines ``Column`` and ``KeyCol`` of records. ``half``: 0 of a key (KeyCol), 1 before, 2 after;
    ``number``: the index of the column, from 0; ``length``: MISSING if not printed; ``fragment`` [n, 2]: LOB fragment k
    of m, MISSING for others. The bytes below, with the null indicator, are ``buffer[start:stop]``."""

    record: Ints
    line: Ints
    half: Ints
    number: Ints
    length: Ints
    fragment: Ints
    buffer: Bytes
    start: Ints
    stop: Ints


class Tokens(NamedTuple):
    """The tokens of records, in order; ``name`` is empty if not printed, ``value`` its printed bytes, ``length`` its
    complete length, MISSING if not printed."""

    record: Ints
    number: Ints
    name: pa.Array
    info: Ints
    length: Ints
    value: pa.Array

    @classmethod
    def of(cls, rows: Sequence[tuple[int, TrailToken]]) -> Tokens:
        """Those of token areas: record and token."""
        numbers = np.array([(record, one.id, one.info, one.length) for record, one in rows], np.int64).reshape(-1, 4)
        record, number, info, length = numbers.T
        values = pa.array([one.value for _, one in rows], pa.binary())
        return cls(record, number, pa.array([b""] * len(rows), pa.binary()), info, length, values)

    def then(self, other: Tokens) -> Tokens:
        """Both together, in the order of records."""
        columns = [
            np.concatenate(both) if isinstance(both[0], np.ndarray) else pa.concat_arrays(both)
            for both in zip(self, other, strict=True)
        ]
        order = np.argsort(columns[0], kind="stable")
        return Tokens(*(one[order] if isinstance(one, np.ndarray) else one.take(pa.array(order)) for one in columns))


class Fault(NamedTuple):
    """A problem of a record, and the field of the header that has it."""

    record: int
    code: Problem
    sentence: str
    field: str | None = None


@dataclass(slots=True)
class TrailRecords:
    """``n`` records in order. Numbers that are not printed are MISSING, texts null.

    * ``shape`` int8; ``start``, ``stop``: bytes of the text
    * ``values`` [n, 17], columns as :data:`HEADER`; ``length``, ``rba``, ``name_index`` of the record and Name lines
    * ``line_time``, ``io_time``, ``operation``, ``name``, ``transaction``, ``transaction_number``: texts as printed
    * ``moment``: the printed time (of the record line, else IO Time) in microseconds since 1970 as if its zone were
      UTC; ``julian``: that of the header token, UTC
    * ``image``: the code of ``A`` or ``B`` of the image line; ``image_trans``: TransInd by the letter at its end
    * ``total``: length of the header token G
    * ``body``: the bytes of the data; those of record k are ``body[body_at[k]:body_at[k + 1]]``
    * ``tokens``, ``user_tokens``, ``columns``, ``definition`` (the lines of a Metadata record): of the records that
      have them
    * ``faults``: their problems, in the order of records
    * ``gaps``: why bytes of a raw trail are not a record, by the first of them
    """

    lines: Lines
    start: Ints
    stop: Ints
    shape: npt.NDArray[np.int8] = field(init=False)
    values: Ints = field(init=False)
    length: Ints = field(init=False)
    rba: Ints = field(init=False)
    name_index: Ints = field(init=False)
    moment: Ints = field(init=False)
    julian: Ints = field(init=False)
    image: Ints = field(init=False)
    image_trans: Ints = field(init=False)
    total: Ints = field(init=False)
    line_time: pa.Array = field(init=False)
    io_time: pa.Array = field(init=False)
    operation: pa.Array = field(init=False)
    name: pa.Array = field(init=False)
    transaction: pa.Array = field(init=False)
    transaction_number: pa.Array = field(init=False)
    body: Bytes = field(init=False)
    body_at: Ints = field(init=False)
    tokens: Tokens = field(init=False)
    columns: Columns = field(init=False)
    user_tokens: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    definition: dict[int, str] = field(default_factory=dict)
    trail: dict[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    gaps: dict[int, UnparsedReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.start)
        self.shape, self.values = np.zeros(count, np.int8), np.full((count, len(HEADER)), MISSING)
        self.length, self.rba, self.name_index, self.moment, self.julian = np.full((5, count), MISSING)
        self.image, self.image_trans, self.total = np.full((3, count), MISSING)
        self.line_time = self.io_time = self.operation = self.name = pa.nulls(count, pa.binary())
        self.transaction = self.transaction_number = self.name
        self.body, self.body_at = self.lines.data[:0], np.zeros(count + 1, np.int64)
        self.tokens, self.columns = Tokens.of([]), NO_COLUMNS

    def __len__(self) -> int:
        return len(self.start)

    def column(self, name: str) -> Ints:
        """One number of the header, for all records."""
        return self.values[:, _NUMBER[name]]

    @property
    def side(self) -> Ints:
        """BeforeAfter of the header, else the words of the image line: the code of ``A`` or ``B``."""
        printed = self.column("BeforeAfter")
        return np.where(printed == MISSING, self.image, printed)

    def io_types(self) -> Ints:
        """The number of the record type, by its header or else by its printed name; MISSING without either."""
        found = self.column("IOType").copy()
        rows = np.flatnonzero(found == MISSING)
        names = self.operation.take(pa.array(rows)).to_pylist()
        numbers = [None if name is None else io_type_of(text_of(name)) for name in names]
        found[rows] = [MISSING if one is None else one for one in numbers]
        return found

    def data(self, record: int) -> bytes:
        """The printed bytes of a record's data."""
        return self.body[self.body_at[record] : self.body_at[record + 1]].tobytes()


def decode(lines: Lines, is_record: bool = False, heads: bool = False) -> TrailRecords:
    """The records of some lines. ``is_record``: all of them are one record. ``heads``: without columns, and without the
    problems of what is printed."""
    return _RecordDecoder(lines, is_record, heads).records()


def text_of(printed: bytes) -> str:
    """Printed text; bytes that are not UTF-8 are replaced."""
    return printed.decode("utf-8", "replace")


def moments(texts: pa.Array) -> Ints:
    """Printed times as microseconds since 1970 as if their zone were UTC; NOT_A_TIME for others."""
    found = pc.extract_regex(texts, _TIME)
    date, time, *fraction = (found.field(name).cast(pa.string()) for name in ("date", "time", "first", "then"))
    parts = [pc.utf8_rpad(pc.fill_null(one, ""), 3, "0") for one in fraction]
    fraction_ = pc.binary_join_element_wise(*parts, "")
    iso = pc.binary_join_element_wise(pc.replace_substring(date, "/", "-"), time, " ")
    iso = pc.binary_join_element_wise(iso, fraction_, ".").filter(found.is_valid())
    out = np.full(len(texts), NOT_A_TIME)
    out[as_array(found.is_valid())] = _micros(iso)
    return np.where(out < EARLIEST, NOT_A_TIME, out)


def _micros(iso: pa.Array) -> Ints:
    """Microseconds since 1970 of times in ISO 8601; NOT_A_TIME for dates that are not in the calendar."""
    try:
        micros: Ints = iso.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        return micros
    except pa.ArrowInvalid:
        half = len(iso) // 2
        return np.concatenate([_micros(iso[:half]), _micros(iso[half:])]) if half else np.array([NOT_A_TIME])


def add_faults(
    faults: list[Fault], chosen: Bools, template: str, *values: Any, name: str | None = None,
    code: Problem = Problem.HEADER_VALUE, record: Ints | None = None,
) -> None:  # fmt: skip
    """Adds a problem of each chosen record (or of the ``record`` of each chosen row), with its values."""
    for one in np.flatnonzero(chosen).tolist():
        found = (each[one] for each in values)
        shown = [text_of(each.as_py()) if isinstance(each, pa.Scalar) else each for each in found]
        faults.append(Fault(one if record is None else int(record[one]), code, template.format(*shown), name))


class _RecordDecoder:
    def __init__(self, lines: Lines, is_record: bool, heads: bool) -> None:
        self.lines, self.is_record, self.heads = lines, is_record, heads
        self.count = len(lines.begin)
        self.faults: list[Fault] = []
        self.fault = partial(add_faults, self.faults)

    def of(self, role: Role) -> tuple[Fields, Ints]:
        """The fields of a role, and the records of its lines."""
        found = self.lines.fields[role]
        return found, self.lines.record[found.line]

    def numbers(self, record: Ints, values: Ints) -> Ints:
        """The last number of each record."""
        found = np.full(self.count, MISSING)
        there = values != MISSING
        found[record[there]] = values[there]
        return found

    def texts(self, record: Ints, values: pa.Array) -> pa.Array:
        """The last text of each record."""
        row = np.full(self.count, -1)
        row[record] = np.arange(len(record))
        return values.take(pa.array(row, mask=row < 0))

    def records(self) -> TrailRecords:
        start, stop, only_rule = self._bounds()
        out = TrailRecords(self.lines, start, stop, faults=self.faults)
        self._lines(out)
        self._header_block(out)
        stated, parts = self._header_tokens(out)
        self._body(out)
        self._texts(out)
        self._shapes(out, only_rule)
        self._tokens(out)
        header, printed_time = _moments(out.io_time, out.line_time)
        out.moment = np.where(printed_time != NOT_A_TIME, printed_time, np.where(header != NOT_A_TIME, header, MISSING))
        if not self.heads:
            self._columns(out)
            self._check(out, header, printed_time, stated, parts)
        self.faults.sort(key=lambda one: one.record)
        return out

    def _lines(self, out: TrailRecords) -> None:
        """The record line, and the lines Name, TDR Index, TRANSID and of the image."""
        line, at = self.of(Role.RECORD)
        is_long = as_array(pc.greater(pc.fill_null(pc.binary_length(line.columns["rba"]), 0), _DIGITS))
        rba = numbers(pc.if_else(pa.array(is_long), _NULL, line.columns["rba"]))[line.code]
        self.fault(is_long[line.code], "RBA {} has more than ten digits: no position", line["rba"], record=at)
        out.rba, out.length = self.numbers(at, rba), self.numbers(at, line.numbers("length"))
        out.line_time, out.operation = self.texts(at, line["time"]), self.texts(at, line["operation"])
        name, at = self.of(Role.NAME)
        out.name, out.name_index[at] = self.texts(at, name["name"]), name.numbers("index")
        index, at = self.of(Role.TDR_INDEX)
        out.name_index[at] = index.numbers("index")
        image, at = self.of(Role.IMAGE)
        out.image = self.numbers(at, np.where(image.are("image", b"After"), ord("A"), ord("B")))
        letters = [IMAGE_LETTERS.index(one) if one else MISSING for one in image.columns["letter"].to_pylist()]
        out.image_trans[at] = np.array(letters, np.int64)[image.code]
        tmf, at = self.of(Role.TRANSACTION)
        number = pc.if_else(pa.array(tmf.have("number")), tmf["number"], _NULL)
        out.transaction, out.transaction_number = self.texts(at, tmf["id"]), self.texts(at, number)

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _bounds(self) -> tuple[Ints, Ints, Bools]:
        """First byte and end of each record, and whether it is only a rule. A record ends with its last line of a known
        role and the blank lines directly after it."""
        lines, count = self.lines, self.count
        role, record = lines.role, lines.record
        known = np.flatnonzero((record >= 0) & (role > Role.BLANK))
        last = lines.begin.copy()
        last[record[known]] = known
        solid = np.append(np.flatnonzero((role != Role.BLANK) | (record < 0)), len(role))
        following = solid[np.searchsorted(solid, last + 1)]  # the next line that is not blank
        outside = np.append(np.flatnonzero(record < 0), len(role))  # lines outside records end a record, too
        stops = np.minimum(np.append(lines.begin[1:], len(role)), outside[np.searchsorted(outside, last)])
        others = np.zeros(count, np.bool_)
        others[record[known[role[known] != Role.RULE]]] = True
        return lines.at[lines.begin], lines.at[np.minimum(following, stops)], ~others & (not self.is_record)

    # --- header -------------------------------------------------------------------------------------------------------

    def _header_block(self, out: TrailRecords) -> None:
        """The fields of the header block: for each record the first of each label. Each text of a line is read once."""
        found, record = self.of(Role.HEADER)
        codes, code = np.unique(self.lines.code[found.line], return_inverse=True)
        rest = self.lines.distinct.take(pa.array(codes))
        entries: dict[str, list[tuple[Ints, Ints, Ints]]] = {}
        times: list[tuple[Ints, pa.Array]] = []
        while rest.null_count < len(rest):
            columns = pc.extract_regex(rest, _FIELD)
            for name, rows, number, decimal in _fields_of(columns):
                mine, of = _members(rows, code, len(codes))
                entries.setdefault(name, []).append((mine, number[of], decimal[of]))
            is_time = as_array(pc.fill_null(pc.match_substring_regex(columns.field("label"), _IO_TIME), False))
            mine, of = _members(np.flatnonzero(is_time & printed(columns.field("value"))), code, len(codes))
            times.append((mine, columns.field("value").take(pa.array(code[mine]))))
            rest = pc.if_else(pa.array(printed(columns.field("rest"))), columns.field("rest"), _NULL)
        for name in HEADER:
            if name in entries:
                mine, number, decimal = (np.concatenate(one) for one in zip(*entries[name], strict=True))
                order = np.argsort(mine, kind="stable")
                self._enter(out, name, record[mine[order]], number[order], decimal[order])
        for mine, values in reversed(times):
            out.io_time = pc.coalesce(self.texts(record[mine[::-1]], values[::-1]), out.io_time)

    def _enter(self, out: TrailRecords, name: str, record: Ints, values: Ints, decimal: Ints) -> None:
        """The first number of each record; another one is a problem, also if the decimal and the hex digits of a field
        are two."""
        wrong = (decimal != MISSING) & (decimal != values)
        self.fault(wrong, f"{name} is printed as {{}} and as x{{:02x}}", decimal, values, name=name, record=record)
        there = values != MISSING
        record, values = record[there], values[there]
        column = out.values[:, _NUMBER[name]]
        column[record[::-1]] = values[::-1]
        first = column[record]
        said = f"{name} is printed as {{}}, then as {{}}"
        self.fault(first != values, said, first, values, name=name, record=record)

    def _header_tokens(self, out: TrailRecords) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """The numbers that header tokens state, which fill those that are not printed; and their lengths. MISSING for
        records without them."""
        lines, (tokens, record) = self.lines, self.of(Role.HEADER_TOKEN)
        number, length = tokens["number"].to_numpy(), tokens.numbers("length")
        parts = {}
        for letter in "GHDTUZ":
            mine = number == ord(letter)
            parts[letter] = np.full(self.count, MISSING)
            parts[letter][record[mine][::-1]] = length[mine][::-1]
        out.total = parts["G"]
        owner = lines.owners(Role.HEADER_TOKEN)
        is_h = np.zeros(len(lines.role), np.bool_)
        is_h[tokens.line[number == ord("H")]] = True
        of = np.where((owner >= 0) & is_h[owner], lines.record, -1)
        ghdr, at = lines.bytes_of(of, self.count, Role.HEADER_TOKEN_HEX)
        rows = np.flatnonzero(np.diff(at) >= GHDR_FIXED)
        _, out.julian[rows], found = header_numbers(bytes_of(np.ascontiguousarray(ghdr), at[rows], GHDR_FIXED))
        stated = {}
        has_index = out.column("TDR index") != MISSING
        for name, values in found.items():
            stated[name] = np.full(self.count, MISSING)
            stated[name][rows] = values
            column = out.values[:, _NUMBER[name]]
            fills = (column == MISSING) & ~(has_index & (name == "AuditRBA"))
            column[fills] = stated[name][fills]
        return stated, parts

    # --- data ---------------------------------------------------------------------------------------------------------

    def _body(self, out: TrailRecords) -> None:
        """The data: hex below the record, else of a file header its groups and tokens."""
        lines = self.lines
        out.body, out.body_at = lines.bytes_of(lines.record, self.count, Role.BODY)
        groups = {int(record) for record in self.of(Role.GROUP)[1]}
        if not groups:
            return
        data, at = lines.bytes_of(lines.owners(Role.GROUP, Role.GROUP_TOKEN), len(lines.role), Role.GROUP_HEX)
        pieces = [out.data(record) for record in range(self.count)]
        made = {record: bytearray() for record in groups if not pieces[record]}
        is_whole = False  # the hex of a group has its tokens, too
        for line, head in sorted([*self._token_heads(Role.GROUP), *self._token_heads(Role.GROUP_TOKEN)]):
            content: bytes = data[at[line] : at[line + 1]].tobytes()
            if lines.role[line] == Role.GROUP:
                is_whole = bool(content)
                content = content or head
            else:
                content = b"" if is_whole else head + content
            made.get(int(lines.record[line]), bytearray()).extend(content)
        for record, joined in made.items():
            pieces[record] = bytes(joined)
        out.body = np.frombuffer(b"".join(pieces), np.uint8)
        out.body_at = np.append(0, np.cumsum([len(one) for one in pieces]))

    def _token_heads(self, role: Role) -> Iterator[tuple[int, bytes]]:
        """The number of the line of each token or group, and its first four bytes: id, info and length."""
        found = self.lines.fields[role]
        columns = (found.line.tolist(), found["number"].to_pylist(), _info(found).tolist(), found.numbers("length"))
        for line, number, info, length in zip(*columns, strict=True):
            yield line, bytes([number & 255, info & 255]) + (int(length) & 0xFFFF).to_bytes(2, "big")

    def _texts(self, out: TrailRecords) -> None:
        """The lines of definitions, and the trail file that a report names."""
        lines = self.lines
        rows = np.flatnonzero((lines.role == Role.TEXT) & (lines.record >= 0))
        found: dict[int, list[bytes]] = {}
        for record, text in zip(lines.record[rows].tolist(), lines.texts(rows).to_pylist(), strict=True):
            found.setdefault(record, []).append(text)
        out.definition = {record: text_of(b"\n".join(texts)) for record, texts in found.items()}
        trail, of = self.of(Role.TRAIL)
        paths = zip(of.tolist(), trail["trail"].to_pylist(), strict=True)
        out.trail = {record: text_of(path) for record, path in paths if path}

    def _columns(self, out: TrailRecords) -> None:
        """The lines of columns, and the bytes below them."""
        lines, (found, record) = self.lines, self.of(Role.COLUMN)
        index, index_hex = found.numbers("index"), found.numbers("index_hex", True)
        sizes, pieces = (found.extracted("rest", one) for one in (_LENGTH, _FRAGMENT))
        length, length_hex = sizes.numbers("length"), sizes.numbers("hex", True)
        fragment = np.stack([pieces.numbers(name) for name in ("number", "all")], axis=1)
        data, at = lines.bytes_of(lines.owners(Role.COLUMN), len(lines.role), Role.COLUMN_HEX)
        start, stop = at[found.line], at[found.line + 1]
        too_large = (index >= 1 << 16) | (length >= 1 << 16) | ((length < 0) & (fragment[:, 0] < 0))
        for values, digits, what in ((index, index_hex, "Column"), (length, length_hex, "length of column {0}")):
            wrong = (digits != MISSING) & (digits != values)
            said = f"{what} is printed as {{1}} and as x{{2:04x}}"
            self.fault(wrong, said, index, values, digits, record=record)
            values[wrong] = digits[wrong]
        said = "Column {}: expected a number and a length below 65536"
        self.fault(too_large & (stop > start), said, index, record=record)
        stop = np.where(too_large, start, stop)
        half_line, _ = self.of(Role.HALF)
        named = np.full(len(lines.role), -1)
        named[half_line.line] = np.select(
            [half_line.are("half", b"Before"), half_line.are("half", b"After")], [1, 2], -1
        )
        owner = lines.nearest(named >= 0)[found.line]
        io, side = out.io_types()[record], out.side[record]
        before = are_before_images(io, side)
        half = np.where(owner >= 0, named[owner], np.where(before, 1, 2))
        half[found.are("kind", b"KeyCol")] = 0
        out.columns = Columns(record, found.line, half, index, length, fragment, data, start, stop)

    # --- shapes, tokens -----------------------------------------------------------------------------------------------

    def _shapes(self, out: TrailRecords, only_rule: Bools) -> None:
        lacks = _lacking(out).any(axis=1) | ~(out.values != MISSING).any(axis=1)
        out.shape[~as_array(out.operation.is_valid()) & lacks] = MALFORMED
        for texts, word in ((out.operation, b"FileHeader"), (out.name, b"*FileHeader*")):
            out.shape[_are(texts, word)] = FILE_HEADER
        out.shape[only_rule] = NO_RECORD
        self.fault(out.shape == MALFORMED, NOT_COMPLETE, code=Problem.MALFORMED)

    def _tokens(self, out: TrailRecords) -> None:
        """Tokens of lines ``TokenID`` and of token areas; name-value pairs of user tokens."""
        owner = self.lines.owners(Role.GGS, Role.TOKEN, Role.USER, Role.USER_TOKEN)
        user: dict[int, list[tuple[str, str]]] = {}
        pairs, at = self.of(Role.USER_PAIR)
        for record, name, value in zip(at.tolist(), pairs["name"].to_pylist(), pairs["value"].to_pylist(), strict=True):
            user.setdefault(record, []).append((text_of(name), text_of(value)))
        rows: list[tuple[int, TrailToken]] = []
        missing = np.zeros(self.count, np.int64)
        for record, area in self._areas(owner, Role.GGS, Role.TOKEN_HEX):
            tokens, missing[record] = walk_tokens(area)
            rows += [(record, token) for token in tokens]
        self.fault(missing > 0, TOKENS_TRUNCATED, missing, code=Problem.TRUNCATED)
        for record, area in self._areas(owner, Role.USER, Role.USER_TOKEN_HEX):
            user.setdefault(record, []).extend(user_pairs(area))
        out.tokens = self._token_lines(owner, Role.TOKEN, Role.TOKEN_HEX)
        if rows:
            out.tokens = Tokens.of(rows).then(out.tokens)
        found = self._token_lines(owner, Role.USER_TOKEN, Role.USER_TOKEN_HEX)
        for record, name, value in zip(
            found.record.tolist(), found.name.to_pylist(), found.value.to_pylist(), strict=True
        ):
            text = value.rstrip(b"\0")
            is_area = b"\0" in text or not name
            user.setdefault(record, []).extend(user_pairs(value) if is_area else [(text_of(name), text_of(text))])
        out.user_tokens = user

    def _areas(self, owner: Ints, role: Role, below: Role) -> list[tuple[int, bytes]]:
        """The hex digits directly below a line of a role, by record."""
        of = np.where((owner >= 0) & (self.lines.role[owner] == role), self.lines.record, -1)
        data, at = self.lines.bytes_of(of, self.count, below)
        return [(one, data[at[one] : at[one + 1]].tobytes()) for one in np.flatnonzero(np.diff(at)).tolist()]

    def _token_lines(self, owner: Ints, role: Role, below: Role) -> Tokens:
        """The tokens of lines of a role."""
        found, record = self.of(role)
        data, at = self.lines.bytes_of(owner, len(self.lines.role), below)
        start, stop, length = at[found.line], at[found.line + 1], found.numbers("length")
        number, name, have = found["number"].to_numpy(), found["name"], stop - start
        wrong = np.flatnonzero(have != length)
        called = {one: text_of(name[one].as_py()) or f"x{number[one]:02x}" for one in wrong.tolist()}
        said = "token {} truncated: have {} of {} bytes"
        self.fault(have < length, said, called, have, length, record=record, code=Problem.TRUNCATED)
        self.fault(have > length, "token {} has length {}, {} bytes are shown", called, length, have, record=record)
        return Tokens(record, number, name, _info(found), length, slices(data, start, stop))

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check(
        self, out: TrailRecords, header: Ints, line: Ints, stated: dict[str, Ints], parts: dict[str, Ints]
    ) -> None:
        """The problems of records that are not malformed: header, times, header token, data."""
        good = out.shape <= FILE_HEADER
        named = good & as_array(out.operation.is_valid())
        has_values, lacking = (out.values != MISSING).any(axis=1), _lacking(out)
        self.fault(good & ~named, "record line is missing", code=Problem.TRUNCATED)
        rows = good & has_values & lacking.any(axis=1)
        names = (*_BLOCK, "AuditRBA")
        lacks = {one: ", ".join(names[at] for at in np.flatnonzero(lacking[one])) for one in np.flatnonzero(rows)}
        self.fault(rows, "header block lacks {}", lacks, code=Problem.TRUNCATED)
        check_indicator(out, good)
        rec_length = out.column("RecLength")
        wrong = good & (rec_length != MISSING) & (out.length != MISSING) & (rec_length != out.length)
        said = "RecLength is {}, Len of the record line is {}"
        self.fault(wrong, said, rec_length, out.length, name="RecLength")
        conflicts = self._conflicts(out, named & (out.column("IOType") != MISSING))
        self.fault(np.isin(np.arange(self.count), list(conflicts)), "{}", conflicts, name="IOType")
        has_header, has_line = as_array(out.io_time.is_valid()), as_array(out.line_time.is_valid())
        for name, texts, has, found in (
            ("IO Time", out.io_time, has_header, header),
            ("time of the record line", out.line_time, has_line, line),
        ):
            self.fault(good & has & (found == NOT_A_TIME), f"{name} is not a time: {{}}", texts, name=name)
        wrong = good & (header != NOT_A_TIME) & (line != NOT_A_TIME) & (header != line)
        self.fault(wrong, "IO Time is {}, the record line has {}", out.io_time, out.line_time, name="IO Time")
        for name, there in stated.items():
            value = out.column(name)
            wrong = good & (there != MISSING) & (value != MISSING) & (value != there)
            if name == "AuditPos":
                wrong &= value & 0xFFFFFFFF != there
            self.fault(wrong, f"{name} is printed as {{}}, the header token has {{}}", value, there, name=name)
        shown = np.where(has_header, header, line)
        zone = shown - out.julian
        wrong = good & (out.julian != MISSING) & (shown != NOT_A_TIME)
        wrong &= (zone % _QUARTER_HOUR_US != 0) | (np.abs(zone) > _ZONES_US)
        said = "the printed time {} is {:.6f} s after that of the header token, not the offset of any zone"
        self.fault(wrong, said, pc.coalesce(out.io_time, out.line_time), zone / 10**6)
        self._lengths(out, good, parts)
        self._data(out, good)
        unreadable = [at for at, text in out.definition.items() if "\ufffd" in text]
        for what, some in (("Name", _undecodable(out.name)), ("definition", unreadable)):
            self.fault(np.isin(np.arange(self.count), some), f"{what} is not UTF-8", code=Problem.CHARSET)

    def _conflicts(self, out: TrailRecords, some: Bools) -> dict[int, str]:
        """Record types whose number contradicts their printed name."""
        rows = np.flatnonzero(some)
        names = out.operation.take(pa.array(rows)).to_pylist()
        numbered = zip(rows.tolist(), out.column("IOType")[rows].tolist(), names, strict=True)
        found = {row: _type_conflict(number, name) for row, number, name in numbered}
        return {row: said for row, said in found.items() if said is not None}

    def _lengths(self, out: TrailRecords, good: Bools, parts: dict[str, Ints]) -> None:
        whole, trailer, data = parts["G"], parts["Z"], np.maximum(parts["D"], 0)
        inner = 8 + np.sum([np.where(parts[one] != MISSING, parts[one] + 4, 0) for one in "HDTU"], axis=0)
        there = good & (whole != MISSING) & (parts["H"] != MISSING)
        self.fault(there & (whole != inner), "header token G has length {}, its parts make {}", whole, inner)
        wrong = there & (trailer != MISSING) & (trailer != whole)
        self.fault(wrong, "record trailer Z has length {}, header token G {}", trailer, whole)
        wrong = there & (out.length != MISSING) & (data != out.length)
        self.fault(wrong, "Len is {}, header token D has length {}", out.length, data)

    def _data(self, out: TrailRecords, good: Bools) -> None:
        """Data that are shown only in part, or longer than they should be."""
        length = np.where(out.length != MISSING, out.length, out.column("RecLength"))
        have = np.diff(out.body_at)
        asked = good & (length != MISSING) & (out.column("IOType") != _METADATA) & ~_are(out.operation, b"Metadata")
        asked[list(out.definition)] = False
        self.fault(asked & (have > length), "Len is {}, {} bytes of data are shown", length, have)
        short = asked & (have < length)
        if not short.any():
            return
        columns = out.columns
        size, (number, whole, of_before, of_key, total) = columns.stop - columns.start, (
            np.bincount(columns.record, weights=weights, minlength=self.count).astype(np.int64)
            for weights in (
                None, (columns.stop > columns.start) & (columns.stop - columns.start == columns.length),
                columns.half != 2, columns.half == 0, columns.length + 4,
            )
        )  # fmt: skip
        prefix = length - total - np.maximum(out.column("SyskeyLen"), 0)
        two = ((of_before > 0) & (of_before < number)) | (of_key > 0)
        by_columns = (have == 0) & (number > 0) & (whole == number)
        by_columns &= (prefix == 0) | (two & np.isin(prefix, (2, 4)))
        short &= ~(by_columns & (out.shape == RECORD))
        self.fault(short, "body truncated: have {} of {} bytes", have, length, code=Problem.TRUNCATED)
        of = (columns.number, size, columns.length)
        wrong = short[columns.record] & (size > 0) & (size < columns.length)
        said = "column {} truncated: have {} of {} bytes"
        self.fault(wrong, said, *of, code=Problem.TRUNCATED, record=columns.record)


def check_indicator(records: TrailRecords, some: Bools) -> None:
    """Adds the problem of the first byte of headers."""
    indicator = records.column("Hdr-Ind")
    wrong = some & (indicator != MISSING) & (indicator != ord("E"))
    add_faults(records.faults, wrong, "Hdr-Ind should be E (x45), it is x{:02x}", indicator, name="Hdr-Ind")


def _are(texts: pa.Array, word: bytes) -> Bools:
    """Which texts are this word."""
    return as_array(pc.fill_null(pc.equal(texts, word), False))


def header_numbers(fixed: Bytes) -> tuple[Bools, Ints, dict[str, Ints]]:
    """Of record headers, a row of bytes each: whether they are big-endian, IO Time in microseconds since 1970 UTC, and
    their numbers by name; MISSING where the byte order is unknown. It is the one in which the time is plausible, else
    valid; if it is in both, the one with the smaller RecLength."""

    def number(place: int, size: int, is_big: bool) -> Ints:
        digits = fixed[:, place : place + size][:, :: 1 if is_big else -1]
        found = np.zeros(len(fixed), np.uint64)
        for column in range(size):
            found = found << np.uint64(8) | digits[:, column]
        return found.astype(np.int64)

    times, sizes = ([number(*place, is_big) for is_big in (False, True)] for place in (GHDR_TIME, (4, 2)))
    is_big, is_known = np.zeros((2, len(fixed)), np.bool_)
    for low, high in (_OUR_DAYS, _YEARS):
        little, big = ((low <= one) & (one < high) for one in times)
        chosen = ~is_known & (little | big)
        is_big[chosen] = (big & (~little | (sizes[1] < sizes[0])))[chosen]
        is_known |= chosen
    metadata = fixed[:, 6] == _METADATA
    numbers = {}
    for name, place, size in GHDR:
        there = is_known & (~metadata if name == "AuditRBA" else metadata if name.endswith(" index") else True)
        value = np.where(is_big, number(place, size, True), number(place, size, False))
        numbers[name] = np.where(there, value, MISSING)
    time = np.where(is_known, np.where(is_big, times[1], times[0]) - JULIAN_EPOCH_US, MISSING)
    return is_big, time, numbers


def header_values(ghdr: bytes) -> tuple[Order | None, int, dict[str, int]]:
    """Byte order (None: unknown), time (microseconds since 1970 UTC) and numbers of a record header."""
    if len(ghdr) < GHDR_FIXED:
        return None, MISSING, {}
    is_big, time, numbers = header_numbers(np.frombuffer(ghdr[:GHDR_FIXED], np.uint8).reshape(1, -1))
    if time[0] == MISSING:
        return None, MISSING, {}
    found = {name: int(values[0]) for name, values in numbers.items() if values[0] != MISSING}
    return "big" if is_big[0] else "little", int(time[0]), found


_NONE: Final = np.zeros(0, np.int64)
NO_COLUMNS: Final = Columns(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE.reshape(0, 2), np.zeros(0, np.uint8), _NONE, _NONE)
"""For records without column lines."""
TOKENS_TRUNCATED: Final = "token area truncated: {} bytes are missing"
NOT_COMPLETE: Final = "lines of a record without a complete header block and without its record line"


def _members(rows: Ints, code: Ints, count: int) -> tuple[Ints, Ints]:
    """The lines whose text is one of some rows (codes), and for each the place of its code in ``rows``."""
    place = np.full(count, -1)
    place[rows] = np.arange(len(rows))
    mine = np.flatnonzero(place[code] >= 0)
    return mine, place[code[mine]]


def _fields_of(columns: pa.Array) -> Iterator[tuple[str, Ints, Ints, Ints]]:
    """The first fields of lines of the header block: name, the lines, their numbers, and of counts the decimal ones."""
    label = pc.replace_substring_regex(pc.ascii_lower(columns.field("label").cast(pa.string())), " +", " ")
    code = pc.fill_null(pc.index_in(label, pa.array([one.lower() for one in LABELS])), -1).to_numpy()
    values, digits = columns.field("value"), numbers(columns.field("hex"), True)
    decimal = numbers(pc.extract_regex(values, r"^(?P<n>\d{1,18})(?:$| )").field("n"))
    for at in np.unique(code[code >= 0]).tolist():
        name, rows = LABELS[at], np.flatnonzero(code == at)
        number, none = digits[rows], np.full(len(rows), MISSING)
        if name == "DDR/TDR index":
            both = pc.extract_regex(values.take(pa.array(rows)), r"^\( *(?P<DDR>\d{1,9}) *, *(?P<TDR>\d{1,9}) *\)")
            yield from ((f"{one} index", rows, numbers(both.field(one)), none) for one in ("DDR", "TDR"))
        elif name in _LETTERS:
            heads = [_letter(name, one[:1]) for one in values.take(pa.array(rows)).to_pylist()]
            yield name, rows, np.where(number == MISSING, np.array(heads, np.int64), number), none
        elif name != "IO Time":
            plain = decimal[rows]
            yield name, rows, np.where(number == MISSING, plain, number), plain if name in _COUNTS else none


def _letter(name: str, printed_: bytes) -> int:
    """The code of a printed character; Continued is 1 or 0."""
    if name == "Continued":
        return {b"Y": 1, b"N": 0}.get(printed_, MISSING)
    return MISSING if printed_ in (b"", b".", b"(") else printed_[0]


def _moments(*texts: pa.Array) -> list[Ints]:
    """See :func:`moments`; most of the texts are equal."""
    coded = pa.concat_arrays(texts).dictionary_encode()
    found = np.append(moments(coded.dictionary), NOT_A_TIME)
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    return np.split(found[codes], len(texts))


def _info(tokens: Fields) -> Ints:
    """The info of tokens, in either form of their lines."""
    return np.maximum(np.maximum(tokens.numbers("info", True), tokens.numbers("other_info", True)), 0)


def _lacking(out: TrailRecords) -> Bools:
    """Which of the fields of a complete header block each record lacks: those of _BLOCK, and AuditRBA."""
    block = out.values[:, [_NUMBER[name] for name in _BLOCK]] == MISSING
    rba = (out.column("AuditRBA") == MISSING) & (out.column("TDR index") == MISSING)
    return np.concatenate([block, rba[:, None]], axis=1)


@cache
def _type_conflict(number: int, operation: bytes) -> str | None:
    """How a record type's number and its printed name contradict certain facts."""
    text = text_of(operation)
    named, known = io_type_of(text), IO_TYPES.get(number)
    is_certain = (known is not None and known.certain) or (named is not None and IO_TYPES[named].certain)
    if named == number or not is_certain:
        return None
    return f"IOType {number} is {known.name if known else 'another operation'}, the record line has {text}"


def _undecodable(texts: pa.Array) -> list[int]:
    """The rows of texts that are not UTF-8."""
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return [row for row, text in enumerate(texts.to_pylist()) if text is not None and "\ufffd" in text_of(text)]
    return []
