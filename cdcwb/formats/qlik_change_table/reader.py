"""Rows of change tables as Arrow batches of ``events``, column by column (docs/formats/qlik-change-table.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays.maps import maps_of
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.moments import moments
from cdcwb.formats.qlik_change_table import sentences
from cdcwb.formats.qlik_change_table.control import by_name, control_row
from cdcwb.formats.qlik_change_table.facts import CONTROL, FORMAT
from cdcwb.formats.qlik_change_table.headers import (
    TRUNCATE,
    Findings,
    Headers,
    Operations,
    read_headers,
    read_operations,
    read_times,
    transaction_ids,
)
from cdcwb.formats.qlik_change_table.layout import Part, Rows
from cdcwb.formats.qlik_change_table.masks import changed_columns
from cdcwb.formats.qlik_change_table.plan import FileEntry, Moved, Plan, SplitEntry
from cdcwb.formats.qlik_change_table.reading import iter_parts
from cdcwb.formats.tabular import Gap, interleaved
from cdcwb.model import Kind, OffsetUnit

__all__ = ["FileReader", "read_events", "read_together"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_KINDS: Final = {str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER)}


def read_events(plan: Plan, split: SplitEntry, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    reader = FileReader(plan, split.file, wanted)
    if reader.is_empty:
        return
    shape = plan.shapes[reader.entry.shape]
    for part in iter_parts(reader.entry, shape, plan.charset, split.start, split.stop):
        yield from reader.batches(part)


def read_together(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The events of one split, without rows whose other halves stand before it, and with the other halves, in other
    splits, of its own (:attr:`Plan.borders`)."""
    moved = plan.borders[0].get(split, Moved())
    for batch in read_events(plan, plan.splits[split], wanted):
        offset = batch["offset"].to_numpy()
        left = np.zeros(len(offset), np.bool_)
        for start, stop in moved.left:
            left |= (offset >= start) & (offset < stop)
        yield batch.filter(pa.array(~left)) if left.any() else batch
    for other in moved.taken:
        yield from read_events(plan, other, wanted)


class FileReader:
    """Reads the parts of one file."""

    def __init__(self, plan: Plan, file: int, wanted: Wanted) -> None:
        self.plan = plan
        self.index = file
        self.entry: FileEntry = plan.files[file]
        self.table = plan.tables[self.entry.table]
        self.version = plan.versions[self.entry.version] if self.entry.version >= 0 else None
        self.wanted = wanted
        self.key = plan.key_of(self.entry)

    @cached_property
    def columns(self) -> list[str]:
        """The data columns of the file's table version, in the order of the mask's bits."""
        return [] if self.version is None else [column.name for column in self.version.columns]

    @cached_property
    def is_empty(self) -> bool:
        """Do the filters let nothing of this file through?"""
        tables, role = self.wanted.tables, self.entry.role
        return tables is not None and role != CONTROL and not tables & {self.table.table, self.table.name.label}

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The events of a part."""
        batches: list[pa.RecordBatch] = []
        order: list[Ints] = []
        for indices, rows in part.rows:
            kept, batch = self.rows(rows, part.unit)
            if len(kept):
                batches.append(batch)
                order.append(indices[kept])
        gaps = [(gap.index, row) for gap in part.gaps if self.wanted.allows(row := self.gap(part, gap))]
        if gaps:
            batches.append(pa.RecordBatch.from_pylist([row for _, row in gaps], schema=model.EVENTS))
            order.append(np.array([index for index, _ in gaps], dtype=np.int64))
        if len(batches) == 1:
            yield batches[0]
        elif batches:
            sorted_ = np.argsort(np.concatenate(order), kind="stable")
            both = pa.Table.from_batches(batches).combine_chunks().take(pa.array(sorted_))
            yield from both.combine_chunks().to_batches()

    def gap(self, part: Part, gap: Gap) -> dict[str, Any]:
        """The event of what is no row."""
        row: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
        row.update(
            format=FORMAT,
            file=self.entry.path,
            file_index=self.index,
            offset=int(part.offset[gap.index]),
            length=int(part.length[gap.index]),
            offset_unit=str(part.unit),
            kind=str(gap.kind),
            schema_name=self.table.schema,
            table_name=self.table.table,
        )
        if gap.code is None:
            row["headers"] = [("reason", gap.reason)]
        else:
            row["problems"] = [{"code": str(gap.code), "detail": gap.reason}]
        if self.wanted.images:
            row["raw"] = gap.raw
        return row

    def rows(self, rows: Rows, unit: OffsetUnit) -> tuple[Ints, pa.RecordBatch]:
        """The events of the wanted ones among some rows, and which these are."""
        if self.entry.role == CONTROL:
            return self._control(rows, unit)
        operations = read_operations(rows, self.entry.role)
        keep = self.kept(rows, operations)
        if not keep.all():
            kept = np.flatnonzero(keep)
            if not len(kept):
                return kept, None
            rows = rows.take(kept)
            operations = read_operations(rows, self.entry.role)
        else:
            kept = np.arange(len(keep))
        return kept, self._batch(rows, operations, unit)

    def kept(self, rows: Rows, operations: Operations) -> Bools:
        """Rows that the filters let through."""
        keep = np.ones(len(rows.offset), dtype=np.bool_)
        wanted = self.wanted
        if wanted.kinds is not None:
            kinds = pa.array(sorted(wanted.kinds), pa.string())
            keep &= pc.is_in(operations.kind, kinds).to_numpy(zero_copy_only=False)
        if wanted.timed:
            keep &= pc.is_valid(read_times(rows)).to_numpy(zero_copy_only=False)
        if wanted.transactions is not None:
            names = pa.array(sorted(wanted.transactions), pa.string())
            found = pc.fill_null(pc.is_in(transaction_ids(rows), names), False)
            keep &= found.to_numpy(zero_copy_only=False)
        return keep

    def _batch(self, rows: Rows, operations: Operations, unit: OffsetUnit) -> pa.RecordBatch:
        findings = Findings()
        headers = read_headers(rows, operations, findings)
        columns = self._places(rows, unit) | {
            "record_type": operations.record_type,
            "kind": operations.kind,
            "operation": operations.operation,
            "position": headers.position,
            "transaction_id": headers.transaction_id,
            "changed_at": headers.changed_at,
            "table_version": self._repeated(None if self.version is None else self.version.key, rows),
        }
        needs = self.wanted.needs
        mask = rows.layout.known.get("change_mask")
        if mask is not None and needs("change_mask", "changed_columns", "problems"):
            columns["change_mask"] = rows.text(mask)
            if self.table.masks is not None:
                columns["changed_columns"] = changed_columns(rows, self.table.masks, self.columns, findings)
        if needs("headers"):
            columns["headers"] = self._headers(rows, headers)
        if self.wanted.images and needs("before", "after"):
            columns |= self._images(rows, operations)
        if needs("key"):
            columns["key"] = self._keys(rows, operations)
        if self.wanted.raw:
            columns["raw"] = rows.raw()
        self._garbled(rows, findings)
        columns["problems"] = findings.array(len(rows.offset))
        return self._made(columns, len(rows.offset))

    # --- columns ------------------------------------------------------------------------------------------------------

    def _places(self, rows: Rows, unit: OffsetUnit) -> dict[str, pa.Array]:
        count = len(rows.offset)
        return {
            "format": pa.repeat(FORMAT, count),
            "file": pa.repeat(self.entry.path, count),
            "file_index": pa.array(np.full(count, self.index, dtype=np.int32)),
            "offset": pa.array(rows.offset),
            "length": pa.array(rows.length),
            "offset_unit": pa.repeat(str(unit), count),
            "schema_name": self._repeated(self.table.schema, rows),
            "table_name": self._repeated(self.table.table, rows),
        }

    @staticmethod
    def _repeated(text: str | None, rows: Rows) -> pa.StringArray:
        return pa.repeat(pa.scalar(text, pa.string()), len(rows.offset))

    @staticmethod
    def _made(columns: Mapping[str, pa.Array | None], count: int) -> pa.RecordBatch:
        arrays = []
        for one in model.EVENTS:
            found = columns.get(one.name)
            arrays.append(pa.nulls(count, one.type) if found is None else found)
        return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)

    @staticmethod
    def _headers(rows: Rows, headers: Headers) -> pa.MapArray:
        count, own = len(rows.offset), len(rows.layout.header)
        if not headers.names:
            return pa.nulls(count, model.EVENTS.field("headers").type)
        values = rows.texts(rows.layout.header) if len(headers.names) == own else interleaved(headers.texts)
        return maps_of(headers.names, values, np.ones(count, dtype=np.bool_))

    @staticmethod
    def _images(rows: Rows, operations: Operations) -> dict[str, pa.Array]:
        """Before and after images."""
        layout = rows.layout
        return {
            name: maps_of(layout.data_names, rows.texts(layout.data, np.flatnonzero(chosen)), chosen)
            for name, chosen in (("before", operations.before), ("after", operations.after))
        }

    def _keys(self, rows: Rows, operations: Operations) -> pa.MapArray:
        at = {rows.layout.names[place]: place for place in rows.layout.data}
        names = [name for name in self.key if name in at]
        chosen = (operations.code != TRUNCATE) & bool(names)
        return maps_of(names, rows.texts([at[name] for name in names], np.flatnonzero(chosen)), chosen)

    def _garbled(self, rows: Rows, findings: Findings) -> None:
        """Values that are not in the character set, of the columns that were read."""
        layout = rows.layout
        wanted = set(self.key) if not self.wanted.images else None
        for place, name in enumerate(layout.names):
            if wanted is not None and place in layout.data and name not in wanted:
                continue
            for row in rows.garbled(place).tolist():
                digits = rows.text(place)[row].as_py()
                findings.add(row, sentences.not_in_charset(name, self.plan.charset, digits))

    # --- control tables -----------------------------------------------------------------------------------------------

    def _control(self, rows: Rows, unit: OffsetUnit) -> tuple[Ints, pa.RecordBatch]:
        """Rows of control tables, one by one: there are never many."""
        control = self.table.control or self.table.table
        layout = rows.layout
        texts = [rows.text(place).to_pylist() for place in range(len(layout.names))]
        raw = rows.raw()
        found = []
        for row, values in enumerate(zip(*texts, strict=True)):
            said = control_row(control, by_name(layout, values))
            times, _ = moments(pa.array([said.time], pa.string()))
            event: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
            problems = [] if said.problem is None else [said.problem]
            for place, name in enumerate(layout.names):
                if row in rows.garbled(place):
                    problems.append(sentences.not_in_charset(name, self.plan.charset, values[place] or ""))
            event.update(
                format=FORMAT,
                file=self.entry.path,
                file_index=self.index,
                offset=int(rows.offset[row]),
                length=int(rows.length[row]),
                offset_unit=str(unit),
                record_type=control,
                kind=str(Kind.CONTROL),
                operation=said.operation,
                position=said.position,
                changed_at=times[0].as_py(),
                schema_name=said.name.schema if said.name else self.table.schema,
                table_name=said.name.table if said.name else self.table.table,
                headers=list(zip(layout.names, values, strict=True)),
                raw=raw[row].as_py() if raw is not None and self.wanted.images else None,
                problems=[{"code": str(code), "detail": detail} for code, detail in problems] or None,
            )
            if self.wanted.allows(event):
                found.append((row, event))
        kept = np.array([row for row, _ in found], dtype=np.int64)
        return kept, pa.RecordBatch.from_pylist([event for _, event in found], schema=model.EVENTS)
