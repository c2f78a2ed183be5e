"""The options of generated GoldenGate captures: what happens, what the trail holds, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from zoneinfo import ZoneInfo

from cdcwb_synth.options import Options, Rules, listed, option, same, unlisted

SWITCHES: Final = (
    "ghdr", "detail", "data", "ggstoken", "tokendetail", "headertoken", "headerdetail", "fileheader", "metadata",
    "usertoken",
)  # fmt: skip
"""What Logdump can print besides the record line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenGateOptions(Options):
    """What happens, how Extract writes it into a trail, and in which form an analyst has it. The same options, number
    of changes and seed give the same trail in every form."""

    columns: int = same("columns", high=400)
    schema_changes: int = same("schema_changes", default=3)
    style: str = option("21c", "release; 11g has table names and no metadata", of=("21c", "12c", "11g"))
    byte_order: str = option("little", "byte order of the trail", of=("little", "big"))
    trail: str = option("./dirdat/et", "path of the trail's files without their sequence number")
    trail_files: int = option(1, "files of the trail; the cut is inside a transaction where there is one", 1, 10_000)
    first_sequence: int = option(0, "sequence number of the first trail file", 0, 999_000)
    updates: str = option("fieldcomp", "key and new values, two records, or one", of=("fieldcomp", "pairs", "unified"))
    deletes: str = option("keys", "what a delete holds", of=("keys", "full"))
    unified_prefix: int = option(4, "bytes of the length before a unified record's before image: 2 or 4", 2, 4)
    lobs: bool = option(True, "large objects are in the trail; without, tables lack these columns")
    long_varchars: int = option(0, "longest body of a record in bytes, beyond which it goes on; 0: any", 0, 60_000)
    restarts: int = option(0, "times Extract was stopped and started", 0, 10_000)
    abends: int = option(0, "times Extract broke off in a transaction, which it then wrote again", 0, 10_000)
    undo: float = option(0.0, "share of the changes followed by one that is taken back (UndoFlag 1)", 0, 1)
    tokens: str = option("all", "records with CSN and transaction id", of=("all", "first", "last"))
    form: str = option("logdump", "what an analyst has", of=("logdump", "json", "formatxml"))
    switches: str = option(",".join(SWITCHES[:-1]), f"logdump: what is printed, any of {', '.join(SWITCHES)}")
    zone: str = option("UTC", "logdump: IANA time zone that it printed in")
    pane: str = option("|", "logdump: what is between hex and characters", of=("|", ":"))
    prompts: float = option(0.0, "logdump: share of the records with a prompt or a note before them", 0, 1)
    collapsed: bool = option(False, "logdump: white space is collapsed, as in mails")
    line_end: str = option("lf", "logdump: end of a line", of=("lf", "crlf"))
    capture_files: str = option("one", "one file, or a file for each of the trail's", of=("one", "trail"))
    json_form: str = option("op", "json: operation modelled or row modelled", of=("op", "row"))
    connect: bool = option(False, "json: wrapped with a schema, as Kafka Connect does")
    is_missing: bool = option(False, "json: a member COL_isMissing for every column")
    before: str = option("null", "json: an image that is not there", of=("absent", "null", "empty"))
    container: str = option("lines", "json: what holds the messages", of=("lines", "documents", "bytes_literal"))

    @property
    def shown(self) -> frozenset[str]:
        """``switches`` one by one."""
        return frozenset(listed(self.switches))

    @property
    def is_text(self) -> bool:
        """Are the records of the trail in the capture?"""
        return self.form == "logdump"

    @property
    def is_defined(self) -> bool:
        """Does the capture hold the definitions of tables?"""
        return self.is_text and self.style != "11g" and "metadata" in self.shown

    @property
    def has_headers(self) -> bool:
        """Does the text say what the headers of records hold, in a block or in the bytes of a header token?"""
        return "ghdr" in self.shown or {"headertoken", "headerdetail"} <= self.shown

    @property
    def order(self) -> Literal["little", "big"]:
        """``byte_order`` as :meth:`int.to_bytes` takes it."""
        return "big" if self.byte_order == "big" else "little"

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        try:
            is_zone = bool(ZoneInfo(self.zone))
        except (ValueError, OSError, LookupError):
            is_zone = False
        is_bare = self.is_text and not self.has_headers
        of_headers = self.undo or self.lobs or self.long_varchars or (self.is_defined and self.schema_changes)
        return [
            *Options.rules(self), *unlisted("switches", self.switches, SWITCHES),
            (not is_zone, f"zone {self.zone!r} is no time zone such as Europe/Berlin"),
            (self.unified_prefix == 3, "unified_prefix is 2 or 4"),
            (self.late and self.form != "json", "records of a trail are where their position says, so late is 0"),
            (0 < self.long_varchars < 16, "long_varchars is 0, or at least 16"),
            (self.undo and not self.is_text, "only records of a trail show that they take another back, so undo is 0"),
            (not self.trail or self.trail.endswith("/"),
             "trail is a path that ends with the first letters of a file's name"),
            (is_bare and of_headers,
             "nobody can tell without headers what goes on: undo, long_varchars, schema_changes are 0, lobs is false"),
            (self.is_text and self.lobs and not self.is_defined and "detail" not in self.shown,
             "without metadata only detail tells which column a large object is of"),
        ]  # fmt: skip
