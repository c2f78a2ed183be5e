"""The formats by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Final

from cdcwb.errors import UnknownFormatError
from cdcwb.formats.base import Format
from cdcwb.formats.options import nearest

__all__ = ["FORMATS", "described_by", "get_format", "side_files"]

FORMATS: Final = {
    "gbase8s": ("cdcwb.formats.gbase8s", "GBase8s"),
    "goldengate": ("cdcwb.formats.goldengate", "GoldenGate"),
    "qlik-kafka": ("cdcwb.formats.qlik_kafka", "QlikKafka"),
    "qlik-change-table": ("cdcwb.formats.qlik_change_table", "QlikChangeTable"),
    "idm-event-log": ("cdcwb.formats.idm_event_log", "IdmEventLog"),
    "debezium": ("cdcwb.formats.debezium", "Debezium"),
}
"""Format name -> module and class."""

_SIDE_FILES: Final = {
    "gbase8s": re.compile(r"\.labels\.json$"),
    "qlik-change-table": re.compile(r"\.dfm$", re.IGNORECASE),
    "idm-event-log": re.compile(r"\.snapshot/"),
}
"""Format name -> text in the path of a file that may describe others; avoids importing the other formats."""


def get_format(name: str) -> Format:
    """The format of that name. Raises UnknownFormatError with the known names and the nearest."""
    if name not in FORMATS:
        raise UnknownFormatError(
            f"unknown format {name!r}.{nearest(name, FORMATS)} There are: auto, {', '.join(FORMATS)}."
        )
    module, cls = FORMATS[name]
    made: Format = getattr(importlib.import_module(module), cls)()
    return made


def described_by(paths: Sequence[str]) -> list[str]:
    """The files among these and next to them that describe these files in any format."""
    return [path for name in FORMATS for path in get_format(name).side_files(paths)]


def side_files(paths: Sequence[str]) -> dict[str, str]:
    """The files that describe others and have no records, with their format."""
    found: dict[str, str] = {}
    for name, marked in _SIDE_FILES.items():
        if any(map(marked.search, paths)):
            among = set(get_format(name).side_files(paths))
            found |= {path: name for path in paths if path in among}
    return found
