"""The columns of an index of places: arrays on a memory map, and what a comparison finds in them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.time_axis import time_of

__all__ = ["NO_TIME", "Bools", "Codes", "Column", "Numbers", "Texts", "Times", "mask_of_texts"]

Bools = npt.NDArray[np.bool_]

NO_TIME: Final = np.iinfo(np.int64).min
"""Stands for null in columns of numbers and times."""

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_ORDER: Final = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


class Column(Protocol):
    """A column as filters and pages see it. ``kind`` is text, number or time.

    Null equals null alone; no order and no search finds it.
    """

    kind: str

    def value(self, row: int) -> Any:
        """What stands in a row."""
        ...

    def compare(self, sign: str, value: Any) -> Bools:
        """The rows for which it holds; ``sign`` is ==, <, <=, >, >=, contains or matches, ``value`` of the column's
        kind; None only with ==. Raises ValueError for a pattern that is none."""
        ...


class Numbers:
    """Whole numbers, null as :data:`NO_TIME` (or -1 where nothing is below 0)."""

    kind = "number"

    def __init__(self, values: npt.NDArray[Any], null: int = NO_TIME, shift: int = 0) -> None:
        self.values = values
        self._null = null
        self._shift = shift

    def value(self, row: int) -> int | None:
        """The number, or None."""
        found = int(self.values[row])
        return None if found == self._null else found + self._shift

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        if value is None:
            return np.asarray(self.values == self._null)
        bound = value - self._shift
        if sign == "==":
            return np.asarray(self.values == bound) if bound != self._null else np.zeros(len(self.values), np.bool_)
        found = np.asarray(_ORDER[sign](self.values, bound))
        return found & (self.values != self._null) if sign in ("<", "<=") else found


class Times(Numbers):
    """Times as microseconds since 1970 UTC."""

    kind = "time"

    def value(self, row: int) -> Any:
        """The time in UTC, or None."""
        found = int(self.values[row])
        return None if found == NO_TIME else time_of(found)


class Texts:
    """Texts of which most are different."""

    kind = "text"

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    def value(self, row: int) -> str | None:
        """The text, or None."""
        found: str | None = self.values[row].as_py()
        return found

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        return mask_of_texts(self.values, sign, value)


class Codes:
    """Texts of which there are few: a code for each row, -1 for null. A text may have ``others``, such as a table its
    name without the schema: it equals them too."""

    kind = "text"

    def __init__(
        self, codes: npt.NDArray[Any], texts: pa.Array, others: Callable[[pa.Array], pa.Array] | None = None
    ) -> None:
        self.codes = codes
        self.texts = texts
        self._others = None if others is None else others(texts)

    def value(self, row: int) -> str | None:
        """The text, or None."""
        code = int(self.codes[row])
        found: str | None = None if code < 0 else self.texts[code].as_py()
        return found

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`Column`."""
        if value is None:
            return np.asarray(self.codes < 0)
        good = mask_of_texts(self.texts, sign, value)
        if self._others is not None and sign == "==":
            good |= mask_of_texts(self._others, sign, value)
        return self.rows_of(good)

    def has(self, text: str) -> bool:
        """Whether a row may equal the text."""
        texts = [self.texts] if self._others is None else [self.texts, self._others]
        return any(mask_of_texts(one, "==", text).any() for one in texts)

    def code_of(self, text: str) -> int:
        """The code of a text, -1 where there is none."""
        found: int = pc.index(self.texts, pa.scalar(text, self.texts.type)).as_py()
        return found

    def rows_of(self, good: Bools) -> Bools:
        """The rows whose text is among the good ones, given by their codes."""
        chosen = np.flatnonzero(good)
        if len(chosen) == 0:
            return np.zeros(len(self.codes), np.bool_)
        if len(chosen) == 1:
            return np.asarray(self.codes == chosen[0].astype(self.codes.dtype))
        found: Bools = np.append(good, False)[self.codes]  # -1 is the last
        return found


def mask_of_texts(texts: pa.Array, sign: str, value: Any) -> Bools:
    """Which of the texts a comparison holds for; null fits no text."""
    if value is None:
        found = texts.is_null()
    elif sign == "==":
        found = pc.equal(texts, pa.scalar(value, texts.type))
    elif sign == "contains":
        found = pc.match_substring(texts, value)
    elif sign == "matches":
        try:
            found = pc.match_substring_regex(texts, value)  # linear in the length of the text
        except pa.ArrowInvalid:
            raise ValueError("expected a regular expression") from None
    else:
        found = _TEXT_ORDER[sign](texts, pa.scalar(value, texts.type))
    mask: Bools = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask
