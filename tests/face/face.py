"""What users see of a capture, as readable JSON: commands, tables, field trees, and facts of pages.

Nothing here knows how it is computed: commands are run as users run them, tables are read from what ``cdcwb save``
wrote, and pages are those of the notebooks.
"""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

import cdcwb
from cdcwb.report import run_suite
from cdcwb.report.suite import Suite
from cdcwb.views import PAGES
from tests.face.cases import DATA, Case
from tests.limits import run

__all__ = [
    "EXPECTED",
    "OF_THE_PROGRAM",
    "Face",
    "answers_of",
    "as_json",
    "check",
    "digest_of",
    "expected",
    "face_of",
    "facts_of",
    "reports_of",
    "saved_rows",
    "summed",
    "without",
]

Face = dict[str, Any]

EXPECTED: Final = Path(__file__).with_name("expected")
TABLES: Final = ("events", "changes", "transactions", "table_versions", "problems", "detected")
_KIND: Final = {
    "events": ("kind", "record_type", "operation"),
    "changes": ("operation", "outcome", "change_source"),
    "transactions": ("outcome", "completeness"),
    "problems": ("code",),
}
"""Columns of which each combination has its first row in full; of the other tables, all rows are."""

_LONGEST: Final = 400
_FIELDS: Final = 60


def face_of(case: Case, folder: Path) -> Face:
    """What commands say about a capture, which is made below ``folder``: what it is, its numbers, its six tables, and
    the field tree of a record of each type."""
    path, options = case.make(folder)
    command = Commands(folder, options)
    face: Face = {name: command.json(name, str(path)) for name in ("identify", "summary")}
    face["save"] = summed(*command("save", str(path), "--to", str(folder / "saved")))
    tables = {name: saved_rows(folder / "saved" / name, folder) for name in TABLES}
    face["tables"] = {name: _table(name, rows) for name, rows in tables.items()}
    face["trees"] = {}
    for kind, row in _first(tables["events"], ("kind", "record_type")).items():
        if row["offset_unit"] == "byte":
            file = row["file"].replace("…", str(folder))
            face["trees"][kind] = _tree(command.json("inspect", file, "--offset", str(row["offset"])))
    return face


def answers_of(case: Case, folder: Path) -> Face:
    """What Spark and the index answer about a capture: the facts of live views, the history of a row, documents of
    the Publisher and its decisions."""
    path, options = case.make(folder)
    command = Commands(folder, options)
    capture = cdcwb.load(str(path), **options)
    live: Face = {}
    for name, (*_, panels) in PAGES.items():
        page = getattr(capture.view, name)
        if panels:
            live[name] = page().facts
        elif name == "event_log" and case.format == "idm-event-log":  # its panels do not use the index
            live[name] = {fact: value for panel in dir(page) for fact, value in getattr(page, panel)().facts.items()}
    history = {}
    for label, key in _keys([row.asDict(recursive=True) for row in capture.changes.collect()]):
        found = command("history", str(path), "--table", label.split()[0], *key, "--json")
        history[" ".join([label, *key[1::2]])] = summed(*found)
    documents, decisions = folder / "documents.xml", folder / "decisions.jsonl"
    code, text = command("xds", str(path), "--to", str(documents), "--decisions", str(decisions))
    xds: Face = {"says": summed(code, text)}
    if not code:
        for file, most in ((decisions, 6), (documents, 200)):
            xds[file.stem] = summed(code, without(folder, file.read_text(encoding="utf-8")), most)
    return as_json({"live": live, "history": history, "xds": xds}, folder)


def reports_of(case: Case, folder: Path) -> Face:
    """The facts of the report of every notebook."""
    path, options = case.make(folder)
    return facts_of(run_suite(path, folder / "reports", say=lambda _: None, options=options), folder)


def facts_of(suite: Suite, folder: Path) -> Face:
    """The facts of a suite of reports about a capture below ``folder``."""
    return as_json(suite.facts, folder)


def as_json(value: Any, folder: Path) -> Any:
    """A value as JSON has it, with ``…`` for a folder."""
    return json.loads(without(folder, json.dumps(value, default=_plain, ensure_ascii=False)))


def without(folder: Path, text: str) -> str:
    return text.replace(str(folder), "…").replace(str(DATA), "data")


OF_THE_PROGRAM: Final = 3
"""The exit code of an error that is not the user's."""


class Commands:
    """Commands in this process; what they say has ``…`` for the folder of the capture."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._reader = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """The exit code of a command, and what it says. Raises AssertionError for an error of the program."""
        code, text = run([*arguments, *self._reader])
        assert code != OF_THE_PROGRAM, text
        return code, without(self._folder, text)

    def json(self, *arguments: str) -> Any:
        """The JSON that a command prints, or its refusal."""
        code, text = self(*arguments, "--json")
        return summed(code, text) if code else json.loads(text)


def summed(code: int, text: str, most: int = 6) -> Face:
    """The first lines of a text, their number, and a digest of all of it."""
    lines = text.splitlines()
    shown = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in lines[:most]]
    return {"exit code": code, "lines": len(lines), "digest": digest_of(text), "first": shown}


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tree(found: Face) -> Any:
    """A field a line: where it is in its record, its name, its value and its meaning."""
    if "field" not in found:
        return found
    lines = list(_fields(found["field"], ""))
    shown = [
        *lines[:_FIELDS],
        *([f"… {len(lines) - _FIELDS} more, {digest_of(repr(lines))}"] if lines[_FIELDS:] else []),
    ]
    return {"record": f"{found['length']} bytes, {digest_of(found['record'])}", "note": found["note"], "fields": shown}


def _fields(field: Face, above: str) -> Iterator[str]:
    name = f"{above}.{field['name']}" if above else field["name"]
    value = "" if field["value"] is None else f" = {field['value'][:80]}"
    rest = "".join(f" · {field[part]}" for part in ("meaning", "problem") if field[part])
    yield f"{field['offset']}+{field['length']} {name}{value}{rest}"[:_LONGEST]
    for child in field["children"]:
        yield from _fields(child, name)


# --- tables -----------------------------------------------------------------------------------------------------------


def saved_rows(table: Path, folder: Path) -> list[dict[str, Any]]:
    """The rows of a saved table in capture order, those without places by what they hold; as JSON has them. A column
    whose name begins with ``_`` is none of the model."""
    found = pq.read_table(table, partitioning=None)
    found = found.select([name for name in found.column_names if name[0] != "_"])
    maps = [field.name for field in found.schema if str(field.type).startswith("map")]
    rows = [row | {name: dict(row[name]) for name in maps if row[name] is not None} for row in found.to_pylist()]

    def order(row: Mapping[str, Any]) -> Any:
        if row.get("file_index") is None:
            return 1, 0, 0, json.dumps(row, sort_keys=True)
        return 0, row["file_index"], row["offset"], ""

    return sorted(as_json(rows, folder), key=order)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Face:
    """The number of rows; of each column the number of nulls and a digest of all values; and rows in full."""
    columns = {}
    for column in rows[0] if rows else ():
        values = [row[column] for row in rows]
        nulls = sum(value is None for value in values)
        digest = digest_of(json.dumps(values, sort_keys=True))
        columns[column] = f"{nulls} null, {digest}"
    first = _first(rows, _KIND[name]) if name in _KIND else {str(number): row for number, row in enumerate(rows)}
    return {"rows": len(rows), "columns": columns, "first": {key: _shown(row) for key, row in first.items()}}


def _first(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        found.setdefault(" ".join(str(row[name]) for name in by), row)
    return dict(sorted(found.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value)}")


def _shown(row: Mapping[str, Any]) -> Face:
    """A row with what it has; long values are cut, which is no loss: the digests have all of them."""
    return {
        name: f"{value[:_LONGEST]}…" if isinstance(value, str) and len(value) > _LONGEST else value
        for name, value in row.items()
        if value is not None
    }


def _keys(changes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """A table with keys and one without, where there are such, each with a row that was changed most often."""
    counts: dict[str, dict[str, int]] = {}
    for row in changes:
        label = ".".join(filter(None, (row["schema_name"], row["table_name"])))
        key = row["key"] or {}
        if label and None not in key.values():
            of_table = counts.setdefault(f"{label} {'without' if not key else 'by'} key", {})
            text = json.dumps(key)
            of_table[text] = of_table.get(text, 0) + 1
    for kind in ("by", "without"):
        tables = {name: keys for name, keys in counts.items() if name.endswith(f" {kind} key")}
        if tables:
            name = max(sorted(tables), key=lambda one: max(tables[one].values()))
            key = json.loads(max(sorted(tables[name]), key=lambda one: tables[name][one])) or {"id": "1"}
            yield name, [part for column, value in key.items() for part in ("--key", f"{column}={value}")]


# --- differences ------------------------------------------------------------------------------------------------------


def expected(name: str) -> Any:
    """What ``make face`` wrote."""
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def check(name: str, found: Face) -> None:
    """Raises AssertionError, with a sentence for each difference, for what is not as ``make face`` wrote it."""
    wrong = list(differences(expected(name), found))
    assert not wrong, "\n".join([f"{name}: {len(wrong)} differences; make face accepts them", *wrong[:40]])


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """What changed, a sentence for each place."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*expected, *(name for name in found if name not in expected)]:
            place = f"{where}.{name}" if where else name
            if name not in found:
                yield f"{place}: is gone, it was {_short(expected[name])}"
            elif name not in expected:
                yield f"{place}: is new, it is {_short(found[name])}"
            else:
                yield from differences(expected[name], found[name], place)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (old, new) in enumerate(zip(expected, found, strict=True)):
            yield from differences(old, new, f"{where}[{number}]")
    elif expected != found:
        yield f"{where}: was {_short(expected)}, is {_short(found)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
