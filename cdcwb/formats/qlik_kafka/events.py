"""Events from messages, and their masks against versions and images (docs/formats/qlik-kafka.md §4, §7).

A batch of messages is decoded by its wire forms into groups of rows that share their columns; each group fills its
records of the batch's columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays import EventBatch, Ints, columns_of
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages, key_texts
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.json_values import as_text
from cdcwb.formats.moments import moments
from cdcwb.formats.qlik_kafka.decode import Bools, Document, Form, Image, Parsed, Rows, decode
from cdcwb.formats.qlik_kafka.versions import LOBS, Settings, Versions, from_metadata
from cdcwb.formats.sequences import UNKNOWN_UNTIL, sequence_times
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unique_names

__all__ = ["FORMAT", "events_of", "fill_header"]


# --- masks ------------------------------------------------------------------------------------------------------------

Report = Callable[[int, Problem, str], None]
"""Takes a problem: row of the group, code, sentence."""


@dataclass(slots=True)
class Masks:
    """What the masks of a group of rows say. ``changed_columns`` and ``present_columns`` are lists of names, null where
    there is no mask; ``data`` and ``before`` say which values of the images (rows by columns of the image) were not
    captured, None: all were."""

    changed_columns: pa.ListArray
    present_columns: pa.ListArray
    data: Bools | None
    before: Bools | None


def read_masks(rows: Rows, updates: Bools, report: Report, wanted: Wanted = EVERYTHING) -> Masks | None:
    """Decodes the masks of a group and, where problems are ``wanted``, compares them with its images; ``updates`` tells
    the rows that are updates. None where there are neither masks nor columns."""
    if rows.version is None:
        return None
    columns = rows.version.bits
    changed, changed_null = _bits(rows, 0, columns, report)
    present, present_null = _bits(rows, 1, columns, report)
    bit_of = {name: bit for bit, name in enumerate(columns) if name}
    absent = None if present is None else _absent(rows, present, present_null, columns, bit_of, report)
    if changed is not None and rows.data is not None and rows.before is not None and wanted.needs("problems"):
        _compare(rows, changed, updates & ~changed_null, absent, bit_of, report)
    return Masks(
        _names(changed if wanted.needs("changed_columns") else None, columns, changed_null, rows.count),
        _names(present if wanted.needs("present_columns") else None, columns, present_null, rows.count),
        _of_image(absent, rows.data, bit_of),
        _of_image(absent, rows.before, bit_of),
    )


def _names(bits: Bools | None, columns: Sequence[str], null: Bools, count: int) -> pa.ListArray:
    if bits is None:
        return pa.nulls(count, pa.list_(pa.string()))
    if "" in columns:  # an ordinal that no column has
        bits = bits & np.array([name != "" for name in columns])
    return bitmask.names(bits, columns, null)


def _bits(rows: Rows, which: int, columns: Sequence[str], report: Report) -> tuple[Bools | None, Bools]:
    masks = rows.masks[which]
    if masks is None or masks.null_count == len(masks):
        return None, np.ones(rows.count, dtype=np.bool_)
    bits, beyond = bitmask.bits(masks, rows.mask_order, len(columns))
    for row in np.flatnonzero(beyond).tolist():
        name, digits = ("changeMask", "columnMask")[which], masks[row].as_py().hex().upper()
        report(row, Problem.MASK, f"{name} {digits:.60} has bits beyond the {len(columns)} columns")
    return bits, pc.is_null(masks).to_numpy(zero_copy_only=False)


def _absent(
    rows: Rows, present: Bools, null: Bools, columns: Sequence[str], bit_of: Mapping[str, int], report: Report
) -> Bools | None:
    """Which columns (rows by bits) were not captured: their bit is 0, and no image has a value for them. None: all
    were."""
    missing = ~present & ~null[:, None]
    if not missing.any():
        return None
    valued = np.zeros_like(missing)
    for image in (rows.data, rows.before):
        if image is not None:
            places, bits = _columns_of(image, bit_of)
            valued[:, bits] |= ~image.nulls[:, places]
    wrong = missing & valued
    for row in np.flatnonzero(wrong.any(axis=1)).tolist():
        names = ", ".join(columns[bit] for bit in np.flatnonzero(wrong[row])[:5].tolist())
        report(row, Problem.MASK_IMAGES, f"by columnMask {names} was not captured, but the row has a value")
    found: Bools = missing & ~valued
    return found


def _of_image(absent: Bools | None, image: Image | None, bit_of: Mapping[str, int]) -> Bools | None:
    """Which values of an image were not captured, of ``absent`` rows by bits."""
    if absent is None or image is None:
        return None
    places, bits = _columns_of(image, bit_of)
    found = np.zeros((len(absent), len(image.names)), dtype=np.bool_)
    found[:, places] = absent[:, bits]
    return found


def _columns_of(image: Image, bit_of: Mapping[str, int]) -> tuple[Ints, Ints]:
    """The places of those columns of an image that have a bit, and their bits."""
    pairs = [(at, bit_of[name]) for at, name in enumerate(image.names) if name in bit_of]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _compare(
    rows: Rows,
    changed: Bools,
    compared: Bools,
    absent: Bools | None,
    bit_of: Mapping[str, int],
    report: Report,
) -> None:
    """Updates whose change mask is not what their images say. Large objects are in no mask."""
    data, before = rows.data, rows.before
    if data is None or before is None or rows.version is None:
        return
    if list(data.names) != list(before.names):
        common = [name for name in data.names if name in before.names]
        data, before = data.select(common), before.select(common)
    places, bits = _columns_of(data, bit_of)
    names = [data.names[at] for at in places.tolist()]
    types = {column.name: column.type for column in rows.version.columns}
    looked_at = np.array([types.get(name) not in LOBS for name in names], dtype=np.bool_)
    wrong = (changed[:, bits] != data.differs(before)[:, places]) & looked_at & compared[:, None]
    if absent is not None:
        wrong &= ~absent[:, bits]
    for row in np.flatnonzero(wrong.any(axis=1)).tolist():
        by_mask = [names[at] for at in np.flatnonzero(wrong[row] & changed[row, bits]).tolist()]
        by_images = [names[at] for at in np.flatnonzero(wrong[row] & ~changed[row, bits]).tolist()]
        hint = " (no mask names a LOB column, and without metadata none is known)"
        unknown = hint if by_images and not rows.version.schema_id else ""
        report(row, Problem.MASK_IMAGES, bitmask.disagreement(by_mask, by_images) + unknown)


# --- reader -----------------------------------------------------------------------------------------------------------

FORMAT: Final = "qlik-kafka"

_OPERATIONS: Final = pa.array([str(Operation(name)) for name in ("INSERT", "UPDATE", "DELETE", "REFRESH")])
_FLAGS: Final = pa.array(["true", "false"])
_WHOLE: Final = "^-?[0-9]{1,19}$"
_OF_IMAGES: Final = ("key", "before", "after", "changed_columns", "present_columns", "problems")
_OF_POSITION: Final = (
    "position", "commit_position", "transaction_id", "event_no", "last_in_transaction", "changed_at", "problems"
)  # fmt: skip
_OF_PLACE: Final = ("commit_position", "event_no", "last_in_transaction", "changed_at", "problems")


def events_of(
    messages: Messages,
    where: Where,
    settings: Settings,
    versions: Versions,
    wanted: Wanted,
    schema: str | None = None,
) -> pa.RecordBatch:
    """The events of one batch of messages; ``schema`` is the Avro schema that the container names."""
    count = len(messages.offset)
    batch = EventBatch(count, wanted)
    batch.constant("format", FORMAT)
    where.fill(batch, messages)
    images = wanted.images and wanted.needs(*_OF_IMAGES)
    decoded = decode(messages, settings, versions, images, schema)
    facts = columns_of({**messages.facts, "key": key_texts(messages.key)})
    tombstones = np.flatnonzero(decoded.forms == Form.TOMBSTONE)
    batch.constant("kind", str(Kind.TOMBSTONE), tombstones)
    _facts(batch, facts, tombstones, [], [])
    _not_messages(batch, messages)
    parsed = decoded.parsed
    for number, document in parsed.metadata:
        _metadata(batch, number, document, facts)
    for rows in parsed.rows:
        _changes(batch, rows, facts)
    for number, remark in parsed.notes:
        batch.problem(number, Problem.JSON_SYNTAX, remark)
    _not_understood(batch, messages, parsed, facts, images)
    if wanted.raw:
        message = messages.state == 0
        raw = messages.value if message.all() else pc.if_else(pa.array(message), messages.value, messages.source)
        batch.put("raw", raw)
    return batch.build()


def _facts(
    batch: EventBatch,
    facts: dict[str, pa.StringArray],
    index: Ints,
    names: list[str],
    columns: list[pa.StringArray],
) -> None:
    """The headers of some records: their own, and what the container says of each. Null where there are none."""
    if not len(index) or not (names or facts):
        return
    if len(index) != batch.count:
        taken = pa.array(index)
        facts = {name: texts.take(taken) for name, texts in facts.items()}
    absent = None
    if any(texts.null_count for texts in facts.values()):
        absent = np.zeros((len(index), len(names) + len(facts)), dtype=np.bool_)
        for at, texts in enumerate(facts.values(), len(names)):
            absent[:, at] = pc.is_null(texts).to_numpy(zero_copy_only=False)
    batch.texts("headers", unique_names([*names, *facts]), [*columns, *facts.values()], index, absent)


def _not_messages(batch: EventBatch, messages: Messages) -> None:
    for state, (kind, code) in NOT_MESSAGES.items():
        index = np.flatnonzero(messages.state == state)
        batch.constant("kind", str(kind), index)
        if code is None:
            continue
        for number in index.tolist():
            batch.problem(number, code, messages.reasons.get(number, "bytes that are not a message"))


def _not_understood(
    batch: EventBatch, messages: Messages, parsed: Parsed, facts: dict[str, pa.StringArray], images: bool
) -> None:
    """The events of messages that are none, and of those that are cut off, which have their complete fields."""
    for number, reason in parsed.bad:
        batch.problem(number, Problem.MALFORMED, reason)
    for number in parsed.cut:
        batch.problem(number, Problem.TRUNCATED, messages.cut_off(number))
    shown = {number for number, _ in parsed.cut_metadata}
    for number, document in parsed.cut_metadata:
        _metadata(batch, number, document, facts, False)
    for rows in parsed.cut_rows:
        shown.update(rows.index.tolist())
        operations = fill_header(batch, rows, facts, False)
        for at in np.flatnonzero(np.asarray(pc.is_valid(_given(rows.header("transactionId"), rows.count)))).tolist():
            batch.problem(int(rows.index[at]), Problem.GAP, "an event of the transaction cannot be read")
        if images and operations.null_count < rows.count:  # else nobody knows whether a row is from before the change
            data, before = (None if image is None else image.nulls for image in (rows.data, rows.before))
            _images(batch, rows, _equal(operations, Operation.DELETE), (data, before))  # a null may be: not captured
    bad = sorted([*(number for number, _ in parsed.bad), *parsed.cut])
    batch.constant("kind", str(Kind.MALFORMED), np.array(bad, dtype=np.int64))
    _facts(batch, facts, np.array([number for number in bad if number not in shown], dtype=np.int64), [], [])


def _metadata(
    batch: EventBatch, number: int, document: Document, facts: dict[str, pa.StringArray], complete: bool = True
) -> None:
    """The event of a metadata message."""
    index = np.array([number])
    body, lineage = document.body, document.body.get("lineage")
    lineage = lineage if isinstance(lineage, dict) else body
    batch.constant("record_type", "MD", index)
    batch.constant("kind", str(Kind.SCHEMA), index)
    for column, value in (
        ("schema_name", lineage.get("schema")),
        ("table_name", lineage.get("table")),
        ("table_version", body.get("schemaId")),
    ):
        batch.constant(column, value if isinstance(value, str) and value else None, index)
    headers = {**document.outer, "schemaId": body.get("schemaId")}
    headers.update({f"lineage.{name}": value for name, value in lineage.items() if not isinstance(value, (dict, list))})
    columns = [pa.array([as_text(value)], pa.string()) for value in headers.values()]
    _facts(batch, facts, index, list(headers), columns)
    problem = document.problem or _unusable(document)
    if complete and problem is not None:
        batch.problem(number, Problem.SCHEMA_TEXT, problem)


def _unusable(document: Document) -> str | None:
    try:
        from_metadata(document.body)
    except ValueError as reason:
        return str(reason)
    return None


def _changes(batch: EventBatch, rows: Rows, facts: dict[str, pa.StringArray]) -> None:
    """The events of a group of data messages."""
    index = rows.index
    operations = fill_header(batch, rows, facts)
    for row, code, sentence in rows.problems:
        batch.problem(int(index[row]), code, sentence)
    updates = _equal(operations, Operation.UPDATE)

    def report(row: int, code: Problem, sentence: str) -> None:
        batch.problem(int(index[row]), code, sentence)

    masks = None
    if batch.wanted.needs(*_OF_IMAGES):
        masks = read_masks(rows, updates, report, batch.wanted)
    if masks is not None:
        batch.put("changed_columns", masks.changed_columns, index)
        batch.put("present_columns", masks.present_columns, index)
    absent = (None, None) if masks is None else (masks.data, masks.before)
    _images(batch, rows, _equal(operations, Operation.DELETE), absent)


def fill_header(
    batch: EventBatch, rows: Rows, facts: dict[str, pa.StringArray], complete: bool = True
) -> pa.StringArray:
    """All of a group's columns but those that come from its images and masks; returns its operations. What is not
    ``complete`` may lack one."""
    index = rows.index
    batch.constant("record_type", rows.record_type, index)
    batch.constant("kind", str(Kind.CHANGE), index)
    batch.constant("schema_name", rows.schema_name, index)
    batch.constant("table_name", rows.table_name, index)
    if rows.version is not None:
        batch.constant("table_version", rows.version.table_version or None, index)
    _facts(batch, facts, index, list(rows.header_names[: rows.shown]), list(rows.headers[: rows.shown]))
    operations = _operation(batch, rows, complete)
    if batch.wanted.needs(*_OF_POSITION):
        _positions(batch, rows)
    for name, column in (("changeMask", "change_mask"), ("columnMask", "column_mask")):
        texts = rows.header(name)
        if texts is not None:
            batch.put(column, texts, index)
    return operations


def _equal(texts: pa.StringArray, value: str) -> Bools:
    found: Bools = pc.fill_null(pc.equal(texts, value), False).to_numpy(zero_copy_only=False)
    return found


def _operation(batch: EventBatch, rows: Rows, complete: bool) -> pa.StringArray:
    """What each row does; UNKNOWN(x) for what Qlik does not list. Null for messages that wait for their schema."""
    found = rows.header("operation")
    if found is None:
        if complete and (rows.version is not None or rows.data is not None):
            for number in rows.index.tolist():
                batch.problem(number, Problem.VALUE, "the headers have no operation")
        return pa.nulls(rows.count, pa.string())
    known = pc.is_in(found, value_set=_OPERATIONS)
    if not pc.all(known).as_py():
        for at in np.flatnonzero(~known.to_numpy(zero_copy_only=False)).tolist():
            value = found[at].as_py()
            batch.problem(
                int(rows.index[at]),
                Problem.VALUE,
                f"operation: expected INSERT, UPDATE, DELETE or REFRESH, found {value!r:.60}",
            )
        spelled = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(found, ""), ")", "")
        found = pc.if_else(known, found, spelled)
    batch.put("operation", found, rows.index)
    return found


def _given(texts: pa.StringArray | None, count: int) -> pa.StringArray:
    """Texts, empty ones as null."""
    if texts is None:
        return pa.nulls(count, pa.string())
    return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), pa.scalar(None, pa.string()), texts)


def _positions(batch: EventBatch, rows: Rows) -> None:
    """Position and transaction, place in it, and time."""
    index, count = rows.index, rows.count
    sequence = _given(rows.header("changeSequence"), count)
    if sequence.null_count < count:
        _, wrong = sequence_times(sequence)
        for at in np.flatnonzero(wrong).tolist():
            sentence = f"changeSequence: expected 16 digits of time and 19 more, found {sequence[at].as_py()!r:.60}"
            batch.problem(int(index[at]), Problem.VALUE, sentence)
        if wrong.any():
            sequence = pc.if_else(pa.array(wrong), pa.scalar(None, pa.string()), sequence)
        batch.put("position", sequence, index)
    batch.put("transaction_id", _given(rows.header("transactionId"), count), index)
    if batch.wanted.needs(*_OF_PLACE):
        _places(batch, rows, sequence)


def _places(batch: EventBatch, rows: Rows, sequence: pa.StringArray) -> None:
    """Place in the transaction, and time."""
    index, count = rows.index, rows.count
    counter = _given(rows.header("transactionEventCounter"), count)
    if counter.null_count < count:
        batch.put("event_no", _whole(batch, rows, counter), index)
    last = _given(rows.header("transactionLastEvent"), count)
    if last.null_count < count:
        last = pc.utf8_lower(last)
        known = pc.is_in(last, value_set=_FLAGS)
        for at in np.flatnonzero(pc.and_(pc.is_valid(last), pc.invert(known)).to_numpy(False)).tolist():
            sentence = f"transactionLastEvent: expected true or false, found {last[at].as_py()!r:.60}"
            batch.problem(int(index[at]), Problem.VALUE, sentence)
        flags = pc.if_else(known, pc.equal(last, "true"), pa.scalar(None, pa.bool_()))
        batch.put("last_in_transaction", flags, index)
        ends = pc.if_else(pc.fill_null(flags, False), sequence, pa.scalar(None, pa.string()))
        batch.put("commit_position", ends, index)
    texts = _given(rows.header("timestamp"), count)
    if texts.null_count < count:
        times, failed = moments(texts)
        for at in np.flatnonzero(failed).tolist():
            sentence = f"timestamp: expected an ISO 8601 time, found {texts[at].as_py()!r:.60}"
            batch.problem(int(index[at]), Problem.VALUE, sentence)
        known = pc.greater_equal(times, pa.scalar(UNKNOWN_UNTIL, times.type))
        batch.put("changed_at", pc.if_else(known, times, pa.scalar(None, times.type)), index)


def _whole(batch: EventBatch, rows: Rows, texts: pa.StringArray) -> pa.Array:
    try:
        if pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():  # Arrow would take 0x10 as well
            return pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        pass
    values: list[int | None] = []
    for at, text in enumerate(texts.to_pylist()):
        plain = text is not None and re.fullmatch(_WHOLE, text) is not None and -(1 << 63) <= int(text) < 1 << 63
        values.append(int(text) if plain else None)
        if text is not None and not plain:
            sentence = f"transactionEventCounter: expected a whole number, found {text!r:.60}"
            batch.problem(int(rows.index[at]), Problem.VALUE, sentence)
    return pa.array(values, pa.int64())


def _images(batch: EventBatch, rows: Rows, deletes: Bools, absent_of: tuple[Bools | None, Bools | None]) -> None:
    """Row images and keys: a deleted row is the before image, wherever it stands (§4.3). ``absent_of``: which values
    of the images (data and before) were not captured; None: all were."""
    everyone = np.arange(rows.count)
    data = None if rows.data is None else rows.data.places(batch.pool)
    before = None if rows.before is None else rows.before.places(batch.pool)
    keys = rows.version.key if rows.version is not None else []
    gone = np.flatnonzero(deletes)
    if rows.data is not None and data is not None:
        empty = rows.data.nulls[gone].all(axis=1) if rows.before is not None else np.zeros(len(gone), dtype=np.bool_)
        from_data, from_before = gone[~empty], gone[empty]
        kept = everyone[~deletes]
        absent = absent_of[0]
        _image(batch, "after", rows, rows.data, data, kept, absent)
        _image(batch, "before", rows, rows.data, data, from_data, absent)
        _key(batch, rows, rows.data, data, np.sort(np.concatenate([kept, from_data])), keys)
    else:
        from_before = gone
    if rows.before is not None and before is not None:
        absent = absent_of[1]
        chosen = np.sort(np.concatenate([everyone[~deletes], from_before]))
        _image(batch, "before", rows, rows.before, before, chosen, absent)
        _key(batch, rows, rows.before, before, chosen if rows.data is None else from_before, keys)


def _image(
    batch: EventBatch, name: str, rows: Rows, image: Image, places: Ints, chosen: Ints, absent: Bools | None
) -> None:
    """Fills an image of some rows, without the columns that were not captured."""
    if not len(chosen):
        return
    batch.entries(name, image.names, places[chosen], rows.index[chosen], None if absent is None else absent[chosen])


def _key(batch: EventBatch, rows: Rows, image: Image, places: Ints, chosen: Ints, keys: list[str]) -> None:
    if not keys or not len(chosen) or not set(keys) <= set(image.names):
        return
    columns = [list(image.names).index(name) for name in keys]
    batch.entries("key", keys, places[np.ix_(chosen, np.array(columns))], rows.index[chosen], None)
