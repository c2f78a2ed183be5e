"""What is in the lines of a file: the properties that a console consumer prints before a value, separators, and notes.

A console consumer prints, each only if it was asked to and always in this order: ``CreateTime:`` or ``LogAppendTime:``
and milliseconds (``NO_TIMESTAMP``), ``Partition:0``, ``Offset:17``, ``Delivery:1``, headers ``a:1,b:2``
(``NO_HEADERS``), key and value, with a separator between each and the next (a tab, unless ``key.separator`` says
otherwise). Older ones print the bare partition behind the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

from cdcwb.formats.messages.batch import FILLER, MALFORMED, MESSAGE, NOTE, Parsed, shown, text_of, time_text
from cdcwb.formats.messages.container import escaped, unescaped
from cdcwb.formats.messages.records import (
    DECODERS,
    RAW,
    begins_message,
    header_facts,
    is_binary,
    printed_record,
    unwrap,
)

__all__ = [
    "NO_HEADERS",
    "NULL",
    "TAIL",
    "TOKENS",
    "Layout",
    "clear",
    "header_pairs",
    "is_comment",
    "is_document",
    "is_note",
    "parse",
    "remark",
]


# --- notes ------------------------------------------------------------------------------------------------------------

_REMARK: Final = re.compile(
    rb"Processed a total of [0-9]+ messages?\s*\Z"
    rb"|% (?:Reached end of|Reading|Auto-|Waiting|Group|Headers|ERROR|Terminated|Message|Fatal|Consumed|Exiting)"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
    rb"|\^C|SLF4J: |log4j:|OpenJDK |WARNING: |Picked up \w*JAVA\w*_OPTIONS"
    rb"|\[?[\w.-]{1,64}@[\w.-]{1,255}[ :][^\]{]{0,200}\]?[$#] "  # a prompt: user@host:folder$, [user@host folder]$
    rb"|(?:[$#>]|(?:PS )?[A-Za-z]:\\[^<>|{]{0,200}>) ?(?:\S*[/\\])?(?:kafka-|kcat|kafkacat|docker |kubectl )"
    rb"|(?:sudo )?(?:[^\s{]*[/\\])?(?:kafka-[a-z-]+(?:\.sh|\.bat)?|kcat|kafkacat|rpk topic consume) (?:[^\s{]+ )*-"
    rb"|(?:sudo )?(?:docker|podman|kubectl) (?:exec|run|compose) [^{]{0,400}\Z"
    rb"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+\S* [^{]{0,100}\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b[^{]*\Z"
)
_MARKED: Final = re.compile(rb"(?:#|//|--|/\*|\*|==|~~|```)[^{}<>\x00-\x08]{0,400}\Z")
_TEXT: Final = re.compile(rb"""(?:[0-9]{1,3}[.):] ?|\()?[A-Za-z\x80-\xff][^{}\[\]<>"\\=\x00-\x1f\x7f]{0,400}\Z""")
_WORD: Final = re.compile(rb"\W*(?:(?:[A-Z]+|[A-Z]?[a-z]+)(?:[-_'/](?:[A-Z]+|[A-Z]?[a-z]+))*|[\x80-\xff]+)\W*\Z")
_MARK: Final = re.compile(rb"(?:[0-9]{1,3}[.):]|\([0-9]{1,3}\)[.:]?|[^A-Za-z0-9\x80-\xff]+)\Z")
_HEX: Final = re.compile(rb"[0-9A-Fa-f\s]*\Z")
_LONGEST_WORD: Final = 32
_LITERAL: Final = re.compile(rb"(?:true|false|null)\b")
_TOKEN: Final = re.compile(rb"CreateTime:|LogAppendTime:|NO_TIMESTAMP|Partition:|Offset:|Delivery:|NO_HEADERS|atMSG")


def remark(text: bytes) -> bool:
    """Is the line (without white space around it) something that a consumer, a shell or a person says, and no
    message?"""
    return is_comment(text) or is_note(text)


def is_comment(text: bytes) -> bool:
    """Is the line (without white space around it) of a consumer or a shell, or marked as a comment?"""
    return _REMARK.match(text) is not None or _MARKED.match(text) is not None


def is_note(text: bytes) -> bool:
    """Is the line (without white space around it) a heading or a comment: words without any sign of data in them?

    A part of a JSON document has quotes, brackets or a bare value in it, one of XML has tags; an encoded message is no
    word in small or in capital letters.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    if _MARKED.match(text):
        return True
    if not _TEXT.match(text) or _LITERAL.match(text) or _TOKEN.match(text):
        return False
    parts = [part for part in text.split() if not _MARK.match(part)]
    if len(parts) > 1 and _HEX.match(text):
        return False
    return 2 * sum(len(part) <= _LONGEST_WORD and _WORD.match(part) is not None for part in parts) > len(parts)


# --- layout -----------------------------------------------------------------------------------------------------------

NULL: Final = b"null"
_NO_VALUE: Final = (NULL, b"NULL")
"""A null value as consumers print it; ``NULL``: ``kcat -Z``."""
NO_HEADERS: Final = b"NO_HEADERS"
TAIL: Final = "tail"
"""The field that stands behind the value: the partition of older consumers."""

TOKENS: Final = {
    "timestamp": re.compile(rb"(?:(CreateTime|LogAppendTime):(-?[0-9]{1,19})|NO_TIMESTAMP)"),
    "partition": re.compile(rb"Partition:([0-9]{1,10})"),
    "offset": re.compile(rb"Offset:(-?[0-9]{1,19})"),
    "delivery": re.compile(rb"Delivery:([0-9]{1,10}|NONE)"),
}
"""The properties that tell themselves, in the order in which they are printed."""

_ATTEMPTS: Final = 64  # separators that are tried where several could end a key that is JSON
_document: Final = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the texts of a file are read.

    ``records``: they are JSON objects that a tool wrapped around messages. Else ``fields`` stand before a value
    (``timestamp``, ``partition``, ``offset``, ``delivery``, ``headers``, ``key``; :data:`TAIL` behind it), each
    followed by ``separator``. ``encoding`` is text, base64, hex or escaped, with ``characters`` as
    :data:`cdcwb.formats.messages.records.RAW` says. ``marks``: values are raw bytes, in which newlines may stand, and
    a line begins with one of these.
    """

    fields: tuple[str, ...] = ()
    separator: bytes = b"\t"
    encoding: str = "text"
    characters: str = RAW
    records: bool = False
    marks: tuple[bytes, ...] = ()

    def to_settings(self) -> dict[str, str]:
        """As texts, under the names of the options that override them where there are such."""
        settings = {"encoding": self.encoding}
        if self.records:
            settings["records"] = "true"
        if self.fields:
            settings["fields"] = ",".join(self.fields)
            settings["separator"] = escaped(self.separator)
        if self.encoding == "escaped" or self.records:
            settings["characters"] = self.characters
        if self.marks:
            settings["marks"] = ",".join(mark.hex() for mark in self.marks)
        return settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Layout:
        """The layout that :meth:`to_settings` gave."""
        return cls(
            tuple(filter(None, settings.get("fields", "").split(","))),
            unescaped("separator", settings.get("separator", r"\t")),
            settings.get("encoding", "text"),
            settings.get("characters", RAW),
            settings.get("records") == "true",
            tuple(bytes.fromhex(mark) for mark in settings.get("marks", "").split(",") if mark),
        )


def parse(text: bytes, layout: Layout) -> Parsed:
    """One line, taken apart: the readable way, which the fast one (``columns.py``) agrees with."""
    bare = text.strip(b" \t\r\n\v\f")
    if not bare:
        return Parsed(FILLER, None, reason="a blank line")
    if layout.records:
        found = unwrap(bare, layout.encoding, layout.characters) if bare[:1] == b"{" else printed_record(bare)
        if found is not None:
            return found
    elif layout.fields:
        found = _console(text, layout)
        if found is not None:
            return found
    if bare[:1] == b"{" and (not layout.fields or bare[-1:] == b"}"):
        return Parsed(MESSAGE, text.lstrip())
    if is_comment(bare):
        return Parsed(FILLER, None, reason="a note between messages")
    if is_note(bare):
        return Parsed(NOTE, None, reason=f"a message was expected, found the text {shown(bare)}")
    if layout.records or layout.fields or (layout.marks and bare != NULL and not is_binary(text)):
        return Parsed(MALFORMED, None, reason=f"{_expected(layout)} was expected, found {shown(text)}")
    return value_of(text, layout, None, {})


def is_document(text: bytes) -> bool:
    """Is the text one whole JSON object?"""
    text = text.lstrip()
    if text[:1] != b"{":
        return False
    try:
        _document.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True


def value_of(text: bytes, layout: Layout, key: bytes | None, facts: dict[str, str | None]) -> Parsed:
    """A value as it is printed, decoded."""
    bare = text.strip()
    if bare == NULL:
        return Parsed(MESSAGE, None, key, facts)
    if layout.encoding == "text" or layout.marks or bare[:1] == b"{":
        return Parsed(MESSAGE, text if layout.marks else text.lstrip(), key, facts)
    value = DECODERS[layout.encoding](bare, layout.characters)
    if value is None:
        reason = f"a value in {layout.encoding} was expected, found {shown(text)}"
        return Parsed(MALFORMED, None, key, facts, reason)
    return Parsed(MESSAGE, value, key, facts)


def _expected(layout: Layout) -> str:
    if layout.records:
        return "a JSON object with a message in it"
    if not layout.fields:
        return "the beginning of a binary message"
    names = [name for name in layout.fields if name != TAIL]
    return f"a line of {', '.join([*names, 'value'])} with '{escaped(layout.separator)}' between"


def _console(text: bytes, layout: Layout) -> Parsed | None:
    """A console consumer's line; None for a line that is none."""
    facts: dict[str, str | None] = {}
    rest = text
    for name in layout.fields:
        if name in TOKENS:
            found = TOKENS[name].match(rest)
            if found is None or not rest.startswith(layout.separator, found.end()):
                return None
            rest = rest[found.end() + len(layout.separator) :]
            facts.update(_token_facts(name, found))
        elif name == "headers":
            pairs, rest = header_pairs(rest, layout.separator)
            if pairs is None:
                return None
            facts.update(header_facts(pairs))
    if TAIL in layout.fields:
        rest, separator, partition = rest.rpartition(layout.separator)
        if not separator or not partition.isdigit():
            return None
        facts["partition"] = text_of(partition)
    if "key" not in layout.fields:
        return value_of(rest, layout, None, facts)
    parted = split(rest, layout)
    if parted is None:
        return None
    key, value = parted
    return value_of(value, layout, None if key == NULL else _key(key, layout), facts)


def _token_facts(name: str, found: re.Match[bytes]) -> dict[str, str | None]:
    if name == "delivery":
        return {}
    if name != "timestamp":
        return {name: found[1].decode()}
    if found[1] is None:
        return {"timestamp_type": "NO_TIMESTAMP"}
    return {"timestamp": time_text(int(found[2])), "timestamp_type": found[1].decode()}


def header_pairs(text: bytes, separator: bytes) -> tuple[list[tuple[str, str | None]] | None, bytes]:
    """The headers at the begin of a text and what stands behind them; None where there are none.

    Headers are parted by commas. Where the separator is a comma too, they end before the first part without a colon,
    or with a bracket or quote.
    """
    if text.startswith(NO_HEADERS + separator):
        return [], text[len(NO_HEADERS) + len(separator) :]
    if separator == b",":
        parts: list[bytes] = []
        start = 0
        while (at := text.find(b",", start)) >= 0 and _HEADER.match(text[start:at]):
            parts.append(text[start:at])
            start = at + 1
            if len(parts) > _MOST_PAIRS:
                break
        rest = text[start:]
    else:
        piece, found, rest = text.partition(separator)
        parts = piece.split(b",") if found else []
    if not parts or b":" not in parts[0]:
        return None, text
    joined: list[list[bytes]] = []
    for part in parts:
        if b":" in part:
            joined.append([part])
        else:
            joined[-1].append(part)  # a value with a comma in it
    return [_pair(b",".join(some)) for some in joined], rest


_HEADER: Final = re.compile(rb"""[^:,{}\[\]"]+:[^{}\[\]"]*\Z""")
_MOST_PAIRS: Final = 1000


def _pair(part: bytes) -> tuple[str, str | None]:
    name, _, value = part.partition(b":")
    return text_of(name), None if value == NULL else text_of(value)


def split(text: bytes, layout: Layout) -> tuple[bytes, bytes] | None:
    """Key and value of a text that has both; None where there is no separator that fits.

    They part at the first separator behind which a JSON document, ``null`` or an encoded message stands. Only where the
    key may be JSON itself does it take a look at the whole rest.
    """
    separator = layout.separator
    size = len(separator)
    tombstone = next((none for none in _NO_VALUE if text.endswith(separator + none)), None)
    places = [found.start() for found in _before_brace(separator).finditer(text)]
    if places and text[:1] in (b"{", b"[", b'"') and not (len(places) == 1 and text[-1:] == b"}" and clear(separator)):
        whole = [at for at in places[:_ATTEMPTS] if is_document(text[at + size :])][:1]
        places = whole or ([] if tombstone or text[-1:] == b"}" else places)
    if places:
        return text[: places[0]], text[places[0] + size :]
    if tombstone is not None:
        return text[: -len(tombstone) - size], NULL
    if text.endswith(separator) and is_document(text[:-size]):
        return text[:-size], NULL  # kcat prints nothing for a null value
    at = text.find(separator)
    for _ in range(_ATTEMPTS):
        if at < 0:
            break
        rest = text[at + size :]
        value = rest if layout.encoding == "text" else DECODERS[layout.encoding](rest, layout.characters)
        if value is not None and is_binary(value):
            return text[:at], rest
        at = text.find(separator, at + size)
    return None


@cache
def _before_brace(separator: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(separator) + rb"(?=\{)")


def clear(separator: bytes) -> bool:
    """Can the separator not stand between the parts of a JSON document as tools print it?"""
    return bool(separator.strip(b",: "))


def _key(key: bytes, layout: Layout) -> bytes:
    """A key, decoded where it is encoded as values are and comes out as a message of its own would."""
    if layout.encoding != "text" and not layout.marks and key[:1] != b"{":
        value = DECODERS[layout.encoding](key, layout.characters)
        if value is not None and begins_message(value):
            return value
    return key
