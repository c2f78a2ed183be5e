"""A trail as Extract writes it (``docs/formats/goldengate.md §3 to §5``): changes as records, records that are no
changes of rows, and file after file, each with its header and the definitions that its records need."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.goldengate.columns import Cell, Layout, Order, sql_type
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.model import Operation, Outcome
from cdcwb_synth.truth import NOWHERE, Location
from cdcwb_synth.values import Column, microseconds
from cdcwb_synth.workload import Change

_JULIAN_EPOCH: Final = 210_866_760_000_000_000  # 1970-01-01 in microseconds of the Julian calendar
_FRAGMENT: Final = 2000
_INSERT, _DELETE, _FIELDCOMP, _TRUNCATE, _PKUPDATE, _LOB, _UNIFIED, _UNIFIED_PK, _SEGMENT = (
    5, 3, 15, 100, 115, 116, 134, 135, 161,
)  # fmt: skip
ABEND: Final = 150
RESTART: Final = 151
_NAMES: Final = {
    _DELETE: "Delete", _INSERT: "Insert", _FIELDCOMP: "FieldComp", _TRUNCATE: "GGSPurgedata",
    _PKUPDATE: "GGSPKUpdate", _LOB: "LargeObject", _UNIFIED: "GGSUnifiedUpdate", _UNIFIED_PK: "GGSUnifiedPKUpdate",
    ABEND: "RestartAbend", RESTART: "RestartOK", 160: "DDLOP", _SEGMENT: "RecordFragment", 170: "Metadata",
}  # fmt: skip
_IN_NAME, _COMPRESSED = 0x08, 0x04  # bits of Partition: TDR index instead of a name; columns one by one

Image = dict[str, str | None]


class Token(NamedTuple):
    """A token after a record: its code, name and bytes; ``text`` is what a reader makes of them."""

    id: int
    name: str
    info: int
    value: bytes
    text: str


class BodyPart(NamedTuple):
    """A line about a part of a body: ``kind`` is ``column``, ``key``, ``fragment``, or the head of an image: ``keyed``,
    ``before`` or ``after``. ``number`` is a column's index or an image's length, ``other`` another number that it has;
    ``start`` and ``stop`` are the bytes of the body that are printed below it."""

    kind: str
    number: int
    start: int = 0
    stop: int = 0
    other: int = 0


@dataclass(slots=True)
class Record:
    """A record: ``layout`` None has no table. ``io`` is its type, ``image`` ``A`` or ``B``, ``at`` its time in
    microseconds since 1970 UTC; ``continued`` and ``count`` are those of split records. ``trans_ind``: first 0, middle
    1, last 2 or only 3 in its transaction. A Metadata record has the ``text`` that is printed of it, its ``indexes``
    and the bytes of its ``header`` (0: as its table makes it).

    When it is in the trail it has the number of the file, the relative byte address, the index of its table's
    definition there (0: none), the name of the table version in force, the lengths of G, H, D, T and U, and where it is
    in the capture."""

    io: int
    layout: Layout | None
    at: int
    image: str = "A"
    body: bytes = b""
    parts: list[BodyPart] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    user_tokens: list[tuple[str, str]] = field(default_factory=list)
    undo: bool = False
    continued: bool = False
    count: int = 1
    trans_ind: int = 3
    node: int = 255
    audit_rba: int = 0
    audit_pos: int = 0
    text: str | None = None
    indexes: tuple[int, int] | None = None
    header: int = 0
    sequence: int = 0
    rba: int = 0
    index: int = 0
    version: str = ""
    partition: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    location: Location = NOWHERE

    @property
    def name(self) -> str:
        """The name of its type."""
        return _NAMES[self.io]

    @property
    def position(self) -> str:
        """Number of the trail file and relative byte address."""
        return f"{self.sequence:010d}{self.rba:010d}"


def token_bytes(tokens: list[Token], order: Order) -> bytes:
    """The area of a record's tokens."""
    return b"".join(bytes((t.id, t.info)) + len(t.value).to_bytes(2, order) + t.value for t in tokens)


def user_bytes(tokens: list[tuple[str, str]]) -> bytes:
    """The area of a record's user tokens."""
    return b"".join(f"{name}\0{value}\0".encode() for name, value in tokens)


def header_bytes(one: Record, order: Order) -> bytes:
    """The bytes of a record's header as Logdump prints them: the name or index at the end is blanked."""
    end = "<" if order == "little" else ">"
    audit = struct.pack(f"{end}I", one.audit_rba) if one.indexes is None else struct.pack(f"{end}2H", *one.indexes)
    first = struct.pack(
        f"{end}4BH2BQI4x", 0x45, one.partition, one.undo, ord(one.image), len(one.body), one.io, one.node,
        one.at + _JULIAN_EPOCH, one.audit_pos,
    )  # fmt: skip
    last = bytes((one.trans_ind, 0x52, 0, 0, one.continued, one.count & 0xFF))
    return (first + audit + last).ljust(one.lengths["H"], b"\0")


# --- changes (§4, §5.6) -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Step:
    """A change on its way into the trail: its ``records``, of which ``head`` is the one that speaks for it. Images are
    what can be read of them; ``rows`` are both rows in full, column by column (None: no such row), ``sent`` the columns
    that are in the images before and after. ``changed`` are the columns of an update that its record shows to be
    changed, ``compared`` whether all of them are in the image before."""

    operation: Operation
    layout: Layout
    records: list[Record]
    rows: tuple[list[Cell] | None, list[Cell] | None]
    sent: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    head: int = 0
    before: Image | None = None
    after: Image | None = None
    changed: list[str] | None = None
    compared: bool = False
    outcome: Outcome = "committed"
    is_late: bool = False

    @property
    def key(self) -> Image | None:
        """The key as a reader finds it: that of the image before, if the record with it speaks for the change."""
        known = self.layout.key_names
        images = (self.before if self.head == 0 else None, self.after)
        image = next((one for one in images if one and known & one.keys()), None)
        return None if image is None else {name: image[name] for name in image if name in known}


class _Body:
    """A body that grows by images."""

    def __init__(self) -> None:
        self.data = b""
        self.parts: list[BodyPart] = []

    def columns(self, row: list[Cell], places: list[int], names: tuple[str, ...], kind: str = "column") -> Image:
        """Adds columns; returns them."""
        start = len(self.data)
        for at in places:
            stop = start + len(row[at].entry)
            self.parts.append(BodyPart(kind, at, start + 4, stop))
            start = stop
        self.data += b"".join([row[at].entry for at in places])
        return {names[at]: row[at].text for at in places}

    def record(self, io: int, step: Step, at: int, image: str = "A") -> None:
        """Adds it to the step as a record."""
        step.records.append(Record(io, step.layout, at, image, self.data, self.parts))


def change_step(change: Change, layout: Layout, options: GoldenGateOptions, undo: bool = False) -> Step:
    """A change of a table as its records; ``undo``: it takes back another one."""
    at, rows = microseconds(change.at), (layout.row(change.before), layout.row(change.after))
    before, after = rows
    step, body, lobs = Step(change.operation, layout, [], rows, is_late=change.is_late), _Body(), layout.lobs
    if before is not None and after is not None:
        body, lobs = _update(step, before, after, at, options)
    elif after is not None:
        step.sent = ([], layout.everything)
        step.after = body.columns(after, layout.everything, layout.names)
        body.record(_INSERT, step, at)
    elif before is not None:
        step.sent = (layout.plain if options.deletes == "full" else layout.keys, [])
        step.before = body.columns(before, step.sent[0], layout.names)
        body.record(_DELETE, step, at, "B")
    else:
        body.record(_TRUNCATE, step, at)
    step.head, most = len(step.records) - 1, options.long_varchars
    head = step.records[step.head]
    if most and len(body.data) > most and head.io not in (_PKUPDATE, _UNIFIED_PK):  # a pair's first half stays whole
        io, data = _SEGMENT if options.style == "21c" else head.io, head.body
        head.body, head.continued, head.count = data[:most], True, -(-len(data) // most)
        head.parts = [part._replace(stop=min(part.stop, most)) for part in head.parts if part.start < most]
        for start in range(most, len(data), most):
            one = Record(io, layout, at, head.image, data[start : start + most], count=head.count)
            one.continued = start + most < len(data)
            step.records.append(one)
    for index in lobs if after is not None else ():
        data = (after or [])[index].lob or b""
        count = -(-len(data) // _FRAGMENT)
        for number in range(1, count + 1):
            part = [BodyPart("fragment", index, other=number)]
            fragment = data[(number - 1) * _FRAGMENT : number * _FRAGMENT]
            step.records.append(Record(_LOB, layout, at, "A", fragment, part, continued=number < count, count=count))
    for record in step.records:
        record.undo = undo
    return step


def _update(
    step: Step, old: list[Cell], new: list[Cell], at: int, options: GoldenGateOptions
) -> tuple[_Body, list[int]]:
    """Adds the records of an update; returns the body of the last one, and the large objects that follow it. A change
    of the key has a record type of its own, and of large objects only the new value is recorded."""
    layout, body = step.layout, _Body()
    changed = [i for i in layout.everything if old[i] is not new[i] and old[i] != new[i]]
    keys, is_keyed, is_unified = layout.keys, any(i in layout.keys for i in changed), options.updates == "unified"
    sent = sorted({*keys, *changed})
    kept = [i for i in sent if i not in layout.lobs]
    if is_unified or is_keyed:
        kept, width = (kept, options.unified_prefix) if is_unified else (keys, 2)
        length = sum(len(old[i].entry) for i in kept)
        body.data = length.to_bytes(width, options.order)
        body.parts.append(BodyPart("before" if is_unified else "keyed", width + length, other=length))
        step.before = body.columns(old, kept, layout.names, "column" if is_unified else "key")
        start = len(body.data)
        body.parts.append(BodyPart("after", sum(len(new[i].entry) for i in sent), start, start))
    elif options.updates == "pairs":
        first = _Body()
        step.before = first.columns(old, kept, layout.names)
        first.record(_FIELDCOMP, step, at, "B")
    step.after = body.columns(new, sent, layout.names) or None
    of_key, of_others = (_UNIFIED_PK, _UNIFIED) if is_unified else (_PKUPDATE, _FIELDCOMP)
    body.record(of_key if is_keyed else of_others, step, at)
    step.before = step.before or None
    step.sent = ([] if step.before is None else kept, sent)
    shown = changed
    if step.before is None:  # of the key nobody can tell whether it is new
        shown = [i for i in sent if i not in keys or not layout.key_names]
    step.changed = [layout.names[i] for i in shown]
    step.compared = step.before is not None and set(shown) <= set(kept)
    return body, [i for i in changed if i in layout.lobs]


# --- other records (§5) -----------------------------------------------------------------------------------------------

_COMPATIBILITY: Final = {"11g": 3, "12c": 6, "21c": 7}
_RELEASE: Final = {"11g": "11.2.1.0.14", "12c": "12.3.0.1.4", "21c": "21.3.0.0.0"}
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LEGEND: Final = """\
*
 1)Name          2)Data Type        3)External Length  4)Fetch Offset      5)Scale         6)Level
 7)Null          8)Bump if Odd      9)Internal Length 10)Binary Length    11)Table Length 12)Most Sig DT
13)Least Sig DT 14)High Precision  15)Low Precision   16)Elementary Item  17)Occurs       18)Key Column
19)Sub DataType 20)Native DataType 21)Character Set   22)Character Length 23)LOB Type     24)Partial Type
25)Remarks
*
TDR version: 11"""
_NUMBER_WIDTHS: Final = (4, 6, 8, 2, 2, 1, 1, 6, 6, 6, 1, 1, 1, 1, 1, 4, 1, 3, 4, 8, 6, 1, 1)
_DATABASE: Final = """\
Database Name:
*
DDR Version: 1
Database type: ORACLE
Character set ID: UTF-8
National character set ID: UTF-16BE
Locale: en_US
Case sensitivity: 14 14 14 14 14 14 14 14 14 14 14 14 11 14 14 14
TimeZone: GMT+00:00
*"""


def _token(code: int, value: bytes) -> bytes:
    return bytes((code, 0)) + len(value).to_bytes(2, "big") + value


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def _file_header(style: str, path: str, sequence: int, at: int, csn: str) -> bytes:
    """The body of a trail's file header, which is big-endian in every trail."""
    uri, counted = _text("uri:db-01:shop::extshop"), csn.encode()
    trail = (
        b"GG\r\nTL\n\r", _COMPATIBILITY[style].to_bytes(2, "big"), bytes((0x20, 0, 0, 0)),
        (at + _JULIAN_EPOCH).to_bytes(8, "big"), uri, _token(0x35, uri), _text(path), b"\x01",
        sequence.to_bytes(4, "big"), bytes(8), (bytes((len(counted),)) + counted).ljust(129, b"\0"),
    )  # fmt: skip
    machine = (_text("Linux"), _text("db-01"), _text("5.4.17"))
    groups = (trail, machine, (b"\x00\x07", _text("SHOP")), (_text("EXTSHOP"), _text(_RELEASE[style])), ())
    return b"".join(
        _token(code, b"".join(_token(inner, value) for inner, value in enumerate(group, 0x30)))
        for code, group in enumerate(groups, 0x30)
    )


def _table_text(layout: Layout) -> str:
    """What is printed of a table's definition."""
    columns = layout.columns
    names = max(len(column.name) for column in columns)
    offset, rows = 0, []
    for column in columns:
        numbers = zip(column.numbers(offset), _NUMBER_WIDTHS, strict=True)
        rows.append(" ".join([f"{column.name:<{names}}", *(f"{number:>{width}}" for number, width in numbers)]))
        offset += column.width
    head = [
        f"Table Name: {layout.table.full_name}", _LEGEND, f"Definition for table {layout.table.full_name}",
        f"Record Length: {offset}", f"Columns: {len(columns)}",
    ]  # fmt: skip
    return "\n".join((*head, *rows, "End of definition"))


def restart(io: int, at: int) -> Record:
    """Extract began again (151), or broke off before (150)."""
    return Record(io, None, at, count=0, node=0)


_TOKENS: Final = {"LOGCSN": 0x4C, "TRANID": 0x36, "ORAROWID": 0x52}


def token(name: str, text: str, end: bytes = b"") -> Token:
    """The token of this name: LOGCSN has the number of the commit, TRANID the transaction's id."""
    return Token(_TOKENS[name], name, 0, text.encode() + end, text)


def row_token(layout: Layout, number: int) -> Token:
    """The token with the row's id, made up from its table and a number."""
    digits, left = "", (layout.table.label << 32) + number * 2_654_435_761 % (1 << 32)
    for _ in range(15):
        left, digit = divmod(left, 64)
        digits = _BASE64[digit] + digits
    return token("ORAROWID", f"AAA{digits}", b"\0\1")


def statement_record(
    version: TableVersion, old: tuple[Column, ...], at: int, csn: str, xid: str
) -> tuple[Record, dict[str, str]]:
    """The record of a statement that makes of a table with the columns ``old`` this version, and its items by their
    codes. Two of its tokens come twice."""
    table, before, after = version.table, {c.name: c for c in old}, {c.name: c for c in version.columns}
    done = [f"ADD ({c.name} {sql_type(c)})" for name, c in after.items() if name not in before]
    done += [f"DROP COLUMN {name}" for name in before if name not in after]
    done += [f"MODIFY ({name} {sql_type(c)})" for name, c in after.items() if name in before and before[name] != c]
    what = " ".join(done) or "MODIFY COLUMN ORDER"
    items = {
        "C5": csn, "B7": str(version.number), "B2": str(70_000 + table.label), "C21": "", "B3": table.schema,
        "B4": table.name, "C12": "", "C13": "", "B5": "TABLE", "B6": "ALTER", "B8": "GGADMIN.GGS_DDL_HIST",
        "B9": table.schema, "C7": "21.3.0.0.0", "C8": "21.3.0.0.0", "C9": "VALID", "C10": "1", "C11": "shop",
        "C14": "NO", "C20": "NO", "C1": f"ALTER TABLE {table.full_name} {what} /* it's version {version.number} */",
    }  # fmt: skip
    escaped = {code: "".join("\\" + c if c in "',=()\\" else c for c in value) for code, value in items.items()}
    body = "".join(f",{code}='{value}'," for code, value in escaped.items()).encode()
    names = f"{table.schema}\0{table.name}\0{version.number}\0{version.number}\0N"
    ends = [token("TRANID", xid), token("LOGCSN", csn)]
    between = [Token(0x44, "DDL", 0, names.encode(), names.replace("\0", " ")), Token(0x74, "ORATAG", 1, b"", "")]
    return Record(160, None, at, body=body, tokens=[*ends, *between, *reversed(ends)], node=0), items


# --- files (§3.7) -----------------------------------------------------------------------------------------------------


class Trail:
    """Puts records in their places. ``output`` gets new files, records (and gives where they are in the capture) and
    definitions; ``csn`` gives the number of the next commit, for the headers of files."""

    def __init__(self, options: GoldenGateOptions, output: Any, csn: Callable[[], str]) -> None:
        self._options, self._output, self._csn = options, output, csn
        self._is_named = options.style == "11g"
        self._sequence = options.first_sequence - 1

    def path(self, sequence: int) -> str:
        """The trail file of this number."""
        return f"{self._options.trail}{sequence:0{6 if self._is_named else 9}d}"

    def start_file(self, at: int) -> None:
        """Continues in a new file."""
        self._sequence += 1
        path = self.path(self._sequence)
        header = _file_header(self._options.style, path, self._sequence, at, self._csn())
        self._rba = len(header) + 8
        self._indexes: dict[TableVersion, int] = {}  # in force
        self._keys: dict[int, str] = {}  # index: what the version is called
        self._newest: dict[int, tuple[TableVersion, int]] = {}  # table: version and index
        self._count = 0
        self._defined: dict[int, dict[str, str]] = {}  # index: what the version with each definition is called
        self._output.new_file(self._sequence, path, header, at)

    def put(self, record: Record) -> None:
        """Writes a record, preceded by the definition of its table if it has none yet."""
        if record.layout is not None and not self._is_named:
            record.index = self._index(record.layout, record.at)
        self._write(record)

    def _write(self, one: Record) -> None:
        header = one.header or 35
        if one.layout is not None:
            one.partition = _COMPRESSED if self._is_named else _COMPRESSED | _IN_NAME
            header = 34 + (len(one.layout.table.full_name) + 1 if self._is_named else 2)
        areas = {
            "H": header, "D": len(one.body), "T": sum(4 + len(token.value) for token in one.tokens),
            "U": len(user_bytes(one.user_tokens)),
        }  # fmt: skip
        areas = {letter: length for letter, length in areas.items() if length}
        one.lengths = {"G": 8 + sum(4 + length for length in areas.values())} | areas
        one.sequence, one.rba, one.version = self._sequence, self._rba, self._keys.get(one.index, "")
        self._rba += one.lengths["G"]
        one.location = self._output.record(one)

    def _metadata(self, at: int, size: int, text: str, **more: Any) -> Record:
        """Writes a Metadata record."""
        record = Record(170, None, at, body=bytes(size), text=text, audit_pos=7, **more)
        self._write(record)
        return record

    def _index(self, layout: Layout, at: int) -> int:
        """The index of a table's definition; that of a new version replaces the one before in turn, or is another."""
        version, label = layout.version, layout.table.label
        if version in self._indexes:
            return self._indexes[version]
        if not self._count:
            self._metadata(at, 81, _DATABASE, node=1, indexes=(1, 0))
        last, index = self._newest.get(label, (version, 0))
        if index and last.number < version.number and version.number % 2 == 0:
            del self._indexes[last]
        else:
            self._count += 1
            index = self._count
        if last.number <= version.number:
            self._newest[label] = (version, index)
        self._indexes[version] = index
        shown = index if self._options.has_headers else 0  # nothing else gives the index of a definition
        keys, text = self._defined.setdefault(shown, {}), _table_text(layout)
        first = f"{shown}@{self.path(self._sequence).rpartition('/')[2]}"
        key = self._keys[index] = keys.setdefault(text, f"{first}#{len(keys) + 1}" if keys else first)
        size = 60 + 39 * len(layout.columns)
        record = self._metadata(at, size, text, node=2, indexes=(1, index), header=48)
        self._output.defined(layout, key, text, record.location)
        return index
