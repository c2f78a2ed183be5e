"""Figures from records: small data in, picture out. No Spark, no parsing."""

from cdcwb.charts.overview import heatmap, operations
from cdcwb.charts.timeline import timeline

__all__ = ["heatmap", "operations", "timeline"]
