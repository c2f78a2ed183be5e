"""Database servers with a folder and a port of their own: PostgreSQL and MariaDB."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

__all__ = ["PASSWORD", "SERVERS", "USER", "Database", "MariaDb", "PostgreSql", "Session"]

USER = "reader"
PASSWORD = "planted-Zq7-pa55word"
"""What no output may contain."""

_STARTS = 60.0  # seconds until a server that does not answer has failed
_UNPRIVILEGED = "nobody"


class Session:
    """An open connection of a server's command-line client; what is sent stays in one transaction until it says
    COMMIT."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )

    def send(self, *statements: str) -> None:
        """Runs statements, and returns when all are done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(f"{one};\n" for one in statements) + "SELECT 'all of it is done';\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "all of it is done" in line:
                return
        raise AssertionError("".join(said))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the connection."""
        self._process.communicate(timeout=30)


class Database(ABC):
    """A server that listens on the loopback address, with a database ``cdc`` and a user who needs a password."""

    name: str
    scheme: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.port: int = held.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._as: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:  # servers refuse to run as root
            self._as = ["setpriv", "--reuid", _UNPRIVILEGED, "--regid", "nogroup", "--clear-groups"]
            shutil.chown(folder, _UNPRIVILEGED, "nogroup")
        self._create()

    @property
    def url(self) -> str:
        """The JDBC URL, without a user."""
        return f"jdbc:{self.scheme}://127.0.0.1:{self.port}/cdc"

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        assert self._process is None
        self._log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [*self._as, *self._server()], stdout=self._log, stderr=subprocess.STDOUT, cwd=self.folder
        )
        until = time.monotonic() + _STARTS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise AssertionError((self.folder / "server.log").read_text(errors="replace")[-3000:])
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def run(self, *statements: str) -> str:
        """Runs statements as the administrator; returns what the client prints."""
        text = "".join(f"{one};\n" for one in statements)
        done = subprocess.run(
            self._client(), input=text, capture_output=True, text=True, check=False, env=self._environment
        )
        assert done.returncode == 0, done.stderr[-500:]
        return done.stdout

    def session(self) -> Session:
        """A connection that stays open."""
        return Session(self._client(), self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _answers(self) -> bool:
        done = subprocess.run(
            self._client(), input="SELECT 1;", capture_output=True, text=True, check=False, env=self._environment
        )
        return done.returncode == 0

    def _call(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            [*self._as, *command], capture_output=True, text=True, check=False, cwd=self.folder, env=self._environment
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @abstractmethod
    def _create(self) -> None:
        """Makes the data folder."""

    @abstractmethod
    def _server(self) -> list[str]:
        """The command of the server."""

    @abstractmethod
    def _client(self) -> list[str]:
        """The command of a client that reads statements."""

    @abstractmethod
    def prepare(self) -> None:
        """Creates the database and the user, once the server runs."""


class PostgreSql(Database):
    """PostgreSQL."""

    name = "postgresql"
    scheme = "postgresql"

    @property
    def _bin(self) -> Path:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        assert found, "PostgreSQL is missing: scripts/ensure.sh PYTHON databases"
        return found[-1]

    def _create(self) -> None:
        self._call(
            [str(self._bin / "initdb"), "-D", str(self.folder / "data"), "-U", "admin", "-A", "trust", "-E", "UTF8"]
        )
        rules = "local all admin trust\nhost all admin 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data" / "pg_hba.conf").write_text(rules)

    def _server(self) -> list[str]:
        data, port = str(self.folder / "data"), str(self.port)
        return [
            *(str(self._bin / "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", str(self.folder)),
            *("-c", "fsync=off", "-c", "shared_buffers=32MB"),
        ]

    def _client(self) -> list[str]:
        psql = [str(self._bin / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        return [*psql, "-h", "127.0.0.1", "-p", str(self.port), "-U", "admin", "-d", self._database]

    @property
    def _database(self) -> str:
        return "cdc" if (self.folder / "prepared").exists() else "postgres"

    def prepare(self) -> None:
        self.run("CREATE DATABASE cdc", f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
        (self.folder / "prepared").touch()
        self.run(f"GRANT ALL ON DATABASE cdc TO {USER}", f"GRANT pg_read_all_data, pg_write_all_data TO {USER}")


class MariaDb(Database):
    """MariaDB."""

    name = "mariadb"
    scheme = "mariadb"

    def _create(self) -> None:
        assert shutil.which("mariadbd"), "MariaDB is missing: scripts/ensure.sh PYTHON databases"
        self._call(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}"),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
            ]
        )

    def _server(self) -> list[str]:
        own = [f"--datadir={self.folder / 'data'}", f"--socket={self.folder / 'socket'}", f"--port={self.port}"]
        return [
            *("mariadbd", "--no-defaults", *own, "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M"),
            *("--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4", "--default-time-zone=+05:00"),
        ]

    def _client(self) -> list[str]:
        client = [
            "mariadb",
            "--no-defaults",
            "--default-character-set=utf8mb4",
            "--unbuffered",
            "--batch",
            "--skip-column-names",
        ]
        database = ["cdc"] if (self.folder / "prepared").exists() else []
        return [*client, f"--socket={self.folder / 'socket'}", "-u", "root", *database]

    def prepare(self) -> None:
        self.run("CREATE DATABASE cdc", f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
        (self.folder / "prepared").touch()
        self.run(f"GRANT ALL ON *.* TO {USER}@'%'")


SERVERS = {one.name: one for one in (PostgreSql, MariaDb)}
