"""The changes of any capture as XDS documents, at any size (docs/formats/idm-event-log.md §7).

Changes are published in commit order, and in log order within a commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import xds
from cdcwb.analysis.event_log import LOCATION, location_texts
from cdcwb.analysis.event_log_page import LogPage, Page, Records, evenly
from cdcwb.analysis.frames import TableStore
from cdcwb.analysis.keys import InferredKey, changes_of, known_of, without_key
from cdcwb.analysis.keys import infer_keys as infer
from cdcwb.analysis.xds import A_PART, DOCUMENTS, Published, Summary, counted, firsts_of_parts
from cdcwb.dataset import PART, Batches
from cdcwb.errors import CaptureError
from cdcwb.filters import NO_TABLE
from cdcwb.formats.arrays import label
from cdcwb.formats.idm_event_log.layout import FORMAT
from cdcwb.model import CHANGES, Operation
from cdcwb.xds import Settings
from cdcwb.xds.changes import events_of_changes
from cdcwb.xds.rows import Bools, Ints, flags

PUBLISHED: Final = "published"
LEFT_OUT: Final = "left_out"

_OF_CHANGE: Final = (*LOCATION, "position", "transaction_id", "schema_name", "table_name", "operation")
_NUMBERS: Final = (("document", pa.int64()), ("event", pa.int64()))  # null if left out

CHANGE_DECISIONS: Final = pa.schema(
    [
        *(CHANGES.field(name).remove_metadata() for name in _OF_CHANGE),
        ("decision", pa.string()),  # published or left_out
        ("reason", pa.string()),
        *_NUMBERS,
    ]
)
"""One row for each change."""

_ORDER: Final = ("commit", "at", *LOCATION)
_RENDERED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("commit", "at", "reason")),
        *(CHANGE_DECISIONS.field(name) for name in _OF_CHANGE),
        *(field for field in xds.EVENT if field.name not in ("document", "event")),
    ]
)
_NUMBERED: Final = pa.schema([*_RENDERED, *_NUMBERS])


def xds_of_changes(
    capture: Any, settings: Settings, *, infer_keys: bool = False, complete: Any = None, a_part: int = A_PART
) -> Published:
    """Publishes a capture's changes: insert as add, update as modify, delete as delete.

    Left out, and counted, are changes that were not committed, those of other operations, and those without a key (see
    the capture's option ``keys``). ``infer_keys``: tables without any key get an inferred one
    (:func:`cdcwb.analysis.keys.infer_keys`), from the changes of ``complete`` if ``capture`` is a part of it. Only
    settings of documents apply: batch_size, schema, class_names and types. Raises CaptureError for a capture that was
    loaded without values.
    """
    if not capture.has_images:
        raise CaptureError("documents are made of values, and the capture was loaded with images=False")
    inferred = _inferred(complete or capture) if infer_keys else []
    changes = changes_of(capture, CHANGES.names, {key.table: [key.column] for key in inferred})
    store = TableStore()
    rendered = store.keep("rendered", changes.map(partial(_rendered, settings), _RENDERED))
    in_parts, parts = rendered.in_parts(_ORDER, a_part)
    firsts = firsts_of_parts(in_parts, parts, _are_events)
    numbered = store.keep("numbered", in_parts.by_part(_ORDER, partial(_numbered, settings, firsts), _NUMBERED))
    reasons = {row["reason"]: row["rows"] for row in counted(numbered, ["reason"])}
    reasons.pop(None, None)
    events = int(firsts[-1])
    counts = {PUBLISHED: events, LEFT_OUT: sum(reasons.values())}
    return Published(
        decisions=numbered.map(_decided, CHANGE_DECISIONS),
        numbered=numbered,
        summary=Summary(-(-events // settings.batch_size), events, {name: n for name, n in counts.items() if n}),
        order=("event",),
        render=_documents,
        store=store,
        reasons=dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
        inferred=inferred,
    )


def _inferred(capture: Any) -> list[InferredKey]:
    return list(infer(capture, without_key(known_of(capture).tables)).values())


def _rendered(settings: Settings, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each change as an event without numbers, or the reason why it is left out."""
    made = events_of_changes(batch, settings)
    columns = {"reason": _spread(made.left_out["reason"], made.left_out["row"], len(batch))}
    columns |= {"commit": pc.coalesce(batch["commit_position"], batch["position"], "")}
    columns |= {"at": pc.coalesce(batch["position"], "")}
    columns |= {name: batch[name] for name in _OF_CHANGE}
    for name in _RENDERED.names:
        if name not in columns:
            columns[name] = _spread(made.events[name], made.rows, len(batch))
    return pa.RecordBatch.from_pydict(columns, _RENDERED)


def _spread(values: pa.ChunkedArray, rows: pa.Array | pa.ChunkedArray, count: int) -> pa.Array:
    """A column with the values in these rows; null in the others."""
    at = np.full(count, -1, dtype=np.int64)
    at[rows.to_numpy()] = np.arange(len(values))
    return values.combine_chunks().take(pa.array(at, mask=at < 0))


def _are_events(batch: pa.RecordBatch | pa.Table) -> Bools:
    return flags(batch["reason"].is_null())


def _numbered(settings: Settings, firsts: Ints, rows: pa.Table) -> pa.Table:
    """Every row with the numbers of its event and document; ``firsts`` are the numbers of events before each part."""
    published = _are_events(rows)
    event = np.cumsum(published) + firsts[rows[PART.name][0].as_py()]
    numbers = [pa.array(values, mask=~published) for values in ((event - 1) // settings.batch_size + 1, event)]
    return pa.table([*(rows[name] for name in _RENDERED.names), *numbers], schema=_NUMBERED)


def _decided(batch: pa.RecordBatch) -> pa.RecordBatch:
    published = batch["reason"].is_null()
    sentence = pc.binary_join_element_wise("published in document ", batch["document"].cast(pa.string()), "")
    columns = {"decision": pc.if_else(published, PUBLISHED, LEFT_OUT), "reason": pc.coalesce(batch["reason"], sentence)}
    return pa.RecordBatch.from_pydict({name: batch[name] for name in batch.schema.names} | columns, CHANGE_DECISIONS)


def _documents(batches: Batches) -> Batches:
    for batch in xds.document_batches(batch.select(xds.EVENT.names).cast(xds.EVENT) for batch in batches):
        nothing = pa.nulls(len(batch), pa.int64())
        columns = [batch["document"], batch["events"].cast(pa.int64()), nothing, nothing, batch["xml"]]
        yield pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


# --- change page ------------------------------------------------------------------------------------------------------

DECISIONS: Final = (PUBLISHED, LEFT_OUT)

_MOST_VALUES: Final = 24  # values of a change that are shown
_TEXT: Final = 1000


def page_of(
    complete: Any,
    part: Any,
    settings: Settings,
    snapshot: Mapping[str, str] | None = None,
    folder: Path | None = None,
    infer_keys: bool = False,
) -> LogPage | ChangePage:
    """The page for the format of the capture."""
    if complete.format == FORMAT:
        return LogPage(complete, part, settings, snapshot, folder)
    return ChangePage(part, settings, folder, infer_keys, complete)


class ChangePage(Page):
    """A capture with the documents of its changes. ``folder`` stores the decisions as Parquet; None: nothing is stored.
    ``infer_keys``, ``complete``: as in :func:`xds_of_changes`."""

    kind: ClassVar[str] = "operation"

    def __init__(
        self,
        capture: Any,
        settings: Settings,
        folder: Path | None = None,
        infer_keys: bool = False,
        complete: Any = None,
    ) -> None:
        self.part = capture
        self.settings = settings
        store = TableStore(folder, ("decisions",))
        self.published = xds_of_changes(capture, settings, infer_keys=infer_keys, complete=complete)
        rows = self.published.decisions
        self.rows = rows if folder is None else store.keep("decisions", rows)

    @cached_property
    def counts(self) -> Records:
        """The number of changes by operation and decision."""
        return sorted(self._counts, key=lambda r: (_rank(r["operation"]), r["decision"] != PUBLISHED))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Numbers: ``rows`` (changes), ``decisions_published``, ``decisions_left_out``, ``documents``, ``events``."""
        summary = self.published.summary
        numbers = {f"decisions_{name}": summary.decisions.get(name, 0) for name in DECISIONS}
        totals = {"rows": sum(numbers.values()), "documents": summary.documents, "events": summary.events}
        return totals | numbers

    @cached_property
    def reasons(self) -> Records:
        """Why changes are left out, with the number for each reason, most first."""
        reasons = self.published.reasons.items()
        return [{"decision": LEFT_OUT, "reason": reason, "rows": number} for reason, number in reasons]

    def unpublished(self, limit: int = 50) -> Records:
        """Changes that are left out; each operation has an equal share."""
        rows = self.rows.where(lambda batch: pc.equal(batch["decision"], LEFT_OUT))
        records = self.first_by(rows, "operation", limit)
        for row in records:
            row["table"] = label(row["schema_name"], row["table_name"]) or NO_TABLE
        return evenly(records, "operation", tuple(dict.fromkeys(row["operation"] for row in records)), limit)

    def documents(self, limit: int = 4) -> Records:
        """The first documents of each operation: ``document``, ``events``, ``why``, ``xml``, and the ``rows`` of its
        first event, one for each column of the change."""
        published = self.rows.where(lambda batch: pc.equal(batch["decision"], PUBLISHED))
        firsts = counted(published, ["operation"], document="min")
        why: dict[int, list[str]] = {}
        for row in sorted(firsts, key=lambda r: _rank(r["operation"])):
            why.setdefault(row["document"], []).append(f"the first {row['operation']}")
        numbers = sorted(why)[:limit]
        changes = self._changes_of(numbers) if numbers else []
        shown = []
        for text in self.texts(numbers):
            number = text["document"]
            values = [value for change in changes if change["document"] == number for value in _values(change)]
            rows = {"rows": values[:_MOST_VALUES], "rows_total": len(values)}
            shown.append(text | {"why": ", ".join(why[number])} | rows)
        return shown

    def _changes_of(self, documents: list[int]) -> Records:
        chosen, shown = pa.array(documents), ("document", "event")
        rows = self.rows.select((*LOCATION, *shown))
        first = rows.where(lambda batch: pc.is_in(batch["document"], chosen)).first(shown, 8 * len(documents))
        locations = location_texts(first)
        changes = self.part.rows("changes", (*LOCATION, "operation", "before", "after", "changed_columns"))
        same = (  # several rows of a message have one location
            one.where(lambda batch: pc.is_in(location_texts(batch), locations)).sorted(LOCATION).table().to_pylist()
            for one in (changes, rows)
        )
        found = [values | numbers for values, numbers in zip(*same, strict=True) if numbers["document"] in documents]
        return sorted(found, key=itemgetter(*shown))[: len(first)]


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
