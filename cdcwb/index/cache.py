"""Where the indexes of captures are kept between sessions: in the user's cache directory, or where the environment
variable ``CDCWB_CACHE`` says.

A folder for each capture, by what it was made from. They hold what was captured (times, names, transaction ids), so
that only their user may read them. The ones that were not used for longest go when all of them are larger than
:data:`MOST_BYTES`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from platformdirs import user_cache_path

__all__ = ["MOST_BYTES", "cached"]

MOST_BYTES: Final = 10_000_000_000


def cached(origin: Any) -> Path | None:
    """The folder for the index of what ``origin`` names, with any value that JSON holds; it counts as used now. None
    where the cache cannot be written."""
    given = os.environ.get("CDCWB_CACHE")
    cache = Path(given).expanduser() if given else user_cache_path("cdcwb")
    name = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:32]
    place = cache / "index" / name
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (place, place.parent):
            folder.chmod(0o700)
        os.utime(place)
        _evict(place.parent, keep=place)
    except OSError:
        return None
    return place


def _evict(cache: Path, keep: Path) -> None:
    """Remove what was not used for longest until the rest is small enough."""
    folders = sorted((one for one in cache.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    sizes = {one: sum(file.stat().st_size for file in one.rglob("*") if file.is_file()) for one in folders}
    total = sum(sizes.values())
    for folder in folders:
        if total <= MOST_BYTES:
            return
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= sizes[folder]
