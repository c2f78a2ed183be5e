"""Captures that were never captured: generated from a described workload, with the truth beside them.

:func:`generate` writes one; :data:`FORMAT_OPTIONS` lists what can be chosen. :class:`SynthError` says why one cannot
be generated. Nothing here is imported from ``cdcwb``.
"""

from cdcwb_synth.generate import FORMAT_OPTIONS, FORMATS, generate
from cdcwb_synth.model import SynthError

__all__ = ["FORMATS", "FORMAT_OPTIONS", "SynthError", "generate"]
