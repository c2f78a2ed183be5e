"""Problems of a capture in one pass over its splits. A split yields its problems, and few rows to be compared with
those of other splits: parts and sections of transactions, change sequences, spellings of keys, and events that are
assembled with those of other splits. :func:`across` has the problems that only these rows together show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.assembly import open_ones, read_checked, read_sections
from cdcwb.formats.base import Assembling, Format, Halved, Halving, Joining, Trailing, Wanted
from cdcwb.formats.clock import frozen_times, merged, of_sequences
from cdcwb.formats.delivered import read_problems
from cdcwb.formats.groups import labels
from cdcwb.formats.halves import WHOLE, elsewhere
from cdcwb.formats.headers import NO_PATCH, Named, Patch, Read
from cdcwb.formats.requests import select, with_problems
from cdcwb.formats.sections import RUNS, transactions_of
from cdcwb.formats.summaries import OF_PARTS, incomplete, read_parts, summarised
from cdcwb.formats.trail import read_trail_checked, read_trail_sections
from cdcwb.model import Problem

__all__ = ["EVENTS", "OF_EVENTS", "ONLY_ASSEMBLED", "PROBLEMS", "across", "find", "key_of", "problem_rows", "sections"]

PROBLEMS: Final = "problems"
"""The name of problems, as rows of :data:`cdcwb.model.PROBLEMS`."""

EVENTS: Final = ("elsewhere", "apart")
"""The names of events that are assembled with those of other splits: halves of updates at positions that splits share,
and the events of transactions of a trail (:mod:`cdcwb.formats.trail`)."""

ONLY_ASSEMBLED: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)
"""Problems of changes that none of their events has. A mask is compared with both images here if they are in two
events; if they are in one, the format has compared them."""

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


def find(form: Format, plan: Any, split: int, read: Read, wanted: Wanted, patch: Patch = NO_PATCH) -> Named:
    """The findings of a split by name: :data:`PROBLEMS`, or rows that have to be compared (:func:`key_of`). ``read``
    reads its events; those of a DataFrame are in no split. ``patch`` is what the split needs to know of others."""
    if isinstance(form, Joining):
        found = form.read_checked(plan, split, replace(wanted, drop_malformed=False))
    elif isinstance(form, Trailing):
        found = read_trail_checked(read, replace(wanted, columns=frozenset(OF_EVENTS)), patch)
    elif isinstance(form, Assembling):
        columns = frozenset(OF_EVENTS)
        found = read_checked(read, replace(wanted, columns=columns), split, form.crossing(plan, split), patch)
    else:
        found = _of_delivered(read, wanted, form.halved(plan, split) if isinstance(form, Halving) else None)
    for name, rows in found:
        if name == "checked":
            yield PROBLEMS, problem_rows(rows)
        elif name == "open":
            yield PROBLEMS, pa.RecordBatch.from_pylist(open_ones(rows), model.PROBLEMS)
        else:
            yield name, rows


def _of_delivered(read: Read, wanted: Wanted, halved: Halved | None) -> Named:
    """Those of committed changes. ``halved``: of halves of updates that are paired by position."""
    schema = pa.schema(map(model.EVENTS.field, OF_PARTS))
    narrow: list[pa.RecordBatch] = []
    shared: list[pa.RecordBatch] = []

    def events(needed: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in read(needed):
            narrow.extend(select(batch.select(schema.names), wanted))
            if halved is not None and halved.shared:
                shared.append(batch.filter(pa.array(elsewhere(batch, halved))))
            yield batch

    columns = frozenset([*OF_EVENTS, *OF_PARTS]) if halved is None else None
    for batch in read_problems(events, replace(wanted, drop_malformed=False, columns=columns), halved or WHOLE):
        yield "checked", batch
        yield from (("elsewhere", rows) for rows in shared)
        shared.clear()
    if halved is None:  # change tables do not mark the end of a transaction
        yield from (("parts", rows) for rows in read_parts(lambda _: iter(narrow), wanted))
    yield from (("sequences", rows) for rows in of_sequences(narrow).to_batches())


def sections(form: Format, plan: Any, split: int, read: Read, wanted: Wanted) -> Named:
    """What other splits need to know of a split (:func:`cdcwb.formats.sections.patches`). ``read`` reads its events."""
    if isinstance(form, Assembling):
        yield from read_sections(read, wanted, split, form.crossing(plan, split))
    elif isinstance(form, Trailing):
        yield from read_trail_sections(read, wanted, split, form.shared(plan)[split])


def across(form: Format, found: Mapping[str, pa.Table], events: Read) -> Iterator[pa.RecordBatch]:
    """The problems that only the findings of all splits together show, as batches of :data:`cdcwb.model.PROBLEMS`.
    ``events`` reads those of :data:`EVENTS`."""
    rows = incomplete(summarised(found["parts"])) if "parts" in found else []
    rows += frozen_times(merged(found["sequences"])) if "sequences" in found else []
    if "spellings" in found and isinstance(form, Joining):
        yield problem_rows(form.key_spellings(found["spellings"]))
    if isinstance(form, (Halving, Trailing)):
        for changes in Assembler(form, {}, [(events, Halved())]).delivered():
            yield problem_rows(changes, ONLY_ASSEMBLED)
    if "sections" in found:
        rows += open_ones(transactions_of(found["sections"], found.get("runs", RUNS.empty_table())))
    yield pa.RecordBatch.from_pylist(rows, model.PROBLEMS)


def problem_rows(rows: pa.RecordBatch, only: Sequence[str] = ()) -> pa.RecordBatch:
    """The problems of events or changes, as a batch of :data:`cdcwb.model.PROBLEMS`. ``only``: with these codes."""
    some = with_problems(rows)
    place = pc.list_parent_indices(some["problems"])
    code, sentence = pc.list_flatten(some["problems"]).flatten()
    if only:
        chosen = pc.is_in(code, pa.array(list(map(str, only))))
        place, code, sentence = place.filter(chosen), code.filter(chosen), sentence.filter(chosen)
    raw = some["raw"].to_pylist() if "raw" in some.schema.names else [None] * some.num_rows
    first = pa.array([None if record is None else record[: model.FIRST_BYTES].hex() for record in raw], pa.string())
    columns = {
        "severity": _SEVERITIES.take(pc.index_in(code, _CODES)),
        "code": code,
        "sentence": sentence,
        "first_bytes": first.take(place),
        "table": labels(some["schema_name"], some["table_name"]).take(place),
    }
    arrays = [columns[one.name] if one.name in columns else some[one.name].take(place) for one in model.PROBLEMS]
    return pa.RecordBatch.from_arrays(arrays, schema=model.PROBLEMS)


_CODES: Final = pa.array(list(map(str, Problem)))
_SEVERITIES: Final = pa.array([str(code.severity) for code in Problem])
