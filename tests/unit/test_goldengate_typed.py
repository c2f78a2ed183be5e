"""One table as typed columns."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.goldengate.contents import typed_texts
from cdcwb_synth import generate
from tests.local import plan_of, read

OF_ROWS = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("typed")
    return generate("goldengate", changes=200, seed=5, to=to, updates="pairs", schema_changes=2) / "capture"


def typed(path: Path, request: TableRequest, **options: Any) -> pa.Table:
    form, plan = get_format("goldengate"), plan_of(path, format="goldengate", **options)
    schema = form.table_schema(plan, request)
    batches = [one for split in range(len(plan.splits)) for one in form.read_table(plan, split, request)]
    return pa.Table.from_batches(batches, schema=schema)


def tables(path: Path) -> list[str]:
    plan = plan_of(path, format="goldengate")
    return sorted({one.full_name for one in plan.shared.versions})


def test_every_change_of_a_table_is_a_row(folder: Path) -> None:
    events = read(folder, format="goldengate").to_pylist()
    for name in tables(folder):
        mine = [
            row
            for row in events
            if f"{row['schema_name']}.{row['table_name']}" == name
            and row["operation"] in ("INSERT", "UPDATE", "DELETE")
        ]
        rows = typed(folder, TableRequest(name)).to_pylist()
        assert [(row["file_index"], row["offset"]) for row in rows] == [
            (row["file_index"], row["offset"]) for row in mine
        ]
        for row, event in zip(rows, mine, strict=True):
            for image in ("before", "after"):
                there = None if event[image] is None else dict(event[image])
                assert (row[image] is None) == (there is None)
                for column, value in (row[image] or {}).items():
                    assert value is None or there[column] is not None


def test_integers_are_integers_whatever_split_they_are_in(folder: Path) -> None:
    name = tables(folder)[0]
    whole = typed(folder, TableRequest(name))
    assert pa.types.is_integer(whole.schema.field("after").type[0].type)
    assert typed(folder, TableRequest(name), split_size=5000).equals(whole)


def test_columns_and_images_can_be_chosen(folder: Path) -> None:
    name = "shop.customer"
    table = typed(folder, TableRequest(name, columns=("since", "rating"), images="after"))
    assert "before" not in table.schema.names
    assert [field.name for field in table.schema.field("after").type] == ["since", "rating"]


def test_what_is_not_there_is_named_with_what_there_is(folder: Path) -> None:
    name = "shop.customer"
    with pytest.raises(CaptureError, match="Did you mean"):
        typed(folder, TableRequest(name + "x"))
    with pytest.raises(CaptureError, match=r"has no column 'ratng'.*'rating'"):
        typed(folder, TableRequest(name, columns=("ratng",)))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2021-01-03:15:26:03.160000000", pa.timestamp("us"), datetime(2021, 1, 3, 15, 26, 3, 160000)),
        ("2021-01-03", pa.date32(), date(2021, 1, 3)),
        ("-17", pa.int32(), -17),
        ("deadbeef", pa.binary(), b"\xde\xad\xbe\xef"),
        ("text", pa.string(), "text"),
        ("none of it", pa.int64(), None),
        (None, pa.int64(), None),
    ],
)
def test_texts_become_values_of_their_type(text: str | None, kind: pa.DataType, value: object) -> None:
    assert typed_texts(pa.array([text], pa.string()), kind).to_pylist() == [value]
