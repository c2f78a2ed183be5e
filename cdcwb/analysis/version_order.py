"""The versions of a capture's tables in the order in which they were in force, with facts from their rows.

The order follows the positions of the rows; if these overlap, it follows the rows one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from cdcwb.analysis.frames import NO_TABLE, table_name
from cdcwb.analysis.misaligned import ALIKE, distance, profiles_of
from cdcwb.formats.json_values import parse_json
from cdcwb.model import Outcome
from cdcwb.spark.select import dated
from cdcwb.words import plural

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.analysis.frames import Tables

__all__ = [
    "Pair",
    "Statement",
    "Stretch",
    "Version",
    "all_changes",
    "continuing",
    "rename_evidence",
    "renames",
    "stretches",
    "versions",
]


_MOST_RUNS: Final = 20_000
_RUNS: Final = 4  # if versions alternate more often than this, a return cannot be distinguished from late rows


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table, and its rows: ``changes`` (how many), ``first_position``, ``first_at`` and ``last_at``
    (UTC) of these; None without rows or times. ``columns``: rows of :data:`cdcwb.model.COLUMN`. ``number``: its ordinal
    among the versions of the table, from 1."""

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
    """A period in which a version is in force; a version that returns has several. ``changes``, positions and times are
    those of the rows in it, None without rows."""

    version: Version
    first_position: str | None
    last_position: str | None
    first_at: datetime | None
    last_at: datetime | None
    changes: int
    again: bool = False


def versions(capture: Tables) -> list[Version]:
    """The versions of every table, by table, in the order of their first rows. A version without rows follows the one
    that the source created before it."""
    rows = capture.table_versions.toArrow().to_pylist()
    used = (
        dated(capture.changes, capture.transactions)
        .filter(F.col("table_version").isNotNull())
        .withColumn("table", table_name())
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
        of_version = of_rows.get((table, row["table_version"]), nothing | {"changes": 0})
        if of_version["changes"]:  # the first row of an update may be its before image, which precedes the change
            first = [p for p in (row["first_position"], of_version["first_position"]) if p is not None]
            of_version["first_position"] = min(first, default=None)
        facts = ("table_version", "origin", "first_event", "schema_text")
        lineage = dict(row["lineage"] or ())
        columns_of = {name: row[name] for name in facts} | {"columns": row["columns"] or [], "lineage": lineage}
        by_table[table].append(columns_of | {name: of_version[name] for name in (*nothing, "changes")})
    return [
        Version(table=table, number=number, **row)
        for table in sorted(by_table)
        for number, row in enumerate(_in_order(by_table[table]), 1)
    ]


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table by the positions of their first rows; those without, after the version that was created
    before them."""
    made = _as_made(rows)
    placed = sorted((row for row in made if row["first_position"] is not None), key=lambda row: row["first_position"])
    behind: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    last = None
    for row in made:
        if row["first_position"] is not None:
            last = id(row)
        else:
            behind[last].append(row)
    in_order = behind[None]
    for row in placed:
        in_order += [row, *behind[id(row)]]
    return in_order


_NUMBERED: Final = re.compile(r"(?:^|[@#/])(\d{1,18})$")


def _as_made(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table in the order of creation, by the first of these that is present and distinct in all: the
    source's number, the event with the definition, its position, its time, the number in its name."""

    def number(*names: str) -> Callable[[dict[str, Any]], Any]:
        def of(row: dict[str, Any]) -> Any:
            text = next((row["lineage"][name] for name in names if name in row["lineage"]), None)
            return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None

        return of

    def event(row: dict[str, Any]) -> Any:
        location = row["first_event"]
        return None if location is None or location["file_index"] < 0 else (location["file_index"], location["offset"])

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
    """The periods in which versions are in force, by table, in order; and the tables in which rows of an older version
    follow rows of a newer one although the older did not return, and how often."""
    runs = _runs(capture, _overlapping(known))
    too_many = sum(map(len, runs.values())) >= _MOST_RUNS  # incomplete
    mixed: list[tuple[str, int]] = []
    by_table: dict[str, list[Version]] = defaultdict(list)
    for version in known:
        by_table[version.table].append(version)
    result = []
    for table, of_table in by_table.items():
        turns = runs.get(table)
        late = 0
        if turns is not None and (too_many or len(turns) > _RUNS * len(of_table)):
            late, turns = len(turns) - len({turn["table_version"] for turn in turns}), None
        if turns is None:
            result += [all_changes(unused) for unused in of_table]
        else:
            parts, late = _as_they_come(of_table, turns)
            result += parts
        if late:
            mixed.append((table, late))
    return result, mixed


def all_changes(version: Version) -> Stretch:
    """A stretch with all rows of a version."""
    facts = (version.first_position, version.last_position, version.first_at, version.last_at, version.changes)
    return Stretch(version, *facts)


def _as_they_come(of_table: Sequence[Version], turns: Sequence[Mapping[str, Any]]) -> tuple[list[Stretch], int]:
    """The stretches of a table, and the number of alternations that are not a stretch. A version returns if no row of
    the version that replaced it follows any more; other rows of it are late. Versions without a position follow the one
    before them."""
    by_name = {version.table_version: version for version in of_table}
    behind: dict[str, list[Version]] = defaultdict(list)
    last = ""
    for version in of_table:
        if version.first_position is None:
            behind[last].append(version)
        else:
            last = version.table_version
    ends = {turn["table_version"]: number for number, turn in enumerate(turns)}
    result = [all_changes(version) for version in behind.pop("", ())]
    latest: dict[str, int] = {}  # index of the latest stretch of each version
    current, late = "", 0
    for number, turn in enumerate(turns):
        name = turn["table_version"]
        if name in latest:
            later = (later_version.version.table_version for later_version in result[latest[name] + 1 :])
            if name == current or any(ends.get(version, -1) > number for version in later):
                late += name != current
                result[latest[name]] = _longer(result[latest[name]], turn)
                continue
        version = by_name[name]
        first = turn["first_position"] if name in latest else version.first_position
        facts = (first, turn["last_position"], turn["first_at"], turn["last_at"], turn["changes"])
        result.append(Stretch(version, *facts, again=name in latest))
        latest[name], current = len(result) - 1, name
        result += [all_changes(version) for version in behind.pop(name, ())]
    return result, late


def _longer(stretch: Stretch, turn: Mapping[str, Any]) -> Stretch:
    """A stretch extended by rows."""
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
    """Tables with a version whose rows begin before those of another end."""
    tables: set[str] = set()
    last: dict[str, str] = {}
    for version in known:
        first = version.first_position
        if first is None:
            continue
        if version.table in last and first <= last[version.table]:
            tables.add(version.table)
        last[version.table] = max(last.get(version.table, ""), version.last_position or first)
    return tables


def _runs(capture: Tables, tables: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Runs of consecutive rows of one version, by table in log order. A table with very many runs has only some of
    them."""
    tables = list(tables)
    if not tables:
        return {}
    order = Window.partitionBy("table").orderBy("position", "file_index", "offset")
    rows = (
        dated(capture.changes, capture.transactions)
        .withColumn("table", table_name())
        .filter(F.col("table").isin(tables) & F.col("table_version").isNotNull() & F.col("position").isNotNull())
        .select("table", "table_version", "position", "file_index", "offset", "_when")
    )
    begins = F.col("table_version") != F.lag("table_version", 1).over(order)
    rows_of_runs = (
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
    runs: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for row in rows_of_runs:
        runs[row["table"]].append(row)
    return runs


# --- renamed columns --------------------------------------------------------------------------------------------------

_SHARE: Final = 0.9  # minimum share of rows in both versions with equal values in a renamed column
_VALUES: Final = 0.5  # minimum share of distinct values that occurred before
_LEAST: Final = 2
_TEXT: Final = 200  # characters of a statement that are shown
_UNDONE: Final = (str(Outcome.ROLLED_BACK), str(Outcome.UNDONE), str(Outcome.UNDO))


class Changes(Protocol):
    """The input from a capture (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """A column ``old`` of a table's ``old_version`` that may be renamed to ``new`` in its ``new_version``; ``number``
    is that of the step. Only rows from ``since`` to ``until`` count (positions, None: all), since a version that
    returns has rows before and after the other."""

    number: int
    table: str
    old_version: str
    new_version: str
    old: str
    new: str
    since: str | None = None
    until: str | None = None


# --- DDL statements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL statement that the source recorded: ``text`` is SQL, or the details of a control table's row."""

    table: str
    text: str
    position: str | None
    at: datetime | None
    file: str
    offset: int


_NAME: Final = r"""("[^"]{1,128}"|`[^`]{1,128}`|\[[^\]]{1,128}\]|'[^']{1,256}'|[^\s"`\[\](),;.']{1,128})"""
_RENAMES: Final = (
    re.compile(rf"\bRENAME\s+(?:COLUMN\s+)?(?:[^\s.]+\.)*{_NAME}\s+TO\s+{_NAME}", re.IGNORECASE),
    re.compile(rf"\bCHANGE\s+(?:COLUMN\s+)?{_NAME}\s+{_NAME}\s+\w", re.IGNORECASE),
    re.compile(rf"\bsp_rename\s+{_NAME}\s*,\s*{_NAME}\s*,\s*'COLUMN'", re.IGNORECASE),
)


def renames(text: str) -> list[tuple[str, str]]:
    """The columns that a statement renames, old and new name, in order: from Qlik's details of a DDL, or SQL (``RENAME
    COLUMN a TO b``, ``CHANGE a b type``, ``sp_rename 'table.a', 'b', 'COLUMN'``). Never raises."""
    if text.lstrip().startswith("{"):
        try:
            columns = parse_json(text.encode()).get("columns")
        except (ValueError, AttributeError):
            return []
        entries = columns.items() if isinstance(columns, dict) else ()
        pairs = [(name, entry.get("columnNewName")) for name, entry in entries if isinstance(entry, dict)]
        return [(name, new) for name, new in pairs if isinstance(new, str) and new and new != name]
    matches: list[tuple[int, str, str]] = []
    for pattern in _RENAMES:
        matches += [(match.start(), _plain(match[1]), _plain(match[2])) for match in pattern.finditer(text[:100_000])]
    return [(old, new) for _, old, new in sorted(matches) if old != new]


def _plain(name: str) -> str:
    name = name.strip("'")
    if name[:1] in ('"', "`", "["):
        return name[1:-1]
    return name.rpartition(".")[2].strip('[]"')


def rename_evidence(
    statements: Iterable[Statement], removed: Iterable[str], added: Iterable[str]
) -> dict[tuple[str, str], str]:
    """The pairs of a removed and an added column that DDL statements rename, and the statement. Names are compared
    without case; a column that was renamed twice is found by its first name and its last."""
    olds, news = ({name.casefold(): name for name in names} for names in (removed, added))
    first: dict[str, str] = {}  # current name -> name before all statements
    statement_of: dict[str, str] = {}
    for statement in statements:
        for old, new in renames(statement.text):
            was = first.pop(old.casefold(), old.casefold())
            first[new.casefold()] = was
            before = f"{statement_of.pop(old.casefold())}; " if old.casefold() in statement_of else ""
            location = f" at {statement.position}" if statement.position else ""
            statement_of[new.casefold()] = f"{before}DDL{location}: {_shown(statement.text, old, new)}"
    return {(olds[was], news[now]): statement_of[now] for now, was in first.items() if was in olds and now in news}


def _shown(text: str, old: str, new: str) -> str:
    if text.lstrip().startswith("{"):
        return f'column "{old}" has the new name "{new}"'
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


# --- evidence in rows -------------------------------------------------------------------------------------------------


def continuing(capture: Changes, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """The pairs of columns of which the second continues the first, with the evidence; best evidence first. Other pairs
    are left out.

    Rows that both versions have, found by key, decide. With fewer than two such rows, the values are compared, then
    their profiles.
    """
    if not pairs:
        return {}
    rows = _rows(capture, pairs)
    evidence: dict[Pair, str] = {}
    left = list(range(len(pairs)))
    for ask in (_by_rows, _by_values, _by_looks):
        answers = ask(rows if len(left) == len(pairs) else rows.filter(F.col("_pair").isin(left)))
        evidence |= {pairs[number]: why for number, why in sorted(answers.items()) if why is not None}
        left = [number for number in left if number not in answers]
        if not left:
            break
    return evidence


def _rows(capture: Changes, pairs: Sequence[Pair]) -> DataFrame:
    """Changes, once for every pair that they are evidence for: ``_pair`` (its number), ``_old`` (whether the row has
    the old version), ``_column`` (the column to examine)."""
    roles = [
        (number, pair.table, version, is_old, column, pair.since, pair.until)
        for number, pair in enumerate(pairs)
        for version, is_old, column in ((pair.old_version, True, pair.old), (pair.new_version, False, pair.new))
    ]
    named = "_pair INT, _table STRING, _version STRING, _old BOOLEAN, _column STRING, _since STRING, _until STRING"
    broadcast = F.broadcast(capture.changes.sparkSession.createDataFrame(roles, named))
    changes = capture.changes.filter(F.coalesce("outcome", F.lit("")).isin(*_UNDONE) == F.lit(False))
    own = changes.withColumn("_named", table_name()).join(
        broadcast, (F.col("_named") == F.col("_table")) & (F.col("table_version") == F.col("_version"))
    )
    return own.filter("_since IS NULL OR position IS NULL OR position >= _since").filter(
        "_until IS NULL OR position IS NULL OR position <= _until"
    )


def _by_rows(rows: DataFrame) -> dict[int, str | None]:
    location = F.struct("position", "file_index", "offset").alias("place")
    last = F.expr("coalesce(try_element_at(after, _column), try_element_at(before, _column))")
    in_before = F.expr("coalesce(map_contains_key(before, _column), false)")
    untouched = F.expr(
        "operation != 'INSERT' AND coalesce(map_contains_key(after, _column), false)"
        " AND coalesce(NOT array_contains(changed_columns, _column), false)"
    )
    first = F.expr("coalesce(try_element_at(before, _column), try_element_at(after, _column))")
    first = F.when(in_before, F.expr("try_element_at(before, _column)")).otherwise(first)
    counted = (
        rows.filter("key IS NOT NULL")
        .select(
            "_pair",
            F.to_json("key").alias("_key"),
            F.when(F.col("_old") & last.isNotNull(), F.struct(location, last.alias("value"))).alias("_last"),
            F.when(~F.col("_old") & (in_before | untouched), F.struct(location, first.alias("value"))).alias("_first"),
        )
        .groupBy("_pair", "_key")
        .agg(F.max("_last").alias("_last"), F.min("_first").alias("_first"))
        .filter("_last IS NOT NULL AND _first IS NOT NULL")
        .groupBy("_pair")
        .agg(F.count("*").alias("both"), F.count_if(F.expr("_last.value <=> _first.value")).alias("same"))
    )
    evidence: dict[int, str | None] = {}
    for row in counted.toArrow().to_pylist():
        if row["both"] >= _LEAST:
            is_same = row["same"] >= _SHARE * row["both"]
            words = f"{row['same']:,} of {plural(row['both'], 'row')} that both versions show have the same value in it"
            evidence[row["_pair"]] = words if is_same else None
    return evidence


def _value() -> Column:
    return F.expr("coalesce(try_element_at(after, _column), try_element_at(before, _column))")


def _by_values(rows: DataFrame) -> dict[int, str | None]:
    counted = (
        rows.select("_pair", "_old", _value().alias("_value"))
        .filter("_value IS NOT NULL")
        .groupBy("_pair", "_value")
        .agg(F.bool_or("_old").alias("_before"), F.bool_or(~F.col("_old")).alias("_after"))
        .groupBy("_pair")
        .agg(F.count_if("_after").alias("after"), F.count_if(F.col("_before") & F.col("_after")).alias("both"))
    )
    return {
        row["_pair"]: f"{row['both']:,} of its {plural(row['after'], 'value')} were in the old column"
        for row in counted.toArrow().to_pylist()
        if row["both"] >= _LEAST and row["both"] >= _VALUES * row["after"]
    }


def _by_looks(rows: DataFrame) -> dict[int, str | None]:
    image = F.expr("map_filter(coalesce(after, before), (name, value) -> name = _column)")
    profiles: Mapping[int, dict[bool, Any]] = defaultdict(dict)
    for row in profiles_of(rows, ["_pair", "_old"], image):
        profiles[row["_pair"]][row["_old"]] = row["profile"]
    evidence: dict[int, str | None] = {}
    for number, sides in profiles.items():
        old, new = sides.get(True), sides.get(False)
        unlike = None if old is None or new is None else distance(old, new)
        if old is not None and new is not None and unlike is not None and unlike <= ALIKE:
            words = f"{plural(old.values, 'value')} before, {plural(new.values, 'value')} after"
            same = "the ordinal, the type and the shape of the values are the same"
            evidence[number] = f"no row shows both, but {same} ({words})"
    return evidence
