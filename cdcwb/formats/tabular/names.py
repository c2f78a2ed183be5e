"""What the columns of a table are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["Layout", "Names", "are_names", "clean", "named", "numbered", "unique"]

_NAME: Final = re.compile(r"\s*[^\W\d][\w $#@./:()-]{0,127}\s*")


class Layout(Protocol):
    """What has to be known of columns to read them; formats add what they mean."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in the order of the file, each once."""
        ...


@dataclass(frozen=True, slots=True)
class Names:
    """A layout that is nothing but names."""

    names: tuple[str, ...]


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with ``#2``, ``#3`` behind those that repeat."""
    found: dict[str, None] = {}
    for name in names:
        shown, number = name, 1
        while shown in found:
            number += 1
            shown = f"{name}#{number}"
        found[shown] = None
    return tuple(found)


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns that have none, ``column_1`` and so on."""
    return tuple(f"column_{place}" for place in range(1, width + 1))


def named(fields: Sequence[str | None]) -> tuple[str, ...]:
    """The names in a header line: blanks around them are no part of them, and an empty one is ``column_`` and its
    place; each is there once."""
    return unique([(field or "").strip() or f"column_{place}" for place, field in enumerate(clean(fields), 1)])


def clean(names: Iterable[str | None]) -> list[str]:
    """Names that can be written; half of a surrogate pair, which JSON may spell, becomes an escape."""
    return [(name or "").encode("utf-8", "backslashreplace").decode() for name in names]


def are_names(fields: Sequence[str | None]) -> bool:
    """Are these names of columns, all different? They begin with a letter or an underscore."""
    names = [(text or "").strip().casefold() for text in fields]
    return len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)
