"""The index of records: the location, the type and the header fields of every record of a capture, memory-mapped.

This module needs no Spark. A page reads only the rows that it shows; a filter reads only its columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.filters import SHORT, labels
from cdcwb.formats.dissector import CHANGES
from cdcwb.index.columns import NO_TIME, Bools, Codes, Column, Ints, Numbers, Texts, Times, stored_columns
from cdcwb.index.store import Entry, Store
from cdcwb.model import EVENTS, PROBLEMS, Kind
from cdcwb.stored import read_rows

_RECORDS: Final = "records"

HEADERS: Final = ("csn", "record_id")
"""Header fields of sources that become columns if they occur."""

PROBLEM_ROWS: Final = pa.schema([("row", pa.int64()), *(field.remove_metadata() for field in PROBLEMS)])
"""The problems, and the record of each; ``row`` is -1 for a problem without a record."""

_CODES_OF: Final = {
    "kind": "kind",
    "operation": "operation",
    "type": "record_type",
    "schema": "schema_name",
    "table": "table",
    "version": "table_version",
    "transaction": "transaction_id",
    "unit": "offset_unit",
}
_PLAIN: Final = ("position", "commit_position", *HEADERS)
_OF_EVENTS: Final = ("file_index", "offset", "length", "event_no", "changed_at")
_NUMBERS: Final = (*_OF_EVENTS, "part", "part_row")
READ: Final = (*_OF_EVENTS, *(name for name in _CODES_OF.values() if name != "table"), "table_name", *_PLAIN[:2])
"""The columns of events that are indexed, besides :data:`HEADERS`."""

RECORDS: Final = pa.schema(
    [
        *(EVENTS.field(name).remove_metadata() for name in _OF_EVENTS[:4]),
        *((name, pa.int64()) for name in ("changed_at", "part", "part_row")),
        *((name, pa.string()) for name in (*_CODES_OF.values(), *_PLAIN)),
    ]
)
"""What the index has of records; ``part`` and ``part_row``: the number of a Parquet file with complete events, and of
the row there."""

_SEARCHED: Final = pa.large_string()


def records_of(parts: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """The rows of :data:`RECORDS` of Parquet files with events."""
    schema = pa.schema([EVENTS.field(name) for name in (*READ, "headers")])
    for number, path in enumerate(parts):
        row = 0
        for batch in read_rows(path, schema):
            yield described_record(batch, number, row)
            row += len(batch)


def described_record(batch: pa.RecordBatch, part: int = 0, row: int = 0) -> pa.RecordBatch:
    """The rows of :data:`RECORDS` of events with the columns of :data:`READ`."""
    columns = {name: batch[name] for name in batch.schema.names}
    columns |= {name: pc.map_lookup(batch["headers"], name, "first") for name in HEADERS}
    columns |= {"table": labels(batch), "part": pa.repeat(part, len(batch))}
    columns["part_row"] = pa.array(np.arange(row, row + len(batch)))
    return pa.RecordBatch.from_pydict(columns, RECORDS)


def build_index(
    store: Store, batches: Iterable[pa.RecordBatch], about: Mapping[str, Any], problems: pa.Table, versions: pa.Table
) -> RecordIndex:
    """Writes the index of records (rows of :data:`RECORDS`, in any order). ``about`` has at least ``format`` and
    ``files``; ``problems`` are rows of :data:`cdcwb.model.PROBLEMS`. Raises CaptureError for rows that contradict each
    other."""
    events = _encoded(batches)
    _check(events, about["files"])
    file, offset = events["file_index"].to_numpy(), events["offset"].to_numpy()
    later = (file[1:] > file[:-1]) | ((file[1:] == file[:-1]) & (offset[1:] >= offset[:-1]))
    events = events if later.all() else events.take(np.lexsort((offset, file)))
    placed, codes = _placed(problems, events["file_index"].to_numpy(), events["offset"].to_numpy(), about["files"])
    columns = {name: events[name] for name in _NUMBERS} | {name: events[of] for name, of in _CODES_OF.items()}
    columns |= {"problem": codes}
    columns |= {name: events[name] for name in _PLAIN if events[name].null_count < len(events)}
    columns |= {name: _as_numbers(columns[name]) for name in HEADERS if name in columns}
    tables = {**stored_columns(columns), "problems": placed, "versions": versions}
    return RecordIndex(store.write(_RECORDS, tables, about), store)


class NoRecordsError(CaptureError):
    """A capture has no records, so there is no index of it."""


def _encoded(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    tables = []
    for batch in batches:
        columns = {name: batch[name] for name in _NUMBERS}
        columns |= {name: batch[name].dictionary_encode() for name in _CODES_OF.values()}
        tables.append(pa.table(columns | {name: batch[name].cast(_SEARCHED) for name in _PLAIN}))
    if not tables:
        raise NoRecordsError("there are no records to explore")
    return pa.concat_tables(tables).unify_dictionaries()


def _check(events: pa.Table, files: Sequence[Mapping[str, Any]]) -> None:
    """Raises CaptureError for records without a location, or in a file that the capture does not have."""
    known = pa.array([entry["file_index"] for entry in files], pa.int32())
    for name in ("file_index", "offset", "length"):
        least = pc.min(events[name]).as_py()
        if events[name].null_count or (least is not None and least < 0):
            raise CaptureError(f"a record has no valid {name}")
    if pc.all(pc.is_in(events["file_index"], known)).as_py() is False:
        raise CaptureError("a record is in a file that the capture does not have")


def _as_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as numbers, if all are integers with the same format."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts
    is_same = pc.all(pc.fill_null(pc.equal(numbers.cast(_SEARCHED), texts), True)).as_py()
    return numbers if is_same else texts


def _placed(
    problems: pa.Table, file: npt.NDArray[Any], offset: npt.NDArray[Any], files: Sequence[Mapping[str, Any]]
) -> tuple[pa.Table, pa.ChunkedArray]:
    """The problems with the record at their location; for each record the codes of its problems, as text."""
    index = {str(entry["file"]): int(entry["file_index"]) for entry in files}
    starts = np.searchsorted(file, np.arange(int(file[-1]) + 2))
    rows = []
    of_problem = PROBLEM_ROWS.names[1:]
    for problem in problems.select(of_problem).to_pylist():
        row = -1
        number = index.get(problem["file"]) if problem["file"] is not None and problem["offset"] is not None else None
        if number is not None and number + 1 < len(starts):
            first, last = int(starts[number]), int(starts[number + 1])
            row = first + int(np.searchsorted(offset[first:last], problem["offset"], side="right")) - 1
            row = row if row >= first else -1
        rows.append({"row": row, **{name: problem[name] for name in of_problem}})
    of_row: dict[int, dict[str, None]] = {}
    for row_of_problem in rows:
        if row_of_problem["row"] >= 0:
            of_row.setdefault(row_of_problem["row"], {})[row_of_problem["code"]] = None
    texts: dict[str, int] = {}
    codes = np.full(len(offset), -1, np.int32)
    for row, names in of_row.items():
        codes[row] = texts.setdefault(", ".join(names), len(texts))
    indices = pa.array(codes, mask=codes < 0)
    coded = pa.DictionaryArray.from_arrays(indices, pa.array(list(texts), pa.string()))
    return pa.Table.from_pylist(rows, PROBLEM_ROWS), pa.chunked_array([coded])


# --- records ----------------------------------------------------------------------------------------------------------

_ENDS: Final = (Kind.COMMIT, Kind.ROLLBACK)

_CODED: Final = ("kind", "operation", "type", "schema", "table", "version", "transaction", "problem")


def open_index(store: Store) -> RecordIndex | None:
    """The index in a store; None if it is missing."""
    entry = store.read(_RECORDS)
    return None if entry is None else RecordIndex(entry, store)


class RecordIndex:
    """The records by number, from 0 in capture order.

    * ``columns``: the columns of filters
    * ``about``: the facts of the capture that :func:`build_index` received: format, files …
    * ``store``: the store of the index, for what is derived from it
    """

    def __init__(self, entry: Entry, store: Store) -> None:
        self.about = entry.facts
        self.store = store
        self._tables = entry.tables
        numbers = entry.tables["numbers"]
        self._numbers = {name: numbers[name].to_numpy() for name in numbers.schema.names}
        self.records = len(numbers)
        self.columns = self._columns()

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """The files of the capture, as in ``Capture.files``."""
        entries: list[dict[str, Any]] = sorted(self.about["files"], key=lambda entry: int(entry["file_index"]))
        return entries

    @property
    def format(self) -> str:
        """The format's name."""
        return str(self.about["format"])

    def number(self, name: str, row: int) -> int:
        """The value of a numeric column in a row: file_index, offset, length, part, part_row."""
        return int(self._numbers[name][row])

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A numeric column: file_index, offset, length, part, part_row."""
        values: npt.NDArray[Any] = self._numbers[name]
        return values

    def texts(self, name: str) -> Codes:
        """A column of texts with few distinct values."""
        column = self.columns[name]
        if not isinstance(column, Codes):
            raise KeyError(name)
        return column

    def row(self, number: int, names: Sequence[str] | None = None) -> dict[str, Any]:
        """All or some columns of one record; null is None."""
        return {name: self.columns[name].value(number) for name in names or self.columns}

    def at(self, file_index: int, offset: int) -> int | None:
        """The record that contains the offset, or the last one that begins before it; None before the first of the
        file."""
        first, last = self._range(file_index)
        row = first + int(np.searchsorted(self._numbers["offset"][first:last], offset, side="right")) - 1
        return row if row >= first else None

    def exactly(self, file_index: npt.NDArray[Any], offset: npt.NDArray[Any]) -> Ints:
        """The records that begin at the offsets, -1 if none does."""
        rows_found = np.full(len(offset), -1, np.int64)
        for file in np.unique(file_index):
            first, last = self._range(int(file))
            of_file = np.flatnonzero(file_index == file)
            rows = first + np.searchsorted(self._numbers["offset"][first:last], offset[of_file])
            exact = rows < last
            exact[exact] = self._numbers["offset"][rows[exact]] == offset[of_file[exact]]
            rows_found[of_file[exact]] = rows[exact]
        return rows_found

    def in_turn(self, file_index: npt.NDArray[Any], offset: npt.NDArray[Any]) -> Ints:
        """As :meth:`exactly`, for all changes of some messages in their order: those of a message with several rows,
        which have one location, each have its own record. The first changes of the first message may be missing."""
        rows, firsts = self.exactly(file_index, offset), self._firsts
        if len(firsts) == self.records or not len(rows):
            return rows
        changes = self._change_rows
        starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        sizes = np.diff(np.append(starts, len(rows)))
        ends = np.append(firsts, self.records)[np.searchsorted(firsts, rows[starts], side="right")]
        first, end = np.searchsorted(changes, rows[starts]), np.searchsorted(changes, ends)
        turn = np.arange(len(rows)) - np.repeat(starts, sizes)
        turn[: sizes[0]] += max(int(end[0] - first[0] - sizes[0]), 0)
        own = np.repeat(first, sizes) + np.minimum(turn, np.repeat(end - first, sizes) - 1)
        return np.where(np.repeat((rows[starts] >= 0) & (first < end), sizes), changes[own], rows)

    @cached_property
    def _firsts(self) -> Ints:
        """The first record at each location."""
        later = np.diff(self._numbers["offset"]) != 0
        later |= np.diff(self._numbers["file_index"]) != 0
        return np.flatnonzero(np.append(True, later))

    @cached_property
    def _change_rows(self) -> Ints:
        return np.flatnonzero(self.are_changes)

    @cached_property
    def are_changes(self) -> Bools:
        """Whether each record is one of a change."""
        kinds = self.texts("kind")
        return kinds.rows_of(np.isin(kinds.texts.to_pylist(), CHANGES))

    def first_at(self, row: int) -> int:
        """The first record at the location of a record; a message may have several rows."""
        one = slice(row, row + 1)
        return int(self.exactly(self._numbers["file_index"][one], self._numbers["offset"][one])[0])

    def first(self, name: str, values: Collection[Any]) -> dict[Any, int]:
        """The first record with each value of a column of numbers or of distinct texts; missing values are left out."""
        column = self.columns.get(name)
        if not values or not isinstance(column, (Numbers, Texts)):
            return {}
        wanted = list(values)
        held, as_held = (column.values, str) if isinstance(column, Texts) else (pa.array(column.values), int)
        matches = pc.index_in(held, value_set=pa.array(map(as_held, wanted), held.type), skip_nulls=True)
        rows = np.flatnonzero(matches.is_valid().to_numpy(zero_copy_only=False))
        places, at = np.unique(matches.take(pa.array(rows)).to_numpy(zero_copy_only=False), return_index=True)
        return {wanted[number]: int(rows[row]) for number, row in zip(places, at, strict=True)}

    def found_again(self, location: tuple[str, int]) -> int | None:
        """The record at a location (:meth:`place`) of this capture; None if there is none."""
        path = location[0]
        if path not in self._file_indices:
            return None
        row = int(self.exactly(np.array([self._file_indices[path]]), np.array([location[1]]))[0])
        return row if row >= 0 else None

    @cached_property
    def _file_indices(self) -> dict[str, int]:
        return {str(entry["file"]): int(entry["file_index"]) for entry in self.files}

    def _range(self, file_index: int) -> tuple[int, int]:
        files = self._numbers["file_index"]
        return int(np.searchsorted(files, file_index)), int(np.searchsorted(files, file_index, side="right"))

    def file_of(self, row: int) -> dict[str, Any]:
        """The file of a record."""
        number = self.number("file_index", row)
        return next(entry for entry in self.files if entry["file_index"] == number)

    def place(self, row: int) -> tuple[str, int]:
        """The file and the offset of a record."""
        return str(self.file_of(row)["file"]), self.number("offset", row)

    @cached_property
    def _ends(self) -> Ints:
        """The end of each transaction by its code: the last time of an end record."""
        named, kinds, time = self.texts("transaction"), self.texts("kind"), self.columns["time"]
        times = np.full(len(named.texts), NO_TIME, np.int64)
        assert isinstance(time, Times)
        ends = np.isin(kinds.codes, [code for kind in _ENDS if (code := kinds.code_of(kind)) >= 0])
        rows: Ints = np.flatnonzero(ends & (named.codes >= 0) & (time.values != NO_TIME))
        times[named.codes[rows]] = time.values[rows]
        return times

    def ended(self, row: int) -> dt.datetime | None:
        """The time of commit or rollback of a record's transaction, according to its records; None if unknown."""
        code = int(self.texts("transaction").codes[row])
        return None if code < 0 else Times(self._ends).value(code)

    # --- problems and versions ----------------------------------------------------------------------------------------

    @cached_property
    def problem_rows(self) -> Ints:
        """The records that have problems."""
        return np.flatnonzero(self._numbers["problem"] >= 0)

    @property
    def _problems(self) -> pa.RecordBatch:
        return self._tables["problems"]

    def problems_of(self, row: int) -> list[dict[str, Any]]:
        """The problems of a record: severity, code and sentence."""
        of_row = self._problems.filter(pc.equal(self._problems["row"], row))
        problems: list[dict[str, Any]] = of_row.select(["severity", "code", "sentence"]).to_pylist()
        return problems

    @cached_property
    def problem_list(self) -> list[dict[str, Any]]:
        """All problems (:data:`PROBLEM_ROWS`)."""
        problems: list[dict[str, Any]] = self._problems.to_pylist()
        return problems

    @property
    def problems(self) -> int:
        """The number of problems."""
        return len(self._problems)

    @cached_property
    def versions(self) -> dict[str, dict[str, Any]]:
        """The table versions by name."""
        return {version["table_version"]: version for version in self._tables["versions"].to_pylist()}

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, Column]:
        numbers = self._numbers
        paths = pa.array([str(entry["file"]) for entry in self.files], pa.large_string())
        columns: dict[str, Column] = {
            "record": Numbers(range(1, self.records + 1)),
            "file": Codes(numbers["file_index"], paths, SHORT["file"]),
            "offset": Numbers(numbers["offset"]),
            "length": Numbers(numbers["length"]),
            "time": Times(numbers["changed_at"]),
            "event_no": Numbers(numbers["event_no"]),
        }
        for name in _CODED:
            columns[name] = Codes(numbers[name], self._text(name), SHORT.get(name))
        for name in _PLAIN:
            if name in numbers:
                columns[name] = Numbers(numbers[name])
            elif name in self._tables:
                columns[name] = Texts(self._text(name))
        return columns

    def _text(self, name: str) -> pa.Array:
        return self._tables[name]["text"]

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each column."""
        return {name: column.kind for name, column in self.columns.items()}

    def unit_of(self, row: int) -> str:
        """The unit of offset and length of a record: byte, row or message."""
        code = self.number("unit", row)
        return str(self._text("unit")[code]) if code >= 0 else "byte"
