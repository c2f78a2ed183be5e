"""Large captures of GBase 8s, made in minutes: copies of a generated one, each a file of the stream.

A copy differs from the first one by its sequence numbers, transactions, times and keys of rows, which all continue
those of the copy before it, so that a reader finds one long stream without a break.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from cdcwb.formats.gbase8s.framing import iter_segments

__all__ = ["copied"]

_BEGIN, _COMMIT = 1, 2
_ROWS = (40, 41, 42, 43)
_OF_TRANSACTION = (1, 2, 3, 62, 119, *_ROWS)
_OF_SEQUENCE = (*_OF_TRANSACTION, 201)
_LOW_BYTES_OF_KEY = {"serial": 0, "bigserial": 4, "serial8": 2}
"""Where the lower four bytes of a key are in its column, which is the first one of a row."""

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def copied(one: Path, copies: int, folder: Path) -> None:
    """Writes ``folder`` as the folder of a generated capture with so many copies of ``one``; its ``truth`` is not
    written."""
    made = json.loads((one / "synth.json").read_text())
    (name,) = made["files"]
    data = np.fromfile(one / "capture" / name, np.uint8)
    starts = _starts(data)
    number = _field(data, starts + 12, 4)
    shifts = [
        _shift(data, starts[np.isin(number, _OF_SEQUENCE)] + 16, 8, whole=1 << 32),
        _shift(data, starts[np.isin(number, _OF_TRANSACTION)] + 24, 4),
        _shift(data, starts[np.isin(number, (_BEGIN, _COMMIT))] + 28, 8),
        *_shifts_of_keys(data, starts[np.isin(number, _ROWS)], one),
    ]
    capture = folder / "capture"
    shutil.rmtree(folder, ignore_errors=True)
    capture.mkdir(parents=True)
    names = [f"stream-{copy + 1}.bin" for copy in range(copies)]
    for file in names:
        data.tofile(capture / file)
        for places, values, by in shifts:
            values += by
            _write(data, places, values)
    shutil.copy(one / "capture.labels.json", folder)
    totals = ("changes", "captured_changes", "records", "transactions", "file_bytes")
    (folder / "synth.json").write_text(
        json.dumps(made | {"files": names} | {total: made[total] * copies for total in totals})
    )


def _starts(data: Bytes) -> Ints:
    segments = list(iter_segments(lambda start, stop: data[start:stop], 0, len(data), len(data)))
    return np.concatenate([one.base + one.start[one.record] for one in segments])


def _field(data: Bytes, places: Ints, size: int) -> Ints:
    """The big-endian numbers at some places."""
    return data[places[:, None] + np.arange(size)].view(f">i{size}")[:, 0].astype(np.int64)


def _write(data: Bytes, places: Ints, values: Any) -> None:
    size = places.shape[1]
    data[places] = values.astype(f">i{size}").view(np.uint8).reshape(-1, size)


def _shift(data: Bytes, at: Ints, size: int, whole: int = 1) -> tuple[Ints, Ints, int]:
    """The places of all bytes of a field, its values, and by how much they rise from copy to copy, a multiple of
    ``whole``."""
    values = _field(data, at, size)
    span = int(values.max() - values.min()) + 1
    return at[:, None] + np.arange(size), values, -(-span // whole) * whole


def _shifts_of_keys(data: Bytes, rows: Ints, one: Path) -> list[tuple[Ints, Ints, int]]:
    labels = _field(data, rows + 28, 4)
    types = {
        int(version["table_version"].split("@")[0]): version["schema_text"].split(",")[0].split()[1]
        for version in pq.read_table(one / "truth" / "table_versions.parquet").to_pylist()
    }
    header = _field(data, rows, 4)
    return [
        _shift(data, (rows + header)[labels == label] + _LOW_BYTES_OF_KEY[kind], 4) for label, kind in types.items()
    ]
