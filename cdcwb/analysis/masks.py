"""The columns that changes modify. Results are small.

The columns that an update changed come from its mask, else from its images, else from the log record
(``changes.change_source``). An update without these is only counted. Times are UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.analysis import change_counts
from cdcwb.analysis.change_counts import Changed
from cdcwb.analysis.frames import Sample, dated_rows, merged_samples, sample_of
from cdcwb.analysis.integrity import first_problems
from cdcwb.dataset import answer_of, first_of, grouped, together, total
from cdcwb.formats import FORMATS, bitmask, get_format
from cdcwb.index.changes import KEYS, changed_keys
from cdcwb.index.columns import BETWEEN, NO_TIME, Bools, Headers, Ints, names_of, table_labels
from cdcwb.index.selected_capture import SelectedCapture
from cdcwb.model import CHANGES, Problem
from cdcwb.times import TimeAxis
from cdcwb.words import joined

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
_COUNTED: Final = (
    *("operation", "schema_name", "table_name", "table_version", "record_type", "change_mask", "changed_columns"),
    *("change_source", "key", "after", "changed_at", "committed_at", *_PLACE),
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


@dataclass(frozen=True, slots=True)
class _Counts:
    """What one pass over all changes gives, each when it is asked for. ``at``: a sample of the times of updates with
    known changed columns."""

    changed: Callable[[], Changed]
    sources: Callable[[], ChangeSources]
    held: Callable[[], pa.Table]
    masks: Callable[[], pa.Table]
    at: Callable[[], Sample]


def _counts(capture: Any) -> _Counts:
    def asked(capture: Any) -> _Counts:
        questions = (
            (partial(change_counts.changed, paired=True), change_counts.merge_changed),
            (_sources_of, _merged_sources),
            (_held, _merged_held),
            (_masks_of, _merged_masks),
            (lambda headers, mask: sample_of(_at(headers, mask)), merged_samples),
        )
        return _Counts(*change_counts.together(dated_rows(capture, _COUNTED), *questions))

    return answer_of(capture, "counts of masks", asked)


def changed(capture: Any) -> Changed:
    """Which columns updates changed, alone and in pairs."""
    return _counts(capture).changed()


def change_sources(capture: Any) -> ChangeSources:
    """The sources of change information of updates, and the first no-op update."""
    return _counts(capture).sources()


def _sources_of(headers: Headers, mask: Bools) -> ChangeSources:
    mask = change_counts.updates(headers, mask)
    tables, sources, types = ([*headers.texts[name], None] for name in ("table", "source", "type"))  # -1 is the last
    codes = [headers.codes[name][mask] for name in ("table", "source", "type")]
    codes += [one[mask] >= 0 for one in (headers.codes["mask"], headers.codes["key"], headers.set)]
    counts: Counter[tuple[str, str]] = Counter()
    groups = change_counts.counted(None, codes, [None] * len(codes))
    for (table, source, kind, has_mask, has_key, known), times in groups.items():
        listed = types[kind] in _compressed() and sources[source] == "log"
        facts = {f"told_by_{sources[source]}": known, "with_mask": has_mask, "listed": listed}
        facts["listed_without_key"] = listed and not has_key
        counts.update({(tables[table], name): times for name, holds in facts.items() if holds})
    idle = [code for code, names in enumerate(headers.sets) if not names]
    rows = headers.in_order(mask & np.isin(headers.set, idle))
    codes_of_idle, first = np.unique(headers.codes["table"][rows], return_index=True)
    columns = (headers.column(name, rows[first]).to_pylist() for name in ("file_index", "offset", "file"))
    locations = zip(*columns, strict=True)
    return ChangeSources(counts, {tables[code]: place for code, place in zip(codes_of_idle, locations, strict=True)})


def _merged_sources(parts: Sequence[ChangeSources]) -> ChangeSources:
    idle: dict[str, tuple[int, int, str]] = {}
    for table, location in chain(*(part.idle.items() for part in parts)):
        idle[table] = min(idle.get(table, location), location)
    return ChangeSources(change_counts.added(part.numbers for part in parts), idle)


@cache
def _compressed() -> frozenset[str]:
    """The record types of compressed updates."""
    return frozenset({operation for name in FORMATS for operation in get_format(name).compressed_updates})


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
    held = _counts(capture).held().to_pylist()
    images = {row["table"]: row["set"] for row in held if row["column"] is None}
    by_column: dict[tuple[str, str], Record] = {key: {} for key in changed.columns}
    by_column |= {(row["table"], row["column"]): row for row in held if row["column"] is not None}
    rows = []
    for (table, column), row in by_column.items():
        number = {name: row.get(name, 0) for name in names}
        number["not_captured"] = images.get(table, 0) - number["set"] - number["null"]
        rows.append({"table": table, "column": column, **changed.share(table, column), **number})
    return sorted(rows, key=lambda row: (row["table"], -row["changed"], row["column"]))


_COUNTS: Final = ("set", "null", "became_null")
_HELD: Final = pa.schema([("table", pa.string()), ("column", pa.string()), *((name, pa.int64()) for name in _COUNTS)])
_SHAPES: Final = 1 << 14  # images that differ in their columns, NULL or changed columns, counted in one product


def _held(headers: Headers, mask: Bools) -> pa.Table:
    """How many after images of the updates of each table have a value in each column, NULL, and a NULL that is a
    change; without a column: the number of images."""
    mask = change_counts.updates(headers, mask) & (headers.codes["columns"] >= 0)
    names = ("columns", "table", "nulls", "set")
    shapes = change_counts.groups(None, *(headers.codes[name][mask] for name in names))
    order = np.lexsort(shapes[1::-1])
    shapes = [column[order] for column in shapes]
    parts = []
    for first, end in pairwise(
        np.flatnonzero(np.diff(shapes[0] + shapes[1] * len(mask), prepend=-1, append=-1)).tolist()
    ):
        columns = names_of(headers.texts["columns"][shapes[0][first]])
        counts = np.zeros((len(_COUNTS), len(columns) + 1), np.int64)
        for begin in range(first, end, _SHAPES):
            some = slice(begin, min(begin + _SHAPES, end))
            counts += _of_shapes(headers, columns, *(column[some] for column in shapes[2:]))
        table = [headers.texts["table"][shapes[1][first]]] * (len(columns) + 1)
        parts.append(pa.table([table, [*columns, None], *counts], _HELD))
    return _merged_held(parts)


def _of_shapes(headers: Headers, columns: Sequence[str], nulls: Ints, sets: Ints, times: Ints) -> Ints:
    """The counts (:data:`_COUNTS`) of images with the same columns; the number of images is the last one."""
    texts = "".join(headers.texts["nulls"][code] for code in nulls.tolist()).encode()
    is_null = np.frombuffer(texts, np.uint8).reshape(len(nulls), len(columns)) == ord("1")
    is_changed = np.zeros(is_null.shape, np.bool_)
    known = np.flatnonzero(sets >= 0)
    rows, changed = headers.columns_of(sets[known])
    numbers = {name: number for number, name in enumerate(columns)}
    at = np.array([numbers.get(name, -1) for name in headers.names], np.int64)[changed]
    is_changed[known[rows[at >= 0]], at[at >= 0]] = True
    counts = [times @ flags for flags in (~is_null, is_null, is_null & is_changed)]
    return np.column_stack([counts, [times.sum(), 0, 0]])


def _merged_held(parts: Sequence[pa.Table]) -> pa.Table:
    return grouped(parts or [_HELD.empty_table()], dict.fromkeys(_HELD.names[2:], "sum"))


def axis(capture: Any) -> TimeAxis | None:
    """The time axis of updates with known changed columns; None if none has a time."""
    rows = dated_rows(capture, _HEADERS)
    return change_counts.time_axis(rows, lambda headers: _at(headers, headers.everything), sampled=_counts(capture).at)


def _at(headers: Headers, mask: Bools) -> Ints:
    """The times of updates with known changed columns."""
    return headers.at[change_counts.updates(headers, mask) & (headers.set >= 0)]


def over_time(capture: Any, axis: TimeAxis, bins: int = 60) -> tuple[list[Record], int]:
    """How often each column was changed over time: ``table``, ``column``, ``bin`` (from 0), ``began_at`` (start of the
    bin), ``changed``, only values above 0; and the width of a bin in microseconds. At most ``bins`` bins of a round
    width, which begin at round times, cover the axis. Times outside have bins of the same width, below 0 or beyond."""
    start, width = axis.bins(bins)
    ask = partial(change_counts.changed_over_time, start=start, width_us=width)
    counts = change_counts.of_all(dated_rows(capture, _HEADERS), ask, change_counts.added)
    return change_counts.changed_rows(counts, start, width), width


def idle_updates(changed: Changed, sources: ChangeSources) -> list[Record]:
    """No-op updates: ``table``, ``updates`` (with known changed columns), ``idle``, ``share``, and the location of the
    first (``file``, ``offset``); tables with most of them first."""
    rows = []
    for table in sorted(sources.idle, key=lambda table: (-changed.idle[table], table)):
        updates, idle, (_, offset, file) = changed.updates[table], changed.idle[table], sources.idle[table]
        row = {"table": table, "updates": updates, "idle": idle, "share": idle / updates}
        rows.append({**row, "file": file, "offset": offset})
    return rows


DISAGREEMENTS: Final = (Problem.MASK_IMAGES, Problem.MASK)
"""The codes of problems of masks that disagree with the images of their change."""


def disagreements(capture: Any, limit: int = 50) -> list[Record]:
    """The first problems of :data:`DISAGREEMENTS`, by file and offset."""
    return first_problems(capture, ("file", "offset", "code"), limit, DISAGREEMENTS)


_KEYED: Final = ("operation", "schema_name", "table_name", "key", "before", "after")
_MOVED: Final = ("position", "changed_at", "transaction_id", "file", "file_index", "offset")
_KEY_CHANGES: Final = pa.schema([*((name, pa.string()) for name in ("table", *KEYS)), *map(CHANGES.field, _MOVED)])


def key_changes(capture: Any, limit: int = 50) -> tuple[int, list[Record]]:
    """The number of updates that changed a column of their key, and the first of them in capture order: ``table``,
    ``old_key`` and ``new_key`` (texts ``c=v, c=v``), ``position``, ``changed_at``, ``transaction_id``, ``file``,
    ``offset``. Requires known key columns that both images have."""
    if isinstance(capture, SelectedCapture):
        number, headers = len(capture.changed_keys), capture.headers
        keys = capture.changed_keys.slice(0, limit)
        rows = np.asarray(keys["row"])
        columns = {"table": headers.column("table_name", rows), **{name: keys[name] for name in KEYS}}
        columns |= {name: headers.column(name, rows) for name in _MOVED}
        columns["changed_at"] = pa.array(headers.at[rows], mask=headers.at[rows] == NO_TIME)
        found = pa.table(columns).cast(_KEY_CHANGES)
    else:
        moved = dated_rows(capture, (*_KEYED, *_MOVED)).map(_moved, _KEY_CHANGES)
        number, found = moved.fold(*together((len, total), first_of(_KEY_CHANGES, _PLACE[:2], limit)))
    records: list[Record] = found.drop_columns(["file_index"]).to_pylist()
    return number, records


def _moved(changes: pa.RecordBatch) -> pa.RecordBatch:
    keys = changed_keys(changes)
    columns = [table_labels(changes), *(keys[name] for name in KEYS), *(changes[name] for name in _MOVED)]
    columns = [column.cast(field.type) for column, field in zip(columns, _KEY_CHANGES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_KEY_CHANGES).filter(keys["new_key"].is_valid())


def masks(capture: Any, limit: int = MOST_MASKS) -> tuple[int, list[Record]]:
    """The number of distinct masks, and the most frequent of them, by table: ``table``, ``table_version``,
    ``operation``, ``change_mask`` (as the source wrote it), ``changed_columns`` (its meaning), ``changes`` (how many
    have it), ``position``, ``file`` and ``offset`` of the first."""
    rows = _counts(capture).masks().to_pylist()
    number = len(rows)
    rows.sort(key=lambda row: (-row["changes"], row["table"], row["change_mask"], row["operation"] or ""))
    rows = rows[:limit]
    for row in rows:
        names = row.pop("set")
        row["changed_columns"] = None if names is None else names_of(names)
    return number, sorted(rows, key=lambda row: (row["table"], -row["changes"], row["change_mask"]))


_MASKS_OF: Final = pa.schema(
    [*((name, pa.string()) for name in _MASKS), ("changes", pa.int64()), *(CHANGES.field(name) for name in _PLACE)]
)


def _masks_of(headers: Headers, mask: Bools) -> pa.Table:
    rows = headers.in_order(mask & (headers.codes["mask"] >= 0))
    names = ("table", "version", "operation", "mask", "set")
    codes = pa.table([*(headers.codes[name][rows] for name in names), np.arange(len(rows))], [*names, "row"])
    groups = codes.group_by([*names], use_threads=False).aggregate([("row", "min"), ("row", "count")])
    texts = {**headers.texts, "set": [BETWEEN.join(columns) for columns in headers.sets]}
    columns = [
        pa.array(texts[name], pa.string()).take(pa.array(code, mask=code < 0))
        for name, code in ((name, np.asarray(groups[name])) for name in names)
    ]
    firsts = rows[np.asarray(groups["row_min"])]
    columns += [groups["row_count"], *(headers.column(name, firsts) for name in _PLACE)]
    return pa.table(columns, _MASKS_OF.names).cast(_MASKS_OF)


def _merged_masks(parts: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts) if parts else _MASKS_OF.empty_table()
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
    masks: Iterable[Mapping[str, Any]], versions: Iterable[Mapping[str, Any]], detected: Iterable[Mapping[str, Any]]
) -> list[Drawn]:
    """The masks of :func:`cdcwb.analysis.masks.masks`, bit by bit. ``versions`` and ``detected`` are rows of these
    tables, which give the columns of each version, and the byte order and offset (big and 0 if not detected).

    Texts that are not masks are left out.
    """
    columns: dict[str, list[str | None]] = {}
    for row in versions:
        by_ordinal = {column["ordinal"]: column["name"] for column in row["columns"] or ()}
        columns[row["table_version"]] = [by_ordinal.get(at) for at in range(1, max(by_ordinal, default=0) + 1)]
    orders, offsets, forms = (_settings(detected, f"mask_{name}") for name in ("order", "offset", "text"))
    drawn = []
    for row in masks:
        names = columns.get(row["table_version"], [])
        order = orders.get(row["table"], orders.get("capture", "big"))
        offset = int(offsets.get(row["table"], offsets.get("capture", "0")))
        parsed, wrong = bitmask.parse(pa.array([row["change_mask"]], pa.string()), forms.get(row["table"]))
        if wrong[0]:
            continue
        width = offset + len(names) + _ROOM
        matrix, _ = bitmask.bits(parsed, order if order in bitmask.ORDERS else "big", width)
        flags = [bool(bit) for bit in matrix[0]]
        last = max((at for at, flag in enumerate(flags) if flag), default=-1)
        bits = [_bit(at, flags[at], offset, names) for at in range(max(offset + len(names), last + 1))]
        named = None if row["changed_columns"] is None else tuple(row["changed_columns"])
        about = (row["table"], row["operation"], row["change_mask"], row["changes"])
        drawn.append(Drawn(*about, order, offset, tuple(bits), named))
    return drawn


def _bit(at: int, is_set: bool, offset: int, names: Sequence[str | None]) -> Bit:
    if at < offset:
        return Bit(at, None, "header", is_set)
    if at < offset + len(names):
        return Bit(at, names[at - offset], "data", is_set)
    return Bit(at, None, "beyond", is_set)


def _settings(detected: Iterable[Mapping[str, Any]], setting: str) -> dict[str, str]:
    return {row["scope"]: row["value"] for row in detected if row["setting"] == setting}
