"""A stand-in of OpenPBS: `PYTHONPATH=… python -m pbs NAME WORD…` is the program NAME of it."""

from __future__ import annotations

import importlib
import sys

DAEMONS = ("server", "mom")
WHERE = {"qsub": "qsub", **dict.fromkeys(("pbsdsh", "pbs_tmrsh", "pbs_attach"), "tm")}


def main(name: str, words: list[str]) -> int:
    """Be a program of PBS; the code to leave with."""
    if name in DAEMONS:
        importlib.import_module(f"{__package__}.{name}").main()
        return 0
    if words == ["--version"] and name != "qsub":
        words = []
        name, words = "qsub", ["--version"]
    module = importlib.import_module(f"{__package__}.{WHERE.get(name, 'commands')}")
    code: int = getattr(module, name)(words)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
