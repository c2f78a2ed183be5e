"""Event log rows, and the changes of any capture, as XDS documents: decisions, documents, and back."""

from __future__ import annotations

from cdcwb.xds.changes import NO_KEY, events_of_changes
from cdcwb.xds.document import document_batches, documents
from cdcwb.xds.event import EVENT
from cdcwb.xds.grouping import START, Carry, Span, number_events, span_of, with_cycles
from cdcwb.xds.parse import parse_documents, to_rows
from cdcwb.xds.plain import documents_plainly
from cdcwb.xds.precedence import between_rows
from cdcwb.xds.publish import Publication, publish, to_decisions
from cdcwb.xds.rendering import to_event_table
from cdcwb.xds.rows import DECISIONS, ROWS, Decision
from cdcwb.xds.selection import own_decisions
from cdcwb.xds.settings import SETTINGS, Settings
from cdcwb.xds.snapshot import Snapshot, with_snapshot
from cdcwb.xds.validate import validate

__all__ = [
    "DECISIONS",
    "EVENT",
    "NO_KEY",
    "ROWS",
    "SETTINGS",
    "START",
    "Carry",
    "Decision",
    "Publication",
    "Settings",
    "Snapshot",
    "Span",
    "between_rows",
    "document_batches",
    "documents",
    "documents_plainly",
    "events_of_changes",
    "number_events",
    "own_decisions",
    "parse_documents",
    "publish",
    "span_of",
    "to_decisions",
    "to_event_table",
    "to_rows",
    "validate",
    "with_cycles",
    "with_snapshot",
]
