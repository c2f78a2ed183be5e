"""The command for live sources: capture."""

from __future__ import annotations

from functools import partial

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.cli.options import as_json, to
from cdcwb.errors import OptionError
from cdcwb.live import FILE_BYTES, PATIENCE
from cdcwb.words import plural, size


@click.command()
@click.argument("url", metavar="URL")
@click.option(
    "--from",
    "start",
    metavar="POINT",
    default="earliest",
    show_default=True,
    help="earliest, an offset, or a time (ISO 8601; UTC if it has no zone).",
)
@click.option(
    "--until",
    "end",
    metavar="POINT",
    default="latest",
    show_default=True,
    help="latest, or a point as in --from; messages from there on are not captured.",
)
@to("DIR", "A folder; one that has a part of the capture is continued.", need="a folder")
@click.option(
    "--client-config",
    "config",
    metavar="FILE",
    type=click.Path(),
    help="Properties of the client (librdkafka), name=value lines; default: the file that CDCWB_KAFKA_CONFIG names.",
)
@click.option(
    "--wait",
    "patience",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=PATIENCE,
    show_default=True,
    help="Give up after so long without an answer or a message.",
)
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
    start: str,
    end: str,
    target: str,
    config: str | None,
    patience: float,
    file_size: int,
    as_json: bool,
) -> None:
    """Copy messages of topics to files that every command opens as a capture.

    URL is kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC] or kafka://HOST:PORT/^PATTERN. Started again, the command
    continues where the files end. Exit code 5: the cluster does not answer; run it again later.
    """
    from cdcwb.live.addresses import Address, Topics, as_point, kafka_settings
    from cdcwb.live.topics import record

    if url.lower().startswith("jdbc:"):
        Address.parse(url)
        raise OptionError("topics are captured; open a table of a database with summary, export or save, -o dbtable=…")
    topics = Topics.parse(url)
    points = as_point(start, "--from"), as_point(end, "--until")
    settings = kafka_settings(config)
    with working(text := f"capturing {topics.url}") as step:
        done = record(topics, target, *points, settings, partial(step, text), file_size, patience)
    if as_json:
        facts = {"url": topics.url, "to": target, "messages": done.messages, "bytes": done.bytes}
        print_json(facts | {"ranges": [item._asdict() for item in done.ranges]})
        return
    more = "more " if done.continued else ""
    read = f"{plural(done.messages, f'{more}message')}, {size(done.bytes)}"
    print_lines([safe(f"{target}: {read} from {plural(len(done.ranges), 'partition')} of {topics.url}")])
