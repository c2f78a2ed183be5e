"""The command for live sources: capture."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from cdcwb.cli.console import print_json, print_lines, safe, working
from cdcwb.cli.options import TIME, as_json, to, with_default
from cdcwb.errors import OptionError
from cdcwb.live import FILE_BYTES, PATIENCE
from cdcwb.words import plural, size

_POINT: Final = "a point as in --from; messages from there on are not captured."
_CONFIG: Final = (
    "Properties of the client (librdkafka), name=value lines; default: the file that CDCWB_KAFKA_CONFIG names."
)
_PATIENCE: Final = "Give up after so long without an answer or a message."


@click.command()
@click.argument("url", metavar="URL")
@with_default("--from", "start", "POINT", "earliest", f"earliest, an offset, or a {TIME}")
@with_default("--until", "end", "POINT", "latest", f"latest, or {_POINT}")
@to("DIR", "A folder; one that has a part of the capture is continued.", need="a folder")
@click.option("--client-config", "config", metavar="FILE", type=click.Path(), help=_CONFIG)
@with_default("--wait", "patience", "SECONDS", PATIENCE, _PATIENCE, click.FloatRange(min=0.1))
@with_default("--file-size", "file_size", "BYTES", FILE_BYTES, "Keys and values in one file.", click.IntRange(min=1))
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
