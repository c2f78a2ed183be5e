"""The benchmark of captures of several sizes: what its table and its chart show of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cdcwb
from benchmarks import questions
from benchmarks.copies import copied
from benchmarks.scale import growth, row_of, stages_of
from cdcwb.analysis.summary import summarize
from cdcwb_synth import generate
from scripts.scale_chart import figure


def measured(events: int, seconds: float, worker: int = 300) -> dict[str, Any]:
    memory = {"driver (Python)": 200 << 20, "JVM": 900 << 20, "Python worker 1": 40 << 20}
    return {
        "events": events, "bytes": 100 * events, "seconds": seconds / 2,
        "processor": {"JVM": seconds / 4, "Python": seconds * 3 / 4},
        "memory": memory | {"Python worker 2": worker << 20, "Python worker 3": (worker + 1) << 20},
        "stages": [
            {"name": "1: collect", "tasks": 4, "run": seconds / 4, "shuffled": 0},
            {"name": "2: save", "tasks": 9, "run": seconds * 3 / 4, "shuffled": 2 * events},
        ],
    }  # fmt: skip


def test_what_counts_is_how_much_more_an_event_costs() -> None:
    found = {1: measured(1000, 2.0), 4: measured(4000, 8.8), 16: measured(16_000, 24.0)}
    assert growth(found) == pytest.approx(0.1)
    assert growth({1: found[1], 16: found[16]}) == 0


def test_a_row_has_time_memory_and_shuffle() -> None:
    row = row_of("gbase8s", 4, measured(1_000_000, 8.8), measured(250_000, 2.0))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "gbase8s", "4", "1,000,000", "100", "4.4", "8.80", "2.20", "6.60", "1.10", "100%", "2.00", "200", "900",
        "300, 301",
    ]  # fmt: skip


def test_stages_have_their_share() -> None:
    lines = [line for line in stages_of(measured(1000, 2.0)) if line.startswith("| ")]
    assert lines[-1] == "| 2: save | 9 | 1.5 | 75% | 2.0 |"


def test_the_chart_has_a_line_for_each_format_and_measure() -> None:
    sizes = {"1": measured(1000, 2.0), "16": measured(16_000, 32.0)}
    drawn = figure({"gbase8s": sizes, "debezium": sizes})
    assert [list(line.y) for line in drawn.data[:2]] == [[2000.0, 2000.0], [301.0, 301.0]]
    assert [line.name for line in drawn.data if line.showlegend] == ["gbase8s", "debezium"]


def test_copies_of_a_capture_are_one_stream_without_a_break(tmp_path: Path) -> None:
    one = generate("gbase8s", changes=400, seed=7, to=tmp_path / "one", table_names=True, truncates=1)
    copied(one, 3, tmp_path / "three")
    files = sorted((tmp_path / "three" / "capture").iterdir())
    assert [file.name for file in files] == ["stream-1.bin", "stream-2.bin", "stream-3.bin"]
    assert files[0].read_bytes() == (one / "capture" / "stream-1.bin").read_bytes()
    before, after = (summarize(cdcwb.load(folder / "capture")) for folder in (one, tmp_path / "three"))
    for name in ("events", "changes", "transactions", "changes_by_outcome", "changes_by_operation"):
        many = {key: 3 * n for key, n in before[name].items()} if isinstance(before[name], dict) else 3 * before[name]
        assert after[name] == many
    assert before["changes"] == 400
    assert after["continuity"]["breaks"] == 0
    assert not after["findings_by_code"]
    codes_before, codes_after = ({row["code"] for row in one["problems_by_code"]} for one in (before, after))
    assert codes_before == codes_after
    assert after["first_time"] == before["first_time"] < before["last_time"] < after["last_time"]


def asked(seconds: float, worker: int, jvm: int = 1000) -> dict[str, Any]:
    memory = {"driver (Python)": 300_000_000, "JVM": jvm * 1_000_000, "Python worker": worker * 1_000_000}
    return {"summary": {"seconds": {"load": 9.96, "all": seconds, "versions": 0.01}, "memory": memory}}


def test_the_table_of_questions_has_a_row_for_each_and_for_the_memory_of_each_process() -> None:
    assert questions.rows_of({1: asked(4.0, 500), 16: asked(61.04, 520)}) == [
        "| question | 1 | 16 |",
        "| --- | ---: | ---: |",
        "| summary: load | 10.0 s | 10.0 s |",
        "| summary: all | 4.0 s | 61.0 s |",
        "| summary: driver (Python) | 300 MB | 300 MB |",
        "| summary: JVM | 1,000 MB | 1,000 MB |",
        "| summary: Python worker | 500 MB | 520 MB |",
    ]


def test_memory_has_grown_where_a_python_process_takes_twice_as_much_and_over_a_gigabyte() -> None:
    first = asked(4.0, 500)
    assert not questions.grown({1: first, 16: asked(61.0, 1000, jvm=4400)})
    assert not questions.grown({1: asked(4.0, 900), 16: asked(61.0, 1700)})
    assert questions.grown({1: first, 4: first, 16: asked(61.0, 1100)})
