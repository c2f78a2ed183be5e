"""From a file to its rows, whatever it is: delimited text, JSON, Parquet or Excel.

All of them give :class:`Part`: neighbouring segments of a file, the rows among them, and what is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.formats.files import open_source
from cdcwb.formats.json_values import CutOff, as_text, parse_json
from cdcwb.formats.messages import FILLER, MALFORMED, MESSAGE, TRUNCATED, Container, read
from cdcwb.formats.tabular import framing
from cdcwb.formats.tabular.dialect import DEFAULT
from cdcwb.formats.tabular.excel import Workbook
from cdcwb.formats.tabular.file import CSV, EVERYTHING, EXCEL, JSON, PARQUET, FileProbe
from cdcwb.formats.tabular.names import Layout, Names, clean
from cdcwb.formats.tabular.rows import ColumnRows, CsvRows, Rows, json_column, plain
from cdcwb.model import Kind, OffsetUnit, Problem

__all__ = [
    "CHUNK",
    "Gap",
    "Part",
    "container_of",
    "csv_parts",
    "iter_parts",
    "open_parquet",
    "read_parts",
    "rows_of_batch",
]

Ints = npt.NDArray[np.int64]
L = TypeVar("L", bound=Layout)

CHUNK: Final = 32_768
"""Rows that become one Arrow batch, at most."""

_JSON_BATCH: Final = 8192
_PARQUET_BATCH: Final = 8192
_MOST_LAYOUTS: Final = 1000  # sets of keys that are remembered
_VALUES: Final = 1 << 20  # of a batch of Parquet rows

_CODES: Final = {framing.FILLER: None, framing.MALFORMED: Problem.MALFORMED, framing.TRUNCATED: Problem.TRUNCATED}
_MESSAGE_CODES: Final = {
    MESSAGE: Problem.MALFORMED,  # one that is not a row
    FILLER: None,
    MALFORMED: Problem.MALFORMED,
    TRUNCATED: Problem.TRUNCATED,
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A segment that is not a row: its index in the part, the code of the problem (None: filler, nothing is wrong), and
    why."""

    index: int
    code: Problem | None
    reason: str
    raw: bytes | None

    @property
    def kind(self) -> Kind:
        """The kind of its event."""
        return Kind.FILLER if self.code is None else Kind.MALFORMED


@dataclass(slots=True)
class Part(Generic[L]):
    """Neighbouring segments of a file, in order. ``rows``: those that are rows, in groups of the same columns, each
    with the indices of its segments; ``gaps``: the others. ``offset`` and ``length`` are in ``unit``."""

    offset: Ints
    length: Ints
    unit: OffsetUnit
    rows: list[tuple[Ints, Rows[L]]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def iter_parts(
    file: FileProbe, names: Sequence[str] | None = None, start: int = 0, stop: int = EVERYTHING
) -> Iterator[Part[Names]]:
    """The segments of a file that begin in ``[start, stop)``, in order, without gap or overlap.

    Places are bytes of the decompressed file, of which ``start`` has to be 0 or one where a segment begins; rows of an
    Excel sheet; or row groups of a Parquet file. ``names`` are what the columns are called, by their places; None: as
    the file calls them, or ``column_1`` and so on. Objects of JSON have names of their own.

    Raises ValueError for another number of names than the file has columns (see :meth:`FileProbe.called`).
    """
    if names is not None and file.kind != JSON:
        file = file.called(names)
    return read_parts(file, Names(file.columns), start, stop, Names)


def read_parts(
    file: FileProbe,
    layout: L,
    start: int,
    stop: int,
    lay_out: Callable[[tuple[str, ...]], L],
    upper: frozenset[int] = frozenset(),
) -> Iterator[Part[L]]:
    """:func:`iter_parts` for rows of which more is known than names. ``lay_out`` makes the layout of objects of JSON
    that have other keys; ``upper``: see :class:`ColumnRows`."""
    if file.kind == JSON:
        return _json_parts(file, layout, start, stop, lay_out)
    if file.kind == PARQUET:
        return _parquet_parts(file, layout, start, stop, upper)
    if file.kind == EXCEL:
        return _excel_parts(file, layout, start, stop)
    return _bytes_parts(file, layout, start, stop)


def _bytes_parts(file: FileProbe, layout: L, start: int, stop: int) -> Iterator[Part[L]]:
    source = open_source(file.path, "binary")
    try:
        if file.kind == CSV:
            yield from csv_parts(source, file, layout, start, stop)
        elif source.length and start == 0:
            reason = file.problem or "a file that cannot be read"
            raw = source.read(0, framing.LONGEST).tobytes()
            yield _lone(0, source.length, OffsetUnit.BYTE, Problem.MALFORMED, reason, raw)
    finally:
        source.close()


def _lone(
    offset: int, length: int, unit: OffsetUnit, code: Problem | None, reason: str, raw: bytes | None
) -> Part[Any]:
    """A part that is one segment, and not a row."""
    return Part(_one(offset), _one(length), unit, gaps=[Gap(0, code, reason, raw)])


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)


# --- delimited text ---------------------------------------------------------------------------------------------------


def csv_parts(source: framing.Bytewise, file: FileProbe, layout: L, start: int, stop: int) -> Iterator[Part[L]]:
    """The segments of a delimited file that is open."""
    dialect = file.dialect or DEFAULT
    if start == 0 and file.first:
        reason = "header line" if file.header else "byte order mark"
        raw = source.read(0, file.first).tobytes()
        yield _lone(0, file.first, OffsetUnit.BYTE, None, reason, raw)
    for records in framing.records(source, max(start, file.first), stop, dialect, len(layout.names)):
        whole = CsvRows.of(records, layout, dialect, file.charset)
        for first in range(0, len(records), CHUNK):
            yield _csv_part(records, whole, first, min(first + CHUNK, len(records)))


def _csv_part(records: framing.Records, rows: CsvRows[L], first: int, last: int) -> Part[L]:
    low, high = np.searchsorted(records.good, [first, last])
    offset = records.base + records.start[first:last]
    part: Part[L] = Part(offset, records.end[first:last] - records.start[first:last], OffsetUnit.BYTE)
    if low < high:
        some = rows if (low, high) == (0, len(records.good)) else rows.take(np.arange(low, high))
        part.rows.append((records.good[low:high] - first, some))
    for index in first + np.flatnonzero(records.state[first:last] != framing.RECORD):
        code = _CODES[int(records.state[index])]
        raw = records.buffer[records.start[index] : records.end[index]].tobytes()
        part.gaps.append(Gap(int(index) - first, code, records.reasons[int(index)], raw))
    return part


# --- JSON -------------------------------------------------------------------------------------------------------------


def container_of(file: FileProbe) -> Container:
    """A file of JSON as the messages' layer reads it: a document a row."""
    settings = {str(name): str(value) for name, value in file.settings.items() if name != "kind"}
    kind = str(file.settings["kind"])
    return Container(file.path, kind, "byte", file.size, compression=file.compression, settings=settings)


def _json_parts(
    file: FileProbe, layout: L, start: int, stop: int, lay_out: Callable[[tuple[str, ...]], L]
) -> Iterator[Part[L]]:
    layouts: dict[tuple[str, ...], L] = {layout.names: layout}
    for messages in read(container_of(file), start, stop, _JSON_BATCH):
        part: Part[L] = Part(messages.offset, messages.length, OffsetUnit.BYTE)
        groups: dict[tuple[str, ...], tuple[list[int], list[dict[str, Any]]]] = {}
        states, sources = messages.state.tolist(), messages.source
        for index, value in enumerate(messages.value.to_pylist()):
            code, reason = _MESSAGE_CODES[states[index]], messages.reasons.get(index, "")
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
            part.gaps.append(Gap(index, code, reason, sources[index].as_py()))
        for names, (indices, found) in groups.items():
            if names not in layouts:
                if len(layouts) > _MOST_LAYOUTS:
                    layouts = {layout.names: layout}
                layouts[names] = lay_out(tuple(clean(names)))
            chosen = np.array(indices, dtype=np.int64)
            columns = [json_column([row[name] for row in found], as_text) for name in names]
            source = sources.take(pa.array(chosen))
            rows = ColumnRows(layouts[names], messages.offset[chosen], messages.length[chosen], columns, source)
            part.rows.append((chosen, rows))
        yield part


# --- rows -------------------------------------------------------------------------------------------------------------


def open_parquet(path: str) -> pq.ParquetFile:
    """A Parquet file on disk. Raises pa.ArrowException, OSError or ValueError for one that is damaged."""
    return pq.ParquetFile(path, memory_map=True)


def _parquet_parts(file: FileProbe, layout: L, start: int, stop: int, upper: frozenset[int]) -> Iterator[Part[L]]:
    parquet = open_parquet(file.path)
    metadata = parquet.metadata
    row = sum(metadata.row_group(at).num_rows for at in range(start))
    size = max(64, min(_PARQUET_BATCH, _VALUES // max(len(layout.names), 1)))
    for group in range(start, min(stop, metadata.num_row_groups)):
        behind = row + metadata.row_group(group).num_rows
        try:
            for batch in parquet.iter_batches(size, row_groups=[group], use_threads=False):
                yield rows_of_batch(batch, np.arange(row, row + len(batch)), layout, upper)
                row += len(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"row group {group} cannot be read from row {row} on: {str(error).splitlines()[0]:.200}"
            yield _lone(row, behind - row, OffsetUnit.ROW, Problem.MALFORMED, reason, None)
            row = behind


def rows_of_batch(batch: pa.RecordBatch, number: Ints, layout: L, upper: frozenset[int] = frozenset()) -> Part[L]:
    """Rows of a table, with their numbers; the columns stand as the layout has them."""
    count = len(number)
    part: Part[L] = Part(number, np.ones(count, dtype=np.int64), OffsetUnit.ROW)
    if count:
        columns = [plain(column) for column in batch.columns]
        part.rows.append((np.arange(count), ColumnRows(layout, part.offset, part.length, columns, upper=upper)))
    return part


def _excel_parts(file: FileProbe, layout: L, start: int, stop: int) -> Iterator[Part[L]]:
    """The rows of a sheet; those without values are filler, and so is everything before the first record."""
    width = len(layout.names)
    if start == 0 and file.first:
        reason = "header line" if file.header else "rows without values"
        yield _lone(0, file.first, OffsetUnit.ROW, None, reason, None)
    with Workbook(file.path) as book:
        sheet = book.sheet(str(file.settings["sheet"]))
        for block in sheet.blocks(max(start, file.first), stop):
            part: Part[L] = Part(block.offset, block.length, OffsetUnit.ROW)
            wide = {index: len(values) for index, values in block.rows if len(values) > width}
            found = [(index, values) for index, values in block.rows if index not in wide]
            chosen = np.array([index for index, _ in found], dtype=np.int64)
            if found:
                padded = [values + [None] * (width - len(values)) for _, values in found]
                columns = [pa.array(column, pa.string()) for column in zip(*padded, strict=True)]
                rows = ColumnRows(layout, block.offset[chosen], block.length[chosen], columns)
                part.rows.append((chosen, rows))
            part.gaps += [Gap(index, None, "rows without values", None) for index in block.blank]
            for index, cells in wide.items():
                part.gaps.append(Gap(index, Problem.MALFORMED, f"expected {width} cells, found {cells}", None))
            part.gaps.sort(key=lambda gap: gap.index)
            yield part
        if sheet.problem is not None:
            yield _lone(sheet.row, 1, OffsetUnit.ROW, Problem.MALFORMED, sheet.problem, None)
