"""One table as it is now: its rows by the columns of a key, and their values as text."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.idm_event_log.decode.values import xml_unfit
from cdcwb.formats.tabular import is_binary, plain, texts_of
from cdcwb.xds.vectors import Bools, Ints, coded, numbers

__all__ = ["TableNow", "effective"]

_META: Final = re.compile("^(?:pk_|fk_|sv_|mv_)(?=.)")


def effective(name: str) -> str:
    """The name of a column without regard to case, and without the meta-identifier that a view may put before it."""
    return _META.sub("", name.lower())


@dataclass(frozen=True, slots=True)
class TableNow:
    """Columns by place. ``texts``: bytes are Base64 there; ``binary`` and ``numeric``: which hold bytes, numbers."""

    name: str
    names: tuple[str, ...]
    texts: tuple[pa.StringArray, ...]
    binary: frozenset[int]
    numeric: frozenset[int]
    _unfit: dict[int, Bools] = field(default_factory=dict, repr=False)
    _numbers: dict[int, pa.StringArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, table: pa.Table) -> TableNow:
        """A table under the name that the event log gives it. Raises CaptureError for column names that repeat."""
        names = tuple(table.column_names)
        if len(set(names)) < len(names) or not all(names):
            found = ", ".join(names)
            raise CaptureError(f"snapshot of table {name!r}: expected columns with a name each, found {found}")
        columns = [plain(column) for column in table.columns]
        kinds = [column.type for column in columns]
        return cls(
            name,
            names,
            tuple(_base64(column) if is_binary(column.type) else texts_of(column) for column in columns),
            frozenset(place for place, kind in enumerate(kinds) if is_binary(kind)),
            frozenset(place for place, kind in enumerate(kinds) if _is_number(kind)),
        )

    def column(self, name: str) -> int | None:
        """The place of a column: by its name as written, else without regard to case, else by its effective name."""
        for spell in (str, str.lower, effective):
            wanted = spell(name)
            for place, there in enumerate(self.names):
                if spell(there) == wanted:
                    return place
        return None

    def rows_of(self, key: Sequence[int], values: Sequence[pa.StringArray]) -> Ints:
        """For each of many keys the number of its row, the first one if there are several; -1: there is none.

        ``key`` are the places of the key's columns, ``values`` the values of each. Numbers are compared as numbers;
        texts as they are, or else without the blanks around them where that finds one row only.
        """
        here = [self._keys(place) for place in key]
        asked = [_as_number(one) if place in self.numeric else one for place, one in zip(key, values, strict=True)]
        found, _ = _matched(here, asked)
        missed = np.flatnonzero(found < 0)
        if len(missed) and any(place not in self.numeric for place in key):
            trimmed = [pc.utf8_trim_whitespace(one.take(pa.array(missed))) for one in asked]
            again, alone = _matched([pc.utf8_trim_whitespace(one) for one in here], trimmed)
            found[missed] = np.where(alone, again, -1)
        return found

    def _keys(self, place: int) -> pa.StringArray:
        if place not in self.numeric:
            return self.texts[place]
        if place not in self._numbers:
            self._numbers[place] = _as_number(self.texts[place])
        return self._numbers[place]

    def unfit(self, place: int) -> Bools:
        """The rows whose value in this column XML 1.0 cannot hold; all where it is the column's name."""
        if place not in self._unfit:
            bad = xml_unfit(self.texts[place])
            self._unfit[place] = bad | bool(xml_unfit(pa.array([self.names[place]]))[0])
        return self._unfit[place]

    def attributes(self, key_names: Sequence[str]) -> list[int]:
        """The places of the columns that are no part of this key."""
        keys = {effective(name) for name in key_names}
        return [place for place, name in enumerate(self.names) if effective(name) not in keys]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _base64(column: pa.Array) -> pa.StringArray:
    written = [None if one is None else binascii.b2a_base64(one, newline=False).decode() for one in column.to_pylist()]
    return pa.array(written, pa.string())


def _as_number(texts: pa.StringArray) -> pa.StringArray:
    """Numbers that are equal as equal texts: ``007``, ``+7``, `` 7`` and ``7.00`` are ``7``."""
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+?(-?)0*(\d)", r"\1\2")
    texts = pc.replace_substring_regex(texts, r"^(-?\d*\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(texts, r"^(-?\d+)\.$", r"\1")


def _matched(here: Sequence[pa.StringArray], asked: Sequence[pa.StringArray]) -> tuple[Ints, Bools]:
    """For each of the asked the first row with all its values (-1: none), and whether it is the only one."""
    count = len(asked[0])
    row_key = np.zeros(len(here[0]), dtype=np.int64)
    asked_key = np.zeros(count, dtype=np.int64)
    for there, wanted in zip(here, asked, strict=True):
        code, texts = coded(there)
        places = numbers(pc.index_in(wanted, value_set=texts), -1)
        row_key = np.where((row_key < 0) | (code < 0), -1, row_key * len(texts) + code)
        asked_key = np.where((asked_key < 0) | (places < 0), -1, asked_key * len(texts) + places)
        # numbers below the count of rows, so that the next product cannot overflow
        known, row_key = np.unique(np.append(row_key, -1), return_inverse=True)
        row_key = row_key[:-1].astype(np.int64) - 1
        asked_key = _within(known, asked_key) - 1
    keys, first, times = np.unique(row_key, return_index=True, return_counts=True)
    if len(keys) == 0:
        return np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys, asked_key), len(keys) - 1)
    there_is = (asked_key >= 0) & (keys[at] == asked_key)
    return np.where(there_is, first[at], -1), there_is & (times[at] == 1)


def _within(known: Ints, values: Ints) -> Ints:
    """The place of each value among the known ones, which are sorted and begin with -1; 0 where it is not there."""
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found: Ints = np.where(known[at] == values, at, 0)
    return found
