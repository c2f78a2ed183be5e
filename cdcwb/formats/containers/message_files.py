"""Files that hold messages: their options, the parts that can be read separately, and their messages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdcwb.errors import CaptureError, ChangedFileError
from cdcwb.formats import options as opt
from cdcwb.formats.containers.avro_file import AvroFile, read_avro
from cdcwb.formats.containers.console import BOM, PLAIN, Layout, read_lines, unescaped
from cdcwb.formats.containers.documents import read_documents
from cdcwb.formats.containers.kafka_rows import ParquetRows, malformed_rows
from cdcwb.formats.containers.messages import (
    AVRO_JSON,
    BATCH,
    LONGEST,
    MESSAGE,
    Chunk,
    Messages,
    ParsedSegment,
    batches_of,
    damage,
    decoded,
)
from cdcwb.formats.dissector import detected_row, file_row
from cdcwb.formats.files import open_source
from cdcwb.formats.source import Source
from cdcwb.model import OffsetUnit

# --- options ----------------------------------------------------------------------------------------------------------

KINDS: Final = ("lines", "documents", "message", "avro", "parquet")
"""The kinds of container."""

ENCODINGS: Final = ("text", "base64", "python", AVRO_JSON)
"""How values may be written."""

SPLIT_SIZE: Final = 64 << 20

OPTIONS: Final[dict[str, str]] = {
    "container": f"container of the messages: auto, {', '.join(KINDS)}",
    "separator": r"separator of properties, key and value in a console consumer's line: auto, or the text itself (\t)",
    "encoding": f"encoding of values: auto, {', '.join(ENCODINGS)}",
    "avro_schema": "file with the Avro schema of values that name none",
    "split_size": f"bytes of a large file that one task reads ({SPLIT_SIZE})",
}
"""Every option of containers and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a container, checked. None: to be detected."""

    container: str | None = None
    separator: bytes | None = None
    encoding: str | None = None
    split_size: int = SPLIT_SIZE
    avro_schema: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options; names that are not in :data:`OPTIONS` are ignored. Raises OptionError."""
        values = {name: value for name, value in opt.given_of(given).items() if name in OPTIONS}
        return cls(
            container=opt.optional("container", values, opt.as_choice, ("auto", *KINDS)),
            separator=opt.optional("separator", values, unescaped),
            encoding=opt.optional("encoding", values, opt.as_choice, ("auto", *ENCODINGS)),
            split_size=opt.as_whole("split_size", values.get("split_size", SPLIT_SIZE), 64),
            avro_schema=opt.optional("avro_schema", values, opt.as_content),
        )


# --- containers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Container:
    """One file that holds messages.

    ``kind`` is one of :data:`KINDS`. ``unit`` is what places count: ``byte`` of the decompressed file, ``row``, or
    ``message`` of one partition of a topic. ``size``: bytes of the decompressed file; ``count``: its rows, None if the
    unit is the byte. ``problem``: what is wrong with the file as such. ``layout``: how its
    lines or documents are read; ``level``: the objects around each document. ``settings`` are what was detected, as
    texts, and ``evidence`` is why, in a sentence. ``schema`` is the text of the Avro schema of the container itself.
    ``rows`` are the rows with which the parts of an Avro container or a Parquet file begin, ``starts`` the bytes where
    those of an Avro container do.
    """

    path: str
    kind: str
    unit: str
    size: int
    count: int | None = None
    compression: str | None = None
    problem: str | None = None
    layout: Layout = PLAIN
    level: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    evidence: str = ""
    schema: str | None = None
    starts: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def extent(self) -> int:
        """Its size in the unit of its parts: bytes, or rows."""
        return self.size if self.count is None else self.count

    def open(self) -> Source:
        """The bytes of the file."""
        return open_source(self.path, "binary", size=self.size)


def parts(container: Container, split_size: int = SPLIT_SIZE) -> list[tuple[int, int]]:
    """Runs ``[start, stop)`` of a container that can be read separately, in bytes or rows; together they are all of it.

    A part has the messages that begin in it. Only what can be found from any place is cut: lines anywhere, about every
    ``split_size`` bytes, Avro containers and Parquet files at some of their ``rows``.
    """
    if container.kind == "lines" and container.compression is None and not container.layout.key_line:
        return [(at, min(at + split_size, container.size)) for at in range(0, container.size, split_size)]
    starts = container.rows or [0]
    found = zip(starts, [*starts[1:], container.extent], strict=True)
    return [(start, stop) for start, stop in found if start < stop]


# --- messages ---------------------------------------------------------------------------------------------------------


def read(
    container: Container, start: int, stop: int, batch: int = BATCH, limit: int | None = None
) -> Iterator[Messages]:
    """The messages and other segments that begin in ``[start, stop)``, in order, without gap or overlap.

    A batch has at most ``batch`` of them and about 32 MiB, unless a single message is longer. With a ``limit`` only so
    many bytes of a compressed file are unpacked.
    """
    some = limit if container.compression is not None else None
    with open_source(container.path, "binary", some, container.size if some is None else None) as source:
        if container.unit != OffsetUnit.BYTE:
            yield from _rows(container, source, start, min(stop, container.extent), batch)
        else:
            yield from (_decoded(container, one) for one in batches_of(chunks(container, source, start, stop), batch))


_NEAR: Final = 1 << 14  # bytes before an offset in which its line probably begins


def locate(container: Container, offset: int) -> Messages:
    """The one segment that has a byte, or the row or message at a place. Raises CaptureError if there is none."""
    if container.unit == OffsetUnit.MESSAGE:
        with container.open() as source:
            row = ParquetRows(source).row_of(offset)
        if row is None:
            raise CaptureError(f"the file has no message with offset {offset}", path=container.path, offset=offset)
        return next(read(container, row, row + 1))
    if not 0 <= offset < container.extent:
        unit = "bytes" if container.unit == OffsetUnit.BYTE else "rows"
        raise CaptureError(f"the file has {container.extent} {unit}", path=container.path, offset=offset)
    if container.unit == OffsetUnit.ROW:
        return next(read(container, offset, offset + 1))
    with container.open() as source:
        before = _NEAR if container.kind == "lines" and not container.layout.key_line else offset
        while True:
            start = max(offset - before, 0)
            stop = offset + 1 if container.kind == "lines" else container.size
            for base, buffer, segments in chunks(container, source, start, stop):
                found = [one for one in segments if one[0] <= offset < one[1]]
                if found:
                    return _decoded(container, next(batches_of([Chunk(base, buffer, found)], 1)))
            if start == 0:
                break
            before *= 64  # the line begins before
    raise CaptureError("the file became shorter while it was read", path=container.path, offset=offset)


def _decoded(container: Container, messages: Messages) -> Messages:
    return decoded(messages) if container.settings.get("encoding") == AVRO_JSON else messages


def chunks(container: Container, source: Source, start: int, stop: int) -> Iterator[Chunk]:
    """The segments that begin in ``[start, stop)`` of a file whose unit is the byte; values are as written."""
    if container.kind == "lines":
        return read_lines(source, start, stop, container.layout)
    if start > 0 or not source.length:
        return iter(())  # they are one part, which begins at 0
    if container.kind == "documents":
        return read_documents(source, container.layout, container.level)
    return _whole(source)


def _whole(source: Source) -> Iterator[Chunk]:
    """A file that is one message: all its bytes, or those of the document in it."""
    length = source.length
    if length > LONGEST:
        for one in damage(0, length, f"a message longer than {LONGEST:,} bytes, the maximum"):
            yield Chunk(one[0], source.read(*one[:2]), [one])
        return
    buffer = source.read(0, length)
    text = buffer.tobytes()
    bare = text.removeprefix(BOM).strip(b" \t\r\n")
    value = bare if bare[:1] == b"{" else text
    yield Chunk(0, buffer, [(0, length, ParsedSegment(MESSAGE, value))])


def _rows(container: Container, source: Source, start: int, stop: int, batch: int) -> Iterator[Messages]:
    if start >= stop:
        return
    try:
        if container.kind == "avro":
            part = max(bisect_right(container.rows, start) - 1, 0)
            yield from read_avro(AvroFile(source), container.starts[part], container.rows[part], start, stop, batch)
        else:
            yield from ParquetRows(source).read(start, stop, batch)
    except CaptureError as reason:
        if isinstance(reason, ChangedFileError):
            raise
        yield malformed_rows(start, stop, reason.message, source.read(0, LONGEST).tobytes())


# --- plans ------------------------------------------------------------------------------------------------------------

Part = tuple[int, int, int]
"""Index of a container, and the run ``[start, stop)`` of its bytes or rows whose messages belong to the part."""

_SMALL: Final = 4 << 20
_MOST_FILES: Final = 64


def grouped(found: Sequence[Container], split_size: int) -> list[list[Part]]:
    """The parts of all containers, those of small ones in one group: a task costs more than to read a few messages."""
    groups: list[list[Part]] = []
    room = 0.0
    for index, container in enumerate(found):
        for start, stop in parts(container, split_size):
            size = container.size * (stop - start) / max(container.extent, 1)
            if not groups or size > room or len(groups[-1]) >= _MOST_FILES:
                groups.append([])
                room = min(_SMALL, split_size)
            groups[-1].append((index, start, stop))
            room -= size
    return groups


def file_rows(found: Sequence[Container]) -> list[dict[str, Any]]:
    """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem, rows (None if
    bytes count)."""
    return [
        file_row(at, one, one.kind, one.compression, rows=None if one.unit == OffsetUnit.BYTE else one.count)
        for at, one in enumerate(found)
    ]


def container_rows(found: Sequence[Container], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What holds the messages, for ``detected``: one row for each kind, and what was concluded in it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found:
        for setting, value in (("container", one.kind), *one.settings.items()):
            if setting in OPTIONS:
                given = str(options.get(setting, "auto")) not in ("auto", "")
                rows.setdefault((setting, value), detected_row(setting, value, one.evidence, given))
    return list(rows.values())
