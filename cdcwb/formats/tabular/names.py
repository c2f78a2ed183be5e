"""What the columns of a table are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cdcwb.unique_names import unique_names, unused_name

__all__ = ["Layout", "Names", "are_names", "clean", "named", "numbered"]

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


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns that have none, ``column_1`` and so on."""
    return tuple(f"column_{place}" for place in range(1, width + 1))


def named(fields: Sequence[str | None]) -> tuple[str, ...]:
    """The names in a header line: blanks around them are not part of them, an empty one is ``column_`` and its number,
    and all are different."""
    names = [field.strip() for field in clean(fields)]
    return unique_names(name or unused_name(f"column_{number}", names) for number, name in enumerate(names, 1))


def clean(names: Iterable[str | None]) -> list[str]:
    """Names that can be written; half of a surrogate pair, which JSON may spell, becomes an escape."""
    return [(name or "").encode("utf-8", "backslashreplace").decode() for name in names]


def are_names(fields: Sequence[str | None]) -> bool:
    """Are these names of columns, all different? They begin with a letter or an underscore."""
    names = [(text or "").strip().casefold() for text in fields]
    return len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)
