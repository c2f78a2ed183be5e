"""What all encoders have in common: what they write, where, and with which truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Generic, TypeVar

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.truth import Truth
from cdcwb_synth.workload import Change, Committed, Schema

Table = TypeVar("Table")


def delivered(steps: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """What is done for the changes of a transaction, in the order of their delivery: a late one follows the next."""
    late: list[tuple[Any, ...]] = []
    for step in steps:
        if step[0].is_late:
            late.append(step)
            continue
        yield step
        yield from late
        late = []


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """What an encoder writes, under ``folder``/capture. ``options`` are those of its format."""

    options: Any
    seed: int
    changes: int
    folder: Path
    truth: Truth


class Encoder(Generic[Table]):
    """Writes a workload's history. ``tables`` has what :meth:`table` gave for each table version, ``records`` counts
    what was written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        self.capture, self.options, self.truth = capture, capture.options, capture.truth
        self.folder = capture.folder / "capture"
        self.rng = Random(f"{capture.seed} {capture.truth.format}")
        self.tables: dict[TableVersion, Table] = {}
        self.records = 0

    def write(self, item: Any, done: int) -> None:
        """Writes what comes next, when ``done`` changes have happened."""
        match item:
            case Schema(version):
                if version not in self.tables:
                    self.tables[version] = self.table(item, done)
            case Change():
                self.load(item)
            case Committed():
                self.commit(item, done)

    def table(self, item: Schema, done: int) -> Table:
        """What the encoder needs to know of a table version, which is announced."""
        raise NotImplementedError

    def load(self, item: Change) -> None:
        """Writes a row of the full load."""

    def commit(self, item: Committed, done: int) -> None:
        """Writes the changes of a transaction."""

    def finish(self) -> None:
        """Writes what is still held back, and completes the files."""
