"""What is wrong with files, options or outputs is said before Spark is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cdcwb
from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError, UnknownFormatError
from tests.made import IN_DATA

ROOT = Path(__file__).parents[2]
LOG = str(ROOT / "data" / "idm-event-log")
STREAM = str(ROOT / "data" / "gbase8s")
MESSAGES = str(ROOT / "data" / "qlik-kafka")
TABLES = str(ROOT / "data" / "qlik-change-table")
TRAIL = str(ROOT / "data" / "goldengate")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session or a kernel that is started fails the test."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("cdcwb.spark.session.get_spark", started)
    monkeypatch.setattr("cdcwb.report.kernel.Kernel.run", started)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What is said on standard error, with exit code 2 and nothing on standard output."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    return err


def of_each_command(path: str | Path, folder: Path) -> dict[str, list[str]]:
    """A command line of every command that reads a capture."""
    given, to = str(path), folder / "made"
    return {
        "identify": ["identify", given],
        "inspect": ["inspect", given, "--offset", "0"],
        "summary": ["summary", given],
        "export": ["export", given, "--view", "changes", "--to", f"{to}.jsonl"],
        "history": ["history", given, "--table", "t", "--key", "id=1"],
        "xds": ["xds", given, "--to", f"{to}.xml"],
        "save": ["save", given, "--to", str(to)],
        "report": ["report", "capture", given, "--to", f"{to}.html"],
        "report all": ["report", "all", given, "--to", str(to)],
    }


COMMANDS = tuple(of_each_command("", Path()))
READING = tuple(name for name in COMMANDS if name != "identify")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_empty_file_before_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    empty = tmp_path / "empty.bin"
    empty.write_bytes(b"")
    said = refused(capsys, *of_each_command(empty, tmp_path)[command])
    assert f"{empty}: the file is empty (0 bytes)" in said
    assert list(tmp_path.iterdir()) == [empty]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_misspelt_option_before_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    said = refused(capsys, *of_each_command(f"{LOG}/eventlog.csv", tmp_path)[command], "-o", "charst=utf-8")
    assert "unknown option 'charst' for" in said
    assert "Did you mean 'charset'?" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", READING)
def test_every_command_refuses_an_event_log_without_rows_before_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    script = tmp_path / "copy.sql"
    script.write_text("INSERT INTO app.log SELECT * FROM app.old_log;\n")
    assert "this SQL script has no rows" in refused(capsys, *of_each_command(script, tmp_path)[command])


@pytest.mark.parametrize(
    ("capture", "option", "said"),
    [
        (STREAM, "byte_order=middle", "option byte_order: expected one of auto, little, big"),
        (STREAM, "labels=nowhere.json", "option labels: 'nowhere.json' is neither"),
        (STREAM, "mode=LOOSE", "option mode: expected one of"),
        (STREAM, "images=perhaps", "option images: expected true or false"),
        (STREAM, "keys=orders", "option keys: expected schema.table:c1+c2"),
        (MESSAGES, "container=box", "option container: expected one of"),
        (MESSAGES, "metadata=nowhere", "there is no such file or folder"),
        (MESSAGES, "registry=nowhere", "option registry: expected a folder"),
        (TABLES, "mask_offset=x", "option mask_offset: expected a whole number"),
        (TRAIL, "definitions=nowhere.def", "option definitions: 'nowhere.def' cannot be read"),
        (MESSAGES, "separator=\\x4", "option separator"),
        (LOG, "time_zone=Mars/Base", "option time_zone"),
        (LOG, "columns=event_type=nowhere", "option columns: there is no column 'nowhere'"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_before_spark(
    capsys: pytest.CaptureFixture[str], capture: str, option: str, said: str
) -> None:
    form = Path(capture).name
    assert said in refused(capsys, "summary", capture, "--format", form, "-o", option)


def test_load_checks_files_and_options_before_it_starts_a_session(tmp_path: Path) -> None:
    (tmp_path / "manual.pdf").write_bytes(b"%PDF-1.7\n")
    with pytest.raises(UnknownFormatError, match=r"manual\.pdf: this is a PDF document"):
        cdcwb.load(tmp_path)
    with pytest.raises(OptionError, match="Did you mean 'charset'"):
        cdcwb.load(STREAM, charst="gbk")
    with pytest.raises(CaptureError, match="there is no such file or folder"):
        cdcwb.load(tmp_path / "nothing")


def test_no_module_of_spark_or_of_notebooks_is_even_imported_for_a_file_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    code = (
        "import sys; from cdcwb.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(99 if {'pyspark', 'papermill', 'nbclient'} & set(sys.modules) else code)"
    )
    for command in ("identify", "summary", "report", "report all"):
        given = of_each_command(tmp_path / "x.png", tmp_path)[command]
        arguments = [sys.executable, "-c", code, *given]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "this is a PNG image" in done.stderr


# --- a format that is given -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", IN_DATA)
def test_identify_shows_what_the_named_format_found_itself(capsys: pytest.CaptureFixture[str], form: str) -> None:
    path = ROOT / "data" / form
    assert main(["identify", str(path)]) == 0
    alone = capsys.readouterr().out.splitlines()
    assert main(["identify", "--format", form, str(path)]) == 0
    named = capsys.readouterr().out.splitlines()
    assert [line for line in named if line not in alone] == ["evidence     given as an option"]


@pytest.mark.parametrize("form", cdcwb.formats.FORMATS)
def test_identify_says_that_a_file_does_not_look_like_the_named_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    (tmp_path / "x.txt").write_text("Once upon a time there was\na short text.\n")
    said = refused(capsys, "identify", "--format", form, tmp_path / "x.txt")
    assert f"this does not look like {form}" in said


# --- what a command needs, and what it writes -------------------------------------------------------------------------


def test_documents_of_a_format_that_names_no_keys_need_the_option_keys(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = refused(capsys, "xds", STREAM, "--to", tmp_path / "out.xml")
    assert "gbase8s captures name no key columns" in said
    assert "-o keys=schema.table:column+column" in said


@pytest.mark.parametrize("command", ["history", "xds"])
def test_a_command_that_shows_values_refuses_to_go_without_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    said = refused(capsys, *of_each_command(MESSAGES, tmp_path)[command], "-o", "images=false")
    assert "option images: this command needs values" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "capture", STREAM, "--to", "x.pdf"], "expected a file that ends in .html or .htm, found 'x.pdf'"),
        (["report", "capture", STREAM, "--to", "x"], "expected a file that ends in .html or .htm, found 'x'"),
        (["report", "all", STREAM, "--to", "x.html"], "expected a folder, found 'x.html', which ends as a file does"),
        (["save", STREAM, "--to", "x.parquet"], "expected a folder, found 'x.parquet'"),
        (["xds", LOG, "--to", "x.pdf"], "one file of all documents ends in .xml or .xds"),
        (["export", LOG, "--view", "events", "--to", "x.xlsx"], "expected a file that ends in .jsonl, .parquet, .csv"),
        (["history", LOG, "--table", "t", "--key", "a=1", "--to", "x.csv"], "expected a file that ends in .jsonl"),
    ],
)
def test_an_output_that_is_not_what_is_written_is_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_saved_into(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "note.txt").touch()
    for more in ((), ("--overwrite",)):
        said = refused(capsys, "save", STREAM, "--to", tmp_path, *more)
        assert "already exists; not overwritten. Name another folder; it is not a saved capture" in said
        said = refused(capsys, "xds", STREAM, "--to", tmp_path, *more)
        assert "already exists; not overwritten. Name another folder; it is not a folder of XDS documents" in said
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_what_an_earlier_run_wrote_is_not_replaced_and_the_option_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for command, name in (("save", "cdcwb.json"), ("xds", "document-000001.xml")):
        (tmp_path / command).mkdir()
        (tmp_path / command / name).write_text("{}")
        said = refused(capsys, command, STREAM, "--to", tmp_path / command)
        assert "already exists; not overwritten. Name another folder; --overwrite replaces" in said


@pytest.mark.parametrize("name", ["capture", "transactions", "all"])
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("open_transaction > 0", "there is no fact 'open_transaction'. Did you mean 'open_transactions'?"),
        ("problems.error > 0", "there is no fact 'problems.error'"),
        ("problems > many", "problems is a number, which is not compared so with 'many'"),
        ("verdict > 3", "verdict is a text, which is not compared so with 3"),
        ("healthy > 0", "healthy is true or false, which is not compared so with 0"),
    ],
)
def test_a_condition_that_no_report_can_judge_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, condition: str, said: str
) -> None:
    to = tmp_path / ("reports" if name == "all" else "x.html")
    assert said in refused(capsys, "report", name, STREAM, "--to", to, "--fail-if", condition)
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_a_report_does_not_have_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refused(capsys, "report", "capture", STREAM, "--to", tmp_path / "x.html", "-p", "user", "ann")
    assert "unknown parameter 'user' of capture." in said


def test_a_report_without_a_comparison_takes_no_second_capture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = refused(capsys, "report", "capture", STREAM, "--to", tmp_path / "x.html", "--with", STREAM)
    assert "--with: only replay_and_reconcile compares two captures" in said


def test_the_other_capture_of_a_comparison_is_checked_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "manual.pdf").write_bytes(b"%PDF-1.7\n")
    arguments = (
        "report",
        "replay_and_reconcile",
        STREAM,
        "--to",
        tmp_path / "x.html",
        "--with",
        tmp_path / "manual.pdf",
    )
    assert "manual.pdf: this is a PDF document" in refused(capsys, *arguments)
