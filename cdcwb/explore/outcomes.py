"""What became of a record, and who did it: known to the index of changes, made when they are first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.index.columns import Bools, Codes
from cdcwb.index.source import Source

__all__ = ["LATE", "Late"]

LATE: Final = ("outcome", "user")
"""The columns that the index of changes knows."""

Ints = npt.NDArray[np.int64]


class Late:
    """A column of records made from the index of changes: a record has what its transaction has; one that is a change,
    the outcome of the change."""

    kind = "text"

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name

    @cached_property
    def codes(self) -> Codes:
        """The column."""
        places, changes = self._source.index, self._source.changes
        transactions, named = changes.transactions, places.texts("transaction")
        ids = transactions.rows["transaction_id"].cast(pa.large_string())
        number = pc.fill_null(pc.index_in(named.texts, value_set=ids), -1).to_numpy(zero_copy_only=False)
        texts = list(dict.fromkeys([*transactions.texts[self._name], *changes.texts.get(self._name, ())]))
        own = np.array([*map(texts.index, transactions.texts[self._name]), -1], np.int64)
        of_transaction = np.append(own[np.append(transactions.codes[self._name], -1)][number], -1)
        codes: Ints = of_transaction[named.codes]
        if self._name in changes.codes:
            mine = np.array([*map(texts.index, changes.texts[self._name]), -1], np.int64)
            there = changes.record >= 0
            codes[changes.record[there]] = mine[changes.codes[self._name][there]]
        return Codes(codes.astype(np.int32), pa.array(texts, pa.large_string()))

    def value(self, row: int) -> str | None:
        """See :class:`cdcwb.index.columns.Column`."""
        return self.codes.value(row)

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`cdcwb.index.columns.Column`."""
        return self.codes.compare(sign, value)
