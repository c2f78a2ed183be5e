"""The format ``goldengate``: Oracle GoldenGate trail records as Logdump text or in raw trail files
(docs/formats/goldengate.md)."""

from __future__ import annotations

import hashlib
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
    run_here,
)
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import plan as planning
from cdcwb.formats.goldengate.definitions import split_name
from cdcwb.formats.goldengate.events import LogdumpReader
from cdcwb.formats.goldengate.layout import COMPRESSED, IO_TYPES, is_raw_trail, logdump_script
from cdcwb.formats.goldengate.plan import OPTIONS, FirstPass, Options, TrailContext, TrailState
from cdcwb.formats.goldengate.segments import HEAD, TextWindow, first_start, is_logdump, windows
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.formats.goldengate.values import column_types, typed_rows, wanted_for
from cdcwb.formats.goldengate.versions import Lookup, inferred
from cdcwb.formats.records import FileEntry, Framing, Plan, Scan, Segments, Split, Stream
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

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; the files of definitions have to be there."""
        self.parse_options(options).side_definitions()

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
                from cdcwb.formats.goldengate.trail import valid_frames

                count, order = valid_frames(head)
                evidence = [f"{path}: the signature of a trail's file header"]
                if not count:
                    return Recognition(1.0, evidence, RAW_TRAIL, _refusal(path))
                return Recognition(1.0, [*evidence, _checked(count, order)], RAW_TRAIL)
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
            return Framing(options.reading)
        from cdcwb.formats.goldengate.trail import valid_frames

        count, order = valid_frames(head)
        path = stream.files[first].path
        if not count:
            raise _refusal(path)
        row = detected_row("layout", RAW_TRAIL, f"{_checked(count, order)}; {_UNTRIED}", False, path)
        return Framing(options.reading._replace(raw=True), detected=(row,))

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
        return planning.scan(found, stream, segments)

    def finish(self, plan: Plan, scans: Sequence[Scan], options: Options) -> list[TrailState]:
        """See :meth:`cdcwb.formats.records.RecordFormat.finish`."""
        return planning.finish(plan, scans, options)

    def make_plan(self, paths: Sequence[str], options: Options, run: Run) -> Plan:
        """See :meth:`cdcwb.formats.records.RecordFormat.make_plan`."""
        plan = super().make_plan(paths, options, run)
        self._look_again(plan, run)
        return plan

    def _look_again(self, plan: Plan, run: Run) -> None:
        """What needs a second look at some splits: records with one position, and tables without a definition."""
        shared: TrailContext = plan.shared
        sections = planning.repeated_sections(shared)
        if len(sections):
            edges = np.append(shared.at, np.iinfo(np.int64).max)
            tasks = [
                (split.start, split.stop)
                for split in plan.splits
                if ((edges[sections] < max(split.reach, split.stop)) & (edges[sections + 1] > split.start)).any()
                or split.reach < 0
            ]
            planning.note_repeats(
                shared, run(partial(planning.fingerprints, plan.files, plan.framing.mode, shared, sections), tasks)
            )
        unknown = [
            name
            for name in sorted({name for split in plan.splits for name in split.state.tables})
            if not shared.lookup.defined(name)
        ]
        if not unknown:
            return
        widths = dict.fromkeys(unknown, 0)
        if shared.options.images:
            numbers = [number for number, split in enumerate(plan.splits) if not split.state.tables.isdisjoint(unknown)]
            text = plan.to_text()
            for found in run(partial(_widths, text, frozenset(unknown)), numbers):
                for name, width in found.items():
                    widths[name] = max(widths[name], width)
        versions = [*shared.versions]
        for name, width in widths.items():
            version = inferred(*split_name(name), [f"c{index}" for index in range(width)])
            if version.key not in {one.key for one in versions}:
                versions.append(version)
        shared.lookup = Lookup(versions, shared.lookup.entries, shared.lookup.places)
        plan.facts["table_versions"] = len(versions)
        evidence = f"{plural(len(unknown), 'table')} without a definition: columns are named by their index, c0, c1 …"
        evidence += " and value types are inferred from the bytes; give a DEFGEN file with the option definitions"
        plan.detected.append(detected_row("definitions", "inferred", evidence, False))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :meth:`cdcwb.formats.dissector.Format.files`."""
        shape = RAW_TRAIL if plan.framing.mode.raw else LOGDUMP
        return [{**row, "shape": shape} for row in super().files(plan)]

    def context(self, plan: Plan, split: Split, last: int) -> Any:
        """See :meth:`cdcwb.formats.records.RecordFormat.context`."""
        shared: TrailContext = plan.shared
        stop = max(split.stop, split.reach) if split.reach >= 0 else np.iinfo(np.int64).max
        starts = Stream(plan.files).starts
        first = int(np.searchsorted(starts, split.start, side="right")) - 1
        sections = shared.file_of(np.array([split.start, stop]))
        fallback = [(name, shared.lookup.fallback(split_name(name), stop)) for name in sorted(split.state.tables)]
        repeats = [one[(one >= split.start) & (one < stop)].tolist() for one in (shared.repeated, shared.second)]
        known = [
            [repr(shared.options), repr(shared.files[max(int(sections[0]), 0) : int(sections[1]) + 1])],
            [repr([shared.bodies[one], shared.shown.get(one)]) for one in range(first, last + 1)],
            [repeats, sorted((base, repr(one)) for base, one in split.state.windows.items())],
            [shared.lookup.digest(stop), fallback],
        ]
        return hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest()

    # --- reading ------------------------------------------------------------------------------------------------------

    def reader(self, plan: Plan, stream: Stream, state: TrailState) -> LogdumpReader:
        """See :meth:`cdcwb.formats.records.RecordFormat.reader`."""
        return LogdumpReader(plan, stream, state)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`."""
        return request_schema(column_types(plan.shared.versions, request), request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`~cdcwb.formats.goldengate.values.typed_rows`."""
        types = column_types(plan.shared.versions, request)
        return typed_rows(self.read(plan, split, wanted_for(request)), request, types)

    def table_versions(self, plan: Plan) -> pa.Table:
        """Every version, in order of appearance; ``first_position`` is null."""
        return pa.Table.from_pylist([version.to_row() for version in plan.shared.versions], schema=TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Problems of definitions, and of truncated files; and that the layout of raw trails was not checked."""
        rows = [problem_row(Problem.INFERRED, _UNTRIED)] if plan.framing.mode.raw else []
        for version in plan.shared.versions:
            for code, sentence in version.definition.problems if version.definition is not None else ():
                place: dict[str, Any] = {}
                if version.file_index >= 0:
                    file = plan.files[version.file_index].path
                    place = {"file": file, "offset": version.offset, "length": version.length}
                rows.append(problem_row(code, sentence, table=version.full_name, **place))
        return [*rows, *super().problems(plan)]

    # --- one record ---------------------------------------------------------------------------------------------------

    def surroundings(self, files: list[FileEntry], options: Options, near: int) -> Plan:
        """See :meth:`cdcwb.formats.records.RecordFormat.surroundings`."""
        plan = super().surroundings(files, options, near)
        self._look_again(plan, run_here)
        return plan

    def describe(self, plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Field, Any, str, bool]:
        """See :meth:`cdcwb.formats.records.RecordFormat.describe`."""
        assert isinstance(segments, TextWindow)
        reader = LogdumpReader(plan, stream, plan.splits[-1].state)
        _, columns = reader.columns(segments, np.array([at]), EVERYTHING)
        row = {name: values[0].as_py() for name, values in columns.items() if values[0].is_valid}
        known = reader.assigned(segments)
        number = int(segments.chosen[np.cumsum(segments.record)[at] - 1])
        version = int(known.version[number])
        found = plan.shared.versions[version] if version >= 0 else None
        definition = found.definition if found is not None else None
        record = segments.buffer[segments.start[at] : segments.end[at]].tobytes()
        bodies, reading = plan.shared.bodies[int(known.file[number])], plan.framing.mode
        if reading.raw:
            from cdcwb.formats.goldengate.trail import dissect_frame

            tree = dissect_frame(record, definition, bodies, reading)
        else:
            tree = dissect(record, definition, bodies, reading)
        if found is not None and definition is not None:
            note = f"decoded with table version {found.key} of {found.full_name} ({found.origin})"
        else:
            note = _UNDEFINED if row.get("before") or row.get("after") else ""
        return tree, row, note, definition is not None or not note


_UNTRIED: Final = (
    "raw trail files are read by a layout from public facts and from the bytes that Logdump prints, which was never "
    "checked against a complete real trail"
)


def _checked(count: int, order: str) -> str:
    """What of the first bytes of a raw trail checks out."""
    return f"lengths, tokens and trailers of {plural(count, 'record')} in its first bytes check out, {order}-endian"


def _refusal(path: str) -> CaptureError:
    """Why a raw trail is not read, and what to do."""
    sentence = "raw trail file, of which no record checks out: it is encrypted, damaged, or of an unknown layout"
    advice = tuple(logdump_script(path).splitlines())
    return CaptureError(f"{sentence}; convert it to text with Logdump:", path=path, advice=advice)


def _widths(text: str, names: frozenset[str], number: int) -> dict[str, int]:
    """The number of columns of tables without a definition, from the indexes in their records of a split."""
    plan = Plan.from_text(text)
    split = plan.splits[number]
    out: dict[str, int] = {}
    with Stream(plan.files) as stream:
        reader = LogdumpReader(plan, stream, split.state)
        for window in windows(stream, split.start, split.stop, plan.framing.mode):
            for name, width in reader.widths(window, names).items():
                out[name] = max(out.get(name, 0), width)
    return out
