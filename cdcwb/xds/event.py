"""What documents are made of: a row for each event of any capture (docs/formats/idm-event-log.md §5)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

__all__ = ["ATTRIBUTE", "EVENT", "TYPES", "Verb"]


class Verb(StrEnum):
    """What an event does to its object; the name of its element (§5.3 to §5.5)."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


TYPES: Final = (
    "string",
    "octet",
    "dn",
    "state",
    "int",
    "teleNumber",
    "className",
    "counter",
    "time",
    "interval",
    "count",
)
"""The types of a value that is one text (§5.6). ``structured`` is not among them: its value consists of components."""

ATTRIBUTE: Final = pa.struct(
    [
        ("name", pa.string()),  # never null nor empty
        ("type", pa.string()),  # one of TYPES; null: the element names none, or there is no value
        ("remove_all", pa.bool_()),  # every value it has is taken away first; modify only, and never beside remove
        ("remove", pa.string()),  # the value that is taken away; modify only; null: none
        ("add", pa.string()),  # the value that it gets; null: none, in a modify alone
    ]
)
"""One attribute of an event. The same name may stand in an event several times; order matters (§5.4)."""

EVENT: Final = pa.schema(
    [
        ("document", pa.int64()),  # number of the document, from 1; rows are in the order of documents
        ("event", pa.int64()),  # number of the event, from 1
        ("verb", pa.string()),  # a value of Verb
        ("class_name", pa.string()),  # never null nor empty
        ("association", pa.string()),  # which object (§5.1); null: the event names none
        ("attrs", pa.list_(ATTRIBUTE)),  # add: any number; modify: at least one; delete: none; null is as empty
    ]
)
"""One row per event, in publication order."""
