"""``table_key`` as triggers that follow the rules write it, and what it says (``docs/formats/idm-event-log.md §2``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["SPECIAL", "bare", "parsed", "written"]

SPECIAL: Final = frozenset(",;'+\"=\\<>")
"""The characters that require quotes around a value."""

Pairs = tuple[tuple[str, str], ...]


def _value(text: str) -> str:
    if text and SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written(pairs: Sequence[tuple[str, str]]) -> str:
    """The text of a key, from its columns and their values."""
    return "+".join([f"{name}={_value(value)}" for name, value in pairs])


@lru_cache(65_536)
def parsed(text: str) -> Pairs | None:
    """The columns and values of a key as written; None if it is none."""
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        start = at
        while at < len(text) and text[at] not in SPECIAL:
            at += 1
        name = text[start:at]
        if not name or text[at : at + 1] != "=":
            return None
        at += 1
        value: list[str] = []
        if text[at : at + 1] == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                if text[at] == "\\":
                    at += 1
                    if text[at : at + 1] not in ('"', "\\"):
                        return None
                value.append(text[at])
                at += 1
            if at >= len(text):
                return None
            at += 1
        else:
            start = at
            while at < len(text) and text[at] not in SPECIAL:
                at += 1
            if at == start:
                return None
            value.append(text[start:at])
        found.append((name, "".join(value)))
        if at == len(text):
            break
        if text[at] != "+":
            return None
        at += 1
    names = [name for name, _ in found]
    return tuple(found) if len(set(names)) == len(names) else None


def bare(name: str) -> str:
    """The name of a key column for comparison: without case and without the prefix that a view gives it."""
    folded = name.lower()
    return folded[3:] if folded[:3] in ("pk_", "fk_", "sv_", "mv_") else folded
