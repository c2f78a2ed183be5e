"""A time that stands for none."""

from __future__ import annotations

import datetime as dt
from typing import Final

__all__ = ["UNKNOWN_UNTIL"]

UNKNOWN_UNTIL: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
"""Times before this are PostgreSQL's default, shown until the commit is known: no time of a change."""
