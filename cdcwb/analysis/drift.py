"""Schema drift: how the tables of a capture changed their columns, and the effect on their rows.

Versions are compared by their definitions (:mod:`cdcwb.analysis.versions`). Renames are detected from DDL records and
from rows (:mod:`cdcwb.analysis.version_order`). Results are small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.misaligned import NOTHING, RULE, Misaligned, Profile, Values, distance
from cdcwb.analysis.version_order import (
    Pair,
    Statement,
    Stretch,
    Version,
    all_changes,
    continuing,
    rename_evidence,
    stretches,
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
from cdcwb.formats.options import nearest
from cdcwb.index.columns import table_labels
from cdcwb.model import Kind, Operation, Severity
from cdcwb.words import plural, visible

__all__ = [
    "Drift",
    "Finding",
    "Step",
    "all_findings",
    "chosen",
    "drift",
    "findings",
    "lane_rows",
    "misaligned_rows",
    "names_of",
    "newest_schema",
    "profile_rows",
    "reading",
    "step_profiles",
    "step_title",
    "steps_between",
    "version_rows",
]


_ROWS: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
_MOST_STATEMENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a version and the next. ``first_position`` is the position of the first row of the new
    version, None if it has no rows."""

    rule: str
    severity: str
    table: str
    column: str | None
    old: str | None
    new: str | None
    old_version: str
    new_version: str
    first_position: str | None
    first_at: datetime | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Step:
    """The step from one version to the next, and whether readers of each can read the other by Avro's rules. ``again``:
    the new version was in force before."""

    old: Version
    new: Version
    differences: list[Difference]
    findings: list[Finding]
    compatibility: Compatibility
    first_position: str | None
    first_at: datetime | None
    again: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """The schema drift of a capture. ``mixed``: tables in which rows of an older version follow rows of a newer one
    although the older version did not return, and how often. ``without_version``: rows of unknown version by table,
    with the location of the first (``position``, ``file``, ``offset``)."""

    versions: list[Version]
    stretches: list[Stretch]
    steps: list[Step]
    findings: list[Finding]
    mixed: list[tuple[str, int]]
    statements: list[Statement]
    without_version: list[dict[str, Any]]


def drift(capture: Any) -> Drift:
    """The schema drift of a capture."""
    known = versions(capture)
    statements, without_version = _events(capture, [version.table_version for version in known])
    statements += _of_versions(known)
    parts, mixed = stretches(capture, known)
    pairs = [(old, new) for old, new in pairwise(parts) if old.version.table == new.version.table]
    steps = _steps(capture, pairs, statements)
    return Drift(known, parts, steps, findings(steps), mixed, statements, without_version)


# --- evidence in events -----------------------------------------------------------------------------------------------


_OF_EVENTS: Final = (
    *("kind", "operation", "schema_name", "table_name", "table_version", "file_index", "offset", "file", "position"),
    *("changed_at", "headers"),
)
_LOCATION: Final = ("position", "changed_at", "file", "offset")
_DDL: Final = str(Operation.DDL)

Unknown = dict[str, tuple[int, dict[str, Any]]]
"""The rows of unknown version by table: how many, and the first."""


def _events(capture: Any, names: Iterable[str]) -> tuple[list[Statement], list[dict[str, Any]]]:
    """The source's records of DDL, in log order, and the rows whose version is not known."""
    known = pa.array(sorted(set(names)), pa.string())
    statements, unknown = capture.rows("events", _OF_EVENTS).fold(partial(_evidence_of, known), _merged_evidence)
    without_version = [
        {"table": table, "events": events, **{name: first[name] for name in ("position", "file", "offset")}}
        for table, (events, first) in unknown.items()
    ]
    without_version.sort(key=lambda row: (-row["events"], row["table"], row["position"] or ""))
    return [Statement(*row) for *_, row in statements], without_version


def _evidence_of(known: pa.Array, events: pa.RecordBatch) -> tuple[list[Any], Unknown]:
    is_ddl = pc.fill_null(pc.equal(events["operation"], _DDL), False)
    ddl = events.filter(is_ddl)
    statements = []
    for row, table in zip(ddl.to_pylist(), table_labels(ddl).to_pylist(), strict=True):
        headers = dict(row["headers"] or ())
        if text := headers.get("statement") or headers.get("DETAILS"):
            location = (table, row["position"] or "", row["file_index"], row["offset"])
            statements.append((*location, (table, text, *(row[name] for name in _LOCATION))))
    is_row = pc.is_in(events["kind"], pa.array(_ROWS, pa.string()))
    is_unknown = pc.and_(is_row, pc.invert(pc.or_(is_ddl, pc.is_in(events["table_version"], known))))
    rows = events.filter(is_unknown)
    rows = rows.take(pc.sort_indices(rows, [("file_index", "ascending"), ("offset", "ascending")]))
    labels, firsts, counts = np.unique(table_labels(rows).to_numpy(False), return_index=True, return_counts=True)
    shown = rows.take(pa.array(firsts)).to_pylist()
    return statements, dict(zip(labels.tolist(), zip(counts.tolist(), shown, strict=True), strict=True))


def _merged_evidence(parts: Sequence[tuple[list[Any], Unknown]]) -> tuple[list[Any], Unknown]:
    unknown: Unknown = {}
    for table, (events, first) in (item for _, of_part in parts for item in of_part.items()):
        before, other = unknown.get(table, (0, first))
        unknown[table] = before + events, min(first, other, key=itemgetter("file_index", "offset"))
    return sorted(row for statements, _ in parts for row in statements)[:_MOST_STATEMENTS], unknown


def _of_versions(known: Iterable[Version]) -> list[Statement]:
    """The DDL statements that defined versions."""
    return [
        Statement(version.table, version.schema_text, (version.lineage or {}).get("change_seq"), None, "", 0)
        for version in known
        if version.origin == str(Operation.DDL) and version.schema_text
    ]


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_between(
    capture: Any, chosen: Sequence[tuple[Version, Version]], statements: Iterable[Statement]
) -> list[Step]:
    """The steps between pairs of versions that need not be adjacent; ``statements`` are the statements of a
    :class:`Drift`."""
    return _steps(capture, [(all_changes(old), all_changes(new)) for old, new in chosen], statements)


def _steps(capture: Any, pairs: Sequence[tuple[Stretch, Stretch]], statements: Iterable[Statement]) -> list[Step]:
    """The differences of each pair of consecutive stretches; includes steps without a difference."""
    by_table: dict[str, list[Statement]] = defaultdict(list)
    for each in sorted(statements, key=lambda s: (s.position or "", s.file, s.offset)):
        by_table[each.table].append(each)
    by_ddl: list[dict[tuple[str, str], str]] = []
    open_pairs = []
    for number, (old, new) in enumerate(pairs):
        names = [{str(column["name"]) for column in stretch.version.columns} for stretch in (old, new)]
        removed, added = sorted(names[0] - names[1]), sorted(names[1] - names[0])
        between = (
            [statement for statement in by_table[new.version.table] if _between(statement, old, new)]
            if removed and added
            else []
        )
        by_ddl.append(rename_evidence(between, removed, added))
        taken = {name for pair in by_ddl[-1] for name in pair}
        for before, after in candidates(old.version.columns, new.version.columns) if removed and added else ():
            if before not in taken and after not in taken:
                first, last = _with_rows(pairs, number, -1, before), _with_rows(pairs, number, 1, after)
                both = (first.version.table_version, last.version.table_version)
                open_pairs.append(Pair(number, new.version.table, *both, before, after, *_reach(first, last)))
    by_rows: dict[int, dict[tuple[str, str], str]] = defaultdict(dict)
    for pair, why in continuing(capture, open_pairs).items():
        by_rows[pair.number][pair.old, pair.new] = why
    return [_step(old, new, by_ddl[number] | by_rows[number]) for number, (old, new) in enumerate(pairs)]


def _between(ddl: Statement, old: Stretch, new: Stretch) -> bool:
    """Whether a statement is after the first row of the old version and not after the first row of the new one."""
    if ddl.position is None:
        return True
    before, after = old.first_position, new.first_position
    return (before is None or ddl.position > before) and (after is None or ddl.position <= after)


def _with_rows(pairs: Sequence[tuple[Stretch, Stretch]], number: int, way: int, column: str) -> Stretch:
    """The nearest stretch with rows that have a column, searched backwards (``way`` -1) or forwards (1) from a step;
    the stretch of the step itself if there is none."""
    side = 0 if way < 0 else 1
    own = pairs[number][side]
    at = number
    while 0 <= at < len(pairs):
        stretch = pairs[at][side]
        known = any(str(known_column["name"]) == column for known_column in stretch.version.columns)
        if stretch.version.table != own.version.table or not known:
            break
        if stretch.changes:
            return stretch
        at += way
    return own


def _reach(old: Stretch, new: Stretch) -> tuple[str | None, str | None]:
    """The range of positions whose rows show the effect of a step; unlimited unless one of its versions returns."""
    complete = old.changes == old.version.changes and new.changes == new.version.changes
    return (None, None) if complete else (old.first_position, new.last_position)


def _step(old: Stretch, new: Stretch, evidence: Mapping[tuple[str, str], str]) -> Step:
    changed = differences(old.version.columns, new.version.columns, evidence)
    both = (old.version.table_version, new.version.table_version)
    rows = [
        Finding(
            *(str(d.rule), str(d.severity), new.version.table, d.column, d.old, d.new),
            *(*both, new.first_position, new.first_at, d.evidence),
        )
        for d in changed
    ]
    fit = compatibility(old.version.columns, new.version.columns, former_names(changed))
    return Step(old.version, new.version, changed, rows, fit, new.first_position, new.first_at, new.again)


def findings(changed: Iterable[Step]) -> list[Finding]:
    """All differences of all steps, worst first, then by table and position."""
    ranks = {str(severity): rank for rank, severity in enumerate(Severity)}
    rows = [f for step in changed for f in step.findings]
    return sorted(
        rows, key=lambda finding: (ranks[finding.severity], finding.table, finding.first_position or "", finding.rule)
    )


# --- a sink that keeps the newest schema ------------------------------------------------------------------------------

_LOSS: Final = {
    Rule.DROPPED: "the column no longer exists: its values are lost",
    Rule.RENAMED: "the value is under another name: the column is NULL, unless the sink knows the old name",
    Rule.ADDED: "the rows do not have the column: it is NULL, as if it were NULL in the source",
    Rule.RETYPED: "the value may not fit the new type",
    Rule.RESIZED: "the value may not fit the new size",
    Rule.REORDERED: "a sink that goes by position takes values for those of other columns",
    Rule.KEY: "rows are found by another key",
    Rule.NULLABILITY: "NULL may be where none is allowed",
}


def newest_schema(known: Sequence[Version], changed: Sequence[Step] = ()) -> list[dict[str, Any]]:
    """Errors of a sink that reads all rows by the newest version of their table: ``table``, ``table_version`` (of the
    rows), ``changes`` (the number of rows), ``rule``, ``column``, ``old``, ``new``, ``what``. Only versions with rows,
    and only differences that lose or confuse values. The ``changed`` steps determine which version is the newest, and
    which columns were renamed."""
    newest: dict[str, Version] = {}
    by_table: dict[str, list[Version]] = defaultdict(list)
    for version in known:
        if version.changes:
            by_table[version.table].append(version)
            newest[version.table] = version
    ways: dict[str, list[Step]] = defaultdict(list)
    for step in changed:
        ways[step.new.table].append(step)
        if step.new.changes:
            newest[step.new.table] = step.new
    losses = []
    for table, of_table in by_table.items():
        names = _names_on_the_way(ways[table])
        for version in of_table:
            if version is newest[table]:
                continue
            renamed = dict.fromkeys(names.get(version.table_version, {}).items(), "renamed on the way")
            for d in differences(version.columns, newest[table].columns, renamed):
                if d.severity is Severity.INFO and d.rule is not Rule.ADDED:
                    continue
                facts = {"rule": str(d.rule), "column": d.column, "old": d.old, "new": d.new}
                whose = {"table": table, "table_version": version.table_version, "changes": version.changes}
                losses.append({**whose, **facts, "what": _LOSS[d.rule]})
    return losses


def _names_on_the_way(way: Sequence[Step]) -> dict[str, dict[str, str]]:
    """By version: the final names of its columns that were renamed later."""
    final_names: dict[str, dict[str, str]] = {}
    later: dict[str, str] = {}
    for step in reversed(way):
        for new, old in former_names(step.differences).items():
            later[old] = later.pop(new, new)
        final_names.setdefault(step.old.table_version, dict(later))
    return final_names


# --- drift page -------------------------------------------------------------------------------------------------------

_NAMED: Final = 30  # names that a message lists
_READS: Final = {
    "full": "each reads the other",
    "backward": "the newer reads the older, not the other way round",
    "forward": "the older reads the newer, not the other way round",
    "none": "neither reads the other",
}


# --- selection of versions --------------------------------------------------------------------------------------------


def chosen(known: Sequence[Version], table: str, old_version: str, new_version: str) -> tuple[Version, Version] | None:
    """The two requested versions; None if neither is given. The default of ``old_version`` is the version that precedes
    the new one, that of ``new_version`` the last version of the table.

    A table is named ``schema.table``, or ``table`` if that is unique. A version is given by its name in the capture,
    the beginning of that, or its number. Raises OptionError that names everything that is wrong.
    """
    wrong: list[str] = []
    table, old_version, new_version = map(str, (table, old_version, new_version))  # papermill passes numbers
    of_table = _of_table(known, table, wrong)
    old = _named(of_table, "old_version", old_version, wrong) if old_version else None
    if old is not None and not table:
        of_table = [version for version in of_table if version.table == old.table]
    new = _named(of_table, "new_version", new_version, wrong) if new_version else None
    if old is None and new is not None and not old_version:
        old = next((v for v in known if (v.table, v.number) == (new.table, new.number - 1)), None)
        if old is None:
            wrong.append(f"new_version: '{_short(new)}' is the first of {new.table}, and no old_version was given")
    if old is not None and new is None and not new_version:
        new = [version for version in known if version.table == old.table][-1]
        if new is old:
            wrong.append(f"old_version: '{_short(old)}' is the last of {old.table}, and no new_version was given")
    if wrong:
        raise OptionError("; ".join(wrong))
    return None if old is None or new is None else (old, new)


def names_of(known: Sequence[Version], table: str) -> set[str]:
    """The tables whose steps are shown: the requested one, or all. Raises OptionError for an unknown table."""
    wrong: list[str] = []
    of_table = _of_table(known, table, wrong)
    if wrong:
        raise OptionError("; ".join(wrong))
    return {version.table for version in of_table}


def _of_table(known: Sequence[Version], table: str, wrong: list[str]) -> list[Version]:
    """The versions of a table; all if no table is given or the table is unknown."""
    tables = list(dict.fromkeys(version.table for version in known))
    if not table:
        return list(known)
    matching = [name for name in tables if name == table] or [name for name in tables if name.endswith(f".{table}")]
    if len(matching) == 1:
        return [version for version in known if version.table == matching[0]]
    if matching:
        wrong.append(f"table: '{visible(table)}' is the name of several: {_listed(matching)}")
    else:
        hint = visible(nearest(table, tables), 200)
        wrong.append(f"table: there is no '{visible(table)}'.{hint} There are: {_listed(tables)}")
    return list(known)


def _named(versions_of: Sequence[Version], parameter: str, name: str, wrong: list[str]) -> Version | None:
    exact = [version for version in versions_of if version.table_version == name]
    tables = {version.table for version in versions_of}
    numbered = [version for version in versions_of if str(version.number) == name and len(tables) == 1]
    begun = [version for version in versions_of if len(name) > 2 and version.table_version.startswith(name)]
    matching = exact or numbered or begun
    if len(matching) == 1:
        return matching[0]
    if matching:
        listed = _listed([version.table_version for version in matching])
        wrong.append(f"{parameter}: '{visible(name)}' is ambiguous; versions that begin with it: {listed}")
        return None
    names = [version.table_version for version in versions_of]
    hint = visible(nearest(name, names), 200)
    wrong.append(f"{parameter}: there is no '{visible(name)}'.{hint} There are: {_listed(names)}")
    return None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(visible(name) for name in names[:_NAMED]) or "none"
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _short(version: Version) -> str:
    return visible(version.table_version)


# --- rows for tables and charts ---------------------------------------------------------------------------------------


def lane_rows(drift_of: Drift) -> list[dict[str, Any]]:
    """A row for every period in which a version is in force, as :func:`cdcwb.charts.version_lanes` draws them."""
    names = ("first_position", "last_position", "first_at", "last_at", "changes", "again")
    schemas: dict[str, dict[Any, int]] = defaultdict(dict)
    rows = []
    steps = iter(drift_of.steps)  # one between two periods of a table, in their order
    previous = None
    for period in drift_of.stretches:
        version = period.version
        change = difference_words(next(steps)) if previous == version.table else ""
        previous = version.table
        columns = tuple((column["name"], column["type"]) for column in version.columns)
        schema = schemas[version.table].setdefault(columns, len(schemas[version.table]))
        row = {**_about(version), **{name: getattr(period, name) for name in names}, "schema": schema}
        rows.append({**row, "change": change})
    return rows


def schema_changes(drift_of: Drift) -> list[Step]:
    """The steps from one version to the next in which the table itself changes."""
    return [step for step in drift_of.steps if step.differences]


def difference_words(step: Step, most: int = 3) -> str:
    """The differences of a step in a few words: ``+ discount decimal(9,2)``; empty without any."""
    words = []
    for difference in step.differences:
        column, old, new = difference.column, difference.old, difference.new
        if column is None:
            words.append(str(difference.rule).replace("_", " "))
        elif difference.rule == Rule.RENAMED:
            words.append(f"{old} → {new}")
        elif old is None or new is None:
            words.append(f"− {column} {old or ''}".rstrip() if new is None else f"+ {column} {new}")
        else:
            words.append(f"{column}: {old} → {new}")
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return ", ".join([*words[:most], *more])


def version_rows(known: Iterable[Version]) -> list[dict[str, Any]]:
    """A row for every version."""
    names = ("first_position", "last_position", "first_at", "last_at", "changes")
    return [{**_about(version), **{name: getattr(version, name) for name in names}} for version in known]


def _about(version: Version) -> dict[str, Any]:
    facts = {name: getattr(version, name) for name in ("table", "number", "table_version", "origin")}
    return facts | {"columns": len(version.columns)}


def all_findings(drift_of: Drift, values: Values) -> list[Finding]:
    """Differences of versions and misaligned values, worst first. Values under the wrong columns are errors, one for
    each column."""
    shown = [
        Finding(
            *(RULE, str(Severity.ERROR), item.table, column, column, other, item.table_version, item.table_version),
            *(
                item.first_position,
                item.first_at,
                f"the values of {plural(item.changes, 'row')} look like those of {other}",
            ),
        )
        for item in values.misaligned
        for column, other in item.columns
    ]
    errors = [finding for finding in drift_of.findings if finding.severity == Severity.ERROR]
    return errors + shown + drift_of.findings[len(errors) :]


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
            "meaning": _READS[step.compatibility.name],
            "evidence": _why(step.compatibility.backward),
            "sentence": _why(step.compatibility.forward),
        }
        for step in changed
    ]


def _why(reasons: Sequence[str]) -> str:
    if not reasons:
        return "yes"
    return f"no: {'; '.join(reasons[:5])}" + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else "")


def misaligned_rows(misaligned: Iterable[Misaligned]) -> list[dict[str, Any]]:
    """A row for each column that has the values of another."""
    return [
        {
            "table": item.table,
            "table_version": item.table_version,
            "column": column,
            "looks_like": other,
            "position": item.first_position,
            "at": item.first_at,
            "file": item.file,
            "offset": item.offset,
            "changes": item.changes,
        }
        for item in misaligned
        for column, other in item.columns
    ]


def profile_rows(
    before: Mapping[str, Profile], after: Mapping[str, Profile], columns: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """A row for each column with the profile of its values before and after; ``columns``: pairs of the name before and
    after."""
    return [
        {"column": new if old == new else f"{new} (before: {old})", **_looks(before.get(old), after.get(new))}
        for old, new in columns
    ]


def _looks(before: Profile | None, after: Profile | None) -> dict[str, Any]:
    both = (before or NOTHING, after or NOTHING)
    far = distance(*both)
    row: dict[str, Any] = {"values": _change(*(f"{p.values:,}" for p in both))}
    row["null"] = _change(*(_share(p.nulls, p.rows) for p in both))
    row["numbers"] = _change(*(_share(p.number, p.values) for p in both))
    row["dates"] = _change(*(_share(p.time, p.values) for p in both))
    row["characters"] = _change(*(f"{p.length / p.values:.1f}" if p.values else "—" for p in both))
    row["magnitude"] = _change(*(f"{10 ** min(p.size / p.number, 300):.3g}" if p.number else "—" for p in both))
    return row | {"unlike": "too few values" if far is None else f"{far:.2f}"}


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _share(part: int, total: int) -> str:
    return f"{part / total:.0%}" if total else "—"


def step_profiles(changed: Iterable[Step], values: Values) -> list[dict[str, Any]]:
    """How the values of columns that are retained or renamed changed from one version to the next, largest difference
    first. Columns with too few values on one side are excluded."""
    rows = []
    for step in changed:
        table = step.new.table
        before, after = (values.profiles.get((table, s.table_version), {}) for s in (step.old, step.new))
        former = {str(d.new): str(d.old) for d in step.differences if d.rule == "column_renamed"}
        for name in after:
            old = former.get(name, name)
            far = distance(before.get(old, NOTHING), after[name])
            if far is not None:
                (row,) = profile_rows(before, after, [(old, name)])
                rows.append((far, {"table": table, "old": step.old.number, "new": step.new.number, **row}))
    return [row for _, row in sorted(rows, key=lambda pair: (-pair[0], pair[1]["table"], pair[1]["column"]))]
