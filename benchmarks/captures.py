"""The captures that are measured: generated once, kept in ``benchmarks/.cache``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cdcwb_synth as synth
from cdcwb.formats.files import list_files

__all__ = ["CACHE", "Size", "head", "make", "sizes"]

CACHE = Path(__file__).with_name(".cache")
_SEED = 20250323
_FILES = 8
_TYPICAL = {"all_types": False, "files": _FILES}
_ALL_TYPES: dict[str, Any] = {"files": 1}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: ``changes`` of the typical capture, about 1.57 records each; ``all_types`` changes of the
    one with every column type; ``head`` records of the typical one for the peers that take a record at a time."""

    changes: int
    all_types: int
    head: int
    events: int  # what the typical capture must have at least


def sizes(quick: bool) -> Size:
    """Two million events, or a fortieth of that."""
    return Size(32_000, 5_000, 12_000, 50_000) if quick else Size(1_290_000, 60_000, 150_000, 2_000_000)


def make(size: Size) -> tuple[list[str], list[str]]:
    """The files of the typical capture, in stream order, and of the one with every column type."""
    typical = _generated(f"typical-{size.changes}", size.changes, _TYPICAL)
    everything = _generated(f"everything-{size.all_types}", size.all_types, _ALL_TYPES)
    records = json.loads((typical / "synth.json").read_text())["records"]
    if records < size.events:
        raise SystemExit(f"{typical} has {records} records, {size.events} are wanted")
    return list_files(typical / "capture"), list_files(everything / "capture")


def _generated(name: str, changes: int, options: dict[str, Any]) -> Path:
    folder = CACHE / name
    if not (folder / "synth.json").exists():
        print(f"generating {name} ({changes} changes), once", file=sys.stderr, flush=True)
        synth.generate("gbase8s", changes=changes, seed=_SEED, to=folder, overwrite=True, **options)
    return folder


def head(files: list[str], records: int) -> str:
    """A file with the first so many records of a capture whose files end with a record."""
    target = CACHE / f"{Path(files[0]).parents[1].name}-head-{records}.bin"
    with target.open("wb") as out:
        for file in files:
            data = Path(file).read_bytes()
            at = 0
            while at < len(data) and records:
                at += int.from_bytes(data[at : at + 4], "big") + int.from_bytes(data[at + 4 : at + 8], "big")
                records -= 1
            out.write(data[:at])
            if not records:
                return str(target)
    raise SystemExit(f"{records} records are missing")
