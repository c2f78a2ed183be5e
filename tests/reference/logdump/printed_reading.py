"""One record of Logdump text on its way from lines to what they say (docs/formats/goldengate.md §2).

What tokens hold, and what contradicts itself, is told by the code under test, which other tests hold against literals.
"""

from __future__ import annotations

from enum import Enum

from cdcwb.formats.goldengate.contents import TrailToken, user_pairs, walk_tokens
from cdcwb.formats.goldengate.layout import HEADER_TOKENS, IMAGE_LETTERS, MISSING, NOT_A_TIME
from cdcwb.formats.goldengate.records import header_values
from cdcwb.model import Problem
from tests.reference.logdump import printed_lines as lines
from tests.reference.logdump.printed_record import Printed, Shape, check, lacking

__all__ = ["Reading", "Role"]


class Role(Enum):
    """What a line of a record is."""

    UNKNOWN = "line that cannot be parsed"
    RULE = "rule"
    HEADER_TOKEN = "header token"
    HEADER_TOKEN_HEX = "header token's bytes"
    HEADER = "header"
    TRAIL = "trail file"
    RECORD = "record line"
    NAME = "name"
    IMAGE = "image"
    TRANSACTION = "transaction id"
    BODY = "data"
    TEXT = "metadata"
    HALF = "image length"
    COLUMN = "column"
    COLUMN_HEX = "column's bytes"
    GROUP = "file header group"
    GROUP_HEX = "file header's bytes"
    GGS = "heading of GGS tokens"
    USER = "heading of user tokens"
    TOKEN = "token"
    TOKEN_HEX = "token's bytes"
    USER_TOKEN = "user token"
    USER_TOKEN_HEX = "user token's bytes"


class Reading:
    """One record on its way from lines to a :class:`Printed`. ``sink`` takes the hex of the lines to come."""

    def __init__(self, data: bytes, start: int, stop: int) -> None:
        self.result = Printed(Shape.RECORD, start, stop)
        self.end = start
        self.sink: bytearray | None = None
        self.sink_role = Role.UNKNOWN
        self.body = bytearray()
        self.ghdr = bytearray()
        self.ggs = bytearray()
        self.user = bytearray()
        self.groups: list[tuple[lines.TokenLine, bytearray, list[tuple[lines.TokenLine, bytearray]]]] = []
        self.tokens: list[tuple[lines.TokenLine, bytearray, bool]] = []
        self.text: list[bytes] | None = None
        self.text_open = False
        self.stars = 0
        self.behind = False
        self.in_user = False
        self.hex_before = False
        only_rule = True
        ended = True
        for at, line_stop in lines.split_lines(data, start, stop):
            line = data[at:line_stop].strip(lines.BLANK)
            if not line:
                self.end = line_stop if ended else self.end
                continue
            role = self._line(line, lines.is_cut(data, line_stop))
            ended = role is not Role.UNKNOWN
            if ended:
                self.end = line_stop
                only_rule = only_rule and lines.RULE.match(line) is not None
        if only_rule:
            self.end = start

    def _line(self, line: bytes, is_cut: bool) -> Role:
        """Takes in one line."""
        if self.text_open:
            return self._text_line(line)
        if self.sink is not None and self._hex_line(line, is_cut, self.sink):
            self.hex_before = True
            return self.sink_role
        self.hex_before = False
        if line.startswith(b"TokenID"):
            return self._token_line(line)
        role = Role.UNKNOWN if self.behind else self._header_line(line)
        if role is Role.UNKNOWN:
            role = self._record_line(line)
        if role is Role.UNKNOWN:
            role = self._column_line(line)
        return self._section_line(line) if role is Role.UNKNOWN else role

    def _hex_line(self, line: bytes, is_cut: bool, sink: bytearray) -> bool:
        if self.in_user and not self.hex_before and b":" in line[:6] and b"|" not in line[:6]:
            return False
        found = lines.hex_bytes(line, is_cut)
        if found is None:
            return False
        sink += found
        return True

    def _expect(self, sink: bytearray | None, role: Role) -> None:
        """Hex in the lines to come goes to ``sink``; None: there is none to come."""
        self.sink, self.sink_role = sink, role

    def _text_line(self, line: bytes) -> Role:
        assert self.text is not None
        self.text.append(line)
        self.stars += line == b"*"
        if line == b"End of definition" or (self.stars == 2 and lines.DATABASE.match(self.text[0])):
            self.text_open = False
        return Role.TEXT

    def _header_line(self, line: bytes) -> Role:
        if lines.RULE.match(line):
            return Role.RULE
        trail = lines.TRAIL.match(line)
        if trail is not None:
            self.result.trail = lines.text_of(trail[1]) or None
            return Role.TRAIL
        if lines.FIELD_LINE.match(line) is None or lines.is_prose(line):
            return Role.UNKNOWN
        for name, _, start, stop in lines.header_pairs(line):
            self._header_value(name, line[start:stop])
        self._expect(None, Role.UNKNOWN)
        return Role.HEADER

    def _header_value(self, name: str, printed: bytes) -> None:
        values = self.result.values
        if name == "IO Time":
            text = lines.text_of(printed) or None
            if self.result.io_time is None:
                self.result.io_time = text
            return
        if name == "DDR/TDR index":
            found = lines.PAIR.match(printed)
            if found is not None:
                values.setdefault("DDR index", int(found[1]))
                values.setdefault("TDR index", int(found[2]))
            return
        number = lines.read_value(name, printed)
        if number is not None:
            values.setdefault(name, number)

    def _token_line(self, line: bytes) -> Role:
        token = lines.token_line(line)
        if token is None or (self.behind and " ".join((token.name or "").split()) in lines.HEADER_TOKEN_NAMES):
            self._expect(None, Role.UNKNOWN)  # the hex below is not that of the token before
            return Role.UNKNOWN
        value = bytearray()
        if self.groups:
            self.groups[-1][2].append((token, value))
            self._expect(value, Role.GROUP_HEX)
            return Role.GROUP
        if self.behind:
            self.tokens.append((token, value, self.in_user))
            self._expect(value, Role.USER_TOKEN_HEX if self.in_user else Role.TOKEN_HEX)
            return Role.USER_TOKEN if self.in_user else Role.TOKEN
        letter = chr(token.id)
        if letter not in HEADER_TOKENS:
            self._expect(None, Role.UNKNOWN)
            return Role.UNKNOWN
        self.result.parts.setdefault(letter, token.length)
        self._expect(self.ghdr if letter == "H" else value, Role.HEADER_TOKEN_HEX)
        return Role.HEADER_TOKEN

    def _record_line(self, line: bytes) -> Role:
        result = self.result
        found = lines.RECORD.match(line) if line[:1].isdigit() else None
        if found is not None:
            result.line_time, result.operation = lines.text_of(found[1]), lines.text_of(found[2])
            result.length, result.rba = _number(found[3]), _number(found[4])
            return self._data_follows(Role.RECORD)
        if self.in_user and lines.NAME_VALUE.match(line):
            return Role.UNKNOWN
        name = lines.NAME.match(line)
        if name is not None:
            result.name = lines.text_of(name[1])
            result.name_index = _number(name[2]) if name[2] else MISSING
            return self._data_follows(Role.NAME)
        index = lines.TDR_INDEX.match(line)
        if index is not None:
            result.name_index = _number(index[1])
            return Role.NAME
        image = lines.IMAGE.match(line)
        if image is not None:
            result.image = image[1].decode()
            letter = lines.IMAGE_TRANS.match(line)
            result.image_trans = MISSING if letter is None else IMAGE_LETTERS.index(letter[1])
            if image[2] or image[3]:
                result.image_partition = int(image[2], 16) if image[2] else _number(image[3])
            return self._data_follows(Role.IMAGE)
        transaction = lines.TRANSACTION.match(line) if self.behind else None
        if transaction is not None:
            result.transaction = lines.text_of(transaction[1])
            result.transaction_number = lines.text_of(transaction[2]) if transaction[2] else None
            return Role.TRANSACTION
        if lines.DATABASE.match(line) or lines.TABLE.match(line):
            self.text = [line]
            self.text_open = b"(Ref TDR Index" not in line
            self.behind = True
            self._expect(None, Role.UNKNOWN)
            return Role.TEXT
        return Role.UNKNOWN

    def _data_follows(self, role: Role) -> Role:
        self.behind = True
        self._expect(self.body, Role.BODY)
        return role

    def _column_line(self, line: bytes) -> Role:
        if lines.HALF.match(line) or lines.KEY_LENGTH.match(line):
            self._expect(None, Role.UNKNOWN)
            return Role.HALF
        if lines.COLUMN.match(line) is None:
            return Role.UNKNOWN
        self.behind = True
        self._expect(bytearray(), Role.COLUMN_HEX)
        return Role.COLUMN

    def _section_line(self, line: bytes) -> Role:
        group = lines.GROUP.match(line)
        if group is not None:
            value = bytearray()
            token = lines.TokenLine(int(group[1], 16), lines.text_of(group[2]), int(group[3], 16), _number(group[4]))
            self.groups.append((token, value, []))
            self._expect(value, Role.GROUP_HEX)
            return Role.GROUP
        for pattern, sink, role, hex_role in (
            (lines.GGS_TOKENS, self.ggs, Role.GGS, Role.TOKEN_HEX),
            (lines.USER_TOKENS, self.user, Role.USER, Role.USER_TOKEN_HEX),
        ):
            if pattern.match(line):
                self.behind, self.in_user = True, role is Role.USER
                self._expect(sink, hex_role)
                return role
        pair = lines.NAME_VALUE.match(line) if self.in_user else None
        if pair is None:
            return Role.UNKNOWN
        self.result.user_tokens.append((lines.text_of(pair[1]), lines.text_of(pair[2] or b"")))
        return Role.USER_TOKEN

    def printed(self) -> Printed:
        """The record, its hex taken apart and its contradictions listed."""
        result = self.result
        result.ghdr = bytes(self.ghdr)
        result.line_moment, result.header_moment = map(_moment, (result.line_time, result.io_time))
        for name, value in header_values(result.ghdr)[2].items():
            if name != "AuditRBA" or "TDR index" not in result.values:
                result.values.setdefault(name, value)
        result.body = bytes(self.body) or self._group_bytes() or None
        if self.text is not None:
            result.text = lines.text_of(b"\n".join(self.text))
        result.shape = self._shape()
        if result.shape is Shape.MALFORMED:
            sentence = "lines of a record without a complete header block and without its record line"
            result.problems.append((Problem.MALFORMED, sentence))
        self._finish_tokens()
        if result.shape is not Shape.MALFORMED:
            if result.operation is None:
                result.problems.append((Problem.TRUNCATED, "record line is missing"))
            result.problems += check(result)
        for what, text in (("Name", result.name), ("definition", result.text)):
            if text is not None and "\ufffd" in text:
                result.problems.append((Problem.CHARSET, f"{what} is not UTF-8"))
        return result

    def _shape(self) -> Shape:
        result = self.result
        if result.operation == "FileHeader" or result.name == "*FileHeader*":
            return Shape.FILE_HEADER
        whole = bool(result.values) and not lacking(result)
        return Shape.RECORD if whole or result.operation is not None else Shape.MALFORMED

    def _group_bytes(self) -> bytes:
        """A file header put together from its groups and tokens."""
        whole = bytearray()
        for group, shown, tokens in self.groups:
            if shown:
                whole += shown
                continue
            whole += bytes([group.id, group.info & 255]) + (group.length & 0xFFFF).to_bytes(2, "big")
            for token, value in tokens:
                whole += bytes([token.id, token.info & 255]) + (token.length & 0xFFFF).to_bytes(2, "big") + value
        return bytes(whole)

    def _finish_tokens(self) -> None:
        result = self.result
        if self.ggs:
            result.tokens, missing = walk_tokens(bytes(self.ggs))
            if missing:
                result.problems.append((Problem.TRUNCATED, f"token area truncated: {missing} bytes are missing"))
        result.user_tokens += user_pairs(bytes(self.user))
        for line, shown, in_user in self.tokens:
            value = bytes(shown)
            name = line.name or f"x{line.id:02x}"
            if len(value) < line.length:
                sentence = f"token {name} truncated: have {len(value)} of {line.length} bytes"
                result.problems.append((Problem.TRUNCATED, sentence))
            if not in_user:
                result.tokens.append(TrailToken(line.id, line.name, line.info, line.length, value))
            elif b"\0" in value.rstrip(b"\0") or line.name is None:
                result.user_tokens += user_pairs(value)
            else:
                result.user_tokens.append((line.name, lines.text_of(value.rstrip(b"\0"))))


def _moment(text: str | None) -> int:
    found = None if text is None else lines.time_us(text)
    return NOT_A_TIME if found is None else found


def _number(digits: bytes) -> int:
    """A decimal of any length, kept inside 63 bits."""
    return min(int(digits[:4000]), 2**63 - 1)
