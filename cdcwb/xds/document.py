"""Events as XDS documents, written column by column (docs/formats/idm-event-log.md §5).

The texts of all attributes lie behind each other in one buffer, in the order of their events; so the text of an event's
attributes is a stretch of it. Joined with what stands around them they are the events, and, as the first and the last
event of a document bring the envelope along, a document is a stretch of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.xds.columns import as_attribute, as_content, empty, offsets_of, truth
from cdcwb.xds.event import Verb
from cdcwb.xds.lawful import require_lawful
from cdcwb.xds.markup import Attributes, attributes_of, texts_of

__all__ = ["DOCUMENT", "Events", "document_batches", "documents"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Events: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]
"""Rows of :data:`~cdcwb.xds.event.EVENT`, in the order of their documents."""

DOCUMENT: Final = pa.schema(
    [
        ("document", pa.int64()),  # its number
        ("events", pa.int32()),  # how many events it holds
        ("xml", pa.string()),  # the document, with a line end behind it
    ]
)
"""One row per document."""

_EVENTS = 50_000  # at once, or as many as fit into so many bytes; a document is never parted
_BYTES = 8 << 20

_VERBS: Final = tuple(Verb)
_NO_ASSOCIATION, _EMPTY_ASSOCIATION, _ASSOCIATION = range(3)


def documents(events: Events, *, product_version: str | None = None) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each document: UTF-8 without a declaration, with a line end behind it (§5.8).

    ``product_version`` is that of cdcwb unless given. At any time some ten thousand events are held, or one document
    where it is larger. Raises CaptureError for rows whose documents do not follow each other in ascending order, and
    for what no valid document can hold (:func:`cdcwb.xds.lawful.require_lawful`).
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
    """The events in pieces of whole documents, of a size that is written at once."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    last: int | None = None
    for piece in _pieces(events):
        numbers = _numbers(piece, last)
        if last is not None and (rows + len(piece) > _EVENTS or size + piece.nbytes > _BYTES):
            begin = int(np.searchsorted(numbers, last, side="right"))  # of the first document that is not held
            if begin < len(piece):
                yield _joined([*held, piece.slice(0, begin)])
                piece, held, rows, size = piece.slice(begin), [], 0, 0
        held.append(piece)
        rows, size, last = rows + len(piece), size + piece.nbytes, int(numbers[-1])
    if held:
        yield _joined(held)


def _pieces(events: Events) -> Iterator[pa.RecordBatch]:
    """The same events, in batches that are not too large and have rows."""
    if isinstance(events, pa.RecordBatch):
        batches: Iterable[pa.RecordBatch] = (events,)
    else:
        batches = events.to_batches() if isinstance(events, pa.Table) else events
    for batch in batches:
        waiting = [batch]
        while waiting:
            piece = waiting.pop()
            if len(piece) > 1 and (len(piece) > _EVENTS or piece.nbytes > _BYTES):
                half = len(piece) // 2
                waiting += [piece.slice(half), piece.slice(0, half)]
            elif len(piece):
                yield piece


def _numbers(piece: pa.RecordBatch, last: int | None) -> Ints:
    numbers: Ints = piece["document"].drop_null().to_numpy()
    if len(numbers) < len(piece):
        raise CaptureError("an event has no document number")
    if (last is not None and numbers[0] < last) or (numbers[1:] < numbers[:-1]).any():
        raise CaptureError("the documents of the events do not follow each other in ascending order")
    return numbers


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches([batch for batch in batches if len(batch)]).combine_chunks().to_batches()
    return batch


def _written(events: pa.RecordBatch, opening: str, closing: str) -> pa.RecordBatch:
    """The documents of a batch of events; it holds all events of each."""
    attributes = attributes_of(events["attrs"])
    require_lawful(events, attributes)
    numbers = events["document"].to_numpy()
    changes = numbers[1:] != numbers[:-1]
    first, last = np.append(True, changes), np.append(changes, True)
    try:
        texts = _texts(events, attributes, first, last, opening, closing)
    except (pa.ArrowCapacityError, pa.ArrowInvalid) as error:
        if events.nbytes <= 2 * _BYTES:  # not for its size
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
    """One text per event, in the order of the events; ``first`` and ``last`` of a document hold its envelope."""
    verbs = pc.index_in(events["verb"], pa.array(_VERBS)).to_numpy(zero_copy_only=False).astype(np.int64)
    association = events["association"]
    there = truth(association.is_valid())
    states = np.where(there, np.where(empty(association), _EMPTY_ASSOCIATION, _ASSOCIATION), _NO_ASSOCIATION)
    has = np.diff(attributes.first) > 0
    classes = events["class_name"].dictionary_encode()
    codes = classes.indices.to_numpy().astype(np.int64) * 3 + verbs
    kinds = pa.array((((codes * 3 + states) * 2 + has) * 2 + first) * 2 + last).dictionary_encode()
    written = as_attribute(classes.dictionary).to_pylist()
    frames = []
    for kind in kinds.dictionary.to_pylist():
        code, flags = divmod(kind, 24)
        name, verb = divmod(code, 3)
        before, between, behind = _frame(_VERBS[verb], written[name], flags // 8, has_attributes=bool(flags & 4))
        frames.append((opening * (flags >> 1 & 1) + before, between, behind + closing * (flags & 1)))
    pieces = [pa.array([frame[place] for frame in frames], pa.string()).take(kinds.indices) for place in range(3)]
    within = _by_event(texts_of(attributes, (verbs == _VERBS.index(Verb.MODIFY))[attributes.event]), attributes)
    return pc.binary_join_element_wise(
        pieces[0],
        as_content(association),
        pieces[1],
        within,
        pieces[2],
        "",
        null_handling="replace",
        null_replacement="",
    )


def _by_event(texts: pa.StringArray, attributes: Attributes) -> pa.StringArray:
    """What lies behind each other is one text already: one per event, over the same bytes."""
    offsets = np.ascontiguousarray(offsets_of(texts)[attributes.first])
    data = texts.buffers()[2] if len(texts) else pa.py_buffer(b"")
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), data)


def _frame(verb: Verb, class_name: str, association: int, *, has_attributes: bool) -> tuple[str, str, str]:
    """What stands before the association of an event, between it and the attributes, and behind them."""
    tag = f'    <{verb} class-name="{class_name}"'
    if association == _NO_ASSOCIATION and not has_attributes:
        return f"{tag}/>\n", "", ""
    before = {
        _NO_ASSOCIATION: "",
        _EMPTY_ASSOCIATION: "      <association/>\n",
        _ASSOCIATION: "      <association>",
    }[association]
    return f"{tag}>\n{before}", "</association>\n" if association == _ASSOCIATION else "", f"    </{verb}>\n"
