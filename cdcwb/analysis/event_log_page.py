"""The content of the event log page: rows with their decisions, the objects with most rows, example documents.

Results are small lists of records, together with the total numbers. Decisions are those of the complete log, even if
only a part of it is shown. A capture of another format has a smaller page of the same structure for its changes as XDS
(:mod:`cdcwb.analysis.xds_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from cdcwb.analysis import event_log
from cdcwb.analysis.event_log import LogOnce, table_store_in
from cdcwb.analysis.xds import publish_rows
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.model import Operation, Problem
from cdcwb.words import count, joined, moment, plural, tally, visible
from cdcwb.xds import SETTINGS, Decision, Settings, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture

__all__ = [
    "CATEGORIES",
    "DECISIONS",
    "TYPES",
    "LogPage",
    "Records",
    "cards",
    "categories_used",
    "effects_said",
    "evenly",
    "general",
    "matrix",
    "readable",
    "setting_rows",
    "setting_sentences",
    "types_used",
    "with_object",
]


Records = list[dict[str, Any]]

DECISIONS: Final = tuple(str(one) for one in Decision)
"""The decisions, in display order."""

_PLACE: Final = ("file_index", "offset")
_OBJECT: Final = ("table_name", "table_key")
_OF_DOCUMENT: Final = 40  # rows that are listed with a document
_CELL: Final = 80  # characters in a cell after which no further value is added
_MOST_XML: Final = 60_000  # characters of a document that are shown


def evenly(records: Records, by: str, order: tuple[str, ...], limit: int) -> Records:
    """At most ``limit`` records, with an equal share for every value of ``by``; the values in ``order``, the records of
    each in their own order."""
    kinds = {name: [record for record in records if record[by] == name] for name in order}
    room = dict.fromkeys(kinds, 0)
    left = min(limit, len(records))
    while left > 0 and any(room[name] < len(kinds[name]) for name in kinds):
        for name, held in kinds.items():
            if left > 0 and room[name] < len(held):
                room[name] += 1
                left -= 1
    return [record for name, held in kinds.items() for record in held[: room[name]]]


def general(reason: Column) -> Column:
    """A reason without the record numbers, document numbers and times that it names, so that equal reasons are counted
    together."""
    from pyspark.sql import functions as F

    shorter = F.regexp_replace(reason, r"\b(record|document) \d+", "$1 …")
    shorter = F.regexp_replace(shorter, r"\d{4}-\d\d-\d\dT[\d:.]+Z", "…")
    return F.regexp_replace(shorter, r"^record_id \S+ (is|has|comes)", "record_id … $1")


class LogPage:
    """An event log with all decisions.

    ``whole`` is the complete log, ``part`` the part of it that is shown. ``folder`` stores the tables of the page as
    Parquet: decisions, chain_breaks and net_effects; None: nothing is stored.
    """

    is_log: Final = True

    def __init__(
        self,
        complete: Capture,
        part: Capture,
        settings: Settings,
        snapshot: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self._store = table_store_in(complete, folder, ("decisions", "chain_breaks", "net_effects"))
        self._log = cast("Capture", LogOnce(part))
        tables = Snapshot.read(snapshot) if snapshot else None
        rows = event_log.log_rows(self._log)
        self.published = publish_rows(event_log.log_rows(complete) if part is not complete else rows, settings, tables)
        rows = rows.drop("record_id", "event_type", *_OBJECT, "column_name", "repeated")
        self.rows = self._store.keep("decisions", self.published.decisions.join(rows, [*_PLACE]))

    # --- counts -------------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Records:
        """The number of rows by event_type (None: none of the eight) and decision."""
        rows = self.rows.groupBy("event_type", "decision").count().collect()
        counts = [{"event_type": r["event_type"], "decision": r["decision"], "rows": r["count"]} for r in rows]
        return sorted(counts, key=lambda r: (r["event_type"] or 99, DECISIONS.index(r["decision"])))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Numbers: ``rows``, ``decisions_…`` for each decision, ``documents``, ``events``, ``objects``."""
        from pyspark.sql import functions as F

        numbers: dict[str, Any] = {"rows": sum(row["rows"] for row in self.counts)}
        for name in DECISIONS:
            numbers[f"decisions_{name}"] = sum(row["rows"] for row in self.counts if row["decision"] == name)
        counted = self.rows.agg(
            F.countDistinct("document").alias("documents"),
            F.countDistinct("event").alias("events"),
            F.countDistinct(*_OBJECT).alias("objects"),
        ).collect()[0]
        return numbers | counted.asDict()

    @cached_property
    def reasons(self) -> Records:
        """Why rows are not published, with the number of rows for each reason, most first within a decision; and the
        remarks on published rows."""
        from pyspark.sql import functions as F

        rows = (
            self.rows.withColumn("reason", general(F.col("reason")))
            .groupBy("decision", "reason")
            .agg(F.count(F.lit(1)).alias("rows"), F.min("record_id").alias("first_record_id"))
            .toArrow()
            .to_pylist()
        )
        return sorted(rows, key=lambda r: (DECISIONS.index(r["decision"]), -r["rows"], r["reason"] or ""))

    def perpetrators(self, limit: int = 12) -> Records:
        """Who made the changes, most rows first, and whether that is the driver's user."""
        from pyspark.sql import functions as F

        rows = self.rows.groupBy("perpetrator").agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(F.col("decision") == str(Decision.PUBLISHED), 1)).alias("published"),
        )
        return _records(rows.orderBy(F.desc("rows"), "perpetrator").limit(limit))

    # --- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def left_out(self) -> int:
        """How many rows are not published."""
        return sum(row["rows"] for row in self.counts if row["decision"] != str(Decision.PUBLISHED))

    def unpublished(self, limit: int = 50) -> Records:
        """Rows that are not published, with their reasons; each decision has an equal share."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        first = F.row_number().over(Window.partitionBy("decision").orderBy(*_PLACE))
        rows = self.rows.filter(F.col("decision") != str(Decision.PUBLISHED)).withColumn("_n", first)
        names = ("decision", "reason", "record_id", "event_type", *_OBJECT, "column_name", "status", "perpetrator")
        records = _records(rows.filter(F.col("_n") <= limit).orderBy(*_PLACE).select(*names, *_PLACE))
        return evenly(records, "decision", DECISIONS, limit)

    def objects(self, lanes: int = 40, rows: int = 60) -> Records:
        """The first rows of the objects with most rows, in processing order (``place`` in the object's history, from
        1), each with the object's number of rows (``of``) and its ``lane``, from 0; the object with most rows first."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        sizes = self.rows.filter(F.col("table_key").isNotNull()).groupBy(*_OBJECT).agg(F.count(F.lit(1)).alias("of"))
        busiest = sizes.orderBy(F.desc("of"), *_OBJECT).limit(lanes)
        order = ("event_us", "record_id", *_PLACE) if self.settings.future_events else ("record_id", *_PLACE)
        rank = F.row_number().over(Window.partitionBy(*_OBJECT).orderBy(*[F.col(n).asc_nulls_last() for n in order]))
        names = ("record_id", "event_type", "column_name", "decision", "reason", "document", "event_time")
        busy = busiest.select(*[F.col(name).alias(f"_{name}") for name in _OBJECT], "of")
        same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in _OBJECT]
        joined = self.rows.join(F.broadcast(busy), same).select(*_OBJECT, *names, *_PLACE, "event_us", "of")
        shown = joined.withColumn("place", rank).filter(F.col("place") <= rows)
        ordered = sorted(
            _records(shown.drop(*_PLACE, "event_us")),
            key=lambda r: (-r["of"], r["table_name"] or "", r["table_key"], r["place"]),
        )
        return [
            row | {"lane": lane}
            for lane, (_, held) in enumerate(groupby(ordered, key=lambda r: (r["table_name"], r["table_key"])))
            for row in held
        ]

    # --- documents ----------------------------------------------------------------------------------------------------

    def documents(self, limit: int = 10) -> Records:
        """The first document, the first of each published event type, one with escaped characters if there is one, and
        the largest: each with ``document``, ``events``, ``why``, ``xml`` and its ``rows``; in document order. Rows that
        were overridden are listed after those that override them."""
        from pyspark.sql import functions as F

        chosen = self._chosen(limit)
        if not chosen:
            return []
        numbers = list(chosen)
        made = self.published.documents.filter(F.col("document").isin(numbers)).select(
            "document", "events", "xml", F.length("xml").alias("length")
        )
        texts = {r["document"]: r for r in _records(made.withColumn("xml", F.substring("xml", 1, _MOST_XML)))}
        rows = _records(self._rows_of(numbers))
        return [
            texts[number]
            | {"why": chosen[number]}
            | _rows_of_document([row for row in rows if number in (row["document"], row["of_document"])])
            for number in sorted(chosen)
            if number in texts
        ]

    def _chosen(self, limit: int) -> dict[int, str]:
        from pyspark.sql import functions as F

        published = self.rows.filter(F.col("document").isNotNull())
        special = F.coalesce("new_value", "old_value").rlike('[<>&"]')
        of_document = published.groupBy("document").agg(
            F.count(F.lit(1)).alias("rows"),
            F.countDistinct("event_type").alias("types"),
            F.max(special).alias("quoted"),
        )
        firsts = of_document.agg(
            F.min("document").alias("first"),
            F.max(F.struct("rows", (-F.col("document")).alias("n"))).alias("largest"),
            F.max(F.struct("types", "rows", (-F.col("document")).alias("n"))).alias("mixed"),
            F.min(F.when(F.col("quoted"), F.col("document"))).alias("quoted"),
        ).collect()[0]
        if firsts["first"] is None:
            return {}
        types = published.groupBy("event_type").agg(F.min("document").alias("document")).collect()
        chosen: dict[int, list[str]] = {firsts["first"]: ["the first"]}
        for row in sorted(types, key=lambda r: r["event_type"]):
            chosen.setdefault(row["document"], []).append(f"the first of type {row['event_type']}")
        if firsts["mixed"]["types"] > 1:
            chosen.setdefault(-firsts["mixed"]["n"], []).append(f"{firsts['mixed']['types']} event types in it")
        if firsts["quoted"] is not None:
            chosen.setdefault(firsts["quoted"], []).append("a value that has to be escaped")
        chosen.setdefault(-firsts["largest"]["n"], []).append(f"the most rows ({count(firsts['largest']['rows'])})")
        return {number: ", ".join(why) for number, why in list(chosen.items())[:limit]}

    def _rows_of(self, documents: list[int]) -> DataFrame:
        from pyspark.sql import functions as F

        names = ("record_id", "event_type", *_OBJECT, "column_name", "old_value", "new_value", "decision", "reason")
        own = self.rows.filter(F.col("document").isin(documents))
        strong = own.select(F.col("record_id").alias("_by"), F.col("document").alias("of_document"))
        weak = self.rows.filter(F.col("overridden_by").isNotNull())
        weak = weak.join(F.broadcast(strong), weak["overridden_by"] == strong["_by"])
        both = own.withColumn("of_document", F.lit(None).cast("bigint")).select(
            *names, "document", "event", "of_document"
        )
        both = both.unionByName(weak.select(*names, "document", "event", "of_document"))
        cut = {name: F.substring(name, 1, 1000) for name in ("old_value", "new_value")}
        return both.withColumns(cut).orderBy("record_id").limit(_OF_DOCUMENT * 4 * len(documents))

    # --- chain and net effects ----------------------------------------------------------------------------------------

    @cached_property
    def _chain(self) -> DataFrame:
        return self._store.keep("chain_breaks", event_log.chain_breaks(self._log))

    def chain(self, limit: int = 50) -> Records:
        """The first old values that differ from the value before."""
        return _records(self._chain.orderBy("record_id", *_PLACE).limit(limit))

    @cached_property
    def chain_breaks(self) -> int:
        """The number of chain breaks."""
        return self._chain.count()

    @cached_property
    def _net(self) -> DataFrame:
        return self._store.keep("net_effects", event_log.net_effects(self._log))

    @cached_property
    def effects(self) -> dict[str, int]:
        """The number of objects by net effect, most first."""
        rows = self._net.groupBy("effect").count().collect()
        return {r["effect"]: r["count"] for r in sorted(rows, key=lambda r: (-r["count"], r["effect"]))}

    def net(self, limit: int = 40) -> Records:
        """The net effect of the rows of the objects with most rows: ``was`` and ``now`` are None if the object did not,
        or does not, exist."""
        from pyspark.sql import functions as F

        rows = _records(self._net.orderBy(F.desc("rows"), "table", "table_key").limit(limit))
        for row in rows:
            was, now = row.pop("before"), row.pop("after")
            changed = {name for name, value in now or () if (name, value) not in (was or ())} if now else set()
            row["was"] = _assigned([pair for pair in was or () if not now or pair[0] in changed])
            row["now"] = _assigned([pair for pair in now or () if pair[0] in changed])
            row["read_back"] = ["the whole row" if name == "*" else name for name in row["read_back"]] or None
        return rows

    def spellings(self, problems: DataFrame, limit: int = 50) -> Records:
        """Keys with several spellings; ``problems`` are the capture's."""
        from pyspark.sql import functions as F

        rows = problems.filter(F.col("code") == str(Problem.KEY_SPELLING))
        return _records(rows.select("table", "sentence", "file", "offset").orderBy("file", "offset").limit(limit))


def _assigned(pairs: list[tuple[str, str | None]]) -> str | None:
    """``city = 'Isenau', since = NULL``, as many as fit in a cell; None without columns."""
    assigned: list[str] = []
    for name, value in pairs:
        if sum(map(len, assigned)) > _CELL:
            return f"{', '.join(assigned)} and {len(pairs) - len(assigned)} more"
        assigned.append(f"{visible(name, 30)} = " + ("NULL" if value is None else f"'{visible(value, 30)}'"))
    return ", ".join(assigned) or None


def _rows_of_document(rows: Records) -> dict[str, Any]:
    """The first rows of a document, and how many it has."""
    for row in rows:
        kind = EVENT_TYPES.get(row["event_type"] or 0)
        row["asked"] = bool(kind and kind.query_back)
    rows = sorted(rows, key=lambda row: row["document"] is None)  # overridden rows last
    return {"rows": rows[:_OF_DOCUMENT], "rows_total": len(rows)}


def _records(frame: DataFrame) -> Records:
    rows: Records = frame.toArrow().to_pylist()
    return rows


# --- event log words --------------------------------------------------------------------------------------------------

TYPES: Final[dict[int | None, str]] = {number: f"{number} {one.name}" for number, one in EVENT_TYPES.items()}
"""The event types by number, each with number and name; the last key, None, is for all other numbers."""

TYPES[None] = "none of the eight"

CATEGORIES: Final = {
    "per field": (1, 2, 3),
    "per row": (4,),
    "per row, query-back": (5, 6),
    "per field, query-back": (7, 8),
}
"""The categories of event types (docs/formats/idm-event-log.md §3.2), and the types of each."""
_MEANINGS: Final = {
    "per field": "Each column has its row, with the value: the most space, and a statement for each column in the "
    "triggers. Nothing is queried.",
    "per row": "A deleted row is one row of the log. There is nothing to query.",
    "per row, query-back": "A changed row is one row of the log, without values: the least space and the simplest "
    "triggers, but the driver queries the table for each event.",
    "per field, query-back": "Each column has its row, without the value: less space, but a statement for each column "
    "in the triggers, and the driver queries the table for each event.",
}

OPERATIONS: Final[dict[str | None, str]] = {str(one): str(one) for one in Operation}
"""The operations of changes, in their order."""

_LEFT: Final = {str(one): str(one).replace("_", " ") for one in Decision} | {
    "needs_snapshot": "needs a snapshot",
    "left_out": "left out",
}


def readable(records: Iterable[Mapping[str, Any]]) -> Records:
    """The records with readable decisions."""
    return [{**record, "decision": _LEFT.get(record["decision"], record["decision"])} for record in records]


def with_object(records: Iterable[Mapping[str, Any]], table: str = "table_name") -> Records:
    """The records with their object, table and key, as ``scope``."""
    return [
        {**record, "scope": " ".join(record[name] for name in (table, "table_key") if record[name] is not None) or None}
        for record in records
    ]


def cards(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures at the top of the page: title, value and a note each. ``facts`` are those of a page."""
    log = "objects" in facts
    decisions = {name.removeprefix("decisions_"): facts[name] for name in facts if name.startswith("decisions_")}
    published, rows = decisions.pop("published"), facts["rows"]
    share = f"{_percent(published, rows)} of them" if rows else ""
    shown = [
        (
            "rows" if log else "changes",
            count(rows),
            f"of {plural(facts['objects'], 'object')}" if log else "of the capture",
        ),
        ("published", count(published), share),
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


def _percent(some: int, all_: int) -> str:
    """A share in per cent without decimals; 0 and 100 only if they are exact."""
    return f"{some / all_:.0%}" if some in (0, all_) else f"{min(max(some / all_, 0.01), 0.99):.0%}"


def setting_sentences(settings: Settings, tables: Iterable[str], log: bool = True) -> list[str]:
    """The settings and data that decisions depend on, and what is missing."""
    if not log:
        return []
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


def types_used(counts: Iterable[Mapping[str, Any]]) -> Records:
    """The event types in the log, the meaning of each, and its number of rows."""
    totals: dict[int | None, int] = {}
    for row in counts:
        totals[row["event_type"]] = totals.get(row["event_type"], 0) + row["rows"]
    used = []
    for number, rows in totals.items():
        known = EVENT_TYPES.get(number or 0)
        name, meaning = (known.name, known.meaning) if known else ("none of the eight", "reserved: never published")
        kind = "?" if number is None else str(number)
        used.append(
            {"event_type": kind, "name": name, "meaning": meaning, "verb": known.verb if known else None, "rows": rows}
        )
    return used


def categories_used(counts: Iterable[Mapping[str, Any]]) -> Records:
    """The categories of the event types in the log, with their number of rows and a sentence each."""
    counts = list(counts)
    used = []
    for name, kinds in CATEGORIES.items():
        rows = sum(row["rows"] for row in counts if row["event_type"] in kinds)
        if rows:
            types = ", ".join(map(str, kinds))
            used.append({"category": name, "types": types, "rows": rows, "sentence": _MEANINGS[name]})
    return used


def effects_said(effects: Mapping[str, int]) -> str:
    """A sentence with the number of objects by net effect."""
    return f"Of {plural(sum(effects.values()), 'object')}: {tally(effects)}."
