"""Messages in lines, as console consumers, kcat and rpk print them: properties, key and value of a line, and notes.

A console consumer prints, each only if it was asked to and always in this order: ``CreateTime:`` or ``LogAppendTime:``
and milliseconds (``NO_TIMESTAMP``), ``Partition:0``, ``Offset:17``, ``Delivery:1``, headers ``a:1,b:2``
(``NO_HEADERS``), key and value, with a separator between each and the next (a tab, unless ``key.separator`` is
another).

A line ends after its newline; a carriage return before that belongs to the line's end, a byte order mark to the first
line's start. If keys are on lines of their own, a message is both lines: then it begins only where the beginning of a
key follows a newline.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from cdcwb.errors import OptionError
from cdcwb.formats.containers import envelopes
from cdcwb.formats.containers.messages import (
    FILLER,
    LONGEST,
    MALFORMED,
    MESSAGE,
    NOTE,
    Chunk,
    ParsedSegment,
    Segment,
    damage,
    header_facts,
    is_utf8,
    shown,
    text_of,
    time_text,
)
from cdcwb.formats.kernels import Bytes, Ints
from cdcwb.formats.source import Source

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
_DIGITS: Final = re.compile(rb"[0-9A-Fa-f\s]*\Z")
_LONGEST_WORD: Final = 32
_LITERAL: Final = re.compile(rb"(?:true|false|null)\b")
_TOKEN: Final = re.compile(rb"CreateTime:|LogAppendTime:|NO_TIMESTAMP|Partition:|Offset:|Delivery:|NO_HEADERS|atMSG")


def remark(text: bytes) -> bool:
    """Whether the line (without white space around it) is a comment or a note, and no message."""
    return is_comment(text) or is_note(text)


def is_comment(text: bytes) -> bool:
    """Whether the line (without white space around it) is of a consumer or a shell, or marked as a comment."""
    return _REMARK.match(text) is not None or _MARKED.match(text) is not None


def is_note(text: bytes) -> bool:
    """Whether the line (without white space around it) is a heading or a comment: words without any sign of data.

    A part of a JSON document has quotes, brackets or a bare value in it, one of XML has tags; an encoded message is no
    word in small or in capital letters.
    """
    if _MARKED.match(text):
        return is_utf8(text)
    if not is_utf8(text) or not _TEXT.match(text) or _LITERAL.match(text) or _TOKEN.match(text):
        return False
    parts = [part for part in text.split() if not _MARK.match(part)]
    if len(parts) > 1 and _DIGITS.match(text):
        return False
    return 2 * sum(len(part) <= _LONGEST_WORD and _WORD.match(part) is not None for part in parts) > len(parts)


# --- layout -----------------------------------------------------------------------------------------------------------

NULL: Final = b"null"
"""A null value as consumers print it."""
_NO_VALUE: Final = (NULL, b"NULL")  # NULL: kcat -Z
NO_HEADERS: Final = b"NO_HEADERS"

_PROPERTIES: Final = {
    "timestamp": rb"(?:CreateTime|LogAppendTime):-?[0-9]{1,19}|NO_TIMESTAMP",
    "partition": rb"Partition:[0-9]{1,10}",
    "offset": rb"Offset:-?[0-9]{1,19}",
    "delivery": rb"Delivery:(?:[0-9]{1,10}|NONE)",
}
"""The properties with names, in the order in which they are printed."""

NAMED: Final = re.compile(b"|".join(_PROPERTIES.values()))
"""What a line with such a property begins with."""

_SHORT: Final = 64  # bytes of a text that may be null with white space around it
_ATTEMPTS: Final = 64  # separators that are tried where several could end a key that is JSON
_BLANK: Final = b" \t\r\n\v\f"
_document: Final = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the texts of a file are read.

    ``records``: they are JSON objects that a tool wrapped around messages. Else ``fields`` precede a value
    (``timestamp``, ``partition``, ``offset``, ``delivery``, ``headers``, ``key``), each followed by ``separator``.
    ``encoding`` is text, base64 or python. ``key_line``: what the lines of keys begin with, if each precedes the line
    of its value; such a file is read from its beginning.
    """

    fields: tuple[str, ...] = ()
    separator: bytes = b"\t"
    encoding: str = "text"
    records: bool = False
    key_line: bytes = b""

    def to_settings(self) -> dict[str, str]:
        """As texts, under the names of the options that override them."""
        separator = {"separator": escaped(self.separator)} if self.fields else {}
        return {"encoding": self.encoding, **separator}


PLAIN: Final = Layout()
"""A value in each line."""


def escaped(data: bytes) -> str:
    r"""Bytes as text in which what is no plain ASCII is an escape (``\t``, ``\x00``), for settings."""
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")


def unescaped(name: str, text: str) -> bytes:
    r"""The UTF-8 bytes of a text that may have ``\t`` and other escapes. Raises OptionError."""
    if "\\" not in text:
        return text.encode()
    try:
        return codecs.decode(text.encode("ascii", "backslashreplace"), "unicode_escape").encode()
    except UnicodeDecodeError as reason:
        raise OptionError(f"option {name}: {text!r} has an invalid escape ({reason.reason})") from None


def parse(text: bytes, layout: Layout) -> ParsedSegment:
    """What a line, without its end, holds."""
    if text[:1] == b"{" and text[-1:] == b"}" and not layout.records and not layout.fields:
        return ParsedSegment(MESSAGE, text) if layout.encoding == "text" else value_of(text, layout, None, {})
    bare = text.strip(_BLANK)
    if not bare:
        return ParsedSegment(FILLER, None, reason="a blank line")
    if layout.records:
        found = envelopes.unwrap(bare, layout.encoding) if bare[:1] == b"{" else envelopes.printed_record(bare)
        if found is not None:
            return found
    elif layout.fields:
        found = _console(text, layout)
        if found is not None:
            return found
    if bare[:1] == b"{" and (not layout.fields or bare[-1:] == b"}"):
        return value_of(text, layout, None, {})
    if is_comment(bare):
        return ParsedSegment(FILLER, None, reason="a note between messages")
    if is_note(bare):
        return ParsedSegment(NOTE, None, reason=f"a message was expected, found the text {shown(bare)}")
    if layout.records or layout.fields:
        parts = f"{', '.join([*layout.fields, 'value'])} with '{escaped(layout.separator)}' between"
        expected = "a JSON object with a message in it" if layout.records else f"a line of {parts}"
        return ParsedSegment(MALFORMED, None, reason=f"{expected} was expected, found {shown(text)}")
    return value_of(text, layout, None, {})


def is_document(text: bytes) -> bool:
    """Whether the text is one complete JSON object."""
    text = text.lstrip()
    if text[:1] != b"{":
        return False
    try:
        _document.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def value_of(text: bytes, layout: Layout, key: bytes | None, facts: dict[str, str | None]) -> ParsedSegment:
    """A value as it is printed, decoded."""
    if len(text) < _SHORT and text.strip() == NULL:
        return ParsedSegment(MESSAGE, None, key, facts)
    if layout.encoding == "text":
        return ParsedSegment(MESSAGE, text if text[:1] == b"{" else text.lstrip(), key, facts)
    value = envelopes.DECODERS[layout.encoding](text)
    if value is None and text.lstrip()[:1] == b"{":
        value = text.lstrip()
    if value is None:
        reason = f"a value in {layout.encoding} was expected, found {shown(text)}"
        return ParsedSegment(MALFORMED, None, key, facts, reason)
    return ParsedSegment(MESSAGE, value, key, facts)


def _console(text: bytes, layout: Layout) -> ParsedSegment | None:
    """A console consumer's line; None for any other line."""
    found = _pattern(layout.fields, layout.separator).match(text)
    if found is None:
        return None
    rest, facts = text[found.end() :], dict[str, str | None]()
    for name, one in zip(layout.fields, found.groups(), strict=False):
        kind, _, number = one.decode().partition(":")
        if name == "timestamp":
            facts["timestamp"], facts["timestamp_type"] = time_text(int(number)) if number else None, kind
        elif name != "delivery":
            facts[name] = number
    if "headers" in layout.fields:
        pairs, rest = header_pairs(rest, layout.separator)
        if pairs is None:
            return None
        facts.update(header_facts(pairs))
    if "key" not in layout.fields:
        return value_of(rest, layout, None, facts)
    both = split(rest, layout)
    if both is None:
        return None
    key, value = both
    return value_of(value, layout, None if key == NULL else _key(key, layout), facts)


@cache
def _pattern(names: tuple[str, ...], separator: bytes) -> re.Pattern[bytes]:
    """The properties with these names, each followed by the separator; other fields do not matter."""
    texts = [_PROPERTIES[name] for name in names if name in _PROPERTIES]
    return re.compile(b"".join(b"(%b)%b" % (one, re.escape(separator)) for one in texts))


def properties(text: bytes, separator: bytes) -> tuple[str, ...]:
    """The names of the properties that a line begins with."""
    names: tuple[str, ...] = ()
    for name in _PROPERTIES:
        names += (name,) if _pattern((*names, name), separator).match(text) else ()
    return names


_NAME: Final = re.compile(rb"""[^:,{}\[\]"]+:""")
_HEADER: Final = re.compile(rb"""[^:,{}\[\]"]+:[^{}\[\]"]*\Z""")
_MOST_PAIRS: Final = 1000


def header_pairs(text: bytes, separator: bytes) -> tuple[list[tuple[str, str | None]] | None, bytes]:
    """The headers at the start of a text and what follows them; None if there are none.

    Commas separate headers. If the separator is a comma too, they end before the first part without a colon, or with a
    bracket or quote.
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
    if not parts or not _NAME.match(parts[0]):
        return None, text
    pairs: list[list[bytes]] = []
    for part in parts:
        if b":" in part:
            pairs.append([part])
        else:
            pairs[-1].append(part)  # a value with a comma in it
    named = (b",".join(some).partition(b":") for some in pairs)
    return [(text_of(name), None if value == NULL else text_of(value)) for name, _, value in named], rest


def split(text: bytes, layout: Layout) -> tuple[bytes, bytes] | None:
    """Key and value of a text that has both; None if no separator fits.

    They are separated by the first separator that a JSON document, ``null`` or an encoded message follows. Only if the
    key may be JSON itself, all of the rest is examined.
    """
    size, brace = len(layout.separator), layout.separator + b"{"
    is_null = text[-4:] in _NO_VALUE and text.endswith(layout.separator, 0, -len(NULL))
    first = place = text.find(brace)
    may_be_json = text[:1] in (b"{", b"[", b'"')  # the key
    if may_be_json and text[-1:] == b"}" and layout.separator.strip(b",: "):
        may_be_json = text.find(brace, first + 1) >= 0
    if may_be_json:
        for _ in range(_ATTEMPTS):
            if place < 0 or is_document(text[place + size :]):
                break
            place = text.find(brace, place + 1)
        else:
            place = -1
        place = first if place < 0 and not is_null and text[-1:] != b"}" else place  # the value is cut off
    if place >= 0:
        return text[:place], text[place + size :]
    if is_null:
        return text[: -len(NULL) - size], NULL
    if text.endswith(layout.separator) and is_document(text[:-size]):
        return text[:-size], NULL  # kcat prints nothing for a null value
    for found in islice(re.finditer(re.escape(layout.separator), text), _ATTEMPTS):
        rest = text[found.end() :]
        value = rest if layout.encoding == "text" else envelopes.DECODERS[layout.encoding](rest)
        if value is not None and envelopes.is_binary(value):
            return text[: found.start()], rest
    return None


def _key(key: bytes, layout: Layout) -> bytes:
    """A key, decoded if it is encoded as values are and comes out as a message of its own would."""
    value = None if layout.encoding == "text" or key[:1] == b"{" else envelopes.DECODERS[layout.encoding](key)
    is_message = value is not None and (value.lstrip()[:1] == b"{" or envelopes.is_binary(value))
    return value if value is not None and is_message else key


# --- lines of a file --------------------------------------------------------------------------------------------------

BOM: Final = b"\xef\xbb\xbf"
_WINDOW: Final = 4 << 20  # bytes that are looked at together; a longer line widens the window for itself
_CACHED: Final = 1 << 18  # bytes that are compared together: the result stays in the processor's cache
_STEP: Final = 1 << 16  # the first look for a single newline; it widens
_NEWLINE: Final = 0x0A
_RETURN: Final = 0x0D


def read_lines(source: Source, start: int, stop: int, layout: Layout, window: int = _WINDOW) -> Iterator[Chunk]:
    """The lines that begin in ``[start, stop)`` of a file; the end of a line that began before is passed over. A line
    of a key is one with that of its value."""
    position = line_start(source, start)
    size = min(window, _CACHED)  # small at first, for those that take a few lines
    while position < min(stop, source.length):
        room = min(size, stop - position + _STEP)  # no further than the last line ends
        buffer = source.read(position, position + room)
        ends = newlines(buffer)
        if layout.key_line:
            text, keys = buffer.tobytes(), (layout.key_line, BOM + layout.key_line)
            ends = ends[[not text.startswith(keys, begin) for begin in [0, *ends.tolist()][: len(ends)]]]
        if position + len(buffer) >= source.length and (not len(ends) or ends[-1] < len(buffer)):
            ends = np.append(ends, len(buffer))
        if not len(ends):
            end = line_start(source, position + room)
            if end - position > LONGEST:
                for one in damage(position, end, f"a line longer than {LONGEST:,} bytes, the maximum of a message"):
                    yield Chunk(one[0], source.read(*one[:2]), [one])
                position = end
                continue
            buffer, ends = source.read(position, end), np.array([end - position])
        data = buffer[: ends[-1]].tobytes()
        segments: list[Segment] = []
        at = 0
        for end in ends.tolist():
            if position + at >= stop:
                break
            last = end - 1 if data[end - 1] == _NEWLINE else end
            last -= last > at and data[last - 1] == _RETURN
            first = at + len(BOM) if position + at == 0 and data.startswith(BOM) and last >= len(BOM) else at
            segments.append((position + at, position + end, parse(data[first:last], layout)))
            at = end
        yield Chunk(position, buffer, segments)
        position, size = position + at, min(2 * size, window)


def newlines(buffer: Bytes) -> Ints:
    """The places after newlines."""
    some = [np.flatnonzero(buffer[at : at + _CACHED] == _NEWLINE) + at for at in range(0, len(buffer), _CACHED)]
    return np.concatenate(some) + 1 if some else np.empty(0, dtype=np.int64)


def line_start(source: Source, position: int) -> int:
    """Where the first line at or after ``position`` begins; the file's end if there is none."""
    at, step = position - 1, _STEP
    while 0 <= at < source.length:
        found = source.read(at, at + step).tobytes().find(b"\n")
        if found >= 0:
            return at + found + 1
        at, step = at + step, min(2 * step, _WINDOW)
    return 0 if at < 0 else source.length
