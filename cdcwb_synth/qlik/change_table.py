"""A workload as change tables of Replicate in files (``docs/formats/qlik-change-table.md``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.files import ENDINGS, ByteFile, TableFile
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Rules, option
from cdcwb_synth.qlik import columns as qlik
from cdcwb_synth.qlik.columns import ChangeSequence, Described, Image, Layout, QlikOptions
from cdcwb_synth.truth import Location, Transaction, Version, column_rows, natural_key
from cdcwb_synth.values import EPOCH, Column, Type, microseconds
from cdcwb_synth.workload import Change, Committed, Schema

_HEADERS: Final = {
    "change_seq": ("STRING", 35), "change_oper": ("STRING", 1), "change_mask": ("BYTES", 128),
    "stream_position": ("STRING", 128), "operation": ("STRING", 12), "transaction_id": ("STRING", 32),
    "timestamp": ("DATETIME", 0),
}  # fmt: skip
"""Header columns: type and length (§2.1)."""

_PREFIX: Final = "header__"
_LETTERS: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "BEFOREIMAGE": "B", "TRUNCATE": "T"}
_DDL: Final = "attrep_ddl_history"
_DDL_COLUMNS: Final = (
    ("SERVER_NAME", "STRING", 128), ("TASK_NAME", "STRING", 128), ("TABLE_OWNER", "STRING", 128),
    ("TABLE_NAME", "STRING", 128), ("CHANGE_SEQ", "STRING", 35), ("TIMESTAMP", "DATETIME", 0),
    ("TABLE_VERSION", "INT4", 10), ("DDL_TYPE", "STRING", 15), ("DETAILS", "CLOB", 0),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTableOptions(QlikOptions):
    """How change tables look, and what holds them."""

    container: str = option("csv", "what holds the rows", of=("csv", "json", "parquet"))
    dfm: bool = option(True, "a .dfm beside every file")
    delimiter: str = option(",", "csv: between two fields")
    null_value: str = option("", "csv: what stands for NULL")
    escape: str = option("", "csv: before quotes in a text; else they are doubled")
    suffix: str = option("__ct", "what the name of a change table ends with")
    unknown_times: float = option(0.0, "share of the changes whose timestamp is 1970-01-01", 0, 1)
    repeat_sequences: float = option(0.0, "share of the changes with the change_seq of the one before them", 0, 1)
    ddl_history: bool = option(True, "the control table attrep_ddl_history, as csv")
    file_rows: int = option(5000, "most rows of a file", 1, 1_000_000)

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        is_special, count = bool(set(self.null_value) & set('"\r\n' + self.delimiter)), self.tables + self.all_types
        return [
            *QlikOptions.rules(self),
            (not self.dfm and (self.delimiter != "," or self.null_value or self.escape),
             "without dfm nothing tells delimiter, null_value and escape"),
            (len(self.delimiter) != 1 or self.delimiter in '"\r\n' or self.delimiter.isalnum(),
             "delimiter is one character, and neither letter, digit, quote nor line end"),
            (len(self.escape) > 1 or self.escape in (self.delimiter, '"') or is_special,
             "escape and null_value hold no quote, delimiter or line end; escape is one character"),
            (count > 400, f"{count} tables would be as many open files; at most 400"),
            (not self.suffix, "suffix is not empty"),
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """What a file's columns are: those of a version of a table, after header columns if it ``has_headers``. ``target``
    is the name of the table that the file belongs to, ``version`` what the truth has of it (None: a control table)."""

    schema: str
    table: str
    target: str
    number: int
    has_headers: bool
    columns: Sequence[Described]
    version: Version | None = None

    @property
    def names(self) -> list[str]:
        return [_PREFIX + name for name in _HEADERS if self.has_headers] + [c.name for c in self.columns]

    @property
    def described(self) -> list[dict[str, Any]]:
        """The columns as a ``.dfm`` has them."""
        heads = [(_PREFIX + n, kind, length, 0, 0, 0) for n, (kind, length) in _HEADERS.items() if self.has_headers]
        own = [(c.name, c.type, c.length, c.precision, c.scale, c.key) for c in self.columns]
        names = ("name", "type", "length", "precision", "scale", "primaryKeyPos")
        return [{"ordinal": i, **dict(zip(names, one, strict=True))} for i, one in enumerate([*heads, *own], 1)]

    @property
    def arrow(self) -> pa.Schema:
        """The columns in Parquet."""
        heads: dict[str, pa.DataType] = dict.fromkeys(_HEADERS if self.has_headers else (), pa.string())
        if heads:
            heads |= {"timestamp": pa.timestamp("us"), "change_mask": pa.binary()}
        kinds = [*heads.values(), *(_arrow(column) for column in self.columns)]
        return pa.schema(list(zip(self.names, kinds, strict=True)))


@dataclass(slots=True, eq=False)
class _Stored:
    """One version of a table: the structures of its change table and of the table itself, and its rows' values in
    them. ``history``: what the DDL history has of it: location, columns and text."""

    layout: Layout
    version: Version
    changed: _Structure
    loaded: _Structure
    history: tuple[Location, list[dict[str, Any]], str] | None = None


class _Rows:
    """How rows are written: as fields, and as text beside them."""

    def __init__(self, options: ChangeTableOptions, container: str) -> None:
        self.container = container
        self._options, self._is_table = options, container == "parquet"
        self._special = set('"\r\n' + options.delimiter + options.escape)
        self._compression = "none" if options.container == "parquet" else options.compression  # of files of text
        self.ending = container + ENDINGS[self._compression]

    def quoted(self, text: str) -> str:
        """A text of delimited text in quotes."""
        escape = self._options.escape
        inner = text.replace(escape, escape * 2).replace('"', escape + '"') if escape else text.replace('"', '""')
        return f'"{inner}"'

    def head(self, value: str | None) -> Any:
        """The field of a header column: bare in delimited text, unless that would be misread."""
        is_bare = bool(value) and value != self._options.null_value and not self._special & set(value or "")
        return value if self.container != "csv" or is_bare or value is None else self.quoted(value)

    def time(self, at: int) -> tuple[Any, str]:
        """The field of a time (microseconds since 1970), and its text."""
        moment = (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)
        text = moment.isoformat("T" if self._is_table else " ", "microseconds")
        return moment if self._is_table else text, text

    def mask(self, mask: int | None) -> tuple[Any, str | None]:
        """The field of a mask and its text: bytes whose first has bits 0 to 7, or a number in hexadecimal digits; one
        that is not there is NULL in delimited text and empty elsewhere."""
        if mask is None:
            return {"csv": (None, None), "json": ("", ""), "parquet": (b"", "")}[self.container]
        data = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        text = (data if self._is_table else data[::-1]).hex().upper()
        return data if self._is_table else text, text

    def open(self, path: Any, structure: _Structure) -> tuple[ByteFile | TableFile, int]:
        """A new file, and the length of the line that names its columns."""
        if self._is_table:
            return TableFile(path, self._options.compression, structure.arrow), 0
        file = ByteFile(path, self._compression)
        return file, file.put(self._line(structure.names))[1] if self.container == "csv" else 0

    def row(self, structure: _Structure, fields: Sequence[Any]) -> Any:
        """A row as files have it."""
        if self._is_table:
            return fields
        if self.container == "json":
            return msgspec.json.encode(dict(zip(structure.names, fields, strict=True))) + b"\n"
        return self._line([self._options.null_value if field is None else field for field in fields])

    def _line(self, fields: Sequence[str]) -> bytes:
        return (self._options.delimiter.join(fields) + "\n").encode()


def _arrow(column: Described) -> pa.DataType:
    kinds = {
        "INT2": pa.int16(), "INT4": pa.int32(), "INT8": pa.int64(), "REAL4": pa.float32(), "REAL8": pa.float64(),
        "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "DATETIME": pa.timestamp("us"), "BLOB": pa.binary(),
    }  # fmt: skip
    if column.type == "NUMERIC":
        return pa.decimal128(column.precision, column.scale)
    return kinds.get(column.type, pa.string())


_Sides = dict[Version, tuple[list[Any], str]]


class _Folder:
    """A folder with the files of one table and their ``.dfm`` (§1.2, §1.3). ``is_load``: a full load, whose files are
    counted; others are named by the time of their first row. ``sides`` gets the text of the first ``.dfm`` of each
    table version, and what orders it among the others."""

    def __init__(self, capture: EncoderContext, name: str, rows: _Rows, sides: _Sides, is_load: bool = False) -> None:
        self._truth, self._options, self._name = capture.truth, capture.options, name
        self._rows, self._sides, self._is_load = rows, sides, is_load
        self._path = capture.folder / "capture" / name
        self._path.mkdir(parents=True, exist_ok=True)
        self._count = self._size = self._number = 0
        self._last = EPOCH
        self._file: ByteFile | TableFile | None = None
        self._structure: _Structure | None = None
        self._times: list[datetime] = []

    def add(self, structure: _Structure, fields: Sequence[Any], at: datetime) -> Location:
        """Writes a row that is committed ``at`` some time; returns its location. A new file is begun where the columns
        are others than before, or the last one is full."""
        file = self._file
        if file is None or structure is not self._structure or self._size >= self._options.file_rows:
            file = self._begin(structure, at)
        self._times[1:] = [at]
        self._size += 1
        return Location(self._number, *file.put(self._rows.row(structure, fields)))

    def _begin(self, structure: _Structure, at: datetime) -> ByteFile | TableFile:
        self.close()
        self._count += 1
        self._stem = f"LOAD{self._count:08d}"
        if not self._is_load:
            at = max(at, self._last + timedelta(milliseconds=1))
            self._last = at.replace(microsecond=at.microsecond // 1000 * 1000)
            self._stem = f"{at:%Y%m%d-%H%M%S}{at.microsecond // 1000:03d}"
        self._structure, self._times, self._size = structure, [at], 0
        name = f"{self._stem}.{self._rows.ending}"
        self._number = self._truth.file(f"{self._name}/{name}")
        self._file, heading = self._rows.open(self._path / name, structure)
        if structure.version is not None and not self._options.dfm and heading:
            structure.version.seen(Location(self._number, 0, heading))
        return self._file

    def close(self) -> None:
        """Completes the file that is open, and writes its ``.dfm``, which describes its table version."""
        if self._file is None or self._structure is None:
            return
        self._file.close()
        self._file = None
        if self._options.dfm:
            text = json.dumps(self._described(self._structure), ensure_ascii=False, indent=4) + "\n"
            (self._path / f"{self._stem}.dfm").write_text(text, encoding="utf-8")
            version = self._structure.version
            if version is not None:
                side = natural_key(self._truth.files[self._number]), text
                self._sides[version] = min(self._sides.get(version, side), side)

    def _described(self, structure: _Structure) -> dict[str, Any]:
        base, _, packed = self._rows.ending.partition(".")
        first, last = (time.isoformat(timespec="milliseconds")[:23] for time in (self._times[0], self._times[-1]))
        of_text = {
            "fieldDelimiter": self._options.delimiter, "recordDelimiter": "\n", "nullValue": self._options.null_value,
            "quoteChar": '"', "escapeChar": self._options.escape,
        }  # fmt: skip
        style = {"format": "delimited", "options": of_text} if base == "csv" else {"format": base, "options": {}}
        return {
            "dfmVersion": "1.1",
            "taskInfo": {
                "name": qlik.TASK, "sourceEndpoint": "shop-db", "sourceEndpointType": "Informix",
                "sourceEndpointUser": "replicate", "replicationServer": qlik.SERVER,
                "operation": "fullLoad" if self._is_load else "storeChanges",
            },
            "fileInfo": {
                "name": f"{self._stem}.{base}", "extension": packed, "location": self._name,
                "startWriteTimestamp": first, "endWriteTimestamp": last,
                "firstTransactionTimestamp": None if self._is_load else first,
                "lastTransactionTimestamp": None if self._is_load else last, "content": "data",
                "recordCount": self._size, "errorCount": 0,
            },
            "formatInfo": style,
            "dataInfo": {
                "sourceSchema": structure.schema, "sourceTable": structure.table, "targetSchema": structure.schema,
                "targetTable": structure.target, "tableVersion": structure.number, "columns": structure.described,
            },
        }  # fmt: skip


class ChangeTableEncoder(Encoder[_Stored]):
    """Writes a workload's history. ``records``: rows that were written so far, before images and control rows among
    them."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        self.truth.unit = "row" if self.options.container == "parquet" else "byte"
        self._rows, self._ddl_rows = _Rows(self.options, self.options.container), _Rows(self.options, "csv")
        self._sequence = ChangeSequence(self.options, capture.changes)
        self._position = 0
        self._folders: dict[str, _Folder] = {}
        self._sides: _Sides = {}
        self._loaded: tuple[int, _Folder] | None = None  # the table that is being loaded
        columns = [Described(Column(name, Type.LVARCHAR), -1, False) for name, _, _ in _DDL_COLUMNS]
        for column, (_, kind, length) in zip(columns, _DDL_COLUMNS, strict=True):
            column.type, column.length = kind, length
        self._ddl = _Structure("", _DDL, _DDL, 1, False, columns)

    def finish(self) -> None:
        """Completes the files. A version without rows is that of the DDL history."""
        for folder in (*([self._loaded[1]] if self._loaded is not None else []), *self._folders.values()):
            folder.close()
        for version, (_, text) in self._sides.items():
            version.schema_text = text
        for table in self.tables.values():
            version = table.version
            if table.history and not version.rows:
                location, version.columns, version.schema_text = table.history
                version.origin, version.has_location, version.is_listed = "DDL", True, True
                version.first = {location.file_index: location}

    def _add(self, name: str, rows: _Rows, structure: _Structure, fields: Sequence[Any], at: datetime) -> Location:
        """Writes a row into the folder of this name."""
        self.records += 1
        if name not in self._folders:
            self._folders[name] = _Folder(self.capture, name, rows, self._sides)
        return self._folders[name].add(structure, fields, at)

    def table(self, item: Schema, done: int) -> _Stored:
        """A table version, and its row in the DDL history."""
        version, shown = item.version, self._sequence.clock(item.at, done)
        layout = Layout(version, self._rows.container, lobs=self.options.lobs, quote=self._rows.quoted)
        owner = layout.table
        names = (owner.schema, owner.name)
        if self.options.dfm:
            label, columns = f"{owner.full_name}@{version.number}", layout.rows(nullable=None)
            made = Version(label, *names, columns, "side file", has_location=False, is_listed=False)
            truth = self.truth.version(made)
        else:
            made = Version(None, *names, column_rows(layout.names), "inferred", is_listed=False)
            truth = self.truth.version(made, (owner.full_name, layout.names))
        changed = _Structure(*names, owner.name + self.options.suffix, version.number, True, layout.columns, truth)
        loaded = _Structure(*names, owner.name, version.number, False, layout.columns, truth)
        stored = _Stored(layout, truth, changed, loaded)
        old = self.tables.get(replace(version, number=version.number - 1))
        stored.history = self._describe(stored, old, "CREATE_TABLE" if old is None else "ALTER_TABLE", shown)
        return stored

    def load(self, item: Change) -> None:
        """A row of the full load: no header columns."""
        table, label = self.tables[item.version], item.version.table.label
        if self._loaded is None or self._loaded[0] != label:
            if self._loaded is not None:
                self._loaded[1].close()
            folder = _Folder(self.capture, table.layout.table.full_name, self._rows, self._sides, is_load=True)
            self._loaded = label, folder
        image = table.layout.image(item.after) or ((), {})
        location = self._loaded[1].add(table.loaded, image[0], item.at)
        self.records += 1
        key = self._key(table, image)
        row = {"record_type": "LOAD", "operation": Operation.REFRESH, "key": key, "after": image[1]}
        self.truth.change(row, [location], table.version)

    def _key(self, table: _Stored, image: Image | None) -> dict[str, str | None] | None:
        """The key, where a ``.dfm`` names it."""
        name = table.layout.key_name
        return {name: image[1][name]} if self.options.dfm and image else None

    def commit(self, item: Committed, done: int) -> None:
        """A transaction's changes, one after another, under the time of its commit; updates that change nothing are
        left out (§3.1)."""
        stamp, ready = self._sequence.stamp(self._sequence.clock(item.at, done)), []
        for change in item.changes:
            table = self.tables[change.version]
            before, after = table.layout.image(change.before), table.layout.image(change.after)
            if before is None or after is None or before[1] != after[1]:
                ready.append((change, table, before, after))
        if not ready:
            return
        committed = microseconds(stamp)
        made = Transaction(qlik.transaction_id(item.ordinal), ended_at=committed, committed_at=committed)
        transaction = self.truth.transaction(made)
        for change, table, before, after, sequence in delivered(self._numbered(ready)):
            self._change(change, table, before, after, transaction, sequence, stamp)
            if change.operation is Operation.TRUNCATE:
                self._describe(table, None, "TRUNCATE_TABLE", stamp)

    def _numbered(self, ready: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Changes of a transaction with the sequence of each, which may be that of the one before."""
        sequence = ""
        for one in ready:
            if not sequence or self.rng.random() >= self.options.repeat_sequences:
                sequence = self._sequence.take(2 if one[0].operation is Operation.UPDATE else 1)
            yield (*one, sequence)

    def _change(
        self, change: Change, table: _Stored, before: Image | None, after: Image | None, transaction: Transaction,
        sequence: str, stamp: datetime,
    ) -> None:  # fmt: skip
        """Writes a change as its rows."""
        layout, operation, options = table.layout, change.operation.value, self.options
        columns = None if after is None else layout.everything
        if before is not None:
            columns = layout.key if after is None else layout.differing(before[1].values(), after[1].values())
        is_known = not options.unknown_times or self.rng.random() >= options.unknown_times
        at = microseconds(change.at) if is_known else None
        heads = {
            "change_seq": sequence, "change_oper": _LETTERS[operation], "operation": operation,
            "stream_position": qlik.log_position(self._position), "transaction_id": transaction.transaction_id,
        }  # fmt: skip
        self._position += 1
        image, locations = after or before, []
        if before is not None and after is not None:
            first = heads | {"change_oper": "B", "operation": "BEFOREIMAGE"}
            locations.append(self._put(table, first, None, at or 0, before, stamp)[0])
        location, texts = self._put(table, heads, columns, at or 0, image, stamp)
        locations.append(location)
        transaction.covers(sequence, at)
        facts: dict[str, Any] = {
            "record_type": heads["change_oper"], "operation": change.operation, "position": sequence,
            "changed_at": at, "change_mask": texts[f"{_PREFIX}change_mask"],
            "change_source": None if columns is None else "mask",
            "changed_columns": None if columns is None else layout.marked(columns),
            "key": self._key(table, image), "before": before and before[1], "after": after and after[1],
            "headers": texts,
        }  # fmt: skip
        self.truth.change(facts, locations, table.version, transaction)

    def _put(
        self, table: _Stored, heads: dict[str, str], columns: int | None, time: int, image: Image | None,
        stamp: datetime,
    ) -> tuple[Location, dict[str, str | None]]:  # fmt: skip
        """Writes one row; returns its location and its headers as text."""
        fields: dict[str, tuple[Any, str | None]] = {n: (self._rows.head(text), text) for n, text in heads.items()}
        fields["change_mask"] = self._rows.mask(None if columns is None else columns << len(_HEADERS))
        fields["timestamp"] = self._rows.time(time)
        row = [fields[name][0] for name in _HEADERS]
        row += [None] * len(table.layout.columns) if image is None else image[0]
        name = table.layout.table.full_name + self.options.suffix
        location = self._add(name, self._rows, table.changed, row, stamp)
        return location, {_PREFIX + name: fields[name][1] for name in _HEADERS}

    # --- the DDL history (§6.1) ---------------------------------------------------------------------------------------

    def _describe(
        self, table: _Stored, old: _Stored | None, kind: str, at: datetime
    ) -> tuple[Location, list[dict[str, Any]], str] | None:
        """Writes a row about a table (``old``: with the columns that it had before) into the control table; returns its
        location, the columns and the details as text."""
        if not self.options.ddl_history:
            return None
        layout, stamp = table.layout, self._sequence.stamp(at)
        owner, number = layout.table, layout.version.number
        details = {
            "owner": owner.schema, "table": owner.name, "tableNewName": None, "version": number,
            "columns": {} if kind == "TRUNCATE_TABLE" else _altered(layout, None if old is None else old.layout),
        }  # fmt: skip
        text = json.dumps(details, ensure_ascii=False, separators=(",", ":"))
        fields = (
            qlik.SERVER, qlik.TASK, owner.schema, owner.name, self._sequence.take(),
            self._ddl_rows.time(microseconds(at))[1], str(number), kind, text,
        )  # fmt: skip
        location = self._add(_DDL, self._ddl_rows, self._ddl, [self._ddl_rows.head(field) for field in fields], stamp)
        return location, layout.rows(), text


def _altered(layout: Layout, old: Layout | None) -> dict[str, Any]:
    """The columns that changed, by their old names; in a new table all of them."""

    def column(one: Described, ordinal: int, action: str, new_name: str | None = None) -> dict[str, Any]:
        return {"columnNewName": new_name, "action": action, **one.properties, "ordinal": ordinal}

    altered: dict[str, Any] = {}
    left: dict[Any, Any] = {} if old is None else {was.index: (i, was) for i, was in enumerate(old.columns, 1)}
    for ordinal, one in enumerate(layout.columns, 1):
        ordinal_was, was = left.pop(layout.version.origin[one.index] if old else None, (0, None))
        if was is None:
            altered[one.name] = column(one, ordinal, "ADD")
        elif (ordinal_was, was.name, was.properties) != (ordinal, one.name, one.properties):
            altered[was.name] = column(one, ordinal, "ALTER", one.name if was.name != one.name else None)
    return altered | {was.name: column(was, ordinal, "DROP") for ordinal, was in left.values()}
