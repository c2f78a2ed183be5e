"""One process for all reports of the tests of some folders, as those of a suite have: starting one, and Spark in it,
takes longer than making most reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcwb.report import kernel as kernels

__all__ = ["ALONE", "Shared", "kernel"]

ALONE = kernels.Kernel
"""For a report on much data: a process of its own, set up for that."""


class Shared(kernels.Kernel):
    """One that stays for the next report."""

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(scope="package", autouse=True)
def kernel(shared_kernel: kernels.Kernel) -> Iterator[kernels.Kernel]:
    """Whoever asks for a kernel gets the one that runs."""
    kernels.Kernel = lambda quick=False: shared_kernel  # type: ignore[assignment, misc]
    yield shared_kernel
    kernels.Kernel = ALONE  # type: ignore[misc]
