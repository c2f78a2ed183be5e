"""The format ``sqlserver-ct``: change tables of SQL Server's change data capture (docs/formats/sqlserver-ct.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import OptionError
from cdcwb.formats import bitmask
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import as_array, hex_text
from cdcwb.formats.containers.rows import TableName, stem_of
from cdcwb.formats.kernels import Bools
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.source import folders_of
from cdcwb.formats.table_rows import Options, RowBatch, TableRows
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import joined, plural, visible

__all__ = ["SqlServerCt"]

START, SEQUENCE, OPERATION = "__$start_lsn", "__$seqval", "__$operation"
MASK, COMMAND = "__$update_mask", "__$command_id"

TIMES: Final = ("__$commit_time", "__$tran_end_time", "tran_end_time")
"""Names of a column with the commit time, joined from cdc.lsn_time_mapping by whoever exported the table (§5)."""

LSN_BYTES: Final = 10
_LSN: Final = f"{LSN_BYTES} bytes in hexadecimal digits"

_OPERATIONS: Final = {
    "1": (Kind.CHANGE, Operation.DELETE),
    "2": (Kind.CHANGE, Operation.INSERT),
    "3": (Kind.BEFORE, Operation.UPDATE),
    "4": (Kind.AFTER, Operation.UPDATE),
    "5": (Kind.AFTER, Operation.UPDATE),  # of net changes: an INSERT or an UPDATE
}
_WORDS: Final = {
    "1": "DELETE",
    "2": "INSERT",
    "3": "UPDATE, the row before",
    "4": "UPDATE, the row after",
    "5": "INSERT or UPDATE of net changes, the row after",
}
"""``__$operation`` (§3)."""

_INSTANCE: Final = re.compile(r"(?:cdc\.)?(.+?)_CT(?:[._-].*)?", re.IGNORECASE | re.DOTALL)
_FUNCTION: Final = re.compile(r"(?:cdc\.)?fn_cdc_get_(?:all|net)_changes_(.+)", re.IGNORECASE | re.DOTALL)
_LATER: Final = re.compile(r"(.+?)_v\d+", re.IGNORECASE | re.DOTALL)
_COMMAND: Final = r"/\d{10}/"


class SqlServerCt(TableRows):
    """Reads change tables ``cdc.<capture instance>_CT``, and the results of the functions over them."""

    name = "sqlserver-ct"
    own_options: ClassVar = {
        "table": "schema.table of all rows, or of capture instances (dbo_Orders_v2=dbo.Orders,…): auto (from the names "
        "of files), or these",
        "time_column": f"column with the commit time: auto ({', '.join(TIMES)}), or its name",
        "time_zone": "time zone of the commit time, which is that of the server: an IANA name or an offset (UTC)",
    }
    meanings: ClassVar = {
        START: "LSN of the commit; all changes of a transaction have the same",
        "__$end_lsn": "not used; NULL",
        SEQUENCE: "LSN of the log record",
        OPERATION: "operation",
        MASK: "columns that changed",
        COMMAND: "order of the command in the transaction",
        **dict.fromkeys(TIMES, "time of the commit, from cdc.lsn_time_mapping"),
    }
    counted: ClassVar = {
        "deferred updates": "pairs of a DELETE and an INSERT with one __$seqval: one UPDATE in the source, of a unique "
        "column for example, that is logged as two changes"
    }

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`."""
        checked = super().parse_options(options)
        if "time_zone" in checked.given:
            parse_zone(checked.given["time_zone"])
        _tables(checked.given)
        return checked

    def claims(self, columns: Sequence[str]) -> bool:
        """Whether a table has the columns that every change table and every function has."""
        return {START, OPERATION} <= set(columns)

    def header(self, columns: Sequence[str], options: Mapping[str, str]) -> list[str]:
        """The columns of the change table itself, and the commit time."""
        time = _time_column(columns, options)
        return [name for name in columns if (name in self.meanings and name not in TIMES) or name == time]

    def table(self, path: str, paths: Sequence[str], options: Mapping[str, str]) -> tuple[TableName, str]:
        """The source table of a file: its capture instance is in the name of the file or folder, and by default it is
        ``schema_table`` (§1). An instance that continues another one (``dbo_Orders_v2``) has the table of that."""
        given = _tables(options)
        if isinstance(given, str):
            return TableName.of(given), "given as an option"
        instance, evidence = _instance(path)
        if instance in given:
            return TableName.of(given[instance]), f"capture instance {instance}, given as an option"
        later = _LATER.fullmatch(instance)
        if later is not None and any(_instance(other)[0] == later[1] for other in paths):
            evidence = f"{evidence}, which is taken for a later instance of {later[1]}"
            instance = later[1]
        if instance in given:
            return TableName.of(given[instance]), evidence
        schema, sign, table = instance.partition("_")
        return TableName(schema, table) if sign and schema and table else TableName(None, instance), evidence

    def events(self, rows: RowBatch, options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of events (§2 to §5)."""
        starts, invalid = _lsns(rows, START)
        texts = rows.text(START)
        rows.malformed(invalid | as_array(pc.is_null(starts)), partial(_unlike, f"{START}: expected {_LSN}", texts))
        operations, unknown = rows.operations(OPERATION, _OPERATIONS)
        codes = operations["record_type"]
        rows.problem(unknown, Problem.VALUE, partial(_unlike, f"{OPERATION}: expected 1 to 5", codes))
        found = {**operations, "position": self._positions(rows, starts), "transaction_id": starts}
        time = _time_column(rows.names, options)
        if time is not None and rows.wanted.needs("changed_at", "problems"):
            found["changed_at"] = rows.time(time, parse_zone(options.get("time_zone", "UTC")))
        if MASK in rows.names and rows.wanted.needs("change_mask", "changed_columns", "problems"):
            found["change_mask"] = rows.text(MASK)
            found["changed_columns"] = _changed(rows, pc.is_in(codes, pa.array(["3", "4"])))
        return found

    @staticmethod
    def _positions(rows: RowBatch, starts: pa.StringArray) -> pa.StringArray:
        """LSN of the commit, command and LSN of the log record, as far as the rows have them: the order of the change
        table's index (§4)."""
        parts = [starts]
        if COMMAND in rows.names:
            commands = rows.text(COMMAND)
            invalid = ~as_array(pc.fill_null(pc.match_substring_regex(commands, "^[0-9]{1,10}$"), True))
            rows.problem(invalid, Problem.VALUE, partial(_unlike, f"{COMMAND}: expected a number", commands))
            parts.append(pc.utf8_lpad(pc.if_else(pa.array(invalid), None, commands), 10, "0"))
        if SEQUENCE in rows.names:
            sequences, invalid = _lsns(rows, SEQUENCE)
            rows.problem(invalid, Problem.VALUE, partial(_unlike, f"{SEQUENCE}: expected {_LSN}", rows.text(SEQUENCE)))
            parts.append(sequences)
        return pc.binary_join_element_wise(*parts, "/", null_handling="skip") if len(parts) > 1 else starts

    def count(self, rows: pa.RecordBatch) -> Mapping[str, int]:
        """The deferred updates among consecutive rows."""
        lsns = pc.replace_substring_regex(rows["position"], _COMMAND, "/")
        deleted = pc.equal(rows["operation"].slice(0, len(lsns) - 1), str(Operation.DELETE))
        inserted = pc.equal(rows["operation"].slice(1), str(Operation.INSERT))
        same = pc.and_(pc.equal(lsns.slice(0, len(lsns) - 1), lsns.slice(1)), pc.match_substring(lsns.slice(1), "/"))
        return {"deferred updates": pc.sum(pc.and_(pc.and_(deleted, inserted), same)).as_py() or 0}

    def meaning(self, name: str, text: str | None, columns: Sequence[str]) -> str:
        """The meaning of a value of a header column."""
        known = self.meanings.get(name, "time of the commit")
        if name == OPERATION and text in _WORDS:
            return f"{known}: {_WORDS[text]}"
        if name == MASK and text is not None:
            masks, wrong = bitmask.parse(pa.array([text], pa.string()))
            bits, _ = bitmask.bits(masks, "big", len(columns))
            changed = [column for column, bit in zip(columns, bits[0], strict=True) if bit]
            return f"{known}: {joined(changed) or 'none'}" if not wrong[0] else f"{known}: expected hexadecimal digits"
        return known


def _tables(options: Mapping[str, str]) -> str | Mapping[str, str]:
    """The option ``table``: one name, or names by capture instance."""
    text = options.get("table", "")
    if text and "=" not in text:
        return text
    pairs = opt.as_names("table", text)
    if not all(pairs.values()):
        raise OptionError(f"option table: expected schema.table, or instance=schema.table, found {text!r}")
    return pairs


def _time_column(columns: Sequence[str], options: Mapping[str, str]) -> str | None:
    names = [options["time_column"]] if "time_column" in options else TIMES
    return next((name for name in names if name in columns), None)


def _instance(path: str) -> tuple[str, str]:
    """The capture instance of a file: what precedes ``_CT`` in its name, else in that of its folder."""
    stem, folder = stem_of(path), stem_of(folders_of(path)[0])
    for text, what in ((stem, "the file's name"), (folder, "the folder's name")):
        found = _INSTANCE.fullmatch(text) or _FUNCTION.fullmatch(text)
        if found is not None:
            return found[1], f"{what} {text!r}: capture instance {found[1]}"
    return stem, f"the file's name {stem!r}"


def _lsns(rows: RowBatch, name: str) -> tuple[pa.StringArray, Bools]:
    """LSNs as 20 digits, null for NULL and invalid ones, and a mask of the latter."""
    texts = rows.text(name)
    found, wrong = bitmask.parse(texts)
    size = pc.fill_null(pc.binary_length(found), LSN_BYTES).to_numpy(zero_copy_only=False)
    invalid: Bools = wrong | (size != LSN_BYTES)
    return pc.if_else(pa.array(invalid), pa.scalar(None, pa.string()), hex_text(found)), invalid


def _unlike(expected: str, texts: pa.StringArray, row: int) -> str:
    found = texts[row].as_py()
    return f"{expected}, found {'NULL' if found is None else repr(visible(found, 60))}"


def _changed(rows: RowBatch, are_updates: pa.Array) -> pa.ListArray:
    """The columns that changed, for updates: bit 0 of the last byte is that of the first captured column (§4)."""
    texts, width = rows.text(MASK), len(rows.columns)
    is_base64 = bitmask.spelling(rows.text(START))[1] > 0  # an LSN in base64 ends in two equals signs
    masks, wrong = bitmask.parse(texts, bitmask.BASE64 if is_base64 else bitmask.HEX)
    rows.problem(wrong, Problem.MASK, partial(_unlike, f"{MASK}: expected hexadecimal digits", texts))
    bits, beyond = bitmask.bits(masks, "big", width)
    size = pc.fill_null(pc.binary_length(masks), -1).to_numpy(zero_copy_only=False)
    other = ~beyond & (size >= 0) & (size != -(-width // 8))
    for wrong, what in ((beyond, "no bit beyond"), (other, f"{plural(-(-width // 8), 'byte')} for")):
        expected = f"{MASK}: expected {what} the {plural(width, 'captured column')}"
        rows.problem(wrong, Problem.MASK, partial(_unlike, expected, texts))
    null = as_array(pc.is_null(masks)) | ~as_array(are_updates)
    return bitmask.names(bits, rows.columns, null)
