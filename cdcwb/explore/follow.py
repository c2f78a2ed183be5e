"""Which records change which row: computed once for each table, and stored with the index. Spark computes it where the
changes are too many for this process."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.formats import get_format
from cdcwb.formats.dissector import Pairing
from cdcwb.index.columns import Bools, Texts, mask_of_texts
from cdcwb.index.places import Index
from cdcwb.index.source import Source
from cdcwb.index.store import Entry
from cdcwb.model import Kind, Operation, Outcome

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdcwb.spark.known import InferredKey

__all__ = [
    "ROW",
    "Rows",
    "half_of",
    "halves",
    "of_changes",
]


ROW: Final = "row"
"""The column of row keys, for tables whose rows were requested."""

_KEYS: Final = "rows-"
"""The beginning of the names of stored keys."""


class Rows:
    """The rows that records change, as a column of filters: ``EMPNO=7839``, or ``a=1+b=2``.

    A record that changes a key belongs to the row with the old key and to the row with the new one. If no change of a
    table has a key, the key is inferred (:func:`cdcwb.spark.known.infer_keys`); ``inferred``: a sentence about that, by
    table.
    """

    kind = "text"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._index: Index = source.index
        self._tables: dict[str, tuple[npt.NDArray[np.int64], pa.Array]] = {}
        self.inferred: dict[str, str] = {}
        self._load_stored()

    def value(self, row: int) -> str | None:
        """The row that a record changes, if known; the key before the change is preferred."""
        for numbers, keys in self._tables.values():
            at = int(np.searchsorted(numbers, row))
            if at < len(numbers) and numbers[at] == row:
                key: str = keys[at].as_py()
                return key
        return None

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`cdcwb.index.columns.Column`."""
        mask = np.zeros(self._index.records, np.bool_)
        for numbers, keys in self._tables.values():
            if value is None:
                mask[numbers] = True
            else:
                mask[numbers[mask_of_texts(keys, sign, value)]] = True
        return ~mask if value is None else mask

    def knows(self, table: str) -> bool:
        """Whether the rows of a table are known."""
        return table in self._tables

    def learn(self, table: str) -> None:
        """Determines which records change which row of a table."""
        if table in self._tables:
            return
        if self._source.change_batches() is not None:
            keyed, inferred = _read_keys(self._source, table)
        else:
            with tempfile.TemporaryDirectory(prefix="cdcwb-explorer-") as scratch:
                target = Path(scratch) / "keys"
                inferred = _write_keys(self._source, table, target)
                keyed = pq.ParquetDataset(target).read()
        rows = self._index.exactly(keyed["file_index"].to_numpy(), keyed["offset"].to_numpy())
        numbers, order = rows[rows >= 0], np.flatnonzero(rows >= 0)
        order = order[np.argsort(numbers, kind="stable")]
        keys = keyed["key"].combine_chunks().cast(pa.large_string()).take(pa.array(order))
        stored = pa.table({"row": pa.array(rows[order]), "key": keys})
        name = f"{_KEYS}{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        self._take(self._index.store.write(name, {"keys": stored}, {"table": table, "inferred": inferred}))

    def _load_stored(self) -> None:
        for name in self._index.store.names(_KEYS):
            if (entry := self._index.store.read(name)) is not None:
                self._take(entry)

    def _take(self, entry: Entry) -> None:
        rows, table = entry.tables["keys"], entry.facts["table"]
        self._tables[table] = (rows["row"].to_numpy(), rows["key"])
        if entry.facts["inferred"]:
            self.inferred[table] = entry.facts["inferred"]

    def keys_of(self, table: str, row: int) -> list[str]:
        """The rows that a record changes: none if its key is unknown, two if it changes the key."""
        numbers, keys = self._tables[table]
        first, last = np.searchsorted(numbers, row), np.searchsorted(numbers, row, side="right")
        changed: list[str] = pc.unique(keys.slice(int(first), int(last - first))).to_pylist()
        return changed


# --- in this process --------------------------------------------------------------------------------------------------

_KEYED: Final = pa.schema([("file_index", pa.int32()), ("offset", pa.int64()), ("key", pa.large_string())])
_IMAGES: Final = ("before", "key", "after")
_READ: Final = (*_IMAGES, "schema_name", "table_name", "operation", "outcome", "source_events")
Row = dict[str, Any]


def _read_keys(source: Source, table: str) -> tuple[pa.Table, str]:
    """Which records change which row, and how the key was inferred if no change has one."""
    found = _keyed(_rows_of(source, table))
    if found.num_rows:
        return found, ""
    inferred = _inferred(_rows_of(source, table), table)
    if inferred is None:
        return found, ""

    def with_key(row: Row) -> Row:
        image = row["before"] if row["after"] is None else row["after"]
        return row | {"key": {inferred.column: image[inferred.column]} if inferred.column in (image or ()) else None}

    return _keyed(map(with_key, _rows_of(source, table))), _inferred_sentence(inferred)


def _rows_of(source: Source, table: str) -> Iterator[Row]:
    """The changes of a table, with images as dictionaries."""
    for batch in source.change_batches() or ():
        schema, name = (batch[column].cast(pa.string()) for column in ("schema_name", "table_name"))
        label = pc.if_else(pc.is_null(schema), name, pc.binary_join_element_wise(schema, name, "."))
        for row in batch.select(_READ).filter(pc.equal(label, table)).to_pylist():
            yield row | {name: None if row[name] is None else dict(row[name]) for name in _IMAGES}


def _keyed(rows: Iterable[Row]) -> pa.Table:
    """The records of changes that have a key, once for each row that they change."""
    columns: list[list[Any]] = [[], [], []]
    for row in rows:
        keys = dict.fromkeys(text for name in _IMAGES if (text := _key_text(row["key"] or {}, row[name])))
        for event in row["source_events"] if keys else ():
            for key in keys:
                for column, value in zip(columns, (event["file_index"], event["offset"], key), strict=True):
                    column.append(value)
    return pa.table(dict(zip(_KEYED.names, columns, strict=True)), _KEYED)


def _key_text(key: Mapping[str, str | None], image: Mapping[str, str | None] | None) -> str:
    """The key columns with the values of an image; empty if it lacks one."""
    if image is None or not key.keys() <= image.keys():
        return ""
    return "+".join(f"{name}={'NULL' if image[name] is None else image[name]}" for name in key)


def _inferred(rows: Iterable[Row], table: str) -> InferredKey | None:
    """The inferred key of a table (:func:`cdcwb.spark.known.infer_keys`)."""
    from cdcwb.spark.known import inferred_from

    seen: dict[str, set[str] | None] = {}  # values by column; None: not unique
    rows_of, ordinals = Counter[str](), dict[str, int]()
    for row in rows:
        if row["operation"] in (Operation.INSERT, Operation.REFRESH) and row["outcome"] in (None, Outcome.COMMITTED):
            for ordinal, (name, value) in enumerate((row["after"] or {}).items()):
                rows_of[name] += 1
                ordinals[name] = min(ordinal, ordinals.get(name, ordinal))
                values = seen.setdefault(name, set())
                if values is not None and value is not None and value not in values:
                    values.add(value)
                else:
                    seen[name] = None
    unique = [(ordinals[name], name) for name, values in seen.items() if values is not None]
    return inferred_from(table, rows_of, unique)


# --- in Spark ---------------------------------------------------------------------------------------------------------


def _write_keys(source: Source, table: str, target: Path) -> str:
    """Writes which records change which row; returns how the key was inferred if no change has one."""
    from pyspark.sql import functions as F

    from cdcwb.spark.known import infer_keys, keyed_by

    def text(image: Column) -> Column:
        """The key columns with the values of an image; null if it lacks one."""
        names = F.map_keys("key")
        parts = F.transform(
            names, lambda name: F.concat(name, F.lit("="), F.coalesce(F.try_element_at(image, name), F.lit("NULL")))
        )
        has_all = F.forall(names, lambda name: F.array_contains(F.map_keys(image), name))
        return F.when(image.isNotNull() & has_all, F.array_join(parts, "+"))

    every, sentence = source.capture.changes, ""  # this may start Spark, which functions of columns need
    keys = F.array_distinct(F.array_compact(F.array(*[text(F.col(name)) for name in _IMAGES])))
    label = F.coalesce(F.concat_ws(".", "schema_name", "table_name"), F.col("table_name"))
    changes = every.filter(label == table)
    if changes.filter(F.size("key") > 0).isEmpty():
        inferred = infer_keys(changes, [table]).get(table)
        if inferred is not None:
            changes = keyed_by(changes, {table: [inferred.column]})
            sentence = _inferred_sentence(inferred)
    pairs = changes.filter(F.size("key") > 0).select(F.explode("source_events").alias("place"), keys.alias("keys"))
    places = pairs.select("place.file_index", "place.offset", F.explode("keys").alias("key"))
    places.write.mode("overwrite").parquet(str(target))
    return sentence


def _inferred_sentence(inferred: InferredKey) -> str:
    return f"The key of {inferred.table} is inferred, as no change has one: {inferred.evidence}."


# --- halves -----------------------------------------------------------------------------------------------------------

Ints = npt.NDArray[np.int64]

_CHANGES: Final = (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)


def of_changes(index: Index) -> npt.NDArray[np.bool_]:
    """The records that are changes or halves of updates, and so may have values."""
    kinds = index.texts("kind")
    return np.isin(kinds.codes, [code for kind in _CHANGES if (code := kinds.code_of(kind)) >= 0])


def half_of(index: Index, row: int) -> int | None:
    """The other half of a record; None if it has none."""
    if index.columns["kind"].value(row) not in (Kind.BEFORE, Kind.AFTER):
        return None
    chosen = of_changes(index)
    by_position = get_format(index.format).pairing is Pairing.POSITION
    for name in ("table", "position" if by_position else "transaction"):
        if name in index.columns:
            chosen &= index.columns[name].compare("==", index.columns[name].value(row))
    rows = np.flatnonzero(chosen)
    other = int(halves(index, rows)[np.searchsorted(rows, row)])
    return None if other < 0 else other


def halves(index: Index, rows: Ints) -> Ints:
    """The other half for each of some records, which are in capture order and of the kinds of changes; -1 if there is
    none."""
    pairing = get_format(index.format).pairing
    kinds = index.texts("kind")
    kind = kinds.codes[rows]
    before, after = kinds.code_of(Kind.BEFORE), kinds.code_of(Kind.AFTER)
    half = np.isin(kind, [code for code in (before, after) if code >= 0])
    other = np.full(len(rows), -1, np.int64)
    if before < 0 or after < 0 or pairing not in (Pairing.TRANSACTION, Pairing.POSITION):
        return other
    table = index.texts("table").codes[rows]
    if pairing is Pairing.POSITION:
        first, second = _by_position(index, rows, kind, table, half)
    else:
        first, second = _by_transaction(index.texts("transaction").codes[rows], kind, table, half, after)
    other[first], other[second] = rows[second], rows[first]
    return other


def _by_transaction(
    transaction: npt.NDArray[Any], kind: npt.NDArray[Any], table: npt.NDArray[Any], half: npt.NDArray[Any], after: int
) -> tuple[Ints, Ints]:
    """Indices of halves that belong together. Consecutive halves of a transaction and table that alternate are a run. A
    run is paired from its start, or from its second half if it begins with an after half and its length is odd."""
    known = np.flatnonzero(half | (transaction >= 0))
    order = known[np.lexsort((known, table[known], transaction[known]))]
    if not len(order):
        return order, order
    groups = (transaction[order], table[order])
    follows = half[order][1:] & half[order][:-1] & (kind[order][1:] != kind[order][:-1])
    follows &= np.logical_and.reduce([codes[1:] == codes[:-1] for codes in groups])
    starts = np.flatnonzero(np.append(True, ~follows))
    size = np.diff(np.append(starts, len(order)))
    skipped = (kind[order][starts] == after) & (size % 2 == 1)
    rank = np.arange(len(order)) - np.repeat(starts + skipped, size)
    left = np.repeat(starts + size, size) - np.arange(len(order))
    first = np.flatnonzero((rank >= 0) & (rank % 2 == 0) & (left > 1))
    return order[first], order[first + 1]


def _by_position(
    index: Index, rows: Ints, kind: npt.NDArray[Any], table: npt.NDArray[Any], half: npt.NDArray[Any]
) -> tuple[Ints, Ints]:
    """Indices of halves that belong together: equal position and table, files in one folder; the n-th before half and
    the n-th after half are paired."""
    positions = index.columns.get("position")
    known = np.flatnonzero(half)
    if not isinstance(positions, Texts):
        return known[:0], known[:0]
    texts = positions.values.take(pa.array(rows[known]))
    known, texts = known[texts.is_valid().to_numpy(zero_copy_only=False)], texts.drop_null()
    position = pc.index_in(texts, value_set=pc.unique(texts)).to_numpy()
    folders = {int(entry["file_index"]): re.sub(r"[^/\\]*$", "", str(entry["file"])) for entry in index.files}
    codes = {text: code for code, text in enumerate(dict.fromkeys(folders.values()))}
    folder = np.zeros(max(folders) + 1, np.int64)
    folder[list(folders)] = [codes[text] for text in folders.values()]
    folder = folder[index.numbers("file_index")[rows[known]]]
    groups = np.stack([folder, table[known], position])
    order = np.lexsort((known, kind[known], *groups))
    same = np.append(False, (np.diff(np.vstack([groups, kind[known]])[:, order]) == 0).all(axis=0))
    starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts
    order = np.lexsort((kind[known], rank, *groups))
    couples = np.flatnonzero((np.diff(np.vstack([groups, rank])[:, order]) == 0).all(axis=0))
    return known[order[couples]], known[order[couples + 1]]
