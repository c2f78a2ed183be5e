"""The columns that changes modify. Results are small.

The columns that an update changed come from its mask, else from its images, else from the log record
(``changes.change_source``). An update without these is only counted. Times are UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis import change_counts
from cdcwb.analysis.change_counts import Changed
from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.images import Pairs
from cdcwb.analysis.integrity import first_problems
from cdcwb.formats import FORMATS, bitmask, get_format
from cdcwb.index.columns import BETWEEN, Headers, Ints, set_labels, table_labels
from cdcwb.model import CHANGES, Operation, Problem
from cdcwb.times import TimeAxis
from cdcwb.words import joined

__all__ = [
    "LISTED",
    "MOST_MASKS",
    "Bit",
    "ChangeSources",
    "Drawn",
    "axis",
    "change_sources",
    "changed",
    "columns",
    "disagreements",
    "draw",
    "idle_updates",
    "key_changes",
    "masks",
    "nothing_over_time",
    "over_time",
    "overview",
    "without_key",
]


LISTED: Final = (
    "Changed columns from the log record: a compressed update has the columns that were written, those of the key, and "
    "whatever is logged besides. All of them count as changed, but a column of the key does so only where its value "
    "before is recorded and differs."
)
"""Note for compressed updates without images."""

MOST_MASKS: Final = 30
"""The number of masks that are shown, most frequent first."""

_HEADERS: Final = ("operation", "schema_name", "table_name", "changed_at", "committed_at", "changed_columns")
_SOURCES: Final = ("mask", "images", "log")
_PLACE: Final = ("file_index", "offset", "file", "position")
_OF_SOURCES: Final = (
    *("operation", "schema_name", "table_name", "record_type", "change_mask", "changed_columns", "change_source"),
    *("key", "file_index", "offset", "file"),
)
_MASKS: Final = ["table", "table_version", "operation", "change_mask", "set"]

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChangeSources:
    """The sources of change information of updates, by table. ``numbers``: by table and one of ``told_by_mask``,
    ``told_by_images``, ``told_by_log``, ``with_mask``, ``listed``, ``listed_without_key`` (:func:`overview`); ``idle``:
    the location of the first update that changes no column, as ``file_index``, ``offset`` and ``file``."""

    numbers: Counter[tuple[str, str]]
    idle: dict[str, tuple[int, int, str]]


def changed(capture: Any) -> Changed:
    """Which columns updates changed, alone and in pairs."""
    ask = partial(change_counts.changed, paired=True)
    return change_counts.of_all(capture.rows("changes", _HEADERS), ask, change_counts.merge_changed)


def change_sources(capture: Any) -> ChangeSources:
    """The sources of change information of updates, and the first no-op update."""
    sources: ChangeSources = capture.rows("changes", _OF_SOURCES).fold(_sources_of, _merged_sources)
    return sources


def _sources_of(changes: pa.RecordBatch) -> ChangeSources:
    rows = changes.filter(pc.equal(changes["operation"], str(Operation.UPDATE)))
    known, source = rows["changed_columns"].is_valid(), rows["change_source"]
    listed = pc.and_(pc.is_in(rows["record_type"], pa.array(_compressed(), pa.string())), pc.equal(source, "log"))
    facts = {f"told_by_{how}": pc.and_(known, pc.equal(source, how)) for how in _SOURCES}
    facts |= {"with_mask": rows["change_mask"].is_valid(), "listed": listed}
    facts["listed_without_key"] = pc.and_(listed, rows["key"].is_null())
    tables = table_labels(rows)
    sums = [(name, "sum") for name in facts]
    numbers = pa.table({"table": tables, **facts}).group_by("table", use_threads=False).aggregate(sums).to_pylist()
    counts = Counter({(row["table"], name): row[f"{name}_sum"] or 0 for row in numbers for name in facts})
    is_idle = pc.fill_null(pc.equal(pc.list_value_length(rows["changed_columns"]), 0), False)
    places = [tables, *(rows[name] for name in ("file_index", "offset", "file"))]
    first_idle: dict[str, tuple[int, int, str]] = {}
    for table, *location in zip(*(column.filter(is_idle).to_pylist() for column in places), strict=True):
        first_idle[table] = min(first_idle.get(table, (*location,)), (*location,))
    return ChangeSources(counts, first_idle)


def _merged_sources(parts: Sequence[ChangeSources]) -> ChangeSources:
    idle: dict[str, tuple[int, int, str]] = {}
    for table, location in chain(*(part.idle.items() for part in parts)):
        idle[table] = min(idle.get(table, location), location)
    return ChangeSources(change_counts.added(part.numbers for part in parts), idle)


def _compressed() -> list[str]:
    """The record types of compressed updates."""
    return sorted({operation for name in FORMATS for operation in get_format(name).compressed_updates})


def overview(changed: Changed, sources: ChangeSources) -> list[Record]:
    """One row for each table with updates: ``table``, ``updates``, ``told_by_mask``, ``told_by_images``,
    ``told_by_log``, ``not_told`` (changed columns unknown), ``idle`` (no column changed), ``with_mask`` (those with a
    change mask), ``columns_changed`` (distinct ones), ``listed`` (compressed updates whose changed columns come from
    the log record), ``listed_without_key`` (those of them with an unknown key)."""
    columns = Counter(table for table, _ in changed.columns)
    names = (*(f"told_by_{how}" for how in _SOURCES), "with_mask", "listed", "listed_without_key")
    return [
        {
            "table": table,
            **{name: sources.numbers[table, name] for name in names},
            "updates": changed.updates[table],
            "not_told": changed.updates[table] - changed.known[table],
            "idle": changed.idle[table],
            "columns_changed": columns[table],
        }
        for table in sorted(changed.updates)
    ]


def without_key(tables: Sequence[str]) -> str:
    """A note on tables whose compressed updates have no key."""
    return (
        f"No key is known for {joined(tables)}: columns of the key that are only carried along count as changed. "
        "Give the key with the option keys, such as keys=schema.table:column+column."
    )


def nothing_over_time(changed: Changed) -> str:
    """Why there are no changes over time to show."""
    updates, known, idle = (numbers.total() for numbers in (changed.updates, changed.known, changed.idle))
    if not updates:
        return "There are no updates."
    if not known:
        return "No update shows which columns it changed: without a mask, images before and after or a list of columns."
    if idle == known:
        return "No update whose changed columns are known changes any."
    return "No update whose changed columns are known has a time."


def columns(capture: Any, changed: Changed) -> list[Record]:
    """One row for each column that updates of a table have or change: ``table``, ``column``, ``updates`` (of the table,
    with known changed columns), ``changed`` (how many of these changed it), ``share`` (from 0 to 1), and of all after
    images of updates ``set`` (a value), ``null`` (NULL), ``not_captured`` (the image lacks it); ``became_null``:
    changed to NULL. By table, then most changed first. ``changed`` is :func:`changed`."""
    names = ("became_null", "set", "null")
    held = capture.rows("changes", _IMAGES).totals(dict.fromkeys(names, "sum"), _held).to_pylist()
    images = {row["table"]: row["set"] for row in held if row["column"] is None}
    by_column: dict[tuple[str, str], Record] = {key: {} for key in changed.columns}
    by_column |= {(row["table"], row["column"]): row for row in held if row["column"] is not None}
    rows = []
    for (table, column), row in by_column.items():
        number = {name: row.get(name, 0) for name in names}
        number["not_captured"] = images.get(table, 0) - number["set"] - number["null"]
        rows.append({"table": table, "column": column, **changed.share(table, column), **number})
    return sorted(rows, key=lambda row: (row["table"], -row["changed"], row["column"]))


_IMAGES: Final = ("operation", "schema_name", "table_name", "changed_columns", "after")


def _held(changes: pa.RecordBatch) -> dict[str, pa.Array]:
    """A row for each value of the after images of updates, and one without a column for each image."""
    is_update = pc.equal(changes["operation"], str(Operation.UPDATE))
    rows = changes.filter(pc.and_(is_update, changes["after"].is_valid()))
    tables, after, changed = table_labels(rows), Pairs(rows["after"]), rows["changed_columns"]
    at = after.find(np.asarray(pc.list_parent_indices(changed)).astype(np.int64), pc.list_flatten(changed))
    is_changed = np.zeros(len(after.rows) + len(rows), np.bool_)
    is_changed[at[at >= 0]] = True
    is_null = pa.concat_arrays([after.values.is_null(), pa.repeat(False, len(rows))])
    return {
        "table": tables.take(pa.array(np.append(after.rows, np.arange(len(rows))))),
        "column": pa.concat_arrays([after.names, pa.nulls(len(rows), pa.string())]),
        "set": pc.invert(is_null),
        "null": is_null,
        "became_null": pc.and_(is_null, pa.array(is_changed)),
    }


def axis(capture: Any) -> TimeAxis | None:
    """The time axis of updates with known changed columns; None if none has a time."""
    return change_counts.time_axis(dated_rows(capture, _HEADERS), _sources_at)


def _sources_at(headers: Headers) -> Ints:
    return headers.at[change_counts.updates(headers, headers.everything) & (headers.set >= 0)]


def over_time(capture: Any, axis: TimeAxis, bins: int = 60) -> tuple[list[Record], int]:
    """How often each column was changed over time: ``table``, ``column``, ``bin`` (from 0), ``began_at`` (start of the
    bin), ``changed``, only values above 0; and the width of a bin in microseconds. At most ``bins`` bins of a round
    width, which begin at round times, cover the axis. Times outside have bins of the same width, below 0 or beyond."""
    start, width = axis.bins(bins)
    ask = partial(change_counts.changed_over_time, start=start, width_us=width)
    counts = change_counts.of_all(dated_rows(capture, _HEADERS), ask, change_counts.added)
    return change_counts.changed_rows(counts, start, width), width


def idle_updates(changed: Changed, sources: ChangeSources, limit: int = 50) -> list[Record]:
    """No-op updates: ``table``, ``updates`` (with known changed columns), ``idle``, ``share``, and the location of the
    first (``file``, ``offset``); tables with most of them first."""
    rows = []
    for table in sorted(sources.idle, key=lambda table: (-changed.idle[table], table))[:limit]:
        updates, idle, (_, offset, file) = changed.updates[table], changed.idle[table], sources.idle[table]
        row = {"table": table, "updates": updates, "idle": idle, "share": idle / updates}
        rows.append({**row, "file": file, "offset": offset})
    return rows


def disagreements(capture: Any, limit: int = 50) -> list[Record]:
    """Masks that disagree with the images of their change, in the columns of ``problems``, by file and offset."""
    return first_problems(capture, ("file", "offset", "code"), limit, (Problem.MASK_IMAGES, Problem.MASK))


_KEYED: Final = ("operation", "schema_name", "table_name", "key", "before", "after")
_MOVED: Final = ("position", "changed_at", "transaction_id", "file", "file_index", "offset")
_KEY_CHANGES: Final = pa.schema(
    [*((name, pa.string()) for name in ("table", "old_key", "new_key")), *map(CHANGES.field, _MOVED)]
)


def key_changes(capture: Any, limit: int = 50) -> list[Record]:
    """Updates that changed a column of their key: ``table``, ``old_key`` and ``new_key`` (texts ``c=v, c=v``),
    ``position``, ``changed_at``, ``transaction_id``, ``file``, ``offset``; in capture order. Requires known key columns
    that both images have."""
    rows = dated_rows(capture, (*_KEYED, *_MOVED)).map(_moved, _KEY_CHANGES)
    by_location = [("file_index", "ascending"), ("offset", "ascending")]
    records: list[Record] = rows.first(by_location, limit).drop_columns(["file_index"]).to_pylist()
    return records


def _moved(changes: pa.RecordBatch) -> pa.RecordBatch:
    has_images = [changes[name].is_valid() for name in ("key", "before", "after")]
    rows = changes.filter(reduce(pc.and_, has_images, pc.equal(changes["operation"], str(Operation.UPDATE))))
    key, images = Pairs(rows["key"]), [Pairs(rows[image]) for image in ("before", "after")]
    old, new = (image.take(image.find(key.rows, key.names)) for image in images)
    differs = np.zeros(len(rows), np.bool_)
    differs[key.rows[np.asarray(pc.fill_null(pc.not_equal(old, new), False))]] = True
    differs[key.rows[np.asarray(pc.or_(old.is_null(), new.is_null()))]] = False
    moved = rows.filter(pa.array(differs))
    own = np.flatnonzero(differs[key.rows])
    texts: list[list[str]] = [["" for _ in range(len(moved))] for _ in range(2)]
    number = np.cumsum(differs) - 1
    for at in own.tolist():
        row, name = int(number[key.rows[at]]), key.names[at].as_py()
        for text, values in zip(texts, (old, new), strict=True):
            text[row] += (", " if text[row] else "") + f"{name}={values[at].as_py()}"
    columns = [table_labels(moved), *map(pa.array, texts), *(moved[name] for name in _MOVED)]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, _KEY_CHANGES, strict=True)], schema=_KEY_CHANGES
    )


def masks(capture: Any, limit: int = MOST_MASKS) -> list[Record]:
    """The distinct masks: ``table``, ``table_version``, ``operation``, ``change_mask`` (as the source wrote it),
    ``changed_columns`` (its meaning), ``changes`` (how many have it), ``position``, ``file`` and ``offset`` of the
    first; the ``limit`` most frequent."""
    columns = [*_MASKS[1:4], "schema_name", "table_name", "changed_columns", *_PLACE]
    rows: list[Record] = capture.rows("changes", columns).fold(_masks_of, _merged_masks).to_pylist()
    rows.sort(key=lambda row: (-row["changes"], row["table"], row["change_mask"], row["operation"] or ""))
    rows = rows[:limit]
    for row in rows:
        names = row.pop("set")
        row["changed_columns"] = None if names is None else names.split(BETWEEN) if names else []
    return sorted(rows, key=lambda row: (row["table"], -row["changes"], row["change_mask"]))


def _masks_of(changes: pa.RecordBatch) -> pa.Table:
    rows = changes.filter(changes["change_mask"].is_valid())
    columns = {"table": table_labels(rows), **{name: rows[name] for name in (*_MASKS[1:4], *_PLACE)}}
    columns |= {"set": set_labels(rows), "changes": pa.array(np.ones(len(rows), np.int64))}
    return _merged_masks([pa.table(columns)])


def _merged_masks(parts: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts) if parts else _masks_of(pa.RecordBatch.from_pylist([], CHANGES))
    rows = rows.sort_by([("file_index", "ascending"), ("offset", "ascending")])
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    merged = numbered.group_by(_MASKS, use_threads=False).aggregate([("row", "min"), ("changes", "sum")])
    firsts = rows.take(merged["row_min"])
    return firsts.set_column(firsts.schema.get_field_index("changes"), "changes", merged["changes_sum"])


# --- mask bits --------------------------------------------------------------------------------------------------------

_ROOM: Final = 64  # bits beyond the last column that are examined


@dataclass(frozen=True, slots=True)
class Bit:
    """One bit: its number from 0, its ``column`` (None for header columns and bits without a column), its part
    (``data``, ``header`` or ``beyond`` the last column), and whether it is set."""

    number: int
    column: str | None
    kind: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class Drawn:
    """A mask as the source wrote it, its table and operation, the number of ``changes`` with it, and its ``bits`` from
    bit 0. ``order`` is its byte order; ``offset`` the bit of the first data column. ``said``: the columns that
    ``events`` give for it."""

    table: str
    operation: str | None
    mask: str
    changes: int
    order: str
    offset: int
    bits: tuple[Bit, ...]
    said: tuple[str, ...] | None


def draw(
    masks: Iterable[Mapping[str, Any]],
    versions: Iterable[Mapping[str, Any]],
    detected: Iterable[Mapping[str, Any]],
) -> list[Drawn]:
    """The masks of :func:`cdcwb.analysis.masks.masks`, bit by bit. ``versions`` and ``detected`` are rows of these
    tables, which give the columns of each version, and the byte order and offset (big and 0 if not detected).

    Texts that are not masks are left out.
    """
    columns = {row["table_version"]: [column["name"] for column in row["columns"] or ()] for row in versions}
    orders, offsets = _settings(detected, "mask_order"), _settings(detected, "mask_offset")
    drawn = []
    for row in masks:
        names = columns.get(row["table_version"], [])
        order = orders.get(row["table"], orders.get("capture", "big"))
        offset = int(offsets.get(row["table"], offsets.get("capture", "0")))
        parsed, wrong = bitmask.parse(pa.array([row["change_mask"]], pa.string()))
        if wrong[0]:
            continue
        width = offset + len(names) + _ROOM
        matrix, _ = bitmask.bits(parsed, order if order in bitmask.ORDERS else "big", width)
        flags = [bool(bit) for bit in matrix[0]]
        last = max((at for at, flag in enumerate(flags) if flag), default=-1)
        bits = [_bit(at, flags[at], offset, names) for at in range(max(offset + len(names), last + 1))]
        named = None if row["changed_columns"] is None else tuple(row["changed_columns"])
        drawn.append(
            Drawn(
                *(row["table"], row["operation"], row["change_mask"], row["changes"]),
                *(order, offset, tuple(bits), named),
            )
        )
    return drawn


def _bit(at: int, is_set: bool, offset: int, names: Sequence[str]) -> Bit:
    if at < offset:
        return Bit(at, None, "header", is_set)
    if at < offset + len(names):
        return Bit(at, names[at - offset], "data", is_set)
    return Bit(at, None, "beyond", is_set)


def _settings(detected: Iterable[Mapping[str, Any]], setting: str) -> dict[str, str]:
    return {row["scope"]: row["value"] for row in detected if row["setting"] == setting}
