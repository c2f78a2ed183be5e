"""Many small files: each is opened a few times, and read together with its neighbours."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, TableRequest, run_here
from cdcwb.formats.files import list_files
from cdcwb.opening import check_capture
from tests.local import plan_of, read

_counting: list[tuple[str, Counter[str]]] = []


def _note(event: str, given: tuple[Any, ...]) -> None:
    if event == "open" and _counting:
        folder, opened = _counting[-1]
        if str(given[0]).startswith(folder):
            opened[str(given[0])] += 1


sys.addaudithook(_note)


@contextmanager
def opens(folder: Path) -> Iterator[Counter[str]]:
    """How often each file below a folder is opened."""
    _counting.append((f"{folder}/", Counter()))
    yield _counting[-1][1]
    _counting.pop()


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """Only so many more files may be open at once."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(one.name) for one in Path("/dev/fd").iterdir()) + more, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def in_pieces(folder: Path, lines: int) -> Path:
    """A copy of text files in which each has few lines."""
    target = folder.with_name("pieces")
    for path in list_files(folder):
        text = Path(path).read_bytes().splitlines(keepends=True)
        below = target / Path(path).relative_to(folder).with_suffix("")
        below.mkdir(parents=True)
        for first in range(0, len(text), lines):
            (below / f"{first}.txt").write_bytes(b"".join(text[first : first + lines]))
    return target


def many_small(name: str, folder: Path) -> Path:
    """A capture of some hundred small files."""
    if name == "gbase8s":
        synth.generate(name, changes=400, seed=5, to=folder, overwrite=True, files=200)
        return folder / "capture"
    synth.generate(name, changes=400, seed=5, to=folder, overwrite=True)
    return in_pieces(folder / "capture", 2)


@pytest.mark.parametrize(
    ("name", "known", "planned", "read_once"),
    [("qlik-kafka", 1, 4, 2), ("debezium", 1, 4, 2), ("gbase8s", 6, 9, 2)],
)
def test_a_file_is_opened_a_few_times_and_few_at_once(
    name: str, known: int, planned: int, read_once: int, tmp_path: Path
) -> None:
    capture = many_small(name, tmp_path)
    files = list_files(capture)
    assert len(files) > 150
    with opens(capture) as opened:
        reading = check_capture(capture).reading
    assert reading is not None
    assert reading.format.name == name
    assert min(opened.values()) <= known  # the first of a folder that begin alike are looked at closely
    assert opened.total() <= 8 * len(files)
    with few_descriptors(100), opens(capture) as opened:
        plan = reading.format.plan(reading.files, reading.options, run_here)
    assert opened.total() <= planned * len(files)
    with few_descriptors(100), opens(capture) as opened:
        batches = [b for split in range(len(plan.splits)) for b in reading.format.read(plan, split, EVERYTHING)]
    assert max(opened.values()) <= read_once
    assert len(batches) < len(files) / 8


@pytest.mark.parametrize("name", ["qlik-kafka", "debezium"])
def test_messages_of_small_files_are_the_same_together_and_apart(name: str, tmp_path: Path) -> None:
    synth.generate(name, changes=120, seed=5, to=tmp_path, overwrite=True)
    capture = in_pieces(tmp_path / "capture", 3)
    files = list_files(capture)
    for number, kind in enumerate(("damaged", "cut", "empty", "blank", "header")):
        path = Path(files[7 * number + 2])
        text = path.read_bytes()
        changed = {
            "damaged": text + b'{"no": message\n',
            "cut": text[: len(text) * 2 // 3],
            "empty": b"",
            "blank": b"\n\n" + text,
            "header": b"".join(b"Headers:a=1,b=2\t" + line for line in text.splitlines(keepends=True)),
        }
        path.write_bytes(changed[kind])
    rows = pa.table({"value": [path.read_bytes().splitlines()[0].split(b"\t")[-1] for path in map(Path, files[:2])]})
    pq.write_table(rows, Path(files[20]).with_name("0.parquet"))
    form, plan = get_format(name), plan_of(capture, format=name)
    together = read(capture, format=name)
    versions = form.table_versions(plan).to_pylist()
    tables = sorted({(row["schema_name"], row["table_name"]) for row in versions if row["table_name"]})
    requests = [TableRequest(f"{schema}.{table}" if schema else table) for schema, table in tables]
    typed = [[form.read_table(plan, at, one) for at in range(len(plan.splits))] for one in requests]
    joined = [pa.Table.from_batches(b for split in some for b in split) for some in typed]
    apart = form.plan_from_text(plan.to_text())
    apart.splits = [[part] for split in plan.splits for part in split]
    assert len(apart.splits) > 4 * len(plan.splits)
    batches = [b for split in range(len(apart.splits)) for b in form.read(apart, split, EVERYTHING)]
    assert together.equals(pa.Table.from_batches(batches))
    assert {"change", "malformed", "filler"} <= set(together["kind"].to_pylist())
    for request, rows in zip(requests, joined, strict=True):
        one_by_one = (b for split in range(len(apart.splits)) for b in form.read_table(apart, split, request))
        assert rows.equals(pa.Table.from_batches(one_by_one, rows.schema))
