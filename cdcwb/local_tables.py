"""The tables of a small capture, computed by the readers in this process, without a Spark session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.changes import CHANGES, Read, collected, finished
from cdcwb.formats.continued import Stamps, marks_of
from cdcwb.formats.dissector import Assembling, Format, Joining, Plan, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.findings import ELSEWHERE, PROBLEMS, across, find
from cdcwb.formats.groups import Groups
from cdcwb.formats.halves import Halving, halved_of
from cdcwb.formats.requests import select
from cdcwb.formats.source import info_of, is_file
from cdcwb.formats.summaries import summarised
from cdcwb.model import SPLIT

__all__ = ["AT_MOST", "LocalTables", "Origin", "ReadingPlan", "is_small", "plain", "tables_of", "versions_from"]

AT_MOST: Final = 32_000_000
"""Bytes of a small capture."""

_PACKED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a capture was opened from: its files, and the requested format (or ``auto``) and options, as JSON
    values."""

    files: list[str]
    format: str
    options: dict[str, Any]


def plain(value: Any) -> Any:
    """The value of an option as a JSON value; every spelling of a number or a boolean becomes the same text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class ReadingPlan:
    """How a capture is read. ``detected_rows`` are the rows of the table ``detected``; ``with_images``, ``mode`` and
    ``keys`` are the options that all formats share; ``origin`` is None for a DataFrame."""

    def __init__(
        self,
        fmt: Format,
        plan: Plan,
        detected: list[dict[str, Any]],
        images: bool,
        mode: str,
        keys: dict[str, list[str]],
        origin: Origin | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self.format = fmt
        self.plan = plan
        self.detected_rows = detected
        self.with_images = images
        self.mode = mode
        self.keys = keys
        self.files = fmt.files(plan)
        self.facts = plan.facts
        self.origin = origin
        self.stamps: Stamps = stamps or {}

    @cached_property
    def marks(self) -> list[list[str]]:
        """The fingerprints of each split; its saved events are reused if they are equal when files are appended."""
        return marks_of(self.format, self.plan, self.stamps)

    def continuation(self) -> dict[str, Any]:
        """What appending files to the saved capture needs, or (``not``) why they cannot be appended."""
        if self.mode == "DROPMALFORMED":
            return {"not": "records that could not be parsed were left out when it was saved (mode=DROPMALFORMED)"}
        if self.origin is None:
            return {"not": "it was saved from a table of rows, not from files"}
        return {**asdict(self.origin), "splits": self.marks}


def is_small(paths: Sequence[str | Path]) -> bool:
    """Whether these files and folders together have at most :data:`AT_MOST` bytes and no compressed file. A path that
    cannot be listed counts as small: opening it raises the error."""
    left = AT_MOST
    with suppress(CaptureError):
        for path in paths:
            for file in [str(path)] if is_file(str(path)) else list_files(path):
                left -= info_of(file).size
                if left < 0 or file.endswith(_PACKED):
                    return False
    return True


def tables_of(planned: ReadingPlan) -> LocalTables | None:
    """The tables of a capture; None if Spark has to compute them: the capture is not small, it is read with the option
    ``images`` or ``mode``, halves of updates are in files that overlap (change tables), or
    record ids fall by more than the reader looks back (event logs)."""
    form, plan = planned.format, planned.plan
    files = [entry["file"] for entry in planned.files]
    plain = planned.mode == "PERMISSIVE" and planned.with_images
    if not plain or not is_small(files):
        return None
    if isinstance(form, Joining):
        return LocalTables(planned) if form.joins(plan) else None
    if isinstance(form, Halving):
        separate = not any(form.halved(plan, split).shared for split in range(len(plan.splits)))
        return LocalTables(planned) if separate else None
    return LocalTables(planned)


class LocalTables:
    """The tables of a capture of files, each as batches of its schema in :data:`cdcwb.model.TABLES`; ``events`` also
    have the number of their split (:data:`cdcwb.model.SPLIT`)."""

    def __init__(self, planned: ReadingPlan) -> None:
        self._planned = planned
        self._format, self._plan = planned.format, planned.plan
        self._splits = range(len(self._plan.splits))

    @property
    def format(self) -> str:
        """The name of its format."""
        return self._format.name

    @property
    def facts(self) -> dict[str, Any]:
        """As :attr:`cdcwb.Capture.facts`."""
        return self._planned.facts

    @property
    def files(self) -> list[dict[str, Any]]:
        """Its files, as :attr:`cdcwb.Capture.files` has them."""
        return self._planned.files

    def table(self, name: str) -> pa.Table:
        """A table of the model."""
        schema = model.TABLES[name]
        return pa.Table.from_batches((batch.select(schema.names) for batch in getattr(self, name)()), schema)

    def write_table(self, name: str, folder: Path, images: bool = True, columns: Sequence[str] | None = None) -> Path:
        """Writes a table (events and changes also without images, or only some ``columns``) into a folder of its name;
        returns the file."""
        schema = model.TABLES[name] if name != "events" else model.EVENTS.append(pa.field(SPLIT, pa.int32()))
        schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
        path = folder / name / "part-0.parquet"
        path.parent.mkdir()
        rows = getattr(self, name)(*([images] if name in ("events", "changes") else []))
        with pq.ParquetWriter(path, schema) as writer:
            for batch in rows:
                writer.write_batch(batch.select(schema.names))
        return path

    # --- readers --------------------------------------------------------------------------------------------------

    def _read(self, wanted: Wanted) -> Batches:
        """The events of all splits."""
        for split in self._splits:
            yield from self._format.read(self._plan, split, wanted)

    def events(self, images: bool = True) -> Batches:
        """One row per wire record, in capture order; without ``images`` these and raw are null."""
        for split in self._splits:
            for batch in self._format.read(self._plan, split, Wanted(images)):
                number = pa.repeat(pa.scalar(split, pa.int32()), batch.num_rows)
                yield batch.append_column(pa.field(SPLIT, pa.int32()), number)

    def changes(self, images: bool = True) -> Batches:
        """One row per logical change; without ``images`` these are null."""
        form, plan, wanted = self._format, self._plan, Wanted(images)
        if not isinstance(form, (Assembling, Joining)):
            yield from self._assembler.changes(wanted)
            return
        for split in self._splits:
            for batch in form.read_changes(plan, split, wanted):
                yield finished(batch, self._planned.keys, form.compressed_updates)

    @cached_property
    def _assembler(self) -> Assembler:
        """Changes and transactions of the events of all splits."""
        form, plan = self._format, self._plan
        reads: list[Read] = [partial(form.read, plan, split) for split in self._splits]
        sources = [(read, halved_of(form, plan, split)) for split, read in enumerate(reads)]
        return Assembler(form, self._planned.keys, sources)

    def parts(self) -> pa.Table:
        """See :meth:`cdcwb.formats.assembler.Assembler.parts`."""
        return self._assembler.parts()

    def transactions(self) -> Batches:
        """One row per transaction."""
        form, plan = self._format, self._plan
        if isinstance(form, Assembling):
            found = (form.read_transactions(plan, split, Wanted(images=False)) for split in self._splits)
            yield from collected(chain.from_iterable(found), form.merged)
        elif not isinstance(self._format, Joining):
            yield summarised(self.parts()).select(model.TRANSACTIONS.names)

    def table_versions(self) -> Batches:
        """One row per version of a table."""
        yield from versions_from(self._format.table_versions(self._plan), self.first_positions()).to_batches()

    def first_positions(self) -> pa.Table:
        """The columns table_version and position of the first change of each version that has any."""
        columns = ["kind", "table_version", "position"]
        read = self._read(Wanted(images=False, columns=frozenset(columns)))
        rows = _table((batch.select(columns) for batch in read), pa.schema(map(model.EVENTS.field, columns)))
        rows = rows.filter(pc.and_(pc.is_in(rows["kind"], pa.array(CHANGES)), pc.is_valid(rows["table_version"])))
        groups = Groups(rows, by="table_version")
        least = groups.least(groups.column("position")) if len(groups) else pa.array([], pa.string())
        return pa.table({"table_version": groups.names, "position": least})

    def problems(self) -> Batches:
        """One row per problem."""
        form, plan = self._format, self._plan
        found: dict[str, Any] = defaultdict(list)
        for split in self._splits:
            for name, rows in find(form, plan, split, partial(form.read, plan, split), Wanted()):
                found[name].append(rows)
        events = found.pop(ELSEWHERE, [])
        yield from found.pop(PROBLEMS, [])
        tables = {name: pa.Table.from_batches(rows) for name, rows in found.items()}
        yield from across(form, tables, lambda wanted: (rows for one in events for rows in select(one, wanted)))
        yield pa.RecordBatch.from_pylist(form.problems(plan), model.PROBLEMS)

    def detected(self) -> Batches:
        """One row per detected setting."""
        yield pa.RecordBatch.from_pylist(self._planned.detected_rows, model.DETECTED)


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema).combine_chunks()


def versions_from(versions: pa.Table, firsts: pa.Table) -> pa.Table:
    """``table_versions`` with first_position from ``firsts`` (columns table_version and position, each version
    once)."""
    known, position = (firsts[name].combine_chunks().cast(pa.string()) for name in ("table_version", "position"))
    positions = position.take(pc.index_in(versions["table_version"].combine_chunks(), known, skip_nulls=True))
    at = model.TABLE_VERSIONS.get_field_index("first_position")
    names = [name for name in model.TABLE_VERSIONS.names if name != "first_position"]
    rows = versions.select(names).add_column(at, model.TABLE_VERSIONS.field(at), positions)
    return rows.cast(model.TABLE_VERSIONS)
