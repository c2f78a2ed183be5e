"""A trail as Extract writes it: file after file, each with its header and the definitions that its records need
(``docs/formats/goldengate.md §3.7 and §5``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cdcwb_synth.goldengate import special
from cdcwb_synth.goldengate.columns import Layout
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Record, Shown, measured
from cdcwb_synth.goldengate.truth import Place

__all__ = ["Listener", "Placed", "Trail"]


class Listener(Protocol):
    """Who hears of a trail's records, in its order."""

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail, with the body of its header."""

    def record(self, shown: Shown) -> Place:
        """A record; returns where its text is."""

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition of a table came; ``key`` is what the version is called."""


class Placed:
    """A record that was written to the trail: its location, and the version of its table in force."""

    __slots__ = ("place", "position", "shown", "version")

    def __init__(self, shown: Shown, place: Place, version: str) -> None:
        self.shown, self.place, self.version = shown, place, version
        self.position = f"{shown.sequence:010d}{shown.rba:010d}"


class Trail:
    """Puts records in their places. ``csn`` gives the number of the next commit, for the headers of files;
    ``first_file`` is how many files of the trail precede."""

    def __init__(
        self, options: GoldenGateOptions, listener: Listener, csn: Callable[[], str], first_file: int = 0
    ) -> None:
        self._options, self._listener, self._csn = options, listener, csn
        self._is_named = options.style == "11g"
        self.digits = 6 if self._is_named else 9
        self.sequence = options.first_sequence + first_file - 1
        self.path = ""
        self.rba = 0
        self.files = 0

    def start_file(self, at: int) -> None:
        """Continues in a new file."""
        options = self._options
        self.sequence += 1
        self.files += 1
        self.path = f"{options.trail}{self.sequence:0{self.digits}d}"
        header = special.file_header(options.style, self.path, self.sequence, at, self._csn())
        self.rba = len(header) + 8
        self._indexes: dict[tuple[int, int], int] = {}  # table and version: index in force
        self._keys: dict[int, str] = {}  # index: what the version is called
        self._newest: dict[int, tuple[int, int]] = {}  # table: version and index
        self._count = 0
        self._defined: dict[int, dict[str, str]] = {}  # index: what the version with each definition is called
        self._listener.new_file(self.sequence, self.path, header, at)

    def put(self, record: Record) -> Placed:
        """Writes a record, preceded by the definition of its table if it has none yet."""
        index = 0
        if record.layout is not None and not self._is_named:
            index = self._index(record.layout, record.at)
        return self._write(record, index)

    def _write(self, record: Record, index: int) -> Placed:
        partition, lengths = measured(record, self._is_named)
        shown = Shown(record, self.sequence, self.rba, index, partition, lengths)
        self.rba += lengths["G"]
        place = self._listener.record(shown)
        return Placed(shown, place, self._keys.get(index, ""))

    def _index(self, layout: Layout, at: int) -> int:
        table, number = layout.table.label, layout.version.number
        known = self._indexes.get((table, number))
        if known is not None:
            return known
        if not self._count:
            self._write(special.database(at), 0)
        last, index = self._newest.get(table, (0, 0))
        if index and last < number and number % 2 == 0:  # the table's index gets another meaning
            del self._indexes[table, last]
        else:
            self._count += 1
            index = self._count
        if last < number:
            self._newest[table] = (number, index)
        self._indexes[table, number] = index
        said = index if self._options.has_headers else 0  # nothing else tells the index of a definition
        known_keys = self._defined.setdefault(said, {})
        first = f"{said}@{self.path.rpartition('/')[2]}"
        numbered = f"{first}#{len(known_keys) + 1}" if known_keys else first
        key = known_keys.setdefault(special.table_text(layout), numbered)
        self._keys[index] = key
        record = special.definition(layout, index, at)
        placed = self._write(record, 0)
        assert record.text is not None
        self._listener.defined(layout, self._keys[index], record.text, placed.place)
        return index
