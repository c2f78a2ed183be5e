"""One broker and one Spark session for the tests of this folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.live.broker import Broker, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker; each test has topics of its own."""
    one = Broker(tmp_path_factory.mktemp("broker"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that cdcwb starts for topics."""
    from cdcwb.live.frames import connector
    from cdcwb.spark.session import get_spark

    with (jars() / ".resolving").open("w") as held:  # Ivy's cache is not made for two processes at a time
        fcntl.flock(held, fcntl.LOCK_EX)
        session = get_spark("cdcwb-tests", packages=[connector()])
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than running over so little
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()
