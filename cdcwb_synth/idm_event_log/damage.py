"""Rows that break a rule, and keys in other spellings, as triggers and hands write them
(``docs/formats/idm-event-log.md §1.2, §2``)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from cdcwb_synth.idm_event_log.rows import LogRow, Statement

__all__ = ["KINDS", "damage", "respell"]

KINDS: Final = ("record_id", "repeated", "event_type", "table_name", "key", "column", "character", "time")
"""What can be wrong with a row."""

_IDS: Final = ("0", "-17", "12a", "1.5", None)
_TYPES: Final = ("0", "9", "12", "-1", "x", None)
_TIMES: Final = (None, "soon", "2026-02-30 08:00:00", "")
_KEYS: Final = (
    None, "", "42", "=42", "id=", "id=4,2", 'id="42', 'id="4"2', 'id="4\\2"', "id=42+", "+id=42", "id=a=b",
    "id=O'Farrel", "id=1+id=2",
)  # fmt: skip
_CHARACTERS: Final = ("\x01", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff")


def damage(row: LogRow, kinds: Sequence[str], rng: Random, earlier: Sequence[str]) -> str:
    """Break a row in one of the ways of ``kinds``; returns which. ``earlier``: record ids of rows before it."""
    kind = rng.choice(kinds)
    if (kind == "repeated" and not earlier) or (kind == "column" and row.column_name is None):
        kind = "key"
    match kind:
        case "record_id":
            row.record_id = rng.choice(_IDS)
        case "repeated":
            row.record_id = rng.choice(earlier)
        case "event_type":
            row.event_type = rng.choice(_TYPES)
        case "table_name":
            row.table_name = rng.choice((None, ""))
        case "column":
            row.column_name = None
        case "time":
            row.event_time, row.time = rng.choice(_TIMES), None
        case "character":
            _spoil(row, rng)
        case _:
            row.table_key = rng.choice(_KEYS)
    return kind


def _spoil(row: LogRow, rng: Random) -> None:
    """Put a character that XML cannot hold somewhere into a row."""
    places = [name for name in ("table_key", "old_value", "new_value", "column_name") if getattr(row, name)]
    name = rng.choice(places)
    text = getattr(row, name)
    at = rng.randint(text.find("=") + 1 if name == "table_key" else 0, len(text))
    setattr(row, name, text[:at] + rng.choice(_CHARACTERS) + text[at:])


def respell(rows: Statement, rng: Random) -> None:
    """Spell the keys of some rows in another way that the grammar allows."""
    is_queried = any(row.event_type in ("5", "6", "7", "8") for row in rows)
    kind = rng.choice(("capitals", "quotes") if is_queried else ("capitals", "quotes", "blanks"))
    for row in rows:
        name, _, value = (row.table_key or "").partition("=")
        if kind == "capitals" or '"' in value or "+" in value:
            row.table_key = f"{name.upper()}={value}"
        else:
            row.table_key = f'{name}="{value}"' if kind == "quotes" else f"{name}= {value}"
