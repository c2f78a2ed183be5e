"""Messages in which several JSON objects stand one behind the other, as a handler in transaction mode joins them
(docs/formats/goldengate.md §8.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.json_values import MARK, without_trailing_commas
from cdcwb.formats.messages import Messages

__all__ = ["apart"]

Ints = npt.NDArray[np.int64]

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*")


def apart(messages: Messages, numbers: Iterable[int]) -> Messages:
    """The same messages, with those of the ``numbers`` that hold several objects in pieces, an object each.

    The pieces share the bytes of their message: where its value stands in the file as it is, by the places of the
    objects, else in proportion to their lengths. Of a message that is a row the last piece has the row. What is left
    behind the last whole object, if it begins as one, is a piece, too.
    """
    places = {number: found for number in numbers if len(found := _objects(messages.value[number].as_py())) > 1}
    if not places:
        return messages
    count = np.ones(len(messages), dtype=np.int64)
    count[list(places)] = [len(found) for found in places.values()]
    owner = np.repeat(np.arange(len(messages)), count)
    first = np.cumsum(count) - count
    offset, length = messages.offset[owner], messages.length[owner]
    taken = pa.array(owner)
    values, sources = messages.value.take(taken).to_pylist(), messages.source.take(taken).to_pylist()
    for number, found in places.items():
        at, value = int(first[number]), values[int(first[number])]
        cuts = _cuts(messages, number, value, found)
        for piece, (begin, end) in enumerate(pairwise([0, *found[1:], len(value)])):
            values[at + piece] = sources[at + piece] = value[begin:end]
            offset[at + piece], length[at + piece] = cuts[piece], cuts[piece + 1] - cuts[piece]
    return replace(
        messages,
        offset=offset,
        length=length,
        state=messages.state[owner],
        reasons={int(first[number]): reason for number, reason in messages.reasons.items()},
        value=pa.array(values, pa.binary()),
        key=messages.key.take(taken),
        source=pa.array(sources, pa.binary()),
        facts={name: texts.take(taken) for name, texts in messages.facts.items()},
    )


def _objects(value: bytes) -> list[int]:
    """Where the objects of a value begin; what is cut off behind whole ones counts. Empty where the value is something
    else."""
    _, mended = without_trailing_commas(value)
    text = mended.removeprefix(MARK).decode("latin-1")  # a character a byte, so that places are those of the bytes
    before = len(value) - len(text)
    starts: list[int] = []
    at = _behind_blank(text, 0)
    while text.startswith("{", at):
        starts.append(before + at)
        try:
            _, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return starts
        at = _behind_blank(text, at)
    return starts if at == len(text) else []


def _behind_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _cuts(messages: Messages, number: int, value: bytes, starts: list[int]) -> list[int]:
    """The begin of each piece in the file, and the end of the last one."""
    begin, length = int(messages.offset[number]), int(messages.length[number])
    source = messages.source[number].as_py() or b""
    at = source.rfind(value) if len(source) == length else -1
    if at >= 0:
        inner = [begin + at + start for start in starts[1:]]
    else:
        inner = [begin + start * length // len(value) for start in starts[1:]]
    return [begin, *inner, begin + length]
