"""What OpenPBS 23.06.06 said, as mnrun reads it. Torque's text is from its manual."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from mnrun.errors import SchedulerError
from mnrun.schedulers.pbs import answers
from mnrun.schedulers.vocabulary import JobState, NodeState
from unit.cases import Cases
from unit.samples import RECORDED

SAID = RECORDED / "pbs"
TORQUE = """Job Id: 12.srv
    Job_Name = app
    Job_Owner = alice@login
    job_state = C
    exec_host = node01/0-3+node02/0-3
    exec_gpus = node01-gpu/0+node01-gpu/1+node02-gpu/0
    Resource_List.nodes = 2:ppn=4
    Resource_List.walltime = 01:00:00
    Variable_List = PBS_O_QUEUE=batch,
\tMNRUN_JOB_ARRAY=1+5
    start_count = 2
    exit_status = 3
"""


def said(name: str) -> str:
    return (SAID / name).read_text()


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def record(**attributes: str) -> answers.Record:
    return {"Job_Owner": "alice@login", "job_state": "Q", **attributes}


def test_ids(cases: Cases) -> None:
    cases(lambda theirs: tuple(answers.parts(theirs)))


def test_their_ids(cases: Cases) -> None:
    cases(lambda ours, array: answers.theirs(ours, array))


def test_a_running_job() -> None:
    (job,) = answers.queue(answers.records(said("qstat-running.json"), "Jobs"), "alice")
    assert (job.id, job.name, job.state, job.partition) == ("57", "jsonjob", JobState.CONFIGURING, "workq")
    assert (job.nodes, job.nodelist, job.gpus, job.restarts, job.code) == (2, "node[01,03]", 4, 0, 0)
    assert job.end - job.start == 120
    assert job.start == job.submitted == 1795745755


def test_the_same_job_in_text() -> None:
    """Lines are folded at 80 letters, in the middle of a word."""
    (job,) = answers.queue(answers.records(said("qstat-f.txt"), "Jobs"), "alice")
    assert (job.id, job.name, job.state, job.nodelist) == ("27", "tm", JobState.COMPLETING, "node[01,03]")
    assert job.end - job.start == 180


def test_jobs_of_others_are_theirs() -> None:
    """Everybody sees every job, with its variables."""
    assert answers.queue(answers.records(said("qstat-running.json"), "Jobs"), "bob") == []


def test_a_job_that_has_ended() -> None:
    (job,) = answers.queue(answers.records(said("qstat-finished.json"), "Jobs"), "alice")
    assert (job.state, job.code, job.active, job.end) == (JobState.COMPLETED, 0, False, 1795744998)


def test_guessed_types_become_texts() -> None:
    """007 is a number there, and true a truth value."""
    (one,) = answers.records(said("qstat-odd.json"), "Jobs").values()
    assert one["Variable_List.A"] == "7"
    assert one["Variable_List.N"] == "True"
    assert answers.why(one) == "held by its owner: qrls releases it"
    assert answers.positions(one) == ""


@pytest.mark.parametrize("text", ["", said("qstat-none.json")])
def test_an_answer_about_no_job(text: str) -> None:
    """Of unknown jobs, and of a server that is down, there is JSON without Jobs."""
    assert answers.records(text, "Jobs") == {}


@pytest.mark.parametrize("text", ["{", "{ nonsense }", '{"Jobs": []}', '{"Jobs": {"1.s": 3}}'])
def test_a_torn_answer_is_told(text: str) -> None:
    with pytest.raises(SchedulerError):
        answers.records(text, "Jobs")


def test_letters_of_states(cases: Cases) -> None:
    cases(lambda letter, substate: answers.state(record(job_state=letter, substate=substate)).value)


def test_ends_of_jobs(cases: Cases) -> None:
    """By Exit_status and substate, which is 91 for a deleted job."""

    def end(status: str, substate: str) -> tuple[object, ...]:
        state, code, signal = answers.end({"Exit_status": status, "substate": substate} if status != "none" else {})
        return (state.value, code, signal)

    cases(end)


def test_reasons_to_wait(cases: Cases) -> None:
    def why(words: str) -> str:
        pairs = (pair.partition("=") for pair in words.split("; "))
        return answers.why(record(**{name: value for name, _, value in pairs}))

    cases(why)


def test_an_array_before_its_tasks_are_told() -> None:
    (job,) = answers.queue(answers.records(said("qstat-array.json"), "Jobs"), "alice")
    assert (job.id, job.state) == ("58_[2,3]", JobState.RUNNING)


def test_tasks_stand_for_their_array() -> None:
    """`-t` adds the tasks. One that runs by position has the task's own number in mnrun's id."""
    whole = json.loads(said("qstat-array.json"))
    parent = whole["Jobs"]["58[].login"]
    parent["Variable_List"]["MNRUN_JOB_ARRAY"] = "1+5+7"
    tasks = {f"58[{n}].login": {**parent, "job_state": state} for n, state in ((1, "R"), (2, "X"), (3, "Q"))}
    for one in tasks.values():
        del one["array_indices_remaining"]
    whole["Jobs"].update(tasks)
    jobs = answers.queue(answers.records(json.dumps(whole), "Jobs"), "alice")
    ended = (JobState.RUNNING, JobState.CANCELLED, JobState.PENDING)
    assert [(job.id, job.state) for job in jobs] == list(zip(("58_1", "58_5", "58_7"), ended))


def test_torque_tells_in_text() -> None:
    (job,) = answers.queue(answers.records(TORQUE, "Jobs"), "alice")
    assert (job.id, job.state, job.code, job.restarts, job.nodes) == ("12", JobState.FAILED, 3, 1, 2)
    (one,) = answers.records(TORQUE, "Jobs").values()
    assert answers.positions(one) == "1+5"
    nodes = answers.nodes(one, {"node01": 4, "node02": 4}, 0)
    assert [(node.name, node.cpus, node.gpus, node.slots) for node in nodes] == [
        ("node01", 4, 2, None),
        ("node02", 4, 1, None),
    ]


def test_nodes_have_the_order_of_the_node_file() -> None:
    (one,) = answers.records(said("qstat-running.json"), "Jobs").values()
    nodes = answers.nodes(one, {"node01": 2, "node03": 2}, 9)
    assert [(node.name, node.cpus, node.gpus, node.slots) for node in nodes] == [
        ("node01", 4, 2, None),
        ("node03", 4, 2, None),
    ]
    assert [node.cpus for node in answers.nodes({}, {"node01": 2}, 9)] == [9]


def test_nodes_of_different_chunks() -> None:
    """A host may have several chunks, and one of several vnodes."""
    one = {
        "exec_host": "node03/0*4+node01/0*2+node02/0*2",
        "exec_vnode": "(node03[0]:ncpus=2+node03[1]:ncpus=2)+(node01:ncpus=2:ngpus=1)+(node02:ncpus=2:ngpus=1)",
        "Resource_List.mpiprocs": "6",
    }
    nodes = answers.nodes(one, {"node03.site": 4, "node01.site": 1, "node02.site": 1}, 0)
    assert [(node.cpus, node.gpus, node.slots) for node in nodes] == [(4, 0, 4), (2, 1, 1), (2, 1, 1)]


def test_nodes_of_each_queue() -> None:
    found = answers.records(said("nodes.json"), "nodes")
    entries = answers.partitions(found, answers.records(said("queues.json"), "Queue"), "workq")
    of_queue = {(entry.partition, entry.node): entry for entry in entries}
    assert len(of_queue) == 6
    busy, partly = of_queue["workq", "node03"], of_queue["short", "node02"]
    assert (busy.default, busy.state, busy.gpus, busy.gpus_used, busy.up, busy.limit) == (
        True,
        NodeState.BUSY,
        4,
        2,
        True,
        "infinite",
    )
    assert (partly.default, partly.state, partly.cpus, partly.cpus_idle) == (False, NodeState.PARTLY, 8, 6)
    assert (partly.limit, partly.memory) == ("10:00", 24105)


def test_nodes_that_are_not_well(cases: Cases) -> None:
    def told(state: str, comment: str) -> tuple[object, ...]:
        found = answers.unwell({"node01": {"state": state, "comment": comment}})
        return (found["node01"].words, found["node01"].dead) if found else ("well",)

    cases(told)
