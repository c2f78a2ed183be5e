"""Captures that were never captured: generated from a described workload, with the truth beside them.

:func:`generate` writes one; :data:`OPTIONS` lists what can be chosen. :mod:`cdcwb.synth.mutate` damages captures.
"""

from cdcwb.synth.generate import FORMATS, generate
from cdcwb.synth.options import OPTIONS, Options

__all__ = ["FORMATS", "OPTIONS", "Options", "generate"]
