"""Values that stand under the wrong columns, found from the values alone.

A source that changes its columns without saying so, keeping their number, makes a reader that goes by place take values
for those of other columns, and nothing breaks. Here the rows of each version of a table are cut where the values of a
column stop looking like themselves and begin to look like those of another (:mod:`cdcwb.analysis.profiles`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.analysis.frames import table_name, when
from cdcwb.analysis.profiles import ALIKE, Profile, distance, profile_of, profiles_of, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Misaligned", "misaligned"]

_PARTS: Final = 24  # of the rows of a version; a cut is looked for between them
_UNLIKE: Final = 0.8
_BETTER: Final = 0.5  # another column has to fit so much better
_LEAST: Final = 12  # values of a column on each side
_LEAST_ROWS: Final = 48
_ROWS: Final = 20_000  # of the two parts around a cut


class Tables(Protocol):
    """What is asked of a capture (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Misaligned:
    """From ``first_position`` on (at ``first_at``, in ``file`` at ``offset``), the values under each ``column`` of a
    table look like those that stood under its ``looks_like`` before: ``columns`` has pairs of both. ``changes``: how
    many rows of the version stand from there on."""

    table: str
    table_version: str
    columns: tuple[tuple[str, str], ...]
    first_position: str | None
    first_at: datetime | None
    file: str
    offset: int
    changes: int
    evidence: str


def misaligned(capture: Tables) -> list[Misaligned]:
    """Where values stand under the wrong columns, by table; at most one place a version. Only versions with at least
    48 rows that have images are looked at, and only columns with some values on both sides."""
    rows = _parted(capture)
    found = profiles_of(rows, ["table", "table_version", "_part"], F.col("_image"))
    parts: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        parts[row["table"], row["table_version"]][row["_part"]].append(row)
    answers = []
    for (table, version), mine in sorted(parts.items()):
        cut = _best_cut(mine)
        if cut is None:
            continue
        part, pairs, before = cut
        answers.append(_placed(rows, table, version, part, pairs, before))
    return answers


def _parted(capture: Tables) -> DataFrame:
    """Changes with images, and the part of their version's rows in which each stands."""
    version = Window.partitionBy("table", "table_version")
    order = version.orderBy("position", "file_index", "offset")
    rows = capture.changes.withColumns(
        {"table": table_name(), "_when": when(), "_image": F.coalesce("after", "before")}
    ).filter("_image IS NOT NULL AND table_version IS NOT NULL AND operation != 'DELETE'")
    kept = ("table", "table_version", "position", "_when", "file", "file_index", "offset", "_image")
    counted = rows.select(*kept).withColumns({"_rows": F.count("*").over(version), "_row": F.row_number().over(order)})
    return counted.filter(F.col("_rows") >= _LEAST_ROWS).withColumn(
        "_part", F.floor((F.col("_row") - 1) * _PARTS / F.col("_rows")).cast("int")
    )


def _best_cut(
    parts: Mapping[int, Sequence[Mapping[str, Any]]],
) -> tuple[int, dict[str, str], dict[str, Profile]] | None:
    """The part with which the wrong columns begin, which columns they are, and the profiles of all before it."""
    best: tuple[float, int, dict[str, str], dict[str, Profile]] | None = None
    for cut in range(1, _PARTS):
        before = total(row for part, rows in parts.items() if part < cut for row in rows)
        after = total(row for part, rows in parts.items() if part >= cut for row in rows)
        pairs, score = {}, 0.0
        changed = {name: distance(before[name], one, _LEAST) for name, one in after.items() if name in before}
        for column, profile in after.items():
            own = changed.get(column)
            others = {name: distance(one, profile, _LEAST) for name, one in before.items() if name != column}
            known = {name: far for name, far in others.items() if far is not None}
            if own is None or own < _UNLIKE or not known:
                continue
            nearest = min(known, key=lambda name, known=known: known[name])  # type: ignore[misc]
            gone = changed.get(nearest)  # a column whose values are still its own has lent them to no other
            if gone is not None and gone >= _UNLIKE and known[nearest] <= min(ALIKE * 1.5, own * _BETTER):
                pairs[column] = nearest
                score += own - known[nearest]
        if pairs and (best is None or score > best[0]):
            best = (score, cut, pairs, before)
    return None if best is None else best[1:]


def _placed(
    rows: DataFrame, table: str, version: str, part: int, pairs: dict[str, str], before: dict[str, Profile]
) -> Misaligned:
    """The first row with values under the wrong columns: the one that parts the rows around the cut best."""
    mine = rows.filter((F.col("table") == table) & (F.col("table_version") == version))
    image = F.map_filter("_image", lambda name, _: name.isin(*pairs))
    around = (
        mine.filter(F.col("_part").between(part - 1, part))
        .select("position", "_when", "file", "offset", "_row", "_rows", image.alias("_image"))
        .orderBy("_row")
        .limit(_ROWS)
        .toArrow()
        .to_pylist()
    )
    costs = []
    for row in around:  # above 0: the row looks as it did before
        own = other = 0.0
        for column, value in row["_image"]:
            one = profile_of([value])
            own += distance(before[column], one, least=1) or 0.0
            other += distance(before[pairs[column]], one, least=1) or 0.0
        costs.append(other - own)
    best, at, running = 0.0, 0, 0.0
    for number, cost in enumerate(costs, 1):
        running += cost
        if running > best:
            best, at = running, number
    first = around[min(at, len(around) - 1)]
    shown = ", ".join(f"{column} like {other}" for column, other in sorted(pairs.items()))
    evidence = f"values before and after {first['position'] or first['offset']}: {shown}"
    return Misaligned(
        *(table, version, tuple(sorted(pairs.items())), first["position"], first["_when"]),
        *(first["file"], first["offset"], first["_rows"] - first["_row"] + 1, evidence),
    )
