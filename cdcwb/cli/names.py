"""Names given on the command line that a capture does not have: said, with the nearest that it has, instead of
nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdcwb.capture import Capture

__all__ = ["check_tables", "check_transactions"]

_MOST: Final = 10


def check_tables(capture: Capture, names: Sequence[str]) -> None:
    """Raises OptionError for a table that neither has a version nor any event, naming the nearest and those there
    are."""
    rows = capture.table_versions.select("schema_name", "table_name").distinct().collect()
    known = sorted(
        {row.table_name if row.schema_name is None else f"{row.schema_name}.{row.table_name}" for row in rows}
    )
    plain = {row.table_name for row in rows}
    for name in names:
        if name not in known and name not in plain and not capture.filter(tables=[name]).headers.head(1):
            raise OptionError(f"there is no table '{name}'.{nearest(name, known)} There are: {_some(known)}.")


def check_transactions(capture: Capture, ids: Sequence[str]) -> None:
    """Raises OptionError for a transaction id that no event has, naming those that begin with it (``39`` for
    ``39@…``)."""
    from pyspark.sql import functions as F

    there = capture.filter(transactions=ids).headers.select("transaction_id").distinct()
    known = {row.transaction_id for row in there.collect()}
    for wrong in (name for name in ids if name not in known):
        like = (
            capture.headers.select("transaction_id").distinct().where(F.col("transaction_id").startswith(f"{wrong}@"))
        )
        meant = [row.transaction_id for row in like.orderBy("transaction_id").head(_MOST + 1)]
        hint = f" Did you mean {_some(meant)}?" if meant else ""
        raise OptionError(f"there is no transaction '{wrong}'.{hint}")


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:_MOST]) + (" …" if len(shown) > _MOST else "") or "none"
