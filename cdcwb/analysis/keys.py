"""The tables of a set of changes with counts, keys and columns, keys that are inferred, and the keys that rows had."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise, takewhile
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import IMAGES, Bools, Ints, Keys, are_committed, are_lasting, maps_of, of_table, times
from cdcwb.dataset import Rows, answer_of, grouped, joined
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags, labels
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


Place = tuple[str, int, int]
"""Position, file_index and offset of a change."""

Keyed = Mapping[str, Sequence[str]]
"""Key columns by table."""


@dataclass(frozen=True, slots=True)
class InferredKey:
    """A ``column`` that may be the key of a table without one: it has a value in each of ``rows`` inserted rows, and
    none of those that were read together has the value of another. ``is_unique``: nor has any other."""

    table: str
    column: str
    rows: int
    is_unique: bool = field(default=True, compare=False)

    @property
    def evidence(self) -> str:
        """The evidence, in a few words."""
        return f"{self.column} is unique in {plural(self.rows, 'inserted row')}"

    def __str__(self) -> str:
        return (
            f"No change of {self.table} has a key. Its key is inferred: {self.evidence}. "
            f"To name the key, give the reader option keys={self.table}:{self.column}."
        )


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table, by ``schema.table``. ``changes`` are all its changes, ``keyed`` those with a key; ``keys`` are the key
    columns that occur, ``columns`` those of all images. ``moves`` are updates that change the key, ``truncates`` the
    places of TRUNCATEs that were not taken back, in order. ``first`` and ``last`` are the times between which its
    changes were committed (None: no time is known). ``candidates`` are in the order of columns; they
    depend on what was read together."""

    table: str
    name: str
    changes: int
    keyed: int
    moves: int
    truncates: tuple[Place, ...]
    keys: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    first: dt.datetime | None
    last: dt.datetime | None
    candidates: tuple[InferredKey, ...] = field(default=(), compare=False)


Facts = tuple[pa.Table, ...]

OF_COUNTS: Final = ("schema_name", "table_name", "operation", "outcome")
"""The columns by which changes are counted."""

_OF_CHANGES: Final = {**dict.fromkeys(("changes", "keyed", "moves"), "sum"), "first": "min", "last": "max"}
_OF_TABLE: Final = {"name": "min", **_OF_CHANGES}
_OF_INSERTED: Final = {"rows": "sum", "ordinal": "min", "repeated": "any"}
_TOTALS: Final[tuple[dict[str, str], ...]] = (_OF_CHANGES, {}, {}, {}, _OF_INSERTED, {"times": "sum"})
"""What is known of tables: the counts, the keys, the columns and the TRUNCATEs, and of inserted rows without a key the
columns, and ranges of the values of those that may be unique (:func:`_uniqueness`)."""


def _counted(facts: Sequence[Facts]) -> Facts:
    pairs = zip(zip(*facts, strict=True), _TOTALS, strict=True)
    *of_tables, columns, ranges = (grouped(tables, totals) for tables, totals in pairs)
    repeated = columns.filter(columns["repeated"])
    ranges = ranges.filter(pc.invert(pc.is_in(_names(ranges), _names(repeated))))
    return (*of_tables, columns, ranges)


def _names(columns: pa.Table | pa.RecordBatch) -> Any:
    """The columns of tables as one text each."""
    return pc.binary_join_element_wise(columns["table"], columns["column"], "\0")


def _facts(batch: pa.RecordBatch) -> Facts:
    committed, keys = are_committed(batch), Keys.of(batch)
    at = pc.if_else(committed, times(batch), None)
    columns = {name: batch[name] for name in OF_COUNTS} | {"changes": np.ones(len(batch), np.int64)}
    columns |= {"keyed": as_flags(batch["key"].is_valid()).astype(np.int64)}
    columns |= {"moves": (keys.moved & as_flags(committed)).astype(np.int64), "first": at, "last": at}
    table = pc.fill_null(labels(batch), "")
    of_keys = pa.table({"table": table, "key": keys.names}).filter(batch["key"].is_valid())
    coded = table.dictionary_encode()
    of_columns = [_ColumnCodes(coded, pairs) for pairs in (keys.pairs, *keys.images)]
    columns_of = grouped([pa.table(one.names_of(np.unique(one.codes))) for one in of_columns], {})
    place = dict(zip(PLACE, places(batch), strict=True))
    are_truncates = pc.and_(pc.equal(batch["operation"], str(Operation.TRUNCATE)), are_lasting(batch))
    truncates = pa.table({"table": table, **place}).filter(are_truncates)
    inserted = _uniqueness(of_columns[-1], as_flags(pc.and_(_are_inserted(batch), batch["key"].is_null())))
    return _counted([(pa.table(columns), of_keys, columns_of, truncates, *inserted)])


class _ColumnCodes:
    """The table and column of each pair of an image as one number (``codes``)."""

    def __init__(self, tables: pa.DictionaryArray, pairs: Pairs) -> None:
        self.pairs, self._tables, self._names = pairs, tables.dictionary, pairs.coded.dictionary
        of_rows, of_pairs = (np.asarray(coded.indices).astype(np.int64) for coded in (tables, pairs.coded))
        self.codes: Ints = of_rows[pairs.rows] * max(len(self._names), 1) + of_pairs

    def names_of(self, codes: Ints) -> dict[str, pa.Array]:
        """The ``table`` and ``column`` of codes."""
        of_tables, of_names = np.divmod(codes, max(len(self._names), 1))
        return {"table": self._tables.take(pa.array(of_tables)), "column": self._names.take(pa.array(of_names))}


PLACE: Final = ("position", "file_index", "offset")


def places(batch: pa.RecordBatch) -> tuple[pa.Array, ...]:
    """The columns of the :data:`Place` of each change: its position is that of its commit, else its own, else empty."""
    position = pc.coalesce(batch["commit_position"], batch["position"], "")
    return position, batch["file_index"], batch["offset"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of changes: their ``tables`` by ``schema.table`` (or ``table``), in name order, and their
    ``counts``: ``changes`` by schema_name, table_name (null: no table), operation and outcome."""

    tables: dict[str, KnownTable]
    counts: list[dict[str, Any]]


_KNOWN: Final = "known"


def known_of(capture: Any) -> Known:
    """What is known of the changes of a capture. One with ``answers`` is asked once."""
    return answer_of(capture, _KNOWN, lambda asked: _known(changes_of(asked, FACTS)))


def is_known(capture: Any) -> bool:
    """Whether :func:`known_of` was asked, so that it answers at once."""
    return _KNOWN in getattr(capture, "answers", {})


def known_with(capture: Any, keys: Keyed, table: str) -> KnownTable:
    """What is known of a table of a capture with ``keys`` (:func:`with_keys`). One with ``answers`` is asked once."""
    name = f"known {table!r} with {named(keys)}"
    return answer_of(capture, name, lambda asked: known_tables(changes_of(asked, FACTS, keys, table))[table])


def named(keys: Keyed | None) -> str:
    """Keys of tables in the name of an answer."""
    return str(sorted((table, *columns) for table, columns in (keys or {}).items()))


def known_tables(changes: Rows) -> dict[str, KnownTable]:
    """The tables of changes (rows with :data:`FACTS`); see :class:`Known`."""
    return _known(changes).tables


def _known(changes: Rows) -> Known:
    empty = _facts(joined([], changes.schema))
    counts, keys, columns, truncates, inserted, ranges = changes.fold(_facts, lambda facts: _counted([empty, *facts]))
    keys_of, columns_of, places_of = (_by_table(found) for found in (keys, columns, truncates))
    candidates = _candidates(inserted.to_pylist(), _overlapping(ranges))
    labelled = counts.append_column("table", labels(counts)).filter(counts["table_name"].is_valid())
    labelled = labelled.append_column("name", labelled["table_name"])
    of_tables = grouped([labelled.select(["table", *_OF_TABLE])], _OF_TABLE).to_pylist()
    tables = {
        row["table"]: KnownTable(
            **row,
            keys=tuple(sorted(tuple(key.split("\0")) if key else () for (key,) in keys_of[row["table"]])),
            columns=tuple(sorted(column for (column,) in columns_of[row["table"]])),
            truncates=tuple(sorted(places_of[row["table"]])),
            candidates=tuple(candidates[row["table"]]),
        )
        for row in sorted(of_tables, key=itemgetter("table"))
    }
    return Known(tables, counts.select([*OF_COUNTS, "changes"]).to_pylist())


def _by_table(rows: pa.Table) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table, without its name."""
    found = defaultdict[str, list[tuple[Any, ...]]](list)
    for label, *row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found[label].append(tuple(row))
    return found


def _overlapping(ranges: pa.Table) -> set[tuple[str, str]]:
    """The columns of tables of which some ranges overlap."""
    rows = ranges.sort_by([(name, "ascending") for name in ("table", "column", "least")]).to_pylist()
    again = [row for row in rows if row["times"] > 1]
    again += [
        row
        for before, row in pairwise(rows)
        if (row["table"], row["column"]) == (before["table"], before["column"]) and row["least"] <= before["most"]
    ]
    return {(row["table"], row["column"]) for row in again}


def _candidates(columns: list[dict[str, Any]], overlapping: set[tuple[str, str]]) -> dict[str, list[InferredKey]]:
    """The candidates of each table, first column first."""
    rows, found = defaultdict[str, int](int), defaultdict[str, list[InferredKey]](list)
    for column in columns:
        rows[column["table"]] = max(rows[column["table"]], column["rows"])
    for column in sorted(columns, key=itemgetter("ordinal", "column")):
        table, name, number = column["table"], column["column"], column["rows"]
        if not column["repeated"] and number == rows[table] >= _LEAST_ROWS:
            found[table].append(InferredKey(table, name, number, (table, name) not in overlapping))
    return found


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


def changes_of(capture: Any, columns: Sequence[str], keys: Keyed | None = None, table: str | None = None) -> Rows:
    """Some columns of the changes of a capture, or of one table, among them :data:`FACTS` if :func:`with_keys` adds
    ``keys``."""
    changes: Rows = capture.rows("changes", columns)
    if table is not None:
        changes = changes.near_tables([table])
        changes = changes.map(partial(of_table, table=table), changes.schema)
    return with_keys(changes, keys or {})


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


def without_key(known: Mapping[str, KnownTable]) -> list[str]:
    """The tables of which no change has a key."""
    return [name for name, table in known.items() if not table.keyed]


_VALUES: Final = pa.schema([(name, pa.string()) for name in ("table", "column", "value")])


def infer_keys(capture: Any, tables: Collection[str]) -> dict[str, InferredKey]:
    """The inferred keys of ``tables``, of which no change has a key, by table: the first column that is unique in all
    inserted rows. A table without such a column, or with fewer than 20 inserted rows, is not in the result."""
    keyless = [table for name, table in known_of(capture).tables.items() if name in tables] if tables else []
    first = [[*takewhile(lambda one: not one.is_unique, table.candidates)] for table in keyless]
    names = [f"{table.table}\0{one.column}" for table, doubtful in zip(keyless, first, strict=True) for one in doubtful]
    wrong = _repeated(capture, names) if names else set()
    found: dict[str, InferredKey] = {}
    for key in (one for table in keyless for one in table.candidates if (one.table, one.column) not in wrong):
        found.setdefault(key.table, replace(key, is_unique=True))
    return found


def _repeated(capture: Any, names: Sequence[str]) -> set[tuple[str, ...]]:
    """Those of some columns of tables of which two inserted rows have the same value."""
    candidates = pa.array(names)
    inserted = capture.rows("changes", ("schema_name", "table_name", "operation", "outcome", "after"))
    values = inserted.map(_inserted_values, _VALUES).where(lambda batch: pc.is_in(_names(batch), candidates))
    repeated = values.numbered(_VALUES.names, "number").where(lambda batch: pc.greater(batch["number"], 1))
    repeated = repeated.select(["table", "column"])
    return {tuple(row.values()) for row in repeated.totals({}).to_pylist()}


def _are_inserted(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change is a committed row that is new in its table."""
    inserted = pc.is_in(batch["operation"], pa.array([str(Operation.INSERT), str(Operation.REFRESH)]))
    return pc.and_(batch["table_name"].is_valid(), pc.and_(inserted, are_committed(batch)))


def _inserted_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values of inserted rows, one by one."""
    rows = batch.filter(_are_inserted(batch))
    pairs = Pairs(rows["after"])
    tables = labels(rows).take(pa.array(pairs.rows))
    return pa.RecordBatch.from_arrays([tables, pairs.names, pairs.values], schema=_VALUES)


def _uniqueness(columns: _ColumnCodes, inserted: Bools) -> tuple[pa.Table, pa.Table]:
    """For each table and column of inserted rows the number of rows, the first ordinal, and whether values repeat or
    are NULL; and for those without repeats the ``least`` and the ``most`` of the values, by length and then as text."""
    pairs = columns.pairs
    wanted = inserted[pairs.rows]
    ordinals = np.arange(len(pairs.rows)) - np.repeat(np.cumsum(pairs.sizes) - pairs.sizes, pairs.sizes)
    rows = pa.table({"code": columns.codes[wanted], "value": pairs.values.filter(wanted), "ordinal": ordinals[wanted]})
    counts = rows.group_by("code", use_threads=False).aggregate(
        [("value", "count_distinct"), ("value", "count"), ("ordinal", "count"), ("ordinal", "min")]
    )
    distinct = pc.and_(
        pc.equal(counts["value_count_distinct"], counts["ordinal_count"]),
        pc.equal(counts["value_count"], counts["ordinal_count"]),
    )
    facts = columns.names_of(np.asarray(counts["code"])) | {"rows": counts["ordinal_count"]}
    table = pa.table(facts | {"ordinal": counts["ordinal_min"], "repeated": pc.invert(distinct)})
    unique = rows.filter(pc.is_in(rows["code"], counts["code"].filter(distinct).combine_chunks()))
    length = pc.utf8_lpad(pc.binary_length(unique["value"]).cast(pa.string()), 10, "0")
    ranked = pc.binary_join_element_wise(length, unique["value"], "")
    bounds = pa.table({"code": unique["code"], "least": ranked, "most": ranked})
    bounds = grouped([bounds], {"least": "min", "most": "max"})
    named = columns.names_of(np.asarray(bounds["code"]))
    times = pa.repeat(1, len(bounds))
    return table, pa.table(named | {"least": bounds["least"], "most": bounds["most"], "times": times})


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
    """The tenures of each key that rows moved from or to, which follow one another; ``moves`` are in order. Those with
    one order, of rows of one message, are at once."""
    every: dict[Any, list[Tenure]] = {}

    def begin(key: Hashable, order: Order, row: list[Tenure]) -> None:
        of_key = every.setdefault(key, [])
        if of_key:
            of_key[-1].end = order
        of_key.append(Tenure(key, order, row))
        row.append(of_key[-1])

    for order, some in groupby(moves, attrgetter("order")):
        at_once = list(some)
        for key in chain(*(move[1:] for move in at_once)):
            if key not in every:
                begin(key, FIRST, [])
        rows = [every[move.old][-1].row for move in at_once]
        for move in at_once:
            begin(move.old, order, [])
        for move, row in zip(at_once, rows, strict=True):
            begin(move.new, order, row)
    return every
