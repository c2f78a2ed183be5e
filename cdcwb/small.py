"""The tables of a small capture, made by the readers in this process: no session of Spark is started for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.formats.assembly import CHANGES, labels, open_ones, read_changes, read_trail_changes, read_transactions
from cdcwb.formats.base import EVERYTHING, Assembling, Halving, Joining, Pairing, Wanted
from cdcwb.formats.clock import frozen_times, of_sequences
from cdcwb.formats.delivered import ENDS, read_delivered, read_ends, read_problems
from cdcwb.formats.goldengate.undo import FLAG, marks
from cdcwb.formats.halves import WHOLE, as_array
from cdcwb.formats.idm_event_log.spellings import WITH_SPELLING, key_spellings, spelt
from cdcwb.formats.selecting import with_problems
from cdcwb.formats.summaries import PARTS, Groups, counted, incomplete, read_parts, summarised
from cdcwb.model import ChangeSource, Kind, Operation, Outcome, Problem
from cdcwb.planned import SPLIT, Planned
from cdcwb.saved import replacing, write_description
from cdcwb.standard_input import is_spool

__all__ = ["AT_MOST", "Small", "ended", "is_small", "tables_of", "versions_from", "with_written_columns"]

AT_MOST: Final = 32_000_000
"""Bytes of a small capture."""

_PACKED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")
_ONLY_PAIRED: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)

Batches = Iterator[pa.RecordBatch]
Row = dict[str, Any]
Place = tuple[int, int]
"""file_index and offset"""

_OF_FRAGMENTS: Final = ["kind", "file_index", "offset", "length", "position", "transaction_id", "headers", "problems"]


def is_small(paths: Sequence[str | Path]) -> bool:
    """Are these files, and those of these folders, together no larger than :data:`AT_MOST`, and none of them packed?"""
    places = [Path(path) for path in paths]
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file()]
    left = AT_MOST
    for file in files:
        left -= file.stat().st_size
        if left < 0 or file.suffix in _PACKED:
            return False
    return True


def tables_of(planned: Planned) -> Small | None:
    """The tables of a capture; None where Spark has to make them: it is not small, it is read with one of the options
    ``keys``, ``images`` and ``mode`` or from standard input, halves of its updates lie in files that overlap (change
    tables), or its record ids fall far (event logs)."""
    form, plan = planned.format, planned.plan
    files = [entry["file"] for entry in planned.files]
    plain = planned.mode == "PERMISSIVE" and planned.with_images and not planned.keys and not any(map(is_spool, files))
    if not plain or not is_small(files):
        return None
    if isinstance(form, Joining):
        return Small(planned) if form.joins(plan) else None
    if isinstance(form, Halving):
        whole = not any(form.halved(plan, split).shared for split in range(len(plan.splits)))
        return Small(planned) if whole else None
    return Small(planned)


class Small:
    """The tables of a capture of files, each as batches of its schema in :data:`cdcwb.model.TABLES`; ``events`` have
    the number of their split besides."""

    def __init__(self, planned: Planned) -> None:
        self._planned = planned
        self._format, self._plan = planned.format, planned.plan
        self._splits = range(len(self._plan.splits))
        self._is_trail = self._format.pairing is Pairing.TRANSACTION and not self._format.commits

    @property
    def format(self) -> str:
        """The name of its format."""
        return self._format.name

    @property
    def committed_only(self) -> bool:
        """As :attr:`cdcwb.Capture.committed_only`."""
        return not self._format.commits

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

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """As :meth:`cdcwb.Capture.save`."""
        target = Path(directory).expanduser().absolute()
        with replacing(target, overwrite) as beside:
            self.write(beside)
        return target

    def write(self, folder: Path) -> None:
        """Writes all that a saved capture has into a folder."""
        for name in model.TABLES:
            self.write_table(name, folder)
        planned = self._planned
        write_description(folder, self.format, self.files, planned.facts, planned.continuation())

    def write_table(self, name: str, folder: Path, images: bool = True) -> Path:
        """Writes a table, of events and changes perhaps without images, into a folder of its name; returns the file."""
        schema = model.TABLES[name] if name != "events" else model.EVENTS.append(pa.field(SPLIT, pa.int32()))
        place = folder / name / "part-0.parquet"
        place.parent.mkdir()
        rows = getattr(self, name)(*([images] if name in ("events", "changes") else []))
        with pq.ParquetWriter(place, schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return place

    # --- what readers give ----------------------------------------------------------------------------------------

    def _read(self, wanted: Wanted) -> Batches:
        """The events of all splits."""
        for split in self._splits:
            yield from self._format.read(self._plan, split, wanted)

    def _of_splits(self, read: Callable[..., Batches], wanted: Wanted) -> Batches:
        """What a reader of committed work gives of each split."""
        form = self._format
        for split in self._splits:
            if isinstance(form, Halving):
                yield from read(partial(form.read_together, self._plan, split), wanted, form.halved(self._plan, split))
            else:
                yield from read(partial(form.read, self._plan, split), wanted, WHOLE)

    def events(self, images: bool = True) -> Batches:
        """One row per wire record, in capture order; without ``images`` these and raw are null."""
        for split in self._splits:
            for batch in self._format.read(self._plan, split, Wanted(images)):
                number = pa.repeat(pa.scalar(split, pa.int32()), batch.num_rows)
                yield batch.append_column(pa.field(SPLIT, pa.int32()), number)

    def changes(self, images: bool = True) -> Batches:
        """One row per logical change; without ``images`` these are null."""
        form, wanted = self._format, Wanted(images)
        if isinstance(form, Assembling):
            yield from read_changes(self._read, wanted, frozenset())
        elif isinstance(form, Joining):
            for split in self._splits:
                yield from form.read_changes(self._plan, split, wanted)
        elif isinstance(form, Halving):  # change tables do not say where a transaction ends
            yield from self._of_splits(read_delivered, wanted)
        else:
            ends = Groups(self.ends())
            pieces = self._pieces() if self._plan.facts.get("fragments") else {}
            marks = self._marks() if self._plan.facts.get("undo_records") else {}
            for batch in self.delivered(wanted):
                yield with_written_columns(_marked(ended(batch, ends), pieces, marks), form.compressed_updates)

    def ends(self) -> pa.Table:
        """What the records of a stream of committed work say of the ends of its transactions
        (:data:`cdcwb.formats.delivered.ENDS`)."""
        return _table(self._of_splits(partial(read_ends, trail=self._is_trail), Wanted(images=False)), ENDS)

    def delivered(self, wanted: Wanted = EVERYTHING) -> Batches:
        """The changes of a stream of committed work, without what the ends of their transactions tell."""
        if self._is_trail:
            return read_trail_changes(self._read, wanted, frozenset())
        return self._of_splits(read_delivered, wanted)

    def _pieces(self) -> dict[Place, list[Row]]:
        """The fragments that continue events, by the place of the event, as :data:`cdcwb.model.SOURCE_EVENT`. A
        fragment names the event in the header ``continues``: by position, or by ``file_index:offset`` where an event
        has no position or that of a different one before it."""
        names: dict[tuple[str | None, str], list[Place]] = defaultdict(list)
        fragments = []
        for batch in self._read(Wanted(images=False, columns=frozenset(_OF_FRAGMENTS))):
            for row in batch.select(_OF_FRAGMENTS).to_pylist():
                if row["kind"] == Kind.FRAGMENT:
                    fragments.append(row)
                elif row["kind"] in CHANGES:
                    place = row["file_index"], row["offset"]
                    again = any(one["code"] == Problem.SAME_POSITION for one in row["problems"] or ())
                    name = None if again else row["position"]
                    names[row["transaction_id"], name or f"{place[0]}:{place[1]}"].append(place)
        found: dict[Place, list[Row]] = defaultdict(list)
        for row in fragments:
            named: str = dict(row["headers"] or ()).get("continues", "")
            for place in names.get((row["transaction_id"], named), ()):
                found[place].append({field.name: row[field.name] for field in model.SOURCE_EVENT})
        return found

    def _marks(self) -> dict[Place, str]:
        """What became of changes that undo others or are undone, by their places."""
        columns = ["file_index", "offset", "position", "operation", "key", "before", "after"]
        each: dict[str, list[Row]] = defaultdict(list)
        for batch in self.delivered(Wanted()):
            labelled = labels(batch["schema_name"], batch["table_name"]).to_pylist()
            flags = pc.map_lookup(batch["headers"], FLAG, "first").to_pylist()
            rows = batch.select([*columns, "transaction_id"]).to_pylist()
            for row, table, flag in zip(rows, labelled, flags, strict=True):
                images = {name: None if row[name] is None else dict(row[name]) for name in columns[-3:]}
                if row["transaction_id"] is not None:
                    each[row["transaction_id"]].append({**row, **images, "table": table, "undoes": flag == "1"})
        found: dict[Place, str] = {}
        for rows in each.values():
            if any(row["undoes"] for row in rows):
                found |= marks(rows)
        return found

    def transactions(self) -> Batches:
        """One row per transaction."""
        if isinstance(self._format, Assembling):
            yield from read_transactions(self._read, Wanted(images=False), frozenset())
        elif not isinstance(self._format, Joining):
            yield self._summaries.select(model.TRANSACTIONS.names)

    @cached_property
    def _summaries(self) -> pa.RecordBatch:
        """The transactions of a stream of committed work, and what tells what is missing in them."""
        return summarised(self.parts())

    def parts(self) -> pa.Table:
        """What the records of a stream of committed work say of its transactions
        (:data:`cdcwb.formats.summaries.PARTS`)."""
        read = partial(read_parts, trail=self._is_trail)
        parts = _table(self._of_splits(read, Wanted(images=False)), PARTS)
        if not self._is_trail:
            return parts
        columns = ["transaction_id", "operation", "schema_name", "table_name"]
        schema = pa.schema(map(model.CHANGES.field, columns))
        changes = (batch.select(columns) for batch in self.delivered(Wanted(images=False)))
        # a half counts with its change: what records say of changes does not hold
        nothing = [pa.nulls(parts.num_rows, PARTS.field(name).type) for name in ("changes", "tables")]
        records = pa.Table.from_arrays([*parts.drop_columns(["changes", "tables"]).columns, *nothing], schema=PARTS)
        together = [*records.to_batches(), counted(_table(changes, schema))]
        return pa.Table.from_batches(together, PARTS)

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
        rows = [*self.problems_of_events(), *self._of_assembly()]
        rows += self._format.problems(self._plan)
        yield pa.RecordBatch.from_pylist(rows, model.PROBLEMS)

    def problems_of_events(self) -> list[Row]:
        """The problems of events, as rows of :data:`cdcwb.model.PROBLEMS`."""
        return [row for batch in self._with_problems() for row in problem_rows(batch)]

    def _with_problems(self) -> Batches:
        """The events that have problems, those that only a look at other records finds among them."""
        form = self._format
        if isinstance(form, Joining):
            for split in self._splits:
                yield from form.read_checked(self._plan, split, Wanted())
        elif isinstance(form, Halving):
            yield from self._of_splits(read_problems, Wanted())
        else:
            yield from map(with_problems, self._read(Wanted()))

    def _of_assembly(self) -> list[Row]:
        """The problems of the capture as a whole: of what its records are put together to."""
        form, headers = self._format, Wanted(images=False)
        if isinstance(form, Joining):
            rows = [spelt(rows) for one in self._splits for rows in form.read_spellings(self._plan, one, Wanted())]
            return problem_rows(key_spellings(pa.Table.from_batches(rows, WITH_SPELLING)))
        found = []
        if form.pairing is Pairing.TRANSACTION:
            made = read_changes(self._read, headers, frozenset()) if form.commits else self.delivered(headers)
            found = [row for batch in made for row in problem_rows(batch, _ONLY_PAIRED)]
        if form.commits:
            return found + [row for batch in self.transactions() for row in open_ones(batch)]
        found += frozen_times(self.sequences())
        return found if isinstance(form, Halving) else [*found, *incomplete(self._summaries)]

    def sequences(self) -> pa.Table:
        """The times in change sequences (:data:`cdcwb.formats.clock.SEQUENCES`)."""
        columns = frozenset({"kind", "position", "transaction_id", "changed_at"})
        return of_sequences(self._read(Wanted(images=False, columns=columns)))

    def detected(self) -> Batches:
        """What was concluded before anything was decoded."""
        yield pa.RecordBatch.from_pylist(self._planned.detected_rows, model.DETECTED)


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema).combine_chunks()


def ended(changes: pa.RecordBatch, ends: Groups) -> pa.RecordBatch:
    """Changes with what the ends of their transactions tell."""
    if not len(ends):
        return changes
    mine = pc.index_in(changes["transaction_id"], ends.names, skip_nulls=True)
    rolled_back = pa.array(ends.some(as_array(pc.fill_null(ends.column("rolls_back"), False)))).take(mine)
    known = {
        "commit_position": ends.greatest(ends.column("commit_position")).take(mine),
        "committed_at": pc.coalesce(changes["committed_at"], ends.greatest(ends.column("committed_at")).take(mine)),
        "outcome": pc.if_else(pc.fill_null(rolled_back, False), str(Outcome.ROLLED_BACK), changes["outcome"]),
    }
    return _with(changes, known)


def versions_from(versions: pa.Table, firsts: pa.Table) -> pa.Table:
    """Versions of tables with the positions of their first changes (columns table_version and position, each version
    once)."""
    known, position = (firsts[name].combine_chunks().cast(pa.string()) for name in ("table_version", "position"))
    found = position.take(pc.index_in(versions["table_version"].combine_chunks(), known, skip_nulls=True))
    at = model.TABLE_VERSIONS.get_field_index("first_position")
    names = [name for name in model.TABLE_VERSIONS.names if name != "first_position"]
    rows = versions.select(names).add_column(at, model.TABLE_VERSIONS.field(at), found)
    return rows.cast(model.TABLE_VERSIONS)


def _marked(changes: pa.RecordBatch, pieces: Mapping[Place, list[Row]], marks: Mapping[Place, str]) -> pa.RecordBatch:
    """Changes with the fragments of their events, and what became of those that undo others or are undone."""
    if not pieces and not marks:
        return changes
    events, outcome = changes["source_events"].to_pylist(), changes["outcome"].to_pylist()
    places = zip(changes["file_index"].to_pylist(), changes["offset"].to_pylist(), strict=True)
    for row, place in enumerate(places):
        outcome[row] = marks.get(place, outcome[row])
        events[row] = [one for event in events[row] for one in (event, *pieces.get(_place_of(event), ()))]
    known = {
        "source_events": pa.array(events, model.CHANGES.field("source_events").type),
        "outcome": pa.array(outcome, pa.string()),
    }
    return _with(changes, known)


def _place_of(event: Row) -> Place:
    return event["file_index"], event["offset"]


def _with(changes: pa.RecordBatch, known: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Changes with some columns anew."""
    columns = [known.get(field.name, changes[field.name]) for field in model.CHANGES]
    return pa.RecordBatch.from_arrays(columns, schema=model.CHANGES)


def with_written_columns(changes: pa.RecordBatch, compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the columns that updates of the record types ``compressed`` wrote: those of the after image, less
    those that the before image has with the same value, and less columns of the key that no before image has: they only
    say which row it is (docs/formats/goldengate.md §4.5). The source is ``log`` where any of them was not compared."""
    is_update = pc.equal(changes["operation"], str(Operation.UPDATE))
    rule = pc.and_(pc.is_in(changes["record_type"], pa.array(sorted(compressed), pa.string())), is_update)
    rows = np.flatnonzero(as_array(pc.fill_null(pc.and_(rule, pc.is_valid(changes["after"])), False)))
    if not len(rows):
        return changes
    names, sources = changes["changed_columns"].to_pylist(), changes["change_source"].to_pylist()
    images = changes.select(["before", "after", "key"]).take(pa.array(rows)).to_pylist()
    for row, image in zip(rows.tolist(), images, strict=True):
        before, key = dict(image["before"] or ()), dict(image["key"] or ())
        names[row] = [
            name for name, value in image["after"] if (before[name] != value if name in before else name not in key)
        ]
        listed = image["before"] is None or any(name not in before for name in names[row])
        sources[row] = str(ChangeSource.LOG if listed else ChangeSource.IMAGES)
    known = {"changed_columns": pa.array(names, pa.list_(pa.string())), "change_source": pa.array(sources, pa.string())}
    return _with(changes, known)


def problem_rows(rows: pa.RecordBatch, only: Sequence[str] = ()) -> list[Row]:
    """The problems of events or changes, as rows of :data:`cdcwb.model.PROBLEMS`. ``only``: those with these codes."""
    some = with_problems(rows)
    names = ["problems", "file", "offset", "length", "transaction_id"]
    table = labels(some["schema_name"], some["table_name"]).to_pylist()
    raw = some["raw"].to_pylist() if "raw" in some.schema.names else [None] * some.num_rows
    found = []
    for row, label, record in zip(some.select(names).to_pylist(), table, raw, strict=True):
        place: Mapping[str, Any] = {name: row[name] for name in names[1:]}
        first = None if record is None else record[:32].hex()
        for one in row["problems"]:
            if not only or one["code"] in only:
                said = {"code": one["code"], "sentence": one["detail"], "first_bytes": first, "table": label}
                found.append({**place, **said, "severity": str(Problem(one["code"]).severity)})
    return found
