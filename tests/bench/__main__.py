"""Run as a directory (`python3 -I tests/bench …`), so that nothing has to be installed."""

import os
import sys

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench import cli
from bench.speed import cli as speed

words = sys.argv[1:]
sys.exit(speed.main(words[1:]) if words[:1] == ["--speed"] else cli.main(words))
