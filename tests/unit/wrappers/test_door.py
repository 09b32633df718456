"""srun_singularity.sh: how its other tasks learn of the end, with stand-ins for mnrun and Slurm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mnrun.files import wrappers
from unit.conftest import Shell
from unit.wrappers.node import executable

DOOR = "srun_singularity.sh"
STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2"}

# Returns once a process does not end by USR1 and USR2 any more: proc(5), status, SigCgt and SigIgn.
HEARS = r"""hears() {
  until [ $(($(sed -n 's/^Sig\(Cgt\|Ign\):[[:space:]]*/+0x/p' "/proc/$1/status" | tr -d '\n') & 0xa00)) = 2560 ]
  do sleep 0.02; done; }
"""


@pytest.mark.parametrize(
    ("mnrun", "srun", "cancelled"),
    [
        ("sleep 0.5; exit 3", "exit 1", "7.0\n"),
        ('echo "$PPID" >door; exit 3', f'{HEARS}cat; hears "$(cat door)"; kill -USR1 "$(cat door)"; sleep 0.3', ""),
    ],
    ids=["a step that ended early", "a signal while the step goes on"],
)
def test_the_jobs_code(sh: Shell, tmp_path: Path, mnrun: str, srun: str, cancelled: str) -> None:
    """The first task has it, also where it cannot tell the others. Slurm ends those, and only those that it must."""
    shutil.copy(wrappers()[DOOR], tmp_path)
    (tmp_path / "cancelled").touch()
    executable(tmp_path / "mnrun", mnrun)
    executable(tmp_path / "bin/srun", srun)
    executable(tmp_path / "bin/scancel", 'echo "$*" >>cancelled')
    environ = {**STEP, "SLURM_STEP_NODELIST": "node[01-02]", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    sh(f"exec bash -p ./{DOOR} --container=app.sif --script=job.sh", environ=environ, code=3)
    assert (tmp_path / "cancelled").read_text() == cancelled


def test_a_signal_for_the_program_ends_no_task(sh: Shell, tmp_path: Path) -> None:
    executable(tmp_path / "bin/uname", "echo node02")
    functions = "".join(f"/^{name}() {{/,/^}}/p;" for name in ("answered", "leave", "stand_by"))
    script = f"""set -euo pipefail
eval "$(sed -n '{functions}' "$1")"
place=$PWD/place
({HEARS}hears $$; kill -USR1 $$; kill -USR2 $$; sleep 0.3; mkdir place; echo "$place 4" >place/own) &
stand_by"""
    sh(script, str(wrappers()[DOOR]), shell="bash", code=4)
    assert (tmp_path / "place/left.0").exists()


def test_the_end_is_over_before_slurms_kill(sh: Shell, tmp_path: Path) -> None:
    executable(tmp_path / "bin/sleep", f'echo "$*" >>{tmp_path}/slept')
    script = 'eval "$(sed -n "/^herald=/,/^\'/p" "$1")"; exec bash -p -c "$herald" herald "$PWD/place" 1 node02'
    environ = {"SLURM_NODEID": "0", "SLURMD_NODENAME": "node01", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    sh(script, str(wrappers()[DOOR]), stdin=b"3\n", environ=environ)
    naps = (tmp_path / "slept").read_text().split()
    assert 5 < sum(map(float, naps)) < 20 and not (tmp_path / "place").exists()
