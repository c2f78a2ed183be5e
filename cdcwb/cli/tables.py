"""The part of ``capture`` that takes tables of a database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.errors import OptionError
from cdcwb.words import count, plural

__all__ = ["capture_database", "check_apart"]

_OF_TABLES: Final = ("tables", "snapshots", "overlap", "id_column")
_OF_TOPICS: Final = ("patience", "file_size")


def check_apart(is_database: bool) -> None:
    """Raises OptionError for an option that is only for topics, or only for tables."""
    context = click.get_current_context()
    for one in context.command.params:
        wrong = _OF_TOPICS if is_database else _OF_TABLES
        if one.name in wrong and context.get_parameter_source(one.name).name != "DEFAULT":  # type: ignore[union-attr]
            what = "topics (kafka://…)" if is_database else "tables of a database (jdbc:…)"
            raise OptionError(f"{one.opts[0]} is for {what}; leave it out")


def capture_database(
    url: str,
    tables: Sequence[str],
    snapshots: Sequence[str],
    target: str,
    points: tuple[str, str],
    overlap: str,
    id_column: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Writes the rows of tables that are not captured yet, and says how many there were."""
    from cdcwb.live.jdbc import Address, TableName, as_id, jdbc_settings
    from cdcwb.live.tables import capture_tables, parse_overlap
    from cdcwb.spark.session import get_spark

    address, settings = Address.parse(url), jdbc_settings(config)
    if not tables:
        raise OptionError("a database needs --table SCHEMA.TABLE; repeat it for several tables")
    for name in (*tables, *snapshots):
        TableName.parse(name)
    start = None if points[0] == "earliest" else as_id(points[0], "--from")
    end = None if points[1] == "latest" else as_id(points[1], "--until")
    again = parse_overlap(overlap)
    address.driver(settings)
    with working("starting Spark") as step:
        spark = get_spark(packages=address.packages(settings))
        with suppress(AttributeError):  # a remote session has no context
            spark.sparkContext.setLogLevel("OFF")
        done = capture_tables(
            url,
            tables,
            target,
            spark=spark,
            snapshots=snapshots,
            id_column=id_column,
            start=start,
            end=end,
            overlap=again,
            settings=settings,
            progress=lambda table, read, total: step(f"capturing {table}", read, total),
        )
    if as_json:
        print_json({"url": address.url, "to": target, "tables": [asdict(one) for one in done]})
        return
    lines = [f"{target}: {one.table}: {plural(one.read, 'row')} read, {count(one.new)} new" for one in done]
    if snapshots:
        lines.append(f"{target}.snapshot: {plural(len(snapshots), 'table')}")
    print_lines([safe(line) for line in lines])
