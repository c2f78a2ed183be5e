"""The commands for live sources: capture, follow."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING, Final

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.cli.options import as_json, client_config, format_and_options, from_point, key_values, to_folder, waiting
from cdcwb.errors import OptionError
from cdcwb.live import EVERY, FILE_BYTES, OVERLAP
from cdcwb.words import count, plural, size

if TYPE_CHECKING:
    from cdcwb.live.follow import Step

__all__ = [
    "capture",
    "follow",
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


# --- follow -----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("url", metavar="URL")
@to_folder("A folder; one that was begun before is continued.")
@from_point()
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=EVERY,
    show_default=True,
    help="Look for messages so often; less often where it takes longer to add them.",
)
@click.option("--once", is_flag=True, help="End when all messages are there that the topic has now.")
@client_config(
    "Properties of the client (librdkafka), name=value lines; default: the file that CDCWB_KAFKA_CONFIG names."
)
@waiting("Give up after so long without an answer or a message that is there.")
@format_and_options
@as_json
def follow(
    url: str,
    target: str,
    start: str,
    every: float,
    once: bool,
    config: str | None,
    patience: float,
    format_name: str,
    pairs: Sequence[tuple[str, str]],
    as_json: bool,
) -> None:
    """Keep a saved capture of a topic up to date while messages are written, until it is interrupted.

    URL is kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC] or kafka://HOST:PORT/^PATTERN. Every command and notebook opens
    DIR at any time, as it was after the last step. Ended in any way and started again, it continues: no message is
    there twice, and none is missing. Exit code 5: the cluster does not answer; run it again later.
    """
    from pathlib import Path

    from cdcwb.capture import planner
    from cdcwb.formats import check_options, row_format
    from cdcwb.formats.containers.registry import without_login
    from cdcwb.live.follow import Follower
    from cdcwb.live.following import WITH_PARENT
    from cdcwb.live.kafka import Topics, kafka_settings, parse_point
    from cdcwb.planned import plain

    options = without_login(key_values(pairs))
    about = {"format": format_name, "options": plain(options)}
    if format_name != "auto":
        form = row_format(format_name)  # also where no message is there yet
        check_options(form, options)
        format_name = form.name
    follower = Follower(
        Topics.parse(url),
        Path(target).expanduser().absolute(),
        planner(format_name, options),
        about,
        parse_point(start, "--from"),
        kafka_settings(config),
        patience,
    )
    if os.environ.get(WITH_PARENT):
        Thread(target=_end_with_parent, daemon=True).start()

    def show(step: Step) -> None:
        if as_json:
            print_json(asdict(step))
        elif step.messages or once:
            behind = f", {count(step.behind)} behind"
            print_lines([safe(f"{target}: {plural(step.messages, 'more message')}, {count(step.all)} in all{behind}")])
        sys.stdout.flush()

    try:
        follower.run(show, every, once)
    except KeyboardInterrupt:
        print_lines([safe(f"{target}: stopped; the same command continues")])


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


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
