"""Records as Logdump prints them (``docs/formats/goldengate.md §2``): two styles of tokens, two of column lines, and
only what the switches ask for."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Part, Record, Shown, Token, header_bytes, token_bytes, user_bytes
from cdcwb_synth.instants import EPOCH

__all__ = ["Printer"]

_RULE: Final = "_" * 67
_LINE: Final = 20  # bytes in a line of hex
_BLANKS: Final = re.compile("[ \t]+")
_PLAIN: Final = bytes(c if 0x20 <= c < 0x7F else 0x2E for c in range(256))
_RAW: Final = bytes(c if 0x20 <= c < 0x7F or c >= 0xA0 else 0x2E for c in range(256))
_LETTERS: Final = "bmes"
_LETTERED: Final = {"H": "GHDR", "D": "Data", "T": "GGS Tokens", "U": "User Tokens"}
_REMEMBERED: Final = 20_000


class Printer:
    """Prints records under the given options. The text is bytes; characters beyond ASCII are UTF-8."""

    def __init__(self, options: GoldenGateOptions) -> None:
        self._order = options.order
        self._has_headers = options.has_headers
        self._shown = options.shown
        self._is_new = options.style == "21c"
        self._is_old = options.style == "11g"
        self._zone = ZoneInfo(options.zone)
        self._reclen = options.reclen or 1 << 30
        self._pane = f" {options.pane} "
        self._table = _RAW if self._is_old else _PLAIN
        self._collapsed = options.collapsed
        self._seconds: dict[int, str] = {}

    def time(self, at: int) -> str:
        """A time (microseconds since 1970 UTC) as the viewer's zone has it."""
        second, rest = divmod(at, 1_000_000)
        text = self._seconds.get(second)
        if text is None:
            if len(self._seconds) > _REMEMBERED:
                self._seconds.clear()
            moment: datetime = (EPOCH + timedelta(seconds=second)).astimezone(self._zone)
            text = self._seconds[second] = moment.strftime("%Y/%m/%d %H:%M:%S").rjust(19, "0")
        return f"{text}.{rest // 1000:03d}.{rest % 1000:03d}"

    def record(self, shown: Shown) -> list[str]:
        """The lines of a record."""
        one, lines = shown.record, list[str]()
        if "headertoken" in self._shown:
            self._header_tokens(shown, lines)
        lines.append(_RULE)
        time = self.time(one.at)
        if "ghdr" in self._shown:
            self._header(shown, time, lines)
        length = len(one.body)
        if one.text is not None:
            lines.append(f"{time} {one.name:<20} Len {length} RBA {shown.rba}")
            if "metadata" in self._shown:
                lines += one.text.split("\n")
        else:
            lines.append(f"{time} {one.name:<20} Len {length:5d} RBA {shown.rba}")
            self._image(shown, lines)
            self._body(one, lines)
            self._tokens(one, lines)
        return self._finished(lines)

    def file_header(self, body: bytes, at: int) -> list[str]:
        """The lines of a trail's file header."""
        lines = [f"{self.time(at)} {'FileHeader':<20} Len {len(body):5d} RBA 0", "Name: *FileHeader*"]
        self._hex(body[: self._reclen], lines)
        return self._finished(lines)

    def _finished(self, lines: list[str]) -> list[str]:
        lines.append("")
        if self._collapsed:
            return [_BLANKS.sub(" ", line).strip() for line in lines]
        return lines

    def _hex(self, data: bytes, lines: list[str]) -> None:
        table, pane = self._table, self._pane
        for at in range(0, len(data), _LINE):
            piece = data[at : at + _LINE]
            lines.append(f" {piece.hex(' ', -2):<49}{pane}{piece.translate(table).decode('latin-1')}")

    def _header_tokens(self, shown: Shown, lines: list[str]) -> None:
        total = shown.lengths["G"]
        for letter, length in shown.lengths.items():
            if letter == "G":
                lines.append(self._token_line("G", "Record Header", 1, total))
                continue
            lines.append(self._token_line(letter, _LETTERED[letter], 0, length))
            if letter == "H" and "headerdetail" in self._shown:
                self._hex(header_bytes(shown, self._order), lines)
        lines.append(self._token_line("Z", "Record Trailer", 1, total))

    def _token_line(self, letter: str, name: str, info: int, length: int) -> str:
        if self._is_new:
            return f"TokenID x{ord(letter):02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:4d}"
        return f"TokenID {letter}, Info 0, Length {length:4d}"

    def _header(self, shown: Shown, time: str, lines: list[str]) -> None:
        one = shown.record
        go_on = "Y  (x01)" if one.continued else "N  (x00)"
        size, count = len(one.body), one.count & 0xFF
        if one.indexes is not None:
            audit = f"DDR/TDR index:   ({one.indexes[0]:03d}, {one.indexes[1]:03d})     AuditPos   : {one.audit_pos}"
        else:
            audit = f"AuditRBA   :{one.audit_rba:11d}       AuditPos   : {one.audit_pos}"
        lines += (
            f"Hdr-Ind    :     E  (x45)     Partition  :     .  (x{shown.partition:02x})",
            f"UndoFlag   :     .  (x{one.undo:02x})     BeforeAfter:     {one.image}  (x{ord(one.image):02x})",
            f"RecLength  :{size:6d}  (x{size:04x})   IO Time    : {time}",
            f"IOType     :{one.io:6d}  (x{one.io:02x})     OrigNode   :{one.node:6d}  (x{one.node:02x})",
            f"TransInd   :     .  (x{one.place:02x})     FormatType :     R  (x52)",
            "SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)",
            audit,
            f"Continued  :     {go_on}     RecCount   :{count:6d}  (x{count:02x})",
            "",
        )

    def _image(self, shown: Shown, lines: list[str]) -> None:
        one = shown.record
        if one.layout is None:
            lines.append("Name:")
        elif self._is_old:
            lines.append(f"Name: {one.layout.full_name}")
        else:
            lines.append(f"Name: {one.layout.full_name}  (TDR Index: {shown.index})")
        which = "Before" if one.image == "B" else "After "
        partition = str(shown.partition) if self._is_old else f"x{shown.partition:02x}"
        lines.append(f"{which} Image:{'':45}Partition {partition}   G  {_LETTERS[one.place]}")

    def _body(self, one: Record, lines: list[str]) -> None:
        self._hex(one.body[: self._reclen], lines)
        if "detail" not in self._shown:
            return
        is_new, with_data = self._is_new, "data" in self._shown
        in_halves = bool(one.parts) and one.parts[0].kind in ("keyed", "before")
        for part in one.parts:
            kind, number, start, stop, other = part
            if kind == "fragment":
                lines.append(f"Column {number}, LOB fragment {other} of {one.count}")
                continue
            if kind not in ("column", "key"):
                self._half(part, lines)
                continue
            length = self._length(one, part)
            if kind == "key":
                lines.append(f"KeyCol {number:5d} (x{number:04x}), Len {length:5d} (x{length:04x})")
            elif is_new and not in_halves:
                lines.append(f"Column {number} (0x{number:04x}), Length {length} (0x{length:04x}).")
            else:
                lines.append(f"Column {number:5d} (x{number:04x}), Len {length:5d} (x{length:04x})")
            if with_data:
                self._hex(one.body[start : min(stop, self._reclen)], lines)

    def _length(self, one: Record, part: Part) -> int:
        """The length that a column says it has, of which a segment may hold less."""
        return int.from_bytes(one.body[part.start - 2 : part.start], self._order)

    def _half(self, part: Part, lines: list[str]) -> None:
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
                    self._token(token, lines)
            else:
                self._hex(token_bytes(one.tokens, self._order), lines)
        if one.user_tokens and "usertoken" in self._shown:
            lines += ("", "User tokens:")
            if "tokendetail" in self._shown:
                lines += [f"{name:<21}: {value}" for name, value in one.user_tokens]
            else:
                self._hex(user_bytes(one.user_tokens), lines)

    def _token(self, token: Token, lines: list[str]) -> None:
        code, letter, size = token.id, chr(token.id), len(token.value)
        if self._is_new:
            lines.append(f"TokenID x{code:02x} '{letter}' {token.name:<16} Info x{token.info:02x}  Length {size:4d}")
        else:
            lines.append(f"TokenID {letter} (x{code:02x}), Info {token.info}, Length {size:3d}")
        self._hex(token.value, lines)

    def headers(self, shown: Shown, path: str) -> dict[str, str]:
        """What a reader can know of a record's header, by name; ``path``: the trail file."""
        one = shown.record
        if self._has_headers:
            told = {
                "Hdr-Ind": "E", "Partition": str(shown.partition), "UndoFlag": str(int(one.undo)),
                "BeforeAfter": one.image, "RecLength": str(len(one.body)), "IOType": str(one.io),
                "OrigNode": str(one.node), "TransInd": str(one.place), "FormatType": "R", "SyskeyLen": "0",
                "Incomplete": "0", "AuditRBA": str(one.audit_rba), "AuditPos": str(one.audit_pos),
                "Continued": "NY"[one.continued], "RecCount": str(one.count & 0xFF),
            }  # fmt: skip
        else:
            told = {"TransInd": str(one.place)}  # the letter of the image line
        told |= {
            "IO Time": self.time(one.at), "Operation": one.name, "Len": str(len(one.body)), "RBA": str(shown.rba),
            "Trail": path,
        }  # fmt: skip
        if one.text is None:
            told["Name"] = "" if one.layout is None else one.layout.full_name
        if "ggstoken" in self._shown:
            for token in one.tokens:
                told.setdefault(token.name, token.text)
        if "usertoken" in self._shown:
            told |= dict(one.user_tokens)
        return told
