"""The table versions of a capture: those of files, and those of DDL history (docs/formats/qlik-change-table.md §1.3,
§6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats.columns import TableColumn, described_column, replicate_type, text_of
from cdcwb.formats.containers.rows import TableName
from cdcwb.formats.dissector import problem_row
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.qlik_change_table.layout import without_suffix
from cdcwb.formats.qlik_change_table.probing import Probe
from cdcwb.formats.table_rows import Version, arrow_type
from cdcwb.model import Problem

SIDE_FILE = "side file"
INFERRED = "inferred"
DDL = "DDL"

_MOST_COLUMNS: Final = 1 << 16
_MOST_LISTED: Final = 1_000_000


# --- versions ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class ChangeTableVersion(Version):
    """One version of a table; ``position``: the change sequence of a DDL."""

    position: str | None = None

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The names of its key columns in their order, as far as the source gives them."""
        keyed = sorted((one.key_position, one.name) for one in self.columns if one.key_position is not None)
        return tuple(name for _, name in keyed)

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        position = {} if self.position is None else {"change_seq": self.position}
        return Version.to_row(self) | {"lineage": {**self.lineage, **position} or None}


@dataclass(slots=True)
class ChangeTableVersions:
    """Collects the versions of all tables; each is numbered by its table in the order of the files."""

    found: list[ChangeTableVersion] = field(default_factory=list)
    by_table: dict[TableName, list[ChangeTableVersion]] = field(default_factory=dict)
    listed: int = 0  # columns of all versions
    carried: dict[TableName, ChangeTableVersion] = field(default_factory=dict)  # of a renamed table, before the rename

    @classmethod
    def of_plan(cls, found: list[Any]) -> ChangeTableVersions:
        """Those of a plan, to which others are added."""
        versions = cls(found, listed=sum(len(one.columns) for one in found))
        for one in found:
            versions.by_table.setdefault(one.table, []).append(one)
        return versions

    def of(self, table: TableName) -> list[ChangeTableVersion]:
        """The versions of a table, in order."""
        return self.by_table.get(table, [])

    def of_file(self, table: TableName, probe: Probe, data: Sequence[int], index: int) -> ChangeTableVersion:
        """The version of the rows of a file. A version without types equals one with the same names; versions with
        different numbers in the source are different, even with the same columns. ``data``: the indexes of its data
        columns; ``index``: that of the file."""
        names = probe.file.columns
        columns = [probe.columns[at]._replace(ordinal=place, name=names[at]) for place, at in enumerate(data, 1)]
        side = probe.side
        number = None if side is None or side.version is None else str(side.version)
        mine = [one for one in self.of(table) if number is None or one.lineage.get("version", number) == number]
        same = [one for one in mine if one.columns == columns]
        if not probe.typed:
            same = same or [one for one in mine if [c.name for c in one.columns] == [c.name for c in columns]]
        if same:
            return same[-1]
        schema, lineage = probe.file.schema, {} if number is None else {"version": number}
        kinds = {} if schema is None else {names[at]: arrow_type(schema.field(at).type) for at in data}
        if side is not None and side.columns:
            return self._add(
                table, table, columns, kinds, origin=SIDE_FILE, text=side.text, lineage={**side.lineage, **lineage}
            )
        place = {"file_index": index, "offset": 0, "length": probe.file.first} if probe.file.header else {}
        return self._add(table, table, columns, kinds, origin=INFERRED, text=probe.file.heading, **place)

    def of_ddl(self, table: TableName, ddl: Ddl, name: TableName) -> dict[str, Any] | None:
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
        facts = {"origin": DDL, "text": ddl.text, "lineage": lineage, "position": ddl.position, **ddl.event}
        version = self._add(table, name, columns, {}, **facts)
        if before is None and ddl.kind != "CREATE_TABLE":
            sentence = (
                f"table version {version.table_version}: the preceding version is unknown; only the changes are listed"
            )
            return problem_row(Problem.NO_SCHEMA, sentence, table=name.label)
        return None

    def _add(
        self,
        table: TableName,
        name: TableName,
        columns: list[TableColumn],
        types: dict[str, pa.DataType],
        **facts: Any,
    ) -> ChangeTableVersion:
        """Adds a version. ``types``: the Arrow types that the source itself gives."""
        mine = self.by_table.setdefault(table, [])
        types = {one.name: replicate_type(one) for one in columns} | types
        version = ChangeTableVersion(f"{name.label}@{len(mine) + 1}", *table, columns, types=types, **facts)
        mine.append(version)
        self.found.append(version)
        self.listed += len(columns)
        return version


# --- DDL history ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ddl:
    """One row of DDL history: the table, the changes of its columns, and the location of the row."""

    name: TableName
    new_name: str | None
    version: int | None
    position: str | None
    kind: str
    changes: tuple[tuple[str, str, str | None, TableColumn], ...]  # old name, action, new name, new column
    text: str
    event: dict[str, int]
    problem: str | None = None


def ddl_of(row: Mapping[str, str | None], event: dict[str, int]) -> Ddl | None:
    """A row of DDL history, its columns in lower case, or None for one without a table. Never raises: errors in
    ``DETAILS`` are in ``problem``."""
    table, text, version = row.get("table_name"), row.get("details") or "", row.get("table_version") or ""
    if not table:
        return None
    details, problem = _details(text)
    changes, wrong = _changes(details.get("columns"))
    return Ddl(
        TableName(row.get("table_owner") or None, table),
        text_of(details.get("tableNewName")),
        int(version) if version.isdecimal() and len(version) < 10 else None,
        row.get("change_seq") or None,
        (row.get("ddl_type") or "").upper(),
        changes,
        text,
        event,
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


def _changes(raw: Any) -> tuple[tuple[tuple[str, str, str | None, TableColumn], ...], str | None]:
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
        what = described_column(place, name, one, "primaryKeyPosition")
        found.append((name, (text_of(one.get("action")) or "ALTER").upper(), text_of(one.get("columnNewName")), what))
    return tuple(found), None


def apply_ddl(columns: Sequence[TableColumn], ddl: Ddl) -> list[TableColumn]:
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
        made = what._replace(name=new or old) if at is None else _altered(after[at], what, new)
        if at is None:
            at = what.ordinal - 1 if 0 < what.ordinal <= len(after) else len(after)
            after.insert(at, made)
            names.insert(at, "")
        after[at], names[at] = made, made.name.casefold()
        known[names[at]] += 1
    return [one._replace(ordinal=place) for place, one in enumerate(after, 1)]


def _altered(before: TableColumn, what: TableColumn, new: str | None) -> TableColumn:
    stated = {name: value for name, value in what._asdict().items() if value is not None}
    return before._replace(**stated | {"ordinal": before.ordinal, "name": new or before.name})


def _before(versions: Sequence[ChangeTableVersion], ddl: Ddl) -> ChangeTableVersion | None:
    """The version that a DDL changed: the last one with a lower number in the source, else the last one that precedes
    it in time."""
    numbered = [(int(one.lineage["version"]), one) for one in versions if one.lineage.get("version", "").isdecimal()]
    if ddl.version is not None and numbered:
        lower = [pair for pair in numbered if pair[0] < ddl.version]
        return max(lower, key=lambda pair: pair[0])[1] if lower else None
    return next(
        (one for one in reversed(versions) if one.position is None or one.position < (ddl.position or "")), None
    )


def ddl_in_order(rows: Iterable[Ddl], suffix: str) -> list[Ddl]:
    """DDL history in the order of its changes. A change that is recorded for a table and for its change table is that
    of the table."""
    ordered = sorted(rows, key=lambda one: (one.position or "", one.event["file_index"], one.event["offset"]))
    known = {(one.name.label.casefold(), one.version, one.position) for one in ordered}
    found = []
    for one in ordered:
        base = without_suffix(one.name.table, suffix)
        name = TableName(one.name.schema, base or one.name.table)
        if base is None or (name.label.casefold(), one.version, one.position) not in known:
            found.append(replace(one, name=name))
    return found
