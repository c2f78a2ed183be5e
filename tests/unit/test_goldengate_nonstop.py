"""Records of a NonStop as Logdump prints them: their transaction ids and their bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdcwb.formats import get_format
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.goldengate.contents import typed_rows
from cdcwb.formats.goldengate.tree import dissect
from tests.local import plan_of, read

NAME = "\\WEST.$DATA2.SHOP.STOCK"
TRANSACTION = "TRANSID     : \\WEST(3).1.8120044  (5112004460022714368)\n"


def printed_hex(data: bytes) -> str:
    """Bytes in upper-case hex, 20 a line, with a pane of text."""
    lines = []
    for at in range(0, len(data), 20):
        part = data[at : at + 20]
        groups = " ".join(part[i : i + 2].hex().upper() for i in range(0, len(part), 2))
        lines.append(f"{groups:<50}| " + "".join(chr(b) if 32 <= b < 127 else "." for b in part) + "\n")
    return "".join(lines)


def record(
    body: bytes,
    rba: int = 4096,
    name: str = NAME,
    operation: str = "FieldComp",
    image: str = "After ",
    more: str = "",
) -> str:
    """One record without a header block."""
    return (
        f"2014/06/21 11:12:13.456.789 {operation:<20} Len {len(body):5} RBA {rba}\nName: {name}\n"
        f"{image} Image:                                             Partition 0\n{more}{printed_hex(body)}"
    )


def events(folder: Path, *texts: str, **options: Any) -> list[dict[str, Any]]:
    path = folder / "session.txt"
    path.write_text("".join(texts), encoding="utf-8")
    return [row for row in read(path, format="goldengate", **options).to_pylist() if row["kind"] != "filler"]


BODY = bytes.fromhex("0000 0004") + b"KEY1" + bytes.fromhex("0002 0006") + b"pebble"


def test_the_line_transid_is_the_transaction_id(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        record(BODY, 4096, more=TRANSACTION),
        record(BODY, 4196, more=TRANSACTION),
        record(BODY, 4296, more=TRANSACTION.replace("8120044  (5112004460022714368)", "8120045")),
        record(BODY, 4396),
    )
    ids = ["\\WEST(3).1.8120044"] * 2 + ["\\WEST(3).1.8120045", None]
    assert [row["transaction_id"] for row in rows] == ids
    headers = [dict(row["headers"]) for row in rows]
    assert [one.get("TRANSID") for one in headers] == ids
    assert [one.get("TRANSID number") for one in headers] == ["5112004460022714368"] * 2 + [None, None]
    assert not any("TRANID" in one for one in headers)
    assert not any(problem["code"] == "header_value" for row in rows for problem in row["problems"] or ())


def test_a_token_comes_before_the_line_transid(tmp_path: Path) -> None:
    token = "\nGGS tokens:\nTokenID x36 '6' TRANID           Info x00  Length    6\n 342e 352e 3637 | 4.5.67\n"
    (row,) = events(tmp_path, record(BODY, more=TRANSACTION), token)
    headers = dict(row["headers"])
    assert (row["transaction_id"], headers["TRANID"], headers["TRANSID"]) == ("4.5.67", "4.5.67", "\\WEST(3).1.8120044")


def test_the_field_tree_names_the_transaction() -> None:
    tree = dissect(record(BODY, more=TRANSACTION).encode())
    values = {field.name: field.value for field in tree.walk()}
    assert values["TRANSID"] == "\\WEST(3).1.8120044"
    assert values["TRANSID number"] == "5112004460022714368"


@pytest.mark.samples
def test_the_published_transaction_of_a_nonstop_is_named(samples: Path, tmp_path: Path) -> None:
    text = (samples / "goldengate" / "logdump-docs-tmfbeforeimage-nonstop-pair.txt").read_text(encoding="utf-8")
    (row,) = events(tmp_path, text[text.index("2011/", 5) :])
    assert row["transaction_id"] == "\\NY(2).0.7022034"


# --- bodies -----------------------------------------------------------------------------------------------------------


def column(index: int, data: bytes, order: Any = "big") -> bytes:
    return index.to_bytes(2, order) + len(data).to_bytes(2, order) + data


def row(key: str, city: str, state: str, order: Any = "big") -> bytes:
    parts = (key.ljust(4), city.ljust(20), state)
    return b"".join(column(at, text.encode(), order) for at, text in zip((0, 2, 3), parts, strict=True))


def detected(folder: Path, **options: Any) -> dict[str, tuple[str, str]]:
    plan = plan_of(folder / "session.txt", format="goldengate", **options)
    return {one["setting"]: (one["value"], one["evidence"]) for one in plan.detected}


def codes(event: dict[str, Any]) -> list[str]:
    return [one["code"] for one in event["problems"] or ()]


ROWS = [("K1", "BERGEN", "NO"), ("K22", "OULU", "FI"), ("LONG", "REYKJAVIK", "IS")]


@pytest.mark.parametrize("name", [NAME, "$DATA2.SHOP.STOCK"])
def test_bodies_of_a_nonstop_are_big_endian_columns_without_null_indicators(tmp_path: Path, name: str) -> None:
    texts = [record(row(*one), 4096 + 100 * at, name) for at, one in enumerate(ROWS)]
    rows = events(tmp_path, *texts)
    assert [dict(one["after"]) for one in rows] == [dict(zip(("c0", "c2", "c3"), one, strict=True)) for one in ROWS]
    assert not any(codes(one) for one in rows)
    found = detected(tmp_path)
    assert found["byte_order"] == ("big", "3 records from a NonStop, which writes big-endian.")


def test_records_of_a_nonstop_and_of_another_system_are_read_by_their_own_rules(tmp_path: Path) -> None:
    other = column(0, b"\0\0\2\0ab", "little") + column(2, b"\xff\xff", "little")
    rows = events(tmp_path, record(row(*ROWS[0])), record(other, 5000, "SHOP.STOCK"))
    assert [dict(one["after"]) for one in rows] == [{"c0": "K1", "c2": "BERGEN", "c3": "NO"}, {"c0": "ab", "c2": None}]
    assert detected(tmp_path)["byte_order"][0] == "little"


def test_a_body_of_a_nonstop_that_is_not_big_endian_columns_has_no_values(tmp_path: Path) -> None:
    (found,) = events(tmp_path, record(row(*ROWS[0], "little")))
    assert (found["before"], found["after"], codes(found)) == (None, None, ["row_size"])
    assert found["problems"][0]["detail"] == (
        "from byte 0 on the data are not big-endian columns without null indicators, as a NonStop writes them, "
        "so none of its values are decoded"
    )
    assert b"4B31" in found["raw"]


def test_a_record_that_shows_no_nonstop_has_a_null_indicator_in_every_column(tmp_path: Path) -> None:
    (found,) = events(tmp_path, record(row(*ROWS[0]), name="SHOP.STOCK"))
    assert (found["after"], codes(found)) == (None, ["value"] * 3)
    assert "null_indicators" not in detected(tmp_path)


@pytest.mark.samples
def test_the_published_bodies_of_a_nonstop_are_read(samples: Path, tmp_path: Path) -> None:
    text = (samples / "goldengate" / "logdump-docs-tmfbeforeimage-nonstop-pair.txt").read_text(encoding="utf-8")
    second = text.index("2011/", 5)
    for part, city, state in ((text[:second], "SEATTLE", "WA"), (text[second:], "NEW YORK", "NY")):
        (found,) = events(tmp_path, part)
        assert dict(found["after"] or found["before"]) == {"c0": "ANN", "c2": city, "c3": state}
        assert not codes(found)
        assert detected(tmp_path)["byte_order"][0] == "big"


DEFGEN = """*
Definition for table {name}
Record length: 60
Syskey: 0
Columns: 5
ID     132  4  0 0 0 0 0  4  4  4 0 0 0 0 1 0 1 0
CODE     0  4  4 0 0 0 0  4  4  4 0 0 0 0 1 0 0 0
CITY     0  8  8 0 0 1 0  8  8  8 0 0 0 0 1 0 0 0
NOTE    64 20 18 0 0 1 0 20 20  0 0 0 0 0 1 0 0 0
PRICE  134  8 40 2 0 1 0  8  8  8 0 0 0 0 1 0 0 0
End of definition
"""


@pytest.fixture
def defined(tmp_path: Path) -> Path:
    path = tmp_path / "stock.def"
    path.write_text(DEFGEN.format(name=NAME), encoding="utf-8")
    return path


def test_with_a_definition_a_null_indicator_is_never_read_as_part_of_a_value(tmp_path: Path, defined: Path) -> None:
    fixed = column(0, (7).to_bytes(4, "big")) + column(1, b"AB  ")
    good = column(2, b"OULU    ") + column(3, b"\0\5hello") + column(4, (1234).to_bytes(8, "big"))
    some = column(2, b"\0\0OULU    ") + column(3, b"\0\0\0\5hello") + column(4, b"\0\0" + (1234).to_bytes(8, "big"))
    none = column(2, b"\xff\xff        ") + column(3, b"\xff\xff") + column(4, b"\xff\xff" + bytes(8))
    texts = [record(fixed + one, 4096 + 100 * at) for at, one in enumerate((good, some, none))]
    rows = events(tmp_path, *texts, definitions=str(defined))
    assert [dict(one["after"]) for one in rows] == [
        {"ID": "7", "CODE": "AB", "CITY": "OULU", "NOTE": "hello", "PRICE": "12.34"},
        {"ID": "7", "CODE": "AB"},
        {"ID": "7", "CODE": "AB"},
    ]
    assert [codes(one) for one in rows] == [[], ["value"] * 3, ["value"] * 3]


def test_a_value_that_is_a_problem_is_in_no_image(tmp_path: Path) -> None:
    body = column(0, b"KEY1") + column(1, b"\0\0\xf0\0\1") + column(2, b"\0\0\0\x2a") + column(4, b"\1\2\3")
    (found,) = events(tmp_path, record(body))
    assert dict(found["after"]) == {"c0": "KEY1", "c2": "42"}
    assert [one["detail"].partition(":")[0] for one in found["problems"]] == ["c1", "c4"]


def test_a_wrong_null_indicator_among_right_ones_takes_only_its_own_column_away(tmp_path: Path) -> None:
    right = column(0, b"\0\0\0\4KEY1") + column(1, b"\0\0\0\3abc")
    wrong = column(0, b"\0\0\0\4KEY2") + column(1, b"\0\1\0\3abc")
    texts = [record(body, 4096 + 100 * at, "SHOP.STOCK") for at, body in enumerate((right, wrong, right))]
    rows = events(tmp_path, *texts)
    whole = {"c0": "KEY1", "c1": "abc"}
    assert [dict(one["after"]) for one in rows] == [whole, {"c0": "KEY2"}, whole]
    assert [codes(one) for one in rows] == [[], ["value"], []]
    assert "null_indicators" not in detected(tmp_path)


def test_a_body_that_does_not_end_with_a_column_has_no_values(tmp_path: Path) -> None:
    texts = [record(row(*one), 4096 + 100 * at) for at, one in enumerate(ROWS)]
    rows = events(tmp_path, *texts, record(row(*ROWS[0]) + b"?", 6000))
    assert rows[-1]["after"] is None
    (problem,) = rows[-1]["problems"]
    assert problem["detail"].startswith("from byte 38 on the data are not big-endian columns without null indicators")


def test_a_body_that_fits_in_both_byte_orders_has_no_values(tmp_path: Path) -> None:
    body = column(0, b"\0\0".ljust(0x0101, b"a")) + column(0x0202, b"\0\0".ljust(0x0202, b"b"))
    (found,) = events(tmp_path, record(body, name="SHOP.STOCK"))
    assert (found["after"], codes(found)) == (None, ["row_size"])
    assert "option byte_order" in found["problems"][0]["detail"]
    value, evidence = detected(tmp_path)["byte_order"]
    assert (value, "No values are decoded" in evidence) == ("unknown", True)
    (found,) = events(tmp_path, record(body, name="SHOP.STOCK"), byte_order="little")
    assert dict(found["after"]) == {"c0": "61" * 0x00FF, "c514": "62" * 0x0200}


def test_a_nonstop_is_big_endian_where_nothing_else_tells(tmp_path: Path) -> None:
    (found,) = events(tmp_path, record(column(0, b"a" * 0x0101)))
    assert dict(found["after"]) == {"c0": "a" * 0x0101}
    value, evidence = detected(tmp_path)["byte_order"]
    assert (value, evidence) == ("big", "1 record from a NonStop, which writes big-endian.")


def test_other_bodies_of_the_capture_tell_the_byte_order_of_one_that_fits_in_both(tmp_path: Path) -> None:
    both = record(column(0, b"\0\0".ljust(0x0101, b"a")), name="SHOP.STOCK")
    rows = events(tmp_path, both, record(column(0, b"\0\0\2\0ab", "little"), 6000, "SHOP.STOCK"))
    assert [dict(one["after"]) for one in rows] == [{"c0": "61" * 0x00FF}, {"c0": "ab"}]
    assert detected(tmp_path)["byte_order"][0] == "little"


def test_typed_tables_have_what_the_maps_have(tmp_path: Path, defined: Path) -> None:
    good = column(0, (7).to_bytes(4, "big")) + column(2, b"OULU    ") + column(4, (1234).to_bytes(8, "big"))
    bad = column(0, (8).to_bytes(4, "big")) + column(2, b"\0\0OUL") + column(4, b"\xff\xff" + bytes(8))
    path = tmp_path / "session.txt"
    path.write_text(record(good) + record(bad, 5000), encoding="utf-8")
    options = {"format": "goldengate", "definitions": str(defined)}
    request = TableRequest("STOCK")
    schema = get_format("goldengate").table_schema(plan_of(path, **options), request)
    rows = pa.Table.from_batches(typed_rows(read(path, **options).to_batches(), schema)).to_pylist()
    assert [one["after"]["ID"] for one in rows] == [7, 8]
    assert [one["after"]["CITY"] for one in rows] == ["OULU", None]
    assert [str(one["after"]["PRICE"]) for one in rows] == ["12.34", "None"]


# --- the field tree and the maps --------------------------------------------------------------------------------------


def values_of(tree: Any) -> dict[str, str | None]:
    """The values of a field tree that no problem is reported of, the first of each column."""
    out: dict[str, str | None] = {}
    seen = set()
    for section in tree.children:
        for one in section.children if section.name == "data" else ():
            if one.children and one.name not in seen:
                seen.add(one.name)
                if one.problem is None:
                    out[one.name] = one.value
    return out


VALUES = st.one_of(
    st.text("ab 1-", max_size=6).map(str.encode),
    st.sampled_from([2, 4, 8]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    st.integers(0, 70000).map(lambda number: number.to_bytes(4, "big")),
    st.text("ab", max_size=4).map(lambda text: b"\0\0" + text.encode()),
    st.just(b"\xff\xff"),
    st.binary(max_size=5),
)
BODIES = st.lists(st.tuples(st.integers(0, 5), VALUES), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.data())
def test_the_field_tree_says_what_the_maps_say_on_damaged_text_too(tmp_path: Path, data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(["big", "little"]))
    name = data.draw(st.sampled_from([NAME, "SHOP.STOCK"]))
    bodies = data.draw(st.lists(BODIES, min_size=1, max_size=4))
    text = "".join(
        record(b"".join(column(index, value, order) for index, value in sorted(body)), 4096 + 1000 * at, name)
        for at, body in enumerate(bodies)
    )
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.sampled_from("0f|\n 7X")) + text[place + 1 :]
    path = tmp_path / "session.txt"
    path.write_bytes(text.encode())
    (bodies,) = plan_of(path, format="goldengate").shared.bodies
    for one in read(path, format="goldengate").to_pylist():
        if one["kind"] != "change":
            continue
        raw = one["raw"]
        tree = dissect(raw, None, bodies)
        assert values_of(tree) == dict(one["after"] or one["before"] or ())


def test_inspect_shows_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(record(row(*ROWS[0])) + record(column(0, b"\1\2\3"), 5000), encoding="utf-8")
    field = get_format("goldengate").inspect(str(path), 5, {}).field
    assert values_of(field) == {"c0": "K1", "c2": "BERGEN", "c3": "NO"}
    assert not any(one.name == "null indicator" for one in field.walk())
    last = get_format("goldengate").inspect(str(path), path.stat().st_size - 5, {})
    assert any(one.name == "c0" and one.problem == "value" for one in last.field.walk())
    assert "after" not in last.event
