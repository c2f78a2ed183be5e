"""Control tables, and the table versions of a capture: those from files and from DDL history
(docs/formats/qlik-change-table.md §1.3, §6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final

from cdcwb.formats.dissector import problem_row
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.qlik_change_table import decode as sentences
from cdcwb.formats.qlik_change_table.layout import (
    CONTROL_TIMES,
    DDL_HISTORY,
    DDL_TRUNCATE,
    EXCEPTIONS,
    Layout,
    TableName,
    without_suffix,
)
from cdcwb.formats.qlik_change_table.plan import Plan, TableEntry, TableFile, Version
from cdcwb.formats.qlik_change_table.probing import Column, Probe, column, text_of
from cdcwb.model import Operation, Problem

__all__ = [
    "SIDE_FILE",
    "ControlRow",
    "Ddl",
    "Versions",
    "apply_ddl",
    "by_name",
    "control_row",
    "ddl_of",
    "version_rows",
]

# === control tables ===================================================================================================

_MOST_COLUMNS: Final = 1 << 16
_MOST_LISTED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ControlRow:
    """The facts of a row of a control table: its table and its time (as text)."""

    name: TableName | None
    operation: str | None
    position: str | None
    time: str | None
    problem: tuple[Problem, str] | None


def control_row(control: str, row: Mapping[str, str | None]) -> ControlRow:
    """Reads a row; ``row`` maps its columns in lower case to their texts."""
    table, owner = row.get("table_name"), row.get("table_owner")
    name = TableName(owner or None, table) if table else None
    operation = position = problem = None
    if control == DDL_HISTORY:
        kind = (row.get("ddl_type") or "").upper()
        operation = str(Operation.TRUNCATE if kind == DDL_TRUNCATE else Operation.DDL)
        position = row.get("change_seq") or None
    elif control == EXCEPTIONS:
        label = name.label if name else "a table without a name"
        problem = sentences.refused(label, row.get("statement"), row.get("error"))
    return ControlRow(name, operation, position, row.get(CONTROL_TIMES.get(control, "")) or None, problem)


# --- DDL history ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ddl:
    """One row of DDL history: the table, the changes of its columns, and the location of the row."""

    name: TableName
    new_name: str | None
    version: int | None
    position: str | None
    kind: str
    changes: tuple[tuple[str, str, str | None, Column], ...]  # old name, action, new name, new column
    text: str
    file_index: int
    offset: int
    length: int
    problem: str | None = None


def ddl_of(row: Mapping[str, str | None], place: tuple[int, int, int]) -> Ddl | None:
    """A row of DDL history, or None for one without a table. Never raises: errors in ``DETAILS`` are in ``problem``."""
    name = control_row(DDL_HISTORY, row).name
    if name is None:
        return None
    text = row.get("details") or ""
    details, problem = _details(text)
    changes, wrong = _changes(details.get("columns"))
    version = row.get("table_version") or ""
    return Ddl(
        name,
        text_of(details.get("tableNewName")),
        int(version) if version.isdecimal() and len(version) < 10 else None,
        row.get("change_seq") or None,
        (row.get("ddl_type") or "").upper(),
        changes,
        text,
        *place,
        problem or wrong,
    )


def _details(text: str) -> tuple[Mapping[str, Any], str | None]:
    if not text.strip():
        return {}, None
    try:
        found = parse_json(text.encode())
    except ValueError as reason:
        return {}, f"DETAILS: {reason}"
    return (found, None) if isinstance(found, dict) else ({}, "DETAILS: expected a JSON object, found another value")


def _changes(raw: Any) -> tuple[tuple[tuple[str, str, str | None, Column], ...], str | None]:
    if raw is None:
        return (), None
    if not isinstance(raw, dict) or len(raw) > _MOST_COLUMNS:
        return (), "DETAILS.columns: expected an object of columns"
    found = []
    for name, one in raw.items():
        if not isinstance(one, dict):
            return (), f"DETAILS.columns: expected an object as column {name!r:.60}"
        ordinal = one.get("ordinal")
        place = ordinal if isinstance(ordinal, int) and 0 < ordinal <= _MOST_COLUMNS else 0
        what = column(place, name, one, "primaryKeyPosition")
        found.append((name, (text_of(one.get("action")) or "ALTER").upper(), text_of(one.get("columnNewName")), what))
    return tuple(found), None


def apply_ddl(columns: Sequence[Column], ddl: Ddl) -> list[Column]:
    """The columns of a table after a DDL: the previous ones with additions, drops and alterations (§6.1). Names are
    case-insensitive, and facts that an ALTER does not state are unchanged.
    """
    after = [] if ddl.kind == "CREATE_TABLE" else list(columns)
    names = [one.name.casefold() for one in after]
    known = Counter(names)
    for old, action, new, what in sorted(ddl.changes, key=lambda change: change[3].ordinal):
        at = names.index(old.casefold()) if known[old.casefold()] else None
        if at is not None:
            known[names[at]] -= 1
        if action == "DROP":
            if at is not None:
                del after[at], names[at]
            continue
        made = replace(what, name=new or old) if at is None else _altered(after[at], what, new)
        if at is None:
            at = what.ordinal - 1 if 0 < what.ordinal <= len(after) else len(after)
            after.insert(at, made)
            names.insert(at, "")
        after[at], names[at] = made, made.name.casefold()
        known[names[at]] += 1
    return [one if one.ordinal == place else replace(one, ordinal=place) for place, one in enumerate(after, 1)]


def _altered(before: Column, what: Column, new: str | None) -> Column:
    def changed(name: str) -> Any:
        value = getattr(what, name)
        return getattr(before, name) if value is None else value

    kept = {name: changed(name) for name in ("type", "length", "precision", "scale", "key_position", "nullable")}
    return replace(before, name=new or before.name, **kept)


def by_name(layout: Layout, texts: Sequence[str | None]) -> dict[str, str | None]:
    """A row of a control table with its columns in lower case."""
    return dict(zip((name.casefold() for name in layout.names), texts, strict=True))


# === table versions ===================================================================================================

SIDE_FILE = "side file"
INFERRED = "inferred"
DDL = "DDL"


@dataclass(slots=True)
class Versions:
    """Collects the versions of all tables; each is numbered by its table in the order of the files."""

    found: list[Version] = field(default_factory=list)
    by_table: dict[int, list[int]] = field(default_factory=dict)
    listed: int = 0  # columns of all versions
    carried: dict[int, Version] = field(default_factory=dict)  # the last version of a renamed table before the rename

    def of(self, table: int) -> list[Version]:
        """The versions of a table, in order."""
        return [self.found[at] for at in self.by_table.get(table, ())]

    def of_file(self, table: int, name: TableName, probe: Probe, layout: Layout, place: tuple[int, int]) -> int:
        """The version of the rows of a file. A version without types equals one with the same names; versions with
        different numbers in the source are different, even with the same columns. ``place`` is the file's index and the
        length of its header line."""
        columns = _data_columns(probe.columns, layout)
        number = None if probe.side is None or probe.side.version is None else str(probe.side.version)
        mine = [
            (at, self.found[at])
            for at in self.by_table.get(table, ())
            if number is None or self.found[at].lineage.get("version", number) == number
        ]
        same = [at for at, one in mine if one.columns == columns]
        if not probe.typed:
            same = same or [at for at, one in mine if [c.name for c in one.columns] == [c.name for c in columns]]
        if same:
            return same[-1]
        side = probe.side if probe.side is not None and probe.side.columns else None
        lineage = {} if side is None else dict(side.lineage)
        if side is not None and side.version is not None:
            lineage["version"] = str(side.version)
        text = probe.file.heading if side is None else side.text
        version = self._add(table, name, columns, INFERRED if side is None else SIDE_FILE, text, lineage)
        if side is None and place[1]:
            version.file_index, version.offset, version.length = place[0], 0, place[1]
        return len(self.found) - 1

    def of_ddl(self, table: int, ddl: Ddl, name: TableName) -> dict[str, Any] | None:
        """The version after a DDL, based on the previous one; reports a problem if that is unknown."""
        mine = self.of(table)
        same = [one for one in mine if ddl.version is not None and one.lineage.get("version") == str(ddl.version)]
        if same:
            for one in same:
                one.position = one.position or ddl.position
            return None
        if self.listed > _MOST_LISTED:
            sentence = f"the table versions before it have {self.listed} columns; this and later DDL is not followed"
            return problem_row(Problem.NO_SCHEMA, sentence, table=name.label)
        before = _before(mine, ddl) or self.carried.get(table)
        columns = apply_ddl([] if before is None else before.columns, ddl)
        if before is not None and before in mine and (columns, DDL) == (before.columns, before.origin):
            return None
        lineage = {} if ddl.version is None else {"version": str(ddl.version)}
        version = self._add(table, name, columns, DDL, ddl.text, lineage)
        version.file_index, version.offset, version.length = ddl.file_index, ddl.offset, ddl.length
        version.position = ddl.position
        if before is None and ddl.kind != "CREATE_TABLE":
            sentence = f"table version {version.key}: the preceding version is unknown; only the changes are listed"
            return problem_row(Problem.NO_SCHEMA, sentence, table=name.label)
        return None

    def _add(
        self, table: int, name: TableName, columns: list[Column], origin: str, text: str, lineage: dict[str, str]
    ) -> Version:
        mine = self.by_table.setdefault(table, [])
        mine.append(len(self.found))
        version = Version(table, f"{name.label}@{len(mine)}", columns, origin, text, lineage)
        self.found.append(version)
        self.listed += len(columns)
        return version


def _data_columns(columns: Sequence[Column], layout: Layout) -> list[Column]:
    return [
        replace(columns[place], ordinal=ordinal, name=layout.names[place])
        for ordinal, place in enumerate(layout.data, 1)
    ]


def _before(versions: Iterable[Version], ddl: Ddl) -> Version | None:
    """The version that a DDL changed: the last one with a lower number in the source, else the last one that precedes
    it in time."""
    numbered = [(int(one.lineage["version"]), one) for one in versions if one.lineage.get("version", "").isdecimal()]
    if ddl.version is not None and numbered:
        lower = [pair for pair in numbered if pair[0] < ddl.version]
        return max(lower, key=lambda pair: pair[0])[1] if lower else None
    return next(
        (one for one in reversed(list(versions)) if one.position is None or one.position < (ddl.position or "")), None
    )


def ddl_in_order(rows: Iterable[Ddl], suffix: str) -> list[Ddl]:
    """DDL history in the order of its changes. A change that is recorded for a table and for its change table is that
    of the table."""
    ordered = sorted(rows, key=lambda one: (one.position or "", one.file_index, one.offset))
    told = {(one.name.label.casefold(), one.version, one.position) for one in ordered}
    found = []
    for one in ordered:
        base = without_suffix(one.name.table, suffix)
        if base is None:
            found.append(one)
        elif (replace_name(one.name, base).label.casefold(), one.version, one.position) not in told:
            found.append(replace(one, name=replace_name(one.name, base)))
    return found


def replace_name(name: TableName, table: str) -> TableName:
    """The table with another name in the same schema."""
    return TableName(name.schema, table)


_FACTS: Final = [one.name for one in fields(Column)]
_facts: Final = attrgetter(*_FACTS)


def version_rows(plan: Plan) -> list[dict[str, Any]]:
    """Rows of :data:`cdcwb.model.TABLE_VERSIONS`, without first positions."""
    rows = []
    for version in plan.versions:
        table: TableEntry = plan.tables[version.table]
        place = {"file_index": version.file_index, "offset": version.offset, "length": version.length}
        lineage = dict(version.lineage)
        if version.position is not None:
            lineage["change_seq"] = version.position
        rows.append(
            {
                "table_version": version.key,
                "schema_name": table.schema,
                "table_name": table.table,
                "first_event": place if version.file_index >= 0 else None,
                "columns": [dict(zip(_FACTS, _facts(column), strict=True)) for column in version.columns],
                "origin": version.origin,
                "schema_text": version.text,
                "lineage": list(lineage.items()) or None,
            }
        )
    return rows


def count_problem(entry: TableFile, expected: int | None) -> dict[str, Any] | None:
    """A file with another number of rows than in its side file."""
    if expected is None or entry.rows is None or entry.rows == expected:
        return None
    code = Problem.TRUNCATED if entry.rows < expected else Problem.SCHEMA_MISMATCH
    return problem_row(code, f"expected {expected} rows by the side file, found {entry.rows}", file=entry.path)
