"""Transactions as arrays: all of an index, or those of a batch that Spark gives to a task."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.index.columns import NO_TIME
from cdcwb.model import Completeness, Outcome

__all__ = ["EVERY", "INCOMPLETE", "Some", "Transactions"]

INCOMPLETE: Final = (Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS)
_CODED: Final = ("outcome", "completeness", "user")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Some = Ints | slice
"""Which of some transactions: their numbers, or a slice of them."""

EVERY: Final = slice(None)


class Transactions:
    """Transactions by number; ``rows`` are those of the model. Columns that nobody asks for may be missing.

    ``until``: when open ones end, in microseconds since 1970 UTC; NO_TIME where that is not known.
    In an index they are in the order of their first records, and have the number of that as ``record``.
    """

    def __init__(self, rows: pa.RecordBatch, until: int = NO_TIME) -> None:
        self.rows = rows
        self.until = until
        self.codes: dict[str, npt.NDArray[np.int32]] = {}
        self.texts: dict[str, list[str]] = {}
        for name in {*_CODED}.intersection(rows.schema.names):
            coded = rows[name].dictionary_encode()
            self.codes[name] = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
            self.texts[name] = coded.dictionary.to_pylist()

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str, numbers: Some) -> pa.Array:
        """A column of the model, of some of them."""
        column = self.rows[name]
        return column[numbers] if isinstance(numbers, slice) else column.take(pa.array(numbers))

    @cached_property
    def record(self) -> Ints:
        """The number of the first record of each in an index, -1 where there is none."""
        return np.asarray(self.rows["record"])

    @cached_property
    def bytes(self) -> Ints:
        """The lengths of the records of each."""
        return np.asarray(pc.fill_null(self.rows["bytes"], 0))

    @cached_property
    def began(self) -> Ints:
        """When each began, in microseconds since 1970 UTC; NO_TIME where it is not known."""
        return self._times("began_at")

    @cached_property
    def ended(self) -> Ints:
        """When each ended, likewise."""
        return self._times("ended_at")

    def _times(self, name: str) -> Ints:
        return np.asarray(pc.fill_null(self.rows[name].cast(pa.int64()), NO_TIME))

    def are(self, name: str, *values: str) -> Bools:
        """Those that have one of the values as their outcome, completeness or user."""
        chosen = [code for code, text in enumerate(self.texts[name]) if text in values]
        return np.isin(self.codes[name], chosen)

    def counts(self, name: str, numbers: Some = EVERY) -> dict[str, int]:
        """How many of some have which outcome, completeness or user."""
        texts = self.texts[name]
        counted = np.bincount(self.codes[name][numbers] + 1, minlength=len(texts) + 1)[1:]
        return dict(zip(texts, counted.tolist(), strict=True))

    @cached_property
    def is_open(self) -> Bools:
        """Those that did not end in the capture."""
        return self.are("outcome", Outcome.OPEN)

    @cached_property
    def is_incomplete(self) -> Bools:
        """Those of which the begin, the end or something between them is missing."""
        return self.are("completeness", *INCOMPLETE)

    @cached_property
    def is_unfinished(self) -> Bools:
        """Those that did not commit, or are incomplete."""
        return np.asarray(~self.are("outcome", Outcome.COMMITTED) | self.is_incomplete)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time that the transactions know."""
        known = [part[part != NO_TIME] for part in (self.began, self.ended)]
        known = [part for part in known if len(part)]
        return (min(int(part.min()) for part in known), max(int(part.max()) for part in known)) if known else None

    @cached_property
    def took(self) -> Ints:
        """The time between begin and end of each, in microseconds; NO_TIME where one of them is not known."""
        return self._until(self.ended)

    @cached_property
    def lasted(self) -> Ints:
        """As ``took``, but an open one lasts until ``until``."""
        return self._until(np.where(self.is_open & (self.ended == NO_TIME), self.until, self.ended))

    def _until(self, end: Ints) -> Ints:
        known = (self.began != NO_TIME) & (end != NO_TIME)
        return np.where(known, end - np.where(known, self.began, 0), NO_TIME)

    @cached_property
    def changes(self) -> Ints:
        """How many changes each has, undone ones included."""
        counts = self.rows["changes"]
        upto = np.concatenate([[0], np.cumsum(pc.fill_null(counts.items, 0))])
        offsets = np.asarray(counts.offsets)
        return np.asarray(upto[offsets[1:]] - upto[offsets[:-1]], np.int64)

    def first_positions(self, numbers: Some = EVERY) -> pa.Array:
        """The position of the begin of each, else that of its first record: without its begin, a transaction has that
        in its id, after a ~ (:mod:`cdcwb.model`)."""
        begins = self.column("begin_position", numbers)
        if not begins.null_count:
            return begins
        found = pc.extract_regex(self.column("transaction_id", numbers), "~(?P<position>.+)$")
        return pc.coalesce(begins, pc.struct_field(found, "position"))

    def records(self, numbers: Ints) -> list[dict[str, Any]]:
        """Rows of the model with ``rows`` (bytes, where places are rows), ``first_position`` (of the begin, else of the
        first record there is), ``duration_us``, ``changes_total``, and ``lasted_us``: until ``until`` where it
        is open."""
        rows = Transactions(self.rows.take(pa.array(numbers)), self.until)
        made = {
            "rows": rows.rows["bytes"],
            "first_position": rows.first_positions(),
            "duration_us": _nullable(rows.took),
            "changes_total": pa.array(rows.changes),
            "lasted_us": _nullable(rows.lasted),
        }
        found: list[dict[str, Any]] = pa.table(
            {name: rows.rows[name] for name in rows.rows.schema.names} | made
        ).to_pylist()
        return found


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NO_TIME)
