"""The twelve record types of a GBase 8s CDC stream as data (docs/formats/gbase8s.md §1, §2, §7).

All header integers are big-endian; only the size words behind a row header are not (§3). Offsets count bytes from the
start of the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from cdcwb.model import Kind, Operation

__all__ = [
    "COMMON_FIELDS",
    "COMMON_HEADER",
    "ERROR_CODES",
    "RECORD_TYPES",
    "SCHEME",
    "SESSION_INVALID",
    "SIZE_WORD",
    "ErrorCode",
    "HeaderField",
    "RecordType",
    "explain_error",
    "read_field",
    "record_name",
]

COMMON_HEADER: Final = 16
"""Bytes of the header that every record begins with (§1.1)."""

SCHEME: Final = 66
"""``CDC_PKTSCHEME_LRECBINARY``, the only packetization scheme that is documented (§1.1)."""

SIZE_WORD: Final = 4
"""Bytes of one size word; a row header ends with one for each variable-length column (§3)."""

SESSION_INVALID: Final = 0x1
"""Flag of an ERROR record: the session is lost and can only be closed (§2)."""


class HeaderField(NamedTuple):
    """One big-endian integer of a header: its place in the record, its bytes and how to read them."""

    offset: int
    size: int
    name: str
    signed: bool


class RecordType(NamedTuple):
    """What a record number stands for. ``header_size`` counts the common header, but no size words (§2).

    ``fields`` are those behind the common header, in wire order, without holes. ``operation`` is None where none
    applies.
    """

    number: int
    name: str
    kind: Kind
    operation: Operation | None
    header_size: int
    fields: tuple[HeaderField, ...]

    @property
    def is_row(self) -> bool:
        """Does it carry a row image, and so size words behind its header (§3)?"""
        return self.number in _ROWS

    @property
    def has_payload(self) -> bool:
        """Does a payload belong to it (§2)?"""
        return self.is_row or self.number == 200


_ROWS: Final = frozenset((40, 41, 42, 43))

_SIZES: Final = {"sequence_number": 8, "start_time": 8, "commit_time": 8}
_UNSIGNED: Final = frozenset(("sequence_number", "flags", "fixed_length_bytes", "fixed_columns", "variable_columns"))


def _fields(names: Iterable[str], at: int = COMMON_HEADER) -> tuple[HeaderField, ...]:
    fields = []
    for name in names:
        size = _SIZES.get(name, 4)
        fields.append(HeaderField(at, size, name, name not in _UNSIGNED))
        at += size
    return tuple(fields)


def _type(number: int, name: str, kind: Kind, operation: Operation | None, *names: str) -> RecordType:
    fields = _fields(names)
    return RecordType(number, f"CDC_REC_{name}", kind, operation, fields[-1].offset + fields[-1].size, fields)


COMMON_FIELDS: Final = tuple(
    HeaderField(4 * place, 4, name, False)
    for place, name in enumerate(("header_size", "payload_size", "packetization_scheme", "record_number"))
)
"""The common header (§1.1)."""

_OF_TRANSACTION = ("sequence_number", "transaction_id")
_OF_ROW = (*_OF_TRANSACTION, "user_data", "flags")

RECORD_TYPES: Final[dict[int, RecordType]] = {
    kind.number: kind
    for kind in (
        _type(1, "BEGINTX", Kind.BEGIN, None, *_OF_TRANSACTION, "start_time", "user_id"),
        _type(2, "COMMTX", Kind.COMMIT, None, *_OF_TRANSACTION, "commit_time"),
        _type(3, "RBTX", Kind.ROLLBACK, None, *_OF_TRANSACTION),
        _type(40, "INSERT", Kind.CHANGE, Operation.INSERT, *_OF_ROW),
        _type(41, "DELETE", Kind.CHANGE, Operation.DELETE, *_OF_ROW),
        _type(42, "UPDBEF", Kind.BEFORE, Operation.UPDATE, *_OF_ROW),
        _type(43, "UPDAFT", Kind.AFTER, Operation.UPDATE, *_OF_ROW),
        _type(62, "DISCARD", Kind.UNDO, None, *_OF_TRANSACTION),
        _type(119, "TRUNCATE", Kind.CHANGE, Operation.TRUNCATE, *_OF_TRANSACTION, "user_data"),
        _type(
            200, "TABSCHEM", Kind.SCHEMA, None,
            "user_data", "flags", "fixed_length_bytes", "fixed_columns", "variable_columns",
        ),
        _type(201, "TIMEOUT", Kind.HEARTBEAT, None, "sequence_number"),
        _type(202, "ERROR", Kind.ERROR, None, "flags", "error_code"),
    )
}  # fmt: skip
"""Every record type there is, by its number (§2)."""


def record_name(number: int) -> str:
    """The source's name of a record number: ``CDC_REC_INSERT``; ``CDC_REC_77`` for a number that is not known (§2)."""
    known = RECORD_TYPES.get(number)
    return known.name if known else f"CDC_REC_{number}"


def read_field(record: bytes, field: HeaderField) -> int | None:
    """The value of a header field, or None where the record ends before or inside it."""
    raw = record[field.offset : field.offset + field.size]
    return int.from_bytes(raw, "big", signed=field.signed) if len(raw) == field.size else None


class ErrorCode(NamedTuple):
    """Symbolic name and meaning of an error number (§7). The vendor promises the names, not the numbers."""

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
"""Error numbers that a public source names (§7)."""


def explain_error(code: int) -> str:
    """What an error number means: ``-83713 CDC_E_LSN: the log no longer holds …`` (§7)."""
    known = ERROR_CODES.get(code)
    if known is not None:
        return f"{code} {known.name}: {known.explanation}"
    if -83802 <= code <= -83700:
        return f"{code}: an error of the CDC interface; look it up in syscdcv1:syscdcerrcodes"
    return f"{code}: not a documented error of the CDC interface"
