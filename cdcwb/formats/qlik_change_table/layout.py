"""What change tables are made of: names, widths and codes of header columns, control tables, and the table of a file by
its path (docs/formats/qlik-change-table.md §1, §2, §3, §6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cdcwb.formats.containers.rows import TableName, stem_of
from cdcwb.formats.containers.table_probe import columns_named, shown_columns
from cdcwb.formats.source import is_file
from cdcwb.model import Kind, Operation
from cdcwb.words import joined

PREFIX: Final = "header__"
"""The prefix of header columns, unless a task sets another."""

SUFFIX: Final = "__ct"
"""The suffix of change tables, unless a task sets another."""


class HeaderColumn(NamedTuple):
    """The meaning of a header column, and its documented width in bytes, None without one; that of the mask is in bytes
    of the mask, not of its text."""

    title: str
    width: int | None = None


HEADERS: Final = {
    "change_seq": HeaderColumn("order of the changes of the task", 35),
    "change_oper": HeaderColumn("operation", 1),
    "change_mask": HeaderColumn("columns that changed", 128),
    "stream_position": HeaderColumn("position in the source's log", 128),
    "operation": HeaderColumn("operation", 12),
    "transaction_id": HeaderColumn("transaction of the source", 32),
    "timestamp": HeaderColumn("time of the change, UTC"),
    "partition_name": HeaderColumn("period of the partition"),
}
"""The header columns without their prefix, in canonical order (§2.1)."""

_STRONG: Final = frozenset({"change_seq", "change_oper", "change_mask", "stream_position", "transaction_id"})
"""Names by which header columns with another prefix are recognised; the others may be columns of a table."""


class Meaning(NamedTuple):
    """The kind and operation of a row."""

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
"""``operation``; the documentation has two spellings of one (§3.1)."""

ROWS: Final = "changes"
LOAD: Final = "load"
CONTROL: Final = "control"
"""The roles of files: rows of a change table, of a full load, or of a control table."""

CONTROL_PREFIX: Final = "attrep_"
DDL_HISTORY: Final = "attrep_ddl_history"
EXCEPTIONS: Final = "attrep_apply_exceptions"
DDL_TRUNCATE: Final = "TRUNCATE_TABLE"

_CONTROL_TABLES: Final = {
    DDL_HISTORY: "timestamp server_name task_name table_owner table_name change_seq table_version ddl_type details",
    EXCEPTIONS: "error_time task_name table_owner table_name statement error",
    "attrep_status": "status_time server_name task_name task_status pending_changes disk_swap_size task_memory "
    "source_current_position source_current_timestamp source_tail_position source_tail_timestamp "
    "source_timestamp_applied",
    "attrep_suspended_tables": "suspend_timestamp server_name task_name table_owner table_name suspend_reason",
    "attrep_history": "timeslot server_name task_name timeslot_type timeslot_duration timeslot_latency "
    "timeslot_records timeslot_volume",
    "attrep_cdc_partitions": "server_name task_name partition_name partition_start_time partition_end_time "
    "table_owner table_name",
}
CONTROL_TABLES: Final = {name: tuple(columns.split()) for name, columns in _CONTROL_TABLES.items()}
"""The columns of each control table in lower case, to recognise it without its name (§6). The first is that of its
time, if it has one."""


# === names of tables and files ========================================================================================

_PARTITION: Final = re.compile(r"\d{8}T\d{6}_\d{8}T\d{6}$")
_LOAD: Final = re.compile(r"(^|[._-])load[._-]?\d*$", re.IGNORECASE)
_STAMP: Final = re.compile(r"^\d+$|(^|[._-])(\d{8}[-_T]?\d{6,9}|part-\d+.*|\d{8,})$")


class Place(NamedTuple):
    """The facts from a file's path: its table, whether that name had the suffix of change tables, and the part of the
    path with the name."""

    name: TableName
    suffixed: bool
    evidence: str


def without_suffix(name: str, suffix: str) -> str | None:
    """The name without the suffix (case-insensitive); None if it does not end in it."""
    if suffix and len(name) > len(suffix) and name.casefold().endswith(suffix.casefold()):
        return name[: -len(suffix)]
    return None


def from_path(path: str, suffix: str) -> Place:
    """The table of a file by its name, else by its folder's: ``SHOP.STOCK__ct/2026….csv``, ``SHOP.STOCK__ct.csv``,
    ``SHOP.STOCK__ct_2026….csv``, ``SHOP.STOCK/LOAD1.csv``."""
    stem = stem_of(path)
    load = _LOAD.search(stem)
    folders = [stem_of(part) for part in reversed(Path(path).parent.parts) if not _PARTITION.match(part)]
    folder = folders[0] if folders else ""
    for text, evidence in ((stem, "the file's name"), (folder, "the folder's name")):
        found = _with_suffix(text, suffix)
        if found is not None:
            return Place(TableName.of(found), True, f"{evidence} {text!r}")
    bare = stem[: load.start()] if load else _STAMP.sub("", stem)
    if bare:
        return Place(TableName.of(bare), False, f"the file's name {stem!r}")
    if folder:
        return Place(TableName.of(folder), False, f"the folder's name {folder!r}")
    return Place(TableName(None, stem), False, f"the file's name {stem!r}")


def _with_suffix(text: str, suffix: str) -> str | None:
    """The table in a name that ends in the suffix, or has it followed by a time."""
    match = re.match(rf"(.+?){re.escape(suffix)}[._-]", text, re.IGNORECASE | re.DOTALL) if suffix else None
    return without_suffix(text, suffix) or (match and match[1])


def side_file(path: str) -> str | None:
    """The ``.dfm`` next to a file: its name without one or two extensions. None if there is none."""
    folder, slash, name = path.rpartition("/")
    for _ in range(2):
        name = name.rpartition(".")[0]
        if not name:
            return None
        for extension in (".dfm", ".DFM"):
            beside = folder + slash + name + extension
            if is_file(beside):
                return beside
    return None


# === header and data columns ==========================================================================================

_LEAST: Final = 2  # known names that must share another prefix
_LEAST_BARE: Final = 3  # known names that must occur without a prefix


class Prefix(NamedTuple):
    """The prefix of header columns as spelled there, and the evidence."""

    text: str
    evidence: str


def find_prefix(names: Sequence[str], given: str | None = None) -> Prefix | None:
    """The prefix of the header columns; None without header columns. ``given`` is that of the option. Otherwise it is
    the default one if any column has it, else a common prefix of at least two known names (three for the empty prefix),
    of which one is not an ordinary word. Names are case-insensitive.
    """
    usual = PREFIX if given is None else given.casefold()
    having = [name for name in names if name.casefold().startswith(usual)]
    if usual and having:
        return Prefix(having[0][: len(usual)], shown_columns(having))
    if given:
        return None
    folded = [name.casefold() for name in names]
    candidates = [low[: -len(known)] for low in folded for known in HEADERS if low.endswith(known)]
    best, prefix = dict[str, int](), ""
    for candidate in dict.fromkeys(candidates if given is None else [""]):
        found = columns_named(names, HEADERS, candidate)
        least = _LEAST if candidate else _LEAST_BARE
        if len(found) >= least and found.keys() & _STRONG and (len(found), len(candidate)) > (len(best), len(prefix)):
            best, prefix = found, candidate
    if not best:
        return None
    columns = [names[at] for at in sorted(best.values())]
    return Prefix(columns[0][: len(prefix)], f"known names that follow it: {joined(columns)}")


def header_columns(names: Sequence[str], prefix: str | None) -> list[str]:
    """The header columns among these: those with the prefix (None: no columns are), or with an empty prefix the
    documented names."""
    if prefix is None:
        return []
    low = prefix.casefold()
    return [name for name in names if (name.casefold().startswith(low) if low else name.casefold() in HEADERS)]


def known_columns(names: Sequence[str], prefix: str | None) -> dict[str, str]:
    """The columns with the names of :data:`HEADERS`, by these names; of several the first."""
    found = {} if prefix is None else columns_named(names, HEADERS, prefix.casefold())
    return {known: names[at] for known, at in found.items()}


def control_table(table: str, names: Sequence[str]) -> str | None:
    """The control table, by its name, else by its columns; None if it is not one (§6)."""
    low = table.casefold()
    if low.startswith(CONTROL_PREFIX):
        return low
    folded = {name.casefold() for name in names}
    for control, columns in CONTROL_TABLES.items():
        if folded.issuperset(columns) and len(folded) <= len(columns) + 2:
            return control
    return None
