"""Logdump text as lines: the role of each, the record that it belongs to, its fields and the bytes that it prints
(docs/formats/goldengate.md §2).

Each role is a regular expression that is applied to all lines that may have it. What depends on other lines (a token of
the header or of the record, the owner of hex digits) follows from the nearest preceding line of some roles. A line that
may begin a record has a *stage*: header token G 0, rule 1, Hdr-Ind 2, record line 3. It begins a record unless the
preceding such line has a lower stage, and no prompt or note of Logdump is between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import content_of, gather

__all__ = ["LABEL", "LABELS", "SINKS", "Fields", "Lines", "Role", "extracted", "matched", "parse"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Role(IntEnum):
    """The roles of lines of a record."""

    UNKNOWN = 0
    BLANK = 1
    RULE = 2
    HEADER_TOKEN = 3
    HEADER_TOKEN_HEX = 4
    HEADER = 5
    TRAIL = 6
    RECORD = 7
    NAME = 8
    TDR_INDEX = 9
    IMAGE = 10
    TRANSACTION = 11
    BODY = 12
    TEXT = 13
    HALF = 14
    COLUMN = 15
    COLUMN_HEX = 16
    GROUP = 17
    GROUP_TOKEN = 18
    GROUP_HEX = 19
    GGS = 20
    TOKEN = 21
    TOKEN_HEX = 22
    USER = 23
    USER_TOKEN = 24
    USER_TOKEN_HEX = 25
    USER_PAIR = 26
    NOTE = 27
    """A prompt or a note of Logdump, which ends a record."""


LABELS: Final = (
    "Hdr-Ind", "Partition", "UndoFlag", "BeforeAfter", "RecLength", "IO Time", "IOType", "OrigNode", "TransInd",
    "FormatType", "SyskeyLen", "Incomplete", "AuditRBA", "AuditPos", "Continued", "RecCount", "DDR/TDR index",
)  # fmt: skip
"""The labels of the header block."""

LABEL: Final = f"(?:{'|'.join(LABELS).replace(' ', ' +')})"
"""The form of a label, whose blank may be several: U+00A0 is read as two."""
_TIME: Final = r"\d{4}[/-]\d\d[/-]\d\d[ T]+\d\d:\d\d:\d\d(?:\.\d{1,3}(?:\.?\d{1,3})?)?"
_G: Final = r"TokenID +(?:G,|x47 +'G' +Record +Header)"
_PLAIN: Final = r"[\s\d,./:()-]"  # what values are made of; two other characters next to each other are prose
_OTHER: Final = r"[^\s\d,./:()-]"
_PROMPT: Final = r"(?i:logdump) *\d* *>"

_PATTERNS: Final[dict[Role, tuple[bytes, str]]] = {
    Role.RULE: (b"_", "_{20,}"),
    Role.HEADER: (
        b"HhPpUuBbRrIiOoTtFfSsAaCcDd",
        rf"(?i){LABEL} *:(?:{_OTHER}?{_PLAIN})*{_OTHER}?(?:\(x.*| {LABEL} *:.*)?",
    ),
    Role.RECORD: (
        b"0123456789",
        rf"(?P<time>{_TIME}) +(?P<operation>\S.*?) +Len +(?P<length>\d{{1,18}}) +RBA +(?P<rba>\d+)",
    ),
    Role.NAME: (b"N", r"Name *: *(?P<name>.*?) *(?:\(TDR +Index: *(?P<index>\d{1,18}) *\))?"),
    Role.TDR_INDEX: (b"T", r"TDR +Index *: *(?P<index>\d{1,18})"),
    Role.IMAGE: (
        b"AB",
        (
            r"(?P<image>After|Before) *Image *: *"
            r"(?:Partition *(?:x(?P<hex>[0-9a-fA-F]{1,15})|(?P<decimal>\d{1,18}))?.*?(?: G +(?P<letter>[bmes]))?)?"
        ),
    ),
    Role.TRANSACTION: (b"T", r"TRANSID *: *(?P<id>[^ ]+)(?: +\((?P<number>\d{1,20})\))?"),
    Role.HALF: (b"ABK", r"(?:(?P<half>After|Before) +Image +Len|KeyLen) +\d+(?:[^A-Za-z_].*)?"),
    Role.COLUMN: (
        b"CK",
        (
            r"(?P<kind>Column|KeyCol) +(?P<index>\d{1,18}) *(?:\(0?x(?P<index_hex>[0-9a-fA-F]{1,15})\))? *, *"
            r"(?P<rest>(?:Len|LOB).*)"
        ),
    ),
    Role.TRAIL: (b"T", r"Trail +name *: *(?P<trail>.*)"),
    Role.TEXT: (b"DT", r"(?:Database|Table) +Name *:.*"),
    Role.GGS: (b"Gg", r"(?i)ggs +tokens *:.*"),
    Role.USER: (b"Uu", r"(?i)user +tokens *:.*"),
    Role.TOKEN: (
        b"TG",
        (
            r"(?P<kind>TokenID|GroupID) +(?:"
            r"x(?P<id>[0-9a-fA-F]{2}) +'.?' *(?P<name>[^']*?) +Info +x(?P<info>[0-9a-fA-F]{1,2}),?"
            r"|(?P<letter>[^ ]) *(?:\(x(?P<code>[0-9a-fA-F]{2})\))? *, *Info +x?(?P<other_info>[0-9a-fA-F]{1,3}) *,"
            r") +Length +(?P<length>\d{1,18})"
        ),
    ),
    Role.NOTE: (
        b"LlCROEFV",
        (
            rf"{_PROMPT}.*|(?:C(?i:urrent +logtrail +is)|R(?i:eading +forward +from +rba)|E(?i:rror:)"
            r"|O(?i:racle +goldengate +log +file +dump)|F(?i:iltering +suppressed)|L(?i:ogtrail )"
            r"|L(?i:ast +record +for +the +last +committed)|Version [0-9.]+ |Copyright +\(C\)).*"
        ),
    ),
}
"""Bytes that a line of a role may begin with, and its form. A later form is looked for where no earlier one was found.
Runs of white space are blanks."""

_HEX_LINE: Final = "^(?:(?:[0-9a-fA-F]{4} +)*[0-9a-fA-F]{2}(?:[0-9a-fA-F]{2})? *)?(?:$|[|:])"
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF "
_PANE: Final = 50  # characters of hex digits of a full line
_CUT_LINE: Final = "^(?:[0-9a-fA-F]{4} +)*(?:[0-9a-fA-F]{2})?[0-9a-fA-F]$"
_PAIR: Final = r"^(?P<name>[^ :]+) *:(?: +(?P<value>.*))?$"
_GLUED: Final = (
    rf"^(?P<prompt>{_PROMPT}.*?)"
    rf"(?:_{{20,}}|{_G}.*|Hdr-Ind *:.*|\d{{4}}[/-]\d\d[/-]\d\d[ T].* RBA +\d+)$"
)
"""A prompt and the first line of a record in one line."""

SINKS: Final = {
    Role.HEADER: Role.UNKNOWN,
    Role.HEADER_TOKEN: Role.HEADER_TOKEN_HEX,
    Role.RECORD: Role.BODY,
    Role.NAME: Role.BODY,
    Role.IMAGE: Role.BODY,
    Role.TEXT: Role.UNKNOWN,
    Role.HALF: Role.UNKNOWN,
    Role.COLUMN: Role.COLUMN_HEX,
    Role.GROUP: Role.GROUP_HEX,
    Role.GROUP_TOKEN: Role.GROUP_HEX,
    Role.GGS: Role.TOKEN_HEX,
    Role.TOKEN: Role.TOKEN_HEX,
    Role.USER: Role.USER_TOKEN_HEX,
    Role.USER_TOKEN: Role.USER_TOKEN_HEX,
}
"""The role of hex digits below a line."""
_SINK_OF: Final = np.full(len(Role), -1)
_SINK_OF[[int(role) for role in SINKS]] = [int(role) for role in SINKS.values()]
_BODY_PARTS: Final = (Role.RECORD, Role.NAME, Role.IMAGE, Role.COLUMN, Role.TEXT, Role.GGS, Role.USER)
"""After these the header is over."""
_HEADER_LETTERS: Final = b"GHDTUZ"
_HEADER_NAMES: Final = r"(?i)^(?:Record +Header|GHDR|Data|GGS +Tokens|User +Tokens|Record +Trailer)$"
_PADDING: Final = 6  # blanks before a line number
_NUMBER_DIGITS: Final = 9
_FEW: Final = 4  # blanks before or after the content of most lines
_DIGIT: Final = np.full(256, 255, np.uint8)
for _one in b"0123456789abcdefABCDEF":
    _DIGIT[_one] = int(chr(_one), 16)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of all lines of a role: the numbers of the lines, and for each name the texts (bytes; empty: not
    printed)."""

    line: Ints
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, name: str) -> pa.Array:
        return self.columns[name]

    def of(self, chosen: Bools) -> Fields:
        """Those of some of the lines."""
        mask = pa.array(chosen)
        return Fields(self.line[chosen], {name: values.filter(mask) for name, values in self.columns.items()})


@dataclass(slots=True)
class Lines:
    """The ``n`` lines of a text, without holes. ``at`` [n + 1]: bytes of the text at which they begin, and the end;
    ``first``, ``last``: without white space. ``role``, of :class:`Role`; ``record``: the number of the record, -1 for
    none; ``begin``: the first line of each record. ``fields`` by role. ``data``: the bytes that all lines print as hex;
    those of line k are ``data[data_at[k]:data_at[k + 1]]``, the
    digits end at ``digits``. ``source``: the text; ``plain``: the same with blanks for all white space."""

    source: Bytes
    plain: Bytes
    at: Ints
    first: Ints
    last: Ints
    role: npt.NDArray[np.int8]
    record: Ints
    begin: Ints
    fields: dict[Role, Fields]
    data: Bytes
    data_at: Ints
    digits: Ints

    def texts(self, lines: Ints) -> pa.Array:
        """The contents of some lines, as bytes."""
        return gather(pa.binary(), self.plain, self.first[lines], self.last[lines], None)

    def owners(self, *roles: Role) -> Ints:
        """For each line the nearest line of these roles at or before it in its record; -1 for none."""
        return _nearest(np.isin(self.role, roles), self.record, self.begin)

    def bytes_of(self, owner: Ints, count: int, role: Role) -> tuple[Bytes, Ints]:
        """The bytes that lines of a role print, together for each owner (of ``count``; -1: none), and where they begin
        in the buffer, count + 1 numbers. ``owner``: that of each line, rising."""
        size = np.where((self.role == role) & (owner >= 0), np.diff(self.data_at), 0)
        taken = np.repeat(size > 0, np.diff(self.data_at))
        sizes = np.bincount(owner[size > 0], weights=size[size > 0], minlength=count).astype(np.int64)
        return self.data[taken], np.append(0, np.cumsum(sizes))


def parse(text: Bytes, boundaries: Ints | None = None, is_record: bool = False) -> Lines:
    """The lines of a text. ``boundaries``: bytes at which another file begins. ``is_record``: all of it is one
    record."""
    plain = _plain(text)
    starts = np.zeros(text.size + 1, np.bool_)
    starts[1:] = plain == 10
    starts[[0, -1]] = True
    if boundaries is not None:
        starts[boundaries] = True
    plain[plain < 32] = 32
    at = np.flatnonzero(starts)
    first, last = _trimmed(plain, at)
    glued = at[:0] if is_record else _glued(plain, first, last)
    if len(glued):
        starts[glued] = True
        at = np.flatnonzero(starts)
        first, last = _trimmed(plain, at)
    lines = Lines(
        text,
        plain, at, first, last, np.zeros(len(first), np.int8), np.full(len(first), -1), at[:0], {}, plain[:0],
        np.zeros(len(first) + 1, np.int64), last,
    )  # fmt: skip
    lines.role[first == last] = Role.BLANK
    _match(lines)
    _records(lines, boundaries, is_record)
    _texts(lines)
    _contexts(lines, _hex(lines))
    return lines


@cache
def _compiled(role: Role) -> re.Pattern[bytes]:
    return re.compile(_PATTERNS[role][1].encode(), re.DOTALL)


def matched(lines: Lines, line: int) -> re.Match[bytes] | None:
    """The fields of a line, with their places in its content; None for a line of a role without a form."""
    role = Role(int(lines.role[line]))
    content = lines.plain[lines.first[line] : lines.last[line]].tobytes()
    return _compiled(role).fullmatch(content) if role in _PATTERNS else None


def _plain(text: Bytes) -> Bytes:
    """A copy with blanks for U+00A0, the marks of quoted mails and line numbers; every line ends with LF."""
    plain = text.copy()
    wide = np.flatnonzero(plain[:-1] == 0xC2)
    wide = wide[plain[wide + 1] == 0xA0]
    plain[wide] = plain[wide + 1] = 32
    last = plain.size - 1
    returns = np.flatnonzero(plain == 13)
    plain[returns] = np.where(plain[np.minimum(returns + 1, last)] == 10, 32, 10)
    at = np.append(0, np.flatnonzero(plain == 10) + 1)
    while len(at := at[at <= last]):
        at = at[plain[at] == ord(">")]
        plain[at] = 32
        at = at + 1
        at += plain[np.minimum(at, last)] == 32
    _number(plain)
    return plain


def _number(plain: Bytes) -> None:
    """Blanks for the line numbers of ``cat -n``, ``nl`` and ``grep -n``, where those of two lines in a row count up, or
    there is one line only."""
    at = np.append(0, np.flatnonzero(plain == 10) + 1)
    at = at[at < plain.size]
    if not len(at):
        return
    stop, value = at.copy(), np.zeros(len(at), np.int64)
    for _ in range(_PADDING):
        stop += plain[np.minimum(stop, plain.size - 1)] == 32
    first = stop.copy()
    for _ in range(_NUMBER_DIGITS):
        digit = plain[np.minimum(stop, plain.size - 1)].astype(np.int64) - ord("0")
        is_digit = (digit >= 0) & (digit <= 9)
        value[is_digit] = value[is_digit] * 10 + digit[is_digit]
        stop += is_digit
    mark = plain[np.minimum(stop, plain.size - 1)]
    numbered = (stop > first) & ((mark == ord(":")) | (mark == ord("\t")))
    follows = numbered[1:] & numbered[:-1] & (value[1:] == value[:-1] + 1) & (mark[1:] == mark[:-1])
    counted = numbered if len(at) == 1 else np.append(follows, False) | np.append(False, follows)
    for line in np.flatnonzero(counted).tolist():
        plain[at[line] : stop[line] + 1] = 32


def _trimmed(plain: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The first byte of each line that is not a blank, and the end of the last one; equal for a blank line."""
    first, last = at[:-1].copy(), at[1:].copy()
    for _ in range(_FEW):
        first += (first < last) & (plain[np.minimum(first, plain.size - 1)] == 32)
    for _ in range(_FEW):
        last -= (first < last) & (plain[last - 1] == 32)
    rest = np.flatnonzero((first < last) & ((plain[first.clip(max=plain.size - 1)] == 32) | (plain[last - 1] == 32)))
    for line in rest.tolist():
        content = plain[first[line] : last[line]].tobytes()
        first[line] += len(content) - len(content.lstrip(b" "))
        last[line] = first[line] + len(content.strip(b" "))
    return first, last


def _glued(plain: Bytes, first: Ints, last: Ints) -> Ints:
    """Where records begin in the line of a prompt."""
    prompts = np.flatnonzero((last > first) & np.isin(plain[np.minimum(first, plain.size - 1)], (ord("L"), ord("l"))))
    found = pc.extract_regex(gather(pa.binary(), plain, first[prompts], last[prompts], None), _GLUED)
    size = pc.fill_null(pc.binary_length(found.field("prompt")), 0).to_numpy(zero_copy_only=False)
    places: Ints = (first[prompts] + size)[found.is_valid().to_numpy(zero_copy_only=False)]
    return places


def extracted(texts: pa.Array, pattern: str) -> tuple[Bools, dict[str, pa.Array]]:
    """Which texts have a form, and of those its groups by name; empty where a group is not there. Most lines are
    repeated, so only different ones are compared."""
    coded = texts.dictionary_encode()
    found = pc.extract_regex(coded.dictionary, pattern)
    there = found.is_valid().to_numpy(zero_copy_only=False)
    codes = coded.indices.to_numpy()
    is_one: Bools = there[codes]
    taken = pa.array(codes[is_one])
    return is_one, {one.name: found.field(one.name).take(taken) for one in found.type}


def _match(lines: Lines) -> None:
    """The roles of lines that follow from the line alone, with their fields."""
    begins = lines.plain[np.minimum(lines.first, max(lines.plain.size - 1, 0))]
    for role, (letters, pattern) in _PATTERNS.items():
        able = np.flatnonzero((lines.role == Role.UNKNOWN) & np.isin(begins, np.frombuffer(letters, np.uint8)))
        flags, form = ("(?i)", pattern[4:]) if pattern.startswith("(?i)") else ("", pattern)
        form = f"{flags}^(?:{form})$"
        if "(?P<" in pattern:
            is_one, columns = extracted(lines.texts(able), form)
        else:
            is_one, columns = pc.match_substring_regex(lines.texts(able), form).to_numpy(zero_copy_only=False), {}
        lines.role[able[is_one]] = role
        lines.fields[role] = Fields(able[is_one], columns)


def _nearest(chosen: Bools, record: Ints, begin: Ints) -> Ints:
    """For each line the nearest chosen one at or before it in its record; -1 for none, and outside records."""
    found = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))
    there: Ints = np.where((record >= 0) & (found >= np.append(begin, 0)[record]), found, -1)
    return there


def _records(lines: Lines, boundaries: Ints | None, is_record: bool) -> None:
    """The record of each line."""
    count = len(lines.role)
    if is_record:
        lines.record[:], lines.begin = 0, np.zeros(min(count, 1), np.int64)
        return
    stage = np.full(count, -1)
    stage[lines.role == Role.RULE] = 1
    header = np.flatnonzero(lines.role == Role.HEADER)
    stage[header[_begins_with(lines, header, rb"hdr-ind")]] = 2
    token = _tokens(lines)
    stage[token[pc.match_substring_regex(lines.texts(token), f"^{_G}").to_numpy(zero_copy_only=False)]] = 0
    stage[lines.role == Role.RECORD] = 3
    ends = lines.role == Role.NOTE
    able = stage >= 0
    closes = ends.copy()
    if boundaries is not None and len(boundaries):
        closes[np.searchsorted(lines.at, boundaries)[boundaries < lines.at[-1]]] = True
    marks = np.flatnonzero(able | closes)
    level = np.where(able[marks], stage[marks], -1)
    before = np.append(-1, level[:-1])
    before[closes[marks] & able[marks]] = -1  # the first line of a file
    begins = (level >= 0) & ((before < 0) | (level <= before))
    is_begin = np.zeros(count, np.bool_)
    is_begin[marks[begins]] = True
    is_open = np.zeros(count, np.bool_)
    is_open[marks] = level >= 0
    nearest = np.maximum.accumulate(np.where(able | closes, np.arange(count), -1))
    inside = (nearest >= 0) & is_open[np.maximum(nearest, 0)]
    lines.record = np.where(inside, np.cumsum(is_begin) - 1, -1)
    lines.begin = np.flatnonzero(is_begin)


def _tokens(lines: Lines) -> Ints:
    """The lines that begin as one of a token does, damaged ones too."""
    able = np.append(lines.fields[Role.TOKEN].line, np.flatnonzero(lines.role == Role.UNKNOWN))
    able = np.sort(able[lines.plain[lines.first[able]] == ord("T")])
    found: Ints = able[_begins_with(lines, able, b"tokenid")]
    return found


def _begins_with(lines: Lines, some: Ints, word: bytes) -> Bools:
    found: Bools = pc.starts_with(lines.texts(some), word, ignore_case=True).to_numpy(zero_copy_only=False)
    return found


def _texts(lines: Lines) -> None:
    """The lines of definitions, from their first one to their end or that of their record."""
    opens = np.flatnonzero((lines.role == Role.TEXT) & (lines.record >= 0))
    if not len(opens):
        return
    begins = lines.plain[np.minimum(lines.first, lines.plain.size - 1)]
    marks = np.flatnonzero((begins == ord("*")) | (begins == ord("E")))
    contents = lines.texts(marks)
    stars, ends = (
        marks[pc.equal(contents, word).to_numpy(zero_copy_only=False)] for word in (b"*", b"End of definition")
    )
    borders = np.append(np.union1d(lines.begin, np.flatnonzero(lines.record < 0)), len(lines.role))
    done = 0
    for at, text in zip(opens.tolist(), lines.texts(opens).to_pylist(), strict=True):
        if at < done or b"(Ref TDR Index" in text:
            continue
        closing = [borders[np.searchsorted(borders, at, side="right")], *(1 + ends[np.searchsorted(ends, at) :][:1])]
        if text.startswith(b"Database"):
            closing += [*(1 + stars[np.searchsorted(stars, at) :][1:2])]
        done = int(min(closing))
        block = lines.role[at:done]
        block[block != Role.BLANK] = Role.TEXT


def _hex(lines: Lines) -> Ints:
    """The lines that have the form of hex digits, which end before the pane of characters."""
    begins = lines.plain[np.minimum(lines.first, max(lines.plain.size - 1, 0))]
    able = np.flatnonzero((lines.role == Role.UNKNOWN) & (lines.record >= 0) & (_DIGIT[begins] < 16))
    if len(able) and lines.last[able[-1]] == lines.plain.size:  # a text that ends within a byte
        cut = pc.match_substring_regex(lines.texts(able[-1:]), _CUT_LINE)[0].as_py()
        lines.last[able[-1]] -= cut
    found: Ints = able[pc.match_substring_regex(lines.texts(able), _HEX_LINE).to_numpy(zero_copy_only=False)]
    lines.digits = lines.last.copy()
    bar = np.minimum(lines.first[found] + _PANE, lines.plain.size - 1)
    usual = (lines.plain[bar] == ord("|")) & (bar < lines.last[found])
    lines.digits[found[usual]] = bar[usual]
    _end_digits(lines, found[~usual])
    return found


def _end_digits(lines: Lines, some: Ints) -> None:
    """Ends the digits of some lines at the first other character."""
    for line in some.tolist():
        start = int(lines.first[line])
        content = lines.plain[start : lines.last[line]].tobytes()
        lines.digits[line] = start + len(content) - len(content.lstrip(_HEX_DIGITS))


def _contexts(lines: Lines, hexes: Ints) -> None:
    """The roles that depend on preceding lines, and the bytes of hex lines."""
    role, record, begin = lines.role, lines.record, lines.begin
    role[(record < 0) & (role != Role.BLANK) & (role != Role.NOTE)] = Role.UNKNOWN
    tokens = lines.fields[Role.TOKEN].of(record[lines.fields[Role.TOKEN].line] >= 0)
    is_group = pc.equal(tokens["kind"], b"GroupID").to_numpy(zero_copy_only=False)
    area = _nearest(np.isin(role, (Role.GGS, Role.USER)), record, begin)
    in_user = (area >= 0) & (role[area] == Role.USER) & (area < np.arange(len(role)))
    # in the user tokens, `name : value` is one of them, whatever it looks like
    able = np.flatnonzero(in_user & ~np.isin(role, (Role.BLANK, Role.TEXT, Role.TOKEN, Role.RECORD)))
    pairs = pc.extract_regex(lines.texts(able), _PAIR)
    is_pair = pairs.is_valid().to_numpy(zero_copy_only=False)
    is_hex = np.zeros(len(role), np.bool_)
    is_hex[hexes] = True
    head = pc.binary_slice(lines.texts(able), 0, 6)
    short = pc.match_substring_regex(head, r"^[^|]*:").to_numpy(zero_copy_only=False)
    after_hex = np.append(False, is_hex[:-1])[able]
    is_pair &= ~is_hex[able] | (short & ~after_hex)
    role[able[is_pair]] = Role.USER_PAIR
    is_hex[able[is_pair]] = False
    lines.fields[Role.USER_PAIR] = Fields(able, {name: pairs.field(name) for name in ("name", "value")}).of(is_pair)
    over = _nearest(np.isin(role, _BODY_PARTS), record, begin) >= 0
    role[np.isin(role, (Role.HEADER, Role.RULE, Role.TRAIL)) & over] = Role.UNKNOWN
    role[(role == Role.TRANSACTION) & ~over] = Role.UNKNOWN
    of = _token_roles(lines, tokens, is_group, over, in_user)
    role[tokens.line] = of
    for kind in (Role.HEADER_TOKEN, Role.TOKEN, Role.USER_TOKEN, Role.GROUP, Role.GROUP_TOKEN):
        lines.fields[kind] = tokens.of(of == kind)
    for kind in (
        Role.RECORD,
        Role.NAME,
        Role.IMAGE,
        Role.COLUMN,
        Role.TDR_INDEX,
        Role.TRANSACTION,
        Role.HALF,
        Role.TRAIL,
    ):
        lines.fields[kind] = lines.fields[kind].of(role[lines.fields[kind].line] == kind)
    sinks = _SINK_OF[role]
    unread = _tokens(lines)
    sinks[unread[role[unread] == Role.UNKNOWN]] = Role.UNKNOWN  # the digits below are not those of the token before
    owner = _nearest(sinks >= 0, record, begin)
    role[hexes] = np.where(is_hex[hexes] & (owner[hexes] >= 0), sinks[owner[hexes]], role[hexes])
    shows = role[hexes] != np.where(is_hex[hexes], Role.UNKNOWN, role[hexes])
    _fill_data(lines, hexes[shows])


def _token_roles(lines: Lines, tokens: Fields, is_group: Bools, over: Bools, in_user: Bools) -> Ints:
    """The roles of lines ``TokenID`` and ``GroupID``."""
    at = tokens.line
    groups = np.zeros(len(lines.role), np.bool_)
    groups[at[is_group]] = True
    in_groups = _nearest(groups, lines.record, lines.begin)[at] >= 0
    letter = pc.coalesce(
        *(pc.if_else(pc.equal(tokens[one], b""), pa.scalar(None, pa.binary()), tokens[one]) for one in ("id", "code"))
    )
    number = _hex_numbers(letter)
    alone = pc.binary_length(tokens["letter"]).to_numpy(zero_copy_only=False) == 1
    codes = np.array([one[0] if one else 0 for one in tokens["letter"].to_pylist()], np.int64)
    number = np.where(number < 0, np.where(alone, codes, -1), number)
    tokens.columns["number"] = pa.array(number)
    is_header_name = pc.match_substring_regex(tokens["name"], _HEADER_NAMES).to_numpy(zero_copy_only=False)
    is_over = over[at]
    found = np.where(is_over, np.where(in_user[at], Role.USER_TOKEN, Role.TOKEN), Role.HEADER_TOKEN)
    found[is_over & is_header_name] = Role.UNKNOWN
    found[~is_over & ~np.isin(number, np.frombuffer(_HEADER_LETTERS, np.uint8))] = Role.UNKNOWN
    found[in_groups & ~is_group & ~(is_over & is_header_name)] = Role.GROUP_TOKEN
    found[is_group] = Role.GROUP
    return found


def _hex_numbers(digits: pa.Array) -> Ints:
    """Numbers of at most 15 hex digits; -1 for null."""
    texts = pc.binary_join_element_wise(pa.scalar("0x"), digits.cast(pa.string()), "")
    found: Ints = pc.fill_null(texts.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return found


def _fill_data(lines: Lines, hexes: Ints) -> None:
    """The bytes of hex lines."""
    content, offsets = content_of(gather(pa.binary(), lines.plain, lines.first[hexes], lines.digits[hexes], None))
    is_digit = content != 32
    half = _DIGIT[content[is_digit]]
    if half.size and half.max() > 15:  # the pane of characters begins before its usual column
        other = np.flatnonzero(is_digit & (_DIGIT[content] > 15))
        _end_digits(lines, hexes[np.unique(np.searchsorted(offsets, other, side="right") - 1)])
        _fill_data(lines, hexes)
        return
    lines.data = half[0::2] << 4 | half[1::2]
    size = np.zeros(len(lines.role), np.int64)
    some = np.diff(offsets) > 0
    if some.any():
        size[hexes[some]] = np.add.reduceat(is_digit, offsets[:-1][some], dtype=np.int64) // 2
    lines.data_at = np.append(0, np.cumsum(size))
