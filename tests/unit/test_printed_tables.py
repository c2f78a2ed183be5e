"""Tables that clients print for readers: they are refused with the command that gives CSV, also if the format is
given."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb.capture import load
from cdcwb.errors import CaptureError
from cdcwb.formats import identify

PSQL = """\
 record_id | table_key | status | event_type | table_name | column_name | old_value | new_value
-----------+-----------+--------+------------+------------+-------------+-----------+-----------
         1 | id=1      | N      |          1 | boat       | name        |           | Ann
(1 row)
"""
SQLPLUS = """\
 CHANGE_SEQ CHANGE_OPER NAME
---------- ----------- ----------
         1 I           Ann
"""
MARKDOWN = """\
| change_seq | change_oper | name |
| --- | :---: | ---: |
| 1 | I | Ann |
"""
TABLES = {"psql": PSQL, "sqlplus": SQLPLUS, "markdown": MARKDOWN}


@pytest.mark.parametrize("name", TABLES)
def test_a_printed_table_is_refused_with_the_command_that_writes_csv(tmp_path: Path, name: str) -> None:
    file = tmp_path / "rows.txt"
    file.write_text(TABLES[name])
    with pytest.raises(CaptureError, match=r"printed for readers.*FORMAT csv.*SET MARKUP CSV ON"):
        identify(file)


@pytest.mark.parametrize("format", ["idm-event-log", "qlik-change-table", "sqlserver-ct"])
@pytest.mark.parametrize("name", TABLES)
def test_no_row_of_a_printed_table_is_read_by_a_given_format(tmp_path: Path, name: str, format: str) -> None:
    file = tmp_path / "rows.txt"
    file.write_text(TABLES[name])
    capture = load(file, format=format)
    events = capture.rows("events", ("kind", "length")).table()
    assert set(events["kind"].to_pylist()) <= {"malformed", "filler"}
    assert sum(events["length"].to_pylist()) == file.stat().st_size
    sentences = capture.rows("problems", ("sentence",)).table()["sentence"].to_pylist()
    assert any("printed for readers" in sentence for sentence in sentences)


def test_lines_of_dashes_are_values_if_the_delimiter_is_given(tmp_path: Path) -> None:
    file = tmp_path / "boat__ct.txt"
    file.write_text("header__change_seq|header__change_oper|name\n1|I|Ann\n-|-|-\n")
    capture = load(file, format="qlik-change-table", delimiter="|")
    assert capture.rows("changes", ("after",)).table()["after"].to_pylist()[0] == [("name", "Ann")]


def test_text_without_header_columns_is_not_a_healthy_change_table(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("hello world\nthis is text\n")
    problems = load(file, format="qlik-change-table").rows("problems", ("code", "sentence")).table().to_pylist()
    assert [row["code"] for row in problems] == ["inferred"]
    assert "no file has header columns or a side file" in problems[0]["sentence"]
