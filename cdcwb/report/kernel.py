"""The kernel that runs notebooks: always this interpreter, whatever kernels are installed under which names, and one
for several notebooks, so that they share a Spark session."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets import default

__all__ = ["ENGINE", "Kernel", "OwnKernelManager"]

ENGINE: Final = "cdcwb"
"""The name of papermill's engine that runs a notebook in a :class:`Kernel` (its argument ``kernel``)."""

_START_SECONDS: Final = 600
_OUTPUT_SECONDS: Final = 300
"""How long the outputs of a cell may take to arrive once it has ended; nbclient drops those that come later."""
_QUICK: Final = " ".join(
    [
        # Compiling, by Spark and by the JVM, takes most of the time of a question about a few thousand rows: without
        # these a suite takes twice as long (2 cores).
        '--conf "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"',
        "--conf spark.sql.codegen.wholeStage=false",
        "--conf spark.sql.codegen.factoryMode=NO_CODEGEN",
        "--conf spark.sql.shuffle.partitions=2",
        "pyspark-shell",
    ]
)
_RESET: Final = """
import gc as _gc, os as _os
_os.chdir({folder!r})
get_ipython().reset()
_gc.collect()
"""
"""Forgets what a notebook named, so that the next one finds nothing of it. Imported modules stay, and Spark."""


class OwnKernelManager(AsyncKernelManager):
    """Starts ``sys.executable -m ipykernel_launcher`` instead of an installed kernel spec.

    ``quick``: Spark, where it runs here, is set up for many questions about little data.
    """

    quick = False

    @default("transport")
    def _only_here(self) -> str:
        return "ipc"  # sockets in this user's folder instead of ports that anyone on the machine can reach

    @property
    def kernel_spec(self) -> KernelSpec:
        """The specification of ipykernel itself. Plotly draws nothing on its own, and the debugger stays silent."""
        spec = KernelSpec(resource_dir=str(RESOURCES), **get_kernel_dict())
        spec.env = {"PYDEVD_DISABLE_FILE_VALIDATION": "1", **({} if "TERM" in os.environ else {"TERM": "dumb"})}
        if self.quick and "PYSPARK_SUBMIT_ARGS" not in os.environ:
            spec.env["PYSPARK_SUBMIT_ARGS"] = _QUICK
        return spec


class Kernel:
    """A process in which notebooks run one after the other, each with an empty namespace: ``with Kernel() as kernel``.

    It starts with the first notebook, and again with the next one where it ended unexpectedly. What modules keep,
    the Spark session above all, stays from notebook to notebook. ``quick`` sets Spark up for little data.
    """

    def __init__(self, quick: bool = False) -> None:
        self._quick = quick
        self._last: PapermillNotebookClient | None = None  # it has the manager of the process, and a client for it
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, notebook: Any, **options: Any) -> None:
        """Run a notebook that papermill manages; ``options`` are those of its client.

        Raises nbclient's DeadKernelError where the process ends meanwhile, RuntimeError where it does not begin to
        answer.
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
        """The manager of the process; a new one where there is none."""
        if self._last is not None:
            return self._last.km
        # A folder of its own, or kernels that start at the same time would take the same sockets.
        self._folder = tempfile.TemporaryDirectory(prefix="cdcwb-kernel-")
        file = str(Path(self._folder.name) / "kernel.json")
        manager = OwnKernelManager(kernel_name="python3", connection_file=file)
        manager.quick = self._quick
        return manager

    def close(self) -> None:
        """End the process, and with it its Spark session."""
        if self._last is not None and self._last.km is not None:
            self._last._cleanup_kernel()
        if self._folder is not None:
            self._folder.cleanup()
        self._last = self._folder = None


class _Engine(NBClientEngine):
    """papermill's own engine, but in a kernel that stays."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, kernel: Kernel | None = None, **options: Any
    ) -> None:
        """Run the notebook in ``kernel``."""
        if kernel is None:
            raise TypeError("the engine of cdcwb wants a kernel")
        kernel.run(nb_man, kernel_name=kernel_name, startup_timeout=_START_SECONDS, iopub_timeout=_OUTPUT_SECONDS)


papermill_engines.register(ENGINE, _Engine)
