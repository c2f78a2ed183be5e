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

from cdcwb.formats.arrays import as_array, content_of, gather
from cdcwb.formats.goldengate.layout import FIELDS, MISSING
from cdcwb.formats.kernels import Bools, Bytes, Ints, kernel, read_only

Role = IntEnum(
    "Role",
    "UNKNOWN BLANK RULE HEADER_TOKEN HEADER_TOKEN_HEX HEADER TRAIL RECORD NAME TDR_INDEX IMAGE TRANSACTION BODY TEXT "
    "HALF COLUMN COLUMN_HEX GROUP GROUP_TOKEN GROUP_HEX GGS TOKEN TOKEN_HEX USER USER_TOKEN USER_TOKEN_HEX USER_PAIR "
    "NOTE",
    start=0,
)
"""The roles of lines of a record. NOTE: a prompt or a note of Logdump, which ends a record."""


LABELS: Final = (*(name for name in FIELDS if not name.endswith(" index")), "DDR/TDR index")
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
    Role.HEADER: (b"HhPpUuBbRrIiOoTtFfSsAaCcDd",
        rf"(?i){LABEL} *:(?:{_OTHER}?{_PLAIN})*{_OTHER}?(?:\(x.*| {LABEL} *:.*)?"),
    Role.RECORD: (b"0123456789",
        rf"(?P<time>{_TIME}) +(?P<operation>\S.*?) +Len +(?P<length>\d{{1,18}}) +RBA +(?P<rba>\d+)"),
    Role.NAME: (b"N", r"Name *: *(?P<name>.*?) *(?:\(TDR +Index: *(?P<index>\d{1,18}) *\))?"),
    Role.TDR_INDEX: (b"T", r"TDR +Index *: *(?P<index>\d{1,18})"),
    Role.IMAGE: (b"AB", (r"(?P<image>After|Before) *Image *: *"
        r"(?:Partition *(?:x(?P<hex>[0-9a-fA-F]{1,15})|(?P<decimal>\d{1,18}))?.*?(?: G +(?P<letter>[bmes]))?)?")),
    Role.TRANSACTION: (b"T", r"TRANSID *: *(?P<id>[^ ]+)(?: +\((?P<number>\d{1,20})\))?"),
    Role.HALF: (b"ABK", r"(?:(?:After|Before) +Image +Len|KeyLen) +\d+(?:[^A-Za-z_].*)?"),
    Role.COLUMN: (b"CK", (r"(?:Column|KeyCol) +(?P<index>\d{1,18}) *(?:\(0?x[0-9a-fA-F]{1,15}\))? *, *"
        r"(?P<rest>(?:Len|LOB).*)")),
    Role.TRAIL: (b"T", r"Trail +name *: *(?P<trail>.*)"),
    Role.TEXT: (b"DT", r"(?:Database|Table) +Name *:.*"),
    Role.GGS: (b"Gg", r"(?i)ggs +tokens *:.*"),
    Role.USER: (b"Uu", r"(?i)user +tokens *:.*"),
    Role.TOKEN: (b"TG", (r"(?P<kind>TokenID|GroupID) +(?:"
        r"x(?P<id>[0-9a-fA-F]{2}) +'.?' *(?P<name>[^']*?) +Info +x[0-9a-fA-F]{1,2},?"
        r"|(?P<letter>[^ ]) *(?:\(x(?P<code>[0-9a-fA-F]{2})\))? *, *Info +x?[0-9a-fA-F]{1,3} *,"
        r") +Length +(?P<length>\d{1,18})")),
    Role.NOTE: (b"LlCROEFV",
        (rf"{_PROMPT}.*|(?:C(?i:urrent +logtrail +is)|R(?i:eading +forward +from +rba)|E(?i:rror:)"
        r"|O(?i:racle +goldengate +log +file +dump)|F(?i:iltering +suppressed)|L(?i:ogtrail )"
        r"|L(?i:ast +record +for +the +last +committed)|Version [0-9.]+ |Copyright +\(C\)).*")),
}  # fmt: skip
"""Bytes that a line of a role may begin with, and its form. A later form is looked for where no earlier one was found.
Runs of white space are blanks."""

_CUT_LINE: Final = rb"^(?:[0-9a-fA-F]{4} +)*(?:[0-9a-fA-F]{2})?[0-9a-fA-F]$"
_PAIR: Final = r"^(?P<name>[^ :]+) *:(?: +(?P<value>.*))?$"
_GLUED: Final = (
    rf"^(?P<prompt>{_PROMPT}.*?)"
    rf"(?:_{{20,}}|{_G}.*|Hdr-Ind *:.*|\d{{4}}[/-]\d\d[/-]\d\d[ T].* RBA +\d+)$"
)
"""A prompt and the first line of a record in one line."""

_ABOVE: Final = {
    Role.UNKNOWN: (Role.HEADER, Role.TEXT, Role.HALF),
    Role.HEADER_TOKEN_HEX: (Role.HEADER_TOKEN,),
    Role.BODY: (Role.RECORD, Role.NAME, Role.IMAGE),
    Role.COLUMN_HEX: (Role.COLUMN,),
    Role.GROUP_HEX: (Role.GROUP, Role.GROUP_TOKEN),
    Role.TOKEN_HEX: (Role.GGS, Role.TOKEN),
    Role.USER_TOKEN_HEX: (Role.USER, Role.USER_TOKEN),
}
SINKS: Final = {role: below for below, roles in _ABOVE.items() for role in roles}
"""The role of hex digits below a line."""
_SINK_OF: Final = np.full(len(Role), -1, np.int8)
_SINK_OF[[int(role) for role in SINKS]] = [int(role) for role in SINKS.values()]
_BODY_PARTS: Final = (Role.RECORD, Role.NAME, Role.IMAGE, Role.COLUMN, Role.TEXT, Role.GGS, Role.USER)
"""After these the header is over."""
_HEADER_LETTERS: Final = b"GHDTUZ"
_HEADER_NAMES: Final = r"(?i)^(?:Record +Header|GHDR|Data|GGS +Tokens|User +Tokens|Record +Trailer)$"
_DIGIT: Final = np.full(256, 255, np.uint8)
for _one in b"0123456789abcdefABCDEF":
    _DIGIT[_one] = int(chr(_one), 16)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of all lines of a role: the numbers of the lines, the ``code`` of the text of each, and for each name
    the value by code (bytes; empty: not printed)."""

    line: Ints
    code: Ints
    columns: dict[str, pa.Array]

    def __getitem__(self, name: str) -> pa.Array:
        return self.columns[name].take(pa.array(self.code))

    def are(self, name: str, word: bytes) -> Bools:
        """Which lines have this value."""
        return as_array(pc.equal(self.columns[name], word))[self.code]

    def have(self, name: str) -> Bools:
        """In which lines a field is printed."""
        return printed(self.columns[name])[self.code]

    def numbers(self, name: str, is_hex: bool = False) -> Ints:
        """See :func:`numbers`."""
        return numbers(self.columns[name], is_hex)[self.code]

    def of(self, chosen: Bools) -> Fields:
        """Those of some of the lines."""
        return Fields(self.line[chosen], self.code[chosen], self.columns)


@dataclass(slots=True)
class Lines:
    """The ``n`` lines of a text, without holes. ``at`` [n + 1]: bytes of the text at which they begin, and the end;
    ``first``, ``last``: without white space. ``role``, of :class:`Role`; ``record``: the number of the record, -1 for
    none; ``begin``: the first line of each record. ``fields`` by role. ``data``: the bytes that lines of hex digits
    print; those of line k are ``data[data_at[k]:data_at[k] + size[k]]``. ``code``: the number in ``distinct`` of the
    text of each line, -1 for digits and blank ones. ``source``: the text; ``plain``: the same with blanks for all white
    space."""

    source: Bytes
    plain: Bytes
    at: Ints
    first: Ints
    last: Ints
    size: Ints
    data: Bytes
    data_at: Ints
    role: npt.NDArray[np.int8]
    record: Ints
    begin: Ints
    code: Ints
    distinct: pa.Array
    fields: dict[Role, Fields]

    def texts(self, lines: Ints) -> pa.Array:
        """The contents of some lines, as bytes."""
        return gather(pa.binary(), self.plain, self.first[lines], self.last[lines], None)

    def having(self, pattern: str) -> Bools:
        """The lines with a form, but those of digits."""
        found = as_array(pc.match_substring_regex(self.distinct, pattern))
        return np.append(found, False)[self.code]

    def among(self, *roles: Role) -> Bools:
        """The lines of some roles."""
        return _any_of(*roles)[self.role]

    def owners(self, *roles: Role) -> Ints:
        """For each line the nearest line of these roles at or before it in its record; -1 for none."""
        return self.nearest(self.among(*roles))

    def nearest(self, chosen: Bools) -> Ints:
        """For each line the nearest chosen one at or before it in its record; -1 for none, and outside records."""
        found = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))
        found[(self.record < 0) | (found < np.append(self.begin, 0)[self.record])] = -1
        return found

    def bytes_of(self, owner: Ints, count: int, role: Role) -> tuple[Bytes, Ints]:
        """The bytes that lines of a role print, together for each owner (of ``count``; -1: none), and where they begin
        in the buffer, count + 1 numbers. ``owner``: that of each line, rising."""
        some = np.flatnonzero((self.role == role) & (owner >= 0) & (self.size > 0))
        start, size = self.data_at[some], self.size[some]
        sizes = np.bincount(owner[some], weights=size, minlength=count).astype(np.int64)
        data, _ = content_of(gather(pa.binary(), self.data, start, start + size, None))
        return data, np.append(0, np.cumsum(sizes))


@cache
def _any_of(*roles: Role) -> Bools:
    found = np.zeros(len(Role), np.bool_)
    found[list(roles)] = True
    return found


def printed(texts: pa.Array) -> Bools:
    """Whether a group of a regular expression is printed."""
    return as_array(pc.fill_null(pc.binary_length(texts), 0)) > 0


def numbers(texts: pa.Array, is_hex: bool = False) -> Ints:
    """Numbers of at most 18 decimal or 15 hex digits; MISSING for an empty text and null."""
    base = 16 if is_hex else 10
    return np.array([int(one, base) if one else MISSING for one in texts.to_pylist()], np.int64)


def parse(text: Bytes, boundaries: Ints | None = None, is_record: bool = False) -> Lines:
    """The lines of a text. ``boundaries``: bytes at which another file begins. ``is_record``: all of it is one
    record."""
    text = read_only(text)
    plain = np.empty(text.size, np.uint8)
    inside = np.zeros(0, np.int64) if boundaries is None else boundaries[boundaries < text.size]
    edges = np.append(inside, text.size)
    found = np.empty((3, int(np.count_nonzero(text == 10) + np.count_nonzero(text == 13)) + len(edges)), np.int64)
    at, first, last = found[:, : _split(text, edges, plain, found)]
    if not is_record:
        at, first, last = _unglued(plain, at, first, last)
    if len(first) and last[-1] == plain.size:  # a text that ends within a byte
        last[-1] -= re.match(_CUT_LINE, plain[first[-1] :].tobytes()) is not None
    size, data = np.empty(len(first), np.int64), np.empty(plain.size // 2 + 1, np.uint8)
    data = data[: _hex(read_only(plain), first, last, size, data)]
    data_at = np.cumsum(np.maximum(size, 0)) - np.maximum(size, 0)
    role = np.where(first == last, Role.BLANK, Role.UNKNOWN).astype(np.int8)
    lines = Lines(
        text, plain, np.append(at, text.size), first, last, size, data, data_at, role, np.full(len(role), -1), at[:0],
        np.full(len(role), -1), pa.array([], pa.binary()), {},
    )  # fmt: skip
    _match(lines)
    _records(lines, inside, is_record)
    _texts(lines)
    _contexts(lines)
    return lines


@kernel
def _split(text: Bytes, edges: Ints, plain: Bytes, lines: Ints) -> int:
    """Lines, each of which ends with LF, CR or at an edge (``edges``: rising, the last one is the end of the text).
    Returns their number. ``plain``: the text with blanks for white space, U+00A0, the marks of quoted mails, and a byte
    order mark at the beginning of a line.
    ``lines``: first byte; first byte and end of the content of each."""
    count, at = 0, 0
    for edge in range(len(edges)):
        stop = edges[edge]
        while at < stop:
            lines[0, count] = at
            if at + 2 < stop and text[at] == 0xEF and text[at + 1] == 0xBB and text[at + 2] == 0xBF:
                plain[at : at + 3] = 32
                at += 3
            while at < stop and np.int64(text[at]) == 62:  # `> `
                plain[at] = 32
                at += 1
                if at < stop and np.int64(text[at]) == 32:
                    plain[at] = 32
                    at += 1
            first, last, is_open = -1, at, True
            while at < stop and is_open:
                byte = np.int64(text[at])
                is_wide = byte == 0xC2 and at + 1 < stop and np.int64(text[at + 1]) == 0xA0
                if byte > 32 and not is_wide:
                    plain[at] = byte
                    at += 1
                    last = at
                    if first < 0:
                        first = at - 1
                    continue
                if byte == 10 or (byte == 13 and not (at + 1 < stop and np.int64(text[at + 1]) == 10)):
                    is_open = False
                plain[at] = 32
                at += 1
                if is_wide:
                    plain[at] = 32
                    at += 1
            lines[1, count] = last if first < 0 else first
            lines[2, count] = last
            count += 1
    return count


@kernel
def _hex(plain: Bytes, first: Ints, last: Ints, size: Ints, data: Bytes) -> int:
    """The lines of hex digits in groups of four, the last one of two or four, up to a bar, a colon or the end: the
    number of bytes of each, -1 for other lines, and the bytes themselves. Returns their number."""
    count = 0
    for line in range(len(first)):
        at, stop, begin = first[line], last[line], count
        is_hex = at < stop and _DIGIT[np.int64(plain[at])] < 16
        is_over = False
        while is_hex and at < stop:
            byte = np.int64(plain[at])
            if byte == 124 or byte == 58:
                break
            digits, value = 0, 0
            while digits < 4 and at < stop and _DIGIT[np.int64(plain[at])] < 16:
                value = value * 16 + int(_DIGIT[int(plain[at])])
                at += 1
                digits += 1
            is_hex = (digits == 2 or digits == 4) and not is_over
            is_over = digits == 2 or at == stop or np.int64(plain[at]) != 32
            if is_hex:
                if digits == 4:
                    data[count] = value >> 8
                    count += 1
                data[count] = value & 255
                count += 1
            while at < stop and np.int64(plain[at]) == 32:
                at += 1
        if is_hex:
            size[line] = count - begin
        else:
            size[line], count = -1, begin
    return count


def _unglued(plain: Bytes, at: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    """The lines, those of a prompt and the first line of a record as two."""
    prompts = np.flatnonzero((last > first) & (plain[first.clip(max=plain.size - 1)] | 32 == ord("l")))
    found = pc.extract_regex(gather(pa.binary(), plain, first[prompts], last[prompts], None), _GLUED)
    if found.null_count == len(found):
        return at, first, last
    glued = as_array(found.is_valid())
    lines = prompts[glued]
    place = first[lines] + pc.binary_length(found.field("prompt").filter(pa.array(glued))).to_numpy()
    firsts, lasts = np.insert(first, lines + 1, place), np.insert(last, lines, place)
    return np.insert(at, lines + 1, place), firsts, lasts


@cache
def _compiled(role: Role) -> re.Pattern[bytes]:
    return re.compile(_PATTERNS[role][1].encode(), re.DOTALL)


def matched(lines: Lines, line: int) -> re.Match[bytes] | None:
    """The fields of a line, with their places in its content; None for a line of a role without a form."""
    role = Role(int(lines.role[line]))
    content = lines.plain[lines.first[line] : lines.last[line]].tobytes()
    return _compiled(role).fullmatch(content) if role in _PATTERNS else None


def _match(lines: Lines) -> None:
    """The roles of lines that follow from the line alone, with their fields. Most lines are repeated, so each text is
    compared once."""
    able = np.flatnonzero((lines.role == Role.UNKNOWN) & (lines.size < 0))
    coded = lines.texts(able).dictionary_encode()
    lines.distinct = coded.dictionary
    code = lines.code[able] = coded.indices.to_numpy()
    role = np.full(len(lines.distinct), Role.UNKNOWN, np.int8)
    begins = content_of(pc.binary_slice(lines.distinct, 0, 1))[0]
    row = np.zeros(len(role), np.int64)
    fields: dict[Role, dict[str, pa.Array]] = {}
    for one, (letters, pattern) in _PATTERNS.items():
        tried = np.flatnonzero(_letters(letters)[begins] & (role == Role.UNKNOWN))
        texts = lines.distinct.take(pa.array(tried))
        flags, form = ("(?i)", pattern[4:]) if pattern.startswith("(?i)") else ("", pattern)
        form = f"{flags}^(?:{form})$"
        if "(?P<" in pattern:
            found = pc.extract_regex(texts, form)
            is_one = as_array(found.is_valid())
            columns = {each.name: found.field(each.name) for each in found.type}
        else:
            is_one, columns = as_array(pc.match_substring_regex(texts, form)), {}
        role[tried[is_one]] = one
        row[tried[is_one]] = np.flatnonzero(is_one)
        fields[one] = columns
    of, row = role[code], row[code]
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(len(Role) + 1))
    for one, columns in fields.items():
        mine = order[edges[one] : edges[one + 1]]
        lines.fields[one] = Fields(able[mine], row[mine], columns)
    lines.role[able] = of


@cache
def _letters(letters: bytes) -> Bools:
    return np.isin(np.arange(256), np.frombuffer(letters, np.uint8))


def _records(lines: Lines, boundaries: Ints, is_record: bool) -> None:
    """The record of each line."""
    count = len(lines.role)
    if is_record:
        lines.record[:], lines.begin = 0, np.zeros(min(count, 1), np.int64)
        return
    stage = np.full(count, -1)
    stage[lines.role == Role.RULE] = 1
    stage[(lines.role == Role.HEADER) & lines.having("(?i)^hdr-ind")] = 2
    stage[_tokens(lines) & lines.having(f"^{_G}")] = 0
    stage[lines.role == Role.RECORD] = 3
    closes = lines.role == Role.NOTE
    able = stage >= 0
    closes[np.searchsorted(lines.at, boundaries)] = True
    marks = np.flatnonzero(able | closes)
    level = stage[marks]
    before = np.append(-1, level)[:-1]
    before[closes[marks] & able[marks]] = -1  # the first line of a file
    begins = (level >= 0) & ((before < 0) | (level <= before))
    number = np.cumsum(begins) - 1
    number[level < 0] = -1
    lines.begin = marks[begins]
    lines.record = np.repeat(np.append(-1, number), np.diff(np.concatenate([[0], marks, [count]])))


def _tokens(lines: Lines) -> Bools:
    """The lines that begin as one of a token does, damaged ones too."""
    return lines.among(Role.TOKEN, Role.UNKNOWN) & lines.having("^T(?i:okenid)")


def _texts(lines: Lines) -> None:
    """The lines of definitions, from their first one to their end or that of their record."""
    opens = np.flatnonzero((lines.role == Role.TEXT) & (lines.record >= 0))
    if not len(opens):
        return
    stars, ends = (np.flatnonzero(lines.having(one)) for one in (r"^\*$", "^End of definition$"))
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


def _contexts(lines: Lines) -> None:
    """The roles that depend on preceding lines."""
    role, record = lines.role, lines.record
    is_hex = (lines.size >= 0) & (record >= 0) & (role == Role.UNKNOWN)
    role[(record < 0) & (role != Role.BLANK) & (role != Role.NOTE)] = Role.UNKNOWN
    tokens = lines.fields[Role.TOKEN].of(record[lines.fields[Role.TOKEN].line] >= 0)
    area = lines.owners(Role.GGS, Role.USER)
    in_user = (area >= 0) & (role[area] == Role.USER) & (area < np.arange(len(role)))
    _pairs(lines, in_user, is_hex)
    over = lines.owners(*_BODY_PARTS) >= 0
    role[lines.among(Role.HEADER, Role.RULE, Role.TRAIL) & over] = Role.UNKNOWN
    role[(role == Role.TRANSACTION) & ~over] = Role.UNKNOWN
    role[tokens.line] = _token_roles(lines, tokens, over, in_user)
    lines.fields |= dict.fromkeys((Role.HEADER_TOKEN, Role.USER_TOKEN, Role.GROUP, Role.GROUP_TOKEN), tokens)
    lines.fields = {kind: one.of(role[one.line] == kind) for kind, one in lines.fields.items()}
    sinks = _SINK_OF[role]
    sinks[_tokens(lines) & (role == Role.UNKNOWN)] = Role.UNKNOWN  # the digits below are not those of the token before
    owner = lines.nearest(sinks >= 0)
    is_hex &= owner >= 0
    role[is_hex] = sinks[owner[is_hex]]
    lines.size[~is_hex | (role == Role.UNKNOWN)] = 0


def _pairs(lines: Lines, in_user: Bools, is_hex: Bools) -> None:
    """In the user tokens, ``name : value`` is one of them, whatever it looks like."""
    others = lines.among(Role.BLANK, Role.TEXT, Role.TOKEN, Role.RECORD)
    able = np.flatnonzero(in_user & ~others)
    texts = lines.texts(able)
    pairs = pc.extract_regex(texts, _PAIR)
    is_pair = as_array(pairs.is_valid())
    short = as_array(pc.match_substring_regex(pc.binary_slice(texts, 0, 6), r"^[^|]*:"))
    after_hex = np.append(False, is_hex[:-1])[able]
    is_pair &= ~is_hex[able] | (short & ~after_hex)
    lines.role[able[is_pair]] = Role.USER_PAIR
    is_hex[able[is_pair]] = False
    columns = {name: pairs.field(name) for name in ("name", "value")}
    lines.fields[Role.USER_PAIR] = Fields(able, np.arange(len(able)), columns).of(is_pair)


def _token_roles(lines: Lines, tokens: Fields, over: Bools, in_user: Bools) -> Ints:
    """The roles of lines ``TokenID`` and ``GroupID``, and their numbers."""
    at, is_group = tokens.line, tokens.are("kind", b"GroupID")
    groups = np.zeros(len(lines.role), np.bool_)
    groups[at[is_group]] = True
    in_groups = lines.nearest(groups)[at] >= 0
    columns = tokens.columns
    coded = np.maximum(numbers(columns["id"], True), numbers(columns["code"], True))
    letters = [one[0] if one and len(one) == 1 else -1 for one in columns["letter"].to_pylist()]
    columns["number"] = pa.array(np.where(coded >= 0, coded, np.array(letters, np.int64)))
    number = tokens["number"].to_numpy()
    is_header_name = as_array(pc.match_substring_regex(columns["name"], _HEADER_NAMES))[tokens.code]
    is_over = over[at]
    found = np.where(is_over, np.where(in_user[at], Role.USER_TOKEN, Role.TOKEN), Role.HEADER_TOKEN)
    found[is_over & is_header_name] = Role.UNKNOWN
    found[~is_over & ~_letters(_HEADER_LETTERS)[number.clip(0)]] = Role.UNKNOWN
    found[in_groups & ~is_group & ~(is_over & is_header_name)] = Role.GROUP_TOKEN
    found[is_group] = Role.GROUP
    return found
