"""Parses XDS documents into events, and validates documents (docs/formats/idm-event-log.md §5).

Documents are read without entities, without a document type and without the network.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final, NamedTuple

import pyarrow as pa
from lxml import etree

from cdcwb.errors import MalformedRecordError
from cdcwb.xds.document import ATTRIBUTE, EVENT, TYPES, Verb

_ROWS = 50_000  # events a batch
_BLOCK = 1 << 16  # bytes that are fed to the parser at a time
_VERBS: Final = frozenset(Verb)

_NOT_MARKUP: Final = re.compile(  # what has no end goes up to the end of the document
    rb"<!--(?:[^-]++|-(?!->)|(?!))*+(?:-->)?|<!\[CDATA\[(?:[^\]]++|\](?!\]>)|(?!))*+(?:\]\]>)?|(<\?xml\s[^<>?]*+\?>)"
)
_ENCODING: Final = re.compile(rb"""\sencoding\s*=\s*["']([^"']*)["']""")


class Parsed(NamedTuple):
    """The content of documents: a table of :data:`~cdcwb.xds.document.EVENT`, and a sentence for each element that is
    not such an event."""

    events: pa.Table
    others: list[str]


def parse_documents(source: bytes | Iterable[bytes], *, document: int = 1, event: int = 1) -> Parsed:
    """The events of documents, numbered from ``document`` and ``event`` on.

    ``source`` is one document, or several concatenated ones, or an iterable of such bytes; an ``add``, ``modify`` or
    ``delete`` without its envelope is a document as well. A ``modify-attr`` with several values becomes several
    attributes of one name. What EVENT has no column for (``src-dn``, ``event-id``, ``timestamp`` …) is dropped. Raises
    MalformedRecordError for malformed XML and for a document type declaration.
    """
    reader = _Reader(document, event)
    for data in (source,) if isinstance(source, bytes) else source:
        for root in roots(data):
            reader.read(root)
    return Parsed(reader.table(), reader.others)


def roots(data: bytes) -> Iterator[etree._Element]:
    """Each root element of one or several concatenated documents; valid until the next one is requested.

    Raises MalformedRecordError for malformed XML, for a document type declaration, and for more than 10 MB of text in
    one element.
    """
    parser = etree.XMLPullParser(
        ("start",),
        tag="documents",
        resolve_entities=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )
    plain = memoryview(_without_declarations(data))
    hint = ": a document type declaration is not read" if b"<!DOCTYPE" in data else ""
    _feed(parser, b"<documents>", hint)
    around = next(element for _, element in parser.read_events() if isinstance(element, etree._Element))
    for begin in range(0, len(plain), _BLOCK):
        _feed(parser, plain[begin : begin + _BLOCK].tobytes(), hint)
        yield from _taken(around, all_but=1)  # the last one may be incomplete
    _feed(parser, b"</documents>", hint)
    yield from _taken(around, all_but=0)


def _feed(parser: etree.XMLPullParser, data: bytes, hint: str) -> None:
    try:
        parser.feed(data)
        if data == b"</documents>":
            parser.close()
        first = next(iter(parser.feed_error_log), None)  # the parser reports some errors only with the next data
    except etree.XMLSyntaxError as error:
        first = next(iter(parser.feed_error_log), None)
        if first is None:
            raise MalformedRecordError(f"no XML document{hint}: {error.msg}") from error
    if first is not None:
        message = first.message
        if message.endswith(" and documents"):  # the end of the input inside an element
            message = "its last element has no end"
        raise MalformedRecordError(f"no XML document{hint}: line {first.line}, {message}")


def _taken(around: etree._Element, *, all_but: int) -> Iterator[etree._Element]:
    _require_blank(around.text)
    while len(around) > all_but:
        root = around[0]
        if all_but == 0 or len(around) > 1:
            _require_blank(root.tail)
        yield root
        around.remove(root)


def _require_blank(text: str | None) -> None:
    if text is not None and text.strip():
        raise MalformedRecordError(f"no XML document: text outside of any element, {text.strip()[:20]!r}")


def _without_declarations(data: bytes) -> bytes:
    """The documents as UTF-8 without their XML declarations, which are not allowed between documents."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = _decoded(data, "utf-16").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"<?xml" not in data:
        return data
    declarations = [match[1] for match in _NOT_MARKUP.finditer(data) if match[1] is not None]
    named = {name[1].decode("ascii", "replace").lower() for name in map(_ENCODING.search, declarations) if name}
    foreign = sorted(named - {"utf-8", "utf8", "us-ascii", "ascii", "utf-16"})
    if len(foreign) > 1 or (foreign and len(named) > 1):
        raise MalformedRecordError(f"documents in several encodings: {', '.join(sorted(named))}")
    if foreign:
        data = _decoded(data, foreign[0]).encode()
    return _NOT_MARKUP.sub(lambda match: b"" if match[1] is not None else match[0], data)


def _decoded(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
        text.encode()
    except (LookupError, ValueError) as error:
        raise MalformedRecordError(f"no XML document in the encoding {encoding!r}: {error}") from error
    return text


class _LeftOutError(Exception):
    """Why an element is not an event."""


class _Reader:
    """Collects events, column by column."""

    def __init__(self, document: int, event: int) -> None:
        self.others: list[str] = []
        self._document = document
        self._event = event
        self._batches: list[pa.RecordBatch] = []
        self._clear()

    def _clear(self) -> None:
        self._events: list[tuple[int, int, str, str, str | None]] = []
        self._ends = [0]
        self._attributes: list[tuple[str, str | None, bool, str | None, str | None]] = []

    def read(self, root: etree._Element) -> None:
        """Adds the events of one document."""
        if root.tag == "nds":
            for part in root:
                if part.tag == "input":
                    for element in part:
                        self._take(element)
                elif part.tag != "source":
                    self.others.append(f"document {self._document}: {part.tag} holds no events")
        else:
            self._take(root)
        self._document += 1

    def _take(self, element: etree._Element) -> None:
        before = len(self._attributes)
        try:
            if element.tag not in _VERBS:
                raise _LeftOutError("is not one of add, modify, delete")
            class_name = element.get("class-name")
            if not class_name:
                raise _LeftOutError("has no class-name")
            association = element.find("association")
            named = None if association is None else association.text or ""
            self._attributes += _attributes(element)
        except _LeftOutError as left:
            del self._attributes[before:]
            self.others.append(f"document {self._document}: {element.tag} in line {element.sourceline} {left}")
            return
        self._events.append((self._document, self._event, element.tag, class_name, named))
        self._ends.append(len(self._attributes))
        self._event += 1
        if len(self._events) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        columns: list[Any] = [list(column) for column in zip(*self._events, strict=True)] or [[]] * 5
        fields: list[Any] = [list(field) for field in zip(*self._attributes, strict=True)] or [[]] * 5
        arrays = [pa.array(values, field.type) for values, field in zip(fields, ATTRIBUTE, strict=True)]
        structs = pa.StructArray.from_arrays(arrays, fields=list(ATTRIBUTE))
        lists = pa.ListArray.from_arrays(pa.array(self._ends, pa.int32()), structs)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, EVENT, strict=False)]
        self._batches.append(pa.record_batch([*arrays, lists], schema=EVENT))
        self._clear()

    def table(self) -> pa.Table:
        """All events that were added."""
        self._flush()
        return pa.Table.from_batches(self._batches, schema=EVENT)


def _attributes(element: etree._Element) -> Iterator[tuple[str, str | None, bool, str | None, str | None]]:
    """Name, type, whether all values are removed, the removed value, and the added value."""
    verb = element.tag
    for held in element.iterchildren(f"{verb}-attr"):
        name = held.get("attr-name")
        if not name:
            raise _LeftOutError(f"has {_a(held.tag)} without an attr-name")
        if verb == Verb.ADD:
            for kind, text in _values(held):
                yield name, kind, False, None, text
        else:
            yield from _changes(name, held)
    if verb == Verb.MODIFY and element.find("modify-attr") is None:
        raise _LeftOutError("has no modify-attr")


def _changes(name: str, held: etree._Element) -> Iterator[tuple[str, str | None, bool, str | None, str | None]]:
    """A removed value and the value that is added directly after it are one attribute; every other value is an
    attribute of its own."""
    waiting: tuple[str | None, bool, str | None] | None = None
    for step in held:
        if step.tag not in ("remove-all-values", "remove-value", "add-value"):
            raise _LeftOutError(f"has {step.tag} in its attribute {name!r}")
        for kind, text in [(None, None)] if step.tag == "remove-all-values" else _values(step):
            if step.tag == "add-value" and waiting is not None and (waiting[1] or waiting[0] == kind):
                yield name, kind, waiting[1], waiting[2], text
                waiting = None
                continue
            if waiting is not None:
                yield name, *waiting, None
            waiting = None
            if step.tag == "add-value":
                yield name, kind, False, None, text
            else:
                waiting = (kind, step.tag == "remove-all-values", text)
    if waiting is not None:
        yield name, *waiting, None


def _values(parent: etree._Element) -> list[tuple[str | None, str]]:
    values = []
    for value in parent:
        kind = value.get("type")
        if value.tag != "value" or len(value) or (kind is not None and kind not in TYPES):
            raise _LeftOutError(f"has a value that is not one text of a known type (type {kind!r})")
        values.append((kind, value.text or ""))
    if not values:
        raise _LeftOutError(f"has {_a(parent.tag)} without a value")
    return values


def _a(tag: str) -> str:
    return f"{'an' if tag.startswith('a') else 'a'} {tag}"


_ONE_AT_A_TIME = Lock()  # the grammar has the errors of its last document


def validate(xml: bytes) -> list[str]:
    """A sentence for each error of one or several concatenated documents; empty if they are valid.

    ``add``, ``modify``, ``delete``, ``instance`` and ``status`` are valid without their envelope as well. Malformed XML
    is one error, and the last one.
    """
    faults: list[str] = []
    number = 0
    try:
        for number, root in enumerate(roots(xml), 1):
            faults += [f"document {number}, {fault}" for fault in _faults(root)]
    except MalformedRecordError as error:
        faults.append(error.sentence)
    if not number and not faults:
        faults.append("no document: nothing but blanks was found")
    return faults


def _faults(root: etree._Element) -> list[str]:
    with _ONE_AT_A_TIME:
        grammar = _grammar()
        if grammar.validate(root):
            return []
        return list(dict.fromkeys(f"line {fault.line}: {fault.message}" for fault in grammar.error_log if fault.line))


@cache
def _grammar() -> etree.RelaxNG:
    return etree.RelaxNG(etree.fromstring(files("cdcwb.xds").joinpath("xds.rng").read_bytes()))
