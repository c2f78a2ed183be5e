"""The format ``goldengate-export``: GoldenGate's JSON messages and XML files (docs/formats/goldengate.md §8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats.containers.kafka_rows import OF_TABLES, by_partition
from cdcwb.formats.containers.message_files import file_rows
from cdcwb.formats.dissector import BaseFormat, Inspection, Pairing, Recognition, RunRows, TableRequest, Wanted
from cdcwb.formats.goldengate_export import exports
from cdcwb.formats.goldengate_export.plan import (
    OPTIONS,
    Options,
    Plan,
    make_plan,
    make_row_plan,
    pieces_of,
    to_utc_of,
)
from cdcwb.formats.goldengate_export.records import FORMAT
from cdcwb.formats.goldengate_export.table import column_types, typed_rows, wanted_for
from cdcwb.formats.requests import request_schema

__all__ = ["GoldenGateExport"]


_FILES: Final = 8  # that are examined to recognise a capture


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The record at ``offset`` (in the unit of the file). Raises CaptureError if the file ends before it."""
    file = exports.probe(path, options.container)
    record, row = exports.record_at(file, 0, offset, to_utc_of(options.time_zone))
    event = {name: value for name, value in row.items() if value is not None}
    return Inspection(path, row["offset"], row["length"], record, exports.fields(record, file.kind), event, "")


class GoldenGateExport(BaseFormat):
    """Reads GoldenGate's JSON messages and XML files (docs/formats/goldengate.md §8)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.TRANSACTION
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_record)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        Options.parse(options).side_definitions()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
        given = {name: value for name, value in options.items() if name in exports.OPTIONS and name != "split_size"}
        reasons: list[str] = []
        for path in paths[:_FILES]:
            found = exports.recognise(path, given)
            if found.confidence > 0:
                return found
            reasons += found.evidence
        return Recognition(0.0, reasons[:1])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`~cdcwb.formats.goldengate_export.plan.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :func:`cdcwb.formats.messages.reading.file_rows`."""
        return file_rows(plan.files)

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split."""
        part = plan.splits[split]
        yield from exports.read(plan.files[part.file], part.file, part.start, part.stop, plan.to_utc, wanted)

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns, whose values are JSON."""
        for batch in batches:
            for messages, place in by_partition(batch, plan.partitions, plan.name or ""):
                yield from exports.read_messages(messages, place, plan.to_utc, wanted)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """The location of a row, then ``before`` and ``after`` as structures of typed columns."""
        return request_schema(column_types(plan.versions, request), request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns."""
        types = column_types(plan.versions, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        types = column_types(plan.versions, request)
        return typed_rows(self.read_rows(plan, batches, wanted_for(request)), request, types)

    # --- assembling in splits (cdcwb.formats.old.protocols.Trailing): in one only, since records have no order

    def in_splits(self, plan: Plan) -> bool:
        """Whether the capture is one split."""
        return len(plan.splits) < 2

    def is_one(self, plan: Plan) -> bool:
        """Whether the capture is one trail."""
        return True

    def shared(self, plan: Plan) -> Sequence[frozenset[str]]:
        """See :class:`cdcwb.formats.old.protocols.Trailing`."""
        return [frozenset()] * len(plan.splits)
