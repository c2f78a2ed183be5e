"""Two captures side by side."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cdcwb.analysis.reconcile import difference_rows, reconcile
from cdcwb.analysis.value_comparison import Rules
from cdcwb.errors import OptionError
from tests.changes import Tables, at, change

T = "shop.orders"


def made(number: int, operation: str, key: int, table: str = T, **columns: str | None) -> dict[str, Any]:
    image = {"id": str(key), **columns}
    images = {"before": image} if operation == "DELETE" else {"after": image}
    return change(number, operation, table, key={"id": str(key)}, **images)


def test_planted_differences_are_found_and_nothing_else() -> None:
    rng = random.Random(6)
    source, target, planted = [], [], {"missing": 0, "extra": 0, "different": 0, "late": 0}
    for number in range(3000):
        key, state = number // 3, f"s{rng.random():.9f}"
        operation = ("INSERT", "UPDATE", "DELETE")[number % 3]
        source.append(made(number, operation, key, state=state, total=f"{number}.50"))
        what = rng.choices(["same", "missing", "extra", "different", "late"], [60, 4, 3, 4, 3])[0]
        twin = made(number, operation, key, state=state, total=f"{number}.5")
        twin["committed_at"] = at(number + (60 if what == "late" else 1))
        if what == "different" and operation != "DELETE":
            twin["after"] = [(name, "other" if name == "state" else value) for name, value in twin["after"]]
        elif what == "different":
            what = "same"
        if what != "missing":
            target.append(twin)
        if what == "extra":
            target.append(made(number + 100_000, "INSERT", 50_000 + number, state="x"))
        if what in planted:
            planted[what] += 1
    rules = Rules(late_after=timedelta(seconds=30))
    found = reconcile(Tables(changes=source), Tables(changes=target), rules)
    counts = found.counts()
    assert {name: counts[name] for name in planted} == planted
    assert counts["same"] == 3000 - planted["missing"] - planted["different"]
    (column,) = found.by_column()
    assert (column["column"], column["different"]) == ("state", planted["different"])
    rows = found.differences(5000)
    assert len(rows) == sum(planted.values())
    assert all([one["column"] for one in row["columns"]] == ["state"] for row in rows if row["what"] == "different")


def test_names_and_types_are_mapped() -> None:
    source = Tables(changes=[made(1, "INSERT", 1, flag="t", pay="10.00")])
    twin = change(1, "INSERT", "dw.sales", key={"order_id": "1"}, after={"order_id": "1", "flag": "1", "pay": "10.004"})
    target = Tables(changes=[twin])
    rules = Rules({T: "dw.sales"}, {"id": "order_id"}, {"flag": "boolean"})
    (row,) = reconcile(source, target, rules).differences()
    assert (row["what"], [one["column"] for one in row["columns"]]) == ("different", ["pay"])
    with pytest.raises(OptionError, match="none is in both"):
        reconcile(source, target)


def test_changes_without_a_key_are_told_and_not_compared() -> None:
    capture = Tables(changes=[change(1, "INSERT", T, after={"id": "1"}), made(2, "INSERT", 2)])
    found = reconcile(capture, capture)
    assert found.without_key == [
        {"side": "source", "table": T, "changes": 1},
        {"side": "target", "table": T, "changes": 1},
    ]
    assert found.counts()["same"] == 1


def test_rolled_back_changes_and_full_loads_count_on_neither_side() -> None:
    source = [made(1, "INSERT", 1), made(2, "INSERT", 2) | {"outcome": "rolled_back"}]
    target = [made(1, "INSERT", 1), made(3, "REFRESH", 3) | {"outcome": None}]
    counts = reconcile(Tables(changes=source), Tables(changes=target)).counts()
    assert counts == {"same": 1, "missing": 0, "extra": 0, "different": 0, "late": 0}


def test_a_side_without_a_key_takes_that_of_the_other() -> None:
    source = Tables(changes=[change(n, "INSERT", T, after={"ID": str(n), "a": "x"}) for n in (1, 2)])
    target = Tables(changes=[made(1, "INSERT", 1, a="x"), made(2, "INSERT", 2, a="y")])
    there = reconcile(source, target)
    assert there.notes == [
        f"{T}: the source names no key; the target's is taken: ID.",
        f"{T}: ID is in no change of the target and compared with nothing.",
    ]
    assert there.without_key == []
    assert (there.counts()["same"], there.counts()["different"]) == (1, 1)
    back = reconcile(target, source)
    assert back.notes[0] == f"{T}: the target names no key; the source's is taken: ID."
    assert (back.counts()["same"], back.counts()["different"]) == (1, 1)


def test_a_key_is_inferred_only_if_it_is_asked_for_and_the_notes_say_which() -> None:
    def keyless(*numbers: int) -> list[dict[str, Any]]:
        return [change(n, "INSERT", T, after={"state": "new", "id": str(n)}) for n in numbers]

    moved = change(50, "UPDATE", T, before={"state": "new", "id": "7"}, after={"state": "sent", "id": "7"})
    source = Tables(changes=[*keyless(*range(1, 26)), moved])
    target = Tables(changes=[*keyless(*range(2, 26)), moved])
    refused = reconcile(source, target)
    assert refused.counts()["same"] == 0
    assert sum(row["changes"] for row in refused.without_key) == 51
    assert refused.inferred == ()
    named = f"Name it with the reader option keys={T}:column+column"
    infer = "let it be inferred from at least 20 inserted rows with --infer-keys (in Python infer_keys=True)"
    assert refused.notes == [f"{T}: neither capture has a key, so no change is compared. {named}, or {infer}."]
    found = reconcile(source, target, infer=True)
    assert found.without_key == []
    assert (found.counts()["same"], found.counts()["missing"], found.counts()["extra"]) == (25, 1, 0)
    assert [(one.table, one.column, one.rows) for one in found.inferred] == [(T, "id", 25)]
    assert f"{T}: the target names no key; the source's is taken: id." in found.notes
    assert any("Its key is inferred: id is unique in 25 inserted rows." in note for note in found.notes)
    # of 19 rows no key is inferred
    few = Tables(changes=keyless(*range(19)))
    assert reconcile(few, few, infer=True).inferred == ()


def test_what_cannot_be_compared_is_said() -> None:
    source = Tables(changes=[made(1, "INSERT", 1), made(2, "INSERT", 2, "shop.here")])
    other = change(1, "INSERT", T, key={"no": "1"}, after={"no": "1"})
    target = Tables(changes=[other, made(2, "INSERT", 2, "shop.there")])
    found = reconcile(source, target)
    assert found.notes == [
        "The target has no change of shop.here; its changes with a key in the source: 1.",
        f"{T}: the source's key is id, the target's no, so no change can be matched.",
        f"{T}: id is in no change of the target and compared with nothing.",
        "The source has no change of shop.there; its changes with a key in the target: 1.",
    ]
    assert (found.counts()["missing"], found.counts()["extra"]) == (2, 2)


def test_rules_about_names_that_neither_has_are_refused_together() -> None:
    capture = Tables(changes=[made(1, "INSERT", 1, state="x")])
    rules = Rules({"shop.order": "shop.ordres"}, {"stat": "state"}, {f"{T}.staet": "text"})
    with pytest.raises(OptionError) as caught:
        reconcile(capture, capture, rules)
    for part in ("no table 'shop.order'", "no table 'shop.ordres'", "no column 'stat'", f"no column '{T}.staet'"):
        assert part in str(caught.value)


def test_every_missing_and_extra_change_has_its_reason(tmp_path: Path) -> None:
    rng = random.Random(11)
    source: list[dict[str, Any]] = []
    target: list[dict[str, Any]] = []
    planted = {"missing": dict[str, int](), "extra": dict[str, int]()}

    def alone(side: str, reason: str) -> None:
        planted[side][reason] = planted[side].get(reason, 0) + 1

    def update(number: int, key: int, old: str, new: str) -> dict[str, Any]:
        images = {"before": {"id": str(key), "state": old}, "after": {"id": str(key), "state": new}}
        changed = [] if old == new else ["state"]
        return change(number, "UPDATE", T, key={"id": str(key)}, changed_columns=changed, **images)

    for key in range(400):
        number = 10 + key * 4
        rows = [made(number, "INSERT", key, state="new"), update(number + 1, key, "new", "paid")]
        rows.append(update(number + 2, key, "paid", "sent"))
        what = rng.choice(["no_op_update", "duplicate", "unexplained", "out_of_order", "same", "after_end"])
        theirs = [dict(row) for row in rows]
        if what == "no_op_update":
            source.append(update(number + 3, key, "sent", "sent"))
            alone("missing", what)
        elif what == "duplicate":
            theirs.append(update(number + 3, key, "paid", "sent"))
            alone("extra", what)
        elif what == "unexplained":
            theirs.pop(1)
            alone("missing", what)
        elif what == "out_of_order":
            theirs[1], theirs[2] = update(number + 1, key, "paid", "sent"), update(number + 2, key, "new", "paid")
            for side in planted:
                alone(side, what)
        elif what == "after_end":
            source.append(made(9_000 + key, "DELETE", key, state="sent"))
            alone("missing", what)
        source += rows
        target += theirs
    assert min(n for side in planted.values() for n in side.values()) > 30
    found = reconcile(Tables(changes=source), Tables(changes=target))
    found = found.stored(tmp_path / "kept")
    assert {what: found.by_reason(what) for what in planted} == planted
    assert [*found.by_reason("missing").values()] == sorted(planted["missing"].values(), reverse=True)
    rows_found = found.differences(2000)
    assert all((row["reason"] is None) == (row["what"] in ("same", "different")) for row in rows_found)
    shown = {row["key"]: row for row in difference_rows(rows_found) if row["reason"] == "unexplained"}
    assert {row["sentence"] for row in shown.values()} == {"state: from new to paid"}
    idle = [row for row in rows_found if row["reason"] == "no_op_update"]
    assert all(row["changed"] == [] for row in idle)


def test_delays_and_times_add_up_to_the_counts(tmp_path: Path) -> None:
    source = [made(n, "INSERT", n, state="a") for n in range(1, 9)]
    target = [
        made(n, "INSERT", n, state="b" if n == 2 else "a") | {"committed_at": at(n + n * 0.4)} for n in range(2, 10)
    ]
    rules = Rules(late_after=timedelta(seconds=3))
    found = reconcile(Tables(changes=source), Tables(changes=target), rules)
    found = found.stored(tmp_path / "kept")
    counts = found.counts()
    assert counts == {"same": 6, "missing": 1, "extra": 1, "different": 1, "late": 1}
    assert found.unlike == 4
    assert sum(row["changes"] for row in found.delays()) == counts["same"] + counts["different"]
    assert sum(row["late"] for row in found.delays()) == 1
    assert found.delays()[0]["from_us"] == 500_000
    spans = found.over_time()
    assert {name: sum(row[name] for row in spans) for name in ("missing", "extra", "different", "late")} == {
        "missing": 1,
        "extra": 1,
        "different": 1,
        "late": 1,
    }
    assert found.by_table()[0] | {"slowest_us": 0} == {"table": T, **counts, "slowest_us": 0}
    assert found.by_table()[0]["slowest_us"] == 3_200_000
