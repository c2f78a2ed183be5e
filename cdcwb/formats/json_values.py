"""JSON texts as Python values whose numbers keep their own digits."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

__all__ = ["MARK", "JsonReader", "as_text", "parse_json"]

MARK: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark, which may stand before a text."""

_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonReader:
    """Reads JSON texts. ``number`` takes the digits of a number with a point or an exponent, ``whole`` those of the
    other numbers where the text needs the slow way: half a surrogate pair, and what ``odd`` matches."""

    def __init__(
        self,
        number: Callable[[str], Any] = str,
        whole: Callable[[str], Any] = int,
        odd: Callable[[bytes], object] | None = None,
    ) -> None:
        self._number, self._whole, self._odd = number, whole, odd
        self._decoder = msgspec.json.Decoder(float_hook=number)

    def parse(self, value: bytes) -> Any:
        """A JSON text as Python objects; half a surrogate pair becomes a question mark.

        Raises ValueError that says what is wrong and at which byte.
        """
        try:
            if self._odd is not None and self._odd(value):
                return self._slowly(value)
            return self._decoder.decode(value)
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as reason:
            if value.startswith(MARK) and not value.startswith(MARK, len(MARK)):
                return self.parse(value[len(MARK) :])
            if _HALF_PAIR.search(value):
                with contextlib.suppress(ValueError, RecursionError):
                    return _written(self._slowly(value))
            if "truncated" in str(reason):
                found = f"found one that ends early, behind byte {len(value)}"
                raise ValueError(f"expected a JSON document, {found}") from None
            raise ValueError(f"expected a JSON document, found: {reason}") from None

    def _slowly(self, value: bytes) -> Any:
        return json.loads(value.decode(), parse_float=self._number, parse_int=self._whole, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _written(value: Any) -> Any:
    """A parsed value whose texts can be written as UTF-8."""
    if value.__class__ is str:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_written(name): _written(one) for name, one in value.items()}
    return [_written(one) for one in value] if isinstance(value, list) else value


parse_json: Final = JsonReader().parse
"""A JSON text as Python objects; numbers with a point or an exponent stay the text that they are. Raises ValueError
that says what is wrong and at which byte."""


def as_text(value: Any) -> str | None:
    """A parsed JSON value as text: numbers by their digits, truth values as ``true`` and ``false``, objects and arrays
    as compact JSON; None stays None. Raises ValueError for a number of more than 4,300 digits."""
    if value is None or isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    return msgspec.json.encode(value).decode()
