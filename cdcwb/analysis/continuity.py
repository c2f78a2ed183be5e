"""Continuity of rows: does each change of a row begin where the one before it ended?

The before image of a change, as far as it was captured, equals what the changes before it left of the row. What
contradicts that is a break (:class:`cdcwb.analysis.row_breaks.Break`): a version of the row is missing, came again, or
came out of order. ``docs/continuity.md`` has the rules with examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.history import key_text
from cdcwb.analysis.images import MAP
from cdcwb.analysis.row_breaks import COUNTS, FOUND, RECORD, Break, breaks_of
from cdcwb.analysis.row_versions import VALUE_BITS, column_hash, retyped_columns, row_versions
from cdcwb.dataset import Rows, answer_of, first_of, together, totals_of
from cdcwb.model import CHANGES
from cdcwb.words import count, plural, tally

MOST_BREAKS: Final = 10_000
"""The most breaks that are listed; all are counted."""

_LOCATED: Final = (*RECORD, ("file", pa.string()))
BREAKS: Final = pa.schema(
    [
        *(("table", pa.string()), ("key", MAP), ("kind", pa.string()), ("sentence", pa.string())),
        *(("at", CHANGES.field("changed_at").type), *_LOCATED),
        *((f"earlier_{name}", kind) for name, kind in _LOCATED),
        *(("distance", pa.int64()), ("columns", pa.list_(pa.string()))),
    ]
)
"""Breaks: the record that contradicts an earlier one of its row, and that one (null: a TRUNCATE). ``columns`` are those
that differ, ``distance`` is the number of changes of the row that a late one follows and should precede."""


@dataclass(frozen=True, slots=True)
class Continuity:
    """The continuity of the rows of a capture.

    ``tables``: ``table``, ``rows``, ``changes``, ``compared`` (changes that follow another one of their row),
    ``keyless`` (changes without a key, which are not compared), ``inferred`` (the evidence of an inferred key, or None)
    and the number of breaks of each kind. ``listed``: the first :data:`MOST_BREAKS` breaks (:data:`BREAKS`) in capture
    order.
    """

    tables: list[dict[str, Any]] = field(default_factory=list)
    listed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of breaks of each kind that occurs."""
        return {str(kind): number for kind in Break if (number := sum(table[str(kind)] for table in self.tables))}

    @property
    def breaks(self) -> int:
        """The number of breaks."""
        return sum(self.kinds.values())

    @property
    def checked(self) -> list[str]:
        """The tables whose changes all have a key."""
        return [table["table"] for table in self.tables if not table["keyless"]]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for scripts: ``tables`` and ``checked`` (numbers of tables), ``compared``, ``breaks`` and ``kinds``."""
        numbers = {"tables": len(self.tables), "checked": len(self.checked)}
        compared = sum(table["compared"] for table in self.tables)
        return {**numbers, "compared": compared, "breaks": self.breaks, "kinds": self.kinds}

    @property
    def summary(self) -> str:
        """What was checked, in a few words."""
        tables, checked = len(self.tables), len(self.checked)
        if checked == tables:
            return f"continuity of {plural(tables, 'table')}"
        lacking = "1 has no key" if tables - checked == 1 else f"{tables - checked} have no key"
        return f"continuity of {checked} of {plural(tables, 'table')} ({lacking})"

    @property
    def unchecked(self) -> str:
        """Why no row was checked; empty if rows were."""
        if self.checked or any(table["compared"] for table in self.tables):
            return ""
        if not self.tables:
            return "there are no changes of rows with a table name"
        return "no table has a key; the option keys=schema.table:column names one"

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if self.unchecked:
            return f"nothing was checked: {self.unchecked}"
        found = f"{plural(self.breaks, 'break')}: {tally(self.kinds)}" if self.breaks else "no breaks"
        return f"{found} ({self.summary})"


def continuity(capture: Any) -> Continuity:
    """The continuity of the rows of a capture: anything with the rows of one (:meth:`cdcwb.Capture.rows`). A capture
    with ``answers`` is asked once.

    A table whose changes have no key is checked by an inferred one, if there is one (:mod:`cdcwb.analysis.keys`).
    """
    return answer_of(capture, "continuity", _compared)


def _compared(capture: Any) -> Continuity:
    versions, inferred = row_versions(capture)
    listed = first_of(FOUND, ("file_index", "offset", "kind"), MOST_BREAKS, where=_are_breaks)
    numbers, first = breaks_of(versions).fold(*together(totals_of(FOUND, {"number": "sum"}, _numbers), listed))
    tables: dict[str, dict[str, Any]] = {}
    for row in numbers.to_pylist():
        evidence = inferred[row["table"]].evidence if row["table"] in inferred else None
        none = {"table": row["table"], **dict.fromkeys((*map(str, Break), *COUNTS), 0), "inferred": evidence}
        tables.setdefault(row["table"], none)[row["kind"]] = row["number"]
    found = first.to_pylist()
    return Continuity([tables[name] for name in sorted(tables)], _Names.of(capture).named(found) if found else [])


def _numbers(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The numbers of breaks and of what else is counted, by table."""
    return {"table": batch["table"], "kind": batch["kind"], "number": pc.fill_null(batch["number"], 1)}


def _are_breaks(batch: pa.RecordBatch) -> pa.Array:
    return batch["file_index"].is_valid()


def breaks(capture: Any) -> Rows:
    """All breaks of a capture (:data:`BREAKS`), in any order."""
    return breaks_of(row_versions(capture)[0]).map(_Names.of(capture), BREAKS)


@dataclass(frozen=True)
class _Names:
    """Gives breaks the names of their files and columns, and a sentence."""

    files: Mapping[int, str]
    columns: Mapping[int, str]

    @classmethod
    def of(cls, capture: Any) -> _Names:
        versions = capture.rows("table_versions", ("columns",)).table()["columns"].to_pylist()
        names = {column_hash(column["name"]): column["name"] for columns in versions for column in columns or ()}
        for retyped in retyped_columns(capture).values():
            names |= {column_hash(name, kind): name for name, kind in retyped.items()}
        return cls({entry["file_index"]: entry["file"] for entry in capture.files}, names)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self.named(batch.filter(_are_breaks(batch)).to_pylist()), BREAKS)

    def named(self, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for row in found:
            hashes = {number & VALUE_BITS for number in row["columns"] or ()}
            row = row | {"columns": sorted({self.columns[one] for one in hashes if one in self.columns})}
            row |= {"key": key_of(row["row_key"])}
            row |= {f"{which}file": self.files.get(row[f"{which}file_index"]) for which in ("", "earlier_")}
            row["sentence"] = _sentence(row)
            rows.append({name: row[name] for name in BREAKS.names})
        return rows


def key_of(row_key: str) -> dict[str, str | None]:
    """The columns and values of the key of a break."""
    pairs = re.findall(r"((?:\\.|[^\\=])*)=((?:\\.|[^\\,])*)(?:,|$)", row_key, re.DOTALL)
    unescaped = [[re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) for text in pair] for pair in pairs]
    return {name: None if raw == "\\N" else value for (name, value), (_, raw) in zip(unescaped, pairs, strict=True)}


_SENTENCES: Final = {
    Break.GAP: "{this} does not begin where {earlier} left the row{columns}: a version between them is missing",
    Break.STALE: "{this} brings an older version of the row than {earlier}{columns}",
    Break.REPEAT: "{this} is the same change as {earlier}",
    Break.REVIVED: "{this} changes a row that {earlier} deleted",
    Break.PHANTOM: "{this} deletes a row that {earlier} deleted",
    Break.LATE: "{this} comes after {earlier}, which follows it in the log: {distance} late",
}


def _sentence(row: Mapping[str, Any]) -> str:
    """A break in words, with both records."""
    columns = f" (in {', '.join(row['columns'])})" if row["columns"] else ""
    distance = plural(row["distance"] or 0, "change")
    records = {"this": _record_text(row, ""), "earlier": _record_text(row, "earlier_")}
    text = _SENTENCES[Break(row["kind"])].format(**records, columns=columns, distance=distance)
    return f"{row['table']}, {key_text(row['key'])}: {text}."


def _record_text(row: Mapping[str, Any], which: str) -> str:
    if row[f"{which}offset"] is None:
        return "a TRUNCATE of the table"
    file, position = (row[f"{which}{name}"] for name in ("file", "position"))
    record = f"the {row[f'{which}operation']} at {row[f'{which}offset']} of {(file or '').rpartition('/')[2]}"
    return record if position is None else f"{record}, position {position}"


_SHOWN: Final = 20


def continuity_lines(result: Continuity) -> list[str]:
    """The result on the command line."""
    lines = [f"{result.verdict[0].upper()}{result.verdict[1:]}.", ""]
    for table in result.tables:
        changes, rows = plural(table["changes"], "change"), plural(table["rows"], "row")
        found = {kind: table[kind] for kind in map(str, Break) if table[kind]}
        texts = [
            f"{changes} of {rows}, {count(table['compared'])} compared",
            f"{count(table['keyless'])} without a key" if table["keyless"] else "",
            f"inferred key: {table['inferred']}" if table["inferred"] else "",
            tally(found) if found else "no breaks",
        ]
        if table["keyless"] == table["changes"]:
            texts = [f"{changes} without a key", "not checked"]
        lines.append(f"{table['table']}  {'; '.join(filter(None, texts))}")
    if result.listed:
        lines.append("")
    lines += [f"{row['kind']}  {row['sentence']}" for row in result.listed[:_SHOWN]]
    if result.breaks > _SHOWN:
        lines.append(f"… and {plural(result.breaks - _SHOWN, 'more break')}")
    return lines
