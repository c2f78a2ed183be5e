"""Logdump text as events: generated captures equal their truth, whatever splits they are read in."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.errors import MalformedRecordError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import Field, Wanted
from cdcwb.formats.goldengate import segments
from cdcwb_synth import generate
from tests.goldengate_text import HEX, IMAGE, LINE, NAME, RECORD, USER_BLOCKS, USER_HEX, USER_LINES
from tests.local import allows, ledger, plan_of, read


def truth(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of the truth; maps as dictionaries."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    for row in rows:
        for name in ("key", "before", "after", "headers", "changes", "lineage"):
            if row.get(name) is not None:
                row[name] = dict(row[name])
    return rows


WORKLOADS: dict[str, dict[str, Any]] = {
    "21c": {},
    "three files, big-endian, tokens last": {
        "byte_order": "big",
        "trail_files": 3,
        "capture_files": "trail",
        "tokens": "last",
    },
    "12c, pairs, restarts": {
        "style": "12c",
        "zone": "Asia/Seoul",
        "updates": "pairs",
        "deletes": "full",
        "restarts": 4,
        "abends": 4,
        "tokens": "first",
        "transaction_size": 5,
    },
    "unified, notes, split bodies": {
        "updates": "unified",
        "prompts": 0.3,
        "long_varchars": 300,
        "trail_files": 2,
        "restarts": 2,
        "abends": 2,
        "all_types_share": 0.3,
    },
    "11g": {"style": "11g", "byte_order": "big", "long_varchars": 500, "compression": "gzip"},
    "collapsed": {"collapsed": True, "zone": "Europe/Berlin"},
}
SAME = ("operation", "schema_name", "table_name", "table_version", "position", "transaction_id", "changed_at", "length")
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The folder of a capture with some options, made once."""
    known: dict[str, Path] = {}

    def make(**options: Any) -> Path:
        name = json.dumps(options, sort_keys=True)
        if name not in known:
            to = tmp_path_factory.mktemp("made")
            known[name] = generate("goldengate", changes=150, seed=11, to=to, schema_changes=4, **options)
        return known[name]

    return make


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("key", "before", "after", "headers"):
            row[name] = None if row[name] is None else dict(row[name])
    return rows


def differences(folder: Path, events: pa.Table) -> list[str]:
    """Where events say something else than the truth of their changes."""
    rows = {(row["file_index"], row["offset"]): row for row in rows_of(events)}
    out = []
    for change in truth(folder, "changes"):
        row = rows.get((change["file_index"], change["offset"]))
        if row is None:
            out.append(f"{change['position']}: no event")
            continue
        sources = [rows[place["file_index"], place["offset"]] for place in change["source_events"]]
        before = next((one["before"] for one in sources if one["kind"] == "before"), row["before"])
        found = {name: row[name] for name in SAME} | {"key": row["key"], "before": before, "after": row["after"]}
        out += [
            f"{change['position']}: {name} is {value!r}, expected {change[name]!r}"
            for name, value in found.items()
            if value != change[name]
        ]
    return out


@pytest.mark.parametrize("workload", WORKLOADS)
def test_events_say_what_the_truth_says_of_every_change(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    events = read(folder / "capture", format="goldengate")
    assert differences(folder, events)[:3] == []
    ledger(events)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_capture_says_the_same_however_it_is_split(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    whole = read(folder / "capture", format="goldengate")
    assert len(plan_of(folder / "capture", format="goldengate", split_size=9000).splits) >= (
        1 if "compression" in WORKLOADS[workload] else 20
    )
    pieces = read(folder / "capture", format="goldengate", split_size=9000)
    assert rows_of(pieces) == rows_of(whole)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_table_versions_are_those_of_the_truth(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    plan = plan_of(folder / "capture", format="goldengate")
    found = {one.table_version: [column._asdict() for column in one.columns] for one in plan.shared.versions}
    expected = {one["table_version"]: one["columns"] for one in truth(folder, "table_versions")}
    assert found == expected


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_images_the_headers_are_the_same(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    whole = rows_of(read(folder / "capture", format="goldengate"))
    bare = rows_of(read(folder / "capture", wanted=Wanted(images=False), format="goldengate"))
    assert len(bare) == len(whole)
    for one, other in zip(bare, whole, strict=True):
        assert (one["before"], one["after"], one["key"], one["raw"]) == (None, None, None, None)
        kept = [name for name in one if name not in ("before", "after", "key", "raw", "problems")]
        assert {name: one[name] for name in kept} == {name: other[name] for name in kept}


def test_raw_is_the_text_of_the_record(made: Made) -> None:
    folder = made()
    (path,) = (folder / "capture").iterdir()
    text = path.read_bytes()
    for row in read(path, format="goldengate").to_pylist():
        assert row["raw"] == text[row["offset"] : row["offset"] + row["length"]]


def test_filters_let_through_what_they_name(made: Made) -> None:
    folder = made(**WORKLOADS["12c, pairs, restarts"])
    whole = rows_of(read(folder / "capture", format="goldengate"))
    table = next(row["table_name"] for row in whole if row["kind"] == "before")
    transaction = next(row["transaction_id"] for row in whole if row["kind"] == "after")
    for wanted in (
        Wanted(kinds=frozenset({"before", "after"})),
        Wanted(tables=frozenset({table})),
        Wanted(transactions=frozenset({transaction})),
        Wanted(timed=True),
        Wanted(drop_malformed=True, tables=frozenset({table}), kinds=frozenset({"change"})),
    ):
        found = rows_of(read(folder / "capture", wanted=wanted, format="goldengate"))
        assert found == [row for row in whole if allows(wanted, row)]
        assert found


# --- text by hand -----------------------------------------------------------------------------------------------------


LOB: dict[str, Any] = {"io": 116, "operation": "LargeObject"}


def record(
    rba: int,
    trans: int,
    *,
    io: int = 5,
    operation: str = "Insert",
    body: str = "0000 0600 0000 0000 0001",
    image: str = "After ",
    continued: int = 0,
    count: int = 1,
    xid: str | None = None,
    undo: int = 0,
    syskey: int = 0,
    name: str = "Name: SHOP.STOCK",
    time: str = "2024/01/05 10:00:00.000.000",
    header: bool = True,
) -> str:
    """One record as Logdump prints it."""
    digits = body.replace(" ", "")
    size = len(digits) // 2
    half = "B" if image == "Before" else "A"
    block = f"""___________________________________________________________________
Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)
UndoFlag   :     .  (x{undo:02x})     BeforeAfter:     {half}  (x{ord(half):02x})
RecLength  : {size:5d}  (x{size:04x})   IO Time    : {time}
IOType     : {io:5d}  (x{io:02x})     OrigNode   :   255  (xff)
TransInd   :     .  (x{trans:02x})     FormatType :     R  (x52)
SyskeyLen  : {syskey:5d}  (x{syskey:02x})     Incomplete :     .  (x00)
AuditRBA   :          1       AuditPos   : 7
Continued  :     {"NY"[continued]}  (x{continued:02x})     RecCount   : {count:5d}  (x{count:02x})

"""
    shown = "".join(
        " "
        + " ".join(digits[at : at + 40][k : k + 4] for k in range(0, len(digits[at : at + 40]), 4)).ljust(49)
        + " | .\n"
        for at in range(0, len(digits), 40)
    )
    letter = "bmes"[trans]
    text = (block if header else "") + f"{time} {operation:<20} Len {size:5d} RBA {rba}\n{name}\n"
    text += f"{image} Image:                                             Partition x0c   G  {letter}\n{shown}"
    if xid is not None:
        hex_ = xid.encode().hex()
        pairs = " ".join(hex_[k : k + 4] for k in range(0, len(hex_), 4))
        text += f"\nGGS tokens:\nTokenID x36 '6' TRANID           Info x00  Length {len(xid):4d}\n {pairs:<49} | .\n"
    return text + "\n"


OPEN = "Current LogTrail is ./dirdat/aa000000003\n"


def events(tmp_path: Path, *texts: str, **options: Any) -> list[dict[str, Any]]:
    folder = tmp_path / "capture"
    folder.mkdir(exist_ok=True, parents=True)
    for number, text in enumerate(texts):
        (folder / f"log{number}.txt").write_text(text, encoding="utf-8")
    table = read(folder, format="goldengate", **options)
    ledger(table)
    return rows_of(table)


def kinds(rows: list[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in rows if row["kind"] != "filler"]


def codes(row: dict[str, Any]) -> list[str]:
    return [one["code"] for one in row["problems"] or ()]


def column_meanings(record: Field) -> list[str]:
    """What inspect says of the columns of a record."""
    data = next(one for one in record.children if one.name == "data")
    return [one.meaning for one in data.children if re.fullmatch("c[0-9]+", one.name)]


UPDATE = LINE.replace("Insert   ", "FieldComp") + NAME + IMAGE + HEX


@pytest.mark.parametrize("tail", ["Partition 0", "Partition 4", "Partition x0c", "Partition x0c   G  s", ""])
@pytest.mark.parametrize("side", ["Before", "After "])
def test_without_a_header_block_the_words_of_the_image_line_say_which_image_it_is(
    tmp_path: Path, tail: str, side: str
) -> None:
    line = f"{side} Image:{' ' * 45}{tail}".rstrip() + "\n"
    (row,) = events(tmp_path, UPDATE.replace(IMAGE, line))
    values = {"c0": "7", "c1": "apples"}
    before = values if side == "Before" else None
    assert (row["before"], row["after"]) == (before, None if before else values)
    assert (row["kind"], row["headers"]["BeforeAfter"]) == ("before" if before else "change", side[0])
    found = get_format("goldengate").inspect(str(tmp_path / "capture" / "log0.txt"), 0, {})
    assert (found.event["kind"], dict(found.event.get("before", ())) or None) == (row["kind"], before)
    assert [one.split(":")[0] for one in column_meanings(found.field)] == [f"{side.strip().lower()} image"] * 2


def test_an_update_of_which_nothing_says_which_image_it_is_is_taken_for_the_after_image(tmp_path: Path) -> None:
    (row,) = events(tmp_path, UPDATE.replace(IMAGE, ""))
    assert (row["before"], row["after"]) == (None, {"c0": "7", "c1": "apples"})
    assert "BeforeAfter" not in row["headers"]
    plan = plan_of(tmp_path / "capture", format="goldengate")
    (told,) = [one for one in plan.detected if one["setting"] == "image"]
    assert (told["value"], told["overridden"]) == ("after", False)
    assert told["evidence"] == "1 update with neither BeforeAfter nor an image line"
    found = get_format("goldengate").inspect(str(tmp_path / "capture" / "log0.txt"), 0, {})
    assert all(one.startswith("after image (assumed: ") for one in column_meanings(found.field))


def test_a_record_that_was_printed_before_is_filler(tmp_path: Path) -> None:
    text = OPEN + record(100, 0, xid="1") + record(200, 2) + record(100, 0, xid="1")
    rows = events(tmp_path, text)
    again = rows[-1]
    assert (again["kind"], again["record_type"], again["transaction_id"]) == ("filler", "Insert", None)
    assert codes(again) == ["repeated"]
    assert kinds(rows) == ["change", "change"]


def test_a_text_may_have_no_record_that_shows_its_rba(tmp_path: Path) -> None:
    blocks = record(100, 0).split("\n\n")[0] + "\n\n" + record(200, 2).split("\n\n")[0] + "\n\n"
    rows = events(tmp_path, OPEN + blocks)
    assert kinds(rows) == ["change", "change"]
    assert [(row["position"], row["headers"]["TransInd"]) for row in rows[1:]] == [(None, "0"), (None, "2")]


OTHERS: dict[str, dict[str, Any]] = {
    "side": {"image": "Before", "io": 15, "operation": "FieldComp"},
    "body": {"body": "0000 0600 0000 0000 0002"},
    "table": {"name": "Name: SHOP.SHELF"},
    "place in the transaction": {"trans": 0},
    "token": {"xid": "2"},
}


@pytest.mark.parametrize("split_size", [1 << 20, 1500])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_two_different_records_at_one_rba_are_both_kept(
    tmp_path: Path, other: str, apart: bool, split_size: int
) -> None:
    mine: dict[str, Any] = {"trans": 3, "io": 15, "operation": "FieldComp"} if other == "side" else {"trans": 3}
    one, two = record(200, **mine), record(200, **{**mine, **OTHERS[other]})
    texts = [OPEN + record(100, 3, xid="1") + one, record(150, 3) + two + one + two + record(300, 3)]
    rows = events(tmp_path, *([texts[0], OPEN + texts[1]] if apart else ["".join(texts)]), split_size=split_size)
    kept = [row for row in rows if row["kind"] != "filler"]
    assert [row["position"][-3:] for row in kept] == ["100", "200", "150", "200", "300"]
    assert [codes(row) for row in kept] == [[], [], [], ["same_position"], []]
    assert sum(codes(row) == ["repeated"] for row in rows) == 2
    assert len({row["transaction_id"] for row in kept}) == 5


def test_records_at_one_rba_without_ids_are_transactions_of_their_own(tmp_path: Path) -> None:
    first, second = record(200, 3), record(200, 3, name="Name: SHOP.SHELF")
    rows = [row for row in events(tmp_path, OPEN + first + second) if row["kind"] == "change"]
    assert [row["table_name"] for row in rows] == ["STOCK", "SHELF"]
    assert [row["transaction_id"] for row in rows] == ["~00000000030000000200", f"~0:{rows[1]['offset']}"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 2), st.booleans()), min_size=1, max_size=14
    ),
    st.sampled_from([1000, 2500, 1 << 20]),
)
def test_no_record_is_lost_or_kept_twice_wherever_its_prints_are(
    tmp_path_factory: pytest.TempPathFactory, prints: list[tuple[int, int, int, bool]], split_size: int
) -> None:
    """Prints of records in three files: (file, RBA, which of the different records at that RBA, spaced out)."""
    texts, order = [OPEN] * 3, []
    for file, place, variant, spaced in prints:
        text = record(place * 100, 3, body=f"0000 0600 0000 0000 000{variant}", name=f"Name: SHOP.T{variant % 2}")
        texts[file] += text + ("Logdump 5 >n\n\n" if spaced else "\n")
        order.append((file, place * 100, variant))
    order.sort(key=lambda one: one[0])
    rows = [
        row
        for row in events(tmp_path_factory.mktemp("prints"), *texts, split_size=split_size)
        if row["record_type"] is not None
    ]
    kept: set[tuple[int, int]] = set()
    for (_, rba, variant), row in zip(order, rows, strict=True):
        if (rba, variant) in kept:
            assert (row["kind"], codes(row)) == ("filler", ["repeated"])
            continue
        assert (row["kind"], row["after"]) == ("change", {"c0": str(variant)})
        assert codes(row) == (["same_position"] if any(rba == other for other, _ in kept) else [])
        kept.add((rba, variant))
    changes = [row for row in rows if row["kind"] == "change"]
    assert len({row["transaction_id"] for row in changes}) == len(changes)


@pytest.mark.parametrize("split_size", [1 << 20, 1000])
@pytest.mark.parametrize("trans", [0, 1, 2, 3])
def test_both_images_of_a_record_are_one_member_of_its_transaction(tmp_path: Path, trans: int, split_size: int) -> None:
    more: dict[str, Any] = {"io": 15, "operation": "FieldComp"}
    pair = record(200, trans, image="Before", **more) + record(200, trans, xid="7", **more)
    begin = "" if trans in (0, 3) else record(100, 0)
    end = "" if trans in (2, 3) else record(300, 2)
    rows = events(tmp_path, OPEN + begin + pair + end + record(400, 3), split_size=split_size)
    members = [row for row in rows if row["kind"] != "filler"][:-1]
    assert {row["transaction_id"] for row in members} == {"7"}
    assert [row["kind"] for row in members if row["position"].endswith("200")] == ["before", "after"]
    assert [row["last_in_transaction"] for row in members] == [False] * (len(members) - 1) + [True]
    assert {row["headers"]["TransInd"] for row in members if row["position"].endswith("200")} == {str(trans)}


@pytest.mark.parametrize("split_size", [1 << 20, 1000])
def test_halves_of_updates_in_no_transaction_find_each_other_across_splits(tmp_path: Path, split_size: int) -> None:
    line = IMAGE.split("Partition")[0] + "Partition 0\n"
    text = "".join(
        (UPDATE.replace(IMAGE, line.replace("After ", side))).replace("RBA 1880", f"RBA {rba}")
        for rba, side in zip(range(1000, 1900, 100), ("Before", "After ", "After ") * 3, strict=True)
    )
    rows = events(tmp_path, OPEN + text, split_size=split_size)
    assert kinds(rows) == ["before", "after", "change"] * 3


def test_guardian_file_names_that_differ_in_case_are_one_table(tmp_path: Path) -> None:
    names = ["\\west.$DATA2.Shop.stock", "\\WEST.$DATA2.SHOP.STOCK", "shop.stock", "SHOP.STOCK"]
    rows = events(tmp_path, *(OPEN + record(100 * at, 3, name=f"Name: {name}") for at, name in enumerate(names, 1)))
    found = [row for row in rows if row["kind"] == "change"]
    assert [(row["schema_name"], row["table_name"]) for row in found] == [
        ("\\WEST.$DATA2.SHOP", "STOCK"), ("\\WEST.$DATA2.SHOP", "STOCK"), ("shop", "stock"), ("SHOP", "STOCK"),
    ]  # fmt: skip
    assert len({row["table_version"] for row in found}) == 3
    assert [row["headers"]["Name"] for row in found] == names


@pytest.mark.parametrize("split_size", [1 << 20, 1500])
def test_a_session_that_was_logged_twice_counts_once(tmp_path: Path, split_size: int) -> None:
    session = record(100, 0, xid="1") + record(200, 1) + record(300, 2) + record(400, 3, xid="2")
    rows = events(tmp_path, OPEN + session, OPEN + session + record(500, 3, xid="3"), split_size=split_size)
    changes = [row for row in rows if row["kind"] == "change"]
    assert [row["position"][-3:] for row in changes] == ["100", "200", "300", "400", "500"]
    assert [row["transaction_id"] for row in changes] == ["1", "1", "1", "2", "3"]
    assert sum(codes(row) == ["repeated"] for row in rows) == 4


def test_a_transaction_goes_on_in_the_next_trail_file(tmp_path: Path) -> None:
    texts = [OPEN.replace("3\n", f"{number}\n") + record(100 + number, trans) for number, trans in ((3, 0), (4, 2))]
    rows = [row for row in events(tmp_path, *texts) if row["kind"] == "change"]
    assert [row["transaction_id"] for row in rows] == ["~00000000030000000103"] * 2


def test_tokens_that_disagree_are_a_conflict_on_the_later_record(tmp_path: Path) -> None:
    rows = events(tmp_path, OPEN + record(100, 0, xid="1.1") + record(200, 2, xid="1.2"))
    changes = [row for row in rows if row["kind"] == "change"]
    assert [row["transaction_id"] for row in changes] == ["1.1", "1.1"]
    assert [codes(row) for row in changes] == [[], ["conflict"]]
    assert changes[1]["headers"]["xid"] == "1.1"
    assert changes[1]["headers"]["TRANID"] == "1.2"


@pytest.mark.parametrize("tokens", [USER_LINES, USER_BLOCKS, USER_HEX])
def test_tokens_and_user_tokens_are_headers(tmp_path: Path, tokens: str) -> None:
    (row,) = events(tmp_path, f"{RECORD}\nUser tokens:   46 bytes\n{tokens}")
    told = {name: row["headers"].get(name) for name in ("LOGCSN", "TRANID", "TK-HOST", "TK-EMPTY", "TK-TIME")}
    assert told == {"LOGCSN": "1332816", "TRANID": "4.5.67", "TK-HOST": "hq", "TK-EMPTY": "", "TK-TIME": "12:30:01"}


def test_values_without_a_definition_are_said_to_be_guesses(tmp_path: Path) -> None:
    (row,) = events(tmp_path, RECORD)
    assert row["after"] == {"c0": "7", "c1": "apples"}
    plan = plan_of(tmp_path / "capture", format="goldengate")
    (version,) = plan.shared.versions
    assert (version.table_version, version.origin) == (row["table_version"], "inferred")
    (said,) = [one for one in plan.detected if one["setting"] == "definitions"]
    assert said["value"] == "inferred"
    assert "value types are inferred from the bytes" in said["evidence"]


def test_a_restart_that_gave_up_rolls_back_what_is_open(tmp_path: Path) -> None:
    abend = record(200, 3, io=150, operation="RestartAbend", body="", name="Name:")
    rows = events(tmp_path, OPEN + record(100, 0, xid="5") + abend + record(300, 3, xid="5"))
    rows = [row for row in rows if row["kind"] != "filler"]
    assert kinds(rows) == ["change", "rollback", "change"]
    assert [row["transaction_id"] for row in rows] == ["5@00000000030000000100"] * 2 + ["5"]


def test_records_outside_of_transactions_leave_them_alone(tmp_path: Path) -> None:
    restart = record(200, 3, io=151, operation="RestartOK", body="", name="Name:")
    rows = events(tmp_path, OPEN + record(100, 0, xid="5") + restart + record(300, 2))
    ids = [(row["kind"], row["transaction_id"], row["last_in_transaction"]) for row in rows if row["kind"] != "filler"]
    assert ids == [("change", "5", False), ("control", None, None), ("change", "5", True)]


def test_an_update_may_come_in_two_halves(tmp_path: Path) -> None:
    update = {"io": 15, "operation": "FieldComp"}
    text = OPEN + record(100, 0, image="Before", **update) + record(200, 1, **update) + record(300, 2, **update)
    rows = [row for row in events(tmp_path, text) if row["kind"] != "filler"]
    assert kinds(rows) == ["before", "after", "change"]
    assert (rows[0]["before"], rows[0]["after"]) == ({"c0": "1"}, None)
    assert (rows[1]["before"], rows[1]["after"]) == (None, {"c0": "1"})


def test_halves_find_each_other_over_the_end_of_a_file(tmp_path: Path) -> None:
    update = {"io": 15, "operation": "FieldComp"}
    rows = events(tmp_path, OPEN + record(100, 0, image="Before", **update), OPEN + record(200, 2, **update))
    assert kinds(rows) == ["before", "after"]


def test_an_unknown_type_passes_through(tmp_path: Path) -> None:
    rows = events(tmp_path, OPEN + record(100, 3, io=222, operation="Novelty", body=""))
    row = rows[-1]
    assert (row["kind"], row["operation"], row["record_type"]) == ("control", "UNKNOWN(222)", "Novelty")
    assert codes(row) == ["unknown_record_type"]


def test_an_upsert_is_an_update_with_its_row(tmp_path: Path) -> None:
    last = events(tmp_path, OPEN + record(100, 3, io=140, operation="Upsert"), byte_order="little")[-1]
    assert (last["kind"], last["operation"], last["record_type"]) == ("change", "UPDATE", "Upsert")
    assert (last["after"], last["problems"]) == ({"c0": "1"}, None)


def test_a_record_without_its_header_block_is_read_from_its_lines(tmp_path: Path) -> None:
    rows = events(tmp_path, OPEN + record(100, 0, header=False) + record(200, 2, header=False, image="Before",
                                                                        operation="Delete"))  # fmt: skip
    changes = [row for row in rows if row["kind"] == "change"]
    assert [row["operation"] for row in changes] == ["INSERT", "DELETE"]
    assert [row["last_in_transaction"] for row in changes] == [False, True]
    assert {row["transaction_id"] for row in changes} == {"~00000000030000000100"}
    assert changes[1]["before"] == {"c0": "1"}


def test_the_system_key_stands_before_the_columns(tmp_path: Path) -> None:
    rows = events(tmp_path, OPEN + record(100, 3, syskey=4, body="dead beef 0000 0004 0000 0001"))
    assert rows[-1]["after"] == {"c0": "1"}
    assert rows[-1]["headers"]["syskey"] == "deadbeef"


def test_a_text_that_ends_inside_a_line_of_hex_keeps_the_columns_that_are_whole(tmp_path: Path) -> None:
    whole = OPEN + record(100, 3) + record(200, 3, body="0000 0600 0000 0000 0002 0100 0a00 0000 0600 6162")
    cut = whole[: whole.rindex(" 0a00") + 4]
    assert cut.endswith(" 0100 0a0")
    last = events(tmp_path, cut, byte_order="little")[-1]
    assert (last["kind"], last["operation"], last["after"]) == ("change", "INSERT", {"c0": "2"})
    assert codes(last) == ["truncated"]


def test_a_body_goes_on_in_the_records_that_follow(tmp_path: Path) -> None:
    text = OPEN + record(100, 0, continued=1, count=2, body="0000 0600 0000 0000 0001 0100 0a00")
    text += record(200, 2, io=161, operation="RecordFragment", body="0000 0600 6162 6364 6566")
    rows = [row for row in events(tmp_path, text, byte_order="little") if row["kind"] != "filler"]
    assert kinds(rows) == ["change", "fragment"]
    assert rows[0]["after"] == {"c0": "1", "c1": "abcdef"}
    assert rows[0]["headers"]["fragments"] == "2"
    assert rows[0]["problems"] is None


@pytest.mark.parametrize("files", [1, 2, 3])
def test_a_large_object_is_put_together_over_the_ends_of_files(tmp_path: Path, files: int) -> None:
    pieces = [
        record(100, 0),
        record(200, 1, io=116, operation="LargeObject", continued=1, count=3, body=b"one ".hex()),
        record(300, 1, io=116, operation="LargeObject", continued=1, count=3, body=b"two ".hex()),
        record(400, 2, io=116, operation="LargeObject", count=3, body=b"six".hex()),
    ]
    texts = {1: ["".join(pieces)], 2: ["".join(pieces[:2]), "".join(pieces[2:])]}.get(files) or [
        pieces[0] + pieces[1],
        pieces[2],
        pieces[3],
    ]
    rows = [row for row in events(tmp_path, *(OPEN + text for text in texts)) if row["kind"] != "filler"]
    assert kinds(rows) == ["change", "fragment", "fragment", "fragment"]
    assert rows[0]["after"] == {"c0": "1", "lob1": "one two six"}
    assert rows[0]["headers"]["fragments"] == "4"
    assert [codes(row) for row in rows] == [[]] * 4


def test_windows_do_not_change_what_belongs_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [record(100 + at, 1, continued=1, count=9, body="6162", **LOB) for at in range(100, 900, 100)]
    text = record(100, 0) + "".join(pieces) + record(1000, 2, count=9, body="6364", **LOB)
    text += "Logdump 1 >open lt000000011\n" + record(100, 2)  # of a transaction that begins elsewhere
    expected = events(tmp_path, OPEN + text)
    assert expected[1]["after"] == {"c0": "1", "lob1": 8 * "ab" + "cd"}
    assert all(row["problems"] is None for row in expected)
    monkeypatch.setattr(segments, "WINDOW", 1000)
    monkeypatch.setattr(segments, "_BEFORE", 500)
    assert events(tmp_path, OPEN + text) == expected


def test_data_in_several_records_that_do_not_end_with_a_column_are_not_columns(tmp_path: Path) -> None:
    first = record(100, 0, continued=1, count=2, body="0000 0600 0000 0000 0001 0100 0a00")
    cut = first + record(200, 2, io=161, operation="RecordFragment", body="0000 0600 6162")
    with_lob = record(100, 0, body="0000 0600 0000 0000 0001 ffff") + record(200, 2, **LOB, body="6162")
    for text, after in ((cut, None), (with_lob, {"lob1": "ab"})):
        row = next(row for row in events(tmp_path, OPEN + text, byte_order="little") if row["kind"] == "change")
        assert (row["after"], codes(row)) == (after, ["row_size"])


def test_values_of_which_a_part_is_not_there_are_in_no_image(tmp_path: Path) -> None:
    def shown_in_part(text: str, size: int) -> str:
        return text.replace(
            f"RecLength  : {size:5d}  (x{size:04x})", f"RecLength  : {size + 9:5d}  (x{size + 9:04x})"
        ).replace(f" Len {size:5d} ", f" Len {size + 9:5d} ")

    body, rest = "0000 0600 0000 0000 0001 0100 0a00", "0100 0600 0000 0000 0002"
    cut = shown_in_part(record(100, 0, continued=1, count=2, body=body), 14)
    cut += record(200, 2, io=161, operation="RecordFragment", body=rest)
    large = record(100, 0) + shown_in_part(record(200, 1, continued=1, count=2, body="6162", **LOB), 2)
    large += record(300, 2, count=2, body="6364", **LOB)
    lacking = record(100, 0) + record(200, 1, continued=1, count=3, body="6162", **LOB)
    lacking += record(300, 2, count=3, body="6364", **LOB)
    for text in (cut, large, lacking):
        row = next(row for row in events(tmp_path, OPEN + text, byte_order="little") if row["kind"] == "change")
        assert row["after"] == {"c0": "1"}


def test_a_large_object_that_lacks_pieces_is_a_gap(tmp_path: Path) -> None:
    lob = {"io": 116, "operation": "LargeObject", "count": 3, "body": "6162 6364"}
    rows = events(tmp_path, OPEN + record(100, 0) + record(200, 1, continued=1, **lob) + record(400, 2, **lob))
    changes = [row for row in rows if row["kind"] == "change"]
    assert codes(changes[0]) == ["gap"]
    lost = events(tmp_path, OPEN + record(200, 1, continued=1, **lob))
    assert codes(lost[-1]) == ["gap"]


@pytest.mark.parametrize(
    "pieces",
    [
        [record(100, 0), record(200, 2, name="Name: SHOP.OTHER", **LOB)],
        [record(100, 3), record(200, 2, **LOB)],
        [record(100, 3), record(200, 0, continued=1, count=2, **LOB), record(300, 2, count=2, **LOB)],
        [record(100, 0), record(200, 2, io=161, operation="RecordFragment", body="0100 0600 0000 0000 0002")],
    ],
    ids=["another table", "after its transaction", "the next transaction", "nothing is continued"],
)
def test_a_segment_is_not_put_into_a_row_that_it_does_not_belong_to(tmp_path: Path, pieces: list[str]) -> None:
    rows = [row for row in events(tmp_path, OPEN + "".join(pieces), byte_order="little") if row["kind"] != "filler"]
    assert kinds(rows) == ["change"] + ["fragment"] * (len(pieces) - 1)
    assert rows[0]["after"] == {"c0": "1"}
    assert [codes(row) for row in rows] == [[]] + [["gap"]] * (len(pieces) - 1)


def test_without_a_zone_times_are_not_known_and_the_plan_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    rows = events(tmp_path, OPEN + record(100, 3))
    assert rows[-1]["changed_at"] is None
    assert rows[-1]["headers"]["IO Time"] == "2024/01/05 10:00:00.000.000"
    assert "time_zone" in plan_of(folder, format="goldengate").facts["changed_at"]
    given = events(tmp_path, OPEN + record(100, 3), time_zone="+08:00")
    assert given[-1]["changed_at"].isoformat() == "2024-01-05T02:00:00+00:00"


def test_an_ambiguous_hour_is_flagged(tmp_path: Path) -> None:
    text = OPEN + record(100, 3, time="2024/10/27 02:30:00.000.000")
    rows = events(tmp_path, text, time_zone="Europe/Berlin")
    assert codes(rows[-1]) == ["time_zone"]


def test_trail_sequence_numbers_the_files_that_do_not_tell_theirs(tmp_path: Path) -> None:
    rows = events(tmp_path, record(500, 0), record(100, 2), trail_sequence=41)
    assert [row["position"] for row in rows if row["kind"] == "change"] == [
        "00000000410000000500",
        "00000000420000000100",
    ]
    assert {row["transaction_id"] for row in rows if row["kind"] == "change"} == {"~00000000410000000500"}


@pytest.mark.parametrize("opened", [("", ""), ("open lt000000001", "open rt000000001")])
def test_transactions_of_trail_files_with_one_number_are_different_ones(
    tmp_path: Path, opened: tuple[str, str]
) -> None:
    texts = [f"Logdump 1 >{one}\n" + record(200, 0) + record(300, 2) for one in opened]
    found = [row["transaction_id"] for row in events(tmp_path, *texts) if row["kind"] == "change"]
    assert found[0] == found[1] != found[2] == found[3]


def test_notes_between_records_are_filler(tmp_path: Path) -> None:
    rows = events(tmp_path, "some notes\n\n" + record(100, 3) + "Logdump 4 >n\n" + record(200, 3))
    assert [row["kind"] for row in rows] == ["filler", "change", "filler", "change"]
    assert dict(rows[0]["headers"]) == {"reason": "text that is not a record: 'some notes'"}
    assert dict(rows[2]["headers"]) == {"reason": "lines that belong to no record"}
    assert [codes(row) for row in rows] == [["note"], [], [], []]


def test_fail_fast_stops_at_the_first_lines_that_are_no_record(tmp_path: Path) -> None:
    text = OPEN + record(100, 3) + "_" * 67 + "\nHdr-Ind    :     E  (x45)     Partition  :     .  (x0c)\n"
    rows = events(tmp_path, text)
    assert rows[-1]["kind"] == "malformed"
    assert codes(rows[-1]) == ["malformed"]
    with pytest.raises(MalformedRecordError) as found:
        read(tmp_path / "capture", format="goldengate", mode="FAILFAST")
    assert found.value.offset == rows[-1]["offset"]
    kept = read(tmp_path / "capture", wanted=Wanted(drop_malformed=True), format="goldengate")
    assert "malformed" not in kept.column("kind").to_pylist()


def test_records_that_are_missing_in_a_transaction_are_a_gap(made: Made, tmp_path: Path) -> None:
    (path,) = (made() / "capture").iterdir()
    whole = rows_of(read(path, format="goldengate"))
    middle = next(row for row in whole if (row["headers"] or {}).get("TransInd") == "1" and row["kind"] == "change")
    text = path.read_bytes()
    cut = tmp_path / "cut.txt"
    cut.write_bytes(text[: middle["offset"]] + text[middle["offset"] + middle["length"] :])
    rows = rows_of(read(cut, format="goldengate"))
    assert [one["code"] for row in rows for one in row["problems"] or ()].count("gap") >= 1
    assert not [row for row in whole if row["problems"]]


def damaged(lines: list[bytes], seed: int) -> bytes:
    """The lines with some of them lost, doubled, moved, cut or changed, and noise between them."""
    chance = random.Random(seed)
    lines = list(lines)
    for _ in range(chance.randint(1, 10)):
        at, size = chance.randrange(len(lines)), chance.choice((1, 5, 60))
        match chance.choice(("lose", "double", "move", "cut", "noise", "byte")):
            case "lose":
                del lines[at : at + size]
            case "double":
                lines[at:at] = lines[at : at + size]
            case "move":
                some = lines[at : at + size]
                del lines[at : at + size]
                to = chance.randrange(len(lines) + 1)
                lines[to:to] = some
            case "cut":
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case "noise":
                lines.insert(at, chance.choice((b"Logdump 5 >n", b"junk \xff\xfe", b"", b"_" * 67, OPEN.encode()[:-1])))
            case "byte":
                lines[at] = lines[at][:7] + bytes([chance.randrange(256)]) + lines[at][8:]
    return b"\n".join(lines)


@pytest.mark.parametrize("workload", ["21c", "12c, pairs, restarts", "unified, notes, split bodies"])
def test_a_damaged_text_is_read_whole_and_nothing_is_raised(made: Made, tmp_path: Path, workload: str) -> None:
    path = next((made(**WORKLOADS[workload]) / "capture").iterdir())
    lines = path.read_bytes().split(b"\n")[:6000]
    for seed in range(8):
        damage = tmp_path / f"{seed}.txt"
        damage.write_bytes(damaged(lines, seed))
        for options in ({}, {"split_size": 20_000}):
            events = read(damage, format="goldengate", **options)
            assert ledger(events) == {str(damage): damage.stat().st_size}
