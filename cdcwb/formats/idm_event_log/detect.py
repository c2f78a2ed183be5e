"""The options of an event log; what holds its rows; and which column of a source is which of the ten
(docs/formats/idm-event-log.md §1.1, §1.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.containers.rows import BROKEN, CSV, EXCEL, FileProbe, numbered
from cdcwb.formats.containers.table_probe import (
    GIVEN,
    HEAD,
    DumpTables,
    agreement,
    columns_named,
    conclusions,
    detected_rows,
    named_tables,
    probe_dump,
    probe_file,
    shown_columns,
)
from cdcwb.formats.dissector import ROW, Recognition, detected_row
from cdcwb.formats.files import in_file, open_source
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT, NEEDED, OLDER_ORDER, VALUES_LIKE
from cdcwb.formats.table_rows import Options
from cdcwb.words import joined, plural, unique_names

SORTED_BY: Final = ("byte", "ignore_case")
"""How names of columns are sorted where they give the positions."""


@dataclass(frozen=True, slots=True)
class LogOptions(Options):
    """The checked options of a capture. None: to be detected. ``columns``: the vendor's name -> the source's.
    ``null_text``: empty if there is none besides the empty field."""

    columns: Mapping[str, str] | None = None
    sort_column_names_by: str | None = None
    header: bool | None = None
    null_text: str | None = None
    time_zone: str = "UTC"
    schema: str | None = None


def as_columns(_: str, value: Any) -> Mapping[str, str]:
    """The names of the source's columns by those of the vendor's."""
    given = opt.as_names("columns", value)
    opt.check_names(given, COLUMNS, "columns")
    sources = list(given.values())
    twice = sorted({one for one in sources if sources.count(one) > 1})
    if twice or not given:
        found = f"{twice[0]!r} for two columns" if twice else "none"
        raise OptionError(f"option columns: expected a name of its own for each column, found {found}")
    return given


def as_sorting(name: str, value: Any) -> str | None:
    """How names of columns are sorted; None where they are not."""
    found = opt.as_choice(name, value, ("none", *SORTED_BY))
    return None if found == "none" else found


def as_null(_: str, value: Any) -> str:
    """The text of NULL; empty for none."""
    return "" if str(value).lower() in ("none", "empty") else str(value)


# --- which column is which --------------------------------------------------------------------------------------------

Row = Sequence[str | None]

NULL_TEXTS: Final = ("NULL", "null", "Null", "(null)", "[NULL]", "<NULL>", "\\N")
"""Texts that tools write for NULL."""

ENOUGH: Final = 0.75
"""The least share of the distinctive fields that have to agree, where nothing else shows what a column is."""

SURE: Final = 0.98
"""How sure names, or rows that agree, make it that something is an event log."""

_LEAST: Final = 3  # names that have to be known
_TELLING: Final = 3  # rows that have to be there for content alone to be sure
_ORDERS: Final = {COLUMNS: "newer order", OLDER_ORDER: "older order"}


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
    if options.sort_column_names_by is not None:
        return _by_sorting(labels, named, sample, options.sort_column_names_by)
    return (_by_names(labels) if named else None) or _by_position(labels, named, sample)


def _by_option(labels: Sequence[str], given: Mapping[str, str]) -> Assignment:
    known = {label.casefold(): place for place, label in reversed(list(enumerate(labels)))}
    known |= {label: place for place, label in enumerate(labels)}
    places = {}
    for name, label in given.items():
        place = known.get(label, known.get(label.casefold()))
        if place is None:
            near = opt.nearest(label, labels)
            raise OptionError(f"option columns: there is no column {label!r}.{near} There are: {', '.join(labels)}.")
        places[name] = place
    by_names = _by_names(labels)
    others = {} if by_names is None else by_names.places
    places |= {name: at for name, at in others.items() if name not in places and at not in places.values()}
    return Assignment(places, "option", "given as an option", 1.0)


def _by_sorting(labels: Sequence[str], named: bool, sample: Sequence[Row], how: str) -> Assignment:
    """Positions from sorted names, as a database that does not know positions has them (§1.1)."""
    if not named:
        raise OptionError("option sort_column_names_by: the columns have no names here")
    if len(labels) != len(COLUMNS):
        count = f"expected {len(COLUMNS)} columns, found {len(labels)}"
        raise OptionError(f"option sort_column_names_by: {count}: {joined(labels)}")

    def key(place: int) -> tuple[bytes, ...]:
        name = labels[place]
        folded = name.upper().lower() if how == "ignore_case" else name
        return folded.encode("utf-16-be"), name.encode("utf-16-be")

    places = sorted(range(len(labels)), key=key)
    names, _, shown_order = _best_order(sample, places)
    shown = joined([labels[place] for place in places])
    evidence = f"names sorted by {how.replace('_', ' ')} ({shown}); {shown_order}"
    return Assignment(dict(zip(names, places, strict=True)), "sorted", evidence, 1.0)


def _by_names(labels: Sequence[str]) -> Assignment | None:
    """The columns that have the vendor's names, in any case; None where they are too few."""
    places = columns_named(labels, {*COLUMNS, "table"})
    table = places.pop("table", None)
    if table is not None:
        places.setdefault("table_name", table)
    if not places.keys() >= NEEDED or len(places) < _LEAST:
        return None
    return Assignment(places, "names", shown_columns([labels[place] for place in places.values()]), SURE)


def _by_position(labels: Sequence[str], named: bool, sample: Sequence[Row]) -> Assignment:
    what = f"{plural(len(labels), 'column')} with " + ("names that are not the vendor's" if named else "no names")
    if sample and len(labels) == len(COLUMNS):
        names, score, shown_order = _best_order(sample, range(len(labels)))
        if score >= ENOUGH:
            sure = SURE if len(sample) >= _TELLING else 0.8
            places = {name: place for place, name in enumerate(names)}
            return Assignment(places, "position", f"{what}: {shown_order}", sure * score)
    shown = f"{what} ({joined(labels[:12])})" if named and labels else what
    return Assignment({}, "nothing", f"{shown}, whose content is not that of an event log", 0.0)


def _best_order(sample: Sequence[Row], places: Sequence[int]) -> tuple[tuple[str, ...], float, str]:
    """The published order that the rows agree with best (the newer one where both do as well), how well, and why."""
    scored = [
        (agreement(sample, dict(zip(names, places, strict=True)), VALUES_LIKE, NEEDED), names) for names in _ORDERS
    ]
    score, names = max(scored, key=lambda one: one[0])
    if not sample:
        return names, score, f"{_ORDERS[names]}, because no row shows it"
    spots = [f"{name} at {names.index(name) + 1}" for name in ("status", "table_key")]
    agree = f"{score:.0%} of the distinctive fields of {plural(len(sample), 'row')} agree"
    return names, score, f"{_ORDERS[names]}, with {' and '.join(spots)} ({agree})"


# --- the text of NULL -------------------------------------------------------------------------------------------------


def find_null_text(sample: Sequence[Row], places: Mapping[str, int]) -> tuple[str, str] | None:
    """A text that is where only NULL can be: in the old_value of type 1, or in the column_name of type 4 to 6. It, and
    how that is known; None where there is none."""
    only_null = {"1": "old_value", **dict.fromkeys("456", "column_name")}
    counts: dict[str, int] = {}
    for row in sample:
        values = {name: row[place] for name, place in places.items() if place < len(row)}
        value = values.get(only_null.get((values.get("event_type") or "").strip(), ""))
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
_BARE: Final = (CSV, EXCEL)  # where a text may be NULL


@dataclass(frozen=True, slots=True)
class LogProbe:
    """What a file is. ``null_text``: the text of NULL besides that which the container has, and ``null_from`` why."""

    file: FileProbe
    assignment: Assignment
    null_text: str = ""
    null_from: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The vendor's names -> the names of its columns."""
        return {name: self.file.columns[place] for name, place in self.assignment.places.items()}


def probe(path: str, options: LogOptions, quick: bool = False) -> LogProbe:
    """What a file is; ``quick``: only its beginning is looked at.

    Raises CaptureError for one that cannot be read, OptionError for options that it contradicts.
    """
    with in_file(path):
        found = _dump(path, options, quick) or _table(path, options)
        if found.assignment.how == "nothing" and found.file.kind == CSV:
            found = _dump(path, options, quick, damaged=True) or found
    return found


def _table(path: str, options: LogOptions) -> LogProbe:
    """Delimited text, JSON, Parquet, Excel. A text of NULL in quotes is a text."""

    def probed(null_text: str | None, header: bool | None = options.header) -> LogProbe:
        tokens = dict(options.tokens) | ({"null": null_text.encode(options.charset)} if null_text else {})
        file = probe_file(
            path, dialect_options=tokens, charset=options.charset, header=header, limit=_SAMPLE, sheet=options.sheet
        )
        if file.kind == BROKEN or not file.width:
            return LogProbe(file, Assignment({}, "nothing", file.problem or "there are no rows", 0.0))
        return LogProbe(file, assign(file.columns, file.names is not None, file.sample, options))

    given = options.null_text
    found = probed(given)
    if given is not None or found.file.kind not in _BARE:
        return replace(found, null_text=given or "", null_from="" if given is None else GIVEN)
    null = find_null_text(found.file.sample, found.assignment.places)
    if null is not None and found.file.kind == CSV:
        again = probed(null[0], found.file.header)
        still = find_null_text(again.file.sample, again.assignment.places)
        found, null = (found, None) if still is not None and still[0] == null[0] else (again, null)
    return found if null is None else replace(found, null_text=null[0], null_from=null[1])


def _dump(path: str, options: LogOptions, quick: bool, damaged: bool = False) -> LogProbe | None:
    """A dump of SQL statements; None for another file."""

    def choose(tables: DumpTables) -> tuple[str, bool]:
        found, wrong = dict[str, float](), None
        for name in list(tables) if options.sql_table is None else named_tables(tables, options.sql_table):
            _, columns, rows = tables[name]
            labels = unique_names(columns) if columns is not None else numbered(max(map(len, rows), default=0))
            try:
                found[name] = assign(labels, columns is not None, rows, options).confidence
            except OptionError as error:
                wrong = error
        if wrong is not None and not found:
            raise wrong
        best = max(found, key=found.__getitem__, default="")
        return best, found.get(best, 0.0) >= SURE

    charset, backslash = options.charset, options.backslash
    file = probe_dump(path, choose, charset=charset, backslash=backslash, limit=_SAMPLE, quick=quick, damaged=damaged)
    if file is None:
        return None
    assignment = Assignment({}, "nothing", "no statement has rows", 0.0)
    if file.settings["table"]:
        assignment = assign(file.columns, file.names is not None, file.sample, options)
    why = "the only table with rows in the part that was looked at"
    if len(file.settings["tables"]) > 1:
        why = f"its columns are those of an event log; the dump has rows of {joined(file.settings['tables'][:8])}"
    needed = [file.columns[place] for place in assignment.places.values()]
    file = replace(file, settings={**file.settings, "needed": needed, "why": why})
    return LogProbe(file, assignment, options.null_text or "", GIVEN if options.null_text else "")


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
_SETTINGS: Final = ("columns", "null_text", "delimiter", "header", "sheet", "sql_table", "backslash")


def detected_of(probes: Sequence[LogProbe], options: LogOptions) -> list[dict[str, Any]]:
    """What was concluded about the files, as rows of ``detected``."""
    said = [(*one, probe.file.path) for probe in probes for one in _conclusions(probe, options.names)]
    rows = detected_rows(sorted(said, key=lambda one: _SETTINGS.index(one[0])))
    for setting, value in (("charset", options.charset), ("time_zone", options.time_zone), ("schema", options.schema)):
        is_given = setting in options.names
        rows.append(detected_row(setting, value or "none", GIVEN if is_given else _ASSUMED[setting], is_given))
    return rows


def _conclusions(found: LogProbe, given: Collection[str]) -> Iterator[tuple[str, str, str, bool]]:
    """What was concluded about a file: setting, value, evidence, was it given?; ``given``: names of options."""
    places = found.assignment.places
    labels = {name: found.labels[name] for name in sorted(found.labels, key=lambda name: places[name])}
    shown = ", ".join(f"{name}={label}" for name, label in labels.items()) or "none"
    if found.assignment.how == "names" and all(name == label.casefold() for name, label in labels.items()):
        shown = joined(list(labels))
    yield "columns", shown, found.assignment.evidence, found.assignment.how == "option"
    yield from (("columns", *filled, False) for name, filled in _FILLED.items() if labels and name not in labels)
    if found.file.kind in _BARE or found.null_text:
        text = repr(found.null_text) if found.null_text else "none"
        if found.file.kind == CSV:
            text = f"{text} and empty, without quotes" if found.null_text else "empty, without quotes"
        yield "null_text", text, found.null_from or "the default; no evidence against it", "null_text" in given
    yield from conclusions(found.file, given)


# --- recognition ------------------------------------------------------------------------------------------------------

_NOTHING: Final = Recognition(0.0, [f"no columns of {FORMAT} were found, by name or by position"])


def recognise_rows(schema: pa.Schema) -> Recognition:
    """Looks for the vendor's column names among the columns of a table."""
    found = _by_names([name for name in schema.names if name != ROW])
    if found is None:
        return _NOTHING
    return Recognition(found.confidence, [f"the table has the {found.evidence}"], "rows")


def recognise_file(path: str, options: LogOptions) -> Recognition:
    """Looks for the vendor's column names in a file, else for rows that hold what the columns do. Names and positions
    that were given as options do not show what the file is: its rows have to agree with them, unless it has the
    vendor's names."""
    try:
        seen = probe(path, options, quick=True)
    except OptionError as reason:  # of an option about files: auto passes by other formats
        is_own = any((options.sheet, options.sql_table, options.columns, options.sort_column_names_by))
        return Recognition(SURE if is_own else 0.0, [reason.message], refusal=reason)
    except (CaptureError, OSError):
        return _NOTHING
    found, name, kind = seen.assignment, Path(path).name, seen.file.kind
    confidence, evidence = found.confidence, found.evidence
    if found.how == "nothing" and (refusal := _without_rows(path, options)) is not None:
        return Recognition(_LIKELY, [f"{name} has an INSERT into an event log"], "sql", refusal)
    if found.how == "nothing" and seen.file.width:
        evidence += "; if it is an event log, name them with the option columns: record_id=NAME,table_key=NAME,…"
    if found.how in ("option", "sorted"):
        score = agreement(seen.file.sample, found.places, VALUES_LIKE, NEEDED)
        rows = plural(len(seen.file.sample), "row")
        evidence = f"columns {evidence}; {score:.0%} of the distinctive fields of {rows} agree"
        by_names = 0.0 if _by_names(seen.file.columns) is None else SURE
        confidence = max(SURE * score if score >= ENOUGH else 0.0, by_names)
    return Recognition(confidence, [f"{name} ({kind}) has {evidence}"], kind)


def _without_rows(path: str, options: LogOptions) -> CaptureError | None:
    """Why a script whose INSERT into an event log takes its rows from a SELECT is not read."""
    from cdcwb.formats.containers.sql import inserted_from_select

    with closing(open_source(path, "binary", HEAD)) as source:
        found = inserted_from_select(source.read(0, HEAD), options.charset)
    if found is None or (found[1] is not None and _by_names(found[1]) is None):
        return None
    return CaptureError(
        f"this SQL script has no rows: its INSERT into {found[0]} selects them; run it, and export the "
        "table as INSERT statements with VALUES or as CSV",
        path=path,
    )
