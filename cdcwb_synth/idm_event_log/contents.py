"""What the tables of a workload hold: kept up to date with every change, and written at the end as somebody would
export it to go with the event log."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Row
from cdcwb_synth.idm_event_log.containers import delimited
from cdcwb_synth.idm_event_log.keys import bare
from cdcwb_synth.idm_event_log.tables import Texts, Watched

__all__ = ["WRITERS", "Contents", "Current"]


@dataclass(frozen=True, slots=True)
class Current:
    """A table at the end: ``rows`` holds the values of ``names`` by their key, which is a set of pairs of column
    (:func:`~cdcwb_synth.idm_event_log.keys.bare`) and value."""

    watched: Watched
    keys: list[tuple[str, ...]]
    rows: dict[frozenset[tuple[str, str]], Texts]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are not of the key."""
        return self.watched.names


class Contents:
    """The rows that are there just now, by table and key."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[tuple[str, ...], tuple[int, Row]]] = {}
        self._versions: dict[int, list[Watched]] = {}

    def announce(self, watched: Watched) -> None:
        """A table has these columns from now on."""
        label = watched.version.table.label
        self._versions.setdefault(label, []).append(watched)
        self._rows.setdefault(label, {})

    def put(self, version: TableVersion, key: tuple[str, ...], row: Row) -> None:
        """A row is there, or is another one now."""
        self._rows[version.table.label][key] = (version.number, row)

    def remove(self, version: TableVersion, key: tuple[str, ...]) -> None:
        """A row is gone; nothing happens where it is not there."""
        self._rows[version.table.label].pop(key, None)

    def clear(self, version: TableVersion) -> None:
        """All rows of a table are gone."""
        self._rows[version.table.label].clear()

    def current(self) -> list[Current]:
        """All tables at the end, in the columns that they have then."""
        return [self._current(label, versions) for label, versions in self._versions.items()]

    def _current(self, label: int, versions: list[Watched]) -> Current:
        last = versions[-1]
        names = [bare(name) for name in last.key_names]
        made = Current(last, [], {})
        for key, (number, row) in self._rows[label].items():
            values = row
            for watched in versions:
                if watched.version.number > number:
                    values = tuple(None if old is None else values[old] for old in watched.version.origin)
            made.keys.append(key)
            made.rows[frozenset(zip(names, key, strict=True))] = last.texts(values)
        return made


def write_csv(path: Path, current: Current) -> None:
    """A table as delimited text with a line of names; NULL is an empty field, bytes are Base64."""
    with path.open("wb") as file:
        file.write(delimited([*current.watched.key_names, *current.names]))
        for key, texts in zip(current.keys, current.rows.values(), strict=True):
            file.write(delimited([*key, *texts]))


def write_parquet(path: Path, current: Current) -> None:
    """A table as Parquet, whole numbers as numbers and bytes as bytes, everything else as text."""
    watched = current.watched
    names = [*watched.key_names, *current.names]
    rows = [(*key, *texts) for key, texts in zip(current.keys, current.rows.values(), strict=True)]
    columns = [_column(name, [row[at] for row in rows], watched) for at, name in enumerate(names)]
    pq.write_table(pa.Table.from_arrays(columns, names=names), path, compression="zstd")


def _column(name: str, texts: list[str | None], watched: Watched) -> pa.Array:
    values: list[Any] = texts
    kind = pa.string()
    if name in watched.binary:
        kind, values = pa.binary(), [None if one is None else base64.b64decode(one) for one in texts]
    elif name in watched.integers:
        kind, values = pa.int64(), [None if one is None else int(one) for one in texts]
    return pa.array(values, kind)


WRITERS: Final = {"csv": write_csv, "parquet": write_parquet}
"""How a table is written, by the names of containers."""
