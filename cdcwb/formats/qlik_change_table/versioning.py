"""The table versions of a capture: those that files came with, and those that DDL history tells of
(docs/formats/qlik-change-table.md §1.3, §6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cdcwb.formats.findings import problem_row
from cdcwb.formats.qlik_change_table.control import Ddl, apply_ddl
from cdcwb.formats.qlik_change_table.layout import Layout
from cdcwb.formats.qlik_change_table.names import TableName, without_suffix
from cdcwb.formats.qlik_change_table.plan import FileEntry, Plan, TableEntry, Version
from cdcwb.formats.qlik_change_table.probing import Probe
from cdcwb.formats.qlik_change_table.side_files import Column
from cdcwb.model import Problem

__all__ = ["SIDE_FILE", "Versions", "version_rows"]

SIDE_FILE = "side file"
INFERRED = "inferred"
DDL = "DDL"


@dataclass(slots=True)
class Versions:
    """Collects the versions of all tables; each is numbered by its table in the order of the files."""

    found: list[Version] = field(default_factory=list)
    by_table: dict[int, list[int]] = field(default_factory=dict)
    carried: dict[int, Version] = field(default_factory=dict)  # of a table that was renamed: the last before that

    def of(self, table: int) -> list[Version]:
        """The versions of a table, in order."""
        return [self.found[at] for at in self.by_table.get(table, ())]

    def of_file(self, table: int, name: TableName, probe: Probe, layout: Layout, place: tuple[int, int]) -> int:
        """The version that the rows of a file have. One without types is that of the same names where there is such;
        two that the source numbers differently are two, even with the same columns. ``place`` is the file's index and
        the length of its header line."""
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
        text = probe.heading if side is None else side.text
        version = self._add(table, name, columns, INFERRED if side is None else SIDE_FILE, text, lineage)
        if side is None and place[1]:
            version.file_index, version.offset, version.length = place[0], 0, place[1]
        return len(self.found) - 1

    def of_ddl(self, table: int, ddl: Ddl, name: TableName) -> dict[str, Any] | None:
        """The version after a DDL, built on the one before; gives a problem where that one is not known."""
        mine = self.of(table)
        same = [one for one in mine if ddl.version is not None and one.lineage.get("version") == str(ddl.version)]
        if same:
            for one in same:
                one.position = one.position or ddl.position
            return None
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
        return version


def _data_columns(columns: Sequence[Column], layout: Layout) -> list[Column]:
    return [
        replace(columns[place], ordinal=ordinal, name=layout.names[place])
        for ordinal, place in enumerate(layout.data, 1)
    ]


def _before(versions: Iterable[Version], ddl: Ddl) -> Version | None:
    """The version that a DDL changed: the last that the source numbers lower, else the last before it in time."""
    numbered = [(int(one.lineage["version"]), one) for one in versions if one.lineage.get("version", "").isdecimal()]
    if ddl.version is not None and numbered:
        lower = [pair for pair in numbered if pair[0] < ddl.version]
        return max(lower, key=lambda pair: pair[0])[1] if lower else None
    return next(
        (one for one in reversed(list(versions)) if one.position is None or one.position < (ddl.position or "")), None
    )


def ddl_in_order(rows: Iterable[Ddl], suffix: str) -> list[Ddl]:
    """DDL history in the order of its changes. A change that is told of a table and of its change table is the
    table's."""
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
    """The same schema's other table."""
    return TableName(name.schema, table)


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
                "columns": [asdict(column) for column in version.columns],
                "origin": version.origin,
                "schema_text": version.text,
                "lineage": list(lineage.items()) or None,
            }
        )
    return rows


def count_problem(entry: FileEntry, expected: int | None) -> dict[str, Any] | None:
    """A file with another number of rows than its side file says."""
    if expected is None or entry.rows is None or entry.rows == expected:
        return None
    code = Problem.TRUNCATED if entry.rows < expected else Problem.SCHEMA_MISMATCH
    return problem_row(code, f"expected {expected} rows by the side file, found {entry.rows}", file=entry.path)
