"""The explorer without a page: every step from one record to another, and what the panes say of a record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdcwb.errors import OptionError
from cdcwb.explore.model import Explorer
from cdcwb.filters import FilterError, quoted
from cdcwb.index.changes import TooManyChangesError
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture
from tests.explore_captures import DATA, explorer_of, saved
from tests.made import generate

FORMATS = ("gbase8s", "goldengate", "qlik-kafka", "qlik-change-table", "debezium")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: saved(DATA / name, tmp_path_factory.mktemp(name) / "saved", parts=2) for name in FORMATS}


@pytest.fixture
def gbase8s(made: dict[str, Path]) -> Explorer:
    return Explorer.open(made["gbase8s"])


def of(explorer: Explorer, name: str) -> Any:
    return explorer.columns[name].value(explorer.chosen)


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(node for child in tree["children"] for node in nodes(child))]


@pytest.mark.parametrize("name", FORMATS)
def test_every_record_has_its_bytes_and_a_tree_that_lies_within_them(name: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    for row in range(0, explorer.index.records, 17):
        explorer.choose(row)
        detail = explorer.detail()
        data = bytes.fromhex(detail["bytes"])
        assert explorer.index.number("offset", row) == detail["offset"]
        for node in nodes(detail["tree"]):
            assert 0 <= node["at"] <= node["at"] + node["length"] <= len(data)


def test_steps_go_from_record_to_record_and_stop_at_the_ends(gbase8s: Explorer) -> None:
    gbase8s.move(3)
    assert gbase8s.chosen == 3
    gbase8s.move(-10)
    assert gbase8s.chosen == 0
    gbase8s.move(10_000)
    assert gbase8s.chosen == gbase8s.index.records - 1


def test_a_filter_keeps_the_chosen_record_or_takes_the_next_one(gbase8s: Explorer) -> None:
    gbase8s.choose(30)
    gbase8s.apply('kind == "commit"')
    rows = [gbase8s.row_at(place) for place in range(gbase8s.shown)]
    assert gbase8s.chosen == min(row for row in rows if row >= 30)
    assert [line["row"] for line in gbase8s.page(1, 3)] == rows[1:4]
    chosen = gbase8s.chosen
    gbase8s.apply('kind in ("begin", "commit")')
    assert gbase8s.chosen == chosen
    gbase8s.apply("offset < 0")
    assert (gbase8s.shown, gbase8s.page(0, 10), gbase8s.chosen) == (0, [], chosen)
    gbase8s.move(1)
    assert gbase8s.chosen == chosen


def test_a_wrong_filter_changes_nothing(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "commit"')
    shown = gbase8s.shown
    with pytest.raises(FilterError, match=r"no column 'kid'\. Did you mean 'kind'"):
        gbase8s.apply('kid == "commit"')
    assert (gbase8s.filter, gbase8s.shown) == ('kind == "commit"', shown)


def test_the_filter_before_comes_back(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "commit"')
    gbase8s.apply("")
    gbase8s.back()
    assert gbase8s.filter == 'kind == "commit"'
    gbase8s.back()
    assert gbase8s.filter == ""
    with pytest.raises(OptionError, match="no earlier filter"):
        gbase8s.back()


def test_choosing_a_hidden_record_takes_the_filter_away(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "commit"')
    gbase8s.choose(0)
    assert (gbase8s.filter, gbase8s.chosen) == ("", 0)


@pytest.mark.parametrize("name", FORMATS)
def test_problems_are_visited_one_by_one_there_and_back(name: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    rows = np.flatnonzero([explorer.columns["problem"].value(row) is not None for row in range(explorer.index.records)])
    visited = []
    explorer.chosen = 0
    if rows[0] == 0:
        visited.append(0)
    while True:
        try:
            explorer.problem(1)
        except OptionError:
            break
        visited.append(explorer.chosen)
    assert visited == rows.tolist()
    if len(rows) > 1:
        explorer.problem(-1)
        assert explorer.chosen == rows[-2]


def test_only_problems_that_the_filter_shows_are_visited(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "malformed"')
    gbase8s.chosen = 0
    gbase8s.problem(1)
    assert of(gbase8s, "kind") == "malformed"
    gbase8s.apply('kind == "commit"')
    with pytest.raises(OptionError, match="no further problem among the records shown"):
        gbase8s.problem(1)


def test_a_transaction_is_followed(gbase8s: Explorer) -> None:
    gbase8s.go("lsn 0000000B03FE0050")
    gbase8s.follow_transaction()
    assert gbase8s.filter == 'transaction == "23@0000000B03FE0018"'
    rows = [gbase8s.row_at(place) for place in range(gbase8s.shown)]
    assert {gbase8s.columns["transaction"].value(row) for row in rows} == {"23@0000000B03FE0018"}
    assert gbase8s.columns["kind"].value(rows[0]) == "begin"


def test_a_record_without_transaction_or_table_says_so(gbase8s: Explorer) -> None:
    gbase8s.choose(0)
    with pytest.raises(OptionError, match="belongs to no transaction"):
        gbase8s.follow_transaction()
    gbase8s.apply('kind == "begin"')
    with pytest.raises(OptionError, match="changes no row"):
        gbase8s.follow_row()


@pytest.mark.parametrize("name", ["gbase8s", "qlik-change-table"])
def test_the_halves_of_an_update_find_each_other(name: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    explorer.apply('kind == "before"')
    for place in range(0, explorer.shown, 5):
        record = explorer.records.read(explorer.row_at(place))
        half = explorer.records.half(record)
        assert half is not None
        assert (half.event["kind"], half.label) == ("after", record.label)
        assert half.event["transaction_id"] == record.event["transaction_id"]
        back = explorer.records.half(half)
        assert back is not None
        assert back.row == record.row


def test_values_say_what_changed_what_is_null_and_what_was_not_captured(tmp_path: Path) -> None:
    explorer = explorer_of("goldengate", tmp_path)
    explorer.apply('type == "FieldComp"')
    values = {one["name"]: one for one in explorer.detail()["values"]}
    assert (values["full_name"]["has_before"], values["full_name"]["has_after"]) == (False, True)
    assert values["customer_id"]["key"]
    assert "city" not in values


@pytest.mark.parametrize(("name", "text"), [("qlik-kafka", "changeMask"), ("qlik-change-table", "header__change_mask")])
def test_a_mask_is_shown_bit_by_bit_with_its_columns(name: str, text: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    explorer.apply('operation == "UPDATE" and kind in ("after", "change")')
    masks = {mask["name"]: mask for mask in explorer.detail()["masks"]}
    chosen = [bit["column"] for bit in masks[text]["bits"] if bit["set"]]
    assert chosen == explorer.record().event["changed_columns"]
    assert [bit["bit"] for bit in masks[text]["bits"]] == list(range(len(masks[text]["bits"])))
    assert any(bit["header"] for bit in masks[text]["bits"]) == (name == "qlik-change-table")


def test_the_schema_in_force_is_shown_with_the_other_versions(made: dict[str, Path]) -> None:
    explorer = Explorer.open(made["qlik-kafka"])
    explorer.apply('table == "customer" and operation == "UPDATE"')
    schema = explorer.detail()["schema"]
    assert (schema["table"], [one["name"] for one in schema["columns"] if one["key"]]) == (
        "shop.customer",
        ["customer_id"],
    )
    assert len(schema["others"]) == 1


# --- marks and filters ------------------------------------------------------------------------------------------------


def test_marks_are_kept_beside_the_saved_capture_and_can_be_filtered(tmp_path: Path) -> None:
    explorer = explorer_of("gbase8s", tmp_path)
    explorer.choose(40)
    explorer.mark("look <here>")
    explorer.choose(7)
    explorer.mark("")
    again = Explorer.open(tmp_path / "saved")
    assert [line["mark"] for line in (again.page(7, 1)[0], again.page(40, 1)[0])] == ["", "look <here>"]
    again.apply("mark != null")
    assert [again.row_at(place) for place in range(again.shown)] == [7, 40]
    again.apply('note contains "<here>"')
    assert (again.shown, again.chosen) == (1, 40)
    again.mark(None)
    again.apply("mark != null")
    assert again.shown == 1


def test_filters_are_kept_beside_the_saved_capture(tmp_path: Path) -> None:
    explorer = explorer_of("gbase8s", tmp_path)
    with pytest.raises(OptionError, match="a name and a text"):
        explorer.save_filter("nothing")
    explorer.apply('kind == "commit"')
    explorer.save_filter(" commits ")
    assert Explorer.open(tmp_path / "saved").saved.rows() == [{"name": "commits", "text": 'kind == "commit"'}]


# --- without the files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_saved_capture_whose_files_are_gone_shows_what_was_saved(name: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / name, tmp_path / "files")
    explorer = Explorer.open(saved(tmp_path / "files", tmp_path / "saved", parts=2))
    explorer.apply('operation == "UPDATE" and kind in ("after", "change")')
    there = explorer.detail()
    told = json.loads(explorer.copy("json"))
    shutil.rmtree(tmp_path / "files")
    explorer.records.read.cache_clear()
    gone = explorer.detail()
    assert (gone["bytes"], gone["values"]) == (there["bytes"], there["values"])
    assert "no longer exists" in gone["note"]
    names = {node["name"]: node["value"] for node in gone["tree"]["children"]}
    assert (names["kind"], names["operation"]) == (told["kind"], "UPDATE")
    assert json.loads(explorer.copy("json"))["after"] == told["after"]


def test_a_file_that_was_cut_since_is_told_and_not_guessed_at(tmp_path: Path) -> None:
    shutil.copytree(DATA / "gbase8s", tmp_path / "files")
    explorer = Explorer.open(saved(tmp_path / "files", tmp_path / "saved"))
    first = tmp_path / "files" / "stream-1.bin"
    content = first.read_bytes()
    for row, changed in ((20, b""), (300, content[:1000]), (40, content[:2842] + b"\0" * 7 + content[2842:])):
        first.write_bytes(changed)
        explorer.choose(row)
        assert explorer.detail()["note"].startswith("from the saved events: ")


def test_the_rest_of_a_record_shows_the_record_that_it_continues(tmp_path: Path) -> None:
    made = generate("gbase8s", changes=40, seed=1, to=tmp_path / "made", files=2, cut_records=True)
    explorer = Explorer.open(made / "capture")
    explorer.apply('kind == "fragment"')
    rest = explorer.record()
    assert (explorer.shown, rest.event["offset"]) == (1, 0)
    assert rest.note == f"continues the record at offset {explorer.index.number('offset', rest.row - 1)} of " + str(
        explorer.index.file_of(rest.row - 1)["file"]
    )
    content = Path(explorer.index.file_of(rest.row)["file"]).read_bytes()
    assert (rest.data or b"").endswith(content[: rest.event["length"]])
    explorer.choose(rest.row - 1)
    cut = explorer.record()
    assert (cut.data, cut.event["operation"], len(cut.event["after"])) == (rest.data, "INSERT", 7)


@pytest.mark.parametrize("name", ["charset", "byte_order"])
def test_the_options_of_a_saved_capture_are_those_that_its_files_are_read_with(name: str, tmp_path: Path) -> None:
    value = {"charset": "iso-8859-1", "byte_order": "little"}[name]
    folder = saved(DATA / "gbase8s", tmp_path / "saved", **{name: value})
    explorer = Explorer.open(folder)
    assert explorer.source.options == {name: value}
    assert Explorer.open(folder, prefix_width="2").source.options == {name: value, "prefix_width": "2"}
    explorer.apply('table == "shop.customer" and operation == "INSERT"')
    there = [explorer.records.read(explorer.row_at(place)).event["after"] for place in range(5)]
    events = explorer.source.events
    explorer.source.index.files[:] = [{**one, "file": "/nowhere"} for one in explorer.source.index.files]
    explorer.records.read.cache_clear()
    assert events
    assert [explorer.records.read(explorer.row_at(place)).event["after"] for place in range(5)] == there


def test_an_unknown_copy_names_those_there_are(gbase8s: Explorer) -> None:
    with pytest.raises(OptionError, match=r"no copy 'sql'. There are: json, hex, xds."):
        gbase8s.copy("sql")


def test_a_selected_update_is_shown_with_both_halves(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "after" and table == "shop.orders"')
    afters = [gbase8s.row_at(place) for place in range(gbase8s.shown)]
    mask = np.isin(np.arange(gbase8s.index.records), afters)
    gbase8s.apply("")
    gbase8s.follow(Selection(tables=["shop.orders"], operations=["UPDATE"]), lambda: mask)
    gbase8s.refresh()
    shown = [gbase8s.row_at(place) for place in range(gbase8s.shown)]
    halves = {record.row for row in afters if (record := gbase8s.records.half(gbase8s.records.read(row)))}
    assert set(shown) == {*afters, *halves}
    gbase8s.apply('kind == "before"')
    assert gbase8s.shown == len(halves)


def test_the_sentence_of_a_malformed_record_is_shown_once(gbase8s: Explorer) -> None:
    gbase8s.apply('kind == "malformed"')
    detail = gbase8s.detail()
    (problem,) = detail["problems"]
    everything = json.dumps({name: value for name, value in detail.items() if name != "problems"})
    assert problem["sentence"] not in everything
    assert detail["tree"]["problem"] is None or detail["tree"]["problem"] in problem["code"]


@pytest.mark.parametrize("name", FORMATS)
def test_no_sentence_is_shown_twice(name: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    for row in explorer.index.problem_rows[:20]:
        explorer.choose(int(row))
        detail = explorer.detail()
        sentences = [one["sentence"] for one in detail["problems"]] + [detail["note"]]
        sentences += [node["meaning"] for node in nodes(detail["tree"]) if node["meaning"] in sentences]
        sentences = [one for one in sentences if one]
        assert len(sentences) == len(set(sentences))


def test_a_long_value_is_shown_in_part_and_whole_when_asked(tmp_path: Path) -> None:
    text = "so long a note\n" * 60
    path = tmp_path / "capture"
    shutil.copytree(DATA / "qlik-kafka", path)
    for file in path.glob("shop.customer-*"):
        file.write_text(file.read_text(encoding="utf-8").replace('"Hollin"', json.dumps(text)), encoding="utf-8")
    explorer = Explorer.open(saved(path, tmp_path / "saved"))
    explorer.apply(f"after.city == {quoted(text)}")
    explorer.advance()
    detail = explorer.detail()
    (city,) = [one for one in detail["values"] if one["name"] == "city"]
    assert (city["after_cut"], city["after"][-1]) == (True, "…")
    assert explorer.complete_value(image="after", column="city") == text
    number = next(at for at, node in enumerate(nodes(detail["tree"])) if node["name"] == "city" and node["cut"])
    assert explorer.complete_value(number) == text
    with pytest.raises(OptionError, match="there is no value here"):
        explorer.complete_value(0)


def test_a_half_of_an_update_is_shown_alone_if_the_changes_are_too_many(
    made: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer = Explorer.open(made["gbase8s"])
    explorer.apply('kind == "before" and table == "shop.orders"')

    def too_many(_source: IndexedCapture) -> Any:
        raise TooManyChangesError("too many changes")

    monkeypatch.setattr(IndexedCapture, "changes", property(too_many))
    values = explorer.detail()["values"]
    assert {(one["has_before"], one["has_after"]) for one in values} == {(True, False)}
