"""Detects values under the wrong columns, from the values alone.

If a source changes its columns without a new definition and keeps their number, a reader that assigns columns by
ordinal takes values for those of other columns, and no error occurs. The rows of each version of a table are split
where the values of a column stop resembling earlier values of the column and begin to resemble those of another.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from operator import add, attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.images import Pairs
from cdcwb.dataset import Batches, Rows
from cdcwb.index.columns import table_labels
from cdcwb.model import CHANGES, Operation

__all__ = [
    "ALIKE",
    "NOTHING",
    "RULE",
    "Misaligned",
    "Profile",
    "Values",
    "distance",
    "profile_of",
    "profiles_of",
    "total",
    "values",
]


RULE: Final = "values_misaligned"
"""The rule name of such values among the findings of drift."""


_PARTS: Final = 24  # of the rows of a version; a cut is searched between them
_UNLIKE: Final = 0.8
_BETTER: Final = 0.5  # another column has to fit better by this
_LEAST: Final = 12  # values of a column on each side
_LEAST_ROWS: Final = 48
_ROWS: Final = 2_000  # rows around a cut that are examined one by one


@dataclass(frozen=True, slots=True)
class Misaligned:
    """Misaligned values: from ``first_position`` (at ``first_at``, in ``file`` at ``offset``) the values of each
    ``column`` of a table resemble the earlier values of ``looks_like``; ``columns`` has pairs of both. ``changes``: the
    number of rows of the version from there. ``before`` and ``after``: profiles of each column, approximately before
    and after that position."""

    table: str
    table_version: str
    columns: tuple[tuple[str, str], ...]
    first_position: str | None
    first_at: datetime | None
    file: str
    offset: int
    changes: int
    evidence: str
    before: Mapping[str, Profile]
    after: Mapping[str, Profile]


@dataclass(frozen=True, slots=True)
class Values:
    """``profiles`` of values by table and version, then by column; ``misaligned`` values by table, at most one location
    for each version."""

    profiles: dict[tuple[str, str], dict[str, Profile]]
    misaligned: list[Misaligned]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A cut between the rows ``low`` and ``high`` (from 1) of a version's ``rows``, where misaligned values begin."""

    table: str
    table_version: str
    rows: int
    low: int
    high: int
    pairs: dict[str, str]
    before: dict[str, Profile]
    after: dict[str, Profile]


def values(capture: Any) -> Values:
    """Profiles of the values of every version, and misaligned values. These are searched in versions with at least 48
    rows that have images, and in columns with values on both sides of a cut."""
    rows = dated_rows(capture, _READ).map(_with_image, _IMAGES)
    counts: Counter[tuple[str, str]] = rows.fold(_rows_of, lambda parts: sum(parts, Counter()))
    rows = rows.by_key(_VERSION, _ORDER, _numbered, _NUMBERED)
    whole = {version: (1, number) for version, number in counts.items() if number >= _LEAST_ROWS}
    parts: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in _profiles_of_parts(rows, whole):
        parts[row["table"], row["table_version"]][row["part"]].append(row)
    cuts = []
    for (table, version), of_version in sorted(parts.items()):
        cut = _best_cut(of_version) if (table, version) in whole else None
        if cut is not None:
            count, (at, pairs, before, after) = counts[table, version], cut
            low, high = _first_row(at - 1, 1, count), _first_row(at + 1, 1, count) - 1
            cuts.append(_Cut(table, version, count, low, high, pairs, before, after))
    profiles = {
        whose: total(row for rows in of_version.values() for row in rows) for whose, of_version in sorted(parts.items())
    }
    return Values(profiles, _placed(rows, cuts) if cuts else [])


_READ: Final = (
    *("operation", "schema_name", "table_name", "table_version", "position", "changed_at", "file", "file_index"),
    *("offset", "before", "after"),
)
_VERSION: Final = ("table", "table_version")
_ORDER: Final = ("position", "file_index", "offset")
_IMAGES: Final = pa.schema(
    [
        *((name, pa.string()) for name in _VERSION),
        *map(CHANGES.field, (*_ORDER, "changed_at", "file")),
        ("image", CHANGES.field("after").type),
    ]
)
_NUMBERED: Final = pa.schema([*_IMAGES, ("row", pa.int64())])

Ranges = Mapping[tuple[str, str], tuple[int, int]]
"""The first and the last of some rows of versions, by table and version."""


def _with_image(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Changes that leave a row whose version is known, with the image after them, else before them."""
    image = pc.coalesce(changes["after"], changes["before"])
    is_row = pc.fill_null(pc.not_equal(changes["operation"], str(Operation.DELETE)), False)
    keep = pc.and_(pc.and_(image.is_valid(), changes["table_version"].is_valid()), is_row)
    columns = [table_labels(changes), *(changes[name] for name in _IMAGES.names[1:-1]), image]
    return pa.RecordBatch.from_arrays(columns, schema=_IMAGES).filter(keep)


def _rows_of(rows: pa.RecordBatch) -> Counter[tuple[str, str]]:
    return Counter(zip(*(rows[name].to_pylist() for name in _VERSION), strict=True))


def _numbered(batches: Batches) -> Batches:
    """The rows with their number in their version, from 1."""
    last: tuple[str, str] | None = None
    number = 0
    for batch in batches:
        versions = list(zip(*(batch[name].to_pylist() for name in _VERSION), strict=True))
        numbers = []
        for version in versions:
            number = number + 1 if version == last else 1
            last = version
            numbers.append(number)
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers, pa.int64())], schema=_NUMBERED)


def _profiles_of_parts(rows: Rows, ranges: Ranges) -> list[dict[str, Any]]:
    """The profile of every column in each of :data:`_PARTS` parts of a range of rows: ``table``, ``table_version``,
    ``part``, ``column``, ``profile``. A version without a range is one part."""

    def parts(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        versions = zip(*(batch[name].to_pylist() for name in _VERSION), strict=True)
        low, high = (
            np.array([ranges.get(version, (1, _PARTS << 40)) for version in versions], np.int64).reshape(-1, 2).T
        )
        part = (np.asarray(batch["row"]) - low) * _PARTS // (high - low + 1)
        return {**{name: batch[name] for name in _VERSION}, "part": pa.array(part)}

    return profiles_of(rows, parts)


def _first_row(part: int, low: int, high: int) -> int:
    """The first row of a part, for rows from ``low`` to ``high``: the smallest row with floor((row - low) * parts /
    rows) = part."""
    return low - (-part * (high - low + 1) // _PARTS)


def _best_cut(
    parts: Mapping[int, Sequence[Mapping[str, Any]]],
) -> tuple[int, dict[str, str], dict[str, Profile], dict[str, Profile]] | None:
    """The part with which misaligned values begin, their columns, and the profiles of all columns before and after
    it."""
    best: tuple[float, int, dict[str, str], dict[str, Profile], dict[str, Profile]] | None = None
    until = list(accumulate((total(parts.get(part, ())) for part in range(_PARTS)), _sum))
    since = list(accumulate((total(parts.get(part, ())) for part in reversed(range(_PARTS))), _sum))[::-1]
    for cut in range(1, _PARTS):
        before, after = until[cut - 1], since[cut]
        changed = {name: distance(before[name], profile, _LEAST) for name, profile in after.items() if name in before}
        unlike = [name for name, far in changed.items() if far is not None and far >= _UNLIKE]
        pairs, score = {}, 0.0
        for column in unlike:
            own = changed[column] or 0.0
            far, nearest = min((_far(before, after, name, column), name) for name in unlike)
            # a column whose values still resemble its own is not the origin of another's values
            if nearest == column or far > min(ALIKE * 1.5, own * _BETTER):
                continue
            if any(_far(before, after, name, column) < far for name in before if name not in unlike):
                continue
            pairs[column] = nearest
            score += own - far
        if pairs and (best is None or score > best[0]):
            best = (score, cut, pairs, before, after)
    return None if best is None else best[1:]


def _far(before: Mapping[str, Profile], after: Mapping[str, Profile], name: str, column: str) -> float:
    """The distance between earlier values of one column and later values of another; infinite with few values."""
    far = distance(before[name], after[column], _LEAST)
    return math.inf if far is None else far


def _sum(first: Mapping[str, Profile], other: Mapping[str, Profile]) -> dict[str, Profile]:
    """The sum of the profiles of two stretches, by column."""
    both = {name: first[name] + profile if name in first else profile for name, profile in other.items()}
    return {**first, **both}


def _placed(rows: Rows, cuts: Sequence[_Cut]) -> list[Misaligned]:
    """The first row with misaligned values: the best split of the rows around the cut."""
    while wide := [cut for cut in cuts if cut.high - cut.low >= _ROWS]:
        closer = _closer(rows, wide)
        cuts = [closer.get((cut.table, cut.table_version), cut) for cut in cuts]
    by_version: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(_within(rows, cuts).table().to_pylist(), key=itemgetter("row")):
        by_version[row["table"], row["table_version"]].append(row)
    misaligned = []
    for cut in cuts:
        of_version = by_version[cut.table, cut.table_version]
        first = of_version[_parting([_cost(cut, row["image"]) for row in of_version])]
        shown = ", ".join(f"{column} like {other}" for column, other in sorted(cut.pairs.items()))
        evidence = f"values before and after {first['position'] or first['offset']}: {shown}"
        misaligned.append(
            Misaligned(
                table=cut.table,
                table_version=cut.table_version,
                columns=tuple(sorted(cut.pairs.items())),
                first_position=first["position"],
                first_at=first["changed_at"],
                file=first["file"],
                offset=first["offset"],
                changes=cut.rows - first["row"] + 1,
                evidence=evidence,
                before=cut.before,
                after=cut.after,
            )
        )
    return misaligned


def _within(rows: Rows, cuts: Sequence[_Cut]) -> Rows:
    """The rows around each cut."""
    ranges = {(cut.table, cut.table_version): (cut.low, cut.high) for cut in cuts}

    def is_near(batch: pa.RecordBatch) -> pa.Array:
        versions = zip(*(batch[name].to_pylist() for name in _VERSION), strict=True)
        near = [ranges.get(version, (1, 0)) for version in versions]
        low, high = np.array(near, np.int64).reshape(-1, 2).T
        number = np.asarray(batch["row"])
        return pa.array((low <= number) & (number <= high))

    return rows.where(is_near)


def _closer(rows: Rows, cuts: Sequence[_Cut]) -> dict[tuple[str, str], _Cut]:
    """The same cuts with narrower ranges of rows."""
    ranges = {(cut.table, cut.table_version): (cut.low, cut.high) for cut in cuts}
    parts: dict[tuple[str, str], dict[int, dict[str, Profile]]] = defaultdict(lambda: defaultdict(dict))
    for row in _profiles_of_parts(_within(rows, cuts), ranges):
        parts[row["table"], row["table_version"]][row["part"]][row["column"]] = row["profile"]
    narrowed = {}
    for cut in cuts:
        of_version = parts[cut.table, cut.table_version]
        at = _parting([_unlike(cut, of_version.get(part, {})) for part in range(_PARTS)])
        low, high = (_first_row(max(0, min(number, _PARTS)), cut.low, cut.high) for number in (at - 1, at + 1))
        narrowed[cut.table, cut.table_version] = replace(cut, low=low, high=max(low, high - 1))
    return narrowed


def _unlike(cut: _Cut, profiles: Mapping[str, Profile]) -> float:
    """Above 0 for values that resemble those before, below 0 for values that resemble those of the other columns."""
    unlikeness = 0.0
    for column, profile in profiles.items():
        if column not in cut.pairs:
            continue
        own = distance(cut.before[column], profile, least=1) or 0.0
        unlikeness += ((distance(cut.before[cut.pairs[column]], profile, least=1) or 0.0) - own) * profile.values
    return unlikeness


def _cost(cut: _Cut, image: Sequence[tuple[str, str | None]]) -> float:
    return _unlike(cut, {column: profile_of([value]) for column, value in image})


def _parting(costs: Sequence[float]) -> int:
    """The index with the highest sum of costs before it: the first row of the second part."""
    best, at, running = 0.0, 0, 0.0
    for number, cost in enumerate(costs, 1):
        running += cost
        if running > best:
            best, at = running, number
    return min(at, len(costs) - 1)


# --- profiles ---------------------------------------------------------------------------------------------------------

_CLASSES: Final = {
    "digits": "[0-9]",
    "lower": r"\p{Ll}",
    "upper": r"\p{Lu}",
    "signs": r"[-+.,:/ ]",
}
_NUMBER: Final = r"^[-+]?[0-9]+(\.[0-9]+)?$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SIGNS: Final = "-+.,:/ "
_PLAIN_NUMBER: Final = re.compile(_NUMBER.replace("$", r"\Z"))
_PLAIN_TIME: Final = re.compile(_TIME)
_LEAST_VALUES: Final = 5  # minimum values for a comparison

ALIKE: Final = 0.35
"""Profiles with at most this distance may be of one column."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Sums over the values of a column: the number of ``rows`` that have it, of ``nulls``, of values that look like a
    ``number`` or a ``time``; the sums of lengths in characters and of their squares, of the characters of each class,
    and of the numbers' magnitudes (logarithms to base 10) and their squares."""

    rows: int
    nulls: int
    number: int
    time: int
    length: float
    length2: float
    digits: float
    lower: float
    upper: float
    signs: float
    size: float
    size2: float

    @property
    def values(self) -> int:
        """The number of values that are not NULL."""
        return self.rows - self.nulls

    def __add__(self, other: Profile) -> Profile:
        return Profile(*map(add, _numbers(self), _numbers(other)))

    def features(self) -> dict[str, tuple[float, float]]:
        """The features of a comparison: a mean and a deviation each, between 0 and about 1 or in decades."""
        count = max(self.values, 1)
        letters = max(self.length, 1.0)
        mean = self.length / count
        spread = math.sqrt(max(self.length2 / count - mean**2, 0.0))
        numbers = max(self.number, 1)
        size = self.size / numbers
        return {
            "nulls": (self.nulls / max(self.rows, 1), 0.5),
            "number": (self.number / count, 0.2),
            "time": (self.time / count, 0.2),
            "length": (math.log1p(mean), 0.15 + spread / (mean + 1)),
            **{name: (getattr(self, name) / letters, 0.2) for name in _CLASSES},
            "size": (size, 0.5 + math.sqrt(max(self.size2 / numbers - size**2, 0.0))),
        }


_numbers: Final = attrgetter(*Profile.__slots__)

NOTHING: Final = Profile(*([0] * 4), *([0.0] * 8))
"""The profile of no values."""


def measures(values: pa.Array) -> dict[str, pa.Array]:
    """What a :class:`Profile` sums, for each text."""
    number, length = pc.match_substring_regex(values, _NUMBER), pc.utf8_length(values).cast(pa.float64())
    size = pc.log10(pc.add(pc.abs(pc.if_else(number, values, None).cast(pa.float64())), 1.0))
    flags = {"nulls": values.is_null(), "number": number, "time": pc.match_substring_regex(values, _TIME)}
    classes = {name: pc.count_substring_regex(values, pattern).cast(pa.float64()) for name, pattern in _CLASSES.items()}
    numbers = {"length": length, "length2": pc.multiply(length, length), **classes}
    numbers |= {"size": size, "size2": pc.multiply(size, size)}
    return {
        "rows": pa.repeat(1, len(values)),
        **{name: flag.cast(pa.int64()) for name, flag in flags.items()},
        **numbers,
    }


def profiles_of(rows: Rows, by: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]) -> list[dict[str, Any]]:
    """The profile of every column of an ``image``, for every value of the columns that ``by`` gives: rows with these,
    ``column`` and ``profile``."""
    names = Profile.__slots__

    def partial(batch: pa.RecordBatch) -> pa.Table | None:
        image = Pairs(batch["image"])
        groups = {name: values_of_rows.take(pa.array(image.rows)) for name, values_of_rows in by(batch).items()}
        return merged([pa.table({**groups, "column": image.names, **measures(image.values)})])

    def merged(parts: Sequence[pa.Table | None]) -> pa.Table | None:
        known = [part for part in parts if part is not None]
        if not known:
            return None
        table = pa.concat_tables(known)
        keys = [name for name in table.schema.names if name not in names]
        sums = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in names])
        return sums.rename_columns([*keys, *names])

    found = rows.fold(partial, merged)
    return [
        {**row, "profile": Profile(*(row.pop(name) or 0 for name in names))}
        for row in ([] if found is None else found.to_pylist())
    ]


def profile_of(values: Iterable[str | None]) -> Profile:
    """The profile of some texts: :func:`measures` one by one."""
    profile = NOTHING
    for value in values:
        if value is None:
            profile += Profile(1, 1, 0, 0, *([0.0] * 8))
            continue
        number = _PLAIN_NUMBER.match(value) is not None
        size = math.log10(abs(float(value)) + 1) if number else 0.0
        length = float(len(value))
        letters = (
            float(sum("0" <= c <= "9" for c in value)),
            float(sum(unicodedata.category(c) == "Ll" for c in value)),
            float(sum(unicodedata.category(c) == "Lu" for c in value)),
            float(sum(c in _SIGNS for c in value)),
        )
        time = int(_PLAIN_TIME.match(value) is not None)
        profile += Profile(1, 0, int(number), time, length, length**2, *letters, size, size**2)
    return profile


def distance(profile: Profile, other: Profile, least: int = _LEAST_VALUES) -> float | None:
    """The distance between two profiles, from 0; None if one has fewer than ``least`` values.

    The mean of the differences of features, each in units of the feature's deviation; each counts 4 at most.
    """
    if min(profile.values, other.values) < least:
        return None
    first, second_features = profile.features(), other.features()
    steps = []
    for name, (mean, spread) in first.items():
        if name == "size" and min(profile.number, other.number) < least:
            continue
        second, other_spread = second_features[name]
        steps.append(min(abs(mean - second) / max((spread + other_spread) / 2, 0.05), 4.0))
    return sum(steps) / len(steps)


def total(profiles: Iterable[Mapping[str, Any]]) -> dict[str, Profile]:
    """The sum of the profiles of several stretches, by column."""
    totals: dict[str, Profile] = {}
    for row in profiles:
        name, profile = row["column"], row["profile"]
        totals[name] = totals[name] + profile if name in totals else profile
    return totals
