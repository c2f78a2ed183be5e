"""The fast reader and the readable dissection say the same of every record, clean or damaged, and the ledger closes."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.gbase8s.events import VersionsInForce
from tests.local import ledger, plan_of, read
from tests.mutate import KINDS, mutate
from tests.reference.gbase8s.event import event

SAYS = (
    "record_type",
    "kind",
    "operation",
    "position",
    "commit_position",
    "changed_at",
    "before",
    "after",
    "headers",
    "problems",
)
_MAPS = ("before", "after", "headers")


def check(path: Path, **options: Any) -> tuple[int, int]:
    """Compares every event of a capture with the reference and its bytes with the ledger; returns the numbers of events
    and of malformed ones."""
    plan = plan_of(path, **options)
    batches = [
        batch for split in range(len(plan.splits)) for batch in get_format("gbase8s").read(plan, split, EVERYTHING)
    ]
    table = pa.Table.from_batches(batches, schema=model.EVENTS)
    closed = ledger(table)
    for entry in plan.files:
        assert closed.get(entry.path, 0) == entry.size
    versions = VersionsInForce(plan.shared, {})
    malformed = 0
    for row in table.to_pylist():
        if row["record_type"] is None:
            malformed += row["kind"] == "malformed"
            assert row["kind"] in ("malformed", "filler", "fragment")
            assert row["problems"] or row["headers"], "every gap has a reason"
            continue
        version = versions.known.get(tuple(map(int, (row["table_version"] or "0@0").split("@"))))
        expected = event(row["raw"], None if version is None else version.schema, plan.shared.settings)
        for name in SAYS:
            found = dict(row[name]) if name in _MAPS and row[name] is not None else row[name]
            assert found == expected[name], (name, row["file"], row["offset"])
    return table.num_rows, malformed


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All record types and all column types: 500 changes, two schema changes, three errors."""
    to = tmp_path_factory.mktemp("everything")
    return synth.generate(
        "gbase8s",
        changes=500,
        seed=11,
        to=to,
        errors=3,
        schema_changes=2,
        reversed_updates=0.05,
        all_types_share=0.3,
    )


# --- clean captures ---------------------------------------------------------------------------------------------------


def test_reader_and_dissection_agree_on_every_record_and_column_type(everything: Path) -> None:
    events, malformed = check(everything / "capture")
    assert events > 700
    assert malformed == 0
    types = read(everything / "capture").column("record_type").unique().to_pylist()
    assert len(types) == 12


@pytest.mark.parametrize("charset", ["gb18030", "gbk", "iso-8859-1"])
@pytest.mark.parametrize(("byte_order", "prefix_width"), [("little", 1), ("big", 2)])
def test_they_agree_in_other_character_sets_byte_orders_and_prefixes(
    tmp_path: Path, charset: str, byte_order: str, prefix_width: int
) -> None:
    synth.generate(
        "gbase8s", changes=100, seed=5, to=tmp_path, charset=charset, byte_order=byte_order, prefix_width=prefix_width
    )
    assert check(tmp_path / "capture", charset=charset)[1] == 0
    detected = {row["setting"]: row["value"] for row in plan_of(tmp_path / "capture", charset=charset).detected}
    assert detected["byte_order"] == byte_order
    assert detected["prefix_width"] == str(prefix_width)


def test_they_agree_where_settings_are_wrong(tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=100, seed=6, to=tmp_path, charset="gb18030", all_types_share=0.3)
    for options in ({}, {"charset": "ascii"}, {"byte_order": "big"}, {"prefix_width": 1}):
        check(tmp_path / "capture", **options)


def test_they_agree_where_schemas_are_missing_or_wrong(everything: Path, tmp_path: Path) -> None:
    rows = read(everything / "capture").to_pylist()
    file = tmp_path / "rows.bin"
    file.write_bytes(b"".join(row["raw"] for row in rows if row["kind"] != "schema"))
    check(file)
    # no label has its own columns: too many, too few, of other sizes, and of a type that nobody can decode
    check(
        file,
        schemas={
            101: "a integer, b integer, c varchar(9)",
            102: "a char(30), b varchar(3), c varchar(3), d varchar(3)",
            103: "a bigint, b lvarchar(300)",
            104: "a json, b integer",
            105: "a integer, b decimal(99,3)",
            106: "this is no column list",
        },
    )


def test_headers_only_are_the_same_events_without_images(everything: Path) -> None:
    whole = read(everything / "capture")
    bare = read(everything / "capture", Wanted(images=False))
    same = [name for name in whole.column_names if name not in ("before", "after", "raw", "problems")]
    assert bare.select(same).equals(whole.select(same))
    for name in ("before", "after", "raw"):
        assert bare.column(name).null_count == bare.num_rows


@pytest.mark.parametrize("split_size", [97, 1000, 65_536])
def test_splits_change_nothing(everything: Path, split_size: int) -> None:
    assert read(everything / "capture", split_size=split_size).equals(read(everything / "capture"))


# --- damaged captures -------------------------------------------------------------------------------------------------

SHAPES = ("binary", "binary", "binary", "hex", "xxd", "hexdump", "reads", "buffers")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small capture of three tables in every shape."""
    found = {}
    for shape in dict.fromkeys(SHAPES):
        to = tmp_path_factory.mktemp(shape)
        synth.generate("gbase8s", changes=60, seed=12, to=to, shape=shape, tables=2, buffer_size=512, errors=1)
        (file,) = (to / "capture").iterdir()
        found[shape] = file.read_bytes()
    return found


def _mutants(captures: dict[str, bytes], seed: int, count: int, folder: Path) -> None:
    """Checks so many damaged captures: pieces of each shape, in one file or in two, read in splits of any size."""
    rng = random.Random(seed)
    for number in range(count):
        shape = SHAPES[number % len(SHAPES)]
        data = captures[shape]
        start = rng.randrange(max(1, len(data) - 6000))
        piece = data[: rng.randrange(400, 4000)] if rng.random() < 0.6 else data[:900] + data[start : start + 3000]
        damaged = mutate(piece, rng)
        where = folder / f"{seed}-{number}"
        where.mkdir()
        cut = rng.randrange(len(damaged) + 1) if rng.random() < 0.2 else len(damaged)
        for name, part in (("a", damaged[:cut]), ("b", damaged[cut:])):
            (where / name).write_bytes(part)
        options = {"split_size": rng.choice((64, 500, 1 << 20)), "reads": rng.choice(("auto", "auto", "none", "line"))}
        try:
            check(where, **options)
        except Exception as reason:
            raise AssertionError(f"mutant {number} of seed {seed} ({shape}) with {options}, in {where}") from reason


def test_they_agree_on_damaged_captures_and_nothing_is_lost(captures: dict[str, bytes], tmp_path: Path) -> None:
    _mutants(captures, 1, 120, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 120))
def test_ten_thousand_damaged_captures(captures: dict[str, bytes], tmp_path: Path, seed: int) -> None:
    _mutants(captures, seed, 500, tmp_path)


def _records(file: Path) -> list[tuple[int, int]]:
    """Where the records of a binary capture begin and end."""
    table = read(file, Wanted(images=False), reads="none")
    rows = zip(*(table.column(name).to_pylist() for name in ("record_type", "offset", "length")), strict=True)
    return [(offset, offset + length) for kind, offset, length in rows if kind is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_records_before_and_behind_damage_are_still_read(captures: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    clean = captures["binary"]
    file = tmp_path / "stream.bin"
    file.write_bytes(clean)
    whole = _records(file)
    rng = random.Random(kind)
    for _ in range(8):
        damaged = KINDS[kind](clean, rng)
        file.write_bytes(damaged)
        same = min(len(clean), len(damaged))
        before = next((at for at in range(same) if clean[at] != damaged[at]), same)
        behind = next((at for at in range(same - before) if clean[-1 - at] != damaged[-1 - at]), same - before)
        moved = len(damaged) - len(clean)
        found = set(_records(file))
        first = {(start, end) for start, end in whole if end <= before}
        last = {(start + moved, end + moved) for start, end in whole if start >= len(clean) - behind}
        assert first - found == set()
        assert last - found == set()


@pytest.mark.parametrize("field", [0, 4], ids=["header_size", "payload_size"])
def test_impossible_lengths_everywhere_cost_nothing_but_their_records(everything: Path, field: int) -> None:
    # every tenth record says that it has 4 GiB: the others are read, and memory stays in the class of the file's size
    (clean,) = (everything / "capture").iterdir()
    data = bytearray(clean.read_bytes())
    rows = read(clean).to_pylist()
    victims = [row for row in rows[1::10] if row["kind"] != "schema"]
    for row in victims:
        data[row["offset"] + field : row["offset"] + field + 4] = b"\xff\xff\xff\xff"
    file = clean.parent.parent / f"damaged-{field}.bin"
    file.write_bytes(data)
    tracemalloc.start()
    table = read(file)
    peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes()
    tracemalloc.stop()
    ledger(table)
    lost = {row["offset"] for row in victims}
    assert [row["raw"] for row in table.to_pylist() if row["record_type"]] == [
        row["raw"] for row in rows if row["offset"] not in lost
    ]
    assert peak < 100 * len(data)
