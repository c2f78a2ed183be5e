"""The kernel that runs notebooks: always this interpreter, whatever kernels are installed under which names."""

from __future__ import annotations

import os

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from traitlets import default

__all__ = ["OwnKernelManager"]


class OwnKernelManager(AsyncKernelManager):
    """Starts ``sys.executable -m ipykernel_launcher`` in the place of an installed kernel spec."""

    @default("transport")
    def _only_here(self) -> str:
        return "ipc"  # sockets in this user's folder instead of ports that anyone on the machine can reach

    @property
    def kernel_spec(self) -> KernelSpec:
        """The specification of ipykernel itself. Plotly draws nothing on its own, and the debugger stays silent."""
        spec = KernelSpec(resource_dir=str(RESOURCES), **get_kernel_dict())
        spec.env = {"PYDEVD_DISABLE_FILE_VALIDATION": "1", **({} if "TERM" in os.environ else {"TERM": "dumb"})}
        return spec
