"""The values of an INSERT as text (docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.containers.rows import as_strings

__all__ = ["SqlColumn", "column", "value_of"]

Ints = npt.NDArray[np.int64]

_NULLS: Final = pa.array([b"NULL", b"null", b"Null"], pa.binary())
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_STRING: Final = re.compile(r"'(?:[^']++|''|(?!))*+'")
_ESCAPED: Final = re.compile(r"'(?:[^'\\]++|''|\\.|(?!))*+'", re.DOTALL)
_SEPARATORS: Final = re.compile(r"'(?:[^']++|''|(?!))*+'|('|\(|\)|,|\|\|)")
_COMMENTS: Final = re.compile(r"('(?:[^']++|''|(?!))*+')|--[^\n]*+|/\*(?:[^*]++|\*(?!/)|(?!))*+(?:\*/)?")
_PREFIX: Final = re.compile(r"(?i)(n|_\w++|e|date|time|timestamp)\s*+(?=')")
_CALL: Final = re.compile(r"([A-Za-z_]\w*+)\s*+\((.*)\)", re.DOTALL)
_ESCAPE_CLAUSE: Final = re.compile(r"(?i)\{\s*+(?:ts|d|t)\s*+(?=')")
_TO_TIME: Final = frozenset({"TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_TZ", "STR_TO_DATE"})
_HEX: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)|[xX]'((?:[0-9a-fA-F]{2})*)'")
_WORDS: Final = {"TRUE": "true", "FALSE": "false"}
_BACKSLASH: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_KEPT: Final = ("%", "_")  # after a backslash, both characters stay
_AS: Final = re.compile(r"(?i)\bAS\s")
_TYPE: Final = re.compile(r"\w[\w\s]*+(?:\([\d,\s]*+\))?(?:\[\])?")
_DEEPEST: Final = 16  # casts, parentheses and calls around a literal
_LONGEST_TIME: Final = 100  # characters of a time, and of its format
_FIRST_DAY: Final = datetime(1900, 1, 1)
_FORMAT: Final = re.compile(r"[A-Za-z]+\d?|[^A-Za-z]+")
_BLANKS: Final = re.compile(r"\s+")
_GROUPS: Final = re.compile(r"\?P<(\w+)>")
_PARTS: Final = {
    "YYYY": r"(?P<year>\d{4})",
    "RRRR": r"(?P<year>\d{4})",
    "SYYYY": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{1,2})",
    "HH24": r"(?P<hour>\d{1,2})",
    "HH": r"(?P<half>\d{1,2})",
    "HH12": r"(?P<half>\d{1,2})",
    "MI": r"(?P<minute>\d{1,2})",
    "SS": r"(?P<second>\d{1,2})",
    "SSXFF": r"(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,9}))?",
    "FF": r"(?P<fraction>\d{1,9})",
    "AM": r"(?P<noon>[AaPp]\.?[Mm]\.?)",
    "PM": r"(?P<noon>[AaPp]\.?[Mm]\.?)",
}


class SqlValue(NamedTuple):
    """A value: its text (None: NULL), or why it has none."""

    text: str | None
    refused: str | None = None


class SqlColumn(NamedTuple):
    """Values of one column. ``garbled``: rows whose text is not in the character set; ``refused``: row -> why it has
    no value, which is NULL here."""

    texts: pa.StringArray
    garbled: Ints
    refused: dict[int, str]


def column(tokens: Sequence[bytes], charset: str, backslash: bool) -> SqlColumn:
    """The values of a column, from the bytes between their commas."""
    raw = _without_prefix(pa.array(tokens, pa.binary()))
    size = pc.binary_length(raw)
    quoted = pc.and_(
        pc.and_(pc.equal(pc.binary_slice(raw, 0, 1), b"'"), pc.equal(pc.binary_slice(raw, -1), b"'")),
        pc.greater_equal(size, 2),
    )
    inner = pc.if_else(quoted, pc.binary_slice(raw, 1, -1), raw)
    quotes = pc.count_substring(inner, pattern="'")
    has_quotes = pc.and_(quoted, pc.greater(quotes, 0))
    if pc.any(has_quotes).as_py():
        paired = pc.equal(quotes, pc.multiply(pc.count_substring(inner, pattern="''"), 2))
        quoted = pc.and_(quoted, paired)
        inner = pc.if_else(pc.and_(quoted, has_quotes), pc.replace_substring(inner, b"''", b"'"), inner)
    if backslash:
        quoted = pc.and_(quoted, pc.invert(pc.match_substring(raw, "\\")))
    null = pc.is_in(raw, _NULLS)
    plain = pc.match_substring_regex(raw, r"^-?\d+$")
    easy = pc.or_(pc.or_(quoted, null), plain)
    texts, garbled = as_strings(pc.if_else(null, pa.scalar(None, pa.binary()), inner), charset)
    hard = np.flatnonzero(~easy.to_numpy(zero_copy_only=False))
    if not len(hard):
        return SqlColumn(texts, garbled, {})
    return _with_hard(tokens, texts, garbled, hard, charset, backslash)


def _without_prefix(raw: pa.BinaryArray) -> pa.BinaryArray:
    """Strings without the word before them for times, or for the national character set."""
    if not len(raw) or raw[0].as_py()[:1] not in b"TtDdNn" or not len(raw[0].as_py()):
        return raw
    return pc.replace_substring_regex(raw, rb"(?i)^(?:TIMESTAMP\s*|DATE\s*|N)('(?:[^']|'')*')$", rb"\1")


def _with_hard(
    tokens: Sequence[bytes], texts: pa.StringArray, garbled: Ints, hard: Ints, charset: str, backslash: bool
) -> SqlColumn:
    known: dict[bytes, SqlValue] = {}
    places, found, refused = hard.tolist(), [], {}
    still = set(garbled.tolist()) - set(places)
    for row in places:
        token = tokens[row]
        if token not in known:
            known[token] = value_of(token.decode(charset, "backslashreplace"), backslash)
            if len(known) > 100_000:
                known = {token: known[token]}
        found.append(known[token].text)
        why = known[token].refused
        if why is not None:
            refused[row] = why
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[hard] = True
    made = pa.array(found, pa.string())
    return SqlColumn(
        pc.replace_with_mask(texts, pa.array(mask), made), np.array(sorted(still), dtype=np.int64), refused
    )


def value_of(token: str, backslash: bool = False) -> SqlValue:
    """One value. Literals, casts and the usual spellings of times have a text; what only the database can
    work out has none."""
    text = _without_comments(token).strip()
    try:
        made = _literal(text, backslash, 0)
    except (ValueError, OverflowError):
        made = None
    if made is not None:
        return made
    shown = text if len(text) <= 60 else text[:57] + "…"
    reason = f"expected a literal, found {shown or 'nothing'}, which only the database can evaluate"
    return SqlValue(None, f"{reason}; export the table as CSV")


def _without_comments(token: str) -> str:
    if ("--" not in token and "/*" not in token) or _is_oracle_quoted(token):
        return token
    return _COMMENTS.sub(lambda found: found[1] or " ", token)


def _literal(text: str, backslash: bool, depth: int) -> SqlValue | None:
    """A value; None where only the database can work that out. ``depth``: how much is around it."""
    if depth > _DEEPEST:
        return None
    upper = text[:8].upper()
    if upper == "NULL":
        return SqlValue(None)
    if upper in _WORDS:
        return SqlValue(_WORDS[upper])
    if _NUMBER.fullmatch(text):
        return SqlValue(text)
    digits = _HEX.fullmatch(text)
    if digits:
        return SqlValue((digits[1] if digits[1] is not None else digits[2]).lower())
    if _is_oracle_quoted(text):
        return SqlValue(text[text.index("'") + 2 : -2])
    prefix = _PREFIX.match(text)
    escaped = backslash or (prefix is not None and prefix[1] in "eE")
    body = text[prefix.end() :] if prefix else text
    if _is_string(body, escaped):
        return SqlValue(_unquoted(body, escaped))
    clause = _ESCAPE_CLAUSE.match(text)
    if clause and text.endswith("}"):
        return _literal(text[clause.end() : -1].strip(), backslash, depth + 1)
    parts = _split(text, "||") if "||" in text else ()
    if len(parts) > 1:
        return _joined(parts, backslash, depth + 1)
    before, colons, kind = text.rpartition("::")
    if colons and _TYPE.fullmatch(kind.strip()):
        return _literal(before.strip(), backslash, depth + 1)
    if text.startswith("(") and text.endswith(")"):
        return _literal(text[1:-1].strip(), backslash, depth + 1)
    call = _CALL.fullmatch(text)
    return None if call is None else _called(call[1].upper(), call[2], backslash, depth + 1)


def _is_oracle_quoted(text: str) -> bool:
    """Is this ``q'[…]'``, and nothing follows its end?"""
    if not text[:3].upper().startswith(("Q'", "NQ'")) or len(text) < 5:
        return False
    begin = text.index("'") + 2
    bracket = text[begin - 1]
    return text.find(_BRACKETS.get(bracket, bracket) + "'", begin) == len(text) - 2


def _is_string(text: str, escaped: bool) -> bool:
    return (_ESCAPED if escaped else _STRING).fullmatch(text) is not None


def _unquoted(text: str, escaped: bool) -> str:
    inner = text[1:-1]
    if not escaped or "\\" not in inner:
        return inner.replace("''", "'")

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return "'"
        return found[0] if found[1] in _KEPT else _BACKSLASH.get(found[1], found[1])

    return re.sub(r"\\(.)|''", one, inner, flags=re.DOTALL)


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators outside of strings and parentheses."""
    parts, depth, start = [], 0, 0
    for found in _SEPARATORS.finditer(text):
        one = found[1]
        if one == "'":  # a string without an end
            return [text]
        depth += (one == "(") - (one == ")")
        if one == separator and not depth:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    return [*parts, text[start:].strip()]


def _joined(parts: Sequence[str], backslash: bool, depth: int) -> SqlValue | None:
    texts = []
    for part in parts:
        one = _literal(part, backslash, depth)
        if one is None:
            return None
        texts.append(one.text or "")
    return SqlValue("".join(texts))


def _called(name: str, inside: str, backslash: bool, depth: int) -> SqlValue | None:
    if name in ("CAST", "TRY_CAST"):
        last = deque(_AS.finditer(inside), maxlen=1)
        kind = inside[last[0].end() :].strip() if last else ""
        return _cast(inside[: last[0].start()].strip(), kind, backslash, depth) if _TYPE.fullmatch(kind) else None
    arguments = _split(inside, ",")
    if name == "CONVERT" and len(arguments) >= 2:
        return _cast(arguments[1], arguments[0], backslash, depth)
    if name in ("TO_CLOB", "TO_NCHAR", "TO_CHAR", "TO_NUMBER", "UNISTR") and len(arguments) == 1:
        return None if name == "UNISTR" and "\\" in inside else _literal(arguments[0], backslash, depth)
    if name in _TO_TIME and arguments:
        value = _literal(arguments[0], backslash, depth)
        style = _literal(arguments[1], backslash, depth) if len(arguments) > 1 else None
        if value is None or value.text is None or style is None or style.text is None:
            return value
        return SqlValue(_time(value.text, style.text) or value.text)
    return None


def _cast(value: str, kind: str, backslash: bool, depth: int) -> SqlValue | None:
    """A cast leaves the text as it is; the eight bytes of a SQL Server time become one."""
    digits = _HEX.fullmatch(value)
    if digits and digits[1] and len(digits[1]) == 16 and kind.upper() in ("DATETIME", "SMALLDATETIME"):
        days, ticks = int(digits[1][:8], 16), int(digits[1][8:], 16)
        days -= (days >> 31) << 32
        moment = _FIRST_DAY + timedelta(days=days, milliseconds=(ticks * 10 + 1) // 3)
        return SqlValue(moment.isoformat(" ", "milliseconds"))
    return _literal(value, backslash, depth)


def _time(text: str, style: str) -> str | None:
    """A time written in a format of Oracle's, as ``yyyy-mm-dd hh:mm:ss[.f]``; None where the two do not agree, or where
    the format has parts that are not known here (names of months stay as they are)."""
    if len(text) > _LONGEST_TIME or len(style) > _LONGEST_TIME:
        return None
    pattern = ""
    for part in _FORMAT.findall(style.upper().replace("A.M.", "AM").replace("P.M.", "PM").replace("FM", "")):
        digits = re.fullmatch(r"FF\d", part)
        if part[0].isalpha():
            known = _PARTS.get("FF" if digits else part)
            if known is None:
                return None
            pattern += known
        else:
            pattern += r"\s++".join(map(re.escape, _BLANKS.split(part)))
    names = _GROUPS.findall(pattern)
    if len(set(names)) < len(names):  # a part twice
        return None
    found = re.fullmatch(pattern, text.strip())
    if found is None:
        return None
    part_of = found.groupdict()
    if not all(part_of.get(name) for name in ("year", "month", "day")):
        return None
    hour = int(part_of.get("hour") or 0)
    if part_of.get("half") is not None:
        noon = (part_of.get("noon") or "A")[0].upper()
        hour = int(part_of["half"]) % 12 + (12 if noon == "P" else 0)
    day = f"{part_of['year']}-{int(part_of['month']):02}-{int(part_of['day']):02}"
    clock = f"{hour:02}:{int(part_of.get('minute') or 0):02}:{int(part_of.get('second') or 0):02}"
    fraction = part_of.get("fraction")
    return f"{day} {clock}" + (f".{fraction}" if fraction else "")
