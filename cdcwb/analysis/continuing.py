"""Which column of a version goes on, under another name, in the next: what DDL says, and what the rows show.

Rows tell of all pairs of all steps at once: three jobs at most, whatever the number of versions.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F

from cdcwb.analysis.frames import table_name
from cdcwb.analysis.profiles import ALIKE, distance, profiles_of
from cdcwb.model import Outcome
from cdcwb.words import plural

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Pair", "Statement", "continuing", "renames", "told_by"]

_SHARE: Final = 0.9  # of the rows that both versions show: so many have the same value in a column that was renamed
_VALUES: Final = 0.5  # of the distinct values: so many were there before
_LEAST: Final = 2
_TEXT: Final = 200  # characters of a statement that are shown
_UNDONE: Final = (str(Outcome.ROLLED_BACK), str(Outcome.UNDONE), str(Outcome.UNDO))


class Changes(Protocol):
    """What is asked of a capture (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """A column ``old`` of a table's ``old_version`` that may go on as ``new`` in its ``new_version``; ``number`` is
    that of the step. Rows count from ``since`` to ``until`` (positions, None: all): a version that comes back has rows
    before and after the other."""

    number: int
    table: str
    old_version: str
    new_version: str
    old: str
    new: str
    since: str | None = None
    until: str | None = None


# --- what DDL says ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """What the source recorded of a change to a table: ``text`` is SQL, or the details of a control table's row."""

    table: str
    text: str
    position: str | None
    at: datetime | None
    file: str
    offset: int


_NAME: Final = r"""("[^"]{1,128}"|`[^`]{1,128}`|\[[^\]]{1,128}\]|'[^']{1,256}'|[^\s"`\[\](),;.']{1,128})"""
_RENAMES: Final = (
    re.compile(rf"\bRENAME\s+(?:COLUMN\s+)?(?:[^\s.]+\.)*{_NAME}\s+TO\s+{_NAME}", re.IGNORECASE),
    re.compile(rf"\bCHANGE\s+(?:COLUMN\s+)?{_NAME}\s+{_NAME}\s+\w", re.IGNORECASE),
    re.compile(rf"\bsp_rename\s+{_NAME}\s*,\s*{_NAME}\s*,\s*'COLUMN'", re.IGNORECASE),
)


def renames(text: str) -> list[tuple[str, str]]:
    """The columns that a statement renames, old and new name, in order: Qlik's details of a DDL, or SQL (``RENAME
    COLUMN a TO b``, ``CHANGE a b type``, ``sp_rename 'table.a', 'b', 'COLUMN'``). Never raises."""
    if text.lstrip().startswith("{"):
        try:
            columns = json.loads(text).get("columns")
        except (ValueError, RecursionError, AttributeError):
            return []
        told = columns.items() if isinstance(columns, dict) else ()
        said = [(name, one.get("columnNewName")) for name, one in told if isinstance(one, dict)]
        return [(name, new) for name, new in said if isinstance(new, str) and new and new != name]
    found: list[tuple[int, str, str]] = []
    for pattern in _RENAMES:
        found += [(match.start(), _plain(match[1]), _plain(match[2])) for match in pattern.finditer(text[:100_000])]
    return [(old, new) for _, old, new in sorted(found) if old != new]


def _plain(name: str) -> str:
    name = name.strip("'")
    if name[:1] in ('"', "`", "["):
        return name[1:-1]
    return name.rpartition(".")[2].strip('[]"')


def told_by(statements: Iterable[Statement], gone: Iterable[str], come: Iterable[str]) -> dict[tuple[str, str], str]:
    """The pairs of a column that is gone and one that has come which statements say are one, and the statement. Names
    are compared without case; a column that was renamed twice is found by its first name and its last."""
    olds, news = ({name.casefold(): name for name in names} for names in (gone, come))
    first: dict[str, str] = {}  # of a name as it is now: as it was before all of them
    said: dict[str, str] = {}
    for one in statements:
        for old, new in renames(one.text):
            was = first.pop(old.casefold(), old.casefold())
            first[new.casefold()] = was
            before = f"{said.pop(old.casefold())}; " if old.casefold() in said else ""
            place = f" at {one.position}" if one.position else ""
            said[new.casefold()] = f"{before}DDL{place}: {_shown(one.text, old, new)}"
    return {(olds[was], news[now]): said[now] for now, was in first.items() if was in olds and now in news}


def _shown(text: str, old: str, new: str) -> str:
    if text.lstrip().startswith("{"):
        return f'column "{old}" has the new name "{new}"'
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


# --- what rows show ---------------------------------------------------------------------------------------------------


def continuing(capture: Changes, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """Of each pair of columns, why the second goes on where the first ends, the best told first; pairs that do not are
    left out.

    Rows that both versions show, found by their key, say yes or no. Where there are fewer than two, the values are
    compared, then how they look.
    """
    if not pairs:
        return {}
    rows = _rows(capture, pairs)
    found: dict[Pair, str] = {}
    left = list(range(len(pairs)))
    for ask in (_by_rows, _by_values, _by_looks):
        told = ask(rows if len(left) == len(pairs) else rows.filter(F.col("_pair").isin(left)))
        found |= {pairs[number]: why for number, why in sorted(told.items()) if why is not None}
        left = [number for number in left if number not in told]
        if not left:
            break
    return found


def _rows(capture: Changes, pairs: Sequence[Pair]) -> DataFrame:
    """Changes once for every pair that they tell of: ``_pair`` (its number), ``_old`` (is it the old version's row?),
    ``_column`` (the one to look at)."""
    roles = [
        (number, pair.table, version, is_old, column, pair.since, pair.until)
        for number, pair in enumerate(pairs)
        for version, is_old, column in ((pair.old_version, True, pair.old), (pair.new_version, False, pair.new))
    ]
    named = "_pair INT, _table STRING, _version STRING, _old BOOLEAN, _column STRING, _since STRING, _until STRING"
    asked = F.broadcast(capture.changes.sparkSession.createDataFrame(roles, named))
    changes = capture.changes.filter(F.coalesce("outcome", F.lit("")).isin(*_UNDONE) == F.lit(False))
    mine = changes.withColumn("_named", table_name()).join(
        asked, (F.col("_named") == F.col("_table")) & (F.col("table_version") == F.col("_version"))
    )
    return mine.filter("_since IS NULL OR position IS NULL OR position >= _since").filter(
        "_until IS NULL OR position IS NULL OR position <= _until"
    )


def _by_rows(rows: DataFrame) -> dict[int, str | None]:
    place = F.struct("position", "file_index", "offset").alias("place")
    last = F.expr("coalesce(try_element_at(after, _column), try_element_at(before, _column))")
    in_before = F.expr("coalesce(map_contains_key(before, _column), false)")
    untouched = F.expr(
        "operation != 'INSERT' AND coalesce(map_contains_key(after, _column), false)"
        " AND coalesce(NOT array_contains(changed_columns, _column), false)"
    )
    first = F.expr("coalesce(try_element_at(before, _column), try_element_at(after, _column))")
    first = F.when(in_before, F.expr("try_element_at(before, _column)")).otherwise(first)
    counted = (
        rows.filter("key IS NOT NULL")
        .select(
            "_pair",
            F.to_json("key").alias("_key"),
            F.when(F.col("_old") & last.isNotNull(), F.struct(place, last.alias("value"))).alias("_last"),
            F.when(~F.col("_old") & (in_before | untouched), F.struct(place, first.alias("value"))).alias("_first"),
        )
        .groupBy("_pair", "_key")
        .agg(F.max("_last").alias("_last"), F.min("_first").alias("_first"))
        .filter("_last IS NOT NULL AND _first IS NOT NULL")
        .groupBy("_pair")
        .agg(F.count("*").alias("both"), F.count_if(F.expr("_last.value <=> _first.value")).alias("same"))
    )
    found: dict[int, str | None] = {}
    for row in counted.toArrow().to_pylist():
        if row["both"] >= _LEAST:
            is_same = row["same"] >= _SHARE * row["both"]
            seen = f"{row['same']:,} of {plural(row['both'], 'row')} that both versions show have the same value in it"
            found[row["_pair"]] = seen if is_same else None
    return found


def _value() -> Column:
    return F.expr("coalesce(try_element_at(after, _column), try_element_at(before, _column))")


def _by_values(rows: DataFrame) -> dict[int, str | None]:
    counted = (
        rows.select("_pair", "_old", _value().alias("_value"))
        .filter("_value IS NOT NULL")
        .groupBy("_pair", "_value")
        .agg(F.bool_or("_old").alias("_before"), F.bool_or(~F.col("_old")).alias("_after"))
        .groupBy("_pair")
        .agg(F.count_if("_after").alias("after"), F.count_if(F.col("_before") & F.col("_after")).alias("both"))
    )
    return {
        row["_pair"]: f"{row['both']:,} of its {plural(row['after'], 'value')} were in the old column"
        for row in counted.toArrow().to_pylist()
        if row["both"] >= _LEAST and row["both"] >= _VALUES * row["after"]
    }


def _by_looks(rows: DataFrame) -> dict[int, str | None]:
    image = F.expr("map_filter(coalesce(after, before), (name, value) -> name = _column)")
    profiles: Mapping[int, dict[bool, Any]] = defaultdict(dict)
    for row in profiles_of(rows, ["_pair", "_old"], image):
        profiles[row["_pair"]][row["_old"]] = row["profile"]
    found: dict[int, str | None] = {}
    for number, sides in profiles.items():
        old, new = sides.get(True), sides.get(False)
        unlike = None if old is None or new is None else distance(old, new)
        if old is not None and new is not None and unlike is not None and unlike <= ALIKE:
            seen = f"{plural(old.values, 'value')} before, {plural(new.values, 'value')} after"
            same = "the ordinal, the type and the shape of the values are the same"
            found[number] = f"no row shows both, but {same} ({seen})"
    return found
