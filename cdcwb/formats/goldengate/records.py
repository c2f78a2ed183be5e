"""What Logdump prints of trail records: one record as Python objects, and many as columns.

A *printed* record is what the text says, nothing concluded from it. :class:`Printed` holds one, :class:`Records` the
records of a stretch of text in arrays, with the :class:`Printed` of those that say more than the arrays have room for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.facts import io_type_of
from cdcwb.model import Problem

__all__ = ["HEADER", "MISSING", "Ints", "Printed", "PrintedColumn", "Records", "Shape", "Span", "System", "Token"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Span = tuple[int, int]

MISSING: Final = -1
"""A number that is not printed."""

NOT_A_TIME: Final = -(1 << 62)
"""A time that is not printed, or has the form of a time only."""

HEADER: Final = (
    "Hdr-Ind",
    "Partition",
    "UndoFlag",
    "BeforeAfter",
    "RecLength",
    "IOType",
    "OrigNode",
    "TransInd",
    "FormatType",
    "SyskeyLen",
    "Incomplete",
    "AuditRBA",
    "AuditPos",
    "DDR index",
    "TDR index",
    "Continued",
    "RecCount",
)
"""The numbers of a record header, in the order of the columns of :attr:`Records.values`.

Characters (Hdr-Ind, BeforeAfter, FormatType, Continued) are their codes: ``E`` is 0x45; Continued is 1 (Y) or 0 (N).
"""


class Shape(IntEnum):
    """What a stretch of text is."""

    RECORD = 0
    """A record: with or without its header block."""
    FILE_HEADER = 1
    """The trail's file header."""
    FILLER = 2
    """Lines that belong to no record: prompts, notes, blank lines behind them."""
    MALFORMED = 3
    """Lines of a record of which nothing can be made: neither header block nor record line is whole."""


class System(IntEnum):
    """The system whose change a record is, as far as the record shows it."""

    OTHER = 0
    """None of NonStop's."""
    UNKNOWN = 1
    """Nothing tells."""
    NONSTOP = 2
    """A NonStop: null indicators are only in columns that may be NULL."""


@dataclass(slots=True)
class Token:
    """A token behind a record. ``id`` is its code (0x4c: LOGCSN), ``name`` its printed name where there is one.
    ``value`` is what is shown of it; ``length`` its whole length, MISSING where it is not printed."""

    id: int
    name: str | None
    info: int
    length: int
    value: bytes


@dataclass(slots=True)
class PrintedColumn:
    """A ``Column`` or ``KeyCol`` line and the hex below it. ``half``: ``key`` (KeyCol), else ``before`` or ``after``:
    that of the line ``Before Image … Len`` or ``After Image … Len`` above it, else the record's side. ``data``: the
    bytes below it, with the null indicator; None where none are shown."""

    half: str
    index: int
    length: int
    data: bytes | None
    fragment: tuple[int, int] | None = None
    """LOB fragment k of n."""


@dataclass(slots=True)
class Printed:
    """One record as its text says. Places are bytes of the decompressed file.

    ``values`` has the names of :data:`HEADER` that are printed; the hex beside a character or number counts, where it
    is there. ``ghdr``: bytes of the header token (HEADERTOKEN DETAIL). ``parts``: lengths of header tokens by letter
    (G, H, D, T, U, Z). ``operation``, ``line_time``, ``length`` and ``rba`` are those of the record line; ``name`` that
    of the Name line (None: no such line, empty: no name), ``name_index`` its TDR index. ``image``: ``Before`` or
    ``After``, the words of the image line; ``image_trans``: TransInd by the letter at its end. ``transaction`` and
    ``transaction_number`` are the id of a TRANSID line (NonStop) and the number behind it. ``body``: the bytes shown of
    the record's data, None where none are shown. ``text``: the lines of a Metadata record. ``trail``: the trail file in
    force, where the text names one. ``wrong_fields``: the first problem of each header field that has one.
    ``line_moment`` and ``header_moment``: ``line_time`` and ``io_time`` as microseconds since 1970 as if their
    zone were UTC. ``operation_at``, ``name_at``, ``time_at``: where these are in the record's text.
    """

    shape: Shape
    start: int
    stop: int
    values: dict[str, int] = field(default_factory=dict)
    io_time: str | None = None
    line_time: str | None = None
    operation: str | None = None
    length: int = MISSING
    rba: int = MISSING
    name: str | None = None
    name_index: int = MISSING
    image: str | None = None
    image_partition: int = MISSING
    image_trans: int = MISSING
    transaction: str | None = None
    transaction_number: str | None = None
    ghdr: bytes = b""
    parts: dict[str, int] = field(default_factory=dict)
    body: bytes | None = None
    columns: list[PrintedColumn] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    user_tokens: list[tuple[str, str]] = field(default_factory=list)
    text: str | None = None
    trail: str | None = None
    problems: list[tuple[Problem, str]] = field(default_factory=list)
    wrong_fields: dict[str, str] = field(default_factory=dict)
    line_moment: int = field(default=NOT_A_TIME, compare=False)
    header_moment: int = field(default=NOT_A_TIME, compare=False)
    operation_at: Span = field(default=(MISSING, MISSING), compare=False)
    name_at: Span = field(default=(MISSING, MISSING), compare=False)
    time_at: Span = field(default=(MISSING, MISSING), compare=False)

    def wrong(self, name: str, sentence: str) -> tuple[Problem, str]:
        """The problem that a header field has, which is noted in ``wrong_fields``."""
        self.wrong_fields.setdefault(name, sentence)
        return Problem.HEADER_VALUE, sentence

    @property
    def io_type(self) -> int | None:
        """Number of the record type, by its header or else by its printed name."""
        number = self.values.get("IOType")
        return io_type_of(self.operation) if number is None and self.operation is not None else number

    @property
    def side(self) -> int | None:
        """BeforeAfter of the header, else what the words of the image line say: the code of ``A`` or ``B``."""
        return self.values.get("BeforeAfter", None if self.image is None else ord(self.image[0]))


@dataclass(slots=True)
class Records:
    """``n`` records of a stretch of text, in its order.

    * ``shape`` int8 [n], values of :class:`Shape`; ``start``, ``stop`` int64 [n], bytes of the decompressed file
    * ``values`` int64 [n, 17], columns as :data:`HEADER`, MISSING where not printed
    * ``length``, ``rba``, ``name_index``, ``image_partition`` int64 [n], MISSING where not printed
    * ``image`` int64 [n]: the code of ``A`` or ``B``, by the words of the image line; ``image_trans`` int64 [n]:
      TransInd by the letter at its end. MISSING where not printed
    * ``total`` int64 [n]: length of the header token G, by which the next record's RBA is known; else MISSING
    * ``moment`` int64 [n]: the printed time (of the record line, else IO Time) as microseconds since 1970 as if its
      zone were UTC; ``julian`` int64 [n]: the time in the header token's bytes, microseconds since 1970 UTC. MISSING
      where there is none
    * ``text``: the bytes that the slices below are in (the stretch itself). ``operation_at``, ``name_at``, ``time_at``
      int64 [n, 2]: first and last+1 of the operation's name, the Name and the printed time; -1, -1 where not printed
    * ``bytes``: decoded hex of the whole stretch. ``body_at``, ``csn_at``, ``xid_at``, ``rowid_at`` int64 [n, 2]:
      slices of it for the record's data and the values of the tokens LOGCSN, TRANID and ORAROWID; -1, -1 where there
      is none. A body that was cut is as long as what is shown of it
    * ``extras``: index -> the record in full, for each record that is not wholly told by the arrays (other tokens,
      user tokens, Metadata text, per-column hex without record hex, problems, anything that was not printed the usual
      way)
    * ``trail``: the trail files named in the text, as (index of the first record it is in force for, path)
    * ``cut`` bool [n]: the body is shown only in part and the record is otherwise usual, so that it is not among the
      extras; ``cut_column`` int64 [n, 3]: the column of it whose own hex is shown only in part, as (index, bytes shown,
      length), MISSING where there is none
    * ``fragment`` int64 [n, 3]: the first LOB fragment among the columns, as (column index, number, number of all);
      MISSING where there is none
    """

    shape: npt.NDArray[np.int8]
    start: Ints
    stop: Ints
    values: Ints
    length: Ints
    rba: Ints
    name_index: Ints
    image_partition: Ints
    image: Ints
    image_trans: Ints
    total: Ints
    moment: Ints
    julian: Ints
    text: Bytes
    operation_at: Ints
    name_at: Ints
    time_at: Ints
    bytes: Bytes
    body_at: Ints
    csn_at: Ints
    xid_at: Ints
    rowid_at: Ints
    extras: dict[int, Printed]
    trail: list[tuple[int, str]]
    cut: npt.NDArray[np.bool_]
    cut_column: Ints
    fragment: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def side(self) -> Ints:
        """BeforeAfter of the header, else what the words of the image line say: the code of ``A`` or ``B``."""
        told = self.column("BeforeAfter")
        return np.where(told == MISSING, self.image, told)

    def column(self, name: str) -> Ints:
        """One number of the header, for all records."""
        return self.values[:, HEADER.index(name)]
