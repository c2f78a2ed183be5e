"""Every documented option of a reader, once, on a small capture that is read in another way with it than without it."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from openpyxl import Workbook

import cdcwb_synth as synth
from tests.face.cases import DATA
from tests.face.face import OF_THE_PROGRAM, TABLES, Face, digest_of, saved_rows, summed, without
from tests.limits import run

__all__ = ["LEFT_OUT", "USES", "Use", "changes_nothing", "documented", "use_of", "uses_of"]

_DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "cli.md"

LEFT_OUT: Final = {
    ("gbase8s", "buffer_size"): "the design withdraws it: no size of read buffers will be needed",
    ("debezium", "avro_schema"): "values are read by the reader of the option of qlik-kafka, which has a use",
}
"""Documented options without a use."""


def documented() -> list[tuple[str, str]]:
    """The formats and options of the table "Reader options"; the format of those that all have is ``all``."""
    text = _DOCUMENT.read_text(encoding="utf-8").partition("### Reader options")[2]
    rows = re.findall(r"^\| (all|`[\w-]+`) \| (.*) \|$", text.partition("\n#")[0], re.MULTILINE)
    return [
        (format.strip("`"), option)
        for format, options in rows
        for option in re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", options))
    ]


@dataclass(frozen=True)
class Use:
    """An option. ``made``: properties of the generated capture, or None; ``files``: others, of the names below the
    folder that ``{folder}`` stands for in ``path``, ``value`` and the options of both readings. ``changed`` changes the
    text of each generated file. ``alike``: the option is about speed, and changes nothing. ``reader``: the generator,
    where its name is not that of the format."""

    format: str
    option: str
    value: str
    made: dict[str, Any] | None = None
    files: Mapping[str, bytes | Callable[[], bytes]] = field(default_factory=dict)
    path: str = "{folder}/made/capture"
    both: Mapping[str, str] = field(default_factory=dict)
    changed: Callable[[bytes], bytes] | None = None
    changes: int = 12
    alike: bool = False
    spark: bool = False
    reader: str = ""

    @property
    def name(self) -> str:
        return f"{self.format} {self.option}"


def use_of(use: Use, folder: Path) -> Face:
    """The tables without the option, and what is different with it: the columns, and the first of their values."""
    folder.mkdir(exist_ok=True)
    if use.made is not None:
        form = use.reader or use.format
        made = synth.generate(form, changes=use.changes, seed=19, to=folder / "made", **use.made)
        for file in sorted(path for path in (made / "capture").rglob("*") if path.is_file()):
            if use.changed is not None:
                file.write_bytes(use.changed(file.read_bytes()))
    for name, content in use.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content())
    both = [f"{name}={value.format(folder=folder)}" for name, value in use.both.items()]
    own = f"{use.option}={use.value.format(folder=folder)}"
    path = use.path.format(folder=folder, data=DATA)
    before = _read(path, both, folder, "without")
    after = _read(path, [*both, own], folder, "with")
    face: Face = {"option": without(folder, own), "without": _short(before)}
    return face | {"with": _short(after) if _is_refusal(before) or _is_refusal(after) else _different(before, after)}


def uses_of(uses: Sequence[Use], folder: Path) -> Face:
    """The face of each use."""
    return {use.name: use_of(use, folder / str(number)) for number, use in enumerate(uses)}


def _read(path: str, options: Sequence[str], folder: Path, name: str) -> Any:
    """The rows of the tables that ``save`` writes, or its refusal. Raises AssertionError for a program error."""
    given = [argument for option in options for argument in ("-o", option)]
    code, text = run(["save", path, "--to", str(folder / name), *given])
    assert code != OF_THE_PROGRAM, text
    if code:
        return summed(code, without(folder, text))
    tables = {table: saved_rows(folder / name / table, folder) for table in TABLES}
    return json.loads(json.dumps(tables).replace("+00:00", ""))  # Spark writes times without their zone


def changes_nothing(face: Face) -> bool:
    """Whether the tables are equal with and without the option, but for what is detected."""
    return face["with"].keys() <= {"detected", "problem codes"}


def _is_refusal(found: Any) -> bool:
    return "exit code" in found


def _short(found: Any) -> Any:
    """The number of rows and a digest of each table; the problems by their code."""
    if _is_refusal(found):
        return found
    tables = {name: f"{len(rows)} rows, {_digest(rows)}" for name, rows in found.items()}
    return tables | {"problem codes": _codes(found)}


def _codes(found: Any) -> dict[str, int]:
    codes = [row["code"] for row in found["problems"]]
    return {code: codes.count(code) for code in sorted(set(codes))}


def _digest(values: Any) -> str:
    return digest_of(json.dumps(values, sort_keys=True))


def _different(before: Any, after: Any) -> Face:
    """Of each table that differs: the number of its rows, and of each column that differs a digest and the first value
    that is another one."""
    tables: Face = {}
    for name in TABLES:
        old, new = before[name], after[name]
        if old == new:
            continue
        columns = {}
        if len(old) == len(new):
            for column in old[0]:
                pairs = [(a[column], b[column]) for a, b in zip(old, new, strict=True) if a[column] != b[column]]
                if pairs:
                    columns[column] = [f"{len(pairs)} values differ, {_digest(pairs)}", *map(_cut, _others(*pairs[0]))]
        tables[name] = {"rows": f"{len(new)}, {_digest(new)}", "columns": columns}
    return tables | {"problem codes": _codes(after)}


def _others(old: Any, new: Any) -> tuple[Any, Any]:
    """Two values; of two maps, the entries that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        return tuple({name: each[name] for name in sorted(names & each.keys())} for each in (old, new))
    return old, new


def _cut(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value if len(text) <= 160 else f"{text[:160]}…"


# --- uses -------------------------------------------------------------------------------------------------------------


def _definitions() -> bytes:
    """The definitions of tables that a trail of release 21c prints, as DEFGEN writes them."""
    text = (DATA / "goldengate" / "logdump-000000041.txt").read_text(encoding="utf-8")
    return "".join(
        re.findall(r"^Definition for table .*?^End of definition\n", text, re.MULTILINE | re.DOTALL)
    ).encode()


def _in_base64(data: bytes) -> bytes:
    return b"".join(base64.b64encode(line) + b"\n" for line in data.splitlines())


def _keyed(data: bytes) -> bytes:
    return b"".join(b"key%d\t%s" % (number, line) for number, line in enumerate(data.splitlines(keepends=True)))


def _without_trail(data: bytes) -> bytes:
    return re.sub(rb"Current LogTrail is .*\n", b"", data)


def _workbook(columns: str, row: str, other: str) -> Callable[[], bytes]:
    """A workbook with two sheets, whose rows have commas between their values here."""

    def made() -> bytes:
        book = Workbook()
        for title, values in (("One", row), ("Two", other)):
            sheet = book.create_sheet(title)
            sheet.append(columns.split(","))
            sheet.append(values.split(","))
        del book["Sheet"]
        data = io.BytesIO()
        book.save(data)
        return data.getvalue()

    return made


_QLIK: Final = "header__change_seq,header__change_oper,header__change_mask,id,note"
_LSNS: Final = "__$start_lsn,__$operation,__$update_mask,id,note"
_QLIK_ROW: Final = "20260203080000000000000000000000001,I,18,{},a"
_LSNS_ROW: Final = "0000002D000000A80003,2,03,{},a"


def _dump(columns: str, row: str) -> bytes:
    """A dump of two tables with these columns, whose texts have a backslash."""
    names = ", ".join(f'"{name}"' for name in columns.split(","))
    rows = (f"'{value}\\n'" if value == "a" else f"'{value}'" for value in row.split(","))
    values = ", ".join(rows)
    tables = ((f'"{table}" ({names})', number) for table, number in (("one__ct", "1"), ("two__ct", "2")))
    return "".join(f"INSERT INTO {table} VALUES ({values.format(number)});\n" for table, number in tables).encode()


_ROWS: Final = {"tables": 2, "all_types": False}
_CSV: Final = {"dfm": False, "ddl_history": False, "refresh_rows": 0}

_JSON: Final = {"form": "json"}

USES: Final = (
    # all formats
    Use("all", "images", "false", {}, reader="debezium", spark=True),
    Use("all", "mode", "DROPMALFORMED", path="{data}/idm-event-log", spark=True),
    Use("all", "split_size", "2000", {"container": "lines"}, reader="debezium", alike=True),
    Use("all", "inflate_limit", "1KB", {"compression": "gzip"}, reader="gbase8s"),
    # gbase8s
    Use("gbase8s", "keys", "shop.orders:order_id", {"table_names": True}, spark=True),
    Use("gbase8s", "charset", "gb18030", {"charset": "gb18030"}),
    Use("gbase8s", "byte_order", "big", {}),
    Use("gbase8s", "prefix_width", "1", {}),
    Use("gbase8s", "shape", "binary", {"shape": "xxd"}),
    Use("gbase8s", "reads", "none", {"shape": "reads"}),
    Use("gbase8s", "labels", "{folder}/made/labels.json", {}),
    Use(
        "gbase8s",
        "schemas",
        "{folder}/schemas.txt",
        files={
            "schemas.txt": b"102: order_id bigint, customer_id int\n",
            "capture/stream-2.bin": (DATA / "gbase8s" / "stream-2.bin").read_bytes(),
        },
        path="{folder}/capture/stream-2.bin",
    ),
    # qlik-kafka
    Use("qlik-kafka", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("qlik-kafka", "metadata", "{folder}/made/metadata", {"metadata": "separate"}),
    Use("qlik-kafka", "registry", "{folder}/made/registry", {"form": "confluent", "container": "parquet"}),
    Use("qlik-kafka", "avro_schema", "{folder}/made/registry/41.avsc", {"form": "confluent", "container": "parquet"}),
    Use("qlik-kafka", "mask_order", "little", {"form": "avro-envelope", "container": "parquet"}),
    Use("qlik-kafka", "table", "shop.given", {"metadata": "none", "naming": "message"}),
    Use("qlik-kafka", "container", "lines", {"container": "documents"}),
    Use("qlik-kafka", "separator", ",", {"container": "console"}),
    Use("qlik-kafka", "encoding", "text", {"encoding": "base64"}),
    # qlik-change-table
    Use("qlik-change-table", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("qlik-change-table", "prefix", "hd__", _CSV),
    Use("qlik-change-table", "suffix", "_changed", _CSV | {"suffix": "_changed"}),
    Use("qlik-change-table", "table", "crm.person", _CSV),
    Use("qlik-change-table", "mask_order", "little", {}),
    Use("qlik-change-table", "mask_offset", "3", {}),
    Use("qlik-change-table", "mask_text", "base64", {}),
    Use(
        "qlik-change-table",
        "charset",
        "iso-8859-1",
        _CSV,
        changed=lambda data: data.decode().encode("latin-1", "replace"),
    ),
    Use("qlik-change-table", "header", "false", _CSV),
    Use("qlik-change-table", "delimiter", ",", {"delimiter": ";"}),
    Use("qlik-change-table", "record_delimiter", "0x02", _CSV, changed=lambda data: data.replace(b"\n", b"\2")),
    Use("qlik-change-table", "quote", "none", _CSV),
    Use("qlik-change-table", "escape", "none", {"escape": "\\"}),
    Use("qlik-change-table", "null", "empty", {"null_value": "NULL"}),
    Use(
        *("qlik-change-table", "sheet", "Two"),
        files={"it.xlsx": _workbook(_QLIK, _QLIK_ROW.format(1), _QLIK_ROW.format(2))},
        path="{folder}/it.xlsx",
    ),
    Use("qlik-change-table", "sql_table", "two__ct", files={"it.sql": _dump(_QLIK, _QLIK_ROW)}, path="{folder}/it.sql"),
    Use("qlik-change-table", "backslash", "true", files={"it.sql": _dump(_QLIK, _QLIK_ROW)}, path="{folder}/it.sql"),
    # goldengate
    Use("goldengate", "keys", "shop.customer:full_name", {}, spark=True),
    Use("goldengate", "time_zone", "Asia/Tokyo", {"switches": "ghdr,detail,data"}),
    Use("goldengate", "definitions", "{folder}/tables.def", {"style": "11g"}, {"tables.def": _definitions}),
    Use("goldengate", "byte_order", "big", {}),
    Use("goldengate", "unified_prefix", "2", {"updates": "unified"}, changes=40),
    Use("goldengate", "charset", "gb18030", {}),
    Use("goldengate", "trail_sequence", "7", {"switches": "ghdr,detail,data"}, changed=_without_trail),
    # goldengate-export
    Use("goldengate-export", "keys", "shop.customer:full_name", _JSON, spark=True, reader="goldengate"),
    Use("goldengate-export", "time_zone", "Asia/Tokyo", _JSON, reader="goldengate"),
    Use("goldengate-export", "container", "lines", _JSON | {"container": "documents"}, reader="goldengate"),
    Use("goldengate-export", "separator", ",", _JSON, changed=_keyed, reader="goldengate"),
    Use("goldengate-export", "encoding", "text", _JSON, changed=_in_base64, reader="goldengate"),
    # debezium
    Use("debezium", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("debezium", "registry", "{folder}/made/registry", {"form": "avro", "container": "parquet"}),
    Use("debezium", "unavailable", "none", {}, changes=80),
    Use("debezium", "container", "documents", {}),
    Use("debezium", "separator", ",", {}),
    Use("debezium", "encoding", "text", {"container": "lines"}, changed=_in_base64),
    # maxwell and canal
    Use("maxwell", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("maxwell", "container", "documents", {}),
    Use("maxwell", "separator", ",", {}),
    Use("maxwell", "encoding", "text", {}, alike=True),
    Use("canal", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("canal", "container", "documents", {}, alike=True),
    Use("canal", "separator", ",", {}, alike=True),
    Use("canal", "encoding", "text", {}, changed=_in_base64),
    # sqlserver-ct
    Use("sqlserver-ct", "keys", "shop.orders:customer_id", {}, spark=True),
    Use("sqlserver-ct", "table", "crm.person", _ROWS),
    Use("sqlserver-ct", "time_column", "at", _ROWS, changed=lambda data: data.replace(b"tran_end_time", b"at")),
    Use("sqlserver-ct", "time_zone", "Asia/Tokyo", _ROWS),
    Use(
        "sqlserver-ct",
        "charset",
        "iso-8859-1",
        _ROWS,
        changed=lambda data: data.decode().encode("latin-1", "replace"),
    ),
    Use("sqlserver-ct", "delimiter", ",", _ROWS, changed=lambda data: data.replace(b",", b";")),
    Use("sqlserver-ct", "record_delimiter", "0x02", _ROWS, changed=lambda data: data.replace(b"\n", b"\2")),
    Use("sqlserver-ct", "quote", "none", _ROWS),
    Use("sqlserver-ct", "escape", "\\", _ROWS, changed=lambda data: data.replace(b'""', b'\\"')),
    Use("sqlserver-ct", "null", "NULL", _ROWS, changed=lambda data: data.replace(b",,", b",NULL,")),
    Use(
        *("sqlserver-ct", "sheet", "Two"),
        files={"it.xlsx": _workbook(_LSNS, _LSNS_ROW.format(1), _LSNS_ROW.format(2))},
        path="{folder}/it.xlsx",
    ),
    Use("sqlserver-ct", "sql_table", "two__ct", files={"it.sql": _dump(_LSNS, _LSNS_ROW)}, path="{folder}/it.sql"),
    Use("sqlserver-ct", "backslash", "true", files={"it.sql": _dump(_LSNS, _LSNS_ROW)}, path="{folder}/it.sql"),
    # idm-event-log
    Use("idm-event-log", "columns", "table_key=perpetrator,perpetrator=table_key", {}),
    Use("idm-event-log", "sort_column_names_by", "byte", {"header": False}),
    Use("idm-event-log", "schema", "shop", {}),
    Use("idm-event-log", "time_zone", "Europe/Berlin", {}),
    Use("idm-event-log", "charset", "iso-8859-1", {}),
    Use("idm-event-log", "null_text", "none", {"null_text": "NULL"}),
    Use("idm-event-log", "header", "false", {}),
    Use("idm-event-log", "delimiter", ",", {}, changed=lambda data: data.replace(b",", b";")),
    Use("idm-event-log", "record_delimiter", "0x02", {}, changed=lambda data: data.replace(b"\n", b"\2")),
    Use("idm-event-log", "escape", "\\", {}, changed=lambda data: data.replace(b'""', b'\\"')),
    Use("idm-event-log", "quote", "'", {}, changed=lambda data: data.replace(b'"', b"'")),
    Use("idm-event-log", "sheet", "Log", {"container": "xlsx"}),
    Use("idm-event-log", "sql_table", "old_process", {"container": "sql"}),
    Use("idm-event-log", "backslash", "true", {"container": "sql"}),
)
