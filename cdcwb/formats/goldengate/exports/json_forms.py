"""GoldenGate's JSON messages: which form one has (docs/formats/goldengate.md §8).

A message models an operation (``before`` and ``after`` beside the fields that describe it) or a row (its columns stand
among those fields); Kafka Connect may have wrapped it. Numbers keep their own digits.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from cdcwb.formats.goldengate.exports.names import PLAIN, is_template, role_of
from cdcwb.formats.goldengate.exports.summary import Number
from cdcwb.formats.json_cut import Parts, complete_part
from cdcwb.formats.json_values import JsonReader

__all__ = ["Form", "Forms", "document_of", "json_form", "parse_cut", "parse_json"]

_MINUS_ZERO: Final = re.compile(rb": ?-0\s*+[,}]")
_DICT: Final = (dict, type(None))


def _whole(digits: str) -> int | Number:
    return Number(digits) if digits == "-0" or len(digits) > 18 else int(digits)


def _has_minus_zero(value: bytes) -> object:
    return (b":-0" in value or b": -0" in value) and _MINUS_ZERO.search(value)


parse_json: Final = JsonReader(Number, _whole, _has_minus_zero).parse
"""A JSON text as Python objects; numbers with a point or an exponent are :class:`Number`. Raises ValueError that says
what is wrong and at which byte."""

_PARTS: Final[Parts] = {"before": {}, "after": {}, "tokens": {}}
_WRAPPED: Final[Parts] = {**_PARTS, "payload": _PARTS}


def parse_cut(value: bytes) -> tuple[bytes, Any]:
    """The complete fields of a message that is cut off, as JSON and as Python objects (§8.1). A null at the very end is
    not among them: whether the column is missing, a companion behind it would say."""
    text = complete_part(value, _WRAPPED)
    document = parse_json(text, [])
    inside = document
    while inside.__class__ is dict and inside:
        name, last = list(inside.items())[-1]
        if last is None:
            del inside[name]
        inside = last
    return text, document


# --- forms ------------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """Where the parts of messages with the same fields are. ``columns``: those of a message that models a row."""

    table: str | None
    operation: str | None
    tokens: str | None
    keys: str | None
    before: str | None
    after: str | None
    headers: tuple[str, ...]
    columns: tuple[str, ...] | None


def form_of(names: tuple[str, ...], images: bool) -> Form | None:
    """The form of a message with these fields; ``images``: ``before`` and ``after`` are objects or null. None where it
    is none of GoldenGate's."""
    roles: dict[str, str] = {}
    modelled = images and ("before" in names or "after" in names)
    columns: list[str] = []
    headers: list[str] = []
    for name in names:
        role = role_of(name)
        if role in ("before", "after"):
            role = role if modelled else None
        elif role is not None and not modelled and columns and name not in PLAIN and not is_template(name):
            role = None  # a column that is called so
        if role is None and not modelled:
            columns.append(name)
            continue
        if role is not None and role not in roles:
            roles[role] = name
        if role is None or name not in (roles.get("before"), roles.get("after"), roles.get("tokens")):
            headers.append(name)
    told = {"table", "operation", "time", "position"} & set(roles)
    if len(told) < 2 or not told & {"table", "operation"}:
        return None
    return Form(
        roles.get("table"),
        roles.get("operation"),
        roles.get("tokens"),
        roles.get("keys"),
        roles.get("before"),
        roles.get("after"),
        tuple(headers),
        None if modelled else tuple(columns),
    )


def document_of(document: Any) -> Any:
    """The message in a document: what Kafka Connect wrapped, or the document itself."""
    if document.__class__ is dict and "payload" in document and "schema" in document and "op_type" not in document:
        return document["payload"]
    return document


Forms = dict[tuple[tuple[str, ...], bool], Form | None]


def json_form(document: Any, forms: Forms | None = None) -> Form:
    """The form of a message. Raises ValueError for JSON that is no message of GoldenGate's."""
    if document.__class__ is not dict:
        raise ValueError(f"expected a JSON object, found {_NAMES.get(document.__class__, 'a value')}")
    names = tuple(document)
    images = document.get("before").__class__ in _DICT and document.get("after").__class__ in _DICT
    found = None if forms is None else forms.get((names, images))
    if found is None:
        found = form_of(names, images)
        if found is None:
            listed = ", ".join(name[:40] for name in names[:6])
            raise ValueError(f"a JSON object that is not one of GoldenGate's messages: its keys are {listed or 'none'}")
        if forms is not None:
            forms[names, images] = found
    return found


_NAMES: Final = {list: "an array", str: "a string", int: "a number", Number: "a number", bool: "a truth value"}
_NAMES[type(None)] = "null"
