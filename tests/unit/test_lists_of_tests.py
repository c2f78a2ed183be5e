"""What ``tests/slow.txt`` and ``tests/smoke.txt`` name exists."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LISTED

ROOT = Path(__file__).parents[2]


def test_every_line_names_a_file_or_a_test() -> None:
    gone = []
    for line in sorted(frozenset().union(*LISTED.values())):
        file, _, test = line.partition("::")
        path = ROOT / file
        name = test.partition("[")[0]
        if not path.is_file() or (test and f"\ndef {name}(" not in path.read_text(encoding="utf-8")):
            gone.append(line)
    assert gone == []
