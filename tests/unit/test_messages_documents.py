"""Messages as JSON documents over several lines, in an array, or one behind the other; and one message a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.containers import documents
from cdcwb.formats.containers.detect import probe
from cdcwb.formats.json_values import is_cut_off
from tests.containers import AVRO, CONFLUENT, JSON, Row, put, rows

ONE: dict[str, Any] = {
    "message": {"data": [{"a": '}{\\" ]['}, {"b": None}], "headers": {}},
    "text": "é\n\\",
}


def pretty(value: Any, indent: int = 2) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False).encode()


def values(found: list[Row]) -> list[bytes | None]:
    assert [row.reason for row in found if row.state] == []
    return [row.value for row in found]


@pytest.mark.parametrize("indent", [0, 1, 2, 4])
@pytest.mark.parametrize("between", [b"\n", b"", b"\r\n\r\n", b",\n", b" "])
def test_documents_that_follow_each_other(indent: int, between: bytes, tmp_path: Path) -> None:
    texts = [pretty({**ONE, "n": number}, indent) for number in range(5)]
    path = put(tmp_path, between.join(texts) + b"\n")
    assert probe(path, {}).kind == "documents"
    assert values(rows(path)) == texts


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_array_of_documents(indent: int | None, mark: bytes, tmp_path: Path) -> None:
    data = mark + json.dumps([{**ONE, "n": number} for number in range(5)], indent=indent).encode() + b"\n"
    found = rows(put(tmp_path, data))
    assert [json.loads(value or b"") for value in values(found)] == [{**ONE, "n": number} for number in range(5)]


def test_what_stands_between_belongs_to_the_document_before(tmp_path: Path) -> None:
    found = rows(put(tmp_path, b'[\n{"a":\n1}\n,\n\n{"b":\n2} , {"c":3}\n]\n'))
    assert [(row.source, row.value) for row in found] == [
        (b'[\n{"a":\n1}\n,\n\n', b'{"a":\n1}'),
        (b'{"b":\n2}', b'{"b":\n2}'),
        (b' , {"c":3}\n]\n', b'{"c":3}'),
    ]


def test_lines_between_documents_are_segments_of_their_own(tmp_path: Path) -> None:
    one = pretty(ONE)
    found = rows(
        put(tmp_path, one + b"\nnull\n" + one + b"\nh3llo {}\n% Reached end of topic t [0] at offset 2\n" + one)
    )
    assert [(row.state, row.value) for row in found] == [
        (0, one),
        (0, None),
        (0, one),
        (2, None),
        (0, b"{}"),
        (1, None),
        (0, one),
    ]
    assert found[3].source == b"h3llo "
    assert found[3].reason == "a JSON document was expected, found 'h3llo '"


def test_headings_between_documents_are_filler(tmp_path: Path) -> None:
    one = pretty(ONE)
    found = rows(put(tmp_path, b"INSERT\n\n" + one + b"\n\nUPDATE: " + one + b"\n# the end\n"))
    assert [(row.state, row.value) for row in found] == [(4, None), (0, one), (4, None), (0, one), (1, None)]
    assert [row.source for row in found if row.state] == [b"INSERT\n", b"UPDATE: ", b"# the end\n"]


def test_properties_before_a_document_on_its_line(tmp_path: Path) -> None:
    lead = b"CreateTime:1679434459511\tPartition:1\tk1\t"
    one = pretty(ONE)
    found = rows(put(tmp_path, lead + one + b"\n" + lead + one + b"\nCreateTime:7\t" + one + b"\n"))
    time_facts = {"timestamp": "2023-03-21T21:34:19.511Z", "timestamp_type": "CreateTime"}
    assert [(row.value, row.key, row.facts) for row in found[:2]] == [
        (one, b"k1", {"partition": "1", **time_facts})
    ] * 2
    assert [row.state for row in found[2:]] == [2, 0]
    assert found[3].value == one


def test_kcat_objects_that_were_printed_over_several_lines(tmp_path: Path) -> None:
    record = {"topic": "t", "partition": 0, "offset": 5, "key": "k", "payload": JSON.decode()}
    found = rows(put(tmp_path, pretty(record) + b"\n" + pretty({**record, "payload": None, "headers": ["h", "1"]})))
    facts = {"topic": "t", "partition": "0", "offset": "5"}
    assert [(row.value, row.key, row.facts) for row in found] == [
        (JSON, b"k", facts),
        (None, b"k", {**facts, "header.h": "1"}),
    ]


# Damage


def damaged(*texts: bytes) -> bytes:
    return b"\n".join(texts) + b"\n"


@pytest.mark.parametrize("indent", [1, 2])
@pytest.mark.parametrize(
    ("old", "new"),
    [(b"}\n}", b"}\n"), (b'"text"', b'"text'), (b'"text"', b'text"'), (b"}", b""), (b"{", b""), (b"\\n", b"\n")],
)
def test_only_the_damaged_document_is_lost(old: bytes, new: bytes, indent: int, tmp_path: Path) -> None:
    good = [pretty({**ONE, "n": number}, indent) for number in range(6)]
    bad = good[2].replace(old, new, 1)
    if bad == good[2]:
        bad = good[2][:-1]
    found = rows(put(tmp_path, damaged(*good[:2], bad, *good[3:])), container="documents")
    assert [row.value for row in found if row.state == 0 and row.value in good] == [*good[:2], *good[3:]]


def test_a_missing_brace_is_seen_where_the_next_document_begins(tmp_path: Path) -> None:
    good = pretty(ONE)
    found = rows(put(tmp_path, damaged(good, good[:-1], good)))
    assert [row.state for row in found] == [0, 0, 0]  # who parses the second one sees that it is cut off
    assert [(row.value or b"").rstrip() for row in found] == [good, good[:-1].rstrip(), good]


def test_a_missing_brace_in_an_array_of_documents(tmp_path: Path) -> None:
    texts = json.dumps([{"n": number, "of": [{"a": 1}, {"b": 2}]} for number in range(5)], indent=2).encode()
    bad = texts.replace(b"\n  },\n", b"\n  ,\n", 1)
    found = rows(put(tmp_path, bad), container="documents")
    assert [is_cut_off(row.value or b"") for row in found] == [True, False, False, False, False]


def test_objects_at_the_line_begin_inside_an_array_are_no_damage(tmp_path: Path) -> None:
    text = b'{"data": [\n{\n"a": 1\n},\n{\n"a": 2\n}\n],\n"x":\n{\n}\n}'
    assert values(rows(put(tmp_path, text + b"\n" + text))) == [text, text]


@pytest.mark.parametrize("length", [40, 41, 45, 60])
@pytest.mark.parametrize("behind", [0, 1])
def test_a_document_that_is_cut_off_is_a_message_up_to_there(tmp_path: Path, length: int, behind: int) -> None:
    good = pretty(ONE)
    found = rows(put(tmp_path, damaged(good, good, good[:length], *[good] * behind)))
    assert [row.state for row in found] == [0] * (3 + behind)
    assert (found[2].value or b"").rstrip() == good[:length].rstrip()
    assert is_cut_off(found[2].value or b"")


def test_a_note_before_the_only_document_which_is_cut_off(tmp_path: Path) -> None:
    good = pretty(ONE)
    found = rows(put(tmp_path, b"INSERT\n" + good[:40]))
    assert [(row.state, row.value) for row in found] == [(4, None), (0, good[:40].rstrip())]


def test_a_document_longer_than_any_message_is_malformed_with_all_that_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LONGEST", 3 << 20)
    good = pretty(ONE)
    long = b'{"a":\n"' + b"x" * (4 << 20) + b'"}'
    for closed in (long, long[:-1]):
        found = rows(put(tmp_path, damaged(good, closed, good)))
        assert [row.value for row in found if row.state == 0] == [good]
        assert sum(row.length for row in found) == len(damaged(good, closed, good))
        reasons = {row.reason for row in found if row.state}
        sentence = "a JSON document whose end cannot be found: "
        assert len(reasons) == 1
        assert reasons.pop().startswith(sentence + "a document longer than ")  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [b"}", b"{", b'{"', b'{"\n', b"[", b'"', b"{}", b'{"a":[', b"\\", b" ", b",", b"x\n"])
def test_hostile_repetition_ends_in_time(text: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, text * (100_000 // len(text)))
    begun = time.process_time()
    rows(path, container="documents")
    assert time.process_time() - begun < 10


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), JSONS, max_size=4), min_size=2, max_size=6), st.booleans())
def test_any_documents_come_back(
    tmp_path_factory: pytest.TempPathFactory, given_: list[dict[str, Any]], ascii_only: bool
) -> None:
    texts = [json.dumps(one, indent=1, ensure_ascii=ascii_only).encode("utf-8", "replace") for one in given_]
    path = put(tmp_path_factory.mktemp("documents"), b"\n".join(texts))
    assert values(rows(path, container="documents")) == texts


# One message a file


@pytest.mark.parametrize("data", [AVRO, CONFLUENT, AVRO + b"\n", pretty(ONE)])
def test_a_file_that_is_one_message(data: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, data)
    assert probe(path, {}).kind == "message"
    assert values(rows(path)) == [data]


def test_white_space_around_the_document_of_a_file_is_not_its_value(tmp_path: Path) -> None:
    path = put(tmp_path, b"\xef\xbb\xbf\r\n " + pretty(ONE) + b"\n\n")
    assert probe(path, {}).kind == "message"
    assert values(rows(path)) == [pretty(ONE)]


def test_a_document_that_is_cut_off_is_one_message(tmp_path: Path) -> None:
    path = put(tmp_path, pretty(ONE)[:50])
    assert probe(path, {}).kind == "message"
    assert values(rows(path)) == [pretty(ONE)[:50]]


def test_any_file_can_be_taken_as_one_message(tmp_path: Path) -> None:
    assert values(rows(put(tmp_path, JSON + b"\n" + JSON), container="message")) == [JSON + b"\n" + JSON]
