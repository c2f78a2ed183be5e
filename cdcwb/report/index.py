"""The index page over a folder of reports: captures by questions, with the answer of each report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from cdcwb.report.html import policy, render, write_whole
from cdcwb.report.show import asset
from cdcwb.words import moment, plural, size, visible

__all__ = ["Entry", "write_index"]

_SENTENCE: Final = 600
_WHOLE: Final = 24  # characters of a word that is not broken
_HEALTH: Final = "Capture health"
_WORDS: Final = {"good": "OK", "warning": "Warning", "bad": "Error"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One report: ``file`` is its name in the folder of the index, ``headline`` its answer, ``tone`` how that is meant.

    ``what`` says what the capture is, ``verdict`` whether it is healthy, ``health`` how that is meant. ``answers``:
    whether the report has a question of its own; else it is the one about the capture, and its headline the verdict.
    ``parts``: title and file of the parts of a guide, which is about no capture.
    """

    title: str
    capture: str
    file: str
    tone: str = ""
    headline: str = ""
    what: str = ""
    verdict: str = ""
    health: str = ""
    answers: bool = True
    parts: tuple[tuple[str, str], ...] = ()


def write_index(
    folder: Path,
    entries: Sequence[Entry],
    made: datetime,
    version: str,
    broken: Sequence[str] = (),
    failed: Mapping[str, str] | None = None,
) -> Path:
    """Write ``index.html`` into ``folder`` and return its path: a row for each capture, a column for each question, the
    first for the health of the capture; guides are on a line above. ``broken`` are sentences about thresholds,
    ``failed`` those about reports that were not made, by their name. Everything is escaped."""
    guides = [entry for entry in entries if entry.parts]
    entries = [entry for entry in entries if not entry.parts]
    captures: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        captures.setdefault((entry.capture, str(PurePosixPath(entry.file).parent)), []).append(entry)
    about = {
        key: next((one for one in some if not one.answers and one.verdict), None) for key, some in captures.items()
    }
    others = [entry for entry in entries if entry not in about.values()]
    questions = dict.fromkeys(one.title for one in sorted(others, key=lambda one: PurePosixPath(one.file).name))
    script = asset("index.js")
    target = folder / "index.html"
    page = render(
        "index.html",
        guides=[_guide(entry) for entry in guides],
        questions=[_HEALTH, *questions],
        captures=[_row(folder, some, about[key], list(questions)) for key, some in captures.items()],
        made=moment(made.replace(microsecond=0)),
        version=version,
        broken=[visible(sentence, _SENTENCE) for sentence in broken],
        failed=[(name, visible(sentence, _SENTENCE)) for name, sentence in (failed or {}).items()],
        script=script,
        policy=policy([script], loads=False),
    )
    write_whole(target, page)
    return target


def _guide(entry: Entry) -> dict[str, Any]:
    """What the index says about a guide: its own link, and those to its parts."""
    links = [(visible(title), quote(file)) for title, file in ((entry.title, entry.file), *entry.parts)]
    return {"links": links, "tone": entry.tone, "word": _WORDS.get(entry.tone, ""), "text": visible(entry.headline)}


def _row(folder: Path, entries: Sequence[Entry], health: Entry | None, questions: Sequence[str]) -> dict[str, Any]:
    """What the matrix says about a capture. ``health``: the report about it."""
    first = entries[0]
    cells = [_cell(_HEALTH, health, health or first, first.health, first.verdict, first.what)]
    for question in questions:
        answer = next((one for one in entries if one.title == question and one is not health), None)
        cells.append(_cell(question, answer, answer, *((answer.tone, answer.headline) if answer else ("", ""))))
    room = size(sum((folder / one.file).stat().st_size for one in entries))
    about = f"{plural(len(entries), 'report')}, {room}"
    return {"name": _unbroken(visible(first.capture, _SENTENCE)), "cells": cells, "about": about}


def _cell(
    question: str, report: Entry | None, said: Entry | None, tone: str, text: str, more: str = ""
) -> dict[str, str | Markup] | None:
    """One answer; ``report``: the one that it leads to. None: there is no such report."""
    if said is None:
        return None
    href = quote(report.file) if report else ""
    title = report.title if report and question == _HEALTH and report.title != "Capture" else question
    shown = _unbroken(visible(text, _SENTENCE) or title)
    return {
        "title": title,
        "href": href,
        "tone": tone,
        "word": _WORDS.get(tone, ""),
        "text": shown,
        "more": _unbroken(visible(more, _SENTENCE)),
    }


def _unbroken(text: str) -> Markup:
    """A text as HTML in which names and dates that have room on a line are not broken where they have a hyphen or the
    like, and longer words only after a separator."""
    words = re.split(r"(\s+)", text)
    span = Markup('<span class="whole">{}</span>')
    return Markup("").join(
        Markup("<wbr>").join(re.split(r"(?<=[:+=/.,_])", word))
        if len(word) > _WHOLE
        else span.format(word)
        if re.search(r"\w[^\w\s]\w|_", word)
        else word
        for word in words
    )
