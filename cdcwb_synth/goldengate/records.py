"""A trail's records as they are made (``docs/formats/goldengate.md §3 and §5.7``): their parts, lengths and headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cdcwb_synth.goldengate.columns import Layout, Order

__all__ = ["JULIAN_EPOCH", "NAMES", "Part", "Record", "Shown", "Token", "header_bytes", "token_bytes"]

JULIAN_EPOCH: Final = 210_866_760_000_000_000
"""1970-01-01 in microseconds of the Julian calendar."""

NAMES: Final = {
    3: "Delete",
    5: "Insert",
    15: "FieldComp",
    100: "GGSPurgedata",
    115: "GGSPKUpdate",
    116: "LargeObject",
    134: "GGSUnifiedUpdate",
    135: "GGSUnifiedPKUpdate",
    150: "RestartAbend",
    151: "RestartOK",
    160: "DDLOP",
    161: "RecordFragment",
    170: "Metadata",
}
"""Names of record types by their numbers."""

_IN_NAME, _COMPRESSED = 0x08, 0x04  # bits of Partition: TDR index instead of a name; columns one by one


class Token(NamedTuple):
    """A token after a record: its code, name and bytes; ``text`` is what a reader makes of them."""

    id: int
    name: str
    info: int
    value: bytes
    text: str


class Part(NamedTuple):
    """A line about a part of a body: ``kind`` is ``column``, ``key``, ``fragment``, or the head of an image: ``keyed``,
    ``before`` or ``after``. ``number`` is a column's index or an image's length, ``other`` another number that it has;
    ``start`` and ``stop`` say which bytes of the body stand below it."""

    kind: str
    number: int
    start: int = 0
    stop: int = 0
    other: int = 0


@dataclass(slots=True)
class Record:
    """A record: ``layout`` None has no table. ``io`` is its type, ``image`` ``A`` or ``B``, ``at`` its time in
    microseconds since 1970 UTC. ``text``: what is printed of a Metadata record, whose indexes are ``indexes``."""

    io: int
    layout: Layout | None
    at: int
    image: str = "A"
    body: bytes = b""
    parts: list[Part] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    user_tokens: list[tuple[str, str]] = field(default_factory=list)
    undo: bool = False
    continued: bool = False
    count: int = 1
    place: int = 3  # in its transaction: first 0, middle 1, last 2, only 3
    node: int = 255
    audit_rba: int = 0
    audit_pos: int = 0
    text: str | None = None
    indexes: tuple[int, int] | None = None
    header: int = 0  # bytes of its header, 0: as its table makes it

    @property
    def name(self) -> str:
        """The name of its type."""
        return NAMES[self.io]


@dataclass(frozen=True, slots=True)
class Shown:
    """A record that has its place in the trail: number of the file, relative byte address, and the index of its table's
    definition there (0: none). ``lengths`` are those of G, H, D, T and U."""

    record: Record
    sequence: int
    rba: int
    index: int
    partition: int
    lengths: dict[str, int]


def token_bytes(tokens: list[Token], order: Order) -> bytes:
    """The area of a record's tokens."""
    parts = [bytes((t.id, t.info)) + len(t.value).to_bytes(2, order) + t.value for t in tokens]
    return b"".join(parts)


def user_bytes(tokens: list[tuple[str, str]]) -> bytes:
    """The area of a record's user tokens."""
    return b"".join(f"{name}\0{value}\0".encode() for name, value in tokens)


def measured(record: Record, is_named: bool) -> tuple[int, dict[str, int]]:
    """A record's partition and the lengths of its parts; ``is_named``: tables go by name instead of an index."""
    partition = 0
    header = record.header or 35
    if record.layout is not None:
        partition = _COMPRESSED if is_named else _COMPRESSED | _IN_NAME
        header = 34 + (len(record.layout.full_name) + 1 if is_named else 2)
    lengths = {"H": header}
    if record.body:
        lengths["D"] = len(record.body)
    if record.tokens:
        lengths["T"] = sum(4 + len(token.value) for token in record.tokens)
    if record.user_tokens:
        lengths["U"] = len(user_bytes(record.user_tokens))
    return partition, {"G": 8 + sum(4 + length for length in lengths.values())} | lengths


def header_bytes(shown: Shown, order: Order) -> bytes:
    """The bytes of a record's header as Logdump prints them: the name or index at the end is blanked."""
    one = shown.record
    rba = one.audit_rba.to_bytes(4, order)
    if one.indexes is not None:
        rba = one.indexes[0].to_bytes(2, order) + one.indexes[1].to_bytes(2, order)
    fixed = (
        bytes((0x45, shown.partition, one.undo, ord(one.image)))
        + len(one.body).to_bytes(2, order)
        + bytes((one.io, one.node))
        + (one.at + JULIAN_EPOCH).to_bytes(8, order)
        + one.audit_pos.to_bytes(4, order)
        + bytes(4)
        + rba
        + bytes((one.place, 0x52, 0, 0, one.continued, one.count & 0xFF))
    )
    return fixed.ljust(shown.lengths["H"], b"\0")
