"""How the tables of a capture changed their columns, and what that did to their rows.

What versions say of themselves is compared (:mod:`cdcwb.analysis.versions`); whether a column goes on under another
name is asked of the rows: the last value of a row's old column and the first of its new one. Answers are small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F

from cdcwb.analysis.frames import table_name, when
from cdcwb.analysis.profiles import ALIKE, distance, profiles_of
from cdcwb.analysis.versions import Compatibility, Rule, candidates, compatibility, differences
from cdcwb.model import Kind, Severity
from cdcwb.words import plural

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Finding", "Step", "Version", "findings", "newest_schema", "steps", "versions", "without_version"]

_ROWS: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
_SHARE: Final = 0.9  # of the rows that both versions show: so many have the same value in a column that was renamed
_VALUES: Final = 0.5  # of the distinct values: so many were there before
_LEAST: Final = 2


class Tables(Protocol):
    """What is asked of a capture (:mod:`cdcwb.model`)."""

    @property
    def events(self) -> DataFrame: ...
    @property
    def changes(self) -> DataFrame: ...
    @property
    def table_versions(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table, and its rows: ``changes`` (how many), ``first_position``, ``first_at`` and ``last_at``
    (UTC) of these, None where there are none or they bear no time. ``columns``: rows of
    :data:`cdcwb.model.COLUMN`."""

    table: str
    table_version: str
    columns: list[Mapping[str, Any]]
    origin: str
    first_position: str | None
    first_event: Mapping[str, int] | None
    changes: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a version and the next. ``first_position`` is that of the first row of the new one."""

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
    """From one version to the next, and whether a reader of one reads the other by Avro's rules."""

    old: Version
    new: Version
    findings: list[Finding]
    compatibility: Compatibility


def versions(capture: Tables) -> list[Version]:
    """The versions of every table, by table, each in the order in which their rows begin; those without rows behind, in
    the order of the events that brought them."""
    rows = capture.table_versions.toArrow().to_pylist()
    used = (
        capture.changes.filter(F.col("table_version").isNotNull())
        .withColumns({"table": table_name(), "_when": when()})
        .groupBy("table", "table_version")
        .agg(
            F.count("*").alias("changes"),
            F.min("position").alias("first_position"),
            F.min("_when").alias("first_at"),
            F.max("_when").alias("last_at"),
        )
        .toArrow()
        .to_pylist()
    )
    of_rows = {(row["table"], row["table_version"]): row for row in used}
    found = []
    for row in rows:
        table = ".".join(filter(None, (row["schema_name"], row["table_name"]))) or "(no table)"
        mine = of_rows.get((table, row["table_version"]), {})
        found.append(
            Version(
                *(table, row["table_version"], row["columns"] or [], row["origin"]),
                *(mine.get("first_position"), row["first_event"], mine.get("changes", 0)),
                *(mine.get("first_at"), mine.get("last_at")),
            )
        )
    return sorted(found, key=_order)


def _order(version: Version) -> tuple[Any, ...]:
    event = version.first_event or {}
    place = (event.get("file_index", -1), event.get("offset", -1))
    behind = version.first_position is None
    return version.table, behind, version.first_position or "", place, version.table_version


def steps(capture: Tables, known: Sequence[Version]) -> list[Step]:
    """Every version but the first of a table, against the one before it, with what differs; also those without a
    difference."""
    found = []
    for old, new in _pairs(known):
        pairs = candidates(old.columns, new.columns)
        told = _continuing(capture, old, new, pairs) if pairs else {}
        seen = differences(old.columns, new.columns, lambda one, other, told=told: told.get((one, other)))  # type: ignore[misc]
        rows = [
            Finding(
                *(str(one.rule), str(one.severity), new.table, one.column, one.old, one.new),
                *(old.table_version, new.table_version, new.first_position, new.first_at, one.evidence),
            )
            for one in seen
        ]
        former = {str(one.new): str(one.old) for one in seen if one.rule is Rule.RENAMED}
        found.append(Step(old, new, rows, compatibility(old.columns, new.columns, former)))
    return found


def findings(changed: Iterable[Step]) -> list[Finding]:
    """All differences of all steps, worst first, then by table and position."""
    ranks = {str(severity): rank for rank, severity in enumerate(Severity)}
    rows = [one for step in changed for one in step.findings]
    return sorted(rows, key=lambda one: (ranks[one.severity], one.table, one.first_position or "", one.rule))


def _pairs(known: Sequence[Version]) -> list[tuple[Version, Version]]:
    return [(old, new) for old, new in pairwise(known) if old.table == new.table]


# --- does a column go on under another name? --------------------------------------------------------------------------


def _continuing(
    capture: Tables, old: Version, new: Version, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Of each pair of an old and a new column, why the second goes on where the first ends; pairs that do not are left
    out. Rows are compared where their key is known, else the values themselves."""
    mine = capture.changes.withColumn("table", table_name()).filter(
        (F.col("table") == old.table) & F.col("table_version").isin(old.table_version, new.table_version)
    )
    is_old = F.col("table_version") == old.table_version
    found = {}
    for before, after in pairs:
        asked = (_by_rows, _by_values, _by_looks)
        told = next((why for ask in asked if (why := ask(mine, is_old, before, after)) is not None), None)
        if told is not None:
            found[before, after] = told
    return found


def _by_rows(mine: DataFrame, is_old: Column, before: str, after: str) -> str | None:
    place = F.struct("position", "file_index", "offset")
    last = F.coalesce(F.try_element_at("after", F.lit(before)), F.try_element_at("before", F.lit(before)))
    untouched = ~F.coalesce(F.array_contains("changed_columns", after), F.lit(False))
    first = F.coalesce(
        F.try_element_at("before", F.lit(after)),
        F.when(untouched & (F.col("operation") != "INSERT"), F.try_element_at("after", F.lit(after))),
    )
    rows = (
        mine.filter(F.col("key").isNotNull())
        .select(
            F.to_json("key").alias("_key"),
            F.when(is_old & last.isNotNull(), F.struct(place.alias("place"), last.alias("value"))).alias("_old"),
            F.when(~is_old & first.isNotNull(), F.struct(place.alias("place"), first.alias("value"))).alias("_new"),
        )
        .groupBy("_key")
        .agg(F.max("_old").alias("_old"), F.min("_new").alias("_new"))
        .filter("_old IS NOT NULL AND _new IS NOT NULL")
        .agg(F.count("*").alias("both"), F.count_if(F.col("_old")["value"] == F.col("_new")["value"]).alias("same"))
    )
    row = rows.toArrow().to_pylist()[0]
    if row["both"] < _LEAST or row["same"] < _SHARE * row["both"]:
        return None
    return f"{row['same']:,} of {plural(row['both'], 'row')} that both versions show have the same value in it"


def _by_values(mine: DataFrame, is_old: Column, before: str, after: str) -> str | None:
    old, new = (
        F.coalesce(F.try_element_at("after", F.lit(name)), F.try_element_at("before", F.lit(name)))
        for name in (before, after)
    )
    value = F.when(is_old, old).otherwise(new)
    rows = (
        mine.select(value.alias("_value"), is_old.alias("_old"))
        .filter("_value IS NOT NULL")
        .groupBy("_value")
        .agg(F.bool_or("_old").alias("_before"), F.bool_or(~F.col("_old")).alias("_after"))
        .agg(F.count_if("_after").alias("after"), F.count_if(F.col("_before") & F.col("_after")).alias("both"))
    )
    row = rows.toArrow().to_pylist()[0]
    if row["both"] < _LEAST or row["both"] < _VALUES * row["after"]:
        return None
    return f"{row['both']:,} of its {plural(row['after'], 'value')} stood in the old column"


def _by_looks(mine: DataFrame, is_old: Column, before: str, after: str) -> str | None:
    image = F.map_filter(F.coalesce("after", "before"), lambda name, _: name.isin(before, after))
    rows = profiles_of(mine.withColumn("_old", is_old), ["_old"], image)
    mean = {(row["_old"], row["column"]): row["profile"] for row in rows}
    old, new = mean.get((True, before)), mean.get((False, after))
    unlike = None if old is None or new is None else distance(old, new)
    if unlike is None or unlike > ALIKE or old is None or new is None:
        return None
    seen = f"{plural(old.values, 'value')} before, {plural(new.values, 'value')} after"
    return f"no row shows both, but the place, the type and the looks of the values are the same ({seen})"


# --- rows and versions ------------------------------------------------------------------------------------------------


def without_version(capture: Tables) -> list[dict[str, Any]]:
    """Rows whose version is not known: ``table``, ``events``, ``with_images`` (decoded all the same), and the place of
    the first: ``position``, ``file``, ``offset``."""
    known = capture.table_versions.select(F.col("table_version").alias("_known")).distinct()
    rows = capture.events.filter(F.col("kind").isin(*_ROWS)).withColumn("table", table_name())
    lacking = rows.join(F.broadcast(known), F.col("table_version") == F.col("_known"), "left").filter("_known IS NULL")
    first = F.min_by(F.struct("position", "file", "offset"), F.struct("file_index", F.col("offset").alias("_offset")))
    grouped = (
        lacking.groupBy("table")
        .agg(
            F.count("*").alias("events"),
            F.count_if(F.col("before").isNotNull() | F.col("after").isNotNull()).alias("with_images"),
            first.alias("_first"),
        )
        .select("table", "events", "with_images", "_first.*")
    )
    found: list[dict[str, Any]] = grouped.orderBy(F.desc("events"), "table").toArrow().to_pylist()
    return found


_LOSS: Final = {
    Rule.DROPPED: "the column is not there any more: its values are lost",
    Rule.RENAMED: "the value stands under another name: the column is NULL, unless the sink knows the old name",
    Rule.ADDED: "the rows do not have the column: it is NULL",
    Rule.RETYPED: "the value may not fit the new type",
    Rule.RESIZED: "the value may not fit the new size",
    Rule.REORDERED: "a sink that goes by place takes values for those of other columns",
    Rule.KEY: "rows are found by another key",
    Rule.NULLABILITY: "NULL may stand where none is allowed",
}


def newest_schema(known: Sequence[Version]) -> list[dict[str, Any]]:
    """What a sink that reads all rows by a table's newest version would get wrong: ``table``, ``table_version`` (of the
    rows), ``changes`` (how many rows), ``rule``, ``column``, ``old``, ``new``, ``what``. Only versions with rows; only
    what loses or confuses something."""
    newest: dict[str, Version] = {}
    by_table: dict[str, list[Version]] = defaultdict(list)
    for version in known:
        if version.changes:
            by_table[version.table].append(version)
            newest[version.table] = version
    found = []
    for table, mine in by_table.items():
        for version in mine[:-1]:
            for one in differences(version.columns, newest[table].columns):
                if one.severity is Severity.INFO and one.rule is not Rule.ADDED:
                    continue
                found.append(
                    {
                        "table": table,
                        "table_version": version.table_version,
                        "changes": version.changes,
                        "rule": str(one.rule),
                        "column": one.column,
                        "old": one.old,
                        "new": one.new,
                        "what": _LOSS[one.rule],
                    }
                )
    return found
