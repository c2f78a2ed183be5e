"""What no document may hold, found before anything is written (docs/formats/idm-event-log.md §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.idm_event_log.decode.values import xml_unfit
from cdcwb.xds.columns import empty, truth
from cdcwb.xds.event import TYPES, Verb
from cdcwb.xds.markup import Attributes

__all__ = ["require_lawful"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def require_lawful(events: pa.RecordBatch, attributes: Attributes) -> None:
    """Raises CaptureError, naming the event, for rows that no valid document can be made of.

    These are: a verb, class name or attribute name that is missing, and a verb or value type that XDS does not have; an
    attribute whose form is not that of its event's verb; and a character that XML 1.0 cannot hold.
    """
    for wrong, sentence in _of_events(events, attributes):
        if wrong.any():
            row = int(wrong.argmax())
            raise CaptureError(f"event {_number(events, row)} {sentence}")
    for wrong, sentence in _of_attributes(events, attributes):
        if wrong.any():
            row = int(wrong.argmax())
            name, number = attributes.name[row].as_py() or "", _number(events, int(attributes.event[row]))
            raise CaptureError(f"event {number}, attribute {name!r}: {sentence}")


def _of_events(events: pa.RecordBatch, attributes: Attributes) -> Iterator[tuple[Bools, str]]:
    verbs = events["verb"]
    yield ~_in(verbs, list(Verb)), f"has a verb that is not one of {', '.join(Verb)}"
    yield _null(events["class_name"]) | empty(events["class_name"]), "has no class name"
    for column in ("class_name", "association"):
        yield xml_unfit(events[column]), f"has a character in its {column} that XML 1.0 cannot hold"
    counts = np.diff(attributes.first)
    yield _in(verbs, [Verb.MODIFY]) & (counts == 0), "is a modify without attributes"
    yield _in(verbs, [Verb.DELETE]) & (counts != 0), "is a delete with attributes"


def _of_attributes(events: pa.RecordBatch, attributes: Attributes) -> Iterator[tuple[Bools, str]]:
    yield _null(attributes.name) | empty(attributes.name), "its name must not be missing or empty"
    types = ", ".join(TYPES)
    yield ~(_null(attributes.type) | _in(attributes.type, list(TYPES))), f"its type is not one of {types}"
    removes, adds = ~_null(attributes.remove), ~_null(attributes.add)
    in_add = _in(events["verb"], [Verb.ADD])[attributes.event]
    yield in_add & ~adds, "an add needs a value"
    yield in_add & (removes | attributes.remove_all), "an add takes no value away"
    yield ~(removes | adds | attributes.remove_all), "a modify needs a value to remove or to add, or to remove all"
    yield removes & attributes.remove_all, "it takes away one value and all values"
    for column in (attributes.name, attributes.remove, attributes.add):
        yield xml_unfit(column), "it has a character that XML 1.0 does not allow"


def _number(events: pa.RecordBatch, row: int) -> Any:
    number = events["event"][row].as_py()
    return f"in row {row + 1}" if number is None else number


def _null(column: pa.Array) -> Bools:
    if column.null_count == 0:
        return np.zeros(len(column), dtype=np.bool_)
    return truth(column.is_null())


def _in(texts: pa.StringArray, wanted: list[str]) -> Bools:
    return truth(pc.is_in(texts, pa.array(wanted, pa.string())))
