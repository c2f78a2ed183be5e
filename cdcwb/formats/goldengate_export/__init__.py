"""The format ``goldengate-export``: GoldenGate's JSON messages and XML files (docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.containers import detect
from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.message_files import Container, locate
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import EVERYTHING, Inspection, Pairing, TableRequest, Wanted, detected_row
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate.contents import column_types, typed_rows, wanted_for
from cdcwb.formats.goldengate_export.events import decode, event_of, note, record_of, times_of
from cdcwb.formats.goldengate_export.table import FirstPass, Version, versions_from
from cdcwb.formats.goldengate_export.tree import json_tree, xml_tree
from cdcwb.formats.goldengate_export.xml import event_of_piece, evidence_of, iter_pieces
from cdcwb.formats.json_messages import JsonMessages
from cdcwb.formats.json_values import CutOff
from cdcwb.formats.messages.format import ENOUGH, Batches, MessagePlan, Options, first_messages
from cdcwb.formats.moments import Zone, parse_zone
from cdcwb.formats.requests import request_schema, select
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["GoldenGateExport"]

_HEAD: Final = 1 << 16
_DECLARED: Final = re.compile(rb"<\?xml[^<>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"'][^<>]*>")
_JOINED: Final = re.compile(rb"\}\s*\{")
_ONE_EACH: Final = "several objects in a message are not read: set the handler's mode to op, which writes one"
_NO_ZONE: Final = "times of JSON and XML exports have no zone; give it with the option time_zone"


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture is read."""

    given: dict[str, str] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)

    @property
    def zone(self) -> Zone | None:
        """The zone of printed times; None if it is unknown."""
        return parse_zone(self.given["time_zone"]) if "time_zone" in self.given else None


class GoldenGateExport(JsonMessages):
    """Reads GoldenGate's JSON messages and XML files (docs/formats/goldengate.md §8)."""

    name = "goldengate-export"
    owner = "GoldenGate's"
    pairing = Pairing.TRANSACTION
    shows_keys = True
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type: ClassVar[Any] = Plan
    own_options: Mapping[str, str] = {
        "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    }

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`."""
        checked = super().parse_options(options)
        if checked.given.get("time_zone", "").lower() == "auto":
            del checked.given["time_zone"]
        if "time_zone" in checked.given:
            parse_zone(checked.given["time_zone"])
        return checked

    # --- files

    def probe(self, path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
        """What a file is; ``limit``: bytes of a compressed file that are unpacked, None: all. An XML file is a
        container of the kind ``xml``, whose setting ``encoding`` is the one that it declares."""
        with open_source(path, "binary", limit) as source:
            head = source.read(0, _HEAD).tobytes()
            if evidence := evidence_of(head):
                declared = _DECLARED.search(head)
                settings = {"encoding": declared[1].decode("ascii")} if declared else {}
                made = Container(path, "xml", "byte", source.size, settings=settings, evidence=evidence)
                return replace(made, compression=source.compression, problem=source.problem)
        return detect.probe(path, options, limit)

    def beginning(self, path: str, given: Mapping[str, Any]) -> tuple[Container, Messages | None]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.beginning`."""
        found = self.probe(path, given, ENOUGH)
        return found, None if found.kind == "xml" else first_messages(found)

    def count(self, messages: Messages, schema: str | None, options: Mapping[str, Any]) -> tuple[int, int, bool]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.count`. The begin of a message counts."""
        values = [value for value in messages.value.to_pylist() if value is not None]
        return sum(map(_is_message, values)), len(values), True

    # --- messages

    def bodies(self, value: bytes, remarks: list[str]) -> tuple[list[Any], list[int]]:
        """See :meth:`JsonMessages.bodies`."""
        try:
            return [decode(value, remarks)], [len(value)]
        except ValueError as reason:
            is_joined = not isinstance(reason, CutOff) and _JOINED.search(value)
            return [ValueError(f"{reason}; {_ONE_EACH}") if is_joined else reason], [len(value)]

    def event(self, body: Mapping[str, Any], options: Mapping[str, str]) -> Mapping[str, Any]:
        """See :meth:`JsonMessages.event`."""
        return event_of(record_of(body))

    def batch(self, plan: Plan, rows: list[dict[str, Any]], given: Mapping[str, Any], wanted: Wanted) -> pa.RecordBatch:
        """See :meth:`JsonMessages.batch`; the times of all events are read at once."""
        texts = [row.get("time") for row in rows]
        times = times_of(texts, plan.zone)
        for at in np.flatnonzero(times.invalid).tolist():
            note(rows[at], Problem.VALUE, f"expected a time, found {texts[at]!r:.60}")
        for at in times.doubtful.tolist():
            sentence = f"{texts[at]} is ambiguous or missing in its time zone; the earlier one is used"
            note(rows[at], Problem.TIME_ZONE, sentence)
        return super().batch(plan, rows, {**given, "changed_at": times.values}, wanted)

    # --- XML

    def rows_of(
        self, container: Container | None, batches: Batches, own: Mapping[str, str]
    ) -> Iterator[list[dict[str, Any]]]:
        """See :meth:`JsonMessages.rows_of`."""
        if container is None or container.kind != "xml":
            yield from super().rows_of(container, batches, own)
            return
        with open_source(container.path, "binary", size=container.size) as source:
            for pieces in iter_pieces(source, container.settings.get("encoding")):
                yield [event_of_piece(piece, 0) for piece in pieces]

    def _xml_events(self, plan: Plan, index: int, wanted: Wanted, begin: int = 0) -> Iterator[pa.RecordBatch]:
        """The events of a file, from the batch with this byte on."""
        container = plan.containers[index]
        given: dict[str, Any] = {"file": container.path, "file_index": index, "offset_unit": "byte", "raw": None}
        with open_source(container.path, "binary", size=container.size) as source:
            for pieces in iter_pieces(source, container.settings.get("encoding")):
                if not pieces or pieces[-1].stop <= begin:
                    continue
                first = pieces[0].start
                given["offset"] = pa.array([one.start for one in pieces])
                given["length"] = pa.array([one.stop - one.start for one in pieces])
                if wanted.raw:
                    text = source.read(first, pieces[-1].stop).tobytes()
                    given["raw"] = pa.array([text[one.start - first : one.stop - first] for one in pieces])
                rows = [self.texts(event_of_piece(piece, index)) for piece in pieces]
                yield from select(self.batch(plan, rows, given, wanted), wanted)

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split."""
        for is_xml, some in groupby(plan.splits[split], lambda part: plan.containers[part[0]].kind == "xml"):
            if is_xml:
                for index, _, _ in some:
                    yield from self._xml_events(plan, index, wanted)
            else:
                yield from super().read(replace(plan, splits=[list(some)]), 0, wanted)

    # --- tables

    def scan(self, read: Iterator[tuple[str, list[dict[str, Any]]]]) -> FirstPass:
        """See :class:`FirstPass`."""
        found = FirstPass()
        for path, rows in read:
            found.take(path, rows)
        return found

    def conclude(self, plan: Plan, results: Iterable[FirstPass], options: Options) -> None:
        """Adds versions, facts and what was detected about times."""
        found = FirstPass()
        for one in results:
            found.merge(one)
        if plan.name is not None and options.mode == "FAILFAST" and found.malformed is not None:
            raise MalformedRecordError(found.malformed, path=plan.name)
        plan.versions = versions_from(found)
        plan.facts |= {"records": found.records, "table_versions": len(plan.versions)}
        if "time_zone" in plan.given:
            plan.detected.append(detected_row("time_zone", plan.given["time_zone"], "given as an option", True))
        elif found.unzoned:
            scopes = [path or "capture" for path in found.unzoned]
            plan.detected += [detected_row("time_zone", "unknown", _NO_ZONE, False, scope) for scope in scopes]
            plan.facts["changed_at"] = f"null in {plural(len(scopes), 'file')}: {_NO_ZONE}"

    def table_versions(self, plan: Plan) -> pa.Table:
        """See :meth:`cdcwb.formats.dissector.Format.table_versions`."""
        return super(JsonMessages, self).table_versions(plan)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """The location of a row, then ``before`` and ``after`` as structures of typed columns."""
        return request_schema(column_types(plan.versions, request), request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns."""
        return typed_rows(self.read(plan, split, wanted_for(request)), self.table_schema(plan, request))

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        return typed_rows(self.read_rows(plan, batches, wanted_for(request)), self.table_schema(plan, request))

    # --- one record

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`cdcwb.formats.dissector.Format.inspect`."""
        checked = self.parse_options(options)
        container = self.probe(path, checked.container)
        plan = Plan(containers=[container], splits=[], given=checked.given)
        if container.kind == "xml":
            if not 0 <= offset < container.size:
                raise CaptureError(f"the file has {plural(container.size, 'byte')}", path=path, offset=offset)
            events = next(self._xml_events(plan, 0, EVERYTHING, offset))
        else:
            where = Where(path, 0, container.unit)
            events = self.events(plan, None, locate(container, offset), where, EVERYTHING, None)
        ends = pc.add(events["offset"], events["length"]).to_numpy()
        at = min(int(np.searchsorted(ends, offset, side="right")), len(ends) - 1)
        row = {name: value for name, value in events.slice(at, 1).to_pylist()[0].items() if value is not None}
        record = row.get("raw") or b""
        tree = xml_tree(record) if container.kind == "xml" else json_tree(record)
        return Inspection(path, row["offset"], row["length"], record, tree, row, "")


def _is_message(value: bytes) -> bool:
    """Whether a value is a message of GoldenGate's, or the begin of one."""
    try:
        body = decode(value, [])
        return bool(isinstance(body, dict) and record_of(body))
    except CutOff:
        return b'"op_type"' in value
    except ValueError:
        return False
