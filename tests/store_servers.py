"""Google's and Azure's object stores on loopback, each in a process of its own, and what was transferred from them.

``make stores`` installs them: gcp-storage-emulator and Azurite. ``python -m tests.store_servers LOG`` serves the first
on a free port, which is the first line of its output, until its standard input ends, and writes a line for each object
that was asked for to LOG: method, path, status and the bytes of the body that were sent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.s3_server import Request, Server, started

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-stores" / "bin" / "python"
AZURITE = ROOT / ".venv-stores" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"

BUCKET: Final = "data"
AZURE_ENVIRONMENT: Final = {"AZURE_STORAGE_ACCOUNT": "loopback", "AZURE_STORAGE_KEY": "bm90LWEtc2VjcmV0"}
"""Of a client of Azurite, besides ``AZURE_STORAGE_SERVICE_ENDPOINT``."""
_PIECE: Final = 1 << 14
_SENT: Final = re.compile(r'"([A-Z]+) /loopback(/[^? ]+)\S* HTTP/1.1" (\d+) (\d+)')


@contextmanager
def google(log: Path) -> Iterator[Server]:
    """Google's store with one bucket as long as the block runs."""
    _required(PYTHON)
    with started(PYTHON, "tests.store_servers", log) as server:
        yield server


@dataclass(frozen=True)
class Azurite(Server):
    """Azurite, of whose log the lines that give a size are requests."""

    def requests(self, since: int = 0) -> list[Request]:
        """The requests so far but the first ones."""
        found = _SENT.findall(self.log.read_text(encoding="utf-8"))[since:]
        return [Request(method, path, int(status), int(sent)) for method, path, status, sent in found]


@contextmanager
def azure(log: Path) -> Iterator[Server]:
    """Azure's store with one container as long as the block runs."""
    from pyarrow import fs

    node = shutil.which("node") or ""
    _required(Path(node))
    _required(AZURITE)
    account, key = AZURE_ENVIRONMENT.values()
    options = ["--inMemoryPersistence", "--blobPort", "0", "--disableTelemetry", "--skipApiVersionCheck"]
    environment = os.environ | {"AZURITE_ACCOUNTS": f"{account}:{key}"}
    with log.open("wb") as output:
        process = subprocess.Popen([node, str(AZURITE), *options], env=environment, cwd=log.parent, stdout=output)
    try:
        host = ""
        for _ in range(600):
            if found := re.search(r"listens on http://(\S+)", log.read_text(encoding="utf-8")):
                host = found[1]
                break
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        hosts = dict.fromkeys(("blob_storage_authority", "dfs_storage_authority"), host)
        schemes = dict.fromkeys(("blob_storage_scheme", "dfs_storage_scheme"), "http")
        fs.AzureFileSystem(account, account_key=key, **hosts, **schemes).create_dir(BUCKET)
        yield Azurite(f"http://{host}", log)
    finally:
        process.kill()
        process.communicate()


def _required(file: Path) -> None:
    if not file.is_file():
        import pytest

        pytest.skip(f"{file} is not there: make stores installs the servers (Azurite needs Node.js)")


# --- the process of Google's store ------------------------------------------------------------------------------------


class _Counted:
    """What a handler writes to its client, in small steps, so that no more is counted than may have been sent."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            self._file.write(piece)
            self.sent += len(piece)
        return len(data)


def _serve(log: Path) -> None:
    http, socket, emulator, storage, buckets = map(
        import_module,
        (
            *("http.server", "socket", "gcp_storage_emulator.server"),
            *("gcp_storage_emulator.storage", "gcp_storage_emulator.handlers.buckets"),
        ),
    )
    output, lock = log.open("a", encoding="utf-8"), threading.Lock()

    class Handler(emulator.RequestHandler):  # type: ignore[name-defined,misc]
        def setup(self) -> None:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PIECE)
            super().setup()
            self.wfile = _Counted(self.wfile)

        def end_headers(self) -> None:
            super().end_headers()
            self.wfile.sent = 0

        def do_GET(self) -> None:  # noqa: N802  (the name is http.server's)
            try:
                super().do_GET()
            except ConnectionError:  # the client read as much as it needed
                pass
            finally:
                self.answered()

        def answered(self) -> None:
            if found := re.search(r"/b/([^/]+)/o/([^?]+)\?.*alt=media", self.path):
                with lock:
                    path = f"/{found[1]}/{found[2].replace('%2F', '/')}"
                    output.write(f"{self.command} {path} 200 {self.wfile.sent}\n")
                    output.flush()

    kept = storage.Storage(use_memory_fs=True)
    buckets.create_bucket(BUCKET, kept)
    server = http.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, kept))
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
