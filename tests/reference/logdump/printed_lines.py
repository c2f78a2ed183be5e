"""The lines of Logdump text, one by one: what each kind looks like and what it says (docs/formats/goldengate.md §2).

A line is bytes without its indentation and line end. Nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cdcwb.formats.goldengate.layout import CHARACTERS, HEADER

__all__ = [
    "BLANK",
    "COLUMN",
    "DATABASE",
    "ENDERS",
    "FIELD_LINE",
    "FRAGMENT",
    "GGS_TOKENS",
    "GROUP",
    "HALF",
    "HEADER_TOKEN_NAMES",
    "IMAGE",
    "IMAGE_TRANS",
    "KEY_LENGTH",
    "LENGTH",
    "NAME",
    "NAME_VALUE",
    "PAIR",
    "PROMPT",
    "RECORD",
    "RULE",
    "TABLE",
    "TDR_INDEX",
    "TRAIL",
    "TRANSACTION",
    "USER_TOKENS",
    "HeaderPair",
    "TokenLine",
    "candidate",
    "header_pairs",
    "hex_bytes",
    "is_cut",
    "is_ender",
    "is_prose",
    "read_value",
    "split_lines",
    "text_of",
    "time_us",
    "token_line",
]

BLANK: Final = b" \t\r\n"
"""White space around what a line says."""

RULE: Final = re.compile(rb"_{20,}\s*\Z")
PROMPT: Final = re.compile(rb"Logdump *\d* *>", re.IGNORECASE)
RECORD: Final = re.compile(
    rb"(\d{4}[/-]\d\d[/-]\d\d[ T]+\d\d:\d\d:\d\d(?:\.\d{1,3}(?:\.?\d{1,3})?)?)"
    rb"\s+(\S.*?)\s+Len\s+(\d{1,18})\s+RBA\s+(\d{1,18})\s*\Z"
)
NAME: Final = re.compile(rb"Name\s*:\s*(.*?)\s*(?:\(TDR\s+Index:\s*(\d{1,18})\s*\))?\s*\Z")
TDR_INDEX: Final = re.compile(rb"TDR\s+Index\s*:\s*(\d{1,18})\s*\Z")
IMAGE: Final = re.compile(rb"(Before|After)\s*Image\s*:\s*(?:Partition\s*(?:x([0-9a-fA-F]{1,15})|(\d{1,18}))?.*)?\Z")
IMAGE_TRANS: Final = re.compile(rb".*\sG\s+([bmes])\Z", re.DOTALL)
TRANSACTION: Final = re.compile(rb"TRANSID\s*:\s*(\S+)(?:\s+\((\d{1,20})\))?\s*\Z")
HALF: Final = re.compile(rb"(Before|After)\s+Image\s+Len\s+\d+\b")
KEY_LENGTH: Final = re.compile(rb"KeyLen\s+\d+\b")
COLUMN: Final = re.compile(rb"(Column|KeyCol)\s+(\d{1,18})\s*(?:\(0?x([0-9a-fA-F]{1,15})\))?\s*,\s*((?:Len|LOB).*)\Z")
LENGTH: Final = re.compile(rb"Len(?:gth)?\s+(\d{1,18})(?:\s*\(0?x([0-9a-fA-F]{1,15})\))?")
FRAGMENT: Final = re.compile(rb"LOB\s+fragment\s+(\d{1,18})\s+of\s+(\d{1,18})", re.IGNORECASE)
GGS_TOKENS: Final = re.compile(rb"GGS\s+tokens\s*:", re.IGNORECASE)
USER_TOKENS: Final = re.compile(rb"User\s+tokens\s*:", re.IGNORECASE)
NAME_VALUE: Final = re.compile(rb"([^\s:]+)\s*:(?:\s+(.*?))?\s*\Z", re.DOTALL)
TRAIL: Final = re.compile(rb"Trail\s+name\s*:\s*(.*?)\s*\Z")
DATABASE: Final = re.compile(rb"Database\s+Name\s*:")
TABLE: Final = re.compile(rb"Table\s+Name\s*:")
GROUP: Final = re.compile(
    rb"GroupID\s+x([0-9a-fA-F]{2})\s+'.?'\s*([^']*?)\s+Info\s+x([0-9a-fA-F]{1,2}),?\s+Length\s+(\d{1,18})\s*\Z"
)
_TOKEN_NEW: Final = re.compile(
    rb"TokenID\s+x([0-9a-fA-F]{2})\s+'.?'\s*([^']*?)\s+Info\s+x([0-9a-fA-F]{1,2}),?\s+Length\s+(\d{1,18})\s*\Z",
    re.DOTALL,
)
_TOKEN_OLD: Final = re.compile(
    rb"TokenID\s+(\S)(?:\s*\(x([0-9a-fA-F]{2})\))?,\s*Info\s+x?([0-9a-fA-F]{1,3}),\s*Length\s*(\d{1,18})\s*\Z",
    re.DOTALL,
)
_HEX: Final = re.compile(
    rb"((?:[0-9a-fA-F]{4}[ \t]+)*(?:[0-9a-fA-F]{4}|[0-9a-fA-F]{2}))(?:[ \t]*[|:].*)?\s*\Z", re.DOTALL
)
_CUT_HEX: Final = re.compile(rb"((?:[0-9a-fA-F]{4}[ \t]+)*(?:[0-9a-fA-F]{2})?)[0-9a-fA-F]\Z")
_G_TOKEN: Final = re.compile(rb"TokenID\s+(?:x47\s+'G'\s+Record\s+Header|G,)")
_GLUED: Final = re.compile(
    rb"_{20,}\s*\Z|TokenID\s+(?:x47\s+'G'\s+Record\s+Header|G,)|Hdr-Ind\s*:|\d{4}[/-]\d\d[/-]\d\d[ T].*\sRBA\s+\d+\s*\Z"
)

HEADER_TOKEN_NAMES: Final = frozenset({"Record Header", "GHDR", "Data", "GGS Tokens", "User Tokens", "Record Trailer"})
"""Printed names of header tokens, which are no tokens of a record."""

ENDERS: Final = re.compile(
    rb"C(?i:urrent\s+logtrail\s+is)|R(?i:eading\s+forward\s+from\s+rba)|O(?i:racle\s+goldengate\s+log\s+file\s+dump)"
    rb"|E(?i:rror:)|F(?i:iltering\s+suppressed)|L(?i:ast\s+record\s+for\s+the\s+last\s+committed)|L(?i:ogtrail )"
    rb"|Version [0-9.]+ |Copyright\s+\(C\)"
)
"""Beginnings of lines that, like a prompt, end the record before them."""


class HeaderPair(NamedTuple):
    """A field of the header block: name, where the line has it, and where its value."""

    name: str
    at: int
    start: int
    stop: int


class TokenLine(NamedTuple):
    """A TokenID line. ``name``: as printed, None in the style that prints none."""

    id: int
    name: str | None
    info: int
    length: int


def is_cut(data: bytes, stop: int) -> bool:
    """Has the line that ends at ``stop`` no line end? Only the last one of a text may be so."""
    return data[stop - 1 : stop] != b"\n"


def split_lines(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """First and last+1 byte of each line, line end included."""
    while start < stop:
        found = data.find(b"\n", start, stop)
        end = stop if found < 0 else found + 1
        yield start, end
        start = end


def is_ender(line: bytes) -> bool:
    """Does the line, without indentation, end the record before it without being part of one?"""
    return PROMPT.match(line) is not None or ENDERS.match(line) is not None


def candidate(line: bytes) -> tuple[int, int] | None:
    """Stage and place of what may begin a record: 0 header token G, 1 rule, 2 Hdr-Ind, 3 record line; else None.

    The place is 0 but where the line begins with a prompt; of a rule glued to one, its first underscore.
    """
    if line.startswith(b"____") and RULE.match(line):
        return 1, 0
    if line.startswith(b"Hdr-Ind") and not is_prose(line):
        return 2, 0
    if _G_TOKEN.match(line):
        return 0, 0
    if line[:4].isdigit() and RECORD.match(line):
        return 3, 0
    prompt = PROMPT.match(line)
    if prompt is None:
        return None
    glued = _GLUED.search(line, prompt.end())
    if glued is None:
        return None
    found = candidate(line[glued.start() :])
    return None if found is None else (found[0], glued.start())


_NAMES: Final = (*(name for name in HEADER if not name.endswith(" index")), "IO Time", "DDR/TDR index")
_BY_FOLD: Final = {name.casefold().encode(): name for name in _NAMES}
_ANY: Final = b"|".join(name.encode().replace(b" ", rb"\s+") for name in _NAMES)
FIELD_LINE: Final = re.compile(rb"(?:" + _ANY + rb")\s*:", re.IGNORECASE)
_PAIR: Final = re.compile(
    rb"(" + _ANY + rb")\s*:\s*(.*?)(?=\s+(?:" + _ANY + rb")\s*:|\s*\Z)", re.IGNORECASE | re.DOTALL
)
_WITH_HEX: Final = re.compile(rb"\(x([0-9a-fA-F]{1,15})\)\s*\Z")
PAIR: Final = re.compile(rb"\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_DECIMAL: Final = re.compile(rb"(\d{1,18})(?=\s|\(|\Z)")


_PROSE: Final = re.compile(rb"[^\s\d.,:/()\-]{2}")


def is_prose(line: bytes) -> bool:
    """Is a line that begins with the name of a header field a note about that field (§2.7)?

    A value is a character, a number or a time, which the hex may follow. Two letters in a row are none of these.
    """
    found = _PAIR.match(line)
    value = line[len(b"Hdr-Ind") :] if found is None else found[2]
    return _PROSE.search(value.partition(b"(x")[0]) is not None


def header_pairs(line: bytes) -> list[HeaderPair]:
    """The fields of a line of the header block, in any white space."""
    return [
        HeaderPair(_BY_FOLD[b" ".join(found[1].lower().split())], found.start(), found.start(2), found.end(2))
        for found in _PAIR.finditer(line)
    ]


def read_value(name: str, printed: bytes) -> int | None:
    """The number of a header value: its hex where there is one; else the code of a character, or the decimal."""
    in_hex = _WITH_HEX.search(printed)
    decimal = None if name in CHARACTERS else _DECIMAL.match(printed)
    if in_hex is not None:
        return int(in_hex[1], 16)
    if decimal is not None:
        return int(decimal[1])
    if name in CHARACTERS and printed[:1] not in (b"", b".", b"("):
        return {b"Y": 1, b"N": 0}.get(printed[:1]) if name == "Continued" else printed[0]
    return None


def token_line(line: bytes) -> TokenLine | None:
    """A TokenID line of either style."""
    if not line.startswith(b"TokenID"):
        return None
    new = _TOKEN_NEW.match(line)
    if new is not None:
        return TokenLine(int(new[1], 16), text_of(new[2]) or None, int(new[3], 16), int(new[4]))
    old = _TOKEN_OLD.match(line)
    if old is not None:
        return TokenLine(int(old[2], 16) if old[2] else old[1][0], None, int(old[3], 16), int(old[4]))
    return None


def hex_bytes(line: bytes, is_cut: bool = False) -> bytes | None:
    """The bytes of a line of hex digits, with a text pane behind ``|`` or ``:`` or without; None: no such line.

    ``is_cut``: the text ends in the line, so that the second digit of its last byte may be missing; the first one is
    left out then.
    """
    found = _hex(line, is_cut)
    return bytes.fromhex(found[1].decode("ascii")) if found is not None else None


def _hex(line: bytes, is_cut: bool) -> re.Match[bytes] | None:
    return _HEX.match(line) or (_CUT_HEX.match(line) if is_cut else None)


def text_of(printed: bytes) -> str:
    """Printed text; bytes that are not UTF-8 are replaced."""
    return printed.decode("utf-8", "replace")


_TIME: Final = re.compile(
    r"\s*(\d{4})[/-](\d\d)[/-](\d\d)[ T]+(\d\d):(\d\d):(\d\d)(?:\.(\d{1,3})(?:\.?(\d{1,3}))?)?\s*\Z", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_us(text: str) -> int | None:
    """A printed time as microseconds since 1970 as if its zone were UTC; None where it is none.

    ``YYYY/MM/DD HH:MM:SS.mmm.uuu`` or ISO 8601, with up to six digits of a second.
    """
    found = _TIME.match(text)
    if found is None:
        return None
    fraction = (found[7] or "").ljust(3, "0") + (found[8] or "").ljust(3, "0")
    try:
        day = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        moment = day.replace(hour=int(found[4]), minute=int(found[5]), second=int(found[6]))
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) + int(fraction)
