"""Records of one shape together, and their images without what is missing.

Records with the same table, operation, fields and columns make a group: what is the same for all of them is said once,
the rest lies one behind the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.goldengate.exports.names import role_of
from cdcwb.formats.json_values import as_text

__all__ = ["MISSING", "Group", "Image", "Shape", "image_of", "is_companion"]

Bools = npt.NDArray[np.bool_]

MISSING: Final = "_isMissing"
"""Ends the name of the companion that tells whether a column is in the record."""


class Shape(NamedTuple):
    """What the records of a group have in common.

    ``table`` and ``operation`` are as they stand in the record, ``headers`` the names of its fields and ``tokens``
    those of its tokens; ``before`` and ``after`` are names of columns (None: no such image), ``keys`` those of the key
    (None: not told). ``half``: is the record the ``before`` image of an update, or its ``after`` image?
    """

    table: str | None
    operation: str | None
    headers: tuple[str, ...]
    tokens: tuple[str, ...]
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    keys: tuple[str, ...] | None
    half: str | None = None


@dataclass(slots=True)
class Group:
    """Records of one shape: ``index`` is their place in the batch; values lie record by record in ``headers``,
    ``tokens``, ``before`` and ``after``. ``source`` gives the text of a value that is an object or array, by record,
    image and column."""

    shape: Shape
    index: list[int] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    source: Callable[[int, str, str], str | None] | None = None

    def column(self, part: str, at: int) -> list[Any]:
        """The values of one field or column."""
        names, flat = getattr(self.shape, part), getattr(self, part)
        return list(flat[at :: len(names)])

    def texts(self, part: str, at: int) -> pa.StringArray:
        """The same as text."""
        source, name = self.source, getattr(self.shape, part)[at]
        if part == "headers" and self.shape.keys is not None and role_of(name) == "keys":
            return pa.repeat(pa.scalar(msgspec.json.encode(self.shape.keys).decode()), len(self.index))
        values = self.column(part, at)
        try:
            return pa.array(values, pa.string())
        except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError):
            pass
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            typed = pa.array(values)
            if pa.types.is_integer(typed.type) or pa.types.is_boolean(typed.type):
                return typed.cast(pa.string())
        texts = [
            source(record, part, name) if source is not None and value.__class__ in (dict, list) else as_text(value)
            for record, value in zip(self.index, values, strict=True)
        ]
        return pa.array(
            [None if text is None else text.encode("utf-8", "replace") for text in texts], pa.binary()
        ).cast(pa.string())


# --- images -----------------------------------------------------------------------------------------------------------


class Image(NamedTuple):
    """The columns of one image: their names, where in the record's they stand, and where they are not there (None:
    all are)."""

    names: list[str]
    places: list[int]
    absent: Bools | None


def image_of(group: Group, part: str) -> Image | None:
    """An image without the companions that say what is missing. None where the records have no such image."""
    names: tuple[str, ...] | None = getattr(group.shape, part)
    if names is None:
        return None
    there = set(names)
    companions = {name: at for at, name in enumerate(names) if is_companion(name, there)}
    places = [at for at, name in enumerate(names) if name not in companions]
    kept = [names[at] for at in places]
    if not companions:
        return Image(kept, places, None)
    absent = np.zeros((len(group.index), len(kept)), dtype=np.bool_)
    for column, name in enumerate(kept):
        at = companions.get(name + MISSING)
        if at is not None:
            flags = group.column(part, at)
            absent[:, column] = [flag is True or (flag.__class__ is str and flag.lower() == "true") for flag in flags]
    return Image(kept, places, absent if absent.any() else None)


def is_companion(name: str, names: set[str]) -> bool:
    """Does the field of this name tell whether another one is missing?"""
    return name.endswith(MISSING) and name[: -len(MISSING)] in names
