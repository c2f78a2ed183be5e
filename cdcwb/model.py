"""The tables of cdcwb as Arrow schemas with the meaning of each column, and the enumerations of their text columns.

Times are ``timestamp[us, tz=UTC]``. A null image map means: no such image; a key that is missing in a map
was not captured; a null value is SQL NULL.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

import pyarrow as pa


class Kind(StrEnum):
    """The kind of a record, common to all formats (``events.kind``)."""

    CHANGE = "change"  # a complete change in one record
    BEFORE = "before"  # the before half of an update
    AFTER = "after"  # the after half of an update
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNDO = "undo"  # reverses earlier changes of the same transaction (rollback to a savepoint)
    SCHEMA = "schema"
    HEARTBEAT = "heartbeat"
    CONTROL = "control"  # file header, restart, control table, record of an unknown type
    TOMBSTONE = "tombstone"
    ERROR = "error"
    FRAGMENT = "fragment"  # the rest of a record that began in the previous file
    FILLER = "filler"  # bytes without data (stale buffer tails, notes)
    MALFORMED = "malformed"


class Operation(StrEnum):
    """What a change does (``operation``); ``UNKNOWN(x)`` is an operation that the format does not define."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    REFRESH = "REFRESH"
    TRUNCATE = "TRUNCATE"
    DDL = "DDL"


class OffsetUnit(StrEnum):
    """What ``offset`` and ``length`` count."""

    BYTE = "byte"
    ROW = "row"
    MESSAGE = "message"


class Outcome(StrEnum):
    """The outcome of a change or a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    UNDONE = "undone"  # changes only: reversed by a rollback to a savepoint
    UNDO = "undo"  # changes only: the reversal of another change
    OPEN = "open"


class Completeness(StrEnum):
    """Whether the capture has all events of a transaction."""

    COMPLETE = "complete"
    NO_BEGIN = "no_begin"
    NO_END = "no_end"
    GAPS = "gaps"
    UNKNOWN = "unknown"


WHOLE: Final = "whole"
"""The name of COMPLETE in captures that were saved in version 2 or earlier."""


class ChangeSource(StrEnum):
    """Where ``changed_columns`` comes from: a change ``mask`` that the source wrote, a comparison of the ``images``
    before and after, or the ``log``, whose record lists the columns that were written."""

    MASK = "mask"
    IMAGES = "images"
    LOG = "log"


class Severity(StrEnum):
    """The severity of a problem: ``error``: bytes could not be read; ``warning``: something is missing or
    contradictory; ``info``: for information."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO


class Problem(StrEnum):
    """The codes of ``problems``, each with a severity and a heading. Those from ``counter`` on are of what contradicts
    itself only in all of a capture (:func:`cdcwb.analysis.integrity.findings`), not of ``problems``."""

    severity: Severity
    heading: str
    """A few words for headings and legends."""

    def __new__(cls, code: str, severity: Severity = _W, heading: str = "") -> Self:
        """A code with its facts."""
        problem = str.__new__(cls, code)
        problem._value_, problem.severity, problem.heading = code, severity, heading
        return problem

    MALFORMED = "malformed", _E, "bytes that are not a record"
    STALE = "stale", _I, "bytes that an earlier read left in the buffer"
    INFERRED = "inferred", _W, "read by a guess"
    TRUNCATED = "truncated", _E, "record cut off"
    UNKNOWN_RECORD_TYPE = "unknown_record_type", _W, "unknown record type"
    HEADER_SIZE = "header_size", _W, "header longer than known"
    PACKET_SCHEME = "packet_scheme", _W, "unknown packetization scheme"
    RESERVED_FLAGS = "reserved_flags", _W, "reserved flags are set"
    UNEXPECTED_PAYLOAD = "unexpected_payload", _W, "unexpected payload"
    NO_SCHEMA = "no_schema", _W, "row without a table schema"
    SCHEMA_TEXT = "schema_text", _W, "table schema text that cannot be parsed"
    SCHEMA_MISMATCH = "schema_mismatch", _W, "table schema text disagrees with its header"
    SIZE_WORDS = "size_words", _W, "size words disagree with the payload"
    ROW_SIZE = "row_size", _W, "row size differs from its schema"
    VALUE = "value", _W, "bytes that are not a value of the column's type"
    CHARSET = "charset", _W, "text not in the given character set"
    UNKNOWN_TYPE = "unknown_type", _W, "column type whose encoding is unknown"
    LOB_NOT_IN_STREAM = "lob_not_in_stream", _I, "large object content is not in the stream"
    SOURCE_ERROR = "source_error", _E, "error reported by the source"
    TIME_RANGE = "time_range", _W, "time outside the years 1 to 9999"
    OPEN_TRANSACTION = "open_transaction", _W, "transaction without its end"
    NO_BEGIN = "no_begin", _W, "transaction without its begin"
    UPDATE_HALF = "update_half", _W, "half of an update"
    REORDERED_UPDATE = "reordered_update", _I, "update halves in reversed order"
    NO_REGISTRY = "no_registry", _W, "schema id that the registry does not have"
    MASK = "mask", _W, "invalid mask, or bits beyond the columns"
    MASK_IMAGES = "mask_images", _W, "mask disagrees with the images"
    GAP = "gap", _W, "events missing in a transaction"
    CLOCK = "clock", _W, "change sequence time that does not advance"
    WIDTH = "width", _W, "value longer than its header column"
    PARTITION = "partition", _W, "change outside its partition"
    APPLY_EXCEPTION = "apply_exception", _W, "change that the target rejected"
    HEADER_VALUE = "header_value", _W, "invalid header field, or one that contradicts another"
    REPEATED = "repeated", _I, "repeated record"
    SAME_POSITION = "same_position", _W, "different records at one position"
    TIME_ZONE = "time_zone", _W, "printed time that is ambiguous or missing in its zone"
    CONFLICT = "conflict", _W, "tokens of one transaction disagree"
    LOG_RULE = "log_rule", _W, "event log field that breaks its rule"
    LOG_STATUS = "log_status", _I, "status other than N, S, W, E, F"
    TABLE_KEY = "table_key", _W, "table_key that breaks its grammar"
    KEY_SPELLING = "key_spelling", _W, "one key in several spellings"
    XML_CHARACTER = "xml_character", _W, "character that XML 1.0 cannot hold"
    JSON_SYNTAX = "json_syntax", _W, "JSON with a syntax error"
    NOTE = "note", _W, "text between records"
    COUNTER = "counter", _W, "counter or number that contradicts the records"
    POSITION_ORDER = "position_order", _W, "position out of order"
    ROW_GAP = "row_gap", _W, "version of a row that is missing between two changes"
    ROW_STALE = "row_stale", _W, "older version of a row after a newer one"
    ROW_REPEAT = "row_repeat", _I, "change of a row that arrives again"
    ROW_REVIVED = "row_revived", _W, "UPDATE after the DELETE of its row"
    ROW_PHANTOM = "row_phantom", _W, "DELETE after the DELETE of its row"
    ROW_LATE = "row_late", _W, "change of a row after later ones"


_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.list_(pa.string())
_MAP: Final = pa.map_(pa.string(), pa.string())

PROBLEM: Final = pa.struct([("code", pa.string()), ("detail", pa.string())])
"""One problem of one record: a code of :class:`Problem` and a sentence."""

SOURCE_EVENT: Final = pa.struct([("file_index", pa.int32()), ("offset", pa.int64()), ("length", pa.int64())])
"""The location of an event that a change was assembled from."""

COLUMN: Final = pa.struct(
    [
        ("ordinal", pa.int32()),  # from 1
        ("name", pa.string()),
        ("type", pa.string()),  # as the source spells it
        ("length", pa.int32()),  # bytes
        ("precision", pa.int32()),
        ("scale", pa.int32()),  # null for a floating decimal
        ("key_position", pa.int32()),  # from 1; null: not in the key, or not given by the source
        ("nullable", pa.bool_()),  # null: not given by the source
    ]
)
"""One column of a table version; null: not given by the source."""


def _field(name: str, kind: pa.DataType, meaning: str) -> pa.Field:
    return pa.field(name, kind, metadata={"comment": meaning})


_PLACE = [
    _field("format", pa.string(), "format name"),
    _field("file", pa.string(), "path or URL of the file, topic-partition or table"),
    _field("file_index", pa.int32(), "number of the file in natural name order, from 0"),
    _field("offset", pa.int64(), "offset of the record in the decompressed file, in offset_unit"),
    _field("length", pa.int64(), "length of the record in the file, in offset_unit"),
    _field("offset_unit", pa.string(), "byte, row or message"),
    _field("record_type", pa.string(), "the source's own name of the record type"),
    _field("kind", pa.string(), "what the record is: a value of Kind"),
    _field("operation", pa.string(), "a value of Operation; null: none applies; UNKNOWN(x): not defined by the format"),
    _field("position", pa.string(), "log position; text order is log order"),
    _field("commit_position", pa.string(), "log position of the commit; in events on the commit only"),
    _field("transaction_id", pa.string(), "unique within the capture; null if the format has no transactions"),
    _field("event_no", pa.int64(), "number of the event in the transaction, if the source gives it"),
    _field("last_in_transaction", pa.bool_(), "true: the source marks it as the last event of the transaction"),
    _field("changed_at", _TIME, "time of the change; null if the source does not give it"),
    _field("schema_name", pa.string(), "schema or owner"),
    _field("table_name", pa.string(), "table"),
    _field("table_version", pa.string(), "key into table_versions"),
    _field("change_mask", pa.string(), "as the source wrote it"),
    _field("column_mask", pa.string(), "as the source wrote it"),
    _field("changed_columns", _TEXTS, "columns that changed; null if the source does not give them"),
    _field("present_columns", _TEXTS, "columns that the record has; null if the source does not give them"),
    _field("key", _MAP, "key columns and values; null if no key is known"),
    _field("before", _MAP, "before image; null map: no image; missing key: not captured; null value: NULL"),
    _field("after", _MAP, "after image; null map: no image; missing key: not captured; null value: NULL"),
    _field("headers", _MAP, "every header field of the source, by its own name"),
]
_RAW = _field("raw", pa.binary(), "the record as captured, fragments joined; null with images=False")
_PROBLEMS = _field("problems", pa.list_(PROBLEM), "null: no problems")

EVENTS: Final = pa.schema([*_PLACE, _RAW, _PROBLEMS])
"""One row per wire record; capture order is (file_index, offset)."""

CHANGES: Final = pa.schema(
    [
        *_PLACE,
        _PROBLEMS,
        _field(
            "source_events", pa.list_(SOURCE_EVENT), "the events of which the change was assembled, in capture order"
        ),
        _field("outcome", pa.string(), "a value of Outcome; null for REFRESH and the event log"),
        _field("committed_at", _TIME, "time of the commit"),
        _field("change_source", pa.string(), "where changed_columns comes from: a value of ChangeSource"),
    ]
)
"""One row per logical change; location and position are those of the after record."""

TRANSACTIONS: Final = pa.schema(
    [
        _field("transaction_id", pa.string(), "as in events"),
        _field("begin_position", pa.string(), "log position of the begin; null if the begin is missing"),
        _field("end_position", pa.string(), "log position of the commit or rollback; null if it is missing"),
        _field("began_at", _TIME, "time of the begin; null if the source does not give it"),
        _field("ended_at", _TIME, "time of the end; null: not given by the source (gbase8s: a rollback has no time)"),
        _field("outcome", pa.string(), "committed, rolled_back or open"),
        _field("completeness", pa.string(), "a value of Completeness"),
        _field("changes", pa.map_(pa.string(), pa.int64()), "logical changes by operation, undone ones included"),
        _field("tables", _TEXTS, "tables touched (schema.table, or table), in name order"),
        _field("bytes", pa.int64(), "sum of the lengths of its events"),
        _field("user", pa.string(), "the user, as the source names it"),
    ]
)
"""One row per transaction."""

TABLE_VERSIONS: Final = pa.schema(
    [
        _field("table_version", pa.string(), "the source's schema id, else label@1, label@2 …"),
        _field("schema_name", pa.string(), "schema or owner"),
        _field("table_name", pa.string(), "table"),
        _field("first_position", pa.string(), "log position of the first row that it applies to; null if none"),
        _field("first_event", SOURCE_EVENT, "the event that defines it; null if it is not from the capture"),
        _field("columns", pa.list_(COLUMN), "in ordinal order"),
        _field("origin", pa.string(), "record, registry, side file, DDL or inferred"),
        _field("schema_text", pa.string(), "the schema's own text"),
        _field("lineage", _MAP, "server, task, id, time, if the source gives them"),
    ]
)
"""One row per version of a table."""

FIRST_BYTES: Final = 32
"""Bytes of a record that a problem shows at most."""

PROBLEMS: Final = pa.schema(
    [
        _field("severity", pa.string(), "a value of Severity"),
        _field("code", pa.string(), "a value of Problem"),
        _field("sentence", pa.string(), "what was expected and what was found"),
        _field("file", pa.string(), "null if the problem concerns the complete capture"),
        _field("offset", pa.int64(), "null if the problem concerns the complete capture"),
        _field("length", pa.int64(), "null if the problem concerns the complete capture"),
        _field("first_bytes", pa.string(), f"up to {FIRST_BYTES} bytes as lower-case hex"),
        _field("transaction_id", pa.string(), "null if the problem concerns none"),
        _field("table", pa.string(), "schema.table, or table; null if the problem concerns none"),
    ]
)
"""One row per problem."""

DETECTED: Final = pa.schema(
    [
        _field("scope", pa.string(), "capture, a file, or a table"),
        _field("setting", pa.string(), "the option that overrides it"),
        _field("value", pa.string(), "what was detected, or the value of the option"),
        _field("evidence", pa.string(), "the records that show it, in a sentence"),
        _field("overridden", pa.bool_(), "true: an option gave the value, nothing was detected"),
    ]
)
"""One row per setting that was detected before decoding."""

TABLES: Final[dict[str, pa.Schema]] = {
    "events": EVENTS,
    "changes": CHANGES,
    "transactions": TRANSACTIONS,
    "table_versions": TABLE_VERSIONS,
    "problems": PROBLEMS,
    "detected": DETECTED,
}
"""Every table of a capture by the name of its property."""
