"""Writes a capture of a described workload, and the truth about it."""

from __future__ import annotations

import gc
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from cdcwb_synth.breaks import Breaks
from cdcwb_synth.debezium import DebeziumEncoder, DebeziumOptions
from cdcwb_synth.encoder import Encoder, EncoderContext
from cdcwb_synth.gbase8s import GBase8sEncoder, GBase8sOptions
from cdcwb_synth.goldengate.encoder import GoldenGateEncoder
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.idm_event_log import EventLogEncoder, EventLogOptions
from cdcwb_synth.model import SynthError
from cdcwb_synth.mysql_json import CanalEncoder, CanalOptions, MaxwellEncoder, MaxwellOptions
from cdcwb_synth.options import Options, described, nearest
from cdcwb_synth.qlik.change_table import ChangeTableEncoder, ChangeTableOptions
from cdcwb_synth.qlik.kafka import KafkaEncoder, KafkaOptions
from cdcwb_synth.sqlserver_ct import SqlServerCtEncoder, SqlServerCtOptions
from cdcwb_synth.truth import Truth, natural_key
from cdcwb_synth.workload import Workload

_GENERATORS: Final[dict[str, tuple[type[Options], type[Encoder[Any]]]]] = {
    "gbase8s": (GBase8sOptions, GBase8sEncoder), "qlik-kafka": (KafkaOptions, KafkaEncoder),
    "qlik-change-table": (ChangeTableOptions, ChangeTableEncoder), "goldengate": (GoldenGateOptions, GoldenGateEncoder),
    "idm-event-log": (EventLogOptions, EventLogEncoder), "debezium": (DebeziumOptions, DebeziumEncoder),
    "sqlserver-ct": (SqlServerCtOptions, SqlServerCtEncoder), "maxwell": (MaxwellOptions, MaxwellEncoder),
    "canal": (CanalOptions, CanalEncoder),
}  # fmt: skip

FORMATS: Final = tuple(_GENERATORS)
"""Formats that can be generated."""

FORMAT_OPTIONS: Final = {name: described(options) for name, (options, _) in _GENERATORS.items()}
"""The options of every format: their defaults and what they mean."""

_CONTENTS: Final = ("capture", "truth", "metadata", "registry", "labels.json", "capture.labels.json", "synth.json")

Progress = Callable[[int, int], None]


def generate(
    format: str, *, changes: int, seed: int, to: str | Path, on_progress: Progress | None = None, **options: object
) -> Path:
    """Writes a capture of ``changes`` logical changes under ``to`` and returns ``to``.

    format: ``gbase8s``, ``qlik-kafka``, ``qlik-change-table``, ``goldengate``, ``idm-event-log``, ``debezium``,
        ``sqlserver-ct``, ``maxwell`` or ``canal``.
    changes: exactly how many changes the source makes, those that are undone or rolled back included. In ``gbase8s``
        all of them are in the capture (about 1.6 records for each change by default, an update being one change and
        two records). The others deliver committed work only, some a full load before it: synth.json says how many
        changes that makes.
    seed: the same seed, number of changes and options give the same bytes.
    to: a folder; it is made. It gets

        capture/    the files of the capture
        truth/      changes.parquet, transactions.parquet, table_versions.parquet in the columns of cdcwb_synth.model;
                    idm-event-log: no transactions, but snapshot/ with what the tables hold at the end
        labels.json gbase8s: the tables' names by their labels, as the reader option ``labels`` takes them; with the
                    option ``table_names`` capture.labels.json, where readers of ``capture`` find it
        metadata/   qlik-kafka: metadata messages beside the capture; registry/: schemas by their ids
        synth.json  how it was made, and how many files, bytes, records, changes and transactions it has

    on_progress: called now and then with (changes done, changes in all).
    options: see :data:`cdcwb_synth.FORMAT_OPTIONS`, which says what each means.

    Everything appears at once, when it is complete. Raises SynthError for an unknown option (naming the nearest
    match) or an unusable value, and where ``to`` already holds a capture (unless ``overwrite``).
    """
    if format not in FORMATS:
        raise SynthError(f"format {format!r} cannot be generated; {nearest(format, FORMATS)}")
    if type(changes) is not int or changes < 0:
        raise SynthError(f"the number of changes is a whole number from 0 on, not {changes!r}")
    if type(seed) is not int:
        raise SynthError(f"the seed is a whole number, not {seed!r}")
    parsed = _GENERATORS[format][0].parse(options)
    target = Path(to)
    if target.exists() and not target.is_dir():
        raise SynthError(f"{target}: is not a folder")
    old = [name for name in _CONTENTS if (target / name).exists()]
    if old and not parsed.overwrite:
        why = f"already holds {old[0]}; not overwritten. Name another folder, or replace it: overwrite=true"
        raise SynthError(f"{target}: {why}")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".synth-", dir=target) as temporary:
        folder = Path(temporary).absolute()
        counts = _write(format, changes, seed, parsed, folder, on_progress)
        facts = {"format": format, "changes": changes, "seed": seed, "options": asdict(parsed)} | counts
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        (folder / "synth.json").write_text(text, encoding="utf-8")
        for name in old:
            if (target / name).is_dir():
                shutil.rmtree(target / name)
            else:
                (target / name).unlink()
        for name in _CONTENTS:
            if (folder / name).exists():
                (folder / name).rename(target / name)
    return target


def _write(
    format: str, changes: int, seed: int, options: Any, folder: Path, on_progress: Progress | None
) -> dict[str, Any]:
    """Writes a capture; returns how many files, records, changes … it has."""
    for name in ("capture", "truth"):
        (folder / name).mkdir()
    gc.disable()  # nothing made here is cyclic
    try:
        loaded = getattr(options, "refresh_rows", 0) or getattr(options, "rows_before", 0)
        begin = partial(Workload, options, changes, seed, loaded=loaded)
        workload, breaks = begin(), Breaks(options, seed, begin)
        with closing(Truth(format, folder / "truth")) as truth:
            encoder = _GENERATORS[format][1](EncoderContext(options, seed, changes, folder, truth))
            events = breaks.events(workload.events())
            story = events if format == "gbase8s" else workload.history(events)
            for number, item in enumerate(story):
                encoder.write(item, workload.done)
                if on_progress is not None and number % 5_000 == 0:
                    on_progress(workload.done, changes)
            encoder.finish()
            truth.write()
        breaks.write(folder / "truth")
    finally:
        gc.enable()
    if on_progress is not None:
        on_progress(changes, changes)
    return {
        "files": sorted(truth.files, key=natural_key),
        "records": encoder.records,
        "captured_changes": truth.count,
        "file_bytes": sum(path.stat().st_size for path in (folder / "capture").rglob("*") if path.is_file()),
        "transactions": len(truth.transactions),
    }
