"""The field tree of a message of Kafka Connect, in JSON or in Avro.

A field's bytes in JSON are its name, its value, the comma that follows and the white space before it. An object begins
with the leaf ``opening`` and ends with ``closing``, so that every byte is in one leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cdcwb.formats.avro import anatomy, parse_schema
from cdcwb.formats.base import Field
from cdcwb.formats.json_text import Element, Json, parse
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.messages.connect import framed_id, is_json
from cdcwb.model import Problem

__all__ = ["Describe", "message_tree"]

Describe = Callable[[str, str, str | None, str], tuple[str | None, str]]
"""From the section that a field is in (the names of the objects around it), its name, text and kind to its value and
what it means. A ``payload`` is no section."""


def message_tree(value: bytes | None, schemas: Mapping[int, str], describe: Describe, bare: str | None = None) -> Field:
    """The fields of a message; takes any bytes and never raises. ``schemas`` are those of the registry, ``bare`` that
    of a value without a frame."""
    if value is None:
        said = "no value: a tombstone; a compacted topic deletes the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    if bare is None and is_json(value):
        return _json(value, describe)
    identifier = framed_id(value) if bare is None else None
    schema = bare if identifier is None else schemas.get(identifier)
    if identifier is None and bare is None:
        return Field("message", 0, len(value), value, None, "neither JSON nor a framed message", (), Problem.MALFORMED)
    frame: tuple[Field, ...] = ()
    if identifier is not None:
        frame = (
            Field("magic", 0, 1, value[:1], "0", "begin of Confluent's frame"),
            Field("schema id", 1, 4, value[1:5], str(identifier), "the schema in the registry"),
        )
    at = sum(one.length for one in frame)
    said, code = "unknown schema", Problem.NO_REGISTRY
    rest = Field("undecoded", at, len(value) - at, value[at:], None, said, (), code)
    if schema is not None:
        rest = _meant(anatomy(parse_schema(schema), value, at), "", describe)
    return Field("message", 0, len(value), value, None, "a message in Avro", (*frame, rest))


def _meant(field: Field, section: str, describe: Describe) -> Field:
    """A field in Avro, whose type is named already, with what it means."""
    said = describe(section, field.name, None, "")[1] if section else ""
    inner = field.name if section else "."  # the record itself has a name as well
    children = tuple(_meant(child, inner, describe) for child in field.children)
    return replace(field, children=children, meaning=f"{said}; {field.meaning}" if said else field.meaning)


def _json(value: bytes, describe: Describe) -> Field:
    parsed = parse(value, True)
    if parsed.root is None or parsed.root.kind != "object":
        found = parsed.root.kind if parsed.root else "nothing"
        why = parsed.damage.sentence if parsed.damage else f"expected an object, found {found}"
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    return _Tree(value, parsed, describe).message(parsed.root)


class _Tree:
    """Makes the fields of one message in JSON."""

    def __init__(self, value: bytes, parsed: Json, describe: Describe) -> None:
        self.value, self.parsed, self.describe = value, parsed, describe

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
        value, meaning = self.describe(section, name, element.text, element.kind)
        children: tuple[Field, ...] = ()
        problem = None
        if element.kind in ("object", "array") and element.text is None:
            inner = "" if name == "payload" else name if not section else f"{section}.{name}"
            children = tuple(self.inside(element, inner))
        if not element.followed:
            meaning, problem = f"{meaning}; no other field follows the comma", Problem.JSON_SYNTAX
        raw = self.value[element.start : element.stop]
        quiet = section.partition(".")[0] == "schema"  # the same in all messages of a table
        return Field(name, element.start, len(raw), raw, value, meaning, children, problem, quiet)
