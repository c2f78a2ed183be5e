"""The parts of a capture that are generated independently of each other and continue one another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from cdcwb_synth.model import SynthError
from cdcwb_synth.options import Options

__all__ = ["WHOLE", "Part", "parts_of"]

_FIRST_ONLY: Final = (
    "missing_begins", "repeat_schemas", "truncates", "errors", "restarts", "abends", "clock_back", "refresh_rows",
    "rows_before",
)  # fmt: skip
"""Options that count what happens; it happens in the first part."""

_LAST_ONLY: Final = ("schema_changes", "open_transactions")
"""Options that count what later parts would have to know of; it happens in the last part."""

_FILES: Final = ("files", "trail_files")
"""Options that count files, which are dealt out to the parts."""

_SPARE: Final = 1_000_000
"""Numbers that a part can use for what does not grow with its changes, such as the descriptions of its tables."""

_MOST: Final = (1 << 31) - 1
"""Most changes of a capture: keys of 32 bits have to be unique in all parts."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` (from 0) of ``count``; the only one of a capture that is generated in one go.

    ``seed`` is the capture's; :attr:`own_seed` that of the part. ``first_change`` is how many changes the parts before
    it have, ``loaded`` how many rows they have of a full load. No event of the part is later than ``until``.
    ``first_file`` is the number of its first file, from 0.
    """

    seed: int = 0
    number: int = 0
    count: int = 1
    changes: int = 0
    first_change: int = 0
    loaded: int = 0
    until: datetime | None = None
    first_file: int = 0

    @property
    def own_seed(self) -> int:
        """The seed of the part; of the first part that of the capture."""
        if not self.number:
            return self.seed
        digest = hashlib.sha256(f"{self.seed} part {self.number}".encode()).digest()
        return int.from_bytes(digest[:8], "big")

    @property
    def suffix(self) -> str:
        """What the name of a file ends with that each part has: nothing in a capture of one part, else ``-1`` …"""
        return f"-{self.number + 1}" if self.count > 1 else ""

    @property
    def is_continued(self) -> bool:
        """Do other parts precede it? Then the first versions of its tables are known from them."""
        return self.number > 0

    @property
    def first_key(self) -> int:
        """Where the key columns of the part begin. Every change makes at most one key."""
        return 1 + self.first_change + self.loaded

    def numbers(self, per_change: int) -> int:
        """How many numbers the parts before it can have used, ``per_change`` for a change or a loaded row and a million
        in each part besides."""
        return per_change * (self.first_change + self.loaded) + self.number * _SPARE


WHOLE: Final = Part()
"""A capture that is generated in one go."""


def parts_of(options: Any, changes: int, seed: int, part_changes: int) -> Iterator[tuple[Part, Any]]:
    """The parts of a capture with at most ``part_changes`` changes each, with the options of each.

    Raises SynthError for more changes than keys of 32 bits allow, and where the last part would be after the year
    9000."""
    if changes > _MOST:
        raise SynthError(f"a capture in parts has at most {_MOST:,} changes, not {changes:,}: keys have 32 bits")
    count = max(1, -(-changes // part_changes))
    tables = options.tables + options.all_types
    loaded = tables * (getattr(options, "refresh_rows", 0) or getattr(options, "rows_before", 0))
    start, files = options.start_time, 0
    for number in range(count):
        first, stop = changes * number // count, changes * (number + 1) // count
        try:
            end = start + _duration(options, stop - first)
        except OverflowError:
            end = datetime.max.replace(tzinfo=start.tzinfo)
        if end.year >= 9000:
            raise SynthError("the capture would last beyond the year 9000: choose a higher rate or an earlier start")
        own: dict[str, Any] = {"start": start.isoformat()} if number else {}
        own |= dict.fromkeys((name for name in _FIRST_ONLY if number and hasattr(options, name)), 0)
        own |= dict.fromkeys((name for name in _LAST_ONLY if number < count - 1 and hasattr(options, name)), 0)
        share = 1
        for name in _FILES:
            if hasattr(options, name):
                wanted = getattr(options, name)
                own[name] = share = max(1, wanted * (number + 1) // count - wanted * number // count)
        until = end - timedelta(seconds=1) if count > 1 else None
        yield (
            Part(seed, number, count, stop - first, first, loaded if number else 0, until, files),
            replace(options, **own),
        )
        start, files = end, files + share


def _duration(options: Any, changes: int) -> timedelta:
    """How long so many changes take, with a fifth more: events that are still later are moved to the end."""
    story: Options = options if isinstance(options, Options) else options.workload
    size = max(1.0, story.transaction_size - 1) * (1 - story.empty_share)
    events = changes * (1 + 2 / size + 2 * story.undo_share)
    idle = 5 * max(2, changes // 500) if story.with_timeouts else 0
    return timedelta(seconds=int(1.2 * (events / story.rate + idle)) + 10)
