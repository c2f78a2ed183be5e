"""Lists of names survive the way from Python to Spark, whatever the names are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdcwb import model
from cdcwb.spark import packing

NAMES = pa.list_(pa.string())


@pytest.mark.parametrize(
    ("lists", "stay"),
    [
        ([["a", "b"], None, ["c"]], 0),
        ([["a"], [], None, [""], ["", ""], []], 2),
        ([["a\x1fb"], [], ["c"]], 3),
        ([["a", None]], 1),
        ([["é\x00", "\n", "😀"]], 0),
        ([None, None], 0),
        ([[], []], 2),
        ([], 0),
    ],
)
def test_a_list_is_a_text_or_stays_a_list(lists: list[list[str | None] | None], stay: int) -> None:
    columns = {name: pa.nulls(len(lists), model.EVENTS.field(name).type) for name in model.EVENTS.names}
    columns["changed_columns"] = columns["present_columns"] = pa.array(lists, NAMES)
    packed = packing.pack(pa.RecordBatch.from_pydict(columns, schema=model.EVENTS))
    packed.validate(full=True)
    assert packed.schema.equals(packing.PACKED)
    for name in ("changed_columns", "present_columns"):
        kept, texts = packed.column(name).to_pylist(), packed.column(f"_{name}").to_pylist()
        assert [one if text is None else text.split("\x1f") for one, text in zip(kept, texts, strict=True)] == lists
        assert sum(one is not None for one in kept) == stay
        assert not any(one is not None and text is not None for one, text in zip(kept, texts, strict=True))
