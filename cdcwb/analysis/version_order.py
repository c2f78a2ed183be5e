"""The versions of a capture's tables in the order in which they were in force, with facts from their rows, and the
columns that a later version renamed.

The order follows the positions of the rows; if these overlap, it follows the rows one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate, groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.images import Keys, are_lasting
from cdcwb.dataset import Rows, differ, joined, run_starts
from cdcwb.filters import NO_TABLE, as_flags
from cdcwb.formats.arrays import label
from cdcwb.formats.json_values import parse_json
from cdcwb.index.columns import table_labels
from cdcwb.index.images import Pairs
from cdcwb.model import CHANGES, Operation
from cdcwb.words import plural

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
class Period(Extent):
    """A period in which a version is in force, with its rows; a version that returns (``again``) has several."""

    version: Version
    again: bool = False


def extent_of(rows: Extent) -> dict[str, Any]:
    """The fields of an :class:`Extent`."""
    return {name: getattr(rows, name) for name in _EXTENT}


_OF_VERSIONS: Final = (
    *("schema_name", "table_name", "table_version", "first_position", "first_event", "columns", "origin"),
    *("schema_text", "lineage"),
)


def versions(capture: Any) -> list[Version]:
    """The versions of every table, by table, in the order of their first rows. A version without rows follows the one
    that the source created before it."""
    used = _located(capture).totals(_EXTENT, lambda batch: {name: batch[name] for name in _VERSION} | _extent(batch))
    of_rows = {tuple(row.pop(name) for name in _VERSION): row for row in used.to_pylist()}
    by_table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in capture.rows("table_versions", _OF_VERSIONS).table().to_pylist():
        table = label(row.pop("schema_name"), row.pop("table_name")) or NO_TABLE
        row |= {"table": table, "columns": row["columns"] or [], "lineage": dict(row["lineage"] or ())}
        first, extent = row.pop("first_position"), of_rows.get((table, row["table_version"]), {})
        row |= extent
        if extent:  # the first row of an update may be its before image, which precedes the change
            row["first_position"] = min(filter(None, (first, extent["first_position"])), default=None)
        by_table[table].append(row)
    return [
        Version(number=number, **{name: fact for name, fact in row.items() if name != "first_event"})
        for table in sorted(by_table)
        for number, row in enumerate(_in_order(by_table[table]), 1)
    ]


_LOCATED: Final = pa.schema(
    [
        *((name, pa.string()) for name in _VERSION),
        *map(CHANGES.field, ("position", "file_index", "offset", "changed_at")),
    ]
)


def _located(capture: Any) -> Rows:
    """Where the changes of known version are."""
    names = _LOCATED.names[1:]

    def located(changes: pa.RecordBatch) -> pa.RecordBatch:
        columns = [table_labels(changes), *(changes[name] for name in names)]
        return pa.RecordBatch.from_arrays(columns, schema=_LOCATED).filter(changes["table_version"].is_valid())

    return dated_rows(capture, ("schema_name", "table_name", *names)).map(located, _LOCATED)


def _extent(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    position, at = batch["position"], batch["changed_at"]
    return dict(zip(_EXTENT, (position, position, at, at, pa.repeat(1, len(batch))), strict=True))


_NUMBERED: Final = re.compile(r"(?:^|[@#/])(\d{1,18})$")


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The versions of a table by the positions of their first rows; those without, after the version that was created
    before them: by the first of these that all versions have, each another: the source's number, the event with the
    definition, the number in the name; else by name."""

    def created(row: Mapping[str, Any]) -> tuple[Any, ...]:
        event, name = row["first_event"], row["table_version"] or ""
        stated = _NUMBERED.match(row["lineage"].get("version", row["lineage"].get("tableVersion")) or "")
        location = None if event is None or event["file_index"] < 0 else (event["file_index"], event["offset"])
        named = _NUMBERED.search(name)
        return stated and int(stated[1]), location, named and int(named[1]), name

    orders = [keys for keys in zip(*map(created, rows), strict=True) if None not in keys]
    keys = next((keys for keys in orders if len({*keys}) == len(keys)), orders[-1])
    last, ordered = "", []
    for number, (_, row) in enumerate(sorted(zip(keys, rows, strict=True), key=itemgetter(0))):
        last = row.get("first_position") or last
        ordered.append((last, number, row))
    return [row for *_, row in sorted(ordered, key=itemgetter(0, 1))]


# --- periods in which versions are in force ---------------------------------------------------------------------------

_RUNS: Final = 4  # if versions alternate more often than this, a return cannot be distinguished from late rows


def periods(capture: Any, known: Sequence[Version]) -> tuple[list[Period], list[tuple[str, int]]]:
    """The periods in which versions are in force, by table, in order; and the tables in which rows of an older version
    follow rows of a newer one although the older did not return, and how often. Versions without a position follow the
    first period of the version before them."""
    by_table = {table: list(of_table) for table, of_table in groupby(known, attrgetter("table"))}
    runs = _runs(capture, {table: of_table for table, of_table in by_table.items() if _overlap(of_table)})
    result, mixed = list[Period](), []
    for table, of_table in by_table.items():
        found, late = list(map(all_changes, of_table)), 0
        if turns := runs.get(table):
            number = max(turn["turns"] for turn in turns)
            late = number - len({turn["table_version"] for turn in turns})
            if number <= _RUNS * len(of_table):
                found, late = _in_force(of_table, turns)
        result += found
        mixed += [(table, late)] if late else []
    return result, mixed


def all_changes(version: Version) -> Period:
    """A period with all rows of a version."""
    return Period(version=version, **extent_of(version))


def _overlap(of_table: Iterable[Version]) -> bool:
    """Whether rows of a version begin before those of another end."""
    used = [(v.first_position, v.last_position or v.first_position) for v in of_table if v.first_position is not None]
    ends = accumulate((end for _, end in used), max)
    return any(first <= end for (first, _), end in zip(used[1:], ends, strict=False))


def _in_force(of_table: Sequence[Version], runs: Sequence[Mapping[str, Any]]) -> tuple[list[Period], int]:
    """The periods of a table from its runs of rows, and the number of runs of late rows. A version returns if no row of
    a version that replaced it follows any more; other rows of it are late."""
    by_name = {version.table_version: version for version in of_table}
    turns = [Period(version=by_name[run["table_version"]], **{name: run[name] for name in _EXTENT}) for run in runs]
    for before, version in pairwise([None, *of_table]):
        if version is not None and version.first_position is None:
            first = (number for number, turn in enumerate(turns, 1) if turn.version is before)
            turns.insert(next(first, 0), all_changes(version))
    last_turn = {turn.version.number: number for number, turn in enumerate(turns)}
    latest: dict[int, int] = {}  # index of the latest period of each version
    result, late = list[Period](), 0
    for number, turn in enumerate(turns):
        at = latest.get(turn.version.number)
        newer = [] if at is None else [o.version for o in result[at + 1 :] if o.version.first_position is not None]
        if at is not None and (not newer or any(last_turn[other.number] > number for other in newer)):
            result[at] = _extended(result[at], turn)
            late += bool(newer)
        else:
            latest[turn.version.number] = len(result)
            first_position = turn.version.first_position if at is None else turn.first_position
            result.append(replace(turn, again=at is not None, first_position=first_position))
    return result, late


def _extended(period: Period, later: Period) -> Period:
    """A period with rows that follow."""
    times = [time for one in (period, later) for time in (one.first_at, one.last_at) if time is not None]
    first_at, last_at, changes = min(times, default=None), max(times, default=None), period.changes + later.changes
    return replace(period, last_position=later.last_position, first_at=first_at, last_at=last_at, changes=changes)


def _runs(capture: Any, tables: Mapping[str, Sequence[Version]]) -> dict[str, list[dict[str, Any]]]:
    """Runs of consecutive rows of one version, by table in log order, with the number of ``turns`` up to it. Of a table
    with very many runs the last ones are one for each version."""
    if not tables:
        return {}
    most = _RUNS * max(map(len, tables.values())) + 1

    def facts(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        turn = {"turn": pc.min_element_wise(batch["turn"], most), "turns": batch["turn"]}
        return {name: batch[name] for name in _VERSION} | turn | _extent(batch)

    names = pa.array(tables)
    located = _located(capture).where(lambda one: pc.and_(pc.is_in(one["table"], names), one["position"].is_valid()))
    rows = located.numbered(["table"], "turn", ["position", "file_index", "offset"], _VERSION)
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
    evidence: dict[str, str] = {}
    for statement in statements:
        text = statement.text if len(statement.text) <= _TEXT else statement.text[: _TEXT - 1] + "…"
        location = f" at {statement.position}" if statement.position else ""
        for old, new in renames(statement.text):
            first[new.casefold()] = first.pop(old.casefold(), old.casefold())
            shown = f'column "{old}" has the new name "{new}"' if text.lstrip().startswith("{") else text
            earlier = f"{evidence.pop(old.casefold())}; " if old.casefold() in evidence else ""
            evidence[new.casefold()] = f"{earlier}DDL{location}: {shown}"
    return {(olds[was], news[now]): evidence[now] for now, was in first.items() if was in olds and now in news}


# --- evidence in rows -------------------------------------------------------------------------------------------------

_SHARE: Final = 0.9  # minimum share of rows with equal values in a renamed column


class Renaming(NamedTuple):
    """A column ``old`` of a table that may be renamed to ``new``."""

    table: str
    old: str
    new: str


_READ: Final = (
    *("operation", "outcome", "schema_name", "table_name", "position", "file_index", "offset", "changed_columns"),
    *("key", "before", "after"),
)
_ORDER: Final = ("position", "file_index", "offset")
_COLUMN: Final = ["row", "column"]
_SEEN: Final = pa.schema(
    [
        *(("renaming", pa.int64()), ("key", pa.string()), ("is_new", pa.bool_())),
        *map(CHANGES.field, _ORDER),
        *(("seen", pa.string()), ("later", pa.string()), ("is_both", pa.bool_())),
    ]
)


def retained_values(capture: Any, possible: Sequence[Renaming]) -> dict[Renaming, str | None]:
    """The renamings about which rows decide that have the old column first and the new one later, found by key: None if
    their values differ, else the evidence. At least two such rows are needed."""
    if not possible:
        return {}
    sides = [
        pa.table({"renaming": range(len(possible)), "table": [r.table for r in possible], "column": names})
        for names in ([r.old for r in possible], [r.new for r in possible])
    ]
    seen = capture.rows("changes", _READ).map(partial(_seen_values, sides), _SEEN)
    both = seen.reduce_by_key(["renaming", "key"], _ORDER, _first_steps).where(lambda batch: batch["is_both"])
    counts = both.totals({"rows": "sum", "same": "sum"}, _equal_values).to_pylist()
    return {
        possible[row["renaming"]]: f"{row['same']:,} of {plural(row['rows'], 'row')} that both versions show have the "
        "same value in it"
        if row["same"] >= _SHARE * row["rows"]
        else None
        for row in counts
        if row["rows"] > 1
    }


def _seen_values(sides: Sequence[pa.Table], changes: pa.RecordBatch) -> pa.RecordBatch:
    """The value of each old column after each change, and that of each new one before it, as far as they are known;
    ``sides`` are the old and the new columns."""
    changes = changes.filter(pc.and_(changes["key"].is_valid(), are_lasting(changes)))
    labels, wanted = table_labels(changes), pa.concat_tables(sides)["column"]
    images = []
    for pairs in map(Pairs, (changes["before"], changes["after"])):
        columns = {"row": pairs.rows, "table": labels.take(pa.array(pairs.rows))}
        values = pa.table(columns | {"column": pairs.names, "seen": pairs.values})
        images.append(values.filter(pc.is_in(pairs.names, wanted)))
    before, after = images
    lists = changes["changed_columns"]
    changed = pa.table({"row": pc.list_parent_indices(lists), "column": pc.list_flatten(lists)})
    is_update = pc.and_(lists.is_valid(), pc.not_equal(changes["operation"], str(Operation.INSERT)))
    retained = after.filter(is_update.take(after["row"])).join(changed, _COLUMN, join_type="left anti")
    keys = Keys.of(changes)
    texts, batches = keys.texts(keys.pairs.values), []
    for is_new, side, first, other in ((False, sides[0], after, before), (True, sides[1], before, retained)):
        values = pa.concat_tables([first, other.join(first.select(_COLUMN), _COLUMN, join_type="left anti")])
        found = values.join(side, ["table", "column"], join_type="inner").combine_chunks()
        rows = found["row"]
        columns = {"renaming": found["renaming"], "key": texts.take(rows), "is_new": pa.repeat(is_new, len(found))}
        columns |= {name: changes[name].take(rows) for name in _ORDER} | {"seen": found["seen"]}
        columns |= {"later": pa.nulls(len(found), pa.string()), "is_both": pa.repeat(False, len(found))}
        table = pa.table(columns, schema=_SEEN)
        batches += (table if is_new else table.filter(table["seen"].is_valid())).to_batches()
    return joined(batches, _SEEN)


def _equal_values(batch: pa.RecordBatch) -> dict[str, Any]:
    is_same = ~differ(batch["seen"], batch["later"])
    return {"renaming": batch["renaming"], "rows": pa.repeat(1, len(batch)), "same": is_same.astype(np.int64)}


def _first_steps(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of each renaming and key the row before the first one with the new column, which follows one with the old column,
    and its value ``later``; without one, the last row."""
    if not len(rows):
        return rows
    ends = np.append(run_starts(rows, ["renaming", "key"])[1:], len(rows)) - 1
    is_new, at = as_flags(rows["is_new"]), np.arange(len(rows))
    steps = np.append(is_new[1:] & ~is_new[:-1], False)
    steps[ends] = False
    of_key = np.searchsorted(ends, at)
    is_both = as_flags(rows["is_both"])
    steps &= ~is_both
    hits = np.flatnonzero(steps | is_both)
    found, firsts = np.unique(of_key[hits], return_index=True)
    ends[found] = hits[firsts]
    result = rows.take(pa.array(ends))
    is_step = pa.array(steps[ends])
    later = pc.if_else(is_step, rows["seen"].take(pa.array(np.minimum(ends + 1, len(rows) - 1))), result["later"])
    columns = [*result.columns[:-2], later, pc.or_(result["is_both"], is_step)]
    return pa.RecordBatch.from_arrays(columns, schema=_SEEN)
