"""The format ``price-table``: the change table of an invented price list."""

from typing import ClassVar

import pyarrow.compute as pc

from cdcwb.formats.table_rows import TableRows
from cdcwb.model import Kind, Operation

OPERATIONS = {
    "new": (Kind.CHANGE, Operation.INSERT),
    "old": (Kind.BEFORE, Operation.UPDATE),
    "now": (Kind.AFTER, Operation.UPDATE),
    "gone": (Kind.CHANGE, Operation.DELETE),
}


class PriceTable(TableRows):
    """Reads the change tables of the price list."""

    name = "price-table"
    meanings: ClassVar = {
        "chg_no": "number of the change; both rows of an update have the same",
        "chg_what": "what happened to the row",
        "chg_at": "when, UTC",
        "chg_batch": "changes of one batch have one number",
    }

    def claims(self, columns):
        return {"chg_no", "chg_what"} <= set(columns)

    def events(self, rows, options):
        found, unknown = rows.operations("chg_what", OPERATIONS)
        what = found["record_type"]
        rows.malformed(unknown, lambda row: f"chg_what: expected new, old, now or gone, found {what[row]}")
        return {
            **found,
            "position": pc.utf8_lpad(rows.text("chg_no"), 12, "0"),  # so that text order is log order
            "transaction_id": rows.text("chg_batch"),
            "changed_at": rows.time("chg_at"),
        }
