"""The changes of any capture as events: which verb, which object, which values, and what is left out and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.analysis.xds_changes import xds_of_changes
from cdcwb.model import CHANGES
from cdcwb.xds import Settings, documents
from cdcwb.xds.changes import Rendered, events_of_changes
from tests.changes import Tables

KEY = {"id": "7"}
NO_KEY = "no key is known of hr.staff; give it with the option keys=hr.staff:column+column, or --infer-keys"


def change(operation: str = "UPDATE", **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "operation": operation,
        "outcome": "committed",
        "schema_name": "hr",
        "table_name": "staff",
        "key": KEY,
        "before": None,
        "after": {"id": "7", "name": "Ada", "room": None},
        **fields,
    }
    maps = ("key", "before", "after", "headers")
    return {name: None if row.get(name) is None else list(row[name].items()) for name in maps} | {
        name: row.get(name) for name in CHANGES.names if name not in maps
    }


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CHANGES)


def rendered(*rows: dict[str, Any], **settings: Any) -> Rendered:
    return events_of_changes(table(*rows), Settings(**settings))


def event(*rows: dict[str, Any], **settings: Any) -> dict[str, Any]:
    found = rendered(*rows, **settings)
    assert found.left_out.to_pylist() == []
    (row,) = found.events.to_pylist()
    return dict(row)


def reason(row: dict[str, Any], **settings: Any) -> str:
    found = rendered(row, **settings)
    assert found.events.num_rows == 0
    ((place, sentence),) = [(left["row"], left["reason"]) for left in found.left_out.to_pylist()]
    assert place == 0
    return str(sentence)


def attrs(*rows: dict[str, Any], **settings: Any) -> list[tuple[str, bool, str | None, str | None]]:
    return [(a["name"], a["remove_all"], a["remove"], a["add"]) for a in event(*rows, **settings)["attrs"]]


@pytest.mark.parametrize("operation", ["INSERT", "REFRESH"])
def test_an_insert_adds_every_value_of_the_row_and_no_null(operation: str) -> None:
    assert event(change(operation, outcome=None)) == {
        "document": 1,
        "event": 1,
        "verb": "add",
        "class_name": "staff",
        "association": "id=7,table=staff,schema=hr",
        "attrs": [
            {"name": "id", "type": "string", "remove_all": False, "remove": None, "add": "7"},
            {"name": "name", "type": "string", "remove_all": False, "remove": None, "add": "Ada"},
        ],
    }


def test_a_delete_names_its_object_and_nothing_else() -> None:
    found = event(change("DELETE", after=None, before={"id": "7", "name": "Ada"}))
    assert (found["verb"], found["association"], found["attrs"]) == ("delete", "id=7,table=staff,schema=hr", [])


BOTH = {"before": {"id": "7", "name": "Eve", "room": "1"}, "after": {"id": "7", "name": "Ada", "room": "2"}}


def test_an_update_takes_the_old_value_away_where_the_before_image_has_it() -> None:
    assert attrs(change(changed_columns=["name"], **BOTH)) == [("name", False, "Eve", "Ada")]


def test_an_update_takes_all_values_away_where_the_old_one_is_not_known() -> None:
    assert attrs(change(changed_columns=["name"])) == [("name", True, None, "Ada")]
    assert attrs(change(changed_columns=["name"], before={"id": "7"})) == [("name", True, None, "Ada")]


def test_an_update_to_null_only_takes_away() -> None:
    assert attrs(change(changed_columns=["room"], before={"room": "1"})) == [("room", False, "1", None)]
    found = event(change(changed_columns=["room"]))["attrs"]
    assert found == [{"name": "room", "type": None, "remove_all": True, "remove": None, "add": None}]


def test_an_update_from_null_only_adds() -> None:
    assert attrs(change(changed_columns=["name"], before={"name": None})) == [("name", False, None, "Ada")]


def test_columns_come_in_the_order_in_which_they_are_said_to_have_changed() -> None:
    assert [name for name, *_ in attrs(change(changed_columns=["room", "name"], **BOTH))] == ["room", "name"]


def test_where_nothing_says_what_changed_the_images_do() -> None:
    images = {"before": {"id": "7", "name": "Eve", "room": None}, "after": {"id": "7", "name": "Ada", "room": None}}
    assert attrs(change(**images)) == [("name", False, "Eve", "Ada")]
    assert attrs(change(after={"name": "Ada", "room": None})) == [
        ("name", True, None, "Ada"),
        ("room", True, None, None),
    ]


def test_a_column_that_was_not_captured_is_passed_over() -> None:
    assert attrs(change(changed_columns=["name", "photo"])) == [("name", True, None, "Ada")]
    assert reason(change(changed_columns=["photo"])) == "no column is known to have changed"
    assert reason(change(changed_columns=["room"], before={"room": None})) == "no column is known to have changed"


def test_the_association_is_that_of_the_key_before_the_change() -> None:
    row = change(changed_columns=["id"], key={"id": "8"}, before={"id": "7"}, after={"id": "8"})
    assert event(row)["association"] == "id=7,table=staff,schema=hr"
    assert attrs(row) == [("id", False, "7", "8")]
    without = change(changed_columns=["name"], key={"id": "8", "site": "B"}, before={"id": "7"})
    assert event(without)["association"] == "id=7+site=B,table=staff,schema=hr"


def test_key_table_and_schema_are_quoted_where_they_must_be() -> None:
    key = {"a": ", ; ' + \" = \\ < >", "b": "", "c": "x y"}
    found = event(change("DELETE", key=key, table_name="st=aff", schema_name=None), schema="h+r")
    assert found["association"] == (r'a=", ; ' + "'" + r' + \" = \\ < >"+b=""+c=x y,table="st=aff",schema="h+r"')


def test_without_a_schema_there_is_none_in_the_association() -> None:
    assert event(change("DELETE", schema_name=None))["association"] == "id=7,table=staff"
    assert event(change("DELETE", schema_name=None), schema="hr")["association"] == "id=7,table=staff,schema=hr"


def test_classes_and_types_are_those_of_the_settings() -> None:
    found = event(change("INSERT"), class_names={"hr.staff": "User"}, types={"id": "int", "staff.name": "dn"})
    assert found["class_name"] == "User"
    assert [attribute["type"] for attribute in found["attrs"]] == ["int", "dn"]


def test_hexadecimal_octets_become_base64_and_others_stay() -> None:
    images = {"before": {"photo": "aaaa"}, "after": {"photo": "bbbb"}}
    assert attrs(change(**images), types={"photo": "octet"}) == [("photo", False, "qqo=", "u7s=")]
    row = change("INSERT", after={"photo": "qqo="})
    assert attrs(row, types={"photo": "octet"}) == [("photo", False, None, "qqo=")]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (change("TRUNCATE"), "TRUNCATE is not an event"),
        (change("DDL"), "DDL is not an event"),
        (change("UNKNOWN(9)"), "UNKNOWN(9) is not an event"),
        (change(outcome="rolled_back"), "not committed: its outcome is rolled_back"),
        (change(outcome="open"), "not committed: its outcome is open"),
        (change(key=None), NO_KEY),
        (change(key={}), NO_KEY),
        (change(key={"id": None}), "a column of its key is NULL"),
        (change(key={"i=d": "1"}), "the name of a column of its key cannot be part of an association"),
        (change(key={"id": "\x01"}), "its key has a character that XML 1.0 cannot hold"),
        (change(table_name="\x01"), "its table or schema has a character that XML 1.0 cannot hold"),
        (change(table_name=None), "it names no table"),
        (change("INSERT", after=None), "it has no after image"),
        (change("UPDATE", after=None), "it has no after image"),
        (change(after={"a": "\ufffe"}), "a value or a column name has a character that XML 1.0 cannot hold"),
        (change(after={"": "a"}), "a column has no name"),
        (
            change("DELETE", problems=[{"code": "charset", "detail": "…"}]),
            "it has bytes that are not in the character set",
        ),
    ],
)
def test_what_is_no_event_is_left_out_with_its_reason(row: dict[str, Any], sentence: str) -> None:
    assert reason(row) == sentence


def test_events_are_numbered_on_and_lead_back_to_their_changes() -> None:
    rows = [change("INSERT"), change("DDL"), change("DELETE"), change("INSERT"), change(key=None)]
    found = events_of_changes(table(*rows), Settings(batch_size=2), event=4)
    assert found.events["event"].to_pylist() == [4, 5, 6]
    assert found.events["document"].to_pylist() == [2, 3, 3]
    assert found.rows.to_pylist() == [0, 2, 3]
    assert found.left_out["row"].to_pylist() == [1, 4]


def test_a_change_whose_commit_is_not_in_the_capture_is_published_at_its_own_position() -> None:
    about = {"file": "a.bin", "file_index": 0}
    rows = [
        change("INSERT", position="1", commit_position="2", offset=0, **about),
        change("DELETE", position="3", commit_position=None, offset=1, **about),
    ]
    capture = SimpleNamespace(has_images=True, rows=Tables(changes=rows).rows)
    published = xds_of_changes(capture, Settings())
    assert published.decisions.table().sort_by("offset")["event"].to_pylist() == [1, 2]


def test_no_changes_are_no_events() -> None:
    found = events_of_changes(table(), Settings())
    assert (found.events.num_rows, found.left_out.num_rows, len(found.rows)) == (0, 0, 0)


# --- against the plain way --------------------------------------------------------------------------------------------

VALUES = st.none() | st.sampled_from(["", "a", "b", " c ", "<&>", "\x02"])
IMAGES = st.none() | st.dictionaries(st.sampled_from(["id", "x", "y", "z"]), VALUES, max_size=4)
ROWS = st.builds(
    change,
    st.sampled_from(["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE", "DDL"]),
    key=st.none() | st.dictionaries(st.sampled_from(["id", "x"]), VALUES, max_size=2),
    before=IMAGES,
    after=IMAGES,
    changed_columns=st.none() | st.lists(st.sampled_from(["id", "x", "y", "q"]), unique=True),
)


def plainly(row: dict[str, Any]) -> list[tuple[str, bool, str | None, str | None]] | None:
    """The attributes of a change, None where it is left out."""
    key, before, after = (None if row[name] is None else dict(row[name]) for name in ("key", "before", "after"))
    if row["operation"] == "DDL" or not key:
        return None
    held = before if before is not None and row["operation"] == "UPDATE" else {}
    if row["operation"] != "DELETE" and after is None:
        return None
    for name, value in key.items():
        old = held.get(name)
        used = value if old is None else old
        if used is None or "\x02" in used:
            return None
    if row["operation"] == "DELETE":
        return []
    assert after is not None
    if row["operation"] == "INSERT":
        found = [(name, False, None, value) for name, value in after.items() if value is not None]
    else:
        found = []
        says = row["changed_columns"] is not None
        for name in row["changed_columns"] if says else after:
            if name not in after or (not says and name in held and held[name] == after[name]):
                continue
            one = (name, name not in held, held.get(name), after[name])
            if any(one[1:]) or "" in one[2:]:
                found.append(one)
        if not found:
            return None
    return None if any("\x02" in (text or "") for _, _, *texts in found for text in texts) else found


@given(st.lists(ROWS, max_size=12), st.integers(0, 3))
def test_many_changes_at_once_are_what_each_is_alone(rows: list[dict[str, Any]], skipped: int) -> None:
    found = events_of_changes(table(*rows).slice(skipped), Settings())
    wanted = [plainly(row) for row in rows[skipped:]]
    assert [
        [(a["name"], a["remove_all"], a["remove"], a["add"]) for a in row["attrs"]] for row in found.events.to_pylist()
    ] == [one for one in wanted if one is not None]
    assert found.left_out["row"].to_pylist() == [place for place, one in enumerate(wanted) if one is None]
    assert len(list(documents(found.events))) == found.events.num_rows
