"""What has to be known before messages can be read in pieces: containers, versions, settings and parts.

A plan is made once and travels to the workers as one text. It grows with the number of files, parts and versions, never
with the number of messages.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

from cdcwb.formats.messages import Container
from cdcwb.formats.messages.planned import Part
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions
from cdcwb.formats.qlik_kafka.versions import Version

__all__ = ["Asked", "Plan"]


@dataclass(slots=True)
class Asked:
    """By what the messages of a container look for their versions: the ids and Avro schemas that they name, and names
    of tables and columns where ``names``, or where nothing is known of an id. ``everything``: too many to note."""

    schema_ids: set[str] = field(default_factory=set)
    schema_texts: set[str] = field(default_factory=set)
    registry_ids: set[int] = field(default_factory=set)
    names: bool = False
    everything: bool = False

    def add(self, other: Asked) -> None:
        """Adds what another part of the container asks for."""
        self.schema_ids |= other.schema_ids
        self.schema_texts |= other.schema_texts
        self.registry_ids |= other.registry_ids
        self.names |= other.names
        self.everything |= other.everything


@dataclass(slots=True)
class Plan:
    """How a capture of messages is read. ``name`` is what a table of rows is called; None for files."""

    containers: list[Container]
    settings: Settings
    versions: list[Version]
    splits: list[list[Part]]  # small files that follow each other are read together
    detected: list[dict[str, Any]]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)  # problems that concern no event
    name: str | None = None
    partitions: list[tuple[str, int]] = field(default_factory=list)  # topics and partitions of rows, in order
    asked: list[Asked] = field(default_factory=list)  # of each container; stays where the plan is made

    def lookup(self) -> Versions:
        """The versions, to be found by what messages say."""
        return Versions(self.versions)

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""
        content = {
            "containers": [container.to_dict() for container in self.containers],
            "settings": asdict(self.settings),
            "versions": [version.as_dict() for version in self.versions],
            "splits": self.splits,
            "detected": self.detected,
            "facts": self.facts,
            "notes": self.notes,
            "name": self.name,
            "partitions": self.partitions,
        }
        return base64.b64encode(zlib.compress(json.dumps(content).encode(), 1)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that :meth:`to_text` wrote."""
        content = json.loads(zlib.decompress(base64.b64decode(text)))
        settings = content["settings"]
        settings["places"] = tuple(settings["places"])
        return cls(
            [Container.from_dict(one) for one in content["containers"]],
            Settings(**settings),
            [Version(**one) for one in content["versions"]],
            [[(one[0], one[1], one[2]) for one in parts] for parts in content["splits"]],
            content["detected"],
            content["facts"],
            content["notes"],
            content["name"],
            [(topic, partition) for topic, partition in content["partitions"]],
        )
