"""The order of exported rows.

Events and changes are ordered by (file_index, offset); transactions by the position of their begin, or of their first
record without a begin; table versions by the event that defines them, those from outside the capture first; problems of
the complete capture first, then by file and offset; detected settings by scope (the capture first) and setting (the
format first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.dataset import Rows

Keys = Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
"""Columns to order by that rows do not have themselves."""


def listed(capture: Any, view: str) -> list[dict[str, Any]]:
    """The rows of ``table_versions`` or ``detected`` in order."""
    rows: list[dict[str, Any]] = ordered(capture, view).table().to_pylist()
    return rows


def ordered(capture: Any, view: str) -> Rows:
    """The rows of a view (a name of :data:`cdcwb.model.TABLES`) in order, with exactly the model's columns."""
    columns = model.TABLES[view].names
    rows, by = located(capture, view, columns)
    return rows.sorted(by).select(columns)


def located(capture: Any, view: str, columns: Sequence[str]) -> tuple[Rows, Sequence[str]]:
    """Some columns of a view, with those that only order its rows, and the names of all that do."""
    rows: Rows = capture.rows(view, columns)
    if view in ("events", "changes"):
        return rows, ("file_index", "offset")
    keys, by = _orders({entry["file"]: entry["file_index"] for entry in capture.files})[view]

    def add(batch: pa.RecordBatch) -> pa.RecordBatch:
        added = keys(batch)
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=[*batch.schema.names, *added])

    schema = rows.schema
    added = add(pa.RecordBatch.from_pylist([], schema)).schema
    extended = pa.schema([*schema, *list(added)[len(schema) :]])
    return rows.map(add, extended), by


def _orders(files: Mapping[str, int]) -> dict[str, tuple[Keys, Sequence[str]]]:
    """The keys of each table that has others than its columns, and the names of all that it is ordered by."""
    indexes = pa.array([*files.values()], pa.int32())

    def of_transaction(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        first = pc.struct_field(pc.extract_regex(batch["transaction_id"], "~(?P<at>.*)$"), "at")
        return {"_first": pc.fill_null(pc.coalesce(batch["begin_position"], first), "")}

    def of_version(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        event = batch["first_event"]
        return {f"_{name}": pc.struct_field(event, name) for name in ("file_index", "offset")}

    def of_problem(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        index = indexes.take(pc.index_in(batch["file"], pa.array([*files], pa.string())))
        return {"_has_file": batch["file"].is_valid(), "_index": index}

    def of_setting(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        firsts = (("scope", "capture"), ("setting", "format"))
        return {f"_{name}": pc.not_equal(batch[name], first) for name, first in firsts}

    problem = ("file", "offset", "length", "severity", "code", "sentence", "transaction_id", "table")
    return {
        "transactions": (of_transaction, ("_first", "transaction_id")),
        "table_versions": (of_version, ("_file_index", "_offset", "table_version")),
        "problems": (of_problem, ("_has_file", "_index", *problem)),
        "detected": (of_setting, ("_scope", "scope", "_setting", "setting", "value")),
    }
