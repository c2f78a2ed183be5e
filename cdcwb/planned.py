"""A capture of files for which a plan was made: how it is read, and what a saved copy needs to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from cdcwb.formats.base import Format, Plan
from cdcwb.formats.continued import Stamps, marks_of
from cdcwb.standard_input import is_spool

__all__ = ["SPLIT", "Origin", "Planned", "plain"]

SPLIT: Final = "_split"
"""The column that says which split of its plan an event is from, null for rows of a table."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a capture was opened from: its files, and the format (or ``auto``) and options that were given, as JSON
    holds them."""

    files: list[str]
    format: str
    options: dict[str, Any]


def plain(value: Any) -> Any:
    """The value of an option as JSON holds it; every spelling of a number or a truth value is the same text."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class Planned:
    """How a capture is read. ``detected_rows``: what was concluded before anything was decoded; ``with_images``,
    ``mode`` and ``keys`` are the options that all formats share; ``origin``: None where it is a table of rows."""

    def __init__(
        self,
        fmt: Format,
        plan: Plan,
        detected: list[dict[str, Any]],
        images: bool,
        mode: str,
        keys: dict[str, list[str]],
        origin: Origin | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self.format = fmt
        self.plan = plan
        self.detected_rows = detected
        self.with_images = images
        self.mode = mode
        self.keys = keys
        self.files = fmt.files(plan)
        self.facts = plan.facts
        self.origin = origin
        self.stamps: Stamps = stamps or {}

    @cached_property
    def marks(self) -> list[list[str]]:
        """What tells whether the events of each split still hold when the capture goes on."""
        return marks_of(self.format, self.plan, self.stamps)

    def continuation(self) -> dict[str, Any]:
        """What a saved capture needs to go on, or why it cannot."""
        if self.mode == "DROPMALFORMED":
            return {"not": "records that could not be parsed were left out when it was saved (mode=DROPMALFORMED)"}
        if self.origin is None:
            return {"not": "it was saved from a table of rows, not from files"}
        if any(map(is_spool, self.origin.files)):
            return {"not": "it was saved from standard input, which cannot be read again"}
        return {**asdict(self.origin), "splits": self.marks}
