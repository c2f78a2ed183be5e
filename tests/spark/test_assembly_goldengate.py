"""Changes and transactions of trail records: what TransInd tells, cut and aborted transactions, undone changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.capture import Capture
from tests.goldengate_text import RULE

pytestmark = pytest.mark.usefixtures("spark")

TYPES = {"Insert": (5, "A"), "Delete": (3, "B"), "FieldComp": (15, "A"), "LargeObject": (116, "A")}
TYPES |= {"RestartAbend": (150, "A"), "RestartOK": (151, "A"), "GGSPKUpdate": (115, "A"), "Update": (10, "A")}


def record(
    rba: int, operation: str, trans: int, key: int = 1, xid: str = "", image: str = "", undo: int = 0,
    text: str | None = "", old_key: int = 1,
) -> str:  # fmt: skip
    """A record of shop.orders with the columns c0 (a number) and c1 (a text; None: NULL)."""
    number, half = TYPES[operation]
    half, size = image or half, len(text or "")
    columns = f"000000060000{key:08x}"
    if operation == "GGSPKUpdate":
        columns = f"000a000000060000{old_key:08x}{columns}"
    if text is None:
        columns += "00010002ffff"
    elif text:
        columns += f"0001{size + 4:04x}0000{size:04x}{text.encode().hex()}"
    digits = columns if number < 116 else (text or "").encode().hex()
    lines = [_grouped(digits[at : at + 40]) for at in range(0, len(digits), 40)]
    side = {"A": "After ", "B": "Before"}[half]
    name = "shop.orders" if number < 150 else ""
    body = len(digits) // 2 if name else 0
    token = f"\nGGS tokens:\nTokenID x36 '6' TRANID           Info x00  Length {len(xid):4}\n"
    token += f"{_grouped(xid.encode().hex())}\n"
    return (
        f"{RULE}\n"
        f"Hdr-Ind    :     E  (x45)     Partition  :     .  (x04)\n"
        f"UndoFlag   :     .  (x{undo:02x})     BeforeAfter:     {half}  (x{ord(half):02x})\n"
        f"RecLength  : {body:5}  (x{body:04x})   IO Time    : 2026/03/04 05:06:{rba // 100:02}.000.000\n"
        f"IOType     : {number:5}  (x{number:02x})     OrigNode   :   255  (xff)\n"
        f"TransInd   :     .  (x{trans:02x})     FormatType :     R  (x52)\n"
        f"SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)\n"
        f"AuditRBA   :          1       AuditPos   : {rba}\n"
        f"Continued  :     N  (x00)     RecCount   :     1  (x01)\n\n"
        f"2026/03/04 05:06:{rba // 100:02}.000.000 {operation:<20} Len {body:5} RBA {rba}\n"
        f"Name: {name}\n"
        f"{side} Image:                                             Partition 4   G  {'bmes'[trans]}\n"
        + "".join(f"{line}\n" for line in lines if name)
        + (token if xid else "")
        + "\n"
    )


def _grouped(digits: str) -> str:
    return " " + " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def capture(folder: Path, *records: str, **options: Any) -> Capture:
    (folder / "session.txt").write_text("".join(records), encoding="utf-8")
    return cdcwb.load(folder, format="goldengate", time_zone="UTC", **options)


def place(rba: int) -> str:
    return f"{0:010}{rba:010}"


def test_a_transaction_says_what_is_missing_of_it(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        record(100, "Insert", 1, 1), record(200, "Insert", 2, 2, "1.1.1"),  # the begin is missing
        record(300, "Insert", 3, 3),  # alone, and nameless
        record(400, "Insert", 0, 4, "1.1.3"), record(500, "RestartOK", 3), record(600, "Insert", 2, 5),
        record(700, "Insert", 0, 6, "1.1.4"), record(800, "RestartAbend", 3), record(900, "Insert", 3, 6, "1.1.4"),
        record(1000, "Insert", 0, 7), record(1100, "Insert", 3, 8, "1.1.6"),  # the end is missing
    )  # fmt: skip
    rows = {row.transaction_id: row for row in found.transactions.collect()}
    told = {name: (row.outcome, row.completeness, row.end_position) for name, row in rows.items()}
    assert told == {
        "1.1.1": ("committed", "no_begin", place(200)),
        f"~{place(300)}": ("committed", "complete", place(300)),
        "1.1.3": ("committed", "complete", place(600)),
        f"1.1.4@{place(700)}": ("rolled_back", "complete", place(800)),
        "1.1.4": ("committed", "complete", place(900)),
        f"~{place(1000)}": ("committed", "no_end", None),
        "1.1.6": ("committed", "complete", place(1100)),
    }
    assert rows["1.1.3"].began_at.isoformat() == "2026-03-04T05:06:04"
    assert rows["1.1.3"].ended_at.isoformat() == "2026-03-04T05:06:06"
    changes = {row.position: row for row in found.changes.collect()}
    assert changes[place(700)].outcome == "rolled_back"
    assert changes[place(400)].commit_position == changes[place(600)].commit_position == place(600)
    assert changes[place(400)].committed_at.isoformat() == "2026-03-04T05:06:06"
    assert changes[place(1000)].committed_at is None
    problems = sorted((row.code, row.transaction_id) for row in found.problems.collect())
    assert problems == [("no_begin", "1.1.1"), ("open_transaction", f"~{place(1000)}")]


def test_an_image_before_and_the_image_after_it_are_one_change(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        record(100, "FieldComp", 0, 1, "1.1.1", "B", text="old"), record(200, "FieldComp", 1, 1, text="new"),
        record(300, "FieldComp", 1, 2, text="alone"), record(400, "FieldComp", 2, 3, "", "B", text="lonely"),
    )  # fmt: skip
    both, alone, lonely = sorted(found.changes.collect(), key=lambda row: row.position)
    assert (both.before["c1"], both.after["c1"], both.changed_columns) == ("old", "new", ["c1"])
    assert [event.offset for event in both.source_events] == [0, both.offset]
    assert (alone.kind, alone.before, alone.after["c1"]) == ("change", None, "alone")
    assert (lonely.kind, lonely.before["c1"], [one.code for one in lonely.problems]) == (
        "before", "lonely", ["update_half"],
    )  # fmt: skip


def test_a_compressed_update_changed_the_columns_that_it_lists_less_the_key_that_is_only_carried_along(
    tmp_path: Path,
) -> None:
    found = capture(
        tmp_path,
        record(100, "FieldComp", 0, 1, "1.1.1", text="new"),
        record(200, "FieldComp", 1, 1, text=None),
        record(300, "FieldComp", 1, 1),  # the key alone
        record(400, "GGSPKUpdate", 1, 2, text=None),
        record(500, "GGSPKUpdate", 1, 2, old_key=2, text="x"),  # the key as it was
        record(600, "FieldComp", 1, 2, "", "B", text="x"), record(700, "FieldComp", 1, 2, text="x"),
        record(800, "Update", 2, 2, text="y"),  # the row in full, which does not say what changed
        keys="shop.orders:c0",
    )  # fmt: skip
    rows = {int(row.position[10:]): (row.changed_columns, row.change_source) for row in found.changes.collect()}
    assert rows == {
        100: (["c1"], "log"),
        200: (["c1"], "log"),
        300: ([], "log"),
        400: (["c0", "c1"], "log"),
        500: (["c1"], "log"),
        700: ([], "images"),
        800: (None, None),
    }


def test_without_a_key_a_compressed_update_changed_all_columns_that_it_lists(tmp_path: Path) -> None:
    found = capture(tmp_path, record(100, "FieldComp", 3, 1, "1.1.1", text="new"))
    (change,) = found.changes.collect()
    assert (change.key, change.changed_columns, change.change_source) == (None, ["c0", "c1"], "log")


def headless(rba: int, side: str, text: str) -> str:
    """A record of shop.orders without a header block, whose image line says nothing of the transaction."""
    whole = record(rba, "FieldComp", 3, image=side[0], text=text)
    lines = whole[whole.index("\n\n") + 2 :].replace(" " * 3 + "G  s", "")
    return lines.rstrip("\n") + "\n"


@pytest.mark.parametrize("rbas", [(100, 100, 200, 200), (100, 200, 300, 400)])
def test_images_of_one_update_that_is_in_no_transaction_are_one_change(
    tmp_path: Path, rbas: tuple[int, int, int, int]
) -> None:
    halves = zip(rbas, ("Before", "After", "Before", "After"), ("old", "new", "new", "newer"), strict=True)
    found = capture(tmp_path, *(headless(rba, side, text) for rba, side, text in halves))
    first, second = sorted(found.changes.collect(), key=lambda row: row.offset)
    assert (first.before["c1"], first.after["c1"], first.changed_columns) == ("old", "new", ["c1"])
    assert (second.before["c1"], second.after["c1"], second.kind) == ("new", "newer", "change")
    assert [len(row.source_events) for row in (first, second)] == [2, 2]
    assert [row.transaction_id for row in (first, second)] == [None, None]
    assert {row.code for row in found.problems.collect()} == ({"same_position"} if rbas[0] == rbas[1] else set())


def test_different_records_at_one_rba_are_changes_of_their_own(tmp_path: Path) -> None:
    found = capture(tmp_path, record(100, "Insert", 3, 1), record(100, "Insert", 3, 2), record(100, "Insert", 3, 1))
    changes = found.changes.collect()
    assert sorted(row.after["c0"] for row in changes) == ["1", "2"]
    assert len({row.transaction_id for row in changes}) == found.transactions.count() == 2
    assert sorted(row.code for row in found.problems.collect()) == ["repeated", "same_position"]


@pytest.mark.samples
def test_the_published_pair_of_a_nonstop_is_one_update(samples: Path) -> None:
    found = cdcwb.load(samples / "goldengate" / "logdump-docs-tmfbeforeimage-nonstop-pair.txt")
    (row,) = found.changes.collect()
    assert (row.operation, row.kind, row.table_name) == ("UPDATE", "change", "TCUSTMER")
    assert sorted(text.strip() for text in row.before.values()) == ["ANN", "SEATTLE", "WA"]
    assert sorted(text.strip() for text in row.after.values()) == ["ANN", "NEW YORK", "NY"]
    assert len(row.source_events) == 2
    assert "same_position" in {problem.code for problem in row.problems}


def test_a_record_with_the_undo_flag_takes_back_the_latest_opposite_change_of_its_row(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        record(100, "Insert", 0, 1, "1.1.1"), record(200, "Insert", 1, 2), record(300, "Delete", 1, 2, undo=1),
        record(400, "Insert", 2, 3),
        record(500, "Delete", 3, 1, "1.1.2", undo=1),  # of another transaction
        keys="shop.orders:c0",
    )  # fmt: skip
    outcomes = {row.position: row.outcome for row in found.changes.collect()}
    wanted = ["committed", "undone", "undo", "committed", "undo"]
    assert outcomes == {place(100 * at): outcome for at, outcome in enumerate(wanted, 1)}
    assert {row.position: row.outcome for row in found.change_headers.collect()} == outcomes


def test_a_large_object_is_part_of_the_change_before_it(tmp_path: Path) -> None:
    found = capture(
        tmp_path,
        record(100, "Insert", 0, 1, "1.1.1", text="x"), record(200, "LargeObject", 2, 1, text="much text"),
        record(300, "Insert", 3, 2, "1.1.2"),
    )  # fmt: skip
    insert, other = sorted(found.changes.collect(), key=lambda row: row.position)
    assert insert.after == {"c0": "1", "c1": "x", "lob1": "much text"}
    assert len(insert.source_events) == 2
    assert len(other.source_events) == 1
    assert [row.completeness for row in found.transactions.collect()] == ["complete", "complete"]
