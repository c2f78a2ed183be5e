"""What one row of a change table says, as a row of ``events`` does
(docs/formats/qlik-change-table.md §2 to §4, §10).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.qlik_change_table.layout import HEADERS, LETTERS, LOAD, OPERATIONS
from cdcwb.formats.qlik_change_table.masks import MaskSettings
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import visible

Texts = Sequence[str | None]
_Problems = list[tuple[Problem, str]]

_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_SEQUENCE: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{19})", re.ASCII)
_PARTITION: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)", re.ASCII)
_KNOWN_SINCE: Final = datetime(1970, 1, 2, tzinfo=UTC)  # before that is what PostgreSQL says of the unknown (§2.4)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a row's file. ``names``: the columns of the row; ``prefix``: that of its header columns, None
    without any; ``columns``: the data columns of the file, in the order of the mask's bits."""

    names: Sequence[str]
    role: str
    prefix: str | None
    charset: str
    columns: Sequence[str]
    masks: MaskSettings | None
    key: Sequence[str]

    def is_header(self, name: str) -> bool:
        """Is it a header column?"""
        return self.prefix is not None and name.casefold().startswith(self.prefix.casefold())

    @property
    def known(self) -> Mapping[str, str]:
        """The header columns that are documented, by what they are called there."""
        found: dict[str, str] = {}
        for name in self.names:
            rest = name.casefold()[len(self.prefix or "") :]
            if self.is_header(name) and rest in HEADERS:
                found.setdefault(rest, name)
        return found


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask as a number whose bit n is bit n, and the bytes that its text spells."""

    bits: int
    data: bytes


def event(texts: Texts, garbled: Sequence[int], context: Context) -> dict[str, Any]:
    """What a row says: the columns of ``events`` that need no other row.

    ``texts`` are its fields in file order (None: NULL), ``garbled`` the places of those that are not in the character
    set. The keys are ``record_type``, ``kind``, ``operation``, ``position``, ``transaction_id``, ``changed_at``,
    ``change_mask``, ``changed_columns``, ``key``, ``before``, ``after``, ``headers`` and ``problems``; None where the
    row says nothing. Never raises.
    """
    names = context.names
    odd = [(Problem.CHARSET, _charset(names[place], context.charset, texts[place] or "")) for place in garbled]
    problems: _Problems = []
    by_name = dict(zip(names, texts, strict=True))
    known = {name: by_name[column] for name, column in context.known.items()}
    for name in HEADERS:
        size = len((known.get(name) or "").encode())
        if name != "change_mask" and size > (HEADERS[name].width or size):
            problems.append(_too_wide(name, size))
    position = known.get("change_seq") or None
    if position is not None and sequence_time(position) is None:
        expected = "35 digits, YYYYMMDDHHmmSShh and a number of 19"
        problems.append((Problem.VALUE, f"change_seq: expected {expected}, found {visible(position, 60)!r}"))
    record_type, kind, operation = _operation(known, context, problems)
    changed_at = _changed_at(context.known.get("timestamp", ""), known.get("timestamp"), problems)
    headers = {name: by_name[name] for name in names if context.is_header(name)}
    if "partition_name" in known:
        begin, end = _partition(known["partition_name"] or None, position, problems)
        headers.setdefault("partition_begin", begin)
        headers.setdefault("partition_end", end)
    changed = _changed_columns(known.get("change_mask"), context, problems)
    image = {name: text for name, text in by_name.items() if not context.is_header(name)}
    is_before = operation == Operation.DELETE or kind == Kind.BEFORE
    empty = operation == Operation.TRUNCATE
    key = {name: image[name] for name in context.key if name in image}
    return {
        "record_type": record_type,
        "kind": str(kind),
        "operation": operation,
        "position": position,
        "transaction_id": known.get("transaction_id") or None,
        "changed_at": changed_at,
        "change_mask": known.get("change_mask"),
        "changed_columns": changed,
        "key": key if key and not empty else None,
        "before": image if is_before else None,
        "after": image if not is_before and not empty else None,
        "headers": headers or None,
        "problems": _listed(problems + odd),
    }


def said_by(cells: Sequence[Cell], context: Context) -> dict[str, Any]:
    """The event of a row that was cut into its fields; of fields of one name (in JSON) the last counts."""
    last = {cell.name: cell for cell in cells}
    named = [last[name] for name in context.names]
    return event([cell.text for cell in named], [place for place, cell in enumerate(named) if cell.garbled], context)


def _listed(problems: _Problems) -> list[dict[str, str]] | None:
    return [{"code": str(code), "detail": detail} for code, detail in problems] or None


def _too_wide(name: str, size: int) -> tuple[Problem, str]:
    most = HEADERS[name].width
    return Problem.WIDTH, f"{name}: expected at most {most} byte{'s' if most != 1 else ''}, found {size}"


def _charset(column: str, charset: str, digits: str) -> str:
    return f"column {visible(column, 60)}: expected text in {charset}, found bytes {_short(digits)}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:40]}…"


def _operation(known: Mapping[str, str | None], context: Context, problems: _Problems) -> tuple[str | None, Kind, str]:
    """Record type, kind and operation (§3.1)."""
    if context.role == LOAD:
        return "LOAD", Kind.CHANGE, str(Operation.REFRESH)
    letter, name = known.get("change_oper") or None, known.get("operation") or None
    by_letter, by_name = LETTERS.get(letter or ""), OPERATIONS.get(name or "")
    found: _Problems = []
    if letter is not None and name is not None and by_letter is not by_name and by_name is not LETTERS["T"]:
        one, two = repr(visible(letter, 20)), repr(visible(name, 20))
        same = f"change_oper and operation: expected the same in both, found {one} and {two}"
        listed = f"change_oper: expected I, U, D or B, found {one}; operation is {name}"
        found.append((Problem.VALUE, listed if by_letter is None and by_name is not None else same))
    if by_letter is None and by_name is None and known.keys() & {"change_oper", "operation"}:
        what = "an operation (I, U, D or B in change_oper, or its name in operation)"
        none = letter is None and name is None
        problems.append(
            (Problem.VALUE, f"expected {what}, found {'none' if none else repr(visible(letter or name, 20))}")
        )
    problems += found
    meaning = by_name if by_letter is None or by_name is LETTERS["T"] else by_letter
    record_type = letter or name
    if meaning is None:
        return record_type, Kind.CHANGE, f"UNKNOWN({record_type or ''})"
    return record_type, meaning.kind, str(meaning.operation)


# --- times ------------------------------------------------------------------------------------------------------------


def time_of(text: str | None) -> datetime | None:
    """A time as UTC, with the digits behind the microsecond cut off; None where the text is none."""
    match = _TIME.fullmatch(text or "")
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone, sign, hours, minutes = match.groups()
    try:
        micros = int((fraction or "0")[:6].ljust(6, "0"))
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), micros)
        offset = timedelta(0)
        if zone not in (None, "Z"):
            if int(minutes) > 59:
                return None
            offset = timedelta(hours=int(hours), minutes=int(minutes))
        return local.replace(tzinfo=timezone(-offset if sign == "-" else offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _changed_at(column: str, text: str | None, problems: _Problems) -> datetime | None:
    if not text:
        return None
    time = time_of(text)
    if time is None:
        problems.append((Problem.TIME_RANGE, f"{column}: expected a time, found {text!r}"))
        return None
    return None if time < _KNOWN_SINCE else time


def sequence_time(text: str) -> datetime | None:
    """The time that a change sequence begins with, UTC; None where the text is no sequence (§2.3)."""
    match = _SEQUENCE.fullmatch(text)
    try:
        return None if match is None else _moment(match.groups()[:6], int(match[7]) * 10_000)
    except ValueError:
        return None


def partition_times(text: str) -> tuple[datetime, datetime] | None:
    """Begin and end of a partition by its name, UTC; None where the text is no such name (§2.6)."""
    begin, sign, end = text.partition("_")
    found = _PARTITION.fullmatch(begin), _PARTITION.fullmatch(end)
    if not sign or found[0] is None or found[1] is None:
        return None
    try:
        return _moment(found[0].groups(), 0), _moment(found[1].groups(), 0)
    except ValueError:
        return None


def _moment(parts: Sequence[str], micros: int) -> datetime:
    year, month, day, hour, minute, second = map(int, parts)
    return datetime(year, month, day, hour, minute, second, micros, UTC)


def _partition(name: str | None, position: str | None, problems: _Problems) -> tuple[str | None, str | None]:
    if name is None:
        return None, None
    span = partition_times(name)
    if span is None:
        expected = "YYYYMMDDTHHMMSS_YYYYMMDDTHHMMSS"
        problems.append((Problem.VALUE, f"partition_name: expected {expected}, found {visible(name, 60)!r}"))
        return None, None
    time = None if position is None else sequence_time(position)
    if position is not None and time is not None and not span[0] <= time < span[1]:
        found = f"expected a change_seq of partition {visible(name, 60)}, found {visible(position, 60)}"
        problems.append((Problem.PARTITION, found))
    return span[0].replace(tzinfo=None).isoformat(), span[1].replace(tzinfo=None).isoformat()


# --- masks ------------------------------------------------------------------------------------------------------------


def mask_of(text: str, settings: MaskSettings) -> Mask | None:
    """The mask that a text spells (§4.3); None where it spells none."""
    spelt = text.strip(" \t\n\v\f\r")
    data: bytes | None = None
    prefixed = re.match(r"(0|\\)[xX]", spelt) is not None
    digits = spelt[2:] if prefixed else spelt
    if not prefixed and spelt and settings.spelling == "base64":
        data = _base64(spelt)
    if data is None and re.fullmatch(r"[0-9a-fA-F]*", digits):
        data = bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    if data is None and not prefixed and spelt and settings.spelling != "hex":
        data = _base64(spelt)
    if data is None:
        return None
    return Mask(int.from_bytes(data, "big" if settings.order == "big" else "little"), data)


def _base64(text: str) -> bytes | None:
    """The bytes of a text that is base64 with its padding."""
    if not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        return None
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None


def _changed_columns(text: str | None, context: Context, problems: _Problems) -> list[str] | None:
    settings = context.masks
    if text is None or settings is None:
        return None
    mask = mask_of(text, settings)
    if mask is None:
        expected = "hexadecimal digits or base64"
        problems.append((Problem.MASK, f"change_mask: expected {expected}, found {visible(text, 60)!r}"))
        return None
    if len(mask.data) > 128:
        problems.append((Problem.WIDTH, f"change_mask: expected at most 128 bytes, found {len(mask.data)}"))
    width = settings.offset + len(context.columns)
    marked = [bit for bit in range(settings.offset) if mask.bits >> bit & 1]
    if marked:
        bits = f"bit{'s' if len(marked) != 1 else ''} {', '.join(map(str, marked))}"
        expected = f"none of the bits of {settings.offset} header columns"
        problems.append((Problem.MASK, f"change_mask {_short(text)}: expected {expected}, found {bits}"))
    if mask.bits >> width:
        problems.append((Problem.MASK, f"change_mask {_short(text)}: expected bits below {width}, found others"))
    return [name for at, name in enumerate(context.columns) if mask.bits >> (settings.offset + at) & 1]
