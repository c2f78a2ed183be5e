"""Numbers that a capture must have beside those that it has: ``expected.json`` beside the captures against one question
to Spark about each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import CaptureError
from cdcwb.model import Kind, OffsetUnit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["FILE", "actual", "compare", "read_expected", "words"]

FILE: Final = "expected.json"
"""The file beside the captures: numbers by the name of a capture, under the names of
:func:`cdcwb.analysis.summary.summarize`, ``tables`` being how many there are."""

Numbers = dict[str, int]
"""Quantities by name; a count by name is flat: ``changes_by_operation.INSERT``."""

_WORDS: Final = {
    "bytes": "bytes in its files",
    "malformed_bytes": "bytes that are not a record",
    "tables": "tables",
    "table_versions": "table versions",
    "changes": "changes",
    "transactions": "transactions",
}
_COUNTS: Final = (
    "changes_by_operation",
    "changes_by_outcome",
    "transactions_by_outcome",
    "transactions_by_completeness",
)


def read_expected(folder: str | Path) -> dict[str, Numbers]:
    """The numbers of :data:`FILE` in ``folder`` by the name of the capture; empty where there is no such file.

    Raises CaptureError where it is something else.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): _flat(numbers) for name, numbers in content.items()}
    except (ValueError, AttributeError, TypeError) as reason:
        raise CaptureError(f"no numbers by the names of captures ({reason})", path=str(path)) from None


def _flat(numbers: Mapping[str, Any]) -> Numbers:
    found: Numbers = {}
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": int(number) for key, number in value.items()}
        else:
            found[name] = int(value)
    return found


def actual(captures: Mapping[str, Capture]) -> dict[str, Numbers]:
    """What is counted in captures: all quantities of :func:`read_expected`, those of which there are none left out but
    for the plain ones. One Spark job for each capture."""
    found: dict[str, Numbers] = {}
    for name, capture in captures.items():
        numbers: Numbers = dict.fromkeys(_WORDS, 0)
        numbers["bytes"] = sum(entry["size"] for entry in capture.files)
        for row in reduce(lambda one, other: one.unionAll(other), _frames(capture)).collect():
            _add(numbers, row.what, [row.first, row.second], row.number or 0)
        found[name] = numbers
    return found


def _frames(capture: Capture) -> list[DataFrame]:
    """The rows ``what``, ``first``, ``second``, ``number`` of one capture."""
    from pyspark.sql import functions as F

    def counted(frame: DataFrame, what: str, first: str, second: str, number: Any) -> DataFrame:
        columns = [F.col(first).cast("string").alias("first"), F.col(second).cast("string").alias("second")]
        grouped = frame.groupBy(*columns).agg(number.cast("long").alias("number"))
        return grouped.select(F.lit(what).alias("what"), "first", "second", "number")

    broken = capture.headers.where((F.col("kind") == Kind.MALFORMED) & (F.col("offset_unit") == OffsetUnit.BYTE))
    every = F.count("*")
    return [
        counted(capture.change_headers, "changes", "operation", "outcome", every),
        counted(capture.transactions, "transactions", "outcome", "completeness", every),
        counted(capture.table_versions, "table_versions", "schema_name", "table_name", every),
        counted(broken, "malformed_bytes", "kind", "offset_unit", F.sum("length")),
    ]


def _add(numbers: Numbers, what: str, names: list[str | None], number: int) -> None:
    numbers[what] += number
    if what == "table_versions":
        numbers["tables"] += 1
    kinds = {"changes": _COUNTS[:2], "transactions": _COUNTS[2:]}.get(what, ())
    for kind, name in zip(kinds, names, strict=False):
        if name is not None:
            numbers[f"{kind}.{name}"] = numbers.get(f"{kind}.{name}", 0) + number


def compare(expected: Mapping[str, int], found: Mapping[str, int]) -> list[dict[str, Any]]:
    """The numbers of one capture side by side: ``quantity``, ``expected``, ``actual`` and ``agrees``. What is counted
    without being expected was expected to be 0, and the other way round."""
    names = list(dict.fromkeys([*expected, *sorted(found.keys() - expected.keys())])) if expected else []
    return [
        {
            "quantity": name,
            "expected": expected.get(name, 0),
            "actual": found.get(name, 0),
            "agrees": expected.get(name, 0) == found.get(name, 0),
        }
        for name in names
    ]


def words(quantity: str) -> str:
    """The name of a quantity for people: ``changes: INSERT`` for ``changes_by_operation.INSERT``."""
    kind, _, name = quantity.partition(".")
    if not name:
        return _WORDS.get(kind, kind)
    return f"{kind.partition('_by_')[0]}: {name.replace('_', ' ')}"
