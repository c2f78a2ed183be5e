"""Batches that are sent from task to task arrive as they were, and rows that belong together arrive in one group."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.arrays import lookup
from cdcwb.spark.exchange import SENT, received, send

_ROWS = pa.schema([("transaction_id", pa.string()), ("tables", pa.list_(pa.string()))])


@given(st.lists(st.sampled_from([None, "", "a", "b", "c", "é"]), max_size=20), st.integers(1, 7), st.integers(0, 20))
def test_batches_arrive_by_group(names: list[str | None], groups: int, cut: int) -> None:
    rows = [{"transaction_id": name, "tables": [str(at)] * (at % 3)} for at, name in enumerate(names)]
    batch = pa.RecordBatch.from_pylist(rows, _ROWS)
    parts = [batch.slice(0, cut), batch.slice(cut)]
    sent = [one for place, part in enumerate(parts) for one in send("parts", part, "transaction_id", groups, place)]
    assert all(one.schema == SENT for one in sent)
    group_of: dict[str | None, int] = {}
    found = []
    for one in sent:
        for group, (name, part) in zip(one["group"].to_pylist(), received(iter([one])), strict=True):
            assert name == "parts"
            assert 0 <= group < groups
            assert all(group_of.setdefault(key, group) == group for key in part["transaction_id"].to_pylist())
            found += part.to_pylist()
    assert sorted(found, key=repr) == sorted(rows, key=repr)


@given(
    st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x"]) | st.none()), max_size=6)
    | st.lists(st.fixed_dictionaries({"c": st.text(max_size=2), "a": st.none() | st.text(max_size=2)}), max_size=6),
    st.integers(0, 3),
)
def test_the_value_of_a_key_is_found_in_each_map(maps: list[dict[str, str | None] | None], first: int) -> None:
    rows = [None if one is None else list(one.items()) for one in maps]
    array = pa.array(rows, pa.map_(pa.string(), pa.string())).slice(first)
    assert lookup(array, "a").to_pylist() == [None if one is None else one.get("a") for one in maps[first:]]
