"""Figures from small lists of records. This package uses no Spark and parses nothing."""

from cdcwb.charts.contents import MOST_FILES, begins, done_over_time, ledger, operations
from cdcwb.charts.continuity import breaks_over_time, version_chain
from cdcwb.charts.decisions import decisions, histories
from cdcwb.charts.drift import version_lanes
from cdcwb.charts.latency import lag_over_time, latency
from cdcwb.charts.masks import bits, changed_over_time, often, together
from cdcwb.charts.reconcile import delays, difference_rates, differences_over_time, row_life, rows_over_time
from cdcwb.charts.timeline import concurrency, timeline

__all__ = [
    "MOST_FILES",
    "begins",
    "bits",
    "breaks_over_time",
    "changed_over_time",
    "concurrency",
    "decisions",
    "delays",
    "difference_rates",
    "differences_over_time",
    "done_over_time",
    "histories",
    "lag_over_time",
    "latency",
    "ledger",
    "often",
    "operations",
    "row_life",
    "rows_over_time",
    "timeline",
    "together",
    "version_chain",
    "version_lanes",
]
