"""The options of a GoldenGate capture, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import messages as containers
from cdcwb.formats import options as opt
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.definition_text import parse_defgen
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.plan import LOGDUMP, Settings
from cdcwb.formats.goldengate.records import System
from cdcwb.formats.zones import parse_zone

__all__ = ["OPTIONS", "Options"]

OPTIONS: Final[dict[str, str]] = {
    "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    "definitions": "DEFGEN file with the definitions of tables that the capture does not have",
    "byte_order": "of record bodies: auto, big, little",
    "null_indicators": "in which columns of record bodies: auto, every, nullable (only in those that may be NULL)",
    "unified_prefix": "size in bytes of the length that precedes the before image of unified updates: auto, 2, 4",
    "charset": "character set of text columns and names (utf-8)",
    "trail_sequence": "number of the first trail file, if the capture does not give it",
    "shape": "of the files: auto, logdump, json, xml",
    "split_size": "bytes of a large file that one task reads (33554432)",
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: headers only",
    "keys": "key columns: schema.table:c1+c2",
    **{name: meaning for name, meaning in exports.OPTIONS.items() if name != "split_size"},
}
"""Every option of the format and what it means."""

_SPLIT_SIZE: Final = 32 << 20
_INDICATORS: Final = ("auto", "every", "nullable")
_SHAPES: Final = ("auto", LOGDUMP, "json", "xml")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected."""

    time_zone: str | None = None
    definitions: tuple[str, ...] = ()
    byte_order: str | None = None
    nullable: bool | None = None
    prefix: int | None = None
    charset: str = "utf-8"
    trail_sequence: int | None = None
    shape: str = "auto"
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    images: bool = True
    container: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
        opt.check_names(given, OPTIONS, "goldengate")
        values = {name: value for name, value in given.items() if value is not None and value != ""}
        zone = str(values.get("time_zone", "auto"))
        if zone.lower() != "auto":
            parse_zone(zone)
        order = opt.as_choice("byte_order", values.get("byte_order", "auto"), ("auto", "big", "little"))
        prefix = opt.as_choice("unified_prefix", values.get("unified_prefix", "auto"), ("auto", "2", "4"))
        indicators = opt.as_choice("null_indicators", values.get("null_indicators", "auto"), _INDICATORS)
        definitions = values.get("definitions", ())
        sequence = values.get("trail_sequence")
        container = {name: value for name, value in values.items() if name in exports.OPTIONS and name != "split_size"}
        containers.Options.parse(container)
        return cls(
            time_zone=None if zone.lower() == "auto" else zone,
            definitions=(str(definitions),) if isinstance(definitions, (str, Path)) else tuple(map(str, definitions)),
            byte_order=None if order == "auto" else order,
            nullable={"every": False, "nullable": True}.get(indicators),
            prefix=None if prefix == "auto" else int(prefix),
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            trail_sequence=None if sequence is None else opt.as_whole("trail_sequence", sequence, 0),
            shape=opt.as_choice("shape", values.get("shape", "auto"), _SHAPES),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            images=opt.as_bool("images", values.get("images", "true")),
            container=container,
        )

    @property
    def nullable_from(self) -> int | None:
        """From which :class:`~cdcwb.formats.goldengate.records.System` on null indicators are only in columns that may
        be NULL; None: to be detected."""
        if self.nullable is None:
            return None
        return System.OTHER if self.nullable else System.NONSTOP + 1

    @property
    def settings(self) -> Settings:
        """How all files are read."""
        return Settings(self.charset, self.time_zone, self.images, self.container)

    def beside(self) -> list[Definition]:
        """The definitions of the DEFGEN files. Raises OptionError where there are none."""
        found: list[Definition] = []
        for path in self.definitions:
            try:
                text = Path(path).read_bytes().decode(self.charset, "replace")
            except OSError as reason:
                raise OptionError(f"option definitions: {path!r} cannot be read ({reason})") from None
            some = parse_defgen(text)
            if not some:
                raise OptionError(f"option definitions: {path!r} has no `Definition for table`")
            found += some
        return found
