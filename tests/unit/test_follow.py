"""A followed topic has, after every step and however steps are cut, the tables of all its messages at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.capture import planner
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import inspect
from cdcwb.formats.files import holding
from cdcwb.live import follow as module
from cdcwb.live import units
from cdcwb.live.follow import Follower
from cdcwb.live.units import Unit, Units
from cdcwb.saved import followed_by, hold, saved_at
from cdcwb.small import Small
from tests.growing_topic import Topic, follower

CAPTURES: dict[str, dict[str, Any]] = {
    "qlik-kafka, JSON": {"format": "qlik-kafka", "form": "json-envelope"},
    "qlik-kafka, Avro": {"format": "qlik-kafka", "form": "avro-envelope"},
    "debezium, JSON": {"format": "debezium"},
    "debezium, metadata of transactions": {"format": "debezium", "transactions": True},
}

HARDEST = ("qlik-kafka, Avro", "debezium, metadata of transactions")
"""What is found in these at an interruption is found in the others."""

PLAIN: dict[str, dict[str, Any]] = {"qlik-kafka": {"tables": 2, "partitions": 2}, "debezium": {}}


@pytest.fixture(params=CAPTURES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    options = dict(CAPTURES[request.param])
    form = options.pop("format")
    synth.generate(
        form, changes=150, seed=5, to=tmp_path / "made", container="parquet", all_types=False, **PLAIN[form], **options
    )
    return sorted((tmp_path / "made" / "capture").rglob("*.parquet"))


@pytest.fixture
def topic(made: list[Path], monkeypatch: pytest.MonkeyPatch) -> Topic:
    """What a follower finds in the place of a broker."""
    found = Topic(made)
    monkeypatch.setattr(module, "record", found.record)
    return found


def run_here(function: Any, tasks: Any) -> list[Any]:
    return [function(task) for task in tasks]


def tables(folder: Path) -> dict[str, list[str]]:
    saved = saved_at(folder)
    assert saved is not None
    found = {}
    for name, schema in model.TABLES.items():
        rows = pa.concat_tables(
            [pq.read_table(path).select(schema.names) for path in sorted((saved / name).glob("*.parquet"))]
        )
        found[name] = sorted(map(str, rows.to_pylist()))
    return found


def expected(folder: Path) -> dict[str, list[str]]:
    files = json.loads((folder / "follow.json").read_text())["files"]
    small = Small(planner("auto", {})([str(folder / "messages" / file) for file in files], run_here))
    return {name: sorted(map(str, small.table(name).to_pylist())) for name in model.TABLES}


def test_transactions_of_goldengate_grow_over_steps_and_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for number in range(60):
        place = "BMME"[number % 4]
        message = {"table": f"SHOP.T{number % 3}", "op_type": "U", "op_ts": f"2026-03-04T05:06:{number:02}Z"}
        message |= {"pos": f"{number:020}", "xid": f"1.{number // 4}", "txind": place}
        value = json.dumps({**message, "before": {"ID": 1}, "after": {"ID": number}})
        rows.append({"topic": "made", "partition": number % 2, "offset": number // 2, "value": value.encode()})
    columns = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), tmp_path / "made.parquet")
    topic = Topic([tmp_path / "made.parquet"])
    monkeypatch.setattr(module, "record", topic.record)
    one = follower(tmp_path / "followed")
    with one._held():
        for step in range(1, 10):
            topic.grow(step / 9)
            one.step()
            assert tables(tmp_path / "followed") == expected(tmp_path / "followed")
    complete = [row for row in tables(tmp_path / "followed")["transactions"] if "'completeness': 'complete'" in row]
    assert len(complete) == 15


def test_every_step_has_the_tables_of_all_messages(topic: Topic, tmp_path: Path) -> None:
    one = follower(tmp_path / "followed")
    with one._held():
        for step in range(1, 10):
            topic.grow(step / 9)
            one.step()
            if step in (2, 8, 9):
                assert tables(tmp_path / "followed") == expected(tmp_path / "followed")
    assert [unit.steps for unit in one._units.all] == [8, 1]  # units were put together
    assert one.step().messages == 0


def but_format(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tables without the evidence of the format: it is detected from the files that there are at the time."""
    return {**found, "detected": [row for row in found["detected"] if "'setting': 'format'" not in row]}


def test_files_of_messages_become_one_with_their_units(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MERGED", 3)
    one, planned = follower(tmp_path / "followed"), []
    with one._held():
        for step in range(1, 29):
            topic.grow(step / 28)
            one.step()
            planned.append(len(one._state["files"]))
            if step in (3, 4, 9, 27, 28):
                assert but_format(tables(tmp_path / "followed")) == but_format(expected(tmp_path / "followed"))
    assert [unit.steps for unit in one._units.all] == [27, 1]
    partitions = len(topic.partitions)
    assert max(planned) <= partitions * (2 * 3 + 3), "two for each level, and those of the last steps"
    there = {str(path.relative_to(one._messages)) for path in one._messages.rglob("*.parquet")}
    assert there == set(one._state["files"])
    with follower(tmp_path / "followed")._held():  # opened again it is as it was
        pass
    assert but_format(tables(tmp_path / "followed")) == but_format(expected(tmp_path / "followed"))


@pytest.mark.parametrize("made", HARDEST, indirect=True)
@pytest.mark.parametrize("moment", ["before the new file is known", "before the old ones are removed"])
def test_files_that_became_one_are_there_once_whatever_was_interrupted(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(units, "MERGED", 2)
    one = follower(tmp_path / "followed")
    with one._held():
        topic.grow(0.3)
        one.step()
    topic.grow(0.6)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, one._held():
        if moment.endswith("known"):
            patch.setattr(Units, "rename", interrupt)
        else:
            patch.setattr(Follower, "_tidy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.step()
    again = follower(tmp_path / "followed")
    with again._held():
        again.step()
        topic.grow(1.0)
        again.step()
    assert tables(tmp_path / "followed") == expected(tmp_path / "followed")
    there = {str(path.relative_to(one._messages)) for path in one._messages.rglob("*.parquet")}
    assert there == set(again._state["files"])


@pytest.mark.parametrize("made", HARDEST, indirect=True)
def test_a_record_is_found_again_in_the_file_that_has_its_message(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MERGED", 2)
    one, shown = follower(tmp_path / "followed"), []
    with one._held():
        for share in (0.5, 1.0):
            topic.grow(share)
            one.step()
            shown.append(max(one._state["files"]))
    assert shown[0] != shown[1]
    path = tmp_path / "followed" / "messages" / shown[0]
    assert not path.exists()
    offset = topic.there[-1] - 1
    (whole,) = (file for file in path.parent.glob("*.parquet"))
    assert holding(str(path), offset) == str(whole)
    assert inspect(path, offset).offset == inspect(whole, offset).offset == offset
    with pytest.raises(CaptureError, match="the file has no message with offset"):
        inspect(path, offset + 10_000)


@pytest.mark.parametrize("made", HARDEST, indirect=True)
def test_a_step_that_was_interrupted_is_done_again(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = iter(range(10_000))
    stops = {7, 25, 40, 61}
    original = Units._write

    def fail(self: Units, unit: Unit, name: str, rows: Iterator[pa.RecordBatch]) -> None:
        if next(writes) in stops:
            raise KeyboardInterrupt
        original(self, unit, name, rows)

    monkeypatch.setattr(Units, "_write", fail)
    interrupted = 0
    for step in range(1, 4):
        topic.grow(step / 3)
        while True:
            one = follower(tmp_path / "followed")
            try:
                with one._held():
                    one.step()
            except KeyboardInterrupt:
                interrupted += 1
                continue
            break
        assert tables(tmp_path / "followed") == expected(tmp_path / "followed")
    assert interrupted == len(stops)
    left = {place.name for place in (tmp_path / "followed" / "units").iterdir()}
    assert left == {unit.name for unit in one._units.all}


def test_messages_are_decoded_when_their_schema_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synth.generate(
        "qlik-kafka",
        changes=150,
        tables=1,
        partitions=1,
        seed=5,
        to=tmp_path / "made",
        container="parquet",
        all_types=False,
        metadata="separate",
        form="avro-envelope",
    )
    data = sorted((tmp_path / "made" / "capture").rglob("*.parquet"))
    metadata = sorted((tmp_path / "made" / "metadata").rglob("*.parquet"))
    topic = Topic([*data, *metadata])
    monkeypatch.setattr(module, "record", topic.record)
    one = follower(tmp_path / "followed")
    with one._held():
        for share in (0.3, 0.6, 1.0):
            topic.grow(share)
            topic.there[-len(metadata) :] = [0] * len(metadata)
            one.step()
        before = tables(tmp_path / "followed")
        assert any("no_schema" in row for row in before["problems"])
        topic.grow(1.0)
        one.step()
    after = tables(tmp_path / "followed")
    assert after == expected(tmp_path / "followed")
    assert not any("no_schema" in row for row in after["problems"])
    assert len(after["changes"]) == len(before["changes"])
    assert not any("'after': [" in row for row in before["changes"])
    assert any("'after': [" in row for row in after["changes"])


@pytest.mark.parametrize("made", HARDEST, indirect=True)
def test_a_generation_that_is_open_stays(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        """Whoever has a capture open."""

    monkeypatch.setattr(module, "_KEPT", -1.0)
    one, reader, opened = follower(tmp_path / "followed"), Reader(), None
    with one._held():
        for step in range(1, 5):
            topic.grow(step / 5)
            one.step()
            if step == 2:
                opened = saved_at(tmp_path / "followed")
                assert opened is not None
                hold(opened, reader)
        left = sorted((tmp_path / "followed" / "generations").iterdir())
        assert [int(place.name) for place in left] == [2, 4]
        assert opened == left[0]
        assert followed_by(left[0]) == tmp_path / "followed"
        del reader
        topic.grow(1.0)
        one.step()
        assert [int(place.name) for place in (tmp_path / "followed" / "generations").iterdir()] == [5]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("made", HARDEST, indirect=True)
def test_a_folder_is_continued_only_as_it_was_begun(tmp_path: Path) -> None:
    one = follower(tmp_path / "followed")
    with one._held():
        with pytest.raises(CaptureError, match="no message has arrived yet"):
            saved_at(tmp_path / "followed")
        with (
            pytest.raises(CaptureError, match="another process follows a topic into this folder"),
            follower(tmp_path / "followed")._held(),
        ):
            pass
    with (
        pytest.raises(OptionError, match="options: the folder was begun with"),
        follower(tmp_path / "followed", mask_order="big")._held(),
    ):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(CaptureError, match="holds something else"), follower(tmp_path / "other")._held():
        pass
