"""The command that keeps a saved capture of a topic up to date: follow."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING

import click

from cdcwb.cli.console import print_json, print_lines, safe
from cdcwb.cli.options import as_json, client_config, format_and_options, from_point, key_values, to_folder, waiting
from cdcwb.live import EVERY
from cdcwb.words import count, plural

if TYPE_CHECKING:
    from cdcwb.live.follow import Step

__all__ = ["follow"]


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
    from cdcwb.formats import check_options, get_format
    from cdcwb.formats.messages.registry import without_login
    from cdcwb.live.follow import Follower
    from cdcwb.live.following import WITH_PARENT
    from cdcwb.live.kafka import Topics, kafka_settings, parse_point
    from cdcwb.planned import plain

    options = without_login(key_values(pairs))
    if format_name != "auto":
        check_options(get_format(format_name), options)
    about = {"format": format_name, "options": plain(options)}
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
