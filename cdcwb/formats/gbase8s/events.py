"""The records of a split as columns of ``events``: their transactions, the table versions in force, and what the
decoder makes of them (docs/formats/gbase8s.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.dissector import Wanted
from cdcwb.formats.gbase8s.decode import SCHEMA_RECORD, Headers, Tables, columns_of, counts_of, read_headers
from cdcwb.formats.gbase8s.layout import RECORD_TYPES
from cdcwb.formats.gbase8s.plan import KIND_OF, Shared, State, Version
from cdcwb.formats.gbase8s.schema import NO_COUNTS, TableSchema, schema_text, table_schema
from cdcwb.formats.records import Bools, Ints, Reader, Segments
from cdcwb.formats.transactions import Found, assign
from cdcwb.model import Kind

__all__ = ["RecordReader", "Records", "Versions"]

_KINDS: Final = {0: Kind.CONTROL, **{number: kind.kind for number, kind in RECORD_TYPES.items()}}
_TIMED: Final = (1, 2)
_TRUNCATE: Final = 119


@dataclass(slots=True)
class Records:
    """Some records of a split. ``names``: of transactions; ``transaction``: index of each record's, -1: none;
    ``version``: the number of its table version, 0: none."""

    headers: Headers
    names: list[str]
    transaction: Ints
    version: Ints


class RecordReader(Reader):
    """Reads the records of a split; versions in force and open transactions are carried on."""

    def __init__(self, shared: Shared, state: State) -> None:
        self.settings = shared.settings
        self.versions = Versions(shared, state.in_force)
        self._open = dict(state.border.open_before)

    def advance(self, segments: Segments, records: Ints) -> Records:
        """Some records that follow those before."""
        headers = read_headers(segments.buffer, segments.start[records], segments.end[records])
        of = headers.transactional
        found = Found.among(KIND_OF[headers.number[of]], headers.transaction[of])
        names = assign(found, headers.sequence[of], self._open)
        transaction = np.full(len(records), -1, dtype=np.int64)
        transaction[of] = found.index
        return Records(headers, names, transaction, self.versions.of_records(headers))

    def matching(self, records: Records, wanted: Wanted) -> Bools:
        """The records that match the filters."""
        headers = records.headers
        keep = np.ones(len(headers.start), dtype=bool)
        if wanted.timed:
            keep &= np.isin(headers.number, _TIMED)
        if wanted.kinds is not None:
            keep &= np.isin(headers.number, [number for number, kind in _KINDS.items() if kind in wanted.kinds])
        if wanted.transactions is not None:
            keep &= np.array([*(name in wanted.transactions for name in records.names), False])[records.transaction]
        if wanted.tables is not None:
            labels, index = distinct(headers.label)
            named = [bool(wanted.tables & self.versions.table_names(label)) for label in labels.tolist()]
            keep &= np.array(named, dtype=bool)[index]
        return keep

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """See :meth:`cdcwb.formats.records.Reader.columns`."""
        found = self.advance(segments, records)
        keep = np.flatnonzero(self.matching(found, wanted))
        headers, version, transaction = found.headers.take(keep), found.version[keep], found.transaction[keep]
        labelled = headers.row | np.isin(headers.number, (_TRUNCATE, SCHEMA_RECORD))
        names = self.versions.name_arrays(headers.label, version, labelled)
        return records[keep], {
            "transaction_id": pa.array(found.names, pa.string()).take(pa.array(transaction, mask=transaction < 0)),
            **dict(zip(("schema_name", "table_name", "table_version"), names, strict=True)),
            **columns_of(
                headers, *self.schemas(headers, version), self.settings,
                images=wanted.images, header_map=wanted.needs("headers"), find_problems=wanted.needs("problems"),
            ),
        }  # fmt: skip

    def schemas(self, headers: Headers, version: Ints) -> tuple[Tables, Ints]:
        """The table schemas in force at some records, and the index of each record's schema; -1: none."""
        rows = np.flatnonzero(headers.row)
        versions, table = self.versions.tables(headers.label[rows], version[rows])
        schemas = [self.versions.schema(*v) for v in versions]
        known = np.array([schema is not None for schema in schemas], dtype=bool)
        place_of = np.where(known, np.cumsum(known) - 1, -1)
        out = np.full(len(headers.start), -1, dtype=np.int64)
        out[rows] = place_of[table]
        return Tables([schema for schema in schemas if schema is not None]), out


# --- table versions ---------------------------------------------------------------------------------------------------


class Versions:
    """The table versions of a capture, and the number in force for each label during reading (§5)."""

    def __init__(self, shared: Shared, in_force: Mapping[int, int]) -> None:
        self._charset, self._labels, self._in_force = shared.settings.charset, shared.labels, dict(in_force)
        self._base = 1 + max((version.number for version in shared.versions), default=0)
        self._versions = {(version.label, version.number): version for version in shared.versions}
        self._schemas: dict[tuple[int, int], TableSchema] = {}
        self._by_text: dict[tuple[int, str], list[Version]] = {}
        for version in shared.versions:
            self._by_text.setdefault((version.label, version.text), []).append(version)

    def schema(self, label: int, number: int) -> TableSchema | None:
        """The version with a number, or None. Its text is parsed on first use, since a split may need few."""
        key = (label, number)
        if key not in self._schemas and key in self._versions:
            known = self._versions[key]
            self._schemas[key] = table_schema(*key, known.text, known.counts, known.origin)
        return self._schemas.get(key)

    def names(self, label: int) -> tuple[str | None, str]:
        """Schema and table name of a label; without a map the label's number is the table name."""
        return self._labels.get(label, (None, str(label)))

    def table_names(self, label: int) -> frozenset[str]:
        """The names of a label's table in filters."""
        schema, table = self.names(label)
        return frozenset([table] if schema is None else [table, f"{schema}.{table}"])

    def of_records(self, headers: Headers) -> Ints:
        """The number of the version in force at each row, TRUNCATE and TABSCHEM record; 0 for none."""
        out = np.zeros(len(headers.start), dtype=np.int64)
        opened: dict[int, tuple[list[int], list[int]]] = {}
        for record in np.flatnonzero(headers.number == SCHEMA_RECORD).tolist():
            label = int(headers.label[record])
            text, counts = schema_text(headers.payload(record), self._charset), counts_of(headers, record)
            same = (v.number for v in self._by_text.get((label, text), ()) if v.counts in (counts, NO_COUNTS))
            out[record] = next(same, 0)
            places, numbers = opened.setdefault(label, ([-1], [self._in_force.get(label, 0)]))
            places.append(record)
            numbers.append(int(out[record]))
        uses = np.flatnonzero(headers.row | (headers.number == _TRUNCATE))
        labels, index = distinct(headers.label[uses])
        for at, table_label in enumerate(labels.tolist()):
            some = uses[index == at]
            places, numbers = opened.get(table_label, ([-1], [self._in_force.get(table_label, 0)]))
            out[some] = np.array(numbers)[np.searchsorted(np.array(places), some, side="right") - 1]
        self._in_force |= {label: numbers[-1] for label, (_, numbers) in opened.items()}
        return out

    def tables(self, label: Ints, version: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """The distinct (label, version) of many records, and the index of each record's own."""
        keys, index = distinct(label * self._base + version)
        return [divmod(key, self._base) for key in keys.tolist()], index

    def name_arrays(self, label: Ints, version: Ints, labelled: Bools) -> list[pa.Array]:
        """Schema name, table name and table version of many records; null if ``labelled`` is false."""
        tables, table = self.tables(label, version)
        texts = [
            (*self.names(table_label), f"{table_label}@{number}" if number else None) for table_label, number in tables
        ]
        index = pa.array(table, mask=~labelled)
        return [pa.array([t[at] for t in texts], pa.string()).take(index) for at in range(3)]


_CLOSE: Final = 1 << 16


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and the index of each of ``values``. Record numbers, labels and file indices are
    dense, so counting them is several times as fast as sorting.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _CLOSE:
        different, index = np.unique(values, return_inverse=True)
        return different, index
    from_low = values - low
    different = np.flatnonzero(np.bincount(from_low))
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[different] = np.arange(len(different))
    return low + different, places[from_low]
