"""The rules of the event log's columns, for many rows at once (docs/formats/idm-event-log.md §1.2, §5.9, §6.4).

Rules that need other rows (a record_id that was there before, one object with several spellings of its key) are held
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log import sentences
from cdcwb.formats.idm_event_log.facts import EVENT_TYPES, STATUSES, numbers
from cdcwb.formats.idm_event_log.laid import Bools, laid, rows_of
from cdcwb.formats.idm_event_log.log import COLUMNS, Finding
from cdcwb.formats.idm_event_log.table_key import BLANKS, KeyColumn, padded, parse_column
from cdcwb.formats.idm_event_log.times import Times, parse_times
from cdcwb.formats.zones import Zone
from cdcwb.model import Problem

__all__ = [
    "PER_FIELD",
    "WRITTEN",
    "Typed",
    "check",
    "fatal",
    "lacking",
    "missing",
    "numbers_of",
    "one_of",
    "typed",
    "written",
    "xml_unfit",
]

PER_FIELD: Final = numbers(per_field=True)
WRITTEN: Final = {"old_value": (2,), "new_value": (1, 2, 3)}
"""Columns of values, and the event types whose documents hold them."""

_NAMES: Final = ("table_key", "table_name", "column_name")
_STATUSES: Final = tuple(STATUSES)
_GREATEST: Final = str(2**63 - 1)
_WHOLE: Final = r"^[ \t\n\r\f]*\+?(\d+)(\.0*)?[ \t\n\r\f]*$"
_PADDED: Final = rf"(^|\+)[{BLANKS}]|[{BLANKS}]=|=\"?[{BLANKS}]|[{BLANKS}]\"?(\+|$)"


@dataclass(frozen=True, slots=True)
class Typed:
    """The columns of a log that are numbers and times. ``record_id``: null where it is not from 1 to 2^63 - 1;
    ``event_type``: null where it is none of the eight; ``event_us``: event_time in microseconds since 1970 in UTC, null
    where it is NULL or no time. ``times`` says more of it."""

    record_id: pa.Int64Array
    event_type: pa.Int32Array
    event_us: pa.Int64Array
    times: Times


def typed(log: pa.RecordBatch, zone: str | Zone | None = None) -> Typed:
    """The typed columns of rows of :data:`~cdcwb.formats.idm_event_log.log.LOG`; ``zone`` is that of times that bear
    none (UTC if None)."""
    record_id = numbers_of(log.column("record_id"))
    event_type = numbers_of(log.column("event_type"))
    known = pc.less_equal(event_type, len(EVENT_TYPES))
    none = pa.scalar(None, pa.int64())
    times = parse_times(log.column("event_time"), zone)
    return Typed(record_id, pc.if_else(known, event_type, none).cast(pa.int32()), times.us, times)


def numbers_of(texts: pa.StringArray) -> pa.Int64Array:
    """Texts as whole numbers from 1 to 2^63 - 1, null for all else. Blanks around a number, zeros before it and a
    fraction of zeros (as decimal columns are printed) do not matter."""
    digits = texts
    usual = pc.and_(pc.ascii_is_decimal(texts), pc.less(pc.binary_length(texts), len(_GREATEST)))
    if not pc.all(pc.fill_null(usual, True)).as_py():
        digits = pc.replace_substring_regex(texts, _WHOLE, r"\1")
        digits = pc.ascii_ltrim(digits, characters="0")
        size = pc.binary_length(digits)
        fits = pc.or_(
            pc.less(size, len(_GREATEST)),
            pc.and_(pc.equal(size, len(_GREATEST)), pc.less_equal(digits, _GREATEST)),
        )
        digits = pc.if_else(pc.and_(pc.ascii_is_decimal(digits), fits), digits, pa.scalar(None, pa.string()))
    found = digits.cast(pa.int64())
    return pc.if_else(pc.greater(found, 0), found, pa.scalar(None, pa.int64()))


def missing(absent: frozenset[str]) -> list[tuple[Problem, str]]:
    """What is wrong with a source that lacks columns, in the order of the columns."""
    return [(Problem.LOG_RULE, sentences.absent_column(name)) for name in COLUMNS if name in absent]


# --- which rows -------------------------------------------------------------------------------------------------------


def xml_unfit(texts: pa.StringArray) -> Bools:
    """Rows with a character that XML 1.0 cannot hold: a control character but tab and line ends, U+FFFE or U+FFFF."""
    data, offsets = laid(texts)
    found = np.zeros(len(texts), np.bool_)
    low = np.flatnonzero(data < 0x20)
    if len(low):
        low = low[~np.isin(data[low], (0x09, 0x0A, 0x0D))]
        found[rows_of(low, offsets)] = True
    high = np.flatnonzero(data[:-2] == 0xEF)
    if len(high):
        high = high[(data[high + 1] == 0xBF) & (data[high + 2] >= 0xBE)]
        found[rows_of(high, offsets)] = True
    return found


def one_of(types: pa.Int32Array, wanted: tuple[int, ...]) -> Bools:
    """Rows of these event types."""
    found: Bools = np.isin(pc.fill_null(types, 0).to_numpy(zero_copy_only=False), wanted)
    return found


def written(types: pa.Int32Array, column: str) -> Bools:
    """Rows whose old_value or new_value stands in their document."""
    return one_of(types, WRITTEN[column])


def lacking(texts: pa.StringArray) -> Bools:
    """Rows whose text is NULL or empty."""
    found: Bools = pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False)
    return found


def _null(values: pa.Array) -> Bools:
    found: Bools = pc.is_null(values).to_numpy(zero_copy_only=False)
    return found


def _unfit(log: pa.RecordBatch, types: pa.Int32Array, column: str) -> Bools:
    found = xml_unfit(log.column(column))
    if column in WRITTEN and found.any():
        found &= written(types, column)
    return found


def fatal(log: pa.RecordBatch, said: Typed, keys: KeyColumn) -> Bools:
    """Rows that cannot stand in a document: those with a fatal finding of :func:`check`, without its sentences."""
    found = _null(said.record_id) | _null(said.event_type) | _null(keys.pairs) | lacking(log.column("table_name"))
    found |= one_of(said.event_type, PER_FIELD) & lacking(log.column("column_name"))
    for column in (*_NAMES, *WRITTEN):
        found |= _unfit(log, said.event_type, column)
    return found


# --- and what is said of them -----------------------------------------------------------------------------------------


def check(
    log: pa.RecordBatch,
    absent: frozenset[str] = frozenset(),
    zone: str | Zone | None = None,
    said: Typed | None = None,
    keys: KeyColumn | None = None,
) -> list[Finding]:
    """What is wrong with each of the rows of a log, in their order; of one row in the order of the columns.

    ``absent``: columns that the source does not have. ``said`` and ``keys``: what :func:`typed` and
    :func:`~cdcwb.formats.idm_event_log.table_key.parse_column` made of the rows, where that is known.
    """
    said = typed(log, zone) if said is None else said
    keys = parse_column(log.column("table_key")) if keys is None else keys
    findings = _Findings(log)
    findings.each("record_id", _null(said.record_id), Problem.LOG_RULE, True, sentences.no_record_id)
    _check_keys(findings, keys, "table_key" in absent)
    allowed = pc.is_in(log.column("status"), pa.array(_STATUSES, pa.string())).to_numpy(zero_copy_only=False)
    findings.each("status", ~allowed, Problem.LOG_STATUS, False, sentences.no_status)
    lost = "event_type" in absent
    wrong = _null(said.event_type)
    findings.each("event_type", wrong, Problem.LOG_RULE, True, partial(sentences.no_event_type, absent=lost))
    if "event_time" not in absent:
        findings.each("event_time", _null(said.event_us), Problem.LOG_RULE, False, sentences.no_time)
        ambiguous = partial(sentences.ambiguous_time, zone=str(zone))
        findings.each("event_time", said.times.doubtful, Problem.TIME_ZONE, False, ambiguous)
    lost = "table_name" in absent
    unnamed = lacking(log.column("table_name"))
    findings.each("table_name", unnamed, Problem.LOG_RULE, True, partial(sentences.no_name, absent=lost))
    _check_columns(findings, said.event_type, "column_name" in absent)
    for column in (*_NAMES, *WRITTEN):
        unfit = _unfit(log, said.event_type, column)
        findings.each(column, unfit, Problem.XML_CHARACTER, True, partial(sentences.unfit, column))
    return findings.in_order()


class _Findings:
    """Findings as they are made, column by column."""

    def __init__(self, log: pa.RecordBatch) -> None:
        self.log = log
        self.found: list[Finding] = []

    def texts(self, column: str, rows: Bools) -> list[tuple[int, str | None]]:
        """The rows that are chosen, with their texts."""
        chosen = np.flatnonzero(rows)
        texts = self.log.column(column).take(pa.array(chosen)).to_pylist() if len(chosen) else []
        return list(zip(chosen.tolist(), texts, strict=True))

    def each(self, column: str, rows: Bools, code: Problem, fatal: bool, sentence: Callable[[str | None], str]) -> None:
        """The same of each row that is chosen; the sentence is made of its text."""
        self.found += [Finding(row, column, code, sentence(text), fatal) for row, text in self.texts(column, rows)]

    def in_order(self) -> list[Finding]:
        return sorted(self.found, key=lambda finding: finding.row)


def _check_keys(findings: _Findings, keys: KeyColumn, lost: bool) -> None:
    told: dict[str | None, str] = {}
    for row, text in findings.texts("table_key", _null(keys.pairs)):
        if text not in told:
            told[text] = sentences.broken_key(text, keys.errors.get(row), lost)
        findings.found.append(Finding(row, "table_key", Problem.TABLE_KEY, told[text], True))
    maybe = pc.fill_null(pc.match_substring_regex(findings.log.column("table_key"), _PADDED), False)
    for row, text in findings.texts("table_key", maybe.to_numpy(zero_copy_only=False)):
        if text is not None and padded(text):
            findings.found.append(Finding(row, "table_key", Problem.TABLE_KEY, sentences.padded_key(text), False))


def _check_columns(findings: _Findings, types: pa.Int32Array, lost: bool) -> None:
    rows = one_of(types, PER_FIELD) & lacking(findings.log.column("column_name"))
    for row, text in findings.texts("column_name", rows):
        sentence = sentences.no_column(types[row].as_py(), text, lost)
        findings.found.append(Finding(row, "column_name", Problem.LOG_RULE, sentence, True))
