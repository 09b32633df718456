"""What schedulers/slurm/probe.sh finds of srun's PMIx plugins, with an srun that plays Slurm of several ages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell

# As Slurm 20.11, 22.05 (whose PMIx cannot be loaded) and 24.11 were seen to answer.
OLDEST = "printf 'srun: MPI types are...\\nsrun: pmix\\nsrun: pmix_v4\\nsrun: pmi2\\n' >&2"
NEWER = "printf 'MPI plugin types are...\\n\\tpmix\\n\\tpmi2\\nspecific pmix plugin versions available: pmix_v4\\n'"
FINE = "echo 'allocation failure: Invalid node name specified' >&2; exit 1"
BROKEN = (
    "echo 'srun: error: Could not load specified plugin name for mpi/pmix: Plugin init() callback failed' >&2; exit 1"
)
SRUN = """#!/bin/sh
case $1 in --mpi=list) {listed} ;; *) [ -z "${{SLURM_JOB_ID-}}" ] || exit 0; {tried} ;; esac
"""


@pytest.mark.parametrize(
    ("listed", "tried", "unloadable"),
    [(OLDEST, FINE, []), (NEWER, FINE, []), (NEWER, BROKEN, ["pmix", "pmix_v4"]), (":", BROKEN, [])],
)
def test_offers(sh: Shell, tmp_path: Path, listed: str, tried: str, unloadable: list[str]) -> None:
    (tmp_path / "srun").write_text(SRUN.format(listed=listed, tried=tried))
    (tmp_path / "srun").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    said = sh(f"{slurm.PROBE}\noffers; echo --; unloadable", shell="bash", environ=environ).decode()
    offered, _, broken = said.partition("--\n")
    assert "srun:" not in offered
    assert ("pmix" in offered.split()) == (listed != ":")
    assert broken.split() == unloadable
