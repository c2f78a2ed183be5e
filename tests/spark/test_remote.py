"""Captures in an object store, read by Spark: the same rows, from splits that transfer no more than they read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import model
from cdcwb.analysis.export import export
from cdcwb.formats import source
from cdcwb.formats.files import list_files
from cdcwb.formats.source import BLOCK, forget, read_text, url_of
from cdcwb.opening import open_small
from tests.s3_server import ENVIRONMENT, Server, serving, upload
from tests.store_servers import azure, google

SPLIT = 1 << 19
MARGIN = 1 << 20
"""Bytes of beginnings, which every process looks at for itself."""
DATA = Path(__file__).parents[2] / "data"

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return (
        synth.generate("gbase8s", changes=12_000, seed=1, to=tmp_path_factory.mktemp("synth") / "c", files=1)
        / "capture"
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, capture: Path) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("s3") / "requests"
    log.touch()
    with serving(log) as running:
        upload(running, "synth", capture)
        yield running


def test_changes_that_workers_read_from_an_object_store_equal_the_local_ones(
    capture: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    columns = ["transaction_id", "position", "operation", "table_name", "outcome"]
    [file] = list_files(capture)
    size = Path(file).stat().st_size
    assert size > 3 * SPLIT
    local = cdcwb.load(file, split_size=SPLIT)
    since = len(server.requests())
    # The endpoint is in the URL alone: workers have it from the plan.
    remote = cdcwb.load(f"s3://synth/{Path(file).name}?endpoint_override={server.url}", split_size=SPLIT)
    planned = server.sent(since)
    assert planned <= 1.1 * size + MARGIN
    assert remote.files[0]["file"] == f"s3://synth/{Path(file).name}"
    order = [(name, "ascending") for name in columns]
    found, expected = (one.changes.select(*columns).toArrow().sort_by(order) for one in (remote, local))
    assert found.equals(expected)
    small = open_small(file)
    assert small is not None
    assert found.num_rows == small.table("changes").num_rows
    read = server.sent(since) - planned
    splits = -(-size // SPLIT)
    assert read <= 2 * (size + 2 * splits * BLOCK)


@pytest.mark.parametrize("scheme", ["gs", "abfs"])
def test_workers_read_from_the_stores_of_google_and_azure(capture: Path, scheme: str, tmp_path: Path) -> None:
    [file] = list_files(capture)
    with {"gs": google, "abfs": azure}[scheme](tmp_path / "requests") as running:
        source.upload(Path(file), url_of(f"{scheme}://data/shop/stream.bin?endpoint_override={running.url}"))
        # The endpoint is in the URL alone, the key of Azure in the environment that the session was started with.
        remote = cdcwb.load(f"{scheme}://data/shop", split_size=SPLIT)
        found = remote.changes.select("position", "operation", "table_name").toArrow().sort_by("position")
    forget()
    expected = cdcwb.load(file, split_size=SPLIT).changes.select("position", "operation", "table_name")
    assert found.equals(expected.toArrow().sort_by("position"))


def test_a_saved_capture_is_loaded_from_an_object_store(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": server.url}).items():
        monkeypatch.setenv(name, value)
    cdcwb.load(DATA / "gbase8s").save(tmp_path / "saved" / "stream")
    upload(server, "saved", tmp_path / "saved")
    remote, local = (cdcwb.load(place) for place in ("s3://saved/stream", tmp_path / "saved" / "stream"))
    for table in ("changes", "transactions", "problems"):
        order = [
            (name, "ascending")
            for name in ("file_index", "offset", "begin_position")
            if name in model.TABLES[table].names
        ]
        found, expected = (getattr(one, table).toArrow().sort_by(order) for one in (remote, local))
        assert found.num_rows
        assert found.equals(expected)


def test_files_are_appended_to_a_remote_saved_capture_and_a_table_is_exported(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": server.url}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "nothing").mkdir()
    upload(server, "results", tmp_path / "nothing")
    files = list_files(DATA / "qlik-kafka")
    half = len(files) // 2
    cdcwb.load(files[:half], images=True, split_size=1 << 20).save(tmp_path / "saved" / "half")
    upload(server, "halves", tmp_path / "saved")
    again, local = cdcwb.load(["s3://halves/half", *files[half:]]), cdcwb.load(files)
    found, expected = (
        one.changes.toArrow().sort_by([("file_index", "ascending"), ("offset", "ascending")]) for one in (again, local)
    )
    assert expected.num_rows
    assert found.equals(expected)
    size = export(again, "transactions", "s3://results/out/transactions.jsonl")
    assert size == export(local, "transactions", tmp_path / "transactions.jsonl")
    assert read_text("s3://results/out/transactions.jsonl") == read_text(str(tmp_path / "transactions.jsonl"))
