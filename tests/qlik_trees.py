"""Field trees of Qlik's messages, each of a message on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.columns import TableColumn
from cdcwb.formats.containers import messages
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.dissector import EVERYTHING, Field
from cdcwb.formats.qlik_kafka import tree
from cdcwb.formats.qlik_kafka.events import events_of
from cdcwb.formats.qlik_kafka.versions import MessageSettings, Version, VersionLookup, from_avro
from tests.kafka import SCHEMA_ID

__all__ = ["dissect", "one_message"]


class _Given(VersionLookup):
    """Versions of which every message that names none finds the same."""

    given: Version | None = None

    def of_names(self, table: Any, external: str | None, names: Iterable[str]) -> Version | None:
        return self.given


def dissect(
    value: bytes | None,
    resolve: Callable[[str], str | None] | None = None,
    order: str = "big",
    columns: Sequence[Any] | None = None,
) -> Field:
    """The field tree of one message. ``resolve`` gives the Avro schema of ``SCHEMA_ID``, of the registry's id 42 and
    (for an empty name) of values without a frame; ``columns`` are those of the table's version."""
    described = [one if isinstance(one, tuple) else (one, None) for one in columns or ()]
    listed = [TableColumn(at, name, kind) for at, (name, kind) in enumerate(described, 1) if name]
    versions = []
    for name in (SCHEMA_ID, "42", ""):
        text = None if resolve is None else resolve(name)
        if text is None:
            continue
        try:
            version = from_avro(text, name, "record")
        except CaptureError:
            version = Version(name, None, None, [], "record", text)
        version.columns = version.columns if columns is None else listed
        version.schema_id, version.registry_id = name or None, 42 if name == "42" else None
        versions.append(version)
    lookup = _Given(versions)
    if columns is not None:
        lookup.given = Version("given", None, None, listed, "record")
    settings = MessageSettings(order, avro_schema=None if resolve is None else resolve(""))
    one = one_message(value)
    (event,) = events_of(one, Where("", 0, "row"), settings, lookup, EVERYTHING).to_pylist()
    return tree.dissect(one, settings, lookup, None, event)


def one_message(value: bytes | None) -> messages.Messages:
    """A batch of one message."""
    nothing, given = pa.nulls(1, pa.binary()), pa.array([value], pa.binary())
    place = np.zeros(1, dtype=np.int64)
    return messages.Messages(place, place + 1, np.zeros(1, dtype=np.uint8), {}, given, nothing, given, {})
