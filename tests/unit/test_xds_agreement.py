"""Publishing many rows at once is publishing them one by one, whatever the log, the settings and the snapshot; and
publishing part by part, as on a cluster, is publishing all at once."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cdcwb.xds import (
    EVENT,
    ROWS,
    Settings,
    Snapshot,
    between_rows,
    own_decisions,
    to_decisions,
    to_event_table,
    with_cycles,
    with_snapshot,
)
from tests.reference.xds_rows import numbered, publish
from tests.xds_plainly import Row, publish_plainly

DAY = 86_400_000_000
TABLES: dict[str, Any] = {
    "usr": (["idu"], [{"idu": "1", "fname": "John", "lname": None}, {"idu": "3", "fname": "x\x01", "lname": "Doe"}]),
    "hr.link": (["a", "b"], [{"b": "2", "a": "1"}]),
}
SNAPSHOT = Snapshot.of({name: pa.Table.from_pylist(rows) for name, (_, rows) in TABLES.items()})

USUAL: dict[str, list[str | None]] = {
    "table_key": ["idu=1", "idu=1", "idu=1", "idu=3", "idu=2", "a=1+b=2"],
    "status": ["N"] * 14 + ["S", "E"],
    "event_type": [str(kind) for kind in range(1, 9)],
    "perpetrator": [None, "APP", "APP", "APP", "DRV", "drv"],
    "table_name": ["usr"] * 7 + ["hr.link", "other"],
    "column_name": ["fname", "fname", "lname", "idu", "nick"],
    "old_value": ["old", "", None],
    "new_value": ["new", "", None],
}
RARE: dict[str, list[str | None]] = {
    "record_id": ["0", "-1", "x", None, "1.5", "7"],
    "table_key": ["idu=", "idu", "", None, 'k="a,\\"b"', 'k="a"b', "idu=\x02"],
    "status": ["W", "F", "n", "X", "N ", "", " ", None],
    "event_type": ["0", "9", "x", None],
    "perpetrator": ["Drv ", ""],
    "table_name": ["", None, "a\x03"],
    "column_name": ["a\x03", "", None],
    "old_value": ["\x04"],
    "new_value": ["\x05"],
}


def rows_of_a_log(dice: random.Random) -> list[Row]:
    """A log of few objects, so that they meet; every type is as frequent as the others, and what is wrong is rare."""
    names = dice.sample(range(1, 99), 40)
    if dice.random() < 0.7:
        names.sort()
    rows: list[Row] = []
    met = set()
    for place in range(dice.randint(0, 40)):
        row: Row = {"record_id": str(names[place]), **{name: dice.choice(usual) for name, usual in USUAL.items()}}
        if rows and dice.random() < 0.5:
            row |= {name: rows[-1][name] for name in ("table_name", "table_key", "event_type")}
        if dice.random() < 0.15:
            name = dice.choice(list(RARE))
            row[name] = dice.choice(RARE[name])
        row["event_us"] = None if dice.random() < 0.02 else dice.choice([dice.randint(0, 12) * DAY, 9 * DAY + 120_000])
        row["event_time"] = None if row["event_us"] is None else "a time"
        rows.append({**row, "file_index": 0, "offset": place, "repeated": row["record_id"] in met})
        met.add(row["record_id"])
    return rows


def settings_of_a_driver(dice: random.Random) -> Settings:
    return Settings(
        driver_user=dice.choice([None, "DRV", "DRV"]),
        allow_loopback=dice.random() < 0.3,
        future_events=dice.random() < 0.4,
        as_of=dice.choice([None, dt.datetime(1970, 1, 10, tzinfo=dt.UTC)]),
        batch_size=dice.randint(1, 4),
        query_limit=dice.choice([1, 2, 5, 10, 10_000]),
        precedence=dice.choice(["cycle", "log"]),
        type5=dice.choice(["add", "modify"]),
        schema=dice.choice([None, "indirect"]),
        class_names=dice.choice([{}, {"hr.link": "Link"}]),
        types=dice.choice([{}, {"fname": "octet"}]),
    )


def as_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: row[name] for name in ROWS.names} for row in rows], ROWS)


@examples(max_examples=250)
@given(st.integers(0))
def test_publishing_agrees_with_the_plain_publisher(seed: int) -> None:
    dice = random.Random(seed)
    rows, settings, informed = rows_of_a_log(dice), settings_of_a_driver(dice), dice.random() < 0.7
    found = publish(as_table(rows), settings, SNAPSHOT if informed else None)
    decisions, events = publish_plainly(rows, settings, TABLES if informed else {})
    for row, wanted, said in zip(rows, decisions, found.decisions.to_pylist(), strict=True):
        assert said["offset"] == row["offset"]
        reason = wanted.pop("reason")
        assert {name: said[name] for name in wanted} == wanted
        if reason:
            assert said["reason"] == reason
        else:
            assert wanted["decision"] == "invalid"
            assert said["reason"]
    assert found.events.schema == EVENT
    assert found.events.to_pylist() == events


@examples(max_examples=100)
@given(st.integers(0))
def test_publishing_part_by_part_is_publishing_at_once(seed: int) -> None:
    """Rows apart, then objects apart, then stretches of the line, as on a cluster."""
    dice = random.Random(seed)
    rows, settings = rows_of_a_log(dice), settings_of_a_driver(dice)
    whole = as_table(rows)
    wanted = publish(whole, settings, SNAPSHOT)
    cuts = sorted(dice.randint(0, len(rows)) for _ in range(2))
    parts = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    own = pa.concat_tables([own_decisions(part, settings) for part in parts])

    line = own.sort_by([("order_time", "ascending"), ("number", "ascending")])
    first, cycles = 0, []
    for start in range(0, line.num_rows, 5):
        part = line.slice(start, 5)
        cycles.append(with_cycles(part, settings, first))
        first += pc.sum(part["polled"]).as_py() or 0
    cycled = pa.concat_tables(cycles) if cycles else with_cycles(line, settings)

    parted = []
    for wanted_part in range(2):
        mine = pa.array([(hash((name, key)) % 2) == wanted_part for name, key in _objects(cycled)], pa.bool_())
        informed = with_snapshot(cycled.filter(mine), pickle.loads(pickle.dumps(SNAPSHOT)))
        parted.append(between_rows(informed, settings))
    decided = pa.concat_tables(parted).sort_by([("order_time", "ascending"), ("number", "ascending")])
    decided = numbered(decided, settings.batch_size)
    published = decided.filter(pc.equal(decided["decision"], "published"))
    events = to_event_table(published, settings, SNAPSHOT)
    assert pa.Table.from_batches([events]).equals(wanted.events)
    told = to_decisions(decided, settings)
    assert told.sort_by("offset").to_pylist() == wanted.decisions.to_pylist()


def _objects(rows: pa.Table) -> list[tuple[str | None, str | None]]:
    return list(zip(rows["table_name"].to_pylist(), rows["table_key"].to_pylist(), strict=True))


def test_order_of_the_rows_given_does_not_matter() -> None:
    log = [
        {**dict.fromkeys(ROWS.names), "record_id": str(n), "table_key": f"idu={n % 7}", "status": "N"}
        | {"event_type": str(n % 8 + 1), "table_name": "usr", "column_name": "fname", "new_value": "x"}
        | {"file_index": 0, "offset": n, "event_us": n, "repeated": False}
        for n in range(1, 400)
    ]
    table, settings = as_table(log), Settings(batch_size=5, query_limit=50)
    mixed = np.random.default_rng(3).permutation(len(log))
    one, other = publish(table, settings, SNAPSHOT), publish(table.take(pa.array(mixed)), settings, SNAPSHOT)
    assert other.events.equals(one.events)
    assert other.decisions.equals(one.decisions.take(pa.array(mixed)))
