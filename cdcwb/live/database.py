"""Tables of a database as Spark DataFrames, through Spark's JDBC source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import CaptureError, MissingDependencyError, SourceDownError
from cdcwb.formats.dissector import detected_row
from cdcwb.live.jdbc import (
    Address,
    Id,
    TableKind,
    TableName,
    connection,
    find_id,
    hidden,
    jdbc_settings,
    literal,
    ranges,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

__all__ = ["Bounds", "Table", "failure"]

FETCHED: Final = 10_000
"""Rows that a driver fetches at a time."""

_PARTITION: Final = 50_000  # rows of a Spark partition of a table that is read directly
_PARTITIONS: Final = 1000
_MISSING: Final = re.compile(r"ClassNotFoundException|No suitable driver")
_REFUSED: Final = re.compile(
    r"authentication failed|no password was provided|Access denied|Login failed|login denied|ORA-01017|role .* does "
    r"not exist|pg_hba\.conf|Incorrect password",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"java\.net\.\w+Exception|java\.io\.EOFException|SQL(?:NonTransient|Transient)?ConnectionException|"
    r"SQLRecoverableException|connection.{0,60}(?:refused|reset|closed|timed out|failed)|connection attempt failed|"
    r"communications link failure|could not connect|socket (?:fail|error)|terminating connection|starting up|"
    r"shutting down|recovery mode|server shutdown|i/o error|network adapter|too many (?:clients|connections)",
    re.IGNORECASE,
)
_THROWN: Final = re.compile(r"(?:^|[:\s])(?P<kind>(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)): (?=(?P<text>[^\n]+))")
_OF_JDBC: Final = re.compile(r"execution\.datasources\.jdbc|FAILED_JDBC")
_WRAPPERS: Final = ("org.apache.spark.", "py4j.")


def failure(
    reason: BaseException, address: Address | None = None, settings: Mapping[str, str] | None = None
) -> CaptureError | None:
    """The error of a database driver as one sentence: SourceDownError if the database does not answer,
    MissingDependencyError without a driver. None for an error that is not from a driver or, without an ``address``, not
    from Spark's JDBC source."""
    # newer versions of Spark omit the driver's message from their own; it is in the JVM's stack trace
    trace = getattr(reason, "_stackTrace", None) or getattr(reason, "_stacktrace", None) or ""
    text = hidden(f"{reason}\n{trace}", jdbc_settings() if settings is None else settings)
    if address is None and not _OF_JDBC.search(text):
        return None
    path = None if address is None else address.url
    thrown = [match for match in _THROWN.finditer(text) if not match["kind"].startswith(_WRAPPERS)]
    if _MISSING.search(text) and address is not None:
        settings = settings or {}
        driver = address.driver(settings)
        advice = tuple(f"spark.jars.packages={package}" for package in address.packages(settings)[:1])
        return MissingDependencyError(
            f"this Spark session has no class {driver}: start it with the driver's package in spark.jars.packages",
            path=path,
            advice=advice,
        )
    unknown = re.search(r"\[UNRECOGNIZED_SQL_TYPE\] ([^.\n]+)", text)
    if unknown:
        return CaptureError(f"Spark cannot read a column ({unknown[1]}); name a view that casts it to text", path=path)
    if not thrown:
        return None
    message = re.sub(r"^(?:ERROR|FATAL): ", "", thrown[0]["text"]).strip()
    message = re.split(r"\. (?=[A-Z])", message)[0].rstrip(".")
    if not _REFUSED.search(text) and _DOWN.search(text):
        return SourceDownError(f"the database does not answer ({message})", path=path)
    if "java.sql" in text or "SQL" in thrown[0]["kind"] or "jdbc" in thrown[0]["kind"].lower():
        return CaptureError(f"the database refuses ({message})", path=path)
    return None


@contextmanager
def database_errors(address: Address, settings: Mapping[str, str]) -> Iterator[None]:
    """Raises errors of the database as CaptureError."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as reason:  # py4j's error, or Spark's
        error = failure(reason, address, settings)
        if error is None:
            raise
        raise error from None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The number of rows in a range of ids, and its lowest and highest id (None: it has no rows)."""

    rows: int
    low: str | None = None
    high: str | None = None


@dataclass
class Table:
    """A table of a database, read through a session. ``is_parent``: a table to which an event log refers; its rows have
    no order."""

    spark: SparkSession
    address: Address
    name: TableName
    settings: Mapping[str, str] = field(repr=False)
    given_id: str | None = None
    is_parent: bool = False

    @cached_property
    def fields(self) -> StructType:
        """The columns as Spark sees them."""
        query = f"(SELECT * FROM {self.name.sql(self.address)} WHERE 1 = 0) q"
        with database_errors(self.address, self.settings):
            return self._read(query).schema

    @cached_property
    def id(self) -> Id:
        """The column that orders its rows."""
        if self.is_parent:
            return Id(TableKind.PARENT, None)
        return find_id(self.name, self.fields.names, self.given_id)

    @property
    def has_text_ids(self) -> bool:
        """Whether its ids are texts."""
        return self.id.column is not None and self.fields[self.id.column].dataType.simpleString() == "string"

    def bounds(self, condition: str | None = None) -> Bounds:
        """The number of rows for which a condition holds, with their lowest and highest id."""
        where = f" WHERE {condition}" if condition else ""
        wanted = "COUNT(*) AS n"
        if self.id.column is not None:
            column = self.address.quoted(self.id.column)
            wanted = f"COUNT({column}) AS n, MIN({column}) AS lo, MAX({column}) AS hi"
        query = f"(SELECT {wanted} FROM {self.name.sql(self.address)}{where}) q"
        with database_errors(self.address, self.settings):
            plain = self._read(query)
            texts = ", ".join(f"`{name}` STRING" for name in plain.schema.names)
            row = self._read(query, customSchema=texts).collect()[0]
        if self.id.column is None or not int(row[0]):
            return Bounds(int(row[0]))
        return Bounds(int(row[0]), _integer_text(row[1]), _integer_text(row[2]))

    def compared(self, operator: str, value: str) -> str:
        """The condition that ids are ``<``, ``<=``, ``>`` or ``>=`` a value."""
        return f"{self.address.quoted(self.id.column or '')} {operator} {literal(value, self.has_text_ids)}"

    def within(self, low: str, high: str, parts: int) -> list[str]:
        """Conditions of up to ``parts`` ranges of equal width that cover the ids from ``low`` to ``high``, in order."""
        return ranges(self.address.quoted(self.id.column or ""), low, high, self.has_text_ids, parts)

    def rows(self, predicates: Sequence[str] | None = None) -> DataFrame:
        """Its rows, with a Spark partition for each of the conditions; None: all rows.

        Times and unbounded numbers have exactly the values of the database: the server casts them to text if its type
        for that is known, and times are converted back.
        """
        by_driver = [column for column in self.fields if _is_unbounded(column) and not self.address.vendor.as_text]
        schema = ", ".join(f"{_name(column.name)} STRING" for column in by_driver)
        options = {"customSchema": schema} if schema else {}
        with database_errors(self.address, self.settings):
            frame = self._read(self._source(), predicates, **options)
        return frame.select(*[self._column(field) for field in self.fields])

    def _column(self, field: StructField) -> Column:
        """A column with its type: times that were cast to text become times, numeric ids whole numbers."""
        from pyspark.sql import functions as F

        column = F.col(_name(field.name))
        if self._is_cast(field) and _is_time(field):
            return _time(column, field).alias(field.name)
        if field.name == self.id.column and _is_unbounded(field):
            return column.cast("decimal(38,0)").alias(field.name)
        return column

    def _source(self) -> str:
        """The table in a statement; a query if the server casts some columns to text."""
        table = self.name.sql(self.address)
        if not any(self._is_cast(field) for field in self.fields):
            return table
        columns = []
        for column in self.fields:
            name = self.address.quoted(column.name)
            cast = f"CAST({name} AS {self.address.vendor.as_text}) AS {name}"
            columns.append(cast if self._is_cast(column) else name)
        return f"(SELECT {', '.join(columns)} FROM {table}) q"

    def _is_cast(self, field: StructField) -> bool:
        """Whether the server casts the column to text. Ids are not cast, so that conditions on them use an index."""
        is_exact = field.dataType.simpleString().startswith("time") or _is_unbounded(field)
        return bool(self.address.vendor.as_text) and is_exact and field.name != self.id.column

    def frozen(self, start: str | None, end: str | None) -> tuple[DataFrame, dict[str, Any]]:
        """The rows from ``start`` until ``end`` (None: all), in the order of ids, up to the present last id, and the
        row of ``detected`` with this range. Every use reads the same range."""
        if self.id.column is None:
            row = detected_row("ids", "none", "a control table has no id and is read from its beginning", False)
            return self.in_order(self.rows().coalesce(1)), row
        conditions = [self.compared(">=", start)] if start is not None else []
        conditions += [self.compared("<", end)] if end is not None else []
        bounds = self.bounds(" AND ".join(conditions) or None)
        if bounds.low is None or bounds.high is None:
            predicates, value = ["1 = 0"], "none"
        else:
            predicates = self.within(bounds.low, bounds.high, min(_PARTITIONS, -(-bounds.rows // _PARTITION)))
            value = f"{bounds.low} to {bounds.high}"
        evidence = f"column {self.id.column} of {self.name.label} at {self.address.url}, when the capture was opened"
        row = detected_row("ids", value, evidence, bool(conditions))
        return self.in_order(self.rows(predicates)), row

    def in_order(self, frame: DataFrame) -> DataFrame:
        """Rows of partitions whose ids rise, in the order of the ids; of one change_seq the before image precedes the
        after image, and the rest is ordered by all columns."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        names = [f.name for f in frame.schema if not isinstance(f.dataType, ArrayType | MapType | StructType)]
        first = [self.id.column] if self.id.column else []
        oper = [name for name in names if name.casefold().endswith("change_oper")]
        ordered = dict.fromkeys([*first, *oper, *names])
        return frame.sortWithinPartitions(*[_name(name) for name in ordered])

    def _read(self, table: str, predicates: Sequence[str] | None = None, **options: str) -> DataFrame:
        vendor = self.address.vendor
        properties = {
            **vendor.properties,
            **connection(self.settings),
            "driver": self.address.driver(self.settings),
            "fetchsize": str(FETCHED),
            "preferTimestampNTZ": "true",
            **({"sessionInitStatement": vendor.first} if vendor.first else {}),
            **options,
        }
        url = self.address.spark_url
        if predicates is None:
            return self.spark.read.jdbc(url, table, properties=properties)
        return self.spark.read.jdbc(url, table, predicates=list(predicates), properties=properties)


def _integer_text(value: Any) -> str | None:
    """An id as text; whole numbers without decimal places."""
    text = None if value is None else str(value)
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text) if text else text


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _is_unbounded(field: StructField) -> bool:
    """Whether a column has numbers without a limit of digits, or with more digits than Spark's decimals."""
    return field.dataType.simpleString().startswith("decimal(38,")


def _is_time(field: StructField) -> bool:
    """Whether a column has timestamps; a time of day stays text."""
    return field.dataType.simpleString().startswith("timestamp") and not field.metadata.get("logical_time_type")


def _time(column: Column, field: StructField) -> Column:
    """A timestamp from the text of a server. The infinite ones of PostgreSQL become the first and the last timestamp,
    the zero dates of MySQL and MariaDB become NULL, as in their drivers."""
    from pyspark.sql import functions as F

    text = (
        F.when(column == "infinity", F.lit("9999-12-31 23:59:59.999999"))
        .when(column == "-infinity", F.lit("0001-01-01 00:00:00"))
        .when(~column.startswith("0000-00-00"), column)
    )
    return text.cast(field.dataType)
