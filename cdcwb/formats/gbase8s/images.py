"""Row images of many records at once: which bytes hold which column, decoded column by column (docs/formats/gbase8s.md
§3, §4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays.texts import bytes_of
from cdcwb.formats.gbase8s.columns import decode_fixed, decode_variable
from cdcwb.formats.gbase8s.decoded import Decoded
from cdcwb.formats.gbase8s.dissect import Settings
from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints
from cdcwb.formats.gbase8s.schema import TableSchema

__all__ = ["RowImages", "decode_images", "size_words"]

_HEADER: Final = 36  # bytes of a row record's header before its size words


@dataclass(frozen=True, slots=True)
class RowImages:
    """Row images of one table version. ``rows`` are indices of the caller's; ``odd`` marks those to decode one by one.

    ``columns`` holds, in ordinal order, the decoded column of each wanted name.
    """

    rows: Ints
    odd: Bools
    names: list[str]
    columns: list[Decoded]


def size_words(buffer: Bytes, start: Ints, count: int, byte_order: str) -> Ints:
    """The ``count`` size words of the row records that begin at ``start``, a row each (§3)."""
    there = bytes_of(buffer, start + _HEADER, 4 * count)
    return there.view("<u4" if byte_order == "little" else ">u4").astype(np.int64)


def decode_images(
    buffer: Bytes,
    rows: Ints,
    start: Ints,
    header_size: Ints,
    payload_size: Ints,
    schema: TableSchema,
    settings: Settings,
    wanted: Iterable[str] | None = None,
) -> RowImages:
    """The row images of the records that begin at ``start`` (rising) and are all rows of ``schema``.

    ``header_size`` and ``payload_size`` are those of the records. ``wanted`` names the columns to decode (None: all);
    the others cost nothing. A record whose sizes contradict the schema is odd.
    """
    names = {column.name for column in schema.columns} if wanted is None else set(wanted)
    count = schema.variable_columns
    fits = header_size == _HEADER + 4 * count
    if schema.decodable < len(schema.columns):
        fits = np.zeros(len(rows), dtype=bool)
    good = np.flatnonzero(fits)
    words = size_words(buffer, start[good], count, settings.byte_order)
    good = good[schema.fixed_bytes + words.sum(axis=1) == payload_size[good]]
    odd = np.ones(len(rows), dtype=bool)
    if len(good) < len(rows):  # only plain rows can be laid out; the others are decoded one by one
        inner = (
            decode_images(
                buffer, rows[good], start[good], header_size[good], payload_size[good], schema, settings, names
            )
            if len(good)
            else None
        )
        if inner is None:
            return RowImages(rows, odd, [], [])
        odd[good] = inner.odd
        spread = np.full(len(rows), -1, dtype=np.int64)
        spread[good] = np.arange(len(good))
        return RowImages(rows, odd, inner.names, [_spread(column, spread) for column in inner.columns])
    odd[:] = False
    payload = start + header_size
    fixed = bytes_of(buffer, payload, schema.fixed_bytes)
    edges = payload + schema.fixed_bytes
    place = 0
    word = 0
    out_names: list[str] = []
    out: list[Decoded] = []
    for column in schema.columns:
        take = column.name in names
        if column.fixed:
            size = column.size or 0
            if take:
                out.append(decode_fixed(column, fixed[:, place : place + size], settings.charset))
            place += size
        else:
            after = edges + words[:, word]
            if take:
                out.append(decode_variable(column, buffer, edges, after, settings.prefix_width, settings.charset))
            edges = after
            word += 1
        if take:
            out_names.append(column.name)
            odd |= out[-1].odd
    return RowImages(rows, odd, out_names, out)


def _spread(column: Decoded, places: Ints) -> Decoded:
    """A column of some rows as a column of all of them, null where ``places`` is -1."""
    index = pa.array(places, mask=places < 0)
    return Decoded(column.odd, lambda: column.text().take(index), lambda: column.typed().take(index))
