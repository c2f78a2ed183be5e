"""Tables as they are now: how they are found and read, and which of their rows a key is about."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.errors import CaptureError
from cdcwb.xds import Snapshot
from cdcwb.xds.rows import CURRENT, State


def asked(*rows: tuple[int, str, str, str | None]) -> pa.Table:
    """Query-back rows: type, table_name, table_key, column_name."""
    names = ["type", "table_name", "table_key", "column_name"]
    kinds = [pa.int32(), pa.string(), pa.string(), pa.string()]
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)], names)


def current(snapshot: Snapshot, key: str, table: str = "usr") -> dict[str, str | None] | None:
    """The attributes of an object, or None where it is not there."""
    rows = asked((6, table, key, None))
    (state,) = snapshot.states(rows).tolist()
    found = snapshot.current(rows)
    assert found.type == CURRENT
    (values,) = found.to_pylist()
    assert state in (State.THERE, State.ABSENT)
    assert (state == State.THERE) == bool(values)
    return {one["name"]: one["value"] for one in values} if values else None


def test_values_are_text_that_loses_nothing_and_bytes_are_base64() -> None:
    table = pa.table(
        {
            "idu": pa.array([1]),
            "text": ["  a "],
            "none": pa.array([None], pa.string()),
            "photo": [b"\xbb\xbb"],
            "fixed": pa.array([b"\xaa\xaa"], pa.binary(2)),
            "big": pa.array([2**62]),
            "price": pa.array([Decimal("10.50")], pa.decimal128(9, 2)),
            "share": [0.1],
            "yes": [True],
            "day": [dt.date(2026, 12, 1)],
            "at": pa.array([dt.datetime(2026, 12, 1, 10, 0, 0, 5)], pa.timestamp("us")),
            "word": pa.array(["x"]).dictionary_encode(),
        }
    )
    assert current(Snapshot.of({"usr": table}), "idu=1") == {
        "text": "  a ",
        "none": None,
        "photo": "u7s=",
        "fixed": "qqo=",
        "big": "4611686018427387904",
        "price": "10.50",
        "share": "0.1",
        "yes": "true",
        "day": "2026-12-01",
        "at": "2026-12-01T10:00:00.000005",
        "word": "x",
    }
    assert Snapshot.of({"HR.Usr": table}).binary == {"usr.photo", "usr.fixed"}


@pytest.mark.parametrize(
    ("keys", "key", "found"),
    [
        (pa.array([1, 2]), "idu=2", "b"),
        (pa.array([1, 2]), "IDU=002", "b"),
        (pa.array([1, 2]), "pk_idu= 2", "b"),
        (pa.array([1, 2]), "idu=3", None),
        (pa.array([1, None]), "idu=", None),
        (pa.array([Decimal("1.00"), Decimal("20.00")], pa.decimal128(9, 2)), "idu=20", "b"),
        (pa.array([1.0, 1.5]), "idu=1.50", "b"),
        (pa.array([-1, 0]), "idu=0.0", "b"),
        (pa.array(["1", "2"]), "idu=2", "b"),
        (pa.array(["1", "2"]), "idu=02", None),
        (pa.array(["x", "b   "]), "idu=b", "b"),
        (pa.array(["x", "b"]), "idu= b", "b"),
        (pa.array(["b ", " b"]), "idu=b", None),
        (pa.array([" b", "b"]), "idu=b", "b"),
        (pa.array(["x", ", ; ' + \" = \\ < >"]), 'idu=", ; \' + \\" = \\\\ < >"', "b"),
        (pa.array(["b", "b"]), "idu=b", "a"),
    ],
)
def test_a_key_is_the_row_whose_values_it_has(keys: pa.Array, key: str, found: str | None) -> None:
    """Numbers as numbers, texts as they are or else without blanks where that is one row, the first of several."""
    snapshot = Snapshot.of({"usr": pa.table({"idu": keys, "name": ["a", "b"]})})
    if key == "idu=":
        assert snapshot.states(asked((6, "usr", key, None))).tolist() == [State.UNKNOWN]
        return
    assert current(snapshot, key) == (None if found is None else {"name": found})


def test_keys_of_several_columns_in_any_order() -> None:
    table = pa.table({"b": [1, 1, 2, None], "pk_a": ["x", "y", "x", "z"], "n": ["1", "2", "3", "4"]})
    snapshot = Snapshot.of({"usr": table})
    assert current(snapshot, "pk_a=x+b=2") == {"n": "3"}
    assert current(snapshot, "b=1+a=y") == {"n": "2"}
    assert current(snapshot, "b=2+a=y") is None
    assert current(snapshot, "b=1+a=z") is None
    rows = asked((6, "usr", "pk_a=x+b=2", None), (6, "usr", "pk_a=z", None), (8, "usr", "a=y+b=1", "n"))
    assert snapshot.states(rows).tolist() == [State.THERE] * 3
    assert [[one["value"] for one in row] for row in snapshot.current(rows).to_pylist()] == [["3"], [None, "4"], ["2"]]


def test_key_columns_are_no_attributes_however_they_are_spelled() -> None:
    table = pa.table({"PK_IDU": [1], "fname": ["x"], "idu": ["1"]})
    assert current(Snapshot.of({"usr": table}), "sv_idu=1") == {"fname": "x"}


def test_states_of_a_snapshot() -> None:
    snapshot = Snapshot.of(
        {
            "usr": pa.table({"idu": [1, 2], "Fname": ["x", "\x01"], "lname": ["y", "y"]}),
            "link": pa.table({"a": [1]}),
            "bad": pa.table({"a": [1], "na\x00me": [None], "good": ["x"]}),
        }
    )
    rows = asked(
        (6, "usr", "idu=1", None),
        (5, "usr", "idu=3", None),
        (6, "usr", "idu=2", None),
        (8, "usr", "idu=2", "lname"),
        (8, "usr", "idu=2", "FNAME"),
        (7, "usr", "idu=1", "nick"),
        (7, "usr", "idu=3", "nick"),
        (7, "usr", "idu=1", "PK_IDU"),
        (6, "usr", "id=1", None),
        (6, "link", "a=1", None),
        (6, "other", "a=1", None),
        (6, "bad", "a=1", None),
        (8, "bad", "a=1", "good"),
    )
    wanted = ["THERE", "ABSENT", "CHARACTER", "THERE", "CHARACTER", "NO_COLUMN", "ABSENT", "NO_ATTRIBUTE", "NO_KEY"]
    wanted += ["NO_ATTRIBUTE", "UNKNOWN", "CHARACTER", "THERE"]
    assert [State(int(state)).name for state in snapshot.states(rows)] == wanted
    names = [[one["name"] for one in row] for row in snapshot.current(rows).to_pylist()]
    assert names[0] == ["Fname", "lname"]
    assert names[4] == ["FNAME"]


@pytest.mark.parametrize(
    ("tables", "asked_for", "found"),
    [
        (["usr"], "usr", "usr"),
        (["usr", "USR"], "USR", "USR"),
        (["USR"], "usr", "USR"),
        (["usr"], "hr.usr", "usr"),
        (["HR.USR"], "usr", "HR.USR"),
        (["hr.usr", "fin.usr"], "usr", None),
        (["hr.usr", "fin.usr"], "fin.usr", "fin.usr"),
        (["hr.usr"], "fin.usr", None),
        (["usr"], "dept", None),
    ],
)
def test_a_table_is_found_by_its_name(tables: list[str], asked_for: str, found: str | None) -> None:
    snapshot = Snapshot.of({name: pa.table({"idu": [1]}) for name in tables})
    table = snapshot.find(asked_for)
    assert (table.name if table else None) == found


ROWS_OF_USR = [{"idu": "1", "fname": "John", "note": None}, {"idu": "2", "fname": 'J, "D"', "note": ""}]


def _write_csv(path: Path) -> None:
    path.write_text('idu,fname,note\r\n1,John,\r\n2,"J, ""D""",""\r\n', encoding="utf-8")


def _write_tsv(path: Path) -> None:
    path.write_text('idu\tfname\tnote\n1\tJohn\t\n2\t"J, ""D"""\t""\n', encoding="utf-8")


def _write_json(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS_OF_USR), encoding="utf-8")


def _write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS_OF_USR), path)


def _write_excel(path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(list(ROWS_OF_USR[0]))
    for row in ROWS_OF_USR:
        book.active.append([int(row["idu"] or 0), row["fname"], row["note"]])
    book.save(path)
    book.close()


WRITERS = {
    "csv": _write_csv,
    "tsv": _write_tsv,
    "jsonl": _write_json,
    "parquet": _write_parquet,
    "xlsx": _write_excel,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_snapshot_is_read_from_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"usr.{suffix}"
    WRITERS[suffix](path)
    snapshot = Snapshot.read({"usr": path})
    assert current(snapshot, "idu=1") == {"fname": "John", "note": None}
    assert current(snapshot, "idu=2") == {"fname": 'J, "D"', "note": None if suffix == "xlsx" else ""}
    again = pickle.loads(pickle.dumps(snapshot))
    assert current(again, "idu=1") == {"fname": "John", "note": None}


def test_texts_in_parquet_that_are_not_text_are_refused(tmp_path: Path) -> None:
    garbled = pa.array([b"J\xe9"]).view(pa.string())
    pq.write_table(pa.table({"idu": [1], "fname": garbled}), tmp_path / "usr.parquet")
    with pytest.raises(CaptureError, match="Invalid UTF8"):
        Snapshot.read({"usr": str(tmp_path / "usr.parquet")})


def test_bytes_in_parquet_are_bytes_of_the_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"idu": [1], "photo": [b"\xbb\xbb"]}), tmp_path / "usr.parquet")
    snapshot = Snapshot.read({"usr": str(tmp_path / "usr.parquet")})
    assert current(snapshot, "idu=1") == {"photo": "u7s="}
    assert snapshot.binary == {"usr.photo"}


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "usr"
    folder.mkdir()
    for part in range(3):
        pq.write_table(pa.table({"idu": [part], "fname": [f"n{part}"]}), folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").touch()
    assert current(Snapshot.read({"usr": folder}), "idu=2") == {"fname": "n2"}


def test_the_text_of_null_is_what_one_says(tmp_path: Path) -> None:
    (tmp_path / "usr.csv").write_text("idu,fname,lname\n1,NULL,\n", encoding="utf-8")
    assert current(Snapshot.read({"usr": tmp_path / "usr.csv"}), "idu=1") == {"fname": "NULL", "lname": None}
    told = Snapshot.read({"usr": tmp_path / "usr.csv"}, null_text="NULL")
    assert current(told, "idu=1") == {"fname": None, "lname": ""}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"idu,fname\n1,x,y\n", "found 3"),
        ("a.csv", b"idu,fname\n1,\xff\n", "character set utf-8"),
        ("a.parquet", b"PAR1 and no more", ""),
        ("missing.csv", None, ""),
        ("folder", None, "empty folder"),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    with pytest.raises(CaptureError) as refused:
        Snapshot.read({"usr": path})
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_columns_need_a_name_each() -> None:
    with pytest.raises(CaptureError, match="a name each"):
        Snapshot.of({"usr": pa.table([[1], [2]], ["a", "a"])})


def test_an_empty_table_has_nobody() -> None:
    empty: dict[str, Any] = {"idu": pa.array([], pa.int64()), "fname": pa.array([], pa.string())}
    assert current(Snapshot.of({"usr": pa.table(empty)}), "idu=1") is None
    assert Snapshot.of({}).states(asked((6, "usr", "idu=1", None))).tolist() == [State.UNKNOWN]
    assert Snapshot.of({"usr": pa.table(empty)}).current(asked()).to_pylist() == []
