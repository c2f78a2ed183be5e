"""Formats of messages in JSON: what a small format of a topic is, completely (docs/dissectors.md). A format gives which
messages are its own, what one of them means as an event, and what its fields mean (:class:`JsonMessages`). Containers
(consoles, Parquet, documents, rows of a topic) are those of :mod:`cdcwb.formats.messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import batch_of, columns_of
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages, key_texts
from cdcwb.formats.dissector import Field, TableRequest, Wanted
from cdcwb.formats.json_values import CutOff, parse_json
from cdcwb.formats.kernels import Ints
from cdcwb.formats.messages.connect import message_tree, plain
from cdcwb.formats.messages.format import Batches, MessageFormat, MessagePlan, Options, Pass
from cdcwb.formats.requests import (
    Tables,
    inferred_schema,
    inferred_version,
    inferred_versions,
    merged_tables,
    note_tables,
)  # fmt: skip
from cdcwb.model import Kind, OffsetUnit, Problem
from cdcwb.words import unused_name

_IMAGES: Final = ("key", "before", "after", "headers")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture is read. ``tables``: the columns of each."""

    given: dict[str, str] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)


class JsonMessages(MessageFormat):
    """A format of messages that are JSON objects.

    A format sets ``name``, ``meanings`` (of fields, by their path, such as ``data.id``) and, with a description each,
    ``own_options``; and it has the methods :meth:`claims` and :meth:`event`. If a message may have several rows,
    ``arrays`` are the fields that have an item for each row: such a message is an event for each item of the first of
    them, and every event has its own part of the bytes of the message.

    A number with a point or an exponent is a :class:`msgspec.Raw` in ``body``: its digits as they are written.
    ``shows_keys``: the text of a message's key on its topic is the header ``kafka.key``.
    """

    owner = "this format's"
    without_options = frozenset({"registry", "avro_schema"})
    meanings: Mapping[str, str] = {}
    arrays: Sequence[str] = ()
    shows_keys: bool = False
    plan_type: ClassVar[Any] = Plan
    of_tables: frozenset[str] | None = None

    # --- what a format gives ------------------------------------------------------------------------------------------

    def claims(self, body: Mapping[str, Any]) -> bool:
        """Whether a message is of the format."""
        raise NotImplementedError

    def event(self, body: Mapping[str, Any], options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of :data:`cdcwb.model.EVENTS` that a message gives: at least ``kind``; images, the key and
        headers are dictionaries, whose values become texts. Further, if the message describes its table: ``types``, the
        types of columns by their names, as the source spells them, and ``key_columns``, the names of those of the key.
        ``body`` has in each of ``arrays`` the item of one row, none if the array does not have one for each row;
        ``options`` are the given ones among ``own_options``. Raises ValueError, with a sentence that has the expected
        and the actual, for a message that cannot be decoded."""
        raise NotImplementedError

    def keyed(self, event: dict[str, Any], key: Any) -> Mapping[str, Any]:
        """The event of a message that has this key (decoded; ValueError: not JSON) on its topic; the event itself if
        the key gives nothing. ``event`` is a tombstone, or what :meth:`event` returned."""
        return event

    # --- the rest -----------------------------------------------------------------------------------------------------

    def count(self, messages: Messages, schema: str | None, options: Mapping[str, Any]) -> tuple[int, int, bool]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.count`."""
        bodies = [_parsed(value, []) for value in messages.value.to_pylist() if value is not None]
        return sum(isinstance(body, dict) and self.claims(body) for body in bodies), len(bodies), True

    def begin(self, options: Options, **plan: Any) -> Any:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.begin`."""
        return self.plan_type(given=options.given, **plan)

    def complete(self, plan: Any, options: Options, each: Pass) -> None:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.complete`."""
        self.conclude(plan, each(self._scan_part, options.given), options)

    def _scan_part(self, batches: Batches, container: Container | None, own: Mapping[str, str]) -> Any:
        path = "" if container is None else container.path
        return self.scan((path, rows) for rows in self.rows_of(container, batches, own))

    def rows_of(
        self, container: Container | None, batches: Batches, own: Mapping[str, str]
    ) -> Iterator[list[dict[str, Any]]]:
        """The events of messages as dictionaries, some at a time; values are not texts yet. The messages are a part of
        a ``container``, or rows of a topic (None)."""
        return (self._rows(messages, own, texts=False)[0] for messages, _ in batches)

    def scan(self, batches: Iterator[tuple[str, list[dict[str, Any]]]]) -> Any:
        """What a first pass finds in events, of which each batch is of one file: the number of events, and the
        tables."""
        tables: Tables = {}
        number = 0
        for _, rows in batches:
            number += len(rows)
            note_tables(tables, rows)
        return number, tables

    def conclude(self, plan: Any, results: Iterable[Any], options: Options) -> None:
        """Adds to a plan what :meth:`scan` found in each of its tasks."""
        found = list(results)
        plan.facts["records"] = sum(number for number, _ in found)
        plan.tables = merged_tables(one for _, one in found)

    def reading(self, plan: Plan) -> Mapping[str, str]:
        """The given options of the format."""
        return plan.given

    def events(
        self, plan: Any, reading: Any, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.events`."""
        rows, of, ends = self._rows(messages, plan.given)
        return self.batch(plan, rows, _located(where, messages, of, ends), wanted)

    def batch(self, plan: Any, rows: list[dict[str, Any]], given: Mapping[str, Any], wanted: Wanted) -> pa.RecordBatch:
        """Events as a batch; see :func:`cdcwb.formats.arrays.batch_of`."""
        if not wanted.images:
            given, rows = {**given, "raw": None}, [row | {"before": None, "after": None} for row in rows]
        return batch_of(rows, {"format": self.name, **given}, wanted)

    def _rows(
        self, messages: Messages, own: Mapping[str, str], texts: bool = True
    ) -> tuple[list[dict[str, Any]], Ints, dict[int, list[int]]]:
        """The events as dictionaries, and the number of the message of each; by the index of its first event, where in
        the bytes of a message with several rows each row ends."""
        shown = {**messages.facts, "key": key_texts(messages.key)} if self.shows_keys else messages.facts
        facts = {name: column.to_pylist() for name, column in columns_of(shown).items()}
        keys = messages.key.to_pylist()
        rows: list[dict[str, Any]] = []
        of: list[int] = []
        ends: dict[int, list[int]] = {}
        for number, value in enumerate(messages.value.to_pylist()):
            if messages.state[number]:
                kind, code = NOT_MESSAGES[int(messages.state[number])]
                reason = messages.reasons.get(number, "bytes that are not a message")
                problems = [] if code is None else [{"code": code, "detail": reason}]
                found: list[dict[str, Any]] = [{"kind": kind, "problems": problems or None}]
            else:
                remarks: list[str] = []
                bodies, stops = ([None], [0]) if value is None else self.bodies(value, remarks)
                found = [self._row(body, keys[number], own, texts) for body in bodies]
                for row in found if remarks else ():
                    noted = [{"code": str(Problem.JSON_SYNTAX), "detail": remark} for remark in remarks]
                    row["problems"] = [*(row.get("problems") or ()), *noted]
                if all(row["kind"] == Kind.MALFORMED for row in found):
                    found = found[:1]
                if len(found) > 1:
                    ends[len(rows)] = stops
                headers = {name: column[number] for name, column in facts.items() if column[number] is not None}
                for row in found if headers else ():
                    known = row["headers"] = row.get("headers") or {}
                    for name, text in headers.items():
                        known[unused_name(name, known)] = text
            rows += found
            of += [number] * len(found)
        return rows, np.array(of, dtype=np.int64), ends

    def bodies(self, value: bytes, remarks: list[str]) -> tuple[list[Any], list[int]]:
        """The decoded message, once for each of its rows (None: null; ValueError: why it cannot be decoded), and where
        in its bytes each row ends. ``remarks`` gets what is passed over."""
        body = _parsed(value, remarks)
        items = body.get(self.arrays[0]) if self.arrays and isinstance(body, dict) else None
        if not isinstance(items, list) or len(items) < 2:
            return [body], [len(value)]
        listed = {name: body[name] for name in self.arrays if isinstance(body.get(name), list)}
        bodies = [
            body | {name: [some[at]] if len(some) == len(items) else [] for name, some in listed.items()}
            for at in range(len(items))
        ]
        return bodies, _ends(value, self.arrays[0], len(items))

    def _row(self, body: Any, key: bytes | None, own: Mapping[str, str], texts: bool) -> dict[str, Any]:
        try:
            if isinstance(body, ValueError):
                raise body
            if body is not None and not isinstance(body, dict):
                raise ValueError(f"expected a JSON object, found {body!r:.40}")
            row: dict[str, Any] = {"kind": Kind.TOMBSTONE} if body is None else dict(self.event(body, own))
            if key is not None:
                row = dict(self.keyed(row, _parsed(key, [])))
            row = self.texts(row) if texts else row
        except (ValueError, KeyError, TypeError, AttributeError) as reason:  # of event: it may expect other fields
            sentence = str(reason) if isinstance(reason, ValueError) else f"{type(reason).__name__}: {reason}"
            code = Problem.TRUNCATED if isinstance(reason, CutOff) else Problem.MALFORMED
            return {"kind": Kind.MALFORMED, "problems": [{"code": str(code), "detail": sentence}]}
        row.setdefault("table_version", inferred_version(row))
        return row

    def texts(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event, with texts as the values of its images, key and headers."""
        for name in _IMAGES:
            if event.get(name) is not None:
                event[name] = {
                    key: one if one is None or one.__class__ is str else plain(one) for key, one in event[name].items()
                }
        return event

    def table_versions(self, plan: Any) -> pa.Table:
        """A version of each table, with the columns that its rows have, and their types if messages give them."""
        return inferred_versions(plan.tables)

    def table_schema(self, plan: Any, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`: all columns are texts."""
        return inferred_schema(plan.tables, request)

    def dissected(
        self, plan: Any, messages: Messages, schema: str | None, event: Mapping[str, Any]
    ) -> tuple[Field, str]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.dissected`."""
        return message_tree(messages.value[0].as_py(), {}, self._meaning), ""

    def _meaning(self, section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
        path = f"{section}.{name}" if section else name
        return text, self.meanings.get(path, self.meanings.get(f"{section}.*", ""))


def changed_at(milliseconds: int) -> dict[str, Any]:
    """The columns of an event at this time, in milliseconds since 1970 UTC: ``changed_at``, or ``problems`` for a time
    outside the years 1 to 9999."""
    try:
        return {"changed_at": _EPOCH + timedelta(milliseconds=milliseconds)}
    except OverflowError:
        detail = f"{milliseconds} ms since 1970 is not in the years 1 to 9999"
        return {"problems": [{"code": str(Problem.TIME_RANGE), "detail": detail}]}


def _parsed(value: bytes, remarks: list[str]) -> Any:
    try:
        return parse_json(value, remarks)
    except ValueError as reason:
        return reason


def _ends(value: bytes, array: str, count: int) -> list[int]:
    """Where in a message the items of an array end, in bytes; equal parts of one in which something was passed over."""
    try:
        text = msgspec.json.decode(value, type=dict[str, msgspec.Raw])[array]
    except ValueError:
        return [len(value) * (at + 1) // count for at in range(count)]
    at, ends = value.index(bytes(text)), []
    for item in msgspec.json.decode(text, type=list[msgspec.Raw]):
        at = value.index(bytes(item), at) + len(bytes(item))
        ends.append(at)
    return ends


def _located(where: Where, messages: Messages, of: Ints, ends: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    """The location and the bytes of events. Each of several events of a message ends where its row ends, the last one
    at the end of the message; if the unit is not a byte, all have the offset of the message, and the first its
    length."""
    columns = {**where.columns(messages), "raw": messages.raw}
    if not ends:
        return columns
    columns = {name: one.take(pa.array(of)) if isinstance(one, pa.Array) else one for name, one in columns.items()}
    offset, length, raw = messages.offset[of].copy(), messages.length[of].copy(), columns["raw"].to_pylist()
    for first, stops in ends.items():
        rows, value = slice(first, first + len(stops)), raw[first]
        raw[rows] = [value[start:stop] for start, stop in pairwise([0, *stops[:-1], len(value)])]
        if where.unit == OffsetUnit.BYTE:
            cuts = messages.cuts(int(of[first]), stops[:-1])
            offset[rows], length[rows] = cuts[:-1], np.diff(cuts)
        else:
            length[rows] = [1, *[0] * (len(stops) - 1)]
    return {**columns, "offset": pa.array(offset), "length": pa.array(length), "raw": raw}
