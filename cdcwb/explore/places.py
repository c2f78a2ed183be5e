"""Where to go: a position, CSN, change_seq, record_id, offset, record number, or a time."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import OptionError
from cdcwb.explore.filters import ALIASES
from cdcwb.formats.options import nearest
from cdcwb.index.columns import Numbers, Texts, Times
from cdcwb.index.places import Index
from cdcwb.time_axis import micros
from cdcwb.words import joined, visible

__all__ = ["find", "places"]

_WANTED: Final = ("record", "offset", "position", "commit_position", "csn", "record_id", "time", "transaction")
_ALONE: Final = ("position", "commit_position", "csn", "record_id", "transaction")


def places(index: Index) -> list[str]:
    """What can be gone to in this capture: names of columns, and the sources' own names of them."""
    there = [name for name in _WANTED if name in index.columns]
    return there + [alias for alias in ("lsn", "change_seq") if ALIASES[alias] in there]


def find(index: Index, text: str, near: int) -> int:
    """The record that a text names: ``offset 0x1F40`` (in the file of the record ``near``, or ``stream-2.bin offset
    8000``), ``record 17``, ``position 0000000B03FE0050``, ``time 2025-03-23T10:57:19Z`` (the first at or after it), or
    a value alone, which is looked for as position, CSN, record_id, transaction, time and record number.

    A value that several records have gives the first behind ``near``, then the first of all. A position that no record
    has gives the next higher one. Raises OptionError that names what can be gone to.
    """
    words = text.split()
    if not words:
        raise OptionError(f"expected a target, such as {joined(places(index)[:3], 'or')} and its value")
    lower = words[0].lower().rstrip(":=")
    name = ALIASES.get(lower, lower)
    if len(words) == 3 and words[1].lower() == "offset":
        return _offset(index, words[2], _file(index, words[0]))
    if name == "offset" and len(words) == 2:
        return _offset(index, words[1], index.number("file_index", near))
    if name in _WANTED and len(words) >= 2:
        if name not in index.columns:
            raise OptionError(f"no record of this capture has a {name}. There are: {', '.join(places(index))}.")
        return _in_column(index, name, " ".join(words[1:]), near)
    if len(words) == 1 or _as_time(text) is not None:
        return _anywhere(index, text.strip(), near)
    raise OptionError(
        f"'{visible(words[0])}' is not something to go to.{nearest(lower, places(index))} "
        f"There are: {', '.join(places(index))}."
    )


def _anywhere(index: Index, value: str, near: int) -> int:
    for name in _ALONE:
        column = index.columns.get(name)
        found = None if column is None else _equal(column, value, near)
        if found is not None:
            return found
    if _as_time(value) is not None and re.search(r"[-:]", value):
        return _in_column(index, "time", value, near)
    if value.isdigit() and 1 <= int(value) <= index.records:
        return int(value) - 1
    if "position" in index.columns and re.fullmatch(r"[0-9A-Fa-f.:]+", value):
        return _in_column(index, "position", value, near)
    raise OptionError(f"no record has '{visible(value)}' as {joined(places(index), 'or')}")


def _in_column(index: Index, name: str, value: str, near: int) -> int:
    column = index.columns[name]
    if name == "record":
        number = _whole(value)
        if not 1 <= number <= index.records:
            raise OptionError(f"there are {index.records:,} records, no record {number:,}")
        return number - 1
    if isinstance(column, Times):
        time = _as_time(value)
        if time is None:
            raise OptionError(f"expected a time such as 2025-03-23T10:57:19Z, found '{visible(value)}'")
        return _next_higher(column, micros(time), f"no record has a time at or after {value}")
    found = _equal(column, value, near)
    if found is not None:
        return found
    if name in ("position", "commit_position") or isinstance(column, Numbers):
        bound: Any = _whole(value) if isinstance(column, Numbers) else _padded(column, value)
        return _next_higher(column, bound, f"no record has a {name} of {visible(value)} or higher")
    raise OptionError(f"no record has the {name} '{visible(value)}'")


def _equal(column: Any, value: str, near: int) -> int | None:
    if isinstance(column, Numbers):
        if not re.fullmatch(r"\d{1,18}", value):
            return None
        rows = np.flatnonzero(column.compare("==", int(value)))
    else:
        rows = np.flatnonzero(column.compare("==", value))
        if not len(rows) and isinstance(column, Texts):
            rows = np.flatnonzero(column.compare("==", _padded(column, value)))
        elif not len(rows) and value.upper() != value:
            rows = np.flatnonzero(column.compare("==", value.upper()))
    if not len(rows):
        return None
    later = int(np.searchsorted(rows, near, side="right"))
    return int(rows[later if later < len(rows) else 0])


def _padded(column: Any, value: str) -> str:
    """A position as the capture spells it: in capitals, with the zeros that stand before shorter ones."""
    first = column.values.drop_null()[:1].to_pylist()
    return value.upper().zfill(len(first[0])) if first and value.isalnum() else value.upper()


def _next_higher(column: Any, bound: Any, otherwise: str) -> int:
    """The first record of those with the lowest value that is not below the bound."""
    rows = np.flatnonzero(column.compare(">=", bound))
    if not len(rows):
        raise OptionError(otherwise)
    if isinstance(column, Numbers):
        return int(rows[int(np.argmin(column.values[rows]))])
    lowest = column.value(int(rows[0]))  # mostly: positions ascend
    lower = rows[column.compare("<", lowest)[rows]]
    if not len(lower):
        return int(rows[0])
    values = column.values.take(pa.array(lower))
    return int(lower[pc.index(values, pc.min(values)).as_py()])


def _offset(index: Index, text: str, file: int) -> int:
    offset = _whole(text)
    found = index.at(file, offset)
    if found is None:
        raise OptionError(f"no record begins before offset {offset:,}")
    return found


def _file(index: Index, name: str) -> int:
    for entry in index.files:
        if name in (str(entry["file"]), re.split(r"[/\\]", str(entry["file"]))[-1]):
            return int(entry["file_index"])
    names = [re.split(r"[/\\]", str(entry["file"]))[-1] for entry in index.files]
    raise OptionError(f"the capture has no file '{visible(name)}'.{nearest(name, names)}")


def _whole(text: str) -> int:
    plain = text.replace(",", "").replace("_", "").lower()
    try:
        return int(plain, 16 if plain.startswith("0x") else 10)
    except ValueError:
        raise OptionError(f"expected a whole number, found '{visible(text)}'") from None


def _as_time(text: str) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
