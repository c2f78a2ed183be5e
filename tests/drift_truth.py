"""What has to be found in a generated capture whose tables change their columns, told from the truth beside it.

The generator renames a column ``x`` into ``x_v3``, and calls a new one after its kind, ``n_v3``; so a column that is
gone and one that has come are one column where their names are the same without that end.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["Expected", "drift_truth", "merged", "truth_versions"]

Expected = tuple[str, str, str | None, str | None]
"""Rule, table, column and first position of a finding; a column with another type or size is ``column_changed``."""


def truth_versions(made: Path) -> dict[str, list[dict[str, Any]]]:
    """The versions of every table, in the order in which they were made."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in pq.read_table(made / "truth" / "table_versions.parquet").to_pylist():
        found[".".join(filter(None, (row["schema_name"], row["table_name"])))].append(row)
    for rows in found.values():  # in the truth, those without rows are the last
        rows.sort(key=lambda row: int(label) if (label := row["table_version"].rpartition("@")[2]).isdigit() else 0)
    return found


def drift_truth(made: Path) -> list[Expected]:
    """All differences between neighbours, sorted."""
    found: list[Expected] = []
    for table, mine in truth_versions(made).items():
        for old, new in pairwise(mine):
            where = new["first_position"]
            found += [(rule, table, column, where) for rule, column in _differences(old["columns"], new["columns"])]
    return sorted(found, key=str)


def merged(findings: list[list[Any]]) -> list[Expected]:
    """Findings of the product in the same words, sorted."""
    other = {"column_retyped": "column_changed", "column_resized": "column_changed"}
    return sorted(((other.get(rule, rule), *rest) for rule, *rest in findings), key=str)


def _differences(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    before, after = {one["name"]: one for one in old}, {one["name"]: one for one in new}
    gone, come = [n for n in before if n not in after], [n for n in after if n not in before]
    former = {name: was for name in come for was in gone if _base(was) == _base(name)}
    found: list[tuple[str, str | None]] = [("column_renamed", name) for name in former]
    found += [("column_added", name) for name in come if name not in former]
    found += [("column_dropped", name) for name in gone if name not in former.values()]
    now = {former.get(name, name): one for name, one in after.items()}
    sizes = ("type", "length", "precision", "scale")
    for name, one in now.items():
        if name in before and any(before[name][size] != one[size] for size in sizes):
            found.append(("column_changed", one["name"]))
    if [name for name in before if name in now] != [name for name in now if name in before]:
        found.append(("columns_reordered", None))
    return found


def _base(name: str) -> str:
    return re.sub(r"_v\d+$", "", name)
