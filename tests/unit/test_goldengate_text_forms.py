"""Logdump text as people have it: copied from pages and mails, with notes, logged twice, cut anywhere, damaged."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cdcwb.formats import get_format, identify
from cdcwb.formats.dissector import EVERYTHING
from cdcwb_synth import generate
from tests.goldengate_text import RULE
from tests.local import ledger, plan_of, read
from tests.unit.test_goldengate_reader import OPEN, codes, events, record, rows_of

INSERT = record(2000, 3, xid="8.21.4410", body="0000 0600 0000 0000 002a 0100 0a00 0000 0600 7175 6172 747a")
DELETE = record(2204, 3, io=3, operation="Delete", image="Before", body="0000 0600 0000 0000 002a")
SESSION = f"Logdump 12 >n 2\n{INSERT}{DELETE}Logdump 13 >\n"
SAME = ("record_type", "kind", "operation", "position", "transaction_id", "last_in_transaction", "table_name", "key",
        "before", "after", "problems")  # fmt: skip


def changes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in SAME} for row in rows if row["kind"] != "filler"]


def wide(text: str) -> str:
    """Every run of blanks as U+00A0 but the last one."""
    while "  " in text:
        text = text.replace("  ", "\u00a0 ")
    return text


FORMS = {
    "U+00A0": wide(SESSION),
    "U+00A0 for every blank": SESSION.replace(" ", "\u00a0"),
    "U+00A0 at line ends": SESSION.replace("\n", "\u00a0\n"),
    "tabs": SESSION.replace("    ", "\t"),
    "quoted": "".join(f"> {line}\n" for line in SESSION.splitlines()),
    "quoted without blanks": "".join(f">{line}\n" for line in SESSION.splitlines()),
    "byte order mark": f"\ufeff{SESSION}",
    "quoted twice": "".join(f"> > {line}\n" for line in SESSION.splitlines()),
    "several blanks in times": SESSION.replace("2024/01/05 ", "2024/01/05   "),
    "CR LF": SESSION.replace("\n", "\r\n"),
    "CR": SESSION.replace("\n", "\r"),
    "prompts glued to rules": SESSION.replace("n 2\n", "").replace(DELETE, f"Logdump 13 >{DELETE}"),
    "indented": SESSION.replace("\n", "\n        "),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_in_another_form_has_the_same_changes(tmp_path: Path, form: str) -> None:
    expected = changes(events(tmp_path / "usual", SESSION))
    assert [(row["before"], row["after"], row["problems"]) for row in expected] == [
        (None, {"c0": "42", "c1": "quartz"}, None),
        ({"c0": "42"}, None, None),
    ]
    rows = events(tmp_path / "other", FORMS[form])
    assert changes(rows) == expected
    assert not any(row["problems"] for row in rows)
    assert identify(tmp_path / "other" / "capture" / "log0.txt").format == "goldengate"


@pytest.mark.samples
def test_texts_of_books_and_mails_are_read(samples: Path) -> None:
    folder = samples / "reduced" / "trail"
    found = [rows_of(read(path, format="goldengate")) for path in sorted(folder.glob("logdump-*.log"))]
    assert len(found) >= 4
    for rows in found:
        assert [(row["operation"], row["before"], row["after"]) for row in rows if row["kind"] == "change"] == [
            ("INSERT", None, {"c0": "42", "c1": "quartz"}),
            ("DELETE", {"c0": "42"}, None),
        ]
        assert [row["last_in_transaction"] for row in rows if row["kind"] == "change"] == [True, True]
        assert not any(row["problems"] for row in rows)


def test_text_that_is_not_a_record_is_a_note(tmp_path: Path) -> None:
    session = "Logdump 13 >pos 2204\nReading forward from RBA 2204\n"
    text = f"Dear all,\n\n{INSERT}here the price was changed\n\n{RULE}\n{session}{DELETE}"
    rows = events(tmp_path, text + "Regards\n")
    assert [row["kind"] for row in rows] == ["filler", "change", "filler", "change", "filler"]
    notes = ["Dear all,", "here the price was changed", "Regards"]
    told = [row["problems"] for row in rows if row["kind"] == "filler"]
    assert told == [[{"code": "note", "detail": f"text that is not a record: {note!r}"}] for note in notes]


def test_blank_lines_rules_prompts_and_notes_of_logdump_are_no_problem(tmp_path: Path) -> None:
    banner = (
        "\nOracle GoldenGate Log File Dump Utility for Oracle\nVersion 19.1 OGGCORE\n\nCopyright (C) 1995, 2019\n\n"
    )
    rows = events(tmp_path, f"{banner}{OPEN}Logdump 5 >n\n{INSERT}\n{RULE}\n\nLogdump 6 >n\n{DELETE}Logdump 7 >\n")
    assert not any(row["problems"] for row in rows)
    assert {row["headers"]["reason"] for row in rows if row["kind"] == "filler"} == {"lines that belong to no record"}


def test_a_record_whose_rba_has_too_many_digits_has_no_position(tmp_path: Path) -> None:
    rows = events(tmp_path, OPEN + record(9_999_999_999, 3) + record(12_345_678_901, 3) + record(10**17, 3))
    rows = [row for row in rows if row["kind"] == "change"]
    assert [row["position"] for row in rows] == ["00000000039999999999", None, None]
    assert [codes(row) for row in rows] == [[], ["header_value"], ["header_value"]]
    assert "RBA 12345678901 has more than ten digits" in rows[1]["problems"][0]["detail"]
    assert len({row["transaction_id"] for row in rows}) == 3


def test_all_digits_of_a_long_rba_are_in_the_problem(tmp_path: Path) -> None:
    digits = "12345678901234567890123"
    rows = events(tmp_path, OPEN + record(2000, 3).replace("RBA 2000", f"RBA {digits}"))
    assert [row["position"] for row in rows] == [None, None]
    assert f"RBA {digits} has more than ten digits" in rows[1]["problems"][0]["detail"]


def test_a_trail_file_that_is_missing_in_a_transaction_is_a_gap(tmp_path: Path) -> None:
    files = [f"Current LogTrail is ./dirdat/aa00000000{number}\n" for number in (3, 4, 6)]
    texts = [head + record(1000, place) for head, place in zip(files, (0, 1, 2), strict=True)]
    changed = [row for row in events(tmp_path, *texts) if row["kind"] == "change"]
    assert [codes(row) for row in changed] == [[], [], ["gap"]]
    assert "aa000000004 and ./dirdat/aa000000006" in changed[2]["problems"][0]["detail"]


@pytest.mark.parametrize("split_size", [700, 1 << 20])
def test_a_transaction_goes_on_over_the_end_of_a_file(tmp_path: Path, split_size: int) -> None:
    more: dict[str, Any] = {"io": 15, "operation": "FieldComp"}
    parts = [
        record(100, 3) + record(200, 0) + record(300, 1, image="Before", **more),
        record(400, 1, **more) + record(500, 1, continued=1, count=2, body="0000 0600 0000 0000 0001 0100 0a00"),
        record(600, 2, io=161, operation="RecordFragment", body="0000 0600 6162 6364 6566", xid="7") + record(700, 3),
    ]
    rows = list(events(tmp_path, *(OPEN + part for part in parts), split_size=split_size))
    rows = [row for row in rows if row["kind"] != "filler"]
    assert [row["kind"] for row in rows] == ["change"] * 2 + ["before", "after", "change", "fragment", "change"]
    assert {row["transaction_id"] for row in rows[1:-1]} == {"7"}
    assert rows[4]["after"] == {"c0": "1", "c1": "abcdef"}
    assert not any(row["problems"] for row in rows)
    alone = list(events(tmp_path, OPEN + "".join(parts), "", "", split_size=split_size))
    assert changes(alone) == changes(rows)


def test_a_trail_that_was_logged_twice_has_its_changes_once(tmp_path: Path) -> None:
    more: dict[str, Any] = {"io": 15, "operation": "FieldComp"}
    session = record(100, 0, xid="1") + record(200, 1, image="Before", **more) + record(200, 1, **more)
    session += record(300, 2) + record(400, 3, xid="2")
    once = changes(events(tmp_path / "once", OPEN + session))
    for texts in ([OPEN + session, OPEN + session], [OPEN + session + OPEN + session]):
        rows = events(tmp_path / str(len(texts)), *texts)
        assert changes(rows) == once
        again = [row for row in rows if row["record_type"] is not None and row["kind"] == "filler"]
        assert [codes(row) for row in again] == [["repeated"]] * 5


def test_a_text_without_headers_is_one_task_at_any_split_size(tmp_path: Path) -> None:
    bare = "".join(record(100 * at, 1, header=False).replace("   G  m", "") for at in range(1, 40))
    rows = events(tmp_path, OPEN + bare, split_size=1500)
    form, plan = get_format("goldengate"), plan_of(tmp_path / "capture", format="goldengate", split_size=1500)
    sizes = [sum(len(batch) for batch in form.read(plan, split, EVERYTHING)) for split in range(len(plan.splits))]
    assert [size for size in sizes if size] == [len(rows)]
    assert rows == events(tmp_path, OPEN + bare)
    assert sum(row["kind"] == "change" for row in rows) == 39


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    to = tmp_path_factory.mktemp("whole")
    options: dict[str, Any] = {
        "updates": "pairs",
        "lobs": True,
        "undo": 0.3,
        "restarts": 2,
        "abends": 2,
        "prompts": 0.2,
    }
    (path,) = (generate("goldengate", changes=60, seed=4, to=to, **options) / "capture").iterdir()
    return path.read_bytes().split(b"\n")


def mutated(lines: list[bytes], seed: int) -> bytes:
    """The lines with some of them dropped, doubled and cut."""
    chance = Random(seed)
    lines = list(lines)
    for _ in range(chance.randint(2, 12)):
        at, size = chance.randrange(len(lines)), chance.choice((1, 3, 20, 120))
        match chance.choice(("drop", "double", "cut", "again")):
            case "drop":
                del lines[at : at + size]
            case "double":
                lines[at:at] = lines[at : at + size]
            case "cut":
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case "again":
                lines += lines[at : at + size]
    return b"\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_tables_of_a_damaged_text_are_equal_at_any_size_of_splits(
    lines: list[bytes], tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "damaged.txt"
    path.write_bytes(mutated(lines, seed))
    form = get_format("goldengate")
    expected = read(path, format="goldengate")
    assert ledger(expected) == {str(path): path.stat().st_size}
    plan = plan_of(path, format="goldengate")
    for split_size in (9000, 40_000):
        assert read(path, format="goldengate", split_size=split_size).equals(expected), split_size
        other = plan_of(path, format="goldengate", split_size=split_size)
        assert form.table_versions(other).equals(form.table_versions(plan))
        assert other.facts | {"splits": 0} == plan.facts | {"splits": 0}
