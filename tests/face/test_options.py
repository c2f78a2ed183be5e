"""Every documented option of a reader is used once, and changes what is read as ``make face`` wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.face.face import differences, expected
from tests.face.options import LEFT_OUT, USES, Use, changes_nothing, documented, use_of

EVERY = [pytest.param(use, id=use.name, marks=[pytest.mark.spark] if use.spark else []) for use in USES]


def test_every_documented_option_has_a_use() -> None:
    used = {(use.format, use.option) for use in USES}
    assert used.isdisjoint(LEFT_OUT)
    assert used | LEFT_OUT.keys() == set(documented())
    assert {use.name for use in USES} == expected("options").keys()


@pytest.mark.parametrize("use", EVERY)
def test_an_option_changes_what_is_read(use: Use, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if use.spark:
        request.getfixturevalue("spark")
    found = use_of(use, tmp_path)
    assert changes_nothing(found) is use.alike
    assert [*differences(expected("options")[use.name], found)] == []
