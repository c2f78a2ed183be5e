"""The tables of a capture of files, read on this machine without a Spark session: those of a small capture in this
process, those of a larger one in one process a core (:mod:`cdcwb.pool`)."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.dataset import Batches, Rows, schema_of
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import get_format
from cdcwb.formats.changes import Halving
from cdcwb.formats.delivered import NO_ENDS, EndsOfOthers, assembly_of, ends_elsewhere, joined_halves
from cdcwb.formats.dissector import CHANGES, Assembling, Format, Plan, Run, Wanted, run_here
from cdcwb.formats.files import list_files
from cdcwb.formats.parts import SplitPart, across
from cdcwb.formats.source import announced, info_of, is_file, known
from cdcwb.formats.summaries import PARTS, counts_of, summarised
from cdcwb.writing import naming, remove, scratch

IN_PROCESS: Final = 32_000_000
"""Bytes of a capture that this process reads alone."""

AT_MOST: Final = 256_000_000
"""Bytes of a capture that is read without Spark; ``CDCWB_LOCAL_LIMIT`` in the environment is another limit, in MB."""

_LIMIT: Final = "CDCWB_LOCAL_LIMIT"
_PACKED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")


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


@dataclass(eq=False)
class ReadingPlan:
    """How a capture is read. ``detected_rows`` are the rows of the table ``detected``; ``with_images``, ``mode`` and
    ``keys`` are the options that all formats share; ``origin`` is None for a DataFrame."""

    format: Format
    plan: Plan
    detected_rows: list[dict[str, Any]]
    with_images: bool
    mode: str
    keys: dict[str, list[str]]
    origin: Origin | None = None

    def __post_init__(self) -> None:
        """Looks up the files and the facts of the plan."""
        self.files, self.facts = self.format.files(self.plan), self.plan.facts

    def continuation(self) -> dict[str, Any]:
        """What appending files to the saved capture needs, or (``not``) why they cannot be appended."""
        if self.origin is None:
            return {"not": "it was saved from a table of rows, not from files"}
        return asdict(self.origin)


def is_small(paths: Sequence[str | Path]) -> bool:
    """Whether these files and folders are read without Spark: they have at most :data:`AT_MOST` bytes together, and no
    compressed file. A path that cannot be listed counts as small: opening it raises the error. Raises OptionError for
    a limit that is not a number."""
    given = os.environ.get(_LIMIT)
    if given is not None and not given.isascii():
        raise OptionError(f"{_LIMIT}: expected a number of MB, found {given!r}")
    try:
        limit = AT_MOST if given is None else int(given) * 1_000_000
    except ValueError:
        raise OptionError(f"{_LIMIT}: expected a number of MB, found {given!r}") from None
    return _bytes_of(paths, limit) <= limit


def _bytes_of(paths: Sequence[str | Path], limit: int) -> int:
    """The bytes of files and folders, counted up to a limit; a compressed file is above it."""
    count = 0
    with suppress(CaptureError):
        for path in paths:
            for file in [str(path)] if is_file(str(path)) else list_files(path):
                count += limit + 1 if file.endswith(_PACKED) else info_of(file).size
                if count > limit:
                    break
    return count


def run_for(files: Sequence[str]) -> Run:
    """What runs the first pass over the files of a small capture: this process, or one a core."""
    return _in_processes if _bytes_of(files, IN_PROCESS) > IN_PROCESS else run_here


def _in_processes(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    from cdcwb import pool

    return pool.run(partial(_informed, known(), function), tasks)


def _informed(listing: dict[str, Any], function: Callable[[Any], Any], task: Any) -> Any:
    announced(listing)
    return function(task)


def tables_of(planned: ReadingPlan) -> LocalTables | None:
    """The tables of a capture; None if Spark has to compute them: the capture is not small, it is read with the option
    ``images`` or ``mode``, or it is too large to be sorted in memory (event logs without an order)."""
    files = [entry["file"] for entry in planned.files]
    if planned.mode != "PERMISSIVE" or not planned.with_images or not is_small(files):
        return None
    in_splits = assembly_of(planned.format).in_splits(planned.plan)
    return LocalTables(planned) if in_splits or _bytes_of(files, IN_PROCESS) <= IN_PROCESS else None


class LocalTables:
    """The tables of a capture of files, each as batches of its schema in :data:`cdcwb.model.TABLES`."""

    def __init__(self, planned: ReadingPlan) -> None:
        self._planned = planned
        self._format, self._plan = planned.format, planned.plan
        self._splits = range(len(self._plan.splits))

    @property
    def format(self) -> str:
        """The name of its format."""
        return self._format.name

    @property
    def files(self) -> list[dict[str, Any]]:
        """Its files, as :attr:`cdcwb.Capture.files` has them."""
        return self._planned.files

    def table(self, name: str) -> pa.Table:
        """A table of the model."""
        schema = model.TABLES[name]
        return pa.Table.from_batches((batch.select(schema.names) for batch in getattr(self, name)()), schema)

    def write_table(self, name: str, folder: Path) -> None:
        """Writes a table into a folder of its name."""
        schema = model.TABLES[name]
        target = folder / name
        target.mkdir()
        rows: Batches = iter(())
        if name in ("events", "changes"):
            part = SplitPart() if name == "events" else self._of_changes(True)
            for _ in self._map(partial(_write_part, part, schema, str(target)), self._tasks(part)):
                pass
            if name == "changes":
                rows = self._crossing(True)
        else:
            rows = getattr(self, name)()
        has_parts = any(target.iterdir())
        first = list(islice(rows, 1))
        if first or not has_parts:
            number = len(self._splits) if has_parts else 0
            _write(target / f"part-{number}.parquet", schema, chain(first, rows))

    # --- readers --------------------------------------------------------------------------------------------------

    @cached_property
    def _is_pooled(self) -> bool:
        return _bytes_of([entry["file"] for entry in self.files], IN_PROCESS) > IN_PROCESS

    @cached_property
    def _scratch(self) -> Path:
        """A folder for what other processes read; the plan is in it."""
        folder = scratch(self, "cdcwb-parts-")
        plan = self.format, self._plan.to_text(), known(entry["file"] for entry in self.files)
        with naming(folder):
            (folder / "plan").write_bytes(pickle.dumps(plan))
        return folder

    def _map(self, function: Callable[[Format, Plan, _Task], Any], tasks: Sequence[_Task]) -> Iterator[Any]:
        """The results of a function for splits, in order."""
        if self._is_pooled:
            from cdcwb import pool

            yield from pool.each(partial(_called, str(self._scratch / "plan"), function), tasks)
        else:
            for task in tasks:
                yield function(self._format, self._plan, task)

    def _tasks(self, part: SplitPart) -> list[_Task]:
        form = self._format
        ends = self._ends if part.name == "changes" and not isinstance(form, (Assembling, Halving)) else NO_ENDS
        count = min(len(self._splits), _TASKS if self._is_pooled else 1)
        edges = [len(self._splits) * number // count for number in range(count + 1)] if count else []
        return [(range(first, stop), ends.of(range(first, stop))) for first, stop in pairwise(edges)]

    def _named(self, part: SplitPart) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The batches of a part of all splits, in order, with their names."""
        if not self._is_pooled:
            for task in self._tasks(part):
                yield from _batches(part, self._format, self._plan, task)
            return
        with naming(self._scratch):
            folder = mkdtemp(dir=self._scratch)
        try:
            for paths in self._map(partial(_send, part, folder), self._tasks(part)):
                for name, path in paths:
                    with pa.memory_map(path) as source:
                        batches = pa.ipc.open_file(source)
                        for number in range(batches.num_record_batches):
                            yield name, batches.get_batch(number)
                    Path(path).unlink()
        finally:
            remove(Path(folder))

    def _rows(self, part: SplitPart) -> Batches:
        return (batch for _, batch in self._named(part))

    def events(self, images: bool = True) -> Batches:
        """One row per wire record, in capture order; without ``images`` these and raw are null."""
        return self._rows(SplitPart(images=images))

    def select_events(self, columns: Sequence[str]) -> Batches:
        """Some columns of :meth:`events`; the others are not decoded."""
        return self._rows(SplitPart(columns=columns))

    def changes(self, images: bool = True) -> Batches:
        """One row per logical change; without ``images`` these are null."""
        return chain(self._rows(self._of_changes(images)), self._crossing(images))

    def _of_changes(self, images: bool) -> SplitPart:
        return SplitPart("changes", images, keys=self._planned.keys)

    @cached_property
    def _ends(self) -> EndsOfOthers:
        """What splits need to know of the ends of transactions in others."""
        rows = [*self._rows(SplitPart("ends_here", images=False))]
        of_splits = defaultdict(list)
        for split, written in ends_elsewhere(pa.Table.from_batches(rows)) if rows else ():
            of_splits[split].append(written)
        return EndsOfOthers(of_splits)

    def _crossing(self, images: bool) -> Batches:
        """The changes whose halves are in several splits."""
        form, plan = self._format, self._plan
        if isinstance(form, Halving) and any(form.halved(plan, split).shared for split in self._splits):
            yield from joined_halves(form, self._planned.keys, self._rows(SplitPart("elsewhere", images)))

    def transactions(self) -> Batches:
        """One row per transaction."""
        parts = [*self._rows(SplitPart("transactions", images=False)), *map(counts_of, self._crossing(False))]
        yield summarised(pa.Table.from_batches(parts, PARTS).combine_chunks()).select(model.TRANSACTIONS.names)

    def table_versions(self) -> Batches:
        """One row per version of a table."""
        columns = FIRST_POSITIONS
        rows = Rows(lambda: self._rows(SplitPart(images=False, columns=columns)), schema_of("events", columns))
        yield from versions_from(self._format.table_versions(self._plan), first_positions(rows)).to_batches()

    def problems(self) -> Batches:
        """One row per problem."""
        yield from across(self._format, self._named(SplitPart("findings")))
        yield pa.RecordBatch.from_pylist(self._format.problems(self._plan), model.PROBLEMS)

    def detected(self) -> Batches:
        """One row per detected setting."""
        yield pa.RecordBatch.from_pylist(self._planned.detected_rows, model.DETECTED)


# --- some splits ------------------------------------------------------------------------------------------------------

_TASKS: Final = 32
"""The most tasks in which other processes read a part."""

_Task = tuple[range, EndsOfOthers]
"""Some splits, and the ends in other splits that they need."""


def _called(path: str, function: Callable[[Format, Plan, _Task], Any], task: _Task) -> Any:
    """A function for a split of the plan in a file."""
    return function(*_opened(path), task)


@lru_cache(maxsize=1)
def _opened(path: str) -> tuple[Format, Plan]:
    name, text, listing = pickle.loads(Path(path).read_bytes())
    announced(listing)
    form = get_format(name)
    return form, form.plan_from_text(text)


def _batches(part: SplitPart, form: Format, plan: Plan, task: _Task) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches of a part of some splits, with their names."""
    splits, ends = task
    if part.name in ("changes", "findings") and not assembly_of(form).in_splits(plan):  # it is in one task
        yield from part.read(form, plan, splits.start, partial(_read_all, form, plan, splits))
        return
    for split in splits:
        for name, batch in part.read(form, plan, split, partial(form.read, plan, split), ends.read(split)):
            yield name, batch if part.columns is None else batch.select(list(part.columns))


def _read_all(form: Format, plan: Plan, splits: range, wanted: Wanted) -> Batches:
    return chain.from_iterable(form.read(plan, split, wanted) for split in splits)


def _send(part: SplitPart, folder: str, form: Format, plan: Plan, task: _Task) -> list[tuple[str, str]]:
    """Writes the batches of a part of some splits into one file for each name; returns names and files."""
    written: dict[str, pa.RecordBatchFileWriter] = {}
    paths: dict[str, str] = {}
    with ExitStack() as files:
        for name, batch in _batches(part, form, plan, task):
            if name not in written:
                paths[name] = f"{folder}/{task[0].start}-{name}.arrow"
                written[name] = files.enter_context(pa.ipc.new_file(paths[name], batch.schema))
            written[name].write_batch(batch)
    return list(paths.items())


def _write_part(part: SplitPart, schema: pa.Schema, folder: str, form: Format, plan: Plan, task: _Task) -> None:
    """Writes a part of some splits as a Parquet file."""
    batches = (batch for _, batch in _batches(part, form, plan, task))
    _write(Path(folder, f"part-{task[0].start}.parquet"), schema, batches)


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.select(schema.names))


FIRST_POSITIONS: Final = ("kind", "table_version", "position")


def first_positions(events: Rows) -> pa.Table:
    """The columns table_version and position of the first change of each version that has any, from the columns
    :data:`FIRST_POSITIONS` of events."""

    def of_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.filter(pc.and_(pc.is_in(batch["kind"], pa.array(CHANGES)), pc.is_valid(batch["table_version"])))
        return rows.select(FIRST_POSITIONS[1:])

    return events.totals({"position": "min"}, of_changes)


def versions_from(versions: pa.Table, firsts: pa.Table) -> pa.Table:
    """``table_versions`` with first_position from ``firsts`` (columns table_version and position, each version
    once)."""
    known, position = (firsts[name].combine_chunks().cast(pa.string()) for name in ("table_version", "position"))
    positions = position.take(pc.index_in(versions["table_version"].combine_chunks(), known, skip_nulls=True))
    at = model.TABLE_VERSIONS.get_field_index("first_position")
    names = [name for name in model.TABLE_VERSIONS.names if name != "first_position"]
    rows = versions.select(names).add_column(at, model.TABLE_VERSIONS.field(at), positions)
    return rows.cast(model.TABLE_VERSIONS)
