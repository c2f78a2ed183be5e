"""Writes events as XDS documents, column by column (docs/formats/idm-event-log.md §5).

The texts of all attributes are in one buffer, in the order of their events, so the attributes of an event are a slice
of it. Joined with the surrounding text they are the events. The first and the last event of a document include the
envelope, so a document is a slice of the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import complete_keys
from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import content_of
from cdcwb.formats.idm_event_log.decode import xml_unfit
from cdcwb.xds.rows import Bools, Ints, flags


class Verb(StrEnum):
    """The operation of an event on its object; the name of its element (§5.3 to §5.5)."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


TYPES: Final = (
    "string",
    "octet",
    "dn",
    "state",
    "int",
    "teleNumber",
    "className",
    "counter",
    "time",
    "interval",
    "count",
)
"""The types of a value that is one text (§5.6), so without ``structured``, whose value consists of components."""

ATTRIBUTE: Final = pa.struct(
    [
        ("name", pa.string()),  # never null or empty
        ("type", pa.string()),  # one of TYPES; null: the element has no type, or there is no value
        ("remove_all", pa.bool_()),  # all its values are removed first; modify only, and never together with remove
        ("remove", pa.string()),  # the removed value; modify only; null: none
        ("add", pa.string()),  # the added value; null (modify only): none
    ]
)
"""One attribute of an event. An event may have several attributes of the same name; their order matters (§5.4)."""

EVENT: Final = pa.schema(
    [
        ("document", pa.int64()),  # number of the document, from 1; rows are in the order of documents
        ("event", pa.int64()),  # number of the event, from 1
        ("verb", pa.string()),  # a value of Verb
        ("class_name", pa.string()),  # never null or empty
        ("association", pa.string()),  # the object (§5.1); null: the event has none
        (
            "attrs",
            pa.list_(ATTRIBUTE),
        ),  # add: any number; modify: at least one; delete: none; null is equivalent to empty
    ]
)
"""One row per event, in publication order."""


_CONTENT: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))
_ATTRIBUTE: Final = (*_CONTENT, ('"', "&quot;"), ("\n", "&#10;"), ("\t", "&#9;"))
_QUOTED: Final = (("\\", "\\\\"), ('"', '\\"'))


def as_content(texts: pa.StringArray) -> pa.StringArray:
    """Texts escaped for element content; null stays null (§5.9)."""
    return _replaced(texts, _CONTENT)


def as_attribute(texts: pa.StringArray) -> pa.StringArray:
    """Texts escaped for an XML attribute in double quotes; null stays null (§5.9)."""
    return _replaced(texts, _ATTRIBUTE)


def quoted(texts: pa.StringArray) -> pa.StringArray:
    r"""Values of a table_key: in double quotes if they are empty or contain one of ``, ; ' + " = \ < >`` (§2.2); null
    stays null."""
    special, nothing = _having(texts, ",;'+\"=\\<>"), np.flatnonzero(empty(texts))
    if special is None and not len(nothing):
        return texts
    rows = nothing if special is None else np.union1d(special, nothing)
    within = texts.take(pa.array(rows))
    for mark, written in _QUOTED:
        within = pc.replace_substring(within, mark, written)
    return _with(texts, rows, pc.binary_join_element_wise('"', within, '"', ""))


def association(keys: pa.StringArray, tables: pa.StringArray, schemas: pa.StringArray) -> pa.StringArray:
    """Associations: the key as written, then table and schema, quoted if necessary (§5.1). A null schema is omitted;
    the association of a null key or table is null.
    """
    named = pc.binary_join_element_wise(keys, ",table=", quoted(tables), "")
    with_schema = pc.binary_join_element_wise(named, ",schema=", quoted(schemas), "")
    return pc.if_else(pc.is_valid(schemas), with_schema, named)


def empty(texts: pa.StringArray) -> Bools:
    """True for the empty text; False for null."""
    return flags(pc.equal(pc.binary_length(texts), 0))


def offsets_of(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    """The offset of each text in the data of its array, and the end of the last one."""
    if len(texts) == 0:
        return np.zeros(1, dtype=np.int32)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    return offsets[texts.offset : texts.offset + len(texts) + 1]


def _having(texts: pa.StringArray, marks: str) -> Ints | None:
    """The rows whose text contains one of some ASCII characters, ascending; None if there is none."""
    wanted = np.zeros(256, np.bool_)
    wanted[list(marks.encode())] = True
    content, edges = content_of(texts)
    places = np.flatnonzero(wanted[content])
    return np.unique(np.searchsorted(edges, places, side="right") - 1) if len(places) else None


def _replaced(texts: pa.StringArray, marks: tuple[tuple[str, str], ...]) -> pa.StringArray:
    rows = _having(texts, "".join(mark for mark, _ in marks))
    if rows is None:
        return texts
    within = texts.take(pa.array(rows))
    data = content_of(within)[0].tobytes()
    for mark, written in marks:
        if mark.encode() in data:
            within = pc.replace_substring(within, mark, written)
    return _with(texts, rows, within)


def _with(texts: pa.StringArray, rows: Ints, replacements: pa.StringArray) -> pa.StringArray:
    """The texts, replaced in some of the rows (ascending)."""
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), replacements)


_NO_TYPE: Final = len(TYPES)

_NOTHING, _EMPTY, _TEXT, _ALL = range(4)
"""The removed values and (except for the last) the added values. The form of an attribute is its verb and these two."""


class Attributes(NamedTuple):
    """The attributes of a batch of events, concatenated."""

    first: npt.NDArray[np.int32]  # the index of the first attribute of each event, and the end of the last event
    event: Ints  # the event of each attribute, from 0
    name: pa.StringArray
    type: pa.StringArray
    remove_all: Bools
    remove: pa.StringArray
    add: pa.StringArray


def attributes_of(column: pa.ListArray) -> Attributes:
    """The column ``attrs`` of a batch of :data:`~cdcwb.xds.document.EVENT`; null is an empty list."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    first = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(counts, out=first[1:])
    name, kind, remove_all, remove, add = pc.list_flatten(column).flatten()
    event = np.repeat(np.arange(len(column)), counts)
    return Attributes(first, event, name, kind, flags(remove_all), remove, add)


def texts_of(attributes: Attributes, modifies: Bools) -> pa.StringArray:
    """The lines of each attribute in a document; ``modifies``: whether its event is a modify."""
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
        frames.append(_attribute_frame(written[name], kind, form))
    return _filled(frames, kinds, as_content(attributes.remove), as_content(attributes.add))


def _filled(
    frames: Sequence[tuple[str, str, str]], kinds: pa.DictionaryArray, first: pa.StringArray, second: pa.StringArray
) -> pa.StringArray:
    """Two values of each row with what the frame of its kind has before, between and after them; null is nothing."""
    pieces = [pa.array([frame[part] for frame in frames], pa.string()).take(kinds.indices) for part in range(3)]
    texts = (pieces[0], first, pieces[1], second, pieces[2])
    return pc.binary_join_element_wise(*texts, "", null_handling="replace", null_replacement="")


def _value_forms(texts: pa.StringArray) -> Ints:
    valid = flags(texts.is_valid())
    return np.where(valid, np.where(empty(texts), _EMPTY, _TEXT), _NOTHING)


def _attribute_frame(name: str, kind: int, form: int) -> tuple[str, str, str]:
    """The text before, between and after the removed and the added value."""
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
    """The text before and after a value."""
    if form == _EMPTY:
        return f"{' ' * indent}{value}/>\n", ""
    return f"{' ' * indent}{value}>", "</value>\n"


def require_lawful(events: pa.RecordBatch, attributes: Attributes) -> None:
    """Raises CaptureError, which names the event, for rows that cannot be in a valid document: a missing verb, class
    name or attribute name; a verb or value type that XDS does not have; an attribute whose form is not that of its
    event's verb; a character that XML 1.0 does not allow.
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
    yield flags(events["class_name"].is_null()) | empty(events["class_name"]), "has no class name"
    for column in ("class_name", "association"):
        yield xml_unfit(events[column]), f"has a character in its {column} that XML 1.0 cannot hold"
    counts = np.diff(attributes.first)
    yield _in(verbs, [Verb.MODIFY]) & (counts == 0), "is a modify without attributes"
    yield _in(verbs, [Verb.DELETE]) & (counts != 0), "is a delete with attributes"


def _of_attributes(events: pa.RecordBatch, attributes: Attributes) -> Iterator[tuple[Bools, str]]:
    yield flags(attributes.name.is_null()) | empty(attributes.name), "its name must not be missing or empty"
    types = ", ".join(TYPES)
    yield ~(flags(attributes.type.is_null()) | _in(attributes.type, list(TYPES))), f"its type is not one of {types}"
    removes, adds = flags(attributes.remove.is_valid()), flags(attributes.add.is_valid())
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


def _in(texts: pa.StringArray, wanted: list[str]) -> Bools:
    return flags(pc.is_in(texts, pa.array(wanted, pa.string())))


Events: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]
"""Rows of :data:`~cdcwb.xds.document.EVENT`, in the order of their documents."""

DOCUMENT: Final = pa.schema(
    [
        ("document", pa.int64()),  # its number
        ("events", pa.int32()),  # its number of events
        ("xml", pa.string()),  # the document, with a final line end
    ]
)
"""One row per document."""

_EVENTS = 50_000  # at a time, or as many as fit into this many bytes; a document is never split
_BYTES = 8 << 20

_VERBS: Final = tuple(Verb)
_NO_ASSOCIATION, _EMPTY_ASSOCIATION, _ASSOCIATION = range(3)


def documents(events: Events, *, product_version: str | None = None) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each document: UTF-8 without a declaration, with a final line end (§5.8).

    ``product_version``: default is that of cdcwb. Memory holds some ten thousand events, or one document if it is
    larger. Raises CaptureError if document numbers do not ascend, and for rows that cannot be in a valid document
    (:func:`cdcwb.xds.document.require_lawful`).
    """
    for batch in document_batches(events, product_version=product_version):
        texts = batch["xml"].cast(pa.binary())
        yield from zip(batch["document"].to_pylist(), texts.to_pylist(), strict=True)


def document_batches(events: Events, *, product_version: str | None = None) -> Iterator[pa.RecordBatch]:
    """The documents as batches of :data:`DOCUMENT`; else as :func:`documents`."""
    shown = as_attribute(pa.array([version("cdcwb") if product_version is None else product_version]))[0].as_py()
    opening = (
        f'<nds dtdversion="4.0" ndsversion="8.x">\n  <source>\n    <product version="{shown}">cdcwb</product>\n'
        "  </source>\n  <input>\n"
    )
    for chunk in _chunks(events):
        yield _written(chunk, opening, "  </input>\n</nds>\n")


def _chunks(events: Events) -> Iterator[pa.RecordBatch]:
    """The events in batches of complete documents, each of the size of a write."""
    batches: Iterable[pa.RecordBatch] = (events,) if isinstance(events, pa.RecordBatch) else events
    if isinstance(events, pa.Table):
        batches = events.to_batches()
    last: int | None = None
    for chunk in complete_keys((batch for batch in batches if len(batch)), ["document"]):
        numbers: Ints = chunk["document"].drop_null().to_numpy()
        if len(numbers) < len(chunk):
            raise CaptureError("an event has no document number")
        if (last is not None and numbers[0] <= last) or (numbers[1:] < numbers[:-1]).any():
            raise CaptureError("the documents of the events do not follow each other in ascending order")
        last = int(numbers[-1])
        waiting = [chunk]
        while waiting:
            piece = waiting.pop()
            begins = np.flatnonzero(np.diff(piece["document"])) + 1  # of all documents but the first
            if len(begins) and (len(piece) > _EVENTS or piece.nbytes > _BYTES):
                middle = int(begins[len(begins) // 2])
                waiting += [piece.slice(middle), piece.slice(0, middle)]
            else:
                yield piece


def _written(events: pa.RecordBatch, opening: str, closing: str) -> pa.RecordBatch:
    """The documents of a batch that has all events of each."""
    attributes = attributes_of(events["attrs"])
    require_lawful(events, attributes)
    numbers = events["document"].to_numpy()
    changes = numbers[1:] != numbers[:-1]
    first, last = np.append(True, changes), np.append(changes, True)
    try:
        texts = _texts(events, attributes, first, last, opening, closing)
    except (pa.ArrowCapacityError, pa.ArrowInvalid) as error:
        if events.nbytes <= 2 * _BYTES:  # not because of its size
            raise
        raise CaptureError(f"document {numbers[-1]} is larger than 2 GiB") from error
    begins = np.flatnonzero(first)
    offsets = offsets_of(texts)[np.append(begins, len(numbers))]
    counts = np.diff(np.append(begins, len(numbers))).astype(np.int32)
    xml = pa.StringArray.from_buffers(len(begins), pa.py_buffer(np.ascontiguousarray(offsets)), texts.buffers()[2])
    return pa.record_batch([pa.array(numbers[begins]), pa.array(counts), xml], schema=DOCUMENT)


def _texts(
    events: pa.RecordBatch, attributes: Attributes, first: Bools, last: Bools, opening: str, closing: str
) -> pa.StringArray:
    """One text per event, in the order of the events; ``first`` and ``last`` of a document include its envelope."""
    verbs = pc.index_in(events["verb"], pa.array(_VERBS)).to_numpy(zero_copy_only=False).astype(np.int64)
    association = events["association"]
    valid = flags(association.is_valid())
    states = np.where(valid, np.where(empty(association), _EMPTY_ASSOCIATION, _ASSOCIATION), _NO_ASSOCIATION)
    has = np.diff(attributes.first) > 0
    classes = events["class_name"].dictionary_encode()
    codes = classes.indices.to_numpy().astype(np.int64) * 3 + verbs
    kinds = pa.array((((codes * 3 + states) * 2 + has) * 2 + first) * 2 + last).dictionary_encode()
    written = as_attribute(classes.dictionary).to_pylist()
    frames = []
    for kind in kinds.dictionary.to_pylist():
        code, form = divmod(kind, 24)
        name, verb = divmod(code, 3)
        before, between, behind = _frame(_VERBS[verb], written[name], form // 8, has_attributes=bool(form & 4))
        frames.append((opening * (form >> 1 & 1) + before, between, behind + closing * (form & 1)))
    within = _by_event(texts_of(attributes, (verbs == _VERBS.index(Verb.MODIFY))[attributes.event]), attributes)
    return _filled(frames, kinds, as_content(association), within)


def _by_event(texts: pa.StringArray, attributes: Attributes) -> pa.StringArray:
    """The concatenated texts of each event, without copying their bytes."""
    offsets = np.ascontiguousarray(offsets_of(texts)[attributes.first])
    data = texts.buffers()[2] if len(texts) else pa.py_buffer(b"")
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), data)


def _frame(verb: Verb, class_name: str, association: int, *, has_attributes: bool) -> tuple[str, str, str]:
    """The text before the association of an event, between it and the attributes, and after them."""
    tag = f'    <{verb} class-name="{class_name}"'
    if association == _NO_ASSOCIATION and not has_attributes:
        return f"{tag}/>\n", "", ""
    before = ("", "      <association/>\n", "      <association>")[association]
    return f"{tag}>\n{before}", "</association>\n" if association == _ASSOCIATION else "", f"    </{verb}>\n"
