"""Numbers for the locations of events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["locations"]


def locations(events: pa.RecordBatch | pa.StructArray) -> npt.NDArray[np.int64]:
    """A number for the location of each event."""
    names = ("file_index", "offset")
    fields = (events.field(name) if isinstance(events, pa.StructArray) else events[name] for name in names)
    index, offset = (field.to_numpy().astype(np.int64) for field in fields)
    found: npt.NDArray[np.int64] = (index << 44) + offset
    return found
