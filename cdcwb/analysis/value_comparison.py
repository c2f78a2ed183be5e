"""Decides whether two captured values are equal although they are written differently, pairs the changes of one row in
two captures, and gives the reasons why a change is in only one of them."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from itertools import product
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import total
from cdcwb.errors import OptionError
from cdcwb.formats.options import as_object, nearest
from cdcwb.model import Completeness, Kind, Operation
from cdcwb.times import micros
from cdcwb.words import Described, count, plural

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
    rules = as_object("rules", text, parse_float=Decimal)
    values, wrong = dict[str, Any](), list[str]()
    for name, value in rules.items():
        if name not in _RULES:
            wrong.append(f"rules: there is no '{name}'.{nearest(name, _RULES)} There are: {', '.join(_RULES)}")
        elif (read := _RULES[name](value)) is not None:
            values[name] = read
        elif value is not None:
            wrong.append(f"rules, {name}: expected {_EXPECTED.get(name, 'an object of texts')}, found {value!r}")
    try:
        parsed = Rules(**values)
    except OptionError as error:
        wrong.append(str(error))
    if wrong:
        raise OptionError("; ".join(wrong))
    return parsed


def _names(value: Any) -> Any:
    return value if isinstance(value, dict) and all(isinstance(name, str) for name in value.values()) else None


def _time_span(value: Any) -> timedelta | None:
    span = None if isinstance(value, bool) else _SPAN.fullmatch(str(value).strip())
    try:
        return span and timedelta(microseconds=int(Decimal(span[1]) * _UNITS[span[2] or "s"]))
    except OverflowError:
        return None


_RULES: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("tables", "columns", "types"), _names),
    "tolerance": lambda value: Decimal(value) if isinstance(value, Decimal) or type(value) is int else None,
    "late_after": _time_span,
}
_EXPECTED: Final = {"tolerance": "a number from 0 on", "late_after": "seconds, or a text such as '30s' or '5 min'"}


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
    (None: unknown), and the ``row`` that it was read from."""

    operation: str
    image: Mapping[str, str | None]
    time: int | None
    row: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Change:
        """The change of a row, whose maps are lists of pairs."""
        image, was = dict(row["image"] or ()), dict(row["was"] or ())
        return cls(row["operation"], image, None if row["at"] is None else micros(row["at"]), {**row, "was": was})


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

    def equal_ends(source: Sequence[Change], target: Sequence[Change]) -> int:
        pairs = zip(source, target, strict=False)
        unlike = (s.operation != t.operation or bool(differing_columns(s, t, table, rules)) for s, t in pairs)
        return next((n for n, differs in enumerate(unlike) if differs), min(len(source), len(target)))

    first, last = 0, 0
    if len(source) == len(target) or len(source) * len(target) > _MOST_CELLS // 16:
        first = equal_ends(source, target)
        last = equal_ends(source[first:][::-1], target[first:][::-1])
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
    cost = [[_APART * (at + to) for to in range(len(target) + 1)] for at in range(len(source) + 1)]
    prices: dict[tuple[int, int], float] = {}
    differing: dict[tuple[int, int], tuple[str, ...]] = {}
    for (at, change), (to, other) in product(enumerate(source, 1), enumerate(target, 1)):
        cost[at][to] = min(cost[at - 1][to], cost[at][to - 1]) + _APART
        if change.operation == other.operation:
            names = differing[at, to] = differing_columns(change, other, table, rules)
            prices[at, to] = cost[at - 1][to - 1] + _price(change, other, names)
            cost[at][to] = min(cost[at][to], prices[at, to])
    matched, at, to = [], len(source), len(target)
    while at or to:
        if prices.get((at, to)) == cost[at][to]:
            matched.append(Matched(source[at - 1], target[to - 1], differing[at, to]))
            at, to = at - 1, to - 1
        elif at and (not to or cost[at][to] == cost[at - 1][to] + _APART):
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


# --- reasons ---------------------------------------------------------------------------------------------------------

_VALUE: Final = re.compile(r"(?:[^=\\,]|\\.)*=((?:[^,\\]|\\.)*)")  # of a key in :func:`row_texts`
_MOST: Final = 1_000  # unparsed byte ranges
_BYTES: Final = 65_536  # bytes of each that are searched for a key
_MOST_TRANSACTIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Losses:
    """The first ranges of ``unparsed`` bytes of a capture, and the ids of its ``transactions`` that lack events."""

    unparsed: tuple[bytes, ...] = ()
    transactions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, capture: Any) -> Losses:
        """The known losses of a capture."""
        unparsed: list[bytes | None] = []
        if capture.rows("events", ("kind",)).where(_is_malformed).fold(len, total):
            events = capture.rows("events", ("kind", "file_index", "offset", "raw"))
            unparsed = events.map(_malformed, events.schema).first(["file_index", "offset"], _MOST)["raw"].to_pylist()
        gaps = pa.array([str(Completeness.GAPS), str(Completeness.NO_BEGIN)])
        transactions = capture.rows("transactions", ("transaction_id", "completeness"))
        incomplete = transactions.where(lambda batch: pc.is_in(batch["completeness"], gaps))
        ids = incomplete.first(["transaction_id"], _MOST_TRANSACTIONS)["transaction_id"].to_pylist()
        return cls(tuple(raw or b"" for raw in unparsed), frozenset(ids))

    def explain(self, change: Change) -> Reason | None:
        """Why a change that is in the other capture may be lost in this one."""
        values = ("" if value == "\\N" else value for value in _VALUE.findall(change.row.get("key") or ""))
        words = [re.escape(re.sub(r"\\(.)", r"\1", value).encode()) for value in values]
        patterns = [re.compile(rb"(?<![0-9A-Za-z])%b(?![0-9A-Za-z])" % word) for word in words]
        if all(words) and any(all(pattern.search(raw) for pattern in patterns) for raw in self.unparsed if words):
            return Reason.UNREADABLE
        return Reason.TRANSACTION_GAP if change.row.get("transaction") in self.transactions else None


def _is_malformed(batch: pa.RecordBatch) -> pa.Array:
    return pc.equal(batch["kind"], str(Kind.MALFORMED))


def _malformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = batch.filter(_is_malformed(batch))
    columns = [*rows.columns[:-1], pc.binary_slice(rows["raw"], 0, _BYTES)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


Span = tuple[int | None, int | None]
"""The first and the last time of a capture, in microseconds (None: unknown)."""

_MOST_PAIRS: Final = 250_000  # pairs of changes of one row that are compared


class Reason(Described):
    """Why a change is missing or extra. The first reason that applies is used."""

    NO_OP_UPDATE = "no_op_update", "an update that changes nothing"
    DUPLICATE = "duplicate", "the same change of the row is in the same capture again"
    LATE = "late", "the other capture has it after other changes of the row, by more than late_after"
    OUT_OF_ORDER = "out_of_order", "the other capture has it before or after other changes of the row"
    UNREADABLE = "unreadable", "the other capture has unparsed bytes with the values of the key"
    TRANSACTION_GAP = "transaction_gap", "the other capture has its transaction, but not all events of it"
    AFTER_END = "after_end", "later than the last change of the other capture"
    BEFORE_START = "before_start", "earlier than the first change of the other capture"
    UNEXPLAINED = "unexplained", "nothing in the two captures shows why"


_NOUNS: Final = {
    Reason.NO_OP_UPDATE: "no-op update",
    Reason.DUPLICATE: "duplicate",
    Reason.TRANSACTION_GAP: "transaction gap",
}


def reason_words(reason: str, what: str) -> str:
    """A readable reason; ``what`` is ``missing`` or ``extra``."""
    other = "target" if what == "missing" else "source"
    words = {Reason.AFTER_END: f"after the end of the {other}", Reason.BEFORE_START: f"before the start of the {other}"}
    words[Reason.UNREADABLE] = f"unreadable in the {other}"
    return (_NOUNS | words).get(Reason(reason), reason.replace("_", " "))


def tally_words(counts: Mapping[str, int], what: str) -> str:
    """``7 no-op updates, 1 duplicate``: the number of missing or extra changes for each reason, most first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = ((number, name in list(_NOUNS), reason_words(name, what)) for name, number in most_first)
    return ", ".join(plural(number, text) if noun else f"{count(number)} {text}" for number, noun, text in words)


def changed_columns(change: Change) -> list[dict[str, Any]]:
    """The columns that a change sets: ``column``, ``old``, ``new``, ``old_known`` (false: not captured). For an update
    the columns that it changes, if known; for a delete none."""
    if change.operation == Operation.DELETE:
        return []
    names = change.row.get("changed")
    was = change.row.get("was") or {}
    return [
        {"column": name, "old": was.get(name), "new": change.image.get(name), "old_known": name in was}
        for name in (change.image if names is None else names)
    ]


def reasons(
    pairs: Sequence[Matched],
    table: str,
    rules: Rules,
    spans: tuple[Span, Span],
    losses: tuple[Losses, Losses] = (Losses(), Losses()),
) -> list[Reason | None]:
    """The reason of each of the changes of one row that :func:`cdcwb.analysis.value_comparison.match` left alone, None
    for pairs.

    - no-op update: it changes nothing, according to its list of changed columns, else to the values of the row before;
    - duplicate: the same capture has an equal change of the row: at the same position, or the row already had the
      values after it, or did not have the values before it;
    - late, out of order: the other capture has the same change, at another position among those of the row; late if
      it is later than ``rules.late_after``;
    - unreadable: the other capture has unparsed bytes with the values of the key (``losses``: of source and target);
    - transaction gap: the other capture has the transaction of the change, and events of it are missing;
    - after the end, before the start: of all changes in the other capture, by time (``spans``: of source and target).
    """
    results: list[Reason | None] = [None] * len(pairs)
    if all(pair.source is not None and pair.target is not None for pair in pairs):
        return results
    sides = [(pair.source, pair.target) for pair in pairs]
    alone = [
        {n: change for n, both in enumerate(sides) if (change := both[side]) is not None and both[1 - side] is None}
        for side in (0, 1)
    ]
    for side in (0, 1):
        changes = [(n, change) for n, both in enumerate(sides) if (change := both[side])]
        steps = _steps(changes)
        repeated = {step.repeats for step in steps if step.number not in alone[side]}
        for at, step in enumerate(steps):
            if step.number in alone[side]:
                is_twice = step.repeats is not None or at in repeated
                results[step.number] = step.idle or (Reason.DUPLICATE if is_twice else None)
    sources, targets = ({n: change for n, change in some.items() if results[n] is None} for some in alone)
    for n, m in product(sources, targets) if len(sources) * len(targets) <= _MOST_PAIRS else ():
        source, target = sources[n], targets[m]
        is_open = results[n] is None and results[m] is None and source.operation == target.operation
        if is_open and not differing_columns(source, target, table, rules):
            delay = None if source.time is None or target.time is None else target.time - source.time
            results[n] = results[m] = Reason.LATE if rules.is_late(delay) else Reason.OUT_OF_ORDER
    for side, changes_alone in enumerate((sources, targets)):
        for n, change in changes_alone.items():
            if results[n] is None:
                results[n] = losses[1 - side].explain(change) or _by_time(change.time, spans[1 - side])
    return results


class _Step(NamedTuple):
    """A change of a row in one capture: the number of its pair, the reason if it changes nothing, and the earlier step
    of which it is a duplicate."""

    number: int
    idle: Reason | None
    repeats: int | None


def _steps(changes: Sequence[tuple[int, Change]]) -> list[_Step]:
    """The steps of the changes of a row in one capture, in order."""
    steps: list[_Step] = []
    earlier: dict[str, int] = {}
    row: Mapping[str, str | None] | None = {}  # known values of the row; None: it does not exist
    for at, (number, change) in enumerate(changes):
        image, was = change.image, change.row.get("was")
        content = json.dumps([change.operation, image, was], sort_keys=True)
        is_idle, again = False, None
        if change.operation == Operation.DELETE:
            again, row = row is None, None
        elif change.operation == Operation.INSERT:
            again, row = bool(row), image
        else:
            names = change.row.get("changed")
            known = row or {}
            is_idle = not names if names is not None else bool(image) and image.items() <= known.items()
            if was and was.keys() <= known.keys():
                again = not was.items() <= known.items()
            row = {**known, **image}
        twin = earlier.get(content)
        before = steps[-1].repeats if steps else None
        repeats = None
        if before is not None and twin is not None and twin == before + 1:
            repeats = twin  # the next change of a repeated part of the log
        elif twin is not None and _is_again(change, changes[twin][1], again):
            repeats = twin
        is_idle = is_idle and (repeats is None or change.row.get("changed") is not None)
        steps.append(_Step(number, Reason.NO_OP_UPDATE if is_idle else None, repeats))
        earlier[content] = at
    return steps


def _is_again(change: Change, twin: Change, again: bool | None) -> bool:
    """Whether a change repeats an earlier one with the same content. ``again``: whether the row already had the values
    after the change, or did not have those before it (None: unknown)."""
    position = change.row.get("position")
    if position is not None and position == twin.row.get("position"):
        return True
    return again or (again is None and change.time is not None and change.time == twin.time)


def _by_time(time: int | None, other: Span) -> Reason:
    first, last = other
    if time is not None and last is not None and time > last:
        return Reason.AFTER_END
    if time is not None and first is not None and time < first:
        return Reason.BEFORE_START
    return Reason.UNEXPLAINED
