"""The changes of rows in narrow columns: the key, the positions, and a hash of each value of both images."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import Bools, Ints, Keys, are_lasting, ranks, times
from cdcwb.analysis.keys import FACTS, PLACE, InferredKey, Place, changes_of, infer_keys, known_of, places, without_key
from cdcwb.dataset import Rows, answer_of, joined, text_hashes
from cdcwb.filters import NO_TABLE, as_flags, labels
from cdcwb.formats.arrays import label
from cdcwb.index.images import Pairs
from cdcwb.model import CHANGES, Operation

VERSIONS: Final = pa.schema(
    [
        *(("table", pa.string()), ("row_key", pa.string()), ("operation", pa.int8()), ("part", pa.int8())),
        *(("epoch", pa.int64()), ("commit", pa.string()), ("position", pa.string()), ("file_index", pa.int32())),
        *(("offset", pa.int64()), ("at", CHANGES.field("changed_at").type), ("origin", pa.int64())),
        *(("before", pa.list_(pa.int64())), ("after", pa.list_(pa.int64()))),
    ]
)
"""The change of a row: ``before`` and ``after`` have a number for each column of an image, the hash of its name (upper
32 bits) and that of its value. ``operation`` is the number of one in :data:`OPERATIONS`, ``epoch`` that of TRUNCATEs
before it. ``origin`` is the hash of its transaction, else of its time or its position. An update that changes the key
is the end of one row (``part`` 0) and the begin of another (1). Without a ``row_key``, ``origin`` is the number of
changes of the table that were read together and have no key; the rest is null."""

ROW: Final = ("table", "row_key")
"""The columns that name a row."""

OPERATIONS: Final = (Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.REFRESH)
INSERT, UPDATE, DELETE, REFRESH = range(4)
OPERATION_NAMES: Final = pa.array(map(str, OPERATIONS))
"""The operation of each number."""

VALUE_BITS: Final = 0xFFFFFFFF


def row_versions(capture: Any) -> tuple[Rows, dict[str, InferredKey]]:
    """The changes of all rows of a capture (:data:`VERSIONS`), in any order, and the inferred keys of the tables of
    which no change has a key. A capture with ``answers`` is asked once."""
    return answer_of(capture, "row_versions", _row_versions)


def _row_versions(capture: Any) -> tuple[Rows, dict[str, InferredKey]]:
    known = known_of(capture).tables
    inferred = infer_keys(capture, without_key(known))
    keys = {table: (key.column,) for table, key in inferred.items()}
    changes = changes_of(capture, (*FACTS, "transaction_id", "table_version"), keys)
    truncates = {name: table.truncates for name, table in known.items() if table.truncates}
    return changes.map(_Versions(truncates, retyped_columns(capture)), VERSIONS), inferred


def _of_rows(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change is one of a row."""
    is_counted = pc.and_(are_lasting(batch), batch["table_name"].is_valid())
    return pc.and_(is_counted, pc.is_in(batch["operation"], OPERATION_NAMES))


def retyped_columns(capture: Any) -> dict[tuple[str, str], dict[str, str]]:
    """By table and version the columns that had another type in the first version, with their type: the values of such
    a column can differ although nothing changed them."""
    names = ("schema_name", "table_name", "table_version", "first_position", "columns")
    first: dict[tuple[str, str], str] = {}
    retyped: dict[tuple[str, str], dict[str, str]] = {}
    rows = capture.rows("table_versions", names).table().to_pylist()
    for row in sorted(rows, key=lambda row: row["first_position"] or ""):
        table = label(row["schema_name"], row["table_name"]) or NO_TABLE
        for column in row["columns"] or ():
            kind = repr([column[name] for name in ("type", "length", "precision", "scale")])
            if first.setdefault((table, column["name"]), kind) != kind:
                retyped.setdefault((table, row["table_version"]), {})[column["name"]] = kind
    return retyped


def column_hash(name: str, kind: str | None = None) -> int:
    """The hash of a column; ``kind``: of a type that is not its first."""
    return zlib.crc32((name if kind is None else f"{name}\0{kind}").encode())


@dataclass(frozen=True)
class _Versions:
    """Makes :data:`VERSIONS` of changes."""

    truncates: Mapping[str, Sequence[Place]]
    retyped: Mapping[tuple[str, str], Mapping[str, str]]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        wanted, is_keyed = _of_rows(batch), batch["key"].is_valid()
        without = labels(batch.filter(pc.and_not(wanted, is_keyed))).value_counts()
        wanted = pc.and_(wanted, is_keyed)
        rows = batch if pc.all(wanted).as_py() else batch.filter(wanted)
        table, keys = labels(rows), Keys.of(rows)
        time = times(rows)
        origin = pc.coalesce(rows["transaction_id"], time.cast(pa.int64()).cast(pa.string()), rows["position"])
        before, after = keys.images
        layouts = pc.binary_join_element_wise(table, pc.fill_null(rows["table_version"], ""), "\0").dictionary_encode()
        columns = {
            "table": table,
            "row_key": keys.texts(keys.former),
            "operation": pc.index_in(rows["operation"], OPERATION_NAMES),
            "part": pa.repeat(0, rows.num_rows),
            "epoch": self._epochs(rows, table),
            "commit": pc.coalesce(rows["commit_position"], rows["position"]),
            **{name: rows[name] for name in ("position", "file_index", "offset")},
            "at": time,
            "origin": text_hashes(origin).view(np.int64),
            "before": self._hashed(rows["before"], before, layouts),
            "after": self._hashed(rows["after"], after, layouts),
        }
        keyed = pa.RecordBatch.from_pydict(columns, VERSIONS)
        if keys.moved.any():
            keyed = joined(_ends_and_begins(keyed, keys), VERSIONS)
        counted = {"table": without.field("values"), "origin": without.field("counts")}
        nothing = {one.name: pa.nulls(len(without), one.type) for one in VERSIONS if one.name not in counted}
        return joined([keyed, pa.RecordBatch.from_pydict(counted | nothing, schema=VERSIONS)], VERSIONS)

    def _epochs(self, rows: pa.RecordBatch, table: pa.Array) -> Ints:
        """The number of TRUNCATEs of its table before each change."""
        epochs = np.zeros(rows.num_rows, np.int64)
        place = pa.table(dict(zip(PLACE, places(rows), strict=True)))
        is_read = as_flags(pc.or_(pc.equal(place["position"], ""), pc.equal(rows["operation"], str(Operation.REFRESH))))
        for name, truncates in self.truncates.items():
            of_table = as_flags(pc.equal(table, name))
            first = pa.table(list(map(pa.array, zip(*truncates, strict=True))), place.schema)
            # what has no position follows the TRUNCATEs that precede it in the capture
            for chosen, order_by in ((of_table & ~is_read, PLACE), (of_table & is_read, PLACE[1:])):
                numbers = np.flatnonzero(chosen)
                both = pa.concat_tables([place.take(pa.array(numbers)), first])
                order = np.asarray(pc.sort_indices(both, sort_keys=[(one, "ascending") for one in order_by]))
                is_row = order < len(numbers)  # a change precedes a TRUNCATE at its place
                epochs[numbers[order[is_row]]] = np.cumsum(~is_row)[is_row]
        return epochs

    def _hashed(self, image: pa.MapArray, pairs: Pairs, layouts: pa.DictionaryArray) -> pa.ListArray:
        """The hashes of names and values of images, whose ``layouts`` are tables with versions."""
        names = pairs.coded
        of_names = np.array(
            [
                [column_hash(name, self.retyped.get(tuple(layout.split("\0")), {}).get(name)) for name in names_of]
                for names_of in [names.dictionary.to_pylist()]
                for layout in layouts.dictionary.to_pylist()
            ],
            np.uint64,
        ).reshape(len(layouts.dictionary), len(names.dictionary))
        of_column = of_names[np.asarray(layouts.indices)[pairs.rows], np.asarray(names.indices)]
        numbers = (of_column << np.uint64(32)) | (text_hashes(pairs.values) & np.uint64(VALUE_BITS))
        offsets = np.concatenate([[0], np.cumsum(pairs.sizes)]).astype(np.int32)
        mask = np.append(~as_flags(image.is_valid()), False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=mask), pa.array(numbers.view(np.int64)))


def _ends_and_begins(rows: pa.RecordBatch, keys: Keys) -> list[pa.RecordBatch]:
    """The changes (:data:`VERSIONS`), with two for each that changes the key: one that deletes the row with the old
    key, and one that inserts that with the new key."""
    moved = pa.array(keys.moved)
    ends = rows.filter(moved)
    nothing = pa.nulls(len(ends), rows["after"].type)
    own = {"after": nothing, "operation": pa.repeat(DELETE, len(ends))}
    begins = {
        "before": nothing,
        "operation": pa.repeat(INSERT, len(ends)),
        "row_key": keys.texts(keys.latter).filter(moved),
        "part": pa.repeat(1, len(ends)),
    }
    changed = ({name: ends[name] for name in VERSIONS.names} | values for values in (own, begins))
    return [rows.filter(pc.invert(moved)), *(pa.RecordBatch.from_pydict(one, VERSIONS) for one in changed)]


def log_order(rows: pa.RecordBatch, starts: Ints) -> tuple[Ints, Bools]:
    """The rank of each change in the order of commits, and whether it has a position. One without a position, or that
    was read from the table, has the rank of the one before it."""
    last, has_position = last_positions(rows, starts)
    commit, position = (ranks(pc.fill_null(rows[name], "")) for name in ("commit", "position"))
    own = commit * (rows.num_rows + 1) + position + 1
    return np.where(last >= 0, own[last], 0), has_position


def last_positions(rows: pa.RecordBatch, starts: Ints) -> tuple[Ints, Bools]:
    """For each change the number of the last one of its row, up to it, that has a position in the log (-1: none), and
    whether it has one."""
    has_position = as_flags(rows["commit"].is_valid()) & (np.asarray(rows["operation"]) != REFRESH)
    begin = np.repeat(starts, np.diff(np.append(starts, rows.num_rows)))
    last = np.maximum.accumulate(np.where(has_position, np.arange(rows.num_rows), -1))
    return np.where(last >= begin, last, -1), has_position
