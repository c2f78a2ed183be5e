"""An executed notebook as an HTML page that opens offline, sends nothing and shows its charts without a kernel.

A page that is made alone holds everything it needs, plotly.js once. The pages of a suite share one script file, which
is next to them and whose name has the hash of its content: pages of another version keep theirs.

The content security policy of a page names its scripts by their hashes and allows nothing else: no other script, no
connection, no form, no frame. The scripts of a suite are loaded by one that is named so ('strict-dynamic', since a hash
or 'self' does not allow a file next to a page that was opened from a disk). So even text that slipped through the
escaping of :mod:`cdcwb.report.show` could not run or call home.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote

from markupsafe import Markup

from cdcwb.charts.theme import DARK
from cdcwb.errors import CaptureError
from cdcwb.report.answer import HEADLINE
from cdcwb.report.facts import MIME as FACTS_MIME
from cdcwb.report.facts import read_facts
from cdcwb.report.show import FIGURE_MIME, NOTHING, STYLE, asset
from cdcwb.words import moment, plural, size, visible
from cdcwb.writing import write_text

SIZE_LIMIT = 8_000_000
"""The largest size of a report in bytes; plotly.js is the greater part of it."""

CODE: Final = "show-code"
"""The tag of cells whose code is on the page."""

_BEFORE = 'document.documentElement.className = "script";'
_CHARTS = ("dark.js", "charts.js")
_COMPLETE = 'document.documentElement.classList.add("complete");\n'
"""The last line of the shared scripts, which does not run if the file is incomplete."""


@dataclass(frozen=True, slots=True)
class PageInfo:
    """The content of head and foot of a report; ``redacted`` are the columns without values."""

    capture: str
    made: datetime
    notebook: str
    version: str
    redacted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Siblings:
    """The links of a page of a suite: the file of the shared scripts, the index, and the other reports by the name of
    their notebook. All are relative to the page; ``integrity`` is the hash of the scripts for the browser."""

    scripts: str
    integrity: str
    index: str
    reports: Mapping[str, tuple[str, str]]
    """By the name of the notebook (``02_transactions``): title and address."""


def page(notebook: Mapping[str, Any], about: PageInfo, siblings: Siblings | None = None) -> str:
    """The HTML of an executed notebook: its markdown and outputs, and the code of cells with the tag ``show-code``.
    ``siblings``: the links to its suite; None: a standalone page.

    Raises CaptureError if it would be larger than :data:`SIZE_LIMIT`. Shown are charts, HTML, markdown and images;
    text only if there is nothing richer. Standard error is left out.
    """
    reports = {} if siblings is None else {name: address for name, (_, address) in siblings.reports.items()}
    answer = visible(read_facts(notebook).get("headline") or "", 400)
    blocks = list(_blocks(notebook, reports, (STYLE, HEADLINE) if answer else (STYLE,)))
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    styles = [m for output in outputs if (m := output.get("metadata", {})).get("cdcwb") == STYLE]
    has_charts = any(block["kind"] == "chart" for block in blocks)
    has_tables = any('<table class="cdcwb">' in block.get("html", "") for block in blocks)
    scripts = [_BEFORE]
    if siblings is not None:
        scripts += [asset("suite.js")] if has_charts or has_tables else []
    else:
        scripts += [_plotly()] if has_charts else []
        own = [_CHARTS] * has_charts + [("tables.js",)] * has_tables
        scripts += ["".join(asset(name) for names in own for name in names)] if own else []
    html = render(
        "report.html",
        title=title_of(notebook),
        about=about,
        answer=answer,
        made=moment(about.made.replace(microsecond=0)),
        blocks=blocks,
        contents=[block for block in blocks if block["kind"] == "heading"],
        theme=next((str(m["theme"]) for m in styles if "theme" in m), "auto"),
        dark=_script_json(DARK) if has_charts else "",
        siblings=siblings,
        shared="" if siblings is None else _script_json({"file": siblings.scripts, "integrity": siblings.integrity}),
        before=_BEFORE,
        scripts=scripts[1:],
        policy=policy(scripts, siblings is not None),
    )
    if len(html.encode()) > SIZE_LIMIT:
        raise CaptureError(f"the report would be larger than {size(SIZE_LIMIT)}; choose fewer tables or a shorter time")
    return html


def write_scripts(folder: Path) -> tuple[Path, str]:
    """Writes the shared scripts of a suite into ``folder``, unless they exist; returns the file, and the hash of its
    content for the browser. Files of other versions stay for the pages that refer to them."""
    text = _shared()
    digest = hashlib.sha256(text.encode()).digest()
    path = folder / f"cdcwb-{digest.hex()[:16]}.js"
    if not path.is_file() or path.read_bytes() != text.encode():
        write_text(path, text)
    return path, f"sha256-{base64.b64encode(digest).decode()}"


@cache
def _shared() -> str:
    return "\n".join([_plotly(), *(asset(name) for name in (*_CHARTS, "tables.js")), _COMPLETE])


def title_of(notebook: Mapping[str, Any]) -> str:
    """The first heading of a notebook."""
    for cell in notebook["cells"]:
        match = re.search(r"^# +(.+)$", _text(cell["source"]), re.MULTILINE)
        if cell["cell_type"] == "markdown" and match:
            return match.group(1).strip()
    return "Report"


def render(template: str, **values: Any) -> str:
    """Renders a template of this package; every value is escaped unless the template marks it as HTML."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    loader = DictLoader({name: asset(name) for name in ("report.html", "index.html")})
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    sheets = ("show.css", "page.css", *(["index.css"] if template == "index.html" else []))
    return environment.get_template(template).render(style="".join(map(asset, sheets)), **values)


def _blocks(notebook: Mapping[str, Any], reports: Mapping[str, str], flags: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The blocks of a page below its head, without headings of empty sections. ``flags``: the names of outputs that the
    head already has."""
    cells = notebook["cells"]
    charts = 0
    first = True
    for cell, below in zip(cells, [*cells[1:], {}], strict=True):
        if cell["cell_type"] == "markdown":
            if any(output.get("metadata", {}).get("cdcwb") == NOTHING for output in below.get("outputs", ())):
                continue
            source = _text(cell["source"])
            if first:
                source = re.sub(r"^# +.+\n*", "", source, count=1, flags=re.MULTILINE)  # it is the page's title
                first = False
            yield from _markdown(source, reports)
        elif CODE in cell.get("metadata", {}).get("tags", ()):
            yield {"kind": "code", "text": _text(cell["source"])}
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream" and output["name"] == "stdout":
                yield {"kind": "text", "text": _text(output["text"])}
            data = output.get("data", {})
            if output.get("metadata", {}).get("cdcwb") in (*flags, NOTHING):
                continue
            if FIGURE_MIME in data:
                charts += 1
                yield {
                    "kind": "chart",
                    "id": f"chart-{charts}",
                    "height": int(data[FIGURE_MIME]["layout"].get("height", 450)),
                    "json": _script_json(data[FIGURE_MIME]),
                    "instead": _text(data.get("text/html", "")),
                }
            elif FACTS_MIME in data:
                continue
            elif "text/html" in data:
                yield {"kind": "html", "html": _led(_text(data["text/html"]), reports)}
            elif "text/markdown" in data:
                yield from _markdown(_text(data["text/markdown"]), reports)
            elif "image/png" in data:
                yield {"kind": "image", "data": _text(data["image/png"]).replace("\n", "")}
            elif "text/plain" in data:
                yield {"kind": "text", "text": _text(data["text/plain"])}


def _markdown(source: str, reports: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Markdown as blocks: headings of the second level on their own, for the table of contents."""
    from nbconvert.filters.markdown import markdown2html

    for part in re.split(r"^(## +.+)$", source, flags=re.MULTILINE):
        if part.startswith("## "):
            heading = part[3:].strip()
            yield {"kind": "heading", "text": heading, "id": _slug(heading)}
        elif part.strip():
            yield {"kind": "html", "html": _led(str(markdown2html(part)), reports)}


def _slug(heading: str) -> str:
    return re.sub(r"\W+", "-", heading.lower()).strip("-")


_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


def _led(html: str, reports: Mapping[str, str]) -> str:
    """The HTML of a notebook with links for a page: within the page, and to the reports of the suite instead of their
    notebooks; other links become text."""

    def link(match: re.Match[str]) -> str:
        target, text = match.groups()
        if target.startswith("#"):  # JupyterLab's anchor of a heading
            own = 'class="anchor-link"' in match.group()
            return match.group() if own else f'<a href="#{_slug(unquote(target))}">{text}</a>'
        notebook = re.fullmatch(r"(?:.*/)?([^/]+)\.ipynb", target)
        address = reports.get(notebook.group(1)) if notebook else None
        return text if address is None else f'<a href="{quote(address)}">{text}</a>'

    return _LINK.sub(link, html)


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return re.sub("</(script)", r"<\\/\1", str(get_plotlyjs()), flags=re.IGNORECASE)


def policy(scripts: list[str], loads: bool) -> str:
    """The content security policy of a page: only these scripts; ``loads``: and the scripts that they load."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join([*(f"'sha256-{value}'" for value in hashes), *(["'strict-dynamic'"] if loads else [])])
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _script_json(value: Any) -> str:
    """JSON text that cannot end its script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


# --- index ------------------------------------------------------------------------------------------------------------

_SENTENCE: Final = 600
_WHOLE: Final = 24  # characters of a word that is not broken
_HEALTH: Final = "Capture health"
_WORDS: Final = {"good": "OK", "warning": "Warning", "bad": "Error"}


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One report in the index: ``file`` is its name in the folder of the index, ``headline`` its answer with its
    ``tone``. A guide has no ``capture``.

    ``what`` describes the capture, ``verdict`` is the sentence about its health, with the tone ``health``. ``answers``:
    whether the report has an answer of its own; else its headline is the verdict.
    """

    title: str
    capture: str
    file: str
    tone: str = ""
    headline: str = ""
    what: str = ""
    verdict: str = ""
    health: str = ""
    answers: bool = True


def write_index(
    folder: Path,
    entries: Sequence[IndexEntry],
    made: datetime,
    version: str,
    broken: Sequence[str] = (),
    failed: Mapping[str, str] | None = None,
) -> Path:
    """Writes ``index.html`` into ``folder`` and returns its path: a row for each capture, a column for each question,
    the first for the health of the capture; guides are on a line above. ``broken`` are sentences about exceeded
    thresholds, ``failed`` those about failed reports, by name. Everything is escaped."""
    guides = [entry for entry in entries if not entry.capture]
    entries = [entry for entry in entries if entry.capture]
    captures: dict[tuple[str, str], list[IndexEntry]] = {}
    for entry in entries:
        captures.setdefault((entry.capture, str(PurePosixPath(entry.file).parent)), []).append(entry)
    about = {key: next((e for e in some if not e.answers and e.verdict), None) for key, some in captures.items()}
    without_capture = [entry for entry in entries if entry not in about.values()]
    questions = dict.fromkeys(
        entry.title for entry in sorted(without_capture, key=lambda entry: PurePosixPath(entry.file).name)
    )
    script = asset("index.js")
    target = folder / "index.html"
    page = render(
        "index.html",
        guides=[(visible(guide.title), quote(guide.file), visible(guide.headline)) for guide in guides],
        questions=[_HEALTH, *questions],
        captures=[_row(folder, some, about[key], list(questions)) for key, some in captures.items()],
        made=moment(made.replace(microsecond=0)),
        version=version,
        broken=[visible(sentence, _SENTENCE) for sentence in broken],
        failed=[(name, visible(sentence, _SENTENCE)) for name, sentence in (failed or {}).items()],
        script=script,
        policy=policy([script], loads=False),
    )
    write_text(target, page)
    return target


def _row(
    folder: Path, entries: Sequence[IndexEntry], health: IndexEntry | None, questions: Sequence[str]
) -> dict[str, Any]:
    """The row of a capture in the index. ``health``: the report about its health."""
    first = entries[0]
    answers = {entry.title: entry for entry in reversed(entries) if entry is not health}
    cells: list[dict[str, str | Markup] | None] = [_cell(_HEALTH, health, first.health, first.verdict, first.what)]
    for one in map(answers.get, questions):
        cells.append(None if one is None else _cell(one.title, one, one.tone, one.headline))
    room = size(sum((folder / entry.file).stat().st_size for entry in entries))
    about = f"{plural(len(entries), 'report')}, {room}"
    return {"name": _unbroken(visible(first.capture, _SENTENCE)), "cells": cells, "about": about}


def _cell(question: str, report: IndexEntry | None, tone: str, text: str, more: str = "") -> dict[str, str | Markup]:
    """One cell of the index, with a link to ``report``, if there is one."""
    title = report.title if report and question == _HEALTH and report.title != "Capture" else question
    texts = {"text": visible(text, _SENTENCE) or title, "more": visible(more, _SENTENCE)}
    about = {"title": title, "href": quote(report.file) if report else "", "tone": tone, "word": _WORDS.get(tone, "")}
    return {**about, **{name: _unbroken(text) for name, text in texts.items()}}


def _unbroken(text: str) -> Markup:
    """A text as HTML in which short names and dates are not broken at hyphens and the like, and longer words only after
    a separator."""
    words = re.split(r"(\s+)", text)
    span = Markup('<span class="whole">{}</span>')
    return Markup("").join(
        Markup("<wbr>").join(re.split(r"(?<=[:+=/.,_])", word))
        if len(word) > _WHOLE
        else span.format(word)
        if re.search(r"\w[^\w\s]\w|_", word)
        else word
        for word in words
    )
