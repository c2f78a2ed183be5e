"""Writes a capture of a described workload, and the truth about it."""

from __future__ import annotations

import difflib
import gc
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from cdcwb_synth.choices import Choices, described
from cdcwb_synth.debezium.encoder import DebeziumEncoder
from cdcwb_synth.debezium.options import DebeziumOptions
from cdcwb_synth.gbase8s import Encoder
from cdcwb_synth.goldengate.encoder import GoldenGateEncoder
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.history import history
from cdcwb_synth.idm_event_log.encoder import EventLogEncoder
from cdcwb_synth.idm_event_log.options import EventLogOptions
from cdcwb_synth.model import SynthError
from cdcwb_synth.mysql_json import CanalEncoder, CanalOptions, MaxwellEncoder, MaxwellOptions
from cdcwb_synth.options import Options
from cdcwb_synth.parallel import Run, write_parts
from cdcwb_synth.parts import Part
from cdcwb_synth.qlik.change_table import ChangeTableEncoder
from cdcwb_synth.qlik.kafka import KafkaEncoder
from cdcwb_synth.qlik.options import ChangeTableOptions, KafkaOptions
from cdcwb_synth.shapes import write_files
from cdcwb_synth.sqlserver_ct import SqlServerCtEncoder, SqlServerCtOptions
from cdcwb_synth.stream import Stream
from cdcwb_synth.truth import Truth
from cdcwb_synth.truth_files import write_truth
from cdcwb_synth.workload import Workload

__all__ = ["FORMATS", "FORMAT_OPTIONS", "PART_CHANGES", "generate"]

_OPTIONS: Final[dict[str, type[Choices]]] = {
    "gbase8s": Options,
    "qlik-kafka": KafkaOptions,
    "qlik-change-table": ChangeTableOptions,
    "goldengate": GoldenGateOptions,
    "idm-event-log": EventLogOptions,
    "debezium": DebeziumOptions,
    "sqlserver-ct": SqlServerCtOptions,
    "maxwell": MaxwellOptions,
    "canal": CanalOptions,
}

FORMATS: Final = tuple(_OPTIONS)
"""Formats that can be generated."""

FORMAT_OPTIONS: Final[dict[str, dict[str, tuple[object, str]]]] = {n: described(cls) for n, cls in _OPTIONS.items()}
"""The options of every format: their defaults and what they mean."""

LABELS_FOUND: Final = "capture.labels.json"
"""The tables' names, where readers of ``capture`` find them."""

_PARTS: Final = ("capture", "truth", "metadata", "registry", "labels.json", LABELS_FOUND, "synth.json")

PART_CHANGES: Final = 200_000
"""Changes of a part of a capture that is generated in parallel."""

Progress = Callable[[int, int], None]


def generate(
    format: str,
    *,
    changes: int,
    seed: int,
    to: str | Path,
    on_progress: Progress | None = None,
    run: Run | None = None,
    part_changes: int = PART_CHANGES,
    **options: object,
) -> Path:
    """Writes a capture of ``changes`` logical changes under ``to`` and returns ``to``.

    format: ``gbase8s``, ``qlik-kafka``, ``qlik-change-table``, ``goldengate``, ``idm-event-log``, ``debezium``,
        ``sqlserver-ct``, ``maxwell`` or ``canal``.
    changes: exactly how many changes the source makes, those that are undone or rolled back included. In ``gbase8s``
        all of them are in the capture (about 1.6 records for each change by default, an update being one change and
        two records). The others deliver committed work only, Qlik a full load before it: synth.json says how many
        changes that makes.
    seed: the same seed, number of changes and options give the same bytes.
    to: a folder; it is made. It gets

        capture/    the files of the capture
        truth/      changes.parquet, transactions.parquet, table_versions.parquet in the columns of cdcwb_synth.model;
                    goldengate: facts.json with the counts of records, and of lines that are not
                    idm-event-log: no transactions, but decisions.parquet and events.parquet, what becomes of every row
                    and what is published, by settings.json and the tables' contents in snapshot/; facts.json
        labels.json gbase8s: the tables' names by their labels, as the reader option ``labels`` takes them; with the
                    option ``table_names`` capture.labels.json, where readers of ``capture`` find it
        metadata/   qlik-kafka: metadata messages beside the capture; registry/: schemas by their ids
        synth.json  how it was made, and how many bytes, records and changes it has

    on_progress: called now and then with (changes done, changes in all).
    run: maps a function over tasks in parallel (``cdcwb synth --parallel`` does it in Spark). The capture is then
        generated in parts of at most ``part_changes`` changes, which continue one another: each has its own range of
        positions, transaction ids, keys and times, and files of its own, or partitions in Kafka. The bytes depend on
        seed, options and ``part_changes``, not on the number of tasks. ``to`` has to be visible to all workers.

        In truth/, changes.parquet and transactions.parquet are folders with a file for each part. Options that count
        what happens hold for the capture as a whole (schema changes are in its last part, truncated tables, restarts
        and loaded rows in its first), those that count files too, but every part has at least one file. An event log
        has no decisions.parquet, events.parquet, settings.json and snapshot/, because they depend on all of its rows.
    options: see :data:`cdcwb_synth.FORMAT_OPTIONS`, which says what each means.

    Everything appears at once, when it is complete. Raises SynthError for an unknown option (naming the nearest
    match) or an unusable value, and where ``to`` already holds a capture (unless ``overwrite``).
    """
    if format not in FORMATS:
        near = difflib.get_close_matches(format, FORMATS, 1, 0.3)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(FORMATS)}"
        raise SynthError(f"format {format!r} cannot be generated; {hint}")
    if type(changes) is not int or changes < 0:
        raise SynthError(f"the number of changes is a whole number from 0 on, not {changes!r}")
    if type(seed) is not int:
        raise SynthError(f"the seed is a whole number, not {seed!r}")
    if type(part_changes) is not int or part_changes < 1:
        raise SynthError(f"a part has a whole number of changes from 1 on, not {part_changes!r}")
    chosen: Any = _OPTIONS[format].parse(options)
    target = Path(to)
    if target.exists() and not target.is_dir():
        raise SynthError(f"{target}: is not a folder")
    there = [name for name in _PARTS if (target / name).exists()]
    if there and not chosen.overwrite:
        why = f"already holds {there[0]}; not overwritten. Name another folder, or replace it: overwrite=true"
        raise SynthError(f"{target}: {why}")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".synth-", dir=target) as place, _rare_collections():
        made = Path(place).absolute()
        if run is None:
            _WRITERS[format](format, Part(seed, changes=changes), chosen, made, on_progress)
        else:
            facts = write_parts(_write_part, format, changes, seed, chosen, made, run, part_changes)
            _synth(made, format, changes, seed, chosen, facts)
        for name in there:
            _remove(target / name)
        for name in _PARTS:
            if (made / name).exists():
                (made / name).rename(target / name)
    return target


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Nothing made here is cyclic: the garbage collector would only look at the same rows again and again."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write_part(format: str, part: Part, options: Any, folder: Path) -> None:
    """Writes a part of a capture like a capture of its own."""
    with _rare_collections():
        _WRITERS[format](format, part, options, folder, None)


def _write_gbase8s(format: str, part: Part, options: Options, folder: Path, on_progress: Progress | None) -> None:
    changes, seed = part.changes, part.own_seed
    workload = Workload(options, changes, seed, part=part)
    with closing(Stream(folder / "stream")) as stream, closing(Truth(format, folder)) as truth:
        encoder = Encoder(options, seed, stream, truth, part)
        for number, event in enumerate(workload.events()):
            encoder.write(event)
            if on_progress is not None and number % 20_000 == 0:
                on_progress(truth.changes, changes)
        encoder.finish()
        stream.close()
        for name in ("capture", "truth"):
            (folder / name).mkdir()
        places = write_files(stream.path, stream.starts, options, seed, folder / "capture", part.first_file)
        write_truth(folder / "truth", truth, places, stream.owners)
    if on_progress is not None:
        on_progress(changes, changes)
    labels = {str(v.table.label): f"{v.table.schema}.{v.table.name}" for v in workload.first}
    _json(folder / (LABELS_FOUND if options.table_names else "labels.json"), labels)
    facts = {
        "files": places.files,
        "records": len(stream),
        "record_bytes": stream.size,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
        "transactions": pq.read_metadata(folder / "truth" / "transactions.parquet").num_rows,
    }
    _synth(folder, format, changes, seed, options, facts)


def _tell(
    workload: Workload,
    encoder: KafkaEncoder
    | ChangeTableEncoder
    | GoldenGateEncoder
    | EventLogEncoder
    | DebeziumEncoder
    | SqlServerCtEncoder
    | MaxwellEncoder
    | CanalEncoder,
    changes: int,
    on_progress: Progress | None,
) -> None:
    """Lets an encoder write everything that a workload commits."""
    for number, item in enumerate(history(workload)):
        encoder.write(item, workload.now, workload.done)
        if on_progress is not None and number % 5_000 == 0:
            on_progress(workload.done, changes)
    encoder.finish()
    if on_progress is not None:
        on_progress(changes, changes)


def _write_qlik(
    format: str,
    part: Part,
    options: KafkaOptions | ChangeTableOptions,
    folder: Path,
    on_progress: Progress | None,
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed = part.changes, part.own_seed
    workload = Workload(
        options.workload, changes, seed, schema_kinds=options.kinds, loaded=options.refresh_rows, part=part
    )
    encoder: KafkaEncoder | ChangeTableEncoder
    if isinstance(options, KafkaOptions):
        encoder = KafkaEncoder(options, seed, changes, folder, part)
    else:
        encoder = ChangeTableEncoder(options, seed, changes, folder, part)
    with closing(encoder.truth) as truth:
        _tell(workload, encoder, changes, on_progress)
        truth.write()
    facts = {
        "files": sorted(truth.files),
        "records": encoder.records,
        "captured_changes": truth.rows.count,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").rglob("*") if path.is_file()),
        "transactions": truth.transactions,
    }
    _synth(folder, format, changes, seed, options, facts)


def _write_goldengate(
    format: str, part: Part, options: GoldenGateOptions, folder: Path, on_progress: Progress | None
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed = part.changes, part.own_seed
    workload = Workload(options.workload, changes, seed, schema_kinds=options.kinds, part=part)
    with closing(GoldenGateEncoder(options, seed, changes, folder, part)) as encoder:
        truth = encoder.truth
        _tell(workload, encoder, changes, on_progress)
        truth.write()
    facts = {
        "files": truth.files,
        "records": encoder.records,
        "captured_changes": truth.count,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
        "transactions": truth.transactions,
    }
    _synth(folder, format, changes, seed, options, facts)


def _write_event_log(
    format: str, part: Part, options: EventLogOptions, folder: Path, on_progress: Progress | None
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed = part.changes, part.own_seed
    workload = Workload(
        options.workload, changes, seed, schema_kinds=options.kinds, loaded=options.rows_before, part=part
    )
    encoder = EventLogEncoder(options, seed, folder, part)
    _tell(workload, encoder, changes, on_progress)
    facts = {
        "files": encoder.files,
        **encoder.facts,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
    }
    _synth(folder, format, changes, seed, options, facts)


def _write_debezium(
    format: str, part: Part, options: DebeziumOptions, folder: Path, on_progress: Progress | None
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed = part.changes, part.own_seed
    workload = Workload(
        options.workload, changes, seed, schema_kinds=options.kinds, loaded=options.refresh_rows, part=part
    )
    with closing(DebeziumEncoder(options, seed, folder, part)) as encoder:
        _tell(workload, encoder, changes, on_progress)
    facts = {
        "files": encoder.truth.files,
        "records": encoder.records,
        "captured_changes": encoder.truth.count,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
        "transactions": encoder.truth.transactions,
    }
    _synth(folder, format, changes, seed, options, facts)


def _write_sqlserver_ct(
    format: str, part: Part, options: SqlServerCtOptions, folder: Path, on_progress: Progress | None
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed = part.changes, part.own_seed
    workload = Workload(options.workload, changes, seed, schema_kinds=options.kinds, part=part)
    encoder = SqlServerCtEncoder(options, seed, folder, part)
    _tell(workload, encoder, changes, on_progress)
    facts = {
        "files": sorted(encoder.files),
        "records": encoder.records,
        "captured_changes": encoder.changes,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
        "transactions": encoder.transactions,
    }
    _synth(folder, format, changes, seed, options, facts)


def _write_mysql_json(
    format: str, part: Part, options: MaxwellOptions | CanalOptions, folder: Path, on_progress: Progress | None
) -> None:
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    changes, seed, loaded = part.changes, part.own_seed, getattr(options, "refresh_rows", 0)
    workload = Workload(options.workload, changes, seed, schema_kinds=options.kinds, loaded=loaded, part=part)
    encoder = (MaxwellEncoder if format == "maxwell" else CanalEncoder)(options, seed, folder, part)
    _tell(workload, encoder, changes, on_progress)
    facts = {
        "files": [encoder.name],
        "records": encoder.records,
        "captured_changes": encoder.changes,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").iterdir()),
        "transactions": encoder.transactions,
    }
    _synth(folder, format, changes, seed, options, facts)


_WRITERS: Final[dict[str, Callable[..., None]]] = {
    "canal": _write_mysql_json,
    "debezium": _write_debezium,
    "gbase8s": _write_gbase8s,
    "goldengate": _write_goldengate,
    "idm-event-log": _write_event_log,
    "maxwell": _write_mysql_json,
    "qlik-change-table": _write_qlik,
    "qlik-kafka": _write_qlik,
    "sqlserver-ct": _write_sqlserver_ct,
}


def _synth(folder: Path, format: str, changes: int, seed: int, options: Any, facts: dict[str, object]) -> None:
    """``synth.json``: how a capture was made, and what it has."""
    made = {"format": format, "changes": changes, "seed": seed, "options": asdict(options)}
    _json(folder / "synth.json", made | facts)


def _json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
