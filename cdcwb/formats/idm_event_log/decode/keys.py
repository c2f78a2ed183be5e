r"""The grammar of ``table_key``, one key at a time (docs/formats/idm-event-log.md §2.1, §2.2).

    table key  = identifier {"+" identifier}
    identifier = column name "=" value

A value that has one of the nine special characters stands in double quotes, in which ``\"`` and ``\\`` stand for a
quote and a backslash. Where the vendor is silent: a name has none of the nine and is not blank; blanks belong to the
name or value beside them, so ``idu= 1`` is a key, of another object than ``idu=1``; a value without quotes has at least
one character, the empty text is ``""``; no column stands twice.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, slices
from cdcwb.formats.idm_event_log.decode.values import Bools, Bytes, Ints, distinct, laid, ranges, rows_of

__all__ = [
    "BLANKS",
    "SPECIAL",
    "KeyColumn",
    "Part",
    "TableKeyError",
    "correct",
    "escape_value",
    "format_key",
    "padded",
    "parse",
    "parse_column",
    "parts",
    "same_object",
    "same_objects",
]

SPECIAL: Final = ",;'+\"=\\<>"
"""The characters that force quotes around a value (§2.2)."""

BLANKS: Final = " \t\r\n"

_PLAIN: Final = "[^" + re.escape(SPECIAL) + "]"
_PART: Final = re.compile(rf'({_PLAIN}+)=({_PLAIN}+|"(?:[^"\\]++|\\["\\])*+")(\+|\Z)')
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NINE: Final = ", ; ' + \" = \\ < >"

Part = tuple[str, str]
"""A column's name, and its value as it is written, quotes and all."""


class TableKeyError(ValueError):
    """A text is no table key: what was ``expected`` at character ``position`` (from 0) and what was ``found``."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        super().__init__(position, expected, found)
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"expected {self.expected} at character {self.position}, found {self.found}"


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a key with their values, quotes and escapes undone, in the order written. Raises TableKeyError."""
    return tuple((name, _undone(value)) for name, value in parts(text))


def parts(text: str) -> Iterator[Part]:
    """The columns of a key with their values as written. Raises TableKeyError when it comes to what is wrong."""
    at = 0
    seen: set[str] = set()
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise _wrong(text, at, seen)
        name, value, sign = match.groups()
        unfit = _wrong_name(name, at, seen)
        if unfit is not None:
            raise unfit
        yield name, value
        if not sign:
            return
        seen.add(name)
        at = match.end()


def _undone(value: str) -> str:
    if not value.startswith('"'):
        return value
    inner = value[1:-1]
    return _ESCAPED.sub(r"\1", inner) if "\\" in inner else inner


def _wrong_name(name: str, at: int, seen: Container[str]) -> TableKeyError | None:
    if not name.strip(BLANKS):
        return TableKeyError(at, "a column name", "blanks alone")
    return TableKeyError(at, "a column that is not in the key yet", f"{name!r} again") if name in seen else None


def _wrong(text: str, at: int, seen: Container[str]) -> TableKeyError:
    """What is wrong with the identifier that begins at a place."""
    equals = _behind_plain(text, at)
    if equals == at:
        return _error(text, at, "a column name")
    if text[equals : equals + 1] != "=":
        return _error(text, equals, "=")
    unfit = _wrong_name(text[at:equals], at, seen)
    if unfit is not None:
        return unfit
    value = equals + 1
    if text[value : value + 1] == '"':
        return _wrong_in_quotes(text, value + 1)
    end = _behind_plain(text, value)
    if end == value:
        return _error(text, value, "a value, in double quotes if it has a special character")
    return _error(text, end, "+ or the end, because the value is not in double quotes,")


def _wrong_in_quotes(text: str, at: int) -> TableKeyError:
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and text[at + 1 : at + 2] not in ('"', "\\"):
            return _error(text, at + 1, "a double quote or \\ after \\")
        at += 2 if text[at] == "\\" else 1
    if at == len(text):
        return _error(text, at, "a closing double quote")
    return _error(text, at + 1, "+ or the end")


def _behind_plain(text: str, at: int) -> int:
    while at < len(text) and text[at] not in SPECIAL:
        at += 1
    return at


def _error(text: str, at: int, expected: str) -> TableKeyError:
    return TableKeyError(at, expected, repr(text[at]) if at < len(text) else "the end")


def escape_value(text: str) -> str:
    """A value as it is written in a key: in quotes where it has a special character or is empty."""
    if text and not any(character in SPECIAL for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def format_key(pairs: Iterable[tuple[str, str]]) -> str:
    """The key of these columns and values, which :func:`parse` reads as the same. Raises ValueError where there is no
    column, one that stands twice, or a name that has no place in the grammar."""
    given = list(pairs)
    names = [name for name, _ in given]
    for name in names:
        if not name.strip(BLANKS) or any(character in SPECIAL for character in name):
            raise ValueError(f"expected a column name without any of {_NINE}, found {name!r}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected columns of a key, each once, found {names}")
    return "+".join(f"{name}={escape_value(value)}" for name, value in given)


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


_EQUALS: Final = 1
_PLUS: Final = 2
_OTHER: Final = 3
_CLASS: Final = np.zeros(256, np.uint8)
_CLASS[list(SPECIAL.encode())] = _OTHER
_CLASS[ord("=")] = _EQUALS
_CLASS[ord("+")] = _PLUS
_BLANK: Final = np.zeros(256, np.bool_)
_BLANK[list(BLANKS.encode())] = True


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The keys of many rows. ``pairs``: the columns of each with their values, null where the key is NULL or none.
    ``position``: the character of its error, from 0; -1 where there is none. ``errors``: by row."""

    pairs: pa.MapArray
    position: Ints
    errors: dict[int, TableKeyError]


@dataclass(frozen=True, slots=True)
class _Simple:
    """Keys that are cut without a parser: ``cut`` says which these are, ``counts`` how many columns each row has (0 for
    the others), ``name`` and ``value`` where these begin and end in ``data``, in row order."""

    data: Bytes
    cut: Bools
    counts: Ints
    name: tuple[Ints, Ints]
    value: tuple[Ints, Ints]

    def texts(self, which: tuple[Ints, Ints]) -> pa.StringArray:
        return as_text(slices(self.data, *which))


def parse_column(keys: pa.StringArray) -> KeyColumn:
    """What :func:`parse` says of each key."""
    given = pc.is_valid(keys).to_numpy(zero_copy_only=False)
    simple = _simple(keys, given)
    names, values = simple.texts(simple.name), simple.texts(simple.value)
    position = np.full(len(keys), -1, np.int64)
    rest = np.flatnonzero(given & ~simple.cut)
    if not len(rest):
        return KeyColumn(_maps(simple.counts, given, names, values), position, {})
    texts, which = distinct(keys.take(pa.array(rest)))
    parsed = [_tried(text) for text in texts]
    errors: dict[int, TableKeyError] = {}
    broken = np.array([isinstance(one, TableKeyError) for one in parsed])[which]
    for row, at in zip(rest[broken].tolist(), which[broken].tolist(), strict=True):
        error = parsed[at]
        if isinstance(error, TableKeyError):
            errors[row] = error
            position[row] = error.position
    pairs = [() if isinstance(one, TableKeyError) else one for one in parsed]
    sizes = np.array([len(one) for one in pairs], np.int64)
    counts = simple.counts.copy()
    counts[rest] = sizes[which]
    first = np.cumsum(simple.counts) - simple.counts
    first[rest] = (len(names) + np.cumsum(sizes) - sizes)[which]
    places = pa.array(ranges(first, counts))
    added = [pa.array([pair[side] for one in pairs for pair in one], pa.string()) for side in (0, 1)]
    names, values = (
        pa.concat_arrays([one, more]).take(places) for one, more in zip((names, values), added, strict=True)
    )
    given[rest[broken]] = False
    return KeyColumn(_maps(counts, given, names, values), position, errors)


def _tried(text: str) -> tuple[tuple[str, str], ...] | TableKeyError:
    try:
        return parse(text)
    except TableKeyError as error:
        return error


def _maps(counts: Ints, given: Bools, names: pa.StringArray, values: pa.StringArray) -> pa.MapArray:
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(~given, False)), names, values)


def _simple(keys: pa.StringArray, given: Bools) -> _Simple:
    """The keys in which ``=`` and ``+`` take turns, every piece between them has characters, and no other special
    character stands; keys whose names begin with a blank or repeat are left to the parser."""
    data, offsets = laid(keys)
    kind = _CLASS[data]
    places = np.flatnonzero(kind)
    kind = kind[places]
    row = rows_of(places, offsets)
    number = np.bincount(row, minlength=len(keys))
    ordinal = np.arange(len(places)) - (np.cumsum(number) - number)[row]
    begin = np.where(ordinal == 0, offsets[:-1][row], np.append(0, places[:-1] + 1))
    last = ordinal == number[row] - 1
    end = np.where(last, offsets[1:][row], np.append(places[1:], 0))
    odd = (kind != np.where(ordinal % 2, _PLUS, _EQUALS)) | (begin == places) | (places + 1 == end)
    cut = given & (number % 2 == 1)
    cut[row[odd]] = False
    keep = cut[row] & (ordinal % 2 == 0)
    row, begin, place, end = row[keep], begin[keep], places[keep], end[keep]
    doubtful = np.zeros(len(keys), np.bool_)
    doubtful[row[_BLANK[data[begin]]]] = True
    several = np.flatnonzero(number[row] > 1)
    if len(several):
        names = as_text(slices(data, begin[several], place[several]))
        code = names.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        named = np.sort(row[several] * (int(code.max()) + 1) + code)
        doubtful[named[1:][named[1:] == named[:-1]] // (int(code.max()) + 1)] = True
    if doubtful.any():
        cut &= ~doubtful
        stay = ~doubtful[row]
        row, begin, place, end = row[stay], begin[stay], place[stay], end[stay]
    return _Simple(data, cut, np.where(cut, (number + 1) // 2, 0), (begin, place), (place + 1, end))


def same_objects(keys: pa.StringArray) -> pa.StringArray:
    """What :func:`same_object` makes of each key; null stays null."""
    given = pc.is_valid(keys).to_numpy(zero_copy_only=False)
    simple = _simple(keys, given)
    one = simple.counts == 1
    chosen = one[np.repeat(np.arange(len(keys)), simple.counts)]
    name, value = ((first[chosen], last[chosen]) for first, last in (simple.name, simple.value))
    names = as_text(slices(simple.data, *name))
    bare = pc.ascii_trim(as_text(slices(simple.data, *value)), characters=BLANKS)
    plain = pc.and_(pc.string_is_ascii(names), pc.greater(pc.binary_length(bare), 0)).to_numpy(zero_copy_only=False)
    normal = pc.ascii_lower(pc.ascii_rtrim(names, characters=BLANKS))
    joined = pc.binary_join_element_wise(normal, bare, "=")
    rows = np.flatnonzero(one)
    done = rows[plain]
    others = given.copy()
    others[done] = False
    rest = np.flatnonzero(others)
    if not len(rest) and len(done) == len(keys):
        return joined
    texts, which = distinct(keys.take(pa.array(rest)))
    made: Sequence[str] = [same_object(text) for text in texts]
    where = np.full(len(keys), -1, np.int64)
    where[done] = np.flatnonzero(plain)
    where[rest] = len(joined) + which
    both = pa.concat_arrays([joined, pa.array(made, pa.string())])
    return both.take(pa.array(where, mask=where < 0))
