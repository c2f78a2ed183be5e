"""The format ``gbase8s`` as the rest of cdcwb sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.base import Inspection, Pairing, Piece, Recognition, Run, TableRequest, Wanted
from cdcwb.formats.files import open_source
from cdcwb.formats.findings import problem_row
from cdcwb.formats.gbase8s.framing import find_candidates
from cdcwb.formats.gbase8s.inspect import inspect_record
from cdcwb.formats.gbase8s.labels import labels_files
from cdcwb.formats.gbase8s.pieces import pieces_of
from cdcwb.formats.gbase8s.plan import Plan
from cdcwb.formats.gbase8s.planning import OPTIONS, Options, capture_files, make_plan
from cdcwb.formats.gbase8s.reader import FORMAT, read_events
from cdcwb.formats.gbase8s.schema import ColumnKind, TableSchema
from cdcwb.formats.gbase8s.typed import read_table, typed_schema
from cdcwb.formats.gbase8s.versions import Versions
from cdcwb.model import Problem

__all__ = ["GBase8s"]

_HEAD: Final = 1 << 18
_FILES: Final = 8


class GBase8s:
    """Reads GBase 8s CDC captures in every input shape (docs/formats/gbase8s.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    row_times = False
    pairing = Pairing.TRANSACTION
    commits = True
    compressed_updates: frozenset[str] = frozenset()
    names_keys = False

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`."""
        Options.parse(dict(options))

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks for record headers in the first bytes of the first files."""
        shape = str(options.get("shape", "auto"))
        for path in capture_files(paths)[:_FILES]:
            source = open_source(path, shape, limit=_HEAD)
            try:
                sample = source.read(0, source.length)
                found = find_candidates(sample)
                strong = found.start[found.strong]
                if len(strong) == 0:
                    continue
                first = sample[int(strong[0]) : int(strong[0]) + 16].tobytes().hex(" ", 4)
                offset, _ = source.places(strong[:1], strong[:1] + 16)
                place = f"{path}: {len(strong)} record headers in the first {len(sample)} wire bytes"
                evidence = [
                    source.evidence,
                    f"{place}, the first at offset {int(offset[0])}: {first}",
                ]
                known = np.isin(found.end[found.strong], np.append(strong, len(sample))).any()
                return Recognition(0.99 if known or len(strong) > 1 else 0.9, evidence, source.shape)
            finally:
                source.close()
        return Recognition(0.0, ["no record header (packetization scheme 66 and a known record number) was found"])

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """See :func:`cdcwb.formats.gbase8s.labels.labels_files`."""
        return labels_files(paths)

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Plan:
        """See :func:`cdcwb.formats.gbase8s.planning.make_plan`."""
        return make_plan(paths, Options.parse(dict(options)), run)

    def plan_from_text(self, text: str) -> Plan:
        """See :meth:`Plan.from_text`."""
        return Plan.from_text(text)

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        return [
            {
                "file": entry.path,
                "file_index": index,
                "size": entry.size,
                "shape": entry.shape,
                "compression": entry.compression,
                "problem": entry.problem,
            }
            for index, entry in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.gbase8s.reader.read_events`."""
        return read_events(plan, plan.splits[split], wanted)

    def crossing(self, plan: Plan, split: int) -> frozenset[str]:
        """The transactions that are open at the start of a split, or at its end if another one follows."""
        around = plan.splits[split : split + 2]
        return frozenset(name for one in around for name in one.open_before.values())

    def pieces(self, plan: Plan) -> Iterator[list[Piece]]:
        """See :func:`cdcwb.formats.gbase8s.pieces.pieces_of`."""
        return pieces_of(plan)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :func:`cdcwb.formats.gbase8s.typed.typed_schema`."""
        return typed_schema(plan, request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.gbase8s.typed.read_table`."""
        return read_table(plan, plan.splits[split], request)

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every schema text of every label, in stream order; ``first_position`` is left null."""
        versions = Versions(plan, {})
        rows: list[dict[str, Any]] = []
        for version in plan.versions:
            schema = versions.schema(version.label, version.number)
            name, table = versions.names(version.label)
            place = {"file_index": version.file_index, "offset": version.offset, "length": version.length}
            rows.append(
                {
                    "table_version": f"{version.label}@{version.number}",
                    "schema_name": name,
                    "table_name": table,
                    "first_event": place if version.file_index >= 0 else None,
                    "columns": [] if schema is None else _columns(schema),
                    "origin": version.origin,
                    "schema_text": version.text,
                }
            )
        return pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Files that are cut off, schema texts of the side file that are not understood (those of the capture are the
        problems of their events), large objects whose content is not in the stream."""
        rows: list[dict[str, Any]] = []
        for entry in plan.files:
            if entry.problem:
                rows.append(problem_row(Problem.TRUNCATED, entry.problem, file=entry.path))
        versions = Versions(plan, {})
        for version in plan.versions:
            schema = versions.schema(version.label, version.number)
            name, table = versions.names(version.label)
            table = table if name is None else f"{name}.{table}"
            place: dict[str, Any] = {"table": table}
            if version.file_index >= 0:
                place.update(file=plan.files[version.file_index].path, offset=version.offset, length=version.length)
            for code, sentence in schema.problems if schema and version.file_index < 0 else ():
                rows.append(problem_row(code, sentence, **place))
            for column in schema.columns if schema else ():
                if column.kind == ColumnKind.LOB:
                    sentence = (
                        f"column {column.name} {column.type}: a locator of 76 bytes; its content is not in the stream"
                    )
                    rows.append(problem_row(Problem.LOB_NOT_IN_STREAM, sentence, **place))
        return rows

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :func:`cdcwb.formats.gbase8s.inspect.inspect_record`."""
        return inspect_record(path, offset, Options.parse(dict(options)))


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    return [
        {
            "ordinal": column.ordinal,
            "name": column.name,
            "type": column.type,
            "length": column.size if column.fixed else column.length,
            "precision": column.precision if column.kind == ColumnKind.DECIMAL else None,
            "scale": column.scale if column.kind == ColumnKind.DECIMAL else None,
            "key_position": None,
            "nullable": None,
        }
        for column in schema.columns
    ]
