"""Transactions in several splits, for a stream with begins and ends. A split yields one row for its section of each
transaction, and one for each table in it (:data:`SECTIONS`, :data:`RUNS`), without values of columns. All sections
together show how the transactions end, and what each split needs to know of the others to assemble its own changes: its
:class:`cdcwb.formats.old.headers.Patch`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import as_array
from cdcwb.formats.groups import Groups, distinct, one_chunk
from cdcwb.formats.moments import MICROSECONDS
from cdcwb.formats.old.headers import (
    NO_PATCHES,
    OPEN,
    PATCHED,
    PATCHED_RUNS,
    ROLLED_BACK,
    Headers,
    Patches,
    outcome,
)
from cdcwb.model import Kind

__all__ = ["APART", "RUNS", "SECTIONS", "patches", "sections_of"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SECTIONS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("split", pa.int32()),
        ("begins", pa.bool_()),
        ("begin_position", pa.string()),  # of the first begin, like the next two
        ("began_at", MICROSECONDS),
        ("user", pa.string()),
        ("ends", pa.bool_()),
        ("end_position", pa.string()),  # of the last end, like the next one
        ("ended_at", MICROSECONDS),
        ("rolls_back", pa.bool_()),
        ("commits", pa.bool_()),
        ("commit_position", pa.string()),  # of the last commit, like the next one
        ("committed_at", MICROSECONDS),
        ("undo", pa.string()),  # the lowest position of undo records
        ("bytes", pa.int64()),
        ("changes", pa.map_(pa.string(), pa.int64())),  # by operation, without those of the outer runs of each table
    ]
)
"""The sections of transactions in a split."""

RUNS: Final = pa.schema(
    [
        *(model.EVENTS.field(name) for name in ("transaction_id", "schema_name", "table_name")),
        ("split", pa.int32()),
        ("counts", pa.bool_()),  # whether one of the changes has an operation
        ("head", pa.int64()),  # halves of the first run, 0 if the first change is not a half
        ("head_after", pa.bool_()),  # whether it begins with an after half
        ("tail", pa.int64()),  # the same of the last run
        ("tail_after", pa.bool_()),
        ("one_run", pa.bool_()),  # whether the first run is also the last
        *(model.EVENTS.field(name) for name in ("file_index", "offset", "position")),  # of the first change
        ("undone", pa.bool_()),  # whether an undo record of this split reverts the first change
    ]
)
"""The tables in the sections of transactions, with their outer runs of halves
(:attr:`cdcwb.formats.old.headers.Headers.runs`)."""


APART: Final = pa.schema([("transaction_id", pa.string())])
"""Transactions whose changes need the rows of all their splits together."""


def sections_of(headers: Headers, split: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of :data:`SECTIONS` and :data:`RUNS` of the transactions of a split, in the order of their first
    records. The headers have no patch."""
    runs, names = headers.runs, headers.names
    first, last = runs.ends
    one_of = headers.change[runs.order[runs.group]]
    outer = np.zeros(len(runs.begin), np.bool_)
    outer[first] = outer[last] = True
    outer &= runs.half[runs.begin]
    operation = headers.column("operation")
    has_operation = np.cumsum(np.append(0, as_array(operation.is_valid())[headers.change[runs.order]]))
    stops = np.append(runs.group, len(runs.order))[1:]
    at = pa.array(one_of)
    tables: dict[str, Any] = {
        name: headers.column(name).take(at) for name in RUNS.names if name in headers.events.column_names
    } | {
        "split": pa.repeat(split, len(at)),
        "counts": has_operation[stops] > has_operation[runs.group],
        "head": np.where(runs.half[runs.begin[first]], runs.size[first], 0),
        "head_after": runs.after[runs.begin[first]],
        "tail": np.where(runs.half[runs.begin[last]], runs.size[last], 0),
        "tail_after": runs.after[runs.begin[last]],
        "one_run": first == last,
        "undone": headers.undone()[runs.order[runs.group]],
    }
    position, time = headers.column("position"), headers.column("changed_at")
    begin, end, commit = (
        headers.first(headers.are(Kind.BEGIN)),
        headers.last(headers.are(Kind.COMMIT, Kind.ROLLBACK)),
        headers.last(headers.are(Kind.COMMIT)),
    )
    sizes = np.bincount(headers.number, weights=headers.column("length").to_numpy(), minlength=len(names))
    found: dict[str, Any] = {
        "transaction_id": names,
        "split": pa.repeat(split, len(names)),
        "begins": begin.is_valid(),
        "begin_position": position.take(begin),
        "began_at": time.take(begin),
        "user": headers.column("user").take(begin),
        "ends": end.is_valid(),
        "end_position": position.take(end),
        "ended_at": time.take(end),
        "rolls_back": headers.last(headers.are(Kind.ROLLBACK)).is_valid(),
        "commits": commit.is_valid(),
        "commit_position": position.take(commit),
        "committed_at": time.take(commit),
        "undo": _lowest(headers),
        "bytes": sizes.astype(np.int64),
        "changes": _counts(headers, ~np.repeat(outer, runs.size)[np.argsort(runs.order)]),
    }
    return _batch(found, SECTIONS), _batch(tables, RUNS)


def _lowest(headers: Headers) -> pa.Array:
    """The lowest position of undo records of each transaction."""
    undoes = np.flatnonzero(headers.are(Kind.UNDO) & as_array(headers.column("position").is_valid()))
    found = np.full(len(headers.names), -1, np.int64)
    rank = pc.rank(headers.column("position").take(pa.array(undoes)), sort_keys="descending").to_numpy()
    order = np.argsort(rank)
    found[headers.number[undoes[order]]] = undoes[order]  # the lowest of each is written last
    return headers.column("position").take(pa.array(found, mask=found < 0))


def _counts(headers: Headers, chosen: Bools) -> pa.Array:
    """The number of the changes of each transaction by operation, in name order, of these change events."""
    partner = headers.halves().partner
    rows = headers.change[chosen & (partner < np.arange(len(headers.change)))]
    operation = headers.column("operation").take(pa.array(rows))
    known = as_array(operation.is_valid())
    texts, offsets, times = distinct(headers.number[rows[known]], operation.filter(pa.array(known)), len(headers.names))
    return pa.MapArray.from_arrays(offsets, texts, pa.array(times))


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [columns[one.name] for one in schema]
    arrays = [pa.array(one) if isinstance(one, np.ndarray) else one for one in arrays]
    return pa.RecordBatch.from_arrays(
        [one.cast(field.type) for one, field in zip(arrays, schema, strict=True)], schema=schema
    )


# --- all sections together --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Joined:
    """The rows of :data:`RUNS` with runs joined over splits. ``rows``: in order; ``row``, ``size``: the row of each
    outer run and its halves in its split, the runs of a row after each other; ``run``: the number of the complete run;
    ``earlier``, ``total``: its halves that precede those, and all of them; ``begins_after``: whether it begins with an
    after half."""

    rows: pa.Table
    row: Ints
    size: Ints
    run: Ints
    earlier: Ints
    total: Ints
    begins_after: Bools

    @classmethod
    def of(cls, runs: pa.Table) -> _Joined:
        keys = ("transaction_id", "schema_name", "table_name")
        order = pc.sort_indices(runs, [(name, "ascending") for name in (*keys, "split")])
        rows = runs.take(order).combine_chunks()
        count = rows.num_rows
        same = np.ones(count, np.bool_)  # transaction and table as the row before
        same[:1] = False
        for name in keys:
            code = pc.fill_null(one_chunk(rows[name]).dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
            same[1:] &= code[1:] == code[:-1]
        row = np.repeat(np.arange(count), np.where(as_array(one_chunk(rows["one_run"])), 1, 2))
        is_first = np.diff(row, prepend=-1) > 0
        head, tail = (one_chunk(rows[name]).to_numpy()[row] for name in ("head", "tail"))
        head_after, tail_after = (as_array(one_chunk(rows[name]))[row] for name in ("head_after", "tail_after"))
        size, after = np.where(is_first, head, tail), np.where(is_first, head_after, tail_after)
        joins = is_first & same[row] & (size > 0)
        ends_after = after ^ (size % 2 == 0)
        joins[1:] &= (size[:-1] > 0) & (ends_after[:-1] != after[1:])
        run = np.cumsum(~joins) - 1
        upto = np.cumsum(size)
        starts = np.flatnonzero(~joins)
        earlier = upto - size
        earlier -= earlier[starts][run]
        total = np.bincount(run, weights=size).astype(np.int64)[run]
        return cls(rows, row, size, run, earlier, total, after[starts][run])


def _outcomes(groups: Groups) -> Ints:
    """The outcome of each transaction, as an index in OUTCOMES."""
    begins, commits, rolls_back = (
        as_array(groups.some(as_array(groups.column(name)))) for name in ("begins", "commits", "rolls_back")
    )
    return outcome(begins, commits, rolls_back)


def _numbers(groups: Groups, rows: pa.Table) -> Ints:
    found: Ints = pc.index_in(one_chunk(rows["transaction_id"]), groups.names).to_numpy().astype(np.int64)
    return found


# --- patches ----------------------------------------------------------------------------------------------------------


def patches(found: Iterable[tuple[str, pa.RecordBatch]]) -> Patches:
    """The patches of splits, from the sections of the complete capture by name: ``sections``, ``runs``, and of a trail
    ``apart`` (:data:`APART`) and ``ends`` (:data:`cdcwb.formats.old.delivered.ENDS`)."""
    tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, rows in found:
        tables[name].append(rows)
    sections = pa.Table.from_batches(tables["sections"], SECTIONS).sort_by("split").combine_chunks()
    if not sections.num_rows:
        return NO_PATCHES
    apart = pc.unique(pa.Table.from_batches(tables["apart"], APART)["transaction_id"])
    runs = pa.Table.from_batches(tables["runs"], RUNS)
    runs = runs.filter(pc.invert(pc.is_in(runs["transaction_id"], apart)))
    undo = _Undo(sections)
    names, splits = one_chunk(sections["transaction_id"]), one_chunk(sections["split"])
    columns: dict[str, Any] = {
        "split": splits,
        "transaction_id": names,
        **(_of_ends(tables["ends"], names) if tables["ends"] else _of_commits(sections)),
        "undo": undo.after(names, splits),
        "apart": pc.is_in(names, apart),
    }
    return Patches(_batch(columns, PATCHED), _patched_runs(_Joined.of(runs), undo))


def _of_commits(sections: pa.Table) -> dict[str, pa.Array]:
    """The outcome and the commit of the transactions of sections."""
    groups = Groups(sections)
    commit = groups.row("commits", last=True)
    of = pa.array(_numbers(groups, sections))
    found = {name: groups.column(name).take(commit).take(of) for name in ("commit_position", "committed_at")}
    return {"outcome": pa.array(_outcomes(groups)).take(of), **found}


def _of_ends(ends: list[pa.RecordBatch], names: pa.Array) -> dict[str, pa.Array]:
    """The same of transactions of a trail, from their ends."""
    groups = Groups(pa.Table.from_batches(ends))
    of = pc.index_in(names, groups.names)
    rolled_back = pc.fill_null(pa.array(groups.some(as_array(groups.column("rolls_back")))).take(of), False)
    found = {name: groups.greatest(groups.column(name)).take(of) for name in ("commit_position", "committed_at")}
    return {"outcome": pc.if_else(rolled_back, ROLLED_BACK, OPEN), **found}


def _patched_runs(joined: _Joined, undo: _Undo) -> pa.RecordBatch:
    """The rows of :data:`PATCHED_RUNS`."""
    first, last = np.flatnonzero(np.diff(joined.row, prepend=-1)), np.flatnonzero(np.diff(joined.row, append=-1))
    earlier = joined.earlier[first]
    later = (joined.total - joined.earlier - joined.size)[last]
    skipped = (joined.begins_after & (joined.total % 2 == 1))[last]
    place = (joined.earlier + joined.size)[last] - 1 - skipped
    waits = (later > 0) & (place >= 0) & (place % 2 == 0)
    crosses = np.flatnonzero((earlier > 0) | (later > 0))
    rows = joined.rows.take(pa.array(crosses)).combine_chunks()
    # the other half is the first change of the next row
    others = joined.rows.take(pa.array(crosses + 1, mask=~waits[crosses])).combine_chunks()
    transaction, split, position, undone = (
        one_chunk(others[name]) for name in ("transaction_id", "split", "position", "undone")
    )
    columns: dict[str, Any] = {
        **{name: one_chunk(rows[name]) for name in ("split", "transaction_id", "schema_name", "table_name")},
        "earlier": earlier[crosses],
        "later": later[crosses],
        "other_split": split,
        **{name: one_chunk(others[name]) for name in ("file_index", "offset")},
        "undone": pc.or_(undone, pc.fill_null(pc.less_equal(undo.after(transaction, split), position), False)),
    }
    return _batch(columns, PATCHED_RUNS).sort_by("split")


class _Undo:
    """The undo records of sections, which are in the order of splits."""

    def __init__(self, sections: pa.Table) -> None:
        some = sections.filter(pc.is_valid(sections["undo"])).select(["transaction_id", "split", "undo"])
        self._found: dict[str, tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
        for row in reversed(some.to_pylist()):  # with the lowest position in this split and later ones
            splits, lowest = self._found[row["transaction_id"]]
            splits.append(-row["split"])
            lowest.append(min([row["undo"], *lowest[-1:]]))

    def after(self, names: pa.Array, splits: pa.Array) -> pa.Array:
        """The lowest position of the undo records of some transactions in later splits than these; null for none."""
        if not self._found:
            return pa.nulls(len(names), pa.string())
        pairs = zip(names.to_pylist(), splits.to_pylist(), strict=True)
        return pa.array([self._lowest(name, split) for name, split in pairs], pa.string())

    def _lowest(self, name: str | None, split: int | None) -> str | None:
        if name not in self._found or split is None:
            return None
        splits, lowest = self._found[name]
        place = bisect_left(splits, -split)
        return lowest[place - 1] if place else None
