"""Tables of a database as Spark DataFrames, through Spark's JDBC source, read in ranges of ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import CaptureError, MissingDependencyError, OptionError, SourceDownError
from cdcwb.formats.dissector import detected_row
from cdcwb.live.addresses import Address, SqlTableName, hidden, jdbc_settings
from cdcwb.words import joined

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType


_FETCHED: Final = "10000"  # rows that a driver fetches at a time
_PARTITION: Final = 50_000  # rows of a Spark partition
_PARTITIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """A change table, a control table or an event log of a database. ``id_column`` is the record_id of an event log
    whose columns have other names; ``start`` (included) and ``end`` (excluded) are ids, or None."""

    address: Address
    name: SqlTableName
    settings: Mapping[str, str] = field(repr=False)
    id_column: str | None = None
    start: str | None = None
    end: str | None = None

    @classmethod
    def take(cls, url: str, options: dict[str, Any]) -> JdbcTable:
        """The table that options name, which are removed: ``dbtable``, ``start``, ``end``, ``id_column`` and
        ``client_config``. Raises OptionError."""
        address = Address.parse(url)
        settings = jdbc_settings(options.pop("client_config", None))
        name = options.pop("dbtable", None)
        if name is None:
            raise OptionError("expected the option dbtable, a table such as schema.table", path=address.url)
        address.driver(settings)
        points = {}
        for point, all_ids in (("start", "earliest"), ("end", "latest")):
            text = str(options.pop(point, None) or all_ids).strip()
            if text != all_ids and not (text.isascii() and text.isdecimal()):
                raise OptionError(
                    f"{point}: expected an id or the first digits of a change_seq for a database, found {text!r}"
                )
            points[point] = None if text == all_ids else text
        return cls(address, SqlTableName.parse(str(name)), settings, options.pop("id_column", None), **points)

    @property
    def packages(self) -> list[str]:
        """The Maven coordinates of the driver."""
        return self.address.packages(self.settings)

    def rows(self, spark: SparkSession) -> tuple[DataFrame, dict[str, Any]]:
        """Its rows in the order of their ids, up to the present last id, and the row of ``detected`` with this range.
        Every use reads the same range; rows without an id are not read."""
        with self.errors():
            fields = self._fields(spark)
            column = find_id(self.name.label, fields.names, self.id_column)
            if column is None:
                row = detected_row("ids", "none", "a control table has no id and is read from its beginning", False)
                return _in_order(self._read(spark, fields, None).coalesce(1), None), row
            is_text = fields[column].dataType.simpleString() == "string"
            name = self.address.quoted(column)
            points = ((">=", self.start), ("<", self.end))
            limits = [f"{name} {sign} {_literal(point, is_text)}" for sign, point in points if point is not None]
            where = f" WHERE {' AND '.join(limits)}" if limits else ""
            query = f"(SELECT COUNT({name}) AS n, MIN({name}) AS lo, MAX({name}) AS hi FROM {self._sql}{where}) q"
            texts = ", ".join(f"`{column_name}` STRING" for column_name in self._jdbc(spark, query).schema.names)
            number, low, high = self._jdbc(spark, query, customSchema=texts).collect()[0]
            predicates, value = ["1 = 0"], "none"
            if low is not None:
                low, high = (re.sub(r"^(-?\d+)\.0+$", r"\1", str(limit)) for limit in (low, high))
                parts = min(_PARTITIONS, -(-int(number) // _PARTITION))
                predicates, value = id_ranges(name, low, high, is_text, parts), f"{low} to {high}"
            evidence = f"column {column} of {self.name.label} at {self.address.url}, when the capture was opened"
            row = detected_row("ids", value, evidence, bool(limits))
            return _in_order(self._read(spark, fields, column, predicates), column), row

    @property
    def _sql(self) -> str:
        return self.name.sql(self.address)

    def _fields(self, spark: SparkSession) -> StructType:
        """The columns as Spark sees them."""
        return self._jdbc(spark, f"(SELECT * FROM {self._sql} WHERE 1 = 0) q").schema

    def _read(
        self, spark: SparkSession, fields: StructType, id_column: str | None, predicates: Sequence[str] | None = None
    ) -> DataFrame:
        """The rows, with a Spark partition for each of the conditions.

        Times and unbounded numbers have exactly the values of the database: the server casts them to text if its type
        for that is known, and times are converted back. Ids are not cast, so that conditions on them use an index.
        """
        as_text = self.address.vendor.as_text
        exact = [one.name for one in fields if _is_unbounded(one) or one.dataType.simpleString().startswith("time")]
        cast = [name for name in exact if as_text and name != id_column]
        source = self._sql
        if cast:
            names = {name: self.address.quoted(name) for name in fields.names}
            columns = [f"CAST({q} AS {as_text}) AS {q}" if name in cast else q for name, q in names.items()]
            source = f"(SELECT {', '.join(columns)} FROM {self._sql}) q"
        unbounded = [] if as_text else [f"{_escaped(one.name)} STRING" for one in fields if _is_unbounded(one)]
        options = {"customSchema": ", ".join(unbounded)} if unbounded else {}
        frame = self._jdbc(spark, source, predicates, **options)
        return frame.select(*[_column(one, one.name in cast, one.name == id_column) for one in fields])

    def _jdbc(
        self, spark: SparkSession, source: str, predicates: Sequence[str] | None = None, **options: str
    ) -> DataFrame:
        vendor = self.address.vendor
        properties = {
            **vendor.properties,
            **{name: value for name, value in self.settings.items() if name not in ("driver", "packages")},
            "driver": self.address.driver(self.settings),
            "fetchsize": _FETCHED,
            "preferTimestampNTZ": "true",
            **({"sessionInitStatement": vendor.first} if vendor.first else {}),
            **options,
        }
        if predicates is None:
            return spark.read.jdbc(self.address.spark_url, source, properties=properties)
        return spark.read.jdbc(self.address.spark_url, source, predicates=list(predicates), properties=properties)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises errors of the database as CaptureError."""
        try:
            yield
        except CaptureError:
            raise
        except Exception as reason:  # py4j's error, or Spark's
            error = failure(reason, self.address, self.settings)
            if error is None:
                raise
            raise error from None


# --- ids --------------------------------------------------------------------------------------------------------------


def find_id(table: str, columns: Sequence[str], chosen: str | None = None) -> str | None:
    """The column that orders the rows of a table: ``chosen``, or ``change_seq`` with the prefix of header columns, or
    ``record_id``; None for a control table. Raises OptionError."""
    from cdcwb.formats.qlik_change_table.layout import CONTROL_PREFIX, find_prefix

    by_name = {name.casefold(): name for name in columns}
    if chosen is not None:
        if chosen.casefold() not in by_name:
            raise OptionError(f"{table} has no column {chosen!r}; there are {joined(columns)}")
        return chosen if chosen in columns else by_name[chosen.casefold()]
    if table.rpartition(".")[2].casefold().startswith(CONTROL_PREFIX):
        return None
    prefix = find_prefix(columns)
    for name in ([] if prefix is None else [f"{prefix.text}change_seq"]) + ["record_id"]:
        if name.casefold() in by_name:
            return by_name[name.casefold()]
    raise OptionError(
        f"{table} is not a change table, a control table or an event log: expected a column header__change_seq or "
        f"record_id, found {joined(list(columns)[:20])}; name that of an event log with id_column="
    )


def _literal(value: str, is_text: bool) -> str:
    """An id in a condition. Raises CaptureError for a number with decimal places."""
    if is_text:
        return "'" + value.replace("'", "''") + "'"
    if not re.fullmatch(r"-?\d+", value):
        raise CaptureError(f"expected ids that are whole numbers, found {value!r}")
    return value


def id_ranges(column: str, low: str, high: str, is_text: bool, parts: int) -> list[str]:
    """Conditions that divide the ids from ``low`` to ``high`` into up to ``parts`` ranges of equal width, in order.

    Text ids are compared as texts; they are divided only if both limits are digits of the same length.
    """
    edges = [low]
    if all(re.fullmatch(r"-?\d+", limit) for limit in (low, high)) and (not is_text or len(low) == len(high)):
        first, width = int(low), int(high) + 1 - int(low)
        parts = max(1, min(parts, width))
        edges = [str(first + width * number // parts).zfill(len(low) if is_text else 0) for number in range(parts)]
    lows = [_literal(edge, is_text) for edge in edges]
    ends = [*(f"< {edge}" for edge in lows[1:]), f"<= {_literal(high, is_text)}"]
    return [f"{column} >= {edge} AND {column} {end}" for edge, end in zip(lows, ends, strict=True)]


# --- values -----------------------------------------------------------------------------------------------------------


def _escaped(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _is_unbounded(column: StructField) -> bool:
    """Whether a column has numbers without a limit of digits, or with more digits than Spark's decimals."""
    return column.dataType.simpleString().startswith("decimal(38,")


def _column(column: StructField, is_cast: bool, is_id: bool) -> Column:
    """A column with its type: timestamps that were cast to text become timestamps (a time of day stays text), numeric
    ids whole numbers. The infinite times of PostgreSQL become the first and the last timestamp, the zero dates of MySQL
    and MariaDB become NULL, as in their drivers."""
    from pyspark.sql import functions as F

    value = F.col(_escaped(column.name))
    is_time = column.dataType.simpleString().startswith("timestamp") and not column.metadata.get("logical_time_type")
    if is_cast and is_time:
        text = (
            F.when(value == "infinity", F.lit("9999-12-31 23:59:59.999999"))
            .when(value == "-infinity", F.lit("0001-01-01 00:00:00"))
            .when(~value.startswith("0000-00-00"), value)
        )
        return text.cast(column.dataType).alias(column.name)
    if is_id and _is_unbounded(column):
        return value.cast("decimal(38,0)").alias(column.name)
    return value


def _in_order(frame: DataFrame, id_column: str | None) -> DataFrame:
    """Rows of partitions whose ids rise, in the order of the ids; of one change_seq the before image precedes the after
    image, and the rest is ordered by all columns."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    names = [one.name for one in frame.schema if not isinstance(one.dataType, ArrayType | MapType | StructType)]
    first = [] if id_column is None else [id_column]
    operation = [name for name in names if name.casefold().endswith("change_oper")]
    return frame.sortWithinPartitions(*map(_escaped, dict.fromkeys([*first, *operation, *names])))


# --- errors -----------------------------------------------------------------------------------------------------------

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
_OF_SPARK: Final = ("org.apache.spark.", "py4j.")


def failure(
    reason: BaseException, address: Address | None = None, settings: Mapping[str, str] | None = None
) -> CaptureError | None:
    """The error of a database driver as one sentence: SourceDownError if the database does not answer,
    MissingDependencyError without a driver. None for an error that is not from a driver or, without an ``address``, not
    from Spark's JDBC source."""
    # newer versions of Spark omit the driver's message from their own; it is in the JVM's stack trace
    trace = getattr(reason, "_stackTrace", None) or getattr(reason, "_stacktrace", None) or ""
    settings = jdbc_settings() if settings is None else settings
    text = hidden(f"{reason}\n{trace}", settings)
    if address is None and not _OF_JDBC.search(text):
        return None
    path = None if address is None else address.url
    if _MISSING.search(text) and address is not None:
        sentence = f"this Spark session has no class {address.driver(settings)}: start it with the driver's package in "
        advice = tuple(f"spark.jars.packages={package}" for package in address.packages(settings)[:1])
        return MissingDependencyError(f"{sentence}spark.jars.packages", path=path, advice=advice)
    if unknown := re.search(r"\[UNRECOGNIZED_SQL_TYPE\] ([^.\n]+)", text):
        return CaptureError(f"Spark cannot read a column ({unknown[1]}); name a view that casts it to text", path=path)
    thrown = next((match for match in _THROWN.finditer(text) if not match["kind"].startswith(_OF_SPARK)), None)
    if thrown is None:
        return None
    message = re.split(r"\. (?=[A-Z])", re.sub(r"^(?:ERROR|FATAL): ", "", thrown["text"]).strip())[0].rstrip(".")
    if not _REFUSED.search(text) and _DOWN.search(text):
        return SourceDownError(f"the database does not answer ({message})", path=path)
    if "java.sql" in text or "SQL" in thrown["kind"] or "jdbc" in thrown["kind"].lower():
        return CaptureError(f"the database refuses ({message})", path=path)
    return None
