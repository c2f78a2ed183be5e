"""What is kept of a saved capture when files are added to it: equal fingerprints mean equal events, whatever came in.

Nothing here needs a JVM: plans of the first files of a capture and of all of them are made in this process, and every
piece is decoded with both.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.continued import Divided, divide, fingerprints_of, stamps_of
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.formats.files import list_files
from tests.made import generate

CAPTURES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {"files": 5, "cut_records": True, "schema_changes": 4, "undo_share": 0.3}, {}),
    "gbase8s-splits": ("gbase8s", {"files": 3, "cut_records": True, "schema_changes": 3}, {"split_size": 9000}),
    "gbase8s-hex": ("gbase8s", {"files": 4, "cut_records": True, "shape": "hex", "notes": True}, {}),
    "gbase8s-reads": ("gbase8s", {"files": 3, "shape": "reads"}, {}),
    "gbase8s-gzip": ("gbase8s", {"files": 4, "cut_records": True, "compression": "gzip"}, {}),
    "kafka": ("qlik-kafka", {"schema_changes": 3, "layout": "stream"}, {}),
    "kafka-late": ("qlik-kafka", {"schema_changes": 3, "layout": "stream", "metadata": "late"}, {}),
    "kafka-none": ("qlik-kafka", {"schema_changes": 3, "metadata": "none", "tables": 3}, {}),
    "kafka-avro": ("qlik-kafka", {"form": "avro-envelope", "container": "avro", "tables": 3}, {}),
    "debezium": ("debezium", {"schema_changes": 2}, {}),
    "debezium-splits": ("debezium", {"connector": "mysql"}, {"split_size": 90_000}),
    "kafka-splits": ("qlik-kafka", {"layout": "stream"}, {"split_size": 30_000}),
    "change-table": ("qlik-change-table", {"file_rows": 40, "tables": 3, "schema_changes": 2}, {}),
    "change-table-splits": ("qlik-change-table", {"dfm": False, "tables": 2}, {"split_size": 3000}),
    "goldengate": ("goldengate", {"trail_files": 5, "capture_files": "trail", "schema_changes": 3, "abends": 3}, {}),
    "goldengate-cut": ("goldengate", {"long_varchars": 200, "cut": 12}, {}),
    "goldengate-abends": ("goldengate", {"abends": 6, "cut": 99, "before": "IOType     :   150"}, {}),
    "goldengate-11g": (
        "goldengate",
        {"trail_files": 4, "capture_files": "trail", "style": "11g", "lobs": False, "restarts": 2},
        {},
    ),
    "goldengate-lobs": ("goldengate", {"trail_files": 4, "capture_files": "trail", "long_varchars": 200}, {}),
    "goldengate-json": ("goldengate-export", {"trail_files": 3, "capture_files": "trail", "form": "json"}, {}),
    "goldengate-xml": ("goldengate-export", {"trail_files": 3, "capture_files": "trail", "form": "formatxml"}, {}),
    "idm": ("idm-event-log", {"files": 4}, {}),
    "sqlserver-ct": ("sqlserver-ct", {}, {}),
    "maxwell": ("maxwell", {}, {}),
    "canal": ("canal", {}, {}),
    "idm-sql": ("idm-event-log", {"files": 3, "container": "sql"}, {}),
    "idm-parquet": ("idm-event-log", {"files": 3, "container": "parquet"}, {}),
}


def run(function: Any, tasks: Any) -> list[Any]:
    """Runs the tasks in this process, and the results as they come back from another one."""
    return [function(task) for task in tasks]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The captures that were generated so far, by name and seed."""
    return {}


def capture_of(name: str, seed: int, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = f"{name} {seed}"
    if key not in made:
        format, options, _ = CAPTURES[name]
        options = dict(options)
        count, before = options.pop("cut", 0), options.pop("before", "")
        made[key] = generate(format, changes=250, seed=seed, to=tmp_path_factory.mktemp("made") / "it", **options)
        if options.get("layout") == "stream":
            in_pieces(made[key] / "capture", 5)
        if count:
            in_pieces(made[key] / "capture", count, b"TokenID x47 'G'" if before else b"Hdr-Ind", before.encode())
    return made[key] / "capture"


def in_pieces(folder: Path, count: int, begins: bytes = b"", before: bytes = b"") -> None:
    """Makes so many files of one of lines, cut where a line begins with a text and one of the next with another."""
    (whole,) = folder.iterdir()
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.unlink()
    places = [at for at, line in enumerate(lines) if line.startswith(begins)]
    places = [at for at in places if any(line.startswith(before) for line in lines[at : at + 10])]
    chosen = places if len(places) < count else [places[at * len(places) // count] for at in range(1, count)]
    cuts = [0, *chosen, len(lines)]
    for at, (start, stop) in enumerate(pairwise(cuts)):
        whole.with_stem(f"{whole.stem}-{at}").write_bytes(b"".join(lines[start:stop]))


def events_of(form: Any, plan: Any, split: Any) -> list[dict[str, Any]]:
    """The events of a split or of one of its pieces, without the index of their file."""
    alone = copy.copy(plan)
    alone.splits = [split]
    batches = list(form.read(form.plan_from_text(alone.to_text()), 0, EVERYTHING))
    rows = pa.Table.from_batches(batches).to_pylist() if batches else []
    return [{name: value for name, value in row.items() if name != "file_index"} for row in rows]


def pieces_of(split: Any, fingerprints: list[str]) -> Iterator[tuple[str, Any]]:
    """Each piece of a split, as a split of its own."""
    if isinstance(split, list):
        yield from ((fingerprint, [piece]) for fingerprint, piece in zip(fingerprints, split, strict=True))
    else:
        (fingerprint,) = fingerprints
        yield fingerprint, split


def by_mark(form: Any, plan: Any, stamps: Any) -> dict[str, list[dict[str, Any]]]:
    return {
        fingerprint: events_of(form, plan, piece)
        for split, fingerprints in zip(plan.splits, fingerprints_of(form, plan, stamps), strict=True)
        for fingerprint, piece in pieces_of(split, fingerprints)
    }


def check_prefixes(name: str, folder: Path) -> tuple[int, Counter[str]]:
    """Holds for some of the files of a capture against all; returns how many pieces were reused, and how often each
    column of an event before the border was another one than with all files."""
    format, _, options = CAPTURES[name]
    form = get_format(format)
    files = list_files(folder)
    stamps = stamps_of(files)
    plan = form.plan(files, options, run)
    now = by_mark(form, plan, stamps)
    assert sum(map(len, now.values())) == sum(len(events_of(form, plan, split)) for split in plan.splits)
    at_place = {(row["file"], row["offset"]): row for rows in now.values() for row in rows}
    reused, changed = 0, Counter[str]()
    data = [entry["file"] for entry in form.files(plan)]
    borders = range(1, len(data)) if "cut" in CAPTURES[name][1] else sorted({1, len(data) // 2, len(data) - 1})
    some = [data[:count] for count in borders]
    for there in (*some, data[1:], data[::2], data[1::2]):
        first = [file for file in files if file not in data or file in there]
        before = by_mark(form, form.plan(first, options, run), stamps)
        for fingerprint, rows in before.items():
            assert fingerprint not in now or now[fingerprint] == rows
        reused += len(before.keys() & now.keys())
        for row in (row for rows in before.values() for row in rows) if there in some else ():
            other = at_place.get((row["file"], row["offset"]), row)
            changed.update(column for column in row if row[column] != other[column])
    return reused, changed


CHANGED = {
    "gbase8s": "kind",  # of a record that the border cuts
    "goldengate-abends": "transaction_id",  # of one that Extract broke off, and wrote again in the next file
    "goldengate-cut": "after",  # whose fragments follow the border
    "kafka-late": "table_name",  # in metadata that came later
    "kafka": "table_version",
}
"""A column of events that precede the border, which what follows it changes; they are not kept."""


@pytest.mark.parametrize("name", CAPTURES)
def test_pieces_with_the_same_mark_have_the_same_events(
    name: str, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    reused, changed = check_prefixes(name, capture_of(name, 1, made, tmp_path_factory))
    assert reused > 0
    assert name not in CHANGED or changed[CHANGED[name]]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", CAPTURES)
def test_pieces_of_many_captures(
    name: str, seed: int, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_prefixes(name, capture_of(name, seed, made, tmp_path_factory))


MUTATED = ("gbase8s", "gbase8s-hex", "gbase8s-reads", "kafka", "kafka-none", "kafka-avro", "change-table", "goldengate")
MUTATED += ("goldengate-11g", "goldengate-lobs", "goldengate-json", "idm", "idm-sql")


@pytest.mark.parametrize("name", MUTATED)
def test_what_changes_events_changes_the_mark(
    name: str, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    """Fields of the plan are changed, one after the other (with ``--full`` every one): where the events of a piece
    differ then, its fingerprint differs."""
    folder = capture_of(name, 1, made, tmp_path_factory)
    form = get_format(CAPTURES[name][0])
    files = list_files(folder)
    stamps = dict.fromkeys([*files, *(f"{path}x" for path in files)], (0, 0, 0))
    plan = form.plan(files, CAPTURES[name][2], run)
    number = len(plan.splits) // 2
    (fingerprint, piece), *_ = pieces_of(plan.splits[number], list(fingerprints_of(form, plan, stamps))[number])
    wanted = events_of(form, plan, piece)
    assert wanted
    differing = 0
    places = list(places_in(plan))
    if not request.config.getoption("--full"):
        places = random.Random(1).sample(places, min(len(places), 80))
    for place in places:
        changed = copy.deepcopy(plan)
        if not change(changed, place):
            continue
        try:
            found = list(fingerprints_of(form, changed, stamps))[number][0]
        except Exception:  # the plan makes no sense any more, and is not taken for the same
            continue
        if found != fingerprint:
            differing += 1
            continue
        there = told(form, changed, number)
        assert there is None or there == wanted, place
    assert differing > 4


def told(form: Any, plan: Any, number: int) -> list[dict[str, Any]] | None:
    """The events of the first piece of a split, None where they cannot be read."""
    split = plan.splits[number]
    try:
        return events_of(form, plan, [split[0]] if isinstance(split, list) else split)
    except Exception:
        return None


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every field of a plan; of long lists the first and last members."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            if one.name not in ("detected", "facts", "notes", "problems", "asked", "named"):
                yield from places_in(getattr(value, one.name), (*path, one.name))
    elif isinstance(value, dict):
        for key in list(value)[:4]:
            yield from places_in(value[key], (*path, key))
        yield path
    elif isinstance(value, (list, tuple)):
        for at in sorted({*range(len(value))} & {0, 1, len(value) // 2, len(value) - 1}):
            yield from places_in(value[at], (*path, at))
        yield path
    else:
        yield path


def change(plan: Any, place: tuple[Any, ...]) -> bool:
    """Changes one field of a plan in its place; False where it has no other value."""
    above = [plan]
    for step in place[:-1]:
        above.append(getattr(above[-1], step) if hasattr(above[-1], "__dataclass_fields__") else above[-1][step])
    value = above[-1]
    value = getattr(value, place[-1]) if hasattr(value, "__dataclass_fields__") else value[place[-1]]
    other = another(value)
    if other is None:
        return False
    for holder, step in zip(reversed(above), reversed(place), strict=True):
        if hasattr(holder, "__dataclass_fields__"):
            object.__setattr__(holder, step, other)  # frozen ones too
            return True
        if not isinstance(holder, tuple):
            holder[step] = other
            return True
        other = (*holder[:step], other, *holder[step + 1 :])
        if hasattr(holder, "_make"):
            other = holder._make(other)
    return False


def another(value: Any) -> Any:
    """Another value of the same type; None where there is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, (list, tuple)) and value and not hasattr(value, "_fields"):
        return value[:-1]
    if isinstance(value, dict) and value:
        return dict(list(value.items())[:-1])
    return None


# --- which splits are kept --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class SmallPlan:
    """A plan of nothing but splits."""

    splits: list[Any]


def divided(saved: list[list[str]], splits: list[Any], fingerprints: list[list[str]]) -> Divided:
    return divide(saved, SmallPlan(splits), fingerprints)  # type: ignore[arg-type]


def test_splits_are_kept_whole_and_only_what_is_left_is_read() -> None:
    saved = [["a"], ["b", "c"], ["d", "e"], ["f"]]
    found = divided(saved, ["A", ["B", "C", "D"], ["E2", "G"], "F"], [["a"], ["b", "c", "d"], ["e2", "g"], ["f"]])
    assert found.reused == [0, 1, -1, 2]
    assert found.fresh.splits == [["D"], ["E2", "G"]]
    assert found.fingerprints == [["a"], ["b", "c"], ["f"], ["d"], ["e2", "g"]]
    assert found.first_fresh == 3


def test_a_split_that_nothing_is_said_of_is_never_kept() -> None:
    found = divided([[], ["a"]], ["X", "A"], [[], ["a"]])
    assert (found.reused, found.fresh.splits, found.fingerprints) == ([-1, 0], ["X"], [["a"], []])


def test_marks_that_are_there_twice_are_not_believed() -> None:
    assert divided([["a"], ["a"]], ["A", "B"], [["a"], ["b"]]).reused == [0, -1]
    assert divided([["a"]], ["A", "B"], [["a"], ["a"]]).reused == [-1]


def test_a_file_that_was_written_again_has_another_mark(
    made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = list_files(capture_of("idm", 1, made, tmp_path_factory))
    form, stamps = get_format("idm-event-log"), stamps_of(files)
    plan = form.plan(files, {}, run)
    (first, *others) = fingerprints_of(form, plan, stamps)
    size, time, changed = stamps[files[0]]
    assert stamps_of(files) == stamps
    os.utime(files[0], ns=(0, time + 1))
    again, *same = fingerprints_of(form, plan, stamps_of(files))
    assert (first != again, others) == (True, same)
    (longer, *_) = fingerprints_of(form, plan, {**stamps, files[0]: (size + 1, time, changed)})
    assert longer not in (first, again)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_says_what_events_follow_from(format: str) -> None:
    assert any(given[0] == format for given in CAPTURES.values())


def test_a_file_that_got_other_bytes_and_its_old_time_back_is_not_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"one")
    before = stamps_of([str(path)])
    time = path.stat().st_mtime_ns
    while path.stat().st_ctime_ns == before[str(path)][2]:  # the file system's clock has to go on
        path.write_bytes(b"two")
        os.utime(path, ns=(time, time))
    now = stamps_of([str(path)])
    assert (now[str(path)][:2], now != before) == (before[str(path)][:2], True)
