"""Questions that only an event log answers: its rows in the form that publication reads, whether old values follow from
new ones, and the net effect of an object's rows (docs/formats/idm-event-log.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import MAP, Ints, Pairs, group_starts, maps_of, ranks, row_texts
from cdcwb.dataset import Batches, Rows, complete_keys, differ
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT
from cdcwb.formats.options import as_object
from cdcwb.formats.source import fetched, is_folder
from cdcwb.model import Kind
from cdcwb.words import visible
from cdcwb.xds import ROWS, Settings
from cdcwb.xds.rows import codes, flags

__all__ = [
    "LOCATION",
    "OBJECT",
    "chain_breaks",
    "location_texts",
    "log_events",
    "log_rows",
    "net_effects",
    "read_settings",
    "snapshot_files",
]

LOCATION: Final = ("file_index", "offset")

OBJECT: Final = ("table", "table_key")
"""The columns that name the object of a row in :func:`chain_breaks` and :func:`net_effects`."""

_EVENTS: Final = ("kind", "position", "changed_at", "headers", *LOCATION)
_AT_ONCE: Final = 1 << 16  # rows whose objects are evaluated together
_WITH_NEW: Final = (1, 2, 3)
_WITH_OLD: Final = (2, 3)
_QUERY_BACK_ROW: Final = (5, 6)
_INSERTS: Final = (1, 5, 7)
_RESETS: Final = (4, 5, 6)  # after these types no column's value is known from the log


def log_events(capture: Any) -> Rows:
    """The events of a capture that are rows of the log, as the functions of this module take them. ``capture`` is
    anything with the rows of a capture. Raises CaptureError for a capture of another format."""
    if capture.format != FORMAT:
        raise CaptureError(f"this question is asked of event logs ({FORMAT}); the capture is of {capture.format}")
    if not capture.has_images:
        raise CaptureError("this question is asked of values, and the capture was loaded with images=False")
    kinds = pa.array([str(Kind.CHANGE), str(Kind.CONTROL)])
    rows: Rows = capture.rows("events", (*_EVENTS, "before"))  # headers have the values only together with images
    return rows.where(lambda batch: pc.is_in(batch["kind"], kinds)).select(_EVENTS)


def log_rows(events: Rows) -> Rows:
    """The rows of the log, with exactly the columns of :data:`cdcwb.xds.ROWS`, unordered.

    Values are the source's own text. Columns that a reduced form lacks are filled: record_id with the number of the
    row, status with N.
    """
    return events.map(_row_of_log, _SAME_ID).by_key(["same"], LOCATION, _repeated, ROWS)


_SAME_ID: Final = ROWS.append(pa.field("same", pa.string()))


def _row_of_log(batch: pa.RecordBatch) -> pa.RecordBatch:
    filled = {"record_id": pc.replace_substring_regex(batch["position"], "^0+", ""), "status": pa.scalar("N")}
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        columns[name] = pc.map_lookup(batch["headers"], name, "first")
        if name in filled and columns[name].null_count:
            has_column, _ = Pairs(batch["headers"]).of_column(name)
            columns[name] = pc.if_else(pa.array(has_column), columns[name], filled[name])
    columns |= {name: batch[name] for name in LOCATION}
    columns["event_us"] = batch["changed_at"].cast(pa.int64())
    columns["repeated"] = pa.repeat(False, len(batch))
    columns["same"] = pc.coalesce(batch["position"], location_texts(batch))
    return pa.RecordBatch.from_arrays([columns[name] for name in _SAME_ID.names], schema=_SAME_ID)


def location_texts(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """A text for the location of each row."""
    return pc.binary_join_element_wise(*(batch[name].cast(pa.string()) for name in LOCATION), " ")


def _repeated(batches: Batches) -> Batches:
    """Marks the rows with the record_id of an earlier one."""
    last: str | None = None
    for batch in batches:
        same = batch["same"]
        repeated = np.ones(len(batch), np.bool_)
        repeated[group_starts(same)] = False
        repeated[0] = same[0].as_py() == last
        last = same[len(same) - 1].as_py()
        yield pa.RecordBatch.from_arrays([*batch.columns[: len(ROWS) - 1], pa.array(repeated)], schema=ROWS)


# --- objects ----------------------------------------------------------------------------------------------------------

_LOGGED: Final = pa.schema(
    [
        *((name, pa.string()) for name in OBJECT),
        *((name, pa.int64()) for name in ("record_id", "event_type")),
        *((name, pa.string()) for name in ("column_name", "old_value", "new_value")),
        *(ROWS.field(name) for name in LOCATION),
    ]
)


def _of_objects(rows: Rows, function: Any, schema: pa.Schema) -> Rows:
    """The rows that a function makes of rows of a known type with known object and record_id: it gets all rows of an
    object, those of :data:`_LOGGED`, in the order of the log."""

    def each(batches: Batches) -> Batches:
        for rows in complete_keys(batches, OBJECT, _AT_ONCE):
            yield function(rows)

    return rows.map(_logged, _LOGGED).by_key(OBJECT, ("record_id", *LOCATION), each, schema)


def _logged(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ["table_name" if name == "table" else name for name in _LOGGED.names]
    columns = [batch[name].cast(field.type) for name, field in zip(names, _LOGGED, strict=True)]
    known = [flags(batch[name].is_valid()) for name in ("table_name", "table_key", "record_id", "event_type")]
    return pa.RecordBatch.from_arrays(columns, schema=_LOGGED).filter(pa.array(np.logical_and.reduce(known)))


_CHAIN: Final = pa.schema(
    [
        *(_LOGGED.field(name) for name in (*OBJECT, "column_name", "record_id", "old_value", *LOCATION)),
        ("previous_record_id", pa.int64()),
        ("previous_new_value", pa.string()),
        *((f"previous_{name}", ROWS.field(name).type) for name in LOCATION),
    ]
)


def chain_breaks(rows: Rows) -> Rows:
    """Rows of a log (:data:`cdcwb.xds.DECISIONS` with their values) whose old value differs from the new value that the
    previous row wrote to the same column of the same object.

    One row for each break: table, table_key, column_name, record_id, old_value, file_index, offset, and of the previous
    row previous_record_id, previous_new_value, previous_file_index, previous_offset. After a row that does not give the
    value (types 4, 5, 6, or 7 and 8 of the column) nothing is compared. A NULL old value of type 3 is not compared
    either, since publication does not read it.
    """
    return _of_objects(rows, _breaks, _CHAIN)


def _breaks(rows: pa.RecordBatch) -> pa.RecordBatch:
    kind, numbers = rows["event_type"].to_numpy(), np.arange(len(rows))
    column = codes(*(rows[name] for name in (*OBJECT, "column_name")))
    by_column = np.argsort(column, kind="stable")
    follows = np.flatnonzero(np.diff(column[by_column]) == 0) + 1
    before = np.full(len(rows), -1)
    before[by_column[follows]] = by_column[follows - 1]
    reset = np.maximum.accumulate(np.where(np.isin(kind, _RESETS), numbers, -1))
    named = np.isin(kind, _WITH_OLD) & flags(rows["column_name"].is_valid())
    named &= (kind == 2) | flags(rows["old_value"].is_valid())
    # a reset of another object precedes all rows of this one
    known = (before >= 0) & (before > reset) & np.isin(kind[before], _WITH_NEW)
    previous = rows.take(pa.array(np.maximum(before, 0)))
    broken = pa.array(named & known & differ(previous["new_value"], rows["old_value"]))
    rows, previous = rows.filter(broken), previous.filter(broken)
    of_previous = {f"previous_{name}": previous[name] for name in ("record_id", "new_value", *LOCATION)}
    columns = [of_previous[name] if name in of_previous else rows[name] for name in _CHAIN.names]
    return pa.RecordBatch.from_arrays(columns, schema=_CHAIN)


_NET: Final = pa.schema(
    [
        *(_LOGGED.field(name) for name in OBJECT),
        *((name, pa.int64()) for name in ("rows", "first_record_id", "last_record_id")),
        ("effect", pa.string()),
        ("before", MAP),
        ("after", MAP),
        ("read_back", pa.list_(pa.string())),
    ]
)


def net_effects(rows: Rows) -> Rows:
    """The net effect of all rows of an object, as in :func:`chain_breaks`, one row for each object; for a period of
    time use a filtered capture.

    ``table``, ``table_key``, ``rows``, ``first_record_id``, ``last_record_id``; ``effect``: inserted, updated, deleted,
    inserted and deleted, or nothing; ``before``: values at the start of the columns that the rows name, ``after``:
    those at the end (null map: the object did not, or does not, exist); ``read_back``: columns whose last value is not
    in the log and has to be read from the table (``*`` for the complete row). An object whose first row is not an
    insert existed before.
    """
    return _of_objects(rows, _effects, _NET)


def _effects(rows: pa.RecordBatch) -> pa.RecordBatch:
    kind, numbers, count = rows["event_type"].to_numpy(), np.arange(len(rows)), len(rows)
    objects = codes(*(rows[name] for name in OBJECT))
    first = np.flatnonzero(np.append(True, np.diff(objects) != 0))
    last = np.append(first[1:], count) - 1
    of_row = np.repeat(np.arange(len(first)), last - first + 1)  # the number of each row's object
    removed = np.maximum.reduceat(np.where(kind == 4, numbers, -1), first)  # its last delete
    first_removed = np.minimum.reduceat(np.where(kind == 4, numbers, count), first)
    asked = np.maximum.reduceat(np.where(np.isin(kind, _QUERY_BACK_ROW), numbers, -1), first)
    existed, exists = ~np.isin(kind[first], _INSERTS), kind[last] != 4

    # the first and the last row of each column of an object, by name
    named = np.flatnonzero(flags(rows["column_name"].is_valid()))
    rank = ranks(rows["column_name"].take(pa.array(named)))
    order = np.lexsort((rank, of_row[named]))
    named, rank = named[order], rank[order]
    starts = np.flatnonzero(np.append(True, (np.diff(of_row[named]) != 0) | (np.diff(rank) != 0))[: len(named)])
    old, new = named[starts], named[np.append(starts[1:], len(named)) - 1] if len(named) else named
    owner = of_row[old]
    had = (old < first_removed[owner]) & np.isin(kind[old], _WITH_OLD) & existed[owner]
    lasts = (new > removed[owner]) & exists[owner]  # no delete follows
    has = lasts & np.isin(kind[new], _WITH_NEW) & (new > asked[owner])
    unknown = lasts & (kind[new] >= 5)

    row_asked = (asked >= 0) & (asked > removed)
    unknown &= ~row_asked[owner]
    before, after = _values(rows, old[had], "old_value"), _values(rows, new[has], "new_value")
    sizes = [np.bincount(owner[chosen], minlength=len(first)) for chosen in (had, has)]
    asks = np.bincount(owner[unknown], minlength=len(first)) + row_asked
    same = (removed < 0) & (asks == 0) & ~differ(row_texts(sizes[0], *before), row_texts(sizes[1], *after))
    effect = np.select(
        [~existed & exists, ~existed, ~exists, same],
        ["inserted", "inserted and deleted", "deleted", "nothing"],
        "updated",
    )
    back = np.concatenate([owner[unknown], np.flatnonzero(row_asked)])
    names = pa.concat_arrays([rows["column_name"].take(pa.array(new[unknown])), pa.repeat("*", int(row_asked.sum()))])
    offsets = pa.array(np.append(0, np.cumsum(asks)).astype(np.int32))
    columns = [
        *(rows[name].take(pa.array(first)) for name in OBJECT),
        pa.array(last - first + 1),
        *(rows["record_id"].take(pa.array(at)) for at in (first, last)),
        pa.array(effect.tolist(), pa.string()),
        maps_of(sizes[0], *before, existed),
        maps_of(sizes[1], *after, exists),
        pa.ListArray.from_arrays(offsets, names.take(pa.array(np.argsort(back, kind="stable")))),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_NET)


def _values(rows: pa.RecordBatch, chosen: Ints, value: str) -> tuple[pa.Array, pa.Array]:
    return rows["column_name"].take(pa.array(chosen)), rows[value].take(pa.array(chosen))


# --- settings and snapshot --------------------------------------------------------------------------------------------


def read_settings(
    driver_user: str = "", as_of: str = "", batch_size: int = 0, settings: str | Mapping[str, Any] = "{}"
) -> Settings:
    """The settings of a publication from a notebook's parameters; empty and 0 mean not given.

    ``settings`` is a JSON object of the others. With ``as_of`` rows are ordered by event_time. Raises OptionError.
    """
    parsed = as_object("settings", settings)
    settings_given = {"driver_user": driver_user, "as_of": as_of, "batch_size": batch_size}
    settings_given = {name: value for name, value in settings_given.items() if value not in ("", 0, None)}
    for name in settings_given:
        if name in parsed:
            raise OptionError(f"'{name}' is given twice, on its own and in settings")
    if "as_of" in settings_given:
        settings_given["future_events"] = parsed.get("future_events", True)
    return Settings.parse(parsed | settings_given)


def snapshot_files(snapshot: str | Mapping[str, str], path: str) -> dict[str, str]:
    """The files of a snapshot by the names of their tables.

    ``snapshot``: a JSON object, or a folder with a file (or folder) for each table; empty: no snapshot; ``auto``: the
    folder ``NAME.snapshot`` next to the capture at ``path``, if it exists. Raises OptionError.
    """
    if snapshot == "auto":
        default = f"{str(path).rstrip('/')}.snapshot"
        return _files_of(fetched(default)) if is_folder(default) else {}
    if isinstance(snapshot, Mapping) or str(snapshot).lstrip().startswith("{"):
        return {name: str(file) for name, file in as_object("snapshot", snapshot).items()}
    if not snapshot:
        return {}
    folder = fetched(snapshot).expanduser()
    if not folder.is_dir():
        raise OptionError(f"snapshot: expected a JSON object or a folder, found {visible(repr(snapshot))}")
    return _files_of(folder)


def _files_of(folder: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith((".", "_")):
            continue
        table = file.name if file.is_dir() else file.name.removesuffix(file.suffix)
        if table in files:
            raise OptionError(f"snapshot: '{visible(file)}' is a second file of table '{visible(table)}'")
        files[table] = str(file.absolute())
    return files
