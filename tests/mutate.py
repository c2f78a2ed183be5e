"""Damage of the kinds that captures suffer, for tests that hold a reader to surviving it.

Every kind is a function ``(data, rng) -> data`` that works on any bytes, empty ones included; :func:`mutate` applies
several.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

__all__ = ["KINDS", "mutate"]

_LENGTHS: Final = (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0, 1, 15, 16, 0x42)
_MOST: Final = 4096  # bytes that one piece of damage takes or adds


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    """Somewhere in ``data``: mostly a few bytes, now and then many."""
    start = rng.randrange(len(data) + 1)
    most = rng.choice((1, 4, 16, 64, 256, _MOST))
    return start, min(len(data), start + 1 + rng.randrange(most))


def _flip(data: bytes, rng: Random) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: Random) -> bytes:
    """Write random bytes, zeros or ones over a stretch."""
    start, stop = _span(data, rng)
    size = stop - start
    return data[:start] + rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size)) + data[stop:]


def _cut(data: bytes, rng: Random) -> bytes:
    """Take a stretch out."""
    start, stop = _span(data, rng)
    return data[:start] + data[stop:]


def _truncate(data: bytes, rng: Random) -> bytes:
    """Lose the end, mostly a short one."""
    if not data:
        return data
    return data[: len(data) - rng.randint(1, min(len(data), rng.choice((8, 64, len(data)))))]


def _behead(data: bytes, rng: Random) -> bytes:
    """Lose the beginning, mostly a short one."""
    return data[rng.randrange(min(len(data), rng.choice((8, 64, _MOST))) + 1) :]


def _repeat(data: bytes, rng: Random) -> bytes:
    """Repeat a stretch once or a few times, in place or elsewhere."""
    start, stop = _span(data, rng)
    place = rng.choice((stop, rng.randrange(len(data) + 1)))
    return data[:place] + data[start:stop] * rng.randint(1, 3) + data[place:]


def _insert(data: bytes, rng: Random) -> bytes:
    """Put random bytes or zeros somewhere."""
    place = rng.randrange(len(data) + 1)
    size = 1 + rng.randrange(rng.choice((4, 64, 512)))
    return data[:place] + rng.choice((rng.randbytes(size), bytes(size))) + data[place:]


def _swap(data: bytes, rng: Random) -> bytes:
    """Exchange two stretches that follow one another."""
    a, b = _span(data, rng)
    c = min(len(data), b + max(1, b - a))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _length(data: bytes, rng: Random) -> bytes:
    """Set a length field to an extreme value.

    Length fields are found by the constant 66 that follows them in every record header (``docs/formats/gbase8s.md
    §1.1``); where there is none, any four bytes are taken for one.
    """
    if len(data) < 4:
        return data
    found = data.find(b"\x00\x00\x00\x42", rng.randrange(len(data)))
    place = found - rng.choice((8, 4)) if found >= 8 else rng.randrange(len(data) - 3)
    return data[:place] + rng.choice(_LENGTHS).to_bytes(4, "big") + data[place + 4 :]


KINDS: Final[dict[str, Callable[[bytes, Random], bytes]]] = {
    "flip": _flip,
    "overwrite": _overwrite,
    "cut": _cut,
    "truncate": _truncate,
    "behead": _behead,
    "repeat": _repeat,
    "insert": _insert,
    "swap": _swap,
    "length": _length,
}
"""Every kind of damage by its name."""


def mutate(data: bytes, rng: Random, kinds: int = 4) -> bytes:
    """``data`` with one to ``kinds`` pieces of damage of mixed kinds; the same state of ``rng`` does the same.

    The result is at most ``kinds`` times 12 KiB longer than ``data``.
    """
    for _ in range(rng.randint(1, kinds)):
        data = KINDS[rng.choice(tuple(KINDS))](data, rng)
    return data
