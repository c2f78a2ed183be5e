"""The true content of a generated event log and what the Publisher would do with it, as files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.idm_event_log.changes import changes, table_versions
from cdcwb_synth.idm_event_log.contents import WRITERS, Current
from cdcwb_synth.idm_event_log.documents import EVENT, events
from cdcwb_synth.idm_event_log.options import ROW_CONTAINERS, EventLogOptions
from cdcwb_synth.idm_event_log.publisher import Decided, Driver, publish
from cdcwb_synth.idm_event_log.rows import LogRow
from cdcwb_synth.instants import EPOCH

__all__ = ["DECISIONS", "write_changes", "write_truth"]

_BATCH: Final = 10_000

DECISIONS: Final = pa.schema(
    [
        ("record_id", pa.int64()), ("file_index", pa.int32()), ("offset", pa.int64()), ("event_type", pa.int32()),
        ("table_name", pa.string()), ("table_key", pa.string()), ("column_name", pa.string()),
        ("decision", pa.string()), ("reason", pa.string()), ("document", pa.int64()), ("event", pa.int64()),
        ("overridden_by", pa.int64()),
    ]
)  # fmt: skip
"""The columns of the decisions, a row for each of the log in capture order."""


def write_truth(
    folder: Path, rows: Sequence[LogRow], files: list[str], contents: Sequence[Current], as_of: int,
    options: EventLogOptions,
) -> dict[str, int]:  # fmt: skip
    """Write everything; returns what there is how many of. ``rows`` are in capture order, ``as_of`` is the time up to
    which they are due where they wait, ``contents`` those of the tables at the end."""
    driver = Driver(
        options.driver_user, options.allow_loopback, as_of if options.future_events else None, options.batch_size,
        options.query_limit, options.precedence, options.type5,
    )  # fmt: skip
    known = _snapshot(folder, contents, options)
    octets = {name for one in contents for name in one.watched.binary}
    schema = contents[0].watched.version.table.schema if options.naming == "bare" and contents else None
    count = write_changes(folder, rows, files, options)["captured_changes"]
    decided = publish(rows, driver, None if options.snapshot == "none" else known)
    _write(folder / "decisions.parquet", DECISIONS, map(_decision, decided))
    told = _write(folder / "events.parquet", EVENT, events(decided, driver, known, schema, octets))
    documents = max((one.document or 0 for one in decided), default=0)
    settings = {
        "driver_user": options.driver_user,
        "allow_loopback": options.allow_loopback,
        "future_events": options.future_events,
        "as_of": _iso(as_of) if options.future_events else None,
        "batch_size": options.batch_size,
        "query_limit": options.query_limit,
        "precedence": options.precedence,
        "type5": options.type5,
        "schema": schema,
        "types": dict.fromkeys(sorted(octets), "octet"),
    }
    facts = {
        "files": files,
        "rows": len(rows),
        "changes": count,
        "events": told,
        "documents": documents,
        "decisions": dict(sorted(Counter(one.decision for one in decided).items())),
        "event_types": dict(sorted(Counter(str(one.kind or "other") for one in decided).items())),
        "status": dict(sorted(Counter(str(row.status) for row in rows).items())),
        "snapshot": {name: f"snapshot/{name}.{options.snapshot}" for name in known},
        "keys": {one.watched.name: list(one.watched.key_names) for one in contents},
    }
    for name, content in (("settings", settings), ("facts", facts)):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return {"captured_changes": count, "documents": documents, "events": told}


def write_changes(folder: Path, rows: Sequence[LogRow], files: list[str], options: EventLogOptions) -> dict[str, int]:
    """Write changes and table versions alone; returns how many changes there are."""
    unit = model.OffsetUnit.ROW if options.container in ROW_CONTAINERS else model.OffsetUnit.BYTE
    count = _write(folder / "changes.parquet", model.CHANGES, changes(rows, files, unit))
    _write(folder / "table_versions.parquet", model.TABLE_VERSIONS, table_versions(rows))
    return {"captured_changes": count}


def _snapshot(folder: Path, contents: Sequence[Current], options: EventLogOptions) -> Mapping[str, Current]:
    """Writes the contents of the tables, of those that are known; they are given by their names."""
    if options.snapshot == "none":
        return {}
    (folder / "snapshot").mkdir()
    count = len(contents)
    known = [one for at, one in enumerate(contents) if (at - 1) % count >= options.missing_snapshots]
    for one in known:
        WRITERS[options.snapshot](folder / "snapshot" / f"{one.watched.name}.{options.snapshot}", one)
    return {one.watched.name: one for one in known}


def _iso(at: int) -> str:
    seconds, fraction = divmod(at, 1_000_000)
    whole = (EPOCH.fromtimestamp(seconds, EPOCH.tzinfo)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{fraction:06d}Z"


def _decision(one: Decided) -> dict[str, Any]:
    row = one.row
    return {
        "record_id": one.number, "file_index": row.place.file, "offset": row.place.offset, "event_type": one.kind,
        "table_name": row.table_name, "table_key": row.table_key, "column_name": row.column_name,
        "decision": one.decision, "reason": one.reason, "document": one.document, "event": one.event,
        "overridden_by": one.overridden_by,
    }  # fmt: skip


def _write(path: Path, schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows; returns how many. Maps are given as dictionaries."""
    waiting, count = iter(rows), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(waiting, _BATCH)):
            columns = []
            for field in schema:
                values = [row.get(field.name) for row in some]
                if pa.types.is_map(field.type):
                    values = [None if value is None else list(value.items()) for value in values]
                columns.append(pa.array(values, field.type))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            count += len(some)
    return count
