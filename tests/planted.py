"""Two captures of one story in two formats, of which the second has differences that are known: the story is altered
before it is encoded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import cdcwb_synth as synth
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.encoder import EncoderContext
from cdcwb_synth.model import Operation
from cdcwb_synth.qlik.kafka import KafkaEncoder, KafkaOptions
from cdcwb_synth.truth import Truth
from cdcwb_synth.workload import Change, Committed, Schema, Workload

__all__ = ["RULES", "Planted", "plant"]

DELAY = timedelta(seconds=40)
"""How much later than its commit a late transaction is in the target."""

RULES: dict[str, Any] = {
    "tables": {
        "101": "shop.customer",
        "102": "shop.orders",
        "103": "shop.order_line",
        "104": "shop.stock_move",
        "105": "shop.everything",
    },
    "columns": {"101.city": "town"},
    "types": {
        "104.weight": "float",
        "c_smallfloat": "float",
        "c_real": "float",
        "l_blob": "ignore",
        "l_clob": "ignore",
    },
    "late_after": "30s",
}
"""How the two write the same: gbase8s numbers its tables, floats of single precision and large objects are spelled in
two ways, and one column has another name."""

ALTERED = {
    "customer": ("full_name", "rating"),
    "orders": ("note", "total"),
    "order_line": ("goods", "quantity"),
    "stock_move": ("goods", "place"),
}
"""Columns in which planted changes differ, by table."""

Key = tuple[int, Any]


@dataclass
class Planted:
    """Where the captures are, and what was planted. ``changes``: those that the source committed; ``columns``: how many
    differ in each column, by the source's table and the column."""

    source: Path
    target: Path
    changes: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    late: int = 0
    columns: dict[tuple[str, str], int] = field(default_factory=dict)


def plant(folder: Path, changes: int, seed: int, each: int) -> Planted:
    """A gbase8s capture as the source, and messages of Qlik with ``each`` differences of every kind as the target: no
    two of one row, and none of a row whose key changes."""
    shared: dict[str, Any] = {
        "tables": 4,
        "schema_changes": 0,
        "truncates": 0,
        "rate": 50.0,
        "all_types_share": 0.01,
        "transaction_size": 4.0,
    }
    made = synth.generate("gbase8s", changes=changes, seed=seed, to=folder / "source", files=2, **shared)
    options = KafkaOptions.parse({**shared, "refresh_rows": 0})
    workload = Workload(options, changes, seed)
    story = [(item, workload.done) for item in workload.history(workload.events())]
    planted = Planted(made / "capture", folder / "target" / "capture")
    story = _altered(story, random.Random(seed), each, planted)
    for name in ("capture", "truth"):
        (folder / "target" / name).mkdir(parents=True)
    truth = Truth("qlik-kafka", folder / "target" / "truth")
    encoder = KafkaEncoder(EncoderContext(options, seed, changes, folder / "target", truth))
    for item, done in story:
        encoder.write(_renamed(item), done)
    encoder.finish()
    truth.close()
    return planted


Story = list[tuple[Schema | Change | Committed, int]]


def _place(version: TableVersion, name: str) -> int:
    return next(at for at, column in enumerate(version.columns) if column.name == name)


def _key(change: Change, row: Any) -> Key:
    return change.version.table.label, row[_place(change.version, change.version.table.key)]


def _keys(change: Change) -> set[Key]:
    return {_key(change, row) for row in (change.before, change.after) if row is not None}


def _altered(story: Story, rng: random.Random, each: int, planted: Planted) -> Story:
    commits = [item for item, _ in story if isinstance(item, Committed)]
    lives: dict[Key, list[tuple[Committed, Change]]] = {}
    moving: set[Key] = set()
    for item in commits:
        for change in item.changes:
            planted.changes += 1
            keys = _keys(change)
            if len(keys) > 1:
                moving |= keys
            for key in keys:
                lives.setdefault(key, []).append((item, change))
    free = [key for key in lives if key not in moving]
    rng.shuffle(free)
    used: set[Key] = set()
    planted.late = _delay(commits, lives, moving, used, rng, each)
    waiting = (key for key in free if key not in used)
    for _ in range(each):
        item, change = rng.choice(lives[next(waiting)])
        item.changes.remove(change)
        planted.missing += 1
    for number in range(each):
        item, change = rng.choice(lives[next(waiting)])
        item.changes.insert(item.changes.index(change) + 1, _another(change, 9_000_000 + number, twice=number % 2 == 0))
        planted.extra += 1
    for key in waiting:
        fit = [pair for pair in lives[key] if pair[1].after is not None and pair[1].version.table.name in ALTERED]
        if planted.different == each:
            break
        if fit:
            item, change = rng.choice(fit)
            name = rng.choice(ALTERED[change.version.table.name])
            item.changes[item.changes.index(change)] = _with_other(change, name)
            column = (str(change.version.table.label), name)
            planted.columns[column] = planted.columns.get(column, 0) + 1
            planted.different += 1
    return sorted(story, key=lambda entry: entry[0].at)


def _delay(
    commits: list[Committed],
    lives: dict[Key, list[tuple[Committed, Change]]],
    moving: set[Key],
    used: set[Key],
    rng: random.Random,
    each: int,
) -> int:
    """Make ``each`` changes late, by whole transactions none of whose rows is changed again until then."""
    late = 0
    for item in rng.sample(commits, len(commits)):
        keys = {key for change in item.changes for key in _keys(change)}
        size = len(item.changes)
        if not size or late + size > each or keys & moving or keys & used:
            continue
        others = [other.at for key in keys for other, _ in lives[key] if other is not item]
        if any(item.at <= at <= item.at + 2 * DELAY for at in others):
            continue
        used |= keys
        item.at += DELAY
        late += size
    return late


def _another(change: Change, number: int, twice: bool) -> Change:
    """The same change again, or a row that nobody inserted."""
    row = change.after or change.before
    assert row is not None
    if twice:
        return replace(change)
    place = _place(change.version, change.version.table.key)
    return replace(change, operation=Operation.INSERT, before=None, after=(*row[:place], number, *row[place + 1 :]))


def _with_other(change: Change, name: str) -> Change:
    """The same change with another value in a column."""
    assert change.after is not None
    place = _place(change.version, name)
    values: dict[str, tuple[Any, Any]] = {
        "total": (Decimal("7.25"), Decimal("8.25")),
        "rating": (7, 8),
        "quantity": (7, 8),
    }
    one, other = values.get(name, ("planted", "another"))
    new = other if change.after[place] == one else one
    return replace(change, after=(*change.after[:place], new, *change.after[place + 1 :]))


def _renamed(item: Schema | Change | Committed) -> Schema | Change | Committed:
    """What happens, in tables that have the target's names of columns."""
    if isinstance(item, Committed):
        return Committed(item.ordinal, item.at, [replace(c, version=_version(c.version)) for c in item.changes])
    return replace(item, version=_version(item.version))


def _version(version: TableVersion) -> TableVersion:
    if version.table.name != "customer":
        return version
    columns: Iterator[Any] = (replace(c, name="town") if c.name == "city" else c for c in version.columns)
    return replace(version, columns=tuple(columns))
