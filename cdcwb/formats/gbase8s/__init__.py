"""The format ``gbase8s``: GBase 8s (Informix) CDC record streams (docs/formats/gbase8s.md). In addition to the modules
of every format: ``schema`` (the language of schema texts), ``framing`` (where records are, in streams and in read
buffers), ``values`` (the types of columns), ``first_pass`` (makes a plan) and ``tree`` (one record).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.base import BaseFormat, Pairing, Portion, Recognition
from cdcwb.formats.files import SHAPES, open_source
from cdcwb.formats.gbase8s.events import read_events
from cdcwb.formats.gbase8s.first_pass import make_plan
from cdcwb.formats.gbase8s.framing import record_end, strong_starts
from cdcwb.formats.gbase8s.layout import FORMAT, Column, ColumnKind
from cdcwb.formats.gbase8s.plan import OPTIONS, Options, Plan, Version, Versions, capture_files, labels_files, pieces_of
from cdcwb.formats.gbase8s.schema import TableSchema
from cdcwb.formats.gbase8s.table import read_table, typed_schema
from cdcwb.formats.gbase8s.tree import inspect_record
from cdcwb.formats.kernels import interpreted
from cdcwb.formats.requests import problem_row
from cdcwb.model import Problem

__all__ = ["GBase8s"]

_HEAD: Final = 1 << 18
_FILES: Final = 8


class GBase8s(BaseFormat):
    """Reads GBase 8s CDC captures in every input shape."""

    name = FORMAT
    options = OPTIONS
    row_times = False
    pairing = Pairing.TRANSACTION
    commits = True
    names_keys = False
    plan_type, options_type = Plan, Options

    side_files = staticmethod(labels_files)
    make_plan = staticmethod(make_plan)
    read = staticmethod(read_events)
    inspect_record = staticmethod(inspect_record)
    pieces = staticmethod(pieces_of)
    table_schema = staticmethod(typed_schema)
    read_table = staticmethod(read_table)

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks for record headers in the first bytes of the first files."""
        given = str(options.get("shape", "auto")).lower()
        shape = given if given in SHAPES else "auto"  # goldengate has an option of this name too
        for path in capture_files(paths)[:_FILES]:
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

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        names = ("size", "shape", "compression", "problem")
        return [
            {"file": entry.path, "file_index": index, **{name: getattr(entry, name) for name in names}}
            for index, entry in enumerate(plan.files)
        ]

    def begins(self, plan: Plan) -> Iterator[int]:
        """See :meth:`cdcwb.formats.base.Format.begins`."""
        with plan.stream() as stream:
            yield from (stream.file_at(split.start) for split in plan.splits)

    def portions(self, plan: Plan, ranges: Sequence[range]) -> list[dict[str, Any]]:
        """The splits, and the next one, for the transactions that are open at their end."""
        count = len(plan.splits)
        return [{"splits": Portion(plan.splits, range(r.start, min(r.stop + 1, count)))} for r in ranges]

    def crossing(self, plan: Plan, split: int) -> frozenset[str]:
        """The transactions that are open at the start of a split, or at its end if another one follows."""
        return plan.crossing(split)

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every schema text of every label, in stream order; ``first_position`` is null."""
        rows = [
            {
                "table_version": f"{version.label}@{version.number}",
                "schema_name": schema_name,
                "table_name": table_name,
                "first_event": location or None,
                "columns": [_column_row(column) for column in schema.columns],
                "origin": version.origin,
                "schema_text": version.text,
            }
            for version, schema, (schema_name, table_name), location in _versions(plan)
        ]
        return pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Problems of truncated files, of schema texts of the side file that cannot be parsed (those of the capture are
        problems of their events), and of large objects whose content is not in the stream."""
        rows = [problem_row(Problem.TRUNCATED, f.problem, file=f.path) for f in plan.files if f.problem]
        for version, schema, names, location in _versions(plan):
            origin: dict[str, Any] = {"table": ".".join(filter(None, names))}
            if location:
                origin |= {
                    "file": plan.files[version.file_index].path,
                    "offset": version.offset,
                    "length": version.length,
                }
            else:
                rows += [problem_row(code, sentence, **origin) for code, sentence in schema.problems]
            rows += [
                problem_row(
                    Problem.LOB_NOT_IN_STREAM,
                    f"column {column.name} {column.type}: a locator of 76 bytes; its content is not in the stream",
                    **origin,
                )
                for column in schema.columns
                if column.kind == ColumnKind.LOB
            ]
        return rows


def _versions(plan: Plan) -> Iterator[tuple[Version, TableSchema, tuple[str | None, str], dict[str, int]]]:
    """Every version, its schema, the names of its table, and the location of its record (empty: a side file)."""
    versions = Versions(plan, {})
    for version in plan.versions:
        schema = versions.schema(version.label, version.number)
        assert schema is not None  # a version of the plan has one
        location = {"file_index": version.file_index, "offset": version.offset, "length": version.length}
        yield version, schema, versions.names(version.label), location if version.file_index >= 0 else {}


def _column_row(column: Column) -> dict[str, Any]:
    decimal = column.kind == ColumnKind.DECIMAL
    return {
        "ordinal": column.ordinal,
        "name": column.name,
        "type": column.type,
        "length": column.size if column.fixed else column.length,
        "precision": column.precision if decimal else None,
        "scale": column.scale if decimal else None,
    }
