"""Values on their way into text: what is in the message or file, and beside it the text that the truth has.

A *cell* is the pair of both. The functions here give, for a column, its cells by their values (None: NULL). Values come
out of small pools, so cells are made once and remembered for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final

from cdcwb_synth.qlik.columns import NUMBERS, Described, plain

__all__ = ["Cell", "Cells", "csv_cells", "json_cells", "spelled_cells"]

Cell = tuple[Any, str | None]

_REMEMBERED: Final = 8192


class Cells(dict[Any, Cell]):
    """The cells of a column by their values: ``make`` is asked for one that is not there; ``null`` is that of None."""

    __slots__ = ("_make", "_null")

    def __init__(self, make: Callable[[Any], Cell], null: Cell) -> None:
        super().__init__({None: null})
        self._make, self._null = make, null

    def __missing__(self, value: Any) -> Cell:
        if len(self) > _REMEMBERED:
            self.clear()
            self[None] = self._null
        made = self[value] = self._make(value)
        return made


class _Floats(Cells):
    """Likewise, for floats: 0.0 and -0.0 are equal, but not the same."""

    __slots__ = ()

    def __missing__(self, value: Any) -> Cell:
        return self._make(value) if value == 0 else super().__missing__(value)


def spelled_cells(column: Described, make: Callable[[Any], Cell], null: Cell) -> Cells:
    """The cells of a column, by the type that it has."""
    return (_Floats if column.type in ("REAL4", "REAL8") else Cells)(make, null)


def json_cells(column: Described) -> Cells:
    """A member of a JSON object: ``"name":value``, numbers and booleans without quotes."""
    spelled, prefix = plain(column), encode_basestring(column.name) + ":"
    null = (prefix + "null", None)

    def number(value: Any) -> Cell:
        text = spelled(value)
        return prefix + text, text

    def string(value: Any) -> Cell:
        text = spelled(value)
        return prefix + encode_basestring(text), text

    return spelled_cells(column, number if column.type in NUMBERS else string, null)


def csv_cells(column: Described, null_value: str, escape: str) -> Cells:
    """A field of a delimited file: texts in quotes, everything else bare; quotes inside doubled, or with the character
    ``escape`` before them, which then precedes itself, too."""
    spelled = plain(column)

    def bare(value: Any) -> Cell:
        text = spelled(value)
        return text, text

    def quoted(value: Any) -> Cell:
        text = spelled(value)
        inner = text.replace(escape, escape * 2).replace('"', escape + '"') if escape else text.replace('"', '""')
        return f'"{inner}"', text

    return spelled_cells(column, quoted if column.type in ("STRING", "CLOB") else bare, (null_value, None))
