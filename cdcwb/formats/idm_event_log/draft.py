"""A plan in the making: what the beginnings of files and the first pass say, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.formats.findings import detected_row, problem_row
from cdcwb.formats.idm_event_log.events import split_name
from cdcwb.formats.idm_event_log.options import Options
from cdcwb.formats.idm_event_log.plan import FileEntry, Plan, SplitEntry, TableEntry
from cdcwb.formats.idm_event_log.probing import Probe, null_texts_of
from cdcwb.formats.idm_event_log.rules import missing
from cdcwb.formats.idm_event_log.scanning import Seen
from cdcwb.model import Problem
from cdcwb.words import joined, plural

__all__ = ["Draft"]

_NAMED: Final = 3  # files that a sentence names
_FILLED: Final = {
    "record_id": ("record_id is the number of the row", "no such column; rows are numbered from 1 in capture order"),
    "status": ("status is N", "no such column; all rows are processed as new"),
}


class Draft:
    """Puts a plan together. Raises CaptureError for a file with rows whose columns cannot be told."""

    def __init__(self, options: Options, probes: Sequence[Probe]) -> None:
        self.options = options
        self.probes = probes
        for one in probes:
            if not one.labels and one.file.sample:
                raise CaptureError(
                    f"{one.assignment.evidence}; assign the columns with the option columns", path=one.file.path
                )

    def entries(self) -> list[FileEntry]:
        """The files."""
        return [
            FileEntry(one.file.without_rows(), one.labels, one.null_text, one.file.size, None, one.file.problem)
            for one in self.probes
        ]

    def plan(self, entries: list[FileEntry], splits: list[SplitEntry], seen: Seen) -> Plan:
        """The plan, but for its facts."""
        tables = self._tables(seen)
        options = self.options
        problems = self._problems(entries)
        return Plan(entries, splits, tables, options.charset, options.zone, options.schema, self._detected(), problems)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _tables(self, seen: Seen) -> list[TableEntry]:
        found: dict[tuple[str | None, str], TableEntry] = {}
        for written in dict.fromkeys([*seen.columns, *seen.keys]):
            schema, table = split_name(written, self.options.schema)
            if table is None:
                continue
            entry = found.setdefault((schema, table), TableEntry(schema, table))
            entry.keys = list(dict.fromkeys([*entry.keys, *seen.keys.get(written, ())]))
            entry.columns = list(dict.fromkeys([*entry.columns, *seen.columns.get(written, ())]))
        return list(found.values())

    # --- what was detected --------------------------------------------------------------------------------------------

    def _detected(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        self._add(
            rows,
            "columns",
            ((_shown(one), one.assignment.evidence, one.assignment.how == "option", one) for one in self.probes),
        )
        for name, (value, why) in _FILLED.items():
            lacking = [one for one in self.probes if one.labels and name not in one.labels]
            self._add(rows, "columns", ((value, why, False, one) for one in lacking))
        self._add(
            rows,
            "null_text",
            (
                (
                    null_texts_of(one),
                    one.null_from or "the default; no evidence against it",
                    self.options.null_text is not None,
                    one,
                )
                for one in self.probes
                if one.file.kind in ("csv", "excel") or one.null_text
            ),
        )
        for setting in ("delimiter", "header", "sheet", "sql_table", "backslash"):
            told = (
                (value, why, given, one)
                for one in self.probes
                for name, value, why, given in one.settings
                if name == setting
            )
            self._add(rows, setting, told)
        given = self.options.given
        self._say(rows, "charset", self.options.charset, "the files do not give it; assumed", "charset" in given)
        zone = "event_time has no zone; assumed for values without one"
        self._say(rows, "time_zone", self.options.zone, zone, "time_zone" in given)
        schema = "tables without a schema in their name have none"
        self._say(rows, "schema", self.options.schema or "none", schema, "schema" in given)
        return rows

    @staticmethod
    def _say(rows: list[dict[str, Any]], setting: str, value: str, why: str, given: bool) -> None:
        rows.append(detected_row(setting, value, "given as an option" if given else why, given))

    @staticmethod
    def _add(rows: list[dict[str, Any]], setting: str, told: Iterable[tuple[str, str, bool, Probe]]) -> None:
        """One row for all files of which the same was concluded."""
        found: dict[tuple[str, str, bool], list[str]] = {}
        for value, why, given, one in told:
            found.setdefault((value, why, given), []).append(one.file.path)
        for (value, why, given), paths in found.items():
            rows.append(detected_row(setting, value, f"{why} ({_files(paths)})", given))

    # --- problems -----------------------------------------------------------------------------------------------------

    def _problems(self, entries: Sequence[FileEntry]) -> list[dict[str, Any]]:
        rows = []
        for entry in entries:
            path = entry.probe.path
            if entry.problem:
                code = Problem.MALFORMED if entry.probe.kind == "broken" else Problem.TRUNCATED
                rows.append(problem_row(code, entry.problem, file=path))
            if entry.labels:
                rows += [problem_row(code, sentence, file=path) for code, sentence in missing(entry.absent)]
        return rows


def _shown(one: Probe) -> str:
    """Which column is which, in the order of the source."""
    if not one.labels:
        return "none"
    back = {label: name for name, label in one.labels.items()}
    if one.assignment.how == "names" and all(name == label.casefold() for label, name in back.items()):
        return joined(list(back.values()))
    columns = [label for label in one.file.columns if label in back]
    return ", ".join(f"{back[label]}={label}" for label in columns or back)


def _files(paths: Sequence[str]) -> str:
    names = joined([Path(path).name for path in paths[:_NAMED]])
    return names if len(paths) <= _NAMED else f"{names} and {plural(len(paths) - _NAMED, 'more file')}"
