"""Captures as Spark data sources: ``spark.read.format("cdcwb-gbase8s").load(path)``."""

from __future__ import annotations

import base64
import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.errors import OptionError
from cdcwb.formats import FORMATS, get_format, named_format
from cdcwb.formats.changes import Named
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.delivered import NO_ENDS, EndsOfOthers
from cdcwb.formats.dissector import Format, Plan, Portioning, RowFormat, TableRequest
from cdcwb.formats.files import list_files
from cdcwb.formats.findings import key_of
from cdcwb.formats.options import as_bool, event_columns, nearest
from cdcwb.formats.parts import SplitPart
from cdcwb.formats.source import announced, known
from cdcwb.spark.exchange import SENT, send
from cdcwb.spark.packing import pack, packed_schema
from cdcwb.spark.worker import spare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["READER_OPTIONS", "Reader", "register", "schema_of", "source_name", "written_ends"]

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
:func:`cdcwb.spark.packing.packed_schema`. ``part`` is the name of what is read of a split instead of its events
(:class:`cdcwb.formats.parts.SplitPart`). With ``groups`` the batches are sent as those of
:data:`cdcwb.spark.exchange.SENT`, in so many groups; findings, ``transactions`` and ``ends_here`` always are. ``ends0``
and so on have the ends in other splits (:func:`written_ends`). ``keys`` is the option of that name for changes, as
JSON."""
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
        self.part = _part(options)
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
                found = self.part.read(fmt, plan, split, partial(fmt.read, plan, split), splits.ends.read(split))
                yield from self._sent(found, split)

    def read_rows(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches for the rows of one partition of a DataFrame."""
        fmt, plan = cast(RowFormat, get_format(self.format)), self.plan()
        spare()
        if self.request is not None:
            yield from fmt.read_table_rows(plan, rows, self.request)
            return
        yield from self._sent(self.part.read(fmt, plan, None, partial(fmt.read_rows, plan, rows)), None)

    def _sent(self, found: Named, split: int | None) -> Iterator[pa.RecordBatch]:
        """The batches as they are passed to Spark; ``split`` is None for rows."""
        columns = self.part.columns
        for number, (name, batch) in enumerate(found):
            if self.groups:
                yield from send(name, batch, key_of(name), self.groups, (split or 0) << 32 | number)
            elif self.packed:
                yield pack(batch, split, columns, self.part.schema)
            else:
                yield batch if columns is None else batch.select(list(columns))


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


def _columns(options: Mapping[str, str]) -> list[str] | None:
    """The requested columns of events; None: all."""
    if "columns" not in options or "table" in options:
        return None
    return event_columns(name.strip() for name in options["columns"].split(","))


def _part(options: Mapping[str, str]) -> SplitPart:
    """What the options select of each split."""
    images, mode = as_bool("images", options.get("images", "true")), options.get("mode", "PERMISSIVE").upper()
    columns = _columns(options)
    return SplitPart(options.get("part", "events"), images, mode, columns, json.loads(options.get("keys", "{}")))


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
