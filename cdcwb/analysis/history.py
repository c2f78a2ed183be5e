"""Row history: all changes of one row in order, also under the keys that it had before and after."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import or_
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import IMAGES, MAP, TAKEN_BACK, Keys, are_lasting, with_image
from cdcwb.analysis.keys import (
    FACTS,
    FIRST,
    LAST,
    Keyed,
    KnownTable,
    Move,
    Order,
    changes_of,
    find_table,
    known_of,
    orders,
    tenures,
)
from cdcwb.dataset import Rows, differ, total
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags
from cdcwb.formats.options import nearest
from cdcwb.index.images import Pairs
from cdcwb.model import CHANGES, Operation, Outcome
from cdcwb.words import count

ORDER: Final = ("position", "file_index", "offset")
"""The columns that order the changes of a row as in the log; null first."""

CHANGED: Final = pa.struct([*((name, pa.string()) for name in ("column", "old", "new")), ("old_known", pa.bool_())])
"""What a change did to a column; ``old_known`` is false if the old value was not captured."""

_HISTORY: Final = CHANGES.remove_metadata().append(pa.field("differences", pa.list_(CHANGED)))
_MOST_MOVES: Final = 10_000  # most updates of keys of a table that are examined
_DELETES: Final = (Operation.DELETE, Operation.TRUNCATE)

Key = Mapping[str, str | None]
Values = tuple[str | None, ...]


def history(capture: Any, table: str | KnownTable, key: Key, keys: Keyed | None = None) -> Rows:
    """Every change of the row of ``table`` (``schema.table``, or ``table``) whose columns have the values ``key``
    (None: NULL). ``capture`` is anything with the rows of a capture (:meth:`cdcwb.Capture.rows`). ``keys`` are the key
    columns of tables whose changes have none.

    A row whose key was changed is followed under its other keys, from the change that set each key to the one that
    replaced it; a change of the key that was rolled back is shown and not followed. TRUNCATEs of the table that follow
    the first change of the row are included, unless they were rolled back.

    Columns: those of ``changes``, ``differences``: a list of ``column``, ``old``, ``new`` and ``old_known`` (false: the
    old value was not captured), of the columns that an update changed, or of all columns that an inserted or deleted
    row has, and ``user`` (of the transaction). In any order; :data:`ORDER` is that of the log.

    Raises OptionError for a table that has no changes, a column that none of its changes has, or an empty key.
    """
    known = table
    if isinstance(known, str):
        known = find_table(known_of(capture).tables, known)
        if wrong := check_key(known, key):
            raise OptionError("; ".join(wrong))
    narrow = changes_of(capture, FACTS, keys, known.table)
    moves = narrow.fold(partial(_moves, tuple(key)), _first_moves)
    row = _ChangesOfRow(tuple(key), _when(tuple(key.values()), moves))
    if known.truncates:
        row = replace(row, first=narrow.fold(row.first_order, lambda firsts: min(firsts, default=LAST)))
    users = capture.rows("transactions", ("transaction_id", "user"))
    changes = changes_of(capture, CHANGES.names, keys, known.table).map(row, _HISTORY)
    return changes.with_column_of(users, ["transaction_id"], "user")


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


def _moves(names: Sequence[str], batch: pa.RecordBatch) -> list[Move]:
    """The updates of a batch that change one of some columns, unless they were taken back."""
    rows = batch.filter(pc.and_(are_lasting(batch), pc.equal(batch["operation"], str(Operation.UPDATE))))
    before, after = ([Pairs(rows[image]).of_column(name) for name in names] for image in IMAGES[1:])
    captured = np.logical_and.reduce([has for has, _ in (*before, *after)])
    moved = np.logical_or.reduce([differ(old, new) for (_, old), (_, new) in zip(before, after, strict=True)])
    changes = pa.array(captured & moved)
    sides = (list(zip(*(one.filter(changes).to_pylist() for _, one in side), strict=True)) for side in (before, after))
    return list(map(Move, orders(rows.filter(changes), ORDER), *sides))


def _first_moves(parts: Sequence[list[Move]]) -> list[Move]:
    return sorted((move for part in parts for move in part), key=lambda move: move.order)[:_MOST_MOVES]


def _when(key: Values, moves: Sequence[Move]) -> dict[Values, list[tuple[Order, Order]]]:
    """The keys of the rows that had a key, and when each was one of theirs."""
    every = tenures(moves)
    rows = {id(tenure.row): tenure.row for tenure in every.get(key, ())}
    when: dict[Values, list[tuple[Order, Order]]] = {} if rows else {key: [(FIRST, LAST)]}
    for tenure in (tenure for row in rows.values() for tenure in row):
        when.setdefault(tenure.key, []).append((tenure.begin, tenure.end))
    return when


@dataclass(frozen=True)
class _ChangesOfRow:
    """Takes the changes of the row from changes of its table: those under one of its keys (of the columns ``names``)
    while it had that, and TRUNCATEs that follow the change ``first``."""

    names: Sequence[str]
    when: Mapping[Values, Sequence[tuple[Order, Order]]]
    first: Order = LAST

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._of_row(batch)
        names = ("operation", "changed_columns", "before", "after")
        changed = [_differences(*row) for row in zip(*(rows[name].to_pylist() for name in names), strict=True)]
        differences = pa.array(changed, _HISTORY.field("differences").type)
        return pa.RecordBatch.from_arrays([*rows.columns, differences], schema=_HISTORY)

    def first_order(self, batch: pa.RecordBatch) -> Order:
        """Where the first of the changes is in the log."""
        return min(orders(self._of_row(batch), ORDER), default=LAST)

    def _of_row(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        values = [(name, [key[number] for key in self.when]) for number, name in enumerate(self.names)]
        candidates = as_flags(pc.and_(pc.equal(rows["operation"], str(Operation.TRUNCATE)), are_lasting(rows)))
        candidates |= np.logical_or.reduce([Pairs(rows[image]).have(values) for image in IMAGES])
        rows = rows.filter(pa.array(candidates))
        images = zip(*(rows[image].to_pylist() for image in IMAGES), strict=True)
        found = [
            any(begin < order <= end for begin, end in self._when_had(before))
            or any(begin <= order < end for image in (key, after) for begin, end in self._when_had(image))
            or (operation == Operation.TRUNCATE and order > self.first)
            for order, operation, (key, before, after) in zip(
                orders(rows, ORDER), rows["operation"].to_pylist(), images, strict=True
            )
        ]
        return rows.filter(pa.array(found, pa.bool_()))

    def _when_had(self, image: Sequence[tuple[str, str | None]] | None) -> Sequence[tuple[Order, Order]]:
        values: dict[str, Any] = dict(image or ())
        return self.when.get(tuple(values.get(name, ...) for name in self.names), ())


def _differences(
    operation: str | None,
    changed: Sequence[str] | None,
    old: Sequence[tuple[str, str | None]] | None,
    new: Sequence[tuple[str, str | None]] | None,
) -> list[dict[str, Any]]:
    before, after = dict(old or ()), dict(new or ())
    names = list(before if new is None else after)
    if operation == Operation.UPDATE:
        names = list(after) if changed is None else list(changed)
    return [
        {"column": name, "old": before.get(name), "new": after.get(name), "old_known": name in before} for name in names
    ]


# --- one row on a page or on the command line -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The history of one row: its ``key``, the number of its ``changes``, and the first of them. ``chosen``: no key was
    given, so this is the row with most changes.

    ``shown``: ``table``, ``operation``, ``outcome`` (null if the source does not give it), ``position``,
    ``commit_position``, ``transaction_id``, ``user``, ``change_mask``, ``column_mask``, ``table_version``,
    ``changed_at``, ``committed_at``, ``at`` (the best of the two), ``taken_back``, ``differences`` (``column``,
    ``old``, ``new``, ``old_known``, ``told``: in words), ``image`` (the values of the row in the change, None if it
    deleted the row) and ``places`` (``file``, ``offset``, ``length`` of every event).
    """

    key: Key
    changes: int
    shown: list[dict[str, Any]]
    chosen: bool = False

    @classmethod
    def of(
        cls,
        capture: Any,
        table: str | KnownTable,
        key: Key,
        keys: Keyed | None = None,
        most: int = sys.maxsize,
        chosen: bool = False,
    ) -> RowHistory:
        """The first changes of a row (:func:`history`), at most so many."""
        rows = history(capture, table, key, keys)
        first = rows.first(ORDER, most)
        changes = len(first) if len(first) < most else rows.fold(len, total)
        files = {int(file["file_index"]): str(file["file"]) for file in capture.files}
        return cls(key, changes, [_record(row, files) for row in first.to_pylist()], chosen)


def busiest_key(changes: Rows) -> Key | None:
    """The key of the row with most changes, from those of a table (rows with :data:`FACTS`); None if no change has a
    key."""

    def keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.filter(batch["key"].is_valid())
        keys = Keys.of(rows)
        return pa.RecordBatch.from_arrays([keys.texts(keys.pairs.values), rows["key"].cast(MAP)], schema=schema)

    schema = pa.schema([("text", pa.string()), ("key", MAP)])
    numbered = changes.map(keyed, schema).numbered(["text"], "number")
    most = numbered.first([("number", "descending"), "text"], 1).to_pylist()
    return dict(most[0]["key"]) if most else None


_COPIED: Final = (
    *("operation", "outcome", "position", "commit_position", "transaction_id", "user", "change_mask", "column_mask"),
    *("table_version", "changed_at", "committed_at"),
)


def _record(row: Mapping[str, Any], files: Mapping[int, str]) -> dict[str, Any]:
    events = row["source_events"] or [row]
    return {
        "table": row["table_name"] if row["schema_name"] is None else f"{row['schema_name']}.{row['table_name']}",
        **{name: row[name] for name in _COPIED},
        "at": row["changed_at"] or row["committed_at"],
        "taken_back": row["outcome"] in TAKEN_BACK,
        "differences": [one | {"told": difference_text(row["operation"], one)} for one in row["differences"] or ()],
        "image": None if row["operation"] in _DELETES else {**dict(row["before"] or ()), **dict(row["after"] or ())},
        "places": [
            {"file": files.get(event["file_index"], row["file"]), "offset": event["offset"], "length": event["length"]}
            for event in events
        ],
    }


def history_rows(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The changes of a row for a table on a page."""
    names = ("at", "operation", "transaction_id", "user", "change_mask", "position", "record", "file", "offset")
    return [
        {
            **{name: change[name] for name in names if name in change},
            "version_code": change["table_version"],
            "outcome": outcome_words(change["outcome"]),
            "sentence": "; ".join(f"{d['column']}: {d['told']}" for d in change["differences"]),
            "places": [f"{event['file'].rpartition('/')[2]}, {count(event['offset'])}" for event in change["places"]],
        }
        for change in changes
    ]


def value_rows(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The columns of each change of a row, one by one, with the ``old`` and the ``new`` value."""
    rows = []
    for change in changes:
        operation, (place, *_) = change["operation"], change["places"]
        about = {name: change[name] for name in ("at", "operation", "transaction_id", "position")}
        about |= {"outcome": outcome_words(change["outcome"]), "file": place["file"], "offset": place["offset"]}
        is_new, is_gone = operation in (Operation.INSERT, Operation.REFRESH), operation in _DELETES
        for d in change["differences"]:
            old = value_text(d["old"]) if d["old_known"] else NOT_CAPTURED
            values = {"old": None if is_new else old, "new": None if is_gone else value_text(d["new"])}
            rows.append(about | {"column": d["column"]} | values)
    return rows


def states(changes: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], dict[str, str | None] | None]]:
    """The changes of a row that were not undone, each with the values of the row after it, as far as the changes up to
    it give them; None if the row was deleted."""
    row: dict[str, str | None] | None = None
    after = []
    for change in changes:
        if not change["taken_back"]:
            image, is_update = change["image"], change["operation"] == Operation.UPDATE
            row = None if image is None else with_image(row or {}, image, is_update)
            after.append((change, row))
    return after


def state_rows(changes: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row after each change (:func:`states`), and its columns (name -> heading)."""
    after = states(changes)
    cells, columns = shown_cells([row for _, row in after], (name for _, row in after for name in row or ()))
    about = [{name: change[name] for name in ("at", "operation", "position")} for change, _ in after]
    return list(map(or_, about, cells)), columns


def shown_cells(images: Sequence[Key | None], names: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Images as cells of a table on a page, and the columns of this (name -> heading): the first of some names."""
    columns = {f"c{n}": name for n, name in enumerate(list(dict.fromkeys(names))[:SHOWN_COLUMNS])}
    cells = [
        {cell: value_text(image[name]) if image and name in image else None for cell, name in columns.items()}
        for image in images
    ]
    return cells, columns


def history_facts(row: RowHistory | None) -> dict[str, Any]:
    """Facts about the history of a row for scripts."""
    return {"history_key": row and key_text(row.key), "history_changes": row and row.changes}


def ends_facts(row: RowHistory | None) -> dict[str, Any]:
    """Operation and time of the first and the last change of a row that was not undone, and the number of undone ones;
    null if they are not among the changes that are shown."""
    shown = [] if row is None else row.shown
    lasting = [change for change in shown if not change["taken_back"]]
    ends = [[change["operation"], change["at"] and change["at"].isoformat()] for change in lasting]
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
    new = value_text(difference["new"])
    return f"{old} -> {new}" if operation == Operation.UPDATE else old if operation == Operation.DELETE else new


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
    wrong = f"key: expected a JSON object or column=value, found {text!r}"
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text, parse_float=str, parse_int=str)
        except ValueError as error:
            raise ValueError(f"{wrong} ({error})") from None
        return {
            name: None if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
            for name, value in content.items()
        }
    pairs = [part.partition("=") for part in text.split(",")]
    key: dict[str, str | None] = {name.strip(): value for name, sign, value in pairs if sign and name.strip()}
    if len(key) < len(pairs):  # also where a column has two values
        raise ValueError(wrong)
    return key
