"""Logdump text read line by line, in plain Python (docs/formats/goldengate.md §2).

Four kinds of lines may begin a record, each with a stage: header token G 0, rule 1, Hdr-Ind 2, record line 3. One of
them begins a new record unless the preceding one has a lower stage and no prompt or note of Logdump is between them. A
record ends with its last line that is understood and the blank lines directly after it.
"""

from __future__ import annotations

import re
from typing import Final

from tests.reference.logdump import printed_lines as lines
from tests.reference.logdump.printed_lines import BLANK, time_us
from tests.reference.logdump.printed_reading import Reading
from tests.reference.logdump.printed_record import Printed, Shape

__all__ = ["split_text", "time_us"]


def split_text(text: bytes) -> list[Printed]:
    """All of a text: records and the filler between them, in order and without holes. Never raises."""
    data = _plain(text)
    found: list[Printed] = []
    at = 0
    for start, stop in _records(data):
        reading = Reading(data, start, stop)
        if reading.end == start:
            continue
        if start > at:
            found.append(Printed(Shape.FILLER, at, start))
        printed = reading.printed()
        printed.start, printed.stop = start, reading.end
        found.append(printed)
        at = reading.end
    return [*found, Printed(Shape.FILLER, at, len(data))] if at < len(data) else found


_QUOTES: Final = re.compile(rb"^(?:> ?)+", re.MULTILINE)


def _plain(text: bytes) -> bytes:
    """The text, as long as before, with blanks for U+00A0, control characters and the marks of quoted mails, and every
    line ended by LF."""
    text = text.replace(b"\xc2\xa0", b"  ").replace(b"\r\n", b" \n").replace(b"\r", b"\n")
    text = _QUOTES.sub(lambda found: b" " * len(found[0]), text)
    return bytes(32 if one < 32 and one != 10 else one for one in text)


def _records(data: bytes) -> list[tuple[int, int]]:
    """Where records begin, and what ends each: the next record, a prompt or a note of Logdump, or the text."""
    found: list[tuple[int, int]] = []
    start, stage = 0, None
    for at, stop in lines.split_lines(data, 0, len(data)):
        stripped = data[at:stop].strip(BLANK)
        candidate = lines.candidate(stripped)
        if candidate is None:
            if stage is not None and lines.is_ender(stripped):
                found.append((start, at))
                stage = None
            continue
        if stage is None or candidate[1] > 0 or candidate[0] <= stage:
            if stage is not None:
                found.append((start, at))
            start = data.index(stripped, at, stop) + candidate[1] if candidate[1] > 0 else at
        stage = candidate[0]
    return [*found, (start, len(data))] if stage is not None else found
