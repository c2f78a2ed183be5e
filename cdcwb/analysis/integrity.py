"""Integrity of a capture: the problems that reading found, by code and one by one, and what contradicts itself only in
all of the capture: counters, positions and the versions of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.continuity import Continuity, continuity
from cdcwb.analysis.counters import counters
from cdcwb.analysis.positions import positions
from cdcwb.dataset import Rows, counted_by
from cdcwb.model import PROBLEMS, Problem, Severity

_CODE: Final = ["severity", "code"]
_PLACE: Final = ("sentence", "file", "offset")
_RANKS: Final = pa.array([*Severity], pa.string())

Record = dict[str, Any]


def by_code(capture: Any) -> list[Record]:
    """Problems by code, worst first: ``severity``, ``code``, ``problems``, ``transactions`` (number of affected ones),
    and the first by file and offset: ``sentence``, ``file``, ``offset``."""
    rows = capture.rows("problems", [*_CODE, *_PLACE, "transaction_id"])
    problems, transactions = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in rows.fold(*counted_by(rows.schema, [*_CODE, "transaction_id"])).to_pylist():
        problems[row["severity"], row["code"]] += row["rows"]
        transactions[row["severity"], row["code"]] += row["transaction_id"] is not None
    no_file = rows.schema.append(pa.field("no_file", pa.bool_()))
    located = rows.map(lambda batch: batch.append_column("no_file", batch["file"].is_null()), no_file)
    order = ("no_file", "file", "offset", "sentence")
    codes = []
    for first in located.first(order, 1, _CODE).to_pylist():
        code = first["severity"], first["code"]
        numbers = {"problems": problems[code], "transactions": transactions[code]}
        codes.append({**{name: first[name] for name in _CODE}, **numbers, **{name: first[name] for name in _PLACE}})
    ranks = _RANKS.to_pylist()
    return sorted(codes, key=lambda row: (ranks.index(row["severity"]), -row["problems"], row["code"]))


def worst(capture: Any, limit: int = 50) -> list[Record]:
    """The first ``limit`` problems, in the columns of the model: errors, then warnings, then information; by file and
    offset."""
    return first_problems(capture, ("severity", "file", "offset", "code", "sentence"), limit)


def first_problems(
    capture: Any, order: Sequence[str], limit: int, codes: Collection[str] | None = None
) -> list[Record]:
    """The first ``limit`` problems of some codes (None: all), in the columns of the model: by severity, worst first,
    then by the given columns, null first."""
    rows: Rows = capture.rows("problems", PROBLEMS.names)
    if codes is not None:
        rows = rows.where(lambda batch: pc.is_in(batch["code"], pa.array([*map(str, codes)], pa.string())))
    ranked = rows.map(
        lambda batch: batch.append_column("rank", pc.index_in(batch["severity"], _RANKS)),
        rows.schema.append(pa.field("rank", pa.int32())),
    )
    by = ["rank" if name == "severity" else name for name in order]
    problems: list[Record] = ranked.first(by, limit).drop_columns(["rank"]).to_pylist()
    return problems


def gaps(capture: Any, limit: int = 30) -> list[Record]:
    """The first ``limit`` problems about gaps in the source's own numbering (:data:`cdcwb.model.Problem.GAP`), by
    location, in the columns of the model."""
    return first_problems(capture, ("file", "offset", "transaction_id"), limit, [Problem.GAP])


# --- what contradicts itself in all of the capture --------------------------------------------------------------------


def findings(capture: Any) -> list[Record]:
    """Contradictions of counters and positions, and breaks of rows, in the columns of problems; errors first, then by
    file and offset. Each sentence names both records. Listed are the first of each; :func:`findings_by_code` counts
    all. ``problems`` do not have them: they are found only when all records have been read."""
    of_rows = [{**row, "code": f"row_{row['kind']}"} for row in _breaks(capture).listed]
    of_counters = [{**row, "code": Problem.COUNTER} for row in counters(capture).listed]
    of_positions = [{**row, "code": Problem.POSITION_ORDER} for row in positions(capture).listed]
    rows = [
        dict.fromkeys(PROBLEMS.names)
        | {name: row[name] for name in PROBLEMS.names if name in row}
        | {"code": str(row["code"]), "severity": str(Problem(row["code"]).severity)}
        for row in (*of_counters, *of_positions, *of_rows)
    ]
    files = {entry["file"]: entry["file_index"] for entry in capture.files}
    ranks = _RANKS.to_pylist()
    return sorted(rows, key=lambda row: (ranks.index(row["severity"]), files.get(row["file"], -1), row["offset"] or 0))


def findings_by_code(capture: Any) -> list[Record]:
    """The findings by code, in the columns of :func:`by_code`."""
    numbers = {f"row_{kind}": number for kind, number in _breaks(capture).kinds.items()}
    numbers[str(Problem.COUNTER)] = counters(capture).contradictions
    numbers[str(Problem.POSITION_ORDER)] = positions(capture).contradictions
    first: dict[str, Record] = {}
    for row in findings(capture):
        first.setdefault(row["code"], {name: row[name] for name in (*_CODE, *_PLACE)})
    return [row | {"problems": numbers[code], "transactions": 0} for code, row in first.items()]


def _breaks(capture: Any) -> Continuity:
    return continuity(capture) if getattr(capture, "has_images", True) else Continuity()
