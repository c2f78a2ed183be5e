"""Rows of an event log as Arrow batches of ``events``, and the rules of its columns
(docs/formats/idm-event-log.md §1.2, §5.9, §6.1, §6.4).

Rules that need other rows (a record_id that an earlier row has, several spellings of one key) are in ``changes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import interleaved, labels, maps_of
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.idm_event_log.decode import LogPart, log_parts
from cdcwb.formats.idm_event_log.keys import KeyColumn, TableKeyError, parse_column
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, FORMAT, PUBLISHER_NEEDS, STATUSES, Finding, numbers
from cdcwb.formats.idm_event_log.plan import FileRange, Plan
from cdcwb.formats.idm_event_log.values import Bools, Ints, Times, numbers_of, parse_times, ranges, xml_unfit
from cdcwb.formats.moments import MICROSECONDS, Zone
from cdcwb.formats.requests import select
from cdcwb.formats.tabular.format import gap_event, gap_events, woven
from cdcwb.formats.tabular.parts import TextRows
from cdcwb.formats.tabular.rows import Gap, Part
from cdcwb.model import Kind, OffsetUnit, Problem
from cdcwb.words import visible

__all__ = [
    "PER_FIELD",
    "VALUES",
    "WRITTEN",
    "Source",
    "Typed",
    "absent_column",
    "ambiguous_time",
    "broken_key",
    "check",
    "events_of",
    "events_of_parts",
    "fatal",
    "gap_of",
    "given",
    "is_unfit",
    "lacking",
    "missing",
    "no_column",
    "no_event_type",
    "no_name",
    "no_record_id",
    "no_status",
    "no_time",
    "one_of",
    "padded_key",
    "parts_of_split",
    "read_events",
    "source_of",
    "split_name",
    "split_names",
    "to_events",
    "typed",
    "unfit",
    "written",
]

PER_FIELD: Final = numbers(per_field=True)
WRITTEN: Final = {"old_value": (2,), "new_value": (1, 2, 3)}
"""Columns of values, and the event types whose documents hold them."""

_NAMES: Final = ("table_key", "table_name", "column_name")
_STATUSES: Final = tuple(STATUSES)


@dataclass(frozen=True, slots=True)
class Typed:
    """The columns of a log that are numbers and times. ``record_id``: null where it is not from 1 to 2^63 - 1;
    ``event_type``: null where it is not one of the eight; ``event_us``: event_time in microseconds since 1970 in UTC,
    null where it is NULL or no time. ``times`` has more of it."""

    record_id: pa.Int64Array
    event_type: pa.Int32Array
    event_us: pa.Int64Array
    times: Times


def typed(log: pa.RecordBatch, zone: str | Zone | None = None) -> Typed:
    """The typed columns of rows of :data:`~cdcwb.formats.idm_event_log.layout.LOG`; ``zone`` is that of times that bear
    none (UTC if None)."""
    record_id = numbers_of(log.column("record_id"))
    event_type = numbers_of(log.column("event_type"))
    known = pc.less_equal(event_type, len(EVENT_TYPES))
    none = pa.scalar(None, pa.int64())
    times = parse_times(log.column("event_time"), zone)
    return Typed(record_id, pc.if_else(known, event_type, none).cast(pa.int32()), times.us, times)


def missing(absent: frozenset[str]) -> list[tuple[Problem, str]]:
    """What is wrong with a source that lacks columns, in the order of the columns."""
    return [(Problem.LOG_RULE, absent_column(name)) for name in COLUMNS if name in absent]


# --- which rows -------------------------------------------------------------------------------------------------------


def one_of(types: pa.Int32Array, wanted: tuple[int, ...]) -> Bools:
    """Rows of these event types."""
    found: Bools = np.isin(pc.fill_null(types, 0).to_numpy(zero_copy_only=False), wanted)
    return found


def written(types: pa.Int32Array, column: str) -> Bools:
    """Rows whose old_value or new_value is in their document."""
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
    """Rows that cannot be in a document: those with a fatal finding of :func:`check`, without its sentences."""
    found = _null(said.record_id) | _null(said.event_type) | _null(keys.pairs) | lacking(log.column("table_name"))
    found |= one_of(said.event_type, PER_FIELD) & lacking(log.column("column_name"))
    for column in (*_NAMES, *WRITTEN):
        found |= _unfit(log, said.event_type, column)
    return found


# --- the rules -----------------------------------------------------------------------------------------


def check(
    log: pa.RecordBatch,
    absent: frozenset[str] = frozenset(),
    zone: str | Zone | None = None,
    said: Typed | None = None,
    keys: KeyColumn | None = None,
) -> list[Finding]:
    """What is wrong with each of the rows of a log, in their order; of one row in the order of the columns.

    ``absent``: columns that the source does not have. ``said`` and ``keys``: what :func:`typed` and
    :func:`~cdcwb.formats.idm_event_log.keys.parse_column` made of the rows, where that is known.
    """
    said = typed(log, zone) if said is None else said
    keys = parse_column(log.column("table_key")) if keys is None else keys
    findings = _Findings(log)
    findings.each("record_id", _null(said.record_id), Problem.LOG_RULE, True, no_record_id)
    _check_keys(findings, keys, "table_key" in absent)
    allowed = pc.is_in(log.column("status"), pa.array(_STATUSES, pa.string())).to_numpy(zero_copy_only=False)
    findings.each("status", ~allowed, Problem.LOG_STATUS, False, no_status)
    lost = "event_type" in absent
    wrong = _null(said.event_type)
    findings.each("event_type", wrong, Problem.LOG_RULE, True, partial(no_event_type, absent=lost))
    if "event_time" not in absent:
        findings.each("event_time", _null(said.event_us), Problem.LOG_RULE, False, no_time)
        ambiguous = partial(ambiguous_time, zone=str(zone))
        findings.each("event_time", said.times.doubtful, Problem.TIME_ZONE, False, ambiguous)
    lost = "table_name" in absent
    unnamed = lacking(log.column("table_name"))
    findings.each("table_name", unnamed, Problem.LOG_RULE, True, partial(no_name, absent=lost))
    _check_columns(findings, said.event_type, "column_name" in absent)
    for column in (*_NAMES, *WRITTEN):
        wrong = _unfit(log, said.event_type, column)
        findings.each(column, wrong, Problem.XML_CHARACTER, True, partial(unfit, column))
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
    for row, text in findings.texts("table_key", _null(keys.pairs)):
        sentence = broken_key(text, keys.errors.get(row), lost)
        findings.found.append(Finding(row, "table_key", Problem.TABLE_KEY, sentence, True))
    findings.each("table_key", keys.padded, Problem.TABLE_KEY, False, padded_key)


def _check_columns(findings: _Findings, types: pa.Int32Array, lost: bool) -> None:
    rows = one_of(types, PER_FIELD) & lacking(findings.log.column("column_name"))
    for row, text in findings.texts("column_name", rows):
        sentence = no_column(types[row].as_py(), text, lost)
        findings.found.append(Finding(row, "column_name", Problem.LOG_RULE, sentence, True))


_SHOWN = 60


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


VALUES: Final = ("old_value", "new_value")
"""The columns that are read with images alone."""

_OPERATIONS: Final = pa.array([None, *(str(one.operation) for one in EVENT_TYPES.values())], pa.string())
_KINDS: Final = pa.array([str(Kind.CONTROL), *[str(Kind.CHANGE)] * len(EVENT_TYPES)])
_BEFORE: Final = (2, 3)
_REPLACES: Final = (3,)
_AFTER: Final = (1, 2, 3)
_DELETE: Final = numbers(operation=model.Operation.DELETE)
_DIGITS: Final = 19
_ROWS: Final = 8192  # of parts that are decoded together


@dataclass(frozen=True, slots=True)
class Source:
    """What is the same for all rows of a file. ``absent``: columns of the log that it does not have; ``schema``: of
    tables that are named without one; ``zone``: of times that bear none. For rows of several files ``path`` and
    ``file_index`` are arrays."""

    path: str | pa.StringArray
    file_index: int | pa.Int32Array
    unit: OffsetUnit
    absent: frozenset[str] = frozenset()
    schema: str | None = None
    zone: str = "UTC"


def to_events(
    log: pa.RecordBatch,
    source: Source,
    offset: Ints,
    length: Ints,
    raw: pa.BinaryArray | None,
    wanted: Wanted = EVERYTHING,
    findings: Sequence[Finding] = (),
) -> pa.RecordBatch:
    """The events of rows of :data:`~cdcwb.formats.idm_event_log.layout.LOG`, one for each, in their order.

    ``offset`` and ``length`` are the places of the rows in the source's unit, ``raw`` their bytes (None: the source has
    none). ``findings`` were made when the rows were read; they precede those of the rules. Of ``wanted`` only
    ``images`` counts: without them there are neither images nor bytes nor old and new values.
    """
    count = log.num_rows
    said = typed(log, source.zone)
    keys = parse_column(log.column("table_key"))
    schema, table, version = split_names(log.column("table_name"), source.schema)
    per_field = one_of(said.event_type, PER_FIELD) & ~lacking(log.column("column_name"))
    columns: dict[str, pa.Array | None] = {
        "format": pa.repeat(FORMAT, count),
        "file": pa.repeat(source.path, count) if isinstance(source.path, str) else source.path,
        "file_index": pa.array(np.full(count, source.file_index, np.int32))
        if isinstance(source.file_index, int)
        else source.file_index,
        "offset": pa.array(offset, pa.int64()),
        "length": pa.array(length, pa.int64()),
        "offset_unit": pa.repeat(str(source.unit), count),
        "record_type": log.column("event_type"),
        **_meanings(log, said.event_type),
        "position": pc.ascii_lpad(said.record_id.cast(pa.string()), _DIGITS, "0"),
        "changed_at": said.event_us.view(pa.timestamp("us")).cast(MICROSECONDS),
        "schema_name": schema,
        "table_name": table,
        "table_version": version,
        "changed_columns": _lists(log.column("column_name"), per_field),
        "key": keys.pairs,
        "headers": _headers(log, source.absent, wanted.images),
        "problems": _problems([*findings, *check(log, source.absent, source.zone, said, keys)], count),
    }
    if wanted.raw:
        columns["raw"] = raw
    if wanted.images and wanted.needs("before", "after"):
        columns["before"] = _before(log, said.event_type, per_field, keys, source.absent)
        columns["after"] = _after(log, said.event_type, per_field, source.absent)
    arrays = [
        pa.nulls(count, field.type) if (found := columns.get(field.name)) is None else found for field in model.EVENTS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)


def _meanings(log: pa.RecordBatch, types: pa.Int32Array) -> dict[str, pa.Array]:
    """Kind and operation; another event type is a control record of an unknown operation."""
    places = pc.fill_null(types, 0)
    operation = _OPERATIONS.take(places)
    if types.null_count:
        unknown = pc.is_null(types)
        texts = pc.fill_null(log.column("event_type").filter(unknown), "")
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


def _after(log: pa.RecordBatch, types: pa.Int32Array, per_field: Bools, absent: frozenset[str]) -> pa.MapArray | None:
    """The new value of one column."""
    if "new_value" in absent:
        return None
    rows = per_field & one_of(types, _AFTER)
    texts = (_chosen(log.column(name), rows) for name in ("column_name", "new_value"))
    return pa.MapArray.from_arrays(_offsets(rows.astype(np.int64), rows), *texts)


def _before(
    log: pa.RecordBatch, types: pa.Int32Array, per_field: Bools, keys: KeyColumn, absent: frozenset[str]
) -> pa.MapArray:
    """The old value of one column; of a deleted row its key. A value that replaces all values (type 3) has none unless
    the log does."""
    old = per_field & one_of(types, _BEFORE) & ("old_value" not in absent)
    old &= ~(one_of(types, _REPLACES) & _null(log.column("old_value")))
    gone = one_of(types, _DELETE) & pc.is_valid(keys.pairs).to_numpy(zero_copy_only=False)
    if not gone.any():
        texts = (_chosen(log.column(name), old) for name in ("column_name", "old_value"))
        return pa.MapArray.from_arrays(_offsets(old.astype(np.int64), old), *texts)
    begin = keys.pairs.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.where(gone, np.diff(begin), old.astype(np.int64))
    first = np.where(gone, log.num_rows + begin[:-1], np.arange(log.num_rows))
    places = pa.array(ranges(first, counts))
    sides = ((log.column("column_name"), keys.pairs.keys), (log.column("old_value"), keys.pairs.items))
    texts = (pa.concat_arrays(list(side)).take(places) for side in sides)
    return pa.MapArray.from_arrays(_offsets(counts, old | gone), *texts)


def _headers(log: pa.RecordBatch, absent: frozenset[str], images: bool) -> pa.MapArray:
    """All columns that the source has, as it wrote them."""
    names = [name for name in COLUMNS if name not in absent and (images or name not in VALUES)]
    return maps_of(names, interleaved([log.column(name) for name in names]), np.ones(log.num_rows, np.bool_))


def _problems(findings: Sequence[Finding], count: int) -> pa.ListArray | None:
    if not findings:
        return None
    ordered = sorted(findings, key=lambda finding: finding.row)
    counts = np.bincount([finding.row for finding in ordered], minlength=count)
    items = pa.StructArray.from_arrays(
        [
            pa.array([str(finding.code) for finding in ordered], pa.string()),
            pa.array([finding.sentence for finding in ordered], pa.string()),
        ],
        fields=list(model.PROBLEM),
    )
    return pa.ListArray.from_arrays(_offsets(counts, counts > 0), items)


def read_events(plan: Plan, split: Sequence[FileRange], wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    for parts in parts_of_split(plan, split):
        yield from events_of_parts(plan, parts, wanted)


def parts_of_split(plan: Plan, split: Sequence[FileRange]) -> Iterator[list[tuple[int, LogPart]]]:
    """The parts of a split, each with the index of its file; those that have the same columns and unit together, up to
    some rows, because a batch costs more than its few rows."""
    waiting: list[tuple[int, LogPart]] = []
    like: tuple[object, ...] = ()
    rows = 0
    for one in split:
        entry = plan.files[one.file]
        for log in log_parts(entry, one.start, one.stop, one.before):
            key = entry.absent, log.part.unit, log.rows.raw is None and len(log.rows) > 0
            log.part.rows.clear()  # what is still used of them is in ``log``
            count = len(log.part.offset)
            if waiting and (key != like or rows + count > _ROWS):
                yield waiting
                waiting, rows = [], 0
            waiting.append((one.file, log))
            like, rows = key, rows + count
    if waiting:
        yield waiting


def source_of(plan: Plan, file: int, unit: OffsetUnit) -> Source:
    """What is the same for all rows of a file."""
    entry = plan.files[file]
    return Source(entry.path, file, unit, entry.absent, plan.schema, plan.zone)


def events_of(plan: Plan, file: int, log: LogPart, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of a part that are wanted, rows and gaps in their order."""
    return events_of_parts(plan, [(file, log)], wanted)


def events_of_parts(
    plan: Plan, parts: Sequence[tuple[int, LogPart]], wanted: Wanted = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The events of parts that have the same columns and unit; each has the index of its file."""
    batches, indices = [], []
    begins = np.cumsum([0, *(len(log.part.offset) for _, log in parts)])
    some = [at for at, (_, log) in enumerate(parts) if log.log.num_rows]
    if some:
        log, source = _together(plan, [parts[at] for at in some])
        rows = log.rows
        batches.append(to_events(log.log, source, rows.offset, rows.length, rows.raw, wanted, log.findings))
        indices.append(np.concatenate([parts[at][1].rows.index + begins[at] for at in some]))
    for (file, log), begin in zip(parts, begins, strict=False):
        gaps = log.part.gaps
        if gaps:
            batches.append(
                gap_events(log.part, gaps, wanted, format=FORMAT, file=plan.files[file].path, file_index=file)
            )
            indices.append(begin + np.array([gap.index for gap in gaps], dtype=np.int64))
    for batch in woven(batches, indices):
        yield from select(batch, wanted)


def _together(plan: Plan, parts: Sequence[tuple[int, LogPart]]) -> tuple[LogPart, Source]:
    """Parts as one; only its rows and findings are of use."""
    file, first = parts[0]
    source = source_of(plan, file, first.part.unit)
    if len(parts) == 1:
        return first, source
    counts = [log.log.num_rows for _, log in parts]
    begins = np.cumsum([0, *counts])
    logs = [log for _, log in parts]
    table = pa.Table.from_batches([log.log for log in logs]).combine_chunks().to_batches()[0]
    findings = [
        replace(finding, row=finding.row + int(begin))
        for log, begin in zip(logs, begins, strict=False)
        for finding in log.findings
    ]
    index, offset, length = (
        np.concatenate([getattr(log.rows, name) for log in logs]) for name in ("index", "offset", "length")
    )
    raw = None if first.rows.raw is None else pa.concat_arrays([log.rows.raw for log in logs])
    path = pa.array([plan.files[number].path for number, _ in parts], pa.string())
    path = path.take(pa.array(np.repeat(np.arange(len(parts)), counts)))
    of_rows = pa.array(np.repeat(np.array([number for number, _ in parts], np.int32), counts))
    rows = TextRows(index, offset, length, [], [], raw)
    return LogPart(first.part, table, rows, findings), replace(source, path=path, file_index=of_rows)


def gap_of(source: Source, part: Part, gap: Gap, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
    """The event of what is not a row."""
    return gap_event(part, gap, wanted, format=FORMAT, file=source.path, file_index=source.file_index)
