"""The pitfalls of each format, each with an example that is found in a capture.

The facts are in the format's page in docs/formats/, in the section that each pitfall names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cdcwb.analysis import lesson_examples as examples
from cdcwb.analysis.lesson import Lesson

__all__ = ["TRAPS", "Found", "Trap", "traps"]


@dataclass(frozen=True, slots=True)
class Trap:
    """A pitfall: ``title`` names it, ``why`` explains it, ``section`` of the format's page has the details. ``look``
    finds an example in a capture and describes it in a sentence; None if there is none."""

    title: str
    why: str
    section: str
    look: Callable[[Lesson], str | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A pitfall and its example in a capture; ``seen`` is None without an example."""

    title: str
    why: str
    section: str
    seen: str | None


def traps(lesson: Lesson) -> list[Found]:
    """The pitfalls of a capture's format, with examples."""
    return [Found(trap.title, trap.why, trap.section, trap.look(lesson)) for trap in TRAPS[lesson.name]]


TRAPS: Final[dict[str, tuple[Trap, ...]]] = {
    "gbase8s": (
        Trap(
            "Two byte orders in one record",
            "All numbers of the header are big-endian, only the size words of columns of variable length have the byte "
            "order of the server.",
            "3",
            examples.size_words,
        ),
        Trap(
            "A transaction's number is used again",
            "It is free as soon as its transaction has ended. Grouping by it alone mixes unrelated transactions.",
            "6",
            examples.numbers_again,
        ),
        Trap(
            "A rollback to a savepoint undoes the changes that precede it",
            "A DISCARD record has the position from which on the records of its transaction are undone. After it, "
            "positions continue from there.",
            "6",
            examples.savepoints,
        ),
        Trap(
            "A row in the stream is not yet a change of the table",
            "Rows are written when they happen. Only the end of their transaction shows whether they are committed.",
            "6",
            examples.not_committed,
        ),
        Trap(
            "The row after may come before the row before",
            "An update of a key that moves a row to another fragment of its table may arrive with its halves in "
            "reversed order.",
            "6",
            examples.after_first,
        ),
        Trap(
            "Files and reads do not end at the end of a record",
            "One read may return part of a record or several, and a recorder may leave other bytes between records.",
            "1.2",
            examples.no_record,
        ),
    ),
    "qlik-kafka": (
        Trap(
            "The order of lines is not the order of changes",
            "Each partition of each topic has an order of its own. Order by changeSequence, and put transactions "
            "together by their id.",
            "6",
            examples.spread,
        ),
        Trap(
            "The schema may follow its rows",
            "A metadata message may be later than the first rows that need it, and goes to one partition only: "
            "load all "
            "files of a capture together.",
            "10.1",
            examples.late_schema,
        ),
        Trap(
            "A gap does not show",
            "Only committed work is sent, so a transaction without one of its events looks like a smaller one. Only "
            "the numbers of its events show the gap.",
            "6",
            examples.lost_event,
        ),
        Trap(
            "A message may come twice",
            "Delivery is at least once. Two lines with one changeSequence and one event number are one change.",
            "6",
            examples.twice,
        ),
        Trap(
            "An update may change nothing",
            "It is sent with an empty mask. Change tables leave it out.",
            "7.4",
            examples.idle_updates,
        ),
        Trap(
            "Not every message is a change",
            "Rows of the full load are the rows before the capture, without a transaction. A tombstone repeats a "
            "delete for Kafka's compaction.",
            "4.3",
            examples.full_load,
        ),
    ),
    "qlik-change-table": (
        Trap(
            "The mask counts the header columns",
            "Bit 0 is the first header column, not the first column of the table.",
            "4.1",
            examples.mask_offset,
        ),
        Trap(
            "change_seq is not a key",
            "The row before an update has the number of the row after it: only together with the operation is it "
            "unique.",
            "2.3",
            examples.shared_numbers,
        ),
        Trap(
            "NULL in a U row has two meanings",
            "It is a NULL, or a column that was not captured. Only the mask shows which columns were set.",
            "3.4",
            examples.null_or_not,
        ),
        Trap(
            "1970 is not the time",
            "PostgreSQL sources have it until the transaction commits, and it stays.",
            "2.4",
            examples.no_time,
        ),
        Trap(
            "Nothing shows whether a transaction is complete",
            "Its rows are spread over the tables' files and not numbered.",
            "2.5",
            examples.nobody_can_tell,
        ),
        Trap(
            "A TRUNCATE is a row without values",
            "Read as a change of one row, it would be a row of NULLs. Kafka never gets it.",
            "3.3",
            examples.truncated,
        ),
    ),
    "goldengate": (
        Trap(
            "Printed times are in the zone of the machine that printed",
            "Logdump shows local time and names no zone. The bytes of the header are UTC.",
            "7",
            examples.printed_times,
        ),
        Trap(
            "An absent column is not NULL",
            "A compressed update has the key and what is new. An absent column did not change, or was not captured.",
            "4.4",
            examples.absent,
        ),
        Trap(
            "Metadata may be inside a transaction",
            "It describes the rows that follow, belongs to no transaction and ends none, although its TransInd says 3.",
            "5.2",
            examples.metadata_inside,
        ),
        Trap(
            "A transaction that a restart interrupted is written again",
            "RestartAbend ends the open transaction without effect. The log of the source is read again, so its "
            "changes are in the trail twice.",
            "5.5",
            examples.comes_again,
        ),
        Trap(
            "Times do not rise along the trail",
            "Transactions are in the order of their commits, and each change has its own time. Order by the "
            "number of the trail file, then RBA.",
            "7",
            examples.times_order,
        ),
        Trap(
            "A record that was printed twice is one record",
            "Sessions are repeated and texts are joined. Trail file and RBA identify a record.",
            "2.2",
            examples.printed_twice,
        ),
    ),
    "idm-event-log": (
        Trap(
            "A row is not a change, and a change not an event",
            "A trigger may log a row for each column of one statement, and the driver may put several changes into one "
            "event.",
            "6.2",
            examples.rows_of_one,
        ),
        Trap(
            "Some rows say only that something changed",
            "For query-back rows the driver publishes the table's current row, not the row at the time of the change.",
            "3.2",
            examples.query_back,
        ),
        Trap(
            "One row, several spellings of its key",
            "The driver knows objects by the text of their key, so nothing keeps the events of these spellings "
            "in order.",
            "2.3",
            examples.spelled,
        ),
        Trap(
            "event_time is not the order",
            "Commits are in the order of record_id. A time may be that of a statement, or be in the future on purpose.",
            "4.2",
            examples.log_times,
        ),
        Trap(
            "Only a capital N is new",
            "A row with any other status is not published.",
            "1.2",
            examples.statuses,
        ),
        Trap(
            "Names of users differ by case",
            "The driver skips its own changes, and knows them by its user name. The other spelling is not skipped.",
            "4.1",
            examples.users,
        ),
    ),
    "debezium": (
        Trap(
            "Not every message is a change",
            "A snapshot read (op r) is a row that was there before. A tombstone repeats a delete for compaction.",
            "8.1",
            examples.full_load,
        ),
        Trap(
            "A number may be a date, and a text a decimal",
            "Only the schema says so: dates are days since 1970, decimals are base64 of an unscaled number.",
            "7.2",
            examples.written_otherwise,
        ),
        Trap(
            "A value that was not captured looks like a text",
            "Large values that an update does not touch are not in the log. The connector writes a placeholder.",
            "8.3",
            examples.unavailable,
        ),
        Trap(
            "A message has two times",
            "source.ts_ms is when the change was made, ts_ms when the connector processed it.",
            "2.1",
            examples.two_times,
        ),
        Trap(
            "A transaction has many identifiers",
            "PostgreSQL's id is the number of the transaction and the LSN of the event. Only the number is the same in "
            "all events.",
            "4.2",
            examples.many_identifiers,
        ),
        Trap(
            "A gap does not show",
            "A transaction without one of its events looks like a smaller one. Only the transaction topic, with the "
            "number of events, shows the gap.",
            "4.3",
            examples.lost_event,
        ),
    ),
}
"""The pitfalls of each format."""
