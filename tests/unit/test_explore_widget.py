"""The explorer's page: what the kernel answers, and what the script that ships with it never does."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cdcwb.explore.model import Explorer
from cdcwb.explore.widget import ExplorerWidget
from tests.explore_captures import DATA, saved

SCRIPT = resources.files("cdcwb.explore").joinpath("explorer.js").read_text(encoding="utf-8")
STYLE = resources.files("cdcwb.explore").joinpath("explorer.css").read_text(encoding="utf-8")
RUNS = "<script>x()</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = {str(number): f"{RUNS}{number}" for number in range(101, 107)}
    return saved(DATA / "gbase8s", tmp_path_factory.mktemp("widget") / "saved", labels=json.dumps(labels))


@pytest.fixture
def widget(folder: Path) -> ExplorerWidget:
    return ExplorerWidget(Explorer.open(folder))


def ask(widget: ExplorerWidget, do: str, **more: Any) -> dict[str, Any]:
    answer = widget.answer({"id": 1, "do": do, "first": 0, "count": 12, **more})
    return json.loads(json.dumps(answer))


def test_the_first_answer_has_a_page_and_what_there_is(widget: ExplorerWidget) -> None:
    answer = ask(widget, "open")
    assert [row["row"] for row in answer["state"]["rows"]] == list(range(12))
    assert answer["about"]["columns"]["table"] == "text"
    assert answer["about"]["looks"]["INSERT"][0].startswith("rgb")


def test_the_list_follows_the_chosen_record_only_where_a_step_chose_it(widget: ExplorerWidget) -> None:
    assert ask(widget, "page", first=500)["state"]["first"] == 500
    assert ask(widget, "move", by=1)["state"]["first"] == 0
    far = ask(widget, "go", text="record 1000")["state"]
    assert far["chosen"] == 999
    assert far["first"] < 999 < far["first"] + 12
    assert ask(widget, "move", by=10_000, first=far["first"])["state"]["first"] == 1452 - 12


def test_an_error_is_a_sentence_with_its_place_and_the_page_stays(widget: ExplorerWidget) -> None:
    answer = ask(widget, "filter", text='kid == "x"')
    assert answer["error"].startswith("at character 1: there is no column 'kid'. Did you mean 'kind'?")
    assert answer["place"] == 0
    assert answer["state"]["filter"] == ""
    assert "there is no step" in ask(widget, "system")["error"]


def test_a_record_that_is_not_chosen_any_more_is_not_taken_apart(widget: ExplorerWidget) -> None:
    assert "detail" not in ask(widget, "detail", row=5)
    assert ask(widget, "detail", row=0)["detail"]["row"] == 0


def test_copies_marks_and_filters_go_through(widget: ExplorerWidget) -> None:
    ask(widget, "filter", text='operation == "INSERT"')
    assert '"operation": "INSERT"' in ask(widget, "copy", kind="json")["copied"]["text"]
    assert ask(widget, "mark", note="n")["state"]["marks"] == 1
    assert ask(widget, "mark", note=None)["state"]["marks"] == 0
    assert ask(widget, "save", name="inserts")["state"]["saved"] == [
        {"name": "inserts", "text": 'operation == "INSERT"'}
    ]
    assert ask(widget, "forget", name="inserts")["state"]["saved"] == []
    assert ask(widget, "back")["state"]["filter"] == ""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)


def test_a_page_without_a_kernel_gets_a_table_in_which_captured_values_are_text(widget: ExplorerWidget) -> None:
    widget.explorer.apply('operation == "INSERT"')
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    tags = _Tags()
    tags.feed(data["text/html"])
    assert tags.tags == {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert "&lt;script&gt;" in data["text/html"]


@pytest.mark.parametrize(
    "way",
    [
        *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment"),
        *("eval(", "Function(", "import ", "import(", "fetch(", "XMLHttpRequest", "WebSocket", "http:", "https:"),
        *("srcdoc", "localStorage"),
    ],
)
def test_the_script_makes_no_markup_from_text_and_asks_nobody(way: str) -> None:
    assert way not in SCRIPT


def test_the_style_loads_nothing_and_touches_nothing_else_on_the_page() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    selectors = [part.strip() for rule in re.findall(r"(?:^|\})([^{}]+)\{", STYLE) for part in rule.split(",")]
    selectors = [one for one in selectors if one and not one.startswith("@")]
    assert selectors
    assert [one for one in selectors if not one.startswith(".cdcwb-explorer")] == []


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        colour = colour.lstrip("#")
        colour = "".join(c * 2 for c in colour) if len(colour) == 3 else colour
        parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_themes(theme: str) -> None:
    selector = r"\.cdcwb-explorer \{" if theme == "light" else r"\.cdcwb-explorer\.dark \{"
    found = re.search(selector + r"(.*?)\}", STYLE, re.DOTALL)
    assert found is not None
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", found.group(1)))
    for ink in ("ink", "muted", "warning", "bad", "info", "accent"):
        for ground in ("paper", "ground"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for ink, ground in (("chosen-ink", "chosen"), ("field-ink", "field"), ("ink", "hover"), ("ink", "key")):
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def test_a_search_is_asked_how_far_it_is_until_it_ends(widget: ExplorerWidget) -> None:
    state = ask(widget, "filter", text='after.state == "DONE" and operation == "INSERT"')["state"]
    assert state["search"]["running"]
    assert state["search"]["sentence"].startswith("opening the files to search ")
    while state["search"]["running"]:
        state = ask(widget, "page")["state"]
    assert re.fullmatch(r"searched ([\d,]+) of \1 records, ([\d,]+) found", state["search"]["sentence"])
    assert state["search"]["sentence"].endswith(f" {state['shown']} found")
    assert (state["search"]["part"], len(state["rows"])) == (1, min(12, state["shown"]))
    assert ask(widget, "filter", text='operation == "INSERT"')["state"]["search"] is None


def test_a_search_that_is_cancelled_says_how_far_it_came(widget: ExplorerWidget) -> None:
    assert ask(widget, "filter", text="after.total > 0")["state"]["search"]["running"]
    state = ask(widget, "cancel")["state"]
    assert re.fullmatch(r"stopped after 0 of [\d,]+ records, 0 found", state["search"]["sentence"])
    assert not state["search"]["running"]
    assert state["filter"] == "after.total > 0"
