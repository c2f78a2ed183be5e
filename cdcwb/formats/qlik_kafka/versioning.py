"""All table versions of a capture, from what the first pass saw (docs/formats/qlik-kafka.md §10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdcwb.formats.findings import problem_row
from cdcwb.formats.qlik_kafka.names import NOBODY, TableName
from cdcwb.formats.qlik_kafka.scan import Place, Scan, Shape
from cdcwb.formats.qlik_kafka.versions import Version, from_avro, from_names
from cdcwb.model import Problem
from cdcwb.unique_names import unused_name

__all__ = ["find_versions"]


def find_versions(
    whole: Scan,
    beside: Sequence[Version],
    registry: Mapping[int, str],
    containers: Sequence[tuple[int, str]],
    avro_schema: str | None,
    places: Sequence[str],
) -> tuple[list[Version], list[dict[str, Any]]]:
    """The versions, and problems that concern no event.

    From metadata messages (those of the capture before those ``beside`` it), from the ``registry`` (id -> schema text)
    for every id that was seen, from Avro schemas that messages, ``containers`` (file index, text) or an option bring,
    and from the shapes of messages that have none of these. ``places``: where tables' names may stand.
    """
    notes: list[dict[str, Any]] = []
    made = {name: version for name, (_, version) in whole.metadata.items()}
    for version in beside:
        made.setdefault(version.table_version, version)
    versions = list(made.values())
    for _, version in whole.clashing:  # no message finds it by its id
        version.table_version, version.schema_id = unused_name(version.table_version, made), None
        made[version.table_version] = version
        versions.append(version)
    for number, place in whole.registry_ids.items():
        versions.append(_of_registry(number, registry.get(number), place, whole.registry_names.get(number, set())))
    known = {version.text for version in versions}
    given = [(text, "record", place) for text, place in whole.schema_texts.items()]
    given += [(text, "record", (at, -1, -1)) for at, text in containers]
    given += [(avro_schema, "side file", (-1, -1, -1))] if avro_schema is not None else []
    numbers: dict[str, int] = {}
    for text, origin, place in given:
        if text not in known:
            known.add(text)
            versions.extend(_of_text(text, origin, place, numbers))
    shapes = {_placed(shape, places): (place, count) for shape, (place, count) in reversed(whole.shapes.items())}
    for name, (place, shape) in whole.of_id.items():
        if name not in made:
            shapes.setdefault(_placed(shape, places), (place, 1))
    taken = {version.table_version for version in versions}
    for shape, (place, _) in sorted(shapes.items(), key=lambda item: item[1][0]):
        version = _of_shape(shape, numbers, taken)
        version.file_index, version.offset, version.length = place
        versions.append(version)
    versions.sort(key=lambda version: version.place)
    for version in versions:
        if version.problem:
            notes.append(problem_row(Problem.SCHEMA_TEXT, version.problem, table=version.full_name))
    return versions, notes


def _of_registry(number: int, text: str | None, place: Place, names: set[TableName]) -> Version:
    label = str(number)
    if text is None:
        version = Version(label, None, None, [], "registry", problem=None)
    else:
        try:
            version = from_avro(text, label, "registry")
        except ValueError as reason:
            version = Version(label, None, None, [], "registry", text, problem=f"schema {number}: {reason}")
    version.registry_id = number
    named = [name for name in names if name.table is not None]
    if version.table_name is None and len(names) == 1 and named:
        version.schema_name, version.table_name = named[0].schema, named[0].table
        version.lineage["table named by"] = named[0].place
    version.file_index, version.offset, version.length = place
    return version


def _of_text(text: str, origin: str, place: Place, numbers: dict[str, int]) -> list[Version]:
    """The version of an Avro schema of data records; none for the schema of an envelope or of something else."""
    try:
        version = from_avro(text, "", origin)
    except ValueError:
        return []
    if not version.columns:
        return []
    label = version.full_name or "unnamed"
    numbers[label] = numbers.get(label, 0) + 1
    version.table_version = f"{label}@{numbers[label]}"
    version.file_index, version.offset, version.length = place if place[1] >= 0 else (-1, -1, -1)
    return [version]


def _placed(shape: Shape, places: Sequence[str]) -> Shape:
    """The shape, its table forgotten if its name stands in a place that is not believed."""
    if shape.table.place in places or shape.table is NOBODY:
        return shape
    return Shape(NOBODY, shape.external, shape.names)


def _of_shape(shape: Shape, numbers: dict[str, int], taken: set[str]) -> Version:
    label = shape.table.label
    if shape.external:
        name = f"external {shape.external}"
        name = f"{name} {label}" if name in taken else name
        if name in taken:
            numbers[name] = numbers.get(name, 1) + 1
            name = f"{name}@{numbers[name]}"
    else:
        numbers[label] = numbers.get(label, 0) + 1
        name = f"{label}@{numbers[label]}"
    taken.add(name)
    version = from_names(name, label, shape.names, shape.external)
    version.schema_name, version.table_name = shape.table.schema, shape.table.table
    if shape.table.table is not None:
        version.lineage["table named by"] = shape.table.place
    return version
