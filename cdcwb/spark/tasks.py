"""How far Spark is."""

from __future__ import annotations

import sys

__all__ = ["running_tasks"]


def running_tasks() -> tuple[int, int | None]:
    """How many tasks of the running Spark stages are done, and how many there are (None: nothing is known)."""
    pyspark = sys.modules.get("pyspark")
    if pyspark is None:
        return 0, None
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        return 0, None
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session is being stopped, or its gateway is gone: progress is only decoration
        return 0, None
    completed = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    total = sum(stage.numTasks for stage in stages if stage is not None)
    return (completed, total) if total else (0, None)
