"""The format ``qlik-change-table`` (docs/formats/qlik-change-table.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.dissector import Pairing, Portion
from cdcwb.formats.old.protocols import Halved
from cdcwb.formats.qlik_change_table.decode import parts_of_batches
from cdcwb.formats.qlik_change_table.events import events_of, inspect_row, pieces_of, read_events, read_together
from cdcwb.formats.qlik_change_table.layout import FORMAT, OPTIONS, Options, Part, side_file
from cdcwb.formats.qlik_change_table.plan import Plan
from cdcwb.formats.qlik_change_table.planning import make_plan, make_row_plan
from cdcwb.formats.qlik_change_table.probing import is_side_file, recognise, recognise_rows
from cdcwb.formats.qlik_change_table.table import read_table, typed_part, typed_schema
from cdcwb.formats.qlik_change_table.versions import version_rows
from cdcwb.formats.tabular.format import TabularFormat

__all__ = ["QlikChangeTable"]


class QlikChangeTable(TabularFormat):
    """Reads Qlik change tables from files and tables of rows (docs/formats/qlik-change-table.md)."""

    name = FORMAT
    side_file = re.compile(r"\.dfm$", re.IGNORECASE)
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.POSITION
    plan_type, options_type = Plan, Options

    recognise = staticmethod(recognise)
    recognise_rows = staticmethod(recognise_rows)
    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_row)
    table_schema = staticmethod(typed_schema)
    read_together = staticmethod(read_together)
    make_row_plan = staticmethod(make_row_plan)
    read_split = staticmethod(read_events)
    read_typed = staticmethod(read_table)
    events_of = staticmethod(events_of)
    typed_part = staticmethod(typed_part)

    def parts_of(self, plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        """The rows of numbered batches."""
        return parts_of_batches(plan.files[0].path, batches, plan.files[0].layout)

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The ``.dfm`` files among the files and next to them."""
        among = [path for path in paths if is_side_file(path)]
        beside = [found for path in paths if (found := side_file(path)) is not None]
        return list(dict.fromkeys(among + beside))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """Adds the ``role`` of each: changes, load or control."""
        return [row | {"role": entry.role} for row, entry in zip(super().files(plan), plan.files, strict=True)]

    def halved(self, plan: Plan, split: int) -> Halved:
        """The locations of the halves of a split (§6)."""
        entry = plan.splits[split]
        return Halved(entry.befores, plan.borders[1].get(plan.place_of(entry), ()))

    def portions(self, plan: Plan, ranges: Sequence[range]) -> list[dict[str, Any]]:
        """The splits, and the locations of the other halves of their updates."""
        moved, shared = plan.borders
        found = []
        for numbers in ranges:
            locations = {plan.place_of(plan.splits[number]) for number in numbers}
            borders = (
                {number: moved[number] for number in numbers if number in moved},
                {location: shared[location] for location in locations if location in shared},
            )
            found.append({"splits": Portion(plan.splits, numbers), "borders": borders})
        return found

    def table_versions(self, plan: Plan) -> pa.Table:
        """The versions from files and from DDL history; ``first_position`` is null."""
        return pa.Table.from_pylist(version_rows(plan), schema=model.TABLE_VERSIONS)
