"""What readers of nested types have in common: not every row has to have such a field."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from cdcwb.formats.avro.cursors import Bools, Cursors

__all__ = ["Compound"]


class Compound(ABC):
    """A reader for which rows that are not present are left out, or parked meanwhile if they are few."""

    type: pa.DataType

    def read(self, cursors: Cursors, present: Bools | None) -> pa.Array:
        """As :class:`cdcwb.formats.avro.leaves.Reader` says."""
        if present is None:
            return self.read_all(cursors)
        rows = np.flatnonzero(present)
        if 2 * len(rows) >= len(cursors):
            away = cursors.send_away(~present)
            found = self.read_all(cursors)
            cursors.bring_back(away)
            return found
        part = cursors.part(rows)
        found = self.read_all(part)
        cursors.join(part, rows)
        places = np.zeros(len(cursors), dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return found.take(pa.array(places, mask=~present))

    def skip(self, cursors: Cursors, present: Bools | None) -> None:
        """As :class:`cdcwb.formats.avro.leaves.Reader` says."""
        if present is None:
            self.skip_all(cursors)
            return
        rows = np.flatnonzero(present)
        part = cursors.part(rows)
        self.skip_all(part)
        cursors.join(part, rows)

    @abstractmethod
    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""

    @abstractmethod
    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows."""
