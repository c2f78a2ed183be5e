"""The plan of a capture: options, how records follow each other, and a first pass over headers, which finds settings,
table versions and the transactions at the borders of splits (docs/formats/gbase8s.md). The size of a plan grows with
the number of files, splits, schema texts and transactions that are open at a split's start, not with the number of
records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import bytes_of
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.files import SHAPES
from cdcwb.formats.gbase8s.decode import ROW_HEADER, SCHEMA_RECORD, RecordHeaders, counts_of, read_headers
from cdcwb.formats.gbase8s.framing import KEY, STRONG, Edges, Reads, header_at, inferred_reads, iter_segments, repeats
from cdcwb.formats.gbase8s.layout import COMMON_HEADER, RECORD_TYPES, SIZE_WORD, ColumnKind, StreamSettings
from cdcwb.formats.gbase8s.schema import (
    NO_COUNTS,
    Counts,
    TableSchema,
    as_label,
    read_side_file,
    schema_text,
    table_schema,
)
from cdcwb.formats.kernels import Bytes, Ints
from cdcwb.formats.records import SPLIT_SIZE, Framing, Plan, Scan, Segments, Stream, cut_gaps
from cdcwb.formats.source import folders_of, is_file, is_remote, read_text
from cdcwb.formats.transactions import COMMIT, KINDS, NO_TIME, Crossing, OpenTransactions, crossings
from cdcwb.words import plural

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
    "split_size": SPLIT_SIZE,
    **opt.SHARED,
}
"""The description of every option of the format."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected. ``labels_given``: the option ``labels`` as given,
    ``labels`` its parsed value (None: the files next to the capture name the tables). ``same``: the first label of a
    table, for its other labels."""

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
    same: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        opt.check_names(given, OPTIONS, "gbase8s")
        values = {name: value for name, value in given.items() if value is not None and value != ""}

        def choice(name: str, *known: str) -> str:
            return opt.as_choice(name, values.get(name, known[0]), known)

        order, width = choice("byte_order", "auto", "little", "big"), choice("prefix_width", "auto", "1", "2")
        return cls(
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            byte_order=None if order == "auto" else order,
            prefix_width=None if width == "auto" else int(width),
            shape=choice("shape", *SHAPES),
            reads=choice("reads", "auto", "line", "none"),
            buffer_size=opt.optional("buffer_size", values, opt.as_whole, 16),
            labels=_labels(values.get("labels", "auto")),
            labels_given=values.get("labels"),
            schemas=_schemas(values.get("schemas", {})),
            split_size=opt.optional("split_size", values, opt.as_whole, 64),
            mode=choice("mode", *opt.MODES),
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
        return {as_label(label): str(text) for label, text in option.items()}
    except ValueError as reason:
        raise OptionError(f"option schemas: {reason}") from None


def _labels(option: Any) -> Names | None:
    word = option.strip().lower() if isinstance(option, str) else ""
    if word == "auto":
        return None
    names: Names = {}
    for label, name in ({} if word == "none" else opt.as_names("labels", option)).items():
        schema, _, table = name.rpartition(".")
        try:
            names[as_label(label)] = (schema or None, table)
        except ValueError as reason:
            raise OptionError(f"option labels: {reason}") from None
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


# --- how records follow each other ------------------------------------------------------------------------------------

_SAMPLE: Final = 1 << 18  # bytes
STREAM, READS, INFERRED = "stream", "reads", "inferred"
"""Modes: consecutive records, or complete read buffers (§1.2) whose starts are known, or inferred."""


def _edges(stream: Stream, size: int | None) -> Edges:
    """The offsets at which reads begin: the starts of files, and in them lines, restarts of dumps, or multiples of the
    buffer's ``size``."""

    def inside(index: int) -> Sequence[int]:
        entry = stream.files[index]
        if size is not None:
            return range(0, max(entry.length, 1), size)
        if entry.shape == "binary":
            return range(1)
        source = stream.source(index)
        starts = source.read_starts
        if (starts is None or len(starts) < 2) and source.shape == "hex":
            starts = source.line_starts
        return range(1) if starts is None or len(starts) == 0 else starts.tolist()

    return Edges(stream.starts, inside)


def segments_of(stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
    """The records and gaps that begin in ``[start, stop)``; of read buffers, all from the beginning."""
    mode, size = framing.mode
    if mode == STREAM:
        yield from iter_segments(stream.read, start, stop, stream.length, boundaries=stream.boundaries)
        return
    if mode == INFERRED:
        found = inferred_reads(stream.read, stream.length, stream.boundaries)
    else:
        reads = Reads(stream.read, _edges(stream, size))
        found = (cut_gaps(segments, stream.boundaries) for segments in reads.segments())
    for segments in found:
        if segments.base >= stop:
            return
        yield segments


def detect(stream: Stream, options: Options) -> Framing:
    """Detects from the beginning of a capture whether it has consecutive records or complete read buffers (§1.2)."""
    if options.buffer_size is not None:
        row = detected_row("buffer_size", str(options.buffer_size), "given as an option", True)
        return Framing((READS, options.buffer_size), True, (row,))
    mode, size, value, evidence = READS, None, options.reads, "given as an option"
    if options.reads == "auto":
        mode, size, value, evidence = _detected(stream)
    elif options.reads == "none":
        mode = STREAM
    setting = "reads" if size is None else "buffer_size"
    row = detected_row(setting, value, evidence, options.reads != "auto")
    return Framing((mode, size), mode != STREAM, (row,))


def _detected(stream: Stream) -> tuple[str, int | None, str, str]:
    """Mode, size of the buffer, value of the setting ``reads`` or ``buffer_size``, evidence."""
    framed = list(iter_segments(stream.read, 0, _SAMPLE, stream.length, boundaries=stream.boundaries))
    sample = stream.read(0, max((segments.base + int(segments.end[-1]) for segments in framed), default=0))
    known = len(sample) - COMMON_HEADER
    edges, starts, at = _edges(stream, None), [], 0
    while at < known:
        starts.append(at)
        at = edges.after(at)
    unit = {"binary": "file", "hex": "line"}.get(stream.files[0].shape, "dump")
    hits = sum(header_at(sample, start) == STRONG for start in starts)
    files = sum(entry.length > 0 and first < known for first, entry in zip(stream.starts, stream.files, strict=False))
    if len(starts) > files and hits >= 0.8 * len(starts):
        return READS, None, "line", f"{hits} of {len(starts)} {unit}s begin with a record"
    is_clean, distances = all(segments.record.all() for segments in framed), repeats(framed)
    if is_clean and not distances:
        return STREAM, None, "none", "records follow each other without unused bytes"
    if len(starts) > 1 and (stale := _stale(_reads(sample, starts))):
        equal = f"{stale} bytes at the ends of {len(starts)} {unit}s equal the bytes of earlier ones at the same offset"
        return READS, None, "line", equal
    size = _buffer_size(sample, framed, distances, [entry.length for entry in stream.files], is_clean)
    if size is not None:
        return READS, size, str(size), f"the bytes that follow records equal those {size} bytes earlier"
    if not is_clean and (stale := _stale(inferred_reads(_slicer(sample), len(sample)))):
        return INFERRED, None, "inferred", f"{stale} bytes that follow records equal those of an earlier read"
    return STREAM, None, "none", "no repeating read buffer was found"


_MOST_SIZES: Final = 16  # buffer sizes that are tried
_LEAST_BUFFER: Final = 64  # bytes
_MOST_GAPS: Final = 1000  # runs of unused bytes that are examined for the size


def _buffer_size(
    sample: Bytes, framed: Sequence[Segments], distances: Sequence[int], lengths: Sequence[int], is_clean: bool
) -> int | None:
    """The size of the read buffers of a capture; None if it does not consist of read buffers. ``sample`` is the
    beginning of the stream, ``framed`` its segments as consecutive records, ``distances`` those of repeated records.
    The unused tail of a read equals the preceding read at the same offset of the buffer, so the distance between the
    equal bytes is the size. It is accepted only if nearly all bytes are accounted for, all of them if few reads have
    stale tails: a session that repeats an earlier one, which ends in a record, looks like that. Files of these
    ``lengths`` must have complete buffers if all of them are records (``is_clean``), or if the size is that of a file,
    whose records the next one may repeat."""
    data = sample.tobytes()
    votes = Counter(distances)
    for segments in framed:
        for gap in np.flatnonzero(~segments.record)[:_MOST_GAPS].tolist():
            first = segments.base + int(segments.start[gap])
            unused = data[first : min(segments.base + int(segments.end[gap]), first + KEY)]
            is_filler = any(unused[period:] == unused[:-period] for period in range(1, KEY // 2))
            before = -1 if is_filler else data.rfind(unused, max(0, first - len(data) // 2), first)
            if before >= 0:
                votes[first - before] += 1
    best: tuple[int, int] | None = None  # bytes unaccounted for, and size
    partial = {size for size in votes if any(length % size for length in lengths)}
    sizes = [size for size, _ in votes.most_common() if not (size in partial and (is_clean or size in lengths[:-1]))]
    for size in sizes[:_MOST_SIZES]:
        usable = len(data) // size * size
        if size >= _LEAST_BUFFER and usable >= 2 * size:
            stale, rest, tails = _accounted(_reads(sample[:usable], range(0, usable, size)))
            if 10 * rest <= stale > 0 and (rest == 0 or tails > 3) and (best is None or rest < best[0]):
                best = rest, size
            if best is not None and best[0] == 0:
                break
    return None if best is None else best[1]


def _slicer(sample: Bytes) -> Any:
    return lambda start, stop: sample[start:stop]


def _reads(sample: Bytes, starts: Sequence[int]) -> Iterator[Segments]:
    return Reads(_slicer(sample), Edges([0, len(sample)], lambda _: starts)).segments()


def _accounted(found: Iterable[Segments]) -> tuple[int, int, int]:
    """The numbers of stale bytes, of bytes that are neither stale nor records, and of stale stretches."""
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for segments in found:
        for gap, reason in segments.reasons.items():
            sizes[reason.is_unused].append(int(segments.end[gap] - segments.start[gap]))
    return sum(sizes[True]), sum(sizes[False]), len(sizes[True])


def _stale(found: Iterable[Segments]) -> int:
    """The number of stale bytes; 0 if more than a tenth as many are unaccounted for."""
    stale, rest, _ = _accounted(found)
    return stale if 10 * rest <= stale else 0


# --- the first pass ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """One schema text of one label. ``file_index``, ``offset``, ``length``: the location of its TABSCHEM in the
    decompressed file; -1: none."""

    label: int
    number: int
    text: str
    counts: Counts
    origin: str
    file_index: int = -1
    offset: int = -1
    length: int = -1

    @property
    def schema(self) -> TableSchema:
        """Its parsed text."""
        return _parsed(self)


@lru_cache(maxsize=1024)
def _parsed(version: Version) -> TableSchema:
    return table_schema(version.label, version.number, version.text, version.counts, version.origin)


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What all splits need: settings, table versions in stream order, and names of tables by label."""

    settings: StreamSettings
    versions: list[Version]
    labels: Names

    def names(self, label: Any) -> tuple[str | None, str]:
        """Schema and table name of a label; without a map the label's number is the table name."""
        return self.labels.get(label, (None, str(label)))

    def full_name(self, label: int) -> str:
        """``schema.table``, or ``table``."""
        return ".".join(filter(None, self.names(label)))


@dataclass(frozen=True, slots=True)
class StreamState:
    """What is known at the start of a split: the number of the table version in force for each label, and what its
    transactions have in other splits."""

    in_force: dict[int, int]
    crossing: Crossing


_EVIDENCE_ROWS: Final = 20_000
"""Row records of a split that are examined for byte order and prefix width."""


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a split. ``votes``: the numbers of values that only one interpretation fits, by
    setting and interpretation: ``order`` and the byte order in which the size words of a row fit into its payload; or a
    label, number of size words and variable column, and the width of the prefix that agrees with the size word.
    ``examples``: one for each of the two settings. ``looked_at``: rows that were examined for these."""

    schemas: list[Version] = field(default_factory=list)
    votes: Counter[Any] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    looked_at: int = 0
    transactions: list[OpenTransactions] = field(default_factory=list)
    highest_commit: int = -1


KIND_OF: Final = np.zeros(256, np.int64)
"""Codes of kinds (:mod:`cdcwb.formats.transactions`) by record number."""
for _number, _type in RECORD_TYPES.items():
    KIND_OF[_number] = KINDS.index(_type.kind) + 1 if _type.kind in KINDS else 0


def scan(found: FirstPass, stream: Stream, segments: Segments, options: Options) -> int:
    """Adds what some segments show; returns the number of records."""
    headers = read_headers(segments.buffer, segments.start[segments.record], segments.end[segments.record])
    of = np.flatnonzero(headers.transactional)
    kinds, sequence = KIND_OF[headers.number], headers.sequence
    times = np.where(headers.timed, headers.seconds * 1_000_000, NO_TIME)
    transactions, tables = headers.transaction[of], headers.label[of]
    for label, first in options.same.items():
        tables[tables == label] = first
    found.transactions.append(OpenTransactions.of(kinds[of], transactions, tables, sequence[of], times[of]))
    commits = sequence[kinds == COMMIT]
    if len(commits):
        found.highest_commit = max(found.highest_commit, int(commits.max()))
    for record in np.flatnonzero(headers.number == SCHEMA_RECORD).tolist():
        text, counts = schema_text(headers.payload(record), options.charset), counts_of(headers, record)
        location = _location(stream, segments, headers, record)
        found.schemas.append(Version(int(headers.label[record]), 0, text, counts, "record", *location))
    if found.looked_at < _EVIDENCE_ROWS:
        found.looked_at += _note_evidence(found, stream, segments, headers)
    return len(headers.start)


def _location(stream: Stream, segments: Segments, headers: RecordHeaders, record: int) -> tuple[int, int, int]:
    return stream.location(segments.base + int(headers.start[record]), segments.base + int(headers.end[record]))


def _note_evidence(found: FirstPass, stream: Stream, segments: Segments, headers: RecordHeaders) -> int:
    """Votes of the row records; returns their number."""
    words = headers.header_size - ROW_HEADER
    rows = np.flatnonzero(headers.row & (words > 0) & (words % SIZE_WORD == 0))[:_EVIDENCE_ROWS]
    for count in np.unique(words[rows] // SIZE_WORD).tolist():
        some = rows[words[rows] == SIZE_WORD * count]
        raw = bytes_of(segments.buffer, headers.start[some] + ROW_HEADER, SIZE_WORD * count)
        payload = headers.payload_size[some]
        little, big = (raw.view(kind).astype(np.int64) for kind in ("<u4", ">u4"))
        fits = [one.sum(axis=1) <= payload for one in (little, big)]
        for order, sizes, mask in (("little", little, fits[0] & ~fits[1]), ("big", big, fits[1] & ~fits[0])):
            found.votes["order", order] += int(mask.sum())
            if mask.any():
                index, offset, _ = _location(stream, segments, headers, int(some[mask][0]))
                first, other = (" ".join(map(str, one[mask][0].tolist())) for one in (little, big))
                example = f"{stream.files[index].path} at offset {offset}: payload of {payload[mask][0]} bytes, "
                example += f"size words little-endian {first}, big-endian {other}"
                found.examples.setdefault("order", example)
                _note_prefixes(found, segments.buffer, headers, some[mask], sizes[mask])
    return len(rows)


def _note_prefixes(found: FirstPass, buffer: Bytes, headers: RecordHeaders, rows: Ints, words: Ints) -> None:
    ends = np.cumsum(words, axis=1) + (headers.end[rows] - words.sum(axis=1))[:, None]
    for column in range(words.shape[1]):
        size = words[:, column]
        at = np.minimum(ends[:, column] - size, len(buffer) - 2)
        first = buffer[at].astype(np.int64)
        narrow = (size >= 1) & (first + 1 == size)
        wide = (size >= 2) & (((first << 8) | buffer[at + 1]) + 2 == size)
        for width, mask in ((1, narrow & ~wide), (2, wide & ~narrow)):
            labels, times = np.unique(headers.label[rows[mask]], return_counts=True)
            for label, number in zip(labels.tolist(), times.tolist(), strict=True):
                key = (label, words.shape[1], column)
                found.votes[key, width] += number
                one = int(np.flatnonzero(mask & (headers.label[rows] == label))[0])
                value = buffer[at[one] : at[one] + 4].tobytes().hex()
                found.examples.setdefault(str(key), f"a value of {size[one]} bytes that begins with {value}")


def finish(plan: Plan, scans: Sequence[Scan], options: Options) -> list[StreamState]:
    """The state at the start of each split, and what all splits need."""
    found: list[FirstPass] = [one.found for one in scans]
    versions, in_force = _versions(found, options)
    settings, rows = _settings(found, versions, options)
    names, named = options.names_of([entry.path for entry in plan.files])
    plan.shared = StreamContext(settings, versions, names)
    plan.detected += [*rows, *named]
    made, still_open = crossings([one.transactions for one in found], plan.shared.names)
    plan.facts |= _restart(max((one.highest_commit for one in found), default=-1), still_open)
    return [StreamState(*both) for both in zip(in_force, made, strict=True)]


def _restart(highest: int, still_open: Mapping[int, str]) -> dict[str, Any]:
    """Open transactions and the restart position of a client (§6.7)."""
    begins = sorted(name.partition("@")[2] for name in still_open.values())
    commit = f"{highest:016X}" if highest >= 0 else None
    restart: str | None = None
    if any(begin.startswith("~") for begin in begins):
        reason = "the begin of an open transaction precedes the capture"
    elif begins:
        restart, reason = begins[0], "lowest begin of a transaction without its end"
    elif commit:
        restart, reason = commit, "no transaction is open: at or after the highest commit"
    else:
        reason = "no transaction was seen"
    facts: dict[str, Any] = {"open_transactions": len(still_open), "highest_commit": commit}
    return facts | {"restart_position": restart, "restart_reason": reason}


def _versions(found: Sequence[FirstPass], options: Options) -> tuple[list[Version], list[dict[int, int]]]:
    """All table versions, and those in force at the start of each split. A text of the side file that the capture
    confirms is the capture's."""
    side = [Version(label, 1, text.rstrip("\0"), NO_COUNTS, "side file") for label, text in options.schemas.items()]
    versions = {(version.label, 1): version for version in sorted(side, key=lambda version: version.label)}
    numbers = {(version.label, version.text, NO_COUNTS): 1 for version in side}
    highest = {version.label: 1 for version in side}
    now, in_force = dict(highest), []
    for one in found:
        in_force.append(dict(now))
        for schema in one.schemas:
            label, content = schema.label, (schema.label, schema.text, schema.counts)
            if content not in numbers:
                confirmed = numbers.pop((label, schema.text, NO_COUNTS), None)
                numbers[content] = confirmed or highest.get(label, 0) + 1
                highest[label] = max(highest.get(label, 0), numbers[content])
                versions[label, numbers[content]] = replace(schema, number=numbers[content])
            now[label] = numbers[content]
    return list(versions.values()), in_force


def _settings(
    found: Sequence[FirstPass], versions: list[Version], options: Options
) -> tuple[StreamSettings, list[dict[str, Any]]]:
    option = "given as an option"
    votes = sum((one.votes for one in found), Counter[Any]())
    examples = {name: text for one in reversed(found) for name, text in one.examples.items()}
    little, big = votes["order", "little"], votes["order", "big"]
    order, order_shown = options.byte_order or ("big" if big > little else "little"), option
    if options.byte_order is None:
        order_shown = "no row record has size words that show it; little-endian is assumed"
        if little + big:
            order_shown = f"size words fit into the payload as little-endian only in {little} rows, as big-endian only "
            order_shown += f"in {big}; {examples['order']}"
    varchars = [key for key in sorted(_varchars(versions)) if str(key) in examples]
    narrow, wide = (sum(votes[key, width] for key in varchars) for width in (1, 2))
    width, width_shown = options.prefix_width or (1 if narrow > wide else 2), option
    if options.prefix_width is None:
        width_shown = "no VARCHAR value shows it; two bytes are assumed"
        if narrow + wide:
            example = examples[str(varchars[0])]
            width_shown = f"size word = length + 1 in {narrow} VARCHAR values, length + 2 in {wide}; {example}"
    chosen = "charset" in options.given
    return StreamSettings(byte_order=order, prefix_width=width, charset=options.charset), [
        detected_row("byte_order", order, order_shown, options.byte_order is not None),
        detected_row("prefix_width", str(width), width_shown, options.prefix_width is not None),
        detected_row("charset", options.charset, option if chosen else "the stream does not give it; assumed", chosen),
    ]


def _varchars(versions: list[Version]) -> set[tuple[int, int, int]]:
    """Label, number of variable columns and index among them of the columns that are VARCHAR in some version."""
    labels: set[tuple[int, int, int]] = set()
    for version in versions:
        variable = [column for column in version.schema.columns if not column.fixed]
        varchars = (at for at, column in enumerate(variable) if column.kind == ColumnKind.VARCHAR)
        labels.update((version.label, len(variable), at) for at in varchars)
    return labels
