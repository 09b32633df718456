"""What Grid Engine 8.1.9 said, as mnrun reads it."""

from __future__ import annotations

from mnrun.schedulers import arrays
from mnrun.schedulers.sge import answers
from mnrun.schedulers.vocabulary import JobState
from unit.cases import Cases
from unit.samples import RECORDED

SAID = RECORDED / "sge"


def said(name: str) -> str:
    return (SAID / name).read_text()


def test_hosts_of_a_job_keep_their_order() -> None:
    assert list(answers.hosts(said("pe_hostfile.txt")).values()) == [2, 2]
    assert answers.hosts("b 2 all.q@b UNDEFINED\na 2 all.q@a <NULL>\nb 1 few.q@b x\n") == {"b": 3, "a": 2}


def test_positions_of_an_array_become_its_tasks(cases: Cases) -> None:
    cases(lambda task, array: arrays.identity("24", task, array))


def test_a_task_knows_its_position() -> None:
    assert [arrays.position("1+7+5", task) for task in ("1", "5", "7", "8")] == ["1", "2", "3", "8"]


def test_jobs_of_the_queue() -> None:
    jobs = answers.queue(said("qstat.xml"), {"24": "0-2"})
    by_id = {job.id: job for job in jobs}
    assert by_id["27"].state == JobState.RUNNING
    assert (by_id["27"].name, by_id["27"].partition, by_id["27"].nodelist) == ("mpi", "all.q", "node04")
    assert by_id["27"].start > by_id["22"].submitted
    assert {"24_0", "24_1", "24_2"} <= set(by_id)
    assert by_id["38"].state == JobState.PENDING
    assert by_id["26"].reason == "held, or waits for another job"


def test_letters_of_states(cases: Cases) -> None:
    cases(lambda letters: answers.job_state(letters).value)


def test_details_of_a_job() -> None:
    job = answers.details(said("qstat_j.xml"))["27"]
    assert (job.owner, job.pe, job.notify, job.gpus, job.output) == ("alice", "mpi-2", True, 0.5, "/dev/null")
    assert answers.details(said("qstat_j_none.xml")) == {}


def test_ends_of_jobs(cases: Cases) -> None:
    """A job in a PE has a record for each of its tasks, too."""

    def end(file: str) -> tuple[object, ...]:
        (job,) = answers.history(said(f"qacct_{file}.txt"))
        assert job.end >= job.start > 0
        return (job.state.value, job.code, job.signal)

    cases(end)


def test_ends_of_the_tasks_of_an_array() -> None:
    """Without the request of the array nobody knows which task had a position."""
    found = {job.id: job.code for job in answers.history(said("qacct_array.txt"), {"52": "0-3"})}
    assert found == {"52_1": 2, "52_2": 3, "52_3": 4}
    assert answers.history(said("qacct_array.txt")) == []
    assert answers.history(said("qacct_none.txt")) == []


def test_tables_of_qconf() -> None:
    pes = [answers.table(part) for part in said("sp.txt").split("\n\n") if part]
    assert {pe["pe_name"]: pe["allocation_rule"] for pe in pes} == {
        "mpi-2": "2",
        "smp": "$pe_slots",
        "round": "$round_robin",
        "loose": "3",
    }
