"""A topic that is followed by a process of its own, and how far it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

from cdcwb.errors import CaptureError
from cdcwb.live.kafka import as_environment
from cdcwb.saved import FOLLOWED, STATUS
from cdcwb.words import count, duration, plural

__all__ = ["WITH_PARENT", "Following", "Status", "messages_in", "options_as_arguments", "status_of"]

WITH_PARENT: Final = "CDCWB_FOLLOW_WITH_PARENT"
"""The environment variable of a process that ends when its standard input does."""

_WAITS: Final = 0.1
_ENDS: Final = 30.0  # seconds in which a process that is asked to end has to


@dataclass(frozen=True, slots=True)
class Status:
    """How far a topic is followed: ``at`` (UTC) the messages in the topic were last looked at, ``behind`` of them were
    not in the tables yet (None: not known), ``messages`` were; ``error``: why the cluster did not answer then."""

    at: datetime
    behind: int | None
    messages: int
    error: str | None

    @property
    def distance(self) -> str:
        """How many messages it is behind, in words."""
        if self.behind is None:
            return "not known how far behind"
        return f"{count(self.behind)} behind" if self.behind else "up to date"

    def __str__(self) -> str:
        age = duration((datetime.now(UTC) - self.at) // timedelta(seconds=1) * 1_000_000)
        said = f"{plural(self.messages, 'message')}, {self.distance}, {age} ago"
        return said if self.error is None else f"{said}: {self.error}"


def status_of(folder: Path) -> Status | None:
    """How far the topic is followed into a folder; None before the first look at it."""
    try:
        found = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        at = datetime.fromisoformat(found["at"])
    except FileNotFoundError:
        return None
    return Status(at, found["behind"], found["messages"], found["error"])


def messages_in(facts: Mapping[str, Any]) -> int:
    """How many messages a capture of topics has, by what its first pass counted."""
    return int(facts.get("messages", facts.get("records", 0)))


class Following:
    """A process that follows a topic into ``folder``; it ends with :meth:`stop`, or with this process."""

    def __init__(self, folder: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        self.folder = folder
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (the process has it)
        command = [sys.executable, "-m", "cdcwb.cli", "follow", *arguments, "--to", str(folder)]
        environment = {**os.environ, **as_environment(settings), WITH_PARENT: "1"}
        own = {"env": environment, "stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": self._log}
        self._process = subprocess.Popen(command, **own)  # type: ignore[call-overload]
        self._end = weakref.finalize(self, _end, self._process, self._log)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return int(self._process.pid)

    @property
    def running(self) -> bool:
        """Does it still run?"""
        return self._process.poll() is None

    @property
    def status(self) -> Status | None:
        """How far it is; None before the first look at the topic."""
        return status_of(self.folder)

    def wait(self, seconds: float = 60.0) -> Status:
        """Waits until tables are there and no message was left behind. Raises CaptureError if it ended, or that was
        not so within these seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            status = self.status
            if status is not None and status.behind == 0 and status.messages and (self.folder / FOLLOWED).is_file():
                return status
            time.sleep(_WAITS)
        raise CaptureError(f"was not up to date within {seconds:.0f} s ({self.status})", path=str(self.folder))

    def stop(self) -> None:
        """Ends the process. What it did stays, and can be continued."""
        self._end()

    def _check(self) -> None:
        """Raises CaptureError with what it said if it ended by itself."""
        if not self.running and self._process.returncode and not self._log.closed:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            raise CaptureError(lines[-1] if lines else f"ended with code {self._process.returncode}")

    def __repr__(self) -> str:
        state = "running" if self.running else "ended"
        return f"<topic followed into {self.folder}: {state}; {self.status or 'no message yet'}>"


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_ENDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdin is not None:
        process.stdin.close()
    log.close()


def options_as_arguments(format: str, options: Mapping[str, Any]) -> list[str]:
    """How the command line is given a format and options."""
    pairs = [
        (name, one)
        for name, value in options.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return ["--format", format, *(text for name, value in pairs for text in ("-o", f"{name}={value}"))]
