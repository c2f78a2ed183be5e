"""Text of numbers, sizes, times and captured values, the same on pages, in charts and in sentences."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import Final, Self

_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")
# C0 and C1 controls, DEL, separators that end a line, and the marks that reorder the text around them.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


class Described(StrEnum):
    """Values with their meaning in words."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        """A value with its meaning."""
        described = str.__new__(cls, value)
        described._value_, described.meaning = value, meaning
        return described


def count(number: int) -> str:
    """``183220`` as ``183,220``."""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 transaction``, ``2,000 transactions``, ``no transactions``; ``many`` where adding an s is not enough."""
    if number == 1:
        return f"1 {one}"
    return f"{count(number) if number else 'no'} {many or one + 's'}"


def joined(parts: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def size(number: int) -> str:
    """Bytes in words: exact below 1,000, then three digits in powers of 1,000 (``12.4 MB``)."""
    if number < 1000:
        return plural(number, "byte") if number else "0 bytes"
    value = float(number)
    for unit in _UNITS:
        value /= 1000
        if value < 999.5 or unit == _UNITS[-1]:
            break
    return f"{value:.3g} {unit}" if value < 100 else f"{value:,.0f} {unit}"


def duration(microseconds: int) -> str:
    """A span of time in full: ``0 s``, ``0.000250 s``, ``1 h 2 min 3.5 s``, ``-4 s``, ``3 d 0 h 0 min 0 s``."""
    sign = "-" if microseconds < 0 else ""
    seconds, micros = divmod(abs(microseconds), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    fraction = f".{micros:06d}" if micros else ""
    if micros and seconds:
        fraction = fraction.rstrip("0")
    parts = [(days, "d"), (hour, "h"), (minute, "min")]
    while parts and not parts[0][0]:
        parts.pop(0)
    return sign + " ".join([*(f"{value:,} {unit}" for value, unit in parts), f"{second}{fraction} s"])


@dataclass(frozen=True, slots=True)
class Display:
    """How a page shows its content: the zone of its times, that of its axes, and its theme (auto, light or dark)."""

    zone: tzinfo = UTC
    name: str = "UTC"
    axis: tzinfo = UTC
    axis_name: str = "UTC"
    theme: str = "auto"


_opened_last: Final = [Display()]
_of_page: Final[ContextVar[Display | None]] = ContextVar("display", default=None)


def page_display() -> Display:
    """How the present page shows its content; outside of all pages, how the page that was opened last does."""
    return _of_page.get() or _opened_last[0]


@contextmanager
def shown_as(page: Display) -> Iterator[None]:
    """Inside of this context, content is shown as on that page."""
    token = _of_page.set(page)
    try:
        yield
    finally:
        _of_page.reset(token)


def show_times_in(
    zone: tzinfo = UTC,
    name: str = "UTC",
    first: datetime | None = None,
    last: datetime | None = None,
    theme: str | None = None,
) -> None:
    """Sets the time zone in which the page that is opened shows times, and its ``theme`` (None: unchanged); ``name`` is
    the zone's name.

    An axis has one offset: if the zone's offsets at ``first`` and ``last`` (aware) differ, axes keep that of ``first``,
    and their title states it.
    """
    axis, axis_name = zone, name
    offset = (first or datetime.now(UTC)).astimezone(zone).utcoffset() or timedelta()
    if first is not None and last is not None and offset != last.astimezone(zone).utcoffset():
        axis = timezone(offset)
        axis_name = f"UTC{_offset(first.astimezone(zone))}, the offset of {name} at the beginning"
    _opened_last[0] = Display(zone, name, axis, axis_name, _opened_last[0].theme if theme is None else theme)


def moment(time: datetime | None, missing: str = "not known") -> str:
    """A time as ``2025-03-23 10:57:19 UTC``, or ``2025-03-23 11:57:19 +01:00`` where times are shown in another zone
    (:func:`show_times_in`), with its six digits of a second where they are not zero. One without a zone is UTC."""
    if time is None:
        return missing
    wall, zone = clock(time)
    return f"{wall} {zone}"


def to_the_second(time: datetime | None, missing: str = "not known") -> str:
    """A time in a sentence: :func:`moment` without the fraction of its second."""
    return missing if time is None else moment(time.replace(microsecond=0))


def rounded(microseconds: int) -> str:
    """A span of time in a sentence: :func:`duration` to a tenth of a second from 10 s on, to a millisecond from 10 ms
    on."""
    size = abs(microseconds)
    digits = 5 if size >= 10_000_000 else 3 if size >= 10_000 else 0
    return re.sub(r"(\.\d+?)0+ s$", r"\1 s", duration(round(microseconds, -digits)))


def clock(time: datetime) -> tuple[str, str]:
    """The two parts of :func:`moment`: what a clock shows, and its zone, ``UTC`` or an offset such as ``+01:00``."""
    shown = _in(page_display().zone, time)
    return shown.replace(tzinfo=None, fold=0).isoformat(sep=" "), "UTC" if shown.tzinfo is UTC else _offset(shown)


def local(time: datetime) -> datetime:
    """A time in the zone of the axes, without it, as plotly takes times."""
    return _in(page_display().axis, time).replace(tzinfo=None, fold=0)


def time_on_axis(text: str) -> datetime:
    """The time that an axis shows as ``text`` (ISO 8601); the inverse of :func:`local`."""
    return datetime.fromisoformat(text).replace(tzinfo=page_display().axis).astimezone(UTC)


def zone_name(axis: bool = True) -> str:
    """The zone in which times are shown, for headings and (``axis``) for the titles of axes: ``UTC``,
    ``Europe/Berlin``."""
    return page_display().axis_name if axis else page_display().name


def _in(zone: tzinfo, time: datetime) -> datetime:
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    try:
        return aware.astimezone(zone)
    except OverflowError:  # on the first or the last day of all
        return aware.astimezone(UTC)


def _offset(time: datetime) -> str:
    """``+01:00``."""
    return time.isoformat()[-6:]


def tally(numbers: Mapping[str, int] | Sequence[tuple[str, int]] | None) -> str:
    """Counts by name as ``INSERT 3, UPDATE 1``; largest first, then by name; ``none`` if there are none."""
    pairs = list(numbers.items()) if isinstance(numbers, Mapping) else list(numbers or [])
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count(number)}" for name, number in pairs) or "none"


def visible(text: object, limit: int = 120) -> str:
    r"""Captured text on one line: characters that do not show or that reorder their neighbours become escapes
    (``\x1b``, ``\u202e``), and what is longer than ``limit`` characters ends in ``…``.

    This makes text readable, not safe: whoever writes HTML, SQL or a path escapes it there.
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    plain = str(text)
    shown = _UNSEEN.sub(escape, plain[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


# --- names that repeat ------------------------------------------------------------------------------------------------


def is_text(text: str) -> bool:
    """Whether it can be written in UTF-8; of an argument or the name of a file, any byte is possible."""
    return text.encode(errors="ignore").decode() == text


def unique_names(names: Iterable[str], taken: Iterable[str] = (), separator: str = "#") -> tuple[str, ...]:
    """The names in their order, each different from the others and from those in ``taken``.

    The first of several equal names is unchanged; the others get the separator and the least number from 2 on that
    makes a name which is neither in ``names`` nor in ``taken``. So a name that occurs once never changes because
    another one repeats. Names are case-sensitive and may be empty.
    """
    wanted = list(names)
    used = set(taken)
    avoided = used.union(wanted)
    numbers: dict[str, int] = {}
    out = []
    for name in wanted:
        if name in used:
            unique, numbers[name] = _numbered(name, avoided, separator, numbers.get(name, 2))
            avoided.add(unique)
        else:
            unique = name
        used.add(unique)
        out.append(unique)
    return tuple(out)


def unused_name(name: str, taken: Container[str], separator: str = "#") -> str:
    """The name, with the separator and the least number from 2 on if it is in ``taken``."""
    return _numbered(name, taken, separator, 2)[0] if name in taken else name


def _numbered(name: str, taken: Container[str], separator: str, number: int) -> tuple[str, int]:
    """The name with the first number from ``number`` on that is not taken, and the number that follows it."""
    while (numbered := f"{name}{separator}{number}") in taken:
        number += 1
    return numbered, number + 1
