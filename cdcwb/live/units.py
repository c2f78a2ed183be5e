"""The tables of a followed topic in units: each step writes a folder of Parquet files, and later steps update only
transactions that both have.

The tables of a unit are computed from its messages by the functions for small captures (:mod:`cdcwb.small`). The parts
and ends of its transactions are stored with them (:data:`cdcwb.formats.summaries.PARTS`,
:data:`cdcwb.formats.delivered.ENDS`), so that no message is decoded twice.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.formats.changes import ended, finished, with_columns
from cdcwb.formats.clock import SEQUENCES, frozen_times, merged
from cdcwb.formats.delivered import ENDS
from cdcwb.formats.dissector import Format, Plan, Wanted
from cdcwb.formats.groups import Groups
from cdcwb.formats.requests import select
from cdcwb.formats.sequences import sequence_times
from cdcwb.formats.summaries import PARTS, incomplete, summarised
from cdcwb.model import Outcome
from cdcwb.planned import Planned
from cdcwb.small import Small, versions_from
from cdcwb.spark.stored import batches_of

__all__ = ["MERGED", "Renamed", "Unit", "Units"]

MERGED: Final = 8
"""So many units that follow each other, and hold as many steps each, become one."""

_FIRSTS: Final = pa.schema([("table_version", pa.string()), ("position", pa.string())])
_KEPT: Final = {
    "events": model.EVENTS,
    "changes": model.CHANGES,
    "transactions": model.TRANSACTIONS,
    "found": model.PROBLEMS,  # problems of events
    "lacking": model.PROBLEMS,  # transactions with missing events
    "ends": ENDS,
    "parts": PARTS,
    "firsts": _FIRSTS,
    "sequences": SEQUENCES,
}
_SHOWN: Final = {
    "events": "events",
    "changes": "changes",
    "transactions": "transactions",
    "found": "problems",
    "lacking": "problems",
}
"""The files of a unit that are part of a table."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The decoded messages of some steps. ``name``: its folder; ``files``: the numbers of its files in the capture;
    ``marks``: their fingerprints (:mod:`cdcwb.formats.continued`); ``steps``: the number of steps in it."""

    name: str
    files: list[int]
    marks: list[str]
    steps: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The unit as a JSON value."""
        return asdict(self)


class Renamed:
    """A function that renames the files of rows. ``paths``: the new file for each merged file; ``numbers``: the new
    index for each file index."""

    def __init__(self, paths: Mapping[str, str], numbers: Sequence[int]) -> None:
        self._paths, self._numbers = dict(paths), pa.array(numbers, pa.int32())

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the new files."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        coded = columns["file"].dictionary_encode()
        names = [None if path is None else self._paths.get(path, path) for path in coded.dictionary.to_pylist()]
        columns["file"] = pa.array(names, pa.string()).take(coded.indices)
        if "file_index" in columns:
            columns["file_index"] = self._numbers.take(columns["file_index"])
        if "source_events" in columns:
            lists = columns["source_events"]
            events = lists.flatten()
            fields = dict(zip((field.name for field in events.type), events.flatten(), strict=True))
            fields["file_index"] = self._numbers.take(fields["file_index"])
            ends = np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))
            is_null = np.append(lists.is_null().to_numpy(zero_copy_only=False), False)
            offsets = pa.array(np.append(0, ends).astype(np.int32), mask=is_null)
            events = pa.StructArray.from_arrays(list(fields.values()), fields=list(events.type))
            columns["source_events"] = pa.ListArray.from_arrays(offsets, events).cast(lists.type)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)


class Units:
    """The units in a folder, in the order of their steps."""

    def __init__(self, folder: Path, units: Sequence[Unit]) -> None:
        self.folder = folder
        self.all = list(units)
        self._number = max((int(unit.name) for unit in units), default=0)

    def make(self, files: list[int], marks: list[str], planned: Planned, steps: int = 1) -> Unit:
        """Decodes the messages of a capture into a new unit, without what other units know of their transactions."""
        unit = Unit(self._next(), files, marks, steps)
        (self.folder / unit.name).mkdir()
        self._write(unit, "events", (rows.select(model.EVENTS.names) for rows in Small(planned).events()))
        form = planned.format
        small = Small(_decoded(planned, self._rows(unit, "events")))
        ends = small.ends()
        of_ends = Groups(ends)
        changes = (finished(ended(rows, of_ends), {}, form.compressed_updates) for rows in small.delivered())
        self._write(unit, "changes", changes)
        self._write(unit, "transactions", [])
        self._write(unit, "found", small.problems_of_events())
        self._write(unit, "lacking", [])
        tables = {
            "ends": ends,
            "parts": small.parts(),
            "firsts": small.first_positions(),
            "sequences": small.sequences(),
        }
        for name, table in tables.items():
            self._write(unit, name, table.cast(_KEPT[name]).to_batches())
        return unit

    def add(self, fresh: Sequence[Unit], gone: Sequence[Unit]) -> None:
        """Adds the ``fresh`` units, the newest last, which replace the ``gone`` ones, and updates all their
        transactions in all units."""
        remaining = [other for other in self.all if other not in gone]
        names = _distinct([self._ids(other, "parts") for other in (*fresh, *gone)])
        new_ends = _distinct([self._ids(other, "ends") for other in fresh])
        touched = {other.name for other in remaining if pc.any(pc.is_in(self._ids(other, "parts"), names)).as_py()}
        remaining = [self._copy(other) if other.name in touched else other for other in remaining]
        self.all = sorted([*remaining, *fresh], key=lambda other: min(other.files, default=-1))
        for unit in remaining:
            self._forget(unit, names)
            self._update_ends(unit, new_ends)
        for unit in fresh:  # the ends of their transactions may be in other units
            self._update_ends(unit, self._ends_in_other_units(unit))
        summaries = summarised(self._of("parts", names))
        last = self.all[-1]
        self._write(last, "transactions", [summaries.select(model.TRANSACTIONS.names)])
        self._write(last, "lacking", [pa.RecordBatch.from_pylist(incomplete(summaries), model.PROBLEMS)])

    def merge(self) -> Unit | None:
        """Merges the last :data:`MERGED` units while they have equal numbers of steps; returns the merged unit, or
        None."""
        unit = None
        while len(self.all) >= MERGED and len({part.steps for part in self.all[-MERGED:]}) == 1:
            some = self.all[-MERGED:]
            files = [file for part in some for file in part.files]
            marks = [mark for part in some for mark in part.marks]
            unit = Unit(self._next(), files, marks, sum(part.steps for part in some))
            (self.folder / unit.name).mkdir()
            for name in _KEPT:
                self._write(unit, name, (rows for part in some for rows in self._rows(part, name)))
            self.all[-MERGED:] = [unit]
        return unit

    def rename(self, unit: Unit, renamed: Renamed, files: list[int], marks: list[str]) -> None:
        """Renames the files of the last unit to the merged ``files``, with the fingerprints ``marks``."""
        for name in ("events", "changes", "found"):
            self._write(unit, name, map(renamed, self._rows(unit, name)))
        self.all[-1] = replace(unit, files=files, marks=marks)

    def show(self, folder: Path, planned: Planned) -> None:
        """Links and writes the tables of all units into the folder of a saved capture."""
        for name in model.TABLES:
            (folder / name).mkdir()
        for unit in self.all:
            for name, table in _SHOWN.items():
                _link(self._file(unit, name), folder / table / f"part-{unit.name}-{name}.parquet")
        form, plan = planned.format, planned.plan
        groups = Groups(self._all_rows("firsts"), by="table_version")
        least = groups.least(groups.column("position")) if len(groups) else pa.array([], pa.string())
        firsts = pa.table({"table_version": groups.names, "position": least})
        versions = versions_from(form.table_versions(plan), firsts)
        problems = [*frozen_times(self._sequences()), *form.problems(plan)]
        tables = {
            "table_versions": versions,
            "problems": pa.Table.from_pylist(problems, model.PROBLEMS),
            "detected": pa.Table.from_pylist(planned.detected_rows, model.DETECTED),
        }
        for name, table in tables.items():
            pq.write_table(table, folder / name / "part.parquet")

    def tidy(self) -> None:
        """Removes the folders of replaced units."""
        names = {unit.name for unit in self.all}
        for folder in self.folder.iterdir():
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        self._number += 1
        return f"{self._number:08}"

    def _file(self, unit: Unit, name: str) -> Path:
        return self.folder / unit.name / f"{name}.parquet"

    def _copy(self, unit: Unit) -> Unit:
        """A copy of a unit in a new folder, so that it can be changed."""
        copy = replace(unit, name=self._next())
        (self.folder / copy.name).mkdir()
        for name in _KEPT:
            _link(self._file(unit, name), self._file(copy, name))
        return copy

    def _write(self, unit: Unit, name: str, rows: Iterable[pa.RecordBatch]) -> None:
        """Replaces a file; hard links of the previous file keep its content."""
        path = self._file(unit, name)
        part = path.with_suffix(".part")
        with pq.ParquetWriter(part, _KEPT[name], compression="zstd") as writer:
            for batch in rows:
                if batch.num_rows:
                    writer.write_batch(batch.cast(_KEPT[name]))
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)

    def _rows(self, unit: Unit, name: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self._file(unit, name)) as file:
            for batch in batches_of(file):
                yield batch.cast(_KEPT[name]) if batch.schema != _KEPT[name] else batch

    def _ids(self, unit: Unit, name: str) -> pa.Array:
        with pq.ParquetFile(self._file(unit, name)) as file:
            return _distinct([batch["transaction_id"] for batch in batches_of(file, ["transaction_id"])])

    def _all_rows(self, name: str) -> pa.Table:
        return pa.Table.from_batches((rows for unit in self.all for rows in self._rows(unit, name)), _KEPT[name])

    def _of(self, name: str, transactions: pa.Array) -> pa.Table:
        """The rows of some transactions in all units."""
        rows = (rows.filter(_among(rows, transactions)) for unit in self.all for rows in self._rows(unit, name))
        return pa.Table.from_batches(rows, _KEPT[name])

    def _sequences(self) -> pa.Table:
        """The times in change sequences; rows of several units with the same time and transaction are merged."""
        return merged(self._all_rows("sequences"))

    # --- transactions of several units --------------------------------------------------------------------------------

    def _forget(self, unit: Unit, transactions: pa.Array) -> None:
        """Removes some transactions from the tables of a unit; a later unit has them."""
        for name in ("transactions", "lacking"):
            rows = list(self._rows(unit, name))
            left = [batch.filter(pc.invert(_among(batch, transactions))) for batch in rows]
            if sum(map(len, left)) < sum(map(len, rows)):
                self._write(unit, name, left)

    def _ends_in_other_units(self, unit: Unit) -> pa.Array:
        """The transactions of a unit whose ends are in other units."""
        own = self._ids(unit, "parts")
        ids_of_others = [self._ids(other, "ends") for other in self.all if other is not unit]
        return _distinct([ids.filter(pc.is_in(ids, own)) for ids in ids_of_others])

    def _update_ends(self, unit: Unit, transactions: pa.Array) -> None:
        """Updates the changes of some transactions of a unit from the ends of these in all units."""
        ids = self._ids(unit, "parts")
        crossing = ids.filter(pc.is_in(ids, transactions))
        if not len(crossing):
            return
        ends = Groups(self._of("ends", crossing))

        def updated(rows: pa.RecordBatch) -> pa.RecordBatch:
            is_crossing = _among(rows, crossing)
            if not pc.any(is_crossing).as_py():
                return rows
            new = ended(_without_end(rows), ends)
            columns = [
                pc.if_else(is_crossing, new[name], rows[name]) if name in _OF_ENDS else rows[name]
                for name in model.CHANGES.names
            ]
            return pa.RecordBatch.from_arrays(columns, schema=model.CHANGES)

        self._write(unit, "changes", map(updated, self._rows(unit, "changes")))


_OF_ENDS: Final = ("commit_position", "committed_at", "outcome")


def _without_end(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Changes without the values from the ends of their transactions, as
    :func:`cdcwb.formats.delivered.read_delivered` returns them."""
    is_back = pc.fill_null(pc.equal(changes["outcome"], str(Outcome.ROLLED_BACK)), False)
    known = {
        "commit_position": pa.nulls(changes.num_rows, pa.string()),
        "committed_at": sequence_times(changes["position"])[0],
        "outcome": pc.if_else(is_back, str(Outcome.COMMITTED), changes["outcome"]),
    }
    return with_columns(changes, known)


class _Decoded:
    """A format that returns decoded events, as a capture of one split."""

    def __init__(self, form: Format, events: list[pa.RecordBatch]) -> None:
        self._form, self._events = form, events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._form, name)

    def read(self, _plan: Plan, _split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events with the wanted columns."""
        for batch in self._events:
            yield from select(batch, wanted)


def _decoded(planned: Planned, events: Iterator[pa.RecordBatch]) -> Planned:
    """The capture of decoded events, so that assembly does not decode them again."""
    some, plan = copy.copy(planned), copy.copy(planned.plan)
    plan.splits = plan.splits[:1]
    some.plan, some.format = plan, cast(Format, _Decoded(planned.format, list(events)))
    return some


def _among(rows: pa.RecordBatch, transactions: pa.Array) -> pa.Array:
    return pc.is_in(rows["transaction_id"], transactions)


def _distinct(texts: Sequence[pa.Array]) -> pa.Array:
    """The different texts, without null."""
    return pa.chunked_array(texts, pa.string()).drop_null().unique()


def _link(file: Path, link: Path) -> None:
    """Makes a hard link of a file, or a copy if the file system has no hard links."""
    with suppress(OSError):
        os.link(file, link)
        return
    shutil.copyfile(file, link)
