"""Are these files change tables, full loads or control tables of Qlik?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.base import Recognition
from cdcwb.formats.qlik_change_table.facts import FORMAT, ROW
from cdcwb.formats.qlik_change_table.layout import control_table, find_prefix
from cdcwb.formats.qlik_change_table.names import from_path
from cdcwb.formats.qlik_change_table.options import OPTIONS, Options
from cdcwb.formats.qlik_change_table.probing import is_side_file, probe
from cdcwb.words import joined

__all__ = ["recognise", "recognise_rows"]

_FILES: Final = 8
_SURE: Final = 0.98
_NOTHING: Final = Recognition(0.0, [f"no header columns of {FORMAT}, no side file and no control table were found"])


def recognise(paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
    """Looks for header columns, side files and control tables in the first files; none of them: 0.

    Options of other formats are passed over.
    """
    try:
        given = Options.parse({name: value for name, value in options.items() if name in OPTIONS})
    except OptionError as reason:
        return Recognition(0.0, [reason.message])
    data = [path for path in paths if not is_side_file(path)]
    data.sort(key=lambda path: not from_path(path, given.suffix).suffixed)  # change tables before full loads
    found = [one for path in data[:_FILES] if (one := _of_file(path, given)) is not None]
    return max(found, key=lambda one: one.confidence) if found else _NOTHING


def recognise_rows(schema: pa.Schema) -> Recognition:
    """Looks for header columns and control tables among the columns of a table."""
    return _by_columns("the table", "rows", "", [name for name in schema.names if name != ROW], Options()) or _NOTHING


def _of_file(path: str, options: Options) -> Recognition | None:
    try:
        seen = probe((path, options))
    except (CaptureError, OSError):
        return None
    name = Path(path).name
    if seen.side is not None and seen.side.columns:
        beside = Path(seen.side.path).name
        return Recognition(0.99, [f"{name} has a side file {beside} that describes its columns"], seen.kind)
    if seen.kind == "broken" or not seen.columns:
        return None
    return _by_columns(name, seen.kind, from_path(path, options.suffix).name.table, seen.names, options)


def _by_columns(what: str, kind: str, table: str, names: Sequence[str], options: Options) -> Recognition | None:
    prefix = find_prefix(names, options.prefix)
    if prefix is not None and _is_telling(names, prefix.text):
        return Recognition(_SURE, [f"{what} ({kind}) has header columns: {prefix.evidence}"], kind)
    control = control_table(table, names)
    if control is not None and len(names) > 1:
        sentence = f"{what} ({kind}) has the columns of the control table {control}: {joined(names[:8])}"
        return Recognition(0.9, [sentence], kind)
    return None


def _is_telling(names: Sequence[str], prefix: str) -> bool:
    """Is there a header column that no other kind of table has?"""
    folded = {name.casefold() for name in names}
    return any(f"{prefix}{known}".casefold() in folded for known in ("change_seq", "change_oper", "change_mask"))
