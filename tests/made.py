"""Generated captures of every format, and those of ``data/``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import cdcwb_synth
from cdcwb.formats import FORMATS

__all__ = ["DATA", "IN_DATA", "MAIN", "generate"]

DATA: Final = Path(__file__).parents[1] / "data"
IN_DATA: Final = [name for name in FORMATS if (DATA / name).is_dir()]
"""The formats of which ``data/`` has a capture."""
MAIN: Final = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log", "debezium")
"""The formats that tests of Spark and of clusters read; the others are envelopes and rows like theirs."""

_FORMS: Final[dict[str, tuple[str, dict[str, Any]]]] = {"goldengate-export": ("goldengate", {"form": "json"})}
"""Formats that the generator of another one makes: its name and options."""


def generate(format: str, **options: Any) -> Path:
    """As :func:`cdcwb_synth.generate`, for a format by its name."""
    generator, form = _FORMS.get(format, (format, {}))
    return cdcwb_synth.generate(generator, **{**form, **options})
