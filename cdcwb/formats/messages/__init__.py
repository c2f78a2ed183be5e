"""Kafka messages in files of any kind, found without knowing what is in them.

:func:`probe` tells what a file is, :func:`parts` where it can be cut, :func:`read` gives its messages as Arrow arrays,
:func:`locate` the one at a place; :func:`from_arrow` does the same for rows that come from elsewhere.
"""

from __future__ import annotations

from cdcwb.formats.messages.batch import FILLER, MALFORMED, MESSAGE, NOTE, TRUNCATED, Messages
from cdcwb.formats.messages.container import OPTIONS, Container, Options
from cdcwb.formats.messages.probe import probe
from cdcwb.formats.messages.reading import BATCH, Bounds, bounds_of, locate, parts, read, settled
from cdcwb.formats.messages.rows import from_arrow, kafka_columns

__all__ = [
    "BATCH",
    "FILLER",
    "MALFORMED",
    "MESSAGE",
    "NOTE",
    "OPTIONS",
    "TRUNCATED",
    "Bounds",
    "Container",
    "Messages",
    "Options",
    "bounds_of",
    "from_arrow",
    "kafka_columns",
    "locate",
    "parts",
    "probe",
    "read",
    "settled",
]
