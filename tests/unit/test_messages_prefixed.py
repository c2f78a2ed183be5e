"""Messages behind their lengths: which lengths, with keys or without, and what damage does."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.messages import MALFORMED, TRUNCATED, probe
from cdcwb.formats.messages.container import PREFIXES
from cdcwb.formats.messages.prefixed import INVALID, prefix_of
from tests.containers import AVRO, CONFLUENT, JSON, Row, prefixed, put, rows

SIGNED = [name for name in PREFIXES if name != "varint"]
VALUES = [JSON, AVRO, CONFLUENT, JSON + b" " * 300, AVRO + bytes(20), CONFLUENT + b"\xff" * 100]


def values(found: list[Row]) -> list[bytes | None]:
    assert [row.reason for row in found if row.state] == []
    return [row.value for row in found]


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_lengths_are_told_by_where_they_lead(name: str, count: int, tmp_path: Path) -> None:
    path = put(tmp_path, prefixed(name, *VALUES[:count]))
    container = probe(path, {})
    assert (container.kind, container.settings["prefix"], container.settings["pairs"]) == ("prefixed", name, "false")
    assert values(rows(path)) == VALUES[:count]


@pytest.mark.parametrize("name", SIGNED)
def test_a_length_of_minus_one_is_a_tombstone(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, prefixed(name, JSON, None, AVRO, None))
    assert values(rows(path)) == [JSON, None, AVRO, None]


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize(
    "keys", [[b"k1", b"k2", b"k2"], [b'{"id":1}', b'{"id":2}', None], [CONFLUENT[:4] + b"\x07abc"] * 3]
)
def test_keys_before_the_values(name: str, keys: list[bytes | None], tmp_path: Path) -> None:
    messages = [CONFLUENT + bytes(20), None, CONFLUENT + b"x" * 30] if keys[0] != b'{"id":1}' else [JSON, None, JSON]
    data = b"".join(prefixed(name, key, value) for key, value in zip(keys, messages, strict=True))
    path = put(tmp_path, data)
    assert probe(path, {}).settings["pairs"] == "true"
    found = rows(path)
    assert values(found) == messages
    assert [row.key for row in found] == keys


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    data = prefixed("be4", b"any", b"thing", b"", b"at all")
    assert values(rows(put(tmp_path, data), prefix="be4", container="prefixed")) == [b"any", b"thing", b"", b"at all"]
    found = rows(put(tmp_path, data), prefix="be4", pairs="true", container="prefixed")
    assert [(row.key, row.value) for row in found] == [(b"any", b"thing"), (b"", b"at all")]


def test_a_text_is_no_dump(tmp_path: Path) -> None:
    for size in range(60, 200):
        text = b'{"a":"' + b"x" * size + b'"}\n'
        assert probe(put(tmp_path, text * 3), {}).kind == "lines"


# Damage


@pytest.mark.parametrize("name", PREFIXES)
def test_damage_reaches_to_the_next_messages(name: str, tmp_path: Path) -> None:
    before, behind = prefixed(name, *VALUES[:3]), prefixed(name, *VALUES)
    found = rows(put(tmp_path, before + b"\xee" * 50 + behind))
    assert [row.value for row in found if row.state == 0] == [*VALUES[:3], *VALUES]
    assert sum(row.length for row in found if row.state == 2) == 50


@pytest.mark.parametrize("name", ["be4", "le4", "be8", "le8"])
@pytest.mark.parametrize("wrong", [0, 1, 50, 1 << 20, 1 << 30])
def test_a_wrong_length_costs_its_message_alone(name: str, wrong: int, tmp_path: Path) -> None:
    width, order = int(name[2]), "big" if name[0] == "b" else "little"
    parts = [prefixed(name, value) for value in VALUES]
    parts[2] = wrong.to_bytes(width, order) + parts[2][width:]  # type: ignore[arg-type]
    found = rows(put(tmp_path, b"".join(parts)), container="prefixed", prefix=name)
    assert [row.value for row in found if row.value in VALUES] == [*VALUES[:2], *VALUES[3:]]


def test_a_dump_that_is_cut_off(tmp_path: Path) -> None:
    data = prefixed("be4", *VALUES)
    found = rows(put(tmp_path, data[:-30]))
    assert values(found[:-1]) == VALUES[:-1]
    assert found[-1].state == TRUNCATED
    assert (
        found[-1].reason
        == f"truncated: a message of {len(VALUES[-1])} bytes was expected, {len(VALUES[-1]) - 30} bytes are there"
    )


def test_zeros_at_the_end_are_no_messages(tmp_path: Path) -> None:
    found = rows(put(tmp_path, prefixed("be4", *VALUES) + bytes(3 << 20)))
    assert [row.state for row in found] == [0] * len(VALUES) + [2, 2, 2]
    assert found[-1].reason == "zero bytes where the length of a message was expected"


def test_nothing_that_leads_anywhere_is_a_problem(tmp_path: Path) -> None:
    path = put(tmp_path, b"\x01\x02\x03 no lengths at all")
    container = probe(path, {"container": "prefixed"})
    assert container.problem == "no kind of length prefix fits from message to message"
    assert {row.state for row in rows(path, container="prefixed")} <= {MALFORMED, TRUNCATED}


@pytest.mark.parametrize("text", [b"\0", b"\xff", b"\0\0\0\1", b"\0\0\0\1{", b"\x02{", b"\0\0\0\6\0\0\0\0\0\0", b"{"])
@pytest.mark.parametrize("name", PREFIXES)
def test_hostile_repetition_ends_in_time(text: bytes, name: str, tmp_path: Path) -> None:
    path = put(tmp_path, text * (50_000 // len(text)))
    begun = time.process_time()
    rows(path, container="prefixed", prefix=name)
    assert time.process_time() - begun < 10


# One length, many lengths


@given(st.binary(max_size=40), st.sampled_from(PREFIXES))
def test_many_lengths_at_once_are_what_one_is(data: bytes, name: str) -> None:
    prefix = prefix_of(name)
    places = np.arange(len(data))
    lengths, widths = prefix.read_many(np.frombuffer(data, np.uint8), places)
    for place, length, width in zip(places.tolist(), lengths.tolist(), widths.tolist(), strict=True):
        want, behind = prefix.read(memoryview(data), place)
        assert length == want
        if want != INVALID:
            assert place + width == behind


@given(
    st.lists(
        st.none() | st.sampled_from([b"{", b"\0", b"atMSG", b"x"]).flatmap(lambda b: st.binary().map(lambda r: b + r))
    )
)
def test_what_was_written_with_given_lengths_comes_back(
    tmp_path_factory: pytest.TempPathFactory, messages: list[bytes | None]
) -> None:
    messages = [JSON, *messages, JSON]
    for name in SIGNED:
        path = put(tmp_path_factory.mktemp("prefixed"), prefixed(name, *messages))
        assert values(rows(path, container="prefixed", prefix=name, pairs="false")) == messages
