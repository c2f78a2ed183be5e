"""Compares the expected numbers of captures, stored in ``expected.json``, with the actual numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.model import Kind, OffsetUnit
from cdcwb.small import Small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["FILE", "actual", "compare", "read_expected", "words"]

FILE: Final = "expected.json"
"""The file next to the captures with their expected numbers, by name of the capture, with the names of
:func:`cdcwb.analysis.summary.summarize`; ``tables`` is the number of tables."""

Numbers = dict[str, int]
"""Numbers by quantity. Counts by value are flat: ``changes_by_operation.INSERT``."""

_WORDS: Final = {
    "bytes": "bytes in its files",
    "malformed_bytes": "bytes that are not a record",
    "tables": "tables",
    "table_versions": "table versions",
    "changes": "changes",
    "transactions": "transactions",
}
_NAMES: Final = {
    "changes": ("operation", "outcome"),
    "transactions": ("outcome", "completeness"),
    "table_versions": ("schema_name", "table_name"),
}
"""The columns by which the rows of each table are counted."""
_COUNTS: Final = (
    "changes_by_operation",
    "changes_by_outcome",
    "transactions_by_outcome",
    "transactions_by_completeness",
)


def read_expected(folder: str | Path) -> dict[str, Numbers]:
    """The numbers of :data:`FILE` in ``folder`` by the name of the capture; empty without such a file.

    Raises CaptureError if the file has another structure.
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
    flat: Numbers = {}
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": int(number) for key, number in value.items()}
        else:
            flat[name] = int(value)
    return flat


def actual(captures: Mapping[str, Capture | Small]) -> dict[str, Numbers]:
    """The actual numbers of captures: all quantities of :func:`read_expected`; counts by value that are 0 are left out.
    One Spark job for each capture that Spark reads."""
    by_capture: dict[str, Numbers] = {}
    for name, capture in captures.items():
        numbers: Numbers = dict.fromkeys(_WORDS, 0)
        numbers["bytes"] = sum(entry["size"] for entry in capture.files)
        counts = _counted(capture) if isinstance(capture, Small) else _asked(capture)
        for (what, *names), number in counts.items():
            _add(numbers, what, names, number)
        by_capture[name] = numbers
    return by_capture


Counts: TypeAlias = Counter[tuple[str, str | None, str | None]]
"""The number of rows by table and two of their values; for malformed records, their bytes."""


def _counted(capture: Small) -> Counts:
    counts: Counts = Counter()
    for what, (first, second) in _NAMES.items():
        for batch in getattr(capture, what)():
            counts.update(zip(repeat(what), batch[first].to_pylist(), batch[second].to_pylist()))
    for batch in capture.events():
        rows = pc.and_(
            pc.equal(batch["kind"], str(Kind.MALFORMED)), pc.equal(batch["offset_unit"], str(OffsetUnit.BYTE))
        )
        counts[("malformed_bytes", None, None)] += pc.sum(batch["length"].filter(rows)).as_py() or 0
    return counts


def _asked(capture: Capture) -> Counts:
    rows = reduce(lambda first, other: first.unionAll(other), _frames(capture)).collect()
    return Counter({(row.what, row.first, row.second): row.number or 0 for row in rows})


def _frames(capture: Capture) -> list[DataFrame]:
    """The rows ``what``, ``first``, ``second``, ``number`` of one capture."""
    from pyspark.sql import functions as F

    def counted(frame: DataFrame, what: str, first: str, second: str, number: Any) -> DataFrame:
        columns = [F.col(first).cast("string").alias("first"), F.col(second).cast("string").alias("second")]
        grouped = frame.groupBy(*columns).agg(number.cast("long").alias("number"))
        return grouped.select(F.lit(what).alias("what"), "first", "second", "number")

    broken = capture.headers.where((F.col("kind") == Kind.MALFORMED) & (F.col("offset_unit") == OffsetUnit.BYTE))
    every = F.count("*")
    tables = {"changes": capture.change_headers, "transactions": capture.transactions}
    tables["table_versions"] = capture.table_versions
    return [
        *(counted(tables[what], what, *names, every) for what, names in _NAMES.items()),
        counted(broken, "malformed_bytes", "kind", "offset_unit", F.sum("length")),
    ]


def _add(numbers: Numbers, what: str, names: Sequence[str | None], number: int) -> None:
    numbers[what] += number
    if what == "table_versions":
        numbers["tables"] += 1
    kinds = {"changes": _COUNTS[:2], "transactions": _COUNTS[2:]}.get(what, ())
    for kind, name in zip(kinds, names, strict=False):
        if name is not None:
            numbers[f"{kind}.{name}"] = numbers.get(f"{kind}.{name}", 0) + number


def compare(expected: Mapping[str, int], counted: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expected and actual numbers of one capture: ``quantity``, ``expected``, ``actual`` and ``agrees``. A quantity
    that is missing on one side counts as 0 there."""
    names = list(dict.fromkeys([*expected, *sorted(counted.keys() - expected.keys())])) if expected else []
    return [
        {
            "quantity": name,
            "expected": expected.get(name, 0),
            "actual": counted.get(name, 0),
            "agrees": expected.get(name, 0) == counted.get(name, 0),
        }
        for name in names
    ]


def words(quantity: str) -> str:
    """The readable name of a quantity: ``changes: INSERT`` for ``changes_by_operation.INSERT``."""
    kind, _, name = quantity.partition(".")
    if not name:
        return _WORDS.get(kind, kind)
    return f"{kind.partition('_by_')[0]}: {name.replace('_', ' ')}"
