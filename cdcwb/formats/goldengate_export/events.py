"""Records of GoldenGate's exports, whatever their wire form, as events (docs/formats/goldengate.md §8).

``table_version`` is ``schema.table@1``. ``headers`` has every field and token by its own name, and ``csn``, ``xid`` and
``TransInd`` (0 first, 1 middle, 2 last, 3 only) if the record or its transaction has them. An event has further keys
for :mod:`cdcwb.formats.goldengate_export.table`: ``time``, the printed time of the change; ``images``, whose columns
that are marked as missing are there; ``keys``; and ``typed``, whether values have the types of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Bools, Ints, as_array, text_array
from cdcwb.formats.goldengate.definitions import split_name
from cdcwb.formats.goldengate_export.layout import (
    OPERATIONS,
    RESERVED,
    TRANS_IND,
    is_template,
    role_of,
    token_role,
)  # fmt: skip
from cdcwb.formats.messages.connect import plain
from cdcwb.formats.moments import MICROSECONDS, moments
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unique_names

__all__ = ["Event", "Record", "ToUtc", "Transaction", "event_of", "note", "record_of", "times_of"]

Event = dict[str, Any]
"""A row of :data:`cdcwb.model.EVENTS`; a missing column is null."""

ToUtc = Callable[[Ints], tuple[Ints, Bools]]
"""Converts printed times (microseconds since 1970 as if their zone were UTC) to UTC, and returns which of them are
ambiguous or missing in their zone."""

_POSITION: Final = 20  # digits: ten of the trail's sequence number, ten of the record's RBA
_MISSING: Final = "_isMissing"  # ends the name of the companion of a column
_ZONED: Final = r"\d[Zz]$|:\d{2}(\.\d+)?[+-]\d{2}:?\d{2}$"
_IMAGES: Final = ("before", "after")
_OBJECT: Final = (dict, type(None))
_NEEDED: Final = frozenset({"table", "operation", "time", "position", "seqno", "rba", "xid", "csn", "txind"})


class Record(NamedTuple):
    """A decoded record: ``headers`` are its fields (or attributes). ``keys``: None if it does not have them. ``kind``:
    the record describes a table or a transaction, or is one image of an update."""

    headers: Mapping[str, Any]
    tokens: Mapping[str, Any] = {}
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    keys: Sequence[str] | None = None
    typed: bool = True
    kind: Kind | None = None


class Transaction(NamedTuple):
    """The transaction that a record is in, if its file shows it: its id, the id of its tokens, its commit sequence
    number, the number of the record from 1, and its TransInd."""

    name: str
    xid: str | None
    csn: str | None
    number: int | None
    trans_ind: str | None


# --- records of messages ----------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The roles of a message's fields. ``columns``: those of a message that models a row, else None."""

    roles: dict[str, str]
    headers: tuple[str, ...]
    columns: tuple[str, ...] | None


@lru_cache(maxsize=1024)
def _form_of(names: tuple[str, ...], has_images: bool) -> _Form | None:
    """The form of a message with these fields; ``has_images``: ``before`` and ``after`` are objects or null. None for a
    message that is not GoldenGate's."""
    roles: dict[str, str] = {}
    models_operation = has_images and any(part in names for part in _IMAGES)
    columns: list[str] = []
    headers: list[str] = []
    for name in names:
        role = role_of(name)
        if role in _IMAGES:
            role = role if models_operation else None
        elif role is not None and columns and name not in RESERVED and not is_template(name):
            role = None  # a column with the name of a field
        if role is None and not models_operation:
            columns.append(name)
            continue
        if role is not None and role not in roles:
            roles[role] = name
        if role is None or name not in (roles.get("before"), roles.get("after"), roles.get("tokens")):
            headers.append(name)
    known = {"table", "operation", "time", "position"} & set(roles)
    has_both = models_operation and all(part in names for part in _IMAGES)
    if not known & {"table", "operation"} or (len(known) < 2 and not has_both):
        return None
    return _Form(roles, tuple(headers), None if models_operation else tuple(columns))


def record_of(body: Mapping[str, Any]) -> Record:
    """The record of a message. Raises ValueError for JSON that is not one of GoldenGate's messages."""
    description = _description(body)
    if description is not None:
        return description
    form = _form_of(tuple(body), all(body.get(part).__class__ in _OBJECT for part in _IMAGES))
    if form is None:
        listed = ", ".join(name[:40] for name in list(body)[:6])
        raise ValueError(f"a JSON object that is not one of GoldenGate's messages: its keys are {listed or 'none'}")
    roles = form.roles
    headers = {name: body[name] for name in form.headers}
    before, after = (body[roles[part]] or None if part in roles else None for part in _IMAGES)
    if form.columns is not None:
        after = {name: body[name] for name in form.columns} or None
    tokens = body[roles["tokens"]] if "tokens" in roles else None
    if tokens is not None and tokens.__class__ is not dict:
        headers[roles["tokens"]], tokens = tokens, None
    keys = body[roles["keys"]] if "keys" in roles else None
    if keys.__class__ is list:
        keys = headers[roles["keys"]] = [plain(name) for name in keys]
    return Record(headers, tokens or {}, before, after, keys if keys.__class__ is list else None)


def _description(body: Mapping[str, Any]) -> Record | None:
    """A message that describes others (§8.1): the schema of the messages of a table, the columns of a table, or the
    number of events of a transaction; None for others."""
    columns, properties = body.get("columns"), body.get("properties")
    if body.get("op_type") == "OBJECT_METADATA" and columns.__class__ is dict:
        keys = [name for name, one in columns.items() if one.__class__ is dict and one.get("key") is True]
        return Record(body, after=dict.fromkeys(columns), keys=keys, kind=Kind.SCHEMA)
    if "$schema" in body and properties.__class__ is dict and "op_type" in properties:
        return Record(body, kind=Kind.SCHEMA)
    if "data_collections" in body and "event_count" in body and "xid" in body:
        return Record(body, kind=Kind.CONTROL)
    return None


# --- events -----------------------------------------------------------------------------------------------------------


def note(event: Event, code: Problem, detail: str) -> None:
    """Adds a problem to an event."""
    event.setdefault("problems", []).append({"code": str(code), "detail": detail})


def event_of(record: Record, within: Transaction | None = None) -> Event:
    """The event of a record; ``within``: its transaction, if its file shows it."""
    headers, tokens = record.headers, record.tokens
    names, roles = _layout_of(tuple(headers), tuple(tokens))
    texts = {role: _text((tokens if in_tokens else headers)[name]) for role, in_tokens, name in roles}
    is_change = record.kind not in (Kind.SCHEMA, Kind.CONTROL)
    label, record_type = texts.get("table"), texts.get("operation")
    if not is_change:
        label = label or (_text(headers.get("id")) if record.kind is Kind.SCHEMA else None)
        record_type = record_type or ("SCHEMA" if record.kind is Kind.SCHEMA else "TRANSACTION_METADATA")
    schema, table = names_of(label)
    event: Event = {
        "kind": record.kind or Kind.CHANGE,
        "record_type": record_type,
        "schema_name": schema,
        "table_name": table,
        "table_version": None,
        "time": texts.get("time"),
        "keys": record.keys,
        "typed": record.typed,
    }
    operation = _operation(event) if is_change else None
    if table is not None and operation not in (None, Operation.DDL):
        event["table_version"] = f"{schema}.{table}@1" if schema else f"{table}@1"
    event["position"] = _position(texts, event)
    csn, xid, trans_ind = _transaction(texts, event) if within is None else _known(within, event)
    headers = dict(zip(names, (*headers.values(), *tokens.values()), strict=True))
    for name, text in (("csn", csn), ("xid", xid), ("TransInd", trans_ind)):
        if text is not None and name not in headers:
            headers[name] = text
    event["headers"] = headers
    images = {part: _image(raw) for part, raw in (("after", record.after), ("before", record.before)) if raw}
    event["images"] = [every for every, _ in images.values()]
    if is_change:
        found = {part: image for part, (_, image) in images.items()}
        if operation == Operation.DELETE and found.keys() == {"after"}:  # the row that was deleted
            found = {"before": found["after"]}
        event |= found
        for image in found.values() if record.keys else ():
            if all(name in image for name in record.keys or ()):
                event["key"] = {name: image[name] for name in record.keys or ()}
                break
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


@lru_cache(maxsize=4096)
def names_of(text: str | None) -> tuple[str | None, str | None]:
    """Schema and name of a table: ``SCHEMA.TABLE`` split at the last dot (``PDB.SCHEMA.TABLE``: the schema is
    ``PDB.SCHEMA``), without quotes."""
    return split_name(text) if text else (None, None)


def _operation(event: Event) -> str | None:
    """Sets and returns the operation; the kind of a record without a known one is control."""
    text = event["record_type"]
    operation = OPERATIONS.get(text.upper()) if text is not None else None
    if operation is None:
        event["kind"] = Kind.CONTROL
        sentence = "the record has no operation"
        if text is not None:
            operation = f"UNKNOWN({text})"
            sentence = f"expected the operation I, U, D or T, found {text!r:.60}"
        note(event, Problem.UNKNOWN_RECORD_TYPE, sentence)
    event["operation"] = operation
    return operation


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


def _transaction(texts: Mapping[str, str | None], event: Event) -> tuple[str | None, str | None, str | None]:
    """Sets the transaction's id and whether it ends here, as the record has them; returns its commit sequence number,
    its id and the TransInd."""
    xid, indicator = texts.get("xid"), texts.get("txind")
    event["transaction_id"] = xid
    digit = TRANS_IND.get((indicator or "").upper())
    if digit is not None:
        event["last_in_transaction"] = digit in "23"
        event["commit_position"] = event["position"] if digit in "23" else None
    elif indicator is not None:
        sentence = f"expected a transaction indicator 0 to 3 or B, M, E or W, found {indicator!r:.60}"
        note(event, Problem.HEADER_VALUE, sentence)
    return texts.get("csn"), xid, digit


def _known(within: Transaction, event: Event) -> tuple[str | None, str | None, str | None]:
    event.update(transaction_id=within.name, event_no=within.number)
    event["last_in_transaction"] = within.trans_ind in ("2", "3")
    return within.csn, within.xid, within.trans_ind


@lru_cache(maxsize=4096)
def _companions(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The columns of an image, each with its companion (empty for none); empty if none has one."""
    is_column = (not name.endswith(_MISSING) or name[: -len(_MISSING)] not in names for name in names)
    pairs = [(name, f"{name}{_MISSING}") for name in compress(names, is_column)]
    return tuple((name, flag if flag in names else "") for name, flag in pairs) if len(pairs) < len(names) else ()


def _image(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """An image without companions, with and without the columns that they mark as missing from the record."""
    pairs = _companions(tuple(raw))
    if not pairs:
        return raw, raw
    there = [name for name, flag in pairs if not flag or (_text(raw[flag]) or "").lower() != "true"]
    return {name: raw[name] for name, _ in pairs}, {name: raw[name] for name in there}


# --- times ------------------------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """Times of records: ``values`` in UTC, null if unknown. ``invalid``: the text is not a time. ``lacking``: the
    number of times without a zone of their own. ``doubtful``: the indices of those that are ambiguous or missing in the
    given zone."""

    values: pa.Array
    invalid: Bools
    lacking: int
    doubtful: Ints


def times_of(texts: Sequence[str | None], to_utc: ToUtc | None) -> Times:
    """Printed times (§7): ``2013-06-02 22:14:36.000000``, with ``T`` or ``:`` before the hour; digits that follow the
    microseconds are truncated. Without ``to_utc`` only times with a zone of their own are known."""
    times = text_array(texts)
    colon = pc.fill_null(pc.equal(pc.utf8_slice_codeunits(times, 10, 11), ":"), False)
    values, invalid = moments(pc.if_else(colon, pc.utf8_replace_slice(times, 10, 11, " "), times))
    zoned = pc.fill_null(pc.match_substring_regex(times, _ZONED), False)
    index = np.flatnonzero(as_array(pc.and_not(pc.is_valid(values), zoned)))
    if to_utc is None:
        return Times(pc.if_else(zoned, values, pa.scalar(None, values.type)), invalid, len(index), index[:0])
    micros = np.array(pc.fill_null(values.cast(pa.int64()), 0))
    micros[index], doubts = to_utc(micros[index])
    return Times(pa.array(micros, MICROSECONDS, mask=as_array(pc.is_null(values))), invalid, len(index), index[doubts])
