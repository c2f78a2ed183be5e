"""Captures in an object store: an S3 server on loopback gives what the files give, and no more bytes than are read."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
from benchmarks.remote import PER_PASS, bytes_of, measure
from cdcwb import opening
from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import FORMATS, source
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.source import delivered_to
from cdcwb.opening import check_capture, open_small
from cdcwb.xds.snapshot import read_table
from tests.containers import encoded
from tests.kafka import AFTER, BEFORE, STOCK, avro_record, enveloped, framed, metadata, record
from tests.local import read
from tests.made import IN_DATA, generate
from tests.s3_server import ENVIRONMENT, Server, serving, upload

DATA = Path(__file__).parents[2] / "data"
TABLES = ("events", "changes", "transactions", "table_versions", "problems", "detected")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("s3") / "requests"
    log.touch()
    with serving(log) as running:
        upload(running, "data", DATA)
        yield running


@pytest.fixture(autouse=True)
def endpoint(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": server.url}).items():
        monkeypatch.setenv(name, value)


def put(server: Server, folder: Path, name: str, data: bytes) -> str:
    """An object in a bucket named like the temporary folder; returns its URL."""
    bucket = re.sub(r"[^a-z0-9]", "-", folder.name.lower())
    place = folder / "objects" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    upload(server, bucket, folder / "objects")
    return f"s3://{bucket}/{name}"


def rows(table: pa.Table) -> list[str]:
    """The rows with the folder of the data left out."""
    return [repr(row).replace(f"{DATA}/", "").replace("s3://data/", "") for row in table.to_pylist()]


@pytest.mark.parametrize("name", IN_DATA)
def test_all_tables_of_a_remote_capture_equal_the_local_ones_and_each_byte_is_transferred_once(
    name: str, server: Server
) -> None:
    local = open_small(str(DATA / name))
    assert local is not None
    since = len(server.requests())
    remote = open_small(f"s3://data/{name}")
    assert remote is not None
    for table in TABLES:
        assert rows(remote.table(table)) == rows(local.table(table))
    size = sum(file.stat().st_size for file in (DATA / name).rglob("*") if file.is_file())
    assert server.sent(since, f"/data/{name}/") == size


def test_a_window_of_a_file_is_transferred_in_blocks_and_each_block_once(server: Server, tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 256, 5 * source.BLOCK + 17, np.uint8).tobytes()
    url = put(server, tmp_path, "random.bin", data)
    [name] = list_files(url)
    opened = open_source(name, "binary")
    since = len(server.requests())
    start = 2 * source.BLOCK - 10
    assert opened.read(start, start + 20).tobytes() == data[start : start + 20]
    assert server.sent(since) == 2 * source.BLOCK
    assert opened.read(len(data) - 5, len(data) + 5).tobytes() == data[-5:]
    assert opened.read(start - 100, start).tobytes() == data[start - 100 : start]
    assert server.sent(since) == 2 * source.BLOCK + 17
    assert not opened.read(0, 9).flags.writeable


def test_a_file_that_is_read_in_small_steps_is_transferred_in_few_requests(server: Server, tmp_path: Path) -> None:
    data = np.random.default_rng(4).integers(0, 256, 1 << 20, np.uint8).tobytes()
    [name] = list_files(put(server, tmp_path, "steps.bin", data))
    since = len(server.requests())
    with source.open_file(name) as file:
        assert b"".join(iter(lambda: file.read(1000), b"")) == data
    requests = [one.sent for one in server.requests(since) if one.method == "GET"]
    assert sum(requests) == len(data)
    assert max(requests) == source.AHEAD
    assert len(requests) < 12


CHANGES = {
    "gbase8s": 25_000,
    "goldengate": 1_500,
    "goldengate-export": 8_000,
    "qlik-kafka": 5_000,
    "qlik-change-table": 14_000,
    "idm-event-log": 16_000,
    "debezium": 1_000,
    "sqlserver-ct": 25_000,
    "maxwell": 9_000,
    "canal": 8_000,
}
"""Of captures of about 4 MB."""
OPTIONS: dict[str, dict[str, object]] = {"qlik-change-table": {"file_rows": 100_000}, "qlik-kafka": {"partitions": 1}}
BEGINNINGS = 5 << 19
"""Bytes that detection reads: each format that is asked reads the beginning."""
MARGIN = 2 << 20
"""Bytes of beginnings, of borders between splits and of records that cross them."""


@pytest.mark.parametrize("name", FORMATS)
def test_each_pass_over_a_capture_in_splits_transfers_it_once(name: str, server: Server, tmp_path: Path) -> None:
    made = generate(name, changes=CHANGES[name], seed=1, to=tmp_path / "made", **OPTIONS.get(name, {}))
    size = bytes_of(made / "capture")
    assert size > 1.5 * MARGIN
    passes = measure(server, f"passes-{name}", made / "capture", 1 << 20)
    assert passes.splits > 3
    files = sum(file.is_file() for file in (made / "capture").rglob("*"))
    assert passes.detection < max(BEGINNINGS, files * MARGIN // 4)
    assert passes.first_pass < size + MARGIN
    assert passes.reading < size + MARGIN // 2


FORMS: dict[str, tuple[str, int, dict[str, object]]] = {
    "XML export": ("goldengate-export", 6_000, {"form": "formatxml"}),
    "Avro container": ("qlik-kafka", 24_000, {"container": "avro", "partitions": 1}),
    "SQL dump": ("idm-event-log", 16_000, {"container": "sql"}),
}
"""Forms that are not cut at any line: format, changes and options."""


@pytest.mark.parametrize("form", FORMS)
def test_each_pass_over_a_form_that_is_not_cut_at_lines_transfers_it_once(
    form: str, server: Server, tmp_path: Path
) -> None:
    name, changes, options = FORMS[form]
    made = generate(name, changes=changes, seed=1, to=tmp_path / "made", **options) / "capture"
    bucket, size = re.sub(r"[^a-z]", "-", f"form-{form.lower()}"), bytes_of(made)
    assert size > MARGIN
    passes = measure(server, bucket, made, 4 << 20)
    files = sum(file.is_file() for file in (made / "capture").rglob("*"))
    assert passes.detection < max(BEGINNINGS, files * MARGIN // 4)
    assert passes.first_pass <= PER_PASS * size
    assert passes.reading <= PER_PASS * size
    local = read(made, format=name, split_size=1 << 20).drop_columns("file")
    assert read(f"s3://{bucket}", format=name, split_size=1 << 20).drop_columns("file").equals(local)
    assert read(made, format=name).drop_columns("file").equals(local)


def test_a_compressed_file_is_transferred_as_far_as_it_is_unpacked(server: Server, tmp_path: Path) -> None:
    plain = np.random.default_rng(2).integers(0, 256, 3 << 20, np.uint8).tobytes()
    [name] = list_files(put(server, tmp_path, "random.gz", gzip.compress(plain)))
    since = len(server.requests())
    head = open_source(name, "binary", 1000)
    assert (head.compression, head.read(0, 2000).tobytes()) == ("gzip", plain[:1000])
    assert server.sent(since) <= 1 << 20
    assert open_source(name, "binary").read(0, len(plain)).tobytes() == plain


def test_a_folder_is_listed_once_and_hidden_files_are_left_out(server: Server, tmp_path: Path) -> None:
    for name in ("c/a10.bin", "c/a2.bin", "c/_SUCCESS", "c/a2.bin~", "c/.x/a1.bin", "c/deep/er.bin"):
        url = put(server, tmp_path, name, b"x" * 9)
    base = url.rsplit("/", 2)[0]
    since = len(server.requests())
    found = list_files([f"{base}/", f"{base}/a2.bin"])
    assert found == [f"{base}/a2.bin", f"{base}/a10.bin", f"{base}/deep/er.bin"]
    assert [source.info_of(name).size for name in found] == [9, 9, 9]
    assert len(server.requests(since)) <= 4


def test_what_cannot_be_read_is_named_by_its_url(server: Server) -> None:
    for url, sentence in [
        ("s3://data/none", "s3://data/none: there is no such file or folder"),
        ("s3://nobody/x", "s3://nobody/x: there is no such file or folder"),
        ("s3:///x", "s3:///x: the URL names no bucket; expected s3://BUCKET/PATH"),
    ]:
        with pytest.raises(CaptureError) as error:
            check_capture(url)
        assert str(error.value) == sentence


@pytest.mark.parametrize(
    "url",
    ["s3://me:hush@data/x", "s3://hush@data/x", "s3://data/x?secret_key=hush", "abfs://c:hush@a.net/x?sas_token=hush"],
)
def test_credentials_in_a_url_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(CaptureError, match="the URL has credentials; give them in the environment") as error:
        list_files(url)
    assert "hush" not in str(error.value)


def test_a_server_that_does_not_answer_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    url = "s3://data/gbase8s?endpoint_override=http://127.0.0.1:9&region=us-east-1"
    with pytest.raises(CaptureError, match=r"s3://data/gbase8s: cannot be read \(.*NETWORK_CONNECTION"):
        list_files(url)
    source._queries.clear()


def test_the_endpoint_of_a_url_is_told_to_workers_and_is_not_part_of_names(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    name, *others = list_files(f"s3a://data/gbase8s?endpoint_override={server.url}")
    assert name == "s3://data/gbase8s/stream-1.bin"
    told = source.known([name, *others, str(DATA)])
    assert list(told["files"]) == [name, *others]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in repr(told)
    source._queries.clear()
    source.forget()
    source.announced(told)
    assert open_source(name).read(0, 99).tobytes() == (DATA / "gbase8s" / "stream-1.bin").read_bytes()[:99]
    source._queries.clear()


def test_a_file_that_changed_is_seen_by_its_stamp_and_its_size(server: Server, tmp_path: Path) -> None:
    [name] = list_files(put(server, tmp_path, "a.bin", b"a" * 10))
    before = source.version_of(name)
    put(server, tmp_path, "a.bin", b"b" * 10)
    assert source.version_of(*list_files(name)) != before
    put(server, tmp_path, "a.bin", b"b" * 11)
    source._open.clear()
    with pytest.raises(CaptureError, match="changed since it was listed: expected 10 bytes, found 11"):
        open_source(name)


def test_side_files_and_folders_of_options_may_be_remote(server: Server) -> None:
    assert source.is_file("s3://data/gbase8s.labels.json")
    folder = source.fetched("s3://data/idm-event-log.snapshot")
    names = sorted(file.name for file in (DATA / "idm-event-log.snapshot").iterdir())
    assert sorted(file.name for file in folder.iterdir()) == names
    assert source.fetched(folder) == folder


LOGDUMP = """\
2014/06/21 11:12:13.456.789 FieldComp            Len     8 RBA 4096
Name: SHOP.STOCK
After  Image:                                             Partition 0
0000 0004 4B45 5931                               | ....KEY1
"""
DEFINITION = """*
Definition for table SHOP.STOCK
Record length: 4
Syskey: 0
Columns: 1
CODE     0  4  0 0 0 0 0  4  4  4 0 0 0 0 1 0 1 0
End of definition
"""
AVRO = avro_record(STOCK, AFTER, BEFORE)
IN_LINES = {"container": "lines", "encoding": "base64"}
SIDE_FILES = [
    ("qlik-kafka", "registry", "registry", "registry/42.avsc", STOCK, encoded(framed(42, AVRO))),
    ("qlik-kafka", "avro_schema", "stock.avsc", "stock.avsc", STOCK, encoded(AVRO)),
    (
        *("qlik-kafka", "metadata", "described", "described/1.json", json.dumps(metadata({"id": "INT4", "name": "X"}))),
        encoded(json.dumps(enveloped(record(AFTER, BEFORE))).encode()),
    ),
    ("goldengate", "definitions", "stock.def", "stock.def", DEFINITION, LOGDUMP.encode()),
    ("gbase8s", "labels", "names.json", "names.json", '{"101": "s.t"}', (DATA / "gbase8s/stream-1.bin").read_bytes()),
    ("gbase8s", "schemas", "old.txt", "old.txt", "101: c1 integer", (DATA / "gbase8s/stream-2.bin").read_bytes()),
]


@pytest.mark.parametrize("case", SIDE_FILES, ids=[case[1] for case in SIDE_FILES])
def test_options_that_name_files_and_folders_take_urls(
    case: tuple[str, str, str, str, str, bytes], server: Server, tmp_path: Path
) -> None:
    format, option, named, file, content, capture = case
    put(server, tmp_path, f"beside/{file}", content.encode())
    url = put(server, tmp_path, "capture/capture.bin", capture).partition("/capture/")[0]
    local = str(tmp_path / "objects")

    def shown(root: str, **options: str) -> list[str]:
        found = read(f"{root}/capture", format=format, **(IN_LINES if format == "qlik-kafka" else {}) | options)
        return [repr(row).replace(root, "") for row in found.to_pylist()]

    found = shown(url, **{option: f"{url}/beside/{named}"})
    assert found == shown(local, **{option: f"{local}/beside/{named}"})
    if option != "schemas":  # those of the stream itself come first
        assert found != shown(local)
    with pytest.raises((CaptureError, OptionError), match="none"):
        shown(url, **{option: f"{url}/beside/none"})


def test_a_snapshot_may_be_remote() -> None:
    for name in ("idm-event-log.snapshot/orders.csv", "idm-event-log.snapshot/customer.csv"):
        found = read_table(f"s3://data/{name}", None, "utf-8")
        assert found.num_rows
        assert found.equals(read_table(str(DATA / name), None, "utf-8"))


def test_paths_of_hadoop_begin_at_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    # Arrow takes a path without a slash at its beginning as one in the user's home.
    for url, root, path in [
        ("hdfs://host:8020/landing/shop", "/", "/landing/shop"),
        ("hdfs://host:8020", "/", "/"),
        ("abfs://account@host:10000/landing/shop", "", "landing/shop"),
        ("gs://landing/shop", "landing", "landing/shop"),
    ]:
        monkeypatch.setattr(source, "_connected", lambda *given, root=root: (None, root))
        assert source.file_system(url)[1] == path


def test_folders_of_urls_end_at_the_bucket() -> None:
    assert source.folders_of("s3://b/x/y/z.bin") == ["s3://b/x/y", "s3://b/x", "s3://b"]
    assert source.common_folder(["s3://b/x/y/z.bin", "s3://b/x/q.bin"]) == "s3://b/x"
    assert source.common_folder(["/a/b/c", "/a/b/d/e"]) == "/a/b"


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(server: Server, tmp_path: Path) -> str:
    """The URL of an empty bucket."""
    (tmp_path / "nothing").mkdir()
    name = re.sub(r"[^a-z0-9]", "-", tmp_path.name.lower())
    upload(server, name, tmp_path / "nothing")
    return f"s3://{name}"


def test_a_saved_capture_that_was_copied_there_is_opened_from_a_copy(server: Server, tmp_path: Path) -> None:
    local = cdcwb.load(str(DATA / "gbase8s")).save(tmp_path / "archive" / "shop")
    upload(server, "archive", tmp_path / "archive")
    copy = opening.saved_at("s3://archive/shop")
    assert copy is not None
    for table in TABLES:
        assert pq.read_table(copy / table) == pq.read_table(local / table)
    assert opening.saved_format("s3://archive/shop") == "gbase8s"
    assert check_capture("s3://archive/shop").saved is not None
    again = tmp_path / "copy"
    shutil.copytree(source.fetched("s3://archive/shop"), again)
    assert check_capture(again).saved is not None


def test_a_capture_is_saved_to_a_local_folder_only(bucket: str) -> None:
    capture = cdcwb.load(str(DATA / "gbase8s"))
    sentence = r"captures are saved to local folders only; save .* copy it there, or write tables: capture\.changes"
    with pytest.raises(CaptureError, match=sentence):
        capture.save(f"{bucket}/shop")


def files_of(url: str) -> list[str]:
    """The names of the files below a remote folder."""
    source.forget()
    try:
        return [file.removeprefix(f"{url}/") for file in source.files_below(url)]
    except CaptureError:
        return []


def test_files_are_uploaded_after_the_work_and_the_index_last(server: Server, bucket: str) -> None:
    since = len(server.requests())
    with delivered_to(f"{bucket}/reports", "index.html") as folder:
        for name in ("index.html", "masks.html", "sub/z.json"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name)
        assert not files_of(f"{bucket}/reports")
    written = [one.path.rpartition("/reports/")[2] for one in server.requests(since) if one.method in ("PUT", "POST")]
    assert [name for at, name in enumerate(written) if name not in written[:at]] == [
        *("masks.html", "sub/z.json", "index.html")
    ]
    with delivered_to(f"{bucket}/one/page.html") as page:
        page.write_text("page")
        page.with_suffix(".json").write_text("{}")
    assert files_of(f"{bucket}/one") == ["page.html", "page.json"]
    assert source.read_text(f"{bucket}/one/page.html") == "page"
    stopping = delivered_to(f"{bucket}/none/page.html")
    stopping.__enter__().write_text("page")
    assert not stopping.__exit__(KeyError, KeyError(), None)
    assert not files_of(f"{bucket}/none")


def test_a_target_that_cannot_be_written_is_a_sentence(server: Server) -> None:
    page = delivered_to("s3://no-such-bucket/page.html")
    page.__enter__().write_text("page")
    with pytest.raises(CaptureError, match=r"^s3://no-such-bucket/page\.html: cannot be written \("):
        page.__exit__(None, None, None)
    with pytest.raises(CaptureError, match="the URL has credentials"):
        delivered_to("s3://key:word@bucket/page.html").__enter__()


def test_the_commands_refuse_what_is_local_only(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["save", str(DATA / "gbase8s"), "--to", f"{bucket}/shop"]) == 2
    assert "results are written to this machine; name a local path and copy them" in capsys.readouterr().err
    assert main(["export", str(DATA / "gbase8s"), "--view", "changes", "--to", f"{bucket}/changes.xls"]) == 2
    assert "expected a file that ends in .jsonl" in capsys.readouterr().err
    assert files_of(bucket) == []
