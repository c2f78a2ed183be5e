"""A trail as Logdump prints it (``docs/formats/goldengate.md §2``), in two styles of tokens and two of column
lines."""

from __future__ import annotations

import re
from datetime import timedelta
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from cdcwb_synth.encoder import EncoderContext
from cdcwb_synth.files import ENDINGS, ByteFile
from cdcwb_synth.goldengate.columns import TYPES, Layout
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.trail import Record, Token, header_bytes, token_bytes, user_bytes
from cdcwb_synth.truth import NOWHERE, Location, Version, column_rows
from cdcwb_synth.values import EPOCH

_RULE: Final = "_" * 67
_LINE: Final = 20  # bytes in a line of hex
_BLANKS: Final = re.compile("[ \t]+")
_PLAIN: Final = bytes(c if 0x20 <= c < 0x7F else 0x2E for c in range(256))
_RAW: Final = bytes(c if 0x20 <= c < 0x7F or c >= 0xA0 else 0x2E for c in range(256))
_LETTERED: Final = {"G": "Record Header", "H": "GHDR", "D": "Data", "T": "GGS Tokens", "U": "User Tokens"}
_LINEAGE: Final = {
    "database type": "ORACLE", "character set": "UTF-8", "national character set": "UTF-16BE", "locale": "en_US",
    "time zone": "GMT+00:00",
}  # fmt: skip
_NOTES: Final = (
    "This is the row that we were looking for.", "Next we move on to the following record",
    "note to self, the customer called again here", "(some records left out)", "##### before the weekend #####",
    "Ende der ersten Seite, weiter auf der zweiten",
)  # fmt: skip
_BANNER: Final = (
    "", "Oracle GoldenGate Log File Dump Utility for Oracle",
    "Version 21.3.0.0.0 OGGCORE_21.3.0.0.0_PLATFORMS_210728.1047", "",
    "Copyright (C) 1995, 2021, Oracle and/or its affiliates. All rights reserved.", "",
)  # fmt: skip


class Output:
    """The files of a capture, one after another, as a trail's records come; ``number`` is that of the current one, -1
    before the first. ``records`` counts what was written."""

    def __init__(self, capture: EncoderContext) -> None:
        self.capture, self.options, self.truth = capture, capture.options, capture.truth
        self._file: ByteFile | None = None
        self.number = -1
        self.records = 0

    def start_for(self, sequence: int, stem: str, ending: str) -> bool:
        """Continues in a new file for a file of the trail, or begins the only one; returns whether it did."""
        is_new = self.options.capture_files == "trail"
        if not is_new and self.number >= 0:
            return False
        self.close()
        name = f"{stem}{f'-{sequence:09d}' if is_new else ''}.{ending}{ENDINGS[self.options.compression]}"
        self.number = self.truth.file(name)
        self._file = ByteFile(self.capture.folder / "capture" / name, self.options.compression)
        return True

    def add(self, data: bytes) -> Location:
        """Writes bytes; returns where they are."""
        assert self._file is not None
        return Location(self.number, *self._file.put(data))

    def close(self) -> None:
        """Completes the file."""
        if self._file is not None:
            self._file.close()

    def time(self, at: int) -> str:
        """A time (microseconds since 1970 UTC) as the capture shows it."""
        return ""

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail, with the body of its header."""

    def record(self, one: Record) -> Location:
        """A record of the trail; returns where it is in the capture."""
        return NOWHERE

    def defined(self, layout: Layout, key: str, text: str, location: Location) -> None:
        """A definition of a table came; ``key`` is what the version is called."""


def record_headers(one: Record, options: GoldenGateOptions, time: str, path: str) -> dict[str, str]:
    """What a reader can know of a record's header, by name: ``time`` as it is shown, ``path`` of the trail file."""
    headers = {"TransInd": str(one.trans_ind)}  # the letter of the image line
    if options.has_headers:
        headers |= {
            "Hdr-Ind": "E", "Partition": str(one.partition), "UndoFlag": str(int(one.undo)), "BeforeAfter": one.image,
            "RecLength": str(len(one.body)), "IOType": str(one.io), "OrigNode": str(one.node), "FormatType": "R",
            "SyskeyLen": "0", "Incomplete": "0", "AuditRBA": str(one.audit_rba), "AuditPos": str(one.audit_pos),
            "Continued": "NY"[one.continued], "RecCount": str(one.count & 0xFF),
        }  # fmt: skip
    headers |= {
        "IO Time": time, "Operation": one.name, "Len": str(len(one.body)), "RBA": str(one.rba), "Trail": path,
        "Name": "" if one.layout is None else one.layout.table.full_name,
    }  # fmt: skip
    if "ggstoken" in options.shown:
        for token in one.tokens:
            headers.setdefault(token.name, token.text)
    return headers | dict(one.user_tokens if "usertoken" in options.shown else ())


class Prints(Output):
    """What Logdump prints of a trail, in one file or one for each of the trail's. Between records are prompts and
    what somebody wrote beside them. The text is bytes; characters beyond ASCII are UTF-8."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        options: GoldenGateOptions = self.options
        self._shown = options.shown
        self._rng = Random(f"{capture.seed} goldengate prints")
        self._is_new, self._is_old = options.style == "21c", options.style == "11g"
        self._zone = ZoneInfo(options.zone)
        self._printed = _RAW if self._is_old else _PLAIN
        self._end = "\r\n" if options.line_end == "crlf" else "\n"
        self._prompt = 1
        self._after_text = False  # a definition precedes: a note would be read as a part of it
        self.versions: dict[str, Version] = {}

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail."""
        has_prompts = bool(self.options.prompts)
        lines = list(_BANNER) if self.start_for(sequence, "logdump", "txt") and has_prompts else []
        lines += [f"Logdump {self._next()} >open {path}"] if has_prompts else []
        self._put([*lines, f"Current LogTrail is {path} "])
        if "fileheader" in self._shown:
            lines = [f"{self.time(at)} {'FileHeader':<20} Len {len(header):5d} RBA 0", "Name: *FileHeader*"]
            self._put(self._finished([*lines, *self._hex(header)]))
            self.records += 1

    def record(self, one: Record) -> Location:
        """Prints a record."""
        if self.options.prompts and self._rng.random() < self.options.prompts:
            self._between(one)
        self._after_text = one.text is not None
        self.records += 1
        return self._put(self._finished(self._lines(one)))

    def defined(self, layout: Layout, key: str, text: str, location: Location) -> None:
        """A definition was printed."""
        if not self.options.is_defined or key in self.versions:
            return
        lines = [line.strip() for line in text.split("\n")]
        text = "\n".join(" ".join(line.split()) if self.options.collapsed else line for line in lines)
        columns = column_rows(
            {
                "name": name, "type": TYPES[column.datatype], "length": column.numbers(0)[1], "scale": column.scale,
                "key_position": 1 if column.is_key else None, "nullable": column.source.nullable,
            }
            for name, column in zip(layout.names, layout.columns, strict=True)
        )  # fmt: skip
        schema, name, first = layout.table.schema, layout.table.name, {location.file_index: location}
        made = Version(key, schema, name, columns, "record", text, _LINEAGE, first=first)
        self.versions[key] = self.truth.version(made)

    def _next(self) -> int:
        self._prompt += 1
        return self._prompt - 1

    def _between(self, one: Record) -> None:
        """A prompt, alone or before the record on its line, or a note."""
        chance = self._rng.random()
        if chance < 0.25 and "headertoken" not in self._shown:
            self.add(f"Logdump {self._next()} >".encode())
        elif chance < 0.45 and not self._after_text:
            self._put([self._rng.choice(_NOTES), *([""] if chance < 0.35 else [])])
        elif chance < 0.55:
            self._put([f"Logdump {self._next()} >pos {one.rba}", f"Reading forward from RBA {one.rba} "])
        else:
            self._put([self._rng.choice((f"Logdump {self._next()} >n", f"Logdump {self._next()}>next", "Logdump> n"))])

    def _put(self, lines: list[str]) -> Location:
        return self.add((self._end.join(lines) + self._end).encode("latin-1"))

    # --- lines --------------------------------------------------------------------------------------------------------

    def time(self, at: int) -> str:
        """The time as the viewer's zone has it."""
        moment = (EPOCH + timedelta(microseconds=at)).astimezone(self._zone)
        text = moment.strftime("%Y/%m/%d %H:%M:%S").rjust(19, "0")
        return f"{text}.{moment.microsecond // 1000:03d}.{moment.microsecond % 1000:03d}"

    def _lines(self, one: Record) -> list[str]:
        """The lines of a record."""
        lines: list[str] = []
        shown, order = self._shown, self.options.order
        if "headertoken" in shown:
            for letter, length in one.lengths.items():
                lines.append(self._area_line(letter, _LETTERED[letter], int(letter == "G"), length))
                if letter == "H" and "headerdetail" in shown:
                    lines += self._hex(header_bytes(one, order))
            lines.append(self._area_line("Z", "Record Trailer", 1, one.lengths["G"]))
        time = self.time(one.at)
        lines += [_RULE, *(self._header(one, time) if "ghdr" in shown else [])]
        if one.text is not None:
            text = one.text.split("\n") if "metadata" in shown else []
            return [*lines, f"{time} {one.name:<20} Len {len(one.body)} RBA {one.rba}", *text]
        lines += [f"{time} {one.name:<20} Len {len(one.body):5d} RBA {one.rba}", *self._image(one)]
        lines += [*self._hex(one.body), *(self._body(one) if "detail" in shown else [])]
        is_detailed = "tokendetail" in shown
        if one.tokens and "ggstoken" in shown:
            lines += ("", "GGS tokens:", *([] if is_detailed else self._hex(token_bytes(one.tokens, order))))
            for token in one.tokens if is_detailed else ():
                lines += (self._token_line(token), *self._hex(token.value))
        if one.user_tokens and "usertoken" in shown:
            printed = [f"{name:<21}: {value}" for name, value in one.user_tokens]
            lines += ("", "User tokens:", *(printed if is_detailed else self._hex(user_bytes(one.user_tokens))))
        return lines

    def _finished(self, lines: list[str]) -> list[str]:
        lines.append("")
        return [_BLANKS.sub(" ", line).strip() for line in lines] if self.options.collapsed else lines

    def _hex(self, data: bytes) -> list[str]:
        pane, lines = f" {self.options.pane} ", []
        for at in range(0, len(data), _LINE):
            line = data[at : at + _LINE]
            lines.append(f" {line.hex(' ', -2):<49}{pane}{line.translate(self._printed).decode('latin-1')}")
        return lines

    def _area_line(self, letter: str, name: str, info: int, length: int) -> str:
        if self._is_new:
            return f"TokenID x{ord(letter):02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:4d}"
        return f"TokenID {letter}, Info 0, Length {length:4d}"

    def _token_line(self, token: Token) -> str:
        if self._is_new:
            return self._area_line(chr(token.id), token.name, token.info, len(token.value))
        return f"TokenID {chr(token.id)} (x{token.id:02x}), Info {token.info}, Length {len(token.value):3d}"

    def _header(self, one: Record, time: str) -> list[str]:
        continued = "Y  (x01)" if one.continued else "N  (x00)"
        size, count = len(one.body), one.count & 0xFF
        audit = f"AuditRBA   :{one.audit_rba:11d}       AuditPos   : {one.audit_pos}"
        if one.indexes is not None:
            audit = f"DDR/TDR index:   ({one.indexes[0]:03d}, {one.indexes[1]:03d})     AuditPos   : {one.audit_pos}"
        return [
            f"Hdr-Ind    :     E  (x45)     Partition  :     .  (x{one.partition:02x})",
            f"UndoFlag   :     .  (x{one.undo:02x})     BeforeAfter:     {one.image}  (x{ord(one.image):02x})",
            f"RecLength  :{size:6d}  (x{size:04x})   IO Time    : {time}",
            f"IOType     :{one.io:6d}  (x{one.io:02x})     OrigNode   :{one.node:6d}  (x{one.node:02x})",
            f"TransInd   :     .  (x{one.trans_ind:02x})     FormatType :     R  (x52)",
            "SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)",
            audit,
            f"Continued  :     {continued}     RecCount   :{count:6d}  (x{count:02x})",
            "",
        ]

    def _image(self, one: Record) -> list[str]:
        name = "" if one.layout is None else f" {one.layout.table.full_name}"
        name += "" if one.layout is None or self._is_old else f"  (TDR Index: {one.index})"
        which = "Before" if one.image == "B" else "After "
        partition = str(one.partition) if self._is_old else f"x{one.partition:02x}"
        return [f"Name:{name}", f"{which} Image:{'':45}Partition {partition}   G  {'bmes'[one.trans_ind]}"]

    def _body(self, one: Record) -> list[str]:
        in_halves = bool(one.parts) and one.parts[0].kind in ("keyed", "before")
        lines: list[str] = []
        for kind, number, start, stop, other in one.parts:
            # the length of a column, of which a segment may hold less
            length = int.from_bytes(one.body[start - 2 : start], self.options.order)
            match kind:
                case "fragment":
                    lines.append(f"Column {number}, LOB fragment {other} of {one.count}")
                case "after":
                    lines += ("", f"After Image           Len {number:5d} (x{number:08x})")
                case "keyed" | "before":
                    lines.append(f"Before Image          Len {number:5d} (x{number:08x})")
                    lines.append(f"{'KeyLen' if kind == 'keyed' else 'BeforeColumnLen'} {other:5d} (x{other:08x})")
                case _ if self._is_new and not in_halves:
                    lines.append(f"Column {number} (0x{number:04x}), Length {length} (0x{length:04x}).")
                case _:
                    label = "KeyCol" if kind == "key" else "Column"
                    lines.append(f"{label} {number:5d} (x{number:04x}), Len {length:5d} (x{length:04x})")
            if kind in ("column", "key") and "data" in self._shown:
                lines += self._hex(one.body[start:stop])
        return lines
