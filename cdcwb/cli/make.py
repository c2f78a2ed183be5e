"""The commands report and synth."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from cdcwb.cli import options as shared
from cdcwb.cli.console import FINE, PROBLEMS, UNUSABLE, print_lines, safe, working
from cdcwb.errors import OptionError
from cdcwb.formats.source import absolute
from cdcwb.words import plural
from cdcwb.writing import naming

_OTHER: Final = "Another capture to compare PATH with, in replay_and_reconcile."
_OWN: Final = "A parameter of the notebook, such as table shop.orders"
THRESHOLDS: Final = 4
"""A condition of ``--fail-if`` holds; the reports are written."""


@click.command()
@click.argument("name")
@click.argument("path", **shared.CAPTURE)
@shared.to(
    "FILE",
    "FILE.html; the facts go to FILE.json in the same folder. With all: a folder.",
    need="FILE.html, or with all a folder: a report is a page and a file of facts",
    remote=True,
)
@shared.narrowing("tables", "time_from", "time_to")
@click.option(
    "--time-zone", metavar="ZONE", help="Time zone of displayed times, such as Europe/Berlin or +08:00 (default: UTC)."
)
@click.option("--with", "other", metavar="OTHER", help=_OTHER, **shared.CAPTURE)
@shared.repeated("-p", "--parameter", "own", metavar="NAME VALUE", type=(str, str), text=_OWN)
@shared.repeated("--redact", metavar="TABLE.COLUMN", text="Redact the values of this column, such as HR.EMP.SALARY")
@shared.repeated(
    "--fail-if", metavar="CONDITION", text='End with exit code 4 if this holds, such as "open_transactions > 0"'
)
@shared.infer_keys_option
@shared.format_and_options
@shared.strict
def report(
    name: str,
    path: str,
    target: str,
    filters: shared.Filters,
    time_zone: str | None,
    other: str | None,
    own: tuple[tuple[str, str], ...],
    redact: tuple[str, ...],
    fail_if: tuple[str, ...],
    infer_keys: bool,
    format_name: str,
    options: dict[str, Any],
    strict: bool,
) -> int:
    """Write a report about a capture as one HTML file; NAME is that of a notebook without its number, such as
    transactions. NAME all writes every report and an index page into a folder."""
    from cdcwb.report import notebook_path, run_report, run_suite
    from cdcwb.report.facts import headline
    from cdcwb.report.runner import parameters_of
    from cdcwb.report.thresholds import judge, parse_thresholds

    parameters = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in filters.items()}
    if time_zone is not None:
        parameters["time_zone"] = time_zone
    if other is not None:
        if name != "all" and "target" not in parameters_of(notebook_path(name)):
            raise OptionError("--with: only replay_and_reconcile compares two captures")
        parameters["target"] = absolute(other)
    if infer_keys:
        parameters["infer_keys"] = True
    parameters |= _own_parameters(name, own)
    wanted = format_name, options, parameters, _print_progress, redact, fail_if
    failed: dict[str, str] = {}
    if name == "all":
        suite = run_suite(path, target, *wanted)
        facts_of, failed, judgement = suite.facts, suite.failed, suite.judgement
        lines = [f"{stem}.html: {headline(facts)}" for stem, facts in facts_of.items()]
        lines.append(f"{target}: {plural(len(facts_of), 'report')}, index.html")
    else:
        facts_of = {name: run_report(name, path, target, *wanted)}
        judgement = judge(parse_thresholds(fail_if), facts_of)
        lines = [f"{target}: {headline(facts_of[name])}"]
    print_lines(list(map(safe, lines)))
    wrong = [f"{stem} was not made: {sentence}" for stem, sentence in failed.items()]
    wrong += [f"not evaluated: {sentence}" for sentence in judgement.unknown]
    wrong += [f"threshold broken: {sentence}" for sentence in judgement.broken]
    for sentence in wrong:
        print(f"cdcwb: {safe(sentence)}", file=sys.stderr, flush=True)
    if judgement.broken:
        return THRESHOLDS
    if failed:
        return UNUSABLE
    sick = any(facts.get("healthy") is False for facts in facts_of.values())
    return PROBLEMS if strict and sick else FINE


_GIVEN: Final = {"path": "the argument PATH", "format": "--format", "options": "-o", "target": "--with"}


def _own_parameters(name: str, pairs: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The parameters of ``-p``: text if the notebook's default is text, else parsed as JSON if possible. Raises
    OptionError for a parameter that has an option of its own."""
    if not pairs:
        return {}
    from cdcwb.report.runner import parameters_of
    from cdcwb.report.suite import members

    for key, value in pairs:
        if value.startswith("--"):
            raise OptionError(f"-p {key}: expected NAME VALUE, found the option {value}")
        if key in _GIVEN:
            raise OptionError(f"-p {key}: give it with {_GIVEN[key]} instead")
    defaults: dict[str, Any] = {}
    for notebook in members(() if name == "all" else [name]).values():
        defaults |= parameters_of(notebook)

    def understood(key: str, text: str) -> Any:
        if not isinstance(defaults.get(key), str):
            with suppress(ValueError):
                return json.loads(text)
        return text

    return shared.key_values([(key, understood(key, text)) for key, text in pairs])


def _print_progress(text: str) -> None:
    """Prints a progress line on standard error; the notebook's own bar is drawn between such lines."""
    if sys.stderr.isatty():
        print(safe(text), file=sys.stderr, flush=True)


@click.command()
@click.argument("format_name", metavar="FORMAT")
@click.option("--changes", type=click.IntRange(min=0), required=True, help="Number of logical changes.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same bytes.")
@shared.to("DIR", "The folder to write to; it is created.", need="a folder")
@shared.pairs_option("A property of the capture, such as files=8 or shape=xxd")
def synth(format_name: str, changes: int, seed: int, target: str, options: dict[str, Any]) -> None:
    """Generate a capture of any size in DIR/capture, and the expected tables in DIR/truth; FORMAT is gbase8s,
    qlik-kafka, qlik-change-table, goldengate, idm-event-log, debezium, sqlserver-ct, maxwell or canal."""
    from cdcwb_synth import SynthError, generate

    text = f"generating {plural(changes, 'change')}"
    named = {"table_names": True} if format_name == "gbase8s" else {}
    with working(text) as step, naming(Path(target).absolute()):
        wanted: dict[str, Any] = {"changes": changes, "seed": seed, "to": target, **named, **options}
        try:
            generate(format_name, on_progress=partial(step, text), **wanted)
        except SynthError as reason:
            raise OptionError(str(reason)) from None
    article = "an" if format_name.startswith("i") else "a"
    print_lines([safe(f"{target}: {article} {format_name} capture with {plural(changes, 'change')}")])
