"""The command for live sources: capture."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.cli.options import as_json, client_config, from_point, to_folder, waiting
from cdcwb.errors import OptionError
from cdcwb.live import FILE_BYTES, OVERLAP
from cdcwb.words import count, plural, size

if TYPE_CHECKING:
    pass

__all__ = [
    "capture",
]


@click.command()
@click.argument("url", metavar="URL")
@click.option(
    "--table",
    "tables",
    metavar="SCHEMA.TABLE",
    multiple=True,
    help="A database: a change table, a control table or an event log; may be repeated.",
)
@click.option(
    "--snapshot",
    "snapshots",
    metavar="SCHEMA.TABLE",
    multiple=True,
    help="A database: a table of the event log, whose present rows are copied for query-back; may be repeated.",
)
@click.option(
    "--overlap",
    metavar="ROWS|DURATION",
    default=str(OVERLAP),
    show_default=True,
    help="A database: read so many captured rows, or so much time (30min, 2h), again: late commits have lower ids.",
)
@click.option(
    "--id-column", metavar="COLUMN", help="A database: the record_id of an event log, if it has another name."
)
@from_point("; an id")
@click.option(
    "--until",
    "end",
    metavar="POINT",
    default="latest",
    show_default=True,
    help="latest, or a point as in --from; messages from there on are not captured.",
)
@to_folder("A folder; one that has a part of the capture is continued.")
@client_config(
    "Properties of the client, name=value lines; default: the file that CDCWB_KAFKA_CONFIG (librdkafka) or "
    "CDCWB_JDBC_CONFIG names."
)
@waiting("Give up after so long without an answer or a message.")
@click.option(
    "--file-size",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=FILE_BYTES,
    show_default=True,
    help="Keys and values in one file.",
)
@as_json
def capture(
    url: str,
    tables: tuple[str, ...],
    snapshots: tuple[str, ...],
    overlap: str,
    id_column: str | None,
    start: str,
    end: str,
    target: str,
    config: str | None,
    patience: float,
    file_size: int,
    as_json: bool,
) -> None:
    """Copy messages of a topic, or rows of database tables, to files that every command opens as a capture.

    URL is kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC] or kafka://HOST:PORT/^PATTERN; or jdbc:URL with --table. Started
    again, the command continues where the files end. Exit code 5: the cluster or database does not answer; run it
    again later.
    """
    from cdcwb.live.jdbc import is_jdbc

    check_apart(is_jdbc(url))
    if is_jdbc(url):
        capture_database(url, tables, snapshots, target, (start, end), overlap, id_column, config, as_json)
        return
    from cdcwb.live.kafka import Topics, kafka_settings, parse_point
    from cdcwb.live.recorder import record

    topics = Topics.parse(url)
    points = parse_point(start, "--from"), parse_point(end, "--until")
    settings = kafka_settings(config)
    with working(f"capturing {topics.url}") as step:
        done = record(
            topics,
            target,
            *points,
            settings,
            lambda read, total: step(f"capturing {topics.url}", read, total),
            file_size,
            patience,
        )
    if as_json:
        done_ranges = [item._asdict() for item in done.ranges]
        print_json(
            {"url": topics.url, "to": target, "messages": done.messages, "bytes": done.bytes, "ranges": done_ranges}
        )
        return
    more = "more " if done.continued else ""
    read = f"{plural(done.messages, f'{more}message')}, {size(done.bytes)}"
    print_lines([safe(f"{target}: {read} from {plural(len(done.ranges), 'partition')} of {topics.url}")])


# --- tables -----------------------------------------------------------------------------------------------------------

_OF_TABLES: Final = ("tables", "snapshots", "overlap", "id_column")
_OF_TOPICS: Final = ("patience", "file_size")


def check_apart(is_database: bool) -> None:
    """Raises OptionError for an option of topics with a database, or of tables with topics."""
    context = click.get_current_context()
    for parameter in context.command.params:
        wrong = _OF_TOPICS if is_database else _OF_TABLES
        if parameter.name in wrong and context.get_parameter_source(parameter.name).name != "DEFAULT":  # type: ignore[union-attr]
            what = "topics (kafka://…)" if is_database else "tables of a database (jdbc:…)"
            raise OptionError(f"{parameter.opts[0]} is for {what}; leave it out")


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
    """Captures the new rows of tables, and prints their number."""
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
        print_json({"url": address.url, "to": target, "tables": [asdict(t) for t in done]})
        return
    lines = [f"{target}: {t.table}: {plural(t.read, 'row')} read, {count(t.new)} new" for t in done]
    if snapshots:
        lines.append(f"{target}.snapshot: {plural(len(snapshots), 'table')}")
    print_lines([safe(line) for line in lines])
