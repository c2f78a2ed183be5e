"""The command that takes a capture from a running system: capture."""

from __future__ import annotations

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.cli.options import as_json, client_config, from_point, to_folder, waiting
from cdcwb.cli.tables import capture_database, check_apart
from cdcwb.live import FILE_BYTES, OVERLAP
from cdcwb.words import plural, size

__all__ = ["capture"]


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
        found = [one._asdict() for one in done.ranges]
        print_json({"url": topics.url, "to": target, "messages": done.messages, "bytes": done.bytes, "ranges": found})
        return
    more = "more " if done.continued else ""
    read = f"{plural(done.messages, f'{more}message')}, {size(done.bytes)}"
    print_lines([safe(f"{target}: {read} from {plural(len(done.ranges), 'partition')} of {topics.url}")])
