"""Unique names: in every format, a name that repeats gets ``#2``, ``#3`` …"""

from __future__ import annotations

from collections.abc import Container, Iterable

__all__ = ["unique_names", "unused_name"]


def unique_names(names: Iterable[str], taken: Iterable[str] = (), separator: str = "#") -> tuple[str, ...]:
    """The names in their order, each different from the others and from those in ``taken``.

    The first of several equal names is unchanged; the others get the separator and the least number from 2 on that
    makes a name which is neither in ``names`` nor in ``taken``. So a name that occurs once never changes because
    another one repeats. Names are case-sensitive and may be empty.
    """
    wanted = list(names)
    used = set(taken)
    avoided = used.union(wanted)
    numbers: dict[str, int] = {}
    out = []
    for name in wanted:
        if name in used:
            unique, numbers[name] = _numbered(name, avoided, separator, numbers.get(name, 2))
            avoided.add(unique)
        else:
            unique = name
        used.add(unique)
        out.append(unique)
    return tuple(out)


def unused_name(name: str, taken: Container[str], separator: str = "#") -> str:
    """The name, with the separator and the least number from 2 on if it is in ``taken``."""
    return _numbered(name, taken, separator, 2)[0] if name in taken else name


def _numbered(name: str, taken: Container[str], separator: str, number: int) -> tuple[str, int]:
    """The name with the first number from ``number`` on that is not taken, and the number that follows it."""
    while (numbered := f"{name}{separator}{number}") in taken:
        number += 1
    return numbered, number + 1
