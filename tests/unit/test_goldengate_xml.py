"""GoldenGate's XML exports: operations one after the other, and FORMATXML's transactions without a root."""

from __future__ import annotations

import gzip
import random
from html import escape
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.formats.dissector import TableRequest, Wanted
from tests.goldengate_exports import FORM, check_fields, codes, planned, rows, sure, table_of
from tests.local import ledger

PROLOG = "<?xml version='1.0' encoding='UTF-8'?>\n"


def column(name: str, before: str | None, after: str | None, more: str = "") -> str:
    def image(half: str, value: str | None) -> str:
        return f"<{half} missing='true'/>" if value is None else f"<{half}>{value}</{half}>"

    return f" <col name='{name}' index='0'{more}>\n  {image('before', before)}\n  {image('after', after)}\n </col>\n"


def operation(columns: str, kind: str = "U", table: str = "GG.T", pos: str = "1" * 20, tokens: str = "") -> str:
    return (
        f"<operation table='{table}' type='{kind}' ts='2024-03-05 10:00:00.000001' "
        f"current_ts='2024-03-05T10:00:01.5' pos='{pos}' numCols='2'>\n{columns}{tokens}</operation>\n"
    )


def token(name: str, value: str) -> str:
    return f" <tokens><token><Name><![CDATA[{name}]]></Name><Value><![CDATA[{value}]]></Value></token></tokens>\n"


def dbupdate(
    kind: str, columns: dict[str, str | None], *, image: str = "", tokens: str = "", table: str = "S.T"
) -> str:
    cells = "".join(
        f'<column name="{name}"{" key=" + chr(34) + "true" + chr(34) if name == "ID" else ""}'
        + (' status="null"></column>' if value is None else f">{escape(value, quote=False)}</column>")
        for name, value in columns.items()
    )
    half = f' image="{image}"' if image else ""
    return f'  <dbupdate table="{table}" type="{kind}"{half}>\n<columns>{cells}</columns>{tokens}\n  </dbupdate>\n'


def transaction(*updates: str, at: str = "2024-03-05:10:00:00.000000") -> str:
    return f'<transaction timestamp="{at}">\n{"".join(updates)}</transaction>\n'


def ids(xid: str, csn: str = "77") -> str:
    return f'<tokens><token name="TK-XID">{xid}</token><token name="TK-CSN">{csn}</token></tokens>'


def put(folder: Path, data: bytes | str, name: str = "export.xml") -> str:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


# --- operations -------------------------------------------------------------------------------------------------------


def test_an_operation_has_its_images_its_place_and_every_attribute_as_a_header(tmp_path: Path) -> None:
    columns = column("ID", "1", "1", " key='true'") + column("NAME", "<![CDATA[a < b]]>", "x &amp; y &#233;")
    path = put(tmp_path, PROLOG + operation(columns, tokens=token("R", "AAA")))
    prolog, row = rows(path)
    assert (prolog["kind"], prolog["raw"]) == ("filler", PROLOG.encode())
    assert (row["kind"], row["operation"], row["record_type"], row["position"]) == ("change", "UPDATE", "U", "1" * 20)
    assert (row["before"], row["after"]) == ({"ID": "1", "NAME": "a < b"}, {"ID": "1", "NAME": "x & y é"})
    assert (row["key"], row["table_version"], row["transaction_id"]) == ({"ID": "1"}, "GG.T@1", None)
    assert row["headers"] == {
        "table": "GG.T",
        "type": "U",
        "ts": "2024-03-05 10:00:00.000001",
        "current_ts": "2024-03-05T10:00:01.5",
        "pos": "1" * 20,
        "numCols": "2",
        "R": "AAA",
    }
    assert row["changed_at"] is None


def test_missing_is_not_null_and_null_is_not_empty(tmp_path: Path) -> None:
    columns = column("A", None, "") + " <col name='B' index='1'><before missing='true'/><after isNull='true'/></col>\n"
    (row,) = rows(put(tmp_path, operation(columns, "I")))
    assert (row["before"], row["after"]) == (None, {"A": "", "B": None})


@pytest.mark.parametrize("half", ["before", "after"])
def test_a_deleted_row_is_the_before_image_wherever_it_stands(tmp_path: Path, half: str) -> None:
    columns = column("ID", "1", None) if half == "before" else column("ID", None, "1")
    (row,) = rows(put(tmp_path, operation(columns, "D")))
    assert (row["operation"], row["before"], row["after"]) == ("DELETE", {"ID": "1"}, None)


def test_tokens_tell_the_transaction(tmp_path: Path) -> None:
    (row,) = rows(put(tmp_path, operation(column("A", None, "1"), tokens=token("6", "9.0.80330"))))
    assert (row["transaction_id"], row["headers"]["xid"]) == ("9.0.80330", "9.0.80330")


def test_a_truncate_and_what_is_not_known(tmp_path: Path) -> None:
    found = rows(put(tmp_path, operation("", "T") + operation("", "Q")))
    assert [(row["kind"], row["operation"], codes(row)) for row in found] == [
        ("change", "TRUNCATE", []),
        ("control", "UNKNOWN(Q)", ["unknown_record_type"]),
    ]


def test_a_root_and_comments_between_operations_are_filler(tmp_path: Path) -> None:
    one = operation(column("A", None, "<operation"[1:]))
    text = f"{PROLOG}<operations>\n{one}<!-- between <operation> -->\n{one}</operations>\n"
    found = rows(put(tmp_path, text))
    assert [row["kind"] for row in found] == ["filler", "change", "filler", "change", "filler"]


# --- FORMATXML --------------------------------------------------------------------------------------------------------


def test_a_transaction_has_its_records_in_their_order(tmp_path: Path) -> None:
    text = transaction(
        dbupdate("insert", {"ID": "1", "X": None}, tokens=ids("1.2.3")),
        dbupdate("delete", {"ID": "1"}),
        dbupdate("update", {"ID": "2", "X": "<b>"}),
    )
    found = rows(put(tmp_path, text))
    assert [row["operation"] for row in found] == ["INSERT", "DELETE", "UPDATE"]
    assert [row["kind"] for row in found] == ["change"] * 3
    assert [row["event_no"] for row in found] == [1, 2, 3]
    assert [row["last_in_transaction"] for row in found] == [False, False, True]
    assert [row["headers"]["TransInd"] for row in found] == ["0", "1", "2"]
    assert {row["transaction_id"] for row in found} == {row["headers"]["xid"] for row in found} == {"1.2.3"}
    assert {row["headers"]["csn"] for row in found} == {"77"}
    assert (found[0]["after"], found[1]["before"], found[2]["after"]) == (
        {"ID": "1", "X": None},
        {"ID": "1"},
        {"ID": "2", "X": "<b>"},
    )
    assert [row["key"] for row in found] == [{"ID": "1"}, {"ID": "1"}, {"ID": "2"}]
    assert found[0]["headers"]["timestamp"] == "2024-03-05:10:00:00.000000"
    assert (found[0]["position"], found[0]["changed_at"]) == (None, None)


def test_a_before_image_and_the_update_behind_it_are_halves(tmp_path: Path) -> None:
    before = dbupdate("update", {"ID": "1"}, image="before")
    after = dbupdate("update", {"ID": "1"})
    text = transaction(before, after, after, before, dbupdate("update", {"ID": "1"}, table="S.U"), before)
    text += transaction(after)
    found = rows(put(tmp_path, text))
    assert [row["kind"] for row in found] == ["before", "after", "change", "before", "change", "before", "change"]
    assert (found[0]["before"], found[0]["after"], found[1]["after"]) == ({"ID": "1"}, None, {"ID": "1"})


def test_a_transaction_without_an_id_is_called_by_its_place(tmp_path: Path) -> None:
    one = transaction(dbupdate("insert", {"ID": "1"}), dbupdate("insert", {"ID": "2"}))
    found = rows(put(tmp_path, "\n\n" + one + one))
    assert [row["transaction_id"] for row in found] == ["~0:2"] * 2 + [f"~0:{len(one) + 2}"] * 2
    assert [row["headers"]["TransInd"] for row in found] == ["0", "2"] * 2


def test_tokens_that_disagree_are_said_and_the_first_counts(tmp_path: Path) -> None:
    text = transaction(
        dbupdate("insert", {"ID": "1"}, tokens=ids("1.2.3")), dbupdate("insert", {"ID": "1"}, tokens=ids("4.5.6"))
    )
    first, second = rows(put(tmp_path, text))
    assert (first["transaction_id"], second["transaction_id"], codes(second)) == ("1.2.3", "1.2.3", ["conflict"])


def test_a_root_around_transactions_does_no_harm(tmp_path: Path) -> None:
    one = transaction(dbupdate("insert", {"ID": "1"}))
    found = rows(put(tmp_path, f"{PROLOG}<transactions>\n{one}{one}</transactions>\n"))
    assert [row["kind"] for row in found] == ["filler", "change", "change", "filler"]
    assert found[1]["raw"].decode() == one


def test_what_encoding_utf_8_writes_has_a_declaration_and_a_root_that_are_filler(tmp_path: Path) -> None:
    one = transaction(dbupdate("insert", {"ID": "1", "NAME": "Größe 寸"}, tokens=ids("1.2.3")))
    head, tail = f"{PROLOG}<OracleGoldenGateFormatXML>\n", "</OracleGoldenGateFormatXML>\n"
    path = put(tmp_path, head + one * 3 + tail)
    assert sure(path) > 0.9
    first, *changes, last = rows(path)
    assert [(row["kind"], row["raw"].decode()) for row in (first, last)] == [("filler", head), ("filler", tail)]
    assert [(row["kind"], row["problems"], row["raw"].decode()) for row in changes] == [("change", None, one)] * 3
    assert changes[0]["after"] == {"ID": "1", "NAME": "Größe 寸"}
    assert table_of(path, split_size=64).to_pylist() == table_of(path).to_pylist()
    assert sum(ledger(table_of(path)).values()) == len((head + one * 3 + tail).encode())


def test_a_transaction_without_records_is_one_of_its_own(tmp_path: Path) -> None:
    one = '<transaction timestamp="2024-03-05:10:00:00.000000">\n</transaction>\n'
    (row, _) = rows(put(tmp_path, one + transaction(dbupdate("insert", {"ID": "1"}))))
    assert (row["kind"], row["record_type"], row["problems"]) == ("control", "transaction", None)


def test_text_in_sections_is_as_it_stands_whatever_it_holds(tmp_path: Path) -> None:
    inner = '</dbupdate></transaction><transaction timestamp="x"><dbupdate table="A.B" type="insert">'
    nested = f"<operation table='x'><![CDATA[deep]]]]><![CDATA[></operation>{inner}"
    for value in (inner, nested):
        cell = f'<columns><column name="X"><![CDATA[{value}]]></column></columns>'
        text = f'<transaction timestamp="t"><dbupdate table="S.T" type="insert">{cell}</dbupdate></transaction>'
        (row,) = rows(put(tmp_path, text))
        assert row["after"] == {"X": value.replace("]]]]><![CDATA[>", "]]>")}


# --- character sets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "encoding", "found"),
    [
        (None, "utf-8", []),
        (None, "iso-8859-1", []),
        ("ISO-8859-1", "iso-8859-1", []),
        ("gbk", "gbk", []),
        ("UTF-8", "iso-8859-1", ["charset"]),
        ("no-such-set", "utf-8", []),
    ],
)
def test_characters_are_those_that_are_declared(
    tmp_path: Path, declared: str | None, encoding: str, found: list[str]
) -> None:
    text = "中文" if encoding == "gbk" else "Müller"
    prolog = "" if declared is None else f"<?xml version='1.0' encoding='{declared}'?>\n"
    row = rows(put(tmp_path, (prolog + transaction(dbupdate("insert", {"N": text}))).encode(encoding)))[-1]
    if declared != "no-such-set":
        assert (row["after"], codes(row)) == ({"N": text}, found)


# --- safety -----------------------------------------------------------------------------------------------------------


def test_nothing_is_taken_from_outside_and_nothing_is_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]>\n'
    text = transaction(dbupdate("insert", {"N": "1"}).replace(">1<", ">&a;&b;<"))
    found = rows(put(tmp_path, bomb + text + transaction(dbupdate("insert", {"N": "2"}))))
    assert [row["kind"] for row in found] == ["malformed", "malformed", "malformed", "change"]
    assert "a document type" in found[0]["problems"][0]["detail"]
    assert "undefined entity" in found[1]["problems"][0]["detail"]


def test_depth_and_tags_without_end_are_limited(tmp_path: Path) -> None:
    good = transaction(dbupdate("insert", {"N": "2"}))
    deep = "<transaction timestamp='t'><dbupdate table='T' type='insert'>" + "<a>" * 100_000
    for damage in (deep, "<a>" * 100_000, "<a b='" + "x" * 3_000_000, "<transaction timestamp='t'>" * 10_000):
        path = put(tmp_path, good + damage + "\n" + good)
        assert sum(ledger(table_of(path)).values()) == Path(path).stat().st_size
        kinds = [row["kind"] for row in rows(path)]
        assert (kinds[0], kinds[-1], kinds.count("change")) == ("change", "change", 2)


# --- damage -----------------------------------------------------------------------------------------------------------


def test_an_operation_that_is_cut_is_truncated_and_the_rest_goes_on(tmp_path: Path) -> None:
    one = operation(column("A", None, "<![CDATA[some text]]>"))
    for at in (len(one) - 5, one.index("some") + 2, one.index("<after") + 3):
        found = rows(put(tmp_path, one + one[:at] + one + one[:at]))
        assert [row["kind"] for row in found] == ["change", "malformed", "change", "malformed"], at
        assert codes(found[1]) == codes(found[3]) == ["truncated"]


CUT = operation(
    column("ID", "7", "7") + column("NAME", "<![CDATA[old]]>", "<![CDATA[new é]]>") + column("X", "1", None),
    tokens=token("TK-CSN", "88"),
)


def test_a_cut_element_is_one_malformed_event_and_the_rest_is_read(tmp_path: Path) -> None:
    data = CUT.encode()
    for length in range(data.index(b">") + 1, len(data) - 2, 3):
        for rest in (b"", data):
            found = rows(put(tmp_path, PROLOG.encode() + data[:length] + rest))
            assert [row["kind"] for row in found] == ["filler", "malformed", *["change"] * bool(rest)], length
            begin = len(PROLOG)
            sentence = f"the element <operation> that begins at offset {begin} is cut off at offset {begin + length}"
            assert (codes(found[1]), found[1]["problems"][0]["detail"]) == (["truncated"], sentence)


def test_headings_between_records_are_filler(tmp_path: Path) -> None:
    text = f"INSERT\n{CUT}\n# UPDATE\n\n{CUT}the end\n" + transaction(dbupdate("insert", {"ID": "1"}))
    kinds = ["filler", "change", "filler", "change", "filler", "change"]
    assert [row["kind"] for row in rows(put(tmp_path, text))] == kinds
    assert [row["kind"] for row in rows(put(tmp_path, CUT + "7</col>\n" + CUT))] == ["change", "malformed", "change"]


def test_a_record_cut_out_of_a_transaction_is_a_gap_in_it(tmp_path: Path) -> None:
    one, two, three = (dbupdate("insert", {"ID": str(at)}, tokens=ids("1.2.3")) for at in range(3))
    found = rows(put(tmp_path, transaction(one, two[:60] + "\n", three)))
    assert [row["kind"] for row in found] == ["change", "malformed", "change"]
    assert codes(found[1]) == ["truncated", "gap"]
    assert {row["transaction_id"] for row in found} == {"1.2.3"}
    assert found[2]["last_in_transaction"]


def test_lost_tags_of_transactions_are_said(tmp_path: Path) -> None:
    one = dbupdate("insert", {"ID": "1"})
    whole = transaction(one, one)
    headless = whole[whole.index(">") + 2 :]
    found = rows(put(tmp_path, whole + headless + whole.replace("</transaction>\n", "") + whole))
    assert [row["kind"] for row in found] == ["change"] * 8
    assert [codes(row) for row in found] == [[], [], ["no_begin"], [], [], ["open_transaction"], [], []]
    assert [row["headers"]["TransInd"] for row in found] == ["0", "2", "1", "2", "0", "1", "0", "2"]
    assert len({row["transaction_id"] for row in found}) == 4


def test_a_file_that_begins_and_ends_inside_a_transaction_keeps_what_is_there(tmp_path: Path) -> None:
    one = dbupdate("insert", {"ID": "1"})
    whole = transaction(one, one)
    found = rows(put(tmp_path, whole[60:-16]))
    assert [row["kind"] for row in found] == ["malformed", "change"]


CAPTURES = {
    "operations": PROLOG
    + "".join(
        operation(column("A", "x", f"<![CDATA[{at} > </operation> ]]>") + column("B", None, "é"), "IUDT"[at % 4])
        for at in range(8)
    ),
    "transactions": "".join(
        transaction(
            *(
                dbupdate("update", {"ID": str(at), "X": "<t>", "Y": None}, image="before" if at % 2 else "")
                for at in range(n)
            ),
            dbupdate("delete", {"ID": "9"}, tokens=ids(f"1.1.{n}")),
        )
        for n in range(4)
    ),
    "rooted": f"{PROLOG}<root>\n{transaction(dbupdate('insert', {'ID': '1'}))}<!-- a -->{transaction()}</root>",
}


@pytest.mark.parametrize("name", list(CAPTURES))
@settings(max_examples=settings.default.max_examples)
@given(st.integers(0, 2**32), st.integers(0, 5))
def test_damage_keeps_the_ledger_and_the_parts(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, times: int
) -> None:
    rng = random.Random(seed)
    data = bytearray(CAPTURES[name].encode())
    keep = 130  # so that the file is still seen to be XML
    for _ in range(times):
        at = rng.randrange(keep, len(data))
        size = rng.randrange(90)
        match rng.randrange(5):
            case 0:
                del data[at : at + size]
            case 1:
                data[at:at] = data[at : at + size]
            case 2:
                data[at:at] = rng.randbytes(size)
            case 3:
                data[at:at] = rng.choice(
                    [b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<transaction>", b"</dbupdate>", b"\n"]
                )
            case 4:
                lines = bytes(data).split(b"\n")
                lines.pop(rng.randrange(min(2, len(lines) - 1), len(lines)))
                data = bytearray(b"\n".join(lines)) + b" " * 200
    path = put(tmp_path_factory.getbasetemp(), bytes(data), f"{name}-damaged.xml")
    whole = table_of(path)
    assert ledger(whole) == {path: len(data)}
    assert table_of(path, split_size=64).to_pylist() == whole.to_pylist()
    for row in whole.to_pylist():
        assert row["length"] > 0
        check_fields(row["raw"], "xml")


@pytest.mark.parametrize("packed", [False, True])
def test_files_are_recognised_and_the_compressed_ones_read(tmp_path: Path, packed: bool) -> None:
    for name, text in CAPTURES.items():
        data = text.encode()
        plain = table_of(put(tmp_path, data, name))
        path = put(tmp_path, gzip.compress(data) if packed else data, name)
        assert (FORM.recognise([path], {}).confidence, FORM.recognise([path], {}).shape) == (0.98, "xml")
        assert table_of(path).to_pylist() == plain.to_pylist()


@pytest.mark.parametrize("text", ["<html><body>x</body></html>", "<operation>cut</operation>", "<transaction/>", "<a>"])
def test_other_xml_is_not_recognised(tmp_path: Path, text: str) -> None:
    assert sure(put(tmp_path, text)) == 0


# --- summary, typed rows, one record ----------------------------------------------------------------------------------


def test_columns_are_numbers_where_all_their_values_are(tmp_path: Path) -> None:
    text = transaction(
        dbupdate("insert", {"ID": "1", "PRICE": "1.50", "CODE": "007", "NOTE": None}),
        dbupdate("insert", {"ID": "-20", "PRICE": "100.25", "CODE": "8", "NOTE": None, "NEW": "x"}),
    )
    plan, request = planned(put(tmp_path, text)), TableRequest("S.T", images="after")
    (found,) = FORM.read_table(plan, 0, request)
    types = {one.name: one.type for one in found.schema.field("after").type}
    assert (types["ID"], types["PRICE"], types["CODE"], types["NOTE"]) == (
        pa.int64(), pa.decimal128(5, 2), pa.string(), pa.string()
    )  # fmt: skip
    after = found.column("after").to_pylist()
    assert [(row["ID"], str(row["PRICE"]), row["CODE"]) for row in after] == [(1, "1.50", "007"), (-20, "100.25", "8")]


@pytest.mark.parametrize("name", list(CAPTURES))
def test_a_record_is_found_by_any_byte_of_it(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, CAPTURES[name])
    for row in table_of(path).to_pylist():
        for offset in (row["offset"], row["offset"] + row["length"] - 1):
            found = FORM.inspect(path, offset, {})
            assert (found.record, found.event) == (row["raw"], {n: v for n, v in row.items() if v is not None})


def test_a_long_file_is_read_in_batches_that_have_whole_transactions(tmp_path: Path) -> None:
    updates = [dbupdate("insert", {"ID": str(at)}) for at in range(5000)]
    updates.append(dbupdate("insert", {"ID": "last"}, tokens=ids("1.2.3")))
    found = rows(put(tmp_path, transaction(*updates) + transaction(updates[0])))
    assert {row["transaction_id"] for row in found[:-1]} == {"1.2.3"}
    assert [row["event_no"] for row in found] == [*range(1, 5002), 1]


def test_headers_only_leaves_images_and_bytes_out(tmp_path: Path) -> None:
    path = put(tmp_path, CAPTURES["transactions"])
    whole, bare = table_of(path).to_pylist(), table_of(path, Wanted(images=False)).to_pylist()
    for row in whole:
        row.update(before=None, after=None, raw=None)
    assert bare == whole


def test_the_tree_of_a_record_says_what_its_parts_mean() -> None:
    record = operation(column("ID", None, "<![CDATA[5]]>"), tokens=token("R", "AAA")).encode()
    tree = check_fields(record, "xml")
    by_name = {node.name: node for node in tree.walk()}
    assert by_name["pos"].meaning == "trail file 1111111111, byte 1111111111"
    assert (by_name["after"].value, by_name["before"].value) == ("5", None)
    assert by_name["missing"].meaning == "true: the column is not in the record (not the same as NULL)"
    assert not [node for node in tree.walk() if node.problem]
    for part in transaction(dbupdate("insert", {"ID": "1"})).encode().partition(b"<columns>"):
        check_fields(part, "xml")


@given(st.binary(max_size=200))
def test_any_bytes_have_a_tree(data: bytes) -> None:
    check_fields(data, "xml")
    check_fields(b"<a>" + data + b"</a>", "xml")
