"""Which scheduler a process has to do with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_mock import MockerFixture

from mnrun import schedulers
from mnrun.config.options import BY_NAME
from mnrun.schedulers import BatchScheduler, Scheduler, hosts, local
from mnrun.schedulers.flux import scheduler as flux
from mnrun.schedulers.kubernetes import scheduler as kubernetes
from mnrun.schedulers.lsf import scheduler as lsf
from mnrun.schedulers.pbs import scheduler as pbs
from mnrun.schedulers.sge import scheduler as sge
from mnrun.schedulers.slurm import scheduler as slurm


def played(variable: str, here: bool) -> SimpleNamespace:
    return SimpleNamespace(
        job=lambda environ: environ.get(variable, ""), is_here=lambda environ: here, ANCESTORS=(variable.lower(),)
    )


@pytest.mark.parametrize(
    ("name", "environ", "here", "chosen"),
    [
        ("auto", {"B_JOB": "7"}, {"a", "b"}, "b"),
        ("auto", {"B_JOB": ""}, {"a", "b"}, "a"),
        ("auto", {}, {"b"}, "b"),
        ("auto", {}, set(), "a"),
        ("a", {"B_JOB": "7"}, {"b"}, "a"),
        ("local", {"B_JOB": "7"}, {"b"}, "b"),
    ],
)
def test_the_scheduler_of_a_process(
    mocker: MockerFixture, name: str, environ: dict[str, str], here: set[str], chosen: str
) -> None:
    """Where none is here, or two are, the default is meant, in whatever order the table has them."""
    for order in (("a", "b"), ("b", "a")):
        table = {name: played(f"{name.upper()}_JOB", name in here) for name in order}
        for known in ("BATCH", "KNOWN"):
            mocker.patch.object(schedulers, known, table)
        mocker.patch.object(schedulers, "DEFAULT", "a")
        assert schedulers.choose(name, environ) is table[chosen]


@pytest.mark.parametrize(
    ("ancestors", "chosen"), [(("a_job", "b_job"), "a"), (("b_jobd: [7.0]", "a_job"), "b"), ((), "a")]
)
def test_the_innermost_of_two_jobs(mocker: MockerFixture, ancestors: tuple[str, ...], chosen: str) -> None:
    """By the nearest program of a scheduler among the ancestors. Variables of a job reach those that it submits."""
    programs = ("mnrun (x)", "bash", *ancestors, "init")
    lines = {
        "self" if not number else str(number): f"{number or 99} ({program}) S {number + 1} 1"
        for number, program in enumerate(programs)
    }
    lines[str(len(programs) - 1)] = f"{len(programs) - 1} (init) S 0 1"
    mocker.patch.object(Path, "read_text", autospec=True, side_effect=lambda path, **_: lines[path.parent.name])
    table = {name: played(f"{name.upper()}_JOB", True) for name in ("a", "b")}
    for known in ("BATCH", "KNOWN"):
        mocker.patch.object(schedulers, known, table)
    assert schedulers.choose("auto", {"A_JOB": "1", "B_JOB": "2"}) is table[chosen]


PROGRAMS = {
    "slurm": "sbatch srun squeue",
    "slurm ": "sbatch srun squeue qsub qstat qdel qalter qhold qrls qrerun pbsnodes",  # slurm-wlm-torque
    "sge": "qsub qstat qdel qalter qhold qrls qconf qrsh",
    "pbs": "qsub qstat qdel qalter qhold qrls qrerun qsig pbsnodes",
    "lsf": "bsub bjobs bkill bhosts lsid blaunch",
}


@pytest.mark.parametrize("place", PROGRAMS)
def test_a_place_is_that_of_its_own_programs(tmp_path: Path, place: str) -> None:
    """Those of other schedulers may have the same names."""
    for name in PROGRAMS[place].split():
        (tmp_path / name).touch(0o755)
    here = [name for name, known in schedulers.KNOWN.items() if known.is_here({"PATH": str(tmp_path)})]
    assert here == [place.strip()]


WHOLE: tuple[BatchScheduler, ...] = (slurm, sge, pbs, lsf, flux, kubernetes)  # mypy holds each against its protocols
SMALL: tuple[Scheduler, ...] = (hosts, local)


def test_each_scheduler_can_be_named() -> None:
    assert set(BY_NAME["scheduler"].choices) == {"auto", *schedulers.SCHEDULERS}
    assert tuple(schedulers.BATCH.values()) == WHOLE
    assert tuple(schedulers.SCHEDULERS.values()) == (*WHOLE, *SMALL)
