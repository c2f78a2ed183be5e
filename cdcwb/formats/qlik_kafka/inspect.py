"""One message of a capture, found by its place, without reading all of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection
from cdcwb.formats.files import list_files
from cdcwb.formats.qlik_kafka.events import events_of
from cdcwb.formats.qlik_kafka.plan import Options, Plan, make_plan
from cdcwb.formats.qlik_kafka.tree import dissect
from cdcwb.formats.source import folders_of, info_of, same_file
from cdcwb.model import Problem

__all__ = ["inspect_record"]

_NEAR: Final = 64 << 20  # bytes that are looked through for metadata


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The message (or run of other bytes) that holds ``offset`` of the decompressed file, or the row ``offset`` of a
    container that counts rows.

    Its metadata is looked for in the same file, then in the files beside it, as far as they are not too large. Raises
    CaptureError where the file ends before ``offset``.
    """
    container = detect.probe(path, options.container)
    messages = message_files.locate(container, offset)
    options = replace(options, mode="PERMISSIVE")  # whatever else stands there
    plan = make_plan([path], options)
    inspection, waits = _inspect(container, messages, plan)
    others = _beside(path) if waits else []
    if others:
        inspection, _ = _inspect(container, messages, make_plan([*others, path], options))
    return inspection


def _beside(path: str) -> list[str]:
    """The other files of the folder, if they can be looked through quickly."""
    names = [name for name in list_files(folders_of(path)[0]) if not same_file(name, path)]
    return names if sum(info_of(name).size for name in names) <= _NEAR else []


def _inspect(container: Container, messages: Messages, plan: Plan) -> tuple[Inspection, bool]:
    versions = plan.lookup()
    where = Where(container.path, 0, container.unit)
    events = events_of(messages, where, plan.settings, versions, EVERYTHING, container.schema)
    event = {name: value for name, value in events.to_pylist()[0].items() if value is not None}
    offset, length = int(messages.offset[0]), int(messages.length[0])
    if messages.state[0]:
        there = messages.source[0].as_py() or b""
        reason = messages.reasons.get(0, "")
        field = Field(str(event["kind"]), 0, len(there), there, None, reason)
        return Inspection(container.path, offset, length, there, field, event, reason), False
    value = messages.value[0].as_py()
    version = next((one for one in plan.versions if one.table_version == event.get("table_version")), None)
    field = dissect(messages, plan.settings, versions, container.schema, event)
    codes = {problem["code"] for problem in event.get("problems", ())}
    waits = bool(codes & {str(Problem.NO_SCHEMA)})
    if version is not None:
        note = f"decoded with table version {version.table_version} ({version.origin})"
    elif waits:
        note = "the metadata message of its schema was not found; give its location with the option metadata"
    else:
        note = ""
    return Inspection(container.path, offset, length, value or b"", field, event, note), waits
