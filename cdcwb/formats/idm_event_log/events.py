"""Rows of an event log as Arrow batches of ``events``, column by column (docs/formats/idm-event-log.md §6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays.maps import MapBuilder, TextPool
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.idm_event_log.facts import EVENT_TYPES, numbers
from cdcwb.formats.idm_event_log.laid import Bools, Ints, ranges
from cdcwb.formats.idm_event_log.log import COLUMNS, FORMAT, Finding
from cdcwb.formats.idm_event_log.rules import PER_FIELD, check, lacking, one_of, typed
from cdcwb.formats.idm_event_log.table_key import KeyColumn, parse_column
from cdcwb.formats.moments import MICROSECONDS
from cdcwb.model import Kind, OffsetUnit

__all__ = ["VALUES", "Source", "split_name", "split_names", "to_events"]

VALUES: Final = ("old_value", "new_value")
"""The columns that are read with images alone."""

_OPERATIONS: Final = pa.array([None, *(str(one.operation) for one in EVENT_TYPES.values())], pa.string())
_KINDS: Final = pa.array([str(Kind.CONTROL), *[str(Kind.CHANGE)] * len(EVENT_TYPES)])
_BEFORE: Final = (2, 3)
_AFTER: Final = (1, 2, 3)
_DELETE: Final = numbers(operation=model.Operation.DELETE)
_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Source:
    """What is the same for all rows of a file. ``absent``: columns of the log that it does not have; ``schema``: of
    tables that are named without one; ``zone``: of times that bear none."""

    path: str
    file_index: int
    unit: OffsetUnit
    absent: frozenset[str] = frozenset()
    schema: str | None = None
    zone: str = "UTC"


def to_events(
    log: pa.RecordBatch,
    source: Source,
    offset: Ints,
    length: Ints,
    raw: pa.BinaryArray | None,
    wanted: Wanted = EVERYTHING,
    findings: Sequence[Finding] = (),
) -> pa.RecordBatch:
    """The events of rows of :data:`~cdcwb.formats.idm_event_log.log.LOG`, one for each, in their order.

    ``offset`` and ``length`` are the places of the rows in the source's unit, ``raw`` their bytes (None: the source has
    none). ``findings`` were made when the rows were read; they stand before those of the rules. Of ``wanted`` only
    ``images`` counts: without them there are neither images nor bytes nor old and new values.
    """
    count = log.num_rows
    said = typed(log, source.zone)
    keys = parse_column(log.column("table_key"))
    schema, table = split_names(log.column("table_name"), source.schema)
    per_field = one_of(said.event_type, PER_FIELD) & ~lacking(log.column("column_name"))
    columns: dict[str, pa.Array | None] = {
        "format": pa.repeat(FORMAT, count),
        "file": pa.repeat(source.path, count),
        "file_index": pa.array(np.full(count, source.file_index, np.int32)),
        "offset": pa.array(offset, pa.int64()),
        "length": pa.array(length, pa.int64()),
        "offset_unit": pa.repeat(str(source.unit), count),
        "record_type": log.column("event_type"),
        **_meanings(log, said.event_type),
        "position": pc.ascii_lpad(said.record_id.cast(pa.string()), _DIGITS, "0"),
        "changed_at": said.event_us.view(pa.timestamp("us")).cast(MICROSECONDS),
        "schema_name": schema,
        "table_name": table,
        "table_version": _versions(schema, table),
        "changed_columns": _lists(log.column("column_name"), per_field),
        "key": keys.pairs,
        "headers": _headers(log, source.absent, wanted.images),
        "problems": _problems([*findings, *check(log, source.absent, source.zone, said, keys)], count),
    }
    if wanted.raw:
        columns["raw"] = raw
    if wanted.images and wanted.needs("before", "after"):
        columns["before"] = _before(log, said.event_type, per_field, keys, source.absent)
        columns["after"] = _after(log, said.event_type, per_field, source.absent)
    arrays = [
        pa.nulls(count, field.type) if (found := columns.get(field.name)) is None else found for field in model.EVENTS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)


def _meanings(log: pa.RecordBatch, types: pa.Int32Array) -> dict[str, pa.Array]:
    """Kind and operation; what is no event type is a control record of an unknown operation."""
    places = pc.fill_null(types, 0)
    operation = _OPERATIONS.take(places)
    if types.null_count:
        unknown = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(log.column("event_type"), ""), ")", "")
        operation = pc.coalesce(operation, unknown)
    return {"kind": _KINDS.take(places), "operation": operation}


# --- names ------------------------------------------------------------------------------------------------------------


def split_name(name: str | None, schema: str | None) -> tuple[str | None, str | None]:
    """Schema and table of a table's name as the log has it: parted at the last dot; ``schema`` where it names none."""
    if not name:
        return schema, None
    head, _, tail = name.rpartition(".")
    return (head, tail) if head and tail else (schema, name)


def split_names(names: pa.StringArray, schema: str | None) -> tuple[pa.StringArray, pa.StringArray]:
    """What :func:`split_name` says of each name; there are few different ones."""
    encoded = names.dictionary_encode()
    known = [*encoded.dictionary.to_pylist(), None]
    pairs = [split_name(name, schema) for name in known]
    index = pc.fill_null(encoded.indices, len(known) - 1)
    owners, tables = (pa.array([pair[side] for pair in pairs], pa.string()).take(index) for side in (0, 1))
    return owners, tables


def _versions(schema: pa.StringArray, table: pa.StringArray) -> pa.StringArray:
    """The one version that a table of a log has: its label and ``@1``."""
    first = pc.binary_join_element_wise(schema, table, ".")
    return pc.binary_join_element_wise(pc.coalesce(first, table), "1", "@")


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


def _after(log: pa.RecordBatch, types: pa.Int32Array, per_field: Bools, absent: frozenset[str]) -> pa.MapArray | None:
    """The new value of one column."""
    if "new_value" in absent:
        return None
    rows = per_field & one_of(types, _AFTER)
    texts = (_chosen(log.column(name), rows) for name in ("column_name", "new_value"))
    return pa.MapArray.from_arrays(_offsets(rows.astype(np.int64), rows), *texts)


def _before(
    log: pa.RecordBatch, types: pa.Int32Array, per_field: Bools, keys: KeyColumn, absent: frozenset[str]
) -> pa.MapArray:
    """The old value of one column; of a deleted row its key."""
    old = per_field & one_of(types, _BEFORE) & ("old_value" not in absent)
    gone = one_of(types, _DELETE) & pc.is_valid(keys.pairs).to_numpy(zero_copy_only=False)
    if not gone.any():
        texts = (_chosen(log.column(name), old) for name in ("column_name", "old_value"))
        return pa.MapArray.from_arrays(_offsets(old.astype(np.int64), old), *texts)
    begin = keys.pairs.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.where(gone, np.diff(begin), old.astype(np.int64))
    first = np.where(gone, log.num_rows + begin[:-1], np.arange(log.num_rows))
    places = pa.array(ranges(first, counts))
    sides = ((log.column("column_name"), keys.pairs.keys), (log.column("old_value"), keys.pairs.items))
    texts = (pa.concat_arrays(list(side)).take(places) for side in sides)
    return pa.MapArray.from_arrays(_offsets(counts, old | gone), *texts)


def _headers(log: pa.RecordBatch, absent: frozenset[str], images: bool) -> pa.MapArray:
    """All columns that the source has, as it wrote them."""
    names = [name for name in COLUMNS if name not in absent and (images or name not in VALUES)]
    pool = TextPool()
    build = MapBuilder(log.num_rows, pool)
    places = [pool.add(log.column(name)) for name in names]
    stacked = np.stack(places, axis=1) if places else np.empty((log.num_rows, 0), np.int64)
    build.group(np.arange(log.num_rows), names, stacked)
    return build.build()


def _problems(findings: Sequence[Finding], count: int) -> pa.ListArray | None:
    if not findings:
        return None
    ordered = sorted(findings, key=lambda finding: finding.row)
    counts = np.bincount([finding.row for finding in ordered], minlength=count)
    items = pa.StructArray.from_arrays(
        [
            pa.array([str(finding.code) for finding in ordered], pa.string()),
            pa.array([finding.sentence for finding in ordered], pa.string()),
        ],
        fields=list(model.PROBLEM),
    )
    return pa.ListArray.from_arrays(_offsets(counts, counts > 0), items)
