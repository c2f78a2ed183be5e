"""The commands that read a capture: summary, continuity, export, save, history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.cli import console
from cdcwb.cli import options as shared
from cdcwb.cli.console import FINE, PROBLEMS, Step, print_json, print_lines, print_rows, safe, working
from cdcwb.cli.options import CaptureArguments, Filters
from cdcwb.dataset import total
from cdcwb.errors import OptionError
from cdcwb.formats.source import is_remote
from cdcwb.words import moment, plural, size
from cdcwb.writing import write_text

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.opening import Reading


STREAMS: Final = ("jsonl", "csv")
"""The formats that can be written to standard output; Parquet cannot, because it is written with seeks."""


@click.command()
@shared.narrowing()
@shared.source
@shared.strict
@shared.as_json
def summary(source: CaptureArguments, filters: Filters, strict: bool, as_json: bool) -> int:
    """Show what a capture contains and whether it is healthy."""
    from cdcwb.analysis.summary import summarize
    from cdcwb.analysis.summary_text import summary_lines

    with working("looking through the files") as step:
        capture = opened(source, filters, step)
        whole = capture.whole if "tables" in filters else None
        facts = summarize(capture, step, unfiltered=not filters, whole=whole)
    if as_json:
        print_json(facts)
    else:
        print_lines([safe(source.name), *summary_lines(facts)])
    return PROBLEMS if strict and not facts["healthy"] else FINE


@click.command()
@shared.narrowing("tables")
@shared.source
@click.option("--strict", is_flag=True, help="End with exit code 1 if there is a break.")
@shared.as_json
def continuity(source: CaptureArguments, filters: Filters, strict: bool, as_json: bool) -> int:
    """Check that each change of a row begins where the one before it ended; show where a version is missing, came
    again, or came out of order."""
    from cdcwb.analysis.continuity import continuity as check
    from cdcwb.analysis.continuity import continuity_lines

    with working("looking through the files") as step:
        capture = opened(source, filters, step, check_images)
        step("comparing the changes of each row")
        result = check(capture)
    if as_json:
        print_json({**result.facts, "of_tables": result.tables, "listed": result.listed})
    else:
        print_lines([safe(source.name), *map(safe, continuity_lines(result))])
    return PROBLEMS if strict and result.breaks else FINE


@click.command()
@click.option("--view", type=shared.NearestChoice(list(model.TABLES)), required=True, help="The table to write.")
@shared.to("FILE", "FILE.jsonl, FILE.parquet or FILE.csv; - is standard output.", remote=True)
@click.option("--as", "kind", type=shared.NearestChoice(STREAMS), help="Format of standard output (default: jsonl).")
@click.option("--exact", is_flag=True, help="CSV: do not escape text that a spreadsheet would run as a formula.")
@shared.narrowing()
@shared.source
@shared.strict
def export(
    source: CaptureArguments, view: str, target: str, kind: str | None, exact: bool, filters: Filters, strict: bool
) -> int:
    """Write one table of a capture to a file or to standard output, in capture order."""
    from cdcwb.analysis.export import check_target, check_url, write_stream
    from cdcwb.analysis.export import export as write

    if target != shared.STREAM:
        if is_remote(target):  # before Spark starts
            check_url(target)
        else:
            check_target(target, [])
        if kind is not None:
            raise OptionError(
                "--as is for standard output (--to -); for a file, the ending of its name gives the format"
            )
    with working("looking through the files") as step:
        capture = opened(source, filters, step)
        step(f"writing {view}")
        if target == shared.STREAM:
            with console.standard_output() as out:
                write_stream(capture, view, kind or STREAMS[0], out, exact=exact)
        else:
            written = write(capture, view, target, exact=exact)
            print_lines([safe(f"{target}: {view}, {size(written)}")])
        step("counting problems")
        problems = capture.rows("problems", ["severity"])
        worse = problems.where(lambda batch: pc.not_equal(batch["severity"], str(model.Severity.INFO)))
        return PROBLEMS if strict and worse.fold(len, total) else FINE


@click.command()
@shared.to("DIR", "A new folder.", need="a new folder")
@shared.overwriting("a saved capture")
@shared.source
def save(source: CaptureArguments, target: str, overwrite: bool) -> None:
    """Save all tables of a capture, in a folder that every command opens as a capture."""
    from cdcwb.analysis.export import check_folder

    check_folder(target, "save writes a folder of tables, export one table to a file", overwrite)
    with working("looking through the files") as step:
        capture = opened(source, {}, step)
        step(f"saving to {target}")
        capture.save(target, overwrite=overwrite)
    print_lines([safe(f"{target}: a saved {capture.format} capture of {plural(len(capture.files), 'file')}")])


def opened(
    source: CaptureArguments, filters: Filters, step: Step, check: Callable[[Reading], None] = lambda _: None
) -> Capture:
    """The capture of a command with ``filters``. Files and options are checked first; ``check`` raises CaptureError for
    files that the command cannot use. If it needs Spark, ``step`` shows that, and Spark's log lines are off.

    Errors in Spark are raised as exceptions, and printed by :mod:`cdcwb.cli.console`.
    """
    from cdcwb.capture import Capture
    from cdcwb.filters import FilterError, parse
    from cdcwb.opening import check_capture, open_tables
    from cdcwb.spark import session

    try:
        parse(filters.get("where", ""))
    except FilterError as wrong:
        raise OptionError(f"where: {wrong}") from None
    checked = check_capture(source.path, source.format, source.options)
    if checked.reading is not None:
        check(checked.reading)
    session.before_start = lambda: step("starting Spark")
    session.LOG_LEVEL = "OFF"
    capture = Capture(open_tables(checked))
    return capture.filter(**filters) if filters else capture


def check_images(reading: Reading) -> None:
    """Raises OptionError for a capture that is read without images."""
    if not reading.common.images:
        raise OptionError("option images: this command needs values; leave images=false out")


# --- history ----------------------------------------------------------------------------------------------------------

_KEY: Final = "A column of the row's key and its value, such as id=42"
_SHOWN: Final = ("transaction_id", "user", "position", "table_version", "change_mask")
_TITLES: Final = {"transaction_id": "transaction", "table_version": "table version", "change_mask": "change mask"}


@click.command()
@click.option("--table", metavar="NAME", required=True, help="The row's table: schema.table, or table.")
@shared.repeated("--key", "pairs_of_key", metavar="COLUMN=VALUE", type=shared.KeyValue(), required=True, text=_KEY)
@shared.narrowing("transactions", "time_from", "time_to", "where")
@shared.source
@shared.as_json
@shared.to("FILE.jsonl", "Write the output of --json to this file.", required=False)
def history(
    source: CaptureArguments,
    table: str,
    pairs_of_key: tuple[tuple[str, str], ...],
    filters: Filters,
    as_json: bool,
    target: str | None,
) -> int:
    """Show the history of one row: each change in order, with its values and its location in the files."""
    from cdcwb.analysis.export import check_target
    from cdcwb.analysis.history import RowHistory

    key = dict(pairs_of_key)
    if len(key) < len(pairs_of_key):
        raise OptionError("key: a column is named twice; a row has one value of it")
    as_json = as_json or target == shared.STREAM
    path = None if target is None or target == shared.STREAM else check_target(target, [], ("jsonl",))
    with working("looking through the files") as step:
        capture = opened(source, filters, step, check_images)
        step("looking for the row")
        changes = RowHistory.of(capture, table, key).shown
    if path is not None:
        write_text(path, "".join(f"{json_line(change)}\n" for change in changes))
        print_lines([safe(f"{target}: {plural(len(changes), 'change')}")])
    elif as_json:
        print_lines([json_line(change) for change in changes])
    else:
        _print(table, key, changes)
    return FINE


def json_line(change: dict[str, Any]) -> str:
    """A change as one line of JSON that is safe to print."""
    left_out = ("at", "taken_back", "differences", "image")
    plain = {name: value for name, value in change.items() if name not in left_out}
    fields = ("column", "old", "new", "old_known")
    differences = [{name: difference[name] for name in fields} for difference in change["differences"]]
    return console.to_json(plain | {"differences": differences}, indent=None)


def _print(table: str, key: dict[str, str], changes: list[dict[str, Any]]) -> None:
    from cdcwb.analysis.history import key_text, outcome_words

    named = changes[0]["table"] if changes else table
    print_lines([safe(f"{named}, {key_text(dict(key))}: {plural(len(changes), 'change')}")])
    for change in changes:
        time = "" if change["at"] is None else f", {moment(change['at'])}"
        print_lines(["", safe(f"{change['operation']}{time}, {outcome_words(change['outcome'])}")])
        facts = [(_TITLES.get(name, name), change[name]) for name in _SHOWN if change[name] is not None]
        facts += [
            ("location", f"{place['file']}, offset {place['offset']}, length {place['length']}")
            for place in change["places"]
        ]
        width = max(len(title) for title, _ in facts)
        print_lines([safe(f"  {title:<{width}}  {value}") for title, value in facts])
        rows = [(safe(f"  {difference['column']}"), safe(difference["told"])) for difference in change["differences"]]
        if rows:
            print_rows(("  column", "value" if change["operation"] != "UPDATE" else "old -> new"), rows)
        else:
            print_lines(["  no values in the record"])
