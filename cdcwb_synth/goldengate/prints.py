"""Logdump sessions as text files: records, and between them prompts and what somebody wrote beside them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from cdcwb_synth.goldengate.columns import Layout
from cdcwb_synth.goldengate.logdump import Printer
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Shown
from cdcwb_synth.goldengate.text_files import TextFiles
from cdcwb_synth.goldengate.truth import Place, Truth, Version
from cdcwb_synth.parts import WHOLE, Part

__all__ = ["Prints", "column_rows"]

_TYPES: Final = {0: "0 CHAR", 64: "64 VARCHAR", 132: "132 INT32", 134: "134 INT64", 192: "192 DATETIME"}
_LINEAGE: Final = {
    "database type": "ORACLE",
    "character set": "UTF-8",
    "national character set": "UTF-16BE",
    "locale": "en_US",
    "time zone": "GMT+00:00",
}
_NOTES: Final = (
    "This is the row that we were looking for.",
    "Next we move on to the following record",
    "note to self, the customer called again here",
    "(some records left out)",
    "##### before the weekend #####",
    "Ende der ersten Seite, weiter auf der zweiten",
)
_BANNER: Final = (
    "",
    "Oracle GoldenGate Log File Dump Utility for Oracle",
    "Version 21.3.0.0.0 OGGCORE_21.3.0.0.0_PLATFORMS_210728.1047",
    "",
    "Copyright (C) 1995, 2021, Oracle and/or its affiliates. All rights reserved.",
    "",
)


def column_rows(layout: Layout) -> list[dict[str, object]]:
    """A table's columns as its definition tells them."""
    rows: list[dict[str, object]] = []
    for ordinal, column in enumerate(layout.columns, 1):
        numbers = column.numbers(0)
        rows.append(
            {
                "ordinal": ordinal,
                "name": column.name,
                "type": _TYPES[column.datatype],
                "length": numbers[1],
                "precision": None,
                "scale": column.scale,
                "key_position": 1 if column.is_key else None,
                "nullable": column.nullable,
            }
        )
    return rows


class Prints:
    """Hears of a trail and prints it, into one file or one for each of the trail's."""

    def __init__(self, options: GoldenGateOptions, seed: int, folder: Path, truth: Truth, part: Part = WHOLE) -> None:
        self._suffix = part.suffix
        self._options, self._truth = options, truth
        self._shown = options.shown
        self.printer = Printer(options)
        self._files = TextFiles(folder, truth, options.compression)
        self._rng = Random(f"{seed} goldengate prints")
        self._prompt = 1
        self._end = "\r\n" if options.line_end == "crlf" else "\n"
        self._share = options.prompts
        self._may_glue = "headertoken" not in self._shown
        self._after_text = False  # what is above is a definition: a note would be read as a part of it
        self._noisy = False  # the lines before are not a record

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail."""
        per_trail = self._options.capture_files == "trail"
        if self._files.number < 0 or per_trail:
            self._files.start(f"logdump-{sequence:09d}.txt" if per_trail else f"logdump{self._suffix}.txt")
            self._noisy = False
            if self._share:
                self._noise(list(_BANNER))
        self._noise(
            [*([f"Logdump {self._next()} >open {path}"] if self._share else []), f"Current LogTrail is {path} "]
        )
        if "fileheader" in self._shown:
            self._files.add(self._bytes(self.printer.file_header(header, at)))
            self._noisy = False
            self._truth.facts["records"] += 1
            self._truth.facts["FileHeader"] += 1

    def record(self, shown: Shown) -> Place:
        """Print a record."""
        one = shown.record
        if self._share and self._rng.random() < self._share:
            self._between(shown)
        place = self._files.add(self._bytes(self.printer.record(shown)))
        self._noisy, self._after_text = False, one.text is not None
        self._truth.facts["records"] += 1
        self._truth.facts[one.name] += 1
        return place

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition was printed."""
        if self._options.is_defined:
            lines = [line.strip() for line in text.split("\n")]
            text = "\n".join(" ".join(line.split()) if self._options.collapsed else line for line in lines)
            schema, name = layout.table.schema, layout.table.name
            version = Version(key, schema, name, column_rows(layout), "record", place, text, dict(_LINEAGE))
            self._truth.version(version)

    def close(self) -> None:
        """Complete the files."""
        self._files.close()

    def _next(self) -> int:
        self._prompt += 1
        return self._prompt - 1

    def _between(self, shown: Shown) -> None:
        """A prompt, alone or glued to the record, or a note."""
        chance = self._rng.random()
        if chance < 0.25 and self._may_glue:
            self._noise([f"Logdump {self._next()} >"], "")
        elif chance < 0.45 and not self._after_text:
            self._noise([self._rng.choice(_NOTES), *([""] if chance < 0.35 else [])])
        elif chance < 0.55:
            n = self._next()
            self._noise([f"Logdump {n} >pos {shown.rba}", f"Reading forward from RBA {shown.rba} "])
        else:
            self._noise(
                [self._rng.choice((f"Logdump {self._next()} >n", f"Logdump {self._next()}>next", "Logdump> n"))]
            )

    def _noise(self, lines: list[str], end: str | None = None) -> None:
        data = self._bytes(lines) if end is None else "".join(lines).encode()
        self._files.add(data)
        if not self._noisy:
            self._truth.facts["fillers"] += 1
        self._truth.facts["filler_bytes"] += len(data)
        self._noisy = True

    def _bytes(self, lines: list[str]) -> bytes:
        return (self._end.join(lines) + self._end).encode("latin-1")
