"""The page on an event log, for captures that are none: their changes as XDS, and the documents that come first.

The shape is that of :class:`cdcwb.analysis.event_log_page.LogPage`, as far as changes have an answer.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.event_log_kept import kept_in
from cdcwb.analysis.event_log_page import LogPage, Records, evenly
from cdcwb.analysis.frames import table_name
from cdcwb.analysis.xds_changes import LEFT_OUT, PUBLISHED, xds_of_changes
from cdcwb.formats.idm_event_log.layout import FORMAT
from cdcwb.model import Operation
from cdcwb.xds import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["DECISIONS", "ChangePage", "page_of"]

DECISIONS: Final = (PUBLISHED, LEFT_OUT)

_PLACE: Final = ("file_index", "offset")
_MOST_XML: Final = 60_000
_MOST_VALUES: Final = 24  # of a change, that are shown
_TEXT: Final = 1000


def page_of(
    whole: Capture,
    part: Capture,
    settings: Settings,
    snapshot: Mapping[str, str] | None = None,
    folder: Path | None = None,
    infer_keys: bool = False,
) -> LogPage | ChangePage:
    """The page that fits the capture."""
    if whole.format == FORMAT:
        return LogPage(whole, part, settings, snapshot, folder)
    return ChangePage(part, settings, folder, infer_keys, whole)


class ChangePage:
    """A capture with the documents that its changes become. ``folder`` keeps the decisions as Parquet; None: nothing
    is kept. ``infer_keys``, ``whole``: as in :func:`cdcwb.analysis.xds_changes.xds_of_changes`."""

    is_log: Final = False

    def __init__(
        self,
        capture: Capture,
        settings: Settings,
        folder: Path | None = None,
        infer_keys: bool = False,
        whole: Capture | None = None,
    ) -> None:
        self.part = capture
        self.settings = settings
        self.published = xds_of_changes(capture, settings, infer_keys=infer_keys, whole=whole)
        rows = self.published.decisions
        self.rows = rows if folder is None else kept_in(capture, folder, ("decisions",)).keep("decisions", rows)

    @cached_property
    def counts(self) -> Records:
        """How many changes of each operation have which decision."""
        rows = self.rows.groupBy("operation", "decision").count().collect()
        found = [{"operation": r["operation"], "decision": r["decision"], "rows": r["count"]} for r in rows]
        return sorted(found, key=lambda r: (_rank(r["operation"]), r["decision"] != PUBLISHED))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Numbers: ``rows`` (changes), ``decisions_published``, ``decisions_left_out``, ``documents``, ``events``."""
        summary = self.published.summary
        numbers = {f"decisions_{name}": summary.decisions.get(name, 0) for name in DECISIONS}
        whole = {"rows": sum(numbers.values()), "documents": summary.documents, "events": summary.events}
        return whole | numbers

    @property
    def left_out(self) -> int:
        """How many changes are left out."""
        number: int = self.facts["decisions_left_out"]
        return number

    @cached_property
    def reasons(self) -> Records:
        """Why changes are left out, and how many for each reason, most first."""
        return [
            {"decision": LEFT_OUT, "reason": reason, "rows": number}
            for reason, number in self.published.reasons.items()
        ]

    def unpublished(self, limit: int = 50) -> Records:
        """Changes that are left out: of every operation as many as there is room for."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        first = F.row_number().over(Window.partitionBy("operation").orderBy(*_PLACE))
        rows = self.rows.filter(F.col("decision") == LEFT_OUT).withColumn("_n", first).filter(F.col("_n") <= limit)
        found = _records(
            rows.orderBy(*_PLACE).select("decision", "reason", "operation", table_name().alias("table"), "position")
        )
        return evenly(found, "operation", tuple(dict.fromkeys(row["operation"] for row in found)), limit)

    def documents(self, limit: int = 4) -> Records:
        """The first documents of each operation: ``document``, ``events``, ``why``, ``xml``, and the ``rows`` that its
        first event came from, one for each column of the change."""
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
        found = []
        for text in sorted(_records(made), key=lambda r: r["document"]):
            number = text["document"]
            values = [value for change in changes if change["document"] == number for value in _values(change)]
            rows = {"rows": values[:_MOST_VALUES], "rows_total": len(values)}
            found.append(text | {"why": ", ".join(why[number])} | rows)
        return found

    chain_breaks: Final = 0
    effects: Final[dict[str, int]] = {}
    costs: Final[Records] = []
    costs_by_category: Final[Records] = []

    def chain(self, limit: int = 50) -> Records:
        """Asked of event logs alone, as are the following."""
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
    """The columns of a change that its document is about, with the value before and the value after where the capture
    has them."""
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
    known = [str(one) for one in Operation]
    return (known.index(operation) if operation in known else len(known), operation or "")


def _records(frame: DataFrame) -> Records:
    rows: Records = frame.toArrow().to_pylist()
    return rows
