"""Which record a row of a table leads to: the one whose place it names, else the first with its position or its record
id, else the first of its transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.partition_files import holding

if TYPE_CHECKING:
    from cdcwb.index.changes import Changes

__all__ = ["Rows", "records_of"]

Rows = Sequence[Mapping[str, Any]]

_POSITIONS: Final = ("position", "first_position")
_RECORD_IDS: Final = ("record_id", "first_record_id")


def records_of(rows: Rows, changes: Changes) -> list[int | None]:
    """The number of the record that each row leads to, None where it names none.

    What is looked at of a row, in this order: ``file`` and ``offset``; ``position`` or ``first_position``;
    ``record_id`` or ``first_record_id``; ``transaction_id``.
    """
    found: list[int | None] = [None] * len(rows)
    for find in (_by_place, _by_position, _by_record_id, _by_transaction):
        left = [number for number, record in enumerate(found) if record is None]
        if left:
            for number, record in zip(left, find([rows[number] for number in left], changes), strict=True):
                found[number] = record
    return found


def _by_place(rows: Rows, changes: Changes) -> list[int | None]:
    numbers = {str(entry["file"]): int(entry["file_index"]) for entry in changes.places.files}

    def index(file: str, offset: Any) -> int | None:
        return numbers.get(holding(file, offset, numbers) if isinstance(offset, int) else file)

    places = [(index(str(row.get("file")), row.get("offset")), row.get("offset")) for row in rows]
    return [
        None if file is None or not isinstance(offset, int) else changes.places.at(file, offset)
        for file, offset in places
    ]


def _by_position(rows: Rows, changes: Changes) -> list[int | None]:
    return _by_value(rows, _POSITIONS, lambda values: changes.places.first("position", values))


def _by_record_id(rows: Rows, changes: Changes) -> list[int | None]:
    return _by_value(rows, _RECORD_IDS, lambda values: changes.places.first("record_id", values))


def _by_transaction(rows: Rows, changes: Changes) -> list[int | None]:
    def first(values: set[Any]) -> dict[Any, int]:
        ids = changes.transactions.rows["transaction_id"]
        mine = pc.is_in(ids, value_set=pa.array(list(values), ids.type)).to_numpy(zero_copy_only=False)
        numbers = np.flatnonzero(mine & (changes.transactions.record >= 0))
        return {ids[int(one)].as_py(): int(changes.transactions.record[one]) for one in numbers}

    return _by_value(rows, ("transaction_id",), first)


def _by_value(rows: Rows, names: Sequence[str], first: Callable[[set[Any]], Mapping[Any, int]]) -> list[int | None]:
    values = [next((row[name] for name in names if row.get(name) is not None), None) for row in rows]
    known = first({value for value in values if value is not None})
    return [known.get(value) for value in values]
