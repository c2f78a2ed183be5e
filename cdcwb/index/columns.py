"""The columns of an index of places: arrays on a memory map, and what a comparison finds in them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.index.selection import NO_TABLE
from cdcwb.time_axis import time_of

__all__ = [
    "BETWEEN",
    "NO_TIME",
    "Bools",
    "Codes",
    "Column",
    "Headers",
    "Numbers",
    "Texts",
    "Times",
    "coded",
    "headers_of",
    "mask_of_texts",
    "of_columns",
    "set_labels",
    "table_labels",
]


Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

NO_TIME: Final = np.iinfo(np.int64).min
"""Stands for null in columns of numbers and times."""

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_ORDER: Final = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


class Column(Protocol):
    """A column as filters and pages see it. ``kind`` is text, number or time.

    Null equals null alone; no order and no search finds it.
    """

    kind: str

    def value(self, row: int) -> Any:
        """What stands in a row."""
        ...

    def compare(self, sign: str, value: Any) -> Bools:
        """The rows for which it holds; ``sign`` is ==, <, <=, >, >=, contains or matches, ``value`` of the column's
        kind; None only with ==. Raises ValueError for a pattern that is none."""
        ...


class Numbers:
    """Whole numbers, null as :data:`NO_TIME` (or -1 where nothing is below 0)."""

    kind = "number"

    def __init__(self, values: npt.NDArray[Any], null: int = NO_TIME, shift: int = 0) -> None:
        self.values = values
        self._null = null
        self._shift = shift

    def value(self, row: int) -> int | None:
        """The number, or None."""
        found = int(self.values[row])
        return None if found == self._null else found + self._shift

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        if value is None:
            return np.asarray(self.values == self._null)
        bound = value - self._shift
        if sign == "==":
            return np.asarray(self.values == bound) if bound != self._null else np.zeros(len(self.values), np.bool_)
        found = np.asarray(_ORDER[sign](self.values, bound))
        return found & (self.values != self._null) if sign in ("<", "<=") else found


class Times(Numbers):
    """Times as microseconds since 1970 UTC."""

    kind = "time"

    def value(self, row: int) -> Any:
        """The time in UTC, or None."""
        found = int(self.values[row])
        return None if found == NO_TIME else time_of(found)


class Texts:
    """Texts of which most are different."""

    kind = "text"

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    def value(self, row: int) -> str | None:
        """The text, or None."""
        found: str | None = self.values[row].as_py()
        return found

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        return mask_of_texts(self.values, sign, value)


class Codes:
    """Texts of which there are few: a code for each row, -1 for null. A text may have ``others``, such as a table its
    name without the schema: it equals them too."""

    kind = "text"

    def __init__(
        self, codes: npt.NDArray[Any], texts: pa.Array, others: Callable[[pa.Array], pa.Array] | None = None
    ) -> None:
        self.codes = codes
        self.texts = texts
        self._others = None if others is None else others(texts)

    def value(self, row: int) -> str | None:
        """The text, or None."""
        code = int(self.codes[row])
        found: str | None = None if code < 0 else self.texts[code].as_py()
        return found

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        if value is None:
            return np.asarray(self.codes < 0)
        good = mask_of_texts(self.texts, sign, value)
        if self._others is not None and sign == "==":
            good |= mask_of_texts(self._others, sign, value)
        return self.rows_of(good)

    def has(self, text: str) -> bool:
        """Whether a row may equal the text."""
        texts = [self.texts] if self._others is None else [self.texts, self._others]
        return any(mask_of_texts(one, "==", text).any() for one in texts)

    def code_of(self, text: str) -> int:
        """The code of a text, -1 where there is none."""
        found: int = pc.index(self.texts, pa.scalar(text, self.texts.type)).as_py()
        return found

    def rows_of(self, good: Bools) -> Bools:
        """The rows whose text is among the good ones, given by their codes."""
        chosen = np.flatnonzero(good)
        if len(chosen) == 0:
            return np.zeros(len(self.codes), np.bool_)
        if len(chosen) == 1:
            return np.asarray(self.codes == chosen[0].astype(self.codes.dtype))
        found: Bools = np.append(good, False)[self.codes]  # -1 is the last
        return found


def mask_of_texts(texts: pa.Array, sign: str, value: Any) -> Bools:
    """Which of the texts a comparison holds for; null fits no text."""
    if value is None:
        found = texts.is_null()
    elif sign == "==":
        found = pc.equal(texts, pa.scalar(value, texts.type))
    elif sign == "contains":
        found = pc.match_substring(texts, value)
    elif sign == "matches":
        try:
            found = pc.match_substring_regex(texts, value)  # linear in the length of the text
        except pa.ArrowInvalid:
            raise ValueError("expected a regular expression") from None
    else:
        found = _TEXT_ORDER[sign](texts, pa.scalar(value, texts.type))
    mask: Bools = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


# --- headers ----------------------------------------------------------------------------------------------------------

BETWEEN: Final = "\x1f"
"""What separates the columns of a set that is a text."""


class Headers:
    """Headers of changes, a row each. Times are microseconds since 1970 UTC, :data:`~cdcwb.index.columns.NO_TIME` where
    they are not known; codes are -1 for null.

    * ``codes`` and ``texts``: by operation, outcome, table
    * ``set``: the code of its set of changed columns, -1 where nothing says what changed; ``sets``: the names
    * ``position``: in the log, where it was read

    Where ``width_us`` is not 0, a row is several changes of a bin of so many microseconds (:mod:`cdcwb.index.changes`).
    """

    position: pa.Array | None = None

    def __init__(
        self,
        numbers: Mapping[str, npt.NDArray[Any]],
        texts: Mapping[str, list[str]],
        sets: Sequence[Sequence[str]],
        width_us: int = 0,
    ) -> None:
        self.numbers = numbers
        self.codes = {name: numbers[name] for name in texts}
        self.texts = dict(texts)
        self.sets = sets
        self.width_us = width_us

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    @property
    def everything(self) -> Bools:
        """The mask that selects every row."""
        return np.ones(len(self), np.bool_)

    def number(self, mask: Bools) -> int:
        """How many changes the rows of a mask are."""
        times = self.weights(mask)
        return int(np.count_nonzero(mask)) if times is None else int(times.sum())

    def weights(self, mask: Bools) -> Ints | None:
        """How many changes each of the rows of a mask is; None: one."""
        return None if self.times is None else self.times[mask]

    @property
    def times(self) -> Ints | None:
        """How many changes each row is; None: one."""
        return self.numbers.get("times")

    @property
    def set(self) -> npt.NDArray[np.int32]:
        """The code of its set of changed columns, by row."""
        return self.numbers["set"]

    @cached_property
    def at(self) -> Ints:
        """When each was made, as far as it is known: its own time, else that of its commit."""
        numbers = self.numbers
        if "at" in numbers:
            return numbers["at"]
        return np.where(numbers["changed_at"] == NO_TIME, numbers["committed_at"], numbers["changed_at"])

    @property
    def last_at(self) -> Ints:
        """The last of the times of a row."""
        return self.numbers.get("last_at", self.at)

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns that a change touched, in order."""
        return sorted({name for one in self.sets for name in one})

    @cached_property
    def _members(self) -> pa.ListArray:
        """The names of each set by their numbers, in order."""
        places = {name: place for place, name in enumerate(self.names)}
        return pa.array([sorted({places[name] for name in one}) for one in self.sets], pa.list_(pa.int64()))

    def columns_of(self, codes: Ints, most: int | None = None) -> tuple[Ints, Ints]:
        """The columns of some sets, of each the first ``most`` in the order of their names: which of the ``codes`` each
        column is of, and its number in :attr:`names`."""
        found = pc.list_slice(self._members.take(pa.array(codes)), 0, most)
        return np.asarray(pc.list_parent_indices(found)), np.asarray(pc.list_flatten(found))

    @cached_property
    def timed(self) -> Bools:
        """Which rows have a time, their own or their commit's."""
        return np.asarray(self.at != NO_TIME)


def headers_of(batch: pa.RecordBatch) -> Headers:
    """The headers of a batch of rows of :data:`cdcwb.model.CHANGES`, as far as it has their columns."""
    found = of_columns(coded(batch))
    found.position = batch["position"] if "position" in batch.schema.names else None
    return found


def table_labels(batch: pa.RecordBatch) -> pa.Array:
    """The tables of rows, as :func:`cdcwb.analysis.frames.table_name`."""
    names = (batch["schema_name"], batch["table_name"])
    label = pc.coalesce(pc.binary_join_element_wise(*names, "."), *names, "")
    return pc.if_else(pc.equal(label, ""), NO_TABLE, label)


def set_labels(batch: pa.RecordBatch) -> pa.Array:
    """The changed columns of rows as texts, in which :data:`BETWEEN` separates them."""
    return pc.binary_join(batch["changed_columns"].cast(pa.list_(pa.string())), BETWEEN)


def coded(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The texts of such a batch as dictionaries, its sets of columns as texts, its times as numbers."""
    there = batch.schema.names
    texts = {name: batch[name] for name in ("operation", "outcome") if name in there}
    if "table_name" in there:
        texts["table"] = table_labels(batch)
    if "changed_columns" in there:
        texts["set"] = set_labels(batch)
    columns = {name: one.cast(pa.string()).dictionary_encode() for name, one in texts.items()}
    for name in ("changed_at", "committed_at"):
        times = batch[name].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        columns[name] = pc.fill_null(times, NO_TIME)
    return columns


def of_columns(columns: Mapping[str, pa.Array]) -> Headers:
    """The headers that are coded in these columns, with their other numbers."""
    numbers: dict[str, npt.NDArray[Any]] = {}
    texts: dict[str, list[str]] = {}
    for name, column in columns.items():
        if isinstance(column, pa.DictionaryArray):
            texts[name] = column.dictionary.to_pylist()
            column = pc.fill_null(column.indices, -1)
        numbers[name] = column.to_numpy(zero_copy_only=False)
    sets = [text.split(BETWEEN) if text else [] for text in texts.pop("set", [])]
    return Headers(numbers, texts, sets)
