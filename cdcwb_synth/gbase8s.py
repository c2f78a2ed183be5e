"""A workload as a GBase 8s CDC record stream (``docs/formats/gbase8s.md``).

This is the encoder's half: it shares no code with the decoders in :mod:`cdcwb.formats`, so that a misreading of the
fact sheet on one side does not hide on the other.
"""

from __future__ import annotations

import json
import string
import struct
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.encoder import Encoder, EncoderContext
from cdcwb_synth.files import ByteFile
from cdcwb_synth.gbase8s_files import write_files
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options, Rules, option, same
from cdcwb_synth.truth import Image, Location, Transaction, Version, column_rows
from cdcwb_synth.values import UNITS, Column, Memo, Type, text_of
from cdcwb_synth.workload import Change, Event, Notice, Row, Schema, SourceTransaction, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class GBase8sOptions(Options):
    """What happens, and how the stream is written."""

    schema_kinds: str = same("schema_kinds", default="add,retype,drop")
    reversed_updates: float = option(0.0, "share of the updates whose after image comes first", 0, 1)
    split_updates: float = option(0.02, "share of the updates with another record between their halves", 0, 1)
    missing_begins: int = option(0, "transactions whose begin precedes the capture", 0, 10_000)
    errors: int = option(0, "errors reported by the source", 0, 10_000)
    charset: str = option("utf-8", "character set of texts (a Python codec name that contains ASCII)")
    byte_order: str = option("little", "byte order of the size words", of=("little", "big"))
    prefix_width: int = option(2, "bytes of the length before a VARCHAR", 1, 2)
    table_names: bool = option(False, "readers find labels.json, and the truth has the tables' names, not their labels")
    files: int = option(1, "files that continue one stream", 1, 100_000)
    shape: str = option("binary", "form of the files", of=("binary", "hex", "xxd", "hexdump", "reads", "buffers"))
    cut_records: bool = option(False, "each file but the last ends inside a record, which continues in the next")
    buffer_size: int = option(1024, "reads and buffers: bytes of the read buffer", 64, 1 << 24)
    group: int = option(4, "hex and reads: bytes between two blanks; 0: no blanks", 0, 1 << 20)
    line_bytes: int = option(32, "hex: bytes in a line", 1, 1 << 20)
    notes: bool = option(False, "hex and reads: remarks between the digits")

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        letters, why = string.ascii_letters, "writes ASCII in its own way; one that contains ASCII is needed"
        try:
            is_wrong = letters.encode(self.charset) != letters.encode()
        except (LookupError, UnicodeError):
            is_wrong, why = True, "is not known"
        return [*Options.rules(self), (is_wrong, f"charset {self.charset!r} {why}")]


# --- values (§4): all integers and floats are big-endian, NULL is a pattern of its own in every type ------------------

_LOB_PREFIX: Final = b"\x00\x00\x00\x48"  # before a large object's locator (§4.1); its meaning is not known
_DAY_ZERO: Final = date(1899, 12, 31).toordinal()
_SIZES: Final = {
    Type.SMALLINT: 2, Type.BOOLEAN: 2, Type.INTEGER: 4, Type.DATE: 4, Type.SMALLFLOAT: 4, Type.BIGINT: 8, Type.FLOAT: 8,
    Type.INT8: 10, Type.LOB: 76,
}  # fmt: skip


def fixed_size(column: Column) -> int:
    """Bytes that a fixed-length column takes in a row (§4.1)."""
    match column.type:
        case Type.CHAR:
            return column.length
        case Type.DECIMAL:  # §4.3; a floating decimal counts as one with an odd scale
            odd = 1 if column.places is None else column.places % 2
            return min(17, (column.digits + odd + 3) // 2)
        case Type.DATETIME:  # §4.4
            whole = sum(2 if f == "year" else 1 for f in column.fields if f != "fraction")
            return 1 + whole + (column.fraction + 1) // 2
        case Type.INTERVAL:  # §4.5
            rest = sum(2 for f in column.fields[1:] if f != "fraction")
            return 1 + (column.lead_digits + rest + 1) // 2 + (column.fraction + 1) // 2
        case kind:
            return _SIZES[kind]


def spelled(column: Column) -> str:
    """The column's type in the words of CREATE TABLE (§5)."""
    name, kind = column.keyword or str(column.type), column.type
    if kind in (Type.DATETIME, Type.INTERVAL):
        lead = f"({column.lead})" if column.lead else ""
        end = f"fraction({column.fraction})" if column.end == "fraction" else column.end
        return f"{kind} {column.start}{lead} to {end}"
    sizes = (column.precision, column.scale) if kind is Type.DECIMAL else (column.length or None, column.reserve)
    shown = ",".join(str(size) for size in sizes if size is not None)
    return f"{name}({shown})" if shown else name


def _packed(negative: bool, pairs: list[int], exponent: int, size: int) -> bytes:
    """A packed decimal (§4.3): ``pairs`` are base-100 digits, of which ``exponent`` precede the decimal point."""
    first = next((i for i, pair in enumerate(pairs) if pair), None)
    if first is None:
        return b"\x80".ljust(size, b"\x00")
    last = max(i for i, pair in enumerate(pairs) if pair)
    digits, head = pairs[first : last + 1], 0x80 | (64 + exponent - first)
    if negative:  # the hundred's complement: from 99, but the last digit from 100
        digits = [99 - digit for digit in digits[:-1]] + [100 - digits[-1]]
        head = (head ^ 0x7F) & 0x7F
    if len(digits) >= size:
        raise ValueError(f"{len(digits)} digit pairs do not fit into {size} bytes")
    return bytes([head, *digits]).ljust(size, b"\x00")


def _pairs(digits: str) -> list[int]:
    """Base-100 digits of a text with an even number of decimal digits."""
    return [int(digits[i : i + 2]) for i in range(0, len(digits), 2)]


def _decimal(value: Decimal, size: int) -> bytes:
    sign, numbers, power = value.as_tuple()
    digits, exponent = "".join(map(str, numbers)), int(power)
    if exponent % 2:  # shift so that the decimal point falls between two pairs
        digits, exponent = digits + "0", exponent - 1
    digits = digits.zfill(len(digits) + len(digits) % 2)
    return _packed(bool(sign), _pairs(digits), len(digits) // 2 + exponent // 2, size)


def _fields(negative: bool, pairs: list[int], fraction: str, column: Column, size: int) -> bytes:
    """A DATETIME or INTERVAL (§4.4, §4.5): the exponent is aligned on SECOND, whose smaller fields are not written;
    fraction digits are left-aligned (an odd number of them: the last one times ten)."""
    order = ("second", "minute", "hour", "day", "month", "year")
    whole = len(pairs) + (order.index(column.end) if column.end in order else 0)
    if column.end == "fraction":
        digits = fraction[: column.fraction]
        pairs = pairs + _pairs(digits + "0" * (len(digits) % 2))
    return _packed(negative, pairs, whole, size)


def _moment(value: datetime, column: Column, size: int) -> bytes:
    numbers = [getattr(value, field) for field in column.fields if field != "fraction"]
    pairs = [*divmod(numbers[0], 100), *numbers[1:]] if column.start == "year" else numbers
    return _fields(False, pairs, f"{value.microsecond:06d}", column, size)


def _interval(value: int, column: Column, size: int) -> bytes:
    left, numbers = abs(value), []
    for field in column.fields:
        if field != "fraction":
            number, left = divmod(left, UNITS[field])
            numbers.append(number)
    lead = f"{numbers[0]:0{column.lead_digits + column.lead_digits % 2}d}"
    return _fields(value < 0, _pairs(lead) + numbers[1:], f"{left:05d}", column, size)


def _int8(value: int) -> bytes:
    return struct.pack(">hII", -1 if value < 0 else 1, abs(value) & 0xFFFFFFFF, abs(value) >> 32)


def encoder(column: Column, charset: str, prefix_width: int) -> Callable[[Any], bytes]:
    """The function that writes a value of ``column`` (None: NULL) as its bytes in a row. ``prefix_width`` (1 or 2) is
    the size of the length before a VARCHAR (§4.2)."""
    write, null = _writer(column, charset, prefix_width)
    return lambda value: null if value is None else write(value)


def _writer(column: Column, charset: str, prefix_width: int) -> tuple[Callable[[Any], bytes], bytes]:
    """The function that writes values, and NULL."""
    if column.type is Type.VARCHAR:
        null = b"\x01\x00".rjust(prefix_width + 1, b"\x00")
        return lambda value: len(data := value.encode(charset)).to_bytes(prefix_width, "big") + data, null
    if column.type is Type.LVARCHAR:
        null = b"\x00\x01\x01"
        return lambda value: (len(data := value.encode(charset)) + 1).to_bytes(2, "big") + b"\x00" + data, null
    size = fixed_size(column)
    if column.type in _PACKERS:
        pattern, null = _PACKERS[column.type]
        return struct.Struct(pattern).pack, null.ljust(size, null[1:])
    writers: dict[Type, Callable[[Any], bytes]] = {
        Type.DATE: lambda value: struct.pack(">i", value.toordinal() - _DAY_ZERO),
        Type.CHAR: lambda value: value.encode(charset).ljust(size, b" "), Type.INT8: _int8,
        Type.LOB: _LOB_PREFIX.__add__, Type.DECIMAL: lambda value: _decimal(value, size),
        Type.DATETIME: lambda value: _moment(value, column, size),
        Type.INTERVAL: lambda value: _interval(value, column, size),
    }  # fmt: skip
    nulls = {Type.DATE: b"\x80".ljust(size, b"\x00"), Type.CHAR: b"\x00".ljust(size, b" ")}
    return writers[column.type], nulls.get(column.type, bytes(size))


_PACKERS: Final = {
    Type.SMALLINT: (">h", b"\x80\x00"), Type.INTEGER: (">i", b"\x80\x00"), Type.BIGINT: (">q", b"\x80\x00"),
    Type.FLOAT: (">d", b"\xff\xff"), Type.SMALLFLOAT: (">f", b"\xff\xff"), Type.BOOLEAN: (">h", b"\x01\x00"),
}  # fmt: skip
"""How numbers are packed, and the first bytes of NULL, of which the second is repeated."""


# --- records (§1, §2) -------------------------------------------------------------------------------------------------

_SCHEME: Final = 66
_BEGIN, _COMMIT, _ROLLBACK, _BEFORE, _DISCARD = 1, 2, 3, 42, 62
_HEADERS: Final = {
    _BEGIN: struct.Struct(">4Iqiqi"), _COMMIT: struct.Struct(">4Iqiq"), _ROLLBACK: struct.Struct(">4Iqi"),
    _DISCARD: struct.Struct(">4Iqi"), 119: struct.Struct(">4Iqii"), 200: struct.Struct(">4IiIIII"),
    201: struct.Struct(">4Iq"), 202: struct.Struct(">4IIi"),
}  # fmt: skip
_ROW: Final = struct.Struct(">4IqiiI")
_CODES: Final = {Operation.INSERT: 40, Operation.DELETE: 41, Operation.UPDATE: 43, Operation.TRUNCATE: 119}
_TYPES: Final = {
    40: "CDC_REC_INSERT", 41: "CDC_REC_DELETE", 43: "CDC_REC_UPDAFT", 119: "CDC_REC_TRUNCATE",
}  # fmt: skip
_ROW_HEADERS: Final = (
    "header_size", "payload_size", "packetization_scheme", "record_number", "sequence_number", "transaction_id",
    "user_data", "flags", "variable_sizes",
)  # fmt: skip
_ERRORS: Final = (-83711, -83713, -83707)  # §7; the session continues
_MUST_CLOSE: Final = -83792


class LogPositions:
    """Rising sequence numbers: (log file << 32) | (page << 12) | offset in page (§6.1).

    A record takes its size and sixteen bytes more in the log, rounded up to eight; pages are 4096 bytes and begin with
    0x18 bytes of their own. The first log file is near its end, so that longer captures see the change to the next one.
    """

    def __init__(self, log: int = 11, page: int = 0x3FE0, pages: int = 0x4000) -> None:
        self._log, self._page, self._pages = log, page, pages
        self._offset = 0x18

    def peek(self) -> int:
        """The sequence number that the next record will have."""
        return self._log << 32 | self._page << 12 | self._offset

    def take(self, size: int) -> int:
        """The sequence number of a record of ``size`` bytes; the next one is higher."""
        here = self.peek()
        offset = self._offset + (size + 16 + 7) // 8 * 8
        pages, rest = divmod(offset, 4096)
        self._offset = max(rest, 0x18) if pages else offset
        self._page += pages
        if self._page >= self._pages:
            self._log, self._page, self._offset = self._log + 1, 1, 0x18
        return here


class _Table:
    """How the rows of one table version are written: fixed-length columns first, then the variable ones (§4)."""

    def __init__(self, version: TableVersion, options: GBase8sOptions) -> None:
        self.label = version.table.label
        indexed = sorted(enumerate(version.columns), key=lambda one: one[1].is_variable)
        columns = [column for _, column in indexed]
        self._cells = [(_cells(column, options), index) for index, column in indexed]
        self.names = [column.name for column in columns]
        sizes = [fixed_size(column) for column in columns if not column.is_variable]
        self.fixed = len(sizes)
        self.words = struct.Struct(f"{'<' if options.byte_order == 'little' else '>'}{len(columns) - len(sizes)}I")
        self.schema = ", ".join(f"{column.name} {spelled(column)}" for column in columns)
        self.sizes = (sum(sizes), len(sizes), len(columns) - len(sizes))
        rows = [
            {
                "name": column.name, "type": spelled(column),
                "length": column.length if column.is_variable else fixed_size(column),
                **({"precision": column.digits, "scale": column.places} if column.type is Type.DECIMAL else {}),
            }
            for column in columns
        ]  # fmt: skip
        owner = version.table
        schema, name = (owner.schema, owner.name) if options.table_names else (None, str(owner.label))
        label = f"{owner.label}@{version.number}"
        self.version = Version(label, schema, name, column_rows(rows), "record", self.schema)

    def row(self, values: Row) -> tuple[bytes, list[int], Image]:
        """A row as its payload, the sizes of its variable-length columns, and the text of its values."""
        data, texts = zip(*[cells[values[index]] for cells, index in self._cells], strict=True)
        return b"".join(data), [len(part) for part in data[self.fixed :]], dict(zip(self.names, texts, strict=True))


def _cells(column: Column, options: GBase8sOptions) -> Memo:
    """The bytes and the text of values."""
    write, null = _writer(column, options.charset, options.prefix_width)
    text: Any = (lambda value: (_LOB_PREFIX + value).hex()) if column.type is Type.LOB else text_of(column)
    return Memo(lambda value: (write(value), text(value)), (null, None))


@dataclass(slots=True, eq=False)
class _Open:
    """A transaction that is open, from its first record on. ``rows`` are the numbers of its changes in the truth,
    ``savepoints`` the sequence number of each, and how many changes there were."""

    truth: Transaction
    rows: list[int]
    savepoints: dict[int, int]


class GBase8sEncoder(Encoder[_Table]):
    """Writes everything that happens. ``records``: records that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        self._log = LogPositions()
        self._open: dict[int, _Open] = {}  # by ordinal
        self._savepoints: dict[tuple[int, int], int] = {}  # (ordinal, number): sequence number
        self._waiting: deque[tuple[dict[str, Any], list[int], int, int, Transaction]] = deque()  # changes
        self._half: tuple[SourceTransaction, Callable[[], None]] | None = None  # of an update, still to be written
        self._late: tuple[Change, list[int]] | None = None  # with the positions of its records
        self._positions: list[int] = []  # of the next records, if they are late
        self._stream = ByteFile(capture.folder / "stream", "none")
        self._starts = array("q")
        self._owners = array("i")  # index into the truth's transactions, -1: none

    def write(self, event: Event, done: int) -> None:
        """Writes one event; it may take no record, one or two."""
        half, self._half = self._half, None
        transaction = None if isinstance(event, (Schema, Notice)) else event.transaction
        if half is not None and (transaction is None or transaction is half[0]):
            half[1]()
            half = None
        match event:
            case Schema():
                self.tables.setdefault(event.version, _Table(event.version, self.options))
                self._schema(event.version)
            case Change(is_late=True):
                rows = [self.tables[event.version].row(row or ())[0] for row in (event.before, event.after)]
                self._late = replace(event, is_late=False), [self._log.take(_ROW.size + len(row)) for row in rows]
            case Change():
                self._change(event, self.tables[event.version])
            case Step():
                self._step(event)
            case Notice("idle"):
                self._put(201, -1, 0)
            case Notice(what):
                code = _MUST_CLOSE if what == "fatal" else self.rng.choice(_ERRORS)
                self._put(202, -1, int(what == "fatal"), code)
        if half is not None:
            half[1]()
        if self._late is not None and isinstance(event, Change) and not event.is_late:
            (late, self._positions), self._late = self._late, None
            self.write(late, done)

    def finish(self) -> None:
        """Writes what is still held back, the files, and the tables' names."""
        if self._half is not None:
            self._half[1]()
        self._stream.close()
        starts = np.append(np.frombuffer(self._starts, np.int64), np.int64(self._stream.size))
        stream, folder, truth = self.capture.folder / "stream", self.capture.folder, self.truth
        names, locate = write_files(stream, starts, self.options, self.capture.seed, self.folder)
        stream.unlink()
        truth.files, truth.locate = names, locate
        sizes, owners = np.zeros(len(truth.transactions) + 1, np.int64), np.frombuffer(self._owners, np.int32)
        np.add.at(sizes, owners, locate(np.arange(len(owners)))[2] if len(owners) else 0)
        for transaction, size in zip(truth.transactions, sizes, strict=False):
            transaction.bytes = int(size)
        labels = {str(version.table.label): version.table.full_name for version in self.tables}
        name = "capture.labels.json" if self.options.table_names else "labels.json"
        (folder / name).write_text(json.dumps(labels, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _put(self, number: int, owner: int, *fields: int, payload: bytes = b"") -> int:
        """Writes a record and returns its number."""
        header = _HEADERS[number]
        return self._append(header.pack(header.size, len(payload), _SCHEME, number, *fields) + payload, owner)

    def _append(self, record: bytes, owner: int) -> int:
        self._starts.append(self._stream.put(record)[0])
        self._owners.append(owner)
        self.records += 1
        return self.records - 1

    def _open_at(self, source: SourceTransaction, position: int) -> _Open:
        """An open transaction; it is known from its first record on."""
        one = self._open.get(source.ordinal)
        if one is None:
            name = f"{source.number}@{'' if source.captured_begin else '~'}{position:016X}"
            made = Transaction(name, outcome="open", completeness="no_end" if source.captured_begin else "no_begin")
            one = self._open[source.ordinal] = _Open(self.truth.transaction(made), [], {})
        return one

    def _step(self, event: Step) -> None:
        source, second = event.transaction, event.at.replace(microsecond=0)
        match event.what:
            case "begin" if source.captured_begin:
                sequence = self._log.take(_HEADERS[_BEGIN].size)
                truth = self._open_at(source, sequence).truth
                self._put(_BEGIN, truth.number, sequence, source.number, int(second.timestamp()), source.user)
                truth.begin_position, truth.began_at, truth.user = f"{sequence:016X}", second, str(source.user)
            case "commit" | "rollback" as what:
                number, time = (_COMMIT, [int(second.timestamp())]) if what == "commit" else (_ROLLBACK, [])
                sequence = self._log.take(_HEADERS[number].size)
                truth = self._open_at(source, sequence).truth
                self._put(number, truth.number, sequence, source.number, *time)
                truth.end_position = f"{sequence:016X}"
                if what == "commit":
                    truth.commit_position, truth.ended_at, truth.committed_at = truth.end_position, second, second
                if source.captured_begin:
                    truth.outcome = "committed" if what == "commit" else "rolled_back"
                    truth.completeness = "complete"
                del self._open[source.ordinal]
            case "savepoint":  # no record; a later DISCARD names its sequence number, which the next record may have
                sequence = self._log.peek() if self.rng.random() < 0.25 else self._log.take(8)
                self._savepoints[source.ordinal, event.number] = sequence
                if source.ordinal in self._open:
                    self._open[source.ordinal].savepoints[event.number] = len(self._open[source.ordinal].rows)
            case "undo":
                sequence = self._savepoints[source.ordinal, event.number]
                one = self._open_at(source, sequence)
                self._log.take(_HEADERS[_DISCARD].size)
                self._put(_DISCARD, one.truth.number, sequence, source.number)
                self.truth.undone.update(one.rows[one.savepoints.get(event.number, 0) :])

    def _change(self, event: Change, table: _Table) -> None:
        """A change; an update is UPDBEF and UPDAFT, in either order, with perhaps a record of another transaction
        between them (§6.5)."""
        source, number = event.transaction, _CODES[event.operation]
        assert source is not None
        row: dict[str, Any] = {"operation": event.operation, "before": None, "after": None}
        records: list[int] = []
        halves = [("after", number, event.after)] if event.after is not None or event.before is None else []
        if event.before is not None:
            halves.insert(0, ("before", _BEFORE if halves else number, event.before))
        first, *second = halves[::-1] if event.is_reversed else halves

        def put(image: str, code: int, values: Row | None) -> None:
            headers, row[image] = self._row(source, table, code, values, records)
            if code == number:
                one, version = self._open[source.ordinal], table.version
                row.update(
                    record_type=_TYPES[number], position=headers["sequence_number"], headers=headers,
                    table_version=version.table_version, schema_name=version.schema_name, table_name=version.table_name,
                )  # fmt: skip
                one.rows.append(self.truth.count + len(self._waiting))
                self._waiting.append((row, records, len(halves), records[-1], one.truth))
            while self._waiting and len(self._waiting[0][1]) == self._waiting[0][2]:
                ready, numbers, _, head, transaction = self._waiting.popleft()
                locations = [Location(0, record, 0) for record in numbers]
                self.truth.change(ready, locations, None, transaction, head=numbers.index(head))

        put(*first)
        if second and not self._positions and self.rng.random() < self.options.split_updates:
            self._half = (source, lambda: put(*second[0]))
        elif second:
            put(*second[0])

    def _row(
        self, source: SourceTransaction, table: _Table, number: int, row: Row | None, records: list[int]
    ) -> tuple[dict[str, str | None], Image | None]:
        """Writes a row record (§2), or a TRUNCATE, which has no row, and adds its number to ``records``; returns its
        headers and the text of the row."""
        payload, sizes, image = (b"", [], None) if row is None else table.row(row)
        header = _HEADERS[number].size if row is None else _ROW.size + table.words.size
        sequence = self._positions.pop(0) if self._positions else self._log.take(header + len(payload))
        owner = self._open_at(source, sequence).truth.number
        fields = (header, len(payload), _SCHEME, number, sequence, source.number, table.label)
        texts = [*map(str, fields)]
        if row is None:
            records.append(self._append(_HEADERS[number].pack(*fields), owner))
        else:
            records.append(self._append(_ROW.pack(*fields, 0) + table.words.pack(*sizes) + payload, owner))
            table.version.begins(f"{sequence:016X}")
            texts += ["0", *([" ".join(map(str, sizes))] if sizes else [])]
        headers: dict[str, str | None] = dict(zip(_ROW_HEADERS, texts, strict=False))
        return headers | {"sequence_number": f"{sequence:016X}"}, image

    def _schema(self, version: TableVersion) -> None:
        """TABSCHEM: the text ends with a NUL that counts (§5)."""
        table = self.tables[version]
        is_new = table.version.number < 0
        if is_new:
            self.truth.version(table.version)
        text = table.schema.encode(self.options.charset) + b"\x00"
        record = self._put(200, -1, version.table.label, 0, *table.sizes, payload=text)
        if is_new:
            table.version.seen(Location(0, record, 0))
