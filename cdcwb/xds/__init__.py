"""Event log rows, and the changes of any capture, as XDS documents: decisions, documents, and parsing."""

from __future__ import annotations

from cdcwb.xds.changes import NO_KEY, events_of_changes
from cdcwb.xds.decisions import between_rows, own_decisions
from cdcwb.xds.document import EVENT, document_batches, documents
from cdcwb.xds.parse import parse_documents, validate
from cdcwb.xds.publisher import number_events, to_decisions, to_event_table, with_cycles
from cdcwb.xds.rows import DECISIONS, ROWS, Decision
from cdcwb.xds.settings import SETTINGS, Settings
from cdcwb.xds.snapshot import Snapshot, with_snapshot

__all__ = [
    "DECISIONS",
    "EVENT",
    "NO_KEY",
    "ROWS",
    "SETTINGS",
    "Decision",
    "Settings",
    "Snapshot",
    "between_rows",
    "document_batches",
    "documents",
    "events_of_changes",
    "number_events",
    "own_decisions",
    "parse_documents",
    "to_decisions",
    "to_event_table",
    "validate",
    "with_cycles",
    "with_snapshot",
]
