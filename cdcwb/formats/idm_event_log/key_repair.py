"""Keys that are written wrongly or in several ways (docs/formats/idm-event-log.md §2.2, §2.3)."""

from __future__ import annotations

import re
from typing import Final

from cdcwb.formats.idm_event_log.key_grammar import BLANKS, SPECIAL, TableKeyError, escape_value, parse, parts

__all__ = ["correct", "padded", "same_object"]

_LEAD: Final = re.compile(rf"[{BLANKS}]*([^{re.escape(SPECIAL)}]+)=[{BLANKS}]*")
_QUOTED: Final = re.compile(rf'("(?:[^"\\]++|\\["\\])*+")[{BLANKS}]*(\+|\Z)')
_NEXT: Final = re.compile(rf"\+[{BLANKS}]*[^\W\d][\w$#]*[{BLANKS}]*=[{BLANKS}]*(=|\Z)?")
_PAIR: Final = re.compile(r'\\["\\]')
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)


def correct(text: str) -> str | None:
    """The key as it should be written; None where that is not clear.

    Blanks around names and around values without quotes go, and a value with special characters gets its quotes and
    escapes. A ``+`` begins another column where a name and ``=`` stand behind it. Nothing is made up: what lacks a
    name, a value or a closing quote, or may be meant in two ways, is not repaired.
    """
    try:
        given = [(name.strip(BLANKS), _trimmed(value)) for name, value in parts(text)]
    except TableKeyError:
        found = _lenient(text)
        if found is None:
            return None
        given = found
    made = "+".join(f"{name}={value}" for name, value in given)
    try:
        parse(made)
    except TableKeyError:
        return None
    return made


def _trimmed(value: str) -> str:
    return value if value.startswith('"') else value.strip(BLANKS) or value


def _lenient(text: str) -> list[tuple[str, str]] | None:
    """The columns of what is no key, with their values as they should be written."""
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        lead = _LEAD.match(text, at)
        if lead is None:
            return None
        quoted = _QUOTED.match(text, lead.end())
        if quoted is not None:
            value: str | None = quoted[1]
            at = quoted.end()
            more = bool(quoted[2])
        else:
            behind = _NEXT.search(text, lead.end())
            if behind is not None and behind[1] is not None:
                return None  # "+name=" with no value of its own: as likely the end of a Base64 text
            stop = len(text) if behind is None else behind.start()
            value = _meant(text[lead.end() : stop].strip(BLANKS))
            at = stop + 1
            more = behind is not None
        if value is None:
            return None
        found.append((lead[1].strip(BLANKS), value))
        if not more:
            return found


def _meant(raw: str) -> str | None:
    """A value as it should be written; None where there is none or it is not clear."""
    inner = raw
    if raw.startswith('"'):
        if len(raw) < 2 or not raw.endswith('"') or (len(raw) - 1 - len(raw[:-1].rstrip("\\"))) % 2:
            return None
        inner = raw[1:-1]
        rest = _PAIR.sub("", inner)
        if rest == inner:
            return escape_value(inner)
        return None
    if not inner or inner.endswith("+") or _PAIR.search(inner):
        return None
    return escape_value(inner)


def padded(text: str) -> bool:
    """Does a key have blanks around a name or a number? False for what is no key."""
    try:
        pairs = parse(text)
    except TableKeyError:
        return False
    return any(
        name != name.strip(BLANKS) or (value != (bare := value.strip(BLANKS)) and _NUMBER.fullmatch(bare) is not None)
        for name, value in pairs
    )


def same_object(text: str) -> str:
    """A key in a form that all spellings of it share: names folded, blanks trimmed, only the quotes that are needed,
    columns in the order of their names. A text that is no key and cannot be repaired keeps its form, but for blanks."""
    try:
        pairs = parse(text)
    except TableKeyError:
        repaired = correct(text)
        if repaired is None:
            return text.strip(BLANKS)
        pairs = parse(repaired)
    normal = sorted((name.strip(BLANKS).casefold(), value.strip(BLANKS)) for name, value in pairs)
    return "+".join(f"{name}={escape_value(value)}" for name, value in normal)
