"""Data messages that were decoded together: same form, same columns, same headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.maps import Ints, TextPool
from cdcwb.formats.arrays.texts import hex_digits
from cdcwb.formats.avro import to_text
from cdcwb.formats.qlik_kafka.versions import Version
from cdcwb.model import Problem

__all__ = ["Bools", "Image", "Rows", "hex_text"]

Bools = npt.NDArray[np.bool_]


class Image:
    """The images of ``count`` rows with the columns ``names``: typed arrays, one a column, or the texts of all values
    in one array, row after row."""

    def __init__(
        self,
        names: Sequence[str],
        count: int,
        *,
        texts: pa.StringArray | None = None,
        columns: Sequence[pa.Array] | None = None,
    ) -> None:
        self.names = names
        self.count = count
        self.columns = columns
        self._texts = texts

    @property
    def texts(self) -> pa.StringArray:
        """The text of every value: row after row, or column after column where there are typed columns."""
        if self._texts is None:
            texts = [to_text(column) for column in self.columns or ()]
            self._texts = pa.concat_arrays(texts) if texts else pa.array([], pa.string())
        return self._texts

    def column(self, at: int) -> pa.Array:
        """The values of one column: typed, or as text."""
        if self.columns is not None:
            return self.columns[at]
        return self.texts.take(pa.array(np.arange(at, len(self.texts), len(self.names))))

    def _matrix(self, flat: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        width = len(self.names)
        return flat.reshape(self.count, width) if self.columns is None else flat.reshape(width, self.count).T

    def places(self, pool: TextPool) -> Ints:
        """Adds the texts to a pool; their places there, a row for each row and a column for each column."""
        placed: Ints = self._matrix(pool.add(self.texts))  # type: ignore[assignment]
        return placed

    @property
    def nulls(self) -> Bools:
        """Which values are null."""
        if not self.texts.null_count:
            return np.zeros((self.count, len(self.names)), dtype=np.bool_)
        found: Bools = self._matrix(pc.is_null(self.texts).to_numpy(zero_copy_only=False))  # type: ignore[assignment]
        return found

    def differs(self, other: Image) -> Bools:
        """Where the values of two images with the same columns and layout differ; NULL equals NULL."""
        unequal = pc.fill_null(pc.not_equal(self.texts, other.texts), False).to_numpy(zero_copy_only=False)
        if self.texts.null_count or other.texts.null_count:
            here, there = pc.is_null(self.texts), pc.is_null(other.texts)
            unequal = unequal | pc.xor(here, there).to_numpy(zero_copy_only=False)
        found: Bools = self._matrix(unequal)  # type: ignore[assignment]
        return found

    def select(self, names: Sequence[str]) -> Image:
        """Some of the columns, as text."""
        columns = [to_text(self.column(self.names.index(name))) for name in names]
        return Image(names, self.count, columns=columns)

    def row(self, at: int) -> dict[str, str | None]:
        """One row as text."""
        return {name: to_text(self.column(place)[at : at + 1])[0].as_py() for place, name in enumerate(self.names)}

    def take(self, chosen: Ints) -> Image:
        """Some of the rows."""
        if self.columns is not None:
            taken = pa.array(chosen)
            return Image(self.names, len(chosen), columns=[column.take(taken) for column in self.columns])
        places = np.arange(len(self.texts)).reshape(self.count, len(self.names))[chosen].reshape(-1)
        return Image(self.names, len(chosen), texts=self.texts.take(pa.array(places)))


@dataclass(slots=True)
class Rows:
    """Data messages with the same parts. ``index``: which messages of their batch they are, in rising order.

    ``headers`` has an array for each of ``header_names`` (in wire order, those around the message first). ``masks`` are
    the bytes of ``changeMask`` and ``columnMask`` (null: none) and ``mask_order`` is their byte order. ``data`` and
    ``before`` are None where the messages have no such image. The headers of the data message itself begin at ``own``.
    The first ``shown`` headers are the source's own; those behind them are what they mean where the source (the legacy
    form) has other names for it.
    """

    index: Ints
    record_type: str
    version: Version | None
    schema_name: str | None
    table_name: str | None
    header_names: Sequence[str]
    headers: Sequence[pa.StringArray]
    masks: tuple[pa.BinaryArray | None, pa.BinaryArray | None]
    mask_order: str
    data: Image | None
    before: Image | None
    shown: int | None = None
    own: int = 0
    problems: list[tuple[int, Problem, str]] = field(default_factory=list)  # (row of this group, code, sentence)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.index)

    def header(self, name: str) -> pa.StringArray | None:
        """The values of a header field of the data message; None where they have no such field."""
        for at in range(len(self.header_names) - 1, self.own - 1, -1):
            if self.header_names[at] == name:
                return self.headers[at]
        return None


def hex_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as upper-case hexadecimal digits; null stays null."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    first = int(offsets[0]) if len(offsets) else 0
    last = int(offsets[-1]) if len(offsets) else 0
    data = values.buffers()[2]
    there = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]
    digits = hex_digits(there.reshape(1, -1), upper=True) if len(there) else there
    doubled = ((offsets - first) * 2).astype(np.int32)
    mask = pc.is_null(values).to_numpy(zero_copy_only=False)
    plain = pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(doubled), pa.py_buffer(np.ascontiguousarray(digits))]
    )
    return plain if not mask.any() else pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), plain)
