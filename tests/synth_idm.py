"""Generated event logs read by nothing but csv, json, openpyxl, pyarrow and regular expressions, to hold their truth
against."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet as pq
import zstandard

__all__ = ["COLUMNS", "OLDER_ORDER", "Stored", "content", "facts", "fields", "settings", "snapshot", "stored", "truth"]

COLUMNS = (
    "record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name", "column_name",
    "old_value", "new_value",
)  # fmt: skip
OLDER_ORDER = (*COLUMNS[:1], *COLUMNS[2:7], COLUMNS[1], *COLUMNS[7:])
_ENDS = {".gz": gzip.decompress, ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}
_LITERAL = re.compile(r"NULL|-?[0-9]+|(?:TIMESTAMP )?'((?:[^']|'')*)'")


@dataclass
class Stored:
    """A row as it stands in a file; None is NULL."""

    file: int
    offset: int
    length: int
    values: dict[str, str | None]

    @property
    def place(self) -> dict[str, int]:
        """Where it stands."""
        return {"file_index": self.file, "offset": self.offset, "length": self.length}

    @property
    def kind(self) -> int | None:
        """Its event type, None where it is none."""
        text = self.values["event_type"]
        return int(text) if text is not None and text in [*"12345678"] else None

    @property
    def number(self) -> int | None:
        """Its record_id, None where it is unusable."""
        text = self.values["record_id"] or ""
        return int(text) if re.fullmatch("[0-9]*[1-9][0-9]*", text) else None

    def __getitem__(self, name: str) -> str | None:
        return self.values[name]


def truth(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of the truth; maps as dictionaries."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    for row in rows:
        for name in ("key", "before", "after", "headers", "lineage"):
            if row.get(name) is not None:
                row[name] = dict(row[name])
    return rows


def settings(folder: Path) -> dict[str, Any]:
    """The settings of the truth, by the names that publishing knows them by; what is not set is left out."""
    told: dict[str, Any] = json.loads((folder / "truth" / "settings.json").read_text(encoding="utf-8"))
    return {name: value for name, value in told.items() if value is not None}


def facts(folder: Path) -> dict[str, Any]:
    """What there is how many of."""
    told: dict[str, Any] = json.loads((folder / "truth" / "facts.json").read_text(encoding="utf-8"))
    return told


def snapshot(folder: Path) -> dict[str, Path]:
    """The files with the tables' contents at the end, by table_name as the log has it."""
    return {name: folder / "truth" / path for name, path in facts(folder)["snapshot"].items()}


def content(path: Path) -> bytes:
    """The decompressed bytes of a file."""
    return _ENDS.get(path.suffix, bytes)(path.read_bytes())


def stored(folder: Path) -> list[Stored]:
    """All rows in capture order."""
    options = json.loads((folder / "synth.json").read_text(encoding="utf-8"))["options"]
    container, header = options["container"], options["header"] and options["container"] != "csv_older_order"
    order = OLDER_ORDER if container == "csv_older_order" else COLUMNS
    rows = []
    for number, name in enumerate(facts(folder)["files"]):
        path = folder / "capture" / name
        match container:
            case "parquet":
                found: Any = _parquet(path)
            case "xlsx":
                found = _excel(path, header)
            case "jsonl":
                found = _lines(content(path))
            case "sql":
                found = _statements(content(path).decode(), header)
            case _:
                found = fields(content(path), "\t" if container == "tsv" else ",", options["null_text"])
                if header:
                    assert next(found)[2] == [*COLUMNS]
        rows += [Stored(number, at, size, dict(zip(order, values, strict=True))) for at, size, values in found]
    return rows


def fields(data: bytes, delimiter: str = ",", null: str = "") -> Iterator[tuple[int, int, list[str | None]]]:
    """Offset, length and fields of each record of delimited text. Python's csv cannot tell NULL from an empty text, so
    fields are cut here and held against csv."""
    plain = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, strict=True)
    bare = delimiter.encode()
    pattern = re.compile(rb'"((?:[^"]|"")*)"(?=[\n%b])|[^"\n%b]*(?=[\n%b])' % (bare, bare, bare))
    at = start = 0
    record: list[str | None] = []
    while at < len(data):
        found = pattern.match(data, at)
        assert found is not None, data[at : at + 40]
        text = found[0].decode() if found[1] is None else found[1].replace(b'""', b'"').decode()
        record.append(None if found[1] is None and text == null else text)
        at = found.end() + 1
        if data[at - 1 : at] == b"\n":
            assert [null if one is None else one for one in record] == next(plain)
            yield start, at - start, record
            record, start = [], at
    assert not record
    assert next(plain, None) is None


def _parquet(path: Path) -> Iterator[tuple[int, int, list[str | None]]]:
    for at, row in enumerate(pq.read_table(path).to_pylist()):
        assert [*row] == [*COLUMNS]
        yield at, 1, [None if value is None else str(value) for value in row.values()]


def _excel(path: Path, header: bool) -> Iterator[tuple[int, int, list[str | None]]]:
    with closing(openpyxl.load_workbook(path, read_only=True)) as book:
        rows = [*book[book.sheetnames[0]].iter_rows(values_only=True, max_col=len(COLUMNS))]
    if header:
        assert rows[0] == COLUMNS
    for at, row in enumerate(rows):
        if at or not header:
            yield at, 1, [None if value is None else str(value) for value in row]


def _lines(data: bytes) -> Iterator[tuple[int, int, list[str | None]]]:
    at = 0
    for line in data.split(b"\n")[:-1]:
        row = json.loads(line, parse_int=str)
        assert [*row] == [*COLUMNS]
        yield at, len(line) + 1, [*row.values()]
        at += len(line) + 1


def _statements(script: str, header: bool) -> Iterator[tuple[int, int, list[str | None]]]:
    begin = re.compile(r"INSERT INTO \w+" + (re.escape(f" ({', '.join(COLUMNS)})") if header else "") + r" VALUES\s+")
    at = script.index("\n") + 1
    assert script.startswith("-- ")
    is_begin = True
    while at < len(script):
        start = at
        if is_begin:
            opening = begin.match(script, at)
            assert opening is not None
            at = opening.end()
        row: list[str | None] = []
        while len(row) < len(COLUMNS):
            at += 2 if row else 1  # over ", " or "("
            found = _LITERAL.match(script, at)
            assert found is not None, script[at : at + 40]
            quoted = found[1]
            row.append(quoted.replace("''", "'") if quoted is not None else None if found[0] == "NULL" else found[0])
            at = found.end()
        behind = re.compile(r"\)(;\n|,\n)").match(script, at)
        assert behind is not None
        at, is_begin = behind.end(), behind[1] == ";\n"
        yield len(script[:start].encode()), len(script[start:at].encode()), row
    assert is_begin
