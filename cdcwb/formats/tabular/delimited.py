"""How a delimited file is written, by its first records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cdcwb.errors import OptionError
from cdcwb.formats.tabular.dialect import DEFAULT, Dialect
from cdcwb.formats.tabular.framing import Bytes, first_record
from cdcwb.formats.tabular.rows import unescape
from cdcwb.words import plural

__all__ = ["cell", "field_text", "find_dialect", "line_end"]

_DELIMITERS: Final = {b",": "comma", b"\t": "tab", b";": "semicolon", b"|": "bar"}
_RECORDS: Final = 50  # that tell the delimiter and the number of columns
_STRETCH: Final = 1 << 16


def find_dialect(tokens: Mapping[str, bytes], body: Bytes, whole: bool) -> tuple[Dialect, str, list[int]]:
    """The dialect of which ``tokens`` are given, with the delimiter that parts the records best; why that one; and the
    numbers of fields in the first records. ``whole``: the file ends with ``body``.

    Raises OptionError where the tokens do not go together.
    """
    try:
        given: dict[str, Any] = {"delimiter": b"\0", **tokens}
        base = replace(DEFAULT, **given)
        if "delimiter" in tokens:
            return base, "given as an option", _widths(body, base, whole)
    except ValueError as reason:
        raise OptionError(f"options {', '.join(tokens)}: {reason}") from None
    tried: list[tuple[float, Dialect, str, list[int]]] = []
    for token, word in _DELIMITERS.items():
        try:
            dialect = replace(base, delimiter=token)
        except ValueError:
            continue
        widths = _widths(body, dialect, whole)
        usual, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        score = (usual - 1) * count / len(widths) if widths else 0.0
        evidence = f"a {word} splits {count} of the first {plural(len(widths), 'record')} into {usual} fields"
        tried.append((score, dialect, evidence, widths))
    if not tried:
        raise OptionError(f"options {', '.join(tokens)}: no delimiter remains; give one")
    score, dialect, evidence, widths = max(tried, key=lambda one: one[0])
    if score <= 0:
        return tried[0][1], "no record delimiter was found; assumed", tried[0][3]
    return dialect, evidence, widths


def _widths(body: Bytes, dialect: Dialect, whole: bool) -> list[int]:
    """The numbers of fields of the first records; of one that is damaged, its line is left out."""
    dialect, _ = line_end(body, dialect)
    widths: list[int] = []
    place = 0
    stretch = len(body)
    while place < stretch and len(widths) < _RECORDS:
        some = body[place : place + _STRETCH]
        found = first_record(some, dialect, whole and place + _STRETCH >= stretch)
        if found is None:
            newline = np.flatnonzero(some == dialect.record[-1])
            if not len(newline):
                break
            place += int(newline[0]) + 1
            continue
        edges, end = found
        if len(edges) > 1 or edges[0][0] < edges[0][1]:
            widths.append(len(edges))
        place += max(end, 1)
    return widths


def line_end(head: Bytes, dialect: Dialect) -> tuple[Dialect, str | None]:
    """The dialect with the line ends that the file has: a carriage return may stand before each newline. Where they are
    not those that the dialect says, a sentence about it besides."""
    if dialect.record not in (b"\n", b"\r\n"):
        return dialect, None
    newlines = np.flatnonzero(head == 10)
    returns = newlines[newlines > 0]
    returned = len(returns) > 0 and bool(head[returns[0] - 1] == 13)
    if dialect.record == b"\r\n" and len(newlines) and not returned:
        return replace(dialect, record=b"\n", crlf=True), r"expected lines that end in \r\n, found \n"
    return replace(dialect, crlf=dialect.record == b"\n" and returned), None


def cell(raw: bytes, dialect: Dialect, charset: str) -> str | None:
    """The text of a field as it stands in the file, quotes included; None for NULL."""
    return None if raw == dialect.null else field_text(raw, dialect, charset)


def field_text(raw: bytes, dialect: Dialect, charset: str) -> str:
    """The text of a field as it stands in the file, quotes included."""
    if dialect.quote and len(raw) >= 2 and raw[:1] == dialect.quote:
        raw = raw[1:-1]
        if dialect.escape:
            raw = unescape(raw, dialect.quote, dialect.escape)
        else:
            raw = raw.replace(dialect.quote * 2, dialect.quote)
    return raw.decode(charset, "backslashreplace")
