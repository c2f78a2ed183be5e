"""Reads the rows of a file: delimited text, JSON, Parquet or Excel. All readers return :class:`RowSegments`: adjacent
segments of a file, with rows and gaps. What reads SQL, JSON or workbooks is imported when a file is one.

The values of a sheet are texts without loss; a cell without a value is null.

* text: as it is; ``_x000D_`` and its like are the characters that they represent, half of a surrogate pair
  stays as it is written
* whole number: its digits, ``1.0`` and ``1E+2`` included; other number: the shortest digits that read back
* truth: ``true``, ``false``
* date: ``2024-01-31`` where the cell's format shows no time and it is midnight; date and time:
  ``2024-01-31T09:08:07``, with milliseconds where there are some (Excel keeps no more); time, duration: ``26:03:04``
* formula: the value that was saved with it; error: its name, ``#N/A``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.delimited import CHUNK, DEFAULT, likely_start, records
from cdcwb.formats.containers.messages import FILLER, LONGEST, MESSAGE, NOT_MESSAGES, TRUNCATED
from cdcwb.formats.containers.rows import (
    CSV,
    EXCEL,
    FILE_END,
    JSON,
    PARQUET,
    SQL,
    Cell,
    ColumnRows,
    DelimitedRows,
    FileProbe,
    RowSegments,
    UnparsedSegment,
    clean,
    cut_fields,
    cut_json,
    json_column,
    rows_of_batch,
)  # fmt: skip
from cdcwb.formats.files import open_source
from cdcwb.formats.json_values import CutOff, parse_json
from cdcwb.formats.source import Source, open_file
from cdcwb.model import OffsetUnit, Problem

if TYPE_CHECKING:
    from cdcwb.formats.containers.message_files import Container


import datetime as dt
import re
import warnings
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from cdcwb.errors import ChangedFileError, OptionError
from cdcwb.formats.files import too_large
from cdcwb.formats.options import nearest
from cdcwb.formats.source import inflate_limit
from cdcwb.words import joined

_NEAR: Final = 8 << 20  # bytes before a row that are framed to find it

_JSON_BATCH: Final = 8192
_PARQUET_BATCH: Final = 8192
_SHEET_CELLS: Final = 1 << 17  # of a part
_LEAST_CELLS: Final = 32  # as which a row of a sheet counts
_VALUES: Final = 1 << 20  # of a batch of Parquet rows


def read_parts(
    file: FileProbe, start: int = 0, stop: int = FILE_END, upper: frozenset[int] = frozenset()
) -> Iterator[RowSegments]:
    """The segments of a file that begin in ``[start, stop)``, in order, without gap or overlap.

    The unit is bytes of the decompressed file (``start`` must be 0 or the start of a segment), rows of an Excel sheet,
    or row groups of a Parquet file. Columns have their names in the file, or ``column_1`` and so on; ``upper``: see
    :class:`ColumnRows`.
    """
    if file.kind == JSON:
        return json_parts(file, start, stop)
    if file.kind == PARQUET:
        return _parquet_parts(file, start, stop, upper)
    if file.kind == EXCEL:
        return _excel_parts(file, start, stop)
    return _bytes_parts(file, start, stop)


def numbered_parts(parts: Iterator[RowSegments], before: int = 0) -> Iterator[RowSegments]:
    """Parts with the number of rows that precede each of them; ``before``: those that precede the first."""
    for part in parts:
        part.before = before
        before += part.damaged + sum(len(indices) for indices, _ in part.rows)
        yield part


def _bytes_parts(file: FileProbe, start: int, stop: int) -> Iterator[RowSegments]:
    with open_source(file.path, "binary", size=file.size) as source:
        if file.kind == CSV:
            yield from csv_parts(source, file, start, stop)
        elif file.kind == SQL:
            from cdcwb.formats.containers.sql import sql_parts

            yield from sql_parts(source, file, stop)
        elif source.length and start == 0:
            reason = file.problem or "a file that cannot be read"
            raw = source.read(0, LONGEST).tobytes()
            yield _lone(0, source.length, OffsetUnit.BYTE, Problem.MALFORMED, reason, raw)


def _lone(
    offset: int, length: int, unit: OffsetUnit, code: Problem | None, reason: str, raw: bytes | None
) -> RowSegments:
    """A part of one segment that is not a row."""
    begin, size = np.array([offset], np.int64), np.array([length], np.int64)
    return RowSegments(begin, size, unit, gaps=[UnparsedSegment(0, code, reason, raw)])


# --- delimited text ---------------------------------------------------------------------------------------------------


def csv_parts(source: Source, file: FileProbe, start: int, stop: int, room: int = CHUNK) -> Iterator[RowSegments]:
    """The segments of an open delimited file, at most ``room`` in a part."""
    dialect = file.dialect or DEFAULT
    if start == 0 and file.first:
        reason = "header line" if file.header else "byte order mark"
        raw = source.read(0, file.first).tobytes()
        yield _lone(0, file.first, OffsetUnit.BYTE, None, reason, raw)
    for found in records(source, max(start, file.first), stop, dialect, file.width, room):
        part = RowSegments(found.base + found.start, found.end - found.start, OffsetUnit.BYTE)
        if len(found.good):
            part.rows.append((found.good, DelimitedRows.of(found, file.columns, dialect, file.charset)))
        for index, reason in sorted(found.reasons.items()):
            raw = found.buffer[found.start[index] : found.end[index]].tobytes()
            part.gaps.append(UnparsedSegment(index, NOT_MESSAGES[int(found.state[index])][1], reason, raw))
        yield part


# --- JSON -------------------------------------------------------------------------------------------------------------


def _container_of(file: FileProbe) -> Container:
    """A file of JSON, read as messages: one document per row."""
    from cdcwb.formats.containers.message_files import Container

    return Container(file.path, str(file.settings["kind"]), "byte", file.size, compression=file.compression)


def json_parts(file: FileProbe, start: int, stop: int, room: int = _JSON_BATCH) -> Iterator[RowSegments]:
    """The segments of a file of JSON objects, at most ``room`` in a part."""
    from cdcwb.formats.containers.message_files import read

    codes = {FILLER: None, TRUNCATED: Problem.TRUNCATED}  # all else that is not a row is malformed
    for messages in read(_container_of(file), start, stop, room):
        part = RowSegments(messages.offset, messages.length, OffsetUnit.BYTE)
        groups: dict[tuple[str, ...], tuple[list[int], list[dict[str, Any]]]] = {}
        states, sources = messages.state.tolist(), messages.source
        for index, value in enumerate(messages.value.to_pylist()):
            code, reason = codes.get(states[index], Problem.MALFORMED), messages.reasons.get(index, "")
            if states[index] == MESSAGE:
                try:
                    row = parse_json(value or b"null")
                    if isinstance(row, dict):
                        names = tuple(row)
                        indices, found = groups.setdefault(names, ([], []))
                        indices.append(index)
                        found.append(row)
                        continue
                    reason = f"expected a JSON object, found {type(row).__name__}"
                except CutOff as error:
                    code, reason = Problem.TRUNCATED, str(error)
                except ValueError as error:
                    reason = str(error)
            part.gaps.append(UnparsedSegment(index, code, reason, sources[index].as_py()))
        for names, (indices, found) in groups.items():
            chosen = np.array(indices, dtype=np.int64)
            columns = [json_column([row[name] for row in found]) for name in names]
            source = sources.take(pa.array(chosen))
            rows = ColumnRows(tuple(clean(names)), messages.offset[chosen], messages.length[chosen], columns, source)
            part.rows.append((chosen, rows))
        yield part


# --- Parquet ----------------------------------------------------------------------------------------------------------


def first_line(error: Exception) -> str:
    """The first line of an error of a library's."""
    return f"{(str(error).splitlines() or [''])[0] or type(error).__name__:.200}"


def open_parquet(content: Any, path: str | None = None) -> pq.ParquetFile:
    """A Parquet file. Raises CaptureError for a damaged one."""
    try:
        return pq.ParquetFile(content)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CaptureError(f"the Parquet file cannot be read: {first_line(error)}", path=path) from error


def row_groups(file: pq.ParquetFile) -> list[tuple[int, int]]:
    """Rows and packed bytes of each row group."""
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return [
        (group.num_rows, sum(group.column(at).total_compressed_size for at in range(group.num_columns)))
        for group in groups
    ]


def group_starts(groups: Sequence[tuple[int, int]], size: int) -> list[int]:
    """The row groups with which parts of about ``size`` packed bytes begin."""
    starts: list[int] = []
    room = 0
    for at, (_, packed) in enumerate(groups):
        if room <= 0:
            starts.append(at)
            room = size
        room -= packed
    return starts


def _parquet_parts(file: FileProbe, start: int, stop: int, upper: frozenset[int]) -> Iterator[RowSegments]:
    parquet = open_parquet(open_file(file.path), file.path)
    row = sum(rows for rows, _ in file.groups[:start])
    size = max(64, min(_PARQUET_BATCH, _VALUES // max(file.width, 1)))
    for group in range(start, min(stop, len(file.groups))):
        behind = row + file.groups[group][0]
        try:
            for batch in parquet.iter_batches(size, row_groups=[group], use_threads=False):
                yield rows_of_batch(batch, np.arange(row, row + len(batch)), file.columns, upper)
                row += len(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"row group {group} cannot be read from row {row} on: {first_line(error)}"
            yield _lone(row, behind - row, OffsetUnit.ROW, Problem.MALFORMED, reason, None)
            row = behind


# --- Excel ------------------------------------------------------------------------------------------------------------


def _excel_parts(file: FileProbe, start: int, stop: int) -> Iterator[RowSegments]:
    """The rows of a sheet; those without values are filler, and so are all that precede the first record."""
    if start == 0 and file.first:
        reason = "header line" if file.header else "rows without values"
        yield _lone(0, file.first, OffsetUnit.ROW, None, reason, None)
    with open_workbook(file.path) as book:
        rows = book.rows(str(file.settings["sheet"]), max(start, file.first), stop)
        count = max(1, _SHEET_CELLS // (_LEAST_CELLS + file.width))
        while len((part := _sheet_part(islice(rows, count), file)).offset):
            yield part


def _sheet_part(some: Iterable[tuple[int, Any]], file: FileProbe) -> RowSegments:
    """Rows of a sheet as a part; consecutive ones without values are one segment."""
    offset, found, gaps = list[int](), dict[int, list[str | None]](), list[UnparsedSegment]()
    number = -1
    for number, values in some:
        at, code, reason = len(offset), Problem.MALFORMED, f"expected {file.width} cells, found {len(values)}"
        if values and not isinstance(values, str) and len(values) <= file.width:
            found[at] = values + [None] * (file.width - len(values))
        elif values:
            gaps.append(UnparsedSegment(at, code, values if isinstance(values, str) else reason, None))
        elif gaps and gaps[-1].index == at - 1 and gaps[-1].code is None:
            continue
        else:
            gaps.append(UnparsedSegment(at, None, "rows without values", None))
        offset.append(number)
    length = np.diff(offset, append=number + 1).astype(np.int64)
    part = RowSegments(np.array(offset, np.int64), length, OffsetUnit.ROW, gaps=gaps)
    if found:
        index = np.array(list(found), np.int64)
        columns = [pa.array(column, pa.string()) for column in zip(*found.values(), strict=True)]
        part.rows.append((index, ColumnRows(file.columns, part.offset[index], part.length[index], columns)))
    return part


# --- one part ---------------------------------------------------------------------------------------------------------


def find_part(
    file: FileProbe, offset: int, upper: frozenset[int] = frozenset(), counted: bool = False
) -> tuple[RowSegments, int]:
    """The part that holds an offset, a byte of the decompressed file or the number of a row, and the index of its
    segment; ``counted``: with the number of rows that precede it. Raises CaptureError where the file ends before."""
    in_bytes = file.kind in (CSV, SQL) or file.settings.get("kind") == "lines"
    if counted:
        parts = numbered_parts(read_parts(file, 0, offset + 1 if in_bytes else FILE_END, upper))
    elif file.kind == JSON:
        parts = _document(file, offset)
    else:
        start = 0
        if file.kind == CSV and offset > 2 * _NEAR:
            with open_source(file.path, "binary", size=file.size) as source:
                start = likely_start(source, offset - _NEAR, file.dialect or DEFAULT, file.width)
            start = start if start <= offset else 0
        parts = read_parts(file, start, offset + 1 if in_bytes else FILE_END, upper)
    for part in parts:
        behind = part.offset + part.length
        if len(behind) and int(behind[-1]) > offset:
            return part, int(np.searchsorted(behind, offset, side="right"))
    raise CaptureError("the file became shorter while it was read", path=file.path, offset=offset)


def _document(file: FileProbe, offset: int) -> Iterator[RowSegments]:
    from cdcwb.formats.containers.message_files import locate

    found = locate(_container_of(file), offset)
    start = int(found.offset[0])
    begin = start if file.settings["kind"] == "lines" else 0
    return (part for part in read_parts(file, begin, offset + 1) if start in part.offset)


def cut_record(file: FileProbe, record: bytes, names: tuple[str, ...]) -> list[Cell]:
    """The fields of a row of text; none for one that is damaged."""
    if file.kind == SQL:
        from cdcwb.formats.containers.sql import cut_sql

        return cut_sql(record, file)
    return cut_json(record) if file.kind == JSON else cut_fields(record, file.dialect or DEFAULT, names, file.charset)


# --- sheets of Excel workbooks ----------------------------------------------------------------------------------------

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
            _check_archive(file, path)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        except CaptureError:
            raise
        except Exception as reason:
            raise CaptureError(f"the Excel workbook cannot be read: {first_line(reason)}", path=path) from reason
        if not book.worksheets:
            raise CaptureError("the Excel workbook has no sheet with rows", path=path)
        yield Workbook(path, book)


def _check_archive(file: IO[bytes], path: str) -> None:
    """Raises CaptureError for an archive that is not a workbook, and for one that inflates to too much: openpyxl keeps
    much of it in memory. A part may lie about its size, but :mod:`zipfile` never reads more of it than it states."""
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CaptureError(f"the zip archive cannot be read: {error}", path=path) from error
    if any(part.filename == "xl/workbook.bin" for part in parts):
        raise CaptureError("an Excel workbook of the binary form (.xlsb); save it as .xlsx", path=path)
    if not any(part.filename.endswith("workbook.xml") for part in parts):
        raise CaptureError("a zip archive that is not an Excel workbook", path=path)
    size, limit = sum(part.file_size for part in parts), inflate_limit(path, *_INFLATED)
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
                row: Values = [None] * max(texts, default=0)
                for column, text in texts.items():
                    row[column - 1] = text
                yield number, row
                number += 1
        except ChangedFileError:
            raise
        except Exception as reason:
            yield number, f"sheet {title!r} cannot be read from row {number + 1} on: {first_line(reason)}"


# --- values of cells --------------------------------------------------------------------------------------------------


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
