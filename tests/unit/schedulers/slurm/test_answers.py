"""What Slurm's answers mean: recorded ones of the rehearsal cluster (Slurm 24.11, with accounting and without).

SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 squeue -h -t all -u alice -O COLUMNS    squeue.txt
squeue -a -t all -u alice --json    squeue.json: of each job only the keys that are read
sacct -X -n -P -u alice -S now-7days -o COLUMNS    sacct.txt
sinfo -a -h -N -O COLUMNS    sinfo.txt
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mnrun.schedulers.model import ACTIVE
from mnrun.schedulers.queue import Job, PartitionNode, array_size
from mnrun.schedulers.slurm import answers, pyslurm
from unit.samples import RECORDED

ALICE = 1500


def said(name: str) -> str:
    return (RECORDED / "answers" / name).read_text()


def by_name(jobs: list[Job]) -> dict[str, Job]:
    """The jobs of the recording that are told apart by name; of the array, its tasks by their ids' ends."""
    return {job.name if "_" not in job.id else job.id.partition("_")[2]: job for job in jobs}


def json_jobs(name: str = "squeue.json") -> dict[str, Job]:
    return by_name(answers.squeue_json(said(name), ALICE))


def column_jobs(name: str = "squeue.txt") -> dict[str, Job]:
    return by_name(answers.squeue_columns(said(name)))


@pytest.mark.parametrize("ask", [json_jobs, column_jobs])
def test_states_of_jobs(ask: Any) -> None:
    """In one word each, however Slurm is asked."""
    states = {name: (job.state, job.reason) for name, job in ask().items()}
    assert states["run"] == ("RUNNING", "")
    assert states["pend ing|x"] == ("PENDING", "Resources")
    assert states["dep"] == ("PENDING", "Dependency")
    assert states["held"] == ("PENDING", "JobHeldUser")
    assert states["later"] == ("PENDING", "BeginTime")
    assert states["[2-3%1]"] == ("PENDING", "JobArrayTaskLimit")
    assert states["ok"] == ("COMPLETED", "")
    assert states["fail"] == ("FAILED", "NonZeroExitCode")
    assert states["0"] == ("TIMEOUT", "TimeLimit")
    assert states["gone"][0] == "CANCELLED"


@pytest.mark.parametrize("ask", [json_jobs, column_jobs])
def test_codes_of_jobs(ask: Any) -> None:
    """As the script's shell left, or by which signal."""
    codes = {name: (job.code, job.signal) for name, job in ask().items()}
    assert codes["ok"] == (0, 0)
    assert codes["fail"] == (3, 0)
    assert codes["sig"] == (0, 9)


@pytest.mark.parametrize("ask", [json_jobs, column_jobs])
def test_shapes_of_jobs(ask: Any) -> None:
    """Nodes, GPUs in all, times."""
    jobs = ask()
    assert (jobs["run"].nodes, jobs["run"].nodelist, jobs["run"].gpus) == (1, "node01", 2)
    assert (jobs["pend ing|x"].nodes, jobs["pend ing|x"].nodelist, jobs["pend ing|x"].gpus) == (2, "", 2)
    assert jobs["endless"].gpus == 1
    assert jobs["run"].end - jobs["run"].start == 600
    assert jobs["endless"].end == 0, "it has no time limit"
    assert jobs["dep"].depends == f"afterok:{jobs['run'].id}(unfulfilled)"
    assert {job.partition for job in jobs.values()} == {"main"}


def test_both_ways_of_asking_say_the_same() -> None:
    """The columns lack nothing that JSON has."""
    ours, theirs = json_jobs(), column_jobs()
    assert set(ours) == set(theirs)
    for name, job in ours.items():
        # the columns name the signal beside the reason; the two were asked a moment apart
        word = theirs[name].reason.partition(":")[0]
        assert replace(job, start=0, end=0) == replace(theirs[name], start=0, end=0, reason=word)


def test_gpus_without_accounting() -> None:
    """The trackable resources count none there; what was granted, or asked for, does."""
    for jobs in (json_jobs("squeue_plain.json"), column_jobs("squeue_plain.txt")):
        assert {name: job.gpus for name, job in jobs.items()} == {"run": 2, "endless": 1, "both": 4, "none": 0}


def test_only_this_users_jobs() -> None:
    """Some versions show everyone's in JSON."""
    assert answers.squeue_json(said("squeue.json"), 1501) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", "squeue: unrecognized option '--json'"])
def test_what_is_no_json_answer(text: str) -> None:
    """The asker tries the columns then."""
    with pytest.raises(ValueError):
        answers.squeue_json(text, ALICE)


def test_json_of_slurm_before_23() -> None:
    """Words for lists, numbers for objects, and the exit code as wait(2) gives it."""
    old = {
        "job_id": 7,
        "array_job_id": 0,
        "job_state": "FAILED",
        "exit_code": 3 << 8,
        "nodes": "n1",
        "node_count": 1,
        "time_limit": {"set": False, "number": 5},
    }
    (job,) = answers.squeue_json(json.dumps({"jobs": [old]}), ALICE)
    assert job == Job("7", "", "FAILED", nodes=1, nodelist="n1", code=3)


def test_history() -> None:
    """sacct's own spellings."""
    jobs = by_name(answers.sacct_lines(said("sacct.txt")))
    assert (jobs["fail"].state, jobs["fail"].code) == ("FAILED", 3)
    assert (jobs["sig"].signal, jobs["gone"].state, jobs["gone"].nodelist) == (9, "CANCELLED", "")
    assert (jobs["run"].gpus, jobs["run"].end) == (2, 0)
    assert jobs["pend ing|x"].gpus == 2
    assert jobs["0"].state == "TIMEOUT"
    assert answers.sacct_lines("Slurm accounting storage is disabled\n") == []


def test_the_first_component_of_a_heterogeneous_job_has_the_jobs_id() -> None:
    """The tables of squeue and sacct say 100+0. People type 100."""
    names = ("100+0", "100+1")
    columns = "\n".join(
        "".join(f"{name if column == 'JobArrayID' else '':{width}}" for column, width in answers.SQUEUE)
        for name in names
    )
    lines = "\n".join(f"{name}|RUNNING|0:0|1|n1|||1|2|3|main|x" for name in names)
    for found in (answers.squeue_columns(columns), answers.sacct_lines(lines)):
        assert [job.id for job in found] == ["100", "100+1"]


def test_a_long_list_of_tasks_that_wait() -> None:
    """Slurm does not shorten it (SLURM_BITSTR_LEN=0)."""
    tasks = f"8_[{','.join(map(str, range(1, 400, 2)))}]"
    assert len(tasks) > 700
    columns = "".join(f"{tasks if column == 'JobArrayID' else '':{width}.{width}}" for column, width in answers.SQUEUE)
    (job,) = answers.squeue_columns(columns)
    assert job.id == tasks


def test_nodes() -> None:
    """Once for each partition, with what is used of their GPUs and CPUs, and why one takes no jobs."""
    one, two = answers.sinfo_columns(said("sinfo.txt"))
    assert (one.partition, one.default, one.node, one.state, one.mark, one.up) == (
        "main",
        True,
        "node01",
        "mixed",
        "",
        True,
    )
    assert (one.gpus, one.gpus_used, one.cpus, one.cpus_idle) == (4, 3, 8, 5)
    assert (two.state, two.gpus_used, two.reason) == ("idle", 0, "")
    assert answers.sinfo_columns(said("sinfo_drained.txt"))[1].state == "drained"
    assert answers.sinfo_columns(said("sinfo_drained.txt"))[1].reason == "bad fan: 3"


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:2(IDX:0-1)", 2),
        ("gres/gpu=2,gres/gpu:a100=2", 2),
        ("cpu=1,node=1,gres/gpu=8", 8),
        ("gres:gpu:a100:4", 4),
        ("gres/gpu:4,gres/shard:2", 4),
        ("gpu:a100:4(S:0-1),gpu:h100:2(S:0)", 6),
        ("gpu:a100:0(IDX:N/A)", 0),
        ("gpu:(null):8(IDX:0-7)", 8),
        ("gpu:(null):0(IDX:N/A)", 0),
        ("gpu:(null):3(IDX:0-2),gpu:a100:1(IDX:3)", 4),
        ("gpu:(null)(IDX:0)", 1),
        ("gpu", 1),
        ("gres/gpu:tesla", 1),
        ("nic:2", 0),
        ("(null)", 0),
        ("N/A", 0),
        ("", 0),
    ],
)
def test_gpus_as_slurm_writes_them(text: str, gpus: int) -> None:
    """In each of its fashions."""
    assert answers.gpus_in(text) == gpus


@pytest.mark.parametrize(
    ("identity", "wanted", "covered"),
    [
        ("7", "7", True),
        ("7", "70", False),
        ("8_1", "8", True),
        ("8_1", "8_1", True),
        ("8_1", "8_2", False),
        ("8_[2-3%1]", "8", True),
        ("8_[2-3%1]", "8_3", True),
        ("8_[2-3%1]", "8_1", False),
        ("8_[0-8:2,11]", "8_4", True),
        ("8_[0-8:2,11]", "8_5", False),
        ("8_[0-8:2,11]", "8_11", True),
        ("8_[0,5,...]", "8_99", True),
        ("8_[0,5,7-1", "8_99", True),
        ("8_[0,5,7-1", "9_5", False),
    ],
)
def test_whom_an_id_means(identity: str, wanted: str, covered: bool) -> None:
    """A person names an array, a task, or a task that Slurm still lists with others."""
    assert Job(identity, "", "PENDING").covers(wanted) is covered


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("", 0), ("7", 1), ("0-3", 4), ("0-3,7-9:2%5", 6), ("1,1,0-2", 3), ("0-8:4", 3)),
        *(("0, 1, 2", 3), ("[0-3]%2", 4), ("[0-3%2]", 4)),
    ],
)
def test_the_size_of_an_array(text: str, size: int) -> None:
    """By the request, as sbatch takes it."""
    assert array_size(text) == size


def test_pyslurms_jobs() -> None:
    """Objects with the attributes that pyslurm 24.11 gave on a Slurm 24.11: a stand-in, since no registry has it."""
    common = {
        "user_id": ALICE,
        "name": "x",
        "state_reason": "None",
        "partition": "main",
        "num_nodes": 2,
        "allocated_nodes": "n[1-2]",
        "requeue_count": 1,
        "submit_time": 5,
        "start_time": 6,
        "end_time": 7,
        "exit_code": 3,
        "exit_code_signal": None,
        "gres_per_node": {"gpu:a100": 2},
        "dependencies": {"after": [], "afterok": ["5(unfulfilled)"], "singleton": True, "satisfy": "all"},
    }
    alone = SimpleNamespace(id=7, state="RUNNING", array_id=None, **common)
    first = SimpleNamespace(id=8, state="COMPLETED", array_id=8, array_task_id=None, array_tasks_waiting=None, **common)
    task = SimpleNamespace(id=9, state="COMPLETED", array_id=8, array_task_id=1, **common)
    rest = SimpleNamespace(id=8, state="PENDING", array_id=8, array_task_id=None, array_tasks_waiting="2-3%1", **common)
    other = SimpleNamespace(id=10, state="RUNNING", array_id=None, **{**common, "user_id": 1})
    found = pyslurm.jobs([alone, first, task, rest, other], ALICE)
    assert [job.id for job in found] == ["7", "8_0", "8_1", "8_[2-3%1]"]
    assert found[0] == Job(
        "7", "x", "RUNNING", "", "main", 2, "n[1-2]", 4, 1, 5, 6, 7, 3, 0, depends="afterok:5(unfulfilled),singleton"
    )


def test_pyslurms_nodes() -> None:
    """The same words as sinfo's."""
    common = {"configured_gres": {"gpu": 4}, "total_cpus": 8, "idle_cpus": 5, "reason": None}
    states = {"n1": "MIXED", "n2": "IDLE+DRAIN", "n3": "IDLE+PLANNED", "n4": "DOWN*", "n5": "IDLE+MAINTENANCE+RESERVED"}
    nodes = [SimpleNamespace(name=n, state=s, allocated_gres={"gpu": 3}, **common) for n, s in states.items()]
    older = SimpleNamespace(name="n6", state="IDLE", alloc_gres={}, **common)
    main = SimpleNamespace(name="main", nodes="n[1-6]", state="UP", is_default=True, max_time=1590)
    empty = SimpleNamespace(name="empty", nodes=None, state="DOWN", is_default=False, max_time="UNLIMITED")
    found = pyslurm.nodes([main, empty], [*nodes, older])
    assert [(place.state, place.mark) for place in found] == [
        ("mixed", ""),
        ("drained", ""),
        ("planned", ""),
        ("down", "*"),
        ("reserved", "$"),
        ("idle", ""),
    ]
    assert found[0] == PartitionNode("main", True, "n1", "mixed", "", 4, 3, 8, 5, True, "1-02:30:00", "")
    assert found[5].gpus_used == 0


def test_pyslurm_that_does_not_know_which_gpus_are_taken() -> None:
    """So it is without AccountingStorageTRES=gres/gpu; all of them would count as free."""
    common = {"configured_gres": {"gpu": 4}, "total_cpus": 8, "idle_cpus": 5, "reason": None, "allocated_gres": {}}
    main = SimpleNamespace(name="main", nodes="n[1-2]", state="UP", is_default=True, max_time=60)
    free = [SimpleNamespace(name=f"n{n}", state="IDLE", **common) for n in (1, 2)]
    assert [(place.gpus, place.gpus_used) for place in pyslurm.nodes([main], free)] == [(4, 0), (4, 0)]
    free[1].state = "MIXED"
    with pytest.raises(LookupError, match="n2"):
        pyslurm.nodes([main], free)


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD", "STAGE_OUT"])
def test_a_job_that_is_held_has_not_ended(state: str) -> None:
    """It begins anew once somebody lets it go."""
    assert state in ACTIVE
