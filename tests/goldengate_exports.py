"""Exports of trail records, read by the format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.dissector import EVERYTHING, Field, Wanted, get_format, run_here
from cdcwb.formats.goldengate_export.tree import json_tree, xml_tree

__all__ = ["FORM", "check_fields", "codes", "planned", "rows", "sure", "table_of"]

FORM: Any = get_format("goldengate-export")


def planned(path: str, **options: Any) -> Any:
    plan = FORM.plan([path], options, run_here)
    return FORM.plan_from_text(plan.to_text())


def table_of(path: str, wanted: Wanted = EVERYTHING, **options: Any) -> pa.Table:
    plan = planned(path, **options)
    batches = [batch for split in range(len(plan.splits)) for batch in FORM.read(plan, split, wanted)]
    return pa.Table.from_batches(batches, schema=model.EVENTS)


def rows(path: str, **more: Any) -> list[dict[str, Any]]:
    found = table_of(path, **more).to_pylist()
    for row in found:
        for name in ("key", "before", "after", "headers"):
            row[name] = None if row[name] is None else dict(row[name])
    return found


def codes(row: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in row["problems"] or ()]


def sure(path: str) -> float:
    """How sure it is that a file is an export."""
    return float(FORM.recognise([path], {}).confidence)


def check_fields(record: bytes, kind: str) -> Field:
    """The tree of a record, whose leaves have all of its bytes."""
    whole = xml_tree(record) if kind == "xml" else json_tree(record)
    assert (whole.offset, whole.length, whole.raw) == (0, len(record), record)
    for node in whole.walk():
        assert node.raw == record[node.offset : node.offset + node.length]
        at = node.offset
        for child in node.children:
            assert child.offset == at
            at += child.length
        assert not node.children or at == node.offset + node.length
    return whole
