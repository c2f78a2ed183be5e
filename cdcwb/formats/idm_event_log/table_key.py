"""Keys of changed rows, one by one and column by column (docs/formats/idm-event-log.md §2).

A key without quotes is cut at its ``=`` and ``+`` for all rows at once; the others are parsed once for each different
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, slices
from cdcwb.formats.idm_event_log.key_grammar import (
    BLANKS,
    SPECIAL,
    TableKeyError,
    escape_value,
    format_key,
    parse,
    parts,
)
from cdcwb.formats.idm_event_log.key_repair import correct, padded, same_object
from cdcwb.formats.idm_event_log.laid import Bools, Bytes, Ints, distinct, laid, ranges, rows_of

__all__ = [
    "BLANKS",
    "SPECIAL",
    "KeyColumn",
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
