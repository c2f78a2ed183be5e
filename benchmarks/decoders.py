"""What is measured on one core: the vectorised reader, the same decoder on one record at a time, and ``construct``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.construct_gbase8s import ROWS, records
from cdcwb import model
from cdcwb.formats.dissector import EVERYTHING, Wanted, get_format, run_here
from cdcwb.formats.gbase8s.decode import event, schema_of
from cdcwb.formats.gbase8s.layout import RECORD_TYPES, StreamSettings
from cdcwb.formats.gbase8s.schema import TableSchema
from cdcwb.formats.gbase8s.tree import dissect
from cdcwb.formats.records import Plan

__all__ = ["constructed", "difference", "first_pass", "one_by_one", "plan_of", "reader"]

_BEFORE = (41, 42)


def plan_of(files: list[str]) -> Plan:
    """The plan of a capture, made in this process."""
    plan: Plan = get_format("gbase8s").plan(files, {}, run_here)
    return plan


def _events(plan: Plan, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return (batch for split in range(len(plan.splits)) for batch in get_format("gbase8s").read(plan, split, wanted))


def first_pass(files: list[str]) -> Callable[[], int]:
    """The pass over the headers that makes the plan."""
    return lambda: int(plan_of(files).facts["records"])


def reader(plan: Plan, *, images: bool) -> Callable[[], int]:
    """The vectorised reader: all of ``events`` as Arrow batches, which are let go one after the other."""
    wanted = Wanted(images=images)
    return lambda: sum(batch.num_rows for batch in _events(plan, wanted))


def _cut(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The records of an undamaged stream, with their numbers."""
    at = 0
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "big") + int.from_bytes(data[at + 4 : at + 8], "big")
        yield data[at:end], int.from_bytes(data[at + 12 : at + 16], "big")
        at = end


def one_by_one(file: str, settings: StreamSettings, *, trees: bool) -> Callable[[], int]:
    """The decoder on one record at a time, uncompiled as in ``inspect``: rows of ``events``, or trees of fields."""
    data = Path(file).read_bytes()
    decode: Callable[[bytes, TableSchema | None, StreamSettings], Any] = dissect if trees else event

    def work() -> int:
        schemas: dict[bytes, TableSchema | None] = {}  # by the four bytes of the table's label
        count = 0
        for record, number in _cut(data):
            decode(record, schemas.get(record[28:32]) if number in ROWS else None, settings)
            if number == 200:
                schemas[record[16:20]] = schema_of(record, 1, settings)
            count += 1
        return count

    return work


def constructed(file: str, *, by_hand: bool) -> Callable[[], int]:
    """The same records by ``construct``."""
    data = Path(file).read_bytes()
    return lambda: sum(1 for _ in records(io.BytesIO(data), by_hand))


def difference(file: str, plan: Plan, *, by_hand: bool) -> str | None:
    """The first thing about which ``construct`` and the reader disagree, or None; every record, field and value is
    compared."""
    tables = (pa.Table.from_batches([batch], schema=model.EVENTS) for batch in _events(plan, EVERYTHING))
    rows = (row for table in tables for row in table.to_pylist())
    for row, one in zip(rows, records(io.BytesIO(Path(file).read_bytes()), by_hand), strict=True):
        value = one.value
        found = {"offset": one.offset1, "length": one.length, "raw": one.data, "headers": _headers(value)}
        found["before"] = dict(value.row) if value.record_number in _BEFORE else None
        found["after"] = dict(value.row) if value.record_number in ROWS and value.record_number not in _BEFORE else None
        for name, this in found.items():
            that = dict(row[name]) if isinstance(row[name], list) else row[name]
            if not _same(that, this):
                return f"record at offset {one.offset1}, {name}: the reader says {that!r}, construct {this!r}"
    return None


def _headers(value: Any) -> dict[str, str]:
    names = [field.name for field in RECORD_TYPES[value.record_number].fields]
    common = ("header_size", "payload_size", "packetization_scheme", "record_number")
    texts = {name: str(value[name]) for name in common} | {name: str(value.specific[name]) for name in names}
    if "sequence_number" in texts:
        texts["sequence_number"] = f"{value.specific.sequence_number:016X}"
    if value.record_number in ROWS and value.specific.variable_sizes:
        texts["variable_sizes"] = " ".join(map(str, value.specific.variable_sizes))
    return texts


def _same(reader_says: Any, construct_says: Any) -> bool:
    if isinstance(construct_says, float):  # the one kind of value that construct leaves a number
        return reader_says in (_float_text(construct_says, pa.float64()), _float_text(construct_says, pa.float32()))
    if isinstance(construct_says, dict):
        construct_says = {name: value for name, value in construct_says.items() if name != "_io"}
        return (
            isinstance(reader_says, dict)
            and reader_says.keys() == construct_says.keys()
            and all(_same(reader_says[name], value) for name, value in construct_says.items())
        )
    return bool(reader_says == construct_says)


def _float_text(number: float, kind: pa.DataType) -> str:
    """The shortest text that reads back, in eight bytes (FLOAT) or in four (SMALLFLOAT)."""
    text: str = pa.scalar(number, kind).cast(pa.string()).as_py()
    return text
