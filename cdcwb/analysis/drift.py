"""Schema drift: how the tables of a capture changed their columns, and the effect on their rows.

Versions are compared by their definitions (:mod:`cdcwb.analysis.versions`). Renames are detected from DDL records and
from rows (:mod:`cdcwb.analysis.version_order`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.version_order import (
    Period,
    Renaming,
    Statement,
    Version,
    all_changes,
    extent_of,
    periods,
    rename_evidence,
    retained_values,
    versions,
)
from cdcwb.analysis.versions import (
    Compatibility,
    Difference,
    Rule,
    candidates,
    compatibility,
    differences,
    former_names,
)
from cdcwb.errors import OptionError
from cdcwb.formats.dissector import CHANGES
from cdcwb.formats.options import nearest
from cdcwb.index.columns import table_labels
from cdcwb.index.images import Pairs
from cdcwb.model import EVENTS, Operation, Severity
from cdcwb.words import visible

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding(Difference):
    """One difference between a version of a table and the next. ``first_position`` is the position of the first row of
    the ``new_version``; None without rows."""

    table: str
    new_version: str
    first_position: str | None
    first_at: datetime | None


@dataclass(frozen=True, slots=True)
class Step:
    """The step from one version to the next, and whether readers of each can read the other by Avro's rules. ``again``:
    the new version was in force before."""

    old: Version
    new: Version
    differences: list[Finding]
    compatibility: Compatibility
    again: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """The schema drift of a capture. ``mixed``: tables in which rows of an older version follow rows of a newer one
    although the older version did not return, and how often. ``without_version``: rows of unknown version by table,
    with the location of the first (``position``, ``file``, ``offset``)."""

    versions: list[Version]
    periods: list[Period]
    steps: list[Step]
    mixed: list[tuple[str, int]]
    statements: list[Statement]
    without_version: list[dict[str, Any]]

    @property
    def findings(self) -> list[Finding]:
        """All differences of all steps, worst first, then by table and position."""
        found = [finding for step in self.steps for finding in step.differences]
        ranks = list(Severity)
        return sorted(found, key=lambda one: (ranks.index(one.severity), one.table, one.first_position or "", one.rule))


def drift(capture: Any) -> Drift:
    """The schema drift of a capture."""
    known = versions(capture)
    statements, without_version = _events(capture, known)
    in_force, mixed = periods(capture, known)
    pairs = [(old, new) for old, new in pairwise(in_force) if old.version.table == new.version.table]
    steps = _steps(capture, pairs, statements)
    return Drift(known, in_force, steps, mixed, statements, without_version)


# --- evidence in events -----------------------------------------------------------------------------------------------

_MOST_STATEMENTS: Final = 10_000
_WHERE: Final = ("position", "file_index", "offset", "file")
_READ: Final = ("kind", "operation", "schema_name", "table_name", "table_version", "headers", *_WHERE)


def _events(capture: Any, known: Sequence[Version]) -> tuple[list[Statement], list[dict[str, Any]]]:
    """The DDL that the source recorded or that defined versions, in log order, and the rows whose version is not
    known."""
    names = pa.array({version.table_version for version in known}, pa.string())
    ddl, unknown = capture.rows("events", _READ).fold(partial(_evidence_of, names), _merged_evidence)
    statements = [Statement(row["table"], row["position"], row["text"]) for row in ddl.to_pylist()]
    statements += [
        Statement(version.table, version.lineage.get("change_seq"), version.schema_text)
        for version in known
        if version.origin == Operation.DDL and version.schema_text
    ]
    without_version = unknown.to_pylist()
    without_version.sort(key=lambda row: (-row["events"], row["table"], row["position"] or ""))
    return sorted(statements, key=lambda statement: statement.position or ""), without_version


_EVIDENCE: Final = pa.schema([("table", pa.string()), *map(EVENTS.field, _WHERE)]).remove_metadata()
_STATEMENTS: Final = _EVIDENCE.append(pa.field("text", pa.string()))
_UNKNOWN: Final = _EVIDENCE.append(pa.field("events", pa.int64()))


def _evidence_of(known: pa.Array, events: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
    is_ddl = pc.fill_null(pc.equal(events["operation"], str(Operation.DDL)), False)
    is_row = pc.is_in(events["kind"], pa.array(CHANGES))
    is_unknown = pc.invert(pc.or_(is_ddl, pc.is_in(events["table_version"], known)))
    ddl, unknown = events.filter(is_ddl), events.filter(pc.and_(is_row, is_unknown))
    headers = Pairs(ddl["headers"])
    texts = [pc.if_else(pc.equal(text, ""), None, text) for _, text in map(headers.of_column, ("statement", "DETAILS"))]
    parts = ((ddl, pc.coalesce(*texts), _STATEMENTS), (unknown, pa.repeat(1, len(unknown)), _UNKNOWN))
    found = [
        pa.Table.from_arrays([table_labels(rows), *(rows[name] for name in _WHERE), fact], schema=schema)
        for rows, fact, schema in parts
    ]
    return _merged_evidence([(found[0].filter(found[0]["text"].is_valid()), found[1])])


def _merged_evidence(parts: Sequence[tuple[pa.Table, pa.Table]]) -> tuple[pa.Table, pa.Table]:
    order = [(name, "ascending") for name in ("file_index", "offset")]
    statements, unknown = (
        pa.concat_tables([schema.empty_table(), *found]).sort_by(order)
        for schema, found in zip((_STATEMENTS, _UNKNOWN), zip(*parts, strict=True) if parts else ((), ()), strict=True)
    )
    totals = [*((name, "first") for name in _WHERE), ("events", "sum")]
    firsts = unknown.group_by("table", use_threads=False).aggregate(totals)
    return statements.slice(0, _MOST_STATEMENTS), firsts.rename_columns(_UNKNOWN.names)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_between(capture: Any, known: Drift, old: Version, new: Version) -> list[Step]:
    """The step between two versions that need not be adjacent."""
    return _steps(capture, [(all_changes(old), all_changes(new))], known.statements)


def _steps(capture: Any, pairs: Sequence[tuple[Period, Period]], statements: Sequence[Statement]) -> list[Step]:
    """The differences of each pair of consecutive periods; includes steps without a difference."""
    of_table: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        of_table[statement.table].append(statement)
    renamed, possible = [], []
    for old, new in pairs:
        names = [{str(column["name"]) for column in side.version.columns} for side in (old, new)]
        between = [each for each in of_table[new.version.table] if _is_between(each, old, new)]
        by_ddl = rename_evidence(between, sorted(names[0] - names[1]), sorted(names[1] - names[0]))
        taken = {name for pair in by_ddl for name in pair}
        left = [pair for pair in candidates(old.version.columns, new.version.columns) if taken.isdisjoint(pair)]
        renamed.append(by_ddl)
        possible.append([Renaming(new.version.table, *pair) for pair in left])
    by_rows = retained_values(capture, list(dict.fromkeys(pair for of_step in possible for pair in of_step)))
    for by_ddl, of_step in zip(renamed, possible, strict=True):
        by_ddl |= {(pair.old, pair.new): why for pair in of_step if (why := by_rows.get(pair)) is not None}
    return [_step(old, new, why) for (old, new), why in zip(pairs, renamed, strict=True)]


def _is_between(ddl: Statement, old: Period, new: Period) -> bool:
    """Whether a statement is after the first row of the old version and not after the first row of the new one."""
    if ddl.position is None:
        return True
    before, after = old.first_position, new.first_position
    return (before is None or ddl.position > before) and (after is None or ddl.position <= after)


def _step(old: Period, new: Period, evidence: Mapping[tuple[str, str], str]) -> Step:
    before, after = old.version, new.version
    changed = differences(before.columns, after.columns, evidence)
    where: dict[str, Any] = {"table": after.table, "new_version": after.table_version}
    where |= {"first_position": new.first_position, "first_at": new.first_at}
    found = [Finding(*astuple(difference), **where) for difference in changed]
    return Step(before, after, found, compatibility(before.columns, after.columns, former_names(changed)), new.again)


# --- selection of versions --------------------------------------------------------------------------------------------

_NAMED: Final = 30  # names that a message lists


def chosen(
    known: Sequence[Version], table: str, old_version: str, new_version: str
) -> tuple[set[str], tuple[Version, Version] | None]:
    """The tables whose steps are shown, and the two requested versions; None if neither is given. The default of
    ``old_version`` is the version that precedes the new one, that of ``new_version`` the last version of the table.

    A table is named ``schema.table``, or ``table`` if that is unique. A version is given by its name in the capture,
    the beginning of that, or its number. Raises OptionError that names everything that is wrong.
    """
    wrong: list[str] = []
    table, old_version, new_version = map(str, (table, old_version, new_version))  # papermill passes numbers
    tables = list(dict.fromkeys(version.table for version in known))
    ways = ([name for name in tables if name == table], [name for name in tables if name.endswith(f".{table}")])
    named = _meant("table", table, {name: name for name in tables}, ways, wrong)
    tables = tables if named is None else [named]
    of_tables = [version for version in known if version.table in tables]
    old = _version("old_version", old_version, of_tables, wrong)
    new = _version("new_version", new_version, [v for v in of_tables if not old or v.table == old.table], wrong)
    last = new or old
    of_table = [] if last is None else [version for version in known if version.table == last.table]
    if new is not None and not old_version:
        old = next((version for version in of_table if version.number == new.number - 1), None)
        if old is None:
            first = visible(new.table_version)
            wrong.append(f"new_version: '{first}' is the first of {new.table}, and no old_version was given")
    elif old is not None and not new_version:
        new = of_table[-1]
        if new is old:
            last_name = visible(old.table_version)
            wrong.append(f"old_version: '{last_name}' is the last of {old.table}, and no new_version was given")
    if wrong:
        raise OptionError("; ".join(wrong))
    return set(tables), None if old is None or new is None else (old, new)


def _version(parameter: str, name: str, known: Sequence[Version], wrong: list[str]) -> Version | None:
    is_one_table = len({version.table for version in known}) == 1
    ways = (
        [version for version in known if version.table_version == name],
        [version for version in known if is_one_table and str(version.number) == name],
        [version for version in known if len(name) > 2 and version.table_version.startswith(name)],
    )
    return _meant(parameter, name, {version.table_version: version for version in known}, ways, wrong)


def _meant(parameter: str, name: str, known: Mapping[str, T], ways: Iterable[list[T]], wrong: list[str]) -> T | None:
    """What a name means, in the first way in which it means something; None if that is nothing or several."""
    matching = next(filter(None, ways), []) if name else []
    if name and len(matching) != 1:
        names = [label for label, each in known.items() if each in matching or not matching]
        listed = ", ".join(map(visible, names[:_NAMED])) or "none"
        listed += f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        unknown = f"there is no '{visible(name)}'.{visible(nearest(name, names), 200)} There are: {listed}"
        several = f"'{visible(name)}' is the name of several: {listed}"
        wrong.append(f"{parameter}: {several if matching else unknown}")
    return matching[0] if len(matching) == 1 else None


# --- rows for tables and charts ---------------------------------------------------------------------------------------


def lane_rows(drift_of: Drift) -> list[dict[str, Any]]:
    """A row for every period in which a version is in force, as :func:`cdcwb.charts.version_lanes` draws them."""
    schemas: dict[str, dict[Any, int]] = defaultdict(dict)
    rows = []
    steps = iter(drift_of.steps)  # one between two periods of a table, in their order
    previous = None
    for period in drift_of.periods:
        version = period.version
        change = difference_words(next(steps)) if previous == version.table else ""
        previous = version.table
        columns = tuple((column["name"], column["type"]) for column in version.columns)
        schema = schemas[version.table].setdefault(columns, len(schemas[version.table]))
        row = {**_about(version), **extent_of(period), "again": period.again}
        rows.append({**row, "schema": schema, "change": change})
    return rows


def version_rows(known: Iterable[Version]) -> list[dict[str, Any]]:
    """A row for every version."""
    return [_about(version) | extent_of(version) for version in known]


def _about(version: Version) -> dict[str, Any]:
    facts = {name: getattr(version, name) for name in ("table", "number", "table_version", "origin")}
    return facts | {"columns": len(version.columns)}


def schema_changes(drift_of: Drift) -> list[Step]:
    """The steps from one version to the next in which the table itself changes."""
    return [step for step in drift_of.steps if step.differences]


def difference_words(step: Step, most: int = 3) -> str:
    """The differences of a step in a few words: ``+ discount decimal(9,2)``; empty without any."""
    words = []
    for difference in step.differences:
        column, old, new = difference.column, difference.old, difference.new
        if column is None:
            words.append(difference.rule.heading)
        elif difference.rule == Rule.RENAMED:
            words.append(f"{old} → {new}")
        elif old is None or new is None:
            words.append(f"− {column} {old or ''}".rstrip() if new is None else f"+ {column} {new}")
        else:
            words.append(f"{column}: {old} → {new}")
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return ", ".join([*words[:most], *more])


def step_title(step: Step) -> str:
    """The title of a step."""
    names = [f"version {version.number} ({visible(version.table_version, 40)})" for version in (step.old, step.new)]
    return f"{visible(step.new.table)}, {' to '.join(names)}{', which comes back' if step.again else ''}"


def reading(changed: Iterable[Step]) -> list[dict[str, Any]]:
    """Whether readers of the versions of each step can read the other's rows, and why not."""
    return [
        {
            "table": step.new.table,
            "old": step.old.table_version,
            "new": step.new.table_version,
            "fit": step.compatibility.name,
            "evidence": _why(step.compatibility.backward),
            "sentence": _why(step.compatibility.forward),
        }
        for step in changed
    ]


def _why(reasons: Sequence[str]) -> str:
    if not reasons:
        return "yes"
    return f"no: {'; '.join(reasons[:5])}" + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else "")
