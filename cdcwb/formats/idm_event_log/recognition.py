"""Are these files rows of an event log?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.base import Recognition
from cdcwb.formats.files import open_source
from cdcwb.formats.idm_event_log.columns import ENOUGH, SURE, agreement, by_names, guess
from cdcwb.formats.idm_event_log.log import COLUMNS, FORMAT
from cdcwb.formats.idm_event_log.options import OPTIONS, Options
from cdcwb.formats.idm_event_log.plan import ROW, ROWS, SQL
from cdcwb.formats.idm_event_log.probing import Probe, probe
from cdcwb.formats.idm_event_log.sql_outline import inserted_from_select
from cdcwb.words import plural

__all__ = ["recognise", "recognise_rows"]

_FILES: Final = 8
_HEAD: Final = 1 << 20  # bytes in which statements are looked for
_LIKELY: Final = 0.6
_PLAIN: Final = re.compile(r"\w+")  # a name that needs no quotes on a command line
_NOTHING: Final = Recognition(0.0, [f"no columns of {FORMAT} were found, by name or by content"])


def recognise(paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
    """Looks for the vendor's column names in the first files, else for rows that hold what the columns do.

    Options of other formats are passed over.
    """
    try:
        given = Options.parse({name: value for name, value in options.items() if name in OPTIONS})
    except OptionError as reason:
        return Recognition(0.0, [reason.message])
    found = [one for path in paths[:_FILES] if (one := _of_file(path, given)) is not None]
    return max(found, key=lambda one: one.confidence) if found else _NOTHING


def recognise_rows(schema: pa.Schema) -> Recognition:
    """Looks for the vendor's column names among the columns of a table."""
    found = by_names([name for name in schema.names if name != ROW])
    if found is None:
        return _NOTHING
    return Recognition(found.confidence, [f"the table has the {found.evidence}"], ROWS)


def _of_file(path: str, options: Options) -> Recognition | None:
    """What one file says; None where it is not even a table.

    Names and positions that were given as options say nothing of what the file is: its rows have to agree with them.
    """
    try:
        seen = probe((path, replace(options, columns=None, sorted_by=None), True))
    except OptionError as reason:
        return Recognition(0.0, [reason.message], refusal=reason)
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


def _as_told(path: str, what: str, options: Options) -> Recognition:
    """What a file says whose columns were given as options."""
    try:
        seen = probe((path, options, True))
    except CaptureError as reason:
        return Recognition(0.0, [reason.message], refusal=reason)
    score, rows = agreement(seen.file.sample, seen.assignment.places)
    agree = f"{score:.0%} of the distinctive fields of {plural(rows, 'row')} agree"
    sentence = f"{what} has columns {seen.assignment.evidence}; {agree}"
    return Recognition(score * SURE if score >= ENOUGH else 0.0, [sentence], seen.file.kind)


def _without_rows(path: str, options: Options) -> CaptureError | None:
    """Why a script whose INSERT into an event log is fed by a SELECT is not read."""
    source = open_source(path, "binary", _HEAD)
    try:
        found = inserted_from_select(source.read(0, _HEAD), options.charset)
    finally:
        source.close()
    if found is None or (found[1] is not None and by_names(found[1]) is None):
        return None
    return CaptureError(
        f"this SQL script has no rows: its INSERT into {found[0]} selects them; run it, and export the "
        "table as INSERT statements with VALUES or as CSV",
        path=path,
    )


def _renamed(path: str, what: str, seen: Probe) -> Recognition:
    """What a table says whose columns are not known by name or position: how to name them, and whether its content is
    that of an event log."""
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
