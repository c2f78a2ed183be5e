"""What is said of a value that is not as the documentation has it: one wording for the fast reader and the dissection.

All of them take plain values and give a code and a sentence (docs/formats/qlik-change-table.md §10).
"""

from __future__ import annotations

from collections.abc import Sequence

from cdcwb.model import Problem
from cdcwb.words import visible

__all__ = [
    "beyond_bits",
    "contradiction",
    "header_bits",
    "no_mask",
    "no_partition",
    "no_sequence",
    "no_time",
    "not_in_charset",
    "outside_partition",
    "refused",
    "too_wide",
    "unknown_letter",
]

Finding = tuple[Problem, str]


def too_wide(name: str, width: int, found: int) -> Finding:
    """A value longer than its column is documented to be."""
    return Problem.WIDTH, f"{name}: expected at most {width} byte{'s' if width != 1 else ''}, found {found}"


def no_sequence(text: str) -> Finding:
    """A change sequence that is none."""
    expected = "35 digits, YYYYMMDDHHmmSShh and a number of 19"
    return Problem.VALUE, f"change_seq: expected {expected}, found {visible(text, 60)!r}"


def contradiction(letter: str, operation: str) -> Finding:
    """Two header columns that name different operations."""
    found = f"{visible(letter, 20)!r} and {visible(operation, 20)!r}"
    return Problem.VALUE, f"change_oper and operation: expected the same in both, found {found}"


def unknown_letter(letter: str, operation: str) -> Finding:
    """A letter that is not documented, beside an operation that is."""
    return (
        Problem.VALUE,
        f"change_oper: expected I, U, D or B, found {visible(letter, 20)!r}; operation is {operation}",
    )


def no_time(text: str) -> Finding:
    """A timestamp that is none."""
    return Problem.TIME_RANGE, f"timestamp: expected a time of the years 1 to 9999, found {visible(text, 60)!r}"


def no_partition(text: str) -> Finding:
    """A partition's name that is none."""
    expected = "YYYYMMDDTHHMMSS_YYYYMMDDTHHMMSS"
    return Problem.VALUE, f"partition_name: expected {expected}, found {visible(text, 60)!r}"


def outside_partition(text: str, partition: str) -> Finding:
    """A change whose sequence is of another time than its partition's."""
    return (
        Problem.PARTITION,
        f"expected a change_seq of partition {visible(partition, 60)}, found {visible(text, 60)}",
    )


def no_mask(text: str) -> Finding:
    """A text that is no mask."""
    return Problem.MASK, f"change_mask: expected hexadecimal digits or base64, found {visible(text, 60)!r}"


def header_bits(mask: str, bits: Sequence[int], offset: int) -> Finding:
    """A mask that marks header columns, which never change."""
    expected = f"none of the bits of {offset} header columns"
    return Problem.MASK, f"change_mask {_short(mask)}: expected {expected}, found {_listed(bits)}"


def beyond_bits(mask: str, width: int) -> Finding:
    """A mask with bits behind the last column."""
    return Problem.MASK, f"change_mask {_short(mask)}: expected bits below {width}, found others"


def not_in_charset(column: str, charset: str, digits: str) -> Finding:
    """Text in another character set than the capture's."""
    return Problem.CHARSET, f"column {visible(column, 60)}: expected text in {charset}, found bytes {_short(digits)}"


def refused(table: str, statement: str | None, error: str | None) -> Finding:
    """A change that the target rejected."""
    why = visible(error or "no error is given", 300)
    what = f"; the statement was {visible(statement, 300)}" if statement else ""
    return Problem.APPLY_EXCEPTION, f"the target rejected a change of {visible(table, 120)}: {why}{what}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:40]}…"


def _listed(bits: Sequence[int]) -> str:
    shown = ", ".join(map(str, bits[:12]))
    return f"bit{'s' if len(bits) != 1 else ''} {shown}{', …' if len(bits) > 12 else ''}"
