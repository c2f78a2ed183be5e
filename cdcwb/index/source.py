"""The source of views and explorer: the index of a capture, built if it is missing, and the folder of its notes.

Indexes of files and of saved captures are stored in the user's cache (:mod:`cdcwb.index.store`), by the paths, the
sizes and the times of the files. Others exist as long as they are used.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.dataset import Rows, conform
from cdcwb.errors import CaptureError
from cdcwb.formats import Paths, get_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.dissector import described_by
from cdcwb.formats.files import list_files
from cdcwb.formats.source import absolute, info_of, is_copy, version_of
from cdcwb.index.changes import DESCRIBED, READ, Changes, build_changes, check_number, described, open_changes
from cdcwb.index.record_index import READ as READ_EVENTS
from cdcwb.index.record_index import (
    RECORDS,
    RecordIndex,
    build_index,
    described_record,
    open_index,
    records_of,
)
from cdcwb.index.store import Store
from cdcwb.model import TABLES
from cdcwb.opening import SAVED, read_description, saved_at
from cdcwb.stored import Stored, batches_of, group_sizes
from cdcwb.writing import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture


@dataclass(eq=False)
class IndexedCapture:
    """An index and its context.

    * ``home``: the folder of bookmarks and saved filters; None: they exist as long as the explorer
    * ``options``: how the files are read
    * ``events``: Parquet files with complete events, for a saved capture or a table of rows; ``part`` in the index is
      the number of one of these files
    * ``open``: opens the capture; ``saved``: the folder of a saved one
    """

    index: RecordIndex
    home: Path | None
    options: Mapping[str, Any]
    events: list[Path]
    open: Callable[[], Capture]
    saved: Path | None = None

    @cached_property
    def capture(self) -> Capture:
        """The capture, opened on first use."""
        return self.open()

    def change_rows(self, columns: Sequence[str]) -> Rows:
        """Some columns of the changes. Saved ones, and those of a small capture, are read in this process."""
        if self.saved is None:
            return self.capture.rows("changes", columns)
        return Stored(self.saved / "changes", "changes", columns)

    @cached_property
    def changes(self) -> Changes:
        """The changes and transactions of the capture. Their index is built if it is missing, which may need Spark
        unless the capture is saved."""
        changes = open_changes(self.index)
        if changes is not None:
            return changes
        if self.saved is not None:
            stored = Stored(self.saved / "changes", "changes", READ)
            check_number(stored.count())
            with _of_tables(self.saved):
                transactions = _table(self.saved, "transactions")
                return build_changes(map(described, stored.batches()), transactions, self.index)
        with _described(self.capture.rows("changes", READ), described, DESCRIBED) as (batches, number):
            check_number(number)
            return build_changes(batches, _all(self.capture, "transactions"), self.index)


@contextmanager
def _described(
    rows: Rows, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[Iterator[pa.RecordBatch], int]]:
    """The rows of ``schema`` that a function makes, and their number, 0 if it is not known yet. Those that Spark makes
    are in temporary Parquet files."""
    made = rows.map(function, schema)
    if not rows.in_spark:
        yield made.batches(), 0
        return
    with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as folder:
        made.write(Path(folder))
        parts = sorted(Path(folder).glob("*.parquet"))
        batches = chain(*(batches_of(pq.ParquetFile(path)) for path in parts))
        yield conform(batches, schema), sum(sum(group_sizes(path)) for path in parts)


def source_of(capture: Capture) -> IndexedCapture:
    """The index of an open capture. That of a part of a capture, or of a table of rows, is temporary."""
    if capture.saved_in is not None:
        return _of_saved(capture.saved_in, None, {})
    origin = capture.origin
    if origin is None:
        return _of_events(capture, None, {})
    return _of_files(origin.files, origin.format, None, origin.options, lambda: capture)


def open_source(
    path: Paths | DataFrame, format: str = "auto", folder: str | os.PathLike[str] | None = None, **options: Any
) -> IndexedCapture:
    """The capture at ``path``, with the parameters of :func:`cdcwb.load`, and its index.

    Notes are in ``folder``, or in the folder of a saved capture. The index is built if it is missing or the files
    changed; this needs Spark unless the capture is saved or small. ``options`` are the format's; with a saved capture
    they apply to its original files, if these still exist. Raises CaptureError like ``load``.
    """
    import cdcwb

    home = None if folder is None else Path(absolute(folder))
    if home is not None:
        with suppress(OSError):  # a note that cannot be written raises the error
            home.mkdir(parents=True, exist_ok=True)
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return _of_events(cdcwb.load(path, format, **options), home, options)
    options = without_login(options)
    if (saved := saved_at(path)) is not None:
        return _of_saved(saved, home, options)
    return _of_files(list_files(path), format, home, options, cache(lambda: cdcwb.load(path, format, **options)))


def _of_saved(path: Path, home: Path | None, options: Mapping[str, Any]) -> IndexedCapture:
    import cdcwb

    facts = read_description(path)
    events = sorted((path / "events").glob("*.parquet"))
    # that of a copy of a remote capture would be left in the cache with every new state
    store = Store(None if is_copy(path) else ["saved", *map(_stamp, [path / SAVED, *sorted(path.glob("*/*.parquet"))])])
    index = open_index(store)
    if index is None:
        with _of_tables(path):
            about = {"format": facts["format"], "files": facts["files"]}
            about["options"] = _overridden(facts["format"], _table(path, "detected"))
            problems, versions = (_table(path, name) for name in ("problems", "table_versions"))
            index = build_index(store, records_of(events), about, problems, versions)
    notes = home or path
    return IndexedCapture(index, notes, {**index.about["options"], **options}, events, lambda: cdcwb.load(path), path)


@contextmanager
def _of_tables(folder: Path) -> Iterator[None]:
    """Raises CaptureError if the tables of a saved capture, which may come from anyone, contradict each other."""
    try:
        yield
    except (pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, AttributeError) as reason:
        raise CaptureError(f"the tables of this saved capture cannot be indexed ({reason})", path=str(folder)) from None
    except CaptureError as reason:
        reason.path = reason.path or str(folder)
        raise


def _table(folder: Path, name: str) -> pa.Table:
    """A small table of a saved capture. Raises CaptureError."""
    return Stored(folder / name, name, TABLES[name].names).table()


def _overridden(format: str, detected: pa.Table) -> dict[str, str]:
    """The options with which the files of a saved capture were read, as far as it states them. URLs are left out:
    nothing in a capture names a host that is asked."""
    known = get_format(format).options
    rows = [row for row in detected.to_pylist() if row["overridden"] and row["scope"] == "capture"]
    return {row["setting"]: row["value"] for row in rows if row["setting"] in known and "://" not in row["value"]}


def _of_files(
    files: Sequence[str], format: str, home: Path | None, options: Mapping[str, Any], capture: Callable[[], Capture]
) -> IndexedCapture:
    store = Store(_origin(files, format, options))
    index = open_index(store) or _build_records(store, capture())
    return IndexedCapture(index, home, options, [], capture)


def _origin(names: Sequence[str], format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of files and of how they are read; a change invalidates the index."""
    files = [absolute(name) for name in dict.fromkeys([*names, *described_by(names)])]
    texts = {name: str(value) for name, value in sorted(options.items())}
    return {"files": [*map(_stamp, files)], "format": format, "options": texts}


def _stamp(file: str | Path) -> list[Any]:
    """The path of a file, and what changes when it is written."""
    return [str(file), *info_of(str(file)), version_of(str(file))]


def _build_records(store: Store, capture: Capture) -> RecordIndex:
    rows = capture.rows("events", (*READ_EVENTS, "headers"))
    with _described(rows, described_record, RECORDS) as (batches, _):
        return build_index(store, batches, *_facts(capture))


def _facts(capture: Capture) -> tuple[dict[str, Any], pa.Table, pa.Table]:
    """The format and the files of a capture, its problems, and its versions of tables."""
    about = {"format": capture.format, "files": capture.files}
    return about, _all(capture, "problems"), _all(capture, "table_versions")


def _of_events(capture: Capture, home: Path | None, options: Mapping[str, Any]) -> IndexedCapture:
    """A capture whose files cannot be read again: its events are stored completely, as long as the source exists."""
    store = Store(None)
    folder = scratch(store, "cdcwb-index-")
    capture.rows("events", TABLES["events"].names).write(folder)
    parts = sorted(folder.glob("*.parquet"))
    index = build_index(store, records_of(parts), *_facts(capture))
    return IndexedCapture(index, home, options, parts, lambda: capture)


def _all(capture: Capture, name: str) -> pa.Table:
    return capture.rows(name, TABLES[name].names).table()
