"""The command xds: a capture as XDS documents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cdcwb.cli import options as shared
from cdcwb.cli.console import print_lines, safe, working
from cdcwb.cli.options import CaptureArguments
from cdcwb.cli.read import check_images, opened
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.formats.source import absolute
from cdcwb.words import count, joined, plural, tally

if TYPE_CHECKING:
    from cdcwb.analysis.xds import Published
    from cdcwb.opening import Reading
    from cdcwb.xds import Settings, Snapshot


Pairs = tuple[tuple[str, str], ...]

_OF_DOCUMENTS: Final = ("batch_size", "schema", "class_names", "types")
"""Settings that apply to captures of other formats too."""

_DECISIONS: Final = "FILE.jsonl: the decision on each row, with its reason."
_MOST: Final = 10
_SNAPSHOT: Final = (
    "A file with the current rows of a table, for query-back; may be repeated (default: folder NAME.snapshot of log "
    "NAME)."
)


@click.command()
@shared.to(
    "FILE|DIR",
    "FILE.xml or FILE.xds: all documents in one file; else a new folder: one file per document.",
    need="FILE.xml or a new folder",
)
@click.option("--snapshot", "snapshots", metavar="TABLE=FILE", type=shared.KeyValue(), multiple=True, help=_SNAPSHOT)
@click.option("--no-snapshot", is_flag=True, help="Do not use the folder NAME.snapshot of log NAME.")
@click.option("--driver-user", metavar="USER", help="The driver's database user: its own changes are not published.")
@click.option(
    "--as-of", type=shared.Time(), help="Do not publish rows with a later event_time yet (with -o future_events=true)."
)
@click.option("--batch-size", metavar="N", type=int, help="Events per document, 1 to 128.")
@click.option("--decisions", metavar="FILE", type=shared.Target("FILE.jsonl"), help=_DECISIONS)
@shared.infer_keys_option
@shared.overwriting("a folder of XDS documents")
@shared.source
def xds(
    source: CaptureArguments,
    target: str,
    snapshots: Pairs,
    no_snapshot: bool,
    decisions: str | None,
    infer_keys: bool,
    overwrite: bool,
    **own: Any,
) -> None:
    """Write the changes of a capture as XDS documents; for an event log, those that the Publisher would send."""
    from cdcwb.analysis.event_log import snapshot_files
    from cdcwb.analysis.export import check_target
    from cdcwb.analysis.xds import check_documents_target, publish_log, write_published
    from cdcwb.analysis.xds_changes import xds_of_changes

    check_documents_target(target, [], overwrite)  # all of this before Spark starts
    if decisions is not None:
        check_target(decisions, [], ("jsonl",))
    form, reader, settings_given = _parted(source)
    settings = _settings(form, own, settings_given)
    snapshot_paths: Pairs = ()
    if form == _LOG and len(source.paths) == 1 and not snapshots and not no_snapshot:
        snapshot_paths = tuple(snapshot_files("auto", absolute(source.paths[0])).items())
    tables = _snapshot(form, snapshots or snapshot_paths, source.options)
    with working("reading") as step:
        capture = opened(source._replace(options=reader), {}, step, partial(_check_reading, infer_keys))
        step("evaluating the log" if form == _LOG else "rendering")
        if form == _LOG:
            published = publish_log(capture, settings, tables)
        else:
            published = xds_of_changes(capture, settings, infer_keys=infer_keys)
        _check_keys(published, infer_keys)
        inputs = [str(entry["file"]) for entry in capture.files] + [path for _, path in snapshots or snapshot_paths]
        step("writing documents")
        write_published(published, Path(target), None if decisions is None else Path(decisions), inputs, overwrite)
        step("counting")
        summary = published.summary
        lines = [f"{target}: {plural(summary.documents, 'document')} with {plural(summary.events, 'event')}"]
        lines += [f"decisions: {tally(summary.decisions)}"] if summary.decisions else []
        lines += [*map(str, published.inferred), *_left_out(published)]
        if snapshot_paths:
            lines.append(f"snapshot: {plural(len(snapshot_paths), 'table')} of {Path(snapshot_paths[0][1]).parent}")
    print_lines([safe(line) for line in lines])


_LOG: Final = "idm-event-log"


def _parted(source: CaptureArguments) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The format, its reader options (a saved capture takes none), and the publisher settings; some names are both.

    Raises OptionError for a name that is neither, naming the nearest.
    """
    from cdcwb.formats import choose
    from cdcwb.formats.containers.registry import without_login
    from cdcwb.formats.files import list_files
    from cdcwb.opening import saved_format
    from cdcwb.xds import SETTINGS

    settings = {name: value for name, value in source.options.items() if name in SETTINGS}
    alone = {name: value for name, value in source.options.items() if name not in SETTINGS}
    if (saved := saved_format(source.path)) is not None:
        return saved, alone, settings
    form, _ = choose(list_files(source.path), source.format, without_login(alone))
    known = sorted({*form.options, *SETTINGS})
    for name in alone:
        if name not in form.options:
            raise OptionError(
                f"unknown option '{name}' for the reader and for publishing.{nearest(name, known)} "
                f"There are: {', '.join(known)}."
            )
    return form.name, {name: value for name, value in source.options.items() if name in form.options}, settings


def _settings(form: str, own: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
    """The checked publisher settings.

    Raises OptionError for a setting that is given twice, and for one that applies only to event logs.
    """
    from cdcwb.xds import Settings

    values = {name: value for name, value in own.items() if value is not None}
    for name in values:
        if name in options:
            raise OptionError(f"'{name}' is given twice, as -o {name} and as --{name.replace('_', '-')}")
    values |= options
    for name in values:
        if form != _LOG and name not in _OF_DOCUMENTS:
            raise OptionError(f"'{name}' is for event logs ({_LOG}); this is a {form} capture")
    return Settings.parse(values)


def _snapshot(form: str, snapshots: Pairs, options: Mapping[str, Any]) -> Snapshot | None:
    """The snapshot of the tables, read with the character set and NULL text of the log."""
    from cdcwb.xds import Snapshot

    if not snapshots:
        return None
    if form != _LOG:
        raise OptionError(f"--snapshot is for event logs ({_LOG}); this is a {form} capture")
    files = shared.key_values(snapshots)
    if twice := next((table for table, file in files.items() if isinstance(file, list)), None):
        raise OptionError(f"two snapshots of table '{twice}' are given")
    spelled = {name: text for name, text in options.items() if name in ("null_text", "charset")}
    if spelled.get("null_text", "").lower() in ("auto", "none", ""):
        spelled.pop("null_text", None)
    return Snapshot.read(files, **spelled)


def _check_reading(infer_keys: bool, reading: Reading) -> None:
    """Raises OptionError for files whose changes cannot become documents, before they are read."""
    check_images(reading)
    if not reading.format.names_keys and not reading.common.keys and not infer_keys:
        raise OptionError(
            f"{reading.format.name} captures name no key columns, and documents need them; give those of each table "
            "with -o keys=schema.table:column+column (cdcwb summary lists the tables), or --infer-keys"
        )


def _check_keys(published: Published, infer_keys: bool) -> None:
    """Raises OptionError if there is no document because no change has a key."""
    from cdcwb.xds import NO_KEY

    reasons = published.reasons
    keyless = [reason.removeprefix(NO_KEY) for reason in reasons if reason.startswith(NO_KEY)]
    if published.summary.events or not keyless:
        return
    number = plural(sum(reasons.values()), "change")
    options = joined([f"keys={table.partition(';')[0]}:column+column" for table in keyless[:_MOST]])
    infer = "none can be inferred: no column is unique in 20 inserted rows or more" if infer_keys else "or --infer-keys"
    raise OptionError(
        f"nothing was written: none of {number} has a key; give the key columns, {options}"
        f"{'; ' if infer_keys else ', '}{infer}",
        advice=tuple(f"  {line}" for line in _left_out(published)),
    )


def _left_out(published: Published) -> list[str]:
    """The numbers of changes that were left out, by reason."""
    reasons = published.reasons
    lines = [f"left out: {count(number)}, because {reason}" for reason, number in list(reasons.items())[:_MOST]]
    if len(reasons) > _MOST:
        lines.append(f"left out for {len(reasons) - _MOST} more reasons")
    return lines
