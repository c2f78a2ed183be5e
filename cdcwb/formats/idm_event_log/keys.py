r"""Keys of changed rows, ``table_key`` (docs/formats/idm-event-log.md §2).

    table key  = identifier {"+" identifier}
    identifier = column name "=" value

A value that has one of the nine special characters is in double quotes, in which ``\"`` and ``\\`` mean a quote and a
backslash. Where the vendor is silent: a name has none of the nine and is not blank; blanks belong to the name or value
next to them, so ``idu= 1`` is a key, of another object than ``idu=1``; a value without quotes has at least one
character, the empty text is ``""``; no column is in a key twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_text, slices
from cdcwb.formats.idm_event_log.values import Bools, Bytes, Ints, bytes_of_texts
from cdcwb.formats.kernels import kernel

__all__ = [
    "BLANKS", "SPECIAL", "KeyColumn", "TableKeyError", "escape_value", "padded", "parse", "parse_column", "parts",
    "same_objects",
]  # fmt: skip

SPECIAL: Final = ",;'+\"=\\<>"
"""The characters that force quotes around a value (§2.2)."""

BLANKS: Final = " \t\r\n"

_IS_SPECIAL: Final = np.isin(np.arange(256), list(SPECIAL.encode()))
_IS_BLANK: Final = np.isin(np.arange(256), list(BLANKS.encode()))
_EXPECTED: Final = (
    "",
    "a column name",
    "=",
    "a column name",
    "a column that is not in the key yet",
    "a value, in double quotes if it has a special character",
    "+ or the end, because the value is not in double quotes,",
    "a double quote or \\ after \\",
    "a closing double quote",
    "+ or the end",
    "the end, because a key has at most 256 columns,",
)
_MOST_COLUMNS: Final = 256  # of a key; each is compared with those before it
_BLANK_NAME, _REPEATED_NAME = 3, 4
_ESCAPED: Final = r'\\(["\\])'


class TableKeyError(ValueError):
    """A text is not a table key: what was ``expected`` at character ``position`` (from 0) and what was ``found``."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        super().__init__(position, expected, found)
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"expected {self.expected} at character {self.position}, found {self.found}"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The keys of many rows. ``pairs``: the columns of each with their values, null where the key is NULL or none.
    ``errors``: what is wrong with a key, by row. ``padded``: keys with blanks around a name or a number."""

    pairs: pa.MapArray
    errors: dict[int, TableKeyError]
    padded: Bools


@dataclass(slots=True)
class _KeyIdentifiers:
    """Keys cut into their identifiers, one after the other. ``counts``: how many each row has, up to its error.
    ``spans``: where name and value begin and end, the value with its quotes. ``error``: 0, or an index of _EXPECTED,
    ``position``: its byte in the data. ``escaped``: values with escapes."""

    data: Bytes
    offsets: Ints
    counts: Ints
    spans: Ints
    escaped: Bools
    error: Ints
    position: Ints
    padded: Bools
    total: int = field(init=False)

    def __init__(self, keys: pa.StringArray) -> None:
        self.data, self.offsets = bytes_of_texts(keys)
        most, rows = int(np.count_nonzero(self.data == ord("="))), len(keys)
        self.counts, self.error, self.position = (np.zeros(rows, np.int64) for _ in range(3))
        self.spans, self.escaped, self.padded = (
            np.empty((4, most), np.int64),
            np.zeros(most, bool),
            np.zeros(rows, bool),
        )
        given = pc.is_valid(keys).to_numpy(zero_copy_only=False)
        names, name_ends, values, value_ends = self.spans
        self.total = int(
            _cut(
                self.data, self.offsets, given, _IS_SPECIAL, _IS_BLANK, names, name_ends, values, value_ends,
                self.escaped, self.counts, self.error, self.position, self.padded,
            )
        )  # fmt: skip

    def written(self) -> list[tuple[str, str]]:
        """All columns with their values as written, with quotes."""
        raw, spans = self.data.tobytes(), self.spans[:, : self.total].T.tolist()
        return [(raw[begin:end].decode(), raw[value:stop].decode()) for begin, end, value, stop in spans]

    def failure(self, row: int, text: str) -> TableKeyError | None:
        """What is wrong with a row, whose text is given."""
        code = int(self.error[row])
        if not code:
            return None
        raw = text.encode()
        at = len(raw[: self.position[row] - self.offsets[row]].decode(errors="replace"))
        found = repr(text[at]) if at < len(text) else "the end"
        if code == _BLANK_NAME:
            found = "blanks alone"
        elif code == _REPEATED_NAME:
            found = f"{text[at : text.index('=', at)]!r} again"
        return TableKeyError(at, _EXPECTED[code], found)


@kernel
def _cut(
    b: Bytes,
    offsets: Ints,
    given: Bools,
    special: Bools,
    blank: Bools,
    names: Ints,
    name_ends: Ints,
    values: Ints,
    value_ends: Ints,
    escaped: Bools,
    counts: Ints,
    errors: Ints,
    positions: Ints,
    padded: Bools,
) -> Any:
    """Cuts each row by the grammar; how many identifiers there are."""
    found = 0
    for row in range(len(counts)):
        first, at, stop = found, offsets[row], offsets[row + 1]
        error, position, more = 0, at, given[row]
        while more:
            equals = at
            while equals < stop and not special[b[equals]]:
                equals += 1
            begin, end = at, equals
            while begin < end and blank[b[begin]]:
                begin += 1
            while end > begin and blank[b[end - 1]]:
                end -= 1
            if equals == at:
                error, position = 1, at
            elif equals == stop or b[equals] != 61:
                error, position = 2, equals
            elif begin == end:
                error, position = 3, at
            elif found - first == _MOST_COLUMNS:
                error, position = 10, at
            for other in range(first, found):
                if error == 0 and name_ends[other] - names[other] == equals - at:
                    same = True
                    for step in range(equals - at):
                        same &= b[names[other] + step] == b[at + step]
                    if same:
                        error, position = 4, at
            if error:
                break
            value = behind = equals + 1
            inner, inner_end, escape = value, value, False
            if value < stop and b[value] == 34:
                behind += 1
                while behind < stop and b[behind] != 34:
                    if b[behind] == 92:
                        escape = True
                        if behind + 1 >= stop or (b[behind + 1] != 34 and b[behind + 1] != 92):
                            error, position = 7, behind + 1
                            break
                        behind += 1
                    behind += 1
                if error:
                    break
                inner, inner_end = value + 1, behind
                behind += 1
                if behind > stop:
                    error, position = 8, stop
                elif behind < stop and b[behind] != 43:
                    error, position = 9, behind
            else:
                while behind < stop and not special[b[behind]]:
                    behind += 1
                inner_end = behind
                if behind == value:
                    error, position = 5, behind
                elif behind < stop and b[behind] != 43:
                    error, position = 6, behind
            if error:
                break
            names[found], name_ends[found], values[found], value_ends[found] = at, equals, value, behind
            escaped[found] = escape
            found += 1
            if begin > at or end < equals or _padded_number(b, inner, inner_end, blank):
                padded[row] = True
            more = behind < stop
            at = behind + 1
        counts[row], errors[row], positions[row] = found - first, error, position
        if error:
            padded[row] = False
    return found


@kernel
def _padded_number(b: Bytes, at: Any, stop: Any, blank: Bools) -> Any:
    """Is this a number with blanks around it?"""
    begin, end = at, stop
    while begin < end and blank[b[begin]]:
        begin += 1
    while end > begin and blank[b[end - 1]]:
        end -= 1
    if begin == at and end == stop:
        return False
    if begin < end and (b[begin] == 43 or b[begin] == 45):
        begin += 1
    digits = 0
    while begin < end and 48 <= b[begin] <= 57:
        begin += 1
        digits += 1
    if digits and begin < end and b[begin] == 46:
        begin += 1
        while begin < end and 48 <= b[begin] <= 57:
            begin += 1
    return digits > 0 and begin == end


def parse_column(keys: pa.StringArray) -> KeyColumn:
    """The columns of each key with their values, quotes and escapes undone."""
    cut = _KeyIdentifiers(keys)
    broken = np.flatnonzero(cut.error)
    spans, escaped = cut.spans[:, : cut.total], cut.escaped[: cut.total]
    errors: dict[int, TableKeyError] = {}
    if len(broken):
        for row, text in zip(broken.tolist(), keys.take(pa.array(broken)).to_pylist(), strict=True):
            error = cut.failure(row, text)
            if error is not None:
                errors[row] = error
        fine = np.repeat(cut.error == 0, cut.counts)
        spans, escaped = spans[:, fine], escaped[fine]
        cut.counts[broken] = 0
    begin, end, value, stop = spans
    quoted = np.zeros(len(value), np.int64)
    if len(value):
        quoted[cut.data[value] == ord('"')] = 1
    names, values = as_text(slices(cut.data, begin, end)), as_text(slices(cut.data, value + quoted, stop - quoted))
    if escaped.any():
        mask = pa.array(escaped)
        values = pc.replace_with_mask(values, mask, pc.replace_substring_regex(values.filter(mask), _ESCAPED, r"\1"))
    null = (cut.error != 0) | pc.is_null(keys).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.append(0, np.cumsum(cut.counts)).astype(np.int32), mask=np.append(null, False))
    return KeyColumn(pa.MapArray.from_arrays(offsets, names, values), errors, cut.padded)


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a key with their values, quotes and escapes undone, in the order written. Raises TableKeyError."""
    found = parse_column(pa.array([text], pa.string()))
    if found.errors:
        raise found.errors[0]
    return tuple(found.pairs[0].as_py())


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The columns of a key with their values as written, with quotes. Raises TableKeyError after what precedes it."""
    cut = _KeyIdentifiers(pa.array([text], pa.string()))
    yield from cut.written()
    error = cut.failure(0, text)
    if error is not None:
        raise error


def padded(text: str) -> bool:
    """Does a key have blanks around a name or a number? False for what is no key."""
    return bool(_KeyIdentifiers(pa.array([text], pa.string())).padded[0])


def escape_value(text: str) -> str:
    """A value as a key has it: in quotes where it has a special character or is empty."""
    if text and not any(character in SPECIAL for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def same_objects(keys: pa.StringArray) -> pa.StringArray:
    """Each key in a form that all its spellings share: names folded, blanks trimmed, only the quotes that are needed,
    columns in the order of their names. A text that is no key keeps its form, but for blanks. Null stays null."""
    coded = keys.dictionary_encode()
    texts = coded.dictionary
    name, value = pc.extract_regex(texts, _PLAIN).flatten()
    plain = pc.binary_join_element_wise(pc.ascii_lower(name), value, "=")
    rest = texts.filter(pc.is_null(plain))
    found = zip(rest.to_pylist(), parse_column(rest).pairs.to_pylist(), strict=True)
    made = [_normal(pairs) or text.strip(BLANKS) for text, pairs in found]
    return pc.replace_with_mask(plain, pc.is_null(plain), pa.array(made, pa.string())).take(coded.indices)


_PLAIN: Final = r"^(?P<name>[A-Za-z_][0-9A-Za-z_]*)=(?P<value>[^\s,;'+\"=\\<>]+)$"
"""A key of one column and a value without quotes, of which only the case of the name may differ."""


def _normal(pairs: list[tuple[str, str]] | None) -> str | None:
    if pairs is None:
        return None
    folded = sorted((name.strip(BLANKS).casefold(), value.strip(BLANKS)) for name, value in pairs)
    return "+".join(f"{name}={escape_value(value)}" for name, value in folded)
