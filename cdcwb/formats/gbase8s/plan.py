"""What has to be known before a capture can be read in splits: options, files, settings, table versions and names, and
what crosses splits (docs/formats/gbase8s.md).

A plan is made once by :mod:`cdcwb.formats.gbase8s.first_pass` and travels to the workers as one text. Everything in it
is small: it grows with the number of files, splits, schema texts and transactions that are open at a split's start,
never with the number of records.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.base import Piece, PlanText
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.gbase8s.decode import Headers, counts_of
from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints, Segments, cut_gaps, iter_reads, iter_segments, walk_reads
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
"""Label -> schema (None: not given) and table."""

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
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: headers only",
    "keys": "key columns: schema.table:c1+c2",
}
"""Every option of the format and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected. ``labels_given``: the option ``labels`` as it was given,
    of which ``labels`` is the meaning (None: the files beside the capture name the tables)."""

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
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
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

        Raises OptionError for a file that cannot be used, and for two that give one label different names.
        """
        if self.labels is not None:
            given = self.labels_given
            if isinstance(given, Mapping):
                text = json.dumps(given, ensure_ascii=False) if given else "none"
            else:
                here = is_file(str(given)) and not is_remote(str(given))
                text = str(Path(given).absolute()) if here else str(given)
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


def _schemas(given: Any) -> dict[int, str]:
    if not isinstance(given, Mapping):
        return read_side_file(str(given))
    try:
        return {int(label): str(text) for label, text in given.items()}
    except ValueError:
        wrong = ", ".join(repr(label) for label in given)
        raise OptionError(f"option schemas: expected whole numbers as labels, found {wrong}") from None


def _labels(given: Any) -> Names | None:
    word = given.strip().lower() if isinstance(given, str) else ""
    if word == "auto":
        return None
    names: Names = {}
    for label, name in ({} if word == "none" else opt.as_names("labels", given)).items():
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
    """The files that name the tables of these files: of each the nearest ``NAME.labels.json``, where NAME is the file's
    name (with or without its extension) or that of a folder it is in, and which is beside that file or folder."""
    known: dict[str, bool] = {}
    found: dict[str, None] = {}
    for path in paths:
        folder, slash, name = path.rpartition("/")
        for base in (path, f"{folder}{slash}{Path(name).stem}", *folders_of(path)):
            beside = f"{base}.labels.json"
            if beside not in known:
                known[beside] = Path(base).name != "" and is_file(beside)
            if known[beside]:
                found[beside] = None
                break
    return list(found)


def capture_files(paths: Sequence[str]) -> list[str]:
    """The files without those that name the tables of others."""
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
    problem: str | None = None  # what is wrong with the file itself (a compressed one that is cut off)


NO_COUNTS: Final = (None, None, None)


@dataclass(slots=True)
class Version:
    """One schema text of one label. ``counts``: fixed bytes, fixed and variable columns by the header, None for a side
    file. ``file_index``, ``offset``, ``length``: the TABSCHEM that brought it, in its decompressed file; -1: none."""

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
    there. ``closes``: indices of the text files whose notes (text between the digits of records) belong to this split.
    ``reach``: no byte of the stream from there on says anything about it; -1 where that is not known.
    """

    start: int
    stop: int
    open_before: dict[int, str] = field(default_factory=dict)
    in_force: dict[int, int] = field(default_factory=dict)
    closes: list[int] = field(default_factory=list)
    reach: int = -1


@dataclass(slots=True)
class Plan(PlanText):
    """How a capture is read. ``mode`` is ``stream`` (records follow each other), ``reads`` (read buffers with known
    starts) or ``inferred`` (read buffers whose starts follow from their unframed tails)."""

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


class Stream:
    """The files of a capture as one run of wire bytes, in which a record may begin in one file and end in another.

    A file is opened when its bytes are first asked for. ``boundaries`` are the places where each file but the first
    begins.
    """

    def __init__(self, files: Sequence[FileEntry], mode: str = "stream", buffer_size: int | None = None) -> None:
        self.files, self.mode, self.buffer_size = files, mode, buffer_size
        self.starts = [0]
        for entry in files:
            self.starts.append(self.starts[-1] + entry.length)
        self.length = self.starts[-1]
        self.boundaries: Ints = np.array(self.starts[1:-1], dtype=np.int64)
        self._open: dict[int, Source] = {}

    def source(self, index: int) -> Source:
        """The opened file of that index."""
        if index not in self._open:
            self._open[index] = open_source(self.files[index].path, self.files[index].shape)
        return self._open[index]

    def file_at(self, place: int) -> int:
        """Index of the file that holds the wire byte at ``place``."""
        return bisect.bisect_right(self.starts, place, hi=len(self.files)) - 1

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes ``[start, stop)``, clipped to the stream; over file ends they are joined."""
        stop = min(stop, self.length)
        parts: list[Bytes] = []
        while start < stop:
            index = self.file_at(start)
            first = self.starts[index]
            end = min(stop, self.starts[index + 1])
            parts.append(self.source(index).read(start - first, end - first))
            start = end
        joined = parts[0].view() if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
        joined.flags.writeable = False  # a kernel would be compiled for each of both
        return joined

    def segments(self, start: int, stop: int) -> Iterator[Segments]:
        """The segments that begin in ``[start, stop)`` of the stream; in the modes that know reads, all of them."""
        if self.mode == "stream":
            yield from iter_segments(self.read, start, stop, self.length, boundaries=self.boundaries)
        elif self.mode == "inferred":
            yield cut_gaps(walk_reads(self.read(0, self.length), None), self.boundaries)
        else:
            for segments in iter_reads(self.read, np.array(self.read_starts(self.length)), self.length):
                yield cut_gaps(segments, self.boundaries)

    def read_starts(self, upto: int) -> list[int]:
        """Where reads begin, in files that begin before ``upto``: at each file's start and its lines, dump restarts or
        multiples of the buffer size."""
        starts: set[int] = set()
        for index, entry in enumerate(self.files):
            first = self.starts[index]
            if first >= upto and starts:
                break
            if not entry.length:
                continue
            inside: Iterable[int] = ()
            if self.buffer_size is not None:
                inside = range(self.buffer_size, entry.length, self.buffer_size)
            else:
                source = self.source(index)
                restarts = getattr(source, "read_starts", None)
                if restarts is not None and len(restarts) > 1:
                    inside = restarts
                elif source.line_starts is not None and source.shape == "hex":
                    inside = source.line_starts
            starts.update((first, *(first + int(at) for at in inside)))
        return sorted(starts)

    def location(self, start: int, end: int) -> tuple[int, int, int]:
        """File index, offset and length in the decompressed file of a run of the stream, as far as its first file
        goes."""
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
    """What the events of each split follow from, so that those of an earlier run can be kept.

    Records run on from file to file, so the files are all that the split reaches into: all behind it where its records
    are damaged or its last one ends with the stream. Places count from the first of these files on, for what precedes
    it has no part in the events but for what it left in force and open.
    """
    starts = Stream(plan.files).starts
    for split in plan.splits:
        first, last = 0, len(plan.files) - 1
        if plan.mode == "stream":  # else the whole of the stream tells where reads begin
            first = min([bisect.bisect_right(starts, split.start, hi=last + 1) - 1, *split.closes])
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
            "closes": [plan.files[index].path for index in split.closes],
            "versions": [
                (one.label, one.number, one.text, *one.counts, one.origin)
                for one in plan.versions
                if one.file_index <= last
            ],
        }
        yield [Piece(tuple(entry.path for entry in involved), json.dumps(context))]


# --- table versions ---------------------------------------------------------------------------------------------------


class Versions:
    """The versions of a plan, and the number that is in force for each label as the reading goes on (§5)."""

    def __init__(self, plan: Plan, in_force: Mapping[int, int]) -> None:
        self._charset, self._labels, self._in_force = plan.settings.charset, plan.labels, dict(in_force)
        self._base = 1 + max((version.number for version in plan.versions), default=0)
        self._versions = {(version.label, version.number): version for version in plan.versions}
        self._schemas: dict[tuple[int, int], TableSchema] = {}
        self._by_text: dict[tuple[int, str], list[Version]] = {}
        for version in plan.versions:
            self._by_text.setdefault((version.label, version.text), []).append(version)

    def schema(self, label: int, number: int) -> TableSchema | None:
        """The version of that number, or None. Its text is read when it is first asked for: a split may need few."""
        key = (label, number)
        if key not in self._schemas and key in self._versions:
            one = self._versions[key]
            size, fixed, variable = one.counts
            self._schemas[key] = table_schema(
                *key, one.text, fixed_bytes=size, fixed_columns=fixed, variable_columns=variable, origin=one.origin
            )
        return self._schemas.get(key)

    def names(self, label: int) -> tuple[str | None, str]:
        """Schema and table name of a label; without a map the label's number is the table name."""
        return self._labels.get(label, (None, str(label)))

    def table_names(self, label: int) -> frozenset[str]:
        """The texts by which a filter may name the table of a label."""
        schema, table = self.names(label)
        return frozenset([table] if schema is None else [table, f"{schema}.{table}"])

    def of_records(self, headers: Headers) -> Ints:
        """The number of the version in force at each row, TRUNCATE and TABSCHEM record; 0 where there is none."""
        out = np.zeros(len(headers.start), dtype=np.int64)
        opened: dict[int, tuple[list[int], list[int]]] = {}
        for record in np.flatnonzero(headers.number == 200).tolist():
            label = int(headers.label[record])
            text, counts = schema_text(headers.payload(record), self._charset), counts_of(headers, record)
            same = (one.number for one in self._by_text.get((label, text), ()) if one.counts in (counts, NO_COUNTS))
            out[record] = next(same, 0)
            places, numbers = opened.setdefault(label, ([-1], [self._in_force.get(label, 0)]))
            places.append(record)
            numbers.append(int(out[record]))
        uses = np.flatnonzero(headers.row | (headers.number == 119))
        found, place = distinct(headers.label[uses])
        for at, one in enumerate(found.tolist()):
            some = uses[place == at]
            places, numbers = opened.get(one, ([-1], [self._in_force.get(one, 0)]))
            out[some] = np.array(numbers)[np.searchsorted(np.array(places), some, side="right") - 1]
        self._in_force |= {label: numbers[-1] for label, (_, numbers) in opened.items()}
        return out

    def tables(self, label: Ints, version: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """The different (label, version) of many records, and for each record the place of its own among them."""
        keys, place = distinct(label * self._base + version)
        return [divmod(key, self._base) for key in keys.tolist()], place

    def name_arrays(self, label: Ints, version: Ints, labelled: Bools) -> list[pa.Array]:
        """Schema name, table name and table version of many records; null where ``labelled`` is false."""
        tables, table = self.tables(label, version)
        texts = [(*self.names(one), f"{one}@{number}" if number else None) for one, number in tables]
        index = pa.array(table, mask=~labelled)
        return [pa.array([one[at] for one in texts], pa.string()).take(index) for at in range(3)]


_CLOSE: Final = 1 << 16


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The different values, rising, and for each of ``values`` its place among them.

    Record numbers, labels and file indices are close together; counting them is several times as fast as sorting.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _CLOSE:
        found, place = np.unique(values, return_inverse=True)
        return found, place
    from_low = values - low
    found = np.flatnonzero(np.bincount(from_low))
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[found] = np.arange(len(found))
    return low + found, places[from_low]
