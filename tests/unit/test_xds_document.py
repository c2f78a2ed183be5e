"""XDS documents: the bytes of the column-wise writer are those of the plain one, and what no document may hold."""

from __future__ import annotations

import itertools
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cdcwb.errors import CaptureError
from cdcwb.formats.idm_event_log.decode import xml_unfit
from cdcwb.xds import EVENT, document, document_batches, documents, validate
from cdcwb.xds.document import TYPES, association, quoted
from tests.reference.xds_documents import documents_plainly
from tests.xds_events import SPECIAL, made


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=EVENT)


def attr(name: str | None = "fname", **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "remove_all": False, "remove": None, "add": None, **fields}


def event(verb: str = "add", *attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    named = {"document": 1, "event": 1, "class_name": "usr", "association": "idu=1,table=usr,schema=indirect"}
    return {**named, "verb": verb, "attrs": list(attributes), **fields}


def only(rows: pa.Table) -> str:
    ((number, text),) = documents(rows, product_version="1.2")
    assert number == 1
    return text.decode()


def written(*rows: dict[str, Any]) -> str:
    """What stands in the input of the one document."""
    return only(table(*rows)).partition("  <input>\n")[2].removesuffix("  </input>\n</nds>\n")


# --- the form ---------------------------------------------------------------------------------------------------------


def test_a_document_is_an_envelope_with_its_events() -> None:
    rows = table(event("delete"), event("add", attr(add="John", type="octet"), event=2))
    assert only(rows) == (
        '<nds dtdversion="4.0" ndsversion="8.x">\n'
        "  <source>\n"
        '    <product version="1.2">cdcwb</product>\n'
        "  </source>\n"
        "  <input>\n"
        '    <delete class-name="usr">\n'
        "      <association>idu=1,table=usr,schema=indirect</association>\n"
        "    </delete>\n"
        '    <add class-name="usr">\n'
        "      <association>idu=1,table=usr,schema=indirect</association>\n"
        '      <add-attr attr-name="fname">\n'
        '        <value type="octet">John</value>\n'
        "      </add-attr>\n"
        "    </add>\n"
        "  </input>\n"
        "</nds>\n"
    )


def test_the_product_version_is_that_of_cdcwb_unless_given() -> None:
    ((_, text),) = documents(table(event()))
    assert f'<product version="{version("cdcwb")}">cdcwb</product>' in text.decode()
    ((_, text),) = documents(table(event()), product_version='<"&')
    assert b'<product version="&lt;&quot;&amp;">' in text


def test_a_modify_removes_before_it_adds() -> None:
    rows = event(
        "modify",
        attr("a", remove="x", add="y"),
        attr("b", remove_all=True, add="y"),
        attr("c", remove_all=True),
        attr("d", remove="x"),
        attr("e", add="y", type=None),
    )
    assert [line.strip() for line in written(rows).splitlines()[2:-1]] == [
        *('<modify-attr attr-name="a">', "<remove-value>", '<value type="string">x</value>', "</remove-value>"),
        *("<add-value>", '<value type="string">y</value>', "</add-value>", "</modify-attr>"),
        *('<modify-attr attr-name="b">', "<remove-all-values/>"),
        *("<add-value>", '<value type="string">y</value>', "</add-value>", "</modify-attr>"),
        *('<modify-attr attr-name="c">', "<remove-all-values/>", "</modify-attr>"),
        *('<modify-attr attr-name="d">', "<remove-value>", '<value type="string">x</value>', "</remove-value>"),
        "</modify-attr>",
        *('<modify-attr attr-name="e">', "<add-value>", "<value>y</value>", "</add-value>", "</modify-attr>"),
    ]


def test_what_is_empty_has_no_end_tag_and_what_is_null_no_element() -> None:
    assert written(event(association=None)) == '    <add class-name="usr"/>\n'
    assert written(event(association="")) == '    <add class-name="usr">\n      <association/>\n    </add>\n'
    assert '<value type="string"/>' in written(event("add", attr(add="")))


def test_a_null_list_of_attributes_is_an_empty_one() -> None:
    assert written(event(attrs=None)) == written(event(attrs=[]))


@pytest.mark.parametrize("name", ["a\r\n\t\"'<>&b"])
def test_attributes_and_text_are_escaped_each_in_its_way(name: str) -> None:
    text = written(event("add", attr(name, add=name), association=name, class_name=name))
    assert text.count('="a&#13;&#10;&#9;&quot;\'&lt;&gt;&amp;b"') == 2
    assert text.count(">a&#13;\n\t\"'&lt;&gt;&amp;b<") == 2


# --- the source document's own examples -------------------------------------------------------------------------------

VALUES = (("fname", "string", "Jack", "John"), ("lname", "string", "Frost", "Doe"), ("photo", "octet", "qqo=", "u7s="))
EXAMPLES = {
    1: event("add", *(attr(name, type=kind, add=old) for name, kind, old, _ in VALUES)),
    2: event("modify", *(attr(name, type=kind, remove=old, add=new) for name, kind, old, new in VALUES)),
    3: event("modify", *(attr(name, type=kind, remove_all=True, add=new) for name, kind, _, new in VALUES)),
    4: event("delete"),
}


@pytest.mark.samples
@pytest.mark.parametrize("number", EXAMPLES)
def test_the_published_examples_are_written_as_they_are_printed(samples: Path, number: int) -> None:
    """But for line breaks and indentation, and the blank before the end of an association, which is one of them."""
    printed = (samples / "idm" / f"doc-type{number}.xml").read_text(encoding="utf-8")
    assert words(written(EXAMPLES[number])) == words(printed)


def words(text: str) -> str:
    for around in ("<", ">"):
        text = around.join(part.strip() for part in text.split(around))
    return text


# --- against the plain way --------------------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(SPECIAL), max_size=4).map("".join) | st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")
)
NAMES = TEXTS.filter(bool)
TYPE = st.sampled_from((None, *TYPES))
ADDED = st.builds(attr, NAMES, type=TYPE, add=TEXTS)
MODIFIED = st.one_of(
    st.builds(attr, NAMES, type=TYPE, remove=TEXTS, add=st.none() | TEXTS),
    st.builds(attr, NAMES, type=TYPE, remove_all=st.just(True), add=st.none() | TEXTS),
    ADDED,
)
OBJECT = {"class_name": NAMES, "association": st.none() | TEXTS}
EVENTS = st.one_of(
    st.builds(lambda held, **fields: event("add", *held, **fields), st.lists(ADDED, max_size=4), **OBJECT),
    st.builds(
        lambda held, **fields: event("modify", *held, **fields), st.lists(MODIFIED, min_size=1, max_size=4), **OBJECT
    ),
    st.builds(lambda **fields: event("delete", **fields), **OBJECT),
)


def numbered(events: list[dict[str, Any]], sizes: list[int]) -> list[dict[str, Any]]:
    """The events with as many to a document as the sizes say, over and over."""
    places = itertools.chain.from_iterable([n] * size for n, size in enumerate(itertools.cycle(sizes), 1))
    return [row | {"document": next(places), "event": place} for place, row in enumerate(events, 1)]


@given(st.lists(EVENTS, max_size=12), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 2))
def test_the_bytes_are_those_of_the_plain_way(events: list[dict[str, Any]], sizes: list[int], skipped: int) -> None:
    rows = table(*numbered(events, sizes)).slice(skipped)
    found = list(documents(rows))
    assert found == list(documents_plainly(rows))
    assert [fault for _, text in found for fault in validate(text)] == []


@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_many_events_have_the_bytes_of_the_plain_way(batch: int) -> None:
    rows = made(3000, batch)
    assert list(documents(rows)) == list(documents_plainly(rows))


@pytest.mark.parametrize(("events", "size"), [(1, 1 << 30), (4, 1 << 30), (1 << 30, 300), (100, 2000)])
@pytest.mark.parametrize("batch", [1, 3, 10, 200])
def test_documents_do_not_depend_on_the_pieces_in_which_they_are_written(
    monkeypatch: pytest.MonkeyPatch, events: int, size: int, batch: int
) -> None:
    rows = made(120, batch)
    whole = list(documents_plainly(rows))
    monkeypatch.setattr(document, "_EVENTS", events)
    monkeypatch.setattr(document, "_BYTES", size)
    assert list(documents(rows)) == whole
    pieces = [rows.combine_chunks().to_batches()[0].slice(begin, 13) for begin in range(0, 120, 13)]
    assert list(documents(iter([pieces[0].slice(0, 0), *pieces]))) == whole
    found = list(document_batches(rows.combine_chunks().to_batches()[0]))
    assert sum(part["events"].to_pylist() == [] for part in found) == 0
    assert [n for part in found for n in part["events"].to_pylist()] == [min(batch, 120)] * (-(-120 // batch) - 1) + [
        120 % batch or min(batch, 120)
    ]


def test_no_events_are_no_documents() -> None:
    assert list(documents(table())) == []
    assert list(documents(iter(()))) == []


# --- what no document may hold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (event("rename"), "event 1 has a verb that is not one of add, modify, delete"),
        (event(None), "event 1 has a verb that is not one of add, modify, delete"),  # type: ignore[arg-type]
        (event(class_name=""), "event 1 has no class name"),
        (event(class_name=None), "event 1 has no class name"),
        (event(class_name="\x00"), "event 1 has a character in its class_name that XML 1.0 cannot hold"),
        (event(association="\ufffe"), "event 1 has a character in its association that XML 1.0 cannot hold"),
        (event("modify"), "event 1 is a modify without attributes"),
        (event("delete", attr(add="a")), "event 1 is a delete with attributes"),
        (event("add", attr("", add="a")), "event 1, attribute '': its name must not be missing or empty"),
        (event("add", attr(None, add="a")), "event 1, attribute '': its name must not be missing or empty"),
        (
            event("add", attr(add="a", type="structured")),
            f"event 1, attribute 'fname': its type is not one of {', '.join(TYPES)}",
        ),
        (event("add", attr()), "event 1, attribute 'fname': an add needs a value"),
        (event("add", attr(add="a", remove="b")), "event 1, attribute 'fname': an add takes no value away"),
        (event("add", attr(add="a", remove_all=True)), "event 1, attribute 'fname': an add takes no value away"),
        (
            event("modify", attr("a", add="a"), attr("b")),
            "event 1, attribute 'b': a modify needs a value to remove or to add, or to remove all",
        ),
        (
            event("modify", attr(remove="a", remove_all=True)),
            "event 1, attribute 'fname': it takes away one value and all values",
        ),
        (event("add", attr(add="\x0b")), "event 1, attribute 'fname': it has a character that XML 1.0 does not allow"),
        (
            event("add", attr("a\uffff", add="")),
            "event 1, attribute 'a\\uffff': it has a character that XML 1.0 does not allow",
        ),
        (event(document=None), "an event has no document number"),
    ],
)
def test_what_no_document_may_hold_is_refused_with_its_event(row: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CaptureError) as caught:
        list(documents(table(row)))
    assert str(caught.value) == sentence


def test_a_document_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> None:
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    monkeypatch.setattr(document, "_texts", overflow)
    monkeypatch.setattr(document, "_BYTES", 10)
    with pytest.raises(CaptureError, match="document 1 is larger than 2 GiB"):
        list(documents(table(event("add", attr(add="a" * 100)))))


def test_documents_that_go_back_are_refused() -> None:
    rows = table(event(document=2), event(document=1))
    with pytest.raises(CaptureError, match="ascending order"):
        list(documents(rows))
    with pytest.raises(CaptureError, match="ascending order"):
        list(documents(rows.slice(place, 1).to_batches()[0] for place in (0, 1)))


# --- columns ----------------------------------------------------------------------------------------------------------


ODD = st.text(st.sampled_from("a\x00\x08\t\n\x0b\r\x1f \x7f\x85\ufffd\ufffe\uffff\U0001fffe\U0001ffff\uffbe"))


@given(st.lists(st.none() | ODD | st.text(), max_size=8), st.integers(0, 3))
def test_unfit_is_what_xml_cannot_hold(texts: list[str | None], skipped: int) -> None:
    column = pa.array(texts, pa.string()).slice(skipped)
    assert xml_unfit(column).tolist() == [not held(text or "") for text in texts[skipped:]]


def held(text: str) -> bool:
    """Whether lxml takes it."""
    try:
        etree.Element("value").text = text
    except ValueError:
        return False
    return True


def test_quotes_stand_where_a_key_needs_them() -> None:
    texts = ["1", "x y", "", "a,b", 'say "a\\b"', None]
    assert quoted(pa.array(texts)).to_pylist() == ["1", "x y", '""', '"a,b"', r'"say \"a\\b\""', None]


def test_an_association_is_key_table_and_schema() -> None:
    columns = (["idu=1", "k= 1", None, "a=1"], ["usr", "t,t", "usr", None], ["indirect", None, "x", "y"])
    assert association(*(pa.array(column, pa.string()) for column in columns)).to_pylist() == [
        "idu=1,table=usr,schema=indirect",
        'k= 1,table="t,t"',
        None,
        None,
    ]
