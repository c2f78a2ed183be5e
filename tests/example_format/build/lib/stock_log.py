"""The format ``stock-log``: the change log of an invented stock keeper, a record a line."""

import datetime as dt
import re
from typing import ClassVar

from cdcwb.formats.text_records import TextRecords
from cdcwb.model import Kind, Operation

LINE = re.compile(r"(\d+) (\S+) (BEGIN|COMMIT|ROLLBACK|INSERT|UPDATE|DELETE) (\d+)(?: (\S+) (.*))?")
KINDS = {"BEGIN": Kind.BEGIN, "COMMIT": Kind.COMMIT, "ROLLBACK": Kind.ROLLBACK}
FIELDS = ("position", "time", "action", "transaction", "table", "values")
MEANINGS = {
    "position": "number of the record in the log",
    "time": "when it was written, UTC",
    "action": "what happened",
    "transaction": "all records of a transaction have its number",
    "table": "schema and table",
    "values": "the row; of an update, the row before and after",
}


class StockLog(TextRecords):
    """Reads the logs of the stock keeper."""

    name = "stock-log"
    own_options: ClassVar = {"separator": "between the values of a row (;)"}

    def is_record(self, line: bytes) -> bool:
        return line[:1].isdigit()

    def is_comment(self, line: bytes) -> bool:
        return line.startswith(b"#")

    def event(self, line, options):
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"expected number, time, action and transaction, found {line[:40]!r}")
        position, time, action, transaction, table, values = found.groups()
        event = {
            "kind": str(KINDS.get(action, Kind.CHANGE)),
            "record_type": action,
            "position": position.zfill(12),  # so that text order is log order
            "transaction_id": transaction,
            "changed_at": dt.datetime.fromisoformat(time),
        }
        if action in KINDS:
            return event
        if table is None:
            raise ValueError(f"expected a table and values after {action}")
        rows = [_row(part, options.get("separator", ";")) for part in values.split(" -> ")]
        event["schema_name"], _, event["table_name"] = table.rpartition(".")
        event["operation"] = str(Operation[action])
        event["before"] = None if action == "INSERT" else rows[0]
        event["after"] = None if action == "DELETE" else rows[-1]
        return event

    def fields(self, line, options):
        found = LINE.fullmatch(line)
        for number, name in enumerate(FIELDS, start=1):
            if found[number] is not None:
                yield name, found.start(number), found.end(number), found[number], MEANINGS[name]


def _row(text: str, separator: str) -> dict[str, str | None]:
    """The values of a row; one without an equals sign is NULL."""
    pairs = (part.partition("=") for part in text.split(separator))
    return {name: value if sign else None for name, sign, value in pairs}
