"""The command line without a JVM: what it prints, what it ends with, and what it never does to a terminal."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdcwb.cli import main
from cdcwb.doctor import Check
from cdcwb.errors import CaptureError, OptionError
from cdcwb_synth import generate

DATA = Path(__file__).parents[2] / "data"

ESCAPE = "\x1b]0;owned\x07\u202e[b]"


def tabschem(label: int, columns: str) -> bytes:
    text = columns.encode() + b"\0"
    return struct.pack(">9i", 36, len(text), 66, 200, label, 0, 4, 1, 1) + text


def insert(label: int, number: int, text: str) -> bytes:
    data = text.encode()
    head = struct.pack(">4iqiii", 40, 6 + len(data), 66, 40, 0x1_0000_0050, 7, label, 0)
    return head + struct.pack("<i", len(data) + 2) + struct.pack(">ih", number, len(data)) + data


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table schema of 65 bytes, then a row whose text would retitle a terminal and turn its letters around."""
    path = tmp_path_factory.mktemp("cli") / "one.bin"
    path.write_bytes(tabschem(9, "c1 integer, c2 varchar(20,0)") + insert(9, 5, ESCAPE))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def one_sentence(err: str) -> str:
    """The message of a failed command: one line, perhaps with details or a hint where to read on, and no stack
    trace."""
    first, *rest = err.splitlines()
    assert first.startswith("cdcwb: ")
    assert [line for line in rest if not line.startswith(("  ", "Try 'cdcwb "))] == []
    return first


# --- the quick commands -----------------------------------------------------------------------------------------------


def test_identify_says_what_it_is_and_why(capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    code, out, err = run(capsys, "identify", capture)
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["format", "gbase8s"] in lines
    assert ["shape", "binary"] in lines
    assert ["bytes", str(capture.stat().st_size)] in lines
    assert any(name == "evidence" and "record header" in why for name, why in lines)


def test_identify_as_json_has_the_same_facts(capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    code, out, _ = run(capsys, "identify", capture, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["format"] == "gbase8s"
    assert facts["files"] == 1
    assert facts["bytes"] == capture.stat().st_size
    assert facts["evidence"]


def test_identify_does_not_take_a_saved_capture_for_what_it_was_made_from(
    capsys: pytest.CaptureFixture[str], capture: Path, tmp_path: Path
) -> None:
    assert run(capsys, "save", capture, "--to", tmp_path / "saved")[0] == 0
    code, out, _ = run(capsys, "identify", tmp_path / "saved", "--json")
    facts = json.loads(out)
    assert (code, facts["shape"], facts["files"]) == (0, "saved", 1)


def test_inspect_shows_bytes_beside_fields(capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    code, out, _ = run(capsys, "inspect", capture, "--offset", "0x41")
    assert code == 0
    assert "CDC_REC_INSERT" in out
    (line,) = [line for line in out.splitlines() if "c1 = 5" in line]
    assert line.split()[:5] == ["105", "00", "00", "00", "05"]


def test_inspect_prints_every_byte_of_the_record_once(capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    _, out, _ = run(capsys, "inspect", capture, "--offset", "80", "--all")
    head = next(line for line in out.splitlines() if line.startswith("offset  bytes"))
    column = slice(head.index("bytes"), head.index("field"))
    table = out[out.index(head) + len(head) :].splitlines()
    assert bytes.fromhex("".join(line[column] for line in table)) == insert(9, 5, ESCAPE)


def test_inspect_as_json_is_the_nested_tree(capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    _, out, _ = run(capsys, "inspect", capture, "--offset", "80", "--json")
    facts = json.loads(out)
    record = insert(9, 5, ESCAPE)
    assert (facts["offset"], facts["length"], facts["record"]) == (65, len(record), record.hex())
    assert facts["event"]["after"] == {"c1": "5", "c2": ESCAPE}

    def leaves(field: dict[str, Any]) -> list[str]:
        return (
            [field["raw"]] if not field["children"] else [raw for child in field["children"] for raw in leaves(child)]
        )

    assert set(facts["field"]) == {"name", "offset", "length", "raw", "value", "meaning", "problem", "children"}
    assert "".join(leaves(facts["field"])) == record.hex()


def test_inspect_counts_in_the_record_where_bytes_are_written_as_text(
    capsys: pytest.CaptureFixture[str], capture: Path, tmp_path: Path
) -> None:
    text = tmp_path / "one.hex"
    text.write_text("\n".join(capture.read_bytes()[at : at + 16].hex(" ", 4) for at in range(0, 130, 16)))
    code, out, _ = run(capsys, "inspect", text, "--offset", "0")
    assert code == 0
    assert "65 bytes written as text; offsets are relative to the start of the record" in out
    assert [line for line in out.splitlines() if line.startswith("16 ") and "specific header" in line]


@pytest.mark.parametrize("command", [("inspect", "--offset", "70"), ("inspect", "--offset", "70", "--json")])
def test_captured_text_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str], capture: Path, command: tuple[str, ...]
) -> None:
    _, out, _ = run(capsys, command[0], capture, *command[1:])
    assert "owned" in out
    assert {"\x1b", "\x07", "\u202e"}.isdisjoint(out)


def test_file_names_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str], capture: Path, tmp_path: Path
) -> None:
    hostile = tmp_path / f"{ESCAPE} \udcff.bin"
    hostile.write_bytes(capture.read_bytes())
    for arguments in (("identify", hostile), ("identify", f"{hostile}x"), ("inspect", hostile, "--offset", "0")):
        _, out, err = run(capsys, *arguments)
        assert "owned" in out + err
        assert {"\x1b", "\x07", "\u202e"}.isdisjoint(out + err)


@pytest.mark.parametrize("option", [("--driver-user", "\udcff"), ("-o", "schema=\udcff")])
def test_an_argument_that_is_not_utf8_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: tuple[str, str]
) -> None:
    code, _, err = run(capsys, "xds", DATA / "idm-event-log", "--to", tmp_path / "\udcff.xml", *option)
    assert code == 2
    assert "\\udcff" in one_sentence(err)
    assert not list(tmp_path.iterdir())


def test_a_file_whose_name_is_not_utf8_is_one_sentence(
    capsys: pytest.CaptureFixture[str], capture: Path, tmp_path: Path
) -> None:
    (tmp_path / "\udcff.bin").write_bytes(capture.read_bytes())
    code, _, err = run(capsys, "summary", tmp_path)
    assert (code, one_sentence(err)) == (
        2,
        f"cdcwb: {tmp_path}/\\udcff.bin: the name of a file is not valid UTF-8; rename it",
    )


def test_a_window_that_ends_before_it_begins_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "summary", DATA / "gbase8s", "--from", "2026-01-01", "--until", "2025-01-01")
    assert (code, "is after time_to" in one_sentence(err)) == (2, True)


def test_a_missing_working_directory_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, err = run(capsys, "report", "capture", DATA / "gbase8s", "--to", "page.html")
    assert (code, "the working directory no longer exists" in one_sentence(err)) == (2, True)


def test_doctor_ends_with_2_only_for_what_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Check("Chromium", False, "missing", "for tests", "install chromium", optional=True)
    java = Check("Java", False, "none", "17 or 21", "install openjdk-17-jre-headless")
    monkeypatch.setattr("cdcwb.doctor.examine", lambda: [browser])
    assert run(capsys, "doctor")[0] == 0
    monkeypatch.setattr("cdcwb.doctor.examine", lambda: [browser, java])
    code, out, _ = run(capsys, "doctor")
    assert code == 2
    assert "Java: install openjdk-17-jre-headless" in out
    code, out, _ = run(capsys, "doctor", "--json")
    assert code == 2
    assert json.loads(out)["ok"] is False
    assert [check["name"] for check in json.loads(out)["checks"]] == ["Chromium", "Java"]


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("export", "--help"), ("identify", "{}"), ("inspect", "{}", "--offset", "70"), ("doctor",)],
)
def test_quick_commands_start_no_spark(capture: Path, arguments: tuple[str, ...]) -> None:
    given = [argument.format(capture) for argument in arguments]
    program = f"import sys; from cdcwb.cli.__main__ import run; sys.argv[1:] = {given!r}; run(); "
    code = program + "sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


# --- what is wrong with the arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sumary", "x"), "Unknown command 'sumary'. Did you mean 'summary'?"),
        (("identify", "--jsn", "x"), "--json"),
        (("export", "x", "--view", "change", "--to", "x.csv"), "Did you mean 'changes'?"),
        (("export", "x", "--view", "changes", "--to", "x.parqet"), "Did you mean 'parquet'?"),
        (("export", "x", "--view", "changes", "--to", "nowhere/x.csv"), "there is no folder"),
        (("summary", "x", "--from", "yesterday"), "expected a time such as 2025-03-23"),
        (("export", "x", "--view", "changes", "--to", "-", "--where", "outcome == 'opn'"), "Did you mean 'open'?"),
        (("summary", "x", "-o", "charset"), "expected KEY=VALUE, found 'charset'"),
        (("inspect", "x", "--offset", "-3"), "expected an offset such as 1234 or 0x4D2"),
        (("inspect", "x"), "--offset"),
        (("summary",), "PATH"),
        (("identify", "nowhere.bin"), "nowhere.bin"),
        (("summary", "nowhere.bin"), "nowhere.bin"),
        (("synth", "gbase8", "--changes", "1", "--seed", "1", "--to", "x"), "gbase8s"),
        (("synth", "gbase8s", "--changes", "1", "--seed", "1", "--to", "x", "-o", "fils=2"), "'files'"),
        (("report", "transaction", "x", "--to", "x.html"), "transactions"),
    ],
)
def test_a_wrong_argument_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in one_sentence(err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("identify", "{}", "--format", "gbase"), "Did you mean 'gbase8s'?"),
        (("inspect", "{}", "--offset", "99999"), "offset 99999"),
        (("inspect", "{}", "--offset", "0", "-o", "charst=gbk"), "Did you mean 'charset'?"),
        (("inspect", "{}", "--offset", "0", "-o", "byte_order=middle"), "byte_order"),
    ],
)
def test_a_wrong_argument_for_a_capture_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], capture: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *(argument.format(capture) for argument in arguments))
    assert (code, out) == (2, "")
    assert said in one_sentence(err)


def test_a_file_that_is_no_capture_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 8)
    for command in (("identify",), ("inspect", "--offset", "3")):
        code, out, err = run(capsys, command[0], tmp_path / "x.bin", *command[1:])
        assert (code, out) == (2, "")
        assert "x.bin: no format recognises this binary file" in one_sentence(err)


def without_java(*commands: Sequence[str], code: str = "") -> subprocess.CompletedProcess[str]:
    """Commands, and code, on a machine that has no Java; the exit code is that of the last command, if all succeed."""
    lines = ["import sys; from cdcwb import machine; from cdcwb.cli import main"]
    lines += ["machine.find_java = lambda *_: (None, [])", code]
    lines += [f"assert (code := main({list(command)!r})) == 0 or sys.exit(code)" for command in commands]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    run = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(run, capture_output=True, text=True, check=False, env=environment)


def test_missing_java_is_one_sentence_and_exit_code_2(capture: Path) -> None:
    done = without_java(["export", str(capture), "--view", "changes", "--to", "-", "-o", "mode=DROPMALFORMED"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "Java" in one_sentence(done.stderr)


def test_a_small_capture_needs_no_java(capture: Path, tmp_path: Path) -> None:
    inserts = str(tmp_path / "inserts.jsonl")
    where = ("--where", 'operation == "INSERT"')
    done = without_java(
        ["summary", str(capture)],
        ["export", str(capture), "--view", "changes", "--to", inserts, *where],
        ["save", str(capture), "--to", str(tmp_path / "saved")],
    )
    assert (done.returncode, "transactions" in done.stdout) == (0, True), done.stderr
    assert {json.loads(line)["operation"] for line in Path(inserts).read_text().splitlines()} == {"INSERT"}
    assert (tmp_path / "saved" / "cdcwb.json").is_file()


def test_an_event_log_is_published_and_its_page_is_made_without_java(tmp_path: Path) -> None:
    log, other, saved = str(DATA / "idm-event-log"), str(DATA / "gbase8s"), str(tmp_path / "saved")
    page = (
        f"import cdcwb; from cdcwb.views.pages import EventLog; page = EventLog.of(cdcwb.load({log!r}))\n"
        "print([getattr(page, name)() for name in page.panels()])"
    )
    done = without_java(
        ["save", log, "--to", saved],
        ["xds", saved, "--no-snapshot", "--to", f"{saved}.xml"],
        ["xds", log, "--no-snapshot", "--to", str(tmp_path / "files.xml")],
        ["xds", other, "--infer-keys", "--to", str(tmp_path / "changes")],
        code=page,
    )
    assert (done.returncode, "Documents" in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "files.xml").read_bytes() == (tmp_path / "saved.xml").read_bytes()
    assert len([*(tmp_path / "changes").iterdir()]) > 100


# --- what goes wrong otherwise ----------------------------------------------------------------------------------------


def fail_with(monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    def identify(*_arguments: Any, **_options: Any) -> None:
        raise failure

    monkeypatch.setattr("cdcwb.formats.examine", identify)


def test_an_error_of_our_own_shows_its_stack_and_ends_with_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, ZeroDivisionError("by us"))
    code, _, err = run(capsys, "identify", "x")
    assert code == 3
    assert "Traceback" in err
    assert err.endswith("cdcwb: this is an error in cdcwb, not in the input\n")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (CaptureError("cut off", path="a\x1b.bin", offset=3), r"cdcwb: a\x1b.bin at offset 3: cut off"),
        (OptionError("no\nsuch option"), r"cdcwb: no\x0asuch option"),
        (PermissionError(13, "Permission denied", "a.bin"), "cdcwb: a.bin: Permission denied"),
        (OSError(28, "No space left on device"), "cdcwb: No space left on device"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str
) -> None:
    fail_with(monkeypatch, failure)
    assert run(capsys, "identify", "x") == (2, "", said + "\n")


def test_an_interruption_is_said_without_a_stack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    code, out, err = run(capsys, "identify", "x")
    assert (code, out) == (130, "")
    assert err.strip() == "cdcwb: interrupted"


def test_a_closed_pipe_is_no_error(capture: Path) -> None:
    command = f"'{sys.executable}' -m cdcwb.cli inspect '{capture}' --offset 70 --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    path = tmp_path / "one.bin"
    path.write_bytes(tabschem(9, "c1 integer, c2 varchar(20,0)") + insert(9, 5, "中文 é"))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "cdcwb.cli", "inspect", str(path), "--offset", "70"]
    shown = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    assert rb"\u4e2d\u6587 \xe9" in shown
    told = subprocess.run([*command, "--json"], capture_output=True, check=True, env=environment).stdout
    assert json.loads(told.decode())["event"]["after"]["c2"] == "中文 é"


# --- making something -------------------------------------------------------------------------------------------------


def test_synth_writes_what_generate_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ("--changes", "20", "--seed", "4", "--to", tmp_path / "a", "-o", "files=2", "-o", "shape=hex")
    code, out, err = run(capsys, "synth", "gbase8s", *given)
    assert (code, err) == (0, "")
    assert out == f"{tmp_path}/a: a gbase8s capture with 20 changes\n"
    generate("gbase8s", changes=20, seed=4, to=tmp_path / "b", files=2, shape="hex")
    made, wanted = (sorted((tmp_path / name / "capture").iterdir()) for name in ("a", "b"))
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in wanted]
    assert len(made) == 2
    code, out, err = run(capsys, "synth", "gbase8s", *given)
    assert (code, out) == (2, "")
    assert "a: already holds capture; not overwritten. Name another folder, or replace it: overwrite=true" in err
    assert run(capsys, "synth", "gbase8s", *given, "-o", "overwrite=true")[0] == 0


@pytest.mark.parametrize(("healthy", "strict", "code"), [(True, True, 0), (False, True, 1), (False, False, 0)])
def test_report_hands_over_its_arguments_and_ends_by_the_health(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, healthy: bool, strict: bool, code: int
) -> None:
    given: list[Any] = []

    def run_report(*arguments: Any) -> dict[str, Any]:
        given.extend(arguments)
        arguments[6]("running")
        return {"verdict": "It is so.", "healthy": healthy}

    monkeypatch.setattr("cdcwb.report.run_report", run_report)
    options = ("--table", "a", "--table", "b", "--from", "2025-01-02", "-o", "charset=gbk", "--format", "gbase8s")
    assert run(
        capsys, "report", "transactions", "in", "--to", "x.html", *options, *(["--strict"] if strict else [])
    ) == (
        code,
        "x.html: It is so\n",
        "",
    )
    narrowed = {"tables": ["a", "b"], "time_from": "2025-01-02T00:00:00+00:00"}
    assert given[:6] == ["transactions", "in", "x.html", "gbase8s", {"charset": "gbk"}, narrowed]
    assert given[7:] == [(), ()]


def test_a_parameter_is_given_as_papermill_takes_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def run_report(*arguments: Any) -> dict[str, Any]:
        given.extend(arguments)
        return {"verdict": "It is so."}

    monkeypatch.setattr("cdcwb.report.run_report", run_report)
    own = (
        "-p",
        "tables",
        '["shop.orders"]',
        "-p",
        "least_changes",
        "-5",
        "--parameter",
        "users",
        '["a=b"]',
        "--strict",
    )
    assert run(capsys, "report", *own, "transactions", "in", "--to", "x.html")[0] == 0
    assert given[5] == {"tables": ["shop.orders"], "least_changes": -5, "users": ["a=b"]}
    given.clear()
    assert run(capsys, "report", "event_log_xds", "in", "--to", "x.html", "--infer-keys")[0] == 0
    assert given[5] == {"infer_keys": True}
    code, _, err = run(capsys, "report", "transactions", "in", "--to", "x.html", "-p", "tables", "--strict")
    assert (code, one_sentence(err)) == (
        2,
        "cdcwb: -p tables: expected NAME VALUE, found the option --strict",
    )
