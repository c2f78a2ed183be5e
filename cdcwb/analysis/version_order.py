"""The versions of the tables of a capture in the order in which they were in force, each with what its rows tell.

Which version follows which is said by the positions of their rows; where these overlap, by the rows one after the
other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from cdcwb.analysis.frames import NO_TABLE, table_name, when

if TYPE_CHECKING:
    from cdcwb.analysis.frames import Tables

__all__ = ["Stretch", "Version", "stretches", "versions", "whole"]

_MOST_RUNS: Final = 20_000
_RUNS: Final = 4  # where versions take turns more often than so many times each, nobody can say which came back


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table, and its rows: ``changes`` (how many), ``first_position``, ``first_at`` and ``last_at``
    (UTC) of these, None where there are none or they bear no time. ``columns``: rows of
    :data:`cdcwb.model.COLUMN`. ``number``: its place among the versions of the table, from 1."""

    table: str
    table_version: str
    columns: list[Mapping[str, Any]]
    origin: str
    first_position: str | None
    first_event: Mapping[str, int] | None
    changes: int
    first_at: datetime | None
    last_at: datetime | None
    last_position: str | None = None
    schema_text: str | None = None
    lineage: Mapping[str, str] | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A version for as long as it is in force; one that comes back has several. ``changes``, positions and times are
    those of the rows in it, None where there are none."""

    version: Version
    first_position: str | None
    last_position: str | None
    first_at: datetime | None
    last_at: datetime | None
    changes: int
    again: bool = False


def versions(capture: Tables) -> list[Version]:
    """The versions of every table, by table, each in the order in which their rows begin. One without rows stands
    behind the one that the source made before it."""
    rows = capture.table_versions.toArrow().to_pylist()
    used = (
        capture.changes.filter(F.col("table_version").isNotNull())
        .withColumns({"table": table_name(), "_when": when()})
        .groupBy("table", "table_version")
        .agg(
            F.count("*").alias("changes"),
            F.min("position").alias("first_position"),
            F.max("position").alias("last_position"),
            F.min("_when").alias("first_at"),
            F.max("_when").alias("last_at"),
        )
        .toArrow()
        .to_pylist()
    )
    of_rows = {(row["table"], row["table_version"]): row for row in used}
    by_table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        table = ".".join(filter(None, (row["schema_name"], row["table_name"]))) or NO_TABLE
        nothing = dict.fromkeys(("first_position", "last_position", "first_at", "last_at"))
        mine = of_rows.get((table, row["table_version"]), nothing | {"changes": 0})
        if mine["changes"]:  # the first row of an update may be its before image, which stands before the change
            first = [place for place in (row["first_position"], mine["first_position"]) if place is not None]
            mine["first_position"] = min(first, default=None)
        facts = ("table_version", "origin", "first_event", "schema_text")
        lineage = dict(row["lineage"] or ())
        kept = {name: row[name] for name in facts} | {"columns": row["columns"] or [], "lineage": lineage}
        by_table[table].append(kept | {name: mine[name] for name in (*nothing, "changes")})
    return [
        Version(table=table, number=number, **row)
        for table in sorted(by_table)
        for number, row in enumerate(_in_order(by_table[table]), 1)
    ]


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table by the positions of their first rows; those whose rows have none, behind the one that was
    made before them."""
    made = _as_made(rows)
    placed = sorted((row for row in made if row["first_position"] is not None), key=lambda row: row["first_position"])
    behind: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    last = None
    for row in made:
        if row["first_position"] is not None:
            last = id(row)
        else:
            behind[last].append(row)
    found = behind[None]
    for row in placed:
        found += [row, *behind[id(row)]]
    return found


_NUMBERED: Final = re.compile(r"(?:^|[@#/])(\d{1,18})$")


def _as_made(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table in the order in which the source made them, by the first of these that all have, no two
    the same: the source's number, the event that brought it, its place in the log, its time, the number in its name."""

    def number(*names: str) -> Callable[[dict[str, Any]], Any]:
        def of(row: dict[str, Any]) -> Any:
            text = next((row["lineage"][name] for name in names if name in row["lineage"]), None)
            return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None

        return of

    def event(row: dict[str, Any]) -> Any:
        place = row["first_event"]
        return None if place is None or place["file_index"] < 0 else (place["file_index"], place["offset"])

    def named(row: dict[str, Any]) -> Any:
        match = _NUMBERED.search(row["table_version"] or "")
        return None if match is None else int(match[1])

    texts = [lambda row, name=name: row["lineage"].get(name) for name in ("change_seq", "timestamp", "time")]
    for key in (number("version", "tableVersion"), event, *texts, named):
        keys = [key(row) for row in rows]
        if None not in keys and len(set(keys)) == len(keys):
            return [row for _, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0])]
    return sorted(rows, key=lambda row: row["table_version"] or "")


def stretches(capture: Tables, known: Sequence[Version]) -> tuple[list[Stretch], list[tuple[str, int]]]:
    """For how long each version is in force, by table in order; and the tables in which rows of an older version stand
    behind those of a newer one, without that it had come back, and how often."""
    runs = _runs(capture, _overlapping(known))
    too_many = sum(map(len, runs.values())) >= _MOST_RUNS  # some are not there
    mixed: list[tuple[str, int]] = []
    by_table: dict[str, list[Version]] = defaultdict(list)
    for version in known:
        by_table[version.table].append(version)
    found = []
    for table, mine in by_table.items():
        turns = runs.get(table)
        late = 0
        if turns is not None and (too_many or len(turns) > _RUNS * len(mine)):
            late, turns = len(turns) - len({turn["table_version"] for turn in turns}), None
        if turns is None:
            found += [whole(one) for one in mine]
        else:
            parts, late = _as_they_come(mine, turns)
            found += parts
        if late:
            mixed.append((table, late))
    return found, mixed


def whole(version: Version) -> Stretch:
    """All rows of a version."""
    facts = (version.first_position, version.last_position, version.first_at, version.last_at, version.changes)
    return Stretch(version, *facts)


def _as_they_come(mine: Sequence[Version], turns: Sequence[Mapping[str, Any]]) -> tuple[list[Stretch], int]:
    """The stretches of a table, and how many turns are no stretch of their own. A version comes back where no row of
    those that took its place follows any more; other rows of it are late ones. Versions without a place in the log
    stand behind the one before them."""
    by_name = {version.table_version: version for version in mine}
    behind: dict[str, list[Version]] = defaultdict(list)
    last = ""
    for version in mine:
        if version.first_position is None:
            behind[last].append(version)
        else:
            last = version.table_version
    ends = {turn["table_version"]: number for number, turn in enumerate(turns)}
    found = [whole(version) for version in behind.pop("", ())]
    latest: dict[str, int] = {}  # where the latest stretch of a version is among those found
    current, late = "", 0
    for number, turn in enumerate(turns):
        name = turn["table_version"]
        if name in latest:
            later = (one.version.table_version for one in found[latest[name] + 1 :])
            if name == current or any(ends.get(one, -1) > number for one in later):
                late += name != current
                found[latest[name]] = _longer(found[latest[name]], turn)
                continue
        version = by_name[name]
        first = turn["first_position"] if name in latest else version.first_position
        facts = (first, turn["last_position"], turn["first_at"], turn["last_at"], turn["changes"])
        found.append(Stretch(version, *facts, again=name in latest))
        latest[name], current = len(found) - 1, name
        found += [whole(one) for one in behind.pop(name, ())]
    return found, late


def _longer(stretch: Stretch, turn: Mapping[str, Any]) -> Stretch:
    """A stretch with some more rows."""
    times = [
        time for time in (stretch.first_at, stretch.last_at, turn["first_at"], turn["last_at"]) if time is not None
    ]
    return replace(
        stretch,
        last_position=turn["last_position"],
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        changes=stretch.changes + turn["changes"],
    )


def _overlapping(known: Iterable[Version]) -> set[str]:
    """Tables with a version whose rows begin before those of another have ended."""
    found: set[str] = set()
    last: dict[str, str] = {}
    for version in known:
        first = version.first_position
        if first is None:
            continue
        if version.table in last and first <= last[version.table]:
            found.add(version.table)
        last[version.table] = max(last.get(version.table, ""), version.last_position or first)
    return found


def _runs(capture: Tables, tables: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of one version after the other, by table in log order. A table with very many runs has some of them."""
    tables = list(tables)
    if not tables:
        return {}
    order = Window.partitionBy("table").orderBy("position", "file_index", "offset")
    rows = (
        capture.changes.withColumns({"table": table_name(), "_when": when()})
        .filter(F.col("table").isin(tables) & F.col("table_version").isNotNull() & F.col("position").isNotNull())
        .select("table", "table_version", "position", "file_index", "offset", "_when")
    )
    begins = F.col("table_version") != F.lag("table_version", 1).over(order)
    told = (
        rows.withColumn("_begins", F.coalesce(begins, F.lit(True)).cast("int"))
        .withColumn("_run", F.sum("_begins").over(order))
        .groupBy("table", "_run", "table_version")
        .agg(
            F.min("position").alias("first_position"),
            F.max("position").alias("last_position"),
            F.min("_when").alias("first_at"),
            F.max("_when").alias("last_at"),
            F.count("*").alias("changes"),
        )
        .orderBy("_run", "table")
        .limit(_MOST_RUNS)
        .toArrow()
        .to_pylist()
    )
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for row in told:
        found[row["table"]].append(row)
    return found
