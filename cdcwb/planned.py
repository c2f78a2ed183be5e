"""A capture of files with its plan: how it is read, and what appending files to a saved copy needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from cdcwb.formats.continued import Stamps, marks_of
from cdcwb.formats.dissector import Format, Plan

__all__ = ["SPLIT", "Origin", "Planned", "plain"]

SPLIT: Final = "_split"
"""The column with the number of the split that an event is from; null for rows of a DataFrame."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a capture was opened from: its files, and the requested format (or ``auto``) and options, as JSON
    values."""

    files: list[str]
    format: str
    options: dict[str, Any]


def plain(value: Any) -> Any:
    """The value of an option as a JSON value; every spelling of a number or a boolean becomes the same text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class Planned:
    """How a capture is read. ``detected_rows`` are the rows of the table ``detected``; ``with_images``, ``mode`` and
    ``keys`` are the options that all formats share; ``origin`` is None for a DataFrame."""

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
        """The fingerprints of each split; its saved events are reused if they are equal when files are appended."""
        return marks_of(self.format, self.plan, self.stamps)

    def continuation(self) -> dict[str, Any]:
        """What appending files to the saved capture needs, or (``not``) why they cannot be appended."""
        if self.mode == "DROPMALFORMED":
            return {"not": "records that could not be parsed were left out when it was saved (mode=DROPMALFORMED)"}
        if self.origin is None:
            return {"not": "it was saved from a table of rows, not from files"}
        return {**asdict(self.origin), "splits": self.marks}
