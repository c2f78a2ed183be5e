"""Masks of change tables: which columns they name, and how order, offset, spelling and key are found out."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.analysis.masks import draw
from tests.local import plan_of, read

FORMAT = "qlik-change-table"
HEADERS = ("change_seq", "change_oper", "change_mask", "stream_position", "operation", "transaction_id", "timestamp")


def spell(bits: set[int], order: str = "little", how: str = "hex", trim: bool = True) -> str:
    """A mask as its bytes in order, or as a number."""
    data = sum(1 << bit for bit in bits).to_bytes(max(bits, default=-1) // 8 + 1, "little")
    data = data if trim else data + b"\0\0"
    data = data if order == "little" else data[::-1]
    return {
        "hex": data.hex(),
        "0x": f"0x{data.hex()}",
        "\\x": f"\\x{data.hex()}",
        "64": base64.b64encode(data).decode(),
    }[how]


Row = tuple[str, set[int] | None, list[str]]


def write(
    folder: Path, rows: list[Row], columns: list[str], header: int = 7, order: str = "little", **how: Any
) -> Path:
    """A change table with ``header`` header columns, change_seq, change_oper and change_mask always among them.
    ``rows``: letter, data columns in the mask (None: no mask), values."""
    names = [f"header__{name}" for name in how.pop("headers", HEADERS)[:header]]
    lines = [",".join([*names, *columns])]
    offset = how.pop("offset", header)
    for number, (letter, changed, values) in enumerate(rows):
        bits = None if changed is None else {column + offset for column in changed}
        mask = "" if bits is None else f'"{spell(bits, order, **how)}"'
        step = number - (letter == "U" and number > 0 and rows[number - 1][0] == "B")
        heads = [f"2026020304050678{step:019d}", letter, mask, *[""] * (header - 3)]
        lines.append(",".join([*heads, *values]))
    path = folder / "SHOP.STOCK__ct" / "1.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def detected(folder: Path, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["setting"]: row for row in plan_of(folder, FORMAT, **options).detected}


def changed(folder: Path, **options: Any) -> list[list[str] | None]:
    rows = read(folder, format=FORMAT, **options).to_pylist()
    return [row["changed_columns"] for row in rows if row["kind"] != "filler"]


COLUMNS = [f"C{number}" for number in range(12)]


def workload(seed: int = 1, count: int = 60, columns: list[str] = COLUMNS) -> list[Row]:
    """Inserts, pairs of before and after images, and deletes; C0 is the key."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        values = [str(rng.randrange(100)) for _ in columns]
        match rng.choice("IUD"):
            case "I":
                rows.append(("I", set(range(len(columns))), values))
            case "U":
                some = set(rng.sample(range(1, len(columns)), 2))
                after = [f"{value}!" if at in some else value for at, value in enumerate(values)]
                rows += [("B", set(), values), ("U", some, after)]
            case _:
                rows.append(("D", {0}, values))
    return rows


# --- worked examples --------------------------------------------------------------------------------------------------


def test_with_five_header_columns_the_first_data_column_is_bit_five(tmp_path: Path) -> None:
    write(
        tmp_path, [("I", {0, 1, 2}, ["1", "2", "3"]), ("U", {0, 2}, ["1", "2", "3"])], ["SKU", "QTY", "NOTE"], header=5
    )
    assert (tmp_path / "SHOP.STOCK__ct" / "1.csv").read_text(encoding="utf-8").count('"a0"') == 1
    assert changed(tmp_path) == [["SKU", "QTY", "NOTE"], ["SKU", "NOTE"]]
    assert detected(tmp_path)["mask_offset"]["value"] == "5"


def test_the_page_s_example_of_both_orders(tmp_path: Path) -> None:
    # the first and the fifth data column: bytes 20 02, or the number 0220
    columns = ["SKU", "QTY", "NOTE", "BIN", "DAY"]
    for order, text in (("little", "2002"), ("big", "0220")):
        where = tmp_path / order
        write(where, [("U", {0, 4}, list("abcde"))], columns, header=5, order=order)
        assert f'"{text}"' in (where / "SHOP.STOCK__ct" / "1.csv").read_text(encoding="utf-8")
        assert changed(where) == [["SKU", "DAY"]]
        assert detected(where)["mask_order"]["value"] == order


def test_a_public_decoder_s_example(tmp_path: Path) -> None:
    names = ",".join(f"header__{name}" for name in HEADERS)
    path = tmp_path / "t__ct.csv"
    path.write_text(f"{names},A,B,C,D,E,F,G\n,U,3a00,,,,,1,2,3,4,5,6,7\n", encoding="utf-8")
    assert changed(tmp_path) == [["C", "E", "F", "G"]]
    found = detected(tmp_path)["mask_order"]
    assert found["value"] == "big"
    assert found["evidence"] == "of 1 mask, 1 have bits of columns only, in the other order 0; e.g. 3A00"


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("how", ["hex", "0x", "\\x", "64"])
@pytest.mark.parametrize("trim", [True, False])
def test_order_offset_spelling_and_key_are_found_out(tmp_path: Path, order: str, how: str, trim: bool) -> None:
    rows = workload()
    write(tmp_path, rows, COLUMNS, order=order, how=how, trim=trim)
    expected = [[COLUMNS[at] for at in sorted(some or ())] for _, some, _ in rows]
    assert changed(tmp_path) == expected
    found = detected(tmp_path)
    assert (found["mask_order"]["value"], found["mask_offset"]["value"]) == (order, "7")
    assert found["keys"]["value"] == "C0"
    assert not any(row["overridden"] for row in found.values())
    assert ("mask_text" in found) == (how == "64")


def test_the_order_is_found_out_beside_any_header_columns(tmp_path: Path) -> None:
    more = [f"own_{number}" for number in range(23)]
    write(tmp_path, workload(), COLUMNS, header=30, order="little", headers=(*HEADERS, *more))
    found = detected(tmp_path)
    assert (found["mask_order"]["value"], found["mask_offset"]["value"]) == ("little", "30")


def test_a_thousand_columns(tmp_path: Path) -> None:
    columns = [f"C{number}" for number in range(1017)]
    rows: list[Row] = [
        ("I", set(range(1017)), ["x"] * 1017),
        ("U", {0, 500, 1016}, ["y"] * 1017),
        ("D", {3}, ["z"] * 1017),
    ]
    for order in ("big", "little"):
        write(tmp_path / order, rows, columns, order=order)
        found = read(tmp_path / order, format=FORMAT).to_pylist()[1:]
        assert found[0]["changed_columns"] == columns
        assert found[1]["changed_columns"] == ["C0", "C500", "C1016"]
        assert dict(found[2]["key"]) == {"C3": "z"}
        assert [row["problems"] for row in found] == [None, None, None]
        assert len(bytes.fromhex(found[0]["change_mask"])) == 128


# --- what tells -------------------------------------------------------------------------------------------------------


def test_masks_that_count_header_columns_which_were_not_exported(tmp_path: Path) -> None:
    rows = workload(seed=2)
    write(tmp_path, rows, COLUMNS, header=4, offset=7)
    found = detected(tmp_path)
    assert found["mask_offset"]["value"] == "7"
    assert found["mask_offset"]["evidence"].startswith("the masks do not count the 4 header columns")
    assert changed(tmp_path) == [[COLUMNS[at] for at in sorted(some or ())] for _, some, _ in rows]


def test_before_images_tell_the_order_where_bits_alone_do_not(tmp_path: Path) -> None:
    # 8 header columns and 8 data columns in a mask of three bytes: 00 08 00 reads the same both ways but for its middle
    columns = [f"C{number}" for number in range(16)]
    rows: list[Row] = [("B", None, ["1"] * 16), ("U", {0}, ["2", *["1"] * 15])]
    path = write(tmp_path, rows, columns, header=4) / "SHOP.STOCK__ct" / "1.csv"
    text = path.read_text(encoding="utf-8")
    for order, mask in (("little", "100000"), ("big", "000010"), ("big", "0010"), ("little", "1000")):
        path.write_text(text.replace('"10"', f'"{mask}"'), encoding="utf-8")
        assert detected(tmp_path)["mask_order"]["value"] == order
        assert changed(tmp_path) == [None, ["C0"]]


@pytest.mark.parametrize(("how", "order"), [("hex", "big"), ("0x", "little"), ("\\x", "little")])
def test_where_nothing_tells_the_usual_order_of_the_spelling_is_assumed(tmp_path: Path, how: str, order: str) -> None:
    write(tmp_path, [("B", set(), ["1"]), ("D", None, ["1"])], ["A"], how=how)
    found = detected(tmp_path)["mask_order"]
    assert found["value"] == order
    assert found["evidence"].startswith("no mask has a bit set; ")
    assert found["evidence"].endswith(" is assumed")


def test_binary_masks_are_taken_in_order_unless_they_contradict(tmp_path: Path) -> None:
    for order in ("little", "big"):
        rows = [
            {
                "header__change_oper": letter,
                "header__change_mask": bytes.fromhex(spell({column + 2 for column in some or ()}, order)),
                **dict(zip(COLUMNS, values, strict=True)),
            }
            for letter, some, values in workload()
        ]
        where = tmp_path / order
        where.mkdir()
        pq.write_table(pa.Table.from_pylist(rows), where / "t__ct.parquet")
        assert detected(where)["mask_order"]["value"] == order
        assert changed(where)[:5] == [[COLUMNS[at] for at in sorted(some or ())] for _, some, _ in workload()[:5]]


def test_a_table_whose_masks_tell_nothing_has_the_order_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, workload(), COLUMNS, order="little")
    other = tmp_path / "SHOP.SMALL__ct" / "1.csv"
    other.parent.mkdir()
    other.write_text("header__change_oper,header__change_mask,A\nU,04,1\n", encoding="utf-8")
    rows = [row for row in plan_of(tmp_path, FORMAT).detected if row["setting"] == "mask_order"]
    assert {row["scope"]: row["value"] for row in rows} == {"SHOP.STOCK": "little", "SHOP.SMALL": "little"}
    small = next(row for row in rows if row["scope"] == "SHOP.SMALL")
    assert small["evidence"] == "its masks are ambiguous; those of 1 other table decide it"


def test_tables_may_differ(tmp_path: Path) -> None:
    write(tmp_path, workload(), COLUMNS, order="little")
    write(tmp_path / "x", workload(), COLUMNS, order="big", how="0x")
    (tmp_path / "x" / "SHOP.STOCK__ct").rename(tmp_path / "SHOP.OTHER__ct")
    rows = [row for row in plan_of(tmp_path, FORMAT).detected if row["setting"] == "mask_order"]
    assert {row["scope"]: row["value"] for row in rows} == {"SHOP.STOCK": "little", "SHOP.OTHER": "big"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["C0", "C9"]),  # 800001: bits 7 and 16
        ({"mask_order": "big"}, []),  # bits 0 and 23: a header column, and none at all
        ({"mask_order": "little", "mask_offset": 4}, ["C3"]),
        ({"mask_order": "big", "mask_offset": 0}, ["C0"]),
        ({"mask_text": "base64"}, None),  # six characters are no base64, so they are digits
        ({"mask_text": "hex"}, ["C0", "C9"]),
    ],
)
def test_options_override_what_was_found(tmp_path: Path, options: dict[str, Any], expected: list[str] | None) -> None:
    write(tmp_path, [("U", {0, 9}, ["1"] * 12)], COLUMNS)
    assert changed(tmp_path, **options) == [["C0", "C9"] if expected is None else expected]
    found = detected(tmp_path, **options)
    for name, value in options.items():
        assert (found[name]["value"], found[name]["evidence"]) == (str(value), "given as an option")
        assert found[name]["overridden"]


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_bits_of_header_columns_and_beyond_the_last_are_told_and_the_others_count(tmp_path: Path) -> None:
    rows = workload()
    write(tmp_path, [*rows, ("U", {0, 11}, ["1"] * 12)], COLUMNS)
    path = tmp_path / "SHOP.STOCK__ct" / "1.csv"
    text = path.read_text(encoding="utf-8").replace('"800004"', '"820014"')
    path.write_text(text, encoding="utf-8")
    last = read(tmp_path, format=FORMAT).to_pylist()[-1]
    assert last["changed_columns"] == ["C0", "C11"]
    assert [problem["detail"] for problem in last["problems"]] == [
        "change_mask 820014: expected none of the bits of 7 header columns, found bit 1",
        "change_mask 820014: expected bits below 19, found others",
    ]


def test_what_is_no_mask_is_told_and_null_is_none(tmp_path: Path) -> None:
    write(tmp_path, [("U", {1}, ["1"] * 12), ("U", None, ["1"] * 12), ("B", set(), ["1"] * 12)], COLUMNS)
    path = tmp_path / "SHOP.STOCK__ct" / "1.csv"
    path.write_text(path.read_text(encoding="utf-8").replace('"0001"', '"?"'), encoding="utf-8")
    rows = read(tmp_path, format=FORMAT).to_pylist()[1:]
    assert [row["changed_columns"] for row in rows] == [None, None, []]
    assert [row["change_mask"] for row in rows] == ["?", None, ""]
    assert [problem["code"] for problem in rows[0]["problems"]] == ["mask"]


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_mask_is_drawn_in_the_form_that_its_table_has_and_by_the_ordinals_of_columns() -> None:
    mask = {"table": "T", "operation": "UPDATE", "change_mask": "AAAA", "changes": 1, "table_version": "T@1"}
    version = {"table_version": "T@1", "columns": [{"ordinal": 1, "name": "a"}, {"ordinal": 3, "name": "c"}]}
    form = {"scope": "T", "setting": "mask_text", "value": "base64"}
    (drawn,) = draw([mask | {"changed_columns": []}], [version], [form])
    assert [(bit.column, bit.kind, bit.is_set) for bit in drawn.bits] == [
        ("a", "data", False),
        (None, "data", False),
        ("c", "data", False),
    ]


def test_a_key_is_never_guessed(tmp_path: Path) -> None:
    # deleted rows whose masks disagree, or mark every column, tell no key
    disagree: list[Row] = [("D", {number % 3}, ["1"] * 12) for number in range(9)]
    everything: list[Row] = [("D", set(range(12)), ["1"] * 12) for _ in range(9)]
    for number, rows in enumerate((disagree, everything, [("I", set(range(12)), ["1"] * 12)])):
        where = write(tmp_path / str(number), rows, COLUMNS)  # type: ignore[arg-type]
        assert "keys" not in detected(where)
        assert {str(row["key"]) for row in read(where, format=FORMAT).to_pylist()} == {"None"}


def test_given_keys_override_what_masks_tell(tmp_path: Path) -> None:
    write(tmp_path, workload(), COLUMNS)
    for name in ("SHOP.STOCK", "STOCK", "shop.stock"):
        options = {"keys": f"{name}:C3+C1"}
        assert detected(tmp_path, **options)["keys"] == {
            "scope": "SHOP.STOCK",
            "setting": "keys",
            "value": "C3+C1",
            "evidence": "given as an option",
            "overridden": True,
        }
        rows = read(tmp_path, format=FORMAT, **options).to_pylist()[1:]
        assert {tuple(name for name, _ in row["key"]) for row in rows} == {("C3", "C1")}
