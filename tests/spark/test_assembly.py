"""What assembly makes of records that are named one by one: pairs of halves, undos, outcomes, problems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from tests import wire

if TYPE_CHECKING:
    from cdcwb import Capture

pytestmark = [pytest.mark.oldest, pytest.mark.usefixtures("spark")]

BEFORE, AFTER, DELETE = 42, 43, 41
TIME = wire.TIME


def _at(place: int) -> str:
    return f"{wire.sequence(place):016X}"


# Each transaction is a story of its own; they stand one behind the other in three files.
#
#  1  an ordinary update, then one whose halves another table's row parts
#  2  a fragmented table hands over the after half first, twice in a row
#  3  a row that moved between fragments: an insert and a lonely before half; then a lonely after half behind an insert
#  4  a savepoint undo: what stands before it with the same or a higher sequence is undone, what follows is not, though
#     its sequence is higher; the update whose after half has the undo's sequence is undone as a whole
#  5  an undo of a transaction that is rolled back
#  6  no end        7  no begin, but a commit        8  neither
#  9  only a begin and a commit        10  a truncate
# 1   again: the id is used a second time
STORIES = [
    [
        wire.begin(1, 0x1000, TIME, 71),
        wire.insert(1, 0x1010, 1, "elm", number=BEFORE),
        wire.insert(1, 0x1020, 1, "ash", number=AFTER),
        wire.insert(1, 0x1030, 2, "oak", number=BEFORE),
        wire.insert(1, 0x1038, 5, "fir", label=132),
        wire.insert(1, 0x1040, 3, "oak", number=AFTER),
        wire.commit(1, 0x1050, TIME + 1),
    ],
    [
        wire.begin(2, 0x2000),
        wire.insert(2, 0x2010, 1, "new", number=AFTER),
        wire.insert(2, 0x2020, 1, "old", number=BEFORE),
        wire.insert(2, 0x2030, 2, "new", number=AFTER),
        wire.insert(2, 0x2040, 2, "old", number=BEFORE),
        wire.commit(2, 0x2050),
    ],
    [
        wire.begin(3, 0x3000),
        wire.insert(3, 0x3010, 1, "moved"),
        wire.insert(3, 0x3020, 1, "here", number=BEFORE),
        wire.insert(3, 0x3030, 2, "new"),
        wire.insert(3, 0x3040, 2, "newer", number=AFTER),
        wire.commit(3, 0x3050),
    ],
    [
        wire.begin(4, 0x4000),
        wire.insert(4, 0x4010, 1, "stays"),
        wire.insert(4, 0x4018, 2, "old", number=BEFORE),
        wire.insert(4, 0x4020, 2, "new", number=AFTER),
        wire.insert(4, 0x4030, 3, "goes"),
        wire.discard(4, 0x4020),
        wire.insert(4, 0x4040, 4, "comes"),
        wire.commit(4, 0x4050),
    ],
    [
        wire.begin(5, 0x5000),
        wire.insert(5, 0x5010, 1, "first"),
        wire.insert(5, 0x5020, 2, "second"),
        wire.discard(5, 0x5020),
        wire.rollback(5, 0x5030),
    ],
    [wire.begin(6, 0x6000), wire.insert(6, 0x6010, 1, "waits")],
    [wire.insert(7, 0x7010, 1, "from before"), wire.commit(7, 0x7020, TIME + 7)],
    [wire.insert(8, 0x8010, 1, "from before, waits")],
    [wire.begin(9, 0x9000), wire.commit(9, 0x9010)],
    [wire.begin(10, 0xA000), wire.truncate(10, 0xA010), wire.commit(10, 0xA020)],
    [wire.begin(1, 0xB000), wire.insert(1, 0xB010, 1, "again", number=DELETE), wire.rollback(1, 0xB020)],
]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return cdcwb.load(write_stories(tmp_path_factory.mktemp("stories")), split_size=200)


def write_stories(to: Path) -> Path:
    """The stories in three files."""
    data = wire.goods() + wire.goods(132) + b"".join(b"".join(story) for story in STORIES)
    for number, first in enumerate((0, len(data) // 3, 2 * len(data) // 3)):
        last = (len(data) // 3, 2 * len(data) // 3, len(data))[number]
        (to / f"part-{number}.bin").write_bytes(data[first:last])
    return to


@pytest.fixture(scope="module")
def changes(capture: Capture) -> dict[str, list[dict[str, Any]]]:
    """The changes of each transaction, in capture order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in capture.changes.orderBy("file_index", "offset").collect():
        found.setdefault(row.transaction_id, []).append(row.asDict(recursive=True))
    return found


@pytest.fixture(scope="module")
def transactions(capture: Capture) -> dict[str, dict[str, Any]]:
    return {row.transaction_id: row.asDict(recursive=True) for row in capture.transactions.collect()}


Rows = dict[str, list[dict[str, Any]]]


def _named(number: int, place: int, begun: bool = True) -> str:
    return f"{number}@{'' if begun else '~'}{_at(place)}"


def _shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Operation, texts before and after, number of events."""
    return [
        (
            row["operation"],
            row["before"] and row["before"]["goods"],
            row["after"] and row["after"]["goods"],
            len(row["source_events"]),
        )
        for row in rows
    ]


def test_the_halves_of_an_update_are_one_change(changes: Rows) -> None:
    first, fir, second = changes[_named(1, 0x1000)]
    assert _shown([first, fir, second]) == [
        ("UPDATE", "elm", "ash", 2),
        ("INSERT", None, "fir", 1),
        ("UPDATE", "oak", "oak", 2),
    ]
    assert (first["kind"], first["record_type"], first["position"]) == ("change", "CDC_REC_UPDAFT", _at(0x1020))
    assert (first["changed_columns"], first["change_source"]) == (["goods"], "images")
    assert (second["changed_columns"], second["position"]) == (["n"], _at(0x1040))
    assert (fir["changed_columns"], fir["change_source"]) == (None, None)
    for row in (first, second):
        before, after = row["source_events"]
        assert (before["file_index"], before["offset"]) < (after["file_index"], after["offset"])
        assert (row["file_index"], row["offset"], row["length"]) == (
            after["file_index"],
            after["offset"],
            after["length"],
        )
        assert row["problems"] is None


def test_halves_that_are_reordered_are_one_change_and_said_to_be(changes: Rows) -> None:
    rows = changes[_named(2, 0x2000)]
    assert _shown(rows) == [("UPDATE", "old", "new", 2)] * 2
    for row, place in zip(rows, (0x2010, 0x2030), strict=True):
        after, before = row["source_events"]
        assert (row["position"], row["offset"]) == (_at(place), after["offset"])
        assert (after["file_index"], after["offset"]) < (before["file_index"], before["offset"])
        assert [problem["code"] for problem in row["problems"]] == ["reordered_update"]


def test_a_half_without_the_other_is_kept_as_it_is(changes: Rows) -> None:
    rows = changes[_named(3, 0x3000)]
    assert _shown(rows) == [
        ("INSERT", None, "moved", 1),
        ("UPDATE", "here", None, 1),
        ("INSERT", None, "new", 1),
        ("UPDATE", None, "newer", 1),
    ]
    assert [row["kind"] for row in rows] == ["change", "before", "change", "after"]
    assert [[p["detail"] for p in row["problems"] or ()] for row in rows] == [
        [],
        ["the after half is missing"],
        [],
        ["the before half is missing"],
    ]
    assert all(row["changed_columns"] is None for row in rows)


def test_an_undo_takes_back_what_stands_before_it_and_nothing_behind(changes: Rows) -> None:
    assert [(row["outcome"], row["position"]) for row in changes[_named(4, 0x4000)]] == [
        ("committed", _at(0x4010)),
        ("undone", _at(0x4020)),
        ("undone", _at(0x4030)),
        ("committed", _at(0x4040)),
    ]
    assert [row["outcome"] for row in changes[_named(5, 0x5000)]] == ["rolled_back", "undone"]


def test_the_outcome_of_changes_is_that_of_their_transaction(changes: Rows) -> None:
    outcomes = {name: {row["outcome"] for row in rows} for name, rows in changes.items()}
    assert outcomes[_named(1, 0x1000)] == {"committed"}
    assert outcomes[_named(1, 0xB000)] == {"rolled_back"}
    assert outcomes[_named(6, 0x6000)] == {"open"}
    assert outcomes[_named(7, 0x7010, False)] == {"open"}
    assert outcomes[_named(8, 0x8010, False)] == {"open"}
    assert outcomes[_named(10, 0xA000)] == {"committed"}
    (row,) = changes[_named(7, 0x7010, False)]
    assert row["commit_position"] == _at(0x7020)
    assert row["committed_at"].timestamp() == TIME + 7
    (row,) = changes[_named(10, 0xA000)]
    assert (row["operation"], row["before"], row["after"]) == ("TRUNCATE", None, None)


def test_transactions_say_what_they_hold(transactions: dict[str, dict[str, Any]]) -> None:
    assert {
        name: (row["outcome"], row["completeness"], row["changes"], row["tables"]) for name, row in transactions.items()
    } == {
        _named(1, 0x1000): ("committed", "complete", {"INSERT": 1, "UPDATE": 2}, ["131", "132"]),
        _named(2, 0x2000): ("committed", "complete", {"UPDATE": 2}, ["131"]),
        _named(3, 0x3000): ("committed", "complete", {"INSERT": 2, "UPDATE": 2}, ["131"]),
        _named(4, 0x4000): ("committed", "complete", {"INSERT": 3, "UPDATE": 1}, ["131"]),
        _named(5, 0x5000): ("rolled_back", "complete", {"INSERT": 2}, ["131"]),
        _named(6, 0x6000): ("open", "no_end", {"INSERT": 1}, ["131"]),
        _named(7, 0x7010, False): ("open", "no_begin", {"INSERT": 1}, ["131"]),
        _named(8, 0x8010, False): ("open", "no_begin", {"INSERT": 1}, ["131"]),
        _named(9, 0x9000): ("committed", "complete", {}, []),
        _named(10, 0xA000): ("committed", "complete", {"TRUNCATE": 1}, ["131"]),
        _named(1, 0xB000): ("rolled_back", "complete", {"DELETE": 1}, ["131"]),
    }
    first, rolled_back, since = (
        transactions[name] for name in (_named(1, 0x1000), _named(5, 0x5000), _named(7, 0x7010, False))
    )
    assert (first["begin_position"], first["end_position"], first["user"]) == (_at(0x1000), _at(0x1050), "71")
    assert (first["began_at"].timestamp(), first["ended_at"].timestamp()) == (TIME, TIME + 1)
    assert (rolled_back["end_position"], rolled_back["ended_at"]) == (_at(0x5030), None)
    assert (since["begin_position"], since["end_position"], since["user"]) == (None, _at(0x7020), None)
    assert since["ended_at"].timestamp() == TIME + 7
    assert transactions[_named(9, 0x9000)]["bytes"] == 40 + 36


def test_problems_of_assembly_are_in_the_table_of_problems(capture: Capture) -> None:
    found = sorted((row.code, row.transaction_id, row.severity) for row in capture.problems.collect())
    assert found == [
        ("no_begin", _named(7, 0x7010, False), "warning"),
        ("no_begin", _named(8, 0x8010, False), "warning"),
        ("open_transaction", _named(6, 0x6000), "warning"),
        ("reordered_update", _named(2, 0x2000), "info"),
        ("reordered_update", _named(2, 0x2000), "info"),
        ("update_half", _named(3, 0x3000), "warning"),
        ("update_half", _named(3, 0x3000), "warning"),
    ]


def test_problems_of_bytes_records_and_schemas_are_in_the_table_of_problems(tmp_path: Path) -> None:
    # everything that a reader may have to say of bytes, once
    stream = [
        wire.schema("n integer, scan blob", 80, 2, 0, label=1),
        wire.schema("n integer, what json", 12, 2, 0, label=2),
        wire.begin(5, 0x10),
        wire.insert(5, 0x20, 1, "no schema"),
        wire.goods(),
        wire.insert(5, 0x30, 1, b"\xff\xfe"),
        wire.record(77, b"?"),
        wire.error(-83713, 1),
        b"\xaa" * 40,
        wire.commit(5, 0x50),
        wire.begin(6, 0x60)[:30],
    ]
    file = tmp_path / "stream.bin"
    file.write_bytes(b"".join(stream))
    rows = cdcwb.load(file).problems.collect()
    starts = [sum(map(len, stream[:at])) for at in range(len(stream))]
    found = {(row.code, row.offset): row for row in rows}
    assert len(found) == len(rows)
    assert {(code, offset): row.severity for (code, offset), row in found.items()} == {
        ("lob_not_in_stream", starts[0]): "info",
        ("unknown_type", starts[1]): "warning",
        ("no_schema", starts[3]): "warning",
        ("charset", starts[5]): "warning",
        ("unknown_record_type", starts[6]): "warning",
        ("source_error", starts[7]): "error",
        ("malformed", starts[8]): "error",
        ("truncated", starts[10]): "error",
    }
    assert {row.file for row in rows} == {str(file)}
    for (_, offset), row in found.items():
        at = starts.index(offset)
        assert row.length == len(stream[at])
        assert row.sentence
        if at:  # that content is elsewhere is said of a table, not of a record's bytes
            assert row.first_bytes == stream[at][:32].hex()
    assert found["charset", starts[5]].table == "131"
    assert found["charset", starts[5]].transaction_id == _named(5, 0x10)
    assert "-83713 CDC_E_LSN" in found["source_error", starts[7]].sentence
