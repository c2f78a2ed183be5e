"""Where records begin and end: in clean streams, in damaged ones, and whatever the bytes are."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from cdcwb.formats.gbase8s import framing
from cdcwb.formats.gbase8s.framing import UnparsedReason, first_chain, iter_segments, record_end, strong_starts
from cdcwb.model import Problem
from tests import wire
from tests.mutate import mutate

# A stream of all twelve record types: a table, a transaction with a row of each kind, and what stands between
# transactions. It is 13 records long.
STREAM = [
    wire.goods(),
    wire.timeout(),
    wire.begin(7, 0x100),
    wire.insert(7, 0x140, 1, "walnut"),
    wire.insert(7, 0x180, 1, "walnut", number=42),
    wire.insert(7, 0x1C0, 2, "chestnut", number=43),
    wire.insert(7, 0x200, 2, "chestnut", number=41),
    wire.discard(7, 0x180),
    wire.commit(7, 0x240),
    wire.begin(8, 0x280),
    wire.truncate(8, 0x2C0),
    wire.rollback(8, 0x300),
    wire.error(-83713),
]

Segment = tuple[int, int, bool, UnparsedReason | None]


def segments(
    data: bytes, window: int = framing.WINDOW, cuts: Sequence[int] = (), boundaries: Sequence[int] = ()
) -> list[Segment]:
    """(start, end, is record, reason) of a stream, read window by window in splits that begin at ``cuts``."""
    buffer = np.frombuffer(data, np.uint8)
    out: list[Segment] = []
    position = 0
    for stop in [*cuts, len(data)]:
        for found in iter_segments(
            lambda first, last: buffer[first:last],
            position,
            stop,
            len(data),
            boundaries=np.array(boundaries, dtype=np.int64),
            window=window,
        ):
            for at in range(len(found.start)):
                start, end = found.base + int(found.start[at]), found.base + int(found.end[at])
                out.append((start, end, bool(found.record[at]), found.reasons.get(at)))
                position = end
    return out


def pieces(data: bytes) -> list[tuple[bytes, bool]]:
    """What each segment of a stream holds, and whether it is a record; holds that nothing is left out."""
    found = segments(data)
    assert [end for _, end, _, _ in found[:-1]] == [start for start, _, _, _ in found[1:]]
    assert not data or (found[0][0], found[-1][1]) == (0, len(data))
    return [(data[start:end], is_record) for start, end, is_record, _ in found]


# --- clean streams ----------------------------------------------------------------------------------------------------


def test_records_of_every_type_follow_each_other_without_gaps() -> None:
    assert pieces(b"".join(STREAM)) == [(one, True) for one in STREAM]


def test_a_stream_without_bytes_has_no_segments() -> None:
    assert segments(b"") == []


@pytest.mark.parametrize("number", [0, 4, 44, 77, 203, 255, 256, 0x10001, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [0, 1, 13, 400])
def test_a_record_of_an_unknown_type_is_kept_and_stepped_over(number: int, size: int) -> None:
    unknown = wire.record(number, b"\x01" * size, b"\x02" * size)
    stream = [STREAM[0], unknown, *STREAM[1:], unknown, unknown]
    assert pieces(b"".join(stream)) == [(one, True) for one in stream]


@pytest.mark.parametrize("more", [1, 4, 100])
def test_headers_that_are_longer_than_known_are_records(more: int) -> None:
    longer = [wire.record(int.from_bytes(one[12:16], "big"), one[16:36] + bytes(more), b"") for one in STREAM]
    assert pieces(b"".join(longer)) == [(one, True) for one in longer]


def test_bytes_in_a_value_that_look_like_records_are_part_of_the_value() -> None:
    # two whole records inside a text, followed by ordinary records
    hostile = wire.insert(7, 0x150, 9, wire.begin(66, 0x999) + wire.commit(66, 0x99A))
    stream = [*STREAM[:4], hostile, *STREAM[4:]]
    assert pieces(b"".join(stream)) == [(one, True) for one in stream]
    # and as the last record of a stream
    assert pieces(b"".join([*STREAM, hostile])) == [(one, True) for one in [*STREAM, hostile]]


def test_a_record_longer_than_the_window_is_one_record() -> None:
    long = wire.insert(7, 0x150, 9, b"x" * 40_000)
    stream = [*STREAM[:4], long, *STREAM[4:]]
    found = segments(b"".join(stream), window=64)
    assert [end - start for start, end, is_record, _ in found if is_record] == [len(one) for one in stream]


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0, 15])
@pytest.mark.parametrize("field", [0, 4], ids=["header_size", "payload_size"])
def test_an_impossible_length_costs_one_record(value: int, field: int) -> None:
    for victim, one in enumerate(STREAM):
        if value in (0, 15) and field == 4 and len(one) - int.from_bytes(one[:4], "big") in (0, 15):
            continue  # that is its true payload size
        damaged = one[:field] + value.to_bytes(4, "big") + one[field + 4 :]
        stream = [*STREAM[:victim], damaged, *STREAM[victim + 1 :]]
        records = [there for there, is_record in pieces(b"".join(stream)) if is_record]
        kept = [other for other in records if other in STREAM]
        assert kept == [other for other in STREAM if other is not one], f"record {victim}"


def test_what_was_expected_and_found_is_said_of_damage() -> None:
    first, victim, *rest = STREAM
    (_, _, _, length), *_ = [
        s for s in segments(first + b"\x00\x00\x00\x18\xff\xff\xff\xff" + victim[8:] + b"".join(rest)) if not s[2]
    ]
    assert length is not None
    assert length.code is Problem.TRUNCATED
    assert "24 + 4294967295 bytes" in length.sentence
    (_, _, _, scheme), *_ = [s for s in segments(first + victim[:11] + b"\x43" + victim[12:] + rest[0]) if not s[2]]
    assert scheme == (Problem.MALFORMED, "a record header was expected, with packetization scheme 66; found 67")
    (_, _, _, zeros), *_ = [s for s in segments(first + bytes(100) + rest[0]) if not s[2]]
    assert zeros == (Problem.MALFORMED, "zero bytes where a record was expected")


def test_a_stream_that_ends_inside_a_record_says_so_wherever_it_ends() -> None:
    whole = b"".join(STREAM[:4])
    last = STREAM[3]
    for there in range(1, len(last)):
        *records, (start, end, is_record, reason) = segments(whole[: len(whole) - len(last) + there])
        assert [s[2] for s in records] == [True] * 3
        assert (start, end, is_record) == (len(whole) - len(last), len(whole) - len(last) + there, False)
        assert reason is not None
        assert reason.code is Problem.TRUNCATED
        assert f"{there} bytes are there" in reason.sentence


def test_bytes_between_records_are_one_gap_and_no_record_is_lost() -> None:
    for noise in (b"\xaa" * 7, bytes(50), b"\x00\x00\x00\x42" * 9, STREAM[3][:20]):
        stream = [*STREAM[:5], noise, *STREAM[5:]]
        assert pieces(b"".join(stream)) == [(one, one is not noise) for one in stream]


def test_long_damage_is_reported_in_pieces_counted_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "GAP_PIECE", 100)
    found = segments(STREAM[0] + b"\xaa" * 250 + STREAM[1])
    start = len(STREAM[0])
    assert [(first - start, last - start) for first, last, is_record, _ in found if not is_record] == [
        (0, 100),
        (100, 200),
        (200, 250),
    ]


def test_no_gap_reaches_into_another_file() -> None:
    data = STREAM[0] + b"\xaa" * 30 + b"\xbb" * 30 + STREAM[1]
    edge = len(STREAM[0]) + 30
    assert [s[:3] for s in segments(data, boundaries=[edge])] == [
        (0, edge - 30, True),
        (edge - 30, edge, False),
        (edge, edge + 30, False),
        (edge + 30, len(data), True),
    ]
    # but a record does: it goes on there
    assert [s[2] for s in segments(b"".join(STREAM), boundaries=[len(STREAM[0]) + 5])] == [True] * len(STREAM)


# --- decisions depend on the bytes alone ------------------------------------------------------------------------------


def _damaged(rng: random.Random) -> bytes:
    """Some records in any order, some of them hostile, damaged here and there."""
    stream = [rng.choice(STREAM) for _ in range(rng.randrange(1, 30))]
    if rng.random() < 0.5:
        inside = b"".join(rng.choice(STREAM) for _ in range(rng.randrange(1, 4)))
        stream.insert(rng.randrange(len(stream)), wire.insert(7, 0x150, 9, inside))
    if rng.random() < 0.3:
        stream.insert(rng.randrange(len(stream)), wire.record(77, bytes(rng.randrange(40))))
    if rng.random() < 0.3:
        stream.insert(rng.randrange(len(stream)), rng.randbytes(rng.randrange(600)))
    return mutate(b"".join(stream), rng)


def test_neither_windows_nor_splits_change_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "GAP_PIECE", 128)
    rng = random.Random(20)
    gaps = 0
    for _ in range(150):
        data = _damaged(rng)
        expected = segments(data)
        gaps += sum(not is_record for _, _, is_record, _ in expected)
        for window in (17, 64, rng.randrange(16, 2000)):
            assert segments(data, window=window) == expected, data.hex()
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 6)))
        assert segments(data, window=rng.choice((50, 5000)), cuts=cuts) == expected, data.hex()
    assert gaps > 150


def test_reading_is_taken_up_at_a_record_that_another_follows() -> None:
    # the text of the first record holds a whole record of its own, which no record follows
    hostile = wire.insert(7, 0x150, 9, wire.timeout(0x99) + b"!")
    data = b"".join([hostile, *STREAM])
    inside = data[20:]
    assert first_chain(np.frombuffer(inside, np.uint8), True) == len(hostile) - 20
    assert first_chain(np.frombuffer(b"\xaa" * 50, np.uint8), True) == -1
    assert first_chain(np.frombuffer(b"", np.uint8), True) == -1


# --- hostile bytes ----------------------------------------------------------------------------------------------------


def _peak(data: bytes, window: int) -> tuple[float, float]:
    """Peak memory of framing as a multiple of the stream's size, and seconds."""
    tracemalloc.start()
    began = time.process_time()
    buffer = np.frombuffer(data, np.uint8)
    for _ in iter_segments(lambda first, last: buffer[first:last], 0, len(data), len(data), window=window):
        pass
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(data), seconds


_HUGE = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(STREAM[3][:4] + _HUGE + STREAM[3][8:] + bytes(400_000), id="a row of 4 GiB, then zeros"),
        pytest.param((STREAM[3][:4] + _HUGE + STREAM[3][8:]) * 3000, id="nothing but rows of 4 GiB"),
        pytest.param((_HUGE + STREAM[3][4:]) * 3000, id="nothing but headers of 4 GiB"),
        pytest.param(wire.record(77) * 10_000, id="nothing but unknown records"),
        pytest.param((wire.record(77)[:4] + _HUGE + wire.record(77)[8:]) * 10_000, id="unknown records of 4 GiB"),
        pytest.param(b"\x00\x00\x00\x42" * 100_000, id="nothing but the number 66"),
        pytest.param(bytes(400_000), id="zeros"),
        pytest.param(_HUGE * 100_000, id="ones"),
        pytest.param((STREAM[0] + b"\xaa") * 4000, id="a stray byte behind every record"),
    ],
)
def test_no_bytes_make_framing_slow_or_large(data: bytes) -> None:
    # up to 400 kB; candidates are a few arrays of eight bytes for each, and there may be one for every sixteen bytes
    multiple, seconds = _peak(data, 1 << 16)
    assert multiple < 40
    assert seconds < 20  # a minute and more if the time grew with the square of the size


def test_candidates_are_only_what_could_be_a_header() -> None:
    data = b"".join(STREAM)
    buffer = np.frombuffer(data, np.uint8)
    starts = np.cumsum([0, *map(len, STREAM[:-1])]).tolist()
    assert strong_starts(buffer) == starts
    assert [record_end(buffer, start) for start in starts] == [*starts[1:], len(data)]
