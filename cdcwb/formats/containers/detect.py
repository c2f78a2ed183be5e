"""What a file that holds messages is, detected from its content."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.containers import console, envelopes
from cdcwb.formats.containers.avro_file import MAGIC, AvroFile, topic_columns
from cdcwb.formats.containers.console import NAMED, NULL, PLAIN, Layout, escaped, is_document, properties, remark
from cdcwb.formats.containers.documents import documents_in, margin_of
from cdcwb.formats.containers.envelopes import BINARY, DECODERS, is_binary, is_record
from cdcwb.formats.containers.kafka_rows import ParquetRows, kafka_columns
from cdcwb.formats.containers.message_files import Container, Options, chunks
from cdcwb.formats.containers.messages import AVRO_JSON, LONGEST, MESSAGE, batches_of, is_avro_json
from cdcwb.formats.files import compression_of, in_file, open_source
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.source import Source, open_file
from cdcwb.words import plural

_HEAD: Final = 1 << 16
_SAMPLE: Final = 1 << 20  # bytes of text that are looked at in each place
_LEAST_SAMPLE: Final = 1 << 14
_SHARE_OF_FILE: Final = 128  # a sample is this part of its file, within these limits
_LINES: Final = 200  # lines of each place
_PAIRS: Final = 8  # of a line for the key and one for the value that are looked at
_SHARE: Final = 0.5
_ID: Final = 5
_VALUES: Final = 64  # that show Avro's JSON encoding
_BINARY_BYTE: Final = re.compile(rb"[\x00-\x08]")
_NOTHING: Final = re.compile(rb"[\s,\[\]]*\Z")
_LISTS: Final = re.compile(rb'\{.{0,4000}?"(?:records|Records|receivedMessages|messages)"\s*:\s*[\[{]', re.DOTALL)
_BINARY_SIGNS: Final = (BINARY, b"\\u0000", b"\0")
_LOST: Final = "binary messages were printed as text: bytes above 7F became U+FFFD and cannot be recovered"
_RAW: Final = (
    "binary messages were printed as they are, so that newlines in them break lines: take the capture with kcat -J, or "
    "as Parquet"
)


def probe(path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
    """What one file is. Options override what is detected; those that are not options of containers are ignored.

    With a ``limit`` only so many bytes of a compressed file are unpacked, and the container is that of these bytes.

    Raises CaptureError for a file that cannot be read, OptionError for an option that cannot be used.
    """
    checked = Options.parse(options)
    with in_file(path), open_source(path, "binary", limit if limit and _is_packed(path) else None) as source:
        found = _probe(source, checked, limit is None)
        return replace(found, compression=source.compression, problem=source.problem or found.problem)


def _is_packed(path: str) -> bool:
    try:
        with open_file(path) as file:
            return compression_of(file.read(4)) is not None
    except OSError:
        return False  # open_source gives the reason


def _probe(source: Source, options: Options, is_whole: bool) -> Container:
    head = source.read(0, _HEAD).tobytes()
    kind = options.container
    if kind == "avro" or (kind is None and head.startswith(MAGIC)):
        return _avro(source, options.split_size, is_whole)
    if kind == "parquet" or (kind is None and head.startswith(b"PAR1")):
        return _parquet(source, options.split_size)
    if kind is None and _names_kafka_columns(head):
        raise CaptureError("messages in delimited text are not read: take the topic with kcat -J, or as Parquet")
    if envelopes.PYTHON_RECORD in head:
        raise CaptureError(envelopes.NOT_PRINTED_BY_PYTHON)
    found = _in_avro_json(source, _bytes(source, head, options), options)
    return found if kind is None else replace(found, evidence=f"container={kind} was given; {found.evidence}")


# --- rows -------------------------------------------------------------------------------------------------------------


def _avro(source: Source, split_size: int, is_whole: bool) -> Container:
    file = AvroFile(source)
    topic = topic_columns(file.records)
    evidence = f"begins with Obj and 1; its blocks have the codec {file.codec}"
    evidence += f"; its records are rows of a topic ({', '.join(topic)})" if topic else "; its records are the messages"
    settings = {"codec": file.codec, "records": "topic" if topic else "messages"}
    size = split_size if source.compression is None else source.size
    starts, rows, count = file.parts(size) if is_whole else ([0], [0], source.size)
    found = Container(source.path, "avro", "row", source.size, count, problem=file.problem, starts=starts, rows=rows)
    if not file.is_readable:
        return replace(found, evidence="begins with Obj")
    return replace(found, settings=settings, evidence=evidence, schema=None if topic else file.schema)


def _names_kafka_columns(head: bytes) -> bool:
    """Whether the text begins with a header line that names ``value`` and other columns of Kafka."""
    line = head.removeprefix(console.BOM).split(b"\n", 1)[0][:1000].decode("latin-1")
    columns = kafka_columns([name.strip(' "\r') for name in re.split("[,;\t|]", line)])
    return bool({"topic", "partition", "offset", "key"} & columns.keys())


def _parquet(source: Source, split_size: int) -> Container:
    try:
        file = ParquetRows(source)
    except CaptureError as reason:
        problem, evidence = reason.message, "begins with PAR1"
        return Container(source.path, "parquet", "row", source.size, 1, problem=problem, evidence=evidence)
    names, unit = ", ".join(file.columns.values()), "message" if file.is_partition else "row"
    rows = file.parts(split_size) if source.compression is None else [0]
    found = Container(source.path, "parquet", unit, source.size, file.count, rows=rows)
    evidence = f"begins and ends with PAR1, and has the columns {names}"
    return replace(found, settings={"columns": names}, evidence=evidence)


# --- bytes ------------------------------------------------------------------------------------------------------------


def _bytes(source: Source, head: bytes, options: Options) -> Container:
    kind = options.container
    if kind == "message":
        return _made(source, "message", "the file is one message")
    if not source.length and kind is None:
        return _made(source, "lines", "the file is empty")
    if kind is None and is_binary(head) and _BINARY_BYTE.search(head[:64]):
        return _binary(source, head)
    if kind != "lines" and _LISTS.match(head.lstrip(b" \t\r\n[")) and (listed := _listed(source, options)) is not None:
        return listed
    lines, share = _lines(source, head, options)
    if kind == "lines" or (kind is None and share >= _SHARE):
        return lines
    return _documents(source, options) or lines


def _in_avro_json(source: Source, found: Container, options: Options) -> Container:
    """The same, if its values are in Avro's JSON encoding"""
    if options.encoding not in (None, AVRO_JSON) or found.settings.get("encoding", "text") not in ("text", AVRO_JSON):
        return found
    evidence = found.evidence
    if options.encoding is None:
        first = next(batches_of(chunks(found, source, 0, _HEAD), _VALUES), None)
        if first is None or not is_avro_json(first.value.to_pylist()):
            return found
        evidence += "; records and numbers have the names of their types, as Avro's JSON encoding writes them"
    if options.avro_schema is not None:
        raise OptionError(
            "option avro_schema: the values are printed in Avro's JSON encoding, which is read without a schema; leave "
            "the option out, or capture the bytes (cdcwb capture, kcat -J)"
        )
    settings = {**found.settings, "encoding": AVRO_JSON}
    return replace(found, settings=settings, evidence=evidence)


def _made(source: Source, kind: str, evidence: str, layout: Layout = PLAIN, **more: Any) -> Container:
    settings = {} if kind == "message" else layout.to_settings()
    found = Container(source.path, kind, "byte", source.size, layout=layout, settings=settings, evidence=evidence)
    return replace(found, **more)


def _binary(source: Source, head: bytes) -> Container:
    """A file that is a binary message."""
    start = BINARY if head.startswith(BINARY) else head[:_ID]
    problem = _RAW if b"\n" + start in source.read(0, _SAMPLE).tobytes() else None
    what = "atMSG" if start == BINARY else f"a zero byte and the schema id {int.from_bytes(start[1:], 'big')}"
    return _made(source, "message", f"the file begins with {what}", problem=problem)


# --- documents --------------------------------------------------------------------------------------------------------


def _documents(source: Source, options: Options) -> Container | None:
    """A file of JSON documents; notes may precede the first. None without one at the beginning."""
    buffer = source.read(0, _SAMPLE)
    text = buffer.tobytes()
    front, brace, _ = text.removeprefix(console.BOM).partition(b"{")
    found = documents_in(buffer, margin_of(text))
    places = [(begin, end) for begin, end in found if end >= 0 and is_document(text[begin:end])]
    texts = [text[begin:end] for begin, end in places[:_LINES]]
    notes = [line for line in map(bytes.strip, front.split(b"\n")) if line]
    if options.container is None:
        if not places and not (brace and all(map(remark, notes)) and source.length <= LONGEST):
            return None
        is_alone = len(text) == source.length and text.removeprefix(console.BOM).strip() == b"".join(texts[:1])
        if not notes and (is_alone or not places) and not any(map(is_record, texts)):
            what = "the file is one JSON document" if places else "the file begins with a JSON document without an end"
            return _made(source, "message", what)
    fronts = [text[:begin] for begin, _ in places[:_LINES]]
    fronts = [one[max(one.rfind(b"\n"), one.rfind(b"}")) + 1 :].removeprefix(console.BOM) for one in fronts]
    leads = [one for one in fronts if not _NOTHING.match(one)]
    detected = detect_layout([lead + b"{}" for lead in leads] if 2 * len(leads) > len(fronts) else texts, options)
    over = sum(b"\n" in one for one in texts)
    evidence = f"{plural(len(places), 'JSON document')} at the beginning, {over or 'none'} of them over several lines"
    if detected.layout != PLAIN:
        evidence += f"; {detected.evidence}"
    return _made(source, "documents", evidence, detected.layout)


def _listed(source: Source, options: Options) -> Container | None:
    """A file of objects that list messages, as AWS Lambda, Pub/Sub and exports have them."""
    buffer = source.read(0, _SAMPLE)
    for level in (1, 2):
        places = [(begin, end) for begin, end in documents_in(buffer, b"", level) if end >= 0][:_LINES]
        texts = [buffer[begin:end].tobytes() for begin, end in places]
        if texts and all(map(is_record, texts)):
            detected = detect_layout(texts, options)
            evidence = f"{plural(len(texts), 'message')} at the beginning in lists of messages; {detected.evidence}"
            return _made(source, "documents", evidence, detected.layout, level=level)
    return None


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(source: Source, head: bytes, options: Options) -> tuple[Container, float]:
    """A file of messages in lines, and the share of its lines that are complete messages."""
    texts = _sample(source)
    layout, evidence, share = detect_layout(texts, options)
    key_lines = _key_lines(texts) if layout == PLAIN and options.separator in (None, b"\n") else None
    if key_lines is not None:
        end = b"\r\n" if head[: head.index(b"\n") + 1].endswith(b"\r\n") else b"\n"
        layout, share = Layout(("key",), end, key_line=key_lines), 1.0
        evidence = f"each line of a value follows one of its key, which begins with {key_lines.decode()}"
    is_lost = any(b"\xef\xbf\xbd" in text and any(sign in text for sign in _BINARY_SIGNS) for text in texts)
    is_raw = _BINARY_BYTE.search(head) and NAMED.match(head)
    problem = _LOST if is_lost else _RAW if is_raw else None
    return _made(source, "lines", evidence, layout, problem=problem), share


def _key_lines(texts: Sequence[bytes]) -> bytes | None:
    """What the lines of keys begin with, if each line of a value follows one of its key; None if not. A value has the
    fields of its key somewhere."""
    texts = [text for text in texts if text.lstrip()[:1] == b"{" or (text.strip() and not remark(text.strip()))]
    pairs = list(zip(texts[: 2 * _PAIRS : 2], texts[1 : 2 * _PAIRS : 2], strict=False))
    keys, values = zip(*pairs, strict=True) if pairs else ((b"",), ())
    begins = (keys[0][: found.end()] for found in re.finditer(rb'":', keys[0]))
    common = (one for one in begins if all(key.startswith(one) for key in keys))
    prefix = next((one for one in common if not any(value.startswith(one) for value in values)), None)
    if prefix is None or all(one.strip() == NULL for one in values):
        return None
    try:
        parsed = [(json.loads(key), json.loads(value)) for key, value in pairs]
    except (ValueError, RecursionError):
        return None
    are_objects = all(isinstance(key, dict) and isinstance(value, dict | None) for key, value in parsed)
    return prefix if are_objects and all(_is_keyed(value, key.get("payload", key)) for key, value in parsed) else None


def _is_keyed(content: Any, fields: Any) -> bool:
    """Whether a value is null, or an object with these fields is in it."""
    if not fields or not isinstance(fields, dict):
        return False
    inner = [*content.values()] if isinstance(content, dict) else content if isinstance(content, list) else []
    has_all = isinstance(content, dict) and fields.items() <= content.items()
    return content is None or has_all or any(one is not None and _is_keyed(one, fields) for one in inner)


def _sample(source: Source) -> list[bytes]:
    """Lines from the beginning, the middle and the end of a file, without their ends."""
    texts: list[bytes] = []
    share = source.length // _SHARE_OF_FILE
    for start in sorted({0, source.length // 2, max(source.length - _SAMPLE, 0)}):
        window = min(max(share, _LEAST_SAMPLE if start else _HEAD), _SAMPLE)
        for chunk in console.read_lines(source, start, min(start + _SAMPLE, source.length), PLAIN, window):
            for begin, end, _ in chunk.segments[:_LINES]:
                text = chunk.buffer[begin - chunk.base : end - chunk.base].tobytes()
                texts.append(text.removesuffix(b"\n").removesuffix(b"\r").removeprefix(console.BOM))
            break
        if source.length <= _SAMPLE:
            break
    return texts


# --- layout of lines --------------------------------------------------------------------------------------------------

_SEPARATORS: Final = tuple(
    one.encode()
    for one in ("\t", " | ", "|", ", ", ",", "; ", ";", " : ", "::", " - ", ": ", ":", " = ", " ", "-", "=")
)
"""What people use as a separator, the longer before what it contains; others are an option."""
_AROUND: Final = (("headers", "key"), ("headers",), ("key",))
"""What may be between the properties with names and the value."""
_ENCODED: Final = re.compile(rb"YXRNU0|AAA|ey[A-DI-L]|ew|\{'")
"""``atMSG``, a brace, and zero bytes in an encoding: what lines of encoded messages have in them."""
_TRIED: Final = 64  # lines that each layout is tried on
_FEW: Final = 8  # lines of which a layout has to fit one


class Detected(NamedTuple):
    """A layout, why, and the share of the lines that are complete messages under it."""

    layout: Layout
    evidence: str
    share: float


def detect_layout(lines: Sequence[bytes], options: Options) -> Detected:
    """The layout under which most lines (without their ends) are complete messages; given options override it."""
    texts = [line for line in lines if line.strip()]
    texts = [text for text in texts if text.lstrip()[:1] == b"{" or _is_printed(text) or not remark(text.strip())]
    sample = texts[:: 1 + len(texts) // _TRIED]
    best, most = None, -1
    for layout in _layouts(sample, options):
        fits = sum(_shows(text, layout) for text in sample[:_FEW])
        fits += sum(_shows(text, layout) for text in sample[_FEW:]) if fits else 0
        if best is None or fits > most:
            best, most = layout, fits
        if fits == len(sample):
            break
    assert best is not None
    if options.separator is not None and not best.records and 2 * most <= len(sample):
        best = replace(best, fields=best.fields or ("key",))
    if not texts:
        return Detected(best, "no line has evidence", 0.0)
    number = sum(_is_complete(text, best) for text in texts)
    evidence = f"{number:,} of {len(texts):,} lines "
    if best.records and _is_printed(texts[0]):
        evidence += "are records of a topic, as Java, Python or kcat prints them"
    elif best.records:
        evidence += "are JSON objects with a message in them"
    elif best.fields:
        evidence += f"hold {', '.join([*best.fields, 'value'])} with '{escaped(best.separator)}' between"
    else:
        evidence += "hold a value each"
    if best.encoding != "text":
        evidence += f"; values are in {best.encoding}" if best.encoding != "python" else "; as Python prints objects"
    return Detected(best, evidence, number / len(texts))


def _layouts(texts: Sequence[bytes], options: Options) -> Iterator[Layout]:
    """The layouts that lines may have, the simpler before others that also fit."""
    encoding, given = options.encoding, options.separator
    encodings = ("text", *DECODERS) if encoding is None else ("text" if encoding == AVRO_JSON else encoding,)
    if not 2 * sum(_ENCODED.search(text) is not None for text in texts) > len(texts):
        encodings = encodings[:1]
    if 2 * sum(map(_is_printed, texts)) > len(texts):
        yield Layout(records=True, encoding=encodings[0])
        return
    is_wrapped = 2 * sum(text.lstrip()[:1] == b"{" and is_record(text) for text in texts) > len(texts)
    yield from (Layout(records=is_wrapped, encoding=one, separator=given or b"\t") for one in encodings)
    if is_wrapped:
        return
    has_names = 2 * sum(NAMED.match(text) is not None for text in texts) > len(texts)
    separators = [one for one in _SEPARATORS if 2 * sum(one in text for text in texts) > len(texts)]
    for encoding, separator in product(encodings, separators if given is None else (given,)):
        named = Counter(properties(text, separator) for text in texts).most_common(1)
        names = named[0][0] if named else ()
        if has_names and not names:
            continue
        around = [one for one in _AROUND if one != ("headers",) or _has_headers(texts, names, separator)]
        for fields in (names, *((*names, *one) for one in around)):
            if fields:
                yield Layout(fields, separator, encoding)


def _has_headers(texts: Sequence[bytes], names: tuple[str, ...], separator: bytes) -> bool:
    """Whether what follows the properties with names can be headers and not keys that have a colon."""
    parts = [text.split(separator, len(names) + 1)[len(names) :] for text in texts]
    return any(part and (part[0] == console.NO_HEADERS or part[0].count(b":") > 1) for part in parts)


def _is_printed(text: bytes) -> bool:
    return any(mark in text for mark in envelopes.PRINTED) and envelopes.printed_record(text) is not None


def _is_complete(text: bytes, layout: Layout) -> bool:
    if layout.records and _is_printed(text):
        return True
    found = console.parse(text, layout)
    if found.state != MESSAGE or found.value is None:
        return found.state == MESSAGE
    return is_document(found.value) if found.value.lstrip()[:1] == b"{" else is_binary(found.value)


def _shows(text: bytes, layout: Layout) -> bool:
    """Whether a line is evidence of the layout. A JSON document alone, even if it is cut off, shows no fields."""
    if not layout.records and text.lstrip()[:1] == b"{" and (is_document(text) or is_cut_off(text)):
        return not layout.fields
    return _is_complete(text, layout)
