"""The settings of a publication: what is taken for what, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.xds import SETTINGS, Settings


def test_without_options_the_driver_is_as_it_comes() -> None:
    found = Settings.parse({"schema": "", "driver_user": None})
    assert found == Settings()
    assert (found.batch_size, found.query_limit, found.precedence, found.type5) == (1, 10_000, "cycle", "add")
    assert not found.allow_loopback
    assert not found.future_events


def test_every_setting_is_taken_as_text() -> None:
    found = Settings.parse(
        {
            "driver_user": "IDMDRV",
            "allow_loopback": "yes",
            "future_events": "true",
            "as_of": "2026-12-01T01:00:00+01:00",
            "batch_size": "128",
            "query_limit": "5",
            "precedence": "LOG",
            "type5": "Modify",
            "schema": "indirect",
            "class_names": "usr=User,hr.dept=Department",
            "types": "Photo:octet,usr.age=INT",
        }
    )
    assert set(SETTINGS) == {name for name in Settings.__dataclass_fields__ if name != "binary"}
    assert found == Settings(
        driver_user="IDMDRV",
        allow_loopback=True,
        future_events=True,
        as_of=dt.datetime(2026, 12, 1, tzinfo=dt.UTC),
        batch_size=128,
        query_limit=5,
        precedence="log",
        type5="modify",
        schema="indirect",
        class_names={"usr": "User", "hr.dept": "Department"},
        types={"photo": "octet", "usr.age": "int"},
    )
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:00:00.0000019Z", 1),
        (dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (dt.datetime(1970, 1, 1, 0, 0, tzinfo=dt.timezone(dt.timedelta(hours=-1))), 3_600_000_000),
    ],
)
def test_as_of_is_a_moment_in_utc_unless_it_says_otherwise(text: Any, micros: int) -> None:
    assert Settings.parse({"future_events": True, "as_of": text}).as_of_us == micros


def test_future_events_wait_for_now_where_no_other_time_is_given() -> None:
    before = dt.datetime.now(dt.UTC)
    found = Settings.parse({"future_events": "1"}).as_of
    assert found is not None
    assert before <= found <= dt.datetime.now(dt.UTC)
    assert Settings.parse({}).as_of_us is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"driveruser": "x"}, "Did you mean 'driver_user'"),
        ({"as_of": "2026-12-01"}, "only with future_events=true"),
        ({"as_of": "soon", "future_events": True}, "found 'soon'"),
        ({"as_of": "2026-13-01", "future_events": True}, "found '2026-13-01'"),
        ({"batch_size": 0}, "at least 1, found 0"),
        ({"batch_size": 129}, "1 to 128 events a document, found 129"),
        ({"query_limit": "0"}, "at least 1, found '0'"),
        ({"precedence": "poll"}, "expected one of cycle, log"),
        ({"type5": "delete"}, "expected one of add, modify"),
        ({"allow_loopback": "maybe"}, "expected true or false"),
        ({"types": "photo:structured"}, "cannot be structured"),
        ({"types": "photo:blob"}, "expected one of string, octet"),
        ({"types": "photo"}, "option types"),
        ({"class_names": {"usr": ""}}, "'usr' is given an empty name"),
        ({"class_names": {"usr": "a\x01"}}, "XML"),
        ({"schema": "a\x00b"}, "XML"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(given)
    assert said in str(refused.value)


def test_a_setting_of_many_names_is_no_path() -> None:
    names = [f"table{number}" for number in range(60)]
    given = {"types": ",".join(f"{name}:octet" for name in names), "class_names": ",".join(f"{one}=C" for one in names)}
    found = Settings.parse(given)
    assert found.types == dict.fromkeys(names, "octet")
    assert found.class_names == dict.fromkeys(names, "C")


def test_types_and_class_names_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(json.dumps({"usr.photo": "octet"}), encoding="utf-8")
    assert Settings.parse({"types": str(file)}).types == {"usr.photo": "octet"}
    assert Settings.parse({"types": '{"photo": "octet"}'}).types == {"photo": "octet"}
    assert Settings.parse({"types": "photo=octet"}).types == {"photo": "octet"}


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("usr", "PHOTO", "octet"),
        ("hr.USR", "photo", "octet"),
        ("hr.usr", "age", "int"),
        ("fin.usr", "age", "counter"),
        ("dept", "age", "time"),
        ("dept", "scan", "octet"),
        ("usr", "scan", "string"),
    ],
)
def test_the_most_exact_name_of_a_column_counts(table: str, column: str, kind: str) -> None:
    types = {"usr.photo": "octet", "hr.usr.age": "int", "usr.age": "counter", "age": "time"}
    found = Settings(types=types).with_binary(frozenset({"dept.scan", "usr.age"}))
    assert found.type_of(table, column) == kind


def test_a_table_without_a_schema_is_named_with_that_of_the_settings_too() -> None:
    given = {"schema": "hr", "types": "hr.usr.photo:octet", "class_names": "hr.usr=User,dept=Department"}
    found = Settings.parse(given)
    assert [found.type_of(name, "photo") for name in ("usr", "hr.usr", "fin.usr")] == ["octet", "octet", "string"]
    assert [found.class_of(name) for name in ("usr", "fin.usr", "hr.dept")] == ["User", "usr", "Department"]
