"""cdcwb: a workbench for what a change-data-capture system really did.

    import cdcwb
    capture = cdcwb.load("data/gbase8s")
    capture.transactions.show()

Importing it starts nothing; Spark starts with the first :func:`load`.
"""

from __future__ import annotations

from cdcwb.capture import Capture, load, register
from cdcwb.errors import CaptureError

__all__ = ["Capture", "CaptureError", "__version__", "load", "register"]

__version__ = "0.1.0"
