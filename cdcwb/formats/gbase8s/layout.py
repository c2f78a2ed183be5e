"""Constants of a GBase 8s CDC stream: record types, header fields, error numbers and column types
(docs/formats/gbase8s.md).

All header integers are big-endian; only the size words that end a row header are not (§3). Offsets count bytes from the
start of the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from cdcwb.model import Kind, Operation

FORMAT: Final = "gbase8s"

COMMON_HEADER: Final = 16
"""Bytes of the common header of every record (§1.1)."""

SCHEME: Final = 66
"""``CDC_PKTSCHEME_LRECBINARY``, the only documented packetization scheme (§1.1)."""

SIZE_WORD: Final = 4
"""Bytes of one size word; a row header ends with one for each variable-length column (§3)."""

SESSION_INVALID: Final = 0x1
"""Flag of an ERROR record: the session is lost and can only be closed (§2)."""


class HeaderField(NamedTuple):
    """A big-endian integer of a header: its offset in the record, its bytes and its interpretation."""

    offset: int
    size: int
    name: str
    signed: bool


class RecordType(NamedTuple):
    """A record type. ``header_size`` includes the common header, without size words (§2). ``fields`` are those after
    the common header, in wire order, without holes. ``operation`` is None if none applies.
    """

    number: int
    name: str
    kind: Kind
    operation: Operation | None
    header_size: int
    fields: tuple[HeaderField, ...]
    meaning: str

    @property
    def is_row(self) -> bool:
        """Whether it has a row image, and so size words after its header (§3)."""
        return self.number in ROWS

    @property
    def has_payload(self) -> bool:
        """Whether it has a payload (§2)."""
        return self.is_row or self.number == 200


ROWS: Final = (40, 41, 42, 43)
"""Record numbers of INSERT, DELETE, UPDBEF and UPDAFT."""

BEFORE_IMAGES: Final = (41, 42)
"""Record numbers of DELETE and UPDBEF, whose row is the before image."""

_SIZES: Final = {"sequence_number": 8, "start_time": 8, "commit_time": 8}
_UNSIGNED: Final = frozenset(("sequence_number", "flags", "fixed_length_bytes", "fixed_columns", "variable_columns"))


def _fields(names: Iterable[str], at: int = COMMON_HEADER) -> tuple[HeaderField, ...]:
    fields = []
    for name in names:
        size = _SIZES.get(name, 4)
        fields.append(HeaderField(at, size, name, name not in _UNSIGNED))
        at += size
    return tuple(fields)


def _type(number: int, name: str, kind: Kind, operation: Operation | None, meaning: str, *names: str) -> RecordType:
    fields = _fields(names)
    size = fields[-1].offset + fields[-1].size
    return RecordType(number, f"CDC_REC_{name}", kind, operation, size, fields, meaning)


COMMON_FIELDS: Final = tuple(
    HeaderField(4 * place, 4, name, False)
    for place, name in enumerate(("header_size", "payload_size", "packetization_scheme", "record_number"))
)
"""The common header (§1.1)."""

_OF_TRANSACTION = ("sequence_number", "transaction_id")
_OF_ROW = (*_OF_TRANSACTION, "user_data", "flags")
_OF_SCHEMA = ("user_data", "flags", "fixed_length_bytes", "fixed_columns", "variable_columns")
_BEFORE: Final = "a row was updated: the before image; the after image follows in the same transaction"
_DISCARD: Final = "rollback to a savepoint: the changes of this transaction from this sequence number on are undone"
_TABSCHEM: Final = "the captured columns of a table, fixed-length ones first"
_TIMEOUT: Final = "nothing new arrived within the session's timeout"

RECORD_TYPES: Final[dict[int, RecordType]] = {
    kind.number: kind
    for kind in (
        _type(1, "BEGINTX", Kind.BEGIN, None, "a transaction begins", *_OF_TRANSACTION, "start_time", "user_id"),
        _type(2, "COMMTX", Kind.COMMIT, None, "a transaction is committed", *_OF_TRANSACTION, "commit_time"),
        _type(3, "RBTX", Kind.ROLLBACK, None, "a transaction is rolled back", *_OF_TRANSACTION),
        _type(40, "INSERT", Kind.CHANGE, Operation.INSERT, "a row was inserted: the new row", *_OF_ROW),
        _type(41, "DELETE", Kind.CHANGE, Operation.DELETE, "a row was deleted: the deleted row", *_OF_ROW),
        _type(42, "UPDBEF", Kind.BEFORE, Operation.UPDATE, _BEFORE, *_OF_ROW),
        _type(43, "UPDAFT", Kind.AFTER, Operation.UPDATE, "a row was updated: the after image", *_OF_ROW),
        _type(62, "DISCARD", Kind.UNDO, None, _DISCARD, *_OF_TRANSACTION),
        _type(119, "TRUNCATE", Kind.CHANGE, Operation.TRUNCATE, "a table was truncated", *_OF_TRANSACTION, "user_data"),
        _type(200, "TABSCHEM", Kind.SCHEMA, None, _TABSCHEM, *_OF_SCHEMA),
        _type(201, "TIMEOUT", Kind.HEARTBEAT, None, _TIMEOUT, "sequence_number"),
        _type(202, "ERROR", Kind.ERROR, None, "the server reports an error", "flags", "error_code"),
    )
}
"""All record types, by number (§2)."""


def record_name(number: int) -> str:
    """The source's name of a record number: ``CDC_REC_INSERT``; ``CDC_REC_77`` for an unknown number (§2)."""
    known = RECORD_TYPES.get(number)
    return known.name if known else f"CDC_REC_{number}"


class ErrorCode(NamedTuple):
    """Symbolic name and meaning of an error number (§7). The vendor guarantees the names, not the numbers."""

    name: str
    explanation: str


ERROR_CODES: Final[dict[int, ErrorCode]] = {
    0: ErrorCode("CDC_E_OK", "no error"),
    -83701: ErrorCode("CDC_E_NOCDCDB", "the database syscdcv1 does not exist; the script syscdcv1.sql creates it"),
    -83702: ErrorCode("CDC_E_APIVERS", "the server does not support this version of the CDC interface"),
    -83703: ErrorCode("CDC_E_NODB", "no such database"),
    -83704: ErrorCode("CDC_E_DBNOTLOGGED", "the database has no transaction logging"),
    -83705: ErrorCode("CDC_E_NOTAB", "no such table"),
    -83706: ErrorCode(
        "CDC_E_TABPROPERTIES", "this kind of table is not captured (a view, a temporary or an unlogged table)"
    ),
    -83707: ErrorCode("CDC_E_NOCOL", "no such column"),
    -83708: ErrorCode("CDC_E_NOSESS", "no such CDC session"),
    -83709: ErrorCode("CDC_E_NOREOPEN", "the session cannot be opened again"),
    -83710: ErrorCode("CDC_E_TABCAPTURED", "the session already captures this table"),
    -83711: ErrorCode("CDC_E_TABNOTCAPTURED", "the session does not capture this table"),
    -83712: ErrorCode("CDC_E_ARGNULL", "a required argument is NULL"),
    -83713: ErrorCode("CDC_E_LSN", "the requested position is not in the log: it was removed, or is not reached yet"),
    -83714: ErrorCode("CDC_E_DIRECTION", "the session was reopened in a different direction"),
    -83792: ErrorCode("CDC_E_MUSTCLOSE", "the session is invalid and must be closed"),
    -12242: ErrorCode("SQL -12242", "the CDC session must be closed"),
    -9810: ErrorCode("SQL -9810", "reading the smart large object of the session failed"),
    -19816: ErrorCode(
        "SQL -19816", "not allowed while the table is captured (altering it, or turning off full-row logging)"
    ),
}
"""Error numbers from public sources (§7)."""


def explain_error(code: int) -> str:
    """The meaning of an error number: ``-83713 CDC_E_LSN: the log no longer holds …`` (§7)."""
    known = ERROR_CODES.get(code)
    if known is not None:
        return f"{code} {known.name}: {known.explanation}"
    if -83802 <= code <= -83700:
        return f"{code}: an error of the CDC interface; look it up in syscdcv1:syscdcerrcodes"
    return f"{code}: not a documented error of the CDC interface"


# --- columns ----------------------------------------------------------------------------------------------------------


class ColumnKind(StrEnum):
    """The encoding of a column (§4); ``UNKNOWN`` if no public source describes it (§4.7)."""

    SMALLINT = "smallint"
    INTEGER = "integer"  # and SERIAL
    BIGINT = "bigint"  # and BIGSERIAL
    INT8 = "int8"  # and SERIAL8
    DATE = "date"
    FLOAT = "float"
    SMALLFLOAT = "smallfloat"
    BOOLEAN = "boolean"
    CHAR = "char"  # and NCHAR
    DECIMAL = "decimal"  # also NUMERIC and MONEY
    DATETIME = "datetime"
    INTERVAL = "interval"
    VARCHAR = "varchar"  # and NVARCHAR
    LVARCHAR = "lvarchar"
    LOB = "lob"  # BLOB and CLOB: a locator, no content
    UNKNOWN = "unknown"


QUALIFIERS: Final = {"year": 0, "month": 2, "day": 4, "hour": 6, "minute": 8, "second": 10, "fraction": 12}
"""Fields of DATETIME and INTERVAL by their codes, which ascend from large to small (§4.4)."""

MOST_PACKED: Final = 17
"""Bytes of the longest packed decimal: exponent and 32 digits (§4.3)."""

FRACTION: Final = QUALIFIERS["fraction"]
SECOND: Final = QUALIFIERS["second"]

LVARCHAR_PREFIX: Final = 2
"""Bytes of the length that precedes an LVARCHAR; the flag byte that follows it counts as data (§4.2)."""

ENCODINGS: Final = {
    ColumnKind.SMALLINT: "big-endian integer, 8000 is NULL",
    ColumnKind.INTEGER: "big-endian integer, 80000000 is NULL",
    ColumnKind.BIGINT: "big-endian integer, 8000000000000000 is NULL",
    ColumnKind.INT8: "sign, low and high word, all zero is NULL",
    ColumnKind.DATE: "days since 1899-12-31, 80000000 is NULL",
    ColumnKind.FLOAT: "IEEE 754, all bits set is NULL",
    ColumnKind.SMALLFLOAT: "IEEE 754, all bits set is NULL",
    ColumnKind.BOOLEAN: "a byte for NULL, then 0 or 1",
    ColumnKind.CHAR: "padded with spaces, a first byte 00 is NULL",
    ColumnKind.DECIMAL: "packed decimal, 0000… is NULL",
    ColumnKind.DATETIME: "packed decimal of its fields, 0000… is NULL",
    ColumnKind.INTERVAL: "packed decimal of its fields, 0000… is NULL",
    ColumnKind.VARCHAR: "length and text, one byte 00 is NULL",
    ColumnKind.LVARCHAR: "length, flag and text, the flag 01 is NULL",
    ColumnKind.LOB: "locator of a large object; its content is not in the stream",
}
"""The text format of each kind of value (§4.1 to §4.5)."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings that the stream does not state.

    ``byte_order`` of the size words is ``little`` or ``big`` (§3), ``prefix_width`` of a VARCHAR's length 1 or 2 bytes
    (§4.2), ``charset`` the Python name of the database's character set.
    """

    byte_order: str = "little"
    prefix_width: int = 2
    charset: str = "utf-8"


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column of a table schema.

    ``ordinal`` counts from 1. ``type`` is as the text spells it, constraints left out. ``size``: bytes of a
    fixed-length column in a row (None: unknown, or of variable length). ``length``: the declared maximum of bytes of a
    value (None: not declared). ``scale`` is None for a floating decimal. ``start`` and ``end`` are codes of
    :data:`QUALIFIERS`, ``fraction`` the digits of a fraction (0: none), ``lead`` those of an INTERVAL's first field.
    """

    ordinal: int
    name: str
    type: str
    kind: ColumnKind
    fixed: bool
    size: int | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    start: int | None = None
    end: int | None = None
    fraction: int = 0
    lead: int = 0

    @property
    def whole_pairs(self) -> int:
        """Base-100 digits before the point of a DATETIME's or INTERVAL's packed decimal (§4.4, §4.5)."""
        if self.start is None or self.end is None or self.start == FRACTION:
            return 0
        lead = (self.lead + 1) // 2 if self.kind is ColumnKind.INTERVAL else (2 if self.start == 0 else 1)
        return lead + (min(self.end, SECOND) - self.start) // 2
