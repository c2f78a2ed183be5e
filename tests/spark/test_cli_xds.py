"""``cdcwb xds`` over an event log and over other captures: documents, decisions, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.cli import main
from cdcwb.xds import parse_documents, validate
from cdcwb_synth import generate

pytestmark = pytest.mark.usefixtures("spark")

HEAD = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value"
ROWS = """
1,idu=1,N,1,2026-03-01 10:00:00,,usr,fname,,Jack
2,idu=1,N,1,2026-03-01 10:00:00,,usr,photo,,qqo=
3,idu=1,N,2,2026-03-01 10:00:01,,usr,fname,Jack,John
4,idu=2,N,2,2026-03-01 10:00:02,,usr,lname,,Do <&> e
5,idu=1,N,8,2026-03-01 10:00:03,,usr,fname,,
6,idu=3,N,4,2026-03-01 10:00:04,idm,usr,,,
7,idu=3,N,4,2026-03-01 11:00:00,ann,usr,,,
8,idu=<,N,4,2026-03-01 11:00:00,ann,usr,,,
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + ROWS.replace(",,", ",NULL,").replace(",,", ",NULL,"))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["xds", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert code != 3, err  # never an error of our own
    return code, out, err


def decided(path: Path) -> dict[int | None, dict[str, Any]]:
    return {row["record_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_all_documents_go_into_one_file_in_order(capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path) -> None:
    to, lines = tmp_path / "out.xml", tmp_path / "decisions.jsonl"
    options = ("-o", "schema=indirect", "-o", "types=photo:octet", "-o", "null_text=NULL")
    code, out, err = run(capsys, log, "--to", to, "--decisions", lines, "--driver-user", "idm", *options)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{to}: 3 documents with 3 events",
        "decisions: published 4, invalid 1, needs_snapshot 1, overridden 1, skipped 1",
    ]
    written = to.read_bytes()
    assert validate(written) == []
    events = parse_documents(written).events.to_pylist()
    assert [event["document"] for event in events] == [1, 2, 3]
    assert [event["verb"] for event in events] == ["add", "modify", "delete"]
    assert events[0]["association"] == "idu=1,table=usr,schema=indirect"
    assert [attr["type"] for attr in events[0]["attrs"]] == ["string", "octet"]
    assert events[1]["attrs"][0]["add"] == "Do <&> e"

    rows = decided(lines)
    assert list(rows) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [row["document"] for row in rows.values()] == [1, 1, None, 2, None, None, 3, None]
    assert {"decision", "reason", "document", "overridden_by"} <= rows[6].keys()
    assert (rows[3]["decision"], rows[3]["overridden_by"]) == ("overridden", 5)
    assert (rows[6]["decision"], rows[8]["decision"]) == ("skipped", "invalid")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decisions.jsonl", "log.csv", "out.xml"]


def test_a_folder_gets_a_file_for_each_document(capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path) -> None:
    (tmp_path / "usr.csv").write_text("idu,fname,lname\n1,Johnny,Frost\n2,Jane,Doe\n")
    to, whole = tmp_path / "documents", tmp_path / "whole.xds"
    given = (log, "-o", "null_text=NULL", "--snapshot", f"usr={tmp_path / 'usr.csv'}", "--batch-size", "2")
    code, out, _ = run(capsys, *given, "--to", to)
    assert code == 0
    assert out.startswith(f"{to}: 2 documents with 4 events\n")
    files = sorted(to.iterdir())
    assert [path.name for path in files] == [f"document-00000{number}.xml" for number in (1, 2)]
    assert run(capsys, *given, "--to", whole)[0] == 0
    assert b"".join(path.read_bytes() for path in files) == whole.read_bytes()
    assert b"Johnny" in whole.read_bytes()
    assert run(capsys, *given, "--to", to)[2] == (
        f"cdcwb: '{to}' already exists; not overwritten. Name another folder; "
        "--overwrite replaces a folder of XDS documents\n"
    )
    (to / "document-000009.xml").touch()
    assert run(capsys, *given, "--to", to, "--overwrite")[0] == 0
    assert sorted(to.iterdir()) == files


def test_the_tables_beside_the_log_are_used_unless_others_or_none_are_asked_for(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    beside = log.with_name(f"{log.name}.snapshot")
    beside.mkdir()
    (beside / "usr.csv").write_text("idu,fname,lname\n1,Johnny,Frost\n2,Jane,Doe\n")
    made = {name: tmp_path / f"{name}.xml" for name in ("beside", "named", "none")}
    more = {"beside": (), "named": ("--snapshot", f"usr={beside / 'usr.csv'}"), "none": ("--no-snapshot",)}
    told = {}
    for name, to in made.items():
        code, told[name], _ = run(capsys, log, "-o", "null_text=NULL", "--to", to, *more[name])
        assert code == 0
    assert made["beside"].read_bytes() == made["named"].read_bytes()
    assert b"Johnny" in made["beside"].read_bytes()
    assert b"Johnny" not in made["none"].read_bytes()
    assert told["beside"].splitlines()[-1] == f"snapshot: 1 table of {beside}"
    assert "snapshot: " not in told["named"] + told["none"]


def test_rows_wait_for_their_time(capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path) -> None:
    to, lines = tmp_path / "out.xml", tmp_path / "decisions.jsonl"
    timed = ("-o", "future_events=true", "--as-of", "2026-03-01T10:30:00", "-o", "allow_loopback=true")
    assert run(capsys, log, "-o", "null_text=NULL", "--to", to, "--decisions", lines, *timed)[0] == 0
    rows = decided(lines)
    assert rows[7]["decision"] == "waiting"
    assert "2026-03-01T11:00:00Z" in rows[7]["reason"]


def test_a_saved_log_is_published_as_its_files_are(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    cdcwb.load(log, null_text="NULL").save(tmp_path / "saved")
    one, other = tmp_path / "one.xml", tmp_path / "other.xml"
    assert run(capsys, log, "-o", "null_text=NULL", "--to", one, "-o", "schema=x")[0] == 0
    assert run(capsys, tmp_path / "saved", "--to", other, "-o", "schema=x")[0] == 0
    assert one.read_bytes() == other.read_bytes()


def test_an_unknown_option_names_the_nearest_of_reader_and_publishing(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    for wrong, meant in (("null_txt=x", "null_text"), ("allow_lopback=true", "allow_loopback")):
        code, _, err = run(capsys, log, "--to", tmp_path / "out.xml", "-o", wrong)
        assert code == 2
        assert f"Did you mean '{meant}'?" in err
    code, _, err = run(capsys, log, "--to", tmp_path / "out.xml", "--batch-size", "2", "-o", "batch_size=2")
    assert (code, "is given twice" in err) == (2, True)
    assert not (tmp_path / "out.xml").exists()


def test_documents_are_not_made_without_values(capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path) -> None:
    code, _, err = run(capsys, log, "--to", tmp_path / "out.xml", "-o", "images=false")
    assert (code, "leave images=false out" in err) == (2, True)


def test_the_log_itself_is_not_written_over(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    same = log.with_name("log.xml")
    same.symlink_to(log)
    before = log.read_bytes()
    code, _, err = run(capsys, log, "--to", same)
    assert (code, "belongs to the capture" in err) == (2, True)
    assert log.read_bytes() == before


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gbase8s capture with changes that were taken back."""
    folder = tmp_path_factory.mktemp("xds") / "made"
    return generate("gbase8s", changes=200, seed=3, to=folder, undo_share=0.3, all_types=False)


def test_changes_of_other_captures_are_documents_too(
    capsys: pytest.CaptureFixture[str], other: Path, tmp_path: Path
) -> None:
    capture = cdcwb.load(other / "capture")
    tables = {
        f"{row.schema_name}.{row.table_name}" if row.schema_name else row.table_name: row.columns[0]["name"]
        for row in capture.table_versions.collect()
    }
    keys = ",".join(f"{table}:{column}" for table, column in tables.items())
    to, lines = tmp_path / "out.xml", tmp_path / "decisions.jsonl"
    given = (other / "capture", "--to", to, "--decisions", lines, "-o", f"keys={keys}", "--batch-size", "7")
    code, out, err = run(capsys, *given)
    assert (code, err) == (0, "")
    assert "left out: " in out
    events = parse_documents(to.read_bytes()).events.to_pylist()
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    published = [row for row in rows if row["decision"] == "published"]
    committed = [row for row in capture.changes.collect() if row.outcome == "committed"]
    assert len(published) == len(events) > 100
    there = {(row["file_index"], row["offset"]): row for row in rows}
    for row in committed:  # what is known to have changed
        if row.operation in ("INSERT", "DELETE") or (row.operation == "UPDATE" and row.changed_columns):
            assert there[row.file_index, row.offset]["decision"] == "published"
    assert len(rows) == capture.changes.count()
    order = sorted((row.commit_position, row.position) for row in committed)
    at = {row["event"]: row["position"] for row in published}
    assert [at[number] for number in sorted(at)] == [place for _, place in order if place in at.values()]
    assert validate(to.read_bytes()) == []


def test_where_no_change_has_a_key_nothing_is_written_and_the_exit_code_is_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    change = {"table": "SHOP.ORDERS", "op_type": "I", "op_ts": "2026-02-03 08:00:00.000000"}
    change |= {"current_ts": "2026-02-03T08:00:01.000000", "pos": "00000000010000001234", "after": {"ID": 1}}
    log, to, lines = tmp_path / "changes.json", tmp_path / "out.xml", tmp_path / "decisions.jsonl"
    log.write_text(f"{json.dumps(change)}\n{json.dumps(change | {'pos': '00000000010000002345'})}\n")
    code, out, err = run(capsys, log, "--to", to, "--decisions", lines)
    assert (code, out) == (2, "")
    first, *rest = err.splitlines()
    assert first.startswith(
        "cdcwb: nothing was written: none of 2 changes has a key; give the key columns, keys=SHOP.ORDERS:"
    )
    assert first.endswith(", or --infer-keys")
    assert rest[0].startswith("  left out: 2, because no key is known of SHOP.ORDERS")
    assert [path.name for path in tmp_path.iterdir()] == ["changes.json"]


def test_keys_are_inferred_only_if_they_are_asked_for_and_the_output_says_which(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data, to, named = Path(__file__).parents[2] / "data" / "gbase8s", tmp_path / "out.xml", tmp_path / "named.xml"
    code, _, err = run(capsys, data, "--to", to)
    assert (code, "or --infer-keys" in err, to.exists()) == (2, True, False)
    code, out, _ = run(capsys, data, "--to", to, "--infer-keys")
    assert code == 0
    keys = re.findall(r"^No change of \S+ has a key\. Its key is inferred: .* option keys=(\S+)\.$", out, re.MULTILINE)
    assert "shop.orders:order_id" in keys
    assert run(capsys, data, "--to", named, "-o", f"keys={','.join(keys)}")[0] == 0
    assert to.read_bytes() == named.read_bytes()


def test_what_only_a_publisher_knows_is_refused_elsewhere(
    capsys: pytest.CaptureFixture[str], other: Path, tmp_path: Path
) -> None:
    for given in (("--driver-user", "idm"), ("-o", "future_events=true"), ("--snapshot", "usr=usr.csv")):
        code, _, err = run(capsys, other / "capture", "--to", tmp_path / "out.xml", *given)
        assert (code, "is for event logs" in err) == (2, True)
