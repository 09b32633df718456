"""The last line about a program that failed: which rank, on which node, how, and why if its output names it."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import JobEnded, LaunchError, NodeError, RuntimeFailed, TimeLimit
from mnrun.model import Culprit, Outcome, Site
from mnrun.nodes.status import Roster
from mnrun.running import reasons
from mnrun.schedulers.vocabulary import JobState
from unit.samples import build, make
from unit.texts import Refused, Says

MISSING = (
    "app: error while loading shared libraries: libm.so.9: cannot open shared object file: No such file or directory"
)
RANK = Culprit(5, "node03")


@pytest.mark.parametrize(
    ("code", "culprit", "end"),
    [
        (1, RANK, "rank 5 on node03 exited with 1"),
        (125, None, "the program exited with 125"),
        (128, RANK, "rank 5 on node03 exited with 128"),
        (137, RANK, "rank 5 on node03 was killed by signal 9 (KILL)"),
        (139, None, "the program was killed by signal 11 (SEGV)"),
        (255, RANK, "rank 5 on node03 exited with 255"),
    ],
)
def test_an_end_without_a_known_cause(code: int, culprit: Culprit | None, end: str) -> None:
    assert reasons.last_line(Outcome(code, culprit=culprit), ["step 1", "error: 0.01"]) == (end, "", "")


@pytest.mark.parametrize("contained", [True, False])
def test_an_end_with_its_cause(contained: bool, says: Says) -> None:
    why, remedy, reason = reasons.last_line(Outcome(127, culprit=RANK), [MISSING], contained)
    assert reason == "loader-library"
    says(f"{why}; {remedy}")


def test_a_cause_that_does_not_fit_the_exit_code() -> None:
    assert reasons.last_line(Outcome(3, culprit=RANK), [MISSING]) == ("rank 5 on node03 exited with 3", "", "")


@pytest.mark.parametrize("tool", ["PRTE", "ORTE"])
def test_an_mpirun_that_ends_with_0_as_it_loses_a_node(refused: Refused, tool: str) -> None:
    outcome = Outcome(0, silent=("node02",))
    reasons.refuse_lost(outcome, ["a line"])
    with refused(NodeError):
        reasons.refuse_lost(outcome, ["a line", f"{tool} has lost communication with a remote daemon."])
    box = [
        "PRTE has lost communication with a remote daemon.",
        "",
        "  Remote daemon: [prterun-node01-7@0,3] on node node04",
    ]
    with refused(NodeError):
        reasons.refuse_lost(Outcome(0, doubted=True), box)


@pytest.mark.parametrize(
    ("state", "error"), [(JobState.CANCELLED, JobEnded), (JobState.TIMEOUT, TimeLimit), (JobState.RUNNING, NodeError)]
)
def test_a_job_that_ends_takes_its_connections_along(
    mocker: MockerFixture, state: JobState, error: type[Exception]
) -> None:
    """No warning comes before a lost connection: `flux cancel` takes the other nodes away at once (flux-core 0.88)."""
    scheduler = mocker.Mock(
        SINGLE=False, **{"ending.return_value": state, "time_limit.return_value": "", "lost.return_value": {}}
    )
    plan = make(build("./app"), 2, 1)
    roster = Roster(plan.layout.nodes)
    roster.lose(("node02",), "the connection to it broke")
    found = reasons.Reasons(plan, Site("flux", "7"), scheduler, {}).failure(roster)
    assert type(found) is error


@pytest.mark.parametrize(
    ("why", "error"), [("no free port in 1-2 for the ranks' MASTER_PORT", NodeError), ("it broke", RuntimeFailed)]
)
def test_a_node_without_a_free_port(
    mocker: MockerFixture, refused: Refused, why: str, error: type[LaunchError]
) -> None:
    """W8: that is no failure of the runtime."""
    plan = make(build("./app"), 2, 1)
    roster = Roster(plan.layout.nodes)
    roster.hear(f"fail node01 {why}")
    with refused(error):
        raise reasons.Reasons(plan, Site("slurm", "7"), mocker.Mock(), {}).failure(roster)


@pytest.mark.parametrize(("warned", "error"), [("", NodeError), ("warned node02 USR2", JobEnded)])
def test_a_node_that_is_lost_without_a_warning_has_ended_the_job(
    mocker: MockerFixture, warned: str, error: type[Exception]
) -> None:
    """Grid Engine deletes a job that loses the processes of a node. A job with -notify gets USR2 before each other
    end, and KILL some seconds later (qsub(1))."""
    scheduler = mocker.Mock(SINGLE=False, **{"ending.return_value": JobState.CANCELLED, "lost.return_value": {}})
    plan = make(build("./app"), 2, 1)
    roster = Roster(plan.layout.nodes)
    roster.hear(warned)
    roster.lose(("node02",), "the connection to it broke")
    roster.hear("warned node01 USR2")  # another one
    known = reasons.Reasons(plan, Site("sge", "7", foretold=True), scheduler, {})
    assert type(known.failure(roster)) is error
    assert known.unforeseen(["node02"], roster) == (["node02"] if error is NodeError else [])
    assert type(known.not_ready(roster, [], 0, False)) is JobEnded, "a warning may have met no guard yet"
