"""A plain reading of a generator's truth: the rows of a table as they stood at some place, change by change."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["by_hand", "changes_of"]

Image = dict[str, str | None]
Key = tuple[tuple[str, str | None], ...]


def changes_of(made: Path) -> list[dict[str, Any]]:
    """The true changes of a generated capture in the order of their commits; full loads first."""
    rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
    rows.sort(
        key=lambda row: (
            row["commit_position"] or row["position"] or "",
            row["position"] or "",
            row["file_index"],
            row["offset"],
        )
    )
    return rows


def by_hand(
    made: Path,
    table: str,
    position: str | None = None,
    time: datetime | None = None,
    key: tuple[str, ...] = (),
) -> dict[Key, Image]:
    """The rows of ``table`` by their keys, after what was committed up to a position and a time.

    ``key``: the columns that tell rows apart, where the truth has none.
    """
    rows: dict[Key, Image] = {}
    for change in changes_of(made):
        label = (
            change["table_name"]
            if change["schema_name"] is None
            else ".".join((change["schema_name"], change["table_name"]))
        )
        at = change["committed_at"] or change["changed_at"]
        if label != table or change["outcome"] not in (None, "committed"):
            continue
        if position is not None and (change["commit_position"] or change["position"] or "") > position:
            continue
        if time is not None and at is not None and at > time:
            continue
        if change["operation"] == "TRUNCATE":
            rows.clear()
            continue
        before, after = (dict(change[name] or ()) for name in ("before", "after"))
        image = after or before
        known = dict(change["key"] or ()) or {name: image[name] for name in key}
        if not known:
            continue  # a change whose key is not known concerns no row that is
        former = tuple(sorted((name, before.get(name, value)) for name, value in known.items()))
        latter = tuple(sorted((name, after.get(name, value)) for name, value in known.items()))
        if change["operation"] == "DELETE":
            rows.pop(former, None)
        elif change["operation"] == "UPDATE":
            rows[latter] = {**rows.pop(former, {}), **before, **after}
        elif change["operation"] in ("INSERT", "REFRESH"):
            row = rows.get(latter, {})  # of a row that is inserted column by column
            rows[latter] = {**row, **after} if after and row.keys().isdisjoint(after) else after
    return rows
