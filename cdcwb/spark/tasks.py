"""The progress of Spark."""

from __future__ import annotations

import sys

__all__ = ["running_tasks"]


def running_tasks() -> tuple[int, int | None]:
    """The number of finished tasks of the running Spark stages, and their total (None: unknown)."""
    pyspark = sys.modules.get("pyspark")
    if pyspark is None:
        return 0, None
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        return 0, None
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session is being stopped; progress is optional
        return 0, None
    completed = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    total = sum(stage.numTasks for stage in stages if stage is not None)
    return (completed, total) if total else (0, None)
