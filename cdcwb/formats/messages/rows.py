"""Rows with Kafka's columns to messages: a Spark DataFrame of a topic, its Parquet, and what else has such columns.

The columns are ``key`` and ``value`` (binary or text), ``topic``, ``partition``, ``offset``, ``timestamp``,
``timestampType`` and ``headers`` (a list of structs of key and value), in any subset with ``value`` and in any case;
other columns are somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.messages.batch import FACTS, MESSAGE, Bools, Messages, fact_columns, instants, text_of, time_text
from cdcwb.formats.messages.records import TIME_TYPES, header_facts

__all__ = ["COLUMNS", "from_arrow", "kafka_columns", "packed", "row_facts"]

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""Kafka's columns, as Spark names them."""

ROW: Final = "_row"

Batches: TypeAlias = pa.RecordBatch | pa.Table | Sequence[pa.RecordBatch]


def kafka_columns(names: Sequence[str]) -> dict[str, str]:
    """Which of the given columns are Kafka's: name in :data:`COLUMNS` -> name there. Without ``value`` there are none.

    Where two names differ in their case only, the one that Spark uses is taken.
    """
    found: dict[str, str] = {}
    for column in COLUMNS:
        alike = [name for name in names if name.lower().replace("_", "") == column.lower()]
        if alike:
            found[column] = column if column in alike else alike[0]
    return found if "value" in found else {}


def from_arrow(batches: Batches) -> Messages:
    """The messages of rows with Kafka's columns, in their order.

    ``offset`` is the column ``_row`` (the number of each row) where there is one, else counted from 0; ``length`` is 1;
    ``source`` is the value. Raises CaptureError where no column is called ``value`` or its type holds no bytes.
    """
    table = _table(batches)
    columns = kafka_columns(table.schema.names)
    if not columns:
        raise CaptureError(f"a column 'value' was expected, found {', '.join(table.schema.names) or 'no column'}")
    count = len(table)
    value = _bytes(_column(table, columns["value"]), "value")
    key = _bytes(_column(table, columns["key"]), "key") if "key" in columns else pa.nulls(count, pa.binary())
    facts: dict[str, pa.Array] = {name: pa.nulls(count, pa.string()) for name in FACTS}
    for name in ("topic", "partition", "offset"):
        if name in columns:
            facts[name] = _texts(_column(table, columns[name]))
    if "timestamp" in columns:
        facts["timestamp"] = _times(_column(table, columns["timestamp"]))
    if "timestampType" in columns:
        coded = _texts(_column(table, columns["timestampType"])).dictionary_encode()
        names = pa.array([_time_type(kind) for kind in coded.dictionary.to_pylist()], pa.string())
        facts["timestamp_type"] = names.take(coded.indices)
    if "headers" in columns:
        headers = fact_columns([_headers(items) for items in _column(table, columns["headers"]).to_pylist()])
        facts.update({name: pa.array(texts, pa.string()) for name, texts in headers.items() if name not in FACTS})
    row = _column(table, ROW).to_numpy(zero_copy_only=False) if ROW in table.schema.names else np.arange(count)
    return Messages(
        row.astype(np.int64),
        np.ones(count, dtype=np.int64),
        np.full(count, MESSAGE, dtype=np.uint8),
        {},
        value,
        key,
        value,
        facts,
    )


def row_facts(row: dict[str, Any], micros: frozenset[str]) -> dict[str, str | None]:
    """The facts of a row given as a dictionary by Kafka's names; ``timestamp`` counts milliseconds, or microseconds
    where it is among ``micros``."""
    facts: dict[str, str | None] = {name: _text(row.get(name)) for name in ("topic", "partition", "offset")}
    time = row.get("timestamp")
    if isinstance(time, int):
        if "timestamp" in micros and time % 1000 == 0:
            facts["timestamp"] = time_text(time // 1000)
        elif time != -1:
            facts["timestamp"] = time_text(time)
    else:
        facts["timestamp"] = _text(time)
    facts["timestamp_type"] = _time_type(_text(row.get("timestampType")))
    facts.update(_headers(row.get("headers")))
    return facts


def _table(batches: Batches) -> pa.Table:
    if isinstance(batches, pa.Table):
        return batches
    if isinstance(batches, pa.RecordBatch):
        return pa.Table.from_batches([batches])
    return pa.Table.from_batches(list(batches))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def packed(array: pa.Array) -> pa.Array:
    """A binary or text array whose offsets begin at 0: Arrow 18 sends others with the wrong bytes."""
    offsets = array.buffers()[1]
    begins = array.offset == 0 and (offsets is None or len(array) == 0 or np.frombuffer(offsets, np.int32, 1)[0] == 0)
    return array if begins else array.take(pa.array(np.arange(len(array))))


def _bytes(array: pa.Array, name: str) -> pa.BinaryArray:
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.binary())
    if not (_is_binary(kind) or _is_text(kind)):
        raise CaptureError(f"column {name!r}: bytes or text was expected, found {kind}")
    return packed(array.cast(pa.binary()))


def _is_binary(kind: pa.DataType) -> bool:
    views = getattr(pa.types, "is_binary_view", lambda _: False)
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or views(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    views = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind))


def _texts(array: pa.Array) -> pa.StringArray:
    if _is_binary(array.type):
        return pa.array([_text(item) for item in array.to_pylist()], pa.string())
    if pa.types.is_nested(array.type):
        return pa.array([None if item is None else str(item) for item in array.to_pylist()], pa.string())
    return packed(pc.cast(array, pa.string()))


def _times(array: pa.Array) -> pa.StringArray:
    """Instants as text: whole milliseconds with three digits, finer ones with six."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = pc.cast(pc.cast(array, pa.timestamp("us", kind.tz), safe=False), pa.int64())
        scale = 1000
    elif pa.types.is_integer(kind):
        array, scale = pc.cast(array, pa.int64(), safe=False), 1
    else:
        return _texts(array)
    null: Bools = np.asarray(array.is_null())
    values = np.asarray(array.fill_null(0))
    null = null | ((values == -1) if scale == 1 else (values == -1000))
    whole, rest = np.divmod(values, scale)
    texts = instants(whole, null)
    if rest.any():
        micros = pc.utf8_lpad(pc.cast(pa.array(rest), pa.string()), 3, "0")
        finer = pc.binary_join_element_wise(pc.replace_substring(texts, "Z", ""), micros, "Z", "")
        texts = pc.if_else(pa.array(rest > 0), finer, texts)
    return packed(texts)


def _time_type(text: str | None) -> str | None:
    return None if text is None else TIME_TYPES.get(text.lower(), text)


def _headers(items: Any) -> dict[str, str | None]:
    """Headers of a row: a list of structs of key and value, of pairs, or a dictionary."""
    if not items:
        return {}
    if isinstance(items, dict):
        return header_facts([(str(name), _text(value)) for name, value in items.items()])
    if not isinstance(items, list):
        return header_facts([("", _text(items))])
    return header_facts([_pair(item) for item in items])


def _pair(item: Any) -> tuple[str, str | None]:
    parts = list(item.values()) if isinstance(item, dict) else list(item) if isinstance(item, list | tuple) else [item]
    if isinstance(item, dict) and {"key", "value"} <= item.keys():
        parts = [item["key"], item["value"]]
    return _text(parts[0] if parts else None) or "", _text(parts[1]) if len(parts) > 1 else None


def _text(item: Any) -> str | None:
    if item is None or isinstance(item, str):
        return item
    return text_of(item) if isinstance(item, bytes) else str(item)
