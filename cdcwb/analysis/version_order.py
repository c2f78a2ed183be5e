"""The versions of a capture's tables in the order in which they were in force, with facts from their rows, and the
columns that a later version renamed.

The order follows the positions of the rows; if these overlap, it follows the rows one by one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import NO_TABLE, dated_rows
from cdcwb.analysis.images import Pairs, maps_of
from cdcwb.analysis.profiles import ALIKE, Profile, distance, profiles_of
from cdcwb.dataset import Batches, Rows, joined, numbered
from cdcwb.formats.json_values import parse_json
from cdcwb.index.columns import table_labels
from cdcwb.model import CHANGES, Operation, Outcome
from cdcwb.words import plural

__all__ = [
    "Pair",
    "Statement",
    "Stretch",
    "Version",
    "all_changes",
    "continuing",
    "extent_of",
    "rename_evidence",
    "renames",
    "stretches",
    "versions",
]

_RUNS: Final = 4  # if versions alternate more often than this, a return cannot be distinguished from late rows
_EXTENT: Final = {
    "first_position": "min",
    "last_position": "max",
    "first_at": "min",
    "last_at": "max",
    "changes": "sum",
}
_VERSION: Final = ("table", "table_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Some rows: their number (``changes``), their first and last position and time (UTC); None without rows or
    times."""

    first_position: str | None = None
    last_position: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Extent):
    """One version of a table, and its rows. ``columns``: rows of :data:`cdcwb.model.COLUMN`. ``number``: its ordinal
    among the versions of the table, from 1."""

    table: str
    table_version: str
    columns: Sequence[Mapping[str, Any]]
    origin: str
    schema_text: str | None = None
    lineage: Mapping[str, str]
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch(Extent):
    """A period in which a version is in force, with its rows; a version that returns (``again``) has several."""

    version: Version
    again: bool = False


def extent_of(rows: Extent) -> dict[str, Any]:
    """The fields of an :class:`Extent`."""
    return {name: getattr(rows, name) for name in _EXTENT}


def versions(capture: Any) -> list[Version]:
    """The versions of every table, by table, in the order of their first rows. A version without rows follows the one
    that the source created before it."""
    used = _dated(capture, ()).totals(_EXTENT, lambda batch: {name: batch[name] for name in _VERSION} | _extent(batch))
    of_rows = {tuple(row.pop(name) for name in _VERSION): row for row in used.to_pylist()}
    by_table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in capture.rows("table_versions", _OF_VERSIONS).table().to_pylist():
        table = ".".join(filter(None, (row.pop("schema_name"), row.pop("table_name")))) or NO_TABLE
        first = row.pop("first_position")
        extent = of_rows.get((table, row["table_version"]), {})
        if extent:  # the first row of an update may be its before image, which precedes the change
            positions = [position for position in (first, extent["first_position"]) if position is not None]
            extent["first_position"] = min(positions, default=None)
        lists = {"columns": row["columns"] or [], "lineage": dict(row["lineage"] or ())}
        by_table[table].append({"table": table, **row, **lists, **extent})
    return [
        Version(number=number, **{name: fact for name, fact in row.items() if name != "first_event"})
        for table in sorted(by_table)
        for number, row in enumerate(_in_order(by_table[table]), 1)
    ]


_OF_VERSIONS: Final = (
    *("schema_name", "table_name", "table_version", "first_position", "first_event", "columns", "origin"),
    *("schema_text", "lineage"),
)
_PLACED: Final = pa.schema(
    [
        *((name, pa.string()) for name in _VERSION),
        *map(CHANGES.field, ("position", "file_index", "offset", "changed_at")),
    ]
)


def _dated(capture: Any, tables: Sequence[str]) -> Rows:
    """Where the changes of known version are; of some tables only those with a position."""
    names = _PLACED.names[1:]

    def placed(changes: pa.RecordBatch) -> pa.RecordBatch:
        labels, keep = table_labels(changes), changes["table_version"].is_valid()
        if tables:
            keep = pc.and_(pc.and_(keep, changes["position"].is_valid()), pc.is_in(labels, pa.array(tables)))
        return pa.RecordBatch.from_arrays([labels, *(changes[name] for name in names)], schema=_PLACED).filter(keep)

    return dated_rows(capture, ("schema_name", "table_name", *names)).map(placed, _PLACED)


def _extent(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    position, at = batch["position"], batch["changed_at"]
    return dict(zip(_EXTENT, (position, position, at, at, pa.repeat(1, len(batch))), strict=True))


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table by the positions of their first rows; those without, after the version that was created
    before them."""
    made, anchor, order = _as_made(rows), ("", -1), []
    for number, row in enumerate(made):
        if row.get("first_position") is not None:
            anchor = (row["first_position"], number)
        order.append((*anchor, number))
    return [made[number] for *_, number in sorted(order)]


_NUMBERED: Final = re.compile(r"(?:^|[@#/])(\d{1,18})$")


def _as_made(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table in the order of creation, by the first of these that is present and distinct in all: the
    source's number, the event with the definition, its position, its time, the number in its name."""

    def keys_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
        lineage, event = row["lineage"], row["first_event"]
        number = lineage.get("version", lineage.get("tableVersion")) or ""
        named = _NUMBERED.search(row["table_version"] or "")
        return (
            int(number) if number.isdecimal() and len(number) < 19 else None,
            None if event is None or event["file_index"] < 0 else (event["file_index"], event["offset"]),
            *(lineage.get(name) for name in ("change_seq", "timestamp", "time")),
            None if named is None else int(named[1]),
        )

    for keys in zip(*map(keys_of, rows), strict=True):
        if None not in keys and len(set(keys)) == len(keys):
            return [row for _, row in sorted(zip(keys, rows, strict=True), key=itemgetter(0))]
    return sorted(rows, key=lambda row: row["table_version"] or "")


# --- periods in which versions are in force ---------------------------------------------------------------------------


def stretches(capture: Any, known: Sequence[Version]) -> tuple[list[Stretch], list[tuple[str, int]]]:
    """The periods in which versions are in force, by table, in order; and the tables in which rows of an older version
    follow rows of a newer one although the older did not return, and how often."""
    by_table = {table: list(of_table) for table, of_table in groupby(known, attrgetter("table"))}
    runs = _runs(capture, {table: of_table for table, of_table in by_table.items() if _overlap(of_table)})
    result, mixed = [], []
    for table, of_table in by_table.items():
        turns, late = runs.get(table, []), 0
        number = max((turn["turns"] for turn in turns), default=0)
        if number > _RUNS * len(of_table):
            late, turns = number - len({turn["table_version"] for turn in turns}), []
        turns = turns or [
            {"table_version": version.table_version, **extent_of(version)}
            for version in of_table
            if version.first_position is not None
        ]
        of_turns, late_turns = _as_they_come(of_table, turns)
        result += of_turns
        if late or late_turns:
            mixed.append((table, late or late_turns))
    return result, mixed


def all_changes(version: Version) -> Stretch:
    """A stretch with all rows of a version."""
    return Stretch(version=version, **extent_of(version))


def _as_they_come(of_table: Sequence[Version], turns: Sequence[Mapping[str, Any]]) -> tuple[list[Stretch], int]:
    """The stretches of a table, and the number of alternations that are not a stretch. A version returns if no row of
    the version that replaced it follows any more; other rows of it are late. Versions without a position follow the one
    before them."""
    by_name = {version.table_version: version for version in of_table}
    followers: dict[str, list[Stretch]] = defaultdict(list)
    current = ""
    for version in of_table:
        if version.first_position is None:
            followers[current].append(all_changes(version))
        else:
            current = version.table_version
    ends = {turn["table_version"]: number for number, turn in enumerate(turns)}
    result = followers.pop("", [])
    latest: dict[str, int] = {}  # index of the latest stretch of each version
    current, late = "", 0
    for number, turn in enumerate(turns):
        name = turn["table_version"]
        extent = {fact: turn[fact] for fact in _EXTENT}
        if name in latest:
            at = latest[name]
            later = (stretch.version.table_version for stretch in result[at + 1 :])
            if name == current or any(ends.get(version, -1) > number for version in later):
                late += name != current
                result[at] = _longer(result[at], extent)
                continue
        elif by_name[name].first_position is not None:
            extent["first_position"] = by_name[name].first_position
        result.append(Stretch(version=by_name[name], again=name in latest, **extent))
        latest[name], current = len(result) - 1, name
        result += followers.pop(name, [])
    return result, late


def _longer(stretch: Stretch, extent: Mapping[str, Any]) -> Stretch:
    """A stretch extended by rows that follow."""
    times = [time for fact in ("first_at", "last_at") for time in (getattr(stretch, fact), extent[fact]) if time]
    return replace(
        stretch,
        last_position=extent["last_position"],
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        changes=stretch.changes + extent["changes"],
    )


def _overlap(of_table: Iterable[Version]) -> bool:
    """Whether rows of a version begin before those of another end."""
    last = ""
    for version in of_table:
        first = version.first_position
        if first is not None:
            if first <= last:
                return True
            last = max(last, version.last_position or first)
    return False


def _runs(capture: Any, tables: Mapping[str, Sequence[Version]]) -> dict[str, list[dict[str, Any]]]:
    """Runs of consecutive rows of one version, by table in log order, with the number of ``turns`` up to it. Of a table
    with very many runs the last ones are one for each version."""
    if not tables:
        return {}
    most = _RUNS * max(map(len, tables.values())) + 1

    def facts(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        turn = {"turn": pc.min_element_wise(batch["turn"], most), "turns": batch["turn"]}
        return {name: batch[name] for name in _VERSION} | turn | _extent(batch)

    rows = _dated(capture, list(tables)).by_key(
        ["table"],
        ["position", "file_index", "offset"],
        partial(numbered, keys=["table"], name="turn", runs=_VERSION),
        _PLACED.append(pa.field("turn", pa.int64())),
    )
    runs = sorted(rows.totals({**_EXTENT, "turns": "max"}, facts).to_pylist(), key=itemgetter("table", "turn"))
    return {table: list(of_table) for table, of_table in groupby(runs, itemgetter("table"))}


# --- DDL statements ---------------------------------------------------------------------------------------------------

_TEXT: Final = 200  # characters of a statement that are shown


class Statement(NamedTuple):
    """A DDL statement that the source recorded: ``text`` is SQL, or the details of a control table's row."""

    table: str
    position: str | None
    text: str


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

_SHARE: Final = 0.9  # minimum share of rows in both versions with equal values in a renamed column
_VALUES: Final = 0.5  # minimum share of distinct values that occurred before
_LEAST: Final = 2
_UNDONE: Final = (str(Outcome.ROLLED_BACK), str(Outcome.UNDONE), str(Outcome.UNDO))


class Pair(NamedTuple):
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


def continuing(capture: Any, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """The pairs of columns of which the second continues the first, with the evidence; best evidence first. Other pairs
    are left out.

    Rows that both versions have, found by key, decide. With fewer than two such rows, the values are compared, then
    their profiles.
    """
    evidence: dict[Pair, str] = {}
    left = dict(enumerate(pairs))
    for ask in (_by_rows, _by_values, _by_profiles):
        answers = ask(_values_of(capture, left)) if left else {}
        evidence |= {left[number]: why for number, why in sorted(answers.items()) if why is not None}
        left = {number: pair for number, pair in left.items() if number not in answers}
    return evidence


_READ: Final = (
    *("operation", "outcome", "schema_name", "table_name", "table_version", "position", "file_index", "offset"),
    *("changed_columns", "key", "before", "after"),
)
_ORDER: Final = ("position", "file_index", "offset")
_VALUE: Final = pa.schema(
    [
        *(("pair", pa.int64()), ("is_old", pa.bool_()), ("key", pa.string())),
        *map(CHANGES.field, _ORDER),
        *(("value", pa.string()), ("image", CHANGES.field("after").type)),
        *(("seen", pa.string()), ("is_seen", pa.bool_())),
    ]
)
_COUNTS: Final = pa.schema([("pair", pa.int64()), ("all", pa.int64()), ("same", pa.int64())])


def _values_of(capture: Any, pairs: Mapping[int, Pair]) -> Rows:
    """The values of the columns of pairs, a row for each pair that a change is evidence for: ``pair`` (its number),
    whether the row has the old version (``is_old``), its ``key`` as text, its location, the ``value`` after the change,
    which is that before it if only that was captured, the same as an ``image``, and the value that is compared with
    that of other rows of the key (``seen``): before the change in the new version, after it in the old one."""
    sides = [
        (number, pair, version, is_old, column)
        for number, pair in pairs.items()
        for version, is_old, column in ((pair.old_version, True, pair.old), (pair.new_version, False, pair.new))
    ]

    def values(changes: pa.RecordBatch) -> pa.RecordBatch:
        changes = changes.filter(pc.invert(pc.is_in(changes["outcome"], pa.array(_UNDONE))))
        labels = table_labels(changes)
        parts = []
        for number, pair, version, is_old, column in sides:
            keep = pc.and_(pc.equal(labels, pair.table), pc.equal(changes["table_version"], version))
            for limit, inside in ((pair.since, pc.greater_equal), (pair.until, pc.less_equal)):
                if limit is not None:
                    keep = pc.and_(keep, pc.fill_null(inside(changes["position"], limit), True))
            rows = changes.filter(keep)
            if len(rows):
                parts.append(_values_in(rows, number, is_old, column))
        return joined(parts, _VALUE)

    return capture.rows("changes", _READ).map(values, _VALUE)


def _values_in(rows: pa.RecordBatch, number: int, is_old: bool, column: str) -> pa.RecordBatch:
    (has_before, before), (has_after, after) = (Pairs(rows[name]).of_column(column) for name in ("before", "after"))
    value, has = pc.if_else(pa.array(has_after), after, before), has_before | has_after
    seen, is_seen = value, value.is_valid()
    if not is_old:
        lists = rows["changed_columns"]
        named = np.asarray(pc.equal(pc.list_flatten(lists), column)).astype(np.bool_)
        changed = np.isin(np.arange(len(rows)), np.asarray(pc.list_parent_indices(lists))[named])
        is_update = pc.fill_null(pc.not_equal(rows["operation"], str(Operation.INSERT)), False)
        untouched = pc.and_(pc.and_(is_update, lists.is_valid()), pa.array(has_after & ~changed))
        seen, is_seen = pc.if_else(pa.array(has_before), before, after), pc.or_(pa.array(has_before), untouched)
    keys = [None if key is None else repr(sorted(key)) for key in rows["key"].to_pylist()]
    columns = {"pair": pa.repeat(number, len(rows)), "is_old": pa.repeat(is_old, len(rows)), "key": pa.array(keys)}
    columns |= {name: rows[name] for name in _ORDER} | {"value": value, "seen": seen, "is_seen": is_seen}
    columns["image"] = maps_of(has.astype(np.int64), pa.repeat("value", has.sum()), value.filter(pa.array(has)))
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in _VALUE], schema=_VALUE)


def _by_rows(rows: Rows) -> dict[int, str | None]:
    keyed = rows.where(lambda batch: pc.and_(batch["key"].is_valid(), batch["is_seen"]))
    counts = _counted(keyed, "key", _ORDER, lambda sides: (len(sides) == 2, len(set(sides.values())) == 1))
    return {
        pair: f"{same:,} of {plural(both, 'row')} that both versions show have the same value in it"
        if same >= _SHARE * both
        else None
        for pair, (both, same) in counts.items()
        if both >= _LEAST
    }


def _by_values(rows: Rows) -> dict[int, str | None]:
    known = rows.where(lambda batch: batch["value"].is_valid())
    counts = _counted(known, "value", ["is_old"], lambda sides: (False in sides, True in sides))
    return {
        pair: f"{both:,} of its {plural(after, 'value')} were in the old column"
        for pair, (after, both) in counts.items()
        if both >= _LEAST and both >= _VALUES * after
    }


def _counted(
    rows: Rows, key: str, order: Sequence[str], judge: Callable[[dict[bool, str | None]], tuple[bool, bool]]
) -> dict[int, tuple[int, int]]:
    """For each pair: how many keys are of interest, and how many of these have the same value in both versions.
    ``judge`` decides both from the last value of the old version and the first one of the new version of a key."""

    def judged(batches: Batches) -> Batches:
        names = ("pair", key, "is_old", "seen")
        records = (row for batch in batches for row in batch.select(names).to_pylist())
        every, same = Counter[int](), Counter[int]()
        for (pair, _), group in groupby(records, itemgetter("pair", key)):
            sides: dict[bool, str | None] = {}
            for row in group:
                if row["is_old"] or False not in sides:
                    sides[row["is_old"]] = row["seen"]
            counts, is_same = judge(sides)
            every[pair] += counts
            same[pair] += counts and is_same
        yield pa.RecordBatch.from_pylist([{"pair": n, "all": every[n], "same": same[n]} for n in every], _COUNTS)

    counts = rows.by_key(["pair", key], order, judged, _COUNTS).totals({"all": "sum", "same": "sum"})
    return {row["pair"]: (row["all"], row["same"]) for row in counts.to_pylist()}


def _by_profiles(rows: Rows) -> dict[int, str | None]:
    profiles: dict[int, dict[bool, Profile]] = defaultdict(dict)
    for row in profiles_of(rows, lambda batch: {name: batch[name] for name in ("pair", "is_old")}):
        profiles[row["pair"]][row["is_old"]] = row["profile"]
    evidence: dict[int, str | None] = {}
    for number, sides in profiles.items():
        far = distance(sides[True], sides[False]) if len(sides) == 2 else None
        if far is not None and far <= ALIKE:
            words = f"{plural(sides[True].values, 'value')} before, {plural(sides[False].values, 'value')} after"
            same = "the ordinal, the type and the shape of the values are the same"
            evidence[number] = f"no row shows both, but {same} ({words})"
    return evidence
