"""Profiles of the values of columns, and values under the wrong columns, which are detected from profiles.

If a source changes its columns without a new definition and keeps their number, a reader that assigns columns by
ordinal takes values for those of other columns, and no error occurs. The rows of each version of a table are split
where the values of a column stop resembling earlier values of the column and begin to resemble those of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.images import Pairs
from cdcwb.dataset import Batches, Rows, numbered, runs_of
from cdcwb.index.columns import table_labels
from cdcwb.model import CHANGES, Operation

__all__ = ["ALIKE", "NOTHING", "Misaligned", "Profile", "Values", "combined", "distance", "measures", "values"]

Sums = npt.NDArray[np.float64]
"""Profiles in the last dimension."""

ALIKE: Final = 0.35
"""Profiles with at most this distance may be of one column."""

_NUMBER: Final = r"^[-+]?[0-9]+(\.[0-9]+)?$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLASSES: Final = {"digits": "[0-9]", "lower": r"\p{Ll}", "upper": r"\p{Lu}", "signs": r"[-+.,:/ ]"}
_LEAST_VALUES: Final = 5  # minimum values for a comparison


class Profile(NamedTuple):
    """Sums over the values of a column: the number of ``rows`` that have it, of ``nulls``, of values that look like a
    ``number`` or a ``time``; the sums of lengths in characters and of their squares, of the characters of each class,
    and of the numbers' magnitudes (logarithms to base 10) and their squares."""

    rows: float
    nulls: float
    number: float
    time: float
    length: float
    length2: float
    digits: float
    lower: float
    upper: float
    signs: float
    magnitude: float
    magnitude2: float

    @property
    def values(self) -> int:
        """The number of values that are not NULL."""
        return int(self.rows - self.nulls)


NOTHING: Final = Profile(*[0.0] * len(Profile._fields))
"""The profile of no values."""


def combined(profiles: Iterable[Profile]) -> Profile:
    """The profile of the values of several."""
    return Profile(*np.sum([NOTHING, *profiles], axis=0).tolist())


def measures(values: pa.Array) -> dict[str, pa.Array]:
    """What a :class:`Profile` sums, for each text."""
    number, length = pc.match_substring_regex(values, _NUMBER), pc.utf8_length(values)
    magnitude = pc.log10(pc.add(pc.abs(pc.if_else(number, values, None).cast(pa.float64())), 1.0))
    every = {"rows": pa.repeat(1, len(values)), "nulls": values.is_null(), "number": number}
    every |= {"time": pc.match_substring_regex(values, _TIME), "length": length, "magnitude": magnitude}
    every |= {name: pc.count_substring_regex(values, pattern) for name, pattern in _CLASSES.items()}
    every = {name: pc.fill_null(measure.cast(pa.float64()), 0.0) for name, measure in every.items()}
    every |= {f"{name}2": pc.multiply(every[name], every[name]) for name in ("length", "magnitude")}
    return {name: every[name] for name in Profile._fields}


def distances(first: Sums, second: Sums, least: int) -> Sums:
    """The distances of profiles, from 0; NaN where one has fewer than ``least`` values.

    The mean of the differences of features, each in units of the feature's deviation; each counts 4 at most. The
    magnitude is compared only where both have numbers.
    """
    (means, deviations), (others, other_deviations) = _features(first), _features(second)
    steps = np.minimum(np.abs(means - others) / np.maximum((deviations + other_deviations) / 2, 0.05), 4.0)
    has_numbers = np.minimum(first[..., 2], second[..., 2]) >= least
    total = steps[..., :-1].sum(-1) + np.where(has_numbers, steps[..., -1], 0.0)
    has_values = np.minimum(first[..., 0] - first[..., 1], second[..., 0] - second[..., 1]) >= least
    return np.where(has_values, total / (steps.shape[-1] - 1 + has_numbers), np.nan)


def _features(sums: Sums) -> tuple[Sums, Sums]:
    """The features of profiles: means and deviations, between 0 and about 1 or in decades."""
    every = Profile(*np.moveaxis(sums, -1, 0))
    count, letters = np.maximum(every.rows - every.nulls, 1), np.maximum(every.length, 1)
    mean, numbers = every.length / count, np.maximum(every.number, 1)
    spread = np.sqrt(np.maximum(every.length2 / count - mean**2, 0))
    magnitude = every.magnitude / numbers
    spread_of_numbers = np.sqrt(np.maximum(every.magnitude2 / numbers - magnitude**2, 0))
    same = np.full_like(mean, 0.2)
    means = [every.nulls / np.maximum(every.rows, 1), every.number / count, every.time / count, np.log1p(mean)]
    means += [getattr(every, name) / letters for name in _CLASSES]
    deviations = [same + 0.3, same, same, 0.15 + spread / (mean + 1), *[same] * len(_CLASSES), 0.5 + spread_of_numbers]
    return np.stack([*means, magnitude], -1), np.stack(deviations, -1)


def distance(first: Profile, second: Profile) -> float | None:
    """The distance of two profiles (:func:`distances`); None if one has fewer than five values."""
    far = float(distances(np.array(first), np.array(second), _LEAST_VALUES))
    return None if np.isnan(far) else far


# --- values under the wrong columns -----------------------------------------------------------------------------------

_PARTS: Final = 24  # of the rows of a version; a cut is searched between them
_UNLIKE: Final = 0.8
_BETTER: Final = 0.5  # another column has to fit better by this
_LEAST: Final = 12  # values of a column on each side
_LEAST_ROWS: Final = 48

Version = tuple[str, str]
"""A table and its version."""

_VERSION: Final = ["table", "table_version"]
_READ: Final = (
    *("operation", "schema_name", "table_name", "table_version", "position", "changed_at", "file", "file_index"),
    *("offset", "before", "after"),
)
_IMAGES: Final = pa.schema(
    [
        *((name, pa.string()) for name in _VERSION),
        *map(CHANGES.field, ("position", "file_index", "offset", "changed_at", "file")),
        ("image", CHANGES.field("after").type),
    ]
)
_ROWS: Final = _IMAGES.append(pa.field("row", pa.int64()))
_FIRSTS: Final = pa.schema([field for field in _ROWS if field.name != "image"])


@dataclass(frozen=True, slots=True)
class Misaligned:
    """Misaligned values: from the row ``first`` (``row``: its number in the version, ``position``, ``changed_at``,
    ``file``, ``offset``) the values of each column of a table resemble the earlier values of another; ``columns`` has
    pairs of both. ``changes``: the number of rows of the version from there. ``before`` and ``after``: profiles of each
    column, approximately before and after that row."""

    table: str
    table_version: str
    columns: Sequence[tuple[str, str]]
    before: Mapping[str, Profile]
    after: Mapping[str, Profile]
    first: Mapping[str, Any]
    changes: int


@dataclass(frozen=True, slots=True)
class Values:
    """``profiles`` of values by table and version, then by column; ``misaligned`` values by table, at most one location
    for each version."""

    profiles: dict[Version, dict[str, Profile]]
    misaligned: list[Misaligned]


def values(capture: Any) -> Values:
    """Profiles of the values of every version, and misaligned values. These are searched in versions with at least 48
    rows that have images, and in columns with values on both sides of a cut."""
    images = dated_rows(capture, _READ).map(_with_image, _IMAGES)
    order = ("position", "file_index", "offset")
    rows = images.by_key(_VERSION, order, partial(numbered, keys=_VERSION, name="row"), _ROWS)
    found = rows.totals({"row": "max"}, lambda batch: batch.select([*_VERSION, "row"]))
    counts = {(row["table"], row["table_version"]): row["row"] for row in found.to_pylist()}
    parts = _parts(rows, counts)
    profiles = {version: _profiles(parts[version], slice(None)) for version in sorted(parts)}
    large = [version for version in profiles if counts[version] >= _LEAST_ROWS]
    cuts = {version: cut for version in large if (cut := _best_cut(parts[version])) is not None}
    misaligned = []
    for first in _first_rows(rows, cuts, counts) if cuts else ():
        version = first["table"], first["table_version"]
        cut = cuts[version]
        before, after = (_profiles(parts[version], side) for side in (slice(cut.part), slice(cut.part, None)))
        changes = counts[version] - first["row"] + 1
        misaligned.append(Misaligned(*version, cut.columns, before, after, first, changes))
    return Values(profiles, misaligned)


def _with_image(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Changes that leave a row whose version is known, with the image after them, else before them."""
    image = pc.coalesce(changes["after"], changes["before"])
    is_row = pc.fill_null(pc.not_equal(changes["operation"], str(Operation.DELETE)), False)
    keep = pc.and_(pc.and_(image.is_valid(), changes["table_version"].is_valid()), is_row)
    columns = [table_labels(changes), *(changes[name] for name in _IMAGES.names[1:-1]), image]
    return pa.RecordBatch.from_arrays(columns, schema=_IMAGES).filter(keep)


def _parts(rows: Rows, counts: Mapping[Version, int]) -> dict[Version, dict[str, Sums]]:
    """The profiles of every column in each part of the rows of a version."""

    def measured(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        image = Pairs(batch["image"])
        versions = zip(batch["table"].to_pylist(), batch["table_version"].to_pylist(), strict=True)
        part = (np.asarray(batch["row"]) - 1) * _PARTS // [counts[version] for version in versions]
        groups = {name: batch[name] for name in _VERSION} | {"part": pa.array(part)}
        groups = {name: column.take(pa.array(image.rows)) for name, column in groups.items()}
        return {**groups, "column": image.names, **measures(image.values)}

    found: dict[Version, dict[str, Sums]] = {}
    for row in rows.totals(dict.fromkeys(Profile._fields, "sum"), measured).to_pylist():
        columns = found.setdefault((row["table"], row["table_version"]), {})
        sums = columns.setdefault(row["column"], np.zeros((_PARTS, len(NOTHING))))
        sums[row["part"]] = [row[name] for name in Profile._fields]
    return found


def _profiles(parts: Mapping[str, Sums], which: slice) -> dict[str, Profile]:
    """The profiles of some parts together."""
    return {name: Profile(*sums[which].sum(axis=0).tolist()) for name, sums in parts.items()}


class _Cut(NamedTuple):
    """The part with which misaligned values begin, and their columns, each with the one that they resemble and the
    profiles of both before."""

    part: int
    columns: list[tuple[str, str]]
    own: Sums
    other: Sums


def _best_cut(parts: Mapping[str, Sums]) -> _Cut | None:
    """Where misaligned values begin, if there are any."""
    names = sorted(parts)
    every = np.stack([parts[name] for name in names])
    best, best_score = None, 0.0
    for cut in range(1, _PARTS):
        before, after = every[:, :cut].sum(axis=1), every[:, cut:].sum(axis=1)
        own = distances(before, after, _LEAST)
        pairs, score = [], 0.0
        for column in np.flatnonzero(own >= _UNLIKE):
            far = np.nan_to_num(distances(before, after[column], _LEAST), nan=np.inf)
            # a column whose values still resemble its own is not the origin of another's values
            nearest = int(np.where(own >= _UNLIKE, far, np.inf).argmin())
            limit = min(ALIKE * 1.5, own[column] * _BETTER, far.min())
            if nearest != column and far[nearest] <= limit:
                pairs.append((column, nearest))
                score += own[column] - far[nearest]
        if pairs and score > best_score:
            columns = [(names[column], names[nearest]) for column, nearest in pairs]
            at, to = zip(*pairs, strict=True)
            best, best_score = _Cut(cut, columns, before[list(at)], before[list(to)]), score
    return best


def _first_rows(rows: Rows, cuts: Mapping[Version, _Cut], counts: Mapping[Version, int]) -> list[dict[str, Any]]:
    """The first misaligned row of each cut: of the rows of the parts before and after it, the one before which the sum
    of how much more the values resemble those of their own columns is the highest."""
    near = {v: [1 - (-(cut.part + n) * counts[v] // _PARTS) for n in (-1, 1)] for v, cut in cuts.items()}

    def first_rows(batches: Batches) -> Batches:
        sums, best, first = dict.fromkeys(cuts, 0.0), dict.fromkeys(cuts, -1.0), dict[Version, Any]()
        for run in (run for batch in batches for run in runs_of(batch, _VERSION)):
            version = run["table"][0].as_py(), run["table_version"][0].as_py()
            low, high = near.get(version, (0, 0))
            number = np.asarray(run["row"])
            run = run.filter(pa.array((low <= number) & (number < high)))
            if len(run):
                costs = _costs(cuts[version], Pairs(run["image"]))
                before = sums[version] + np.cumsum(costs) - costs
                at = int(before.argmax())
                if before[at] > best[version]:
                    best[version], first[version] = before[at], run.select(_FIRSTS.names).slice(at, 1).to_pylist()[0]
                sums[version] += costs.sum()
        yield pa.RecordBatch.from_pylist(list(first.values()), _FIRSTS)

    found: list[dict[str, Any]] = rows.by_key(_VERSION, ["row"], first_rows, _FIRSTS).table().to_pylist()
    return sorted(found, key=itemgetter(*_VERSION))


def _costs(cut: _Cut, image: Pairs) -> Sums:
    """How much more the values of each row resemble those of their own columns than those of the others."""
    costs = np.zeros(image.count)
    for (column, _), own, other in zip(cut.columns, cut.own, cut.other, strict=True):
        _, values = image.of_column(column)
        sums = np.stack([np.asarray(measure) for measure in measures(values).values()], -1)
        costs += np.nan_to_num(distances(other, sums, 1)) - np.nan_to_num(distances(own, sums, 1))
    return costs
