"""What the answer to a refusal tells of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mnrun.errors import SchedulerError
from mnrun.schedulers.queue import PartitionNode
from mnrun.schedulers.slurm import answers, options
from unit.samples import build

# The same words in Slurm 20.11 to 24.11
PARTITION = (
    "sbatch: error: invalid partition specified: x; Batch job submission failed: Invalid partition name specified"
)
ACCOUNT = "Batch job submission failed: Invalid account or account/partition combination specified"
QOS = "Job submit/allocate failed: Invalid qos specification"
RESERVATION = "Job submit/allocate failed: Requested reservation is invalid"
FEATURE = "Job submit/allocate failed: Invalid feature specification"
AMOUNT = (
    "CPU count per node can not be satisfied; Job submit/allocate failed: Requested node configuration is not available"
)


def place(name: str, default: bool, cpus: int, memory: int, gpus: int = 0, types: str = "", words: str = "") -> Any:
    return PartitionNode(name, default, "n1", "idle", "", gpus, 0, cpus, 2, True, "1:00", "", memory, types, words)


NODES = [
    place("main", True, 8, 16000, 4, "a100", "ib,fast"),
    place("main", True, 64, 257000, 2, "a100,h100", "ib"),
    place("debug", False, 4, 900),
]


def names(option: str) -> Sequence[str]:
    if option == "qos":
        raise SchedulerError("sacctmgr: no accounting")
    return {"account": ("physics", "chem"), "reservation": ()}[option]


@pytest.mark.parametrize(
    ("message", "given", "said"),
    [
        (PARTITION, {"partition": "gpu"}, "--partition (command line) asks for gpu, and there are debug and main"),
        (
            PARTITION,
            {"partition": "mian"},
            "--partition (command line) asks for mian, and there are debug and main; did you mean main?",
        ),
        (PARTITION, {}, ""),  # of SALLOC_PARTITION, or a default of Slurm's
        (
            FEATURE,
            {"constraint": "ib&fsat"},
            "--constraint (command line) asks for ib&fsat, and there are fast and ib; did you mean ib?",
        ),
        (FEATURE, {"constraint": "x", "partition": "debug"}, ""),
        (
            ACCOUNT,
            {"account": "physic"},
            "--account (command line) asks for physic, and there are chem and physics; did you mean physics?",
        ),
        (QOS, {"qos": "x"}, ""),
        (RESERVATION, {"reservation": "x"}, ""),
        ("Job violates accounting policy", {"partition": "x"}, ""),
    ],
)
def test_names_that_there_are(message: str, given: dict[str, Any], said: str) -> None:
    """(ux 3) The nearest one, too. Without an answer, Slurm's own words must do."""
    assert options.shortage(message, build("./app", **given), lambda: NODES, names=names) == said


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"gpus_per_node": "16"}, "--gpus-per-node 16"),
        ({"gpus_per_node": "v100:1"}, "--gpus-per-node v100:1"),
        ({"gres": "gpu:h100:5"}, "--gres gpu:h100:5"),
        ({"cpus_per_task": "99"}, "--cpus-per-task 99"),
        ({"ntasks_per_node": "10", "cpus_per_task": "8"}, "--ntasks-per-node 10 and --cpus-per-task 8"),
        ({"mem": "999G", "gpus_per_node": "a100:2"}, "--mem 999G"),
        ({"mem": "256000"}, ""),
        ({"gpus_per_node": "h100:2", "cpus_per_task": "64", "mem": "250G"}, ""),  # together on no node, perhaps
        ({"mem": "1G", "partition": "debug"}, "--mem 1G"),
        ({"mem": "1G", "partition": "none"}, ""),
    ],
)
def test_more_than_a_node_has(given: dict[str, Any], asked: str) -> None:
    """(ux 4) Of the largest nodes of the job's partitions."""
    there = "main has at most 64 CPUs, 250G of memory and 4 GPUs (a100, h100)"
    if given.get("partition"):
        there = "debug has at most 4 CPUs, 900M of memory and no GPU"
    words = " and ".join(" (command line) asks for ".join(word.split()) for word in asked.split(" and "))
    said = f"a node of partition {there}, and {words}: mnrun nodes" if asked else ""
    assert options.shortage(AMOUNT, build("./app", **given), lambda: NODES) == said


def test_what_slurm_tells_of_a_node() -> None:
    """sinfo's columns are in the same words since 20.11. A type of GPUs may stand with the sockets."""
    values = (
        "main*",
        "n1",
        "mixed",
        "gpu:a100:4(S:0-1),gpu:2,nvme:1",
        "(null)",
        "1/7/0/8",
        "up",
        "1:00",
        "none",
        "16000",
    )
    line = "".join(f"{value:<{width}}" for value, (_, width) in zip((*values, "ib,fast"), answers.SINFO))
    (node,) = answers.sinfo_columns(line)
    assert (node.memory, node.gpus, node.gpu_types, node.features) == (16000, 6, "a100", "ib,fast")
    (bare,) = answers.sinfo_columns(line.replace("ib,fast", "(null)"))
    assert bare.features == ""
    assert answers.gpu_types("gpu:h100,nvme") == "h100"
