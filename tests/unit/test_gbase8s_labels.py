"""The file ``NAME.labels.json`` beside a capture names its tables, whichever way the capture is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.formats import identify, inspect
from tests import wire
from tests.local import ledger, plan_of, read

NAMES = {"131": "shop.goods"}
RECORDS = b"".join(
    [wire.goods(), wire.begin(5, 0x10), wire.insert(5, 0x50, 3, "elm"), wire.commit(5, 0xD0)],
)


def capture(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or ("a.bin",):
        (folder / name).write_bytes(RECORDS)
    return folder


def labels(path: Path, names: object = NAMES) -> Path:
    path.write_text(names if isinstance(names, str) else json.dumps(names), encoding="utf-8")
    return path


def named(path: Path, **options: object) -> set[tuple[str | None, str]]:
    """Schema and table of each change."""
    rows = read(path, **options).to_pylist()
    return {(row["schema_name"], row["table_name"]) for row in rows if row["operation"] is not None}


def row(path: Path, **options: object) -> list[tuple[str, str, bool]]:
    """What ``detected`` says of the names."""
    rows = plan_of(path, **options).detected
    return [(one["value"], one["evidence"], one["overridden"]) for one in rows if one["setting"] == "labels"]


SHOP, NUMBER = {("shop", "goods")}, {(None, "131")}


def test_names_beside_a_folder_are_those_of_all_files_in_it_and_are_detected(tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream", "a.bin", "b.bin")
    capture(folder / "later", "c.bin")
    assert (named(folder), row(folder)) == (NUMBER, [])
    path = labels(tmp_path / "stream.labels.json")
    for opened in (folder, folder / "a.bin", folder / "later", folder / "later" / "c.bin"):
        assert named(opened) == SHOP
        assert row(opened) == [(str(path), "the labels file of the capture; it names 1 label", False)]


@pytest.mark.parametrize("name", ["a.bin.labels.json", "a.labels.json"])
def test_names_beside_a_file_are_its_own_and_no_records(name: str, tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream")
    path = labels(folder / name)
    for opened in (folder, folder / "a.bin"):
        assert named(opened) == SHOP
        assert row(opened)[0][0] == str(path)
    assert ledger(read(folder)) == {str(folder / "a.bin"): len(RECORDS)}
    assert identify(folder).format == "gbase8s"


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    folder = capture(tmp_path / "all" / "stream")
    labels(tmp_path / "all.labels.json", {"131": "far.away"})
    assert named(folder) == {("far", "away")}
    labels(tmp_path / "all" / "stream.labels.json")
    assert named(folder) == SHOP
    labels(folder / "a.bin.labels.json", {"131": "near"})
    assert named(folder) == {(None, "near")}


def test_the_option_comes_first(tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream")
    path = labels(tmp_path / "stream.labels.json")
    other = labels(tmp_path / "other.json", {"131": "other"})
    given: list[tuple[Any, str, set[tuple[str | None, str]]]] = [
        ("131=goods", "131=goods", {(None, "goods")}),
        ({"131": "goods"}, '{"131": "goods"}', {(None, "goods")}),
        (str(other), str(other), {(None, "other")}),
        ("none", "none", NUMBER),
        ("None", "None", NUMBER),
        ({}, "none", NUMBER),
    ]
    for value, shown, expected in given:
        assert named(folder, labels=value) == expected
        assert row(folder, labels=value) == [(shown, "given as an option", True)]
        assert named(folder, labels=shown) == expected
    for value in ("auto", "", None):
        assert named(folder, labels=value) == SHOP
        assert row(folder, labels=value)[0][0] == str(path)


def test_a_file_of_names_is_no_capture_file_even_where_it_is_not_used(tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream")
    labels(folder / "a.labels.json")
    assert ledger(read(folder, labels="none")) == {str(folder / "a.bin"): len(RECORDS)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'expected a JSON object such as {"101": "shop.orders"}'),
        ("[]", "expected a JSON object such as"),
        ('{"131": ', "not valid JSON: "),
        ('{"131": 5}', "expected a JSON object of texts"),
        ('{"elm": "goods"}', "the label 'elm' is not a 32-bit number"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(text: str, said: str, tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream")
    path = labels(tmp_path / "stream.labels.json", text)
    with pytest.raises(OptionError) as caught:
        plan_of(folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert str(caught.value).endswith(". Correct this file, or load with labels=none.")
    assert "\n" not in str(caught.value)
    assert named(folder, labels="none") == NUMBER


def test_files_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream", "a.bin", "b.bin")
    first, second = labels(folder / "a.labels.json"), labels(folder / "b.labels.json", {"131": "b.goods", "7": "seven"})
    with pytest.raises(OptionError) as caught:
        plan_of(folder)
    assert str(caught.value).startswith(f"{second}: label 131 has a different name in {first}. ")
    labels(folder / "b.labels.json", {"131": "shop.goods", "7": "seven"})
    assert named(folder) == SHOP
    assert [value for value, _, _ in row(folder)] == [str(first), str(second)]


def test_a_single_record_has_the_names(tmp_path: Path) -> None:
    folder = capture(tmp_path / "stream")
    labels(tmp_path / "stream.labels.json")
    place = len(wire.goods()) + len(wire.begin(5, 0x10))
    assert inspect(folder / "a.bin", place).note == "decoded with table version 131@1 of shop.goods"
    assert inspect(folder / "a.bin", place, labels="none").note == "decoded with table version 131@1"


def test_a_single_record_is_decoded_with_the_schema_in_force(tmp_path: Path) -> None:
    """A schema that returns is an earlier version; one of a side file is in force from the beginning."""
    other = wire.schema("goods char(4), n integer", 8, 2, 0)
    insert = wire.insert(5, 0x50, 3, "elm")
    path = tmp_path / "a.bin"
    records = [insert, wire.goods(), other, wire.goods(), insert]
    path.write_bytes(b"".join(records))
    found = inspect(path, len(b"".join(records[:4])))
    assert (found.event["after"], found.note) == ({"n": "3", "goods": "elm"}, "decoded with table version 131@1")
    assert not inspect(path, 0).event["after"]
    assert inspect(path, 0, schemas={131: "n integer, goods varchar(40,0)"}).event["after"] == found.event["after"]
