"""Are these files rows of an event log?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.base import Recognition
from cdcwb.formats.idm_event_log.columns import by_names
from cdcwb.formats.idm_event_log.log import FORMAT
from cdcwb.formats.idm_event_log.options import OPTIONS, Options
from cdcwb.formats.idm_event_log.plan import ROW, ROWS
from cdcwb.formats.idm_event_log.probing import probe

__all__ = ["recognise", "recognise_rows"]

_FILES: Final = 8
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
    """What one file says. Names and positions that were given as options say nothing of what the file is."""
    bare = replace(options, columns=None, sorted_by=None)
    try:
        seen = probe((path, bare, True))
    except (CaptureError, OSError):
        return None
    if seen.assignment.confidence <= 0:
        return None
    sentence = f"{Path(path).name} ({seen.file.kind}) has {seen.assignment.evidence}"
    return Recognition(seen.assignment.confidence, [sentence], seen.file.kind)
