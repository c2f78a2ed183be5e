"""What a capture is, which trail files it holds, and what its plan says."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import get_format, identify
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.goldengate.definitions import Lookup, MetadataText, TrailFile, last_part, parse_defgen
from cdcwb.formats.goldengate.layout import MISSING
from cdcwb.formats.goldengate.plan import OPTIONS, Options, Section, split_path, trail_files
from tests.local import plan_of, read

OPEN = "Current LogTrail is ./dirdat/aa000000003\n"
RECORD = """___________________________________________________________________
Hdr-Ind    :     E  (x45)     Partition  :     .  (x04)
UndoFlag   :     .  (x00)     BeforeAfter:     A  (x41)
RecLength  :    28  (x001c)   IO Time    : 2024/04/28 20:10:10.386.832
IOType     :     5  (x05)     OrigNode   :   255  (xff)
TransInd   :     .  (x03)     FormatType :     R  (x52)
SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)
AuditRBA   :         86       AuditPos   : 37497872
Continued  :     N  (x00)     RecCount   :     1  (x01)

2024/04/28 20:10:10.386.832 Insert               Len    28 RBA 1063
Name: SHOP.STOCK
After  Image:                                             Partition 4   G  s
 0000 000a 0000 0000 0000 0000 0003 0001 000a 0000 | ....................
 0006 6e61 6d65 3333                               | ..name33

"""
DEFGEN = """*+- Defgen version 2.0, Encoding UTF-8
*
Definition for table SHOP.STOCK
Record length: 40
Syskey: 0
Columns: 2
id   134 20 0 0 0 0 0 8 8 8 0 0 0 0 1 0 1 3
name  64 30 12 0 0 1 0 30 30 0 0 0 0 0 1 0 0 0
End of definition
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text(OPEN + RECORD, encoding="utf-8")
    return path


def settings(plan: Any) -> dict[str, str]:
    return {row["setting"]: row["value"] for row in plan.detected}


# --- options ----------------------------------------------------------------------------------------------------------


def test_every_option_says_what_it_means() -> None:
    assert {"time_zone", "definitions", "byte_order", "unified_prefix", "trail_sequence"} <= set(OPTIONS)
    assert all(OPTIONS.values())
    assert Options.parse({}) == Options()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_zone", "Mars/Base"),
        ("byte_order", "middle"),
        ("unified_prefix", "3"),
        ("charset", "klingon"),
        ("trail_sequence", "-1"),
        ("shape", "binary"),
        ("split_size", "1"),
        ("mode", "SLOW"),
        ("tme_zone", "UTC"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=name):
        Options.parse({name: value})


def test_values_of_options_are_taken_as_text(capture: Path) -> None:
    options = Options.parse({"time_zone": "auto", "byte_order": "BIG", "unified_prefix": 4, "images": "false"})
    assert (options.time_zone, options.byte_order, options.prefix, options.images) == (None, "big", 4, False)
    plan = plan_of(capture, format="goldengate", byte_order="little", unified_prefix="4", time_zone="+08:00")
    assert (plan.shared.bodies[0].order, plan.shared.bodies[0].prefix) == ("little", 4)
    assert {row["setting"] for row in plan.detected if row["overridden"]} == {
        "byte_order",
        "unified_prefix",
        "time_zone",
    }


# --- recognition ------------------------------------------------------------------------------------------------------


def test_logdump_text_is_recognised_behind_notes(tmp_path: Path) -> None:
    path = tmp_path / "mail.txt"
    path.write_text("Dear all,\n\nsee below\n\n" + RECORD, encoding="utf-8")
    found = identify(path)
    assert (found.format, found.shape) == ("goldengate", "logdump")
    assert "1 header block" in found.evidence[0]


def test_text_that_has_nothing_of_a_trail_is_not_recognised(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("RBA 4 is where it stopped\n", encoding="utf-8")
    with pytest.raises(CaptureError):
        identify(path)


def test_a_raw_trail_of_which_nothing_checks_out_is_answered_with_a_script(tmp_path: Path) -> None:
    path = tmp_path / "aa000000003"
    path.write_bytes(b"F\0\x04\x00" + b"0\0\x01\x00" + b"0\0\0\x08GG\r\nTL\n\r" + bytes(1000))
    found = identify(path)
    assert (found.format, found.shape, found.confidence) == ("goldengate", "raw trail", 1.0)
    assert found.advice[0] == f"open {path}"
    with pytest.raises(CaptureError, match="no record checks out") as error:
        plan_of(path, format="goldengate")
    assert f"open {path}" in str(error.value)


# --- trail files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "stem", "number"),
    [
        ("./dirdat/ra000000007", "./dirdat/ra", 7),
        ("/u01/dirdat/gg000123", "/u01/dirdat/gg", 123),
        ("./dirdat/e1000000007", "./dirdat/e1", 7),
        (r"C:\gg\dirdat\lt000012", r"C:\gg\dirdat\lt", 12),
        ("./dirdat/plain", "./dirdat/plain", None),
    ],
)
def test_the_number_of_a_trail_file_is_at_the_end_of_its_name(path: str, stem: str, number: int | None) -> None:
    assert split_path(path) == (stem, number)


def test_the_last_part_of_a_path_is_that_of_any_system() -> None:
    assert last_part(r"C:\gg\dirdat\lt000012") == "lt000012"
    assert last_part("./dirdat/lt000012") == "lt000012"


def section(at: int, file: int = 0, first: int = 100, last: int = 900, **more: Any) -> Section:
    return Section(at, file, first=first, last=last, lowest=first, highest=last, count=2, **more)


@pytest.mark.parametrize(("rba", "goes_on"), [(1000, True), (1200, False)])
def test_a_capture_file_goes_on_in_a_trail_file_only_where_that_is_certain(rba: int, goes_on: bool) -> None:
    named = section(0, name="./dirdat/aa000000009", sequence=9, next=1000)
    first, second = trail_files([named, section(500, 1, rba, rba + 100)], None)
    assert (second == first) is goes_on


def test_captures_without_any_name_are_files_of_one_trail_in_their_order() -> None:
    first, next_ = trail_files([section(0), section(900, 1, 100, 200)], None)
    assert (next_.trail, next_.order, next_.shown) == (first.trail, first.order + 1, 0)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_facts_tell_extent_and_what_is_open(capture: Path) -> None:
    plan = plan_of(capture, format="goldengate")
    facts = plan.facts
    assert facts["bytes"] == capture.stat().st_size
    assert (facts["records"], facts["open_transactions"]) == (1, 0)
    assert facts["first_position"] == facts["last_position"] == "00000000030000001063"
    capture.write_text(OPEN + RECORD.replace("(x03)", "(x00)"), encoding="utf-8")
    assert plan_of(capture, format="goldengate").facts["open_transactions"] == 1


def test_byte_order_is_told_from_bodies_and_columns_are_inferred(capture: Path) -> None:
    plan = plan_of(capture, format="goldengate")
    assert plan.shared.bodies[0].order == "big"
    assert settings(plan)["byte_order"] == "big"
    assert settings(plan)["definitions"] == "inferred"
    assert settings(plan)["time_zone"] == "unknown"
    (version,) = plan.shared.versions
    assert (version.table_version, version.origin, [one.name for one in version.columns]) == (
        "SHOP.STOCK@1",
        "inferred",
        ["c0", "c1"],
    )


def test_a_defgen_file_names_the_columns(capture: Path, tmp_path: Path) -> None:
    beside = tmp_path / "defs.def"
    beside.write_text(DEFGEN, encoding="utf-8")
    plan = plan_of(capture, format="goldengate", definitions=str(beside))
    (version,) = plan.shared.versions
    assert (version.table_version, version.origin, [one.name for one in version.columns]) == (
        "SHOP.STOCK@1",
        "side file",
        ["id", "name"],
    )
    row = read(capture, format="goldengate", definitions=str(beside)).to_pylist()[-1]
    assert dict(row["after"]) == {"id": "3", "name": "name33"}
    assert dict(row["key"]) == {"id": "3"}
    assert row["table_version"] == "SHOP.STOCK@1"


def test_a_defgen_file_without_definitions_is_refused(capture: Path, tmp_path: Path) -> None:
    beside = tmp_path / "defs.def"
    beside.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(OptionError, match="definitions"):
        plan_of(capture, format="goldengate", definitions=str(beside))


def test_a_packed_file_that_is_cut_off_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "log.txt.gz"
    packed = gzip.compress((OPEN + RECORD * 50).encode())
    path.write_bytes(packed[:-20])
    plan = plan_of(path, format="goldengate")
    assert [note["code"] for note in get_format("goldengate").problems(plan)] == ["truncated"]


def test_an_empty_file_has_no_parts(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"")
    plan = plan_of(path, format="goldengate")
    assert plan.splits == []
    assert plan.facts["records"] == 0


# --- versions ---------------------------------------------------------------------------------------------------------

TDR = """Table Name: SHOP.STOCK
*
TDR version: 11
Definition for table SHOP.STOCK
Record Length: 40
Columns: {count}
{rows}End of definition
"""
ROWS = (
    "id 134 20 0 0 0 0 0 8 8 8 0 0 0 0 1 0 1 3 0 0 0 0 0\n",
    "name 64 30 12 0 0 1 0 30 30 0 0 0 0 0 1 0 0 0 0 0 0 0 0\n",
)
DDR = "Database Name:\n*\nDDR Version: 1\nDatabase type: ORACLE\nCharacter set ID: UTF-8\nTimeZone: GMT+08:00\n*\n"


def tdr(count: int) -> str:
    return TDR.format(count=count, rows="".join(ROWS[:count]))


def metadata(text: str, rba: int, order: int = 1, index: int = 2) -> MetadataText:
    trail = TrailFile("./dirdat/aa", order, order, f"./dirdat/aa{order:09d}")
    return MetadataText(text, rba, 0, 1000 * order + rba, 50, index, trail, "/x/log.txt")


def lookup(*texts: MetadataText, beside: Any = ()) -> Lookup:
    return Lookup(texts, beside)


def in_force(
    texts: tuple[MetadataText, ...], rba: int, order: int = 1, index: int = 2, name: str = "SHOP.STOCK"
) -> str:
    found = lookup(*texts)
    number = int(found.in_force(TrailFile("./dirdat/aa", order, order), index, name, np.array([rba]))[0])
    return found.versions[number].table_version if number >= 0 else ""


def test_a_definition_is_called_by_its_index_and_trail_file() -> None:
    found = lookup(metadata(DDR, 50, index=0), metadata(tdr(1), 100), metadata(tdr(1), 900), metadata(tdr(2), 1500))
    assert [one.table_version for one in found.versions] == ["2@aa000000001", "2@aa000000001#2"]
    assert found.versions[0].lineage == {
        "database type": "ORACLE",
        "character set": "UTF-8",
        "time zone": "GMT+08:00",
    }
    assert len(found.places) == 3


def test_versions_have_different_keys_whatever_their_trail_files_are_called() -> None:
    def of(file: str, number: int, rba: int) -> MetadataText:
        return MetadataText(tdr(number), rba, 0, rba, 50, 2, TrailFile("aa", 1, 1, file), "/x/log.txt")

    found = lookup(of("aa", 1, 100), of("aa", 2, 200), of("aa#2", 3, 300))
    assert [one.table_version for one in found.versions] == ["2@aa", "2@aa#2", "2@aa#2#2"]


def test_the_definition_in_force_is_the_last_before_the_record() -> None:
    texts = (metadata(tdr(1), 100), metadata(tdr(2), 1500), metadata(tdr(2), 100, order=2, index=1))
    assert in_force(texts, 200) == "2@aa000000001"
    assert in_force(texts, 1600) == "2@aa000000001#2"
    assert in_force(texts, 200, order=2, index=1) == "1@aa000000002"
    assert in_force(texts, 50, order=2, index=MISSING) == "2@aa000000001#2"
    assert in_force(texts, 50) == "2@aa000000001"
    assert in_force(texts, 200, name="SHOP.OTHER") == ""


def test_a_record_with_an_index_and_no_name_finds_its_definition() -> None:
    assert in_force((metadata(tdr(1), 100),), 200, name="") == "2@aa000000001"


def test_a_reference_brings_the_definition_it_points_to_into_force() -> None:
    again = metadata("Table Name: SHOP.STOCK (Ref TDR Index: 2)\n", 30, order=2, index=5)
    assert in_force((metadata(tdr(1), 100), again), 60, order=2, index=5) == "2@aa000000001"


def test_a_reference_to_another_table_gives_its_columns_to_the_table_of_the_reference() -> None:
    other = metadata("Table Name: SHOP.SHELF (Ref TDR Index: 2)\n", 300, index=2)
    texts = (metadata(tdr(1), 100), other, metadata(tdr(2), 1500))
    assert in_force(texts, 400, index=3, name="SHOP.SHELF") == "SHOP.SHELF@aa000000001"
    assert in_force(texts, 400) == "2@aa000000001"
    assert in_force(texts, 1600, index=3, name="SHOP.SHELF") == "SHOP.SHELF@aa000000001"
    found = lookup(*texts)
    stock, shelf = found.versions[:2]
    assert (*shelf.name, shelf.columns) == ("SHOP", "SHELF", stock.columns)
    assert (stock.full_name, shelf.lineage["definition of"]) == ("SHOP.STOCK", "SHOP.STOCK (2@aa000000001)")
    assert found.places[0, 1300] == 1
    text = shelf.to_row()["schema_text"]
    assert text.startswith("Table Name: SHOP.SHELF (Ref TDR Index: 2)")
    assert "Definition for table SHOP.STOCK" in text


def test_a_reference_with_an_index_of_its_own_is_found_by_it() -> None:
    other = metadata("Table Name: SHOP.SHELF (Ref TDR Index: 2)\n", 300, index=3)
    texts = (metadata(tdr(1), 100), other)
    assert in_force(texts, 400, index=3, name="") == "3@aa000000001"
    assert in_force(texts, 400, index=2, name="") == "2@aa000000001"


def test_a_reference_means_the_index_of_its_own_file() -> None:
    shelf = tdr(1).replace("SHOP.STOCK", "SHOP.SHELF")
    again = metadata("Table Name: SHOP.SHELF (Ref TDR Index: 2)\n", 300, order=2, index=2)
    texts = (metadata(shelf, 100), metadata(tdr(2), 100, order=2), again)
    found = lookup(*texts)
    number = next(one.number for one in found.entries if one.at == 300)
    assert (found.versions[number].full_name, len(found.versions[number].columns)) == ("SHOP.SHELF", 2)


def test_a_reference_to_a_definition_that_is_not_there_defines_nothing() -> None:
    other = metadata("Table Name: SHOP.SHELF (Ref TDR Index: 7)\n", 300, index=7)
    found = lookup(metadata(tdr(1), 100), other)
    assert len(found.versions) == 1
    assert not found.defined("SHOP.SHELF")


def test_definitions_from_beside_are_found_by_name_in_any_case() -> None:
    found = lookup(beside=parse_defgen(DEFGEN))
    assert found.defined("shop.stock")
    assert not found.defined("shop.stocks")


def test_without_images_no_value_is_decoded(capture: Path) -> None:
    row = read(capture, wanted=Wanted(images=False), format="goldengate", images="false").to_pylist()[-1]
    assert (row["kind"], row["after"]) == ("change", None)
