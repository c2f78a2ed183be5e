"""Messages as the bytes in which tools write them down (``docs/formats/qlik-kafka.md §9``)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cdcwb_synth.qlik.options import KafkaOptions

__all__ = ["Message", "renderer"]

_SHORT: Final = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r"}
_ESCAPES: Final = (
    (b"\\", b"\\\\"),  # first, since every escape begins with one
    (b'"', b'\\"'),
    *((bytes([code]), _SHORT.get(code, b"\\u%04X" % code)) for code in range(32)),
)
"""What JSON does not allow in a string, and how it is written."""

_EACH: Final = [dict(_ESCAPES).get(bytes([byte]), bytes([byte])) for byte in range(256)]
_FEW: Final = 32  # bytes that are written one by one


class Message(NamedTuple):
    """A Kafka record: its place there, its time (milliseconds since 1970), key and value (None: null). ``note`` is what
    its sender wants to know again when it is in a file."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    note: Any = None


def renderer(options: KafkaOptions) -> Callable[[Message], bytes]:
    """The function that writes a message as its bytes in a file of the options' container."""
    spell = {"base64": base64.b64encode, "hex": lambda value: value.hex().encode()}.get(options.encoding, bytes)

    def text(value: bytes | None) -> bytes:
        return b"null" if value is None else spell(value)

    match options.container:
        case "lines":
            return lambda message: text(message.value) + b"\n"
        case "console":
            return _console(options.parts, text)
        case "kcat":
            return _kcat(spell)
        case "documents":
            return _document
        case _:
            return lambda message: message.value or b""


def _console(parts: tuple[str, ...], text: Callable[[bytes | None], bytes]) -> Callable[[Message], bytes]:
    """A line of the console consumer: properties, key and value with tabs between them."""
    made: dict[str, Callable[[Message], bytes]] = {
        "timestamp": lambda one: f"CreateTime:{one.time}".encode(),
        "partition": lambda one: f"Partition:{one.partition}".encode(),
        "offset": lambda one: f"Offset:{one.offset}".encode(),
        "headers": lambda one: b"NO_HEADERS",
        "key": lambda one: text(one.key),
    }
    writers = [made[part] for part in parts]
    return lambda one: b"\t".join([*(write(one) for write in writers), text(one.value)]) + b"\n"


def _kcat(spell: Callable[[bytes], bytes]) -> Callable[[Message], bytes]:
    """A line of ``kcat -J``: control characters, quotes and backslashes are escaped, all other bytes are unchanged."""

    def quoted(value: bytes | None) -> bytes:
        if value is None:
            return b"null"
        text = spell(value)
        if len(text) < _FEW:
            return b'"' + b"".join([_EACH[byte] for byte in text]) + b'"'
        for character, escape in _ESCAPES:
            text = text.replace(character, escape)
        return b'"' + text + b'"'

    def render(one: Message) -> bytes:
        head = (
            f'{{"topic":"{one.topic}","partition":{one.partition},"offset":{one.offset},"tstype":"create",'
            f'"ts":{one.time},"broker":0,"key":'
        )
        return head.encode() + quoted(one.key) + b',"payload":' + quoted(one.value) + b"}\n"

    return render


def _document(message: Message) -> bytes:
    """A JSON document over several lines."""
    value = json.loads(message.value or b"null")
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
