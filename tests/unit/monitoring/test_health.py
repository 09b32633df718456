"""contrib/monitoring/health.sh with a stand-in of dcgmi: there is no DCGM here. Its answers have the form that people
print of DCGM 3 and 4 in issues.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unit.conftest import Shell

SCRIPT = Path(__file__).parents[3] / "contrib/monitoring/health.sh"
DCGMI = """#!/bin/sh
echo "dcgmi $*" >>asked
case "$*" in
  "group -c"*) echo 'Successfully created group "x" with a group ID of 2' ;;
  *health*-c*) echo "| Overall Health                  | $HEALTH |" ;;
  *diag*) printf '%s\\n' 'Successfully ran diagnostic for group.' "| software                  | $DIAG   |" ;;
  *stats*-v*) echo "| Energy Consumed (Joules) | 1000 |" ;;
esac
"""
SLURM = {"SLURM_JOB_ID": "271", "SLURM_JOB_GPUS": "2,3", "SLURMD_NODENAME": "n1"}
PBS = {"PBS_JOBID": "5[3].server", "CUDA_VISIBLE_DEVICES": "0"}
SGE = {"JOB_ID": "9", "SGE_TASK_ID": "4", "SGE_HGR_gpu": "1 0"}
BEGIN = """\
dcgmi group -c mnrun-271 -a 2,3
dcgmi health -g 2 -s a
dcgmi health -g 2 -c
dcgmi diag -g 2 -r 1
dcgmi stats -g 2 -e
dcgmi stats -g 2 -s 271
"""
END = """\
dcgmi stats -x 271
dcgmi stats -j 271 -v
dcgmi stats -r 271
dcgmi health -g 2 -c
dcgmi diag -g 2 -r 1
dcgmi group -d 2
"""
Run = Callable[..., str]


@pytest.fixture
def run(sh: Shell, tmp_path: Path) -> Run:
    (tmp_path / "bin").mkdir()
    says = '#!/bin/sh\necho "${0##*/} $*" >>asked\n'
    for name, text in {"dcgmi": DCGMI, **dict.fromkeys(("scontrol", "pbsnodes", "qmod"), says)}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin/hostname").write_text("#!/bin/sh\necho n1\n")
    (tmp_path / "bin/hostname").chmod(0o755)

    def run(phase: str, environ: dict[str, str], code: int = 0, health: str = "Healthy", diag: str = "Pass") -> str:
        (tmp_path / "asked").write_text("")
        own = {"MNRUN_DCGM_JOBS": f"{tmp_path}/jobs", "MNRUN_DCGM_STATS": f"{tmp_path}/stats"}
        path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HEALTH": health, "DIAG": diag}
        sh(f'bash {SCRIPT} "$1"', phase, environ={**own, **path, **environ}, code=code)
        return (tmp_path / "asked").read_text()

    return run


def jobs(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (path / "jobs").iterdir()}


def test_a_job_between_its_prologue_and_its_epilogue(run: Run, tmp_path: Path) -> None:
    assert run("prologue", SLURM) == BEGIN
    assert jobs(tmp_path) == {"2": "271\n", "3": "271\n"}
    run("prologue", {**SLURM, "SLURM_JOB_ID": "272", "SLURM_JOB_GPUS": "3"})
    assert jobs(tmp_path) == {"2": "271\n", "3": "271\n272\n"}
    assert run("epilogue", SLURM) == END
    assert jobs(tmp_path) == {"3": "272\n"}
    assert "Joules" in (tmp_path / "stats/271").read_text()
    assert run("epilogue", SLURM) == ""


@pytest.mark.parametrize(
    ("environ", "code", "drained"),
    [
        (SLURM, 1, "scontrol update nodename=n1 state=drain reason=DCGM {}"),
        (PBS, 2, "pbsnodes -o -C DCGM {} n1"),
        (SGE, 99, "qmod -d *@n1"),
    ],
)
def test_a_sick_gpu(run: Run, tmp_path: Path, environ: dict[str, str], code: int, drained: str) -> None:
    for health, diag, why in (
        ("Failure", "Pass", "health: failure"),
        ("Warning", "Fail - GPU 3", "diag -r 1: failure"),
    ):
        asked = run("prologue", environ, code, health, diag).splitlines()
        assert asked[-2:] == ["dcgmi group -d 2", drained.format(why)]
        assert not (tmp_path / "jobs").exists()
    run("prologue", environ, health="Warning")
    assert run("epilogue", environ, health="Failure").endswith(drained.format("health: failure") + "\n")  # and 0


@pytest.mark.parametrize(
    "environ",
    [{}, {"SLURM_JOB_ID": "271"}, {**SLURM, "SLURM_JOB_GPUS": "MIG-1"}, {**SLURM, "SLURM_JOB_ID": "../x"}],
)
def test_what_has_no_gpus_is_left_alone(run: Run, tmp_path: Path, environ: dict[str, str]) -> None:
    assert run("prologue", environ) + run("epilogue", environ) == ""
    assert not (tmp_path / "jobs").exists()


def test_a_node_without_dcgm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin/dcgmi").unlink()
    assert run("prologue", SLURM) + run("epilogue", SLURM) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked", "bin"]
