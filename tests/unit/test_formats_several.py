"""Files of different formats are never opened as one capture; each group is named with the command that opens it."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import time
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.cli import main
from cdcwb.errors import UnknownFormatError
from cdcwb.formats import choose, examine, identify
from cdcwb.formats.files import list_files
from tests.made import IN_DATA

DATA = Path(__file__).parents[2] / "data"
PAIRS = list(combinations(IN_DATA, 2))


def flat(names: tuple[str, ...], to: Path) -> dict[str, set[str]]:
    """All files of some captures side by side in one folder: the files of each format."""
    made: dict[str, set[str]] = {}
    for name in names:
        for path in list_files(DATA / name):
            parts = Path(path).relative_to(DATA / name).parts
            shutil.copy(path, to / "__".join(parts))
            if not path.endswith(".dfm"):
                made.setdefault(name, set()).add(str(to / "__".join(parts)))
    return made


def opened(command: str) -> list[str]:
    """The files that a command names, as a shell would hand them over."""
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("cdcwb", "summary")
    found = [Path("/").glob(argument[1:]) if "*" in argument else [Path(argument)] for argument in arguments]
    return sorted(str(path) for paths in found for path in paths)


def refused(folder: Path) -> UnknownFormatError:
    with pytest.raises(UnknownFormatError) as caught:
        choose(list_files(folder), "auto", {})
    return caught.value


def test_captures_of_different_formats_in_one_folder_are_named() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        identify(DATA)
    said = caught.value
    assert said.path == str(DATA)
    assert "gbase8s (3 files), goldengate (3 files), goldengate-export (1 file), idm-event-log (1 " in said.message
    assert said.advice == tuple(f"cdcwb summary {DATA / name}" for name in sorted(IN_DATA))
    assert "snapshot" not in str(said)
    assert "labels" not in str(said)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_every_two_formats_in_one_folder_each_is_named_with_what_opens_it(
    one: str, other: str, tmp_path: Path
) -> None:
    made = flat((one, other), tmp_path)
    said = refused(tmp_path)
    assert said.path == str(tmp_path)
    contents = examine(tmp_path)
    assert {name: set(files) for name, files in contents.groups.items()} == made
    for name in (one, other):
        assert f"{name} ({len(made[name])} file" in said.message
        command = contents.command(name)
        assert command in said.advice
        if "…" not in command:
            files = opened(command)
            assert set(files) == made[name]
            assert identify(files).format == name


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_every_two_formats_in_folders_of_their_own_the_folders_are_named(
    one: str, other: str, tmp_path: Path
) -> None:
    for name in (one, other):
        shutil.copytree(DATA / name, tmp_path / "in one" / name)
    said = refused(tmp_path)
    assert [opened(command) for command in said.advice] == [
        [str(tmp_path / "in one" / name)] for name in sorted((one, other))
    ]


@pytest.mark.parametrize("name", IN_DATA)
def test_a_format_that_is_named_is_that_of_all_files(name: str) -> None:
    assert choose(list_files(DATA), name, {})[0].name == name
    found = identify(DATA, name)
    assert found.format == name
    assert "are not recognised but read as " + name in found.evidence[-1]


@pytest.mark.parametrize("name", IN_DATA)
def test_each_of_them_is_a_capture(name: str) -> None:
    found = identify(DATA / name)
    assert found.format == name
    assert not any("not recognised" in sentence for sentence in found.evidence)


def test_files_that_are_none_are_read_with_those_of_the_one_format_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "monday").mkdir()
    shutil.copy(DATA / "gbase8s" / "stream-1.bin", tmp_path / "monday" / "stream-1.bin")
    (tmp_path / "tuesday").mkdir()
    shutil.copy(DATA / "gbase8s" / "stream-2.bin", tmp_path / "tuesday" / "stream-2.dat")
    (tmp_path / "wednesday").mkdir()
    (tmp_path / "wednesday" / "readme.txt").write_text("nothing was recorded on this day\n")
    found = identify(tmp_path)
    assert (found.format, found.files) == ("gbase8s", 3)
    assert found.evidence[-1] == "wednesday/readme.txt is not recognised but read as gbase8s"


def test_a_file_that_begins_within_a_record_has_the_format_of_its_series(tmp_path: Path) -> None:
    made = flat(("gbase8s", "goldengate"), tmp_path)
    rest = tmp_path / "stream-4.bin"
    rest.write_bytes(b"the rest of a long record")
    empty = tmp_path / "logdump-000000044.txt"
    empty.touch()
    contents = examine(tmp_path)
    assert set(contents.groups["gbase8s"]) == {*made["gbase8s"], str(rest)}
    assert set(contents.groups["goldengate"]) == {*made["goldengate"], str(empty)}
    assert contents.unknown == []


def test_a_file_that_begins_within_a_record_has_the_format_of_its_folder(tmp_path: Path) -> None:
    shutil.copytree(DATA / "gbase8s", tmp_path / "stream")
    shutil.copytree(DATA / "goldengate", tmp_path / "dump")
    (tmp_path / "stream" / "tail").write_bytes(b"the rest of a long record")
    (tmp_path / "notes.txt").write_text("two captures of one day\n")
    contents = examine(tmp_path)
    assert contents.groups["gbase8s"][-1] == str(tmp_path / "stream" / "tail")
    assert contents.unknown == [str(tmp_path / "notes.txt")]
    assert "; notes.txt is not recognised. Open " in contents.refusal().message
    assert opened(contents.command("gbase8s")) == [str(tmp_path / "stream")]


def test_packed_files_are_recognised_by_what_is_in_them(tmp_path: Path) -> None:
    for source in (DATA / "gbase8s" / "stream-1.bin", DATA / "goldengate" / "logdump-000000041.txt"):
        (tmp_path / f"{source.name}.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert list(examine(tmp_path).groups) == ["goldengate", "gbase8s"]


def test_side_files_are_of_no_format_of_their_own(tmp_path: Path) -> None:
    for name in ("gbase8s", "idm-event-log", "idm-event-log.snapshot", "qlik-change-table"):
        shutil.copytree(DATA / name, tmp_path / name)
    shutil.copy(DATA / "gbase8s.labels.json", tmp_path)
    contents = examine(tmp_path)
    sides = {Path(one.file).name: one.format for one in contents.files if one.side}
    assert sides["gbase8s.labels.json"] == "gbase8s"
    assert sides["orders.csv"] == "idm-event-log"
    assert sides["LOAD00000001.dfm"] == "qlik-change-table"
    assert contents.unknown == []
    assert contents.groups["idm-event-log"] == [str(tmp_path / "idm-event-log" / "eventlog.csv")]


def test_tables_that_cdcwb_wrote_are_no_part_of_the_capture_beside_them(tmp_path: Path) -> None:
    shutil.copytree(DATA / "gbase8s", tmp_path / "raw")
    for folder in ("saved/changes", "exported"):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(model.CHANGES.empty_table(), tmp_path / folder / "part.parquet")
    (tmp_path / "saved" / "cdcwb.json").write_text("{}")
    said = refused(tmp_path)
    assert "tables that cdcwb wrote (3 files) and gbase8s (3 files)" in said.message
    assert said.advice == (f"cdcwb summary {tmp_path / 'saved'}", f"cdcwb summary {tmp_path / 'raw'}")


def test_many_files_in_a_command_are_patterns_that_fit_nothing_else(tmp_path: Path) -> None:
    message = (DATA / "qlik-kafka" / "shop.orders-0.txt").read_bytes().splitlines(keepends=True)[0]
    for number in range(50):
        (tmp_path / f"orders it's-{number}.txt").write_bytes(message)
        (tmp_path / f"orders-{number}.txt").write_bytes(message)
    shutil.copy(DATA / "goldengate" / "logdump-000000041.txt", tmp_path / "logdump-1.dmp")
    contents = examine(tmp_path)
    assert contents.command("goldengate") == f"cdcwb summary {tmp_path / 'logdump-1.dmp'}"
    command = contents.command("qlik-kafka")
    assert command.endswith(f" {tmp_path}/orders-*.txt")
    assert len(opened(command)) == 100
    for number in range(24):
        (tmp_path / f"{chr(97 + number)}.txt").write_bytes(message)
    assert examine(tmp_path).command("qlik-kafka") == f"cdcwb summary {tmp_path}/*.txt"
    shutil.copy(DATA / "goldengate" / "logdump-000000041.txt", tmp_path / "logdump-1.txt")
    assert examine(tmp_path).command("qlik-kafka").endswith(" … # and 6 more")


def test_identify_shows_what_each_file_of_a_folder_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gbase8s", "goldengate"):
        shutil.copytree(DATA / name, tmp_path / name)
    (tmp_path / "notes.txt").write_text("two captures of one day\n")
    assert main(["identify", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in (
        ["gbase8s/stream-*.bin", "3", "gbase8s", "0.99"],
        ["goldengate/logdump-*.txt", "3", "goldengate", "0.98"],
        ["notes.txt", "1", "not", "recognised"],
        ["cdcwb", "summary", str(tmp_path / "gbase8s")],
        ["cdcwb", "summary", str(tmp_path / "goldengate")],
    ):
        assert row in rows
    assert main(["identify", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["files"]) == (None, 7)
    assert [(one["format"], one["files"]) for one in found["groups"]] == [("gbase8s", 3), ("goldengate", 3)]
    assert [one["format"] for one in found["contents"]] == ["gbase8s"] * 3 + ["goldengate"] * 3 + [None]
    assert main(["identify", str(tmp_path / "gbase8s"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], len(found["contents"])) == ("gbase8s", 3)


@pytest.mark.parametrize("command", ["summary", "save", "export", "xds", "report"])
def test_no_command_opens_files_of_different_formats(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"summary": [], "export": ["--view", "events", "--to", str(tmp_path / "e.csv")]}
    name = ["transactions"] if command == "report" else []
    assert (
        main(
            [command, *name, str(DATA), *more.get(command, ["--to", str(tmp_path / ("made.html" if name else "made"))])]
        )
        == 2
    )
    said = capsys.readouterr()
    assert said.err.startswith(
        f"cdcwb: {DATA}: the files are of different formats: canal (1 file), debezium (1 file), "
    )
    assert said.err.splitlines()[1:] == [f"cdcwb summary {DATA / name}" for name in sorted(IN_DATA)]
    assert list(tmp_path.iterdir()) == []


def test_a_long_table_of_files_has_a_row_of_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(60):
        name = "".join(chr(97 + int(digit)) for digit in f"{number:02}")
        shutil.copy(DATA / "gbase8s" / "stream-1.bin", tmp_path / f"{name}.bin")
    shutil.copy(DATA / "goldengate" / "logdump-000000041.txt", tmp_path / "z.txt")
    assert main(["identify", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["z.txt", "1", "goldengate", "0.98"] in rows
    assert ["…", "and", "20", "more", "files;", "--json", "lists", "all"] in rows


def test_a_column_of_other_names_makes_no_table_of_cdcwb(tmp_path: Path) -> None:
    pq.write_table(pa.table({"note": ["nothing"]}), tmp_path / "notes.parquet")
    shutil.copy(DATA / "gbase8s" / "stream-1.bin", tmp_path)
    assert identify(tmp_path).format == "gbase8s"


def test_many_files_of_a_series_are_told_apart_by_how_they_begin(tmp_path: Path) -> None:
    sources = [DATA / "goldengate" / "logdump-000000041.txt", DATA / "qlik-kafka" / "shop.orders-0.txt"]
    for number in range(60):
        shutil.copy(sources[number % 7 == 6], tmp_path / f"day-{number}.txt")
    counts = {name: len(files) for name, files in examine(tmp_path).groups.items()}
    assert counts == {"goldengate": 52, "qlik-kafka": 8}


def test_a_large_file_is_looked_at_by_its_beginning_alone(tmp_path: Path) -> None:
    line = (DATA / "qlik-kafka" / "shop.orders-0.txt").read_bytes().splitlines(keepends=True)[0]
    packed = gzip.compress(line * (300_000_000 // len(line)), 1)
    (tmp_path / "orders.gz").write_bytes(packed)
    examine(DATA / "qlik-kafka")  # what is compiled on first use
    began = time.process_time()
    assert identify(tmp_path).format == "qlik-kafka"
    spent = time.process_time() - began
    assert spent < 3, spent
