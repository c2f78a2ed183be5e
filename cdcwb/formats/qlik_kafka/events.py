"""Events from messages, every column for all messages of a batch (docs/formats/qlik-kafka.md §4 to §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import EventBatch, as_array, columns_of
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages, key_texts
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.kernels import Ints
from cdcwb.formats.moments import UNKNOWN_UNTIL, moments, sequence_times
from cdcwb.formats.qlik_kafka.decode import Bools, DecodedMessages, Flat, decode
from cdcwb.formats.qlik_kafka.masks import ImageValues, MessageMasks
from cdcwb.formats.qlik_kafka.versions import MessageSettings, VersionLookup
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unique_names

FORMAT: Final = "qlik-kafka"

_OPERATIONS: Final = tuple(map(str, (Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.REFRESH)))
_WHOLE: Final = r"\A(?:-?[0-9]{1,18}|[0-9]{19})\z"
_MOST: Final = str((1 << 63) - 1)
_OF_IMAGES: Final = ("key", "before", "after", "changed_columns", "present_columns", "problems")


def events_of(
    messages: Messages,
    where: Where,
    settings: MessageSettings,
    versions: VersionLookup,
    wanted: Wanted,
    schema: str | None = None,
) -> pa.RecordBatch:
    """The events of one batch of messages; ``schema`` is the Avro schema that the container names."""
    batch = EventBatch(len(messages), wanted)
    where.fill(batch, messages)
    images = wanted.images and wanted.needs(*_OF_IMAGES)
    decoded = decode(messages, settings, versions, images, schema)
    fill(batch, decoded, messages)
    if wanted.needs("headers"):
        _headers(batch, decoded, messages)
    if wanted.needs(*_OF_IMAGES):
        _rows(batch, decoded)
    for number, code, sentence in decoded.problems:
        batch.problem(number, code, sentence)
    if wanted.raw:
        message = messages.state == 0
        raw = messages.value if message.all() else pc.if_else(pa.array(message), messages.value, messages.source)
        batch.put("raw", raw)
    return batch.build()


# --- kinds and headers ------------------------------------------------------------------------------------------------


def fill(batch: EventBatch, decoded: DecodedMessages, messages: Messages) -> None:
    """All columns but those of images, masks, headers and bytes, with their problems."""
    groups, grouped = decoded.groups, np.flatnonzero(decoded.group >= 0)
    of = pa.array(decoded.group[grouped])
    batch.constant("format", FORMAT)
    shared = {
        "kind": [str(one.kind) for one in groups],
        "record_type": [one.record_type for one in groups],
        "schema_name": [one.table.schema for one in groups],
        "table_name": [one.table.table for one in groups],
        "table_version": [one.table_version for one in groups],
    }
    for name, texts in shared.items() if groups else ():
        batch.put(name, pa.array(texts, pa.string()).take(of), grouped)
    is_message = messages.state == 0
    tombstones = as_array(pc.is_null(messages.value)) & is_message
    batch.constant("kind", str(Kind.TOMBSTONE), np.flatnonzero(tombstones))
    bad = np.array(sorted(number for number, _, _ in decoded.bad), dtype=np.int64)
    batch.constant("kind", str(Kind.MALFORMED), bad)
    for number, code, reason in decoded.bad:
        batch.problem(number, code, reason)
    for state, (kind, problem) in NOT_MESSAGES.items():
        index = np.flatnonzero(messages.state == state)
        batch.constant("kind", str(kind), index)
        if problem is not None:
            for number in index.tolist():
                batch.problem(number, problem, messages.reasons.get(number, "bytes that are not a message"))
    _Header(batch, decoded).fill()
    if any(one.problem is not None for one in groups):
        for number, group in zip(grouped.tolist(), decoded.group[grouped].tolist(), strict=True):
            if (found := groups[group].problem) is not None:
                batch.problem(number, *found)


class _Header:
    """The columns that come from the headers of data messages."""

    def __init__(self, batch: EventBatch, decoded: DecodedMessages) -> None:
        self.batch, self.decoded, self.rows = batch, decoded, decoded.rows

    def problems(self, wrong: Bools, texts: pa.StringArray, name: str, expected: str) -> None:
        """Reports the texts of a header that are wrong."""
        for row in np.flatnonzero(wrong).tolist():
            sentence = f"{name}: expected {expected}, found {texts[row].as_py()!r:.60}"
            self.batch.problem(int(self.rows[row]), Problem.VALUE, sentence)

    def given(self, name: str) -> pa.StringArray:
        """The texts of a header; null for empty ones."""
        texts = self.decoded.header(name)
        return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), pa.scalar(None, pa.string()), texts)

    def fill(self) -> None:
        """Fills the columns; reports what is not as it must be."""
        if not len(self.rows):
            return
        batch, needs = self.batch, self.batch.wanted.needs
        self._operation()
        if needs("position", "commit_position", "last_in_transaction", "problems"):
            texts = self.given("changeSequence")
            _, wrong = sequence_times(texts)
            self.problems(wrong, texts, "changeSequence", "16 digits of time and 19 more")
            position = pc.if_else(pa.array(wrong), pa.scalar(None, pa.string()), texts) if wrong.any() else texts
            batch.put("position", position, self.rows)
        if needs("transaction_id"):
            batch.put("transaction_id", self.given("transactionId"), self.rows)
        if needs("event_no", "problems"):
            texts = self.given("transactionEventCounter")
            is_small = pc.or_(pc.less(pc.utf8_length(texts), len(_MOST)), pc.less_equal(texts, _MOST))
            is_whole = pc.fill_null(pc.and_(pc.match_substring_regex(texts, _WHOLE), is_small), True)
            self.problems(~as_array(is_whole), texts, "transactionEventCounter", "a whole number")
            numbers = pc.cast(pc.if_else(is_whole, texts, pa.scalar(None, pa.string())), pa.int64())
            batch.put("event_no", numbers, self.rows)
        if needs("commit_position", "last_in_transaction", "problems"):
            texts = self.given("transactionLastEvent")
            lower = pc.utf8_lower(texts)
            is_last, is_known = pc.equal(lower, "true"), pc.is_in(lower, pa.array(["true", "false", None]))
            self.problems(~as_array(is_known), texts, "transactionLastEvent", "true or false")
            batch.put("last_in_transaction", pc.if_else(is_known, is_last, pa.scalar(None, pa.bool_())), self.rows)
            ends = pc.if_else(pc.fill_null(is_last, False), position, pa.scalar(None, pa.string()))
            batch.put("commit_position", ends, self.rows)
        if needs("changed_at", "problems"):
            texts = self.given("timestamp")
            times, wrong = moments(texts)
            self.problems(wrong, texts, "timestamp", "an ISO 8601 time")
            known = pc.greater_equal(times, pa.scalar(UNKNOWN_UNTIL, times.type))
            batch.put("changed_at", pc.if_else(known, times, pa.scalar(None, times.type)), self.rows)
        for name, column in (("changeMask", "change_mask"), ("columnMask", "column_mask")):
            if needs(column):
                batch.put(column, self.decoded.header(name), self.rows)

    def _operation(self) -> None:
        """What each row does; UNKNOWN(x) for what Qlik does not list."""
        numbers, groups = self.decoded.numbers_of("operation"), self.decoded.groups
        texts = self.decoded.texts.take(numbers)
        known = as_array(pc.is_in(texts, pa.array(_OPERATIONS)))
        there = numbers != 0
        for number in self.rows[~there].tolist():
            if groups[self.decoded.group[number]].is_decoded:
                self.batch.problem(number, Problem.VALUE, "the headers have no operation")
        self.problems(there & ~known, texts, "operation", "INSERT, UPDATE, DELETE or REFRESH")
        if not known.all():
            spelled = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(texts, ""), ")", "")
            texts = pc.if_else(pa.array(~there), pa.scalar(None, pa.string()), pc.if_else(known, texts, spelled))
        self.batch.put("operation", texts, self.rows)


def _headers(batch: EventBatch, decoded: DecodedMessages, messages: Messages) -> None:
    """The map of headers: those of the source, then the facts of the container."""
    facts = columns_of({**messages.facts, "key": key_texts(messages.key)})
    names = {name: at for at, name in enumerate(facts)}
    rows = []
    unique: dict[tuple[str, ...], tuple[str, ...]] = {}
    for group in decoded.groups:
        own = tuple([name for name, _, _ in group.headers])
        if own not in unique:
            unique[own] = unique_names(own, facts)
        pairs = zip(unique[own], group.headers, strict=True)
        rows += [(names.setdefault(name, len(names)), number, step) for name, (_, number, step) in pairs]
    grouped = np.flatnonzero(decoded.group >= 0)
    flat = Flat.of([len(one.headers) for one in decoded.groups], np.array(rows, dtype=np.int64).reshape(-1, 3))
    of, item = flat.spread(decoded.group[grouped])
    name, number, step = flat.rows[item].T
    message = grouped[of]
    parts = [(message, name, number + step * decoded.origin[message])]
    for fact, texts in facts.items():
        there = np.flatnonzero((messages.state == 0) & as_array(pc.is_valid(texts)))
        parts.append((there, np.full(len(there), names[fact]), decoded.texts.column(texts) + there))
    message, name, number = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.argsort(message, kind="stable")
    _put_map(batch, "headers", decoded, message[order], name[order], number[order], [*names], message)


def _put_map(
    batch: EventBatch,
    column: str,
    decoded: DecodedMessages,
    message: Ints,
    name: Ints,
    number: Ints,
    names: Sequence[str],
    having: Ints,
) -> None:
    """Fills a map column: for each entry the message (ascending), the index of its name, the number of its text.
    ``having``: the messages that have a map; the others are null."""
    offsets = np.zeros(batch.count + 1, dtype=np.int32)
    np.cumsum(np.bincount(message, minlength=batch.count), out=offsets[1:])
    null = np.ones(batch.count + 1, dtype=np.bool_)
    null[having] = null[-1] = False
    keys = pa.array(names, pa.string()).take(pa.array(name))
    maps = pa.MapArray.from_arrays(pa.array(offsets, mask=null), keys, decoded.texts.take(number))
    batch.put(column, maps)


# --- images -----------------------------------------------------------------------------------------------------------


def _rows(batch: EventBatch, decoded: DecodedMessages) -> None:
    """Images, keys and masks of data messages."""
    rows, needs = decoded.rows, batch.wanted.needs
    if not len(rows):
        return
    masks = MessageMasks(decoded, lambda row, code, sentence: batch.problem(int(rows[row]), code, sentence))
    masks.read()
    for which, name in enumerate(("changed_columns", "present_columns")):
        if needs(name):
            batch.put(name, masks.columns(which), rows)
    has = decoded.has[:, rows]
    if not has.any():
        return
    operation = decoded.header("operation")
    deleted, updated = (as_array(pc.fill_null(pc.equal(operation, str(one)), False)) for one in ("DELETE", "UPDATE"))
    images = [ImageValues.of(decoded, which, np.flatnonzero(has[which])) for which in (0, 1)]
    absent = masks.absent(images)
    if needs("problems"):
        masks.compare(images[0], images[1], updated & has.all(axis=0), absent)
    if absent is not None:
        images = [cells.take((cells.bit < 0) | ~absent[cells.row, cells.bit]) for cells in images]
    source = before_of(decoded, deleted)
    _put_image(batch, "after", decoded, images, np.where(has[0] & ~deleted, 0, -1))
    _put_image(batch, "before", decoded, images, source)
    if needs("key"):
        keys = [ImageValues.of(decoded, 2 + which, np.flatnonzero(has[which])) for which in (0, 1)]
        source = np.where(deleted, source, np.where(has[0], 0, np.where(has[1], 1, -1)))
        _put_image(batch, "key", decoded, keys, source, is_whole=False)


def before_of(decoded: DecodedMessages, deleted: Bools) -> Ints:
    """Which image of each data message is the before image (-1: none): a deleted row is, wherever it is (§4.3); that in
    ``data``, unless all of its values are null and there is another."""
    rows = decoded.rows
    has = decoded.has[:, rows]
    source = np.where(has[1], 1, -1)
    source[deleted & has[0]] = 0
    both = np.flatnonzero(deleted & has.all(axis=0))
    cells = ImageValues.of(decoded, 0, both)
    valued = np.bincount(cells.row[as_array(pc.is_valid(decoded.texts.take(cells.number)))], minlength=len(rows))
    source[both[valued[both] == 0]] = 1
    return source


def _put_image(
    batch: EventBatch,
    column: str,
    decoded: DecodedMessages,
    images: Sequence[ImageValues],
    source: Ints,
    is_whole: bool = True,
) -> None:
    """Fills an image from the image ``source`` of each row; null without one, or, unless it ``is_whole``, without
    values."""
    if not batch.wanted.needs(column):
        return
    some = [cells.take(source[cells.row] == which) for which, cells in enumerate(images)]
    row, name, number = (np.concatenate([getattr(one, field) for one in some]) for field in ("row", "name", "number"))
    if len(some[0].row) and len(some[1].row):
        order = np.argsort(row, kind="stable")
        row, name, number = row[order], name[order], number[order]
    rows = decoded.rows
    having = rows[source >= 0] if is_whole else rows[row]
    _put_map(batch, column, decoded, rows[row], name, number, decoded.columns[0], having)
