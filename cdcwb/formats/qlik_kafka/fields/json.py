"""The field tree of a JSON message (docs/formats/qlik-kafka.md §1.3, §2.1, §3, §4, §7 and §11.1).

A field's bytes are its name, its value, the comma behind it and the white space in front. An object begins with the
leaf ``opening`` (its name and bracket) and ends with ``closing``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cdcwb.formats.base import Field
from cdcwb.formats.json_text import Element, Json, parse
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.qlik_kafka.layout import (
    COLUMN_FACTS,
    ENVELOPE,
    IMAGES,
    LETTERS,
    MASKS,
    METADATA,
    RENAMED,
    Column,
    Meaning,
    Row,
    header,
    image_meaning,
    mask_bytes,
    mask_children,
    mask_meaning,
    row_meaning,
    sequence_children,
)
from cdcwb.model import Problem
from cdcwb.words import visible

__all__ = ["Resolve", "json_message"]


# --- json forms -------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """What a JSON object is: its record type, the object of the message itself, what that is, why it is none of Qlik's
    (else None), and the envelope around it, if it has one."""

    record_type: str
    body: Element
    section: str
    wrong: str | None = None
    envelope: Element | None = None


def called(element: Element | None) -> str:
    """An element by its kind: ``an object``, ``a number``, ``null``, ``nothing``."""
    kind = "nothing" if element is None else element.kind
    return {"null": "null", "nothing": "nothing"}.get(kind, f"{'an' if kind[0] in 'ao' else 'a'} {kind}")


def form_of(root: Element) -> Form:
    """Which of the forms a JSON object is, by its fields."""
    if root.string("magic") == "atMSG":
        return _enveloped(root)
    payload = root.get("payload")
    if payload is not None and payload.children and root.get("schema") is not None and root.get("data") is None:
        return form_of(payload)
    headers, operation = root.get("headers"), root.get("op")
    if headers is not None and headers.kind == "object" and any(root.get(name) is not None for name in IMAGES):
        return _record("DataRecord", root)
    if operation is not None and operation.kind == "string" and root.get("data") is not None:
        return _legacy(root, operation.text or "")
    if root.get("tableStructure") is not None and root.get("schemaId") is not None:
        return Form("MD", root, "metadata")
    names = ", ".join(visible(child.name, 30) for child in root.children[:6])
    return Form("message", root, "unknown", f"a JSON object that is not Qlik's: its fields are {names or 'none'}")


def _enveloped(root: Element) -> Form:
    kind, message = root.string("type"), root.get("message")
    if kind not in ("DT", "MD"):
        found = called(root.get("type")) if kind is None else repr(visible(kind, 40))
        return Form("message", root, "unknown", f"expected the message type DT or MD, found {found}")
    if message is None or message.kind not in ("object", "string"):
        return Form(kind, root, "unknown", f"expected the envelope's message as an object, found {called(message)}")
    if message.kind == "string":
        wrong = _packed(kind, (message.text or "").encode())
        return Form(kind, message, "text") if wrong is None else Form(kind, root, "unknown", wrong)
    return (Form("MD", message, "metadata") if kind == "MD" else _record(kind, message))._replace(envelope=root)


def _packed(kind: str, text: bytes) -> str | None:
    """Why a message stored in its envelope as text or as Base64 is none; None where it is one."""
    if text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        try:
            text = base64.b64decode(text, validate=True)
        except binascii.Error:
            return "expected the envelope's message as an object, found a string"
    found = parse(text)
    if found.damage is not None:
        return f"the text in the envelope: {found.damage.sentence}"
    if found.root is None or found.root.kind != "object":
        return f"expected the envelope's message as an object, found {called(found.root)}"
    return None if kind == "MD" else _record(kind, found.root).wrong


def _record(record_type: str, body: Element) -> Form:
    headers = body.get("headers")
    if headers is None or headers.kind != "object":
        return Form(record_type, body, "unknown", f"expected the headers as an object, found {called(headers)}")
    for name in IMAGES:
        image = body.get(name)
        if image is not None and image.kind not in ("object", "null"):
            return Form(record_type, body, "unknown", f"expected {name} as an object or null, found {called(image)}")
    return Form(record_type, body, "record")


def _legacy(body: Element, letter: str) -> Form:
    for name in ("data", "bu_data", "beforeData"):
        image = body.get(name)
        if image is None or image.kind in ("null", "object"):
            continue
        if image.kind != "array" or any(item.kind != "object" for item in image.children):
            return Form(letter, body, "unknown", f"expected {name} as an array of objects, found {called(image)}")
    return Form(letter, body, "legacy")


# --- json fields ------------------------------------------------------------------------------------------------------

Resolve = Callable[[str], str | None]
"""Gives the text of the Avro schema of a schema id: a messageSchemaId (the dataSchema of its metadata message), the
registry's id in digits, or empty for a value without a frame. None: the id is not known."""


def json_message(value: bytes, resolve: Resolve | None, columns: Sequence[Column] | None) -> Field:
    """The tree of a value that should be a JSON text. Every byte is in one leaf, whatever the bytes are.

    ``columns`` are those of the row, in the order of the masks' bits; None: the keys of the row, in their order.
    """
    parsed = parse(value, True)
    if parsed.root is None or parsed.root.kind != "object":
        why = parsed.damage.sentence if parsed.damage else f"expected an object, found {called(parsed.root)}"
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    form = form_of(parsed.root)
    return _Tree(value, parsed, form, resolve, columns).message()


# --- the tree ---------------------------------------------------------------------------------------------------------

_LEGACY: Final = {
    "task_name": "the replication task",
    "schema": "schema of the table",
    "table": "name of the table",
    "data": "the row; the after image if there is a before image",
    "bu_data": "the before image",
    "beforeData": "the before image",
}
_KINDS: Final = {
    "record": "a data message",
    "metadata": "a metadata message, one version of a table's structure,",
    "legacy": "a data message of Attunity 5",
    "text": "a message stored in its envelope as text",
}


class _Tree:
    """Makes the fields of one parsed message."""

    def __init__(
        self, value: bytes, parsed: Json, form: Form, resolve: Resolve | None, columns: Sequence[Column] | None
    ) -> None:
        assert parsed.root is not None
        self.value, self.parsed, self.form, self.root = value, parsed, form, parsed.root
        self.broken = parsed.damage is not None or form.wrong is not None
        self.unresolved = False
        self.row = self._row(resolve, columns) if form.section == "record" else Row(None, ())

    def _row(self, resolve: Resolve | None, columns: Sequence[Column] | None) -> Row:
        """What the fields of a data message say about each other."""
        body, headers = self.form.body, self.form.body.get("headers")
        assert headers is not None
        images = [_texts(body.get(name)) for name in IMAGES]
        schema_id = None if self.form.envelope is None else self.text(self.form.envelope.get("messageSchemaId"))
        self.unresolved = resolve is not None and bool(schema_id) and resolve(schema_id or "") is None
        known = [(name, None) for name in images[0] or images[1] or ()] if columns is None else columns
        return Row(
            self.text(headers.get("operation")),
            known,
            images[0],
            images[1],
            *(_mask(headers.get(name)) for name in MASKS),
        )

    def text(self, element: Element | None) -> str | None:
        """The text of an element, of an object or array that in the message; None for null and for no element."""
        if element is None or element.text is not None or element.kind == "null":
            return None if element is None else element.text
        return self.value[element.inner - 1 : element.end + element.closed].decode("utf-8", "replace")

    def message(self) -> Field:
        form, damage = self.form, self.parsed.damage
        meaning = form.wrong or f"{_KINDS[form.section]} as JSON"
        if form.envelope is not None and form.wrong is None:
            meaning += " in Qlik's envelope"
        operation = self.row.operation if form.section != "legacy" else LETTERS.get(form.record_type)
        if operation is not None:
            meaning += f": {header('operation', operation)[0]}"
        children = self.inside(self.root, "envelope" if form.body is not self.root else form.section)
        rest = self.value[self.parsed.rest :]
        if damage is not None:  # without a byte where the text ends too early
            said, code = damage.sentence, Problem.TRUNCATED if is_cut_off(self.value) else Problem.MALFORMED
            children.append(Field("unreadable", self.parsed.rest, len(rest), rest, None, said, (), code))
        elif rest:
            said = "the rest, which is not dissected: too many fields"
            children.append(Field("rest", self.parsed.rest, len(rest), rest, None, said))
        problem = Problem.MALFORMED if form.wrong is not None and damage is None else None
        lacks = _lacks(form.body) if form.section == "metadata" and not self.broken else None
        if lacks is not None:
            meaning, problem = lacks, Problem.SCHEMA_TEXT
        return Field(form.record_type, 0, len(self.value), self.value, None, meaning, tuple(children), problem)

    def leaf(self, name: str, start: int, stop: int, value: str | None, meaning: Meaning) -> Field:
        sentence, problem = meaning
        raw = self.value[start:stop]
        return Field(name, start, stop - start, raw, value, sentence, (), None if self.broken else problem)

    def inside(self, element: Element, section: str) -> list[Field]:
        """The parts of an object or array: opening, fields, closing."""
        last = {child.name: at for at, child in enumerate(element.children)}
        parts = [self.leaf("opening", element.start, element.inner, None, ("name and opening bracket", None))]
        for at, child in enumerate(element.children):
            name = f"item {at + 1}" if child.name is None else child.name
            parts.append(self.field(child, name, section, last[child.name] == at or child.name is None))
        end = element.children[-1].stop if element.children else element.inner
        if end < element.stop:
            parts.append(self.leaf("closing", end, element.stop, None, ("closing bracket", None)))
        return parts

    def field(self, element: Element, name: str, section: str, counts: bool) -> Field:
        """The field of one element; ``counts``: no later field has its name."""
        inner, (meaning, problem) = self.describe(element, name, section)
        children: list[Field] = []
        value = element.text
        if element.kind in ("object", "array") and element.text is None:
            children = self.inside(element, inner)
            if inner in ("unknown", "value"):
                value = self.text(element)
        elif counts and section == "headers" and element.text is not None:
            children = self.parts(element, name)
        if self.broken:
            problem = None
        elif not element.followed:
            meaning, problem = f"{meaning}; a comma follows, but no other field or item", Problem.JSON_SYNTAX
        if section == "pair" and value == "NULL":
            value = None
        raw = self.value[element.start : element.stop]
        made = Field(name, element.start, len(raw), raw, value, meaning, tuple(children), problem)
        if counts:
            return made
        return replace(_without_problems(made), meaning=f"{meaning}; a later field of this name is used")

    def parts(self, element: Element, name: str) -> list[Field]:
        """What is inside a header: time and number of a change sequence, the bits of a mask."""
        raw, text = self.value[element.inner : element.end], element.text or ""
        found: Sequence[Field] = ()
        if name == "changeSequence":
            found = sequence_children(text, element.inner, raw)
        elif name in MASKS:
            mask = _mask(element)
            if mask is not None:
                said = "a hexadecimal number, most significant digit first: the last digit has bits 0 to 3"
                digits = self.leaf("digits", element.inner, element.end, text, (said, None))
                found = (digits, *mask_children(name, mask, element.end, self.row))
        if not found:
            return []
        if self.broken:
            found = [part for part in found if part.problem is None]
        opening = self.leaf("opening", element.start, element.inner, None, ("name and opening quote", None))
        closing = self.leaf("closing", element.end, element.stop, None, ("closing quote", None))
        return [opening, *found, closing]

    # --- what a field means

    def describe(self, element: Element, name: str, section: str) -> tuple[str, Meaning]:
        """The section of what is inside a field, and what the field means."""
        match section:
            case "envelope":
                return self.around(element, name)
            case "record":
                return self.part_of_record(element, name)
            case "headers":
                return "unknown", self.header(element, name)
            case "image":
                return "value", (image_meaning(self.row, name, element.kind == "null"), None)
            case "metadata" | "lineage" | "structure":
                inner = {"lineage": "lineage", "tableStructure": "structure", "tableColumns": "columns"}
                return inner.get(name, "unknown"), self.of_metadata(element, name)
            case "columns":
                return "column", self.of_column(element)
            case "column":
                return "unknown", self.of_column_fact(element, name)
            case "legacy" | "pairs" | "pair":
                return self.of_legacy(element, name, section)
        return "unknown", ("", None)

    def around(self, element: Element, name: str) -> tuple[str, Meaning]:
        if element is self.form.body:
            return self.form.section, (ENVELOPE.get(name, "the message"), None)
        if element.kind == "object" and name == "payload":
            return "envelope", ("the message that follows the schema of Kafka Connect", None)
        if name == "messageSchemaId" and not self.text(element):
            return "unknown", ("no metadata message describes this message", None)
        if name == "messageSchemaId" and self.unresolved:
            return "unknown", ("the metadata message of this schema is not in the capture", Problem.NO_SCHEMA)
        return "unknown", (ENVELOPE.get(name, "an unknown field"), None)

    def part_of_record(self, element: Element, name: str) -> tuple[str, Meaning]:
        if name in IMAGES:
            return "image", (row_meaning(self.row.operation, name, element.kind == "null"), None)
        if name == "headers" and element.get("operation") is None:
            return "headers", ("header fields of the change, without an operation", Problem.VALUE)
        if name == "headers":
            return "headers", ("header fields of the change", None)
        return "unknown", header(name, self.text(element))

    def header(self, element: Element, name: str) -> Meaning:
        if name not in MASKS:
            return header(name, self.text(element))
        mask = _mask(element)
        if mask is None and element.kind != "null":
            return f"expected hexadecimal digits, found {visible(element.text, 40)!r}", Problem.MASK
        return mask_meaning(name, mask, self.row), None

    def of_metadata(self, element: Element, name: str) -> Meaning:
        if name == "schemaId" and (element.kind != "string" or not element.text):
            return f"expected a text, found {called(element)}", Problem.SCHEMA_TEXT
        if name in ("tableStructure", "tableColumns") and element.kind != "object":
            return f"expected an object, found {called(element)}", Problem.SCHEMA_TEXT
        return METADATA.get(name, "an unknown field"), None

    def of_column(self, element: Element) -> Meaning:
        if element.kind != "object":
            return f"expected the column's properties, found {called(element)}", Problem.SCHEMA_TEXT
        ordinal, kind = element.get("ordinal"), element.string("type")
        if ordinal is None:
            return "expected an ordinal from 1 on, found none", Problem.SCHEMA_TEXT
        return f"column {visible(ordinal.text, 10)}" + (f", {visible(kind, 30)}" if kind else ""), None

    def of_column_fact(self, element: Element, name: str) -> Meaning:
        if name == "ordinal":
            digits = (element.text or "") if element.kind == "number" else ""
            if not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 1 << 16:
                return f"expected an ordinal from 1 on, found {visible(element.text, 20)!r}", Problem.SCHEMA_TEXT
        return COLUMN_FACTS.get(name, "an unknown field"), None

    def of_legacy(self, element: Element, name: str, section: str) -> tuple[str, Meaning]:
        if section != "legacy":
            if element.kind == "object" and element.name is None:
                return "pair", ("one column", None)
            is_null = element.text is None or element.text == "NULL"
            return "value", ("NULL, written as text in this form" if is_null else "a column of the row", None)
        if name in ("data", "bu_data", "beforeData"):
            return ("pairs" if element.kind == "array" else "pair"), (_LEGACY[name], None)
        if name == "op":
            return "unknown", header("operation", LETTERS.get(element.text or "", element.text))
        if name in RENAMED:
            return "unknown", header(RENAMED[name], self.text(element))
        return "unknown", (_LEGACY.get(name, "an unknown field"), None)


def _without_problems(field: Field) -> Field:
    return replace(field, problem=None, children=tuple(_without_problems(child) for child in field.children))


def _lacks(body: Element) -> str | None:
    """What a metadata message lacks or repeats, so that it describes no table; None where it is whole."""
    if not body.string("schemaId"):
        return "the metadata message has no schemaId"
    structure = body.get("tableStructure")
    columns = None if structure is None else structure.get("tableColumns")
    if columns is None or columns.kind != "object":
        return f"expected tableStructure.tableColumns, found {called(columns)}"
    ordinals = [_text(column.get("ordinal")) for column in {child.name: child for child in columns.children}.values()]
    return "two columns have one ordinal" if len(set(ordinals)) < len(ordinals) else None


def _text(element: Element | None) -> str | None:
    """The text of an element; None for null, where there is no such element, and for objects and arrays."""
    return None if element is None else element.text


def _mask(element: Element | None) -> int | None:
    """The bits of a mask as a number, its text being most significant byte first (§7.2); None where it is none."""
    found = None if element is None or element.text is None else mask_bytes(element.text)
    return None if found is None else int.from_bytes(found, "big")


def _texts(image: Element | None) -> dict[str, str | None] | None:
    """The values of an image as texts; None where there is no image."""
    if image is None or image.kind != "object":
        return None
    return {child.name or "": None if child.kind == "null" else _content(child) for child in image.children}


def _content(element: Element) -> str:
    """The text of an element; of an object or array one that differs where its content does."""
    if element.text is not None:
        return element.text
    return repr((element.kind, [(child.name, child.kind, _content(child)) for child in element.children]))
