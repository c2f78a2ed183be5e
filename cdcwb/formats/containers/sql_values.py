"""The values of an INSERT or a COPY as text (docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

import re
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
_STRING: Final = r"'(?:[^']++|''|(?!))*+'"
_ESCAPED: Final = r"'(?:[^'\\]++|''|\\[\s\S]|(?!))*+'"
_LITERAL: Final = tuple(
    re.compile(
        r"(?i)(?P<null>NULL)|(?P<word>TRUE|FALSE)|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)"
        r"|(?:0x(?P<hex>(?:[0-9a-f]{2})*)|x'(?P<digits>(?:[0-9a-f]{2})*)')"
        rf"|(?:(?:n|_\w++|date|time|timestamp)\s*+)?(?P<text>{text})|e\s*+(?P<escaped>{_ESCAPED})"
    )
    for text in (_STRING, _ESCAPED)
)
"""A literal; without and with backslash escapes."""

_TYPE: Final = r"\w[\w\s]*+(?:\([\d,\s]*+\))?(?:\[\])?"
_AROUND: Final = re.compile(
    rf"(?is)(?P<cast>.*)::\s*+{_TYPE}|\((?P<inner>.*)\)|\{{\s*+(?:ts|d|t)\s*+(?P<time>'.*)\}}"
    r"|(?P<name>[A-Z_]\w*+)\s*+\((?P<arguments>.*)\)"
)
"""What may be around a literal: parentheses, an ODBC escape, a call, a cast."""

_SEPARATORS: Final = re.compile(rf"{_STRING}|('|\(|\)|,|\|\|)")
_COMMENTS: Final = re.compile(rf"({_STRING})|--[^\n]*+|/\*(?:[^*]++|\*(?!/)|(?!))*+(?:\*/)?")
_AS: Final = re.compile(r"(?is)(.*)\bAS\s+")
_ESCAPES: Final = re.compile(r"\\(.)|''", re.DOTALL)
_BACKSLASH: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_COPY_ESCAPES: Final = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_COPIED: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_DEEPEST: Final = 16  # casts, parentheses and calls around a literal
_FIRST_DAY: Final = datetime(1900, 1, 1)
_KEEP: Final = frozenset({"TO_CLOB", "TO_NCHAR", "TO_CHAR", "TO_NUMBER", "UNISTR"})
_TO_TIME: Final = frozenset({"TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_TZ", "STR_TO_DATE"})
_LONGEST_TIME: Final = 100  # characters of a time, and of its format
_PARTS: Final = dict.fromkeys(("YYYY", "RRRR", "SYYYY"), "%Y") | {
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "HH": "%I",
    "HH12": "%I",
    "MI": "%M",
    "SS": "%S",
    "AM": "%p",
    "PM": "%p",
}
_FRACTION_PART: Final = re.compile(r"[.,X]?FF\d?")
_FRACTION: Final = re.compile(r"(?<=\d)[.,](\d{1,9})(?=\D*\Z)")
_NOON: Final = re.compile(r"(?i)([AP])\.M\.")


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


def column(tokens: pa.BinaryArray, charset: str, backslash: bool, is_copy: bool = False) -> SqlColumn:
    """The values of a column, from the bytes between their commas, or between the tabs of a COPY."""
    if is_copy:
        return _copied(tokens, charset)
    raw = _without_prefix(tokens)
    edges = pc.binary_slice(raw, 0, 1), pc.binary_slice(raw, -1)
    quoted = pc.and_(pc.greater_equal(pc.binary_length(raw), 2), pc.and_(*(pc.equal(one, b"'") for one in edges)))
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
    easy = pc.or_(pc.or_(quoted, null), pc.match_substring_regex(raw, r"^-?\d+$"))
    texts, garbled = as_strings(pc.if_else(null, pa.scalar(None, pa.binary()), inner), charset)
    hard = np.flatnonzero(~easy.to_numpy(zero_copy_only=False))
    if not len(hard):
        return SqlColumn(texts, garbled, {})
    different = tokens.take(pa.array(hard)).dictionary_encode()
    values = [value_of(one.decode(charset, "backslashreplace"), backslash) for one in different.dictionary.to_pylist()]
    index = different.indices.to_pylist()
    refused = {
        row: why for row, at in zip(hard.tolist(), index, strict=True) if (why := values[at].refused) is not None
    }
    made = pa.array([one.text for one in values], pa.string()).take(different.indices)
    texts = pc.replace_with_mask(texts, pa.array(~easy.to_numpy(zero_copy_only=False)), made)
    return SqlColumn(texts, np.setdiff1d(garbled, hard), refused)


def _copied(raw: pa.BinaryArray, charset: str) -> SqlColumn:
    texts = pc.if_else(pc.equal(raw, b"\\N"), pa.scalar(None, pa.binary()), raw)
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
    if pc.any(escaped).as_py():
        made = [_COPY_ESCAPES.sub(_unescaped, one) for one in texts.filter(escaped).to_pylist()]
        texts = pc.replace_with_mask(texts, escaped, pa.array(made, pa.binary()))
    return SqlColumn(*as_strings(texts, charset), {})


def _unescaped(found: re.Match[bytes]) -> bytes:
    octal, digits, sign = found.groups()
    if sign is not None:
        return _COPIED.get(sign, sign)
    return bytes([int(octal, 8) & 0xFF if octal is not None else int(digits, 16)])


def _without_prefix(raw: pa.BinaryArray) -> pa.BinaryArray:
    """Strings without the word before them for times, or for the national character set."""
    if not len(raw) or raw[0].as_py()[:1] not in b"TtDdNn" or not len(raw[0].as_py()):
        return raw
    return pc.replace_substring_regex(raw, rb"(?i)^(?:TIMESTAMP\s*|DATE\s*|N)('(?:[^']|'')*')$", rb"\1")


def value_of(token: str, backslash: bool = False) -> SqlValue:
    """One value. Literals, casts and the usual spellings of times have a text; what only the database can
    work out has none."""
    text = token
    if ("--" in token or "/*" in token) and not _is_oracle_quoted(token):
        text = _COMMENTS.sub(lambda found: found[1] or " ", token)
    text = text.strip()
    try:
        made = _value(text, backslash, 0)
    except (ValueError, OverflowError):
        made = None
    if made is not None:
        return made
    shown = text if len(text) <= 60 else text[:57] + "…"
    reason = f"expected a literal, found {shown or 'nothing'}, which only the database can evaluate"
    return SqlValue(None, f"{reason}; export the table as CSV")


def _value(text: str, backslash: bool, depth: int) -> SqlValue | None:
    """A value; None where only the database can work that out. ``depth``: how much is around it."""
    if _is_oracle_quoted(text):
        return SqlValue(text[text.index("'") + 2 : -2])
    found = _LITERAL[backslash].fullmatch(text)
    if found is not None:
        return SqlValue(_literal(found, backslash))
    if depth > _DEEPEST:
        return None
    parts = _split(text, "||")
    if len(parts) > 1:
        values = [_value(part, backslash, depth + 1) for part in parts]
        return None if None in values else SqlValue("".join(one.text or "" for one in values if one is not None))
    around = _AROUND.fullmatch(text)
    if around is None:
        return None
    if around["name"] is not None:
        return _called(around["name"].upper(), around["arguments"], backslash, depth + 1)
    inner = next(one for one in (around["inner"], around["time"], around["cast"]) if one is not None)
    return _value(inner.strip(), backslash, depth + 1)


def _literal(found: re.Match[str], backslash: bool) -> str | None:
    """The text of a literal; None: NULL."""
    kind = found.lastgroup or ""
    text = found[kind]
    if kind == "null":
        return None
    if kind in ("text", "escaped"):
        if kind == "text" and not backslash:
            return text[1:-1].replace("''", "'")
        return _ESCAPES.sub(lambda one: _BACKSLASH.get(one[1], one[1]) if one[1] else "'", text[1:-1])
    return text if kind == "number" else text.lower()


def _is_oracle_quoted(text: str) -> bool:
    """Is this ``q'[…]'``, and nothing follows its end?"""
    if not text[:3].upper().startswith(("Q'", "NQ'")) or len(text) < 5:
        return False
    begin = text.index("'") + 2
    bracket = text[begin - 1]
    return text.find(_BRACKETS.get(bracket, bracket) + "'", begin) == len(text) - 2


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators outside of strings and parentheses."""
    parts, depth, start = [], 0, 0
    for found in _SEPARATORS.finditer(text) if separator in text else ():
        one = found[1]
        if one == "'":  # a string without an end
            return [text]
        depth += (one == "(") - (one == ")")
        if one == separator and not depth:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    return [*parts, text[start:].strip()]


def _called(name: str, inside: str, backslash: bool, depth: int) -> SqlValue | None:
    if name in ("CAST", "TRY_CAST"):
        cast = _AS.match(inside)
        kind = "" if cast is None else inside[cast.end() :].strip()
        is_type = cast is not None and re.fullmatch(_TYPE, kind) is not None
        return _cast(cast[1].strip(), kind, backslash, depth) if cast is not None and is_type else None
    arguments = _split(inside, ",")
    if name == "CONVERT" and len(arguments) >= 2:
        return _cast(arguments[1], arguments[0], backslash, depth)
    if name in _KEEP and len(arguments) == 1:
        return None if name == "UNISTR" and "\\" in inside else _value(arguments[0], backslash, depth)
    if name not in _TO_TIME:
        return None
    value, style = [*(_value(one, backslash, depth) for one in arguments[:2]), None][:2]
    if value is None or value.text is None or style is None or style.text is None:
        return value
    return SqlValue(_time(value.text, style.text) or value.text)


def _cast(value: str, kind: str, backslash: bool, depth: int) -> SqlValue | None:
    """A cast leaves the text as it is; the eight bytes of a SQL Server time become one."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{16}", value) and kind.strip().upper() in ("DATETIME", "SMALLDATETIME"):
        days, ticks = int(value[2:10], 16), int(value[10:], 16)
        days -= (days >> 31) << 32
        moment = _FIRST_DAY + timedelta(days=days, milliseconds=(ticks * 10 + 1) // 3)
        return SqlValue(moment.isoformat(" ", "milliseconds"))
    return _value(value, backslash, depth)


def _time(text: str, style: str) -> str | None:
    """A time written in a format of Oracle's, as ``yyyy-mm-dd hh:mm:ss[.f]``; None where the two do not agree, or where
    the format has parts that are not known here (names of months stay as they are)."""
    if len(text) > _LONGEST_TIME or len(style) > _LONGEST_TIME:
        return None
    style, fractions = _FRACTION_PART.subn("", _NOON.sub(r"\1M", style.upper()).replace("FM", ""))
    fraction = _FRACTION.search(text) if fractions else None
    if fraction is not None:
        text = text[: fraction.start()] + text[fraction.end() :]
    parts = re.findall(r"[A-Z]+\d*|[^A-Z]+", style)
    codes = [_PARTS.get(part, "") if part[0].isalpha() else part.replace("%", "%%") for part in parts]
    if not all(codes) or not {"%Y", "%m", "%d"} <= set(codes):
        return None
    try:
        moment = datetime.strptime(_NOON.sub(r"\1M", text.strip()), "".join(codes))  # noqa: DTZ007
    except (ValueError, re.error):
        return None
    return moment.isoformat(" ", "seconds") + (f".{fraction[1]}" if fraction is not None else "")
