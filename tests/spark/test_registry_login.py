"""A registry that wants a user and a password: they are used, and are in nothing that is written."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.errors import CaptureError
from cdcwb.formats.containers.registry import LOGIN, read_registry, without_login
from cdcwb.views.workbook import make_workbook

WORD = "planted-word-5521"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDCWB_REGISTRY", "")
    monkeypatch.setenv(LOGIN, "")  # what is set meanwhile is taken back
    synth.generate("qlik-kafka", changes=300, seed=5, to=tmp_path / "made", form="confluent", container="parquet")
    return tmp_path / "made"


@pytest.fixture
def registry(made: Path) -> Iterator[str]:
    """A registry with the generated schemas; yields host and port."""
    allowed = f"Basic {base64.b64encode(f'reader:{WORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = made / "registry" / f"{self.path.rpartition('/')[2]}.avsc"
            known = self.headers.get("Authorization") == allowed
            self.send_response(401 if not known else 200 if path.is_file() else 404)
            self.end_headers()
            if known and path.is_file():
                self.wfile.write(path.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def texts(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


def test_the_login_is_that_of_the_url_or_of_the_environment(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_login({"registry": f"http://{registry}"})
    assert read_registry(f"http://reader:{WORD}@{registry}", [41])
    with pytest.raises(CaptureError, match="401"):
        read_registry(f"http://{registry}", [41])
    monkeypatch.setenv(LOGIN, f"reader:{WORD}")
    assert read_registry(f"http://{registry}", [41])
    with pytest.raises(CaptureError, match="401") as refused:
        read_registry(f"http://reader:{WORD}x@{registry}", [41])
    assert WORD not in str(refused.value)


@pytest.mark.usefixtures("spark")
def test_what_is_stored_of_a_registry_has_no_password(registry: str, made: Path, tmp_path: Path) -> None:
    url, out = f"http://reader:{WORD}@{registry}", tmp_path / "out"
    capture = cdcwb.load(made / "capture", registry=url)
    assert capture.problems.where("code = 'no_registry'").count() == 0
    saved = capture.save(out / "saved")
    assert f"http://{registry}" in (saved / "cdcwb.json").read_text()
    again = cdcwb.load([saved, made / "capture"], registry=url)  # the same option, although it was stored without
    assert again.changes.count() == capture.changes.count()
    make_workbook(made / "capture", out / "notebooks", options={"registry": url})
    with pytest.raises(CaptureError) as refused:
        cdcwb.load([saved, made / "capture"], registry=url.replace(registry, "elsewhere:1"))
    shown = [*texts(out), repr(capture.facts), repr(capture.detected.collect()), str(refused.value)]
    assert [text for text in shown if WORD in text] == []
