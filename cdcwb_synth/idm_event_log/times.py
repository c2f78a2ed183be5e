"""Times as databases write ``event_time`` (``docs/formats/idm-event-log.md §1.4``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from cdcwb_synth.instants import microseconds

__all__ = ["writer"]

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def writer(form: str, digits: int) -> Callable[[datetime], tuple[str, int]]:
    """The function that gives a time's text, and what the text says in microseconds since 1970.

    form: odbc (``2026-02-03 08:00:00.123``), db2 (``2026-02-03-08.00.00.123``) or sybase, which is style 109
    (``Feb  3 2026  8:00:00:123AM``). digits: of the fraction, cut and not rounded; sybase has three.
    """
    digits = 3 if form == "sybase" else digits
    unit = 10 ** (6 - min(digits, 6))

    def write(at: datetime) -> tuple[str, int]:
        cut = at.replace(microsecond=at.microsecond // unit * unit)
        fraction = f"{at.microsecond:06d}000"[:digits]
        match form:
            case "db2":
                text = cut.strftime("%Y-%m-%d-%H.%M.%S") + (f".{fraction}" if digits else "")
            case "sybase":
                half = "AM" if cut.hour < 12 else "PM"
                day = f"{_MONTHS[cut.month - 1]} {cut.day:2d} {cut.year}"
                text = f"{day} {cut.hour % 12 or 12:2d}:{cut.minute:02d}:{cut.second:02d}:{fraction}{half}"
            case _:
                text = cut.strftime("%Y-%m-%d %H:%M:%S") + (f".{fraction}" if digits else "")
        return text, microseconds(cut)

    return write
