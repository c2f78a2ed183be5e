"""Fields of a record in filters: a header (``transaction``), or a value of its row (``after.state``)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.explore.records import Record
from cdcwb.explore.views import Change
from cdcwb.filters import IMAGES, Comparison, Filter, FilterError, column_name, parse, quoted, value_name
from cdcwb.formats.dissector import Field
from cdcwb.formats.options import nearest
from cdcwb.index.columns import Codes, Column
from cdcwb.words import visible

FEW: Final = 200
"""Maximum number of values of a column that are listed."""

_COMPLETED: Final = 12
_NEAR: Final = 5_000  # texts among which a similar one is searched
_COLUMN: Final = r"""(?i:before|after|key)\.(?:[\w$#]+|"(?:[^"\\]|\\.)*")|(?<![\w.])[^\W\d]\w*"""
_VALUE: Final = re.compile(
    rf"""({_COLUMN})\s*(?:==|!=|<=|>=|<|>|\bcontains\b|\bmatches\b|\bin\s*\((?:[^()]*,)?)\s*(?:(?P<quote>["'])(?P<typed>[^"']*)|(?P<bare>[^\s"'()]*))$""",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"""(?:(before|after|key)\.("?[\w$#]*)|[^\W\d]\w*)$""", re.IGNORECASE)
_SIGNS: Final = {
    "text": ("==", "!=", "in", "contains", "matches"),
    "number": ("==", "!=", "<", "<=", ">", ">=", "in"),
    "time": ("<", "<=", ">", ">=", "=="),
    "any": ("==", "!=", "<", "<=", ">", ">=", "in", "contains", "matches"),
}


def clause(column: str, value: Any, other: bool = False) -> str:
    """The comparison for a value of a column, or with ``other`` for all other values."""
    if isinstance(value, dt.datetime):
        value = quoted(value.isoformat())
    elif value is None:
        value = "null"
    else:
        value = quoted(value) if isinstance(value, str) else str(value)
    return f"{column} {'!=' if other else '=='} {value}"


def _clauses(line: str) -> tuple[tuple[str, Any], ...]:
    understood = parse(line, None)
    return () if understood is None else understood.clauses


def _requires(node: Any, column: str) -> bool:
    return isinstance(node, Comparison) and (node.column, node.sign) == (column, "==")


def with_clause(line: str, column: str, added: str | None, *, instead: bool = False) -> str:
    """A filter with an additional clause; ``instead``: equalities of the same column are removed. Raises FilterError
    for an invalid filter."""
    clauses = [text for text, node in _clauses(line) if not (instead and _requires(node, column)) and text != added]
    return " and ".join([*clauses, *([added] if added else [])])


def chosen_in(line: str, columns: Iterable[str]) -> dict[str, str | None]:
    """The value that a filter requires for each of some columns, None for no value or several."""
    try:
        nodes = [node for _, node in _clauses(line)]
    except FilterError:
        nodes = []
    operands = {name: [node.value for node in nodes if _requires(node, name)] for name in columns}
    return {
        name: values[0] if len(values) == 1 and isinstance(values[0], str) else None
        for name, values in operands.items()
    }


def values_of(column: Column) -> list[str]:
    """The values of a column with few distinct texts, most frequent first; empty for other columns."""
    if not isinstance(column, Codes) or len(column.texts) > FEW:
        return []
    numbers = np.bincount(column.codes[column.codes >= 0], minlength=len(column.texts))
    return [column.texts[int(code)].as_py() for code in np.argsort(-numbers, kind="stable") if numbers[code]]


def completions(
    before: str, columns: Mapping[str, Column], kinds: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Completions of the beginning of a filter: ``text``, and ``from``, the index of the first character that it
    replaces. ``kinds``: those of values (``after.NAME``), and of the columns."""
    kinds = kinds or {name: column.kind for name, column in columns.items()}
    match = _VALUE.search(before)
    name = column_name(match[1]) if match else ""
    if match and name in kinds:
        begin = match.start("quote" if match["quote"] else "bare")
        typed = match["typed"] or match["bare"] or ""
        known = _beginning(typed, columns[name]) if name in columns else []
        return [{"text": quoted(value), "from": begin} for value in known]
    word = _NAME.search(before)
    typed, begin = (word[0].lower(), word.start()) if word else ("", len(before))
    if word and word[1]:
        image, typed = word[1].lower(), word[2].removeprefix('"').lower()
        names = [name.partition(".")[2] for name in kinds if name.startswith(f"{image}.")]
        return [
            {"text": value_name(image, name, kinds), "from": begin} for name in names if name.lower().startswith(typed)
        ]
    last = re.search(rf"""({_COLUMN}|\)|["'\d])\s+$""", before[:begin])
    if last is None or last[1].lower() in ("and", "or", "not"):
        images = [f"{image}." for image in IMAGES if any("." in one for one in kinds)]
        words: tuple[str, ...] = (*columns, *images, "not")
    elif column_name(last[1]) in kinds:
        words = _SIGNS[kinds[column_name(last[1])]]
    else:
        words = ("and", "or")
    return [{"text": name, "from": begin} for name in words if name.startswith(typed) and name != typed]


def _beginning(typed: str, column: Column) -> list[str]:
    """The values that begin with a text, then those that contain it."""
    if not isinstance(column, Codes):
        return []
    small = typed.lower()
    values = [value for value in column.texts[: _NEAR * 20].to_pylist() if small in value.lower()]
    values.sort(key=lambda value: (not value.lower().startswith(small), value.lower()))
    return values[:_COMPLETED]


def hint(understood: Filter | None, columns: Mapping[str, Column]) -> str:
    """A hint for a filter without matches: a value that does not occur, and the most similar one that does."""
    for name, value in [] if understood is None else understood.equals:
        column = columns[name]
        if isinstance(column, Codes) and not column.has(value):
            texts: pa.Array = column.texts[:_NEAR]
            return f"No {name} is '{visible(value, 80)}'.{nearest(value, [visible(t) for t in texts.to_pylist()])}"
    return ""


# --- terms ------------------------------------------------------------------------------------------------------------

Term = tuple[str, str]
"""The clause for a value, and the clause for all other values."""

_HEADERS: Final = {
    "logcsn": "csn",
    "tranid": "transaction",
    **dict.fromkeys(("sequence_number", "change_sequence"), "position"),
    **dict.fromkeys(("timestamp", "event_time", "io_time", "start_time", "commit_time"), "time"),
    **dict.fromkeys(("record_number", "iotype", "event_type", "change_oper"), "type"),
}
"""The sources' own names of header fields, in lower case."""

_ALIKE: Final = ("transaction", "position", "commit_position", "table", "csn")
_OF_LOG: Final = {"old_value": "before", "new_value": "after"}
_COMPUTED: Final = ("outcome", "user", "mark", "row")  # not a field, or slow to compute


def image_of(image: str, record: Record, change: Change | None) -> Mapping[str, str | None]:
    """An image (before, after or key) of a record, or of the change of which it is a half; empty without one."""
    return record.event[image] or (None if change is None else change[image]) or {}


def term_of_value(
    image: str, name: str, change: Change | None, record: Record, kinds: Mapping[str, str]
) -> Term | None:
    """The clauses of a column of an image (before, after or key) of a record, or of the change of which it is a half;
    None without a value there that a filter can name."""
    own = image_of(image, record, change)
    if name not in own:
        return None
    column = value_name(image, name, kinds)
    return clause(column, own[name]), clause(column, own[name], True)


def term_of_field(number: int, record: Record, columns: Mapping[str, Column], kinds: Mapping[str, str]) -> Term | None:
    """The clauses of a field by its number in byte order (0 is the record itself), or of its parents; None if filters
    have no name for them."""
    path: list[Field] = []
    for node in _path(record.field, number):
        path.append(node)
        if node.value is None and node.children:
            continue
        value = _of_image(path, record)
        if value is not None:
            return term_of_value(*value, None, record, kinds)
        header = _of_header(node, record.row, columns)
        if header is not None:
            return clause(*header), clause(*header, True)
    return None


def _path(root: Field, number: int) -> list[Field]:
    """A field and its parents, from the outside in."""
    left = number

    def down(node: Field) -> list[Field]:
        nonlocal left
        if not left:
            return [node]
        left -= 1
        for child in node.children:
            inner = down(child)
            if inner:
                return [node, *inner]
        return []

    return down(root)


def _of_image(path: list[Field], record: Record) -> tuple[str, str] | None:
    """The image and the column of a field with a value."""
    field = path[-1]
    is_before = any("before" in f"{node.name} {node.meaning}".lower() for node in path)
    for image in ("before", "after", "key") if is_before else ("after", "before", "key"):
        values = record.event[image] or {}
        if _OF_LOG.get(field.name) == image and list(values.values()) == [field.value]:
            return image, str(next(iter(values)))
        if field.name in values and values[field.name] == field.value:
            return image, field.name
    return None


def _of_header(field: Field, row: int, columns: Mapping[str, Column]) -> tuple[str, Any] | None:
    """The column of the index for a field, by the source's name or by its text, with its value."""
    if not field.value:
        return None
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[ -]", "_", field.name).lower().removeprefix("header__")
    name = _HEADERS.get(words) or column_name(words)
    if name in columns and name not in _COMPUTED:
        value = columns[name].value(row)
        if value is not None and (columns[name].kind != "number" or str(value) == field.value):
            return name, value
    return next(
        ((name, field.value) for name in _ALIKE if name in columns and columns[name].value(row) == field.value), None
    )
