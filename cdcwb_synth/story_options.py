"""Options of what happens, which are the same in all formats that deliver committed work."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from cdcwb_synth.catalogue import KINDS
from cdcwb_synth.choices import Choices, moment, option, start_problems
from cdcwb_synth.options import Options

__all__ = ["StoryOptions", "listed", "same", "unlisted"]

_SHARED: Final = {f.name: f for f in fields(Options)}


def same(name: str, **other: Any) -> Any:
    """An option that gbase8s has as well, with another default or limit where it needs one."""
    spec = _SHARED[name]
    return option(other.pop("default", spec.default), **(dict(spec.metadata) | other))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOptions(Choices):
    """What happens."""

    tables: int = same("tables")
    columns: int = same("columns")
    all_types: bool = same("all_types")
    all_types_share: float = same("all_types_share")
    null_share: float = same("null_share")
    update_share: float = same("update_share")
    delete_share: float = same("delete_share")
    idle_updates: float = same("idle_updates")
    rollback_share: float = same("rollback_share")
    undo_share: float = same("undo_share")
    transaction_size: float = same("transaction_size")
    empty_share: float = same("empty_share")
    concurrency: int = same("concurrency")
    open_transactions: int = same("open_transactions")
    schema_changes: int = same("schema_changes")
    schema_kinds: str = option(",".join(KINDS), f"kinds of schema changes, in turn: any of {', '.join(KINDS)}")
    truncates: int = same("truncates")
    rate: float = same("rate")
    start: str = same("start")

    @property
    def workload(self) -> Options:
        """The options of the workload; the parts of the story that reach no capture are generated too."""
        own = {f.name for f in fields(self)} & _SHARED.keys() - {"byte_order", "compression", "overwrite"}
        return Options(**{name: getattr(self, name) for name in own})

    @property
    def start_time(self) -> datetime:
        """``start`` as a time in UTC (a time without a zone is UTC)."""
        return moment(self.start)

    @property
    def kinds(self) -> tuple[str, ...]:
        """``schema_kinds`` one by one."""
        return listed(self.schema_kinds)

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = start_problems(self.start)
        if self.update_share + self.delete_share > 1:
            problems.append("update_share and delete_share add up to more than 1")
        problems += unlisted("schema_kinds", self.kinds, KINDS)
        if not self.kinds:
            problems.append("schema_kinds names none")
        return problems


def listed(text: str) -> tuple[str, ...]:
    """The parts of a text with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def unlisted(name: str, parts: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """What is wrong with the parts of an option of which each is one of the ``known``, at most once."""
    problems = [f"{name}: {part!r} is not one of {', '.join(known)}" for part in parts if part not in known]
    return problems + [f"{name} names {part} twice" for part in sorted({p for p in parts if parts.count(p) > 1})]
