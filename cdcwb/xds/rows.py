"""The input and output tables of publishing, and the columns that its stages add.

The input is :data:`ROWS`. Each stage is a function of complete tables that adds columns:

    decisions.own_decisions     properties of the row by itself              adds :data:`OWN`
    publisher.with_cycles       the polling cycle of the row          adds :data:`CYCLE`
    snapshot.with_snapshot      the state of its object in the snapshot   adds :data:`STATE`
    decisions.between_rows      the other rows of its object       decides every row
    publisher.number_events     events and documents                   adds :data:`NUMBERS`
    publisher.to_event_table    published rows as events

:data:`DECISIONS` is the output, with the events of :mod:`cdcwb.xds.document`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import each_different
from cdcwb.formats.idm_event_log.layout import LOG


class Decision(StrEnum):
    """The decision on a row."""

    PUBLISHED = "published"
    SKIPPED = "skipped"  # its status is not N, or the driver itself made the change
    INVALID = "invalid"  # violates a rule, so it cannot be in a document
    WAITING = "waiting"  # its event_time is not reached yet
    NO_EFFECT = "no_effect"  # there is nothing to write, or the object no longer exists
    OVERRIDDEN = "overridden"  # overridden by another row of the same object
    NEEDS_SNAPSHOT = "needs_snapshot"  # its document needs the current content of the table


class State(IntEnum):
    """The state of the object of a query-back row in the snapshot."""

    UNKNOWN = 0  # no snapshot, or one without this table
    ABSENT = 1  # the table has no such row
    THERE = 2
    NO_ATTRIBUTE = 3  # present, and the column of the row is part of its key
    NO_COLUMN = 4  # present, and the table has no column of that name
    CHARACTER = 5  # present, and a value has a character that XML 1.0 does not allow
    NO_KEY = 6  # the table lacks a column of the key


ROWS: Final = pa.schema(
    [
        *LOG,
        *(("file_index", pa.int32()), ("offset", pa.int64()), ("event_us", pa.int64()), ("undecoded", pa.string())),
        ("repeated", pa.bool_()),
    ]
)
"""Rows of the event log, in any order. ``event_us`` is event_time in µs UTC, null if it cannot be parsed;
``undecoded``: which bytes are not in the character set, null without any; ``repeated``: an earlier row in capture order
(file_index, offset) has the same record_id."""

OWN: Final = pa.schema(
    [
        ("number", pa.int64()),  # record_id; null if it is not a positive whole number
        ("type", pa.int32()),  # event_type; null unless it is 1 to 8
        ("verb", pa.string()),  # a value of event.Verb; null where type is
        ("order_time", pa.int64()),  # event_us if rows are ordered by it, else 0
        ("decision", pa.string()),  # a value of Decision; null: not decided yet
        ("reason", pa.string()),  # of the decision; without one: a remark that is appended to the later reason
        ("polled", pa.bool_()),  # is polled: neither skipped nor invalid nor waiting
        ("deletes", pa.bool_()),  # a valid type 4 row that is or will be processed: earlier rows have no effect
    ]
)
"""Properties of a row by itself. Processing order is (order_time, number), which is unique among polled rows and
deletes."""

CYCLE: Final = pa.schema([("ordinal", pa.int64()), ("cycle", pa.int64())])
"""The index among the polled rows in processing order, and the polling cycle, both from 0; null for a row that is not
polled."""

STATE: Final = pa.schema([("state", pa.int8())])
"""A value of :class:`State`; null for rows that are not query-back."""

NUMBERS: Final = pa.schema([("event", pa.int64()), ("document", pa.int64())])
"""Numbers of event and document, from 1; null for a row that is not published."""

CURRENT: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
"""The current row of the table without its key columns: attributes in the order of its columns; a null value is NULL.
For a row about one column, only that column, by its name in the row."""

DECISIONS: Final = pa.schema(
    [
        ("record_id", pa.int64()),
        ("file_index", pa.int32()),
        ("offset", pa.int64()),
        ("event_type", pa.int32()),
        ("table_name", pa.string()),
        ("table_key", pa.string()),
        ("column_name", pa.string()),
        ("decision", pa.string()),
        ("reason", pa.string()),
        ("document", pa.int64()),
        ("event", pa.int64()),
        ("overridden_by", pa.int64()),
    ]
)
"""One row per row of the log. record_id and event_type are null if invalid; document and event if the row is not
published; ``overridden_by`` is the record_id of the overriding row."""


Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Texts: TypeAlias = pa.StringArray | pa.ChunkedArray


def single_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def numbers(column: pa.Array | pa.ChunkedArray, missing: int = 0) -> Ints:
    """Whole numbers, with ``missing`` for null."""
    return np.asarray(pc.fill_null(column, missing).to_numpy(), dtype=np.int64)


def flags(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Truth values; null is false."""
    filled = pc.fill_null(column, False)
    return np.asarray(filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy())


def coded(column: Texts) -> tuple[Ints, pa.Array]:
    """The code of each text (null: -1), and the text of each code from 0."""
    if isinstance(column, pa.ChunkedArray):
        parts = pc.dictionary_encode(column).unify_dictionaries().chunks
        if not parts:
            return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
        return np.concatenate([numbers(part.indices, -1) for part in parts]), parts[0].dictionary
    encoded = column.dictionary_encode()
    return numbers(encoded.indices, -1), encoded.dictionary


def codes(*columns: Texts) -> Ints:
    """A code for each row, equal for rows with equal texts in all columns; null equals null."""
    result: Ints | None = None
    for column in columns:
        code, texts = coded(column)
        result = code if result is None else _small(result) * (len(texts) + 1) + code + 1
    return np.zeros(0, dtype=np.int64) if result is None else result


def _small(values: Ints) -> Ints:
    """Equivalent codes below the number of rows, so that a product cannot overflow."""
    if len(values) == 0 or (values.max() < len(values) and values.min() >= 0):
        return values
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def mapped(column: Texts, say: Callable[[str | None], str | None]) -> pa.StringArray:
    """The result of ``say`` for each value; it is called once for each distinct value."""
    return each_different([single_array(column)], say)


def sentence(*parts: str | pa.Array) -> pa.Array:
    """The parts of each row (texts and arrays of texts), concatenated."""
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")


def put(column: pa.Array | pa.ChunkedArray, where: Bools, values: pa.Array | pa.Scalar) -> pa.Array:
    """The column with new values in the rows ``where``: one value, or one for each of these rows in order."""
    if not where.any():
        return single_array(column)
    return pc.replace_with_mask(single_array(column), pa.array(where), values)
