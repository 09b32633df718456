"""What Slurm's answers mean: recorded ones of the rehearsal cluster (Slurm 24.11, with accounting and without).

SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0 squeue -h -t all -u alice -O COLUMNS    squeue.txt
sacct -X -n -P -u alice -S now-7days -o COLUMNS    sacct.txt
sinfo -a -h -N -O COLUMNS    sinfo.txt
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm import answers, pyslurm
from mnrun.schedulers.slurm.states import job_state
from mnrun.schedulers.vocabulary import ACTIVE, JobState, NodeState, array_size
from unit.cases import Cases
from unit.samples import RECORDED

ALICE = 1500


def said(name: str) -> str:
    return (RECORDED / "answers" / name).read_text()


def by_name(jobs: list[Job]) -> dict[str, Job]:
    return {job.name if "_" not in job.id else job.id.partition("_")[2]: job for job in jobs}


def column_jobs(name: str = "squeue.txt") -> dict[str, Job]:
    return by_name(answers.squeue_columns(said(name)))


def test_states_of_jobs() -> None:
    states = {name: (job.state, job.reason) for name, job in column_jobs().items()}
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


def test_codes_of_jobs() -> None:
    codes = {name: (job.code, job.signal) for name, job in column_jobs().items()}
    assert codes["ok"] == (0, 0)
    assert codes["fail"] == (3, 0)
    assert codes["sig"] == (0, 9)


def test_shapes_of_jobs() -> None:
    jobs = column_jobs()
    assert (jobs["run"].nodes, jobs["run"].nodelist, jobs["run"].gpus) == (1, "node01", 2)
    assert (jobs["pend ing|x"].nodes, jobs["pend ing|x"].nodelist, jobs["pend ing|x"].gpus) == (2, "", 2)
    assert jobs["endless"].gpus == 1
    assert jobs["run"].end - jobs["run"].start == 600
    assert jobs["endless"].end == 0, "it has no time limit"
    assert jobs["dep"].depends == f"afterok:{jobs['run'].id}(unfulfilled)"
    assert {job.partition for job in jobs.values()} == {"main"}


def test_gpus_without_accounting() -> None:
    jobs = column_jobs("squeue_plain.txt")
    assert {name: job.gpus for name, job in jobs.items()} == {"run": 2, "endless": 1, "both": 4, "none": 0}


def test_history() -> None:
    """sacct's own spellings."""
    jobs = by_name(answers.sacct_lines(said("sacct.txt")))
    assert (jobs["fail"].state, jobs["fail"].code) == ("FAILED", 3)
    assert (jobs["sig"].signal, jobs["gone"].state, jobs["gone"].nodelist) == (9, "CANCELLED", "")
    assert (jobs["run"].gpus, jobs["run"].end) == (2, 0)
    assert jobs["pend ing|x"].gpus == 2
    assert jobs["0"].state == "TIMEOUT"
    assert answers.sacct_lines("Slurm accounting storage is disabled\n") == []


def test_a_request_that_slurm_refused_has_no_code_of_its_own() -> None:
    """sacct (24.11) tells 1:0 of it, where squeue tells 0:1."""
    (job,) = answers.sacct_lines("1|FAILED|1:0|9|None assigned|||1|2|3|main|x")
    assert (job.state, job.code, job.nodelist) == ("FAILED", 0, "")


def test_a_file_that_slurm_could_not_open() -> None:
    """(W1) slurmstepd names signal 53 for that (SIG_FILE). A program that a signal of this number kills is `7:53`."""
    for state, signal, told in (("FAILED", 53, True), ("FAILED", 9, False), ("CANCELLED", 53, False)):
        (job,) = answers.sacct_lines(f"1|{state}|0:{signal}|1|n7|||1|2|3|main|x")
        assert ("n7" in job.why, bool(job.why)) == (told, told)


def test_the_first_component_of_a_heterogeneous_job_has_the_jobs_id() -> None:
    """The tables of squeue and sacct say 100+0. People type 100."""
    names = ("100+0", "100+1")
    columns = "\n".join(
        "".join(f"{name if column == 'JobArrayID' else '':{width}}" for column, width in answers.widths(answers.SQUEUE))
        for name in names
    )
    lines = "\n".join(f"{name}|RUNNING|0:0|1|n1|||1|2|3|main|x" for name in names)
    for found in (answers.squeue_columns(columns), answers.sacct_lines(lines)):
        assert [job.id for job in found] == ["100", "100+1"]


def test_a_long_list_of_tasks_that_wait() -> None:
    """Slurm does not shorten it (SLURM_BITSTR_LEN=0)."""
    tasks = f"8_[{','.join(map(str, range(1, 400, 2)))}]"
    assert len(tasks) > 700
    widths = answers.widths(answers.SQUEUE)
    columns = "".join(f"{tasks if column == 'JobArrayID' else '':{width}.{width}}" for column, width in widths)
    (job,) = answers.squeue_columns(columns)
    assert job.id == tasks


def test_nodes() -> None:
    one, two = answers.sinfo_columns(said("sinfo.txt"))
    assert (one.partition, one.default, one.node, one.state, one.up) == ("main", True, "node01", NodeState.PARTLY, True)
    assert (one.gpus, one.gpus_used, one.cpus, one.cpus_idle) == (4, 3, 8, 5)
    assert (two.state, two.gpus_used, two.why) == (NodeState.FREE, 0, "")
    drained = answers.sinfo_columns(said("sinfo_drained.txt"))[1]
    assert (drained.state, drained.why) == (NodeState.OUT, "drained: bad fan: 3")


def test_gpus_as_slurm_writes_them(cases: Cases) -> None:
    cases(answers.gpus_in)


def test_whom_an_id_means(cases: Cases) -> None:
    cases(lambda identity, wanted: Job(identity, "", JobState.PENDING).covers(wanted))


def test_the_size_of_an_array(cases: Cases) -> None:
    cases(array_size)


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
    depends = "afterok:5(unfulfilled),singleton"
    assert found[0] == Job("7", "x", JobState.RUNNING, "", "main", 2, "n[1-2]", 4, 1, 5, 6, 7, 3, 0, depends)


def test_pyslurms_nodes() -> None:
    """The same words as sinfo's."""
    common = {"configured_gres": {"gpu": 4}, "total_cpus": 8, "idle_cpus": 5, "reason": None}
    states = {"n1": "MIXED", "n2": "IDLE+DRAIN", "n3": "IDLE+PLANNED", "n4": "DOWN*", "n5": "IDLE+MAINTENANCE+RESERVED"}
    nodes = [SimpleNamespace(name=n, state=s, allocated_gres={"gpu": 3}, **common) for n, s in states.items()]
    older = SimpleNamespace(name="n6", state="IDLE", alloc_gres={}, **common)
    main = SimpleNamespace(name="main", nodes="n[1-6]", state="UP", is_default=True, max_time=1590)
    empty = SimpleNamespace(name="empty", nodes=None, state="DOWN", is_default=False, max_time="UNLIMITED")
    found = pyslurm.nodes([main, empty], [*nodes, older])
    assert [(place.state, place.why) for place in found] == [
        (NodeState.PARTLY, ""),
        (NodeState.OUT, "drained"),
        (NodeState.PLANNED, ""),
        (NodeState.OUT, "does not answer"),
        (NodeState.OUT, "reserved"),
        (NodeState.FREE, ""),
    ]
    assert found[0] == PartitionNode("main", True, "n1", NodeState.PARTLY, 4, 3, 8, 5, True, "1-02:30:00")
    assert found[5].gpus_used == 0


def test_pyslurm_that_does_not_know_which_gpus_are_taken() -> None:
    common = {"configured_gres": {"gpu": 4}, "total_cpus": 8, "idle_cpus": 5, "reason": None, "allocated_gres": {}}
    main = SimpleNamespace(name="main", nodes="n[1-2]", state="UP", is_default=True, max_time=60)
    free = [SimpleNamespace(name=f"n{n}", state="IDLE", **common) for n in (1, 2)]
    assert [(place.gpus, place.gpus_used) for place in pyslurm.nodes([main], free)] == [(4, 0), (4, 0)]
    free[1].state = "MIXED"
    with pytest.raises(LookupError, match="n2"):
        pyslurm.nodes([main], free)


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD", "STAGE_OUT"])
def test_a_job_that_is_held_has_not_ended(state: str) -> None:
    assert job_state(state) in ACTIVE
