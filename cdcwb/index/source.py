"""The source of views and explorer: the index of a capture, built if it is missing, and the folder of its notes.

Indexes of files are stored permanently in the user's cache directory, or in the directory of the environment variable
``CDCWB_CACHE``, in a folder for each capture whose name is a hash of the origin. They have captured data (times, names,
transaction ids), so only their user may read them. The least recently used ones are deleted when the total exceeds
:data:`MOST_BYTES`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from platformdirs import user_cache_path

from cdcwb.errors import CaptureError
from cdcwb.formats import Paths, get_format
from cdcwb.formats.base import Plan
from cdcwb.formats.catalogue import described_by
from cdcwb.formats.files import list_files
from cdcwb.formats.messages.registry import without_login
from cdcwb.formats.source import absolute, info_of
from cdcwb.index.changes import READ, Changes, build_changes, open_changes
from cdcwb.index.places import HEADERS, Index, build_index, open_index
from cdcwb.model import CHANGES, PROBLEMS
from cdcwb.saved import SAVED, delta_at, followed_by, hold, saved_at
from cdcwb.small import Small
from cdcwb.spark.stored import batches_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture

__all__ = ["MOST_BYTES", "Source", "cached", "open_source", "source_of"]

MOST_BYTES: Final = 10_000_000_000


def cached(origin: Any) -> Path | None:
    """The folder in the cache for the index of ``origin`` (any JSON value); marks it as recently used. None if the
    cache cannot be written."""
    configured = os.environ.get("CDCWB_CACHE")
    cache = Path(configured).expanduser() if configured else user_cache_path("cdcwb")
    name = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:32]
    folder_of_index = cache / "index" / name
    try:
        folder_of_index.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (folder_of_index, folder_of_index.parent):
            folder.chmod(0o700)
        os.utime(folder_of_index)
        _evict(folder_of_index.parent, keep=folder_of_index)
    except OSError:
        return None
    return folder_of_index


def _evict(cache: Path, keep: Path) -> None:
    """Deletes the least recently used folders until the rest is small enough."""
    folders = sorted((path for path in cache.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in folders}
    total = sum(sizes.values())
    for folder in folders:
        if total <= MOST_BYTES:
            return
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= sizes[folder]


_FEW: Final = 1_000_000
"""Saved changes that are read in this process."""

_INDEX: Final = "explorer"
_CHANGES: Final = "explorer-changes"
_EVENTS: Final = "explorer-events"
_COLUMNS: Final = (
    "file_index",
    "offset",
    "length",
    "offset_unit",
    "kind",
    "operation",
    "record_type",
    "position",
    "commit_position",
    "transaction_id",
    "event_no",
    "changed_at",
    "schema_name",
    "table_name",
    "table_version",
)


class Source:
    """An index and its context.

    * ``home``: the folder of bookmarks and saved filters; None: they exist as long as the explorer
    * ``options``: how the files are read; ``paths``: these files, if the capture was opened from files
    * ``events``: Parquet files with complete events, for a saved capture or a table of rows; ``parts`` of the
      index are numbers of these files
    """

    def __init__(
        self,
        index: Index,
        home: Path | None,
        options: Mapping[str, Any],
        events: list[Path],
        capture: Callable[[], Capture],
        saved: Path | None = None,
        paths: Sequence[str] = (),
        small: Callable[[], Small | None] = lambda: None,
    ) -> None:
        self.index = index
        self.home = home
        self.options = dict(options)
        self.events = events
        self._open = capture
        self._capture: Capture | None = None
        self._saved = saved
        self._small = small
        self._paths = list(paths)
        self._planning = Lock()

    @property
    def capture(self) -> Capture:
        """The capture, opened on first use; this needs Spark."""
        if self._capture is None:
            self._capture = self._open()
        return self._capture

    def change_batches(self) -> Iterator[pa.RecordBatch] | None:
        """The changes with their images, read in this process; None if they are so many that Spark has to read them."""
        if self._saved is not None:
            parts = sorted((self._saved / "changes").glob("*.parquet"))
            few = sum(pq.read_metadata(part).num_rows for part in parts) <= _FEW
            columns = CHANGES.names
            return (batch for part in parts for batch in batches_of(pq.ParquetFile(part), columns)) if few else None
        small = self._small()
        return None if small is None else small.changes()

    def plan(self) -> Plan:
        """The plan of the files, made in this process on first use; safe for concurrent threads."""
        with self._planning:
            return self._plan

    @cached_property
    def _plan(self) -> Plan:
        return get_format(self.index.format).plan(
            self._paths, self.options, lambda work, tasks: [work(task) for task in tasks]
        )

    @cached_property
    def changes(self) -> Changes:
        """The changes and transactions of the capture. Their index is built if it is missing, which may need Spark
        unless the capture is saved."""
        folder, origin = self.index.folder.with_name(_CHANGES), self.index.about["origin"]
        changes = open_changes(folder, origin, self.index)
        if changes is not None:
            return changes
        if self._saved is not None:
            parts = sorted((self._saved / "changes").glob("*.parquet"))
            transactions = pq.ParquetDataset(self._saved / "transactions").read()
            build_changes(folder, parts, transactions, self.index, origin)
        elif (small := self._small()) is not None:
            with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as scratch:
                part = small.write_table("changes", Path(scratch), images=False)
                build_changes(folder, [part], small.table("transactions"), self.index, origin)
        else:
            with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as scratch:
                frame = self.capture.changes.select(*READ, "source_events", "changed_columns")
                _write(frame, Path(scratch) / "changes")
                _write(self.capture.transactions, Path(scratch) / "transactions")
                transactions = pq.ParquetDataset(Path(scratch) / "transactions").read()
                parts = sorted((Path(scratch) / "changes").glob("*.parquet"))
                build_changes(folder, parts, transactions, self.index, origin)
        made = open_changes(folder, origin, self.index)
        if made is None:
            raise CaptureError("the index that was just made cannot be read", path=str(folder))
        return made


def source_of(capture: Capture) -> Source:
    """The index of an open capture. For a saved capture it is in its folder, for files in the user's cache
    (:mod:`cdcwb.index.source`); for a part of a capture or a table of rows it is temporary."""
    if capture.saved_in is not None:
        return _of_saved(capture.saved_in, None, {})
    files = capture.origin
    if files is None:
        return _of_events(capture, _temporary(), None, {})
    origin = {**_origin(files.files, files.format, files.options), "cdcwb": version("cdcwb")}
    folder = cached(origin) or _temporary()
    index = _index(folder, origin, lambda target: _write_places(target, capture.small or capture, origin))
    return Source(index, None, files.options, [], lambda: capture, paths=files.files, small=lambda: capture.small)


def open_source(
    path: Paths | DataFrame, format: str = "auto", folder: str | os.PathLike[str] | None = None, **options: Any
) -> Source:
    """The capture at ``path``, with the parameters of :func:`cdcwb.load`, and its index.

    The index of a saved capture is in its folder, that of another one in ``folder``, or in a temporary folder. It is
    built if it is missing or the files changed; this needs Spark unless the capture is saved or small. ``options`` are
    the format's; with a saved capture they apply to its original files, if these still exist. Raises CaptureError like
    ``load``.
    """
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return _of_rows(path, format, folder, options)
    options = without_login(options)
    if (saved := saved_at(path)) is not None:
        if delta_at(saved) is not None:  # Delta Lake decides which of its files are valid
            return _of_rows(path, format, folder, options)
        return _of_saved(saved, folder, options)
    return _of_files(path, format, folder, options)


def _of_saved(path: Path, folder: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Source:
    import cdcwb

    about = path / SAVED
    stat = about.stat()
    origin = {"saved": [stat.st_size, stat.st_mtime_ns]}
    events = sorted((path / "events").glob("*.parquet"))
    home = path if folder is None else Path(folder).expanduser().absolute()
    notes = (followed_by(path) or path) if folder is None else home  # a followed topic keeps the notes of its capture

    def make(target: Path) -> None:
        facts = json.loads(about.read_text(encoding="utf-8"))
        tables = {name: pq.ParquetDataset(path / name).read() for name in ("problems", "table_versions", "detected")}
        made = {"origin": origin, "format": facts["format"], "files": facts["files"]}
        made["options"] = _overridden(facts["format"], tables["detected"])
        build_index(target, events, made, tables["problems"], tables["table_versions"])

    index = _index(home, origin, make)
    source = Source(index, notes, {**index.about["options"], **options}, events, lambda: cdcwb.load(path), path)
    hold(path, source)
    return source


def _overridden(format: str, detected: pa.Table) -> dict[str, str]:
    """The options with which the files of a saved capture were read, as far as it states them."""
    known = get_format(format).options
    rows = [row for row in detected.to_pylist() if row["overridden"] and row["scope"] == "capture"]
    return {row["setting"]: row["value"] for row in rows if row["setting"] in known}


def _of_files(path: Paths, format: str, folder: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Source:
    import cdcwb
    from cdcwb.capture import open_small

    @cache
    def capture() -> Capture:
        return cdcwb.load(path, format, **options)

    @cache
    def small() -> Small | None:
        return open_small(path, format, options)

    home = None if folder is None else Path(folder).expanduser().absolute()
    paths = list_files(path)
    origin = _origin(paths, format, options)
    index = _index(home, origin, lambda target: _write_places(target, small() or capture(), origin))
    return Source(index, home, options, [], capture, paths=paths, small=small)


def _origin(names: Sequence[str], format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of files and of how they are read; a change invalidates the index."""
    files = [absolute(name) for name in dict.fromkeys([*names, *described_by(names)])]
    return {
        "files": [[name, *info_of(name)] for name in files],
        "format": format,
        "options": {name: str(value) for name, value in sorted(options.items())},
    }


def _write_places(target: Path, capture: Capture | Small, origin: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as scratch:
        if isinstance(capture, Small):
            parts = [capture.write_table("events", Path(scratch), images=False)]
            tables = capture.table("problems"), capture.table("table_versions")
        else:
            headers = capture.headers
            _write(headers.select(*_COLUMNS, *_header_columns(headers)), Path(scratch) / "headers")
            parts = sorted((Path(scratch) / "headers").glob("*.parquet"))
            tables = _problems_and_versions(capture)
        build_index(target, parts, _about(capture, origin), *tables)


def _of_rows(
    frame: Paths | DataFrame, format: str, folder: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> Source:
    import cdcwb

    home = None if folder is None else Path(folder).expanduser().absolute()
    return _of_events(cdcwb.load(frame, format, **options), home or _temporary(), home, options)


def _of_events(capture: Capture, folder: Path, home: Path | None, options: Mapping[str, Any]) -> Source:
    """A capture whose files cannot be read again: its events are stored completely."""
    events = folder / _EVENTS
    shutil.rmtree(events, ignore_errors=True)
    _write(capture.events, events)
    parts = sorted(events.glob("*.parquet"))
    origin = {"rows": uuid4().hex}
    about = _about(capture, origin)
    index = _index(folder, origin, lambda target: build_index(target, parts, about, *_problems_and_versions(capture)))
    return Source(index, home, options, parts, lambda: capture)


def _header_columns(headers: DataFrame) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.try_element_at("headers", F.lit(name)).alias(name) for name in HEADERS]


def _write(frame: DataFrame, target: Path) -> None:
    frame.write.mode("overwrite").parquet(str(target))


def _about(capture: Capture | Small, origin: Any) -> dict[str, Any]:
    return {"origin": origin, "format": capture.format, "files": capture.files}


def _problems_and_versions(capture: Capture) -> tuple[pa.Table, pa.Table]:
    return capture.problems.select(*PROBLEMS.names).toArrow(), capture.table_versions.toArrow()


def _index(home: Path | None, origin: Any, make: Callable[[Path], None]) -> Index:
    """The index in a folder, built if it is missing; in a temporary folder if that cannot be written."""
    if home is not None:
        index = open_index(home / _INDEX, origin)
        if index is not None:
            return index
        if _writable(home):
            make(home / _INDEX)
            return _opened(home / _INDEX, origin)
    temporary = _temporary() / _INDEX
    make(temporary)
    return _opened(temporary, origin)


def _opened(folder: Path, origin: Any) -> Index:
    index = open_index(folder, origin)
    if index is None:
        raise CaptureError("the index that was just made cannot be read", path=str(folder))
    return index


def _writable(home: Path) -> bool:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(home, os.W_OK)


def _temporary() -> Path:
    """A folder that is deleted at the end of the process."""
    folder = Path(tempfile.mkdtemp(prefix="cdcwb-index-"))
    weakref.finalize(_KEPT, shutil.rmtree, folder, ignore_errors=True)
    return folder


class _Kept:
    """An owner that exists until the end of the process."""


_KEPT: Final = _Kept()
