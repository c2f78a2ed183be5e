"""The options of a capture of an event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.idm_event_log.log import COLUMNS, FORMAT
from cdcwb.formats.tabular import as_bytes
from cdcwb.formats.zones import parse_zone

__all__ = ["IGNORED", "OPTIONS", "SORTED_BY", "Options"]

_SPLIT_SIZE: Final = 32 << 20

SORTED_BY: Final = ("byte", "ignore_case")
"""How names of columns are sorted where they give the positions."""

IGNORED: Final = "-"
"""In a list of columns: a column that is none of the ten."""

OPTIONS: Final[dict[str, str]] = {
    "columns": "which column is which: auto, record_id=ID,table_key=KEY, or all ten names in the order of the source",
    "sort_column_names_by": f"names of columns, sorted, give their positions: none, {', '.join(SORTED_BY)}",
    "header": "delimited files begin with a line of column names: auto, true, false",
    "delimiter": r"delimiter of fields: auto, or the text itself (0x01, \t)",
    "quote": "quote around fields: auto, none, or the character",
    "charset": "character set of text (utf-8)",
    "null_text": "the text of NULL, without quotes: auto, none, or the text",
    "sheet": "sheet of an Excel file: auto (the first), or its name",
    "sql_table": "table of an SQL dump whose rows are read: auto, or schema.table",
    "backslash": "a backslash in the strings of an SQL dump is an escape: auto, true, false",
    "time_zone": "zone of event_time: UTC, +02:00, Europe/Berlin …",
    "schema": "schema of tables without a schema in their name",
    "split_size": f"bytes of a large file that one task reads ({_SPLIT_SIZE})",
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: without values and bytes",
}
"""Every option of the format and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected. ``columns``: the vendor's name -> name or number (from
    1) of the source's, or the vendor's names by position."""

    columns: Mapping[str, str] | tuple[str, ...] | None = None
    sorted_by: str | None = None
    header: bool | None = None
    tokens: Mapping[str, bytes] = field(default_factory=dict)
    charset: str = "utf-8"
    null_text: str | None = None
    sheet: str | None = None
    sql_table: str | None = None
    backslash: bool | None = None
    zone: str = "UTC"
    schema: str | None = None
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
        opt.check_names(given, OPTIONS, FORMAT)
        values = {name: value for name, value in given.items() if value is not None and not _is_auto(value)}
        charset = opt.check_charset("charset", values.get("charset", "utf-8"))
        if "A,\n'".encode(charset) != b"A,\n'":
            raise OptionError(
                f"option charset: {charset!r} is not supported, because it does not include ASCII; save as utf-8"
            )
        sorted_by = None
        if "sort_column_names_by" in values:
            chosen = opt.as_choice("sort_column_names_by", values["sort_column_names_by"], ("none", *SORTED_BY))
            sorted_by = None if chosen == "none" else chosen
        columns = _columns(values["columns"]) if "columns" in values else None
        if columns is not None and sorted_by is not None:
            raise OptionError("options columns, sort_column_names_by: give only one of them")
        return cls(
            columns=columns,
            sorted_by=sorted_by,
            header=opt.as_bool("header", values["header"]) if "header" in values else None,
            tokens=_tokens(values, charset),
            charset=charset,
            null_text=_null_text(values),
            sheet=_text(values, "sheet"),
            sql_table=_text(values, "sql_table"),
            backslash=opt.as_bool("backslash", values["backslash"]) if "backslash" in values else None,
            zone=_zone(values),
            schema=_text(values, "schema"),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            given=frozenset(values),
        )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in ("", "auto")


def _text(values: Mapping[str, Any], name: str) -> str | None:
    return str(values[name]) if name in values else None


def _zone(values: Mapping[str, Any]) -> str:
    text = str(values.get("time_zone", "UTC"))
    try:
        parse_zone(text)
    except (CaptureError, ValueError) as reason:
        raise OptionError(f"option time_zone: {reason}") from None
    return text


def _null_text(values: Mapping[str, Any]) -> str | None:
    """The text of NULL; empty: there is none besides the empty field."""
    if "null_text" not in values:
        return None
    text = str(values["null_text"])
    return "" if text.lower() in ("none", "empty") else text


def _tokens(values: Mapping[str, Any], charset: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in ("delimiter", "quote"):
        if name not in values:
            continue
        text = str(values[name])
        try:
            found[name] = b"" if text.lower() == "none" else as_bytes(text, charset)
        except UnicodeEncodeError:
            raise OptionError(f"option {name}: {text!r} is not in the character set {charset}") from None
    if "delimiter" in found and not found["delimiter"]:
        raise OptionError("option delimiter: expected a text, found none")
    if len(found.get("quote", b"")) > 1:
        raise OptionError(f"option quote: expected one byte, found {values['quote']!r}")
    return found


def _columns(value: Any) -> Mapping[str, str] | tuple[str, ...]:
    """A map of the vendor's names to those of the source, or the vendor's names in the order of the source."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _in_order([str(one) for one in value])
    if isinstance(value, str) and not value.lstrip().startswith("{") and "=" not in value and "," in value:
        return _in_order([one.strip() for one in value.split(",")])
    given = opt.as_names("columns", value)
    known = set(COLUMNS)
    if not given:
        raise OptionError("option columns: expected names, found none")
    if not set(given) <= known and set(given.values()) <= known:
        given = {theirs: own for own, theirs in given.items()}
    opt.check_names(given, COLUMNS, "columns")
    twice = sorted({one for one in given.values() if list(given.values()).count(one) > 1})
    if twice:
        raise OptionError(f"option columns: {twice[0]!r} is given for two columns")
    return given


def _in_order(names: Sequence[str]) -> tuple[str, ...]:
    chosen = [name for name in names if name and name != IGNORED]
    opt.check_names(chosen, COLUMNS, "columns")
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise OptionError(f"option columns: {twice[0]!r} is given for two columns")
    return tuple(name or IGNORED for name in names)
