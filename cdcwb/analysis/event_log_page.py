"""The content of the event log page: rows with their decisions, the objects with most rows, example documents.

Results are small lists of records, together with the total numbers. Decisions are those of the complete log, even if
only a part of it is shown. A capture of another format has a smaller page of the same structure for its changes as XDS
(:mod:`cdcwb.analysis.xds_changes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.event_log import LOCATION, location_texts, log_events
from cdcwb.analysis.frames import TableStore
from cdcwb.analysis.xds import Published, counted, publish_log
from cdcwb.charts.decisions import LOOKS
from cdcwb.dataset import Batches, Rows, complete_keys, total
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.model import Operation
from cdcwb.words import count, joined, moment, plural, visible
from cdcwb.xds import DECISIONS as ROW_DECISIONS
from cdcwb.xds import ROWS, SETTINGS, Decision, Settings, to_decisions

Records = list[dict[str, Any]]

DECISIONS: Final = tuple(str(one) for one in Decision)
"""The decisions, in display order."""

_OBJECT: Final = ("table_name", "table_key")
_OF_DOCUMENT: Final = 40  # rows that are listed with a document
_MOST_XML: Final = 60_000  # characters of a document that are shown
_VALUE: Final = 1000  # characters of a value that are shown


def evenly(records: Records, by: str, order: tuple[str, ...], limit: int) -> Records:
    """At most ``limit`` records, with an equal share for every value of ``by``; the values in ``order``, the records of
    each in their own order."""
    kinds = [[record for record in records if record[by] == name] for name in order]
    first = sorted((rank, kind) for kind, held in enumerate(kinds) for rank in range(len(held)))[:limit]
    room = Counter(kind for _, kind in first)
    return [record for kind, held in enumerate(kinds) for record in held[: room[kind]]]


def general(reasons: pa.Array) -> pa.Array:
    """Reasons without the record numbers, document numbers and times that they name, so that equal reasons are counted
    together."""
    shorter = pc.replace_substring_regex(reasons, r"\b(record|document) \d+", r"\1 …")
    shorter = pc.replace_substring_regex(shorter, r"\d{4}-\d\d-\d\dT[\d:.]+Z", "…")
    return pc.replace_substring_regex(shorter, r"^record_id \S+ (is|has|comes)", r"record_id … \1")


class Page(ABC):
    """Decided rows, and the documents of those that are published."""

    kind: ClassVar[str]
    """The column by which rows are counted."""
    rows: Rows
    published: Published

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Numbers."""

    @property
    def _counts(self) -> Records:
        return counted(self.rows, [self.kind, "decision"])

    @cached_property
    def left_out(self) -> int:
        """How many rows are not published."""
        return sum(row["rows"] for row in self._counts if row["decision"] != str(Decision.PUBLISHED))

    def first_by(self, rows: Rows, by: str, limit: int) -> Records:
        """The first rows of the capture with each value of a column, in its order."""
        first: Records = rows.first(LOCATION, limit, [by]).to_pylist()
        return sorted(first, key=lambda row: [row[name] for name in LOCATION])

    def texts(self, documents: Sequence[int]) -> Records:
        """Some documents in their order: ``document``, ``events``, ``length`` and the first characters of ``xml``."""
        if not documents:
            return []
        texts = self.published.documents_of(self.published.numbered.where(partial(_of_documents, documents))).table()
        return [
            {name: row[name] for name in ("document", "events")}
            | {"xml": row["xml"][:_MOST_XML], "length": len(row["xml"])}
            for row in texts.sort_by("document").to_pylist()
        ]


def _of_documents(documents: Sequence[int], batch: pa.RecordBatch) -> pa.Array:
    return pc.is_in(batch["document"], pa.array(documents, pa.int64()))


_SHOWN: Final = ("status", "event_time", "perpetrator", "old_value", "new_value", "event_us")
_LATEST: Final = (1 << 63) - 1


class LogPage(Page):
    """An event log with all decisions.

    ``complete`` is the complete log, ``part`` the part of it that is shown. ``folder`` stores the tables of the page as
    Parquet; None: nothing is stored.
    """

    kind: ClassVar[str] = "event_type"

    def __init__(
        self,
        complete: Any,
        part: Any,
        settings: Settings,
        snapshot: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self._store = TableStore(folder, ("decisions",))
        self._decoded = TableStore()
        self.published = publish_log(complete, settings, snapshot or None)
        rows = self.published.numbered.map(partial(_decided, settings), _DECIDED)
        if part is not complete:
            shown = log_events(part).map(_located, pa.schema([_AT, _IS_SHOWN]))
            located = rows.map(lambda batch: batch.append_column(_AT, location_texts(batch)), _DECIDED.append(_AT))
            located = located.with_column_of(shown, [_AT.name], _IS_SHOWN.name)
            rows = located.where(lambda batch: batch[_IS_SHOWN.name].is_valid())
        self.rows = self._store.keep("decisions", rows.select(_DECIDED.names))

    # --- counts -------------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Records:
        """The number of rows by event_type (None: none of the eight) and decision."""
        return sorted(self._counts, key=lambda r: (r["event_type"] or 99, DECISIONS.index(r["decision"])))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Numbers: ``rows``, ``decisions_…`` for each decision, ``documents``, ``events``, ``objects``."""
        numbers: dict[str, Any] = {"rows": sum(row["rows"] for row in self.counts)}
        for name in DECISIONS:
            numbers[f"decisions_{name}"] = sum(row["rows"] for row in self.counts if row["decision"] == name)
        numbers["documents"] = self._documents.fold(len, total)
        numbers["events"] = self._documents.fold(lambda batch: pc.sum(batch["events"]).as_py(), total)
        numbers["objects"] = self._objects.fold(lambda batch: len(batch) - batch["table_name"].null_count, total)
        return numbers

    @cached_property
    def reasons(self) -> Records:
        """Why rows are not published, with the number of rows for each reason, most first within a decision; and the
        remarks on published rows."""
        names = ("decision", "reason", "record_id")
        schema = pa.schema([_DECIDED.field(name) for name in names])
        rows = self.rows.map(
            lambda batch: batch.select(names).set_column(1, "reason", general(batch["reason"])), schema
        )
        counts = counted(rows, ["decision", "reason"], record_id="min")
        for row in counts:
            row["first_record_id"] = row.pop("record_id")
        return sorted(counts, key=lambda r: (DECISIONS.index(r["decision"]), -r["rows"], r["reason"] or ""))

    def perpetrators(self) -> Records:
        """Who made the changes, most rows first, and whether that is the driver's user."""
        rows, published = Counter[str | None](), Counter[str | None]()
        for row in counted(self.rows, ["perpetrator", "decision"]):
            rows[row["perpetrator"]] += row["rows"]
            published[row["perpetrator"]] += row["rows"] if row["decision"] == str(Decision.PUBLISHED) else 0
        most = sorted(rows, key=lambda name: (-rows[name], name or ""))
        return [{"perpetrator": name, "rows": rows[name], "published": published[name]} for name in most]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def unpublished(self, limit: int = 50) -> Records:
        """Rows that are not published, with their reasons; each decision has an equal share."""
        rows = self.rows.where(lambda batch: pc.not_equal(batch["decision"], str(Decision.PUBLISHED)))
        return evenly(self.first_by(rows, "decision", limit), "decision", DECISIONS, limit)

    @cached_property
    def _objects(self) -> Rows:
        """The objects, with their number of rows (``of``)."""
        rows = self.rows.where(lambda batch: batch["table_key"].is_valid()).select(_OBJECT)
        sizes = partial(_groups, _OBJECT, [([], "count_all")], _SIZES)
        return self._decoded.keep("objects", rows.by_key(_OBJECT, [], sizes, _SIZES))

    def objects(self, lanes: int = 40, rows: int = 60) -> Records:
        """The first rows of the objects with most rows, in processing order (``place`` in the object's history, from
        1), each with the object's number of rows (``of``) and its ``lane``, from 0; the object with most rows first."""
        sizes = self._objects.first([("of", "descending"), *_OBJECT], lanes)
        busiest = {tuple(row[name] for name in _OBJECT): row["of"] for row in sizes.to_pylist()}
        names = _object_texts(sizes).combine_chunks()
        of_busiest = self.rows.where(lambda batch: pc.is_in(_object_texts(batch), names))
        ranked = of_busiest.map(partial(_ranked, self.settings.future_events), _RANKED)
        first: Records = ranked.first(["at", "id", *LOCATION], rows, _OBJECT).to_pylist()
        histories = {key: [*held] for key, held in groupby(first, key=lambda r: tuple(r[name] for name in _OBJECT))}
        shown = ("record_id", "event_type", "column_name", "decision", "reason", "document", "event_time")
        return [
            {name: row[name] for name in (*_OBJECT, *shown)} | {"of": of, "place": place, "lane": lane}
            for lane, (key, of) in enumerate(busiest.items())
            for place, row in enumerate(histories[key], 1)
        ]

    # --- documents ----------------------------------------------------------------------------------------------------

    @cached_property
    def _documents(self) -> Rows:
        """The documents, with the number of their events and rows."""
        rows = self.rows.where(lambda batch: batch["document"].is_valid())
        numbers = partial(_groups, ["document"], [("event", "count_distinct"), ([], "count_all")], _NUMBERS)
        return self._decoded.keep("documents", rows.by_key(["document"], [], numbers, _NUMBERS))

    def documents(self, limit: int = 10) -> Records:
        """The first document, the first of each published event type, and the largest: each with ``document``,
        ``events``, ``why``, ``xml`` and its ``rows``; in document order. Rows that were overridden are listed after
        those that override them."""
        chosen = self._chosen(limit)
        rows = self._rows_of(list(chosen)) if chosen else []
        return [
            text
            | {"why": chosen[text["document"]]}
            | _rows_of_document([row for row in rows if text["document"] in (row["document"], row["of_document"])])
            for text in self.texts(list(chosen))
        ]

    def _chosen(self, limit: int) -> dict[int, str]:
        published = self.rows.where(lambda batch: batch["document"].is_valid())
        firsts = counted(published, ["event_type"], document="min")
        chosen: dict[int, list[str]] = {}
        for row in sorted(firsts, key=lambda r: (r["document"], r["event_type"])):
            why = [] if chosen else ["the first"]
            chosen.setdefault(row["document"], why).append(f"the first of type {row['event_type']}")
        for largest in self._documents.first([("rows", "descending"), "document"], 1).to_pylist():
            chosen.setdefault(largest["document"], []).append(f"the most rows ({count(largest['rows'])})")
        return {number: ", ".join(why) for number, why in list(chosen.items())[:limit]}

    def _rows_of(self, documents: list[int]) -> Records:
        """The rows of documents; ``of_document``: the document of the row that overrides a row."""
        own = self.rows.where(partial(_of_documents, documents)).select(("record_id", "document")).table()
        ids = own["record_id"].combine_chunks()
        document_of = dict(zip(ids.to_pylist(), own["document"].to_pylist(), strict=True))

        def chosen(batch: pa.RecordBatch) -> pa.Array:
            return pc.or_(_of_documents(documents, batch), pc.is_in(batch["overridden_by"], ids, skip_nulls=True))

        rows: Records = self.rows.where(chosen).first(["record_id"], _OF_DOCUMENT * 4 * len(documents)).to_pylist()
        for row in rows:
            row |= {name: row[name] and row[name][:_VALUE] for name in ("old_value", "new_value")}
            row["of_document"] = document_of.get(row["overridden_by"])
        return rows


_DECIDED: Final = pa.schema([*ROW_DECISIONS, *(ROWS.field(name) for name in _SHOWN)])
_AT: Final = pa.field("at", pa.string())
_IS_SHOWN: Final = pa.field("is_shown", pa.bool_())
_SIZES: Final = pa.schema([*(ROWS.field(name) for name in _OBJECT), ("of", pa.int64())])
_RANKED: Final = pa.schema([*_DECIDED, ("at", pa.int64()), ("id", pa.int64())])
_NUMBERS: Final = pa.schema([(name, pa.int64()) for name in ("document", "events", "rows")])


def _decided(settings: Settings, batch: pa.RecordBatch) -> pa.RecordBatch:
    decided = to_decisions(pa.Table.from_batches([batch]), settings).combine_chunks().to_batches()[0]
    return pa.RecordBatch.from_arrays([*decided.columns, *(batch[name] for name in _SHOWN)], schema=_DECIDED)


def _located(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [location_texts(batch), pa.repeat(True, len(batch))]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([_AT, _IS_SHOWN]))


def _object_texts(batch: pa.RecordBatch | pa.Table) -> Any:
    return pc.binary_join_element_wise(pc.coalesce(batch["table_name"], ""), batch["table_key"], "\0")


def _groups(keys: Sequence[str], counts: Sequence[Any], schema: pa.Schema, batches: Batches) -> Batches:
    """The groups of rows that are equal in some columns, with counts of each."""
    for rows in complete_keys(batches, keys, 1 << 16):
        groups = pa.table(rows).group_by([*keys], use_threads=False).aggregate(counts)
        yield from groups.rename_columns(schema.names).cast(schema).combine_chunks().to_batches()


def _ranked(by_time: bool, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with what orders them: unknown times and record_ids last."""
    at = pc.coalesce(batch["event_us"], _LATEST) if by_time else pa.repeat(0, len(batch))
    return pa.RecordBatch.from_arrays([*batch.columns, at, pc.coalesce(batch["record_id"], _LATEST)], schema=_RANKED)


def _rows_of_document(rows: Records) -> dict[str, Any]:
    """The first rows of a document, and how many it has."""
    for row in rows:
        kind = EVENT_TYPES.get(row["event_type"] or 0)
        row["asked"] = bool(kind and kind.query_back)
    rows = sorted(rows, key=lambda row: row["document"] is None)  # overridden rows last
    return {"rows": rows[:_OF_DOCUMENT], "rows_total": len(rows)}


# --- event log words --------------------------------------------------------------------------------------------------

TYPES: Final[dict[int | None, str]] = {number: f"{number} {one.name}" for number, one in EVENT_TYPES.items()}
"""The event types by number, each with number and name; the last key, None, is for all other numbers."""

TYPES[None] = "none of the eight"

_CATEGORIES: Final = {
    (True, False): "Each column has its row, with the value: the most space, and a statement for each column in the "
    "triggers. Nothing is queried.",
    (False, False): "A deleted row is one row of the log. There is nothing to query.",
    (False, True): "A changed row is one row of the log, without values: the least space and the simplest triggers, "
    "but the driver queries the table for each event.",
    (True, True): "Each column has its row, without the value: less space, but a statement for each column in the "
    "triggers, and the driver queries the table for each event.",
}
"""What each category of event types means (docs/formats/idm-event-log.md §3.2), by ``per_field`` and ``query_back``."""

OPERATIONS: Final[dict[str | None, str]] = {str(one): str(one) for one in Operation}
"""The operations of changes, in their order."""

_LEFT: Final = {name: look.title for name, look in LOOKS.items()}


def readable(records: Iterable[Mapping[str, Any]]) -> Records:
    """The records with readable decisions."""
    return [{**record, "decision": _LEFT.get(record["decision"], record["decision"])} for record in records]


def with_object(records: Iterable[Mapping[str, Any]]) -> Records:
    """The records with their object, table and key, as ``scope``."""
    return [
        {**record, "scope": " ".join(record[name] for name in _OBJECT if record[name] is not None) or None}
        for record in records
    ]


def cards(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures at the top of the page: title, value and a note each. ``facts`` are those of a page."""
    title, of_what = "changes", "of the capture"
    if "objects" in facts:
        title, of_what = "rows", f"of {plural(facts['objects'], 'object')}"
    decisions = {name.removeprefix("decisions_"): facts[name] for name in facts if name.startswith("decisions_")}
    published, rows = decisions.pop("published"), facts["rows"]
    share = published / rows if published in (0, rows) and rows else min(max(published / (rows or 1), 0.01), 0.99)
    shown = [
        (title, count(rows), of_what),
        ("published", count(published), f"{share:.0%} of them" if rows else ""),
        ("documents", count(facts["documents"]), f"with {plural(facts['events'], 'event')}"),
    ]
    notes = {
        "skipped": "not new, or the driver's own",
        "overridden": "overridden by a query-back row",
        "no_effect": "the object is gone, or nothing to write",
        "needs_snapshot": "their values are only in the table",
        "waiting": "their event_time is later than as_of",
        "invalid": "break a rule of the log",
        "left_out": "not committed, without a key, or no row",
    }
    shown += [(_LEFT[name], count(decisions[name]), note) for name, note in notes.items() if decisions.get(name)]
    return shown


def setting_sentences(settings: Settings, tables: Iterable[str]) -> list[str]:
    """The settings and data that decisions depend on, and what is missing."""
    names = sorted(tables)
    user = settings.driver_user
    shown = joined([visible(name, 40) for name in names[:8]] + ([f"{len(names) - 8} more"] if len(names) > 8 else []))
    return [
        f"The driver's database user is {visible(user, 80)}."
        + (" Its changes are published too (allow_loopback)." if settings.allow_loopback else "")
        if user is not None
        else "No database user of the driver is given, so no row counts as the driver's own (driver_user).",
        f"Query-back rows are published with the current rows of: {shown}."
        if names
        else "No snapshot of the tables is given; query-back rows need one (snapshot).",
    ]


def setting_rows(settings: Settings, tables: Mapping[str, str]) -> Records:
    """Every setting with its value, and the files of the snapshot."""
    rows = [{"setting": name, "value": _value(getattr(settings, name)), "about": SETTINGS[name]} for name in SETTINGS]
    about = "current rows of the table"
    return rows + [{"setting": f"snapshot {table}", "value": file, "about": about} for table, file in tables.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {text}" for name, text in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    return "not given" if value is None else str(value)


def matrix(counts: Iterable[Mapping[str, Any]], kind: str) -> tuple[Records, dict[str, str]]:
    """Counts by ``kind`` (rows) and decision (columns), and the headings of its columns; zero is null."""
    counts = list(counts)
    decisions = [name for name in _LEFT if any(row["decision"] == name for row in counts)]
    rows: dict[Any, dict[str, Any]] = {}
    for row in counts:
        name = row[kind]
        words = TYPES.get(name) or "?" if kind == "event_type" else name or "none"
        line = rows.setdefault(name, {"kind": words, "rows": 0} | dict.fromkeys(decisions))
        line[row["decision"]] = row["rows"]
        line["rows"] += row["rows"]
    lines = list(rows.values())
    if len(lines) > 1:
        totals = {name: sum(line[name] or 0 for line in lines) for name in ("rows", *decisions)}
        lines.append({"kind": "all", **totals})
    headings = {"kind": kind.replace("_", " "), "rows": "all"} | {name: _LEFT[name] for name in decisions}
    return lines, headings


def _rows_by_type(counts: Iterable[Mapping[str, Any]]) -> Counter[int | None]:
    totals = Counter[int | None]()
    for row in counts:
        totals[row["event_type"]] += row["rows"]
    return totals


def types_used(counts: Iterable[Mapping[str, Any]]) -> Records:
    """The event types in the log, the meaning of each, and its number of rows."""
    used = []
    for number, rows in _rows_by_type(counts).items():
        known = EVENT_TYPES.get(number or 0)
        about = (known.name, known.meaning, known.verb) if known else (TYPES[None], "reserved: never published", None)
        row = {"event_type": "?" if number is None else str(number)}
        used.append(row | dict(zip(("name", "meaning", "verb"), about, strict=True)) | {"rows": rows})
    return used


def categories_used(counts: Iterable[Mapping[str, Any]]) -> Records:
    """The categories of the event types in the log, with their number of rows and a sentence each."""
    rows_of, used = _rows_by_type(counts), []
    for (per_field, query_back), sentence in _CATEGORIES.items():
        name = f"per {'field' if per_field else 'row'}{', query-back' if query_back else ''}"
        types = [at for at, one in EVENT_TYPES.items() if (one.per_field, one.query_back) == (per_field, query_back)]
        row = {"category": name, "types": ", ".join(map(str, types)), "rows": sum(rows_of[kind] for kind in types)}
        used += [row | {"sentence": sentence}] if row["rows"] else []
    return used
