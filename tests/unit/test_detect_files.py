"""A file that no format reads is refused with one sentence: what it is, and what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.errors import CaptureError, OptionError, UnknownFormatError
from cdcwb.formats import FORMATS, identify
from cdcwb.formats.detect import likely_first
from tests.event_logs import as_sql, rows

TEXT = b"id,name\n1,a\n2,b\n"


def tar(data: bytes = TEXT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("table.csv")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def zipped(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return packed.getvalue()


def sqlite(path: Path) -> bytes:
    with sqlite3.connect(path / "made.db") as database:
        database.execute("create table t (a)")
    database.close()
    return (path / "made.db").read_bytes()


def parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"city": ["x"], "zip": ["1"]}), path / "made.parquet")
    return (path / "made.parquet").read_bytes()


def avro(_: Path) -> bytes:
    schema = b'{"type":"record","name":"r","fields":[{"name":"city","type":"string"}]}'
    text = bytes((len(schema) << 1 & 0x7F | 0x80, len(schema) >> 6)) + schema
    return b"Obj\x01\x02\x16avro.schema" + text + b"\0" + bytes(16)


def constant(data: bytes) -> Callable[[Path], bytes]:
    return lambda _: data


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (constant(b""), "the file is empty (0 bytes)"),
        (constant(b" \n\n"), "the file holds only white space"),
        (constant(bytes(500)), "the file holds only zero bytes"),
        (constant(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"), "this is a PDF document, not a capture of change data"),
        (constant(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(99)), "this is a PNG image"),
        (constant(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(99)), "this is a JPEG image"),
        (constant(b"GIF89a" + bytes(99)), "this is a GIF image"),
        (constant(tar()), "this is a tar archive; unpack it"),
        (constant(gzip.compress(tar())), "this is gzip data that holds a tar archive; unpack it"),
        (constant(gzip.compress(gzip.compress(TEXT))), "this is gzip data that holds a compressed file; decompress it"),
        (constant(TEXT.decode().encode("utf-32")), "this is a text in UTF-32; save it in UTF-8"),
        (constant(gzip.compress(b"")), "the gzip file is empty: nothing is compressed in it"),
        (constant(b"\x1f\x8b\x08\0" + bytes(20)), "the gzip data is"),
        (constant(zipped("a.csv", "b.csv")), "this is a ZIP archive with 2 files; unpack it"),
        (constant(zipped("a.csv")[:40]), "this is a ZIP archive that is damaged or cut off"),
        (constant(zipped("word/document.xml")), "this is a Word document"),
        (constant(zipped("META-INF/MANIFEST.MF", "A.class")), "this is a Java archive"),
        (constant(b"7z\xbc\xaf\x27\x1c\0\4" + bytes(99)), "this is a 7z archive"),
        (
            constant(bz2.compress(TEXT)),
            "this is a file compressed with bzip2, which is not supported; decompress it first",
        ),
        (
            constant(lzma.compress(TEXT)),
            "this is a file compressed with xz, which is not supported; decompress it first",
        ),
        (sqlite, "this is an SQLite database; export the change table or event log from it as CSV or Parquet"),
        (constant(b"\x7fELF\2\1\1" + bytes(99)), "this is an executable program"),
        (constant(b"\xca\xfe\xba\xbe\0\0\0\x41" + bytes(99)), "this is a Java class"),
        (constant(b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(99)), "this is a capture of network packets"),
        (parquet, "no format recognises the columns of this Parquet file: city and zip"),
        (avro, "no format recognises the fields of this Avro container: city"),
        (constant(TEXT), "no format recognises the columns of this delimited text file: id and name"),
        (constant(b'{"city": "x", "zip": [1]}\n'), "no format recognises the keys of this JSON file: city and zip"),
        (constant(b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n"), "this is an HTML page"),
        (constant(b'<?xml version="1.0"?>\n<nds dtdversion="4.0"><input/></nds>\n'), "this is an XDS document, which"),
        (constant(b'<modify class-name="T"><association>a=1</association></modify>\n'), "this is an XDS document"),
        (constant(b"GGS tokens:\n 5200 1400 4141 : R...AA\n"), "this is output of Logdump without a record header"),
        (constant(b'{"database":"shop","table":"stock","type":"ins'), "no format recognises this text file"),
        (constant(b"Once upon a time there was\na short text.\n"), "no format recognises this text file"),
        (constant(bytes(range(256)) * 8), "no format recognises this binary file"),
    ],
)
def test_a_file_that_is_no_capture_is_refused_with_a_sentence_about_that_file(
    tmp_path: Path, made: Callable[[Path], bytes], said: str
) -> None:
    file = tmp_path / "given"
    file.write_bytes(made(tmp_path))
    with pytest.raises(UnknownFormatError) as caught:
        identify(file)
    first, *details = str(caught.value).splitlines()
    assert first.startswith(f"{file}: {said}")
    assert "record header (packetization" not in first
    # Where the type is known, what the formats looked for helps nobody.
    assert bool(details) is said.startswith("no format")
    assert all(line.startswith("  ") for line in details)


def test_a_text_that_begins_like_a_signature_is_not_taken_for_that_type(tmp_path: Path) -> None:
    file = tmp_path / "ORC.csv"
    file.write_bytes(b"ORC,BZh\nMZ,II*\n")
    with pytest.raises(UnknownFormatError, match=r"the columns of this delimited text file: ORC and BZh"):
        identify(file)


def test_one_file_among_readable_ones_does_not_refuse_a_capture(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n")
    (tmp_path / "b.sql").write_bytes(as_sql(rows(12)))
    assert identify(tmp_path).format == "idm-event-log"


def test_several_refused_files_are_counted(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(
        UnknownFormatError, match=r"a\.png: this is a PNG image.*; nor is any of 2 more files a capture"
    ):
        identify(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"charst": "gbk"}, "unknown option 'charst' for any format. Did you mean 'charset'?"),
        ({"container": "boxes"}, "option container: expected one of auto, lines"),
    ],
)
def test_an_option_that_no_format_takes_is_named_before_the_file_is_blamed(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    (tmp_path / "x.txt").write_bytes(b"Once upon a time\n")
    with pytest.raises(OptionError) as caught:
        identify(tmp_path / "x.txt", **options)
    assert said in str(caught.value)


# --- event logs that cannot be read as they are -----------------------------------------------------------------------

SELECTED = """-- copies what was missed
INSERT INTO app.log_process (record_id, table_key, status, event_type, event_time, table_name, column_name, new_value)
SELECT log_seq.nextval, 'pk=' || id, 'N', 5, sysdate, 'APP.CUSTOMER', NULL, NULL FROM app.customer;
COMMIT;
"""


@pytest.mark.parametrize(
    "text",
    [SELECTED, "insert into app.log_process select * from app.old_log;\n", SELECTED.replace("SELECT", "(SELECT")],
)
def test_an_insert_from_a_select_is_said_to_have_no_rows(tmp_path: Path, text: str) -> None:
    file = tmp_path / "copy.sql"
    file.write_text(text)
    found = identify(file)
    assert (found.format, found.shape) == ("idm-event-log", "sql")
    said = found.evidence[-1]
    assert said.startswith("this SQL script has no rows: its INSERT into app.log_process selects them")
    assert "columns" not in said


def test_an_insert_from_a_select_into_another_table_is_no_event_log(tmp_path: Path) -> None:
    file = tmp_path / "copy.sql"
    file.write_text("INSERT INTO shop.orders (id, state) SELECT id, state FROM shop.old_orders;\n")
    with pytest.raises(UnknownFormatError, match="no format recognises this text file"):
        identify(file)


LOG = [("7", "CUSTOMER", "id=1", "5", "", "x", "2026-02-03"), ("9", "CUSTOMER", "id=2", "6", "", "y", "2026-02-03")]


@pytest.mark.parametrize(
    ("header", "names"),
    [("nr,tab,pk,art,alt,neu,wann\n", "nr,tab,pk,art,neu"), ("", "column_1,column_2,column_3,column_4,column_6")],
)
def test_a_renamed_or_headerless_event_log_is_read_with_its_columns_as_an_option(
    tmp_path: Path, header: str, names: str
) -> None:
    file = tmp_path / "log.csv"
    file.write_text(header + "".join(",".join(row) + "\n" for row in LOG))
    with pytest.raises(UnknownFormatError, match="if it is an event log, name them with the option columns"):
        identify(file, format="idm-event-log")
    own = ("record_id", "table_name", "table_key", "event_type", "new_value")
    found = identify(file, columns=",".join(map("=".join, zip(own, names.split(","), strict=True))))
    assert (found.format, found.confidence, found.advice) == ("idm-event-log", 0.98, ())
    assert "100% of the distinctive fields of 2 rows agree" in found.evidence[0]


def test_columns_that_the_rows_contradict_do_not_make_an_event_log(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("nr,tab,pk,art,alt,neu,wann\n" + "".join(",".join(row) + "\n" for row in LOG))
    with pytest.raises(CaptureError, match="0% of the distinctive fields of 2 rows agree"):
        identify(file, format="idm-event-log", columns="event_type=tab,table_key=art")


def test_the_format_whose_word_a_capture_begins_with_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    entries = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    names = {value: name for name, value in entries["cdcwb.formats"].items()}
    words = {word: names[value] for word, value in entries["cdcwb.formats.words"].items()}
    monkeypatch.setattr(type(FORMATS), "words", words)
    for word, name in words.items():
        files = sorted(path for path in (root / "data" / name).rglob("*") if path.suffix in (".txt", ".csv", ".json"))
        found = [str(path) for path in files if word.encode() in path.read_bytes()[: 1 << 14]]
        assert found, word
        asked = likely_first(found[0])
        assert name in asked[:2], (word, asked)
        assert sorted(asked) == sorted(FORMATS)
