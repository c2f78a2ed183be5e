"""The generator's records, against literal bytes (docs/formats/gbase8s.md §1 to §6)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdcwb_synth.catalogue import Table, TableVersion
from cdcwb_synth.encoder import EncoderContext
from cdcwb_synth.gbase8s import GBase8sEncoder, GBase8sOptions, LogPositions
from cdcwb_synth.model import Operation
from cdcwb_synth.truth import Truth
from cdcwb_synth.values import Column, Type
from cdcwb_synth.workload import Change, Event, Notice, Row, Schema, SourceTransaction, Step

# the variable column stands first in the table, and last on the wire
COLUMNS = (Column("t", Type.VARCHAR, length=12, reserve=0), Column("n", Type.INTEGER))
VERSION = TableVersion(Table("own", "tab", 77, "n"), 1, COLUMNS)
ONE = SourceTransaction(0, 39, 2005, True)
TIME = datetime(2025, 3, 23, 10, 57, 19, 123456, UTC)


def records(folder: Path, events: Sequence[Event], **options: Any) -> list[str]:
    """The records that the events become, as hex."""
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    truth = Truth("gbase8s", folder / "truth")
    chosen = GBase8sOptions.parse({"split_updates": 0.0} | options)
    encoder = GBase8sEncoder(EncoderContext(chosen, 1, 0, folder, truth))
    for event in events:
        encoder.write(event, 0)
    encoder.finish()
    truth.close()
    data, made = (folder / "capture" / "stream-1.bin").read_bytes(), []
    while data:
        size = int.from_bytes(data[:4], "big") + int.from_bytes(data[4:8], "big")
        made.append(data[:size].hex())
        data = data[size:]
    return made


def change(
    operation: str, before: Row | None, after: Row | None, of: SourceTransaction = ONE, *, late: bool = False
) -> Change:
    return Change(Operation(operation), VERSION, before, after, TIME, of, late)


SCHEMA = Schema(VERSION, TIME)
BEGIN = Step("begin", ONE, TIME)


def packed(text: str) -> str:
    return text.replace(" ", "")


def test_a_schema_has_its_counts_and_its_text_with_the_closing_nul(tmp_path: Path) -> None:
    assert records(tmp_path, [SCHEMA]) == [
        packed("00000024 0000001b 00000042 000000c8 0000004d 00000000 00000004 00000001 00000001")
        + b"n integer, t varchar(12,0)\x00".hex()
    ]


def test_a_transaction_begins_and_commits_with_its_time_in_whole_seconds(tmp_path: Path) -> None:
    begin, commit = records(tmp_path, [BEGIN, Step("commit", ONE, TIME)])
    assert begin == packed("00000028 00000000 00000042 00000001 0000000b03fe0018 00000027 0000000067dfe90f 000007d5")
    assert commit == packed("00000024 00000000 00000042 00000002 0000000b03fe0050 00000027 0000000067dfe90f")


def test_a_rollback_has_no_time(tmp_path: Path) -> None:
    _, rollback = records(tmp_path, [BEGIN, Step("rollback", ONE, TIME)])
    assert rollback == packed("0000001c 00000000 00000042 00000003 0000000b03fe0050 00000027")


@pytest.mark.parametrize(("byte_order", "word"), [("little", "05000000"), ("big", "00000005")])
def test_a_row_has_a_size_word_for_each_variable_column_in_the_servers_byte_order(
    tmp_path: Path, byte_order: str, word: str
) -> None:
    events: list[Event] = [SCHEMA, BEGIN, change("INSERT", None, ("abc", 15))]
    row = records(tmp_path, events, byte_order=byte_order)[-1]
    assert row == packed(
        f"00000028 00000009 00000042 00000028 0000000b03fe0050 00000027 0000004d 00000000 {word} 0000000f 0003616263"
    )


def test_each_change_has_its_record_number(tmp_path: Path) -> None:
    events: list[Event] = [
        SCHEMA,
        BEGIN,
        change("INSERT", None, ("a", 1)),
        change("UPDATE", ("a", 1), ("b", 1)),
        change("UPDATE", ("b", 1), ("c", 1), late=True),
        change("DELETE", ("c", 1), None),
        change("TRUNCATE", None, None),
    ]
    made = records(tmp_path, events)
    assert [int(record[24:32], 16) for record in made] == [200, 1, 40, 42, 43, 43, 42, 41, 119]
    images = [bytes.fromhex(record)[-1:] for record in made[2:8]]
    assert images == [b"a", b"a", b"b", b"c", b"b", b"c"]
    assert made[-1][:32] == packed("00000020 00000000 00000042 00000077")
    assert made[-1][48:] == packed("00000027 0000004d")


def test_an_undo_names_the_sequence_of_its_savepoint_and_the_stream_goes_on_behind(tmp_path: Path) -> None:
    events: list[Event] = [
        SCHEMA,
        BEGIN,
        change("INSERT", None, ("a", 1)),
        Step("savepoint", ONE, TIME, 0),
        change("INSERT", None, ("b", 2)),
        Step("undo", ONE, TIME, 0),
        change("INSERT", None, ("c", 3)),
    ]
    _, _, first, second, undo, third = records(tmp_path, events)
    at = [int(record[32:48], 16) for record in (first, second, undo, third)]
    assert at[0] < at[2] <= at[1] < at[3]
    assert undo[:32] == packed("0000001c 00000000 00000042 0000003e")
    assert undo[48:] == "00000027"


def test_an_idle_marker_has_sequence_zero(tmp_path: Path) -> None:
    assert records(tmp_path, [Notice("idle")]) == [packed("00000018 00000000 00000042 000000c9 0000000000000000")]


def test_a_fatal_error_says_that_the_session_must_be_closed(tmp_path: Path) -> None:
    fatal, other = records(tmp_path, [Notice("fatal"), Notice("error")])
    assert fatal == packed("00000018 00000000 00000042 000000ca 00000001 fffeb8b0")  # -83792
    assert other[:40] == packed("00000018 00000000 00000042 000000ca 00000000")
    assert -83802 <= int(other[40:], 16) - 2**32 <= -83700


def test_the_halves_of_a_split_update_have_one_record_of_another_transaction_between_them(tmp_path: Path) -> None:
    two = SourceTransaction(1, 40, 2001, True)
    events: list[Event] = [
        SCHEMA,
        BEGIN,
        Step("begin", two, TIME),
        change("UPDATE", ("a", 1), ("b", 1)),
        change("UPDATE", ("x", 1), ("y", 1), two),
        Step("commit", two, TIME),
    ]
    made = records(tmp_path, events, split_updates=1.0)[3:]
    numbers = [(int(record[24:32], 16), int(record[48:56], 16)) for record in made]
    assert numbers == [(42, 39), (42, 40), (43, 39), (43, 40), (2, 40)]


def test_log_positions_rise_through_pages_and_into_the_next_log_file() -> None:
    positions = LogPositions(log=7, page=0x3FFE, pages=0x4000)
    taken = [positions.take(100) for _ in range(200)]
    assert taken == sorted(set(taken))
    assert taken[0] == 7 << 32 | 0x3FFE << 12 | 0x18
    assert {position >> 32 for position in taken} == {7, 8}
    assert all(position & 0xFFF >= 0x18 for position in taken)
