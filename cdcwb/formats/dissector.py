"""The interface of formats, and the formats by name. A format is found by its entry point in the group
``cdcwb.formats``: its name, and the class that reads it (docs/dissectors.md)."""

from __future__ import annotations

import base64
import importlib.metadata
import pickle
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import pyarrow as pa

from cdcwb.errors import CaptureError, UnknownFormatError
from cdcwb.formats.options import inflate_limit_of, nearest
from cdcwb.formats.source import allow_inflation
from cdcwb.model import EVENTS, PROBLEMS, TABLE_VERSIONS, Kind, Problem

Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Maps a function over tasks: in this process, or in Spark. Function, tasks and results pickle."""


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Runs the tasks sequentially in this process: the simplest :data:`Run`."""
    return [function(task) for task in tasks]


class Scanned(Protocol):
    """What a first pass over a part of a stream or a file found: the records in ``[begin, end)``."""

    begin: int
    end: int

    def nothing(self, begin: int) -> Self:
        """The same for a part in which no record begins: that at ``begin`` is the next one's."""


F = TypeVar("F", bound=Scanned)


def scan_all(parts: list[Any], scan: Callable[[Any], F], run: Run) -> list[F]:
    """Scans all parts in parallel, and again those whose first record was looked for and is not at the end of the
    preceding part; it sets their ``begin``. The records of all parts are then those of one pass. A part is a dataclass
    with ``start``, ``stop`` and ``begin``, the start of its first record, None if unknown; a file begins at 0."""
    scans: list[F] = run(scan, parts)
    while True:
        again: list[int] = []
        expected = 0
        for at, one in enumerate(parts):
            begin = max(one.start, expected) if one.start else 0
            if one.start and begin >= one.stop:
                scans[at] = scans[at].nothing(begin)
            elif scans[at].begin != begin:
                again.append(at)
                parts[at] = replace(one, begin=begin)
            expected = max(begin, scans[at].end)
        if not again:
            return scans
        for at, found in zip(again, run(scan, [parts[at] for at in again]), strict=True):
            scans[at] = found


ROW: Final = "_row"
"""The column with the number of the row, from 0, in a capture that is a table of rows."""

RunRows = Callable[[Callable[[Iterator[pa.RecordBatch]], bytes]], list[bytes]]
"""Maps a function over the partitions of a table of rows, each given as its batches. The function pickles."""


@dataclass(frozen=True, slots=True)
class Field:
    """One node of a dissected record: a range of bytes, with value and meaning.

    ``offset`` and ``length`` count bytes from the start of the record; ``raw`` is exactly those bytes. ``value`` is the
    decoded value as text (None: SQL NULL, or a group without a value of its own). ``meaning`` is a sentence for users.
    ``problem`` is a code of :class:`cdcwb.model.Problem`, or None. ``quiet``: it has no information about the record,
    and exists to account for all bytes (white space, labels of printed text).
    """

    name: str
    offset: int
    length: int
    raw: bytes
    value: str | None = None
    meaning: str = ""
    children: tuple[Field, ...] = field(default=())
    problem: str | None = None
    quiet: bool = False

    def walk(self) -> Iterator[Field]:
        """This node and all nodes below it, in byte order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def at(self, offset: int) -> Field | None:
        """The innermost node with the byte at ``offset``, or None."""
        if not self.offset <= offset < self.offset + self.length:
            return None
        for child in self.children:
            found = child.at(offset)
            if found is not None:
                return found
        return self


class TextPart(NamedTuple):
    """Characters of a text; each part follows the preceding one. The bits of a mask have none."""

    name: str
    text: str
    value: str | None
    meaning: str = ""
    quiet: bool = False
    problem: str | None = None


def with_parts(field: Field, parts: Sequence[TextPart]) -> Field:
    """A field with the parts of its text: at the bytes that spell the text, otherwise after all bytes, without any."""
    text = "".join(part.text for part in parts).encode()
    begin = field.raw.rfind(text) if text else -1
    sized = [(part, len(part.text.encode()) if begin >= 0 else 0) for part in parts]
    if begin < 0 and parts and field.raw:
        sized.insert(0, (TextPart("text", "", field.value, "as written"), len(field.raw)))
    elif parts and begin > 0:
        sized.insert(0, (TextPart("opening", "", None, "precedes the text", quiet=True), begin))
    rest = field.length - sum(size for _, size in sized)
    if parts and rest > 0:
        sized.append((TextPart("closing", "", None, "follows the text", quiet=True), rest))
    children: list[Field] = []
    at = 0
    for part, size in sized:
        raw = field.raw[at : at + size]
        leaf = Field(part.name, field.offset + at, size, raw, part.value, part.meaning, (), part.problem, part.quiet)
        children.append(leaf)
        at += size
    return replace(field, children=tuple(children))


@dataclass(frozen=True, slots=True)
class Recognition:
    """The confidence of a format that a capture is of this format, from 0 to 1, and the evidence. ``shape`` is the
    container of the records, as the format names it; None: not recognised. ``refusal``: why the files cannot be read
    although they are of the format.
    """

    confidence: float
    evidence: list[str]
    shape: str | None = None
    refusal: CaptureError | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """One dissected record. ``offset`` and ``length`` are its location in the decompressed ``file``; ``field`` is the
    tree of its bytes, ``event`` its columns of ``events``, ``note`` a further remark. ``events``: all events at the
    location of ``event``, in their order, if a message has several rows."""

    file: str
    offset: int
    length: int
    record: bytes
    field: Field
    event: dict[str, Any]
    note: str
    events: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to read. ``images``: decode row images and keep the bytes. ``kinds``, ``tables`` (``schema.table``
    or ``table``) and ``transactions``: only events of these; None: all. ``timed``: only events with a time.
    ``drop_malformed``: without malformed records. ``columns``: the columns of ``events`` that will be used (None: all);
    a reader may leave the others null to save work."""

    images: bool = True
    kinds: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    transactions: frozenset[str] | None = None
    timed: bool = False
    drop_malformed: bool = False
    columns: frozenset[str] | None = None

    def needs(self, *columns: str) -> bool:
        """Whether one of these columns will be used."""
        return self.columns is None or not self.columns.isdisjoint(columns)

    @property
    def of_changes(self) -> frozenset[str]:
        """The columns of events that changes with these columns are made of: not the bytes, which are most of a record,
        and header fields only if they will be used."""
        return frozenset(OF_CHANGES) - (set() if self.needs("headers") else {"headers"})

    @property
    def raw(self) -> bool:
        """Whether the bytes of the records are requested."""
        return self.images and self.needs("raw")


Read = Callable[[Wanted], Iterator[pa.RecordBatch]]
"""Reads the events of a split."""

Named = Iterator[tuple[str, pa.RecordBatch]]
"""Batches with their names."""

CHANGES: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
"""The kinds of events that changes are made of."""

OF_CHANGES: Final = tuple(name for name in EVENTS.names if name != "raw")
"""The columns of events for changes: all except the bytes, which are most of a record."""

EVERYTHING: Final = Wanted()
"""All events, with their images."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One table as typed columns: ``columns`` (None: all), ``images`` (``before``, ``after`` or ``both``), and whether
    the columns are those of every version (``in_force``) or of the newest only (``latest``)."""

    name: str
    columns: tuple[str, ...] | None = None
    images: str = "both"
    schema: str = "in_force"


class Pairing(StrEnum):
    """How the halves of an update are paired: within a transaction by their order, or by table, position and folder
    (change tables); how consecutive fields of one object are joined (event log); or not at all."""

    TRANSACTION = "transaction"
    POSITION = "position"
    OBJECT = "object"
    NONE = "none"


class Plan(Protocol):
    """The plan of a capture, made once and sent to the workers as text. ``splits`` are the units of reading, one per
    task. A split that is a list combines small pieces that could also be read separately.
    """

    splits: list[Any]
    detected: list[dict[str, Any]]
    facts: dict[str, Any]

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""


class PlanText:
    """A plan that is sent to the workers as text: both ends run the same version of cdcwb."""

    __slots__ = ()

    def to_text(self) -> str:
        """The plan as one line of ASCII text, for an option."""
        return base64.b64encode(zlib.compress(pickle.dumps(self))).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The plan from :meth:`to_text`."""
        plan: Self = pickle.loads(zlib.decompress(base64.b64decode(text)))
        return plan


class Format:
    """The base of a format's class, which is independent of Spark. ``options`` are its reader options with
    descriptions. ``row_times``: whether changes have a time of their own; otherwise they have that of their
    transaction's end. ``pairing``: how halves of updates are paired. ``commits``: whether the stream has begins,
    commits and rollbacks; otherwise only committed work is delivered. ``by_table``: whether changes of some tables can
    be read without those of others (``Wanted.tables``). ``compressed_updates``: the record types of
    updates whose after image has only the columns that were written and those of the key. ``names_keys``: whether the
    source can give a table's key columns; otherwise only the option ``keys`` does. ``side_file``: text in the path of
    a file that may describe others; None: no such file. ``alias_of``: another format whose captures may be opened under
    this format's name too; None: none.

    ``plan_type`` and ``options_type`` are its classes of a plan and of checked options, ``make_plan`` and
    ``inspect_record`` functions that take such options. A plan has ``versions`` and, as ``notes``, rows of problems.
    """

    name: str
    options: Mapping[str, str]
    row_times = True
    pairing = Pairing.NONE
    commits = False
    by_table = False
    compressed_updates: frozenset[str] = frozenset()
    names_keys = True
    side_file: re.Pattern[str] | None = None
    alias_of: str | None = None
    plan_type: ClassVar[Any]
    options_type: ClassVar[Any]
    make_plan: Callable[..., Any]
    inspect_record: Callable[..., Inspection]

    def parse_options(self, options: Mapping[str, Any]) -> Any:
        """The checked options. Raises OptionError for an unknown option and for an unusable value."""
        return self.options_type.parse(options)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raises OptionError as :meth:`parse_options` does, before any file is read."""
        self.parse_options(options)

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """The confidence that these files are of the format, from their beginnings."""
        raise NotImplementedError

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The files among these or next to them that have no records but describe some of these files. By default
        none: they are given by an option."""
        return []

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Any:
        """The plan of a capture; ``run`` maps tasks over its bytes. Raises CaptureError."""
        allow_inflation(paths, inflate_limit_of(options))
        return self.make_plan(paths, self.parse_options(options), run)

    def plan_from_text(self, text: str) -> Any:
        """The plan that ``to_text`` wrote."""
        return self.plan_type.from_text(text)

    def files(self, plan: Any) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size, shape, compression, problem."""
        raise NotImplementedError

    def portion(self, plan: Any, splits: range) -> list[Any]:
        """The splits of a plan with None for those that a task does not need to read these."""
        found = [None] * len(plan.splits)
        found[splits.start : splits.stop] = plan.splits[splits.start : splits.stop]
        return found

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split, in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
        raise NotImplementedError

    def begins(self, plan: Any) -> Iterator[int]:
        """The index of the file in which each split begins, or, for a split that is a list, each of its items."""
        return (part.file for split in plan.splits for part in (split if isinstance(split, Sequence) else [split]))

    def table_schema(self, plan: Any, request: TableRequest) -> pa.Schema:
        """The columns of :meth:`read_table`. Raises CaptureError for a table or column that is not there."""
        raise NotImplementedError

    def read_table(self, plan: Any, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns."""
        raise NotImplementedError

    def table_versions(self, plan: Any) -> pa.Table:
        """All of :data:`cdcwb.model.TABLE_VERSIONS` except ``first_position``, which comes from the rows; in order of
        appearance."""
        return pa.Table.from_pylist([version.to_row() for version in plan.versions], schema=TABLE_VERSIONS)

    def problems(self, plan: Any) -> list[dict[str, Any]]:
        """Rows of :data:`cdcwb.model.PROBLEMS` that concern the capture, a file or a table version, not an event."""
        notes: list[dict[str, Any]] = plan.notes
        return notes

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """The record at ``offset`` of the decompressed file. Raises CaptureError if there is none."""
        return self.inspect_record(path, offset, self.parse_options(options))


class RowFormat(Format):
    """A format whose captures may also be tables of rows: any Spark DataFrame.

    The batches of such a capture have its columns and ``_row`` (int64): the number of the row, from 0. ``of_tables``:
    the columns (in lower case) that :meth:`read_table_rows` uses, if not all of them.
    """

    of_tables: frozenset[str] | None = None

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """The confidence that rows with these columns are of the format. By default it looks for Kafka's columns;
        several formats have the same, so the format must be given."""
        if "value" not in {name.lower() for name in schema.names}:
            return Recognition(0.0, ["no column `value`"])
        return Recognition(0.5, ["Kafka's columns; give the format, because these columns fit several"])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Any:
        """The plan of a capture named ``name`` with these columns. Raises CaptureError."""
        raise NotImplementedError

    def read_rows(self, plan: Any, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows, as batches of :data:`cdcwb.model.EVENTS`."""
        raise NotImplementedError

    def read_table_rows(
        self, plan: Any, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as typed columns."""
        raise NotImplementedError


@runtime_checkable
class Assembling(Protocol):
    """How changes, transactions and problems are assembled from the events of each split; the plan has what splits need
    to know of others. ``read`` reads the events of a split; ``split`` is None for the rows of a DataFrame."""

    def in_splits(self, plan: Any) -> bool:
        """Whether splits can be read separately; otherwise all events are read together."""

    def read_changes(self, plan: Any, split: Any, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """The changes that begin in a split, as batches of :data:`cdcwb.model.CHANGES`. ``wanted`` names tables only if
        the format reads :attr:`Format.by_table`."""

    def read_transactions(self, plan: Any, split: Any, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """The parts of transactions in a split, as batches of :data:`cdcwb.formats.summaries.PARTS`."""

    def read_checked(self, plan: Any, split: Any, wanted: Wanted, read: Read) -> Named:
        """What one pass over a split shows: ``checked``, the events with problems; ``changes`` that have problems which
        none of their events has; ``transactions``, the parts of those that may be incomplete; and rows that are
        compared with those of other splits (:func:`cdcwb.formats.parts.key_of`)."""


# --- rows -------------------------------------------------------------------------------------------------------------


def problem_row(code: Problem, sentence: str, **place: Any) -> dict[str, Any]:
    """A row of :data:`cdcwb.model.PROBLEMS`; ``place`` are columns of it, the others are null."""
    row: dict[str, Any] = dict.fromkeys(PROBLEMS.names)
    row.update(severity=str(code.severity), code=str(code), sentence=sentence, **place)
    return row


def detected_row(setting: str, value: str, evidence: str, overridden: bool, scope: str = "capture") -> dict[str, Any]:
    """A row of :data:`cdcwb.model.DETECTED`."""
    return {"scope": scope, "setting": setting, "value": value, "evidence": evidence, "overridden": overridden}


def file_row(index: int, entry: Any, shape: str, compression: str | None, **more: Any) -> dict[str, Any]:
    """A row of :meth:`Format.files`; ``entry`` has ``path``, ``size`` and ``problem``."""
    of_file = {"file": entry.path, "file_index": index, "size": entry.size, "shape": shape}
    return {**of_file, "compression": compression, "problem": entry.problem, **more}


# --- formats by name --------------------------------------------------------------------------------------------------

_GROUP: Final = "cdcwb.formats"
_EARLY: Final = "cdcwb.formats.early"
_WORDS: Final = "cdcwb.formats.words"
"""The group of formats that know their captures by a few bytes: they are asked first what a capture is."""


class _Formats(Mapping[str, importlib.metadata.EntryPoint]):
    """The entry points of the installed formats, by name: those of the group for early ones first, then those of cdcwb,
    each in the order of their names."""

    @staticmethod
    @cache
    def _found() -> tuple[dict[str, importlib.metadata.EntryPoint], frozenset[str], dict[str, str]]:
        # importlib.metadata.entry_points looks at one distribution of a name only: an egg-info that an old installation
        # left in a checkout would hide the installed one
        found: dict[str, importlib.metadata.EntryPoint] = {}
        early, words = set[str](), dict[str, str]()
        for distribution in importlib.metadata.distributions():
            entries = distribution.entry_points
            early |= entries.select(group=_EARLY).names
            words |= {entry.name: entry.value for entry in entries.select(group=_WORDS)}
            for entry in entries.select(group=_GROUP):
                found.setdefault(entry.name, entry)
        if not found:
            raise CaptureError("no format is installed: install cdcwb again, in a checkout with pip install -e .")
        order = sorted(found, key=lambda name: (name not in early, not found[name].value.startswith("cdcwb."), name))
        names = {entry.value: name for name, entry in found.items()}
        words = {word: names[value] for word, value in words.items() if value in names}
        return {name: found[name] for name in order}, frozenset(early), words

    @property
    def early(self) -> frozenset[str]:
        """The formats that know their captures by a few bytes."""
        return self._found()[1]

    @property
    def words(self) -> Mapping[str, str]:
        """Words that captures of a format mostly begin with, and the format of each."""
        return self._found()[2]

    def __getitem__(self, name: str) -> importlib.metadata.EntryPoint:
        return self._found()[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found()[0])

    def __len__(self) -> int:
        return len(self._found()[0])


FORMATS: Final = _Formats()
"""The names of all installed formats, with their entry points."""


def get_format(name: str) -> Format:
    """The format of that name. Raises UnknownFormatError with the known names and the nearest, and for one that cannot
    be imported."""
    if name not in FORMATS:
        known = f"There are: auto, {', '.join(FORMATS)}."
        raise UnknownFormatError(f"unknown format {name!r}.{nearest(name, FORMATS)} {known}")
    try:
        made: Format = FORMATS[name].load()()
    except (ImportError, AttributeError) as reason:
        found = FORMATS[name]
        raise UnknownFormatError(f"the format {name} cannot be loaded from {found.value}: {reason}") from reason
    return made


def formats_named(name: str) -> list[str]:
    """The formats whose captures are opened under a name: the format of that name, and the one that it is an alias of.
    Raises UnknownFormatError."""
    alias_of = get_format(name).alias_of
    return [name] if alias_of is None else [name, alias_of]


def described_by(paths: Sequence[str]) -> list[str]:
    """The files among these and next to them that describe these files in any format."""
    return [path for name in FORMATS for path in get_format(name).side_files(paths)]


def side_files(paths: Sequence[str]) -> dict[str, str]:
    """The files that describe others and have no records, with their format."""
    found: dict[str, str] = {}
    for name in FORMATS if len(paths) > 1 else ():
        form = get_format(name)
        if form.side_file is not None and any(map(form.side_file.search, paths)):
            among = set(form.side_files(paths))
            found |= {path: name for path in paths if path in among}
    return found
