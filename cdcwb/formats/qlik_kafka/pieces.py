"""What the events of a part follow from, so that those of an earlier run can be kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from cdcwb.formats.base import Piece
from cdcwb.formats.messages.planned import Part
from cdcwb.formats.qlik_kafka.plan import Asked, Plan
from cdcwb.formats.qlik_kafka.versions import Version

__all__ = ["pieces_of"]


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each part follow from: its container and how that is read, the settings, and the versions that
    its messages find, be their metadata in the same file or in one that came later."""
    contexts = _Contexts(plan)
    for parts in plan.splits:
        yield [contexts.piece(part) for part in parts]


class _Contexts:
    """The contexts of a plan's parts; what many of them share is made once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lookup = plan.lookup()
        self._texts: dict[int, str] = {}

    def piece(self, part: Part) -> Piece:
        """What the events of a part follow from."""
        index, start, stop = part
        container = self.plan.containers[index]
        context: dict[str, Any] = {
            "container": container.to_dict(),
            "start": start,
            "stop": stop,
            "settings": asdict(self.plan.settings),
            "versions": self._found(index, container.schema),
        }
        return Piece((container.path,), json.dumps(context))

    def _found(self, index: int, schema: str | None) -> dict[str, Any]:
        """The versions that the messages of a container find, by what they are found by."""
        asked = self.plan.asked[index] if self.plan.asked else Asked(everything=True)
        if asked.everything:
            return {"everything": self._everything}
        lookup, given = self.lookup, self.plan.settings.avro_schema
        unknown = asked.schema_ids - lookup.by_schema_id.keys()
        texts = asked.schema_texts | {text for text in (schema, given) if text is not None}
        return {
            "schema ids": [(one, self._text(lookup.by_schema_id.get(one))) for one in sorted(asked.schema_ids)],
            "registry ids": [(one, self._text(lookup.by_registry_id.get(one))) for one in sorted(asked.registry_ids)],
            "texts": [(one, self._text(lookup.by_text.get(one))) for one in sorted(texts)],
            "names": self._by_names if asked.names or unknown else None,
        }

    @cached_property
    def _everything(self) -> list[str | None]:
        return self._all(self.plan.versions)

    @cached_property
    def _by_names(self) -> list[str | None]:
        return self._all(self.lookup.by_names.values())

    def _all(self, versions: Iterable[Version]) -> list[str | None]:
        return [self._text(one) for one in versions]

    def _text(self, version: Version | None) -> str | None:
        """A version as text, without its place, which no event says."""
        if version is None:
            return None
        if id(version) not in self._texts:
            told = version.as_dict()
            for place in ("file_index", "offset", "length"):
                del told[place]
            self._texts[id(version)] = json.dumps(told)
        return self._texts[id(version)]
