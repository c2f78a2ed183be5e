"""A dissected record as a person reads it: bytes on the left, the field tree on the right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cdcwb.cli.console import safe
from cdcwb.formats.base import Field

__all__ = ["BYTES_A_LINE", "TreeLine", "field_json", "tree_lines"]

BYTES_A_LINE: Final = 8
_MOST_LINES: Final = 8
_MOST_CHARACTERS: Final = 200


class TreeLine(NamedTuple):
    """One printed line. ``offset`` is None on the lines on which a field's bytes go on, ``field`` is empty there."""

    offset: int | None
    hex: str
    field: str
    problem: bool


def tree_lines(root: Field, *, start: int = 0, everything: bool = False) -> list[TreeLine]:
    """The lines of a field tree, in byte order; ``start`` is added to every offset.

    A group shows its name and its children the bytes. With ``everything`` every byte of the record stands there once;
    without, a long field shows its first 64 bytes and a long value its first 200 characters, and both say how much is
    left out, and quiet fields are left out.
    """
    return list(_lines(root, 0, start, everything))


def _lines(field: Field, depth: int, start: int, everything: bool) -> Iterator[TreeLine]:
    if field.quiet and field.problem is None and not everything:
        return
    pieces = (
        [] if field.children else [field.raw[at : at + BYTES_A_LINE] for at in range(0, field.length, BYTES_A_LINE)]
    )
    shown = pieces if everything else pieces[:_MOST_LINES]
    rows = [piece.hex(" ") for piece in shown]
    if len(shown) < len(pieces):
        rows.append(f"… {field.length - len(shown) * BYTES_A_LINE:,} more bytes")
    text = "  " * depth + _text(field, everything)
    yield TreeLine(start + field.offset, rows[0] if rows else "", text, field.problem is not None)
    for row in rows[1:]:
        yield TreeLine(None, row, "", False)
    for child in field.children:
        yield from _lines(child, depth + 1, start, everything)


def _text(field: Field, everything: bool) -> str:
    text = safe(field.name)
    if field.value is not None:
        text += f" = {_short(safe(field.value), everything)}"
    if field.meaning:
        text += f"  ({_short(safe(field.meaning), everything)})"
    if field.problem is not None:
        text += f"  [problem: {safe(field.problem)}]"
    return text


def _short(text: str, everything: bool) -> str:
    if everything or len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… {len(text) - _MOST_CHARACTERS:,} more characters"


def field_json(field: Field) -> dict[str, Any]:
    """A field and all below it as JSON has it: name, offset, length, raw (hex), value, meaning, problem, children."""
    return {
        "name": field.name,
        "offset": field.offset,
        "length": field.length,
        "raw": field.raw.hex(),
        "value": field.value,
        "meaning": field.meaning,
        "problem": field.problem,
        "children": [field_json(child) for child in field.children],
    }
