"""Captures that were never captured: generated from a described workload, with the truth beside them.

:func:`generate` writes one; :data:`FORMAT_OPTIONS` lists what can be chosen (:data:`OPTIONS`: for ``gbase8s``).
:class:`SynthError` says why one cannot be generated; :mod:`cdcwb_synth.mutate` damages captures. Nothing here is
imported from ``cdcwb``.
"""

from cdcwb_synth.generate import FORMAT_OPTIONS, FORMATS, PART_CHANGES, generate
from cdcwb_synth.model import SynthError
from cdcwb_synth.options import OPTIONS, Options

__all__ = ["FORMATS", "FORMAT_OPTIONS", "OPTIONS", "PART_CHANGES", "Options", "SynthError", "generate"]
