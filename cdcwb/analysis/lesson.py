"""A small capture that is read in this process without Spark, to explain one record, one transaction and one mask.

The examples are selected by rules that apply to any capture of the format. The rules are shown with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.analysis.masks import Drawn, draw
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.dissector import EVERYTHING, Format, Inspection
from cdcwb.formats.files import list_files
from cdcwb.model import EVENTS, Kind, Operation
from cdcwb.words import count, moment, plural, size

__all__ = [
    "FORMATS",
    "LARGEST",
    "NOT_CAPTURED",
    "Lesson",
    "captures_of",
    "delivery",
    "open_lesson",
    "positions",
    "row_to_target",
]


Event = dict[str, Any]
"""A row of :data:`cdcwb.model.EVENTS`, its maps as dictionaries."""

FORMATS: Final = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log", "debezium")
"""The formats in the order of the lessons; a capture's folder has the name of its format."""

LARGEST: Final = 32_000_000
"""Maximum bytes of a capture that is read in this process."""

NOT_CAPTURED: Final = "not in the record"
"""Shown where an image lacks a column, which differs from NULL."""

_MAPS: Final = ("key", "before", "after", "headers")
_FEWEST, _MOST = 4, 9  # records of a transaction that fits on a page
_SHORTEST, _LONGEST = 3, 5  # changes of a row whose history is shown
_SHOWN: Final = 3  # columns of a row that fit on one line


def captures_of(folder: str | Path) -> dict[str, Path]:
    """The captures below ``folder`` for the lessons, by format, in the order of :data:`FORMATS`."""
    return {name: path for name in FORMATS if (path := Path(folder) / name).is_dir()}


@dataclass(frozen=True, slots=True)
class _Rule:
    """Selects the record that is shown: the first that ``fits``, in the order of the files; ``words`` describe the
    rule."""

    words: str
    fits: Callable[[Event], bool]


def _is_update(event: Event) -> bool:
    return event["operation"] == Operation.UPDATE and event["kind"] in (Kind.CHANGE, Kind.AFTER)


_RULES: Final[dict[str, _Rule]] = {
    "gbase8s": _Rule(
        "the first row after an update whose table has columns of variable length",
        lambda event: _is_update(event) and bool(event["headers"].get("variable_sizes")),
    ),
    "qlik-kafka": _Rule(
        "the first update that changed something", lambda event: _is_update(event) and bool(event["changed_columns"])
    ),
    "qlik-change-table": _Rule(
        "the first U row whose mask names a column", lambda event: _is_update(event) and bool(event["changed_columns"])
    ),
    "goldengate": _Rule("the first update", _is_update),
    "idm-event-log": _Rule(
        "the first row of type 2, a field that was updated", lambda event: event["record_type"] == "2"
    ),
    "debezium": _Rule("the first update", _is_update),
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A capture of one format. ``events`` are all records in the order of the files, ``versions`` rows of
    :data:`cdcwb.model.TABLE_VERSIONS`, ``detected`` rows of :data:`cdcwb.model.DETECTED`."""

    format: Format
    path: Path
    options: Mapping[str, Any]
    events: list[Event]
    versions: list[dict[str, Any]]
    detected: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The format's name."""
        return self.format.name

    def file(self, event: Event) -> str:
        """The file of a record, relative to the capture."""
        file = str(event["file"])
        return file.removeprefix(f"{self.path}/")

    def place(self, event: Event) -> str:
        """The location of a record: ``stream-1.bin, byte 3,927``."""
        return f"{self.file(event)}, byte {count(event['offset'])}"

    @staticmethod
    def table(event: Event) -> str | None:
        """``schema.table``, or ``table``."""
        return ".".join(name for name in (event["schema_name"], event["table_name"]) if name) or None

    def columns(self, event: Event) -> list[str]:
        """The columns of a record's table version, in order; if no version is known, the columns of its images."""
        for version in self.versions:
            if version["table_version"] == event["table_version"]:
                return [column["name"] for column in version["columns"] or ()]
        return list(dict.fromkeys([*(event["key"] or {}), *(event["before"] or {}), *(event["after"] or {})]))

    # --- one record ---------------------------------------------------------------------------------------------------

    @property
    def rule(self) -> str:
        """The rule that selects the record."""
        return _RULES[self.name].words

    def chosen(self) -> Event | None:
        """The record that is shown: the first that matches :attr:`rule`, else the first change; None without
        changes."""
        fits = _RULES[self.name].fits
        changes = [event for event in self.events if event["kind"] in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)]
        return next(filter(fits, changes), changes[0] if changes else None)

    def inspect(self, event: Event) -> Inspection:
        """The dissected record."""
        return self.format.inspect(str(event["file"]), event["offset"], self.options)

    def images(self, event: Event) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The before and the after image of a change; for an update in two records, both images."""
        before, after = event["before"], event["after"]
        if event["kind"] in (Kind.BEFORE, Kind.AFTER):
            wanted = Kind.AFTER if event["kind"] == Kind.BEFORE else Kind.BEFORE
            half = self._half(event, wanted)
            if half is not None:
                before, after = before or half["before"], after or half["after"]
        return before, after

    def _half(self, event: Event, wanted: Kind) -> Event | None:
        """The nearest record that may be the other half of an update: same transaction and table, and the same position
        in formats that pair by position."""
        shared = ["transaction_id", "table_name", *(["position"] if self.format.pairing == "position" else [])]
        candidates = [
            other for other in self.events if other["kind"] == wanted and all(other[n] == event[n] for n in shared)
        ]
        location = (event["file_index"], event["offset"])
        before = [other for other in candidates if (other["file_index"], other["offset"]) < location]
        behind = [other for other in candidates if (other["file_index"], other["offset"]) > location]
        if wanted is Kind.BEFORE:
            return before[-1] if before else behind[0] if behind else None
        return behind[0] if behind else before[-1] if before else None

    def compared(self, event: Event) -> list[dict[str, Any]]:
        """A row for each column of a change: ``column``, ``before``, ``after`` (text; :data:`NOT_CAPTURED` if an image
        lacks it) and ``changed``: as stated by the source; else from both images; with one image, its columns outside
        the key."""
        before, after = self.images(event)
        columns = event["changed_columns"]
        rows = []
        for name in dict.fromkeys([*self.columns(event), *(before or {}), *(after or {})]):
            values = [_shown(image, name, event["key"]) for image in (before, after)]
            if columns is not None:
                changed = name in columns
            elif before is not None and after is not None:
                changed = name in before and name in after and before[name] != after[name]
            else:
                changed = name in (after or {}) and name not in (event["key"] or {})
            rows.append({"column": name, "before": values[0], "after": values[1], "changed": changed})
        return rows

    def mask(self, event: Event) -> Drawn | None:
        """The change mask of a record bit by bit; None without a mask."""
        if event["change_mask"] is None:
            return None
        row = {
            **{name: event[name] for name in ("operation", "change_mask", "changed_columns", "table_version")},
            "table": self.table(event) or "",
            "changes": sum(other["change_mask"] == event["change_mask"] for other in self._alike(event)),
        }
        return next(iter(draw([row], self.versions, self.detected)), None)

    def _alike(self, event: Event) -> list[Event]:
        names = ("operation", "table_version", "kind")
        return [other for other in self.events if all(other[name] == event[name] for name in names)]

    # --- one transaction ----------------------------------------------------------------------------------------------

    def transactions(self) -> dict[str, list[Event]]:
        """The records of every transaction, in the order of their changes."""
        records: dict[str, list[Event]] = {}
        for event in self.events:
            if event["transaction_id"] is not None:
                records.setdefault(event["transaction_id"], []).append(event)
        if any(event["kind"] == Kind.BEGIN for event in self.events):
            return records  # one stream: file order
        return {name: sorted(events, key=_moment) for name, events in records.items()}

    def story(self) -> list[Event]:
        """The records of one transaction: the first complete and committed one with an update and four to nine records,
        else the first one. For a log without transactions the rows of one change: the first three or more consecutive
        rows with the same table, key and time."""
        if any(event["transaction_id"] is not None for event in self.events):
            transactions = list(self.transactions().values())
            fitting = (t for t in transactions if _FEWEST <= len(t) <= _MOST and _is_whole(t) and _has_update(t))
            return next(fitting, transactions[0])
        rows = [event for event in self.events if event["kind"] == Kind.CHANGE]
        groups = [list(group) for _, group in groupby(rows, _statement)]
        return next((group for group in groups if len(group) >= 3), groups[0] if groups else [])

    # --- one row ------------------------------------------------------------------------------------------------------

    def history(self) -> list[Event]:
        """The changes of one row in log order: an insert, then updates, at most five changes. Of the rows that match,
        one that is deleted at the end is preferred, then the one with most changes, then the first. Empty if no row
        matches, as in captures without keys."""
        rows: dict[tuple[Any, ...], list[Event]] = {}
        known = [event for event in self.events if event["kind"] in (Kind.CHANGE, Kind.AFTER) and event["position"]]
        for event in sorted(known, key=_moment):
            if event["key"]:
                rows.setdefault((self.table(event), *event["key"].items()), []).append(event)
        fitting = [events for events in rows.values() if _is_history(events)]
        return max(fitting, key=lambda events: (events[-1]["operation"] == Operation.DELETE, len(events)), default=[])

    @staticmethod
    def applied(history: Iterable[Event]) -> list[dict[str, Any] | None]:
        """The row after each of its changes, as a target that applies them stores it; None if the row does not
        exist."""
        row: dict[str, Any] | None = None
        states = []
        for event in history:
            deleted = event["operation"] == Operation.DELETE
            row = None if deleted else {**(row or {}), **event["key"], **(event["after"] or {})}
            states.append(row)
        return states

    def change_rows(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """A readable row for each record: ``record_code``, ``table``, ``position``, ``what``, ``file``, ``offset``,
        ``length``."""
        return [
            {
                "record_code": event["record_type"],
                "table": self.table(event),
                "position": event["position"],
                "what": self.sentence(event),
                "file": self.file(event),
                "offset": event["offset"],
                "length": event["length"],
            }
            for event in events
        ]

    def sentence(self, event: Event) -> str:
        """A sentence about a record."""
        headers = event["headers"] or {}
        if event["kind"] in (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK):
            time = f" at {moment(event['changed_at'])}" if event["changed_at"] is not None else ""
            user = f", by user {headers['user_id']}" if headers.get("user_id") else ""
            return f"{event['kind']}{time}{user}"
        if event["kind"] == Kind.UNDO:
            return "rollback to a savepoint: what the transaction did from this position on is undone"
        half = f", {event['kind']}" if event["kind"] in (Kind.BEFORE, Kind.AFTER) else ""
        words = f"{event['operation'] or event['kind']}{half}"
        image = event["after"] or event["before"] or {}
        key = event["key"] or {}
        named = event["changed_columns"] if event["kind"] != Kind.BEFORE else None
        both = event["before"] is not None and event["after"] is not None
        if named is None and (event["kind"] == Kind.AFTER or both):
            named = [row["column"] for row in self.compared(event) if row["changed"]]
        chosen = [name for name in (named if named is not None else image) if name in image]
        pairs = [*key.items(), *((name, image[name]) for name in chosen if name not in key)]
        left = len(pairs) - _SHOWN - len(key)
        shown = ", ".join(
            f"{name} = {'NULL' if value is None else value}" for name, value in pairs[: len(key) + _SHOWN]
        )
        return f"{words}: {shown}{f' and {left} more' if left > 0 else ''}" if shown else words


def open_lesson(path: Path, format: str, options: Mapping[str, Any] | None = None) -> Lesson:
    """Reads the small capture at ``path``. Raises CaptureError if it is not of the format, or larger than
    :data:`LARGEST`."""
    all_options = without_login(options or {})
    folder = path.absolute()
    paths = list_files(str(folder))
    total = sum(Path(file).stat().st_size for file in paths)
    if total > LARGEST:
        raise CaptureError(
            f"{size(total)} are too many to be read at once; up to {size(LARGEST)} are", path=str(folder)
        )
    reader = get_format(format)
    plan = reader.plan(paths, all_options, lambda function, tasks: [function(task) for task in tasks])
    batches = [batch for split in range(len(plan.splits)) for batch in reader.read(plan, split, EVERYTHING)]
    rows = pa.Table.from_batches(batches, schema=EVENTS).to_pylist()
    for row in rows:
        row |= {name: dict(row[name]) if row[name] is not None else None for name in _MAPS}
    rows.sort(key=lambda row: (row["file_index"], row["offset"]))
    if not any(row["kind"] not in (Kind.MALFORMED, Kind.FILLER) for row in rows):
        raise CaptureError(
            f"there is nothing in it that is {format}: {plural(len(rows), 'stretch', 'stretches')} of "
            "bytes that are not a record",
            path=str(folder),
        )
    return Lesson(reader, folder, all_options, rows, reader.table_versions(plan).to_pylist(), plan.detected)


def _shown(image: Mapping[str, Any] | None, name: str, key: Mapping[str, Any] | None) -> str:
    """A value of an image; the value of a key column may be in the key only."""
    for held in (image, key):
        if held is not None and name in held:
            return "NULL" if held[name] is None else str(held[name])
    return NOT_CAPTURED


def _moment(event: Event) -> tuple[Any, ...]:
    """Sort key of events in one transaction; the before image of an update precedes the after image."""
    return event["position"] or "", event["event_no"] or 0, event["kind"] != Kind.BEFORE


def _statement(event: Event) -> tuple[Any, ...]:
    headers = event["headers"] or {}
    return event["table_name"], headers.get("table_key"), event["changed_at"], event["operation"]


def _is_history(events: list[Event]) -> bool:
    """Whether the changes are an insert and updates with values, each once, and possibly a delete."""
    operations = [event["operation"] for event in events]
    last = operations[-1] == Operation.DELETE
    updates = operations[1 : -1 if last else None]
    return (
        _SHORTEST <= len(events) <= _LONGEST
        and operations[0] == Operation.INSERT
        and set(updates) == {Operation.UPDATE}
        and all(event["after"] for event in events[: -1 if last else None])
        and all(event["changed_columns"] != [] for event in events)
        and len({(event["position"], event["event_no"]) for event in events}) == len(events)
    )


def _has_update(events: list[Event]) -> bool:
    return any(event["operation"] == Operation.UPDATE for event in events)


def _is_whole(events: list[Event]) -> bool:
    """Whether a transaction is complete, as far as the source states it, and committed."""
    kinds = [event["kind"] for event in events]
    if Kind.ROLLBACK in kinds or Kind.UNDO in kinds:
        return False
    if Kind.BEGIN in kinds or Kind.COMMIT in kinds:
        return kinds[0] == Kind.BEGIN and kinds[-1] == Kind.COMMIT
    numbers = [event["event_no"] for event in events]
    if None not in numbers:
        return numbers == list(range(1, len(numbers) + 1)) and bool(events[-1]["last_in_transaction"])
    places = [(event["headers"] or {}).get("TransInd") for event in events]
    if None not in places:
        return places[0] == "0" and places[-1] == "2"
    return True


# --- terms ------------------------------------------------------------------------------------------------------------

_CHANGES: Final = (Kind.CHANGE, Kind.AFTER)


def row_to_target(lesson: Lesson) -> list[dict[str, Any]]:
    """The history of one row, a line for each change: ``number``; ``source_sentence``, an SQL statement that makes the
    change; ``position`` and ``log_sentence``, the content of its record; ``target_sentence``, the row in a target that
    applies it. Empty if no row matches."""
    history = lesson.history()
    lines = []
    for number, (event, row) in enumerate(zip(history, lesson.applied(history), strict=True), 1):
        changed = event["changed_columns"] or list(event["after"] or {})
        lines.append(
            {
                "number": number,
                "source_sentence": _sql(lesson, event, changed),
                "position": event["position"],
                "log_sentence": _record(event, changed),
                "target_sentence": "no row" if row is None else _pairs(row, list(row)),
            }
        )
    return lines


def _sql(lesson: Lesson, event: Event, changed: list[str]) -> str:
    table, where = lesson.table(event), _pairs(event["key"], list(event["key"]), " and ")
    after = event["after"] or {}
    if event["operation"] == Operation.DELETE:
        return f"DELETE FROM {table} WHERE {where}"
    if event["operation"] == Operation.INSERT:
        return f"INSERT INTO {table} VALUES ({', '.join(map(_value, {**event['key'], **after}.values()))})"
    return f"UPDATE {table} SET {_pairs(after, [name for name in changed if name in after])} WHERE {where}"


def _record(event: Event, changed: list[str]) -> str:
    before, after = event["before"] or {}, event["after"] or {}
    if event["operation"] == Operation.UPDATE:
        parts = [
            f"{name}: {f'{_value(before[name])} → ' if name in before else ''}{_value(after[name])}"
            for name in changed
            if name in after
        ]
        return f"UPDATE, {', '.join(parts)}"
    which, image = ("before", before) if event["operation"] == Operation.DELETE else ("after", after)
    if not image:
        return str(event["operation"])
    more = f" and {plural(len(image) - 1, 'more column')}" if len(image) > 1 else ""
    return f"{event['operation']}, {which}: {_pairs(image, [next(iter(image))])}{more}"


def _pairs(row: Mapping[str, Any], names: list[str], between: str = ", ") -> str:
    return between.join(f"{name} = {_value(row[name])}" for name in names if name in row)


def _value(value: str | None) -> str:
    """A value as an SQL literal; a text that reads as a number is a number."""
    if value is None:
        return "NULL"
    number = value.removeprefix("-").replace(".", "", 1)
    return value if number.isdecimal() and number.isascii() else "'" + value.replace("'", "''") + "'"


def delivery(lesson: Lesson) -> dict[str, Any]:
    """What a capture delivers, counted in the order of its files: ``snapshot`` rows, ``changes``, how many of both are
    repeated (``again``: equal bytes at the same position) and how many changes are out of order (``back``: below the
    position of the preceding change)."""
    rows = [event for event in lesson.events if event["kind"] in _CHANGES]
    changes = [event for event in rows if event["operation"] != Operation.REFRESH]
    identities = {(event["position"], event["raw"]) for event in rows if event["raw"] is not None}
    known = sum(event["raw"] is not None for event in rows)
    order = [event["position"] for event in changes if event["position"] is not None]
    return {
        "format_code": lesson.name,
        "snapshot": len(rows) - len(changes),
        "changes": len(changes),
        "again": known - len(identities),
        "back": sum(after < before for before, after in pairwise(order)),
    }


@dataclass(frozen=True, slots=True)
class _Position:
    """A kind of position. ``find`` returns its value in a record, None if it has none."""

    name: str
    format: str
    given_by: str
    orders: str
    find: Callable[[Event], str | None]


def _header(*names: str) -> Callable[[Event], str | None]:
    def find(event: Event) -> str | None:
        headers = event["headers"] or {}
        values = [headers.get(name) for name in names]
        return None if None in values else ", ".join(map(str, values))

    return find


def _lsn(event: Event) -> str | None:
    number = event["position"]
    return number and f"{number} (log {int(number[:8], 16)}, byte 0x{int(number[8:], 16):X})"


def _scn(event: Event) -> str | None:
    headers = event["headers"] or {}
    return headers.get("LOGCSN") if "ORAROWID" in headers else None


def _offset(event: Event) -> str | None:
    headers = event["headers"] or {}
    values = [headers.get(f"kafka.{name}") for name in ("partition", "offset")]
    return None if None in values else f"partition {values[0]}, offset {values[1]}"


def _trail(event: Event) -> str | None:
    headers = event["headers"] or {}
    values = [headers.get(name) for name in ("Trail", "RBA")]
    return None if None in values else f"{str(values[0]).rpartition('/')[2]}, RBA {values[1]}"


_POSITIONS: Final = (
    _Position(
        *("LSN, log sequence number", "gbase8s", "the database server, to each record of its log"),
        *("the records of one log", _lsn),
    ),
    _Position(
        *("SCN, system change number", "goldengate", "Oracle Database, to each commit and to other events"),
        *("the commits of one database", _scn),
    ),
    _Position(
        *("CSN, commit sequence number", "goldengate", "GoldenGate, from the number that the source gives a commit"),
        *("the commits of one source", _header("LOGCSN")),
    ),
    _Position(
        *("trail file and RBA", "goldengate", "GoldenGate, the file of the trail and the byte in it"),
        *("the records of one trail", _trail),
    ),
    _Position(
        *("changeSequence", "qlik-kafka", "Qlik Replicate, to each change of a task"),
        *("all changes of one task", _header("changeSequence")),
    ),
    _Position(
        *("change_seq", "qlik-change-table", "Qlik Replicate, to each change of a task"),
        *("all changes of one task", lambda event: event["position"]),
    ),
    _Position(
        *("LSN of PostgreSQL", "debezium", "the database server, to each record of its log"),
        *("the records of one log", _header("source.lsn")),
    ),
    _Position(
        *("offset", "qlik-kafka", "the Kafka broker, to each message"),
        *("the messages of one partition", _offset),
    ),
    _Position(
        *("record_id", "idm-event-log", "a sequence of the database, in the trigger"),
        *("the rows of one event log", _header("record_id")),
    ),
)


def positions(lessons: Mapping[str, Lesson]) -> list[dict[str, Any]]:
    """The kinds of position: ``name``, ``given_by``, ``orders``, ``format_code``, the ``value`` of a change as an
    example and its ``location``; both null if the captures have none."""
    rows = []
    for kind in _POSITIONS:
        lesson = lessons.get(kind.format)
        example = None if lesson is None else _first(lesson, kind.find)
        rows.append(
            {
                "name": kind.name,
                "given_by": kind.given_by,
                "orders": kind.orders,
                "format_code": kind.format,
                "value": example and example[1],
                "location": example and lesson and lesson.place(example[0]),
            }
        )
    return rows


def _first(lesson: Lesson, find: Callable[[Event], str | None]) -> tuple[Event, str] | None:
    """The first change that has a kind of position, and the position."""
    for event in lesson.events:
        value = find(event) if event["kind"] in _CHANGES and event["operation"] != Operation.REFRESH else None
        if value:
            return event, value
    return None
