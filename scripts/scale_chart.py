"""Draws what ``make bench-scale`` has measured: ``python -m scripts.scale_chart`` makes ``docs/images/scale.png``.

Two charts over the number of events: processor time per event of each format, and the peak memory of the largest
Python worker.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from benchmarks.scale import RESULTS, per_event, workers_of
from cdcwb.charts.theme import SAFE
from scripts.screenshots import LARGEST, ROOT, clipped, light

__all__ = ["figure"]

_WIDTH: Final = 1180
_HEIGHT: Final = 420


def main() -> None:
    """Draw the chart."""
    if not RESULTS.exists():
        raise SystemExit(f"{RESULTS} does not exist. Run make bench-scale first.")
    drawn = figure(json.loads(RESULTS.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "scale.html"
        drawn.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
        with light(_WIDTH, _HEIGHT) as chrome:
            chrome.get(page.as_uri())
            picture = clipped(chrome, 0, 0, _WIDTH, _HEIGHT)
    target = ROOT / "docs" / "images" / "scale.png"
    if len(picture) > LARGEST:
        raise SystemExit(f"{target.name} would have {len(picture):,} bytes; {LARGEST:,} are allowed")
    target.write_bytes(picture)
    sys.stdout.write(f"{target.relative_to(ROOT)}: {len(picture):,} bytes\n")


def figure(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> go.Figure:
    """The two charts; ``results`` are those of the benchmark: format, size, measurement."""
    made = make_subplots(1, 2, subplot_titles=("Processor time per event (µs)", "Peak memory of a Python worker (MiB)"))
    for number, (name, sizes) in enumerate(results.items()):
        found = sorted(sizes.values(), key=lambda one: one["events"])
        for column, measured in enumerate((_time, _memory), 1):
            made.add_trace(_line(name, found, measured, SAFE[number], is_named=column == 1), 1, column)
    made.update_xaxes(type="log", title_text="events")
    made.update_yaxes(rangemode="tozero")
    return made.update_layout(
        template="plotly_white", width=_WIDTH - 20, height=_HEIGHT - 20, margin={"t": 40, "b": 50, "l": 50, "r": 20}
    )


def _line(
    name: str,
    found: list[Mapping[str, Any]],
    measured: Callable[[Mapping[str, Any]], float],
    colour: str,
    *,
    is_named: bool,
) -> go.Scatter:
    x, y = [one["events"] for one in found], [measured(one) for one in found]
    look = {"color": colour}
    return go.Scatter(x=x, y=y, name=name, mode="lines+markers", line=look, legendgroup=name, showlegend=is_named)


def _time(one: Mapping[str, Any]) -> float:
    return per_event(one) * 1e6


def _memory(one: Mapping[str, Any]) -> float:
    return max(workers_of(one), default=0) / (1 << 20)


if __name__ == "__main__":
    main()
