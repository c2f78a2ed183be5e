"""The format ``goldengate`` as the rest of cdcwb sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.base import Inspection, Pairing, Piece, Recognition, Run, RunRows, TableRequest, Wanted
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.facts import COMPRESSED, IO_TYPES
from cdcwb.formats.goldengate.pieces import pieces_of
from cdcwb.formats.goldengate.plan import LOGDUMP, Plan, Settings
from cdcwb.formats.goldengate.planning import OPTIONS, Options, make_plan, make_row_plan
from cdcwb.formats.goldengate.probing import HEAD, is_logdump, refusal
from cdcwb.formats.goldengate.raw_trail import is_raw_trail
from cdcwb.formats.goldengate.reader import FORMAT, read_split
from cdcwb.formats.goldengate.typed import column_types, typed_rows, typed_schema, wanted_for
from cdcwb.formats.messages.rows import OF_TABLES, by_partition
from cdcwb.formats.zones import parse_zone, to_utc

__all__ = ["GoldenGate"]

_FILES: Final = 8
RAW_TRAIL: Final = "raw trail"


class GoldenGate:
    """Reads Oracle GoldenGate trail records: Logdump text, and JSON and XML exports (docs/formats/goldengate.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    row_times = True
    pairing = Pairing.TRANSACTION
    commits = False
    compressed_updates = frozenset(IO_TYPES[number].name for number in COMPRESSED)
    names_keys = True
    of_tables: frozenset[str] | None = OF_TABLES

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        Options.parse(options).beside()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
        given = {name: value for name, value in options.items() if name in exports.OPTIONS}
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

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """None: what describes others is named by an option."""
        return []

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Plan:
        """See :func:`cdcwb.formats.goldengate.planning.make_plan`."""
        return make_plan(paths, Options.parse(options), run)

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for Kafka's columns; other formats have the same, so its name has to be given."""
        if "value" not in {name.lower() for name in schema.names}:
            return Recognition(0.0, ["no column `value`"])
        return Recognition(0.5, ["Kafka's columns; give the format, because these columns fit several"])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`cdcwb.formats.goldengate.planning.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def plan_from_text(self, text: str) -> Plan:
        """See :meth:`Plan.from_text`."""
        return Plan.from_text(text)

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        if plan.is_rows:
            return []
        return [
            {
                "file": one.path,
                "file_index": index,
                "size": one.size,
                "shape": one.kind if one.export is None else exports.ExportFile.from_dict(one.export).shape,
                "compression": one.compression,
                "problem": one.problem,
            }
            for index, one in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split; see :func:`cdcwb.formats.goldengate.reader.read_split`."""
        parts = plan.splits[split]
        if plan.files[parts[0].file].export is None:
            yield from read_split(plan, parts, wanted)
            return
        settings = export_settings(plan.settings)
        for part in parts:
            file = exports.ExportFile.from_dict(plan.files[part.file].export or {})
            yield from exports.read(file, part.file, part.start, part.stop, settings, wanted)

    def in_splits(self, plan: Plan) -> bool:
        """Not where records are continued by fragments or undo others, where a half of an update without a transaction
        waits at a border, and where exports, which have no order of their own, are in several splits."""
        if plan.facts["fragments"] or plan.facts["undo_records"]:
            return False
        stretches = (stretch for part in plan.parts for stretch in part.stretches)
        ordered = all(entry.export is None for entry in plan.files)
        return len(plan.splits) < 2 or (ordered and not any(one.half and one.before is None for one in stretches))

    def shared(self, plan: Plan) -> list[frozenset[str]]:
        """See :class:`cdcwb.formats.base.Trailing`."""
        each = [
            {end.name for part in parts for one in part.stretches for end in (one.before, one.after) if end is not None}
            for parts in plan.splits
        ]
        splits = Counter(chain.from_iterable(each))
        return [frozenset(name for name in names if splits[name] > 1) for names in each]

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns, whose values are JSON."""
        settings, name = export_settings(plan.settings), plan.files[0].path
        for batch in batches:
            for messages, place in by_partition(batch, plan.partitions, name):
                yield from exports.read_messages(messages, place, settings, wanted)

    def pieces(self, plan: Plan) -> Iterator[list[Piece]]:
        """See :func:`cdcwb.formats.goldengate.pieces.pieces_of`."""
        return pieces_of(plan)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :func:`cdcwb.formats.goldengate.typed.typed_schema`."""
        return typed_schema(plan, request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.goldengate.typed.typed_rows`."""
        types = column_types(plan, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        types = column_types(plan, request)
        return typed_rows(self.read_rows(plan, batches, wanted_for(request)), request, types)

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every version; ``first_position`` is left null."""
        return pa.Table.from_pylist([version.to_row() for version in plan.versions], schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Files that are cut off, and definitions that are not understood."""
        return plan.notes

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :func:`cdcwb.formats.goldengate.inspect.inspect_record`."""
        from cdcwb.formats.goldengate.inspect import inspect_record

        return inspect_record(path, offset, options)


def _head(path: str) -> bytes:
    source = open_source(path, "binary", limit=HEAD)
    try:
        return source.read(0, HEAD).tobytes()
    finally:
        source.close()


def export_settings(settings: Settings) -> exports.Settings:
    """How JSON and XML files are read."""
    if settings.time_zone is None:
        return exports.Settings()
    return exports.Settings(partial(to_utc, zone=parse_zone(settings.time_zone)))
