"""Rows as text: a line of JSON or CSV for each, column-wise. :mod:`cdcwb.analysis.export` describes both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Rows

LINE: Final = pa.schema([("line", pa.string())])

_FORMULA: Final = r"^[=+\-@\t\r\n]"
_NUMBER: Final = r"^[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?\z"
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CONTROL: Final = [chr(code) for code in range(32) if chr(code) not in _ESCAPED]
_ESCAPES: Final = _ESCAPED | {sign: f"\\u{ord(sign):04X}" for sign in _CONTROL}
_QUOTED: Final = '[",\r\n]'
_NULL: Final = "null"


def lines(rows: Rows, kind: str, exact: bool = False) -> Rows:
    """A row of text for every row, ``jsonl`` or ``csv`` without its header line and without line ends."""
    line: Callable[[pa.RecordBatch], pa.Array] = json_lines if kind == "jsonl" else partial(csv_lines, exact=exact)
    return rows.map(lambda batch: pa.RecordBatch.from_arrays([line(batch)], schema=LINE), LINE)


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """A JSON object for each row."""
    return _objects(batch.schema.names, batch.columns, len(batch))


def csv_lines(batch: pa.RecordBatch, exact: bool = False) -> pa.Array:
    """A line of CSV for each row."""
    fields = [_csv_field(column, exact) for column in batch.columns]
    return fields[0] if len(fields) == 1 else pc.binary_join_element_wise(*fields, ",")


def json_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value, ``null`` for null: maps and structs are objects, times are in UTC with six digits of
    a second, bytes lower-case hex digits."""
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("name", kind.key_type), ("value", kind.item_type)])))
        pairs = pc.list_flatten(column)
        names, values = (json_texts(pc.struct_field(pairs, part)) for part in ("name", "value"))
        texts = _joined(column, pc.binary_join_element_wise(names, values, ":"), "{}")
    elif pa.types.is_list(kind):
        texts = _joined(column, json_texts(pc.list_flatten(column)), "[]")
    elif pa.types.is_struct(kind):
        names = [field.name for field in kind]
        texts = _objects(names, [pc.struct_field(column, name) for name in names], len(column))
        texts = pc.if_else(column.is_valid(), texts, None)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    else:
        texts = _around('"', _escaped(_plain(column)), '"')
    return pc.fill_null(texts, _NULL)


def _plain(column: pa.Array) -> pa.Array:
    """A value that is a text in JSON, without quotes."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts with the escapes of JSON."""
    if not pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')).as_py():
        return texts
    found = [sign for sign in _ESCAPES if pc.any(pc.match_substring(texts, sign)).as_py()]
    return reduce(lambda escaped, sign: pc.replace_substring(escaped, sign, _ESCAPES[sign]), found, texts)


def _around(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _joined(lists: pa.Array, texts: pa.Array, brackets: str) -> pa.Array:
    """The texts of the elements of lists, separated by commas, in brackets; null for a null list."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.if_else(lists.is_valid(), _around(brackets[0], inside, brackets[1]), None)


def _objects(names: list[str], columns: list[pa.Array], rows: int) -> pa.Array:
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        title = _escaped(pa.array([name]))[0].as_py()
        parts += [f'{"," if number else "{"}"{title}":', json_texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat("{}", rows)


def _csv_field(column: pa.Array, exact: bool) -> pa.Array:
    """One field in the form of RFC 4180; unless ``exact``, with an apostrophe before a text that a spreadsheet would
    run as a formula."""
    kind = column.type
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_struct(kind):
        text = pc.if_else(column.is_valid(), json_texts(column), None)
    else:
        text = _plain(column)
    if pa.types.is_string(kind) and not exact:
        is_number = pc.match_substring_regex(text, _NUMBER)
        is_formula = pc.and_(pc.match_substring_regex(text, _FORMULA), pc.invert(is_number))
        text = pc.if_else(is_formula, _around("'", text, ""), text)
    quoted = _around('"', pc.replace_substring(text, '"', '""'), '"')
    has_to_be = pc.or_(pc.equal(text, ""), pc.match_substring_regex(text, _QUOTED))
    return pc.fill_null(pc.if_else(has_to_be, quoted, text), "")
