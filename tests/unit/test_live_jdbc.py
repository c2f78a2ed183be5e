"""Databases by their JDBC URL, without one: URLs, secrets, names of tables, ranges of ids, and what a driver says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from cdcwb.cli import main
from cdcwb.errors import CaptureError, MissingDependencyError, OptionError, SourceDownError
from cdcwb.live.addresses import JDBC_CONFIG, Address, SqlTableName, hidden, jdbc_settings
from cdcwb.live.jdbc import failure, find_id, id_ranges
from cdcwb.opening import check_capture

WORD = "planted-secret"
HEADERS = ["header__change_seq", "header__change_oper", "id"]


def test_urls() -> None:
    address = Address.parse("JDBC:postgresql://db:5432/cdc?sslmode=require")
    assert (address.url, address.scheme) == ("jdbc:postgresql://db:5432/cdc?sslmode=require", "postgresql")
    assert address.spark_url == address.url
    assert address.packages({}) == ["org.postgresql:postgresql:42.7.8"]
    assert Address.parse("jdbc:mariadb://db/cdc").spark_url == "jdbc:mysql://db/cdc?permitMysqlScheme=true"
    assert Address.parse("jdbc:mariadb://db/cdc?a=b").spark_url == "jdbc:mysql://db/cdc?a=b&permitMysqlScheme=true"
    oracle = Address.parse("jdbc:oracle:thin:@//db:1521/ORCL")
    assert oracle.driver({}) == "oracle.jdbc.OracleDriver"
    assert oracle.packages({"packages": "a:b:1, c:d:2"}) == ["a:b:1", "c:d:2"]
    for url in ("jdbc:sqlserver://db:1433;databaseName=cdc", "jdbc:informix-sqli://db:9088/cdc:INFORMIXSERVER=x"):
        assert Address.parse(url).driver({})
    with pytest.raises(OptionError, match=r"no driver is known for jdbc:other: give driver=CLASS"):
        Address.parse("jdbc:other:x").driver({})
    assert Address.parse("jdbc:other:x").driver({"driver": "a.B"}) == "a.B"
    for url in ("jdbc:", "jdbc:postgresql", "postgresql://db/cdc"):
        with pytest.raises(OptionError, match="expected a JDBC URL such as"):
            Address.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        f"jdbc:postgresql://db/cdc?user=u&password={WORD}",
        f"jdbc:postgresql://u:{WORD}@db/cdc",
        f"jdbc:mariadb://db/cdc?trustStorePassword={WORD}",
        f"jdbc:sqlserver://db;user=u;Password={WORD}",
        f"jdbc:sqlserver://db;accessToken={WORD}",
        f"jdbc:informix-sqli://db:9088/cdc:INFORMIXSERVER=x;PASSWORD={WORD}",
        f"jdbc:informix-sqli://db:9088/cdc:password={WORD}",
        f"jdbc:oracle:thin:scott/{WORD}@//db:1521/ORCL",
        f"jdbc:oracle:thin:scott/{WORD}@db:1521:ORCL",
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_quoted(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OptionError, match="must not contain a login, a password or a token") as refused:
        Address.parse(url)
    assert WORD not in str(refused.value)
    assert main(["capture", url, "--to", str(tmp_path / "to")]) == 2
    assert main(["summary", url]) == 2
    assert main(["identify", url]) == 2
    told = capsys.readouterr()
    assert WORD not in told.out + told.err
    assert "summary, export and save open a table of a database with -o dbtable=SCHEMA.TABLE" in told.err


def test_user_and_password_are_in_a_file_or_the_environment_which_wins(tmp_path: Path) -> None:
    path = tmp_path / "database.properties"
    path.write_text(f"user = reader\npassword={WORD}=%(x)s;#1\ncurrentSchema=Shop\npackages=a:b:1\n")
    given = jdbc_settings(None, {JDBC_CONFIG: str(path), "CDCWB_JDBC_USER": "other", "PATH": "x"})
    assert given == {
        "user": "other",
        "password": f"{WORD}=%(x)s;#1",
        "currentSchema": "Shop",
        "packages": "a:b:1",
    }
    assert hidden(f"bad {WORD}!", {"password": WORD, "user": "bad"}) == "bad …!"
    path.write_text(f"password {WORD}\n")
    with pytest.raises(OptionError, match="expected lines of name=value") as refused:
        jdbc_settings(path, {})
    assert WORD not in str(refused.value)


def test_what_is_opened_hides_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_JDBC_PASSWORD", WORD)
    checked = check_capture("jdbc:postgresql://db/cdc", options={"dbtable": "shop.orders__ct", "start": 7})
    assert WORD not in repr(checked)
    assert checked.table is not None
    assert (checked.table.start, checked.table.end) == ("7", None)
    assert checked.packages == ["org.postgresql:postgresql:42.7.8"]
    with pytest.raises(OptionError, match="expected the option dbtable"):
        check_capture("jdbc:postgresql://db/cdc")
    with pytest.raises(OptionError, match="opened without other paths"):
        check_capture(["jdbc:postgresql://db/cdc", "x.csv"])
    with pytest.raises(OptionError, match="start: expected an id or the first digits of a change_seq"):
        check_capture("jdbc:postgresql://db/cdc", options={"dbtable": "t", "start": "2026-01-01"})


def test_names_of_tables() -> None:
    postgresql, mariadb = Address.parse("jdbc:postgresql://db/x"), Address.parse("jdbc:mariadb://db/x")
    plain, exact = SqlTableName.parse("shop.orders__ct"), SqlTableName.parse('shop."Order ""a"".b"')
    assert (plain.label, plain.sql(postgresql)) == ("shop.orders__ct", "shop.orders__ct")
    assert (exact.label, exact.sql(postgresql)) == ('shop.Order "a".b', 'shop."Order ""a"".b"')
    assert exact.sql(mariadb) == 'shop.`Order "a".b`'
    for text in ("", "a.", ".a", "a b", "a;drop", '"a', "(select 1) q", "a..b"):
        with pytest.raises(OptionError, match=r"expected a table such as schema\.table"):
            SqlTableName.parse(text)


def test_the_id_of_a_table() -> None:
    assert find_id("shop.t", HEADERS) == "header__change_seq"
    assert find_id("shop.t", ["HEADER__CHANGE_SEQ", "A"]) == "HEADER__CHANGE_SEQ"
    assert find_id("shop.t", ["RECORD_ID", "TABLE_KEY"]) == "RECORD_ID"
    assert find_id("shop.t", ["NUMBER", "KEY"], "number") == "NUMBER"
    assert find_id("control.attrep_history", ["a"]) is None
    with pytest.raises(OptionError, match="expected a column header__change_seq or record_id, found a and b"):
        find_id("shop.t", ["a", "b"])
    with pytest.raises(OptionError, match=r"shop\.t has no column 'c'; there are a and b"):
        find_id("shop.t", ["a", "b"], "c")


def test_ranges_of_ids() -> None:
    assert id_ranges("q", "1", "10", False, 3) == ["q >= 1 AND q < 4", "q >= 4 AND q < 7", "q >= 7 AND q <= 10"]
    assert id_ranges("q", "5", "5", False, 9) == ["q >= 5 AND q <= 5"]
    assert id_ranges("q", "-3", "3", False, 2) == ["q >= -3 AND q < 0", "q >= 0 AND q <= 3"]
    assert id_ranges("q", "0098", "0101", True, 2) == ["q >= '0098' AND q < '0100'", "q >= '0100' AND q <= '0101'"]
    assert id_ranges("q", "9", "10", True, 2) == ["q >= '9' AND q <= '10'"], "texts are compared as texts"
    assert id_ranges("q", "a'b", "z", True, 4) == ["q >= 'a''b' AND q <= 'z'"]


def test_every_id_is_in_one_range() -> None:
    for low, high, parts in ((0, 99, 7), (5, 6, 4), (10**34, 10**34 + 1000, 13)):
        found = id_ranges("q", str(low), str(high), False, parts)
        edges = [(int(one.split()[2]), int(one.split()[6]), one.split()[5]) for one in found]
        assert edges[0][0] == low
        assert edges[-1][1:] == (high, "<=")
        assert all(one[1] == other[0] and one[2] == "<" for one, other in pairwise(edges))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SourceDownError, ": org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check that"),
        (SourceDownError, ": org.postgresql.util.PSQLException: FATAL: the database system is shutting down"),
        (
            SourceDownError,
            ": org.apache.spark.SparkException: Lost task: java.sql.SQLNonTransientConnectionException: Socket fail to",
        ),
        (SourceDownError, ": java.sql.SQLRecoverableException: IO Error: The Network Adapter could not establish"),
        (CaptureError, ": org.postgresql.util.PSQLException: FATAL: password authentication failed for user"),
        (
            CaptureError,
            ": java.sql.SQLInvalidAuthorizationSpecException: (conn=4) Access denied for user\nat Connection",
        ),
        (CaptureError, ': org.postgresql.util.PSQLException: ERROR: relation "nope" does not exist'),
        (MissingDependencyError, ": java.lang.ClassNotFoundException: org.postgresql.Driver"),
    ],
)
def test_what_a_driver_says(kind: type[CaptureError], text: str) -> None:
    address = Address.parse("jdbc:postgresql://db/cdc")
    found = failure(
        RuntimeError(f"An error occurred while calling o59.jdbc.\n{text} {WORD}"), address, {"password": WORD}
    )
    assert type(found) is kind
    assert found.path == address.url
    assert WORD not in str(found)


def test_what_no_driver_says_is_no_failure_of_a_database() -> None:
    assert (
        failure(RuntimeError("java.lang.NullPointerException: x"), Address.parse("jdbc:postgresql://db/x"), {}) is None
    )


def test_what_spark_keeps_from_its_message_is_in_the_stack_trace() -> None:
    said = RuntimeError("[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql:*********(redacted)")
    said._stackTrace = "\nCaused by: org.postgresql.util.PSQLException: Connection to db:1 refused."  # type: ignore[attr-defined]
    for found in (failure(said), failure(said, Address.parse("jdbc:postgresql://db/x"), {})):
        assert isinstance(found, SourceDownError)
        assert "the database does not answer (Connection to db:1 refused)" in str(found)
    assert failure(RuntimeError("Caused by: java.net.ConnectException: Connection refused")) is None, "another source's"
