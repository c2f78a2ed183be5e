"""Which possessive groups Python before 3.11.5 gets wrong (https://github.com/python/cpython/issues/106052).

There, a possessive group whose last, failing turn had moved on already goes on from where that turn gave up, not from
where it began: ``(?:ab?c)*+`` takes three characters of ``aca``. Debian 12 has Python 3.11.2. A last alternative that
never matches, ``|(?!)``, takes the matcher back to where the turn began, and makes any group right.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["doubtful_groups", "refuse_doubtful_groups"]

Items = list[tuple[Any, Any]]
ONE = {op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY}
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}


@cache
def doubtful_groups(pattern: str | bytes, flags: int = 0) -> int:
    """How many possessive groups of the pattern may lose their place."""
    return _count(list(_parser.parse(pattern, flags)))


def refuse_doubtful_groups(package: str) -> None:
    """From now on, a module of the package that gives ``re`` a doubtful pattern fails."""
    compiled = re._compile  # type: ignore[attr-defined]

    def compiled_if_sure(pattern: Any, flags: Any) -> Any:
        asking = sys._getframe(2).f_globals.get("__name__", "")
        if asking.startswith(package) and isinstance(pattern, str | bytes) and doubtful_groups(pattern, int(flags)):
            raise AssertionError(
                f"{asking}: a possessive group without |(?!) loses its place before Python 3.11.5: {pattern!r}"
            )
        return compiled(pattern, flags)

    re._compile = compiled_if_sure  # type: ignore[attr-defined]


def _count(items: Items) -> int:
    found = 0
    for name, value in items:
        if name is op.POSSESSIVE_REPEAT or name is op.ATOMIC_GROUP:
            body = list(value[2] if name is op.POSSESSIVE_REPEAT else value)
            found += _count(body) + _loses(body)
        else:
            found += sum(_count(part) for part in _parts(name, value))
    return found


def _parts(name: Any, value: Any) -> list[Items]:
    if name in REPEATS:
        return [list(value[2])]
    if name is op.BRANCH:
        return [list(one) for one in value[1]]
    if name is op.SUBPATTERN:
        return [list(value[3])]
    if name in (op.ASSERT, op.ASSERT_NOT):
        return [list(value[1])]
    if name is op.ATOMIC_GROUP:
        return [list(value)]
    return []


def _never(items: Items) -> bool:
    """Whether they are ``(?!)``, however the version of Python parses it."""
    return len(items) == 1 and (
        items[0][0] is op.FAILURE or (items[0][0] is op.ASSERT_NOT and not list(items[0][1][1]))
    )


def _loses(items: Items, begun: bool = False, moved: bool = False) -> bool:
    """Whether the items can fail with the matcher's place behind where they began. ``begun``: a character was taken
    before them; ``moved``: and the place was set behind it, which groups, repeats and assertions do."""
    for at, (name, value) in enumerate(items):
        rest = items[at + 1 :]
        if name is op.SUBPATTERN:
            return _loses(list(value[3]) + rest, begun, moved)
        if name is op.BRANCH:
            ways = _parts(name, value)
            if not begun and not moved and _never(ways[-1]):
                return False
            return any(_loses(way + rest, begun, moved or begun) for way in ways)
        if name in ONE:
            if moved:
                return True
            begun = True
        elif name is op.ASSERT:
            if begun or moved or value[0] < 0 or _loses(list(value[1])):
                return True
        elif name in REPEATS:
            least, _, body = value
            if least and (begun or moved or _loses(list(body))):
                return True
            begun = moved = True
        elif name is not op.AT or moved:
            return True
    return False
