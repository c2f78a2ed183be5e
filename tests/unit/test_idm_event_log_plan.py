"""What a plan says of a log: which column is which, what is NULL, which tables there are, and on what evidence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.errors import CaptureError, MalformedRecordError, OptionError
from cdcwb.formats import FORMATS, choose, get_format, identify
from cdcwb.formats.dissector import Pairing
from cdcwb.formats.idm_event_log.layout import COLUMNS, OLDER_ORDER
from tests.event_logs import CONTAINERS, Row, as_csv, as_sql, ordered, rows, write
from tests.local import plan_of, read

FORMAT = "idm-event-log"


REDUCED = ("event_type", "table_name", "table_key", "column_name", "old_value", "new_value")


def detected(plan: Any) -> dict[str, tuple[str, str, bool]]:
    """Setting -> value, evidence, was it given? Of several rows the first."""
    return {row["setting"]: (row["value"], row["evidence"], row["overridden"]) for row in reversed(plan.detected)}


def write_rows(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_format_is_as_its_contract_says() -> None:
    form = get_format(FORMAT)
    assert (form.name, form.row_times, form.pairing, form.commits) == (FORMAT, True, Pairing.OBJECT, False)
    assert "keys" not in form.options


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_is_recognised_and_no_other_format_claims_it(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(30))
    for name in FORMATS:
        sure = get_format(name).recognise([str(path)], {}).confidence
        assert (sure > 0.95) if name == FORMAT else (sure < 0.5)
    assert choose([str(path)], "auto", {})[0].name == FORMAT
    shape = {"tsv": "csv", "older": "csv", "bare": "csv", "array": "json", "xlsx": "excel"}.get(container, container)
    assert identify(path).shape == shape


def test_other_tables_are_not_recognised(tmp_path: Path) -> None:
    form = get_format(FORMAT)
    others = {
        "shop.csv": b"id,name,price\n1,apple,2.5\n",
        "change.csv": b"header__change_seq,header__change_oper,id\n2023,I,1\n",
        "message.json": b'{"magic":"atMSG","type":"DT","message":{"data":{}}}\n',
        "shop.sql": b"INSERT INTO shop VALUES (1,'apple');\n",
        "doc.xml": b"<nds><input/></nds>\n",
        "empty.csv": b"",
    }
    for name, data in others.items():
        path = write_rows(tmp_path / name, data)
        assert form.recognise([str(path)], {}).confidence < 0.5, name


@pytest.mark.parametrize("container", CONTAINERS)
def test_files_say_what_holds_the_rows_and_how_many_there_are(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(30))
    form, plan = get_format(FORMAT), plan_of(path, FORMAT)
    (entry,) = form.files(plan)
    count = 31 if container == "xlsx" else 30  # with the header line of the sheet
    assert (entry["file"], entry["size"], entry["rows"]) == (str(path), path.stat().st_size, count)
    assert (entry["compression"], entry["problem"]) == (None, None)


def test_both_published_orders_are_told_apart_by_content(tmp_path: Path) -> None:
    for names, word in ((COLUMNS, "newer"), (OLDER_ORDER, "older")):
        path = write_rows(tmp_path / f"{word}.csv", as_csv(rows(30), names, None))
        value, evidence, given = detected(plan_of(path, FORMAT))["columns"]
        assert word in evidence
        assert "100%" in evidence
        assert not given
        assert value.startswith("record_id=column_1")


def test_free_names_are_told_by_position_and_by_map(tmp_path: Path) -> None:
    free = [f"x{place}" for place in range(10)]
    path = write_rows(tmp_path / "log.csv", as_csv(rows(30), OLDER_ORDER, free))
    assert [dict(row["headers"]) for row in read(path, format=FORMAT).to_pylist()[1:]] == rows(30)
    given = dict(zip(OLDER_ORDER, free, strict=True))
    plan = plan_of(path, FORMAT, columns=given)
    assert detected(plan)["columns"][2] is True
    assert plan.files[0].labels == given


def test_columns_that_cannot_be_told_are_an_error_that_names_the_option(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.csv", b"a,b\n1,2\n")
    with pytest.raises(CaptureError, match=r"2 columns with names that are not the vendor's .* option columns"):
        plan_of(path, FORMAT)


def test_another_text_beside_an_event_log_is_a_malformed_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "log.csv", as_csv(rows(3)))
    write_rows(tmp_path / "README.md", b"# Notes\n\nOf the shop,\non Monday,\n")
    events = read(tmp_path, format=FORMAT).to_pylist()
    assert [(Path(row["file"]).name, row["kind"]) for row in events] == [
        *[("log.csv", kind) for kind in ("filler", "change", "change", "change")],
        ("README.md", "malformed"),
    ]
    assert events[-1]["problems"][0]["detail"].endswith("assign the columns with the option columns")


def reduced(found: list[Row]) -> bytes:
    """The six columns of the documentation, NULL as text."""
    lines = [",".join(["event_type", "table", *REDUCED[2:]])]
    lines += [",".join("NULL" if one is None else one for one in row) for row in ordered(found, REDUCED)]
    return "".join(f"{line}\n" for line in lines).encode()


def plain_rows() -> list[Row]:
    found = [row for row in rows(80) if '"' not in (row["table_key"] or "")]
    return [
        {**row, "old_value": "old" if row["old_value"] else None, "new_value": "new" if row["new_value"] else None}
        for row in found
    ]


def test_reduced_forms_are_filled_and_said_to_be(tmp_path: Path) -> None:
    found = plain_rows()
    path = write_rows(tmp_path / "log.csv", reduced(found))
    plan = plan_of(path, FORMAT)
    said = detected(plan)
    columns = [row["value"] for row in plan.detected if row["setting"] == "columns"]
    assert columns[1:] == ["record_id is the number of the row", "status is N"]
    assert said["null_text"][0] == "'NULL' and empty, without quotes"
    assert "where only NULL is valid" in said["null_text"][1]
    events = [row for row in read(path, format=FORMAT).to_pylist() if row["kind"] == "change"]
    assert [dict(row["headers"]) for row in events] == [{name: row[name] for name in REDUCED} for row in found]
    assert [int(row["position"]) for row in events] == list(range(1, len(found) + 1))
    missing = {row["sentence"].split(",")[0] for row in plan.problems}
    assert "expected a column event_time" in missing


def test_a_quoted_null_is_a_text(tmp_path: Path) -> None:
    data = as_csv([{**dict.fromkeys(COLUMNS), **row} for row in rows(1)])
    data += (
        b'5,idu=1,N,1,2024-01-01 00:00:00,,usr,fname,"NULL",x\n6,idu=1,N,2,2024-01-01 00:00:00,,usr,fname,a,"NULL"\n'
    )
    path = write_rows(tmp_path / "log.csv", data)
    last = [dict(row["headers"]) for row in read(path, format=FORMAT).to_pylist()][-1]
    assert last["new_value"] == "NULL"
    assert detected(plan_of(path, FORMAT))["null_text"][0] == "empty, without quotes"


@pytest.mark.parametrize("text", ["NULL", "-", "none"])
def test_the_text_of_null_is_an_option(tmp_path: Path, text: str) -> None:
    data = b"record_id,table_key,status,event_type,column_name,old_value,new_value\n"
    data += b'1,idu=1,N,2,fname,%b,"%b"\n2,idu=1,N,2,fname,,x\n' % (text.encode(), text.encode())
    path = write_rows(tmp_path / "log.csv", data)
    table = read(path, format=FORMAT, null_text=text).to_pylist()
    values = [(dict(row["headers"])["old_value"], dict(row["headers"])["new_value"]) for row in table[1:]]
    assert values == [("none" if text == "none" else None, text), (None, "x")]


@pytest.mark.parametrize("container", CONTAINERS)
def test_tables_and_their_columns_are_told_by_the_rows(tmp_path: Path, container: str) -> None:
    found = rows(60)
    path = write(tmp_path, container, found)
    form: Any = get_format(FORMAT)
    versions = form.table_versions(plan_of(path, FORMAT, split_size=500)).to_pylist()
    assert {row["table_version"] for row in versions} == {"usr@1", "i.usr@1"}
    assert {row["origin"] for row in versions} == {"inferred"}
    for version in versions:
        table = "usr" if version["schema_name"] is None else "i.usr"
        mine = [row for row in found if row["table_name"] == table]
        named = list(dict.fromkeys(row["column_name"] for row in mine if row["column_name"]))
        keyed = [column["name"] for column in version["columns"] if column["key_position"]]
        assert [column["name"] for column in version["columns"] if not column["key_position"]] == named
        assert set(keyed) == {"idu", "name", "no"}


def test_a_schema_is_for_tables_that_are_named_without_one(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", rows(40))
    form: Any = get_format(FORMAT)
    plan = plan_of(path, FORMAT, schema="i")
    assert form.table_versions(plan).column("table_version").to_pylist() == ["i.usr@1"]
    events = read(path, format=FORMAT, schema="i")
    assert set(events.column("table_version").to_pylist()) == {None, "i.usr@1"}
    assert detected(plan)["schema"] == ("i", "given as an option", True)


def test_the_order_of_record_ids_is_a_fact(tmp_path: Path) -> None:
    found = rows(40)
    shuffled = [*found[20:], *found[:20]]
    for container, size in (("csv", 1 << 20), ("csv", 300), ("sql", 300)):
        assert plan_of(write(tmp_path / "a", container, found), FORMAT, split_size=size).facts["behind"] == 0
        assert plan_of(write(tmp_path / "b", container, shuffled), FORMAT, split_size=size).facts["behind"]


def test_a_zone_is_assumed_and_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", rows(1))
    value, evidence, given = detected(plan_of(path, FORMAT))["time_zone"]
    assert (value, given) == ("UTC", False)
    assert "has no zone" in evidence
    first, other = read(path, format=FORMAT), read(path, format=FORMAT, time_zone="+02:00")
    times = [table.column("changed_at")[-1].as_py() for table in (first, other)]
    assert (times[0] - times[1]).total_seconds() == 7200


def test_failfast_stops_at_the_first_record_that_is_none(tmp_path: Path) -> None:
    good = as_csv(rows(10))
    path = write_rows(tmp_path / "log.csv", good + b"too,few\n" + as_csv(rows(3), header=None))
    with pytest.raises(MalformedRecordError, match="expected 10 fields, found 2") as error:
        plan_of(path, FORMAT, mode="FAILFAST")
    assert error.value.offset == len(good)


def test_the_table_of_a_dump_is_told_by_its_columns_or_given(tmp_path: Path) -> None:
    data = as_sql(rows(20)) + as_sql(rows(7), columns=False, table="archive")
    path = write_rows(tmp_path / "dump.sql", data)
    assert detected(plan_of(path, FORMAT))["sql_table"][0] == "indirect.eventlog"
    archive = read(path, format=FORMAT, sql_table="Archive")
    assert sum(row["kind"] == "change" for row in archive.to_pylist()) == 7
    with pytest.raises(OptionError, match=r"no table 'archiv' with rows. Did you mean 'archive'\?"):
        plan_of(path, FORMAT, sql_table="archiv")


def test_a_dump_of_mysql_has_backslashes_that_are_escapes(tmp_path: Path) -> None:
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    data = "-- MySQL dump 10.13\nINSERT INTO `log` (%s) VALUES (1,'idu=1','N',1,NULL,NULL,'usr','a',NULL,'it\\'s');\n"
    path = write_rows(tmp_path / "dump.sql", (data % names).encode())
    assert dict(read(path, format=FORMAT).to_pylist()[-1]["after"]) == {"a": "it's"}
    assert detected(plan_of(path, FORMAT))["backslash"] == ("true", "a dump of MySQL (dump.sql)", False)


def test_a_compressed_dump_and_an_empty_file_are_read(tmp_path: Path) -> None:
    packed = write_rows(tmp_path / "dump.sql.gz", gzip.compress(as_sql(rows(20))))
    assert plan_of(packed, FORMAT).files[0].size == len(as_sql(rows(20)))
    assert sum(row["kind"] == "change" for row in read(packed, format=FORMAT).to_pylist()) == 20
    empty = write_rows(tmp_path / "empty.csv", b"")
    assert read(empty, format=FORMAT).num_rows == 0
    header = write_rows(tmp_path / "header.csv", as_csv([]))
    assert read(header, format=FORMAT).column("kind").to_pylist() == ["filler"]


def test_a_compressed_file_that_is_cut_off_is_a_problem_that_names_the_file(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.csv.gz", gzip.compress(as_csv(rows(2000)))[:-200])
    plan = plan_of(path, FORMAT)
    assert [(row["code"], row["file"]) for row in plan.problems] == [("truncated", str(path))]
    assert plan.problems[0]["sentence"].startswith("the gzip data is cut off")
    assert 100 < read(path, format=FORMAT).num_rows < 2000


def test_rows_of_a_table_with_free_names_are_told_by_content_or_given() -> None:
    form: Any = get_format(FORMAT)
    free = [f"x{place}" for place in range(10)]
    schema = pa.schema([(name, pa.string()) for name in free])
    assert form.recognise_rows(schema).confidence == 0
    columns = [pa.array(range(30)), *map(pa.array, zip(*ordered(rows(30), OLDER_ORDER), strict=True))]
    table = pa.table(columns, names=["_row", *free])

    def run(look: Any) -> list[bytes]:
        return [look(iter(table.to_batches()))]

    plan = form.plan_rows("log", schema, run, {})
    assert plan.files[0].labels["table_key"] == "x6"
    given = form.plan_rows("log", schema, run, {"columns": dict(zip(OLDER_ORDER, free, strict=True))})
    assert given.files[0].labels == plan.files[0].labels
    with pytest.raises(CaptureError, match="option columns"):
        form.plan_rows("log", pa.schema([("a", pa.string())]), lambda look: [], {})
