"""The states of a row: what its changes leave, one after the other."""

from __future__ import annotations

from typing import Any

from cdcwb.analysis.history import history_rows, state_rows, states, value_rows


def made(operation: str, image: dict[str, str | None] | None, *differences: Any, back: bool = False) -> dict[str, Any]:
    names = ("column", "old", "new", "old_known")
    return {
        **dict.fromkeys(("at", "transaction_id", "position", "outcome")),
        "operation": operation,
        "taken_back": back,
        "image": image,
        "differences": [dict(zip(names, one, strict=True)) for one in differences],
        "places": [{"file": "a.bin", "offset": 5, "length": 1}],
    }


LIFE = [
    made("INSERT", {"id": "1", "state": "new", "note": None}, ("state", None, "new", False)),
    made("UPDATE", {"state": "lost"}, ("state", "new", "lost", True), back=True),
    made("UPDATE", {"state": "paid"}, ("state", "new", "paid", True)),
    made("DELETE", None, ("state", "paid", None, True)),
    made("INSERT", {"id": "1", "state": "again"}, ("state", None, "again", False)),
]


def test_an_update_leaves_what_it_does_not_speak_of_and_what_was_taken_back_leaves_nothing() -> None:
    assert [row for _, row in states(LIFE)] == [
        {"id": "1", "state": "new", "note": None},
        {"id": "1", "state": "paid", "note": None},
        None,
        {"id": "1", "state": "again"},
    ]


def test_a_table_of_states_tells_null_from_what_is_not_known() -> None:
    rows, columns = state_rows(LIFE)
    assert columns == {"c0": "id", "c1": "state", "c2": "note"}
    assert [(row["operation"], row["c1"], row["c2"]) for row in rows] == [
        ("INSERT", "new", "NULL"),
        ("UPDATE", "paid", "NULL"),
        ("DELETE", None, None),
        ("INSERT", "again", None),
    ]


def test_every_change_of_a_column_has_its_old_and_its_new_value() -> None:
    assert [(row["operation"], row["old"], row["new"]) for row in value_rows(LIFE)] == [
        ("INSERT", None, "new"),
        ("UPDATE", "new", "lost"),
        ("UPDATE", "new", "paid"),
        ("DELETE", "paid", None),
        ("INSERT", None, "again"),
    ]
    unknown = made("UPDATE", {"state": "x"}, ("state", None, "x", False))
    assert value_rows([unknown])[0]["old"] == "not captured"


def test_a_change_of_a_row_names_its_record() -> None:
    about = {"transaction_id": "7", "user": None, "change_mask": None, "table_version": "t@1", "position": "12"}
    change = made("INSERT", {"a": "1"}) | about | {"file": "/in/log.bin", "offset": 40, "record": 3}
    change |= {"outcome": "committed", "places": [{"file": "/in/log.bin", "offset": 40}]}
    (row,) = history_rows([change])
    assert (row["file"], row["offset"], row["record"], row["position"]) == ("/in/log.bin", 40, 3, "12")
