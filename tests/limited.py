"""Runs of commands in a process of their own with a limit of processor time and of memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ran", "run_each"]

_SCRIPT = """
import contextlib, io, json, sys
from cdcwb.cli.app import main
for command in json.loads(sys.argv[1]):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
        out.flush()
    print(json.dumps([code, out.buffer.getvalue().decode(), err.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class Ran:
    """The result of a command. ``facts``: what it printed as JSON, else empty."""

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


def run_each(commands: Sequence[Sequence[str | Path]], *, seconds: int = 60, megabytes: int = 6000) -> list[Ran]:
    """Runs commands one after the other in one process. Fails if they need more processor time or address space (of
    which compiled code and Arrow take more than they use)."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    asked = json.dumps([[str(one) for one in command] for command in commands])
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT, asked], check=False, capture_output=True, text=True, preexec_fn=limit
    )
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:])
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return [Ran(code, json.loads(out) if out.startswith("{") else {}, err) for code, out, err in found]
