"""One message of a capture as a tree of fields. It is apart from the decoder because no reader needs it.

A field's bytes are its name, its value, the comma that follows and the white space before it. An object begins with the
leaf ``opening`` and ends with ``closing``, so that every byte is in one leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.formats import messages as containers
from cdcwb.formats.avro import anatomy, parse_schema
from cdcwb.formats.base import EVERYTHING, Field, Inspection
from cdcwb.formats.debezium.decode import framed_id, is_json
from cdcwb.formats.debezium.events import events_of
from cdcwb.formats.debezium.layout import ENVELOPE, OTHERS, SOURCE, TRANSACTION
from cdcwb.formats.debezium.plan import Options, Plan, make_plan
from cdcwb.formats.json_text import Element, Json, parse
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.messages.topics import Where
from cdcwb.model import Problem

__all__ = ["inspect_record"]

Images = Mapping[str, Mapping[str, str | None] | None]

_NEAR: Final = 64 << 20  # bytes of a file that are looked through for its table versions
_MEANINGS: Final[dict[str, Mapping[str, str]]] = {
    "": {**OTHERS, **TRANSACTION, **ENVELOPE},
    "source": SOURCE,
    "transaction": TRANSACTION,
}


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The message (or run of other bytes) that holds ``offset`` of the decompressed file, or the row ``offset`` of a
    container that counts rows. Raises CaptureError where the file ends before ``offset``."""
    container = containers.probe(path, options.container)
    if not 0 <= offset < container.extent:
        unit = "bytes" if container.unit == "byte" else "rows"
        raise CaptureError(f"the file has {container.extent} {unit}", path=path, offset=offset)
    messages = containers.locate(container, offset)
    plan = make_plan([path], replace(options, mode="PERMISSIVE"))
    events = events_of(messages, Where(path, 0, container.unit), plan.reading(container), EVERYTHING)
    event = {name: value for name, value in events.to_pylist()[0].items() if value is not None}
    start, length = int(messages.offset[0]), int(messages.length[0])
    if messages.state[0]:
        there = messages.source[0].as_py() or b""
        reason = messages.reasons.get(0, "")
        return Inspection(
            path, start, length, there, Field(str(event["kind"]), 0, len(there), there, None, reason), event, reason
        )
    value = messages.value[0].as_py()
    images = {name: dict(event[name]) if name in event else None for name in ("before", "after")}
    field = _field(value, images, plan, container.schema)
    version = event.get("table_version")
    note = "" if version is None else f"decoded with table version {version}"
    problems = event.get("problems")
    if problems and not any(one.problem for one in field.walk()):
        field = replace(field, problem=problems[0]["code"], meaning=f"{field.meaning}; {problems[0]['detail']}")
    return Inspection(path, start, length, value or b"", field, event, note)


def _field(value: bytes | None, images: Images, plan: Plan, bare: str | None) -> Field:
    if value is None:
        said = "no value: a compacted topic forgets the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    if bare is None and is_json(value):
        return _json(value, images)
    identifier = framed_id(value) if bare is None else None
    schema = bare if identifier is None else plan.schemas.get(identifier)
    if identifier is None and bare is None:
        return Field("message", 0, len(value), value, None, "neither JSON nor a framed message", (), Problem.MALFORMED)
    frame: tuple[Field, ...] = ()
    if identifier is not None:
        frame = (
            Field("magic", 0, 1, value[:1], "0", "begin of Confluent's frame"),
            Field("schema id", 1, 4, value[1:5], str(identifier), "the schema in the registry"),
        )
    at = sum(one.length for one in frame)
    if schema is None:
        rest = Field(
            "undecoded", at, len(value) - at, value[at:], None, "the schema is not known", (), Problem.NO_REGISTRY
        )
    else:
        rest = _meant(anatomy(parse_schema(schema), value, at), "")
    return Field("message", 0, len(value), value, None, "a message in Avro", (*frame, rest))


def _meant(field: Field, section: str) -> Field:
    """A field of an Avro message with what Debezium's fields mean."""
    said = _MEANINGS.get(section, {}).get(field.name)
    inner = field.name if field.name in ("source", "transaction", "before", "after") else section
    children = tuple(_meant(child, inner) for child in field.children)
    return replace(field, children=children, meaning=f"{said}; {field.meaning}" if said else field.meaning)


def _json(value: bytes, images: Images) -> Field:
    parsed = parse(value, True)
    if parsed.root is None or parsed.root.kind != "object":
        why = (
            parsed.damage.sentence if parsed.damage else f"expected an object, found {parsed.root and parsed.root.kind}"
        )
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    return _Tree(value, parsed, images).message(parsed.root)


class _Tree:
    """Makes the fields of one message in JSON."""

    def __init__(self, value: bytes, parsed: Json, images: Images) -> None:
        self.value, self.parsed, self.images = value, parsed, images

    def message(self, root: Element) -> Field:
        children = self.inside(root, "")
        rest, at, damage = self.value[self.parsed.rest :], self.parsed.rest, self.parsed.damage
        if damage is not None:
            code = Problem.TRUNCATED if is_cut_off(self.value) else Problem.MALFORMED
            children.append(Field("unreadable", at, len(rest), rest, None, damage.sentence, (), code))
        elif rest:
            children.append(Field("rest", at, len(rest), rest, None, "not shown: there are too many fields"))
        return Field("message", 0, len(self.value), self.value, None, "a message in JSON", tuple(children))

    def leaf(self, name: str, start: int, stop: int, meaning: str) -> Field:
        return Field(name, start, stop - start, self.value[start:stop], None, meaning, quiet=True)

    def inside(self, element: Element, section: str) -> list[Field]:
        """The parts of an object or array: opening, fields, closing."""
        parts = [self.leaf("opening", element.start, element.inner, "name and opening bracket")]
        parts += [self.field(child, at, section) for at, child in enumerate(element.children, 1)]
        end = element.children[-1].stop if element.children else element.inner
        if end < element.stop:
            parts.append(self.leaf("closing", end, element.stop, "closing bracket"))
        return parts

    def field(self, element: Element, number: int, section: str) -> Field:
        name = f"item {number}" if element.name is None else element.name
        meaning = _MEANINGS.get(section, {}).get(name, "")
        value, problem = element.text, None
        children: tuple[Field, ...] = ()
        image = self.images.get(section)
        if image is not None:
            value, meaning = self.column(name, element, image)
        if element.kind in ("object", "array") and element.text is None:
            inner = "" if name == "payload" else name if not section else f"{section}.{name}"
            children = tuple(self.inside(element, inner))
        if not element.followed:
            meaning, problem = f"{meaning}; no other field follows the comma", Problem.JSON_SYNTAX
        raw = self.value[element.start : element.stop]
        return Field(name, element.start, len(raw), raw, value, meaning, children, problem)

    @staticmethod
    def column(name: str, element: Element, image: Mapping[str, Any]) -> tuple[str | None, str]:
        """Value and meaning of a column, as the row has it."""
        if name not in image:
            return element.text, "a column whose value was not captured"
        value = image[name]
        if value is None:
            return None, "a column: NULL"
        return value, "a column" if value == element.text else f"a column, written as {element.text or element.kind}"
