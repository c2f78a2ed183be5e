"""Rows of one file with the same columns, from any container; and one row as cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import batch_of, bitmap, content_of, hex_text, interleaved, packed, slices
from cdcwb.formats.containers.delimited import DelimitedRecords, Dialect, as_array, first_record, only_record, quoting
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.json_values import as_text, field_tree, parse_json
from cdcwb.formats.kernels import Bytes, Ints, Spans, kernel
from cdcwb.model import Kind, OffsetUnit, Problem
from cdcwb.words import unique_names, unused_name

CSV: Final = "csv"
JSON: Final = "json"
PARQUET: Final = "parquet"
EXCEL: Final = "excel"
SQL: Final = "sql"
BROKEN: Final = "broken"
"""Kinds of files."""

FILE_END: Final = 1 << 62
"""A stop after the end of every file."""


# --- names ------------------------------------------------------------------------------------------------------------

_EXTENSIONS: Final = re.compile(
    r"(\.(csv|tsv|txt|dat|json|jsonl|ndjson|parquet|pq|gz|gzip|zst|zstd|snappy|lz4))+$", re.IGNORECASE
)
_NAME: Final = re.compile(r"\s*[^\W\d][\w $#@./:()-]{0,127}\s*")


class TableName(NamedTuple):
    """A table: its schema (None: unknown) and its name without the suffix of change tables."""

    schema: str | None
    table: str

    @property
    def label(self) -> str:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @classmethod
    def of(cls, text: str) -> TableName:
        """From ``schema.table`` or ``table``."""
        schema, _, table = text.rpartition(".")
        return cls(schema or None, table)


def stem_of(path: str) -> str:
    """The name of a file or folder without the extensions of containers and compressions."""
    return _EXTENSIONS.sub("", PurePosixPath(path).name)


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns without names, ``column_1`` and so on."""
    return tuple(f"column_{place}" for place in range(1, width + 1))


def named(fields: Sequence[str | None]) -> tuple[str, ...]:
    """The names in a header line: without surrounding blanks, an empty one is ``column_`` and its number, and all are
    unique."""
    names = [field.strip() for field in clean(fields)]
    taken = set(names)
    return unique_names(name or unused_name(f"column_{number}", taken) for number, name in enumerate(names, 1))


def clean(names: Iterable[str | None]) -> list[str]:
    """Names in valid Unicode; a lone surrogate, which JSON allows, becomes an escape."""
    return [(name or "").encode("utf-8", "backslashreplace").decode() for name in names]


def are_names(fields: Sequence[str | None]) -> bool:
    """Whether these are unique names of columns: they begin with a letter or an underscore."""
    names = [(text or "").strip().casefold() for text in fields]
    return len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileProbe:
    """The facts of a file for reading it.

    * ``kind``: csv (any delimited text), json (objects, one a row), parquet, excel (.xlsx), sql (a dump of statements),
      or broken: no table
    * ``names``: its columns in file order; None without a header line. ``width``: their number
    * ``charset`` and ``dialect``: of delimited text; ``delimiter_from``: why that delimiter
    * ``settings``: of JSON those of the container (:mod:`cdcwb.formats.containers.message_files`); of Excel ``sheet``
      and ``sheets``; of a dump its ``table``, the ``name`` of that as it is written, whether a ``backslash`` is an
      escape, and perhaps the columns that are ``needed``
    * ``size``: bytes of an uncompressed file; 0 for a compressed one, whose size is known only after reading.
      ``compression``: gzip, zstd
    * ``first``: the start of its first record, after byte order mark and header line: a byte, or in Excel a row of the
      sheet, from 0. ``header``: it has a header line, whose text is ``heading``
    * ``groups``: rows and packed bytes of each row group of a Parquet file; ``schema``: its columns
    * ``problem``: why it is broken, or its error; ``note``: contradictions to the given dialect
    * ``first_row``: the first record, header line or not; ``sample``: the first rows after the header line. Texts
      as from :meth:`Rows.text`, None for NULL
    """

    path: str
    kind: str
    names: tuple[str, ...] | None = None
    width: int = 0
    charset: str = "utf-8"
    dialect: Dialect | None = None
    delimiter_from: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    compression: str | None = None
    first: int = 0
    header: bool = False
    heading: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    schema: pa.Schema | None = None
    problem: str | None = None
    note: str | None = None
    first_row: tuple[str | None, ...] = ()
    sample: tuple[tuple[str | None, ...], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, ``column_1`` and so on without names."""
        return numbered(self.width) if self.names is None else self.names

    @property
    def place(self) -> str:
        """The path whose names are those of its table; of a dump the name of the table, in its folder."""
        folder = self.path.rpartition("/")[0]
        return f"{folder}/{self.settings['name']}" if self.kind == SQL else self.path

    def broken(self, problem: str) -> FileProbe:
        """The same file as no table."""
        return FileProbe(self.path, BROKEN, size=self.size, compression=self.compression, problem=problem)

    def without_rows(self) -> FileProbe:
        """The same file without facts that only describe it."""
        return replace(self, heading="", schema=None, first_row=(), sample=())


# --- rows in columns --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ColumnRows:
    """Some rows of one file that are already in columns: of a Parquet file, a table, a dump, or JSON. ``names`` are
    those of the columns; ``offset`` and ``length`` are the locations of the rows in the file's unit; ``source``: the
    bytes of each row; ``upper``: the columns whose bytes are written as hex in upper case; ``wrong``: by column, the
    rows that are not in the character set."""

    names: tuple[str, ...]
    offset: Ints
    length: Ints
    columns: list[pa.Array]
    source: pa.BinaryArray | None = None
    upper: frozenset[int] = frozenset()
    wrong: dict[int, Ints] = field(default_factory=dict)

    def take(self, index: Ints) -> Self:
        """Some of them."""
        chosen = pa.array(index)
        return replace(
            self,
            wrong={place: np.flatnonzero(np.isin(index, rows)) for place, rows in self.wrong.items()},
            offset=self.offset[index],
            length=self.length[index],
            columns=[column.take(chosen) for column in self.columns],
            source=None if self.source is None else self.source.take(chosen),
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> ColumnRows:
        """Rows with the same columns as rows of text."""
        begins = np.cumsum([0, *(len(rows.offset) for rows in parts)])
        places = range(len(parts[0].names))
        wrong = {
            place: np.concatenate([rows.garbled(place) + begin for rows, begin in zip(parts, begins, strict=False)])
            for place in places
        }
        return cls(
            parts[0].names,
            np.concatenate([rows.offset for rows in parts]),
            np.concatenate([rows.length for rows in parts]),
            [pa.concat_arrays([rows.text(place) for rows in parts]) for place in places],
            None if parts[0].raw() is None else pa.concat_arrays([rows.raw() for rows in parts]),
            wrong=wrong,
        )

    def text(self, place: int) -> pa.StringArray:
        """A column as text; null is NULL. Undecodable text is the hex of its bytes."""
        column = self.columns[place]
        return hex_text(column) if place in self.upper and is_binary(column.type) else texts_of(column)

    def texts(self, places: Sequence[int], index: Ints | None = None) -> pa.StringArray:
        """Some columns of some rows (None: of all) as text, one row after the other."""
        return interleaved([self.text(place) for place in places], index)

    def garbled(self, place: int) -> Ints:
        """Which rows of a column are not in the character set."""
        return self.wrong.get(place, np.empty(0, dtype=np.int64))

    def content(self, place: int) -> pa.Array:
        """A column as it is: text, or typed values where the source has types."""
        return self.columns[place]

    def raw(self) -> pa.BinaryArray | None:
        """Their bytes; None where the source has none."""
        return self.source


# --- delimited text ---------------------------------------------------------------------------------------------------


@kernel
def _copy(
    b: Bytes,
    starts: Spans,
    ends: Spans,
    rows: Ints,
    places: Ints,
    quote: int,
    escape: int,
    null: Bytes,
    offsets: Spans,
    out: Bytes,
    valid: Bytes,
) -> int:
    """Writes the content of fields, row by row, without quotes and escapes: bytes to ``out``, the start of each to
    ``offsets``; ``valid`` is 0 for NULL. Returns the number of NULLs. In a quoted field a doubled quote represents one.
    In a run of escapes before a quote every two represent one, and a remaining one makes the quote part of the text.
    """
    at = 0
    item = 0
    nulls = 0
    for index in range(len(rows)):
        for column in range(len(places)):
            start = np.int64(starts[rows[index], places[column]])
            end = np.int64(ends[rows[index], places[column]])
            offsets[item] = at
            valid[item] = 1
            if end - start >= 2 and np.int64(b[start]) == quote:
                start += 1
                end -= 1
                while start < end:
                    byte = np.int64(b[start])
                    run = 0
                    while byte == escape and start + run < end and np.int64(b[start + run]) == escape:
                        run += 1
                    after = start + run
                    closed = after < end and np.int64(b[after]) == quote
                    if closed and run & 1 == 1:
                        run //= 2
                        start = after
                    elif closed and after + 1 < end and np.int64(b[after + 1]) == quote:
                        run //= 2
                        start = after + 1
                    elif run > 0:
                        start = after - 1
                        run -= 1
                    for _ in range(run):
                        out[at] = escape
                        at += 1
                    out[at] = b[start]
                    at += 1
                    start += 1
            else:
                missing = end - start == len(null)
                for step in range(len(null)):
                    missing = missing and b[start + step] == null[step]
                if missing:
                    valid[item] = 0
                    nulls += 1
                else:
                    for step in range(start, end):
                        out[at] = b[step]
                        at += 1
            item += 1
    offsets[item] = at
    return nulls


def _contents(
    buffer: Bytes, starts: Spans, ends: Spans, dialect: Dialect, rows: Ints, places: Sequence[int], room: int
) -> pa.BinaryArray:
    """The content of fields, row by row; at most ``room`` bytes."""
    count = len(rows) * len(places)
    if not count:
        return pa.array([], pa.binary())
    offsets, valid, out = np.empty(count + 1, np.int32), np.empty(count, np.uint8), np.empty(max(room, 1), np.uint8)
    null, columns = as_array(dialect.null), np.array(places, dtype=np.int64)
    nulls = _copy(buffer, starts, ends, rows, columns, *quoting(dialect), null, offsets, out, valid)
    buffers = [bitmap(valid if nulls else None), pa.py_buffer(offsets), pa.py_buffer(out[: int(offsets[-1])])]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


@dataclass(slots=True)
class DelimitedRows:
    """Valid records of a delimited file, with the methods of :class:`ColumnRows`. ``starts`` and ``ends`` have a row
    for each and a column for each field; ``begin`` and ``end`` are those of the records, line ends included, all as
    offsets in ``buffer``."""

    names: tuple[str, ...]
    offset: Ints
    length: Ints
    buffer: Bytes
    begin: Ints
    end: Ints
    starts: Spans
    ends: Spans
    dialect: Dialect
    charset: str
    _columns: dict[int, tuple[pa.StringArray, Ints]] = field(default_factory=dict)
    _is_text: bool | None = None

    @classmethod
    def of(cls, records: DelimitedRecords, names: tuple[str, ...], dialect: Dialect, charset: str) -> DelimitedRows:
        """The valid ones among the segments."""
        begin, end = records.start[records.good], records.end[records.good]
        return cls(
            *(names, records.base + begin, end - begin, records.buffer, begin, end, records.starts, records.ends),
            *(dialect, charset),
        )

    def take(self, index: Ints) -> Self:
        """Some of them."""
        return replace(
            self,
            offset=self.offset[index],
            length=self.length[index],
            begin=self.begin[index],
            end=self.end[index],
            starts=self.starts[index],
            ends=self.ends[index],
            _columns={},
            _is_text=self._is_text or None,
        )

    def text(self, place: int) -> pa.StringArray:
        """A column as text; null is NULL. Undecodable text is the hex of its bytes."""
        return self._column(place)[0]

    def texts(self, places: Sequence[int], index: Ints | None = None) -> pa.StringArray:
        """Some columns of some rows (None: of all) as text, one row after the other."""
        if self.is_text:
            return self.fields(places, index).view(pa.string())
        return interleaved([self.text(place) for place in places], index)

    def garbled(self, place: int) -> Ints:
        """Which rows of a column are not in the character set."""
        return np.empty(0, dtype=np.int64) if self.is_text else self._column(place)[1]

    def content(self, place: int) -> pa.Array:
        """A column as it is: text, or typed values where the source has types."""
        return self.text(place)

    def raw(self) -> pa.BinaryArray:
        """Their bytes; None where the source has none."""
        return slices(self.buffer, self.begin, self.end)

    @property
    def is_text(self) -> bool:
        """Whether all bytes, and so all fields, are in the character set."""
        if self._is_text is None:
            dialect = self.dialect
            tokens = dialect.delimiter + dialect.record + dialect.quote + dialect.escape
            self._is_text = tokens.isascii() and (
                not len(self.begin) or _is_text(self.buffer[self.begin.min() : self.end.max()], self.charset)
            )
        return self._is_text

    def _column(self, place: int) -> tuple[pa.StringArray, Ints]:
        if place not in self._columns:
            fields = self.fields([place])
            none: Ints = np.empty(0, dtype=np.int64)
            both = (fields.view(pa.string()), none) if self.is_text else as_strings(fields, self.charset)
            self._columns[place] = both
        return self._columns[place]

    def fields(self, places: Sequence[int], index: Ints | None = None) -> pa.BinaryArray:
        """The bytes of columns without quotes and escapes; null for the text of NULL (docs/formats/qlik-change-table.md
        §1.3)."""
        rows = np.arange(len(self.begin)) if index is None else index
        if index is None and len(places) == 1:
            room = int(self.ends[:, places[0]].sum() - self.starts[:, places[0]].sum())
        else:
            room = int(self.length[rows].sum())
        return _contents(self.buffer, self.starts, self.ends, self.dialect, rows, places, room)


def _is_text(buffer: Bytes, charset: str) -> bool:
    if charset.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return not (buffer >= 0x80).any()
    try:
        edges = pa.py_buffer(np.array([0, len(buffer)], np.int32))
        data = pa.py_buffer(np.ascontiguousarray(buffer))
        pa.Array.from_buffers(pa.binary(), 1, [None, edges, data]).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def as_strings(fields: pa.BinaryArray, charset: str) -> tuple[pa.StringArray, Ints]:
    """Bytes as text, and a mask of undecodable ones, whose text is hex."""
    none: Ints = np.empty(0, dtype=np.int64)
    if charset.lower().replace("_", "-") in ("utf-8", "utf8"):
        try:
            return fields.cast(pa.string()), none
        except pa.ArrowInvalid:
            pass
    elif _is_text(content_of(fields)[0], charset):
        return fields.view(pa.string()), none
    texts: list[str | None] = []
    garbled = []
    for row, one in enumerate(fields.to_pylist()):
        try:
            texts.append(None if one is None else one.decode(charset))
        except UnicodeDecodeError:
            garbled.append(row)
            texts.append(one.hex())
    return pa.array(texts, pa.string()), np.array(garbled, dtype=np.int64)


def first_texts(buffer: Bytes, dialect: Dialect, charset: str, is_end: bool) -> tuple[tuple[str | None, ...], int]:
    """The texts of the first record's fields (None: NULL; undecodable bytes as escapes), and the end of that record;
    no texts if there is none. ``is_end``: the file ends with the buffer."""
    found = first_record(buffer, dialect, is_end)
    if found is None:
        return (), 0
    width = found.starts.shape[1]
    fields = DelimitedRows.of(found, numbered(width), dialect, charset).fields(range(width))
    texts = (None if one is None else one.decode(charset, "backslashreplace") for one in fields.to_pylist())
    return tuple(texts), int(found.end[0])


# --- columns ----------------------------------------------------------------------------------------------------------


_SMALL_TYPES: Final = {
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.null(): pa.string(),
    pa.float16(): pa.float32(),
}


def is_binary(kind: pa.DataType) -> bool:
    """Whether it is a column of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


Rows: TypeAlias = ColumnRows | DelimitedRows


@dataclass(frozen=True, slots=True)
class UnparsedSegment:
    """A segment that is not a row: its index in the part, the code of the problem (None: filler), and the reason."""

    index: int
    code: Problem | None
    reason: str
    raw: bytes | None

    @property
    def kind(self) -> Kind:
        """The kind of its event."""
        return Kind.FILLER if self.code is None else Kind.MALFORMED


@dataclass(slots=True)
class RowSegments:
    """Adjacent segments of a file, in order. ``rows``: those that are rows, in groups of the same columns, each with
    the indices of its segments; ``gaps``: the others. ``offset`` and ``length`` are in ``unit``. ``before``: the number
    of rows that precede them in the capture; None: offsets are the numbers of rows. ``files``: path and index of the
    file of each segment, if they are of several files."""

    offset: Ints
    length: Ints
    unit: OffsetUnit
    rows: list[tuple[Ints, Rows]] = field(default_factory=list)
    gaps: list[UnparsedSegment] = field(default_factory=list)
    before: int | None = 0
    files: tuple[pa.StringArray, pa.Int32Array] | None = None
    _numbers: Ints | None = None

    @property
    def damaged(self) -> int:
        """The number of malformed rows."""
        of_rows = self.unit is OffsetUnit.ROW
        return sum(int(self.length[gap.index]) if of_rows else 1 for gap in self.gaps if gap.code is not None)

    def numbers(self) -> Ints:
        """The number, from 1, of the row that each segment is; malformed rows count."""
        if self._numbers is not None:
            return self._numbers
        if self.before is None:
            return self.offset + 1
        size = np.ones(len(self.offset), np.int64)
        for gap in self.gaps:
            size[gap.index] = 0 if gap.code is None else self.length[gap.index] if self.unit is OffsetUnit.ROW else 1
        return self.before + np.cumsum(size) - size + 1

    @classmethod
    def joined(cls, parts: Sequence[tuple[str, int, RowSegments]]) -> RowSegments:
        """Parts of several files, each with its path and index, as one."""
        groups: dict[tuple[str, ...], list[tuple[Ints, Rows]]] = {}
        gaps, begin = [], 0
        for _, _, part in parts:
            for index, rows in part.rows:
                groups.setdefault(rows.names, []).append((index + begin, rows))
            gaps += [replace(gap, index=gap.index + begin) for gap in part.gaps]
            begin += len(part.offset)
        counts = [len(part.offset) for _, _, part in parts]
        paths = pa.array([path for path, _, _ in parts], pa.string()).take(np.repeat(np.arange(len(parts)), counts))
        indices = pa.array(np.repeat(np.array([index for _, index, _ in parts], np.int32), counts))
        return cls(
            np.concatenate([part.offset for _, _, part in parts]),
            np.concatenate([part.length for _, _, part in parts]),
            parts[0][2].unit,
            [
                (np.concatenate([index for index, _ in some]), ColumnRows.joined([rows for _, rows in some]))
                for some in groups.values()
            ],
            gaps,
            files=(paths, indices),
            _numbers=np.concatenate([part.numbers() for _, _, part in parts]),
        )


def rows_of_batch(
    batch: pa.RecordBatch, number: Ints, names: tuple[str, ...], upper: frozenset[int] = frozenset()
) -> RowSegments:
    """Rows of a table, with their numbers; the columns are in the order of the names."""
    count = len(number)
    part = RowSegments(number, np.ones(count, dtype=np.int64), OffsetUnit.ROW)
    if count:
        columns, wrong = [plain(column) for column in batch.columns], dict[int, Ints]()
        for place, column in enumerate(columns):
            if pa.types.is_string(column.type):  # of a file, whose texts nobody has checked
                columns[place], wrong[place] = as_strings(column.cast(pa.binary()), "utf-8")
        rows = ColumnRows(names, part.offset, part.length, columns, upper=upper, wrong=wrong)
        part.rows.append((np.arange(count), rows))
    return part


def text_rows(part: RowSegments, names: Sequence[str]) -> pa.RecordBatch | None:
    """The rows of a part in the order of the file, as columns of text, by name; null for NULL and if a row lacks the
    column. None without rows."""
    if not part.rows:
        return None
    batches = []
    for index, rows in part.rows:
        places = {name: place for place, name in enumerate(rows.names)}
        texts = (rows.text(places[name]) if name in places else pa.nulls(len(index), pa.string()) for name in names)
        batches.append(pa.RecordBatch.from_arrays([*texts], names=list(names)))
    return next(woven(batches, [index for index, _ in part.rows]))


def woven(batches: Sequence[pa.RecordBatch], indices: Sequence[Ints]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their segments, as one batch; none without rows."""
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        order = pa.array(np.argsort(np.concatenate(indices), kind="stable"))
        yield from pa.Table.from_batches(batches).combine_chunks().take(order).combine_chunks().to_batches()


def gap_events(part: RowSegments, gaps: Sequence[UnparsedSegment], wanted: Wanted, **given: Any) -> pa.RecordBatch:
    """The events of segments that are not rows; ``given``: columns, as arrays or as the value of all of them."""
    index = np.array([gap.index for gap in gaps], np.int64)
    location = {"offset": pa.array(part.offset[index]), "length": pa.array(part.length[index])}
    rows = [
        {
            "kind": str(gap.kind),
            "headers": {"reason": gap.reason} if gap.code is None else None,
            "problems": None if gap.code is None else [{"code": gap.code, "detail": gap.reason}],
            "raw": gap.raw if wanted.images else None,
        }
        for gap in gaps
    ]
    return batch_of(rows, {**given, **location, "offset_unit": str(part.unit)}, EVERYTHING)


def plain(column: pa.Array) -> pa.Array:
    """The same values, with offsets from the start of their buffers, without types that Spark does not support."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    if column.type in _SMALL_TYPES:
        column = column.cast(_SMALL_TYPES[column.type])
    return packed(column)


def texts_of(column: pa.Array) -> pa.StringArray:
    """Any column as the text of the model: nested values as JSON, values that Arrow cannot cast with Python's text."""
    column = plain(column)
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if is_binary(kind):
        return hex_text(column, upper=False)
    from cdcwb.formats.containers.avro_values import to_text

    try:
        return to_text(column.cast(pa.date32()) if pa.types.is_date64(kind) else column)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())


def json_column(values: Sequence[Any]) -> pa.StringArray:
    """Parsed JSON values of one column as text; a lone surrogate, which is not valid text, becomes an escape."""
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        texts = (as_text(value) for value in values)
        return pa.array([None if one is None else clean([one])[0] for one in texts], pa.string())


# --- cells ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a row. ``start`` to ``stop`` are its bytes with quotes and the following delimiter or line end.
    ``text``: None for NULL; for undecodable bytes their hex (``garbled``)."""

    name: str
    start: int
    stop: int
    text: str | None
    garbled: bool = False


def cut_fields(record: bytes, dialect: Dialect, names: Sequence[str], charset: str) -> list[Cell]:
    """The fields of a record of a delimited file; none of one that is damaged."""
    found = only_record(np.frombuffer(record, np.uint8), dialect, len(names))
    if found.reasons or not len(found.start):
        return []
    rows = DelimitedRows.of(found, tuple(names), dialect, charset)
    starts = rows.starts[0].tolist()
    spans = zip(names, starts, [*starts[1:], len(record)], strict=True)
    return [
        Cell(name, start, stop, rows.text(place)[0].as_py(), len(rows.garbled(place)) > 0)
        for place, (name, start, stop) in enumerate(spans)
    ]


def cut_json(record: bytes) -> list[Cell]:
    """The fields of a row that is a JSON object; none of one that is damaged. The opening brace and preceding text
    belong to the first, the closing one and following text to the last."""
    first, behind = max(record.find(b"{"), 0), record.rfind(b"}") + 1
    tree = field_tree(record[first:behind])
    fields = [one for one in tree.children if not one.quiet]
    if not fields or any(one.problem for one in tree.walk()):
        return []
    row = parse_json(record[first:behind])
    starts = [0, *(first + one.offset for one in fields[1:]), len(record)]
    values = [as_text(row[one.name]) if one.children else one.value for one in fields]
    return [Cell(one.name, *span, value) for one, span, value in zip(fields, pairwise(starts), values, strict=True)]
