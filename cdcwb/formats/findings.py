"""Problems of a capture in one pass over its splits. A split yields its problems, and few rows to be compared with
those of other splits: parts of transactions, change sequences, spellings of keys, and halves of updates at positions
that splits share. :func:`across` has the problems that only these rows together show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, cast

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.changes import ONLY_ASSEMBLED
from cdcwb.formats.clock import frozen_times, merged
from cdcwb.formats.delivered import ELSEWHERE, HalvesJoiner, assembly_of
from cdcwb.formats.dissector import Format, Named, Read, Wanted
from cdcwb.formats.halves import Halved
from cdcwb.formats.requests import problem_rows
from cdcwb.formats.summaries import incomplete, summarised

__all__ = ["PROBLEMS", "across", "find", "key_of"]

PROBLEMS: Final = "problems"
"""The name of problems, as rows of :data:`cdcwb.model.PROBLEMS`."""

_OF_EVENTS: Final = (
    *("kind", "file", "file_index", "offset", "length", "transaction_id", "schema_name", "table_name"),
    *("raw", "problems"),
)
_KEYS: Final = {
    PROBLEMS: None,
    ELSEWHERE: "position",
    "sequences": "moment",
    "spellings": "table_name",
}


def key_of(name: str) -> str | None:
    """The column of findings, or of parts of transactions, whose equal values are compared with each other; None: each
    row is a problem by itself."""
    return _KEYS.get(name, "transaction_id")


def find(form: Format, plan: Any, split: int | None, read: Read, wanted: Wanted) -> Named:
    """The findings of a split by name: :data:`PROBLEMS`, or rows that have to be compared (:func:`key_of`). ``read``
    reads its events; ``split`` is None for those of a DataFrame."""
    needed = replace(wanted, columns=frozenset(_OF_EVENTS))
    for name, rows in assembly_of(form).read_checked(plan, split, needed, read):
        if name == "checked":
            yield PROBLEMS, problem_rows(rows)
        elif name == "changes":
            yield PROBLEMS, problem_rows(rows, ONLY_ASSEMBLED)
        else:
            yield name, rows


def across(form: Format, found: Named) -> Iterator[pa.RecordBatch]:
    """All problems, from the findings of splits, as batches of :data:`cdcwb.model.PROBLEMS`."""
    pairs = HalvesJoiner(Halved())
    others: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, rows in found:
        if name == PROBLEMS:
            yield rows
        elif name == ELSEWHERE:
            yield from (problem_rows(changes, ONLY_ASSEMBLED) for changes in pairs.add(rows))
        else:
            others[name].append(rows)
    yield from (problem_rows(changes, ONLY_ASSEMBLED) for changes in pairs.end())
    tables = {name: pa.Table.from_batches(rows) for name, rows in others.items()}
    rows = incomplete(summarised(tables["transactions"])) if "transactions" in tables else []
    rows += frozen_times(merged(tables["sequences"])) if "sequences" in tables else []
    yield pa.RecordBatch.from_pylist(rows, model.PROBLEMS)
    if "spellings" in tables:
        yield problem_rows(cast(Any, form).key_spellings(tables["spellings"]))
