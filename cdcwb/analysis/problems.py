"""Questions about the problems of a capture: by code, and one by one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import rows_of
from cdcwb.model import PROBLEMS, Severity
from cdcwb.spark.folding import folded
from cdcwb.spark.stored import joined

if TYPE_CHECKING:
    from cdcwb.analysis.frames import Tables

__all__ = ["by_code", "first_problems", "worst"]

_CODE: Final = ["severity", "code"]
_PLACE: Final = ("sentence", "file", "offset")
_RANKS: Final = pa.array([*Severity], pa.string())

Record = dict[str, Any]


def by_code(capture: Tables) -> list[Record]:
    """Problems by code, worst first: ``severity``, ``code``, ``problems``, ``transactions`` (how many they touch), and
    one of them: ``sentence``, ``file``, ``offset`` of the first in file and offset."""
    rows = rows_of(capture, "problems", [*_CODE, *_PLACE, "transaction_id"])
    firsts, numbers = folded(rows, lambda batch: _merged([_counted(batch)]), _merged)
    of_code = numbers.group_by(_CODE, use_threads=False).aggregate([("problems", "sum"), ("transaction_id", "count")])
    counts = {(row["severity"], row["code"]): row for row in of_code.to_pylist()}
    found = []
    for first in firsts.to_pylist():
        mine = counts[first["severity"], first["code"]]
        told = {"problems": mine["problems_sum"], "transactions": mine["transaction_id_count"]}
        found.append({**{name: first[name] for name in _CODE}, **told, **{name: first[name] for name in _PLACE}})
    ranks = _RANKS.to_pylist()
    return sorted(found, key=lambda row: (ranks.index(row["severity"]), -row["problems"], row["code"]))


_Counted = tuple[pa.Table, pa.Table]
"""The first problem of each code, and how many there are of each code and transaction."""


def _counted(problems: pa.RecordBatch) -> _Counted:
    rows = pa.table(problems)
    ones = pa.array(np.ones(len(rows), np.int64))
    return rows.select([*_CODE, *_PLACE]), rows.select([*_CODE, "transaction_id"]).append_column("problems", ones)


def _merged(parts: Sequence[_Counted]) -> _Counted:
    parts = parts or [_counted(pa.RecordBatch.from_pylist([], PROBLEMS))]
    firsts, numbers = (pa.concat_tables(some) for some in zip(*parts, strict=True))
    firsts = firsts.take(pc.sort_indices(firsts, [(name, "ascending") for name in ("file", "offset", "sentence")]))
    firsts = firsts.append_column("row", pa.array(np.arange(len(firsts))))
    rows = firsts.group_by(_CODE, use_threads=False).aggregate([("row", "min")])["row_min"]
    by = [*_CODE, "transaction_id"]
    counts = numbers.group_by(by, use_threads=False).aggregate([("problems", "sum")]).rename_columns([*by, "problems"])
    return firsts.take(rows).drop_columns(["row"]), counts


def worst(capture: Tables, limit: int = 50) -> list[Record]:
    """The first ``limit`` problems, in the columns of the model: errors first, then warnings, then in file and
    offset."""
    return first_problems(capture, ("severity", "file", "offset", "code", "sentence"), limit)


def first_problems(
    capture: Tables, order: Sequence[str], limit: int, codes: Collection[str] | None = None
) -> list[Record]:
    """The first ``limit`` problems of some codes (None: all) in the order of some columns, null first, in the columns
    of the model; the worst severity is the first."""

    def first(batch: pa.RecordBatch) -> pa.RecordBatch:
        if codes is not None:
            batch = batch.filter(pc.is_in(batch["code"], pa.array([*map(str, codes)], pa.string())))
        values = {name: pc.index_in(batch[name], _RANKS) if name == "severity" else batch[name] for name in order}
        keys = {
            key: one
            for name in order
            for key, one in ((f"{name} is known", values[name].is_valid()), (name, values[name]))
        }
        return batch.take(pc.sort_indices(pa.table(keys), [(key, "ascending") for key in keys])[:limit])

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return first(joined(parts, PROBLEMS))

    found: list[Record] = folded(rows_of(capture, "problems", PROBLEMS.names), first, merged).to_pylist()
    return found
