"""An index of places, opened: every record of a capture with where it stands and what it is, on memory maps.

Nothing here needs Spark. A page costs what it shows; a filter goes once over the columns that it names.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.partition_files import holding
from cdcwb.index.build import ABOUT, HEADERS, VERSION, read_arrow
from cdcwb.index.columns import NO_TIME, Codes, Column, Numbers, Texts, Times
from cdcwb.model import Kind

__all__ = ["Index", "open_index"]

Ints = npt.NDArray[np.int64]

_ENDS: Final = (Kind.COMMIT, Kind.ROLLBACK)

_CODED: Final = ("kind", "operation", "type", "schema", "table", "version", "transaction", "problem")
_PLAIN: Final = ("position", "commit_position", *HEADERS)


def open_index(folder: Path, origin: Any) -> Index | None:
    """The index in a folder; None where there is none, or it was made from something else than ``origin``."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(about, dict) or about.get("version") != VERSION or about.get("origin") != origin:
        return None
    return Index(folder, about)


class Index:
    """The records by number, from 0 in capture order.

    * ``columns``: what filters may name
    * ``about``: what it was made from: origin, format, files, parts (Parquet files of events) …
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        self.about = about
        numbers = read_arrow(folder / "numbers.arrow")
        self._numbers = {name: numbers[name].to_numpy() for name in numbers.schema.names}
        self.records = len(numbers)
        self.columns = self._columns()

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """The files of the capture, as ``Capture.files`` has them."""
        found: list[dict[str, Any]] = sorted(self.about["files"], key=lambda entry: int(entry["file_index"]))
        return found

    @property
    def format(self) -> str:
        """The format's name."""
        return str(self.about["format"])

    def number(self, name: str, row: int) -> int:
        """What a column of numbers holds in a row: file_index, offset, length, part, part_row."""
        return int(self._numbers[name][row])

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers: file_index, offset, length, part, part_row."""
        found: npt.NDArray[Any] = self._numbers[name]
        return found

    def texts(self, name: str) -> Codes:
        """A column of few texts."""
        found = self.columns[name]
        if not isinstance(found, Codes):
            raise KeyError(name)
        return found

    def row(self, number: int, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Everything, or some columns, of one record; null is None."""
        return {name: self.columns[name].value(number) for name in names or self.columns}

    def at(self, file_index: int, offset: int) -> int | None:
        """The record that holds the place, or that begins before it; None before the first of the file."""
        first, last = self._range(file_index)
        row = first + int(np.searchsorted(self._numbers["offset"][first:last], offset, side="right")) - 1
        return row if row >= first else None

    def exactly(self, file_index: npt.NDArray[Any], offset: npt.NDArray[Any]) -> Ints:
        """The records that begin at places, -1 where none does."""
        found = np.full(len(offset), -1, np.int64)
        for file in np.unique(file_index):
            first, last = self._range(int(file))
            mine = np.flatnonzero(file_index == file)
            rows = first + np.searchsorted(self._numbers["offset"][first:last], offset[mine])
            there = rows < last
            there[there] = self._numbers["offset"][rows[there]] == offset[mine[there]]
            found[mine[there]] = rows[there]
        return found

    def first(self, name: str, values: Collection[Any]) -> dict[Any, int]:
        """The first record of each value that a column of numbers or of many texts holds; other values are left out."""
        column = self.columns.get(name)
        if not values or not isinstance(column, (Numbers, Texts)):
            return {}
        wanted = list(values)
        held, as_held = (column.values, str) if isinstance(column, Texts) else (pa.array(column.values), int)
        found = pc.index_in(held, value_set=pa.array(map(as_held, wanted), held.type), skip_nulls=True)
        rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        places, at = np.unique(found.take(pa.array(rows)).to_numpy(zero_copy_only=False), return_index=True)
        return {wanted[place]: int(rows[row]) for place, row in zip(places, at, strict=True)}

    def found_again(self, place: tuple[str, int]) -> int | None:
        """The record at a place (:meth:`place`) of this capture, or of an earlier state of it: a followed topic puts
        files of a partition together. None where there is none."""
        path = holding(*place, known=self._file_indices)
        if path not in self._file_indices:
            return None
        row = int(self.exactly(np.array([self._file_indices[path]]), np.array([place[1]]))[0])
        return row if row >= 0 else None

    @cached_property
    def _file_indices(self) -> dict[str, int]:
        return {str(entry["file"]): int(entry["file_index"]) for entry in self.files}

    def _range(self, file_index: int) -> tuple[int, int]:
        files = self._numbers["file_index"]
        return int(np.searchsorted(files, file_index)), int(np.searchsorted(files, file_index, side="right"))

    def file_of(self, row: int) -> dict[str, Any]:
        """The file that holds a record."""
        number = self.number("file_index", row)
        return next(entry for entry in self.files if entry["file_index"] == number)

    def place(self, row: int) -> tuple[str, int]:
        """The file and the offset of a record."""
        return str(self.file_of(row)["file"]), self.number("offset", row)

    @cached_property
    def _ends(self) -> Ints:
        """When each transaction ended, by its code: the time of the last of its records that says so."""
        named, kinds, time = self.texts("transaction"), self.texts("kind"), self.columns["time"]
        found = np.full(len(named.texts), NO_TIME, np.int64)
        assert isinstance(time, Times)
        ends = np.isin(kinds.codes, [code for kind in _ENDS if (code := kinds.code_of(kind)) >= 0])
        rows: Ints = np.flatnonzero(ends & (named.codes >= 0) & (time.values != NO_TIME))
        found[named.codes[rows]] = time.values[rows]
        return found

    def ended(self, row: int) -> dt.datetime | None:
        """When the transaction of a record was committed or rolled back, as far as a record says."""
        code = int(self.texts("transaction").codes[row])
        return None if code < 0 else Times(self._ends).value(code)

    # --- problems and versions ----------------------------------------------------------------------------------------

    @cached_property
    def problem_rows(self) -> Ints:
        """The records that have problems."""
        return np.flatnonzero(self._numbers["problem"] >= 0)

    @cached_property
    def _problems(self) -> pa.RecordBatch:
        return read_arrow(self.folder / "problems.arrow")

    def problems_of(self, row: int) -> list[dict[str, Any]]:
        """The problems of a record: severity, code and sentence."""
        mine = self._problems.filter(pc.equal(self._problems["row"], row))
        found: list[dict[str, Any]] = mine.select(["severity", "code", "sentence"]).to_pylist()
        return found

    @cached_property
    def problem_list(self) -> list[dict[str, Any]]:
        """All problems: severity, code, sentence, transaction_id, table, and ``row``: their record, -1 for none."""
        found: list[dict[str, Any]] = self._problems.to_pylist()
        return found

    @property
    def problems(self) -> int:
        """How many problems the capture has."""
        return len(self._problems)

    @cached_property
    def versions(self) -> dict[str, dict[str, Any]]:
        """The table versions by their names."""
        return {one["table_version"]: one for one in read_arrow(self.folder / "versions.arrow").to_pylist()}

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, Column]:
        numbers = self._numbers
        paths = pa.array([str(entry["file"]) for entry in self.files], pa.large_string())
        columns: dict[str, Column] = {
            "record": _Counted(self.records),
            "file": Codes(numbers["file_index"], paths, _base_names),
            "offset": Numbers(numbers["offset"]),
            "length": Numbers(numbers["length"]),
            "time": Times(numbers["changed_at"]),
            "event_no": Numbers(numbers["event_no"]),
        }
        for name in _CODED:
            others = _bare_names if name == "table" else None
            columns[name] = Codes(numbers[name], self._text(name), others)
        for name in _PLAIN:
            if name in numbers:
                columns[name] = Numbers(numbers[name])
            elif (self.folder / f"text-{name}.arrow").exists():
                columns[name] = Texts(self._text(name))
        return columns

    def _text(self, name: str) -> pa.Array:
        return read_arrow(self.folder / f"text-{name}.arrow")["text"]

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each column."""
        return {name: column.kind for name, column in self.columns.items()}

    @cached_property
    def _units(self) -> list[str]:
        found: list[str] = self._text("unit").to_pylist()
        return found

    def unit_of(self, row: int) -> str:
        """What offset and length of a record count: byte, row or message."""
        code = self.number("unit", row)
        return self._units[code] if code >= 0 else "byte"


class _Counted:
    """The numbers of the records, from 1."""

    kind = "number"

    def __init__(self, records: int) -> None:
        self._records = records

    def value(self, row: int) -> int:
        """The number of a row."""
        return row + 1

    def compare(self, sign: str, value: Any) -> npt.NDArray[np.bool_]:
        """See :class:`cdcwb.index.columns.Column`."""
        if value is None:
            return np.zeros(self._records, np.bool_)
        return Numbers(np.arange(1, self._records + 1)).compare(sign, value)


def _base_names(paths: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(paths, r"^.*[/\\]", "")


def _bare_names(labels: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(labels, r"^[^.]*\.", "")
