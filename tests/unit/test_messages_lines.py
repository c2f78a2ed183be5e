"""Messages in lines: what console consumers and kcat print, however values are encoded."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import OptionError
from cdcwb.formats.containers import console
from cdcwb.formats.containers.console import is_comment, is_note, parse
from cdcwb.formats.containers.detect import detect_layout, probe
from cdcwb.formats.containers.message_files import Options, read
from cdcwb.formats.containers.messages import FILLER, MALFORMED, MESSAGE, NOTE
from cdcwb.formats.files import open_source
from tests.containers import AVRO, CONFLUENT, JSON, Row, put, rows

TIME = {"timestamp": "2023-03-21T21:34:19.511Z", "timestamp_type": "CreateTime"}


def messages(found: list[Row]) -> list[tuple[bytes | None, bytes | None, dict[str, str]]]:
    assert [row.reason for row in found if row.state] == []
    return [(row.value, row.key, row.facts) for row in found]


def values(found: list[Row]) -> list[bytes | None]:
    assert [row.reason for row in found if row.state] == []
    return [row.value for row in found]


# Plain values


def test_a_line_is_a_message_without_its_end(tmp_path: Path) -> None:
    found = rows(put(tmp_path, b'{"a":1}\n{"a":2}\r\n{"a":3}'))
    assert [(row.offset, row.length, row.value, row.source) for row in found] == [
        (0, 8, b'{"a":1}', b'{"a":1}\n'),
        (8, 9, b'{"a":2}', b'{"a":2}\r\n'),
        (17, 7, b'{"a":3}', b'{"a":3}'),
    ]


def test_a_byte_order_mark_belongs_to_the_first_line_and_to_no_value(tmp_path: Path) -> None:
    found = rows(put(tmp_path, b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"a":2}\n'))
    assert found[0][:6] == (0, 11, 0, None, b'{"a":1}', None)
    assert found[1].value == b'\xef\xbb\xbf{"a":2}'


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \t",
        b"Processed a total of 17 messages",
        b"Processed a total of 1 message",
        b"% Reached end of topic employees [0] at offset 17",
        b"% Reading configuration from file /root/.config/kcat.conf",
        b"[2023-03-21 21:34:19,511] WARN [Consumer clientId=c] Connection lost (org.apache.kafka.NetworkClient)",
        b"user@host:~/kafka$ bin/kafka-console-consumer.sh --topic employees",
        b"[kafka@broker-1 ~]$ kcat -C -t employees",
        rb"C:\kafka> bin\windows\kafka-console-consumer.bat",
        b"$ kafka-console-consumer --topic employees",
        b"^CProcessed a total of 3 messages",
    ],
)
@pytest.mark.parametrize("before", [b"", b"CreateTime:1679434459511\tk\t"])
def test_remarks_and_blank_lines_are_filler(line: bytes, before: bytes, tmp_path: Path) -> None:
    found = rows(put(tmp_path, before + JSON + b"\n" + line + b"\n" + before + JSON + b"\n"))
    assert [row.state for row in found] == [0, 1, 0]
    assert found[1].source == line + b"\n"


def test_null_is_a_tombstone(tmp_path: Path) -> None:
    assert values(rows(put(tmp_path, JSON + b"\nnull\n" + JSON))) == [JSON, None, JSON]


NOTES = (
    *(
        "INSERT",
        "Update:",
        "truncate",
        "1. Delete",
        "INSERT (1)",
        "# of the second task",
        "// before",
        "-- after",
        "=====",
    ),
    *("```json", "A sample, from the topic below:", "Operation - UPDATE", "插入", "* the last one"),
)
"""What people write between the messages that they publish."""

DATA = (
    *("null", "true,", "17", "17,", '"x": 1,', "}", "],", 'op_type":"I"', "<col name='A'>", "key-17", "a {b"),
    *("AAAAACoCBmFiYw", "emp | 61 74 4d 53 47", "de ad be ef", "fe 00 1a", "CreateTime:17", "Offset:3 x", "atMSG x"),
    "words and \udcff more",
)
"""What is part of a message, or might be."""


def test_a_plain_text_stands_as_it_is(tmp_path: Path) -> None:
    assert values(rows(put(tmp_path, JSON + b"\n" + JSON + b"\n7,hello\n"))) == [JSON, JSON, b"7,hello"]


@pytest.mark.parametrize("note", NOTES)
def test_headings_and_comments_between_messages_are_filler(tmp_path: Path, note: str) -> None:
    line = note.encode() + b"\n"
    found = rows(put(tmp_path, line + JSON + b"\n" + line + JSON + b"\n\n" + line))
    kind = FILLER if is_comment(note.encode()) else NOTE
    assert [row.state for row in found] == [kind, 0, kind, 0, 1, kind]
    assert str(found[2].reason).startswith("a note" if kind == FILLER else "a message was expected, found the text")


@pytest.mark.parametrize("text", DATA)
def test_what_may_be_data_is_no_note(text: str) -> None:
    assert not is_note(text.encode("utf-8", "surrogateescape"))


def test_an_empty_file_has_no_messages(tmp_path: Path) -> None:
    assert rows(put(tmp_path, b"")) == []


# Console consumers

PROPERTIES: list[tuple[bytes, dict[str, str]]] = [
    (b"CreateTime:1679434459511", TIME),
    (b"Partition:3", {"partition": "3"}),
    (b"Offset:17", {"offset": "17"}),
    (b"Delivery:1", {}),
    (b"a:1,b:x=2,3,a:null", {"header.a": "1", "header.b": "x=2,3"}),
]


@pytest.mark.parametrize("separator", [b"\t", b" | ", b"|", b";", b" ", b"::"])
@pytest.mark.parametrize("chosen", list(itertools.product([False, True], repeat=5)))
@pytest.mark.parametrize("key", [b"emp-1", b'{"id": 7}', None])
def test_every_combination_of_properties(
    separator: bytes, chosen: tuple[bool, ...], key: bytes | None, tmp_path: Path
) -> None:
    if separator == b" " and key == b'{"id": 7}':
        key = b'{"id":7}'
    there = [one for one, taken in zip(PROPERTIES, chosen, strict=True) if taken]
    facts = {name: text for _, more in there for name, text in more.items()}
    before = [text for text, _ in there] + ([] if key is None else [key])
    if not any(chosen[:4]) and (key is None or chosen[4]):
        return  # nothing but headers (with a key): that looks like a key, and is tested below
    lines = [separator.join([*before, value]) for value in (JSON, b"null", JSON)]
    found = rows(put(tmp_path, b"\n".join(lines)))
    assert messages(found) == [(value, key, facts) for value in (JSON, None, JSON)]


def test_headers_are_told_by_their_look(tmp_path: Path) -> None:
    path = put(tmp_path, b"NO_HEADERS\tk1\t" + JSON + b"\na:1,b:2\tk2\t" + JSON + b"\n")
    assert messages(rows(path)) == [(JSON, b"k1", {}), (JSON, b"k2", {"header.a": "1", "header.b": "2"})]
    path = put(tmp_path, b"NO_HEADERS\t" + JSON + b"\na:1,b:2\t" + JSON + b"\n")
    assert messages(rows(path)) == [(JSON, None, {}), (JSON, None, {"header.a": "1", "header.b": "2"})]
    path = put(tmp_path, b"employees:7\t" + JSON + b"\nemployees:8\t" + JSON + b"\n")
    assert messages(rows(path)) == [(JSON, b"employees:7", {}), (JSON, b"employees:8", {})]


def test_headers_and_commas_between_everything(tmp_path: Path) -> None:
    path = put(tmp_path, b"Partition:0,a:1,b:2,k,1," + JSON + b"\nPartition:1,NO_HEADERS,k,2," + JSON + b"\n")
    assert messages(rows(path)) == [
        (JSON, b"k,1", {"partition": "0", "header.a": "1", "header.b": "2"}),
        (JSON, b"k,2", {"partition": "1"}),
    ]


def test_a_header_that_repeats_keeps_both_values(tmp_path: Path) -> None:
    path = put(tmp_path, b"Partition:0\tx:1,x:2,x:3,y:\tk\t" + JSON + b"\n")
    expected = {"partition": "0", "header.x": "1", "header.x#2": "2", "header.x#3": "3", "header.y": ""}
    assert rows(path)[0].facts == expected


def test_a_header_that_repeats_never_takes_the_name_of_another(tmp_path: Path) -> None:
    path = put(tmp_path, b"Partition:0\tx:1,x:2,x#2:3\tk\t" + JSON + b"\n")
    assert rows(path)[0].facts == {"partition": "0", "header.x": "1", "header.x#3": "2", "header.x#2": "3"}


def test_kinds_of_timestamps(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        b"LogAppendTime:0\t{}\nNO_TIMESTAMP\t{}\nCreateTime:-1\t{}\nCreateTime:999999999999999\t{}\n",
    )
    assert [row.facts for row in rows(path)] == [
        {"timestamp": "1970-01-01T00:00:00.000Z", "timestamp_type": "LogAppendTime"},
        {"timestamp_type": "NO_TIMESTAMP"},
        {"timestamp": "-1", "timestamp_type": "CreateTime"},
        {"timestamp": "999999999999999", "timestamp_type": "CreateTime"},
    ]


def test_key_and_value_part_where_a_document_begins(tmp_path: Path) -> None:
    key = b'{"id":1,"of":[{"a":1},{"b":2}]}'
    value = b'{"x":1,"y":[{"z":"},{"},{"w":2}]}'
    path = put(tmp_path, b"\n".join(b",".join(pair) for pair in [(key, value), (b"7", value), (b"null", value)]))
    assert messages(rows(path)) == [(value, key, {}), (value, b"7", {}), (value, None, {})]


def test_a_given_separator_is_taken(tmp_path: Path) -> None:
    path = put(tmp_path, b"a|b~{}\nc|d~{}\n")
    assert messages(rows(path, separator="~")) == [(b"{}", b"a|b", {}), (b"{}", b"c|d", {})]
    path = put(tmp_path, b"a\t{}\n")
    assert messages(rows(path, separator=r"\t")) == [(b"{}", b"a", {})]


def test_lines_that_do_not_fit_are_malformed_and_say_what_was_expected(tmp_path: Path) -> None:
    good = b"CreateTime:1679434459511\tk\t" + JSON + b"\n"
    found = rows(put(tmp_path, good + b"CreateTim:1679434459511\tk\t" + JSON + b"\nCreateTime:1\tx\n" + good))
    assert [row.state for row in found] == [0, 2, 2, 0]
    assert found[1].reason == (
        r"a line of timestamp, key, value with '\t' between was expected, "
        r"""found 'CreateTim:1679434459511\x09k\x09{"magic…'"""
    )


def test_a_line_that_is_cut_off_is_still_a_message(tmp_path: Path) -> None:
    found = rows(put(tmp_path, b"k\t" + JSON + b"\nk\t" + JSON + b"\nk\t" + JSON[:50]))
    assert messages(found)[2] == (JSON[:50], b"k", {})


def test_a_document_without_the_other_lines_properties_is_a_message(tmp_path: Path) -> None:
    found = rows(put(tmp_path, b"k\t" + JSON + b"\n" + JSON + b"\nk\t" + JSON + b"\n"))
    assert messages(found) == [(JSON, b"k", {}), (JSON, None, {}), (JSON, b"k", {})]


# Encodings

ENCODED = {
    "base64": base64.b64encode,
    "base64, without padding": lambda value: base64.b64encode(value).rstrip(b"="),
    "base64, url-safe": base64.urlsafe_b64encode,
}


@pytest.mark.parametrize("before", [b"", b"CreateTime:1679434459511\temp-1\t", b"emp-1 | "])
@pytest.mark.parametrize("value", [AVRO, CONFLUENT])
@pytest.mark.parametrize("name", list(ENCODED))
def test_binary_values_as_text(name: str, value: bytes, before: bytes, tmp_path: Path) -> None:
    line = before + ENCODED[name](value) + b"\n"
    path = put(tmp_path, line + line + before + b"null\n")
    assert probe(path, {}).settings["encoding"] == name.partition(",")[0]
    assert values(rows(path)) == [value, value, None]


def test_documents_among_encoded_values_are_taken_as_they_are(tmp_path: Path) -> None:
    line = base64.b64encode(AVRO) + b"\n"
    assert values(rows(put(tmp_path, line + JSON + b"\n" + line))) == [AVRO, JSON, AVRO]


def test_what_does_not_decode_is_malformed(tmp_path: Path) -> None:
    line = base64.b64encode(AVRO) + b"\n"
    found = rows(put(tmp_path, line + b"YXRN!U0c\n" + line))
    assert [row.state for row in found] == [0, 2, 0]
    assert found[1].reason == "a value in base64 was expected, found 'YXRN!U0c'"


def test_a_given_encoding_is_taken(tmp_path: Path) -> None:
    line = base64.b64encode(AVRO)
    assert values(rows(put(tmp_path, line + b"\n"), encoding="text")) == [line]


@pytest.mark.parametrize("value", [AVRO, CONFLUENT])
@pytest.mark.parametrize("key", [b"", b"CreateTime:1679434459511\tk\t"])
def test_binary_messages_in_lines_are_a_problem_of_the_file(value: bytes, key: bytes, tmp_path: Path) -> None:
    container = probe(put(tmp_path, (key + value + b"\n") * 3), {})
    assert container.problem is not None
    assert "take the capture with kcat -J, or as Parquet" in container.problem


def test_binary_that_was_printed_as_text_is_a_problem(tmp_path: Path) -> None:
    container = probe(put(tmp_path, (b"k\t" + AVRO.replace(b"\n", b"")).decode("utf-8", "replace").encode()), {})
    assert container.problem is not None
    assert "U+FFFD" in container.problem


# kcat


def kcat(**fields: Any) -> bytes:
    return json.dumps({"topic": "t", "partition": 0, "offset": 5, "broker": 1, **fields}).encode() + b"\n"


def test_kcat_objects(tmp_path: Path) -> None:
    data = (
        kcat(tstype="create", ts=1679434459511, headers=["a", "1", "a", None], key="k", payload=JSON.decode())
        + kcat(tstype="logappend", ts=0, key=None, payload=None)
        + kcat(key='{"id":1}', payload='{"é":"\\""}')
        + kcat(tstype="unknown", ts=-1, headers={"a": "1"}, key="", payload="text", payload_length=4)
    )
    base = {"topic": "t", "partition": "0", "offset": "5"}
    assert messages(rows(put(tmp_path, data))) == [
        (JSON, b"k", {**base, **TIME, "header.a": "1"}),
        (None, None, {**base, "timestamp": "1970-01-01T00:00:00.000Z", "timestamp_type": "LogAppendTime"}),
        ('{"é":"\\""}'.encode(), b'{"id":1}', base),
        (b"text", b"", {**base, "timestamp_type": "unknown", "header.a": "1"}),
    ]


def test_kcat_payloads_that_kcat_decoded_itself(tmp_path: Path) -> None:
    line = b'{"topic":"t","partition":0,"offset":5,"key":{"id": 1},"value_schema_id":7,"payload":{"data": {"a":1}}}'
    found = rows(put(tmp_path, line + b"\n" + kcat(payload=None, payload_error="no schema")))
    assert (found[0].value, found[0].key) == (b'{"data": {"a":1}}', b'{"id": 1}')
    assert found[1].state == MALFORMED
    assert found[1].reason == "the tool that wrote it did not decode the value: no schema"


@pytest.mark.parametrize("value", [AVRO, CONFLUENT, b"\x00\x00\x00\x00\x07" + bytes(range(256))])
def test_kcat_payloads_that_are_binary(value: bytes, tmp_path: Path) -> None:
    """kcat escapes control characters and leaves bytes above 7F as they are, so that its JSON is no UTF-8."""
    text = value.decode("latin-1")
    as_kcat = kcat(key="k", payload="@").replace(b"@", json.dumps(text, ensure_ascii=False)[1:-1].encode("latin-1"))
    assert values(rows(put(tmp_path, as_kcat * 2))) == [value] * 2
    assert values(rows(put(tmp_path, kcat(key="k", payload=text) * 2))) == [value] * 2
    encoded = kcat(key="k", payload=base64.b64encode(value).decode())
    assert messages(rows(put(tmp_path, encoded * 2)))[0][:2] == (value, b"k")


def test_a_topic_that_was_saved_as_json(tmp_path: Path) -> None:
    line = {
        "key": base64.b64encode(b"k1").decode(),
        "value": base64.b64encode(AVRO).decode(),
        "topic": "t",
        "partition": 1,
        "offset": 9,
        "timestamp": "2023-03-21T21:34:19.511Z",
        "timestampType": 0,
        "headers": [{"key": "h", "value": "MQ=="}],
    }
    facts = {"topic": "t", "partition": "1", "offset": "9", **TIME, "header.h": "MQ=="}
    assert messages(rows(put(tmp_path, json.dumps(line).encode()))) == [(AVRO, b"k1", facts)]


def test_damaged_kcat_lines_are_malformed(tmp_path: Path) -> None:
    good = kcat(key="k", payload="{}")
    found = rows(put(tmp_path, good + good[:40] + b"\n" + good + b"[" * 100_000 + b"\n" + good))
    assert [row.state for row in found] == [0, 2, 0, 2, 0]
    assert "a JSON object with a message in it was expected" in (found[1].reason or "")


def test_more_header_names_than_columns_are_kept_together(tmp_path: Path) -> None:
    data = b"".join(kcat(headers=[f"h{at}", "x", "same", "y"], payload="{}") for at in range(400))
    found = rows(put(tmp_path, data))
    assert found[0].facts["header.h0"] == "x"
    assert found[399].facts["header"] == "h399=x"
    assert len({name for row in found for name in row.facts}) <= 262


# Large and odd


def test_a_line_longer_than_a_window_is_one_message(tmp_path: Path) -> None:
    long = b'{"a":"' + b"x" * (20 << 20) + b'"}'
    assert values(rows(put(tmp_path, JSON + b"\n" + long + b"\n" + JSON + b"\n"))) == [JSON, long, JSON]


def test_a_line_longer_than_any_message_is_malformed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "LONGEST", 3 << 20)
    most = b"y" * ((3 << 20) - 1) + b"\n"
    more = b"x" * (3 << 20) + b"\n"
    with open_source(put(tmp_path, b"{}\n" + most + more + b"{}\n"), "binary") as source:
        for start in (0, 3, 3 + len(most)):
            chunks = console.read_lines(source, start, source.length, console.Layout(), 1 << 16)
            found = [one for chunk in chunks for one in chunk.segments]
            whole = [3, 3 << 20, 1 << 20, 1 << 20, 1 << 20, 1, 3]
            first = {0: 0, 3: 1, 3 + len(most): 2}[start]
            assert [end - start for start, end, _ in found] == whole[first:]
            assert [parsed.state for _, _, parsed in found] == [0, 0, 2, 2, 2, 2, 0][first:]
        assert found[0][2].reason == "a line longer than 3,145,728 bytes, the maximum of a message"


def test_a_text_in_utf_16_is_read_as_utf_8(tmp_path: Path) -> None:
    text = JSON.decode() + "\n" + JSON.decode()
    for encoding in ("utf-16-le", "utf-16-be"):
        path = put(tmp_path, ("\ufeff" + text).encode(encoding))
        found = probe(path, {})
        assert (found.kind, found.compression, found.problem) == ("lines", "utf-16", None)
        assert [row.value for row in rows(path)] == [JSON, JSON]
        assert sum(row.length for row in rows(path)) == len(text.encode())
    path = put(tmp_path, ("\ufeff" + text).encode("utf-16-le")[:-1])
    assert probe(path, {}).problem == "the text in UTF-16 ends within a character"


def test_batches_are_no_longer_than_asked_for(tmp_path: Path) -> None:
    container = probe(put(tmp_path, b"{}\n" * 100), {})
    assert [len(batch) for batch in read(container, 0, container.size, 30)] == [30, 30, 30, 10]


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("container", "line", "option container: expected one of auto, lines, documents"),
        ("encoding", "base46", "Did you mean 'base64'?"),
        ("separator", "\\xz", "option separator: "),
    ],
)
def test_options_that_cannot_be_used(option: str, value: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as error:
        probe(put(tmp_path, JSON), {option: value})
    assert sentence in str(error.value)


@given(
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.sampled_from([b"\t", b" | ", b";", b"::"]),
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\n\r\t|;=>{}[]\"' \x00:,")).map("k{}0".format),
        min_size=3,
    ),
)
def test_what_was_detected_gives_back_what_was_printed(chosen: list[bool], separator: bytes, keys: list[str]) -> None:
    there = [text for (text, _), taken in zip(PROPERTIES, chosen, strict=True) if taken]
    texts = [separator.join([*there, key.encode(), JSON]) for key in keys]
    found = detect_layout(texts, Options())
    assert found.share == 1.0
    assert [parse(text, found.layout).value for text in texts] == [JSON] * len(texts)
    if any(chosen[:4]) or not chosen[4]:
        assert [parse(text, found.layout).key for text in texts] == [key.encode() for key in keys]


def test_states_are_what_the_reader_says() -> None:
    assert (MESSAGE, MALFORMED) == (0, 2)
    assert np.uint8(MALFORMED) == 2


def test_newlines_are_found_wherever_they_stand_in_a_long_buffer() -> None:
    text = np.full((1 << 18) * 2 + 5, ord("x"), dtype=np.uint8)
    places = [0, 7, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, (1 << 19) - 1, 1 << 19, len(text) - 1]
    text[places] = ord("\n")
    assert console.newlines(text).tolist() == [place + 1 for place in places]
    assert console.newlines(text[:0]).tolist() == []
