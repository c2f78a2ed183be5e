"""Concurrency, latency and the order of positions of generated captures of every format, against their truth.

The truth is computed plainly, a row at a time, from the tables beside each capture (and, for the event log, from the
ids in its CSV); what was lost, repeated or shuffled on purpose is found, and nothing else.
"""

from __future__ import annotations

import csv
import math
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.analysis import concurrency, contents, transactions
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.positions import PLACES, missing_numbers, positions, repeated
from cdcwb.analysis.summary import summarize
from tests.saved_capture import open_saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICROSECOND = timedelta(microseconds=1)
OPTIONS: dict[str, dict[str, Any]] = {
    "gbase8s": {"files": 2, "concurrency": 6, "open_transactions": 2, "missing_begins": 1, "rate": 20.0},
    "qlik-kafka": {"container": "console", "concurrency": 6, "duplicate_share": 0.03, "lost_share": 0.03, "rate": 20.0},
    "qlik-change-table": {"concurrency": 6, "repeat_sequences": 0.05, "unknown_times": 0.05, "rate": 20.0},
    "goldengate": {"concurrency": 6, "trail_files": 2, "rate": 20.0},
    "idm-event-log": {"shuffle": 7, "damaged_share": 0.0, "container": "csv"},
}


@dataclass
class Made:
    format: str
    folder: Path
    capture: Any
    facts: dict[str, Any]

    def truth(self, table: str) -> list[dict[str, Any]]:
        place = self.folder / "truth" / f"{table}.parquet"
        rows: list[dict[str, Any]] = pq.read_table(place).to_pylist() if place.exists() else []
        return rows  # an event log has no transactions


@pytest.fixture(scope="module", params=OPTIONS)
def made(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    format = request.param
    folder = tmp_path_factory.mktemp(format) / "made"
    synth.generate(format, changes=700, seed=17, to=folder, **OPTIONS[format])
    capture = open_saved(folder / "capture", folder / "saved")
    return Made(format, folder, capture, ask.overview(capture))


def spans(made: Made) -> list[tuple[datetime, datetime]]:
    """From when to when each transaction is open, by the definition in the words of the notebook."""
    found = []
    for row in made.truth("transactions"):
        began, ended = row["began_at"], row["ended_at"]
        if began is None and ended is None:
            continue
        if began is None and row["completeness"] == "no_begin":
            began = made.facts["first_time"]
        if ended is None and row["outcome"] == "open":
            ended = made.facts["last_time"]
        if began is not None and ended is not None and began < ended:
            found.append((began, ended))
    return found


def test_the_most_open_transactions_are_those_of_the_truth(made: Made) -> None:
    found = concurrency.over_time(made.capture, made.facts["first_time"], made.facts["last_time"])
    known = spans(made)
    times = sorted({time for span in known for time in span})
    levels = {time: sum(began <= time < ended for began, ended in known) for time in times}
    most = max(levels.values(), default=0)
    assert (made.format == "idm-event-log") == (most == 0)
    assert (found.counted, found.most) == (len(known), most)
    assert found.at == next((time for time in times if levels[time] == most), None)
    if made.format == "gbase8s":
        assert found.exact  # whole seconds, and fewer of them than pieces
        assert {step["at"]: step["open"] for step in found.steps}.items() <= levels.items()
    busy = sum(((ended - began) // MICROSECOND for began, ended in known), 0)
    whole = (times[-1] - times[0]) // MICROSECOND if times else 1
    assert (found.average or 0) == pytest.approx(busy / whole)


def test_in_few_pieces_the_most_is_the_same(made: Made) -> None:
    first, last = made.facts["first_time"], made.facts["last_time"]
    fine, coarse = (concurrency.over_time(made.capture, first, last, pieces) for pieces in (1000, 7))
    assert (coarse.most, coarse.at, coarse.until) == (fine.most, fine.at, fine.until)
    assert len(coarse.steps) <= 14


def test_what_interleaves_in_the_log_is_counted_by_its_places(made: Made) -> None:
    if made.capture.committed_only:
        return
    places = []
    for row in made.truth("transactions"):
        places.append((row["begin_position"] or "", 1, row["transaction_id"]))
        if row["end_position"] is not None:
            places.append((row["end_position"], -1, ""))
    level, best = 0, (0, "", "")
    for position, delta, name in sorted(places):
        level += delta
        best = max(best, (level, position, name), key=lambda one: one[0])
    found = concurrency.in_log(made.capture)
    assert (found.most, found.position, found.transaction_id) == best
    assert found.counted == len(made.truth("transactions"))


def shares(values: list[int]) -> list[int]:
    ranked = sorted(values)
    return [ranked[math.ceil(share * len(ranked)) - 1] for share in (0.5, 0.95, 0.99)]


def test_latencies_are_those_of_the_truth(made: Made) -> None:
    waited, lasted = transactions.latency(made.capture)
    committed = [row for row in made.truth("changes") if row["committed_at"] is not None]
    of_changes = [
        (row["committed_at"] - row["changed_at"]) // MICROSECOND for row in committed if row["changed_at"] is not None
    ]
    of_transactions = [
        (row["ended_at"] - row["began_at"]) // MICROSECOND
        for row in made.truth("transactions")
        if row["began_at"] is not None and row["ended_at"] is not None
    ]
    if made.format in ("gbase8s", "idm-event-log"):
        assert of_changes == []
    else:
        assert waited.all == len(committed)
    for found, values in ((waited, of_changes), (lasted, of_transactions)):
        assert (found.known, found.negative) == (len(values), sum(value < 0 for value in values))
        if values:
            assert [found.p50_us, found.p95_us, found.p99_us] == shares(values)
            assert (found.least_us, found.most_us) == (min(values), max(values))
        assert sum(row["count"] for row in found.bins) == len(values)


def test_positions_rise_but_where_rows_were_shuffled(made: Made) -> None:
    order = positions(made.capture)
    records, steps_back = order.total("records"), order.total("steps_back")
    assert records > 0
    if made.format == "idm-event-log":
        numbers = record_ids(made)
        back = sum(later < earlier for earlier, later in pairwise(numbers))
        assert (records, steps_back) == (len(numbers), back)
        assert back > 10
    elif made.format == "qlik-kafka":  # what comes twice comes late
        places = sorted((row["file"], row["offset"], row["position"]) for row in made.truth("changes"))
        known = [(file, position) for file, _, position in places if position is not None]
        back = sum(one[0] == other[0] and other[1] < one[1] for one, other in pairwise(known))
        assert (records, steps_back) == (len(known), back)
        assert len(order.of_positions) > 5
    else:
        assert [row for row in order.streams if row["steps_back"]] == []
        assert (steps_back, order.places) == (0, [])


def test_positions_that_stand_twice_are_those_that_were_repeated(made: Made) -> None:
    twice = repeated(made.capture)
    scope = ("schema_name", "table_name", "operation") if made.format == "qlik-change-table" else ()
    changes = [row for row in made.truth("changes") if row["position"] is not None]
    known = Counter((row["position"], *(row[name] for name in scope)) for row in changes)
    several = {position: number for (position, *_), number in known.items() if number > 1}
    if made.format == "idm-event-log":  # the rows of a statement are one change
        several = {f"{n:019d}": number for n, number in Counter(record_ids(made)).items() if number > 1}
    assert (made.format in ("qlik-kafka", "qlik-change-table")) == bool(several)
    assert (twice.positions, twice.surplus) == (len(several), sum(several.values()) - len(several))
    assert {row["number"] for row in twice.places} <= set(several)
    is_other = (
        made.format == "qlik-change-table"
    )  # the sequence of the change before it; messages come again as they are
    assert twice.contradictions == (len(several) if is_other else 0)


def test_numbers_that_are_missing_are_those_that_were_left_out(made: Made) -> None:
    found = missing_numbers(made.capture)
    if made.format == "idm-event-log":
        numbers = set(record_ids(made))
        (row,) = found
        assert row["missing"] == max(numbers) - min(numbers) + 1 - len(numbers) > 0
    elif made.format == "qlik-kafka":
        assert sum(row["missing"] for row in found) > 0
    else:
        assert found == []


def test_tables_and_operations_are_those_of_the_truth(made: Made) -> None:
    rows = made.truth("changes")
    first, last = made.facts["first_time"], made.facts["last_time"]
    ends = {row["transaction_id"]: row["ended_at"] or row["began_at"] for row in made.truth("transactions")}
    known = [row["changed_at"] or row["committed_at"] or ends.get(row["transaction_id"]) for row in rows]
    times = [time for time in known if time is not None]
    found = contents.over_time(made.capture, first or min(times), max([last or max(times), *times]))
    tables = contents.tables(made.capture)
    assert sum(row["changes"] for row in found.rows) == len(times)
    assert sum(found.without_time.values()) == len(rows) - len(times)
    names = Counter(".".join(part for part in (row["schema_name"], row["table_name"]) if part) for row in rows)
    assert {row["table"]: row["changes"] for row in tables} == names
    for table in tables:
        mine = [row for row in rows if table["table"].endswith(row["table_name"])]
        assert dict(table["operations"]) == Counter(row["operation"] for row in mine)
        positions = [row["position"] for row in mine if row["position"] is not None]
        assert (table["first_position"], table["last_position"]) == (
            min(positions, default=None),
            max(positions, default=None),
        )


def test_the_ledger_of_every_file_closes(made: Made) -> None:
    rows = contents.ledger(made.capture, summarize(made.capture)["files"])
    assert [row["file"] for row in rows] == [entry["file"] for entry in made.capture.files]
    assert [row["none"] for row in rows] == [0] * len(rows)


def record_ids(made: Made) -> list[int]:
    (file,) = (made.folder / "capture").glob("*.csv")
    with file.open(encoding="utf-8", newline="") as lines:
        return [int(row["record_id"]) for row in csv.DictReader(lines)]


def test_files_in_the_wrong_order_are_one_step_back(spark: SparkSession, tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=300, seed=5, to=tmp_path / "made", files=2)
    first, second = sorted((tmp_path / "made" / "capture").iterdir())
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    shutil.copy(second, wrong / "a.bin")
    shutil.copy(first, wrong / "b.bin")
    order = positions(cdcwb.load(wrong))
    begins = [place for place in order.places if place["record_type"] == "CDC_REC_BEGINTX"]
    (place,) = begins
    assert (Path(place["file"]).name, Path(place["earlier_file"]).name) == ("b.bin", "a.bin")
    assert place["number"] < place["earlier_number"]
    assert order.total("steps_back") == order.contradictions
    assert order.total("behind") > 20


def test_a_file_that_is_there_twice_is_told_position_by_position(spark: SparkSession, tmp_path: Path) -> None:
    synth.generate("qlik-kafka", changes=200, seed=5, to=tmp_path / "made", tables=1, all_types=False, partitions=1)
    (file,) = (path for path in (tmp_path / "made" / "capture").rglob("*") if path.is_file())
    shutil.copy(file, file.with_name(f"z-{file.name}"))
    order, twice = (ask_of(cdcwb.load(tmp_path / "made" / "capture")) for ask_of in (positions, repeated))
    assert order.total("steps_back") == 0  # each of the two rises
    assert [stream["records"] for stream in order.of_positions] == [twice.positions] * 2
    assert twice.positions == twice.surplus > 100
    assert len(twice.places) == PLACES
    assert {Path(row["file"]).name for row in twice.places} == {f"z-{file.name}"}
