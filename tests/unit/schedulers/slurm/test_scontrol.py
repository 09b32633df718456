"""scontrol's answers about a job."""

from __future__ import annotations

import pytest

from mnrun.errors import SchedulerError
from mnrun.model import Allocation, Node
from mnrun.schedulers.slurm import scontrol
from unit.cases import Cases, given
from unit.samples import recorded
from unit.texts import Refused, Says


def nodes(*shares: tuple[str, int, int]) -> tuple[Node, ...]:
    return tuple(Node(*one) for one in shares)


def test_allocation_of_a_real_job(cases: Cases) -> None:
    """Within a step SLURM_NTASKS is the step's. A batch script and salloc's shell are steps, but the job's."""

    def told(name: str) -> str:
        found = scontrol.allocation(*recorded(name))
        asked = f"ntasks={found.ntasks} each={found.ntasks_per_node} cpus={found.cpus_per_task}"
        nodes = " ".join(f"{node.name}:{node.cpus}:{node.gpus}" for node in found.nodes)
        assert found == Allocation(
            "slurm", found.job, found.nodes, found.ntasks, found.ntasks_per_node, found.cpus_per_task
        )
        return f"{found.job}: {asked}; {nodes}"

    cases(told)


def test_fewer_tasks_than_each_node_may_have(cases: Cases) -> None:
    """`salloc -n 5 --ntasks-per-node=3`: five tasks, and at most three on a node. A step's number is not the job's."""
    text, environ = recorded("tasks_per_node")

    def tasks(variables: str, where: str) -> str:
        found = scontrol.allocation(text, {**environ, **given(variables)}, where == "a script")
        return f"ntasks={found.ntasks} each={found.ntasks_per_node}"

    cases(tasks)


@pytest.mark.parametrize("state", ["CONFIGURING", "STOPPED"])
def test_a_job_whose_nodes_boot(state: str) -> None:
    """salloc and sbatch begin before all nodes are up, and srun waits for them. A job that is stopped goes on later."""
    said, environ = recorded("plain")
    booting = said.replace("JobState=RUNNING", f"JobState={state}")
    assert scontrol.allocation(booting, environ) == scontrol.allocation(said, environ)


@pytest.mark.parametrize("job", ["pending", "cancelled"])
def test_a_job_that_does_not_run(refused: Refused, job: str) -> None:
    with refused(SchedulerError):
        scontrol.allocation(*recorded(job))


def test_an_answer_that_is_none(refused: Refused) -> None:
    with refused(SchedulerError):
        scontrol.allocation("", {})


def test_a_heterogeneous_job_is_its_first_component(says: Says) -> None:
    """`salloc -N1 : -N2`: scontrol writes a line for each component; a step runs in the one that SLURM_JOB_ID names."""
    said, environ = recorded("het")
    assert environ["SLURM_JOB_ID"] == "98"
    found = scontrol.allocation(said, environ)
    assert found.job == "98"
    says(found.note)


def test_the_request_is_that_of_the_first_component(cases: Cases) -> None:
    """(F7) salloc's SLURM_NTASKS is the sum, and what it tells without a number is any component's.

    The cases: `-N1 -n2 : -N1 -n2`; `-N1 --exclusive : -N1 --ntasks-per-node=2 -c2`; the same the other way round.
    """
    said, environ = recorded("het")

    def tasks(variables: str) -> str:
        own = {"SLURM_HET_SIZE": "2", "SLURM_JOB_ID": environ["SLURM_JOB_ID"], **given(variables)}
        found = scontrol.allocation(said, own)
        return f"ntasks={found.ntasks} each={found.ntasks_per_node} cpus={found.cpus_per_task}"

    cases(tasks)


def one(groups: str) -> str:
    said, _ = recorded("plain")
    return said.replace("   Nodes=node[01-04] CPU_IDs=0 Mem=0 GRES=", groups)


def test_cpus_and_gpus_of_a_node(cases: Cases) -> None:
    cases(lambda group: scontrol.allocation(one(f"   {group}"), {}).nodes[0])


def test_a_node_of_which_slurm_says_nothing() -> None:
    assert scontrol.allocation(one(""), {}).nodes == nodes(*((f"node0{n}", 1, 0) for n in range(1, 5)))


def test_version(cases: Cases) -> None:
    cases(scontrol.version)


def test_version_that_is_none(refused: Refused) -> None:
    """A wrapper called srun may say anything."""
    with refused(SchedulerError):
        scontrol.version("no\n")
