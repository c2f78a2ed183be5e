"""How the values of a column look, in numbers: enough to tell one column from another, and to see that the values under
a name became those of another column.

A profile is made of counts that add up, so that those of two stretches of a capture are put together by adding them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ALIKE", "NOTHING", "Profile", "distance", "measures", "profile_of", "profiles_of", "total"]

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
_LEAST: Final = 5  # values that a profile needs to be compared

ALIKE: Final = 0.35
"""Profiles that are no further apart may well be of one column."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Sums over the values of a column: how many ``rows`` bear it, how many are ``nulls``, look like a ``number`` or a
    ``time``; the sums of their lengths in characters and of the squares of these, of the characters of each class, and
    of the numbers' magnitudes (logarithms of base 10) and their squares."""

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
        """How many are not NULL."""
        return self.rows - self.nulls

    def __add__(self, other: Profile) -> Profile:
        return Profile(*map(add, _numbers(self), _numbers(other)))

    def features(self) -> dict[str, tuple[float, float]]:
        """What is compared: a mean and how far values lie from it, each between 0 and about 1 or in decades."""
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
    """The sums of a :class:`Profile` over a column of text, as aggregates of these names."""
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
    found = values.groupBy(*by, "column").agg(*measures(F.col("_value"))).toArrow().to_pylist()
    names = Profile.__slots__
    return [
        {**{name: row[name] for name in by}, "column": row["column"], "profile": Profile(*(row[n] for n in names))}
        for row in found
    ]


def profile_of(values: Iterable[str | None]) -> Profile:
    """The profile of some texts; as :func:`measures`, without Spark."""
    found = NOTHING
    for value in values:
        if value is None:
            found += Profile(1, 1, 0, 0, *([0.0] * 8))
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
        found += Profile(1, 0, int(number), time, length, length**2, *letters, size, size**2)
    return found


def distance(one: Profile, other: Profile, least: int = _LEAST) -> float | None:
    """How unlike two profiles are, from 0; None where one has fewer than ``least`` values, too few to tell.

    The mean of the features' differences, each in units of how far its values lie from their mean; each counts 4 at
    most.
    """
    if min(one.values, other.values) < least:
        return None
    mine, theirs = one.features(), other.features()
    steps = []
    for name, (mean, spread) in mine.items():
        if name == "size" and min(one.number, other.number) < least:
            continue
        second, other_spread = theirs[name]
        steps.append(min(abs(mean - second) / max((spread + other_spread) / 2, 0.05), 4.0))
    return sum(steps) / len(steps)


def total(profiles: Iterable[Mapping[str, Any]]) -> dict[str, Profile]:
    """Profiles of several stretches put together, by column."""
    found: dict[str, Profile] = {}
    for row in profiles:
        name, profile = row["column"], row["profile"]
        found[name] = found[name] + profile if name in found else profile
    return found
