"""The current content of the tables, from files or Arrow tables, for query-back rows (docs/formats/idm-event-log.md
§3.2, §4.5).
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.delimited import as_bytes
from cdcwb.formats.containers.rows import is_binary, plain, text_rows, texts_of
from cdcwb.formats.containers.table_probe import probe_file
from cdcwb.formats.containers.tables import read_parts
from cdcwb.formats.idm_event_log.decode import parse_column, xml_unfit
from cdcwb.formats.source import fetched, is_left_out
from cdcwb.model import Kind
from cdcwb.xds.rows import CURRENT, Bools, Ints, State, coded, flags, numbers, single_array
from cdcwb.xds.settings import split_table


def read_table(path: str, null_text: str | None, charset: str) -> pa.Table:
    """A file, or the concatenated files of a folder. Parquet keeps its types, other files are text. Columns that a file
    lacks are null there. Raises CaptureError."""
    folder = fetched(path)
    files = [folder]
    if folder.is_dir():
        files = sorted(file for file in folder.iterdir() if file.is_file() and not is_left_out(file.name))
        if not files:
            raise CaptureError("expected files of a table, found an empty folder", path=path)
    tables = [_read_file(str(file), null_text, charset) for file in files]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowInvalid as reason:
        raise CaptureError(f"the files of the folder do not go together: {reason}", path=path) from None


def _read_file(path: str, null_text: str | None, charset: str) -> pa.Table:
    given = {} if null_text is None else {"null": as_bytes(null_text, charset)}
    probe = probe_file(path, dialect_options=given, charset=charset, header=True)
    if probe.kind == "broken":
        raise CaptureError(probe.problem or "expected rows of a table", path=path)
    if probe.kind == "parquet":
        try:
            table = pq.read_table(path)
            table.validate(full=True)
            return table
        except (pa.ArrowException, OSError) as reason:
            raise CaptureError(f"Parquet that cannot be read: {reason}", path=path) from None
    parts = list(read_parts(probe))
    for part in parts:
        for gap in part.gaps:
            if gap.kind == Kind.MALFORMED:
                raise CaptureError(gap.reason, path=path, offset=int(part.offset[gap.index]))
    names = dict.fromkeys(probe.names or ())
    for part in parts:
        for _, group in part.rows:
            names.update(dict.fromkeys(group.names))
            for place in range(len(group.names)):
                for row in group.garbled(place)[:1]:
                    offset = int(group.offset[row])
                    raise CaptureError(f"text that is not in the character set {charset}", path=path, offset=offset)
    texts = [rows for part in parts if (rows := text_rows(part, tuple(names))) is not None]
    return pa.Table.from_batches(texts, pa.schema([(name, pa.string()) for name in names]))


_META: Final = re.compile("^(?:pk_|fk_|sv_|mv_)(?=.)")


def effective(name: str) -> str:
    """The name of a column in lower case, without the meta-identifier that may precede it in a view."""
    return _META.sub("", name.lower())


@dataclass(frozen=True, slots=True)
class TableNow:
    """Columns by index. ``texts``: bytes as Base64; ``binary`` and ``numeric``: the columns of bytes and of numbers."""

    name: str
    names: tuple[str, ...]
    texts: tuple[pa.StringArray, ...]
    binary: frozenset[int]
    numeric: frozenset[int]
    _unfit: dict[int, Bools] = field(default_factory=dict, repr=False)
    _numbers: dict[int, pa.StringArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, table: pa.Table) -> TableNow:
        """A table under its name in the event log. Raises CaptureError for column names that repeat."""
        names = tuple(table.column_names)
        if len(set(names)) < len(names) or not all(names):
            joined = ", ".join(names)
            raise CaptureError(f"snapshot of table {name!r}: expected columns with a name each, found {joined}")
        columns = [plain(column) for column in table.columns]
        kinds = [column.type for column in columns]
        return cls(
            name,
            names,
            tuple(_base64(column) if is_binary(column.type) else texts_of(column) for column in columns),
            frozenset(index for index, kind in enumerate(kinds) if is_binary(kind)),
            frozenset(index for index, kind in enumerate(kinds) if _is_number(kind)),
        )

    def column(self, name: str) -> int | None:
        """The index of a column: by its name as written, else ignoring case, else by its effective name."""
        for spell in (str, str.lower, effective):
            wanted = spell(name)
            for index, own in enumerate(self.names):
                if spell(own) == wanted:
                    return index
        return None

    def rows_of(self, key: Sequence[int], values: Sequence[pa.StringArray]) -> Ints:
        """The number of the first row of each key; -1: none. ``key`` are the indexes of the key's columns, ``values``
        the values of each. Numbers are compared as numbers; texts exactly, or else without surrounding blanks if that
        matches one row only.
        """
        here = [self._keys(column) for column in key]
        asked = [_as_number(v) if column in self.numeric else v for column, v in zip(key, values, strict=True)]
        rows, _ = _matched(here, asked)
        missed = np.flatnonzero(rows < 0)
        if len(missed) and any(column not in self.numeric for column in key):
            trimmed = [pc.utf8_trim_whitespace(v.take(pa.array(missed))) for v in asked]
            again, alone = _matched([pc.utf8_trim_whitespace(v) for v in here], trimmed)
            rows[missed] = np.where(alone, again, -1)
        return rows

    def _keys(self, index: int) -> pa.StringArray:
        if index not in self.numeric:
            return self.texts[index]
        if index not in self._numbers:
            self._numbers[index] = _as_number(self.texts[index])
        return self._numbers[index]

    def unfit(self, index: int) -> Bools:
        """The rows whose value in this column XML 1.0 does not allow; all rows if that applies to the column's name."""
        if index not in self._unfit:
            bad = xml_unfit(self.texts[index])
            self._unfit[index] = bad | bool(xml_unfit(pa.array([self.names[index]]))[0])
        return self._unfit[index]

    def attributes(self, key_names: Sequence[str]) -> list[int]:
        """The indexes of the columns that are not in this key."""
        keys = {effective(name) for name in key_names}
        return [index for index, name in enumerate(self.names) if effective(name) not in keys]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _base64(column: pa.Array) -> pa.StringArray:
    written = [None if v is None else binascii.b2a_base64(v, newline=False).decode() for v in column.to_pylist()]
    return pa.array(written, pa.string())


def _as_number(texts: pa.StringArray) -> pa.StringArray:
    """Equal numbers as equal texts: ``007``, ``+7``, `` 7`` and ``7.00`` are ``7``."""
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+?(-?)0*(\d)", r"\1\2")
    texts = pc.replace_substring_regex(texts, r"^(-?\d*\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(texts, r"^(-?\d+)\.$", r"\1")


def _matched(here: Sequence[pa.StringArray], asked: Sequence[pa.StringArray]) -> tuple[Ints, Bools]:
    """For each requested key the first row with all its values (-1: none), and whether it is the only one."""
    own, wanted = (_key_texts(columns) for columns in (here, asked))
    counts = own.value_counts()
    unique = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    return numbers(pc.index_in(wanted, own, skip_nulls=True), -1), flags(pc.is_in(wanted, unique, skip_nulls=True))


def _key_texts(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """A text for the values of each row that no other values have; null if one of them is null."""
    escaped = [pc.replace_substring(pc.replace_substring(c, "\1", "\1\1"), "\0", "\1\2") for c in columns]
    return pc.binary_join_element_wise(*escaped, "\0")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Tables by their names in the event log, with or without schema. It can be pickled."""

    tables: Mapping[str, TableNow]

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Snapshot:
        """A snapshot of Arrow tables of any types: bytes become Base64, other values text without loss."""
        return cls({name: TableNow.of(name, table) for name, table in tables.items()})

    @classmethod
    def read(cls, files: Mapping[str, str | Path], *, null_text: str | None = None, charset: str = "utf-8") -> Snapshot:
        """A snapshot of files, or folders of files: delimited text with a header line, JSON, Parquet or Excel.

        ``null_text``: NULL in delimited text (None: an empty field without quotes). Raises CaptureError for a file that
        cannot be read, or that has a damaged row.
        """
        return cls.of({name: read_table(str(path), null_text, charset) for name, path in files.items()})

    @property
    def binary(self) -> frozenset[str]:
        """``table.column``, in lower case, of the columns of bytes."""
        return frozenset(
            f"{split_table(name)[1]}.{table.names[index]}".lower()
            for name, table in self.tables.items()
            for index in table.binary
        )

    def find(self, table_name: str) -> TableNow | None:
        """The table of a name: as written, else ignoring case, else by the part after the last dot if one of the two
        has no schema. None: no table, or several."""
        if table_name in self.tables:
            return self.tables[table_name]
        lower = table_name.lower()
        matches = [table for name, table in self.tables.items() if name.lower() == lower]
        if not matches:
            schema, bare = split_table(lower)
            parted = [(split_table(name.lower()), table) for name, table in self.tables.items()]
            matches = [table for (owner, name), table in parted if name == bare and (schema is None or owner is None)]
        return matches[0] if len(matches) == 1 else None

    def states(self, rows: pa.Table) -> Ints:
        """A value of :class:`~cdcwb.xds.rows.State` for each of some query-back rows, which have the columns type,
        table_name, table_key and column_name."""
        state = np.full(rows.num_rows, State.UNKNOWN, dtype=np.int64)
        for some in self._objects(rows):
            state[some.rows] = _states(some)
        return state

    def current(self, rows: pa.Table) -> pa.ListArray:
        """The current columns of each of these rows, as :data:`cdcwb.xds.rows.CURRENT`; empty: nothing."""
        at: list[Ints] = [np.zeros(0, dtype=np.int64)]
        names: list[pa.Array] = [pa.array([], pa.string())]
        values: list[pa.Array] = [pa.array([], pa.string())]
        for some in self._objects(rows):
            for members, index, name in _written(some):
                present = members[some.places[members] >= 0]
                at.append(some.rows[present])
                names.append(pa.repeat(pa.scalar(name), len(present)))
                values.append(some.table.texts[index].take(pa.array(some.places[present])))
        entry = np.concatenate(at)
        order = pa.array(np.argsort(entry, kind="stable"))
        offsets = np.zeros(rows.num_rows + 1, dtype=np.int32)
        np.cumsum(np.bincount(entry, minlength=rows.num_rows), out=offsets[1:])
        pairs = pa.StructArray.from_arrays(
            [pa.concat_arrays(names).take(order), pa.concat_arrays(values).take(order)], fields=list(CURRENT.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(offsets), pairs)

    def _objects(self, rows: pa.Table) -> Iterator[_Objects]:
        """The rows whose table is in the snapshot, grouped by table and by the columns of their key."""
        table_code, table_names = coded(rows["table_name"])
        kind = numbers(rows["type"])
        for code, table_name in enumerate(table_names.to_pylist()):
            table = self.find(table_name)
            if table is None:
                continue
            here = np.flatnonzero(table_code == code)
            key_code, keys = coded(rows["table_key"].take(pa.array(here)))
            columns = single_array(rows["column_name"].take(pa.array(here)))
            for names, which, values in _by_columns(keys):
                key = [table.column(name) for name in names]
                known = [index for index in key if index is not None]
                places, keyed = np.full(len(keys), -1, dtype=np.int64), len(known) == len(key)
                if keyed:
                    places[which] = table.rows_of(known, values)
                member = np.zeros(len(keys), dtype=np.bool_)
                member[which] = True
                chosen = np.flatnonzero((key_code >= 0) & member[key_code])
                members, at, column = here[chosen], places[key_code[chosen]], columns.take(pa.array(chosen))
                yield _Objects(table, names, keyed, members, at, kind[members] <= 6, column)


@dataclass(frozen=True, slots=True)
class _Objects:
    """Query-back rows of one table and one set of key columns. ``keyed``: the table has these columns; ``places``: the
    row in the table, or -1; ``whole_row``: type 5 or 6, which requests all ``column``s, not one."""

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
    """Keys grouped by their columns: the names of these, the numbers of the keys, and the values of each column. Keys
    with invalid syntax are left out."""
    pairs = parse_column(keys).pairs
    offsets = np.asarray(pairs.offsets.to_numpy(), dtype=np.int64)
    name_code, names = coded(pairs.keys)
    counts = np.diff(offsets)
    counts[pairs.is_null().to_numpy(zero_copy_only=False)] = 0
    for count in np.unique(counts[counts > 0]).tolist():
        which = np.flatnonzero(counts == count)
        entries = offsets[which][:, np.newaxis] + np.arange(count)
        patterns, pattern = np.unique(name_code[entries], axis=0, return_inverse=True)
        for number, codes_of_names in enumerate(patterns):
            chosen = np.flatnonzero(pattern.reshape(-1) == number)
            values = [pairs.items.take(pa.array(entries[chosen, index])) for index in range(count)]
            yield tuple(names[int(code)].as_py() for code in codes_of_names), which[chosen], values


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
    present = some.places >= 0
    for members, index, _ in _written(some):
        members = members[present[members]]
        state[members[some.table.unfit(index)[places[members]]]] = State.CHARACTER
    state[~present] = State.ABSENT
    return state


def _columns(some: _Objects) -> Iterator[tuple[str, Ints]]:
    """The columns that rows about one column request, and the rows of each."""
    code, names = coded(some.column)
    code = np.where(some.whole_row, -1, code)
    for number, name in enumerate(names.to_pylist()):
        members = np.flatnonzero(code == number)
        if len(members):
            yield name, members


def _written(some: _Objects) -> Iterator[tuple[Ints, int, str]]:
    """The attributes of rows, by column in order: the rows, the column's index, and the attribute's name."""
    if not some.keyed:
        return
    table = some.table
    rows = np.flatnonzero(some.whole_row)
    if len(rows):
        for index in table.attributes(some.key):
            yield rows, index, table.names[index]
    keys = {effective(name) for name in some.key}
    for name, members in _columns(some):
        asked = table.column(name)
        if asked is not None and effective(name) not in keys:
            yield members, asked, name
