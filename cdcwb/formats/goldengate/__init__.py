"""The format ``goldengate``: Oracle GoldenGate trail records as Logdump text, and JSON and XML exports
(docs/formats/goldengate.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import (
    BaseFormat,
    Field,
    Inspection,
    Pairing,
    Portion,
    Recognition,
    RunRows,
    TableRequest,
    Wanted,
)
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.events import FORMAT, read_split
from cdcwb.formats.goldengate.layout import COMPRESSED, IO_TYPES, is_raw_trail
from cdcwb.formats.goldengate.plan import LOGDUMP, OPTIONS, Options, Plan, Settings, pieces_of
from cdcwb.formats.goldengate.plan.planning import make_plan, make_row_plan
from cdcwb.formats.goldengate.plan.scanning import HEAD, is_logdump, probe, refusal
from cdcwb.formats.goldengate.table import column_types, typed_rows, typed_schema, wanted_for
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.formats.messages.rows import OF_TABLES, by_partition
from cdcwb.formats.moments import parse_zone, to_utc
from cdcwb.model import Kind
from cdcwb.words import plural

__all__ = ["GoldenGate"]


_WHOLE: Final = 256 << 20  # so large may a file be for all of it to be looked at
_BEFORE: Final = 256 << 20  # bytes of a larger one that are examined before a record
_BEHIND: Final = 1 << 16
_FILLER: Final = "lines that belong to no record"
_UNDEFINED: Final = "no definition of its table was found: columns are named by their index, value types are inferred"


def inspect_record(path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
    """The record, or the filler, at ``offset`` of the decompressed file; for a table of rows, the row.

    The event is the one of ``events``, with the names and types in force there; for a large file they come from the
    bytes around ``offset``. Raises CaptureError if the file ends before ``offset``.
    """
    given = replace(Options.parse(options), mode="PERMISSIVE", images=True)
    entry = probe(([path], given))[0]
    if entry.export is not None:
        record, row = exports.record_at(entry.export, 0, offset, to_utc_of(given.settings))
        field = exports.fields(record, entry.kind)
        return Inspection(path, row["offset"], row["length"], record, field, _there(row), "")
    if not 0 <= offset < entry.size:
        raise CaptureError(f"the file has {plural(entry.size, 'byte')}", path=path, offset=offset)
    window = (0, entry.size) if entry.size <= _WHOLE else (max(offset - _BEFORE, 0), offset + _BEHIND)
    plan = make_plan([path], given, window=window)
    row = _row_at(plan, offset)
    start, length = row["offset"], row["length"]
    with open_source(path, "binary") as source:
        record = source.read(start, start + length).tobytes()
    version = next((one for one in plan.versions if one.key == row["table_version"]), None)
    definition = version.definition if version is not None else None
    # a record that was printed before is filler among events, but a record all the same
    is_filler = row["kind"] == Kind.FILLER and row["record_type"] is None
    if is_filler:
        field = Field("filler", 0, length, record, None, _FILLER)
    else:
        field = dissect(record, definition, plan.files[0], given.charset)
    if version is not None and definition is not None:
        note = f"decoded with table version {version.key} of {version.full_name} ({version.origin})"
    else:
        note = _FILLER if is_filler else _UNDEFINED if row["before"] or row["after"] else ""
    return Inspection(path, start, length, record, field, _there(row), note)


def _there(row: Mapping[str, Any]) -> dict[str, Any]:
    """An event without the columns that are null."""
    return {name: value for name, value in row.items() if value is not None}


def _row_at(plan: Plan, offset: int) -> dict[str, Any]:
    for events in read_split(plan, [part for part in plan.parts if part.start <= offset < part.stop]):
        start = events.column("offset").to_numpy()
        holds = (start <= offset) & (offset < start + events.column("length").to_numpy())
        if holds.any():
            row: dict[str, Any] = events.slice(int(holds.argmax()), 1).to_pylist()[0]
            return row
    raise CaptureError("no record was found there", path=plan.files[0].path, offset=offset)


_FILES: Final = 8
RAW_TRAIL: Final = "raw trail"


class GoldenGate(BaseFormat):
    """Reads Oracle GoldenGate trail records: Logdump text, and JSON and XML exports (docs/formats/goldengate.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.TRANSACTION
    compressed_updates = frozenset(IO_TYPES[number].name for number in COMPRESSED)
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        Options.parse(options).beside()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
        given = {name: value for name, value in options.items() if name in exports.OPTIONS and name != "split_size"}
        reasons: list[str] = []
        for path in paths[:_FILES]:
            try:
                head = _head(path)
            except CaptureError as reason:
                reasons.append(str(reason))
                continue
            if is_raw_trail(head):
                return Recognition(1.0, [f"{path}: the signature of a trail's file header"], RAW_TRAIL, refusal(path))
            found = is_logdump(head)
            if found is not None:
                return Recognition(0.98, [f"{path}: {found}"], LOGDUMP)
            export = exports.recognise(path, given)
            if export.confidence > 0:
                return export
            reasons += export.evidence
        return Recognition(0.0, reasons[:1] or ["no record of a trail was found"])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`~cdcwb.formats.goldengate.plan.planning.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        if plan.is_rows:
            return []
        return [
            {
                "file": one.path,
                "file_index": index,
                "size": one.size,
                "shape": one.kind if one.export is None else one.export.shape,
                "compression": one.compression,
                "problem": one.problem,
            }
            for index, one in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split; see :func:`~cdcwb.formats.goldengate.events.read_split`."""
        parts = plan.splits[split]
        export = plan.files[parts[0].file].export
        if export is None:
            yield from read_split(plan, parts, wanted)
            return
        (part,) = parts
        yield from exports.read(export, part.file, part.start, part.stop, to_utc_of(plan.settings), wanted)

    def in_splits(self, plan: Plan) -> bool:
        """False if a record without a transaction waits at a border for the other half of its update or for fragments,
        and if exports, which have no order of their own, are in several splits."""
        stretches = [stretch for part in plan.parts for stretch in part.stretches]
        ordered = all(entry.export is None for entry in plan.files)
        waits = any((one.half and one.before is None) or (one.follows and one.after is None) for one in stretches)
        return len(plan.splits) < 2 or (ordered and not waits)

    def is_one(self, plan: Plan) -> bool:
        """Whether the capture is one trail. A pump copies transactions with their ids from one to another."""
        return len({stretch.file.trail for part in plan.parts for stretch in part.stretches}) < 2

    def portions(self, plan: Plan, ranges: Sequence[range]) -> list[dict[str, Any]]:
        """The splits, and the transactions that each shares with others."""
        splits = [[replace(part, named=()) for part in split] for split in plan.splits]
        shared = self.shared(plan)
        return [{"splits": Portion(splits, numbers), "shared": Portion(shared, numbers)} for numbers in ranges]

    def shared(self, plan: Plan) -> Sequence[frozenset[str]]:
        """See :class:`cdcwb.formats.old.protocols.Trailing`."""
        if plan.shared is not None:
            return plan.shared
        each = [
            {end.name for part in parts for one in part.stretches for end in (one.before, one.after) if end is not None}
            for parts in plan.splits
        ]
        splits = Counter(chain.from_iterable(each))
        return [frozenset(name for name in names if splits[name] > 1) for names in each]

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns, whose values are JSON."""
        utc, name = to_utc_of(plan.settings), plan.files[0].path
        for batch in batches:
            for messages, place in by_partition(batch, plan.partitions, name):
                yield from exports.read_messages(messages, place, utc, wanted)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`~cdcwb.formats.goldengate.table.typed_rows`."""
        types = column_types(plan, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        types = column_types(plan, request)
        return typed_rows(self.read_rows(plan, batches, wanted_for(request)), request, types)

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :func:`inspect_record`."""
        return inspect_record(path, offset, options)


def _head(path: str) -> bytes:
    with open_source(path, "binary", limit=HEAD) as source:
        return source.read(0, HEAD).tobytes()


def to_utc_of(settings: Settings) -> exports.ToUtc | None:
    """The conversion of printed times of JSON and XML files to UTC; None if their zone is unknown."""
    return None if settings.time_zone is None else partial(to_utc, zone=parse_zone(settings.time_zone))
