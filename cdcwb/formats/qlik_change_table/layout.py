"""Constants of change tables: names, widths and codes; the table of a file; header columns
(docs/formats/qlik-change-table.md §1, §2, §3, §6)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from cdcwb.errors import OptionError
from cdcwb.formats import bitmask
from cdcwb.formats import options as opt
from cdcwb.formats.source import is_file
from cdcwb.formats.tabular import parts, rows
from cdcwb.formats.tabular.file import DIALECT_OPTIONS, TOKENS, Dialect, TableName, charset_of, stem_of, tokens_of
from cdcwb.model import Kind, Operation
from cdcwb.words import joined, unique_names

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
    "OPTIONS",
    "PREFIX",
    "ROLES",
    "ROWS",
    "STRONG",
    "SUFFIX",
    "TOKENS",
    "WIDTHS",
    "Layout",
    "Meaning",
    "Options",
    "Part",
    "Place",
    "Prefix",
    "Rows",
    "TableName",
    "control_table",
    "find_prefix",
    "from_path",
    "lay_out",
    "side_file",
    "without_suffix",
]


# === names, widths and codes ==========================================================================================

FORMAT: Final = "qlik-change-table"

PREFIX: Final = "header__"
"""The prefix of header columns, unless a task sets another."""

SUFFIX: Final = "__ct"
"""The suffix of change tables, unless a task sets another."""

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
"""The header columns without their prefix, in canonical order (§2.1)."""

STRONG: Final = frozenset({"change_seq", "change_oper", "change_mask", "stream_position", "transaction_id"})
"""Names by which header columns with another prefix are recognised; the others may be columns of a table."""

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
ROLES: Final = (ROWS, LOAD, CONTROL)
"""The roles of files: rows of a change table, of a full load, or of a control table."""

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
"""The columns of each control table in lower case, to recognise it without its name (§6)."""

CONTROL_TIMES: Final = {
    DDL_HISTORY: "timestamp",
    EXCEPTIONS: "error_time",
    "attrep_status": "status_time",
    "attrep_suspended_tables": "suspend_timestamp",
    "attrep_history": "timeslot",
}
"""The time column of each control table."""


# === names of tables and files ========================================================================================

_PARTITION: Final = re.compile(r"\d{8}T\d{6}_\d{8}T\d{6}$")
_LOAD: Final = re.compile(r"(^|[._-])load[._-]?\d*$", re.IGNORECASE)
_STAMP: Final = re.compile(r"^\d+$|(^|[._-])(\d{8}[-_T]?\d{6,9}|part-\d+.*|\d{8,})$")


class Place(NamedTuple):
    """The facts from a file's path: its table, whether that name had the suffix of change tables, whether the file name
    is that of a full load, and the part of the path with the name."""

    name: TableName
    suffixed: bool
    load: bool
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
            return Place(TableName.of(found), True, False, f"{evidence} {text!r}")
    bare = stem[: load.start()] if load else _STAMP.sub("", stem)
    if bare:
        return Place(TableName.of(bare), False, load is not None, f"the file's name {stem!r}")
    if folder:
        return Place(TableName.of(folder), False, load is not None, f"the folder's name {folder!r}")
    return Place(TableName(None, stem), False, load is not None, f"the file's name {stem!r}")


def _with_suffix(text: str, suffix: str) -> str | None:
    """The table in a name that ends in the suffix, or has it followed by a time."""
    if not suffix:
        return None
    found = without_suffix(text, suffix)
    if found is not None:
        return found
    match = re.match(rf"(.+?){re.escape(suffix)}[._-]", text, re.IGNORECASE | re.DOTALL)
    return match[1] if match else None


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


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file in order: ``names`` (unique), and the indexes of ``header`` and ``data`` columns among
    them. ``known`` maps the names of :data:`facts.HEADERS` to indexes."""

    names: tuple[str, ...]
    header: tuple[int, ...]
    data: tuple[int, ...]
    known: Mapping[str, int]

    @property
    def data_names(self) -> list[str]:
        """The names of the data columns."""
        return [self.names[place] for place in self.data]


Rows: TypeAlias = rows.Rows[Layout]
Part: TypeAlias = parts.Part[Layout]


def find_prefix(names: Sequence[str], given: str | None = None) -> Prefix | None:
    """The prefix of the header columns; None without header columns. ``given`` is that of the option. Otherwise it is
    the default one if any column has it, else a common prefix of at least two known names (three for the empty prefix),
    of which one is not an ordinary word. Names are case-insensitive.
    """
    folded = [name.casefold() for name in names]
    usual = PREFIX if given is None else given.casefold()
    if usual:
        having = [name for name, low in zip(names, folded, strict=True) if low.startswith(usual)]
        if having:
            return Prefix(having[0][: len(usual)], f"columns {joined(having[:8])}")
    if given:
        return None
    found: dict[str, list[str]] = {}
    for name, low in zip(names, folded, strict=True):
        for known in HEADERS:
            if low.endswith(known) and (given is None or low == known):
                found.setdefault(low[: len(low) - len(known)], []).append(name)
    prefixes = [
        (prefix, having)
        for prefix, having in found.items()
        if len(having) >= (_LEAST if prefix else _LEAST_BARE)
        and any(name.casefold()[len(prefix) :] in STRONG for name in having)
    ]
    if not prefixes:
        return None
    prefix, having = max(prefixes, key=lambda pair: (len(pair[1]), len(pair[0])))
    return Prefix(having[0][: len(prefix)], f"known names that follow it: {joined(having[:8])}")


def lay_out(names: Sequence[str], prefix: str | None) -> Layout:
    """Separates header columns from data columns; ``prefix`` None: no header columns. With an empty prefix only known
    names are header columns."""
    shown = unique_names(names)
    header: list[int] = []
    known: dict[str, int] = {}
    low = "" if prefix is None else prefix.casefold()
    for place, name in enumerate(names):
        folded = name.casefold()
        rest = folded[len(low) :] if folded.startswith(low) else None
        if prefix is None or rest is None or (not low and rest not in HEADERS):
            continue
        header.append(place)
        if rest in HEADERS:
            known.setdefault(rest, place)
    headers = set(header)
    data = tuple(place for place in range(len(names)) if place not in headers)
    return Layout(shown, tuple(header), data, known)


def control_table(table: str, names: Sequence[str]) -> str | None:
    """The control table, by its name, else by its columns; None if it is not one (§6)."""
    low = table.casefold()
    if low.startswith(CONTROL_PREFIX):
        return low
    folded = {name.casefold() for name in names}
    for control, columns in CONTROL_COLUMNS.items():
        if columns <= folded and len(folded) <= len(columns) + 2:
            return control
    return None


# --- options ----------------------------------------------------------------------------------------------------------

_SPLIT_SIZE: Final = 32 << 20
OPTIONS: Final[dict[str, str]] = {
    "prefix": "prefix of the names of header columns: auto, or the text (header__)",
    "suffix": f"suffix of the names of change tables ({SUFFIX})",
    "table": "schema.table of all rows: auto (from side files, else from the names of files and folders), or the name",
    "mask_order": f"byte order of change masks: auto, {', '.join(bitmask.ORDERS)}",
    "mask_offset": "bit of the first data column in change masks: auto, or a number",
    "mask_text": f"text form of change masks: auto, {bitmask.HEX}, {bitmask.BASE64}",
    "charset": "character set of text (utf-8)",
    "header": "delimited files begin with a line of column names: auto, true, false",
    **DIALECT_OPTIONS,
    "split_size": f"bytes of a large file that one task reads ({_SPLIT_SIZE})",
    **opt.SHARED,
}
"""The description of every option of the format."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected. ``tokens`` are the given parts of the dialect."""

    prefix: str | None = None
    suffix: str = SUFFIX
    table: str | None = None
    mask_order: str | None = None
    mask_offset: int | None = None
    mask_text: str | None = None
    charset: str = "utf-8"
    header: bool | None = None
    tokens: Mapping[str, bytes] = field(default_factory=dict)
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    keys: Mapping[str, list[str]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        opt.check_names(given, OPTIONS, FORMAT)
        values = opt.given_of(given)
        charset = charset_of(values)
        return cls(
            prefix=opt.optional("prefix", values, opt.as_text),
            suffix=str(values.get("suffix", SUFFIX)),
            table=opt.optional("table", values, opt.as_text),
            mask_order=opt.optional("mask_order", values, opt.as_choice, ("auto", *bitmask.ORDERS)),
            mask_offset=opt.optional("mask_offset", values, opt.as_whole, 0),
            mask_text=opt.optional("mask_text", values, opt.as_choice, ("auto", bitmask.HEX, bitmask.BASE64)),
            charset=charset,
            header=opt.optional("header", values, opt.as_bool),
            tokens=tokens_of(values, TOKENS, charset),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            keys=opt.parse_keys(values.get("keys")),
            given=frozenset(values),
        )

    def dialect(self, found: Dialect) -> Dialect:
        """A dialect with the given parts. Raises OptionError if they contradict each other."""
        if not self.tokens:
            return found
        changes: dict[str, Any] = dict(self.tokens)
        if "record" in changes:
            changes["crlf"] = False
        try:
            return replace(found, **changes)
        except ValueError as reason:
            raise OptionError(f"options {', '.join(self.token_options)}: {reason}") from None

    @property
    def token_options(self) -> list[str]:
        """The options for ``tokens``."""
        return [name for name, token in TOKENS.items() if token in self.tokens]
