"""Generated GoldenGate captures read by nothing but regular expressions, to hold their truth against.

Logdump text is read line by line with the plainest means: what begins a record, what is hex, which bytes are a column.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

__all__ = ["OPERATIONS", "Record", "Story", "content", "image", "records", "stories", "truth", "walk"]

JULIAN = 210_866_760_000_000_000
_STARTS = (
    re.compile(r"TokenID (?:x47 'G' Record Header|G, Info)"),
    re.compile(r"_{20,}$"),
    re.compile(r"Hdr-Ind\s*:"),
    re.compile(r"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\.\d{3}) (\S+) +Len +(\d+) RBA (\d+)$"),
)
_PROMPT = re.compile(r"(Logdump\s*\d*\s*>\s*(?:n|next|pos \d+|open \S+)?)(_{20,})?$")
_NOISE = re.compile(r"Logdump|Current LogTrail is|Reading forward from RBA")
_HEX = re.compile(r" ?((?:[0-9a-f]{4} ?)*(?:[0-9a-f]{2})?) *[|:](?: |$)")
_PAIR = re.compile(r"([A-Za-z-]+(?: Time)?) *: *(?:(\S*?) *\(x([0-9a-f]+)\)|(\S+(?: [0-9:.]+)?))")
_COLUMN = re.compile(r"(Column|KeyCol) +(\d+) \(0?x[0-9a-f]+\), Len(?:gth)? +(\d+)")
_TOKEN = re.compile(
    r"TokenID (?:x([0-9a-f]{2}) '.' (\S.*?) +Info x\d\d|\S \(x([0-9a-f]{2})\), Info \d+,?) *,? *Length +(\d+)"
)
_PART = re.compile(r"TokenID (?:x[0-9a-f]{2} '([GHDTUZ])' [A-Z].*Info|([GHDTUZ]), Info).*?Length +(\d+)")
_NAMES = {"36": "TRANID", "4c": "LOGCSN", "52": "ORAROWID", "44": "DDL", "74": "ORATAG"}
OPERATIONS = {
    "Insert": "INSERT", "Delete": "DELETE", "FieldComp": "UPDATE", "GGSPKUpdate": "UPDATE",
    "GGSUnifiedUpdate": "UPDATE", "GGSUnifiedPKUpdate": "UPDATE", "GGSPurgedata": "TRUNCATE", "DDLOP": "DDL",
}  # fmt: skip
"""What records of changes do, by the names of their types."""
_ENDS = {".gz": gzip.decompress, ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}


@dataclass
class Record:
    """A record as its lines say."""

    file: int
    start: int
    stop: int = 0
    trail: str = ""
    values: dict[str, str] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    ghdr: bytes = b""
    time: str = ""
    operation: str = ""
    length: int = -1
    rba: int = -1
    name: str = ""
    index: int = 0
    is_before: bool = False
    letter: str = ""
    body: bytes = b""
    columns: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    fragment: tuple[int, int, int] | None = None
    halves: list[tuple[str, int]] = field(default_factory=list)
    tokens: dict[str, bytes] = field(default_factory=dict)
    user: dict[str, str] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    @property
    def position(self) -> str:
        """Ten digits of the trail file's number, ten of the RBA."""
        number = re.search(r"[0-9]+$", self.trail)
        return f"{int(number[0]) if number else 0:010d}{self.rba:010d}"

    @property
    def place(self) -> dict[str, int]:
        """Where it stands."""
        return {"file_index": self.file, "offset": self.start, "length": self.stop - self.start}

    def number(self, name: str) -> int:
        """A number of the header."""
        return int(self.values[name])


@dataclass
class Story:
    """A change, with its records and the id of its transaction."""

    records: list[Record]
    head: Record
    transaction: str
    outcome: str = "committed"


def truth(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of the truth; maps as dictionaries."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    for row in rows:
        for name in ("key", "before", "after", "headers", "changes", "lineage"):
            if row.get(name) is not None:
                row[name] = dict(row[name])
    return rows


def content(path: Path) -> bytes:
    """The decompressed bytes of a file."""
    return _ENDS.get(path.suffix, bytes)(path.read_bytes())


def paths(folder: Path) -> list[Path]:
    """The files of a capture in their order."""
    return sorted((folder / "capture").iterdir())


def records(folder: Path) -> Iterator[Record | tuple[int, int, int]]:
    """The records of a capture in its order, and as (file, start, stop) what is none."""
    trail = ""
    for number, path in enumerate(paths(folder)):
        lines: list[tuple[int, str]] = []
        at = 0
        for line in content(path).split(b"\n"):
            text = line.decode("latin-1").rstrip("\r")
            lines.append((at, text))
            at += len(line) + 1
        assert lines.pop()[1] == ""
        at -= 1
        current: Record | None = None
        stage, filler = -1, -1
        for start, text in lines:
            here, line = start, text.strip()
            prompt = _PROMPT.match(line)
            found = next((s for s, one in enumerate(_STARTS) if one.match(line)), -1)
            if prompt and prompt[2]:
                here, found = start + len(prompt[1]), 1
            begins = found >= 0 and (current is None or found <= stage)
            is_noise = bool(_NOISE.match(line)) and not (prompt and prompt[2])
            strange = current is not None and not begins and not is_noise and not _known(current, line)
            if begins or is_noise or strange:
                if current is not None:
                    current.stop = start
                    yield current
                    current = None
                if filler < 0 and (is_noise or strange or here > start):
                    filler = start
            elif current is None and filler < 0:
                filler = start
            if is_noise and "LogTrail" in line:
                trail = line.rpartition(" ")[2]
            if begins:
                if filler >= 0:
                    yield number, filler, here
                    filler = -1
                current, stage = Record(number, here, trail=trail), -1
            if current is not None:
                stage = max(stage, found)
                _take(current, line, text)
        if current is not None:
            current.stop = at
            yield current
        elif filler >= 0:
            yield number, filler, at


def _known(record: Record, line: str) -> bool:
    """Does a line behind a record's beginning belong to it?"""
    if record.operation == "Metadata":
        return record.text[-1:] != ["End of definition"] or not line
    known = ("TokenID", "GGS tokens", "User tokens", "Name:", "Before ", "After ", "Column", "KeyCol", "KeyLen", "TK-")
    return (
        not line
        or line.startswith((*known, "BeforeColumnLen"))
        or bool(_HEX.match(line) or _PAIR.match(line))
        or (not record.operation)
        or bool(_STARTS[3].match(line))
    )


def _take(record: Record, line: str, raw: str) -> None:
    """Takes in a line of a record."""
    state = record.__dict__.setdefault("state", "")
    found = _STARTS[3].match(line)
    if found:
        record.time, record.operation = found[1], found[2]
        record.length, record.rba = int(found[3]), int(found[4])
        record.__dict__["state"] = ""
    elif record.operation == "Metadata":
        if line:
            record.text.append(line)
    elif record.operation == "" and (part := _PART.match(line)):
        record.parts[part[1] or part[2]] = int(part[3])
        record.__dict__["state"] = "ghdr" if (part[1] or part[2]) == "H" else ""
    elif token := _TOKEN.match(line):
        record.__dict__["state"] = token[2] or _NAMES[token[1] or token[3]]
        record.tokens.setdefault(record.__dict__["state"], b"")
        record.__dict__["fresh"] = True
    elif line.startswith(("GGS tokens:", "User tokens:")):
        record.__dict__["state"] = line.split(maxsplit=1)[0]
    elif name := re.match(r"Name: ?(\S*)(?: +\(TDR Index: (\d+)\))?$", line):
        record.name, record.index = name[1], int(name[2] or 0)
    elif seen := re.match(r"(Before|After) +Image: *Partition x?\w+ +G (?: *)(\w)$", line):
        record.is_before, record.letter = seen[1] == "Before", seen[2]
        record.__dict__["state"] = "body"
    elif half := re.match(r"(Before|After) Image +Len +(\d+) \(x[0-9a-f]{8}\)$", line):
        record.halves.append((half[1], int(half[2])))
    elif lob := re.match(r"Column (\d+), LOB fragment (\d+) of (\d+)$", line):
        record.fragment = int(lob[1]), int(lob[2]), int(lob[3])
    elif column := _COLUMN.match(line):
        record.columns.append((column[1], int(column[2]), int(column[3]), b""))
        record.__dict__["state"] = "column"
    elif state == "User" and (pair := re.match(r"(\S+) *: (.*)$", line)):
        record.user[pair[1]] = pair[2]
    elif hexed := _HEX.match(raw if raw.startswith(" ") else " " + line):
        _hex(record, state, bytes.fromhex(hexed[1].replace(" ", "")))
    elif not record.operation and line and not line.startswith("_"):
        index = re.match(r"DDR/TDR index: +\((\d+), (\d+)\) +AuditPos *: (\d+)", line)
        if index:
            record.values |= {"DDR index": str(int(index[1])), "TDR index": str(int(index[2])), "AuditPos": index[3]}
            return
        for name, shown, code, plain in _PAIR.findall(line):
            if name in ("Hdr-Ind", "BeforeAfter", "FormatType", "Continued"):
                record.values[name] = shown
            else:
                record.values[name] = str(int(code, 16)) if code else plain


def _hex(record: Record, state: str, data: bytes) -> None:
    if state == "ghdr":
        record.ghdr += data
    elif state == "column":
        kind, index, length, there = record.columns[-1]
        record.columns[-1] = (kind, index, length, there + data)
    elif state in ("GGS", "User"):
        record.__dict__[f"raw {state}"] = record.__dict__.get(f"raw {state}", b"") + data
    elif state == "body" or (state == "" and record.operation == "FileHeader"):
        record.body += data
    else:
        if record.__dict__.pop("fresh", False):
            record.tokens[state] = b""
        record.tokens[state] += data


# --- changes ----------------------------------------------------------------------------------------------------------


def stories(found: list[Record]) -> Iterator[Story]:
    """The changes of records with header blocks, in their order."""
    waiting: list[Record] = []  # of the transaction that is open
    for record in sorted(found, key=lambda one: one.position):
        if record.operation in ("FileHeader", "Metadata", "RestartOK"):
            continue
        if record.operation == "RestartAbend":
            name = _name(waiting)
            name = name if name.startswith("~") else f"{name}@{waiting[0].position}"
            yield from _changes(waiting, name, "rolled_back")
            waiting = []
            continue
        place = record.number("TransInd")
        assert (place in (0, 3)) == (not waiting)
        assert record.letter == "bmes"[place]
        waiting.append(record)
        if place in (2, 3):
            yield from _changes(waiting, _name(waiting), "committed")
            waiting = []
    assert not waiting


def _name(records: list[Record]) -> str:
    named = [record.tokens["TRANID"].decode() for record in records if "TRANID" in record.tokens]
    assert len(set(named)) <= 1
    return named[0] if named else f"~{records[0].position}"


def _changes(records: list[Record], name: str, outcome: str) -> Iterator[Story]:
    group: list[Record] = []
    for record in records:
        continues = record.operation in ("LargeObject", "RecordFragment") or (
            group != [] and group[-1].values["Continued"] == "Y"
        )
        is_second = len(group) == 1 and group[0].operation == "FieldComp" and group[0].is_before
        if group and not continues and not is_second:
            yield _story(group, name, outcome)
            group = []
        group.append(record)
    if group:
        yield _story(group, name, outcome)


def _story(group: list[Record], name: str, outcome: str) -> Story:
    is_pair = len(group) > 1 and group[0].operation == "FieldComp" and group[0].is_before
    return Story(group, group[is_pair], name, outcome)


def walk(body: bytes, order: Any) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of the columns of a body; a column that is not whole is left out."""
    at = 0
    while at + 4 <= len(body):
        index, size = (int.from_bytes(body[at + n : at + n + 2], order) for n in (0, 2))
        if at + 4 + size > len(body):
            return
        yield index, body[at + 4 : at + 4 + size]
        at += 4 + size


def value(data: bytes, column: dict[str, Any] | None, order: Any) -> str | None:
    """A column's bytes as text."""
    if data == b"\xff\xff":
        return None
    assert data[:2] == b"\0\0"
    rest = data[2:]
    kind = column["type"] if column else ""
    if kind.startswith(("132", "134")) or (not kind and len(rest) in (4, 8) and not _is_text(rest, order)):
        return str(int.from_bytes(rest, "big", signed=True))
    if kind.startswith("192") or (not kind and not _is_text(rest, order)):
        return rest.decode()
    assert int.from_bytes(rest[:2], order) == len(rest) - 2
    text = rest[2:].decode()
    return text.rstrip(" ") if kind.startswith("0 ") else text


def _is_text(rest: bytes, order: Any) -> bool:
    return len(rest) >= 2 and int.from_bytes(rest[:2], order) == len(rest) - 2


def image(
    body: bytes, columns: list[dict[str, Any]], order: Any, lobs: dict[int, bytes] | None = None, defined: bool = True
) -> dict[str, str | None]:
    """The columns of an image by name."""
    found: dict[str, str | None] = {}
    for index, data in walk(body, order):
        column = columns[index]
        if lobs is not None and index in lobs:
            held = lobs[index]
            try:
                found[column["name"]] = held.decode()
            except UnicodeDecodeError:
                found[column["name"]] = held.hex()
        else:
            found[column["name"]] = value(data, column if defined else None, order)
    return found


def utc(record: Record) -> datetime:
    """The time in a record's header token."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=julian(record))


def julian(record: Record) -> int:
    """The same in microseconds since 1970; its byte order is the one in which the years are not far away."""
    found = [int.from_bytes(record.ghdr[8:16], order) - JULIAN for order in ("little", "big")]
    return min(found, key=lambda one: abs(one - 1_700_000_000_000_000))


def facts(folder: Path) -> dict[str, Any]:
    """What the truth counts."""
    told: dict[str, Any] = json.loads((folder / "truth" / "facts.json").read_text())
    return told
