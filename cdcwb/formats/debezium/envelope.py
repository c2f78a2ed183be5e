"""The envelope in CloudEvents, and what flattened events have of it (docs/formats/debezium.md §1.5, §1.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from cdcwb.formats.debezium.layout import SOURCE
from cdcwb.formats.messages.connect import Body, Broken, Remark, Schemas, bodies_of, plain


def envelopes_of(
    values: pa.BinaryArray, schemas: Schemas, remarks: dict[int, list[Remark]], bare: str | None = None
) -> list[Body | Broken | None]:
    """What each value holds, as Debezium's envelope; arguments and the other results are those of ``bodies_of``."""
    return [
        _envelope(body, schemas) if isinstance(body, Body) else body
        for body in bodies_of(values, schemas, remarks, bare)
    ]


def _envelope(body: Body, schemas: Schemas) -> Body:
    content = body.content
    if "specversion" in content and plain(content.get("type")).startswith("io.debezium."):
        return _of_cloud_event(body, schemas)
    return _of_flattened(body) if is_flattened(content) else body


# --- flattened events (§1.9) ------------------------------------------------------------------------------------------

FLATTENED: Final = "flattened"
"""The field of an envelope that has the fields of a flattened event besides its row."""

_LEAD: Final = "__"
_ADDED: Final = frozenset({"__op", "__deleted", "__table", "__lsn"})
_NOT_OF_SOURCE: Final = frozenset({"__op", "__deleted", "__ts_ms", "__ts_us", "__ts_ns"})


def is_flattened(content: Mapping[str, Any]) -> bool:
    """Whether it is a row alone, with fields that ExtractNewRecordState added to it."""
    if "op" in content:
        return False
    added = [name for name in content if name.startswith(_LEAD)]
    if not added or len(added) == len(content):
        return False
    return any(name in _ADDED or name.startswith("__source_") for name in added)


def _of_flattened(body: Body) -> Body:
    """The envelope as far as the added fields show it: there is no row before, but that of a delete."""
    added = {name: value for name, value in body.content.items() if name.startswith(_LEAD)}
    row = {name: value for name, value in body.content.items() if not name.startswith(_LEAD)}
    source = {n.removeprefix(_LEAD).removeprefix("source_"): one for n, one in added.items() if n not in _NOT_OF_SOURCE}
    is_deleted = plain(added.get("__deleted") or "").lower() == "true"
    op = added.get("__op") or ("d" if is_deleted else "u")
    kind = body.type
    if kind is not None:
        fields = {name: one for name, one in kind.fields.items() if not name.startswith(_LEAD)}
        kind = replace(kind, fields={"after": replace(kind, fields=fields)})
    image = "before" if op == "d" or is_deleted else "after"
    content = {"op": op, "source": source, "before": None, "after": None, FLATTENED: added, image: row}
    return body._replace(content=content, type=kind)


# --- CloudEvents (§1.5) -----------------------------------------------------------------------------------------------

_PREFIX: Final = "iodebezium"
_FIELDS: Final = {name.replace("_", "").lower(): name for name in SOURCE}
_ORDERS: Final = {"txtotalorder": "total_order", "txdatacollectionorder": "data_collection_order"}


def _of_cloud_event(body: Body, schemas: Schemas) -> Body:
    """The rows are ``data``, the other fields of the envelope are extension attributes, whose values are texts."""
    data, kind, schema = body.content.get("data"), body.type, body.schema
    if not isinstance(data, dict):
        return body
    kind = None if kind is None else kind.fields.get("data")
    if data.keys() == {"schema", "payload"} and isinstance(data["payload"], dict):
        schema = msgspec.json.encode(data["schema"]).decode()
        (kind, _), data = schemas.of_json(schema.encode()), data["payload"]
    given = {n.lower().removeprefix(_PREFIX): one for n, one in body.content.items() if n.startswith(_PREFIX)}
    for name in given.keys() & {"tsms", "tsus", "tsns"}:
        digits = str(given[name])
        given[name] = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else given[name]
    orders = {field: given.pop(name) for name, field in _ORDERS.items() if given.get(name) is not None}
    envelope = {
        "op": given.pop("op", None),
        "source": {_FIELDS.get(name, name): value for name, value in given.items()},
        "transaction": {"id": given.get("txid"), **orders} if orders else None,
        "cloudevent": {n: one for n, one in body.content.items() if n != "data" and not n.startswith(_PREFIX)},
    }
    return body._replace(content=envelope | data, type=kind, schema=schema)
