"""The report as a file: complete, offline, within its size, and deaf to what captured text says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdcwb.charts.theme import DARK
from cdcwb.errors import CaptureError
from cdcwb.report.answer import HEADLINE
from cdcwb.report.facts import MIME
from cdcwb.report.html import (
    CODE,
    SIZE_LIMIT,
    IndexEntry,
    PageInfo,
    Siblings,
    page,
    title_of,
    write_index,
    write_scripts,
)
from cdcwb.report.show import FIGURE_MIME, NOTHING, STYLE
from cdcwb.writing import write_text

HOSTILE = "</script><script>alert(1)</script><!--\u2028"
ABOUT = PageInfo("data/<b>&", datetime(2025, 3, 23, 10, 57, 19, 5, tzinfo=UTC), "02_transactions", "0.1.0")


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text}


def code(*outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": "SECRET_CODE = 1", "outputs": list(outputs)}


def output(metadata: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def figure(text: str = "bar") -> dict[str, Any]:
    content = {"data": [{"type": "bar", "name": text}], "layout": {"height": 321}, "config": {}}
    return output(**{FIGURE_MIME: content, "text/html": "<table><td>in numbers</td></table>"})


def made(*cells: dict[str, Any]) -> str:
    return page({"cells": [markdown("# The title\n\nIntroduction."), *cells]}, ABOUT)


@pytest.fixture(scope="module")
def whole() -> str:
    return made(markdown("## One\n\ntext\n\n## Two\n"), code(figure()), code(figure(HOSTILE)))


def scripts(html: str) -> list[str]:
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def test_plotly_is_in_the_file_once_and_from_nowhere_else(whole: str) -> None:
    assert whole.count("* plotly.js v") == 1
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//", whole)
    assert "<link" not in whole
    assert "<script src" not in whole
    assert "require" not in "".join(scripts(whole)[2:])


def test_a_report_without_charts_has_no_use_for_plotly() -> None:
    html = made(code(output(**{"text/html": "<p>only words</p>"})))
    assert "plotly" not in html
    assert len(html) < 24_000


def test_the_file_is_well_below_its_limit(whole: str) -> None:
    assert len(whole.encode()) < 5_500_000 < SIZE_LIMIT


def test_the_policy_allows_exactly_the_scripts_that_are_there(whole: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', whole)
    assert policy is not None
    allowed = re.findall(r"&#39;sha256-([^&]+)&#39;", policy.group(1))
    there = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts(whole)]
    assert sorted(allowed) == sorted(there)
    assert len(there) == 3
    assert "default-src &#39;none&#39;" in policy.group(1)
    assert "unsafe-eval" not in policy.group(1)
    assert "http" not in policy.group(1)


def test_captured_text_cannot_leave_the_data_of_its_chart(whole: str) -> None:
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', whole, re.DOTALL)
    assert [json.loads(block)["data"][0]["name"] for block in blocks] == ["bar", HOSTILE]
    assert "<" not in "".join(blocks)
    assert "\u2028" not in "".join(blocks)


def test_there_is_no_code_and_no_bare_fact(whole: str) -> None:
    html = made(code(output(**{"application/vnd.cdcwb.facts+json": {"secret": 1}, "text/plain": "1 fact recorded"})))
    assert "SECRET_CODE" not in whole + html
    assert "recorded" not in html


def test_each_chart_has_its_height_reserved_and_its_numbers_beside_it(whole: str) -> None:
    assert whole.count('style="height: 321px"') == 2
    assert whole.count("<table><td>in numbers") == 2


def test_the_title_is_the_first_heading_and_the_sections_are_linked(whole: str) -> None:
    assert re.findall(r"<h1>(.*)</h1>", whole) == ["The title"]
    assert re.findall(r'<a href="#([\w-]+)">(\w+)</a>', whole) == [("one", "One"), ("two", "Two")]
    assert re.findall(r'<h2 id="([\w-]+)">', whole) == ["one", "two"]
    assert title_of({"cells": [code(), markdown("text\n# Later\n")]}) == "Later"


def test_the_head_says_what_when_and_with_what_and_escapes_it(whole: str) -> None:
    assert "data/&lt;b&gt;&amp;" in whole
    assert "2025-03-23 10:57:19 UTC" in whole
    assert "cdcwb 0.1.0 with the notebook 02_transactions" in whole


def test_a_page_begins_with_the_answer_to_its_question() -> None:
    facts = {"headline": "No transaction fits: <b>users</b>"}
    html = made(code(output(**{MIME: facts})))
    assert '<p class="answer">No transaction fits: &lt;b&gt;users&lt;/b&gt;</p>' in html
    assert html.index("<h1>") < html.index('class="answer"') < html.index("<main>")
    assert 'class="answer"' not in made(code(figure()))


def test_the_answer_that_a_notebook_shows_is_not_said_twice() -> None:
    said = output({"cdcwb": HEADLINE}, **{"text/html": "<p>the answer</p>"})
    assert "the answer" not in made(code(said, output(**{MIME: {"headline": "the other"}})))
    assert "the answer" in made(code(said)), "of a notebook whose answer is not known"


def test_only_the_richest_form_of_an_output_is_shown_and_nothing_from_standard_error() -> None:
    html = made(
        code(
            output(**{"text/html": "<p>rich</p>", "text/plain": "poor"}),
            output(**{"text/plain": "<plain>"}),
            output({"cdcwb": STYLE}, **{"text/html": "<style>once</style>"}),
            {"output_type": "stream", "name": "stdout", "text": ["a<", "b"]},
            {"output_type": "stream", "name": "stderr", "text": "WARN noise"},
        )
    )
    assert "<p>rich</p>" in html
    assert "poor" not in html
    assert "<pre>&lt;plain&gt;</pre>" in html
    assert "<pre>a&lt;b</pre>" in html
    assert "noise" not in html
    assert "once" not in html


def test_a_report_that_would_be_too_large_is_refused() -> None:
    with pytest.raises(CaptureError, match="would be larger than 8 MB; choose fewer tables or a shorter time"):
        made(code(output(**{"text/html": "x" * SIZE_LIMIT})))


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    write_text(target, "first")
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "second, with half a character \ud800")
    assert target.read_text() == "first"
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def cells(html: str) -> list[list[str]]:
    """The texts of the matrix of an index, row by row."""
    rows = re.findall(r"<tr role=.*?</tr>", html, re.DOTALL)
    parts = [re.findall(r"<t[hd] .*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]*>", " ", part).split()) for part in row] for row in parts]


def test_the_index_is_a_matrix_of_captures_and_questions(tmp_path: Path) -> None:
    def entry(capture: str, name: str, title: str, *said: str, answers: bool = True) -> IndexEntry:
        file = tmp_path / capture / f"{name}.html"
        file.parent.mkdir(exist_ok=True)
        file.write_text("x" * 500)
        tone, headline = said
        health = (f"A capture {capture}.", "Issues found: 1 error.", "bad")
        return IndexEntry(title, capture, f"{capture}/{name}.html", tone, headline, *health, answers=answers)

    entries = [
        entry("one", "02_transactions", "Transactions", "good", "All 5 transactions committed"),
        entry("two", "01_capture", "Capture", "bad", "Issues found: 1 error", answers=False),
        entry("two", "02_transactions", "Transactions", "warning", "1 of 2 transactions still open"),
        entry("two", "03_change_masks", "Change masks", "", "No updates"),
    ]
    html = write_index(tmp_path, entries, ABOUT.made, "0.1.0").read_text()
    health = "Capture health Error Issues found: 1 error. A capture"
    assert cells(html) == [
        ["Capture", "Capture health", "Transactions", "Change masks"],
        [
            "one 1 report, 500 bytes",
            f"{health} one.",
            "Transactions OK All 5 transactions committed",
            "no report",
        ],
        [
            "two 3 reports, 1.5 kB",
            f"{health} two.",
            "Transactions Warning 1 of 2 transactions still open",
            "Change masks No updates",
        ],
    ]
    assert re.findall('href="([^"]+)"', html) == [
        "one/02_transactions.html",
        *(f"two/{name}.html" for name in ("01_capture", "02_transactions", "03_change_masks")),
    ]


def test_the_index_escapes_what_was_captured_and_runs_its_own_script_only(tmp_path: Path) -> None:
    (tmp_path / "a#b c.html").write_text("x" * 1234)
    entry = IndexEntry("T<i>", HOSTILE, "a#b c.html", "bad", "Needs a <look>.", "<u>", HOSTILE, "bad")
    html = write_index(tmp_path, [entry], ABOUT.made, "0.1.0", ["<b>"], {HOSTILE: HOSTILE}).read_text()
    assert 'href="a%23b%20c.html"' in html
    (script,) = re.findall(r"<script.*?</script>", html, re.DOTALL)
    digest = hashlib.sha256(script.removeprefix("<script>").removesuffix("</script>").encode()).digest()
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}';" in html.replace("&#39;", "'")
    assert "<img" not in html
    assert "T&lt;i&gt;" in html
    assert "Needs a &lt;look&gt;." in html
    assert "<p>&lt;u&gt;</p>" in html
    assert "1.23 kB" in html


def test_an_index_of_nothing_says_so(tmp_path: Path) -> None:
    assert "No reports." in write_index(tmp_path, [], ABOUT.made, "0").read_text()


def test_code_is_on_the_page_where_the_cell_is_tagged() -> None:
    shown = {"cell_type": "code", "source": "1 < 2", "metadata": {"tags": [CODE]}, "outputs": []}
    html = made(shown, {**shown, "source": "2 < 3", "metadata": {}})
    assert '<pre class="code"><code>1 &lt; 2</code></pre>' in html
    assert "2 &lt; 3" not in html


def test_a_guide_is_a_line_above_the_matrix(tmp_path: Path) -> None:
    guide = IndexEntry("Start here", "", "00.html", headline="All <formats>")
    (tmp_path / "02.html").touch()
    one = IndexEntry("Transactions", "data/gbase8s", "02.html", "good", "All committed")
    html = write_index(tmp_path, [guide, one], ABOUT.made, "0").read_text()
    line, matrix = html[html.index('<nav class="guide"') :].split("</nav>", 1)
    assert re.findall(r'<a href="([^"]+)">([^<]+)</a>', line) == [("00.html", "Start here")]
    assert "Start here" not in matrix
    assert "All &lt;formats&gt;" in line


def test_a_long_word_is_broken_after_a_separator_only(tmp_path: Path) -> None:
    (tmp_path / "05.html").touch()
    said = "the option keys=schema.table:column+column names <them>"
    html = write_index(tmp_path, [IndexEntry("XDS", "data", "05.html", "", said)], ABOUT.made, "0").read_text()
    assert "keys=<wbr>schema.<wbr>table:<wbr>column+<wbr>column names &lt;them&gt;" in html


def test_a_page_has_the_theme_that_its_notebook_was_asked_for(whole: str) -> None:
    assert '<html lang="en" data-theme="auto">' in whole
    dark = made(code(output({"cdcwb": STYLE, "theme": "dark"}, **{"text/html": "<style></style>"})))
    assert '<html lang="en" data-theme="dark">' in dark
    (colours,) = re.findall(r'<script type="application/json" id="dark">(.*?)</script>', whole)
    assert json.loads(colours) == DARK


SIBLINGS = Siblings("../cdcwb-0.js", "sha256-0", "../index.html", {"01_capture": ("Capture", "01_capture.html")})


def test_pages_of_a_suite_share_one_file_that_is_named_by_its_content(tmp_path: Path) -> None:
    path, integrity = write_scripts(tmp_path / "reports")
    content = path.read_bytes()
    digest = hashlib.sha256(content)
    assert path.name == f"cdcwb-{digest.hexdigest()[:16]}.js"
    assert integrity == f"sha256-{base64.b64encode(digest.digest()).decode()}"
    assert content.count(b"* plotly.js v") == 1
    before = path.stat().st_mtime_ns
    assert write_scripts(tmp_path / "reports") == (path, integrity)
    assert path.stat().st_mtime_ns == before, "what is there is not written again"
    path.write_bytes(content[:1000])  # a copy that was interrupted
    write_scripts(tmp_path / "reports")
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_page_of_a_suite_is_small_and_names_its_scripts_by_their_hash() -> None:
    html = page({"cells": [markdown("# T"), code(figure())]}, ABOUT, SIBLINGS)
    assert len(html) < 60_000
    assert "plotly.js v" not in html
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    allowed = re.findall(r"&#39;sha256-([^&]+)&#39;", policy.group(1))
    there = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts(html)]
    assert sorted(allowed) == sorted(there)
    assert "&#39;strict-dynamic&#39;" in policy.group(1)
    (shared,) = re.findall(r'<script type="application/json" id="shared">(.*?)</script>', html)
    assert json.loads(shared) == {"file": "../cdcwb-0.js", "integrity": "sha256-0"}
    assert "strict-dynamic" not in made(code(figure()))


def test_links_lead_to_sibling_reports_and_to_nothing_outside() -> None:
    source = (
        "[one](../notebooks/01_capture.ipynb) [two](02_transactions.ipynb) [three](https://example.org/x) "
        "[four](../docs/formats/x.md) [five](#part)"
    )
    link = output(**{"text/html": '<p><a class="x" href="../docs/y.md">six</a></p>'})
    html = page({"cells": [markdown("# T"), markdown(source), code(link)]}, ABOUT, SIBLINGS)
    assert re.findall(r'<a href="([^"]+)">(\w[\w ]*)</a>', html) == [
        *(("../index.html", "All reports"), ("01_capture.html", "Capture")),
        *(("01_capture.html", "one"), ("#part", "five")),
    ]
    assert "two" in html
    assert "<p>six</p>" in html
    assert "example.org" not in made(markdown(source))


def test_a_heading_with_nothing_below_it_is_left_out() -> None:
    nothing = code(output({"cdcwb": NOTHING}, **{"text/plain": ""}))
    shown = code(output(**{"text/html": "<p>an answer</p>"}))
    html = made(markdown("## Empty\n\nAbout it."), nothing, markdown("## Full"), shown, markdown("## Said\n\nAlone."))
    assert "Empty" not in html
    assert "About it" not in html
    assert all(text in html for text in ("Introduction.", ">Full</h2>", "an answer", ">Said</h2>", "Alone."))
