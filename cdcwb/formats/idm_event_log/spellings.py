"""Keys of a table that are written in several ways (docs/formats/idm-event-log.md §2.3)."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.table_key import same_objects
from cdcwb.model import EVENTS, Problem

__all__ = ["SPELT", "WITH_SPELLING", "key_spellings", "spelt"]

_PLACED: Final = ("file_index", "offset", "file", "length", "raw", "transaction_id", "schema_name", "table_name")
_NAMED: Final = 5  # spellings that a sentence names

SPELT: Final = pa.schema([*map(EVENTS.field, (*_PLACED, "problems"))])
"""Events, and what is wrong with them."""

WITH_SPELLING: Final = pa.schema([*map(EVENTS.field, _PLACED), ("spelling", pa.string())])
"""Events, and the key as they write it."""


def spelt(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events that have a key, as a batch of :data:`WITH_SPELLING`."""
    spelling = pc.map_lookup(events["headers"], "table_key", "first")
    columns = [*(events[name] for name in _PLACED), spelling]
    rows = pa.RecordBatch.from_arrays(columns, schema=WITH_SPELLING)
    return rows.filter(pc.and_(pc.is_valid(spelling), pc.is_valid(events["key"])))


def key_spellings(rows: pa.Table) -> pa.RecordBatch:
    """One row of :data:`SPELT` for each key of a table that is written in several ways; it stands at the first row with
    the second spelling. The Publisher takes such rows for those of different objects. ``rows`` (:data:`WITH_SPELLING`)
    are all rows of a table, or the first of each spelling among them."""
    names = [rows[name].fill_null("") for name in ("schema_name", "table_name")]
    objects = same_objects(rows["spelling"].combine_chunks()) if rows.num_rows else pa.array([], pa.string())
    of = [*zip(*(name.to_pylist() for name in names), objects.to_pylist(), strict=True)]
    places = [*zip(rows["file_index"].to_pylist(), rows["offset"].to_pylist(), strict=True)]
    order = sorted(range(rows.num_rows), key=lambda row: (of[row], places[row]))
    found = []
    spellings = rows["spelling"].to_pylist()
    for _, group in groupby(order, key=lambda row: of[row]):
        firsts: dict[str, int] = {}
        for row in group:
            firsts.setdefault(spellings[row], row)
        if len(firsts) > 1:
            found.append(_told(rows.take(pa.array(list(firsts.values()))).to_pylist()))
    return pa.RecordBatch.from_pylist(found, SPELT)


def _told(firsts: list[dict[str, Any]]) -> dict[str, Any]:
    """The second of the first rows of one key's spellings, with what is wrong."""
    second = firsts[1]
    named = ", ".join(f"{one['spelling']} (at {_spot(one, second['file'])})" for one in firsts[:_NAMED])
    more = " …" if len(firsts) > _NAMED else ""
    sentence = f"one key, written in {len(firsts)} ways, which makes events run out of order: {named}{more}"
    return {**second, "problems": [{"code": str(Problem.KEY_SPELLING), "detail": sentence}]}


def _spot(row: dict[str, Any], here: str) -> str:
    """``offset 12``, or ``offset 12 of b.csv`` where the file is another than the one spoken of."""
    return f"offset {row['offset']}" + ("" if row["file"] == here else f" of {Path(row['file']).name}")
