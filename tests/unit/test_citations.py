"""What the code says of a page in ``docs/formats`` is there: every section that it cites."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"docs/formats/([\w*-]+)\.md|§(\d+(?:\.\d+)?)")


def sections(page: str) -> set[str]:
    """Numbers of a page's headings, and of the points of its numbered lists: the third point of section 6 is 6.3."""
    found: set[str] = set()
    for line in page.splitlines():
        heading, point = re.match(r"##+ (\d+(?:\.\d+)?) ", line), re.match(r"(\d+)\. ", line)
        if heading is not None:
            number = heading[1]
            found.add(number)
        elif point is not None:
            found.add(f"{number}.{point[1]}")
    return found


SECTIONS = {path.stem: sections(path.read_text(encoding="utf-8")) for path in (ROOT / "docs" / "formats").glob("*.md")}
MODULES = [path for path in sorted(ROOT.glob("cdcwb*/**/*.py")) if "§" in path.read_text(encoding="utf-8")]


def test_every_section_that_is_cited_is_on_its_page() -> None:
    """A bare ``§4.2`` is of the page that the module names last before it; ``*`` is every page."""
    missing = []
    for path in MODULES:
        page = "none"
        for named, number in CITED.findall(path.read_text(encoding="utf-8")):
            page = named or page
            pages = SECTIONS if page == "*" else [page]
            missing += [f"{path}: {one} §{number}" for one in pages if number and number not in SECTIONS.get(one, ())]
    assert missing == []
