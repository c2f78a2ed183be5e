"""The rules of an event log's columns, with the sentences about rows that break them
(docs/formats/idm-event-log.md §1.2, §5.9, §6.4).

Rules that need other rows (a record_id that an earlier row has, several spellings of one key) are in ``changes``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array
from cdcwb.formats.idm_event_log.keys import KeyColumn, TableKeyError, parse_column
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, PUBLISHER_NEEDS, STATUSES, RowProblem, numbers
from cdcwb.formats.idm_event_log.values import Bools, EventTimes, numbers_of, parse_times, xml_unfit
from cdcwb.formats.moments import Zone
from cdcwb.model import Problem
from cdcwb.words import visible

__all__ = [
    "PER_FIELD",
    "VALUES",
    "WRITTEN",
    "TypedLog",
    "absent_column",
    "ambiguous_time",
    "broken_key",
    "check",
    "fatal",
    "given",
    "is_unfit",
    "missing",
    "no_column",
    "no_event_type",
    "no_name",
    "no_record_id",
    "no_status",
    "no_time",
    "one_of",
    "padded_key",
    "unfit",
]

PER_FIELD: Final = numbers(per_field=True)
WRITTEN: Final = {"old_value": (2,), "new_value": (1, 2, 3)}
"""Columns of values, and the event types whose documents hold them."""

VALUES: Final = tuple(WRITTEN)
"""The columns that are read with images alone."""

_NAMES: Final = ("table_key", "table_name", "column_name")
_STATUSES: Final = tuple(STATUSES)
_SHOWN: Final = 60


class TypedLog:
    """Rows of :data:`~cdcwb.formats.idm_event_log.layout.LOG` with their numbers, times and keys, each made when it is
    first used. ``absent``: columns that the source does not have; ``zone``: of times without one (None: UTC)."""

    def __init__(
        self, log: pa.RecordBatch, absent: frozenset[str] = frozenset(), zone: str | Zone | None = None
    ) -> None:
        self.log, self.absent, self.zone = log, absent, zone
        self._lacks: dict[str, Bools] = {}

    @cached_property
    def record_id(self) -> pa.Int64Array:
        """Null where it is not from 1 to 2^63 - 1."""
        return numbers_of(self.log.column("record_id"))

    @cached_property
    def event_type(self) -> pa.Int32Array:
        """Null where it is not one of the eight."""
        found = numbers_of(self.log.column("event_type"))
        known = pc.less_equal(found, len(EVENT_TYPES))
        return pc.if_else(known, found, pa.scalar(None, pa.int64())).cast(pa.int32())

    @cached_property
    def times(self) -> EventTimes:
        """The times of events."""
        return parse_times(self.log.column("event_time"), self.zone)

    @property
    def event_us(self) -> pa.Int64Array:
        """event_time in microseconds since 1970 in UTC, null where it is NULL or no time."""
        return self.times.us

    @cached_property
    def keys(self) -> KeyColumn:
        """The keys of the changed rows."""
        return parse_column(self.log.column("table_key"))

    @cached_property
    def is_field(self) -> Bools:
        """Rows of a type that is about one column."""
        return one_of(self.event_type, PER_FIELD)

    def lacks(self, column: str) -> Bools:
        """Rows in which a column is NULL or empty."""
        if column not in self._lacks:
            length = pc.fill_null(pc.binary_length(self.log.column(column)), 0)
            self._lacks[column] = length.to_numpy(zero_copy_only=False) == 0
        return self._lacks[column]

    def unfit(self, column: str) -> Bools:
        """Rows in whose document a column would have a character that XML cannot hold."""
        found = xml_unfit(self.log.column(column))
        return found & one_of(self.event_type, WRITTEN[column]) if column in WRITTEN and found.any() else found


def one_of(types: pa.Int32Array, wanted: tuple[int, ...]) -> Bools:
    """Rows of these event types."""
    numbers = pc.fill_null(types, 0).to_numpy(zero_copy_only=False)
    found = np.zeros(len(numbers), np.bool_)
    for one in wanted:
        found |= numbers == one
    return found


def _null(values: pa.Array) -> Bools:
    return as_array(pc.is_null(values)) if values.null_count else np.zeros(len(values), np.bool_)


def missing(absent: frozenset[str]) -> list[tuple[Problem, str]]:
    """What is wrong with a source that lacks columns, in the order of the columns."""
    return [(Problem.LOG_RULE, absent_column(name)) for name in COLUMNS if name in absent]


def fatal(rows: TypedLog) -> Bools:
    """Rows that cannot be in a document: those with a fatal finding of :func:`check`, without its sentences."""
    found = _null(rows.record_id) | _null(rows.event_type) | _null(rows.keys.pairs) | rows.lacks("table_name")
    found |= rows.is_field & rows.lacks("column_name")
    for column in (*_NAMES, *WRITTEN):
        found |= rows.unfit(column)
    return found


def check(rows: TypedLog) -> list[RowProblem]:
    """What is wrong with each of the rows of a log, in their order; of one row in the order of the columns."""
    findings: list[RowProblem] = []

    def rule(column: str, broken: Bools, code: Problem, is_fatal: bool, sentence: Callable[..., str]) -> None:
        chosen = np.flatnonzero(broken)
        texts = rows.log.column(column).take(pa.array(chosen)).to_pylist() if len(chosen) else []
        for row, text in zip(chosen.tolist(), texts, strict=True):
            findings.append(RowProblem(row, column, code, sentence(row, text), is_fatal))

    def of_text(sentence: Callable[..., str], **more: object) -> Callable[..., str]:
        return lambda row, text: sentence(text, **more)

    absent, types, keys = rows.absent, rows.event_type, rows.keys
    rule("record_id", _null(rows.record_id), Problem.LOG_RULE, True, of_text(no_record_id))
    lost = "table_key" in absent
    broken = lambda row, text: broken_key(text, keys.errors.get(row), lost)  # noqa: E731
    rule("table_key", _null(keys.pairs), Problem.TABLE_KEY, True, broken)
    rule("table_key", keys.padded, Problem.TABLE_KEY, False, of_text(padded_key))
    allowed = as_array(pc.is_in(rows.log.column("status"), pa.array(_STATUSES, pa.string())))
    rule("status", ~allowed, Problem.LOG_STATUS, False, of_text(no_status))
    unknown = of_text(no_event_type, absent="event_type" in absent)
    rule("event_type", _null(types), Problem.LOG_RULE, True, unknown)
    if "event_time" not in absent:
        rule("event_time", _null(rows.event_us), Problem.LOG_RULE, False, of_text(no_time))
        ambiguous = of_text(ambiguous_time, zone=str(rows.zone))
        rule("event_time", rows.times.doubtful, Problem.TIME_ZONE, False, ambiguous)
    unnamed = of_text(no_name, absent="table_name" in absent)
    rule("table_name", rows.lacks("table_name"), Problem.LOG_RULE, True, unnamed)
    without = lambda row, text: no_column(types[row].as_py(), text, "column_name" in absent)  # noqa: E731
    rule("column_name", rows.is_field & rows.lacks("column_name"), Problem.LOG_RULE, True, without)
    for column in (*_NAMES, *WRITTEN):
        rule(column, rows.unfit(column), Problem.XML_CHARACTER, True, of_text(partial(unfit, column)))
    return sorted(findings, key=lambda finding: finding.row)


# --- sentences --------------------------------------------------------------------------------------------------------


def given(text: str | None, absent: bool = False) -> str:
    """What was found."""
    if absent:
        return "no such column"
    return "NULL" if text is None else repr(visible(text, _SHOWN))


def no_record_id(text: str | None) -> str:
    """A record_id that is no number from 1 to 2^63 - 1."""
    return f"record_id: expected a positive whole number of at most 19 digits, found {given(text)}"


def broken_key(text: str | None, error: TableKeyError | None, absent: bool = False) -> str:
    """A table_key that is NULL or not as the grammar has it."""
    if text is None or error is None:
        return f"table_key: expected column=value, found {given(text, absent)}"
    return f"table_key: {error} of {given(text)}"


def padded_key(text: str | None) -> str:
    """A table_key with blanks around a name or a number."""
    expected = "expected no blanks around names and numbers"
    return f"table_key: {expected}, found {given(text)}; without them it is the key of another object"


def no_status(text: str | None) -> str:
    """A status that is no letter of the vendor's."""
    meant = "" if text is None else text.strip().upper()
    hint = f"; {meant} is another status" if meant != text and meant in ("N", "S", "W", "E", "F") else ""
    return f"status: expected N, S, W, E or F, found {given(text)}{hint}"


def no_event_type(text: str | None, absent: bool = False) -> str:
    """An event_type that is not one of the eight."""
    return f"event_type: expected a number from 1 to 8, found {given(text, absent)}"


def no_time(text: str | None) -> str:
    """An event_time that is NULL or cannot be read."""
    expected = "a time" if text is None else "a time such as 2024-01-02 03:04:05.123456"
    return f"event_time: expected {expected}, found {given(text)}"


def ambiguous_time(text: str | None, zone: str) -> str:
    """An event_time that the zone has twice or not at all."""
    return f"event_time: expected a time that {zone} has once, found {given(text)}; the earlier one is used"


def no_name(text: str | None, absent: bool = False) -> str:
    """A row without the name of its table."""
    return f"table_name: expected the name of a table or view, found {given(text, absent)}"


def no_column(number: int, text: str | None, absent: bool = False) -> str:
    """A row of a type that is of one column, without its name."""
    return f"column_name: expected the column of an event of type {number}, found {given(text, absent)}"


def unfit(column: str, text: str | None) -> str:
    """A text with a character that no XML document can hold."""
    text = text or ""
    at = next(place for place, character in enumerate(text) if is_unfit(character))
    found = f"U+{ord(text[at]):04X} at character {at}"
    return f"{column}: expected characters that XML 1.0 allows, found {found}"


def is_unfit(character: str) -> bool:
    """Is this a character that XML 1.0 cannot hold? (§5.9)"""
    code = ord(character)
    return (code < 0x20 and code not in (0x09, 0x0A, 0x0D)) or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF)


def absent_column(name: str) -> str:
    """A column that no row of a source has."""
    if name in PUBLISHER_NEEDS:
        return f"expected a column {name}, found none: the Publisher does not start without it"
    return f"expected a column {name}, found none: the event log has ten columns"
