"""The program ``cdcwb``, which ``python -m cdcwb.cli`` runs too."""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from cdcwb.cli.app import main


class _WithoutPandas(MetaPathFinder):
    """Prevents PyArrow from importing pandas with its first array. The import would take most of the time of a command
    that shows one record and does not use pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raises ImportError for pandas."""
        if fullname == "pandas":
            raise ImportError("not needed by this command")


def run() -> int:
    """Runs the command that the arguments of this process name; returns its exit code. Standard streams that are closed
    lead to nowhere; else the next file would have their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    if sys.argv[1:2] == ["inspect"]:
        sys.meta_path.insert(0, _WithoutPandas())
    return main()


if __name__ == "__main__":
    sys.exit(run())
