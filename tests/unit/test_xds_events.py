"""Published rows as events: attributes, NULL, types, associations, and the example of the vendor's guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from cdcwb.errors import CaptureError
from cdcwb.xds import ROWS, Settings, Snapshot, documents, to_event_table
from tests.xds_rows import published, row


def attributes(*rows: dict[str, Any], **settings: Any) -> list[tuple[Any, ...]]:
    (event,) = published(*rows, **settings).events.to_pylist()
    return [(one["name"], one["remove_all"], one["remove"], one["add"]) for one in event["attrs"]]


def test_null_is_written_where_there_is_a_form_for_it() -> None:
    snapshot = Snapshot.of({"usr": pa.table({"idu": [1], "fname": pa.array([None], pa.string())})})
    assert attributes(row(1)) == []
    assert attributes(row(2, old_value="a")) == [("fname", False, "a", None)]
    assert attributes(row(2, new_value="")) == [("fname", False, None, "")]
    assert attributes(row(3)) == [("fname", True, None, None)]
    for kind in (5, 7):
        assert attributes(row(kind), snapshot=snapshot) == []
    for kind in (6, 8):
        assert attributes(row(kind), snapshot=snapshot) == [("fname", True, None, None)]


def test_the_same_query_back_is_written_once_in_an_event() -> None:
    whole = [("fname", True, None, "John"), ("lname", True, None, "Doe"), ("photo", True, None, "u7s=")]
    assert attributes(row(6), row(6)) == whole
    assert attributes(row(8, column_name="lname"), row(8), row(8, column_name="lname")) == [whole[1], whole[0]]
    assert attributes(row(5), row(6), row(5), type5="modify") == whole
    assert attributes(row(3, new_value="a"), row(3, new_value="a")) == [("fname", True, None, "a")] * 2


def test_an_add_of_a_key_column_has_no_attribute() -> None:
    assert attributes(row(7, column_name="IDU")) == []
    assert attributes(row(5), snapshot=Snapshot.of({"usr": pa.table({"idu": [1]})})) == []


@pytest.mark.parametrize(
    ("table", "settings", "class_name", "association"),
    [
        ("usr", {}, "usr", "idu=1,table=usr"),
        ("usr", {"schema": "indirect"}, "usr", "idu=1,table=usr,schema=indirect"),
        ("hr.usr", {"schema": "indirect"}, "usr", "idu=1,table=usr,schema=hr"),
        ("db.hr.usr", {}, "usr", "idu=1,table=usr,schema=db.hr"),
        ("hr.usr", {"class_names": "usr=User"}, "User", "idu=1,table=usr,schema=hr"),
        ("hr.usr", {"class_names": "usr=User,hr.usr=Staff"}, "Staff", "idu=1,table=usr,schema=hr"),
        ('a "b"', {"schema": "x+y"}, 'a "b"', 'idu=1,table="a \\"b\\"",schema="x+y"'),
        ("usr.", {}, "usr.", "idu=1,table=usr."),
    ],
)
def test_class_and_association(table: str, settings: dict[str, Any], class_name: str, association: str) -> None:
    (event,) = published(row(4, table_name=table), **settings).events.to_pylist()
    assert (event["class_name"], event["association"], event["attrs"]) == (class_name, association, [])


def test_value_types_are_set_or_those_of_the_snapshot() -> None:
    def types(**settings: Any) -> list[str]:
        (event,) = published(row(6), **settings).events.to_pylist()
        return [one["type"] for one in event["attrs"]]

    assert types() == ["string", "string", "octet"]
    assert types(types="usr.FNAME:int,lname:teleNumber,photo:string") == ["int", "teleNumber", "string"]
    assert types(types="hr.usr.fname:int") == ["string", "string", "octet"]
    logged = published(row(2, column_name="PHOTO", new_value="u7s=")).events.to_pylist()
    assert logged[0]["attrs"][0]["type"] == "octet"


def test_nothing_is_made_up_where_the_snapshot_is_forgotten() -> None:
    numbered = pa.table(
        {name: [value] for name, value in row(6).items() if name in ROWS.names}
        | {"type": [6], "verb": ["modify"], "event": [1], "document": [1]}
    )
    with pytest.raises(CaptureError, match="no snapshot"):
        to_event_table(numbered, Settings())


# --- the vendor's own example -----------------------------------------------------------------------------------------

VALUES = (("fname", "Jack", "John"), ("lname", "Frost", "Doe"), ("photo", "qqo=", "u7s="))
EXAMPLE: dict[int, list[dict[str, Any]]] = {
    1: [row(1, column_name=name, new_value=old) for name, old, _ in VALUES],
    2: [row(2, column_name=name, old_value=old, new_value=new) for name, old, new in VALUES],
    3: [row(3, column_name=name, old_value=old, new_value=new) for name, old, new in VALUES],
    4: [row(4, column_name=None)],
    5: [row(5, column_name=None)],
    6: [row(6, column_name=None)],
    7: [row(7, column_name=name) for name, _, _ in VALUES],
    8: [row(8, column_name=name) for name, _, _ in VALUES],
}


def value(kind: str, text: str) -> str:
    return f'<value type="{kind}">{text}</value>'


def example(kind: int) -> str:
    """What the guide prints for a type, without white space between elements."""
    head = "<association>idu=1,table=usr,schema=indirect</association>"
    if kind == 4:
        return f'<delete class-name="usr">{head}</delete>'
    body = ""
    for name, old, new in VALUES:
        of = "octet" if name == "photo" else "string"
        if kind in (1, 5, 7):
            body += f'<add-attr attr-name="{name}">{value(of, old if kind == 1 else new)}</add-attr>'
            continue
        removed = f"<remove-value>{value(of, old)}</remove-value>" if kind == 2 else "<remove-all-values/>"
        body += f'<modify-attr attr-name="{name}">{removed}<add-value>{value(of, new)}</add-value></modify-attr>'
    verb = "add" if kind in (1, 5, 7) else "modify"
    return f'<{verb} class-name="usr">{head}{body}</{verb}>'


def squeezed(xml: bytes) -> str:
    """The one event in some XML, without white space around texts."""
    root = etree.fromstring(xml)
    event = root.find("input")[0] if root.tag == "nds" else root
    for element in event.iter():
        element.tail = None
        element.text = (element.text or "").strip() or None
    return etree.tostring(event).decode()


def rendered(kind: int, **settings: Any) -> str:
    found = published(*EXAMPLE[kind], schema="indirect", **settings)
    ((number, document),) = documents(found.events)
    assert number == 1
    return squeezed(document)


@pytest.mark.parametrize("kind", range(1, 9))
def test_the_guides_example(kind: int) -> None:
    assert rendered(kind) == example(kind)


def test_type_5_is_a_modify_on_request() -> None:
    assert rendered(5, type5="modify") == example(6)


@pytest.mark.parametrize("kind", range(1, 5))
def test_log_alone_says_what_types_1_to_4_are(kind: int) -> None:
    assert rendered(kind, snapshot=None, types="photo:octet") == example(kind)


@pytest.mark.samples
@pytest.mark.parametrize("kind", range(1, 5))
def test_the_documents_that_the_guide_prints(samples: Path, kind: int) -> None:
    assert rendered(kind) == squeezed((samples / f"idm/doc-type{kind}.xml").read_bytes())


@pytest.mark.samples
def test_the_modify_that_an_older_guide_prints_for_type_5(samples: Path) -> None:
    wanted = squeezed((samples / "idm/seed-labelled-type5-SUSPECT.xml").read_bytes())
    assert rendered(5, type5="modify") == wanted
