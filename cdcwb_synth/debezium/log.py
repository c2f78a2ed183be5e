"""The log of the source as a connector shows it: positions, transactions and the field ``source``
(``docs/formats/debezium.md §3``, §4).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cdcwb_synth.debezium.options import DebeziumOptions
from cdcwb_synth.parts import WHOLE, Part

__all__ = ["Entry", "Log"]

_VERSION: Final = "2.7.0.Final"


class Entry(NamedTuple):
    """A place in the log: the fields of ``source`` that say it, and the position; ``lsn`` is PostgreSQL's."""

    fields: dict[str, Any]
    position: str | None
    lsn: int = 0


class Log:
    """Gives each change its place. ``ordinal`` numbers transactions in the order of their commits."""

    def __init__(self, options: DebeziumOptions, part: Part = WHOLE) -> None:
        self._options = options
        self._at = 24_000_000 + part.numbers(200)
        self._ordinal = part.first_change + part.number  # each has a change
        self._number = 0

    def begin(self) -> tuple[str, str | None]:
        """Begin the next transaction: its identifier, and the position of its begin."""
        self._ordinal += 1
        self._number = 0
        self._at += 64
        return self.transaction, f"{self._at:016X}" if self._is_postgresql else None

    def end(self) -> str | None:
        """The position of the commit."""
        self._at += 48
        return f"{self._at:016X}" if self._is_postgresql else None

    @property
    def _is_postgresql(self) -> bool:
        return self._options.connector == "postgresql"

    @property
    def transaction(self) -> str:
        """The transaction, as cdcwb names it."""
        match self._options.connector:
            case "postgresql":
                return str(570 + self._ordinal)
            case "mysql":
                return f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{self._ordinal}"
            case "sqlserver":
                return f"{39:08x}:{self._ordinal:08x}:0005"
            case _:
                return f"0a001f00{self._ordinal:08x}"

    @property
    def identifier(self) -> str:
        """The transaction as messages name it, here: PostgreSQL adds the place."""
        return f"{self.transaction}:{self._at}" if self._is_postgresql else self.transaction

    def entry(self) -> Entry:
        """The place of the next change."""
        self._at += 56
        self._number += 1
        match self._options.connector:
            case "postgresql":
                return Entry(
                    {"txId": int(self.transaction), "lsn": self._at, "xmin": None}, f"{self._at:016X}", self._at
                )
            case "mysql":
                number, byte = 3 + self._at // 24_100_000, self._at % 24_100_000
                fields = {"server_id": 223344, "gtid": self.transaction, "file": f"mysql-bin.{number:06}"}
                return Entry(fields | {"pos": byte, "row": 0, "thread": 7}, f"{number:010}/{byte:019}/{0:010}")
            case "sqlserver":
                change = f"{39:08x}:{self._ordinal:08x}:{self._number:04x}"
                fields = {"change_lsn": change, "commit_lsn": self.transaction, "event_serial_no": 1}
                return Entry(fields, f"{self.transaction}/{change}/{1:010}")
            case _:
                scn, commit = 1_000_000 + self._at, 1_000_000 + self._at + 500
                fields = {"txId": self.transaction, "scn": str(scn), "commit_scn": str(commit), "rs_id": None}
                return Entry(fields, f"{commit:020}/{scn:020}")

    def source(self, schema: str, table: str, time: int, entry: Entry, snapshot: str = "false") -> dict[str, Any]:
        """The field ``source`` of a change at a ``time`` (microseconds since 1970)."""
        common: dict[str, Any] = {
            "version": _VERSION, "connector": self._options.connector, "name": self._options.prefix,
            "ts_ms": time // 1000, "snapshot": snapshot,
        }  # fmt: skip
        if self._options.connector == "mysql":
            common |= {"db": schema}
        else:
            common |= {"db": "store", "schema": schema}
        return common | {"ts_us": time, "ts_ns": time * 1000, "table": table} | entry.fields
