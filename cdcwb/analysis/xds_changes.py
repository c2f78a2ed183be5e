"""The changes of any capture as XDS documents, at any size (docs/formats/idm-event-log.md §7).

Changes are published in commit order, and in log order within a commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model, xds
from cdcwb.analysis.event_log import table_store_in
from cdcwb.analysis.event_log_page import LogPage, Records, evenly
from cdcwb.analysis.frames import TableStore, bounds_of, from_start, part_of, spark_schema, table_name
from cdcwb.analysis.keys import FACTS, InferredKey, changes_of, known_tables, without_key
from cdcwb.analysis.keys import infer_keys as infer
from cdcwb.analysis.xds import A_PART, DOCUMENTS, Summary
from cdcwb.errors import CaptureError
from cdcwb.formats.idm_event_log.layout import FORMAT
from cdcwb.model import Operation
from cdcwb.xds import Settings
from cdcwb.xds.changes import events_of_changes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["CHANGE_DECISIONS", "DECISIONS", "ChangePage", "PublishedChanges", "page_of", "xds_of_changes"]


CHANGE_DECISIONS: Final = pa.schema(
    [
        *(
            model.CHANGES.field(name).remove_metadata()
            for name in ("file_index", "offset", "position", "transaction_id")
        ),
        *(model.CHANGES.field(name).remove_metadata() for name in ("schema_name", "table_name", "operation")),
        ("decision", pa.string()),  # published or left_out
        ("reason", pa.string()),
        ("document", pa.int64()),  # null if left out
        ("event", pa.int64()),
    ]
)
"""One row for each change."""

PUBLISHED: Final = "published"
LEFT_OUT: Final = "left_out"

_ORDER: Final = pa.schema(
    [("commit", pa.string()), ("at", pa.string()), ("file_index", pa.int32()), ("offset", pa.int64())]
)
_OF_CHANGE: Final = ("position", "transaction_id", "schema_name", "table_name", "operation")
_EVENT: Final = tuple(field for field in xds.EVENT if field.name not in ("document", "event"))
_RENDERED: Final = pa.schema(
    [*_ORDER, *(CHANGE_DECISIONS.field(name) for name in _OF_CHANGE), ("reason", pa.string()), *_EVENT]
)
_PLACED: Final = pa.schema([*_RENDERED, ("part", pa.int32())])
_NUMBERED: Final = pa.schema([*_RENDERED, ("document", pa.int64()), ("event", pa.int64())])


class PublishedChanges:
    """The result of publishing the changes of a capture.

    ``decisions``: a row of :data:`CHANGE_DECISIONS` for each change, unordered. ``documents``: a row of
    :data:`~cdcwb.analysis.xds.DOCUMENTS` for each document, without record_ids; partitions and the rows in them are in
    the order of publication. Both can be read while this object exists. ``inferred``: the inferred keys.
    """

    def __init__(
        self, rows: DataFrame, settings: Settings, store: TableStore, events: int, inferred: Sequence[InferredKey] = ()
    ) -> None:
        self.inferred = tuple(inferred)
        self._rows = rows
        self._settings = settings
        self._store = store
        self._events = events

    @property
    def decisions(self) -> DataFrame:
        """The document of each change, or the reason why it is left out."""
        from pyspark.sql import functions as F

        published = F.col("reason").isNull()
        number = F.col("document").cast("string")
        decided = {
            "decision": F.when(published, PUBLISHED).otherwise(LEFT_OUT),
            "reason": F.coalesce("reason", F.concat(F.lit("published in document "), number)),
        }
        return self._rows.withColumns(decided).select(*CHANGE_DECISIONS.names)

    @property
    def documents(self) -> DataFrame:
        """The documents, in order."""
        from pyspark.sql import functions as F

        events = self._rows.filter(F.col("reason").isNull()).select(*xds.EVENT.names)
        ordered = events.repartitionByRange("document").sortWithinPartitions("document", "event")

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = (batch.cast(xds.EVENT) for batch in batches)
            for batch in xds.document_batches(table):
                nothing = pa.nulls(batch.num_rows, pa.int64())
                columns = [batch["document"], batch["events"], nothing, nothing, batch["xml"]]
                yield from from_start(pa.table(columns, names=DOCUMENTS.names), DOCUMENTS)

        return ordered.mapInArrow(work, spark_schema(DOCUMENTS))

    @cached_property
    def summary(self) -> Summary:
        """The numbers of documents, events and decisions."""
        counts = {PUBLISHED: self._events, LEFT_OUT: sum(self.reasons.values())}
        documents = -(-self._events // self._settings.batch_size)
        return Summary(documents, self._events, {name: count for name, count in counts.items() if count})

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Why changes are left out, with the number for each reason, most first."""
        rows = self._rows.filter("reason IS NOT NULL").groupBy("reason").count().collect()
        return dict(sorted(((row["reason"], row["count"]) for row in rows), key=lambda pair: (-pair[1], pair[0])))


def xds_of_changes(
    capture: Capture,
    settings: Settings,
    *,
    infer_keys: bool = False,
    complete: Capture | None = None,
    a_part: int = A_PART,
) -> PublishedChanges:
    """Publishes a capture's changes: insert as add, update as modify, delete as delete.

    Left out, and counted, are changes that were not committed, those of other operations, and those without a key (see
    the capture's option ``keys``). ``infer_keys``: tables without any key get an inferred one
    (:func:`cdcwb.analysis.keys.infer_keys`), from the changes of ``complete`` if ``capture`` is a part of it. Only
    settings of documents apply: batch_size, schema, class_names and types. Raises CaptureError for a capture that was
    loaded without values.
    """
    from pyspark.sql import functions as F

    if not capture.has_images:
        raise CaptureError("documents are made of values, and the capture was loaded with images=False")
    inferred = _inferred(complete or capture) if infer_keys else []
    changes = capture.changes
    if inferred:
        named = {key.table: [key.column] for key in inferred}
        changes = changes_of(capture, model.CHANGES.names, named).to_frame(capture.spark)
    store = TableStore(capture.spark)
    rendered = store.keep("rendered", _rendered(changes, settings))
    events = rendered.filter(F.col("reason").isNull())
    keys = events.select(*_ORDER.names)
    bounds = bounds_of(keys, events.count(), a_part)

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part = part_of([batch[name].to_numpy(zero_copy_only=False) for name in _ORDER.names], bounds)
            yield from from_start(pa.table([*batch.columns, pa.array(part.astype(np.int32))], schema=_PLACED), _PLACED)

    in_parts = rendered.mapInArrow(placed, spark_schema(_PLACED))
    counts = {row["part"]: row["count"] for row in in_parts.filter("reason IS NULL").groupBy("part").count().collect()}
    firsts = list(accumulate((counts.get(part, 0) for part in range(len(bounds) + 1)), initial=0))

    def work(rows: pa.Table) -> pa.Table:
        rows = rows.sort_by([(name, "ascending") for name in _ORDER.names])
        event = np.arange(rows.num_rows) + firsts[rows["part"][0].as_py()] + 1
        rows = rows.append_column("document", pa.array((event - 1) // settings.batch_size + 1))
        return pa.Table.from_batches(
            list(from_start(rows.append_column("event", pa.array(event)), _NUMBERED)), _NUMBERED
        )

    is_event = F.col("reason").isNull()
    numbered = in_parts.filter(is_event).groupBy("part").applyInArrow(work, spark_schema(_NUMBERED))
    nothing = {name: F.lit(None).cast("bigint") for name in ("document", "event")}
    rest = rendered.filter(~is_event).withColumns(nothing).select(*_NUMBERED.names)
    return PublishedChanges(store.keep("numbered", numbered.unionByName(rest)), settings, store, firsts[-1], inferred)


def _inferred(capture: Capture) -> list[InferredKey]:
    changes = changes_of(capture, FACTS)
    return list(infer(changes, without_key(known_tables(changes))).values())


def _rendered(changes: DataFrame, settings: Settings) -> DataFrame:
    """Each change as an event without numbers, or the reason why it is left out."""
    from pyspark.sql import functions as F

    ordered = changes.withColumns(
        {"commit": F.coalesce("commit_position", F.lit("")), "at": F.coalesce("position", F.lit(""))}
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = events_of_changes(batch, settings)
            number = np.full(batch.num_rows, -1, dtype=np.int64)
            number[made.rows.to_numpy()] = np.arange(made.events.num_rows)
            reason = np.full(batch.num_rows, -1, dtype=np.int64)
            reason[made.left_out["row"].to_numpy()] = np.arange(made.left_out.num_rows)
            columns = {
                **{name: batch[name] for name in (*_ORDER.names, *_OF_CHANGE)},
                "reason": made.left_out["reason"].take(pa.array(reason, mask=reason < 0)),
                **{field.name: made.events[field.name].take(pa.array(number, mask=number < 0)) for field in _EVENT},
            }
            yield from from_start(pa.table(columns), _RENDERED)

    return ordered.mapInArrow(work, spark_schema(_RENDERED))


# --- change page ------------------------------------------------------------------------------------------------------

DECISIONS: Final = (PUBLISHED, LEFT_OUT)

_PLACE: Final = ("file_index", "offset")
_MOST_XML: Final = 60_000
_MOST_VALUES: Final = 24  # values of a change that are shown
_TEXT: Final = 1000


def page_of(
    complete: Capture,
    part: Capture,
    settings: Settings,
    snapshot: Mapping[str, str] | None = None,
    folder: Path | None = None,
    infer_keys: bool = False,
) -> LogPage | ChangePage:
    """The page for the format of the capture."""
    if complete.format == FORMAT:
        return LogPage(complete, part, settings, snapshot, folder)
    return ChangePage(part, settings, folder, infer_keys, complete)


class ChangePage:
    """A capture with the documents of its changes. ``folder`` stores the decisions as Parquet; None: nothing is stored.
    ``infer_keys``, ``whole``: as in :func:`cdcwb.analysis.xds_changes.xds_of_changes`."""

    is_log: Final = False

    def __init__(
        self,
        capture: Capture,
        settings: Settings,
        folder: Path | None = None,
        infer_keys: bool = False,
        complete: Capture | None = None,
    ) -> None:
        self.part = capture
        self.settings = settings
        self.published = xds_of_changes(capture, settings, infer_keys=infer_keys, complete=complete)
        rows = self.published.decisions
        self.rows = rows if folder is None else table_store_in(capture, folder, ("decisions",)).keep("decisions", rows)

    @cached_property
    def counts(self) -> Records:
        """The number of changes by operation and decision."""
        rows = self.rows.groupBy("operation", "decision").count().collect()
        counts = [{"operation": r["operation"], "decision": r["decision"], "rows": r["count"]} for r in rows]
        return sorted(counts, key=lambda r: (_rank(r["operation"]), r["decision"] != PUBLISHED))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Numbers: ``rows`` (changes), ``decisions_published``, ``decisions_left_out``, ``documents``, ``events``."""
        summary = self.published.summary
        numbers = {f"decisions_{name}": summary.decisions.get(name, 0) for name in DECISIONS}
        totals = {"rows": sum(numbers.values()), "documents": summary.documents, "events": summary.events}
        return totals | numbers

    @property
    def left_out(self) -> int:
        """The number of changes that are left out."""
        number: int = self.facts["decisions_left_out"]
        return number

    @cached_property
    def reasons(self) -> Records:
        """Why changes are left out, with the number for each reason, most first."""
        return [
            {"decision": LEFT_OUT, "reason": reason, "rows": number}
            for reason, number in self.published.reasons.items()
        ]

    def unpublished(self, limit: int = 50) -> Records:
        """Changes that are left out; each operation has an equal share."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        first = F.row_number().over(Window.partitionBy("operation").orderBy(*_PLACE))
        rows = self.rows.filter(F.col("decision") == LEFT_OUT).withColumn("_n", first).filter(F.col("_n") <= limit)
        records = _records(
            rows.orderBy(*_PLACE).select("decision", "reason", "operation", table_name().alias("table"), "position")
        )
        return evenly(records, "operation", tuple(dict.fromkeys(row["operation"] for row in records)), limit)

    def documents(self, limit: int = 4) -> Records:
        """The first documents of each operation: ``document``, ``events``, ``why``, ``xml``, and the ``rows`` of its
        first event, one for each column of the change."""
        from pyspark.sql import functions as F

        firsts = (
            self.rows.filter(F.col("decision") == PUBLISHED)
            .groupBy("operation")
            .agg(F.min("document").alias("document"))
            .collect()
        )
        why: dict[int, list[str]] = {}
        for row in sorted(firsts, key=lambda r: _rank(r["operation"])):
            why.setdefault(row["document"], []).append(f"the first {row['operation']}")
        numbers = sorted(why)[:limit]
        if not numbers:
            return []
        made = self.published.documents.filter(F.col("document").isin(numbers)).select(
            "document", "events", F.substring("xml", 1, _MOST_XML).alias("xml"), F.length("xml").alias("length")
        )
        changes = self._changes_of(numbers)
        shown = []
        for text in sorted(_records(made), key=lambda r: r["document"]):
            number = text["document"]
            values = [value for change in changes if change["document"] == number for value in _values(change)]
            rows = {"rows": values[:_MOST_VALUES], "rows_total": len(values)}
            shown.append(text | {"why": ", ".join(why[number])} | rows)
        return shown

    chain_breaks: Final = 0
    effects: Final[dict[str, int]] = {}

    def chain(self, limit: int = 50) -> Records:
        """Empty: only event logs have chains; the same applies to the following methods."""
        return []

    def net(self, limit: int = 40) -> Records:
        """Nothing."""
        return []

    def spellings(self, problems: DataFrame, limit: int = 50) -> Records:
        """Nothing."""
        return []

    def _changes_of(self, documents: list[int]) -> Records:
        from pyspark.sql import functions as F

        placed = self.rows.filter(F.col("document").isin(documents)).select(*_PLACE, "document", "event")
        shown = ("operation", "before", "after", "changed_columns")
        joined = self.part.changes.select(*_PLACE, *shown).join(F.broadcast(placed), [*_PLACE])
        return _records(joined.orderBy("document", "event").limit(8 * len(documents)))


def _values(change: Mapping[str, Any]) -> Records:
    """The columns of a change in its document, with the value before and after as far as captured."""
    before, after = dict(change["before"] or ()), dict(change["after"] or ())
    names = list(dict.fromkeys([*before, *after]))
    if change["operation"] == Operation.UPDATE and change["changed_columns"] is not None:
        names = [name for name in names if name in change["changed_columns"]]
    rows: Records = []
    for name in names:
        row = {"operation": change["operation"], "column_name": name, "decision": PUBLISHED}
        row |= {"old_value": _cut(before[name])} if name in before else {}
        row |= {"new_value": _cut(after[name])} if name in after else {}
        rows.append(row)
    return rows


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_TEXT]


def _rank(operation: str | None) -> tuple[int, str]:
    known = [str(value) for value in Operation]
    return (known.index(operation) if operation in known else len(known), operation or "")


def _records(frame: DataFrame) -> Records:
    rows: Records = frame.toArrow().to_pylist()
    return rows
