"""Thresholds on facts, ``NAME OPERATOR VALUE``: ``open_transactions > 0``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cdcwb.errors import OptionError
from cdcwb.filters import NUMBER
from cdcwb.formats.options import check_value, nearest
from cdcwb.report.facts import KINDS
from cdcwb.words import visible

Literal: TypeAlias = "int | float | str | bool | None"

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_THRESHOLD: Final = re.compile(
    r"(?P<fact>[A-Za-z_]\w*(?:\.[^<>=!]*[^<>=!\s])?)\s*(?P<how>[<>]=?|[=!]=)\s*"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[\w.:+@/-]+)"
)
_INTEGER: Final = re.compile(r"[+-]?\d+")
_WORDS: Final[dict[str, Literal]] = {"true": True, "false": False, "null": None}
_KIND_OF: Final = {bool: "true or false", str: "a text", type(None): "null"}
_MOST: Final = 40


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold ``fact how value``, which is exceeded if it holds. ``text`` is its source text."""

    text: str
    fact: str
    how: str
    value: Literal

    def holds(self, fact: Any) -> bool | None:
        """Whether the threshold holds for a fact; None if the fact is null and cannot be compared.

        A list has the value of its length, counts by name that of their number. Raises OptionError if the two cannot be
        compared.
        """
        fact = len(fact) if isinstance(fact, list | tuple | Mapping) else fact
        if fact is None and self.value is not None:
            return None
        if isinstance(fact, str) and not isinstance(self.value, str) and _INTEGER.fullmatch(fact):
            fact = int(fact)  # numbers that a browser would round are recorded as text
        kind, own = (_KIND_OF.get(type(value), "a number") for value in (fact, self.value))
        is_equality = self.how in ("==", "!=")
        if (own == "null" and is_equality) or (kind == own and (is_equality or kind in ("a text", "a number"))):
            return bool(_COMPARE[self.how](fact, self.value))
        raise OptionError(
            f"{self.text}: {self.fact} is {_shown(fact)}, {kind}, which is not compared so with {_shown(self.value)}"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of thresholds, in sentences: those that are exceeded (``broken``), and those whose fact is ``unknown``
    or cannot be compared so."""

    broken: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def parse_thresholds(texts: Iterable[str]) -> list[Threshold]:
    """``NAME OPERATOR VALUE``: a fact's name (``problems_by_severity.error`` for one of several counts), one of
    ``> >= < <= == !=``, and a number, a text (in quotes if it has blanks), ``true``, ``false`` or ``null``.

    Raises OptionError, which names every invalid text.
    """
    matches = {text: _THRESHOLD.fullmatch(text.strip()) for text in texts}
    wrong = [text for text, match in matches.items() if match is None]
    if wrong:
        expected = "fail-if: expected a comparison such as open_transactions > 0, found"
        raise OptionError("; ".join(f"{expected} '{visible(text)}'" for text in wrong))
    found = [match for match in matches.values() if match is not None]
    return [Threshold(match.string, match["fact"], match["how"], _literal(match["value"])) for match in found]


def check_facts(thresholds: Iterable[Threshold], facts: Mapping[str, str]) -> list[str]:
    """Sentences about thresholds that no report can satisfy or break: no report records the fact, its kind cannot be
    compared so, or it is a count by a value that does not exist (``problems_by_severity.eror``). ``facts``: names and
    kinds (:func:`cdcwb.report.facts.declared_facts`).
    """
    wrong = []
    for threshold in thresholds:
        base, point, value = threshold.fact.partition(".")
        kind = facts.get(threshold.fact)
        if kind is None and point and facts.get(base) in ("counts", "values"):
            kind = "number" if facts[base] == "counts" else "any"
            try:
                check_value(base.rpartition("_by_")[2], value, threshold.text)
            except OptionError as reason:
                wrong.append(str(reason))
                continue
        if kind is None:
            names = ", ".join(list(facts)[:_MOST]) + (" …" if len(facts) > _MOST else "") or "none"
            hint = f"{nearest(threshold.fact, facts)} There are: {names}."
            wrong.append(f"{threshold.text}: there is no fact '{visible(threshold.fact)}'.{hint}")
        elif kind != "any":
            try:
                threshold.holds({"text": "", "truth": False}.get(kind, 0))
            except OptionError:
                value = _shown(threshold.value)
                wrong.append(
                    f"{threshold.text}: {threshold.fact} is {KINDS[kind]}, which is not compared so with {value}"
                )
    return wrong


def judge(thresholds: Iterable[Threshold], reports: Mapping[str, Mapping[str, Any]]) -> Judgement:
    """Applies thresholds, which :func:`check_facts` has checked, to the facts of reports (by the name of their
    notebook). A threshold is exceeded if it holds for any report."""
    judgement = Judgement()
    for threshold in thresholds:
        facts = {name: _fact(threshold.fact, of_report) for name, of_report in reports.items()}
        known = {name: fact[0] for name, fact in facts.items() if fact is not None}
        try:
            results = {name: threshold.holds(value) for name, value in known.items()}
        except OptionError as error:
            judgement.unknown.append(str(error))
            continue
        broken = [name for name, holds in results.items() if holds]
        if broken:
            judgement.broken.append(f"{threshold.text}: it is {_shown(known[broken[0]])} ({', '.join(broken)})")
        elif all(holds is None for holds in results.values()):
            judgement.unknown.append(f"{threshold.text}: {threshold.fact} is not known")
    return judgement


def _fact(name: str, facts: Mapping[str, Any]) -> tuple[Any] | None:
    """The value of a fact, alone in a tuple; None if there is none. Of counts by name, one that is not there is
    0."""
    if name in facts:
        return (facts[name],)
    base, point, key = name.partition(".")
    group = facts.get(base)
    if point and isinstance(group, Mapping):
        numbers = all(isinstance(value, int) for value in group.values())
        return (group[key],) if key in group else (0,) if numbers else None
    return None


def _literal(text: str) -> Literal:
    if text[0] in "'\"":
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if re.fullmatch(NUMBER, text) else text


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple | Mapping):
        return f"{len(value)} in number"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"'{visible(value)}'" if isinstance(value, str) else str(value)
