"""From files to a plan: what the capture is, where it can be split, and what the first pass over all splits tells.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cdcwb.errors import MalformedRecordError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.base import Run
from cdcwb.formats.files import open_source
from cdcwb.formats.findings import detected_row
from cdcwb.formats.gbase8s.framing import COMMON_HEADER
from cdcwb.formats.gbase8s.labels import Names, find_labels, labels_files, parse_labels
from cdcwb.formats.gbase8s.layout import Settings
from cdcwb.formats.gbase8s.plan import FileEntry, Plan, SplitEntry, Stream, Version
from cdcwb.formats.gbase8s.read_detection import detect_reads
from cdcwb.formats.gbase8s.scan import PrefixEvidence, Scan, scan_split
from cdcwb.formats.gbase8s.schema import ColumnKind, SchemaTextError, parse_columns, read_side_file, schema_text
from cdcwb.formats.gbase8s.transactions import fold

__all__ = ["HEAD", "OPTIONS", "Options", "capture_files", "detect", "make_plan", "probe", "run_here"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

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

HEAD: Final = 4 << 20
"""Wire bytes that are looked at where a whole capture would be too much."""

_SPLIT_SIZES: Final = (8 << 20, 32 << 20)
_READS: Final = ("auto", "line", "none")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected."""

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
    def parse(cls, given: dict[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
        opt.check_names(given, OPTIONS, "gbase8s")
        values = {name: value for name, value in given.items() if value is not None and value != ""}
        order = opt.as_choice("byte_order", values.get("byte_order", "auto"), ("auto", "little", "big"))
        width = opt.as_choice("prefix_width", values.get("prefix_width", "auto"), ("auto", "1", "2"))
        return cls(
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            byte_order=None if order == "auto" else order,
            prefix_width=None if width == "auto" else int(width),
            shape=opt.as_choice("shape", values.get("shape", "auto"), ("auto", "binary", "hex", "xxd", "hexdump")),
            reads=opt.as_choice("reads", values.get("reads", "auto"), _READS),
            buffer_size=opt.as_whole("buffer_size", values["buffer_size"], 16) if "buffer_size" in values else None,
            labels=parse_labels(values.get("labels")),
            labels_given=values.get("labels"),
            schemas=_schemas(values.get("schemas")),
            split_size=opt.as_whole("split_size", values["split_size"], 64) if "split_size" in values else None,
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            given=frozenset(values),
        )

    def names_of(self, paths: Sequence[str]) -> tuple[Names, list[dict[str, Any]]]:
        """The names of the tables of these files, and what is said of them under ``detected``."""
        return find_labels(self.labels_given, self.labels, paths)


def capture_files(paths: Sequence[str]) -> list[str]:
    """The files without those that name the tables of others."""
    side = set(labels_files(paths))
    return [path for path in paths if path not in side] or list(paths)


def _schemas(given: Any) -> dict[int, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return read_side_file(str(given))
    try:
        return {int(label): str(text) for label, text in given.items()}
    except ValueError:
        wrong = ", ".join(repr(label) for label in given)
        raise OptionError(f"option schemas: expected whole numbers as labels, found {wrong}") from None


def run_here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Runs the tasks one after the other in this process."""
    return [function(task) for task in tasks]


def probe(task: tuple[str, str]) -> FileEntry:
    """What one file is: (path, shape or ``auto``) -> its entry."""
    path, shape = task
    source = open_source(path, shape)
    try:
        return FileEntry(path, source.shape, source.compression, source.size, source.length, source.problem)
    finally:
        source.close()


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks.

    Raises CaptureError for files that cannot be read, and in mode FAILFAST for the first bytes that are no record.
    """
    paths = capture_files(paths)
    names, named = options.names_of(paths)  # before any work: a file of names may be broken
    files = run(probe, [(path, options.shape) for path in paths])
    with Stream(files) as stream:
        mode, size, reading = detect_reads(stream, options.reads, options.buffer_size)
    splits = _cut(files, mode, options.split_size)
    scans = _scan_all(files, mode, size, splits, run)
    detected = [_shape_row(files, options), *reading]
    versions, in_force = _versions(scans, options)
    settings, rows = _settings(scans, versions, options)
    plan = Plan(files, mode, size, settings, versions, [], names, [*detected, *rows, *named])
    plan.splits = _splits(splits, scans, in_force)
    plan.facts = _facts(files, scans, plan.splits)
    if options.mode == "FAILFAST":
        _fail_fast(files, scans)
    return plan


def detect(files: list[FileEntry], options: Options, near: int) -> Plan:
    """A plan without splits for looking at what stands around the wire byte ``near``: settings and schemas as the
    stream's first :data:`HEAD` bytes and the ones before ``near`` tell."""
    with Stream(files) as stream:
        mode, size, reading = detect_reads(stream, options.reads, options.buffer_size)
        scans = [scan_split(stream, mode, size, 0, min(HEAD, stream.length), True)]
        if mode == "stream" and near >= HEAD:
            scans.append(scan_split(stream, mode, size, max(HEAD, near - HEAD), near + 1, False))
    versions, _ = _versions(scans, options)
    settings, rows = _settings(scans, versions, options)
    names, named = options.names_of([entry.path for entry in files])
    return Plan(files, mode, size, settings, versions, [], names, [*reading, *rows, *named])


def _shape_row(files: list[FileEntry], options: Options) -> dict[str, Any]:
    shapes = sorted({entry.shape for entry in files})
    packed = sorted({entry.compression for entry in files if entry.compression})
    evidence = f"content of {len(files)} file{'s' if len(files) != 1 else ''}"
    if packed:
        evidence += f"; packed with {' and '.join(packed)}, by their first bytes"
    return detected_row("shape", ", ".join(shapes), evidence, options.shape != "auto")


# --- the first pass ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ScanTask:
    files: list[FileEntry]
    mode: str
    buffer_size: int | None
    start: int
    stop: int
    exact: bool


def _scan(task: _ScanTask) -> Scan:
    with Stream(task.files) as stream:
        return scan_split(stream, task.mode, task.buffer_size, task.start, task.stop, task.exact)


def _cut(files: list[FileEntry], mode: str, split_size: int | None) -> list[tuple[int, int, list[int]]]:
    """Runs of the stream, with the text files whose notes belong to each. Only plain binary files are cut."""
    texts = [index for index, entry in enumerate(files) if entry.shape != "binary"]
    total = sum(entry.length for entry in files)
    if mode != "stream":
        return [(0, total, texts)]
    cuts: list[tuple[int, int, list[int]]] = []
    first = 0
    for index, entry in enumerate(files):
        size = max(entry.length, 1)
        if entry.shape == "binary" and entry.compression is None:
            least, most = _SPLIT_SIZES
            size = split_size or min(most, max(least, entry.length // 4))
        closes = [index] if index in texts else []
        for start in range(0, entry.length, size):
            cuts.append((first + start, first + min(start + size, entry.length), closes))
        if entry.length == 0 and closes:
            cuts.append((first, first, closes))
        first += entry.length
    return cuts


def _scan_all(
    files: list[FileEntry], mode: str, size: int | None, splits: list[tuple[int, int, list[int]]], run: Run
) -> list[Scan]:
    """Scans every split at once, and again those that did not begin where the chain of the split before ended."""
    tasks = [_ScanTask(files, mode, size, start, stop, at == 0) for at, (start, stop, _) in enumerate(splits)]
    scans: list[Scan] = run(_scan, tasks)
    while True:
        again: list[int] = []
        expected = 0
        for at, (start, stop, _) in enumerate(splits):
            begin = max(start, expected)
            if begin >= stop:
                scans[at] = Scan(begin, begin)
            elif scans[at].start != begin:
                again.append(at)
                tasks[at] = _ScanTask(files, mode, size, begin, stop, True)
            expected = max(begin, scans[at].end)
        if not again:
            return scans
        for at, scan in zip(again, run(_scan, [tasks[at] for at in again]), strict=True):
            scans[at] = scan


def _splits(
    splits: list[tuple[int, int, list[int]]], scans: list[Scan], in_force: list[dict[int, int]]
) -> list[SplitEntry]:
    entries: list[SplitEntry] = []
    open_before: dict[int, str] = {}
    for (_, stop, closes), scan, versions in zip(splits, scans, in_force, strict=True):
        # what seems damaged may look whole once more of the stream is there; whole records stay what they are
        reach = scan.end + COMMON_HEADER if scan.first_malformed is None else -1
        entries.append(SplitEntry(scan.start, stop, dict(open_before), versions, closes, reach))
        open_before = fold(open_before, scan.transactions)
    entries.append(SplitEntry(-1, -1, open_before))  # what is open at the end; taken off by _facts
    return entries


def _facts(files: list[FileEntry], scans: list[Scan], splits: list[SplitEntry]) -> dict[str, Any]:
    """Bytes, records and where a client would restart (docs/formats/gbase8s.md §6.7)."""
    still_open = splits.pop().open_before
    begins = sorted(name.partition("@")[2] for name in still_open.values())
    highest = max((scan.highest_commit for scan in scans), default=-1)
    commit = f"{highest:016X}" if highest >= 0 else None
    if any(begin.startswith("~") for begin in begins):
        restart, reason = None, "the begin of an open transaction precedes the capture"
    elif begins:
        restart, reason = begins[0], "lowest begin of a transaction without its end"
    elif commit:
        restart, reason = commit, "no transaction is open: at or after the highest commit"
    else:
        restart, reason = None, "no transaction was seen"
    return {
        "bytes": sum(entry.size for entry in files),
        "records": sum(scan.records for scan in scans),
        "open_transactions": len(still_open),
        "highest_commit": commit,
        "restart_position": restart,
        "restart_reason": reason,
    }


def _fail_fast(files: list[FileEntry], scans: list[Scan]) -> None:
    found = [scan.first_malformed for scan in scans if scan.first_malformed is not None]
    if found:
        _, index, offset, reason = min(found)
        raise MalformedRecordError(reason, path=files[index].path, offset=offset)


# --- versions and settings --------------------------------------------------------------------------------------------


def _versions(scans: list[Scan], options: Options) -> tuple[list[Version], list[dict[int, int]]]:
    """All table versions, and which are in force at the start of each split."""
    versions = [
        Version(label, 1, text.rstrip("\0"), None, None, None, "side file")
        for label, text in sorted(options.schemas.items())
    ]
    now = {version.label: 1 for version in versions}
    numbers = {version.label: 1 for version in versions}
    in_force: list[dict[int, int]] = []
    for scan in scans:
        in_force.append(dict(now))
        for record in scan.schemas:
            text = schema_text(record.text, options.charset)
            counts = (record.fixed_bytes, record.fixed_columns, record.variable_columns)
            place = (record.file_index, record.offset, record.length)
            for at, known in enumerate(versions):
                if (known.label, known.text) != (record.label, text):
                    continue
                if known.file_index < 0:  # the side file's, which the capture itself confirms here
                    versions[at] = Version(record.label, known.number, text, *counts, "record", *place)
                elif (known.fixed_bytes, known.fixed_columns, known.variable_columns) != counts:
                    continue
                now[record.label] = known.number
                break
            else:
                number = numbers.get(record.label, 0) + 1
                numbers[record.label] = now[record.label] = number
                versions.append(Version(record.label, number, text, *counts, "record", *place))
    return versions, in_force


def _settings(scans: list[Scan], versions: list[Version], options: Options) -> tuple[Settings, list[dict[str, Any]]]:
    little, big = sum(scan.order.little for scan in scans), sum(scan.order.big for scan in scans)
    example = next((scan.order.example for scan in scans if scan.order.example), "")
    order = options.byte_order or ("big" if big > little else "little")
    if options.byte_order:
        evidence = "given as an option"
    elif little + big == 0:
        evidence = "no row record has size words that show it; little-endian is assumed"
    else:
        evidence = (
            f"size words fit into the payload as little-endian only in {little} rows, as big-endian only in {big}; "
            f"{example}"
        )
    rows = [detected_row("byte_order", order, evidence, options.byte_order is not None)]
    one, two, example = _prefix_votes(scans, versions)
    width = options.prefix_width or (1 if one > two else 2)
    if options.prefix_width:
        evidence = "given as an option"
    elif one + two == 0:
        evidence = "no VARCHAR value shows it; two bytes are assumed"
    else:
        evidence = f"size word = length + 1 in {one} VARCHAR values, length + 2 in {two}; {example}"
    rows.append(detected_row("prefix_width", str(width), evidence, options.prefix_width is not None))
    given = "charset" in options.given
    rows.append(
        detected_row(
            "charset",
            options.charset,
            "given as an option" if given else "the stream does not give it; assumed",
            given,
        )
    )
    return Settings(byte_order=order, prefix_width=width, charset=options.charset), rows


def _prefix_votes(scans: list[Scan], versions: list[Version]) -> tuple[int, int, str]:
    """Values with a one-byte and with a two-byte prefix, counted over the columns that some version calls VARCHAR."""
    varchars: set[tuple[int, int, int]] = set()
    for version in versions:
        try:
            columns = parse_columns(version.text)
        except SchemaTextError:  # has no vote; its version reports the problem
            continue
        variable = [column for column in columns if not column.fixed]
        varchars.update(
            (version.label, len(variable), at)
            for at, column in enumerate(variable)
            if column.kind == ColumnKind.VARCHAR
        )
    votes: list[PrefixEvidence] = [
        found for scan in scans for key, found in sorted(scan.prefixes.items()) if key in varchars
    ]
    example = next((found.example for found in votes if found.example), "")
    return sum(found.one for found in votes), sum(found.two for found in votes), example
