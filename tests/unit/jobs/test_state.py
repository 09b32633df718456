"""A job as a person follows it: Slurm's word and the job's own, made one."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.jobs import state as follow
from mnrun.jobs.records import REQUEUED, Begun, Ended, JobRecord, Submitted
from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm import answers
from unit.samples import RECORDED

NOW = 1_700_000_000.0


def job(state: str, identity: str = "7", **more: Any) -> Job:
    return Job(identity, "train", state, nodes=2, **more)


def left(code: int | None, why: str = "", identity: str = "7", restart: int = 0, when: float = NOW) -> JobRecord:
    """A job that began, and ended with this code unless it is None."""
    ended = Ended(when, code, why) if code is not None else None
    return JobRecord(
        identity, Submitted(identity, "train", nodes=2, gpus=8, time=when), restart, Begun(when, "n[1-2]"), ended
    )


@pytest.mark.parametrize(
    ("slurm", "own", "code"),
    [
        (job("RUNNING"), None, None),
        (job("PENDING"), None, None),
        (job("COMPLETED"), None, 0),
        (job("FAILED", code=3), None, 3),
        (job("FAILED", signal=9, nodelist="n1"), None, 137),
        (job("FAILED", signal=1), None, 123),  # Slurm refused it
        (job("TIMEOUT", signal=15), None, 124),
        (job("CANCELLED"), None, 143),
        (job("PREEMPTED"), None, 143),
        (job("NODE_FAIL"), None, 121),
        (job("OUT_OF_MEMORY", signal=125), None, 137),
        (job("RUNNING"), left(3), 3),  # it knows before Slurm does
        (job("FAILED", code=1), left(3), 3),
        (job("TIMEOUT"), left(143), 124),  # only Slurm knows who sent the signal
        (job("CANCELLED"), left(143), 143),
        (job("NODE_FAIL"), left(137), 121),
        (job("FAILED", code=139), left(139), 139),
        (job("RUNNING"), left(143), None),  # it is about to say
        (None, left(143), 143),
        (None, left(0), 0),
        (None, left(None), None),
        (None, None, None),
        (job("RUNNING", restarts=1), left(1), None),  # that was the start before
        (job("PENDING", restarts=1), left(1), None),
        (job("RUNNING", restarts=1), left(1, restart=1), 1),
        (job("PENDING", restarts=1), left(75, REQUEUED), None),
        (None, left(75, REQUEUED), None),
    ],
)
def test_the_exit_code(slurm: Job | None, own: JobRecord | None, code: int | None) -> None:
    """The job's own word, but for an end that came from outside."""
    assert follow.code(slurm, own) == code


@pytest.mark.parametrize(("own", "code"), [(left(3), 3), (left(0), 0), (left(143), None), (left(0, REQUEUED), None)])
def test_when_slurm_need_not_be_asked(own: JobRecord, code: int | None) -> None:
    """The job left by itself, and for good."""
    assert follow.final("7", {"7": own}) == code
    assert follow.final("7", {"7": left(None)}) is None
    assert follow.final("7", {}) is None


@pytest.mark.parametrize(
    ("ends", "code"), [((0, 3), 3), ((0, 0), 0), ((0,), None), ((0, None), None), ((143, 0), None), ((), None)]
)
def test_when_all_tasks_of_an_array_have_ended(ends: tuple[int | None, ...], code: int | None) -> None:
    """The request says how many there are. Without that, Slurm is asked."""
    tasks = {f"7_{n}": left(end, identity=f"7_{n}") for n, end in enumerate(ends)}
    other = {"8_0": left(5, identity="8_0")}
    assert follow.final("7", {"7": JobRecord("7", Submitted("7", tasks=2)), **tasks, **other}) == code
    assert follow.final("7", {"7": JobRecord("7", Submitted("7")), **tasks}) is None


def test_a_job_that_runs() -> None:
    """Where, and for how long it may."""
    seen = follow.view("7", job("RUNNING", nodelist="n[1-2]", gpus=8, end=NOW + 90), None, NOW)
    assert (seen.words, seen.why, seen.nodelist, seen.gpus, seen.left, seen.code) == (
        "running",
        "",
        "n[1-2]",
        8,
        90,
        None,
    )
    assert follow.view("7", job("RUNNING", end=NOW - 5), None, NOW).left == 0
    assert follow.view("7", job("RUNNING"), None, NOW).left is None


def test_a_job_of_which_only_its_directory_knows() -> None:
    """Slurm forgets within minutes."""
    seen = follow.view("7", None, left(3, "node n2 was lost"), NOW)
    assert (seen.words, seen.code, seen.why, seen.nodelist, seen.gpus) == ("failed", 3, "node n2 was lost", "n[1-2]", 8)
    assert follow.view("7", None, left(0), NOW).words == "done"
    gone = follow.view("7", None, left(None), NOW)
    assert (gone.words, gone.code) == ("unknown", None)
    assert gone.why == "Slurm no longer knows it, and it started and left no record of its end"
    assert (
        follow.view("7", None, JobRecord("7", Submitted("7")), NOW).why
        == "Slurm no longer knows it, and it left no record"
    )


@pytest.mark.parametrize(
    ("slurm", "own", "state"),
    [
        (job("COMPLETING"), left(124, "job 7 reached its time limit"), "TIMEOUT"),
        (None, left(124, "job 7 reached its time limit of 00:05:00"), "TIMEOUT"),
        (None, left(143, "job 7 was cancelled"), "CANCELLED"),
        (None, left(124), "FAILED"),  # timeout(1) has that code too
        (job("COMPLETING"), left(0), "COMPLETED"),
    ],
)
def test_how_a_job_ended_by_its_own_word(slurm: Job | None, own: JobRecord, state: str) -> None:
    """While Slurm still cleans up, and once it has forgotten the job."""
    assert follow.view("7", slurm, own, NOW).state == state


def test_why_a_job_failed() -> None:
    """Its own reason, else the signal."""
    assert follow.view("7", job("FAILED", code=1), left(121, "node n2 was lost"), NOW).why == "node n2 was lost"
    assert follow.view("7", job("FAILED", signal=9, nodelist="n1"), None, NOW).why == "signal 9"
    refused = follow.view("7", job("FAILED", signal=1), None, NOW)
    assert (refused.why, refused.code, refused.nodes) == ("Slurm refused it", 123, 0)


def test_where_an_ending_job_ran() -> None:
    """Slurm names only the nodes that still clean up."""
    assert follow.view("7", job("COMPLETING", nodelist="n1"), left(3), NOW).nodelist == "n[1-2]"


def test_why_a_job_waits() -> None:
    """As its scheduler says it, while it waits."""
    assert follow.view("7", job("PENDING", reason="others are before it"), None, NOW).why == "others are before it"
    assert follow.view("7", job("RUNNING", reason="others were before it"), None, NOW).why == ""


def test_all_jobs_of_seven_days() -> None:
    """Slurm's, the accounting's and the directories', each once, in order; slurmctld's word goes first."""
    jobs = [job("RUNNING", "12", start=1), job("PENDING", "9_[2-3%1]", submitted=1), job("FAILED", "3", end=1)]
    history = [
        job("RUNNING", "11"),
        job("RUNNING", "12"),
        job("COMPLETED", "9_1", end=NOW),
        job("COMPLETED", "2", end=NOW),
    ]
    kept = {
        "9": JobRecord("9", Submitted("9", time=NOW)),
        "9_0": left(0, identity="9_0"),
        "1": left(0, identity="1", when=NOW - 8 * follow.DAY),
        "4": left(5, identity="4"),
    }
    seen, unknown = follow.gather((), jobs, history, kept, NOW)
    assert [one.id for one in seen] == ["2", "4", "9_0", "9_1", "9_[2-3%1]", "12"]
    assert unknown == []


def test_jobs_by_their_ids() -> None:
    """An array is all its tasks; one that nobody knows is named."""
    jobs = [job("RUNNING", "9_1"), job("PENDING", "9_[2-3%1]"), job("RUNNING", "12")]
    kept = {"9": JobRecord("9", Submitted("9")), "9_0": left(0, identity="9_0"), "5": JobRecord("5", Submitted("5"))}
    seen, unknown = follow.gather(["9", "4711"], jobs, (), kept, NOW)
    assert [one.id for one in seen] == ["9_0", "9_1", "9_[2-3%1]"]
    assert unknown == ["4711"]
    assert [one.id for one in follow.gather(["9_3"], jobs, (), kept, NOW)[0]] == ["9_[2-3%1]"]
    assert [one.id for one in follow.gather(["5"], jobs, (), kept, NOW)[0]] == ["5"]


def test_which_jobs_have_ended() -> None:
    """Of an array, when all its tasks have: the largest code."""
    jobs = [job("COMPLETED", "9_0"), job("FAILED", "9_1", code=3), job("RUNNING", "8_0"), job("FAILED", "8_1", code=3)]
    kept = {"7": left(None), "6": left(4, identity="6")}
    ended, lost = follow.ends(["9", "8", "7", "6", "5"], kept, jobs, (), NOW)
    assert ended == {"9": 3, "6": 4}
    assert lost == ["7", "5"]


def test_what_may_be_removed() -> None:
    """What is old, and never a job that waits or runs, nor an array with such a task."""
    old = NOW - 40 * follow.DAY
    kept = {
        "1": left(0, identity="1", when=old),
        "2": left(0, identity="2", when=NOW),
        "3": left(None, identity="3", when=old),
        "4": left(1, identity="4", when=old),
        "5": JobRecord("5", Submitted("5", time=old)),
        "5_0": left(0, identity="5_0", when=old),
    }
    jobs = [job("RUNNING", "3"), job("PENDING", "4", restarts=1), job("PENDING", "5_[1]"), job("COMPLETED", "1")]
    gone = follow.removable(kept, jobs, NOW - 30 * follow.DAY)
    assert [one.id for one in gone] == ["1", "5_0"]


def test_free_nodes() -> None:
    """In a sentence; what takes no jobs is no free GPU, and says why."""
    (free,) = follow.partitions(answers.sinfo_columns((RECORDED / "answers" / "sinfo.txt").read_text()))
    assert free.words == "1 of 2 nodes free, 1 partly, 5 of 8 GPUs free"
    assert free.out == ()
    (drained,) = follow.partitions(answers.sinfo_columns((RECORDED / "answers" / "sinfo_drained.txt").read_text()))
    assert drained.words == "0 of 2 nodes free, 1 partly, 1 of 8 GPUs free"
    assert drained.out == ("node02 drained: bad fan: 3",)


@pytest.mark.parametrize(
    ("state", "mark", "words"),
    [
        ("idle", "~", "1 of 1 node free"),  # switched off to save power: Slurm switches it on
        ("idle", "*", "0 of 1 node free"),
        ("idle", "-", "0 of 1 node free, 1 kept for a job that waits"),
        ("planned", "", "0 of 1 node free, 1 kept for a job that waits"),
        ("reserved", "", "0 of 1 node free"),
        ("allocated", "", "0 of 1 node free"),
    ],
)
def test_nodes_in_other_states(state: str, mark: str, words: str) -> None:
    """Each of sinfo's words and marks."""
    place = PartitionNode("p", False, "n1", state, mark, 0, 0, 8, 8, True, "1-00:00:00", "")
    (one,) = follow.partitions([place])
    assert one.words == words
    assert bool(one.out) is (mark == "*" or state == "reserved")


def test_a_closed_partition() -> None:
    """And one by its name."""
    place = PartitionNode("p", False, "n1", "idle", "", 0, 0, 8, 8, False, "infinite", "")
    assert [one.words for one in follow.partitions([place], "p")] == ["closed: takes no jobs now"]
    assert follow.partitions([place], "q") == []


@pytest.mark.parametrize(("more", "code"), [({"code": 3}, 3), ({"signal": 9}, 137), ({}, 1)])
def test_a_failed_job_that_mnrun_did_not_hand_in(more: dict[str, Any], code: int) -> None:
    """Slurm's word is its code, which is never 0 for what failed."""
    assert follow.code(job("FAILED", nodelist="n1", **more), None) == code
    assert follow.code(job("COMPLETED"), None) == 0
