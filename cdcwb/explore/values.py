"""Values of rows in filters: the kind of a column, and whether a comparison holds for texts of images."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.explore.filters import IMAGES, MISSING, NUMBER, Comparison
from cdcwb.formats.text_values import parsed
from cdcwb.index.columns import NO_TIME, Bools, Times, mask_of_texts
from cdcwb.model import Problem
from cdcwb.time_axis import micros

__all__ = ["has", "holds", "kind_of_type", "times", "value_kinds"]

_NUMBERS: Final = re.compile(
    r"(\d+ )?(unsigned |tandem |big )?"
    r"(u?(tiny|small|medium|big)?int(eger)?\d*|(small|big)?serial8?|long|(small)?float\d*|real\d*|double( precision)?"
    r"|(dec(imal)?|numeric|number|money|packed)(\d*\(.*\))?)( .*)?"
    r"|org\.apache\.kafka\.connect\.data\.Decimal|io\.debezium\.data\.VariableScaleDecimal",
    re.IGNORECASE,
)
_TIMES: Final = re.compile(
    r"(\d+ )?(date(32|64)?(\[.*\])?|(local-)?timestamp(-\w+|\[.*\])?"
    r"|datetime( year to (day|hour|minute|second|fraction).*)?)"
    r"|(org\.apache\.kafka\.connect\.data|io\.debezium\.time)\.(date|(micro|nano|zoned)?timestamp)",
    re.IGNORECASE,
)
_UNSURE: Final = re.compile(r"\d+ (DOUBLE )?(VAR)?CHAR.*")
"""Types that GoldenGate calls text but that may be numbers or times of the source in text form."""

_TIME: Final = r"^\d{4}-\d{2}-\d{2}([T :]\d{2}(:\d{2}(:\d{2}([.]\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
_DATE: Final = 10  # characters
_HOUR: Final = 13
_OF_VALUES: Final = frozenset({Problem.VALUE, Problem.CHARSET, Problem.TIME_RANGE})

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Ints = npt.NDArray[np.int64]


def kind_of_type(name: str | None) -> str:
    """The kind of values of a column, from its type in the source's notation: text, number, time, or any if unknown."""
    if not name or _UNSURE.fullmatch(name):
        return "any"
    return "number" if _NUMBERS.fullmatch(name) else "time" if _TIMES.fullmatch(name) else "text"


def value_kinds(versions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The kinds of the columns of all tables by their names in filters, ``after.NAME``; any if tables differ."""
    kinds: dict[str, str] = {}
    for version in versions:
        for column in version["columns"] or ():
            kind = kind_of_type(column["type"])
            if kinds.setdefault(column["name"], kind) != kind:
                kinds[column["name"]] = "any"
    return {f"{image}.{name}": kind for image in IMAGES for name, kind in sorted(kinds.items())}


def holds(comparison: Comparison, batch: pa.RecordBatch) -> Bools:
    """Whether a comparison holds for the event's own image, for every event of a batch (key, before, after and
    problems); a value with a problem never matches. Raises ValueError for an invalid pattern."""
    image, _, name = comparison.column.partition(".")
    has_image = pc.is_valid(batch[image]).to_numpy(zero_copy_only=False)
    rows, texts = _entries(batch[image], name)
    matches = np.zeros(len(batch), np.bool_)
    if comparison.value is MISSING:
        matches[rows] = True
        matches = ~matches if comparison.sign == "==" else matches
    else:
        matches[rows] = _compared(texts, comparison.sign, comparison.value)
    matches &= has_image
    if matches.any():
        matches[_with_problem(batch["problems"], name, np.flatnonzero(matches))] = False
    return matches


def has(column: str, batch: pa.RecordBatch) -> Bools:
    """Whether the event's own image has a column (``after.NAME``), for every event of a batch."""
    image, _, name = column.partition(".")
    mask = np.zeros(len(batch), np.bool_)
    mask[_entries(batch[image], name)[0]] = True
    return mask


def _entries(maps: pa.MapArray, name: str) -> tuple[Ints, pa.Array]:
    """The rows that have a column in a map, and its values."""
    offsets = maps.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    equal = pc.equal(maps.keys.slice(first, count), name).fill_null(False)
    at = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    rows = np.searchsorted(offsets - first, at, side="right") - 1
    return rows, maps.items.slice(first, count).take(pa.array(at))


def _with_problem(problems: pa.Array, name: str, rows: Ints) -> list[int]:
    """The rows whose problems name a column: ``column 3 NAME: …``, ``NAME: …``."""
    with_problems = rows[pc.is_valid(problems).to_numpy(zero_copy_only=False)[rows]]
    named = re.compile(rf"([^:]*[ .])?{re.escape(name)}: ")
    return [
        int(row)
        for row in with_problems
        if any(p["code"] in _OF_VALUES and named.match(p["detail"] or "") for p in problems[int(row)].as_py())
    ]


def _compared(texts: pa.Array, sign: str, value: Any) -> Bools:
    """Whether a comparison holds, for each value; null equals only null."""
    if sign == "!=":
        equal = _compared(texts, "==", value)
        return ~equal if value is None or isinstance(value, str) else ~equal & _comparable(texts, value)
    if isinstance(value, Decimal):
        return _with_number(texts, sign, value)
    if isinstance(value, dt.datetime):
        return Times(times(texts)).compare(sign, micros(value))
    return mask_of_texts(texts, sign, value)


def _comparable(texts: pa.Array, value: Any) -> Bools:
    """Whether each value is NULL or of the kind of the operand."""
    valid = _numbers(texts)[1] if isinstance(value, Decimal) else times(texts) != NO_TIME
    return np.asarray(valid | texts.is_null().to_numpy(zero_copy_only=False))


def _numbers(texts: pa.Array) -> tuple[npt.NDArray[np.float64], Bools]:
    """Texts as floating-point numbers, and whether each is a number."""
    trimmed = pc.utf8_trim_whitespace(texts)
    valid = pc.fill_null(pc.match_substring_regex(trimmed, f"^{NUMBER}$"), False)
    plain = pc.if_else(valid, pc.replace_substring_regex(trimmed, r"^[+]", ""), pa.scalar("0", texts.type))
    try:
        numbers = pc.cast(plain, pa.float64()).to_numpy()
    except pa.ArrowInvalid:  # a number beyond the range of floating-point numbers
        numbers = np.array([float(text) for text in plain.to_pylist()])
    return numbers, valid.to_numpy(zero_copy_only=False)


def _with_number(texts: pa.Array, sign: str, value: Decimal) -> Bools:
    """Compares numbers of any size: as floating-point numbers first, exactly if these are equal."""
    numbers, valid = _numbers(texts)
    bound, compare = float(value), _ORDER[sign]
    matches = np.asarray(compare(numbers, bound))
    for at in np.flatnonzero(valid & (numbers == bound)):
        matches[at] = compare(Decimal(texts[int(at)].as_py().strip()), value)
    return matches & valid


def times(texts: pa.Array) -> Ints:
    """Texts as microseconds since 1970 UTC, those without a zone as UTC; NO_TIME for other texts."""
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.string()))
    valid = pc.fill_null(pc.match_substring_regex(trimmed, _TIME), False)
    plain = pc.if_else(valid, trimmed, pa.scalar(None, pa.string()))
    plain = pc.replace_substring_regex(plain, r"^(.{10})[T:]", r"\1 ")
    zoned = pc.fill_null(pc.match_substring_regex(plain, r"^.{11}.*[+-]"), False).to_numpy(zero_copy_only=False)
    length = pc.utf8_length(plain)
    full = pc.if_else(pc.equal(length, _DATE), pc.binary_join_element_wise(plain, "00:00", " "), plain)
    full = pc.if_else(pc.equal(length, _HOUR), pc.binary_join_element_wise(plain, "00", ":"), full)
    without_zone = pc.fill_null(parsed(full, pa.timestamp("us")).cast(pa.int64()), NO_TIME)
    result: Ints = without_zone.to_numpy(zero_copy_only=False).copy()
    for at in np.flatnonzero(zoned):
        with suppress(ValueError):
            result[at] = micros(dt.datetime.fromisoformat(plain[int(at)].as_py()))
    return result
