"""Servers and one Spark session for the tests of this folder."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.broker import Broker, jars
from tests.live.databases import PASSWORD, SERVERS, USER, Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker; each test has topics of its own."""
    one = Broker(tmp_path_factory.mktemp("broker"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Topics are copied to a cache of the tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CDCWB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A running database server of each kind."""
    folder = Path(tempfile.mkdtemp(prefix="cdcwb-server-"))  # which another user can read, unlike those of pytest
    one = SERVERS[request.param](folder)
    try:
        one.start()
        one.prepare()
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(server: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The same, with user and password in the environment."""
    monkeypatch.setenv("CDCWB_JDBC_USER", USER)
    monkeypatch.setenv("CDCWB_JDBC_PASSWORD", PASSWORD)
    return server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that cdcwb starts for topics and databases."""
    import pyspark

    from cdcwb.live.addresses import Address
    from cdcwb.spark.session import get_spark

    drivers = [one for name in SERVERS for one in Address.parse(f"jdbc:{name}://host/db").packages({})]
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    with (jars() / ".resolving").open("w") as held:  # Ivy's cache is not made for two processes at a time
        fcntl.flock(held, fcntl.LOCK_EX)
        session = get_spark("cdcwb-tests", packages=[connector, *drivers])
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than running over so little
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()
