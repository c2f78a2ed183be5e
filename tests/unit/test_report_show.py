"""What a notebook shows: words for every kind of value, and nothing captured that could act as HTML."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import plotly.graph_objects as go
import pytest

from cdcwb.analysis.summary_text import Health, Tone
from cdcwb.report import show
from cdcwb.report.answer import Answer
from cdcwb.words import show_times_in

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&\u202e"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: outputs.append(data))
    return outputs


def put_table(rows: Any, columns: dict[str, str], folder: str = "", **about: Any) -> None:
    answer = Answer(folder=folder)
    answer.table(rows, columns, **about)
    show.put_blocks(answer)


def put_cards(values: list[tuple[str, str, str]]) -> None:
    answer = Answer()
    answer.cards(values)
    show.put_blocks(answer)


def put_verdict(health: Health) -> None:
    answer = Answer()
    answer.verdict(health)
    show.put_blocks(answer)


def put_headline(text: str) -> None:
    answer = Answer()
    answer.page_headline(text)
    show.put_blocks(answer)


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", html)


def test_every_kind_of_value_is_told_in_words() -> None:
    row = {
        "began_at": datetime(2025, 3, 23, 10, 57, 19, 25, tzinfo=UTC),
        "duration_us": 90_000_001,
        "bytes": 1536,
        "changes": [("INSERT", 1200), ("DELETE", 3000)],
        "problems": 12345,
        "share": 5 / 108,
        "tables": ["a", "b"],
        "overridden": False,
        "outcome": "rolled_back",
        "user": None,
    }
    html = show.table_html([row], {name: name for name in row})
    assert cells(html) == [
        "2025-03-23 10:57:19.000025",
        "1 min 30 s",
        "1.54 kB",
        "DELETE 3,000, INSERT 1,200",
        "12,345",
        "4.6%",
        "a, b",
        "no",
        "rolled back",
        '<span class="null">—</span>',
    ]
    assert "began_at (UTC)</th>" in html


def test_a_day_that_all_times_share_stands_in_the_heading() -> None:
    times = [datetime(2026, 2, 3, 8, 0, second, 250_000, tzinfo=UTC) for second in (1, 2)]
    html = show.table_html([{"began_at": time} for time in times], {"began_at": "begin"})
    assert "begin<small>2026-02-03 UTC</small></th>" in html
    assert cells(html) == ["08:00:01.250", "08:00:02.250"]
    apart = [times[0], datetime(2026, 2, 4, tzinfo=UTC)]
    html = show.table_html([{"began_at": time} for time in apart], {"began_at": "begin"})
    assert "begin (UTC)</th>" in html
    assert cells(html) == ["2026-02-03 08:00:01.250", "2026-02-04 00:00:00"]


def test_files_of_a_capture_are_named_without_its_folder(shown: list[dict[str, Any]]) -> None:
    files = ["/captures/shop/a/b.csv", "/captures/shop.csv", "/elsewhere/c.csv", None]
    put_table([{"file": file} for file in files], {"file": "file"}, folder="/captures/shop")
    dash = '<span class="null">—</span>'
    assert cells(shown[0]["text/html"]) == ["a/b.csv", "/captures/shop.csv", "/elsewhere/c.csv", dash]
    put_table([{"file": "/captures/a.csv"}], {"file": "file"}, folder="/captures/a.csv")
    assert cells(shown[1]["text/html"]) == ["a.csv"]


def test_a_value_too_long_for_a_card_gets_the_room_of_two(shown: list[dict[str, Any]]) -> None:
    put_cards([("a", "2" * 35, ""), ("b", "2" * 16, ""), ("c", "2", "")])
    html = shown[0]["text/html"]
    assert html.count('<div class="broad">') == 1
    assert html.count('<b class="long">') == 2


def test_a_long_list_names_the_first_and_counts_the_others() -> None:
    rows = [{"tables": list("abcd")}, {"tables": list("abcdefg")}, {"tables": []}]
    assert cells(show.table_html(rows, {"tables": "tables"})) == ["a, b, c, d", "a, b, c and 4 more", "none"]


def test_a_cut_table_says_how_many_rows_there_are(shown: list[dict[str, Any]]) -> None:
    put_table([{"n": 1}, {"n": 2}], {"n": "n"}, total=1234)
    assert "2 of 1,234 shown." in shown[0]["text/html"]
    put_table([{"n": 1}, {"n": 2}], {"n": "n"}, total=2)
    assert "shown" not in shown[1]["text/html"]


def test_an_empty_table_is_a_sentence(shown: list[dict[str, Any]]) -> None:
    put_table([], {"n": "n"}, none="No change was undone.")
    assert shown[0]["text/html"] == '<p class="cdcwb-note">No change was undone.</p>'


def test_captured_text_is_escaped_wherever_it_is_shown(shown: list[dict[str, Any]]) -> None:
    put_table([{HOSTILE: HOSTILE, "l": [HOSTILE], "t": [(HOSTILE, 1)]}], {HOSTILE: HOSTILE, "l": "l", "t": "t"})
    put_cards([(HOSTILE, HOSTILE, HOSTILE)])
    show.note(HOSTILE)
    put_verdict(Health(Tone.BAD, HOSTILE, HOSTILE))
    put_headline(HOSTILE)
    assert len(shown) == 5
    for output in shown:
        assert "<script" not in output["text/html"]
        assert "<img" not in output["text/html"]
        assert "\u202e" not in output["text/html"]


def test_a_chart_carries_its_numbers_for_those_who_cannot_run_script(shown: list[dict[str, Any]]) -> None:
    show.chart(go.Figure(go.Bar(x=[1], y=[2])), "<table></table>")
    (output,) = shown
    assert output["text/html"] == "<table></table>"
    figure = output[show.FIGURE_MIME]
    assert set(figure) == {"data", "layout", "config"}
    assert figure["data"][0]["type"] == "bar"


def test_times_in_a_table_are_in_the_zone_of_the_page() -> None:
    rows = [{"at": datetime(2025, 10, 25, 22, tzinfo=UTC)}, {"at": datetime(2025, 10, 26, 8, tzinfo=UTC)}]
    show_times_in(ZoneInfo("Europe/Berlin"), "Europe/<Berlin>")
    try:
        same, different = (show.table_html(part, {"at": "begin"}) for part in (rows[:1], rows))
    finally:
        show_times_in()
    assert "begin (Europe/&lt;Berlin&gt;)</th>" in same
    assert cells(same) == ["2025-10-26 00:00:00"]
    assert "begin</th>" in different  # clocks are changed between the two: each has its offset
    assert cells(different) == ["2025-10-26 00:00:00 +02:00", "2025-10-26 09:00:00 +01:00"]


def test_a_cell_in_words_has_its_value_for_sorting_and_saving() -> None:
    row = {
        "began_at": datetime(2025, 3, 23, 10, 57, 19, tzinfo=ZoneInfo("Europe/Berlin")),
        "duration_us": -90_000_001,
        "bytes": 1536,
        "changes": 12345,
        "few": 12,
        "share": 5 / 108,
        "tables": list("abcdefg"),
        "note": "x" * 200,
        "user": None,
    }
    html = show.table_html([row], {name: name for name in row})
    held = dict(zip(row, re.findall(r"<td([^>]*)>", html), strict=True))
    values = {name: re.search(r'data-value="([^"]*)"', text) for name, text in held.items()}
    assert {name: found and found.group(1) for name, found in values.items()} == {
        "began_at": "2025-03-23T09:57:19.000000Z",
        "duration_us": "-90000001",
        "bytes": "1536",
        "changes": "12345",
        "few": None,
        "share": repr(5 / 108),
        "tables": "a, b, c, d, e, f, g",
        "note": "x" * 200,
        "user": None,
    }
    heads = re.findall(r'<th scope="col"(?: class="[^"]*")?([^>]*)>', html)
    assert heads[:4] == [
        *(' data-kind="time" data-title="began_at"', ' data-kind="number" data-unit="µs"'),
        *(' data-kind="number" data-unit="bytes"', ' data-kind="number"'),
    ]


def test_a_row_with_a_record_names_the_command_that_shows_it(shown: list[dict[str, Any]]) -> None:
    show.read_by({"/in/a b.bin": ("gbase8s", {"byte_order": "big"})})
    rows = [
        {"file": "/in/a b.bin", "offset": 4000},
        {"file": "/in/a b.bin", "offset": None},
        {"file": "t", "offset": 1},
    ]
    put_table(rows, {"file": "file", "offset": "at offset"}, folder="/in")
    put_table([{"again_file": "/in/a b.bin", "again_offset": 7}], {"again_offset": "at offset"})
    show.read_by({})
    command = "cdcwb inspect &#x27;/in/a b.bin&#x27; --offset {} --format gbase8s -o byte_order=big"
    assert re.findall(r'<td[^>]* title="([^"]*)"', shown[0]["text/html"]) == [command.format(4000)]
    assert re.findall(r'<td[^>]* title="([^"]*)"', shown[1]["text/html"]) == [command.format(7)]


def test_a_row_without_an_offset_names_the_command_at_its_position(shown: list[dict[str, Any]]) -> None:
    """Of each capture the command for its own format."""
    show.read_by({"/in/a.bin": ("gbase8s", {}), "/out/b.csv": ("qlik-change-table", {"name": "shop.customer"})})
    row = {"source_position": "a.bin, 40", "source_file": "/in/a.bin", "source_offset": 40}
    row |= {"target_position": "b.csv, 7", "target_file": "/out/b.csv", "target_offset": 7}
    alone = row | dict.fromkeys(("source_position", "source_file", "source_offset"))
    put_table([row, alone], {"source_position": "in the source", "target_position": "in the target"})
    put_table([{"position": "7", "file": "/in/a.bin", "offset": 9}], {"position": "position", "offset": "offset"})
    show.read_by({})
    source = "cdcwb inspect /in/a.bin --offset 40 --format gbase8s"
    target = "cdcwb inspect /out/b.csv --offset 7 --format qlik-change-table -o name=shop.customer"
    titles = r'<td[^>]* title="([^"]*)"'
    assert re.findall(titles, shown[0]["text/html"]) == [source, target, target]
    assert len(re.findall(titles, shown[1]["text/html"])) == 1


def test_a_row_leads_to_the_first_record_and_a_cell_to_its_own() -> None:
    leads = [show.Lead("one", [4, None, None], "a"), show.Lead("other", [7, 8, None], "b")]
    html = show.table_html([{"a": "x", "b": "y"}] * 3, {"a": "a", "b": "b"}, leads=leads)
    found = re.findall(r'<(t[rd])[^>]* data-record="(\d+)" data-capture="(\w+)" tabindex="0"', html)
    assert found == [("tr", "4", "one"), ("td", "7", "other"), ("tr", "8", "other")]


def test_only_words_longer_than_any_name_may_break() -> None:
    html = show.table_html([{"a": "shop.customer_address", "b": f"{'x' * 60} y"}], {"a": "a", "b": "b"})
    assert re.findall(r'<td class="([^"]*)"', html) == ["text", "text breaks"]
    html = show.table_html([{"a": "orders-1.txt, partition 1", "b": f"well-known {'x ' * 30}"}], {"a": "a", "b": "b"})
    assert re.findall(r'<td class="([^"]*)"', html) == ["text whole", "text"]


def test_a_date_an_arrow_or_a_name_with_a_hyphen_is_not_broken_in_a_sentence() -> None:
    told = 'since: 2025-01-11 -> 2024-05-30; note: "a <b> & re-opened"; rating: -1; key = row-level & more words'
    html = show.table_html([{"sentence": told}], {"sentence": "changed values"})
    assert re.findall(r'<i class="whole">([^<]*)</i>', html) == [
        *("2025-01-11", "-&gt;", "2024-05-30;"),
        *("re-opened", "row-level"),
    ]
    (shown,) = re.findall(r"<td[^>]*>(.*)</td>", html)
    assert unescape(re.sub("</?i[^>]*>", "", shown)) == told
    assert "data-value" not in html


def test_short_values_of_a_column_are_in_one_line_and_need_no_more_room() -> None:
    rows = [{"file": one, "evidence": "a word or two"} for one in ("a b.csv", "a folder/of files b.csv", None)]
    html = show.table_html(rows, {"file": "file", "evidence": "evidence"})
    files = ["text path whole", "text path", "text path whole"]
    assert re.findall(r'<td class="([^"]*path[^"]*)"', html) == files
    assert html.count('class="text sentence whole"') == 3
