"""An executed notebook as one HTML file that opens offline, sends nothing and shows its charts without a kernel.

The page holds everything it needs, plotly.js once. Its content security policy names the scripts it came with by their
hashes and allows nothing else: no other script, no connection, no form, no frame. So even text that slipped through the
escaping of :mod:`cdcwb.report.show` could not run or call home.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdcwb.charts.theme import DARK
from cdcwb.errors import CaptureError
from cdcwb.report.facts import MIME as FACTS_MIME
from cdcwb.report.show import FIGURE_MIME, STYLE, asset
from cdcwb.words import moment, size

__all__ = ["SIZE_LIMIT", "Page", "page", "render", "title_of", "write_whole"]

SIZE_LIMIT = 8_000_000
"""No report is larger, in bytes; plotly.js is the greater part of it."""

_BEFORE = 'document.documentElement.className = "script";'


@dataclass(frozen=True, slots=True)
class Page:
    """What stands in the head and foot of a report."""

    capture: str
    made: datetime
    notebook: str
    version: str


def page(notebook: Mapping[str, Any], about: Page) -> str:
    """The HTML of an executed notebook: its markdown and its outputs, no code.

    Raises CaptureError where it would be larger than :data:`SIZE_LIMIT`. Shown are charts, HTML, markdown and images;
    text only where there is nothing richer. What went to standard error is left out.
    """
    blocks = list(_blocks(notebook))
    scripts = [_BEFORE]
    if any(block["kind"] == "chart" for block in blocks):
        scripts += [_plotly(), asset("dark.js") + asset("charts.js")]
    html = render(
        "report.html",
        title=title_of(notebook),
        about=about,
        made=moment(about.made.replace(microsecond=0)),
        blocks=blocks,
        contents=[block for block in blocks if block["kind"] == "heading"],
        theme=_theme(notebook),
        dark=_script_json(DARK),
        before=_BEFORE,
        scripts=scripts[1:],
        policy=_policy(scripts),
    )
    if len(html.encode()) > SIZE_LIMIT:
        raise CaptureError(f"the report would be larger than {size(SIZE_LIMIT)}; choose fewer tables or a shorter time")
    return html


def _theme(notebook: Mapping[str, Any]) -> str:
    """The theme that the notebook was asked for."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    about = [output.get("metadata", {}) for output in outputs]
    return next((str(one["theme"]) for one in about if one.get("cdcwb") == STYLE and "theme" in one), "auto")


def title_of(notebook: Mapping[str, Any]) -> str:
    """The first heading of a notebook."""
    for cell in notebook["cells"]:
        found = re.search(r"^# +(.+)$", _text(cell["source"]), re.MULTILINE)
        if cell["cell_type"] == "markdown" and found:
            return found.group(1).strip()
    return "Report"


def render(template: str, **values: Any) -> str:
    """A template of this package, with its style; every value is escaped unless the template says that it is HTML."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    loader = DictLoader({name: asset(name) for name in ("report.html", "index.html")})
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(style=asset("show.css") + asset("page.css"), **values)


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(beside).chmod(0o666 & ~umask)  # mkstemp makes it private
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _blocks(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    charts = 0
    first = True
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = _text(cell["source"])
            if first:
                source = re.sub(r"^# +.+\n*", "", source, count=1, flags=re.MULTILINE)  # it is the page's title
                first = False
            yield from _markdown(source)
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream" and output["name"] == "stdout":
                yield {"kind": "text", "text": _text(output["text"])}
            data = output.get("data", {})
            if output.get("metadata", {}).get("cdcwb") == STYLE:
                continue  # the page has it already
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
                yield {"kind": "html", "html": _text(data["text/html"])}
            elif "text/markdown" in data:
                yield from _markdown(_text(data["text/markdown"]))
            elif "image/png" in data:
                yield {"kind": "image", "data": _text(data["image/png"]).replace("\n", "")}
            elif "text/plain" in data:
                yield {"kind": "text", "text": _text(data["text/plain"])}


def _markdown(source: str) -> Iterator[dict[str, Any]]:
    """Markdown as blocks: headings of the second level on their own, for the table of contents."""
    from nbconvert.filters.markdown import markdown2html

    for part in re.split(r"^(## +.+)$", source, flags=re.MULTILINE):
        if part.startswith("## "):
            heading = part[3:].strip()
            yield {"kind": "heading", "text": heading, "id": re.sub(r"\W+", "-", heading.lower()).strip("-")}
        elif part.strip():
            yield {"kind": "html", "html": str(markdown2html(part))}


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return re.sub("</(script)", r"<\\/\1", str(get_plotlyjs()), flags=re.IGNORECASE)


def _policy(scripts: list[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _script_json(value: Any) -> str:
    """JSON that stays inside its script element whatever it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def now() -> datetime:
    """The time that a report says it was made."""
    return datetime.now(UTC)
