"""What a file that holds messages is, told by its content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.compressed import compression_of
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.messages import avro, parquet
from cdcwb.formats.messages.avro_rows import topic_columns
from cdcwb.formats.messages.chains import detect_prefix
from cdcwb.formats.messages.container import Container, Options, escaped
from cdcwb.formats.messages.detect import Detected, detect_layout
from cdcwb.formats.messages.documents import first_documents
from cdcwb.formats.messages.encodings import BINARY, is_binary
from cdcwb.formats.messages.layout import NULL, TOKENS, Layout
from cdcwb.formats.messages.lines import BOM, iter_lines, newlines
from cdcwb.formats.messages.notes import remark
from cdcwb.formats.messages.records import is_record
from cdcwb.formats.messages.segments import LONGEST
from cdcwb.words import plural

__all__ = ["probe"]

_HEAD: Final = 1 << 16
_SAMPLE: Final = 1 << 20  # bytes of text that are looked at in each place
_LINES: Final = 200  # lines of each place
_SHARE: Final = 0.5
_ID: Final = 5
_BINARY_BYTE: Final = re.compile(rb"[\x00-\x08]")
_NOTHING: Final = re.compile(rb"[\s,\[\]]*\Z")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_REMARKS: Final = (NULL + b"\n", b"Processed a total of ", b"% Reached end of ")
_TIMES: Final = (b"CreateTime:", b"LogAppendTime:", b"NO_TIMESTAMP")
_LOST: Final = "binary messages were printed as text: bytes above 7F became U+FFFD and cannot be recovered"


def probe(path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
    """What one file is. Options override what is detected; those that are not in :data:`OPTIONS` are not looked at.

    With a ``limit`` only so many bytes are unpacked of a compressed file, and the container speaks of them.

    Raises CaptureError for a file that cannot be read, OptionError for an option that cannot be used.
    """
    checked = Options.parse(options)
    source = open_source(path, "binary", limit if limit is not None and _is_packed(path) else None)
    try:
        found = _probe(source, checked)
        problem = source.problem or found.problem
        return replace(found, compression=source.compression, problem=problem)
    except CaptureError as error:
        error.path = error.path or path
        raise
    finally:
        source.close()


def _is_packed(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return compression_of(file.read(4)) is not None
    except OSError:
        return False  # open_source says why


def _probe(source: Source, options: Options) -> Container:
    head = source.read(0, _HEAD).tobytes()
    kind = options.container
    if kind == "avro" or (kind is None and head.startswith(avro.MAGIC)):
        return _avro(source)
    if kind == "parquet" or (kind is None and head.startswith(parquet.MAGIC)):
        return _parquet(source)
    found = _bytes(source, head, options)
    return found if kind is None else replace(found, evidence=f"container={kind} was given; {found.evidence}")


# --- rows -------------------------------------------------------------------------------------------------------------


def _avro(source: Source) -> Container:
    try:
        if source.read(0, len(avro.MAGIC)).tobytes() != avro.MAGIC:
            raise CaptureError("is not an Avro container: it does not begin with Obj and 1")
        file = avro.AvroFile(source)
    except CaptureError as reason:
        return Container(source.path, "avro", "row", source.size, 1, problem=reason.message, evidence="begins with Obj")
    count = number = 0
    for block in file.blocks():
        number += 1
        count = block.row + block.count
    topic = topic_columns(file.records)
    evidence = f"begins with Obj and 1; {plural(number, 'block')} with the codec {file.codec}"
    evidence += f"; its records are rows of a topic ({', '.join(topic)})" if topic else "; its records are the messages"
    settings = {"codec": file.codec, "records": "topic" if topic else "messages"}
    return Container(
        source.path,
        "avro",
        "row",
        source.size,
        count,
        problem=file.problem,
        settings=settings,
        evidence=evidence,
        schema=None if topic else file.schema,
    )


def _parquet(source: Source) -> Container:
    evidence = "begins with PAR1"
    try:
        file = parquet.ParquetRows(source)
    except CaptureError as reason:
        return Container(source.path, "parquet", "row", source.size, 1, problem=reason.message, evidence=evidence)
    names = ", ".join(file.columns.values())
    evidence = f"begins and ends with PAR1, and has the columns {names}"
    unit = "message" if file.is_partition else "row"
    return Container(
        source.path, "parquet", unit, source.size, file.count, settings={"columns": names}, evidence=evidence
    )


# --- bytes ------------------------------------------------------------------------------------------------------------


def _bytes(source: Source, head: bytes, options: Options) -> Container:
    kind = options.container
    if kind == "message":
        return _made(source, "message", {}, "the file is one message")
    if not source.length and kind is None:
        return _made(source, "lines", Layout().to_settings(), "the file is empty")
    if kind in (None, "prefixed"):
        found = _prefixed(source, head, options)
        if found is not None:
            return found
    if kind is None and is_binary(head) and _BINARY_BYTE.search(head[:64]):
        found = _raw(source, head)
        if found is not None:
            return found
    if kind in (None, "lines"):
        lines = _lines(source, head, options)
        if kind == "lines" or float(lines.settings.pop("share")) >= _SHARE:
            lines.settings.pop("share", None)
            return lines
        return _documents(source, options) or _one(source, head) or lines
    settings = {**Layout().to_settings(), "margin": escaped(_margin(source))}
    none = "no document was found at the beginning"
    return _documents(source, options) or _made(source, "documents", settings, none)


def _made(source: Source, kind: str, settings: dict[str, str], evidence: str, problem: str | None = None) -> Container:
    return Container(source.path, kind, "byte", source.size, settings=settings, evidence=evidence, problem=problem)


def _prefixed(source: Source, head: bytes, options: Options) -> Container | None:
    given = options.container == "prefixed"
    damaged = given or (_BINARY_BYTE.search(head) is not None and not _told(head))
    chain = detect_prefix(source, options, damaged)
    if chain is None and not given:
        return None
    if chain is None:
        settings = {"prefix": options.prefix or "be4", "pairs": str(bool(options.pairs)).lower(), "content": "any"}
        problem = "no kind of length prefix fits from message to message"
        return _made(source, "prefixed", settings, "the lengths cannot be detected", problem)
    settings = {
        "prefix": chain.prefix,
        "pairs": str(chain.pairs).lower(),
        "content": "any" if chain.anything else "messages",
    }
    return _made(source, "prefixed", settings, chain.evidence)


def _told(head: bytes) -> bool:
    """Does the file begin as one that is no dump with lengths: with a message, or with what a consumer prints?"""
    text = head.lstrip()
    return (
        head.startswith((BINARY, *_UTF16))
        or text[:1] in (b"{", b"[")
        or any(token.match(head) for token in TOKENS.values())
    )


def _raw(source: Source, head: bytes) -> Container | None:
    """A file that begins with a binary message: is it one, or several that are printed one a line?"""
    start = BINARY if head.startswith(BINARY) else head[:_ID]
    sample = source.read(0, 8 * _SAMPLE)
    behind = newlines(sample, (start[:3],))
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
    """A file that is one JSON document which has no end; there may be notes before it."""
    if source.length > LONGEST:
        return None
    front, brace, _ = head.removeprefix(BOM).partition(b"{")
    lines = [line for line in map(bytes.strip, front.split(b"\n")) if line]
    if not brace or not all(map(remark, lines)):
        return None
    evidence = f"the file begins with a JSON document that has no end{', after notes' if lines else ''}"
    if not lines:
        return _made(source, "message", {}, evidence)
    settings = {**Layout().to_settings(), "margin": escaped(_margin(source))}
    return _made(source, "documents", settings, evidence)


# --- text -------------------------------------------------------------------------------------------------------------


def _lines(source: Source, head: bytes, options: Options) -> Container:
    marks = _marks(head)
    texts = _sample(source, marks)
    detected = detect_layout(texts, options)
    layout = detected.layout
    if marks and _binary_values(texts, detected):
        layout = replace(layout, marks=(*marks, *_REMARKS[1:]))
    problem = None
    if head.startswith(_UTF16):
        problem = "the text is in UTF-16, which is not supported; save it as UTF-8"
    elif any(b"\xef\xbf\xbd" in text and (BINARY in text or b"\\u0000" in text or b"\0" in text) for text in texts):
        problem = _LOST
    settings = {**layout.to_settings(), "share": str(detected.share)}
    return _made(source, "lines", settings, detected.evidence, problem)


def _marks(head: bytes) -> tuple[bytes, ...]:
    """The beginnings of lines whose values may be raw bytes, newlines included."""
    if _BINARY_BYTE.search(head) is None:
        return ()
    for name, token in TOKENS.items():
        if token.match(head):
            return _TIMES if name == "timestamp" else (head[: head.index(b":") + 1],)
    return ()


def _binary_values(texts: list[bytes], detected: Detected) -> bool:
    fields, separator = len(detected.layout.fields), detected.layout.separator
    rests = [text.split(separator, fields)[-1] for text in texts]
    return 2 * sum(map(is_binary, rests)) > len(rests)


def _sample(source: Source, marks: tuple[bytes, ...]) -> list[bytes]:
    """Lines from the begin, the middle and the end of a file, without their ends."""
    texts: list[bytes] = []
    for start in sorted({0, source.length // 2, max(source.length - _SAMPLE, 0)}):
        for segments in iter_lines(source, start, min(start + _SAMPLE, source.length), marks, _SAMPLE):
            for at in range(min(len(segments), _LINES)):
                if segments.state[at] == 0:
                    texts.append(source.read(int(segments.first[at]), int(segments.last[at])).tobytes())
            break
        if source.length <= _SAMPLE:
            break
    return texts


def _documents(source: Source, options: Options) -> Container | None:
    margin = _margin(source)
    places = first_documents(source, _SAMPLE, margin)
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


def _margin(source: Source) -> bytes:
    """The blanks before the first opening brace, if nothing else stands on its line before it."""
    head = source.read(0, _HEAD).tobytes()
    at = head.find(b"{")
    front = b"" if at < 0 else _front(source, at)
    return b"" if front.strip() else front


def _front(source: Source, begin: int) -> bytes:
    """What stands before a document on its line, or behind the one before it there."""
    text = source.read(max(begin - 4096, 0), begin).tobytes()
    return text[max(text.rfind(b"\n"), text.rfind(b"}")) + 1 :].removeprefix(BOM)


def _blank(source: Source, start: int, stop: int) -> bool:
    """Is there nothing but white space (and a byte order mark) in a range?"""
    there = source.read(start, min(stop, start + _HEAD))
    blank = np.isin(there, list(b" \t\r\n" + (BOM if start == 0 else b"")))
    return bool(blank.all()) and stop - start <= _HEAD
