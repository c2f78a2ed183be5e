"""The display of a capture in a notebook: its key figures, and the views to open next."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any, Final

from cdcwb.filters import NO_TABLE
from cdcwb.report import show
from cdcwb.report.answer import cards
from cdcwb.times import time_of
from cdcwb.views.pages.capture import CapturePage
from cdcwb.views.pages.transactions import Transactions
from cdcwb.views.view import Panel, is_live
from cdcwb.words import count, plural, rounded, size, tally, to_the_second

if TYPE_CHECKING:
    from cdcwb.capture import Capture


_NAMED: Final = 4


def card(capture: Capture) -> str:
    """Format, files, tables, changes, times, transactions, problems, and the views with content."""
    bench = capture.view.bench
    if refusal := bench.prepare() if is_live() else bench.refusal:
        about = [("format", capture.format, ""), ("files", count(len(capture.files)), "")]
        return f'{show.look()}{cards(about).html}<div class="cdcwb-box"><p>{escape(refusal)}</p></div>'
    changes, index = bench.changes, bench.source.index
    contents: Any = bench.page(CapturePage)
    tables = contents.changed_tables
    names = [row["table"] for row in tables if row["table"] != NO_TABLE]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    operations = sum((Counter[str](dict(row["operations"])) for row in tables), Counter[str]())
    held = [entry["size"] for entry in capture.files]
    known = all(entry is not None for entry in held)
    codes = Counter(problem["code"] for problem in index.problem_list)
    figures = [
        ("format", capture.format, plural(index.records, "record")),
        ("files", count(len(capture.files)), size(sum(held)) if known and held else ""),
        ("tables", count(len(names)), ", ".join(names[:_NAMED]) + more),
        ("changes", count(len(changes)), tally(operations)),
    ]
    if changes.span is not None:
        first, last = (time_of(time) for time in changes.span)
        between = f"{to_the_second(first)} to {to_the_second(last)}"
        figures.append(("time covered", rounded(changes.span[1] - changes.span[0]), between))
    if number := len(changes.transactions):
        figures.append(("transactions", count(number), Panel(Transactions, "timeline").ask(bench).headline))
    worst = ", ".join(f"{code} {count(n)}" for code, n in codes.most_common(_NAMED))
    figures.append(("problems", count(index.problems), worst))
    is_log = capture.format == "idm-event-log"
    views = {"capture": True, "transactions": number, "masks": any(changes.sets), "problems": index.problems}
    views |= {"event_log": is_log, "drift": not is_log, "explore": True}
    links = " · ".join(f"<code>capture.view.{name}()</code>" for name, has_content in views.items() if has_content)
    return f'{show.look()}{cards(figures).html}<div class="cdcwb-box"><p>To look at next: {links}</p></div>'
