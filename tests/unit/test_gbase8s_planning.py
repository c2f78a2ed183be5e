"""The plan of a capture: options, what is detected and on what evidence, table versions, and what crosses splits."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.errors import CaptureError, MalformedRecordError, OptionError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.gbase8s.plan import OPTIONS, Options
from tests import wire
from tests.local import ledger, plan_of, read

# one transaction that adds an elm and takes away an oak
ROWS = [
    wire.begin(5, 0x10),
    wire.insert(5, 0x50, 3, "elm"),
    wire.insert(5, 0x90, 4, "oak", number=41),
    wire.commit(5, 0xD0),
]
TEXT = "n integer, goods varchar(40,0)"


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(records))
    return path


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The row events, images as dictionaries."""
    return [
        {**row, **{name: None if row[name] is None else dict(row[name]) for name in ("before", "after", "headers")}}
        for row in table.to_pylist()
        if row["operation"] is not None
    ]


def images(table: pa.Table) -> list[tuple[Any, Any]]:
    return [(row["before"], row["after"]) for row in rows(table)]


def codes(table: pa.Table) -> list[list[str]]:
    """The problems of each row."""
    return [[problem["code"] for problem in row["problems"] or ()] for row in rows(table)]


def detected(path: Path, setting: str, **options: object) -> tuple[str, str, bool]:
    """Value, evidence and whether an option decided it."""
    (row,) = [row for row in plan_of(path, **options).detected if row["setting"] == setting]
    return row["value"], row["evidence"], row["overridden"]


ELM, OAK = {"n": "3", "goods": "elm"}, {"n": "4", "goods": "oak"}


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"charst": "gbk"}, "unknown option 'charst' for gbase8s. Did you mean 'charset'?"),
        ({"chraset": "gbk", "lables": "1=a"}, "unknown option 'lables' for gbase8s. Did you mean 'labels'?"),
        ({"charset": "utf-9"}, "option charset: unknown character set 'utf-9'"),
        ({"charset": "hex"}, "option charset: unknown character set 'hex'"),
        ({"byte_order": "middle"}, "option byte_order: expected one of auto, little, big, found 'middle'"),
        ({"prefix_width": 3}, "option prefix_width: expected one of auto, 1, 2, found 3"),
        ({"shape": "hexdmp"}, "found 'hexdmp'. Did you mean 'hexdump'?"),
        ({"reads": "lines"}, "found 'lines'. Did you mean 'line'?"),
        ({"mode": "FAILFASTER"}, "found 'FAILFASTER'. Did you mean 'FAILFAST'?"),
        ({"buffer_size": "much"}, "option buffer_size: expected a whole number of at least 16, found 'much'"),
        ({"buffer_size": 15}, "at least 16, found 15"),
        ({"split_size": 0}, "at least 64, found 0"),
        ({"labels": "131"}, "option labels: '131' is neither a=x,b=y nor a JSON file"),
        ({"labels": "131=a,132"}, "expected a=x,b=y, found '132'"),
        ({"labels": "elm=a"}, "the label 'elm' is not a 32-bit number"),
        ({"labels": "4294967296=a,101=a"}, "the label '4294967296' is not a 32-bit number"),
        ({"labels": '{"131": 5}'}, "expected a JSON object of texts"),
        ({"labels": "{"}, "not valid JSON"),
        ({"schemas": {"elm": TEXT}}, "the label 'elm' is not a 32-bit number"),
    ],
)
def test_a_wrong_option_is_named_with_what_there_is(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse(given)
    assert said in str(caught.value)


def test_a_side_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"nowhere\.json"):
        Options.parse({"schemas": str(tmp_path / "nowhere.json")})


def test_options_are_texts_or_what_they_mean() -> None:
    given = Options.parse(
        {"prefix_width": "1", "buffer_size": "4096", "mode": "failfast", "labels": " 1 = shop.goods "}
    )
    assert (given.prefix_width, given.buffer_size, given.mode) == (1, 4096, "FAILFAST")
    assert given.labels == {1: ("shop", "goods")}
    assert Options.parse(dict.fromkeys(OPTIONS)) == Options(given=frozenset())
    assert Options.parse({"byte_order": "auto", "prefix_width": "auto"}).byte_order is None


def test_every_option_has_a_meaning_and_is_taken(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", wire.goods(), *ROWS)
    values = {
        "charset": "utf-8",
        "byte_order": "little",
        "prefix_width": "2",
        "shape": "binary",
        "reads": "none",
        "buffer_size": "",
        "labels": "131=goods",
        "schemas": "",
        "split_size": "64",
        "inflate_limit": "64GB",
        "mode": "DROPMALFORMED",
        "images": "true",
        "keys": "goods:n",
    }
    assert values.keys() == OPTIONS.keys()
    assert all(OPTIONS.values())
    assert images(read(file, **values)) == [(None, ELM), (OAK, None)]


# --- byte order and prefix width --------------------------------------------------------------------------------------


def _sized(order: str, width: int) -> list[bytes]:
    """A capture of a server that writes size words in this order and VARCHAR lengths in so many bytes."""
    insert = wire.row(40, 5, 0x50, b"\0\0\0\3", [wire.varchar("elm", width)], order="<" if order == "little" else ">")
    delete = wire.row(41, 5, 0x90, b"\0\0\0\4", [wire.varchar("oak", width)], order="<" if order == "little" else ">")
    return [wire.goods(), ROWS[0], insert, delete, ROWS[3]]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("width", [1, 2])
def test_byte_order_and_prefix_width_are_detected_with_their_evidence(tmp_path: Path, order: str, width: int) -> None:
    file = write(tmp_path / "a.bin", *_sized(order, width))
    table = read(file)
    assert images(table) == [(None, ELM), (OAK, None)]
    assert codes(table) == [[], []]
    value, evidence, overridden = detected(file, "byte_order")
    assert (value, overridden) == (order, False)
    little = (2, 0) if order == "little" else (0, 2)
    assert f"little-endian only in {little[0]} rows, as big-endian only in {little[1]}" in evidence
    assert f"{file} at offset 107: payload of {7 + width} bytes" in evidence
    value, evidence, overridden = detected(file, "prefix_width")
    assert (value, overridden) == (str(width), False)
    assert f"size word = length + 1 in {2 * (width == 1)} VARCHAR values, length + 2 in {2 * (width == 2)}" in evidence
    prefix = "03" if width == 1 else "0003"
    assert f"a value of {3 + width} bytes that begins with {prefix}" in evidence


def test_options_override_what_is_detected_and_the_bytes_are_kept(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", *_sized("little", 2))
    assert detected(file, "byte_order", byte_order="big") == ("big", "given as an option", True)
    # the size words no longer say what the row holds, but the lengths in it do
    assert images(read(file, byte_order="big")) == [(None, ELM), (OAK, None)]
    assert codes(read(file, byte_order="big")) == [["size_words"], ["size_words"]]
    assert detected(file, "prefix_width", prefix_width=1) == ("1", "given as an option", True)
    assert images(read(file, prefix_width=1)) == [
        (None, {"n": "3", "goods": "0003656c6d"}),
        ({"n": "4", "goods": "00036f616b"}, None),
    ]
    assert codes(read(file, prefix_width=1)) == [["size_words"], ["size_words"]]


def test_what_nothing_tells_is_assumed_and_said_to_be(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", ROWS[0], ROWS[3])
    assert detected(file, "byte_order") == (
        "little",
        "no row record has size words that show it; little-endian is assumed",
        False,
    )
    assert detected(file, "prefix_width") == ("2", "no VARCHAR value shows it; two bytes are assumed", False)
    assert detected(file, "charset") == ("utf-8", "the stream does not give it; assumed", False)
    assert detected(file, "shape") == ("binary", "content of 1 file", False)


def test_the_evidence_of_all_splits_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", wire.goods(), *ROWS * 40)
    assert "little-endian only in 80 rows" in detected(file, "byte_order", split_size=64)[1]
    assert detected(file, "byte_order", split_size=64) == detected(file, "byte_order")


def test_text_columns_without_a_length_have_no_vote(tmp_path: Path) -> None:
    # two bytes of an LVARCHAR's length come before a flag, whatever the width of a VARCHAR's
    schema = wire.schema("n integer, goods lvarchar(40)", 4, 1, 1)
    insert = wire.row(40, 5, 0x50, b"\0\0\0\3", [b"\0\4\0elm"])
    file = write(tmp_path / "a.bin", schema, ROWS[0], insert, ROWS[3])
    assert detected(file, "prefix_width")[1] == "no VARCHAR value shows it; two bytes are assumed"
    assert images(read(file)) == [(None, ELM)]


# --- table versions ---------------------------------------------------------------------------------------------------


def test_rows_without_a_schema_keep_their_bytes(tmp_path: Path) -> None:
    table = read(write(tmp_path / "a.bin", *ROWS))
    assert images(table) == [(None, {}), ({}, None)]
    assert codes(table) == [["no_schema"], ["no_schema"]]
    assert [row["headers"]["undecoded"] for row in rows(table)] == ["000000030003656c6d", "0000000400036f616b"]
    assert [row["table_version"] for row in rows(table)] == [None, None]
    assert [row["table_name"] for row in rows(table)] == ["131", "131"]


@pytest.mark.parametrize("kind", ["dictionary", "texts as labels", "json", "lines"])
def test_a_side_file_supplies_a_missing_schema(tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / "a.bin", *ROWS)
    side = tmp_path / "schemas"
    side.write_text(json.dumps({"131": TEXT}) if kind == "json" else f"# tables\n131: {TEXT}\n")
    given = {"dictionary": {131: TEXT}, "texts as labels": {"131": TEXT}}.get(kind, str(side))
    table = read(file, schemas=given)
    assert images(table) == [(None, ELM), (OAK, None)]
    assert codes(table) == [[], []]
    assert [row["table_version"] for row in rows(table)] == ["131@1", "131@1"]
    (version,) = plan_of(file, schemas=given).shared.versions
    assert (version.origin, version.file_index) == ("side file", -1)


def test_a_schema_that_comes_later_takes_over_from_the_side_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", ROWS[1], wire.goods(), ROWS[1])
    same = read(file, schemas={131: TEXT})
    assert [row["table_version"] for row in rows(same)] == ["131@1", "131@1"]
    (version,) = plan_of(file, schemas={131: TEXT}).shared.versions
    assert (version.origin, version.offset, version.counts[0]) == ("record", len(ROWS[1]), 4)
    other = read(file, schemas={131: "m integer, product varchar(40,0)"})
    assert [row["table_version"] for row in rows(other)] == ["131@1", "131@2"]
    assert images(other) == [(None, {"m": "3", "product": "elm"}), (None, ELM)]
    assert [
        version.origin for version in plan_of(file, schemas={131: "m integer, product varchar(9)"}).shared.versions
    ] == [
        "side file",
        "record",
    ]


@pytest.mark.parametrize("split_size", [64, 1 << 20])
def test_each_row_is_decoded_with_the_version_in_force_at_its_place(tmp_path: Path, split_size: int) -> None:
    # the table's columns are exchanged, a second table begins, the first schema is sent again and then once more
    exchanged = wire.schema("goods char(9), n integer", 13, 2, 0)
    turned = wire.row(40, 5, 0x60, b"larch    \0\0\0\7")
    file = write(
        tmp_path / "a.bin",
        wire.goods(),
        ROWS[1],
        exchanged,
        turned,
        wire.goods(9),
        wire.insert(5, 0x70, 1, "plane", 9),
        turned,
        wire.goods(),
        wire.goods(),
        ROWS[1],
    )
    table = read(file, split_size=split_size)
    assert [row["table_version"] for row in rows(table)] == ["131@1", "131@2", "9@1", "131@2", "131@1"]
    assert images(table) == [
        (None, ELM),
        (None, {"goods": "larch", "n": "7"}),
        (None, {"n": "1", "goods": "plane"}),
        (None, {"goods": "larch", "n": "7"}),
        (None, ELM),
    ]
    schemas = [row["table_version"] for row in table.to_pylist() if row["kind"] == "schema"]
    assert schemas == ["131@1", "131@2", "9@1", "131@1", "131@1"]


def test_versions_of_one_text_that_differ_in_their_counts_are_two(tmp_path: Path) -> None:
    # by its header the second has four bytes more than its text explains, so its rows stay bytes
    file = write(tmp_path / "a.bin", wire.goods(), ROWS[1], wire.schema(TEXT, 8, 1, 1), ROWS[2])
    table = read(file)
    assert [row["table_version"] for row in rows(table)] == ["131@1", "131@2"]
    assert images(table) == [(None, ELM), ({}, None)]
    assert codes(table) == [[], ["schema_mismatch"]]


def test_labels_are_the_names_of_tables(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", wire.goods(), *ROWS)
    side = tmp_path / "labels.json"
    side.write_text('{"131": "shop.goods"}')
    for given in ("131=shop.goods,7=x", {131: "shop.goods"}, str(side), '{"131": "shop.goods"}'):
        assert {(row["schema_name"], row["table_name"]) for row in rows(read(file, labels=given))} == {
            ("shop", "goods")
        }
    assert {(row["schema_name"], row["table_name"]) for row in rows(read(file, labels="131=goods"))} == {
        (None, "goods")
    }
    assert {(row["schema_name"], row["table_name"]) for row in rows(read(file, labels="130=goods"))} == {(None, "131")}


def test_texts_are_in_the_character_set_of_the_option(tmp_path: Path) -> None:
    words = {"gb18030": "榆树", "gbk": "榆树", "iso-8859-1": "frêne", "utf-8": "榆树"}
    for charset, word in words.items():
        insert = wire.insert(5, 0x50, 3, word.encode(charset))
        file = write(tmp_path / "a.bin", wire.goods(), ROWS[0], insert, ROWS[3])
        assert images(read(file, charset=charset)) == [(None, {"n": "3", "goods": word})]
        assert detected(file, "charset", charset=charset) == (charset, "given as an option", True)
    wrong = read(file.with_name("a.bin"), charset="ascii")
    assert codes(wrong) == [["charset"]]
    assert images(wrong) == [(None, {"n": "3", "goods": "榆树".encode().hex()})]


def test_the_text_of_a_schema_may_be_in_the_character_set_of_the_database(tmp_path: Path) -> None:
    text = "数量 integer, 货物 varchar(40,0)"
    for charset in ("utf-8", "gb18030"):
        file = write(tmp_path / "a.bin", wire.schema(text, 4, 1, 1, charset=charset), ROWS[1])
        assert images(read(file, charset="gb18030")) == [(None, {"数量": "3", "货物": "elm"})]


# --- what crosses splits ----------------------------------------------------------------------------------------------


def test_splits_read_on_their_own_give_what_one_split_gives(tmp_path: Path) -> None:
    # transactions that interleave, an id that is used again, schemas that change in the middle
    stream = [wire.goods()]
    for number in range(60):
        a, b = 0x1000 * number, 0x1000 * number + 0x800
        stream += [wire.begin(1, a + 1), wire.begin(2, b + 1), wire.insert(1, a + 2, number, "elm")]
        stream += [wire.insert(2, b + 2, number, "oak" * number), wire.commit(1, a + 3), wire.rollback(2, b + 3)]
        if number % 20 == 19:
            stream.append(wire.schema(f"n integer, goods{number} varchar(40,0)", 4, 1, 1))
    file = write(tmp_path / "a.bin", *stream)
    whole = read(file)
    assert len(plan_of(file).splits) == 1
    for size in (64, 333, 4096):
        plan = plan_of(file, split_size=size)
        assert len(plan.splits) == -(-file.stat().st_size // size)
        # in any order, as workers take them
        pieces = {at: list(get_format("gbase8s").read(plan, at, Wanted())) for at in reversed(range(len(plan.splits)))}
        batches = [batch for at in sorted(pieces) for batch in pieces[at]]
        assert pa.Table.from_batches(batches, schema=whole.schema).equals(whole)


def test_a_split_that_begins_inside_a_record_changes_nothing(tmp_path: Path) -> None:
    # a text of 40 records, and then 40 like it: where a split begins, one of them looks like the place to go on
    lookalike = wire.timeout(0x99) * 40
    hostile = [wire.insert(5, 0x50 + n, n, lookalike) for n in range(10)]
    file = write(tmp_path / "a.bin", wire.goods(), ROWS[0], *hostile, ROWS[3])
    table = read(file, split_size=500)
    assert table.equals(read(file))
    assert table.num_rows == len(hostile) + 3
    assert [row["after"]["n"] for row in rows(table)] == [str(n) for n in range(10)]


def test_records_go_on_in_the_next_files(tmp_path: Path) -> None:
    # one record reaches over three files, and one file holds nothing
    data = b"".join([wire.goods(), ROWS[0], wire.insert(5, 0x50, 3, "x" * 200), ROWS[3]])
    edges = [0, 120, 180, 180, 200, len(data)]
    for number, (first, last) in enumerate(pairwise(edges)):
        write(tmp_path / f"part-{number}.bin", data[first:last])
    table = read(tmp_path)
    assert ledger(table) == {
        str(tmp_path / f"part-{number}.bin"): last - first
        for number, (first, last) in enumerate(pairwise(edges))
        if last > first
    }
    assert images(table) == [(None, {"n": "3", "goods": "x" * 200})]
    found = [(row["kind"], row["file_index"], row["offset"], row["length"]) for row in table.to_pylist()]
    assert found[2:6] == [
        ("change", 0, 107, 13),
        ("fragment", 1, 0, 60),
        ("fragment", 3, 0, 20),
        ("fragment", 4, 0, 107 + 40 + 206 - 200),
    ]
    (change,) = rows(table)
    assert len(change["raw"]) == 40 + 206, "the record is joined"


# --- facts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "restart", "reason"),
    [
        (ROWS, "0000000C000000D0", "at or after the highest commit"),
        ([*ROWS, wire.begin(6, 0x300), wire.begin(7, 0x200)], "0000000C00000200", "lowest begin"),
        ([wire.begin(6, 0x300), wire.rollback(6, 0x340)], None, "no transaction was seen"),
        ([wire.goods()], None, "no transaction was seen"),
        (
            [wire.insert(9, 0x20, 1, "elm"), *ROWS, wire.begin(6, 0x300)],
            None,
            "begin of an open transaction precedes the capture",
        ),
    ],
    ids=["nothing open", "two open", "rolled back", "no transactions", "open since before"],
)
def test_where_a_client_would_go_on(tmp_path: Path, stream: list[bytes], restart: str | None, reason: str) -> None:
    for split_size in (64, 1 << 20):
        facts = plan_of(write(tmp_path / "a.bin", *stream), split_size=split_size).facts
        assert facts["restart_position"] == restart
        assert reason in facts["restart_reason"]


def test_the_highest_commit_is_the_highest_and_not_the_last(tmp_path: Path) -> None:
    stream = [wire.begin(1, 0x10), wire.begin(2, 0x20), wire.commit(1, 0x90), wire.commit(2, 0x80)]
    facts = plan_of(write(tmp_path / "a.bin", *stream), split_size=64).facts
    assert facts["highest_commit"] == "0000000C00000090"
    assert facts["records"] == 4
    assert facts["bytes"] == sum(map(len, stream))
    assert facts["open_transactions"] == 0


# --- modes ------------------------------------------------------------------------------------------------------------


def test_failfast_stops_at_the_first_bytes_that_are_no_record(tmp_path: Path) -> None:
    write(tmp_path / "a.bin", wire.goods(), *ROWS)
    second = write(tmp_path / "b.bin", ROWS[0], b"\xaa" * 9, ROWS[3], b"\xbb" * 9)
    for split_size in (64, 1 << 20):
        with pytest.raises(MalformedRecordError) as caught:
            plan_of(tmp_path, mode="FAILFAST", split_size=split_size)
        assert (caught.value.path, caught.value.offset) == (str(second), 40)
        assert "a record header was expected" in str(caught.value)
    write(second, *ROWS, bytes(50))
    assert plan_of(tmp_path, mode="FAILFAST").facts["records"] == 9, "zero bytes are filler"


def test_dropmalformed_leaves_out_what_cannot_be_understood(tmp_path: Path) -> None:
    file = write(tmp_path / "a.bin", wire.goods(), wire.record(77), ROWS[0], b"\xaa" * 9, ROWS[3])
    kinds = read(file).column("kind").to_pylist()
    assert kinds == ["schema", "control", "begin", "malformed", "commit"]
    dropped = read(file, Wanted(drop_malformed=True)).column("kind").to_pylist()
    assert dropped == ["schema", "control", "begin", "commit"]
