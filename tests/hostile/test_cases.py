"""The hostile inputs among the samples: each is read, or refused with a sentence, within its limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import samples_folder
from tests.limits import in_child, refusal, run

pytestmark = pytest.mark.samples

SECONDS = 60  # of processor time, where a case has no limit of its own
MEMORY = 1500  # MB, likewise


def folder() -> Path | None:
    samples = samples_folder()
    return samples / "reduced" / "hostile" if samples else None


def cases() -> list[dict[str, Any]]:
    place = folder()
    return [] if place is None else json.loads((place / "cases.json").read_text())["cases"]


def made(case: dict[str, Any], to: Path) -> Path:
    """The input of a case: a file of the samples, or one made of pieces, each so many times."""
    place = folder()
    assert place is not None
    if "input" in case:
        return place / case["input"]
    path = to / case["made"]["file"]
    with path.open("wb") as file:
        for piece, times in case["made"]["parts"]:
            data = bytes.fromhex(piece[4:]) if piece.startswith("hex:") else (place / piece).read_bytes()
            file.write(data * times)
    return path


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_a_hostile_input_is_read_or_refused(case: dict[str, Any], tmp_path: Path) -> None:
    path = made(case, tmp_path)
    must_be_read = case.get("must") == "read"

    def verdict() -> str | None:
        code, text = run(["summary", str(path), "--json"])
        if code:
            return text if must_be_read else refusal(code, text)
        return None if json.loads(text)["ledger"] == "closes" else json.loads(text)["ledger"]

    assert in_child(verdict, case.get("cpu", SECONDS), case.get("rss_mb", MEMORY)) is None
