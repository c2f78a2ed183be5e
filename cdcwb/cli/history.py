"""The command that shows the history of one row: history."""

from __future__ import annotations

from typing import Any, Final

import click

from cdcwb.cli.console import print_lines, print_rows, safe, to_json, working
from cdcwb.cli.failures import FINE
from cdcwb.cli.options import STREAM, Filters, KeyValue, as_json, format_and_options, narrowing, paths
from cdcwb.cli.read import check_images, opened
from cdcwb.words import moment, plural

__all__ = ["history"]

_SHOWN: Final = ("transaction_id", "user", "position", "table_version", "change_mask")
_TITLES: Final = {"transaction_id": "transaction", "table_version": "table version", "change_mask": "change mask"}


@click.command()
@paths
@click.option("--table", metavar="NAME", required=True, help="The row's table: schema.table, or table.")
@click.option(
    "--key",
    "pairs_of_key",
    metavar="COLUMN=VALUE",
    type=KeyValue(),
    multiple=True,
    required=True,
    help="A column of the row's key and its value, such as id=42; may be repeated.",
)
@narrowing("transactions", "time_from", "time_to", "where")
@format_and_options
@as_json
@click.option(
    "--to",
    "target",
    metavar="FILE.jsonl",
    type=click.Path(),
    help="Write the output of --json to this file.",
)
def history(
    paths: tuple[str, ...],
    table: str,
    pairs_of_key: tuple[tuple[str, str], ...],
    filters: Filters,
    format_name: str,
    pairs: tuple[tuple[str, str], ...],
    as_json: bool,
    target: str | None,
) -> int:
    """Show the history of one row: each change in order, with its values and its location in the files."""
    from cdcwb.analysis.export import check_target
    from cdcwb.analysis.replay import lives

    as_json = as_json or target == STREAM
    place = None if target is None or target == STREAM else check_target(target, [], ("jsonl",))
    with working("starting Spark") as step:
        capture = opened(paths, format_name, pairs, filters, step, check_images)
        step("looking for the row")
        found = lives(capture.history(table, dict(pairs_of_key)), capture.files)
    if place is not None:
        from cdcwb.report.html import write_whole

        write_whole(place, "".join(f"{json_line(change)}\n" for change in found))
        print_lines([safe(f"{target}: {plural(len(found), 'change')}")])
    elif as_json:
        print_lines([json_line(change) for change in found])
    else:
        _print(table, dict(pairs_of_key), found)
    return FINE


def json_line(change: dict[str, Any]) -> str:
    """A change as one line of JSON that is safe to print."""
    left_out = ("at", "taken_back", "differences", "image")
    plain = {name: value for name, value in change.items() if name not in left_out}
    told = [{name: one[name] for name in ("column", "old", "new", "old_known")} for one in change["differences"]]
    text = to_json(plain | {"differences": told})
    return "".join(line.strip() + (" " if line.endswith(",") else "") for line in text.split("\n"))


def _print(table: str, key: dict[str, str], changes: list[dict[str, Any]]) -> None:
    from cdcwb.analysis.replay import key_text, outcome_words

    named = changes[0]["table"] if changes else table
    print_lines([safe(f"{named}, {key_text(dict(key))}: {plural(len(changes), 'change')}")])
    for change in changes:
        time = "" if change["at"] is None else f", {moment(change['at'])}"
        print_lines(["", safe(f"{change['operation']}{time}, {outcome_words(change['outcome'])}")])
        facts = [(_TITLES.get(name, name), change[name]) for name in _SHOWN if change[name] is not None]
        facts += [("location", _location(one)) for one in change["places"]]
        width = max(len(title) for title, _ in facts)
        print_lines([safe(f"  {title:<{width}}  {value}") for title, value in facts])
        rows = [(safe(f"  {one['column']}"), safe(one["told"])) for one in change["differences"]]
        if rows:
            print_rows(("  column", "value" if change["operation"] != "UPDATE" else "old -> new"), rows)
        else:
            print_lines(["  no values in the record"])


def _location(place: dict[str, Any]) -> str:
    return f"{place['file']}, offset {place['offset']}, length {place['length']}"
