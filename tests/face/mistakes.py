"""Mistakes that users make, and the parts that the sentence about each must have: the names of file, option and offset,
what was expected, what was found, and the cure. The wording may improve.

What the design withdraws is in none of them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import zstandard

import cdcwb
from tests.face.cases import DATA

__all__ = ["MISTAKES", "ON_A_CAPTURE", "Mistake"]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a folder where ``data`` is that of the project. ``command``: a command line, or a call that raises
    CaptureError. ``says``: parts of its first line on standard error; ``then``: of the lines that follow, such as
    commands to copy. ``files`` are there before; ``first``: commands that are run before; ``spoiled``: files that are
    replaced, or deleted (None), after these."""

    name: str
    command: str | Callable[[], object]
    says: tuple[str, ...]
    then: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    spoiled: Mapping[str, bytes | None] = field(default_factory=dict)
    code: int = 2
    spark: bool = False


def _zip(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "a,b\n")
    return packed.getvalue()


_STREAM: Final = (DATA / "gbase8s" / "stream-1.bin").read_bytes()[:6000]
_LOG: Final = (DATA / "idm-event-log" / "eventlog.csv").read_bytes()
_LOGDUMP: Final = (DATA / "goldengate" / "logdump-000000041.txt").read_bytes()
_EXPORT: Final = b'{"table":"SHOP.ORDERS","op_type":"I","op_ts":"2026-07-14 08:30:01.000000","after":{"ID":1}}\n'
_PEOPLE: Final = b"id,name,city\n1,Ann,Ulm\n"

_SAVE: Final = ("save data/debezium --to saved",)
_CONFLUENT: Final = ("synth qlik-kafka --changes 8 --seed 19 --to made -o form=confluent -o container=parquet",)
_AVRO: Final = ("synth debezium --changes 8 --seed 19 --to made -o form=avro -o container=parquet",)
_EXCEL: Final = ("synth idm-event-log --changes 8 --seed 19 --to made -o container=xlsx",)
_SQL: Final = ("synth idm-event-log --changes 8 --seed 19 --to made -o container=sql",)


def _wrong_value(format: str, option: str, *says: str, first: tuple[str, ...] = (), path: str = "") -> Mistake:
    """A reader option with a value that it cannot have."""
    name, _, value = option.partition("=")
    path = path or f"data/{format}"
    return Mistake(
        f"option {option}", f"summary {path} --format {format} -o '{option}'", (name, value, *says), first=first
    )


def _unknown_option(format: str, option: str, meant: str) -> Mistake:
    """A reader option with a wrong name."""
    says = ("unknown option", f"'{option}'", format, f"Did you mean '{meant}'?", "There are: ")
    return Mistake(f"unknown option {option}", f"summary data/{format} -o {option}=x", says)


def _of_another(format: str, option: str) -> Mistake:
    """A reader option of another format."""
    return Mistake(
        f"option {option} of another format",
        f"summary data/{format} -o {option}=1",
        ("unknown option", f"'{option}'", format, "There are: "),
    )


def _foreign(name: str, content: bytes, *says: str) -> Mistake:
    """A file of another system."""
    return Mistake(f"the file {name}", f"summary {name}", (name, *says), files={name: content})


def _unrecognised(name: str, content: bytes, *says: str) -> Mistake:
    """A file that may be a capture: every format says what it looked for."""
    formats = (
        "gbase8s: ",
        "goldengate: ",
        "goldengate-export: ",
        "qlik-kafka: ",
        "qlik-change-table: ",
        "idm-event-log: ",
        "debezium: ",
        "sqlserver-ct: ",
        "maxwell: ",
        "canal: ",
    )
    return Mistake(f"the file {name}", f"summary {name}", (name, *says), formats, files={name: content})


_ANY: Final = (
    # names of commands, options and formats
    Mistake("command", "sumary data/gbase8s", ("'sumary'", "Did you mean 'summary'?", "There are: identify")),
    Mistake("long option", "summary data/gbase8s --tabel x", ("'--tabel'", "'--table'")),
    Mistake("format", "summary data/gbase8s --format gbase", ("'gbase'", "Did you mean 'gbase8s'?", "debezium")),
    Mistake("another format", "identify data/gbase8s --format debezium", ("stream-1.bin", "not look like debezium")),
    Mistake("no path", "summary", ("Missing", "PATH")),
    Mistake("no offset", "inspect data/gbase8s/stream-1.bin", ("Missing", "--offset")),
    Mistake("the root as a page", "report transactions data/gbase8s --to /", ("'/' is a folder", "HTML file")),
    Mistake("broken Kafka URL", "capture kafka://[::1/orders --to topics", ("kafka://[::1/orders", "HOST:PORT")),
    Mistake(
        "broken registry URL",
        "summary data/qlik-kafka -o registry=http://[::1/",
        ("option registry", "Invalid IPv6 URL"),
    ),
    Mistake("two files", "inspect a.bin b.bin --offset 0", ("b.bin",)),
    Mistake("option without value", "summary data/gbase8s -o charset", ("KEY=VALUE", "'charset'")),
    Mistake(
        "unknown option of a file that is no capture",
        "summary x.txt -o charst=gbk",
        ("'charst'", "any format", "Did you mean 'charset'?"),
        files={"x.txt": b"Once upon a time\n"},
    ),
    # files
    Mistake("missing file", "summary nowhere.bin", ("nowhere.bin", "no such file")),
    Mistake("missing file, nearly right", "summary data/gbase8", ("gbase8", "no such file", "did you mean")),
    Mistake("missing file, as JSON", "summary nowhere.bin --json", ("nowhere.bin", "no such file")),
    Mistake("one of two is missing", "summary data/gbase8s nowhere", ("nowhere", "no such file")),
    Mistake("a folder without files", "summary empty", ("empty", "no files"), first=(), files={"empty/": b""}),
    Mistake("a folder instead of a file", "inspect data/gbase8s --offset 0", ("gbase8s", "expected one file", "3")),
    Mistake("a device", "summary /dev/zero", ("/dev/zero", "neither a file nor a folder")),
    _foreign("empty.bin", b"", "empty", "0 bytes"),
    _foreign("blank.txt", b" \n\n", "only white space"),
    _foreign("zeros.bin", bytes(500), "only zero bytes"),
    _foreign("manual.pdf", b"%PDF-1.7\n1 0 obj\n", "PDF", "not a capture"),
    _foreign("screen.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(99), "PNG", "not a capture"),
    _foreign("both.zip", _zip("a.csv", "b.csv"), "ZIP", "2 files", "unpack it"),
    _foreign("letter.docx", _zip("word/document.xml"), "Word", "not a capture"),
    _foreign("net.pcap", b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(99), "network packets", "not a capture"),
    _foreign("log.csv.bz2", bz2.compress(_LOG[:500]), "bzip2", "decompress it", "gzip and zstd"),
    _foreign("log.csv.xz", lzma.compress(_LOG[:500]), "xz", "decompress it", "gzip and zstd"),
    _foreign("shop.sqlite", b"SQLite format 3\0" + bytes(99), "SQLite", "export", "CSV or Parquet"),
    _foreign("dump.pgdump", b"PGDMP" + bytes(99), "PostgreSQL dump", "pg_restore --inserts"),
    _foreign("binlog.000001", b"\xfebin" + bytes(99), "MySQL binary log", "not supported"),
    _foreign("table.orc", b"ORC" + bytes(50), "ORC", "Parquet"),
    _foreign("page.html", b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n", "HTML", "not a capture"),
    _unrecognised("people.csv", _PEOPLE, "no format recognises", "id, name and city"),
    _unrecognised("story.txt", b"Once upon a time there was\na short text.\n", "no format recognises", "text file"),
    _unrecognised("noise.bin", bytes(range(256)) * 8, "no format recognises", "binary file"),
    Mistake(
        "files of two formats",
        "save mix --to out",
        ("mix", "different formats", "gbase8s (1 file)", "idm-event-log (1 file)", "--format"),
        ("cdcwb summary ", "mix/a.bin", "mix/b.csv"),
        files={"mix/a.bin": _STREAM, "mix/b.csv": _LOG},
    ),
    Mistake(
        "files of all formats",
        "summary data",
        ("different formats", "debezium", "goldengate", "expected.json"),
        ("data/debezium", "data/qlik-kafka"),
    ),
    # compressed files
    _foreign("bad.csv.gz", b"\x1f\x8b\x08\0" + bytes(20), "gzip", "damaged", "offset 0"),
    _foreign("cut.csv.gz", gzip.compress(_LOG, mtime=0)[:12], "gzip", "cut off", "offset 12"),
    _foreign("cut.csv.zst", zstandard.compress(_LOG)[:3000], "zstd", "cut off", "offset 3,000"),
    _foreign("none.gz", gzip.compress(b"", mtime=0), "gzip", "empty"),
    Mistake(
        "more than the limit",
        "summary log.csv.gz -o inflate_limit=1KB",
        ("log.csv.gz", "1,000 bytes", "inflate_limit"),
        files={"log.csv.gz": gzip.compress(_LOG, mtime=0)},
    ),
    # outputs
    Mistake("kind of file", "export data/debezium --view events --to x.xlsx", (".jsonl", ".csv", "'x.xlsx'")),
    Mistake("kind misspelt", "export data/debezium --view events --to x.parqet", ("'x.parqet'", "'parquet'")),
    Mistake("table", "export data/debezium --view change --to x.csv", ("'change'", "Did you mean 'changes'?")),
    Mistake("no folder", "export data/debezium --view events --to nowhere/x.csv", ("no folder", "nowhere")),
    Mistake("Parquet to a pipe", "export data/debezium --view events --to - --as parquet", ("'parquet'", "jsonl")),
    Mistake("form of a file", "export data/debezium --view events --to x.csv --as csv", ("--as", "--to -")),
    Mistake("upload over HTTP", "export data/debezium --view events --to http://host/x.csv", ("http://host/x.csv",)),
    Mistake("save to a file", "save data/debezium --to x.parquet", ("a folder", "'x.parquet'", "export")),
    Mistake("save to a pipe", "save data/debezium --to -", ("standard output", "a new folder")),
    Mistake("save over a folder", "save data/debezium --to data", ("data", "already exists", "another folder")),
    Mistake(
        "overwrite what another program wrote",
        "save data/debezium --to notes --overwrite",
        ("notes", "already exists", "not a saved capture"),
        files={"notes/note.txt": b"mine\n"},
    ),
    Mistake(
        "save over a saved capture",
        "save data/debezium --to saved",
        ("saved", "already exists", "--overwrite"),
        first=_SAVE,
    ),
    Mistake("history as CSV", "history data/debezium --table t --key a=1 --to x.csv", (".jsonl", "'x.csv'")),
    # narrowing, histories and documents
    Mistake("time", "summary data/gbase8s --from yesterday", ("--from", "2025-03-23", "'yesterday'")),
    Mistake(
        "value in a condition",
        "summary data/gbase8s --where \"outcome == 'opn'\"",
        ("where", "outcome", "'opn'", "Did you mean 'open'?", "committed"),
    ),
    Mistake(
        "condition as SQL",
        "summary data/gbase8s --where \"table = 'shop.orders' AND position IS NULL\"",
        ("where", "character 7", "write == to compare"),
    ),
    Mistake("key", "history data/debezium --table t --key a", ("--key", "COLUMN=VALUE", "'a'")),
    Mistake("no key", "history data/debezium --table t", ("Missing", "--key")),
    Mistake("documents as PDF", "xds data/debezium --to x.pdf", ("'x.pdf'", ".xml")),
    Mistake("user of a driver", "xds data/debezium --to x.xml --driver-user A", ("driver_user", "event logs")),
    Mistake("snapshot", "xds data/debezium --to x.xml --snapshot t=x.csv", ("--snapshot", "event logs", "debezium")),
    # saved captures
    Mistake("option", "summary saved -o charset=gbk", ("saved", "no reader options", "charset"), first=_SAVE),
    Mistake(
        "another version",
        "summary saved",
        ("saved", "version 99", "3"),
        first=_SAVE,
        spoiled={"saved/cdcwb.json": b'{"version": 99}'},
    ),
    Mistake(
        "damaged description",
        "summary saved",
        ("saved/cdcwb.json", "not the description of a saved capture"),
        first=_SAVE,
        spoiled={"saved/cdcwb.json": b"{"},
    ),
    Mistake(
        "damaged table",
        "summary saved",
        ("saved/changes", "damaged"),
        first=_SAVE,
        spoiled={"saved/changes/part-0.parquet": b"PAR1"},
    ),
    Mistake(
        "missing table",
        "summary saved",
        ("saved", "incomplete", "changes"),
        first=_SAVE,
        spoiled={"saved/changes/part-0.parquet": None},
    ),
    Mistake(
        "append another format",
        "save saved data/debezium --to x --format gbase8s",
        ("debezium", "gbase8s"),
        first=_SAVE,
    ),
    Mistake(
        "append with another option",
        "save saved data/debezium --to x -o unavailable=none",
        ("unavailable", "'none'", "leave it out"),
        first=_SAVE,
    ),
    # addresses
    Mistake("no topic", "capture kafka://broker:9092/ --to x", ("kafka://HOST:PORT/TOPIC", "kafka://broker:9092/")),
    Mistake("port", "capture kafka://broker:x/orders --to x", ("kafka://HOST:PORT/TOPIC", "'broker:x'")),
    Mistake("topic", "capture kafka://broker:9092/a+b --to x", ("kafka://HOST:PORT/TOPIC", "a+b")),
    Mistake("login in a URL", "capture kafka://ann:secret@broker:9092/a --to x", ("password", "sasl.username")),
    Mistake("web page", "capture http://host/a --to x", ("kafka://HOST:PORT/TOPIC", "http://host/a")),
    Mistake("point", "capture kafka://broker:9092/a --to x --from yesterday", ("--from", "earliest", "'yesterday'")),
    Mistake(
        "client configuration",
        "capture kafka://broker:9092/a --to x --client-config nowhere.properties",
        ("nowhere.properties", "No such file"),
    ),
    Mistake(
        "a cluster that does not answer",
        "capture kafka://127.0.0.1:9/a --to x --wait 0.5",
        ("kafka://127.0.0.1:9/a", "does not answer"),
        code=5,
    ),
    Mistake("scheme", "summary ftp://host/x.csv", ("ftp://host/x.csv", "not supported", "s3", "copy")),
    Mistake("database without table", "summary jdbc:postgresql://host/db", ("jdbc:postgresql://host/db", "dbtable")),
    # reports
    Mistake("report", "report transaction data/gbase8s --to x.html", ("'transaction'", "'transactions'", "explore")),
    Mistake("report as PDF", "report capture data/gbase8s --to x.pdf", (".html", "'x.pdf'")),
    Mistake("reports to a file", "report all data/gbase8s --to x.html", ("a folder", "'x.html'")),
    Mistake("capture of a report", "report capture nowhere.bin --to x.html", ("nowhere.bin", "no file or folder")),
    Mistake("parameter", "report capture data/gbase8s --to x.html -p user ann", ("'user'", "capture", "tables")),
    Mistake("own option", "report capture data/gbase8s --to x.html -p path x", ("path", "PATH")),
    Mistake("zone", "report capture data/gbase8s --to x.html --time-zone Mars/Base", ("time_zone", "'Mars/Base'")),
    Mistake("redact", "report capture data/gbase8s --to x.html --redact name", ("redact", "'name'", "column")),
    Mistake(
        "fact",
        "report capture data/gbase8s --to x.html --fail-if 'open_transaction > 0'",
        ("'open_transaction'", "Did you mean 'open_transactions'?", "There are: "),
    ),
    Mistake(
        "threshold without a number",
        "report capture data/gbase8s --to x.html --fail-if 'problems >'",
        ("'problems >'", "open_transactions > 0"),
    ),
    Mistake(
        "threshold of another kind",
        "report capture data/gbase8s --to x.html --fail-if 'problems > many'",
        ("problems > many", "a number", "'many'"),
    ),
    # generated captures
    Mistake("generator", "synth gbase8 --changes 1 --seed 1 --to x", ("'gbase8'", "'gbase8s'")),
    Mistake("property", "synth gbase8s --changes 1 --seed 1 --to x -o fils=2", ("'fils'", "'files'")),
    Mistake("number", "synth gbase8s --changes 1 --seed 1 --to x -o files=0", ("'files'", "1", "0")),
    Mistake("share", "synth debezium --changes 1 --seed 1 --to x -o update_share=2", ("'update_share'", "0 and 1")),
    Mistake("choice", "synth gbase8s --changes 1 --seed 1 --to x -o shape=octal", ("'shape'", "'octal'", "hexdump")),
    Mistake(
        "truth", "synth gbase8s --changes 1 --seed 1 --to x -o table_names=perhaps", ("true or false", "'perhaps'")
    ),
    Mistake("changes", "synth gbase8s --changes -1 --seed 1 --to x", ("--changes", "-1")),
    Mistake("seed", "synth gbase8s --changes 1 --to x", ("Missing", "--seed")),
    Mistake(
        "generate over a capture",
        "synth idm-event-log --changes 8 --seed 19 --to made",
        ("made", "not overwritten", "overwrite=true"),
        first=_EXCEL,
    ),
    Mistake("other commands", "doctor --jsn", ("'--jsn'", "'--json'")),
    Mistake("notebooks over a folder", "open data/gbase8s --no-lab --to data", ("data", "already exists", "--to")),
    Mistake("page", "open data/gbase8s --no-lab --to x --page transaction", ("'transaction'", "'transactions'")),
    # Python
    Mistake("load a missing file", lambda: cdcwb.load("nowhere.bin"), ("nowhere.bin", "no such file")),
    Mistake("load another format", lambda: cdcwb.load("data/gbase8s", "gbase"), ("'gbase'", "'gbase8s'")),
    Mistake("load with an option", lambda: cdcwb.load("data/gbase8s", charst="gbk"), ("'charst'", "'charset'")),
    Mistake(
        "load two formats", lambda: cdcwb.load("data"), ("different formats",), ("data/gbase8s", "data/qlik-kafka")
    ),
    Mistake("load a PDF", lambda: cdcwb.load("x.pdf"), ("x.pdf", "PDF"), files={"x.pdf": b"%PDF-1.7\n"}),
    Mistake("load topics and files", lambda: cdcwb.load(["kafka://a:1/b", "data/gbase8s"]), ("topics", "other paths")),
)

_GBASE8S: Final = (
    _unknown_option("gbase8s", "lables", "labels"),
    _of_another("gbase8s", "delimiter"),
    _wrong_value("gbase8s", "byte_order=middle", "little", "big"),
    _wrong_value("gbase8s", "shape=hexdmp", "binary", "Did you mean 'hexdump'?"),
    _wrong_value("gbase8s", "images=perhaps", "true or false"),
    _wrong_value("gbase8s", "mode=LOOSE", "PERMISSIVE", "FAILFAST"),
    _wrong_value("gbase8s", "split_size=0", "whole number", "64"),
    _wrong_value("gbase8s", "inflate_limit=much", "64GB"),
    _wrong_value("gbase8s", "charset=utf-9", "character set", "gb18030"),
    _wrong_value("gbase8s", "keys=orders", "schema.table:c1+c2"),
    _wrong_value("gbase8s", "buffer_size=0", "whole number"),
    _wrong_value("gbase8s", "labels=nowhere.json", "a=x,b=y", "No such file"),
    Mistake(
        "a label without name", "summary data/gbase8s -o labels=101=shop.orders,102", ("labels", "a=x,b=y", "'102'")
    ),
    Mistake(
        "names that are not texts",
        "summary data/gbase8s -o labels=names.json",
        ("labels", "'names.json'", "a JSON object of texts"),
        files={"names.json": b'{"101": 5}'},
    ),
    Mistake(
        "names that are not JSON",
        "summary data/gbase8s -o labels=names.json",
        ("labels", "'names.json'", "not valid JSON"),
        files={"names.json": b"{101}"},
    ),
    Mistake(
        "schemas",
        "summary data/gbase8s -o schemas=schemas.txt",
        ("schemas.txt", "line 1", "label: column list", "'101 c1 integer'"),
        files={"schemas.txt": b"101 c1 integer\n"},
    ),
    Mistake("missing schemas", "summary data/gbase8s -o schemas=no.txt", ("no.txt", "cannot be read", "No such file")),
    Mistake(
        "offset beyond the file",
        "inspect data/gbase8s/stream-1.bin --offset 99999999",
        ("stream-1.bin", "offset 99999999", "46500 bytes"),
    ),
    Mistake("offset", "inspect data/gbase8s/stream-1.bin --offset 0xZZ", ("1234 or 0x4D2", "'0xZZ'")),
    Mistake("documents without keys", "xds data/gbase8s --to x.xml", ("gbase8s", "key", "keys=", "--infer-keys")),
    Mistake(
        "the first record that cannot be read",
        "summary data/gbase8s -o mode=FAILFAST",
        ("data/gbase8s/stream-2.bin", "offset"),
        spark=True,
    ),
    Mistake(
        "continuity without values",
        "continuity data/gbase8s -o images=false",
        ("images", "leave images=false out"),
    ),
    Mistake(
        "history without values",
        "history data/gbase8s --table shop.orders --key order_id=1 -o images=false",
        ("images", "leave images=false out"),
    ),
)

_QLIK_KAFKA: Final = (
    _unknown_option("qlik-kafka", "registri", "registry"),
    _of_another("qlik-kafka", "delimiter"),
    _wrong_value("qlik-kafka", "container=box", "lines", "parquet"),
    _wrong_value("qlik-kafka", "encoding=rot13", "base64", "avro-json"),
    _wrong_value("qlik-kafka", "mask_order=up", "big", "little"),
    Mistake("missing metadata", "summary data/qlik-kafka -o metadata=nowhere", ("nowhere", "no such file")),
    Mistake(
        "metadata without messages",
        "summary data/qlik-kafka -o metadata=data/README.md",
        ("metadata", "data/README.md", "no metadata message"),
    ),
    _wrong_value("qlik-kafka", "avro_schema=nowhere.avsc", "cannot be read", "No such file"),
    _wrong_value("qlik-kafka", "registry=nowhere", "<id>.avsc", "http"),
    Mistake(
        "a schema of the registry that is not JSON",
        "summary made/capture -o registry=made/registry",
        ("made/registry/41.avsc", "Avro schema"),
        first=_CONFLUENT,
        spoiled={"made/registry/41.avsc": b"{not"},
    ),
    Mistake(
        "offset beyond the file",
        "inspect data/qlik-kafka/shop.customer-0.txt --offset 99999999",
        ("shop.customer-0.txt", "offset 99999999", "bytes"),
    ),
)

_QLIK_CHANGE_TABLE: Final = (
    _unknown_option("qlik-change-table", "delimeter", "delimiter"),
    _of_another("qlik-change-table", "registry"),
    _wrong_value("qlik-change-table", "header=perhaps", "true or false"),
    _wrong_value("qlik-change-table", "quote=ab", "one byte"),
    _wrong_value("qlik-change-table", "mask_offset=x", "whole number"),
    _wrong_value("qlik-change-table", "mask_offset=-1", "whole number", "0"),
    _wrong_value("qlik-change-table", "mask_text=octal", "hex", "base64"),
    _wrong_value("qlik-change-table", "charset=klingon", "character set"),
    Mistake(
        "a side file",
        "inspect data/qlik-change-table/shop.orders/LOAD00000001.dfm --offset 0",
        ("LOAD00000001.dfm", "no format recognises", "dfmVersion"),
        ("qlik-change-table: ",),
    ),
    Mistake(
        "offset beyond the file",
        "inspect data/qlik-change-table/shop.orders/LOAD00000001.csv --offset 99999999",
        ("LOAD00000001.csv", "offset 99999999", "bytes"),
    ),
)

_GOLDENGATE: Final = (
    _unknown_option("goldengate", "timezone", "time_zone"),
    _of_another("goldengate", "labels"),
    _wrong_value("goldengate", "time_zone=Mars/Base", "Europe/Berlin", "+08:00"),
    _wrong_value("goldengate", "time_zone=+27:00", "offset"),
    _wrong_value("goldengate", "definitions=nowhere.def", "cannot be read", "No such file"),
    _wrong_value("goldengate", "definitions=data/README.md", "Definition for table"),
    _wrong_value("goldengate", "unified_prefix=3", "auto", "2", "4"),
    _wrong_value("goldengate", "trail_sequence=x", "whole number"),
    _of_another("goldengate", "container"),
    *(
        Mistake(
            f"text and exports{with_format}",
            f"summary mix{with_format}",
            ("mix", "different formats", "goldengate (1 file)", "goldengate-export (1 file)", "--format"),
            ("cdcwb summary ", "mix/a.txt", "mix/b.json"),
            files={"mix/a.txt": _LOGDUMP, "mix/b.json": _EXPORT},
        )
        for with_format in ("", " --format goldengate")
    ),
    _foreign("tokens.txt", b"GGS tokens:\n 5200 1400 4141 : R...AA\n", "Logdump", "ghdr on", "detail data"),
    Mistake(
        "offset beyond the file",
        "inspect data/goldengate/logdump-000000041.txt --offset 99999999",
        ("logdump-000000041.txt", "offset 99999999", "bytes"),
    ),
)

_DEBEZIUM: Final = (
    _unknown_option("debezium", "unavailible", "unavailable"),
    _of_another("debezium", "mask_order"),
    _wrong_value("debezium", "container=box", "documents", "parquet"),
    _wrong_value("debezium", "separator=\\x4", "escape"),
    _wrong_value("debezium", "registry=nowhere", "<id>.avsc", first=_AVRO, path="made/capture"),
    Mistake(
        "a registry that does not answer",
        "summary made/capture -o registry=http://127.0.0.1:9",
        ("http://127.0.0.1:9", "registry", "schema", "refused"),
        first=_AVRO,
    ),
    Mistake(
        "offset beyond the file",
        "inspect data/debezium/messages.txt --offset 99999999",
        ("messages.txt", "offset 99999999", "293710 bytes"),
    ),
    Mistake(
        "the first message that cannot be read",
        "summary data/debezium -o mode=FAILFAST",
        ("data/debezium/messages.txt", "offset"),
        spark=True,
    ),
)

_IDM_EVENT_LOG: Final = (
    _unknown_option("idm-event-log", "null_txt", "null_text"),
    _of_another("idm-event-log", "byte_order"),
    Mistake(
        "column",
        "summary data/idm-event-log -o columns=event_type=nowhere",
        ("eventlog.csv", "columns", "'nowhere'", "There are: record_id"),
    ),
    _wrong_value("idm-event-log", "sort_column_names_by=up", "byte", "ignore_case"),
    _wrong_value("idm-event-log", "time_zone=Mars/Base", "Europe/Berlin"),
    _wrong_value("idm-event-log", "backslash=perhaps", "true or false"),
    Mistake(
        "sheet",
        "summary made/capture -o sheet=nowhere",
        ("eventlog.xlsx", "sheet", "'nowhere'", "eventlog"),
        first=_EXCEL,
    ),
    Mistake(
        "table of a dump",
        "summary made/capture -o sql_table=nowhere",
        ("eventlog.sql", "sql_table", "'nowhere'", "indirect_process"),
        first=_SQL,
    ),
    _foreign("copy.sql", b"INSERT INTO app.log SELECT * FROM app.old_log;\n", "no rows", "app.log", "VALUES", "CSV"),
    _foreign("old.xml", b'<?xml version="1.0"?>\n<nds dtdversion="4.0"><input/></nds>\n', "XDS document", "export"),
    Mistake(
        "offset beyond the file",
        "inspect data/idm-event-log/eventlog.csv --offset 99999999",
        ("eventlog.csv", "offset 99999999", "64925 bytes"),
    ),
    Mistake("setting", "xds data/idm-event-log --to x.xml -o qery_limit=5", ("'qery_limit'", "'query_limit'")),
    Mistake("batch", "xds data/idm-event-log --to x.xml --batch-size 200", ("batch_size", "1 to 128", "200")),
    Mistake("type 5", "xds data/idm-event-log --to x.xml -o type5=change", ("type5", "add", "modify", "'change'")),
    Mistake("type", "xds data/idm-event-log --to x.xml -o types=photo:bits", ("types", "octet", "'bits'")),
    Mistake("twice", "xds data/idm-event-log --to x.xml -o batch_size=3 --batch-size 3", ("batch_size", "twice")),
    Mistake("until when", "xds data/idm-event-log --to x.xml --as-of yesterday", ("--as-of", "'yesterday'")),
    Mistake("decisions", "xds data/idm-event-log --to x.xml --decisions x.csv", (".jsonl", "'x.csv'")),
    Mistake(
        "no rows of a table", "xds data/idm-event-log --to x.xml --snapshot customer=no.csv", ("no.csv", "No such")
    ),
    Mistake(
        "rows without a table", "xds data/idm-event-log --to x.xml --snapshot customer", ("TABLE=FILE", "'customer'")
    ),
    Mistake(
        "the first row that cannot be read",
        "summary data/idm-event-log -o mode=FAILFAST",
        ("data/idm-event-log/eventlog.csv", "offset"),
        spark=True,
    ),
)

_SQLSERVER_CT: Final = (
    _unknown_option("sqlserver-ct", "timezone", "time_zone"),
    _of_another("sqlserver-ct", "mask_order"),
    _wrong_value("sqlserver-ct", "time_zone=Mars/Base", "Europe/Berlin", "+08:00"),
    _wrong_value("sqlserver-ct", "quote=ab", "one byte"),
    _wrong_value("sqlserver-ct", "charset=klingon", "character set"),
    _wrong_value("sqlserver-ct", "table=shop_orders=", "instance=schema.table"),
    Mistake(
        "offset beyond the file",
        "inspect data/sqlserver-ct/shop_orders_CT.csv --offset 99999999",
        ("shop_orders_CT.csv", "offset 99999999", "2979 bytes"),
    ),
)

_MAXWELL: Final = (
    _unknown_option("maxwell", "containr", "container"),
    _of_another("maxwell", "mask_order"),
    _wrong_value("maxwell", "container=box", "documents", "parquet"),
)

_CANAL: Final = (
    _unknown_option("canal", "separatr", "separator"),
    _of_another("canal", "mask_order"),
    _wrong_value("canal", "encoding=rot13", "base64"),
)

MISTAKES: Final = {
    "any": _ANY,
    "gbase8s": _GBASE8S,
    "qlik-kafka": _QLIK_KAFKA,
    "qlik-change-table": _QLIK_CHANGE_TABLE,
    "goldengate": _GOLDENGATE,
    "debezium": _DEBEZIUM,
    "idm-event-log": _IDM_EVENT_LOG,
    "sqlserver-ct": _SQLSERVER_CT,
    "maxwell": _MAXWELL,
    "canal": _CANAL,
}

ON_A_CAPTURE: Final[dict[str, tuple[Callable[[cdcwb.Capture], object], tuple[str, ...]]]] = {
    "table of a filter": (
        lambda capture: capture.filter(tables=["shop.oders"]),
        ("'shop.oders'", "Did you mean 'shop.orders'?"),
    ),
    "table and key of a history": (
        lambda capture: capture.history("shop.oders", {"id": "1"}),
        ("'shop.oders'", "'shop.orders'"),
    ),
    "column of a table": (
        lambda capture: capture.table("shop.orders", columns=["stat"]),
        ("'stat'", "shop.orders", "state"),
    ),
    "column of events": (
        lambda capture: capture.select_events("positon"),
        ("'positon'", "Did you mean 'position'?", "There are: "),
    ),
    "field of a selection": (
        lambda capture: capture.selection.update(tabels=["shop.orders"]),
        ("'tabels'", "Did you mean 'tables'?"),
    ),
    "table of a selection": (
        lambda capture: capture.selection.update(tables=["shop.oders"]),
        ("'shop.oders'", "Did you mean 'shop.orders'?"),
    ),
    "outcome of a selection": (
        lambda capture: capture.selection.update(outcomes=["opn"]),
        ("'opn'", "Did you mean 'open'?", "committed"),
    ),
    "condition": (
        lambda capture: capture.filter(where="colour == 1").changes.collect(),
        ("'colour'", "There are: "),
    ),
    "column of a key": (
        lambda capture: capture.history("shop.orders", {"order": "1"}),
        ("'order'", "shop.orders"),
    ),
    "state without a key": (
        lambda capture: capture.state("shop.orders"),
        ("shop.orders", "key"),
    ),
    "time of a state": (
        lambda capture: capture.state("shop.orders", time="yesterday"),
        ("time", "2025-03-23T10:57:19Z", "'yesterday'"),
    ),
    "images of a table": (
        lambda capture: capture.table("shop.orders", images="none"),
        ("'none'", "before", "after"),
    ),
}
"""Calls with a loaded capture, ``data/gbase8s``, each with the parts of its sentence."""
