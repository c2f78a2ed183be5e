"""The decision on each row, from the row itself and from the other rows of its object (docs/formats/idm-event-log.md
§4.1, §4.2, §4.4, §4.5).

For precedence, rows are sorted by object and then in processing order. A group is a run of polled rows of one object
without a type 4 row or (unless the setting disables that) the end of a polling cycle between them; precedence applies
within a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.events import TypedLog, check, fatal
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.words import visible
from cdcwb.xds.document import Verb
from cdcwb.xds.rows import OWN, Bools, Decision, Ints, State, codes, flags, mapped, numbers, put, sentence
from cdcwb.xds.settings import LOG, Settings

_DONE: Final = {
    "S": "processed before",
    "W": "processed before, with a warning",
    "E": "processed before, with an error",
    "F": "processed before, with a fatal error",
}
_NOTHING: Final = "old_value and new_value are both NULL: there is nothing to write"


def own_decisions(rows: pa.Table, settings: Settings) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.OWN` to rows of :data:`cdcwb.xds.rows.ROWS`.

    Decided here: skipped, invalid, waiting, and no_effect of a type 2 row without values. The others are undecided
    (null); if their reason is not null, it is a remark that is appended to the later reason.
    """
    schema = pa.schema([*rows.schema, *OWN])
    parts = [_of_batch(batch, settings) for batch in rows.to_batches() if batch.num_rows]
    own = pa.Table.from_batches(parts, OWN)
    return pa.Table.from_arrays([*rows.columns, *own.columns], schema=schema)


def _of_batch(batch: pa.RecordBatch, settings: Settings) -> pa.RecordBatch:
    typed_log = TypedLog(batch.select(list(COLUMNS)))
    kind = numbers(typed_log.event_type, 0)
    status, user = batch["status"], batch["perpetrator"]
    repeated = flags(batch["repeated"])
    event_us = batch["event_us"]

    new = flags(pc.equal(status, "N"))
    nameless = flags(pc.is_null(typed_log.record_id))
    is_other_character = flags(pc.match_substring_regex(status, r"^[^N\s\pZ]\z"))  # printable, and not N
    skipped_by_status = ~new & ~(nameless & ~is_other_character)
    own_user = np.zeros(len(new), dtype=np.bool_)
    if settings.driver_user is not None and not settings.allow_loopback:
        own_user = flags(pc.equal(user, settings.driver_user)) & ~nameless
    skipped = skipped_by_status | own_user
    broken = fatal(typed_log) | repeated | nameless | flags(batch["undecoded"].is_valid())
    late = np.zeros(len(new), dtype=np.bool_)
    timeless = late
    if settings.future_events:
        timeless = flags(pc.is_null(event_us))
        if settings.as_of_us is not None:
            late = flags(pc.greater(event_us, settings.as_of_us))
    invalid = ~skipped & (broken | timeless)
    waiting = ~skipped & ~invalid & late
    polled = ~(skipped | invalid | waiting)
    valueless = flags(pc.is_null(batch["old_value"])) & flags(pc.is_null(batch["new_value"]))
    nothing = polled & (kind == 2) & valueless
    finished = new | flags(pc.is_in(status, pa.array(list(_DONE))))
    deletes = (kind == 4) & ~broken & ~timeless & ~late & finished

    decision = pa.nulls(batch.num_rows, pa.string())
    reason = _remarks(user, polled, settings)
    for rows, value in (
        (skipped, Decision.SKIPPED),
        (invalid, Decision.INVALID),
        (waiting, Decision.WAITING),
        (nothing, Decision.NO_EFFECT),
    ):
        decision = put(decision, rows, pa.scalar(str(value)))
    by_user = own_user & ~skipped_by_status
    loopback = f"perpetrator {_quoted(settings.driver_user)} is the driver's user (loopback)"
    reason = put(reason, by_user, pa.scalar(loopback))
    reason = put(reason, skipped_by_status, mapped(status.filter(pa.array(skipped_by_status)), _by_status))
    reason = put(reason, invalid, _why_invalid(batch, invalid, repeated, timeless))
    reason = put(reason, waiting, sentence("waiting until ", _moments(event_us.filter(pa.array(waiting)))))
    reason = put(reason, nothing, pa.scalar(_NOTHING))
    order_time = pc.fill_null(event_us, 0) if settings.future_events else pa.array(np.zeros(len(new), dtype=np.int64))
    verbs = pa.array([None, *(str(settings.verb_of(number)) for number in range(1, 9))], pa.string())
    columns = [typed_log.record_id, typed_log.event_type, verbs.take(pa.array(kind)), order_time, decision, reason]
    return pa.RecordBatch.from_arrays([*columns, pa.array(polled), pa.array(deletes)], schema=OWN)


def _moments(event_us: pa.Array) -> pa.Array:
    """Microseconds since 1970 UTC as ``2026-12-01T00:00:00Z``, with as many digits of the second as it has."""
    text = pc.cast(pc.cast(event_us, pa.timestamp("us")), pa.string())
    text = pc.replace_substring(text, " ", "T")
    return sentence(pc.replace_substring_regex(text, r"\.?0*$", ""), "Z") if len(text) else text


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{visible(text, 40)}'"


def _by_status(status: str | None) -> str:
    if status in _DONE:
        return f"status '{status}': {_DONE[status]}"
    if status is not None and status.strip() in ("N", "n"):
        return f"status {_quoted(status)} is not exactly 'N'"
    return f"status {'is NULL' if status is None else _quoted(status)}: only 'N' is processed"


def _remarks(user: pa.Array, polled: Bools, settings: Settings) -> pa.Array:
    """A remark if a published row's user differs from the driver's only in case."""
    driver = settings.driver_user
    if driver is None or settings.allow_loopback:
        return pa.nulls(len(user), pa.string())

    def remark(name: str | None) -> str | None:
        if name is None or name == driver or name.casefold() != driver.casefold():
            return None
        return f"perpetrator {_quoted(name)} differs from the driver's user {_quoted(driver)} in upper and lower case"

    return pc.if_else(pa.array(polled), mapped(user, remark), pa.scalar(None, pa.string()))


def _why_invalid(batch: pa.RecordBatch, invalid: Bools, repeated: Bools, timeless: Bools) -> pa.Array:
    """The errors of each invalid row, in sentences."""
    wrong: Ints = np.flatnonzero(invalid)
    chosen = batch.take(pa.array(wrong))
    sentences: list[list[str]] = [[] for _ in wrong]
    if len(wrong):
        for finding in check(TypedLog(chosen.select(list(COLUMNS)))):
            if finding.fatal:
                sentences[finding.row].append(finding.sentence)
    names = ("record_id", "event_time", "undecoded")
    for row, (record_id, time, undecoded) in enumerate(zip(*(chosen[name].to_pylist() for name in names), strict=True)):
        if repeated[wrong[row]]:
            sentences[row].append(f"record_id {visible(record_id, 40)} is in an earlier row already")
        if timeless[wrong[row]]:
            problem = "is NULL" if time is None else f"{_quoted(time)} cannot be read"
            sentences[row].append(f"event_time {problem}, and rows are ordered by it")
        sentences[row] += [undecoded] if undecoded is not None else []
    return pa.array(["; ".join(parts) for parts in sentences], pa.string())


OVER_ROW: Final = {5: (1, 7), 6: (2, 3, 8)}
"""Row query-back types, and the types of the same object that they override."""

OVER_FIELD: Final = {7: (1,), 8: (2, 3)}
"""Field query-back types, and the types of the same object and column that they override."""

_NONE: Final = -1


def between_rows(rows: pa.Table, settings: Settings) -> pa.Table:
    """Decides every row that :func:`~cdcwb.xds.decisions.own_decisions` left undecided, and adds ``overridden_by``
    (int64).

    ``rows`` has the columns of OWN, CYCLE and STATE, and all polled and deleting rows of each of its objects, in any
    order. Those that are published have the decision but not yet their reason.
    """
    chosen = np.flatnonzero(flags(rows["polled"]) | flags(rows["deletes"]))
    overrides = _overriding(rows.take(pa.array(chosen)) if len(chosen) < rows.num_rows else rows, settings)
    gone = _scattered(overrides.gone_by, chosen, rows.num_rows)
    over = _scattered(overrides.over_by, chosen, rows.num_rows)

    kind = numbers(rows["type"])
    state = numbers(rows["state"], _NONE)
    opened = np.asarray(pc.is_null(rows["decision"]).to_numpy()) & flags(rows["polled"])
    deleted = opened & (gone > 0)
    absent = opened & ~deleted & (state == State.ABSENT)
    replaced = opened & ~deleted & ~absent & (over > 0)
    left = opened & ~deleted & ~absent & ~replaced
    writes_nothing = np.isin(kind, [number for number in (5, 6, 7, 8) if settings.verb_of(number) == Verb.MODIFY])
    empty = left & (state == State.NO_ATTRIBUTE) & writes_nothing
    unfit = left & (state == State.CHARACTER)
    unknown = left & np.isin(state, (State.UNKNOWN, State.NO_KEY, State.NO_COLUMN))
    published = left & ~empty & ~unfit & ~unknown

    decision, reason = rows["decision"], rows["reason"]
    for where, value in (
        (deleted | absent | empty, Decision.NO_EFFECT),
        (replaced, Decision.OVERRIDDEN),
        (unfit, Decision.INVALID),
        (unknown, Decision.NEEDS_SNAPSHOT),
        (published, Decision.PUBLISHED),
    ):
        decision = put(decision, where, pa.scalar(str(value)))
    reason = put(reason, deleted, sentence("the object is gone: record ", _text(gone[deleted]), " deletes it later"))
    reason = put(reason, replaced, _why_replaced(over[replaced], overrides.over_field[_places(chosen, replaced)]))
    for where in (absent, empty, unfit, unknown):
        reason = put(reason, where, _why_by_state(rows.filter(pa.array(where)), state[where]))
    by = pa.array(over, mask=~replaced)
    rows = rows.set_column(rows.schema.get_field_index("decision"), "decision", decision)
    rows = rows.set_column(rows.schema.get_field_index("reason"), "reason", reason)
    return rows.append_column("overridden_by", by)


@dataclass(frozen=True, slots=True)
class _Found:
    """For each row the record_id of the delete that follows it, and of the overriding row (0: none); ``over_field``:
    the overriding row is a field query-back."""

    gone_by: Ints
    over_by: Ints
    over_field: Bools


def _overriding(rows: pa.Table, settings: Settings) -> _Found:
    number = numbers(rows["number"])
    group = codes(rows["table_name"], rows["table_key"])
    order = np.lexsort((number, numbers(rows["order_time"]), group))
    group, number = group[order], number[order]
    kind = numbers(rows["type"])[order]
    polled = flags(rows["polled"])[order]
    gone_by = np.where(polled & (kind >= 5), _next_delete(group, number, flags(rows["deletes"])[order]), 0)

    here = np.flatnonzero(polled)
    cycle = numbers(rows["cycle"])[order] if settings.precedence != LOG else np.zeros(len(order), dtype=np.int64)
    live = (kind >= 5) & (gone_by == 0) & (numbers(rows["state"], _NONE)[order] != State.ABSENT)
    column = codes(rows["column_name"])[order] + 1
    by, field = _overriders(group[here], cycle[here], kind[here], live[here], column[here])
    result = _Found(np.empty_like(gone_by), np.zeros_like(gone_by), np.zeros(len(order), dtype=np.bool_))
    result.gone_by[order] = gone_by
    result.over_by[order[here]] = np.where(by == _NONE, 0, number[here][by] if len(here) else 0)
    result.over_field[order[here]] = field
    return result


def _next_delete(group: Ints, number: Ints, deletes: Bools) -> Ints:
    """The record_id of the next deleting row of each row's object; 0 without one."""
    count = len(group)
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    at = np.where(deletes, np.arange(count), count)
    following = np.minimum.accumulate(at[::-1])[::-1]
    next_row = np.minimum(following, count - 1)
    deletes_after: Ints = np.where((following < count) & (group[next_row] == group), number[next_row], 0)
    return deletes_after


def _overriders(group: Ints, cycle: Ints, kind: Ints, live: Bools, column: Ints) -> tuple[Ints, Bools]:
    """For each polled row in order: the index of the first row that overrides it (-1: none), and whether that is a
    field query-back."""
    count = len(group)
    by = np.full(count, _NONE, dtype=np.int64)
    if count == 0:
        return by, np.zeros(0, dtype=np.bool_)
    starts = np.ones(count, dtype=np.bool_)
    starts[1:] = (group[1:] != group[:-1]) | (cycle[1:] != cycle[:-1]) | (kind[:-1] == 4)
    run = np.cumsum(starts) - 1
    width = int(column.max()) + 1
    for over, key, size in ((OVER_FIELD, run * width + column, None), (OVER_ROW, run, int(run[-1]) + 1)):
        for strong, weak in over.items():
            winners = np.flatnonzero(live & (kind == strong))
            losers = np.flatnonzero(np.isin(kind, weak))
            if len(winners) == 0 or len(losers) == 0:
                continue
            first = _first_of(key, winners, losers, size)
            by[losers] = np.where(first == _NONE, by[losers], first)
    return by, (by != _NONE) & (kind[by] >= 7)


def _first_of(key: Ints, winners: Ints, losers: Ints, size: int | None) -> Ints:
    """The first winner with the same key for each loser, or -1. ``size``: keys are below it, and few."""
    if size is not None:
        first = np.full(size, _NONE, dtype=np.int64)
        first[key[winners[::-1]]] = winners[::-1]
        winner: Ints = first[key[losers]]
        return winner
    keys, places = np.unique(key[winners], return_index=True)
    at = np.minimum(np.searchsorted(keys, key[losers]), len(keys) - 1)
    return np.where(keys[at] == key[losers], winners[places[at]], _NONE)


def _scattered(values: Ints, places: Ints, count: int) -> Ints:
    result = np.zeros(count, dtype=np.int64)
    result[places] = values
    return result


def _places(chosen: Ints, where: Bools) -> Ints:
    """The indexes among the chosen rows of those for which the mask is true."""
    return np.searchsorted(chosen, np.flatnonzero(where))


def _text(values: Ints) -> pa.Array:
    return pc.cast(pa.array(values), pa.string())


def _why_replaced(by: Ints, field: Bools) -> pa.Array:
    what = pa.array(["a row query-back of the same object", "a field query-back of the same column"])
    return sentence("overridden by record ", _text(by), ", ", what.take(pa.array(field.astype(np.int8))))


def _in_quotes(text: str | None) -> str:
    return "" if text is None else f"'{visible(text)}'"


def _why_by_state(rows: pa.Table, state: Ints) -> pa.Array:
    """The reason why each row is not published because of the snapshot."""
    table, column = (mapped(rows[name], _in_quotes) for name in ("table_name", "column_name"))
    per_row = np.isin(numbers(rows["type"]), (5, 6))
    reason = pa.nulls(len(state), pa.string())
    for number, texts in (
        (State.UNKNOWN, sentence("the values are in table ", table, " alone, and no snapshot of it is given")),
        (State.NO_KEY, sentence("the snapshot of table ", table, " does not have the columns of this table_key")),
        (State.NO_COLUMN, sentence("the snapshot of table ", table, " has no column ", column)),
        (State.ABSENT, sentence("the object is gone: the snapshot of table ", table, " has no such row")),
        (State.CHARACTER, sentence("a value in the snapshot of table ", table, " holds a character XML cannot hold")),
        (
            State.NO_ATTRIBUTE,
            pc.if_else(
                pa.array(per_row),
                sentence("table ", table, " has no column but its key: there is nothing to write"),
                sentence("column ", column, " is part of the key: there is nothing to write"),
            ),
        ),
    ):
        reason = pc.if_else(pa.array(state == number), texts, reason)
    return reason
