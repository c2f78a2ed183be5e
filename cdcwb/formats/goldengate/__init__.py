"""The format ``goldengate``: Oracle GoldenGate trail records as Logdump text or in raw trail files
(docs/formats/goldengate.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import (
    EVERYTHING,
    Field,
    Pairing,
    Recognition,
    Run,
    TableRequest,
    detected_row,
    problem_row,
)
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import plan as planning
from cdcwb.formats.goldengate.contents import column_types, typed_rows, wanted_for
from cdcwb.formats.goldengate.definitions import read_definitions
from cdcwb.formats.goldengate.events import LogdumpReader
from cdcwb.formats.goldengate.layout import COMPRESSED, IO_TYPES, is_raw_trail, logdump_script
from cdcwb.formats.goldengate.plan import OPTIONS, FirstPass, Options, TrailContext, TrailState
from cdcwb.formats.goldengate.records import RecordSettings
from cdcwb.formats.goldengate.segments import HEAD, TextWindow, first_start, is_logdump, windows
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.formats.records import Framing, Plan, Segments, Stream
from cdcwb.formats.requests import request_schema
from cdcwb.formats.trail import TrailFormat
from cdcwb.model import TABLE_VERSIONS, Problem
from cdcwb.words import plural

__all__ = ["GoldenGate"]

LOGDUMP: Final = "logdump"
RAW_TRAIL: Final = "raw trail"
_FILES: Final = 8
_SIGNED: Final = 128  # bytes of a raw trail that have the signature
_UNDEFINED: Final = "no definition of its table was found: columns are named by their index, value types are inferred"


class GoldenGate(TrailFormat):
    """Reads Oracle GoldenGate trail records as Logdump prints them, or raw (docs/formats/goldengate.md)."""

    name = "goldengate"
    options: Mapping[str, str] = OPTIONS
    alias_of = "goldengate-export"
    pairing = Pairing.TRANSACTION
    compressed_updates = frozenset(IO_TYPES[number].name for number in COMPRESSED)
    plan_type, options_type, scan_type = Plan, Options, FirstPass
    finish = staticmethod(planning.finish)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        checked = self.parse_options(options)
        read_definitions(checked.definitions, checked.charset)

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the beginnings of the first files."""
        reasons: list[str] = []
        for path in paths[:_FILES]:
            try:
                with open_source(path, "binary", limit=HEAD) as source:
                    head = source.read(0, HEAD).tobytes()
            except CaptureError as reason:
                reasons.append(str(reason))
                continue
            if is_raw_trail(head):
                evidence, checked = f"{path}: the signature of a trail's file header", _checked(head)
                if checked is None:
                    return Recognition(1.0, [evidence], RAW_TRAIL, _refusal(path))
                return Recognition(1.0, [evidence, checked], RAW_TRAIL)
            found = is_logdump(head)
            if found is not None:
                return Recognition(0.98, [f"{path}: {found}"], LOGDUMP)
        return Recognition(0.0, reasons[:1] or ["no record of a trail was found"])

    # --- the plan -----------------------------------------------------------------------------------------------------

    def detect(self, stream: Stream, options: Options) -> Framing:
        """See :meth:`cdcwb.formats.records.RecordFormat.detect`. Raises CaptureError for a raw trail of which no record
        checks out."""
        first = next((index for index, entry in enumerate(stream.files) if entry.length), 0)
        start, stop = stream.starts[first : first + 2]
        head = stream.read(start, min(start + HEAD, stop)).tobytes()
        if not is_raw_trail(head):
            return Framing(RecordSettings(options.charset))
        path, checked = stream.files[first].path, _checked(head)
        if checked is None:
            raise _refusal(path)
        row = detected_row("layout", RAW_TRAIL, f"{checked}; {_UNTRIED}", False, path)
        return Framing(RecordSettings(options.charset, raw=True), detected=(row,))

    def segments(self, stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
        """See :meth:`cdcwb.formats.records.RecordFormat.segments`. They end with the last record
        before the first one at or after ``stop`` at which a split may begin."""
        return windows(stream, start, stop, framing.mode)

    def scanned(self, stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
        """See :meth:`cdcwb.formats.records.RecordFormat.scanned`."""
        return windows(stream, start, stop, framing.mode, heads=True)

    def find_start(self, stream: Stream, framing: Framing, start: int, stop: int) -> int:
        """See :meth:`cdcwb.formats.records.RecordFormat.find_start`."""
        return first_start(stream, start, stop, framing.mode)

    def scan(self, found: FirstPass, stream: Stream, segments: Segments, options: Options) -> int:
        """See :meth:`cdcwb.formats.records.RecordFormat.scan`. Raises CaptureError for a raw trail among texts."""
        assert isinstance(segments, TextWindow)
        first, base = stream.file_at(segments.base), segments.base
        last = stream.file_at(base + int(segments.end[-1]) - 1) if len(segments.records.lines.role) else -1
        for index in range(first, last + 1):
            at = stream.starts[index] - base
            if at >= 0 and is_raw_trail(segments.buffer[at : at + _SIGNED].tobytes()):
                sentence = "raw trail file among Logdump texts, which are not one capture: load them one by one"
                raise CaptureError(sentence, path=stream.files[index].path)
        return planning.scan(found, stream, segments, options)

    def check(self, plan: Plan, run: Run) -> None:
        """Notes records with one position."""
        shared: TrailContext = plan.shared
        sections = planning.repeated_sections(shared)
        if not len(sections):
            return
        edges = np.append(shared.at, np.iinfo(np.int64).max)
        first, after = edges[sections], edges[sections + 1]
        ends = [*(split.start for split in plan.splits[1:]), edges[-1]]
        splits = zip(plan.splits, ends, strict=True)
        tasks = [(one.start, one.stop) for one, end in splits if ((first < end) & (after > one.start)).any()]
        looked = partial(planning.fingerprints, plan.files, plan.framing.mode, shared, sections)
        planning.note_repeats(shared, run(looked, tasks))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :meth:`cdcwb.formats.dissector.Format.files`."""
        shape = RAW_TRAIL if plan.framing.mode.raw else LOGDUMP
        return [{**row, "shape": shape} for row in super().files(plan)]

    # --- reading ------------------------------------------------------------------------------------------------------

    def reader(self, plan: Plan, stream: Stream, state: TrailState) -> LogdumpReader:
        """See :meth:`cdcwb.formats.records.RecordFormat.reader`."""
        return LogdumpReader(plan, stream, state)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`."""
        return request_schema(column_types(plan.shared.versions, request), request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`~cdcwb.formats.goldengate.contents.typed_rows`."""
        return typed_rows(self.read(plan, split, wanted_for(request)), self.table_schema(plan, request))

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every version, in order of appearance; ``first_position`` is null."""
        return pa.Table.from_pylist([version.to_row() for version in plan.shared.versions], schema=TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Problems of definitions, and of truncated files; and that the layout of raw trails was not checked."""
        rows = [problem_row(Problem.INFERRED, _UNTRIED)] if plan.framing.mode.raw else []
        for version in plan.shared.versions:
            for code, sentence in version.definition.problems if version.definition is not None else ():
                place: dict[str, Any] = {}
                if version.has_event:
                    file = plan.files[version.file_index].path
                    place = {"file": file, "offset": version.offset, "length": version.length}
                rows.append(problem_row(code, sentence, table=version.full_name, **place))
        return [*rows, *super().problems(plan)]

    # --- one record ---------------------------------------------------------------------------------------------------

    def describe(self, plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Field, Any, str, bool]:
        """See :meth:`cdcwb.formats.records.RecordFormat.describe`."""
        assert isinstance(segments, TextWindow)
        reader = LogdumpReader(plan, stream, plan.splits[-1].state)
        _, columns = reader.columns(segments, np.array([at]), EVERYTHING)
        row = {name: values[0].as_py() for name, values in columns.items() if values[0].is_valid}
        number = int(segments.chosen[np.cumsum(segments.record)[at] - 1])
        version = int(reader.known.version[number])
        found = plan.shared.versions[version] if version >= 0 else None
        definition = found.definition if found is not None else None
        record = segments.buffer[segments.start[at] : segments.end[at]].tobytes()
        bodies, reading = plan.shared.bodies[int(reader.known.file[number])], plan.framing.mode
        if reading.raw:
            from cdcwb.formats.goldengate.trail import dissect_frame

            tree = dissect_frame(record, definition, bodies, reading)
        else:
            tree = dissect(record, definition, bodies, reading)
        if found is not None and definition is not None:
            note = f"decoded with table version {found.table_version} of {found.full_name} ({found.origin})"
        else:
            note = _UNDEFINED if row.get("before") or row.get("after") else ""
        return tree, row, note, definition is not None or not note


_UNTRIED: Final = (
    "raw trail files are read by a layout from public facts and from the bytes that Logdump prints, which was never "
    "checked against a complete real trail"
)


def _checked(head: bytes) -> str | None:
    """What of the first bytes of a raw trail checks out; None if nothing does."""
    from cdcwb.formats.goldengate.trail import valid_frames

    count, order = valid_frames(head)
    records = plural(count, "record")
    return f"lengths, tokens and trailers of {records} in its first bytes check out, {order}-endian" if count else None


def _refusal(path: str) -> CaptureError:
    """Why a raw trail is not read, and what to do."""
    sentence = "raw trail file, of which no record checks out: it is encrypted, damaged, or of an unknown layout"
    advice = tuple(logdump_script(path).splitlines())
    return CaptureError(f"{sentence}; convert it to text with Logdump:", path=path, advice=advice)
