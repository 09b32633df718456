"""What the answer to a refusal tells of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from mnrun.errors import NoAnswerError, SchedulerError
from mnrun.schedulers import offers
from mnrun.schedulers.queue import PartitionNode, Queue
from mnrun.schedulers.slurm import answers
from mnrun.schedulers.vocabulary import NodeState
from unit.cases import Cases, given
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
    return PartitionNode(name, default, "n1", NodeState.FREE, gpus, 0, cpus, 2, True, "1:00", "", memory, types, words)


MESSAGES = {
    **{"PARTITION": PARTITION, "ACCOUNT": ACCOUNT, "QOS": QOS, "RESERVATION": RESERVATION, "FEATURE": FEATURE},
}
NODES = [
    place("main", True, 8, 16000, 4, "a100", "ib,fast"),
    place("main", True, 64, 257000, 2, "a100,h100", "ib"),
    place("debug", False, 4, 900),
]


class Asked:
    """A queue with nodes and names. A scheduler without accounting has no names of QOS."""

    poll = 0.0

    def __init__(self, its: Sequence[PartitionNode] = NODES) -> None:
        self._nodes = tuple(its)

    def nodes(self) -> tuple[PartitionNode, ...]:
        if not self._nodes:
            raise SchedulerError("sinfo did not answer")
        return self._nodes

    def names(self, option: str) -> Sequence[str]:
        if option == "qos":
            raise SchedulerError("sacctmgr: no accounting")
        return {"account": ("physics", "chem"), "reservation": ()}[option]


def told(message: str, words: str, *its: PartitionNode, partition: str = "") -> str:
    error = SchedulerError(message)
    found = offers.explained(error, build("./app", **given(words)), cast(Queue, Asked(its or NODES)), partition)
    return "" if found is error else str(found)


def test_names_that_there_are(cases: Cases) -> None:
    """(ux 3) The nearest one, too. Without an answer, the scheduler's own words must do."""
    cases(lambda message, words: told(MESSAGES.get(message, str(message)), words))


def test_more_than_a_node_has(cases: Cases) -> None:
    """(ux 4) Of the largest nodes of the job's partitions."""
    cases(lambda words: told(AMOUNT, words))


def test_more_nodes_than_there_are(cases: Cases) -> None:
    """Of the partition that salloc takes by itself, too. A queue of Grid Engine is no default."""
    places = (("main", True, "n1"), ("main", True, "n2"), ("gpu", False, "n2"))
    its = [PartitionNode(*place, NodeState.FREE, 0, 0, 2, 2, True, "infinite") for place in places]
    bare = [replace(node, default=False) for node in its]

    def asked(words: str, taken: str) -> str:
        return told(AMOUNT, words, *bare) if taken == "no default" else told(AMOUNT, words, *its, partition=taken)

    cases(asked)


def test_more_than_there_is_without_an_answer() -> None:
    spec, unsure = build("./app", nodes="9"), NoAnswerError("sbatch timed out")
    for error in (SchedulerError(AMOUNT), unsure):
        assert offers.explained(error, spec, cast(Queue, Asked(())), "") is error
    assert offers.explained(unsure, spec, cast(Queue, Asked()), "") is unsure


def test_what_slurm_tells_of_a_node() -> None:
    """sinfo's columns are in the same words since 20.11. A type of GPUs may stand with the sockets."""
    values = (
        *("main*", "n1", "mixed", "gpu:a100:4(S:0-1),gpu:2,nvme:1", "(null)", "1/7/0/8", "up", "1:00", "none"),
        "16000",
    )
    columns = answers.widths(answers.SINFO)
    line = "".join(f"{value:<{width}}" for value, (_, width) in zip((*values, "ib,fast"), columns))
    (node,) = answers.sinfo_columns(line)
    assert (node.memory, node.gpus, node.gpu_types, node.features) == (16000, 6, "a100", "ib,fast")
    (bare,) = answers.sinfo_columns(line.replace("ib,fast", "(null)"))
    assert bare.features == ""
    assert answers.gpu_types("gpu:h100,nvme") == "h100"
