"""Opening a capture: what a path is, whether its options are valid, and the plan by which it is read.

:func:`check_capture` starts nothing. :func:`open_tables` makes the plan, of a small capture in this process, of others
in Spark, and returns the tables of the capture.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import Common, Paths, check_options, choose, choose_rows, get_format, row_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.dissector import Format, Plan, Recognition, RowFormat, Run, detected_row
from cdcwb.formats.files import list_files
from cdcwb.formats.options import nearest
from cdcwb.formats.source import absolute, fetched, folders_of, forget, is_file, is_remote, url_of
from cdcwb.local_tables import LocalTables, Origin, ReadingPlan, is_small, plain, run_for, tables_of
from cdcwb.stored import check_tables
from cdcwb.tables import Live, LiveRows, Saved
from cdcwb.words import is_text, plural, size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.live.jdbc import JdbcTable


SAVED: Final = "cdcwb.json"
"""The file by which a saved capture is recognised: its description."""

VERSION: Final = 3
"""The version that is written into it."""

_READ: Final = (1, 2, 3)  # versions that can be opened; the first lacks what appending files needs
_COUNTS: Final = ("records", "messages", "bytes", "groups")  # in facts
_MOST_BYTES: Final = 1 << 28  # of the description
_LONGEST_PATH: Final = 4096
_LARGE: Final = 64 << 20  # bytes of a file
_SAMPLE: Final = 256  # messages of topics, to detect the format
_AUTHORITY: Final = re.compile(r"://([^/?\s'\"]*)")


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: the format with its evidence, the options, and those that all formats share. ``requested``:
    the format asked for, which may be auto."""

    files: list[str]
    requested: str
    format: Format
    recognition: Recognition
    options: dict[str, Any]
    common: Common


@dataclass(frozen=True, slots=True)
class CheckedCapture:
    """A checked capture: the files to read (or None), the saved capture to which they are appended (or None) with its
    description; or a table of a database, with the requested format and options."""

    reading: Reading | None = None
    saved: Path | None = None
    about: Mapping[str, Any] | None = None
    table: JdbcTable | None = None
    requested: tuple[str, Mapping[str, Any]] = ("auto", {})

    @property
    def format_name(self) -> str:
        """The name of its format; of tables of databases the requested one, which may be auto."""
        if self.reading is not None:
            return self.reading.format.name
        return self.requested[0] if self.about is None else str(self.about["format"])

    @property
    def packages(self) -> list[str]:
        """The packages that a Spark session needs to read it, as Maven coordinates."""
        return [] if self.table is None else self.table.packages


# --- checking ---------------------------------------------------------------------------------------------------------


def check_capture(path: Paths, format: str = "auto", options: Mapping[str, Any] | None = None) -> CheckedCapture:
    """Checks a capture and its options without Spark: whether the files exist, whether a format recognises and reads
    them, and whether it has these options.

    Raises CaptureError as :func:`cdcwb.load` does.
    """
    paths = _listed(path)
    known_options = _known(options or {})
    topics, tables = ([str(item).lower().startswith(scheme) for item in paths] for scheme in ("kafka://", "jdbc:"))
    if len(paths) > 1 and any(topics):
        raise OptionError("topics are opened without other paths; one URL can name several topics")
    if len(paths) > 1 and any(tables):
        raise OptionError("a table of a database is opened without other paths")
    if any(topics):
        return CheckedCapture(_check_topics(str(paths[0]), format, known_options))
    if any(tables):
        from cdcwb.live.jdbc import JdbcTable

        table = JdbcTable.take(str(paths[0]), known_options)
        if format != "auto":
            check_options(row_format(format), known_options)
        return CheckedCapture(table=table, requested=(format, known_options))
    folders = {item: folder for item in paths if (folder := saved_at(item)) is not None}
    if not folders:
        return CheckedCapture(_check_files(list_files(path), format, known_options))
    saved, *others = folders.values()
    if others:
        sentence = f"{saved} is a saved capture too; files can be appended to one saved capture only"
        raise CaptureError(sentence, path=str(others[0]))
    about = read_description(saved)
    if new_files := [item for item in paths if item not in folders]:
        return CheckedCapture(_check_appended(saved, about, paths, new_files, format, known_options), saved, about)
    if known_options:
        raise OptionError(f"a saved capture takes no reader options, found {', '.join(known_options)}", path=str(saved))
    get_format(about["format"])
    check_tables(saved)
    return CheckedCapture(saved=saved, about=about)


def _listed(path: Paths) -> list[str | os.PathLike[str]]:
    return [path] if isinstance(path, (str, os.PathLike)) else list(path)


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, without logins."""
    return without_login({name: value for name, value in options.items() if value is not None})


def _check_topics(url: str, format: str, options: dict[str, Any]) -> Reading:
    """The files of the messages of topics, in the user's cache."""
    from cdcwb.live.addresses import Topics, as_point, kafka_settings
    from cdcwb.live.topics import cached

    topics, settings = Topics.parse(url), kafka_settings(options.pop("client_config", None))
    points = as_point(options.pop("start", "earliest"), "start"), as_point(options.pop("end", "latest"), "end")
    if format != "auto":
        check_options(row_format(format), options)
    folder = cached(topics, *points, settings)
    if not any(folder.glob("*/*.parquet")):
        raise CaptureError("there is no message in this range", path=topics.url)
    return _check_files(list_files(str(folder)), format, options)


def _check_files(files: list[str], format: str, options: dict[str, Any]) -> Reading:
    fmt, recognition = choose(files, format, options)
    common = check_options(fmt, options)
    if recognition.refusal is not None:
        raise recognition.refusal
    for file in files:
        if not is_text(file):
            raise CaptureError("the name of a file is not valid UTF-8; rename it", path=file)
    return Reading(files, format, fmt, recognition, options, common)


def _check_appended(
    saved: Path,
    about: Mapping[str, Any],
    paths: Sequence[Any],
    new_files: Sequence[Any],
    format: str,
    options: Mapping[str, Any],
) -> Reading:
    """Checks files that are appended to a saved capture. ``paths``: the capture and the files, as they were named; no
    host is asked that only the description names."""
    stored = about.get("continue") or {"not": "an earlier version saved it, without what appending needs"}
    if "not" in stored:
        sentence = f"files cannot be appended to this saved capture: {stored['not']}; load all files at once"
        raise CaptureError(sentence, path=str(saved))
    had = stored["options"]
    if format not in ("auto", about["format"], stored["format"]):
        raise OptionError(
            f"the capture was saved as {about['format']}; files cannot be appended to it as {format}: load all files "
            "at once"
        )
    for name, value in options.items():
        if name != "registry" and plain(value) != had.get(name):  # of registries the schemas count, not the location
            was = "without it" if name not in had else f"with {had[name]!r}"
            raise OptionError(
                f"option {name}: the capture was saved {was}, found {plain(value)!r}; leave it out, or load all "
                "files at once"
            )
    unasked = "and no host is asked that only a file names"
    named = {folders_of(str(path))[-1] for path in paths if is_remote(path)}
    for file in stored["files"]:
        if is_remote(file) and (folders_of(file)[-1] not in named or re.search(r"\?\w+=", file)):
            raise CaptureError(
                f"was saved from {folders_of(file)[-1]}, {unasked}: name its folder too", path=str(saved)
            )
    for name, value in had.items():
        if name not in options and (leads := _AUTHORITY.search(str(value))):
            host = leads[1].rpartition("@")[2]
            sentence = f"was saved with the {name} of the host {host}, {unasked}: give it with -o {name}=…"
            raise OptionError(sentence, path=str(saved))
    if missing := [file for file in stored["files"] if not is_file(file)]:
        raise CaptureError(
            f"not found, and appending to the capture saved at {saved} needs all its files: restore it, or load "
            "the new files without the saved capture",
            path=missing[0],
        )
    registry = {"registry": plain(options["registry"])} if "registry" in options else {}
    reading = _check_files(list_files([*stored["files"], *new_files]), stored["format"], {**had, **registry})
    if reading.format.name != about["format"]:
        raise CaptureError(
            f"was saved as {about['format']}, but with the new files its format is detected as {reading.format.name}: "
            "name the format and load all files at once",
            path=str(saved),
        )
    return reading


# --- opening ----------------------------------------------------------------------------------------------------------


def open_tables(checked: CheckedCapture, spark: SparkSession | None = None) -> Live | Saved:
    """The tables of the capture that :func:`check_capture` checked. ``spark``: the session to use; None: the running
    one, or a new one as soon as one is needed."""
    if checked.table is not None:
        frame, detected = checked.table.rows(spark or _session(checked.packages))  # up to its present last id
        (format, options), name = checked.requested, checked.table.name.label
        with checked.table.errors():
            return open_rows(frame, format, {**options, "name": name}, [detected])
    if checked.reading is None:
        assert checked.saved is not None
        return Saved(spark, checked.saved, dict(checked.about or {}))
    is_local = is_small(checked.reading.files)
    session = spark if spark is not None or is_local else _session()
    run: Run = run_for(checked.reading.files)
    if session is not None:
        from cdcwb.spark.source import register, runner

        register(session)
        run = run if is_local else runner(session)
    return Live(session, *_planned(checked.reading, run))


def open_small(path: Paths, format: str = "auto", options: Mapping[str, Any] | None = None) -> LocalTables | None:
    """The tables of the capture that ``load(path, format, **options)`` opens, computed in this process without Spark.
    None if that is not possible: it is not small, or Spark has to assemble it (:func:`cdcwb.local_tables.tables_of`).
    Raises CaptureError as ``load`` does."""
    checked = check_capture(path, format, options)
    if checked.reading is None or not is_small(checked.reading.files):
        return None
    return tables_of(ReadingPlan(*_planned(checked.reading, run_for(checked.reading.files))))


def open_rows(
    frame: DataFrame, format: str, options: Mapping[str, Any], more: Sequence[dict[str, Any]] = ()
) -> LiveRows:
    """The tables of a capture of a Spark DataFrame; the format ``auto`` is detected from its columns, and that of
    messages from the first of them. ``more``: further rows of ``detected``."""
    from cdcwb.formats.messages.format import MessageFormat
    from cdcwb.spark.source import RowsOf

    known_options = _known(options)
    name = str(known_options.pop("name", "rows"))
    rows = RowsOf(frame, known_options.pop("order_by", None))
    fmt, recognition = choose_rows(rows.schema, format, known_options)
    if format == "auto" and isinstance(fmt, MessageFormat):
        fmt, recognition = _recognised(rows.frame, name, known_options)
    common = check_options(fmt, known_options)
    plan = fmt.plan_rows(name, rows.schema, rows.run, known_options)
    _check_keys(fmt, plan, common.keys)
    detected = [*_detected(fmt, recognition, format, plan), *more]
    return LiveRows(rows, name, fmt, plan, detected, common.images, common.mode, common.keys)


def _session(packages: Sequence[str] = ()) -> SparkSession:
    from cdcwb.spark.session import get_spark

    return get_spark(packages=packages)


def _recognised(frame: DataFrame, name: str, options: dict[str, Any]) -> tuple[RowFormat, Recognition]:
    """The format of messages in rows, detected from the first as that of a file. ``name`` is that of the rows."""
    import pyarrow.parquet as pq

    some = frame.limit(_SAMPLE).toArrow()
    if not some.num_rows:
        raise CaptureError("there is no message in this range, so the format cannot be detected: name it", path=name)
    with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
        path = str(Path(folder, "messages.parquet"))
        pq.write_table(some, path)
        try:
            fmt, seen = choose([path], "auto", options)
        except CaptureError as reason:
            reason.path = name if reason.path == path else reason.path
            raise
    evidence = [sentence.replace(path, name) for sentence in seen.evidence]
    return cast(RowFormat, fmt), replace(seen, evidence=evidence)


def _planned(reading: Reading, run: Run) -> tuple[Any, ...]:
    """The arguments of :class:`cdcwb.local_tables.ReadingPlan`. ``run`` runs the first pass."""
    fmt, common = reading.format, reading.common
    plan = fmt.plan(reading.files, reading.options, run)
    _check_keys(fmt, plan, common.keys)
    detected = _detected(fmt, reading.recognition, reading.requested, plan)
    origin = Origin(reading.files, reading.requested, {name: plain(value) for name, value in reading.options.items()})
    return fmt, plan, detected, common.images, common.mode, common.keys, origin


def _detected(fmt: Format, recognition: Recognition, format: str, plan: Plan) -> list[dict[str, Any]]:
    """The rows of ``detected``; the last is about the large files that one task has to read, if there are any."""
    rows = [detected_row("format", fmt.name, "; ".join(recognition.evidence), format != "auto"), *plan.detected]
    large = [file for file in fmt.files(plan) if (file["size"] or 0) > _LARGE]
    splits = Counter(fmt.begins(plan)) if large else Counter()
    each = [
        f"one task reads all {size(file['size'])} of {file['file']} ({file['compression'] or file['shape']})"
        for file in large
        if splits[file["file_index"]] == 1
    ]
    evidence = [*each[:2], *([f"and so for {plural(len(each) - 2, 'more file')}"] if each[2:] else [])]
    return [*rows, detected_row("splits", str(len(plan.splits)), "; ".join(evidence), False)] if each else rows


def _check_keys(fmt: Format, plan: Plan, keys: Mapping[str, Sequence[str]]) -> None:
    """Raises OptionError for a key column that no version of its table has. Tables that are not in the capture are
    ignored."""
    versions = fmt.table_versions(plan).to_pylist() if keys else []
    for table, columns in keys.items():
        rows = [row for row in versions if table in (row["table_name"], f"{row['schema_name']}.{row['table_name']}")]
        known = list(dict.fromkeys(column["name"] for row in rows for column in row["columns"]))
        for column in columns if known else ():
            if column not in known:
                raise OptionError(
                    f"option keys: table {table!r} has no column {column!r}.{nearest(column, known)} "
                    f"There are: {', '.join(known)}."
                )


# --- saved captures ---------------------------------------------------------------------------------------------------


def is_saved(folder: Path) -> bool:
    """Whether a folder, which is no link, has a saved capture."""
    return (folder / SAVED).is_file() and not folder.is_symlink()


def saved_at(path: Paths) -> Path | None:
    """The folder of a saved capture; None if ``path`` is not one. For a remote capture this is a temporary copy."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    if is_remote(path):
        forget()
        url = url_of(str(path))
        return fetched(url) if is_file(f"{url}/{SAVED}") else None
    folder = Path(absolute(path))
    return folder if (folder / SAVED).is_file() else None


def saved_format(path: Paths) -> str | None:
    """The format of a saved capture; None if ``path`` is not one. Raises CaptureError if it cannot be opened."""
    folder = saved_at(path)
    return None if folder is None else str(read_description(folder)["format"])


def read_description(folder: Path) -> dict[str, Any]:
    """The content of :data:`SAVED`, which may come from anyone. Raises CaptureError if it is not a description, or of
    an unsupported version."""
    file = folder / SAVED
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        about = json.loads(file.read_text(encoding="utf-8"))
        _check(isinstance(about, dict), "the content")
        _check(type(about.get("version")) is int, "version")
        if about["version"] in _READ:
            _check_description(about)
    except (OSError, ValueError, RecursionError) as reason:
        raise CaptureError(f"not the description of a saved capture ({reason})", path=str(file)) from None
    if about["version"] not in _READ:
        raise CaptureError(f"saved in version {about['version']}; this one reads version {VERSION}", path=str(folder))
    return dict(about)


def _check(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} is missing, or is not what cdcwb writes")


def _check_description(about: Mapping[str, Any]) -> None:
    """Raises ValueError unless all values have the form in which they are written (:mod:`cdcwb.saving`)."""
    _check(isinstance(about.get("format"), str), "format")
    _check(isinstance(about.get("facts"), dict), "facts")
    for name in _COUNTS:
        _check(_is_number(about["facts"].get(name) or 0), name)
    files = about.get("files")
    _check(isinstance(files, list) and all(isinstance(entry, dict) for entry in files), "files")
    for entry in about["files"]:
        _check(_is_path(entry.get("file")), "the path of a file")
        _check(_is_number(entry.get("file_index")) and entry["file_index"] < 1 << 31, "file_index")
        for name in ("size", "rows"):
            _check(entry.get(name) is None or _is_number(entry[name]), name)
        _check(not any(isinstance(value, (list, dict)) for value in entry.values()), "files")
    _check(len({entry["file_index"] for entry in about["files"]}) == len(about["files"]), "file_index")
    stored = about.get("continue")
    _check(stored is None or isinstance(stored, dict), "continue")
    if stored and "not" in stored:
        _check(isinstance(stored["not"], str), "not")
    elif stored:
        _check(isinstance(stored.get("files"), list) and all(map(_is_path, stored["files"])), "continue: files")
        _check(isinstance(stored.get("format"), str), "continue: format")
        _check(isinstance(stored.get("options"), dict), "continue: options")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_path(value: Any) -> bool:
    """Whether this can be the path or the URL of a file."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH or "\0" in value:
        return False
    return ".." not in value.split("/") and not re.search("[\ud800-\udc7f\udd00-\udfff]", value)
