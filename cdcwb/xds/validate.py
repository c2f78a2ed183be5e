"""Whether documents keep to the vocabulary: RELAX NG (docs/formats/idm-event-log.md §5)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from threading import Lock

from lxml import etree

from cdcwb.errors import MalformedRecordError
from cdcwb.xds.parse import roots

__all__ = ["validate"]

_ONE_AT_A_TIME = Lock()  # the grammar keeps the faults of its last document


def validate(xml: bytes) -> list[str]:
    """A sentence for each fault of one or several documents that stand behind each other; empty where all is well.

    ``add``, ``modify``, ``delete``, ``instance`` and ``status`` are valid without their envelope as well. What is no
    XML is one fault, and the last one.
    """
    faults: list[str] = []
    number = 0
    try:
        for number, root in enumerate(roots(xml), 1):
            faults += [f"document {number}, {fault}" for fault in _faults(root)]
    except MalformedRecordError as error:
        faults.append(error.sentence)
    if not number and not faults:
        faults.append("no document: nothing but blanks was found")
    return faults


def _faults(root: etree._Element) -> list[str]:
    with _ONE_AT_A_TIME:
        grammar = _grammar()
        if grammar.validate(root):
            return []
        return list(dict.fromkeys(f"line {fault.line}: {fault.message}" for fault in grammar.error_log if fault.line))


@cache
def _grammar() -> etree.RelaxNG:
    return etree.RelaxNG(etree.fromstring(files("cdcwb.xds").joinpath("xds.rng").read_bytes()))
