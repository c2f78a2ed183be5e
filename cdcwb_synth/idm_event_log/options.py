"""The options of generated event logs: what happens, how triggers log it, what holds the rows, and how the driver of
the truth is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdcwb_synth.choices import COMPRESSIONS, moment, option
from cdcwb_synth.story_options import StoryOptions, same

__all__ = ["ROW_CONTAINERS", "TEXT_CONTAINERS", "EventLogOptions"]

TEXT_CONTAINERS: Final = ("csv", "tsv", "csv_older_order")
"""Containers of delimited text."""

ROW_CONTAINERS: Final = ("parquet", "xlsx")
"""Containers in which places are row numbers; in the others they are bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogOptions(StoryOptions):
    """What happens, and what is logged of it. Shares are between 0 and 1. The same options, number of changes and seed
    give the same bytes."""

    # what happens
    all_types: bool = same("all_types", default=False)
    schema_changes: int = same("schema_changes", default=0)
    rows_before: int = option(20, "rows that every table has before anything is logged", 0, 1_000_000)
    compound_tables: int = option(1, "ordinary tables whose key has a second column", 0, 10_000)
    views: int = option(1, "ordinary tables that are logged through a view, which names its key pk_…", 0, 10_000)
    special_keys: float = option(0.05, "share of the keys with characters that need quotes", 0, 1)
    special_values: float = option(0.05, "share of the texts with characters that XML and CSV write in a way", 0, 1)
    # how triggers log it
    field_share: float = option(0.3, "weight of the tables logged a field at a time (types 1, 2, 3, 4)", 0, 1)
    field_query_share: float = option(0.2, "weight of the tables logged by query-back of fields (7, 8, 4)", 0, 1)
    row_query_share: float = option(0.25, "weight of the tables logged by query-back of rows (5, 6, 4)", 0, 1)
    mixed_share: float = option(0.25, "weight of the tables logged in several ways at once", 0, 1)
    remove_all_share: float = option(0.25, "share of the updates logged as type 3 instead of 2", 0, 1)
    naming: str = option("bare", "how tables are named: customer, or shop.customer", of=("bare", "qualified"))
    spelling_share: float = option(
        0.01, "share of the statements that spell a key in another way (capitals, quotes, blanks)", 0, 1
    )
    time_form: str = option("odbc", "how event_time is written", of=("odbc", "db2", "sybase"))
    fraction: int = option(3, "odbc and db2: digits of a second's fraction", 0, 9)
    null_user_share: float = option(0.1, "share of the statements without a perpetrator", 0, 1)
    loopback_share: float = option(0.05, "share of the statements that the driver itself ran", 0, 1)
    processed_share: float = option(0.05, "share of the statements that were processed: status S, W, E or F", 0, 1)
    odd_status_share: float = option(0.01, "share of the rows with another status, such as X or n", 0, 1)
    future_share: float = option(0.02, "share of the statements whose event_time lies in the future", 0, 1)
    damaged_share: float = option(0.01, "share of the rows that break a rule", 0, 1)
    interleaved_share: float = option(0.02, "share of the statements whose rows mix with those of the next", 0, 1)
    gap_share: float = option(0.02, "share of the rows with a gap in record_id before them", 0, 1)
    first_record: int = option(1, "the first record_id", 1, 10**15)
    # what holds the rows
    container: str = option("csv", "what holds the rows", of=(*TEXT_CONTAINERS, "sql", "jsonl", *ROW_CONTAINERS))
    header: bool = option(True, "csv, tsv, sql and xlsx: columns are named (csv_older_order: never)")
    null_text: str = option("", "csv and tsv: what stands for NULL, without quotes")
    sql_rows: int = option(1, "sql: most rows of a statement", 1, 10_000)
    log_table: str = option("indirect_process", "sql: name of the event log's table")
    shuffle: int = option(0, "rows are in no order within blocks of so many; 0: in that of record_id", 0, 10**9)
    files: int = option(1, "files that hold the rows", 1, 10_000)
    compression: str = option("none", "compression of every file (parquet: of its pages)", of=COMPRESSIONS)
    # settings of the truth
    driver_user: str = option("IDM_DRIVER", "database user of the driver")
    allow_loopback: bool = option(False, "the driver's own changes are published")
    future_events: bool = option(False, "rows are ordered by event_time, and those in the future wait")
    as_of: str = option("", "future_events: up to when rows are due, ISO 8601; empty: up to the last change")
    batch_size: int = option(1, "events of a document", 1, 128)
    query_limit: int = option(10_000, "rows of a polling cycle", 1, 10**9)
    precedence: str = option("cycle", "within what query-back rows take precedence", of=("cycle", "log"))
    type5: str = option("add", "what type 5 becomes", of=("add", "modify"))
    snapshot: str = option("csv", "what holds the tables' contents at the end", of=("csv", "parquet", "none"))
    missing_snapshots: int = option(0, "tables whose contents are not known, from the second on", 0, 10_000)
    overwrite: bool = same("overwrite")

    @property
    def weights(self) -> dict[str, float]:
        """The styles of logging and their weights."""
        return {
            "field": self.field_share,
            "field_query": self.field_query_share,
            "row_query": self.row_query_share,
            "mixed": self.mixed_share,
        }

    @property
    def is_older_order(self) -> bool:
        """Are columns in the order of versions 2 and 3.0?"""
        return self.container == "csv_older_order"

    @property
    def has_header(self) -> bool:
        """Are columns named?"""
        return self.header and not self.is_older_order

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = StoryOptions.contradictions(self)
        if not any(self.weights.values()):
            problems.append("no style of logging has a weight: at least one of " + ", ".join(_SHARES) + " is above 0")
        if self.processed_share + self.future_share + self.loopback_share > 1:
            problems.append("processed_share, future_share and loopback_share add up to more than 1")
        if self.as_of:
            if not self.future_events:
                problems.append("rows wait with future_events alone, so as_of is empty")
            try:
                moment(self.as_of)
            except ValueError:
                problems.append(f"as_of {self.as_of!r} is no ISO 8601 time such as 2025-03-23T08:00:00Z")
        if not self.header and self.container in ("jsonl", "parquet"):
            problems.append(f"container {self.container} always names its columns, so header is true")
        if self.compression != "none" and self.container == "xlsx":
            problems.append("container xlsx is compressed already, so compression is none")
        if self.null_text and self.container not in TEXT_CONTAINERS:
            problems.append(f"container {self.container} has a NULL of its own, so null_text is empty")
        if set(self.null_text) & set('",;\t\r\n'):
            problems.append("null_text holds no quote, delimiter or line end")
        if self.time_form == "db2" and self.fraction > 6:
            problems.append("time_form db2 has at most 6 digits of a second's fraction")
        if not self.driver_user or not self.log_table:
            problems.append("driver_user and log_table are not empty")
        return problems


_SHARES: Final = ("field_share", "field_query_share", "row_query_share", "mixed_share")
