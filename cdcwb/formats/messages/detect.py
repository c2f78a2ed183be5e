"""From some lines of a file to how its lines are laid out, with the evidence."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.messages.batch import MESSAGE
from cdcwb.formats.messages.container import Options, escaped
from cdcwb.formats.messages.encodings import DECODERS, LATIN, RAW, begins_message, is_binary, plain_string
from cdcwb.formats.messages.layout import (
    NO_HEADERS,
    NULL,
    TAIL,
    TOKENS,
    Layout,
    header_pairs,
    is_document,
    parse,
)
from cdcwb.formats.messages.notes import remark
from cdcwb.formats.messages.records import is_record, payload_of
from cdcwb.words import plural

__all__ = ["Detected", "detect_layout"]

_SEPARATORS: Final = (
    b"\t",
    b" | ",
    b"|",
    b", ",
    b",",
    b"; ",
    b";",
    b" : ",
    b"::",
    b" - ",
    b": ",
    b":",
    b" ",
    b"-",
    b"=",
)
"""What people use as a separator, the longer before what it contains."""
_RUN: Final = re.compile(rb"[^A-Za-z0-9_\"'{}\[\]\x80-\xff]+")
_PRINTABLE: Final = re.compile(rb"[ -~\t\r]*\Z")
_C1: Final = re.compile("[\x80-\x9f]")


class Detected(NamedTuple):
    """A layout, why, and the share of the lines that are whole messages under it."""

    layout: Layout
    evidence: str
    share: float


def detect_layout(lines: Sequence[bytes], options: Options) -> Detected:
    """The layout of lines (without their ends), as most of them tell; given options stand."""
    texts = [line for line in lines if line.strip()]
    texts = [text for text in texts if text.lstrip()[:1] == b"{" or not remark(text.strip())]
    if not texts:
        return Detected(_given(Layout(), options), "no line has evidence", 0.0)
    documents = [text for text in texts if text.lstrip()[:1] == b"{"]
    records = [text for text in documents if is_record(text)]
    if 2 * len(records) > len(texts):
        payloads = [payload_of(text) for text in records]
        encoding, characters, why = _encoding(
            [text for raw in payloads if (text := _string(raw)) is not None], payloads
        )
        layout = _given(Layout(records=True, encoding=encoding, characters=characters), options)
        evidence = f"{len(records):,} of {len(texts):,} lines are JSON objects with a message in them{why}"
    else:
        separator, tokens, rests = _tokens(texts, options)
        layout, evidence = _values(texts, separator, tokens, rests, options)
    whole = sum(_is_whole(text, layout) for text in texts)
    return Detected(layout, evidence, whole / len(texts))


def _given(layout: Layout, options: Options) -> Layout:
    if options.encoding is not None:
        layout = replace(layout, encoding=options.encoding)
    return layout if options.separator is None else replace(layout, separator=options.separator)


def _is_whole(text: bytes, layout: Layout) -> bool:
    found = parse(text, layout)
    if found.state != MESSAGE:
        return False
    if found.value is None:
        return True
    return is_document(found.value) if found.value.lstrip()[:1] == b"{" else is_binary(found.value)


def _string(raw: bytes) -> bytes | None:
    return plain_string(raw) if raw[:1] == b'"' else None


# --- properties -------------------------------------------------------------------------------------------------------


def _tokens(texts: Sequence[bytes], options: Options) -> tuple[bytes | None, tuple[str, ...], list[bytes]]:
    """The separator as the properties that tell themselves show it, these properties, and what stands behind them."""
    first = [(text, found) for text in texts if (found := _first_token(text)) is not None]
    if 2 * len(first) <= len(texts):
        return options.separator, (), list(texts)
    behind = [text[found.end() :] for text, found in first]
    separator = options.separator or _leading(behind)
    if separator is None:
        return None, (), list(texts)
    rows = [_walk(text, separator) for text, _ in first]
    tokens = Counter(names for names, _ in rows).most_common(1)[0][0]
    return separator, tokens, [rest for names, rest in rows if names == tokens]


def _first_token(text: bytes) -> re.Match[bytes] | None:
    return next(filter(None, (token.match(text) for token in TOKENS.values())), None)


def _walk(text: bytes, separator: bytes) -> tuple[tuple[str, ...], bytes]:
    names = []
    for name, token in TOKENS.items():
        found = token.match(text)
        if found is not None and text.startswith(separator, found.end()):
            names.append(name)
            text = text[found.end() + len(separator) :]
    return tuple(names), text


def _leading(texts: Sequence[bytes]) -> bytes | None:
    """The separator that (nearly) all of these begin with."""
    texts = [text for text in texts if text]
    run = _RUN.match(_common(texts[:100]))
    known = (one for one in _SEPARATORS if texts and _nearly_all(text.startswith(one) for text in texts))
    return _longer(next(known, None), run[0] if run else b"")


def _trailing(leads: Sequence[bytes]) -> bytes | None:
    """The separator that (nearly) all of these end with."""
    run = _RUN.match(_common([lead[::-1] for lead in leads[:100]]))
    known = (one for one in _SEPARATORS if leads and _nearly_all(lead.endswith(one) for lead in leads))
    return _longer(next(known, None), run[0][::-1] if run else b"")


def _longer(known: bytes | None, run: bytes) -> bytes | None:
    """The known separator, or all of the run of signs that it is part of; a tab, and one that stands there twice
    because nothing is between, are whole."""
    if known is None or known == b"\t" or known * (len(run) // len(known)) == run or len(known) > len(run):
        return known or run or None
    return run


def _common(texts: Sequence[bytes]) -> bytes:
    """What all of the texts begin with."""
    low, high = min(texts, default=b""), max(texts, default=b"")
    same = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    return low[:same]


def _nearly_all(votes: Iterator[bool]) -> bool:
    found = list(votes)
    return sum(found) * 10 >= len(found) * 9


# --- headers, key and value -------------------------------------------------------------------------------------------


def _values(
    texts: Sequence[bytes],
    separator: bytes | None,
    tokens: tuple[str, ...],
    rests: list[bytes],
    options: Options,
) -> tuple[Layout, str]:
    """The layout of lines that begin with these properties, behind which the ``rests`` stand."""
    tail = separator is not None and _nearly_all(_has_tail(rest, separator) for rest in rests)
    if tail and separator is not None:
        rests = [rest.rpartition(separator)[0] for rest in rests]
    leads, values = _leads(rests, separator)
    if separator is None and leads:
        separator = _trailing([lead for lead in leads if lead])
    before: tuple[str, ...] = ()
    if separator is not None and 2 * sum(bool(lead) for lead in leads) > len(leads):
        before = _before([lead[: -len(separator)] for lead in leads if lead.endswith(separator)], separator)
    encoding, characters, why = _encoding(values, [])
    fields = (*tokens, *before, *((TAIL,) if tail else ()))
    layout = Layout(fields, separator or b"\t", encoding, characters)
    evidence = f"{len(rests):,} of {len(texts):,} lines hold "
    evidence += (
        f"{', '.join([*fields, 'value'])} with '{escaped(layout.separator)}' between" if fields else "a value each"
    )
    return _given(layout, options), evidence + why


def _has_tail(text: bytes, separator: bytes) -> bool:
    value, found, partition = text.rpartition(separator)
    return bool(found) and partition.isdigit() and value[-1:] == b"}"


def _leads(texts: Sequence[bytes], separator: bytes | None) -> tuple[list[bytes], list[bytes]]:
    """What stands before the value of each text, its separator included, and the values; texts that do not show it are
    left out."""
    leads: list[bytes] = []
    values: list[bytes] = []
    for text in texts:
        at = _value_at(text, separator)
        if at is not None:
            leads.append(text[:at])
            values.append(text[at:])
    return leads, values


def _value_at(text: bytes, separator: bytes | None) -> int | None:
    if is_document(text) or is_cut_off(text):
        return 0
    if text.lstrip()[:1] in (b"{", b"["):  # a key in JSON
        end = _document_end(text)
        at = text.find(b"{", end)
        if at > 0:
            return at
        if end and text.endswith(NULL):
            return len(text) - len(NULL)
    if begins_encoded(text):
        return 0
    at = text.find(b"{")
    for _ in range(16):
        if at < 0:
            break
        if is_document(text[at:]):
            return at
        at = text.find(b"{", at + 1)
    for known in (separator,) if separator else _SEPARATORS:
        at = text.find(known)
        for _ in range(8):
            if at < 0:
                break
            if begins_encoded(text[at + len(known) :]) or text[at + len(known) :] == NULL:
                return at + len(known)
            at = text.find(known, at + 1)
    return None


def _document_end(text: bytes) -> int:
    """Where the JSON value ends that the text begins with; 0 where there is none."""
    try:
        plain = text.decode("latin-1")
        return json.JSONDecoder().raw_decode(plain, len(plain) - len(plain.lstrip()))[1]
    except (ValueError, RecursionError):
        return 0


def begins_encoded(text: bytes) -> bool:
    """Does the text decode to a binary message, or to a document that was quoted?"""
    if is_binary(text):
        return True
    values = (decode(text, RAW) for decode in DECODERS.values())
    return any(value is not None and begins_message(value) for value in values)


def _before(leads: Sequence[bytes], separator: bytes) -> tuple[str, ...]:
    """Are these headers, a key, or both?"""
    if all(map(is_document, leads)):
        return ("key",)
    parted = [header_pairs(lead + separator, separator) for lead in leads]
    if leads and all(pairs is not None for pairs, _ in parted):
        if all(rest for _, rest in parted):
            return ("headers", "key")
        alone = [lead for lead, (_, rest) in zip(leads, parted, strict=True) if not rest]
        if len(alone) == len(leads) and any(lead == NO_HEADERS or lead.count(b":") > 1 for lead in leads):
            return ("headers",)
    return ("key",)


# --- encoding ---------------------------------------------------------------------------------------------------------


def _encoding(values: Sequence[bytes], raws: Sequence[bytes]) -> tuple[str, str, str]:
    """Encoding, characters and why, as the values tell; ``raws`` are JSON strings as they stand in the file."""
    others = [value for value in values if value.strip() != NULL and value.lstrip()[:1] != b"{"]
    others = [value for value in others if not is_binary(value) or (b"\\" in value and _PRINTABLE.match(value))]
    characters = _characters([*raws, *others])
    counts = {
        name: sum((value := decode(text, characters)) is not None and begins_message(value) for text in others)
        for name, decode in ((name, DECODERS[name]) for name in ("hex", "escaped", "base64"))
    }
    best = max(counts, key=lambda name: counts[name])
    if counts[best] * 2 > len(others):
        return best, characters, f"; {plural(counts[best], 'value')} in {best}"
    return "text", characters, ""


def _characters(raws: Sequence[bytes]) -> str:
    """Are bytes above 7F what they are, or UTF-8 for characters of one byte each? Only the latter give control
    characters (U+0080 to U+009F), and never what is no UTF-8."""
    for raw in raws:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return RAW
        if _C1.search(text) and max(text) <= "\xff":
            return LATIN
    return RAW
