"""Reports: notebooks that papermill runs over a capture, as HTML files that open offline.

A notebook uses :mod:`cdcwb.report.show` for its output, :mod:`cdcwb.report.opening` for its parameters, and
:func:`record` for its facts.
"""

from cdcwb.report.facts import read_facts, record
from cdcwb.report.opening import check_parameters
from cdcwb.report.runner import execute, notebook_path, notebooks, run_report
from cdcwb.report.suite import run_suite

__all__ = [
    "check_parameters",
    "execute",
    "notebook_path",
    "notebooks",
    "read_facts",
    "record",
    "run_report",
    "run_suite",
]
