"""The rows of an event log in the form that publication reads, and the settings and snapshot of a publication."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Batches, Rows, numbered
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT
from cdcwb.formats.options import as_object
from cdcwb.formats.requests import having
from cdcwb.formats.source import fetched, is_folder, is_left_out
from cdcwb.index.images import Pairs
from cdcwb.model import Kind, Problem
from cdcwb.words import visible
from cdcwb.xds import ROWS, Settings

LOCATION: Final = ("file_index", "offset")

_EVENTS: Final = ("kind", "position", "changed_at", "headers", "problems", *LOCATION)


def log_events(capture: Any) -> Rows:
    """The events of a capture that are rows of the log, as the functions of this module take them. ``capture`` is
    anything with the rows of a capture. Raises CaptureError for a capture of another format."""
    if capture.format != FORMAT:
        raise CaptureError(f"this question is asked of event logs ({FORMAT}); the capture is of {capture.format}")
    if not capture.has_images:
        raise CaptureError("this question is asked of values, and the capture was loaded with images=False")
    kinds = pa.array([str(Kind.CHANGE), str(Kind.CONTROL)])
    rows: Rows = capture.rows("events", (*_EVENTS, "before"))  # headers have the values only together with images
    return rows.where(lambda batch: pc.is_in(batch["kind"], kinds)).select(_EVENTS)


def log_rows(events: Rows) -> Rows:
    """The rows of the log, with exactly the columns of :data:`cdcwb.xds.ROWS`, unordered.

    Values are the source's own text. Columns that a reduced form lacks are filled: record_id with the number of the
    row, status with N.
    """
    return events.map(_row_of_log, _SAME_ID).by_key(["same"], LOCATION, _repeated, ROWS)


_SAME_ID: Final = ROWS.append(pa.field("same", pa.string()))


def _row_of_log(batch: pa.RecordBatch) -> pa.RecordBatch:
    filled = {"record_id": pc.replace_substring_regex(batch["position"], "^0+", ""), "status": pa.scalar("N")}
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        columns[name] = pc.map_lookup(batch["headers"], name, "first")
        if name in filled and columns[name].null_count:
            has_column, _ = Pairs(batch["headers"]).of_column(name)
            columns[name] = pc.if_else(pa.array(has_column), columns[name], filled[name])
    columns |= {name: batch[name] for name in LOCATION}
    columns["event_us"] = batch["changed_at"].cast(pa.int64())
    columns["undecoded"] = _undecoded(batch["problems"])
    columns["repeated"] = pa.repeat(False, len(batch))
    columns["same"] = pc.coalesce(batch["position"], location_texts(batch))
    return pa.RecordBatch.from_pydict(columns, _SAME_ID)


def _undecoded(problems: pa.Array) -> pa.Array:
    """Which bytes of each row are not in the character set."""
    rows = pa.array(having(problems, Problem.CHARSET))
    texts = [
        "; ".join(one["detail"] for one in some if one["code"] == Problem.CHARSET)
        for some in problems.filter(rows).to_pylist()
    ]
    return pc.replace_with_mask(pa.nulls(len(rows), pa.string()), rows, pa.array(texts, pa.string()))


def location_texts(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """A text for the location of each row."""
    return pc.binary_join_element_wise(*(batch[name].cast(pa.string()) for name in LOCATION), " ")


def _repeated(batches: Batches) -> Batches:
    """Marks the rows with the record_id of an earlier one."""
    for batch in numbered(batches, ["same"], "number"):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield pa.RecordBatch.from_pydict(columns | {"repeated": pc.greater(batch["number"], 1)}, ROWS)


# --- settings and snapshot --------------------------------------------------------------------------------------------


def read_settings(
    driver_user: str = "", as_of: str = "", batch_size: int = 0, settings: str | Mapping[str, Any] = "{}"
) -> Settings:
    """The settings of a publication from a notebook's parameters; empty and 0 mean not given.

    ``settings`` is a JSON object of the others. With ``as_of`` rows are ordered by event_time. Raises OptionError.
    """
    parsed = as_object("settings", settings)
    settings_given = {"driver_user": driver_user, "as_of": as_of, "batch_size": batch_size}
    settings_given = {name: value for name, value in settings_given.items() if value not in ("", 0, None)}
    for name in settings_given:
        if name in parsed:
            raise OptionError(f"'{name}' is given twice, on its own and in settings")
    if "as_of" in settings_given:
        settings_given["future_events"] = parsed.get("future_events", True)
    return Settings.parse(parsed | settings_given)


def snapshot_files(snapshot: str | Mapping[str, str], path: str) -> dict[str, str]:
    """The files of a snapshot by the names of their tables.

    ``snapshot``: a JSON object, or a folder with a file (or folder) for each table; empty: no snapshot; ``auto``: the
    folder ``NAME.snapshot`` next to the capture at ``path``, if it exists. Raises OptionError.
    """
    if snapshot == "auto":
        default = f"{str(path).rstrip('/')}.snapshot"
        return _files_of(fetched(default)) if is_folder(default) else {}
    if isinstance(snapshot, Mapping) or str(snapshot).lstrip().startswith("{"):
        return {name: str(file) for name, file in as_object("snapshot", snapshot).items()}
    if not snapshot:
        return {}
    folder = fetched(snapshot).expanduser()
    if not folder.is_dir():
        raise OptionError(f"snapshot: expected a JSON object or a folder, found {visible(repr(snapshot))}")
    return _files_of(folder)


def _files_of(folder: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if is_left_out(file.name):
            continue
        table = file.name if file.is_dir() else file.name.removesuffix(file.suffix)
        if table in files:
            raise OptionError(f"snapshot: '{visible(file)}' is a second file of table '{visible(table)}'")
        files[table] = str(file.absolute())
    return files
