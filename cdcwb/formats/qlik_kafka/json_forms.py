"""Which message a JSON object is (docs/formats/qlik-kafka.md §1.2)."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from cdcwb.formats.json_text import Element, parse
from cdcwb.formats.qlik_kafka.row_meanings import (
    IMAGES,
)
from cdcwb.words import visible

__all__ = ["Form", "called", "form_of"]


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
