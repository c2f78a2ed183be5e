"""The values of an INSERT or a COPY as text (docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.containers.rows import as_strings
from cdcwb.formats.kernels import Ints

_NULLS: Final = pa.array([b"NULL", b"null", b"Null"], pa.binary())
_STRING: Final = r"'(?:[^']++|''|(?!))*+'"
_ESCAPED: Final = r"'(?:[^'\\]++|''|\\[\s\S]|(?!))*+'"
_POSTGRES: Final = r"'(?:[^'\\]++|''|\\[^uUv]|(?!))*+'"  # with escapes that COPY has as well
_TOKENS: Final = tuple(
    re.compile(
        r"(?is)\s++|--[^\n]*+|/\*(?:[^*]++|\*(?!/)|(?!))*+\*/"
        r"|n?q'(?:\[(?P<square>.*?)\]|\((?P<round>.*?)\)|<(?P<angle>.*?)>|\{(?P<curly>.*?)\}|(\S)(?P<other>.*?)\5)'"
        r"|(?:0x(?P<hex>(?:[0-9a-f]{2})*)(?!\w)|x'(?P<digits>(?:[0-9a-f]{2})*)')"
        rf"|(?:n|_\w++\s*+)?(?P<text>{text})|e(?P<escaped>{_POSTGRES})"
        r"|(?P<number>[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?)(?!\w)|(?P<name>[a-z_]\w*+)|(?P<sign>[(),])"
    )
    for text in (_STRING, _ESCAPED)
)
"""A token of a value; without and with backslash escapes."""

_FORM: Final = re.compile(
    r"NULL|(?P<truth>TRUE|FALSE)|(?:(?:DATE|TIME|TIMESTAMP) )?'|0"
    r"|(?P<time>TO_DATE|TO_TIMESTAMP|TO_TIMESTAMP_TZ) \( '(?: , ')* \)"
    r"|(?:TRY_)?CAST \( (?:(?:'|NULL) AS \w+|0 AS (?:VAR)?BINARY)(?: \w+)*(?: \( (?:'|MAX)(?: , ')? \))? \)"
)
"""The tokens of a value, with a quote for each literal, 0 for one in hexadecimal digits, and names in capital letters.
"""

_ESCAPES: Final = re.compile(r"\\(.)|''", re.DOTALL)
_BACKSLASH: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_BYTES: Final = re.compile("[\udc80-\udcff]+")  # that are not in the character set
_COPY_ESCAPES: Final = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_COPIED: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_MOST_TOKENS: Final = 40  # of a value
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


# --- columns ----------------------------------------------------------------------------------------------------------


def column(tokens: pa.BinaryArray, charset: str, backslash: bool, is_copy: bool = False) -> SqlColumn:
    """The values of a column, from the bytes between their commas, or between the tabs of a COPY. NULL, whole numbers
    and strings are read by column, each other value by itself."""
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
    values = [value_of(one.decode(charset, "surrogateescape"), backslash) for one in different.dictionary.to_pylist()]
    made, undecoded = zip(*(_decoded(one.text, charset) for one in values), strict=True)
    index = different.indices.to_pylist()
    refused = {
        row: why for row, at in zip(hard.tolist(), index, strict=True) if (why := values[at].refused) is not None
    }
    taken = pa.array(made, pa.string()).take(different.indices)
    texts = pc.replace_with_mask(texts, pa.array(~easy.to_numpy(zero_copy_only=False)), taken)
    return SqlColumn(texts, np.union1d(np.setdiff1d(garbled, hard), hard[np.array(undecoded)[index]]), refused)


def _decoded(text: str | None, charset: str) -> tuple[str | None, bool]:
    """A text whose bytes that are not characters yet are decoded; hex if that fails, and whether it fails."""
    try:
        return text and _BYTES.sub(lambda one: one[0].encode("ascii", "surrogateescape").decode(charset), text), False
    except UnicodeDecodeError:
        return (text or "").encode("utf-8", "surrogateescape").hex(), True


def _without_prefix(raw: pa.BinaryArray) -> pa.BinaryArray:
    """Strings without the word before them for times, or for the national character set."""
    if not len(raw) or not raw[0].as_py() or raw[0].as_py()[:1] not in b"TtDdNn":
        return raw
    return pc.replace_substring_regex(raw, rb"(?i)^(?:TIMESTAMP\s*|DATE\s*|N)('(?:[^']|'')*')$", rb"\1")


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


# --- one value --------------------------------------------------------------------------------------------------------


def value_of(token: str, backslash: bool = False) -> SqlValue:
    """One value. A literal, also in a cast or in a function that makes a time of it, has a text; what only the database
    can evaluate has none."""
    literals, form = _tokens_of(token, backslash)
    found = _FORM.fullmatch(form)
    if found is None:
        text = token.strip().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        shown = text if len(text) <= 60 else text[:57] + "…"
        reason = f"expected a literal, found {shown or 'nothing'}, which only the database can evaluate"
        return SqlValue(None, f"{reason}; export the table as CSV")
    if found["truth"]:
        return SqlValue(found["truth"].lower())
    if "NULL" in form:
        return SqlValue(None)
    time = _time(*literals[:2]) if found["time"] and len(literals) > 1 else None
    return SqlValue(time or literals[0])


def _tokens_of(text: str, backslash: bool) -> tuple[list[str], str]:
    """The literals in a text, and its tokens (see :data:`_FORM`); no tokens of what cannot be a value."""
    literals, form, at = list[str](), list[str](), 0
    while at < len(text):
        found = _TOKENS[backslash].match(text, at)
        if found is None or len(form) > _MOST_TOKENS:
            return [], ""
        at, kind = found.end(), found.lastgroup
        if kind is None:
            continue
        value = found[kind]
        if kind in ("name", "sign"):
            form.append(value.upper())
            continue
        if kind == "text" and not backslash:
            value = value[1:-1].replace("''", "'")
        elif kind == "escaped":
            raw = value[1:-1].replace("''", "'").encode("utf-8", "surrogateescape")
            value = _COPY_ESCAPES.sub(_unescaped, raw).decode("utf-8", "surrogateescape")
        elif kind == "text":
            value = _ESCAPES.sub(lambda one: _BACKSLASH.get(one[1], one[1]) if one[1] else "'", value[1:-1])
        is_binary = kind in ("hex", "digits")
        literals.append(value.lower() if is_binary else value)
        form.append("0" if is_binary else "'")
    return literals, " ".join(form)


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
