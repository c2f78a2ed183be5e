"""The options of an event log, and which column of a source is which of the ten
(docs/formats/idm-event-log.md §1.1, §1.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.idm_event_log.layout import COLUMNS, OLDER_ORDER
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.options import nearest
from cdcwb.formats.table_rows import SPLIT_SIZE, Options
from cdcwb.words import joined, plural

__all__ = [
    "ENOUGH",
    "IGNORED",
    "NULL_TEXTS",
    "OPTIONS",
    "REDUCED",
    "SORTED_BY",
    "SURE",
    "Assignment",
    "LogOptions",
    "agreement",
    "assign",
    "find_null_text",
    "guess",
]

SORTED_BY: Final = ("byte", "ignore_case")
"""How names of columns are sorted where they give the positions."""

IGNORED: Final = "-"
"""In a list of columns: a column that is not one of the ten."""

OPTIONS: Final[dict[str, str]] = {
    "columns": "which column is which: auto, record_id=ID,table_key=KEY, or all ten names in the order of the source",
    "sort_column_names_by": f"names of columns, sorted, give their positions: none, {', '.join(SORTED_BY)}",
    "header": "delimited files begin with a line of column names: auto, true, false",
    "delimiter": r"delimiter of fields: auto, or the text itself (0x01, \t)",
    "quote": "quote around fields: auto, none, or the character",
    "charset": "character set of text (utf-8)",
    "null_text": "the text of NULL, without quotes: auto, none, or the text",
    "sheet": "sheet of an Excel file: auto (the first), or its name",
    "sql_table": "table of an SQL dump whose rows are read: auto, or schema.table",
    "backslash": "a backslash in the strings of an SQL dump is an escape: auto, true, false",
    "time_zone": "zone of event_time: UTC, +02:00, Europe/Berlin …",
    "schema": "schema of tables without a schema in their name",
    "split_size": f"bytes of a large file that one task reads ({SPLIT_SIZE})",
    "inflate_limit": opt.INFLATE_LIMIT,
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: without values and bytes",
}
"""Every option of the format and what it means."""


@dataclass(frozen=True, slots=True)
class LogOptions(Options):
    """The checked options of a capture. None: to be detected. ``columns``: the vendor's name -> name or number (from 1)
    of the source's, or the vendor's names by position."""

    columns: Mapping[str, str] | tuple[str, ...] | None = None
    sorted_by: str | None = None
    header: bool | None = None
    null_text: str | None = None
    zone: str = "UTC"
    schema: str | None = None

    @classmethod
    def of(cls, common: Options, given: Mapping[str, Any]) -> LogOptions:
        """The options of rows of tables, and those of event logs from names and values. Raises OptionError."""
        sorted_by = opt.optional("sort_column_names_by", given, opt.as_choice, ("none", *SORTED_BY))
        sorted_by = None if sorted_by == "none" else sorted_by
        columns = opt.optional("columns", given, _columns)
        if columns is not None and sorted_by is not None:
            raise OptionError("options columns, sort_column_names_by: give only one of them")
        return cls(
            **{one.name: getattr(common, one.name) for one in fields(Options)},
            columns=columns,
            sorted_by=sorted_by,
            header=opt.optional("header", given, opt.as_bool),
            null_text=_null_text(given),
            zone=_zone(given),
            schema=opt.optional("schema", given, opt.as_text),
        )


def _zone(values: Mapping[str, Any]) -> str:
    text = str(values.get("time_zone", "UTC"))
    parse_zone(text)
    return text


def _null_text(values: Mapping[str, Any]) -> str | None:
    """The text of NULL; empty: there is none besides the empty field."""
    if "null_text" not in values:
        return None
    text = str(values["null_text"])
    return "" if text.lower() in ("none", "empty") else text


def _columns(_: str, value: Any) -> Mapping[str, str] | tuple[str, ...]:
    """A map of the vendor's names to those of the source, or the vendor's names in the order of the source."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _in_order([str(one) for one in value])
    if isinstance(value, str) and not value.lstrip().startswith("{") and "=" not in value and "," in value:
        return _in_order([one.strip() for one in value.split(",")])
    given = opt.as_names("columns", value)
    known = set(COLUMNS)
    if not given:
        raise OptionError("option columns: expected names, found none")
    if not set(given) <= known and set(given.values()) <= known:
        given = {theirs: own for own, theirs in given.items()}
    opt.check_names(given, COLUMNS, "columns")
    twice = sorted({one for one in given.values() if list(given.values()).count(one) > 1})
    if twice:
        raise OptionError(f"option columns: {twice[0]!r} is given for two columns")
    return given


def _in_order(names: Sequence[str]) -> tuple[str, ...]:
    chosen = [name for name in names if name and name != IGNORED]
    opt.check_names(chosen, COLUMNS, "columns")
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise OptionError(f"option columns: {twice[0]!r} is given for two columns")
    return tuple(name or IGNORED for name in names)


Row = Sequence[str | None]

REDUCED: Final = ("event_type", "table_name", "table_key", "column_name", "old_value", "new_value")
"""The six columns of the examples in the vendor's documentation, where ``table_name`` is headed ``table`` (§1.3)."""

NULL_TEXTS: Final = ("NULL", "null", "Null", "(null)", "[NULL]", "<NULL>", "\\N")
"""Texts that tools write for NULL."""

ENOUGH: Final = 0.75
"""The least share of the distinctive fields that have to agree, where nothing else shows what a column is."""

SURE: Final = 0.98
"""How sure names, or rows that agree, make it that something is an event log."""

_NEEDED: Final = frozenset({"event_type", "table_key"})
_LEAST: Final = 3  # names that have to be known
_TELLING: Final = 3  # rows that have to be there for content alone to be sure
_LETTERS: Final = frozenset("NSWEF")
_TYPES: Final = frozenset("12345678")
_NUMBER: Final = re.compile(r"\d{1,19}")
_KEY: Final = re.compile(r"\s*[\w$#@\"`\[\]]+\s*=.*", re.DOTALL)
_BASE64: Final = re.compile(r"[\w+/]{2,}={1,2}")  # not a name with an empty value
_TIME: Final = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:\D.*)?|\d{4}-?[01]\d-?[0-3]\d.*")
_MOSTLY: Final = 0.9  # of a column's values, for a guess at what it is
_SPACES: Final = re.compile(r"[\s\-.]+")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which column is which: ``places`` maps names of the vendor's to places in the source. ``how``: option, sorted,
    names, position or nothing. ``confidence``: how sure it is that this is an event log at all, from 0 to 1."""

    places: Mapping[str, int]
    how: str
    evidence: str
    confidence: float

    @property
    def absent(self) -> tuple[str, ...]:
        """The columns that the source does not have."""
        return tuple(name for name in COLUMNS if name not in self.places)


def assign(labels: Sequence[str], named: bool, sample: Sequence[Row], options: LogOptions) -> Assignment:
    """Which column is which. ``labels``: the names of the source's columns; ``named``: are they names, or made up?

    Options go before names, names before positions. Without any of them nothing is assigned (``how``: nothing). Raises
    OptionError for options that the source contradicts.
    """
    if options.columns is not None:
        return _by_option(labels, options.columns)
    if options.sorted_by is not None:
        return _by_sorting(labels, named, sample, options.sorted_by)
    if named:
        found = by_names(labels)
        if found is not None:
            return found
    return _by_position(labels, named, sample)


def _by_option(labels: Sequence[str], given: Mapping[str, str] | tuple[str, ...]) -> Assignment:
    if isinstance(given, tuple):
        if len(given) > len(labels):
            raise OptionError(
                f"option columns: {plural(len(given), 'name')} for {plural(len(labels), 'column')}: {joined(labels)}"
            )
        places = {name: place for place, name in enumerate(given) if name != IGNORED}
        return Assignment(places, "option", "given as an option, by position", 1.0)
    places = {}
    folded = {label.casefold(): place for place, label in reversed(list(enumerate(labels)))}
    for name, label in given.items():
        place = folded.get(label.casefold())
        if label in labels:
            place = labels.index(label)
        elif place is None and label.isdigit() and 1 <= int(label) <= len(labels):
            place = int(label) - 1
        if place is None:
            raise OptionError(
                f"option columns: there is no column {label!r}.{nearest(label, labels)} There are: {', '.join(labels)}."
            )
        places[name] = place
    rest = by_names(labels)
    for name, place in ({} if rest is None else rest.places).items():
        if name not in places and place not in places.values():
            places[name] = place
    return Assignment(places, "option", "given as an option, by name", 1.0)


def _by_sorting(labels: Sequence[str], named: bool, sample: Sequence[Row], how: str) -> Assignment:
    """Positions from sorted names, as a database that does not know positions has them (§1.1)."""
    if not named:
        raise OptionError("option sort_column_names_by: the columns have no names here")
    if len(labels) != len(COLUMNS):
        raise OptionError(
            f"option sort_column_names_by: expected {len(COLUMNS)} columns, found {len(labels)}: {joined(labels)}"
        )
    places = sorted(range(len(labels)), key=lambda place: _sort_key(labels[place], how))
    chosen, score, rows = _order_of(sample, places)
    names = COLUMNS if chosen is None else chosen
    shown = joined([labels[place] for place in places])
    told = _told(names, score, rows) if chosen is not None else "newer order, because no row shows it"
    evidence = f"names sorted by {how.replace('_', ' ')} ({shown}); {told}"
    return Assignment(dict(zip(names, places, strict=True)), "sorted", evidence, 1.0)


def _sort_key(name: str, how: str) -> tuple[bytes, ...]:
    if how == "ignore_case":
        return name.upper().lower().encode("utf-16-be"), name.encode("utf-16-be")
    return (name.encode("utf-16-be"),)


def by_names(labels: Sequence[str]) -> Assignment | None:
    """The columns that have the vendor's names, in any case; None where they are too few."""
    places: dict[str, int] = {}
    for place, label in enumerate(labels):
        folded = _SPACES.sub("_", label.strip().casefold())
        if folded in COLUMNS:
            places.setdefault(folded, place)
    for place, label in enumerate(labels):
        if label.strip().casefold() == "table" and "table_name" not in places:
            places["table_name"] = place
    if not places.keys() >= _NEEDED or len(places) < _LEAST:
        return None
    shown = joined([labels[place] for place in places.values()])
    return Assignment(places, "names", f"columns {shown}", SURE)


# --- positions --------------------------------------------------------------------------------------------------------


def _by_position(labels: Sequence[str], named: bool, sample: Sequence[Row]) -> Assignment:
    what = "names that are not the vendor's" if named else "no names"
    width = len(labels)
    places = list(range(width))
    if width == len(COLUMNS):
        names, score, rows = _order_of(sample, places)
        if names is not None and score >= ENOUGH:
            sure = SURE if rows >= _TELLING else 0.8
            evidence = f"{width} columns with {what}: {_told(names, score, rows)}"
            return Assignment(dict(zip(names, places, strict=True)), "position", evidence, sure * score)
        if not sample and not named:
            evidence = "ten columns without names and rows: newer order"
            return Assignment(dict(zip(COLUMNS, places, strict=True)), "position", evidence, 0.0)
    if width == len(REDUCED):
        score, rows = _score(sample, REDUCED, places)
        if rows and score >= ENOUGH:
            evidence = (
                f"six columns with {what}: {score:.0%} of the fields in the positions of event_type and "
                f"table_key have valid values ({plural(rows, 'row')})"
            )
            return Assignment(dict(zip(REDUCED, places, strict=True)), "position", evidence, 0.85 * score)
    shown = f"{plural(width, 'column')} with {what}" + (f" ({joined(labels[:12])})" if named and width else "")
    return Assignment({}, "nothing", f"{shown}, whose content is not that of an event log", 0.0)


def _order_of(sample: Sequence[Row], places: Sequence[int]) -> tuple[tuple[str, ...] | None, float, int]:
    """The published order that the rows agree with best, how well, and the number of rows; None: nothing shows it."""
    if not sample:
        return None, 0.0, 0
    scored = [(_score(sample, names, places), names) for names in (COLUMNS, OLDER_ORDER)]
    (score, rows), best = max(scored, key=lambda one: one[0][0])  # the newer one where both do as well
    return best, score, rows


def _score(sample: Sequence[Row], names: Sequence[str], places: Sequence[int]) -> tuple[float, int]:
    """How many of the telling fields hold what belongs there, of those that hold something, and how many rows."""
    at = dict(zip(names, places, strict=True))
    good = told = 0
    for row in sample:
        for name in ("record_id", "status", "event_type", "table_key"):
            value = row[at[name]] if name in at and at[name] < len(row) else None
            if name in at and (value or name in ("event_type", "table_key")):
                told += 1
                good += value is not None and _fits(name, value)
    return (good / told if told else 0.0), len(sample)


def agreement(sample: Sequence[Row], places: Mapping[str, int]) -> tuple[float, int]:
    """How many of the telling fields (record_id, status, event_type, table_key) hold what belongs there, from 0 to 1,
    and in how many rows; ``places`` as in :class:`Assignment`."""
    return _score(sample, tuple(places), tuple(places.values()))


def guess(sample: Sequence[Row], width: int) -> dict[str, int]:
    """Columns whose content looks like that of an event log's, whatever their names are: names of the vendor's to
    places. Empty unless one holds event types and another table keys."""
    found: dict[str, int] = {}
    columns = [[row[place] for row in sample if place < len(row)] for place in range(width)]
    numbers = [place for place in range(width) if _rises(columns[place])]
    for name, fits in _CONTENT.items():
        good = [place for place in range(width) if place not in found.values() and _mostly(columns[place], fits)]
        good = [place for place in good if (place in numbers) is (name == "record_id")] or good
        if good:
            found[name] = good[0]
    return found if found.keys() >= _NEEDED else {}


def _mostly(values: Sequence[str | None], fits: Callable[[str], object]) -> bool:
    """Do nearly all values of a column fit?"""
    return sum(value is not None and bool(fits(value)) for value in values) >= max(1, _MOSTLY * len(values))


def _rises(values: Sequence[str | None]) -> bool:
    """Are the values of a column growing numbers, as those of record_id are?"""
    if any(value is None or _NUMBER.fullmatch(value) is None for value in values):
        return False
    return all(int(one or 0) < int(other or 0) for one, other in pairwise(values)) and len(values) > 1


_CONTENT: Final[dict[str, Callable[[str], object]]] = {
    "table_key": lambda value: _KEY.fullmatch(value) and not _BASE64.fullmatch(value),
    "event_type": lambda value: value.strip() in _TYPES,
    "status": _LETTERS.__contains__,
    "record_id": _NUMBER.fullmatch,
    "event_time": _TIME.fullmatch,
}
"""What shows a column by its content, the surest first."""


def _fits(name: str, value: str) -> bool:
    if name == "status":
        return value in _LETTERS
    if name == "event_type":
        return value.strip() in _TYPES
    if name == "table_key":
        return "=" in value
    return _NUMBER.fullmatch(value.strip()) is not None


def _told(names: Sequence[str], score: float, rows: int) -> str:
    order = "newer" if tuple(names) == COLUMNS else "older"
    status, key = names.index("status") + 1, names.index("table_key") + 1
    return (
        f"{order} order, with status at {status} and table_key at {key} "
        f"({score:.0%} of the distinctive fields of {plural(rows, 'row')} agree)"
    )


# --- the text of NULL -------------------------------------------------------------------------------------------------


def find_null_text(sample: Sequence[Row], places: Mapping[str, int]) -> tuple[str, str] | None:
    """A text that is where only NULL can be: in the old_value of type 1, or in the column_name of type 4 to 6. It, and
    how that is known; None where there is none."""
    event_type = places.get("event_type")
    if event_type is None:
        return None
    counts: dict[str, int] = {}
    for row in sample:
        kind = (row[event_type] or "").strip() if event_type < len(row) else ""
        name = "old_value" if kind == "1" else "column_name" if kind in ("4", "5", "6") else None
        place = places.get(name) if name else None
        value = row[place] if place is not None and place < len(row) else None
        if value in NULL_TEXTS:
            counts[value] = counts.get(value, 0) + 1
    if not counts:
        return None
    text = max(counts, key=lambda one: counts[one])
    where = "the old_value of type 1 or the column_name of types 4 to 6"
    return text, f"{plural(counts[text], 'row')} of the first have it as {where}, where only NULL is valid"
