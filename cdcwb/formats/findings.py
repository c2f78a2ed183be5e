"""Problems of a capture in one pass over its splits. A split yields its problems, and few rows to be compared with
those of other splits: parts of transactions, change sequences, spellings of keys, and halves of updates at positions
that splits share. :func:`across` has the problems that only these rows together show. If changes are
not assembled in splits, the problems of :meth:`cdcwb.formats.assembler.Assembler.problems` are to be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.changes import ONLY_ASSEMBLED, Named, Read
from cdcwb.formats.clock import frozen_times, merged, of_sequences
from cdcwb.formats.delivered import read_checked_pairs
from cdcwb.formats.dissector import Assembling, Format, Joining, Wanted
from cdcwb.formats.halves import Halved, Halving, elsewhere, halved_of
from cdcwb.formats.requests import problem_rows, select, with_problems
from cdcwb.formats.summaries import OF_PARTS, incomplete, read_parts, summarised

__all__ = ["ELSEWHERE", "OF_EVENTS", "PROBLEMS", "across", "find", "key_of"]

PROBLEMS: Final = "problems"
"""The name of problems, as rows of :data:`cdcwb.model.PROBLEMS`."""

ELSEWHERE: Final = "elsewhere"
"""The name of halves of updates at positions that splits share, as rows of :data:`cdcwb.model.EVENTS`."""

OF_EVENTS: Final = (
    *("kind", "file", "file_index", "offset", "length", "transaction_id", "schema_name", "table_name"),
    *("raw", "problems"),
)
"""The columns of events for their problems."""

_KEYS: Final = {
    PROBLEMS: None,
    ELSEWHERE: "position",
    "transactions": None,
    "sequences": "moment",
    "spellings": "table_name",
}


def key_of(name: str) -> str | None:
    """The column of findings, or of parts of transactions, whose equal values are compared with each other; None: each
    row is a problem by itself."""
    return _KEYS.get(name, "transaction_id")


def find(form: Format, plan: Any, split: int | None, read: Read, wanted: Wanted) -> Named:
    """The findings of a split by name: :data:`PROBLEMS`, or rows that have to be compared (:func:`key_of`). ``read``
    reads its events; ``split`` is None for those of a DataFrame, and if changes are not assembled in splits."""
    for name, rows in _found(form, plan, split, read, wanted):
        if name == "checked":
            yield PROBLEMS, problem_rows(rows)
        elif name == "changes":
            yield PROBLEMS, problem_rows(rows, ONLY_ASSEMBLED)
        elif name == "transactions" and isinstance(form, Assembling):
            yield PROBLEMS, pa.RecordBatch.from_pylist(form.incomplete(rows), model.PROBLEMS)
        else:
            yield name, rows


def _found(form: Format, plan: Any, split: int | None, read: Read, wanted: Wanted) -> Named:
    of_problems = replace(wanted, columns=frozenset(OF_EVENTS))
    if isinstance(form, Joining):
        needed = replace(wanted, drop_malformed=False)
        if split is None:
            yield from form.read_checked_rows(read, needed)
        else:
            yield from form.read_checked(plan, split, needed)
    elif isinstance(form, Assembling) and split is not None:
        yield from form.read_checked(plan, split, of_problems, read)
    elif form.commits or isinstance(form, Assembling):
        for rows in read(replace(of_problems, drop_malformed=False)):
            yield "checked", with_problems(rows)
    else:
        yield from _of_delivered(form, read, wanted, halved_of(form, plan, split))


def _of_delivered(form: Format, read: Read, wanted: Wanted, halved: Halved) -> Named:
    """Those of committed changes. ``halved``: of halves of updates."""
    names = [*OF_PARTS, *(["headers"] if halved.consecutive else [])]
    narrow: list[pa.RecordBatch] = []
    shared: list[pa.RecordBatch] = []

    def events(needed: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in read(needed):
            narrow.extend(select(batch.select(names), wanted))
            if halved.shared:
                shared.append(batch.filter(pa.array(elsewhere(batch, halved))))
            yield batch

    compares = (halved.befores or halved.shared) and not halved.consecutive  # masks with images
    columns = None if compares else frozenset([*OF_EVENTS, *names])
    for name, batch in read_checked_pairs(events, replace(wanted, drop_malformed=False, columns=columns), halved):
        yield name, batch
        yield from ((ELSEWHERE, rows) for rows in shared)
        shared.clear()
    if not isinstance(form, Halving):  # change tables do not mark the end of a transaction
        yield from (("parts", rows) for rows in read_parts(lambda _: iter(narrow), wanted, halved))
    yield from (("sequences", rows) for rows in of_sequences(narrow).to_batches())


def across(form: Format, found: Mapping[str, pa.Table], events: Read) -> Iterator[pa.RecordBatch]:
    """The problems that only the findings of all splits together show, as batches of :data:`cdcwb.model.PROBLEMS`.
    ``events`` reads those of :data:`ELSEWHERE`."""
    rows = incomplete(summarised(found["parts"])) if "parts" in found else []
    rows += frozen_times(merged(found["sequences"])) if "sequences" in found else []
    if "spellings" in found and isinstance(form, Joining):
        yield problem_rows(form.key_spellings(found["spellings"]))
    if isinstance(form, Halving):
        yield from Assembler(form, {}, [(events, Halved())]).problems()
    if "crossing" in found and isinstance(form, Assembling):
        rows += form.incomplete(form.merged(found["crossing"]))
    yield pa.RecordBatch.from_pylist(rows, model.PROBLEMS)
