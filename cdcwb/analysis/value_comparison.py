"""Decides whether two captured values are equal although they are written differently, and pairs the changes of one row
in two captures."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from itertools import takewhile
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest

__all__ = ["KINDS", "Change", "Matched", "Rules", "canonical", "differing_columns", "match", "read_rules", "same"]

KINDS: Final = ("auto", "text", "number", "float", "time", "boolean", "ignore")
"""How the values of a column are compared: ``auto`` by what they look like, ``text`` without trailing blanks,
``number`` as decimal numbers, ``float`` in single precision (``0.1`` equals ``0.10000000149011612``), ``time`` as dates
and times, ``boolean`` as truth values, ``ignore`` not at all."""

_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?")
_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T :](\d{2}(?::\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)?)(Z|[+-]\d{2}:?\d{2})?)?"
)
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?")
_UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_TRUE: Final = frozenset(("true", "t", "1", "yes", "y"))
_FALSE: Final = frozenset(("false", "f", "0", "no", "n"))
_MOST_CELLS: Final = 4_000_000  # cells of the cost table of all pairs of changes of one row
_APART: Final = 1.01  # cost of a change without a partner: slightly more than a pair with differences


@dataclass(frozen=True, slots=True)
class Rules:
    """How two captures are compared. ``tables`` and ``columns`` map names of the source to names of the target (columns
    as ``column`` or ``schema.table.column``), ``types`` maps columns of the source to one of :data:`KINDS`. Numbers may
    differ by ``tolerance``. A change that arrives more than ``late_after`` later is late (None: no change is late)."""

    tables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    tolerance: Decimal = Decimal(0)
    late_after: timedelta | None = None

    def __post_init__(self) -> None:
        """Raises OptionError for an unknown kind of comparison or a negative tolerance."""
        wrong = [
            f"types: {column!r} is compared as one of {', '.join(KINDS)}, found {kind!r}.{nearest(kind, KINDS)}"
            for column, kind in self.types.items()
            if kind not in KINDS
        ]
        if self.tolerance < 0:
            wrong.append(f"tolerance: expected a number from 0 on, found {self.tolerance}")
        if wrong:
            raise OptionError("; ".join(wrong))

    def table(self, name: str) -> str:
        """The target's name of a table of the source."""
        return self.tables.get(name, name)

    def column(self, table: str, name: str) -> str:
        """The target's name of a column of the source."""
        return self.columns.get(f"{table}.{name}", self.columns.get(name, name))

    def is_late(self, delay_us: int | None) -> bool:
        """Whether a change with a delay is late."""
        limit = self.late_after
        return limit is not None and delay_us is not None and delay_us > limit // timedelta(microseconds=1)

    def kind(self, table: str, name: str) -> str:
        """How the values of a column of the source are compared."""
        return self.types.get(f"{table}.{name}", self.types.get(name, "auto"))


def read_rules(text: str) -> Rules:
    """Rules from a JSON object: ``tables``, ``columns`` and ``types`` (objects of text), ``tolerance`` (a number) and
    ``late_after`` (seconds, or a text such as ``"30s"``, ``"5 min"``, ``"250 ms"``). All keys are optional.

    Raises OptionError that names everything that is wrong.
    """
    rules, why = None, ""
    try:
        rules = json.loads(text or "{}", parse_float=Decimal)
    except (TypeError, ValueError) as error:
        why = f" ({error})"
    if not isinstance(rules, dict):
        raise OptionError(f"rules: expected a JSON object, found {text!r}{why}")
    wrong = [
        f"rules: there is no '{name}'.{nearest(name, _RULES)} There are: {', '.join(_RULES)}"
        for name in rules
        if name not in _RULES
    ]
    values: dict[str, Any] = {}
    for name in _RULES[:3]:
        values[name] = rules.get(name, {})
        if not isinstance(values[name], dict) or not all(isinstance(value, str) for value in values[name].values()):
            wrong.append(f"rules, {name}: expected an object of texts, found {values.pop(name)!r}")
    tolerance = rules.get("tolerance", 0)
    if isinstance(tolerance, int | Decimal) and not isinstance(tolerance, bool) and tolerance >= 0:
        values["tolerance"] = Decimal(tolerance)
    else:
        wrong.append(f"rules, tolerance: expected a number from 0 on, found {tolerance!r}")
    late_after = rules.get("late_after")
    span = None if isinstance(late_after, bool) else _SPAN.fullmatch(str(late_after).strip())
    try:
        if span is not None:
            values["late_after"] = timedelta(microseconds=int(Decimal(span[1]) * _UNITS[span[2] or "s"]))
        elif late_after is not None:
            wrong.append(
                f"rules, late_after: expected seconds, or a text such as '30s' or '5 min', found {late_after!r}"
            )
    except OverflowError:
        wrong.append(f"rules, late_after: {late_after!r} is longer than any delay")
    try:
        parsed = Rules(**values)
    except OptionError as error:
        wrong.append(str(error))
    if wrong:
        raise OptionError("; ".join(wrong))
    return parsed


_RULES: Final = ("tables", "columns", "types", "tolerance", "late_after")


def canonical(value: str | None, kind: str = "auto") -> str | None:
    """A text that is the same for all values that are equal, apart from the tolerance. NULL stays None."""
    if value is None:
        return None
    if kind == "boolean":
        low = value.strip().lower()
        return "true" if low in _TRUE else "false" if low in _FALSE else value
    if kind == "float":
        return _single(value)
    if kind in ("auto", "number"):
        number = _number(value)
        if number is not None:
            return _plain(number)
    if kind in ("auto", "time"):
        time = _time(value)
        if time is not None:
            return time
    return value.rstrip(" ") if kind in ("auto", "text") else value


def same(one: str | None, other: str | None, kind: str = "auto", tolerance: Decimal = Decimal(0)) -> bool:
    """Whether two values are equal."""
    if kind == "ignore" or one == other:
        return True
    if one is None or other is None:
        return False
    if canonical(one, kind) == canonical(other, kind):
        return True
    if kind == "auto" and {one.lower(), other.lower()} <= _TRUE | _FALSE and {"true", "false"} & {one, other}:
        return canonical(one, "boolean") == canonical(other, "boolean")
    numbers = [_number(text) for text in (one, other)] if tolerance and kind in ("auto", "number", "float") else [None]
    return None not in numbers and abs(_EXACT.subtract(*numbers)) <= tolerance


def _number(text: str) -> Decimal | None:
    """A number; None for other texts, also for numbers with leading zeros."""
    text = text.strip()
    if not text or _NUMBER.fullmatch(text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


_EXACT: Final = Context(prec=10_000)
"""For values of any database; Python's own context rounds to 28 digits."""


def _plain(number: Decimal) -> str:
    """A number with all its digits, without an exponent unless it is very large or small."""
    if not number:
        return "0"
    if abs(number.adjusted()) > _EXACT.prec:
        return str(number.normalize(_EXACT))
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _single(text: str) -> str:
    """A number rounded to single precision. Other texts, and numbers that are too large, are unchanged."""
    number = _number(text)
    if number is None:
        return text
    try:
        return repr(struct.unpack(">f", struct.pack(">f", float(number)))[0] + 0.0)
    except OverflowError:
        return text


def _time(text: str) -> str | None:
    """A date or time in canonical form; None for other texts. A time at midnight becomes the date, trailing zeros of a
    fraction are removed, times with a zone become UTC."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    day, clock, zone = match.groups()
    if clock is None:
        return day
    clock, _, fraction = clock.replace(",", ".").partition(".")
    clock += ":00:00"[len(clock) - 2 :]
    if zone is not None:
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        day, clock = moment.date().isoformat(), moment.time().isoformat()
    fraction = fraction.rstrip("0")
    if clock == "00:00:00" and not fraction:
        return day
    return f"{day}T{clock}.{fraction}" if fraction else f"{day}T{clock}"


# --- pairs of changes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row: its operation, its values after the change (empty: a deleted row), its time in microseconds
    (None: unknown), and its location."""

    operation: str
    image: Mapping[str, str | None]
    time: int | None
    place: Any = None


@dataclass(frozen=True, slots=True)
class Matched:
    """A change of the source and its partner in the target, or one of them without a partner. ``columns``: the columns
    in which the two differ, by the source's names."""

    source: Change | None
    target: Change | None
    columns: tuple[str, ...] = ()


def match(source: Sequence[Change], target: Sequence[Change], table: str, rules: Rules) -> list[Matched]:
    """Pairs the changes of one row in two captures; each side is in its own order.

    Pairs keep the order of both sides and have the same operation. Of all such pairings the result has the fewest
    changes without a partner, then the fewest differences, then the smallest distances in time. If a row has thousands
    of changes, equal changes at both ends are paired first, whatever their time; if thousands remain, they have no
    partner.
    """

    def equal_ends(pairs: Iterable[tuple[Change, Change]]) -> int:
        equal = (
            one.operation == other.operation and not differing_columns(one, other, table, rules) for one, other in pairs
        )
        return sum(1 for _ in takewhile(bool, equal))

    first, last = 0, 0
    if len(source) == len(target) or len(source) * len(target) > _MOST_CELLS // 16:
        first = equal_ends(zip(source, target, strict=False))
        last = equal_ends(zip(source[first:][::-1], target[first:][::-1], strict=False))
    ends = len(source) - last, len(target) - last
    head = map(Matched, source[:first], target[:first])
    tail = map(Matched, source[ends[0] :], target[ends[1] :])
    return [*head, *_aligned(source[first : ends[0]], target[first : ends[1]], table, rules), *tail]


def differing_columns(source: Change, target: Change, table: str, rules: Rules) -> tuple[str, ...]:
    """The columns in which two changes differ, among those that both captures have."""
    differing = []
    for name, value in source.image.items():
        counterpart = rules.column(table, name)
        if counterpart in target.image and not same(
            value, target.image[counterpart], rules.kind(table, name), rules.tolerance
        ):
            differing.append(name)
    return tuple(differing)


def _aligned(source: Sequence[Change], target: Sequence[Change], table: str, rules: Rules) -> list[Matched]:
    if not source or not target or len(source) * len(target) > _MOST_CELLS:
        return [*(Matched(change, None) for change in source), *(Matched(None, change) for change in target)]
    rows, columns = len(source) + 1, len(target) + 1
    cost = [[0.0] * columns for _ in range(rows)]
    differing: dict[tuple[int, int], tuple[str, ...]] = {}
    for at in range(rows):
        for to in range(columns):
            if not at or not to:
                cost[at][to] = _APART * (at + to)
                continue
            best = min(cost[at - 1][to], cost[at][to - 1]) + _APART
            source_change, other = source[at - 1], target[to - 1]
            if source_change.operation == other.operation:
                names = differing[at, to] = differing_columns(source_change, other, table, rules)
                best = min(best, cost[at - 1][to - 1] + _price(source_change, other, names))
            cost[at][to] = best
    matched, at, to = [], rows - 1, columns - 1
    while at or to:
        if (at, to) in differing:
            source_change, other = source[at - 1], target[to - 1]
            if cost[at][to] == cost[at - 1][to - 1] + _price(source_change, other, differing[at, to]):
                matched.append(Matched(source_change, other, differing[at, to]))
                at, to = at - 1, to - 1
                continue
        if at and (not to or cost[at][to] == cost[at - 1][to] + _APART):
            matched.append(Matched(source[at - 1], None))
            at -= 1
        else:
            matched.append(Matched(None, target[to - 1]))
            to -= 1
    return matched[::-1]


def _price(change: Change, other: Change, names: tuple[str, ...]) -> float:
    """The cost of a pair: 0 if the two are equal, else 1 and a little for each column, plus a tiny amount for the
    distance in time."""
    far = 0.0
    if change.time is not None and other.time is not None:
        far = min(abs(change.time - other.time) / 1e12, 1.0) * 1e-6
    return (1.0 + 0.5 * len(names) / max(len(change.image), 1) + far) if names else far
