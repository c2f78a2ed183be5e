"""The changes of any capture as events (docs/formats/idm-event-log.md §7).

An insert or a refresh becomes an add with every value of the after image, an update a modify of the changed columns, a
delete a delete. Other changes are left out, with the reason.
"""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import differ, each_different
from cdcwb.filters import labels
from cdcwb.formats.idm_event_log.decode import xml_unfit
from cdcwb.formats.requests import having
from cdcwb.index.images import Pairs
from cdcwb.model import Operation, Outcome, Problem
from cdcwb.xds.document import ATTRIBUTE, EVENT, Verb, association, empty, quoted
from cdcwb.xds.rows import Bools, Ints, flags, put
from cdcwb.xds.settings import Settings

LEFT_OUT: Final = pa.schema([("row", pa.int64()), ("reason", pa.string())])
"""Changes that have no event: their row, from 0, and the reason."""

NO_KEY: Final = "no key is known of "
"""The beginning of the reason for leaving out changes of a table without a key."""

_VERBS: Final = {
    Operation.INSERT: Verb.ADD,
    Operation.REFRESH: Verb.ADD,
    Operation.UPDATE: Verb.MODIFY,
    Operation.DELETE: Verb.DELETE,
}

_ROWS = 50_000  # changes at a time

_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")


class Rendered(NamedTuple):
    """Events, the changes that were left out, and the row of each event's change."""

    events: pa.Table
    left_out: pa.Table
    rows: pa.Int64Array


def events_of_changes(changes: pa.Table | pa.RecordBatch, settings: Settings, *, event: int = 1) -> Rendered:
    """Rows of :data:`cdcwb.model.CHANGES`, in their order, as rows of :data:`~cdcwb.xds.document.EVENT`.

    Events are numbered from ``event`` on, ``settings.batch_size`` to a document, with document 1 holding event 1. Left
    out are changes of other operations, without a key or an image, of transactions that were not committed, and those
    with bytes that are not in the character set or a character that XML 1.0 does not allow. The association is that of
    the key before the change. Key columns are attributes like all others. An update removes the old value if the before
    image has it, else all values; a column that the after image lacks is skipped. Hexadecimal values of columns of the
    type octet become Base64.
    """
    batches, left_out, rows = [], [], []
    begin = 0
    table = pa.Table.from_batches([changes]) if isinstance(changes, pa.RecordBatch) else changes
    for batch in table.to_batches(max_chunksize=_ROWS):
        if not len(batch):
            continue
        converter = _Batch(batch, settings)
        places, columns = converter.events()
        numbers = np.arange(event, event + len(places))
        documents = (numbers - 1) // settings.batch_size + 1
        batches.append(pa.record_batch([pa.array(documents), pa.array(numbers), *columns], schema=EVENT))
        without, reasons = converter.left_out()
        left_out.append(pa.record_batch([pa.array(begin + without), reasons], schema=LEFT_OUT))
        rows.append(begin + places)
        event += len(places)
        begin += len(batch)
    return Rendered(
        pa.Table.from_batches(batches, schema=EVENT),
        pa.Table.from_batches(left_out, schema=LEFT_OUT),
        pa.array(np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)),
    )


class _Attributes(NamedTuple):
    """Attributes of many rows, concatenated; ``remove`` and ``add`` as in EVENT."""

    row: Ints
    name: pa.StringArray
    remove_all: Bools
    remove: pa.StringArray
    add: pa.StringArray


class _Batch:
    """Converts a batch of changes to events."""

    def __init__(self, changes: pa.RecordBatch, settings: Settings) -> None:
        self._reasons = np.full(len(changes), None, dtype=object)
        self._open = np.ones(len(changes), dtype=np.bool_)
        self._changes = changes
        self._settings = settings
        operations = changes["operation"]
        verbs = [_VERBS.get(value, "") for value in operations.dictionary_encode().dictionary.to_pylist()]
        code = pc.fill_null(operations.dictionary_encode().indices, len(verbs)).to_numpy(zero_copy_only=False)
        self._verb = np.array([*verbs, ""], dtype=object)[code]
        self._labels = labels(changes)

    def events(self) -> tuple[Ints, list[pa.Array]]:
        """The rows that are events, and their verb, class name, association and attributes."""
        self._leave_out_what_is_no_event()
        associations = self._associations()
        attributes = self._attributes()
        used = np.flatnonzero(self._open)
        taken = pa.array(used)
        verbs = pa.array(self._verb[used].tolist(), pa.string())
        number = np.full(len(self._changes), -1, dtype=np.int64)
        number[used] = np.arange(len(used))
        chosen = _picked(attributes, number[attributes.row] >= 0)
        first = np.searchsorted(number[chosen.row], np.arange(len(used) + 1))
        types = self._types(chosen)
        values = [_as_octets(values, types) for values in (chosen.remove, chosen.add)]
        columns = [chosen.name, types, pa.array(chosen.remove_all), *values]
        # without a value there is no type
        without = pc.and_(columns[3].is_null(), columns[4].is_null())
        columns[1] = pc.if_else(without, pa.scalar(None, pa.string()), columns[1])
        structs = pa.StructArray.from_arrays(columns, fields=list(ATTRIBUTE))
        lists = pa.ListArray.from_arrays(pa.array(first, pa.int32()), structs)
        return used, [verbs, self._classes().take(taken), associations.take(taken), lists]

    def left_out(self) -> tuple[Ints, pa.StringArray]:
        """The rows without an event, and the reasons; call :meth:`events` first."""
        rows = np.flatnonzero(~self._open)
        return rows, pa.array(self._reasons[rows].tolist(), pa.string())

    def _leave_out(self, wrong: Bools, reason: str) -> None:
        self._reasons[wrong & self._open] = reason
        self._open = self._open & ~wrong

    def _leave_out_what_is_no_event(self) -> None:
        changes = self._changes
        for operation in _distinct(changes["operation"]):
            if operation not in _VERBS:
                shown = "a change without an operation" if operation is None else operation
                self._leave_out(_equal(changes["operation"], operation), f"{shown} is not an event")
        for outcome in _distinct(changes["outcome"]):
            if outcome not in (None, Outcome.COMMITTED):
                self._leave_out(_equal(changes["outcome"], outcome), f"not committed: its outcome is {outcome}")
        self._leave_out(~_valid(changes["table_name"]) | empty(changes["table_name"]), "it names no table")
        keyless = ~_valid(changes["key"]) | (_lengths(changes["key"]) == 0)
        for label in _distinct(self._labels.filter(pa.array(keyless))):
            reason = f"{NO_KEY}{label}; give it with the option keys={label}:column+column, or --infer-keys"
            self._leave_out(keyless & _equal(self._labels, label), reason)
        no_after = ~_valid(changes["after"]) & np.isin(self._verb, (Verb.ADD, Verb.MODIFY))
        self._leave_out(no_after, "it has no after image")
        self._leave_out(having(changes["problems"], Problem.CHARSET), "it has bytes that are not in the character set")

    def _associations(self) -> pa.StringArray:
        """The association of each change; null if it has none."""
        changes = self._changes
        keys = _pairs_of(changes["key"], self._open)
        before = _pairs_of(changes["before"], self._verb == Verb.MODIFY)
        values = pc.coalesce(before.take(before.find(keys.rows, keys.names)), keys.values)
        unwritable = ~_valid(keys.names) | empty(keys.names) | differ(keys.names, quoted(keys.names))
        for wrong, reason in (
            (~_valid(values), "a column of its key is NULL"),
            (unwritable, "the name of a column of its key cannot be part of an association"),
            (xml_unfit(values) | xml_unfit(keys.names), "its key has a character that XML 1.0 cannot hold"),
        ):
            self._leave_out(_rows(keys.rows[wrong], len(changes)), reason)
        pairs = pc.binary_join_element_wise(keys.names, quoted(values), "=")
        first = np.searchsorted(keys.rows, np.arange(len(changes) + 1))
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(first, pa.int32()), pairs), "+")
        schemas = pc.coalesce(changes["schema_name"], pa.scalar(self._settings.schema, pa.string()))
        associations = association(joined, changes["table_name"], schemas)
        self._leave_out(xml_unfit(associations), "its table or schema has a character that XML 1.0 cannot hold")
        return associations

    def _attributes(self) -> _Attributes:
        """The attributes of all adds and modifies, in the order of their rows; leaves out rows that cannot be
        events."""
        added = _pairs_of(self._changes["after"], self._open & (self._verb == Verb.ADD))
        nothing, never = pa.nulls(len(added.rows), pa.string()), np.zeros(len(added.rows), dtype=np.bool_)
        adds = _picked(_Attributes(added.rows, added.names, never, nothing, added.values), _valid(added.values))
        modifying = self._open & (self._verb == Verb.MODIFY)
        modifies = self._modified(modifying)
        unchanged = modifying & ~_rows(modifies.row, len(self._changes))
        self._leave_out(unchanged, "no column is known to have changed")
        row = np.concatenate([adds.row, modifies.row])
        order = np.argsort(row, kind="stable")
        both = ((adds.name, modifies.name), (adds.remove, modifies.remove), (adds.add, modifies.add))
        name, remove, add = (pa.concat_arrays(texts).take(pa.array(order)) for texts in both)
        remove_all = np.concatenate([adds.remove_all, modifies.remove_all])[order]
        attributes = _Attributes(row[order], name, remove_all, remove, add)
        for wrong, reason in (
            (~_valid(attributes.name) | empty(attributes.name), "a column has no name"),
            (
                xml_unfit(attributes.name) | xml_unfit(attributes.remove) | xml_unfit(attributes.add),
                "a value or a column name has a character that XML 1.0 cannot hold",
            ),
        ):
            self._leave_out(_rows(attributes.row[wrong], len(self._changes)), reason)
        return attributes

    def _modified(self, modifying: Bools) -> _Attributes:
        before, after = (_pairs_of(self._changes[image], modifying) for image in ("before", "after"))
        changed = self._changes["changed_columns"]
        known = _valid(changed)
        named = np.flatnonzero(modifying & known)
        lists = changed.take(pa.array(named))
        of_lists = np.repeat(named, _lengths(lists))
        silent = ~known[after.rows]
        row = np.concatenate([of_lists, after.rows[silent]])
        name = pa.concat_arrays([pc.list_flatten(lists), after.names.filter(pa.array(silent))])
        new, old = after.find(row, name), before.find(row, name)
        add, remove = after.take(new), before.take(old)
        remove_all = old < 0
        chosen = (new >= 0) & (_valid(add) | _valid(remove) | remove_all)
        chosen &= known[row] | remove_all | differ(remove, add)
        return _picked(_Attributes(row, name, remove_all, remove, add), chosen)

    def _classes(self) -> pa.StringArray:
        """The class name of each row."""
        settings, tables = self._settings, self._changes["table_name"]

        def name(label: str, table: str) -> str:
            return settings.class_names.get(label) or settings.class_names.get(table) or table

        return each_different((self._labels, tables), name)

    def _types(self, attributes: _Attributes) -> pa.StringArray:
        """The type of each attribute."""
        labels = self._labels.take(pa.array(attributes.row))
        return each_different((labels, attributes.name), self._settings.type_of)


def _pairs_of(maps: pa.MapArray, wanted: Bools) -> Pairs:
    """The pairs of the wanted rows."""
    return Pairs(maps if wanted.all() else maps.take(pa.array(np.arange(len(maps)), mask=~wanted)))


def _picked(attributes: _Attributes, chosen: Bools) -> _Attributes:
    mask = pa.array(chosen)
    row, name, remove_all, remove, add = attributes
    return _Attributes(row[chosen], name.filter(mask), remove_all[chosen], remove.filter(mask), add.filter(mask))


def _as_octets(values: pa.StringArray, types: pa.StringArray) -> pa.StringArray:
    """Hexadecimal values of the type octet as Base64; other values are unchanged."""
    octets = flags(pc.equal(types, "octet"))
    texts = [_base64(text) for text in values.filter(pa.array(octets)).to_pylist()]
    return put(values, octets, pa.array(texts, pa.string()))


def _base64(text: str | None) -> str | None:
    return text if text is None or not _HEX.fullmatch(text) else base64.b64encode(bytes.fromhex(text)).decode()


def _distinct(texts: pa.StringArray) -> list[str | None]:
    values: list[str | None] = pc.unique(texts).to_pylist()
    return values


def _equal(texts: pa.StringArray, wanted: str | None) -> Bools:
    return flags(texts.is_null() if wanted is None else pc.equal(texts, wanted))


def _rows(rows: Ints, count: int) -> Bools:
    """A mask of ``count`` rows, true for the given ones."""
    mask = np.zeros(count, dtype=np.bool_)
    mask[rows] = True
    return mask


def _valid(values: pa.Array) -> Bools:
    return flags(values.is_valid())


def _lengths(lists: pa.Array) -> Ints:
    """The number of entries of each list or map; 0 for null."""
    offsets = lists.offsets.to_numpy()
    lengths: Ints = np.where(_valid(lists), np.diff(offsets), 0)
    return lengths
