"""The format ``parcel-events``: the messages of an invented parcel service, on Kafka."""

import datetime as dt
from typing import ClassVar

from cdcwb.formats.json_messages import JsonMessages
from cdcwb.model import Kind, Operation

OPERATIONS = {"registered": Operation.INSERT, "moved": Operation.UPDATE, "lost": Operation.DELETE}


class ParcelEvents(JsonMessages):
    """Reads the topics of the parcel service."""

    name = "parcel-events"
    meanings: ClassVar = {
        "event": "what happened to the parcel",
        "at": "when, UTC",
        "seq": "number of the event",
        "tx": "events of one scan have one id",
        "parcel": "the parcel after the event",
        "parcel.*": "a column",
        "was": "what was different before",
        "was.*": "a column",
    }

    def claims(self, body):
        return body.get("event") in OPERATIONS and "parcel" in body

    def event(self, body, options):
        if body.get("event") not in OPERATIONS:
            raise ValueError(f"expected an event of a parcel, found {body.get('event')!r}")
        parcel, was = body["parcel"], body.get("was") or {}
        operation = OPERATIONS[body["event"]]
        return {
            "kind": str(Kind.CHANGE),
            "record_type": body["event"],
            "operation": str(operation),
            "position": f"{body['seq']:012}",
            "transaction_id": body.get("tx"),
            "changed_at": dt.datetime.fromisoformat(body["at"]),
            "table_name": "parcels",
            "key": {"id": parcel["id"]},
            "before": None if operation == Operation.INSERT else {**parcel, **was},
            "after": None if operation == Operation.DELETE else parcel,
        }
