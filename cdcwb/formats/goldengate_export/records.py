"""Exports of trail records, whatever their wire form: the roles of their fields, and their records as ``events``
(docs/formats/goldengate.md §8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Bools, Ints, batch_of, text_array
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.goldengate.definitions import split_name
from cdcwb.formats.json_values import as_text
from cdcwb.formats.moments import MICROSECONDS, moments
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unique_names, unused_name

__all__ = [
    "FORMAT", "OBJECT_METADATA", "OPERATIONS", "RESERVED", "SCHEMA", "TRANSACTION_METADATA", "UNREADABLE",
    "Batch", "Event", "Item", "Location", "Names", "Record", "ToUtc",
    "events_of", "field_meaning", "is_companion", "is_template", "names_of", "note", "position_of", "role_of",
    "role_of_token", "times_of", "token_meaning",
]  # fmt: skip


FORMAT: Final = "goldengate-export"

OPERATIONS: Final = {
    spelling: operation
    for operation, spellings in {
        "INSERT": ("I", "INSERT"),
        "UPDATE": ("U", "UPDATE", "PKUPDATE", "UPSERT"),
        "DELETE": ("D", "DELETE"),
        "TRUNCATE": ("T", "TRUNCATE"),
        "DDL": ("DDL",),
    }.items()
    for spelling in spellings
}
"""Operations in the spelling of exports, in capitals; others are ``UNKNOWN(x)``."""

OBJECT_METADATA, SCHEMA, TRANSACTION_METADATA = "OBJECT_METADATA", "SCHEMA", "TRANSACTION_METADATA"
"""The record types of messages that describe tables and transactions."""
_NO_CHANGES: Final = {
    OBJECT_METADATA: Kind.SCHEMA,
    SCHEMA: Kind.SCHEMA,
    TRANSACTION_METADATA: Kind.CONTROL,
}

_ROLES: Final = {
    name: role
    for role, names in {
        "table": ("table", "objectname", "qual_table"),
        "operation": ("op_type", "optype"),
        "time": ("op_ts", "timestamp"),
        "current": ("current_ts", "currenttimestamp"),
        "position": ("pos", "position"),
        "keys": ("primary_keys", "primarykeys", "primarykeycolumns"),
        "tokens": ("tokens", "alltokens"),
        "txind": ("txind", "tx_ind"),
        "opseqno": ("opseqno", "op_seqno"),
        **{name: (name,) for name in ("xid", "csn", "seqno", "rba", "rowid", "before", "after")},
    }.items()
    for name in names
}
_XML_ROLES: Final = {"type": "operation", "ts": "time"}

RESERVED: Final = frozenset({"table", "qual_table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"})
"""Fields that are never columns of a message that models a row; other fields with a role are columns if they follow the
first column."""

_TEMPLATE: Final = re.compile(r"\$\{(\w+)(?:\[(\w+)\])?[^}]*\}\Z")
_XID: Final = re.compile(r"(?i)(?:\A6|TRANID|XID|TRANSACTION_?ID)\Z")
_CSN: Final = re.compile(r"(?i)(?:\AL|CSN)\Z")
_TRANS_IND: Final = {"B": "0", "M": "1", "E": "2", "W": "3", "0": "0", "1": "1", "2": "2", "3": "3"}

_ROLE_MEANINGS: Final = {
    "table": "the table; its schema, if it has one, is the part up to the last dot",
    "time": "time of the change; without a zone unless one follows the time",
    "current": "time at which the exporting process created the message",
    "keys": "names of the key columns; all columns if the table has no key",
    "tokens": "tokens of the trail record, by name",
    "xid": "id of the transaction",
    "csn": "commit sequence number of the transaction",
    "seqno": "sequence number of the trail file",
    "rba": "offset of the record in the trail file, in bytes",
    "rowid": "row id of the row in the source database",
    "opseqno": "number of the operation in its transaction",
    "before": "the before image; null, empty or absent if there is none",
    "after": "the after image; null, empty or absent if there is none",
}
_OTHER_MEANINGS: Final = {
    "numCols": "number of columns in the record",
    "image": "before: the before image of an update; the after image follows",
    "index": "index of the column in the table, from 0",
    "key": "true: the column is part of the key",
    "status": "null: the value is NULL",
    "missing": "true: the column is not in the record (not the same as NULL)",
    "isNull": "true: the value is NULL",
    "schema": "Kafka Connect's schema of what is in payload",
    "payload": "the message that Kafka Connect wrapped",
}
_TRANS_IND_MEANINGS: Final = {
    "0": "first record of its transaction",
    "1": "neither first nor last record of its transaction",
    "2": "last record of its transaction",
    "3": "only record of its transaction",
}


class Names(NamedTuple):
    """Schema and name of a table; None if the export has none."""

    schema: str | None
    table: str | None

    @property
    def label(self) -> str | None:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None or self.table is None else f"{self.schema}.{self.table}"


@lru_cache(maxsize=4096)
def names_of(text: str | None) -> Names:
    """``SCHEMA.TABLE`` split at the last dot (``PDB.SCHEMA.TABLE``: the schema is ``PDB.SCHEMA``), without quotes."""
    return Names(*split_name(text)) if text else Names(None, None)


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """The role of a JSON field, also of ``${optype[op_type]}``; None for an unknown field."""
    found = _TEMPLATE.match(name)
    if found is None:
        return _ROLES.get(name)
    return _ROLES.get((found[2] or found[1]).lower()) or _ROLES.get(found[1].lower())


def role_of_header(name: str) -> str | None:
    """The role of a header, which is a JSON field or an XML attribute."""
    return _XML_ROLES.get(name) or role_of(name)


def is_template(name: str) -> bool:
    """Whether the name is a keyword of the template for meta columns that was not replaced by its field."""
    return _TEMPLATE.match(name) is not None


@lru_cache(maxsize=4096)
def role_of_token(name: str) -> str | None:
    """``xid`` for a token with the transaction's id, ``csn`` for one with the commit sequence number, else None."""
    return "xid" if _XID.search(name) else "csn" if _CSN.search(name) else None


def trans_ind(text: str | None) -> str | None:
    """A transaction indicator as a digit of TransInd (0 first, 1 middle, 2 last, 3 only); None for anything else."""
    return None if text is None else _TRANS_IND.get(text.upper())


def field_meaning(name: str, value: str | None) -> str:
    """The meaning of a header, in a sentence; empty for an unknown one."""
    role = role_of_header(name)
    if role == "operation":
        known = OPERATIONS.get((value or "").upper())
        return f"the operation: {known}" if known else "the operation, an unknown one"
    if role == "position":
        if value is not None and value.isascii() and value.isdigit() and len(value) <= 20:
            digits = value.zfill(20)
            return f"trail file {int(digits[:10])}, byte {int(digits[10:])}"
        return "trail sequence number and RBA"
    if role == "txind":
        meaning = "first, middle, last or only record of its transaction"
        return _TRANS_IND_MEANINGS.get(trans_ind(value) or "", meaning)
    return _OTHER_MEANINGS.get(name, "") if role is None else _ROLE_MEANINGS.get(role, "")


def token_meaning(name: str) -> str:
    """The meaning of a token of the trail record, in a sentence."""
    if name in ("R", "ORAROWID"):
        return _ROLE_MEANINGS["rowid"]
    return _ROLE_MEANINGS.get(role_of_token(name) or "", "a token of the trail record")


Event = dict[str, Any]
"""A row of :data:`cdcwb.model.EVENTS`; a missing column is null. ``time`` is the printed time of the change."""

Location = tuple[str, int, str]
"""A file, its index, and the unit of its offsets."""

ToUtc = Callable[[Ints], tuple[Ints, Bools]]
"""Converts printed times (microseconds since 1970 as if their zone were UTC) to UTC, and returns which of them are
ambiguous or missing in their zone. Pickles."""

UNREADABLE: Final = "a record of the transaction cannot be read"
"""Why a transaction has a gap."""

_POSITION: Final = 20  # digits: ten of the trail's sequence number, ten of the record's RBA
_SHARED: Final = frozenset({"csn", "xid", "TransInd"})  # headers of every export; a record's own header has precedence
_MISSING: Final = "_isMissing"  # ends the name of the companion of a column
_ZONED: Final = r"\d[Zz]$|:\d{2}(\.\d+)?[+-]\d{2}:?\d{2}$"


class Number(str):
    """A number of a JSON text with its own digits."""

    __slots__ = ()


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Record:
    """A decoded record. ``table`` and ``operation`` are as written, ``headers`` its fields (or attributes) and
    ``tokens`` its tokens; ``before`` and ``after`` are None without such an image or without columns, ``keys`` None if
    the record does not have them. ``half``: the record is one image of an update. A record that is not ``complete`` is
    truncated. Values of JSON are Python objects; ``source`` returns the text of an object or array of a part
    (``headers``, ``tokens``, ``before``, ``after``) by its name."""

    table: str | None
    operation: str | None
    headers: Mapping[str, Any]
    tokens: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    keys: Sequence[str] | None = None
    half: Kind | None = None
    complete: bool = True
    source: Callable[[str, str], str | None] | None = None
    _layout: _Layout | None = None

    @property
    def is_change(self) -> bool:
        """Whether it is neither a description of a table nor of a transaction."""
        return self.operation not in _NO_CHANGES

    @property
    def layout(self) -> _Layout:
        """The names and roles of headers and tokens."""
        if self._layout is None:
            self._layout = _layout_of(tuple(self.headers), tuple(self.tokens))
        return self._layout

    def text(self, role: str) -> str | None:
        """The header or token with a role as text; None if missing or empty."""
        part, name = self.layout.roles.get(role, ("", ""))
        return self._text(part, name, getattr(self, part)[name]) or None if part else None

    def image(self, part: str, with_missing: bool = False) -> Mapping[str, Any] | None:
        """The before or after image without companions, and without the columns that they mark as missing from the
        record unless ``with_missing``."""
        image: Mapping[str, Any] | None = getattr(self, part)
        pairs = () if image is None else _companions(tuple(image))
        if image is None or not pairs:
            return image
        return {name: image[name] for name, flag in pairs if with_missing or not flag or not _is_true(image[flag])}

    def texts(self, part: str, values: Mapping[str, Any]) -> dict[str, str | None]:
        """Values of a part as text."""
        return {
            name: value if value is None or value.__class__ is str else self._text(part, name, value)
            for name, value in values.items()
        }

    def _text(self, part: str, name: str, value: Any) -> str | None:
        if value.__class__ in (dict, list) and self.source is not None:
            return self.source(part, name)
        return as_text(value)


class _Layout(NamedTuple):
    """Unique names of headers and tokens, and the part and name of those with a role."""

    names: tuple[str, ...]
    roles: dict[str, tuple[str, str]]


@lru_cache(maxsize=4096)
def _layout_of(headers: tuple[str, ...], tokens: tuple[str, ...]) -> _Layout:
    roles: dict[str, tuple[str, str]] = {}
    for part, names, role_of in (("tokens", tokens, role_of_token), ("headers", headers, role_of_header)):
        for name in names:
            role = role_of(name)
            if role is not None:
                roles.setdefault(role, (part, name))
    return _Layout(unique_names((*headers, *tokens)), roles)


@lru_cache(maxsize=4096)
def _companions(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The columns of an image, each with its companion (empty for none); empty if none has one."""
    there = set(names)
    pairs = [(name, name + _MISSING) for name in names if not is_companion(name, there)]
    return tuple((name, flag if flag in there else "") for name, flag in pairs) if len(pairs) < len(names) else ()


def is_companion(name: str, names: Collection[str]) -> bool:
    """Whether the field states that another column is missing."""
    return name.endswith(_MISSING) and name[: -len(_MISSING)] in names


def _is_true(flag: Any) -> bool:
    return flag is True or (flag.__class__ is str and flag.lower() == "true")


# --- events -----------------------------------------------------------------------------------------------------------


def note(event: Event, code: Problem, detail: str) -> None:
    """Adds a problem to an event."""
    event.setdefault("problems", []).append({"code": str(code), "detail": detail})


def event_of(record: Record, images: bool, event: Event, facts: Mapping[str, str | None], within: bool) -> None:
    """Adds a record to its event. ``facts`` are further headers, None without any. ``within``: the record is in a
    transaction whose id, order and end come from elsewhere. A truncated record has no version of its table, and has
    images only if its operation is known."""
    names = names_of(record.table)
    event.update(record_type=record.operation, schema_name=names.schema, table_name=names.table)
    operation = _operation(record, event)
    if record.complete and names.label is not None and operation not in (None, Operation.DDL):
        event["table_version"] = f"{names.label}@1"
    event["position"] = position = position_of(record, event)
    event["time"] = record.text("time")
    ids = {} if within else _transaction(record, event, position)
    if not record.complete and ids.get("xid"):
        note(event, Problem.GAP, UNREADABLE)
    headers = record.texts("headers", record.headers)
    if record.tokens:
        values = (*headers.values(), *record.texts("tokens", record.tokens).values())
        headers = dict(zip(record.layout.names, values, strict=True))
    for more in (ids, facts):
        for name, text in more.items():
            if text is not None and not (name in _SHARED and name in headers):
                headers[unused_name(name, headers)] = text
    event["headers"] = headers
    if images and record.is_change and (record.complete or operation is not None):
        _images(record, event, operation)


def _operation(record: Record, event: Event) -> str | None:
    """Sets and returns the operation, and sets the kind. A truncated record may lack its operation."""
    text = record.operation
    if text in _NO_CHANGES:
        event["kind"] = _NO_CHANGES[text]
        return None
    operation = OPERATIONS.get(text.upper()) if text is not None else None
    event["kind"] = record.half or Kind.CHANGE
    if operation is None:
        event["kind"] = Kind.CONTROL
        sentence = "the record has no operation"
        if text is not None:
            operation = f"UNKNOWN({text})"
            sentence = f"expected the operation I, U, D or T, found {text!r:.60}"
        if record.complete or text is not None:
            note(event, Problem.UNKNOWN_RECORD_TYPE, sentence)
    event["operation"] = operation
    return operation


def position_of(record: Record, event: Event) -> str | None:
    """The position with 20 digits, None without one; a position in another form is a problem of the event. Zeros that
    precede 20 digits do not count."""
    text = record.text("position")
    if text is None:
        sequence, rba = record.text("seqno"), record.text("rba")
        if sequence is None or rba is None:
            return None
        text = sequence.rjust(_POSITION // 2, "0") + rba.rjust(_POSITION // 2, "0")
    position = text.lstrip("0").zfill(_POSITION) if text.isascii() and text.isdigit() else ""
    valid = len(position) == _POSITION
    if not valid or len(text) > _POSITION:
        sentence = f"expected a position of at most {_POSITION} digits, found {text!r:.60}"
        note(event, Problem.HEADER_VALUE, f"{sentence}; its leading zeros are dropped" if valid else sentence)
    return position if valid else None


def _transaction(record: Record, event: Event, position: str | None) -> dict[str, str | None]:
    """Sets the transaction's id and whether it ends here; returns the headers that name them the same way in every
    export."""
    xid, indicator = record.text("xid"), record.text("txind")
    event["transaction_id"] = xid
    digit = trans_ind(indicator)
    if digit is not None:
        event["last_in_transaction"] = digit in "23"
        event["commit_position"] = position if digit in "23" else None
    elif indicator is not None:
        sentence = f"expected a transaction indicator 0 to 3 or B, M, E or W, found {indicator!r:.60}"
        note(event, Problem.HEADER_VALUE, sentence)
    return {"csn": record.text("csn"), "xid": xid, "TransInd": digit}


def _images(record: Record, event: Event, operation: str | None) -> None:
    """Sets images and key: a deleted row is the before image, wherever the export has it."""
    images = {part: record.image(part) for part in ("after", "before")}
    texts = {part: record.texts(part, image) for part, image in images.items() if image is not None}
    if operation == Operation.DELETE and texts.keys() == {"after"}:
        texts = {"before": texts["after"]}
    event.update(texts)
    for image in texts.values() if record.keys else ():
        if all(name in image for name in record.keys or ()):
            event["key"] = {name: image[name] for name in record.keys or ()}
            break


@dataclass(slots=True)
class Item:
    """A stretch of an export with a ``record``, or without one. ``wrong``: problem and sentence of bytes that are not a
    complete record; then ``record`` has their complete fields. ``kind``: that of the event, None for the record's own.
    ``notes``: further problems; ``facts``: further headers. ``transaction``: the columns of the event that it has from
    its transaction; None if these are in the record itself."""

    record: Record | None = None
    wrong: tuple[Problem, str] | None = None
    kind: Kind | None = None
    notes: tuple[tuple[Problem, str], ...] = ()
    facts: Mapping[str, str | None] | None = None
    transaction: Event | None = None


class Batch(NamedTuple):
    """Neighbouring items, with offset and length (int64) of each, and a function that returns their bytes. ``typed``:
    values have the types of JSON; else they are texts."""

    items: list[Item]
    offset: pa.Array
    length: pa.Array
    raw: Callable[[], pa.Array]
    typed: bool


def events_of(batch: Batch, location: Location, to_utc: ToUtc | None, wanted: Wanted) -> pa.RecordBatch:
    """The events of a batch, columns of :data:`cdcwb.model.EVENTS`."""
    events = [_event(item, wanted.images) for item in batch.items]
    texts = text_array([event.get("time") for event in events])
    times = times_of(texts, to_utc)
    for at in np.flatnonzero(times.invalid).tolist():
        note(events[at], Problem.VALUE, f"expected a time, found {texts[at].as_py()!r:.60}")
    for at in times.doubtful.tolist():
        sentence = f"{texts[at].as_py()} is ambiguous or missing in its time zone; the earlier one is used"
        note(events[at], Problem.TIME_ZONE, sentence)
    file, file_index, unit = location
    columns = {
        "format": FORMAT,
        "file": file,
        "file_index": file_index,
        "offset_unit": unit,
        "changed_at": times.values,
    }
    raw = batch.raw() if wanted.raw else None
    return batch_of(events, {**columns, "offset": batch.offset, "length": batch.length, "raw": raw}, wanted)


def _event(item: Item, images: bool) -> Event:
    event: Event = {**(item.transaction or {})}
    if item.wrong is not None:
        note(event, *item.wrong)
    if item.record is not None:
        event_of(item.record, images, event, item.facts or {}, item.transaction is not None)
    if item.kind is not None:
        event["kind"] = item.kind
    for problem in item.notes:
        note(event, *problem)
    return event


# --- times ------------------------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """Times of records: ``values`` in UTC, null if unknown. ``invalid``: the text is not a time. ``printed`` and
    ``zoned``: the numbers of valid texts, and of those with a zone of their own. ``doubtful``: the index of those that
    are ambiguous or missing in the given zone."""

    values: pa.Array
    invalid: Bools
    printed: int
    zoned: int
    doubtful: Ints


def times_of(texts: pa.StringArray, to_utc: ToUtc | None) -> Times:
    """Printed times (§7): ``2013-06-02 22:14:36.000000``, with ``T`` or ``:`` before the hour; digits that follow the
    microseconds are truncated. Without ``to_utc`` only times with a zone of their own are known."""
    colon = pc.fill_null(pc.equal(pc.utf8_slice_codeunits(texts, 10, 11), ":"), False)
    if pc.any(colon).as_py():
        texts = pc.if_else(colon, pc.utf8_replace_slice(texts, 10, 11, " "), texts)
    values, invalid = moments(texts)
    known = pc.is_valid(values)
    zoned = pc.and_(known, pc.fill_null(pc.match_substring_regex(texts, _ZONED), False))
    printed, own = pc.sum(known).as_py() or 0, pc.sum(zoned).as_py() or 0
    doubtful: Ints = np.empty(0, dtype=np.int64)
    if own < printed and to_utc is None:
        values = pc.if_else(zoned, values, pa.scalar(None, values.type))
    elif own < printed and to_utc is not None:
        index = np.flatnonzero(np.asarray(pc.and_not(known, zoned)))
        micros = np.array(pc.fill_null(values.cast(pa.int64()), 0))
        micros[index], doubts = to_utc(micros[index])
        doubtful = index[doubts]
        values = pa.array(micros, mask=np.asarray(pc.is_null(values))).cast(MICROSECONDS)
    return Times(values, invalid, printed, own, doubtful)
