"""One message of a capture as a tree of fields. It is apart from the decoder because no reader needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.debezium.events import events_of
from cdcwb.formats.debezium.layout import ENVELOPE, OTHERS, SOURCE, TRANSACTION
from cdcwb.formats.debezium.plan import Options, make_plan
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection
from cdcwb.formats.messages.connect import message_tree

__all__ = ["inspect_record"]

_MEANINGS: Final[dict[str, Mapping[str, str]]] = {
    "": {**OTHERS, **TRANSACTION, **ENVELOPE},
    "source": SOURCE,
    "transaction": TRANSACTION,
}


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The message (or run of other bytes) that holds ``offset`` of the decompressed file, or the row ``offset`` of a
    container that counts rows. Raises CaptureError where the file ends before ``offset``."""
    container = detect.probe(path, options.container)
    messages = message_files.locate(container, offset)
    permissive = replace(options, mode="PERMISSIVE")  # whatever else is in the file
    plan = make_plan([path], permissive, lambda work, tasks: [work(task) for task in tasks])
    events = events_of(messages, Where(path, 0, container.unit), plan.reading(container), EVERYTHING)
    event = {name: value for name, value in events.to_pylist()[0].items() if value is not None}
    start, length = int(messages.offset[0]), int(messages.length[0])
    if messages.state[0]:
        there, reason = messages.source[0].as_py() or b"", messages.reasons.get(0, "")
        damage = Field(str(event["kind"]), 0, len(there), there, None, reason)
        return Inspection(path, start, length, there, damage, event, reason)
    value = messages.value[0].as_py()
    images = {name: dict(event[name]) for name in ("before", "after") if name in event}
    field = message_tree(value, plan.schemas, _Meanings(images), container.schema)
    version, problems = event.get("table_version"), event.get("problems")
    if problems and not any(one.problem for one in field.walk()):
        field = replace(field, problem=problems[0]["code"], meaning=f"{field.meaning}; {problems[0]['detail']}")
    note = "" if version is None else f"decoded with table version {version}"
    return Inspection(path, start, length, value or b"", field, event, note)


@dataclass(frozen=True)
class _Meanings:
    """What fields mean: those of Debezium, and columns as the rows ``images`` have them."""

    images: Mapping[str, Mapping[str, Any]]

    def __call__(self, section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
        image = self.images.get(section)
        if image is None or not kind:
            return text, _MEANINGS.get(section, {}).get(name, "")
        if name not in image:
            return text, "a column whose value was not captured"
        value = image[name]
        if value is None:
            return None, "a column: NULL"
        return value, "a column" if value == text else f"a column, stored as {text or kind}"
