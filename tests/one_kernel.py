"""One process for all reports of the tests of some folders, as those of a suite have: starting one, and Spark in it,
takes longer than making most reports."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from cdcwb.report import kernel as kernels
from tests.reports import DATA

__all__ = ["ALONE", "Shared", "kernel"]

ALONE = kernels.Kernel
"""For a report on much data: a process of its own, set up for that."""


class Shared(kernels.Kernel):
    """One that stays for the next report. What a notebook puts out over a capture in ``data/`` with the same parameters
    is kept, because several tests look at it."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Any] = {}

    def run(self, notebook: Any, **options: Any) -> None:
        asked = _asked(notebook.nb)
        if asked in self._kept:
            notebook.nb.cells = copy.deepcopy(self._kept[asked])
            return
        super().run(notebook, **options)
        if asked:
            self._kept[asked] = copy.deepcopy(notebook.nb.cells)

    def __exit__(self, *_: object) -> None:
        pass


def _asked(notebook: Any) -> str:
    """The code of a notebook with the parameters that differ from its defaults; empty if it opens no capture in
    ``data/``."""
    parameters = {
        name: value
        for name, value in notebook.metadata.papermill.parameters.items()
        if (name, value) not in (("format", "auto"), ("options", "{}"))
    }
    if not str(parameters.get("path", "")).startswith(str(DATA)):
        return ""
    code = [cell.source for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", ())]
    return json.dumps([code, parameters])


@pytest.fixture(scope="package", autouse=True)
def kernel(shared_kernel: kernels.Kernel) -> Iterator[kernels.Kernel]:
    """Whoever asks for a kernel gets the one that runs."""
    kernels.Kernel = lambda: shared_kernel  # type: ignore[assignment, misc]
    yield shared_kernel
    kernels.Kernel = ALONE  # type: ignore[misc]
