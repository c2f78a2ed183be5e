"""What is told about a transaction when it is pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdcwb.charts.positions import PositionScale
from cdcwb.charts.spans import NO_BEGIN, NO_END, NO_END_TIME, STILL_OPEN, Record, Span, lacks, whole_seconds
from cdcwb.charts.theme import label
from cdcwb.model import OffsetUnit, Outcome
from cdcwb.words import duration, moment, plural, size, tally

__all__ = ["POSITION_TEXT", "TIME_TEXT", "tell"]

TIME_TEXT: Final = (
    "<b>%{customdata[0]}</b> WORD%{customdata[10]}<br>%{customdata[1]} to %{customdata[2]}"
    "<br>duration %{customdata[3]}<br>log position %{customdata[4]} to %{customdata[5]}"
    "<br>%{customdata[6]} in %{customdata[7]}<br>tables %{customdata[8]} · user %{customdata[9]}<extra></extra>"
)
POSITION_TEXT: Final = (
    "<b>%{customdata[0]}</b> WORD%{customdata[5]}<br>log position %{customdata[1]}<br>to %{customdata[2]}"
    "<br>%{customdata[3]}<br>duration %{customdata[4]}<extra></extra>"
)
"""plotly's templates over :attr:`Span.hover`; WORD stands for the outcome."""

_TEXTS: Final = 1_500_000  # bytes of all hover texts together


def tell(times: list[Span], places: list[Span], scale: PositionScale, unit: str) -> None:
    """Give every span the texts for its hover, with captured ones cut shorter where all together would be too much for
    a page. ``unit`` is what ``bytes`` counts (a value of OffsetUnit)."""
    whole = whole_seconds(times)
    for cut in (1, 2, 4):
        for span in times:
            span.hover = _time_hover(span, whole, cut, unit)
        for span in places:
            span.hover = _position_hover(span, scale, cut)
        if sum(len(text.encode()) for span in times + places for text in span.hover) <= _TEXTS:
            return


def _time_hover(span: Span, whole: bool, cut: int, unit: str) -> list[str]:
    row = span.record
    return [
        label(row["transaction_id"], 44 // cut),
        moment(row["began_at"], NO_BEGIN),
        moment(row["ended_at"], _no_end(row)),
        _duration(row, span, whole),
        label(row["first_position"], 40 // cut),
        label(row["end_position"], 40 // cut),
        label(tally(row["changes"]), 60 // cut),
        size(row["bytes"]) if unit == OffsetUnit.BYTE else plural(row["bytes"], unit),
        label(_tables(row["tables"]), 44 // cut),
        label(row["user"], 24 // cut),
        _lack(row),
    ]


def _position_hover(span: Span, scale: PositionScale, cut: int) -> list[str]:
    row = span.record
    used = span.end - span.start
    missing = lacks(row)
    end = NO_END if missing == NO_END else STILL_OPEN
    return [
        label(row["transaction_id"], 44 // cut),
        label(row["first_position"], 40 // cut) + (f" ({NO_BEGIN})" if missing == NO_BEGIN else ""),
        end if row["end_position"] is None else label(row["end_position"], 40 // cut),
        _extent(used, scale),
        "not known" if row["duration_us"] is None else duration(row["duration_us"]),
        _lack(row),
    ]


def _extent(used: int, scale: PositionScale) -> str:
    if scale.in_bytes:
        return f"{size(used)} of log"
    if scale.in_numbers:
        return plural(used + 1, "change number")
    return f"{plural(used, 'place')} in the order of the log"


def _lack(row: Record) -> str:
    """What is missing, behind the outcome."""
    missing = lacks(row)
    return f", {missing}" if missing else ""


def _no_end(row: Record) -> str:
    return STILL_OPEN if row["outcome"] == Outcome.OPEN else NO_END_TIME


def _duration(row: Record, span: Span, whole: bool) -> str:
    if row["duration_us"] is None:
        if row["outcome"] == Outcome.OPEN and row["began_at"] is not None:
            return f"at least {duration(span.end - span.start)}"
        return f"not known: {NO_BEGIN if row['began_at'] is None else NO_END_TIME}"
    return duration(row["duration_us"]) + (" (times are whole seconds)" if whole else "")


def _tables(tables: Sequence[str] | None) -> str:
    return ", ".join(tables) if tables else "none"
