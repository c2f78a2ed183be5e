"""Captures that hold whole read buffers: stale tails and ghosts are filler, everything else is read.

The captures are made by a client as §1.2 describes it: it reads again and again into one buffer and writes the whole
buffer down each time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cdcwb.formats import get_format
from cdcwb.formats.gbase8s.framing import Edges, Reads
from cdcwb.formats.records import Segments
from cdcwb.model import Problem
from tests import wire
from tests.local import ledger, plan_of, read

SIZE = 256


def buffers(reads: Sequence[bytes], size: int = SIZE) -> list[bytes]:
    """The whole buffer after each read."""
    content = bytearray(size)
    out = []
    for one in reads:
        assert len(one) <= size
        content[: len(one)] = one
        out.append(bytes(content))
    return out


def full_reads(stream: bytes, size: int = SIZE) -> list[bytes]:
    """A stream read in pieces of the buffer's size; only the last read is shorter."""
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def walk(data: bytes, starts: Sequence[int], window: int = 1 << 20) -> list[Segments]:
    """The segments of a stream whose reads begin at ``starts``."""
    buffer = np.frombuffer(data, np.uint8)
    inside = sorted({start for start in starts if start < max(1, len(data))})
    return list(Reads(lambda start, stop: buffer[start:stop], Edges([0, len(data)], lambda _: inside)).segments(window))


def found(captured: Sequence[bytes]) -> tuple[list[bytes], list[tuple[int, bytes, str]]]:
    """The records of reads, and what is not stale among the rest: (read, bytes, reason)."""
    data = b"".join(captured)
    starts = np.cumsum([0, *map(len, captured)])
    (walked,) = walk(data, starts[:-1].tolist())
    ends = [0, *walked.end.tolist()]
    assert walked.start.tolist() == ends[:-1], "nothing is left out"
    assert ends[-1] == len(data)
    records, rest = [], []
    for at, (start, end) in enumerate(zip(walked.start.tolist(), walked.end.tolist(), strict=True)):
        if walked.record[at]:
            records.append(data[start:end])
        elif walked.reasons[at].code not in (None, Problem.STALE):
            rest.append(
                (int(np.searchsorted(starts, start, "right")) - 1, data[start:end], walked.reasons[at].sentence)
            )
    return records, rest


# --- what is stale ----------------------------------------------------------------------------------------------------


def test_what_a_read_does_not_overwrite_is_stale() -> None:
    # the second read is shorter than the first and ends inside it; the third is as long as the second
    reads = [wire.goods() + wire.timeout(), wire.begin(5, 0x10), wire.commit(5, 0x50)]
    assert found(buffers(reads)) == ([wire.goods(), wire.timeout(), *reads[1:]], [])


def test_a_ghost_is_stale_a_whole_old_record_at_its_old_place() -> None:
    # each read but the first ends exactly where an old whole record begins
    first = wire.begin(5, 0x10)
    ghost = wire.insert(5, 0x50, 3, "elm") + wire.commit(5, 0x90)
    second = wire.begin(6, 0xD0)
    assert len(first) == len(second)
    assert found(buffers([first + ghost, second])) == (
        [first, wire.insert(5, 0x50, 3, "elm"), wire.commit(5, 0x90), second],
        [],
    )


def test_bytes_that_were_there_before_are_a_record_if_their_sequence_is_new() -> None:
    # the first read holds a text that looks like a commit; the second brings that very commit at that very place
    true = wire.commit(5, 0x90)
    holder = wire.insert(5, 0x50, 3, true + b"!")
    place = holder.index(true)
    before = wire.timeout(0x70)
    filling = wire.record(77, bytes(place - len(before) - 16))
    second = before + filling + true
    assert len(before + filling) == place
    assert found(buffers([holder, second])) == ([holder, before, filling, true], [])


def test_the_first_record_of_a_read_is_a_record_even_if_the_read_before_was_the_same() -> None:
    # idle markers have no sequence; a client that waits reads nothing else
    idle = wire.timeout()
    assert found(buffers([wire.goods(), idle, idle, idle])) == ([wire.goods(), idle, idle, idle], [])


def test_a_buffer_that_was_written_down_again_without_a_read_is_stale() -> None:
    one = wire.begin(5, 0x10) + wire.commit(5, 0x50)
    assert found(buffers([one, b"", wire.timeout()])) == ([one[:40], one[40:], wire.timeout()], [])


def test_a_table_schema_that_is_sent_again_is_a_record_if_news_follow_it() -> None:
    # two schemas stand in both reads at the same places, behind the same first record; what follows differs
    start = wire.goods(131) + wire.goods(132)
    reads = [start + wire.begin(5, 0x10), start + wire.begin(6, 0x50)]
    assert found(buffers(reads)) == (
        [wire.goods(131), wire.goods(132), wire.begin(5, 0x10), wire.goods(131), wire.goods(132), wire.begin(6, 0x50)],
        [],
    )


def test_the_unused_end_of_the_first_reads_is_zero_bytes() -> None:
    records, rest = found(buffers([wire.timeout(), wire.goods()]))
    assert (records, rest) == ([wire.timeout(), wire.goods()], [])


# --- records that go on in the next read ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(48, 140, 7))
def test_records_cut_at_the_buffer_s_end_go_on_in_the_next_reads(size: int) -> None:
    # some are longer than the buffer, so that whole reads hold nothing but a part of them
    stream = [
        wire.goods(),
        wire.begin(5, 0x10),
        wire.insert(5, 0x50, 3, "x" * 300),
        wire.insert(5, 0x90, 4, "oak"),
        wire.commit(5, 0xD0),
    ]
    captured = buffers(full_reads(b"".join(stream), size), size)
    more = wire.begin(6, 0x110)
    assert found([*captured, more + captured[-1][len(more) :]]) == ([*stream, more], [])


def test_a_record_that_goes_on_is_told_from_one_that_begins_the_next_read() -> None:
    # the last twelve bytes of the first read are stale and, with the begin of the next, look like a header
    old = wire.insert(5, 0x10, 3, "x" * 104)
    ghostly = wire.begin(5, 0x90)
    size = len(old) + 12
    first = old + ghostly[:12]
    reads = [first, wire.record(77, bytes(len(old) - 16)), wire.begin(6, 0xD0)]
    records, rest = found(buffers([*reads], size))
    assert records[-1] == wire.begin(6, 0xD0)
    assert [one[0] for one in rest] == [0], "only what the first read cut off is missing"


@pytest.mark.parametrize("seed", range(6))
def test_any_way_to_fill_the_buffer_gives_the_same_records(seed: int) -> None:
    # a client that gets some records with each read, or as much as the buffer takes
    rng = random.Random(seed)
    size = rng.choice((64, 100, 300))
    stream, at = [wire.goods()], 0x10
    for transaction in range(40):
        stream.append(wire.begin(transaction, at))
        for number in range(rng.randrange(4)):
            at += 0x40
            stream.append(wire.insert(transaction, at, number, "x" * rng.randrange(90)))
        at += 0x80
        stream.append(wire.commit(transaction, at))
    data, ends = b"".join(stream), np.cumsum([0, *map(len, stream)])
    reads, begin = [], 0
    while begin < len(data):
        whole = [int(end) for end in ends if begin < end <= begin + size]
        stop = rng.choice(whole) if whole and rng.random() < 0.7 else min(begin + size, len(data))
        reads.append(data[begin:stop])
        begin = stop
    assert found(buffers(reads, size)) == (stream, [])


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_tail_that_no_earlier_read_explains_is_not_called_stale() -> None:
    first, second = buffers([wire.goods(), wire.begin(5, 0x10)])
    changed = second[:60] + b"\xee" + second[61:]
    records, rest = found([first, changed, wire.commit(5, 0x50)])
    assert records == [wire.goods(), wire.begin(5, 0x10), wire.commit(5, 0x50)]
    ((number, there, reason),) = rest
    assert (number, there) == (1, changed[40:])
    assert reason == "bytes that are not a record and differ from those of earlier reads at this offset of the buffer"


def test_damage_costs_what_is_damaged() -> None:
    reads = buffers([wire.goods(), wire.begin(5, 0x10), wire.insert(5, 0x50, 3, "elm"), wire.commit(5, 0x90)])
    damaged = bytearray(reads[2])
    damaged[4:8] = b"\xff\xff\xff\xff"
    records, rest = found([reads[0], reads[1], bytes(damaged), reads[3]])
    assert records == [wire.goods(), wire.begin(5, 0x10), wire.commit(5, 0x90)]
    assert [number for number, _, _ in rest] == [2]


def test_a_capture_that_ends_inside_a_record_says_so() -> None:
    last = wire.insert(5, 0x50, 3, "elm")
    records, rest = found([*buffers([wire.goods(), wire.begin(5, 0x10)]), last[:-2]])
    assert records == [wire.goods(), wire.begin(5, 0x10)]
    assert rest == [
        (2, last[:-2], f"truncated: a record of 40 + 9 bytes was expected, {len(last) - 2} bytes are there")
    ]


def test_a_text_that_looks_like_records_stays_a_text() -> None:
    hostile = wire.insert(5, 0x50, 9, wire.begin(66, 0x999) + wire.commit(66, 0x99A))
    reads = [wire.goods() + wire.timeout(0x8) * 6, hostile, wire.commit(5, 0x90)]
    assert found(buffers(reads))[0] == [wire.goods(), *[wire.timeout(0x8)] * 6, hostile, reads[2]]


def test_many_reads_that_differ_in_their_last_byte_take_no_time() -> None:
    # every record stands where it stood before and every read is new all the same
    began = time.process_time()
    reads = [wire.timeout() * 4000 + bytes([number]) for number in range(20)]
    data = b"".join(reads)
    assert sum(int(one.record.sum()) for one in walk(data, range(0, len(data), len(reads[0])))) == 80_000
    assert time.process_time() - began < 20


# --- windows ----------------------------------------------------------------------------------------------------------


def hostile(rng: random.Random, size: int) -> list[bytes]:
    """Read buffers with records that come again, pieces of records, zero bytes, lost reads, and records over several
    reads."""
    known = [wire.timeout(), wire.goods(), wire.begin(5, 0x10), wire.commit(5, 0x50), wire.discard(5, 0x10)]
    content, waiting, sequence, out = bytearray(size), b"", 0x100, []
    for _ in range(rng.randrange(2, 40)):
        while len(waiting) < size and rng.random() < 0.8:
            sequence += 0x10
            piece = [rng.choice(known), rng.choice(known)[: rng.randrange(1, 60)], bytes(rng.randrange(40))]
            new = [
                wire.begin(5, sequence),
                wire.commit(5, sequence),
                wire.insert(5, sequence, 4, "y" * rng.randrange(90)),
            ]
            waiting += rng.choice([rng.choice(new), piece[0], rng.choice([piece[0], *piece])])
        count = min(rng.choice([size, rng.randrange(size + 1)]), len(waiting))
        content[:count] = waiting[:count]
        waiting = waiting[count:] if rng.random() < 0.95 else b""
        out.append(bytes(content))
    return out


@pytest.mark.parametrize("seed", range(25))
def test_any_windows_of_read_buffers_give_what_one_gives(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([64, 96, 128, 200, 333])
    whole_reads = b"".join(hostile(rng, size))
    data = whole_reads[: len(whole_reads) - rng.randrange(size)]  # a file need not end with a full read
    starts = range(0, len(data), size)

    def spans(window: int) -> list[tuple[int, int, bool]]:
        walked = walk(data, starts, window)
        return [
            (one.base + int(first), one.base + int(last), bool(is_record))
            for one in walked
            for first, last, is_record in zip(one.start, one.end, one.record, strict=True)
        ]

    whole = spans(1 << 20)
    assert [first for first, _, _ in whole] == [0, *(last for _, last, _ in whole[:-1])]
    assert whole[-1][1] == len(data)
    assert spans(64) == spans(3 * size) == whole


@pytest.mark.parametrize("text", [False, True], ids=["binary", "hex"])
def test_files_that_are_reads_of_any_length_are_one_task(text: bool, tmp_path: Path) -> None:
    rng = random.Random(1)
    reads = [one[: rng.randrange(40, 200)] for one in hostile(rng, 200)]
    for at, one in enumerate(reads):
        (tmp_path / f"{at:03}.txt").write_bytes(one.hex().encode() if text else one)
    assert len(plan_of(tmp_path, reads="line").splits) == 1
    table = read(tmp_path, reads="line")
    assert table.filter(pc.is_valid(table["record_type"]))["raw"].to_pylist() == found(reads)[0]
    assert len(ledger(table)) == len(reads)


# --- how it is detected, from files -----------------------------------------------------------------------------------

# a transaction a read, with an idle marker now and then, as a client sees it
STREAM = [
    wire.goods(),
    wire.timeout(),
    wire.begin(5, 0x10),
    wire.insert(5, 0x50, 3, "elm, larch, ash"),
    wire.insert(5, 0x90, 4, "oak"),
    wire.commit(5, 0xD0),
    wire.timeout(),
    wire.begin(6, 0x110),
    wire.insert(6, 0x150, 5, "plane"),
    wire.commit(6, 0x190),
]


def kinds(table: pa.Table) -> list[str]:
    """The kinds of all events but filler."""
    return [kind for kind in table.column("kind").to_pylist() if kind != "filler"]


EXPECTED = ["schema", "heartbeat", "begin", "change", "change", "commit", "heartbeat", "begin", "change", "commit"]


def detected(path: Path, **options: object) -> dict[str, tuple[str, str, bool]]:
    plan = plan_of(path, **options)
    return {row["setting"]: (row["value"], row["evidence"], row["overridden"]) for row in plan.detected}


def test_records_that_follow_each_other_are_no_reads(tmp_path: Path) -> None:
    file = tmp_path / "stream.bin"
    file.write_bytes(b"".join(STREAM))
    assert kinds(read(file)) == EXPECTED
    assert detected(file)["reads"] == ("none", "records follow each other without unused bytes", False)


@pytest.mark.parametrize("size", [80, 96, 128, 1000])
def test_the_size_of_a_buffer_is_found_and_can_be_given(tmp_path: Path, size: int) -> None:
    file = tmp_path / "buffers.bin"
    file.write_bytes(b"".join(buffers(STREAM, size)))
    table = read(file)
    assert kinds(table) == EXPECTED
    assert ledger(table) == {str(file): size * len(STREAM)}
    value, evidence, overridden = detected(file)["buffer_size"]
    assert (value, overridden) == (str(size), False)
    assert f"those {size} bytes earlier" in evidence
    assert kinds(read(file, buffer_size=size)) == EXPECTED
    assert detected(file, buffer_size=size)["buffer_size"] == (str(size), "given as an option", True)


def test_stale_bytes_are_remarks_that_say_what_they_repeat(tmp_path: Path) -> None:
    file = tmp_path / "buffers.bin"
    file.write_bytes(b"".join(buffers(STREAM, 96)))
    stale = [row["problems"] for row in read(file).to_pylist() if row["kind"] == "filler" and any(row["raw"])]
    assert {(one["code"], one["detail"]) for (one,) in stale} == {
        ("stale", "stale bytes of the read buffer: they repeat those of an earlier read at this offset of it")
    }


def test_a_wrong_size_is_taken_at_its_word_and_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "buffers.bin"
    file.write_bytes(b"".join(buffers(STREAM, 128)))
    table = read(file, buffer_size=77)
    assert ledger(table) == {str(file): 128 * len(STREAM)}
    assert "malformed" in kinds(table)
    assert detected(file, buffer_size=77)["buffer_size"][0] == "77"


def test_ghosts_alone_give_reads_away(tmp_path: Path) -> None:
    # every unused tail is a whole old record, so that framing alone sees nothing but records
    first, second = wire.begin(5, 0x10) + wire.commit(5, 0x50), wire.begin(6, 0x90)
    file = tmp_path / "buffers.bin"
    file.write_bytes(b"".join(buffers([first, second], len(first))))
    assert kinds(read(file)) == ["begin", "commit", "begin"]
    assert detected(file)["buffer_size"][0] == str(len(first))
    assert kinds(read(file, reads="none")) == ["begin", "commit", "begin", "commit"]


def test_a_line_of_hex_is_a_read(tmp_path: Path) -> None:
    file = tmp_path / "reads.hex"
    file.write_text("".join(f"[{n} read] {one.hex(' ', 4)}\n" for n, one in enumerate(buffers(STREAM, 96))))
    table = read(file)
    assert kinds(table) == EXPECTED
    assert ledger(table) == {str(file): file.stat().st_size}
    assert detected(file)["reads"] == ("line", f"{len(STREAM)} of {len(STREAM)} lines begin with a record", False)
    assert kinds(read(file, reads="line")) == EXPECTED
    assert detected(file, reads="line")["reads"] == ("line", "given as an option", True)
    assert kinds(read(file, reads="none")).count("malformed") > 0
    assert detected(file, reads="none")["reads"] == ("none", "given as an option", True)


def test_most_lines_may_begin_inside_a_record(tmp_path: Path) -> None:
    file = tmp_path / "reads.hex"
    stream = b"".join(STREAM)
    file.write_text("".join(one.hex() + "\n" for one in buffers([*full_reads(stream, 40), wire.begin(7, 0x1D0)], 40)))
    table = read(file, reads="line")
    assert kinds(table) == [*EXPECTED, "begin"]
    assert kinds(read(file)) == [*EXPECTED, "begin"]


@pytest.mark.parametrize("text", [False, True], ids=["binary", "hex"])
def test_a_file_is_a_read(tmp_path: Path, text: bool) -> None:
    for number, one in enumerate(buffers(STREAM, 96)):
        name = tmp_path / f"read-{number}.{'hex' if text else 'bin'}"
        name.write_bytes(one.hex(" ", 4).encode() + b"\n" if text else one)
    table = read(tmp_path)
    assert kinds(table) == EXPECTED
    assert len(ledger(table)) == len(STREAM)
    value, evidence, _ = detected(tmp_path)["reads"]
    assert value == "line"
    assert f"{len(STREAM)} {'line' if text else 'file'}s" in evidence


def test_clean_files_of_one_stream_are_no_reads(tmp_path: Path) -> None:
    # both begin with a record, and with the same schemas since the session was opened again
    for number in range(2):
        stream = [wire.goods(131), wire.goods(132), wire.begin(number, 0x10 + number), wire.commit(number, 0x50)]
        (tmp_path / f"part-{number}.txt").write_text(b"".join(stream).hex(" ", 4))
    assert kinds(read(tmp_path)) == ["schema", "schema", "begin", "commit"] * 2
    assert detected(tmp_path)["reads"][0] == "none"


def test_records_that_come_twice_are_no_reads_unless_files_hold_whole_buffers(tmp_path: Path) -> None:
    # a client that went back to an earlier position has the same transaction twice
    again = [wire.goods(), *STREAM[2:6], *STREAM[2:6], wire.timeout()]
    file = tmp_path / "again.bin"
    file.write_bytes(b"".join(again))
    assert kinds(read(file)) == ["schema", *EXPECTED[2:6], *EXPECTED[2:6], "heartbeat"]
    assert detected(file)["reads"][0] == "none"


@pytest.mark.parametrize("lost", [0, 10, 20])
def test_a_second_session_that_repeats_the_first_one_loses_nothing(lost: int, tmp_path: Path) -> None:
    """A client reads again from the begin of a transaction that was open; its first session may end in a record."""
    first = [wire.goods(), wire.begin(5, 0x10), *(wire.insert(5, 0x100 + at, at, "elm") for at in range(9))]
    news = [wire.insert(5, 0x200, 3, "oak"), wire.commit(5, 0x300)]
    session = b"".join(first)
    for name, data in (("a1.bin", session[: len(session) - lost]), ("a2.bin", session + b"".join(news))):
        (tmp_path / name).write_bytes(data)
    rows = read(tmp_path).to_pylist()
    assert {row["raw"] for row in rows if row["record_type"]} == {*first, *news}


@pytest.mark.parametrize("more", [1, 50])
def test_a_second_session_in_the_same_file_loses_nothing(more: int, tmp_path: Path) -> None:
    """The first session ends in a record, which the second one has as a whole."""
    first = [wire.goods(), wire.begin(5, 0x10), *(wire.insert(5, 0x100 + at, at, "elm") for at in range(30))]
    news = [*(wire.insert(5, 0x200 + at, at, "oak") for at in range(more)), wire.commit(5, 0x300)]
    session = b"".join(first)
    (tmp_path / "a.bin").write_bytes(session[:-10] + session + b"".join(news))
    rows = read(tmp_path).to_pylist()
    assert {row["raw"] for row in rows if row["kind"] not in ("filler", "malformed")} == {*first, *news}


def test_texts_that_repeat_records_are_no_reads(tmp_path: Path) -> None:
    lookalike = wire.timeout(0x99) * 20
    stream = [wire.goods(), *[wire.insert(5, 0x50 + n, n, lookalike) for n in range(8)]]
    file = tmp_path / "hostile.bin"
    file.write_bytes(b"".join(stream))
    assert kinds(read(file)) == ["schema", *["change"] * 8]
    assert detected(file)["reads"][0] == "none"


def test_reads_whose_starts_nothing_shows_are_read_by_a_guess_and_said_to_be(tmp_path: Path) -> None:
    # the reads have sizes of their own, so that no distance explains the repeated bytes
    file = tmp_path / "buffers.bin"
    rng = random.Random(4)
    stream = [wire.goods(), *(wire.begin(at, 0x100 + 0x10 * at) for at in range(60))]
    captured = [
        one[: rng.randrange(50, 200)]
        for one in buffers([wire.insert(9, 0x50, 3, "".join(rng.choices("abcdefgh", k=140))), *stream], 200)
    ]
    file.write_bytes(b"".join(captured))
    table = read(file)
    assert kinds(table).count("begin") == 60
    assert ledger(table) == {str(file): sum(map(len, captured))}
    assert detected(file)["reads"][0] == "inferred"
    form = get_format("gbase8s")
    (guess,) = [row for row in form.problems(plan_of(file)) if row["code"] == Problem.INFERRED]
    assert "buffer_size=" in guess["sentence"]
