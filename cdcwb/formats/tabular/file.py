"""Facts for reading the rows of a file: its kind, the names of its columns, and for delimited text its dialect
(docs/formats/qlik-change-table.md §1.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.words import unique_names, unused_name

__all__ = [
    "BROKEN",
    "CSV",
    "DEFAULT",
    "DIALECT_OPTIONS",
    "EVERYTHING",
    "EXCEL",
    "JSON",
    "PARQUET",
    "SQL",
    "TOKENS",
    "Dialect",
    "FileProbe",
    "TableName",
    "are_names",
    "as_bytes",
    "charset_of",
    "clean",
    "named",
    "numbered",
    "stem_of",
    "tokens_of",
]

CSV: Final = "csv"
JSON: Final = "json"
PARQUET: Final = "parquet"
EXCEL: Final = "excel"
SQL: Final = "sql"
BROKEN: Final = "broken"

EVERYTHING: Final = 1 << 62
"""A stop after the end of every file."""


# --- dialects ---------------------------------------------------------------------------------------------------------

_HEX: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})+)")
_NAMED: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """``delimiter`` separates fields, ``record`` ends a record, both one byte or more. ``quote`` and ``escape`` are one
    byte, or empty for none. ``null`` is the text of a NULL, which is never quoted. ``crlf``: a carriage return before
    the newline belongs to the line's end.

    In a quoted field a doubled quote represents one. An escape counts only before a quote: in a run of escapes, every
    two represent one, and a remaining one makes the quote part of the text.
    """

    delimiter: bytes = b","
    record: bytes = b"\n"
    quote: bytes = b'"'
    escape: bytes = b""
    null: bytes = b""
    crlf: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError if a token equals another one or is a part of it."""
        tokens = [("quote", self.quote), ("escape", self.escape)]
        for name, token in tokens:
            if len(token) > 1:
                raise ValueError(f"expected one byte as {name}, found {token!r}")
        tokens = [("delimiter", self.delimiter), ("record delimiter", self.record), *tokens]
        for name, token in tokens:
            for other, within in tokens:
                if name != other and token and token in within:
                    raise ValueError(f"{name} {token!r} cannot be distinguished from {other} {within!r}")

    def sentence(self) -> str:
        """The dialect in a few words."""
        parts = [f"delimiter {_shown(self.delimiter)}", f"record delimiter {_shown(self.record)}"]
        parts.append(f"quote {_shown(self.quote)}" if self.quote else "no quotes")
        parts += [f"escape {_shown(self.escape)}"] if self.escape else []
        parts.append(f"NULL is {_shown(self.null)}" if self.null else "NULL is an empty field without quotes")
        return ", ".join(parts)


DEFAULT: Final = Dialect()

TOKENS: Final = {
    "delimiter": "delimiter",
    "record_delimiter": "record",
    "quote": "quote",
    "escape": "escape",
    "null": "null",
}
"""The options that are parts of a dialect."""

DIALECT_OPTIONS: Final = {
    "delimiter": r"delimiter of fields: auto, or the text itself (0x01, \t)",
    "record_delimiter": r"delimiter of records: auto, or the text itself (\n, \r\n, 0x02)",
    "quote": "quote around fields: auto, none, or the character",
    "escape": "escape before a quote within quotes: auto, none, or the character",
    "null": "the text of NULL, without quotes: auto, empty, or the text",
}
"""Their descriptions."""


def as_bytes(text: str, charset: str) -> bytes:
    r"""The bytes of a delimiter in the notation of side files and options: itself, ``0x01``, or ``\t``.

    Raises UnicodeEncodeError for characters that the character set does not have.
    """
    match = _HEX.fullmatch(text)
    if match:
        return bytes.fromhex(match[1])
    return _NAMED.get(text, text).encode(charset)


def charset_of(given: Mapping[str, Any]) -> str:
    """The option ``charset``, by default utf-8. Raises OptionError for an unusable one."""
    charset = opt.check_charset("charset", given.get("charset", "utf-8"))
    if "A,\n'".encode(charset) != b"A,\n'":
        raise OptionError(
            f"option charset: {charset!r} is not supported, because it does not include ASCII; save as utf-8"
        )
    return charset


def tokens_of(given: Mapping[str, Any], names: Mapping[str, str], charset: str) -> dict[str, bytes]:
    """Fields of :class:`Dialect` that are options: ``names`` maps the options to them. Raises OptionError."""
    found: dict[str, bytes] = {}
    for name, token in names.items():
        if name not in given:
            continue
        text = str(given[name])
        try:
            found[token] = as_bytes("" if text.lower() in ("none", "empty") else text, charset)
        except UnicodeEncodeError:
            raise OptionError(f"option {name}: {text!r} is not in the character set {charset}") from None
        if not found[token] and token in ("delimiter", "record"):
            raise OptionError(f"option {name}: expected a text, found none")
        if len(found[token]) > 1 and token in ("quote", "escape"):
            raise OptionError(f"option {name}: expected one byte, found {text!r}")
    return found


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


# --- names ------------------------------------------------------------------------------------------------------------

_EXTENSIONS: Final = re.compile(
    r"(\.(csv|tsv|txt|dat|json|jsonl|ndjson|parquet|pq|gz|gzip|zst|zstd|snappy|lz4))+$", re.IGNORECASE
)
_NAME: Final = re.compile(r"\s*[^\W\d][\w $#@./:()-]{0,127}\s*")


class TableName(NamedTuple):
    """A table: its schema (None: unknown) and its name without the suffix of change tables."""

    schema: str | None
    table: str

    @property
    def label(self) -> str:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @classmethod
    def of(cls, text: str) -> TableName:
        """From ``schema.table`` or ``table``."""
        schema, _, table = text.rpartition(".")
        return cls(schema or None, table)


def stem_of(path: str) -> str:
    """The name of a file or folder without the extensions of containers and compressions."""
    return _EXTENSIONS.sub("", PurePosixPath(path).name)


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns without names, ``column_1`` and so on."""
    return tuple(f"column_{place}" for place in range(1, width + 1))


def named(fields: Sequence[str | None]) -> tuple[str, ...]:
    """The names in a header line: without surrounding blanks, an empty one is ``column_`` and its number, and all are
    unique."""
    names = [field.strip() for field in clean(fields)]
    taken = set(names)
    return unique_names(name or unused_name(f"column_{number}", taken) for number, name in enumerate(names, 1))


def clean(names: Iterable[str | None]) -> list[str]:
    """Names in valid Unicode; a lone surrogate, which JSON allows, becomes an escape."""
    return [(name or "").encode("utf-8", "backslashreplace").decode() for name in names]


def are_names(fields: Sequence[str | None]) -> bool:
    """Whether these are unique names of columns: they begin with a letter or an underscore."""
    names = [(text or "").strip().casefold() for text in fields]
    return len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileProbe:
    """The facts of a file for reading it.

    * ``kind``: csv (any delimited text), json (objects, one a row), parquet, excel (.xlsx), sql (a dump of statements),
      or broken: no table
    * ``names``: its columns in file order; None without a header line. ``width``: their number
    * ``charset`` and ``dialect``: of delimited text; ``delimiter_from``: why that delimiter
    * ``settings``: of JSON those of the container (:mod:`cdcwb.formats.messages`); of Excel ``sheet`` and ``sheets``;
      of a dump its ``table``, the ``name`` of that as it is written, whether a ``backslash`` is an escape, and perhaps
      the columns that are ``needed``
    * ``size``: bytes of an uncompressed file; 0 for a compressed one, whose size is known only after reading.
      ``compression``: gzip, zstd
    * ``first``: the start of its first record, after byte order mark and header line: a byte, or in Excel a row of the
      sheet, from 0. ``header``: it has a header line, whose text is ``heading``
    * ``groups``: rows and packed bytes of each row group of a Parquet file; ``schema``: its columns
    * ``problem``: why it is broken, or its error; ``note``: contradictions to the given dialect
    * ``first_row``: the first record, header line or not; ``sample``: the first rows after the header line. Texts
      as from :meth:`Rows.text`, None for NULL
    """

    path: str
    kind: str
    names: tuple[str, ...] | None = None
    width: int = 0
    charset: str = "utf-8"
    dialect: Dialect | None = None
    delimiter_from: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    compression: str | None = None
    first: int = 0
    header: bool = False
    heading: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    schema: pa.Schema | None = None
    problem: str | None = None
    note: str | None = None
    first_row: tuple[str | None, ...] = ()
    sample: tuple[tuple[str | None, ...], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, ``column_1`` and so on without names."""
        return numbered(self.width) if self.names is None else self.names

    @property
    def place(self) -> str:
        """The path whose names are those of its table; of a dump the name of the table, in its folder."""
        folder = self.path.rpartition("/")[0]
        return f"{folder}/{self.settings['name']}" if self.kind == SQL else self.path

    def without_rows(self) -> FileProbe:
        """The same file without facts that only describe it."""
        return replace(self, heading="", schema=None, first_row=(), sample=())
