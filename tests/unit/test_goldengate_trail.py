"""Raw trail files: what Logdump prints of a trail, put back into its records, reads as the text does; and damage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import CaptureError
from cdcwb.formats import get_format, identify
from cdcwb.formats.goldengate.layout import Order
from cdcwb.model import Problem
from cdcwb.opening import open_small
from cdcwb.testing import check_format
from cdcwb_synth import generate
from tests.goldengate_text import split_text
from tests.raw_trails import METADATA, SIGNATURE, frame, raw_trail, record, token

DATA = Path(__file__).parents[2] / "data" / "goldengate"
HEADER = bytes.fromhex("450c0041 1800 05ff 883a38001770f302 10a88900 00000000 9c010000 03 52 00 00 00 01 0100")
BODY = bytes.fromhex("000006000000 0000002a 01000a000000 0600 71756172747a")
TOKENS = bytes.fromhex("4c000700 35313530303432 36000900 382e32312e34343130")
NAMED = (
    bytes.fromhex("45040041 0018 05ff 02f3701700383a88 0089a810 00000000 0000019c 03 52 00 00 00 01") + b"SHOP.STONE\0"
)
BIG_BODY = bytes.fromhex("0000 0006 0000 0000002a 0001 000a 0000 0006 71756172747a")
BIG_TOKENS = bytes.fromhex("4c000007 35313530303432 36000009 382e32312e34343130")
INSERT = frame(token("H", NAMED) + token("D", BIG_BODY) + token("T", BIG_TOKENS))
FILE = frame(SIGNATURE, letter="F")
SWITCHES = "ghdr,detail,data,ggstoken,tokendetail,usertoken,headertoken,headerdetail,fileheader"
"""All but the texts of Metadata records, which a raw trail has in another form."""


def table(path: Path | Sequence[Path], name: str = "events", **options: Any) -> list[dict[str, Any]]:
    paths = [path] if isinstance(path, Path) else path
    small = open_small([str(one) for one in paths], "goldengate", options)
    assert small is not None
    return small.table(name).to_pylist()


def written(tmp_path: Path, *parts: bytes, name: str = "lt000000012") -> Path:
    path = tmp_path / name
    path.write_bytes(b"".join(parts))
    return path


# --- literal bytes ----------------------------------------------------------------------------------------------------


def test_the_record_of_the_fact_sheet_is_read_from_its_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, FILE, INSERT)
    header, row = table(path)
    assert (header["record_type"], header["offset"], header["length"]) == ("FileHeader", 0, 24)
    assert (row["kind"], row["record_type"], row["operation"]) == ("change", "Insert", "INSERT")
    assert (row["offset"], row["length"], row["position"]) == (24, 113, "00000000120000000024")
    assert (row["schema_name"], row["table_name"]) == ("SHOP", "STONE")
    assert str(row["changed_at"]) == "2026-02-03 04:05:06.789000+00:00"
    assert (row["transaction_id"], row["commit_position"]) == ("8.21.4410", row["position"])
    assert dict(row["after"]) == {"c0": "42", "c1": "quartz"}
    assert row["raw"] == INSERT
    headers = dict(row["headers"])
    assert (headers["AuditRBA"], headers["AuditPos"], headers["IO Time"]) == (
        "412", "9021456", "2026-02-03T04:05:06.789000Z",
    )  # fmt: skip
    assert (headers["LOGCSN"], headers["TRANID"]) == ("5150042", "8.21.4410")
    assert row["problems"] is None


def test_a_little_endian_trail_is_read_where_its_lengths_check_out(tmp_path: Path) -> None:
    content = token("H", HEADER, "little") + token("D", BODY, "little") + token("T", TOKENS, "little")
    assert frame(content, "little")[:4] == b"G\0\x68\0"  # 104, as in §2.1
    row = table(written(tmp_path, frame(SIGNATURE, "little", "F"), frame(content, "little")))[1]
    assert dict(row["after"]) == {"c0": "42", "c1": "quartz"}
    assert (row["table_name"], dict(row["headers"])["TDR index"]) == (None, "1")
    assert row["transaction_id"] == "8.21.4410"
    found = get_format("goldengate").inspect(row["file"], row["offset"], {})
    assert next(node.value for node in found.field.walk() if node.name == "table") == "1"


def test_definitions_give_names_types_and_keys(tmp_path: Path) -> None:
    side = tmp_path / "shop.def"
    side.write_text(
        "*\nDefinition for table SHOP.STONE\nRecord Length: 72\nColumns: 2\n"
        "ID    132     11        0  0  0 0 0      4      4      4 0 0 0 0 1    0 1   0    2       -1      0 0 0\n"
        "KIND   64     60        7  0  0 1 0     60     60      0 0 0 0 0 1    0 0   0    1        0      0 0 0\n"
        "End of definition\n"
    )
    (row,) = table(written(tmp_path, FILE, INSERT), "changes", definitions=str(side))
    assert (dict(row["after"]), dict(row["key"])) == ({"ID": "42", "KIND": "quartz"}, {"ID": "42"})
    assert row["table_version"] == "SHOP.STONE@1"


def test_every_byte_of_a_record_has_a_field(tmp_path: Path) -> None:
    path = written(tmp_path, FILE, INSERT)
    found = get_format("goldengate").inspect(str(path), 24, {})
    assert found.record == INSERT
    assert [child.name for child in found.field.children] == ["G", "H", "D", "T", "Z"]
    fields = {node.name: node for node in found.field.walk()}
    assert (fields["Z"].offset, fields["Z"].value) == (109, "113")
    assert (fields["IO Time"].value, fields["table"].value) == ("2026-02-03T04:05:06.789000Z", "SHOP.STONE")
    assert [fields[name].value for name in ("c0", "c1", "LOGCSN")] == ["42", "quartz", "5150042"]
    assert not any(node.quiet for node in found.field.walk())
    file = get_format("goldengate").inspect(str(path), 0, {})
    assert {node.name for node in file.field.walk()} >= {"F", "TrailInfo", "Signature", "Z"}


# --- agreement with Logdump text --------------------------------------------------------------------------------------

OTHER_PLACES = {"file", "file_index", "offset", "length", "raw", "source_events", "bytes"}
NO_NAMES = frozenset({"schema_name", "table_name", "table_version", "tables"})
"""What a header with the index of a definition does not give."""


def assert_equal(
    text: Path, raw: Path, name: str, less: frozenset[str], headers: set[str], **options: Any
) -> list[dict[str, Any]]:
    """Row by row but for the columns ``less`` and the entries of ``headers``; returns the rows of the trail."""
    expected, rows = ([row for row in table(path, name, **options) if _is_record(row)] for path in (text, raw))
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert row.keys() == wanted.keys()
        for column in row.keys() - OTHER_PLACES - less - {"headers"}:
            assert row[column] == wanted[column], (column, wanted["position"] if "position" in row else row)
        if "headers" in row and "headers" not in less:
            pairs = [{key: value for key, value in one["headers"] if key not in headers} for one in (row, wanted)]
            assert pairs[0] == pairs[1], wanted["position"]
    return rows


def _is_record(row: dict[str, Any]) -> bool:
    return "kind" not in row or row["kind"] not in ("filler", "malformed")


def compare(tmp_path: Path, text: bytes, order: Order, less: frozenset[str] = frozenset()) -> tuple[Path, Path]:
    """The tables of Logdump text and of a trail with the same records, and their files."""
    content, rbas = raw_trail(text, order)
    raw, one = written(tmp_path, content, name="trail"), tmp_path / "logdump.txt"
    one.write_bytes(text)
    headers = {"IO Time", "Name", "TDR index"} if less else {"IO Time"}
    rows = assert_equal(one, raw, "events", less, headers)
    assert [row["offset"] for row in rows] == rbas
    assert sum(row["length"] for row in table(raw)) == len(content)
    for name in ("changes", "transactions"):
        assert_equal(one, raw, name, less, headers)
    return one, raw


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"style": "11g", "byte_order": "big", "updates": "unified", "long_varchars": 300, "abends": 1}, "big"),
        ({"style": "11g", "updates": "pairs", "undo": 0.05, "restarts": 2, "tokens": "first"}, "little"),
        ({"style": "12c", "byte_order": "big", "deletes": "full", "tokens": "last", "schema_changes": 0}, "big"),
        ({"style": "21c", "schema_changes": 0, "all_types_share": 0.5}, "little"),
    ],
)
def test_a_generated_trail_reads_as_its_text(tmp_path: Path, options: dict[str, Any], order: Order) -> None:
    given = {"switches": SWITCHES, "lobs": False, "all_types_share": 0.2, **options}
    generate("goldengate", changes=150, seed=7, to=tmp_path / "made", **given)
    text = (tmp_path / "made" / "capture" / "logdump.txt").read_bytes()
    text = text.replace(b"Name: *FileHeader*\n", b"")
    compare(tmp_path, text, order, frozenset() if options["style"] == "11g" else NO_NAMES)


@pytest.mark.parametrize("number", [41, 42, 43])
def test_the_trail_of_the_project_reads_as_its_text_without_its_definitions(tmp_path: Path, number: int) -> None:
    """Definitions are text in Logdump only, so names and types of columns and keys are not in the trail."""
    text = (DATA / f"logdump-0000000{number}.txt").read_bytes()
    images = {"before", "after", "key", "changed_columns", "change_source", "problems", "completeness"}
    one, raw = compare(tmp_path, text, "little", NO_NAMES | images)
    for row, wanted in zip(*([row for row in table(path) if _is_record(row)] for path in (raw, one)), strict=True):
        cut = "truncated" in str(wanted["problems"])  # with RECLEN
        for image in ("before", "after"):
            values, printed = ([value and value.rstrip() for _, value in of[image] or ()] for of in (row, wanted))
            assert cut or values == printed


@pytest.mark.samples
@pytest.mark.parametrize(
    "name", [*(f"mysql-{number:02d}-" for number in (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12)), "postgres-11-"]
)
def test_real_headers_data_and_tokens_make_records_of_the_printed_length(
    samples: Path, tmp_path: Path, name: str
) -> None:
    (path,) = (samples / "goldengate").glob(f"logdump-{name}*")
    text = path.read_bytes()
    printed = [one for one in split_text(text) if one.ghdr]
    assert printed
    for one in printed:
        assert len(record(one, "little")) == one.parts["G"] == one.parts["Z"]
    content, _ = raw_trail(text, "little")
    raw = written(tmp_path, content, name="trail")
    wanted = {row["position"]: row for row in table(path) if _is_record(row)}
    rows = [row for row in table(raw) if row["kind"] != "filler" and row["record_type"] != "FileHeader"]
    assert len(rows) == len(wanted) == len(printed)
    for row, one in zip(rows, printed, strict=True):
        expected = wanted[row["position"]]
        for column in ("kind", "record_type", "operation", "transaction_id", "commit_position", "changed_at"):
            assert row[column] == expected[column]
        assert row["last_in_transaction"] == expected["last_in_transaction"]
        if one.values["IOType"] not in (METADATA, 160) and "postgres" not in name:
            assert (row["before"], row["after"]) == (expected["before"], expected["after"])
        different = {"IO Time", "Name", "Trail", "TDR index", "B8"}
        pairs = [{key: value for key, value in of["headers"] if key not in different} for of in (row, expected)]
        assert pairs[0] == pairs[1]


# --- trail files ------------------------------------------------------------------------------------------------------


def file_header(*tokens: tuple[int, bytes]) -> bytes:
    group = SIGNATURE[4:] + b"".join(
        bytes([number, 0]) + len(value).to_bytes(2, "big") + value for number, value in tokens
    )
    return frame(b"0\0" + len(group).to_bytes(2, "big") + group, letter="F")


@pytest.mark.parametrize(
    ("tokens", "name", "sequence"),
    [
        ([(0x38, (7).to_bytes(4, "big")), (0x36, b"\0\x10./dirdat/lt00009")], "lt000000012", 7),
        ([(0x36, b"\0\x0f./dirdat/lt0009")], "lt000000012", 9),
        ([], "lt000000012", 12),
        ([], "copy", 0),
    ],
)
def test_the_number_of_a_trail_file_comes_from_its_header_else_from_its_name(
    tmp_path: Path, tokens: list[tuple[int, bytes]], name: str, sequence: int
) -> None:
    header = file_header(*tokens)
    row = table(written(tmp_path, header, INSERT, name=name))[1]
    assert row["position"] == f"{sequence:010d}{len(header):010d}"


def test_a_transaction_continues_in_the_next_file(tmp_path: Path) -> None:
    first, second = (INSERT.replace(b"\x03R", bytes([place]) + b"R") for place in (0, 2))
    paths = [written(tmp_path, FILE, one, name=f"lt00000001{number}") for number, one in enumerate((first, second))]
    (row,) = table(paths, "transactions")
    assert (row["begin_position"], row["end_position"]) == ("00000000100000000024", "00000000110000000024")
    assert (row["completeness"], dict(row["changes"])) == ("complete", {"INSERT": 2})


def test_every_page_says_that_the_layout_was_not_checked(tmp_path: Path) -> None:
    path = written(tmp_path, FILE, INSERT)
    found = identify(path)
    assert (found.format, found.shape, found.confidence) == ("goldengate", "raw trail", 1.0)
    assert "2 records in its first bytes check out, big-endian" in found.evidence[1]
    (row,) = table(path, "problems")
    assert row["code"] == str(Problem.INFERRED)
    assert "never checked against a complete real trail" in row["sentence"]
    assert any("never checked" in one["evidence"] for one in table(path, "detected") if one["setting"] == "layout")


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damaged", "code", "sentence"),
    [
        (b"\x01" + INSERT[1:], "malformed", "found 01 00 00 71 48 00 00 2d"),
        (INSERT[:2] + b"\0\x07" + INSERT[4:], "malformed", "found 47 00 00 07 48 00 00 2d"),
        (INSERT[:2] + b"\0\x40" + INSERT[4:], "malformed", "found 47 00 00 40 48 00 00 2d"),
        (INSERT[:-2] + b"\0\x01", "malformed", "found 47 00 00 71 48 00 00 2d"),
        (INSERT[:55] + b"\0\xff" + INSERT[57:], "malformed", "tokens that fill the record to its Z"),
        (INSERT[:53] + b"X" + INSERT[54:], "malformed", "tokens that fill the record to its Z"),
        (frame(token("D", BIG_BODY)), "malformed", "tokens that fill the record to its Z"),
        (FILE, "malformed", "files that were joined have to be given one by one"),
    ],
)
def test_what_does_not_check_out_is_malformed_and_reading_resumes(
    tmp_path: Path, damaged: bytes, code: str, sentence: str
) -> None:
    rows = table(written(tmp_path, FILE, INSERT, damaged, INSERT, INSERT))
    assert [row["kind"] for row in rows] == ["control", "change", "malformed", "change", "change"]
    assert (rows[2]["offset"], rows[2]["length"]) == (len(FILE + INSERT), len(damaged))
    (problem,) = rows[2]["problems"]
    assert problem["code"] == code
    assert problem["detail"].endswith(sentence)


@pytest.mark.parametrize("left", [3, 50])
def test_the_end_of_a_file_that_is_cut_is_truncated(tmp_path: Path, left: int) -> None:
    row = table(written(tmp_path, FILE, INSERT, INSERT[:left]))[-1]
    (problem,) = row["problems"]
    assert (row["kind"], row["length"], problem["code"]) == ("malformed", left, "truncated")
    assert f"found {left}" in problem["detail"]


def test_a_repair_record_is_skipped_and_no_gap(tmp_path: Path) -> None:
    first, last = (INSERT.replace(b"\x03R", bytes([place]) + b"R") for place in (0, 2))
    repair = b"G\x03" + INSERT[2:]
    path = written(tmp_path, FILE, first, repair, last)
    rows = table(path)
    assert [row["kind"] for row in rows] == ["control", "change", "filler", "change"]
    assert dict(rows[2]["headers"])["reason"] == "repair record (info 3), which has no change"
    assert [row["completeness"] for row in table(path, "transactions")] == ["complete"]


def test_headers_that_contradict_their_record_are_problems(tmp_path: Path) -> None:
    wrong = NAMED[:4] + b"\0\x19" + NAMED[6:]
    no_time = b"X" + NAMED[1:8] + bytes(8) + NAMED[16:]
    records = [frame(token("H", one) + token("D", BIG_BODY) + token("T", BIG_TOKENS[:-2])) for one in (wrong, no_time)]
    first, second = ([one["detail"] for one in row["problems"]] for row in table(written(tmp_path, FILE, *records))[1:])
    assert first == ["token area truncated: 2 bytes are missing", "RecLength is 25, token D has length 24"]
    assert "the header has no plausible time in either byte order: its numbers are not known" in second


def test_a_token_that_is_cut_off_names_no_transaction(tmp_path: Path) -> None:
    record = frame(token("H", NAMED) + token("D", BIG_BODY) + token("T", BIG_TOKENS[:-2]))
    row = table(written(tmp_path, FILE, record))[1]
    assert (row["transaction_id"], dict(row["headers"])["csn"]) == ("~00000000120000000024", "5150042")
    assert [one["detail"] for one in row["problems"]] == ["token area truncated: 2 bytes are missing"]


def test_a_damaged_file_header_costs_no_record_of_its_file(tmp_path: Path) -> None:
    rows = table(written(tmp_path, FILE[:2] + b"\x7f" + FILE[3:], INSERT, INSERT))
    assert [row["kind"] for row in rows] == ["malformed", "change", "change"]
    assert rows[1]["position"] == "00000000120000000024"


def test_a_raw_trail_among_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes((DATA / "logdump-000000041.txt").read_bytes()[:9000])
    raw = written(tmp_path, FILE, INSERT)
    with pytest.raises(CaptureError, match="among Logdump texts"):
        table([tmp_path / "a.txt", raw], split_size=9000)


def made(tmp_path: Path, count: int) -> Path:
    """A trail with the records of generated text."""
    generate(
        "goldengate", changes=count, seed=3, to=tmp_path / "made", style="11g", byte_order="big", lobs=False,
        updates="pairs", long_varchars=300, restarts=1, abends=1, all_types_share=0.1, switches=SWITCHES,
    )  # fmt: skip
    text = (tmp_path / "made" / "capture" / "logdump.txt").read_bytes().replace(b"Name: *FileHeader*\n", b"")
    return written(tmp_path, raw_trail(text, "big")[0], name="et000000")


def test_the_kit(tmp_path: Path) -> None:
    checked = check_format("goldengate", [made(tmp_path, 40)], sizes=(500, 3000, 9000), mutations=25)
    assert checked.trees > 10
    assert checked.read > 18


def test_every_flip_ends_in_records_or_a_capture_error(tmp_path: Path) -> None:
    content = made(tmp_path, 12).read_bytes()
    draw = random.Random(5)
    records = 0
    for number in range(80):
        data = bytearray(content)
        for _ in range(1 + number % 3):
            at = draw.randrange(len(data))
            data[at] ^= 1 << draw.randrange(8)
        path = written(tmp_path, bytes(data), name="flipped")
        try:
            rows = table(path)
        except CaptureError:
            continue
        edges = [0, *(row["offset"] + row["length"] for row in rows)]
        assert [row["offset"] for row in rows] == edges[:-1]
        assert edges[-1] == len(data)
        records += sum(row["kind"] not in ("malformed", "filler") for row in rows)
    assert records > 80 * 10


def test_gaps_larger_than_a_window_are_events_of_a_mebibyte(tmp_path: Path) -> None:
    path = written(tmp_path, FILE, INSERT, b"\xaa" * (3 << 20), INSERT)
    rows = table(path)
    assert [row["kind"] for row in rows] == ["control", "change", *["malformed"] * 3, "change"]
    assert {row["length"] for row in rows if row["kind"] == "malformed"} == {1 << 20}
    assert [row["offset"] for row in table(path, split_size=1 << 20)] == [row["offset"] for row in rows]
