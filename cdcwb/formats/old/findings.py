"""Problems of a capture in one pass over its splits. A split yields its problems, and few rows to be compared with
those of other splits: parts and sections of transactions, change sequences, spellings of keys, and events that are
assembled with those of other splits. :func:`across` has the problems that only these rows together show. If changes are
not assembled in splits, the problems of :meth:`cdcwb.formats.old.assembler.Assembler.problems` are to be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.changes import ONLY_ASSEMBLED, Named, Read
from cdcwb.formats.dissector import Assembling, Format, Wanted
from cdcwb.formats.old.assembler import Assembler
from cdcwb.formats.old.clock import frozen_times, merged, of_sequences
from cdcwb.formats.old.delivered import read_checked_pairs
from cdcwb.formats.old.halves import WHOLE, elsewhere
from cdcwb.formats.old.headers import NO_PATCH, Patch
from cdcwb.formats.old.protocols import Halved, Halving, Joining, Trailing, reads_trail
from cdcwb.formats.old.summaries import OF_PARTS, incomplete, read_parts, summarised
from cdcwb.formats.old.trail import read_trail_checked, read_trail_sections
from cdcwb.formats.requests import problem_rows, select, with_problems

__all__ = ["EVENTS", "OF_EVENTS", "PROBLEMS", "across", "find", "in_splits", "key_of", "sections"]

PROBLEMS: Final = "problems"
"""The name of problems, as rows of :data:`cdcwb.model.PROBLEMS`."""

EVENTS: Final = ("elsewhere", "apart")
"""The names of events that are assembled with those of other splits: halves of updates at positions that splits share,
and the events of transactions of a trail (:mod:`cdcwb.formats.old.trail`)."""

OF_EVENTS: Final = (
    *("kind", "file", "file_index", "offset", "length", "transaction_id", "schema_name", "table_name"),
    *("raw", "problems"),
)
"""The columns of events for their problems."""

_KEYS: Final = {
    "problems": None,
    "elsewhere": "position",
    "transactions": None,
    "sequences": "moment",
    "spellings": "table_name",
}


def key_of(name: str) -> str | None:
    """The column of findings, or of parts of transactions, whose equal values are compared with each other; None: each
    row is a problem by itself."""
    return _KEYS.get(name, "transaction_id")


def in_splits(form: Format, plan: Any) -> bool:
    """Whether changes are assembled in the splits of a plan."""
    if isinstance(form, Joining):
        return form.joins(plan)
    return not isinstance(form, Trailing) or form.in_splits(plan)


def find(form: Format, plan: Any, split: int | None, read: Read, wanted: Wanted, patch: Patch = NO_PATCH) -> Named:
    """The findings of a split by name: :data:`PROBLEMS`, or rows that have to be compared (:func:`key_of`). ``read``
    reads its events; ``split`` is None for those of a DataFrame, and if changes are not assembled in splits. ``patch``
    is what the split needs to know of others."""
    if split is None:
        found = _of_rows(form, read, wanted)
    elif isinstance(form, Joining):
        found = form.read_checked(plan, split, replace(wanted, drop_malformed=False))
    elif isinstance(form, Trailing):
        found = read_trail_checked(read, replace(wanted, columns=frozenset(OF_EVENTS)), patch)
    elif isinstance(form, Assembling):
        found = form.read_checked(plan, split, replace(wanted, columns=frozenset(OF_EVENTS)), read)
    else:
        found = _of_delivered(form, read, wanted, form.halved(plan, split) if isinstance(form, Halving) else WHOLE)
    for name, rows in found:
        if name == "checked":
            yield PROBLEMS, problem_rows(rows)
        elif name == "changes":
            yield PROBLEMS, problem_rows(rows, ONLY_ASSEMBLED)
        elif name == "transactions" and isinstance(form, Assembling):
            yield PROBLEMS, pa.RecordBatch.from_pylist(form.incomplete(rows), model.PROBLEMS)
        else:
            yield name, rows


def _of_rows(form: Format, read: Read, wanted: Wanted) -> Named:
    """Those of events whose changes are not assembled here."""
    if isinstance(form, Joining):
        yield from form.read_checked_rows(read, replace(wanted, drop_malformed=False))
    elif not form.commits:
        yield from _of_delivered(form, read, wanted, WHOLE)
    else:
        for rows in read(replace(wanted, drop_malformed=False, columns=frozenset(OF_EVENTS))):
            yield "checked", with_problems(rows)


def _of_delivered(form: Format, read: Read, wanted: Wanted, halved: Halved) -> Named:
    """Those of committed changes. ``halved``: of halves of updates that are paired by position."""
    is_trail = reads_trail(form)
    names = [*OF_PARTS, *(["headers"] if is_trail else [])]
    narrow: list[pa.RecordBatch] = []
    shared: list[pa.RecordBatch] = []

    def events(needed: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in read(needed):
            narrow.extend(select(batch.select(names), wanted))
            if halved.shared:
                shared.append(batch.filter(pa.array(elsewhere(batch, halved))))
            yield batch

    columns = None if halved.befores or halved.shared else frozenset([*OF_EVENTS, *names])
    for name, batch in read_checked_pairs(events, replace(wanted, drop_malformed=False, columns=columns), halved):
        yield name, batch
        yield from (("elsewhere", rows) for rows in shared)
        shared.clear()
    if not isinstance(form, Halving):  # change tables do not mark the end of a transaction
        yield from (("parts", rows) for rows in read_parts(lambda _: iter(narrow), wanted, trail=is_trail))
    if not is_trail:
        yield from (("sequences", rows) for rows in of_sequences(narrow).to_batches())


def sections(form: Format, plan: Any, split: int, read: Read, wanted: Wanted) -> Named:
    """What other splits of a trail need to know of a split (:func:`cdcwb.formats.old.sections.patches`). ``read`` reads
    its events."""
    if isinstance(form, Trailing):
        yield from read_trail_sections(read, wanted, split, form.shared(plan)[split])


def across(form: Format, found: Mapping[str, pa.Table], events: Read) -> Iterator[pa.RecordBatch]:
    """The problems that only the findings of all splits together show, as batches of :data:`cdcwb.model.PROBLEMS`.
    ``events`` reads those of :data:`EVENTS`."""
    rows = incomplete(summarised(found["parts"])) if "parts" in found else []
    rows += frozen_times(merged(found["sequences"])) if "sequences" in found else []
    if "spellings" in found and isinstance(form, Joining):
        yield problem_rows(form.key_spellings(found["spellings"]))
    if isinstance(form, (Halving, Trailing)):
        yield from Assembler(form, {}, [(events, Halved())]).problems()
    if "crossing" in found and isinstance(form, Assembling):
        rows += form.incomplete(form.merged(found["crossing"]))
    yield pa.RecordBatch.from_pylist(rows, model.PROBLEMS)
