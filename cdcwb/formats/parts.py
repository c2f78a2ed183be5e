"""What is read of one split: its events, its part of a table, or rows that have to be compared with those of other
splits. This process, other processes of the machine, and the tasks of Spark read it in the same way.

One pass over its splits finds the problems of a capture. A split yields its problems, and few rows to be compared with
those of other splits: parts of transactions, change sequences, spellings of keys, and halves of updates at positions
that splits share. :func:`across` has the problems that only these rows together show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

import pyarrow as pa

from cdcwb import model
from cdcwb.errors import MalformedRecordError
from cdcwb.formats.changes import ONLY_ASSEMBLED, Halved, finished, halved_of
from cdcwb.formats.delivered import ELSEWHERE, HERE, HalvesJoiner, assembly_of, read_elsewhere, read_ends_here
from cdcwb.formats.dissector import Format, Named, Plan, Read, Wanted
from cdcwb.formats.requests import problem_rows
from cdcwb.formats.summaries import PARTS, frozen_times, incomplete, merged, summarised

_SCHEMAS: Final = {"changes": model.CHANGES, "transactions": PARTS, "ends_here": HERE}
_OF_MALFORMED: Final = ("problems", "file", "offset")


@dataclass(frozen=True, slots=True)
class SplitPart:
    """What is read of a split. ``name``:

    - ``events``, or ``columns`` of them (None: all);
    - the ``changes`` that begin in it, the parts of its ``transactions``, or its ``findings``;
    - the halves of updates whose other half may be ``elsewhere``, or all transactions with their ``ends_here``
      (:mod:`cdcwb.formats.delivered`).

    ``images``, ``mode`` and ``keys`` are the options that all formats share. ``tables`` (None: all): changes of others
    may be left out.
    """

    name: str = "events"
    images: bool = True
    mode: str = "PERMISSIVE"
    columns: Sequence[str] | None = None
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tables: frozenset[str] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of its rows, if all have the same."""
        return _SCHEMAS.get(self.name, model.EVENTS)

    def read(
        self, form: Format, plan: Plan, split: int | None, read: Read, ends: Sequence[pa.RecordBatch] = ()
    ) -> Named:
        """Its batches, with their names. ``split`` is None for rows of a DataFrame; ``read`` reads the events; ``ends``
        are those in other splits. Raises MalformedRecordError in mode FAILFAST."""
        stops = self.mode == "FAILFAST"
        columns = self.columns
        needed = None if columns is None else frozenset([*columns, "kind", *(_OF_MALFORMED if stops else ())])
        wanted = Wanted(images=self.images, drop_malformed=self.mode == "DROPMALFORMED", columns=needed)
        events = partial(_checked, read) if stops else read
        batches: Iterator[pa.RecordBatch]
        if self.name == "findings":
            return _findings(form, plan, split, events, replace(wanted, drop_malformed=False))
        if self.name == "changes":
            if form.by_table:
                wanted = replace(wanted, tables=self.tables)
            changes = assembly_of(form, ends).read_changes(plan, split, wanted, events)
            batches = (finished(batch, self.keys, form.compressed_updates) for batch in changes)
        elif self.name == "transactions":
            batches = assembly_of(form).read_transactions(plan, split, wanted, events)
        elif self.name == "ends_here":
            batches = read_ends_here(events, wanted, split or 0, halved_of(form, plan, split))
        elif self.name == "elsewhere":
            batches = read_elsewhere(events, wanted, halved_of(form, plan, split))
        else:
            batches = events(wanted)
        return ((self.name, batch) for batch in batches)


def _checked(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Events up to the first malformed one, for which it raises MalformedRecordError."""
    if wanted.columns is not None:
        wanted = replace(wanted, columns=wanted.columns | {"kind", *_OF_MALFORMED})
    for batch in read(wanted):
        kinds = batch["kind"].to_pylist()
        if model.Kind.MALFORMED in kinds:
            row: dict[str, Any] = batch.slice(kinds.index(model.Kind.MALFORMED), 1).to_pylist()[0]
            raise MalformedRecordError(row["problems"][0]["detail"], path=row["file"], offset=row["offset"])
        yield batch


# --- findings ---------------------------------------------------------------------------------------------------------

_PROBLEMS: Final = "problems"  # their name, as rows of the model's table

_OF_EVENTS: Final = (
    *("kind", "file", "file_index", "offset", "length", "transaction_id", "schema_name", "table_name"),
    *("raw", "problems"),
)
_KEYS: Final = {_PROBLEMS: None, ELSEWHERE: "position", "sequences": "moment", "spellings": "table_name"}


def key_of(name: str) -> str | None:
    """The column of findings, or of parts of transactions, whose equal values are compared with each other; None: each
    row is a problem by itself."""
    return _KEYS.get(name, "transaction_id")


def _findings(form: Format, plan: Any, split: int | None, read: Read, wanted: Wanted) -> Named:
    """The findings of a split by name: ``problems``, or rows that have to be compared (:func:`key_of`). ``read``
    reads its events; ``split`` is None for those of a DataFrame."""
    needed = replace(wanted, columns=frozenset(_OF_EVENTS))
    for name, rows in assembly_of(form).read_checked(plan, split, needed, read):
        if name == "checked":
            yield _PROBLEMS, problem_rows(rows)
        elif name == "changes":
            yield _PROBLEMS, problem_rows(rows, ONLY_ASSEMBLED)
        else:
            yield name, rows


def across(form: Format, found: Named) -> Iterator[pa.RecordBatch]:
    """All problems, from the findings of splits, as batches of :data:`cdcwb.model.PROBLEMS`."""
    pairs = HalvesJoiner(Halved())
    others: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, rows in found:
        if name == _PROBLEMS:
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
