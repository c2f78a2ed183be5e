"""One process for all reports of a folder of tests, as those of a suite have: starting one, and Spark in it, takes
longer than making most reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcwb.report import kernel

__all__ = ["ALONE", "one_kernel"]

ALONE = kernel.Kernel
"""For a report on much data: a process of its own, set up for that."""


class _Shared(kernel.Kernel):
    def __exit__(self, *_: object) -> None:
        """It stays for the next report."""


@pytest.fixture(scope="package", autouse=True)
def one_kernel() -> Iterator[None]:
    """Whoever asks for a kernel gets the one that runs."""
    shared = _Shared(quick=True)
    kernel.Kernel = lambda quick=False: shared  # type: ignore[assignment, misc]
    yield
    kernel.Kernel = ALONE  # type: ignore[misc]
    shared.close()
