"""Rows of INSERT statements as tools write them, and where each begins and ends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.formats.containers import delimited, sql
from cdcwb.formats.containers.rows import FileProbe
from cdcwb.formats.containers.sql import SqlSegments, cut_sql, looks_like_dump, outline, segments
from cdcwb.formats.containers.sql_values import column, value_of
from cdcwb.formats.containers.tables import read_parts
from tests.event_logs import as_sql, rows
from tests.mutate import mutate


def array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def read(data: bytes, table: str | None = "t", backslash: bool = False) -> list[tuple[bytes, Any]]:
    """Every segment: its bytes, and its values or the reason why it has none. They have no holes."""
    found: list[tuple[bytes, Any]] = []
    end = 0
    for some in segments(array(data), len(data), table=table, backslash=backslash):
        assert some.start[0] == end
        assert all(before == after for before, after in zip(some.end[:-1], some.start[1:], strict=True))
        end = some.end[-1]
        found += _told(array(data), some, backslash)
    assert end == len(data)
    return found


def _told(data: Any, some: SqlSegments, backslash: bool) -> list[tuple[bytes, Any]]:
    said: dict[int, Any] = {gap.index: f"{gap.code or gap.kind}: {gap.reason}" for gap in some.gaps}
    for group in some.rows.values():
        width = group.starts[0].shape[1]
        columns = [group.column(data, place, "utf-8", backslash).texts.to_pylist() for place in range(width)]
        said.update(zip(np.concatenate(group.index).tolist(), zip(*columns, strict=True), strict=True))
    return [(data[a:b].tobytes(), said[at]) for at, (a, b) in enumerate(zip(some.start, some.end, strict=True))]


def cells(record: bytes) -> dict[str, Any]:
    """The values of a row; columns without a name are numbered."""
    file = FileProbe("x.sql", "sql", width=9, settings={"backslash": False})
    return {cell.name: cell.text for cell in cut_sql(record, file)}


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("'it''s'", "it's"),
        ("''", ""),
        ("N'x'", "x"),
        ("NULL", None),
        ("null", None),
        ("42", "42"),
        ("-1.50", "-1.50"),
        ("TRUE", "true"),
        ("q'[it's]'", "it's"),
        ("Q'!a'b!'", "a'b"),
        ("E'a\\'b\\n'", "a'b\n"),
        (r"E'\x41\102\xc3\xa9\f\Z\%\\''x'", "AB\xe9\fZ%\\'x"),
        ("_utf8'x'", "x"),
        ("x'AAbb'", "aabb"),
        ("0xAABB", "aabb"),
        ("TIMESTAMP '2024-01-02 03:04:05.6'", "2024-01-02 03:04:05.6"),
        ("DATE '2024-01-02'", "2024-01-02"),
        ("CAST('x' AS VARCHAR(10))", "x"),
        ("CAST(N'2024-01-02T03:04:05.000' AS DateTime)", "2024-01-02T03:04:05.000"),
        ("CAST(0xAABB AS VARBINARY(10))", "aabb"),
        ("CAST(NULL AS decimal(10, 2))", None),
        ("TO_DATE('2024-01-02 03:04:05','YYYY-MM-DD HH24:MI:SS')", "2024-01-02 03:04:05"),
        ("to_date('02.01.2024','DD.MM.YYYY')", "2024-01-02 00:00:00"),
        ("TO_DATE('01/02/2024 03:04:05 PM','MM/DD/YYYY HH:MI:SS AM')", "2024-01-02 15:04:05"),
        ("TO_TIMESTAMP('2024-01-02 03:04:05.123456789','YYYY-MM-DD HH24:MI:SS.FF9')", "2024-01-02 03:04:05.123456789"),
        ("TO_TIMESTAMP('02-JAN-24 03.04.05 PM','DD-MON-RR HH.MI.SS AM')", "02-JAN-24 03.04.05 PM"),
        ("/* note */ 'x'", "x"),
    ],
)
def test_a_literal_has_its_text(token: str, text: str | None) -> None:
    assert value_of(token) == (text, None)
    found = column(pa.array([token.encode(), b"'other'"]), "utf-8", False)
    assert found.texts.to_pylist() == [text, "other"]
    assert not found.refused


@pytest.mark.parametrize(
    "token",
    [
        *("SYSDATE", "seq.NEXTVAL", ":new.idu", "'a' || x", "USER", "'open", "GETDATE()", ""),
        *(
            "'a' || CHR(10) || 'b'",
            "CONCAT('a', 'b')",
            "CHR(55296)",
            "'a' || 'b'",
            "('x')",
            r"E'\u00e9'",
            "{ts '2024-01-02 03:04:05'}",
        ),
        *("'2024-01-02'::timestamp", "CONVERT(datetime, '2024-01-02', 120)", "CAST(0x00009CEF00A25634 AS DateTime)"),
    ],
)
def test_what_only_the_database_can_work_out_is_refused(token: str) -> None:
    found = column(pa.array([b"'x'", token.encode()]), "utf-8", False)
    assert found.texts.to_pylist() == ["x", None]
    reason = f"expected a literal, found {token or 'nothing'}, which only the database can evaluate"
    assert found.refused == {1: f"{reason}; export the table as CSV"}


def test_a_backslash_is_an_escape_where_it_is_said() -> None:
    assert column(pa.array([rb"'a\'b\\'", b"'c'"]), "utf-8", True).texts.to_pylist() == ["a'b\\", "c"]
    assert column(pa.array([rb"'a\b'"]), "utf-8", False).texts.to_pylist() == ["a\\b"]
    data = rb"INSERT INTO t VALUES (1,'a\'),(2'),(2,'b\\');"
    assert [said for _, said in read(data, backslash=True)] == [("1", "a'),(2"), ("2", "b\\")]


def test_bytes_that_are_not_in_the_character_set_are_hex() -> None:
    found = column(pa.array([b"'J\xe9'", b"'x'"]), "utf-8", False)
    assert found.texts.to_pylist() == ["4ae9", "x"]
    assert found.garbled.tolist() == [0]
    found = column(pa.array([b"'Jack'", b"'J\xe9\\''", b"q'[J\xe9]'"]), "utf-8", True)
    assert found.texts.to_pylist() == ["Jack", "4ae927", "4ae9"]
    assert found.garbled.tolist() == [1, 2]
    assert column(pa.array([rb"E'J\xe9'"]), "latin-1", False).texts.to_pylist() == ["J\xe9"]
    assert "'J\\xe9'||x" in column(pa.array([b"'J\xe9'||x"]), "utf-8", False).refused[0]


def test_a_row_owns_its_bytes() -> None:
    data = b"-- a dump\nINSERT INTO s.t (a, b) VALUES (1,'x'),\n  (2,'y') , (3,NULL)\n;  \nCOMMIT;\n"
    assert read(data) == [
        (b"-- a dump\n", "filler: comments"),
        (b"INSERT INTO s.t (a, b) VALUES (1,'x'),\n", ("1", "x")),
        (b"  (2,'y') ,", ("2", "y")),
        (b" (3,NULL)\n;  \n", ("3", None)),
        (b"COMMIT;\n", "filler: another statement"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        b"insert into T values (1,'x');",
        b'INSERT INTO "S"."T" ("A","B") VALUES (1,\'x\');',
        b"INSERT INTO `t` VALUES (1,'x') ON DUPLICATE KEY UPDATE a=1;",
        b"INSERT INTO t (a,b) VALUES (1,'x') RETURNING a;",
        b"INSERT IGNORE INTO t VALUES\n(1,'x')\n;\n",
        b"INSERT [dbo].[t] ([a], [b]) VALUES (1, N'x')\nGO\n",
        b"INSERT INTO t (a, b) OVERRIDING SYSTEM VALUE VALUES (1, 'x');",
        b"REPLACE INTO t VALUES (1,/* the value */ 'x');",
        b"INSERT INTO t VALUES (1,'x')",
    ],
)
def test_every_spelling_of_a_statement_is_read(statement: bytes) -> None:
    assert ("1", "x") in [said for _, said in read(statement)]


def test_statements_of_other_kinds_are_filler() -> None:
    others = [
        b"SET DEFINE OFF;\n",
        b"REM don't\n",
        b"PROMPT it's here\n",
        b"CREATE TABLE t (a INT, b VARCHAR(10) DEFAULT ';');\n",
        b"/\n",
        b"LOCK TABLES `t` WRITE;\n",
        b"INSERT INTO other VALUES (1,'(2,''x'')');\n",
        b"COPY other (a) FROM stdin;\n1\n\\.\n",
    ]
    for other in others:
        found = read(other + b"INSERT INTO t VALUES (1,'x');\n")
        assert found[-1][1] == ("1", "x"), other
        assert all(isinstance(said, str) and said.startswith("filler") for _, said in found[:-1]), other


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"(2)", "malformed: expected 2 values, found 1"),
        (b"(2,'a'b')", "malformed: expected a row of values, closed by a parenthesis"),
        (b"(2,'a)", "malformed: expected a row of values, closed by a parenthesis"),
        (b"(2,'a'", "malformed: expected a row of values, closed by a parenthesis"),
    ],
)
def test_damage_ends_where_a_row_or_a_statement_may_begin(bad: bytes, reason: str) -> None:
    many = b"INSERT INTO t VALUES (1,'x'),\n" + bad + b",\n(3,'z'),(4,'z');\n"
    single = b"".join(b"INSERT INTO t VALUES %b;\n" % row for row in (b"(1,'x')", bad, b"(3,'z')", b"(4,'z')"))
    for data in (many, single):
        found = read(data)
        assert [said for _, said in found if said[0] in "134"] == [("1", "x"), ("3", "z"), ("4", "z")]
        assert [said for _, said in found if isinstance(said, str)] == [reason]


def test_a_dump_that_is_cut_off_says_so() -> None:
    found = read(b"INSERT INTO t VALUES (1,'x'),(2,'y")
    assert found[-1][1].startswith("truncated: ")
    assert found[0][1] == ("1", "x")


def test_rows_that_cannot_be_read_are_no_filler() -> None:
    for data in (b"INSERT INTO t SELECT * FROM u;", b"INSRT INTO t VALUES (1);"):
        assert read(data)[0][1].startswith("malformed")


def test_rows_of_copy_are_lines_with_escapes() -> None:
    data = b"COPY s.t (a, b) FROM stdin;\n1\t\\N\n2\ta\\tb\\\\\\x41'\\101\n3\n4\t\n\\.\nSET x;\n"
    found = read(data)
    assert [said for _, said in found] == [
        ("1", None),
        ("2", "a\tb\\A'A"),
        "malformed: expected 2 fields, found 1",
        ("4", ""),
        "filler: another statement",
    ]
    assert found[0][0] == b"COPY s.t (a, b) FROM stdin;\n1\t\\N\n"
    assert found[3][0] == b"4\t\n\\.\n"
    assert read(data, backslash=True)[1][1] == found[1][1]
    assert cells(found[0][0]) == {"a": "1", "b": None}
    assert cells(found[1][0])["column_1"] == "2"


def test_a_copy_without_rows_is_filler_and_one_without_an_end_is_truncated() -> None:
    assert read(b"COPY t (a) FROM stdin;\n\\.\n") == [(b"COPY t (a) FROM stdin;\n\\.\n", "filler: a COPY without rows")]
    found = read(b"COPY t (a, b) FROM stdin;\n1\tx\n2\ty")
    assert [said for _, said in found] == [("1", "x"), "truncated: truncated: the file ends in the rows of a COPY"]
    assert [said for _, said in read(b"COPY t (a, b) FROM stdin;\n1\tx\n")] == [("1", "x")]


@pytest.mark.parametrize("form", ["insert", "copy"])
def test_long_rows_are_read_once_wherever_a_part_of_a_dump_ends(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_CHUNK_BYTES", 5000)
    monkeypatch.setattr(delimited, "_WINDOW", 4000)
    texts = ["x" * (97 * number % 1500) for number in range(60)]
    if form == "copy":
        text = "COPY t (a, b) FROM stdin;\n" + "".join(f"{at}\t{one}\n" for at, one in enumerate(texts)) + "\\.\n"
    else:
        rows_of_t = ",\n".join(f"({at},'{one}')" for at, one in enumerate(texts))
        text = f"INSERT INTO t (a, b) VALUES {rows_of_t};\n" + "".join(
            f"INSERT INTO t (a, b) VALUES ({at},'{one}');\n" for at, one in enumerate(texts)
        )
    path = tmp_path / "t.sql"
    path.write_text(text)
    file = FileProbe(str(path), "sql", ("a", "b"), 2, settings={"table": "t", "backslash": False}, size=len(text))
    for stop in range(1, len(text), 777):
        parts = list(read_parts(file, 0, stop))
        found = [row for part in parts for _, some in part.rows for row in some.text(0).to_pylist()]
        expected = [str(at) for at in range(60)] * (1 if form == "copy" else 2)
        assert found == expected[: len(found)]
        ends = [end for part in parts for end in (part.offset + part.length).tolist()]
        assert [place for part in parts for place in part.offset.tolist()] == [0, *ends[:-1]]
        assert ends[-1] >= stop


def test_rows_of_insert_all_have_the_query_at_their_end() -> None:
    data = (
        b"INSERT ALL\n  INTO t (a, b) VALUES (1, 'it''s')\n  INTO other VALUES (7)\n"
        b"  INTO t (a, b) VALUES (2)\n  INTO t (b, a) VALUES (NULL, 3)\nSELECT * FROM dual;\n"
    )
    found = read(data)
    told = [("1", "it's"), "filler: rows of other", "malformed: expected 2 values, found 1", (None, "3")]
    assert [said for _, said in found if said != "filler: white space"] == [*told, "filler: another statement"]
    assert cells(found[0][0]) == {"a": "1", "b": "it's"}
    assert list(cells(found[-2][0])) == ["b", "a"]
    assert read(b"INSERT ALL INTO t VALUES (1, 'x') INTO t VALUES (2, 'y")[0][1] == ("1", "x")


def test_an_outline_names_the_tables_and_their_first_rows() -> None:
    *_, found = outline(array(as_sql(rows(20))), "utf-8", False, 5)
    assert set(found) == {"other", "indirect.eventlog"}
    assert found["other"] == ("other", None, [("1", "x")])
    assert found["indirect.eventlog"].columns is not None
    assert found["indirect.eventlog"].columns[0] == "record_id"
    assert len(found["indirect.eventlog"].rows) == 5


def test_values_are_found_in_the_bytes_of_a_row() -> None:
    record = b"INSERT INTO t (a, b) VALUES (1, 'x,y' ),"
    assert cells(record) == {"a": "1", "b": "x,y"}


def test_what_a_dump_looks_like() -> None:
    assert looks_like_dump(array(b"-- x\nINSERT INTO t VALUES (1);\n"))
    assert looks_like_dump(array(b"\xef\xbb\xbfSET x;\nINSERT INTO t VALUES (1);\n"))
    assert looks_like_dump(array(b"COPY t (a) FROM stdin;\n1\n"))
    assert looks_like_dump(array(b"INSERT ALL INTO t VALUES (1) SELECT 1 FROM dual;\n"))
    assert looks_like_dump(array(b"tdamaged\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2);\n"))
    assert not looks_like_dump(array(b"a,b\n1,INSERT INTO t VALUES (1)\n"))
    assert not looks_like_dump(array(b""))


def test_many_damaged_dumps_have_no_holes() -> None:
    rng = random.Random(3)
    data = as_sql(rows(30))
    for _ in range(300):
        read(mutate(data, rng), table="indirect.eventlog")
