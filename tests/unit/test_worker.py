"""Spark's workers: what is loaded is out of the garbage collector's way, and their daemon forks without threads."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from cdcwb.spark.worker import spare_collector
spare_collector()
first = gc.get_freeze_count()
assert first > 1000, first
spare_collector()
assert gc.get_freeze_count() == first  # nothing was loaded in between
import wave
spare_collector()
assert gc.get_freeze_count() > first
assert len(gc.get_objects()) < first / 4
"""


def test_what_is_loaded_is_set_aside_once_for_every_time_that_modules_came_in() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


DAEMON = """
import sys
import cdcwb.spark.daemon
assert not {"numpy", "pyarrow", "pandas"} & set(sys.modules)
"""


def test_the_daemon_loads_no_library_that_starts_threads() -> None:
    done = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
