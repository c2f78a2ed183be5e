"""What a row of the event log says of itself: is it selected, can it be published, and when
(docs/formats/idm-event-log.md §4.1, §4.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.decode.keys import parse_column
from cdcwb.formats.idm_event_log.events import check, fatal, typed
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.words import visible
from cdcwb.xds.rows import OWN, Decision
from cdcwb.xds.settings import Settings
from cdcwb.xds.vectors import Bools, Ints, numbers, put, said_of, sentence

__all__ = ["moments_text", "own_decisions"]

_DONE: Final = {
    "S": "processed before",
    "W": "processed before, with a warning",
    "E": "processed before, with an error",
    "F": "processed before, with a fatal error",
}
_NOTHING: Final = "old_value and new_value are both NULL: there is nothing to write"


def own_decisions(rows: pa.Table, settings: Settings) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.OWN` to rows of :data:`cdcwb.xds.rows.ROWS`.

    Decided here: skipped, invalid, waiting, and no_effect of a type 2 row without values. The others stay open (null),
    and if their reason is not null it is a remark to be added to the reason that will come.
    """
    schema = pa.schema([*rows.schema, *OWN])
    parts = [_of_batch(batch, settings) for batch in rows.to_batches() if batch.num_rows]
    own = pa.Table.from_batches(parts, OWN)
    return pa.Table.from_arrays([*rows.columns, *own.columns], schema=schema)


def _of_batch(batch: pa.RecordBatch, settings: Settings) -> pa.RecordBatch:
    log = batch.select(list(COLUMNS))
    said = typed(log)
    kind = numbers(said.event_type, 0)
    status, user = batch["status"], batch["perpetrator"]
    repeated = _true(batch["repeated"])
    event_us = batch["event_us"]

    new = _true(pc.equal(status, "N"))
    nameless = _true(pc.is_null(said.record_id))
    skipped_by_status = ~new & ~(nameless & ~_true(_other_character(status)))
    own_user = np.zeros(len(new), dtype=np.bool_)
    if settings.driver_user is not None and not settings.allow_loopback:
        own_user = _true(pc.equal(user, settings.driver_user)) & ~nameless
    skipped = skipped_by_status | own_user
    broken = fatal(log, said, parse_column(log["table_key"])) | repeated | nameless
    late = np.zeros(len(new), dtype=np.bool_)
    timeless = late
    if settings.future_events:
        timeless = _true(pc.is_null(event_us))
        if settings.as_of_us is not None:
            late = _true(pc.greater(event_us, settings.as_of_us))
    invalid = ~skipped & (broken | timeless)
    waiting = ~skipped & ~invalid & late
    polled = ~(skipped | invalid | waiting)
    valueless = _true(pc.is_null(batch["old_value"])) & _true(pc.is_null(batch["new_value"]))
    nothing = polled & (kind == 2) & valueless
    finished = new | _true(pc.is_in(status, pa.array(list(_DONE))))
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
    reason = put(reason, by_user, said_of(user.filter(pa.array(by_user)), _loopback))
    reason = put(reason, skipped_by_status, said_of(status.filter(pa.array(skipped_by_status)), _by_status))
    reason = put(reason, invalid, _why_invalid(batch, invalid, repeated, timeless))
    reason = put(reason, waiting, sentence("waiting until ", moments_text(event_us.filter(pa.array(waiting)))))
    reason = put(reason, nothing, pa.scalar(_NOTHING))
    order_time = pc.fill_null(event_us, 0) if settings.future_events else pa.array(np.zeros(len(new), dtype=np.int64))
    verbs = pa.array([None, *(str(settings.verb_of(number)) for number in range(1, 9))], pa.string())
    return pa.RecordBatch.from_arrays(
        [
            said.record_id,
            said.event_type,
            verbs.take(pa.array(kind)),
            order_time,
            decision,
            reason,
            pa.array(polled),
            pa.array(deletes),
        ],
        schema=OWN,
    )


def moments_text(event_us: pa.Array) -> pa.Array:
    """Microseconds since 1970 UTC as ``2026-12-01T00:00:00Z``, with as many digits of the second as it has."""
    text = pc.cast(pc.cast(event_us, pa.timestamp("us")), pa.string())
    text = pc.replace_substring(text, " ", "T")
    return sentence(pc.replace_substring_regex(text, r"\.?0*$", ""), "Z") if len(text) else text


def _true(condition: pa.Array) -> Bools:
    found: Bools = pc.fill_null(condition, False).to_numpy(zero_copy_only=False)
    return found


def _other_character(status: pa.Array) -> pa.Array:
    """Is the status one character other than N that shows?"""
    return pc.match_substring_regex(status, r"^[^N\s\pZ]\z")


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{visible(text, 40)}'"


def _by_status(status: str | None) -> str:
    if status in _DONE:
        return f"status '{status}': {_DONE[status]}"
    if status is not None and status.strip() in ("N", "n"):
        return f"status {_quoted(status)} is not exactly 'N'"
    return f"status {'is NULL' if status is None else _quoted(status)}: only 'N' is processed"


def _loopback(user: str | None) -> str:
    return f"perpetrator {_quoted(user)} is the driver's user (loopback)"


def _remarks(user: pa.Array, polled: Bools, settings: Settings) -> pa.Array:
    """A remark where a published row's user is the driver's but for upper and lower case."""
    driver = settings.driver_user
    if driver is None or settings.allow_loopback:
        return pa.nulls(len(user), pa.string())

    def remark(name: str | None) -> str | None:
        if name is None or name == driver or name.casefold() != driver.casefold():
            return None
        return f"perpetrator {_quoted(name)} differs from the driver's user {_quoted(driver)} in upper and lower case"

    return pc.if_else(pa.array(polled), said_of(user, remark), pa.scalar(None, pa.string()))


def _why_invalid(batch: pa.RecordBatch, invalid: Bools, repeated: Bools, timeless: Bools) -> pa.Array:
    """What is wrong with each of the invalid rows, in sentences."""
    wrong: Ints = np.flatnonzero(invalid)
    chosen = batch.take(pa.array(wrong))
    sentences: list[list[str]] = [[] for _ in wrong]
    if len(wrong):
        for finding in check(chosen.select(list(COLUMNS))):
            if finding.fatal:
                sentences[finding.row].append(finding.sentence)
    for row, (record_id, time) in enumerate(
        zip(chosen["record_id"].to_pylist(), chosen["event_time"].to_pylist(), strict=True)
    ):
        if repeated[wrong[row]]:
            sentences[row].append(f"record_id {visible(record_id, 40)} is in an earlier row already")
        if timeless[wrong[row]]:
            found = "is NULL" if time is None else f"{_quoted(time)} cannot be read"
            sentences[row].append(f"event_time {found}, and rows are ordered by it")
    return pa.array(["; ".join(parts) for parts in sentences], pa.string())
