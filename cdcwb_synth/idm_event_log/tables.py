"""Tables of a workload as triggers see them: their key as text, their other columns as texts."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from typing import Any, Final

from cdcwb_synth import text, words
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Row
from cdcwb_synth.idm_event_log.keys import written
from cdcwb_synth.idm_event_log.options import EventLogOptions
from cdcwb_synth.values import Column, Type

__all__ = ["BRANCH", "INTEGERS", "PHOTO", "Texts", "Watched"]

Texts = tuple[str | None, ...]

BRANCH: Final = "branch"
"""The second column of a compound key, which the workload itself knows nothing of; the number of the row says it."""

PHOTO: Final = "photo"
"""A binary column that the first table has besides; its content comes from the first column that is no key."""

INTEGERS: Final = (Type.SMALLINT, Type.INTEGER, Type.BIGINT, Type.INT8)

_TEXTS: Final = (Type.CHAR, Type.VARCHAR, Type.LVARCHAR)
_BRANCHES: Final = ("north", "south", "Brekum", "Überlach", "青石镇", "high street", "7")
_SPECIAL_BRANCHES: Final = (
    "east, 2nd floor", "O'Farrel & sons", 'the "old" mill', "C:\\shop", "a=b", "<new>", "1+1; 2", ', ; \' + " = \\ < >',
)  # fmt: skip
_SPECIAL_KEYS: Final = ("#, a", "a;#", "O'#", "#+1", '"#"', "x=#", "c:\\#\\", "<#>", ", ; ' + \" = \\ < > #", "é, #")
_ADDED: Final = (
    " <&>", " \"quoted\" and 'quoted'", "\r\nsecond line", "\ttabbed", "]]>", ", ; |", " back\\slash\\", "\n", "&amp;",
    "  ", "\u00a0\u2028\u0085", " 🙂 𝄞", "\r",
)  # fmt: skip


def share(*parts: object) -> float:
    """A number from 0 to 1 that looks like chance and is always the same for the same parts."""
    return zlib.crc32("/".join(map(str, parts)).encode()) / 2**32


class Watched:
    """A version of a table that has triggers.

    ``name`` is what they log as table_name, ``key_names`` the columns of table_key and ``names`` the other columns.
    ``binary`` are those columns whose texts are Base64.
    """

    def __init__(self, version: TableVersion, index: int, options: EventLogOptions, seed: int) -> None:
        table = version.table
        ordinary = options.tables
        is_view = ordinary - options.views <= index < ordinary
        self.version = version
        self.bare_name = f"view_{table.name}" if is_view else table.name
        self.name = f"{table.schema}.{self.bare_name}" if options.naming == "qualified" else self.bare_name
        self._is_compound = index < ordinary and (index - 2) % ordinary < options.compound_tables
        prefix = "pk_" if is_view else ""
        self.key_names = tuple(prefix + name for name in ((table.key, BRANCH) if self._is_compound else (table.key,)))
        self._key = next(i for i, c in enumerate(version.columns) if c.name == table.key)
        self._others = [i for i in range(len(version.columns)) if i != self._key]
        columns = [version.columns[i] for i in self._others]
        self._writers = [_writer(column, options) for column in columns]
        self.names = tuple(column.name for column in columns)
        self.binary = {c.name for c in columns if c.type is Type.LOB and c.keyword != "clob"}
        self.integers = {c.name for c in columns if c.type in INTEGERS}
        self._has_photo = index == 0 and bool(columns)
        if self._has_photo:
            self.names += (PHOTO,)
            self.binary.add(PHOTO)
        self._seed, self._special = seed, options.special_keys
        if not self._special:
            self.integers.add(self.key_names[0])

    def key(self, row: Row) -> tuple[str, ...]:
        """The values of a row's key."""
        number = str(row[self._key])
        label, special = self.version.table.label, self._special
        first = number
        if special and share(self._seed, label, number) < special:
            first = _SPECIAL_KEYS[int(row[self._key]) % len(_SPECIAL_KEYS)].replace("#", number)  # type: ignore[arg-type]
        if not self._is_compound:
            return (first,)
        chance = share(label, number, self._seed)
        some = _SPECIAL_BRANCHES if chance < special else _BRANCHES
        return (first, some[int(chance * 1_000_003) % len(some)])

    def key_text(self, row: Row) -> str:
        """The key of a row as triggers write it."""
        return written([*zip(self.key_names, self.key(row), strict=True)])

    def texts(self, row: Row) -> Texts:
        """The values of ``names`` as text, None for NULL."""
        made = [write(row[i]) for write, i in zip(self._writers, self._others, strict=True)]
        if self._has_photo:
            made.append(_photo(made[0]))
        return tuple(made)


def _photo(source: str | None) -> str | None:
    digest = hashlib.sha256((source or "").encode()).digest()
    return None if digest[0] < 25 else base64.b64encode(digest[: 1 + digest[1] % 30]).decode()


def _writer(column: Column, options: EventLogOptions) -> Callable[[Any], str | None]:
    if column.type is Type.LOB:
        return _clob if column.keyword == "clob" else _blob
    plain = text.formatter(column)
    if column.type not in _TEXTS:
        return plain
    special, is_excel = options.special_values, options.container == "xlsx"

    def write(value: Any) -> str | None:
        made = plain(value)
        if made is None or (is_excel and not made):  # as on Oracle, an empty text is NULL
            return None
        chance = share(made) if special else 1.0
        return made + _ADDED[int(chance * 1_000_003) % len(_ADDED)] if chance < special else made

    return write


def _blob(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _clob(value: bytes | None) -> str | None:
    if value is None:
        return None
    return " ".join(words.PHRASES[byte % len(words.PHRASES)] for byte in value[:: 1 + value[-1] % 9])
