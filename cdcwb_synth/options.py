"""The options of :func:`cdcwb_synth.generate` for ``gbase8s``, among them all that say what happens in a workload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdcwb_synth.choices import COMPRESSIONS, Choices, described, moment, option, start_problems

__all__ = ["COMPRESSIONS", "OPTIONS", "SHAPES", "Options"]

SHAPES: Final = ("binary", "hex", "xxd", "hexdump", "reads", "buffers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Choices):
    """What a generated capture is like. Shares are between 0 and 1; counts are upper limits where the number of changes
    is too small for them. The same options, number of changes and seed give the same bytes."""

    # what happens
    tables: int = option(5, "ordinary tables (5 to 8 columns each)", 1, 10_000)
    columns: int = option(0, "columns of every ordinary table; 0: as designed", 0, 1024)
    all_types: bool = option(True, "one more table that has every column type, with extreme values and NULLs")
    all_types_share: float = option(0.05, "share of the changes that go to that table", 0, 1)
    null_share: float = option(0.06, "share of NULLs in nullable columns", 0, 1)
    update_share: float = option(0.3, "share of updates among the changes", 0, 1)
    delete_share: float = option(0.15, "share of deletes among the changes", 0, 1)
    idle_updates: float = option(0.01, "share of the updates that change no value", 0, 1)
    reversed_updates: float = option(
        0.0, "share of the updates whose after image comes first (fragmented tables)", 0, 1
    )
    split_updates: float = option(
        0.02, "share of the updates with another transaction's record between their halves", 0, 1
    )
    rollback_share: float = option(0.05, "share of the transactions that are rolled back", 0, 1)
    undo_share: float = option(
        0.1, "share of the transactions that go back to a savepoint, mostly followed by more work", 0, 1
    )
    transaction_size: float = option(
        8.0, "mean number of changes of a transaction; a few are forty times as large", 1, 1e9
    )
    empty_share: float = option(0.005, "share of the transactions without a change", 0, 0.5)
    concurrency: int = option(4, "how many transactions are open at once, at most", 1, 100_000)
    reuse_ids: bool = option(True, "ids of ended transactions are given out again")
    open_transactions: int = option(1, "transactions without an end", 0, 10_000)
    missing_begins: int = option(0, "transactions whose begin precedes the capture", 0, 10_000)
    schema_changes: int = option(1, "times a table gets other columns", 0, 10_000)
    repeat_schemas: int = option(0, "times all table schemas are sent again, unchanged", 0, 10_000)
    truncates: int = option(1, "truncated tables", 0, 10_000_000)
    with_timeouts: bool = option(True, "idle markers: one for about every 500 changes, at least two")
    errors: int = option(0, "errors reported by the source", 0, 10_000)
    rate: float = option(200.0, "mean changes per second", 0.001, 1e6)
    start: str = option("2025-03-23T08:00:00Z", "time of the first event, ISO 8601")
    # how it is written
    charset: str = option("utf-8", "character set of texts (a Python codec name that contains ASCII)")
    byte_order: str = option("little", "byte order of the size words", of=("little", "big"))
    prefix_width: int = option(2, "bytes of the length before a VARCHAR", 1, 2)
    table_names: bool = option(
        False, "labels.json is where readers find it, and the truth has the tables' names; else by label number"
    )
    files: int = option(1, "files that continue one stream", 1, 100_000)
    shape: str = option("binary", "how the files hold the records", of=SHAPES)
    cut_records: bool = option(False, "each file but the last ends inside a record, which continues in the next")
    buffer_size: int = option(1024, "reads and buffers: bytes of the read buffer", 64, 1 << 24)
    ghosts: bool = option(True, "reads and buffers: stale tails begin with a whole old record now and then")
    group: int = option(4, "hex and reads: bytes between two blanks; 0: no blanks", 0, 1 << 20)
    line_bytes: int = option(32, "hex: bytes in a line", 1, 1 << 20)
    notes: bool = option(False, "hex and reads: remarks between the digits")
    compression: str = option("none", "compression of every file", of=COMPRESSIONS)
    overwrite: bool = option(False, "replace a capture that is already there")

    @property
    def start_time(self) -> datetime:
        """``start`` as a time in UTC (a time without a zone is UTC)."""
        return moment(self.start)

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = []
        try:
            if bytes(range(32, 127)).decode("ascii").encode(self.charset) != bytes(range(32, 127)):
                problems.append(
                    f"charset {self.charset!r} writes ASCII in its own way; one that contains ASCII is needed"
                )
        except (LookupError, UnicodeError):
            problems.append(f"charset {self.charset!r} is not known")
        problems += start_problems(self.start)
        if self.update_share + self.delete_share > 1:
            problems.append("update_share and delete_share add up to more than 1")
        return problems


OPTIONS: Final[dict[str, tuple[object, str]]] = described(Options)
"""Every option: its default and what it means."""
