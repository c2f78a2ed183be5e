"""Where formats mislead: the examples are what data/README.md says was planted; where nothing was, none is found."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from cdcwb.analysis.lesson import FORMATS, open_lesson
from cdcwb.analysis.lesson_traps import TRAPS, traps
from cdcwb_synth import generate

ROOT = Path(__file__).parents[2]


@cache
def seen(name: str) -> dict[str, str | None]:
    return {one.title: one.seen for one in traps(open_lesson(ROOT / "data" / name, name))}


@pytest.mark.parametrize(
    ("name", "title", "words"),
    [
        ("gbase8s", "Two byte orders in one record", "12 00 00 00. That is 18 little-endian"),
        ("gbase8s", "A transaction's number is used again", "name 132 transactions"),
        ("gbase8s", "A rollback to a savepoint undoes the changes that precede it", "19 such records undo 38 changes"),
        (
            "gbase8s",
            "A row in the stream is not yet a change of the table",
            "69 changes of transactions that were roll",
        ),
        ("gbase8s", "The row after may come before the row before", "4 updates"),
        ("gbase8s", "Files and reads do not end at the end of a record", "2 records continue in the next file"),
        ("gbase8s", "Files and reads do not end at the end of a record", "41 bytes at stream-2.bin"),
        ("qlik-kafka", "The order of lines is not the order of changes", "files"),
        ("qlik-kafka", "The schema may follow its rows", "5 files have no such message"),
        ("qlik-kafka", "A gap does not show", "events 1, 2, 4 and 5: number 3 is missing"),
        ("qlik-kafka", "A message may come twice", "shop.order_line-0.txt"),
        ("qlik-kafka", "An update may change nothing", "7 of 93 updates"),
        ("qlik-kafka", "Not every message is a change", "40 rows of the full load"),
        ("qlik-kafka", "Not every message is a change", "5 messages without a value"),
        ("qlik-change-table", "The mask counts the header columns", "After 7 header columns that is"),
        ("qlik-change-table", "change_seq is not a key", "all 86 pairs"),
        ("qlik-change-table", "NULL in a U row has two meanings", "does not name it"),
        ("qlik-change-table", "1970 is not the time", "3 rows"),
        ("qlik-change-table", "Nothing shows whether a transaction is complete", "of 81 transactions"),
        ("qlik-change-table", "A TRUNCATE is a row without values", "a row of type T"),
        ("goldengate", "Printed times are in the zone of the machine that printed", "printed 2026/07/14 08:30:01"),
        ("goldengate", "An absent column is not NULL", "A NULL is there"),
        ("goldengate", "Metadata may be inside a transaction", "with TransInd 3"),
        ("goldengate", "A transaction that a restart interrupted is written again", "was interrupted after 4 changes"),
        ("goldengate", "Times do not rise along the trail", "go back in time"),
        ("goldengate", "A record that was printed twice is one record", "RBA 1732"),
        (
            "idm-event-log",
            "A row is not a change, and a change not an event",
            "consecutive rows of type 1 are of one INSERT",
        ),
        ("idm-event-log", "Some rows say only that something changed", "228 of 797 rows"),
        ("idm-event-log", "One row, several spellings of its key", "5 keys"),
        ("idm-event-log", "event_time is not the order", "are earlier than the preceding row"),
        ("idm-event-log", "Only a capital N is new", "11 rows with an unknown status: “N ”, “P”, “X”, “n” and “s”"),
        ("idm-event-log", "Names of users differ by case", "45 rows by “IDM_DRIVER” and 12 rows by “idm_driver”"),
    ],
)
def test_the_example_is_what_was_planted(name: str, title: str, words: str) -> None:
    assert words in (seen(name)[title] or "")


@pytest.mark.parametrize("name", FORMATS)
def test_every_trap_has_an_example_in_the_small_capture(name: str) -> None:
    found = seen(name)
    assert len(found) == len(TRAPS[name]) == 6
    assert [title for title, example in found.items() if example is None] == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_trap_names_a_section_of_the_formats_page(name: str) -> None:
    page = (ROOT / "docs" / "formats" / f"{name}.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^#+ (\d+(?:\.\d+)?) ", page, re.MULTILINE))
    assert {trap.section for trap in TRAPS[name]} <= sections


CALM = {
    "gbase8s": (
        {"concurrency": 1, "rollback_share": 0, "undo_share": 0, "reversed_updates": 0, "open_transactions": 0},
        {
            "A rollback to a savepoint undoes the changes that precede it",
            "The row after may come before the row before",
        },
    ),
    "qlik-kafka": (
        {"refresh_rows": 0, "tombstone_share": 0, "duplicate_share": 0},
        {"A gap does not show", "A message may come twice", "Not every message is a change"},
    ),
    "qlik-change-table": (
        {"unknown_times": 0, "truncates": 0},
        {"1970 is not the time", "A TRUNCATE is a row without values"},
    ),
    "goldengate": (
        {"restarts": 0, "abends": 0},
        {"A transaction that a restart interrupted is written again", "A record that was printed twice is one record"},
    ),
    "debezium": (
        {"refresh_rows": 0, "unavailable_share": 0, "schema_changes": 0},
        {"Not every message is a change", "A value that was not captured looks like a text", "A gap does not show"},
    ),
    "idm-event-log": (
        {"odd_status_share": 0, "loopback_share": 0, "spelling_share": 0, "damaged_share": 0},
        {"Only a capital N is new", "One row, several spellings of its key", "Names of users differ by case"},
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_no_example_is_found_where_there_is_none(name: str, tmp_path: Path) -> None:
    options, absent = CALM[name]
    made = generate(name, changes=40, seed=5, to=tmp_path / "made", **options)
    found = {one.title: one.seen for one in traps(open_lesson(made / "capture", name, {}))}
    assert {title for title in absent if found[title] is not None} == set()
