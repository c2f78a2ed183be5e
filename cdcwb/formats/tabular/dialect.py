"""How a delimited file is written: delimiters, quotes, the text for NULL (docs/formats/qlik-change-table.md §1.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["DEFAULT", "Dialect", "as_bytes"]

_HEX: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})+)")
_NAMED: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """``delimiter`` stands between fields, ``record`` behind a record, both one byte or more. ``quote`` and ``escape``
    are one byte, or empty where there is none. ``null`` is the text of a NULL, which is never quoted. ``crlf``: a
    carriage return before the newline belongs to the line's end.

    In a quoted field a doubled quote stands for one. An escape counts only in front of a quote: of a run of escapes
    there, every two stand for one, and one that is left over makes the quote part of the text.
    """

    delimiter: bytes = b","
    record: bytes = b"\n"
    quote: bytes = b'"'
    escape: bytes = b""
    null: bytes = b""
    crlf: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for tokens of which one is another or a part of it."""
        tokens = [("quote", self.quote), ("escape", self.escape)]
        for name, token in tokens:
            if len(token) > 1:
                raise ValueError(f"expected one byte as {name}, found {token!r}")
        tokens = [("delimiter", self.delimiter), ("record delimiter", self.record), *tokens]
        for name, token in tokens:
            for other, within in tokens:
                if name != other and token and token in within:
                    raise ValueError(f"{name} {token!r} cannot be distinguished from {other} {within!r}")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Dialect:
        """What :meth:`to_dict` gave."""
        return cls(**{name: raw[name].encode("latin-1") for name in _BYTES}, crlf=raw["crlf"])

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return {name: getattr(self, name).decode("latin-1") for name in _BYTES} | {"crlf": self.crlf}

    def sentence(self) -> str:
        """The dialect in a few words."""
        parts = [f"delimiter {_shown(self.delimiter)}", f"record delimiter {_shown(self.record)}"]
        parts.append(f"quote {_shown(self.quote)}" if self.quote else "no quotes")
        parts += [f"escape {_shown(self.escape)}"] if self.escape else []
        parts.append(f"NULL is {_shown(self.null)}" if self.null else "NULL is an empty field without quotes")
        return ", ".join(parts)


_BYTES: Final = ("delimiter", "record", "quote", "escape", "null")
DEFAULT: Final = Dialect()


def as_bytes(text: str, charset: str) -> bytes:
    r"""The bytes of a delimiter as a side file or an option writes it: itself, ``0x01``, or ``\t``.

    Raises UnicodeEncodeError for characters that the character set does not have.
    """
    match = _HEX.fullmatch(text)
    if match:
        return bytes.fromhex(match[1])
    return _NAMED.get(text, text).encode(charset)


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))
