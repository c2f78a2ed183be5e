"""What ``tests/slow.txt`` leaves out of ``make test`` exists."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import SLOW

ROOT = Path(__file__).parents[2]


def test_every_line_names_a_file_or_a_test() -> None:
    gone = []
    for line in sorted(SLOW):
        file, _, test = line.partition("::")
        path = ROOT / file
        name = test.partition("[")[0]
        if not path.is_file() or (test and f"\ndef {name}(" not in path.read_text(encoding="utf-8")):
            gone.append(line)
    assert gone == []
