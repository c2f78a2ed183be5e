"""Columns of a table that a format knows: found by their names, or by what the first rows hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cdcwb.words import joined

_SEPARATORS: Final = re.compile(r"[\s\-.]+")
_SHOWN: Final = 10  # columns that a sentence names


def columns_named(labels: Sequence[str], names: Collection[str], prefix: str = "") -> dict[str, int]:
    """The indexes of the columns with known names (in lower case) after a prefix, by name; of several the first. Case,
    blanks around a name, and whether a blank, ``-``, ``.`` or ``_`` separates its words, do not matter."""
    found: dict[str, int] = {}
    for index, label in enumerate(labels):
        folded = label.strip().casefold()
        name = _SEPARATORS.sub("_", folded.removeprefix(prefix))
        if name in names and folded.startswith(prefix):
            found.setdefault(name, index)
    return found


def agreement(
    rows: Sequence[Sequence[str | None]],
    columns: Mapping[str, int],
    patterns: Mapping[str, str],
    needed: Collection[str] = (),
) -> float:
    """The share of the values of these columns (names and indexes) that have the pattern of their name. An empty value
    counts only in a needed column."""
    checks = [(re.compile(patterns[name]), name in needed, columns[name]) for name in patterns if name in columns]
    fits = [
        pattern.fullmatch(value) is not None
        for row in rows
        for pattern, is_needed, index in checks
        if (value := (row[index] if index < len(row) else None) or "") or is_needed
    ]
    return sum(fits) / len(fits) if fits else 0.0


def shown_columns(labels: Sequence[str]) -> str:
    """``columns a, b and c``: the evidence of columns that were found by their names."""
    return f"columns {joined(labels[:_SHOWN])}"
