"""The commands that make something new: report, synth."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from cdcwb.cli.console import print_lines, safe, working
from cdcwb.cli.failures import FINE, PROBLEMS
from cdcwb.cli.options import Filters, KeyValue, format_and_options, key_values, narrowing, strict
from cdcwb.words import plural

__all__ = ["report", "synth"]


@click.command()
@click.argument("name")
@click.argument("path", type=click.Path())
@click.option("--to", "target", metavar="FILE", type=click.Path(), required=True, help="FILE.html.")
@narrowing("tables", "time_from", "time_to")
@format_and_options
@strict
def report(
    name: str,
    path: str,
    target: str,
    filters: Filters,
    format_name: str,
    pairs: tuple[tuple[str, str], ...],
    strict: bool,
) -> int:
    """Answer a question about a capture in one HTML file; NAME is a notebook without its number, such as
    transactions."""
    from cdcwb.report import run_report

    parameters = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in filters.items()}
    facts = run_report(name, path, target, format_name, key_values(pairs), parameters, say=_told)
    print_lines([safe(f"{target}: {facts['verdict']}")])
    return PROBLEMS if strict and not facts["healthy"] else FINE


def _told(text: str) -> None:
    """A line on standard error for whoever watches; the notebook's own bar is drawn between such lines."""
    if sys.stderr.isatty():
        print(safe(text), file=sys.stderr, flush=True)


@click.command()
@click.argument("format_name", metavar="FORMAT")
@click.option("--changes", type=click.IntRange(min=0), required=True, help="How many logical changes.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same bytes.")
@click.option("--to", "target", metavar="DIR", type=click.Path(), required=True, help="A folder; it is made.")
@click.option(
    "-o",
    "--option",
    "pairs",
    metavar="KEY=VALUE",
    type=KeyValue(),
    multiple=True,
    help="What the capture is like, such as files=8 or shape=xxd; may be repeated.",
)
def synth(format_name: str, changes: int, seed: int, target: str, pairs: tuple[tuple[str, str], ...]) -> None:
    """Generate a capture of any size under DIR/capture, and the truth about it under DIR/truth; FORMAT is gbase8s,
    qlik-kafka, qlik-change-table or goldengate."""
    from cdcwb.synth import generate

    text = f"generating {plural(changes, 'change')}"
    with working(text) as step:

        def told(done: int, total: int) -> None:
            step(text, done, total)

        generate(format_name, changes=changes, seed=seed, to=target, on_progress=told, **key_values(pairs))
    print_lines([safe(f"{target}: a {format_name} capture with {plural(changes, 'change')}")])
