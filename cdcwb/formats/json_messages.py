"""Formats of messages in JSON: what a small format of a topic is, completely (docs/dissectors.md). A format gives which
messages are its own, what one of them means as an event, and what its fields mean (:class:`JsonMessages`). Containers
(consoles, Parquet, documents, rows of a topic) are those of :mod:`cdcwb.formats.messages`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import messages as containers
from cdcwb.formats.arrays import batch_of, columns_of
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection, Piece, Run, RunRows, TableRequest, Wanted, run_here
from cdcwb.formats.inferred import (
    Tables,
    inferred_rows,
    inferred_schema,
    inferred_version,
    inferred_versions,
    merged_tables,
    note_tables,
)  # fmt: skip
from cdcwb.formats.messages import Messages
from cdcwb.formats.messages.batch import NOT_MESSAGES
from cdcwb.formats.messages.connect import message_tree, plain
from cdcwb.formats.messages.format import (
    MESSAGE_OPTIONS,
    MessageFormat,
    MessagePlan,
    Task,
    file_notes,
    first_pass,
    given_options,
)  # fmt: skip
from cdcwb.formats.messages.reading import container_rows, probe_all
from cdcwb.formats.messages.rows import Where, messages_of
from cdcwb.formats.requests import select
from cdcwb.model import Kind, Problem

__all__ = ["JsonMessages"]

_IMAGES: Final = ("key", "before", "after", "headers")


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture; ``given`` are those of the format itself."""

    mode: str = "PERMISSIVE"
    container: dict[str, Any] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture is read. ``tables``: schema, name and columns of each."""

    given: dict[str, str] = field(default_factory=dict)
    tables: list[tuple[str | None, str, list[str]]] = field(default_factory=list)

    def inferred(self) -> Tables:
        """The tables."""
        return {(schema, name): dict.fromkeys(columns) for schema, name, columns in self.tables}


class JsonMessages(MessageFormat):
    """A format of messages that are JSON objects.

    A format sets ``name``, ``meanings`` (of fields, by their path, such as ``data.id``) and, with a description each,
    ``own_options``; and it has the methods :meth:`claims` and :meth:`event`.
    """

    owner = "of this format"
    own_options: Mapping[str, str] = {}
    meanings: Mapping[str, str] = {}
    plan_type, options_type = Plan, Options
    of_tables: frozenset[str] | None = None

    # --- what a format gives ------------------------------------------------------------------------------------------

    def claims(self, body: Mapping[str, Any]) -> bool:
        """Whether a message is of the format."""
        raise NotImplementedError

    def event(self, body: Mapping[str, Any], options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of :data:`cdcwb.model.EVENTS` that a message gives: at least ``kind``; images, the key and
        headers are dictionaries, whose values become texts. ``options`` are the given ones among ``own_options``.
        Raises ValueError, with a sentence that has the expected and the actual, for a message that cannot be
        decoded."""
        raise NotImplementedError

    # --- the rest -----------------------------------------------------------------------------------------------------

    @property
    def options(self) -> Mapping[str, str]:  # type: ignore[override]
        """The description of every option."""
        shared = {name: text for name, text in MESSAGE_OPTIONS.items() if name != "registry"}
        return {**self.own_options, **shared}

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.BaseFormat.parse_options`."""
        shared, values = given_options(options, self.options, self.name)
        own = {name: str(value) for name, value in values.items() if name in self.own_options}
        return Options(shared["mode"], shared["container"], own)

    def count(self, messages: Messages, schema: str | None, options: Mapping[str, Any]) -> tuple[int, int, bool]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.count`."""
        bodies = [_body(value) for value in messages.value.to_pylist() if value is not None]
        return sum(isinstance(body, dict) and self.claims(body) for body in bodies), len(bodies), True

    def make_plan(self, paths: Sequence[str], options: Options, run: Run) -> Plan:
        """See :meth:`cdcwb.formats.dissector.Format.plan`."""
        found = probe_all(paths, options.container, run)
        found, splits, results = first_pass(self._scan_task, found, options.container, run, options.given)
        plan = Plan(containers=found, splits=splits, given=options.given)
        plan.detected, plan.notes = container_rows(found, options.container), file_notes(found)
        plan.facts["bytes"] = sum(one.size for one in found if one.unit == "byte")
        return _concluded(plan, results)

    def _scan_task(self, given: tuple[Task, dict[str, str]]) -> tuple[int, Tables]:
        task, own = given
        read = (messages for one, (_, start, stop) in task for messages in containers.read(one, start, stop))
        return self._scan(read, own)

    def _scan(self, read: Iterator[Messages], own: Mapping[str, str]) -> tuple[int, Tables]:
        """The number of records, and the tables."""
        tables: Tables = {}
        number = 0
        for messages in read:
            number += len(messages)
            note_tables(tables, self._rows(messages, own))
        return number, tables

    def plan_of_rows(self, name: str, partitions: list[tuple[str, int]], run: RunRows, options: Options) -> Plan:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.plan_of_rows`."""
        plan = Plan(containers=[], splits=[], given=options.given, name=name, partitions=partitions)
        return _concluded(plan, map(pickle.loads, run(_RowScan(self, partitions, options.given))))

    def pieces(self, plan: Plan) -> Iterator[list[Piece]]:
        """See :meth:`cdcwb.formats.dissector.Format.pieces`."""
        for some in plan.splits:
            found = []
            for index, start, stop in some:
                container = plan.containers[index]
                context = {**container.context(start, stop), "options": sorted(plan.given.items())}
                found.append(Piece((container.path,), json.dumps(context)))
            yield found

    def reading(self, plan: Plan) -> Mapping[str, str]:
        """The given options of the format."""
        return plan.given

    def events(
        self, plan: Plan, reading: Any, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.events`."""
        given = {"format": self.name, **where.columns(messages), "raw": None}
        if wanted.raw:
            is_message = pa.array(messages.state == 0)
            given["raw"] = pc.if_else(is_message, messages.value, messages.source)
        rows = self._rows(messages, plan.given)
        if not wanted.images:
            rows = [row | {"before": None, "after": None} for row in rows]
        return batch_of(rows, given, wanted)

    def _rows(self, messages: Messages, own: Mapping[str, str]) -> list[dict[str, Any]]:
        facts = {name: texts.to_pylist() for name, texts in columns_of(messages.facts).items()}
        rows = []
        for number, value in enumerate(messages.value.to_pylist()):
            if messages.state[number]:
                kind, code = NOT_MESSAGES[int(messages.state[number])]
                reason = messages.reasons.get(number, "bytes that are not a message")
                problems = [] if code is None else [{"code": code, "detail": reason}]
                row: dict[str, Any] = {"kind": kind, "problems": problems or None}
            else:
                row = {"kind": Kind.TOMBSTONE} if value is None else self._row(value, own)
                headers = {name: texts[number] for name, texts in facts.items() if texts[number] is not None}
                row["headers"] = {**(row.get("headers") or {}), **headers} or None
            rows.append(row)
        return rows

    def _row(self, value: bytes, own: Mapping[str, str]) -> dict[str, Any]:
        try:
            body = _body(value)
            if isinstance(body, ValueError):
                raise body
            if not isinstance(body, dict):
                raise ValueError(f"expected a JSON object, found {body!r:.40}")
            row = dict(self.event(body, own))
        except (ValueError, KeyError, TypeError, AttributeError) as reason:  # of event: it may expect other fields
            sentence = str(reason) if isinstance(reason, ValueError) else f"{type(reason).__name__}: {reason}"
            return {"kind": Kind.MALFORMED, "problems": [{"code": str(Problem.MALFORMED), "detail": sentence}]}
        for name in _IMAGES:
            if row.get(name) is not None:
                row[name] = {key: None if one is None else plain(one) for key, one in row[name].items()}
        row["table_version"] = inferred_version(row)
        return row

    def table_versions(self, plan: Plan) -> pa.Table:
        """A version of each table, with the columns that its rows have."""
        return inferred_versions(plan.inferred())

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`: all columns are texts."""
        return inferred_schema(plan.inferred(), request)

    def typed(
        self, plan: Plan, reading: Any, messages: Messages, where: Where, request: TableRequest, schema: str | None
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.typed`."""

        def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
            yield from select(self.events(plan, reading, messages, where, wanted, schema), wanted)

        return inferred_rows(read, self.table_schema(plan, request), request)

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`cdcwb.formats.dissector.Format.inspect`."""
        checked = self.parse_options(options)
        container = containers.probe(path, checked.container)
        messages = containers.locate(container, offset)
        plan = self.make_plan([path], Options(container=checked.container, given=checked.given), run_here)
        where = Where(path, 0, container.unit)
        row = self.events(plan, None, messages, where, EVERYTHING, None).to_pylist()[0]
        event = {name: value for name, value in row.items() if value is not None}
        start, length = int(messages.offset[0]), int(messages.length[0])
        if messages.state[0]:
            raw, reason = messages.source[0].as_py() or b"", messages.reasons.get(0, "")
            damage = Field(str(row["kind"]), 0, len(raw), raw, None, reason)
            return Inspection(path, start, length, raw, damage, event, reason)
        value = messages.value[0].as_py()
        tree = message_tree(value, {}, self._meaning)
        return Inspection(path, start, length, value or b"", tree, event, "")

    def _meaning(self, section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
        path = f"{section}.{name}" if section else name
        return text, self.meanings.get(path, self.meanings.get(f"{section}.*", ""))


@dataclass(frozen=True)
class _RowScan:
    """Scans rows of a topic."""

    form: JsonMessages
    partitions: list[tuple[str, int]]
    given: dict[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        read = (messages_of(batch, self.partitions)[0] for batch in batches)
        return pickle.dumps(self.form._scan(read, self.given))


def _body(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as reason:
        return ValueError(str(reason))


def _concluded(plan: Plan, results: Any) -> Plan:
    found = list(results)
    plan.facts["records"] = sum(number for number, _ in found)
    tables = merged_tables(one for _, one in found)
    plan.tables = [(schema, name, list(columns)) for (schema, name), columns in tables.items()]
    return plan
