"""Detects values under the wrong columns, from the values alone.

If a source changes its columns without a new definition and keeps their number, a reader that assigns columns by
ordinal takes values for those of other columns, and no error occurs. The rows of each version of a table are split
where the values of a column stop resembling earlier values of the column and begin to resemble those of another.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.analysis.frames import table_name
from cdcwb.model import Operation
from cdcwb.spark.select import dated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.analysis.frames import Tables

__all__ = [
    "ALIKE",
    "NOTHING",
    "RULE",
    "Misaligned",
    "Profile",
    "Values",
    "distance",
    "measures",
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
_AT_ONCE: Final = 50  # versions whose rows are examined in one job


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


def values(capture: Tables) -> Values:
    """Profiles of the values of every version, and misaligned values. These are searched in versions with at least 48
    rows that have images, and in columns with values on both sides of a cut."""
    rows = _numbered(capture)
    part = F.when(F.col("_rows") >= _LEAST_ROWS, F.floor((F.col("_row") - 1) * _PARTS / F.col("_rows"))).cast("int")
    numbered = rows.withColumn("_part", F.coalesce(part, F.lit(0)))
    parts: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[tuple[str, str], int] = {}
    for row in profiles_of(numbered, ["table", "table_version", "_rows", "_part"], F.col("_image")):
        parts[row["table"], row["table_version"]][row["_part"]].append(row)
        counts[row["table"], row["table_version"]] = row["_rows"]
    cuts = []
    for (table, version), of_version in sorted(parts.items()):
        cut = _best_cut(of_version) if counts[table, version] >= _LEAST_ROWS else None
        if cut is not None:
            count, (at, pairs, before, after) = counts[table, version], cut
            low, high = _first_row(at - 1, 1, count), _first_row(at + 1, 1, count) - 1
            cuts.append(_Cut(table, version, count, low, high, pairs, before, after))
    answers = [c for at in range(0, len(cuts), _AT_ONCE) for c in _placed(rows, cuts[at : at + _AT_ONCE])]
    profiles = {
        whose: total(row for rows in of_version.values() for row in rows) for whose, of_version in sorted(parts.items())
    }
    return Values(profiles, answers)


def _first_row(part: int, low: int, high: int) -> int:
    """The first row of a part, for rows from ``low`` to ``high``: the smallest row with floor((row - low) * parts /
    rows) = part."""
    return low - (-part * (high - low + 1) // _PARTS)


def _numbered(capture: Tables) -> DataFrame:
    """Changes with images, each with its number in its version, from 1, and the total of the version."""
    version = Window.partitionBy("table", "table_version")
    order = version.orderBy("position", "file_index", "offset")
    rows = dated(capture.changes, capture.transactions).withColumns(
        {"table": table_name(), "_image": F.coalesce("after", "before")}
    )
    rows = rows.filter(
        F.col("_image").isNotNull() & F.col("table_version").isNotNull() & (F.col("operation") != str(Operation.DELETE))
    )
    columns = ("table", "table_version", "position", "_when", "file", "file_index", "offset", "_image")
    return rows.select(*columns).withColumns({"_rows": F.count("*").over(version), "_row": F.row_number().over(order)})


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


def _placed(rows: DataFrame, cuts: Sequence[_Cut]) -> list[Misaligned]:
    """The first row with misaligned values: the best split of the rows around the cut."""
    while wide := [cut for cut in cuts if cut.high - cut.low >= _ROWS]:
        closer = _closer(rows, wide)
        cuts = [closer.get((cut.table, cut.table_version), cut) for cut in cuts]
    around = (
        _within(rows, cuts)
        .select("table", "table_version", "position", "_when", "file", "offset", "_row", "_image")
        .orderBy("table", "table_version", "_row")
        .toArrow()
        .to_pylist()
    )
    by_version: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in around:
        by_version[row["table"], row["table_version"]].append(row)
    misaligned = []
    for cut in cuts:
        of_version = by_version[cut.table, cut.table_version]
        first = of_version[_parting([_cost(cut, row["_image"]) for row in of_version])]
        shown = ", ".join(f"{column} like {other}" for column, other in sorted(cut.pairs.items()))
        evidence = f"values before and after {first['position'] or first['offset']}: {shown}"
        misaligned.append(
            Misaligned(
                table=cut.table,
                table_version=cut.table_version,
                columns=tuple(sorted(cut.pairs.items())),
                first_position=first["position"],
                first_at=first["_when"],
                file=first["file"],
                offset=first["offset"],
                changes=cut.rows - first["_row"] + 1,
                evidence=evidence,
                before=cut.before,
                after=cut.after,
            )
        )
    return misaligned


def _within(rows: DataFrame, cuts: Sequence[_Cut]) -> DataFrame:
    """The rows around each cut, with the values of its columns only."""
    named = "_table STRING, _version STRING, _low BIGINT, _high BIGINT, _names ARRAY<STRING>"
    ranges = [(cut.table, cut.table_version, cut.low, cut.high, list(cut.pairs)) for cut in cuts]
    same_version = (F.col("table") == F.col("_table")) & (F.col("table_version") == F.col("_version"))
    near = F.col("_row").between(F.col("_low"), F.col("_high"))
    return rows.join(F.broadcast(rows.sparkSession.createDataFrame(ranges, named)), same_version & near).withColumn(
        "_image", F.expr("map_filter(_image, (name, value) -> array_contains(_names, name))")
    )


def _closer(rows: DataFrame, cuts: Sequence[_Cut]) -> dict[tuple[str, str], _Cut]:
    """The same cuts with narrower ranges of rows."""
    part = F.floor((F.col("_row") - F.col("_low")) * _PARTS / (F.col("_high") - F.col("_low") + 1)).cast("int")
    parts_of_cuts = _within(rows, cuts).withColumn("_part", part)
    parts: dict[tuple[str, str], dict[int, dict[str, Profile]]] = defaultdict(dict)
    for row in profiles_of(parts_of_cuts, ["table", "table_version", "_part"], F.col("_image")):
        parts[row["table"], row["table_version"]].setdefault(row["_part"], {})[row["column"]] = row["profile"]
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


def measures(value: Column) -> list[Column]:
    """The sums of a :class:`Profile` over a text column, as aggregates with the names of its fields."""
    length = F.length(value).cast("double")
    magnitude = F.when(value.rlike(_NUMBER), F.log10(F.abs(value.cast("double")) + 1))

    def letters(pattern: str) -> Column:
        return F.regexp_count(value, F.lit(pattern)).cast("double")

    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(value.isNull()).alias("nulls"),
        F.count_if(value.rlike(_NUMBER)).alias("number"),
        F.count_if(value.rlike(_TIME)).alias("time"),
        F.coalesce(F.sum(length), F.lit(0.0)).alias("length"),
        F.coalesce(F.sum(length * length), F.lit(0.0)).alias("length2"),
        *[F.coalesce(F.sum(letters(p)), F.lit(0.0)).alias(name) for name, p in _CLASSES.items()],
        F.coalesce(F.sum(magnitude), F.lit(0.0)).alias("size"),
        F.coalesce(F.sum(magnitude * magnitude), F.lit(0.0)).alias("size2"),
    ]


def profiles_of(rows: DataFrame, by: Sequence[str], image: Column) -> list[dict[str, Any]]:
    """The profile of every column of an image, for every value of the columns ``by``: rows with these, ``column`` and
    ``profile``."""
    values = rows.select(*by, F.explode(image).alias("column", "_value"))
    rows_of_columns = values.groupBy(*by, "column").agg(*measures(F.col("_value"))).toArrow().to_pylist()
    names = Profile.__slots__
    return [
        {**{name: row[name] for name in by}, "column": row["column"], "profile": Profile(*(row[n] for n in names))}
        for row in rows_of_columns
    ]


def profile_of(values: Iterable[str | None]) -> Profile:
    """The profile of some texts: :func:`measures` without Spark."""
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
