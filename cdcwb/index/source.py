"""What views and explorer work on: the index of a capture, made where it does not exist yet, and where its notes are
kept.

Indexes of files are kept between sessions in the user's cache directory, or where the environment variable
``CDCWB_CACHE`` says, in a folder for each capture, named by what it was made from. They hold what was captured (times,
names, transaction ids), so only their user may read them. The least recently used ones are removed when all of them are
larger than :data:`MOST_BYTES`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
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
from cdcwb.model import PROBLEMS
from cdcwb.saved import SAVED, followed_by, hold, saved_at
from cdcwb.small import Small

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture

__all__ = ["MOST_BYTES", "Source", "cached", "open_source", "source_of"]

MOST_BYTES: Final = 10_000_000_000


def cached(origin: Any) -> Path | None:
    """The folder for the index of what ``origin`` names, with any value that JSON holds; it counts as used now. None
    where the cache cannot be written."""
    given = os.environ.get("CDCWB_CACHE")
    cache = Path(given).expanduser() if given else user_cache_path("cdcwb")
    name = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:32]
    place = cache / "index" / name
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (place, place.parent):
            folder.chmod(0o700)
        os.utime(place)
        _evict(place.parent, keep=place)
    except OSError:
        return None
    return place


def _evict(cache: Path, keep: Path) -> None:
    """Remove what was not used for longest until the rest is small enough."""
    folders = sorted((one for one in cache.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    sizes = {one: sum(file.stat().st_size for file in one.rglob("*") if file.is_file()) for one in folders}
    total = sum(sizes.values())
    for folder in folders:
        if total <= MOST_BYTES:
            return
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= sizes[folder]


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
    """An index and what belongs to it.

    * ``home``: the folder that keeps marks and saved filters; None: they last as long as the explorer
    * ``options``: how the files are read; ``paths``: these files, where the capture was opened from files
    * ``events``: Parquet files with whole events, where the capture is a saved one or a table of rows; ``parts`` of the
      index count them
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
        """The capture itself, opened when it is first asked for; this needs Spark."""
        if self._capture is None:
            self._capture = self._open()
        return self._capture

    def plan(self) -> Plan:
        """How the files are read, made in this process when it is first asked for; threads may ask at once."""
        with self._planning:
            return self._plan

    @cached_property
    def _plan(self) -> Plan:
        return get_format(self.index.format).plan(
            self._paths, self.options, lambda work, tasks: [work(task) for task in tasks]
        )

    @cached_property
    def changes(self) -> Changes:
        """The changes and transactions of the capture, beside its records. Made where they are missing; this alone
        may need Spark, and of a saved capture not even this."""
        place, origin = self.index.folder.with_name(_CHANGES), self.index.about["origin"]
        found = open_changes(place, origin, self.index)
        if found is not None:
            return found
        if self._saved is not None:
            parts = sorted((self._saved / "changes").glob("*.parquet"))
            transactions = pq.ParquetDataset(self._saved / "transactions").read()
            build_changes(place, parts, transactions, self.index, origin)
        elif (small := self._small()) is not None:
            with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as beside:
                part = small.write_table("changes", Path(beside), images=False)
                build_changes(place, [part], small.table("transactions"), self.index, origin)
        else:
            with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as beside:
                frame = self.capture.changes.select(*READ, "source_events", "changed_columns")
                _write(frame, Path(beside) / "changes")
                _write(self.capture.transactions, Path(beside) / "transactions")
                transactions = pq.ParquetDataset(Path(beside) / "transactions").read()
                parts = sorted((Path(beside) / "changes").glob("*.parquet"))
                build_changes(place, parts, transactions, self.index, origin)
        made = open_changes(place, origin, self.index)
        assert made is not None
        return made


def source_of(capture: Capture) -> Source:
    """The index of a capture that is open. That of a saved capture stands in its folder, that of files in the user's
    cache (:mod:`cdcwb.index.source`); where a part is looked at, or a table of rows, it goes with the process."""
    if capture.saved_in is not None:
        return _of_saved(capture.saved_in, None, {})
    files = capture.origin
    if files is None:
        return _of_events(capture, _temporary(), None, {})
    origin = {**_origin(files.files, files.format, files.options), "cdcwb": version("cdcwb")}
    place = cached(origin) or _temporary()
    index = _index(place, origin, lambda target: _write_places(target, capture.small or capture, origin))
    return Source(index, None, files.options, [], lambda: capture, paths=files.files, small=lambda: capture.small)


def open_source(
    path: Paths | DataFrame, format: str = "auto", folder: str | os.PathLike[str] | None = None, **options: Any
) -> Source:
    """The capture at ``path``, as :func:`cdcwb.load` takes it, with its index.

    The index of a saved capture stands in its folder, that of another one in ``folder``, or in a temporary folder. It
    is made where it is missing or the files are not those that it was made from; this alone needs Spark, and of a saved
    or small capture not even this. ``options`` are the format's; with a saved capture they say how its files, where
    they are still there, are taken apart. Raises CaptureError as ``load`` does.
    """
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return _of_rows(path, format, folder, options)
    options = without_login(options)
    if (saved := saved_at(path)) is not None:
        return _of_saved(saved, folder, options)
    return _of_files(path, format, folder, options)


def _of_saved(path: Path, folder: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Source:
    import cdcwb

    about = path / SAVED
    stat = about.stat()
    origin = {"saved": [stat.st_size, stat.st_mtime_ns]}
    events = sorted((path / "events").glob("*.parquet"))
    home = path if folder is None else Path(folder).expanduser().absolute()
    notes = (followed_by(path) or path) if folder is None else home  # what a topic has grown to be has the same

    def make(place: Path) -> None:
        facts = json.loads(about.read_text(encoding="utf-8"))
        tables = {name: pq.ParquetDataset(path / name).read() for name in ("problems", "table_versions", "detected")}
        made = {"origin": origin, "format": facts["format"], "files": facts["files"]}
        made["options"] = _given(facts["format"], tables["detected"])
        build_index(place, events, made, tables["problems"], tables["table_versions"])

    index = _index(home, origin, make)
    source = Source(index, notes, {**index.about["options"], **options}, events, lambda: cdcwb.load(path), path)
    hold(path, source)
    return source


def _given(format: str, detected: pa.Table) -> dict[str, str]:
    """The options that the files of a saved capture were read with, as far as it tells."""
    known = get_format(format).options
    rows = [one for one in detected.to_pylist() if one["overridden"] and one["scope"] == "capture"]
    return {one["setting"]: one["value"] for one in rows if one["setting"] in known}


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
    index = _index(home, origin, lambda place: _write_places(place, small() or capture(), origin))
    return Source(index, home, options, [], capture, paths=paths, small=small)


def _origin(names: Sequence[str], format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What tells whether files, and how they are read, are still the same."""
    files = [absolute(name) for name in dict.fromkeys([*names, *described_by(names)])]
    return {
        "files": [[name, *info_of(name)] for name in files],
        "format": format,
        "options": {name: str(value) for name, value in sorted(options.items())},
    }


def _write_places(place: Path, capture: Capture | Small, origin: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="cdcwb-index-") as beside:
        if isinstance(capture, Small):
            parts = [capture.write_table("events", Path(beside), images=False)]
            tables = capture.table("problems"), capture.table("table_versions")
        else:
            headers = capture.headers
            _write(headers.select(*_COLUMNS, *_header_columns(headers)), Path(beside) / "headers")
            parts = sorted((Path(beside) / "headers").glob("*.parquet"))
            tables = _problems_and_versions(capture)
        build_index(place, parts, _about(capture, origin), *tables)


def _of_rows(
    frame: DataFrame, format: str, folder: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> Source:
    import cdcwb

    home = None if folder is None else Path(folder).expanduser().absolute()
    return _of_events(cdcwb.load(frame, format, **options), home or _temporary(), home, options)


def _of_events(capture: Capture, place: Path, home: Path | None, options: Mapping[str, Any]) -> Source:
    """A capture that no file can be asked for again: its events are kept whole."""
    events = place / _EVENTS
    shutil.rmtree(events, ignore_errors=True)
    _write(capture.events, events)
    parts = sorted(events.glob("*.parquet"))
    origin = {"rows": uuid4().hex}
    about = _about(capture, origin)
    index = _index(place, origin, lambda target: build_index(target, parts, about, *_problems_and_versions(capture)))
    return Source(index, home, options, parts, lambda: capture)


def _header_columns(headers: DataFrame) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.try_element_at("headers", F.lit(name)).alias(name) for name in HEADERS]


def _write(frame: DataFrame, place: Path) -> None:
    frame.write.mode("overwrite").parquet(str(place))


def _about(capture: Capture | Small, origin: Any) -> dict[str, Any]:
    return {"origin": origin, "format": capture.format, "files": capture.files}


def _problems_and_versions(capture: Capture) -> tuple[pa.Table, pa.Table]:
    return capture.problems.select(*PROBLEMS.names).toArrow(), capture.table_versions.toArrow()


def _index(home: Path | None, origin: Any, make: Callable[[Path], None]) -> Index:
    """The index in a folder, made where it is not there; in a temporary one where the folder cannot be written."""
    if home is not None:
        found = open_index(home / _INDEX, origin)
        if found is not None:
            return found
        if _writable(home):
            make(home / _INDEX)
            return _opened(home / _INDEX, origin)
    place = _temporary() / _INDEX
    make(place)
    return _opened(place, origin)


def _opened(place: Path, origin: Any) -> Index:
    found = open_index(place, origin)
    if found is None:
        raise CaptureError("the index that was just made cannot be read", path=str(place))
    return found


def _writable(home: Path) -> bool:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(home, os.W_OK)


def _temporary() -> Path:
    """A folder that goes with the process."""
    place = Path(tempfile.mkdtemp(prefix="cdcwb-index-"))
    weakref.finalize(_KEPT, shutil.rmtree, place, ignore_errors=True)
    return place


class _Kept:
    """Lives as long as the process."""


_KEPT: Final = _Kept()
