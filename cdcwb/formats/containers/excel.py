"""Sheets of Excel workbooks (.xlsx) as rows of text without loss.

* text: as it is; ``_x000D_`` and its like are the characters that they represent, half of a surrogate pair
  stays as it is written
* whole number: its digits, ``1.0`` and ``1E+2`` included; other number: the shortest digits that read back
* truth: ``true``, ``false``
* date: ``2024-01-31`` where the cell's format shows no time and it is midnight; date and time:
  ``2024-01-31T09:08:07``, with milliseconds where there are some (Excel keeps no more); time, duration: ``26:03:04``
* formula: the value that was saved with it; error: its name, ``#N/A``

A cell without a value is null.
"""

from __future__ import annotations

import datetime as dt
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Final

from cdcwb.errors import CaptureError, ChangedFileError, OptionError
from cdcwb.formats.containers.tables import first_line
from cdcwb.formats.files import too_large
from cdcwb.formats.options import nearest
from cdcwb.formats.source import inflate_limit, open_file
from cdcwb.words import joined

Values = list[str | None]

_FIRST_ROWS: Final = 4096  # of a sheet in which a value is looked for
_MOST_ROWS: Final = 1 << 20
_INFLATED: Final = 64 << 20, 20  # bytes that a workbook may inflate to: this many, or this many times its size
_MOST_DIGITS: Final = 1e21  # whole numbers from here on keep their exponent
_ESCAPED: Final = re.compile(r"_x(?![dD][89a-fA-F])([0-9A-Fa-f]{4})_")


@contextmanager
def open_workbook(path: str) -> Iterator[Workbook]:
    """A workbook. Raises CaptureError for one that cannot be read."""
    import openpyxl

    warnings.filterwarnings("ignore", module="openpyxl")  # of extensions and styles, which have no values
    with open_file(path) as file:
        try:
            _check_size(file, path)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        except CaptureError:
            raise
        except Exception as reason:
            raise CaptureError(f"the Excel workbook cannot be read: {first_line(reason)}", path=path) from reason
        if not book.worksheets:
            raise CaptureError("the Excel workbook has no sheet with rows", path=path)
        yield Workbook(path, book)


def _check_size(file: IO[bytes], path: str) -> None:
    """Raises CaptureError for a workbook that inflates to too much: openpyxl keeps much of it in memory. A part may
    lie about its size, but :mod:`zipfile` never reads more of it than it states."""
    with zipfile.ZipFile(file) as archive:
        size = sum(part.file_size for part in archive.infolist())
    limit = inflate_limit(path, *_INFLATED)
    if size > limit:
        raise too_large("the Excel workbook inflates", limit)
    file.seek(0)


@dataclass(frozen=True, slots=True)
class Workbook:
    """An open workbook, as openpyxl has it."""

    path: str
    book: Any

    @property
    def titles(self) -> list[str]:
        """The titles of its sheets."""
        return [str(sheet.title) for sheet in self.book.worksheets]

    def choose(self, wanted: str | None) -> str:
        """The title of the requested sheet (exactly, else ignoring case), else of the first visible one with a value.
        Raises OptionError for an unknown one."""
        titles = self.titles
        if wanted is None:
            visible = [str(sheet.title) for sheet in self.book.worksheets if sheet.sheet_state == "visible"] or titles
            filled = (one for one in visible if any(values for _, values in self.rows(one, 0, _FIRST_ROWS)))
            return next(filled, visible[0]) if len(visible) > 1 else visible[0]
        same = [wanted] if wanted in titles else [one for one in titles if one.casefold() == wanted.casefold()]
        if same:
            return same[0]
        raise OptionError(
            f"option sheet: there is no sheet {wanted!r}, there are {joined(titles)}.{nearest(wanted, titles)}"
        )

    def rows(self, title: str, start: int = 0, stop: int = _MOST_ROWS + 1) -> Iterator[tuple[int, Values | str]]:
        """The rows of a sheet from ``start`` to ``stop`` (excluded) with their numbers, from 0, each up to its last
        value; the last one may be a sentence: why no more can be read. Raises CaptureError if the sheet no longer
        exists."""
        from openpyxl.cell.read_only import ReadOnlyCell

        if title not in self.titles:
            raise CaptureError(f"there is no sheet {title!r}, there are {joined(self.titles)}", path=self.path)
        sheet, number = self.book[title], start
        sheet.reset_dimensions()  # which may be wrong in files of some programs
        sheet._get_row = lambda cells, *_: cells  # only cells that exist: a row may have one in column 16,384
        try:
            for cells in islice(sheet.iter_rows(min_row=start + 1, max_row=stop), max(stop - start, 0)):
                if number >= _MOST_ROWS:
                    raise ValueError(f"a sheet has at most {_MOST_ROWS:,} rows")
                values = [ReadOnlyCell(sheet, **one) for one in cells]
                texts = {one.column: _text(one) for one in values if one.value is not None}
                yield number, [texts.get(column) for column in range(1, max(texts, default=0) + 1)]
                number += 1
        except ChangedFileError:
            raise
        except Exception as reason:
            yield number, f"sheet {title!r} cannot be read from row {number + 1} on: {first_line(reason)}"


# --- values -----------------------------------------------------------------------------------------------------------


def _text(cell: Any) -> str:
    value = cell.value
    if isinstance(value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value) if "_x" in value else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if abs(value) < _MOST_DIGITS and value.is_integer() else repr(value)
    if isinstance(value, dt.timedelta):
        return _duration(value)
    if not isinstance(value, dt.datetime | dt.time):
        return str(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        from openpyxl.styles.numbers import is_datetime

        if is_datetime(cell.number_format) == "date":
            return str(value.date())
    part = "seconds" if not value.microsecond else "microseconds" if value.microsecond % 1000 else "milliseconds"
    return str(value.isoformat(timespec=part))


def _duration(value: dt.timedelta) -> str:
    sign, size = ("-", -value) if value < dt.timedelta() else ("", value)
    minutes, seconds = divmod(size.days * 86_400 + size.seconds, 60)
    fraction = f".{size.microseconds:06d}".removesuffix("000") if size.microseconds else ""
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"
