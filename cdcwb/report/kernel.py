"""The kernel that runs notebooks: always this interpreter, not an installed kernel spec, and one process for several
notebooks, so that they share a Spark session."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets import default

from cdcwb.writing import remove, scratch

ENGINE: Final = "cdcwb"
"""The name of the papermill engine that runs a notebook in a :class:`Kernel` (its argument ``kernel``)."""

_START_SECONDS: Final = 600
_OUTPUT_SECONDS: Final = 300
"""Seconds that outputs of a cell may take to arrive after its end; nbclient drops later ones."""
_RESET: Final = """
import gc as _gc, os as _os
_os.chdir({folder!r})
get_ipython().reset()
_gc.collect()
"""
"""Deletes the variables of a notebook before the next one runs. Imported modules and Spark stay."""


class OwnKernelManager(AsyncKernelManager):
    """Starts ``sys.executable -m ipykernel_launcher`` instead of an installed kernel spec."""

    @default("transport")
    def _only_here(self) -> str:
        return "ipc"  # sockets in this user's folder instead of ports that every local user can reach

    @property
    def kernel_spec(self) -> KernelSpec:
        """The kernel spec of ipykernel itself, without plotly's own output and the debugger's warnings."""
        spec = KernelSpec(resource_dir=str(RESOURCES), **get_kernel_dict())
        spec.env = {"PYDEVD_DISABLE_FILE_VALIDATION": "1", **({} if "TERM" in os.environ else {"TERM": "dumb"})}
        spec.env["TMPDIR"] = str(Path(self.connection_file).parent)  # which is removed however the process ends
        return spec


class Kernel(AbstractContextManager["Kernel"]):
    """A process in which notebooks run one after the other, each with an empty namespace: ``with Kernel() as kernel``.

    The process starts with the first notebook, and again with the next one if it ended unexpectedly. The state of
    modules, such as the Spark session, stays between notebooks.
    """

    def __init__(self) -> None:
        self._last: PapermillNotebookClient | None = None  # it has the manager of the process, and a client for it
        self._folder: Path | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """Whether there is no process, and nothing that one has prepared."""
        return self._last is None

    def run(self, notebook: Any, **options: Any) -> None:
        """Runs a notebook that papermill manages; ``options`` are those of its client.

        Raises nbclient's DeadKernelError if the process ends, RuntimeError if it does not start to answer.
        """
        runner = PapermillNotebookClient(notebook, km=self._manager(), **options)
        runner.kc = None if self._last is None else self._last.kc
        self._last = runner
        try:
            if runner.kc is not None:
                runner.wait_for_reply(runner.kc.execute(_RESET.format(folder=str(Path.cwd())), silent=True))
            runner.execute()
        except (DeadKernelError, RuntimeError):
            self.close()
            raise

    def _manager(self) -> OwnKernelManager:
        """The manager of the process; a new one if there is none."""
        if self._last is not None:
            return self._last.km
        # Each kernel has its own folder: kernels that start at the same time must not use the same sockets.
        self._folder = scratch(self, "cdcwb-kernel-")
        file = str(self._folder / "kernel.json")
        return OwnKernelManager(kernel_name="python3", connection_file=file)

    def close(self) -> None:
        """Ends the process with its Spark session."""
        if self._last is not None and self._last.km is not None:
            self._last._cleanup_kernel()
        if self._folder is not None:
            remove(self._folder)
        self._last = self._folder = None


class _Engine(NBClientEngine):
    """papermill's own engine, in a persistent kernel."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, kernel: Kernel | None = None, **options: Any
    ) -> None:
        """Run the notebook in ``kernel``."""
        if kernel is None:
            raise TypeError("the engine of cdcwb wants a kernel")
        kernel.run(nb_man, kernel_name=kernel_name, startup_timeout=_START_SECONDS, iopub_timeout=_OUTPUT_SECONDS)


papermill_engines.register(ENGINE, _Engine)
