"""Write the tables of docs/explanation/scaling.md anew: `scripts/model --help`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import page
from .model import CONTAINER, MNRUN, MPIRUN

PLAYED = ((1, 8), (100, 8), (1000, 8), (10000, 8))  # nodes, and ranks on each


def main() -> None:
    parser = argparse.ArgumentParser(prog="model", description="The time of a launch on more nodes than there are.")
    parser.add_argument(
        "bench", nargs="?", type=Path, metavar="BENCH.json", help="take parts from this run of the bench"
    )
    parser.add_argument("--play", action="store_true", help="play the launcher against simulated nodes again")
    parser.add_argument("--begin", type=float, metavar="SECONDS", help="what mnrun takes before its first step")
    parser.add_argument("--image", type=int, metavar="BYTES", help="what a container reads of its image at its start")
    options = parser.parse_args()
    source: dict[str, Any] = page.read() if page.SOURCE.exists() else {}
    if options.bench:
        source["bench"] = _kept(json.loads(options.bench.read_text(encoding="utf-8")))
    if options.play:
        source["plays"] = [_play(*size) for size in PLAYED]
    source.update({name: value for name in ("begin", "image") if (value := getattr(options, name)) is not None})
    page.SOURCE.write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")
    page.PAGE.write_text(page.written(page.PAGE.read_text(encoding="utf-8"), source), encoding="utf-8")


def _kept(bench: dict[str, Any]) -> dict[str, Any]:
    """Return what the model needs of a run of the bench."""
    sizes = [
        {
            "nodes": size["nodes"],
            "place": size["place"],
            "ways": {name: {"cpu": size["ways"][name]["cpu"]} for name in (MPIRUN, CONTAINER, MNRUN)},
        }
        for size in bench["sizes"]
        if size["place"] == "cluster"
    ]
    facts = {name: bench["machine"][name] for name in ("date", "slurm", "openmpi", "apptainer")}
    return {"machine": facts, "sizes": sizes}


def _play(nodes: int, ranks: int) -> dict[str, Any]:
    """Play in a process of its own, whose memory is that of this launch alone."""
    words = (sys.executable, "-m", "scaling.play", str(nodes), str(ranks))
    cost: dict[str, Any] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return cost


if __name__ == "__main__":
    main()
