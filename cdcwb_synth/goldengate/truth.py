"""The true content of a generated GoldenGate capture, as Parquet files in exactly the columns of
:mod:`cdcwb_synth.model`. A change is added when all of its transaction has its place, so nothing has to wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model

__all__ = ["Place", "Truth", "Version"]

_BATCH: Final = 10_000


class Place(NamedTuple):
    """Where a record stands: number of its file, offset and length there."""

    file: int
    offset: int
    length: int

    @property
    def event(self) -> dict[str, int]:
        """As a source event of the model."""
        return {"file_index": self.file, "offset": self.offset, "length": self.length}


@dataclass(slots=True)
class Version:
    """A table version; ``columns`` are rows of model.COLUMN. ``first`` is the record that brings it, None
    where it is inferred."""

    table_version: str
    schema_name: str | None
    table_name: str | None
    columns: list[dict[str, Any]]
    origin: str
    first: Place | None
    schema_text: str | None = None
    lineage: dict[str, str] = field(default_factory=dict)
    first_position: str | None = None
    rows: int = 0


class Truth:
    """The truth about one capture of a format; ``folder`` gets its files. ``files`` are the capture's files in natural
    order, which is the order of their making; ``facts`` counts what is in them."""

    def __init__(self, folder: Path, format: str) -> None:
        self.format = format
        self.folder = folder
        self.files: list[str] = []
        self.versions: dict[str, Version] = {}
        self.facts: Counter[str] = Counter()
        self.count = 0
        self.transactions = 0
        self._changes: list[dict[str, Any]] = []
        self._ended: list[dict[str, Any]] = []
        self._to_changes = pq.ParquetWriter(folder / "changes.parquet", model.CHANGES, compression="zstd")
        self._to_ended = pq.ParquetWriter(folder / "transactions.parquet", model.TRANSACTIONS, compression="zstd")

    def file(self, name: str) -> int:
        """The number of a new file."""
        self.files.append(name)
        return len(self.files) - 1

    def version(self, make: Version) -> Version:
        """The version of this name, which is ``make`` where there is none yet."""
        return self.versions.setdefault(make.table_version, make)

    def change(self, place: Place, version: Version | None, row: dict[str, Any]) -> None:
        """Add a change at its place; ``row`` holds the rest by the columns of the model."""
        position = row.get("position")
        if version is not None:
            version.rows += 1
            if position is not None and (version.first_position is None or position < version.first_position):
                version.first_position = position
            row |= {"table_version": version.table_version}
        row |= {
            "format": self.format,
            "file": self.files[place.file],
            "file_index": place.file,
            "offset": place.offset,
            "length": place.length,
            "kind": model.CHANGE,
        }
        self.count += 1
        self._changes.append(row)
        if len(self._changes) >= _BATCH:
            self._flush_changes()

    def transaction(self, row: dict[str, Any]) -> None:
        """Add a transaction, by the columns of the model."""
        self.transactions += 1
        self._ended.append(row)
        if len(self._ended) >= _BATCH:
            self._flush_ended()

    def _flush_changes(self) -> None:
        columns = []
        for field_ in model.CHANGES:
            values = [row.get(field_.name) for row in self._changes]
            if pa.types.is_map(field_.type):
                values = [None if value is None else list(value.items()) for value in values]
            columns.append(pa.array(values, field_.type))
        self._to_changes.write_batch(pa.RecordBatch.from_arrays(columns, schema=model.CHANGES))
        self._changes.clear()

    def _flush_ended(self) -> None:
        self._to_ended.write_batch(pa.RecordBatch.from_pylist(self._ended, schema=model.TRANSACTIONS))
        self._ended.clear()

    def close(self) -> None:
        """Write what is left; nothing can be added afterwards. A second call does nothing."""
        if not self._to_changes.is_open:
            return
        if self._changes:
            self._flush_changes()
        if self._ended:
            self._flush_ended()
        self._to_changes.close()
        self._to_ended.close()

    def write(self) -> None:
        """Complete the files."""
        self.close()
        rows = [
            {
                "table_version": version.table_version,
                "schema_name": version.schema_name,
                "table_name": version.table_name,
                "first_position": version.first_position,
                "first_event": None if version.first is None else version.first.event,
                "columns": version.columns,
                "origin": version.origin,
                "schema_text": version.schema_text,
                "lineage": list(version.lineage.items()),
            }
            for version in self.versions.values()
        ]
        table = pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)
        pq.write_table(table, self.folder / "table_versions.parquet", compression="zstd")
