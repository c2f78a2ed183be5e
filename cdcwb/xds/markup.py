"""The attributes of many events as lines of XML, column by column (docs/formats/idm-event-log.md §5.3, §5.4).

An attribute is five pieces of text: what opens it, the value that is removed, what stands between, the value that is
added, and what closes it. The three that are not values depend on its name, its type and its form alone, so there are
few of them, and all pieces of all attributes are joined at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.xds.columns import as_attribute, as_content, empty, truth
from cdcwb.xds.event import TYPES, Verb

__all__ = ["Attributes", "attributes_of", "texts_of"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NO_TYPE: Final = len(TYPES)

_NOTHING, _EMPTY, _TEXT, _ALL = range(4)
"""What is removed, and (but for the last) what is added. The form of an attribute is its verb and these two."""


class Attributes(NamedTuple):
    """The attributes of a batch of events, one behind the other."""

    first: npt.NDArray[np.int32]  # of each event, where its attributes begin; and where the last one's end
    event: Ints  # the event of each, from 0
    name: pa.StringArray
    type: pa.StringArray
    remove_all: Bools
    remove: pa.StringArray
    add: pa.StringArray


def attributes_of(column: pa.ListArray) -> Attributes:
    """The column ``attrs`` of a batch of :data:`~cdcwb.xds.event.EVENT`; a null list is an empty one."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    first = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(counts, out=first[1:])
    name, kind, remove_all, remove, add = pc.list_flatten(column).flatten()
    event = np.repeat(np.arange(len(column)), counts)
    return Attributes(first, event, name, kind, truth(remove_all), remove, add)


def texts_of(attributes: Attributes, modifies: Bools) -> pa.StringArray:
    """Each attribute as its lines in a document; ``modifies`` says of each whether its event is a modify."""
    removed = np.where(attributes.remove_all, _ALL, _value_forms(attributes.remove))
    forms = (modifies * 4 + removed) * 4 + _value_forms(attributes.add)
    names = attributes.name.dictionary_encode()
    types = pc.fill_null(pc.index_in(attributes.type, pa.array(TYPES)), _NO_TYPE).to_numpy(zero_copy_only=False)
    codes = (names.indices.to_numpy().astype(np.int64) * (_NO_TYPE + 1) + types) * 32 + forms
    kinds = pa.array(codes).dictionary_encode()
    written = as_attribute(names.dictionary).to_pylist()
    frames = []
    for code in kinds.dictionary.to_pylist():
        rest, form = divmod(code, 32)
        name, kind = divmod(rest, _NO_TYPE + 1)
        frames.append(_frame(written[name], kind, form))
    pieces = [pa.array([frame[place] for frame in frames], pa.string()).take(kinds.indices) for place in range(3)]
    return pc.binary_join_element_wise(
        pieces[0],
        as_content(attributes.remove),
        pieces[1],
        as_content(attributes.add),
        pieces[2],
        "",
        null_handling="replace",
        null_replacement="",
    )


def _value_forms(texts: pa.StringArray) -> Ints:
    there = truth(texts.is_valid())
    return np.where(there, np.where(empty(texts), _EMPTY, _TEXT), _NOTHING)


def _frame(name: str, kind: int, form: int) -> tuple[str, str, str]:
    """What stands before, between and behind the removed and the added value."""
    modifies, removed, added = form // 16, form // 4 % 4, form % 4
    verb = Verb.MODIFY if modifies else Verb.ADD
    value = "<value" if kind == _NO_TYPE else f'<value type="{TYPES[kind]}"'
    opening, closing = f'      <{verb}-attr attr-name="{name}">\n', f"      </{verb}-attr>\n"
    if not modifies:
        before, behind = _around(value, added, 8)
        return opening + before, "", behind + closing
    between = ""
    if removed == _ALL:
        opening += "        <remove-all-values/>\n"
    elif removed != _NOTHING:
        before, behind = _around(value, removed, 10)
        opening += f"        <remove-value>\n{before}"
        between = f"{behind}        </remove-value>\n"
    if added != _NOTHING:
        before, behind = _around(value, added, 10)
        between += f"        <add-value>\n{before}"
        closing = f"{behind}        </add-value>\n{closing}"
    return opening, between, closing


def _around(value: str, form: int, indent: int) -> tuple[str, str]:
    """What stands before and behind the text of a value."""
    if form == _EMPTY:
        return f"{' ' * indent}{value}/>\n", ""
    return f"{' ' * indent}{value}>", "</value>\n"
