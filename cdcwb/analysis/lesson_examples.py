"""Examples of the pitfalls of a format, found in a capture. Each function finds one example and describes it in a
sentence; None if the capture has none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from cdcwb.analysis.lesson import Event, Lesson
from cdcwb.model import Kind, Operation
from cdcwb.words import count, joined, moment, plural

__all__ = [
    "absent",
    "after_first",
    "comes_again",
    "full_load",
    "idle_updates",
    "late_schema",
    "log_times",
    "lost_event",
    "mask_offset",
    "metadata_inside",
    "no_record",
    "no_time",
    "nobody_can_tell",
    "not_committed",
    "null_or_not",
    "numbers_again",
    "printed_times",
    "printed_twice",
    "query_back",
    "rows_of_one",
    "savepoints",
    "shared_numbers",
    "size_words",
    "spelled",
    "spread",
    "statuses",
    "times_order",
    "truncated",
    "twice",
    "users",
]

_NAMED: Final = 4  # names in a sentence


def _names(names: Iterable[str]) -> str:
    all_names = list(names)
    left = len(all_names) - _NAMED
    return joined([*all_names[:_NAMED], f"{left} more"] if left > 0 else all_names)


def _rows(lesson: Lesson, *kinds: Kind) -> list[Event]:
    return [event for event in lesson.events if event["kind"] in kinds]


def _changes(lesson: Lesson) -> list[Event]:
    return _rows(lesson, Kind.CHANGE, Kind.BEFORE, Kind.AFTER)


# --- gbase8s ----------------------------------------------------------------------------------------------------------


def size_words(lesson: Lesson) -> str | None:
    """A size word in the byte order of the server."""
    for event in lesson.events:
        sizes = (event["headers"] or {}).get("variable_sizes")
        if event["raw"] is None or not sizes or not sizes.split()[0].isdigit():
            continue
        word = event["raw"][36:40]
        little, big = int.from_bytes(word, "little"), int.from_bytes(word, "big")
        if little == int(sizes.split()[0]):
            return (
                f"{lesson.place(event)}: bytes 36 to 39 are {word.hex(' ')}. That is {count(little)} little-endian and "
                f"{count(big)} big-endian, and the payload has {event['headers']['payload_size']} bytes."
            )
    return None


def numbers_again(lesson: Lesson) -> str | None:
    """The number that identifies the most transactions."""
    begins: dict[str, list[str]] = defaultdict(list)
    for event in _rows(lesson, Kind.BEGIN):
        begins[event["headers"]["transaction_id"]].append(event["transaction_id"])
    number, names = max(begins.items(), key=lambda item: len(item[1]), default=("", []))
    if len(names) < 2:
        return None
    return (
        f"{plural(len(begins), 'number')} name {plural(sum(map(len, begins.values())), 'transaction')}: {number} alone "
        f"names {len(names)}, which are {_names(names)} once the position of the begin is added."
    )


def savepoints(lesson: Lesson) -> str | None:
    """A rollback to a savepoint, and the total of changes that rollbacks undo."""
    first: tuple[Event, int] | None = None
    rollbacks = 0
    undone: set[tuple[int, int]] = set()
    for events in lesson.transactions().values():
        for at, event in enumerate(events):
            if event["kind"] == Kind.UNDO:
                rows = [e for e in events[:at] if e["kind"] in (Kind.CHANGE, Kind.AFTER)]
                removed = {(e["file_index"], e["offset"]) for e in rows if e["position"] >= event["position"]} - undone
                rollbacks, undone = rollbacks + 1, undone | removed
                first = first or ((event, len(removed)) if removed else None)
    if first is None:
        return None
    event, number = first
    return (
        f"{lesson.place(event)}: position {event['position']} is lower than the preceding ones and undoes "
        f"{plural(number, 'change')} of transaction {event['transaction_id']}. {plural(rollbacks, 'such record')} undo "
        f"{plural(len(undone), 'change')} in all."
    )


def not_committed(lesson: Lesson) -> str | None:
    """Changes of transactions that were rolled back or never ended."""
    ends: Counter[str] = Counter()
    for events in lesson.transactions().values():
        kinds = {event["kind"] for event in events}
        if Kind.COMMIT not in kinds:
            how = "were rolled back" if Kind.ROLLBACK in kinds else "were open when the capture ended"
            ends[how] += sum(event["kind"] in (Kind.CHANGE, Kind.AFTER) for event in events)
    parts = [f"{plural(number, 'change')} of transactions that {how}" for how, number in ends.items() if number]
    return f"{joined(sorted(parts))} are among the others." if parts else None


def after_first(lesson: Lesson) -> str | None:
    """Updates whose after image precedes the before image."""
    late = []
    for events in lesson.transactions().values():
        halves = [event for event in events if event["kind"] in (Kind.BEFORE, Kind.AFTER)]
        pairs = zip(halves[::2], halves[1::2], strict=False)
        late += [a for a, other in pairs if (a["kind"], other["kind"]) == (Kind.AFTER, Kind.BEFORE)]
    return f"{plural(len(late), 'update')}, the first at {lesson.place(late[0])}." if late else None


def no_record(lesson: Lesson) -> str | None:
    """Records that continue in the next file, and bytes that are not a record."""
    pieces = _rows(lesson, Kind.FRAGMENT)
    broken = _rows(lesson, Kind.MALFORMED)
    parts = []
    if pieces:
        parts.append(
            f"{plural(len(pieces), 'record')} continue in the next file, the first in {lesson.file(pieces[0])}"
        )
    if broken:
        raw, where = broken[0]["raw"] or b"", lesson.place(broken[0])
        parts.append(f"{plural(broken[0]['length'], 'byte')} at {where} are not a record, {raw[:8].hex(' ')} and so on")
    return f"{joined(parts)}." if parts else None


# --- qlik-kafka -------------------------------------------------------------------------------------------------------


def spread(lesson: Lesson) -> str | None:
    """The transaction whose events are in the most files."""
    best: tuple[str, list[Event]] = ("", [])
    for name, events in lesson.transactions().items():
        if len({e["file"] for e in events}) > len({e["file"] for e in best[1]}):
            best = (name, events)
    files = list(dict.fromkeys(lesson.file(event) for event in best[1]))
    if len(files) < 2:
        return None
    return f"the {len(best[1])} events of transaction {best[0][-6:]} are in {len(files)} files: {_names(files)}."


def late_schema(lesson: Lesson) -> str | None:
    """Rows that precede the message with their metadata."""
    for schema in _rows(lesson, Kind.SCHEMA):
        early = [
            event
            for event in _changes(lesson)
            if event["file"] == schema["file"]
            and event["table_version"] == schema["table_version"]
            and event["offset"] < schema["offset"]
        ]
        if early:
            described = {event["file"] for event in _rows(lesson, Kind.SCHEMA)}
            without = {event["file"] for event in lesson.events} - described
            stand = "row precedes" if len(early) == 1 else "rows precede"
            return (
                f"in {lesson.file(schema)} {len(early)} {stand} the message that describes "
                f"{lesson.table(schema)}, at byte {count(schema['offset'])}; {plural(len(without), 'file')} "
                f"{'has' if len(without) == 1 else 'have'} no such message at all."
            )
    return None


def lost_event(lesson: Lesson) -> str | None:
    """A transaction that begins with event 1 and lacks a later one."""
    for name, events in lesson.transactions().items():
        numbers = sorted({event["event_no"] for event in events if event["event_no"] is not None})
        missing = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
        if missing and numbers[0] <= 1:
            return (
                f"transaction {name[-6:]} has the events {joined([str(n) for n in numbers])}: number "
                f"{joined([str(n) for n in missing])} is missing."
            )
    return None


def twice(lesson: Lesson) -> str | None:
    """Two messages with one position and one event number."""
    firsts: dict[tuple[str, int], Event] = {}
    for event in _changes(lesson):
        if event["position"] is None or event["event_no"] is None:
            continue
        key = (event["position"], event["event_no"])
        if key in firsts and firsts[key]["raw"] == event["raw"]:
            return (
                f"{lesson.file(event)}, bytes {count(firsts[key]['offset'])} and {count(event['offset'])}: the same "
                f"change …{event['position'][-6:]}, event {event['event_no']} of its transaction."
            )
        firsts[key] = event
    return None


def idle_updates(lesson: Lesson) -> str | None:
    """Updates whose mask is empty."""
    idle = [e for e in _changes(lesson) if e["operation"] == Operation.UPDATE and e["changed_columns"] == []]
    if not idle:
        return None
    of = sum(event["operation"] == Operation.UPDATE for event in _changes(lesson))
    mask = idle[0]["change_mask"]
    return f"{len(idle)} of {plural(of, 'update')}, the first at {lesson.place(idle[0])} with the mask {mask}."


def full_load(lesson: Lesson) -> str | None:
    """Rows of the full load, and tombstones."""
    loaded = [event for event in _changes(lesson) if event["operation"] == Operation.REFRESH]
    if not loaded:
        return None
    stones = len(_rows(lesson, Kind.TOMBSTONE))
    more = f" {plural(stones, 'message')} without a value (tombstones) are not changes either." if stones else ""
    load = "snapshot" if lesson.name == "debezium" else "full load"
    return f"{plural(len(loaded), 'row')} of the {load} have no position and no transaction.{more}"


# --- debezium ---------------------------------------------------------------------------------------------------------


def written_otherwise(lesson: Lesson) -> str | None:
    """Values that their type represents in another form."""
    event = lesson.chosen()
    sign = "a column, stored as "
    fields = [] if event is None else [node for node in lesson.inspect(event).field.walk() if sign in node.meaning]
    parts = [f"{f.name} is stored as {f.meaning.partition(sign)[2]} and means {f.value}" for f in fields[:2]]
    return f"{lesson.place(event)}: {joined(parts)}." if event is not None and parts else None


def unavailable(lesson: Lesson) -> str | None:
    """Rows that lack a value."""
    rows = [event for event in _changes(lesson) if event["present_columns"] is not None]
    if not rows:
        return None
    lacks = [name for name in lesson.columns(rows[0]) if name not in rows[0]["present_columns"]]
    return f"{plural(len(rows), 'update')}, the first at {lesson.place(rows[0])}, which lacks {joined(lacks)}."


def two_times(lesson: Lesson) -> str | None:
    """The change with the largest difference between its two times."""

    def apart(event: Event) -> int:
        headers = event["headers"] or {}
        return int(headers.get("ts_ms") or 0) - int(headers.get("source.ts_ms") or 0)

    furthest = max(_changes(lesson), key=apart, default=None)
    if furthest is None or apart(furthest) <= 0:
        return None
    return (
        f"{lesson.place(furthest)}: the connector processed the change {count(apart(furthest))} ms after it was made."
    )


def many_identifiers(lesson: Lesson) -> str | None:
    """A transaction with several identifiers in its events."""
    for name, events in lesson.transactions().items():
        ids = list(dict.fromkeys((event["headers"] or {}).get("transaction.id") for event in events))
        known = [identifier for identifier in ids if identifier is not None]
        if len(known) > 1:
            return f"the events of transaction {name} name it {known[0]}, {known[1]} and so on."
    return None


# --- qlik-change-table ------------------------------------------------------------------------------------------------


def mask_offset(lesson: Lesson) -> str | None:
    """A mask read with and without its header columns."""
    for event in _changes(lesson):
        drawn = lesson.mask(event) if event["operation"] == Operation.UPDATE and event["changed_columns"] else None
        if drawn is None or not drawn.offset:
            continue
        columns = lesson.columns(event)
        bit = next((bit.number for bit in drawn.bits if bit.is_set and bit.column is not None), None)
        if bit is None:
            continue
        wrong = f"column {bit + 1}, {columns[bit]}" if bit < len(columns) else f"column {bit + 1}, which there is not"
        return (
            f"{lesson.place(event)}: mask {drawn.mask} sets bit {bit}. After {drawn.offset} header columns that is "
            f"{columns[bit - drawn.offset]}; counted from the first data column it would be {wrong}."
        )
    return None


def shared_numbers(lesson: Lesson) -> str | None:
    """Rows with one change_seq."""
    half = next(iter(_rows(lesson, Kind.BEFORE)), None)
    if half is None:
        return None
    rows = [event for event in _changes(lesson) if event["position"] == half["position"]]
    return (
        f"{joined([str(row['record_type']) for row in rows])} at {lesson.place(half)} and the rows that follow share "
        f"change_seq {half['position']}; so do all {plural(len(_rows(lesson, Kind.BEFORE)), 'pair')}."
    )


def null_or_not(lesson: Lesson) -> str | None:
    """A NULL in an after image for a column that the mask does not name."""
    for event in _rows(lesson, Kind.AFTER):
        nulls = [name for name, value in (event["after"] or {}).items() if value is None]
        changed = [name for name in nulls if name in (event["changed_columns"] or ())]
        left = [name for name in nulls if name not in changed]
        if left:
            more = f"; {_names(changed)}, which the mask names, was set to NULL" if changed else ""
            verb, them = ("is", "it") if len(left) == 1 else ("are", "them")
            mask = event["change_mask"]
            return f"{lesson.place(event)}: {_names(left)} {verb} NULL, and the mask {mask} does not name {them}{more}."
    return None


def no_time(lesson: Lesson) -> str | None:
    """Rows with a time of 1970."""
    timeless = [
        event
        for event in _changes(lesson)
        if any(str(value).startswith("1970-01-01") for value in (event["headers"] or {}).values())
    ]
    if not timeless:
        return None
    first = lesson.place(timeless[0])
    return f"{plural(len(timeless), 'row')}, the first at {first}: the time of the commit is used instead."


def nobody_can_tell(lesson: Lesson) -> str | None:
    """Transactions that are spread over several files."""
    transactions = lesson.transactions()
    if not transactions:
        return None
    spread = sum(len({event["file"] for event in events}) > 1 for events in transactions.values())
    of = plural(len(transactions), "transaction")
    return f"{spread} of {of} have rows in more than one file, and no row says how many there are."


def truncated(lesson: Lesson) -> str | None:
    """A TRUNCATE row."""
    rows = [event for event in _changes(lesson) if event["operation"] == Operation.TRUNCATE]
    if not rows:
        return None
    return (
        f"{lesson.place(rows[0])}: a row of type {rows[0]['record_type']} for {lesson.table(rows[0])}, without values."
    )


# --- goldengate -------------------------------------------------------------------------------------------------------


def printed_times(lesson: Lesson) -> str | None:
    """A printed time, and the time in the bytes."""
    for event in _changes(lesson):
        printed = (event["headers"] or {}).get("IO Time")
        if printed and event["changed_at"] is not None and event["changed_at"].strftime("%H:%M") not in printed:
            return f"{lesson.place(event)}: printed {printed}, in the header's bytes {moment(event['changed_at'])}."
    return None


def absent(lesson: Lesson) -> str | None:
    """An update that lacks columns, and a NULL."""
    updates = [event for event in _changes(lesson) if event["operation"] == Operation.UPDATE]
    if not updates:
        return None
    first = updates[0]
    captured = list(dict.fromkeys([*(first["key"] or {}), *(first["after"] or {})]))
    lacking = [name for name in lesson.columns(first) if name not in captured]
    nulls = [(e, name) for e in _changes(lesson) for name, value in (e["after"] or {}).items() if value is None]
    null = f" A NULL is there: {nulls[0][1]} at {lesson.place(nulls[0][0])}." if nulls else ""
    return f"{lesson.place(first)}: {_names(captured)} are there, {_names(lacking)} are not.{null}"


def metadata_inside(lesson: Lesson) -> str | None:
    """A Metadata record inside a transaction."""
    open_ids: dict[str, None] = {}
    for event in lesson.events:
        indicator = (event["headers"] or {}).get("TransInd")
        if event["kind"] == Kind.SCHEMA and open_ids:
            return (
                f"{lesson.place(event)}: a Metadata record for {lesson.table(event)} with TransInd {indicator} is "
                f"inside transaction {next(iter(open_ids))}."
            )
        if event["transaction_id"] is not None and event["kind"] == Kind.CHANGE:
            if indicator == "0":
                open_ids[event["transaction_id"]] = None
            elif indicator in ("2", "3"):
                open_ids.pop(event["transaction_id"], None)
    return None


def comes_again(lesson: Lesson) -> str | None:
    """A transaction that was aborted and is repeated."""
    again: dict[str, set[str]] = defaultdict(set)
    for name in lesson.transactions():
        again[name.partition("@")[0]].add(name)
    both = next((sorted(names, key=len) for names in again.values() if len(names) > 1), None)
    if both is None:
        return None
    events = lesson.transactions()
    changes = [sum(event["kind"] == Kind.CHANGE for event in events[name]) for name in both]
    return (
        f"transaction {both[0]} is in the trail twice: {both[-1]} was interrupted after "
        f"{plural(changes[-1], 'change')}, {both[0]} has {plural(changes[0], 'change')}."
    )


def times_order(lesson: Lesson) -> str | None:
    """Changes with earlier times than the preceding change."""
    rows = [event for event in _rows(lesson, Kind.CHANGE) if event["changed_at"] is not None]
    back = [(earlier, other) for earlier, other in pairwise(rows) if other["changed_at"] < earlier["changed_at"]]
    if not back:
        return None
    earlier, other = back[0]
    return (
        f"{len(back)} of {plural(len(rows) - 1, 'step')} from change to change go back in time, the first at "
        f"{lesson.place(other)}: {moment(other['changed_at'])} after {moment(earlier['changed_at'])}."
    )


def printed_twice(lesson: Lesson) -> str | None:
    """A record that was printed before."""
    for event in lesson.events:
        if any(problem["code"] == "repeated" for problem in event["problems"] or ()):
            what = f"{event['record_type']} at RBA {event['headers']['RBA']}"
            return f"{lesson.place(event)}: the {what} was printed before."
    return None


# --- idm-event-log ----------------------------------------------------------------------------------------------------


def rows_of_one(lesson: Lesson) -> str | None:
    """Several rows of one change."""
    story = lesson.story()
    if len(story) < 2:
        return None
    first = story[0]
    return (
        f"{lesson.place(first)}: {len(story)} consecutive rows of type {first['record_type']} are of one "
        f"{first['operation']} into {lesson.table(first)}, key {first['headers']['table_key']}."
    )


def query_back(lesson: Lesson) -> str | None:
    """Rows without values."""
    rows = [event for event in _changes(lesson) if event["record_type"] in ("5", "6", "7", "8")]
    if not rows:
        return None
    return (
        f"{len(rows)} of {plural(len(_changes(lesson)), 'row')} are of types 5 to 8 and have no value, the first at "
        f"{lesson.place(rows[0])}: {lesson.sentence(rows[0])}."
    )


def spelled(lesson: Lesson) -> str | None:
    """Keys with several spellings."""
    keys: dict[tuple[Any, ...], dict[str, Event]] = defaultdict(dict)
    for event in _changes(lesson):
        if event["key"]:
            spelled = event["headers"]["table_key"]
            parts = sorted((name.lower(), str(value).strip()) for name, value in event["key"].items())
            keys[event["table_name"], *parts].setdefault(spelled, event)
    several = [spellings for spellings in keys.values() if len(spellings) > 1]
    if not several:
        return None
    names = " and ".join(f"“{name}” (byte {count(event['offset'])})" for name, event in several[0].items())
    return f"{plural(len(several), 'key')}, among them {names} of {lesson.table(next(iter(several[0].values())))}."


def log_times(lesson: Lesson) -> str | None:
    """Rows with earlier times than the preceding row."""
    times = [event["changed_at"] for event in _changes(lesson) if event["changed_at"] is not None]
    back = sum(other < earlier for earlier, other in pairwise(times))
    if not back:
        return None
    of = plural(len(times), "row")
    return f"{count(back)} of {of} are earlier than the preceding row; the latest is of {moment(max(times))}."


def statuses(lesson: Lesson) -> str | None:
    """Unknown values of status."""
    unknown = Counter(
        str(event["headers"]["status"])
        for event in _changes(lesson)
        if event["headers"]["status"] not in ("N", "S", "W", "E", "F", None)
    )
    if not unknown:
        return None
    names = joined([f"“{name}”" for name in sorted(unknown)])
    return f"{plural(unknown.total(), 'row')} with an unknown status: {names}."


def users(lesson: Lesson) -> str | None:
    """Users whose names differ only in case."""
    users = Counter(str(event["headers"]["perpetrator"]) for event in _changes(lesson))
    alike: dict[str, list[str]] = defaultdict(list)
    for user in users:
        alike[user.lower()].append(user)
    both = next((names for names in alike.values() if len(names) > 1), None)
    if both is None:
        return None
    return " and ".join(f"{plural(users[user], 'row')} by “{user}”" for user in sorted(both)) + "."
