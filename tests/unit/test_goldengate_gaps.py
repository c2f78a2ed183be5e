"""Bytes of a trail that are missing in a transaction: the same problem of the same record, wherever splits and files
are cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.formats.dissector import Wanted
from cdcwb_synth import generate
from tests.local import read
from tests.unit.test_goldengate_reader import record

METADATA, RESTART_OK, RESTART_ABEND = 170, 151, 150
OUTSIDE = (METADATA, RESTART_OK, RESTART_ABEND)
SIZE = 50
"""Bytes of each record in the trail."""
SPLITS = (700,)

Gaps = list[tuple[str | None, str]]


class Step(NamedTuple):
    """A record. ``kind``: its TransInd, or the type of a record that is in no transaction. ``lost``: bytes of the trail
    that are missing before it. ``known``: its length is printed. ``opens``: it is the first of a trail file. ``cut``:
    its text ends before its RBA."""

    kind: int
    lost: int = 0
    known: bool = True
    opens: bool = False
    cut: bool = False


def trail_of(steps: list[Step]) -> tuple[list[tuple[str, str]], Gaps]:
    """The line that names the trail file and the text of each record; the position and the sentence of each gap."""
    texts: list[tuple[str, str]] = []
    found: Gaps = []
    number, rba, expected = 3, 100, -1
    size, first = 0, ""
    for step in steps:
        if step.opens and texts:
            if first.startswith("RBA"):
                first = f"position {number:010d}{int(first[4:]):010d}"
            number, rba, expected = number + 1, 100, -1
        rba += step.lost
        if 0 <= expected < rba and not step.cut:
            size, first = size + rba - expected, first or f"RBA {expected}"
        io, trans = (step.kind, 3) if step.kind in OUTSIDE else (5, step.kind)
        text = record(rba, trans, io=io)
        if step.cut:
            text = text.split("\n\n")[0] + "\n\n"
        elif step.known:
            text = f"TokenID x47 'G' Record Header    Info x01  Length {SIZE:4d}\n" + text
        texts.append((f"Current LogTrail is ./dirdat/aa{number:09d}\n", text))
        if step.kind not in OUTSIDE:
            if size and trans in (1, 2):
                detail = f"{size} bytes of the trail that precede this record, from {first} on, are not in the capture"
                found.append((None if step.cut else f"{number:010d}{rba:010d}", detail))
            size, first = 0, ""
        rba += SIZE
        expected = rba if step.known and not step.cut else -1
    return texts, found


def together(texts: list[tuple[str, str]]) -> str:
    """The text of some records, with the name of each trail file once."""
    names = ["", *(name for name, _ in texts)]
    return "".join((name if name != before else "") + text for before, (name, text) in zip(names, texts, strict=False))


def gaps_of(folder: Path, **options: Any) -> Gaps:
    rows = read(folder, Wanted(images=False), "goldengate", **options).to_pylist()
    return [(row["position"], one["detail"]) for row in rows for one in row["problems"] or () if one["code"] == "gap"]


def check(folder: Path, steps: list[Step], *cuts: list[int]) -> None:
    """Compares the gaps of a trail that is read at once, in splits, and in files that begin with some records."""
    texts, expected = trail_of(steps)
    whole = together(texts)
    (folder / "log000.txt").write_text(whole)
    assert gaps_of(folder) == expected
    for split_size in SPLITS:
        assert gaps_of(folder, split_size=split_size) == expected, split_size
    for cut in cuts:
        for number, (first, stop) in enumerate(pairwise([0, *cut, len(texts)])):
            (folder / f"log{number:03d}.txt").write_text(together(texts[first:stop]))
        assert gaps_of(folder) == expected, cut
        for path in folder.iterdir():
            path.unlink()


LOST = {
    "before metadata": [Step(0), Step(METADATA, 10), Step(1), Step(2)],
    "before several": [Step(0), Step(METADATA, 10), Step(RESTART_OK, 25), Step(1, 10), Step(2)],
    "around a record of unknown length": [Step(0), Step(METADATA, 10), Step(METADATA, known=False), Step(2, 10)],
    "around a record without RBA": [Step(0), Step(1, 10), Step(1, cut=True), Step(1), Step(METADATA, 10), Step(2)],
    "in several trail files": [Step(0), Step(METADATA, 10), Step(METADATA, opens=True), Step(METADATA, 25), Step(2)],
    "at the end of a trail file": [Step(0), Step(METADATA, 10), Step(1, opens=True), Step(METADATA, 25), Step(2)],
    "between transactions": [Step(0), Step(2), Step(METADATA, 10), Step(0), Step(2)],
}
"""Trails by where bytes of them are missing."""


@pytest.mark.parametrize("where", LOST)
def test_missing_bytes_are_reported_wherever_the_trail_is_cut(tmp_path: Path, where: str) -> None:
    every = list(range(1, len(LOST[where])))
    check(tmp_path, LOST[where], *([at] for at in every), every)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trail in three files, of which some lines are missing."""
    folder = tmp_path_factory.mktemp("damaged")
    options: dict[str, Any] = {"updates": "pairs", "lobs": True, "undo": 0.3, "restarts": 2, "abends": 2}
    generate("goldengate", changes=250, seed=8, to=folder, trail_files=3, capture_files="trail", **options)
    for file in (folder / "capture").iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(line for number, line in enumerate(lines) if number % 331 > 25))
    return folder / "capture"


@pytest.mark.parametrize("split_size", [40_000])
def test_a_damaged_trail_has_the_same_gaps_in_splits(damaged: Path, split_size: int) -> None:
    expected = gaps_of(damaged)
    assert len(expected) > 10
    assert gaps_of(damaged, split_size=split_size) == expected


STEPS = st.builds(
    Step,
    st.sampled_from([0, 1, 1, 1, 2, 3, *OUTSIDE, METADATA]),
    st.sampled_from([0, 0, 10, 25]),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, False, True]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=8), st.sets(st.integers(1, 7)))
def test_gaps_do_not_depend_on_the_borders_of_splits_and_files(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], borders: set[int]
) -> None:
    check(tmp_path_factory.mktemp("gaps"), steps, sorted(at for at in borders if at < len(steps)))
