"""``python -m cdcwb.cli`` is the same as ``cdcwb``."""

import sys

from cdcwb.cli.app import main

sys.exit(main())
