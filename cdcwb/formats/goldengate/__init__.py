"""The format ``goldengate``: Oracle GoldenGate trail records as Logdump prints them (docs/formats/goldengate.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    TableRequest,
    Wanted,
)
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate.events import FORMAT, read_split
from cdcwb.formats.goldengate.layout import COMPRESSED, IO_TYPES, is_raw_trail
from cdcwb.formats.goldengate.plan import OPTIONS, Options, Plan, pieces_of
from cdcwb.formats.goldengate.plan.planning import make_plan
from cdcwb.formats.goldengate.plan.scanning import HEAD, is_logdump, probe, refusal
from cdcwb.formats.goldengate.table import column_types, typed_rows, typed_schema, wanted_for
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.model import Kind
from cdcwb.words import plural

__all__ = ["GoldenGate"]


_WHOLE: Final = 256 << 20  # so large may a file be for all of it to be looked at
_BEFORE: Final = 256 << 20  # bytes of a larger one that are examined before a record
_BEHIND: Final = 1 << 16
_FILLER: Final = "lines that belong to no record"
_UNDEFINED: Final = "no definition of its table was found: columns are named by their index, value types are inferred"


def inspect_record(path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
    """The record, or the filler, at ``offset`` of the decompressed file.

    The event is the one of ``events``, with the names and types in force there; for a large file they come from the
    bytes around ``offset``. Raises CaptureError if the file ends before ``offset``.
    """
    given = replace(Options.parse(options), mode="PERMISSIVE", images=True)
    (entry,) = probe([path])
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
    event = {name: value for name, value in row.items() if value is not None}
    return Inspection(path, start, length, record, field, event, note)


def _row_at(plan: Plan, offset: int) -> dict[str, Any]:
    for events in read_split(plan, [part for part in plan.parts if part.start <= offset < part.stop]):
        start = events.column("offset").to_numpy()
        holds = (start <= offset) & (offset < start + events.column("length").to_numpy())
        if holds.any():
            row: dict[str, Any] = events.slice(int(holds.argmax()), 1).to_pylist()[0]
            return row
    raise CaptureError("no record was found there", path=plan.files[0].path, offset=offset)


_FILES: Final = 8
LOGDUMP: Final = "logdump"
RAW_TRAIL: Final = "raw trail"


class GoldenGate(BaseFormat):
    """Reads Oracle GoldenGate trail records as Logdump prints them (docs/formats/goldengate.md). JSON messages and XML
    files of GoldenGate are opened under this name too."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.TRANSACTION
    compressed_updates = frozenset(IO_TYPES[number].name for number in COMPRESSED)
    alias_of = "goldengate-export"
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        Options.parse(options).beside()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
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
        return Recognition(0.0, reasons[:1] or ["no record of a trail was found"])

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        return [
            {
                "file": one.path,
                "file_index": index,
                "size": one.size,
                "shape": LOGDUMP,
                "compression": one.compression,
                "problem": one.problem,
            }
            for index, one in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split; see :func:`~cdcwb.formats.goldengate.events.read_split`."""
        return read_split(plan, plan.splits[split], wanted)

    def in_splits(self, plan: Plan) -> bool:
        """False if a record without a transaction waits at a border for the other half of its update or for
        fragments."""
        stretches = [stretch for part in plan.parts for stretch in part.stretches]
        waits = any((one.half and one.before is None) or (one.follows and one.after is None) for one in stretches)
        return len(plan.splits) < 2 or not waits

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

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`~cdcwb.formats.goldengate.table.typed_rows`."""
        types = column_types(plan, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :func:`inspect_record`."""
        return inspect_record(path, offset, options)


def _head(path: str) -> bytes:
    with open_source(path, "binary", limit=HEAD) as source:
        return source.read(0, HEAD).tobytes()
