"""Schema drift: how the tables of a capture changed their columns, and the effect on their rows.

Versions are compared by their definitions (:mod:`cdcwb.analysis.versions`). Renames are detected from DDL records and
from rows (:mod:`cdcwb.analysis.version_order`). Results are small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.profiles import NOTHING, Misaligned, Profile, Values, distance
from cdcwb.analysis.version_order import (
    Pair,
    Statement,
    Stretch,
    Version,
    all_changes,
    continuing,
    extent_of,
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
    "difference_words",
    "drift",
    "lane_rows",
    "misaligned_rows",
    "newest_schema",
    "profile_rows",
    "reading",
    "schema_changes",
    "step_profiles",
    "step_title",
    "steps_between",
    "version_rows",
]


@dataclass(frozen=True, slots=True)
class Finding(Difference):
    """One difference between a version of a table and the next. ``first_position`` is the position of the first row of
    the ``new_version``, None if it has no rows."""

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
    stretches: list[Stretch]
    steps: list[Step]
    mixed: list[tuple[str, int]]
    statements: list[Statement]
    without_version: list[dict[str, Any]]

    @property
    def findings(self) -> list[Finding]:
        """All differences of all steps, worst first, then by table and position."""
        found = [finding for step in self.steps for finding in step.differences]
        return sorted(
            found, key=lambda one: (_RANKS.index(one.severity), one.table, one.first_position or "", one.rule)
        )


_RANKS: Final = list(Severity)


def drift(capture: Any) -> Drift:
    """The schema drift of a capture."""
    known = versions(capture)
    statements, without_version = _events(capture, known)
    parts, mixed = stretches(capture, known)
    pairs = [(old, new) for old, new in pairwise(parts) if old.version.table == new.version.table]
    return Drift(known, parts, _steps(capture, pairs, statements), mixed, statements, without_version)


# --- evidence in events -----------------------------------------------------------------------------------------------

_ROWS: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
_MOST_STATEMENTS: Final = 10_000
_OF_EVENTS: Final = (
    *("kind", "operation", "schema_name", "table_name", "table_version", "file_index", "offset", "file", "position"),
    "headers",
)

Unknown = dict[str, tuple[int, dict[str, Any]]]
"""The rows of unknown version by table: how many, and the first."""


def _events(capture: Any, known: Sequence[Version]) -> tuple[list[Statement], list[dict[str, Any]]]:
    """The DDL that the source recorded or that defined versions, in log order, and the rows whose version is not
    known."""
    names = pa.array({version.table_version for version in known}, pa.string())
    records, unknown = capture.rows("events", _OF_EVENTS).fold(partial(_evidence_of, names), _merged_evidence)
    statements = [Statement(table, position or None, text) for table, position, *_, text in records]
    statements += [
        Statement(version.table, version.lineage.get("change_seq"), version.schema_text)
        for version in known
        if version.origin == Operation.DDL and version.schema_text
    ]
    without_version = [
        {"table": table, "events": events, **{name: first[name] for name in ("position", "file", "offset")}}
        for table, (events, first) in unknown.items()
    ]
    without_version.sort(key=lambda row: (-row["events"], row["table"], row["position"] or ""))
    return sorted(statements, key=lambda statement: statement.position or ""), without_version


def _evidence_of(known: pa.Array, events: pa.RecordBatch) -> tuple[list[Any], Unknown]:
    is_ddl = pc.fill_null(pc.equal(events["operation"], str(Operation.DDL)), False)
    ddl = events.filter(is_ddl)
    records = []
    for row, table in zip(ddl.to_pylist(), table_labels(ddl).to_pylist(), strict=True):
        headers = dict(row["headers"] or ())
        if text := headers.get("statement") or headers.get("DETAILS"):
            records.append((table, row["position"] or "", row["file_index"], row["offset"], text))
    is_row = pc.is_in(events["kind"], pa.array(_ROWS, pa.string()))
    rows = events.filter(pc.and_(is_row, pc.invert(pc.or_(is_ddl, pc.is_in(events["table_version"], known)))))
    rows = rows.sort_by([("file_index", "ascending"), ("offset", "ascending")])
    labels, firsts, counts = np.unique(table_labels(rows).to_numpy(False), return_index=True, return_counts=True)
    shown = rows.take(pa.array(firsts)).to_pylist()
    return records, dict(zip(labels.tolist(), zip(counts.tolist(), shown, strict=True), strict=True))


def _merged_evidence(parts: Sequence[tuple[list[Any], Unknown]]) -> tuple[list[Any], Unknown]:
    unknown: Unknown = {}
    for table, (events, first) in (item for _, of_part in parts for item in of_part.items()):
        before, other = unknown.get(table, (0, first))
        unknown[table] = before + events, min(first, other, key=itemgetter("file_index", "offset"))
    return sorted(row for records, _ in parts for row in records)[:_MOST_STATEMENTS], unknown


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_between(capture: Any, old: Version, new: Version, statements: Sequence[Statement]) -> list[Step]:
    """The step between two versions that need not be adjacent; ``statements`` are those of a :class:`Drift`."""
    return _steps(capture, [(all_changes(old), all_changes(new))], statements)


def _steps(capture: Any, pairs: Sequence[tuple[Stretch, Stretch]], statements: Sequence[Statement]) -> list[Step]:
    """The differences of each pair of consecutive stretches; includes steps without a difference."""
    of_table: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        of_table[statement.table].append(statement)
    evidence: list[dict[tuple[str, str], str]] = []
    possible = []
    for number, (old, new) in enumerate(pairs):
        removed, added = (sorted(_names(side) - _names(other)) for side, other in ((old, new), (new, old)))
        renamed: dict[tuple[str, str], str] = {}
        if removed and added:
            between = [each for each in of_table[new.version.table] if _is_between(each, old, new)]
            renamed = rename_evidence(between, removed, added)
            taken = {name for pair in renamed for name in pair}
            for names in candidates(old.version.columns, new.version.columns):
                if taken.isdisjoint(names):
                    possible.append(_pair(pairs, number, *names))
        evidence.append(renamed)
    for pair, why in continuing(capture, possible).items():
        evidence[pair.number][pair.old, pair.new] = why
    return [_step(old, new, renamed) for (old, new), renamed in zip(pairs, evidence, strict=True)]


def _names(stretch: Stretch) -> set[str]:
    return {str(column["name"]) for column in stretch.version.columns}


def _is_between(ddl: Statement, old: Stretch, new: Stretch) -> bool:
    """Whether a statement is after the first row of the old version and not after the first row of the new one."""
    if ddl.position is None:
        return True
    before, after = old.first_position, new.first_position
    return (before is None or ddl.position > before) and (after is None or ddl.position <= after)


def _pair(pairs: Sequence[tuple[Stretch, Stretch]], number: int, old: str, new: str) -> Pair:
    """A pair of columns, in the nearest stretches with rows that have them, and the positions of rows that show the
    effect of the step; unlimited unless one of its versions returns."""
    first = _with_rows((pairs[at][0] for at in range(number, -1, -1)), pairs[number][0], old)
    last = _with_rows((pairs[at][1] for at in range(number, len(pairs))), pairs[number][1], new)
    complete = all(stretch.changes == stretch.version.changes for stretch in (first, last))
    reach = (None, None) if complete else (first.first_position, last.last_position)
    return Pair(number, last.version.table, first.version.table_version, last.version.table_version, old, new, *reach)


def _with_rows(ways: Iterable[Stretch], own: Stretch, column: str) -> Stretch:
    """The first stretch with rows as long as the table of a step's ``own`` one has a column; else that."""
    for stretch in ways:
        if stretch.version.table != own.version.table or column not in _names(stretch):
            break
        if stretch.changes:
            return stretch
    return own


def _step(old: Stretch, new: Stretch, evidence: Mapping[tuple[str, str], str]) -> Step:
    before, after = old.version, new.version
    changed = differences(before.columns, after.columns, evidence)
    where: dict[str, Any] = {"table": after.table, "new_version": after.table_version}
    where |= {"first_position": new.first_position, "first_at": new.first_at}
    found = [Finding(*astuple(difference), **where) for difference in changed]
    return Step(before, after, found, compatibility(before.columns, after.columns, former_names(changed)), new.again)


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
    used = [version for version in known if version.changes]
    newest = {version.table: version for version in (*used, *(step.new for step in changed if step.new.changes))}
    names = _names_on_the_way(changed)
    losses = []
    for version in sorted(used, key=attrgetter("table")):
        last = newest[version.table]
        renamed = names.get((version.table, version.table_version), {})
        why = dict.fromkeys(renamed.items(), "renamed on the way")
        for found in differences(version.columns, last.columns, why) if version is not last else ():
            if found.severity is not Severity.INFO or found.rule is Rule.ADDED:
                about = {name: getattr(version, name) for name in ("table", "table_version", "changes")}
                facts = {"rule": str(found.rule), "column": found.column, "old": found.old, "new": found.new}
                losses.append({**about, **facts, "what": _LOSS[found.rule]})
    return losses


def _names_on_the_way(steps: Sequence[Step]) -> dict[tuple[str, str], dict[str, str]]:
    """By table and version: the final names of its columns that were renamed later."""
    final_names: dict[tuple[str, str], dict[str, str]] = {}
    later: dict[str, dict[str, str]] = defaultdict(dict)
    for step in reversed(steps):
        of_table = later[step.new.table]
        for new, old in former_names(step.differences).items():
            of_table[old] = of_table.pop(new, new)
        final_names.setdefault((step.old.table, step.old.table_version), dict(of_table))
    return final_names


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
    if table:
        matching = [name for name in tables if name == table] or [name for name in tables if name.endswith(f".{table}")]
        if len(matching) == 1:
            tables = matching
        elif matching:
            wrong.append(f"table: '{visible(table)}' is the name of several: {_listed(matching)}")
        else:
            wrong.append(f"table: {_unknown(table, tables)}")
    of_tables = [version for version in known if version.table in tables]
    old = _named(of_tables, "old_version", old_version, wrong)
    new = _named([v for v in of_tables if not old or v.table == old.table], "new_version", new_version, wrong)
    if new is not None and not old_version:
        old = next((v for v in known if (v.table, v.number) == (new.table, new.number - 1)), None)
        if old is None:
            first = visible(new.table_version)
            wrong.append(f"new_version: '{first}' is the first of {new.table}, and no old_version was given")
    elif old is not None and not new_version:
        new = [version for version in known if version.table == old.table][-1]
        if new is old:
            last = visible(old.table_version)
            wrong.append(f"old_version: '{last}' is the last of {old.table}, and no new_version was given")
    if wrong:
        raise OptionError("; ".join(wrong))
    return set(tables), None if old is None or new is None else (old, new)


def _named(versions: Sequence[Version], parameter: str, name: str, wrong: list[str]) -> Version | None:
    if not name:
        return None
    is_one_table = len({version.table for version in versions}) == 1
    matching = [version for version in versions if version.table_version == name]
    matching = matching or [version for version in versions if is_one_table and str(version.number) == name]
    matching = matching or [v for v in versions if len(name) > 2 and v.table_version.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    names = [version.table_version for version in matching or versions]
    several = f"'{visible(name)}' is ambiguous; versions that begin with it: {_listed(names)}"
    wrong.append(f"{parameter}: {several if matching else _unknown(name, names)}")
    return None


def _unknown(name: str, names: Sequence[str]) -> str:
    return f"there is no '{visible(name)}'.{visible(nearest(name, names), 200)} There are: {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(visible(name) for name in names[:_NAMED]) or "none"
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


# --- rows for tables and charts ---------------------------------------------------------------------------------------


def lane_rows(drift_of: Drift) -> list[dict[str, Any]]:
    """A row for every period in which a version is in force, as :func:`cdcwb.charts.version_lanes` draws them."""
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


def all_findings(drift_of: Drift, values: Values) -> list[Finding]:
    """Differences of versions and misaligned values, worst first. Values under the wrong columns are errors, one for
    each column."""
    shown = [
        Finding(
            rule=Rule.MISALIGNED,
            severity=Severity.ERROR,
            column=column,
            old=column,
            new=other,
            evidence=f"the values of {plural(item.changes, 'row')} look like those of {other}",
            table=item.table,
            new_version=item.table_version,
            first_position=item.first["position"],
            first_at=item.first["changed_at"],
        )
        for item in values.misaligned
        for column, other in item.columns
    ]
    known = drift_of.findings
    errors = [finding for finding in known if finding.severity is Severity.ERROR]
    return errors + shown + known[len(errors) :]


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


def misaligned_rows(misaligned: Iterable[Misaligned]) -> list[dict[str, Any]]:
    """A row for each column that has the values of another."""
    return [
        {
            **{name: item.first[name] for name in ("table", "position", "file", "offset")},
            "at": item.first["changed_at"],
            "column": column,
            "looks_like": other,
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
    rows = []
    for old, new in columns:
        both = before.get(old, NOTHING), after.get(new, NOTHING)
        far = distance(*both)
        looks = [
            {
                "values": f"{profile.values:,}",
                "null": _share(profile.nulls, profile.rows),
                "numbers": _share(profile.number, profile.values),
                "dates": _share(profile.time, profile.values),
                "characters": f"{profile.length / profile.values:.1f}" if profile.values else "—",
                "magnitude": f"{10 ** min(profile.magnitude / profile.number, 300):.3g}" if profile.number else "—",
            }
            for profile in both
        ]
        change = {n: look if look == looks[1][n] else f"{look} → {looks[1][n]}" for n, look in looks[0].items()}
        name = new if old == new else f"{new} (before: {old})"
        rows.append({"column": name, **change, "unlike": "too few values" if far is None else f"{far:.2f}"})
    return rows


def _share(part: float, total: float) -> str:
    return f"{part / total:.0%}" if total else "—"


def step_profiles(changed: Iterable[Step], values: Values) -> list[dict[str, Any]]:
    """How the values of columns that are retained or renamed changed from one version to the next, largest difference
    first. Columns with too few values on one side are excluded."""
    rows = []
    for step in changed:
        table = step.new.table
        before, after = (values.profiles.get((table, s.table_version), {}) for s in (step.old, step.new))
        former = former_names(step.differences)
        for name in after:
            old = former.get(name, name)
            far = distance(before.get(old, NOTHING), after[name])
            if far is not None:
                (row,) = profile_rows(before, after, [(old, name)])
                rows.append((far, {"table": table, "old": step.old.number, "new": step.new.number, **row}))
    return [row for _, row in sorted(rows, key=lambda pair: (-pair[0], pair[1]["table"], pair[1]["column"]))]
