"""A saved capture that goes on with more files equals all files loaded at once, row for row in every table."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import cdcwb
from cdcwb import model
from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.files import list_files
from cdcwb_synth import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {"files": 4, "cut_records": True, "undo_share": 0.3, "update_share": 0.8}),
    "qlik-kafka": ("qlik-kafka", {"layout": "stream", "metadata": "late", "tables": 2, "schema_changes": 2}),
    "qlik-change-table": ("qlik-change-table", {"file_rows": 60, "tables": 2, "schema_changes": 2}),
    "goldengate": (
        "goldengate",
        {"trail_files": 4, "capture_files": "trail", "abends": 2, "updates": "pairs", "schema_changes": 2},
    ),
    "idm-event-log": ("idm-event-log", {"files": 4}),
}


def made(name: str, seed: int, to: Path, **options: Any) -> list[Path]:
    """The files of a generated capture, in natural order; those of a stream of lines are cut into four."""
    format, given = CAPTURES[name]
    folder = generate(format, changes=150, seed=seed, to=to / "made", **{**given, **options}) / "capture"
    if given.get("layout") == "stream":
        (whole,) = folder.iterdir()
        lines = whole.read_bytes().splitlines(keepends=True)
        whole.unlink()
        for at in range(4):
            part = lines[at * len(lines) // 4 : (at + 1) * len(lines) // 4]
            whole.with_stem(f"{whole.stem}-{at}").write_bytes(b"".join(part))
    return [Path(path) for path in list_files(folder)]


def rows_of(folder: Path, table: str) -> Counter[str]:
    """The rows of a table of a saved capture, as texts: maps in the order of their names."""
    names = model.TABLES[table].names
    rows = ds.dataset(folder / table, format="parquet").to_table(columns=names).cast(model.TABLES[table]).to_pylist()
    return Counter(json.dumps([_plain(row[name]) for name in names], default=repr, sort_keys=True) for row in rows)


def _plain(value: Any) -> Any:
    """Maps come as lists of pairs, whose order says nothing."""
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return sorted(value, key=repr)
    return value


def assert_same(found: Path, wanted: Path) -> None:
    for table in model.TABLES:
        left, right = rows_of(found, table), rows_of(wanted, table)
        assert left == right, (table, list((left - right).items())[:2], list((right - left).items())[:2])
    told, other = (json.loads((folder / "cdcwb.json").read_text()) for folder in (found, wanted))
    assert (told["format"], told["files"], told["facts"]) == (other["format"], other["files"], other["facts"])


def places_of(folder: Path, table: str, column: str) -> list[Any]:
    """A column of a table of a saved capture."""
    values: list[Any] = ds.dataset(folder / table, format="parquet").to_table(columns=[column])[column].to_pylist()
    return values


@pytest.mark.parametrize("name", CAPTURES)
def test_a_saved_capture_and_new_files_equal_all_files_at_once(spark: SparkSession, name: str, tmp_path: Path) -> None:
    """Saved half-way, gone on with one more file and saved again, then with the rest."""
    files = made(name, 6 if name == "gbase8s" else 3, tmp_path)
    half = len(files) // 2
    cdcwb.load(files).save(tmp_path / "all")
    cdcwb.load(files[:half]).save(tmp_path / "half")
    cdcwb.load([tmp_path / "half", *files[half : half + 1]]).save(tmp_path / "more")
    both = cdcwb.load([tmp_path / "more", *files[half + 1 :]])
    assert_same(both.save(tmp_path / "both"), tmp_path / "all")
    if name == "gbase8s":  # all that can cross a border does
        crossing = [
            {one["file_index"] for one in places} for places in places_of(tmp_path / "all", "changes", "source_events")
        ]
        assert any(len(files_of) == 2 for files_of in crossing)
        assert "fragment" in places_of(tmp_path / "all", "events", "kind")
    if name in ("gbase8s", "goldengate", "qlik-kafka"):
        assert any(
            one and one["file_index"] >= half for one in places_of(tmp_path / "all", "table_versions", "first_event")
        )


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4, 9))
@pytest.mark.parametrize("name", CAPTURES)
def test_wherever_the_border_is(spark: SparkSession, name: str, seed: int, tmp_path: Path) -> None:
    files = made(name, seed, tmp_path)
    cdcwb.load(files).save(tmp_path / "all")
    for count in range(1, len(files)):
        cdcwb.load(files[:count]).save(tmp_path / f"first-{count}")
        both = cdcwb.load([tmp_path / f"first-{count}", *files[count:]])
        assert_same(both.save(tmp_path / f"both-{count}"), tmp_path / "all")


def events_of(capture: Any) -> Counter[str]:
    """The events of a capture as they are read, each as text."""
    rows = capture.events.toArrow().to_pylist()
    return Counter(json.dumps([_plain(value) for value in row.values()], default=repr) for row in rows)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """An event log of four files."""
    return made("idm-event-log", 5, tmp_path_factory.mktemp("log"))


@pytest.fixture
def landing(log: list[Path], tmp_path: Path) -> Path:
    """A folder of its own with the files of the event log."""
    folder = tmp_path / "landing"
    shutil.copytree(log[0].parent, folder)
    return folder


@pytest.fixture(scope="module")
def yesterday(spark: SparkSession, log: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first three files of the event log, saved."""
    return cdcwb.load(log[:3]).save(tmp_path_factory.mktemp("kept") / "yesterday")


def test_files_that_grew_and_files_between_the_old_ones(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    first, second, third, fourth = sorted(landing.iterdir())
    whole = second.read_bytes()
    lines = whole.splitlines(keepends=True)
    second.write_bytes(b"".join(lines[: len(lines) // 2]))
    saved = cdcwb.load([first, second, fourth]).save(tmp_path / "saved")
    second.write_bytes(whole)
    capture = cdcwb.load([saved, landing])
    assert third.name == Path(capture.files[2]["file"]).name
    alike = cdcwb.load(landing)
    assert events_of(capture) == events_of(alike)
    assert capture.changes.count() == alike.changes.count()
    both = cdcwb.load([capture.save(tmp_path / "both"), landing])
    assert events_of(both) == events_of(alike)
    assert capture.detected.collect() == alike.detected.collect()


def test_the_nightly_run_of_the_command_line(
    yesterday: Path, log: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder holds what is saved already and what came in since."""
    assert main(["save", str(yesterday), str(log[0].parent), "--to", str(tmp_path / "today")]) == 0
    assert capsys.readouterr().out.endswith("a saved idm-event-log capture of 4 files\n")
    today, alike = cdcwb.load(tmp_path / "today"), cdcwb.load(log)
    assert (events_of(today), today.files) == (events_of(alike), alike.files)
    shown = []
    for paths in ([yesterday, log[3]], [tmp_path / "today"]):
        assert main(["summary", *map(str, paths), "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]


def test_nothing_new_changes_nothing(yesterday: Path, log: list[Path], tmp_path: Path) -> None:
    capture = cdcwb.load([yesterday, *log[:3]])
    assert_same(capture.save(tmp_path / "again"), yesterday)
    assert_same(cdcwb.load([yesterday]).save(tmp_path / "copy"), yesterday)
    assert len(cdcwb.load([tmp_path / "copy", *log]).files) == len(log)  # a copy of what was saved goes on as well


def test_a_file_that_is_gone_is_named(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    files = sorted(landing.iterdir())
    saved = cdcwb.load(files[:2]).save(tmp_path / "saved")
    files[0].unlink()
    with pytest.raises(
        CaptureError, match=r"not found, .*restore it, or load the new files without the saved"
    ) as found:
        cdcwb.load([saved, files[2]])
    assert found.value.path == str(files[0])
    assert cdcwb.load(saved).events.count() > 0  # what was saved opens all the same


def test_options_are_those_of_the_save(spark: SparkSession, log: list[Path], tmp_path: Path) -> None:
    saved = cdcwb.load(log[:2], "idm-event-log", images=False, time_zone="+02:00").save(tmp_path / "saved")
    capture = cdcwb.load([saved, *log[2:]])
    alike = cdcwb.load(log, "idm-event-log", images=False, time_zone="+02:00")
    assert (events_of(capture), capture.has_images) == (events_of(alike), False)
    assert capture.detected.collect() == alike.detected.collect()
    cdcwb.load([saved, log[2]], "idm-event-log", images="false", time_zone="+02:00")
    with pytest.raises(OptionError, match=r"option time_zone: the capture was saved with '\+02:00', found 'UTC'"):
        cdcwb.load([saved, log[2]], time_zone="UTC")
    with pytest.raises(OptionError, match="option charset: the capture was saved without it, found 'utf-8'"):
        cdcwb.load([saved, log[2]], charset="utf-8")
    with pytest.raises(OptionError, match="was saved as idm-event-log; files cannot be appended to it as goldengate"):
        cdcwb.load([saved, log[2]], "goldengate")


def test_what_was_saved_in_part_cannot_go_on(yesterday: Path, log: list[Path], tmp_path: Path) -> None:
    capture = cdcwb.load(log[:1])
    part = capture.filter(time_from="2020-01-01").save(tmp_path / "part")
    with pytest.raises(CaptureError, match="only some of its rows or values were saved; load all files at once"):
        cdcwb.load([part, log[1]])
    about = json.loads((part / "cdcwb.json").read_text())
    (part / "cdcwb.json").write_text(json.dumps({**about, "version": 1} | {"continue": None}))
    assert cdcwb.load(part).format == "idm-event-log"
    with pytest.raises(CaptureError, match="an earlier version saved it"):
        cdcwb.load([part, log[1]])
    with pytest.raises(CaptureError, match="one saved capture only"):
        cdcwb.load([part, yesterday, log[1]])
