"""Which columns of a file are header columns, and which are data (docs/formats/qlik-change-table.md §2.1, §2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from cdcwb.formats import tabular
from cdcwb.formats.qlik_change_table.facts import (
    CONTROL_COLUMNS,
    CONTROL_PREFIX,
    HEADERS,
    PREFIX,
    STRONG,
)
from cdcwb.unique_names import unique_names
from cdcwb.words import joined

__all__ = ["Layout", "Part", "Prefix", "Rows", "control_table", "find_prefix", "lay_out"]

_LEAST: Final = 2  # known names that have to share an unusual prefix
_LEAST_BARE: Final = 3  # known names that have to stand without any


class Prefix(NamedTuple):
    """What stands before the names of header columns, as the columns spell it, and why."""

    text: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file in its order: ``names`` (each once), and the places of ``header`` and ``data`` columns
    among them. ``known`` maps the names of :data:`facts.HEADERS` to places."""

    names: tuple[str, ...]
    header: tuple[int, ...]
    data: tuple[int, ...]
    known: Mapping[str, int]

    @property
    def data_names(self) -> list[str]:
        """The names of the data columns."""
        return [self.names[place] for place in self.data]

    def to_list(self) -> list[Any]:
        """As a list that JSON can hold."""
        return [list(self.names), list(self.header), dict(self.known)]

    @classmethod
    def from_list(cls, raw: Sequence[Any]) -> Layout:
        """What :meth:`to_list` gave."""
        names, header, known = tuple(raw[0]), tuple(raw[1]), raw[2]
        return cls(names, header, tuple(at for at in range(len(names)) if at not in set(header)), known)


Rows: TypeAlias = tabular.Rows[Layout]
Part: TypeAlias = tabular.Part[Layout]


def find_prefix(names: Sequence[str], given: str | None = None) -> Prefix | None:
    """The prefix of the header columns; None where there are no header columns.

    ``given`` is the one that was asked for. Else it is the usual one if any column has it, and otherwise what stands
    before at least two known names (three, if nothing does), of which one is no ordinary word. Names are compared
    without case.
    """
    folded = [name.casefold() for name in names]
    usual = PREFIX if given is None else given.casefold()
    if usual:
        having = [name for name, low in zip(names, folded, strict=True) if low.startswith(usual)]
        if having:
            return Prefix(having[0][: len(usual)], f"columns {joined(having[:8])}")
    if given:
        return None
    found: dict[str, list[str]] = {}
    for name, low in zip(names, folded, strict=True):
        for known in HEADERS:
            if low.endswith(known) and (given is None or low == known):
                found.setdefault(low[: len(low) - len(known)], []).append(name)
    prefixes = [
        (prefix, having)
        for prefix, having in found.items()
        if len(having) >= (_LEAST if prefix else _LEAST_BARE)
        and any(name.casefold()[len(prefix) :] in STRONG for name in having)
    ]
    if not prefixes:
        return None
    prefix, having = max(prefixes, key=lambda pair: (len(pair[1]), len(pair[0])))
    return Prefix(having[0][: len(prefix)], f"known names that follow it: {joined(having[:8])}")


def lay_out(names: Sequence[str], prefix: str | None) -> Layout:
    """Tells header columns from data; ``prefix`` None: there are no header columns. With an empty prefix only known
    names are header columns."""
    shown = unique_names(names)
    header: list[int] = []
    known: dict[str, int] = {}
    low = "" if prefix is None else prefix.casefold()
    for place, name in enumerate(names):
        folded = name.casefold()
        rest = folded[len(low) :] if folded.startswith(low) else None
        if prefix is None or rest is None or (not low and rest not in HEADERS):
            continue
        header.append(place)
        if rest in HEADERS:
            known.setdefault(rest, place)
    data = tuple(place for place in range(len(names)) if place not in set(header))
    return Layout(shown, tuple(header), data, known)


def control_table(table: str, names: Sequence[str]) -> str | None:
    """The control table that this is, by its name, else by its columns; None where it is none (§6)."""
    low = table.casefold()
    if low.startswith(CONTROL_PREFIX):
        return low
    folded = {name.casefold() for name in names}
    for control, columns in CONTROL_COLUMNS.items():
        if columns <= folded and len(folded) <= len(columns) + 2:
            return control
    return None
