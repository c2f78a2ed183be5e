"""Continuity of rows: does each change of a row begin where the one before it ended?

The before image of a change, as far as it was captured, equals what the changes before it left of the row. What
contradicts that is a break (:class:`Break`): a version of the row is missing, came again, or came out of order.
``docs/continuity.md`` has the rules with examples.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.history import key_text
from cdcwb.analysis.images import MAP, Bools, Ints, Keys, Pairs, as_flags, labels, ranks, times
from cdcwb.analysis.keys import FACTS, InferredKey, Keyed, changes_of, infer_keys
from cdcwb.dataset import Batches, Rows, differ, joined, text_hashes
from cdcwb.model import CHANGES, Operation, Outcome
from cdcwb.words import count, plural, tally

__all__ = [
    "BREAKS",
    "MOST_BREAKS",
    "VERSIONS",
    "Break",
    "Continuity",
    "breaks",
    "continuity",
    "continuity_lines",
    "key_of",
    "log_order",
    "row_starts",
    "versions_of",
]


class Break(StrEnum):
    """How a change contradicts the changes of its row before it."""

    GAP = "gap"  # a version of the row is missing between the two
    STALE = "stale"  # an older version of the row arrives after a newer one
    REPEAT = "repeat"  # the same change arrives again
    REVIVED = "revived"  # an UPDATE follows the DELETE of the row
    PHANTOM = "phantom"  # a DELETE follows the DELETE of the row
    LATE = "late"  # changes of the row arrive in another order than that of their commits


MOST_BREAKS: Final = 10_000
"""The most breaks that are listed; all are counted."""

_CHANGES: Final = (*FACTS, "transaction_id", "table_version")
_PLACE: Final = (("position", pa.string()), ("file_index", pa.int32()), ("offset", pa.int64()))
_AT: Final = CHANGES.field("changed_at").type
VERSIONS: Final = pa.schema(
    [
        *(("table", pa.string()), ("row_key", pa.string()), ("operation", pa.int8()), ("part", pa.int8())),
        *(("epoch", pa.int64()), ("commit", pa.string()), *_PLACE, ("at", _AT), ("mark", pa.int64())),
        *(("before", pa.list_(pa.int64())), ("after", pa.list_(pa.int64()))),
    ]
)
"""The change of a row: ``before`` and ``after`` have a number for each column of an image, the hash of its name
and that of its value. ``epoch`` is the number of TRUNCATEs before it. ``mark`` is the hash of its transaction, else of
its time or its position. An update that changes the key is the end of one row (``part`` 0) and the begin of
another (1)."""

_PAIR: Final = (("operation", pa.string()), *_PLACE)
_FOUND: Final = pa.schema(
    [
        *(("table", pa.string()), ("row_key", pa.string()), ("kind", pa.string()), ("at", _AT)),
        *(*_PAIR, *((f"earlier_{name}", kind) for name, kind in _PAIR)),
        *(("distance", pa.int64()), ("columns", pa.list_(pa.int64())), ("number", pa.int64())),
    ]
)
"""Breaks with the hashes of the names of their ``columns``. Rows with other kinds (:data:`_COUNTED`) have a
``number``."""

BREAKS: Final = pa.schema(
    [
        *(("table", pa.string()), ("key", MAP), ("kind", pa.string()), ("sentence", pa.string()), ("at", _AT)),
        *(*_PAIR, ("file", pa.string())),
        *((f"earlier_{name}", kind) for name, kind in (*_PAIR, ("file", pa.string()))),
        *(("distance", pa.int64()), ("columns", pa.list_(pa.string()))),
    ]
)
"""Breaks: the record that contradicts an earlier one of its row, and that one (null: a TRUNCATE). ``columns`` are those
that differ, ``distance`` is the number of changes of the row that a late one follows and should precede."""

_COUNTED: Final = ("rows", "changes", "compared", "keyless")
_OPERATIONS: Final = (Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.REFRESH)
_INSERT, _UPDATE, _DELETE, _REFRESH = range(4)
_NO_CHANGE: Final = (Outcome.ROLLED_BACK, Outcome.UNDONE, Outcome.UNDO)
_WINDOW: Final = 1 << 16  # changes of one row that are looked at together
_REMEMBERED: Final = 4096  # changes and versions of a row that are recognised when they come again
_LOW: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Continuity:
    """The continuity of the rows of a capture.

    ``tables``: ``table``, ``rows``, ``changes``, ``compared`` (changes that follow another one of their row),
    ``keyless`` (changes without a key, which are not compared), ``inferred`` (the evidence of an inferred key, or None)
    and the number of breaks of each kind. ``listed``: the first :data:`MOST_BREAKS` breaks (:data:`BREAKS`) in capture
    order.
    """

    tables: list[dict[str, Any]] = field(default_factory=list)
    listed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of breaks of each kind that occurs."""
        return {str(kind): number for kind in Break if (number := sum(table[str(kind)] for table in self.tables))}

    @property
    def breaks(self) -> int:
        """The number of breaks."""
        return sum(self.kinds.values())

    @property
    def checked(self) -> list[str]:
        """The tables whose changes all have a key."""
        return [table["table"] for table in self.tables if not table["keyless"]]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for scripts: ``tables`` and ``checked`` (numbers of tables), ``compared``, ``breaks`` and ``kinds``."""
        numbers = {"tables": len(self.tables), "checked": len(self.checked)}
        compared = sum(table["compared"] for table in self.tables)
        return {**numbers, "compared": compared, "breaks": self.breaks, "kinds": self.kinds}

    @property
    def summary(self) -> str:
        """What was checked, in a few words."""
        tables, checked = len(self.tables), len(self.checked)
        if checked == tables:
            return f"continuity of {plural(tables, 'table')}"
        lacking = "1 has no key" if tables - checked == 1 else f"{tables - checked} have no key"
        return f"continuity of {checked} of {plural(tables, 'table')} ({lacking})"

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        found = f"{plural(self.breaks, 'break')}: {tally(self.kinds)}" if self.breaks else "no breaks"
        return f"{found} ({self.summary})"


def continuity(capture: Any) -> Continuity:
    """The continuity of the rows of a capture: anything with the rows of one (:meth:`cdcwb.Capture.rows`).

    A table whose changes have no key is checked by an inferred one, if there is one (:mod:`cdcwb.analysis.keys`).
    """
    tables, found = _found(capture, None).fold(_counted, _added)
    inferred = _inferred(capture, tables)
    if inferred:
        more, further = _found(capture, inferred).fold(_counted, _added)
        tables |= more
        found = _first([*found, *further])
    rows = [
        {"table": table, **{str(kind): 0 for kind in Break}, **numbers}
        | {"inferred": inferred[table].evidence if table in inferred else None}
        for table, numbers in sorted(tables.items())
    ]
    return Continuity(rows, _Naming.of(capture).named(found) if found else [])


def breaks(capture: Any) -> Rows:
    """All breaks of a capture (:data:`BREAKS`), in any order."""
    return _compared(versions_of(capture)).map(_Naming.of(capture), BREAKS)


def versions_of(capture: Any) -> Rows:
    """The changes of all rows (:data:`VERSIONS`), in any order; ``row_key`` is null without a key."""
    tables, _ = _found(capture, None).fold(_counted, _added)
    inferred = _inferred(capture, tables)
    rows = _versions(capture, None)
    return rows.union(_versions(capture, inferred)) if inferred else rows


def _inferred(capture: Any, tables: Mapping[str, Mapping[str, int]]) -> dict[str, InferredKey]:
    """The inferred keys of the tables of which no change has a key."""
    without = [table for table, numbers in tables.items() if numbers["keyless"] == numbers["changes"]]
    return infer_keys(changes_of(capture, FACTS), without)


def _found(capture: Any, inferred: Mapping[str, InferredKey] | None) -> Rows:
    """The breaks (:data:`_FOUND`) and numbers of tables; with ``inferred`` keys only of these tables."""
    return _compared(_versions(capture, inferred))


def _compared(versions: Rows) -> Rows:
    return versions.by_key(["table", "row_key"], ["file_index", "offset", "part"], _find_breaks, _FOUND)


def _versions(capture: Any, inferred: Mapping[str, InferredKey] | None) -> Rows:
    keys: Keyed | None = None if inferred is None else {table: (key.column,) for table, key in inferred.items()}
    narrow = ("schema_name", "table_name", "operation", "outcome", "commit_position", "position")
    truncates = capture.rows("changes", (*narrow, "file_index", "offset")).fold(_truncates, _in_order)
    versions = _Versions(truncates, _retyped(capture), None if keys is None else tuple(keys))
    return changes_of(capture, _CHANGES, keys).map(versions, VERSIONS)


# --- the versions of rows ---------------------------------------------------------------------------------------------

_Truncate = tuple[str, str, int, int]


def _truncates(batch: pa.RecordBatch) -> list[_Truncate]:
    """Where the TRUNCATEs are in the log: table, position, file and offset."""
    rows = batch.filter(pc.and_(pc.equal(batch["operation"], str(Operation.TRUNCATE)), _counts(batch)))
    position = pc.fill_null(pc.coalesce(rows["commit_position"], rows["position"]), "")
    columns = (labels(rows), position, rows["file_index"], rows["offset"])
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _in_order(parts: Sequence[list[_Truncate]]) -> list[_Truncate]:
    return sorted(truncate for part in parts for truncate in part)


def _counts(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change was not taken back. A change without its commit counts: nobody else can have changed the row
    since then."""
    return pc.invert(pc.is_in(batch["outcome"], pa.array([str(outcome) for outcome in _NO_CHANGE])))


def _retyped(capture: Any) -> dict[tuple[str, str], dict[str, str]]:
    """By table and version the columns that had another type in the first version, with their type: the values of such
    a column can differ although nothing changed them."""
    names = ("schema_name", "table_name", "table_version", "first_position", "columns")
    first: dict[tuple[str, str], str] = {}
    retyped: dict[tuple[str, str], dict[str, str]] = {}
    rows = capture.rows("table_versions", names).table().to_pylist()
    for row in sorted(rows, key=lambda row: row["first_position"] or ""):
        label = ".".join(filter(None, (row["schema_name"], row["table_name"])))
        for column in row["columns"] or ():
            kind = repr([column[name] for name in ("type", "length", "precision", "scale")])
            if first.setdefault((label, column["name"]), kind) != kind:
                retyped.setdefault((label, row["table_version"]), {})[column["name"]] = kind
    return retyped


@dataclass(frozen=True)
class _Versions:
    """Makes :data:`VERSIONS` of changes."""

    truncates: Sequence[_Truncate]
    retyped: Mapping[tuple[str, str], Mapping[str, str]]
    tables: tuple[str, ...] | None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        wanted = pc.and_(_counts(batch), pc.is_in(batch["operation"], pa.array(map(str, _OPERATIONS))))
        wanted = pc.and_(wanted, batch["table_name"].is_valid())
        if self.tables is not None:
            wanted = pc.and_(wanted, pc.is_in(labels(batch), pa.array(self.tables)))
        rows = batch.filter(wanted)
        keys = Keys.of(rows)
        part = np.concatenate([np.zeros(rows.num_rows, np.int8), np.ones(keys.moved.sum(), np.int8)])
        numbers = pa.array(np.concatenate([np.arange(rows.num_rows), np.flatnonzero(keys.moved)]))
        operation = np.asarray(pc.index_in(rows["operation"], pa.array(map(str, _OPERATIONS)))).astype(np.int8)
        operation = np.concatenate([np.where(keys.moved, _DELETE, operation), np.full(keys.moved.sum(), _INSERT)])
        latter = keys.texts(keys.latter).filter(pa.array(keys.moved))
        row_key = pa.concat_arrays([keys.texts(keys.former), latter]).filter(pa.array(np.ones(len(part), np.bool_)))
        moved = np.concatenate([keys.moved, np.ones(keys.moved.sum(), np.bool_)])
        table = labels(rows)
        images = {name: self._hashed(rows[name], table, rows["table_version"]).take(numbers) for name in _IMAGES}
        ends, begins = pa.array(moved & (part == 0)), pa.array(moved & (part == 1))
        none = pa.scalar(None, pa.list_(pa.int64()))
        mark = pc.coalesce(rows["transaction_id"], times(rows).cast(pa.int64()).cast(pa.string()), rows["position"])
        columns = {
            "table": table.take(numbers),
            "row_key": pc.if_else(rows["key"].is_valid().take(numbers), row_key, None),
            "operation": pa.array(operation),
            "part": pa.array(part),
            "epoch": pa.array(self._epochs(rows, table)).take(numbers),
            "commit": pc.coalesce(rows["commit_position"], rows["position"]).take(numbers),
            **{name: rows[name].take(numbers) for name, _ in _PLACE},
            "at": times(rows).take(numbers),
            "mark": pa.array(text_hashes(mark).view(np.int64)).take(numbers),
            "before": pc.if_else(begins, none, images["before"]),
            "after": pc.if_else(ends, none, images["after"]),
        }
        return pa.RecordBatch.from_arrays([columns[one.name].cast(one.type) for one in VERSIONS], schema=VERSIONS)

    def _epochs(self, rows: pa.RecordBatch, table: pa.Array) -> Ints:
        """The number of TRUNCATEs of its table before each change."""
        epochs = np.zeros(rows.num_rows, np.int64)
        if self.truncates:
            order = pc.fill_null(pc.coalesce(rows["commit_position"], rows["position"]), "").to_pylist()
            places = list(zip(order, rows["file_index"].to_pylist(), rows["offset"].to_pylist(), strict=True))
            for label, *where in self.truncates:
                later = np.fromiter((place > tuple(where) for place in places), np.bool_, len(places))
                epochs += later & as_flags(pc.equal(table, label))
        return epochs

    def _hashed(self, image: pa.MapArray, table: pa.Array, version: pa.Array) -> pa.ListArray:
        """The hashes of names and values of images."""
        pairs = Pairs(image)
        names = pairs.names.dictionary_encode()
        layouts = pc.binary_join_element_wise(table, pc.fill_null(version, ""), "\0").dictionary_encode()
        texts = names.dictionary.to_pylist()
        heads = np.array([zlib.crc32(name.encode()) for name in texts], np.uint64)
        of_names = np.tile(heads, (max(len(layouts.dictionary), 1), 1))
        for number, layout in enumerate(layouts.dictionary.to_pylist()):
            for name, kind in self.retyped.get(tuple(layout.split("\0")), {}).items():
                if name in texts:
                    of_names[number, texts.index(name)] = zlib.crc32(f"{name}\0{kind}".encode())
        head = (
            of_names[np.asarray(layouts.indices)[pairs.rows], np.asarray(names.indices)]
            if len(pairs.rows)
            else heads[:0]
        )
        numbers = (head << np.uint64(32)) | (text_hashes(pairs.values) & np.uint64(_LOW))
        offsets = np.concatenate([[0], np.cumsum(pairs.sizes)]).astype(np.int32)
        mask = np.append(~as_flags(image.is_valid()), False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=mask), pa.array(numbers.view(np.int64)))


_IMAGES: Final = ("before", "after")


# --- the changes of one row -------------------------------------------------------------------------------------------


class _Record(NamedTuple):
    """A change of a row: its ``number`` in the batch, its ``rank`` in the log, the sums of its images' numbers."""

    number: int
    operation: int
    epoch: int
    rank: int
    is_placed: bool
    mark: int
    before: list[int] | None
    after: list[int] | None
    sums: tuple[int, int]


class _Found(NamedTuple):
    kind: Break
    record: Any
    earlier: Any
    columns: list[int]
    distance: int | None = None


class _Row:
    """What the changes of a row up to now left of it. ``exists`` is None as long as nothing is known of it."""

    def __init__(self, truncated: bool) -> None:
        self.values: dict[int, int] = {}
        self.exists: bool | None = False if truncated else None
        self.last: Any = None
        self.epoch = 0
        self._versions: dict[int, None] = {}
        self._seen: dict[Any, Any] = {}

    def follow(self, record: _Record, place: Any) -> _Found | None:
        """The break between what is known of the row and its next change, which is then known, too."""
        if record.operation == _REFRESH and self.last is not None and self.last["file_index"] != place["file_index"]:
            return None  # files of a full load are in no order with those of changes
        if record.epoch > self.epoch and self.exists:
            self.exists, self.values = False, {}
        self.epoch = record.epoch
        image = record.after if record.operation in (_INSERT, _REFRESH) else record.before
        differing = [pair >> 32 for pair in image or () if self.values.get(pair >> 32, pair & _LOW) != pair & _LOW]
        sign = (record.operation, *record.sums, record.mark)
        again = self._seen.get((sign, record.rank)) if record.is_placed else None
        kind = Break.REPEAT if again is not None else self._contradiction(record, image, differing)
        if kind is not None and again is None and (again := self._seen.get(sign)) is not None:
            kind = Break.REPEAT
        found = None if kind is None else _Found(kind, place, self.last if again is None else again, differing)
        if kind not in (Break.REPEAT, Break.STALE):
            self._apply(record, place)
        for known, key, value in ((self._seen, sign, place), (self._seen, (sign, record.rank), place)):
            known.setdefault(key, value)
        while len(self._seen) > 2 * _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return found

    def _contradiction(self, record: _Record, image: list[int] | None, differing: list[int]) -> Break | None:
        operation = record.operation
        if self.exists is None:
            return None
        if operation == _INSERT:
            common = any(pair >> 32 in self.values for pair in image or ())
            return Break.GAP if self.exists and common else None
        if not self.exists:
            of_deleted = {_UPDATE: Break.REVIVED, _DELETE: Break.PHANTOM}
            return of_deleted.get(operation, Break.STALE if record.sums[1] in self._versions else Break.GAP)
        if not differing:
            return None
        is_old = record.sums[1] in self._versions and (operation == _REFRESH or not record.is_placed)
        return Break.STALE if is_old and operation != _DELETE else Break.GAP

    def _apply(self, record: _Record, place: Any) -> None:
        if record.operation != _UPDATE or record.after is None:
            self.values = {}
        for image in (record.before, record.after):
            self.values.update((pair >> 32, pair & _LOW) for pair in image or ())
        self.exists = record.operation != _DELETE
        self.last = place
        if record.after is not None:
            self._versions[record.sums[1]] = None
            if len(self._versions) > _REMEMBERED:
                del self._versions[next(iter(self._versions))]


def _find_breaks(batches: Batches) -> Batches:
    """The breaks of rows, and how much was compared, from the versions of each row in capture order."""
    rest = joined([], VERSIONS)
    known: dict[Any, tuple[_Row, _Row]] = {}  # of the row that the last batch ended with, if it had many changes
    for batch in batches:
        rows = joined([rest, batch], VERSIONS)
        last = int(row_starts(rows)[-1])
        end = rows.num_rows if rows.num_rows - last > _WINDOW else last
        known = yield from _of_rows(rows.slice(0, end), known, end != last)
        rest = rows.slice(end)
    yield from _of_rows(rest, known, False)


def row_starts(rows: pa.RecordBatch) -> Ints:
    """The numbers of the changes with which rows begin."""
    if not rows.num_rows:
        return np.zeros(0, np.int64)
    table, key = (differ(rows[name].slice(1), rows[name].slice(0, rows.num_rows - 1)) for name in ("table", "row_key"))
    return np.flatnonzero(np.append(True, table | key))


def _of_rows(rows: pa.RecordBatch, known: dict[Any, Any], goes_on: bool) -> Any:
    """The breaks of complete rows; returns what is known of the last one if it ``goes_on``."""
    starts = row_starts(rows)
    if not len(starts):
        return known
    ends = np.append(starts[1:], rows.num_rows)
    keyed = as_flags(rows["row_key"].is_valid())
    rank, is_placed = log_order(rows, starts)
    sums = [_sums(rows[name]) for name in _IMAGES]
    suspicious = _suspicious(rows, starts, rank, is_placed, sums) & keyed
    chosen = np.logical_or.reduceat(suspicious, starts)
    first = (rows["table"][0].as_py(), rows["row_key"][0].as_py())
    chosen[0] |= first in known
    chosen[-1] |= goes_on and bool(keyed[-1])
    found: list[dict[str, Any]] = []
    remembered: dict[Any, Any] = {}
    for start, end in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True):
        group = rows.slice(start, end - start)
        records = _records(group, rank[start:end], is_placed[start:end], [part[start:end] for part in sums])
        key = (group["table"][0].as_py(), group["row_key"][0].as_py())
        arriving, committing = known.get(key) or (_Row(records[0].epoch > 0), _Row(records[0].epoch > 0))
        of_row = _of_row(records, arriving, committing, _places(group))
        found += [{"table": key[0], "row_key": key[1], **one} for one in of_row]
        remembered = {key: (arriving, committing)}
    counts = _numbers(rows, starts, ends, keyed)
    yield pa.RecordBatch.from_pylist([*found, *counts], _FOUND)
    return remembered if goes_on else {}


def _places(group: pa.RecordBatch) -> list[dict[str, Any]]:
    places = group.select([*(name for name, _ in _PAIR), "at"]).to_pylist()
    return [place | {"operation": str(_OPERATIONS[place["operation"]])} for place in places]


def _numbers(rows: pa.RecordBatch, starts: Ints, ends: Ints, keyed: Bools) -> list[dict[str, Any]]:
    """The rows, changes, comparisons and changes without a key of each table."""
    is_keyed = keyed[starts]
    changes = np.add.reduceat(np.asarray(rows["part"]) == 0, starts, dtype=np.int64)
    columns = {"rows": is_keyed, "changes": changes, "compared": np.where(is_keyed, ends - starts - 1, 0)}
    columns = {name: values.astype(np.int64) for name, values in columns.items()}
    columns["keyless"] = np.where(is_keyed, 0, changes)
    table = rows["table"].take(pa.array(starts))
    groups = pa.table({"table": table, **columns}).group_by("table", use_threads=False)
    summed = groups.aggregate([(name, "sum") for name in columns]).to_pylist()
    return [{"table": row["table"], "kind": name, "number": row[f"{name}_sum"]} for row in summed for name in columns]


def log_order(rows: pa.RecordBatch, starts: Ints) -> tuple[Ints, Bools]:
    """The rank of each change in the order of commits, and whether it has a position. One without a position, or that
    was read from the table, has the rank of the one before it."""
    is_placed = as_flags(rows["commit"].is_valid()) & (np.asarray(rows["operation"]) != _REFRESH)
    commit, position = (ranks(pc.fill_null(rows[name], "")) for name in ("commit", "position"))
    own = commit * (rows.num_rows + 1) + position + 1
    numbers = np.arange(rows.num_rows)
    begin = np.repeat(starts, np.diff(np.append(starts, rows.num_rows)))
    before = np.maximum.accumulate(np.where(is_placed, numbers, -1))
    return np.where(before >= begin, own[before], 0), is_placed


def _sums(images: pa.ListArray) -> Ints:
    """The sum of the numbers of each image; -1 without an image."""
    lists = Lists(images)
    sums = np.zeros(len(images), np.int64)
    np.add.at(sums, lists.rows, lists.values) if len(lists.rows) else None
    return np.where(as_flags(images.is_valid()), sums, -1)


class Lists:
    """The values of a column of lists, with the ``rows`` that they are in."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.rows: Ints = np.asarray(pc.list_parent_indices(lists))
        self.values: Ints = np.asarray(pc.list_flatten(lists))


def _suspicious(rows: pa.RecordBatch, starts: Ints, rank: Ints, is_placed: Bools, sums: Sequence[Ints]) -> Bools:
    """The changes that need a closer look because the change before them alone does not explain them."""
    operation = np.asarray(rows["operation"])
    first = np.zeros(rows.num_rows, np.bool_)
    first[starts] = True
    epoch = np.asarray(rows["epoch"])
    previous = np.append(-1, operation[:-1])
    begins = operation == _INSERT
    image = np.where(operation == _REFRESH, sums[1], sums[0])
    left = np.append(-1, sums[1][:-1])
    same = (image == left) | (image == -1)
    unlike = np.flatnonzero(~same & ~first & ~begins)
    if len(unlike):
        same[unlike] = _included(rows, unlike, operation)
    fine = np.where(begins, previous == _DELETE, (previous != _DELETE) & same)
    again = np.append(False, (rank[1:] == rank[:-1]) & is_placed[1:] & (sums[0][1:] == sums[0][:-1]))
    turned = np.append(False, (rank[1:] < rank[:-1]) | (epoch[1:] != epoch[:-1]))
    return np.where(first, epoch > 0, ~fine | again | turned)


def _included(rows: pa.RecordBatch, numbers: Ints, operation: Ints) -> Bools:
    """Whether each number of the image of some changes is one of the after image of the change before."""
    chosen = pc.if_else(
        pa.array(operation[numbers] == _REFRESH), *(rows[n].take(pa.array(numbers)) for n in ("after", "before"))
    )
    image, left = Lists(chosen), Lists(rows["after"].take(pa.array(numbers - 1)))
    if not len(left.rows):
        return np.bincount(image.rows, minlength=len(numbers)) == 0
    known = pa.table({"row": left.rows, "value": left.values, "known": np.ones(len(left.rows), np.bool_)})
    asked = pa.table({"row": image.rows, "value": image.values})
    matched = asked.join(known, ["row", "value"], join_type="left anti")
    result: Bools = np.bincount(np.asarray(matched["row"]), minlength=len(numbers)) == 0
    return result


def _records(group: pa.RecordBatch, rank: Ints, is_placed: Bools, sums: Sequence[Ints]) -> list[_Record]:
    names = ("operation", "epoch", "mark", *_IMAGES)
    operations, epochs, marks, before, after = (group[name].to_pylist() for name in names)
    both = zip(*(part.tolist() for part in sums), strict=True)
    columns = (range(len(rank)), operations, epochs, rank.tolist(), is_placed.tolist(), marks, before, after, both)
    return [_Record(*values) for values in zip(*columns, strict=True)]


def _of_row(
    records: list[_Record], arriving: _Row, committing: _Row, places: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The breaks of a row. What only the order of arrival or only that of commits shows is an order that differs."""
    in_log = sorted(records, key=lambda record: record.rank)
    found = _followed(arriving, records, places)
    of_log = found if in_log == records else _followed(committing, in_log, places)
    if in_log == records:
        committing.__dict__.update(arriving.__dict__)
    one_sided = found.keys() ^ of_log.keys()
    for number in sorted(found.keys() & of_log.keys()):
        yield _break(of_log[number])
    if one_sided:
        highest: _Record | None = None
        for record in records:
            if highest is not None and record.rank < highest.rank and record.number not in found.keys() & of_log.keys():
                behind = sum(other.rank > record.rank for other in records[: record.number])
                yield _break(_Found(Break.LATE, places[record.number], places[highest.number], [], behind))
            elif highest is None or record.rank >= highest.rank:
                highest = record


def _followed(row: _Row, records: Sequence[_Record], places: list[dict[str, Any]]) -> dict[int, _Found]:
    found = ((record.number, row.follow(record, places[record.number])) for record in records)
    return {number: one for number, one in found if one is not None}


def _break(found: _Found) -> dict[str, Any]:
    earlier = {f"earlier_{name}": found.earlier[name] for name, _ in _PAIR} if found.earlier else {}
    return {"kind": str(found.kind), **found.record, **earlier, "distance": found.distance, "columns": found.columns}


# --- the breaks of a capture ------------------------------------------------------------------------------------------

_Counts = tuple[dict[str, dict[str, int]], list[dict[str, Any]]]
"""The numbers of each table, and the first breaks in capture order."""


def _counted(batch: pa.RecordBatch) -> _Counts:
    numbers = batch.set_column(batch.schema.get_field_index("number"), "number", pc.fill_null(batch["number"], 1))
    groups = pa.table(numbers.select(["table", "kind", "number"])).group_by(["table", "kind"], use_threads=False)
    tables: dict[str, dict[str, int]] = {}
    for row in groups.aggregate([("number", "sum")]).to_pylist():
        tables.setdefault(row["table"], dict.fromkeys(_COUNTED, 0))[row["kind"]] = row["number_sum"]
    return tables, _first(batch.filter(batch["file_index"].is_valid()).to_pylist())


def _added(parts: Sequence[_Counts]) -> _Counts:
    tables: dict[str, dict[str, int]] = {}
    for table, numbers in (item for counts, _ in parts for item in counts.items()):
        of_table = tables.setdefault(table, dict.fromkeys(_COUNTED, 0))
        for kind, number in numbers.items():
            of_table[kind] = of_table.get(kind, 0) + number
    return tables, _first([row for _, found in parts for row in found])


def _first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["file_index"], row["offset"], row["kind"]))[:MOST_BREAKS]


@dataclass(frozen=True)
class _Naming:
    """Gives breaks the names of their files and columns, and a sentence."""

    files: Mapping[int, str]
    columns: Mapping[int, str]

    @classmethod
    def of(cls, capture: Any) -> _Naming:
        versions = capture.rows("table_versions", ("columns",)).table()["columns"].to_pylist()
        names = {
            zlib.crc32(column["name"].encode()): column["name"] for columns in versions for column in columns or ()
        }
        for texts in _retyped(capture).values():
            names |= {zlib.crc32(f"{name}\0{kind}".encode()): name for name, kind in texts.items()}
        return cls({entry["file_index"]: entry["file"] for entry in capture.files}, names)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self.named(batch.filter(batch["file_index"].is_valid()).to_pylist()), BREAKS)

    def named(self, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for row in found:
            numbers = {number & _LOW for number in row["columns"] or ()}
            row = row | {"columns": sorted({self.columns[number] for number in numbers if number in self.columns})}
            row |= {"key": key_of(row["row_key"])}
            row |= {f"{which}file": self.files.get(row[f"{which}file_index"]) for which in ("", "earlier_")}
            row["sentence"] = _sentence(row)
            rows.append({name: row[name] for name in BREAKS.names})
        return rows


def key_of(row_key: str) -> dict[str, str | None]:
    """The columns and values of the key of a break."""
    pairs = re.findall(r"((?:\\.|[^\\=])*)=((?:\\.|[^\\,])*)(?:,|$)", row_key, re.DOTALL)
    plain = [[re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) for text in pair] for pair in pairs]
    return {name: None if raw == "\\N" else value for (name, value), (_, raw) in zip(plain, pairs, strict=True)}


_SENTENCES: Final = {
    Break.GAP: "{this} does not begin where {earlier} left the row{columns}: a version between them is missing",
    Break.STALE: "{this} brings an older version of the row than {earlier}{columns}",
    Break.REPEAT: "{this} is the same change as {earlier}",
    Break.REVIVED: "{this} changes a row that {earlier} deleted",
    Break.PHANTOM: "{this} deletes a row that {earlier} deleted",
    Break.LATE: "{this} comes after {earlier}, which follows it in the log: {distance} late",
}


def _sentence(found: Mapping[str, Any]) -> str:
    """A break in words, with both records."""
    columns = f" (in {', '.join(found['columns'])})" if found["columns"] else ""
    distance = plural(found["distance"] or 0, "change")
    texts = {"this": _record_text(found, ""), "earlier": _record_text(found, "earlier_")}
    text = _SENTENCES[Break(found["kind"])].format(**texts, columns=columns, distance=distance)
    return f"{found['table']}, {key_text(found['key'])}: {text}."


def _record_text(found: Mapping[str, Any], which: str) -> str:
    operation, offset, file, position = (
        found[f"{which}{name}"] for name in ("operation", "offset", "file", "position")
    )
    if offset is None:
        return "a TRUNCATE of the table"
    at = "" if position is None else f", position {position}"
    return f"the {operation} at {offset} of {(file or '').rpartition('/')[2]}{at}"


_SHOWN: Final = 20


def continuity_lines(result: Continuity) -> list[str]:
    """The result on the command line."""
    lines = [f"{result.verdict[0].upper()}{result.verdict[1:]}.", ""]
    for table in result.tables:
        changes, rows = plural(table["changes"], "change"), plural(table["rows"], "row")
        found = {kind: table[kind] for kind in map(str, Break) if table[kind]}
        texts = [
            f"{changes} of {rows}, {count(table['compared'])} compared",
            f"{count(table['keyless'])} without a key" if table["keyless"] else "",
            f"inferred key: {table['inferred']}" if table["inferred"] else "",
            tally(found) if found else "no breaks",
        ]
        lines.append(f"{table['table']}  {'; '.join(filter(None, texts))}")
    if result.listed:
        lines.append("")
    lines += [f"{row['kind']}  {row['sentence']}" for row in result.listed[:_SHOWN]]
    if result.breaks > _SHOWN:
        lines.append(f"… and {plural(result.breaks - _SHOWN, 'more break')}")
    return lines
