"""What a request for one table as typed columns means, the same for every format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.base import TableRequest
from cdcwb.formats.options import nearest

__all__ = ["FROM_EVENTS", "chosen_columns", "images_of", "no_table", "request_schema", "versions_of"]

FROM_EVENTS: Final = ("file_index", "offset", "kind", "operation", "position", "transaction_id", "table_version")
"""The columns that say where a row stands."""

_IMAGES: Final = ("before", "after")

_Version = TypeVar("_Version")


def images_of(request: TableRequest) -> tuple[str, ...]:
    """The images that are asked for. Raises CaptureError for what is none."""
    if request.images == "both":
        return _IMAGES
    if request.images not in _IMAGES:
        raise CaptureError(f"images: expected before, after or both, found {request.images!r}")
    return (request.images,)


def versions_of(versions: Sequence[_Version], request: TableRequest) -> Sequence[_Version]:
    """Those of a table's versions whose columns are asked for. Raises CaptureError for an unknown ``schema``."""
    if request.schema == "latest":
        return versions[-1:]
    if request.schema != "in_force":
        raise CaptureError(f"schema: expected in_force or latest, found {request.schema!r}")
    return versions


def chosen_columns(types: Mapping[str, pa.DataType], request: TableRequest) -> dict[str, pa.DataType]:
    """Those of a table's columns that are asked for. Raises CaptureError, with what there is, for one that is not
    there."""
    if request.columns is None:
        return dict(types)
    for name in request.columns:
        if name not in types:
            hint = nearest(name, types)
            raise CaptureError(f"table {request.name!r} has no column {name!r}.{hint} There are: {', '.join(types)}.")
    return {name: types[name] for name in request.columns}


def no_table(request: TableRequest, known: Iterable[str], what: str = "") -> CaptureError:
    """The error for a table that is not there, with what there is."""
    names = sorted(set(known))
    hint = nearest(request.name, names)
    return CaptureError(f"there is no table {request.name!r}{what}.{hint} There are: {', '.join(names) or 'none'}.")


def request_schema(types: Mapping[str, pa.DataType], request: TableRequest) -> pa.Schema:
    """Where the row stands, then a structure of these columns for each image."""
    image = pa.struct(list(types.items()))
    fields = [pa.field(name, image) for name in images_of(request)]
    return pa.schema([*(model.EVENTS.field(name) for name in FROM_EVENTS), *fields])
