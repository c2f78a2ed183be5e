"""The true content of a generated Qlik capture, collected while it is written.

A change is added when its message or row has its place. Which number a file has in natural order, and what inferred
table versions are called, is known at the end only: until then rows wait in an Arrow file (:class:`Rows`), so memory
does not grow with the capture.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb_synth.model import Completeness

__all__ = ["WAITING", "Image", "Place", "Row", "Rows", "Transaction", "VersionTruth"]

_BATCH: Final = 20_000
_MAP: Final = pa.map_(pa.string(), pa.string())
_LIST: Final = pa.list_(pa.string())
_TIME: Final = pa.timestamp("us", tz="UTC")

WAITING: Final = pa.schema(
    [
        ("file", pa.int32()), ("offset", pa.int64()), ("length", pa.int64()),
        ("other_file", pa.int32()), ("other_offset", pa.int64()), ("other_length", pa.int64()),
        ("version", pa.int32()), ("record_type", pa.string()), ("operation", pa.string()), ("position", pa.string()),
        ("commit_position", pa.string()), ("transaction_id", pa.string()), ("event_no", pa.int64()),
        ("last_in_transaction", pa.bool_()), ("changed_at", _TIME), ("change_mask", pa.string()),
        ("column_mask", pa.string()), ("outcome", pa.string()), ("committed_at", _TIME), ("change_source", pa.string()),
        ("changed_columns", _LIST), ("present_columns", _LIST),
        ("key", _MAP), ("before", _MAP), ("after", _MAP), ("headers", _MAP),
    ]
)  # fmt: skip
"""The columns of the waiting rows: ``file`` and ``version`` are numbers in the order of their making; the place of an
update's other half is -1 where there is none."""

_PLAIN: Final = 14
"""How many of the columns after the places are neither lists nor maps."""

Image = tuple[tuple[str, ...], Sequence[str | None]]
"""Names and values as text."""


class Place(NamedTuple):
    """Where a record is: number of the file, offset and length there, in the capture's unit."""

    file: int
    offset: int
    length: int


_NOWHERE: Final = Place(-1, -1, -1)


class Row(NamedTuple):
    """A change, by the columns of :data:`cdcwb_synth.model.CHANGES`; times are microseconds since 1970."""

    version: int
    record_type: str
    operation: str
    position: str | None = None
    commit_position: str | None = None
    transaction_id: str | None = None
    event_no: int | None = None
    last_in_transaction: bool | None = None
    changed_at: int | None = None
    change_mask: str | None = None
    column_mask: str | None = None
    outcome: str | None = None
    committed_at: int | None = None
    change_source: str | None = None
    changed_columns: tuple[str, ...] | None = None
    present_columns: tuple[str, ...] | None = None
    key: Image | None = None
    before: Image | None = None
    after: Image | None = None
    headers: Image | None = None


@dataclass(slots=True)
class Transaction:
    """A transaction of which ``waiting`` messages or rows have no place yet; the others are ``size`` long."""

    transaction_id: str
    begin_position: str | None
    end_position: str | None
    began_at: int | None
    completeness: Completeness
    changes: dict[str, int]
    tables: list[str]
    waiting: int
    ended_at: int | None = None
    size: int = 0


@dataclass(slots=True)
class VersionTruth:
    """A table version. ``table_version`` None: it is called by its ``label`` and a number, in the order of the first
    places. ``columns`` as in model.COLUMN. ``first`` has the first place in every file that has it (or a row of it);
    ``beside``: its description is not in the capture. ``history``: what the truth has of it if no row is of
    it, from a DDL history: place, columns and text."""

    table_version: str | None
    schema_name: str | None
    table_name: str | None
    columns: list[dict[str, Any]]
    origin: str
    schema_text: str | None = None
    lineage: dict[str, str] | None = None
    beside: bool = False
    is_kept: bool = False  # there even if no row is of it
    first_position: str | None = None
    first: dict[int, Place] = field(default_factory=dict)
    history: tuple[Place, list[dict[str, Any]], str] | None = None
    rows: int = 0
    text_key: Any = None

    @property
    def label(self) -> str:
        """``schema.table``, ``table`` or ``unnamed``."""
        return ".".join(part for part in (self.schema_name, self.table_name) if part) or "unnamed"

    def described(self, key: Any, text: str) -> None:
        """Notes the text of a side file, whose place among all files is given by ``key``; the first one's counts."""
        if self.text_key is None or key < self.text_key:
            self.text_key, self.schema_text = key, text

    def seen(self, place: Place) -> None:
        """Note a place where it, or a row of it, is."""
        known = self.first.get(place.file)
        if known is None or place.offset < known.offset:
            self.first[place.file] = place


class _Lists:
    """A column of lists of names; most of them come again, so each stands once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[str, ...]] = {}  # by identity, which is faster than by equality
        self.places: dict[int, int] = {}
        self.numbers = array("q")  # which list every row has, -1: null

    def add(self, names: tuple[str, ...] | None) -> None:
        if names is None:
            self.numbers.append(-1)
            return
        place = self.places.get(id(names))
        if place is None:
            place = self.places[id(names)] = len(self.known)
            self.known[id(names)] = names
        self.numbers.append(place)

    def array(self) -> pa.Array:
        numbers = np.frombuffer(self.numbers, np.int64)
        return pa.array(list(self.known.values()), _LIST).take(pa.array(numbers, mask=numbers < 0))


class _Maps(_Lists):
    """A column of maps; most of them have the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str | None] = []

    def put(self, image: Image | None) -> None:
        if image is None:
            self.numbers.append(-1)
        else:
            self.add(image[0])
            self.texts += image[1]

    def array(self) -> pa.Array:
        numbers = np.frombuffer(self.numbers, np.int64)
        sizes = np.array([len(names) for names in self.known.values()] or [0], np.int64)
        offsets = np.concatenate([[0], np.cumsum(np.where(numbers < 0, 0, sizes[numbers]))])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        present = numbers[numbers >= 0]
        inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1][numbers >= 0], sizes[present])
        places = np.repeat(starts[present], sizes[present]) + inside
        keys = pa.array(list(chain.from_iterable(self.known.values())), pa.string()).take(pa.array(places))
        items = pa.array(self.texts, pa.string())
        return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, items, mask=pa.array(numbers < 0))


class Rows:
    """Collects changes in the Arrow file ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = pa.ipc.new_file(path, WAITING)
        self._clear()

    def _clear(self) -> None:
        self._places = array("q")  # six numbers for every row
        self._plain: list[tuple[Any, ...]] = []
        self._lists = [_Lists(), _Lists()]
        self._maps = [_Maps() for _ in range(4)]

    def add(self, row: Row, place: Place, other: Place | None = None) -> None:
        """Add a change; ``other`` is the place of an update's other half."""
        self.count += 1
        self._places.extend(place + (other or _NOWHERE))
        self._plain.append(row[:_PLAIN])
        changed, present = self._lists
        changed.add(row.changed_columns)
        present.add(row.present_columns)
        key, before, after, headers = self._maps
        key.put(row.key)
        before.put(row.before)
        after.put(row.after)
        headers.put(row.headers)
        if len(self._plain) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        places = np.frombuffer(self._places, np.int64).reshape(-1, 6)
        made: list[pa.Array] = [pa.array(places[:, at].copy()) for at in range(6)]
        scalars = zip(zip(*self._plain, strict=True), list(WAITING)[6 : 6 + _PLAIN], strict=True)
        for values, one in scalars:
            kind = pa.int64() if one.type == _TIME else one.type
            made.append(pa.array(values, kind))
        made += [column.array() for column in (*self._lists, *self._maps)]
        ready = [column.cast(one.type) for column, one in zip(made, WAITING, strict=True)]
        self._file.write_batch(pa.RecordBatch.from_arrays(ready, schema=WAITING))
        self._clear()

    def close(self) -> None:
        """Complete the file; nothing can be added afterwards. A second call does nothing."""
        if self._plain:
            self._flush()
        self._file.close()
