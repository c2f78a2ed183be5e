"""The command line ``cdcwb``: thin, one module for each group of commands.

Exit codes: 0 fine · 1 the capture has problems (``--strict``) · 2 unusable input or arguments · 3 an error inside
cdcwb. 4 is kept for broken thresholds. Answers go to standard output, messages and progress to standard error.

``identify``, ``inspect``, ``doctor`` and every ``--help`` answer within a second: nothing here imports Spark, pyarrow
or rich before a command needs it.
"""

from cdcwb.cli.app import main

__all__ = ["main"]
