"""Live sources: topics of a Kafka cluster, tables of a database."""

from __future__ import annotations

from typing import Final

__all__ = ["FILE_BYTES", "PATIENCE"]

FILE_BYTES: Final = 64 << 20
"""Bytes of keys and values after which the next file of a partition begins."""

PATIENCE: Final = 60.0
"""Seconds without a message after which the cluster counts as down."""
