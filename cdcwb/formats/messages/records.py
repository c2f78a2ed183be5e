"""Messages that a tool wrapped into a JSON object, and binary values as text: base64, hex digits and escapes.

A decoder gives None for a text that is none of its kind. Which kind a file holds is told by what its texts decode to:
the beginning of a message (:func:`begins_message`).

``kcat -J`` prints ``payload``, ``ts``, ``tstype`` and headers as one list of names and values in turn (or, with its
option, as a map of lists); a Kafka table that was saved as JSON has ``value``, ``timestamp`` and headers as a list of
objects; the REST proxy prints ``value`` as well; Kafka UI exports ``content``. A payload may be a text or, where the
tool has decoded it, JSON. Logs have records as Java and Python print them, ``ConsumerRecord(…)``.
"""

from __future__ import annotations

import ast
import binascii
import codecs
import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

import msgspec

from cdcwb.formats.messages.batch import HEADER, MALFORMED, MESSAGE, Parsed, shown, text_of, time_text
from cdcwb.words import unique_names

__all__ = [
    "BINARY",
    "DECODERS",
    "LATIN",
    "RAW",
    "TIME_TYPES",
    "begins_message",
    "header_facts",
    "is_binary",
    "is_record",
    "payload_of",
    "plain_string",
    "printed_record",
    "unwrap",
    "unwrap_plain",
]


# --- encodings --------------------------------------------------------------------------------------------------------

RAW: Final = "bytes"
"""Above 7F the bytes of an escaped text are the value's own (kcat)."""
LATIN: Final = "latin-1"
"""They are the UTF-8 form of characters that stand for one byte each."""

BINARY: Final = b"atMSG"
_ID: Final = 5  # bytes of a zero byte and a schema id

_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_HEX: Final = re.compile(rb"(?:0[xX]|\\x)?((?:[0-9A-Fa-f]{2}[ :]?)+)\Z")
_LITERAL: Final = re.compile(rb"""[bB]?(['"])(.*)\1\Z""", re.DOTALL)
# `|(?!)` in a possessive group: tests/possessive.py says what for
_PYTHON: Final = re.compile(rb"""(?:[^\\]++|\\(?:x[0-9A-Fa-f]{2}|[abfnrtv0\\'"])|(?!))*+\Z""", re.DOTALL)

_string: Final = msgspec.json.Decoder(str)


def begins_message(value: bytes) -> bool:
    """Does it begin as a message does: a JSON object, ``atMSG``, or a zero byte and a schema id?"""
    return value.lstrip(b" \t\r\n").startswith(b"{") or is_binary(value)


def is_binary(value: bytes) -> bool:
    """Does it begin as a binary message does?"""
    return value.startswith(BINARY) or (len(value) > _ID and value[0] == 0)


def base64(text: bytes, characters: str = RAW) -> bytes | None:
    """The bytes of a base64 text, in either alphabet, with or without its padding."""
    text = _unquoted(text.strip()).rstrip(b"=")
    if b"-" in text or b"_" in text:
        text = text.translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True) if text else None
    except binascii.Error:
        return None


def hexadecimal(text: bytes, characters: str = RAW) -> bytes | None:
    r"""The bytes of hex digits, in pairs that may stand apart, behind ``0x`` or ``\x`` or nothing."""
    found = _HEX.match(_unquoted(text.strip()))
    return None if found is None else binascii.unhexlify(found[1].translate(None, b" :"))


def unescape(text: bytes, characters: str = RAW) -> bytes | None:
    """The bytes of a JSON string, a Python bytes literal, or a bare text with the escapes of either."""
    text = text.strip()
    if text[:1] == b'"' and (value := binary_string(text, characters)) is not None:
        return value
    literal = _LITERAL.match(text)
    inner = literal[2] if literal else text
    if b"\\u" in inner:
        return binary_string(b'"' + inner + b'"', characters)
    if b"\\" not in inner and not literal:
        return None  # nothing is escaped: a plain text
    if not _PYTHON.match(inner):
        return None
    return bytes(codecs.escape_decode(inner)[0])


DECODERS: Final[dict[str, Callable[[bytes, str], bytes | None]]] = {
    "base64": base64,
    "hex": hexadecimal,
    "escaped": unescape,
}
"""The decoder of each encoding: (text, characters) -> bytes, or None."""


def plain_string(raw: bytes) -> bytes | None:
    """The text of a JSON string (quotes included) in UTF-8, as it stands there where nothing is escaped."""
    if b"\\" not in raw:
        return raw[1:-1]
    try:
        return _string.decode(raw).encode()
    except (msgspec.MsgspecError, UnicodeError):
        return None


def binary_string(raw: bytes, characters: str) -> bytes | None:
    r"""The bytes that a JSON string stands for: ``\u00ff`` is one, and what is not escaped as ``characters`` says."""
    if raw[1:64].lstrip().startswith(b"{"):
        return plain_string(raw)  # a document that was quoted
    try:
        text = _string.decode(raw if characters == LATIN else raw.decode("latin-1").encode())
        return text.encode("latin-1")
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _unquoted(text: bytes) -> bytes:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in b"'\"" else text


# --- records ----------------------------------------------------------------------------------------------------------

_Raw = msgspec.Raw
_NONE: Final = _Raw(b"")  # the field is not there

TIME_TYPES: Final = {
    "create": "CreateTime",
    "logappend": "LogAppendTime",
    "0": "CreateTime",
    "1": "LogAppendTime",
    "createtime": "CreateTime",
    "create_time": "CreateTime",
    "log_append_time": "LogAppendTime",
    "logappendtime": "LogAppendTime",
}
"""How tools spell the types of timestamps, in lower case, and how Kafka does."""


_HUGE: Final = 1 << 62


class _Record(msgspec.Struct, rename={"time_type": "timestampType"}):  # type: ignore[call-arg,unused-ignore]
    topic: _Raw = _NONE
    partition: _Raw = _NONE
    offset: _Raw = _NONE
    tstype: _Raw = _NONE
    ts: _Raw = _NONE
    timestamp: _Raw = _NONE
    time_type: _Raw = _NONE
    headers: _Raw = _NONE
    key: _Raw = _NONE
    payload: _Raw = _NONE
    value: _Raw = _NONE
    content: _Raw = _NONE
    payload_error: _Raw = _NONE
    key_error: _Raw = _NONE


_records: Final = msgspec.json.Decoder(_Record)


class _Plain(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    payload: str | None
    key: str | None = None
    ts: int | None = None
    tstype: str | None = None
    headers: msgspec.UnsetType | None = msgspec.UNSET
    payload_error: msgspec.UnsetType | None = msgspec.UNSET


_plain: Final = msgspec.json.Decoder(_Plain)
_anything: Final = msgspec.json.Decoder()


def _record(text: bytes) -> _Record | None:
    """The wrapping object, or None for a text that is none; raises what msgspec raises for what is no JSON."""
    record = _records.decode(text)
    there = sum(bytes(part) != b"" for part in (record.topic, record.partition, record.offset))
    body = _body(record)
    return record if body and there >= 2 else None


def _body(record: _Record) -> bytes:
    return bytes(record.payload) or bytes(record.value) or bytes(record.content)


def is_record(text: bytes) -> bool:
    """Is the text a JSON object that wraps a message?"""
    try:
        return _record(text) is not None
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def payload_of(text: bytes) -> bytes:
    """The payload of a wrapped message as it stands there, quotes included; empty where there is none."""
    try:
        record = _record(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return b""
    return b"" if record is None else _body(record)


Plain = tuple[bytes | None, bytes | None, str, int, int, int | None, str | None]


def unwrap_plain(text: bytes) -> Plain | None:
    """Value, key, topic, partition, offset, milliseconds and time type of an object as ``kcat -J`` prints it, where
    payload and key are texts that need no second look; None for any other, which is left to :func:`unwrap`."""
    try:
        found = _plain.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    payload, key, kind = found.payload, found.key, found.tstype
    if payload is not None and payload[:1] != "{":
        return None
    if key is not None and (not key.isprintable() or not key.isascii() or key[:5] == "atMSG"):
        return None
    if found.payload_error is not msgspec.UNSET or max(found.partition, found.offset, found.ts or 0) >= _HUGE:
        return None
    if min(found.partition, found.offset, found.ts or 0) < -1:
        return None
    return (
        None if payload is None else payload.encode(),
        None if key is None else key.encode(),
        found.topic,
        found.partition,
        found.offset,
        None if found.ts == -1 else found.ts,
        None if kind is None else TIME_TYPES.get(kind.lower(), kind),
    )


def unwrap(text: bytes, encoding: str, characters: str) -> Parsed | None:
    """The message in a wrapping object; None for a JSON object that wraps none."""
    try:
        record = _record(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return Parsed(MALFORMED, None, reason=f"a JSON object with a message in it was expected: {error}")
    if record is None:
        return None
    facts = _facts(record)
    key = _key(bytes(record.key), encoding, characters)
    failed = _text(record.payload_error)
    if failed is not None:
        return Parsed(MALFORMED, None, key, facts, f"the tool that wrote it did not decode the value: {failed}")
    raw = _body(record)
    value = _value(raw, encoding, characters)
    if value is None and raw != b"null":
        return Parsed(MALFORMED, None, key, facts, f"a value in {encoding} was expected, found {shown(raw)}")
    return Parsed(MESSAGE, value, key, facts)


def _value(raw: bytes, encoding: str, characters: str) -> bytes | None:
    """A value: a text is what it stands for, other JSON as it is. None: null, or it cannot be decoded."""
    if raw[:1] != b'"':
        return None if raw == b"null" else raw
    inside = raw[1:64].lstrip()
    if inside.startswith(b"{"):
        return plain_string(raw)
    if encoding in ("base64", "hex"):
        plain = plain_string(raw)
        return None if plain is None else DECODERS[encoding](plain, characters)
    odd = _not_utf8(raw)
    if odd or encoding == "escaped" or inside.startswith((BINARY, rb"\u00")):
        value = binary_string(raw, characters)
        if value is not None and (odd or is_binary(value)):
            return value
    return plain_string(raw)


def _key(raw: bytes, encoding: str, characters: str) -> bytes | None:
    """A key likewise; one in base64 or hex digits must come out as text or as a binary message does."""
    if raw in (b"", b"null"):
        return None
    if encoding in ("base64", "hex"):
        value = _value(raw, encoding, characters)
        if value is not None and raw[:1] == b'"' and (is_binary(value) or not _not_utf8(value)):
            return value
    value = _value(raw, "text", characters)
    return raw if value is None else value


def _not_utf8(raw: bytes) -> bool:
    if raw.isascii():
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _facts(record: _Record) -> dict[str, str | None]:
    facts: dict[str, str | None] = {
        "topic": _text(record.topic),
        "partition": _text(record.partition),
        "offset": _text(record.offset),
    }
    time = _text(record.ts) or _text(record.timestamp)
    if time is not None and time != "-1":
        whole = time.removeprefix("-").isdecimal() and len(time) < 19
        facts["timestamp"] = time_text(int(time)) if whole else time
    kind = _text(record.tstype) or _text(record.time_type)
    if kind is not None:
        facts["timestamp_type"] = TIME_TYPES.get(kind.lower(), kind)
    if bytes(record.headers) not in (b"", b"null"):
        facts.update(header_facts(_pairs(bytes(record.headers))))
    return facts


def _text(raw: _Raw) -> str | None:
    """A scalar as text; null and what is not there is None."""
    there = bytes(raw)
    if there in (b"", b"null"):
        return None
    if there[:1] != b'"':
        return text_of(there)
    plain = plain_string(there)
    return text_of(there if plain is None else plain)


def _pairs(raw: bytes) -> list[tuple[str, str | None]]:
    """Names and values of headers: a list of both in turn, a list of objects, or a map."""
    odd = _not_utf8(raw)  # values are bytes: they are read as characters of one byte each
    try:
        found: Any = _anything.decode(raw.decode("latin-1").encode() if odd else raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return [("", text_of(raw))]
    if isinstance(found, dict):
        pairs = [(name, item) for name, items in found.items() for item in _listed(items)]
    elif not isinstance(found, list):
        pairs = [("", found)]
    elif all(isinstance(item, dict) for item in found):
        pairs = [(item.get("key"), item.get("value")) for item in found]
    else:
        pairs = list(zip_longest(found[::2], found[1::2]))
    return [(_scalar(name, odd) or "", _scalar(item, odd)) for name, item in pairs]


def _listed(items: Any) -> list[Any]:
    return items if isinstance(items, list) else [items]


def _scalar(item: Any, odd: bool) -> str | None:
    if item is None:
        return None
    text = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    try:
        return text_of(text.encode("latin-1")) if odd else text
    except UnicodeError:
        return text


def header_facts(pairs: list[tuple[str, str | None]]) -> dict[str, str | None]:
    """Headers as facts; a name that repeats gets ``#2``, ``#3``."""
    names = unique_names(f"{HEADER}{name}" for name, _ in pairs)
    return {name: value for name, (_, value) in zip(names, pairs, strict=True)}


# --- records in logs --------------------------------------------------------------------------------------------------

_JAVA: Final = re.compile(
    rb"ConsumerRecord\(topic = (.*?), partition = ([0-9]{1,10}), (?:leaderEpoch = [^,]*, )?offset = ([0-9]{1,19}), "
    rb"(\w+) = (-?[0-9]{1,19}), (?:[\w ]+ = [^,(]*, )*"
    rb"(?:headers = RecordHeaders\(headers = \[(.*?)\], isReadOnly = \w+\), )?key = (.*)\)",
    re.DOTALL,
)
_JAVA_HEADER: Final = re.compile(rb"RecordHeader\(key = (.*?), value = (?:\[([-0-9, ]*)\]|null)\)")
_TEXT: Final = rb"""(None|b?'(?:[^'\\]|\\.)*+'|b?"(?:[^"\\]|\\.)*+")"""
_PYTHON_RECORD: Final = re.compile(
    rb"ConsumerRecord\(topic=" + _TEXT + rb", partition=([0-9]{1,10}), (?:leader_epoch=[^,]*, )?offset=([0-9]{1,19}), "
    rb"timestamp=(-?[0-9]{1,19}|None), timestamp_type=(\w+), key=" + _TEXT + rb", value=" + _TEXT + rb"[,)]"
)
_PYTHON_HEADER: Final = re.compile(rb"\(" + _TEXT + rb", " + _TEXT + rb"\)")
_VALUE: Final = b", value = "


def printed_record(text: bytes) -> Parsed | None:
    """The message of a ``ConsumerRecord`` as Java or kafka-python prints it, in a line of a log; None without one."""
    java = _JAVA.search(text)
    if java is not None:
        topic, partition, offset, kind, time, listed, rest = java.groups()
        headers = [(text_of(name), _signed(codes)) for name, codes in _JAVA_HEADER.findall(listed or b"")]
        key, value = _parted(rest)
        facts = _printed_facts(text_of(topic), partition, offset, time, kind.decode())
        return Parsed(MESSAGE, value, key, facts | header_facts(headers))
    found = _PYTHON_RECORD.search(text)
    if found is None:
        return None
    name, partition, offset, time, kind, key, value = found.groups()
    pairs = [(_literal(one), _literal(other)) for one, other in _PYTHON_HEADER.findall(text, found.end())]
    headers = [(text_of(one or b""), None if other is None else text_of(other)) for one, other in pairs]
    facts = _printed_facts(text_of(_literal(name) or b""), partition, offset, time, kind.decode())
    return Parsed(MESSAGE, _literal(value), _literal(key), facts | header_facts(headers))


def _printed_facts(topic: str, partition: bytes, offset: bytes, time: bytes, kind: str) -> dict[str, str | None]:
    facts: dict[str, str | None] = {"topic": topic, "partition": partition.decode(), "offset": offset.decode()}
    if time not in (b"-1", b"None"):
        facts["timestamp"] = time_text(int(time))
        facts["timestamp_type"] = TIME_TYPES.get(kind.lower(), kind)
    return facts


def _parted(text: bytes) -> tuple[bytes | None, bytes | None]:
    """Key and value, separated by the first ``, value = `` that a JSON document or null follows."""
    at = first = text.find(_VALUE)
    while at >= 0 and text[at + len(_VALUE) :][:1] != b"{" and text[at + len(_VALUE) :] != b"null":
        at = text.find(_VALUE, at + 1)
    at = first if at < 0 else at
    key, value = text[:at], text[at + len(_VALUE) :]
    return None if key == b"null" else key, None if value == b"null" else value


def _signed(codes: bytes) -> str | None:
    """A header's bytes, which Java prints as numbers with a sign."""
    return text_of(bytes(int(code) & 0xFF for code in codes.split(b",") if code.strip()))


def _literal(text: bytes) -> bytes | None:
    """The bytes of a literal of Python, or the UTF-8 of its text; None for ``None``."""
    if text == b"None":
        return None
    if text[:1] == b"b":
        return bytes(codecs.escape_decode(text[2:-1])[0])
    return str(ast.literal_eval(text.decode("utf-8", "replace"))).encode()
