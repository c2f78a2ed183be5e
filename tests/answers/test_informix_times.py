"""A DATETIME or INTERVAL of a GBase 8s row is read with its exponent aligned on SECOND, whatever its last field is."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests import wire
from tests.answers.tables import rows


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (
            "datetime hour to minute",
            {"C30705": "07:05", "C20500": "00:05", "C30C00": "12:00", "800000": "00:00", "000000": None},
        ),
        ("datetime year to day", {"C71418030F": "2024-03-15", "C601010100": "0001-01-01"}),
        ("datetime hour to second", {"C30C2238": "12:34:56", "C1380000": "00:00:56"}),
        (
            "interval year to month",
            {"C6030700": "3-07", "C5070000": "0-07", "39610000": "-3-00", "80000000": "0-00"},
        ),
        ("interval day(3) to second", {"C40C03040500": "12 03:04:05"}),
    ],
)
def test_values_are_what_the_server_holds(column: str, values: dict[str, str | None], tmp_path: Path) -> None:
    size = len(next(iter(values))) // 2
    stream = wire.schema(f"n integer, v {column}", 4 + size, 2, 0) + wire.begin(1, 0x18)
    for number, digits in enumerate(values):
        stream += wire.row(40, 1, 0x20 + number, struct.pack(">i", number) + bytes.fromhex(digits))
    (tmp_path / "stream.bin").write_bytes(stream + wire.commit(1, 0x100))
    changes = rows(tmp_path / "stream.bin", "changes")
    assert [change["after"]["v"] for change in changes] == [*values.values()]
    assert all(change["problems"] is None for change in changes)


def test_digits_below_the_last_field_are_a_problem(tmp_path: Path) -> None:
    stream = wire.schema("n integer, v datetime hour to minute", 7, 2, 0) + wire.begin(1, 0x18)
    stream += wire.row(40, 1, 0x20, struct.pack(">i", 1) + bytes.fromhex("C20705")) + wire.commit(1, 0x30)
    (tmp_path / "stream.bin").write_bytes(stream)
    (change,) = rows(tmp_path / "stream.bin", "changes")
    assert change["after"]["v"] == "c20705"
    assert [problem["code"] for problem in change["problems"]] == ["value"]
