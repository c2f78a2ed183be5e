"""Captures as Spark data sources: ``spark.read.format("cdcwb-gbase8s").load(path)``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.base import Plan, TableRequest, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.options import as_bool, nearest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["READER_OPTIONS", "register", "source_name", "stop_at_malformed"]

READER_OPTIONS = (
    "path",
    "paths",
    "plan",
    "images",
    "mode",
    "pushdown",
    "table",
    "columns",
    "table_images",
    "table_schema",
)
"""Options of every source, besides those of its format. Spark sets the first two from what its ``load`` is given,
:func:`cdcwb.load` all others but ``images`` and ``mode``."""


def source_name(format: str) -> str:
    """The name under which a format is registered: ``cdcwb-`` and its name."""
    return f"cdcwb-{format}"


def register(spark: SparkSession) -> None:
    """Registers the sources of all formats in a session; ``load`` does it by itself. To do it again changes nothing."""
    for name in FORMATS:
        spark.dataSource.register(_source_of(name))


@dataclass
class _Split(InputPartition):
    """One split of a plan."""

    index: int

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _Reader(DataSourceReader):
    def __init__(self, format: str, options: dict[str, str]) -> None:
        self.format = format
        self.options = options
        self.request = _request(options)
        mode = options.get("mode", "PERMISSIVE").upper()
        self.wanted = Wanted(
            images=as_bool("images", options.get("images", "true")), drop_malformed=mode == "DROPMALFORMED"
        )
        self.stop_at_malformed = mode == "FAILFAST"
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def plan(self) -> Plan:
        if self._plan is None:
            self._plan = _plan(self.format, self.options)
        return self._plan

    def partitions(self) -> list[InputPartition]:
        plan = self.plan()
        if "plan" not in self.options:  # it was made here, by a scan of the headers: the workers need not make it again
            self.options = {**self.options, "plan": plan.to_text()}
        return [_Split(index) for index in range(len(plan.splits))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if (
            partition is None or partition.value is None
        ):  # what Spark makes of no partitions, which is what files without content have
            return
        fmt, plan = get_format(self.format), self.plan()
        if self.request is not None:
            yield from fmt.read_table(plan, partition.value, self.request)
            return
        for batch in fmt.read(plan, partition.value, self.wanted):
            if self.stop_at_malformed:
                stop_at_malformed(batch)
            yield batch


class _FilteringReader(_Reader):
    """Skips events before they are decoded. Spark looks at every filter again, so it may let too many through, never
    too few."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  (Spark's name)
        """Takes note of equality filters on kind, table_name and transaction_id, and of any that wants a changed_at."""
        names = {"kind": "kinds", "table_name": "tables", "transaction_id": "transactions"}
        for one in filters:
            column: tuple[str, ...] = getattr(one, "attribute", ())
            target = names.get(column[0]) if len(column) == 1 else None
            values = _values(one)
            if column == ("changed_at",) and type(one).__name__ in _WANT_A_VALUE:
                self.wanted = replace(self.wanted, timed=True)
            if target is None or values is None:
                continue
            before = getattr(self.wanted, target)
            chosen = values if before is None else before & values
            changed: dict[str, Any] = {target: chosen}
            self.wanted = replace(self.wanted, **changed)
        return filters


_WANT_A_VALUE = ("IsNotNull", "EqualTo", "In", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def _values(one: Any) -> frozenset[str] | None:
    """The values that an equality or IN filter lets through, or None for another filter."""
    kind = type(one).__name__
    if kind == "EqualTo":
        return frozenset([str(one.value)])
    if kind == "In":
        return frozenset(str(value) for value in one.value if value is not None)
    return None


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


def _plan(format: str, options: dict[str, str]) -> Plan:
    fmt = get_format(format)
    if "plan" in options:
        return fmt.plan_from_text(options["plan"])
    paths = [options["path"]] if "path" in options else json.loads(options.get("paths", "[]"))
    if not paths:
        raise OptionError(f"a path is wanted: spark.read.format({source_name(format)!r}).load(path)")
    known = {name.lower(): name for name in fmt.options}
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name.lower() in known:
            given[known[name.lower()]] = value
        elif name not in READER_OPTIONS:
            hint = nearest(name, fmt.options)
            raise OptionError(f"{name!r} is no option of {format}.{hint} There are: {', '.join(fmt.options)}.")
    return fmt.plan(list_files(paths), given, lambda function, tasks: [function(task) for task in tasks])


def _source_of(format: str) -> type[DataSource]:
    """The data source class of a format."""

    class CaptureSource(DataSource):
        """A capture as ``events``, one row per wire record.

        Name: ``cdcwb-`` and the format's name.

        Options: those of the format (``cdcwb.formats.get_format(name).options``), ``images=false`` for headers only,
        and ``mode``: PERMISSIVE, DROPMALFORMED or FAILFAST.

        Partitioning: a partition for each split; large binary files are split, text and packed files are not.

        Performance: used on its own, the source plans by a scan of all headers in one process before the first row;
        ``cdcwb.load`` does that in parallel and hands the plan over. ``images=false`` is several times as fast.

        Examples: ``spark.read.format("cdcwb-gbase8s").option("charset", "gb18030").load("capture/")``
        """

        @classmethod
        def name(cls) -> str:
            return source_name(format)

        def schema(self) -> StructType:
            options = dict(self.options)
            request = _request(options)
            if request is None:
                return from_arrow_schema(model.EVENTS)
            fmt = get_format(format)
            return from_arrow_schema(fmt.table_schema(_plan(format, options), request), prefer_timestamp_ntz=True)

        def reader(self, schema: StructType) -> DataSourceReader:
            options = dict(self.options)
            pushes = as_bool("pushdown", options.get("pushdown", "false"))
            return (_FilteringReader if pushes else _Reader)(format, options)

    return CaptureSource
