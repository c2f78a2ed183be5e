"""Groups of changes as ``events``, column by column, and as a summary (docs/formats/goldengate.md §8.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.goldengate.exports.groups import Group, image_of
from cdcwb.formats.goldengate.exports.names import OPERATIONS, names_of, role_of, role_of_token, trans_ind
from cdcwb.formats.goldengate.exports.summary import Summary, TableFacts
from cdcwb.formats.goldengate.exports.times import ToUtc, changed_at
from cdcwb.model import Kind, Operation, Problem
from cdcwb.unique_names import unique_names, unused_name

__all__ = ["UNREADABLE", "fill", "summarise"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

POSITION: Final = 20
"""Digits of a position: ten of the trail's sequence number, ten of the record's RBA."""

UNREADABLE: Final = "a record of the transaction cannot be read"
"""Why a transaction has a gap."""

_HALF: Final = POSITION // 2
_SHARED: Final = frozenset({"csn", "xid", "TransInd"})  # of every export; a record's own field of that name is the same
_PLACED: Final = rf"^[0-9]{{{POSITION}}}$"


# --- events -----------------------------------------------------------------------------------------------------------


class _Fields:
    """The fields around the rows of a group, by what they are for."""

    def __init__(self, group: Group) -> None:
        self.group = group
        shape = group.shape
        self.columns: list[tuple[str, str, int]] = [("headers", name, at) for at, name in enumerate(shape.headers)]
        self.columns += [("tokens", name, at) for at, name in enumerate(shape.tokens)]
        self._texts: dict[tuple[str, int], pa.StringArray] = {}

    def text(self, part: str, at: int) -> pa.StringArray:
        """The texts of one field."""
        if (part, at) not in self._texts:
            self._texts[part, at] = self.group.texts(part, at)
        return self._texts[part, at]

    @cached_property
    def roles(self) -> dict[str, tuple[str, int]]:
        """Where the field is that has a role; a token before a field of the same role."""
        found: dict[str, tuple[str, int]] = {}
        for part, name, at in self.columns:
            role = role_of_token(name) if part == "tokens" else _ROLES.get(name) or role_of(name)
            if role is not None and (role not in found or (part == "tokens" and found[role][0] == "headers")):
                found[role] = part, at
        return found

    def of(self, role: str) -> pa.StringArray | None:
        """The texts of the field with a role, empty ones as null; None where there is no such field."""
        place = self.roles.get(role)
        if place is None:
            return None
        texts = self.text(*place)
        return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), pa.scalar(None, pa.string()), texts)

    def positions(self) -> tuple[pa.StringArray | None, list[tuple[int, str]]]:
        """Positions of 20 digits, null where there is none; and the records whose position has another form,
        each with a sentence. Zeros before 20 digits do not count."""
        texts = self.of("position")
        if texts is None:
            sequence, rba = self.of("seqno"), self.of("rba")
            if sequence is None or rba is None:
                return None, []
            texts = pc.binary_join_element_wise(_padded(sequence), _padded(rba), "")
        if pc.all(pc.match_substring_regex(texts, _PLACED)).as_py():
            return texts, []
        found: list[str | None] = []
        wrong: list[tuple[int, str]] = []
        for at, text in enumerate(texts.to_pylist()):
            digits = text is not None and text.isascii() and text.isdigit()
            position = text.lstrip("0").zfill(POSITION) if digits else ""
            good = len(position) == POSITION
            found.append(position if good else None)
            if text is not None and not (good and len(text) <= POSITION):
                sentence = f"expected a position of at most {POSITION} digits, found {text!r:.60}"
                wrong.append((at, f"{sentence}; its leading zeros are dropped" if good else sentence))
        return pa.array(found, pa.string()), wrong


_ROLES: Final = {"type": "operation", "ts": "time"}  # as XML spells them


def _padded(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_lpad(texts, _HALF, "0")


def fill(
    batch: EventBatch,
    group: Group,
    to_utc: ToUtc | None,
    images: bool,
    facts: Mapping[str, pa.StringArray],
    within: bool,
    complete: bool = True,
) -> None:
    """Puts the records of a group into a batch.

    ``facts`` are more headers, for every record of the batch; null: the record does not have it. ``within``: the
    records stand in transactions, whose id, order and end are told elsewhere. Records that are not ``complete`` are cut
    off: they belong to no version of their table, and have images only if their operation is known.
    """
    shape, index = group.shape, np.array(group.index, dtype=np.int64)
    names, fields = names_of(shape.table), _Fields(group)
    operation = _operation(batch, group, index, complete)
    batch.constant("record_type", shape.operation, index)
    batch.constant("schema_name", names.schema, index)
    batch.constant("table_name", names.table, index)
    if complete and names.label is not None and operation not in (None, Operation.DDL):
        batch.constant("table_version", f"{names.label}@1", index)
    positions, wrong = fields.positions()
    if positions is not None:
        batch.put("position", positions, index)
    for at, sentence in wrong:
        batch.problem(int(index[at]), Problem.HEADER_VALUE, sentence)
    _times(batch, fields, index, to_utc)
    ids = _ids(batch, fields, index, within, positions)
    if not complete and "xid" in ids:
        for at in np.flatnonzero(np.asarray(pc.is_valid(ids["xid"]))).tolist():
            batch.problem(int(index[at]), Problem.GAP, UNREADABLE)
    _headers(batch, fields, index, ids, facts)
    if images and (complete or operation is not None):
        _images(batch, group, index, operation)


def _operation(batch: EventBatch, group: Group, index: Ints, complete: bool) -> str | None:
    """Puts kind and operation of the records; returns the latter. What is cut off may lack it."""
    shape = group.shape
    text = shape.operation
    known = OPERATIONS.get(text.upper()) if text is not None else None
    kind = Kind(shape.half) if shape.half is not None else Kind.CHANGE
    operation = known
    if known is None:
        kind = Kind.CONTROL
        sentence = "the record has no operation"
        if text is not None:
            operation = f"UNKNOWN({text})"
            sentence = f"expected the operation I, U, D or T, found {text!r:.60}"
        for number in index.tolist() if complete or text is not None else ():
            batch.problem(number, Problem.UNKNOWN_RECORD_TYPE, sentence)
    batch.constant("kind", str(kind), index)
    batch.constant("operation", operation, index)
    return operation


def _times(batch: EventBatch, fields: _Fields, index: Ints, to_utc: ToUtc | None) -> None:
    texts = fields.of("time")
    if texts is None or texts.null_count == len(texts):
        return
    found = changed_at(texts, to_utc)
    if found.values.null_count < len(index):
        batch.put("changed_at", found.values, index)
    for at in np.flatnonzero(found.wrong).tolist():
        batch.problem(int(index[at]), Problem.VALUE, f"expected a time, found {texts[at].as_py()!r:.60}")
    for at in found.doubtful.tolist():
        sentence = f"{texts[at].as_py()} is ambiguous or missing in its time zone; the earlier one is used"
        batch.problem(int(index[at]), Problem.TIME_ZONE, sentence)


def _ids(
    batch: EventBatch, fields: _Fields, index: Ints, within: bool, positions: pa.StringArray | None
) -> dict[str, pa.StringArray]:
    """Puts the transaction's id and whether it ends here; returns the headers that name them the same way in every
    export."""
    if within:
        return {}
    ids: dict[str, pa.StringArray] = {}
    for role in ("csn", "xid"):
        texts = fields.of(role)
        if texts is not None:
            ids[role] = texts
    if "xid" in ids:
        batch.put("transaction_id", ids["xid"], index)
    told = fields.of("txind")
    if told is not None:
        digits = [trans_ind(text) for text in told.to_pylist()]
        for at, digit in enumerate(digits):
            if digit is None and told[at].is_valid:
                sentence = f"expected a transaction indicator 0 to 3 or B, M, E or W, found {told[at].as_py()!r:.60}"
                batch.problem(int(index[at]), Problem.HEADER_VALUE, sentence)
        ids["TransInd"] = pa.array(digits, pa.string())
        last = pa.array([None if digit is None else digit in "23" for digit in digits], pa.bool_())
        batch.put("last_in_transaction", last, index)
        if positions is not None:
            ends = pc.if_else(pc.fill_null(last, False), positions, pa.scalar(None, pa.string()))
            batch.put("commit_position", ends, index)
    return ids


def _headers(
    batch: EventBatch,
    fields: _Fields,
    index: Ints,
    ids: Mapping[str, pa.StringArray],
    facts: Mapping[str, pa.StringArray],
) -> None:
    """The headers: every field by its own name, tokens by theirs, then what the container says."""
    names = unique_names(name for _, name, _ in fields.columns)
    columns = {name: fields.text(part, at) for name, (part, _, at) in zip(names, fields.columns, strict=True)}
    absent: dict[str, Bools] = {}
    taken = pa.array(index)
    for given, texts in [*ids.items(), *((name, texts.take(taken)) for name, texts in facts.items())]:
        if (given in _SHARED and given in columns) or texts.null_count == len(texts):
            continue
        name = unused_name(given, columns)
        columns[name] = texts
        if texts.null_count:
            absent[name] = np.asarray(pc.is_null(texts))
    gone = None
    if absent:
        nowhere = np.zeros(len(index), dtype=np.bool_)
        gone = np.stack([absent.get(name, nowhere) for name in columns], axis=1)
    batch.texts("headers", list(columns), list(columns.values()), index, gone)


def _images(batch: EventBatch, group: Group, index: Ints, operation: str | None) -> None:
    """Images and keys: a deleted row is the before image, wherever it stands."""
    shape = group.shape
    before, after = image_of(group, "before"), image_of(group, "after")
    parts = {"before": ("before", before), "after": ("after", after)}
    if operation == Operation.DELETE and before is None and after is not None:
        parts = {"before": ("after", after), "after": ("before", None)}
    places: dict[str, Ints] = {}
    for name, (part, image) in parts.items():
        if image is None:
            continue
        columns = [batch.pool.add(group.texts(part, at)) for at in image.places]
        places[name] = np.stack(columns, axis=1) if columns else np.empty((len(index), 0), np.int64)
        batch.entries(name, image.names, places[name], index, image.absent)
    if not shape.keys:
        return
    left = np.ones(len(index), dtype=np.bool_)
    for name in ("after", "before"):
        image = parts[name][1]
        if image is None or not set(shape.keys) <= set(image.names):
            continue
        at = np.array([image.names.index(key) for key in shape.keys])
        usable = left if image.absent is None else left & ~image.absent[:, at].any(axis=1)
        chosen = np.flatnonzero(usable)
        if len(chosen):
            batch.entries("key", list(shape.keys), places[name][np.ix_(chosen, at)], index[chosen], None)
            left = left & ~usable


# --- summary ----------------------------------------------------------------------------------------------------------


def summarise(groups: Sequence[Group], summary: Summary, typed: bool) -> None:
    """Takes the records of a batch into a summary. ``typed``: values are those of a JSON text, else they are texts."""
    for group in groups:
        shape, names, fields = group.shape, names_of(group.shape.table), _Fields(group)
        count = len(group.index)
        summary.records += count
        positions, _ = fields.positions()
        if positions is not None and positions.null_count < count:
            least = pc.min_max(positions).as_py()
            summary.see(least["min"])
            summary.see(least["max"])
        times = fields.of("time")
        if times is not None:
            found = changed_at(times, None)
            summary.timed += found.printed
            summary.zoned += found.zoned
        if names.label is None or shape.operation is None:
            continue
        _columns(summary.tables.setdefault(names.label, TableFacts(names)), group, typed)


def _columns(table: TableFacts, group: Group, typed: bool) -> None:
    table.records += len(group.index)
    if table.keys is None and group.shape.keys:
        table.keys = group.shape.keys
    for part in ("after", "before"):
        image = image_of(group, part)
        if image is None:
            continue
        for name, at in zip(image.names, image.places, strict=True):
            if typed:
                table.column(name).values(group.column(part, at))
            else:
                table.column(name).texts(group.texts(part, at))
