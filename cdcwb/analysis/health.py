"""What a capture is and whether it is healthy: a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from cdcwb.analysis import summary_text
from cdcwb.model import SEVERAL, Operation, Severity
from cdcwb.words import plural, size, to_the_second

__all__ = ["Health", "Tone", "health"]


class Tone(StrEnum):
    """How the verdict is meant."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Health:
    """``what`` says what the capture is, ``verdict`` whether it is healthy and, if not, why not."""

    tone: Tone
    what: str
    verdict: str


def health(facts: Mapping[str, Any]) -> Health:
    """The two sentences about the facts of :func:`cdcwb.analysis.summary.summarize`.

    BAD: bytes that cannot be read, an error, or bytes unaccounted for. WARNING: everything is read, but
    something is missing or contradicts itself. GOOD: neither. File names in the sentences are not ours: escape them.
    """
    unread = facts["malformed_bytes"] or facts["malformed_rows"] or facts["ledger"] not in ("closes", None)
    if unread or facts["problems_by_severity"].get(Severity.ERROR):
        tone = Tone.BAD
    else:
        tone = Tone.GOOD if facts["healthy"] else Tone.WARNING
    return Health(tone, _what(facts), summary_text.health(dict(facts)))


def _what(facts: Mapping[str, Any]) -> str:
    article = "An" if facts["format"][0] in "aeiou" else "A"
    text = "Captures of " if facts["format"] == SEVERAL else f"{article} {facts['format']} capture of "
    if summary_text.is_table(facts["files"]):
        text += f"{plural(facts['events'], 'row')} with "
    else:
        text += f"{plural(len(facts['files']), 'file')} ({size(facts['bytes'])}) with "
    loaded = facts["changes_by_operation"].get(Operation.REFRESH, 0)
    text += plural(facts["changes"] - loaded, "change")
    if facts["tables"]:
        text += f" to {plural(len(facts['tables']), 'table')}"
    if facts["transactions"] or not facts["changes"]:
        text += f" in {plural(facts['transactions'], 'transaction')}"
    if loaded:
        text += f" and {plural(loaded, 'row')} of a full load"
    first, last = facts["first_time"], facts["last_time"]
    if first is not None and last is not None:
        begin, end = (to_the_second(datetime.fromisoformat(time)) for time in (first, last))
        zone = end.rpartition(" ")[2]
        text += f", from {begin.removesuffix(f' {zone}')} to {end}" if begin != end else f", at {begin}"
    return text + "."
