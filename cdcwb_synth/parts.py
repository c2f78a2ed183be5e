"""Captures that are generated in parts by tasks in parallel: parts continue one another, and have one truth.

A task writes its part like a capture of its own. When all files are known, tasks put the indexes of files that the
complete capture has into the truth; table versions are merged.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import SynthError
from cdcwb_synth.options import BREAKS
from cdcwb_synth.truth import natural_key

__all__ = ["WHOLE", "Part", "Run", "write_parts"]

Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Maps a function over tasks and returns the results in order."""

WritePart = Callable[[str, "Part", Any, Path], dict[str, Any]]
"""Writes a part (format, part, its options and its folder) and returns its facts."""

_FIRST_ONLY: Final = (
    "missing_begins", "truncates", "errors", "restarts", "abends", "clock_back", "refresh_rows", "rows_before",
)  # fmt: skip
"""Options that count what happens; it happens in the first part."""

_LAST_ONLY: Final = ("schema_changes", "open_transactions")
"""Options that count what later parts would have to know of; it happens in the last part."""

_FILES: Final = ("files", "trail_files")
"""Options that count files, which are dealt out to the parts."""

_SPARE: Final = 1_000_000
"""Numbers that a part can use for what does not grow with its changes, such as the descriptions of its tables."""

_MOST: Final = (1 << 31) - 1
"""Most changes of a capture: keys of 32 bits have to be unique in all parts."""

_BATCH: Final = 20_000


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` (from 0) of ``count``; the only one of a capture that is generated in one go.

    ``seed`` is the capture's; :attr:`own_seed` that of the part. ``first_change`` is how many changes the parts before
    it have, ``loaded`` how many rows they have of a full load. No event of the part is later than ``until``.
    ``first_file`` is the number of its first file, from 0.
    """

    seed: int = 0
    number: int = 0
    count: int = 1
    changes: int = 0
    first_change: int = 0
    loaded: int = 0
    until: datetime | None = None
    first_file: int = 0

    @property
    def own_seed(self) -> int:
        """The seed of the part; of the first part that of the capture."""
        if not self.number:
            return self.seed
        digest = hashlib.sha256(f"{self.seed} part {self.number}".encode()).digest()
        return int.from_bytes(digest[:8], "big")

    @property
    def suffix(self) -> str:
        """What the name of a file ends with that each part has: nothing in a capture of one part, else ``-1`` …"""
        return f"-{self.number + 1}" if self.count > 1 else ""

    @property
    def is_continued(self) -> bool:
        """Do other parts precede it? Then the first versions of its tables are known from them."""
        return self.number > 0

    @property
    def first_key(self) -> int:
        """Where the key columns of the part begin. Every change makes at most one key."""
        return 1 + self.first_change + self.loaded

    def numbers(self, per_change: int) -> int:
        """How many numbers the parts before it can have used, ``per_change`` for a change or a loaded row and a million
        in each part besides."""
        return per_change * (self.first_change + self.loaded) + self.number * _SPARE


WHOLE: Final = Part()
"""A capture that is generated in one go."""


def _parts_of(options: Any, changes: int, seed: int, part_changes: int) -> Iterator[tuple[Part, Any]]:
    """The parts of a capture with at most ``part_changes`` changes each, with the options of each.

    Raises SynthError for more changes than keys of 32 bits allow, and where the last part would be after the year
    9000."""
    if any(getattr(options, name) for name in BREAKS):
        raise SynthError(f"a capture in parts has no breaks, so {', '.join(BREAKS)} are 0")
    if changes > _MOST:
        raise SynthError(f"a capture in parts has at most {_MOST:,} changes, not {changes:,}: keys have 32 bits")
    count = max(1, -(-changes // part_changes))
    rows = getattr(options, "refresh_rows", 0) or getattr(options, "rows_before", 0)
    loaded, start, files = (options.tables + options.all_types) * rows, options.start_time, 0
    for number in range(count):
        first, stop = changes * number // count, changes * (number + 1) // count
        try:
            end = start + _duration(options, stop - first)
        except OverflowError:
            end = datetime.max.replace(tzinfo=start.tzinfo)
        if end.year >= 9000:
            raise SynthError("the capture would last beyond the year 9000: choose a higher rate or an earlier start")
        own: dict[str, Any] = {"start": start.isoformat()} if number else {}
        own |= dict.fromkeys(_FIRST_ONLY if number else (), 0)
        own |= dict.fromkeys(_LAST_ONLY if number < count - 1 else (), 0)
        wanted = next((getattr(options, name) for name in _FILES if hasattr(options, name)), 1)
        share = max(1, wanted * (number + 1) // count - wanted * number // count)
        own |= dict.fromkeys(_FILES, share)
        until = end - timedelta(seconds=1) if count > 1 else None
        own = {name: value for name, value in own.items() if hasattr(options, name)}
        part = Part(seed, number, count, stop - first, first, loaded if number else 0, until, files)
        yield part, replace(options, **own)
        start, files = end, files + share


def _duration(options: Any, changes: int) -> timedelta:
    """How long so many changes take, with a fifth more: events that are still later are moved to the end."""
    size = max(1.0, options.transaction_size - 1) * 0.995
    events = changes * (1 + 2 / size + 2 * options.undo_share)
    return timedelta(seconds=int(1.2 * (events / options.rate + 5 * max(2, changes // 500))) + 10)


def write_parts(
    write: WritePart, format: str, changes: int, seed: int, options: Any, folder: Path, run: Run, part_changes: int
) -> dict[str, Any]:
    """Writes the capture and its truth below ``folder``; returns the counts for synth.json."""
    count = sum(1 for _ in _parts_of(options, changes, seed, part_changes))
    for name in ("capture", "truth/changes.parquet", "truth/transactions.parquet", "parts"):
        (folder / name).mkdir(parents=True)
    make = partial(_make, write, format, changes, seed, options, folder, part_changes)
    facts: list[dict[str, Any]] = run(make, range(count))
    names = sorted((name for one in facts for name in one["files"]), key=natural_key)
    index = {name: number for number, name in enumerate(names)}
    indexes = [[index[name] for name in sorted(one["files"], key=natural_key)] for one in facts]
    labels = _merge_versions(format, folder, indexes)
    run(partial(_complete, folder), list(zip(range(count), indexes, labels, strict=True)))
    shutil.rmtree(folder / "parts")
    counts = {name: sum(one[name] for one in facts) for name, value in facts[0].items() if type(value) is int}
    return {"parts": count, "part_changes": part_changes, **counts, "files": names}


def _make(
    write: WritePart, format: str, changes: int, seed: int, options: Any, folder: Path, part_changes: int, number: int
) -> dict[str, Any]:
    """Makes a part: its files are moved to those of the others, its truth to a folder of its own. A task that runs a
    second time replaces them by the same bytes."""
    part, own = next(islice(_parts_of(options, changes, seed, part_changes), number, None))
    temporary = Path(tempfile.mkdtemp(prefix=f"{number}-", dir=folder / "parts"))
    facts = write(format, part, own, temporary)
    truth = folder / "parts" / str(number)
    if not truth.exists():
        (temporary / "truth").rename(truth)
    shutil.rmtree(temporary / "truth", ignore_errors=True)
    for path in [path for path in temporary.rglob("*") if path.is_file()]:
        target = folder / path.relative_to(temporary)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    shutil.rmtree(temporary)
    return facts


def _complete(folder: Path, task: tuple[int, list[int], dict[str, str]]) -> None:
    """Moves the changes and transactions of a part into the truth; ``task`` is the number of the part, the indexes of
    its files in the complete capture, and how that names table versions which have another name in the part."""
    number, indexes, labels = task
    own, name = folder / "parts" / str(number), f"part-{number:05}.parquet"
    shutil.copyfile(own / "transactions.parquet", folder / "truth" / "transactions.parquet" / name)
    index = pa.array(indexes or [0], pa.int32())
    target = folder / "truth" / "changes.parquet" / name
    source = pq.ParquetFile(own / "changes.parquet")
    with source, pq.ParquetWriter(target, model.CHANGES, compression="zstd") as writer:
        for batch in source.iter_batches(_BATCH):
            columns = {column: batch[column] for column in batch.schema.names}
            events = columns["source_events"]
            files, *rest = events.flatten().flatten()
            structs = pa.StructArray.from_arrays([index.take(files), *rest], fields=list(model.SOURCE_EVENT))
            names = [labels.get(label, label) for label in columns["table_version"].to_pylist()]
            columns |= {
                "file_index": index.take(columns["file_index"]), "table_version": pa.array(names, pa.string()),
                "source_events": pa.ListArray.from_arrays(events.offsets, structs),
            }  # fmt: skip
            arrays = [columns[name] for name in model.CHANGES.names]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=model.CHANGES))


def _merge_versions(format: str, folder: Path, indexes: Sequence[Sequence[int]]) -> list[dict[str, str]]:
    """Writes the table versions of all parts: each once, with its first position and event of all parts. Returns for
    every part the names of versions that are others there: inferred ones of Qlik, which are numbered in capture
    order."""
    merged: dict[Any, dict[str, Any]] = {}
    labels: list[dict[str, Any]] = []
    for number, index in enumerate(indexes):
        labels.append({})
        for row in pq.read_table(folder / "parts" / str(number) / "table_versions.parquet").to_pylist():
            key: Any = row["table_version"]
            if format.startswith("qlik") and row["origin"] == "inferred" and "@" in key:
                key = row["schema_name"], row["table_name"], tuple(column["name"] for column in row["columns"])
                labels[-1][row["table_version"]] = key
            if row["first_event"] is not None:
                row["first_event"]["file_index"] = index[row["first_event"]["file_index"]]
            first = merged.setdefault(key, row)
            if first is row:
                continue
            for name, order in (("first_position", str), ("first_event", _location)):
                first[name] = min((one for one in (first[name], row[name]) if one is not None), key=order, default=None)
            if first["origin"] == row["origin"] == "inferred":
                first["columns"] = _united(format, [*first["columns"], *row["columns"]])
    counts: Counter[str] = Counter()
    numbered = [row for key, row in merged.items() if isinstance(key, tuple)]
    for row in sorted(numbered, key=lambda row: _location(row["first_event"])):
        label = row["table_version"].rpartition("@")[0]
        counts[label] += 1
        row["table_version"] = f"{label}@{counts[label]}"
    table = pa.Table.from_pylist(list(merged.values()), schema=model.TABLE_VERSIONS)
    pq.write_table(table, folder / "truth" / "table_versions.parquet", compression="zstd")
    return [{old: merged[key]["table_version"] for old, key in part.items()} for part in labels]


def _location(event: dict[str, int]) -> tuple[int, int]:
    return event["file_index"], event["offset"]


def _united(format: str, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns that two parts show of a table, in the order in which they appear. A column that is a text in one of
    them is a text. In event logs the columns of keys come first, and names that differ in case are one of them."""
    is_log = format == "idm-event-log"
    united: dict[str, dict[str, Any]] = {}
    for column in sorted(columns, key=lambda column: is_log and column["key_position"] is None):
        keys = {name.lower() for name, one in united.items() if one["key_position"] is not None}
        name, is_key = column["name"], column["key_position"] is not None
        if is_log and is_key and name not in united and name.lower() in keys:
            continue
        one = united.setdefault(name, column)
        if one["type"] != column["type"]:
            one["type"] = "text"
    for ordinal, one in enumerate(united.values(), 1):
        one["ordinal"] = ordinal
        if is_log and one["key_position"] is not None:
            one["key_position"] = ordinal
    return list(united.values())
