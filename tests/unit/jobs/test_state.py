"""A job as a person follows it: the scheduler's word and the job's own, made one."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.jobs import state as follow
from mnrun.jobs.records import REQUEUED, Begun, Ended, JobRecord, Submitted
from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm import answers
from mnrun.schedulers.slurm.states import node_state
from mnrun.schedulers.vocabulary import JobState, NodeState
from unit.cases import Cases, given
from unit.samples import RECORDED
from unit.texts import Says

NOW = 1_700_000_000.0


def job(state: str, identity: str = "7", **more: Any) -> Job:
    return Job(identity, "train", JobState(state), nodes=2, **more)


def left(
    code: int | None, why: str = "", identity: str = "7", restart: int = 0, when: float = NOW, reason: str = ""
) -> JobRecord:
    ended = Ended(when, code, why, reason) if code is not None else None
    return JobRecord(
        identity, Submitted(identity, "train", nodes=2, gpus=8, time=when), restart, Begun(when, "n[1-2]"), ended
    )


def test_the_end_of_a_job(cases: Cases) -> None:
    """By the scheduler's word, and by its own record: the code, the state in words, and why."""

    def end(slurm: str, own: str) -> tuple[object, ...]:
        state, _, more = slurm.partition(" ")
        numbers: dict[str, Any] = {
            name: int(value) if value.isdecimal() else value for name, value in given(more).items()
        }
        word, _, said = own.partition(" ")
        record = {**given(said), "restart": int(given(said).get("restart", 0))} if word not in ("", "no") else {}
        known = job(state, **numbers) if slurm else None
        mine = left(int(word) if word.isdecimal() else None, **record) if own else None
        seen = follow.view("7", known, mine, NOW)
        return (follow.code(known, mine), seen.state, seen.words, seen.why)

    cases(end)


@pytest.mark.parametrize(("own", "code"), [(left(3), 3), (left(0), 0), (left(143), None), (left(0, REQUEUED), None)])
def test_when_slurm_need_not_be_asked(own: JobRecord, code: int | None) -> None:
    assert follow.final("7", {"7": own}) == code
    assert follow.final("7", {"7": left(None)}) is None
    assert follow.final("7", {}) is None


@pytest.mark.parametrize(
    ("ends", "code"), [((0, 3), 3), ((0, 0), 0), ((0,), None), ((0, None), None), ((143, 0), None), ((), None)]
)
def test_when_all_tasks_of_an_array_have_ended(ends: tuple[int | None, ...], code: int | None) -> None:
    tasks = {f"7_{n}": left(end, identity=f"7_{n}") for n, end in enumerate(ends)}
    other = {"8_0": left(5, identity="8_0")}
    assert follow.final("7", {"7": JobRecord("7", Submitted("7", tasks=2)), **tasks, **other}) == code
    assert follow.final("7", {"7": JobRecord("7", Submitted("7")), **tasks}) is None


def test_a_job_that_runs() -> None:
    seen = follow.view("7", job("RUNNING", nodelist="n[1-2]", gpus=8, end=NOW + 90), None, NOW)
    assert (seen.words, seen.why, seen.nodelist, seen.gpus, seen.left, seen.code) == (
        *("running", "", "n[1-2]", 8, 90, None),
    )
    assert follow.view("7", job("RUNNING", end=NOW - 5), None, NOW).left == 0
    assert follow.view("7", job("RUNNING"), None, NOW).left is None


def test_a_job_of_which_only_its_directory_knows(says: Says) -> None:
    seen = follow.view("7", None, left(3, "n2 was lost", reason="node"), NOW)
    assert (seen.words, seen.code, seen.nodelist, seen.gpus) == ("failed", 3, "n[1-2]", 8)
    assert (seen.why, seen.reason) == ("n2 was lost", "node")
    assert follow.view("7", None, left(0), NOW).words == "done"
    gone = follow.view("7", None, left(None), NOW)
    assert (gone.words, gone.code) == ("unknown", None)
    says(gone.why)
    says(follow.view("7", None, JobRecord("7", Submitted("7")), NOW).why)


def test_why_a_job_failed(says: Says) -> None:
    assert follow.view("7", job("FAILED", code=1), left(121, "node n2 was lost"), NOW).why == "node n2 was lost"
    assert follow.view("7", job("FAILED", signal=9, nodelist="n1"), None, NOW).why == "signal 9"
    refused = follow.view("7", job("FAILED", signal=1), None, NOW)
    assert (refused.code, refused.nodes) == (123, 0)
    says(refused.why)


@pytest.mark.parametrize(
    ("code", "end", "why"),
    [
        (3, Ended(20, 3, "rank 1 on n1 exited with 3", "rank"), "rank 1 on n1 exited with 3"),
        (1, Ended(20, 3, "rank 1 on n1 exited with 3", "rank"), "its last launch ended with 3: rank 1 on n1"),
        (3, Ended(5, 3, "of an older cluster"), ""),
        (0, Ended(20, 3, "a shell that went on"), ""),
    ],
)
def test_why_a_live_run_failed(code: int, end: Ended, why: str) -> None:
    told = job("COMPLETED" if not code else "FAILED", code=code, submitted=10, end=30, nodelist="n1")
    shown = follow.view("7", told, None, 40)
    assert shown.why == ""
    found = follow.with_live_end(shown, end)
    assert found.why.startswith(why) and bool(found.why) == bool(why)


@pytest.mark.parametrize(("code", "end", "shown"), [(2, 130, 130), (9, 137, 137), (2, 143, 2), (130, 130, 130)])
def test_the_code_of_a_live_run_that_a_signal_ended(code: int, end: int, shown: int) -> None:
    """The accounting of Slurm has the signal's number as the code."""
    told = follow.view("7", job("FAILED", code=code, submitted=10, end=30, nodelist="n1"), None, 40)
    assert follow.with_live_end(told, Ended(20, end, "ended by a signal")).code == shown


def test_where_an_ending_job_ran() -> None:
    """Slurm names only the nodes that still clean up."""
    assert follow.view("7", job("COMPLETING", nodelist="n1"), left(3), NOW).nodelist == "n[1-2]"


def test_why_a_job_waits() -> None:
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
    jobs = [job("RUNNING", "9_1"), job("PENDING", "9_[2-3%1]"), job("RUNNING", "12")]
    kept = {"9": JobRecord("9", Submitted("9")), "9_0": left(0, identity="9_0"), "5": JobRecord("5", Submitted("5"))}
    seen, unknown = follow.gather(["9", "4711"], jobs, (), kept, NOW)
    assert [one.id for one in seen] == ["9_0", "9_1", "9_[2-3%1]"]
    assert unknown == ["4711"]
    assert [one.id for one in follow.gather(["9_3"], jobs, (), kept, NOW)[0]] == ["9_[2-3%1]"]
    assert [one.id for one in follow.gather(["5"], jobs, (), kept, NOW)[0]] == ["5"]


def test_which_jobs_have_ended() -> None:
    jobs = [job("COMPLETED", "9_0"), job("FAILED", "9_1", code=3), job("RUNNING", "8_0"), job("FAILED", "8_1", code=3)]
    kept = {"7": left(None), "6": left(4, identity="6")}
    ended, lost = follow.ends(["9", "8", "7", "6", "5"], kept, jobs, (), NOW)
    assert ended == {"9": 3, "6": 4}
    assert lost == ["7", "5"]


def test_what_may_be_removed() -> None:
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
    (free,) = follow.partitions(answers.sinfo_columns((RECORDED / "answers" / "sinfo.txt").read_text()))
    assert free.words == "1 of 2 nodes free, 1 partly, 5 of 8 GPUs free"
    assert free.out == ()
    (drained,) = follow.partitions(answers.sinfo_columns((RECORDED / "answers" / "sinfo_drained.txt").read_text()))
    assert drained.words == "0 of 2 nodes free, 1 partly, 1 of 8 GPUs free"
    assert drained.out == ("node02 drained: bad fan: 3",)


def test_nodes_in_other_states(cases: Cases) -> None:
    """`idle~` is switched off to save power: Slurm switches it on."""

    def words(state: str, mark: str) -> str:
        found, why = node_state(state, mark, "")
        (one,) = follow.partitions([PartitionNode("p", False, "n1", found, 0, 0, 8, 8, True, "1-00:00:00", why)])
        return f"{one.words}{'; out' if one.out else ''}"

    cases(words)


def test_a_closed_partition() -> None:
    place = PartitionNode("p", False, "n1", NodeState.FREE, 0, 0, 8, 8, False, "infinite")
    assert [one.words for one in follow.partitions([place], "p")] == ["closed: takes no jobs now"]
    assert follow.partitions([place], "q") == []
