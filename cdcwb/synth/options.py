"""The options of :func:`cdcwb.synth.generate`: what each means, its default, and how a wrong one is reported."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

from cdcwb.errors import OptionError

__all__ = ["COMPRESSIONS", "OPTIONS", "SHAPES", "Options"]

SHAPES: Final = ("binary", "hex", "xxd", "hexdump", "reads", "buffers")
COMPRESSIONS: Final = ("none", "gzip", "zstd")


def _option(
    default: Any, meaning: str, low: float | None = None, high: float | None = None, of: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "of": of})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a generated capture is like. Shares are between 0 and 1; counts are upper limits where the number of changes
    is too small for them. The same options, number of changes and seed give the same bytes."""

    # what happens
    tables: int = _option(5, "ordinary tables (5 to 8 columns each)", 1, 10_000)
    columns: int = _option(0, "columns of every ordinary table; 0: as designed", 0, 1000)
    all_types: bool = _option(True, "one more table that has every column type, with extreme values and NULLs")
    all_types_share: float = _option(0.05, "share of the changes that go to that table", 0, 1)
    null_share: float = _option(0.06, "share of NULLs in nullable columns", 0, 1)
    update_share: float = _option(0.3, "share of updates among the changes", 0, 1)
    delete_share: float = _option(0.15, "share of deletes among the changes", 0, 1)
    idle_updates: float = _option(0.01, "share of the updates that change no value", 0, 1)
    reversed_updates: float = _option(
        0.0, "share of the updates whose after image comes first (fragmented tables)", 0, 1
    )
    split_updates: float = _option(
        0.02, "share of the updates with another transaction's record between their halves", 0, 1
    )
    rollback_share: float = _option(0.05, "share of the transactions that are rolled back", 0, 1)
    undo_share: float = _option(
        0.1, "share of the transactions that go back to a savepoint, mostly followed by more work", 0, 1
    )
    transaction_size: float = _option(
        8.0, "mean number of changes of a transaction; a few are forty times as large", 1, 1e9
    )
    empty_share: float = _option(0.005, "share of the transactions without a change", 0, 0.5)
    concurrency: int = _option(4, "how many transactions are open at once, at most", 1, 10_000)
    reuse_ids: bool = _option(True, "ids of ended transactions are given out again")
    open_transactions: int = _option(1, "transactions without an end", 0, 10_000)
    missing_begins: int = _option(0, "transactions whose begin lies before the capture", 0, 10_000)
    schema_changes: int = _option(1, "times a table gets other columns", 0, 10_000)
    repeat_schemas: int = _option(0, "times all table schemas are sent again, unchanged", 0, 10_000)
    truncates: int = _option(1, "truncated tables", 0, 10_000_000)
    with_timeouts: bool = _option(True, "idle markers: one for about every 500 changes, at least two")
    errors: int = _option(0, "errors reported by the source", 0, 10_000)
    rate: float = _option(200.0, "mean changes per second", 0.001, 1e6)
    start: str = _option("2025-03-23T08:00:00Z", "time of the first event, ISO 8601")
    # how it is written
    charset: str = _option("utf-8", "character set of texts (a Python codec name that contains ASCII)")
    byte_order: str = _option("little", "byte order of the size words", of=("little", "big"))
    prefix_width: int = _option(2, "bytes of the length before a VARCHAR", 1, 2)
    table_names: bool = _option(False, "the truth names tables as labels.json does; else by label number")
    files: int = _option(1, "files that continue one stream", 1, 100_000)
    shape: str = _option("binary", "how the files hold the records", of=SHAPES)
    cut_records: bool = _option(False, "each file but the last ends inside a record, which continues in the next")
    buffer_size: int = _option(1024, "reads and buffers: bytes of the read buffer", 64, 1 << 24)
    ghosts: bool = _option(True, "reads and buffers: stale tails begin with a whole old record now and then")
    group: int = _option(4, "hex and reads: bytes between two blanks; 0: no blanks", 0, 1 << 20)
    line_bytes: int = _option(32, "hex: bytes in a line", 1, 1 << 20)
    notes: bool = _option(False, "hex and reads: remarks between the digits")
    compression: str = _option("none", "compression of every file", of=COMPRESSIONS)
    overwrite: bool = _option(False, "replace a capture that is already there")

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Options:
        """Options from keywords; texts are taken as a command line gives them ("8", "0.3", "true").

        Raises OptionError with every problem in one message: unknown names with their nearest match, values of the
        wrong type, out of range or not in the list.
        """
        known = {f.name: f for f in fields(cls)}
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.4)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
                problems.append(f"unknown option {name!r}; {hint}")
                continue
            spec = known[name]
            try:
                values[name] = _value(name, value, type(spec.default), spec.metadata)
            except ValueError as problem:
                problems.append(str(problem))
        if not problems:
            options = cls(**values)
            problems = options._contradictions()
        if problems:
            raise OptionError("; ".join(problems))
        return options

    @property
    def start_time(self) -> datetime:
        """``start`` as a time in UTC (a time without a zone is UTC)."""
        time = datetime.fromisoformat(self.start)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)

    def _contradictions(self) -> list[str]:
        problems = []
        try:
            if bytes(range(32, 127)).decode("ascii").encode(self.charset) != bytes(range(32, 127)):
                problems.append(
                    f"charset {self.charset!r} writes ASCII in its own way; one that contains ASCII is needed"
                )
        except (LookupError, UnicodeError):
            problems.append(f"charset {self.charset!r} is not known")
        try:
            if not 1970 < self.start_time.year < 9000:
                problems.append(f"start {self.start!r} is not between the years 1971 and 8999")
        except ValueError:
            problems.append(f"start {self.start!r} is no ISO 8601 time such as 2025-03-23T08:00:00Z")
        if self.update_share + self.delete_share > 1:
            problems.append("update_share and delete_share add up to more than 1")
        return problems


def _value(name: str, value: object, wanted: type, limits: Mapping[str, Any]) -> object:
    """``value`` as ``wanted``; ValueError with a sentence when it cannot be that."""
    result: Any = value
    if wanted is bool:
        if isinstance(value, str) and value.lower() in ("true", "yes", "1", "false", "no", "0"):
            result = value.lower() in ("true", "yes", "1")
        elif not isinstance(value, bool):
            raise ValueError(f"option {name!r} is true or false, not {value!r}")
    elif wanted is str:
        if not isinstance(value, str):
            raise ValueError(f"option {name!r} is a text, not {value!r}")
    else:
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError
            result = wanted(value)
            if not isinstance(value, str) and result != value:
                raise ValueError
        except (ValueError, OverflowError):
            kind = "a whole number" if wanted is int else "a number"
            raise ValueError(f"option {name!r} is {kind}, not {value!r}") from None
    if limits["of"] and result not in limits["of"]:
        near = difflib.get_close_matches(result, limits["of"], 1, 0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(limits['of'])}"
        raise ValueError(f"option {name!r} cannot be {result!r}; {hint}")
    if limits["low"] is not None and not limits["low"] <= result <= limits["high"]:
        raise ValueError(f"option {name!r} is between {limits['low']:g} and {limits['high']:g}, not {result!r}")
    return result


OPTIONS: Final[dict[str, tuple[object, str]]] = {f.name: (f.default, f.metadata["meaning"]) for f in fields(Options)}
"""Every option: its default and what it means."""
