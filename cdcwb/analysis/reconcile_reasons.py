"""The reasons why a change is in only one of two captures, from the other changes of its row and the times of both
captures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.images import labels, times
from cdcwb.analysis.value_comparison import Change, Matched, Rules, differing_columns
from cdcwb.model import Completeness, Kind, Operation
from cdcwb.words import count, plural

__all__ = [
    "ABOUT",
    "NOTHING",
    "Losses",
    "Reason",
    "Span",
    "Unreadable",
    "changed_columns",
    "losses_of",
    "reason_words",
    "reasons",
    "tally_words",
]

_MOST: Final = 1_000  # unparsed byte ranges
_BYTES: Final = 65_536  # bytes of each that are searched for a key
_MOST_TRANSACTIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A range of unparsed bytes of a capture: the ``tables`` of the changes in its file, the times of the preceding and
    the following change there, in microseconds (None: there is none), and the bytes."""

    tables: frozenset[str]
    after: int | None
    before: int | None
    raw: bytes

    def may_hold(self, table: str, time: int | None, key: Sequence[str | None]) -> bool:
        """Whether the range may contain a change: it is in a file with changes of the table, between two changes by
        time. Without a preceding or following change, the values of the key have to be among the bytes as well."""
        if table not in self.tables or time is None:
            return False
        if not (self.after is None or self.after <= time) or not (self.before is None or time <= self.before):
            return False
        return None not in (self.after, self.before) or _has_all(self.raw, key)


@dataclass(frozen=True, slots=True)
class Losses:
    """The unparsed byte ranges of a capture, and the ids of the transactions with missing events."""

    unreadable: tuple[Unreadable, ...] = ()
    transactions: frozenset[str] = frozenset()


NOTHING: Final = Losses()


def _has_all(raw: bytes, key: Sequence[str | None]) -> bool:
    """Whether each value of a key is in the bytes as a separate word."""
    words = [re.escape((value or "").encode()) for value in key]
    return bool(words) and all(word and re.search(rb"(?<![0-9A-Za-z])%b(?![0-9A-Za-z])" % word, raw) for word in words)


def losses_of(capture: Any, names: Mapping[str, str] | None = None) -> Losses:
    """The known losses of a capture. ``names`` maps the names of tables that differ."""
    gaps = pa.array([str(Completeness.GAPS), str(Completeness.NO_BEGIN)])
    transactions = capture.rows("transactions", ("transaction_id", "completeness"))
    incomplete = transactions.where(lambda batch: pc.is_in(batch["completeness"], gaps))
    ids = incomplete.first([("transaction_id", "ascending")], _MOST_TRANSACTIONS)["transaction_id"].to_pylist()
    return Losses(tuple(_unreadable(capture, names or {})), frozenset(ids))


Location = tuple[int, int]
Near = tuple[int, int] | None
"""The offset and the time of the change that is nearest to a location."""

_LOCATED: Final = ("schema_name", "table_name", "file_index", "offset", "committed_at", "changed_at")


def _unreadable(capture: Any, names: Mapping[str, str]) -> list[Unreadable]:
    kinds = capture.rows("events", ("kind", "file_index"))
    if not kinds.fold(lambda batch: _malformed(batch).num_rows, lambda parts: sum(parts, 0)):
        return []
    raw = capture.rows("events", ("kind", "file_index", "offset", "raw"))
    first = raw.map(_malformed, raw.schema).first([("file_index", "ascending"), ("offset", "ascending")], _MOST)
    locations = list(zip(first["file_index"].to_pylist(), first["offset"].to_pylist(), strict=True))
    tables, near = capture.rows("changes", _LOCATED).fold(partial(_neighbours, locations), _nearest)
    ranges = []
    for location, value in zip(locations, first["raw"].to_pylist(), strict=True):
        of_file = frozenset(names.get(table, table) for file, table in tables if file == location[0])
        before, after = near.get(location, (None, None))
        ranges.append(Unreadable(of_file, before and before[1], after and after[1], value or b""))
    return ranges


def _malformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = batch.filter(pc.equal(batch["kind"], str(Kind.MALFORMED)))
    if "raw" not in rows.schema.names:
        return rows
    at = rows.schema.get_field_index("raw")
    return rows.set_column(at, rows.schema.field("raw"), pc.binary_slice(rows["raw"], 0, _BYTES))


def _neighbours(
    locations: Sequence[Location], batch: pa.RecordBatch
) -> tuple[set[tuple[int, str]], dict[Location, tuple[Near, Near]]]:
    """The tables of the files of some locations, and for each location the last change before it and the first after it
    that have a time."""
    rows = batch.filter(pc.is_in(batch["file_index"], pa.array([file for file, _ in locations], pa.int32())))
    tables = set(zip(rows["file_index"].to_pylist(), pc.fill_null(labels(rows), "").to_pylist(), strict=True))
    rows = rows.append_column("at", times(rows).cast(pa.int64()))
    rows = rows.filter(rows["at"].is_valid()).sort_by([("file_index", "ascending"), ("offset", "ascending")])
    files, offsets, at = (np.asarray(rows[name]) for name in ("file_index", "offset", "at"))
    near: dict[Location, tuple[Near, Near]] = {}
    for file, offset in locations:
        begin, end = np.searchsorted(files, file), np.searchsorted(files, file, side="right")
        before = begin + np.searchsorted(offsets[begin:end], offset)
        after = begin + np.searchsorted(offsets[begin:end], offset, side="right")
        near[file, offset] = (
            (int(offsets[before - 1]), int(at[before - 1])) if before > begin else None,
            (int(offsets[after]), int(at[after])) if after < end else None,
        )
    return tables, near


def _nearest(
    parts: Sequence[tuple[set[tuple[int, str]], dict[Location, tuple[Near, Near]]]],
) -> tuple[set[tuple[int, str]], dict[Location, tuple[Near, Near]]]:
    near: dict[Location, tuple[Near, Near]] = {}
    for _, found in parts:
        for location, sides in found.items():
            before, after = zip(near.get(location, (None, None)), sides, strict=True)
            known = [[change for change in side if change is not None] for side in (before, after)]
            near[location] = max(known[0], default=None), min(known[1], default=None)
    return set().union(*(tables for tables, _ in parts)), near


Span = tuple[int | None, int | None]
"""The first and the last time of a capture, in microseconds (None: unknown)."""

_MOST_PAIRS: Final = 250_000  # pairs of changes of one row that are compared


class Reason(StrEnum):
    """Why a change is missing or extra. The first reason that applies is used."""

    NO_OP_UPDATE = "no_op_update"
    DUPLICATE = "duplicate"
    LATE = "late"
    OUT_OF_ORDER = "out_of_order"
    DIFFERENT_VALUE = "different_value"
    UNREADABLE = "unreadable"
    TRANSACTION_GAP = "transaction_gap"
    AFTER_END = "after_end"
    BEFORE_START = "before_start"
    UNEXPLAINED = "unexplained"


ABOUT: Final[dict[Reason, str]] = {
    Reason.NO_OP_UPDATE: "an update that changes nothing",
    Reason.DUPLICATE: "the same change of the row is in the same capture again",
    Reason.LATE: "the other capture has it after other changes of the row, by more than late_after",
    Reason.OUT_OF_ORDER: "the other capture has it before or after other changes of the row",
    Reason.DIFFERENT_VALUE: "the other capture has other values at the same position or time",
    Reason.UNREADABLE: "the other capture has unreadable bytes where the change belongs",
    Reason.TRANSACTION_GAP: "the other capture has its transaction, but not all events of it",
    Reason.AFTER_END: "later than the last change of the other capture",
    Reason.BEFORE_START: "earlier than the first change of the other capture",
    Reason.UNEXPLAINED: "nothing in the two captures shows why",
}
"""The meaning of each reason."""

_NOUNS: Final = {
    Reason.NO_OP_UPDATE: "no-op update",
    Reason.DUPLICATE: "duplicate",
    Reason.DIFFERENT_VALUE: "different value",
    Reason.TRANSACTION_GAP: "transaction gap",
}


def reason_words(reason: str, what: str) -> str:
    """A readable reason; ``what`` is ``missing`` or ``extra``."""
    other = "target" if what == "missing" else "source"
    words = {Reason.UNREADABLE: f"unreadable in the {other}", Reason.AFTER_END: f"after the end of the {other}"}
    words |= {Reason.BEFORE_START: f"before the start of the {other}", **_NOUNS}
    return words.get(Reason(reason), reason.replace("_", " "))


def tally_words(counts: Mapping[str, int], what: str) -> str:
    """``7 no-op updates, 1 duplicate``: the number of missing or extra changes for each reason, most first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = ((number, name in list(_NOUNS), reason_words(name, what)) for name, number in most_first)
    return ", ".join(plural(number, text) if noun else f"{count(number)} {text}" for number, noun, text in words)


def changed_columns(change: Change) -> list[dict[str, Any]]:
    """The columns that a change sets: ``column``, ``old``, ``new``, ``old_known`` (false: not captured). For an update
    the columns that it changes, if known; for a delete none."""
    if change.operation == Operation.DELETE:
        return []
    names = change.place.get("changed")
    was = change.place.get("was") or {}
    return [
        {"column": name, "old": was.get(name), "new": change.image.get(name), "old_known": name in was}
        for name in (change.image if names is None else names)
    ]


def reasons(
    pairs: Sequence[Matched],
    table: str,
    rules: Rules,
    spans: tuple[Span, Span],
    losses: tuple[Losses, Losses] = (NOTHING, NOTHING),
) -> list[Reason | None]:
    """The reason of each of the changes of one row that :func:`cdcwb.analysis.value_comparison.match` left alone, None
    for pairs.

    - no-op update: it changes nothing, according to its list of changed columns, else to the values of the row before;
    - duplicate: the same capture has an equal change of the row: at the same position, or the row already had the
      values after it, or did not have the values before it;
    - late, out of order: the other capture has the same change, at another position among those of the row; late if
      it is later than ``rules.late_after``;
    - different value: the other capture has a change of the row with the same operation at the same position or time;
    - unreadable: the other capture has unreadable bytes where the change belongs (``losses``: of source and target);
    - transaction gap: the other capture has the transaction of the change, and events of it are missing;
    - after the end, before the start: of all changes in the other capture, by time (``spans``: of source and target).
    """
    results: list[Reason | None] = [None] * len(pairs)
    alone = [n for n, pair in enumerate(pairs) if pair.source is None or pair.target is None]
    if not alone:
        return results
    for side in (0, 1):
        steps = _steps([(n, change) for n, pair in enumerate(pairs) if (change := _side(pair, side)) is not None])
        matched = {at for at, step in enumerate(steps) if _side(pairs[step.number], 1 - side) is not None}
        repeated = {steps[at].repeats for at in matched}
        for at, step in enumerate(steps):
            if at not in matched:
                is_twice = step.repeats is not None or at in repeated
                results[step.number] = step.idle or (Reason.DUPLICATE if is_twice else None)
    left = [n for n in alone if results[n] is None]
    sources, targets = ([n for n in left if _side(pairs[n], side) is not None] for side in (0, 1))
    if len(sources) * len(targets) <= _MOST_PAIRS:
        _of_other(pairs, sources, targets, results, table, rules)
    for n in left:
        if results[n] is None:
            side = 0 if pairs[n].source is not None else 1
            change = _side(pairs[n], side)
            lost = None if change is None else _by_loss(change, table, losses[1 - side])
            results[n] = lost or _by_time(None if change is None else change.time, spans[1 - side])
    return results


def _side(pair: Matched, side: int) -> Change | None:
    return pair.source if side == 0 else pair.target


class _Step(NamedTuple):
    """A change of a row in one capture: the number of its pair, the reason if it changes nothing, and the earlier step
    of which it is a duplicate."""

    number: int
    idle: Reason | None
    repeats: int | None


def _steps(changes: Sequence[tuple[int, Change]]) -> list[_Step]:
    """The steps of the changes of a row in one capture, in order."""
    steps: list[_Step] = []
    earlier: dict[str, int] = {}
    row: Mapping[str, str | None] | None = {}  # known values of the row; None: it does not exist
    for at, (number, change) in enumerate(changes):
        image, was = change.image, change.place.get("was")
        content = json.dumps([change.operation, image, was], sort_keys=True)
        is_idle, again = False, None
        if change.operation == Operation.DELETE:
            again, row = row is None, None
        elif change.operation == Operation.INSERT:
            again, row = bool(row), image
        else:
            names = change.place.get("changed")
            known = row or {}
            is_idle = not names if names is not None else bool(image) and image.items() <= known.items()
            if was and was.keys() <= known.keys():
                again = not was.items() <= known.items()
            row = {**known, **image}
        twin = earlier.get(content)
        before = steps[-1].repeats if steps else None
        repeats = None
        if before is not None and twin is not None and twin == before + 1:
            repeats = twin  # the next change of a repeated part of the log
        elif twin is not None and _is_again(change, changes[twin][1], again):
            repeats = twin
        is_idle = is_idle and (repeats is None or change.place.get("changed") is not None)
        steps.append(_Step(number, Reason.NO_OP_UPDATE if is_idle else None, repeats))
        earlier[content] = at
    return steps


def _is_again(change: Change, twin: Change, again: bool | None) -> bool:
    """Whether a change repeats an earlier one with the same content. ``again``: whether the row already had the values
    after the change, or did not have those before it (None: unknown)."""
    position = change.place.get("position")
    if position is not None and position == twin.place.get("position"):
        return True
    return again or (again is None and change.time is not None and change.time == twin.time)


def _of_other(
    pairs: Sequence[Matched],
    sources: Sequence[int],
    targets: Sequence[int],
    results: list[Reason | None],
    table: str,
    rules: Rules,
) -> None:
    """Adds the reasons to ``results`` that follow from changes of the other capture."""
    for equal, n, m in product((True, False), sources, targets):
        first, other = pairs[n].source, pairs[m].target
        if results[n] is None and results[m] is None and first is not None and other is not None:
            results[n] = results[m] = _counterpart(first, other, equal, table, rules)


def _counterpart(first: Change, other: Change, equal: bool, table: str, rules: Rules) -> Reason | None:
    if first.operation != other.operation:
        return None
    times = first.time, other.time
    if equal:
        delay = None if first.time is None or other.time is None else other.time - first.time
        is_other = bool(differing_columns(first, other, table, rules))
        return None if is_other else Reason.LATE if rules.is_late(delay) else Reason.OUT_OF_ORDER
    positions = first.place.get("position"), other.place.get("position")
    same = any(one is not None and one == two for one, two in (positions, times))
    return Reason.DIFFERENT_VALUE if same else None


def _by_loss(change: Change, table: str, losses: Losses) -> Reason | None:
    key = [value for _, value in json.loads(change.place.get("key") or "[]")]
    if any(damaged.may_hold(table, change.time, key) for damaged in losses.unreadable):
        return Reason.UNREADABLE
    return Reason.TRANSACTION_GAP if change.place.get("transaction") in losses.transactions else None


def _by_time(time: int | None, other: Span) -> Reason:
    first, last = other
    if time is not None and last is not None and time > last:
        return Reason.AFTER_END
    if time is not None and first is not None and time < first:
        return Reason.BEFORE_START
    return Reason.UNEXPLAINED
