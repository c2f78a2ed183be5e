"""The body of a DDL record: items ``code='value'`` (docs/formats/goldengate.md §5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from cdcwb.formats.goldengate.facts import DDL_STATEMENT

__all__ = ["DdlItem", "ddl_items", "ddl_type", "items_of", "name", "object_type", "owner", "statement"]

_ITEM: Final = re.compile(rb"([A-Z]\d{1,3})='((?:\\.|[^'\\]|'(?![,)]|\s*\Z))*)('?)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class DdlItem(NamedTuple):
    """An item: places of its code, of its value and of its end in the body; ``whole`` if the closing quote is there."""

    code: str
    start: int
    value_start: int
    value_stop: int
    stop: int
    whole: bool
    value: str


def items_of(body: bytes, charset: str = "utf-8") -> Iterator[DdlItem]:
    """The items of a DDL body in order. A cut body's last item has the value as far as it is there."""
    for found in _ITEM.finditer(body):
        text = _ESCAPE.sub(r"\1", found[2].decode(charset, "replace"))
        yield DdlItem(found[1].decode(), found.start(), found.start(2), found.end(2), found.end(), bool(found[3]), text)


def ddl_items(body: bytes, charset: str = "utf-8") -> dict[str, str]:
    """Values by code, escapes undone. A statement that comes in several items of one code is put together; of other
    codes that are repeated the first counts."""
    items: dict[str, str] = {}
    for item in items_of(body, charset):
        if item.code == DDL_STATEMENT and item.code in items:
            items[item.code] += item.value
        else:
            items.setdefault(item.code, item.value)
    return items


def statement(items: Mapping[str, str]) -> str | None:
    """The text of the statement, as far as it is there; None if it is not."""
    return items.get(DDL_STATEMENT) or items.get("G1") or None


def owner(items: Mapping[str, str]) -> str | None:
    """Schema of the object; None where the record does not say."""
    return items.get("B3") or None


def name(items: Mapping[str, str]) -> str | None:
    """Name of the object; None where the record does not say."""
    return items.get("B4") or None


def object_type(items: Mapping[str, str]) -> str | None:
    """What the object is (``TABLE``); None where the record does not say."""
    return items.get("B5") or None


def ddl_type(items: Mapping[str, str]) -> str | None:
    """What is done to it (``CREATE``); None where the record does not say."""
    return items.get("B6") or None
