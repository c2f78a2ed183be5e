"""The content of the page on replay and reconciliation, with few queries: the rows of a table at a position of the log,
the history of one row, and the comparison of two captures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

from cdcwb.analysis.alike import Rules, read_rules
from cdcwb.analysis.reconcile import Reconciled, check_names, counted_tables, reconcile
from cdcwb.analysis.reconcile_reasons import reason_words
from cdcwb.errors import OptionError
from cdcwb.model import Operation, Outcome
from cdcwb.spark.history import ORDER, check_key, of_row
from cdcwb.spark.known import Known, find_table, infer_keys, keyed_by, known_tables
from cdcwb.spark.names import table_label
from cdcwb.spark.replay import growth, rows_at
from cdcwb.words import count, duration
from cdcwb.writing import scratch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "Asked",
    "Life",
    "Replayed",
    "Side",
    "ask",
    "compare",
    "difference_rows",
    "difference_text",
    "ends_facts",
    "grown",
    "key_text",
    "life_facts",
    "life_rows",
    "lives",
    "outcome_words",
    "parse_key",
    "replayed",
    "row_life",
    "state_rows",
    "states",
    "value_rows",
    "value_text",
]


_ROWS: Final = 50
_COLUMNS: Final = 14
_CHANGES: Final = 200
_STEPS: Final = 300
_SIDES: Final = ("source", "target")

Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two compared captures: its selected ``changes``, and the complete ``capture``."""

    changes: DataFrame
    spark: SparkSession
    capture: Any


@dataclass(frozen=True)
class Asked:
    """The validated parameters of the page. ``table``: None without tables. ``key``: empty if not given. ``changes``
    have the inferred key, if one was inferred. ``sides`` and ``sides_known``: source and target, empty for a single
    capture. ``notes``: remarks on the results. ``infer_keys``: two captures are compared by inferred keys if neither
    has a key."""

    capture: Any
    changes: DataFrame
    known: dict[str, Known]
    table: Known | None
    position: str | None
    time: datetime | None
    key: dict[str, str | None]
    rules: Rules
    sides: tuple[Side, ...] = ()
    sides_known: tuple[dict[str, Known], ...] = ()
    notes: list[str] = field(default_factory=list)
    infer_keys: bool = False

    @property
    def until(self) -> str:
        """The limit of replay, for a sentence."""
        parts = [f"position {self.position}"] if self.position else []
        parts += [self.time.isoformat()] if self.time else []
        return f"after all commits up to {' and '.join(parts)}" if parts else "at the end of the capture"

    @property
    def late_after(self) -> str:
        """The limit of delays in words; empty without a limit."""
        limit = self.rules.late_after
        return "" if limit is None else duration(limit // timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class Replayed:
    """A table at a position of the log: the number of ``rows``, of ``partial`` ones, the first rows by key (``shown``)
    and their ``columns`` (name in ``shown`` -> heading)."""

    rows: int
    partial: int
    shown: list[dict[str, Any]]
    columns: dict[str, str]


@dataclass(frozen=True, slots=True)
class Life:
    """The history of one row: its ``key``, the number of its ``changes``, and the first of them
    (:func:`cdcwb.analysis.replay.lives`). ``chosen``: no key was given, so this is the row with most changes."""

    key: dict[str, str | None]
    changes: int
    shown: list[dict[str, Any]]
    chosen: bool


def ask(
    capture: Any,
    sides: tuple[Side, ...],
    table: str,
    position: str,
    time: str,
    key: str,
    rules: str,
    infer_keys: bool = False,
) -> Asked:
    """Validates the parameters of the page. ``sides``: the source, which is ``capture``, and the target; empty without
    one.

    Raises OptionError that names everything that is wrong.
    """
    texts: dict[str, Any] = {"table": table, "position": position, "time": time, "key": key}
    wrong = [
        f"{name}: expected a text, found the number {text!r}; papermill's -r {name} gives VALUE as text"
        for name, text in texts.items()
        if not isinstance(text, str)
    ]
    if wrong:  # papermill's -p converts texts to numbers, and positions lose leading zeros
        raise OptionError("; ".join(wrong))
    understood = _tried(lambda: read_rules(rules), wrong) or Rules()
    moment = _time(time, wrong)
    wanted = _key(key, wrong)
    changes = capture.changes
    known = known_tables(changes)
    table_found = _table(known, table, wrong)
    notes: list[str] = []
    if table_found is not None:
        changes, table_found = _with_key(changes, table_found, notes)
        wrong += check_key(table_found, wanted) if wanted else []
    sides_known = tuple(counted_tables(side) for side in sides)
    if sides_known:
        wrong += check_names(understood, *sides_known)
    elif understood != Rules():
        notes.append("The rules are for a second capture, and there is none.")
    if wrong:
        raise OptionError("; ".join(wrong))
    return Asked(
        capture=capture,
        changes=changes,
        known=known,
        table=table_found,
        position=position or None,
        time=moment,
        key=wanted,
        rules=understood,
        sides=sides,
        sides_known=sides_known,
        notes=notes,
        infer_keys=infer_keys,
    )


def _tried(work: Any, wrong: list[str]) -> Any:
    try:
        return work()
    except OptionError as error:
        wrong.append(str(error))
        return None


def _time(text: str, wrong: list[str]) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        wrong.append(f"time: expected a time such as 2025-03-23T10:57:19Z, found {text!r}")
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _key(text: str, wrong: list[str]) -> dict[str, str | None]:
    if not text:
        return {}
    try:
        return parse_key(text)
    except ValueError as error:
        wrong.append(str(error))
        return {}


def _table(known: dict[str, Known], table: str, wrong: list[str]) -> Known | None:
    """The given table; else the one with most changes that have a key, else with most changes."""
    if table:
        matching: Known | None = _tried(lambda: find_table(known, table), wrong)
        return matching
    order = sorted(known.values(), key=lambda candidate: (-candidate.keyed, -candidate.changes, candidate.table))
    return order[0] if order else None


def _with_key(changes: DataFrame, table: Known, notes: list[str]) -> tuple[DataFrame, Known]:
    """The changes of a table without a key, identified by an inferred key column, and a note about it."""
    if table.keyed:
        return changes, table
    inferred = infer_keys(changes, [table.table]).get(table.table)
    if inferred is None:
        notes.append(
            f"No change of {table.table} has a key, and none can be inferred: no column is unique in 20 inserted rows "
            f"or more. To name the key, give the reader option keys={table.table}:column+column."
        )
        return changes, table
    notes.append(str(inferred))
    keyed = keyed_by(changes, {table.table: [inferred.column]})
    return keyed, known_tables(keyed.filter(table_label() == table.table))[table.table]


def replayed(asked: Asked) -> Replayed:
    """The table at the limit of replay; its first rows by key."""
    assert asked.table is not None
    versions = asked.capture.table_versions
    counted = Observation()
    rows = rows_at(asked.changes, versions, asked.table, asked.position, asked.time)
    observed = rows.observe(
        counted,
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(F.col("partial").cast("bigint")), F.lit(0)).alias("partial"),
    )
    values = F.transform(F.map_values("key"), _sortable)
    records = [row.asDict() for row in observed.orderBy(values).limit(_ROWS).collect()]
    numbers = counted.get
    names = _columns(records, versions, asked.table)
    shown = [_shown(row, names) for row in records]
    columns = {f"c{number}": name for number, name in enumerate(names)}
    headings = columns | {"partial": "partial", "changes": "changes", "position": "last position"}
    return Replayed(numbers["rows"], numbers["partial"], shown, headings)


def _sortable(value: Column) -> Column:
    """Sort key: numbers by value, before texts."""
    number = value.try_cast("decimal(38,10)")
    return F.struct(number.isNull().alias("text"), number.alias("number"), value.alias("value"))


def _columns(rows: Sequence[Mapping[str, Any]], versions: DataFrame, table: Known) -> list[str]:
    """The columns of the newest versions of the rows, in their order; then other columns of the rows."""
    names = {row["table_version"] for row in rows}
    known = versions.filter(table_label() == table.table).select("table_version", "columns.name").collect()
    ordered = [
        name
        for row in sorted(known, key=lambda row: row["table_version"] or "")
        for name in row["name"] or ()
        if row["table_version"] in names
    ]
    keys = [name for row in rows for name in row["key"]]
    further = [name for row in rows for name in row["row"]]
    return list(dict.fromkeys([*keys, *ordered, *further]))[:_COLUMNS]


def _shown(row: Mapping[str, Any], names: Names) -> dict[str, Any]:
    image = {**row["key"], **row["row"]}
    cells = {f"c{number}": value_text(image[name]) if name in image else None for number, name in enumerate(names)}
    return cells | {name: row[name] for name in ("partial", "changes", "position")}


def grown(asked: Asked) -> list[tuple[datetime | None, int]]:
    """The number of rows of the table over time (:func:`cdcwb.spark.replay.growth`), in up to 300 steps; empty if no
    change has a time."""
    table = asked.table
    assert table is not None
    if table.first is None or table.last is None:
        return []
    span = (min(table.last, asked.time or table.last) - table.first) // timedelta(microseconds=1) + 1
    width = max(1, math.ceil(span / _STEPS))
    return growth(asked.changes, table, table.first, width, asked.position, asked.time)


def row_life(asked: Asked) -> Life | None:
    """The history of the given row, or of the one with most changes; None if rows have no key."""
    assert asked.table is not None
    key, chosen = asked.key, not asked.key
    if chosen:
        busiest = _busiest(asked.changes, asked.table)
        if busiest is None:
            return None
        key = busiest
    counted = Observation()
    rows = of_row(asked.changes, asked.capture.transactions, asked.table, key)
    observed = rows.observe(counted, F.count(F.lit(1)).alias("changes"))
    shown = lives(observed.orderBy(*ORDER).limit(_CHANGES), asked.capture.files)
    return Life(key, counted.get["changes"], shown, chosen)


def _busiest(changes: DataFrame, table: Known) -> dict[str, str | None] | None:
    keyed = changes.filter((table_label() == table.table) & F.col("key").isNotNull())
    text = F.to_json("key", {"ignoreNullFields": "false"}).alias("text")
    rows = keyed.groupBy(text).agg(F.count("*").alias("n")).orderBy(F.desc("n"), "text").limit(1).collect()
    return json.loads(rows[0]["text"]) if rows else None


def compare(asked: Asked, folder: Path | None) -> Reconciled | None:
    """Compares source and target. The pairs are stored in ``folder``, or in a temporary folder that is deleted with the
    result (on a cluster without a folder they are computed for each question). None without a target."""
    if not asked.sides:
        return None
    source, target = asked.sides
    result = reconcile(source, target, asked.rules, (asked.sides_known[0], asked.sides_known[1]), asked.infer_keys)
    if folder is not None:
        return result.stored(folder / "reconciled.parquet")
    if not (source.spark.conf.get("spark.master", "") or "").startswith("local"):
        return result
    return result.stored(scratch(asked, "cdcwb-reconciled-") / "pairs")


def difference_rows(differences: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Differences for a table on a page: the columns that differ, or that a missing or extra change sets, and the
    locations in both captures, as text and as file and offset."""
    rows = []
    for row in differences:
        unlike = [(c["column"], value_text(c["source"]), value_text(c["target"])) for c in row["columns"]]
        changed = [f"{column}: {old} -> {other}" for column, old, other in unlike]
        changed += [_changed(row["operation"], difference) for difference in row["changed"]]
        words = [row["what"]] if row["what"] != "same" else []
        words += ["late"] if row["late"] else []
        rows.append(
            {
                "what": ", ".join(words) or "same",
                **{name: row[name] for name in ("table", "key", "operation", "delay_us")},
                "reason": reason_words(row["reason"], row["what"]) if row["reason"] else None,
                "sentence": "; ".join(changed),
                **{f"{side}_position": _location(row[side]) for side in _SIDES},
                **{f"{side}_{name}": (row[side] or {}).get(name) for side in _SIDES for name in ("file", "offset")},
            }
        )
    return rows


def _changed(operation: str | None, difference: Mapping[str, Any]) -> str:
    """The effect of a missing or extra change on a column; with the old value if it was captured."""
    if operation == Operation.UPDATE and difference["old_known"]:
        return f"{difference['column']}: from {value_text(difference['old'])} to {value_text(difference['new'])}"
    return f"{difference['column']} = {value_text(difference['new'])}"


def life_rows(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The changes of a row (:func:`cdcwb.analysis.replay.lives`) for a table on a page."""
    names = ("at", "operation", "transaction_id", "user", "change_mask", "position")
    return [
        {
            **{name: change[name] for name in names},
            **{name: change[name] for name in ("record", "file", "offset") if name in change},
            "version_code": change["table_version"],
            "outcome": outcome_words(change["outcome"]),
            "sentence": "; ".join(f"{d['column']}: {d['told']}" for d in change["differences"]),
            "places": [f"{event['file'].rpartition('/')[2]}, {count(event['offset'])}" for event in change["places"]],
        }
        for change in changes
    ]


def value_rows(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The columns of each change of a row, one by one, with the ``old`` and the ``new`` value."""
    return [
        {
            **{name: change[name] for name in ("at", "operation", "transaction_id", "position")},
            "outcome": outcome_words(change["outcome"]),
            "column": d["column"],
            "old": _old(change["operation"], d),
            "new": None if change["operation"] in (Operation.DELETE, Operation.TRUNCATE) else value_text(d["new"]),
            **{name: change["places"][0][name] for name in ("file", "offset")},
        }
        for change in changes
        for d in change["differences"]
    ]


def _old(operation: str | None, difference: Mapping[str, Any]) -> str | None:
    if operation in (Operation.INSERT, Operation.REFRESH):
        return None
    return value_text(difference["old"]) if difference["old_known"] else NOT_CAPTURED


def state_rows(changes: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row after each change (:func:`cdcwb.analysis.replay.states`), and its columns (name -> heading)."""
    held = list(states(changes))
    names = list(dict.fromkeys(name for _, row in held for name in row or ()))[:_COLUMNS]
    rows = [
        {name: change[name] for name in ("at", "operation", "position")}
        | {f"c{n}": value_text(row[name]) if row and name in row else None for n, name in enumerate(names)}
        for change, row in held
    ]
    return rows, {f"c{n}": name for n, name in enumerate(names)}


def life_facts(life: Life | None) -> dict[str, Any]:
    """Facts about the history of a row for scripts."""
    return {
        "history_key": None if life is None else key_text(life.key),
        "history_changes": None if life is None else life.changes,
    }


def ends_facts(life: Life | None) -> dict[str, Any]:
    """Operation and time of the first and the last change of a row that was not undone, and the number of undone ones;
    null if they are not among the changes that are shown."""
    shown = [] if life is None else life.shown
    lasting = [change for change in shown if not change["taken_back"]]
    ends: list[Any] = [[change["operation"], _iso(change["at"])] for change in (*lasting[:1], *lasting[-1:])] or [
        None,
        None,
    ]
    complete = life is not None and life.changes == len(shown)
    return {
        "history_first": ends[0],
        "history_last": ends[-1] if complete else None,
        "history_taken_back": len(shown) - len(lasting) if complete else None,
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _location(location: Mapping[str, Any] | None) -> str | None:
    if location is None:
        return None
    file = str(location["file"]).rpartition("/")[2]
    return f"{file}, {count(location['offset'])}" + (f", {location['position']}" if location["position"] else "")


# --- row history ------------------------------------------------------------------------------------------------------

NOT_CAPTURED: Final = "not captured"
_WORDS: Final[dict[str, str]] = {
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.UNDONE: "undone by a rollback to a savepoint",
    Outcome.UNDO: "undoes another change",
    Outcome.OPEN: "open: no commit in the capture",
}
_TAKEN_BACK: Final = (Outcome.ROLLED_BACK, Outcome.UNDONE, Outcome.UNDO)
_DELETES: Final = (Operation.DELETE, Operation.TRUNCATE)
_PLAIN: Final = (
    *("operation", "outcome", "position", "commit_position", "transaction_id", "user", "change_mask", "column_mask"),
    *("table_version", "changed_at", "committed_at"),
)


def lives(changes: DataFrame, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The collected rows of :func:`cdcwb.spark.history.history`: a record for each change.

    ``table``, ``operation``, ``outcome`` (null if the source does not give it), ``position``, ``commit_position``,
    ``transaction_id``, ``user``, ``change_mask``, ``column_mask``, ``table_version``, ``changed_at``, ``committed_at``,
    ``at`` (the best of the two), ``taken_back``, ``differences`` (``column``, ``old``, ``new``, ``old_known``,
    ``told``: in words), ``image`` (the values of the row in the change, None if it deleted the row) and ``places``
    (``file``, ``offset``, ``length`` of every event). ``files`` are the capture's.
    """
    names = {int(file["file_index"]): str(file["file"]) for file in files}
    return [_life(row, names) for row in changes.toArrow().to_pylist()]


def _life(row: Mapping[str, Any], files: Mapping[int, str]) -> dict[str, Any]:
    plain = {name: row[name] for name in _PLAIN}
    for name in ("changed_at", "committed_at"):
        plain[name] = None if plain[name] is None else _utc(plain[name])
    events = row["source_events"] or [{name: row[name] for name in ("file_index", "offset", "length")}]
    differences = [dict(d) | {"told": difference_text(row["operation"], d)} for d in row["differences"] or ()]
    label = row["table_name"] if row["schema_name"] is None else f"{row['schema_name']}.{row['table_name']}"
    return {
        "table": label,
        **plain,
        "at": plain["changed_at"] or plain["committed_at"],
        "taken_back": row["outcome"] in _TAKEN_BACK,
        "differences": differences,
        "image": None if row["operation"] in _DELETES else {**dict(row["before"] or ()), **dict(row["after"] or ())},
        "places": [
            {
                "file": files.get(event["file_index"], row["file"]),
                "offset": event["offset"],
                "length": event["length"],
            }
            for event in events
        ],
    }


def states(changes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], dict[str, str | None] | None]]:
    """The changes of a row (:func:`lives`) that were not undone, each with the values of the row after it, as far as
    the changes up to it give them; None if the row was deleted."""
    row: dict[str, str | None] | None = None
    for change in changes:
        if not change["taken_back"]:
            values = row if row is not None and change["operation"] == Operation.UPDATE else {}
            row = None if change["image"] is None else {**values, **change["image"]}
            yield change, row


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


def outcome_words(outcome: str | None) -> str:
    """The outcome of a change in words."""
    if outcome is None:
        return "outcome not known"
    return _WORDS.get(outcome, outcome)


def difference_text(operation: str | None, difference: Mapping[str, Any]) -> str:
    """The effect of a change on a column: ``old -> new`` for an update, the value for an insert or delete."""
    old = value_text(difference["old"]) if difference["old_known"] else NOT_CAPTURED
    if operation == Operation.DELETE:
        return old
    if operation != Operation.UPDATE:
        return value_text(difference["new"])
    return f"{old} -> {value_text(difference['new'])}"


def value_text(value: str | None) -> str:
    """A value as text; NULL without quotes, ambiguous texts in quotes."""
    if value is None:
        return "NULL"
    return f"'{value}'" if value in ("", "NULL", NOT_CAPTURED) or value != value.strip() else value


def key_text(key: Mapping[str, str | None]) -> str:
    """``id=42, other=x``."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in key.items())


def parse_key(text: str) -> dict[str, str | None]:
    """A key from a JSON object, or from ``id=42,other=x``.

    Raises ValueError, with a sentence, for other texts.
    """
    import json

    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text, parse_float=str, parse_int=str)
        except ValueError as error:
            raise ValueError(f"key: expected a JSON object or column=value, found {text!r} ({error})") from None
        return {name: None if value is None else _as_text(value) for name, value in content.items()}
    key: dict[str, str | None] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"key: expected a JSON object or column=value, found {text!r}")
        key[name.strip()] = value
    return key


def _as_text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
