"""The format ``qlik-change-table``: change tables of Qlik Replicate, with full loads and control tables
(docs/formats/qlik-change-table.md)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats import bitmask
from cdcwb.formats import options as opt
from cdcwb.formats.containers.rows import BROKEN, Cell, FileProbe, TableName
from cdcwb.formats.containers.table_probe import GIVEN, conclusions, detected_rows, files_named
from cdcwb.formats.dissector import Field, Inspection, Recognition, Run, Wanted, detected_row, problem_row
from cdcwb.formats.qlik_change_table import layout, masks
from cdcwb.formats.qlik_change_table.decode import control_events, loaded_events, operations, row_events
from cdcwb.formats.qlik_change_table.layout import CONTROL, LOAD, ROWS, SUFFIX, Place, known_columns
from cdcwb.formats.qlik_change_table.masks import Evidence, MaskDecision, MaskSettings
from cdcwb.formats.qlik_change_table.probing import Probe, of_table, probe
from cdcwb.formats.qlik_change_table.tree import field_of, row_meaning
from cdcwb.formats.qlik_change_table.versions import ChangeTableVersions, Ddl, ddl_in_order, ddl_of
from cdcwb.formats.table_rows import Options, Plan, RowBatch, TableFile, TableRows, file_problem
from cdcwb.model import Problem
from cdcwb.words import joined, plural, unique_names

__all__ = ["QlikChangeTable"]

_NAMED: Final = 3  # files in a row of detected
_MOST_DDL: Final = 100_000  # rows of DDL history that are examined
_SCANNED: Final = Wanted(images=False, columns=frozenset({"kind", "operation", "position"}))


@dataclass(frozen=True, slots=True)
class ChangeTableOptions(Options):
    """The checked options of a capture. None: to be detected."""

    prefix: str | None = None
    suffix: str = SUFFIX
    table: str | None = None
    mask_order: str | None = None
    mask_offset: int | None = None
    mask_text: str | None = None
    header: bool | None = None
    keys: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ChangeTableFile(TableFile):
    """A file of changes, of a full load or of a control table (``role``); ``expected``: the number of rows that its
    side file has; ``is_keyed``: its key is given as an option."""

    role: str = ROWS
    expected: int | None = None
    is_keyed: bool = False

    @property
    def paired(self) -> tuple[str, Any]:
        """Halves of updates are paired by table, in files of one folder (§3.2)."""
        return self.path.rpartition("/")[0], self.table

    @property
    def known(self) -> dict[str, str]:
        """Its documented header columns, by their names without prefix."""
        return known_columns(self.probe.columns, self.options.get("prefix"))

    @property
    def mask(self) -> str | None:
        """Its column of masks."""
        return self.known.get("change_mask")


class QlikChangeTable(TableRows):
    """Reads Qlik change tables from files and tables of rows (docs/formats/qlik-change-table.md)."""

    name = "qlik-change-table"
    side_file = re.compile(r"\.dfm$", re.IGNORECASE)
    names_keys = True
    examines = True
    scanned = _SCANNED
    options_type = ChangeTableOptions
    own_options: ClassVar = {
        "prefix": "prefix of the names of header columns: auto, or the text (header__)",
        "suffix": f"suffix of the names of change tables ({SUFFIX})",
        "table": "schema.table of all rows: auto (from side files, else from the names of files and folders), or the "
        "name",
        "mask_order": f"byte order of change masks: auto, {', '.join(bitmask.ORDERS)}",
        "mask_offset": "bit of the first data column in change masks: auto, or a number",
        "mask_text": f"text form of change masks: auto, {bitmask.HEX}, {bitmask.BASE64}",
        "header": "delimited files begin with a line of column names: auto, true, false",
    }
    parsers: ClassVar = {
        **TableRows.parsers,
        "prefix": (opt.as_text,),
        "suffix": (opt.as_text,),
        "table": (opt.as_text,),
        "mask_order": (opt.as_choice, ("auto", *bitmask.ORDERS)),
        "mask_offset": (opt.as_whole, 0),
        "mask_text": (opt.as_choice, ("auto", bitmask.HEX, bitmask.BASE64)),
        "header": (opt.as_bool,),
        "keys": (lambda _, value: opt.parse_keys(value),),
    }

    # --- files --------------------------------------------------------------------------------------------------------

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The ``.dfm`` files among the files and next to them."""
        among = [path for path in paths if self.side_file.search(path)]
        beside = [found for path in paths if (found := layout.side_file(path)) is not None]
        return list(dict.fromkeys(among + beside))

    def files(self, plan: Any) -> list[dict[str, Any]]:
        """Adds the ``role`` of each: changes, load or control."""
        return [row | {"role": entry.role} for row, entry in zip(super().files(plan), plan.files, strict=True)]

    def probe(self, options: Any, path: str) -> Probe:
        """The kind of a file, and its columns."""
        return probe(path, options)

    def probe_rows(self, name: str, schema: pa.Schema) -> Probe:
        """The columns of a table of rows. Raises CaptureError for one without columns."""
        if not len(schema):
            raise CaptureError("a table without columns is not a change table", path=name)
        text = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
        names = unique_names(schema.names)
        return of_table(FileProbe(name, "rows", names, len(names), heading=text, schema=schema))

    def likely(self, paths: Sequence[str], options: Any) -> Sequence[str]:
        """Change tables before full loads."""
        return sorted(paths, key=lambda path: not layout.from_path(path, options.suffix).suffixed)

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for header columns and control tables among the columns of a table."""
        return self._by_columns("the table", "rows", "", schema.names)

    def recognise_file(self, path: str, options: Any) -> Recognition:
        """Looks for header columns, a side file, and the columns of a control table."""
        try:
            found = self.probe(options, path)
        except (CaptureError, OSError) as reason:
            return Recognition(0.0, [str(reason)])
        name = Path(path).name
        if found.side is not None and found.side.columns:
            beside = Path(found.side.path).name
            return Recognition(0.99, [f"{name} has a side file {beside} that describes its columns"], found.file.kind)
        table = layout.from_path(path, options.suffix).name.table
        names = [] if found.file.kind == BROKEN else found.names
        return self._by_columns(name, found.file.kind, table, names, options.prefix)

    def _by_columns(
        self, what: str, kind: str, table: str, names: Sequence[str], given: str | None = None
    ) -> Recognition:
        prefix = layout.find_prefix(names, given)
        known = {} if prefix is None else known_columns(names, prefix.text)
        if prefix is not None and known.keys() & {"change_seq", "change_oper", "change_mask"}:
            return Recognition(0.98, [f"{what} ({kind}) has header columns: {prefix.evidence}"], kind)
        control = layout.control_table(table, names)
        if control is not None and len(names) > 1:
            sentence = f"{what} ({kind}) has the columns of the control table {control}: {joined(names[:8])}"
            return Recognition(0.9, [sentence], kind)
        return Recognition(0.0, [f"no header columns of {self.name}, no side file and no control table were found"])

    # --- the plan -----------------------------------------------------------------------------------------------------

    def make_plan(self, paths: Sequence[str], options: Any, run: Run) -> Plan:
        """See :meth:`cdcwb.formats.dissector.Format.plan`. Side files among the files describe others."""
        data = self.data_files(paths)
        if not data:
            raise CaptureError("there are only side files, without the data files that they describe", path=paths[0])
        return super().make_plan(data, options, run)

    def draft(self, probes: Sequence[Probe], options: Any) -> Plan:
        """A plan without splits, masks and DDL history."""
        plan, given = Plan(options), options.names
        tables = dict[tuple[str, str | None], TableName]()  # by name, and control table; names are case-insensitive
        places = dict[TableName, dict[str, list[str]]]()  # evidence -> files
        prefixes = dict[layout.Prefix, dict[str, None]]()  # -> tables
        for found in probes:
            place = _place(found, options)
            control = layout.control_table(place.name.table, found.file.columns)
            table = tables.setdefault((place.name.label.casefold(), control), place.name)
            places.setdefault(table, {}).setdefault(place.evidence, []).append(found.file.path)
            prefix = None if control else layout.find_prefix(found.file.columns, options.prefix)
            if prefix is not None:
                prefixes.setdefault(prefix, {})[table.label] = None
            role = CONTROL if control else ROWS if prefix is not None or place.suffixed else LOAD
            entry = _file_of(found, table, role, prefix, options)
            entry.options = {**entry.options, **({"control": control} if control else {})}
            plan.files.append(entry)
            sentences = list(found.problems)
            if role == ROWS and not entry.known.keys() & {"change_oper", "operation"}:
                expected = "expected a column change_oper or operation"
                sentences.insert(0, (False, f"{expected}; without one the operations of its rows are unknown"))
            for is_schema, sentence in sentences:
                code = Problem.SCHEMA_TEXT if is_schema else Problem.SCHEMA_MISMATCH
                plan.problems.append(problem_row(code, sentence, file=entry.path, table=table.label))
        _add_versions(plan, probes)
        for table, files in places.items():
            shown = joined([f"{place} ({files_named(paths)})" for place, paths in files.items()][:_NAMED])
            why = GIVEN if options.table else shown
            plan.detected.append(detected_row("table", table.label, why, "table" in given, table.label))
        for (prefix_text, why), labels in prefixes.items():
            scope = next(iter(labels)) if len(labels) == 1 else "capture"
            why = GIVEN if "prefix" in given else why
            plan.detected.append(detected_row("prefix", prefix_text or "none", why, "prefix" in given, scope))
        if not prefixes:
            plan.detected.append(
                detected_row("prefix", options.prefix or layout.PREFIX, "no file has header columns", overridden=False)
            )
        entries = [*zip(plan.files, probes, strict=True)]
        evident = {entry.table for entry, found in entries if entry.role != LOAD or found.side}
        guessed = [
            entry.path
            for entry, found in entries
            if found.file.kind != BROKEN and entry.table not in evident
            if not (evident and Path(entry.path).name.upper().startswith("LOAD"))
        ]
        if guessed:
            sentence = (
                f"no file has header columns or a side file (.dfm) for the table of {files_named(guessed)}, so nothing "
                "shows that this is a full load: rows are read as REFRESH; leave out what is not, or name its format"
            )
            plan.problems.append(problem_row(Problem.INFERRED, sentence, file=guessed[0]))
        why = GIVEN if "charset" in given else "the files do not give it; assumed"
        plan.detected.append(detected_row("charset", options.charset, why, "charset" in given))
        said = ((*one, found.file.path) for found in probes for one in conclusions(found.file, given))
        plan.detected += detected_rows(one for one in said if one[0] != "header")
        plan.problems += [file_problem(entry) for entry in plan.files if entry.problem is not None]
        return plan

    def examine(self, known: Any, index: int, rows: RowBatch) -> tuple[Any, bool]:
        """The evidence about masks and key, or the rows of DDL history."""
        entry: Any = rows.file
        if entry.options.get("control") == layout.DDL_HISTORY:
            found = [*(known or []), *_ddl_rows(rows, index)]
            return found, len(found) < _MOST_DDL
        if entry.role != ROWS or entry.mask is None:
            return known, False
        count = len(rows)
        some = rows if count <= masks.SAMPLE else RowBatch(rows.rows.take(np.arange(masks.SAMPLE)), entry, rows.wanted)
        columns = known_columns(some.names, entry.options.get("prefix"))
        evidence: Evidence = known or Evidence()
        if "change_mask" in columns:
            spelling = entry.options.get("mask_text")
            evidence += masks.evidence_of(some, columns, operations(some, columns), spelling=spelling)
        evidence.rows += count - len(some)
        return evidence, evidence.rows < masks.SAMPLE

    def settle(self, plan: Plan, examined: Sequence[tuple[TableFile, Any]]) -> None:
        """Adds mask settings, keys, the versions of DDL history, and problems of numbers of rows."""
        evidence, ddl = defaultdict[TableName, Evidence](Evidence), list[Ddl]()
        for entry, found in examined:
            if isinstance(found, Evidence):
                evidence[entry.table] += found
            elif found is not None:
                ddl += found
        for entry in plan.files:
            expected = getattr(entry, "expected", None)
            if expected is not None and entry.rows is not None and not entry.problem and entry.rows != expected:
                code = Problem.TRUNCATED if entry.rows < expected else Problem.SCHEMA_MISMATCH
                sentence = f"expected {expected} rows by the side file, found {entry.rows}"
                plan.problems.append(problem_row(code, sentence, file=entry.path))
        _settle_tables(plan, evidence)
        _add_ddl(plan, ddl)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def header(self, columns: Sequence[str], options: Mapping[str, str]) -> list[str]:
        """The columns with the prefix; all of a control table."""
        return (
            list(columns) if options.get("role") == CONTROL else layout.header_columns(columns, options.get("prefix"))
        )

    def events(self, rows: RowBatch, options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of events (§2, §3, §4, §6)."""
        if options["role"] == CONTROL:
            return control_events(rows, options["control"])
        return loaded_events(rows) if options["role"] == LOAD else row_events(rows, options)

    # --- one row ------------------------------------------------------------------------------------------------------

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`cdcwb.formats.dissector.Format.inspect`."""
        if self.side_file.search(path):
            raise CaptureError("this is a side file that describes another file; inspect that one", path=path)
        return super().inspect(path, offset, options)

    def row_meaning(self, entry: Any, event: Mapping[str, Any]) -> str:
        """The meaning of a row."""
        return row_meaning(entry, event)

    def field(self, entry: Any, record: bytes, cell: Cell, event: Mapping[str, Any]) -> Field:
        """One field of a row."""
        return field_of(entry, record, cell, event)

    def note(self, plan: Any, entry: Any) -> str:
        """The table version and the mask settings of a row."""
        if entry.role == CONTROL:
            return f"a row of the control table {entry.options['control']}"
        version = next((one for one in plan.versions if one.table_version == entry.version), None)
        note = (
            f"table {entry.table.label}"
            if version is None
            else f"table version {version.table_version} ({version.origin})"
        )
        settings = MaskSettings.of(entry.options) if entry.mask is not None else None
        return (
            note
            if settings is None
            else f"{note}; masks are {settings.order}-endian, data columns from bit {settings.offset} on"
        )


# --- the files of a plan ----------------------------------------------------------------------------------------------


def _file_of(
    found: Probe, table: TableName, role: str, prefix: layout.Prefix | None, options: ChangeTableOptions
) -> ChangeTableFile:
    """A file of a plan, without its version and key."""
    file, names = found.file, found.file.columns
    entry = ChangeTableFile(probe=file.without_rows(), size=file.size, problem=file.problem, table=table, role=role)
    entry.options = {"role": role} | ({} if prefix is None else {"prefix": prefix.text})
    entry.options |= {} if options.mask_text is None else {"mask_text": options.mask_text}
    entry.expected = None if found.side is None else found.side.records
    entry.upper = frozenset() if entry.mask is None else frozenset({names.index(entry.mask)})
    header = set(names if role == CONTROL else layout.header_columns(names, entry.options.get("prefix")))
    entry.columns = tuple(name for name in names if name not in header)
    return entry


def _add_versions(plan: Plan, probes: Sequence[Probe]) -> None:
    """The versions from files, and their keys; a file without types has those of another file with the same columns."""
    options: Any = plan.options
    typed: dict[Any, Probe] = {}
    for entry, found in zip(plan.files, probes, strict=True):
        if found.typed:
            typed.setdefault((entry.table, entry.columns), found)
    given = {table.casefold(): columns for table, columns in options.keys.items()}
    versions = ChangeTableVersions.of_plan(plan.versions)
    for index, (entry, found) in enumerate(zip(plan.files, probes, strict=True)):
        if entry.role == CONTROL or not found.columns:
            continue
        other = typed.get((entry.table, entry.columns))
        if not found.typed and other is not None and other.names == found.names:
            file = replace(found.file, schema=other.file.schema, heading=other.file.heading)
            found = replace(other, file=file)
        data = [at for at, name in enumerate(found.file.columns) if name in set(entry.columns)]
        version = versions.of_file(entry.table, found, data, index)
        key = given.get(entry.table.label.casefold(), given.get(entry.table.table.casefold()))
        entry.version, entry.is_keyed = version.table_version, key is not None
        entry.key = version.primary_key if key is None else tuple(key)


def _place(found: Probe, options: ChangeTableOptions) -> Place:
    """The table of a file: that of the option, else of the side file, else of its path
    (docs/formats/qlik-change-table.md §1.1)."""
    path = layout.from_path(found.file.place, options.suffix)
    if options.table is not None:
        return Place(TableName.of(options.table), path.suffixed, GIVEN)
    target = None if found.side is None else found.side.table
    if target is None:
        return path
    bare = layout.without_suffix(target.table, options.suffix)
    name = TableName(target.schema, bare or target.table)
    return Place(name, bare is not None, f"the side file's table {target.table!r}")


def _ddl_rows(rows: RowBatch, index: int) -> Iterable[Ddl]:
    """The rows of DDL history."""
    texts = {name.casefold(): rows.text(name).to_pylist() for name in rows.names}
    for row, (offset, length) in enumerate(zip(rows.rows.offset.tolist(), rows.rows.length.tolist(), strict=True)):
        event = {"file_index": index, "offset": offset, "length": length}
        found = ddl_of({name: column[row] for name, column in texts.items()}, event)
        if found is not None:
            yield found


# --- masks, keys and DDL history --------------------------------------------------------------------------------------


def _settle_tables(plan: Plan, evidence: Mapping[TableName, Evidence]) -> None:
    """Order and offset of the masks of each table, and its key. If the masks of a table do not show the order, it has
    that of the others."""
    options: Any = plan.options
    tables: dict[TableName, list[Any]] = {}
    for entry in plan.files:
        if entry.role != CONTROL:
            tables.setdefault(entry.table, []).append(entry)
    detect: Callable[..., None] = lambda *row: plan.detected.append(detected_row(*row))  # noqa: E731
    decided: dict[TableName, tuple[int, MaskDecision]] = {}
    for table, entries in tables.items():
        headers = [len(one.probe.columns) - len(one.columns) for one in entries if one.mask is not None]
        if headers:
            decision = masks.decide(evidence[table], max(headers), options.mask_order, options.mask_offset)
            decided[table] = max(headers), decision
    shown = [one.settings.order for _, one in decided.values() if one.is_shown]
    usual = max(sorted(set(shown)), key=shown.count) if shown and options.mask_order is None else None
    versions = ChangeTableVersions.of_plan(plan.versions)
    for table, entries in tables.items():
        found = evidence[table]
        settings: MaskSettings | None = None
        if table in decided:
            header, decision = decided[table]
            if not decision.is_shown and usual not in (None, decision.settings.order):
                why = f"its masks are ambiguous; those of {plural(shown.count(usual or ''), 'other table')} decide it"
                decision = replace(masks.decide(found, header, usual, options.mask_offset), order_evidence=why)
            settings = replace(decision.settings, spelling=options.mask_text or decision.settings.spelling)
            why = f"{found.only_base64} masks can only be base64, {found.only_hex} only hexadecimal"
            for name, value, reason in (
                ("mask_order", settings.order, decision.order_evidence),
                ("mask_offset", str(settings.offset), decision.offset_evidence),
                ("mask_text", settings.spelling, why if options.mask_text is None else GIVEN),
            ):
                if value is not None:
                    detect(name, value, reason, name in options.names, table.label)
            for entry in entries:
                entry.options = entry.options | settings.options()
        given = next((one for one in entries if one.is_keyed), None)
        mine = versions.of(table)
        named = next((one for one in reversed(mine) if one.primary_key), None)
        key, why = tuple[str, ...](), GIVEN
        if given is not None:
            key = given.key
        elif named is not None:
            key, why = named.primary_key, f"key positions of table version {named.table_version}"
        elif settings is not None and mine:
            key, why = masks.key_of(found, settings, [one.name for one in mine[-1].columns])
            for entry in entries:
                entry.key = key
        if key:
            detect("keys", "+".join(key), why, given is not None, table.label)


def _add_ddl(plan: Plan, rows: Sequence[Ddl]) -> None:
    """The versions of DDL history. A renamed table continues with the last version of the old one."""
    options: Any = plan.options
    versions = ChangeTableVersions.of_plan(plan.versions)
    tables = {one.table.label.casefold(): one.table for one in plan.files if one.role != CONTROL}
    for ddl in ddl_in_order(rows, options.suffix):
        name = ddl.name if ddl.new_name is None else TableName(ddl.name.schema, ddl.new_name)
        if ddl.problem is not None:
            location = {"file": plan.files[ddl.event["file_index"]].path} | ddl.event
            del location["file_index"]
            plan.problems.append(problem_row(Problem.SCHEMA_TEXT, ddl.problem, table=name.label, **location))
        if ddl.kind in ("DROP_TABLE", "TRUNCATE_TABLE") or not (ddl.changes or ddl.new_name):
            continue
        before = tables.setdefault(ddl.name.label.casefold(), ddl.name)
        table = tables.setdefault(name.label.casefold(), name)
        if table != before and not versions.of(table) and versions.of(before):
            versions.carried[table] = versions.of(before)[-1]
        problem = versions.of_ddl(table, ddl, name)
        plan.problems += [] if problem is None else [problem]
