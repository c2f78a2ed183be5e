"""The tables as they are now: what query-back rows ask for (docs/formats/idm-event-log.md §3.2, §4.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from cdcwb.formats.idm_event_log.decode.keys import parse_column
from cdcwb.xds.rows import CURRENT, State
from cdcwb.xds.settings import split_table
from cdcwb.xds.snapshot_files import read_table
from cdcwb.xds.snapshot_table import TableNow, effective
from cdcwb.xds.vectors import Bools, Ints, coded, numbers, whole

__all__ = ["Snapshot", "with_snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Tables by the names that the event log gives them, with or without schema. It pickles."""

    tables: Mapping[str, TableNow]

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Snapshot:
        """A snapshot of Arrow tables, of any types: bytes become Base64, all else text that loses nothing."""
        return cls({name: TableNow.of(name, table) for name, table in tables.items()})

    @classmethod
    def read(cls, files: Mapping[str, str | Path], *, null_text: str | None = None, charset: str = "utf-8") -> Snapshot:
        """A snapshot of files, or folders of files: delimited text with a header line, JSON, Parquet or Excel.

        ``null_text``: how delimited text spells NULL (None: an empty field without quotes). Raises CaptureError for a
        file that cannot be read, or that has a damaged row.
        """
        return cls.of({name: read_table(str(path), null_text, charset) for name, path in files.items()})

    @property
    def binary(self) -> frozenset[str]:
        """``table.column``, in lower case, of the columns that hold bytes."""
        return frozenset(
            f"{split_table(name)[1]}.{table.names[place]}".lower()
            for name, table in self.tables.items()
            for place in table.binary
        )

    def find(self, table_name: str) -> TableNow | None:
        """The table of that name: as written, else without regard to case, else where one of them has no schema, by
        the name behind the last dot. None: there is none, or there are several."""
        if table_name in self.tables:
            return self.tables[table_name]
        lower = table_name.lower()
        found = [table for name, table in self.tables.items() if name.lower() == lower]
        if not found:
            schema, bare = split_table(lower)
            parted = [(split_table(name.lower()), table) for name, table in self.tables.items()]
            found = [table for (owner, name), table in parted if name == bare and (schema is None or owner is None)]
        return found[0] if len(found) == 1 else None

    def states(self, rows: pa.Table) -> Ints:
        """A value of :class:`~cdcwb.xds.rows.State` for each of some query-back rows, which have the columns type,
        table_name, table_key and column_name."""
        state = np.full(rows.num_rows, State.UNKNOWN, dtype=np.int64)
        for some in self._objects(rows):
            state[some.rows] = _states(some)
        return state

    def current(self, rows: pa.Table) -> pa.ListArray:
        """What the tables hold of each of these rows, as :data:`cdcwb.xds.rows.CURRENT`; empty: nothing."""
        at: list[Ints] = [np.zeros(0, dtype=np.int64)]
        names: list[pa.Array] = [pa.array([], pa.string())]
        values: list[pa.Array] = [pa.array([], pa.string())]
        for some in self._objects(rows):
            for members, place, name in _written(some):
                there = members[some.places[members] >= 0]
                at.append(some.rows[there])
                names.append(pa.repeat(pa.scalar(name), len(there)))
                values.append(some.table.texts[place].take(pa.array(some.places[there])))
        entry = np.concatenate(at)
        order = pa.array(np.argsort(entry, kind="stable"))
        offsets = np.zeros(rows.num_rows + 1, dtype=np.int32)
        np.cumsum(np.bincount(entry, minlength=rows.num_rows), out=offsets[1:])
        pairs = pa.StructArray.from_arrays(
            [pa.concat_arrays(names).take(order), pa.concat_arrays(values).take(order)],
            fields=list(CURRENT.value_type),
        )
        return pa.ListArray.from_arrays(pa.array(offsets), pairs)

    def _objects(self, rows: pa.Table) -> Iterator[_Objects]:
        """The rows whose table is there, parted by table and by the columns of their key."""
        table_code, table_names = coded(rows["table_name"])
        kind = numbers(rows["type"])
        for code, table_name in enumerate(table_names.to_pylist()):
            table = self.find(table_name)
            if table is None:
                continue
            here = np.flatnonzero(table_code == code)
            key_code, keys = coded(rows["table_key"].take(pa.array(here)))
            columns = whole(rows["column_name"].take(pa.array(here)))
            for names, which, values in _by_columns(keys):
                key = [table.column(name) for name in names]
                known = [place for place in key if place is not None]
                places = np.full(len(keys), -1, dtype=np.int64)
                if len(known) == len(key):
                    places[which] = table.rows_of(known, values)
                member = np.zeros(len(keys), dtype=np.bool_)
                member[which] = True
                chosen = np.flatnonzero((key_code >= 0) & member[key_code])
                yield _Objects(
                    table,
                    names,
                    len(known) == len(key),
                    here[chosen],
                    places[key_code[chosen]],
                    kind[here[chosen]] <= 6,
                    columns.take(pa.array(chosen)),
                )


@dataclass(frozen=True, slots=True)
class _Objects:
    """Query-back rows of one table and one set of key columns. ``keyed``: the table has these columns; ``places``: the
    row in the table, or -1; ``whole_row``: type 5 or 6, which asks for all ``column``s and not for one."""

    table: TableNow
    key: tuple[str, ...]
    keyed: bool
    rows: Ints
    places: Ints
    whole_row: Bools
    column: pa.StringArray


def with_snapshot(rows: pa.Table, snapshot: Snapshot | None) -> pa.Table:
    """Adds the column of :data:`cdcwb.xds.rows.STATE`. ``rows`` have those of OWN and of the log, in any order."""
    kind = numbers(rows["type"])
    asks = np.flatnonzero(kind >= 5)
    state = np.full(rows.num_rows, State.UNKNOWN, dtype=np.int8)
    if snapshot is not None and len(asks):
        names = ["type", "table_name", "table_key", "column_name"]
        state[asks] = snapshot.states(rows.select(names).take(pa.array(asks)))
    return rows.append_column("state", pa.array(state, mask=kind < 5))


def _by_columns(keys: pa.StringArray) -> Iterator[tuple[tuple[str, ...], Ints, list[pa.StringArray]]]:
    """Keys parted by their columns: the names of these, which keys, and the values of each column. Keys that break the
    grammar are left out."""
    pairs = parse_column(keys).pairs
    offsets = np.asarray(pairs.offsets.to_numpy(), dtype=np.int64)
    name_code, names = coded(pairs.keys)
    counts = np.diff(offsets)
    counts[pairs.is_null().to_numpy(zero_copy_only=False)] = 0
    for count in np.unique(counts[counts > 0]).tolist():
        which = np.flatnonzero(counts == count)
        entries = offsets[which][:, np.newaxis] + np.arange(count)
        patterns, pattern = np.unique(name_code[entries], axis=0, return_inverse=True)
        for number, one in enumerate(patterns):
            chosen = np.flatnonzero(pattern.reshape(-1) == number)
            values = [pairs.items.take(pa.array(entries[chosen, place])) for place in range(count)]
            yield tuple(names[int(code)].as_py() for code in one), which[chosen], values


def _states(some: _Objects) -> Ints:
    if not some.keyed:
        return np.full(len(some.rows), State.NO_KEY, dtype=np.int64)
    state = np.full(len(some.rows), State.THERE, dtype=np.int64)
    places = np.maximum(some.places, 0)
    attributes = some.table.attributes(some.key)
    if not attributes:
        state[some.whole_row] = State.NO_ATTRIBUTE
    state[~some.whole_row] = State.NO_COLUMN
    keys = {effective(name) for name in some.key}
    for name, members in _columns(some):
        if effective(name) in keys:
            state[members] = State.NO_ATTRIBUTE
        elif some.table.column(name) is not None:
            state[members] = State.THERE
    there = some.places >= 0
    for members, place, _ in _written(some):
        members = members[there[members]]
        state[members[some.table.unfit(place)[places[members]]]] = State.CHARACTER
    state[~there] = State.ABSENT
    return state


def _columns(some: _Objects) -> Iterator[tuple[str, Ints]]:
    """The columns that rows of one column ask for, and the rows of each."""
    code, names = coded(some.column)
    code = np.where(some.whole_row, -1, code)
    for number, name in enumerate(names.to_pylist()):
        members = np.flatnonzero(code == number)
        if len(members):
            yield name, members


def _written(some: _Objects) -> Iterator[tuple[Ints, int, str]]:
    """What rows write, column by column in order: which rows, the column's place, and the attribute's name."""
    if not some.keyed:
        return
    table = some.table
    rows = np.flatnonzero(some.whole_row)
    if len(rows):
        for place in table.attributes(some.key):
            yield rows, place, table.names[place]
    keys = {effective(name) for name in some.key}
    for name, members in _columns(some):
        asked = table.column(name)
        if asked is not None and effective(name) not in keys:
            yield members, asked, name
