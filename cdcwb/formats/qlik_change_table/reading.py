"""From a split to its rows, whatever the file is: delimited text, JSON, or Parquet.

All containers give :class:`Part`: neighbouring segments of a file, the rows among them, and what is no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.formats.files import open_source
from cdcwb.formats.json_values import as_text, parse_json
from cdcwb.formats.messages import FILLER, MESSAGE, Container, read
from cdcwb.formats.qlik_change_table import framing
from cdcwb.formats.qlik_change_table.dialect import DEFAULT
from cdcwb.formats.qlik_change_table.layout import Layout, lay_out
from cdcwb.formats.qlik_change_table.plan import FileEntry, Shape
from cdcwb.formats.qlik_change_table.rows import ColumnRows, CsvRows, Rows, json_column, plain
from cdcwb.model import Kind, OffsetUnit

__all__ = ["CHUNK", "Gap", "Part", "clean", "container_of", "csv_parts", "iter_parts", "open_parquet", "rows_of_batch"]

Ints = npt.NDArray[np.int64]

CHUNK: Final = 32_768
"""Rows that become one Arrow batch, at most."""

_JSON_BATCH: Final = 8192
_PARQUET_BATCH: Final = 8192
_MOST_LAYOUTS: Final = 1000  # sets of keys that are remembered
_VALUES: Final = 1 << 20  # of a batch of Parquet rows


@dataclass(frozen=True, slots=True)
class Gap:
    """A segment that is no row: its place in the part, what it is, and why."""

    index: int
    kind: Kind
    reason: str
    raw: bytes | None


@dataclass(slots=True)
class Part:
    """Neighbouring segments of a file, in order. ``rows``: those that are rows, in groups of the same columns, each
    with the indices of its segments; ``gaps``: the others."""

    offset: Ints
    length: Ints
    unit: OffsetUnit
    rows: list[tuple[Ints, Rows]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def iter_parts(entry: FileEntry, shape: Shape, charset: str, start: int, stop: int) -> Iterator[Part]:
    """The segments of a file that begin in ``[start, stop)`` (bytes, or row groups of a Parquet file), in order,
    without gap or overlap."""
    if shape.kind == "json":
        return _json_parts(entry, shape, start, stop)
    if shape.kind == "parquet":
        return _parquet_parts(entry, shape, start, stop)
    return _bytes_parts(entry, shape, charset, start, stop)


def _bytes_parts(entry: FileEntry, shape: Shape, charset: str, start: int, stop: int) -> Iterator[Part]:
    source = open_source(entry.path, "binary")
    try:
        if shape.kind == "csv":
            yield from csv_parts(source, entry, shape, charset, start, stop)
        elif source.length:
            reason = entry.problem or "a file that cannot be read"
            raw = source.read(0, framing.LONGEST).tobytes()
            yield _lone(0, source.length, OffsetUnit.BYTE, Kind.MALFORMED, reason, raw)
    finally:
        source.close()


def _lone(offset: int, length: int, unit: OffsetUnit, kind: Kind, reason: str, raw: bytes | None) -> Part:
    """A part that is one segment, and no row."""
    return Part(_one(offset), _one(length), unit, gaps=[Gap(0, kind, reason, raw)])


# --- delimited text ---------------------------------------------------------------------------------------------------


def csv_parts(
    source: framing.Bytewise, entry: FileEntry, shape: Shape, charset: str, start: int, stop: int
) -> Iterator[Part]:
    """The segments of a delimited file that is open."""
    dialect = shape.dialect or DEFAULT
    if start == 0 and entry.first:
        reason = "header line" if entry.header else "byte order mark"
        raw = source.read(0, entry.first).tobytes()
        yield _lone(0, entry.first, OffsetUnit.BYTE, Kind.FILLER, reason, raw)
    for records in framing.records(source, max(start, entry.first), stop, dialect, len(shape.layout.names)):
        whole = CsvRows.of(records, shape.layout, dialect, charset)
        for first in range(0, len(records), CHUNK):
            yield _csv_part(records, whole, first, min(first + CHUNK, len(records)))


def _csv_part(records: framing.Records, rows: CsvRows, first: int, last: int) -> Part:
    low, high = np.searchsorted(records.good, [first, last])
    offset = records.base + records.start[first:last]
    part = Part(offset, records.end[first:last] - records.start[first:last], OffsetUnit.BYTE)
    if low < high:
        some = rows if (low, high) == (0, len(records.good)) else rows.take(np.arange(low, high))
        part.rows.append((records.good[low:high] - first, some))
    for index in first + np.flatnonzero(records.state[first:last] != framing.RECORD):
        kind = Kind.FILLER if records.state[index] == framing.FILLER else Kind.MALFORMED
        raw = records.buffer[records.start[index] : records.end[index]].tobytes()
        part.gaps.append(Gap(int(index) - first, kind, records.reasons[int(index)], raw))
    return part


# --- JSON -------------------------------------------------------------------------------------------------------------


def container_of(entry: FileEntry, shape: Shape) -> Container:
    """A file of JSON as the messages' layer reads it: a document a row."""
    settings = {str(name): str(value) for name, value in shape.settings.items() if name != "kind"}
    kind = str(shape.settings["kind"])
    return Container(entry.path, kind, "byte", entry.size, compression=entry.compression, settings=settings)


def _json_parts(entry: FileEntry, shape: Shape, start: int, stop: int) -> Iterator[Part]:
    layouts: dict[tuple[str, ...], Layout] = {shape.layout.names: shape.layout}
    for messages in read(container_of(entry, shape), start, stop, _JSON_BATCH):
        part = Part(messages.offset, messages.length, OffsetUnit.BYTE)
        groups: dict[tuple[str, ...], tuple[list[int], list[dict[str, Any]]]] = {}
        states, sources = messages.state.tolist(), messages.source
        for index, value in enumerate(messages.value.to_pylist()):
            reason = messages.reasons.get(index, "")
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
                except ValueError as error:
                    reason = str(error)
            kind = Kind.FILLER if states[index] == FILLER else Kind.MALFORMED
            part.gaps.append(Gap(index, kind, reason, sources[index].as_py()))
        for names, (indices, found) in groups.items():
            if names not in layouts:
                if len(layouts) > _MOST_LAYOUTS:
                    layouts = {shape.layout.names: shape.layout}
                layouts[names] = _like(shape.layout, names)
            chosen = np.array(indices, dtype=np.int64)
            columns = [json_column([row[name] for row in found], as_text) for name in names]
            source = sources.take(pa.array(chosen))
            rows = ColumnRows(layouts[names], messages.offset[chosen], messages.length[chosen], columns, source)
            part.rows.append((chosen, rows))
        yield part


def _like(layout: Layout, names: tuple[str, ...]) -> Layout:
    """The layout of a row that has other keys than the first rows of its file: header columns are those of the same
    names, or of the same prefix."""
    known = {layout.names[place]: name for name, place in layout.known.items()}
    prefix = next((full[: len(full) - len(name)] for full, name in known.items()), None)
    return lay_out(clean(names), prefix)


def clean(names: Iterable[str]) -> list[str]:
    """Names that can be written; half of a surrogate pair, which JSON may spell, becomes an escape."""
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


# --- rows -------------------------------------------------------------------------------------------------------------


def open_parquet(path: str) -> pq.ParquetFile:
    """A Parquet file on disk. Raises pa.ArrowException, OSError or ValueError for one that is damaged."""
    return pq.ParquetFile(path, memory_map=True)


def _parquet_parts(entry: FileEntry, shape: Shape, start: int, stop: int) -> Iterator[Part]:
    file = open_parquet(entry.path)
    metadata = file.metadata
    row = sum(metadata.row_group(at).num_rows for at in range(start))
    size = max(64, min(_PARQUET_BATCH, _VALUES // max(len(shape.layout.names), 1)))
    for group in range(start, stop):
        behind = row + metadata.row_group(group).num_rows
        try:
            for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
                yield rows_of_batch(batch, np.arange(row, row + len(batch)), shape.layout)
                row += len(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"row group {group} cannot be read from row {row} on: {str(error).splitlines()[0]:.200}"
            yield _lone(row, behind - row, OffsetUnit.ROW, Kind.MALFORMED, reason, None)
            row = behind


def rows_of_batch(batch: pa.RecordBatch, number: Ints, layout: Layout) -> Part:
    """Rows of a table, with their numbers; the columns stand as the layout has them."""
    count = len(number)
    part = Part(number, np.ones(count, dtype=np.int64), OffsetUnit.ROW)
    if count:
        columns = [plain(column) for column in batch.columns]
        part.rows.append((np.arange(count), ColumnRows(layout, part.offset, part.length, columns)))
    return part


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)
