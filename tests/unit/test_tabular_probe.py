"""What a file of rows is told to be, and that its rows come out whole wherever it is cut."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import pickle
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.containers.delimited import DEFAULT, Dialect
from cdcwb.formats.containers.rows import FileProbe, TableName, rows_of_batch, text_rows
from cdcwb.formats.containers.table_probe import probe_file
from cdcwb.formats.containers.tables import find_part, read_parts
from cdcwb.formats.dissector import scan_all
from cdcwb.formats.table_rows import TableFile
from cdcwb.formats.table_splits import FileRange, RowScan, cut, read_range
from cdcwb.model import Kind, OffsetUnit

Row = tuple[str | None, ...]

LOG = b'record_id,table_key,status,new_value\n1,idu=1,N,"Jack, ""the"" Frost"\n2,idu=1,S,\n3,"pkey=""a\nb""",N,""\n'
LOG_ROWS: list[Row] = [
    ("1", "idu=1", "N", 'Jack, "the" Frost'),
    ("2", "idu=1", "S", None),
    ("3", 'pkey="a\nb"', "N", ""),
]


def run(function: Any, tasks: Any) -> list[Any]:
    return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))) for task in tasks]


def write(folder: Path, content: bytes, name: str = "log.csv") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def rows_of(file: FileProbe, start: int = 0, stop: int = 1 << 62) -> list[Row]:
    found: list[Row] = []
    for part in read_parts(file, start, stop):
        some = text_rows(part, file.columns)
        found += [] if some is None else zip(*(column.to_pylist() for column in some.columns), strict=True)
    return found


def ledger(file: FileProbe) -> int:
    """Where the segments end that lie without gap from 0 on, each of them being one row or one gap."""
    place = 0
    for part in read_parts(file):
        indices = [gap.index for gap in part.gaps]
        for some, rows in part.rows:
            indices += some.tolist()
            assert rows.offset.tolist() == part.offset[some].tolist()
            assert rows.length.tolist() == part.length[some].tolist()
        assert sorted(indices) == list(range(len(part.offset)))
        for offset, length in zip(part.offset.tolist(), part.length.tolist(), strict=True):
            assert offset == place
            place += length
    return place


# --- delimited text ---------------------------------------------------------------------------------------------------


def test_a_header_line_gives_the_names(tmp_path: Path) -> None:
    file = probe_file(write(tmp_path, LOG))
    assert (file.kind, file.names, file.width) == ("csv", ("record_id", "table_key", "status", "new_value"), 4)
    assert (file.header, file.heading, file.first) == (True, "record_id,table_key,status,new_value", 37)
    assert (file.size, file.compression, file.problem) == (len(LOG), None, None)
    assert file.first_row == file.names
    assert list(file.sample) == rows_of(file) == LOG_ROWS
    assert ledger(file) == len(LOG)


def test_without_a_header_line_there_is_a_number_of_columns(tmp_path: Path) -> None:
    body = LOG.partition(b"\n")[2]
    file = probe_file(write(tmp_path, body))
    assert (file.names, file.width, file.first, file.header) == (None, 4, 0, False)
    assert file.columns == ("column_1", "column_2", "column_3", "column_4")
    assert file.first_row == LOG_ROWS[0]
    assert list(file.sample) == rows_of(file) == LOG_ROWS
    assert ledger(file) == len(body)


def test_the_most_common_number_of_fields_is_that_of_the_columns(tmp_path: Path) -> None:
    file = probe_file(write(tmp_path, b"1,2\n1,2,3\n1,2,3\n"), header=False)
    assert file.width == 3
    gaps = [gap for part in read_parts(file) for gap in part.gaps]
    assert [(gap.kind, gap.raw) for gap in gaps] == [(Kind.MALFORMED, b"1,2\n")]
    assert "3 fields" in gaps[0].reason
    assert "2" in gaps[0].reason


@pytest.mark.parametrize(
    ("line", "is_header"),
    [
        (b"record_id,table_key", True),
        (b"Record Id,NEW$VALUE", True),
        (b"\xc3\xa9tat,\xe5\x80\xbc", True),
        (b"1,idu=1", False),
        (b"id,idu=1", False),
        (b"id,", False),
        (b"id,ID", False),
        (b"N,2024-01-31", False),
    ],
)
def test_a_header_line_is_made_of_names_all_different(tmp_path: Path, line: bytes, is_header: bool) -> None:
    path = write(tmp_path, line + b"\n1,2\n")
    assert probe_file(path).header is is_header
    assert probe_file(path, header=True).names is not None
    assert probe_file(path, header=False).names is None


def test_names_that_are_missing_or_repeat_are_told_apart(tmp_path: Path) -> None:
    assert probe_file(write(tmp_path, b"a,, a ,\n1,2,3,4\n"), header=True).names == ("a", "column_2", "a#2", "column_4")
    path = write(tmp_path, b"column_2,,a,a,a#2\n1,2,3,4,5\n")
    assert probe_file(path, header=True).names == ("column_2", "column_2#2", "a", "a#3", "a#2")


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        (b"id,key\n1,a;b;c\n2,d|e\n", b","),
        (b"id\tkey\n1\ta,b,c\n2\td\n", b"\t"),
        (b'id;key\n1;"a;b"\n2;"1,5"\n', b";"),
        (b"id|key\n1|a\n", b"|"),
        (b"id\n1\n", b","),
    ],
)
def test_the_delimiter_is_the_one_that_parts_the_records_best(tmp_path: Path, content: bytes, delimiter: bytes) -> None:
    file = probe_file(write(tmp_path, content))
    assert file.dialect is not None
    assert file.dialect.delimiter == delimiter
    assert file.delimiter_from
    assert rows_of(file)


def test_given_parts_of_the_dialect_are_kept(tmp_path: Path) -> None:
    content = b"1\x01NULL\x01'it''s'\x02\x02"[:-1] + b"2\x01\x01'NULL'\x02"
    options = {"delimiter": b"\x01", "record": b"\x02", "quote": b"'", "null": b"NULL"}
    file = probe_file(write(tmp_path, content), dialect_options=options)
    assert file.dialect == Dialect(b"\x01", b"\x02", b"'", b"", b"NULL")
    assert rows_of(file) == list(file.sample) == [("1", None, "it's"), ("2", "", "NULL")]


def test_parts_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, LOG)
    with pytest.raises(OptionError, match="cannot be distinguished from"):
        probe_file(path, dialect_options={"delimiter": b'"'})
    assert probe_file(path, dialect_options={"quote": b","}).dialect != DEFAULT


def test_mark_blank_lines_and_line_ends_are_no_part_of_the_rows(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf\r\n\r\nid,key\r\n1,a\r\n\r\n2,b\r\n"
    file = probe_file(write(tmp_path, content))
    assert (file.names, file.heading) == (("id", "key"), "id,key")
    assert rows_of(file) == [("1", "a"), ("2", "b")]
    assert ledger(file) == len(content)


def test_the_sample_has_a_limit_and_no_half_record(tmp_path: Path) -> None:
    row = b"1," + b"x" * 300_000 + b"\n"
    path = write(tmp_path, b"id,text\n" + row * 5)
    assert [len(one[1] or "") for one in probe_file(path).sample] == [300_000] * 3
    assert len(probe_file(path, limit=2).sample) == 2
    assert probe_file(path, limit=0).sample == ()


def test_bytes_that_are_not_in_the_character_set_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, b"id,name\n1,Jos\xe9\n2,Ann\n")
    (part,) = list(read_parts(probe_file(path)))[1:]
    found = text_rows(part, ("name", "id", "other"))
    assert found is not None
    assert found.columns[0].to_pylist() == ["4a6f73e9", "Ann"]
    assert found.columns[2].to_pylist() == [None, None]
    ((_, rows),) = part.rows
    assert [rows.garbled(place).tolist() for place in range(2)] == [[], [0]]
    raw = rows.raw()
    assert raw is not None
    assert raw.to_pylist() == [b"1,Jos\xe9\n", b"2,Ann\n"]
    assert rows_of(probe_file(path, charset="latin-1")) == [("1", "José"), ("2", "Ann")]


def test_a_compressed_file_is_read_as_what_is_in_it(tmp_path: Path) -> None:
    file = probe_file(write(tmp_path, gzip.compress(LOG), "log.csv.gz"))
    assert (file.kind, file.compression, file.size) == ("csv", "gzip", 0)
    assert rows_of(file) == LOG_ROWS
    (stretch,) = cut([TableFile(table=TableName(None, "t"), probe=file)], 64)
    found = RowScan(0, 0)
    assert sum(len(part.offset) for part in read_range(stretch, found)) == 4
    assert (found.size, found.end, found.problem) == (len(LOG), len(LOG), None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "old binary form"),
        (b"PK\x03\x04 and so on", "zip archive"),
        (b"PAR1 and so on", "Parquet"),
        (bytes(2000), "binary"),
    ],
)
def test_what_is_no_table_is_broken_and_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    file = probe_file(write(tmp_path, content))
    assert file.kind == "broken"
    assert reason in str(file.problem)
    (part,) = read_parts(file)
    assert [(gap.kind, gap.reason) for gap in part.gaps] == [(Kind.MALFORMED, file.problem)]
    assert ledger(file) == len(content)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    file = probe_file(write(tmp_path, b""))
    assert (file.kind, file.names, file.width, file.sample) == ("csv", None, 0, ())
    assert ledger(file) == 0


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read"):
        probe_file(str(tmp_path / "missing.csv"))


# --- JSON, Parquet, tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["lines", "array"])
def test_objects_of_json_are_rows_in_their_order(tmp_path: Path, form: str) -> None:
    objects = ['{"id": 1, "value": 1.50, "on": true}', '{"value": null, "id": "2"}', '{"id": 3, "more": {"a": [1]}}']
    content = "\n".join(objects) + "\n" if form == "lines" else f"[{', '.join(objects)}]\n"
    file = probe_file(write(tmp_path, content.encode()))
    assert (file.kind, file.names) == ("json", ("id", "value", "on", "more"))
    expected = [("1", "1.50", "true", None), ("2", None, None, None), ("3", None, None, '{"a":[1]}')]
    assert rows_of(file) == list(file.sample) == expected
    assert ledger(file) == len(content)
    part, index = find_part(file, content.index('"2"'))
    (row,) = (rows.take(np.flatnonzero(some == index)) for some, rows in part.rows if index in some)
    raw = row.raw()
    assert raw is not None
    assert json.loads(raw[0].as_py().strip(b", ")) == {"value": None, "id": "2"}


def test_columns_of_parquet_are_texts_and_keep_their_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3]),
            "at": pa.array([dt.datetime(2024, 1, 31, 9, 8, 7), None, None]),
            "price": pa.array([Decimal("1.50"), None, None]),
            "photo": pa.array([b"\xaa\xbb", None, None]),
        }
    )
    path = str(tmp_path / "log.parquet")
    pq.write_table(table, path, row_group_size=2)
    file = probe_file(path)
    assert (file.kind, file.names, [rows for rows, _ in file.groups]) == ("parquet", tuple(table.column_names), [2, 1])
    assert rows_of(file)[0] == ("1", "2024-01-31T09:08:07.000000", "1.50", "aabb")
    assert len(file.sample) == 2
    assert rows_of(file, 1, 2) == [("3", None, None, None)]
    assert ledger(file) == 3
    part, index = find_part(file, 2)
    (indices, rows) = part.rows[0]
    assert rows.content(0)[indices.tolist().index(index)].as_py() == 3
    assert [stretch.start for stretch in cut([TableFile(table=TableName(None, "t"), probe=file)], 1)] == [0, 1]


def test_rows_of_a_table_bear_their_numbers() -> None:
    batch = pa.record_batch({"id": pa.array([7, 8]), "name": pa.array(["a", None])})
    part = rows_of_batch(batch, np.array([40, 41]), ("id", "name"))
    assert (part.unit, part.offset.tolist()) == (OffsetUnit.ROW, [40, 41])
    found = text_rows(part, ("name", "id"))
    assert found is not None
    assert [column.to_pylist() for column in found.columns] == [["a", None], ["7", "8"]]


def test_a_probe_without_its_rows_reads_the_same(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    for path in (write(tmp_path, LOG), write(tmp_path, b'{"a": 1}\n', "a.json"), str(tmp_path / "a.parquet")):
        file = probe_file(path)
        assert rows_of(pickle.loads(pickle.dumps(file.without_rows()))) == list(file.sample)


# --- splits -----------------------------------------------------------------------------------------------------------


@dataclass
class Found(RowScan):
    """A scan as a format makes it."""

    segments: list[tuple[int, int]] = field(default_factory=list)


def scan(stretch: FileRange) -> Found:
    found = Found(0, 0)
    for part in read_range(stretch, found):
        found.segments += zip(part.offset.tolist(), part.length.tolist(), strict=True)
    return found


_LINES = st.lists(st.text(alphabet='ab,"\n\r', max_size=12).map(lambda text: text + "\n"), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(lines=_LINES, size=st.integers(5, 60))
def test_pieces_of_a_file_hold_the_segments_of_one_pass(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    """Odd quotes, that mislead the counting, included."""
    content = ("id,text\n" + "".join(lines)).encode()
    file = probe_file(write(tmp_path_factory.mktemp("split"), content), header=True)
    whole = [one for part in read_parts(file) for one in zip(part.offset.tolist(), part.length.tolist(), strict=True)]
    stretches = cut([TableFile(table=TableName(None, "t"), probe=file)] * 2, size)
    scans = scan_all(stretches, scan, run)
    assert [one for found in scans for one in found.segments] == whole + whole
    rows = rows_of(file)
    for_each = [
        rows_of(file, found.begin, stretch.stop)
        for stretch, found in zip(stretches, scans, strict=True)
        if found.begin < stretch.stop
    ]
    assert [row for some in for_each for row in some] == rows + rows
    for offset, length in whole:
        part, index = find_part(file, offset + length - 1)
        assert int(part.offset[index]) == offset


def test_lines_of_json_are_cut_and_arrays_are_not(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": %d}\n' % number for number in range(50))
    some = probe_file(write(tmp_path, lines, "a.json"))
    stretches = cut([TableFile(table=TableName(None, "t"), probe=some)], 64)
    assert len(stretches) > 5
    rows = [row for one in stretches for row in rows_of(some, one.start, one.stop)]
    assert rows == [(str(number),) for number in range(50)]
    array = probe_file(write(tmp_path, b"[" + b",".join(lines.splitlines()) + b"]", "b.json"))
    assert len(cut([TableFile(table=TableName(None, "t"), probe=array)], 64)) == 1


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        (" record_id | table_key \n-----------+-----------\n         1 | id=1\n(1 row)\n", r"\copy (SELECT"),
        ("-[ RECORD 1 ]---\nrecord_id | 1\n", r"\copy (SELECT"),
        ("+----+------+\n| id | name |\n+----+------+\n|  1 | a    |\n+----+------+\n", "mysql --batch"),
        ("| id | name |\n|---:|:-----|\n| 1 | a |\n", "write CSV"),
        ("\n ID NAME\n--- ------\n  1 a\n", "SET MARKUP CSV ON"),
    ],
)
def test_a_table_that_is_printed_for_readers_is_refused_with_its_remedy(tmp_path: Path, text: str, cure: str) -> None:
    (tmp_path / "log.txt").write_text(text)
    found = probe_file(str(tmp_path / "log.txt"))
    assert found.kind == "broken"
    assert cure in str(found.problem)
    (tmp_path / "log.csv").write_text("a,b\n---,--\n")
    assert probe_file(str(tmp_path / "log.csv")).kind == "csv"
