"""From a file to rows of the log, whatever holds them (docs/formats/idm-event-log.md §1.3, §1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.layout import COLUMNS, LOG, Finding
from cdcwb.formats.idm_event_log.plan import ROWS, LogFile
from cdcwb.formats.tabular.parts import NO_ROWS, TextRows, read_parts, text_rows
from cdcwb.formats.tabular.rows import CsvRows, Part
from cdcwb.model import Kind, OffsetUnit, Problem

__all__ = ["LogPart", "log_part", "log_parts"]

Ints = npt.NDArray[np.int64]

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
    precede them."""
    for plain in read_parts(entry.probe, start, stop):
        made = log_part(entry, plain, before)
        before += made.records
        yield made


def log_part(
    entry: LogFile,
    part: Part,
    before: int,
    only: frozenset[str] = frozenset(COLUMNS),
) -> LogPart:
    """The rows of a part as rows of the log. Columns that are not in ``only`` are null."""
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
    findings = _garbled(entry, names, texts, found)
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
    """The columns with the text of NULL taken for it: in delimited text an empty field without quotes too."""
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
