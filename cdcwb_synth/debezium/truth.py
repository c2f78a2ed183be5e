"""The true content of a generated Debezium capture, collected while it is written.

How versions are numbered is known at the end only; until then a change has the number of its shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.debezium.options import DebeziumOptions
from cdcwb_synth.history import Change
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome

__all__ = ["Transaction", "Truth"]

_BATCH: Final = 10_000
_MAPS: Final = ("key", "before", "after", "headers")

Place = tuple[int, int]
"""Offset and length of a message in the file."""

_ELSEWHERE: Final = (-1, 0)
"""The place of a version that an earlier part of the capture has."""


@dataclass(slots=True)
class Transaction:
    """A transaction; ``began_at`` and ``ended_at`` count microseconds since 1970."""

    name: str
    positions: list[str] = field(default_factory=list)
    began_at: int | None = None
    ended_at: int | None = None
    commit_position: str | None = None
    completeness: Completeness = Completeness.UNKNOWN
    changes: dict[str, int] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    bytes: int = 0

    def seen(self, position: str | None, at: int, length: int) -> None:
        """Add a message of the transaction."""
        self.positions += [] if position is None else [position]
        self.began_at = at if self.began_at is None else min(self.began_at, at)
        self.bytes += length

    def bounded(self, position: str | None, at: int, length: int) -> None:
        """Add one of its boundaries."""
        self.seen(position, at, length)


@dataclass(slots=True)
class _Version:
    table: tuple[str, str]
    names: tuple[str, ...]
    columns: list[dict[str, Any]]
    origin: str
    place: Place
    positions: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def label(self) -> str:
        return f"{'.'.join(self.table)}@{self.number}"


class Truth:
    """Collects changes, transactions and versions. ``name`` is the file's; ``is_table``: its offsets count rows."""

    def __init__(self, folder: Path, name: str, is_table: bool, options: DebeziumOptions) -> None:
        self._folder, self._options = folder, options
        self.files = [name]
        self._unit = str(OffsetUnit.ROW if is_table else OffsetUnit.BYTE)
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._transactions: list[Transaction] = []
        self._versions: dict[Any, _Version] = {}
        self._described: dict[Any, tuple[tuple[str, str], list[dict[str, Any]], Place]] = {}
        self.count = 0

    @property
    def transactions(self) -> int:
        """How many transactions there are."""
        return len(self._transactions)

    def begin(self, name: str) -> Transaction:
        """The next transaction."""
        self._transactions.append(Transaction(name))
        return self._transactions[-1]

    def known(self, version: TableVersion, columns: Any) -> None:
        """Add a version that an earlier part of the capture has."""
        self._version(version, columns, _ELSEWHERE, True)

    def described(self, version: TableVersion, columns: list[dict[str, Any]], place: Place) -> None:
        """Add a table as a schema change describes it."""
        table = version.table.schema, version.table.name
        shape = tuple((one["name"], one["typeName"], one["length"], one["scale"], one["optional"]) for one in columns)
        made = []
        for one in columns:
            is_number = one["scale"] is not None
            made.append(
                {
                    "ordinal": one["position"], "name": one["name"], "type": one["typeName"],
                    "length": None if is_number else one["length"],
                    "precision": one["length"] if is_number else None, "scale": one["scale"],
                    "key_position": 1 if one["name"] == version.table.key else None, "nullable": one["optional"],
                }
            )  # fmt: skip
        self._described.setdefault((table, shape), (table, made, place))

    def change(
        self, change: Change, table: Any, fields: dict[str, Any], place: Place, facts: dict[str, str | None],
        transaction: str | None, position: str | None, time: int, before: dict[str, Any] | None,
        after: dict[str, Any] | None, key: dict[str, Any] | None, lacks: bool, schema_id: int | None,
    ) -> None:  # fmt: skip
        """Add a change."""
        version = self._version(change.version, table.columns, place, before is not None or after is not None)
        own = self._transactions[-1] if transaction is not None else None
        operation = str(change.operation)
        label = f"{change.version.table.schema}.{change.version.table.name}"
        if own is not None:
            own.seen(position, time, place[1])
            own.changes[operation] = own.changes.get(operation, 0) + 1
            own.tables.add(label)
        if version is not None and position is not None:
            self._versions[version].positions.append(position)
        headers: dict[str, str | None] = {}
        for name, value in fields.items():
            if isinstance(value, dict):
                headers.update({f"{name}.{inner}": None if one is None else str(one) for inner, one in value.items()})
            else:
                headers[name] = None if value is None else str(value)
        headers |= {} if schema_id is None else {"schemaId": str(schema_id)}
        compared = change.operation is Operation.UPDATE
        block = fields["transaction"]
        self._rows.append(
            {
                "format": "debezium", "file": self.files[0], "file_index": 0, "offset": place[0], "length": place[1],
                "offset_unit": self._unit, "record_type": fields["op"], "kind": model.CHANGE,
                "operation": operation,
                "position": position, "commit_position": own and own.commit_position, "transaction_id": transaction,
                "event_no": block and block["total_order"], "changed_at": time,
                "schema_name": change.version.table.schema, "table_name": change.version.table.name,
                "table_version": None if version is None else str(list(self._versions).index(version)),
                "changed_columns": _changed(before, after) if compared else None,
                "present_columns": list(after or ()) if lacks else None,
                "key": key, "before": before, "after": after, "headers": headers | facts,
                "source_events": [{"file_index": 0, "offset": place[0], "length": place[1]}],
                "outcome": None if own is None else str(Outcome.COMMITTED), "committed_at": own and own.ended_at,
                "change_source": str(ChangeSource.IMAGES) if compared else None,
            }
        )  # fmt: skip
        self.count += 1
        if len(self._rows) >= _BATCH:
            self._flush()

    def _version(self, version: TableVersion, columns: Any, place: Place, has_row: bool) -> Any:
        """The shape of a row: with a schema what that says, else the names, which a TRUNCATE does not have."""
        table = version.table.schema, version.table.name
        names = tuple(one.name for one in columns)
        is_typed = self._options.form != "json"
        if not is_typed and not has_row:
            return None
        made = []
        for ordinal, one in enumerate(columns, 1):
            typed = {
                "type": one.semantic or one.kind, "precision": one.precision, "scale": one.scale,
                "nullable": one.optional,
            }  # fmt: skip
            nothing = dict.fromkeys(typed)
            made.append(
                {"ordinal": ordinal, "name": one.name, "length": None, **(typed if is_typed else nothing)}
                | {"key_position": 1 if one.name == version.table.key and self._options.has_keys else None}
            )
        shape = (table, tuple(tuple(one.values()) for one in made))
        if shape not in self._versions:
            origin = {"json": "inferred", "avro": "registry"}.get(self._options.form, "record")
            self._versions[shape] = _Version(table, names, made, origin, place)
        return shape

    def _flush(self) -> None:
        arrays = []
        for one in model.CHANGES:
            values = [row.get(one.name) for row in self._rows]
            if one.name in _MAPS:
                values = [None if value is None else list(value.items()) for value in values]
            arrays.append(pa.array(values, one.type))
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=model.CHANGES))
        self._rows = []

    def write(self) -> None:
        """Write ``changes.parquet``, ``transactions.parquet`` and ``table_versions.parquet``."""
        self._flush()
        versions = self._numbered()
        labels = pa.array([one.label for one in self._versions.values()], pa.string())
        at = model.CHANGES.get_field_index("table_version")
        with pq.ParquetWriter(self._folder / "changes.parquet", model.CHANGES, compression="zstd") as writer:
            for batch in self._batches:
                named = labels.take(pc.cast(batch.column(at), pa.int64()))
                writer.write_batch(batch.set_column(at, model.CHANGES.field(at), named))
        rows = [self._transaction(one) for one in self._transactions]
        self._table("transactions", rows, model.TRANSACTIONS)
        self._table("table_versions", [self._version_row(one) for one in versions], model.TABLE_VERSIONS)

    def _table(self, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), self._folder / f"{name}.parquet", compression="zstd")

    def _numbered(self) -> list[_Version]:
        """The versions in the order in which they were seen. A schema change goes with the next version of rows that
        has its columns; one without any is a version of its own."""
        waiting = [one for one in self._versions.values() if one.place != _ELSEWHERE]
        alone: list[_Version] = []
        for table, columns, place in self._described.values():
            names = tuple(one["name"] for one in columns)
            found = next((one for one in waiting if (one.table, one.names) == (table, names)), None)
            if found is None:
                alone.append(_Version(table, names, columns, "DDL", place))
                continue
            waiting.remove(found)
            found.place = min(found.place, place)
            if found.origin == "inferred":
                found.origin, found.columns = "DDL", columns
                continue
            for one, described in zip(found.columns, columns, strict=True):
                one["length"] = described["length"]
                one["key_position"] = described["key_position"]
        made = sorted([*self._versions.values(), *alone], key=lambda version: version.place)
        numbers: dict[tuple[str, str], int] = {}
        for version in made:
            version.number = numbers[version.table] = numbers.get(version.table, 0) + 1
        return made

    @staticmethod
    def _version_row(one: _Version) -> dict[str, Any]:
        return {
            "table_version": one.label, "schema_name": one.table[0], "table_name": one.table[1],
            "first_position": min(one.positions, default=None),
            "first_event": None
            if one.place == _ELSEWHERE
            else {"file_index": 0, "offset": one.place[0], "length": one.place[1]},
            "columns": one.columns, "origin": one.origin, "schema_text": None, "lineage": None,
        }  # fmt: skip

    def _transaction(self, one: Transaction) -> dict[str, Any]:
        is_bounded = self._options.transactions
        return {
            "transaction_id": one.name, "begin_position": min(one.positions, default=None),
            "end_position": one.commit_position if is_bounded else max(one.positions, default=None),
            "began_at": one.began_at, "ended_at": one.ended_at, "outcome": str(Outcome.COMMITTED),
            "completeness": str(one.completeness), "changes": sorted(one.changes.items()),
            "tables": sorted(one.tables), "bytes": one.bytes, "user": None,
        }  # fmt: skip


def _changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """The columns that differ between two images, of those that the second has."""
    return [name for name, value in (after or {}).items() if (before or {})[name] != value]
