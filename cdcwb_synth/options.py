"""Options of generated captures: what each means, its default, how a wrong value is reported, and those that all
formats share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Self

from cdcwb_synth.catalogue import KINDS
from cdcwb_synth.model import SynthError

BREAKS: Final = {"lost": "gap", "repeated": "repeat", "late": "late", "revived": "revived", "phantom": "phantom"}
"""What the options that count breaks lead to."""

Rules = list[tuple[Any, str]]
"""Whether something is wrong with values that are each allowed, and the sentence for it."""


def option(
    default: Any, meaning: str, low: float | None = None, high: float | None = None, of: tuple[str, ...] = ()
) -> Any:
    """A field of a class of options: its default, what it means, and which values it may have."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "of": of})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What happens in the database, and how files are written. Shares are between 0 and 1; counts are upper limits
    where the number of changes is too small for them. The same options, number of changes and seed give the same
    bytes."""

    tables: int = option(5, "ordinary tables (5 to 8 columns each)", 1, 10_000)
    columns: int = option(0, "columns of every ordinary table; 0: as designed", 0, 1024)
    all_types: bool = option(True, "one more table that has every column type, with extreme values and NULLs")
    all_types_share: float = option(0.05, "share of the changes that go to that table", 0, 1)
    null_share: float = option(0.06, "share of NULLs in nullable columns", 0, 1)
    update_share: float = option(0.3, "share of updates among the changes", 0, 1)
    delete_share: float = option(0.15, "share of deletes among the changes", 0, 1)
    rollback_share: float = option(0.05, "share of the transactions that are rolled back", 0, 1)
    undo_share: float = option(0.1, "share of the transactions that go back to a savepoint", 0, 1)
    transaction_size: float = option(8.0, "mean changes of a transaction; a few are forty times as large", 1, 1e9)
    concurrency: int = option(4, "how many transactions are open at once, at most", 1, 100_000)
    open_transactions: int = option(1, "transactions without an end", 0, 10_000)
    schema_changes: int = option(1, "times a table gets other columns", 0, 10_000)
    schema_kinds: str = option(",".join(KINDS), f"kinds of schema changes, in turn: any of {', '.join(KINDS)}")
    truncates: int = option(1, "truncated tables", 0, 10_000_000)
    lost: int = option(0, "updates that are missing, each followed by one of its row", 0, 10_000)
    repeated: int = option(0, "updates that come a second time", 0, 10_000)
    late: int = option(0, "updates that come after the next one of their row", 0, 10_000)
    revived: int = option(0, "deletes that an update of their row follows", 0, 10_000)
    phantom: int = option(0, "deletes that a delete of their row follows, with other values", 0, 10_000)
    rate: float = option(200.0, "mean changes per second", 0.001, 1e6)
    start: str = option("2025-03-23T08:00:00Z", "time of the first event, ISO 8601")
    compression: str = option("none", "compression of files, or of their blocks", of=("none", "gzip", "zstd"))
    overwrite: bool = option(False, "replace a capture that is already there")

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Options from keywords; texts are taken as a command line gives them ("8", "0.3", "true").

        Raises SynthError with every problem in one message: unknown names with their nearest match, values of the
        wrong type, out of range or not in the list, values that contradict each other.
        """
        specs = {f.name: f for f in fields(cls)}
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in specs:
                problems.append(f"unknown option {name!r}; {nearest(name, specs)}")
                continue
            try:
                values[name] = _value(name, value, type(specs[name].default), specs[name].metadata)
            except ValueError as problem:
                problems.append(str(problem))
        if not problems:
            options = cls(**values)
            problems = [sentence for is_wrong, sentence in options.rules() if is_wrong]
        if problems:
            raise SynthError("; ".join(problems))
        return options

    @property
    def start_time(self) -> datetime:
        """``start`` as a time in UTC (a time without a zone is UTC)."""
        time = datetime.fromisoformat(self.start)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        try:
            is_wrong = not 1970 < self.start_time.year < 9000
        except ValueError:
            is_wrong = True
        why = "is no ISO 8601 time such as 2025-03-23T08:00:00Z between the years 1971 and 8999"
        return [
            *unlisted("schema_kinds", self.schema_kinds, KINDS),
            (not listed(self.schema_kinds), f"schema_kinds names none of {', '.join(KINDS)}"),
            (is_wrong, f"start {self.start!r} {why}"),
            (self.update_share + self.delete_share > 1, "update_share and delete_share add up to more than 1"),
        ]


_SHARED: Final = {f.name: f for f in fields(Options)}


def same(name: str, **other: Any) -> Any:
    """An option that all formats have, with another default or limit."""
    spec = _SHARED[name]
    return option(other.pop("default", spec.default), **(dict(spec.metadata) | other))


def described(cls: type[Options]) -> dict[str, tuple[object, str]]:
    """Every option of a class: its default and what it means."""
    return {f.name: (f.default, f.metadata["meaning"]) for f in fields(cls)}


def listed(text: str) -> tuple[str, ...]:
    """The items of a text with commas."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def unlisted(name: str, text: str, allowed: tuple[str, ...]) -> Rules:
    """The rules of an option with commas whose items are each one of those ``allowed``, at most once."""
    items = listed(text)
    wrong = [(item not in allowed, f"{name}: {item!r} is not one of {', '.join(allowed)}") for item in items]
    return wrong + [(items.count(item) > 1, f"{name} names {item} twice") for item in sorted({*items})]


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at the name that is meant, or all of them."""
    choices = list(names)
    near = difflib.get_close_matches(name, choices, 1, 0.4)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(choices)}"


_SWITCHES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_KINDS: Final[dict[type, str]] = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}


def _value(name: str, value: object, wanted: type, limits: Mapping[str, Any]) -> object:
    """``value`` as ``wanted``; ValueError with a sentence when it cannot be that."""
    result: Any = value
    try:
        if wanted is bool and isinstance(value, str):
            result = _SWITCHES[value.lower()]
        elif wanted in (int, float) and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            result = wanted(value)
        if type(result) is not wanted or (not isinstance(value, str) and result != value):
            raise ValueError
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"option {name!r} is {_KINDS[wanted]}, not {value!r}") from None
    if limits["of"] and result not in limits["of"]:
        raise ValueError(f"option {name!r} cannot be {result!r}; {nearest(str(result), limits['of'])}")
    if limits["low"] is not None and not limits["low"] <= result <= limits["high"]:
        raise ValueError(f"option {name!r} is between {limits['low']:g} and {limits['high']:g}, not {result!r}")
    return result
