"""Processes of this machine."""

from __future__ import annotations

from pathlib import Path

__all__ = ["started_by"]


def started_by(root: int) -> dict[int, str]:
    """The command lines of the processes that a process started, and those started, by id; its own is not among
    them."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:
            continue  # it has ended
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: lines[pid] for pid in found & set(lines) - {root}}
