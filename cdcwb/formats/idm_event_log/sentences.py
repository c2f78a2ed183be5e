"""What is said of a row that breaks a rule: one wording for the rules of many rows and for the dissection of one
(docs/formats/idm-event-log.md §6.4). All of them give what was expected and what was found; None stands for NULL.
"""

from __future__ import annotations

from cdcwb.formats.idm_event_log.facts import PUBLISHER_NEEDS
from cdcwb.formats.idm_event_log.key_grammar import TableKeyError
from cdcwb.formats.idm_event_log.key_repair import correct
from cdcwb.words import visible

__all__ = [
    "absent_column",
    "ambiguous_time",
    "broken_key",
    "duplicate_row",
    "given",
    "is_unfit",
    "no_column",
    "no_event_type",
    "no_name",
    "no_record_id",
    "no_status",
    "no_time",
    "padded_key",
    "record_id_again",
    "unfit",
]

_SHOWN = 60


def given(text: str | None, absent: bool = False) -> str:
    """What was found."""
    if absent:
        return "no such column"
    return "NULL" if text is None else repr(visible(text, _SHOWN))


def no_record_id(text: str | None) -> str:
    """A record_id that is no number from 1 to 2^63 - 1."""
    return f"record_id: expected a positive whole number of at most 19 digits, found {given(text)}"


def duplicate_row(spot: str, record_id: str) -> str:
    """A row whose record_id and bytes are those of an earlier row, which is at ``spot``."""
    return f"the row is a duplicate of the row at {spot}: record_id {record_id}, and all bytes are equal"


def record_id_again(spot: str, record_id: str) -> str:
    """A row whose record_id is that of an earlier row with other bytes."""
    return f"expected a record_id that no other row has, found {record_id}, which the row at {spot} has"


def broken_key(text: str | None, error: TableKeyError | None, absent: bool = False) -> str:
    """A table_key that is NULL or not as the grammar has it."""
    if text is None or error is None:
        return f"table_key: expected column=value, found {given(text, absent)}"
    repaired = correct(text)
    meant = "" if repaired is None else f"; {visible(repaired, _SHOWN)} may be meant"
    return f"table_key: {error} of {given(text)}{meant}"


def padded_key(text: str) -> str:
    """A table_key with blanks around a name or a number."""
    other = visible(correct(text) or "", _SHOWN)
    return f"table_key: expected no blanks around names and numbers, found {given(text)}; {other} is another object"


def no_status(text: str | None) -> str:
    """A status that is no letter of the vendor's."""
    meant = "" if text is None else text.strip().upper()
    hint = f"; {meant} is another status" if meant != text and meant in ("N", "S", "W", "E", "F") else ""
    return f"status: expected N, S, W, E or F, found {given(text)}{hint}"


def no_event_type(text: str | None, absent: bool = False) -> str:
    """An event_type that is none of the eight."""
    return f"event_type: expected a number from 1 to 8, found {given(text, absent)}"


def no_time(text: str | None) -> str:
    """An event_time that is NULL or cannot be read."""
    expected = "a time" if text is None else "a time such as 2024-01-02 03:04:05.123456"
    return f"event_time: expected {expected}, found {given(text)}"


def ambiguous_time(text: str | None, zone: str) -> str:
    """An event_time that the zone has twice or not at all."""
    return f"event_time: expected a time that {zone} has once, found {given(text)}; the earlier one is used"


def no_name(text: str | None, absent: bool = False) -> str:
    """A row without the name of its table."""
    return f"table_name: expected the name of a table or view, found {given(text, absent)}"


def no_column(number: int, text: str | None, absent: bool = False) -> str:
    """A row of a type that is of one column, without its name."""
    return f"column_name: expected the column of an event of type {number}, found {given(text, absent)}"


def unfit(column: str, text: str | None) -> str:
    """A text with a character that no XML document can hold."""
    text = text or ""
    at = next(place for place, character in enumerate(text) if is_unfit(character))
    found = f"U+{ord(text[at]):04X} at character {at}"
    return f"{column}: expected characters that XML 1.0 allows, found {found}"


def is_unfit(character: str) -> bool:
    """Is this a character that XML 1.0 cannot hold? (§5.9)"""
    code = ord(character)
    return (code < 0x20 and code not in (0x09, 0x0A, 0x0D)) or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF)


def absent_column(name: str) -> str:
    """A column that a whole source lacks."""
    if name in PUBLISHER_NEEDS:
        return f"expected a column {name}, found none: the Publisher does not start without it"
    return f"expected a column {name}, found none: the event log has ten columns"
