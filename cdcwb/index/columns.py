"""The columns of an index: memory-mapped arrays, and the rows that match a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.filters import NO_TABLE, compared, labels
from cdcwb.formats.arrays import NamesOf
from cdcwb.times import micros, time_of

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

NO_TIME: Final = np.iinfo(np.int64).min
"""Represents null in columns of numbers and times."""


class Column(Protocol):
    """A column for filters and pages. ``kind`` is text, number or time.

    Null equals only null; other comparisons never match it.
    """

    kind: str

    def value(self, row: int) -> Any:
        """The value of a row."""
        ...

    def compare(self, sign: str, value: Any) -> Bools:
        """Whether the comparison holds, for each row; ``sign`` is ==, <, <=, >, >=, contains or matches, ``value`` has
        the column's kind (a time is aware); None only with ==."""
        ...


class Numbers:
    """Integers; null is :data:`NO_TIME`. ``values`` may be a range."""

    kind = "number"

    def __init__(self, values: npt.NDArray[Any] | range) -> None:
        self.values: Any = values

    @cached_property
    def _array(self) -> pa.Array:
        values = np.asarray(self.values)
        return pa.array(values, mask=values == NO_TIME)

    def value(self, row: int) -> Any:
        """The number, or None."""
        number = int(self.values[row])
        return None if number == NO_TIME else number

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        return compared(self._array, sign, value)


class Times(Numbers):
    """Times in microseconds since 1970 UTC."""

    kind = "time"

    def value(self, row: int) -> Any:
        """The time in UTC, or None."""
        number = super().value(row)
        return None if number is None else time_of(number)

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        return super().compare(sign, None if value is None else micros(value))


def stored_columns(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> dict[str, pa.Table]:
    """The tables that the store keeps of columns: ``numbers``, in the smallest type that has room for the next one,
    null as :data:`NO_TIME`, with codes, null as -1; and by name the texts of each column of codes or of texts."""
    numbers, tables = {}, {}
    for name, column in columns.items():
        null = NO_TIME
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.DictionaryArray):
            tables[name] = column.dictionary
            column, null = column.indices, -1
        if pa.types.is_integer(column.type):
            filled = pc.fill_null(column.cast(pa.int64()), null) if column.null_count else column
            numbers[name] = _narrow(filled.to_numpy(zero_copy_only=False))
        else:
            tables[name] = column
    texts = {name: pa.table({"text": column.cast(pa.large_string())}) for name, column in tables.items()}
    return {"numbers": pa.table(numbers), **texts}


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not len(values):
        return values
    kinds = (np.min_scalar_type(min(int(values.min()), -1)), np.min_scalar_type(-max(int(values.max()), 0) - 2))
    return values.astype(np.result_type(*kinds))


class Texts:
    """Texts that are mostly distinct."""

    kind = "text"

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    def value(self, row: int) -> str | None:
        """The text, or None."""
        text: str | None = self.values[row].as_py()
        return text

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        return compared(self.values, sign, value)


class Codes:
    """Texts with few distinct values: a code for each row, -1 for null. ``short``: the names that ``==`` takes for
    a text (:data:`cdcwb.filters.SHORT`)."""

    kind = "text"

    def __init__(self, codes: npt.NDArray[Any], texts: pa.Array, short: NamesOf | None = None) -> None:
        self.codes = codes
        self.texts = texts
        self.short = short

    def value(self, row: int) -> str | None:
        """The text, or None."""
        code = int(self.codes[row])
        text: str | None = None if code < 0 else self.texts[code].as_py()
        return text

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        if value is None:
            return np.asarray(self.codes < 0)
        return self.rows_of(compared(self.texts, sign, value, self.short))

    def has(self, text: str) -> bool:
        """Whether a row may equal the text."""
        return bool(compared(self.texts, "==", text, self.short).any())

    def code_of(self, text: str) -> int:
        """The code of a text, -1 if unknown."""
        code: int = pc.index(self.texts, pa.scalar(text, self.texts.type)).as_py()
        return code

    def rows_of(self, matching: Bools) -> Bools:
        """Whether the code of each row is among ``matching``."""
        chosen = np.flatnonzero(matching)
        if len(chosen) == 0:
            return np.zeros(len(self.codes), np.bool_)
        if len(chosen) == 1:
            return np.asarray(self.codes == chosen[0].astype(self.codes.dtype))
        mask: Bools = np.append(matching, False)[self.codes]  # -1 selects the last
        return mask


# --- headers ----------------------------------------------------------------------------------------------------------

BETWEEN: Final = "\x1f"
"""Separates the columns of a set in a text."""


class Headers:
    """Headers of changes, a row each. Times are microseconds since 1970 UTC, :data:`~cdcwb.index.columns.NO_TIME` if
    unknown; codes are -1 for null.

    * ``codes`` and ``texts``: by operation, outcome, table, mask, source (of the changed columns), type (of the
      record), version (of the table), key (names of its columns), columns (names of those of the image after the
      change), and nulls (``1`` for each of these that is NULL, else ``0``), as far as they were read
    * ``set``: the code of its set of changed columns, -1 if the changed columns are unknown; ``sets``: the names
    * ``position``: in the log, if it was read
    """

    position: pa.Array | None = None
    _batch: pa.RecordBatch

    def __init__(
        self,
        numbers: Mapping[str, npt.NDArray[Any]],
        texts: Mapping[str, list[str]],
        sets: Sequence[Sequence[str]],
    ) -> None:
        self.numbers = self.codes = numbers
        self.texts = dict(texts)
        self.sets = sets

    def column(self, name: str, rows: Ints) -> pa.Array:
        """The values of some rows in a column of the table of changes."""
        return self._batch[name].take(pa.array(rows))

    def in_order(self, mask: Bools) -> Ints:
        """The numbers of the rows of a mask in capture order."""
        rows = np.flatnonzero(mask)
        offset, file = (np.asarray(self.column(name, rows)) for name in ("offset", "file_index"))
        return rows[np.lexsort((offset, file))]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    @property
    def everything(self) -> Bools:
        """The mask that selects every row."""
        return np.ones(len(self), np.bool_)

    @property
    def set(self) -> npt.NDArray[np.int32]:
        """The code of the set of changed columns, for each row."""
        return self.numbers["set"]

    @cached_property
    def at(self) -> Ints:
        """The time of each row: its own, else that of its commit; NO_TIME if both are unknown."""
        numbers = self.numbers
        return np.where(numbers["changed_at"] == NO_TIME, numbers["committed_at"], numbers["changed_at"])

    @cached_property
    def names(self) -> list[str]:
        """The names of all changed columns, in order."""
        return sorted({name for names in self.sets for name in names})

    @cached_property
    def _members(self) -> pa.ListArray:
        """The numbers of the names in each set, in order."""
        places = {name: number for number, name in enumerate(self.names)}
        return pa.array([sorted({places[name] for name in names}) for names in self.sets], pa.list_(pa.int64()))

    def columns_of(self, codes: Ints, most: int | None = None) -> tuple[Ints, Ints]:
        """The columns of some sets, limited to the first ``most`` of each by name: the index in ``codes`` for each
        column, and its number in :attr:`names`."""
        members = pc.list_slice(self._members.take(pa.array(codes)), 0, most)
        return np.asarray(pc.list_parent_indices(members)), np.asarray(pc.list_flatten(members))

    @cached_property
    def timed(self) -> Bools:
        """Whether each row has a time, its own or its commit's."""
        return np.asarray(self.at != NO_TIME)


def headers_of(batch: pa.RecordBatch) -> Headers:
    """The headers of a batch of rows of :data:`cdcwb.model.CHANGES`, as far as it has the columns."""
    headers = of_columns(header_columns(batch))
    headers._batch = batch
    headers.position = batch["position"] if "position" in batch.schema.names else None
    return headers


def table_labels(batch: pa.RecordBatch) -> pa.Array:
    """The tables of rows as :func:`cdcwb.filters.labels` names them, but :data:`NO_TABLE` without a table."""
    return pc.fill_null(labels(batch), NO_TABLE)


TEXTS: Final = {
    "operation": "operation",
    "outcome": "outcome",
    "mask": "change_mask",
    "source": "change_source",
    "type": "record_type",
    "version": "table_version",
}
"""The codes of headers that are the texts of a column of changes, with its name."""


def names_of(text: str) -> list[str]:
    """The names in a text, which are separated by :data:`BETWEEN`."""
    return text.split(BETWEEN) if text else []


def header_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The headers of rows of :data:`cdcwb.model.CHANGES`, as far as the batch has the columns: texts, and times as
    numbers."""
    names = batch.schema.names
    columns = {name: batch[source].cast(pa.string()) for name, source in TEXTS.items() if source in names}
    if "table_name" in names:
        columns["table"] = table_labels(batch)
    if "changed_columns" in names:
        sets = batch["changed_columns"].cast(pa.list_(pa.string()))
        columns["set"] = _joined(sets, sets.values, BETWEEN)
    if "key" in names:
        columns["key"] = _joined(batch["key"], batch["key"].keys, BETWEEN)
    if "after" in names:
        images = batch["after"]
        columns["columns"] = _joined(images, images.keys, BETWEEN)
        columns["nulls"] = _joined(images, pc.if_else(images.items.is_null(), "1", "0"), "")
    for name in {"changed_at", "committed_at"}.intersection(names):
        times = batch[name].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        columns[name] = pc.fill_null(times, NO_TIME)
    return columns


def _joined(lists: pa.ListArray, texts: pa.Array, separator: str) -> pa.Array:
    """The texts of each list or map, which ``texts`` has one after the other, joined; null for no list."""
    if separator and pc.any(pc.match_substring(texts, separator)).as_py():
        texts = pc.replace_substring(texts, separator, " ")
    joined = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, texts), separator)
    return pc.if_else(lists.is_valid(), joined, pa.scalar(None, pa.string()))


def of_columns(columns: Mapping[str, pa.Array]) -> Headers:
    """Headers from columns of texts, which become codes, and of numbers."""
    numbers: dict[str, npt.NDArray[Any]] = {}
    texts: dict[str, list[str]] = {}
    for name, column in columns.items():
        if pa.types.is_string(column.type):
            column = column.dictionary_encode()
        if isinstance(column, pa.DictionaryArray):
            texts[name] = column.dictionary.to_pylist()
            column = pc.fill_null(column.indices, -1)
        numbers[name] = column.to_numpy(zero_copy_only=False)
    sets = [names_of(text) for text in texts.pop("set", [])]
    return Headers(numbers, texts, sets)
