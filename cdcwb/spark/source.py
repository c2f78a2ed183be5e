"""Captures as Spark data sources: ``spark.read.format("cdcwb-gbase8s").load(path)``; captures that are DataFrames; and
the tasks of a first pass in Spark."""

from __future__ import annotations

import base64
import gc
import json
import pickle
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext, cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cdcwb import model
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import FORMATS, get_format, named_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.delivered import NO_ENDS, EndsOfOthers
from cdcwb.formats.dissector import ROW, Format, Named, Plan, RowFormat, Run, TableRequest
from cdcwb.formats.files import list_files
from cdcwb.formats.options import as_bool, event_columns, nearest
from cdcwb.formats.parts import SplitPart, key_of
from cdcwb.formats.source import announced, known
from cdcwb.spark.exchange import SENT, send

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


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
    "near_tables",
    "table",
    "columns",
    "table_images",
    "table_schema",
    "function_schema",
)
"""Options of every source, besides those of its format. Spark sets the first two from the arguments of its ``load``,
:func:`cdcwb.load` all others but ``images``, ``mode`` and ``columns`` (of events; with ``table``, its own); ``listing``
has its listing of remote files (:func:`cdcwb.formats.source.known`). With ``packed`` the events are those of
:func:`packed_schema`. ``part`` is the name of what is read of a split instead of its events
(:class:`cdcwb.formats.parts.SplitPart`). With ``groups`` the batches are sent as those of
:data:`cdcwb.spark.exchange.SENT`, in so many groups; findings, ``transactions`` and ``ends_here`` always are. ``ends0``
and so on have the ends in other splits (:func:`written_ends`). ``keys`` is the option of that name for changes, as
JSON. ``near_tables`` are tables, as JSON: changes of others may be left out. ``function0`` and so on have a function
that runs over the batches of a task, and ``function_schema`` the Spark schema of what it makes, as JSON
(:func:`through`)."""
_ENDS: Final = "ends"
_FUNCTION: Final = "function"
_OPTION: Final = 768 << 10  # bytes in an option
_TASKS: Final = 16  # small splits are read together where there would be more tasks
_TOGETHER: Final = (512 << 10, 4 << 20)  # bytes of small splits that one task reads


def source_name(format: str) -> str:
    """The name under which a format is registered: ``cdcwb-`` and its name."""
    return f"cdcwb-{format}"


def register(spark: SparkSession) -> None:
    """Registers the data sources of all formats in a session; ``load`` calls it. It may be called again."""
    for name in FORMATS:
        spark.dataSource.register(_source_of(name))


class _Splits(InputPartition):
    """Consecutive splits of a plan, ``[first, stop)``, with their ``portion`` of it (None: the plan has all its
    splits), and the ends in other splits."""

    def __init__(self, first: int, stop: int, portion: Sequence[Any] | None, ends: EndsOfOthers = NO_ENDS) -> None:
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
        self.part = _part(options)
        self.packed = _is_packed(options)
        self.groups = int(options.get("groups", "0"))
        self._plan: Plan | None = None
        self._ends = pickle.loads(written) if (written := _read_bytes(_ENDS, options)) else NO_ENDS
        self._function = _read_bytes(_FUNCTION, options)  # is loaded in tasks

    def __getstate__(self) -> dict[str, Any]:
        """What every task receives: the plan without splits, since each partition has its portion. Spark pickles a
        reader before it asks for the partitions."""
        text = replace(cast(Any, self.plan()), splits=[]).to_text()
        options = {name: value for name, value in self.options.items() if not name.startswith((_ENDS, _FUNCTION))}
        return {**self.__dict__, "_plan": None, "_ends": NO_ENDS, "options": {**options, "plan": text}}

    def plan(self) -> Plan:
        """The plan."""
        if self._plan is None:
            announced(json.loads(self.options.get("listing", "{}")))
            self._plan = plan = _plan(self.format, self.options)
            if "plan" not in self.options:  # made here by a scan of the headers, so workers need not repeat it
                listing = json.dumps(known(entry["file"] for entry in get_format(self.format).files(plan)))
                self.options = {**self.options, "plan": plan.to_text(), "listing": listing}
        return self._plan

    def partitions(self) -> list[InputPartition]:
        """The splits, small ones together: it costs more to start a task than to read a few records."""
        fmt, plan = get_format(self.format), self.plan()
        return [
            _Splits(splits.start, splits.stop, fmt.portion(plan, splits), self._ends.of(splits))
            for splits in _together(_sizes(fmt, plan))
        ]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The batches of the splits of a partition."""
        if (
            partition is None or partition.value is None
        ):  # Spark requires a partition, and files without content have none
            return
        splits = cast(_Splits, partition)
        fmt, plan = get_format(self.format), self.plan()
        if splits.portion is not None:
            plan = replace(cast(Any, plan), splits=splits.portion)
        spare()
        yield from self._made(self._read(fmt, plan, splits))

    def _read(self, fmt: Format, plan: Plan, splits: _Splits) -> Iterator[pa.RecordBatch]:
        for split in range(splits.first, splits.stop):
            if self.request is not None:
                yield from fmt.read_table(plan, split, self.request)
            else:
                found = self.part.read(fmt, plan, split, partial(fmt.read, plan, split), splits.ends.read(split))
                yield from self._sent(found, split)

    def _made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the function makes of batches; without one, these."""
        return pickle.loads(self._function)(batches) if self._function else batches

    def read_rows(self, rows: Iterator[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """The batches for the rows of one partition of a DataFrame."""
        fmt, plan = cast(RowFormat, get_format(self.format)), self.plan()
        spare()
        if self.request is not None:
            yield from fmt.read_table_rows(plan, rows, self.request)
            return
        found = self._sent(self.part.read(fmt, plan, None, partial(fmt.read_rows, plan, rows)), None, partition)
        yield from self._made(found)

    def _sent(self, found: Named, split: int | None, place: int = 0) -> Iterator[pa.RecordBatch]:
        """The batches as they are passed to Spark; ``split`` is None for rows, ``place`` is their partition."""
        columns = self.part.columns
        for number, (name, batch) in enumerate(found):
            if self.groups:
                yield from send(name, batch, key_of(name), self.groups, (split or place) << 32 | number)
            elif self.packed:
                yield pack(batch, packed_schema(columns, self.part.schema))
            else:
                yield batch if columns is None else batch.select(list(columns))


def written_ends(ends: EndsOfOthers) -> dict[str, str]:
    """The ends in other splits, as options; both ends run the same version of cdcwb."""
    return _written(_ENDS, pickle.dumps(ends))


def through(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> dict[str, str]:
    """The options with which tasks pass on what a function makes of their batches: batches of ``schema``."""
    return {"function_schema": from_arrow_schema(schema).json(), **_written(_FUNCTION, cloudpickle.dumps(function))}


def _written(name: str, content: bytes) -> dict[str, str]:
    """Options with these bytes. A text that is passed to the JVM is copied several times, so no option is long."""
    parts = (content[start : start + _OPTION] for start in range(0, len(content), _OPTION))
    return {f"{name}{number}": base64.b64encode(part).decode("ascii") for number, part in enumerate(parts)}


def _read_bytes(name: str, options: dict[str, str]) -> bytes:
    numbers = range(sum(re.fullmatch(rf"{name}\d+", one) is not None for one in options))
    return b"".join(base64.b64decode(options[f"{name}{number}"]) for number in numbers)


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
    names = None if columns is None else tuple(columns.split("\x1f")) if columns else ()
    images, schema = options.get("table_images", "both"), options.get("table_schema", "in_force")
    return TableRequest(options["table"], names, images, schema)


def _columns(options: Mapping[str, str]) -> list[str] | None:
    """The requested columns of events or changes; None: all."""
    if "columns" not in options or "table" in options:
        return None
    names = options["columns"].split(",")
    return names if options.get("part") == "changes" else event_columns(name.strip() for name in names)


def _part(options: Mapping[str, str]) -> SplitPart:
    """What the options select of each split."""
    images, mode = as_bool("images", options.get("images", "true")), options.get("mode", "PERMISSIVE").upper()
    columns = _columns(options)
    keys = json.loads(options.get("keys", "{}"))
    tables = frozenset(json.loads(options["near_tables"])) if "near_tables" in options else None
    return SplitPart(options.get("part", "events"), images, mode, columns, keys, tables)


def _is_packed(options: Mapping[str, str]) -> bool:
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
    if "function_schema" in options:
        return StructType.fromJson(json.loads(options["function_schema"]))
    request = _request(options)
    if "groups" in options:
        return from_arrow_schema(SENT)
    if request is None:
        part = _part(options)
        if _is_packed(options):
            return from_arrow_schema(packed_schema(part.columns, part.schema))
        return from_arrow_schema(pa.schema([part.schema.field(name) for name in part.columns or part.schema.names]))
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


# --- packed rows ------------------------------------------------------------------------------------------------------

# Spark converts every column that a Python worker sends, used or not, and the cost of a list grows with its names. So
# lists of names become one text each, which is split only if the column is used.

_LISTS: Final = ("changed_columns", "present_columns")
_BETWEEN: Final = "\x1f"
_PACKED_NAMES: Final = {name: f"_{name}" for name in _LISTS}


def packed_schema(columns: Sequence[str] | None = None, rows: pa.Schema = model.EVENTS) -> pa.Schema:
    """The schema ``rows``, or these columns of it in this order, with a text for each column of lists. A list is either
    in the text or in the list column; if it is null, both are null."""
    names = rows.names if columns is None else columns
    texts = [pa.field(_PACKED_NAMES[name], pa.string()) for name in names if name in _LISTS]
    return pa.schema([*map(rows.field, names), *texts])


def pack(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in a schema of :func:`packed_schema`."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in _LISTS:
        if name in schema.names:
            arrays[name], arrays[_PACKED_NAMES[name]] = _packed(arrays[name])
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _packed(lists: pa.ListArray) -> tuple[pa.ListArray, pa.StringArray]:
    """Lists that remain lists (empty ones, and those with the separator in a name), and the others as texts."""
    count = len(lists)
    if lists.null_count == count:
        return lists, pa.nulls(count, pa.string())
    names = lists.flatten()
    data = names.buffers()[2]
    if names.null_count or (data is not None and (np.frombuffer(data, np.uint8) == ord(_BETWEEN)).any()):
        return lists, pa.nulls(count, pa.string())
    texts = pc.binary_join(lists, _BETWEEN)
    empty = pc.fill_null(pc.equal(pc.list_value_length(lists), 0), False)
    if not pc.any(empty).as_py():
        return pa.nulls(count, lists.type), texts
    nowhere = np.zeros(count + 1, dtype=np.int32)
    full = np.append(~empty.to_numpy(zero_copy_only=False), False)
    remaining = pa.ListArray.from_arrays(pa.array(nowhere, mask=full), pa.array([], pa.string()))
    return remaining, pc.if_else(empty, pa.scalar(None, pa.string()), texts)


def unpack(packed: DataFrame, columns: Sequence[str] | None = None, rows: pa.Schema = model.EVENTS) -> DataFrame:
    """A DataFrame of :func:`packed_schema` as ``rows``, or these columns of them."""

    def column(name: str) -> Column:
        if name not in _LISTS:
            return F.col(name)
        return F.coalesce(F.split(_PACKED_NAMES[name], _BETWEEN), F.col(name)).alias(name)

    return packed.select(*[column(name) for name in columns or rows.names])


# --- rows of DataFrames -----------------------------------------------------------------------------------------------


class RowsOf:
    """The rows of a DataFrame, numbered from 0 in the order of its partitions (and of ``order_by``, where given)."""

    def __init__(self, frame: DataFrame, order_by: str | Sequence[str] | None = None) -> None:
        self.given = frame
        self.order_by = order_by
        self._starts: dict[int, int] | None = None

    @cached_property
    def frame(self) -> DataFrame:
        """The DataFrame, in order."""
        if not self.order_by:
            return self.given
        names = self.order_by.split(",") if isinstance(self.order_by, str) else self.order_by
        return self.given.orderBy(*[name.strip() for name in names])

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow types."""
        return self.given.limit(0).toArrow().schema

    @property
    def starts(self) -> dict[int, int]:
        """The number of the first row of each partition."""
        if self._starts is None:
            self.run(lambda _batches: b"")
        return self._starts or {}

    def run(self, function: Callable[[Iterator[pa.RecordBatch]], bytes]) -> list[bytes]:
        """Runs a function over the batches of every partition; the results are in the partitions' order.

        Every run but the first knows the numbers of the rows.
        """
        known = self._starts or {}

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            sizes: list[int] = []
            counted = _numbered(batches, known, sizes)
            result = _attempt(function, counted)
            for _ in counted:  # also counts rows that the function did not read
                pass
            row = {"partition": [_partition()], "rows": [sum(sizes)], "result": [pickle.dumps(result)]}
            yield pa.RecordBatch.from_pydict(row, schema=_RESULT)

        rows_of_tasks = self.frame.mapInArrow(work, from_arrow_schema(_RESULT)).collect()
        ordered = sorted(rows_of_tasks, key=lambda row: row["partition"])
        firsts = accumulate((row["rows"] for row in ordered), initial=0)
        starts = {row["partition"]: first for row, first in zip(ordered, firsts, strict=False)}
        self._starts = starts
        results = []
        for row in ordered:
            succeeded, result = pickle.loads(row["result"])
            if not succeeded:
                raise result
            results.append(result)
        return results


_RESULT = pa.schema([("partition", pa.int32()), ("rows", pa.int64()), ("result", pa.binary())])


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _attempt(function: Callable[[Any], Any], argument: Any) -> tuple[bool, Any]:
    """Whether a function succeeds, and its result, or the CaptureError that it raises: Spark replaces the class of an
    exception from a worker."""
    try:
        return True, function(argument)
    except CaptureError as reason:
        return False, reason


def _numbered(
    batches: Iterator[pa.RecordBatch], starts: Mapping[int, int], sizes: list[int]
) -> Iterator[pa.RecordBatch]:
    """The batches of a partition with the numbers of their rows; ``sizes`` gets the number of rows of each."""
    first = starts.get(_partition(), 0)
    for batch in batches:
        sizes.append(batch.num_rows)
        yield batch.append_column(ROW, pa.array(np.arange(first, first + batch.num_rows)))
        first += batch.num_rows


def read_rows(rows: RowsOf, format: str, options: dict[str, str], needed: frozenset[str] | None = None) -> DataFrame:
    """The output of a data source of this format with these options (:data:`cdcwb.spark.source.READER_OPTIONS`) for the
    rows of a DataFrame. ``needed``: the columns (in lower case) that are read; None: all."""
    starts, reader = rows.starts, Reader(format, options)
    frame = rows.frame
    if needed is not None:
        frame = frame.select(*[frame[f"`{name}`"] for name in frame.columns if name.lower() in needed])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from reader.read_rows(_numbered(batches, starts, []), _partition())

    return frame.mapInArrow(read, schema_of(format, options))


# --- tasks ------------------------------------------------------------------------------------------------------------

_PARTITIONS: Final = (16, 256)
"""Spark tasks of one call, at least and at most: it costs more to start a task than to look into a small file."""
_OF_EACH_CORE: Final = 4
_SENT_TO_ALL: Final = 1 << 18
"""Bytes of tasks, in all partitions together, that every partition receives: to deal them out is another stage."""
_TASK_GROUPS: Final = pa.list_(pa.struct([("first", pa.int64()), ("tasks", pa.binary())]))
"""The number of a group's first task, and its tasks, pickled."""


def runner(spark: SparkSession) -> Run:
    """A function that maps a function over tasks in Spark, one partition each (for many tasks: several consecutive
    ones), and returns the results in order. A partition receives its own tasks only, unless these are few.

    A CaptureError of a task is raised here with its class; it is sent as a row.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []

        count = min(len(tasks), _partitions(spark))
        starts = [len(tasks) * at // count for at in range(count + 1)]
        groups = [(first, pickle.dumps(tasks[first:stop])) for first, stop in pairwise(starts)]
        if count * sum(len(group) for _, group in groups) <= _SENT_TO_ALL:
            numbers = spark.range(0, count, 1, count)
            frame = numbers.mapInArrow(_worker(function, known(), groups), "task long, result binary")
        else:
            # One row is one partition, and its groups are dealt out in turn: each of as many partitions receives one.
            frame = spark.createDataFrame(pa.table({"groups": pa.array([groups], _TASK_GROUPS)}))
            dealt = frame.select(F.explode("groups").alias("group")).select("group.*").repartition(count)
            frame = dealt.mapInArrow(_worker(function, known()), "task long, result binary")
        done = {row.task: pickle.loads(bytes(row.result)) for row in frame.collect()}
        for index in range(len(tasks)):
            fine, result = done[index]
            if not fine:
                raise result
        return [done[index][1] for index in range(len(tasks))]

    return run


def _partitions(spark: SparkSession) -> int:
    """The most partitions of a call: some for each core."""
    least, most = _PARTITIONS
    try:
        return min(most, max(least, _OF_EACH_CORE * spark.sparkContext.defaultParallelism))
    except (AttributeError, NotImplementedError):  # unknown in Spark Connect
        return most


def _worker(
    function: Callable[[Any], Any], listing: Mapping[str, Any], groups: Sequence[tuple[int, bytes]] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What every partition runs. Its rows are the numbers of its groups, or the groups themselves."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare()
        announced(listing)
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            for first, group in [groups[at] for at in columns[0]] if groups else zip(*columns, strict=True):
                for index, task in enumerate(pickle.loads(group), first):
                    result = pickle.dumps(_attempt(function, task))
                    yield pa.RecordBatch.from_pydict({"task": [index], "result": [result]})

    return work


def spare() -> None:
    """Avoids repeated work that takes longer than a small task; to be called in a worker, in every task.

    A Spark worker collects garbage after each task, over all its objects: with the libraries that decode captures this
    takes 30 to 100 ms. Loaded modules never become garbage, so they are frozen whenever new ones were imported.

    Before each task PySpark 4.0 drops what Python knows of its path; Python before 3.13 then reads the directory of
    PySpark's archive again, for each package in it: 100 ms. Now an archive is read again only if it has changed.
    """
    _keep_archives()
    _set_aside(len(sys.modules))


@cache
def _set_aside(modules: int) -> None:
    gc.collect()
    gc.freeze()


@cache
def _keep_archives() -> None:
    read = zipimporter.invalidate_caches
    known: dict[tuple[str, str], tuple[int, int] | None] = {}

    def invalidate_caches(importer: zipimporter) -> None:
        place, now = (importer.archive, importer.prefix), _state(importer.archive)
        if place not in known or known[place] != now:
            known[place] = now
            read(importer)

    setattr(zipimporter, "invalidate_caches", invalidate_caches)  # noqa: B010 (a method cannot be assigned to)


def _state(path: str) -> tuple[int, int] | None:
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
