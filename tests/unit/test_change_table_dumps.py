"""Change tables in dumps of SQL statements: the same rows as in other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb.errors import OptionError
from cdcwb.formats import get_format, identify, inspect
from tests.local import ledger, plan_of, read

CT = """USE [shop]
GO
INSERT [cdc].[dbo_Orders_CT] ([__$start_lsn], [__$operation], [__$update_mask], [OrderId], [Status])
 VALUES (0x0000002D000000A80003, 2, 0x03, 1, N'it''s new')
GO
INSERT [cdc].[dbo_Orders_CT] ([__$start_lsn], [__$operation], [__$update_mask], [OrderId], [Status])
 VALUES (0x0000002D000000A90003, 3, 0x02, 1, N'it''s new')
GO
INSERT [cdc].[dbo_Orders_CT] ([__$start_lsn], [__$operation], [__$update_mask], [OrderId], [Status])
 VALUES (0x0000002D000000A90003, 4, 0x02, 1, NULL)
GO
"""
QLIK = r"""-- MySQL dump 10.13
INSERT INTO `customers` (`id`) VALUES (1);
INSERT INTO `Orders__ct` (`header__change_seq`,`header__change_oper`,`header__change_mask`,`Id`,`Note`) VALUES
('20260203080000000000000000000000001','I',0x18,12,'a\nb'),
('20260203080001000000000000000000002','B',0x10,12,'a\nb'),
('20260203080001000000000000000000002','U',0x10,12,'c'),
('20260203080002000000000000000000003','D',0x18,12,CURRENT_USER());
"""


def test_a_script_of_sql_server_is_a_change_table(tmp_path: Path) -> None:
    path = tmp_path / "script.sql"
    path.write_text(CT)
    found = identify(path)
    assert (found.format, found.shape) == ("sqlserver-ct", "sql")
    events = read(path, format="sqlserver-ct")
    assert ledger(events) == {str(path): len(CT)}
    insert, before, after = (row for row in events.to_pylist() if row["kind"] != "filler")
    assert (insert["schema_name"], insert["table_name"]) == ("dbo", "Orders")
    assert dict(insert["after"]) == {"OrderId": "1", "Status": "it's new"}
    assert (before["position"], after["changed_columns"]) == (after["position"], ["Status"])
    assert dict(after["after"]) == {"OrderId": "1", "Status": None}
    tree = inspect(path, before["offset"])
    assert {field.name: field.value for field in tree.field.children}["Status"] == "it's new"
    for size in (64, 200, 300):
        assert read(path, format="sqlserver-ct", split_size=size).drop(["raw"]) == events.drop(["raw"])


def test_a_script_in_utf_16_as_sql_server_s_tools_save_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(CT)
    (tmp_path / "unicode.sql").write_bytes(CT.encode("utf-16"))
    one, other = (read(tmp_path / name, format="sqlserver-ct").drop(["file"]) for name in ("script.sql", "unicode.sql"))
    assert one == other


def test_a_dump_of_mysql_has_the_table_whose_columns_are_those_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text(QLIK)
    assert identify(path).format == "qlik-change-table"
    rows = [row for row in read(path, format="qlik-change-table").to_pylist() if row["kind"] != "filler"]
    assert [row["record_type"] for row in rows] == ["I", "B", "U", None]
    assert rows[3]["problems"][0]["detail"].startswith("Note: expected a literal, found CURRENT_USER()")
    assert [dict(row["after"] or row["before"])["Note"] for row in rows[:3]] == ["a\nb", "a\nb", "c"]
    assert rows[2]["changed_columns"] == ["Note"]
    assert plan_of(path, "qlik-change-table").versions[0].table_version == "Orders@1"


def test_a_dump_without_a_change_table_is_none(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text("INSERT INTO customers (id) VALUES (1);\n")
    for name in ("sqlserver-ct", "qlik-change-table"):
        assert get_format(name).recognise([str(path)], {}).confidence < 0.5


def test_the_table_of_a_dump_is_an_option(tmp_path: Path) -> None:
    path = tmp_path / "script.sql"
    path.write_text(CT + CT.replace("dbo_Orders_CT", "dbo_Items_CT"))
    for table, name in ((None, "Orders"), ("cdc.dbo_items_ct", "Items"), ("dbo_Items_CT", "Items")):
        given = {} if table is None else {"sql_table": table}
        plan = plan_of(path, "sqlserver-ct", **given)
        assert plan.versions[0].table_name == name
        (row,) = (row for row in plan.detected if row["setting"] == "sql_table")
        assert row["overridden"] is (table is not None)
    with pytest.raises(OptionError, match=r"option sql_table: there is no table 'others' with rows"):
        plan_of(path, "sqlserver-ct", sql_table="others")
