"""Options that somebody may choose: what each means, its default, and how a wrong one is reported."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Self

from cdcwb_synth.model import SynthError

__all__ = ["COMPRESSIONS", "Choices", "described", "moment", "option", "start_problems"]

COMPRESSIONS: Final = ("none", "gzip", "zstd")


def option(
    default: Any, meaning: str, low: float | None = None, high: float | None = None, of: tuple[str, ...] = ()
) -> Any:
    """A field of a class of :class:`Choices`: its default, what it means, and which values it may have."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "of": of})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Options as the fields of a frozen dataclass, every one made by :func:`option`."""

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Options from keywords; texts are taken as a command line gives them ("8", "0.3", "true").

        Raises SynthError with every problem in one message: unknown names with their nearest match, values of the
        wrong type, out of range or not in the list.
        """
        known = {f.name: f for f in fields(cls)}
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.4)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
                problems.append(f"unknown option {name!r}; {hint}")
                continue
            spec = known[name]
            try:
                values[name] = _value(name, value, type(spec.default), spec.metadata)
            except ValueError as problem:
                problems.append(str(problem))
        if not problems:
            options = cls(**values)
            problems = options.contradictions()
        if problems:
            raise SynthError("; ".join(problems))
        return options

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        return []


def described(cls: type[Choices]) -> dict[str, tuple[object, str]]:
    """Every option of a class: its default and what it means."""
    return {f.name: (f.default, f.metadata["meaning"]) for f in fields(cls)}


def moment(text: str) -> datetime:
    """An ISO 8601 time in UTC (a time without a zone is UTC). Raises ValueError."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def start_problems(start: str) -> list[str]:
    """What is wrong with the time at which a story begins."""
    try:
        if not 1970 < moment(start).year < 9000:
            return [f"start {start!r} is not between the years 1971 and 8999"]
    except ValueError:
        return [f"start {start!r} is no ISO 8601 time such as 2025-03-23T08:00:00Z"]
    return []


def _value(name: str, value: object, wanted: type, limits: Mapping[str, Any]) -> object:
    """``value`` as ``wanted``; ValueError with a sentence when it cannot be that."""
    result: Any = value
    if wanted is bool:
        if isinstance(value, str) and value.lower() in ("true", "yes", "1", "false", "no", "0"):
            result = value.lower() in ("true", "yes", "1")
        elif not isinstance(value, bool):
            raise ValueError(f"option {name!r} is true or false, not {value!r}")
    elif wanted is str:
        if not isinstance(value, str):
            raise ValueError(f"option {name!r} is a text, not {value!r}")
    else:
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError
            result = wanted(value)
            if not isinstance(value, str) and result != value:
                raise ValueError
        except (ValueError, OverflowError):
            kind = "a whole number" if wanted is int else "a number"
            raise ValueError(f"option {name!r} is {kind}, not {value!r}") from None
    if limits["of"] and result not in limits["of"]:
        near = difflib.get_close_matches(result, limits["of"], 1, 0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(limits['of'])}"
        raise ValueError(f"option {name!r} cannot be {result!r}; {hint}")
    if limits["low"] is not None and not limits["low"] <= result <= limits["high"]:
        raise ValueError(f"option {name!r} is between {limits['low']:g} and {limits['high']:g}, not {result!r}")
    return result
