"""One message of a capture as a tree of fields. It is apart from the decoder because no reader needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cdcwb.formats.debezium.layout import ENVELOPE, OTHERS, SOURCE, TRANSACTION
from cdcwb.formats.dissector import Field
from cdcwb.formats.messages.connect import message_tree

_MEANINGS: Final[dict[str, Mapping[str, str]]] = {
    "": {**OTHERS, **TRANSACTION, **ENVELOPE},
    "source": SOURCE,
    "transaction": TRANSACTION,
}


def dissect(value: bytes | None, schemas: Mapping[int, str], schema: str | None, event: Mapping[str, Any]) -> Field:
    """The fields of a message, whose event this is. ``schemas`` are those of the registry, ``schema`` is that of a
    value without a frame."""
    images = {name: dict(event[name]) for name in ("before", "after") if name in event}
    field = message_tree(value, schemas, _DebeziumMeanings(images), schema)
    problems = event.get("problems")
    if problems and not any(one.problem for one in field.walk()):
        field = replace(field, problem=problems[0]["code"], meaning=f"{field.meaning}; {problems[0]['detail']}")
    return field


@dataclass(frozen=True)
class _DebeziumMeanings:
    """What fields mean: those of Debezium, and columns as the rows ``images`` have them."""

    images: Mapping[str, Mapping[str, Any]]

    def __call__(self, section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
        image = self.images.get(section)
        if image is None or not kind:
            return text, _MEANINGS.get(section, {}).get(name, "")
        if name not in image:
            return text, "a column whose value was not captured"
        value = image[name]
        if value is None:
            return None, "a column: NULL"
        return value, "a column" if value == text else f"a column, stored as {text or kind}"
