"""Records of Logdump text: what the lines of each print, in arrays over the records of a text
(docs/formats/goldengate.md §2, §3.3, §3.8, §5.7 and §5.8). A contradiction is a problem with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, bytes_of, slices
from cdcwb.formats.goldengate import layout
from cdcwb.formats.goldengate.contents import TrailToken, user_pairs, walk_tokens
from cdcwb.formats.goldengate.definitions import GUARDIAN, one_case
from cdcwb.formats.goldengate.layout import MISSING, NOT_A_TIME, Order
from cdcwb.formats.goldengate.lines import LABEL, LABELS, Fields, Lines, Role, numbers, printed
from cdcwb.formats.kernels import Bools, Bytes, Ints
from cdcwb.formats.moments import IS_TIME, iso_times
from cdcwb.formats.records import UnparsedReason
from cdcwb.model import Problem
from cdcwb.words import joined

RECORD, FILE_HEADER, MALFORMED, NO_RECORD = range(4)
"""The shapes of records: a record, the header of a trail file, lines of a record with neither a complete header block
nor a record line, and a rule alone."""

ALONE: Final = (0, 3)
"""TransInd of the first record of a transaction."""
CLOSES: Final = (2, 3)
"""TransInd of the last record of a transaction."""
LOGCSN, TRANID, ROWID = 0x4C, 0x36, 0x52
TOKENS_TRUNCATED: Final = "token area truncated: {} bytes are missing"
NOT_COMPLETE: Final = "lines of a record without a complete header block and without its record line"

_DIGITS: Final = 18  # of a number at most; an RBA has ten
_FIELD: Final = (
    rf"(?i)^ *(?P<label>{LABEL}) *: *(?P<value>.*?) *(?:\(x(?P<hex>[0-9a-f]{{1,15}})\))?(?P<rest> +{LABEL} *:.*)?$"
)
FIELD: Final = re.compile(_FIELD.encode())
"""The first field of a line of the header block, and the rest of the line."""
_TIME: Final = (
    r"^(?P<date>\d{4}[/-]\d\d[/-]\d\d)[ T]+(?P<time>\d\d:\d\d:\d\d)"
    r"(?:\.(?P<first>\d{1,3})(?:\.?(?P<then>\d{1,3}))?)?$"
)
_FRAGMENT: Final = r"(?i)lob +fragment +\d"
_NUMBER: Final = {name: at for at, name in enumerate(layout.HEADER)}
_BLOCK: Final = tuple(name for name in layout.HEADER if name not in ("AuditRBA", "DDR index", "TDR index"))
_NULL: Final = pa.scalar(None, pa.binary())
_OUR_DAYS: Final = (layout.JULIAN_EPOCH_US, layout.JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_YEARS: Final = (layout.JULIAN_EPOCH_US - 10**9 * 86400 * 10, layout.JULIAN_EPOCH_US + 10**6 * 86400 * 366 * 230)


class RecordSettings(NamedTuple):
    """The character set of names. ``raw``: the files are raw trails, not text."""

    charset: str = "utf-8"
    raw: bool = False


class Tokens(NamedTuple):
    """The tokens of records, in order; ``name`` is empty if not printed, ``value`` its printed bytes, which may not be
    ``complete``."""

    record: Ints
    number: Ints
    name: pa.Array
    value: pa.Array
    complete: pa.Array

    @classmethod
    def of(cls, rows: Sequence[tuple[int, TrailToken]]) -> Tokens:
        """Those of token areas: record and token."""
        record, number = np.array([(record, one.id) for record, one in rows], np.int64).reshape(-1, 2).T
        values = pa.array([one.value for _, one in rows], pa.binary())
        complete = pa.array([len(one.value) == one.length for _, one in rows], pa.bool_())
        return cls(record, number, pa.array([b""] * len(rows), pa.binary()), values, complete)

    def then(self, other: Tokens) -> Tokens:
        """Both together, in the order of records."""
        record = np.concatenate([self.record, other.record])
        order = np.argsort(record, kind="stable")
        rest = (pa.concat_arrays(both).take(pa.array(order)) for both in zip(self[2:], other[2:], strict=True))
        return Tokens(record[order], np.concatenate([self.number, other.number])[order], *rest)


class Fault(NamedTuple):
    """A problem of a record, and the field of the header that has it."""

    record: int
    code: Problem
    sentence: str
    field: str | None = None


class TrailRecords:
    """``n`` records in order. Numbers that are not printed are MISSING, texts null.

    * ``shape`` int8; ``start``, ``stop``: bytes of the text
    * ``values`` [n, 17], columns as :data:`HEADER`; ``length``, ``rba``, ``name_index`` of the record and Name lines
    * ``line_time``, ``io_time``, ``operation``, ``name``, ``transaction``, ``transaction_number``: texts as printed
    * ``moment``: the printed time (of the record line, else IO Time) in microseconds since 1970 as if its zone were
      UTC; ``julian``: that of the header token, UTC
    * ``image``: the code of ``A`` or ``B`` of the image line; ``image_trans``: TransInd by the letter at its end;
      ``side``: BeforeAfter of the header, else ``image``
    * ``total``: length of the header token G; ``lob_column``: the column of a large object whose segment the data is
    * ``body``: the bytes of the data; those of record k are ``body[body_at[k]:body_at[k + 1]]``
    * ``tokens``, ``user_tokens``, ``definition`` (the lines of a Metadata record), ``trail`` (the trail
      file that a report names): of the records that have them
    * ``faults``: their problems, in the order of records
    * ``gaps``: why bytes of a raw trail are not a record, by the first of them

    Which belong together, by :meth:`relate`:

    * ``io``: number of the record type, by its header or else by its printed name
    * ``trans``: TransInd; without a header block, that of the image line
    * ``member``: in a transaction (or would be, were it known which); ``abort``: RestartAbend
    * ``goes_on``: Continued is Y
    * ``half``: an update that may be one of two halves; ``before``: the first of them
    * ``twin``: the after image of the trail record whose before image is printed above it, with the same RBA
    * ``fragment``: continues the preceding record
    * ``table``: index into ``tables``. Guardian file names that differ only in case are one table
    * ``csn``, ``xid``: values of tokens as text
    * ``nonstop``: of a NonStop, by a file name such as ``$VOLUME.SUBVOL.FILE``, a line TRANSID or a system key
    """

    def __init__(self, lines: Lines, start: Ints, stop: Ints) -> None:
        count, self.lines, self.start, self.stop = len(start), lines, start, stop
        self.shape, self.values = np.zeros(count, np.int8), np.full((count, len(layout.HEADER)), MISSING)
        self.length, self.rba, self.name_index, self.moment, self.julian = np.full((5, count), MISSING)
        self.image, self.image_trans, self.total, self.lob_column = np.full((4, count), MISSING)
        self.line_time = self.io_time = self.operation = self.name = pa.nulls(count, pa.binary())
        self.transaction = self.transaction_number = self.name
        self.body: Bytes = lines.data[:0]
        self.body_at: Ints = np.zeros(count + 1, np.int64)
        self.tokens = Tokens.of([])
        self.user_tokens: dict[int, list[tuple[str, str]]] = {}
        self.definition: dict[int, str] = {}
        self.trail: dict[int, str] = {}
        self.faults: list[Fault] = []
        self.gaps: dict[int, UnparsedReason] = {}

    def __len__(self) -> int:
        return len(self.start)

    def column(self, name: str) -> Ints:
        """One number of the header, for all records."""
        found: Ints = self.values[:, _NUMBER[name]]
        return found

    @property
    def side(self) -> Ints:
        """BeforeAfter of the header, else the words of the image line: the code of ``A`` or ``B``."""
        printed = self.column("BeforeAfter")
        return np.where(printed == MISSING, self.image, printed)

    def data(self, record: int) -> bytes:
        """The printed bytes of a record's data."""
        return self.body[self.body_at[record] : self.body_at[record + 1]].tobytes()

    def fault(
        self, chosen: Bools, template: str, *values: Any, name: str | None = None,
        code: Problem = Problem.HEADER_VALUE, record: Ints | None = None,
    ) -> None:  # fmt: skip
        """Adds a problem of each chosen record (or of the ``record`` of each chosen row), with its values."""
        for one in np.flatnonzero(chosen).tolist():
            found = (each[one] for each in values)
            shown = [text_of(each.as_py()) if isinstance(each, pa.Scalar) else each for each in found]
            self.faults.append(Fault(one if record is None else int(record[one]), code, template.format(*shown), name))

    def relate(self, reading: RecordSettings) -> None:
        """Finds which records belong together."""
        is_record = self.shape == RECORD
        io = self.io = np.where(is_record, self.column("IOType"), MISSING)
        named = np.flatnonzero(is_record & (io == MISSING) & as_array(self.operation.is_valid()))
        known = (layout.io_type_of(text_of(name)) for name in self.operation.take(pa.array(named)).to_pylist())
        io[named] = [MISSING if one is None else one for one in known]
        self.member = is_record & ~np.isin(io, (layout.METADATA, layout.RESTART_OK, layout.RESTART_ABEND))
        self.abort = is_record & (io == layout.RESTART_ABEND)
        trans = np.where(self.member, self.column("TransInd"), MISSING)
        self.trans = np.where(self.member & (trans == MISSING), self.image_trans, trans)
        self.goes_on = self.member & (self.column("Continued") == 1)
        self.half = np.isin(io, layout.HALVES)
        self.before = self.half & (self.side == ord("B"))
        names = self.name.dictionary_encode()
        codes = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = [one_case(one.decode(reading.charset, "replace")) for one in names.dictionary.to_pylist()]
        number = {name: at for at, name in enumerate(dict.fromkeys(texts))}
        self.tables, self.table = list(number), np.array([*map(number.__getitem__, texts), MISSING])[codes]
        self.csn = token_texts(self, LOGCSN, reading.charset)
        self.xid = pc.coalesce(token_texts(self, TRANID), decoded_texts(self.transaction))
        named = np.array([*(GUARDIAN.fullmatch(name) is not None for name in self.tables), False])[self.table]
        self.nonstop = named | (self.column("SyskeyLen") > 0) | as_array(self.transaction.is_valid())
        self._relate_twins(np.flatnonzero(is_record))
        self._relate_fragments(np.flatnonzero(self.member))

    def _relate_twins(self, rows: Ints) -> None:
        """After images that are printed directly below the before image of the same trail record. Both are one record
        of its transaction: their TransInd is that of both together, and a token below one of them is that of both."""
        first, second = rows[:-1], rows[1:]
        same = self.before[first] & self.half[second] & (self.side[second] == ord("A")) & (self.rba[second] > 0)
        for values in (self.rba, self.moment, self.io, self.table):
            same &= values[first] == values[second]
        self.twin = np.zeros(len(self), np.bool_)
        self.twin[second[same]] = True
        if not same.any():
            return
        first, second = first[same], second[same]
        alike = (self.trans[first] == self.trans[second]) & (self.trans[first] >= 0)
        for chosen, parts in ((first[alike], (0, 1, 1, 0)), (second[alike], (1, 1, 2, 2))):
            self.trans[chosen] = np.array(parts)[self.trans[chosen]]
        other = np.arange(len(self))
        other[first], other[second] = second, first
        self.xid = pc.coalesce(self.xid, self.xid.take(pa.array(other)))

    def _relate_fragments(self, rows: Ints) -> None:
        """Members that continue the preceding member. One of another table continues none; nor does one that begins a
        transaction, even if the preceding one is marked as continued, unless its type is that of a segment. The first
        segment of a large object is in the transaction of its record."""
        table, io, trans = self.table[rows], self.io[rows], self.trans[rows]
        follows, unmarked = np.zeros((2, len(rows)), np.bool_)
        same, inside = np.ones(len(rows), np.bool_), ~np.isin(trans, ALONE)
        same[1:] = (table[1:] == table[:-1]) | (table[1:] < 0) | (table[:-1] < 0)
        follows[1:] = self.goes_on[rows][:-1]
        unmarked[1:] = self.column("Continued")[rows][:-1] == MISSING
        first = inside & ((io == layout.LOB) | ((io == layout.FRAGMENT) & unmarked))
        first[1:] &= ~np.isin(trans[:-1], CLOSES)
        first[:1] |= np.isin(io[:1], layout.SEGMENTS)  # the record before it is not known
        self.fragment = np.zeros(len(self), np.bool_)
        self.fragment[rows] = same & ((follows & (inside | np.isin(io, layout.SEGMENTS))) | first)


def text_of(printed: bytes) -> str:
    """Printed text; bytes that are not UTF-8 are replaced."""
    return printed.decode("utf-8", "replace")


def decoded_texts(texts: pa.Array, charset: str = "utf-8") -> pa.Array:
    """Bytes as text; undecodable bytes become U+FFFD."""
    if charset.lower().replace("_", "-") in ("utf-8", "utf8", "ascii"):
        try:
            return texts.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array([None if one is None else one.decode(charset, "replace") for one in texts.to_pylist()], pa.string())


def token_texts(records: TrailRecords, number: int, charset: str = "utf-8") -> pa.Array:
    """The text of a token of each record, up to a zero byte and without blanks at its end; null without one, and if it
    is empty or not printed in full."""
    tokens = records.tokens
    rows = np.flatnonzero((tokens.number == number) & as_array(tokens.complete))
    row = np.full(len(records), -1)
    row[tokens.record[rows][::-1]] = rows[::-1]
    values = tokens.value.take(pa.array(row, mask=row < 0))
    texts = decoded_texts(values, charset)
    if pc.any(pc.match_substring(texts, "\0")).as_py():
        texts = pc.replace_substring_regex(texts, r"(?s)\x00.*$", "")
    return pc.if_else(pc.greater(pc.binary_length(values), 0), pc.ascii_rtrim(texts, " "), pa.scalar(None, pa.string()))


def moments(texts: pa.Array) -> Ints:
    """Printed times as microseconds since 1970 as if their zone were UTC; NOT_A_TIME for others."""
    found = pc.extract_regex(texts, _TIME)
    date, time, *fraction = (found.field(name).cast(pa.string()) for name in ("date", "time", "first", "then"))
    parts = [pc.utf8_rpad(pc.fill_null(one, ""), 3, "0") for one in fraction]
    iso = pc.binary_join_element_wise(pc.replace_substring(date, "/", "-"), "T", time, ".", *parts, "")
    micros, state = iso_times(iso)
    return np.where(state & IS_TIME, micros, NOT_A_TIME)


# --- the header of a record -------------------------------------------------------------------------------------------


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

    times, sizes = ([number(*place, is_big) for is_big in (False, True)] for place in (layout.GHDR_TIME, (4, 2)))
    is_big, is_known = np.zeros((2, len(fixed)), np.bool_)
    for low, high in (_OUR_DAYS, _YEARS):
        little, big = ((low <= one) & (one < high) for one in times)
        chosen = ~is_known & (little | big)
        is_big[chosen] = (big & (~little | (sizes[1] < sizes[0])))[chosen]
        is_known |= chosen
    metadata = fixed[:, 6] == layout.METADATA
    found = {}
    for name, place, size in layout.GHDR:
        there = is_known & (~metadata if name == "AuditRBA" else metadata if name.endswith(" index") else True)
        value = np.where(is_big, number(place, size, True), number(place, size, False))
        found[name] = np.where(there, value, MISSING)
    time = np.where(is_known, np.where(is_big, times[1], times[0]) - layout.JULIAN_EPOCH_US, MISSING)
    return is_big, time, found


def header_values(ghdr: bytes) -> tuple[Order | None, int, dict[str, int]]:
    """Byte order (None: unknown), time (microseconds since 1970 UTC) and numbers of a record header."""
    if len(ghdr) < layout.GHDR_FIXED:
        return None, MISSING, {}
    is_big, time, found = header_numbers(np.frombuffer(ghdr[: layout.GHDR_FIXED], np.uint8).reshape(1, -1))
    if time[0] == MISSING:
        return None, MISSING, {}
    values = {name: int(one[0]) for name, one in found.items() if one[0] != MISSING}
    return "big" if is_big[0] else "little", int(time[0]), values


def check_values(records: TrailRecords, some: Bools) -> None:
    """Adds the problems of header fields that have a value which does not exist."""
    for name, known in layout.CLOSED.items():
        value, expected = records.column(name), joined([layout.shown(name, one) for one in known], "or")
        wrong = some & (value != MISSING) & ~np.isin(value, known)
        records.fault(wrong, f"{name} is x{{:02x}}, expected {expected}", value, name=name)


# --- lines to records -------------------------------------------------------------------------------------------------


def decode(
    lines: Lines, reading: RecordSettings | None = None, *, is_record: bool = False, heads: bool = False
) -> TrailRecords:
    """The records of some lines. ``is_record``: all of them are one record. ``heads``: without the problems of what is
    printed."""
    return _Decoder(lines, is_record).records(reading or RecordSettings(), heads)


class _Decoder:
    def __init__(self, lines: Lines, is_record: bool) -> None:
        self.lines, self.is_record = lines, is_record
        self.count = len(lines.begin)
        start, stop, self.only_rule = self._bounds()
        self.out = TrailRecords(lines, start, stop)
        self.fault = self.out.fault

    def records(self, reading: RecordSettings, heads: bool) -> TrailRecords:
        out = self.out
        self._lines()
        self._header_block()
        stated = self._header_tokens()
        self._body()
        self._texts()
        lacking = self._shapes()
        self._tokens()
        coded = pa.concat_arrays([out.io_time, out.line_time]).dictionary_encode()  # most of the texts are equal
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        header, line = np.split(np.append(moments(coded.dictionary), NOT_A_TIME)[codes], 2)
        out.moment = np.where(line != NOT_A_TIME, line, np.where(header != NOT_A_TIME, header, MISSING))
        out.relate(reading)
        if not heads:
            self._check(header, line, stated, lacking)
        out.faults.sort(key=lambda one: one.record)
        return out

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

    def differ(self, one: Ints, other: Ints, said: str, some: Bools, name: str | None = None) -> None:
        """A problem of records that print two different numbers."""
        self.fault(some & (one != MISSING) & (other != MISSING) & (one != other), said, one, other, name=name)

    def _bounds(self) -> tuple[Ints, Ints, Bools]:
        """First byte and end of each record, and whether it is only a rule. A record ends with its last line of a known
        role and the blank lines directly after it."""
        lines = self.lines
        role, record = lines.role, lines.record
        known = np.flatnonzero((record >= 0) & (role > Role.BLANK))
        last = lines.begin.copy()
        last[record[known]] = known
        solid = np.append(np.flatnonzero((role != Role.BLANK) | (record < 0)), len(role))
        following = solid[np.searchsorted(solid, last + 1)]  # the next line that is not blank
        outside = np.append(np.flatnonzero(record < 0), len(role))  # lines outside records end a record, too
        stops = np.minimum(np.append(lines.begin[1:], len(role)), outside[np.searchsorted(outside, last)])
        others = np.zeros(self.count, np.bool_)
        others[record[known[role[known] != Role.RULE]]] = True
        return lines.at[lines.begin], lines.at[np.minimum(following, stops)], ~others & (not self.is_record)

    def _lines(self) -> None:
        """The record line, and the lines Name, TDR Index, TRANSID, Trail name, of the image and of large objects."""
        out, (line, at) = self.out, self.of(Role.RECORD)
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
        letters = [layout.IMAGE_LETTERS.index(one) if one else MISSING for one in image.columns["letter"].to_pylist()]
        out.image_trans[at] = np.array(letters, np.int64)[image.code]
        column, at = self.of(Role.COLUMN)
        place = column.numbers("index")
        is_lob = as_array(pc.match_substring_regex(column["rest"], _FRAGMENT)) & (place < 1 << 16)
        out.lob_column[at[is_lob]] = place[is_lob]
        tmf, at = self.of(Role.TRANSACTION)
        number = pc.if_else(pa.array(tmf.have("number")), tmf["number"], _NULL)
        out.transaction, out.transaction_number = self.texts(at, tmf["id"]), self.texts(at, number)
        trail, at = self.of(Role.TRAIL)
        paths = zip(at.tolist(), trail["trail"].to_pylist(), strict=True)
        out.trail = {record: text_of(path) for record, path in paths if path}

    # --- header -------------------------------------------------------------------------------------------------------

    def _header_block(self) -> None:
        """The fields of the header block: for each record the first of each label. Each text of a line is read once."""
        found, record = self.of(Role.HEADER)
        codes, code = np.unique(self.lines.code[found.line], return_inverse=True)
        rest = self.lines.distinct.take(pa.array(codes))
        while rest.null_count < len(rest):
            columns = pc.extract_regex(rest, _FIELD)
            for name, rows, numbers_ in _fields_of(columns):
                place = np.full(len(codes), -1)
                place[rows] = np.arange(len(rows))
                mine = np.flatnonzero(place[code] >= 0)[::-1]
                of = place[code[mine]]
                if name == "IO Time":
                    texts = columns.field("value").take(pa.array(rows[of]))
                    self.out.io_time = pc.coalesce(self.out.io_time, self.texts(record[mine], texts))
                else:
                    self._enter(name, record[mine], numbers_[of])
            rest = pc.if_else(pa.array(printed(columns.field("rest"))), columns.field("rest"), _NULL)

    def _enter(self, name: str, record: Ints, values: Ints) -> None:
        """The first number of each record, of which the last one is first."""
        column, found = self.out.column(name), self.numbers(record, values)
        np.copyto(column, found, where=column == MISSING)

    def _header_tokens(self) -> dict[str, Ints]:
        """The numbers that header tokens state, MISSING for records without them, which fill those that are not
        printed; and the lengths of records."""
        out, lines, (tokens, record) = self.out, self.lines, self.of(Role.HEADER_TOKEN)
        number = tokens["number"].to_numpy()
        is_g = number == ord("G")
        out.total = self.numbers(record[is_g][::-1], tokens.numbers("length")[is_g][::-1])
        owner = lines.owners(Role.HEADER_TOKEN)
        is_h = np.isin(owner, tokens.line[number == ord("H")])
        ghdr, at = lines.bytes_of(np.where(is_h, lines.record, -1), self.count, Role.HEADER_TOKEN_HEX)
        rows = np.flatnonzero(np.diff(at) >= layout.GHDR_FIXED)
        _, out.julian[rows], found = header_numbers(bytes_of(np.ascontiguousarray(ghdr), at[rows], layout.GHDR_FIXED))
        has_index = out.column("TDR index") != MISSING
        stated = {}
        for name, values in found.items():
            stated[name] = self.numbers(rows, values)
            column = out.column(name)
            fills = (column == MISSING) & ~(has_index & (name == "AuditRBA"))
            column[fills] = stated[name][fills]
        return stated

    # --- data ---------------------------------------------------------------------------------------------------------

    def _body(self) -> None:
        """The data: hex below the record, else of a file header its groups and tokens."""
        out, lines = self.out, self.lines
        out.body, out.body_at = lines.bytes_of(lines.record, self.count, Role.BODY)
        groups = {int(record) for record in self.of(Role.GROUP)[1]}
        if not groups:
            return
        data, at = lines.bytes_of(lines.owners(Role.GROUP, Role.GROUP_TOKEN), len(lines.role), Role.GROUP_HEX)
        heads: dict[int, bytes] = {}  # the first four bytes of each group and token: id, info (as 0) and length
        for found in (lines.fields[Role.GROUP], lines.fields[Role.GROUP_TOKEN]):
            numbered = zip(found["number"].to_pylist(), found.numbers("length").tolist(), strict=True)
            start = (bytes([number & 255, 0]) + (length & 0xFFFF).to_bytes(2, "big") for number, length in numbered)
            heads |= zip(found.line.tolist(), start, strict=True)
        bodies = [out.data(record) for record in range(self.count)]
        made = {record: b"" for record in groups if not bodies[record]}
        is_whole = False  # the hex of a group has its tokens, too
        for line, head in sorted(heads.items()):
            content, record = data[at[line] : at[line + 1]].tobytes(), int(lines.record[line])
            is_group = lines.role[line] == Role.GROUP
            is_whole = bool(content) if is_group else is_whole
            if record in made and (is_group or not is_whole):
                made[record] += content if is_group and content else head + content
        bodies = [made.get(record, body) for record, body in enumerate(bodies)]
        out.body = np.frombuffer(b"".join(bodies), np.uint8)
        out.body_at = np.append(0, np.cumsum([len(one) for one in bodies]))

    def _texts(self) -> None:
        """The lines of definitions."""
        lines, found = self.lines, dict[int, list[bytes]]()
        rows = np.flatnonzero((lines.role == Role.TEXT) & (lines.record >= 0))
        for record, text in zip(lines.record[rows].tolist(), lines.texts(rows).to_pylist(), strict=True):
            found.setdefault(record, []).append(text)
        self.out.definition = {record: text_of(b"\n".join(texts)) for record, texts in found.items()}

    def _shapes(self) -> Bools:
        """The shapes of records; returns which fields of a complete header block each lacks: _BLOCK, and AuditRBA."""
        out = self.out
        block = out.values[:, [_NUMBER[name] for name in _BLOCK]] == MISSING
        rba = (out.column("AuditRBA") == MISSING) & (out.column("TDR index") == MISSING)
        lacking = np.concatenate([block, rba[:, None]], axis=1)
        out.shape[~as_array(out.operation.is_valid()) & lacking.any(axis=1)] = MALFORMED
        for texts, word in ((out.operation, b"FileHeader"), (out.name, b"*FileHeader*")):
            out.shape[as_array(pc.equal(texts, word))] = FILE_HEADER
        out.shape[self.only_rule] = NO_RECORD
        self.fault(out.shape == MALFORMED, NOT_COMPLETE, code=Problem.MALFORMED)
        return lacking

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _tokens(self) -> None:
        """Tokens of lines ``TokenID`` and of token areas; name-value pairs of user tokens."""
        owner = self.lines.owners(Role.GGS, Role.TOKEN, Role.USER, Role.USER_TOKEN)
        user, (pairs, at) = self.out.user_tokens, self.of(Role.USER_PAIR)
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
        found = self._token_lines(owner, Role.TOKEN, Role.TOKEN_HEX)
        self.out.tokens = Tokens.of(rows).then(found) if rows else found
        found = self._token_lines(owner, Role.USER_TOKEN, Role.USER_TOKEN_HEX)
        columns = (found.record.tolist(), found.name.to_pylist(), found.value.to_pylist())
        for record, name, value in zip(*columns, strict=True):
            text = value.rstrip(b"\0")
            is_area = b"\0" in text or not name
            user.setdefault(record, []).extend(user_pairs(value) if is_area else [(text_of(name), text_of(text))])

    def _areas(self, owner: Ints, role: Role, below: Role) -> Iterator[tuple[int, bytes]]:
        """The hex digits directly below a line of a role, by record."""
        of = np.where((owner >= 0) & (self.lines.role[owner] == role), self.lines.record, -1)
        data, at = self.lines.bytes_of(of, self.count, below)
        return ((one, data[at[one] : at[one + 1]].tobytes()) for one in np.flatnonzero(np.diff(at)).tolist())

    def _token_lines(self, owner: Ints, role: Role, below: Role) -> Tokens:
        """The tokens of lines of a role."""
        found, record = self.of(role)
        data, at = self.lines.bytes_of(owner, len(self.lines.role), below)
        start, stop, length = at[found.line], at[found.line + 1], found.numbers("length")
        number, name, have = found["number"].to_numpy(), found["name"], stop - start
        wrong = np.flatnonzero(have != length).tolist()
        called = {one: text_of(name[one].as_py()) or f"x{number[one]:02x}" for one in wrong}
        said = "token {} truncated: have {} of {} bytes"
        self.fault(have < length, said, called, have, length, record=record, code=Problem.TRUNCATED)
        return Tokens(record, number, name, slices(data, start, stop), pa.array(have >= length))

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check(self, header: Ints, line: Ints, stated: dict[str, Ints], lacking: Bools) -> None:
        """The problems of records that are not malformed: header, times, header token, data."""
        out, good = self.out, self.out.shape <= FILE_HEADER
        is_named = as_array(out.operation.is_valid())
        self.fault(good & ~is_named, "record line is missing", code=Problem.TRUNCATED)
        partial = good & (out.values != MISSING).any(axis=1) & lacking.any(axis=1)
        names = np.array([*_BLOCK, "AuditRBA"])
        lacks = {one: ", ".join(names[lacking[one]]) for one in np.flatnonzero(partial)}
        self.fault(partial, "header block lacks {}", lacks, code=Problem.TRUNCATED)
        check_values(out, good)
        said = "RecLength is {}, Len of the record line is {}"
        self.differ(out.column("RecLength"), out.length, said, good, "RecLength")
        typed = np.flatnonzero(good & is_named & (out.column("IOType") != MISSING))
        printed_names = out.operation.take(pa.array(typed)).to_pylist()
        conflicts = map(_type_conflict, out.column("IOType")[typed].tolist(), printed_names)
        for row, conflict in zip(typed.tolist(), conflicts, strict=True):
            if conflict is not None:
                out.faults.append(Fault(row, Problem.HEADER_VALUE, conflict, "IOType"))
        times = (("IO Time", out.io_time, header), ("time of the record line", out.line_time, line))
        for name, texts, found in times:
            wrong = good & as_array(texts.is_valid()) & (found == NOT_A_TIME)
            self.fault(wrong, f"{name} is not a time: {{}}", texts, name=name)
        wrong = good & (header != NOT_A_TIME) & (line != NOT_A_TIME) & (header != line)
        self.fault(wrong, "IO Time is {}, the record line has {}", out.io_time, out.line_time, name="IO Time")
        for name, there in stated.items():
            value = out.column(name)
            there = np.where((name == "AuditPos") & (value & 0xFFFFFFFF == there), value, there)
            self.differ(value, there, f"{name} is printed as {{}}, the header token has {{}}", good, name)
        self._check_data(good)
        unreadable = [row for row, text in out.definition.items() if "\ufffd" in text]
        for what, rows in (("Name", _undecodable(out.name)), ("definition", unreadable)):
            self.fault(np.isin(np.arange(self.count), rows), f"{what} is not UTF-8", code=Problem.CHARSET)

    def _check_data(self, good: Bools) -> None:
        """Data that are shown only in part, or longer than they should be."""
        out = self.out
        length = np.where(out.length != MISSING, out.length, out.column("RecLength"))
        have = np.diff(out.body_at)
        asked = good & (length != MISSING) & (out.io != layout.METADATA)
        asked[list(out.definition)] = False
        self.fault(asked & (have > length), "Len is {}, {} bytes of data are shown", length, have)
        short = asked & (have < length)
        self.fault(short, "body truncated: have {} of {} bytes", have, length, code=Problem.TRUNCATED)


def _fields_of(columns: pa.Array) -> Iterator[tuple[str, Ints, Ints]]:
    """The first fields of lines of the header block: name, the lines, and their numbers. Where hex digits are printed,
    they are the number."""
    label = pc.replace_substring_regex(pc.ascii_lower(columns.field("label").cast(pa.string())), " +", " ")
    code = pc.fill_null(pc.index_in(label, pa.array([one.lower() for one in LABELS])), -1).to_numpy()
    values, digits = columns.field("value"), numbers(columns.field("hex"), True)
    decimal = numbers(pc.extract_regex(values, r"^(?P<n>\d{1,18})(?:$| )").field("n"))
    for at in np.unique(code[code >= 0]).tolist():
        name, rows = LABELS[at], np.flatnonzero(code == at)
        if name == "DDR/TDR index":
            both = pc.extract_regex(values.take(pa.array(rows)), r"^\( *(?P<DDR>\d{1,9}) *, *(?P<TDR>\d{1,9}) *\)")
            yield from ((f"{one} index", rows, numbers(both.field(one))) for one in ("DDR", "TDR"))
        elif name in layout.CHARACTERS:
            heads = [_letter(name, one[:1]) for one in values.take(pa.array(rows)).to_pylist()]
            yield name, rows, np.where(digits[rows] == MISSING, np.array(heads, np.int64), digits[rows])
        elif name == "IO Time":
            rows = rows[printed(values)[rows]]
            yield name, rows, rows
        else:
            yield name, rows, np.where(digits == MISSING, decimal, digits)[rows]


def _letter(name: str, printed_: bytes) -> int:
    """The code of a printed character; Continued is 1 or 0."""
    if name == "Continued":
        return {b"Y": 1, b"N": 0}.get(printed_, MISSING)
    return MISSING if printed_ in (b"", b".", b"(") else printed_[0]


@cache
def _type_conflict(number: int, operation: bytes) -> str | None:
    """How a record type's number and its printed name contradict certain facts."""
    text = text_of(operation)
    named, known = layout.io_type_of(text), layout.IO_TYPES.get(number)
    is_certain = (known is not None and known.certain) or (named is not None and layout.IO_TYPES[named].certain)
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
