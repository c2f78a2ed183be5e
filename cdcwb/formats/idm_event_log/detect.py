"""The options of an event log; what holds its rows; and which column of a source is which of the ten
(docs/formats/idm-event-log.md §1.1, §1.3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.containers.rows import FileProbe, numbered
from cdcwb.formats.containers.table_probe import (
    GIVEN,
    HEAD,
    DumpTables,
    conclusions,
    detected_rows,
    named_tables,
    probe_dump,
    probe_file,
)
from cdcwb.formats.dissector import ROW, Recognition, detected_row
from cdcwb.formats.files import in_file, open_source
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT, OLDER_ORDER
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.table_rows import SPLIT_SIZE, Options
from cdcwb.words import joined, plural, unique_names

__all__ = [
    "OPTIONS", "REDUCED", "Assignment", "LogOptions", "LogProbe", "assign", "detected_of", "find_null_text", "probe",
    "recognise", "recognise_rows",
]  # fmt: skip

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
    text = values.get("null_text")
    return None if text is None else "" if str(text).lower() in ("none", "empty") else str(text)


def _columns(_: str, value: Any) -> Mapping[str, str] | tuple[str, ...]:
    """A map of the vendor's names to those of the source, or the vendor's names in the order of the source."""
    if isinstance(value, str) and not value.lstrip().startswith("{") and "=" not in value and "," in value:
        value = [one.strip() for one in value.split(",")]
    if isinstance(value, Sequence) and not isinstance(value, str):
        order = tuple(str(one) or IGNORED for one in value)
        _check_columns([name for name in order if name != IGNORED], [name for name in order if name != IGNORED])
        return order
    given = opt.as_names("columns", value)
    known = set(COLUMNS)
    if not given:
        raise OptionError("option columns: expected names, found none")
    if not set(given) <= known and set(given.values()) <= known:
        given = {theirs: own for own, theirs in given.items()}
    _check_columns(given, list(given.values()))
    return given


def _check_columns(names: Collection[str], sources: Sequence[str]) -> None:
    opt.check_names(names, COLUMNS, "columns")
    twice = sorted({one for one in sources if sources.count(one) > 1})
    if twice:
        raise OptionError(f"option columns: {twice[0]!r} is given for two columns")


# --- which column is which --------------------------------------------------------------------------------------------

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
            near = opt.nearest(label, labels)
            raise OptionError(f"option columns: there is no column {label!r}.{near} There are: {', '.join(labels)}.")
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


# --- files -----------------------------------------------------------------------------------------------------------

_LIKELY: Final = 0.6
_SAMPLE: Final = 500
_BARE: Final = ("csv", "excel")  # where a text may be NULL


@dataclass(frozen=True, slots=True)
class LogProbe:
    """What a file is. ``labels``: the vendor's names -> the names of its columns. ``null_text``: the text of NULL
    besides that which the container has, and ``null_from`` why."""

    file: FileProbe
    assignment: Assignment
    labels: dict[str, str] = field(default_factory=dict)
    null_text: str = ""
    null_from: str = ""


def probe(path: str, options: LogOptions, quick: bool = False) -> LogProbe:
    """What a file is; ``quick``: only its beginning is looked at.

    Raises CaptureError for one that cannot be read, OptionError for options that it contradicts.
    """
    with in_file(path):
        dump = _dump(path, options, quick)
        if dump is not None:
            return dump
        table = _table(path, options)
        if table.assignment.how == "nothing" and table.file.kind == "csv":
            dump = _dump(path, options, quick, damaged=True)
        return table if dump is None else dump


# --- delimited text, JSON, Parquet, Excel -----------------------------------------------------------------------------


def _table(path: str, options: LogOptions) -> LogProbe:
    tokens = dict(options.tokens)
    given = options.null_text
    if given:
        tokens["null"] = given.encode(options.charset)
    found = _probed(path, options, tokens, options.header)
    assignment = _assigned(found, options)
    if found.kind == "csv" and found.header and options.header is None and _is_torn(found, assignment):
        other = _probed(path, options, tokens, False)
        again = _assigned(other, options)
        if again.how != "nothing" and other.width != found.width:
            found, assignment = other, again
    null_text, why = given or "", "" if given is None else "given as an option"
    if given is None and found.kind in _BARE:
        found, null_text, why = _with_null_text(found, assignment, options, tokens)
    labels = {name: found.columns[place] for name, place in assignment.places.items()}
    return LogProbe(found, assignment, labels, null_text, why)


def _with_null_text(
    found: FileProbe, assignment: Assignment, options: LogOptions, tokens: dict[str, bytes]
) -> tuple[FileProbe, str, str]:
    """A file with the text of NULL in it, and how that is known; in quotes it is a text."""
    told = find_null_text(found.sample, assignment.places)
    if told is None or found.kind != "csv":
        return found, *(told or ("", ""))
    again = _probed(found.path, options, {**tokens, "null": told[0].encode(options.charset)}, found.header)
    still = find_null_text(again.sample, assignment.places)
    return (again, *told) if still is None or still[0] != told[0] else (found, "", "")


def _probed(path: str, options: LogOptions, tokens: dict[str, bytes], header: bool | None) -> FileProbe:
    return probe_file(
        path, dialect_options=tokens, charset=options.charset, header=header, limit=_SAMPLE, sheet=options.sheet
    )


def _assigned(found: FileProbe, options: LogOptions) -> Assignment:
    if found.kind == "broken" or not found.width:
        return Assignment({}, "nothing", found.problem or "there are no rows", 0.0)
    return assign(found.columns, found.names is not None, found.sample, options)


def _is_torn(found: FileProbe, assignment: Assignment) -> bool:
    """May the header line be damaged? It does not name the columns, or no row is as long as it."""
    return assignment.how == "nothing" or not found.sample


def _settings_of(found: LogProbe, given: Collection[str]) -> Iterator[tuple[str, str, str, bool]]:
    """What was concluded about a file: setting, value, evidence, was it given?; ``given``: names of options."""
    if found.file.kind in _BARE or found.null_text:
        text = repr(found.null_text) if found.null_text else "none"
        if found.file.kind == "csv":
            text = f"{found.null_text!r} and empty, without quotes" if found.null_text else "empty, without quotes"
        why = found.null_from or "the default; no evidence against it"
        yield "null_text", text, why, "null_text" in given
    yield from conclusions(found.file, given)


# --- dumps of SQL statements ------------------------------------------------------------------------------------------


def _dump(path: str, options: LogOptions, quick: bool, damaged: bool = False) -> LogProbe | None:
    assignment, why = Assignment({}, "nothing", "", 0.0), ""

    def choose(tables: DumpTables) -> tuple[str, bool]:
        nonlocal assignment, why
        name, assignment, why = _chosen(tables, options)
        return name, assignment.confidence >= SURE

    file = probe_dump(
        path,
        choose,
        charset=options.charset,
        backslash=options.backslash,
        table=options.sql_table,
        limit=_SAMPLE,
        quick=quick,
        damaged=damaged,
    )
    if file is None:
        return None
    null_text = options.null_text or ""
    labels = {one: file.columns[place] for one, place in assignment.places.items()}
    file = replace(file, settings={**file.settings, "needed": list(labels.values()), "why": why})
    return LogProbe(file, assignment, labels, null_text, GIVEN if null_text else "")


def _chosen(tables: DumpTables, options: LogOptions) -> tuple[str, Assignment, str]:
    """The table that is the event log, which column is which in it, and why it is that."""
    names = list(tables) if options.sql_table is None else named_tables(tables, options.sql_table)
    best: tuple[str, Assignment] | None = None
    last: OptionError | None = None
    for name in names:
        _, columns, rows = tables[name]
        width = len(columns) if columns is not None else max((len(row) for row in rows), default=0)
        labels = unique_names(columns) if columns is not None else numbered(width)
        try:
            assignment = assign(labels, columns is not None, rows, options)
        except OptionError as error:
            last = error
            continue
        if best is None or assignment.confidence > best[1].confidence:
            best = name, assignment
    if best is None and last is not None:
        raise last
    if best is None:
        return "", Assignment({}, "nothing", "no statement has rows", 0.0), "no statement has rows"
    if len(tables) == 1:
        return *best, "the only table with rows in the part that was looked at"
    shown = joined(sorted(tables)[:8])
    return *best, f"its columns are those of an event log; the dump has rows of {shown}"


# --- what was detected ------------------------------------------------------------------------------------------------

_FILLED: Final = {
    "record_id": ("record_id is the number of the row", "no such column; rows are numbered from 1 in capture order"),
    "status": ("status is N", "no such column; all rows are processed as new"),
}
_ASSUMED: Final = {
    "charset": "the files do not give it; assumed",
    "time_zone": "event_time has no zone; assumed for values without one",
    "schema": "tables without a schema in their name have none",
}


def detected_of(probes: Sequence[LogProbe], options: LogOptions) -> list[dict[str, Any]]:
    """What was concluded about the files, as rows of ``detected``."""
    rows = detected_rows(_conclusions(probes, options))
    assumed = {"charset": options.charset, "time_zone": options.zone, "schema": options.schema}
    for setting, value in assumed.items():
        is_given = setting in options.names
        rows.append(detected_row(setting, value or "none", GIVEN if is_given else _ASSUMED[setting], is_given))
    return rows


def _conclusions(probes: Sequence[LogProbe], options: LogOptions) -> Iterator[tuple[str, str, str, bool, str]]:
    """What was concluded of each file: setting, value, evidence, was it given?, file."""
    for one in probes:
        yield "columns", _shown(one), one.assignment.evidence, one.assignment.how == "option", one.file.path
    for name, filled in _FILLED.items():
        lacking = (one for one in probes if one.labels and name not in one.labels)
        yield from (("columns", *filled, False, one.file.path) for one in lacking)
    settings = [(*said, one.file.path) for one in probes for said in _settings_of(one, options.names)]
    yield from sorted(settings, key=lambda said: _SETTINGS.index(said[0]))


_SETTINGS: Final = ("null_text", "delimiter", "header", "sheet", "sql_table", "backslash")


def _shown(one: LogProbe) -> str:
    """Which column is which, in the order of the source."""
    if not one.labels:
        return "none"
    back = {label: name for name, label in one.labels.items()}
    if one.assignment.how == "names" and all(name == label.casefold() for label, name in back.items()):
        return joined(list(back.values()))
    columns = [label for label in one.file.columns if label in back]
    return ", ".join(f"{back[label]}={label}" for label in columns or back)


# --- recognition ------------------------------------------------------------------------------------------------------

_FILES: Final = 8
_NOTHING: Final = Recognition(0.0, [f"no columns of {FORMAT} were found, by name or by position"])


def recognise(paths: Sequence[str], options: LogOptions) -> Recognition:
    """Looks for the vendor's column names in the first files, else for rows that hold what the columns do."""
    found = [one for path in paths[:_FILES] if (one := _of_file(path, options)) is not None]
    return max(found, key=lambda one: one.confidence) if found else _NOTHING


def recognise_rows(schema: pa.Schema) -> Recognition:
    """Looks for the vendor's column names among the columns of a table."""
    found = by_names([name for name in schema.names if name != ROW])
    if found is None:
        return _NOTHING
    return Recognition(found.confidence, [f"the table has the {found.evidence}"], "rows")


def _of_file(path: str, options: LogOptions) -> Recognition | None:
    """The recognition of one file; None where it is not even a table. Names and positions that were given as options do
    not show what the file is: its rows have to agree with them, unless it has the vendor's names."""
    try:
        seen = probe(path, options, quick=True)
    except OptionError as reason:
        of_files = (
            options.sheet,
            options.sql_table,
            options.columns,
            options.sorted_by,
        )  # auto passes by other formats
        return Recognition(SURE if any(of_files) else 0.0, [reason.message], refusal=reason)
    except (CaptureError, OSError):
        return None
    found = seen.assignment
    confidence, evidence = found.confidence, found.evidence
    if found.how == "nothing" and (refusal := _without_rows(path, options)) is not None:
        return Recognition(_LIKELY, [f"{Path(path).name} has an INSERT into an event log"], "sql", refusal)
    if found.how == "nothing" and seen.file.width:
        evidence += "; if it is an event log, name them with the option columns: record_id=NAME,table_key=NAME,…"
    if found.how in ("option", "sorted"):
        score, rows = _score(seen.file.sample, tuple(found.places), tuple(found.places.values()))
        evidence = f"columns {evidence}; {score:.0%} of the distinctive fields of {plural(rows, 'row')} agree"
        confidence = SURE * score if score >= ENOUGH else 0.0
        confidence = max(confidence, SURE if by_names(seen.file.columns) is not None else 0.0)
    return Recognition(confidence, [f"{Path(path).name} ({seen.file.kind}) has {evidence}"], seen.file.kind)


def _without_rows(path: str, options: LogOptions) -> CaptureError | None:
    """Why a script whose INSERT into an event log takes its rows from a SELECT is not read."""
    from cdcwb.formats.containers.sql import inserted_from_select

    with closing(open_source(path, "binary", HEAD)) as source:
        found = inserted_from_select(source.read(0, HEAD), options.charset)
    if found is None or (found[1] is not None and by_names(found[1]) is None):
        return None
    return CaptureError(
        f"this SQL script has no rows: its INSERT into {found[0]} selects them; run it, and export the "
        "table as INSERT statements with VALUES or as CSV",
        path=path,
    )
