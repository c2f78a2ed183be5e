"""The options of a capture of change tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import bitmask
from cdcwb.formats import options as opt
from cdcwb.formats.qlik_change_table.layout import FORMAT, SUFFIX
from cdcwb.formats.tabular import Dialect, as_bytes

__all__ = ["OPTIONS", "Options"]

_SPLIT_SIZE: Final = 32 << 20
_TOKENS: Final = {
    "delimiter": "delimiter",
    "record_delimiter": "record",
    "quote": "quote",
    "escape": "escape",
    "null": "null",
}

OPTIONS: Final[dict[str, str]] = {
    "prefix": "prefix of the names of header columns: auto, or the text (header__)",
    "suffix": f"suffix of the names of change tables ({SUFFIX})",
    "table": "schema.table of all rows: auto (from side files, else from the names of files and folders), or the name",
    "mask_order": f"byte order of change masks: auto, {', '.join(bitmask.ORDERS)}",
    "mask_offset": "bit of the first data column in change masks: auto, or a number",
    "mask_text": f"text form of change masks: auto, {bitmask.HEX}, {bitmask.BASE64}",
    "charset": "character set of text (utf-8)",
    "header": "delimited files begin with a line of column names: auto, true, false",
    "delimiter": r"delimiter of fields: auto, or the text itself (0x01, \t)",
    "record_delimiter": r"delimiter of records: auto, or the text itself (\n, \r\n, 0x02)",
    "quote": "quote around fields: auto, none, or the character",
    "escape": "escape before a quote within quotes: auto, none, or the character",
    "null": "the text of NULL, without quotes: auto, empty, or the text",
    "split_size": f"bytes of a large file that one task reads ({_SPLIT_SIZE})",
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: headers only",
    "keys": "key columns: schema.table:c1+c2",
}
"""Every option of the format and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected. ``tokens`` are those parts of the dialect that are
    given."""

    prefix: str | None = None
    suffix: str = SUFFIX
    table: str | None = None
    mask_order: str | None = None
    mask_offset: int | None = None
    mask_text: str | None = None
    charset: str = "utf-8"
    header: bool | None = None
    tokens: Mapping[str, bytes] = field(default_factory=dict)
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    keys: Mapping[str, list[str]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
        opt.check_names(given, OPTIONS, FORMAT)
        values = {
            name: value
            for name, value in given.items()
            if value is not None and value != "" and str(value).lower() != "auto"
        }
        charset = opt.check_charset("charset", values.get("charset", "utf-8"))
        if "A,\n".encode(charset) != b"A,\n":
            raise OptionError(
                f"option charset: {charset!r} is not supported, because it does not include ASCII; save as utf-8"
            )
        return cls(
            prefix=_text(values, "prefix"),
            suffix=str(values.get("suffix", SUFFIX)),
            table=_text(values, "table"),
            mask_order=opt.as_choice("mask_order", values["mask_order"], ("auto", *bitmask.ORDERS))
            if "mask_order" in values
            else None,
            mask_offset=opt.as_whole("mask_offset", values["mask_offset"], 0) if "mask_offset" in values else None,
            mask_text=opt.as_choice("mask_text", values["mask_text"], ("auto", bitmask.HEX, bitmask.BASE64))
            if "mask_text" in values
            else None,
            charset=charset,
            header=opt.as_bool("header", values["header"]) if "header" in values else None,
            tokens=_tokens(values, charset),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            keys=opt.parse_keys(values.get("keys")),
            given=frozenset(values),
        )

    def dialect(self, found: Dialect) -> Dialect:
        """A dialect with what was given put in. Raises OptionError where the two do not go together."""
        if not self.tokens:
            return found
        changes: dict[str, Any] = {_TOKENS[name]: token for name, token in self.tokens.items()}
        if "record" in changes:
            changes["crlf"] = False
        try:
            return replace(found, **changes)
        except ValueError as reason:
            raise OptionError(f"options {', '.join(self.tokens)}: {reason}") from None


def _text(values: Mapping[str, Any], name: str) -> str | None:
    return str(values[name]) if name in values else None


def _tokens(values: Mapping[str, Any], charset: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in _TOKENS:
        if name not in values:
            continue
        text = str(values[name])
        try:
            found[name] = as_bytes("" if text.lower() in ("none", "empty") else text, charset)
        except UnicodeEncodeError:
            raise OptionError(f"option {name}: {text!r} is not in the character set {charset}") from None
        if not found[name] and name in ("delimiter", "record_delimiter"):
            raise OptionError(f"option {name}: expected a text, found none")
        if len(found[name]) > 1 and name in ("quote", "escape"):
            raise OptionError(f"option {name}: expected one byte, found {text!r}")
    return found
