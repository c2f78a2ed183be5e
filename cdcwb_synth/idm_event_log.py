"""A workload as triggers log it for the Identity Manager driver: rows in the order of commits, damaged as logs are, in
the files of a capture (``docs/formats/idm-event-log.md``), and what the tables hold at the end."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from json.encoder import encode_basestring
from random import Random
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.encoder import Encoder, EncoderContext
from cdcwb_synth.files import ENDINGS, MOST_ROWS, ByteFile, Sheet, TableFile
from cdcwb_synth.model import Operation, SynthError
from cdcwb_synth.options import Options, Rules, option, same
from cdcwb_synth.truth import NOWHERE, Location, Version, column_rows
from cdcwb_synth.values import PHRASES, Column, Type, formatter, microseconds
from cdcwb_synth.workload import Change, Committed, Row, Schema

COLUMNS: Final = (
    "record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name", "column_name",
    "old_value", "new_value",
)  # fmt: skip
"""The columns in the order of versions 3.5 and later."""

_NAME: Final = "eventlog"
_DRIVER: Final = "IDM_DRIVER"
_USERS: Final = ("SHOP_APP", "WEB", "BATCH", "RUNA", "shop app")
_PROCESSED: Final = ("S", "S", "S", "S", "W", "E", "F")
_ODD: Final = ("X", "n", "P", "N ", "s", "")
_NO_USER: Final = 0.1  # share of the statements without a perpetrator
_GAPS: Final = 0.02  # share of the rows with a gap in record_id before them


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogOptions(Options):
    """What happens, what is logged of it, and what holds the rows."""

    all_types: bool = same("all_types", default=False)
    schema_changes: int = same("schema_changes", default=0)
    phantom: int = same("phantom", high=0)  # a DELETE logs the key alone: another one is a repeat
    rows_before: int = option(20, "rows that every table has before anything is logged", 0, 1_000_000)
    special_keys: float = option(0.05, "share of the keys with characters that need quotes", 0, 1)
    special_values: float = option(0.05, "share of the texts with characters that XML and CSV write in a way", 0, 1)
    spelling_share: float = option(0.01, "share of the statements that spell a key in another way", 0, 1)
    loopback_share: float = option(0.05, "share of the statements that the driver itself ran", 0, 1)
    processed_share: float = option(0.05, "share of the statements that were processed: status S, W, E or F", 0, 1)
    odd_status_share: float = option(0.01, "share of the rows with another status, such as X or n", 0, 1)
    future_share: float = option(0.02, "share of the statements whose event_time is in the future", 0, 1)
    damaged_share: float = option(0.01, "share of the rows that break a rule", 0, 1)
    interleaved_share: float = option(0.02, "share of the statements whose rows mix with those of the next", 0, 1)
    container: str = option("csv", "what holds the rows", of=("csv", "sql", "jsonl", "parquet", "xlsx"))
    header: bool = option(True, "csv, sql and xlsx: columns are named")
    null_text: str = option("", "csv: what stands for NULL, without quotes")
    shuffle: int = option(0, "rows are in no order within blocks of so many; 0: in that of record_id", 0, 10**9)
    files: int = option(1, "files that hold the rows", 1, 10_000)

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        container = self.container
        return [
            *Options.rules(self),
            (self.processed_share + self.future_share + self.loopback_share > 1,
             "processed_share, future_share and loopback_share add up to more than 1"),
            (not self.header and container in ("jsonl", "parquet"),
             f"container {container} always names its columns, so header is true"),
            (self.compression != "none" and container == "xlsx",
             "container xlsx is compressed already, so compression is none"),
            (self.null_text and container != "csv",
             f"container {container} has a NULL of its own, so null_text is empty"),
            (set(self.null_text) & set('",;\t\r\n'), "null_text holds no quote, delimiter or line end"),
        ]  # fmt: skip


class LogRow(dict[str, str | None]):
    """A row: its columns as text (None: NULL), and ``time``, what event_time says in microseconds since 1970 (None:
    nothing). ``is_late``: it is written after the next statement. ``location`` is known when it is written."""

    def __init__(
        self, event_type: int, table_name: str, table_key: str, column_name: str | None = None,
        old_value: str | None = None, new_value: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            record_id=None, table_key=table_key, status="N", event_type=str(event_type), event_time=None,
            perpetrator=None, table_name=table_name, column_name=column_name, old_value=old_value, new_value=new_value,
        )  # fmt: skip
        self.time: int | None = None
        self.is_late = False
        self.location = NOWHERE

    @property
    def number(self) -> int | None:
        """The number that record_id says: whole and above 0, else None."""
        text = self["record_id"] or ""
        return int(text) or None if _DIGITS.fullmatch(text) else None

    @property
    def kind(self) -> int | None:
        """The number that event_type says: 1 to 8, else None."""
        text = self["event_type"]
        return int(text) if text in tuple("12345678") else None


_DIGITS: Final = re.compile("[0-9]+")


# --- table_key (§2) ---------------------------------------------------------------------------------------------------

_SPECIAL: Final = frozenset(",;'+\"=\\<>")
_BARE: Final = r"""[^,;'+"=\\<>]+"""
_PAIR: Final = re.compile(rf"""({_BARE})=(?:"((?:[^"\\]|\\["\\])*)"|({_BARE}))(\+|\Z)""")


def _written(pairs: Sequence[tuple[str, str]]) -> str:
    """The text of a key, from its columns and their values; those with special characters are in quotes."""
    return "+".join(
        f"{name}={value}" if value and _SPECIAL.isdisjoint(value)
        else name + '="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for name, value in pairs
    )  # fmt: skip


@lru_cache(65_536)
def parsed(text: str) -> dict[str, str] | None:
    """The columns and values of a key; None if it is not one."""
    found: dict[str, str] = {}
    pair = _PAIR.match(text)
    while pair is not None and pair[1] not in found:
        found[pair[1]] = re.sub(r"\\(.)", r"\1", pair[2], flags=re.DOTALL) if pair[3] is None else pair[3]
        if not pair[4]:
            return found
        pair = _PAIR.match(text, pair.end())
    return None


# --- tables and triggers (§3) -----------------------------------------------------------------------------------------

_BRANCH: Final = "branch"  # the second column of a compound key, which the workload itself knows nothing of
_PHOTO: Final = "photo"  # a binary column that the first table has besides
_BRANCHES: Final = ("north", "south", "Brekum", "Überlach", "青石镇", "high street", "7")
_SPECIAL_BRANCHES: Final = (
    "east, 2nd floor", "O'Farrel & sons", 'the "old" mill', "C:\\shop", "a=b", "<new>", "1+1; 2", ', ; \' + " = \\ < >',
)  # fmt: skip
_SPECIAL_KEYS: Final = ("#, a", "a;#", "O'#", "#+1", '"#"', "x=#", "c:\\#\\", "<#>", ", ; ' + \" = \\ < > #", "é, #")
_ADDED: Final = (
    " <&>", " \"quoted\" and 'quoted'", "\r\nsecond line", "\ttabbed", "]]>", ", ; |", " back\\slash\\", "\n", "&amp;",
    "  ", "\u00a0\u2028\u0085", " 🙂 𝄞", "\r",
)  # fmt: skip
_STYLES: Final = {"field": 0.3, "field_query": 0.2, "row_query": 0.25, "mixed": 0.25}
_ALONE: Final = ("field", "field_query", "row_query")

Texts = tuple[str | None, ...]
Statement = list[LogRow]
"""The rows that triggers write for one changed row of a table: one time, one user."""


def _share(*parts: object) -> float:
    """A number from 0 to 1 that looks like chance and is always the same for the same parts."""
    return zlib.crc32("/".join(map(str, parts)).encode()) / 2**32


def _styles(count: int) -> list[str]:
    """The styles in which so many tables are logged, as near to their weights as can be."""
    made: list[str] = []
    for number in range(1, count + 1):
        total = sum(_STYLES.values())
        made.append(max(_STYLES, key=lambda one: _STYLES[one] / total * number - made.count(one)))
    return made


class _Watched:
    """A version of a table that has triggers: the table with this index in ``style``. ``name`` is what they log as
    table_name, ``key_names`` the columns of table_key and ``names`` the other columns. The last ordinary table is
    logged through a view, which names its key pk_…, and another has a key of two columns."""

    def __init__(self, version: TableVersion, index: int, style: str, options: EventLogOptions, seed: int) -> None:
        table, ordinary = version.table, options.tables
        is_view = index == ordinary - 1
        self.version, self.style = version, style
        self.name = f"view_{table.name}" if is_view else table.name
        self._is_compound = index < ordinary and (index - 2) % ordinary == 0
        prefix = "pk_" if is_view else ""
        self.key_names = tuple(prefix + name for name in ((table.key, _BRANCH) if self._is_compound else (table.key,)))
        self._key = next(i for i, c in enumerate(version.columns) if c.name == table.key)
        self._others = [i for i in range(len(version.columns)) if i != self._key]
        columns = [version.columns[i] for i in self._others]
        self._writers = [_writer(column, options) for column in columns]
        self._has_photo = index == 0 and bool(columns)
        self.names = (*(column.name for column in columns), *([_PHOTO] if self._has_photo else []))
        self._seed, self._special = seed, options.special_keys

    def key(self, row: Row) -> tuple[str, ...]:
        """The values of a row's key."""
        value, label, special = row[self._key], self.version.table.label, self._special
        number = first = str(value)
        if special and _share(self._seed, label, number) < special:
            first = _SPECIAL_KEYS[int(number) % len(_SPECIAL_KEYS)].replace("#", number)
        if not self._is_compound:
            return (first,)
        chance = _share(label, number, self._seed)
        some = _SPECIAL_BRANCHES if chance < special else _BRANCHES
        return (first, some[int(chance * 1_000_003) % len(some)])

    def key_text(self, row: Row) -> str:
        """The key of a row as triggers write it."""
        return _written([*zip(self.key_names, self.key(row), strict=True)])

    def texts(self, row: Row) -> Texts:
        """The values of ``names`` as text, None for NULL. The photo comes from the first column that is no key."""
        made = [write(row[i]) for write, i in zip(self._writers, self._others, strict=True)]
        if self._has_photo:
            digest = hashlib.sha256((made[0] or "").encode()).digest()
            made.append(None if digest[0] < 25 else base64.b64encode(digest[: 1 + digest[1] % 30]).decode())
        return tuple(made)


def _writer(column: Column, options: EventLogOptions) -> Callable[[Any], str | None]:
    plain = formatter(column)
    special, is_excel = options.special_values, options.container == "xlsx"

    def text(value: Any) -> str | None:
        made = plain(value)
        if made is None or (is_excel and not made):  # as on Oracle, an empty text is NULL
            return None
        chance = _share(made) if special else 1.0
        return made + _ADDED[int(chance * 1_000_003) % len(_ADDED)] if chance < special else made

    def large_object(value: bytes | None) -> str | None:
        if value is None or column.keyword != "clob":
            return None if value is None else base64.b64encode(value).decode()
        return " ".join(PHRASES[byte % len(PHRASES)] for byte in value[:: 1 + value[-1] % 9])

    if column.type is Type.LOB:
        return large_object
    return text if column.type in (Type.CHAR, Type.VARCHAR, Type.LVARCHAR) else plain


def _fire(watched: _Watched, before: Row | None, after: Row | None, rng: Random) -> Statement:
    """The rows that triggers write for a row that was there ``before`` and is there ``after`` (None: was or is not);
    none where nothing is logged. A row with another key than before is one that goes and one that comes."""
    if before is not None and (after is None or watched.key(before) != watched.key(after)):
        gone = LogRow(4, watched.name, watched.key_text(before))
        return [gone] if after is None else [gone, *_fire(watched, None, after, rng)]
    if after is None:
        return []
    if watched.style != "mixed":
        return _logged(watched.style, watched, before, after, watched.names, rng)
    rows: Statement = []
    for style in rng.sample(_ALONE, rng.choice((1, 2, 2, 3))):
        some = rng.sample(watched.names, rng.randint(1, len(watched.names)))
        rows += _logged(style, watched, before, after, some, rng)
    return rows


def _logged(
    style: str, watched: _Watched, before: Row | None, after: Row, names: Sequence[str], rng: Random
) -> Statement:
    """Rows of one style, for the columns that are in ``names``. Types 1 to 3 have values, 5 to 8 are query-back; half
    of the triggers that log values of inserts log NULL as well."""
    table, key, is_insert = watched.name, watched.key_text(after), before is None
    if style == "row_query":
        return [LogRow(5 if is_insert else 6, table, key)]
    new = watched.texts(after)
    old = (None,) * len(new) if before is None else watched.texts(before)
    cells = [cell for cell in zip(watched.names, old, new, strict=True) if cell[0] in names]
    changed = cells if is_insert else [cell for cell in cells if cell[1] != cell[2]]
    if style == "field_query":
        return [LogRow(7 if is_insert else 8, table, key, name) for name, _, _ in changed]
    kind = 1
    if not is_insert:
        kind = 3 if rng.random() < 0.25 else 2
    elif rng.random() >= 0.5:
        changed = [cell for cell in cells if cell[2] is not None]
    return [LogRow(kind, table, key, *cell) for cell in (changed or cells)]


# --- damage (§1.2) ----------------------------------------------------------------------------------------------------

_KINDS: Final = ("record_id", "repeated", "event_type", "table_name", "key", "column", "character", "time")
_BAD: Final[dict[str, tuple[str | None, ...]]] = {
    "record_id": ("0", "-17", "12a", "1.5", None),
    "event_type": ("0", "9", "12", "-1", "x", None),
    "table_name": (None, ""),
    "event_time": (None, "soon", "2026-02-30 08:00:00", ""),
    "table_key": (
        None, "", "42", "=42", "id=", "id=4,2", 'id="42', 'id="4"2', 'id="4\\2"', "id=42+", "+id=42", "id=a=b",
        "id=O'Farrel", "id=1+id=2",
    ),
}  # fmt: skip
_CHARACTERS: Final = ("\x01", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff")


def _damage(row: LogRow, kinds: Sequence[str], rng: Random, earlier: Sequence[str]) -> None:
    """Breaks a row in one of the ways of ``kinds``. ``earlier``: record ids of rows before it."""
    kind = rng.choice(kinds)
    if (kind == "repeated" and not earlier) or (kind == "column" and row["column_name"] is None):
        kind = "key"
    match kind:
        case "repeated":
            row["record_id"] = rng.choice(earlier)
        case "column":
            row["column_name"] = None
        case "character":  # that XML cannot hold
            name = rng.choice([one for one in ("table_key", "old_value", "new_value", "column_name") if row[one]])
            text = row[name] or ""
            at = rng.randint(text.find("=") + 1 if name == "table_key" else 0, len(text))
            row[name] = text[:at] + rng.choice(_CHARACTERS) + text[at:]
        case _:
            column = {"key": "table_key", "time": "event_time"}.get(kind, kind)
            row[column] = rng.choice(_BAD[column])
            row.time = None if kind == "time" else row.time


def _respell(rows: Statement, rng: Random) -> None:
    """Spells the keys of some rows in another way that the grammar allows."""
    is_queried = any(row.kind in (5, 6, 7, 8) for row in rows)
    kind = rng.choice(("capitals", "quotes") if is_queried else ("capitals", "quotes", "blanks"))
    for row in rows:
        name, _, value = (row["table_key"] or "").partition("=")
        if kind == "capitals" or '"' in value or "+" in value:
            row["table_key"] = f"{name.upper()}={value}"
        else:
            row["table_key"] = f'{name}="{value}"' if kind == "quotes" else f"{name}= {value}"


# --- containers (§1.5) ------------------------------------------------------------------------------------------------

_NUMBERS: Final = ("record_id", "event_type")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")


def _delimited(values: Iterable[str | None], null: str = "") -> bytes:
    """A record of delimited text by RFC 4180. What is empty or could be taken for NULL is in quotes."""

    def field(value: str) -> str:
        is_bare = value and value != null and {",", '"', "\n", "\r"}.isdisjoint(value)
        return value if is_bare else '"' + value.replace('"', '""') + '"'

    return (",".join([null if value is None else field(value) for value in values]) + "\n").encode()


def _is_number(name: str, value: str | None) -> bool:
    return name in _NUMBERS and value is not None and _WHOLE.fullmatch(value) is not None


def _member(name: str, value: str | None) -> str:
    shown = "null" if value is None else value if _is_number(name, value) else encode_basestring(value)
    return f'"{name}":{shown}'


def _literal(row: LogRow, name: str) -> str:
    value = row[name]
    if value is None or _is_number(name, value):
        return value or "NULL"
    quoted = "'" + value.replace("'", "''") + "'"
    return f"TIMESTAMP {quoted}" if name == "event_time" and row.time is not None else quoted


class EventLogEncoder(Encoder[_Watched]):
    """Writes a workload's history; everything at the end, since what becomes of a row depends on all others."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        options: EventLogOptions = self.options
        self.truth.unit = "row" if options.container in ("parquet", "xlsx") else "byte"
        self._styles = _styles(options.tables + options.all_types)
        self._contents: dict[int, dict[tuple[str, ...], tuple[int, Row]]] = {}  # version and row by key, by table
        self._held: Statement = []
        self._rows: list[LogRow] = []
        self._late: Statement = []
        self._ids: list[str] = []
        self._next = 1
        self._is_excel = options.container == "xlsx"  # has neither empty texts nor control characters
        self._kinds = [kind for kind in _KINDS if not (self._is_excel and kind == "character")]
        self._odd = [status for status in _ODD if status or not self._is_excel]

    def table(self, item: Schema, done: int) -> _Watched:
        """A table version with its triggers."""
        self._contents.setdefault(item.version.table.label, {})
        index = list(self._contents).index(item.version.table.label)
        return _Watched(item.version, index, self._styles[index], self.options, self.capture.seed)

    def commit(self, item: Committed, done: int) -> None:
        """Logs the changes of a transaction."""
        for change in item.changes:
            self.load(change)

    def load(self, change: Change) -> None:
        """Logs a change; that of a row that was there before is only remembered."""
        watched, contents = self.tables[change.version], self._contents[change.version.table.label]
        if change.operation is Operation.TRUNCATE:  # fires no trigger
            contents.clear()
            return
        if change.before is not None:
            contents.pop(watched.key(change.before), None)
        if change.after is not None:
            contents[watched.key(change.after)] = (change.version.number, change.after)
        if change.operation is Operation.REFRESH:
            return
        rows = _fire(watched, change.before, change.after, self.rng)
        if rows:
            self._dress(rows, change)
            self._queue(rows)

    def _dress(self, rows: Statement, change: Change) -> None:
        """Gives the rows of a statement time, user and status."""
        rng, options, at = self.rng, self.options, change.at
        user = None if rng.random() < _NO_USER else rng.choice(_USERS)
        status, chance = "N", rng.random()
        if chance < options.processed_share:
            status = rng.choice(_PROCESSED)
        elif chance < options.processed_share + options.future_share:
            at += timedelta(minutes=rng.choice((5, 90, 1440, 20_000, 500_000)), milliseconds=rng.randrange(1000))
        elif chance < options.processed_share + options.future_share + options.loopback_share:
            user = _DRIVER if rng.random() < 0.85 else _DRIVER.swapcase()
        time = at.replace(tzinfo=None).isoformat(" ", "milliseconds")
        for row in rows:
            row.time, row.is_late = microseconds(at) // 1000 * 1000, change.is_late
            row |= {"event_time": time, "perpetrator": user, "status": status}
            if rng.random() < options.odd_status_share:
                row["status"] = rng.choice(self._odd)
        if rng.random() < options.spelling_share:
            _respell(rows, rng)

    def _queue(self, rows: Statement) -> None:
        """Logs a statement, mixed with the one before it where they are of other objects."""
        held, self._held = self._held, rows
        apart = {row["table_key"] for row in held}.isdisjoint(row["table_key"] for row in rows)
        if held and apart and self.rng.random() < self.options.interleaved_share:
            indexes = sorted(self.rng.sample(range(len(held) + len(rows)), len(held)))
            for at, row in zip(indexes, held, strict=True):
                rows.insert(at, row)
            held, self._held = rows, []
        self._emit(held)

    def _emit(self, rows: Statement) -> None:
        """Gives rows their numbers, and breaks some."""
        rng = self.rng
        for row in rows:
            if rng.random() < _GAPS:
                self._next += rng.choice((1, 1, 2, 19))
            row["record_id"] = record = str(self._next)
            self._next += 1
            if rng.random() < self.options.damaged_share:
                _damage(row, self._kinds, rng, self._ids[-200:])
                if self._is_excel:
                    row |= {name: row[name] or None for name in COLUMNS}
            else:
                self._ids.append(record)
            (self._late if row.is_late else self._rows).append(row)
        if not any(row.is_late for row in rows):
            self._rows += self._late
            self._late = []

    def finish(self) -> None:
        """Writes everything."""
        self.records = len(self._rows) + len(self._held)
        self._emit(self._held)
        size = self.options.shuffle
        if size > 1:
            blocks = [self._rows[start : start + size] for start in range(0, len(self._rows), size)]
            for block in blocks:
                self.rng.shuffle(block)
            self._rows = [row for block in blocks for row in block]
        count = self.options.files
        for number in range(count):
            some = self._rows[len(self._rows) * number // count : len(self._rows) * (number + 1) // count]
            self._write_file(_NAME + (f"-{number + 1}" if count > 1 else ""), some)
        versions = self._versions()
        for group in sorted(_groups(self._rows), key=lambda group: group[-1].location):
            self._change(group, versions)
        self._write_snapshot()

    def _write_file(self, stem: str, rows: Statement) -> None:
        options, container = self.options, self.options.container
        name = f"{stem}.{container}" + ("" if container == "parquet" else ENDINGS[options.compression])
        path, number = self.folder / name, self.truth.file(name)
        is_typed, begin = not options.damaged_share, "INSERT INTO indirect_process"
        begin += (f" ({', '.join(COLUMNS)})" if options.header else "") + " VALUES "
        records: dict[str, Callable[[LogRow], Any]] = {
            "csv": lambda row: _delimited(row.values(), options.null_text),
            "jsonl": lambda row: ("{" + ",".join(_member(*item) for item in row.items()) + "}\n").encode(),
            "sql": lambda row: f"{begin}({', '.join(_literal(row, column) for column in COLUMNS)});\n".encode(),
            "xlsx": lambda row: [(value, _is_number(name, value)) for name, value in row.items()],
            "parquet": lambda row: [int(v or "") if is_typed and n in _NUMBERS else v for n, v in row.items()],
        }
        sink: ByteFile | TableFile | Sheet
        if container == "parquet":
            kinds = {"record_id": pa.int64(), "event_type": pa.int32()} if is_typed else {}
            schema = pa.schema([(column, kinds.get(column, pa.string())) for column in COLUMNS])
            sink = TableFile(path, options.compression, schema, block=65_536)
        elif container == "xlsx":
            if len(rows) >= MOST_ROWS:
                raise SynthError(f"a sheet holds {MOST_ROWS:,} rows, not {len(rows):,}; files is more")
            sink = Sheet(path, _NAME)
        else:
            sink = ByteFile(path, options.compression)
        heads: dict[str, Any] = {"csv": _delimited(COLUMNS), "xlsx": [(name, False) for name in COLUMNS]}
        if container == "sql" or (container in heads and options.header):
            sink.put(heads.get(container, b"-- rows of indirect_process\n"))
        for row in rows:
            row.location = Location(number, *sink.put(records[container](row)))
        sink.close()

    def _write_snapshot(self) -> None:
        """The contents of the tables at the end, in the columns that they have then; NULL is an empty field."""
        folder = self.truth.folder / "snapshot"
        folder.mkdir()
        for label, contents in self._contents.items():
            versions = [watched for version, watched in self.tables.items() if version.table.label == label]
            last = versions[-1]
            lines = [_delimited([*last.key_names, *last.names])]
            for key, (number, values) in contents.items():
                for watched in versions[number:]:
                    values = tuple(None if old is None else values[old] for old in watched.version.origin)
                lines.append(_delimited([*key, *last.texts(values)]))
            (folder / f"{last.name}.csv").write_bytes(b"".join(lines))

    def _versions(self) -> dict[str, Version]:
        """The tables as somebody finds out who knows nothing but the rows: the columns of the keys, then the others, as
        they come. Key columns that differ in case are one."""
        columns: dict[str, tuple[dict[str, str], dict[str, None]]] = {}  # keys by their small letters, others
        versions: dict[str, Version] = {}
        for row in self._rows:
            table, column = row["table_name"], row["column_name"]
            if row.kind is None or not table:
                continue
            schema, _, name = table.rpartition(".")
            made = Version(f"{table}@1", schema or None, name, [], "inferred", None, {}, has_location=False)
            versions[table] = self.truth.version(made, table)
            versions[table].begins(_position(row))
            keys, others = columns.setdefault(table, ({}, {}))
            for name in parsed(row["table_key"] or "") or ():
                keys.setdefault(name.lower(), name)
            if column is not None and row.kind not in _OF_ROWS:
                others[column] = None
        for table, (keys, others) in columns.items():
            names = dict.fromkeys([*keys.values(), *others])
            rows = ({"name": n, "key_position": i if i <= len(keys) else None} for i, n in enumerate(names, 1))
            versions[table].columns = column_rows(rows)
        return versions

    def _change(self, group: Statement, versions: dict[str, Version]) -> None:
        """Adds the change that is a group of rows to the truth."""
        last, kind = group[-1], group[-1].kind or 0
        table, pairs = last["table_name"], parsed(last["table_key"] or "")
        fields = {row["column_name"]: row for row in group if row["column_name"] is not None}
        after = {name: row["new_value"] for name, row in fields.items() if row.kind in (1, 2, 3)}
        known = [row for row in fields.values() if row.kind == 2 or (row.kind == 3 and row["old_value"] is not None)]
        before = pairs if kind == 4 else {row["column_name"]: row["old_value"] for row in known}
        is_per_field = group[0].kind not in _OF_ROWS and bool(fields)
        locations = sorted(row.location for row in group)
        facts: dict[str, Any] = {
            "record_type": last["event_type"], "operation": _OPERATIONS[kind], "position": _position(last),
            "changed_at": last.time, "changed_columns": list(fields) if is_per_field else None, "key": pairs,
            "before": before or None, "after": after or None, "headers": dict(last),
            "change_source": "log" if is_per_field else None,
        }  # fmt: skip
        self.truth.change(facts, locations, versions[table] if table else None, head=locations.index(last.location))


# --- rows as changes (§6.2) -------------------------------------------------------------------------------------------

_OPERATIONS: Final = {
    1: Operation.INSERT, 5: Operation.INSERT, 7: Operation.INSERT, 4: Operation.DELETE, 2: Operation.UPDATE,
    3: Operation.UPDATE, 6: Operation.UPDATE, 8: Operation.UPDATE,
}  # fmt: skip
_OF_ROWS: Final = (4, 5, 6)
_SAME: Final = ("table_name", "table_key", "perpetrator", "event_time")  # in all rows of a change


def _position(row: LogRow) -> str | None:
    return None if row.number is None else f"{row.number:019d}"


def _groups(rows: Sequence[LogRow]) -> Iterator[Statement]:
    """The rows of each change. Rows for one column that follow each other in the order of record_id, with no other row
    between, are one change where object, operation, perpetrator and event_time are the same and no column comes
    twice."""
    yield from ([row] for row in rows if row.number is None and row.kind is not None)
    group: Statement = []
    numbered = [row for row in rows if row.number is not None]
    for row in sorted(numbered, key=lambda row: (row.number, row.location)):
        if group and not _continues(group, row):
            yield group
            group = []
        if row.kind is not None:
            group.append(row)
    if group:
        yield group


def _continues(group: Statement, row: LogRow) -> bool:
    """Is a row of the same change as those before it?"""
    last = group[-1]
    kinds, names = {last.kind, row.kind}, [one["column_name"] for one in group]
    return (
        not kinds & {None, *_OF_ROWS}
        and None not in (row["column_name"], row["table_name"], row["table_key"], last["column_name"])
        and _OPERATIONS[last.kind or 0] == _OPERATIONS[row.kind or 0]
        and all(last[name] == row[name] for name in _SAME)
        and row["column_name"] not in names
    )
