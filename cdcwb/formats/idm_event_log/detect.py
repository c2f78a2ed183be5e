"""What files are, from their beginnings: what holds their rows, and whether these are rows of an event log."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.containers.rows import SQL, FileProbe, numbered
from cdcwb.formats.containers.sql import inserted_from_select
from cdcwb.formats.containers.table_probe import (
    GIVEN,
    DumpTables,
    conclusions,
    detected_rows,
    named_tables,
    probe_dump,
    probe_file,
)
from cdcwb.formats.dissector import ROW, Recognition, detected_row
from cdcwb.formats.files import in_file, open_source
from cdcwb.formats.idm_event_log.columns import (
    ENOUGH,
    SURE,
    Assignment,
    LogOptions,
    agreement,
    assign,
    by_names,
    find_null_text,
    guess,
)
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT
from cdcwb.words import joined, plural, unique_names

__all__ = ["LogProbe", "detected_of", "probe", "recognise", "recognise_rows"]

_HEAD: Final = 1 << 20  # bytes that distinguish a dump from delimited text
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
_LIKELY: Final = 0.6
_PLAIN: Final = re.compile(r"\w+")  # a name that needs no quotes on a command line
_NOTHING: Final = Recognition(0.0, [f"no columns of {FORMAT} were found, by name or by content"])


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
    """The recognition of one file; None where it is not even a table.

    Names and positions that were given as options do not show what the file is: its rows have to agree with them.
    """
    try:
        seen = probe(path, replace(options, columns=None, sorted_by=None), quick=True)
    except OptionError as reason:
        only_here = options.sheet is not None or options.sql_table is not None  # no other format has these options
        return Recognition(SURE if only_here else 0.0, [reason.message], refusal=reason)
    except (CaptureError, OSError):
        return None
    found, what = seen.assignment, f"{Path(path).name} ({seen.file.kind})"
    told = _as_told(path, what, options) if options.columns is not None or options.sorted_by is not None else None
    if found.confidence > 0:
        refusal = None if told is None else told.refusal
        return Recognition(found.confidence, [f"{what} has {found.evidence}"], seen.file.kind, refusal)
    if told is not None:
        return told
    refusal = _without_rows(path, options)
    if refusal is not None:
        name = Path(path).name
        return Recognition(_LIKELY, [f"{name} has an INSERT into an event log"], SQL, refusal)
    if not seen.file.sample:
        return None
    return _renamed(path, what, seen)


def _as_told(path: str, what: str, options: LogOptions) -> Recognition:
    """The recognition of a file whose columns were given as options."""
    try:
        seen = probe(path, options, quick=True)
    except CaptureError as reason:
        return Recognition(0.0, [reason.message], refusal=reason)
    score, rows = agreement(seen.file.sample, seen.assignment.places)
    agree = f"{score:.0%} of the distinctive fields of {plural(rows, 'row')} agree"
    sentence = f"{what} has columns {seen.assignment.evidence}; {agree}"
    return Recognition(score * SURE if score >= ENOUGH else 0.0, [sentence], seen.file.kind)


def _without_rows(path: str, options: LogOptions) -> CaptureError | None:
    """Why a script whose INSERT into an event log is fed by a SELECT is not read."""
    with closing(open_source(path, "binary", _HEAD)) as source:
        found = inserted_from_select(source.read(0, _HEAD), options.charset)
    if found is None or (found[1] is not None and by_names(found[1]) is None):
        return None
    return CaptureError(
        f"this SQL script has no rows: its INSERT into {found[0]} selects them; run it, and export the "
        "table as INSERT statements with VALUES or as CSV",
        path=path,
    )


def _renamed(path: str, what: str, seen: LogProbe) -> Recognition:
    """The recognition of a table whose columns are not known by name or position: how to name them, and whether its
    content is that of an event log."""
    labels = seen.file.columns
    places = guess(seen.file.sample, len(labels))
    sources = {
        name: labels[place] if _PLAIN.fullmatch(labels[place]) else str(place + 1) for name, place in places.items()
    }
    columns = ",".join(f"{name}={sources.get(name, '…')}" for name in COLUMNS)
    advice = f"--format {FORMAT} -o columns={columns}"
    lacking = "do not have the vendor's names" if seen.file.names is not None else "have no names"
    if places:
        holds = f"{sources['event_type']} holds event types and {sources['table_key']} table keys"
        sentence = f"this looks like an event log whose columns {lacking}"
    else:
        holds = seen.assignment.evidence
        sentence = f"{holds}; if it is one, name its columns"
    refusal = CaptureError(
        f"{sentence}; assign the columns by name or number (from 1), and leave out those that do not exist:",
        path=path,
        advice=(advice,),
    )
    return Recognition(_LIKELY if places else 0.0, [f"{what}: {holds}"], seen.file.kind, refusal)
