"""Commands in this process, and functions in a child process with limits of time and memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdcwb.cli.app import main

__all__ = ["Ran", "in_child", "outputs", "refusal", "run", "run_each"]


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command, and its output: of standard error where the command fails."""
    code, out, err = outputs(arguments)
    return code, err if code else out


def outputs(arguments: Sequence[str]) -> tuple[int, str, str]:
    """The exit code of a command, its standard output and its standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    for stream in (out, err):
        stream.seek(0)
    return code, out.read(), err.read()


def refusal(code: int, text: str) -> str | None:
    """What is wrong with a refusal: another code than 2, or no sentence."""
    if code == 2 and text.strip() and "Traceback" not in text:
        return None
    return f"exit code {code}: {text[-2000:]}"


def in_child(verdict: Callable[[], str | None], seconds: int, memory: int) -> str | None:
    """What a function returns in a child process, or how that ended, if it took more than so many ``seconds`` of
    processor time or MB of ``memory`` or was ended by a signal."""
    reading, writing = os.pipe()
    folder = tempfile.mkdtemp()
    child = os.fork()
    if not child:
        tempfile.tempdir = folder  # it removes nothing at its end
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        try:
            text = verdict() or ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "w", errors="backslashreplace") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(child, 0)
    shutil.rmtree(folder)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name} after {usage.ru_utime:.1f} s of processor time"
    if usage.ru_maxrss > memory * 1000:
        return f"took {usage.ru_maxrss / 1000:,.0f} MB of memory"
    return text or None


@dataclass(frozen=True)
class Ran:
    """The result of a command. ``facts``: what it printed as JSON, else empty. ``error``: empty where it succeeded."""

    code: int
    facts: dict[str, Any]
    error: str

    @property
    def is_read(self) -> bool:
        """Whether it is a summary that accounts for all bytes."""
        return self.code == 0 and self.facts["ledger"] == "closes"

    @property
    def sentences(self) -> str:
        """The problems of a summary, a line each."""
        return "\n".join(place["sentence"] for one in self.facts["problems_by_code"] for place in one["places"])


def run_each(commands: Sequence[Sequence[str | Path]], *, seconds: int = 60, memory: int = 2500) -> list[Ran]:
    """Runs commands one after the other in one process. Fails if they need more seconds of processor time or MB."""
    text = in_child(lambda: json.dumps([run([*map(str, command)]) for command in commands]), seconds, memory)
    assert text, "nothing was printed"
    assert text.startswith("["), text
    found = json.loads(text)
    return [Ran(code, json.loads(out) if out.startswith("{") else {}, out if code else "") for code, out in found]
