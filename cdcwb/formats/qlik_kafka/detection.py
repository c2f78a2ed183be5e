"""What is concluded about a capture of messages before it is decoded, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.bitmask import Votes
from cdcwb.formats.findings import detected_row
from cdcwb.formats.messages import Messages
from cdcwb.formats.qlik_kafka.decode import Bools, Form, Rows, decode
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions
from cdcwb.formats.qlik_kafka.names import PLACES
from cdcwb.formats.qlik_kafka.scan import Scan, Shape
from cdcwb.formats.qlik_kafka.versions import LOBS, Version

__all__ = ["mask_order_row", "table_rows", "usable_places", "votes_of"]


# --- masks ------------------------------------------------------------------------------------------------------------


def votes_of(
    batches: Iterable[Messages], settings: Settings, versions: Versions, schema: str | None, most: int
) -> tuple[Votes, Votes]:
    """What column masks, and change masks against images, say about the byte order of masks in the first Avro
    messages."""
    columns, changes = Votes(), Votes()
    for messages in batches:
        decoded = decode(messages, settings, versions, True, schema)
        avro = set(np.flatnonzero((decoded.forms != Form.JSON) & (decoded.forms != Form.NOTHING)).tolist())
        for rows in decoded.parsed.rows:
            if rows.version is None or not rows.count or int(rows.index[0]) not in avro:
                continue
            width = len(rows.version.bits)
            if rows.masks[1] is not None:
                columns = columns + bitmask.vote(rows.masks[1], width)
            if rows.masks[0] is not None:
                changes = changes + bitmask.vote(rows.masks[0], width, expected=_changed(rows, width))
        most -= len(messages.offset)
        if most <= 0:
            break
    return columns, changes


def _changed(rows: Rows, width: int) -> Bools | None:
    """What the images of updates say about which bits of their masks are set; None where they say nothing."""
    if rows.data is None or rows.before is None or rows.version is None:
        return None
    operations = rows.header("operation")
    if operations is None or not pc.all(pc.equal(operations, "UPDATE")).as_py():
        return None
    if list(rows.data.names) != list(rows.before.names):
        return None
    types = {column.name: column.type for column in rows.version.columns}
    bit_of = {name: bit for bit, name in enumerate(rows.version.bits)}
    differs = rows.data.differs(rows.before)
    expected = np.zeros((rows.count, width), dtype=np.bool_)
    for at, name in enumerate(rows.data.names):
        if name in bit_of and types.get(name) not in LOBS:
            expected[:, bit_of[name]] = differs[:, at]
    return expected


def mask_order_row(votes: Sequence[tuple[Votes, Votes]]) -> tuple[str, dict[str, Any]]:
    """The byte order of masks in Avro messages, and the evidence for it."""
    columns, changes = Votes(), Votes()
    for one, other in votes:
        columns, changes = columns + one, changes + other
    little, big = columns.little + changes.little, columns.big + changes.big
    order = "little" if little > big else "big"
    if little + big == 0:
        evidence = (
            "no mask of an Avro message shows it; the order of the JSON text, most significant byte first, is assumed"
        )
        return order, detected_row("mask_order", order, evidence, False)
    sentences = []
    for what, found in (("column masks", columns), ("change masks", changes)):
        if found.little + found.big:
            example = f" ({found.example})" if found.example else ""
            sentences.append(
                f"{what} fit as little-endian only in {found.little} rows, as big-endian only in {found.big}{example}"
            )
    return order, detected_row("mask_order", order, "; ".join(sentences), False)


# --- names of tables --------------------------------------------------------------------------------------------------

_OVERLAP: Final = 0.5


def usable_places(whole: Scan, given: str | None) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The places whose names of tables are believed, with the reason for each that is not.

    A message key is as often a row's primary key as a table's name, a column called ``table_name`` may be data, and a
    topic may be shared by several tables. What they say is taken for a table's name only if the messages under one name
    have most of their columns in common, and rows with the same columns one name.
    """
    if given is not None:
        return (given,), [detected_row("table_from", given, "given as an option", True)]
    rows = []
    places = list(PLACES[:-1])
    for place in ("column", "topic", "key"):
        shapes = [shape for shape in whole.shapes if shape.table.place == place]
        shapes += [shape for _, shape in whole.of_id.values() if shape.table.place == place]
        reason = _doubt(shapes, place)
        if reason and place in places:
            # a message that this place named was not asked for what stands behind it
            del places[places.index(place) :]
            rows.append(detected_row("table_from", f"not {place}", reason, False))
    return tuple(places), rows


def _doubt(shapes: Sequence[Shape], place: str) -> str:
    first: dict[str, tuple[str, ...]] = {}
    for shape in shapes:
        known = first.setdefault(shape.table.label, shape.names)
        both = len(set(known) & set(shape.names))
        if both < _OVERLAP * min(len(known), len(shape.names)):
            there, here = ", ".join(known[:2]), ", ".join(shape.names[:2])
            return f"rows under {shape.table.label} have different columns ({there} … and {here} …)"
    alike = {frozenset(shape.names) for shape in shapes}
    if place != "topic" and len(first) > len(alike):
        return f"{len(first)} different values with {len(alike)} sets of columns: they are data, not table names"
    return ""


def table_rows(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Where the names of tables were found, for those that no metadata names."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for version in versions:
        place = version.lineage.get("table named by")
        if place and version.full_name:
            evidence = f"table version {version.table_version}: the name is in the {_SPELLED.get(place, place)}"
            row = detected_row("table_from", place, evidence, False, version.full_name)
            rows.setdefault((version.full_name, place), row)
    return list(rows.values())


_SPELLED: Final = {
    "message": "message, next to its data",
    "headers": "message's headers",
    "record_headers": "headers of the Kafka record",
    "column": "row, in an added column",
    "key": "message key",
    "namespace": "namespace of its Avro schema",
}
