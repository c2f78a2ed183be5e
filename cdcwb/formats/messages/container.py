"""What holds messages: one file, what it is, and the options for it."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt

__all__ = ["OPTIONS", "PREFIXES", "SPLIT_SIZE", "Container", "Options", "escaped", "in_parts", "unescaped"]


CONTAINERS: Final = ("lines", "documents", "message", "prefixed", "avro", "parquet")
"""The kinds of container."""

ENCODINGS: Final = ("text", "base64", "hex", "escaped")
"""How values may stand in lines."""

PREFIXES: Final = ("be4", "le4", "be8", "le8", "varint", "zigzag")
"""Length prefixes: 4 and 8 bytes in either byte order, varints without a sign (Protocol Buffers) and with (Avro)."""

SPLIT_SIZE: Final = 64 << 20

OPTIONS: Final[dict[str, str]] = {
    "container": f"container of the messages: auto, {', '.join(CONTAINERS)}",
    "separator": r"separator of properties, key and value in a console consumer's line: auto, or the text itself (\t)",
    "encoding": f"encoding of values in lines: auto, {', '.join(ENCODINGS)}",
    "prefix": f"the length that precedes each message: auto, {', '.join(PREFIXES)}",
    "pairs": "a key precedes each length-prefixed message: auto, true, false",
    "split_size": f"bytes of a large file that one task reads ({SPLIT_SIZE})",
}
"""Every option of this layer and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a container, checked. None: to be detected."""

    container: str | None = None
    separator: bytes | None = None
    encoding: str | None = None
    prefix: str | None = None
    pairs: bool | None = None
    split_size: int = SPLIT_SIZE

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options; names that are not in :data:`OPTIONS` are somebody else's. Raises OptionError."""
        values = {name: given[name] for name in OPTIONS if given.get(name) not in (None, "")}
        container = opt.as_choice("container", values.get("container", "auto"), ("auto", *CONTAINERS))
        encoding = opt.as_choice("encoding", values.get("encoding", "auto"), ("auto", *ENCODINGS))
        prefix = opt.as_choice("prefix", values.get("prefix", "auto"), ("auto", *PREFIXES))
        pairs = str(values.get("pairs", "auto")).lower()
        separator = str(values.get("separator", "auto"))
        return cls(
            container=None if container == "auto" else container,
            separator=None if separator == "auto" else unescaped("separator", separator),
            encoding=None if encoding == "auto" else encoding,
            prefix=None if prefix == "auto" else prefix,
            pairs=None if pairs == "auto" else opt.as_bool("pairs", pairs),
            split_size=opt.as_whole("split_size", values.get("split_size", SPLIT_SIZE), 64),
        )


@dataclass(frozen=True, slots=True)
class Container:
    """One file that holds messages.

    ``kind`` is one of :data:`CONTAINERS`. ``unit`` says what places count: ``byte`` of the decompressed file, ``row``,
    or ``message`` of one partition of a topic. ``size``: bytes of the decompressed file; ``count``: its rows, None
    where the unit is the byte. ``problem``: what is wrong with the file as such. ``settings`` is how it is read,
    ``evidence`` why, in a sentence.
    ``schema`` is the text of the Avro schema that the file itself brings.
    ``starts`` are the bytes at which the parts of an Avro container begin, ``rows`` the numbers of their first rows.
    Both are known after the first pass, as ``count`` is; until then parts begin at any byte, and rows have provisional
    numbers, whose order is the same.
    """

    path: str
    kind: str
    unit: str
    size: int
    count: int | None = None
    compression: str | None = None
    problem: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    evidence: str = ""
    schema: str | None = None
    starts: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def extent(self) -> int:
        """Its size in the unit of its parts: bytes, or rows of a Parquet file."""
        return self.size if self.count is None or self.kind == "avro" else self.count

    def row(self, number: int) -> int:
        """The number of a row of an Avro container from its provisional one; of another container the same number."""
        return self.rows[number // _ROWS] + number % _ROWS if self.kind == "avro" else number

    def in_one_part(self) -> Container:
        """The same Avro container to be read in one part."""
        return replace(self, starts=[0], rows=[0])

    def context(self, start: int, stop: int) -> dict[str, Any]:
        """Everything that the messages of a part depend on, besides the bytes of the file."""
        first = [row for at, row in zip(self.starts, self.rows, strict=True) if at == start][-1:]
        return {"container": {**asdict(self), "starts": [], "rows": first}, "start": start, "stop": stop}

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Container:
        """The container that :meth:`to_dict` gave."""
        return cls(**raw)


_ROWS: Final = 1 << 40  # no part has more


def in_parts(container: Container, split_size: int) -> Container:
    """The same Avro container in parts of ``split_size`` bytes, for the first pass."""
    starts = list(range(0, container.size, split_size))
    return replace(container, starts=starts, rows=[part * _ROWS for part in range(len(starts))])


def escaped(data: bytes) -> str:
    r"""Bytes as text in which what is no plain ASCII is an escape (``\t``, ``\x00``), for settings."""
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")


def unescaped(name: str, text: str) -> bytes:
    r"""The UTF-8 bytes of a text in which ``\t`` and other escapes may stand. Raises OptionError."""
    if "\\" not in text:
        return text.encode()
    try:
        return codecs.decode(text.encode("ascii", "backslashreplace"), "unicode_escape").encode()
    except UnicodeDecodeError as reason:
        raise OptionError(f"option {name}: {text!r} has an invalid escape ({reason.reason})") from None
