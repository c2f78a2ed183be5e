"""Messages that a tool wrapped into an object or printed as a record, and binary values in base64.

Every tool has names of its own for the parts of a message (:data:`_PARTS`), and may print a payload as a text or, if it
decoded it, as JSON. A text that has none of them is a message itself.
"""

from __future__ import annotations

import ast
import binascii
import codecs
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

import msgspec

from cdcwb.formats.containers.messages import (
    MALFORMED,
    MESSAGE,
    ParsedSegment,
    header_facts,
    is_utf8,
    shown,
    text_of,
    time_text,
)

# --- encodings --------------------------------------------------------------------------------------------------------

BINARY: Final = b"atMSG"
"""The beginning of Qlik's envelope in Avro."""

_BINARY: Final = ("atMSG", "\0")
_ID: Final = 5  # bytes of a zero byte and a schema id
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_PRINTED: Final = re.compile(rb"\s*\{'")
_MOST_LITERAL: Final = 1 << 20  # bytes of a message as Python prints it: to parse it takes a hundred times its size


def is_binary(value: bytes) -> bool:
    """Whether it begins as a binary message does."""
    return value.startswith(BINARY) or (len(value) > _ID and value[0] == 0)


def base64(text: bytes) -> bytes | None:
    """The bytes of a base64 text, in either alphabet, with or without its padding; None if it is none."""
    text = _unquoted(text.strip()).rstrip(b"=")
    if b"-" in text or b"_" in text:
        text = text.translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True) if text else None
    except binascii.Error:
        return None


def python(text: bytes) -> bytes | None:
    """The JSON text of an object as Python prints it; None if it is none."""
    if len(text) > _MOST_LITERAL or not _PRINTED.match(text):
        return None
    try:
        value = ast.literal_eval(text.strip().decode())
        return msgspec.json.encode(value) if isinstance(value, dict) else None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


DECODERS: Final[dict[str, Callable[[bytes], bytes | None]]] = {"base64": base64, "python": python}
"""The decoder of each encoding."""


def _unquoted(text: bytes) -> bytes:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in b"'\"" else text


# --- objects that wrap messages ---------------------------------------------------------------------------------------

_PARTS: Final = {
    "value": ("payload", "value", "content"),
    "key": ("key",),
    "topic": ("topic",),
    "partition": ("partition",),
    "offset": ("offset",),
    "timestamp": ("ts", "timestamp"),
    "timestamp_type": ("tstype", "timestampType"),
    "headers": ("headers",),
    "error": ("payload_error",),
}
"""What tools call the parts of a message: kcat (``payload``, ``ts``), a topic saved as JSON, the REST proxy, rpk, AWS
Lambda (``value``), Kafka UIs (``content``)."""

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

_raw: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything: Final = msgspec.json.Decoder(float_hook=str)
_INVALID: Final = (ValueError, RecursionError)


def _parts(text: bytes, has_bytes: bool) -> dict[str, Any] | None:
    """The parts of a wrapped message by their names in :data:`_PARTS`; None if it is no such object. Raises what
    msgspec raises for invalid JSON."""
    fields = _anything.decode(text.decode("latin-1").encode() if has_bytes else text)
    if not isinstance(fields, dict):
        return None
    names = _names_of(tuple(fields))
    return None if names is None else {part: fields[one] for part, one in names.items()}


@lru_cache(maxsize=1024)
def _names_of(fields: tuple[str, ...]) -> dict[str, str] | None:
    """The parts of a message, with the names that they have among these fields; None if they are not those of a wrapped
    message. rpk leaves out a null value."""
    found = ((part, next((name for name in names if name in fields), None)) for part, names in _PARTS.items())
    named = {part: name for part, name in found if name is not None}
    places = sum(part in named for part in ("topic", "partition", "offset"))
    is_wrapped = "value" in named and places >= 2
    return named if is_wrapped or (places == 3 and "timestamp" in named) else None


def is_record(text: bytes) -> bool:
    """Whether the text is a JSON object that wraps a message."""
    try:
        return _parts(text, not is_utf8(text)) is not None
    except _INVALID:
        return False


def unwrap(text: bytes, encoding: str) -> ParsedSegment | None:
    """The message in a wrapping object; None for a JSON object that wraps none. In a text that is not UTF-8 a character
    is a byte: kcat prints the bytes of a value as they are, except control characters."""
    has_bytes = not is_utf8(text)
    try:
        parts = _parts(text, has_bytes)
        value = None if parts is None else parts.get("value")
        if parts and not has_bytes and value.__class__ is str and value.startswith(_BINARY):
            parts, has_bytes = _parts(text, True) or parts, True
    except _INVALID as reason:
        return ParsedSegment(MALFORMED, None, reason=f"a JSON object with a message in it was expected: {reason}")
    if parts is None:
        return None
    facts, key = _facts(parts, has_bytes), _key(parts, text, encoding, has_bytes)
    found = parts.get("value")
    value = _decoded(found, text, "value", encoding, has_bytes)
    if parts.get("error") is not None:
        sentence = f"the tool that wrote it did not decode the value: {parts['error']}"
    elif value is None and found is not None:
        sentence = f"a value in {encoding} was expected, found {shown(_encoded(found, has_bytes))}"
    else:
        return ParsedSegment(MESSAGE, None if value == b"null" else value, key, facts)
    return ParsedSegment(MALFORMED, None, key, facts, sentence)


def _decoded(value: Any, text: bytes, part: str, encoding: str, has_bytes: bool) -> bytes | None:
    """A value: the bytes of a text, decoded, or other JSON as it is in ``text``; None for null, and if it cannot be
    decoded."""
    if value is None:
        return None
    if value.__class__ is str:
        raw = _encoded(value, has_bytes)
        return DECODERS[encoding](raw) if encoding in DECODERS and value[:64].lstrip()[:1] != "{" else raw
    fields = _raw.decode(text)
    return next((bytes(fields[name]) for name in _PARTS[part] if name in fields), b"")


def _encoded(text: str, has_bytes: bool) -> bytes:
    """A text in UTF-8, or with a byte for each character."""
    try:
        return text.encode("latin-1" if has_bytes else "utf-8")
    except UnicodeError:
        return text.encode()


def _key(parts: Mapping[str, Any], text: bytes, encoding: str, has_bytes: bool) -> bytes | None:
    """A key likewise; one in base64 or hex digits must be text or a binary message."""
    key = parts.get("key")
    found = _decoded(key, text, "key", encoding, has_bytes)
    if encoding not in DECODERS or not isinstance(key, str) or (found and (is_binary(found) or is_utf8(found))):
        return found
    return _encoded(key, has_bytes)


def _facts(parts: Mapping[str, Any], has_bytes: bool) -> dict[str, str | None]:
    facts = {name: scalar(parts.get(name)) for name in ("topic", "partition", "offset")}
    time, kind, headers = parts.get("timestamp"), parts.get("timestamp_type"), parts.get("headers")
    if time is not None and time != -1:
        facts["timestamp"] = time_text(time) if isinstance(time, int) else str(time)
    if kind is not None:
        facts["timestamp_type"] = TIME_TYPES.get(str(kind).lower(), str(kind))
    if headers:
        facts |= headers_of(headers)
    return {name: one and text_of(_encoded(one, True)) for name, one in facts.items()} if has_bytes else facts


def headers_of(found: Any) -> dict[str, str | None]:
    """Headers as facts: from a list of names and values in turn (kcat), a list of pairs or of objects (``{"key": name,
    "value": value}``, or ``{name: [bytes as numbers]}`` as AWS Lambda has it), or an object."""
    pairs: list[tuple[Any, Any]]
    if isinstance(found, dict):
        pairs = [(key, one) for key, items in found.items() for one in (items if isinstance(items, list) else [items])]
    elif not isinstance(found, list):
        pairs = [("", found)]
    elif all(isinstance(item, dict) for item in found):
        named = ([(one.get("key"), one.get("value"))] if "key" in one else one.items() for one in found)
        pairs = [pair for some in named for pair in some]
    else:
        pairs = found if isinstance(found[0], tuple) else list(zip_longest(found[::2], found[1::2]))
    return header_facts([(scalar(name) or "", scalar(item)) for name, item in pairs])


def scalar(item: Any) -> str | None:
    """A value as text; a list of numbers of bytes as these."""
    if item is None or item.__class__ is str:
        return item
    if item.__class__ is int:
        return str(item)
    if isinstance(item, list) and item and all(isinstance(one, int) and -128 <= one < 256 for one in item):
        item = bytes(one & 0xFF for one in item)
    return text_of(item) if isinstance(item, bytes) else msgspec.json.encode(item).decode()


# --- records as programs print them -----------------------------------------------------------------------------------

_JAVA: Final = re.compile(
    rb"ConsumerRecord\(topic = (.*?), partition = ([0-9]{1,10}), (?:leaderEpoch = [^,]*, )?offset = ([0-9]{1,19}), "
    rb"(\w+) = (-?[0-9]{1,19}), (?:[\w ]+ = [^,(]*, )*"
    rb"(?:headers = RecordHeaders\(headers = \[(.*?)\], isReadOnly = \w+\), )?key = (.*)\)",
    re.DOTALL,
)
_VALUE: Final = re.compile(rb", value = (?=\{|null\Z)")
_JAVA_HEADER: Final = re.compile(rb"RecordHeader\(key = (.*?), value = (?:\[([-0-9, ]*)\]|null)\)")
PYTHON_RECORD: Final = b"ConsumerRecord(topic='"
"""The beginning of a record as kafka-python prints it."""
NOT_PRINTED_BY_PYTHON: Final = (
    "records as kafka-python prints them are not read: print their values alone, or take the topic with kcat -J"
)
_KCAT: Final = re.compile(
    rb"Topic ([\w.-]+) ?\[([0-9]{1,10})\], offset: ([0-9]{1,19}), key: (.*?), payload: (-?[0-9]+) bytes: ?(.*)",
    re.DOTALL,
)
# `|(?!)` in a possessive group: see tests/possessive.py
_BYTES: Final = re.compile(
    rb"""(?<![0-9A-Za-z_])[bB](['"])(?=\s*+(?:\\n|\\t|\\r)*+\s*+\{)"""
    rb"""((?:[^'"\\\n]++|\\.|(?!\1)['"]|(?!))*+)(\1?)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"""\\(?:x[0-9A-Fa-f]{2}|[0-3]?[0-7]{1,2}|[abfnrtv\\'"])""")
PRINTED: Final = (b"ConsumerRecord(", b"Topic ", b"b'", b'b"')
"""What a line that is a printed record has in it."""


def printed_record(text: bytes) -> ParsedSegment | None:
    """The message in a line of a log: of a ``ConsumerRecord`` as Java prints it, of the format that the
    manual of kcat proposes, or in a Python bytes literal with a JSON object; None without one."""
    kcat = _KCAT.match(text)
    if kcat is not None:
        topic, partition, offset, key, size, value = kcat.groups()
        facts = _facts({"topic": text_of(topic), "partition": partition.decode(), "offset": offset.decode()}, False)
        return ParsedSegment(MESSAGE, None if size == b"-1" else value, key or None, facts)
    java = _JAVA.search(text)
    if java is not None:
        topic, partition, offset, kind, time, listed, rest = java.groups()
        headers = (  # Java prints bytes as numbers with a sign
            (text_of(name), text_of(bytes(int(code) & 0xFF for code in codes.split(b",") if code.strip())))
            for name, codes in _JAVA_HEADER.findall(listed or b"")
        )
        parts: dict[str, Any] = {"topic": text_of(topic), "partition": partition.decode(), "offset": offset.decode()}
        parts |= {} if time == b"-1" else {"timestamp": int(time), "timestamp_type": kind.decode()}
        found = _VALUE.split(rest, 1)
        key, value = found if len(found) == 2 else rest.partition(b", value = ")[::2]
        facts = _facts(parts, False) | header_facts(headers)
        return ParsedSegment(MESSAGE, None if value == b"null" else value, None if key == b"null" else key, facts)
    return ParsedSegment(MALFORMED, None, reason=NOT_PRINTED_BY_PYTHON) if PYTHON_RECORD in text else _of_literal(text)


def _of_literal(text: bytes) -> ParsedSegment | None:
    """The message that a program logged as a bytes literal; nothing is evaluated."""
    found = _BYTES.search(text)
    if found is None:
        return None
    if not found[3]:
        return ParsedSegment(MALFORMED, None, reason="a bytes literal without a closing quote")
    return ParsedSegment(MESSAGE, _ESCAPE.sub(lambda escape: codecs.escape_decode(escape[0])[0], found[2]))
