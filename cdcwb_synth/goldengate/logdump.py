"""A trail as Logdump prints it (``docs/formats/goldengate.md §2``), in two styles of tokens and two of column lines,
and as raw trail files by what is known of their layout (§11)."""

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
from cdcwb_synth.goldengate.trail import BodyPart, Record, Token, header_bytes, token_bytes, user_bytes
from cdcwb_synth.truth import Place, Version, column_rows
from cdcwb_synth.values import EPOCH

__all__ = ["Output", "Prints", "RawFiles", "record_headers"]

_RULE: Final = "_" * 67
_LINE: Final = 20  # bytes in a line of hex
_BLANKS: Final = re.compile("[ \t]+")
_PLAIN: Final = bytes(c if 0x20 <= c < 0x7F else 0x2E for c in range(256))
_RAW: Final = bytes(c if 0x20 <= c < 0x7F or c >= 0xA0 else 0x2E for c in range(256))
_LETTERED: Final = {"G": "Record Header", "H": "GHDR", "D": "Data", "T": "GGS Tokens", "U": "User Tokens"}
_NAME_AT: Final = 34  # where the name of the table begins in a raw header
_LINEAGE: Final = {
    "database type": "ORACLE", "character set": "UTF-8", "national character set": "UTF-16BE", "locale": "en_US",
    "time zone": "GMT+00:00",
}  # fmt: skip
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


class Output:
    """The files of a capture, one after another; ``number`` is that of the current one, -1 before the first."""

    def __init__(self, capture: EncoderContext) -> None:
        self._capture = capture
        self._file: ByteFile | None = None
        self.number = -1

    def start(self, name: str) -> None:
        """Continues in a new file."""
        self.close()
        name += ENDINGS[self._capture.options.compression]
        self.number = self._capture.truth.file(name)
        self._file = ByteFile(self._capture.folder / "capture" / name, self._capture.options.compression)

    def add(self, data: bytes) -> Place:
        """Writes bytes; returns where they are."""
        assert self._file is not None
        return Place(self.number, *self._file.put(data))

    def close(self) -> None:
        """Completes the file."""
        if self._file is not None:
            self._file.close()


def record_headers(one: Record, options: GoldenGateOptions, time: str, path: str) -> dict[str, str]:
    """What a reader can know of a record's header, by name: ``time`` as it is shown, ``path`` of the trail file."""
    told = {"TransInd": str(one.trans_ind)}  # the letter of the image line
    if options.has_headers:
        told |= {
            "Hdr-Ind": "E", "Partition": str(one.partition), "UndoFlag": str(int(one.undo)), "BeforeAfter": one.image,
            "RecLength": str(len(one.body)), "IOType": str(one.io), "OrigNode": str(one.node), "FormatType": "R",
            "SyskeyLen": "0", "Incomplete": "0", "AuditRBA": str(one.audit_rba), "AuditPos": str(one.audit_pos),
            "Continued": "NY"[one.continued], "RecCount": str(one.count & 0xFF),
        }  # fmt: skip
    told |= {
        "IO Time": time, "Operation": one.name, "Len": str(len(one.body)), "RBA": str(one.rba), "Trail": path,
        "Name": "" if one.layout is None else one.layout.full_name,
    }  # fmt: skip
    if "ggstoken" in options.shown:
        for token in one.tokens:
            told.setdefault(token.name, token.text)
    return told | dict(one.user_tokens if "usertoken" in options.shown else ())


class RawFiles:
    """Hears of a trail and writes its files."""

    def __init__(self, capture: EncoderContext) -> None:
        self._order, self._output = capture.options.order, Output(capture)
        self.records = 0

    def time(self, at: int) -> str:
        """The time in UTC, as ISO 8601."""
        return (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail."""
        self._output.start(path.rpartition("/")[2])
        self._add("F", header)

    def record(self, one: Record) -> Place:
        """Writes a record."""
        name = b"" if one.layout is None else one.layout.full_name.encode() + b"\0"
        header = header_bytes(one, self._order)
        areas = {
            "H": header[:_NAME_AT] + name.ljust(len(header) - _NAME_AT, b"\0"), "D": one.body,
            "T": token_bytes(one.tokens, self._order), "U": user_bytes(one.user_tokens),
        }  # fmt: skip
        parts = [letter.encode() + b"\0" + len(a).to_bytes(2, self._order) + a for letter, a in areas.items() if a]
        return self._add("G", b"".join(parts))

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition came: nobody knows how it is written, so trails have names."""
        raise AssertionError(key)

    def close(self) -> None:
        """Completes the files."""
        self._output.close()

    def _add(self, letter: str, content: bytes) -> Place:
        length = (len(content) + 8).to_bytes(2, self._order)
        self.records += 1
        return self._output.add(letter.encode() + b"\0" + length + content + b"Z\0" + length)


class Prints:
    """Hears of a trail and prints it, into one file or one for each of the trail's. Between records are prompts and
    what somebody wrote beside them. The text is bytes; characters beyond ASCII are UTF-8."""

    def __init__(self, capture: EncoderContext) -> None:
        options: GoldenGateOptions = capture.options
        self._capture, self._options, self._shown = capture, options, options.shown
        self._output = Output(capture)
        self._rng = Random(f"{capture.seed} goldengate prints")
        self._is_new, self._is_old = options.style == "21c", options.style == "11g"
        self._zone = ZoneInfo(options.zone)
        self._table = _RAW if self._is_old else _PLAIN
        self._end = "\r\n" if options.line_end == "crlf" else "\n"
        self._prompt = 1
        self._after_text = False  # a definition precedes: a note would be read as a part of it
        self.versions: dict[str, Version] = {}
        self.records = 0

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail."""
        per_trail, has_prompts = self._options.capture_files == "trail", bool(self._options.prompts)
        lines: list[str] = []
        if self._output.number < 0 or per_trail:
            suffix = self._capture.part.suffix
            self._output.start(f"logdump-{sequence:09d}.txt" if per_trail else f"logdump{suffix}.txt")
            lines = list(_BANNER) if has_prompts else []
        lines += [f"Logdump {self._next()} >open {path}"] if has_prompts else []
        self._put([*lines, f"Current LogTrail is {path} "])
        if "fileheader" in self._shown:
            lines = [f"{self.time(at)} {'FileHeader':<20} Len {len(header):5d} RBA 0", "Name: *FileHeader*"]
            self._hex(header, lines)
            self._put(self._finished(lines))
            self.records += 1

    def record(self, one: Record) -> Place:
        """Prints a record."""
        if self._options.prompts and self._rng.random() < self._options.prompts:
            self._between(one)
        self._after_text = one.text is not None
        self.records += 1
        return self._put(self._lines(one))

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition was printed."""
        if self._options.is_defined and key not in self.versions:
            lines = [line.strip() for line in text.split("\n")]
            text = "\n".join(" ".join(line.split()) if self._options.collapsed else line for line in lines)
            columns = column_rows(layout.names)
            for row, column in zip(columns, layout.columns, strict=True):
                row |= {"type": TYPES[column.datatype], "length": column.numbers(0)[1], "scale": column.scale}
                row |= {"key_position": 1 if column.is_key else None, "nullable": column.source.nullable}
            schema, name = layout.table.schema, layout.table.name
            made = Version(key, schema, name, columns, "record", text, _LINEAGE, first={place.file_index: place})
            self.versions[key] = self._capture.truth.version(made)

    def close(self) -> None:
        """Completes the files."""
        self._output.close()

    def _next(self) -> int:
        self._prompt += 1
        return self._prompt - 1

    def _between(self, one: Record) -> None:
        """A prompt, alone or before the record on its line, or a note."""
        chance = self._rng.random()
        if chance < 0.25 and "headertoken" not in self._shown:
            self._output.add(f"Logdump {self._next()} >".encode())
        elif chance < 0.45 and not self._after_text:
            self._put([self._rng.choice(_NOTES), *([""] if chance < 0.35 else [])])
        elif chance < 0.55:
            self._put([f"Logdump {self._next()} >pos {one.rba}", f"Reading forward from RBA {one.rba} "])
        else:
            self._put([self._rng.choice((f"Logdump {self._next()} >n", f"Logdump {self._next()}>next", "Logdump> n"))])

    def _put(self, lines: list[str]) -> Place:
        return self._output.add((self._end.join(lines) + self._end).encode("latin-1"))

    # --- lines --------------------------------------------------------------------------------------------------------

    def time(self, at: int) -> str:
        """A time (microseconds since 1970 UTC) as the viewer's zone has it."""
        moment = (EPOCH + timedelta(microseconds=at)).astimezone(self._zone)
        text = moment.strftime("%Y/%m/%d %H:%M:%S").rjust(19, "0")
        return f"{text}.{moment.microsecond // 1000:03d}.{moment.microsecond % 1000:03d}"

    def _lines(self, one: Record) -> list[str]:
        """The lines of a record."""
        lines: list[str] = []
        if "headertoken" in self._shown:
            for letter, length in one.lengths.items():
                lines.append(self._area_line(letter, _LETTERED[letter], int(letter == "G"), length))
                if letter == "H" and "headerdetail" in self._shown:
                    self._hex(header_bytes(one, self._options.order), lines)
            lines.append(self._area_line("Z", "Record Trailer", 1, one.lengths["G"]))
        lines.append(_RULE)
        time = self.time(one.at)
        if "ghdr" in self._shown:
            lines += self._header(one, time)
        if one.text is not None:
            lines.append(f"{time} {one.name:<20} Len {len(one.body)} RBA {one.rba}")
            lines += one.text.split("\n") if "metadata" in self._shown else []
        else:
            lines.append(f"{time} {one.name:<20} Len {len(one.body):5d} RBA {one.rba}")
            self._image(one, lines)
            self._hex(one.body, lines)
            if "detail" in self._shown:
                self._body(one, lines)
            self._tokens(one, lines)
        return self._finished(lines)

    def _finished(self, lines: list[str]) -> list[str]:
        lines.append("")
        return [_BLANKS.sub(" ", line).strip() for line in lines] if self._options.collapsed else lines

    def _hex(self, data: bytes, lines: list[str]) -> None:
        pane = f" {self._options.pane} "
        for at in range(0, len(data), _LINE):
            piece = data[at : at + _LINE]
            lines.append(f" {piece.hex(' ', -2):<49}{pane}{piece.translate(self._table).decode('latin-1')}")

    def _area_line(self, letter: str, name: str, info: int, length: int) -> str:
        if self._is_new:
            return f"TokenID x{ord(letter):02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:4d}"
        return f"TokenID {letter}, Info 0, Length {length:4d}"

    def _header(self, one: Record, time: str) -> list[str]:
        go_on = "Y  (x01)" if one.continued else "N  (x00)"
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
            f"Continued  :     {go_on}     RecCount   :{count:6d}  (x{count:02x})",
            "",
        ]

    def _image(self, one: Record, lines: list[str]) -> None:
        name = "Name:" if one.layout is None else f"Name: {one.layout.full_name}"
        lines.append(name + (f"  (TDR Index: {one.index})" if one.layout is not None and not self._is_old else ""))
        which = "Before" if one.image == "B" else "After "
        partition = str(one.partition) if self._is_old else f"x{one.partition:02x}"
        lines.append(f"{which} Image:{'':45}Partition {partition}   G  {'bmes'[one.trans_ind]}")

    def _body(self, one: Record, lines: list[str]) -> None:
        in_halves = bool(one.parts) and one.parts[0].kind in ("keyed", "before")
        for part in one.parts:
            kind, number, start, stop, other = part
            if kind == "fragment":
                lines.append(f"Column {number}, LOB fragment {other} of {one.count}")
                continue
            if kind not in ("column", "key"):
                self._half(part, lines)
                continue
            # the length that a column says it has, of which a segment may hold less
            length = int.from_bytes(one.body[start - 2 : start], self._options.order)
            if self._is_new and not in_halves:
                lines.append(f"Column {number} (0x{number:04x}), Length {length} (0x{length:04x}).")
            else:
                label = "KeyCol" if kind == "key" else "Column"
                lines.append(f"{label} {number:5d} (x{number:04x}), Len {length:5d} (x{length:04x})")
            if "data" in self._shown:
                self._hex(one.body[start:stop], lines)

    def _half(self, part: BodyPart, lines: list[str]) -> None:
        if part.kind == "after":
            lines += ("", f"After Image           Len {part.number:5d} (x{part.number:08x})")
            return
        lines.append(f"Before Image          Len {part.number:5d} (x{part.number:08x})")
        what = "KeyLen" if part.kind == "keyed" else "BeforeColumnLen"
        lines.append(f"{what} {part.other:5d} (x{part.other:08x})")

    def _tokens(self, one: Record, lines: list[str]) -> None:
        if one.tokens and "ggstoken" in self._shown:
            lines += ("", "GGS tokens:")
            if "tokendetail" in self._shown:
                for token in one.tokens:
                    lines.append(self._token_line(token))
                    self._hex(token.value, lines)
            else:
                self._hex(token_bytes(one.tokens, self._options.order), lines)
        if one.user_tokens and "usertoken" in self._shown:
            lines += ("", "User tokens:")
            if "tokendetail" in self._shown:
                lines += [f"{name:<21}: {value}" for name, value in one.user_tokens]
            else:
                self._hex(user_bytes(one.user_tokens), lines)

    def _token_line(self, token: Token) -> str:
        code, letter, size = token.id, chr(token.id), len(token.value)
        if self._is_new:
            return f"TokenID x{code:02x} '{letter}' {token.name:<16} Info x{token.info:02x}  Length {size:4d}"
        return f"TokenID {letter} (x{code:02x}), Info {token.info}, Length {size:3d}"
