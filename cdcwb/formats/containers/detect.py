"""What a file that holds messages is, detected from its content."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.containers import console, envelopes
from cdcwb.formats.containers.avro_file import MAGIC, AvroFile, topic_columns
from cdcwb.formats.containers.avro_json import AVRO_JSON, is_avro_json
from cdcwb.formats.containers.console import NULL, TOKENS, Layout, escaped, is_document, remark
from cdcwb.formats.containers.documents import documents_in
from cdcwb.formats.containers.envelopes import BINARY, DECODERS, begins_message, is_binary, is_record
from cdcwb.formats.containers.kafka_rows import CsvRows, ParquetRows, kafka_columns
from cdcwb.formats.containers.message_files import Container, Options, chunks
from cdcwb.formats.containers.messages import LONGEST, MESSAGE, batches_of
from cdcwb.formats.files import Source, compression_of, open_source
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.source import open_file
from cdcwb.words import plural

__all__ = ["detect_layout", "probe"]

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
_REMARKS: Final = (NULL + b"\n", b"Processed a total of ", b"% Reached end of ")
_TIMES: Final = (b"CreateTime:", b"LogAppendTime:", b"NO_TIMESTAMP")
_LISTS: Final = re.compile(rb'\{.{0,4000}?"(?:records|Records|receivedMessages|messages)"\s*:\s*[\[{]', re.DOTALL)
_CSV: Final = re.compile(rb'"?\w+"?(?:([,;\t|]) ?"?\w+"?(?:\1 ?"?\w+"?)*)\r?\Z')
_LOST: Final = "binary messages were printed as text: bytes above 7F became U+FFFD and cannot be recovered"


def probe(path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
    """What one file is. Options override what is detected; those that are not options of containers are ignored.

    With a ``limit`` only so many bytes of a compressed file are unpacked, and the container is that of these bytes.

    Raises CaptureError for a file that cannot be read, OptionError for an option that cannot be used.
    """
    checked = Options.parse(options)
    with open_source(path, "binary", limit if limit is not None and _is_packed(path) else None) as source:
        try:
            found = _probe(source, checked, limit is None)
        except CaptureError as error:
            error.path = error.path or path
            raise
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
        return _table(source, "parquet", "", options.split_size, is_whole)
    delimiter = _delimiter(head)
    if kind == "csv" or (kind is None and delimiter is not None):
        return _table(source, "csv", delimiter or ",", options.split_size, is_whole)
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
    starts, rows, count = file.parts(size) if is_whole else ([0], [0], None)
    return Container(
        source.path,
        "avro",
        "row",
        source.size,
        count,
        problem=file.problem,
        settings=settings if file.is_readable else {},
        evidence=evidence if file.is_readable else "begins with Obj",
        schema=None if topic or not file.is_readable else file.schema,
        starts=starts,
        rows=rows,
    )


def _delimiter(head: bytes) -> str | None:
    """The delimiter of a text whose header line names Kafka's columns: ``value`` and others."""
    line = head.removeprefix(console.BOM).split(b"\n", 1)[0].rstrip(b"\r")
    found = _CSV.match(line) if len(line) < 1000 else None
    if found is None:
        return None
    delimiter = found[1].decode()
    columns = kafka_columns([name.strip(' "') for name in line.decode("ascii", "replace").split(delimiter)])
    return delimiter if {"topic", "partition", "offset", "key"} & columns.keys() else None


def _table(source: Source, kind: str, delimiter: str, split_size: int, is_whole: bool) -> Container:
    """A Parquet file, or delimited text."""
    try:
        file = ParquetRows(source) if kind == "parquet" else CsvRows(source, delimiter)
    except CaptureError as reason:
        evidence = "begins with PAR1" if kind == "parquet" else "is delimited text"
        return Container(source.path, kind, "row", source.size, 1, problem=reason.message, evidence=evidence)
    names = ", ".join(file.columns.values())
    unit, settings, starts = "row", {"columns": names}, [0]
    if isinstance(file, ParquetRows):
        evidence = f"begins and ends with PAR1, and has the columns {names}"
        unit, count = "message" if file.is_partition else "row", file.count
        starts = file.parts(split_size) if source.compression is None else starts
    else:
        settings["delimiter"] = delimiter
        evidence = f"is text delimited by '{escaped(delimiter.encode())}' with the columns {names}"
        count = file.count() if is_whole else source.size  # no more rows than bytes
    return Container(
        source.path, kind, unit, source.size, count, settings=settings, evidence=evidence, starts=starts, rows=starts
    )


# --- bytes ------------------------------------------------------------------------------------------------------------


def _bytes(source: Source, head: bytes, options: Options) -> Container:
    kind = options.container
    if kind == "message":
        return _made(source, "message", {}, "the file is one message")
    if not source.length and kind is None:
        return _made(source, "lines", Layout().to_settings(), "the file is empty")
    if kind is None and is_binary(head) and _BINARY_BYTE.search(head[:64]):
        return _binary(source, head)
    if kind != "lines" and _LISTS.match(head.lstrip(b" \t\r\n[")) and (listed := _listed(source, options)) is not None:
        return listed
    if kind in (None, "lines"):
        lines = _lines(source, head, options)
        share = float(lines.settings.pop("share"))
        if kind == "lines" or share >= _SHARE:
            return lines
        return _documents(source, options) or _one(source, head) or lines
    settings = {**Layout().to_settings(), "margin": escaped(_margin(source))}
    none = "no document was found at the beginning"
    return _documents(source, options) or _made(source, "documents", settings, none)


def _in_avro_json(source: Source, found: Container, options: Options) -> Container:
    """The same, if its values are in Avro's JSON encoding with this encoding and the schema that was given."""
    if options.encoding not in (None, AVRO_JSON) or found.settings.get("encoding", "text") not in ("text", AVRO_JSON):
        return found
    evidence = found.evidence
    if options.encoding is None:
        first = next(batches_of(chunks(found, source, 0, _HEAD), _VALUES), None)
        if first is None or not is_avro_json(first.value.to_pylist()):
            return found
        evidence += "; records and numbers have the names of their types, as Avro's JSON encoding writes them"
    settings = {**found.settings, "encoding": AVRO_JSON}
    return replace(found, settings=settings, evidence=evidence, schema=options.avro_schema)


def _made(source: Source, kind: str, settings: dict[str, str], evidence: str, problem: str | None = None) -> Container:
    return Container(source.path, kind, "byte", source.size, settings=settings, evidence=evidence, problem=problem)


def _binary(source: Source, head: bytes) -> Container:
    """A file that begins with a binary message: either it is one, or several are printed one a line."""
    start = BINARY if head.startswith(BINARY) else head[:_ID]
    sample = source.read(0, 8 * _SAMPLE)
    behind = console.newlines(sample, (start[:3],))
    behind = behind[behind + _ID <= len(sample)]
    starts = Counter(sample[at : at + _ID].tobytes() for at in behind.tolist())
    ends = source.length > 0 and int(source.read(source.length - 1, source.length)[0]) == ord("\n")
    if starts[start] and (start == BINARY or ends):
        often = max(starts.values())
        marks = (start, *sorted(found for found, times in starts.items() if found != start and times * 20 >= often))
        if start == BINARY:
            marks = (start,)
        evidence = f"{plural(starts[start] + 1, 'line')} of the beginning start with {start.hex()}, as the file does"
        return _made(source, "lines", Layout(marks=(*marks, *_REMARKS)).to_settings(), evidence)
    what = "atMSG" if start == BINARY else f"a zero byte and the schema id {int.from_bytes(start[1:], 'big')}"
    return _made(source, "message", {}, f"the file begins with {what}, and no other message begins after a newline")


def _one(source: Source, head: bytes) -> Container | None:
    """A file that is one JSON document without an end; notes may precede it."""
    if source.length > LONGEST:
        return None
    front, brace, _ = head.removeprefix(console.BOM).partition(b"{")
    lines = [line for line in map(bytes.strip, front.split(b"\n")) if line]
    if not brace or not all(map(remark, lines)):
        return None
    evidence = f"the file begins with a JSON document that has no end{', after notes' if lines else ''}"
    if not lines:
        return _made(source, "message", {}, evidence)
    settings = {**Layout().to_settings(), "margin": escaped(_margin(source))}
    return _made(source, "documents", settings, evidence)


# --- documents --------------------------------------------------------------------------------------------------------


def _first_documents(source: Source, margin: bytes, level: int = 0) -> list[tuple[int, int]]:
    """Start and end of the documents at the beginning of a file that are complete."""
    found = documents_in(source.read(0, _SAMPLE), margin, level)
    return [(begin, end) for begin, end in found if end >= 0]


def _documents(source: Source, options: Options) -> Container | None:
    margin = _margin(source)
    places = _first_documents(source, margin)
    places = [(begin, end) for begin, end in places if is_document(source.read(begin, end).tobytes())]
    if not places:
        return None
    texts = [source.read(begin, end).tobytes() for begin, end in places[:_LINES]]
    over = sum(b"\n" in text for text in texts)
    alone = len(places) == 1 and _blank(source, 0, places[0][0]) and _blank(source, places[0][1], source.length)
    if alone and options.container is None and not is_record(texts[0]):
        return _made(source, "message", {}, "the file is one JSON document")
    fronts = [_front(source, begin) for begin, _ in places[:_LINES]]
    leads = [front for front in fronts if not _NOTHING.match(front)]
    detected = detect_layout([lead + b"{}" for lead in leads] if 2 * len(leads) > len(fronts) else texts, options)
    margins = Counter(front for front in fronts if not front.strip())
    margin = margins.most_common(1)[0][0] if margins else margin
    evidence = f"{plural(len(places), 'JSON document')} at the beginning, {over or 'none'} of them over several lines"
    if detected.layout != Layout():
        evidence += f"; {detected.evidence}"
    settings = {**detected.layout.to_settings(), "margin": escaped(margin)}
    return _made(source, "documents", settings, evidence)


def _listed(source: Source, options: Options) -> Container | None:
    """A file of objects that list messages, as AWS Lambda, Pub/Sub and exports have them."""
    first = source.read(0, _SAMPLE).tobytes()
    for level in (1, 2):
        places = _first_documents(source, b"", level)[:_LINES]
        texts = [first[begin:end] for begin, end in places]
        if texts and all(map(is_record, texts)):
            detected = detect_layout(texts, options)
            evidence = f"{plural(len(texts), 'message')} at the beginning in lists of messages; {detected.evidence}"
            settings = {**detected.layout.to_settings(), "margin": "", "level": str(level)}
            return _made(source, "documents", settings, evidence)
    return None


def _margin(source: Source) -> bytes:
    """The blanks before the first opening brace, if nothing else precedes it on its line."""
    head = source.read(0, _HEAD).tobytes()
    at = head.find(b"{")
    front = b"" if at < 0 else _front(source, at)
    return b"" if front.strip() else front


def _front(source: Source, begin: int) -> bytes:
    """What precedes a document on its line, or follows the one before it there."""
    text = source.read(max(begin - 4096, 0), begin).tobytes()
    return text[max(text.rfind(b"\n"), text.rfind(b"}")) + 1 :].removeprefix(console.BOM)


def _blank(source: Source, start: int, stop: int) -> bool:
    """Whether nothing but white space (and a byte order mark) is in a range."""
    there = source.read(start, min(stop, start + _HEAD))
    blank = np.isin(there, list(b" \t\r\n" + (console.BOM if start == 0 else b"")))
    return bool(blank.all()) and stop - start <= _HEAD


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(source: Source, head: bytes, options: Options) -> Container:
    marks = _marks(head)
    texts = _sample(source, marks)
    detected = detect_layout(texts, options)
    key_lines = _key_lines(texts) if detected.layout == Layout() and options.separator in (None, b"\n") else None
    if key_lines is not None:
        end = b"\r\n" if head[: head.index(b"\n") + 1].endswith(b"\r\n") else b"\n"
        layout = Layout(("key",), end, marks=(key_lines, *_REMARKS[1:]))
        evidence = f"each line of a value follows one of its key, which begins with {key_lines.decode()}"
        return _made(source, "lines", {**layout.to_settings(), "share": "1"}, evidence)
    layout = detected.layout
    values = [text.split(layout.separator, len(layout.fields))[-1] for text in texts] if marks else []
    if 2 * sum(map(is_binary, values)) > len(values):
        layout = replace(layout, marks=(*marks, *_REMARKS[1:]))
    problem = None
    if any(b"\xef\xbf\xbd" in text and (BINARY in text or b"\\u0000" in text or b"\0" in text) for text in texts):
        problem = _LOST
    settings = {**layout.to_settings(), "share": str(detected.share)}
    return _made(source, "lines", settings, detected.evidence, problem)


def _key_lines(texts: Sequence[bytes]) -> bytes | None:
    """What the lines of keys begin with, if each line of a value follows one of its key; None if not. A value has the
    fields of its key somewhere."""
    texts = [text for text in texts if text.lstrip()[:1] == b"{" or (text.strip() and not remark(text.strip()))]
    pairs = list(zip(texts[: 2 * _PAIRS : 2], texts[1 : 2 * _PAIRS : 2], strict=False))
    values = [value for _, value in pairs]
    common = _common([key for key, _ in pairs])
    ends = (found.end() for found in re.finditer(rb'":', common))
    prefix = next((common[:end] for end in ends if not any(one.startswith(common[:end]) for one in values)), None)
    if prefix is None or all(one.strip() == NULL for one in values):
        return None
    return prefix if all(_is_keyed(value, key) for key, value in pairs) else None


def _is_keyed(value: bytes, key: bytes) -> bool:
    try:
        fields, content = json.loads(key), json.loads(value)
    except (ValueError, RecursionError):
        return False
    fields = fields.get("payload", fields) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not fields:
        return False
    return content is None or (isinstance(content, dict) and _has_fields(content, fields))


def _has_fields(content: Any, fields: Mapping[str, Any]) -> bool:
    if isinstance(content, dict):
        has_all = all(name in content and content[name] == value for name, value in fields.items())
        return has_all or any(_has_fields(one, fields) for one in content.values())
    return isinstance(content, list) and any(_has_fields(one, fields) for one in content)


def _marks(head: bytes) -> tuple[bytes, ...]:
    """The beginnings of lines whose values may be raw bytes, with newlines."""
    if _BINARY_BYTE.search(head) is None:
        return ()
    for name, token in TOKENS.items():
        if token.match(head):
            return _TIMES if name == "timestamp" else (head[: head.index(b":") + 1],)
    return ()


def _sample(source: Source, marks: tuple[bytes, ...]) -> list[bytes]:
    """Lines from the beginning, the middle and the end of a file, without their ends."""
    texts: list[bytes] = []
    share = source.length // _SHARE_OF_FILE
    for start in sorted({0, source.length // 2, max(source.length - _SAMPLE, 0)}):
        window = min(max(share, _LEAST_SAMPLE if start else _HEAD), _SAMPLE)
        for chunk in console.read_lines(
            source, start, min(start + _SAMPLE, source.length), Layout(marks=marks), window
        ):
            for begin, end, _ in chunk.segments[:_LINES]:
                text = chunk.buffer[begin - chunk.base : end - chunk.base].tobytes()
                texts.append(text.removesuffix(b"\n").removesuffix(b"\r").removeprefix(console.BOM))
            break
        if source.length <= _SAMPLE:
            break
    return texts


# --- layout of lines --------------------------------------------------------------------------------------------------

_SEPARATORS: Final = tuple(
    one.encode() for one in ("\t", " | ", "|", ", ", ",", "; ", ";", " : ", "::", " - ", ": ", ":", " ", "-", "=")
)
"""What people use as a separator, the longer before what it contains."""
_RUN: Final = re.compile(rb"[^A-Za-z0-9_\"'{}\[\]\x80-\xff]+")
_SIGN: Final = re.compile(rb"[^A-Za-z0-9_\"'{}\[\]\x80-\xff]\{")
_TRIED: Final = 64  # lines that are looked at for each separator
_ATTEMPTS: Final = 8  # separators of a line that a value may follow


class Detected(NamedTuple):
    """A layout, why, and the share of the lines that are complete messages under it."""

    layout: Layout
    evidence: str
    share: float


def detect_layout(lines: Sequence[bytes], options: Options) -> Detected:
    """The layout of lines (without their ends), as most of them show it; given options override it."""
    texts = [line for line in lines if line.strip()]
    texts = [text for text in texts if text.lstrip()[:1] == b"{" or _is_printed(text) or not remark(text.strip())]
    if not texts:
        return Detected(_given(Layout(), options), "no line has evidence", 0.0)
    records = [text for text in texts if text.lstrip()[:1] == b"{" and is_record(text)]
    printed = sum(map(_is_printed, texts))
    if 2 * printed > len(texts):
        layout = _given(Layout(records=True), options)
        evidence = f"{printed:,} of {len(texts):,} lines are records of a topic, as Java, Python or kcat prints them"
    elif 2 * len(records) > len(texts):
        encoding, why = _encoding([payload for text in records if (payload := envelopes.payload_of(text)) is not None])
        layout = _given(Layout(records=True, encoding=encoding), options)
        evidence = f"{len(records):,} of {len(texts):,} lines are JSON objects with a message in them{why}"
    else:
        layout, evidence = _consoles(texts, options)
    whole = sum(_is_whole(text, layout) for text in texts)
    return Detected(layout, evidence, whole / len(texts))


def _is_printed(text: bytes) -> bool:
    return any(mark in text for mark in envelopes.PRINTED) and envelopes.printed_record(text) is not None


def _given(layout: Layout, options: Options) -> Layout:
    if options.encoding is not None:
        layout = replace(layout, encoding="text" if options.encoding == AVRO_JSON else options.encoding)
    return layout if options.separator is None else replace(layout, separator=options.separator)


def _is_whole(text: bytes, layout: Layout) -> bool:
    found = console.parse(text, layout)
    if found.state != MESSAGE:
        return False
    if found.value is None:
        return True
    return is_document(found.value) if found.value.lstrip()[:1] == b"{" else is_binary(found.value)


def _consoles(texts: Sequence[bytes], options: Options) -> tuple[Layout, str]:
    """The layout of lines of properties, key and value: of all that are possible, the first that fits most of them."""
    sample = texts[:: 1 + len(texts) // _TRIED]
    named: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    separator, most = options.separator or b"\t", sum(_value_at(text, None) == 0 for text in sample)
    for one in _separators(sample) if options.separator is None else (options.separator,):
        if most == len(sample):
            break
        tokens = Counter(names for names, _ in (_walk(text, one) for text in sample)).most_common(1)[0][0]
        rests = _rests(sample, one, tokens)
        parts = [rest.rpartition(one) for rest in rests]
        tail: tuple[str, ...] = ()
        if 10 * sum(value[-1:] == b"}" and end.isdigit() for value, _, end in parts) >= 9 * len(parts):
            rests, tail = [value for value, _, _ in parts], (console.TAIL,)
        ends = [_value_at(rest, one) for rest in rests]
        if (fits := sum(end is not None for end in ends)) > most:
            leads = [rest[: end - len(one)] for rest, end in zip(rests, ends, strict=True) if end]
            before = _before(leads, one) if 2 * len(leads) > fits else ()
            separator, most, named, around = one, fits, tokens, (*before, *tail)
    if options.separator is not None and not named and not around and 2 * most <= len(sample):
        around = ("key",)  # as the option has it
    fields = (*named, *around)
    rests = _rests(texts, separator, named) if fields else list(texts)
    values = [rest.rpartition(separator)[0] for rest in rests] if console.TAIL in fields else rests
    is_keyed = around not in ((), (console.TAIL,))
    ends = [_value_at(value, separator if is_keyed else None) for value in values]
    encoding, why = _encoding([value[end:] for value, end in zip(values, ends, strict=True) if end is not None])
    evidence = f"{len(rests):,} of {len(texts):,} lines hold "
    evidence += f"{', '.join([*fields, 'value'])} with '{escaped(separator)}' between" if fields else "a value each"
    return _given(Layout(fields, separator, encoding), options), evidence + why


def _separators(texts: Sequence[bytes]) -> list[bytes]:
    """What is in most of these lines and may separate their parts: signs of their own that follow the first property
    or precede the value, then what people use."""
    tokens = [next(filter(None, (token.match(text) for token in TOKENS.values())), None) for text in texts]
    after = [text[found.end() :] for text, found in zip(texts, tokens, strict=True) if found is not None]
    before = [text[: found.end() - 1][::-1] for text in texts if (found := _SIGN.search(text)) is not None]
    runs = [_RUN.match(_common(after)), _RUN.match(_common(before))]
    own = [run[0][:: 1 - 2 * at] for at, run in enumerate(runs) if run is not None]
    own = [run for run in own if b"\t" not in run and run not in {one * (len(run) // len(one)) for one in _SEPARATORS}]
    return [one for one in (*own, *_SEPARATORS) if 2 * sum(one in text for text in texts) > len(texts)]


def _rests(texts: Sequence[bytes], separator: bytes, tokens: tuple[str, ...]) -> list[bytes]:
    """What follows the properties with names, of the lines that begin with these."""
    return [rest for names, rest in (_walk(text, separator) for text in texts) if names == tokens]


def _walk(text: bytes, separator: bytes) -> tuple[tuple[str, ...], bytes]:
    """The properties with names that a line begins with, and what follows them."""
    names = []
    for name, token in TOKENS.items():
        found = token.match(text)
        if found is not None and text.startswith(separator, found.end()):
            names.append(name)
            text = text[found.end() + len(separator) :]
    return tuple(names), text


def _common(texts: Sequence[bytes]) -> bytes:
    """What all of the texts begin with."""
    low, high = min(texts, default=b""), max(texts, default=b"")
    same = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    return low[:same]


def _value_at(text: bytes, separator: bytes | None) -> int | None:
    """Where the value of a line begins: at its start, or after a separator; None if neither is a value."""
    if _is_value(text.lstrip()):
        return 0
    if separator is None:
        return None
    at = text.find(separator, _document_end(text))
    for _ in range(_ATTEMPTS):
        if at < 0:
            break
        if _is_value(text[at + len(separator) :]):
            return at + len(separator)
        at = text.find(separator, at + 1)
    return None


def _document_end(text: bytes) -> int:
    """Where the JSON object or array ends that the text begins with; 0 without one."""
    if text[:1] not in (b"{", b"["):
        return 0
    try:
        return json.JSONDecoder().raw_decode(text.decode("latin-1"))[1]
    except (ValueError, RecursionError):
        return 0


def _is_value(text: bytes) -> bool:
    """Whether the text is a JSON object, though it may be cut off, null, or a message in another encoding."""
    if text[:1] == b"{" and (is_document(text) or is_cut_off(text)):
        return True
    return text == NULL or _begins_encoded(text)


def _begins_encoded(text: bytes) -> bool:
    """Whether the text is a binary message, or one in another encoding."""
    return is_binary(text) or any(map(begins_message, filter(None, (decode(text) for decode in DECODERS.values()))))


def _before(leads: Sequence[bytes], separator: bytes) -> tuple[str, ...]:
    """Whether these are headers, a key, or both."""
    if all(map(is_document, leads)):
        return ("key",)
    found = [console.header_pairs(lead + separator, separator) for lead in leads]
    if leads and all(pairs is not None for pairs, _ in found):
        if all(rest for _, rest in found):
            return ("headers", "key")
        alone = [lead for lead, (_, rest) in zip(leads, found, strict=True) if not rest]
        if len(alone) == len(leads) and any(lead == console.NO_HEADERS or lead.count(b":") > 1 for lead in leads):
            return ("headers",)
    return ("key",)


def _encoding(values: Sequence[bytes]) -> tuple[str, str]:
    """The encoding of most values, and why."""
    others = [value for value in values if value.strip() != NULL and not is_document(value) and not is_binary(value)]
    counts = {
        name: sum((value := decode(text)) is not None and begins_message(value) for text in others)
        for name, decode in DECODERS.items()
    }
    best = max(counts, key=lambda name: counts[name])
    if counts[best] * 2 > len(others):
        what = "JSON objects as Python prints them" if best == "python" else best
        return best, f"; {plural(counts[best], 'value')} in {best}" if best != "python" else f"; {what}"
    return "text", ""
