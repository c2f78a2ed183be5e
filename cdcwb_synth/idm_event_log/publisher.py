"""What the Publisher does with the rows of an event log, one row after another in the plainest way
(``docs/formats/idm-event-log.md §4``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdcwb_synth.idm_event_log.contents import Current
from cdcwb_synth.idm_event_log.keys import bare, parsed
from cdcwb_synth.idm_event_log.rows import LogRow

__all__ = ["Decided", "Driver", "event_type", "publish", "record_number"]

_UNFIT: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIGITS: Final = re.compile(r"[0-9]+")
_DONE: Final = ("N", "S", "W", "E", "F")
_PER_FIELD: Final = (1, 2, 3, 7, 8)
_QUERY_BACK: Final = (5, 6, 7, 8)
_ROW_OVER: Final = {1: 5, 7: 5, 2: 6, 3: 6, 8: 6}
_FIELD_OVER: Final = {1: 7, 2: 8, 3: 8}


@dataclass(frozen=True, slots=True)
class Driver:
    """How the driver is set. ``as_of``: microseconds since 1970 up to which rows are due, None: nothing waits and the
    order is that of record_id."""

    user: str
    allow_loopback: bool
    as_of: int | None
    batch_size: int
    query_limit: int
    precedence: str
    type5: str

    def verb(self, kind: int) -> str:
        """What a row of an event type does."""
        if kind == 4:
            return "delete"
        return self.type5 if kind == 5 else "add" if kind in (1, 7) else "modify"


@dataclass(slots=True, eq=False)
class Decided:
    """A row and what becomes of it. ``number``: its record_id, None if that is unusable; ``kind``: its event type,
    likewise. ``deletes``: query-back rows of its object that come before it have no effect. ``ordinal``: its place
    among the rows that are polled."""

    row: LogRow
    number: int | None
    kind: int | None
    decision: str | None = None
    reason: str = ""
    document: int | None = None
    event: int | None = None
    overridden_by: int | None = None
    deletes: bool = False
    ordinal: int = -1
    cycle: int | None = None
    segment: int = 0

    @property
    def is_polled(self) -> bool:
        """Does it count in a polling cycle?"""
        return self.decision not in ("skipped", "invalid", "waiting")

    @property
    def thing(self) -> tuple[str | None, str | None]:
        """The object that it is about, as written."""
        return self.row.table_name, self.row.table_key

    def decide(self, decision: str, reason: str) -> None:
        """Settle it."""
        self.decision, self.reason = decision, reason


Tables = Mapping[str, Current]


def publish(rows: Sequence[LogRow], driver: Driver, tables: Tables | None) -> list[Decided]:
    """What becomes of rows that are given in capture order. ``tables``: contents by table_name, None if nothing is
    known of them."""
    seen: set[int] = set()
    decided = [_own(row, driver, seen) for row in rows]
    order = sorted(
        (one for one in decided if one.is_polled or one.deletes),
        key=lambda one: (0 if driver.as_of is None else one.row.time, one.number),
    )
    polled = [one for one in order if one.is_polled]
    for place, one in enumerate(polled):
        one.ordinal, one.cycle = place, place // driver.query_limit
    _gone(order, tables)
    _overridden(polled, driver)
    for one in polled:
        if one.decision is None:
            _last(one, tables)
    _number([one for one in polled if one.decision == "published"], driver)
    return decided


def record_number(text: str | None) -> int | None:
    """The number that record_id says: whole and above 0, else None."""
    return int(text) or None if text is not None and _DIGITS.fullmatch(text) else None


def event_type(text: str | None) -> int | None:
    """The number that event_type says: 1 to 8, else None."""
    return int(text) if text is not None and text in tuple("12345678") else None


def _own(row: LogRow, driver: Driver, seen: set[int]) -> Decided:
    """What a row says of itself; ``seen`` are the record ids of the rows before it."""
    one = Decided(row, record_number(row.record_id), event_type(row.event_type))
    again = one.number in seen
    if one.number is not None:
        seen.add(one.number)
    is_wrong = _wrong(one, again, driver)
    waits = driver.as_of is not None and row.time is not None and row.time > driver.as_of
    one.deletes = one.kind == 4 and not is_wrong and not waits and row.status in _DONE
    is_letter = row.status is not None and len(row.status.strip()) == len(row.status) == 1
    if row.status != "N" and (one.number is not None or is_letter):
        one.decide("skipped", f"its status is {row.status!r}, not N")
    elif one.number is not None and row.perpetrator == driver.user and not driver.allow_loopback:
        one.decide("skipped", "the driver made the change itself")
    elif is_wrong:
        one.decide("invalid", is_wrong)
    elif waits:
        one.decide("waiting", f"it takes effect at {row.event_time}")
    elif one.kind == 2 and row.old_value is None and row.new_value is None:
        one.decide("no_effect", "the value was NULL and is NULL")
    return one


def _wrong(one: Decided, again: bool, driver: Driver) -> str:
    """Why a row cannot be in a document; empty if it can."""
    row = one.row
    if one.number is None:
        return f"record_id {row.record_id!r} is no positive whole number"
    if again:
        return f"record_id {one.number} was there before"
    if one.kind is None:
        return f"event_type {row.event_type!r} is none of 1 to 8"
    if not row.table_name:
        return "it names no table"
    if not row.table_key or parsed(row.table_key) is None:
        return f"table_key {row.table_key!r} is none"
    if one.kind in _PER_FIELD and not row.column_name:
        return "it names no column"
    told = [row.table_key, row.table_name, row.column_name]
    told += [row.new_value] if one.kind in (1, 2, 3) else []
    told += [row.old_value] if one.kind == 2 else []
    if any(text is not None and _UNFIT.search(text) for text in told):
        return "it holds a character that XML cannot hold"
    if driver.as_of is not None and row.time is None:
        return f"event_time {row.event_time!r} is none"
    return ""


def _gone(order: Iterable[Decided], tables: Tables | None) -> None:
    """Query-back rows whose object is deleted later, or is not there."""
    waiting: dict[tuple[str | None, str | None], list[Decided]] = {}
    for one in order:
        if one.deletes:
            for other in waiting.pop(one.thing, ()):
                other.decide("no_effect", f"record {one.number} deletes its object")
        elif one.decision is None and one.kind in _QUERY_BACK:
            waiting.setdefault(one.thing, []).append(one)
    for others in waiting.values():
        for other in others:
            table = None if tables is None else tables.get(other.row.table_name or "")
            if table is not None and _contents(other, table) is None:
                other.decide("no_effect", "its object is not in the table")


def _contents(one: Decided, table: Current) -> dict[str, str | None] | None:
    """What the table holds of a row's object, None if it holds nothing."""
    pairs = parsed(one.row.table_key or "") or ()
    found = table.rows.get(frozenset((bare(name), value) for name, value in pairs))
    return None if found is None else dict(zip(table.names, found, strict=True))


def _overridden(polled: Sequence[Decided], driver: Driver) -> None:
    """Rows whose place is taken by query-back rows of the same object, cycle and segment."""
    segments: dict[tuple[str | None, str | None], int] = {}
    first: dict[tuple[object, ...], int] = {}
    for one in polled:
        one.segment = segments.get(one.thing, 0)
        if one.kind == 4:
            segments[one.thing] = one.segment + 1
        elif one.decision is None and one.kind in _QUERY_BACK:
            first.setdefault(_scope(one, driver, one.kind), one.number or 0)
    for one in polled:
        if one.decision is None and one.kind in _ROW_OVER:
            by = first.get(_scope(one, driver, _ROW_OVER[one.kind], None))
            if by is None and one.kind in _FIELD_OVER:
                by = first.get(_scope(one, driver, _FIELD_OVER[one.kind]))
            if by is not None:
                one.overridden_by = by
                one.decide("overridden", f"record {by} takes its place")


_ITS_OWN: Final = "\0"


def _scope(one: Decided, driver: Driver, kind: int, column: str | None = _ITS_OWN) -> tuple[object, ...]:
    """Rows of type ``kind`` for an object (and a column) that count for one another."""
    cycle = None if driver.precedence == "log" else one.cycle
    about = one.row.column_name if column is _ITS_OWN and kind in (7, 8) else None
    return (*one.thing, one.segment, cycle, kind, about)


def _last(one: Decided, tables: Tables | None) -> None:
    """What is left: published, unless the contents of its table are needed and not known."""
    if one.kind in _QUERY_BACK:
        table = None if tables is None else tables.get(one.row.table_name or "")
        if table is None:
            return one.decide("needs_snapshot", "nothing is known of the table")
        if one.kind in (7, 8) and one.row.column_name not in table.names:
            return one.decide("needs_snapshot", "nothing is known of the column")
    return one.decide("published", "")


def _number(published: Sequence[Decided], driver: Driver) -> None:
    """Numbers of events and documents."""
    event = document = held = 0
    before: tuple[object, ...] | None = None
    cycle: int | None = None
    for one in published:
        assert one.kind is not None
        group = (*one.thing, driver.verb(one.kind), one.cycle)
        if group != before:
            event, before = event + 1, group
            if document == 0 or held == driver.batch_size or one.cycle != cycle:
                document, held, cycle = document + 1, 0, one.cycle
            held += 1
        one.event, one.document = event, document
        one.reason = f"in document {document}"
