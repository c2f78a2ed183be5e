"""Events from messages, every column for all messages of a batch (docs/formats/qlik-kafka.md §4 to §7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import EventBatch, as_array
from cdcwb.formats.containers.kafka_rows import Where, put_headers
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import UNKNOWN_UNTIL, moments, sequence_times
from cdcwb.formats.qlik_kafka.decode import DecodedMessages, decode
from cdcwb.formats.qlik_kafka.masks import MessageMasks
from cdcwb.formats.qlik_kafka.versions import MessageSettings, VersionLookup
from cdcwb.model import Kind, Operation, Problem

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
    images = wanted.images and wanted.needs(*_OF_IMAGES)
    decoded = decode(messages, settings, versions, images, schema)
    batch = EventBatch(len(messages), wanted, decoded.texts)
    where.fill(batch, messages)
    _fill(batch, decoded, messages)
    if wanted.needs("headers"):
        every = np.arange(batch.count)
        put_headers(batch, messages, lambda texts: decoded.texts.column(texts) + every, _own_headers(decoded))
    if wanted.needs(*_OF_IMAGES):
        _rows(batch, decoded)
    for number, code, sentence in decoded.problems:
        batch.problem(number, code, sentence)
    return batch.build()


# --- kinds and headers ------------------------------------------------------------------------------------------------


def _fill(batch: EventBatch, decoded: DecodedMessages, messages: Messages) -> None:
    """All columns but those of images, masks, headers and bytes, with their problems."""
    groups, grouped = decoded.groups, np.flatnonzero(decoded.group >= 0)
    of = pa.array(decoded.group[grouped])
    batch.put("format", FORMAT)
    shared = {
        "kind": [str(one.kind) for one in groups],
        "record_type": [one.record_type for one in groups],
        "schema_name": [one.table.schema for one in groups],
        "table_name": [one.table.table for one in groups],
        "table_version": [one.table_version for one in groups],
    }
    for name, texts in shared.items() if groups else ():
        batch.put(name, pa.array(texts, pa.string()).take(of), grouped)
    tombstones = as_array(pc.is_null(messages.value)) & (messages.state == 0)
    batch.put("kind", str(Kind.TOMBSTONE), np.flatnonzero(tombstones))
    bad = np.array(sorted(number for number, _, _ in decoded.bad), dtype=np.int64)
    batch.put("kind", str(Kind.MALFORMED), bad)
    for number, code, reason in decoded.bad:
        batch.problem(number, code, reason)
    for state, (kind, problem) in NOT_MESSAGES.items():
        index = np.flatnonzero(messages.state == state)
        batch.put("kind", str(kind), index)
        if problem is not None:
            for number in index.tolist():
                batch.problem(number, problem, messages.reasons.get(number, "bytes that are not a message"))
    if decoded.is_row.any():
        _from_headers(batch, decoded)
    for group, index in decoded.members:
        if group.problem is not None:
            for number in index.tolist():
                batch.problem(number, *group.problem)


def _from_headers(batch: EventBatch, decoded: DecodedMessages) -> None:
    """The columns that come from the headers of data messages; reports what is not as it must be."""
    needs = batch.wanted.needs

    def report(wrong: Bools, texts: pa.StringArray, name: str, expected: str) -> None:
        for row in np.flatnonzero(wrong).tolist():
            sentence = f"{name}: expected {expected}, found {texts[row].as_py()!r:.60}"
            batch.problem(row, Problem.VALUE, sentence)

    def given(name: str) -> pa.StringArray:  # null for empty ones
        texts = decoded.header(name)
        return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), pa.scalar(None, pa.string()), texts)

    numbers = decoded.numbers_of("operation")
    texts, there = decoded.texts.gather(numbers), numbers != 0
    known = as_array(pc.is_in(texts, pa.array(_OPERATIONS)))
    for group, index in decoded.members:
        if group.kind == Kind.CHANGE and group.is_decoded:
            for number in index[~there[index]].tolist():
                batch.problem(number, Problem.VALUE, "the headers have no operation")
    report(there & ~known, texts, "operation", "INSERT, UPDATE, DELETE or REFRESH")
    if not known.all():
        spelled = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(texts, ""), ")", "")
        texts = pc.if_else(pa.array(~there), pa.scalar(None, pa.string()), pc.if_else(known, texts, spelled))
    batch.put("operation", texts)
    if needs("position", "commit_position", "last_in_transaction", "problems"):
        texts = given("changeSequence")
        _, wrong = sequence_times(texts)
        report(wrong, texts, "changeSequence", "16 digits of time and 19 more")
        position = pc.if_else(pa.array(wrong), pa.scalar(None, pa.string()), texts) if wrong.any() else texts
        batch.put("position", position)
    if needs("transaction_id"):
        batch.put("transaction_id", given("transactionId"))
    if needs("event_no", "problems"):
        texts = given("transactionEventCounter")
        is_small = pc.or_(pc.less(pc.utf8_length(texts), len(_MOST)), pc.less_equal(texts, _MOST))
        is_whole = pc.fill_null(pc.and_(pc.match_substring_regex(texts, _WHOLE), is_small), True)
        report(~as_array(is_whole), texts, "transactionEventCounter", "a whole number")
        batch.put("event_no", pc.cast(pc.if_else(is_whole, texts, pa.scalar(None, pa.string())), pa.int64()))
    if needs("commit_position", "last_in_transaction", "problems"):
        texts = given("transactionLastEvent")
        lower = pc.utf8_lower(texts)
        is_last, is_known = pc.equal(lower, "true"), pc.is_in(lower, pa.array(["true", "false", None]))
        report(~as_array(is_known), texts, "transactionLastEvent", "true or false")
        batch.put("last_in_transaction", pc.if_else(is_known, is_last, pa.scalar(None, pa.bool_())))
        batch.put("commit_position", pc.if_else(pc.fill_null(is_last, False), position, pa.scalar(None, pa.string())))
    if needs("changed_at", "problems"):
        texts = given("timestamp")
        times, wrong = moments(texts)
        report(wrong, texts, "timestamp", "an ISO 8601 time")
        is_time = pc.greater_equal(times, pa.scalar(UNKNOWN_UNTIL, times.type))
        batch.put("changed_at", pc.if_else(is_time, times, pa.scalar(None, times.type)))
    for name, column in (("changeMask", "change_mask"), ("columnMask", "column_mask")):
        if needs(column):
            batch.put(column, decoded.header(name))


def _own_headers(decoded: DecodedMessages) -> Iterator[tuple[Ints, Iterable[str], Ints]]:
    """The messages of each group, the names of their headers, and the numbers of the values."""
    for group, index in decoded.members:
        own = np.array([[number, step] for _, number, step in group.headers], dtype=np.int64).reshape(-1, 2)
        yield index, (name for name, _, _ in group.headers), own[:, 0] + own[:, 1] * decoded.origin[index, None]


# --- images -----------------------------------------------------------------------------------------------------------


def _rows(batch: EventBatch, decoded: DecodedMessages) -> None:
    """Images, keys and masks of data messages."""
    needs, has = batch.wanted.needs, decoded.has
    if not decoded.is_row.any():
        return
    masks = MessageMasks(decoded, batch.problem)
    masks.read()
    for which, name in enumerate(("changed_columns", "present_columns")):
        if needs(name):
            batch.put(name, masks.columns(which))
    if not has.any():
        return
    operation = decoded.header("operation")
    deleted, updated = (as_array(pc.equal(operation, str(one))) for one in ("DELETE", "UPDATE"))
    absent = masks.absent()
    if needs("problems"):
        masks.compare(updated & has.all(axis=0), absent)
    before, after = _before(decoded, deleted), np.where(has[0] & ~deleted, 0, -1)
    of_key = np.where(deleted, before, np.where(has[0], 0, np.where(has[1], 1, -1)))
    for group, messages in decoded.members:
        for which, image in enumerate(group.images):
            for column, source, columns in (
                ("before", before, image),
                ("after", after, image),
                ("key", of_key, group.key(which) or None),
            ):
                some = messages[source[messages] == which]
                if columns is not None and len(some):
                    bits = group.bits(columns)
                    lacking = None if absent is None or column == "key" else absent[some[:, None], bits] & (bits >= 0)
                    batch.entries(column, [*columns], decoded.values(columns, some), some, lacking)


def _before(decoded: DecodedMessages, deleted: Bools) -> Ints:
    """Which image of each message is the before image (-1: none): a deleted row is, wherever it is (§4.3); that in
    ``data``, unless all of its values are null and there is another."""
    source = np.where(decoded.has[1], 1, -1)
    source[deleted & decoded.has[0]] = 0
    both = deleted & decoded.has.all(axis=0)
    for group, messages in decoded.members if both.any() else ():
        some = messages[both[messages]]
        source[some[~decoded.are_valid(group.images[0] or {}, some).any(axis=1)]] = 1
    return source
