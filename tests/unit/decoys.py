"""Programs of a site that no unit test may start, as decoys in front of PATH.

So a test does the same on a machine with an MPI, a container runtime and a scheduler, and on one without. A decoy says
that it has been started, fails, and leaves a mark, which fails the test.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NAMES = (
    *("mpirun", "mpiexec", "mpiexec.hydra", "prterun", "orterun", "apptainer", "singularity", "docker", "podman"),
    "ch-run",
    *("srun", "salloc", "sbatch", "scancel", "scontrol", "squeue", "sacct", "sinfo", "ssh", "pdsh", "qsub"),
    "nvidia-smi",
)
CODE = 99


class Decoys:
    """Decoys in the folder `place`. `without` is a PATH with all other programs of this machine, and no decoy."""

    def __init__(self, place: Path) -> None:
        self._mark, self._seen = place / "mark", 0
        for name in NAMES:
            program = place / name
            program.write_text(
                f'#!/bin/sh\necho "${{0##*/}} $*" >>{self._mark}\necho "a unit test has started $0" >&2\nexit {CODE}\n'
            )
            program.chmod(0o755)
        self.without = str(_others(place / "others", os.environ["PATH"].split(os.pathsep)))
        place.chmod(0o755)  # some tests start programs of another user
        os.environ["PATH"] = f"{place}:{os.environ['PATH']}"

    def started(self) -> list[str]:
        """Return the lines of decoys that were started since the last question."""
        lines = self._mark.read_text().splitlines() if self._mark.exists() else []
        new, self._seen = lines[self._seen :], len(lines)
        return new

    def refuse(self) -> None:
        """Fail a test that has started one."""
        if lines := self.started():
            pytest.fail(
                f"A unit test has started a program of this machine: {'; '.join(lines)}. Put a stand-in in PATH."
            )


def _others(folder: Path, path: list[str]) -> Path:
    """Make a folder with a link to each program on PATH that has no decoy."""
    folder.mkdir()
    for entry in (entry for place in map(Path, path) if place.is_dir() for entry in place.iterdir()):
        link = folder / entry.name
        if entry.name not in NAMES and not link.is_symlink():
            link.symlink_to(entry)
    return folder
