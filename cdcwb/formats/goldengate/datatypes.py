"""GoldenGate's data type codes, and how the value of a column is written in a record (docs/formats/goldengate.md §4.6).

The numbers are those of NonStop SQL's descriptors, which GoldenGate took over and added to; Oracle lists them in the
header files of the user exit interface (``SQLDataTypes.h``, ``usrdecs.h``). What stands behind the null indicator is
certain for the codes that real records show: 64 (length and text), 132 and 134 (big-endian integers, also in
little-endian trails) and 192 (text). It is assumed for all others, by what the codes are called: 130, 131, 133 and 135
like their neighbours, 0 like 64 but padded, floating point as IEEE 754 big-endian (140 and 141 are called Tandem's own
format; off NonStop nothing writes it), decimals as digits with the sign where the name of the code puts it, intervals
as text.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

__all__ = [
    "BINARY_SUBTYPE",
    "GUESS",
    "GUESS_FIXED",
    "Coding",
    "How",
    "coding_of",
    "is_known",
    "type_name",
]


class How(IntEnum):
    """How a value is written behind its null indicator."""

    GUESS = 0
    """Nobody says: told by its bytes."""
    TEXT = 1
    """Two bytes of length in the record's byte order, then as many bytes of text."""
    FIXED_TEXT = 2
    """The same, padded with blanks at the right. The length may be missing where the text fills the column."""
    INTEGER = 3
    """Big-endian two's complement (or unsigned), with so many digits behind the point."""
    FLOAT = 4
    """IEEE 754 big-endian of 4 or 8 bytes (assumed)."""
    DECIMAL = 5
    """A digit a byte, the sign apart or in the high bit of a digit (assumed)."""
    PACKED = 6
    """A digit in each half byte, the sign in the last (assumed)."""
    MOMENT = 7
    """A date, time or interval as text without a length; one with a length is read as well."""
    BINARY = 8
    """Two bytes of length, then bytes that are no text."""
    LOB = 9
    """A large object's place in its record; the value comes in records of its own."""
    UNKNOWN = 10
    """A code that no public source explains."""
    GUESS_FIXED = 11
    """Nobody says, and text may be padded with blanks and without a length, as in the columns of a NonStop."""


class Coding(NamedTuple):
    """How the values of a column are written. ``size``: bytes that a value takes behind the null indicator, 0 if they
    vary. ``charset``: that of the text if the type has one of its own, else empty (the database's)."""

    how: How
    size: int = 0
    scale: int = 0
    signed: bool = True
    charset: str = ""


GUESS: Final = Coding(How.GUESS)
"""For columns without a definition."""

GUESS_FIXED: Final = Coding(How.GUESS_FIXED)
"""For columns without a definition in records of a NonStop."""

UTF16_SUBTYPE: Final = 1
BINARY_SUBTYPE: Final = 4
UTF8_SUBTYPES: Final = frozenset({7, 27, 37})

_TEXT: Final = {
    0: "CHAR",
    1: "CHAR UPSHIFT",
    2: "DOUBLE CHAR",
    64: "VARCHAR",
    65: "VARCHAR UPSHIFT",
    66: "DOUBLE VARCHAR",
}
_INTEGERS: Final = {
    130: ("INT16", 2, True),
    131: ("UNSIGNED INT16", 2, False),
    132: ("INT32", 4, True),
    133: ("UNSIGNED INT32", 4, False),
    134: ("INT64", 8, True),
    135: ("UNSIGNED INT64", 8, False),
}
_FLOATS: Final = {
    140: ("TANDEM REAL", 4),
    141: ("TANDEM DOUBLE", 8),
    142: ("REAL", 4),
    143: ("DOUBLE", 8),
}
_DECIMALS: Final = {
    150: "DECIMAL UNSIGNED",
    151: "DECIMAL LEADING SIGN SEPARATE",
    152: "DECIMAL LEADING SIGN EMBEDDED",
    153: "DECIMAL TRAILING SIGN SEPARATE",
    154: "DECIMAL TRAILING SIGN EMBEDDED",
}
_BIG: Final = {155: "BIG NUMERIC UNSIGNED", 156: "BIG NUMERIC"}
_PACKED: Final = 189
_MOMENTS: Final = {
    191: "DATETIME VARYING",
    192: "DATETIME",
    195: "INTERVAL YEAR",
    196: "INTERVAL MONTH",
    197: "INTERVAL YEAR TO MONTH",
    198: "INTERVAL DAY",
    199: "INTERVAL HOUR",
    200: "INTERVAL DAY TO HOUR",
    201: "INTERVAL MINUTE",
    202: "INTERVAL HOUR TO MINUTE",
    203: "INTERVAL DAY TO MINUTE",
    204: "INTERVAL SECOND",
    205: "INTERVAL MINUTE TO SECOND",
    206: "INTERVAL HOUR TO SECOND",
    207: "INTERVAL DAY TO SECOND",
    208: "INTERVAL FRACTION",
    209: "INTERVAL SECOND TO FRACTION",
    210: "INTERVAL MINUTE TO FRACTION",
    211: "INTERVAL HOUR TO FRACTION",
    212: "INTERVAL DAY TO FRACTION",
}
_NAMES: Final[dict[int, str]] = {
    **_TEXT,
    **{code: facts[0] for code, facts in _INTEGERS.items()},
    **{code: facts[0] for code, facts in _FLOATS.items()},
    **_DECIMALS,
    **_BIG,
    _PACKED: "PACKED DECIMAL",
    **_MOMENTS,
}


def is_known(data_type: int) -> bool:
    """Does a public source say how values of this type code are written, if only by its name?"""
    return data_type in _NAMES and data_type not in _BIG


def type_name(data_type: int, sub_type: int = 0) -> str:
    """The type code and its name: ``134 INT64``; the code alone where it has no known name."""
    name = _NAMES.get(data_type)
    if name is not None and sub_type == BINARY_SUBTYPE and data_type in _TEXT:
        name = name.replace("CHAR", "BINARY")
    return str(data_type) if name is None else f"{data_type} {name}"


def coding_of(data_type: int, sub_type: int = 0, length: int = 0, scale: int = 0, lob: bool = False) -> Coding:
    """How values are written in a column with this type code and sub type, length in bytes, scale and LOB flag."""
    charset = "utf-16-be" if sub_type == UTF16_SUBTYPE else "utf-8" if sub_type in UTF8_SUBTYPES else ""
    if lob:
        return Coding(How.LOB, charset=charset)
    if data_type in _TEXT:
        if sub_type == BINARY_SUBTYPE:
            return Coding(How.BINARY)
        if data_type in (2, 66):
            charset = "utf-16-be"
        return Coding(How.FIXED_TEXT, length, 0, True, charset) if data_type < 64 else Coding(How.TEXT, charset=charset)
    if data_type in _INTEGERS:
        _, size, signed = _INTEGERS[data_type]
        return Coding(How.INTEGER, size, scale, signed)
    if data_type in _FLOATS:
        return Coding(How.FLOAT, _FLOATS[data_type][1])
    if data_type in _DECIMALS:
        return Coding(How.DECIMAL, 0, scale, data_type != 150)
    if data_type == _PACKED:
        return Coding(How.PACKED, 0, scale)
    return Coding(How.MOMENT) if data_type in _MOMENTS else Coding(How.UNKNOWN)
