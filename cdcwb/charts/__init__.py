"""Figures from records: small data in, picture out. No Spark, no parsing."""

from cdcwb.charts.decisions import costs, decisions, histories, timelines
from cdcwb.charts.masks import bits, changed_over_time, often, together
from cdcwb.charts.overview import heatmap, operations
from cdcwb.charts.timeline import timeline

__all__ = [
    "bits",
    "changed_over_time",
    "costs",
    "decisions",
    "heatmap",
    "histories",
    "often",
    "operations",
    "timeline",
    "timelines",
    "together",
]
