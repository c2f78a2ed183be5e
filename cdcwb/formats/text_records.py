"""Formats of text with a record a line: what a small format is, completely (docs/dissectors.md). A format gives four
things (:class:`TextRecords`): which lines are its records, what one of them means as an event, its fields, and its
options. The engine (:mod:`cdcwb.formats.records`) does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import batch_of
from cdcwb.formats.dissector import EVERYTHING, Field, Pairing, Recognition, TableRequest, Wanted
from cdcwb.formats.files import open_source
from cdcwb.formats.inferred import (
    Tables,
    inferred_rows,
    inferred_schema,
    inferred_version,
    inferred_versions,
    merged_tables,
    note_tables,
)  # fmt: skip
from cdcwb.formats.records import (
    SPLIT_SIZE,
    WINDOW,
    Framing,
    Ints,
    Plan,
    RecordFormat,
    Scan,
    Segments,
    Split,
    SplitReader,
    Stream,
    UnparsedReason,
    cut_gaps,
)  # fmt: skip
from cdcwb.formats.transactions import Border, OpenTransactions, borders
from cdcwb.model import Kind, Problem

__all__ = ["Meaning", "TextRecords"]

_HEAD: Final = 1 << 16  # bytes that are looked at to recognise a file
_FILES: Final = 8
_LINE: Final = 1 << 20  # bytes of a line at most

Meaning = tuple[str, int, int, str | None, str]
"""A field: its name, start and end in the line, value (None: NULL, or a field without a value) and meaning."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture; ``given`` are those of the format itself."""

    shape: str = "binary"
    split_size: int | None = None
    mode: str = "PERMISSIVE"
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a split: its transactions, and the columns of each table in order of appearance."""

    transactions: OpenTransactions = field(default_factory=OpenTransactions)
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _State:
    border: Border


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all splits need: the options of the format, and the columns of each table."""

    options: Mapping[str, str]
    tables: Tables


class TextRecords(RecordFormat):
    """A format of records that are lines of UTF-8 text, in files of any compression.

    A format sets ``name``, ``commits`` (whether the stream has begins, commits and rollbacks; ids of transactions are
    not reused) and, with a description each, ``own_options``; and it has the methods :meth:`is_record`, :meth:`event`
    and :meth:`fields`. A line that is not a record is malformed, unless it is blank or :meth:`is_comment`.
    """

    own_options: Mapping[str, str] = {}
    pairing = Pairing.TRANSACTION
    commits = True
    plan_type, options_type, scan_type = Plan, Options, FirstPass

    # --- what a format gives ------------------------------------------------------------------------------------------

    def is_record(self, line: bytes) -> bool:
        """Whether a line, without its line end, is a record of the format: few bytes of it have to decide."""
        raise NotImplementedError

    def is_comment(self, line: bytes) -> bool:
        """Whether a line has no data."""
        return False

    def event(self, line: str, options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of :data:`cdcwb.model.EVENTS` that a record gives: at least ``kind``; images and headers are
        dictionaries of texts. ``options`` are the given ones among ``own_options``. Raises ValueError, with a sentence
        that has the expected and the actual, for a record that cannot be decoded."""
        raise NotImplementedError

    def fields(self, line: str, options: Mapping[str, str]) -> Iterable[Meaning]:
        """The fields of a record, in order; offsets count characters."""
        raise NotImplementedError

    # --- the rest -----------------------------------------------------------------------------------------------------

    @property
    def options(self) -> Mapping[str, str]:  # type: ignore[override]
        """The description of every option."""
        return {**self.own_options, "split_size": SPLIT_SIZE, **opt.SHARED}

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.BaseFormat.parse_options`."""
        opt.check_names(options, self.options, self.name)
        given = opt.given_of(options)
        return Options(
            split_size=opt.optional("split_size", given, opt.as_whole, 64),
            mode=opt.as_choice("mode", given.get("mode", "PERMISSIVE"), opt.MODES),
            given={name: str(value) for name, value in given.items() if name in self.own_options},
        )

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Counts the records among the first lines of the first files."""
        for path in paths[:_FILES]:
            with open_source(path, "binary", limit=_HEAD) as source:
                lines = source.read(0, source.length).tobytes().splitlines()
            lines = [line for line in lines if line.strip() and not self.is_comment(line)]
            records = sum(map(self.is_record, lines))
            if records and 2 * records >= len(lines):
                confidence = 0.98 if records > 1 else 0.9
                return Recognition(
                    confidence, [f"{path}: {records} of the first {len(lines)} lines are records"], "text"
                )
        return Recognition(0.0, ["no line is a record"])

    def segments(self, stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
        """See :meth:`cdcwb.formats.records.RecordFormat.segments`. A line longer than 1 MiB is not a record."""
        while start < min(stop, stream.length):
            buffer = stream.read(start, min(start + WINDOW, stop + _LINE, stream.length))
            is_last = start + len(buffer) == stream.length
            ends = np.flatnonzero(buffer == 10) + 1
            if is_last and (not len(ends) or ends[-1] < len(buffer)):
                ends = np.append(ends, len(buffer))
            if not len(ends):  # only the beginning of a long line
                ends = np.array([len(buffer)])
            starts = np.append(0, ends[:-1])
            starts, ends = starts[starts < stop - start], ends[: np.count_nonzero(starts < stop - start)]
            found = self._lines(buffer, start, starts, ends)
            yield cut_gaps(found, stream.boundaries)
            start += int(ends[-1])

    def _lines(self, buffer: Any, base: int, starts: Ints, ends: Ints) -> Segments:
        data = buffer.tobytes()
        record, reasons = np.ones(len(starts), np.bool_), {}
        for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            line = data[start:end].rstrip(b"\r\n")
            if self.is_record(line):
                continue
            record[at] = False
            if not line.strip() or self.is_comment(line):
                reasons[at] = UnparsedReason(None, "a line without data")
            else:
                shown = line[:60].decode("utf-8", "replace")
                reasons[at] = UnparsedReason(Problem.MALFORMED, f"expected a record of {self.name}, found {shown!r}")
        return Segments(buffer, base, starts, ends, record, reasons)

    def find_start(self, stream: Stream, framing: Framing, start: int, stop: int) -> int:
        """See :meth:`cdcwb.formats.records.RecordFormat.find_start`: the line after the first line end."""
        before = stream.read(start - 1, min(stop, start + _LINE)).tobytes()
        end = before.find(b"\n")
        return min(stop, start + end if end >= 0 else start + len(before) - 1)

    def scan(self, found: FirstPass, stream: Stream, segments: Segments, options: Options) -> int:
        """See :meth:`cdcwb.formats.records.RecordFormat.scan`."""
        records = np.flatnonzero(segments.record)
        rows = [self._row(segments, record, options.given) for record in records.tolist()]
        found.transactions.then(OpenTransactions.of_events(batch_of(rows, {}, EVERYTHING)))
        note_tables(found.tables, rows)
        return len(records)

    def finish(self, plan: Plan, scans: Sequence[Scan], options: Options) -> list[_State]:
        """See :meth:`cdcwb.formats.records.RecordFormat.finish`."""
        plan.shared = _Shared(options.given, merged_tables(scan.found.tables for scan in scans))
        made, still_open = borders([scan.found.transactions for scan in scans])
        plan.facts["open_transactions"] = len(still_open)
        return [_State(border) for border in made]

    def _row(self, segments: Segments, record: int, options: Mapping[str, str]) -> dict[str, Any]:
        """The columns of a record; those of a malformed one if it cannot be decoded."""
        raw = segments.buffer[segments.start[record] : segments.end[record]].tobytes()
        try:
            return dict(self.event(raw.decode("utf-8").rstrip("\r\n"), options))
        except UnicodeDecodeError as reason:
            code, sentence = Problem.CHARSET, f"expected text in utf-8, found other bytes at byte {reason.start}"
        except ValueError as reason:
            code, sentence = Problem.MALFORMED, str(reason)
        return {"kind": Kind.MALFORMED, "problems": [{"code": str(code), "detail": sentence}]}

    def reader(self, plan: Plan, stream: Stream, state: _State) -> SplitReader:
        """See :meth:`cdcwb.formats.records.RecordFormat.reader`."""
        return _TextReader(self, plan.shared.options)

    def describe(self, plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Field, Any, str, bool]:
        """See :meth:`cdcwb.formats.records.RecordFormat.describe`."""
        raw = segments.buffer[segments.start[at] : segments.end[at]].tobytes()
        row = self._row(segments, at, plan.shared.options)
        problem = row["problems"][0]["code"] if row["kind"] == Kind.MALFORMED else None
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        meaning = row["problems"][0]["detail"] if problem else "a record"
        children = () if problem else _tree(raw, self.fields(line, plan.shared.options))
        tree = Field(str(row.get("record_type") or row["kind"]), 0, len(raw), raw, None, meaning, children, problem)
        return tree, {name: value for name, value in row.items() if value is not None}, "", True

    def context(self, plan: Plan, split: Split, last: int) -> Any:
        """See :meth:`cdcwb.formats.records.RecordFormat.context`."""
        return sorted(plan.shared.options.items())

    def table_versions(self, plan: Plan) -> pa.Table:
        """A version of each table, with the columns that its rows have."""
        return inferred_versions(plan.shared.tables)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`: all columns are texts."""
        return inferred_schema(plan.shared.tables, request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :meth:`cdcwb.formats.dissector.Format.read_table`."""
        return inferred_rows(partial(self.read, plan, split), self.table_schema(plan, request), request)


class _TextReader(SplitReader):
    def __init__(self, form: TextRecords, options: Mapping[str, str]) -> None:
        self._form, self._options = form, options

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """See :meth:`cdcwb.formats.records.SplitReader.columns`."""
        rows = [self._form._row(segments, record, self._options) for record in records.tolist()]
        for row in rows:
            if row.get("table_name") is not None:
                row.setdefault("table_version", inferred_version(row))
            if not wanted.images:
                row.update(before=None, after=None)
        batch = batch_of(rows, {}, wanted)
        return records, dict(zip(batch.schema.names, batch.columns, strict=True))


def _tree(raw: bytes, fields: Iterable[Meaning]) -> tuple[Field, ...]:
    """The nodes of fields, and quiet ones for the bytes between them."""
    line = raw.decode("utf-8")
    nodes: list[Field] = []
    done = 0

    def node(name: str, start: int, stop: int, value: str | None, meaning: str, quiet: bool) -> None:
        if not 0 <= start <= stop <= len(line):
            raise CaptureError(f"the field {name} is at {start} to {stop} of a line of {len(line)} characters")
        first = len(line[:start].encode())
        part = line[start:stop].encode()
        nodes.append(Field(name, first, len(part), part, value, meaning, quiet=quiet))

    for name, start, stop, value, meaning in fields:
        if start > done:
            node("separator", done, start, None, "", quiet=True)
        node(name, start, stop, value, meaning, quiet=False)
        done = stop
    if done < len(line):
        node("line end", done, len(line), None, "", quiet=True)
    return tuple(nodes)
