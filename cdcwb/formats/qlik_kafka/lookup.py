"""How messages find the version of their table (docs/formats/qlik-kafka.md §10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cdcwb.formats.avro import Decoder, Schema, parse_schema
from cdcwb.formats.qlik_kafka.names import NOBODY, PLACES, TableName, name_of
from cdcwb.formats.qlik_kafka.versions import Version

__all__ = ["NameKey", "Settings", "Versions"]

NameKey = tuple[str, str | None, tuple[str, ...]]
"""Label, externalSchemaId and column names: what tells a version apart that has no metadata."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was detected about a capture: the byte order of masks in Avro (``big`` or ``little``), the places where a
    table's name may stand, and the Avro schema of values that name none."""

    mask_order: str = "big"
    places: tuple[str, ...] = PLACES
    avro_schema: str | None = None


@dataclass
class Versions:
    """All versions of a capture's tables, found by what messages say."""

    versions: Sequence[Version]
    by_schema_id: dict[str, Version] = field(default_factory=dict)
    by_registry_id: dict[int, Version] = field(default_factory=dict)
    by_names: dict[NameKey, Version] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for version in self.versions:
            if version.schema_id is not None:
                self.by_schema_id[version.schema_id] = version
            if version.registry_id is not None:
                self.by_registry_id[version.registry_id] = version
            if version.label is not None:
                names = tuple(column.name for column in version.columns)
                self.by_names[version.label, version.external, names] = version
        self._schemas: dict[str, Schema] = {}
        self._decoders: dict[tuple[str, tuple[str, ...] | None], Decoder] = {}

    @cached_property
    def by_text(self) -> dict[str, Version]:
        """Versions by the text of their Avro schema; of several the first."""
        return {version.text: version for version in reversed(self.versions) if version.text}

    def schema(self, text: str) -> Schema:
        """The parsed Avro schema, parsed once. Raises CaptureError for one that cannot be used."""
        if text not in self._schemas:
            self._schemas[text] = parse_schema(text)
        return self._schemas[text]

    def decoder(self, text: str, fields: tuple[str, ...] | None = None) -> Decoder:
        """The decoder of an Avro schema for those fields, made once. Raises CaptureError as :meth:`schema`."""
        if (text, fields) not in self._decoders:
            self._decoders[text, fields] = Decoder(self.schema(text), fields)
        return self._decoders[text, fields]

    def of_names(self, table: TableName, external: str | None, names: Iterable[str]) -> Version | None:
        """The version of a message that names no metadata."""
        return self.by_names.get((table.label, external, tuple(names)))


def table_of(
    settings: Settings,
    body: Mapping[str, Any],
    headers: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    facts: Mapping[str, str | None],
    key: bytes | None,
    places: Sequence[str] | None = None,
) -> TableName:
    """The table of a message without metadata, by the settings' places, or by those of them that may have a name."""
    asked = settings.places if places is None else places
    return name_of(body, headers, row or {}, facts, key, asked, len(settings.places) > 1) if asked else NOBODY
