"""Rows of an event log as columns of ``events`` (docs/formats/idm-event-log.md §1.3, §1.5, §6.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, interleaved, labels, maps_of
from cdcwb.formats.containers.rows import DelimitedRows
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG, numbers
from cdcwb.formats.idm_event_log.rules import VALUES, TypedLog, check, one_of
from cdcwb.formats.idm_event_log.values import Bools, Ints, ranges
from cdcwb.formats.moments import MICROSECONDS
from cdcwb.formats.table_rows import RowBatch, TableFile
from cdcwb.model import Kind, Operation

__all__ = ["LogFile", "events_of_log", "log_of", "split_name", "split_names"]

_OPERATIONS: Final = pa.array([None, *(str(one.operation) for one in EVENT_TYPES.values())], pa.string())
_KINDS: Final = pa.array([str(Kind.CONTROL), *[str(Kind.CHANGE)] * len(EVENT_TYPES)])
_BEFORE: Final = (2, 3)
_REPLACES: Final = (3,)
_AFTER: Final = (1, 2, 3)
_DELETE: Final = numbers(operation=Operation.DELETE)
_DIGITS: Final = 19
_OF_TYPE: Final = frozenset({"kind", "operation", "record_type"})  # columns of events that follow from event_type


@dataclass(slots=True, kw_only=True)
class LogFile(TableFile):
    """One file. ``labels``: the vendor's names -> the source's, of the columns that it has; ``null_text``: what is NULL
    besides that which the container has."""

    labels: Mapping[str, str] = field(default_factory=dict)
    null_text: str = ""

    @property
    def is_numbered(self) -> bool:
        """Whether record_id is the number of the row."""
        return "record_id" not in self.labels

    @property
    def absent(self) -> frozenset[str]:
        """The columns that it does not have."""
        return frozenset(COLUMNS) - self.labels.keys()


def log_of(rows: RowBatch, only: Collection[str] = COLUMNS) -> pa.RecordBatch:
    """Rows of a file as rows of :data:`LOG`. Columns that are not in ``only`` are null."""
    entry: Any = rows.file
    columns: dict[str, pa.Array] = {}
    for name in COLUMNS:
        if name not in only:
            columns[name] = pa.nulls(len(rows), pa.string())
        elif name in entry.labels:
            columns[name] = _texts(rows, entry.labels[name])
        elif name == "record_id":
            columns[name] = pa.array(rows.numbers).cast(pa.string())
        else:
            columns[name] = pa.repeat("N", len(rows)) if name == "status" else pa.nulls(len(rows), pa.string())
    return pa.RecordBatch.from_pydict(columns, LOG)


def _texts(rows: RowBatch, label: str) -> pa.StringArray:
    """A column, in which the text of NULL is null: in delimited text an empty field without quotes too."""
    entry: Any = rows.file
    texts, null = rows.text(label), pa.scalar(None, pa.string())
    if not entry.null_text or label not in rows.names:
        return texts
    if not isinstance(rows.rows, DelimitedRows):
        return pc.if_else(pc.equal(texts, entry.null_text), null, texts)
    place = rows.names.index(label)
    empty = rows.rows.starts[:, place] == rows.rows.ends[:, place]
    return pc.if_else(pa.array(empty), null, texts) if empty.any() else texts


def events_of_log(rows: RowBatch, options: Mapping[str, str]) -> dict[str, Any]:
    """The columns of events of rows; the rules that rows break become their problems."""
    entry: Any = rows.file
    wanted = rows.wanted
    only = {"event_type"} if wanted.columns is not None and wanted.columns <= _OF_TYPE else COLUMNS
    typed = TypedLog(log_of(rows, only), entry.absent, options["time_zone"])
    log = typed.log
    found: dict[str, Any] = {"record_type": log.column("event_type"), **_meanings(typed)}
    if len(only) == 1:
        return found
    found["position"] = pc.ascii_lpad(typed.record_id.cast(pa.string()), _DIGITS, "0")
    names = split_names(log.column("table_name"), options.get("schema"))
    found |= dict(zip(("schema_name", "table_name", "table_version"), names, strict=True))
    is_field = typed.is_field & ~typed.lacks("column_name")
    made: dict[str, Callable[[], pa.Array | None]] = {
        "changed_at": lambda: typed.event_us.view(pa.timestamp("us")).cast(MICROSECONDS),
        "changed_columns": lambda: _lists(log.column("column_name"), is_field),
        "key": lambda: typed.keys.pairs,
        "headers": lambda: _headers(log, entry.absent, wanted.images),
        "before": lambda: _before(typed, is_field) if wanted.images else None,
        "after": lambda: _after(typed, is_field) if wanted.images else None,
    }
    found |= {name: make() if wanted.needs(name) else None for name, make in made.items()}
    for one in check(typed) if wanted.needs("problems") else ():
        rows.problems.setdefault(one.row, []).append({"code": str(one.code), "detail": one.sentence})
    return found


def _meanings(typed: TypedLog) -> dict[str, pa.Array]:
    """Kind and operation; another event type is a control record of an unknown operation."""
    places = pc.fill_null(typed.event_type, 0)
    operation = _OPERATIONS.take(places)
    if typed.event_type.null_count:
        unknown = pc.is_null(typed.event_type)
        texts = pc.fill_null(typed.log.column("event_type").filter(unknown), "")
        operation = pc.replace_with_mask(operation, unknown, pc.binary_join_element_wise("UNKNOWN(", texts, ")", ""))
    return {"kind": _KINDS.take(places), "operation": operation}


# --- names ------------------------------------------------------------------------------------------------------------


def split_name(name: str | None, schema: str | None) -> tuple[str | None, str | None]:
    """Schema and table of a table's name as the log has it: split at the last dot; ``schema`` where it names none."""
    if not name:
        return schema, None
    head, _, tail = name.rpartition(".")
    return (head, tail) if head and tail else (schema, name)


def split_names(names: pa.StringArray, schema: str | None) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
    """What :func:`split_name` returns for each name, and the one version that a table of a log has: its label and
    ``@1``. There are few different names."""
    encoded = names.dictionary_encode()
    known = [*encoded.dictionary.to_pylist(), None]
    pairs = [split_name(name, schema) for name in known]
    owners, tables = (pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1))
    versions = pc.binary_join_element_wise(labels(owners, tables), "1", "@")
    index = pc.fill_null(encoded.indices, len(known) - 1)
    return owners.take(index), tables.take(index), versions.take(index)


# --- nested columns ---------------------------------------------------------------------------------------------------


def _offsets(counts: Ints, there: Bools) -> pa.Int32Array:
    """Offsets of lists and maps of so many items, null where ``there`` is false (and its count 0)."""
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.array(offsets, mask=np.append(~there, False))


def _chosen(texts: pa.StringArray, rows: Bools) -> pa.StringArray:
    return texts if rows.all() else texts.filter(pa.array(rows))


def _lists(texts: pa.StringArray, rows: Bools) -> pa.ListArray:
    """Lists of one text, for the rows that are chosen; null for the others."""
    return pa.ListArray.from_arrays(_offsets(rows.astype(np.int64), rows), _chosen(texts, rows))


def _after(typed: TypedLog, is_field: Bools) -> pa.MapArray | None:
    """The new value of one column."""
    if "new_value" in typed.absent:
        return None
    rows = is_field & one_of(typed.event_type, _AFTER)
    texts = (_chosen(typed.log.column(name), rows) for name in ("column_name", "new_value"))
    return pa.MapArray.from_arrays(_offsets(rows.astype(np.int64), rows), *texts)


def _before(typed: TypedLog, is_field: Bools) -> pa.MapArray:
    """The old value of one column; of a deleted row its key. A value that replaces all values (type 3) has none unless
    the log does."""
    log, types, pairs = typed.log, typed.event_type, typed.keys.pairs
    old = is_field & one_of(types, _BEFORE) & ("old_value" not in typed.absent)
    old &= ~(one_of(types, _REPLACES) & as_array(pc.is_null(log.column("old_value"))))
    gone = one_of(types, _DELETE) & as_array(pc.is_valid(pairs))
    if not gone.any():
        texts = (_chosen(log.column(name), old) for name in ("column_name", "old_value"))
        return pa.MapArray.from_arrays(_offsets(old.astype(np.int64), old), *texts)
    begin = pairs.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.where(gone, np.diff(begin), old.astype(np.int64))
    first = np.where(gone, log.num_rows + begin[:-1], np.arange(log.num_rows))
    places = pa.array(ranges(first, counts))
    sides = ((log.column("column_name"), pairs.keys), (log.column("old_value"), pairs.items))
    texts = (pa.concat_arrays(list(side)).take(places) for side in sides)
    return pa.MapArray.from_arrays(_offsets(counts, old | gone), *texts)


def _headers(log: pa.RecordBatch, absent: frozenset[str], images: bool) -> pa.MapArray:
    """All columns that the source has, as it wrote them."""
    names = [name for name in COLUMNS if name not in absent and (images or name not in VALUES)]
    return maps_of(names, interleaved([log.column(name) for name in names]), np.ones(log.num_rows, np.bool_))
