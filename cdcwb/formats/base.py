"""What every format offers to the rest of cdcwb: the node of a field tree, and the protocol of a format module."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar, overload, runtime_checkable

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.model import EVENTS, TABLE_VERSIONS, Kind

__all__ = [
    "EVERYTHING",
    "OF_CHANGES",
    "ROW",
    "Assembling",
    "BaseFormat",
    "Field",
    "Format",
    "Halved",
    "Halving",
    "Inspection",
    "Joining",
    "Pairing",
    "Piece",
    "Plan",
    "PlanText",
    "Portion",
    "Portioning",
    "Recognition",
    "RowFormat",
    "Run",
    "RunRows",
    "TableRequest",
    "Wanted",
    "run_here",
]

Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Maps a function over tasks: in this process, or in Spark. Function, tasks and results pickle."""


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Runs the tasks one after the other in this process: the simplest :data:`Run`."""
    return [function(task) for task in tasks]


ROW: Final = "_row"
"""The column with the number of the row, from 0, in a table of rows that is a capture."""

RunRows = Callable[[Callable[[Iterator[pa.RecordBatch]], bytes]], list[bytes]]
"""Maps a function over the partitions of a table of rows, each given as its batches. The function pickles."""


@dataclass(frozen=True, slots=True)
class Field:
    """One node of a dissected record: a run of bytes, what they hold and what that means.

    ``offset`` and ``length`` count bytes from the start of the record; ``raw`` is exactly those bytes. ``value`` is the
    decoded value as text (None: SQL NULL, or a group that has no value of its own). ``meaning`` is a sentence for a
    person. ``problem`` is a code of :class:`cdcwb.model.Problem`, or None where all is well. ``quiet``: it says
    nothing of the record, and is there so that no byte is missing (white space, labels of printed text).
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
        """The innermost node that holds the byte at ``offset``, or None."""
        if not self.offset <= offset < self.offset + self.length:
            return None
        for child in self.children:
            found = child.at(offset)
            if found is not None:
                return found
        return self


@dataclass(frozen=True, slots=True)
class Recognition:
    """How sure a format is that a capture is its own: ``confidence`` from 0 (it is not) to 1, and why.

    ``shape`` is what holds the records, in the format's words; None: it was not recognised. ``refusal``: why they
    cannot be read although it is its own.
    """

    confidence: float
    evidence: list[str]
    shape: str | None = None
    refusal: CaptureError | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """One record, taken apart. ``offset`` and ``length`` are its place in the decompressed ``file``; ``field`` is the
    tree of its bytes, ``event`` what ``events`` would say of it, ``note`` what a reader should know besides."""

    file: str
    offset: int
    length: int
    record: bytes
    field: Field
    event: dict[str, Any]
    note: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to read. ``images``: decode row images and keep the bytes. ``kinds``, ``tables`` (``schema.table``
    or ``table``) and ``transactions``: only events of these; None: all. ``timed``: only events that bear a time.
    ``drop_malformed``: leave out what cannot be understood. ``columns``: the columns of ``events`` that will be looked
    at (None: all); a reader may leave the others null where that saves it work."""

    images: bool = True
    kinds: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    transactions: frozenset[str] | None = None
    timed: bool = False
    drop_malformed: bool = False
    columns: frozenset[str] | None = None

    def needs(self, *columns: str) -> bool:
        """Will one of these columns be looked at?"""
        return self.columns is None or not self.columns.isdisjoint(columns)

    @property
    def raw(self) -> bool:
        """Are the bytes of the records wanted?"""
        return self.images and self.needs("raw")

    def allows(self, row: Mapping[str, Any]) -> bool:
        """Is this event (a row of ``events``) among the wanted ones?"""
        if self.drop_malformed and row["kind"] == Kind.MALFORMED:
            return False
        if self.timed and row["changed_at"] is None:
            return False
        if self.kinds is not None and row["kind"] not in self.kinds:
            return False
        if self.transactions is not None and row["transaction_id"] not in self.transactions:
            return False
        if self.tables is None:
            return True
        table, schema = row["table_name"], row["schema_name"]
        return table in self.tables or f"{schema}.{table}" in self.tables


OF_CHANGES: Final = tuple(name for name in EVENTS.names if name != "raw")
"""The columns of events that changes are made of: all but the bytes, which are most of a record."""

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
    """How the halves of an update find each other: within a transaction by their order, or by table, position and
    folder (change tables); how fields of one object that follow each other are put together (event log); or there is
    nothing to join."""

    TRANSACTION = "transaction"
    POSITION = "position"
    OBJECT = "object"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Piece:
    """What some events of a capture follow from: the bytes of ``files`` (paths), and ``context``, which is everything
    else that decoding them looks at. Where both are the same, the events are the same but for ``file_index``.

    So a file is named by its path in a context and never by its index, unless that is part of what an event says.
    """

    files: tuple[str, ...]
    context: str


class Plan(Protocol):
    """How a capture is read, made once and sent to the workers as text.

    ``splits`` are what is read at once, by one task. A split that is a list is one of things that are read together
    because they are small, and could be read each on its own.
    """

    splits: list[Any]
    detected: list[dict[str, Any]]
    facts: dict[str, Any]

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""
        ...


_Item = TypeVar("_Item")


class Portion(Sequence[_Item]):
    """Some items of a sequence under their original numbers: the splits of a plan that a task receives.

    ``len`` counts all items; an item that is not there raises LookupError.
    """

    __slots__ = ("_count", "_items")

    def __init__(self, items: Sequence[_Item], numbers: range) -> None:
        self._count = len(items)
        self._items = {number: items[number] for number in numbers}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        if isinstance(at, slice):
            return [self[number] for number in range(self._count)[at]]
        number = range(self._count)[at]
        if number not in self._items:
            raise LookupError(f"number {number} of {self._count} is not in this portion")
        return self._items[number]


class PlanText:
    """A plan that travels to the workers as text: both ends run the same version of cdcwb."""

    __slots__ = ()

    def to_text(self) -> str:
        """The plan as one line of ASCII text, to travel in an option."""
        return base64.b64encode(zlib.compress(pickle.dumps(self), 1)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The plan that :meth:`to_text` wrote."""
        plan: Self = pickle.loads(zlib.decompress(base64.b64decode(text)))
        return plan


class Format(Protocol):
    """What a format's package offers. Nothing in it knows of Spark.

    ``options`` are its reader options and what they mean. ``row_times``: do changes bear a time of their own? If not,
    they have that of their transaction's end. ``pairing``: how halves of updates find each other. ``commits``: does
    the stream bear begins, commits and rollbacks? If not, only committed work is handed over. ``compressed_updates``:
    the record types of updates whose after image has only the columns that were written and those of the key.
    ``names_keys``: can the source say which columns are a table's key? If not, only the option ``keys`` does.
    """

    name: str
    options: Mapping[str, str]
    row_times: bool
    pairing: Pairing
    commits: bool
    compressed_updates: frozenset[str]
    names_keys: bool

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raises OptionError for an unknown option and for a value that cannot be used, before any file is read."""
        ...

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """How sure it is that these files are its own, from their beginnings."""
        ...

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The files among these or beside them that hold no records but describe some of these files."""
        ...

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Plan:
        """The plan of a capture; ``run`` does the work over its bytes. Raises CaptureError."""
        ...

    def plan_from_text(self, text: str) -> Plan:
        """The plan that ``to_text`` wrote."""
        ...

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size, shape, compression, problem."""
        ...

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split, in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
        ...

    def pieces(self, plan: Plan) -> Iterator[list[Piece]]:
        """What the events of each split follow from: one piece, or, for a split that is a list, one for each of its
        items. Empty where that cannot be said: then its events are decoded anew whenever a capture goes on."""
        ...

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """The columns of :meth:`read_table`. Raises CaptureError for a table or column that is not there."""
        ...

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns."""
        ...

    def table_versions(self, plan: Plan) -> pa.Table:
        """All of :data:`cdcwb.model.TABLE_VERSIONS` but ``first_position``, which only the rows tell."""
        ...

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Rows of :data:`cdcwb.model.PROBLEMS` that concern the capture, a file or a table version, not an event."""
        ...

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """The record that holds ``offset`` in the decompressed file. Raises CaptureError where there is none."""
        ...


class BaseFormat:
    """What most formats have in common; a format overrides where it differs.

    ``plan_type`` and ``options_type`` are its classes of a plan and of checked options, ``make_plan`` and
    ``inspect_record`` functions that take such options. A plan has ``versions`` and, as ``notes``, rows of problems.
    """

    name: str
    options: Mapping[str, str]
    row_times = True
    pairing = Pairing.NONE
    commits = False
    compressed_updates: frozenset[str] = frozenset()
    names_keys = True
    of_tables: frozenset[str] | None = None
    plan_type: ClassVar[Any]
    options_type: ClassVar[Any]
    make_plan: Callable[..., Any]
    inspect_record: Callable[..., Inspection]

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Format.check_options`."""
        self.options_type.parse(options)

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for Kafka's columns; several formats have the same, so its name has to be given."""
        if "value" not in {name.lower() for name in schema.names}:
            return Recognition(0.0, ["no column `value`"])
        return Recognition(0.5, ["Kafka's columns; give the format, because these columns fit several"])

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """None: what describes others is named by an option."""
        return []

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Any:
        """See :meth:`Format.plan`."""
        return self.make_plan(paths, self.options_type.parse(options), run)

    def plan_from_text(self, text: str) -> Any:
        """The plan that ``to_text`` wrote."""
        return self.plan_type.from_text(text)

    def table_versions(self, plan: Any) -> pa.Table:
        """Every version, in the order in which they were seen; ``first_position`` is left null."""
        return pa.Table.from_pylist([version.to_row() for version in plan.versions], schema=TABLE_VERSIONS)

    def problems(self, plan: Any) -> list[dict[str, Any]]:
        """Files that are cut off, and schemas and definitions that cannot be used."""
        notes: list[dict[str, Any]] = plan.notes
        return notes

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`Format.inspect`."""
        return self.inspect_record(path, offset, self.options_type.parse(options))


@runtime_checkable
class Portioning(Protocol):
    """A format whose tasks need only their own splits of a plan."""

    def portions(self, plan: Any, ranges: Sequence[range]) -> list[dict[str, Any]]:
        """For each range of splits, the attributes of the plan that replace those of a plan without splits, so that
        these splits can be read."""
        ...


@runtime_checkable
class Assembling(Protocol):
    """A format whose stream bears begins and ends, and whose changes and transactions are put together in its splits
    (:mod:`cdcwb.formats.assembly`): its plan knows which transactions cross the borders of splits."""

    def crossing(self, plan: Any, split: int) -> frozenset[str]:
        """The transactions that are open at the start of a split, or at its end if another one follows."""
        ...


@runtime_checkable
class Trailing(Protocol):
    """A format of committed work whose transactions follow each other in a trail: halves of updates find each other in
    its splits, but for those of transactions that several splits have."""

    def in_splits(self, plan: Any) -> bool:
        """Is nothing in this capture that only all splits together tell, but for such transactions?"""
        ...

    def shared(self, plan: Any) -> Sequence[frozenset[str]]:
        """Of each split the transactions that others have too."""
        ...


@dataclass(frozen=True, slots=True)
class Halved:
    """Where halves of updates are that find each other by position. ``befores``: has the split before halves?
    ``shared``: ranges of positions, first and last, in order, that splits of the same table in files of one folder have
    in common, so that the halves of an update may be in two of them."""

    befores: bool = True
    shared: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class Halving(Protocol):
    """A format whose halves of updates find each other by position, in its splits where these share no position
    (:mod:`cdcwb.formats.delivered`)."""

    def halved(self, plan: Any, split: int) -> Halved:
        """Where the halves of a split are."""
        ...

    def read_together(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of a split, but that both halves of an update at a border are read with one of its splits. All
        splits together have the same events as those of ``read``."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A format whose rows of one statement follow each other, and are joined in its splits."""

    def joins(self, plan: Any) -> bool:
        """Are the rows of this capture near enough to those that they belong to?"""
        ...

    def read_changes(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The changes that begin in a split, as batches of :data:`cdcwb.model.CHANGES`."""
        ...

    def read_checked(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events with problems, also those that only a look at other rows finds."""
        ...

    def read_spellings(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Of each spelling of the key of a table its first event in a split."""
        ...


class RowFormat(Format, Protocol):
    """A format whose captures may also be tables of rows: any Spark DataFrame.

    The batches of such a capture have its columns and ``_row`` (int64): the number of the row, from 0. ``of_tables``:
    the columns (in lower case) that :meth:`read_table_rows` looks at, where it does not look at all of them.
    """

    of_tables: frozenset[str] | None

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """How sure it is that rows with these columns are its own."""
        ...

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """The plan of a capture that is called ``name`` and has these columns. Raises CaptureError."""
        ...

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows, as batches of :data:`cdcwb.model.EVENTS`."""
        ...

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as typed columns."""
        ...
