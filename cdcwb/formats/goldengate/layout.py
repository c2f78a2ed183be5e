"""Names, numbers and meanings of Oracle GoldenGate trail records (docs/formats/goldengate.md §3 to §5), the data type
codes of their columns (§4.6), and the signature of a raw trail (§1.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Literal, NamedTuple

import numpy as np

from cdcwb.formats.kernels import Bools, Ints
from cdcwb.model import Kind, Operation

Order = Literal["little", "big"]

MISSING: Final = -1
"""A number that is not printed."""

NOT_A_TIME: Final = -(1 << 62)
"""A time that is not printed, or has the form of a time only."""

JULIAN_EPOCH_US: Final = 210866760000000000
"""1970-01-01 00:00 UTC in a trail's own time: microseconds since noon of Julian day 0."""

# --- record types -----------------------------------------------------------------------------------------------------


class IoType(NamedTuple):
    """A type of record. ``kind`` and ``operation`` are those of its events; ``aliases`` are other names in Logdump or
    its manuals. ``certain``: number and name were observed together, or are documented together."""

    name: str
    meaning: str
    kind: Kind = Kind.CONTROL
    operation: str | None = None
    aliases: tuple[str, ...] = ()
    certain: bool = True


_UPDATE: Final = (Kind.CHANGE, Operation.UPDATE)
IO_TYPES: Final[dict[int, IoType]] = {
    1: IoType("Abort", "transaction aborted (NonStop)"),
    2: IoType("Commit", "transaction committed (NonStop)"),
    3: IoType("Delete", "row deleted: the deleted row, or its key only", Kind.CHANGE, Operation.DELETE),
    4: IoType("EndRollBack", "database rollback ended (NonStop)"),
    5: IoType("Insert", "row inserted", Kind.CHANGE, Operation.INSERT),
    6: IoType("Prepared", "networked transaction prepared to commit (NonStop)"),
    7: IoType("TMF-Shutdown", "transaction facility shut down (NonStop)", aliases=("TMFShutdown",)),
    8: IoType("TransBegin", "begin of a transaction; not in use"),
    9: IoType("TransRelease", "transaction released; not in use"),
    10: IoType("Update", "row updated: the full image, or with Partition 4 key and changed columns", *_UPDATE),
    11: IoType("UpdateComp", "row updated, compressed by the audit facility (NonStop)", *_UPDATE),
    12: IoType("FileAlter", "attributes of a file altered (NonStop)"),
    13: IoType("FileCreate", "file created (NonStop)"),
    14: IoType("FilePurge", "file purged (NonStop)"),
    15: IoType("FieldComp", "row updated: key and changed columns only", *_UPDATE),
    16: IoType("FileRename", "file renamed (NonStop)"),
    17: IoType("AuxPointer", "pointer to an auxiliary audit trail (NonStop)"),
    18: IoType("NetworkCommit", "networked transaction committed (NonStop)"),
    19: IoType("NetworkAbort", "networked transaction aborted (NonStop)"),
    20: IoType("CurrentPos", "recorded position in the audit trail"),
    89: IoType("SQL/MX DDL OP", "DDL of SQL/MX (NonStop)"),
    90: IoType("GGSSQLCol", "SQL table columns were added or changed"),
    100: IoType("GGSPurgedata", "table truncated: all of its rows were deleted", Kind.CHANGE, Operation.TRUNCATE),
    101: IoType("GGSPurge", "file purged (NonStop)", aliases=("GGSPurgeFile", "GGSPurge(File)")),
    102: IoType("GGSCreate", "file created (NonStop)", aliases=("GGSCreateFile", "GGSCreate(File)")),
    103: IoType("GGSAlter", "file altered (NonStop)", aliases=("GGSAlterFile", "GGSAlter(File)")),
    104: IoType("GGSRenameFile", "file renamed (NonStop)", aliases=("GGSRename",), certain=False),
    105: IoType("GGSSetMode", "file mode set (NonStop)", certain=False),
    106: IoType("GGSChangeLabel", "file label changed (NonStop)", certain=False),
    107: IoType("GGSControl", "file control operation (NonStop)", certain=False),
    115: IoType("GGSPKUpdate", "key updated: the old key, then the new columns", *_UPDATE),
    116: IoType("LargeObject", "a segment of a large object of the preceding record", Kind.FRAGMENT),
    132: IoType("GGSSequence", "number of a sequence", aliases=("Sequence",), certain=False),
    134: IoType("GGSUnifiedUpdate", "row updated: before and after image in one record", *_UPDATE, certain=False),
    135: IoType("GGSUnifiedPKUpdate", "key updated: before and after image in one record", *_UPDATE),
    140: IoType("Upsert", "row updated, or inserted if it did not exist", *_UPDATE, ("GGSUpsert",), False),
    150: IoType(
        "RestartAbend",
        "Extract restarted after an abend: the open transaction is rolled back",
        Kind.ROLLBACK,
        certain=False,
    ),
    151: IoType("RestartOK", "Extract restarted after a clean stop"),
    152: IoType("RecoveryEnd", "Extract's recovery ended", certain=False),
    160: IoType("DDLOP", "DDL statement", Kind.CHANGE, Operation.DDL, aliases=("DDL",)),
    161: IoType("RecordFragment", "the continuation of a record that did not fit", Kind.FRAGMENT, certain=False),
    170: IoType("Metadata", "definition of a database or of a table", Kind.SCHEMA),
    200: IoType("GGSBulkIO", "block of many rows (NonStop)", aliases=("BulkIO",), certain=False),
    201: IoType("GGSFileClose", "file closed (NonStop)", certain=False),
    202: IoType("LoggerTS", "time of a Logger (NonStop)", certain=False),
    203: IoType("ExtractTS", "time of an Extract", certain=False),
    204: IoType("CollectTS", "time of a Collector", certain=False),
    205: IoType("GGSComment", "comment", certain=False),
}
"""Record types by number (§3.6). Trails have others, too, which keep their number as type."""


TYPES: Final = 256
"""Numbers of record types are below this."""

TYPE_NAMES: Final = tuple(IO_TYPES[one].name if one in IO_TYPES else None for one in range(TYPES))
"""The names of record types by number."""

DDL, METADATA, RESTART_OK, RESTART_ABEND, LOB, FRAGMENT = 160, 170, 151, 150, 116, 161

SEGMENTS: Final = (LOB, FRAGMENT)
"""Record types that are always a segment of another record (§5.6)."""

LISTED: Final = (3, 5, 10, 11, 15, 140)
"""Record types whose body is a list of columns (§4.1)."""

KEYED: Final = 115
"""The record type whose body is the old key in front of a list of columns (§4.5)."""

COMPRESSED: Final = (11, 15, 115, 134, 135)
"""Record types of updates that have the key and the columns that were written, and no others (§4.4)."""

UNIFIED: Final = (134, 135)
"""Record types whose body is the before image in front of the after image (§4.5)."""

HALVES: Final = (10, 11, 15, 115)
"""Record types of updates that may be two records, one with the before image and one with the after image (§4.5)."""

_DELETE: Final = 3


def are_before_images(io_types: Ints, sides: Ints) -> Bools:
    """Whether the bodies of records of one image are before images. ``sides``: codes of ``B`` or ``A``, by BeforeAfter
    or by the image line; an update without either has the after image (§4.5)."""
    found: Bools = (io_types == _DELETE) | (np.isin(io_types, HALVES) & (sides == ord("B")))
    return found


def _plain(name: str) -> str:
    return name.replace(" ", "").casefold()


_BY_NAME: Final = {_plain(name): number for number, kind in IO_TYPES.items() for name in (kind.name, *kind.aliases)}


def io_type_of(name: str) -> int | None:
    """The number of a record type by its printed name, ignoring case; None for an unknown name."""
    return _BY_NAME.get(_plain(name))


# --- the record header ------------------------------------------------------------------------------------------------

IMAGE_LETTERS: Final = b"bmes"
"""The text of the image line for each TransInd (§2.3)."""

_SPANS: Final = {
    "Hdr-Ind": (0, 1), "Partition": (1, 1), "UndoFlag": (2, 1), "BeforeAfter": (3, 1), "RecLength": (4, 2),
    "IOType": (6, 1), "IO Time": (8, 8), "OrigNode": (7, 1), "TransInd": (28, 1), "FormatType": (29, 1),
    "SyskeyLen": (30, 1), "Incomplete": (31, 1), "AuditRBA": (24, 4), "AuditPos": (16, 4), "DDR index": (24, 2),
    "TDR index": (26, 2), "Continued": (32, 1), "RecCount": (33, 1),
}  # fmt: skip
"""Offset and size of fields in a header token (§3.3)."""

FIELDS: Final = {
    "Hdr-Ind": "always E: the record was made by Extract; anything else is invalid data",
    "Partition": "form of the data; NonStop BulkIO: the source partition, 0 to 15",
    "UndoFlag": "NonStop: 1 if the record undoes an operation of an aborted transaction",
    "BeforeAfter": "B: before image, A: after image (also of unified records)",
    "RecLength": "bytes of the record's data",
    "IOType": "type of the operation",
    "IO Time": "time of the operation, in the time zone of the viewer; the trail has UTC",
    "OrigNode": "NonStop: number (0 to 255) of the cluster node that the data came from; elsewhere unused",
    "TransInd": "first, middle, last or only record of its transaction",
    "FormatType": "R: read from the transaction log, F: fetched from the database",
    "SyskeyLen": "NonStop: length of the system key (4 or 8 bytes) at the beginning of the data; 0: no system key",
    "Incomplete": "not in use",
    "AuditRBA": "names the transaction log (Oracle: redo sequence number; MySQL: offset in the binary log)",
    "AuditPos": "offset in the transaction log (Oracle: byte of the redo log; MySQL: number of the binary log)",
    "DDR index": "number of the database definition",
    "TDR index": "number of the table definition; 0: none",
    "Continued": "Y: a segment that continues in a following record; N: the last segment, or an unsegmented record",
    "RecCount": "number of segments of a large value",
}
"""One sentence for each header field (§3.2)."""

VALUES: Final[dict[tuple[str, int], str]] = {  # §3.4 for Partition: of a NonStop BulkIO record it is another number
    ("Hdr-Ind", 0x45): "the record was made by Extract",
    ("Partition", 0x00): "not a compressed row: metadata, DDL or a restart; NonStop: the data is not in FieldComp "
    "format",
    ("Partition", 0x04): "the row is in FieldComp format, the table's name is in the record; NonStop: FieldComp format "
    "too",
    ("Partition", 0x0C): "the row is in FieldComp format, the table is given by its TDR index",
    ("Partition", 0x4C): "as x0c, with the unknown bit x40",
    ("UndoFlag", 0): "no undo",
    ("UndoFlag", 1): "NonStop: undoes an operation of an aborted transaction; what the disk process undoes for a "
    "violated constraint is not flagged",
    ("BeforeAfter", 0x41): "after image; a unified record has both images and this value",
    ("BeforeAfter", 0x42): "before image",
    ("TransInd", 0): "first record of its transaction",
    ("TransInd", 1): "neither first nor last record of its transaction",
    ("TransInd", 2): "last record of its transaction",
    ("TransInd", 3): "only record of its transaction",
    ("FormatType", 0x52): "read from the transaction log",
    ("FormatType", 0x46): "fetched from the database",
    ("SyskeyLen", 0): "the data does not begin with a system key",
    ("Continued", 0): "the data does not continue in another record: the last segment, or an unsegmented record",
    ("Continued", 1): "a segment: the data continues in a following record",
    ("Metadata", 1): "definition of the database",
    ("Metadata", 2): "definition of a table",
    ("Metadata", 3): "reference to an earlier definition of a table",
}

CLOSED: Final = {
    field: tuple(value for name, value in VALUES if name == field)
    for field in ("Hdr-Ind", "UndoFlag", "BeforeAfter", "TransInd", "FormatType", "Continued")
}
"""The header fields that have no other values than these (§3.2)."""

HEADER: Final = tuple(name for name in FIELDS if name != "IO Time")
"""The numbers of a record header, in the order of the columns of
:attr:`~cdcwb.formats.goldengate.records.TrailRecords.values`.

Characters (Hdr-Ind, BeforeAfter, FormatType, Continued) are their codes: ``E`` is 0x45; Continued is 1 (Y) or 0 (N).
"""

GHDR: Final = tuple(sorted(((name, *_SPANS[name]) for name in HEADER), key=lambda one: one[1]))
"""Name, offset and size of the numbers in a header token; IO Time is at 8, a 64-bit Julian time (§3.3). A Metadata
record has DDR and TDR index, any other AuditRBA."""

GHDR_TIME: Final = _SPANS["IO Time"]
"""Offset and size of IO Time in a header token: microseconds since Julian day 0, UTC."""

GHDR_FIXED: Final = 34
"""Bytes of a header token before the table's name or index, which Logdump blanks."""

BY_INDEX: Final = 0x08
"""Bit of Partition: a header ends with the index of the table's definition, not with the table's name (§3.4)."""

CHARACTERS: Final = frozenset({"Hdr-Ind", "BeforeAfter", "FormatType", "Continued"})
"""Header fields that are a character."""


def shown(name: str, value: int) -> str:
    """A header value as text: the character for the four that are one, decimal for the others."""
    if name == "Continued" and value in (0, 1):
        return "NY"[value]
    return chr(value) if name in CHARACTERS and 0x20 < value < 0x7F else str(value)


def field_meaning(name: str, value: int, values: Mapping[str, int]) -> str:
    """The meaning of a header field with this value, in a record whose other fields are ``values``."""
    io_type = IO_TYPES.get(values.get("IOType", -1))
    known = VALUES.get((name, value), FIELDS[name])
    match name:
        case "IOType":
            kind = IO_TYPES.get(value)
            return "an unknown operation" if kind is None else f"{kind.name}: {kind.meaning}"
        case "OrigNode" if io_type and (io_type.name, value) in VALUES:
            return VALUES[io_type.name, value]
        case "OrigNode" if value in (0, 255):
            return f"no node: the data does not come from NonStop (or, there, from node {value})"
        case "OrigNode":
            return f"NonStop: the data came from node {value} of the cluster"
        case "Partition" if io_type and io_type.name == "GGSBulkIO":
            return f"NonStop: the bulk operation was on source partition {value}"
        case "Partition" if (name, value) not in VALUES:
            parts = ["the row is in FieldComp format"] if value & 4 else []
            parts += ["the table is given by its TDR index"] if value & 8 else []
            parts += [f"unknown bits x{value & ~0x0C:02x}"] if value & ~0x0C else []
            return ", ".join(parts) or known
        case "SyskeyLen" if value:
            return f"NonStop: the first {value} bytes of the data are the system key"
        case "RecCount" if value > 1:
            return f"the value has {value} segments"
    return known


# --- tokens, file headers, DDL ----------------------------------------------------------------------------------------

TOKENS: Final = {
    0x36: ("TRANID", "the transaction's id (Oracle: undo segment, slot and sequence)"),
    0x44: ("DDL", "owner, object, version, compatibility and a flag of a DDL record"),
    0x4C: ("LOGCSN", "commit sequence number: commit order in the source"),
    0x52: ("ORAROWID", "row id of the row in Oracle"),
    0x74: ("ORATAG", "Oracle's tag of the redo record"),
}
"""Names and contents of the tokens of a record, by their ids (§5.7)."""

TOKEN_MEANINGS: Final = dict(TOKENS.values())
"""The contents of tokens, by name."""


def token_name(number: int, printed: str | None = None) -> str:
    """The name of a token: its printed name, else that of its id, else ``token x6c``."""
    return printed or (TOKENS[number][0] if number in TOKENS else f"token x{number:02x}")


HEADER_TOKENS: Final[dict[str, str]] = {
    "G": "the complete record with its header and trailer tokens; this record's RBA plus this length is the next RBA",
    "H": "the record header",
    "D": "the record's data",
    "T": "GoldenGate's own tokens",
    "U": "user tokens",
    "Z": "the record's trailer, which repeats the length of G",
}
"""The tokens that a record consists of, by letter (§3.7)."""

FILE_HEADER_GROUPS: Final = dict(
    enumerate(("TrailInfo", "MachineInfo", "DatabaseInfo", "ProducerInfo", "ContinuityInfo"), 0x30)
)
"""Groups of a file header by id; those after TrailInfo are numbered by their documented order."""

FILE_HEADER_TOKENS: Final = {
    0x30: ("Signature", "signature"), 0x31: ("Compatibility", "number"), 0x32: ("CharSet", "charset"),
    0x33: ("CreationTime", "time"), 0x34: ("URI", "string"), 0x35: ("URIHistory", "nested"),
    0x36: ("FileName", "string"), 0x37: ("MultiPart", "number"), 0x38: ("FileSeqno", "number"),
    0x39: ("FileSize", "number"), 0x3A: ("FirstCSN", "csn"), 0x3B: ("LastCSN", "csn"),
    0x3C: ("FirstIOTime", "time"), 0x3D: ("LastIOTime", "time"),
}  # fmt: skip
"""Tokens of the group TrailInfo by id: name and how its bytes are read, always big-endian (§5.1)."""

DDL_STATEMENT: Final = "C1"
"""The item of a DDL record with the statement."""

DDL_ITEMS: Final = {
    "B2": "object id", "B3": "owner", "B4": "object name", "B5": "object type", "B6": "type of the DDL",
    "B7": "sequence number of the DDL", "B8": "history table", "B9": "user who was logged in",
    "C1": "text of the DDL statement", "C5": "sequence number of the marker; of MySQL, the CSN", "C6": "marker table",
    "C7": "version", "C8": "compatibility", "C9": "whether it is valid", "C10": "number of the instance",
    "C11": "name of the instance", "C12": "owner of the master object", "C13": "name of the master object",
    "C14": "object table", "C15": "whether it is ignored",
    **dict.fromkeys(("C17", "C18", "C19"), "language setting"), "C20": "XML type", "C21": "not known",
    "G1": "text of the statement, of the metadata", "G4": "row id of the sequence",
}  # fmt: skip
"""The items of a DDL record, by their codes (§5.3)."""

# --- data types -------------------------------------------------------------------------------------------------------


class How(IntEnum):
    """The encoding of a value after its null indicator.

    * GUESS: unknown, inferred from the bytes
    * TEXT: two bytes of length in the record's byte order, then as many bytes of text
    * FIXED_TEXT: the same, padded with blanks at the right. The length may be missing if the text fills the column
    * INTEGER: big-endian two's complement (or unsigned), with the scale's number of digits after the point
    * FLOAT: IEEE 754 big-endian of 4 or 8 bytes (assumed)
    * DECIMAL: zoned or packed decimals, which are not decoded; a number in text form with a length is read
    * MOMENT: a date, time or interval as text without a length; one with a length is read as well
    * BINARY: two bytes of length, then bytes that are no text
    * LOB: a large object's entry in its record; the value is in separate records
    * UNKNOWN: a code that no public source explains
    * GUESS_FIXED: unknown, and text may be padded with blanks and without a length, as in the columns of a NonStop
    """

    GUESS, TEXT, FIXED_TEXT, INTEGER, FLOAT, DECIMAL, MOMENT, BINARY, LOB, UNKNOWN, GUESS_FIXED = range(11)


class Coding(NamedTuple):
    """The coding of a column's values. ``size``: bytes of a value after the null indicator, 0 if they vary.
    ``charset``: that of the text if the type has one of its own, else empty (the database's)."""

    how: How
    size: int = 0
    scale: int = 0
    signed: bool = True
    charset: str = ""


GUESS: Final = Coding(How.GUESS)
"""For columns without a definition."""

GUESS_FIXED: Final = Coding(How.GUESS_FIXED)
"""For columns without a definition in records of a NonStop."""

BINARY_SUBTYPE: Final = 4
_CHARSETS: Final = {1: "utf-16-be", 7: "utf-8", 27: "utf-8", 37: "utf-8"}  # by sub type
_INTERVALS: Final = (
    "YEAR", "MONTH", "YEAR TO MONTH", "DAY", "HOUR", "DAY TO HOUR", "MINUTE", "HOUR TO MINUTE", "DAY TO MINUTE",
    "SECOND", "MINUTE TO SECOND", "HOUR TO SECOND", "DAY TO SECOND", "FRACTION", "SECOND TO FRACTION",
    "MINUTE TO FRACTION", "HOUR TO FRACTION", "DAY TO FRACTION",
)  # fmt: skip
_CODES: Final[dict[Coding, dict[int, str]]] = {
    Coding(How.FIXED_TEXT): {0: "CHAR", 1: "CHAR UPSHIFT", 2: "DOUBLE CHAR"},
    Coding(How.TEXT): {64: "VARCHAR", 65: "VARCHAR UPSHIFT", 66: "DOUBLE VARCHAR"},
    Coding(How.INTEGER, 2): {130: "INT16"},
    Coding(How.INTEGER, 2, signed=False): {131: "UNSIGNED INT16"},
    Coding(How.INTEGER, 4): {132: "INT32"},
    Coding(How.INTEGER, 4, signed=False): {133: "UNSIGNED INT32"},
    Coding(How.INTEGER, 8): {134: "INT64"},
    Coding(How.INTEGER, 8, signed=False): {135: "UNSIGNED INT64"},
    Coding(How.FLOAT, 4): {140: "TANDEM REAL", 142: "REAL"},
    Coding(How.FLOAT, 8): {141: "TANDEM DOUBLE", 143: "DOUBLE"},
    Coding(How.DECIMAL): {
        150: "DECIMAL UNSIGNED", 151: "DECIMAL LEADING SIGN SEPARATE", 152: "DECIMAL LEADING SIGN EMBEDDED",
        153: "DECIMAL TRAILING SIGN SEPARATE", 154: "DECIMAL TRAILING SIGN EMBEDDED", 189: "PACKED DECIMAL",
    },
    Coding(How.UNKNOWN): {155: "BIG NUMERIC UNSIGNED", 156: "BIG NUMERIC"},
    Coding(How.MOMENT): {
        191: "DATETIME VARYING", 192: "DATETIME", **{at: f"INTERVAL {unit}" for at, unit in enumerate(_INTERVALS, 195)},
    },
}  # fmt: skip
"""Type codes and their names, by how values are written."""
_DATA_TYPES: Final = {code: (name, coding) for coding, names in _CODES.items() for code, name in names.items()}
_NO_TYPE: Final = ("", Coding(How.UNKNOWN))


def is_known(data_type: int) -> bool:
    """Whether a public source gives the encoding of this type code, if only by its name."""
    return _DATA_TYPES.get(data_type, _NO_TYPE)[1].how is not How.UNKNOWN


def type_name(data_type: int, sub_type: int = 0) -> str:
    """The type code and its name: ``134 INT64``; the code alone without a known name."""
    name, coding = _DATA_TYPES.get(data_type, _NO_TYPE)
    if sub_type == BINARY_SUBTYPE and coding.how in (How.TEXT, How.FIXED_TEXT):
        name = name.replace("CHAR", "BINARY")
    return f"{data_type} {name}".rstrip()


def coding_of(data_type: int, sub_type: int = 0, length: int = 0, scale: int = 0, lob: bool = False) -> Coding:
    """How values are written in a column with this type code and sub type, length in bytes, scale and LOB flag."""
    name, coding = _DATA_TYPES.get(data_type, _NO_TYPE)
    charset = _CHARSETS.get(sub_type, "")
    if lob:
        return Coding(How.LOB, charset=charset)
    if coding.how is How.INTEGER:
        return coding._replace(scale=scale)
    if coding.how not in (How.TEXT, How.FIXED_TEXT):
        return coding
    if sub_type == BINARY_SUBTYPE:
        return Coding(How.BINARY)
    size = length if coding.how is How.FIXED_TEXT else 0
    return coding._replace(size=size, charset="utf-16-be" if name.startswith("DOUBLE") else charset)


# --- raw trails -------------------------------------------------------------------------------------------------------

SIGNATURE: Final = b"GG\r\nTL\n\r"
"""Bytes at the beginning of a trail's file header (docs/formats/goldengate.md §1.2)."""

_EVERYTHING: Final = 2_000_000_000

_SWITCHES: Final = (
    "timeoffset gmt", "ghdr on", "headertoken detail", "detail data", "ggstoken detail", "usertoken detail",
    "fileheader detail", "metadata on", "reclen 65535",
)  # fmt: skip


def is_raw_trail(head: bytes) -> bool:
    """Whether the first bytes of a file have the signature of a trail's file header."""
    return SIGNATURE in head[: 64 + len(SIGNATURE)]


def logdump_script(path: str) -> str:
    """Commands for Logdump that write all of a trail file as the text that cdcwb reads, times in UTC.

    The text goes to ``<file name>.txt`` in the folder that Logdump is started in.
    """
    name = path.replace("\\", "/").rsplit("/", 1)[-1] or "trail"
    lines = (f"open {path}", *_SWITCHES, f"log to {name}.txt", "pos 0", f"next {_EVERYTHING}", "log stop", "exit")
    return "\n".join(lines) + "\n"
