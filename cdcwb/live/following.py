"""A separate process that follows a topic, and its progress."""

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
"""The environment variable that makes the process end when its standard input is closed."""

_WAITS: Final = 0.1
_ENDS: Final = 30.0  # seconds until a process that was asked to end is killed


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of following: ``at`` (UTC) is the time of the last poll, ``behind`` the number of messages that were
    not yet in the tables (None: unknown), ``messages`` the number of those that were; ``error``: why the cluster did
    not answer."""

    at: datetime
    behind: int | None
    messages: int
    error: str | None

    @property
    def distance(self) -> str:
        """The lag in messages, in words."""
        if self.behind is None:
            return "not known how far behind"
        return f"{count(self.behind)} behind" if self.behind else "up to date"

    def __str__(self) -> str:
        age = duration((datetime.now(UTC) - self.at) // timedelta(seconds=1) * 1_000_000)
        text = f"{plural(self.messages, 'message')}, {self.distance}, {age} ago"
        return text if self.error is None else f"{text}: {self.error}"


def status_of(folder: Path) -> Status | None:
    """The progress of following into a folder; None before the first poll."""
    try:
        status = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        at = datetime.fromisoformat(status["at"])
        return Status(at, status["behind"], int(status["messages"]), status["error"])
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, RecursionError) as reason:
        raise CaptureError(f"not the progress of a followed topic ({reason})", path=str(folder / STATUS)) from None


def messages_in(facts: Mapping[str, Any]) -> int:
    """The number of messages of a capture of topics, from the counts of its first pass."""
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
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def status(self) -> Status | None:
        """The progress; None before the first poll."""
        return status_of(self.folder)

    def wait(self, seconds: float = 60.0) -> Status:
        """Waits until the tables exist and have all messages. Raises CaptureError if the process ended, or after
        ``seconds``."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            status = self.status
            if status is not None and status.behind == 0 and status.messages and (self.folder / FOLLOWED).is_file():
                return status
            time.sleep(_WAITS)
        raise CaptureError(f"was not up to date within {seconds:.0f} s ({self.status})", path=str(self.folder))

    def stop(self) -> None:
        """Ends the process. The folder stays, and can be continued."""
        self._end()

    def _check(self) -> None:
        """Raises CaptureError with the process's message if it ended with an error."""
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
    """A format and reader options as arguments of the command line."""
    pairs = [
        (name, item)
        for name, value in options.items()
        for item in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return ["--format", format, *(text for name, value in pairs for text in ("-o", f"{name}={value}"))]
