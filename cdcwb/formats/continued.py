"""Decides which events of a saved capture are reused when files are appended, and which are decoded again. Every piece
of a capture has a fingerprint: equal fingerprints mean equal events (:class:`cdcwb.formats.dissector.Provenance`). It
does not depend on the files' bytes: a file is the same if path, size, time of modification and time of change are
equal. The file system sets the time of change with every write, so a file with other bytes and a restored time of
modification is not the same.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from cdcwb import model
from cdcwb.formats.dissector import Format, Plan, Provenance
from cdcwb.formats.source import info_of, version_of

__all__ = ["Divided", "Stamps", "divide", "fingerprints_of", "stamps_of"]

Stamps = Mapping[str, tuple[int, int, int]]
"""Size in bytes, time of modification (in nanoseconds), and time of change or version (:func:`version_of`) of each
file, by path."""

_DECODER: Final = 2
"""Increased when the same bytes and the same plan give other events than before."""

_DIGEST: Final = 16  # bytes


def stamps_of(paths: Iterable[str]) -> Stamps:
    """The stamps of some files."""
    return {path: (*info_of(path), version_of(path)) for path in paths}


def fingerprints_of(form: Format, plan: Plan, stamps: Stamps) -> list[list[str]]:
    """The fingerprints of the pieces of each split; none for a split that is always decoded again."""
    about = [_DECODER, form.name, str(model.EVENTS)]
    return [[_fingerprint(piece, stamps, about) for piece in pieces] for pieces in form.pieces(plan)]


def _fingerprint(piece: Provenance, stamps: Stamps, about: list[Any]) -> str:
    files = [(path, *stamps[path]) for path in piece.files]
    return blake2b(json.dumps([about, files, piece.context]).encode(), digest_size=_DIGEST).hexdigest()


@dataclass(frozen=True, slots=True)
class Divided:
    """The splits of a saved capture with appended files. ``reused``: the new number of each saved split, -1 if it is
    decoded again. ``fresh``: the plan with only the splits to decode, whose numbers follow the reused ones.
    ``fingerprints``: those of all splits."""

    reused: list[int]
    fresh: Plan
    fingerprints: list[list[str]]

    @property
    def first_fresh(self) -> int:
        """The number of the first split that is decoded."""
        return len(self.fingerprints) - len(self.fresh.splits)


def divide(saved: Sequence[Sequence[str]], plan: Plan, fingerprints: Sequence[Sequence[str]]) -> Divided:
    """The reused splits of a saved capture with the fingerprints ``saved``, in a capture with this plan and these
    fingerprints. A split is reused if all its pieces still exist."""
    times = Counter(fingerprint for some in fingerprints for fingerprint in some)
    reused: list[int] = []
    splits: list[list[str]] = []
    held: set[str] = set()
    for some in saved:
        holds = bool(some) and all(times[fingerprint] == 1 and fingerprint not in held for fingerprint in some)
        reused.append(len(splits) if holds else -1)
        if holds:
            splits.append(list(some))
            held.update(some)
    left: list[Any] = []
    for split, some in zip(plan.splits, fingerprints, strict=True):
        chosen = [at for at, fingerprint in enumerate(some) if fingerprint not in held]
        if some and not chosen:
            continue
        left.append(split if len(chosen) == len(some) else [split[at] for at in chosen])
        splits.append([some[at] for at in chosen])
    fresh = copy.copy(plan)
    fresh.splits = left
    return Divided(reused, fresh, splits)
