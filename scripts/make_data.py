"""Makes the small captures in ``data/``, the same bytes every time: ``python scripts/make_data.py``.

``--to FOLDER`` writes them elsewhere (a test compares the two).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from cdcwb.synth import generate

DATA = Path(__file__).resolve().parent.parent / "data"

NOISE_BYTES = 41
"""Bytes that are no record, put between two records of the second file: what a recorder with a bug leaves behind."""


def make_gbase8s(to: Path) -> None:
    """``gbase8s/`` (three files that continue one stream) and ``gbase8s.labels.json``."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "gbase8s",
            changes=900,
            seed=20250323,
            to=Path(place) / "made",
            files=3,
            cut_records=True,
            rate=3.0,
            concurrency=6,
            transaction_size=7.0,
            rollback_share=0.08,
            all_types_share=0.03,
            schema_changes=1,
            truncates=1,
            errors=1,
            reversed_updates=0.01,
        )
        rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
        places = [row["offset"] for row in rows if row["file_index"] == 1 and row["operation"] == "INSERT"]
        damaged = made / "capture" / "stream-2.bin"
        data, at = damaged.read_bytes(), places[len(places) // 2]
        damaged.write_bytes(data[:at] + Random(1).randbytes(NOISE_BYTES) + data[at:])
        folder = to / "gbase8s"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(made / "capture", folder)
        shutil.copyfile(made / "labels.json", to / "gbase8s.labels.json")


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=DATA, help="folder to write into")
    to: Path = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    make_gbase8s(to)


if __name__ == "__main__":
    main()
