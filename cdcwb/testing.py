"""The checks that every format passes (docs/dissectors.md). They need no test framework: a check that fails raises
AssertionError with a sentence.

    from cdcwb.testing import check_format

    check_format("parcel-events", ["parcels.json"])
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, Field, run_here
from cdcwb.formats.files import list_files
from cdcwb.opening import open_small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Checked", "check_format"]

SIZES: Final = (64, 200, 1000, 5000)
"""The target sizes of splits, in bytes, that are compared with one split."""

_RECORDS: Final = 3  # of each record type are dissected
_ORDER: Final = ("file_index", "offset", "transaction_id", "position", "code", "sentence", "table_version", "setting")


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked: the numbers of events, changes, transactions and problems of the files, of trees of records,
    and of mutations that were read and that were refused; and how many times as many functions ran for twice the
    files."""

    events: int
    changes: int
    transactions: int
    problems: int
    trees: int
    read: int
    refused: int
    growth: float


def check_format(
    format: str,
    files: Sequence[str | Path],
    *,
    options: Mapping[str, Any] | None = None,
    sizes: Sequence[int] = SIZES,
    mutations: int = 200,
    seed: int = 0,
    spark: SparkSession | None = None,
) -> Checked:
    """Checks a format against some small captures of it. ``options``: reader options; ``sizes``: target sizes of splits
    in bytes; ``mutations``: the number of damaged copies; ``spark``: a session whose tables are compared too.

    * The bytes of each file that is read by bytes are in exactly one event.
    * All tables are equal whatever the target size of splits, and equal on Spark.
    * The field trees of records lie in their bytes and cover them.
    * Damaged copies end in records or in CaptureError, and keep all bytes.
    * Twice the files take at most three times the work.

    Raises AssertionError.
    """
    given = dict(options or {})
    paths = list_files([str(file) for file in files])
    _check_bytes(format, paths, given)
    whole = _tables(format, paths, given)
    if "split_size" in get_format(format).options:
        for size in sizes:
            _check_equal(whole, _tables(format, paths, {**given, "split_size": size}), f"split_size={size}")
    if spark is not None:
        _check_equal(whole, _tables_of_spark(format, paths, given, spark), "Spark")
    trees = _check_trees(format, whole["events"], given)
    read, refused = _check_mutations(format, paths, given, mutations, random.Random(seed))
    growth = _growth(format, paths, given)
    assert growth < 3, f"twice the files take {growth:.1f} times the work"
    events, changes, transactions, problems = (
        len(whole[name]) for name in ("events", "changes", "transactions", "problems")
    )
    return Checked(events, changes, transactions, problems, trees, read, refused, growth)


def _tables(format: str, paths: Sequence[str], options: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The tables of the model as rows, in an order of their own."""
    small = open_small(list(paths), format, options)
    assert small is not None, "these files are too large to be checked, or need Spark"
    return {name: _ordered(small.table(name)) for name in model.TABLES if name != "detected"}


def _tables_of_spark(
    format: str, paths: Sequence[str], options: Mapping[str, Any], spark: SparkSession
) -> dict[str, list[dict[str, Any]]]:
    import cdcwb

    capture = cdcwb.load(list(paths), format, spark=spark, **options)
    return {
        name: _ordered(getattr(capture, name).select(*schema.names).toArrow().cast(schema))
        for name, schema in model.TABLES.items()
        if name != "detected"
    }


def _ordered(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: tuple((row.get(name) is not None, row.get(name) or 0) for name in _ORDER))


def _check_equal(whole: Mapping[str, list[Any]], found: Mapping[str, list[Any]], where: str) -> None:
    for name, expected in whole.items():
        rows = found[name]
        assert len(rows) == len(expected), f"{where}: {len(rows)} rows of {name}, expected {len(expected)}"
        for number, (row, wanted) in enumerate(zip(rows, expected, strict=True)):
            differs = {column: (row[column], wanted[column]) for column in wanted if row[column] != wanted[column]}
            assert not differs, f"{where}: row {number} of {name} differs (found, expected): {differs}"


def _check_bytes(format: str, paths: Sequence[str], options: Mapping[str, Any]) -> Counter[str]:
    """Every byte is in exactly one event; returns the kinds of events."""
    form = get_format(format)
    plan = form.plan(paths, options, run_here)
    sizes = {entry["file"]: entry["size"] for entry in form.files(plan)}
    ends: dict[str, int] = {}
    kinds: Counter[str] = Counter()
    for split in range(len(plan.splits)):
        for batch in form.read(plan, split, EVERYTHING):
            rows = batch.select(["file", "offset", "length", "offset_unit", "kind"]).to_pylist()
            for row in rows:
                kinds[row["kind"]] += 1
                if row["offset_unit"] == "byte":
                    file, offset = row["file"], row["offset"]
                    expected = ends.get(file, 0)
                    assert offset == expected, f"{file}: an event at offset {offset}, expected {expected}"
                    ends[file] = offset + row["length"]
    for file, end in ends.items():
        assert end == sizes[file], f"{file}: the last event ends at {end} of {sizes[file]} bytes"
    return kinds


# --- trees ------------------------------------------------------------------------------------------------------------


def _check_trees(format: str, events: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> int:
    """Checks the trees of some records of each type; returns their number."""
    form = get_format(format)
    seen: Counter[Any] = Counter()
    for row in events:
        if row["offset_unit"] != "byte" or row["raw"] is None or row["kind"] == model.Kind.FRAGMENT:
            continue
        if seen[row["kind"], row["record_type"]] >= _RECORDS:
            continue
        seen[row["kind"], row["record_type"]] += 1
        found = form.inspect(row["file"], row["offset"], options)
        where = f"{row['file']} at offset {row['offset']}"
        assert found.offset <= row["offset"] < found.offset + max(found.length, 1), f"{where}: another record is shown"
        for node in found.field.walk():
            _check_node(node, found.record, where)
    return seen.total()


def _check_node(node: Field, record: bytes, where: str) -> None:
    end = node.offset + node.length
    assert 0 <= node.offset <= end <= len(record), f"{where}: {node.name} is at {node.offset} to {end}"
    assert node.raw == record[node.offset : end], f"{where}: {node.name} has bytes of its own"
    at = node.offset
    for child in node.children:
        assert child.offset == at, f"{where}: {child.name} in {node.name} begins at {child.offset}, expected {at}"
        at = child.offset + child.length
    assert not node.children or at == end, f"{where}: the fields of {node.name} end at {at}, expected {end}"


# --- damage -----------------------------------------------------------------------------------------------------------


def _check_mutations(
    format: str, paths: Sequence[str], options: Mapping[str, Any], number: int, rng: random.Random
) -> tuple[int, int]:
    """The numbers of damaged copies that were read and that were refused."""
    read = 0
    contents = [Path(path).read_bytes() for path in paths]
    for _ in range(number):
        with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
            chosen = rng.randrange(len(paths))
            for at, (path, content) in enumerate(zip(paths, contents, strict=True)):
                damaged = _mutated(content, rng) if at == chosen else content
                Path(folder, Path(path).name).write_bytes(damaged)
            try:
                _check_bytes(format, list_files(folder), options)
                read += 1
            except CaptureError:
                pass
    return read, number - read


def _mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with some bytes changed, removed, repeated or cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 5))):
        at, size = rng.randrange(len(data) + 1), rng.choice((1, 1, 4, 50))
        match rng.randrange(5):
            case 0:
                data[at : at + size] = rng.randbytes(size)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size]
            case 3:
                data[at:at] = rng.randbytes(size)
            case _:
                del data[at:]
    return bytes(data)


# --- work -------------------------------------------------------------------------------------------------------------


def _growth(format: str, paths: Sequence[str], options: Mapping[str, Any]) -> float:
    """How many times as many functions run for twice the files."""
    with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
        for number in range(2):
            for path in paths:
                to = Path(folder, f"{number}", Path(path).name)
                to.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, to)
        once, twice = list_files(f"{folder}/0"), list_files(folder)
        _calls(format, once, options)  # whatever is done once in a process
        return _calls(format, twice, options) / _calls(format, once, options)


def _calls(format: str, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        _check_bytes(format, paths, options)
    finally:
        sys.setprofile(before)
    return calls
