"""The format ``gbase8s``: GBase 8s (Informix) CDC record streams (docs/formats/gbase8s.md). In addition to the modules
of every format: ``schema`` (the language of schema texts), ``framing`` (where records are, in streams and in read
buffers), ``values`` (the types of columns) and ``tree`` (one record).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.columns import TableColumn, TableVersion
from cdcwb.formats.dissector import Pairing, Recognition, Run, problem_row
from cdcwb.formats.files import SHAPES, open_source
from cdcwb.formats.gbase8s import plan as first_pass
from cdcwb.formats.gbase8s.events import RecordReader, read_table, typed_schema
from cdcwb.formats.gbase8s.framing import find_start, record_end, strong_starts
from cdcwb.formats.gbase8s.layout import FORMAT, ColumnKind, SchemaColumn
from cdcwb.formats.gbase8s.plan import INFERRED, OPTIONS, FirstPass, Options, StreamState, labels_files
from cdcwb.formats.gbase8s.tree import describe
from cdcwb.formats.kernels import interpreted
from cdcwb.formats.records import Framing, Plan, Stream
from cdcwb.formats.transactions import StreamFormat
from cdcwb.model import Problem

__all__ = ["GBase8s"]

_HEAD: Final = 1 << 18
_FILES: Final = 8


class GBase8s(StreamFormat):
    """Reads GBase 8s CDC captures in every input shape."""

    name = FORMAT
    options = OPTIONS
    row_times = False
    pairing = Pairing.TRANSACTION
    commits = True
    names_keys = False
    side_file = re.compile(r"\.labels\.json$")
    plan_type, options_type, scan_type = Plan, Options, FirstPass

    side_files = staticmethod(labels_files)
    capture_files = staticmethod(first_pass.capture_files)
    detect = staticmethod(first_pass.detect)
    segments = staticmethod(first_pass.segments_of)
    scan = staticmethod(first_pass.scan)
    finish = staticmethod(first_pass.finish)
    describe = staticmethod(describe)
    table_schema = staticmethod(typed_schema)
    read_table = staticmethod(read_table)

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks for record headers in the first bytes of the first files."""
        given = str(options.get("shape", "auto")).lower()
        shape = given if given in SHAPES else "auto"  # options are not checked yet
        for path in self.capture_files(paths)[:_FILES]:
            source = open_source(path, shape, limit=_HEAD)
            try:
                sample = source.read(0, source.length)
                with interpreted():  # recognition compiles no kernels
                    starts = strong_starts(sample)
                    chained = len(starts) > 1 or (starts and record_end(sample, starts[0]) == len(sample))
                if not starts:
                    continue
                first = sample[starts[0] : starts[0] + 16].tobytes().hex(" ", 4)
                offset, _ = source.places(np.array(starts[:1]), np.array([starts[0] + 16]))
                location = f"{path}: {len(starts)} record headers in the first {len(sample)} wire bytes"
                evidence = [source.evidence, f"{location}, the first at offset {int(offset[0])}: {first}"]
                return Recognition(0.99 if chained else 0.9, evidence, source.shape)
            finally:
                source.close()
        return Recognition(0.0, ["no record header (packetization scheme 66 and a known record number) was found"])

    def make_plan(self, paths: Sequence[str], options: Options, run: Run) -> Plan:
        """See :meth:`cdcwb.formats.records.RecordFormat.make_plan`. A file of names may be invalid, so it is read first
        of all. Halves of updates are paired by table, so labels with the same name are one table; that of a label
        without one is its number."""
        names, _ = options.names_of(paths)
        numbers = [one for schema, one in names.values() if schema is None and one.isdecimal() and len(one) < 11]
        names = {int(one): (None, one) for one in numbers if str(int(one)) == one} | names
        first: dict[Any, int] = {}
        same = {label: one for label, name in names.items() if (one := first.setdefault(name, label)) != label}
        return super().make_plan(paths, replace(options, same=same), run)

    def find_start(self, stream: Stream, framing: Framing, start: int, stop: int) -> int:
        """See :meth:`cdcwb.formats.records.RecordFormat.find_start`."""
        return find_start(stream, start, stop)

    def reader(self, plan: Plan, stream: Stream, state: StreamState) -> RecordReader:
        """See :meth:`cdcwb.formats.records.RecordFormat.reader`."""
        return RecordReader(plan.shared, state)

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every schema text of every label, in stream order; ``first_position`` is null."""
        rows = []
        for one in plan.shared.versions:
            schema, name = plan.shared.names(one.label)
            columns = [_column(column) for column in one.schema.columns]
            made = TableVersion(f"{one.label}@{one.number}", schema, name, columns, one.origin, one.text)
            made.file_index, made.offset, made.length = one.file_index, one.offset, one.length
            rows.append(made.to_row() | {"lineage": None})
        return pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Problems of truncated files, of schema texts of the side file that cannot be parsed (those of the capture are
        problems of their events), of large objects whose content is not in the stream, and of inferred reads."""
        rows = super().problems(plan)
        if plan.framing.mode[0] == INFERRED:
            sentence = "it is inferred where the reads begin; give the size of the read buffer: buffer_size=…"
            rows.append(problem_row(Problem.INFERRED, sentence))
        for version in plan.shared.versions:
            place: dict[str, Any] = {"table": plan.shared.full_name(version.label)}
            if version.file_index >= 0:
                file = plan.files[version.file_index].path
                place |= {"file": file, "offset": version.offset, "length": version.length}
            else:
                rows += [problem_row(code, sentence, **place) for code, sentence in version.schema.problems]
            for column in version.schema.columns:
                if column.kind == ColumnKind.LOB:
                    sentence = "a locator of 76 bytes; its content is not in the stream"
                    sentence = f"column {column.name} {column.type}: {sentence}"
                    rows.append(problem_row(Problem.LOB_NOT_IN_STREAM, sentence, **place))
        return rows


def _column(column: SchemaColumn) -> TableColumn:
    precision, scale = (column.precision, column.scale) if column.kind == ColumnKind.DECIMAL else (None, None)
    length = column.size if column.fixed else column.length
    return TableColumn(column.ordinal, column.name, column.type, length, precision, scale)
