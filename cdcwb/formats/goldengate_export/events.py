"""Messages, XML elements, and the events that they become (docs/formats/goldengate.md §8). The fields of a message have
roles by their names; a record is what a message or an element has, and becomes an event in one way. Kafka Connect may
have wrapped a message, and the columns of an image may be fields of it (``before.ID``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import text_array
from cdcwb.formats.goldengate.definitions import names_of
from cdcwb.formats.goldengate_export.layout import OPERATIONS, RESERVED, TRANS_IND, is_template, role_of, token_role
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.messages.connect import plain
from cdcwb.formats.moments import HAS_ZONE, IS_TIME, MICROSECONDS, Zone, in_utc, iso_times
from cdcwb.formats.requests import inferred_version
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unique_names

Event = dict[str, Any]
"""A row of :data:`cdcwb.model.EVENTS`; a missing column is null. Further ``time`` (printed), ``keys`` (of the table),
``images`` (with the columns that are not in the record) and ``typed``."""

_POSITION: Final = 20  # digits: ten of the trail's sequence number, ten of the record's RBA
_MISSING: Final = "_isMissing"  # ends the name of the companion of a column
_IMAGES: Final = ("before", "after")
_OBJECT: Final = (dict, type(None))
_NEEDED: Final = frozenset({"table", "operation", "time", "position", "seqno", "rba", "xid", "csn", "txind"})
_DESCRIPTIONS: Final = {Kind.SCHEMA: "SCHEMA", Kind.CONTROL: "TRANSACTION_METADATA"}
"""The record types of records that are not of a row, if they have none."""


class ExportRecord(NamedTuple):
    """A decoded record: ``headers`` are its fields (or attributes). ``keys``: None if it does not have them. ``typed``:
    values have the types of JSON. ``kind``: the record describes a table or a transaction, or is one image of an
    update."""

    headers: Mapping[str, Any]
    tokens: Mapping[str, Any] = {}
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    keys: Sequence[str] | None = None
    typed: bool = True
    kind: Kind | None = None


# --- messages in JSON -------------------------------------------------------------------------------------------------

_FLAT: Final = ("before.", "after.")
_NESTED: Final = ("before", "after", "tokens")


def decode(value: bytes, remarks: list[str]) -> Any:
    """The message in a JSON text, without what Kafka Connect wrapped around it, and with images as objects; None for
    null. ``remarks`` gets what is passed over. Raises ValueError, CutOff for a truncated text."""
    document = parse_json(value, remarks)
    if document.__class__ is dict and "payload" in document and "schema" in document and "op_type" not in document:
        document = document["payload"]
    if document.__class__ is not dict or "before" in document or "after" in document:
        return document
    if not any(name.startswith(_FLAT) for name in document):
        return document
    nested: dict[str, Any] = {}
    for name, one in document.items():
        part, dot, column = name.partition(".")
        if dot and part in _NESTED:
            nested.setdefault(part, {})[column] = one
        else:
            nested[name] = one
    return nested


# --- records of messages ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _form_of(
    names: tuple[str, ...], has_images: bool
) -> tuple[Mapping[str, str], Sequence[str], Sequence[str] | None] | None:
    """The form of a message with these fields: the field of each role, the fields that are headers, and those that are
    columns (None if it models an operation). ``has_images``: ``before`` and ``after`` are objects or null. None for a
    message that is not GoldenGate's."""
    models_operation = has_images and any(part in names for part in _IMAGES)
    roles: dict[str, str] = {}
    columns: list[str] = []
    for name in names:
        role = role_of(name)
        is_column = (columns or role in roles) and name not in RESERVED and not is_template(name)  # named like a field
        if not models_operation and (role is None or role in _IMAGES or is_column):
            columns.append(name)
        elif role is not None:
            roles.setdefault(role, name)
    known = {"table", "operation", "time", "position"} & set(roles)
    has_both = models_operation and all(part in names for part in _IMAGES)
    if not known & {"table", "operation"} or (len(known) < 2 and not has_both):
        return None
    aside = {*columns, *(roles.get(role) for role in (*_IMAGES, "tokens"))}
    return roles, [name for name in names if name not in aside], None if models_operation else columns


def record_of(body: Mapping[str, Any]) -> ExportRecord:
    """The record of a message. Raises ValueError for JSON that is not one of GoldenGate's messages."""
    description = _description(body)
    if description is not None:
        return description
    form = _form_of(tuple(body), all(body.get(part).__class__ in _OBJECT for part in _IMAGES))
    if form is None:
        listed = ", ".join(name[:40] for name in list(body)[:6])
        raise ValueError(f"a JSON object that is not one of GoldenGate's messages: its keys are {listed or 'none'}")
    roles, names, columns = form
    headers = {name: body[name] for name in names}
    before, after = (body[roles[part]] or None if part in roles else None for part in _IMAGES)
    if columns is not None:
        after = {name: body[name] for name in columns} or None
    tokens = body[roles["tokens"]] if "tokens" in roles else None
    if tokens is not None and tokens.__class__ is not dict:
        headers[roles["tokens"]], tokens = tokens, None
    keys = body[roles["keys"]] if "keys" in roles else None
    if keys.__class__ is list:
        keys = headers[roles["keys"]] = [plain(name) for name in keys]
    return ExportRecord(headers, tokens or {}, before, after, keys if keys.__class__ is list else None)


def _description(body: Mapping[str, Any]) -> ExportRecord | None:
    """A message that describes others (§8.1): the schema of the messages of a table, the columns of a table, or the
    number of events of a transaction; None for others."""
    columns, properties = body.get("columns"), body.get("properties")
    if body.get("op_type") == "OBJECT_METADATA" and columns.__class__ is dict:
        keys = [name for name, one in columns.items() if one.__class__ is dict and one.get("key") is True]
        return ExportRecord(body, after=dict.fromkeys(columns), keys=keys, kind=Kind.SCHEMA)
    if "$schema" in body and properties.__class__ is dict and "op_type" in properties:
        return ExportRecord(body, kind=Kind.SCHEMA)
    if "data_collections" in body and "event_count" in body and "xid" in body:
        return ExportRecord(body, kind=Kind.CONTROL)
    return None


# --- events -----------------------------------------------------------------------------------------------------------


def note(event: Event, code: Problem, detail: str) -> None:
    """Adds a problem to an event."""
    event.setdefault("problems", []).append({"code": str(code), "detail": detail})


def event_of(record: ExportRecord, within: Mapping[str, str | None] | None = None) -> Event:
    """The event of a record. ``within``: ``xid``, ``csn`` and ``txind`` of its transaction, if its file shows it."""
    headers, tokens = record.headers, record.tokens
    names, roles = _layout_of(tuple(headers), tuple(tokens))
    texts = {role: _text((tokens if in_tokens else headers)[name]) for role, in_tokens, name in roles}
    texts |= within or {}
    is_change = record.kind not in _DESCRIPTIONS
    label = texts.get("table") or (_text(headers.get("id")) if record.kind is Kind.SCHEMA else None)
    schema, table = names_of(label)
    event: Event = {
        "kind": record.kind or Kind.CHANGE,
        "record_type": texts.get("operation") or _DESCRIPTIONS.get(record.kind or Kind.CHANGE),
        "schema_name": schema,
        "table_name": table,
        "time": texts.get("time"),
        "keys": record.keys,
        "typed": record.typed,
    }
    operation = _operation(event) if is_change else None
    event["operation"] = operation
    event["table_version"] = inferred_version(event) if operation not in (None, Operation.DDL) else None
    event["position"] = _position(texts, event)
    headers = dict(zip(names, (*headers.values(), *tokens.values()), strict=True))
    for name, text in (("csn", texts.get("csn")), ("xid", texts.get("xid")), ("TransInd", _transaction(texts, event))):
        if text is not None and name not in headers:
            headers[name] = text
    event["headers"] = headers
    images = {part: _image(raw) for part, raw in (("after", record.after), ("before", record.before)) if raw}
    event["images"] = [every for every, _ in images.values()]
    if is_change:
        found = {part: image for part, (_, image) in images.items() if image}
        if operation == Operation.DELETE and found.keys() == {"after"}:  # the row that was deleted
            found = {"before": found["after"]}
        event |= found
        keys = record.keys or ()
        image = next((one for one in found.values() if keys and all(name in one for name in keys)), None)
        event["key"] = image and {name: image[name] for name in keys}
    return event


@lru_cache(maxsize=4096)
def _layout_of(
    headers: tuple[str, ...], tokens: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, bool, str], ...]]:
    """Unique names of headers and tokens, and the roles that events need, each with whether a token has it, and the
    name of the token or header."""
    roles: dict[str, tuple[str, bool, str]] = {}
    found = [(token_role(name), True, name) for name in tokens]
    found += [(role_of(name, is_header=True), False, name) for name in headers]
    for role, in_tokens, name in found:
        if role in _NEEDED:
            roles.setdefault(role, (role, in_tokens, name))
    return unique_names((*headers, *tokens)), tuple(roles.values())


def _text(value: Any) -> str | None:
    """A value as text; None for NULL and for an empty text."""
    return value or None if value is None or value.__class__ is str else plain(value)


def _operation(event: Event) -> str | None:
    """The operation; the kind of a record without a known one becomes control."""
    text = event["record_type"]
    operation = OPERATIONS.get((text or "").upper())
    if operation is not None:
        return operation
    event["kind"] = Kind.CONTROL
    expected = f"expected the operation I, U, D or T, found {text!r:.60}"
    note(event, Problem.UNKNOWN_RECORD_TYPE, "the record has no operation" if text is None else expected)
    return None if text is None else f"UNKNOWN({text})"


def _position(texts: Mapping[str, str | None], event: Event) -> str | None:
    """The position with 20 digits, None without one; a position in another form is a problem of the event. Zeros that
    precede 20 digits do not count."""
    text = texts.get("position")
    if text is None:
        sequence, rba = texts.get("seqno"), texts.get("rba")
        if sequence is None or rba is None:
            return None
        text = sequence.rjust(_POSITION // 2, "0") + rba.rjust(_POSITION // 2, "0")
    position = text.lstrip("0").zfill(_POSITION) if text.isascii() and text.isdigit() else ""
    valid = len(position) == _POSITION
    if not valid or len(text) > _POSITION:
        sentence = f"expected a position of at most {_POSITION} digits, found {text!r:.60}"
        note(event, Problem.HEADER_VALUE, f"{sentence}; its leading zeros are dropped" if valid else sentence)
    return position if valid else None


def _transaction(texts: Mapping[str, str | None], event: Event) -> str | None:
    """Sets the id of the transaction, and whether it ends here; returns the TransInd, None for none."""
    event["transaction_id"], indicator = texts.get("xid"), texts.get("txind")
    digit = TRANS_IND.get((indicator or "").upper())
    if digit is not None:
        event["last_in_transaction"] = digit in "23"
        event["commit_position"] = event["position"] if digit in "23" else None
    elif indicator is not None:
        sentence = f"expected a transaction indicator 0 to 3 or B, M, E or W, found {indicator!r:.60}"
        note(event, Problem.HEADER_VALUE, sentence)
    return digit


def _image(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """An image without companions, with and without the columns that they mark as missing from the record."""
    flags = {name for name in raw if name.endswith(_MISSING) and name[: -len(_MISSING)] in raw}
    if not flags:
        return raw, raw
    image = {name: value for name, value in raw.items() if name not in flags}
    gone = {flag[: -len(_MISSING)] for flag in flags if (_text(raw[flag]) or "").lower() == "true"}
    return image, {name: value for name, value in image.items() if name not in gone}


# --- times ------------------------------------------------------------------------------------------------------------


class RecordTimes(NamedTuple):
    """Times of records: ``values`` in UTC, null if unknown. ``invalid``: the text is not a time. ``lacking``: the
    number of times without a zone of their own. ``doubtful``: the indices of those that are ambiguous or missing in the
    given zone."""

    values: pa.Array
    invalid: Bools
    lacking: int
    doubtful: Ints


def times_of(texts: Sequence[str | None], zone: Zone | None) -> RecordTimes:
    """Printed times (§7): ``2013-06-02 22:14:36.000000``, with ``T`` or ``:`` before the hour; digits that follow the
    microseconds are truncated. Without ``zone`` only times with a zone of their own are known."""
    times = text_array(texts)
    colon = pc.fill_null(pc.equal(pc.utf8_slice_codeunits(times, 10, 11), ":"), False)
    us, state = iso_times(pc.if_else(colon, pc.utf8_replace_slice(times, 10, 11, " "), times))
    bare, doubtful = np.flatnonzero(state & (IS_TIME | HAS_ZONE) == IS_TIME), np.zeros(0, dtype=np.int64)
    if zone is None:
        state[bare] = 0
    else:
        doubtful = np.flatnonzero(in_utc(us, state, zone))
    unknown = state & IS_TIME == 0
    return RecordTimes(pa.array(us, MICROSECONDS, mask=unknown), unknown & (state > 0), len(bare), doubtful)
