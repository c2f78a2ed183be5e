"""Changes and transactions of formats that hand over committed work only: halves by position, gaps, frozen clocks."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.capture import Capture
from cdcwb.formats.bitmask import disagreement

pytestmark = [pytest.mark.oldest, pytest.mark.usefixtures("spark")]

HEADER = "header__change_seq,header__change_oper,header__change_mask,header__transaction_id,header__timestamp,id,name\n"


def seq(number: int, moment: str = "2026020304050678") -> str:
    return f"{moment}{number:019}"


def row(number: int, letter: str, mask: str, key: int, name: str, moment: str = "2026020304050678") -> str:
    return f"{seq(number, moment)},{letter},{mask},{'0' * 31}7,2026-02-03 04:05:06.1,{key},{name}\n"


def table(folder: Path, files: dict[str, str], name: str = "hr.emp__ct") -> Capture:
    (folder / name).mkdir()
    for file, rows in files.items():
        (folder / name / file).write_text(HEADER + rows, encoding="utf-8")
    return cdcwb.load(folder, format="qlik-change-table")


def changes(capture: Capture) -> list[Any]:
    return sorted(capture.changes.collect(), key=lambda change: (change.file_index, change.offset))


def codes(capture: Capture) -> list[str]:
    return sorted(problem.code for problem in capture.problems.collect())


# Columns: 5 header columns take the bits 0 to 4, id is bit 5 (20), name is bit 6 (40).


def test_the_row_before_and_the_row_after_are_one_change(tmp_path: Path) -> None:
    rows = row(1, "I", "60", 1, "a") + row(2, "B", "", 1, "a") + row(2, "U", "40", 1, "b") + row(3, "D", "20", 1, "b")
    capture = table(tmp_path, {"1.csv": rows})
    insert, update, delete = changes(capture)
    assert [one.operation for one in (insert, update, delete)] == ["INSERT", "UPDATE", "DELETE"]
    assert (update.before, update.after) == ({"id": "1", "name": "a"}, {"id": "1", "name": "b"})
    assert (update.changed_columns, update.change_source, update.kind) == (["name"], "mask", "change")
    assert [event.offset for event in update.source_events] == [
        len(HEADER) + len(row(1, "I", "60", 1, "a")),
        update.offset,
    ]
    assert (delete.before, delete.after) == ({"id": "1", "name": "b"}, None)
    assert {one.outcome for one in (insert, update, delete)} == {"committed"}
    assert update.committed_at.isoformat() == "2026-02-03T04:05:06.780000"
    (transaction,) = capture.transactions.collect()
    assert (transaction.completeness, transaction.changes) == ("unknown", {"INSERT": 1, "UPDATE": 1, "DELETE": 1})
    assert (transaction.begin_position, transaction.end_position) == (seq(1), seq(3))
    assert codes(capture) == []


def test_an_update_without_its_before_image_stays_and_a_before_image_alone_is_a_problem(tmp_path: Path) -> None:
    capture = table(tmp_path, {"1.csv": row(1, "U", "40", 1, "b") + row(2, "B", "", 2, "x")})
    update, lonely = changes(capture)
    assert (update.kind, update.before, update.after) == ("change", None, {"id": "1", "name": "b"})
    assert update.changed_columns == ["name"]
    assert (lonely.kind, lonely.before) == ("before", {"id": "2", "name": "x"})
    assert codes(capture) == ["update_half"]
    (problem,) = capture.problems.collect()
    assert (problem.sentence, problem.offset) == ("the after half is missing", lonely.offset)


def test_a_change_sequence_that_repeats_joins_one_to_one(tmp_path: Path) -> None:
    first = row(5, "B", "", 1, "a") + row(5, "U", "40", 1, "b")
    second = row(5, "B", "", 2, "p") + row(5, "U", "40", 2, "q")
    capture = table(tmp_path, {"1.csv": first, "2.csv": second})
    assert [(one.before["name"], one.after["name"]) for one in changes(capture)] == [("a", "b"), ("p", "q")]
    assert [[event.file_index for event in one.source_events] for one in changes(capture)] == [[0, 0], [1, 1]]


def test_halves_of_different_tables_and_folders_do_not_meet(tmp_path: Path) -> None:
    table(tmp_path, {"1.csv": row(5, "B", "", 1, "a")})
    capture = table(tmp_path, {"1.csv": row(5, "U", "40", 1, "b")}, "hr.other__ct")
    assert sorted(one.kind for one in changes(capture)) == ["before", "change"]


def test_images_that_contradict_the_mask_are_a_problem_of_the_change(tmp_path: Path) -> None:
    rows = row(1, "I", "60", 1, "a") + row(2, "B", "", 1, "a") + row(2, "U", "20", 1, "b")
    capture = table(tmp_path, {"1.csv": rows})
    update = changes(capture)[1]
    assert [problem.code for problem in update.problems] == ["mask_images"]
    assert update.changed_columns == ["id"], "the mask is what the source said"
    (problem,) = capture.problems.collect()
    assert problem.sentence == disagreement(["id"], ["name"])
    assert problem.offset == update.offset


def test_a_change_whose_mask_contradicts_many_columns_names_some_and_counts_the_others(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(9)]
    lines = [",".join(("header__change_seq", "header__change_oper", "header__change_mask", *names))]
    lines += [f"{seq(1)},B,,{','.join('x' * 9)}", f"{seq(1)},U,0008,{','.join('x' + 'y' * 8)}"]
    where = tmp_path / "hr.wide__ct"
    where.mkdir()
    (where / "1.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (update,) = changes(cdcwb.load(tmp_path, format="qlik-change-table", mask_order="big"))
    assert update.changed_columns == ["c0"]
    assert [one.detail for one in update.problems] == [disagreement(["c0"], names[1:])]


def test_a_full_load_is_part_of_no_transaction(tmp_path: Path) -> None:
    (tmp_path / "hr.emp").mkdir()
    (tmp_path / "hr.emp" / "LOAD00000001.csv").write_text("id,name\n1,a\n2,b\n", encoding="utf-8")
    capture = table(tmp_path, {"1.csv": row(1, "I", "60", 3, "c")})
    loaded = [one for one in changes(capture) if one.operation == "REFRESH"]
    assert [(one.after["name"], one.outcome, one.transaction_id) for one in loaded] == [
        ("a", None, None),
        ("b", None, None),
    ]
    assert capture.transactions.count() == 1


def message(number: int, transaction: int, counter: int, last: bool, at: str, moment: str = "2026020304050678") -> str:
    headers = {
        "operation": "INSERT", "changeSequence": seq(number, moment), "timestamp": at, "streamPosition": "",
        "transactionId": f"{transaction:032X}", "changeMask": "03", "columnMask": "03",
        "transactionEventCounter": counter, "transactionLastEvent": last,
    }  # fmt: skip
    return json.dumps({"data": {"id": number, "name": "x"}, "beforeData": None, "headers": headers}) + "\n"


def messages(folder: Path, *lines: str) -> Capture:
    (folder / "topic.jsonl").write_text("".join(lines), encoding="utf-8")
    return cdcwb.load(folder / "topic.jsonl", format="qlik-kafka")


def test_what_is_missing_in_a_transaction_is_told(tmp_path: Path) -> None:
    at = "2026-02-03T04:05:06.123"
    capture = messages(
        tmp_path,
        message(1, 1, 1, False, at), message(2, 1, 2, True, at),  # whole
        message(4, 2, 4, True, at), message(3, 2, 1, False, at),  # out of order, and 2 and 3 are missing
        message(6, 3, 2, True, at),  # the first is missing
        message(7, 4, 1, False, at), message(7, 4, 1, False, at),  # sent twice; the last is missing
        message(8, 5, 1, False, at), message(9, 5, 3, True, at),  # one is missing
    )  # fmt: skip
    found = {int(row.transaction_id, 16): row for row in capture.transactions.collect()}
    assert [found[number].completeness for number in range(1, 6)] == ["complete", "gaps", "no_begin", "no_end", "gaps"]
    assert [found[number].end_position for number in (1, 2, 3, 4)] == [seq(2), seq(4), seq(6), None]
    assert found[1].began_at.isoformat() == "2026-02-03T04:05:06.123000"
    assert found[1].ended_at.isoformat() == "2026-02-03T04:05:06.780000"
    sentences = {int(row.transaction_id, 16): (row.code, row.sentence) for row in capture.problems.collect()}
    assert sentences == {
        2: ("gap", "2 of its events 1 to 4 are missing"),
        3: ("no_begin", "the first event that is there has number 2"),
        4: ("open_transaction", "the last event is missing; the highest number is 1"),
        5: ("gap", "1 of its events 1 to 3 is missing"),
    }
    by_position = {one.position: one for one in capture.changes.collect()}
    assert by_position[seq(1)].commit_position == seq(2)
    assert by_position[seq(7)].commit_position is None
    assert by_position[seq(7)].outcome == "committed"


def test_a_clock_that_was_moved_back_is_reported(tmp_path: Path) -> None:
    lines = [message(n, n, 1, True, f"2026-02-03T04:05:{n + 6:02}.000") for n in range(1, 6)]
    lines += [message(9, 9, 1, True, "2026-02-03T04:05:20.000", "2026020304052000")]
    capture = messages(tmp_path, *lines)
    (problem,) = capture.problems.collect()
    assert problem.code == "clock"
    assert problem.sentence == (
        "5 events of 5 transactions, whose own times span 4.0 s, have one change sequence time: "
        f"{seq(1)} to {seq(5)}; the server's clock was moved back"
    )


def test_transactions_of_one_moment_are_no_frozen_clock(tmp_path: Path) -> None:
    lines = [message(n, n, 1, True, f"2026-02-03T04:05:06.{n:03}") for n in range(1, 20)]
    assert codes(messages(tmp_path, *lines)) == []


def test_long_transactions_that_happen_to_commit_together_are_no_frozen_clock(tmp_path: Path) -> None:
    lines = [message(n, n, 1, True, f"2026-02-03T04:05:{second:02}.000") for n, second in ((1, 4), (2, 1), (3, 6))]
    assert codes(messages(tmp_path, *lines)) == []


def test_changed_columns_come_from_the_images_where_no_mask_says_it(tmp_path: Path) -> None:
    headers = {"operation": "UPDATE", "changeSequence": seq(1), "changeMask": None, "columnMask": None}
    document = {"data": {"id": 1, "name": "b"}, "beforeData": {"id": 1, "name": "a"}, "headers": headers}
    capture = messages(tmp_path, json.dumps(document) + "\n")
    (change,) = capture.changes.collect()
    assert (change.changed_columns, change.change_source) == (["name"], "images")
    assert capture.events.first().changed_columns is None


@pytest.mark.samples
def test_the_masks_of_a_wide_table_agree_with_its_images_although_halves_are_apart(samples: Path) -> None:
    path = samples / "qlik" / "change-table-wide-item__ct-masks-values-replaced.csv"
    capture = cdcwb.load(path, format="qlik-change-table")
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    names = [name for name in head if not name.startswith("header__")]
    first = len(head) - len(names)
    assert (len(rows), len(head), first, sum(bool(row[2]) for row in rows)) == (1000, 354, 7, 512)
    by_mask = {
        row[0]: [name for at, name in enumerate(names, first) if int(row[2], 16) >> at & 1]
        for row in rows
        if row[1] == "U"
    }
    assert len(by_mask) == 499
    found = capture.changes.drop("raw").collect()
    updates = [one for one in found if one.operation == "UPDATE" and one.after is not None]
    assert {one.position: one.changed_columns for one in updates} == by_mask
    assert {one.change_source for one in updates} == {"mask"}
    both = [one for one in updates if one.before is not None]
    lonely = [one for one in found if one.kind == "before"]
    assert (len(updates), len(both), len(lonely), len(found)) == (499, 390, 98, 610)
    assert all(abs(a.offset - b.offset) > max(a.length, b.length) for a, b in (one.source_events for one in both))
    for one in both:
        assert one.changed_columns == [name for name in names if one.before[name] != one.after[name]]
    counts = Counter(name for one in updates for name in one.changed_columns)
    assert (counts.total(), len(counts)) == (1371, 66)
    assert counts.most_common(3) == [("col_347", 218), ("col_345", 151), ("col_005", 147)]
    assert capture.problems.filter("code in ('mask', 'mask_images')").count() == 0
