"""Captures in Google's and Azure's object stores on loopback: the same as local ones, and results are saved there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb import opening
from cdcwb.errors import CaptureError
from cdcwb.formats import source
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.source import delivered_to, upload
from cdcwb.opening import check_capture, open_small
from tests.made import IN_DATA
from tests.s3_server import Server
from tests.store_servers import AZURE_ENVIRONMENT, azure, google

DATA = Path(__file__).parents[2] / "data"
TABLES = ("events", "changes", "transactions", "table_versions", "problems", "detected")
WINDOW = 1 << 19
"""Bytes of the beginning of a file that Google's client has in its buffers once the file is open."""


@pytest.fixture(scope="module", params=["gs", "abfs"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with {"gs": google, "abfs": azure}[scheme](tmp_path_factory.mktemp(scheme) / "requests") as running:
        yield running


@pytest.fixture(scope="module")
def endpoint(scheme: str, server: Server) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        variables = {"gs": {"STORAGE_EMULATOR_HOST": server.url}, "abfs": AZURE_ENVIRONMENT}[scheme]
        for name, value in (variables | {"AZURE_STORAGE_SERVICE_ENDPOINT": server.url}).items():
            environment.setenv(name, value)
        source._connected.cache_clear()
        yield
    source._connected.cache_clear()


@pytest.fixture(scope="module")
def data(scheme: str, endpoint: None) -> str:
    """The URL of a bucket with the captures of the folder data."""
    for file in sorted(DATA.rglob("*")):
        if file.is_file():
            upload(file, f"{scheme}://data/{file.relative_to(DATA)}")
    return f"{scheme}://data"


@pytest.mark.parametrize("name", IN_DATA)
def test_all_tables_of_a_remote_capture_equal_the_local_ones_and_each_byte_is_transferred_once(
    name: str, data: str, server: Server
) -> None:
    local = open_small(str(DATA / name))
    assert local is not None
    since = len(server.requests())
    remote = open_small(f"{data}/{name}")
    assert remote is not None
    for table in TABLES:
        found, expected = (one.table(table).to_pylist() for one in (remote, local))
        assert repr(found).replace(f"{data}/", "") == repr(expected).replace(f"{DATA}/", "")
    size = sum(file.stat().st_size for file in (DATA / name).rglob("*") if file.is_file())
    ended = time.monotonic() + 10
    while server.sent(since, f"/data/{name}/") < size and time.monotonic() < ended:
        time.sleep(0.02)  # the servers write their logs after they have answered
    assert server.sent(since, f"/data/{name}/") == size


def test_ranges_of_a_file_are_transferred(scheme: str, data: str, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "random.bin"
    file.write_bytes(written := np.random.default_rng(1).integers(0, 256, 4 << 20, np.uint8).tobytes())
    upload(file, f"{data}/ranges/a name with 100 %/x+y.bin")
    [name] = list_files(f"{data}/ranges")
    assert name == f"{data}/ranges/a name with 100 %/x+y.bin"
    since = len(server.requests())
    opened = open_source(name, "binary")
    for start, stop in [(3 << 20, (3 << 20) + 9), (0, 99), (100, 2 * source.BLOCK), (len(written) - 9, len(written))]:
        assert opened.read(start, stop).tobytes() == written[start:stop]
    source.forget()
    del opened
    ended = time.monotonic() + 10
    while (sent := server.sent(since)) < 4 * source.BLOCK and time.monotonic() < ended:
        time.sleep(0.02)  # the servers write their logs after they have answered
    assert 4 * source.BLOCK <= sent <= 4 * source.BLOCK + (WINDOW if scheme == "gs" else 0)


def test_a_changed_object_has_another_version(data: str, tmp_path: Path) -> None:
    versions = []
    for content in (b"a" * 10, b"b" * 10):
        (tmp_path / "x.bin").write_bytes(content)
        upload(tmp_path / "x.bin", f"{data}/version/x.bin")
        source.forget()
        versions.append(source.version_of(f"{data}/version/x.bin"))
    assert 0 not in versions
    assert versions[0] != versions[1]


def test_a_saved_capture_is_opened(data: str, tmp_path: Path) -> None:
    local = cdcwb.load(str(DATA / "goldengate")).save(tmp_path / "saved")
    for file in local.rglob("*"):
        if file.is_file():
            upload(file, f"{data}/archive/shop/{file.relative_to(local)}")
    source.forget()
    copy = opening.saved_at(f"{data}/archive/shop")
    assert copy is not None
    for table in TABLES:
        assert pq.read_table(copy / table) == pq.read_table(local / table)
    assert check_capture(f"{data}/archive/shop").saved is not None


def test_results_are_uploaded_after_the_work_and_the_index_last(scheme: str, data: str) -> None:
    with delivered_to(f"{data}/reports", "index.html") as folder:
        for name in ("index.html", "masks.html", "empty.json"):
            (folder / name).write_text(name[:-5] if name != "empty.json" else "")
        assert not source.exists(f"{data}/reports/index.html")
    source.forget()
    names = [file.rpartition("/")[2] for file in source.files_below(f"{data}/reports")]
    assert sorted(names) == ["empty.json", "index.html", "masks.html"]
    assert source.read_text(f"{data}/reports/index.html") == "index"
    assert source.read_text(f"{data}/reports/empty.json") == ""


def test_what_cannot_be_read_or_written_is_named_by_its_url(scheme: str, data: str, tmp_path: Path) -> None:
    for url in (f"{data}/none", f"{scheme}://nobody/none"):
        with pytest.raises(CaptureError) as error:
            check_capture(url)
        assert str(error.value) == f"{url}: there is no such file or folder"
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(CaptureError, match=f"^{scheme}://nobody/x: "):
        upload(tmp_path / "x", f"{scheme}://nobody/x")
    for endpoint in ("http://127.0.0.1:", "ftp://x", "http://a:b"):
        with pytest.raises(CaptureError, match="expected an endpoint like http://HOST:PORT"):
            list_files(f"{scheme}://other/x?endpoint_override={endpoint}")
    source._queries.clear()


def test_the_endpoint_may_be_in_the_url_and_the_account_too(
    scheme: str, data: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("STORAGE_EMULATOR_HOST", "AZURE_STORAGE_SERVICE_ENDPOINT", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(variable, raising=False)
    host = server.url.removeprefix("http://")
    urls = {
        "gs": [
            f"gcs://data/gbase8s?endpoint_override={server.url}",
            f"gs://anonymous@data/gbase8s?endpoint_override={host}&scheme=http",
        ],
        "abfs": [
            f"abfss://data@loopback.dfs.core.windows.net/gbase8s?endpoint_override={server.url}",
            f"abfs://loopback.blob.core.windows.net/data/gbase8s?endpoint_override={server.url}",
            f"abfs://loopback@{host}/data/gbase8s?enable_tls=false",
        ],
    }
    for url in urls[scheme]:
        for name in list_files(url):
            assert "?" not in name
            told = source.known([name])
            assert AZURE_ENVIRONMENT["AZURE_STORAGE_KEY"] not in repr(told)
            source._queries.clear()
            source.announced(told)
            assert open_source(name).read(0, 9).tobytes() == (DATA / "gbase8s" / Path(name).name).read_bytes()[:9]
        source._queries.clear()


def test_a_key_is_for_the_account_that_the_environment_names(
    scheme: str, endpoint: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme != "abfs":
        pytest.skip("accounts are Azure's")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    system, root = source.file_system("abfs://c/x")
    assert (system.__reduce__()[1][0]["account_key"], root) == (AZURE_ENVIRONMENT["AZURE_STORAGE_KEY"], "c/x")
    for url in (
        "abfs://c@other.dfs.core.windows.net/x",
        "abfs://d@other2.dfs.core.windows.net?credential_kind=anonymous",
    ):
        system, _ = source.file_system(source.url_of(url))
        assert not system.__reduce__()[1][0]["account_key"]
    source._queries.clear()
