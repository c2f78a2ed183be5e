"""Collected truth of a Qlik capture as Parquet files in exactly the columns of :mod:`cdcwb_synth.model`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import OffsetUnit, Outcome
from cdcwb_synth.qlik.truth import Place, Row, Rows, Transaction, VersionTruth

__all__ = ["Truth", "natural_key", "natural_order"]

_DIGITS: Final = re.compile(r"([0-9]+)")
_BATCH: Final = 5000


Key = list[tuple[list[tuple[int, int, str]], str]]


def natural_key(name: str) -> Key:
    """What orders paths folder by folder, and numbers by their value: a2 before a10."""
    parts = []
    for part in PurePosixPath(name).parts:
        tokens = _DIGITS.split(part.casefold())
        parts.append(([(1, int(t), "") if i % 2 else (0, 0, t) for i, t in enumerate(tokens)], part))
    return parts


def natural_order(names: Sequence[str]) -> list[int]:
    """The place of each path among all of them in natural order."""
    order = sorted(range(len(names)), key=lambda at: natural_key(names[at]))
    places = [0] * len(names)
    for place, at in enumerate(order):
        places[at] = place
    return places


class Truth:
    """The truth about one capture of format ``name``, whose places count ``unit``; ``folder`` holds its files.

    ``files`` are the capture's files in the order of their making, ``versions`` the table versions; both are known by
    their numbers.
    """

    def __init__(self, name: str, unit: OffsetUnit, folder: Path) -> None:
        self.name, self.unit, self.folder = name, unit, folder
        self.files: list[str] = []
        self.versions: list[VersionTruth] = []
        self.rows = Rows(folder / "changes.arrow")
        self.transactions = 0
        self._ended: list[dict[str, Any]] = []
        self._writer = pq.ParquetWriter(folder / "transactions.parquet", model.TRANSACTIONS, compression="zstd")

    def file(self, name: str) -> int:
        """The number of a new file."""
        self.files.append(name)
        return len(self.files) - 1

    def version(self, version: VersionTruth) -> int:
        """The number of a new table version."""
        self.versions.append(version)
        return len(self.versions) - 1

    def change(self, row: Row, transaction: Transaction | None, place: Place, other: Place | None = None) -> None:
        """Add a change that has its place, and with it the places of its transaction."""
        version = self.versions[row.version]
        version.rows += 1
        if version.origin == "inferred":
            version.seen(place)
        if row.position is not None and (version.first_position is None or row.position < version.first_position):
            version.first_position = row.position
        self.rows.add(row, place, other)
        if transaction is not None:
            transaction.size += place.length + (other.length if other else 0)
            transaction.waiting -= 1
            if not transaction.waiting:
                self._end(transaction)

    def _end(self, one: Transaction) -> None:
        self.transactions += 1
        self._ended.append(
            {
                "transaction_id": one.transaction_id,
                "begin_position": one.begin_position,
                "end_position": one.end_position,
                "began_at": one.began_at,
                "ended_at": one.ended_at,
                "outcome": str(Outcome.COMMITTED),
                "completeness": str(one.completeness),
                "changes": sorted(one.changes.items()),
                "tables": sorted(set(one.tables)),
                "bytes": one.size,
                "user": None,
            }
        )
        if len(self._ended) >= _BATCH:
            self._write_transactions()

    def _write_transactions(self) -> None:
        if self._ended:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._ended, schema=model.TRANSACTIONS))
            self._ended.clear()

    def close(self) -> None:
        """Writes the three files; nothing can be added afterwards. A second call does nothing."""
        if not self._writer.is_open:
            return
        self._write_transactions()
        self._writer.close()
        self.rows.close()

    def write(self) -> None:
        """Put rows and versions into their files, when everything has its place."""
        self.close()
        index = np.array(natural_order(self.files) or [0], np.int32)
        names = self._version_names(index)
        self._write_changes(index, names)
        self._write_versions(index, names)
        self.rows.path.unlink()

    def _first(self, version: VersionTruth, index: npt.NDArray[np.int32]) -> tuple[int, Place] | None:
        """The first place of a version in capture order: index of its file, and the place."""
        found = [(int(index[place.file]), place) for place in version.first.values()]
        return min(found, key=lambda one: (one[0], one[1].offset), default=None)

    def _version_names(self, index: npt.NDArray[np.int32]) -> list[str]:
        names = [version.table_version or "" for version in self.versions]
        waiting = [(self._first(v, index), at) for at, v in enumerate(self.versions) if v.table_version is None]
        placed = sorted((first[0], first[1].offset, at) for first, at in waiting if first is not None)
        numbers: dict[str, int] = {}
        for _, _, at in placed:
            label = self.versions[at].label
            numbers[label] = numbers.get(label, 0) + 1
            names[at] = f"{label}@{numbers[label]}"
        return names

    def _write_versions(self, index: npt.NDArray[np.int32], names: Sequence[str]) -> None:
        rows = []
        for version, name in zip(self.versions, names, strict=True):
            if not (version.rows or version.is_kept or version.history):
                continue
            if version.history and not version.rows:
                place, version.columns, version.schema_text = version.history
                version.origin, version.beside, version.first = "DDL", False, {place.file: place}
            first = None if version.beside else self._first(version, index)
            rows.append(
                {
                    "table_version": name,
                    "schema_name": version.schema_name,
                    "table_name": version.table_name,
                    "first_position": version.first_position,
                    "first_event": None
                    if first is None
                    else {"file_index": first[0], "offset": first[1].offset, "length": first[1].length},
                    "columns": version.columns,
                    "origin": version.origin,
                    "schema_text": version.schema_text,
                    "lineage": None if version.lineage is None else list(version.lineage.items()),
                }
            )
        table = pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)
        pq.write_table(table, self.folder / "table_versions.parquet", compression="zstd")

    def _write_changes(self, index: npt.NDArray[np.int32], names: Sequence[str]) -> None:
        files = pa.array(self.files or [""], pa.string())
        versions = pa.array(list(names) or [""], pa.string())
        schemas = pa.array([v.schema_name for v in self.versions] or [None], pa.string())
        tables = pa.array([v.table_name for v in self.versions] or [None], pa.string())
        path = self.folder / "changes.parquet"
        with (
            pq.ParquetWriter(path, model.CHANGES, compression="zstd") as writer,
            pa.ipc.open_file(self.rows.path) as waiting,
        ):
            for number in range(waiting.num_record_batches):
                batch = waiting.get_batch(number)
                n = batch.num_rows
                filled = {name: batch[name] for name in batch.schema.names if name in model.CHANGES.names}
                filled |= {
                    "format": pa.repeat(pa.scalar(self.name), n),
                    "file": files.take(batch["file"]),
                    "file_index": pa.array(index[batch["file"].to_numpy()]),
                    "offset_unit": pa.repeat(pa.scalar(str(self.unit)), n),
                    "kind": pa.repeat(pa.scalar(model.CHANGE), n),
                    "schema_name": schemas.take(batch["version"]),
                    "table_name": tables.take(batch["version"]),
                    "table_version": versions.take(batch["version"]),
                    "source_events": _source_events(batch, index),
                }
                columns = [filled[f.name] if f.name in filled else pa.nulls(n, f.type) for f in model.CHANGES]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=model.CHANGES))


def _source_events(batch: pa.RecordBatch, index: npt.NDArray[np.int32]) -> pa.Array:
    """The events of each change in capture order: one, or the two halves of an update."""
    own = np.stack([batch[name].to_numpy() for name in ("file", "offset", "length")], axis=1).astype(np.int64)
    names = ("other_file", "other_offset", "other_length")
    other = np.stack([batch[name].to_numpy() for name in names], axis=1).astype(np.int64)
    is_pair = other[:, 0] >= 0
    own[:, 0] = index[own[:, 0]]
    other[is_pair, 0] = index[other[is_pair, 0]]
    is_first = is_pair & ((other[:, 0] < own[:, 0]) | ((other[:, 0] == own[:, 0]) & (other[:, 1] < own[:, 1])))
    both = np.stack([np.where(is_first[:, None], other, own), np.where(is_first[:, None], own, other)], axis=1)
    wanted = np.stack([np.ones(len(own), bool), is_pair], axis=1)
    flat = both[wanted]
    events = pa.StructArray.from_arrays(
        [pa.array(flat[:, 0].astype(np.int32)), pa.array(flat[:, 1]), pa.array(flat[:, 2])],
        fields=list(model.SOURCE_EVENT),
    )
    offsets = np.concatenate([[0], np.cumsum(wanted.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), events)
