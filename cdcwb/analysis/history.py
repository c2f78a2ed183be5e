"""Row history: all changes of one row in order, also under the keys that it had before and after."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import IMAGES, MAP, Bools, Keys, Pairs, as_flags, of_table
from cdcwb.analysis.keys import FACTS, Keyed, KnownTable, changes_of, find_table, known_tables
from cdcwb.dataset import Rows, differ, numbered
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import CHANGES, Operation, Outcome
from cdcwb.words import count

__all__ = [
    "CHANGED",
    "ORDER",
    "RowHistory",
    "busiest_key",
    "check_key",
    "difference_text",
    "ends_facts",
    "history",
    "history_facts",
    "history_of_row",
    "history_rows",
    "key_text",
    "outcome_words",
    "parse_key",
    "records_of",
    "state_rows",
    "states",
    "value_rows",
    "value_text",
]

ORDER: Final = ("position", "file_index", "offset")
"""The columns that order the changes of a row as in the log; null first."""

CHANGED: Final = pa.struct(
    [("column", pa.string()), ("old", pa.string()), ("new", pa.string()), ("old_known", pa.bool_())]
)
"""What a change did to a column; ``old_known`` is false if the old value was not captured."""

_HISTORY: Final = CHANGES.remove_metadata().append(pa.field("differences", pa.list_(CHANGED)))
_MOST_MOVES: Final = 10_000  # most updates of keys of a table that are examined
_TAKEN_BACK: Final = (Outcome.ROLLED_BACK, Outcome.UNDONE, Outcome.UNDO)
_DELETES: Final = (Operation.DELETE, Operation.TRUNCATE)

Key = Mapping[str, str | None]
Values = tuple[str | None, ...]
Order = tuple[Any, ...]


class _Leg(NamedTuple):
    """The values of the key columns that the row had from the change ``begin`` to the change ``end`` (None: no
    limit)."""

    key: Values
    begin: Order | None
    end: Order | None


class _Move(NamedTuple):
    """An update that changes the key: where it is in the log, and the values before and after it."""

    order: Order
    old: Values
    new: Values


def history(capture: Any, table: str, key: Key) -> Rows:
    """Every change of the row of ``table`` (``schema.table``, or ``table``) whose columns have the values ``key``
    (None: NULL). ``capture`` is anything with the rows of a capture (:meth:`cdcwb.Capture.rows`).

    A row whose key was changed is followed under its other keys, from the change that set each key to the one that
    replaced it; a change of the key that was rolled back is shown and not followed. TRUNCATEs of the table that follow
    the first change of the row are included.

    Columns: those of ``changes``, ``differences``: a list of ``column``, ``old``, ``new`` and ``old_known`` (false: the
    old value was not captured), of the columns that an update changed, or of all columns that an inserted or deleted
    row has, and ``user`` (of the transaction). In any order; :data:`ORDER` is that of the log.

    Raises OptionError for a table that has no changes, a column that none of its changes has, or an empty key.
    """
    return history_of_row(capture, _checked(capture, table, key), key)


def _checked(capture: Any, table: str, key: Key) -> KnownTable:
    """The table of a row. Raises OptionError as :func:`history`."""
    known = find_table(known_tables(changes_of(capture, FACTS)), table)
    wrong = check_key(known, key)
    if wrong:
        raise OptionError("; ".join(wrong))
    return known


def check_key(known: KnownTable, key: Key) -> list[str]:
    """The errors of a key, one sentence each."""
    if not key:
        return ["key: expected column=value, found none"]
    hint = f"There are: {', '.join(known.columns)}."
    return [
        f"key: no change of {known.table!r} has a column {name!r}.{nearest(name, known.columns)} {hint}"
        for name in key
        if name not in known.columns
    ]


def history_of_row(capture: Any, known: KnownTable, key: Key, keys: Keyed | None = None) -> Rows:
    """:func:`history` of a row of a known table, with a checked key. ``keys`` are the key columns of tables whose
    changes have none."""
    names = tuple(key)
    narrow = changes_of(capture, FACTS, keys)
    moves = narrow.fold(partial(_moves, known.table, names), _first_moves)
    row = _ChangesOfRow(known.table, names, _legs(tuple(key.values()), moves))
    if known.truncates:
        row = replace(row, first=narrow.fold(row.first_order, _least))
    users = capture.rows("transactions", ("transaction_id", "user"))
    changes = changes_of(capture, CHANGES.names, keys).map(row, _HISTORY)
    return changes.with_column_of(users, ["transaction_id"], "user")


def _least(orders: Sequence[Order | None]) -> Order | None:
    return min((order for order in orders if order is not None), default=None)


def _orders(batch: pa.RecordBatch) -> list[Order]:
    """Where changes are in the log, as values that can be compared; without a position first."""
    columns = [batch[name].to_pylist() for name in ORDER]
    return [(position is not None, position or "", *rest) for position, *rest in zip(*columns, strict=True)]


def _moves(table: str, names: Sequence[str], batch: pa.RecordBatch) -> list[_Move]:
    """The updates of a batch that change one of some columns, unless they were taken back."""
    rows = of_table(batch, table)
    lasting = ~as_flags(pc.is_in(rows["outcome"], pa.array([str(outcome) for outcome in _TAKEN_BACK])))
    rows = rows.filter(pa.array(lasting & as_flags(pc.equal(rows["operation"], str(Operation.UPDATE)))))
    captured, moved, values = np.ones(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_), []
    before, after = Pairs(rows["before"]), Pairs(rows["after"])
    for name in names:
        (is_old, old), (is_new, new) = before.of_column(name), after.of_column(name)
        captured &= is_old & is_new
        moved |= differ(old, new)
        values.append((old, new))
    chosen = pa.array(captured & moved)
    old_values, new_values = (
        list(zip(*(pair[side].filter(chosen).to_pylist() for pair in values), strict=True)) for side in (0, 1)
    )
    return list(map(_Move, _orders(rows.filter(chosen)), old_values, new_values))


def _first_moves(parts: Sequence[list[_Move]]) -> list[_Move]:
    return sorted((move for part in parts for move in part), key=lambda move: move.order)[:_MOST_MOVES]


def _legs(key: Values, moves: Sequence[_Move]) -> list[_Leg]:
    """The keys that the row had, from the updates that changed a key of its table."""
    legs = [_Leg(key, None, None)]
    current = key
    for at, move in enumerate(moves):  # forwards: the key that the row got
        if move.old == current:
            current = move.new
            end = next((later.order for later in moves[at + 1 :] if later.old == current), None)
            legs.append(_Leg(current, move.order, end))
    current = key
    for at in range(len(moves) - 1, -1, -1):  # backwards: the key that it had before
        if moves[at].new == current:
            current = moves[at].old
            begin = next((earlier.order for earlier in reversed(moves[:at]) if earlier.new == current), None)
            legs.append(_Leg(current, begin, moves[at].order))
    return legs


@dataclass(frozen=True)
class _ChangesOfRow:
    """Takes the changes of the row from a batch: those of one of its keys while it had that, and TRUNCATEs that follow
    the change ``first``."""

    table: str
    names: Sequence[str]
    legs: Sequence[_Leg]
    first: Order | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._of_row(batch)
        names = ("operation", "changed_columns", "before", "after")
        changed = [_differences(*row) for row in zip(*(rows[name].to_pylist() for name in names), strict=True)]
        differences = pa.array(changed, _HISTORY.field("differences").type)
        return pa.RecordBatch.from_arrays([*rows.columns, differences], schema=_HISTORY)

    def first_order(self, batch: pa.RecordBatch) -> Order | None:
        """Where the first of the changes is in the log."""
        return min(_orders(self._of_row(batch)), default=None)

    def _of_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = of_table(batch, self.table)
        truncates = as_flags(pc.equal(rows["operation"], str(Operation.TRUNCATE))) & (self.first is not None)
        rows = rows.filter(pa.array(self._may_be_of_row(rows) | truncates))
        maps = [[dict(pairs or ()) for pairs in rows[image].to_pylist()] for image in IMAGES]
        found = []
        for order, operation, *images in zip(_orders(rows), rows["operation"].to_pylist(), *maps, strict=True):
            emptied = self.first is not None and operation == Operation.TRUNCATE and order > self.first
            found.append(emptied or any(self._is_in(leg, order, images) for leg in self.legs))
        return rows.filter(pa.array(found, pa.bool_()))

    def _may_be_of_row(self, rows: pa.RecordBatch) -> Bools:
        values = [(name, [leg.key[number] for leg in self.legs]) for number, name in enumerate(self.names)]
        found: Bools = np.logical_or.reduce([Pairs(rows[image]).have(values) for image in IMAGES])
        return found

    def _is_in(self, leg: _Leg, order: Order, images: Sequence[Mapping[str, str | None]]) -> bool:
        if (leg.begin is not None and order < leg.begin) or (leg.end is not None and order > leg.end):
            return False
        wanted = dict(zip(self.names, leg.key, strict=True)).items()
        return any(wanted <= image.items() for image in images)


def _differences(
    operation: str | None,
    changed: Sequence[str] | None,
    old: Sequence[tuple[str, str | None]] | None,
    new: Sequence[tuple[str, str | None]] | None,
) -> list[dict[str, Any]]:
    before, after = dict(old or ()), dict(new or ())
    if operation == Operation.UPDATE:
        names = list(after) if changed is None else changed
    else:
        names = list(after if new is not None else before)
    return [
        {"column": name, "old": before.get(name), "new": after.get(name), "old_known": name in before} for name in names
    ]


# --- one row on a page or on the command line -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The history of one row: its ``key``, the number of its ``changes``, and the first of them
    (:func:`records_of`). ``chosen``: no key was given, so this is the row with most changes."""

    key: Key
    changes: int
    shown: list[dict[str, Any]]
    chosen: bool = False

    @classmethod
    def find(cls, capture: Any, table: str, key: Key) -> RowHistory:
        """All changes of the row of a table (:func:`history`)."""
        return cls.of(capture, _checked(capture, table, key), key)

    @classmethod
    def of(
        cls,
        capture: Any,
        known: KnownTable,
        key: Key,
        keys: Keyed | None = None,
        most: int = sys.maxsize,
        chosen: bool = False,
    ) -> RowHistory:
        """The history of a row of a known table (:func:`history_of_row`)."""
        rows = history_of_row(capture, known, key, keys)
        first = rows.first([(name, "ascending") for name in ORDER], most)
        total = len(first) if len(first) < most else rows.fold(len, lambda parts: sum(parts, 0))
        return cls(key, total, records_of(first.to_pylist(), capture.files), chosen)


def busiest_key(changes: Rows, known: KnownTable) -> Key | None:
    """The key of the row with most changes (rows with :data:`FACTS`); None if no change has a key."""
    rows = changes.map(partial(_keys, known.table), _KEYED)
    counted = rows.by_key(["text"], [], partial(numbered, keys=["text"], name="number"), _NUMBERED)
    most = counted.first([("number", "descending"), ("text", "ascending")], 1).to_pylist()
    return dict(most[0]["key"]) if most else None


_KEYED: Final = pa.schema([("text", pa.string()), ("key", MAP)])
_NUMBERED: Final = _KEYED.append(pa.field("number", pa.int64()))


def _keys(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = of_table(batch, table)
    rows = rows.filter(rows["key"].is_valid())
    keys = Keys.of(rows)
    return pa.RecordBatch.from_arrays([keys.texts(keys.pairs.values), rows["key"].cast(MAP)], schema=_KEYED)


_COPIED: Final = (
    *("operation", "outcome", "position", "commit_position", "transaction_id", "user", "change_mask", "column_mask"),
    *("table_version", "changed_at", "committed_at"),
)


def records_of(changes: Iterable[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The changes of :func:`history` as records.

    ``table``, ``operation``, ``outcome`` (null if the source does not give it), ``position``, ``commit_position``,
    ``transaction_id``, ``user``, ``change_mask``, ``column_mask``, ``table_version``, ``changed_at``, ``committed_at``,
    ``at`` (the best of the two), ``taken_back``, ``differences`` (``column``, ``old``, ``new``, ``old_known``,
    ``told``: in words), ``image`` (the values of the row in the change, None if it deleted the row) and ``places``
    (``file``, ``offset``, ``length`` of every event). ``files`` are the capture's.
    """
    names = {int(file["file_index"]): str(file["file"]) for file in files}
    return [_record(row, names) for row in changes]


def _record(row: Mapping[str, Any], files: Mapping[int, str]) -> dict[str, Any]:
    events = row["source_events"] or [{name: row[name] for name in ("file_index", "offset", "length")}]
    differences = [dict(d) | {"told": difference_text(row["operation"], d)} for d in row["differences"] or ()]
    label = row["table_name"] if row["schema_name"] is None else f"{row['schema_name']}.{row['table_name']}"
    return {
        "table": label,
        **{name: row[name] for name in _COPIED},
        "at": row["changed_at"] or row["committed_at"],
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


def history_rows(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The changes of a row (:func:`records_of`) for a table on a page."""
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
            "old": _old_text(change["operation"], d),
            "new": None if change["operation"] in _DELETES else value_text(d["new"]),
            **{name: change["places"][0][name] for name in ("file", "offset")},
        }
        for change in changes
        for d in change["differences"]
    ]


def _old_text(operation: str | None, difference: Mapping[str, Any]) -> str | None:
    if operation in (Operation.INSERT, Operation.REFRESH):
        return None
    return value_text(difference["old"]) if difference["old_known"] else NOT_CAPTURED


def states(changes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], dict[str, str | None] | None]]:
    """The changes of a row (:func:`records_of`) that were not undone, each with the values of the row after it, as far
    as the changes up to it give them; None if the row was deleted."""
    row: dict[str, str | None] | None = None
    for change in changes:
        if not change["taken_back"]:
            values = row if row is not None and change["operation"] == Operation.UPDATE else {}
            row = None if change["image"] is None else {**values, **change["image"]}
            yield change, row


def state_rows(changes: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row after each change (:func:`states`), and its columns (name -> heading)."""
    held = list(states(changes))
    names = list(dict.fromkeys(name for _, row in held for name in row or ()))[:SHOWN_COLUMNS]
    rows = [
        {name: change[name] for name in ("at", "operation", "position")}
        | {f"c{n}": value_text(row[name]) if row and name in row else None for n, name in enumerate(names)}
        for change, row in held
    ]
    return rows, {f"c{n}": name for n, name in enumerate(names)}


def history_facts(row: RowHistory | None) -> dict[str, Any]:
    """Facts about the history of a row for scripts."""
    return {
        "history_key": None if row is None else key_text(row.key),
        "history_changes": None if row is None else row.changes,
    }


def ends_facts(row: RowHistory | None) -> dict[str, Any]:
    """Operation and time of the first and the last change of a row that was not undone, and the number of undone ones;
    null if they are not among the changes that are shown."""
    shown = [] if row is None else row.shown
    ends = [
        [change["operation"], change["at"] and change["at"].isoformat()] for change in shown if not change["taken_back"]
    ]
    complete = row is not None and row.changes == len(shown)
    return {
        "history_first": ends[0] if ends else None,
        "history_last": ends[-1] if ends and complete else None,
        "history_taken_back": len(shown) - len(ends) if complete else None,
    }


# --- words ------------------------------------------------------------------------------------------------------------

NOT_CAPTURED: Final = "not captured"
SHOWN_COLUMNS: Final = 14
"""The most columns of a row in a table on a page."""

_WORDS: Final[dict[str | None, str]] = {
    None: "outcome not known",
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.UNDONE: "undone by a rollback to a savepoint",
    Outcome.UNDO: "undoes another change",
    Outcome.OPEN: "open: no commit in the capture",
}


def outcome_words(outcome: str | None) -> str:
    """The outcome of a change in words."""
    return _WORDS.get(outcome, outcome or "")


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


def key_text(key: Key) -> str:
    """``id=42, other=x``."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in key.items())


def parse_key(text: str) -> dict[str, str | None]:
    """A key from a JSON object, or from ``id=42,other=x``. Raises ValueError, with a sentence, for other texts."""
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
