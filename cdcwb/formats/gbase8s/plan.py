"""The plan of a capture: options, files, settings, table versions and names, splits, and state that crosses splits
(docs/formats/gbase8s.md). A plan is made once by :mod:`cdcwb.formats.gbase8s.first_pass` and sent to the workers as one
text. Its size grows with the number of files, splits, schema texts and transactions that are open at a split's start,
not with the number of records.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.base import Piece, PlanText
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.gbase8s.decode import Headers, counts_of
from cdcwb.formats.gbase8s.framing import (
    EMPTY,
    Bools,
    Bytes,
    Edges,
    Ints,
    ReadBuffer,
    Reads,
    Segments,
    cut_gaps,
    iter_segments,
    walk_reads,
)
from cdcwb.formats.gbase8s.layout import Settings
from cdcwb.formats.gbase8s.schema import TableSchema, read_side_file, schema_text, table_schema
from cdcwb.formats.requests import detected_row
from cdcwb.formats.source import folders_of, is_file, is_remote, read_text
from cdcwb.words import plural

__all__ = [
    "OPTIONS", "FileEntry", "Options", "Plan", "SplitEntry", "Stream", "Version", "Versions", "capture_files",
    "distinct", "labels_files", "pieces_of",
]  # fmt: skip

Names = dict[int, tuple[str | None, str]]
"""Label -> schema (None: unknown) and table."""

# --- options ----------------------------------------------------------------------------------------------------------

OPTIONS: Final[dict[str, str]] = {
    "charset": "character set of text columns (utf-8)",
    "byte_order": "of the size words: auto, little, big",
    "prefix_width": "bytes of a VARCHAR's length prefix: auto, 1, 2",
    "shape": "of the files: auto, binary, hex, xxd, hexdump",
    "reads": "complete read buffers in the files: auto, line (a read per line of text), none",
    "buffer_size": "size in bytes of the buffer that each read fills",
    "labels": "table names of labels: 111=schema.table,112=…, a JSON file, a dictionary, none, or auto: the file "
    "NAME.labels.json in the folder of the capture's file or folder NAME",
    "schemas": "file with the table schemas whose TABSCHEM records are missing: JSON, or lines `111: c1 integer, …`",
    "split_size": "bytes of a large file that one task reads (a quarter of it, from 8388608 to 33554432)",
    "inflate_limit": opt.INFLATE_LIMIT,
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: headers only",
    "keys": "key columns: schema.table:c1+c2",
}
"""The description of every option of the format."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected. ``labels_given``: the option ``labels`` as given,
    ``labels`` its parsed value (None: the files next to the capture name the tables)."""

    charset: str = "utf-8"
    byte_order: str | None = None
    prefix_width: int | None = None
    shape: str = "auto"
    reads: str = "auto"
    buffer_size: int | None = None
    labels: Names | None = None
    labels_given: Any = None
    schemas: dict[int, str] = field(default_factory=dict)
    split_size: int | None = None
    mode: str = "PERMISSIVE"
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        opt.check_names(given, OPTIONS, "gbase8s")
        values = {name: value for name, value in given.items() if value is not None and value != ""}

        def choice(name: str, default: str, known: tuple[str, ...]) -> str:
            return opt.as_choice(name, values.get(name, default), known)

        def whole(name: str, least: int) -> int | None:
            return opt.as_whole(name, values[name], least) if name in values else None

        order, width = (
            choice("byte_order", "auto", ("auto", "little", "big")),
            choice("prefix_width", "auto", ("auto", "1", "2")),
        )
        return cls(
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            byte_order=None if order == "auto" else order,
            prefix_width=None if width == "auto" else int(width),
            shape=choice("shape", "auto", ("auto", "binary", "hex", "xxd", "hexdump")),
            reads=choice("reads", "auto", ("auto", "line", "none")),
            buffer_size=whole("buffer_size", 16),
            labels=_labels(values.get("labels", "auto")),
            labels_given=values.get("labels"),
            schemas=_schemas(values.get("schemas", {})),
            split_size=whole("split_size", 64),
            mode=choice("mode", "PERMISSIVE", opt.MODES),
            given=frozenset(values),
        )

    def names_of(self, paths: Iterable[str]) -> tuple[Names, list[dict[str, Any]]]:
        """The names of the tables of these files (§6.8), and the rows of ``detected`` about them.

        Raises OptionError for an unusable file, and for two files that give one label different names.
        """
        if self.labels is not None:
            labels = self.labels_given
            if isinstance(labels, Mapping):
                text = json.dumps(labels, ensure_ascii=False) if labels else "none"
            else:
                here = is_file(str(labels)) and not is_remote(str(labels))
                text = str(Path(labels).absolute()) if here else str(labels)
            return self.labels, [detected_row("labels", text, "given as an option", True)]
        names: Names = {}
        rows: list[dict[str, Any]] = []
        source: dict[int, str] = {}
        for path in labels_files(paths):
            some = _read_labels(path)
            for label, name in some.items():
                if names.setdefault(label, name) != name:
                    other = f"label {label} has a different name in {source[label]}"
                    advice = "Give the names with the option labels, or load the files one by one."
                    raise OptionError(f"{other}. {advice}", path=path)
                source.setdefault(label, path)
            evidence = f"the labels file of the capture; it names {plural(len(some), 'label')}"
            rows.append(detected_row("labels", path, evidence, False))
        return names, rows


def _schemas(option: Any) -> dict[int, str]:
    if not isinstance(option, Mapping):
        return read_side_file(str(option))
    try:
        return {int(label): str(text) for label, text in option.items()}
    except ValueError:
        wrong = ", ".join(repr(label) for label in option)
        raise OptionError(f"option schemas: expected whole numbers as labels, found {wrong}") from None


def _labels(option: Any) -> Names | None:
    word = option.strip().lower() if isinstance(option, str) else ""
    if word == "auto":
        return None
    names: Names = {}
    for label, name in ({} if word == "none" else opt.as_names("labels", option)).items():
        schema, _, table = name.rpartition(".")
        try:
            names[int(label)] = (schema or None, table)
        except ValueError:
            raise OptionError(f"option labels: expected a whole number as label, found {label!r}") from None
    return names


def _read_labels(path: str) -> Names:
    try:
        text = read_text(path)
        if not text.lstrip().startswith("{"):
            raise OptionError('expected a JSON object such as {"101": "shop.orders"}')
        return _labels(text) or {}
    except (OSError, UnicodeDecodeError) as reason:
        what = f"cannot be read ({reason.strerror if isinstance(reason, OSError) else reason})"
    except OptionError as reason:
        what = reason.message.removeprefix("option labels: ")
    raise OptionError(f"{what}. Correct this file, or load with labels=none.", path=path)


def labels_files(paths: Iterable[str]) -> list[str]:
    """The files that name the tables of these files: for each the nearest ``NAME.labels.json`` next to the file or a
    folder that contains it, where NAME is the name of that file (with or without its extension) or folder."""
    known: dict[str, bool] = {}
    files: dict[str, None] = {}
    for path in paths:
        folder, slash, name = path.rpartition("/")
        for base in (path, f"{folder}{slash}{Path(name).stem}", *folders_of(path)):
            candidate = f"{base}.labels.json"
            if candidate not in known:
                known[candidate] = Path(base).name != "" and is_file(candidate)
            if known[candidate]:
                files[candidate] = None
                break
    return list(files)


def capture_files(paths: Sequence[str]) -> list[str]:
    """The files without files of table names."""
    side = set(labels_files(paths))
    return [path for path in paths if path not in side] or list(paths)


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FileEntry:
    """One file of a capture. ``size``: bytes of the decompressed file; ``length``: wire bytes in it."""

    path: str
    shape: str
    compression: str | None
    size: int
    length: int
    problem: str | None = None  # the problem of the file itself (a truncated compressed one)


NO_COUNTS: Final = (None, None, None)


@dataclass(slots=True)
class Version:
    """One schema text of one label. ``counts``: fixed bytes, fixed and variable columns by the header, None for a side
    file. ``file_index``, ``offset``, ``length``: the location of its TABSCHEM in the decompressed file; -1: none."""

    label: int
    number: int
    text: str
    counts: tuple[int | None, int | None, int | None]
    origin: str
    file_index: int = -1
    offset: int = -1
    length: int = -1


@dataclass(slots=True)
class SplitEntry:
    """A run of the stream, ``[start, stop)`` in wire bytes over all files: the segments that begin in it.

    ``open_before``: transactions open at its start (id -> name). ``in_force``: label -> number of the version in force
    at the start. ``closes``: indices of the text files whose notes (text between the digits of records) belong to this
    split. ``reach``: bytes of the stream from this offset on have no influence on it; -1 if unknown. ``buffer``: what
    earlier reads left in the read buffer; None if there is none. ``inner``: the bytes of the split without records of
    transactions that are open at its start or end; None: unknown, or none.
    """

    start: int
    stop: int
    open_before: dict[int, str] = field(default_factory=dict)
    in_force: dict[int, int] = field(default_factory=dict)
    closes: list[int] = field(default_factory=list)
    reach: int = -1
    buffer: ReadBuffer | None = None
    inner: tuple[int, int] | None = None


Part = tuple[SplitEntry, frozenset[str] | None]
"""A part of a split, and the transactions whose events are read from it; None: all events."""


@dataclass(slots=True)
class Plan(PlanText):
    """The plan of a capture. ``mode`` is ``stream`` (consecutive records), ``reads`` (read buffers with known starts)
    or ``inferred`` (read buffers with starts inferred from their unframed tails)."""

    files: list[FileEntry]
    mode: str
    buffer_size: int | None
    settings: Settings
    versions: list[Version]
    splits: list[SplitEntry]
    labels: Names
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def stream(self) -> Stream:
        """The files of the plan as one run of wire bytes; close it after use."""
        return Stream(self.files, self.mode, self.buffer_size)

    def crossing(self, split: int) -> frozenset[str]:
        """The transactions that are open at the start of a split, or at its end if another one follows."""
        return frozenset(name for s in self.splits[split : split + 2] for name in s.open_before.values())

    def parts_with(self, split: int, transactions: frozenset[str] | None) -> list[Part]:
        """What has to be read of a split for these transactions (None: for all events)."""
        here = self.splits[split]
        if here.inner is None or transactions is None or not transactions <= self.crossing(split):
            return [(here, transactions)]
        head, tail = here.inner
        parts: list[Part] = [(replace(here, stop=head, closes=[]), transactions)]
        if began := transactions.difference(here.open_before.values()):
            in_force = self.splits[split + 1].in_force
            parts.append((replace(here, start=tail, closes=[], open_before={}, in_force=in_force), began))
        return parts


_MOST_OPEN: Final = 64
"""Files of a stream that are open at once: each takes a file descriptor, and many systems allow a process 1,024."""


class Stream:
    """The files of a capture as one run of wire bytes, in which a record may begin in one file and end in another.

    A file is opened when its bytes are first requested, and a few stay open. ``boundaries`` are the offsets of each
    file but the first.
    """

    def __init__(self, files: Sequence[FileEntry], mode: str = "stream", buffer_size: int | None = None) -> None:
        self.files, self.mode, self.buffer_size = files, mode, buffer_size
        self.starts = [0]
        for entry in files:
            self.starts.append(self.starts[-1] + entry.length)
        self.length = self.starts[-1]
        self.boundaries: Ints = np.array(self.starts[1:-1], dtype=np.int64)
        self.edges = Edges(self.starts, self._read_starts)
        self._open: dict[int, Source] = {}

    def source(self, index: int) -> Source:
        """The open file at an index, to be used before another one is requested."""
        if index not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            entry = self.files[index]
            self._open[index] = open_source(entry.path, entry.shape, size=entry.size)
        return self._open[index]

    def file_at(self, at: int) -> int:
        """The index of the file with the wire byte at ``at``."""
        return bisect.bisect_right(self.starts, at, hi=len(self.files)) - 1

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes ``[start, stop)``, clipped to the stream; bytes of several files are joined."""
        stop = min(stop, self.length)
        index = self.file_at(start)
        if start < stop <= self.starts[index + 1]:
            joined = self.source(index).read(start - self.starts[index], stop - self.starts[index]).view()
        else:
            joined = np.empty(max(stop - start, 0), np.uint8)
            at = start
            while at < stop:
                index = self.file_at(at)
                first, end = self.starts[index], min(stop, self.starts[index + 1])
                joined[at - start : end - start] = self.source(index).read(at - first, end - first)
                at = end
        joined.flags.writeable = False  # a kernel would be compiled for each of the two types
        return joined

    def segments(self, start: int, stop: int, reads: Reads | None = None) -> Iterator[Segments]:
        """The segments that begin in ``[start, stop)`` of the stream; without known starts of read buffers, all of
        them. ``reads`` are those from :meth:`reads`; None: from the stream's start."""
        if self.mode == "stream":
            yield from iter_segments(self.read, start, stop, self.length, boundaries=self.boundaries)
        elif self.mode == "inferred":
            yield cut_gaps(walk_reads(self.read(0, self.length), None), self.boundaries)
        else:
            for segments in (reads or Reads(self.read, self.edges)).segments(start, stop):
                yield cut_gaps(segments, self.boundaries)

    def reads(self, buffer: ReadBuffer | None) -> Reads | None:
        """The reads that follow the content of a read buffer."""
        return Reads(self.read, self.edges, buffer) if buffer is not None else None

    def _read_starts(self, index: int) -> Sequence[int]:
        """The offsets at which reads begin in a file: its start and its lines, dump restarts or multiples of the buffer
        size."""
        entry = self.files[index]
        if self.buffer_size is not None:
            return range(0, max(entry.length, 1), self.buffer_size)
        if entry.shape == "binary":
            return range(1)
        source = self.source(index)
        starts = source.read_starts
        if (starts is None or len(starts) < 2) and source.shape == "hex":
            starts = source.line_starts
        return range(1) if starts is None or len(starts) == 0 else starts.tolist()

    def location(self, start: int, end: int) -> tuple[int, int, int]:
        """File index, offset and length of a run of the stream in its first decompressed file."""
        index = self.file_at(start)
        first = self.starts[index]
        offset, stop = self.span(index, start - first, min(end, self.starts[index + 1]) - first)
        return index, offset, stop - offset

    def span(self, index: int, start: int, end: int) -> tuple[int, int]:
        """Offset and end in the decompressed file of wire bytes ``[start, end)`` of one file."""
        offset, last = self.source(index).places(np.array([start]), np.array([end]))
        return int(offset[0]), int(last[0])

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            source.close()
        self._open.clear()


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """The provenance of each split, so that its events from an earlier run can be reused. Records continue from file to
    file, so it includes all files that the split reaches into: all following files if its records are damaged or its
    last one ends with the stream. Offsets count from the first of these files, since earlier ones influence events only
    by versions in force and open transactions.
    """
    starts = Stream(plan.files).starts
    for split in plan.splits:
        first, last = 0, len(plan.files) - 1
        buffer = split.buffer or EMPTY
        if plan.mode != "inferred":  # that depends on the complete stream
            begin = min([split.start, *(read for read, _ in buffer.reads)])
            first = min([bisect.bisect_right(starts, begin, hi=last + 1) - 1, *split.closes])
            if 0 <= split.reach <= starts[-1]:
                last = max([first, bisect.bisect_left(starts, split.reach, hi=last + 1) - 1, *split.closes])
        base, involved = starts[first], plan.files[first : last + 1]
        context: dict[str, Any] = {
            "files": [asdict(entry) for entry in involved],
            "mode": plan.mode,
            "buffer_size": plan.buffer_size,
            "settings": asdict(plan.settings),
            "labels": sorted(plan.labels.items()),
            "start": split.start - base,
            "stop": split.stop - base,
            "open_before": sorted(split.open_before.items()),
            "in_force": sorted(split.in_force.items()),
            "buffer": [[(begin - base, end - base) for begin, end in buffer.reads], sorted(buffer.records or ())],
            "closes": [plan.files[index].path for index in split.closes],
            "versions": [
                (v.label, v.number, v.text, *v.counts, v.origin) for v in plan.versions if v.file_index <= last
            ],
        }
        yield [Piece(tuple(entry.path for entry in involved), json.dumps(context))]


# --- table versions ---------------------------------------------------------------------------------------------------


class Versions:
    """The versions of a plan, and the number in force for each label during reading (§5)."""

    def __init__(self, plan: Plan, in_force: Mapping[int, int]) -> None:
        self._charset, self._labels, self._in_force = plan.settings.charset, plan.labels, dict(in_force)
        self._base = 1 + max((version.number for version in plan.versions), default=0)
        self._versions = {(version.label, version.number): version for version in plan.versions}
        self._schemas: dict[tuple[int, int], TableSchema] = {}
        self._by_text: dict[tuple[int, str], list[Version]] = {}
        for version in plan.versions:
            self._by_text.setdefault((version.label, version.text), []).append(version)

    def schema(self, label: int, number: int) -> TableSchema | None:
        """The version with a number, or None. Its text is parsed on first use, since a split may need few."""
        key = (label, number)
        if key not in self._schemas and key in self._versions:
            schema_text = self._versions[key]
            size, fixed, variable = schema_text.counts
            self._schemas[key] = table_schema(
                *key,
                schema_text.text,
                fixed_bytes=size,
                fixed_columns=fixed,
                variable_columns=variable,
                origin=schema_text.origin,
            )
        return self._schemas.get(key)

    def names(self, label: int) -> tuple[str | None, str]:
        """Schema and table name of a label; without a map the label's number is the table name."""
        return self._labels.get(label, (None, str(label)))

    def table_names(self, label: int) -> frozenset[str]:
        """The names of a label's table in filters."""
        schema, table = self.names(label)
        return frozenset([table] if schema is None else [table, f"{schema}.{table}"])

    def of_records(self, headers: Headers) -> Ints:
        """The number of the version in force at each row, TRUNCATE and TABSCHEM record; 0 for none."""
        out = np.zeros(len(headers.start), dtype=np.int64)
        opened: dict[int, tuple[list[int], list[int]]] = {}
        for record in np.flatnonzero(headers.number == 200).tolist():
            label = int(headers.label[record])
            text, counts = schema_text(headers.payload(record), self._charset), counts_of(headers, record)
            same = (v.number for v in self._by_text.get((label, text), ()) if v.counts in (counts, NO_COUNTS))
            out[record] = next(same, 0)
            places, numbers = opened.setdefault(label, ([-1], [self._in_force.get(label, 0)]))
            places.append(record)
            numbers.append(int(out[record]))
        uses = np.flatnonzero(headers.row | (headers.number == 119))
        labels, index = distinct(headers.label[uses])
        for at, table_label in enumerate(labels.tolist()):
            some = uses[index == at]
            places, numbers = opened.get(table_label, ([-1], [self._in_force.get(table_label, 0)]))
            out[some] = np.array(numbers)[np.searchsorted(np.array(places), some, side="right") - 1]
        self._in_force |= {label: numbers[-1] for label, (_, numbers) in opened.items()}
        return out

    def tables(self, label: Ints, version: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """The distinct (label, version) of many records, and the index of each record's own."""
        keys, index = distinct(label * self._base + version)
        return [divmod(key, self._base) for key in keys.tolist()], index

    def name_arrays(self, label: Ints, version: Ints, labelled: Bools) -> list[pa.Array]:
        """Schema name, table name and table version of many records; null if ``labelled`` is false."""
        tables, table = self.tables(label, version)
        texts = [
            (*self.names(table_label), f"{table_label}@{number}" if number else None) for table_label, number in tables
        ]
        index = pa.array(table, mask=~labelled)
        return [pa.array([t[at] for t in texts], pa.string()).take(index) for at in range(3)]


_CLOSE: Final = 1 << 16


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and the index of each of ``values``. Record numbers, labels and file indices are
    dense, so counting them is several times as fast as sorting.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _CLOSE:
        different, index = np.unique(values, return_inverse=True)
        return different, index
    from_low = values - low
    different = np.flatnonzero(np.bincount(from_low))
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[different] = np.arange(len(different))
    return low + different, places[from_low]
