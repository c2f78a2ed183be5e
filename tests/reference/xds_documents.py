"""XDS documents, one element tree each: the reference that the column-wise writer is compared with
(docs/formats/idm-event-log.md §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from lxml import etree

from cdcwb.xds.document import Verb

__all__ = ["document_of", "documents_plainly"]


def documents_plainly(events: pa.Table, *, product_version: str | None = None) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each document of a table of :data:`~cdcwb.xds.document.EVENT`.

    The bytes are those of :func:`cdcwb.xds.document.documents`. Raises ValueError for a character that XML 1.0 cannot
    hold; what else no valid document can hold is not looked for.
    """
    shown = version("cdcwb") if product_version is None else product_version
    rows = chain.from_iterable(batch.to_pylist() for batch in events.to_batches())
    for number, of_document in groupby(rows, itemgetter("document")):
        yield number, document_of(list(of_document), shown)


def document_of(events: Sequence[Mapping[str, Any]], product_version: str) -> bytes:
    """One document of the given events (§5.8): UTF-8 without a declaration, with a line end behind it."""
    nds = etree.Element("nds", {"dtdversion": "4.0", "ndsversion": "8.x"})
    source = etree.SubElement(nds, "source")
    etree.SubElement(source, "product", {"version": product_version}).text = "cdcwb"
    parent = etree.SubElement(nds, "input")
    for event in events:
        _append(parent, event)
    return etree.tostring(nds, encoding="UTF-8", xml_declaration=False, pretty_print=True)


def _append(parent: etree._Element, event: Mapping[str, Any]) -> None:
    verb = event["verb"]
    element = etree.SubElement(parent, verb, {"class-name": event["class_name"]})
    if event["association"] is not None:
        etree.SubElement(element, "association").text = event["association"] or None
    for attribute in event["attrs"] or ():
        held = etree.SubElement(element, f"{verb}-attr", {"attr-name": attribute["name"]})
        kind = {} if attribute["type"] is None else {"type": attribute["type"]}
        if verb == Verb.ADD:
            _append_value(held, kind, attribute["add"])
            continue
        if attribute["remove_all"]:
            etree.SubElement(held, "remove-all-values")
        if attribute["remove"] is not None:
            _append_value(etree.SubElement(held, "remove-value"), kind, attribute["remove"])
        if attribute["add"] is not None:
            _append_value(etree.SubElement(held, "add-value"), kind, attribute["add"])


def _append_value(parent: etree._Element, kind: dict[str, str], text: str) -> None:
    etree.SubElement(parent, "value", kind).text = text or None
