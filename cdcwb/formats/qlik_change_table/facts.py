"""What the documentation says of change tables: names, widths and codes (docs/formats/qlik-change-table.md §2, §3, §6).

Nothing here decides anything: the fast reader and the readable dissection share these facts and no code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cdcwb.model import Kind, Operation

__all__ = [
    "CHANGES",
    "CONTROL",
    "CONTROL_COLUMNS",
    "CONTROL_PREFIX",
    "CONTROL_TIMES",
    "DDL_HISTORY",
    "DDL_TRUNCATE",
    "EXCEPTIONS",
    "FORMAT",
    "HEADERS",
    "LETTERS",
    "LOAD",
    "OPERATIONS",
    "PREFIX",
    "ROLES",
    "ROW",
    "ROWS",
    "STRONG",
    "SUFFIX",
    "WIDTHS",
    "Meaning",
]

FORMAT: Final = "qlik-change-table"

ROW: Final = "_row"
"""The column that numbers the rows of a table that is a capture."""

PREFIX: Final = "header__"
"""Before the names of header columns, unless a task says otherwise."""

SUFFIX: Final = "__ct"
"""Behind the name of the target table, unless a task says otherwise."""

HEADERS: Final = (
    "change_seq",
    "change_oper",
    "change_mask",
    "stream_position",
    "operation",
    "transaction_id",
    "timestamp",
    "partition_name",
)
"""The header columns behind their prefix, in their usual order (§2.1)."""

STRONG: Final = frozenset({"change_seq", "change_oper", "change_mask", "stream_position", "transaction_id"})
"""Names that tell header columns with an unusual prefix; the others may well be columns of a table."""

WIDTHS: Final = {
    "change_seq": 35,
    "change_oper": 1,
    "change_mask": 128,
    "stream_position": 128,
    "operation": 12,
    "transaction_id": 32,
}
"""Documented widths in bytes; that of the mask in bytes of the mask, not of its text (§2.1)."""


class Meaning(NamedTuple):
    """What a row is by its operation."""

    kind: Kind
    operation: Operation


LETTERS: Final = {
    "I": Meaning(Kind.CHANGE, Operation.INSERT),
    "U": Meaning(Kind.AFTER, Operation.UPDATE),
    "B": Meaning(Kind.BEFORE, Operation.UPDATE),
    "D": Meaning(Kind.CHANGE, Operation.DELETE),
    "T": Meaning(Kind.CHANGE, Operation.TRUNCATE),
}
"""``change_oper``; the letter of TRUNCATE is not documented (§3.1, §3.3)."""

OPERATIONS: Final = {
    "INSERT": LETTERS["I"],
    "UPDATE": LETTERS["U"],
    "BEFOREIMAGE": LETTERS["B"],
    "BEFORE-IMAGE": LETTERS["B"],
    "DELETE": LETTERS["D"],
    "TRUNCATE": LETTERS["T"],
}
"""``operation``; the documentation spells one of them in two ways (§3.1)."""

ROWS: Final = "changes"
LOAD: Final = "load"
CONTROL: Final = "control"
ROLES: Final = (ROWS, LOAD, CONTROL)
"""What a file holds: rows of a change table, of a full load, or of a control table."""

CHANGES: Final = frozenset({str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER)})
"""Kinds of events that are rows of tables."""

CONTROL_PREFIX: Final = "attrep_"
DDL_HISTORY: Final = "attrep_ddl_history"
EXCEPTIONS: Final = "attrep_apply_exceptions"
DDL_TRUNCATE: Final = "TRUNCATE_TABLE"

_CONTROL_TABLES: Final = {
    DDL_HISTORY: "server_name task_name table_owner table_name change_seq timestamp table_version ddl_type details",
    EXCEPTIONS: "task_name table_owner table_name error_time statement error",
    "attrep_status": (
        "server_name task_name task_status status_time pending_changes disk_swap_size task_memory "
        "source_current_position source_current_timestamp source_tail_position source_tail_timestamp "
        "source_timestamp_applied"
    ),
    "attrep_suspended_tables": "server_name task_name table_owner table_name suspend_reason suspend_timestamp",
    "attrep_history": (
        "server_name task_name timeslot_type timeslot timeslot_duration timeslot_latency timeslot_records "
        "timeslot_volume"
    ),
    "attrep_cdc_partitions": (
        "server_name task_name partition_name partition_start_time partition_end_time table_owner table_name"
    ),
}
CONTROL_COLUMNS: Final = {name: frozenset(columns.split()) for name, columns in _CONTROL_TABLES.items()}
"""The columns of each control table in lower case: what it is recognised by where its name is lost (§6)."""

CONTROL_TIMES: Final = {
    DDL_HISTORY: "timestamp",
    EXCEPTIONS: "error_time",
    "attrep_status": "status_time",
    "attrep_suspended_tables": "suspend_timestamp",
    "attrep_history": "timeslot",
}
"""The column of each control table that says when."""
