"""The commands that make something new: report, synth."""

from __future__ import annotations

import click

from cdcwb.cli.console import print_lines, safe, working
from cdcwb.cli.options import KeyValue, key_values
from cdcwb.words import plural

__all__ = ["report", "synth"]

@click.command()
def report() -> None:
    """x"""

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
    """Generate a capture of any size under DIR/capture, and the truth about it under DIR/truth."""
    from cdcwb.synth import generate

    text = f"generating {plural(changes, 'change')}"
    with working(text) as step:

        def told(done: int, total: int) -> None:
            step(text, done, total)

        generate(format_name, changes=changes, seed=seed, to=target, on_progress=told, **key_values(pairs))
    print_lines([safe(f"{target}: a {format_name} capture with {plural(changes, 'change')}")])
