"""JSON messages (docs/formats/qlik-kafka.md §2.1, §4, §11): which of the wire forms each is, and its fields.

The values of a batch are found by :mod:`cdcwb.formats.json_spans`. Messages with the same names, nesting, envelope and
schema id are read together: the first is parsed and says what the fields are, and the values of all become columns.
What is not valid JSON is mended, where it can be, and read the same way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Ints, content_of, gather
from cdcwb.formats.json_spans import ARRAY, ESCAPED, KIND, NULL, OBJECT, STRING, Spans, spans_of
from cdcwb.formats.json_text import Parts, complete_part
from cdcwb.formats.json_values import MARK, CutOff, as_text, parse_json
from cdcwb.formats.qlik_kafka.decode.rows import Bools, Context, Document, Image, Parsed, Rows, read_mask
from cdcwb.formats.qlik_kafka.layout import LETTERS, MAGIC, MASKS, RENAMED
from cdcwb.formats.qlik_kafka.versions import NOBODY, TABLE_COLUMNS, TableName, Version, from_names, places_in, table_of
from cdcwb.model import Problem

__all__ = ["decode_json", "is_json", "read_document", "read_message"]

_DATA: Final = frozenset({"data", "beforeData", "headers"})
_LEGACY: Final = frozenset({"op", "data"})
_ENVELOPE: Final = frozenset({"magic", "type", "headers", "messageSchemaId", "messageSchema", "message"})
_IMAGES: Final = frozenset({"data", "beforeData", "bu_data"})
_DEEPEST: Final = 4  # objects around a column: what Kafka Connect adds, envelope, message, image

_CONSTANT: Final = frozenset(
    {"magic", "type", "op", "messageSchemaId", "messageSchema", "externalSchemaId", "schema", "table"}
)
"""Fields around the row whose value decides what a message is, or where it belongs."""
_SAME_KIND: Final = _IMAGES | {"headers", "message", "payload", "change_seq", "stream_position", "ts"}
"""Fields around the row of which the kind of value decides."""


# --- one message ------------------------------------------------------------------------------------------------------


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


def _mended(value: bytes, remarks: list[str]) -> tuple[bytes, bool]:
    """A message as valid JSON with the message inside of its envelope, and whether it is complete. Raises ValueError
    as :func:`read_message`."""
    complete = True
    try:
        document = parse_json(value, remarks)
    except CutOff as reason:
        complete = False
        try:
            document = parse_json(complete_part(value, _PARTS), [])
            _read_cut(document)
        except ValueError:
            raise reason from None
    if _is_packed(document):
        document["message"] = _unpacked(document["message"])
    return msgspec.json.encode(document), complete


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
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, found {type(document).__name__}")
    if document.get("magic") == MAGIC:
        return _enveloped(document)
    payload = document.get("payload")
    if isinstance(payload, dict) and "schema" in document and "data" not in document:  # Kafka Connect's JSON converter
        found = read_document(payload)
        return found._replace(path=("payload", *found.path))
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
        return Document(kind, outer, body, {}, None, None, path=("message",))
    if document.get("messageSchema") is not None:
        outer["messageSchema"] = document["messageSchema"]
    headers = document.get("headers")
    if headers is not None:
        headers = headers if isinstance(headers, dict) else {"headers": headers}
        outer.update({f"envelope.{name}": value for name, value in headers.items()})
    outer.update({name: value for name, value in document.items() if name not in _ENVELOPE})
    return _data_record(kind, outer, body)._replace(path=("message",))


def _is_packed(document: Any) -> bool:
    """Is it an envelope that has its message as text or as Base64?"""
    return isinstance(document, dict) and document.get("magic") == MAGIC and isinstance(document.get("message"), str)


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


def _legacy(document: dict[str, Any]) -> Document:
    """The form of Attunity 5: images are arrays of objects with one key each, NULL is the text ``NULL`` (§11)."""
    letter = document["op"]
    outer = {name: value for name, value in document.items() if name not in ("data", "bu_data", "beforeData")}
    headers = {"operation": LETTERS.get(letter, letter)}
    headers.update({new: document[old] for old, new in RENAMED.items() if document.get(old) is not None})
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


# --- messages of a batch ----------------------------------------------------------------------------------------------


def decode_json(values: pa.BinaryArray, index: Ints, context: Context) -> Parsed:
    """The JSON values of a batch; ``index`` says which of its messages they are."""
    parsed = Parsed()
    mended: dict[bool, dict[int, bytes]] = {True: {}, False: {}}
    for at in _Batch(values, index, context, parsed).read():
        number, remarks = int(index[at]), list[str]()
        try:
            text, complete = _mended(values[at].as_py(), remarks)
        except CutOff:
            parsed.cut.append(number)
            continue
        except ValueError as reason:
            parsed.bad.append((number, str(reason)))
            continue
        parsed.notes.extend((number, remark) for remark in remarks)
        if not complete:
            parsed.cut.append(number)
        mended[complete][number] = text
    for complete, texts in mended.items():
        if texts:
            some = pa.array(texts.values(), pa.binary())
            batch = _Batch(some, np.array([*texts]), context, parsed, is_mended=True, is_complete=complete)
            parsed.bad.extend((int(batch.index[at]), "JSON that is nested too deeply") for at in batch.read())
    return parsed


Keys: TypeAlias = tuple[str, ...]


class _Node(NamedTuple):
    """A value of a message: its number among all values, and what is in it."""

    at: int
    inside: dict[str, _Node] | list[_Node] | None

    def get(self, name: str) -> _Node | None:
        """The field of an object."""
        return self.inside.get(name) if isinstance(self.inside, dict) else None


class _Template(NamedTuple):
    """What messages that are read together have in common: the first of them, their keys, and the number of the value
    that each key has (of headers None where the value is the same in all)."""

    document: Document
    headers: dict[str, int | None]
    own_headers: dict[str, int | None]
    data: dict[str, int] | None
    before: dict[str, int] | None


class _Batch:
    """JSON texts and the places of their values. ``is_mended``: they are valid, and ``is_complete`` says whether they
    have all their fields."""

    def __init__(
        self,
        values: pa.BinaryArray,
        index: Ints,
        context: Context,
        parsed: Parsed,
        is_mended: bool = False,
        is_complete: bool = True,
    ) -> None:
        self.index, self.context, self.parsed = index, context, parsed
        self.is_mended, self.is_complete = is_mended, is_complete
        self.text, self.edges = content_of(values)
        self.spans: Spans = spans_of(self.text, self.edges, _DEEPEST)

    def read(self) -> list[int]:
        """Adds to what was parsed; gives the texts that have to be mended."""
        spans = self.spans
        again = np.flatnonzero(spans.state).tolist()
        good = np.flatnonzero(spans.state == 0)
        _, shapes, sizes = np.unique(spans.shape[good], return_inverse=True, return_counts=True)
        for members in np.split(good[np.argsort(shapes, kind="stable")], np.cumsum(sizes)[:-1]):
            while len(members):
                alike = self._alike(members)
                same, members = members[alike], members[~alike]
                again += self._together(same)
        return again

    def _bytes(self, at: int) -> bytes:
        return self.text[self.edges[at] : self.edges[at + 1]].tobytes()

    # --- what messages have in common

    def _alike(self, members: Ints) -> Bools:
        """Which messages of one shape are as the first of them in the fields that decide what a message is."""
        alike = np.ones(len(members), dtype=np.bool_)
        for at, name in self._deciding(int(members[0])):
            here = self.spans.first[members] + at
            kind = self.spans.kind[here] & KIND
            kind[kind == ESCAPED] = STRING
            alike &= kind == kind[0]
            if name in _CONSTANT:
                raw = gather(pa.binary(), self.text, self.spans.start[here], self.spans.end[here], None)
                alike &= pc.equal(raw, raw[0]).to_numpy(zero_copy_only=False)
        return alike

    def _deciding(self, message: int) -> Iterator[tuple[int, str]]:
        """The values of a message that decide what it is, with their names."""
        around: list[str] = []
        for at in range(*self.spans.first[message : message + 2].tolist()):
            begin, end = int(self.spans.name[at]), int(self.spans.name_end[at])
            name = self.text[begin:end].tobytes().decode("utf-8", "replace") if begin >= 0 else ""
            del around[int(self.spans.level[at]) :]
            if (name in _CONSTANT or name in _SAME_KIND) and _IMAGES.isdisjoint(around):
                yield at - int(self.spans.first[message]), name
            around.append(name)

    def _together(self, members: Ints) -> list[int]:
        """Reads messages that are alike; gives those that have to be mended."""
        read = read_document if self.is_complete else _read_cut
        try:
            document = parse_json(self._bytes(int(members[0])))
        except ValueError:  # nested too deeply, which the others need not be
            return list(map(int, members))
        if _is_packed(document) and not self.is_mended:
            return list(map(int, members))
        numbers = self.index[members].tolist()
        try:
            one = read(document)
        except ValueError as reason:
            self.parsed.bad.extend((number, str(reason)) for number in numbers)
            return []
        if one.is_metadata:
            documents = (read(parse_json(self._bytes(at))) for at in members.tolist())
            found = self.parsed.metadata if self.is_complete else self.parsed.cut_metadata
            found.extend(zip(numbers, documents, strict=True))
            return []
        template = self._template(one, int(members[0]))
        rows = self.parsed.rows if self.is_complete else self.parsed.cut_rows
        rows.extend(self._rows(template, some, table) for table, some in self._by_table(template, members))
        return []

    def _template(self, one: Document, message: int) -> _Template:
        body, around = self._tree(message), None
        for name in one.path:
            body, around = body.get(name) or _Node(0, None), body if name == "message" else None
        outer = {name: _place(_around(name, body, around), name) for name in one.outer}
        if one.is_legacy:
            old = {new: name for name, new in RENAMED.items()}
            own = {name: _place(body.get(old[name]) if name in old else None, name) for name in one.headers}
            images = [_pairs(body.get("data")), _pairs(body.get("bu_data") or body.get("beforeData"))]
        else:
            fields = body.get("headers") or body
            own = {name: _place(fields.get(name), name) for name in one.headers}
            images = [_pairs(body.get("data")), _pairs(body.get("beforeData"))]
        data, before = (
            None if image is None else {name: nodes[name].at for name in image}
            for image, nodes in zip((one.data, one.before), images, strict=True)
        )
        return _Template(one, outer, own, data, before)

    def _tree(self, message: int) -> _Node:
        """The values of a message as objects and arrays."""
        first, stop = self.spans.first[message : message + 2].tolist()
        parents: list[_Node] = []
        for at in range(first, stop):
            inside: Any = {OBJECT: {}, ARRAY: []}.get(int(self.spans.kind[at]) & KIND)
            node = _Node(at - first, inside)
            del parents[int(self.spans.level[at]) :]
            outer = parents[-1].inside if parents else None
            if isinstance(outer, dict):
                quoted = self.text[self.spans.name[at] - 1 : self.spans.name_end[at] + 1].tobytes()
                outer[parse_json(quoted)] = node
            elif outer is not None:
                outer.append(node)
            parents.append(node)
        return parents[0]

    # --- their values

    def _texts(self, members: Ints, places: Sequence[int]) -> pa.StringArray:
        """The texts of some values, message after message."""
        spans = self.spans
        at = (spans.first[members][:, None] + np.array(places, dtype=np.int64)).reshape(-1)
        kind = spans.kind[at] & KIND
        quoted = (kind == STRING) | (kind == ESCAPED)
        start, end = spans.start[at], spans.end[at]
        valid = kind != NULL
        found = gather(pa.string(), self.text, start + quoted, end - quoted, None if valid.all() else valid)
        parsed = (kind == ESCAPED) | (kind <= ARRAY)
        if parsed.any():
            raws = zip(start[parsed].tolist(), end[parsed].tolist(), strict=True)
            texts = [_text(self.text[begin:stop].tobytes()) for begin, stop in raws]
            found = pc.replace_with_mask(found, pa.array(parsed), pa.array(texts, pa.string()))
        return found

    def _by_table(self, template: _Template, members: Ints) -> Iterator[tuple[TableName | None, Ints]]:
        """Messages by the table that is named in or around them; those whose metadata names it together."""
        one, settings, columns = template.document, self.context.settings, template.data or template.before or {}
        places: tuple[str, ...] = ()
        if _schema_id(one) not in self.context.versions.by_schema_id:
            places = places_in(one.body, one.headers, columns, self.context.places.known, settings.places)
        if not places:
            yield None, members
            return
        values = {name: self._strings(members, at) for name, at in columns.items() if name in TABLE_COLUMNS}
        found: dict[TableName, list[int]] = {}
        for row, (at, number) in enumerate(zip(members.tolist(), self.index[members].tolist(), strict=True)):
            facts, key = self.context.places(number)
            named = {name: texts[row] for name, texts in values.items()}
            table = table_of(settings, one.body, one.headers, named, facts, key, places)
            found.setdefault(table, []).append(at)
        for table, some in found.items():
            yield table, np.array(some)

    def _strings(self, members: Ints, place: int) -> list[str | None]:
        """The texts of one value that is a string; None for others."""
        kind = self.spans.kind[self.spans.first[members] + place] & KIND
        is_string = ((kind == STRING) | (kind == ESCAPED)).tolist()
        texts = self._texts(members, [place]).to_pylist()
        return [text if there else None for text, there in zip(texts, is_string, strict=True)]

    def _rows(self, template: _Template, members: Ints, table: TableName | None) -> Rows:
        one, count = template.document, len(members)
        version, unresolved = self._version(template, table)
        places = (*template.headers.values(), *template.own_headers.values())
        shared = zip(places, (*one.outer.values(), *one.headers.values()), strict=True)
        headers = [
            pa.repeat(pa.scalar(as_text(value), pa.string()), count) if at is None else self._texts(members, [at])
            for at, value in shared
        ]
        problems: list[tuple[int, Problem, str]] = []
        own = dict(zip(template.own_headers, headers[len(template.headers) :], strict=True))
        masks = [read_mask(name, own[name], problems) if name in own else None for name in MASKS]
        if unresolved is not None:
            sentence = f"the metadata message of schema {unresolved} is not in the capture"
            sentence += "; ordinals are the order of the keys"
            problems.extend((row, Problem.NO_SCHEMA, sentence) for row in range(count))
        named = version and (version.schema_name, version.table_name)
        schema_name, table_name = (table.schema, table.table) if table is not None else named or (None, None)
        return Rows(
            self.index[members],
            one.record_type,
            version,
            schema_name,
            table_name,
            (*template.headers, *template.own_headers),
            headers,
            (masks[0], masks[1]),
            "big",
            self._image(template.data, members, one.is_legacy),
            self._image(template.before, members, one.is_legacy),
            len(template.headers) if one.is_legacy else None,
            len(template.headers),
            problems,
        )

    def _image(self, places: dict[str, int] | None, members: Ints, is_legacy: bool) -> Image | None:
        if places is None or not self.context.images:
            return None
        texts = self._texts(members, [*places.values()])
        if is_legacy:  # NULL is the text NULL (§11)
            texts = pc.if_else(pc.fill_null(pc.equal(texts, "NULL"), True), pa.scalar(None, pa.string()), texts)
        return Image([*places], len(members), texts=texts)

    def _version(self, template: _Template, table: TableName | None) -> tuple[Version | None, str | None]:
        """The version of messages, and the schema id whose metadata is not known."""
        one, versions = template.document, self.context.versions
        schema_id = _schema_id(one)
        version = versions.by_schema_id.get(schema_id) if schema_id is not None else None
        if version is not None or not self.is_complete:
            return version, None
        names, external = [*(template.data or template.before or ())], one.headers.get("externalSchemaId")
        external, table = external if isinstance(external, str) else None, table or NOBODY
        found = versions.of_names(table, external, names)  # the plan has the first of those that name one id
        return found or from_names("", table.label, names, external), schema_id


def _schema_id(one: Document) -> str | None:
    """The schema id that a data message names, as text."""
    return as_text(one.outer.get("messageSchemaId")) or None


def _place(node: _Node | None, name: str) -> int | None:
    return None if node is None or name in _CONSTANT else node.at


def _around(name: str, body: _Node, envelope: _Node | None) -> _Node | None:
    """The value of a header field around a data message."""
    found = body.get(name) if name not in _DATA or envelope is None else None
    if found is not None or envelope is None:
        return found
    if not name.startswith("envelope."):
        return envelope.get(name)
    headers = envelope.get("headers") or envelope
    return headers.get(name.removeprefix("envelope.")) if isinstance(headers.inside, dict) else headers


def _pairs(image: _Node | None) -> dict[str, _Node]:
    """The columns of an image; in the legacy form it is an array of objects."""
    inside = None if image is None else image.inside
    if isinstance(inside, list):
        return {name: node for pair in inside for name, node in _pairs(pair).items()}
    return inside or {}


def _text(raw: bytes) -> str | None:
    """A JSON value as text."""
    try:
        return as_text(parse_json(raw))
    except ValueError:  # nested too deeply
        return raw.decode()
