"""Profiles of the values of columns, and values under the wrong columns, which are detected from profiles.

If a source changes its columns without a new definition and keeps their number, a reader that assigns columns by
ordinal takes values for those of other columns, and no error occurs. The rows of each version of a table are split
where the values of a column stop resembling earlier values of the column and begin to resemble those of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.images import Pairs
from cdcwb.dataset import Rows, numbered
from cdcwb.index.columns import Ints, table_labels
from cdcwb.model import CHANGES, Operation

__all__ = ["ALIKE", "NOTHING", "Misaligned", "Profile", "Values", "distance", "profiles_of", "values"]

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


def measures(values: pa.Array) -> dict[str, pa.Array]:
    """What a :class:`Profile` sums, for each text."""
    number, length = pc.match_substring_regex(values, _NUMBER), pc.utf8_length(values)
    magnitude = pc.log10(pc.add(pc.abs(pc.if_else(number, values, None).cast(pa.float64())), 1.0))
    every = {"rows": pa.repeat(1, len(values)), "nulls": values.is_null(), "number": number}
    every |= {"time": pc.match_substring_regex(values, _TIME), "length": length, "magnitude": magnitude}
    every |= {name: pc.count_substring_regex(values, pattern) for name, pattern in _CLASSES.items()}
    every = {name: pc.fill_null(measure.cast(pa.float64()), 0.0) for name, measure in every.items()}
    return every | {f"{name}2": pc.multiply(every[name], every[name]) for name in ("length", "magnitude")}


def profiles_of(rows: Rows, by: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]) -> list[dict[str, Any]]:
    """The profile of every column of an ``image``, for every value of the columns that ``by`` gives: rows with these,
    ``column`` and ``profile``."""
    names = Profile._fields

    def measured(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        image = Pairs(batch["image"])
        groups = {name: column.take(pa.array(image.rows)) for name, column in by(batch).items()}
        return {**groups, "column": image.names, **measures(image.values)}

    found = rows.totals(dict.fromkeys(names, "sum"), measured).to_pylist()
    return [{**row, "profile": Profile(*(row.pop(name) for name in names))} for row in found]


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
_ROWS: Final = 2_000  # rows around a cut that are examined one by one

Version = tuple[str, str]
"""A table and its version."""

Ranges = Mapping[Version, tuple[int, int, int]]
"""The first and the last row of some versions (from 1), and into how many parts these rows are split."""

_VERSION: Final = ("table", "table_version")
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


@dataclass(slots=True)
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
    rows = images.by_key(
        _VERSION,
        ("position", "file_index", "offset"),
        partial(numbered, keys=_VERSION, name="row"),
        _IMAGES.append(pa.field("row", pa.int64())),
    )
    found = images.totals({"rows": "sum"}, lambda batch: {**_versions(batch), "rows": pa.repeat(1, len(batch))})
    counts = {(row["table"], row["table_version"]): row["rows"] for row in found.to_pylist()}
    ranges = {version: (1, count, _PARTS) for version, count in counts.items() if count >= _LEAST_ROWS}
    parts = _parts(rows, ranges)
    cuts: dict[Version, Misaligned] = {}
    for version in sorted(parts.keys() & ranges.keys()):
        cut = _best_cut(parts[version])
        if cut is not None:
            at, columns = cut
            sides = (_profiles(parts[version], slice(0, at)), _profiles(parts[version], slice(at, None)))
            cuts[version] = Misaligned(*version, columns, *sides, {}, counts[version])
            ranges[version] = _around(at, ranges[version])
    profiles = {version: _profiles(parts[version], slice(None)) for version in sorted(parts)}
    return Values(profiles, _located(rows, cuts, ranges) if cuts else [])


def _with_image(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Changes that leave a row whose version is known, with the image after them, else before them."""
    image = pc.coalesce(changes["after"], changes["before"])
    is_row = pc.fill_null(pc.not_equal(changes["operation"], str(Operation.DELETE)), False)
    keep = pc.and_(pc.and_(image.is_valid(), changes["table_version"].is_valid()), is_row)
    columns = [table_labels(changes), *(changes[name] for name in _IMAGES.names[1:-1]), image]
    return pa.RecordBatch.from_arrays(columns, schema=_IMAGES).filter(keep)


def _versions(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch[name] for name in _VERSION}


def _parts(rows: Rows, ranges: Ranges) -> dict[Version, dict[str, Sums]]:
    """The profiles of every column in each part of a range of rows. A version without a range is one part."""
    nothing = np.zeros(len(Profile._fields))

    def part(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        low, high, parts = _ranges_of(batch, ranges, (1, 1 << 40, 1))
        return {**_versions(batch), "part": pa.array((np.asarray(batch["row"]) - low) * parts // (high - low + 1))}

    found: dict[Version, dict[str, Sums]] = {}
    for row in profiles_of(rows, part):
        version = row["table"], row["table_version"]
        count = ranges[version][2] if version in ranges else 1
        sums = found.setdefault(version, {}).setdefault(row["column"], np.tile(nothing, (count, 1)))
        sums[row["part"]] = row["profile"]
    return found


def _ranges_of(batch: pa.RecordBatch, ranges: Ranges, other: tuple[int, int, int]) -> Ints:
    """The range of the version of each row; ``other`` where it has none."""
    versions = zip(*(column.to_pylist() for column in _versions(batch).values()), strict=True)
    return np.array([ranges.get(version, other) for version in versions], np.int64).reshape(-1, 3).T


def _profiles(parts: Mapping[str, Sums], which: slice) -> dict[str, Profile]:
    """The profiles of some parts together."""
    return {name: Profile(*sums[which].sum(axis=0).tolist()) for name, sums in parts.items()}


def _best_cut(parts: Mapping[str, Sums]) -> tuple[int, list[tuple[str, str]]] | None:
    """The part with which misaligned values begin, and their columns."""
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
                pairs.append((names[column], names[nearest]))
                score += own[column] - far[nearest]
        if pairs and score > best_score:
            best, best_score = (cut, pairs), score
    return best


def _around(at: int, rows: tuple[int, int, int]) -> tuple[int, int, int]:
    """The rows of the part before a part and of this part: a narrower range, of which each row is a part if it is
    small."""
    low, high, parts = rows
    first, last = (low - (-max(0, min(part, parts)) * (high - low + 1) // parts) for part in (at - 1, at + 1))
    count = max(last - first, 1)
    return first, first + count - 1, _PARTS if count > _ROWS else count


def _located(rows: Rows, cuts: Mapping[Version, Misaligned], ranges: dict[Version, tuple[int, int, int]]) -> list[Any]:
    """The cuts with their first row: the best split of the rows around them, which are ``ranges``."""
    ranges = {version: ranges[version] for version in cuts}
    while wide := {version: range_of for version, range_of in ranges.items() if range_of[0] < range_of[1]}:
        for version, parts in _parts(_within(rows, wide), wide).items():
            low, high, count = wide[version]
            at = _parting(cuts[version], parts, count)
            is_row = count == high - low + 1
            ranges[version] = (low + at, low + at, 1) if is_row else _around(at, wide[version])
    for row in _within(rows, ranges).select([*_IMAGES.names[:-1], "row"]).table().to_pylist():
        cut = cuts[row["table"], row["table_version"]]
        cut.first, cut.changes = row, cut.changes - row["row"] + 1
    return list(cuts.values())


def _within(rows: Rows, ranges: Ranges) -> Rows:
    """The rows of some ranges."""

    def is_near(batch: pa.RecordBatch) -> pa.Array:
        low, high, _ = _ranges_of(batch, ranges, (1, 0, 1))
        number = np.asarray(batch["row"])
        return pa.array((low <= number) & (number <= high))

    return rows.where(is_near)


def _parting(cut: Misaligned, parts: Mapping[str, Sums], count: int) -> int:
    """The first part of which the values resemble those of the other columns: the one before which the sum of how much
    more they resemble those of their own column is the highest."""
    costs = np.zeros(count)
    for column, other in cut.columns:
        if column in parts:
            sums = parts[column]
            own, of_other = (np.nan_to_num(distances(np.array(cut.before[n]), sums, 1)) for n in (column, other))
            costs += (of_other - own) * (sums[:, 0] - sums[:, 1])
    running = np.cumsum(costs)
    return min(int(running.argmax()) + 1, count - 1) if running.max() > 0 else 0
