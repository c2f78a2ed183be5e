"""Documents read back: the same events, whatever stands in them; nothing is fetched, expanded or guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.xds import EVENT, ROWS, Settings, documents, parse_documents, validate
from tests.reference.xds_rows import publish, to_rows
from tests.xds_events import log_rows, made

# --- round trips ------------------------------------------------------------------------------------------------------


def there_and_back(count: int, batch: int) -> None:
    rows = made(count, batch)
    written = [text for _, text in documents(rows)]
    for source in (b"".join(written), written):
        found = parse_documents(source)
        assert found.others == []
        assert found.events.equals(rows)
    assert validate(b"".join(written)) == []


@pytest.mark.parametrize("batch", [1, 100])
def test_documents_read_back_are_their_events(batch: int) -> None:
    there_and_back(2_000, batch)


@pytest.mark.full
@pytest.mark.parametrize("batch", [1, 100])
def test_a_hundred_thousand_events_come_back(batch: int) -> None:
    there_and_back(100_000, batch)


def published_and_back(count: int) -> None:
    log = log_rows(count)
    rows = log.append_column("file_index", pa.array(np.zeros(count, dtype=np.int32)))
    rows = rows.append_column("offset", pa.array(np.arange(count)))
    rows = rows.append_column("event_us", pa.array(np.zeros(count, dtype=np.int64)))
    rows = rows.append_column("undecoded", pa.nulls(count, pa.string()))
    rows = rows.append_column("repeated", pa.array(np.zeros(count, dtype=np.bool_))).cast(ROWS)
    publication = publish(rows, Settings(batch_size=100, query_limit=count))
    assert set(publication.decisions["decision"].to_pylist()) == {"published"}
    text = b"".join(text for _, text in documents(publication.events))
    found = to_rows(parse_documents(text).events, event_time="2026-03-01 00:00:00")
    assert found.equals(log)


def test_rows_that_were_published_come_back_from_their_documents() -> None:
    published_and_back(2_000)


@pytest.mark.full
def test_a_hundred_thousand_rows_come_back_from_their_documents() -> None:
    published_and_back(100_000)


# --- what is read -----------------------------------------------------------------------------------------------------


def attrs(text: str) -> list[tuple[Any, ...]]:
    found = parse_documents(text.encode())
    assert found.others == []
    (row,) = found.events.to_pylist()
    return [tuple(attribute.values()) for attribute in row["attrs"]]


def modify(inside: str) -> str:
    return f'<modify class-name="User"><modify-attr attr-name="a">{inside}</modify-attr></modify>'


GONE = "<remove-all-values/>"
OLD = '<remove-value><value type="int">1</value></remove-value>'
NEW = '<add-value><value type="int">2</value></add-value>'
OTHER = "<add-value><value>3</value><value/></add-value>"


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        (OLD + NEW, [("a", "int", False, "1", "2")]),
        (GONE + NEW, [("a", "int", True, None, "2")]),
        (GONE, [("a", None, True, None, None)]),
        (OLD, [("a", "int", False, "1", None)]),
        (NEW, [("a", "int", False, None, "2")]),
        (NEW + OLD, [("a", "int", False, None, "2"), ("a", "int", False, "1", None)]),
        (OLD + OLD + NEW, [("a", "int", False, "1", None), ("a", "int", False, "1", "2")]),
        (OLD + OTHER, [("a", "int", False, "1", None), ("a", None, False, None, "3"), ("a", None, False, None, "")]),
        (GONE + OTHER, [("a", None, True, None, "3"), ("a", None, False, None, "")]),
        (GONE + OLD, [("a", None, True, None, None), ("a", "int", False, "1", None)]),
    ],
)
def test_the_steps_of_an_attribute_keep_their_order(inside: str, found: list[tuple[Any, ...]]) -> None:
    assert attrs(modify(inside)) == found


def test_the_values_of_an_add_are_attributes_each() -> None:
    text = '<add class-name="User"><add-attr attr-name="a"><value>1</value><value type="dn">2</value></add-attr></add>'
    assert attrs(text) == [("a", None, False, None, "1"), ("a", "dn", False, None, "2")]


def test_comments_and_cdata_are_no_part_of_a_value() -> None:
    text = (
        '<add class-name="U"><add-attr attr-name="a"><value>x<!-- y -->z<![CDATA[<&<?xml ?>]]></value></add-attr></add>'
    )
    assert attrs(text) == [("a", None, False, None, "xz<&<?xml ?>")]


NDS = '<nds dtdversion="4.0"><input>{}</input></nds>'
DELETE = '<delete class-name="User"><association>{}</association></delete>'


def test_documents_stand_behind_each_other_with_or_without_declarations() -> None:
    one = '<?xml version="1.0" encoding="UTF-8"?>\n' + NDS.format(DELETE.format("1") + DELETE.format("ä"))
    text = f"{one}\n\n{one}\n<!-- <?xml ?> -->{DELETE.format('3')}"
    found = parse_documents(text.encode(), document=5, event=10).events
    assert found["document"].to_pylist() == [5, 5, 6, 6, 7]
    assert found["event"].to_pylist() == [10, 11, 12, 13, 14]
    assert found["association"].to_pylist() == ["1", "ä", "1", "ä", "3"]


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "utf-16", "UTF-8", "windows-1252"])
def test_other_encodings_are_read_where_they_are_declared(encoding: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?>{DELETE.format("ä")}'.encode(encoding)
    assert parse_documents(data).events["association"].to_pylist() == ["ä"]
    assert parse_documents(b"\xef\xbb\xbf" + DELETE.format("ä").encode()).events["association"].to_pylist() == ["ä"]


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        ("<status level='success'/>", "status in line 1 is not one of add, modify, delete"),
        ("<add/>", "add in line 1 has no class-name"),
        ("<modify class-name='a'/>", "modify in line 1 has no modify-attr"),
        ("<add class-name='a'><add-attr name='b'/></add>", "add in line 1 has an add-attr without an attr-name"),
        ("<add class-name='a'><add-attr attr-name='b'/></add>", "add in line 1 has an add-attr without a value"),
        (
            "<modify class-name='a'><modify-attr name='b'/></modify>",
            "modify in line 1 has a modify-attr without an attr-name",
        ),
        (modify("<add-value/>"), "modify in line 1 has an add-value without a value"),
        (
            modify("<add-value><value type='structured'><component/></value></add-value>"),
            "modify in line 1 has a value that is not one text of a known type (type 'structured')",
        ),
        (modify("<value/>"), "modify in line 1 has value in its attribute 'a'"),
    ],
)
def test_what_is_no_event_is_said_and_does_not_touch_the_others(inside: str, sentence: str) -> None:
    found = parse_documents(NDS.format(inside + DELETE.format("1")).encode())
    assert found.others == [f"document 1: {sentence}"]
    assert found.events["event"].to_pylist() == [1]


def test_output_documents_hold_no_events() -> None:
    found = parse_documents(b"<nds dtdversion='4.0'><output><status level='success'/></output></nds>")
    assert (found.events.num_rows, found.others) == (0, ["document 1: output holds no events"])


def test_one_id_may_stand_in_two_documents() -> None:
    text = '<delete class-name="User" xml:id="a"/>'
    assert parse_documents(2 * text.encode()).events.num_rows == 2


def test_nothing_is_no_document() -> None:
    assert parse_documents(b"").events.equals(EVENT.empty_table())
    assert validate(b" \n") == ["no document: nothing but blanks was found"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"<!DOCTYPE add [<!ENTITY e 'x'>]><add class-name='a'/>", "a document type declaration is not read"),
        (b"<!DOCTYPE nds SYSTEM 'http://127.0.0.1:1/nds.dtd'><nds/>", "a document type declaration is not read"),
        (b"<add class-name='&e;'/>", "line 1, Entity 'e' not defined"),
        (b"<add class-name='a'>", "its last element has no end"),
        (b"<add class-name='a'/>\n</documents>\n<x/>", "line 3, Extra content at the end of the document"),
        (b"<add class-name='a'/></documents>", "Extra content"),
        (b"\n<add>\x01</add>", "line 2, "),
        (b"\n<add>\xff</add>", "line 2, "),
        (b"x", "text outside of any element, 'x'"),
        (b"<a/> some text <a/>", "text outside of any element, 'some text'"),
        (b"<a/> some text", "text outside of any element, 'some text'"),
        (b"<a j:b='c'/>", "line 1, Namespace prefix j for b on a is not defined"),
        (b"<?xml version='1.0' encoding='rot13'?><a/>", "no XML document in the encoding 'rot13'"),
        (b"<?xml version='1.0' encoding='ascii'?><a/><?xml version='1.0' encoding='big5'?><a/>", "several encodings"),
        (b"<a>" * 100_000, ""),
    ],
)
def test_what_is_no_document_is_refused_with_its_reason(data: bytes, sentence: str) -> None:
    with pytest.raises(MalformedRecordError, match=r"^no XML document|^documents in several encodings") as caught:
        parse_documents(data)
    assert sentence in str(caught.value)
    assert validate(data) != []


PARTS = (
    "<nds>",
    "</nds>",
    "<add",
    ">",
    "/>",
    "<?xml",
    "?>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&",
    "x",
    "</documents>",
)


@given(st.binary(max_size=40) | st.lists(st.sampled_from(PARTS)).map(lambda parts: "".join(parts).encode()))
def test_any_bytes_are_documents_or_refused(data: bytes) -> None:
    try:
        parse_documents(data)
    except MalformedRecordError:
        assert validate(data) != []


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of(text: str) -> list[tuple[Any, ...]]:
    table = to_rows(parse_documents(text.encode()).events)
    assert table.schema == LOG
    wanted = ("record_id", "event_type", "table_name", "table_key", "column_name", "old_value", "new_value")
    return list(zip(*(table[name].to_pylist() for name in wanted), strict=True))


def test_each_attribute_becomes_a_row_and_each_delete() -> None:
    named = "<association>idu=1,table=usr,schema=indirect</association>"
    text = NDS.format(
        f'<add class-name="usr">{named}<add-attr attr-name="a"><value>1</value></add-attr></add>'
        f'<modify class-name="usr">{named}<modify-attr attr-name="a">{OLD}{NEW}</modify-attr>'
        f'<modify-attr attr-name="b">{GONE}{NEW}</modify-attr></modify>'
        f'<add class-name="usr">{named}</add><delete class-name="usr">{named}</delete>'
    )
    of = ("indirect.usr", "idu=1")
    assert rows_of(text) == [
        ("1", "1", *of, "a", None, "1"),
        ("2", "2", *of, "a", "1", "2"),
        ("3", "3", *of, "b", None, "2"),
        ("4", "1", *of, "idu", None, None),
        ("5", "4", *of, None, None, None),
    ]


@pytest.mark.parametrize(
    ("association", "key", "table"),
    [
        ("HR_PERSID=271,table=HR_PERS", "HR_PERSID=271", "HR_PERS"),
        ('k=",table=x,schema=y",table=usr', 'k=",table=x,schema=y"', "usr"),
        (r'k=1,table=",table=\"a\\",schema="b, c"', "k=1", 'b, c.,table="a\\'),
        ("a=1+b= 2 ,table= t ", "a=1+b= 2 ", " t "),
    ],
)
def test_an_association_is_taken_apart_where_its_table_begins(association: str, key: str, table: str) -> None:
    ((_, _, found_table, found_key, *_),) = rows_of(DELETE.format(association))
    assert (found_table, found_key) == (table, key)


def test_no_events_are_no_rows() -> None:
    assert to_rows(EVENT.empty_table()).equals(LOG.empty_table())


def test_an_association_of_another_driver_makes_no_rows() -> None:
    with pytest.raises(CaptureError, match="association '113' is not made of a key, a table and a schema"):
        rows_of(DELETE.format("113"))


# --- the vocabulary ---------------------------------------------------------------------------------------------------


@pytest.mark.samples
def test_real_documents_are_valid_and_can_be_read(samples: Path) -> None:
    found = {path.name: path.read_bytes() for path in (samples / "idm").iterdir() if path.suffix in (".xml", ".xds")}
    assert len(found) == 11
    assert {name: faults for name, text in found.items() if (faults := validate(text))} == {}
    others = {name: parse_documents(text).others for name, text in found.items()}
    assert [name for name, sentences in others.items() if sentences] == ["nds-doc-examples.xml"]  # two status documents


@pytest.mark.parametrize(
    "text",
    [
        "<add class-name='a'/>",
        "<add class-name='a' dest-dn='' event-id='1' xmlns:j='urn:x' j:time='1'><association state='x'/></add>",
        "<add class-name='a'><operation-data><b c='d'>e</b></operation-data><association/></add>",
        "<delete class-name='a'><association>1</association></delete>",
        "<status level='retry' event-id='1'>text</status>",
        "<instance class-name='a'><attr attr-name='b'/></instance>",
        "<instance class-name='a'><attr attr-name='b'>{}</attr></instance>".format(
            "<value type='structured'><component name='c'>d</component></value>"
        ),
        "<nds dtdversion='4.0'><input/></nds>",
    ],
)
def test_the_vocabulary_holds(text: str) -> None:
    assert validate(text.encode()) == []


@pytest.mark.parametrize(
    "text",
    [
        "<modify class-name='a'><association>1</association></modify>",
        "<modify class-name='a'><modify-attr attr-name='b'/></modify>",
        "<modify class-name='a'><modify-attr name='b'><remove-all-values/></modify-attr></modify>",
        "<modify class-name='a'><modify-attr attr-name='b'><remove-value/></modify-attr></modify>",
        "<modify class-name='a'><modify-attr attr-name='b'><value>c</value></modify-attr></modify>",
        "<modify class-name='a'><add-attr attr-name='b'><value>c</value></add-attr></modify>",
        "<add class-name='a'><add-attr name='b'><value>c</value></add-attr></add>",
        "<add class-name='a'><add-attr attr-name='b'/></add>",
        "<add class-name='a'><add-attr attr-name=''><value>c</value></add-attr></add>",
        "<add class-name='a'><add-attr attr-name='b'><value type='text'>c</value></add-attr></add>",
        "<add class-name='a'><add-attr attr-name='b'><value type='structured'>c</value></add-attr></add>",
        "<add class-name='a'><add-attr attr-name='b'><value>c<d/></value></add-attr></add>",
        "<add><add-attr attr-name='b'><value>c</value></add-attr></add>",
        "<add class-name=''/>",
        "<delete class-name='a'><add-attr attr-name='b'><value>c</value></add-attr></delete>",
        "<delete class-name='a'><association/><association/></delete>",
        "<status level='fine'/>",
        "<nds dtdversion='4.0'/>",
        "<nds><input/></nds>",
        "<nds dtdversion='4.0'><input/><input/></nds>",
        "<nds dtdversion='4.0'><input/><output/></nds>",
        "<nds dtdversion='4.0'><input/><source/></nds>",
        "<rows/>",
    ],
)
def test_the_vocabulary_refuses(text: str) -> None:
    faults = validate(text.encode())
    assert faults
    assert all(fault.startswith("document 1, line 1: ") for fault in faults)


def test_each_fault_says_its_document() -> None:
    good = "<delete class-name='a'/>\n"
    assert {fault.partition(":")[0] for fault in validate(f"{good}<add/>\n{good}<bad/>".encode())} == {
        "document 2, line 2",
        "document 4, line 4",
    }
