"""The tables of a set of changes with counts, keys and columns, keys that are inferred, and the keys that rows had."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import IMAGES, Ints, Keys, are_committed, are_lasting, labels, maps_of, times
from cdcwb.dataset import Rows, answer_of, grouped, joined, numbered
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags
from cdcwb.formats.options import nearest
from cdcwb.index.images import Pairs
from cdcwb.model import Operation
from cdcwb.words import plural

FACTS: Final = (
    *("schema_name", "table_name", "operation", "outcome", *IMAGES, "committed_at", "changed_at"),
    *("position", "commit_position", "file_index", "offset"),
)
"""The columns of changes that :func:`known_tables` needs, and what orders them."""

_LEAST_ROWS: Final = 20  # fewest inserted rows from which a key is inferred


Keyed = Mapping[str, Sequence[str]]
"""Key columns by table."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table, by ``schema.table``. ``changes`` are all its changes, ``keyed`` those with a key; ``keys`` are the key
    columns that occur, ``columns`` those of all images. ``moves`` are updates that change the key, ``truncates``
    TRUNCATEs that were not taken back. ``first`` and
    ``last`` are the times between which its changes were committed (None: no time is known). ``candidates`` are the
    columns that may be its key if it has none: each has a value in as many inserted rows, and none of those that were
    read together has the value of another."""

    table: str
    name: str
    changes: int
    keyed: int
    moves: int
    truncates: int
    keys: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    first: dt.datetime | None
    last: dt.datetime | None
    candidates: tuple[tuple[str, int], ...] = ()


Facts = tuple[pa.Table, ...]

_TOTALS: Final[tuple[dict[str, str], ...]] = (
    {"name": "min", **dict.fromkeys(("changes", "keyed", "moves", "truncates"), "sum"), "first": "min", "last": "max"},
    {},
    {},
    {"rows": "sum", "ordinal": "min", "repeated": "any"},
)
"""What is known of tables: the counts, the keys, the columns, and the columns of inserted rows without a key of
each."""


def _counted(facts: Sequence[Facts]) -> Facts:
    return tuple(grouped(tables, totals) for totals, tables in zip(_TOTALS, zip(*facts, strict=True), strict=True))


def _facts(batch: pa.RecordBatch) -> Facts:
    batch = batch.filter(batch["table_name"].is_valid())
    table, committed, keys = labels(batch), are_committed(batch), Keys.of(batch)
    at = pc.if_else(committed, times(batch), None)
    counted = as_flags(committed)
    truncates = as_flags(pc.and_(pc.equal(batch["operation"], str(Operation.TRUNCATE)), are_lasting(batch)))
    columns = {"table": table, "name": batch["table_name"], "changes": np.ones(len(table), np.int64)}
    columns |= {"keyed": as_flags(batch["key"].is_valid()).astype(np.int64)}
    columns |= {"moves": (keys.moved & counted).astype(np.int64), "truncates": truncates.astype(np.int64)}
    pairs = [Pairs(batch[image]) for image in IMAGES]
    of_pairs = {
        "table": pa.concat_arrays([table.take(pa.array(image.rows)) for image in pairs]),
        "column": pa.concat_arrays([image.names for image in pairs]),
    }
    of_keys = pa.table({"table": table, "key": keys.names}).filter(batch["key"].is_valid())
    values = _uniqueness(_inserted_values(batch.filter(batch["key"].is_null())))
    return _counted([(pa.table(columns | {"first": at, "last": at}), of_keys, pa.table(of_pairs), values)])


def known_tables(changes: Rows) -> dict[str, KnownTable]:
    """The tables of changes (rows with :data:`FACTS`) by ``schema.table`` (or ``table``), in name order; changes of no
    table are left out."""
    empty = _facts(joined([], changes.schema))
    counts, *others, inserted = changes.fold(_facts, lambda facts: _counted([empty, *facts]))
    keys_of, columns_of = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for values, table in zip((keys_of, columns_of), others, strict=True):
        for label, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
            values[label].append(value)
    candidates = _candidates(inserted.to_pylist())
    known = {}
    for row in sorted(counts.to_pylist(), key=lambda row: row["table"]):
        of_table = tuple(sorted(tuple(text.split("\0")) if text else () for text in keys_of[row["table"]]))
        known[row["table"]] = KnownTable(
            **row,
            keys=of_table,
            columns=tuple(sorted(columns_of[row["table"]])),
            candidates=tuple(candidates[row["table"]]),
        )
    return known


def _candidates(columns: list[dict[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """The candidates of each table, first column first."""
    rows, found = defaultdict[str, int](int), defaultdict[str, list[tuple[str, int]]](list)
    for column in columns:
        rows[column["table"]] = max(rows[column["table"]], column["rows"])
    for column in sorted(columns, key=itemgetter("ordinal", "column")):
        if not column["repeated"] and column["rows"] == rows[column["table"]] >= _LEAST_ROWS:
            found[column["table"]].append((column["column"], column["rows"]))
    return found


def tables_of(capture: Any) -> dict[str, KnownTable]:
    """The :func:`known_tables` of a capture. One with ``answers`` is asked once."""
    return answer_of(capture, "known_tables", lambda asked: known_tables(changes_of(asked, FACTS)))


def find_table(known: Mapping[str, KnownTable], table: str) -> KnownTable:
    """The table of that name (``schema.table``, or ``table``). Raises OptionError if there is none, or several."""
    if table in known:
        return known[table]
    matches = [candidate for candidate in known.values() if candidate.name == table]
    if len(matches) > 1:
        which = ", ".join(match.table for match in matches)
        raise OptionError(f"several tables are called {table!r}; name one of: {which}")
    if not matches:
        tables = f"There are: {', '.join(known) or 'none'}."
        raise OptionError(f"no change is of a table {table!r}.{nearest(table, known)} {tables}")
    return matches[0]


def changes_of(capture: Any, columns: Sequence[str], keys: Keyed | None = None) -> Rows:
    """Some columns of the changes of a capture, among them :data:`FACTS` if :func:`with_keys` adds ``keys``."""
    return with_keys(capture.rows("changes", columns), keys or {})


def with_keys(changes: Rows, keys: Keyed) -> Rows:
    """The changes with a null ``key`` filled from the images: ``keys`` are columns by ``schema.table``. If an image
    lacks one of them, the key stays null."""
    return changes.map(partial(_filled, dict(keys)), changes.schema) if keys else changes


def _filled(keys: Keyed, batch: pa.RecordBatch) -> pa.RecordBatch:
    key, count = batch["key"], batch.num_rows
    is_null = as_flags(key.is_null())
    coded = labels(batch).dictionary_encode()
    tables = np.asarray(coded.indices.fill_null(-1))
    after, before = Pairs(batch["after"]), Pairs(batch["before"])
    has_after = as_flags(batch["after"].is_valid())

    def located(rows: Ints, name: str) -> Ints:
        """The pairs of a column in the images of some rows, those before counted on from those after; -1: none."""
        own, other = (image.find(rows, pa.repeat(name, len(rows))) for image in (after, before))
        return np.where(has_after[rows], own, np.where(other < 0, -1, other + len(after.rows)))

    found: list[tuple[Ints, Ints]] = []  # rows, and for each the pairs of its key
    for number, label in enumerate(coded.dictionary.to_pylist()):
        if label in keys:
            rows = np.flatnonzero(is_null & (tables == number))
            at = np.array([located(rows, name) for name in keys[label]])
            complete = (at >= 0).all(axis=0)
            found.append((rows[complete], at[:, complete].T))
    if not found:
        return batch
    pairs = np.concatenate([at.ravel() for _, at in found])
    sizes = np.concatenate([np.full(len(rows), at.shape[1]) for rows, at in found])
    names = pa.concat_arrays([after.names, before.names]).take(pa.array(pairs))
    values = pa.concat_arrays([after.values, before.values]).take(pa.array(pairs))
    filled = maps_of(sizes, names, values).cast(key.type)
    numbers = np.arange(count)
    numbers[np.concatenate([rows for rows, _ in found])] = count + np.arange(len(sizes))
    key = pa.concat_arrays([key, filled]).take(pa.array(numbers))
    return batch.set_column(batch.schema.get_field_index("key"), batch.schema.field("key"), key)


# --- inferred keys ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InferredKey:
    """The inferred key of a table: the ``column`` that is unique in its ``rows`` inserted rows."""

    table: str
    column: str
    rows: int

    @property
    def evidence(self) -> str:
        """The evidence, in a few words."""
        return f"{self.column} is unique in {plural(self.rows, 'inserted row')}"

    def __str__(self) -> str:
        return (
            f"No change of {self.table} has a key. Its key is inferred: {self.evidence}. "
            f"To name the key, give the reader option keys={self.table}:{self.column}."
        )


def without_key(known: Mapping[str, KnownTable]) -> list[str]:
    """The tables of which no change has a key."""
    return [name for name, table in known.items() if not table.keyed]


_VALUES: Final = pa.schema(
    [("table", pa.string()), ("column", pa.string()), ("value", pa.string()), ("ordinal", pa.int64())]
)
_NUMBERED: Final = _VALUES.append(pa.field("number", pa.int64()))


def infer_keys(capture: Any, tables: Collection[str]) -> dict[str, InferredKey]:
    """The inferred keys of ``tables``, of which no change has a key, by table: the first column that is unique in all
    inserted rows. A table without such a column, or with fewer than 20 inserted rows, is not in the result."""
    keyless = [table for name, table in tables_of(capture).items() if name in tables] if tables else []
    names = [f"{table.table}\0{column}" for table in keyless for column, _ in table.candidates]
    if not names:
        return {}
    candidates = pa.array(names, pa.string())
    inserted = capture.rows("changes", ("schema_name", "table_name", "operation", "outcome", "after"))
    values = inserted.map(_inserted_values, _VALUES).where(
        lambda batch: pc.is_in(pc.binary_join_element_wise(batch["table"], batch["column"], "\0"), candidates)
    )
    by = ["table", "column", "value"]
    repeated = values.by_key(by, [], partial(numbered, keys=by, name="number"), _NUMBERED)
    repeated = repeated.where(lambda batch: pc.greater(batch["number"], 1)).select(["table", "column"])
    wrong = {tuple(row.values()) for row in repeated.totals({}).to_pylist()}
    found = {}
    for table in keyless:
        unique = [(column, rows) for column, rows in table.candidates if (table.table, column) not in wrong]
        if unique:
            found[table.table] = InferredKey(table.table, *unique[0])
    return found


def _inserted_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values of inserted rows, one by one."""
    inserted = pc.is_in(batch["operation"], pa.array([str(Operation.INSERT), str(Operation.REFRESH)]))
    rows = batch.filter(pc.and_(batch["table_name"].is_valid(), pc.and_(inserted, are_committed(batch))))
    pairs = Pairs(rows["after"])
    ordinals = np.arange(len(pairs.rows)) - np.repeat(np.cumsum(pairs.sizes) - pairs.sizes, pairs.sizes)
    columns = [labels(rows).take(pa.array(pairs.rows)), pairs.names, pairs.values, pa.array(ordinals)]
    return pa.RecordBatch.from_arrays(columns, schema=_VALUES)


def _uniqueness(batch: pa.RecordBatch) -> pa.Table:
    """For each table and column the number of rows, the first ordinal, and whether values repeat or are NULL."""
    by_column = pa.table(batch).group_by(["table", "column"], use_threads=False)
    counts = by_column.aggregate(
        [("value", "count_distinct"), ("value", "count"), ("ordinal", "count"), ("ordinal", "min")]
    )
    distinct = pc.and_(
        pc.equal(counts["value_count_distinct"], counts["ordinal_count"]),
        pc.equal(counts["value_count"], counts["ordinal_count"]),
    )
    columns = {"table": counts["table"], "column": counts["column"], "rows": counts["ordinal_count"]}
    return pa.table(columns | {"ordinal": counts["ordinal_min"], "repeated": pc.invert(distinct)})


# --- keys that rows had -----------------------------------------------------------------------------------------------

Order = tuple[Any, ...]
"""Where a change is in an order (:func:`orders`)."""

FIRST: Final[Order] = ()
LAST: Final[Order] = (2,)
"""Before and after all changes."""


def orders(rows: pa.RecordBatch, names: Sequence[str]) -> list[Order]:
    """Where changes are in the order of some columns, null first, as values that can be compared."""
    columns = []
    for name in names:
        column = rows[name]
        nothing = "" if pa.types.is_string(column.type) else 0
        columns += [column.is_valid().to_pylist(), pc.fill_null(column, nothing).to_pylist()]
    return list(zip(*columns, strict=True))


class Move(NamedTuple):
    """An update of a key: where it is, and the keys before and after it."""

    order: Order
    old: Hashable
    new: Hashable


@dataclass(eq=False, slots=True)
class Tenure:
    """The time from ``begin`` (included) to ``end`` in which a ``row`` had a key; ``row`` are all tenures of it. One
    that ends with the row was replaced by a row that moved to its key."""

    key: Any
    begin: Order
    row: list[Tenure]
    end: Order = field(default=LAST)


def tenures(moves: Sequence[Move]) -> dict[Any, list[Tenure]]:
    """The tenures of each key that rows moved from or to, which follow one another; ``moves`` are in order."""
    every: dict[Any, list[Tenure]] = {}

    def begin(key: Hashable, order: Order, row: list[Tenure]) -> None:
        of_key = every.setdefault(key, [])
        if of_key:
            of_key[-1].end = order
        of_key.append(Tenure(key, order, row))
        row.append(of_key[-1])

    for order, old, new in moves:
        for key in (old, new):
            if key not in every:
                begin(key, FIRST, [])
        row = every[old][-1].row
        begin(old, order, [])
        begin(new, order, row)
    return every
