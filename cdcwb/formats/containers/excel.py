"""Sheets of Excel workbooks (.xlsx) as rows of text without loss.

===================  =================================================================================================
text                 as it is; ``_x000D_`` and its like are the characters that they represent whole number         its
digits, ``1.0`` and ``1E+2`` included other number         the shortest digits that read back truth
``true``, ``false`` date                 ``2024-01-31`` where the cell's format shows no time and it is midnight date
and time        ``2024-01-31T09:08:07``, with milliseconds where there are some: Excel keeps no more time, duration
``09:08:07``, ``26:03:04`` formula              the value that was saved with it error                its name, ``#N/A``
===================  =================================================================================================

A cell without a value is null.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Final, Self

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError, ChangedFileError, OptionError
from cdcwb.formats.files import too_large
from cdcwb.formats.source import inflate_limit, open_file
from cdcwb.words import joined

__all__ = ["ExcelSheet", "SheetBlock", "Workbook"]

Ints = npt.NDArray[np.int64]
Values = list[str | None]

_BLOCK_CELLS: Final = 1 << 17
_LEAST_CELLS: Final = 32  # as which a row counts
_FIRST_ROWS: Final = 4096  # of a sheet in which a value is looked for
_MOST_ROWS: Final = 1 << 20
_INFLATED: Final = 64 << 20, 20  # bytes that a workbook may inflate to: this many, or this many times its size
_MOST_DIGITS: Final = 1e21  # whole numbers from here on keep their exponent
_MAIN: Final = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_STRING, _RUN, _TEXT = f"{_MAIN}si", f"{_MAIN}r", f"{_MAIN}t"
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")


@dataclass(slots=True)
class SheetBlock:
    """Adjacent rows of a sheet: their numbers from 0, as segments. ``rows``: index of the segment and the values, up to
    the last present one. ``blank``: segments of rows without values; consecutive ones are one segment."""

    start: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    rows: list[tuple[int, Values]] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)

    @property
    def offset(self) -> Ints:
        """The number of each segment's first row."""
        return np.array(self.start, dtype=np.int64)

    @property
    def length(self) -> Ints:
        """The number of rows of each segment."""
        return np.array(self.count, dtype=np.int64)

    def add(self, number: int, values: Values) -> None:
        """Adds a row."""
        if not values and self.blank and self.blank[-1] == len(self.start) - 1:
            self.count[-1] += 1
            return
        if values:
            self.rows.append((len(self.start), values))
        else:
            self.blank.append(len(self.start))
        self.start.append(number)
        self.count.append(1)


class Workbook:
    """An open workbook; ``titles`` are those of its sheets. Raises CaptureError for one that cannot be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open_file(path)
        try:
            _check_size(self._file, path)
            self._book = _open(self._file)
            self.titles: tuple[str, ...] = tuple(str(sheet.title) for sheet in self._book.worksheets)
        except CaptureError:
            self._file.close()
            raise
        except Exception as reason:
            self._file.close()
            raise CaptureError(f"the Excel workbook cannot be read: {_first(reason)}", path=path) from reason
        if not self.titles:
            self.close()
            raise CaptureError("the Excel workbook has no sheet with rows", path=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        with suppress(Exception):
            self._book.close()
        self._file.close()

    def sheet(self, title: str) -> ExcelSheet:
        """One of its sheets. Raises CaptureError if it no longer exists."""
        if title not in self.titles:
            raise CaptureError(f"there is no sheet {title!r}, there are {joined(list(self.titles))}", path=self.path)
        return ExcelSheet(self._book[title], title)

    def choose(self, wanted: str | None) -> str:
        """The title of the requested sheet (exactly, else ignoring case), else of the first visible one with a value.
        Raises OptionError for an unknown one."""
        if wanted is not None:
            return _named(wanted, self.titles)
        visible = [str(sheet.title) for sheet in self._book.worksheets if sheet.sheet_state == "visible"]
        filled = (one for one in visible if any(block.rows for block in self.sheet(one).blocks(0, _FIRST_ROWS)))
        return next(filled, (visible or self.titles)[0]) if len(visible) > 1 else (visible or self.titles)[0]


class ExcelSheet:
    """One sheet of a workbook. ``row`` is the number of the next row; ``problem``: the reason why it could not be
    read."""

    def __init__(self, sheet: Any, title: str) -> None:
        self.title = title
        self.row = 0
        self.problem: str | None = None
        self._sheet = sheet

    def blocks(self, start: int, stop: int) -> Iterator[SheetBlock]:
        """The rows from ``start`` to ``stop`` (excluded). Damage ends them; see ``problem``."""
        self.row = start
        rows = self._rows(start, stop)
        while True:
            block = SheetBlock()
            ended = self._fill(block, rows)
            if block.start:
                yield block
            if ended:
                return

    def _fill(self, block: SheetBlock, rows: Iterator[Any]) -> bool:
        """Reads the next rows; returns whether there are no more."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of extensions and styles, which have no values
            room = _BLOCK_CELLS
            while room > 0:
                try:
                    cells = next(rows, None)
                    if cells is None:
                        return True
                    values = _values(cells)
                except ChangedFileError:
                    raise
                except Exception as reason:
                    self.problem = f"sheet {self.title!r} cannot be read from row {self.row + 1} on: {_first(reason)}"
                    return True
                block.add(self.row, values)
                self.row += 1
                room -= _LEAST_CELLS + len(values)
        return False

    def _rows(self, start: int, stop: int) -> Iterator[Any]:
        from openpyxl.cell.read_only import ReadOnlyCell

        if start >= stop:
            return
        self._sheet.reset_dimensions()  # which may be wrong in files of some programs
        self._sheet._get_row = lambda cells, *_: cells  # only cells that exist: a row may have one in column 16,384
        last = min(stop, _MOST_ROWS + 1)
        for number, cells in enumerate(self._sheet.iter_rows(min_row=start + 1, max_row=last), start):
            if number >= _MOST_ROWS:
                raise ValueError(f"a sheet has at most {_MOST_ROWS:,} rows")
            yield [(cell["column"], ReadOnlyCell(self._sheet, **cell)) for cell in cells]


def _named(wanted: str, titles: Sequence[str]) -> str:
    """The sheet with a name, exactly, else ignoring case."""
    if wanted in titles:
        return wanted
    same = [title for title in titles if title.casefold() == wanted.casefold()]
    if same:
        return same[0]
    near = difflib.get_close_matches(wanted, titles, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise OptionError(f"option sheet: there is no sheet {wanted!r}, there are {joined(list(titles))}{hint}")


def _check_size(file: IO[bytes], path: str) -> None:
    """Raises CaptureError for a workbook that inflates to too much: openpyxl keeps much of it in memory. A part may
    lie about its size, but :mod:`zipfile` never reads more of it than it states."""
    with zipfile.ZipFile(file) as archive:
        size = sum(part.file_size for part in archive.infolist())
    limit = inflate_limit(path, *_INFLATED)
    if size > limit:
        raise too_large("the Excel workbook inflates", limit)
    file.seek(0)


def _open(file: IO[bytes]) -> Any:
    """A workbook whose texts are as in the file; openpyxl itself decodes some escapes."""
    from openpyxl.reader.excel import ExcelReader
    from openpyxl.xml.constants import SHARED_STRINGS
    from openpyxl.xml.functions import iterparse

    class TextReader(ExcelReader):  # type: ignore[misc]
        def read_strings(self) -> None:
            part = self.package.find(SHARED_STRINGS)
            if part is None:
                return
            with self.archive.open(part.PartName[1:]) as source:
                for _, node in iterparse(source):
                    if node.tag == _STRING:
                        self.shared_strings.append(_string(node))
                        node.clear()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = TextReader(file, read_only=True, data_only=True, keep_links=False)
        reader.read()
    return reader.wb


def _string(node: Any) -> str:
    """The text of a shared string: its own, or that of its runs, without phonetic text."""
    texts = [one.text for one in node if one.tag == _TEXT]
    return "".join(text for text in texts + [run.findtext(_TEXT) for run in node.iter(_RUN)] if text)


def _first(reason: BaseException) -> str:
    return f"{(str(reason).splitlines() or [''])[0] or type(reason).__name__:.200}"


# --- values -----------------------------------------------------------------------------------------------------------


def _values(cells: Iterable[tuple[int, Any]]) -> Values:
    texts = {column: _text(cell) for column, cell in cells if cell.value is not None}
    values: Values = [None] * max(texts, default=0)
    for column, text in texts.items():
        values[column - 1] = text
    return values


def _text(cell: Any) -> str:
    value = cell.value
    if isinstance(value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value) if "_x" in value else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if abs(value) < _MOST_DIGITS and value.is_integer() else repr(value)
    if isinstance(value, dt.datetime):
        return _is_date(cell, value) or value.isoformat(timespec=_precision(value.microsecond))
    if isinstance(value, dt.time):
        return value.isoformat(timespec=_precision(value.microsecond))
    return _duration(value) if isinstance(value, dt.timedelta) else str(value)


def _is_date(cell: Any, value: dt.datetime) -> str | None:
    """The date alone if the cell shows no time."""
    from openpyxl.styles.numbers import is_datetime

    if value.time() != dt.time() or is_datetime(cell.number_format) != "date":
        return None
    return value.date().isoformat()


def _precision(microseconds: int) -> str:
    return "seconds" if not microseconds else "microseconds" if microseconds % 1000 else "milliseconds"


def _duration(value: dt.timedelta) -> str:
    sign, size = ("-", -value) if value < dt.timedelta() else ("", value)
    minutes, seconds = divmod(size.days * 86_400 + size.seconds, 60)
    fraction = f".{size.microseconds:06d}".removesuffix("000") if size.microseconds else ""
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"
