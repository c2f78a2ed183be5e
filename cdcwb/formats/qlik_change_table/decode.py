"""Decodes a split to rows, header columns and masks, with sentences about values that contradict the documentation
(docs/formats/qlik-change-table.md §1 to §4, §10)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.moments import MICROSECONDS, moments
from cdcwb.formats.qlik_change_table.layout import (
    HEADERS,
    LETTERS,
    LOAD,
    OPERATIONS,
    WIDTHS,
    Layout,
    Part,
    Rows,
    lay_out,
)
from cdcwb.formats.qlik_change_table.plan import MaskSettings, TableFile
from cdcwb.formats.sequences import UNKNOWN_UNTIL, sequence_times
from cdcwb.formats.tabular import parts
from cdcwb.formats.tabular.format import parts_of_rows
from cdcwb.formats.tabular.rows import is_binary
from cdcwb.formats.tabular.splits import Scan, Stretch, read_stretch
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import visible

__all__ = [
    "Findings",
    "Headers",
    "Operations",
    "beyond_bits",
    "changed_columns",
    "contradiction",
    "find_part",
    "header_bits",
    "iter_parts",
    "mask_bytes",
    "no_mask",
    "no_partition",
    "no_sequence",
    "no_time",
    "not_in_charset",
    "outside_partition",
    "partition_span",
    "parts_of_batches",
    "parts_of_stretch",
    "positions",
    "read_headers",
    "read_operations",
    "refused",
    "too_wide",
    "unknown_letter",
]

# === sentences about values ===========================================================================================

Finding = tuple[Problem, str]


def too_wide(name: str, width: int, found: int) -> Finding:
    """A value longer than the documented length of its column."""
    return Problem.WIDTH, f"{name}: expected at most {width} byte{'s' if width != 1 else ''}, found {found}"


def no_sequence(text: str) -> Finding:
    """An invalid change sequence."""
    expected = "35 digits, YYYYMMDDHHmmSShh and a number of 19"
    return Problem.VALUE, f"change_seq: expected {expected}, found {visible(text, 60)!r}"


def contradiction(letter: str, operation: str) -> Finding:
    """Two header columns with different operations."""
    found = f"{visible(letter, 20)!r} and {visible(operation, 20)!r}"
    return Problem.VALUE, f"change_oper and operation: expected the same in both, found {found}"


def unknown_letter(letter: str, operation: str) -> Finding:
    """An undocumented letter with a documented operation."""
    return (
        Problem.VALUE,
        f"change_oper: expected I, U, D or B, found {visible(letter, 20)!r}; operation is {operation}",
    )


def unknown_operation(text: str | None) -> Finding:
    """No documented operation, in neither column."""
    found = "none" if text is None else repr(visible(text, 20))
    return (
        Problem.VALUE,
        f"expected an operation (I, U, D or B in change_oper, or its name in operation), found {found}",
    )


def no_time(text: str) -> Finding:
    """An invalid timestamp."""
    return Problem.TIME_RANGE, f"timestamp: expected a time of the years 1 to 9999, found {visible(text, 60)!r}"


def no_partition(text: str) -> Finding:
    """An invalid partition name."""
    expected = "YYYYMMDDTHHMMSS_YYYYMMDDTHHMMSS"
    return Problem.VALUE, f"partition_name: expected {expected}, found {visible(text, 60)!r}"


def outside_partition(text: str, partition: str) -> Finding:
    """A change whose sequence is outside the time of its partition."""
    return (
        Problem.PARTITION,
        f"expected a change_seq of partition {visible(partition, 60)}, found {visible(text, 60)}",
    )


def no_mask(text: str) -> Finding:
    """An invalid mask."""
    return Problem.MASK, f"change_mask: expected hexadecimal digits or base64, found {visible(text, 60)!r}"


def header_bits(mask: str, bits: Sequence[int], offset: int) -> Finding:
    """A mask with bits of header columns, which never change."""
    expected = f"none of the bits of {offset} header columns"
    return Problem.MASK, f"change_mask {_short(mask)}: expected {expected}, found {_listed(bits)}"


def beyond_bits(mask: str, width: int) -> Finding:
    """A mask with bits after the last column."""
    return Problem.MASK, f"change_mask {_short(mask)}: expected bits below {width}, found others"


def not_in_charset(column: str, charset: str, digits: str) -> Finding:
    """Text in another character set than that of the capture."""
    return Problem.CHARSET, f"column {visible(column, 60)}: expected text in {charset}, found bytes {_short(digits)}"


def refused(table: str, statement: str | None, error: str | None) -> Finding:
    """A change that the target rejected."""
    why = visible(error or "no error is given", 300)
    what = f"; the statement was {visible(statement, 300)}" if statement else ""
    return Problem.APPLY_EXCEPTION, f"the target rejected a change of {visible(table, 120)}: {why}{what}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:40]}…"


def _listed(bits: Sequence[int]) -> str:
    shown = ", ".join(map(str, bits[:12]))
    return f"bit{'s' if len(bits) != 1 else ''} {shown}{', …' if len(bits) > 12 else ''}"


# === from a split to rows =============================================================================================


def iter_parts(entry: TableFile, start: int, stop: int) -> Iterator[Part]:
    """The segments of a file that begin in ``[start, stop)`` (bytes, or row groups of a Parquet file), in order,
    without gap or overlap."""
    return parts.read_parts(entry.probe, entry.layout, start, stop, *_how(entry.layout))


def parts_of_stretch(stretch: Stretch, found: Scan, layout: Layout) -> Iterator[Part]:
    """The segments of a stretch, for the first pass; see :func:`~cdcwb.formats.tabular.splits.read_stretch`."""
    return read_stretch(stretch, found, layout, *_how(layout))


def find_part(entry: TableFile, offset: int) -> tuple[Part, int]:
    """The part that holds an offset, a byte of the decompressed file or the number of a row, and the index of its
    segment. Raises CaptureError if the file ends before it."""
    return parts.find_part(entry.probe, entry.layout, offset, *_how(entry.layout))


def parts_of_batches(path: str, batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[Part]:
    """Rows of a table, with their numbers."""
    return parts_of_rows(path, batches, layout, _how(layout)[1])


def _how(layout: Layout) -> tuple[Callable[[tuple[str, ...]], Layout], frozenset[int]]:
    """The function that makes layouts of rows with other keys, and the column of masks, whose text is in upper case
    from any source."""
    place = layout.known.get("change_mask")
    return partial(_like, layout), frozenset() if place is None else frozenset([place])


def _like(layout: Layout, names: tuple[str, ...]) -> Layout:
    """The layout of a row with other keys than the first rows of its file: header columns have the same names, or the
    same prefix."""
    known = {layout.names[place]: name for name, place in layout.known.items()}
    prefix = next((full[: len(full) - len(name)] for full, name in known.items()), None)
    return lay_out(names, prefix)


# === header columns ===================================================================================================

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNKNOWN: Final = 0
_MEANINGS: Final = list(LETTERS.values())
_LETTERS: Final = list(LETTERS)
_NAMES: Final = list(OPERATIONS)
_BY_NAME: Final = np.array([0, *(1 + _MEANINGS.index(meaning) for meaning in OPERATIONS.values())])
TRUNCATE: Final = 1 + _LETTERS.index("T")
_KINDS: Final = [str(Kind.CHANGE), *(str(meaning.kind) for meaning in _MEANINGS)]
_OPERATIONS: Final = [None, *(str(meaning.operation) for meaning in _MEANINGS)]
_PARTITION: Final = re.compile(r"(\d{8}T\d{6})_(\d{8}T\d{6})", re.ASCII)


@dataclass(slots=True)
class Findings:
    """Problems of rows: (row, code, sentence), in the order of each row."""

    found: list[tuple[int, Problem, str]] = field(default_factory=list)

    def add(self, row: int, finding: tuple[Problem, str]) -> None:
        """Adds a problem."""
        self.found.append((row, *finding))

    def array(self, count: int) -> pa.ListArray | None:
        """As the column ``problems`` of ``count`` rows; None if there are none."""
        if not self.found:
            return None
        rows: list[list[dict[str, str]] | None] = [None] * count
        for row, code, detail in self.found:
            there = rows[row] = rows[row] or []
            there.append({"code": str(code), "detail": detail})
        return pa.array(rows, pa.list_(pa.struct([("code", pa.string()), ("detail", pa.string())])))


# --- operations -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Operations:
    """The operations of rows. ``code`` for each row: 0 if the operation is not listed, else the index of its
    meaning."""

    code: npt.NDArray[np.int8]
    record_type: pa.StringArray
    kind: pa.StringArray
    operation: pa.StringArray

    def is_(self, operation: Operation, kind: Kind | None = None) -> Bools:
        """A mask of rows with an operation (and kind)."""
        wanted = [
            at
            for at, meaning in enumerate(_MEANINGS, 1)
            if meaning.operation is operation and kind in (None, meaning.kind)
        ]
        found: Bools = np.isin(self.code, wanted)
        return found

    @property
    def before(self) -> Bools:
        """Rows with a before image."""
        found: Bools = self.is_(Operation.DELETE) | self.is_(Operation.UPDATE, Kind.BEFORE)
        return found

    @property
    def after(self) -> Bools:
        """Rows with an after image."""
        found: Bools = ~self.before & (self.code != TRUNCATE)
        return found


def read_operations(rows: Rows, role: str) -> Operations:
    """The operations of a file's rows, by ``change_oper`` and ``operation`` (§3.1). All rows of a full load are
    REFRESH. The letter is decisive, except for TRUNCATE, whose letter is undocumented. If neither is listed the
    operation is UNKNOWN with the text.
    """
    count = len(rows.offset)
    if role == LOAD:
        load = [pa.repeat(text, count) for text in ("LOAD", str(Kind.CHANGE), str(Operation.REFRESH))]
        return Operations(np.zeros(count, np.int8), *load)
    letter, name = (_known(rows, which) for which in ("change_oper", "operation"))
    by_letter = _places(letter, _LETTERS, count)
    by_name = _BY_NAME[_places(name, _NAMES, count)]
    code = np.where((by_letter == _UNKNOWN) | (by_name == TRUNCATE), by_name, by_letter)
    kind = pa.array(_KINDS, pa.string()).take(pa.array(code))
    operation = pa.array(_OPERATIONS, pa.string()).take(pa.array(code))
    record_type = _first_given(letter, name, count)
    if (code == _UNKNOWN).any():
        shown = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(record_type, ""), ")", "")
        operation = pc.coalesce(operation, shown)
    return Operations(code.astype(np.int8), record_type, kind, operation)


def _known(rows: Rows, name: str) -> pa.StringArray | None:
    place = rows.layout.known.get(name)
    return None if place is None else rows.text(place)


def _places(texts: pa.StringArray | None, among: list[str], count: int) -> Ints:
    """The index of each text among some, from 1; 0 for others."""
    if texts is None:
        return np.zeros(count, dtype=np.int64)
    found = pc.index_in(texts, pa.array(among, pa.string()))
    places: Ints = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return places


def _given(texts: pa.StringArray) -> pa.StringArray:
    """The texts, null for empty ones."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _first_given(letter: pa.StringArray | None, name: pa.StringArray | None, count: int) -> pa.StringArray:
    given = [_given(texts) for texts in (letter, name) if texts is not None]
    return pc.coalesce(*given) if given else pa.nulls(count, pa.string())


# --- the others -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Headers:
    """The header columns of rows. ``texts`` has an array for each header column in file order, under ``names``; the two
    times of a partition follow them. ``changed_at``: UTC, null if unknown."""

    names: list[str]
    texts: list[pa.StringArray]
    position: pa.StringArray
    transaction_id: pa.StringArray
    changed_at: pa.Array


def read_times(rows: Rows) -> pa.Array:
    """The change times of rows, null without one; invalid times are not reported here."""
    timestamp = _known(rows, "timestamp")
    if timestamp is None:
        return pa.nulls(len(rows.offset), MICROSECONDS)
    return _changed_at(timestamp)[0]


def _changed_at(timestamp: pa.StringArray) -> tuple[pa.Array, Bools]:
    times, failed = moments(timestamp)
    default = pc.fill_null(pc.less(times, pa.scalar(UNKNOWN_UNTIL, MICROSECONDS)), False)
    return pc.if_else(default, pa.scalar(None, MICROSECONDS), times), failed


def transaction_ids(rows: Rows) -> pa.StringArray:
    """The transaction of each row; null without one."""
    return _text(rows, "transaction_id")


def positions(rows: Rows) -> pa.StringArray:
    """The change sequence of each row; null without one."""
    return _text(rows, "change_seq")


def _text(rows: Rows, name: str) -> pa.StringArray:
    found = _known(rows, name)
    return pa.nulls(len(rows.offset), pa.string()) if found is None else _given(found)


def read_headers(rows: Rows, operations: Operations, findings: Findings) -> Headers:
    """The header columns of rows of a change table, and their problems."""
    layout, count = rows.layout, len(rows.offset)
    known = {name: rows.text(place) for name, place in layout.known.items()}
    for name in HEADERS:
        if name in known and name in WIDTHS and name != "change_mask":
            _check_width(name, known[name], findings)
    position = positions(rows)
    times, wrong = sequence_times(position)
    for row in np.flatnonzero(wrong).tolist():
        findings.add(row, no_sequence(position[row].as_py()))
    _check_operations(known, operations, findings)
    changed_at = pa.nulls(count, MICROSECONDS)
    if "timestamp" in known:
        changed_at, failed = _changed_at(known["timestamp"])
        for row in np.flatnonzero(failed).tolist():
            findings.add(row, no_time(known["timestamp"][row].as_py()))
    names = [layout.names[place] for place in layout.header]
    texts = [rows.text(place) for place in layout.header]
    if "partition_name" in known:
        begin, end = _partitions(known["partition_name"], position, times, findings)
        for name, one in (("partition_begin", begin), ("partition_end", end)):
            if name not in names:
                names.append(name)
                texts.append(one)
    return Headers(names, texts, position, transaction_ids(rows), changed_at)


def _check_width(name: str, texts: pa.StringArray, findings: Findings) -> None:
    size = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(size > WIDTHS[name]).tolist():
        findings.add(row, too_wide(name, WIDTHS[name], int(size[row])))


def _check_operations(known: dict[str, pa.StringArray], operations: Operations, findings: Findings) -> None:
    """Rows without a known operation in these columns, and those whose two columns contradict each other (§10)."""
    if "change_oper" not in known and "operation" not in known:
        return  # a problem of the file
    unknown = pc.starts_with(operations.operation, "UNKNOWN(")
    for row in np.flatnonzero(unknown.to_numpy(zero_copy_only=False)).tolist():
        findings.add(row, unknown_operation(operations.record_type[row].as_py()))
    letter, name = known.get("change_oper"), known.get("operation")
    if letter is None or name is None:
        return
    count = len(letter)
    by_letter, by_name = _places(letter, _LETTERS, count), _BY_NAME[_places(name, _NAMES, count)]
    given = pc.is_valid(_given(letter)).to_numpy(zero_copy_only=False)
    told = pc.is_valid(_given(name)).to_numpy(zero_copy_only=False)
    wrong = given & told & (by_letter != by_name) & (by_name != TRUNCATE)
    for row in np.flatnonzero(wrong).tolist():
        pair = letter[row].as_py(), name[row].as_py()
        odd_letter = by_letter[row] == _UNKNOWN and by_name[row] != _UNKNOWN
        findings.add(row, unknown_letter(*pair) if odd_letter else contradiction(*pair))


def _partitions(
    names: pa.StringArray, position: pa.StringArray, times: pa.Array, findings: Findings
) -> tuple[pa.StringArray, pa.StringArray]:
    """Begin and end of each row's partition as text, with the rows outside their partition (§2.6)."""
    encoded = _given(names).dictionary_encode()
    spans = [partition_span(name) for name in encoded.dictionary.to_pylist()]
    index = encoded.indices
    edges = [
        pa.array([None if span is None else span[at] for span in spans], pa.timestamp("us")).take(index)
        for at in (0, 1)
    ]
    begin, end = (edge.cast(MICROSECONDS) for edge in edges)
    wrong = np.array([span is None for span in spans], dtype=np.bool_)
    places = pc.fill_null(index, -1).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero((places >= 0) & np.append(wrong, False)[places]).tolist():
        findings.add(row, no_partition(names[row].as_py()))
    outside = pc.or_(pc.less(times, begin), pc.greater_equal(times, end))
    for row in np.flatnonzero(pc.fill_null(outside, False).to_numpy(zero_copy_only=False)).tolist():
        findings.add(row, outside_partition(position[row].as_py(), names[row].as_py()))
    texts = [pa.array([None if span is None else span[at].isoformat() for span in spans], pa.string()) for at in (0, 1)]
    return texts[0].take(index), texts[1].take(index)


def partition_span(name: str) -> tuple[dt.datetime, dt.datetime] | None:
    """Begin and end of a partition; None for an invalid name."""
    match = _PARTITION.fullmatch(name)
    try:
        return None if match is None else (_time(match[1]), _time(match[2]))
    except ValueError:
        return None


def _time(text: str) -> Any:
    return dt.datetime.strptime(text, "%Y%m%dT%H%M%S")  # noqa: DTZ007  (written without a zone; interpreted as UTC)


# === masks ============================================================================================================


def mask_bytes(rows: Rows, spelling: str | None) -> tuple[pa.BinaryArray, Bools] | None:
    """The masks of rows, and a mask of invalid texts (which are null). None without such a column."""
    place = rows.layout.known.get("change_mask")
    if place is None:
        return None
    column = rows.content(place)
    if is_binary(column.type):
        return column.cast(pa.binary()), np.zeros(len(column), dtype=np.bool_)
    return bitmask.parse(rows.text(place), spelling)


def changed_columns(rows: Rows, settings: MaskSettings, columns: Sequence[str], findings: Findings) -> pa.ListArray:
    """The data columns whose bit is set, from ``columns`` (all data columns in order); null without a mask."""
    found = mask_bytes(rows, settings.spelling)
    count = len(rows.offset)
    if found is None:
        return pa.nulls(count, pa.list_(pa.string()))
    masks, wrong = found
    texts = rows.text(rows.layout.known["change_mask"])
    size = pc.fill_null(pc.binary_length(masks), 0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(size > WIDTHS["change_mask"]).tolist():
        findings.add(row, too_wide("change_mask", WIDTHS["change_mask"], int(size[row])))
    for row in np.flatnonzero(wrong).tolist():
        findings.add(row, no_mask(texts[row].as_py()))
    offset, width = settings.offset, settings.offset + len(columns)
    bits, beyond = bitmask.bits(masks, settings.order, width)
    in_header = bits[:, :offset].any(axis=1)
    for row in np.flatnonzero(in_header).tolist():
        marked = np.flatnonzero(bits[row, :offset]).tolist()
        findings.add(row, header_bits(texts[row].as_py(), marked, offset))
    for row in np.flatnonzero(beyond).tolist():
        findings.add(row, beyond_bits(texts[row].as_py(), width))
    null = pc.is_null(masks).to_numpy(zero_copy_only=False)
    return bitmask.names(bits[:, offset:], columns, null)
