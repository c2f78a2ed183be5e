"""The command line over generated captures whose truth is known: summary, export, save, filters and exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.cli import main
from cdcwb_synth import generate

pytestmark = pytest.mark.usefixtures("spark")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 changes in three files with records cut at their ends; one transaction is left open."""
    folder = tmp_path_factory.mktemp("cli") / "made"
    return generate("gbase8s", changes=1_000, seed=11, to=folder, files=3, cut_records=True, undo_share=0.3)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 changes with nothing to complain about."""
    folder = tmp_path_factory.mktemp("cli") / "clean"
    return generate("gbase8s", changes=30, seed=5, to=folder, open_transactions=0, all_types=False) / "capture"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with 40 bytes that are no record behind the last one."""
    folder = tmp_path_factory.mktemp("cli") / "damaged"
    generate("gbase8s", changes=30, seed=5, to=folder, open_transactions=0, all_types=False)
    (file,) = (folder / "capture").iterdir()
    file.write_bytes(file.read_bytes() + b"\xee" * 40)
    return folder / "capture"


def truth(folder: Path, table: str) -> list[Row]:
    return pq.read_table(folder / "truth" / f"{table}.parquet", schema=model.TABLES[table]).to_pylist()


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert code != 3, err  # never an error of our own
    return code, out, err


def summary(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Row:
    code, out, err = run(capsys, "summary", *arguments, "--json")
    assert (code, err) == (0, "")
    facts: Row = json.loads(out)
    return facts


def exported(capsys: pytest.CaptureFixture[str], target: Path, *arguments: str | Path) -> list[Row]:
    code, out, err = run(capsys, "export", *arguments, "--to", target)
    assert (code, err) == (0, "")
    assert out.startswith(f"{target}: ")
    return [json.loads(line) for line in target.read_bytes().decode().split("\n")[:-1]]


def counted(rows: list[Row], column: str) -> dict[str, int]:
    return dict(Counter(row[column] for row in rows))


# --- summary ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(made: Path) -> Row:
    """What ``cdcwb summary --json`` says of the large one."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        assert main(["summary", str(made / "capture"), "--json"]) == 0
    told: Row = json.loads(out.buffer.getvalue())  # type: ignore[attr-defined]
    return told


def test_summary_counts_what_the_truth_counts(facts: Row, made: Path) -> None:
    changes, transactions, versions = (truth(made, name) for name in ("changes", "transactions", "table_versions"))
    sizes = [path.stat().st_size for path in sorted((made / "capture").iterdir())]
    assert [file["size"] for file in facts["files"]] == sizes
    assert [file["ledger"] for file in facts["files"]] == ["closes"] * 3
    assert (facts["format"], facts["bytes"], facts["ledger"]) == ("gbase8s", sum(sizes), "closes")
    assert facts["record_bytes"] + facts["filler_bytes"] + facts["malformed_bytes"] == sum(sizes)
    assert facts["changes"] == 1_000
    assert facts["changes_by_operation"] == counted(changes, "operation")
    assert facts["changes_by_outcome"] == counted(changes, "outcome")
    assert facts["transactions"] == len(transactions)
    assert facts["transactions_by_outcome"] == counted(transactions, "outcome")
    assert facts["transactions_by_completeness"] == counted(transactions, "completeness")
    assert facts["open_transactions"] == 1
    assert facts["table_versions"] == len(versions)
    assert {table["table"]: table["changes"] for table in facts["tables"]} == {
        **dict.fromkeys((version["table_name"] for version in versions), 0),
        **counted(changes, "table_name"),
    }
    assert sum(facts["events_by_kind"].values()) == facts["events"] == sum(file["events"] for file in facts["files"])
    assert facts["problems_by_severity"].get("warning") == 1
    assert facts["healthy"] is False


def test_summary_knows_the_spans_and_where_to_start_again(facts: Row, made: Path) -> None:
    transactions = truth(made, "transactions")
    times = [row[name] for row in transactions for name in ("began_at", "ended_at") if row[name]]
    assert facts["first_time"] == f"{min(times):%Y-%m-%dT%H:%M:%S.%fZ}"
    assert facts["last_time"] == f"{max(times):%Y-%m-%dT%H:%M:%S.%fZ}"
    positions = [row[name] for row in transactions for name in ("begin_position", "end_position") if row[name]]
    assert facts["first_position"] == min(positions)
    assert facts["last_position"] >= max(positions)
    assert facts["highest_commit"] == max(row["end_position"] for row in transactions if row["outcome"] == "committed")
    assert facts["restart_position"] == min(row["begin_position"] for row in transactions if row["outcome"] == "open")


def test_a_healthy_capture_is_said_to_be_so(capsys: pytest.CaptureFixture[str], clean: Path) -> None:
    code, out, err = run(capsys, "summary", clean, "--strict")
    assert (code, err) == (0, "")
    transactions = len(truth(clean.parent, "transactions"))
    name, verdict, *lines = out.splitlines()
    assert name == str(clean)
    assert verdict.startswith("Healthy: 2 checks passed: every byte, positions, ")
    assert verdict.endswith(f"; all {transactions} transactions are complete and there are no problems.")
    assert [line for line in lines if line.startswith("changes           30: INSERT ")]


def test_malformed_bytes_are_counted_placed_and_end_strict_with_1(
    capsys: pytest.CaptureFixture[str], damaged: Path
) -> None:
    code, out, err = run(capsys, "summary", damaged, "--json", "--strict")
    facts = json.loads(out)
    assert (code, err) == (1, "")
    assert (facts["malformed_bytes"], facts["ledger"], facts["healthy"]) == (40, "closes", False)
    (problem,) = [problem for problem in facts["problems_by_code"] if problem["severity"] == "error"]
    (file,) = damaged.iterdir()
    (place,) = problem["places"]
    assert (problem["code"], problem["count"]) == ("malformed", 1)
    assert (place["file"], place["offset"], place["length"]) == (str(file), file.stat().st_size - 40, 40)


def test_a_summary_of_a_part_counts_the_part_alone(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    changes = truth(made, "changes")
    facts = summary(capsys, made / "capture", "--table", "101", "--table", "102")
    wanted = [row for row in changes if row["table_name"] in ("101", "102")]
    assert facts["changes"] == len(wanted)
    assert facts["changes_by_operation"] == counted(wanted, "operation")
    assert [table["table"] for table in facts["tables"]] == ["101", "102"]
    assert facts["ledger"] is None
    assert facts["first_time"] is not None


def test_a_condition_on_changes_narrows_the_whole_summary(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    changes = truth(made, "changes")
    facts = summary(capsys, made / "capture", "--where", "operation == 'DELETE'")
    assert facts["changes"] == sum(row["operation"] == "DELETE" for row in changes) > 0
    assert facts["transactions"] == len({row["transaction_id"] for row in changes if row["operation"] == "DELETE"})


# --- export -----------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value of the truth as jsonl is promised to have it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def pairs_as_maps(table: str, row: Row) -> Row:
    """pyarrow gives maps as lists of pairs."""
    maps = {field.name for field in model.TABLES[table] if str(field.type).startswith("map")}
    return {name: plain(dict(value) if name in maps and value is not None else value) for name, value in row.items()}


@pytest.mark.parametrize("view", ["changes", "transactions", "table_versions"])
def test_exported_views_equal_the_truth_row_for_row_in_order(
    capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path, view: str
) -> None:
    rows = exported(capsys, tmp_path / "x.jsonl", made / "capture", "--view", view)
    wanted = [pairs_as_maps(view, row) for row in truth(made, view)]
    if view == "changes":
        wanted.sort(key=lambda row: (row["file_index"], row["offset"]))
    elif view == "transactions":
        wanted.sort(key=lambda row: row["begin_position"])
    else:
        wanted.sort(key=lambda row: (row["first_event"]["file_index"], row["first_event"]["offset"]))
    if view == "changes":
        for row in rows:
            row["file"] = Path(row["file"]).name  # the truth knows no folders
    assert rows == wanted


def test_exported_events_are_the_bytes_of_the_files(
    capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path
) -> None:
    rows = exported(capsys, tmp_path / "x.jsonl", made / "capture", "--view", "events")
    places = [(row["file_index"], row["offset"]) for row in rows]
    assert places == sorted(places)
    whole = b"".join(path.read_bytes() for path in sorted((made / "capture").iterdir()))
    joined = b"".join(bytes.fromhex(row["raw"]) for row in rows if row["kind"] != "fragment")
    assert joined == whole


def test_images_can_be_left_out(capsys: pytest.CaptureFixture[str], clean: Path, tmp_path: Path) -> None:
    rows = exported(capsys, tmp_path / "x.jsonl", clean, "--view", "events", "-o", "images=false")
    assert {row["raw"] for row in rows} == {None}
    assert {row["kind"] for row in rows} >= {"begin", "change", "commit"}


def test_filters_keep_what_they_say(capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path) -> None:
    changes = truth(made, "changes")
    some = changes[500]["transaction_id"]
    rows = exported(capsys, tmp_path / "a.jsonl", made / "capture", "--view", "changes", "--transaction", some)
    assert len(rows) == sum(row["transaction_id"] == some for row in changes) > 0
    assert {row["transaction_id"] for row in rows} == {some}

    given = ("--where", "operation == 'UPDATE' and changed_columns in ('state', 'city')")
    rows = exported(capsys, tmp_path / "b.jsonl", made / "capture", "--view", "changes", *given)
    wanted = [row for row in changes if row["operation"] == "UPDATE" and {"state", "city"} & {*row["changed_columns"]}]
    assert len(rows) == len(wanted) > 0

    ends = sorted(row["ended_at"] for row in truth(made, "transactions") if row["ended_at"])
    first, last = ends[len(ends) // 3], ends[len(ends) // 2]
    assert first < last
    window = ("--from", first.isoformat(), "--until", last.isoformat())
    rows = exported(capsys, tmp_path / "c.jsonl", made / "capture", "--view", "changes", *window)
    inside = {row["transaction_id"] for row in truth(made, "transactions") if _inside(row, first, last)}
    assert {row["transaction_id"] for row in rows} <= inside
    assert len(rows) == sum(row["transaction_id"] in inside for row in changes) > 0


def _inside(row: Row, first: datetime, last: datetime) -> bool:
    time = row["ended_at"] or row["began_at"]
    return bool(first <= time < last)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--where", "operaton == 'UPDATE'"), "no column 'operaton'. Did you mean 'operation'?"),
        (("--where", "operation = 'UPDATE'"), "write == to compare"),
        (("--where", "operation"), "at the end: expected =="),
        (("--where", "position > 5"), "expected a text in quotes"),
        (("--table", "1O1"), "there is no table '1O1'. Did you mean '101'?"),
        (("--transaction", "0"), "there is no transaction '0'."),
        (("-o", "charst=gbk"), "Did you mean 'charset'?"),
        (("--format", "gbase"), "Did you mean 'gbase8s'?"),
    ],
)
def test_a_wrong_condition_or_name_is_one_sentence_and_no_file(
    capsys: pytest.CaptureFixture[str], clean: Path, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "export", clean, "--view", "changes", "--to", tmp_path / "x.jsonl", *given)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("cdcwb: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_a_transaction_s_number_alone_finds_its_ids(
    capsys: pytest.CaptureFixture[str], clean: Path, tmp_path: Path
) -> None:
    whole = next(row["transaction_id"] for row in truth(clean.parent, "transactions"))
    number = whole.partition("@")[0]
    code, _, err = run(
        capsys, "export", clean, "--view", "changes", "--to", tmp_path / "x.csv", "--transaction", number
    )
    assert code == 2
    assert f"there is no transaction '{number}'. Did you mean " in err
    assert whole in err


def test_export_strict_writes_the_file_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], damaged: Path, clean: Path, tmp_path: Path
) -> None:
    for capture, code in ((damaged, 1), (clean, 0)):
        target = tmp_path / f"{code}.jsonl"
        assert run(capsys, "export", capture, "--view", "detected", "--to", target, "--strict")[0] == code
        assert target.exists()


@pytest.mark.parametrize("command", [("summary",), ("export", "--view", "events", "--to", "x.csv")])
def test_failfast_ends_with_the_sentence_of_the_first_fault(
    capsys: pytest.CaptureFixture[str],
    damaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, command[0], damaged, *command[1:], "-o", "mode=FAILFAST")
    (file,) = damaged.iterdir()
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"cdcwb: {file} at offset {file.stat().st_size - 40}: ")
    assert list(tmp_path.iterdir()) == []


# --- save -------------------------------------------------------------------------------------------------------------


def test_a_saved_capture_gives_the_same_summary(
    capsys: pytest.CaptureFixture[str], made: Path, facts: Row, tmp_path: Path
) -> None:
    code, out, err = run(capsys, "save", made / "capture", "--to", tmp_path / "kept")
    assert (code, out, err) == (0, f"{tmp_path}/kept: a saved gbase8s capture of 3 files\n", "")
    assert summary(capsys, tmp_path / "kept") == facts
    code, _, err = run(capsys, "save", made / "capture", "--to", tmp_path / "kept")
    assert code == 2
    assert "not overwritten. Name another folder; --overwrite replaces a saved capture" in err
    code, out, _ = run(capsys, "identify", tmp_path / "kept", "--json")
    assert (code, json.loads(out)["shape"], json.loads(out)["files"]) == (0, "saved", 3)


def test_a_saved_capture_is_replaced_where_that_is_asked_for_and_goes_on_in_its_place(
    capsys: pytest.CaptureFixture[str], made: Path, facts: Row, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    first, *_ = sorted((made / "capture").iterdir())
    assert run(capsys, "save", first, "--to", kept)[0] == 0
    assert run(capsys, "save", kept, made / "capture", "--to", kept, "--overwrite")[0] == 0
    assert summary(capsys, kept) == facts
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


# --- standard output ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_standard_output_has_the_data_and_nothing_else(
    capfdbinary: pytest.CaptureFixture[bytes], clean: Path, tmp_path: Path, kind: str
) -> None:
    assert main(["export", str(clean), "--view", "changes", "--to", str(tmp_path / f"x.{kind}")]) == 0
    capfdbinary.readouterr()
    assert main(["export", str(clean), "--view", "changes", "--to", "-", "--as", kind]) == 0
    assert capfdbinary.readouterr() == ((tmp_path / f"x.{kind}").read_bytes(), b"")


def test_a_reader_of_standard_output_may_have_seen_enough(clean: Path) -> None:
    (file,) = clean.iterdir()
    command = f"'{sys.executable}' -m cdcwb.cli export '{file}' --view events --to - | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["file"] == str(file)
    assert (done.returncode, done.stderr) == (0, "")
