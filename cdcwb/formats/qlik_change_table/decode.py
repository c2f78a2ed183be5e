"""Decodes rows: operations, header columns, and rows of control tables, with problems of values that contradict the
documentation (docs/formats/qlik-change-table.md §2, §3, §6, §10).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, interleaved, maps_of
from cdcwb.formats.containers.rows import TableName
from cdcwb.formats.kernels import Ints
from cdcwb.formats.moments import MICROSECONDS, UNKNOWN_UNTIL, moments, sequence_times
from cdcwb.formats.qlik_change_table import layout
from cdcwb.formats.qlik_change_table.layout import HEADERS, LETTERS, OPERATIONS, known_columns
from cdcwb.formats.qlik_change_table.masks import MaskSettings, changed_columns
from cdcwb.formats.table_rows import RowBatch
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import visible

_MEANINGS: Final = list(LETTERS.values())
_LETTERS: Final = list(LETTERS)
_NAMES: Final = list(OPERATIONS)
_BY_NAME: Final = np.array([0, *(1 + _MEANINGS.index(meaning) for meaning in OPERATIONS.values())])
_TRUNCATE: Final = 1 + _LETTERS.index("T")
_KINDS: Final = [str(Kind.CHANGE), *(str(meaning.kind) for meaning in _MEANINGS)]
_OPERATIONS: Final = [None, *(str(meaning.operation) for meaning in _MEANINGS)]
_PARTITION: Final = re.compile(r"(\d{8}T\d{6})_(\d{8}T\d{6})", re.ASCII)


# --- rows of change tables --------------------------------------------------------------------------------------------


def row_events(rows: RowBatch, options: Mapping[str, str]) -> dict[str, Any]:
    """The columns of events that rows of a change table give."""
    known, wanted = known_columns(rows.names, options.get("prefix")), rows.wanted
    found: dict[str, Any] = dict(operations(rows, known))
    position = found["position"] = _given(rows, known, "change_seq")
    if wanted.needs("transaction_id"):
        found["transaction_id"] = _given(rows, known, "transaction_id")
    checks, times = wanted.needs("problems"), None
    if checks:
        for name, (_, width) in HEADERS.items():
            if name in known and width is not None and name != "change_mask":
                _check_width(rows, name, width, rows.text(known[name]))
        times, wrong = sequence_times(position)
        expected = "change_seq: expected 35 digits, YYYYMMDDHHmmSShh and a number of 19"
        rows.problem(wrong, Problem.VALUE, lambda row: f"{expected}, found {_shown(position, row)!r}")
        _check_operations(rows, known, found)
    if "timestamp" in known and (checks or wanted.needs("changed_at")):
        changed_at = rows.time(known["timestamp"])
        default = pc.fill_null(pc.less(changed_at, pa.scalar(UNKNOWN_UNTIL, MICROSECONDS)), False)
        found["changed_at"] = pc.if_else(default, pa.scalar(None, MICROSECONDS), changed_at)
    if "partition_name" in known and (checks or wanted.needs("headers")):
        found["headers"] = _with_partition(rows, known["partition_name"], options, position, times)
    if "change_mask" in known and (checks or wanted.needs("change_mask", "changed_columns")):
        settings = MaskSettings.of(options)
        found["change_mask"] = rows.text(known["change_mask"])
        if settings is not None:
            found["changed_columns"] = changed_columns(rows, known["change_mask"], settings)
    return found


def loaded_events(rows: RowBatch) -> dict[str, Any]:
    """The columns of events that rows of a full load give."""
    return {"kind": str(Kind.CHANGE), "operation": str(Operation.REFRESH), "record_type": "LOAD"}


def _given(rows: RowBatch, known: Mapping[str, str], name: str) -> pa.StringArray:
    """A header column as texts, null for empty ones, and if the rows lack it."""
    texts = rows.text(known[name]) if name in known else pa.nulls(len(rows), pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _places(texts: pa.StringArray, among: list[str]) -> Ints:
    """The index of each text among some, from 1; 0 for others."""
    found = pc.fill_null(pc.index_in(texts, pa.array(among, pa.string())), -1)
    places: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return places


def operations(rows: RowBatch, known: Mapping[str, str]) -> dict[str, pa.Array]:
    """``kind``, ``operation`` and ``record_type`` by ``change_oper`` and ``operation`` (§3.1). The letter is decisive,
    except for TRUNCATE, whose letter is undocumented. If neither is listed the operation is UNKNOWN with the text."""
    letter, name = (_given(rows, known, one) for one in ("change_oper", "operation"))
    by_letter, by_name = _places(letter, _LETTERS), _BY_NAME[_places(name, _NAMES)]
    code = np.where((by_letter == 0) | (by_name == _TRUNCATE), by_name, by_letter)
    kind, operation = (pa.array(texts, pa.string()).take(pa.array(code)) for texts in (_KINDS, _OPERATIONS))
    record_type = pc.coalesce(letter, name)
    if not code.all():
        unknown = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(record_type, ""), ")", "")
        operation = pc.coalesce(operation, unknown)
    return {"kind": kind, "operation": operation, "record_type": record_type}


def _check_width(rows: RowBatch, name: str, most: int, texts: pa.StringArray) -> None:
    size = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    expected = f"{name}: expected at most {most} byte{'s' if most != 1 else ''}"
    rows.problem(size > most, Problem.WIDTH, lambda row: f"{expected}, found {size[row]}")


def _check_operations(rows: RowBatch, known: Mapping[str, str], events: Mapping[str, pa.Array]) -> None:
    """Rows without a known operation in these columns, and those whose two columns contradict each other (§10)."""
    if "change_oper" not in known and "operation" not in known:
        return  # a problem of the file

    def unknown(row: int) -> str:
        text = events["record_type"][row].as_py()
        found = "none" if text is None else repr(visible(text, 20))
        return f"expected an operation (I, U, D or B in change_oper, or its name in operation), found {found}"

    rows.problem(as_array(pc.starts_with(events["operation"], "UNKNOWN(")), Problem.VALUE, unknown)
    letter, name = (_given(rows, known, one) for one in ("change_oper", "operation"))
    by_letter, by_name = _places(letter, _LETTERS), _BY_NAME[_places(name, _NAMES)]
    both = as_array(pc.and_(pc.is_valid(letter), pc.is_valid(name)))

    def contradiction(row: int) -> str:
        one, two = (repr(visible(texts[row].as_py(), 20)) for texts in (letter, name))
        if by_letter[row] or not by_name[row]:
            return f"change_oper and operation: expected the same in both, found {one} and {two}"
        return f"change_oper: expected I, U, D or B, found {one}; operation is {name[row].as_py()}"

    rows.problem(both & (by_letter != by_name) & (by_name != _TRUNCATE), Problem.VALUE, contradiction)


def _with_partition(
    rows: RowBatch, column: str, options: Mapping[str, str], position: pa.StringArray, times: pa.Array | None
) -> pa.MapArray:
    """The header columns with begin and end of each row's partition; reports rows outside of it (§2.6). ``times``:
    those of change sequences."""
    partition = rows.text(column)
    encoded = pc.if_else(pc.equal(partition, ""), pa.scalar(None, pa.string()), partition).dictionary_encode()
    spans = [partition_span(name) or (None, None) for name in encoded.dictionary.to_pylist()]
    begin, end = (pa.array([span[at] for span in spans], MICROSECONDS).take(encoded.indices) for at in (0, 1))
    expected = "partition_name: expected YYYYMMDDTHHMMSS_YYYYMMDDTHHMMSS"
    wrong = as_array(pc.and_(pc.is_null(begin), pc.is_valid(encoded)))
    rows.problem(wrong, Problem.VALUE, lambda row: f"{expected}, found {_shown(partition, row)!r}")
    if times is not None:
        outside = pc.fill_null(pc.or_(pc.less(times, begin), pc.greater_equal(times, end)), False)

        def elsewhere(row: int) -> str:
            return f"expected a change_seq of partition {_shown(partition, row)}, found {_shown(position, row)}"

        rows.problem(as_array(outside), Problem.PARTITION, elsewhere)
    texts = {name: rows.text(name) for name in layout.header_columns(rows.names, options.get("prefix"))}
    for at, name in enumerate(("partition_begin", "partition_end")):
        shown = [None if span[at] is None else f"{span[at]:%Y-%m-%dT%H:%M:%S}" for span in spans]
        texts.setdefault(name, pa.array(shown, pa.string()).take(encoded.indices))
    return maps_of(list(texts), interleaved(list(texts.values())), np.ones(len(rows), np.bool_))


def _shown(texts: pa.StringArray, row: int) -> str:
    return visible(texts[row].as_py(), 60)


def partition_span(name: str) -> tuple[dt.datetime, dt.datetime] | None:
    """Begin and end of a partition, in UTC; None for an invalid name."""
    match = _PARTITION.fullmatch(name)
    if match is None:
        return None
    try:
        begin, end = (dt.datetime.strptime(f"{edge}Z", "%Y%m%dT%H%M%S%z") for edge in match.groups())
    except ValueError:
        return None
    return begin, end


# --- control tables ---------------------------------------------------------------------------------------------------


def control_events(rows: RowBatch, control: str) -> dict[str, Any]:
    """The columns of events that rows of a control table give (§6)."""
    known, own = {name.casefold(): name for name in rows.names}, rows.file.table
    table, owner = (_given(rows, known, name) for name in ("table_name", "table_owner"))
    found: dict[str, Any] = {
        "kind": str(Kind.CONTROL),
        "operation": None,
        "record_type": control,
        "schema_name": pc.if_else(pc.is_valid(table), owner, pa.scalar(own.schema, pa.string())),
        "table_name": pc.fill_null(table, own.table),
        "changed_at": moments(_given(rows, known, next(iter(layout.CONTROL_TABLES.get(control, ())), "")))[0],
    }
    if control == layout.DDL_HISTORY:
        is_truncate = pc.fill_null(pc.equal(pc.utf8_upper(_given(rows, known, "ddl_type")), layout.DDL_TRUNCATE), False)
        found["operation"] = pc.if_else(is_truncate, str(Operation.TRUNCATE), str(Operation.DDL))
        found["position"] = _given(rows, known, "change_seq")
    if control == layout.EXCEPTIONS:
        statement, error = (_given(rows, known, name) for name in ("statement", "error"))

        def rejected(row: int) -> str:
            name, schema, text = (texts[row].as_py() for texts in (table, owner, statement))
            label = TableName(schema, name).label if name else "a table without a name"
            what = f"; the statement was {visible(text, 300)}" if text else ""
            why = visible(error[row].as_py() or "no error is given", 300)
            return f"the target rejected a change of {visible(label, 120)}: {why}{what}"

        rows.problem(np.ones(len(rows), np.bool_), Problem.APPLY_EXCEPTION, rejected)
    return found
