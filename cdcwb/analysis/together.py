"""Several captures as one: the union of their tables, in which names begin with the name of the capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from cdcwb import model
from cdcwb.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cdcwb.capture import Capture

__all__ = ["Together"]

_NUMBERED: Final = ("position", "commit_position", "begin_position", "end_position", "first_position", "table_version")


class Together:
    """The union of captures by name: analyses of a capture apply to it.

    Values that are unique only within a capture get its name: transactions, positions and table versions as ``NAME/…``,
    tables as ``NAME.schema.table``. Files are numbered in the order of the captures. Positions of different captures
    cannot be compared: all of one precede all of the next.

    Raises OptionError without captures.
    """

    format = model.SEVERAL

    def __init__(self, captures: Mapping[str, Capture]) -> None:
        if not captures:
            raise OptionError("there is no capture to look at")
        self._captures = dict(captures)
        self._first: dict[str, int] = {}  # number of a capture's first file
        self.files: list[dict[str, Any]] = []
        for name, capture in self._captures.items():
            self._first[name] = len(self.files)
            self.files += [{**file, "file_index": file["file_index"] + self._first[name]} for file in capture.files]
        self.facts: dict[str, Any] = {}

    @property
    def spark(self) -> SparkSession:
        """The Spark session of all captures."""
        return next(iter(self._captures.values())).spark

    @property
    def has_images(self) -> bool:
        """False if one of them was loaded without values."""
        return all(capture.has_images for capture in self._captures.values())

    @property
    def committed_only(self) -> bool:
        """Whether all captures deliver only committed transactions."""
        return all(capture.committed_only for capture in self._captures.values())

    @property
    def stored(self) -> bool:
        """Whether all captures are read from saved tables."""
        return all(capture.stored for capture in self._captures.values())

    @property
    def events(self) -> DataFrame:
        """One row per wire record."""
        return self._all(lambda capture: capture.events)

    @property
    def headers(self) -> DataFrame:
        """``events`` without images and raw bytes."""
        return self._all(lambda capture: capture.headers)

    @property
    def changes(self) -> DataFrame:
        """One row per logical change."""
        return self._all(lambda capture: capture.changes)

    @property
    def change_headers(self) -> DataFrame:
        """``changes`` without images."""
        return self._all(lambda capture: capture.change_headers)

    @property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._all(lambda capture: capture.transactions)

    @property
    def table_versions(self) -> DataFrame:
        """One row per version of a table."""
        return self._all(lambda capture: capture.table_versions)

    @property
    def problems(self) -> DataFrame:
        """One row per problem."""
        return self._all(lambda capture: capture.problems)

    @property
    def detected(self) -> DataFrame:
        """The detected settings of each capture."""
        return self._all(lambda capture: capture.detected)

    def _all(self, view: Callable[[Capture], DataFrame]) -> DataFrame:
        frames = [self._named(view(capture), name) for name, capture in self._captures.items()]
        return reduce(lambda first, other: first.unionByName(other), frames)

    def _named(self, frame: DataFrame, name: str) -> DataFrame:
        prefix, base = F.lit(f"{name}/"), self._first[name]
        changed: dict[str, Column] = {name_: F.concat(prefix, F.col(name_)) for name_ in _NUMBERED}
        # the id of a transaction without its begin ends in its first position
        changed["transaction_id"] = F.concat(prefix, F.replace("transaction_id", F.lit("~"), F.lit(f"~{name}/")))
        schema = F.concat_ws(".", F.lit(name), F.col("schema_name"))
        changed["schema_name"] = F.when(F.col("table_name").isNotNull(), schema)
        changed["table"] = F.concat(F.lit(f"{name}."), F.col("table"))
        changed["tables"] = F.transform("tables", lambda table: F.concat(F.lit(f"{name}."), table))
        changed["scope"] = F.concat(F.lit(f"{name}: "), F.col("scope"))
        changed["file_index"] = F.col("file_index") + F.lit(base)
        changed["first_event"] = F.when(F.col("first_event").isNotNull(), _moved(F.col("first_event"), base))
        changed["source_events"] = F.transform("source_events", lambda event: _moved(event, base))
        return frame.withColumns({name_: column for name_, column in changed.items() if name_ in frame.columns})


def _moved(event: Column, base: int) -> Column:
    """The location of an event with the file number in the union."""
    index = (event["file_index"] + F.lit(base)).alias("file_index")
    rest = [event[field.name].alias(field.name) for field in model.SOURCE_EVENT if field.name != "file_index"]
    return F.struct(index, *rest)
