"""A page that is limited to some transactions: by user, outcome and size.

The conditions apply to transactions. Everything else on the page is limited to them by a semi join, so the cost does
not depend on how many transactions match.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats.options import as_list, as_number, nearest
from cdcwb.model import Outcome
from cdcwb.words import duration, joined, plural, size, visible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Chosen", "Wanted", "check_wanted", "narrowed"]

_OUTCOMES: Final = (Outcome.COMMITTED.value, Outcome.ROLLED_BACK.value, Outcome.OPEN.value)
_NARROWED: Final = ("events", "headers", "changes", "change_headers", "problems")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transactions are selected; an empty value or 0 is no limit.

    ``least_us``: minimum duration in microseconds; an open transaction lasts until the capture ends. A transaction of
    unknown duration does not match.
    """

    users: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    least_changes: int = 0
    least_bytes: int = 0
    least_us: int = 0

    @property
    def limits(self) -> list[str]:
        """The limits in words; empty if all transactions match."""
        limits = [f"transactions of {joined([visible(user) for user in self.users], 'or')}"] if self.users else []
        limits += [f"outcome {joined(self.outcomes, 'or').replace('_', ' ')}"] if self.outcomes else []
        limits += [f"at least {plural(self.least_changes, 'change')}"] if self.least_changes else []
        limits += [f"at least {size(self.least_bytes)}"] if self.least_bytes else []
        return limits + ([f"lasting at least {duration(self.least_us)}"] if self.least_us else [])

    def fits(self, until: datetime | None) -> Column:
        """Whether a transaction matches. ``until`` is when the capture ends."""
        from functools import reduce
        from operator import and_

        from pyspark.sql import functions as F

        conditions = [F.lit(True)]
        if self.users:
            conditions.append(F.coalesce(F.col("user").isin(*self.users), F.lit(False)))
        if self.outcomes:
            conditions.append(F.col("outcome").isin(*self.outcomes))
        if self.least_changes:
            number = F.aggregate(F.map_values("changes"), F.lit(0).cast("long"), lambda a, b: a + b)
            conditions.append(F.coalesce(number, F.lit(0)) >= self.least_changes)
        if self.least_bytes:
            conditions.append(F.col("bytes") >= self.least_bytes)
        if self.least_us:
            is_open = F.col("outcome") == str(Outcome.OPEN)
            end = F.coalesce("ended_at", F.when(is_open, F.lit(until).cast("timestamp")))
            conditions.append(F.unix_micros(end) - F.unix_micros("began_at") >= self.least_us)
        return reduce(and_, conditions)


def check_wanted(
    users: Iterable[str] | str = (),
    outcomes: Iterable[str] | str = (),
    least_changes: int | str = 0,
    least_bytes: int | str = 0,
    least_seconds: float | str = 0.0,
) -> Wanted:
    """The parameters of a notebook that select transactions, validated.

    ``outcomes`` are committed, rolled_back, open. A list may be given as a JSON text, a number as text. Raises
    OptionError that names everything that is wrong.
    """
    wrong: list[str] = []
    names = _texts("users", users, wrong)
    known = [name.strip().lower().replace(" ", "_") for name in _texts("outcomes", outcomes, wrong)]
    for name in known:
        if name not in _OUTCOMES:
            message = f"outcomes: there is no outcome '{visible(name)}'.{nearest(name, _OUTCOMES)}"
            wrong.append(f"{message} There are: {', '.join(_OUTCOMES)}")
    minimums = {"least_changes": least_changes, "least_bytes": least_bytes, "least_seconds": least_seconds}
    numbers = {what: as_number(value) for what, value in minimums.items()}
    for what, number in numbers.items():
        kind = (int, float) if what == "least_seconds" else int
        if isinstance(number, bool) or not isinstance(number, kind) or not 0 <= number < 2**53:
            words = "a number" if what == "least_seconds" else "a whole number"
            wrong.append(f"{what}: expected {words} from 0 on, found {visible(repr(minimums[what]))}")
    if wrong:
        raise OptionError("; ".join(wrong))
    least_us = round(numbers["least_seconds"] * 1_000_000)
    return Wanted(names, tuple(dict.fromkeys(known)), numbers["least_changes"], numbers["least_bytes"], least_us)


def _texts(name: str, value: Any, wrong: list[str]) -> tuple[str, ...]:
    texts = as_list(value)
    if isinstance(texts, list | tuple) and all(item and isinstance(item, str | int) for item in texts):
        return tuple(map(str, texts))  # a numeric user is a name, too
    wrong.append(f'{name}: expected a list of texts such as ["x"], found {visible(repr(value))}')
    return ()


class Chosen:
    """A capture that has only the matching transactions, with their events, changes and problems.

    Changes outside transactions and problems without a transaction are excluded. Everything else is that of the
    original capture. ``until`` is when the capture ends and open transactions end with it.
    """

    stored = False
    saved_in = None
    """None: a selection is not a saved capture."""

    def __init__(self, capture: Any, wanted: Wanted, until: datetime | None = None) -> None:
        self._capture = capture
        self._wanted = wanted
        self._until = until

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._capture, name)
        return self._narrowed(value) if name in _NARROWED else value

    @property
    def transactions(self) -> DataFrame:
        """One row for each matching transaction."""
        rows: DataFrame = self._capture.transactions
        return rows.where(self._wanted.fits(self._until))

    def _narrowed(self, frame: DataFrame) -> DataFrame:
        return frame.join(self.transactions.select("transaction_id"), "transaction_id", "left_semi").select(
            *frame.columns
        )


def narrowed(page: Any, wanted: Wanted) -> Any:
    """A page (:func:`cdcwb.report.open_page`) that is limited to the matching transactions: its capture, summary and
    verdict are theirs, and it states the limits. Without limits the page itself is returned."""
    from cdcwb.analysis.frames import Snapshot
    from cdcwb.analysis.summary import summarize
    from cdcwb.analysis.summary_text import health

    if not wanted.limits:
        return page
    last = page.summary["last_time"]
    # tables cached in a folder are limited too, and never read from there while they are written
    complete = page.part if page.asked.folder else page.capture
    part = Chosen(complete, wanted, None if last is None else datetime.fromisoformat(last))
    capture = Snapshot(part, page.asked.folder)  # type: ignore[arg-type]
    summary = summarize(capture, unfiltered=False)  # type: ignore[arg-type]
    settings = dataclasses.replace(page.asked, limits=[*page.asked.limits, *wanted.limits])
    return dataclasses.replace(
        page, asked=settings, part=part, capture=capture, summary=summary, health=health(summary)
    )
