"""cdcwb: a workbench for captures of change-data-capture systems.

    import cdcwb
    capture = cdcwb.load("data/gbase8s")
    capture.transactions.show()

Importing it starts nothing and loads no library. Spark starts with the first :func:`load`.
:mod:`cdcwb.spark.daemon` forks, so it must not have the threads that numpy and pyarrow start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdcwb.errors import CaptureError

if TYPE_CHECKING:
    from cdcwb.capture import Capture, load, register

__all__ = ["Capture", "CaptureError", "__version__", "load", "register"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in __all__:
        from cdcwb import capture

        return getattr(capture, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
