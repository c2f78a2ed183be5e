"""The login of a schema registry goes to hosts that the user names in the call, never to one that only a file names."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb.cli import main
from cdcwb.errors import CaptureError
from cdcwb.explore import explore
from cdcwb_synth import generate

LOGIN = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
WORD = "planted-word-8810"
SENT = f"Basic {base64.b64encode(f'reader:{WORD}'.encode()).decode()}"


@dataclass
class Registry:
    """A schema registry on this machine, and the logins that it was sent."""

    place: str
    asked: list[str | None] = field(default_factory=list)


@contextmanager
def registry(folder: Path, redirect: str = "") -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.headers.get("Authorization"))
            path = folder / f"{self.path.rpartition('/')[2]}.avsc"
            self.send_response(307 if redirect else 200 if path.is_file() else 404)
            self.send_header("Location", redirect + self.path)
            self.end_headers()
            if path.is_file():
                self.wfile.write(path.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Registry(f"127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN, f"reader:{WORD}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of messages whose schemas are in the folder ``registry``: ``capture`` has those of
    some topics, and ``more`` the others."""
    folder = tmp_path_factory.mktemp("credentials") / "made"
    generate("qlik-kafka", changes=60, seed=3, to=folder, form="confluent", container="kcat")
    (folder / "more").mkdir()
    files = sorted((folder / "capture").iterdir())
    for file in files[1::2]:
        file.rename(folder / "more" / file.name)
    assert len(files) > 1
    return folder


@pytest.fixture
def saved(made: Path, tmp_path: Path) -> Path:
    target = tmp_path / "saved"
    run = ["save", str(made / "capture"), "-o", f"registry={made / 'registry'}", "--to", str(target)]
    assert main(run) == 0
    return target


def forged(saved: Path, url: str, option: str = "registry") -> Path:
    """The saved capture as somebody else would send it."""
    about = json.loads((saved / "cdcwb.json").read_text())
    about["continue"]["options"][option] = url
    (saved / "cdcwb.json").write_text(json.dumps(about))
    return saved


@pytest.mark.parametrize("url", ["http://{}", " HTTP://{}/", "http://reader:word@{}"])
def test_a_registry_that_a_saved_capture_names_is_not_asked(
    url: str, saved: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with registry(made / "registry") as other:
        forged(saved, url.format(other.place))
        assert main(["save", str(saved), str(made / "more"), "--to", str(tmp_path / "out")]) == 2
        assert main(["summary", str(saved), str(made / "more")]) == 2
    assert other.asked == []
    error = capsys.readouterr().err
    assert other.place in error
    assert "give it with -o registry=" in error


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_registry_of_the_call_is_asked_in_its_place(saved: Path, made: Path, tmp_path: Path) -> None:
    with registry(made / "registry") as other, registry(made / "registry") as own:
        forged(saved, f"http://{other.place}")
        run = ["save", str(saved), str(made / "more"), "-o", f"registry=http://{own.place}"]
        assert main([*run, "--to", str(tmp_path / "out")]) == 0
    assert set(own.asked) == {SENT}
    assert other.asked == []
    assert f"http://{own.place}" in (tmp_path / "out" / "cdcwb.json").read_text()


def test_nothing_is_asked_to_open_a_saved_capture_whose_registry_is_a_url(made: Path, tmp_path: Path) -> None:
    with registry(made / "registry") as own:
        run = ["save", str(made / "capture"), "-o", f"registry=http://{own.place}", "--to", str(tmp_path / "saved")]
        assert main(run) == 0
        own.asked.clear()
        explorer = explore(tmp_path / "saved").explorer
        assert explorer.record().event["raw"] is not None
    assert own.asked == []


@pytest.mark.parametrize("option", ["metadata", "registry"])
def test_no_other_option_of_a_saved_capture_leads_to_a_host(option: str, saved: Path, made: Path) -> None:
    forged(saved, "s3://bucket/x?endpoint_override=http://127.0.0.1:9", option)
    with pytest.raises(CaptureError, match=f"the {option} of the host bucket"):
        cdcwb.load([saved, made / "more"])


def test_files_of_a_host_that_only_a_saved_capture_names_are_not_looked_for(saved: Path, made: Path) -> None:
    about = json.loads((saved / "cdcwb.json").read_text())
    about["continue"]["files"].append("hdfs://127.0.0.1:9/folder/file.bin")
    (saved / "cdcwb.json").write_text(json.dumps(about))
    with pytest.raises(CaptureError, match=r"was saved from hdfs://127.0.0.1:9, and no host is asked"):
        cdcwb.load([saved, made / "more"])


def test_the_explorer_asks_no_registry_that_the_tables_of_a_saved_capture_name(saved: Path, made: Path) -> None:
    with registry(made / "registry") as other:
        file = next((saved / "detected").glob("*.parquet"))
        table = pq.read_table(file)
        row = {"scope": "capture", "setting": "registry", "value": f"http://{other.place}", "evidence": "given"}
        rows = [one for one in table.to_pylist() if one["setting"] != "registry"] + [row | {"overridden": True}]
        pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
        explorer = explore(saved).explorer
        for number in range(min(5, explorer.index.records)):
            explorer.choose(number)
            explorer.record()
    assert other.asked == []


def test_a_login_in_a_url_goes_to_its_host_alone(made: Path, tmp_path: Path) -> None:
    with registry(made / "registry") as first, registry(made / "registry") as second:
        for at, url in enumerate([f"http://first:word@{first.place}", f"http://{second.place}"]):
            run = ["save", str(made / "capture"), "-o", f"registry={url}", "--to", str(tmp_path / str(at))]
            assert main(run) == 0
    assert set(first.asked) == {f"Basic {base64.b64encode(b'first:word').decode()}"}
    assert set(second.asked) == {SENT}


def test_a_redirect_to_another_host_drops_the_login(made: Path, tmp_path: Path) -> None:
    with registry(made / "registry") as other, registry(made, redirect=f"http://{other.place}") as own:
        run = ["save", str(made / "capture"), "-o", f"registry=http://{own.place}", "--to", str(tmp_path / "saved")]
        assert main(run) == 0
    assert set(own.asked) == {SENT}
    assert set(other.asked) == {None}


@pytest.mark.parametrize("missing", ["format", "files", "facts"])
def test_a_damaged_description_is_one_sentence(missing: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = json.loads((saved / "cdcwb.json").read_text())
    del about[missing]
    (saved / "cdcwb.json").write_text(json.dumps(about))
    assert main(["summary", str(saved)]) == 2
    assert f"({missing} is missing" in capsys.readouterr().err
