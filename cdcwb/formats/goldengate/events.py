"""``events`` from Logdump text: the records of a split as Arrow batches, with every printed header field, tokens, and
the assigned transaction (docs/formats/goldengate.md §9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import EventBatch, from_matrix, slices
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.goldengate.assignment import KINDS, OPERATIONS, Assigned, Behind, assign, names_of
from cdcwb.formats.goldengate.decode import (
    HEADER,
    MISSING,
    Bools,
    Bytes,
    Ints,
    Printed,
    Shape,
    ddl_items,
    file_header,
    items_of,
    statement,
)
from cdcwb.formats.goldengate.decode.definitions import Definition, Reference, parse_metadata
from cdcwb.formats.goldengate.layout import CHARACTERS, IO_TYPES, shown, token_name
from cdcwb.formats.goldengate.plan import FileEntry, Part, Plan
from cdcwb.formats.goldengate.plan.trails import Lookup
from cdcwb.formats.goldengate.plan.transactions import DDL, METADATA, spans, texts_of
from cdcwb.formats.goldengate.table import Bodies
from cdcwb.formats.requests import select
from cdcwb.model import Kind, OffsetUnit, Operation
from cdcwb.words import unique_names

__all__ = ["FORMAT", "part_readers", "read_split"]


_TEXTS: Final = (
    "IO Time",
    "Operation",
    "Len",
    "RBA",
    "Name",
    "Trail",
    "LOGCSN",
    "TRANID",
    "ORAROWID",
    "csn",
    "xid",
    "continues",
)
_NAMES: Final = (*HEADER, *_TEXTS)
_TOKENS: Final = {0x4C: "csn_at", 0x36: "xid_at", 0x52: "rowid_at"}
_CODES: Final = 256
_BYTES: Final = 1 << 30  # of the text of one batch

_Put = Callable[[int, Bools, Ints], None]


@cache
def _characters(name: str) -> pa.Array:
    return pa.array([shown(name, code) for code in range(_CODES)], pa.string())


def fill_headers(batch: EventBatch, given: Assigned, rows: Ints, charset: str) -> None:
    """Fills the headers of a batch, whose records are ``rows`` of the part."""
    records, marks, pool = given.records, given.marks, batch.pool
    told = records.shape[rows] <= Shape.FILE_HEADER
    count = len(rows)
    places = np.zeros((count, len(_NAMES)), dtype=np.int32)
    absent = np.ones((count, len(_NAMES)), dtype=np.bool_)

    def put(at: int, there: Bools, where: Ints) -> None:
        absent[:, at] = ~there
        places[:, at] = where

    values = records.values[rows]
    for at, name in enumerate(HEADER):
        value = values[:, at]
        if name == "TransInd":
            value = np.where(value == MISSING, records.image_trans[rows], value)
        if name == "BeforeAfter":
            value = records.side[rows]
        there = value != MISSING
        if not there.any():
            continue
        filled = np.where(there, value, 0)
        if name in CHARACTERS and int(filled.max()) < _CODES and int(filled.min()) >= 0:
            put(at, there, pool.add(_characters(name))[0] + filled)
        else:
            put(at, there, pool.add_integers(filled))
    first = len(HEADER)
    times = _printed_times(given, rows, texts_of(spans(records.text, records.time_at[rows]), charset))
    for at, texts in enumerate((times, texts_of(spans(records.text, records.operation_at[rows]), charset))):
        put(first + at, _valid(texts), pool.add(texts))
    for at, value in ((2, records.length[rows]), (3, records.rba[rows])):
        there = value != MISSING
        put(first + at, there, pool.add_integers(np.where(there, value, 0)))
    _coded(put, first + 4, pool.add(pa.array(marks.names, pa.string())), marks.printed[rows])
    trails = pa.array([one.name for one in given.files], pa.string())
    codes = given.file[rows]
    named = np.append(_valid(trails), False)[codes]
    _coded(put, first + 5, pool.add(trails), np.where(named, codes, -1))
    for at, where in ((6, records.csn_at), (7, records.xid_at), (8, records.rowid_at)):
        texts = _until_zero(texts_of(spans(records.bytes, where[rows]), charset))
        there = _valid(texts)
        if where is records.xid_at:
            there = there & ~np.isin(rows, _transaction_lines(given))
        put(first + at, there, pool.add(texts))
    for at, of in ((9, [one.csn for one in given.named]), (10, [one.xid for one in given.named])):
        texts = pa.array(of, pa.string())
        codes = given.transaction[rows]
        known = np.append(_valid(texts), False)[codes]
        _coded(put, first + at, pool.add(texts), np.where(known, codes, -1))
    _coded(put, first + 11, pool.add(pa.array(given.places, pa.string())), given.continues[rows])
    _group(batch, given, rows, np.flatnonzero(told), places, absent, charset)


def _printed_times(given: Assigned, rows: Ints, texts: pa.Array) -> pa.Array:
    """Printed times: that of the header block if it differs from the record line."""
    extras = given.records.extras
    other = {
        at: printed.io_time
        for at in np.flatnonzero(np.isin(rows, np.array(sorted(extras), dtype=np.int64))).tolist()
        if (printed := extras[int(rows[at])]).io_time is not None and printed.io_time != printed.line_time
    }
    if not other:
        return texts
    return pa.array([other.get(at, text) for at, text in enumerate(texts.to_pylist())], pa.string())


def _coded(put: _Put, at: int, first: Ints, codes: Ints) -> None:
    """Texts by their number in records, -1 for none."""
    base = int(first[0]) if len(first) else 0
    put(at, codes >= 0, base + np.maximum(codes, 0))


def _valid(texts: pa.Array) -> Bools:
    there: Bools = texts.is_valid().to_numpy(zero_copy_only=False)
    return there


def _until_zero(texts: pa.Array) -> pa.Array:
    """Values of tokens up to a zero byte, without trailing blanks."""
    if pc.any(pc.match_substring(texts, "\0")).as_py():
        texts = pc.replace_substring_regex(texts, r"(?s)\x00.*$", "")
    return pc.ascii_rtrim(texts, " ")


def _group(
    batch: EventBatch,
    given: Assigned,
    rows: Ints,
    told: Ints,
    places: npt.NDArray[np.int32],
    absent: Bools,
    charset: str,
) -> None:
    """Groups records whose maps have the same names."""
    if not len(told):
        return
    more = {
        at: pairs
        for at in told[np.isin(rows[told], _odd(given))].tolist()
        if (pairs := _more(given, int(rows[at]), charset))
    }
    packed = np.packbits(absent[told], axis=1)
    keys = np.zeros((len(told), 8), dtype=np.uint8)
    keys[:, : packed.shape[1]] = packed
    patterns, which = np.unique(keys.view(np.uint64).reshape(-1), return_inverse=True)
    which = which.reshape(-1)
    plain = np.ones(len(told), dtype=np.bool_)
    if more:
        plain = ~np.isin(told, np.array(sorted(more)))
    for number in range(len(patterns)):
        chosen = told[(which == number) & plain]
        if len(chosen):
            there = np.flatnonzero(~absent[chosen[0]])
            batch.entries("headers", [_NAMES[one] for one in there], places[np.ix_(chosen, there)], chosen, None)
    grouped: dict[tuple[str, ...], list[int]] = {}
    for at, pairs in more.items():
        there = np.flatnonzero(~absent[at])
        named = unique_names([*(_NAMES[one] for one in there), *(name for name, _ in pairs)])
        grouped.setdefault(named, []).append(at)
    for names, members in grouped.items():
        chosen = np.array(members)
        there = np.flatnonzero(~absent[members[0]])
        columns = [places[np.ix_(chosen, there)]]
        for column in range(len(more[members[0]])):
            texts = pa.array([more[at][column][1] for at in members], pa.string())
            columns.append(batch.pool.add(texts)[:, None])
        batch.entries("headers", names, np.concatenate(columns, axis=1), chosen, None)


def _transaction_lines(given: Assigned) -> Ints:
    """Records whose id is that of a line TRANSID, not of a token TRANID."""
    id_of_line = [
        index
        for index, printed in given.records.extras.items()
        if printed.transaction is not None and all(_TOKENS.get(token.id) != "xid_at" for token in printed.tokens)
    ]
    return np.array(id_of_line, dtype=np.int64)


def _odd(given: Assigned) -> Ints:
    """Records that may have more headers than the arrays have."""
    special = np.flatnonzero((given.records.shape == Shape.FILE_HEADER) | (given.marks.io == DDL)).tolist()
    return np.array(sorted({*given.records.extras, *given.heads, *given.syskeys, *special}), dtype=np.int64)


def _more(given: Assigned, index: int, charset: str) -> list[tuple[str, str | None]]:
    """Further printed or inferred facts of a record."""
    out: list[tuple[str, str | None]] = []
    head = given.heads.get(index)
    if head is not None and head.pieces > 1:
        out.append(("fragments", str(head.pieces)))
    if index in given.syskeys:
        out.append(("syskey", given.syskeys[index]))
    printed = given.records.extras.get(index)
    if printed is not None:
        if printed.transaction is not None:
            out.append(("TRANSID", printed.transaction))
        if printed.transaction_number is not None:
            out.append(("TRANSID number", printed.transaction_number))
        out += _tokens(given, index, printed, charset)
        out += printed.user_tokens
    if given.records.shape[index] == Shape.FILE_HEADER:
        out += file_header(given.body(index)).items()
    elif given.marks.io[index] == DDL:
        items = ddl_items(given.body(index), charset)
        said = statement(items)
        out += [] if said is None else [("statement", said)]
        out += items.items()
    return out


def _tokens(given: Assigned, index: int, printed: Printed, charset: str) -> list[tuple[str, str | None]]:
    out: list[tuple[str, str | None]] = []
    seen = {(number, None) for number, name in _TOKENS.items() if getattr(given.records, name)[index, 0] >= 0}
    said: set[tuple[int, bytes]] = set()
    for token in printed.tokens:
        if (token.id, None) in seen or (token.id, token.value) in said:
            seen.discard((token.id, None))
            said.add((token.id, token.value))
            continue
        said.add((token.id, token.value))
        out.append((token_name(token.id, token.name), value_text(token.value, charset)))
    return out


def value_text(value: bytes, charset: str) -> str:
    """A token's value: text if decodable, its zero-terminated parts separated by a blank; else hex."""
    try:
        text = value.rstrip(b"\0").decode(charset)
    except UnicodeDecodeError:
        return value.hex()
    text = text.replace("\0", " ").rstrip(" ")
    return text if text.isprintable() else value.hex()


FORMAT: Final = "goldengate"
CHUNK: Final = 8192
"""Records that become one Arrow batch."""

_IMAGED: Final = np.isin(KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_FILLER: Final = KINDS.index(str(Kind.FILLER))
_DELETE: Final = OPERATIONS.index(str(Operation.DELETE))
_BEFORE: Final = KINDS.index(str(Kind.BEFORE))
_UNKNOWN: Final = len(OPERATIONS)
_TYPES: Final = 256
_TEN: Final = 10 ** np.arange(9, -1, -1, dtype=np.int64)


class Files:
    """The files of a plan, opened when they are first asked for; close it after use."""

    def __init__(self, files: list[FileEntry]) -> None:
        self._files = files
        self._open: dict[int, Source] = {}

    def read(self, file_index: int, start: int, stop: int) -> Bytes:
        """Bytes of a file."""
        if file_index not in self._open:
            self.close()
            entry = self._files[file_index]
            self._open[file_index] = open_source(entry.path, "binary", size=entry.size)
        return self._open[file_index].read(start, stop)

    def close(self) -> None:
        """Releases them."""
        for source in self._open.values():
            source.close()
        self._open.clear()


def read_split(plan: Plan, parts: Sequence[Part], wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of some parts of Logdump text in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    for reader in part_readers(plan, parts, wanted):
        for rows in reader.chunks():
            yield from select(reader.batch(rows), wanted)


def part_readers(plan: Plan, parts: Sequence[Part], wanted: Wanted = EVERYTHING) -> Iterator[PartReader]:
    """A reader for each of some parts."""
    lookup = plan.lookup()
    files = Files(plan.files)
    try:
        for part in parts:
            yield PartReader(plan, part, lookup, files, wanted)
    finally:
        files.close()


class PartReader:
    """Reads one part: the facts of its records, and batches of any of them."""

    def __init__(self, plan: Plan, part: Part, lookup: Lookup, files: Files, wanted: Wanted) -> None:
        self.plan = plan
        self.part = part
        self.file = plan.files[part.file]
        self.lookup = lookup
        self.wanted = wanted
        self.charset = plan.settings.charset
        text = files.read(part.file, part.start, part.stop)
        beyond = files if not any(one.follows for one in part.stretches) else Files(plan.files)
        try:
            behind = Behind(beyond.read, self.charset, wanted.images)
            self.given: Assigned = assign(text, part, self.file, plan.settings, lookup, behind, wanted.images)
        finally:
            if beyond is not files:
                beyond.close()
        self.names = [*names_of(self.given.marks), (None, None)]
        if wanted.images:
            self.bodies = Bodies(self.given, self.file, plan, self.charset)

    def chunks(self) -> Iterator[Ints]:
        """The requested records, a limited number at a time."""
        rows = np.flatnonzero(self._kept())
        start, stop = self.given.records.start[rows], self.given.records.stop[rows]
        first = 0
        while first < len(rows):
            full = int(np.searchsorted(stop, start[first] + _BYTES, side="right"))
            last = min(max(full, first + 1), first + CHUNK)
            yield rows[first:last]
            first = last

    def _kept(self) -> np.ndarray:
        """Records that match the filters, as far as known before they are decoded."""
        given, wanted = self.given, self.wanted
        keep = np.ones(len(given.kind), dtype=np.bool_)
        if wanted.kinds is not None:
            keep &= np.array([kind in wanted.kinds for kind in KINDS])[given.kind]
        if wanted.timed:
            keep &= given.timed
        if wanted.transactions is not None:
            good = np.array([*(one.name in wanted.transactions for one in given.named), False])
            keep &= good[given.transaction]
        if wanted.tables is not None:
            # if no name is printed, the table comes from the version
            named = [
                table is None or table in wanted.tables or f"{schema}.{table}" in wanted.tables
                for schema, table in self.names
            ]
            keep &= np.array(named)[given.marks.table]
        return keep

    # --- a batch ------------------------------------------------------------------------------------------------------

    def batch(self, rows: Ints) -> pa.RecordBatch:
        """The events of some records (rising)."""
        given, records = self.given, self.given.records
        batch = EventBatch(len(rows), self.wanted)
        batch.constant("format", FORMAT)
        batch.constant("file", self.file.path)
        batch.constant("file_index", self.part.file)
        batch.constant("offset_unit", str(OffsetUnit.BYTE))
        batch.put("offset", pa.array(records.start[rows]))
        batch.put("length", pa.array(records.stop[rows] - records.start[rows]))
        batch.put("kind", pa.array(KINDS).take(pa.array(given.kind[rows])))
        self._types(batch, rows)
        self._positions(batch, rows)
        self._tables(batch, rows)
        fill_headers(batch, given, rows, self.charset)
        if self.wanted.images:
            self.bodies.images(batch, rows)
        if self.wanted.raw:
            base = given.base
            batch.put("raw", slices(records.text, records.start[rows] - base, records.stop[rows] - base))
        for at in np.flatnonzero(np.isin(rows, np.array(sorted(given.problems), dtype=np.int64))).tolist():
            for code, sentence in given.problems[int(rows[at])]:
                batch.problem(at, code, sentence)
        return batch.build()

    def _types(self, batch: EventBatch, rows: Ints) -> None:
        """Record types and operations."""
        given, records, io = self.given, self.given.records, self.given.marks.io[rows]
        operation = given.operation[rows]
        batch.put(
            "operation",
            pa.array([*OPERATIONS, None]).take(pa.array(np.minimum(operation, _UNKNOWN), mask=operation < 0)),
        )
        known = np.where((io >= 0) & (io < _TYPES), io, _TYPES)
        names = pa.array([IO_TYPES[one].name if one in IO_TYPES else None for one in range(_TYPES + 1)], pa.string())
        types = names.take(pa.array(known))
        printed = np.flatnonzero((records.shape[rows] == Shape.RECORD) & ~_valid(types))
        batch.put("record_type", types)
        header = np.flatnonzero(records.shape[rows] == Shape.FILE_HEADER)
        batch.constant("record_type", "FileHeader", header)
        if len(printed):
            texts = texts_of(spans(records.text, records.operation_at[rows[printed]]), self.charset)
            batch.put("record_type", texts, printed)
        odd = np.flatnonzero(operation == _UNKNOWN)
        if len(odd):
            shown = texts_of(spans(records.text, records.operation_at[rows[odd]]), self.charset).to_pylist()
            spelled = [
                f"UNKNOWN({int(number) if number >= 0 else text})"
                for number, text in zip(io[odd].tolist(), shown, strict=True)
            ]
            batch.put("operation", pa.array(spelled, pa.string()), odd)

    def _positions(self, batch: EventBatch, rows: Ints) -> None:
        """Positions, transactions and times."""
        given, records = self.given, self.given.records
        shown = np.array([*(one.shown for one in given.files), 0], dtype=np.int64)[given.file[rows]]
        rba = records.rba[rows]
        placed = (rba != MISSING) & (records.shape[rows] <= Shape.FILE_HEADER)
        position = positions(shown, np.where(placed, rba, 0), ~placed)
        batch.put("position", position)
        transaction = given.transaction[rows]
        names = pa.array([one.name for one in given.named], pa.string())
        batch.put("transaction_id", names.take(pa.array(transaction, mask=transaction < 0)))
        last = given.last[rows]
        batch.put("last_in_transaction", pa.array(last == 1, mask=last < 0))
        ends = np.flatnonzero((last == 1) & (transaction >= 0) & placed)
        if len(ends):
            batch.put("commit_position", position.take(pa.array(ends)), ends)
        kind = model.EVENTS.field("changed_at").type
        batch.put("changed_at", pa.array(given.utc[rows], mask=~given.timed[rows]).cast(kind))

    def _tables(self, batch: EventBatch, rows: Ints) -> None:
        """Schemas, tables and their versions."""
        given = self.given
        version, table = given.version[rows], given.marks.table[rows]
        table = np.where(given.records.shape[rows] == Shape.RECORD, table, -1)
        versions = self.plan.versions
        keys = pa.array([one.key for one in versions], pa.string())
        batch.put("table_version", keys.take(pa.array(version, mask=(version < 0) | given.repeated[rows])))
        # by name if printed, else by version
        schemas = [*(schema for schema, _ in self.names[:-1]), *(one.schema for one in versions), None]
        tables = [*(name for _, name in self.names[:-1]), *(one.table for one in versions), None]
        empty = np.array([name is None for _, name in self.names])[table]
        code = np.where(empty, np.where(version < 0, -1, len(self.names) - 1 + version), table)
        index = pa.array(np.where(code < 0, len(tables) - 1, code))
        schema, name = pa.array(schemas, pa.string()).take(index), pa.array(tables, pa.string()).take(index)
        odd = np.flatnonzero((code < 0) & np.isin(given.marks.io[rows], (DDL, METADATA)))
        if len(odd):
            told = [self._told(int(rows[at])) for at in odd.tolist()]
            places = np.arange(len(rows))
            places[odd] = len(rows) + np.arange(len(odd))
            taken = pa.array(places)
            schema = pa.concat_arrays([schema, pa.array([one[0] for one in told], pa.string())]).take(taken)
            name = pa.concat_arrays([name, pa.array([one[1] for one in told], pa.string())]).take(taken)
        batch.put("schema_name", schema)
        batch.put("table_name", name)

    def _told(self, index: int) -> tuple[str | None, str | None]:
        """Schema and table that a DDL record or a definition speaks of."""
        if self.given.marks.io[index] == DDL:
            found = items_of(self.given.body(index), self.charset)
            items = {item.code: item.value for item in found if item.whole}
            return items.get("B3") or None, items.get("B4") or None
        printed = self.given.records.extras.get(index)
        told = parse_metadata(printed.text) if printed is not None and printed.text else None
        return (told.schema, told.table) if isinstance(told, (Definition, Reference)) else (None, None)


def positions(sequence: Ints, rba: Ints, null: np.ndarray) -> pa.Array:
    """Positions as text: ten digits of the trail file's number, ten of the RBA; null where ``null`` is true."""
    matrix = np.empty((len(rba), 20), dtype=np.uint8)
    for at, value in ((0, sequence), (10, rba)):
        matrix[:, at : at + 10] = value[:, None] // _TEN % 10 + ord("0")
    return from_matrix(matrix, 0, 20, null)
