"""Rows of an event log as columns of ``events`` (docs/formats/idm-event-log.md §1.3, §1.5, §6.1), and the rules of its
columns, with the sentences about rows that break them (§1.2, §5.9, §6.4).

Rules that need other rows (a record_id that an earlier row has, several spellings of one key) are in ``changes``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, interleaved, labels, maps_of
from cdcwb.formats.containers.rows import DelimitedRows
from cdcwb.formats.idm_event_log.decode import (
    EventTimes,
    KeyColumn,
    numbers_of,
    parse_column,
    parse_times,
    xml_unfit,
)
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG, PUBLISHER_NEEDS, STATUSES, RowProblem
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import MICROSECONDS, Zone
from cdcwb.formats.table_rows import RowBatch, TableFile
from cdcwb.model import Kind, Problem
from cdcwb.words import visible

PER_FIELD: Final = tuple(number for number, one in EVENT_TYPES.items() if one.per_field)
"""Event types that are about one column."""

WRITTEN: Final = {"old_value": (2,), "new_value": (1, 2, 3)}
"""Columns of values, and the event types whose documents hold them."""

VALUES: Final = tuple(WRITTEN)
"""The columns that are read with images alone."""

_STATUSES: Final = pa.array(STATUSES, pa.string())
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
    needed = "the Publisher does not start without it"
    reasons = {name: needed if name in PUBLISHER_NEEDS else "the event log has ten columns" for name in COLUMNS}
    return [
        (Problem.LOG_RULE, f"expected a column {name}, found none: {reason}")
        for name, reason in reasons.items()
        if name in absent
    ]


# --- rules ------------------------------------------------------------------------------------------------------------


class LogRule(NamedTuple):
    """A rule of a column. ``broken``: the rows that break it; ``sentence``: what was expected and found, in which
    ``found`` and ``zone`` are filled in, or that is made of a row and its text. ``is_fatal``: no document can hold such
    a row."""

    column: str
    code: Problem
    is_fatal: bool
    broken: Callable[[TypedLog], Bools]
    sentence: str | Callable[[TypedLog, int, str | None], str]


def _found(log: TypedLog, column: str, text: str | None) -> str:
    """What was found."""
    if text is None:
        return "no such column" if column in log.absent else "NULL"
    return repr(visible(text, _SHOWN))


def _wrong_key(log: TypedLog, row: int, text: str | None) -> str:
    found, error = _found(log, "table_key", text), log.keys.errors.get(row)
    return f"expected column=value, found {found}" if error is None else f"{error} of {found}"


def _wrong_status(log: TypedLog, _row: int, text: str | None) -> str:
    meant = (text or "").strip().upper()
    hint = f"; {meant} is another status" if meant != text and meant in STATUSES else ""
    return f"expected N, S, W, E or F, found {_found(log, 'status', text)}{hint}"


def _wrong_time(log: TypedLog, _row: int, text: str | None) -> str:
    such = "" if text is None else " such as 2024-01-02 03:04:05.123456"
    return f"expected a time{such}, found {_found(log, 'event_time', text)}"


def _wrong_column(log: TypedLog, row: int, text: str | None) -> str:
    return f"expected the column of an event of type {log.event_type[row]}, found {_found(log, 'column_name', text)}"


def _unfit_character(_log: TypedLog, _row: int, text: str | None) -> str:
    found = UNFIT.search(text or "")
    assert found is not None
    return f"expected characters that XML 1.0 allows, found U+{ord(found[0]):04X} at character {found.start()}"


UNFIT: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that XML 1.0 cannot hold (§5.9)."""

_RULES: Final = (
    LogRule("record_id", Problem.LOG_RULE, True, lambda log: _null(log.record_id),
         "expected a positive whole number of at most 19 digits, found {found}"),
    LogRule("table_key", Problem.TABLE_KEY, True, lambda log: _null(log.keys.pairs), _wrong_key),
    LogRule("table_key", Problem.TABLE_KEY, False, lambda log: log.keys.padded,
         "expected no blanks around names and numbers, found {found}; without them it is the key of another object"),
    LogRule("status", Problem.LOG_STATUS, False, lambda log: ~as_array(pc.is_in(log.log["status"], _STATUSES)),
         _wrong_status),
    LogRule("event_type", Problem.LOG_RULE, True, lambda log: _null(log.event_type),
         "expected a number from 1 to 8, found {found}"),
    LogRule("event_time", Problem.LOG_RULE, False, lambda log: _null(log.event_us) & ("event_time" not in log.absent),
         _wrong_time),
    LogRule("event_time", Problem.TIME_ZONE, False, lambda log: log.times.doubtful,
         "expected a time that {zone} has once, found {found}; the earlier one is used"),
    LogRule("table_name", Problem.LOG_RULE, True, lambda log: log.lacks("table_name"),
         "expected the name of a table or view, found {found}"),
    LogRule("column_name", Problem.LOG_RULE, True, lambda log: log.is_field & log.lacks("column_name"),
         _wrong_column),
    LogRule("table_key", Problem.XML_CHARACTER, True, lambda log: log.unfit("table_key"), _unfit_character),
    LogRule("table_name", Problem.XML_CHARACTER, True, lambda log: log.unfit("table_name"), _unfit_character),
    LogRule("column_name", Problem.XML_CHARACTER, True, lambda log: log.unfit("column_name"), _unfit_character),
    LogRule("old_value", Problem.XML_CHARACTER, True, lambda log: log.unfit("old_value"), _unfit_character),
    LogRule("new_value", Problem.XML_CHARACTER, True, lambda log: log.unfit("new_value"), _unfit_character),
)  # fmt: skip
"""In the order in which the problems of a row are reported (§1.2, §5.9, §6.4)."""


def fatal(log: TypedLog) -> Bools:
    """Rows that cannot be in a document: those with a fatal finding of :func:`check`, without its sentences."""
    found: Bools = np.logical_or.reduce([rule.broken(log) for rule in _RULES if rule.is_fatal])
    return found


def check(log: TypedLog) -> list[RowProblem]:
    """What is wrong with each of the rows of a log, in their order; of one row in the order of the rules."""
    findings: list[RowProblem] = []
    for rule in _RULES:
        rows = np.flatnonzero(rule.broken(log))
        texts = log.log.column(rule.column).take(pa.array(rows)).to_pylist() if len(rows) else []
        for row, text in zip(rows.tolist(), texts, strict=True):
            if isinstance(rule.sentence, str):
                sentence = rule.sentence.format(found=_found(log, rule.column, text), zone=log.zone)
            else:
                sentence = rule.sentence(log, row, text)
            findings.append(RowProblem(row, rule.column, rule.code, f"{rule.column}: {sentence}", rule.is_fatal))
    return sorted(findings, key=lambda finding: finding.row)


# --- columns of events ------------------------------------------------------------------------------------------------

_OPERATIONS: Final = pa.array([None, *(str(one.operation) for one in EVENT_TYPES.values())], pa.string())
_KINDS: Final = pa.array([str(Kind.CONTROL), *[str(Kind.CHANGE)] * len(EVENT_TYPES)])
_DIGITS: Final = 19
_OF_TYPE: Final = frozenset({"kind", "operation", "record_type"})  # columns of events that follow from event_type


@dataclass(slots=True, kw_only=True)
class LogFile(TableFile):
    """One file. ``labels``: the vendor's names -> the source's, of the columns that it has; ``null_text``: what is NULL
    besides that which the container has."""

    labels: Mapping[str, str] = field(default_factory=dict)
    null_text: str = ""

    @property
    def is_numbered(self) -> bool:
        """Whether record_id is the number of the row."""
        return "record_id" not in self.labels

    @property
    def absent(self) -> frozenset[str]:
        """The columns that it does not have."""
        return frozenset(COLUMNS) - self.labels.keys()


def log_of(rows: RowBatch, only: Collection[str] = COLUMNS) -> pa.RecordBatch:
    """Rows of a file as rows of :data:`LOG`. Columns that are not in ``only`` are null."""
    entry: Any = rows.file
    columns: dict[str, pa.Array] = {}
    for name in COLUMNS:
        if name not in only:
            columns[name] = pa.nulls(len(rows), pa.string())
        elif name in entry.labels:
            columns[name] = _texts(rows, entry.labels[name])
        elif name == "record_id":
            columns[name] = pa.array(rows.numbers).cast(pa.string())
        else:
            columns[name] = pa.repeat("N", len(rows)) if name == "status" else pa.nulls(len(rows), pa.string())
    return pa.RecordBatch.from_pydict(columns, LOG)


def _texts(rows: RowBatch, label: str) -> pa.StringArray:
    """A column, in which the text of NULL is null: in delimited text an empty field without quotes too."""
    entry: Any = rows.file
    texts = rows.text(label)
    if not entry.null_text or label not in rows.names:
        return texts
    if isinstance(rows.rows, DelimitedRows):
        place = rows.names.index(label)
        valid = rows.rows.starts[:, place] != rows.rows.ends[:, place]
    else:
        valid = as_array(pc.not_equal(texts, entry.null_text))
    bits = np.packbits(np.append(np.zeros(texts.offset, np.bool_), valid & ~_null(texts)), bitorder="little")
    buffers = [pa.py_buffer(bits), *texts.buffers()[1:]]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, offset=texts.offset)


def events_of_log(rows: RowBatch, options: Mapping[str, str]) -> dict[str, Any]:
    """The columns of events of rows; the rules that rows break become their problems."""
    entry: Any = rows.file
    wanted = rows.wanted
    only = {"event_type"} if wanted.columns is not None and wanted.columns <= _OF_TYPE else COLUMNS
    typed = TypedLog(log_of(rows, only), entry.absent, options["time_zone"])
    log = typed.log
    found: dict[str, Any] = {"record_type": log.column("event_type"), **_meanings(typed)}
    if len(only) == 1:
        return found
    found["position"] = pc.ascii_lpad(typed.record_id.cast(pa.string()), _DIGITS, "0")
    names = split_names(log.column("table_name"), options.get("schema"))
    found |= dict(zip(("schema_name", "table_name", "table_version"), names, strict=True))
    is_field = typed.is_field & ~typed.lacks("column_name")
    new = is_field & one_of(typed.event_type, WRITTEN["new_value"])
    made: dict[str, Callable[[], pa.Array | None]] = {
        "changed_at": lambda: typed.event_us.view(pa.timestamp("us")).cast(MICROSECONDS),
        "changed_columns": lambda: _lists(log.column("column_name"), is_field),
        "key": lambda: typed.keys.pairs,
        "headers": lambda: _headers(log, entry.absent, wanted.images),
        "before": lambda: _before(typed, is_field) if wanted.images else None,
        "after": lambda: _images(log, new, "new_value") if wanted.images and "new_value" not in entry.absent else None,
    }
    found |= {name: make() if wanted.needs(name) else None for name, make in made.items()}
    for one in check(typed) if wanted.needs("problems") else ():
        rows.problems.setdefault(one.row, []).append({"code": str(one.code), "detail": one.sentence})
    return found


def _meanings(typed: TypedLog) -> dict[str, pa.Array]:
    """Kind and operation; another event type is a control record of an unknown operation."""
    places = pc.fill_null(typed.event_type, 0)
    operation = _OPERATIONS.take(places)
    if typed.event_type.null_count:
        unknown = pc.is_null(typed.event_type)
        texts = pc.fill_null(typed.log.column("event_type").filter(unknown), "")
        operation = pc.replace_with_mask(operation, unknown, pc.binary_join_element_wise("UNKNOWN(", texts, ")", ""))
    return {"kind": _KINDS.take(places), "operation": operation}


# --- names ------------------------------------------------------------------------------------------------------------


def split_name(name: str | None, schema: str | None) -> tuple[str | None, str | None]:
    """Schema and table of a table's name as the log has it: split at the last dot; ``schema`` where it names none."""
    if not name:
        return schema, None
    head, _, tail = name.rpartition(".")
    return (head, tail) if head and tail else (schema, name)


def split_names(names: pa.StringArray, schema: str | None) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
    """What :func:`split_name` returns for each name, and the one version that a table of a log has: its label and
    ``@1``. There are few different names."""
    encoded = names.dictionary_encode()
    known = [*encoded.dictionary.to_pylist(), None]
    pairs = [split_name(name, schema) for name in known]
    owners, tables = (pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1))
    versions = pc.binary_join_element_wise(labels(owners, tables), "1", "@")
    index = pc.fill_null(encoded.indices, len(known) - 1)
    return owners.take(index), tables.take(index), versions.take(index)


# --- nested columns ---------------------------------------------------------------------------------------------------


def _offsets(counts: Ints, there: Bools) -> pa.Int32Array:
    """Offsets of lists and maps of so many items, null where ``there`` is false (and its count 0)."""
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.array(offsets, mask=np.append(~there, False))


def _chosen(texts: pa.StringArray, rows: Bools) -> pa.StringArray:
    return texts if rows.all() else texts.filter(pa.array(rows))


def _lists(texts: pa.StringArray, rows: Bools) -> pa.ListArray:
    """Lists of one text, for the rows that are chosen; null for the others."""
    return pa.ListArray.from_arrays(_offsets(rows.astype(np.int64), rows), _chosen(texts, rows))


def _images(log: pa.RecordBatch, rows: Bools, value: str) -> pa.MapArray:
    """The old or new value of one column, for the rows that are chosen; null for the others."""
    texts = (_chosen(log.column(name), rows) for name in ("column_name", value))
    return pa.MapArray.from_arrays(_offsets(rows.astype(np.int64), rows), *texts)


def _before(typed: TypedLog, is_field: Bools) -> pa.MapArray:
    """The old value of one column; of a deleted row its key. A value that replaces all values (type 3) has none unless
    the log does."""
    log, types, pairs = typed.log, typed.event_type, typed.keys.pairs
    old = is_field & one_of(types, (2, 3)) & ("old_value" not in typed.absent)
    old &= ~(one_of(types, (3,)) & as_array(pc.is_null(log.column("old_value"))))
    gone = one_of(types, (4,)) & as_array(pc.is_valid(pairs))
    if not gone.any():
        return _images(log, old, "old_value")
    begin = pairs.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.where(gone, np.diff(begin), old.astype(np.int64))
    first = np.where(gone, log.num_rows + begin[:-1], np.arange(log.num_rows))
    ends = np.cumsum(counts)
    places = pa.array(np.repeat(first - (ends - counts), counts) + np.arange(ends[-1]))
    sides = ((log.column("column_name"), pairs.keys), (log.column("old_value"), pairs.items))
    texts = (pa.concat_arrays(list(side)).take(places) for side in sides)
    return pa.MapArray.from_arrays(_offsets(counts, old | gone), *texts)


def _headers(log: pa.RecordBatch, absent: frozenset[str], images: bool) -> pa.MapArray:
    """All columns that the source has, as it wrote them."""
    names = [name for name in COLUMNS if name not in absent and (images or name not in VALUES)]
    return maps_of(names, interleaved([log.column(name) for name in names]), np.ones(log.num_rows, np.bool_))
