"""Notebooks become reports: run over a capture by papermill, rendered into one HTML file that opens offline.

A notebook takes from here what it puts on its page (:mod:`cdcwb.report.show`), the check of its parameters, and
:func:`record` for the facts that others read.
"""

from cdcwb.report.facts import read_facts, record
from cdcwb.report.opening import check_parameters, open_page
from cdcwb.report.runner import execute, notebook_path, notebooks, run_report
from cdcwb.report.suite import run_suite

__all__ = [
    "check_parameters",
    "execute",
    "notebook_path",
    "notebooks",
    "open_page",
    "read_facts",
    "record",
    "run_report",
    "run_suite",
]
