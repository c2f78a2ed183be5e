"""From a file to rows of the log, whatever holds them (docs/formats/idm-event-log.md §1.3, §1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import slices
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.idm_event_log.decode.literals import column
from cdcwb.formats.idm_event_log.decode.sql import Segments, SqlRows, segments
from cdcwb.formats.idm_event_log.layout import COLUMNS, LOG, Finding
from cdcwb.formats.idm_event_log.plan import ROWS, SQL, LogFile
from cdcwb.formats.tabular.delimited import LONGEST
from cdcwb.formats.tabular.parts import NO_ROWS, Gap, Part, TextRows, read_parts, text_rows
from cdcwb.formats.tabular.rows import ColumnRows, CsvRows
from cdcwb.model import Kind, OffsetUnit, Problem

__all__ = ["LogPart", "log_part", "log_parts", "sql_segments"]

Ints = npt.NDArray[np.int64]

_AFTER: Final = 1 << 20  # bytes after a part that are read with it, where its last statement goes on
_NEAR: Final = 1 << 16  # bytes from the end of those that were read, which may decide what a row is
_SHOWN: Final = 64  # digits of bytes that are not in the character set


@dataclass(slots=True)
class LogPart:
    """Neighbouring segments of a file. ``log``: the rows among them, ``rows`` where these are; ``findings``: what is
    wrong with them. ``records``: how many rows there are, damaged ones too; ``numbers``: those of ``rows``, from 1."""

    part: Part
    log: pa.RecordBatch
    rows: TextRows
    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    numbers: Ints = field(default_factory=lambda: np.empty(0, np.int64))


def log_parts(entry: LogFile, start: int, stop: int, before: int) -> Iterator[LogPart]:
    """The segments of a file that begin in ``[start, stop)``, in order; ``before``: how many records of the capture
    stand before them."""
    if entry.probe.kind == SQL:
        with closing(open_source(entry.path, "binary", size=entry.size)) as source:
            for part, refused in sql_segments(source, entry, start, stop):
                made = log_part(entry, part, before, refused)
                before += made.records
                yield made
        return
    for plain in read_parts(entry.probe, start, stop):
        made = log_part(entry, plain, before)
        before += made.records
        yield made


def log_part(
    entry: LogFile,
    part: Part,
    before: int,
    refused: list[tuple[int, str, Problem, str]] | None = None,
    only: frozenset[str] = frozenset(COLUMNS),
) -> LogPart:
    """The rows of a part as rows of the log. ``refused``: what is wrong with values: segment, column, code and
    sentence. Columns that are not in ``only`` are null."""
    labels = entry.labels
    names: list[str] = [name for name in COLUMNS if name in labels and name in only]
    found = text_rows(part, [labels[name] for name in names])
    numbers, records = _numbers(part, before)
    if entry.probe.kind == ROWS:
        numbers = part.offset + 1
    if found is None:
        return LogPart(part, pa.RecordBatch.from_pylist([], schema=LOG), NO_ROWS, [], records)
    texts: dict[str, pa.StringArray] = dict(zip(names, _nulls(entry, part, found, names), strict=True))
    count = len(found)
    columns = []
    for name in COLUMNS:
        if name in texts:
            columns.append(texts[name])
        elif name == "record_id":
            columns.append(pc.cast(pa.array(numbers[found.index]), pa.string()))
        elif name == "status":
            columns.append(pa.repeat("N", count))
        else:
            columns.append(pa.nulls(count, pa.string()))
    log = pa.RecordBatch.from_arrays(columns, schema=LOG)
    findings = _garbled(entry, names, texts, found) + _refused(entry, found, refused or [])
    return LogPart(part, log, found, findings, records, numbers[found.index])


def _numbers(part: Part, before: int) -> tuple[Ints, int]:
    """The number of the record that each segment is, from 1, and how many records there are: all but filler."""
    size = np.ones(len(part.offset), dtype=np.int64)
    for gap in part.gaps:
        if gap.kind is Kind.FILLER:
            size[gap.index] = 0
        elif part.unit is OffsetUnit.ROW:
            size[gap.index] = part.length[gap.index]
    behind = np.cumsum(size)
    return before + behind - size + 1, int(behind[-1]) if len(behind) else 0


def _nulls(entry: LogFile, part: Part, found: TextRows, names: list[str]) -> list[pa.StringArray]:
    """The columns with what stands for NULL taken for it: in delimited text an empty field without quotes too."""
    if not entry.null_text:
        return found.columns
    rows = part.rows[0][1]
    if not isinstance(rows, CsvRows):
        null = pa.scalar(None, pa.string())
        return [pc.if_else(pc.equal(texts, entry.null_text), null, texts) for texts in found.columns]
    columns = []
    for name, texts in zip(names, found.columns, strict=True):
        place = rows.names.index(entry.labels[name])
        empty = rows.starts[:, place] == rows.ends[:, place]
        columns.append(pc.if_else(pa.array(empty), pa.scalar(None, pa.string()), texts) if empty.any() else texts)
    return columns


def _garbled(entry: LogFile, names: list[str], texts: dict[str, pa.StringArray], found: TextRows) -> list[Finding]:
    findings = []
    for row, place in found.garbled:
        digits = texts[names[place]][row].as_py() or ""
        shown = digits if len(digits) <= _SHOWN else f"{digits[:_SHOWN]}…"
        sentence = f"expected {entry.probe.charset} in {names[place]}, found the bytes {shown}"
        findings.append(Finding(row, names[place], Problem.CHARSET, sentence, False))
    return findings


def _refused(entry: LogFile, found: TextRows, refused: list[tuple[int, str, Problem, str]]) -> list[Finding]:
    own = {label: name for name, label in entry.labels.items()}
    row_of = {int(segment): row for row, segment in enumerate(found.index)} if refused else {}
    return [
        Finding(row_of[segment], own[label], code, f"{own[label]}: {sentence}", False)
        for segment, label, code, sentence in refused
        if label in own and segment in row_of
    ]


# --- dumps of SQL statements ------------------------------------------------------------------------------------------


def sql_segments(
    source: Source, entry: LogFile, start: int, stop: int, only: frozenset[str] = frozenset(COLUMNS)
) -> Iterator[tuple[Part, list[tuple[int, str, Problem, str]]]]:
    """The segments of a dump, and what is wrong with values: segment of the part, column, code and sentence. Columns of
    the log that are not in ``only`` are null. A row with a value that only the database can evaluate is malformed."""
    probe = entry.probe
    table, backslash = str(probe.settings["table"]), bool(probe.settings["backslash"])
    widths = {table: probe.width} if probe.width else {}
    done = 0
    for upto in dict.fromkeys((min(stop + _AFTER, source.length), source.length)):
        buffer = source.view(start, upto)
        whole = upto == source.length
        parts = segments(buffer, start, stop, table=table, charset=probe.charset, backslash=backslash, widths=widths)
        for number, found in enumerate(parts):
            # what looks damaged, or ends with the bytes that were read, may go on in those that were not
            if not whole and (found.end[-1] > upto - _NEAR or any(gap.code is not None for gap in found.gaps)):
                break
            if number >= done:
                yield _sql_part(buffer, found, entry, only)
                done += 1
        else:
            return


def _sql_part(
    buffer: npt.NDArray[np.uint8], found: Segments, entry: LogFile, only: frozenset[str]
) -> tuple[Part, list[tuple[int, str, Problem, str]]]:
    offset = np.array(found.start, dtype=np.int64)
    part: Part = Part(offset, np.array(found.end, dtype=np.int64) - offset, OffsetUnit.BYTE, [], found.gaps)
    wrong: list[tuple[int, str, Problem, str]] = []
    if any(group.index for group in found.rows.values()):
        part.rows.append(_sql_rows(buffer, part, list(found.rows.values()), entry, only, wrong))
    part.gaps.sort(key=lambda gap: gap.index)
    return part, wrong


def _sql_rows(
    buffer: npt.NDArray[np.uint8],
    part: Part,
    groups: list[SqlRows],
    entry: LogFile,
    only: frozenset[str],
    wrong: list[tuple[int, str, Problem, str]],
) -> tuple[Ints, Any]:
    """The columns of the log of all rows, whatever their statements list."""
    own = {label: name for name, label in entry.labels.items()}
    tokens: dict[str, list[bytes]] = {label: [] for label in own}
    for group in groups:
        names = entry.probe.columns if group.names is None else group.names
        places = {name: place for place, name in enumerate(names)}
        for label, values in tokens.items():
            place = places.get(label, len(names))
            values += [row[place] if place < len(row) else b"NULL" for row in group.values]
    index = np.concatenate([np.array(group.index, dtype=np.int64) for group in groups])
    order = None if len(groups) == 1 else np.argsort(index)
    index = index if order is None else index[order]
    columns, refused = [], {}
    for label, values in tokens.items():
        some = values if order is None else [values[at] for at in order.tolist()]
        made = column(some, entry.probe.charset, bool(entry.probe.settings["backslash"]))
        columns.append(made.texts if own[label] in only else pa.nulls(len(index), pa.string()))
        for row in made.garbled.tolist():
            shown = (made.texts[row].as_py() or "")[:_SHOWN]
            wrong.append((int(index[row]), label, Problem.CHARSET, f"expected {entry.probe.charset}, found {shown}"))
        refused.update({row: f"{own[label]}: {why}" for row, why in made.refused.items()})
    if refused:
        for row, why in refused.items():
            at = int(part.offset[index[row]])
            raw = buffer[at : at + min(int(part.length[index[row]]), LONGEST)].tobytes()
            part.gaps.append(Gap(int(index[row]), Problem.MALFORMED, why, raw))
        fine = pa.array(np.delete(np.arange(len(index)), list(refused)))
        index, columns = index[fine.to_numpy()], [one.take(fine) for one in columns]
    start, end = part.offset[index], part.offset[index] + part.length[index]
    layout = tuple(tokens)
    return index, ColumnRows(layout, start, part.length[index], columns, slices(buffer, start, end))
