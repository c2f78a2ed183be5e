"""An S3 server on loopback, in a process of its own, and what was transferred from it.

``python -m tests.s3_server LOG`` serves moto's S3 on a free port, which is the first line of its output, until its
standard input ends, and writes a line for each request that was answered to LOG: method, path, status and the bytes of
the body that were sent.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-s3" / "bin" / "python"

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "loopback",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Of a client of the server, besides ``AWS_ENDPOINT_URL``."""


@dataclass(frozen=True)
class Request:
    """One request that was answered."""

    method: str
    path: str
    status: int
    sent: int


@dataclass(frozen=True)
class Server:
    """A server that runs. ``url``: its endpoint."""

    url: str
    log: Path

    def requests(self, since: int = 0) -> list[Request]:
        """The requests so far but the first ones."""
        lines = self.log.read_text(encoding="utf-8").splitlines()[since:]
        return [Request(method, path, int(status), int(sent)) for method, path, status, sent in map(str.split, lines)]

    def sent(self, since: int = 0, below: str = "") -> int:
        """The bytes of objects that were sent to clients, of those whose path begins so."""
        got = (one for one in self.requests(since) if one.method == "GET" and one.path.count("/") > 1)
        return sum(one.sent for one in got if one.path.startswith(below))


@contextmanager
def serving(log: Path) -> Iterator[Server]:
    """A server as long as the block runs."""
    if not PYTHON.exists():
        import pytest

        pytest.skip(f"{PYTHON} is not there: make s3 makes the environment of the S3 server")
    with started(PYTHON, "tests.s3_server", log) as server:
        yield server


@contextmanager
def started(python: Path, module: str, log: Path) -> Iterator[Server]:
    """The server of a module that prints its port, in a process of its own as long as the block runs."""
    command = [str(python), "-m", module, str(log)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, f"{module} did not start"
        yield Server(f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.communicate()


def upload(server: Server, bucket: str, folder: Path) -> None:
    """Creates a bucket with the files of a folder."""
    _put(f"{server.url}/{bucket}", b"")
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            _put(f"{server.url}/{bucket}/{quote(str(file.relative_to(folder)))}", file.read_bytes())


def _put(url: str, data: bytes) -> None:
    headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS loopback:unsigned"}
    with urlopen(HttpRequest(url, data, headers, method="PUT"), timeout=30) as answer:
        answer.read()


class _Logged:
    """An application whose answers are written to a log."""

    def __init__(self, application: Any, log: Path) -> None:
        self._application = application
        self._log = log.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        status = ["000"]

        def start(line: str, *more: Any) -> Any:
            status[0] = line[:3]
            return start_response(line, *more)

        answer = self._application(environ, start)
        body = b"".join(answer)
        if b"<CompleteMultipartUploadResponse" in body[:100]:  # S3 calls it a result, and Arrow insists on that
            length = len(body)
            body = body.replace(b"CompleteMultipartUploadResponse", b"CompleteMultipartUploadResult").ljust(length)
        with self._lock:
            self._log.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO'] or '/'} {status[0]} {len(body)}\n")
            self._log.flush()
        return [body]


def _serve(log: Path) -> None:
    moto, serving = map(import_module, ("moto.server", "werkzeug.serving"))
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    serving.WSGIRequestHandler.protocol_version = "HTTP/1.1"
    application = _Logged(moto.DomainDispatcherApplication(moto.create_backend_app), log)
    server = serving.make_server("127.0.0.1", 0, application, threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
