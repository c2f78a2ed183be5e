"""Event logs as dumps of SQL statements: no dump crashes or stops the reader, and nothing is read that is not a row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.limits import Ran, run_each

HEAD = (
    "INSERT INTO log (record_id, table_key, status, event_type, event_time, perpetrator, table_name, column_name,"
    " old_value, new_value) VALUES "
)


def row(number: int, value: str) -> str:
    """A row whose new_value is written so."""
    return f"({number}, 'idu={number}', 'N', 1, TIMESTAMP '2025-01-02 03:04:05', 'ann', 'usr', 'name', NULL, {value})"


def insert(number: int, value: str = "'x'") -> str:
    """A statement of one row."""
    return f"{HEAD}{row(number, value)};\n"


BEFORE = "".join(map(insert, range(1, 6)))
AFTER = "".join(map(insert, range(6, 11)))

VALUES = {
    "casts": "'x'" + "::text" * 1_200,
    "nested casts": "CAST(" * 20_000 + "'x'" + " AS TEXT)" * 20_000,
    "parentheses": "(" * 100_000 + "'x'" + ")" * 100_000,
    "blanks before a type": "CAST('x' AS" + " " * 150_000 + "!)",
    "blanks after a value": "'x'" + " " * 150_000 + "y",
    "blanks after a prefix": "_utf8" + " " * 150_000 + "y",
    "half of a surrogate pair": "CHR(55296)",
    "CHR": "'a' || CHR(233)",
    "CONCAT": "CONCAT('a', 'b')",
    "a format of blanks": f"TO_DATE('{' ' * 3_000}', '{' ' * 90}YYYY') || x",
    "two strings of Oracle's": "q'[a]' || x || q'[b]'",
}
"""Values that only the database can evaluate, or that are too deep."""

TAILS = {
    "comments": "/*" * 100_000,
    "comments of lines": "/*\n" * 100_000,
    "heads": "INSERT /*\n" * 50_000,
    "strings": f"{HEAD}('\n" * 2_000,
    "escaped quotes": "UPDATE \\'\n" * 50_000 + "INSERT INTO log VALUES (\\'\n" * 20_000,
    "Oracle's strings": "INSERT INTO log VALUES (q'[\n" * 20_000,
    "COPY": "COPY x (a) FROM stdin;\n" * 20_000,
    "newlines": "UPDATE x SET y = 1" + "\n" * 300_000 + "z",
    "columns": f"INSERT INTO log ({','.join(f'c{at}' for at in range(100_000))}) VALUES (1);\n",
    "routines": "ALTER FUNCTION f() OWNER TO x;\n" * 5_000,
}
"""What follows the rows, and needs a look at each byte only once."""

FORMATS = {
    "a part twice": "TO_DATE('2025 2025', 'YYYY YYYY')",
    "two years": "TO_DATE('2025 2025', 'YYYY RRRR')",
}
"""Times in formats that are not known, whose text is kept."""


ROUTINES = {
    "Oracle": f"CREATE OR REPLACE PROCEDURE p AS\nBEGIN\n  BEGIN {insert(90)}  END;\n{insert(91)}END;\n/\n",
    "SQL Server": f"CREATE PROCEDURE p AS\n{insert(90)}{insert(91)}GO\n",
    "PostgreSQL": f"CREATE FUNCTION f() RETURNS void AS $body$\nBEGIN\n{insert(90)}END;\n$body$ LANGUAGE plpgsql;\n",
    "MySQL": f"DELIMITER $$\nCREATE PROCEDURE p()\nBEGIN\n{insert(90)}END$$\nDELIMITER ;\n",
    "a block with branches": f"BEGIN\n  IF 1 = 2 THEN\n{insert(90)}  END IF;\nEND;\n/\n",
    "declarations": f"DECLARE\n  n NUMBER;\nBEGIN\n{insert(90)}END;\n/\n",
}

WITHOUT_END = f"{BEFORE}CREATE TRIGGER t AFTER UPDATE ON usr BEGIN\n{insert(90)}END;\n{AFTER}"
BLOCK = (
    "CREATE TABLE event (a INT);\nCREATE TRIGGER t AFTER UPDATE ON usr EXECUTE FUNCTION f();\n"
    f"BEGIN\nDELETE FROM log;\n{BEFORE}{insert(11, repr('IF x'))}END;\n/\n{AFTER}"
)


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Ran]:
    """The summaries of dumps with each of these."""
    folder = tmp_path_factory.mktemp("dumps")
    dumps = {name: BEFORE + insert(99, value) + AFTER for name, value in (VALUES | FORMATS).items()}
    dumps |= {f"tail of {name}": ("-- MySQL dump\n" + BEFORE + tail) for name, tail in TAILS.items()}
    dumps |= {name: BEFORE + routine + AFTER for name, routine in ROUTINES.items()}
    dumps |= {"without end": WITHOUT_END, "block": BLOCK}
    commands: list[list[str | Path]] = []
    for at, text in enumerate(dumps.values()):
        path = folder / f"{at}.sql"
        path.write_text(text)
        commands.append(["summary", path, "--json"])
    return dict(zip(dumps, run_each(commands), strict=True))


@pytest.mark.parametrize("name", VALUES)
def test_a_row_with_a_value_that_is_not_known_is_malformed(name: str, summaries: Mapping[str, Ran]) -> None:
    found = summaries[name]
    assert found.is_read, found.error
    assert found.facts["events_by_kind"] == {"change": 10, "malformed": 1}
    assert "new_value: expected a literal, found " in found.sentences
    assert found.sentences.endswith("export the table as CSV")


@pytest.mark.parametrize("name", FORMATS)
def test_a_time_in_an_unknown_format_keeps_its_text(name: str, summaries: Mapping[str, Ran]) -> None:
    assert summaries[name].is_read, summaries[name].error
    assert summaries[name].facts["events_by_kind"] == {"change": 11}


@pytest.mark.parametrize("name", TAILS)
def test_time_grows_with_the_size_alone(name: str, summaries: Mapping[str, Ran]) -> None:
    found = summaries[f"tail of {name}"]
    assert found.is_read, found.error
    assert found.facts["changes"] == 5


@pytest.mark.parametrize("name", ROUTINES)
def test_statements_in_routines_are_not_rows(name: str, summaries: Mapping[str, Ran]) -> None:
    found = summaries[name]
    assert found.is_read, found.error
    assert (found.facts["changes"], found.facts["events_by_kind"]["malformed"]) == (10, 1)
    assert found.facts["last_position"] == f"{10:019}"
    assert "a routine: the INSERT statements in it are not rows; export the table alone" in found.sentences


def test_nothing_is_read_after_a_routine_without_a_known_end(summaries: Mapping[str, Ran]) -> None:
    found = summaries["without end"]
    assert found.is_read, found.error
    assert found.facts["changes"] == 5
    assert "a routine, whose end is unknown: nothing that follows is read" in found.sentences


def test_rows_in_an_anonymous_block_are_read(summaries: Mapping[str, Ran]) -> None:
    found = summaries["block"]
    assert found.is_read, found.error
    assert found.facts["changes"] == 11
    assert not found.facts["events_by_kind"].get("malformed")
