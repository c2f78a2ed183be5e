"""Every mark stands out from the page, and every text from what it is on, in light and in dark."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cdcwb.charts import theme
from cdcwb.charts.contents import _PARTS
from cdcwb.charts.decisions import LOOKS, WHITE
from cdcwb.charts.reconcile import KINDS

PAPER = {"light": "white", "dark": theme.DARK["white"]}
LOOKED = [*theme.OPERATIONS.values(), *theme.OUTCOMES.values(), *LOOKS.values(), *KINDS.values()]
LOOKED += [look for _, look in _PARTS] + [theme.look({}, "UNKNOWN(9)")]


def lightness(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    named = {"white": "#ffffff"}.get(colour, colour)
    parts = re.findall(r"\d+", named) if named.startswith("rgb") else [int(named[at : at + 2], 16) for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in (int(p) / 255 for p in parts)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((lightness(one), lightness(other)))
    return (high + 0.05) / (low + 0.05)


def on(page: str, colour: str) -> str:
    return theme.DARK.get(colour, colour) if page == "dark" else colour


@pytest.mark.parametrize("page", PAPER)
def test_every_mark_or_its_outline_stands_out_from_the_page(page: str) -> None:
    for look in LOOKED:
        marker = look.bar()
        assert max(contrast(on(page, c), PAPER[page]) for c in (marker["color"], marker["line"]["color"])) >= 3, look
    for colour in (theme.FAINT, theme.MUTED, *(colour for _, colour in theme.SCALE)):
        assert contrast(on(page, colour), PAPER[page]) >= 3, colour


@pytest.mark.parametrize("page", PAPER)
def test_texts_stand_out_from_the_page_and_from_the_marks_that_they_are_on(page: str) -> None:
    assert contrast(on(page, theme.INK), PAPER[page]) >= 4.5
    assert contrast(on(page, theme.MUTED), PAPER[page]) >= 4.5
    for name in LOOKS:
        ink = "white" if name in WHITE else theme.ON_MARK
        assert contrast(on(page, ink), on(page, LOOKS[name].colour)) >= 4.5, name


@pytest.mark.parametrize("page", PAPER)
def test_a_larger_count_is_further_from_the_page(page: str) -> None:
    steps = [contrast(on(page, colour), PAPER[page]) for _, colour in theme.SCALE]
    assert all(less < more for less, more in pairwise(steps))
