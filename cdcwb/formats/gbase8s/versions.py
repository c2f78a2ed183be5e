"""The table versions of a capture while it is read: which one is in force at which record (docs/formats/gbase8s.md
§5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdcwb.formats.gbase8s.distinct import distinct
from cdcwb.formats.gbase8s.framing import Bools, Ints
from cdcwb.formats.gbase8s.plan import Plan
from cdcwb.formats.gbase8s.rows import Headers
from cdcwb.formats.gbase8s.schema import TableSchema, schema_text, table_schema

__all__ = ["Versions"]


class Versions:
    """The versions of a plan, and the number that is in force for each label as the reading goes on."""

    def __init__(self, plan: Plan, in_force: dict[int, int]) -> None:
        self._charset = plan.settings.charset
        self._in_force = dict(in_force)
        self._labels = plan.labels
        self._base = 1 + max((version.number for version in plan.versions), default=0)
        self._versions = {(version.label, version.number): version for version in plan.versions}
        self._schemas: dict[tuple[int, int], TableSchema] = {}
        self._numbers: dict[tuple[int, str], list[tuple[tuple[int | None, int | None, int | None], int]]] = {}
        for version in plan.versions:
            counts = (version.fixed_bytes, version.fixed_columns, version.variable_columns)
            self._numbers.setdefault((version.label, version.text), []).append((counts, version.number))

    def schema(self, label: int, number: int) -> TableSchema | None:
        """The version of that number, or None. Its text is read when it is first asked for: a split may need few."""
        key = (label, number)
        if key not in self._schemas and key in self._versions:
            version = self._versions[key]
            self._schemas[key] = table_schema(
                label,
                number,
                version.text,
                fixed_bytes=version.fixed_bytes,
                fixed_columns=version.fixed_columns,
                variable_columns=version.variable_columns,
                origin=version.origin,
            )
        return self._schemas.get(key)

    def names(self, label: int) -> tuple[str | None, str]:
        """Schema and table name of a label; without a map the label's number is the table name."""
        return self._labels.get(label, (None, str(label)))

    def table_names(self, label: int) -> frozenset[str]:
        """The texts by which a filter may name the table of a label."""
        schema, table = self.names(label)
        return frozenset([table] if schema is None else [table, f"{schema}.{table}"])

    def of_records(self, headers: Headers) -> Ints:
        """The number of the version in force at each row, TRUNCATE and TABSCHEM record; 0 where there is none."""
        out = np.zeros(len(headers.start), dtype=np.int64)
        schemas = np.flatnonzero(headers.number == 200)
        opened: dict[int, tuple[list[int], list[int]]] = {}
        for record in schemas.tolist():
            label = int(headers.label[record])
            out[record] = self._number_of(headers, record)
            places, numbers = opened.setdefault(label, ([-1], [self._in_force.get(label, 0)]))
            places.append(record)
            numbers.append(int(out[record]))
        uses = np.flatnonzero(headers.row | (headers.number == 119))
        labels = headers.label[uses]
        found, place = distinct(labels)
        for at, one in enumerate(found.tolist()):
            some = uses[place == at]
            places, numbers = opened.get(one, ([-1], [self._in_force.get(one, 0)]))
            out[some] = np.array(numbers)[np.searchsorted(np.array(places), some, side="right") - 1]
        for label, (_, numbers) in opened.items():
            self._in_force[label] = numbers[-1]
        return out

    def _number_of(self, headers: Headers, record: int) -> int:
        """The version that a TABSCHEM record opens: same text and counts, same version."""
        there = headers.buffer[int(headers.start[record]) : int(headers.end[record])].tobytes()
        text = schema_text(there[int(headers.header_size[record]) :], self._charset)
        counts = tuple(int.from_bytes(there[at : at + 4], "big") for at in (24, 28, 32))
        for known, number in self._numbers.get((int(headers.label[record]), text), []):
            if known == counts or known == (None, None, None):
                return number
        return 0

    def tables(self, label: Ints, version: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """The different (label, version) of many records, and for each record the place of its own among them."""
        keys, place = distinct(label * self._base + version)
        return [divmod(key, self._base) for key in keys.tolist()], place

    def name_arrays(self, label: Ints, version: Ints, labelled: Bools) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Schema name, table name and table version of many records; null where ``labelled`` is false."""
        tables, table = self.tables(label, version)
        index = pa.array(table, mask=~labelled)
        names = [self.names(one) for one, _ in tables]
        versions = [f"{one}@{number}" if number else None for one, number in tables]
        return (
            pa.array([schema for schema, _ in names], pa.string()).take(index),
            pa.array([table for _, table in names], pa.string()).take(index),
            pa.array(versions, pa.string()).take(index),
        )
