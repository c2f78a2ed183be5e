"""The versions of a capture's tables in the order in which they were in force, with facts from their rows.

The order follows the positions of the rows; if these overlap, it follows the rows one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import NO_TABLE, dated_rows
from cdcwb.analysis.images import Pairs
from cdcwb.analysis.misaligned import ALIKE, distance, profiles_of
from cdcwb.dataset import Batches, Rows, joined, runs_of, schema_of
from cdcwb.formats.json_values import parse_json
from cdcwb.index.columns import table_labels
from cdcwb.model import CHANGES, TABLE_VERSIONS, Operation, Outcome
from cdcwb.words import plural

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


def versions(capture: Any) -> list[Version]:
    """The versions of every table, by table, in the order of their first rows. A version without rows follows the one
    that the source created before it."""
    rows = capture.rows("table_versions", TABLE_VERSIONS.names).table().to_pylist()
    used = dated_rows(capture, _OF_ROWS).fold(_used, _merged_used).to_pylist()
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


_OF_ROWS: Final = ("schema_name", "table_name", "table_version", "position", "changed_at")
_VERSION: Final = ["table", "table_version"]
_FACTS: Final = {
    "changes": "sum",
    "first_position": "min",
    "last_position": "max",
    "first_at": "min",
    "last_at": "max",
}


def _used(changes: pa.RecordBatch) -> pa.Table:
    """What the rows of each version show: how many there are, their first and last position and time."""
    rows = changes.filter(changes["table_version"].is_valid())
    positions, times = rows["position"], rows["changed_at"]
    columns = [table_labels(rows), rows["table_version"], pa.repeat(1, len(rows)), positions, positions, times, times]
    return _merged_used([pa.table(columns, names=[*_VERSION, *_FACTS])])


def _merged_used(parts: Sequence[pa.Table]) -> pa.Table:
    if not parts:
        return _used(joined([], schema_of("changes", _OF_ROWS)))
    groups = pa.concat_tables(parts).group_by(_VERSION, use_threads=False).aggregate(list(_FACTS.items()))
    return groups.rename_columns([*_VERSION, *_FACTS])


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


def stretches(capture: Any, known: Sequence[Version]) -> tuple[list[Stretch], list[tuple[str, int]]]:
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


def _runs(capture: Any, tables: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Runs of consecutive rows of one version, by table in log order. A table with very many runs has only some of
    them."""
    tables = list(tables)
    if not tables:
        return {}

    def of_tables(changes: pa.RecordBatch) -> pa.RecordBatch:
        labels = table_labels(changes)
        known = pc.and_(changes["table_version"].is_valid(), changes["position"].is_valid())
        keep = pc.and_(pc.is_in(labels, pa.array(tables, pa.string())), known)
        columns = [labels, *(changes[name] for name in _PLACED.names[1:])]
        return pa.RecordBatch.from_arrays(columns, schema=_PLACED).filter(keep)

    rows = dated_rows(capture, ("schema_name", "table_name", *_PLACED.names[1:])).map(of_tables, _PLACED)
    order = ["position", "file_index", "offset"]
    found = rows.by_key(["table"], order, _run_lengths, _RUN).first(
        [("run", "ascending"), ("table", "ascending")], _MOST_RUNS
    )
    runs: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for row in found.to_pylist():
        runs[row["table"]].append(row)
    return runs


_PLACED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("table", "table_version")),
        *map(CHANGES.field, ("position", "file_index", "offset", "changed_at")),
    ]
)
_RUN: Final = pa.schema(
    [
        ("run", pa.int64()),
        *((name, pa.string()) for name in ("table", "table_version", "first_position", "last_position")),
        *((name, CHANGES.field("changed_at").type) for name in ("first_at", "last_at")),
        ("changes", pa.int64()),
    ]
)


def _run_lengths(batches: Batches) -> Batches:
    """The runs of each table, numbered from 1, from rows in log order."""
    run: dict[str, Any] | None = None
    for batch in batches:
        done = []
        for part in runs_of(batch, _VERSION):
            table, version = (part[name][0].as_py() for name in _VERSION)
            times = pc.min_max(part["changed_at"]).as_py()
            facts = {"first_at": times["min"], "last_at": times["max"], "changes": len(part)}
            facts |= {"first_position": part["position"][0].as_py(), "last_position": part["position"][-1].as_py()}
            if run is not None and (run["table"], run["table_version"]) == (table, version):
                known = [run[name] for name in ("first_at", "last_at") if run[name] is not None]
                known += [facts[name] for name in ("first_at", "last_at") if facts[name] is not None]
                run |= {"first_at": min(known, default=None), "last_at": max(known, default=None)}
                run |= {"last_position": facts["last_position"], "changes": run["changes"] + facts["changes"]}
                continue
            number = run["run"] + 1 if run is not None and run["table"] == table else 1
            done += [] if run is None else [run]
            run = {"run": number, "table": table, "table_version": version, **facts}
        yield pa.RecordBatch.from_pylist(done, _RUN)
    yield pa.RecordBatch.from_pylist([] if run is None else [run], _RUN)


# --- renamed columns --------------------------------------------------------------------------------------------------

_SHARE: Final = 0.9  # minimum share of rows in both versions with equal values in a renamed column
_VALUES: Final = 0.5  # minimum share of distinct values that occurred before
_LEAST: Final = 2
_TEXT: Final = 200  # characters of a statement that are shown
_UNDONE: Final = (str(Outcome.ROLLED_BACK), str(Outcome.UNDONE), str(Outcome.UNDO))


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


def continuing(capture: Any, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """The pairs of columns of which the second continues the first, with the evidence; best evidence first. Other pairs
    are left out.

    Rows that both versions have, found by key, decide. With fewer than two such rows, the values are compared, then
    their profiles.
    """
    if not pairs:
        return {}
    evidence: dict[Pair, str] = {}
    left = list(range(len(pairs)))
    for ask in (_by_rows, _by_values, _by_profiles):
        answers = ask(_values_of(capture, {number: pairs[number] for number in left}))
        evidence |= {pairs[number]: why for number, why in sorted(answers.items()) if why is not None}
        left = [number for number in left if number not in answers]
        if not left:
            break
    return evidence


_READ: Final = (
    *("operation", "outcome", "schema_name", "table_name", "table_version", "position", "file_index", "offset"),
    *("changed_columns", "key", "before", "after"),
)
_VALUE: Final = pa.schema(
    [
        ("pair", pa.int64()),
        ("is_old", pa.bool_()),
        ("key", pa.string()),
        *map(CHANGES.field, ("position", "file_index", "offset")),
        *((name, pa.string()) for name in ("before", "after")),
        *((name, pa.bool_()) for name in ("has_before", "has_after", "untouched")),
    ]
)


def _values_of(capture: Any, pairs: Mapping[int, Pair]) -> Rows:
    """The values of the columns of pairs, a row for each pair that a change is evidence for: ``pair`` (its number),
    whether the row has the old version (``is_old``), its ``key`` as text, its location, the value ``before`` and
    ``after``, whether the images have the column (``has_before``, ``has_after``), and whether the change leaves it as
    it was (``untouched``)."""
    sides = [
        (number, pair.table, version, is_old, column, pair.since, pair.until)
        for number, pair in pairs.items()
        for version, is_old, column in ((pair.old_version, True, pair.old), (pair.new_version, False, pair.new))
    ]

    def values(changes: pa.RecordBatch) -> pa.RecordBatch:
        changes = changes.filter(pc.invert(pc.is_in(changes["outcome"], pa.array(_UNDONE))))
        labels = table_labels(changes)
        parts = []
        for number, table, version, is_old, column, since, until in sides:
            keep = pc.and_(pc.equal(labels, table), pc.fill_null(pc.equal(changes["table_version"], version), False))
            for limit, inside in ((since, pc.greater_equal), (until, pc.less_equal)):
                if limit is not None:
                    keep = pc.and_(keep, pc.fill_null(inside(changes["position"], limit), True))
            rows = changes.filter(keep)
            if len(rows):
                parts.append(_values_in(rows, number, is_old, column))
        return joined(parts, _VALUE)

    return capture.rows("changes", _READ).map(values, _VALUE)


def _values_in(rows: pa.RecordBatch, number: int, is_old: bool, column: str) -> pa.RecordBatch:
    images: dict[str, pa.Array] = {}
    for name in ("before", "after"):
        has, images[name] = Pairs(rows[name]).of_column(column)
        images[f"has_{name}"] = pa.array(has)
    lists = rows["changed_columns"]
    changed = np.zeros(len(rows), np.bool_)
    named = np.asarray(pc.equal(pc.list_flatten(lists), column)).astype(np.bool_)
    changed[np.asarray(pc.list_parent_indices(lists))[named]] = True
    is_update = pc.fill_null(pc.not_equal(rows["operation"], str(Operation.INSERT)), False)
    untouched = pc.and_(pc.and_(is_update, images["has_after"]), pc.and_(lists.is_valid(), pa.array(~changed)))
    keys = pa.array([None if key is None else repr(sorted(key)) for key in rows["key"].to_pylist()], pa.string())
    columns = {"pair": pa.repeat(number, len(rows)), "is_old": pa.repeat(is_old, len(rows)), "key": keys, **images}
    columns |= {name: rows[name] for name in ("position", "file_index", "offset")} | {"untouched": untouched}
    return pa.RecordBatch.from_arrays(
        [columns[name].cast(kind) for name, kind in zip(_VALUE.names, _VALUE.types, strict=True)], schema=_VALUE
    )


def _by_rows(rows: Rows) -> dict[int, str | None]:
    keyed = rows.where(lambda batch: batch["key"].is_valid())
    counted = keyed.by_key(["pair", "key"], ["position", "file_index", "offset"], _in_both, _COUNTS).fold(*_SUM)
    evidence: dict[int, str | None] = {}
    for pair, (both, same) in counted.items():
        if both >= _LEAST:
            words = f"{same:,} of {plural(both, 'row')} that both versions show have the same value in it"
            evidence[pair] = words if same >= _SHARE * both else None
    return evidence


_COUNTS: Final = pa.schema([("pair", pa.int64()), ("first", pa.int64()), ("second", pa.int64())])


def _counts_of(rows: pa.RecordBatch) -> dict[int, tuple[int, int]]:
    sums = pa.table(rows).group_by("pair").aggregate([("first", "sum"), ("second", "sum")]).to_pylist()
    return {row["pair"]: (row["first_sum"], row["second_sum"]) for row in sums}


def _added_counts(parts: Sequence[dict[int, tuple[int, int]]]) -> dict[int, tuple[int, int]]:
    total: dict[int, tuple[int, int]] = {}
    for pair, (first, second) in (item for part in parts for item in part.items()):
        before = total.get(pair, (0, 0))
        total[pair] = before[0] + first, before[1] + second
    return total


_SUM: Final = (_counts_of, _added_counts)


def _in_both(batches: Batches) -> Batches:
    """For each row that both versions show (``first``): whether the first value in the new version is the last in the
    old one (``second``)."""

    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            yield from batch.select(["pair", "key", *_VALUE.names[1:2], *_VALUE.names[6:]]).to_pylist()

    for (pair, _), group in groupby(rows(), itemgetter("pair", "key")):
        last, first = None, None
        for row in group:
            if row["is_old"]:
                value = row["after"] if row["after"] is not None else row["before"]
                last = (value,) if value is not None else last
            elif first is None and (row["has_before"] or row["untouched"]):
                first = (row["before"] if row["has_before"] else row["after"],)
        if last is not None and first is not None:
            yield pa.RecordBatch.from_pylist([{"pair": pair, "first": 1, "second": int(last == first)}], _COUNTS)


def _by_values(rows: Rows) -> dict[int, str | None]:
    known = rows.map(_value_sides, _SIDES).by_key(["pair", "value"], ["is_old"], _in_both_versions, _COUNTS).fold(*_SUM)
    return {
        pair: f"{both:,} of its {plural(after, 'value')} were in the old column"
        for pair, (after, both) in known.items()
        if both >= _LEAST and both >= _VALUES * after
    }


_SIDES: Final = pa.schema([("pair", pa.int64()), ("value", pa.string()), ("is_old", pa.bool_())])


def _value_sides(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The distinct values of a batch and the versions that have them."""
    columns = [rows["pair"], pc.coalesce(rows["after"], rows["before"]), rows["is_old"]]
    table = pa.table(columns, schema=_SIDES).filter(pc.field("value").is_valid())
    return joined(table.group_by(_SIDES.names).aggregate([]).to_batches(), _SIDES)


def _in_both_versions(batches: Batches) -> Batches:
    """For each value of the new version (``first``): whether the old one has it (``second``)."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for (pair, _), group in groupby(rows, itemgetter("pair", "value")):
        sides = {row["is_old"] for row in group}
        if False in sides:
            yield pa.RecordBatch.from_pylist([{"pair": pair, "first": 1, "second": int(True in sides)}], _COUNTS)


def _by_profiles(rows: Rows) -> dict[int, str | None]:
    images = rows.map(_value_images, _PROFILED)
    profiles: Mapping[int, dict[bool, Any]] = defaultdict(dict)
    for row in profiles_of(images, lambda batch: {name: batch[name] for name in ("pair", "is_old")}):
        profiles[row["pair"]][row["is_old"]] = row["profile"]
    evidence: dict[int, str | None] = {}
    for number, sides in profiles.items():
        old, new = sides.get(True), sides.get(False)
        unlike = None if old is None or new is None else distance(old, new)
        if old is not None and new is not None and unlike is not None and unlike <= ALIKE:
            words = f"{plural(old.values, 'value')} before, {plural(new.values, 'value')} after"
            same = "the ordinal, the type and the shape of the values are the same"
            evidence[number] = f"no row shows both, but {same} ({words})"
    return evidence


_PROFILED: Final = pa.schema([("pair", pa.int64()), ("is_old", pa.bool_()), ("image", CHANGES.field("after").type)])


def _value_images(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The value of each row in the last image that it has, as an image of one column."""
    has = pc.or_(rows["has_after"], rows["has_before"])
    value = pc.if_else(rows["has_after"], rows["after"], rows["before"])
    images = [
        [("value", text)] if known else [] for text, known in zip(value.to_pylist(), has.to_pylist(), strict=True)
    ]
    columns = [rows["pair"], rows["is_old"], pa.array(images, _PROFILED.field("image").type)]
    return pa.RecordBatch.from_arrays(columns, schema=_PROFILED)
