"""scontrol's answers about a job.

The texts in recorded/ are a real Slurm 24.11's; samples.recorded says how they were made.
"""

from __future__ import annotations

import pytest

from mnrun.errors import SchedulerError
from mnrun.model import Allocation, Node
from mnrun.schedulers.slurm import scontrol
from unit.samples import recorded


def nodes(*shares: tuple[str, int, int]) -> tuple[Node, ...]:
    return tuple(Node(*one) for one in shares)


JOBS: dict[str, Allocation] = {
    "plain": Allocation("slurm", "82", nodes(("node01", 1, 0), ("node02", 1, 0), ("node03", 1, 0), ("node04", 1, 0))),
    "tasks": Allocation(
        "slurm", "83", nodes(("node01", 4, 0), ("node02", 1, 0), ("node03", 1, 0), ("node04", 1, 0)), ntasks=7
    ),
    "tasks_per_node": Allocation("slurm", "84", nodes(("node01", 3, 0), ("node02", 3, 0)), ntasks_per_node=3),
    "gpus_per_node": Allocation(
        "slurm", "85", nodes(("node01", 1, 2), ("node02", 1, 2), ("node03", 1, 2), ("node04", 1, 2))
    ),
    "gpus_per_task": Allocation("slurm", "86", nodes(("node01", 4, 4), ("node02", 1, 1)), ntasks=5),
    "gpus_total": Allocation("slurm", "87", nodes(("node01", 1, 3), ("node02", 1, 1), ("node03", 1, 1))),
    "uneven": Allocation(
        "slurm", "88", nodes(("node01", 6, 0), ("node02", 2, 0), ("node03", 2, 0)), ntasks=5, cpus_per_task=2
    ),
    "exclusive": Allocation("slurm", "89", nodes(("node01", 8, 4), ("node02", 8, 4))),
    "gres": Allocation("slurm", "90", nodes(("node01", 1, 3), ("node02", 1, 3))),
    "subset": Allocation("slurm", "91", nodes(("node02", 1, 0), ("node04", 1, 0))),
    "nodes_odd": Allocation("slurm", "92", nodes(("node01", 1, 0), ("node02", 1, 0), ("node04", 1, 0))),
    "comment": Allocation("slurm", "93", nodes(("node01", 1, 0))),
    # within a step SLURM_NTASKS is the step's
    "in_step": Allocation("slurm", "94", nodes(("node01", 3, 0), ("node02", 1, 0))),
    "srun": Allocation("slurm", "95", nodes(("node01", 1, 0), ("node02", 1, 0)), ntasks_per_node=1),
    # the batch script and salloc's shell on a node are steps too, but the job's own
    "sbatch": Allocation("slurm", "96", nodes(("node01", 2, 0), ("node02", 1, 0)), ntasks=3),
    "interactive": Allocation("slurm", "97", nodes(("node01", 3, 0), ("node02", 1, 0)), ntasks=4),
    "array": Allocation("slurm", "120", nodes(("node01", 1, 0), ("node02", 1, 0))),
}


@pytest.mark.parametrize("job", JOBS)
def test_allocation_of_a_real_job(job: str) -> None:
    """Nodes with the CPUs and GPUs that the job holds there, and the tasks that the job itself asked for."""
    assert scontrol.allocation(*recorded(job)) == JOBS[job]


@pytest.mark.parametrize(
    ("variables", "scripted", "tasks"),
    [
        ({"SLURM_NTASKS": "5"}, False, (5, 3)),
        ({"SLURM_NTASKS": "6"}, False, (None, 3)),
        ({"SLURM_NTASKS": ""}, False, (None, 3)),
        ({"SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, False, (None, 3)),
        ({"SLURM_NTASKS": "5", "SLURM_STEP_ID": "0"}, True, (5, 3)),
    ],
)
def test_fewer_tasks_than_each_node_may_have(
    variables: dict[str, str], scripted: bool, tasks: tuple[int | None, int | None]
) -> None:
    """`salloc -n 5 --ntasks-per-node=3`: five tasks, and at most three on a node. A step's number is not the job's."""
    text, environ = recorded("tasks_per_node")
    found = scontrol.allocation(text, {**environ, **variables}, scripted)
    assert (found.ntasks, found.ntasks_per_node) == tasks


@pytest.mark.parametrize("state", ["CONFIGURING", "STOPPED"])
def test_a_job_whose_nodes_boot(state: str) -> None:
    """salloc and sbatch begin before all nodes are up, and srun waits for them. A job that is stopped goes on later."""
    said, environ = recorded("plain")
    assert scontrol.allocation(said.replace("JobState=RUNNING", f"JobState={state}"), environ) == JOBS["plain"]


@pytest.mark.parametrize(
    ("job", "said"),
    [("pending", "job 100 is PENDING, not running"), ("cancelled", "job 100 is CANCELLED, not running")],
)
def test_a_job_that_does_not_run(job: str, said: str) -> None:
    """SLURM_JOB_ID may be left in a shell long after its job."""
    with pytest.raises(SchedulerError) as wrong:
        scontrol.allocation(*recorded(job))
    assert str(wrong.value) == said


def test_an_answer_that_is_none() -> None:
    """Whatever Slurm says instead, it is no traceback."""
    with pytest.raises(SchedulerError, match=r"^job \? is unknown, not running$"):
        scontrol.allocation("", {})


def test_a_heterogeneous_job_is_its_first_component() -> None:
    """`salloc -N1 : -N2`: scontrol writes a line for each component; a step runs in the one that SLURM_JOB_ID names."""
    said, environ = recorded("het")
    assert environ["SLURM_JOB_ID"] == "98"
    found = scontrol.allocation(said, environ)
    assert (found.job, found.components) == ("98", 2)


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        # salloc -N1 -n2 : -N1 -n2
        ({"SLURM_NTASKS": "4", "SLURM_NTASKS_HET_GROUP_0": "2", "SLURM_NTASKS_HET_GROUP_1": "2"}, (2, None, None)),
        # salloc -N1 --exclusive : -N1 --ntasks-per-node=2 -c2
        (
            {
                **{"SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS_HET_GROUP_1": "2"},
                **{"SLURM_NTASKS_PER_NODE_HET_GROUP_1": "2", "SLURM_CPUS_PER_TASK_HET_GROUP_1": "2"},
            },
            (None, None, None),
        ),
        # salloc -N1 --ntasks-per-node=2 -c2 : -N1
        (
            {
                **{"SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS_HET_GROUP_0": "2"},
                **{"SLURM_NTASKS_PER_NODE_HET_GROUP_0": "2", "SLURM_CPUS_PER_TASK_HET_GROUP_0": "2"},
            },
            (None, 2, 2),
        ),
    ],
)
def test_the_request_is_that_of_the_first_component(given: dict[str, str], tasks: tuple[int | None, ...]) -> None:
    """(F7) salloc's SLURM_NTASKS is the sum, and what it tells without a number is any component's."""
    said, environ = recorded("het")
    found = scontrol.allocation(said, {"SLURM_HET_SIZE": "2", "SLURM_JOB_ID": environ["SLURM_JOB_ID"], **given})
    assert (found.ntasks, found.ntasks_per_node, found.cpus_per_task) == tasks


def one(groups: str) -> str:
    """A job's line with these groups, in Slurm's own form."""
    said, _ = recorded("plain")
    return said.replace("   Nodes=node[01-04] CPU_IDs=0 Mem=0 GRES=", groups)


@pytest.mark.parametrize(
    ("group", "node"),
    [
        ("Nodes=node01 CPU_IDs=0-1,4,6-7 Mem=1024 GRES=gpu:2(IDX:0,3)", Node("node01", 5, 2)),
        ("Nodes=node01 CPU_IDs=0-127 Mem=0 GRES=gpu:a100:8(IDX:0-7)", Node("node01", 128, 8)),
        ("Nodes=node01 CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:3)", Node("node01", 1, 3)),
        ("Nodes=node01 CPU_IDs=0 Mem=0 GRES=gpu:1g.10gb:2(IDX:0-1)", Node("node01", 1, 2)),
        ("Nodes=node01 CPU_IDs=0 Mem=0 GRES=nic:2(IDX:0-1),gpu:1(IDX:2)", Node("node01", 1, 1)),
        ("Nodes=node01 CPU_IDs=0 Mem=0 GRES=shard:4(4/8)", Node("node01", 1, 0)),
        ("Nodes=node01 CPU_IDs=0 Mem=0 GRES=vgpu:4(IDX:0-3)", Node("node01", 1, 0)),
    ],
)
def test_cpus_and_gpus_of_a_node(group: str, node: Node) -> None:
    """Counts of CPU ids, ranges and single ones; GPUs of every type; no other resource is taken for a GPU."""
    assert scontrol.allocation(one(f"   {group}"), {}).nodes[0] == node


def test_a_node_of_which_slurm_says_nothing() -> None:
    """One CPU, no GPU: an older Slurm may leave the groups out."""
    assert scontrol.allocation(one(""), {}).nodes == nodes(*((f"node0{n}", 1, 0) for n in range(1, 5)))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm 24.11.5\n", (24, 11)),
        ("slurm-wlm 24.11.5\n", (24, 11)),
        ("slurm 20.02.7\n", (20, 2)),
        ("slurm 25.05.0-0rc1\n", (25, 5)),
    ],
)
def test_version(text: str, version: tuple[int, int]) -> None:
    """As srun --version says it, Debian's spelling too."""
    assert scontrol.version(text) == version


def test_version_that_is_none() -> None:
    """A wrapper called srun may say anything."""
    with pytest.raises(SchedulerError, match=r"^srun --version says 'no', which is not a version of Slurm$"):
        scontrol.version("no\n")
