"""Run as a directory (`python3 -I tests/bench …`), so that nothing has to be installed."""

import os
import sys

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.cli import main

sys.exit(main(sys.argv[1:]))
