"""What has to be known before a capture can be read in pieces: files, tables, versions, splits.

A plan is made once and travels to the workers as one text. It grows with the number of files, versions and splits,
never with the number of rows.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdcwb.formats.qlik_change_table.layout import Layout
from cdcwb.formats.qlik_change_table.names import TableName
from cdcwb.formats.qlik_change_table.side_files import Column
from cdcwb.formats.tabular.dialect import Dialect

__all__ = ["FileEntry", "MaskSettings", "Plan", "Shape", "SplitEntry", "TableEntry", "Version"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How the files of one kind are read. ``kind``: csv, json, parquet or rows."""

    kind: str
    layout: Layout
    dialect: Dialect | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the container of JSON

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        dialect = None if self.dialect is None else self.dialect.to_dict()
        return {
            "kind": self.kind,
            "layout": self.layout.to_list(),
            "dialect": dialect,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Shape:
        """What :meth:`to_dict` gave."""
        dialect = None if raw["dialect"] is None else Dialect.from_dict(raw["dialect"])
        return cls(raw["kind"], Layout.from_list(raw["layout"]), dialect, raw["settings"])


@dataclass(frozen=True, slots=True)
class MaskSettings:
    """How the masks of a table are read: byte order, bit of the first data column, and how texts spell them (None:
    hexadecimal unless they cannot be)."""

    order: str
    offset: int
    spelling: str | None = None


@dataclass(slots=True)
class TableEntry:
    """A table. ``control``: which control table it is, None for those of users. ``key``: its key columns where no
    version names them, or where they were ``given`` as an option."""

    schema: str | None
    table: str
    control: str | None = None
    masks: MaskSettings | None = None
    key: list[str] = field(default_factory=list)
    given: bool = False

    @property
    def name(self) -> TableName:
        """Its name."""
        return TableName(self.schema, self.table)


@dataclass(slots=True)
class Version:
    """One version of a table. ``key`` is its table_version; ``file_index``, ``offset`` and ``length`` the place of the
    event that brought it, -1 where none did; ``position`` the change sequence of a DDL."""

    table: int
    key: str
    columns: list[Column]
    origin: str
    text: str
    lineage: dict[str, str]
    file_index: int = -1
    offset: int = -1
    length: int = -1
    position: str | None = None


@dataclass(slots=True)
class FileEntry:
    """One data file. ``size``: bytes of the decompressed file; ``rows``: how many rows it holds. ``first`` is where its
    first record begins, behind byte order mark and header line (``header``: it has one)."""

    path: str
    role: str
    table: int
    version: int
    shape: int
    size: int = 0
    rows: int | None = None
    compression: str | None = None
    problem: str | None = None
    first: int = 0
    header: bool = False


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """The records of a file that begin in ``[start, stop)``: bytes, or row groups of a Parquet file."""

    file: int
    start: int
    stop: int


@dataclass(slots=True)
class Plan:
    """How a capture is read."""

    files: list[FileEntry]
    tables: list[TableEntry]
    versions: list[Version]
    shapes: list[Shape]
    splits: list[SplitEntry]
    charset: str
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """The plan as one line of ASCII text, to travel in an option."""
        raw = {
            "files": [asdict(entry) for entry in self.files],
            "tables": [asdict(entry) for entry in self.tables],
            "versions": [asdict(entry) for entry in self.versions],
            "shapes": [entry.to_dict() for entry in self.shapes],
            "splits": [[entry.file, entry.start, entry.stop] for entry in self.splits],
            "charset": self.charset,
            "detected": self.detected,
            "problems": self.problems,
            "facts": self.facts,
        }
        return base64.b64encode(zlib.compress(json.dumps(raw).encode())).decode("ascii")

    def key_of(self, entry: FileEntry) -> list[str]:
        """The key columns of a file's rows: the given ones, else those of its version, else those of its table."""
        table = self.tables[entry.table]
        own: list[Column] = [] if entry.version < 0 else self.versions[entry.version].columns
        keyed = sorted((one.key_position, one.name) for one in own if one.key_position is not None)
        return table.key if table.given or not keyed else [name for _, name in keyed]

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that :meth:`to_text` wrote."""
        raw = json.loads(zlib.decompress(base64.b64decode(text)))
        tables = [
            TableEntry(**{**entry, "masks": None if entry["masks"] is None else MaskSettings(**entry["masks"])})
            for entry in raw["tables"]
        ]
        versions = [
            Version(**{**entry, "columns": [Column(**column) for column in entry["columns"]]})
            for entry in raw["versions"]
        ]
        return cls(
            [FileEntry(**entry) for entry in raw["files"]],
            tables,
            versions,
            [Shape.from_dict(entry) for entry in raw["shapes"]],
            [SplitEntry(*entry) for entry in raw["splits"]],
            raw["charset"],
            raw["detected"],
            raw["problems"],
            raw["facts"],
        )
