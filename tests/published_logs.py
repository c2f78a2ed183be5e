"""Event logs whose publication, in this process or by Spark, is compared with one that decides all rows at once."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import xds
from cdcwb.analysis.xds import publish_rows
from cdcwb.dataset import Rows
from cdcwb.xds import Settings, Snapshot
from tests.reference.xds_rows import publish

__all__ = ["SETTINGS", "check_published", "some_log"]

MINUTE = 60_000_000
PLACES = [("file_index", "ascending"), ("offset", "ascending")]


def some_log(seed: int, size: int) -> pa.Table:
    """Rows of few objects with everything that decides about them, in no order; some ids come twice, some are none."""
    chance = random.Random(seed)
    numbers: list[int] = []
    while len(numbers) < size:
        numbers.append((numbers[-1] if numbers else 0) + chance.choice([1, 1, 1, 3]))
    rows: list[dict[str, Any]] = []
    key, kind, user = "idu=1", 2, None
    for number in numbers:
        if chance.random() < 0.4:
            kind = chance.choice([1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8])
        if chance.random() < 0.4:
            key = chance.choice(["idu=1", "idu=2", 'idu="a,b"', f"idu={chance.randrange(40)}"])
        if chance.random() < 0.1:
            user = chance.choice([None, "idm", "IDM", "ann"])
        column = chance.choice(["fname", "lname", "photo"]) if kind in (1, 2, 3, 7, 8) else None
        minute = number // 7 - (300 if chance.random() < 0.1 else 0)
        rows.append(
            {
                "record_id": str(number),
                "table_key": key if chance.random() > 0.01 else chance.choice([None, "idu", "idu=<"]),
                "status": chance.choice("N" * 20 + "SWEFXn"),
                "event_type": str(kind) if chance.random() > 0.01 else "9",
                "event_time": f"minute {minute}",
                "perpetrator": user,
                "table_name": chance.choice(["usr"] * 9 + ["dbo.grp"]),
                "column_name": column,
                "old_value": chance.choice([None, "", "old & <old>", "a\tb"]),
                "new_value": chance.choice([None, "new", "\u4e2d\u6587", "bad\x01"] + ["fine"] * 9),
                "event_us": minute * MINUTE if chance.random() > 0.01 else None,
            }
        )
        if chance.random() < 0.02:
            rows[-1]["record_id"] = chance.choice(["0", "x", None])
        elif chance.random() < 0.02 and len(rows) > 1:
            rows[-1]["record_id"] = rows[-2]["record_id"]
    chance.shuffle(rows)
    seen: set[str | None] = set()
    for place, row in enumerate(rows):
        row["file_index"], row["offset"] = place // 500, place % 500 * 100
        usable = (row["record_id"] or "").isdigit() and row["record_id"] != "0"
        row["repeated"] = usable and row["record_id"] in seen
        seen.add(row["record_id"])
    return pa.Table.from_pylist(rows, schema=xds.ROWS)


def snapshot() -> Snapshot:
    ids = [str(number) for number in range(0, 40, 2)] + ["a,b"]
    table = {"idu": ids, "fname": [f"f{number}" for number in ids], "lname": [None] * len(ids)}
    return Snapshot.of({"usr": pa.table({**table, "photo": pa.array([b"\xbb\xbb"] * len(ids))})})


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tiny": {"query_limit": 7, "batch_size": 3, "driver_user": "idm", "type5": "modify", "schema": "indirect"},
    "timed": {"future_events": True, "as_of": "1970-01-01T03:00:00Z", "query_limit": 50, "batch_size": 4},
    "log": {"precedence": "log", "query_limit": 20, "batch_size": 128, "allow_loopback": True, "driver_user": "idm"},
}


def check_published(log: pa.Table, rows: Rows, name: str, with_tables: bool) -> None:
    """The decisions and documents of ``rows``, those of ``log`` in any order, are those of the log at once."""
    settings = Settings.parse(SETTINGS[name])
    tables = snapshot() if with_tables else None
    expected = publish(log, settings, tables)
    published = publish_rows(rows, settings, tables, a_part=170)
    decisions = published.decisions.table().sort_by(PLACES)
    assert decisions.schema.names == xds.DECISIONS.names
    assert decisions.to_pylist() == expected.decisions.sort_by(PLACES).to_pylist()

    documents = published.documents.table()
    written = list(
        zip(documents["document"].to_pylist(), (x.encode() for x in documents["xml"].to_pylist()), strict=True)
    )
    assert written == list(xds.documents(expected.events))  # in order, though nothing sorted them

    summary = published.summary
    assert (summary.documents, summary.events) == (len(written), expected.events.num_rows)
    counts = pc.value_counts(expected.decisions["decision"]).to_pylist()
    assert summary.decisions == {pair["values"]: pair["counts"] for pair in counts}
    assert len(summary.decisions) >= 5

    chosen = decisions.filter(pc.is_valid(decisions["document"])).to_pylist()
    for row in documents.drop_columns(["xml"]).to_pylist():
        mine = [one for one in chosen if one["document"] == row["document"]]
        assert row["events"] == len({one["event"] for one in mine})
        records = {one["record_id"] for one in mine}
        assert {row["first_record"], row["last_record"]} <= records
        if name != "timed":
            assert (row["first_record"], row["last_record"]) == (min(records), max(records))
