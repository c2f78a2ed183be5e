"""The picture of a stretch of log: each record one dot on the line of its transaction."""

from __future__ import annotations

from typing import Any

from cdcwb.charts.timeline import log
from cdcwb.model import Kind


def record(number: int, lane: str, kind: Kind, operation: str | None = None, what: str = "what") -> dict[str, Any]:
    return {
        "number": number,
        "lane": lane,
        "kind": kind,
        "operation": operation,
        "name": operation or str(kind),
        "what": what,
    }


ROWS = [
    record(1, "b", Kind.BEGIN),
    record(2, "a", Kind.BEGIN),
    record(3, "a", Kind.BEFORE, "UPDATE"),
    record(4, "b", Kind.CHANGE, "INSERT", "<b>x</b>"),
    record(5, "a", Kind.AFTER, "UPDATE"),
    record(6, "a", Kind.COMMIT),
]


def test_every_record_is_one_dot_on_the_line_of_its_transaction() -> None:
    figure = log(ROWS, "a")
    dots = {
        (x, figure.layout.yaxis.ticktext[y])
        for trace in figure.data
        if trace.mode == "markers"
        for x, y in zip(trace.x, trace.y, strict=True)
    }
    assert dots == {(row["number"], row["lane"]) for row in ROWS}
    assert figure.layout.yaxis.ticktext[0] == "a"


def test_the_records_of_the_chosen_transaction_have_names() -> None:
    names = [(note.x, note.text) for note in log(ROWS, "a").layout.annotations]
    assert names == [(2, "begin"), (3, "UPDATE"), (5, "UPDATE"), (6, "commit")]


def test_what_was_captured_is_no_markup() -> None:
    texts = [text for trace in log(ROWS, "a").data if trace.mode == "markers" for text in trace.customdata]
    assert "&lt;b&gt;x&lt;/b&gt;" in texts
