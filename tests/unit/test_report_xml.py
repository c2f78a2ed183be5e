"""Documents on a page: every character shown, what changes marked twice over, nothing captured that could act as
HTML."""

from __future__ import annotations

import random
import re
from html import unescape
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.report import xml
from cdcwb.xds import EVENT, documents

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&"


def document(*events: tuple[str, list[dict[str, Any]]]) -> str:
    rows = [
        {
            "document": 1,
            "event": number,
            "verb": verb,
            "class_name": "usr",
            "association": "idu=1,table=usr,schema=indirect",
            "attrs": [{"name": "fname", "type": "string", "remove_all": False} | attribute for attribute in attributes],
        }
        for number, (verb, attributes) in enumerate(events, 1)
    ]
    ((_, text),) = documents(pa.Table.from_pylist(rows, schema=EVENT))
    return text.decode()


def plain(html: str) -> str:
    """What a browser would show, without the marks at the edge."""
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r'<span class="mark">.*?</span>', "", html)))


def lines(html: str) -> list[tuple[str, str, str]]:
    """How each line changes its object, its mark, and its text."""
    found = re.findall(r'<span class="line (\w*)"><span class="mark">(.)</span>(.*?)\n</span>', html, re.DOTALL)
    return [(how, mark, plain(text)) for how, mark, text in found]


MODIFY = document(("modify", [{"remove": "Jack", "add": "John"}, {"name": "lname", "remove_all": True, "add": "Doe"}]))


def test_the_document_is_shown_as_it_is() -> None:
    assert plain(xml.xml_html(MODIFY)) == MODIFY


def test_what_goes_and_what_comes_differ_in_colour_mark_and_element() -> None:
    html = xml.xml_html(MODIFY)
    changed = [(how, mark, text.strip()) for how, mark, text in lines(html) if how]
    assert changed == [
        ("removed", "−", '<value type="string">Jack</value>'),
        ("added", "+", '<value type="string">John</value>'),
        ("removed", "−", "<remove-all-values/>"),
        ("added", "+", '<value type="string">Doe</value>'),
    ]
    assert "<del>Jack</del>" in html
    assert "<ins>John</ins>" in html


def test_names_of_elements_and_attributes_and_the_object_are_told_apart() -> None:
    html = xml.xml_html(MODIFY)
    for shown in (
        '<span class="name">modify-attr</span>',
        '<span class="attribute">attr-name</span>',
        '<span class="named">&quot;lname&quot;</span>',
        '<span class="string">&quot;usr&quot;</span>',
        '<span class="key">idu=1,table=usr,schema=indirect</span>',
    ):
        assert shown in html


def test_an_add_only_adds_and_a_delete_is_one_removal() -> None:
    html = xml.xml_html(document(("add", [{"add": "Jack"}]), ("delete", [])))
    assert [(how, text.strip()) for how, _, text in lines(html) if how] == [
        ("added", '<value type="string">Jack</value>'),
        ("removed", '<delete class-name="usr">'),
    ]


def test_a_value_of_several_lines_is_marked_on_each() -> None:
    html = xml.xml_html(document(("add", [{"add": "one\ntwo\n\nfour"}])), inside=True)
    shown = [(mark, text.strip()) for how, mark, text in lines(html) if how]
    assert shown == [("+", '<value type="string">one'), ("+", "two"), ("+", ""), ("+", "four</value>")]


def test_inside_leaves_out_the_envelope_and_its_indent_alone() -> None:
    text = document(("add", [{"add": "one\n        two"}]))
    shown = plain(xml.xml_html(text, inside=True))
    assert shown.startswith('<add class-name="usr">\n  <association>')
    assert shown.endswith("</add>\n")
    assert "one\n        two</value>" in shown
    assert plain(xml.xml_html("<nds><input/></nds>", inside=True)) == "<nds><input/></nds>\n"


@pytest.mark.parametrize("name", ["name", "add", "remove"])
def test_captured_values_are_text(name: str) -> None:
    attribute = {"add": "x"} | {name: HOSTILE}
    html = xml.document_html(
        {
            "document": 1,
            "events": 1,
            "why": HOSTILE,
            "xml": document(("modify", [attribute])),
            "rows": [{"record_id": 1, "column_name": HOSTILE, "old_value": HOSTILE, "new_value": HOSTILE}],
        }
    )
    assert "<script" not in html
    assert "<img" not in html


def test_no_text_at_all_becomes_markup() -> None:
    """Documents cut at any place and with any character changed: only elements of our own come out, and all text."""
    ours = re.compile(r'</?(?:pre|span|del|ins)(?: class="[\w -]*")?>')
    pick = random.Random(5)
    source = document(("modify", [{"remove": HOSTILE, "add": "a\nb"}]), ("delete", []))
    for _ in range(2000):
        cut = list(source[: pick.randrange(len(source))])
        for _ in range(pick.randrange(4) if cut else 0):
            cut[pick.randrange(len(cut))] = pick.choice("<>&\"'/=!?-[] \n\x01\u202ex")
        html = xml.xml_html("".join(cut))
        rest = ours.sub("", html)
        assert "<" not in rest
        assert ">" not in rest


def test_characters_that_do_not_show_are_shown_as_escapes() -> None:
    html = xml.xml_html("<value>a\u202eb</value>")
    assert '<span class="unseen">\\u202e</span>' in html
    assert "\u202e" not in html


def test_what_is_too_long_is_cut_and_says_so() -> None:
    long = xml.xml_html(document(("add", [{"add": "x" * 1000}])))
    assert "… 760 more characters" in long
    many = xml.xml_html(document(("add", [{"add": "x"}] * 200)))
    assert re.search(r"\d+ more lines", many)
    assert len(re.findall(r'class="line ', many)) == 161


def test_rows_say_what_they_hold_and_what_is_asked_of_the_table() -> None:
    row = {"record_id": 1234, "event_type": 2, "column_name": "fname", "old_value": "Jack", "new_value": None}
    html = xml.rows_html([row, row | {"event_type": 6, "old_value": None, "asked": True}], total=7)
    assert '<del><span class="mark">−</span>Jack</del>' in html
    assert '<span class="null">NULL</span>' in html
    assert "asked of the table" in html
    assert "1,234" in html
    assert "2 of 7 rows shown." in html


def test_rows_that_others_take_the_place_of_are_struck_and_say_why_once() -> None:
    weak = {"record_id": 2, "event_type": 2, "decision": "overridden", "reason": "overridden by record 1"}
    html = xml.rows_html([{"record_id": 1, "event_type": 6, "asked": True, "decision": "published"}, weak, weak])
    assert html.count('<tr class="struck">') == 2
    assert html.count("overridden by record 1") == 1


def test_rows_of_several_events_say_which() -> None:
    rows = [{"record_id": number, "event": number, "event_type": 4} for number in (1, 2)]
    assert '<th scope="col" class="number">event</th>' in xml.rows_html(rows)
    assert ">event</th>" not in xml.rows_html(rows[:1])
