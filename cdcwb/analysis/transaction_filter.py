"""A page that is limited to some transactions: by user, outcome and size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import OptionError
from cdcwb.filtering import Condition
from cdcwb.formats.options import as_list, as_number, nearest
from cdcwb.model import Outcome
from cdcwb.words import duration, joined, plural, size, visible

_OUTCOMES: Final = (Outcome.COMMITTED.value, Outcome.ROLLED_BACK.value, Outcome.OPEN.value)
_COMPARED: Final = frozenset({"began_at", "bytes", "changes", "ended_at", "outcome", "user"})


@dataclass(frozen=True, slots=True)
class TransactionFilter:
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

    def condition(self, until: datetime | None) -> Condition:
        """The condition on transactions. ``until`` is when the capture ends."""
        return Condition(_COMPARED, partial(_matches, self, until))


def _matches(limits: TransactionFilter, until: datetime | None, batch: pa.RecordBatch) -> pa.Array:
    masks = [pa.repeat(True, len(batch))]
    if limits.users:
        masks.append(pc.is_in(batch["user"], pa.array(limits.users, pa.string())))
    if limits.outcomes:
        masks.append(pc.is_in(batch["outcome"], pa.array(limits.outcomes, pa.string())))
    if limits.least_changes:
        numbers = [sum(number for _, number in row or ()) for row in batch["changes"].to_pylist()]
        masks.append(pc.greater_equal(pa.array(numbers, pa.int64()), limits.least_changes))
    if limits.least_bytes:
        masks.append(pc.greater_equal(batch["bytes"], limits.least_bytes))
    if limits.least_us:
        ended, last = batch["ended_at"], pa.scalar(until, batch["ended_at"].type)
        is_open = pc.equal(batch["outcome"], str(Outcome.OPEN))
        end = pc.coalesce(ended, pc.if_else(is_open, last, pa.scalar(None, ended.type)))
        lasted = pc.subtract(end.cast(pa.int64()), batch["began_at"].cast(pa.int64()))
        masks.append(pc.greater_equal(lasted, limits.least_us))
    return pc.fill_null(reduce(pc.and_, masks), False)


def check_transaction_filter(
    users: Iterable[str] | str = (),
    outcomes: Iterable[str] | str = (),
    least_changes: int | str = 0,
    least_bytes: int | str = 0,
    least_seconds: float | str = 0.0,
) -> TransactionFilter:
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
    least = (numbers["least_changes"], numbers["least_bytes"], round(numbers["least_seconds"] * 1_000_000))
    return TransactionFilter(names, tuple(dict.fromkeys(known)), *least)


def _texts(name: str, value: Any, wrong: list[str]) -> tuple[str, ...]:
    texts = as_list(value)
    if isinstance(texts, list | tuple) and all(item and isinstance(item, str | int) for item in texts):
        return tuple(map(str, texts))  # a numeric user is a name, too
    wrong.append(f'{name}: expected a list of texts such as ["x"], found {visible(repr(value))}')
    return ()


def narrowed(page: Any, limits: TransactionFilter) -> Any:
    """A page (:func:`cdcwb.report.opening.look_at`) that is limited to the matching transactions: its capture, summary
    and verdict are theirs, and it states the limits. Without limits the page itself is returned. Changes outside
    transactions and problems without a transaction are excluded."""
    from cdcwb.analysis.frames import TableSnapshot
    from cdcwb.analysis.summary import summarize
    from cdcwb.analysis.summary_text import health

    if not limits.limits:
        return page
    last = page.summary["last_time"]
    part = page.part.matching(limits.condition(None if last is None else datetime.fromisoformat(last)))
    capture = TableSnapshot(part, page.asked.folder)
    summary = summarize(capture, unfiltered=False)  # type: ignore[arg-type]
    asked = dataclasses.replace(page.asked, limits=[*page.asked.limits, *limits.limits])
    return dataclasses.replace(page, asked=asked, part=part, capture=capture, summary=summary, health=health(summary))
