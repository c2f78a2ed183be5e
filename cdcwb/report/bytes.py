"""One record, its bytes and its fields side by side: a number and a colour join each run of bytes to the field it is.

The page needs no script for it: whoever points at a field sees its bytes, and the other way round, by style alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.words import count, plural, visible

__all__ = ["MOST_BYTES", "MOST_FIELDS", "Part", "parts", "record_html", "show_record"]

MOST_BYTES: Final = 4_000
"""Bytes of a record that are shown."""
MOST_FIELDS: Final = 60
"""Fields of a record that get a number; as many have a rule in ``show.css``."""

_COLOURS: Final = 6
_BRACKETS: Final = frozenset({"opening", "closing", "between", "behind", "=", "layout", "rule", "token line"})
_VALUE: Final = 90
_MEANING: Final = 160


@dataclass(frozen=True, slots=True)
class Part:
    """A run of bytes of a record. ``number`` from 1 is that of its ``field``; None: bytes that are no field of their
    own (brackets, white space, what was left out)."""

    offset: int
    raw: bytes
    number: int | None
    field: Field


def parts(root: Field, skip: Collection[str] = ()) -> list[Part]:
    """The bytes of a record in order, each once: numbered are fields that have bytes and no fields below them.

    ``skip``: names of fields that get no number, and neither does what is below them.
    """
    found: list[Part] = []
    at = number = 0
    for field, skipped in _leaves(root, frozenset(skip), False):
        if field.offset > at:  # what no field holds
            found.append(Part(at, root.raw[at : field.offset], None, root))
        plain = skipped or field.quiet or field.name in _BRACKETS or number >= MOST_FIELDS
        number += not plain
        found.append(Part(field.offset, field.raw, None if plain else number, field))
        at = field.offset + field.length
    if at < root.length:
        found.append(Part(at, root.raw[at:], None, root))
    return found


def _leaves(field: Field, skip: frozenset[str], skipped: bool) -> Iterator[tuple[Field, bool]]:
    skipped = skipped or field.name in skip
    if field.children:
        for child in field.children:
            yield from _leaves(child, skip, skipped)
    elif field.length:
        yield field, skipped


def record_html(root: Field, *, as_text: bool = False, skip: Collection[str] = ()) -> str:
    """The HTML of a record: its bytes in hex, or with ``as_text`` as UTF-8 text, and a table of its numbered fields.

    Everything is escaped. Of a long record the first :data:`MOST_BYTES` are shown, and how many more there are is said.
    """
    runs = parts(root, skip)
    shown = [part for part in runs if part.offset < MOST_BYTES]
    numbered = [part for part in shown if part.number is not None]
    if as_text:
        data = f'<pre class="text">{"".join(map(_text, shown))}</pre>'
    else:
        data = f'<div class="hex">{"".join(_groups(root, shown))}</div>'
    left = root.length - sum(len(part.raw) for part in shown)
    pale = sum(part.number is None for part in shown)
    said = [f"{plural(root.length, 'byte')}, {plural(len(numbered), 'field')} with a number"]
    said += [f"{plural(pale, 'run')} without one: brackets, white space, repeated text"] if pale else []
    said += [f"the last {plural(left, 'byte')} are not shown"] if left > 0 else []
    return (
        f'<div class="cdcwb-bytes">{data}<p class="cdcwb-note">{escape("; ".join(said))}.</p>'
        f"{_table(root, numbered)}</div>"
    )


def show_record(root: Field, *, as_text: bool = False, skip: Collection[str] = ()) -> None:
    """Put :func:`record_html` on the page."""
    from IPython.display import display

    html = record_html(root, as_text=as_text, skip=skip)
    display({"text/html": html, "text/plain": f"{root.name}: {plural(root.length, 'byte')}"}, raw=True)


def _class(number: int) -> str:
    return f"f n{number} c{number % _COLOURS}"


def _title(part: Part) -> str:
    last = part.offset + len(part.raw) - 1
    where = f"bytes {part.offset} to {last}" if last > part.offset else f"byte {part.offset}"
    return escape(f"{visible(part.field.name, 80)}: {where}", quote=True)


def _text(part: Part) -> str:
    """A run as text, line ends kept."""
    lines = part.raw.decode("utf-8", "backslashreplace").split("\n")
    text = "\n".join(escape(visible(line, MOST_BYTES)) if line else "" for line in lines)
    if part.number is None:
        return f'<span class="plain">{text}</span>'
    return f'<span class="{_class(part.number)}" title="{_title(part)}"><b>{part.number}</b>{text}</span>'


def _groups(root: Field, shown: Sequence[Part]) -> Iterator[str]:
    """The runs in hex, those of each group of the record in a line of their own."""
    for group in root.children or (root,):
        inside = [part for part in shown if group.offset <= part.offset < group.offset + max(1, group.length)]
        if not inside:
            continue
        runs = "".join(_hex(part) for part in inside)
        size = plural(sum(len(part.raw) for part in inside), "byte")
        yield f"<div><h4>{escape(visible(group.name, 60))}<small>{size}</small></h4><p>{runs}</p></div>"


def _hex(part: Part) -> str:
    text = part.raw.hex(" ")
    if part.number is None:
        return f'<span class="plain">{text}</span>'
    return f'<span class="{_class(part.number)}" title="{_title(part)}"><b>{part.number}</b>{text}</span>'


def _table(root: Field, numbered: Sequence[Part]) -> str:
    """The numbered fields in order under the groups that they are in."""
    by_field = {id(part.field): part for part in numbered}
    rows = "".join(_rows(root, by_field, 0))
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "bytes", "field", "value", "what it is"))
    table = f'<table class="cdcwb"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="cdcwb-scroll">{table}</div>'


def _rows(field: Field, by_field: dict[int, Part], depth: int) -> Iterator[str]:
    part = by_field.get(id(field))
    if part is not None:
        number = part.number or 0
        where = f"{count(part.offset)}" + (f"–{count(part.offset + len(part.raw) - 1)}" if len(part.raw) > 1 else "")
        value = '<span class="null">NULL</span>' if field.value is None else escape(visible(field.value, _VALUE))
        yield (
            f'<tr class="{_class(number)}"><td class="badge"><b>{number}</b></td><td class="number">{where}</td>'
            f'<td class="name" style="--depth:{depth}">{escape(visible(field.name, 60))}</td>'
            f'<td class="value">{value}</td><td class="meaning">{escape(visible(field.meaning, _MEANING))}</td></tr>'
        )
        return
    inner = [row for child in field.children for row in _rows(child, by_field, depth + 1)]
    if inner and depth:
        name = escape(visible(field.name, 60))
        value = "" if field.value is None else f" = {escape(visible(field.value, _VALUE))}"
        meaning = escape(visible(field.meaning, _MEANING))
        yield (
            f'<tr class="group"><td></td><td></td><td class="name" style="--depth:{depth}" colspan="2">{name}{value}'
            f'</td><td class="meaning">{meaning}</td></tr>'
        )
    yield from inner
