"""What the page on schema drift shows of its answers: which versions were asked for, and rows for its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cdcwb.analysis.drift import Drift, Finding, Step
from cdcwb.analysis.misaligned import RULE, Misaligned, Values
from cdcwb.analysis.profiles import NOTHING, Profile, distance
from cdcwb.analysis.version_order import Version
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Severity
from cdcwb.words import plural, visible

__all__ = [
    "all_findings",
    "chosen",
    "lane_rows",
    "misaligned_rows",
    "names_of",
    "profile_rows",
    "reading",
    "step_profiles",
    "step_title",
    "version_rows",
]

_NAMED: Final = 30  # names that a message lists
_READS: Final = {
    "full": "each reads the other",
    "backward": "the newer reads the older, not the other way round",
    "forward": "the older reads the newer, not the other way round",
    "none": "neither reads the other",
}


# --- which versions ---------------------------------------------------------------------------------------------------


def chosen(known: Sequence[Version], table: str, old_version: str, new_version: str) -> tuple[Version, Version] | None:
    """The two versions that were asked for; None where neither was. Without ``old_version`` it is the one before the
    new one, without ``new_version`` the last of the table.

    A table is named ``schema.table``, or ``table`` where only one has that name. A version is named as the capture
    names it, by the beginning of that, or by its number. Raises OptionError that names everything that is wrong.
    """
    wrong: list[str] = []
    table, old_version, new_version = map(str, (table, old_version, new_version))  # papermill gives a number as one
    mine = _of_table(known, table, wrong)
    old = _named(mine, "old_version", old_version, wrong) if old_version else None
    if old is not None and not table:
        mine = [version for version in mine if version.table == old.table]
    new = _named(mine, "new_version", new_version, wrong) if new_version else None
    if old is None and new is not None and not old_version:
        old = next((one for one in known if (one.table, one.number) == (new.table, new.number - 1)), None)
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
    """The tables whose steps are shown: the one that was asked for, or all. Raises OptionError for one that there is
    not."""
    wrong: list[str] = []
    mine = _of_table(known, table, wrong)
    if wrong:
        raise OptionError("; ".join(wrong))
    return {version.table for version in mine}


def _of_table(known: Sequence[Version], table: str, wrong: list[str]) -> list[Version]:
    """The versions of a table; all, where none was asked for or there is no such table."""
    tables = list(dict.fromkeys(version.table for version in known))
    if not table:
        return list(known)
    found = [name for name in tables if name == table] or [name for name in tables if name.endswith(f".{table}")]
    if len(found) == 1:
        return [version for version in known if version.table == found[0]]
    if found:
        wrong.append(f"table: '{visible(table)}' is the name of several: {_listed(found)}")
    else:
        hint = visible(nearest(table, tables), 200)
        wrong.append(f"table: there is no '{visible(table)}'.{hint} There are: {_listed(tables)}")
    return list(known)


def _named(mine: Sequence[Version], parameter: str, name: str, wrong: list[str]) -> Version | None:
    exact = [version for version in mine if version.table_version == name]
    tables = {version.table for version in mine}
    numbered = [version for version in mine if str(version.number) == name and len(tables) == 1]
    begun = [version for version in mine if len(name) > 2 and version.table_version.startswith(name)]
    found = exact or numbered or begun
    if len(found) == 1:
        return found[0]
    if found:
        told = _listed([version.table_version for version in found])
        wrong.append(f"{parameter}: '{visible(name)}' is ambiguous; versions that begin with it: {told}")
        return None
    names = [version.table_version for version in mine]
    hint = visible(nearest(name, names), 200)
    wrong.append(f"{parameter}: there is no '{visible(name)}'.{hint} There are: {_listed(names)}")
    return None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(visible(name) for name in names[:_NAMED]) or "none"
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _short(version: Version) -> str:
    return visible(version.table_version)


# --- rows for tables and charts ---------------------------------------------------------------------------------------


def lane_rows(told: Drift) -> list[dict[str, Any]]:
    """A row for every time that a version is in force, as :func:`cdcwb.charts.version_lanes` draws them."""
    names = ("first_position", "last_position", "first_at", "last_at", "changes", "again")
    return [{**_about(one.version), **{name: getattr(one, name) for name in names}} for one in told.stretches]


def version_rows(known: Iterable[Version]) -> list[dict[str, Any]]:
    """A row for every version."""
    names = ("first_position", "last_position", "first_at", "last_at", "changes")
    return [{**_about(one), **{name: getattr(one, name) for name in names}} for one in known]


def _about(version: Version) -> dict[str, Any]:
    facts = {name: getattr(version, name) for name in ("table", "number", "table_version", "origin")}
    return facts | {"columns": len(version.columns)}


def all_findings(told: Drift, values: Values) -> list[Finding]:
    """What versions say and what values show, worst first: values under the wrong columns are errors, one for each
    column."""
    shown = [
        Finding(
            *(RULE, str(Severity.ERROR), one.table, column, column, other, one.table_version, one.table_version),
            *(
                one.first_position,
                one.first_at,
                f"the values of {plural(one.changes, 'row')} look like those of {other}",
            ),
        )
        for one in values.misaligned
        for column, other in one.columns
    ]
    errors = [one for one in told.findings if one.severity == Severity.ERROR]
    return errors + shown + told.findings[len(errors) :]


def step_title(step: Step) -> str:
    """Which step it is, in words."""
    names = [f"version {one.number} ({visible(one.table_version, 40)})" for one in (step.old, step.new)]
    return f"{visible(step.new.table)}, {' to '.join(names)}{', which comes back' if step.again else ''}"


def reading(changed: Iterable[Step]) -> list[dict[str, Any]]:
    """Whether readers of the versions of each step read the other's rows, and why not."""
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


def misaligned_rows(found: Iterable[Misaligned]) -> list[dict[str, Any]]:
    """A row for each column with values of another."""
    return [
        {
            "table": one.table,
            "table_version": one.table_version,
            "column": column,
            "looks_like": other,
            "position": one.first_position,
            "at": one.first_at,
            "file": one.file,
            "offset": one.offset,
            "changes": one.changes,
        }
        for one in found
        for column, other in one.columns
    ]


def profile_rows(
    before: Mapping[str, Profile], after: Mapping[str, Profile], columns: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """How the values of columns looked before and look after; ``columns``: pairs of the name before and after."""
    return [
        {"column": new if old == new else f"{new} (before: {old})", **_looks(before.get(old), after.get(new))}
        for old, new in columns
    ]


def _looks(before: Profile | None, after: Profile | None) -> dict[str, Any]:
    both = (before or NOTHING, after or NOTHING)
    far = distance(*both)
    row: dict[str, Any] = {"values": _change(*(f"{one.values:,}" for one in both))}
    row["null"] = _change(*(_share(one.nulls, one.rows) for one in both))
    row["numbers"] = _change(*(_share(one.number, one.values) for one in both))
    row["dates"] = _change(*(_share(one.time, one.values) for one in both))
    row["characters"] = _change(*(f"{one.length / one.values:.1f}" if one.values else "—" for one in both))
    row["magnitude"] = _change(*(f"{10 ** min(one.size / one.number, 300):.3g}" if one.number else "—" for one in both))
    return row | {"unlike": "too few values" if far is None else f"{far:.2f}"}


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "—"


def step_profiles(changed: Iterable[Step], values: Values) -> list[dict[str, Any]]:
    """How the values of columns that stay, or go on under another name, changed from a version to the next: the most
    unlike first; columns with too few values on a side are left out."""
    found = []
    for step in changed:
        table = step.new.table
        before, after = (values.profiles.get((table, one.table_version), {}) for one in (step.old, step.new))
        former = {str(one.new): str(one.old) for one in step.differences if one.rule == "column_renamed"}
        for name in after:
            old = former.get(name, name)
            far = distance(before.get(old, NOTHING), after[name])
            if far is not None:
                (row,) = profile_rows(before, after, [(old, name)])
                found.append((far, {"table": table, "old": step.old.number, "new": step.new.number, **row}))
    return [row for _, row in sorted(found, key=lambda pair: (-pair[0], pair[1]["table"], pair[1]["column"]))]
