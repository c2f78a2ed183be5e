"""Rows of an event log about one object, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from cdcwb.formats.idm_event_log.events import TypedLog
from cdcwb.xds import ROWS, Settings, Snapshot
from tests.reference.xds_rows import Publication, publish

DAY = 86_400_000_000
USR = Snapshot.of({"usr": pa.table({"idu": [1], "fname": ["John"], "lname": ["Doe"], "photo": [b"\xbb\xbb"]})})
PLAIN: dict[str, Any] = {
    **dict.fromkeys(ROWS.names),
    "status": "N",
    "table_name": "usr",
    "table_key": "idu=1",
    "column_name": "fname",
    "file_index": 0,
    "repeated": False,
}


def rows_of_log(log: pa.RecordBatch) -> pa.Table:
    """A log of one file as rows that are published; all of its texts are decoded."""
    known, before, repeated = TypedLog(log), Counter[int](), list[bool]()
    for number in known.record_id.to_pylist():
        repeated.append(before[number] > 0)
        before[number] += number is not None
    count = len(log)
    places = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    others = known.event_us, pa.nulls(count, pa.string()), pa.array(repeated)
    return pa.Table.from_arrays([*log.columns, *places, *others], schema=ROWS)


def row(event_type: int | str | None, **fields: Any) -> dict[str, Any]:
    return PLAIN | {"event_type": None if event_type is None else str(event_type)} | fields


def published(*rows: dict[str, Any], snapshot: Snapshot | None = USR, **settings: Any) -> Publication:
    """The rows in this order, with record_id from 1 where they have none."""
    log = [{**one, "record_id": one["record_id"] or str(n), "offset": n} for n, one in enumerate(rows, 1)]
    return publish(pa.Table.from_pylist(log, ROWS), Settings.parse(settings), snapshot)


def decided(*rows: dict[str, Any], **settings: Any) -> list[str]:
    return published(*rows, **settings).decisions["decision"].to_pylist()


def said(*rows: dict[str, Any], **settings: Any) -> list[str]:
    return published(*rows, **settings).decisions["reason"].to_pylist()
