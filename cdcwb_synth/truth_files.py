"""Collected truth as Parquet files in exactly the columns of :mod:`cdcwb_synth.model`.

Column ``problems`` is null throughout: the truth says what happened, not what a reader remarks about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import ChangeSource, OffsetUnit, Operation, Outcome
from cdcwb_synth.truth import BATCH, OUTCOMES, Truth

__all__ = ["Places", "write_truth"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where every record ended up, by record number (from 0 in stream order): index into ``files`` (names), offset and
    length there. A record that is continued in the next file has the place of its first part."""

    files: list[str]
    file_index: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


def write_truth(folder: Path, truth: Truth, places: Places, owners: npt.NDArray[np.int32]) -> None:
    """Write ``changes.parquet``, ``transactions.parquet`` and ``table_versions.parquet`` into ``folder``.

    ``owners`` gives for every record the transaction that it belongs to (index into ``truth.transactions``, -1: none).
    Nothing can be added to ``truth`` afterwards.
    """
    truth.close()
    _write_changes(folder / "changes.parquet", truth, places)
    _write_transactions(folder / "transactions.parquet", truth, places, owners)
    _write_versions(folder / "table_versions.parquet", truth, places)


def _write_changes(path: Path, truth: Truth, places: Places) -> None:
    known = truth.transactions
    ids = pa.array([t.transaction_id for t in known], pa.string())
    commits = pa.array([t.commit_position for t in known], pa.string())
    ends = pa.array([t.ended_at for t in known], model.CHANGES.field("committed_at").type)
    outcomes = np.array([t.outcome if t.has_begin else 0 for t in known], np.int32)
    labels = pa.array([str(o) for o in OUTCOMES], pa.string())
    files = pa.array(places.files, pa.string())
    versions = pa.array([v.table_version for v in truth.versions], pa.string())
    schemas = pa.array([v.schema_name for v in truth.versions], pa.string())
    tables = pa.array([v.table_name for v in truth.versions], pa.string())
    records, others = np.frombuffer(truth.record, np.int64), np.frombuffer(truth.other, np.int64)
    owners, undone = np.frombuffer(truth.owner, np.int32), np.frombuffer(truth.undone, np.bool_)
    done = 0
    with (
        pq.ParquetWriter(path, model.CHANGES, compression="zstd") as writer,
        pa.ipc.open_file(truth.path) as waiting,
    ):
        for number in range(waiting.num_record_batches):
            batch = waiting.get_batch(number)
            n = batch.num_rows
            record, other = records[done : done + n], others[done : done + n]
            owner, gone = owners[done : done + n], undone[done : done + n]
            version = batch["version"]
            updates = pc.equal(batch["operation"], str(Operation.UPDATE))
            nothing = pa.scalar(None, pa.string())
            filled = {
                "format": pa.repeat(pa.scalar(truth.name), n),
                "file": files.take(pa.array(places.file_index[record])),
                "file_index": pa.array(places.file_index[record], pa.int32()),
                "offset": pa.array(places.offset[record], pa.int64()),
                "length": pa.array(places.length[record], pa.int64()),
                "offset_unit": pa.repeat(pa.scalar(str(OffsetUnit.BYTE)), n),
                "record_type": batch["record_type"],
                "kind": pa.repeat(pa.scalar(model.CHANGE), n),
                "operation": batch["operation"],
                "position": batch["position"],
                "commit_position": commits.take(pa.array(owner)),
                "transaction_id": ids.take(pa.array(owner)),
                "schema_name": schemas.take(version),
                "table_name": tables.take(version),
                "table_version": versions.take(version),
                "changed_columns": batch["changed_columns"],
                "before": batch["before"],
                "after": batch["after"],
                "headers": batch["headers"],
                "source_events": _source_events(record, other, places),
                "outcome": labels.take(pa.array(np.where(gone, 3, outcomes[owner]))),
                "committed_at": ends.take(pa.array(owner)),
                "change_source": pc.if_else(updates, str(ChangeSource.IMAGES), nothing),
            }
            columns = [filled[f.name] if f.name in filled else pa.nulls(n, f.type) for f in model.CHANGES]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=model.CHANGES))
            done += n


def _write_transactions(path: Path, truth: Truth, places: Places, owners: npt.NDArray[np.int32]) -> None:
    owned = owners >= 0
    sizes = np.zeros(len(truth.transactions), np.int64)
    np.add.at(sizes, owners[owned], places.length[owned])
    with pq.ParquetWriter(path, model.TRANSACTIONS, compression="zstd") as writer:
        for start in range(0, len(truth.transactions), BATCH):
            rows = [
                {
                    "transaction_id": t.transaction_id,
                    "begin_position": t.begin_position,
                    "end_position": t.end_position,
                    "began_at": t.began_at,
                    "ended_at": t.ended_at,
                    "outcome": str(OUTCOMES[t.outcome] if t.has_begin else Outcome.OPEN),
                    "completeness": str(t.completeness),
                    "changes": sorted(t.changes.items()),
                    "tables": sorted(t.tables),
                    "bytes": int(size),
                    "user": t.user,
                }
                for t, size in zip(truth.transactions[start : start + BATCH], sizes[start : start + BATCH], strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=model.TRANSACTIONS))


def _write_versions(path: Path, truth: Truth, places: Places) -> None:
    rows = [
        {
            "table_version": v.table_version,
            "schema_name": v.schema_name,
            "table_name": v.table_name,
            "first_position": v.first_position,
            "first_event": None
            if v.record < 0
            else {
                "file_index": int(places.file_index[v.record]),
                "offset": int(places.offset[v.record]),
                "length": int(places.length[v.record]),
            },
            "columns": v.columns,
            "origin": "record",
            "schema_text": v.schema_text,
            "lineage": None,
        }
        for v in truth.versions
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS), path, compression="zstd")


def _source_events(record: npt.NDArray[np.int64], other: npt.NDArray[np.int64], places: Places) -> pa.Array:
    """The events of each change in capture order: one, or the two halves of an update."""
    pairs = np.stack([record, other], axis=1)
    is_pair = other >= 0
    pairs[is_pair] = np.sort(pairs[is_pair], axis=1)
    wanted = np.stack([np.ones(len(record), bool), is_pair], axis=1)
    flat = pairs[wanted]
    events = pa.StructArray.from_arrays(
        [
            pa.array(places.file_index[flat], pa.int32()),
            pa.array(places.offset[flat], pa.int64()),
            pa.array(places.length[flat], pa.int64()),
        ],
        fields=list(model.SOURCE_EVENT),
    )
    offsets = np.concatenate([[0], np.cumsum(1 + is_pair)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), events)
