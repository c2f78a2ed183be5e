"""The parameters of a notebook: understood, or refused with everything that is wrong in one message."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdcwb.errors import OptionError
from cdcwb.report import check_parameters
from cdcwb.report.opening import check_target
from cdcwb.views.pages import Transactions


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OptionError) as caught:
        check_parameters(
            str(tmp_path / "none"), "gbase8", "[1]", "orders", "yesterday", "2025-13-01", str(file), "Mars/Base"
        )  # type: ignore[arg-type]
    message = str(caught.value)
    for part in (
        f"path: there is no file or folder '{tmp_path / 'none'}'",
        "format: there is no 'gbase8'. Did you mean 'gbase8s'?",
        "options: expected a JSON object, found '[1]'",
        "tables: expected a list of names such as [\"shop.orders\"], found 'orders'",
        "time_from: expected a time such as 2025-03-23T10:57:19Z, found 'yesterday'",
        "time_to: expected a time such as 2025-03-23T10:57:19Z, found '2025-13-01'",
        f"folder: '{file}' is a file",
        "time_zone: expected an IANA name such as Europe/Berlin or an offset such as +08:00, found 'Mars/Base'",
    ):
        assert part in message
    assert "\n" not in message


def test_a_notebook_of_an_earlier_version_is_refused_in_a_sentence() -> None:
    with pytest.raises(OptionError, match="earlier version, with the parameter others"):
        Transactions.open("data", "auto", "{}", [], "", "", "", "UTC", [], "auto")


def test_good_parameters_are_understood(tmp_path: Path) -> None:
    asked = check_parameters(
        str(tmp_path),
        "gbase8s",
        '{"charset": "gbk"}',
        ["a.b"],
        "2025-03-23",
        "2025-03-23T18:00:00+08:00",
        str(tmp_path),
    )
    assert asked.path == str(tmp_path)
    assert asked.options == {"charset": "gbk"}
    assert asked.tables == ["a.b"]
    assert asked.time_from == datetime(2025, 3, 23, tzinfo=UTC)
    assert asked.time_to == datetime(2025, 3, 23, 10, tzinfo=UTC)
    assert asked.folder == tmp_path
    assert asked.limits == ["tables a.b", "from 2025-03-23T00:00:00+00:00", "to 2025-03-23T10:00:00+00:00"]


def test_a_list_may_be_a_json_text(tmp_path: Path) -> None:
    asked = check_parameters(str(tmp_path), options={"charset": "gbk"}, tables='["a.b", "c"]')
    assert (asked.tables, asked.options) == (["a.b", "c"], {"charset": "gbk"})
    assert check_parameters(str(tmp_path), tables="").limits == []
    with pytest.raises(OptionError, match=r"tables: expected a list of names .*, found '\[1\]'"):
        check_parameters(str(tmp_path), tables="[1]")


def test_the_defaults_mean_the_whole_capture(tmp_path: Path) -> None:
    asked = check_parameters(str(tmp_path))
    assert (asked.format, asked.options, asked.tables, asked.limits) == ("auto", {}, [], [])
    assert asked.time_from is asked.time_to is asked.folder is None


def test_a_window_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"time_from .* is after time_to"):
        check_parameters(str(tmp_path), time_from="2025-03-24", time_to="2025-03-23")


def test_broken_json_is_shown_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"options: expected a JSON object, found '{' .*line 1 column 2"):
        check_parameters(str(tmp_path), options="{")


def test_the_examples_open_from_any_folder_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "notebooks")
    assert Path(check_parameters("data/gbase8s").path).is_dir()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+08:00", "-03:30"])
def test_times_are_displayed_in_the_zone_asked_for(tmp_path: Path, zone: str) -> None:
    assert check_parameters(str(tmp_path), time_zone=zone).time_zone == zone


def test_times_are_displayed_in_utc_where_no_zone_is_named(tmp_path: Path) -> None:
    assert check_parameters(str(tmp_path)).time_zone == check_parameters(str(tmp_path), time_zone="").time_zone == "UTC"


def test_what_is_wrong_with_the_target_of_a_comparison_names_it(tmp_path: Path) -> None:
    assert check_target("") is None
    asked = check_target(str(tmp_path), "gbase8s", '{"charset": "gb18030"}')
    assert asked is not None
    assert (asked.path, asked.format, asked.options) == (str(tmp_path), "gbase8s", {"charset": "gb18030"})
    with pytest.raises(OptionError) as caught:
        check_target("nowhere", "goldengat", "{")
    message = str(caught.value)
    assert message.startswith(f"target: path: there is no file or folder '{Path('nowhere').absolute()}'")
    assert "there is no 'goldengat'. Did you mean 'goldengate'?" in message
    assert "options: expected a JSON object, found '{'" in message
    with pytest.raises(OptionError, match="theme: expected one of auto, light, dark, found 'drak'"):
        check_parameters(str(tmp_path), theme="drak")


def test_a_zone_is_a_region_or_an_offset(tmp_path: Path) -> None:
    noon = datetime(2025, 3, 23, 12, tzinfo=UTC)
    for text, hour in (("UTC", 12), ("Europe/Berlin", 13), ("+08:00", 20)):
        assert noon.astimezone(check_parameters(str(tmp_path), time_zone=text).zone).hour == hour


def test_what_a_notebook_checks_itself_is_said_with_the_rest(tmp_path: Path) -> None:
    def own() -> None:
        raise OptionError("batch_size: expected 1 to 128")

    with pytest.raises(OptionError, match=r"^theme: .*; batch_size: expected 1 to 128$"):
        check_parameters(str(tmp_path), theme="red", also=[own])
