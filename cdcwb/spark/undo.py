"""Changes that take back earlier ones of their transaction: NonStop's UndoFlag (docs/formats/goldengate.md §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.model import Operation, Outcome
from cdcwb.spark.pairing import table_label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FLAG", "mark", "outcomes"]

FLAG: Final = "UndoFlag"
"""The header that is 1 where a record takes back an earlier one."""

_OPPOSITE: Final = {
    str(Operation.INSERT): str(Operation.DELETE),
    str(Operation.DELETE): str(Operation.INSERT),
    str(Operation.UPDATE): str(Operation.UPDATE),
}
_MARKS: Final = pa.schema(
    [("_file_index", pa.int32()), ("_offset", pa.int64()), ("_mark", pa.string())],
)

Change = Mapping[str, Any]


def mark(changes: DataFrame, imaged: DataFrame) -> DataFrame:
    """Changes with the outcomes ``undo`` and ``undone``. ``imaged`` are the same changes with their images."""
    undoing = imaged.filter(F.col("headers")[FLAG] == "1").select("transaction_id").distinct()
    told = imaged.join(undoing, "transaction_id", "left_semi").select(
        "transaction_id",
        "file_index",
        "offset",
        "position",
        "operation",
        table_label().alias("table"),
        (F.col("headers")[FLAG] == "1").alias("undoes"),
        *(F.map_entries(name).alias(name) for name in ("key", "before", "after")),
    )
    marks = told.groupBy("transaction_id").applyInArrow(_marks, from_arrow_schema(_MARKS))
    joined = changes.join(
        marks, (F.col("file_index") == F.col("_file_index")) & (F.col("offset") == F.col("_offset")), "left"
    )
    return joined.withColumn("outcome", F.coalesce("_mark", "outcome")).select(*changes.columns)


def _marks(table: pa.Table) -> pa.Table:
    """The places and outcomes of one transaction's changes that are undone or undo others."""
    rows = [
        row | {name: _image(row[name]) for name in ("key", "before", "after")}
        for row in table.sort_by(
            [("position", "ascending"), ("file_index", "ascending"), ("offset", "ascending")]
        ).to_pylist()
    ]
    found = outcomes(rows)
    return pa.Table.from_pylist(
        [
            {"_file_index": rows[at]["file_index"], "_offset": rows[at]["offset"], "_mark": mark}
            for at, mark in sorted(found.items())
        ],
        schema=_MARKS,
    )


def _image(entries: list[dict[str, Any]] | None) -> dict[str, str | None] | None:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}


def outcomes(changes: Sequence[Change]) -> dict[int, str]:
    """Which of a transaction's changes, in log order, undo others (``undo``) and which are undone: index -> outcome.

    A change with ``undoes`` takes back the latest change before it that is not taken back yet, is of the same table,
    has the opposite operation and the same row: the same key where both have one, else images that agree in every
    column they share.
    """
    found: dict[int, str] = {}
    for at, change in enumerate(changes):
        if not change["undoes"]:
            continue
        found[at] = str(Outcome.UNDO)
        wanted = _OPPOSITE.get(change["operation"])
        for earlier in range(at - 1, -1, -1):
            other = changes[earlier]
            if (
                earlier not in found
                and other["operation"] == wanted
                and other["table"] == change["table"]
                and _same_row(other, change)
            ):
                found[earlier] = str(Outcome.UNDONE)
                break
    return found


def _same_row(done: Change, undoing: Change) -> bool:
    if done["key"] is not None and undoing["key"] is not None:
        return bool(done["key"] == undoing["key"])
    pairs = [(done["after"], undoing["before"]), (done["before"], undoing["after"])]
    shared = [(one, other, one.keys() & other.keys()) for one, other in pairs if one is not None and other is not None]
    return any(names for _, _, names in shared) and all(
        one[name] == other[name] for one, other, names in shared for name in names
    )
