"""What decoders take and give: the wire form of each message of a batch (docs/formats/qlik-kafka.md §1), what they look
up, and data messages of the same form, columns and headers together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Ints, TextPool, hex_digits
from cdcwb.formats.bitmask import parse
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.qlik_kafka.versions import Settings, Version, Versions
from cdcwb.model import Problem

__all__ = [
    "Bools",
    "Context",
    "Document",
    "Form",
    "Image",
    "Images",
    "Parsed",
    "Places",
    "Rows",
    "forms_of",
    "hex_text",
    "read_mask",
    "values_of",
]

Bools = npt.NDArray[np.bool_]

Images: TypeAlias = bool | frozenset[str]
"""Which columns of row images are wanted: all, none, or these (JSON rows always have all of theirs)."""


# --- wire forms -------------------------------------------------------------------------------------------------------


class Form(IntEnum):
    """What a message is, as far as its first bytes tell."""

    NOTHING = 0  # filler or malformed bytes of the container
    TOMBSTONE = 1
    JSON = 2
    ENVELOPE = 3  # Avro, in Qlik's envelope
    CONFLUENT = 4
    BARE = 5  # none of these: Avro without a frame, if its schema is known


_MAGIC = np.frombuffer(b"atMSG", dtype=np.uint8)
_BLANK = (0x20, 0x09, 0x0D, 0x0A, 0xEF)


def forms_of(messages: Messages) -> npt.NDArray[np.uint8]:
    """The form of every message of a batch."""
    values = messages.value
    count = len(values)
    forms = np.full(count, Form.BARE, dtype=np.uint8)
    null = pc.is_null(values).to_numpy(zero_copy_only=False)
    forms[null] = Form.TOMBSTONE
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    data = values.buffers()[2]
    buffer = np.zeros(1, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)
    start, size = offsets[:-1], np.diff(offsets)
    first = buffer[np.minimum(start, len(buffer) - 1)]
    there = ~null & (size > 0)
    forms[there & (first == ord("{"))] = Form.JSON
    forms[there & (first == 0) & (size >= 5)] = Form.CONFLUENT
    magic = there & (first == _MAGIC[0]) & (size >= len(_MAGIC))
    for at in range(1, len(_MAGIC)):
        magic &= buffer[np.minimum(start + at, len(buffer) - 1)] == _MAGIC[at]
    forms[magic] = Form.ENVELOPE
    for at in np.flatnonzero(there & np.isin(first, _BLANK)).tolist():
        if buffer[start[at] : offsets[at + 1]].tobytes().lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            forms[at] = Form.JSON
    forms[messages.state != 0] = Form.NOTHING
    return forms


def values_of(messages: Messages, index: Ints) -> pa.BinaryArray:
    """The values of some messages."""
    return messages.value if len(index) == len(messages.value) else messages.value.take(pa.array(index))


# --- what decoders look up --------------------------------------------------------------------------------------------


class Places:
    """What the container says of each message of a batch: its facts and its key. ``known``: of what it says
    something."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        facts = {name for name, texts in messages.facts.items() if texts.null_count < len(texts)}
        self.known = frozenset(facts | ({"key"} if messages.key.null_count < len(messages.key) else set()))
        self._facts: dict[str, list[str | None]] | None = None
        self._keys: list[bytes | None] = []

    def __call__(self, number: int) -> tuple[Mapping[str, str | None], bytes | None]:
        """The facts and the key of the message ``number``."""
        if self._facts is None:  # converted when the first is asked for
            self._facts = {name: texts.to_pylist() for name, texts in self._messages.facts.items()}
            self._keys = self._messages.key.to_pylist()
        return {name: texts[number] for name, texts in self._facts.items()}, self._keys[number]


class Context(NamedTuple):
    """What is known when a batch is decoded, and whether row images are wanted."""

    settings: Settings
    versions: Versions
    places: Places
    images: Images


# --- what decoders give -----------------------------------------------------------------------------------------------


class Image:
    """The images of ``count`` rows with the columns ``names``: typed arrays, one a column, or the texts of all values
    in one array, row after row."""

    def __init__(
        self,
        names: Sequence[str],
        count: int,
        *,
        texts: pa.StringArray | None = None,
        columns: Sequence[pa.Array] | None = None,
    ) -> None:
        self.names = names
        self.count = count
        self.columns = columns
        self._texts = texts

    @property
    def texts(self) -> pa.StringArray:
        """The text of every value: row after row, or column after column where there are typed columns."""
        if self._texts is None:
            texts = [to_text(column) for column in self.columns or ()]
            self._texts = pa.concat_arrays(texts) if texts else pa.array([], pa.string())
        return self._texts

    def column(self, at: int) -> pa.Array:
        """The values of one column: typed, or as text."""
        if self.columns is not None:
            return self.columns[at]
        return self.texts.take(pa.array(np.arange(at, len(self.texts), len(self.names))))

    def _matrix(self, flat: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        width = len(self.names)
        return flat.reshape(self.count, width) if self.columns is None else flat.reshape(width, self.count).T

    def places(self, pool: TextPool) -> Ints:
        """Adds the texts to a pool; their places there, a row for each row and a column for each column."""
        placed: Ints = self._matrix(pool.add(self.texts))  # type: ignore[assignment]
        return placed

    @property
    def nulls(self) -> Bools:
        """Which values are null."""
        if not self.texts.null_count:
            return np.zeros((self.count, len(self.names)), dtype=np.bool_)
        found: Bools = self._matrix(pc.is_null(self.texts).to_numpy(zero_copy_only=False))  # type: ignore[assignment]
        return found

    def differs(self, other: Image) -> Bools:
        """Where the values of two images with the same columns and layout differ; NULL equals NULL."""
        unequal = pc.fill_null(pc.not_equal(self.texts, other.texts), False).to_numpy(zero_copy_only=False)
        if self.texts.null_count or other.texts.null_count:
            here, there = pc.is_null(self.texts), pc.is_null(other.texts)
            unequal = unequal | pc.xor(here, there).to_numpy(zero_copy_only=False)
        found: Bools = self._matrix(unequal)  # type: ignore[assignment]
        return found

    def select(self, names: Sequence[str]) -> Image:
        """Some of the columns, as text."""
        columns = [to_text(self.column(self.names.index(name))) for name in names]
        return Image(names, self.count, columns=columns)

    def row(self, at: int) -> dict[str, str | None]:
        """One row as text."""
        return {name: to_text(self.column(place)[at : at + 1])[0].as_py() for place, name in enumerate(self.names)}

    def take(self, chosen: Ints) -> Image:
        """Some of the rows."""
        if self.columns is not None:
            taken = pa.array(chosen)
            return Image(self.names, len(chosen), columns=[column.take(taken) for column in self.columns])
        places = np.arange(len(self.texts)).reshape(self.count, len(self.names))[chosen].reshape(-1)
        return Image(self.names, len(chosen), texts=self.texts.take(pa.array(places)))


@dataclass(slots=True)
class Rows:
    """Data messages with the same parts. ``index``: which messages of their batch they are, in rising order.

    ``headers`` has an array for each of ``header_names`` (in wire order, those around the message first). ``masks`` are
    the bytes of ``changeMask`` and ``columnMask`` (null: none) and ``mask_order`` is their byte order. ``data`` and
    ``before`` are None where the messages have no such image. The headers of the data message itself begin at ``own``.
    The first ``shown`` headers are the source's own; those behind them are what they mean where the source (the legacy
    form) has other names for it.
    """

    index: Ints
    record_type: str
    version: Version | None
    schema_name: str | None
    table_name: str | None
    header_names: Sequence[str]
    headers: Sequence[pa.StringArray]
    masks: tuple[pa.BinaryArray | None, pa.BinaryArray | None]
    mask_order: str
    data: Image | None
    before: Image | None
    shown: int | None = None
    own: int = 0
    problems: list[tuple[int, Problem, str]] = field(default_factory=list)  # (row of this group, code, sentence)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.index)

    def header(self, name: str) -> pa.StringArray | None:
        """The values of a header field of the data message; None where they have no such field."""
        for at in range(len(self.header_names) - 1, self.own - 1, -1):
            if self.header_names[at] == name:
                return self.headers[at]
        return None


class Document(NamedTuple):
    """One message. ``record_type``: DT, MD, DataRecord, or the operation letter of the legacy form. ``outer`` are the
    header fields around the data message, ``headers`` its own; ``data`` and ``before`` its images (None: no such
    image); ``body`` is the message itself, for metadata messages all there is, and ``path`` the names of the fields
    that lead to it. ``problem``: why a metadata message cannot be read."""

    record_type: str
    outer: dict[str, Any]
    body: Mapping[str, Any]
    headers: dict[str, Any]
    data: dict[str, Any] | None
    before: dict[str, Any] | None
    problem: str | None = None
    path: tuple[str, ...] = ()

    @property
    def is_metadata(self) -> bool:
        """Does it describe a table?"""
        return self.record_type == "MD"

    @property
    def is_legacy(self) -> bool:
        """Has it the form of Attunity 5?"""
        return self.record_type not in ("DT", "MD", "DataRecord")

    @property
    def schema_id(self) -> str | None:
        """The id of the metadata message that describes its columns."""
        found = self.outer.get("messageSchemaId")
        return found if isinstance(found, str) and found else None


@dataclass(slots=True)
class Parsed:
    """What a batch holds: data messages, metadata messages (message, document), messages that cannot be decoded
    (message, why), and what was passed over in others (message, sentence). Messages are numbered within the batch.

    ``cut``: the messages that are cut off. The complete fields of those that are Qlik's are in ``cut_rows`` and
    ``cut_metadata``.
    """

    rows: list[Rows] = field(default_factory=list)
    metadata: list[tuple[int, Document]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    cut_rows: list[Rows] = field(default_factory=list)
    cut_metadata: list[tuple[int, Document]] = field(default_factory=list)


def read_mask(name: str, texts: pa.StringArray, problems: list[tuple[int, Problem, str]]) -> pa.BinaryArray:
    """The bytes of masks that are text; adds a problem (row, code, sentence) for each text that is not a mask."""
    masks, wrong = parse(texts)
    for row in np.flatnonzero(wrong).tolist():
        problems.append((row, Problem.MASK, f"{name}: expected hexadecimal digits, found {texts[row].as_py()!r:.60}"))
    return masks


def hex_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as upper-case hexadecimal digits; null stays null."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    first = int(offsets[0]) if len(offsets) else 0
    last = int(offsets[-1]) if len(offsets) else 0
    data = values.buffers()[2]
    there = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]
    digits = hex_digits(there.reshape(1, -1), upper=True) if len(there) else there
    doubled = ((offsets - first) * 2).astype(np.int32)
    mask = pc.is_null(values).to_numpy(zero_copy_only=False)
    plain = pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(doubled), pa.py_buffer(np.ascontiguousarray(digits))]
    )
    return plain if not mask.any() else pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), plain)
