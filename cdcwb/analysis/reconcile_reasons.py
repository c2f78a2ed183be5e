"""The reasons why a change is in only one of two captures, from the other changes of its row and the times of both
captures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.value_comparison import Change, Matched, Rules, differing_columns
from cdcwb.dataset import total
from cdcwb.model import Completeness, Kind, Operation
from cdcwb.words import count, plural

__all__ = [
    "ABOUT",
    "Losses",
    "Reason",
    "Span",
    "changed_columns",
    "reason_words",
    "reasons",
    "tally_words",
]

_MOST: Final = 1_000  # unparsed byte ranges
_BYTES: Final = 65_536  # bytes of each that are searched for a key
_MOST_TRANSACTIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Losses:
    """The first ranges of ``unparsed`` bytes of a capture, and the ids of its ``transactions`` that lack events."""

    unparsed: tuple[bytes, ...] = ()
    transactions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, capture: Any) -> Losses:
        """The known losses of a capture."""
        unparsed: list[bytes | None] = []
        if capture.rows("events", ("kind",)).where(_is_malformed).fold(len, total):
            events = capture.rows("events", ("kind", "file_index", "offset", "raw"))
            first = events.map(_malformed, events.schema).first(
                [("file_index", "ascending"), ("offset", "ascending")], _MOST
            )
            unparsed = first["raw"].to_pylist()
        gaps = pa.array([str(Completeness.GAPS), str(Completeness.NO_BEGIN)])
        transactions = capture.rows("transactions", ("transaction_id", "completeness"))
        incomplete = transactions.where(lambda batch: pc.is_in(batch["completeness"], gaps))
        ids = incomplete.first([("transaction_id", "ascending")], _MOST_TRANSACTIONS)["transaction_id"].to_pylist()
        return cls(tuple(raw or b"" for raw in unparsed), frozenset(ids))

    def explain(self, change: Change) -> Reason | None:
        """Why a change that is in the other capture may be lost in this one."""
        words = [re.escape((value or "").encode()) for _, value in json.loads(change.place.get("key") or "[]")]
        patterns = [re.compile(rb"(?<![0-9A-Za-z])%b(?![0-9A-Za-z])" % word) for word in words]
        if all(words) and any(all(pattern.search(raw) for pattern in patterns) for raw in self.unparsed if words):
            return Reason.UNREADABLE
        return Reason.TRANSACTION_GAP if change.place.get("transaction") in self.transactions else None


def _is_malformed(batch: pa.RecordBatch) -> pa.Array:
    return pc.equal(batch["kind"], str(Kind.MALFORMED))


def _malformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = batch.filter(_is_malformed(batch))
    columns = [*rows.columns[:-1], pc.binary_slice(rows["raw"], 0, _BYTES)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


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
    Reason.UNREADABLE: "the other capture has unparsed bytes with the values of the key",
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
    words = {Reason.AFTER_END: f"after the end of the {other}", Reason.BEFORE_START: f"before the start of the {other}"}
    words[Reason.UNREADABLE] = f"unreadable in the {other}"
    return (_NOUNS | words).get(Reason(reason), reason.replace("_", " "))


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
    losses: tuple[Losses, Losses] = (Losses(), Losses()),
) -> list[Reason | None]:
    """The reason of each of the changes of one row that :func:`cdcwb.analysis.value_comparison.match` left alone, None
    for pairs.

    - no-op update: it changes nothing, according to its list of changed columns, else to the values of the row before;
    - duplicate: the same capture has an equal change of the row: at the same position, or the row already had the
      values after it, or did not have the values before it;
    - late, out of order: the other capture has the same change, at another position among those of the row; late if
      it is later than ``rules.late_after``;
    - different value: the other capture has a change of the row with the same operation at the same position or time;
    - unreadable: the other capture has unparsed bytes with the values of the key (``losses``: of source and target);
    - transaction gap: the other capture has the transaction of the change, and events of it are missing;
    - after the end, before the start: of all changes in the other capture, by time (``spans``: of source and target).
    """
    results: list[Reason | None] = [None] * len(pairs)
    alone: tuple[dict[int, Change], dict[int, Change]] = {}, {}
    for n, (source, target) in enumerate((pair.source, pair.target) for pair in pairs):
        if source is None and target is not None:
            alone[1][n] = target
        elif source is not None and target is None:
            alone[0][n] = source
    for side in (0, 1) if any(alone) else ():
        changes = [(n, change) for n, pair in enumerate(pairs) if (change := (pair.source, pair.target)[side])]
        steps = _steps(changes)
        repeated = {step.repeats for step in steps if step.number not in alone[side]}
        for at, step in enumerate(steps):
            if step.number in alone[side]:
                is_twice = step.repeats is not None or at in repeated
                results[step.number] = step.idle or (Reason.DUPLICATE if is_twice else None)
    sources, targets = ({n: change for n, change in some.items() if results[n] is None} for some in alone)
    if len(sources) * len(targets) <= _MOST_PAIRS:
        for equal, n, m in product((True, False), sources, targets):
            if results[n] is None and results[m] is None:
                results[n] = results[m] = _counterpart(sources[n], targets[m], equal, table, rules)
    for side, changes_alone in enumerate((sources, targets)):
        for n, change in changes_alone.items():
            if results[n] is None:
                results[n] = losses[1 - side].explain(change) or _by_time(change.time, spans[1 - side])
    return results


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


def _by_time(time: int | None, other: Span) -> Reason:
    first, last = other
    if time is not None and last is not None and time > last:
        return Reason.AFTER_END
    if time is not None and first is not None and time < first:
        return Reason.BEFORE_START
    return Reason.UNEXPLAINED
