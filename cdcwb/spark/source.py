"""Captures as Spark data sources: ``spark.read.format("cdcwb-gbase8s").load(path)``."""

from __future__ import annotations

import base64
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats import FORMATS, get_format, named_format
from cdcwb.formats.changes import Named, finished
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.delivered import (
    ENDS,
    NO_ENDS,
    EndsOfOthers,
    read_delivered,
    read_elsewhere,
    read_ends,
    read_ends_here,
    read_with_ends,
)
from cdcwb.formats.dissector import Assembling, Format, Joining, Plan, Portioning, RowFormat, TableRequest, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.findings import find, key_of
from cdcwb.formats.halves import halved_of
from cdcwb.formats.options import as_bool, event_columns, nearest
from cdcwb.formats.source import announced, known
from cdcwb.formats.summaries import PARTS, read_parts
from cdcwb.spark.exchange import SENT, send
from cdcwb.spark.packing import pack, packed_schema
from cdcwb.spark.worker import spare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["READER_OPTIONS", "Reader", "register", "schema_of", "source_name", "written_ends"]

Events: TypeAlias = Callable[[Wanted], Iterator[pa.RecordBatch]]

READER_OPTIONS = (
    "path",
    "paths",
    "plan",
    "listing",
    "images",
    "mode",
    "packed",
    "part",
    "groups",
    "keys",
    "table",
    "columns",
    "table_images",
    "table_schema",
)
"""Options of every source, besides those of its format. Spark sets the first two from the arguments of its ``load``,
:func:`cdcwb.load` all others but ``images``, ``mode`` and ``columns`` (of events; with ``table``, its own); ``listing``
has its listing of remote files (:func:`cdcwb.formats.source.known`). With ``packed`` the events are those of
:func:`cdcwb.spark.packing.packed_schema`. ``part`` is the part of a split that is read instead of its events: the
``changes`` that begin in it, or its ``transactions`` (:class:`cdcwb.formats.dissector.Assembling`); the changes that it
has ``delivered``, or with the ends of their transactions (``ended``), the halves of updates whose other half may be
``elsewhere``, the ``ends`` of transactions, all transactions with their ``ends_here``, or their ``counted`` numbers
(:mod:`cdcwb.formats.delivered`); the changes that are ``joined`` from neighbouring rows
(:class:`cdcwb.formats.dissector.Joining`); or its ``findings``, which are ``unassembled`` if its changes are not
assembled in it (:mod:`cdcwb.formats.findings`). With ``groups`` the batches are sent as those of
:data:`cdcwb.spark.exchange.SENT`, in so many groups; findings, ``transactions`` and ``ends_here`` always are. ``ends0``
and so on have the ends in other splits (:func:`written_ends`). ``keys`` is the option of that name for changes, as
JSON."""
_DELIVERED: Final = {
    "delivered": read_delivered,
    "elsewhere": read_elsewhere,
    "ends": read_ends,
    "counted": read_parts,
}
_MODELS: Final = {
    "changes": model.CHANGES,
    "delivered": model.CHANGES,
    "ended": model.CHANGES,
    "joined": model.CHANGES,
    "ends": ENDS,
    "transactions": model.TRANSACTIONS,
    "counted": PARTS,
}
_OF_MALFORMED: Final = ("problems", "file", "offset")
_ENDS: Final = "ends"
_OPTION: Final = 768 << 10  # bytes of ends in an option
_TASKS: Final = 16  # small splits are read together where there would be more tasks
_TOGETHER: Final = (512 << 10, 4 << 20)  # bytes of small splits that one task reads


def source_name(format: str) -> str:
    """The name under which a format is registered: ``cdcwb-`` and its name."""
    return f"cdcwb-{format}"


def register(spark: SparkSession) -> None:
    """Registers the data sources of all formats in a session; ``load`` calls it. It may be called again."""
    for name in FORMATS:
        spark.dataSource.register(_source_of(name))


@dataclass
class _Splits(InputPartition):
    """Consecutive splits of a plan, ``[first, stop)``, with their portion of the plan
    (:class:`cdcwb.formats.dissector.Portioning`) and the ends in other splits."""

    first: int
    stop: int
    portion: dict[str, Any]
    ends: EndsOfOthers

    def __init__(self, first: int, stop: int, portion: dict[str, Any], ends: EndsOfOthers = NO_ENDS) -> None:
        super().__init__(first)
        self.first, self.stop, self.portion, self.ends = first, stop, portion, ends


class Reader(DataSourceReader):
    """Reads the splits of a plan, or the rows of a DataFrame.

    It takes no filters from Spark (``pushFilters``): if a query uses one DataFrame twice, PySpark 4.3 passes the
    filters of one use to both, and the other would lack rows.
    """

    def __init__(self, format: str, options: dict[str, str]) -> None:
        self.format = format
        self.options = options
        self.request = _request(options)
        self.columns = _columns(options)
        self.wanted, self.stop_at_malformed = wanted_of(
            as_bool("images", options.get("images", "true")), options.get("mode", "PERMISSIVE").upper(), self.columns
        )
        self.packed = _is_packed(options)
        self.groups = int(options.get("groups", "0"))
        self._plan: Plan | None = None
        self._ends = _read_ends(options)

    def __getstate__(self) -> dict[str, Any]:
        """What every task receives: the plan without splits, if each partition has its portion. Spark pickles a reader
        before it asks for the partitions."""
        plan, options = self.plan(), self.options
        if isinstance(get_format(self.format), Portioning):
            options = {**options, "plan": replace(cast(Any, plan), splits=[]).to_text()}
        options = {name: value for name, value in options.items() if not name.startswith(_ENDS)}
        return {**self.__dict__, "_plan": None, "_ends": NO_ENDS, "options": options}

    def plan(self) -> Plan:
        """The plan."""
        if self._plan is None:
            announced(json.loads(self.options.get("listing", "{}")))
            self._plan = plan = _plan(self.format, self.options)
            if "plan" not in self.options:  # made here by a scan of the headers, so workers need not repeat it
                listing = json.dumps(known(entry["file"] for entry in get_format(self.format).files(plan)))
                self.options = {**self.options, "plan": plan.to_text(), "listing": listing}
        return self._plan

    def _read(self, events: Events, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of a split or of rows; raises MalformedRecordError in mode FAILFAST."""
        if self.stop_at_malformed and wanted.columns is not None:
            wanted = replace(wanted, columns=wanted.columns | {"kind", *_OF_MALFORMED})
        for batch in events(wanted):
            if self.stop_at_malformed:
                stop_at_malformed(batch)
            yield batch

    def _found(
        self, fmt: Format, plan: Plan, events: Events, split: int | None, ends: Sequence[pa.RecordBatch]
    ) -> Named:
        """The batches that the options select, with their names."""
        part = self.options.get("part", "")
        read = partial(self._read, events)
        if part in ("findings", "unassembled"):
            of = split if part == "findings" else None
            return find(fmt, plan, of, events if isinstance(fmt, Joining) else read, self.wanted)
        if part == "ends_here":
            number = split or 0
            return ((part, one) for one in read_ends_here(read, self.wanted, number, halved_of(fmt, plan, number)))
        if part == "transactions" and isinstance(fmt, Assembling):
            return fmt.read_transactions(plan, split or 0, self.wanted, read)
        return ((part, batch) for batch in self._finished(fmt, self._batches(fmt, plan, read, split or 0, ends)))

    def _batches(
        self, fmt: Format, plan: Plan, read: Events, split: int, ends: Sequence[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The batches that the options select, from the events of a split or of rows."""
        part = self.options.get("part")
        if part == "joined" and isinstance(fmt, Joining):
            return fmt.read_changes(plan, split, self.wanted)
        if part == "changes" and isinstance(fmt, Assembling):
            return fmt.read_changes(plan, split, self.wanted, read)
        if part == "ended":
            return read_with_ends(read, self.wanted, ends, halved_of(fmt, plan, split))
        if part in _DELIVERED:
            return _DELIVERED[part](read, self.wanted, halved_of(fmt, plan, split))
        return read(self.wanted)

    def _finished(self, fmt: Format, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are wanted, changes in the schema of the model."""
        if _model(self.options) is not model.CHANGES:
            return batches
        keys = json.loads(self.options.get("keys", "{}"))
        return (finished(batch, keys, fmt.compressed_updates) for batch in batches)

    def partitions(self) -> list[InputPartition]:
        """The splits, small ones together: it costs more to start a task than to read a few records."""
        fmt, plan = get_format(self.format), self.plan()
        ranges = _together(_sizes(fmt, plan))
        portions = fmt.portions(plan, ranges) if isinstance(fmt, Portioning) else [{}] * len(ranges)
        return [
            _Splits(splits.start, splits.stop, portion, self._ends.of(splits))
            for splits, portion in zip(ranges, portions, strict=True)
        ]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The batches of the splits of a partition."""
        if (
            partition is None or partition.value is None
        ):  # Spark requires a partition, and files without content have none
            return
        splits = cast(_Splits, partition)
        fmt, plan = get_format(self.format), _portioned(self.plan(), splits.portion)
        spare()
        for split in range(splits.first, splits.stop):
            if self.request is not None:
                yield from fmt.read_table(plan, split, self.request)
            else:
                yield from self._shown(fmt, plan, partial(fmt.read, plan, split), split, splits.ends.read(split))

    def read_rows(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches for the rows of one partition of a DataFrame."""
        fmt, plan = cast(RowFormat, get_format(self.format)), self.plan()
        spare()
        if self.request is not None:
            yield from fmt.read_table_rows(plan, rows, self.request)
            return
        yield from self._shown(fmt, plan, partial(fmt.read_rows, plan, rows), None)

    def _shown(
        self, fmt: Format, plan: Plan, events: Events, split: int | None, ends: Sequence[pa.RecordBatch] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The batches that the options select, as they are passed to Spark; ``split`` is None for rows."""
        for number, (name, batch) in enumerate(self._found(fmt, plan, events, split, ends)):
            if self.groups:
                yield from send(name, batch, key_of(name), self.groups, (split or 0) << 32 | number)
            elif self.packed:
                yield pack(batch, split, self.columns, _model(self.options))
            else:
                yield batch if self.columns is None else batch.select(list(self.columns))


def wanted_of(images: bool, mode: str, columns: Sequence[str] | None) -> tuple[Wanted, bool]:
    """The request to a format for these columns of events (None: all), and whether to stop at a malformed event."""
    stops = mode == "FAILFAST"
    needed = None if columns is None else frozenset([*columns, "kind", *(_OF_MALFORMED if stops else ())])
    return Wanted(images=images, drop_malformed=mode == "DROPMALFORMED", columns=needed), stops


def stop_at_malformed(batch: pa.RecordBatch) -> None:
    """Raises MalformedRecordError for the first malformed event of a batch."""
    from cdcwb.errors import MalformedRecordError

    kinds = batch.column("kind").to_pylist()
    if model.Kind.MALFORMED in kinds:
        at = kinds.index(model.Kind.MALFORMED)
        detail = batch.column("problems")[at].as_py()[0]["detail"]
        raise MalformedRecordError(
            detail, path=batch.column("file")[at].as_py(), offset=batch.column("offset")[at].as_py()
        )


def _portioned(plan: Plan, portion: dict[str, Any]) -> Plan:
    """A plan with its portion for a task."""
    if portion:
        plan = replace(cast(Any, plan))
        for name, value in portion.items():
            setattr(plan, name, value)
    return plan


def written_ends(ends: EndsOfOthers) -> dict[str, str]:
    """The ends in other splits, as options; both ends run the same version of cdcwb. A text that is passed to the JVM
    is copied several times, so no option is long."""
    written = pickle.dumps(ends)
    parts = (written[start : start + _OPTION] for start in range(0, len(written), _OPTION))
    return {f"{_ENDS}{number}": base64.b64encode(part).decode("ascii") for number, part in enumerate(parts)}


def _read_ends(options: dict[str, str]) -> EndsOfOthers:
    numbers = range(sum(name.startswith(_ENDS) for name in options))
    written = b"".join(base64.b64decode(options[f"{_ENDS}{number}"]) for number in numbers)
    return pickle.loads(written) if written else NO_ENDS


def _sizes(fmt: Format, plan: Plan) -> list[int]:
    """The bytes of each split, if those of a file are equal."""
    files, begins = fmt.files(plan), list(fmt.begins(plan))
    parts = Counter(begins)
    of_parts = iter([(files[file]["size"] or 0) // parts[file] for file in begins])
    counts = (len(split) if isinstance(split, Sequence) else 1 for split in plan.splits)
    return [sum(islice(of_parts, count)) for count in counts]


def _together(sizes: Sequence[int]) -> list[range]:
    """The splits of each task, from their bytes. It costs more to start a task than to read a few records."""
    least, most = _TOGETHER
    most = min(most, max(least, sum(sizes) // _TASKS))
    ranges: list[range] = []
    room = 0
    for split, size in enumerate(sizes):
        if not ranges or size > room:
            ranges.append(range(split, split))
            room = most
        ranges[-1] = range(ranges[-1].start, split + 1)
        room -= size
    return ranges


def _request(options: dict[str, str]) -> TableRequest | None:
    if "table" not in options:
        return None
    columns = options.get("columns")
    return TableRequest(
        options["table"],
        None if columns is None else tuple(columns.split("\x1f")) if columns else (),
        options.get("table_images", "both"),
        options.get("table_schema", "in_force"),
    )


def _columns(options: dict[str, str]) -> list[str] | None:
    """The requested columns of events; None: all."""
    if "columns" not in options or "table" in options:
        return None
    return event_columns(name.strip() for name in options["columns"].split(","))


def _model(options: dict[str, str]) -> pa.Schema:
    """The schema of the table that the options select."""
    return _MODELS.get(options.get("part", ""), model.EVENTS)


def _is_packed(options: dict[str, str]) -> bool:
    return as_bool("packed", options.get("packed", "false"))


@lru_cache(maxsize=1)
def _from_text(format: str, text: str) -> Plan:
    """A plan that is decoded once in each process, not by each of its tasks."""
    return get_format(format).plan_from_text(text)


def _paths(format: str, options: Mapping[str, str]) -> list[str]:
    paths = [options["path"]] if "path" in options else json.loads(options.get("paths", "[]"))
    if not paths:
        raise OptionError(f"expected a path: spark.read.format({source_name(format)!r}).load(path)")
    return list_files(paths)


def _named(format: str, options: Mapping[str, str]) -> str:
    """The format of the files that are read under a format's name."""
    if "plan" in options or get_format(format).alias_of is None:
        return format
    return named_format(_paths(format, options), format, options).name


def _plan(format: str, options: dict[str, str]) -> Plan:
    if "plan" in options:
        return _from_text(format, options["plan"])
    fmt, paths = get_format(format), _paths(format, options)
    known = {name.lower(): name for name in fmt.options}
    known_options: dict[str, Any] = {}
    for name, value in options.items():
        if name.lower() in known:
            known_options[known[name.lower()]] = value
        elif name not in READER_OPTIONS:
            hint = nearest(name, fmt.options)
            raise OptionError(f"unknown option {name!r} for {format}.{hint} There are: {', '.join(fmt.options)}.")
    known_options = without_login(known_options)
    return fmt.plan(paths, known_options, lambda function, tasks: [function(task) for task in tasks])


def schema_of(format: str, options: dict[str, str]) -> StructType:
    """The Spark schema of a :class:`Reader` with these options."""
    request = _request(options)
    if "groups" in options:
        return from_arrow_schema(SENT)
    if request is None:
        columns = _columns(options)
        if _is_packed(options):
            return from_arrow_schema(packed_schema(columns, _model(options)))
        rows = _model(options)
        return from_arrow_schema(pa.schema([rows.field(name) for name in columns or rows.names]))
    schema = get_format(format).table_schema(_plan(format, options), request)
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _source_of(format: str) -> type[DataSource]:
    """The data source class of a format."""

    class CaptureSource(DataSource):
        """A capture as ``events``, one row per wire record.

        Name: ``cdcwb-`` and the format's name.

        Options: those of the format (``cdcwb.formats.get_format(name).options``), ``images=false`` for headers only,
        ``columns`` (names with commas between them) for some columns only, and ``mode``: PERMISSIVE, DROPMALFORMED or
        FAILFAST.

        Partitioning: a partition for each split; large binary files are split, text and packed files are not.

        Performance: used on its own, the source plans by a scan of all headers in one process before the first row;
        ``cdcwb.load`` plans in parallel and passes the plan. ``images=false`` is several times as fast.

        Examples: ``spark.read.format("cdcwb-gbase8s").option("charset", "gb18030").load("capture/")``
        """

        @classmethod
        def name(cls) -> str:
            return source_name(format)

        def schema(self) -> StructType:
            return schema_of(_named(format, self.options), dict(self.options))

        def reader(self, schema: StructType) -> DataSourceReader:
            reader = Reader(_named(format, self.options), dict(self.options))
            reader.plan()
            self.options = {}  # Spark sends this object to every task, which needs only its name
            return reader

    return CaptureSource
