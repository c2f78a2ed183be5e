"""What has to be known before a capture can be read in pieces: files, columns, tables, splits.

A plan is made once and travels to the workers as one text. It grows with the number of files, splits and tables, never
with the number of rows.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, Final

from cdcwb.formats.base import Piece
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.formats.tabular import FileProbe

__all__ = ["ROW", "ROWS", "SQL", "FileEntry", "Plan", "SplitEntry", "TableEntry", "pieces_of"]

SQL: Final = "sql"
ROWS: Final = "rows"
"""Kinds of files besides those of :class:`FileProbe`: a dump of statements, and a table of rows."""

ROW: Final = "_row"
"""The column that numbers the rows of a table that is a capture."""


@dataclass(slots=True)
class FileEntry:
    """One file. ``labels``: the vendor's names -> the source's, of the columns that it has; ``null_text``: what stands
    for NULL besides that which the container has. ``size``: bytes of the decompressed file; ``rows``: how many records
    it holds, damaged ones too."""

    probe: FileProbe
    labels: Mapping[str, str]
    null_text: str = ""
    size: int = 0
    rows: int | None = None
    problem: str | None = None

    @property
    def absent(self) -> frozenset[str]:
        """The columns that it does not have."""
        return frozenset(COLUMNS) - self.labels.keys()

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return {
            "probe": self.probe.to_dict(),
            "labels": dict(self.labels),
            "null_text": self.null_text,
            "size": self.size,
            "rows": self.rows,
            "problem": self.problem,
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> FileEntry:
        """What :meth:`to_dict` gave."""
        return cls(**{**raw, "probe": FileProbe.from_dict(raw["probe"])})


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """The records of a file that begin in ``[start, stop)``: bytes, rows of an Excel sheet, or row groups of a Parquet
    file. ``before``: how many records of the capture stand before them; ``highest``: of their record_ids, 0 for
    none."""

    file: int
    start: int
    stop: int
    before: int
    highest: int = 0


@dataclass(slots=True)
class TableEntry:
    """A table that the log tells of: the columns of its keys, and the others in the order in which they are named."""

    schema: str | None
    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """``schema.table``, or ``table`` where there is no schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def version(self) -> str:
        """Its only version."""
        return f"{self.label}@1"

    @property
    def names(self) -> list[str]:
        """All columns, those of the key first."""
        return list(dict.fromkeys([*self.keys, *self.columns]))


@dataclass(slots=True)
class Plan:
    """How a capture is read. ``zone`` is that of event_time, ``schema`` that of tables named without one."""

    files: list[FileEntry]
    splits: list[SplitEntry] = field(default_factory=list)
    tables: list[TableEntry] = field(default_factory=list)
    charset: str = "utf-8"
    zone: str = "UTC"
    schema: str | None = None
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """The plan as one line of ASCII text, to travel in an option."""
        raw = {
            "files": [entry.to_dict() for entry in self.files],
            "splits": [list(astuple(entry)) for entry in self.splits],
            "tables": [asdict(entry) for entry in self.tables],
            "charset": self.charset,
            "zone": self.zone,
            "schema": self.schema,
            "detected": self.detected,
            "problems": self.problems,
            "facts": self.facts,
        }
        return base64.b64encode(zlib.compress(json.dumps(raw).encode())).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that :meth:`to_text` wrote."""
        raw = json.loads(zlib.decompress(base64.b64decode(text)))
        return cls(
            **{
                **raw,
                "files": [FileEntry.from_dict(entry) for entry in raw["files"]],
                "splits": [SplitEntry(*entry) for entry in raw["splits"]],
                "tables": [TableEntry(**entry) for entry in raw["tables"]],
            }
        )


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each split follow from: its file, and how that is read. How many records stand before them
    only numbers those of a log without record ids."""
    for split in plan.splits:
        yield [_piece(plan, split)]


def _piece(plan: Plan, split: SplitEntry) -> Piece:
    entry = plan.files[split.file]
    context: dict[str, Any] = {
        "file": entry.to_dict(),
        "start": split.start,
        "stop": split.stop,
        "before": None if "record_id" in entry.labels else split.before,
        "schema": plan.schema,
        "zone": plan.zone,
    }
    return Piece((entry.probe.path,), json.dumps(context))
