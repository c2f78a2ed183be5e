"""The tables that publishing takes and gives, and the columns that its stages add on the way.

:data:`ROWS` goes in. Each stage is a function of whole tables that adds columns and leaves the others alone:

    decisions.own_decisions     what a row says of itself              adds :data:`OWN`
    publisher.with_cycles       the polling cycle it falls in          adds :data:`CYCLE`
    snapshot.with_snapshot      what the snapshot says of its object   adds :data:`STATE`
    decisions.between_rows      what the object's other rows say       decides every row
    publisher.number_events     events and documents                   adds :data:`NUMBERS`
    publisher.to_event_table    published rows as events

:data:`DECISIONS` comes out, and the events of :mod:`cdcwb.xds.document`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.layout import LOG

__all__ = [
    "CURRENT",
    "CYCLE",
    "DECISIONS",
    "NUMBERS",
    "OWN",
    "ROWS",
    "STATE",
    "Bools",
    "Decision",
    "Ints",
    "State",
    "Texts",
    "coded",
    "codes",
    "flags",
    "numbers",
    "put",
    "said_of",
    "said_of_rows",
    "sentence",
    "whole",
]


class Decision(StrEnum):
    """What becomes of a row."""

    PUBLISHED = "published"
    SKIPPED = "skipped"  # its status is not N, or the driver itself made the change
    INVALID = "invalid"  # breaks a rule, so that it can stand in no document
    WAITING = "waiting"  # its event_time is not reached yet
    NO_EFFECT = "no_effect"  # nothing is left to write, or the object is gone
    OVERRIDDEN = "overridden"  # another row of the same object takes its place
    NEEDS_SNAPSHOT = "needs_snapshot"  # its document would hold what only the table knows


class State(IntEnum):
    """What the snapshot says of the object of a query-back row."""

    UNKNOWN = 0  # no snapshot, or one without this table
    ABSENT = 1  # the table has no such row
    THERE = 2
    NO_ATTRIBUTE = 3  # there, and what the row is about is part of its key
    NO_COLUMN = 4  # there, and the table has no column of that name
    CHARACTER = 5  # there, and a value holds a character that XML 1.0 cannot hold
    NO_KEY = 6  # the table lacks a column of the key


ROWS: Final = pa.schema(
    [
        *LOG,
        ("file_index", pa.int32()),
        ("offset", pa.int64()),
        ("event_us", pa.int64()),
        ("repeated", pa.bool_()),
    ]
)
"""Rows of the event log, in any order. ``event_us`` is event_time in µs UTC, null where it cannot be read;
``repeated``: a row with the same record_id stood before this one in capture order (file_index, offset)."""

OWN: Final = pa.schema(
    [
        ("number", pa.int64()),  # record_id; null where it is no positive whole number
        ("type", pa.int32()),  # event_type; null where it is none of 1 to 8
        ("verb", pa.string()),  # a value of event.Verb; null where type is
        ("order_time", pa.int64()),  # event_us where rows are ordered by it, else 0
        ("decision", pa.string()),  # a value of Decision; null: not decided yet
        ("reason", pa.string()),  # of the decision; without one: a remark to the reason that will come
        ("polled", pa.bool_()),  # takes part in polling: neither skipped nor invalid nor waiting
        ("deletes", pa.bool_()),  # a valid type 4 row that is done or will be: what came before it is gone
    ]
)
"""What a row says of itself. Processing order is (order_time, number), and unique among rows that are polled or
delete."""

CYCLE: Final = pa.schema([("ordinal", pa.int64()), ("cycle", pa.int64())])
"""Place among the polled rows in processing order, and the polling cycle, both from 0; null for a row not polled."""

STATE: Final = pa.schema([("state", pa.int8())])
"""A value of :class:`State`; null for rows that are not query-back."""

NUMBERS: Final = pa.schema([("event", pa.int64()), ("document", pa.int64())])
"""Numbers of event and document, from 1; null for a row that is not published."""

CURRENT: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
"""What the table holds now, without key columns: attributes in the order of its columns; a null value is NULL. Of a
row for one column only that one, by the name that the row gives it."""

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
"""One row per row of the log. record_id and event_type are null where they are unusable; document and event where the
row is not published; ``overridden_by`` is the record_id of the row that takes its place."""


Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Texts: TypeAlias = pa.StringArray | pa.ChunkedArray


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
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
    """A number for each text, the same for equal ones, and the text of each number from 0. Null has -1."""
    if isinstance(column, pa.ChunkedArray):
        parts = pc.dictionary_encode(column).unify_dictionaries().chunks
        if not parts:
            return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
        return np.concatenate([numbers(part.indices, -1) for part in parts]), parts[0].dictionary
    encoded = column.dictionary_encode()
    return numbers(encoded.indices, -1), encoded.dictionary


def codes(*columns: Texts) -> Ints:
    """A number for each row, the same where all columns have equal texts; null equals null."""
    found: Ints | None = None
    for column in columns:
        code, texts = coded(column)
        found = code if found is None else _small(found) * (len(texts) + 1) + code + 1
    return np.zeros(0, dtype=np.int64) if found is None else found


def _small(values: Ints) -> Ints:
    """The same equalities with numbers below the count of rows, so that a product cannot overflow."""
    if len(values) == 0 or (values.max() < len(values) and values.min() >= 0):
        return values
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def said_of(column: Texts, say: Callable[[str | None], str | None]) -> pa.Array:
    """What ``say`` makes of each value, asked once for each that is different."""
    code, texts = coded(column)
    said = pa.array([*(say(text) for text in texts.to_pylist()), say(None)], pa.string())
    return said.take(pa.array(np.where(code < 0, len(texts), code)))


def said_of_rows(columns: Sequence[Texts], say: Callable[..., str | None]) -> pa.StringArray:
    """What ``say`` makes of the values of each row in all columns, asked once for those that are different."""
    _, first, row = np.unique(codes(*columns), return_index=True, return_inverse=True)
    given = (column.take(pa.array(first)).to_pylist() for column in columns)
    return pa.array([say(*one) for one in zip(*given, strict=True)], pa.string()).take(pa.array(row.reshape(-1)))


def sentence(*parts: str | pa.Array) -> pa.Array:
    """The parts of each row, texts and arrays of texts, one behind the other."""
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")


def put(column: pa.Array | pa.ChunkedArray, where: Bools, values: pa.Array | pa.Scalar) -> pa.Array:
    """The column with other values in the rows ``where``: as many values as such rows, in their order, or one."""
    if not where.any():
        return whole(column)
    return pc.replace_with_mask(whole(column), pa.array(where), values)
