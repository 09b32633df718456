"""A job in the options of sbatch, and what Slurm refuses of it. test_script.py and the golden texts have the rest."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.model import Fault, Site
from mnrun.planning import layout
from mnrun.schedulers.queue import PartitionNode
from mnrun.schedulers.slurm import options
from unit.samples import build


@pytest.mark.parametrize(
    ("said", "given", "names"),
    [
        ("Invalid node name specified", {"nodelist": "n9"}, "--nodelist"),
        ("More processors requested than permitted", {"ntasks": "99"}, "--ntasks"),
        ("CPU count per node can not be satisfied", {"cpus_per_task": "99"}, "--cpus-per-task"),
        ("Task count specification invalid", {"ntasks_per_node": "99"}, "--ntasks-per-node"),
        ("Invalid Trackable RESource (TRES) specification", {"gpus_per_node": "9"}, "--gpus-per-node"),
        ("Requested node configuration is not available", {"mem_per_cpu": "9T"}, "--mem-per-cpu"),
        ("Requested node configuration is not available", {"constraint": "x"}, "--constraint"),
    ],
)
def test_which_option_sbatch_means(said: str, given: dict[str, Any], names: str) -> None:
    """By its words; those that nobody gave are not named."""
    refused = options.refusal(f"sbatch: error: {said}", build("./app", mode="inside-out", **given))
    assert refused.remedy == f"see {names} (command line)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": "9"}, "partition main has 2 nodes, and --nodes (command line) asks for 9: mnrun nodes"),
        (
            {"nodes": "2", "partition": "gpu"},
            "partition gpu has 1 node, and --nodes (command line) asks for 2: mnrun nodes",
        ),
        ({"nodes": "2", "mem": "9T"}, ""),
        ({"nodes": "9", "partition": "x"}, ""),
        ({"mem": "9T"}, ""),
    ],
)
def test_more_nodes_than_there_are(given: dict[str, Any], said: str) -> None:
    """The number of them, where it is the reason, and another reason of Slurm's has no such words."""
    places = (("main", True, "n1"), ("main", True, "n2"), ("gpu", False, "n2"))
    nodes = [PartitionNode(*place, "idle", "", 0, 0, 2, 2, True, "infinite", "") for place in places]
    job = build("./app", **given)
    assert options.shortage("Requested node configuration is not available", job, lambda: nodes) == said
    assert options.shortage("Invalid account", job, lambda: nodes) == ""


def test_more_nodes_than_there_are_without_an_answer() -> None:
    """The refusal itself is shown all the same."""

    def nodes() -> list[PartitionNode]:
        raise SchedulerError("sinfo did not answer")

    assert options.shortage("Requested node configuration is not available", build("./app", nodes="9"), nodes) == ""


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, ""),  # nobody asks
        ({"time": "10"}, ""),
        ({"time": "10:00"}, ""),
        ({"time": "10:01"}, "10:00 in partition main"),
        ({"time": "0:10:01"}, "10:00 in partition main"),
        ({"time": "0-0:11"}, "10:00 in partition main"),
        ({"time": "1-"}, "10:00 in partition main"),
        ({"time": "UNLIMITED"}, "10:00 in partition main"),
        ({"time": "-1"}, "10:00 in partition main"),
        ({"time": "1-02", "partition": "long"}, ""),
        ({"time": "1-03", "partition": "long"}, "1-02:00:00 in partition long"),
        ({"time": "1-03", "partition": "main,long"}, "10:00 in partition main and 1-02:00:00 in partition long"),
        ({"time": "11", "partition": "main,long"}, ""),
        ({"time": "unlimited", "partition": "endless"}, ""),
        ({"time": "11", "partition": "nowhere"}, ""),
    ],
)
def test_more_time_than_there_is(given: dict[str, Any], limits: str) -> None:
    """Slurm reads 10 and 10:00 as minutes, and 1-02 as a day and two hours. One partition that allows it is enough."""
    places = (("main", True, "10:00"), ("long", False, "1-02:00:00"), ("endless", False, "infinite"))
    nodes = [
        PartitionNode(name, default, "n1", "idle", "", 0, 0, 2, 2, True, limit, "") for name, default, limit in places
    ]
    start = f"--time {given.get('time')} (command line) is above the limit, "
    said = [Fault("time", f"{start}{limits}, so the job may never start; ask for less")] if limits else []
    assert options.doubts(build("./app", **given), lambda: nodes) == said


@pytest.mark.parametrize(
    ("partition", "nodes", "there"),
    [
        ("", "2", ""),
        ("", "3", "partition main has 2 nodes"),
        ("main,wide", "3", ""),
        ("main,wide", "4", "partition main has 2 nodes and partition wide has 3 nodes"),
        ("none", "4", ""),
    ],
)
def test_a_job_with_more_nodes_than_there_are(partition: str, nodes: str, there: str) -> None:
    """One partition that has them is enough, and of others Slurm says that they are none."""
    places = (*(("main", True, f"n{n}") for n in range(2)), *(("wide", False, f"w{n}") for n in range(3)))
    its = [PartitionNode(name, main, node, "idle", "", 0, 0, 2, 2, True, "1:00", "") for name, main, node in places]
    given: dict[str, Any] = {"partition": partition} if partition else {}
    said = [Fault("nodes", f"{there}, and --nodes (command line) asks for {nodes}: mnrun nodes")] if there else []
    assert options.doubts(build("./app", nodes=nodes, **given), lambda: its) == said


@pytest.mark.parametrize(("given", "there"), [({}, "wide has 3 nodes"), ({"partition": "main"}, "main has 2 nodes")])
def test_the_partition_that_salloc_takes_by_itself(given: dict[str, Any], there: str) -> None:
    """SALLOC_PARTITION counts where the job names none, in place of the default partition."""
    places = (*(("main", True, f"n{n}") for n in range(2)), *(("wide", False, f"w{n}") for n in range(3)))
    its = [PartitionNode(name, main, node, "idle", "", 0, 0, 2, 2, True, "1:00", "") for name, main, node in places]
    line = f"partition {there}, and --nodes (command line) asks for 9: mnrun nodes"
    job, environ = build("./app", nodes="9", **given), {"SALLOC_PARTITION": "wide"}
    assert options.doubts(job, lambda: its, environ) == [Fault("nodes", line)]
    assert options.shortage("Requested node configuration is not available", job, lambda: its, environ) == line


def test_the_time_there_is_without_an_answer() -> None:
    """The job is in the queue all the same. Slurm is asked only about a job that names a time, or nodes."""

    def nodes() -> list[PartitionNode]:
        raise SchedulerError("sinfo did not answer")

    def never() -> list[PartitionNode]:
        raise AssertionError

    assert options.doubts(build("./app", time="10"), nodes) == []
    assert options.doubts(build("./app", nodes="1"), never) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nodes": "2", "ntasks": "4"}, "-N 2 -n 4 --ntasks-per-node 2"),
        ({"nodes": "2", "ntasks": "3"}, "-N 2 -n 3"),
        ({"ntasks": "4"}, "-n 4"),
        ({"nodes": "1", "ntasks": "4"}, "-N 1 -n 4"),
        ({"nodes": "2", "ntasks": "4", "ntasks_per_node": "3"}, "-N 2 -n 4 --ntasks-per-node 3"),
    ],
)
def test_ranks_are_even_where_they_can_be(given: dict[str, Any], words: str) -> None:
    """As in a batch script. Slurm would take 3 CPUs on one node and 1 on another."""
    assert " ".join(options.request(build("./app", **given), ())) == f"salloc {words}"


@pytest.mark.parametrize(
    ("given", "gpus", "refused"),
    [
        ({}, (), False),
        ({}, (0, 0), False),
        ({}, (2, 2), True),
        ({"no_gpu": True}, (2, 2), False),
        ({"gres": "gpu:2"}, (), True),
        ({"gres": "shard:2"}, (), False),
        ({"gpus_per_node": "1"}, (), True),
        ({"gpus": "4"}, (), True),
        ({"slurm": ("gpus-per-node=1",)}, (), True),
        ({"slurm": ("gres=gpu:a100:2",)}, (), True),
        ({"slurm": ("comment=gpu",)}, (), False),
    ],
)
def test_gpus_where_steps_cannot_share_them(given: dict[str, Any], gpus: tuple[int, ...], refused: bool) -> None:
    """Up to Slurm 21.08, and before anything waits for ever."""
    job = build("./app", **given)
    site = Site("slurm", "7", (22, 5), gpus={f"node{number}": count for number, count in enumerate(gpus)})
    options.refuse(job, site)
    said = "Slurm 20.11 does not let a job's steps share its GPUs; use --no-gpu, or Slurm 22.05 or newer"
    with pytest.raises(Impossible, match=said) if refused else nullcontext():
        options.refuse(job, replace(site, slurm=(20, 11)))


@pytest.mark.parametrize(
    ("word", "given", "refused"),
    [
        ("nodes=4", {}, "--nodes 4"),
        ("ntasks=4", {}, "--ntasks 4"),
        ("ntasks-per-node=4", {"ntasks": "3"}, "--ntasks-per-node 4"),
        ("job-name=a", {}, "--job-name a"),
        ("time=5", {"time": "9"}, "--time 5"),
        ("time=5", {}, ""),
        ("exclusive", {"exclusive": True}, "--exclusive"),
        ("exclusive=user", {"exclusive": True}, ""),
        ("comment=nodes=4", {}, ""),
    ],
)
def test_a_word_of_slurms_that_mnrun_writes_itself(word: str, given: dict[str, Any], refused: str) -> None:
    """sbatch would take the last of two directives, and the job would have other nodes than its plan."""
    job = build("./app", slurm=(word,), **given)
    laid = layout.lay_out(job, None)
    with pytest.raises(UsageError) if refused else nullcontext() as raised:
        options.directives(job, laid)
    if raised is not None:
        assert str(raised.value) == (
            f"--slurm {word}: mnrun sets --{word.partition('=')[0]} itself (command line); write {refused}"
        )


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({"ntasks": "256"}, ["--ntasks=256"]),
        ({"ntasks": "1"}, ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1"]),
        ({"ntasks": "256", "nodes": "2"}, ["--nodes=2", "--ntasks=256", "--ntasks-per-node=128"]),
        ({"ntasks": "8", "gpus_per_node": "4"}, ["--nodes=2", "--ntasks=8", "--ntasks-per-node=4"]),
        ({"ntasks": "2", "nodelist": "a,b"}, ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]),
        ({}, ["--nodes=1", "--ntasks-per-node=1"]),
    ],
)
def test_the_shape_of_a_job(given: dict[str, Any], shape: list[str]) -> None:
    """For a number of ranks alone, Slurm takes as many nodes as they need."""
    job = build("./app", **given)
    words = [line.split()[1] for line, _ in options.directives(job, layout.lay_out(job, None))]
    assert [word for word in words if word.startswith(("--nodes", "--ntasks"))] == shape


@pytest.mark.parametrize(
    ("export", "lost"),
    [("NONE", "A, B"), ("B,HOME=/x", "A"), ("b=1,A=2", "B"), ("ALL", ""), ("all,C=1", ""), ("A,B", ""), ("", "")],
)
def test_variables_that_a_batch_job_will_not_have(export: str, lost: str) -> None:
    """Of -x NAME, whose value the job takes from its environment. A live run has that of its shell."""
    job = build("./app", env=("A", "B", "C=3"), export=export, environ={"A": "1", "B": "2"})
    said = f"--export {export} (command line) keeps {lost} from the job; add it there, or write -x {lost[:1]}=VALUE"
    assert options.doubts(job, list) == ([Fault("export", said)] if lost else [])
    assert options.doubts(job, list, {"HOME": "/x"}) == []
    set_later = build("./app", env=("A",), export=export, setup=("export A=2",), environ={"A": "1"})
    assert options.doubts(set_later, list) == []
