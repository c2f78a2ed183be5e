"""What the events of a part follow from, so that those of an earlier run can be kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from cdcwb.formats.base import Piece
from cdcwb.formats.goldengate.plan import Part, Plan

__all__ = ["pieces_of"]


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each part follow from: its file and how that is read, what crosses its ends, the files whose
    fragments continue its last record, and the versions that its records find.

    The index of its file is among it, for transactions may be named by the place where they begin.
    """
    contexts = _Contexts(plan)
    for split in plan.splits:
        yield [contexts.piece(part) for part in split]


class _Contexts:
    """The contexts of a plan's parts; what many of them share is made once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lookup = plan.lookup()
        self._texts: dict[int, str] = {}
        self._places: dict[int, list[tuple[int, int]]] = {}
        for file, offset, number in plan.places:
            self._places.setdefault(file, []).append((offset, number))
        # columns without a definition get names that no definition has
        names = [name for one in plan.versions if one.definition is not None for name in one.definition.names]
        self._underlines = max((len(name) - len(name.rstrip("_")) for name in names), default=0)

    def piece(self, part: Part) -> Piece:
        """What the events of a part follow from."""
        files = self.plan.files
        path = files[part.file].path
        behind = [files[index].path for stretch in part.stretches for index, _, _ in stretch.follows]
        context: dict[str, Any] = {
            "file": asdict(files[part.file]),
            "part": asdict(replace(part, named=())),
            "behind": behind,
            "settings": asdict(self.plan.settings),
        }
        if files[part.file].export is None:
            context["metadata"] = [(offset, self._text(number)) for offset, number in self._places.get(part.file, ())]
            context["versions"] = [self._found(part, at) for at in range(len(part.stretches))]
            context["underlines"] = self._underlines
        return Piece(tuple(dict.fromkeys([path, *behind])), json.dumps(context))

    def _found(self, part: Part, at: int) -> list[Any]:
        """The versions that the records of a stretch may find: by the index of a definition, and by their names."""
        by_index, by_name = self.lookup.within(part.stretches[at].file, part.named)
        return [
            [(index, rba, self._text(number)) for index, rba, number in by_index],
            [(name, [(rba, self._text(number)) for rba, number in found]) for name, found in by_name],
        ]

    def _text(self, number: int) -> str | None:
        """A version as text, without its place, which no event says; None for -1."""
        if number < 0:
            return None
        if number not in self._texts:
            told = self.plan.versions[number].as_dict()
            for place in ("file_index", "offset", "length"):
                del told[place]
            self._texts[number] = json.dumps(told)
        return self._texts[number]
