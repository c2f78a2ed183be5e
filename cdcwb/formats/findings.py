"""Rows of ``problems`` and ``detected``, as formats give them to a plan."""

from __future__ import annotations

from typing import Any

from cdcwb import model
from cdcwb.model import Problem

__all__ = ["detected_row", "problem_row"]


def problem_row(code: Problem, sentence: str, **place: Any) -> dict[str, Any]:
    """A row of :data:`cdcwb.model.PROBLEMS`; ``place`` are columns of it, the others are null."""
    row: dict[str, Any] = dict.fromkeys(model.PROBLEMS.names)
    row.update(severity=str(code.severity), code=str(code), sentence=sentence, **place)
    return row


def detected_row(setting: str, value: str, evidence: str, overridden: bool, scope: str = "capture") -> dict[str, Any]:
    """A row of :data:`cdcwb.model.DETECTED`."""
    return {"scope": scope, "setting": setting, "value": value, "evidence": evidence, "overridden": overridden}
