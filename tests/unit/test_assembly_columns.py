"""Changed columns, columns that were written and keys that an option names are, row by row, what a plain loop finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats import changes as assembled

Image = dict[str, str | None] | None
NAMES = st.sampled_from("abcdef")
IMAGES = st.none() | st.dictionaries(NAMES, st.none() | st.sampled_from("12"), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"before": IMAGES, "after": IMAGES, "key": IMAGES, "table_name": st.sampled_from(["t", "u", None])}
    ),
    min_size=1,
    max_size=12,
)


def changes(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Updates of the record type X with these images, entries in the order of the dictionaries."""
    given = [
        {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()} for row in rows
    ]
    nothing = dict.fromkeys(model.CHANGES.names)
    return pa.RecordBatch.from_pylist(
        [{**nothing, "operation": "UPDATE", "record_type": "X", **row} for row in given], model.CHANGES
    )


@given(ROWS)
def test_columns_that_differ(rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row["before"] is not None and row["after"] is not None]
    batch = changes(rows)
    found = assembled._differing(batch["before"], batch["after"], np.arange(len(rows)))
    assert found.to_pylist() == [
        [name for name, value in row["after"].items() if row["before"].get(name) != value] for row in rows
    ]


@given(ROWS)
def test_columns_that_compressed_updates_wrote(rows: list[dict[str, Any]]) -> None:
    for row, found in zip(rows, assembled.finished(changes(rows), {}, ["X"]).to_pylist(), strict=True):
        if row["after"] is None:
            assert found["changed_columns"] is None
            continue
        before, key = row["before"] or {}, row["key"] or {}
        written = [n for n, v in row["after"].items() if (before[n] != v if n in before else n not in key)]
        assert found["changed_columns"] == written
        compared = row["before"] is not None and all(name in before for name in written)
        assert found["change_source"] == ("images" if compared else "log")


@given(ROWS)
def test_keys_that_an_option_names(rows: list[dict[str, Any]]) -> None:
    for row, found in zip(rows, assembled.finished(changes(rows), {"t": ["a", "b"]}, ()).to_pylist(), strict=True):
        image = row["after"] if row["after"] is not None else row["before"] or {}
        key = {name: value for name, value in image.items() if name in "ab"}
        expected = row["key"] if row["table_name"] != "t" else key if len(key) == 2 else None
        assert found["key"] == (None if expected is None else list(expected.items()))
