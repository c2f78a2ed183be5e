"""What all tests share: one time zone, which tests are chosen, and fixtures that cost something or may be missing.

``--full`` adds the tests marked ``full``, ``--slow`` those that ``tests/slow.txt`` lists, ``--cluster`` those marked
``cluster``. The tests marked ``samples`` read the sample captures of the folder that the environment variable
``CDCWB_SAMPLES`` names, and are left out where it is not set.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.possessive import refuse_doubtful_groups
from tests.quick_spark import one_compiler, quick_session
from tests.s3_server import ENVIRONMENT
from tests.store_servers import AZURE_ENVIRONMENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.report.kernel import Kernel

os.environ["TZ"] = "UTC"
time.tzset()
os.environ["CDCWB_CACHE"] = tempfile.mkdtemp(prefix="cdcwb-tests-")  # of no use to others
atexit.register(shutil.rmtree, os.environ["CDCWB_CACHE"], ignore_errors=True)
# Workers of Spark have the environment that its session began with: these are no credentials of anything.
os.environ.update(ENVIRONMENT | AZURE_ENVIRONMENT)
refuse_doubtful_groups("cdcwb")

HERE = Path(__file__).parent
MARKS_BY_FOLDER = {
    "spark": pytest.mark.spark,
    "notebooks": pytest.mark.notebook,
    "browser": pytest.mark.browser,
    "live": pytest.mark.live,
    "cluster": pytest.mark.cluster,
}
REPORTS = ("tests/browser/", "tests/notebooks/")
LISTED = {
    name: frozenset(
        line for line in HERE.joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"
    )
    for name in ("slow", "smoke")
}
"""By the name of a mark: the files, tests and cases of tests that have it."""

# The same examples on every run and machine, so that more of them find nothing new from run to run, and no limit on the
# time of one: the machine may be busy.
settings.register_profile("normal", deadline=None, derandomize=True, print_blob=True, max_examples=50)
settings.register_profile("full", settings.get_profile("normal"), derandomize=False, max_examples=2_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked full as well")
    parser.addoption("--slow", action="store_true", help="run the tests that tests/slow.txt lists as well")
    parser.addoption("--cluster", action="store_true", help="run the tests marked cluster as well")


def pytest_configure(config: pytest.Config) -> None:
    full = config.getoption("--full")
    settings.load_profile("full" if full else "normal")
    if full:
        config.option.timeout = 0
    else:
        one_compiler()


def pytest_report_header(config: pytest.Config) -> list[str]:
    left_out = []
    if not config.getoption("--full"):
        left_out.append("left out: tests marked full (--full runs them)")
    if not config.getoption("--slow"):
        left_out.append("left out: tests that tests/slow.txt lists (--slow runs them)")
    if not config.getoption("--cluster"):
        left_out.append("left out: tests marked cluster (make test-cluster runs them)")
    if samples_folder() is None:
        left_out.append("left out: tests marked samples (CDCWB_SAMPLES names no folder)")
    if "CDCWB_LIVE_JARS" not in os.environ:
        left_out.append("left out: tests marked live (make test-live runs them)")
    return left_out


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set()
    if not config.getoption("--full"):
        left_out.add("full")
    if not config.getoption("--slow"):
        left_out.add("slow")
    if not config.getoption("--cluster"):
        left_out.add("cluster")
    if samples_folder() is None:
        left_out.add("samples")
    if "CDCWB_LIVE_JARS" not in os.environ:
        left_out.add("live")
    chosen, dropped = [], []
    for item in items:
        mark = MARKS_BY_FOLDER.get(item.path.relative_to(HERE).parts[0])
        if mark is not None:
            item.add_marker(mark)
        names = {item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}
        for name, listed in LISTED.items():
            if not listed.isdisjoint(names):
                item.add_marker(name)
        (dropped if any(item.get_closest_marker(name) for name in left_out) else chosen).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = chosen


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files are run in one process each; those of browsers and notebooks all in the same one, which has one process for
    reports."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "reports" if file.startswith(REPORTS) else file

    return Scheduling(config, log)


def samples_folder() -> Path | None:
    """The folder of sample captures, or None."""
    folder = os.environ.get("CDCWB_SAMPLES")
    return Path(folder).resolve() if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of sample captures; for tests marked ``samples``."""
    folder = samples_folder()
    assert folder is not None, "a test that uses samples has to be marked so"
    return folder


@pytest.fixture(scope="session")
def shared_kernel() -> Iterator[Kernel]:
    """The process of :mod:`tests.one_kernel`, which runs on while tests of other folders are in between."""
    from tests.one_kernel import Shared  # imports papermill, which takes seconds

    shared = Shared()
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """See :mod:`tests.quick_spark`."""
    session = quick_session()
    yield session
    session.stop()
