"""Raw trail files: recognised, not read. Oracle publishes no trail format; Logdump turns a trail into text."""

from __future__ import annotations

from typing import Final

__all__ = ["SIGNATURE", "is_raw_trail", "logdump_script"]

SIGNATURE: Final = b"GG\r\nTL\n\r"
"""Bytes at the beginning of a trail's file header (docs/formats/goldengate.md §1.2)."""

_NEAR: Final = 64
_EVERYTHING: Final = 2_000_000_000

_SWITCHES: Final = (
    "timeoffset gmt",
    "ghdr on",
    "headertoken detail",
    "detail data",
    "ggstoken detail",
    "usertoken detail",
    "fileheader detail",
    "metadata on",
    "reclen 65535",
)


def is_raw_trail(head: bytes) -> bool:
    """Do these first bytes of a file hold the signature of a trail's file header?"""
    return SIGNATURE in head[: _NEAR + len(SIGNATURE)]


def logdump_script(path: str) -> str:
    """Commands for Logdump that write all of a trail file as the text that cdcwb reads, times in UTC.

    The text goes to ``<file name>.txt`` in the folder that Logdump is started in.
    """
    name = path.replace("\\", "/").rsplit("/", 1)[-1] or "trail"
    lines = (f"open {path}", *_SWITCHES, f"log to {name}.txt", "pos 0", f"next {_EVERYTHING}", "log stop", "exit")
    return "\n".join(lines) + "\n"
