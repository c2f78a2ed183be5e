"""Changes that are taken back inside their transaction."""

from __future__ import annotations

from typing import Any

from cdcwb.formats.trail import outcomes


def change(operation: str, key: int | None, undoes: bool = False, **more: Any) -> dict[str, Any]:
    named = {"key": None if key is None else {"id": str(key)}, "before": None, "after": None, "table": "shop.stock"}
    return {"operation": operation, "undoes": undoes, **named, **more}


def test_an_undo_takes_back_the_latest_opposite_change_of_its_row() -> None:
    changes = [change("INSERT", 1), change("UPDATE", 1), change("UPDATE", 1), change("UPDATE", 1, undoes=True)]
    assert outcomes(changes) == {2: "undone", 3: "undo"}


def test_undos_run_backwards_through_a_transaction() -> None:
    changes = [
        change("INSERT", 1),
        change("UPDATE", 1),
        change("UPDATE", 1, undoes=True),
        change("DELETE", 1, undoes=True),
    ]
    assert outcomes(changes) == {0: "undone", 1: "undone", 2: "undo", 3: "undo"}


def test_other_rows_tables_and_operations_stay() -> None:
    changes = [
        change("INSERT", 1),
        change("INSERT", 2),
        change("INSERT", 1, table="shop.other"),
        change("UPDATE", 1),
        change("DELETE", 1, undoes=True),
    ]
    assert outcomes(changes) == {0: "undone", 4: "undo"}


def test_an_undo_without_its_change_is_still_an_undo() -> None:
    assert outcomes([change("DELETE", 1, undoes=True), change("INSERT", 1)]) == {0: "undo"}


def test_without_keys_the_images_tell_the_row() -> None:
    changes = [
        change("INSERT", None, after={"c0": "1", "c1": "a"}),
        change("INSERT", None, after={"c0": "2", "c1": "b"}),
        change("DELETE", None, undoes=True, before={"c0": "1"}),
    ]
    assert outcomes(changes) == {0: "undone", 2: "undo"}


def test_images_that_share_no_column_are_not_the_same_row() -> None:
    changes = [change("INSERT", None, after={"c0": "1"}), change("DELETE", None, undoes=True, before={"c1": "1"})]
    assert outcomes(changes) == {1: "undo"}
