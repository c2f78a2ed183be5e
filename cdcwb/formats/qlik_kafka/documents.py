"""JSON messages: which of the wire forms one is, and its parts (docs/formats/qlik-kafka.md)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cdcwb.formats.json_cut import Parts, complete_part
from cdcwb.formats.json_values import MARK, CutOff, parse_json

__all__ = ["MAGIC", "Document", "is_json", "read_document", "read_message"]

MAGIC: Final = "atMSG"

_DATA: Final = frozenset({"data", "beforeData", "headers"})
_LEGACY: Final = frozenset({"op", "data"})
_ENVELOPE: Final = frozenset({"magic", "type", "headers", "messageSchemaId", "messageSchema", "message"})


class Document(NamedTuple):
    """One message. ``record_type``: DT, MD, DataRecord, or the operation letter of the legacy form. ``outer`` are the
    header fields around the data message, ``headers`` its own; ``data`` and ``before`` its images (None: no such
    image); ``body`` is the message itself, for metadata messages all there is. ``problem``: why a metadata message
    cannot be read."""

    record_type: str
    outer: dict[str, Any]
    body: Mapping[str, Any]
    headers: dict[str, Any]
    data: dict[str, Any] | None
    before: dict[str, Any] | None
    problem: str | None = None

    @property
    def is_metadata(self) -> bool:
        """Does it describe a table?"""
        return self.record_type == "MD"

    @property
    def schema_id(self) -> str | None:
        """The id of the metadata message that describes its columns."""
        found = self.outer.get("messageSchemaId")
        return found if isinstance(found, str) and found else None


_IMAGE: Final = (dict, type(None))


def is_json(head: bytes) -> bool:
    """Do these first bytes of a value begin a JSON object? White space and a byte order mark may stand before it."""
    return head.lstrip(MARK + b" \t\r\n")[:1] == b"{"


_ROW: Final[Parts] = {None: {}}
_BODY: Final[Parts] = {"headers": {}, "data": _ROW, "beforeData": _ROW, "bu_data": _ROW}
_METADATA: Final[Parts] = {"lineage": {}}
_PARTS: Final[Parts] = {**_BODY, **_METADATA, "message": {**_BODY, **_METADATA}, "payload": _BODY}


def read_message(value: bytes, remarks: list[str]) -> tuple[Document, bool]:
    """The parts of a message, and whether it is complete; of one that is cut off, its complete fields. A sentence is
    added to the ``remarks`` for what is passed over.

    Raises CutOff for the beginning of something that may be no Qlik message, another ValueError for what is none.
    """
    try:
        document = parse_json(value, remarks)
    except CutOff as reason:
        try:
            return _read_cut(parse_json(complete_part(value, _PARTS), [])), False
        except ValueError:
            raise reason from None
    return read_document(document), True


def _read_cut(document: Any) -> Document:
    if document.get("magic") == MAGIC and document.get("type") in ("DT", "MD"):
        message = document.setdefault("message", {})
        if isinstance(message, dict):
            message.setdefault("headers", {})
    found = read_document(document)
    if found.outer.get("messageSchemaId", "") is None and "messageSchemaId" not in document:
        del found.outer["messageSchemaId"]
    return found


def read_document(document: Any) -> Document:
    """The parts of a parsed message. Raises ValueError for JSON that is no Qlik message."""
    if document.__class__ is dict and document.get("magic") == MAGIC and document.get("type") == "DT":
        body = document.get("message")
        if (  # nearly all messages are so; the rest of this module is for the others
            body.__class__ is dict
            and len(body) == 3
            and len(document) == 6
            and document.get("messageSchema", 0) is None
            and document.get("headers", 0) is None
            and "messageSchemaId" in document
        ):
            headers, data, before = body.get("headers"), body.get("data", 0), body.get("beforeData", 0)
            if headers.__class__ is dict and data.__class__ in _IMAGE and before.__class__ in _IMAGE:
                outer = {"magic": MAGIC, "type": "DT", "messageSchemaId": document.get("messageSchemaId")}
                return Document("DT", outer, body, headers, data, before)
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, found {type(document).__name__}")
    if document.get("magic") == MAGIC:
        return _enveloped(document)
    payload = document.get("payload")
    if isinstance(payload, dict) and "schema" in document and "data" not in document:  # Kafka Connect's JSON converter
        return read_document(payload)
    if isinstance(document.get("headers"), dict) and ("data" in document or "beforeData" in document):
        return _data_record("DataRecord", {}, document)
    if document.keys() >= _LEGACY and isinstance(document["op"], str):
        return _legacy(document)
    if "tableStructure" in document and "schemaId" in document:
        return Document("MD", {}, document, {}, None, None)
    names = ", ".join(list(document)[:6])
    raise ValueError(f"a JSON object that is not one of Qlik's messages: its keys are {names or 'none'}")


def _enveloped(document: dict[str, Any]) -> Document:
    kind, body = document.get("type"), document.get("message")
    if kind not in ("DT", "MD"):
        raise ValueError(f"expected the message type DT or MD, found {kind!r:.60}")
    if isinstance(body, str):  # a message stored in its envelope as text or as Base64
        body = _unpacked(body)
    if not isinstance(body, dict):
        raise ValueError(f"expected the envelope's message as an object, found {type(body).__name__}")
    outer = {"magic": MAGIC, "type": kind, "messageSchemaId": document.get("messageSchemaId")}
    if kind == "MD":
        return Document(kind, outer, body, {}, None, None)
    if document.get("messageSchema") is not None:
        outer["messageSchema"] = document["messageSchema"]
    headers = document.get("headers")
    if headers is not None:
        headers = headers if isinstance(headers, dict) else {"headers": headers}
        outer.update({f"envelope.{name}": value for name, value in headers.items()})
    outer.update({name: value for name, value in document.items() if name not in _ENVELOPE})
    return _data_record(kind, outer, body)


def _unpacked(body: str) -> Any:
    text = body.encode()
    if not is_json(text):
        try:
            text = base64.b64decode(text, validate=True)
        except binascii.Error:
            return body
    return parse_json(text)


def _data_record(record_type: str, outer: dict[str, Any], body: dict[str, Any]) -> Document:
    headers, data, before = body.get("headers"), body.get("data"), body.get("beforeData")
    if not isinstance(headers, dict):
        raise ValueError(f"expected the data message's headers as an object, found {type(headers).__name__}")
    for name, image in (("data", data), ("beforeData", before)):
        if image is not None and not isinstance(image, dict):
            raise ValueError(f"expected {name} as an object or null, found {type(image).__name__}")
    outer.update({name: value for name, value in body.items() if name not in _DATA})
    return Document(record_type, outer, body, headers, data, before)


_OPERATIONS: Final = {"F": "REFRESH", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_RENAMED: Final = {"change_seq": "changeSequence", "stream_position": "streamPosition", "ts": "timestamp"}


def _legacy(document: dict[str, Any]) -> Document:
    """The form of Attunity 5: images are arrays of objects with one key each, NULL is the text ``NULL`` (§11)."""
    letter = document["op"]
    outer = {name: value for name, value in document.items() if name not in ("data", "bu_data", "beforeData")}
    headers = {"operation": _OPERATIONS.get(letter, letter)}
    headers.update({new: document[old] for old, new in _RENAMED.items() if document.get(old) is not None})
    before = document.get("bu_data", document.get("beforeData"))
    return Document(letter, outer, document, headers, _row("data", document["data"]), _row("bu_data", before))


def _row(name: str, pairs: Any) -> dict[str, Any] | None:
    if pairs is None:
        return None
    if isinstance(pairs, dict):
        pairs = [pairs]
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise ValueError(f"expected {name} as an array of objects, found {type(pairs).__name__}")
    row = {key: None if value == "NULL" else value for pair in pairs for key, value in pair.items()}
    return row or None
