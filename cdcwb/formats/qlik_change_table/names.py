"""Which table a file belongs to, and which side file it has (docs/formats/qlik-change-table.md §1)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Place", "TableName", "from_path", "side_file", "without_suffix"]

_EXTENSIONS: Final = re.compile(
    r"(\.(csv|tsv|txt|dat|json|jsonl|ndjson|parquet|pq|gz|gzip|zst|zstd|snappy|lz4))+$", re.IGNORECASE
)
_PARTITION: Final = re.compile(r"\d{8}T\d{6}_\d{8}T\d{6}$")
_LOAD: Final = re.compile(r"(^|[._-])load[._-]?\d*$", re.IGNORECASE)
_STAMP: Final = re.compile(r"^\d+$|(^|[._-])(\d{8}[-_T]?\d{6,9}|part-\d+.*|\d{8,})$")


class TableName(NamedTuple):
    """A table: its schema (None: not known) and its name without the suffix of change tables."""

    schema: str | None
    table: str

    @property
    def label(self) -> str:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @classmethod
    def of(cls, text: str) -> TableName:
        """From ``schema.table`` or ``table``."""
        schema, _, table = text.rpartition(".")
        return cls(schema or None, table)


class Place(NamedTuple):
    """What the place of a file says: its table, whether that name had the suffix of change tables, whether the file is
    called as those of a full load are, and which part of the path said it."""

    name: TableName
    suffixed: bool
    load: bool
    evidence: str


def without_suffix(name: str, suffix: str) -> str | None:
    """The name without the suffix, compared without case; None where it does not end in it."""
    if suffix and len(name) > len(suffix) and name.casefold().endswith(suffix.casefold()):
        return name[: -len(suffix)]
    return None


def from_path(path: str, suffix: str) -> Place:
    """The table of a file by its name, else by its folder's: ``SHOP.STOCK__ct/2026….csv``, ``SHOP.STOCK__ct.csv``,
    ``SHOP.STOCK__ct_2026….csv``, ``SHOP.STOCK/LOAD1.csv``."""
    stem = _EXTENSIONS.sub("", Path(path).name)
    load = _LOAD.search(stem)
    folders = [_EXTENSIONS.sub("", part) for part in reversed(Path(path).parent.parts) if not _PARTITION.match(part)]
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
    """The table in a name that ends in the suffix, or has it in front of something like a time."""
    if not suffix:
        return None
    found = without_suffix(text, suffix)
    if found is not None:
        return found
    match = re.match(rf"(.+?){re.escape(suffix)}[._-]", text, re.IGNORECASE | re.DOTALL)
    return match[1] if match else None


def side_file(path: str) -> str | None:
    """The ``.dfm`` beside a file: of its name without one extension or two. None where there is none."""
    file = Path(path)
    name = file.name
    for _ in range(2):
        name = name.rpartition(".")[0]
        if not name:
            return None
        for extension in (".dfm", ".DFM"):
            beside = file.with_name(name + extension)
            if beside.is_file():
                return str(beside)
    return None
