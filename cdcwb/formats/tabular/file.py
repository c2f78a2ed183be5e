"""What has to be known of a file to read its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from cdcwb.formats.tabular.dialect import Dialect
from cdcwb.formats.tabular.names import numbered

__all__ = ["BROKEN", "CSV", "EVERYTHING", "EXCEL", "JSON", "PARQUET", "FileProbe"]

CSV: Final = "csv"
JSON: Final = "json"
PARQUET: Final = "parquet"
EXCEL: Final = "excel"
BROKEN: Final = "broken"

EVERYTHING: Final = 1 << 62
"""A stop behind the end of every file."""


@dataclass(frozen=True, slots=True)
class FileProbe:
    """What a file is, and how it is read.

    * ``kind``: csv (any delimited text), json (objects, one a row), parquet, excel (.xlsx), or broken: no table
    * ``names``: its columns in file order; None where it has no header line. ``width``: how many there are
    * ``charset`` and ``dialect``: of delimited text; ``delimiter_from``: why that delimiter
    * ``settings``: of JSON those of the container (:mod:`cdcwb.formats.messages`); of Excel ``sheet`` and ``sheets``
    * ``size``: bytes of the plain file; 0 for a compressed one, which only reading tells. ``compression``: gzip, zstd
    * ``first``: where its first record begins, behind byte order mark and header line: a byte, or in Excel a row
      from 0 as the sheet counts. ``header``: it has a header line, whose text is ``heading``
    * ``groups``: rows and packed bytes of each row group of a Parquet file
    * ``problem``: why it is broken, or what is wrong with it
    * ``first_row``: the first record, header line or not; ``sample``: the first rows behind the header line. Texts as
      :meth:`Rows.text` gives them, None for NULL
    """

    path: str
    kind: str
    names: tuple[str, ...] | None = None
    width: int = 0
    charset: str = "utf-8"
    dialect: Dialect | None = None
    delimiter_from: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    compression: str | None = None
    first: int = 0
    header: bool = False
    heading: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    problem: str | None = None
    first_row: tuple[str | None, ...] = ()
    sample: tuple[tuple[str | None, ...], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, ``column_1`` and so on where it has none."""
        return numbered(self.width) if self.names is None else self.names

    def called(self, names: Sequence[str]) -> FileProbe:
        """The same file with other names of its columns. Raises ValueError for another number of them; only a sheet may
        have more, whose first rows need not have a value in the last columns."""
        if len(names) != self.width and (self.kind != EXCEL or len(names) < self.width):
            raise ValueError(f"expected names for {self.width} columns, found {len(names)}")
        return replace(self, names=tuple(names), width=len(names))

    def without_rows(self) -> FileProbe:
        """The same file without the rows that were looked at."""
        return replace(self, first_row=(), sample=())

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold, without the rows that were looked at."""
        raw = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("first_row", "sample")}
        dialect = None if self.dialect is None else self.dialect.to_dict()
        return raw | {"dialect": dialect, "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> FileProbe:
        """What :meth:`to_dict` gave."""
        dialect = None if raw["dialect"] is None else Dialect.from_dict(raw["dialect"])
        names = None if raw["names"] is None else tuple(raw["names"])
        groups = tuple((rows, packed) for rows, packed in raw["groups"])
        return cls(**{**raw, "dialect": dialect, "names": names, "groups": groups})
